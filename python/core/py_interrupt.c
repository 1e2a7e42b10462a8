/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C while the library works. Python notes a signal at once and raises KeyboardInterrupt when the main thread runs
   Python code again, which a long run would put off to its end. So the main thread's calls belong to a stop, which a
   handler of SIGINT sets before it calls Python's own one. The call then ends within milliseconds, what it worked on is
   as it was before, and Python's handler decides: if it raises, that is the exception of the call; if it does not, the
   call is made again. Other threads are not interrupted, as in Python itself. */
#include "py_core.h"

#include <fluxion/stop.h>

#include <errno.h>
#include <signal.h>
#include <time.h>

static flx_stop *volatile current;     /* of the main thread; read by the handler */
static struct sigaction python_action; /* what the handler calls */
static unsigned long main_thread;
static long last_look; /* at the handler that is installed, in ticks of the coarse clock */

static void on_interrupt(int number, siginfo_t *info, void *context)
{
    int error = errno;
    if (current)
        flx_stop_request(current);
    if (python_action.sa_flags & SA_SIGINFO)
        python_action.sa_sigaction(number, info, context);
    else
        python_action.sa_handler(number);
    errno = error;
}

static int is_ours(const struct sigaction *a)
{
    return a->sa_flags & SA_SIGINFO && a->sa_sigaction == on_interrupt;
}

/* Puts the handler before the one that is installed, unless the signal ends the process or is ignored. A program may
   install another one at any time (signal.signal), so this is repeated. */
static void install(void)
{
    struct sigaction now, next;
    if (sigaction(SIGINT, NULL, &now) != 0 || is_ours(&now))
        return;
    if (!(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))
        return;
    python_action = now;
    next = now;
    next.sa_flags |= SA_SIGINFO;
    next.sa_sigaction = on_interrupt;
    sigaction(SIGINT, &next, NULL);
}

/* A system call for each run of a small graph would take 10% of its time: one in each tick is enough. */
static void look_at_handler(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    long tick = now.tv_nsec ^ (long)now.tv_sec;
    if (tick == last_look)
        return;
    last_look = tick;
    install();
}

/* A stop remains set: one that was is replaced. */
static void renew_stop(void)
{
    flx_stop *old = current, *next = flx_stop_new(core_context, 0, NULL);
    current = next;
    flx_stop_free(old);
}

/* A stop that was set between two calls ends the next one: only after it Python's handler has certainly been asked. */

void work_begin(void)
{
    if (PyThread_get_thread_ident() != main_thread)
        return;
    look_at_handler();
    if (!current)
        renew_stop();
    flx_stop_use(current);
}

int work_is_repeated(flx_error *err)
{
    if (PyThread_get_thread_ident() != main_thread)
        return 0;
    flx_stop_use(NULL);
    if (err->code != FLX_E_CANCELLED)
        return 0;
    renew_stop();
    if (PyErr_CheckSignals() < 0)
        return 0;
    *err = (flx_error){0};
    return 1;
}

int prepare_interrupts(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (ident)
        main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    return PyErr_Occurred() ? -1 : 0;
}
