/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: the steps of an executable, and how long each takes in a run. */
#include "runtime/exec.h"

flx_code flx_exec_step(const flx_exec *e, size_t i, flx_step *out)
{
    if (!e || !out)
        return FLX_E_USAGE;
    const flxi_program *m = flxi_exec_program(e);
    if (!m || i >= m->all_steps.n)
        return FLX_E_NAME;
    const flxi_routine *l = m->all_steps.at[i].block;
    const flxi_step *s = &l->steps[m->all_steps.at[i].step];
    *out = (flx_step){
        .kind = flxi_step_kind_name(l, s),
        .name = s->name,
        .block = l->g->name,
        .computes = s->computes,
        .why = s->why,
        .depth = (int32_t)l->depth,
        .bytes = s->bytes,
        .flops = s->flops,
    };
    return FLX_OK;
}

/* ---- Profile ---- */

typedef struct {
    flx_step_time *times;
    size_t n, capacity;
} profile;

static void begin_profile(profile *p, const flxi_program *m)
{
    p->n = m->all_steps.n;
    for (size_t i = 0; i < p->n && i < p->capacity; i++) {
        const flxi_routine *l = m->all_steps.at[i].block;
        const flxi_step *s = &l->steps[m->all_steps.at[i].step];
        p->times[i] =
            (flx_step_time){.name = s->name, .bytes = s->bytes, .flops = s->flops, .depth = (int32_t)l->depth};
    }
}

static void observe(void *user, const flxi_routine *l, unsigned char *base, uint32_t step, int64_t time_ns)
{
    profile *p = user;
    size_t i = l->steps[step].number;
    (void)base;
    if (p->n == 0)
        begin_profile(p, l->program);
    if (i >= p->capacity)
        return;
    p->times[i].runs++;
    p->times[i].time_ns += time_ns;
}

flx_code flx_exec_profile(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                          flx_tensor **outputs, flx_step_time *steps, size_t capacity, size_t *count, flx_error *err)
{
    flx_error local = {0};
    flx_run_options o;
    flx_code code = flxi_exec_check_run("flx_exec_profile", e, options, feeds, num_feeds, outputs, &o, &local);
    if (code == FLX_OK && capacity && !steps)
        code = flxi_fail(&local, FLX_E_USAGE, "flx_exec_profile: where to write the steps must be given");
    profile p = {.times = steps, .capacity = capacity};
    if (code == FLX_OK) {
        flxi_run_setup setup = flxi_exec_setup(e, &o);
        setup.observe = observe;
        setup.observe_user = &p;
        code = flxi_exec_run_named(e, &setup, feeds, num_feeds, outputs, &local);
    }
    if (count)
        *count = p.n;
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
