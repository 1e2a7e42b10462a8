/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: signals and the time limit. Ctrl-C and SIGTERM stop what the library does, so that compilers are ended
   and temporary files removed before the process ends by the signal. A second signal ends it at once. A file that grows
   beyond the limit of the process is an error of the write, not a signal. */
#ifndef FLX_INTERRUPT_H
#define FLX_INTERRUPT_H

/* From here on. */
void interrupt_begin(void);
/* All that the library does from now on ends after that many seconds. Returns a status. */
int interrupt_limit(double seconds);
/* Ends the process by the signal that arrived, if one did; otherwise returns. */
void interrupt_end(void);

#endif
