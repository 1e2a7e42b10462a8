/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: see progress.h. Progress goes to standard error, so that results can be piped. */
#include "train/outcome/progress.h"

#include "compiling.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

static const double redraw_seconds = 0.1, line_seconds = 5;

void progress_begin(progress *p, int64_t steps, int64_t first_step)
{
    *p = (progress){.steps = steps, .first_step = first_step, .is_terminal = isatty(STDERR_FILENO)};
}

void progress_step(progress *p, const flx_progress *state)
{
    char text[200];
    double now = clock_seconds();
    flx_progress shown = *state; /* a training that was resumed counts from its beginning */
    shown.total_steps += p->first_step;
    shown.num_steps = p->steps;
    bool is_edge = state->total_steps == 1 || shown.total_steps == p->steps;
    if (!is_edge && now - p->shown < (p->is_terminal ? redraw_seconds : line_seconds))
        return;
    p->shown = now;
    flx_progress_text(&shown, p->is_terminal ? BAR_WIDTH : 0, text, sizeof text);
    fprintf(stderr, "%s%s%s", p->is_terminal ? "\r" : "", text, p->is_terminal ? "\033[K" : "\n");
    fflush(stderr);
}

void progress_end(progress *p)
{
    if (p->is_terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

const char *progress_name(const flx_metric *m)
{
    return strcmp(m->name, "out0") == 0 ? "loss" : m->name;
}

static void put_metrics(const char *title, const flx_metric *metrics, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%s %.4f", i ? ", " : title, progress_name(&metrics[i]), metrics[i].value);
}

void progress_epoch(progress *p, const flx_progress *state, int64_t epoch, bool is_whole, bool is_best)
{
    progress_end(p);
    printf("epoch %lld%s: ", (long long)epoch, is_whole ? "" : " (part)");
    put_metrics("", state->metrics, state->num_metrics);
    put_metrics(state->num_metrics ? "; validation " : "validation ", state->validation, state->num_validation);
    printf("%s\n", is_best ? " (best)" : "");
    fflush(stdout);
}
