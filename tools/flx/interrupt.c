/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c: see interrupt.h. */
#include "interrupt.h"

#include "report.h"

#include <fluxion/stop.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static flx_context *ctx;
static flx_stop *volatile stop; /* read by the handler */
static volatile sig_atomic_t caught;
static const char *volatile said;

/* Those that are sent to end a process, the limit of its processor time among them. */
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU};

static void handle(int number)
{
    flx_stop *now = stop;
    const char *text = said;
    caught = number;
    if (now)
        flx_stop_request(now);
    if (text && write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* no one reads it */
}

/* Not for signals that are ignored, as in a background job of a shell without job control. A second signal has its
   usual effect; but after the first write to a closed pipe others follow, and they must not end the process early. */
static void catch_signal(int number)
{
    struct sigaction before, action = {.sa_handler = handle, .sa_flags = number == SIGPIPE ? 0 : (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

/* Without memory for it signals have their usual effect. */
void interrupt_begin(void)
{
    signal(SIGXFSZ, SIG_IGN);
    ctx = flx_context_new(NULL);
    stop = ctx ? flx_stop_new(ctx, 0, NULL) : NULL;
    if (!stop)
        return;
    flx_stop_use(stop);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        catch_signal(ending[i]);
}

void interrupt_say(const char *text)
{
    said = text;
}

bool interrupt_is_caught(void)
{
    return caught != 0;
}

bool interrupt_has_no_reader(void)
{
    return caught == SIGPIPE;
}

int interrupt_limit(double seconds)
{
    flx_error err = {0};
    flx_stop *before = stop, *next = ctx ? flx_stop_new(ctx, seconds, &err) : NULL;
    if (!ctx)
        return fail_memory();
    if (!next)
        return report(&err, NULL);
    flx_stop_use(next);
    stop = next;
    if (caught)
        flx_stop_request(next);
    flx_stop_free(before);
    return STATUS_OK;
}

void interrupt_end(void)
{
    flx_stop *last = stop;
    stop = NULL;
    flx_stop_use(NULL);
    flx_stop_free(last);
    flx_context_free(ctx);
    if (!caught)
        return;
    fflush(NULL);
    signal(caught, SIG_DFL);
    raise(caught);
}
