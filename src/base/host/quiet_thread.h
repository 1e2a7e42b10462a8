/* SPDX-License-Identifier: Apache-2.0 */
/* quiet_thread.h: threads of the library's own. Signals are the business of the program's threads, so these block them
   all. */
#ifndef FLXI_QUIET_THREAD_H
#define FLXI_QUIET_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* False when the system gives no thread. */
bool flxi_thread_start(pthread_t *thread, void *(*run)(void *), void *user);

#endif
