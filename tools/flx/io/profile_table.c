/* SPDX-License-Identifier: Apache-2.0 */
/* profile_table.c: see profile_table.h. The time of a loop or branch includes that of the steps inside, which are
   indented below it, so shares are of the outermost steps. */
#include "io/profile_table.h"

#include "io/json_writer.h"

#include <stdio.h>
#include <string.h>

static const int max_name_width = 48;

double profile_seconds(const flx_step_time *steps, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += steps[i].depth == 0 ? steps[i].time_ns : 0;
    return 1e-9 * (double)sum;
}

const char *scaled_text(char text[24], double value, const char *unit)
{
    static const char prefixes[] = " kMGTPE";
    size_t p = 0;
    while (value >= 1000 && p + 1 < sizeof prefixes - 1) {
        value /= 1000;
        p++;
    }
    if (p == 0)
        snprintf(text, 24, "%.0f %s", value, unit);
    else
        snprintf(text, 24, "%.*f %c%s", value < 10 ? 2 : value < 100 ? 1 : 0, value, prefixes[p], unit);
    return text;
}

/* Amount per second in units of 10^9; 0 when there was no time to measure. */
static double rate(int64_t amount, const flx_step_time *t)
{
    return t->time_ns > 0 ? (double)amount * (double)t->runs / (double)t->time_ns : 0;
}

static double share_of(const flx_step_time *t, double total)
{
    return total > 0 ? 1e-9 * (double)t->time_ns / total : 0;
}

static int name_width(const flx_step_time *steps, size_t n)
{
    int width = (int)strlen("total");
    for (size_t i = 0; i < n; i++) {
        int w = 2 * steps[i].depth + (int)strlen(steps[i].name);
        width = w > width ? w : width;
    }
    return width < max_name_width ? width : max_name_width;
}

void profile_print(const flx_step_time *steps, size_t n)
{
    double total = profile_seconds(steps, n);
    int width = name_width(steps, n);
    printf("%-*s %8s %12s %7s %9s %8s %11s %9s\n", width, "step", "runs", "time", "share", "bytes", "GB/s", "flops",
           "GFLOP/s");
    for (size_t i = 0; i < n; i++) {
        const flx_step_time *t = &steps[i];
        char bytes[24], flops[24];
        int indent = 2 * t->depth;
        printf("%*s%-*s %8lld %9.3f ms %6.1f%% %9s %8.2f", indent, "", width > indent ? width - indent : 0, t->name,
               (long long)t->runs, 1e-6 * (double)t->time_ns, 100 * share_of(t, total),
               scaled_text(bytes, (double)t->bytes, "B"), rate(t->bytes, t));
        if (t->flops > 0)
            printf(" %11s %9.2f\n", scaled_text(flops, (double)t->flops, "FLOP"), rate(t->flops, t));
        else
            printf(" %11s %9s\n", "-", "-");
    }
    printf("%-*s %8s %9.3f ms\n", width, "total", "", 1e3 * total);
}

void profile_json(const flx_exec *e, const flx_step_time *steps, size_t n)
{
    double total = profile_seconds(steps, n);
    for (size_t i = 0; i < n; i++) {
        const flx_step_time *t = &steps[i];
        flx_step step;
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "step", t->name);
        if (flx_exec_step(e, i, &step) == FLX_OK)
            json_text(&j, "kind", step.kind);
        json_integer(&j, "depth", t->depth);
        json_integer(&j, "runs", t->runs);
        json_number(&j, "time_ms", 1e-6 * (double)t->time_ns, 24);
        json_number(&j, "share", share_of(t, total), 24);
        json_integer(&j, "bytes", t->bytes);
        json_number(&j, "gb_per_s", rate(t->bytes, t), 24);
        json_integer(&j, "flops", t->flops);
        json_number(&j, "gflop_per_s", rate(t->flops, t), 24);
        json_object_end(&j);
    }
}
