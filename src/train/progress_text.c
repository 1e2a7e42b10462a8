/* SPDX-License-Identifier: Apache-2.0 */
/* progress_text.c: how far a fit is, in words. */
#include "train/train.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct {
    char *at;
    size_t size, n; /* room; characters so far, without the 0 byte */
} line;

static void add(line *l, const char *fmt, ...) FLX_PRINTF(2, 3);

static void add(line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int written = l->n + 1 < l->size ? vsnprintf(l->at + l->n, l->size - l->n, fmt, args) : 0;
    va_end(args);
    l->n += written > 0 ? (size_t)written : 0;
    if (l->n + 1 > l->size)
        l->n = l->size - 1;
}

/* "1:05" or "2:10:00". */
static void add_time(line *l, double seconds)
{
    int64_t s = seconds > 0 && seconds < 1e15 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        add(l, "%lld:%02d:%02d", (long long)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        add(l, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static void add_speed(line *l, double speed)
{
    if (speed >= 1e6)
        add(l, "%.1fM", 1e-6 * speed);
    else if (speed >= 1e3)
        add(l, "%.1fk", 1e-3 * speed);
    else
        add(l, "%.0f", speed);
}

static void add_bar(line *l, const flx_progress *p, int32_t width)
{
    if (width <= 0 || !p->num_steps)
        return;
    int32_t filled = (int32_t)((double)p->total_steps / (double)p->num_steps * width);
    add(l, "[");
    for (int32_t i = 0; i < width; i++)
        add(l, "%c", i < filled ? '#' : '.');
    add(l, "] ");
}

static void add_metrics(line *l, const char *title, const flx_metric *metrics, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(l, "%s%s %.4f", i ? ", " : title, metrics[i].name, metrics[i].value);
}

const char *flx_progress_text(const flx_progress *p, int32_t bar, char *text, size_t size)
{
    line l = {text, size, 0};
    if (!text || !size)
        return text;
    text[0] = 0;
    if (!p)
        return text;
    if (p->is_epoch_end) {
        add(&l, "epoch %lld", (long long)p->epoch + 1);
        add_metrics(&l, ": ", p->metrics, p->num_metrics);
        add_metrics(&l, "; validation ", p->validation, p->num_validation);
        return text;
    }
    add_bar(&l, p, bar);
    add(&l, "step %lld", (long long)p->total_steps);
    if (p->num_steps)
        add(&l, " of %lld", (long long)p->num_steps);
    add(&l, "  loss %.4f", p->recent_loss);
    if (p->speed > 0) {
        add(&l, "  ");
        add_speed(&l, p->speed);
        add(&l, " %s/s", p->tokens ? "tokens" : "examples");
    }
    if (isfinite(p->seconds_left)) {
        add(&l, "  ");
        add_time(&l, p->seconds_left);
        add(&l, " left");
    }
    return text;
}
