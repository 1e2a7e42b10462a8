/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: signals and the time limit. Ctrl-C, SIGTERM and others that end a process stop what the library does, so
   that compilers are ended and temporary files removed before the process ends by the signal. A second signal ends it
   at once. A file that grows beyond the limit of the process is an error of the write, not a signal. */
#ifndef FLX_INTERRUPT_H
#define FLX_INTERRUPT_H

#include <stdbool.h>

/* From here on. */
void interrupt_begin(void);
/* All that the library does from now on ends after that many seconds. Returns a status. */
int interrupt_limit(double seconds);
/* Whether a signal wants the program to end. */
bool interrupt_is_caught(void);
/* Whether a pipe has been closed by its reader, as by `flx ops | head`: what cannot be written then is not reported. */
bool interrupt_has_no_reader(void);
/* What a signal that wants the program to end writes to standard error when it comes; NULL: nothing. The text must stay
   until the call after the next one. */
void interrupt_say(const char *text);
/* Ends the process by the signal that arrived, if one did; otherwise returns. */
void interrupt_end(void);

#endif
