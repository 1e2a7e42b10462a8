/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: see progress.h. Progress goes to standard error, so that results can be piped. */
#include "train/progress.h"

#include "compiling.h"
#include "io/profile_table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

static const double redraw_seconds = 0.1, line_seconds = 5;

void progress_begin(progress *p, int64_t steps, int64_t first_step, int64_t tokens)
{
    *p = (progress){.steps = steps,
                    .first_step = first_step,
                    .tokens = (double)tokens,
                    .unit = tokens > 1 ? "tokens" : "examples",
                    .is_terminal = isatty(STDERR_FILENO),
                    .begin = clock_seconds()};
    p->last = p->begin;
}

/* "1:05" or "2:10:00". */
static const char *time_text(char text[24], double seconds)
{
    int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, 24, "%lld:%02d:%02d", (long long)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(text, 24, "%d:%02d", (int)(s / 60), (int)(s % 60));
    return text;
}

/* "1.5 k", without a space before nothing. */
static const char *rate_text(char text[24], double rate)
{
    snprintf(text, 24,
             rate >= 1e6   ? "%.1fM"
             : rate >= 1e3 ? "%.1fk"
                           : "%.0f",
             rate >= 1e6   ? 1e-6 * rate
             : rate >= 1e3 ? 1e-3 * rate
                           : rate);
    return text;
}

static void put_bar(const progress *p, int64_t step)
{
    int filled = (int)((double)step / (double)p->steps * BAR_WIDTH);
    fputs("\r[", stderr);
    for (int i = 0; i < BAR_WIDTH; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fputs("] ", stderr);
}

void progress_step(progress *p, int64_t step, double loss, int64_t examples)
{
    char rate[24], left[24];
    double now = clock_seconds(), taken = now - p->last;
    double units = (double)examples * p->tokens, speed = taken > 0 ? units / taken : 0;
    bool is_first = step == p->first_step + 1; /* which compiles: it says nothing about the others */
    p->last = now;
    p->examples += (double)examples;
    p->loss = is_first ? loss : 0.9 * p->loss + 0.1 * loss;
    p->rate = p->rate == 0 ? speed : 0.95 * p->rate + 0.05 * speed;
    if (is_first) {
        p->rate = 0;
        p->begin = now;
    }
    if (!is_first && step != p->steps && now - p->shown < (p->is_terminal ? redraw_seconds : line_seconds))
        return;
    p->shown = now;
    if (p->is_terminal)
        put_bar(p, step);
    fprintf(stderr, "step %lld of %lld  loss %.4f", (long long)step, (long long)p->steps, p->loss);
    if (!is_first) {
        double per_step = (now - p->begin) / (double)(step - p->first_step - 1);
        fprintf(stderr, "  %s %s/s  %s left", rate_text(rate, p->rate), p->unit,
                time_text(left, per_step * (double)(p->steps - step)));
    }
    fputs(p->is_terminal ? "\033[K" : "\n", stderr);
    fflush(stderr);
}

void progress_end(progress *p)
{
    if (p->is_terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

static void put_metrics(const char *title, const flx_metric *metrics, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%s %.4f", i ? ", " : title, metrics[i].name, metrics[i].value);
}

void progress_epoch(progress *p, const flx_progress *state, int64_t epoch, bool is_whole, bool is_best)
{
    progress_end(p);
    printf("epoch %lld%s: ", (long long)epoch, is_whole ? "" : " (part)");
    put_metrics("", state->metrics, state->num_metrics);
    put_metrics("; validation ", state->validation, state->num_validation);
    printf("%s\n", is_best ? " (best)" : "");
    fflush(stdout);
    p->last = clock_seconds();
}
