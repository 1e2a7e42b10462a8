/* SPDX-License-Identifier: Apache-2.0 */
/* quiet_thread.h: the library's own threads. Signals are for the threads of the program, so these threads block all of
   them. */
#ifndef FLXI_QUIET_THREAD_H
#define FLXI_QUIET_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* False if the system cannot create a thread. */
bool flxi_thread_start(pthread_t *thread, void *(*run)(void *), void *user);

#endif
