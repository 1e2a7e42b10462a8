/* SPDX-License-Identifier: Apache-2.0 */
/* quiet_thread.c: see quiet_thread.h. A new thread inherits the signal mask of its creator. */
#include "base/host/quiet_thread.h"

#include <signal.h>

bool flxi_thread_start(pthread_t *thread, void *(*run)(void *), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool is_started = pthread_create(thread, NULL, run, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}
