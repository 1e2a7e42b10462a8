/* SPDX-License-Identifier: Apache-2.0 */
/* log_program.c: events of compiling: the time it took, and every step that the reference evaluator computes, with the
   reason. */
#include "compile/log_program.h"

#include <time.h>

int64_t flxi_log_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void log_steps(const flxi_program *p)
{
    for (size_t i = 0; i < p->all_steps.n; i++) {
        const flxi_routine *l = p->all_steps.at[i].routine;
        const flxi_step *s = &l->steps[p->all_steps.at[i].step];
        flx_log_event event = s->is_defect ? FLX_LOG_REFUSED : FLX_LOG_FALLBACK;
        if (flxi_step_is_slow(l, s))
            flxi_log(p->ctx, event, s->name, "computed by the reference evaluator: %s", s->why);
        else if (s->is_defect)
            flxi_log(p->ctx, event, s->name, "computed by %s: %s", s->way ? s->way->name : "itself", s->no_kernel);
    }
}

void flxi_log_program(const flxi_program *p, const char *name, int64_t time_ns)
{
    if (!flxi_is_logging(p->ctx))
        return;
    if (!p->grouping.evaluate_all) /* interpreting was asked for, or a message of its own says why */
        log_steps(p);
    flxi_log(p->ctx, FLX_LOG_COMPILED, name, "%zu steps, %zu kernels, %.1f ms", p->all_steps.n, p->kernels.n,
             (double)time_ns * 1e-6);
}
