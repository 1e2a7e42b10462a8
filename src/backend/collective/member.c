/* SPDX-License-Identifier: Apache-2.0 */
/* member.c: joining and leaving a mesh, its axes, and the processes along them. */
#include "backend/collective/member.h"

#include "base/options.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

int64_t flxi_transport_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Axes ---- */

static const flxi_mesh_axis *find_axis(const flxi_member *m, const char *name, size_t n)
{
    for (int i = 0; i < m->num_axes; i++)
        if (strlen(m->axes[i].name) == n && memcmp(m->axes[i].name, name, n) == 0)
            return &m->axes[i];
    return NULL;
}

/* The axes of a list of names; "" is all of them. */
static flx_code find_axes(const flxi_member *m, const char *names, const flxi_mesh_axis **out, int *count,
                          flx_error *err)
{
    *count = 0;
    for (int i = 0; !*names && i < m->num_axes; i++)
        out[(*count)++] = &m->axes[i];
    for (const char *s = names; *s;) {
        size_t n = strcspn(s, ",");
        const flxi_mesh_axis *a = find_axis(m, s, n);
        bool is_new = a != NULL;
        for (int i = 0; i < *count; i++)
            is_new &= out[i] != a;
        if (!is_new)
            return flxi_fail_hint(err, FLX_E_NAME, "axes are named when the mesh is joined: data=4,model=2",
                                  a ? "axis '%.*s' of the mesh is named twice" : "the mesh has no axis '%.*s'", (int)n,
                                  s);
        out[(*count)++] = a;
        s += n + (s[n] == ',');
    }
    return FLX_OK;
}

flx_code flxi_member_locate(const flxi_mesh *mesh, const char *axis_name, int64_t *index, int64_t *size, flx_error *err)
{
    const flxi_member *m = (const flxi_member *)mesh;
    const flxi_mesh_axis *axes[FLXI_MESH_AXES];
    int n;
    FLXI_TRY(find_axes(m, axis_name, axes, &n, err));
    *index = 0;
    *size = 1;
    for (int i = 0; i < n; i++) {
        *index = *index * axes[i]->size + m->rank / axes[i]->stride % axes[i]->size;
        *size *= axes[i]->size;
    }
    return FLX_OK;
}

flx_code flxi_member_group(const flxi_member *m, const char *axis_name, flxi_process_group *out, flx_error *err)
{
    const flxi_mesh_axis *axes[FLXI_MESH_AXES];
    int count;
    FLXI_TRY(find_axes(m, axis_name, axes, &count, err));
    FLXI_TRY(flxi_member_locate(&m->mesh, axis_name, &out->index, &out->n, err));
    out->ranks = flxi_alloc(&m->ctx->mem, (size_t)out->n, sizeof *out->ranks);
    if (!out->ranks)
        return flxi_oom(err, "a group of processes");
    int64_t origin = m->rank;
    for (int i = 0; i < count; i++)
        origin -= m->rank / axes[i]->stride % axes[i]->size * axes[i]->stride;
    for (int64_t k = 0; k < out->n; k++) {
        int64_t rest = k;
        out->ranks[k] = origin;
        for (int i = count - 1; i >= 0; rest /= axes[i]->size, i--)
            out->ranks[k] += rest % axes[i]->size * axes[i]->stride;
    }
    return FLX_OK;
}

void flxi_member_group_free(const flxi_member *m, flxi_process_group *g)
{
    if (g->ranks)
        flxi_free(&m->ctx->mem, g->ranks, (size_t)g->n, sizeof *g->ranks);
    g->ranks = NULL;
}

/* ---- Joining and leaving ---- */

static void discard_member(flxi_mesh *mesh)
{
    flxi_member *m = (flxi_member *)mesh;
    if (m->link)
        m->transport->close(m->link, m->has_failed);
    flxi_free(&m->ctx->mem, m, 1, sizeof *m);
}

static flx_code choose_transport(const flx_mesh_options *o, const flxi_transport **out, flx_error *err)
{
    static const flxi_transport *const all[] = {&flxi_mpi_transport, &flxi_local_transport};
    const char *name = o->transport ? o->transport : o->local ? "local" : "mpi";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]->name) == 0) {
            *out = all[i];
            return FLX_OK;
        }
    return flxi_fail_hint(err, FLX_E_NAME, "mpi or local", "there is no transport '%.40s'", name);
}

static flx_code choose_timeout(double given, double *out, flx_error *err)
{
    const char *text = getenv("FLX_MESH_TIMEOUT");
    *out = given > 0 ? given : text && *text ? strtod(text, NULL) : 120;
    if (given < 0 || !(*out > 0) || *out > 1e8)
        return flxi_fail(err, FLX_E_USAGE, "the time limit of a mesh must be a positive number of seconds");
    return FLX_OK;
}

static flx_code open_member(flxi_member *m, const flx_mesh_options *o, flx_error *err)
{
    FLXI_TRY(choose_transport(o, &m->transport, err));
    FLXI_TRY(choose_timeout(o->timeout, &m->timeout, err));
    FLXI_TRY(m->transport->open(m->ctx, o, &m->link, &m->rank, &m->size, err));
    return flxi_mesh_read_axes(o->axes, &m->size, m->axes, &m->num_axes, err);
}

flx_code flx_mesh_join(flx_context *ctx, const flx_mesh_options *options, flx_error *err)
{
    flx_mesh_options o;
    if (!ctx)
        return flxi_fail(err, FLX_E_USAGE, "flx_mesh_join: a mesh needs a context");
    FLXI_TRY(FLXI_READ_OPTIONS(flx_mesh_options, &o, options, err));
    if (flxi_mesh_of(ctx))
        return flxi_fail_hint(err, FLX_E_USAGE, "call flx_mesh_leave() first", "the context has a mesh already");
    flxi_member *m = flxi_alloc(&ctx->mem, 1, sizeof *m);
    if (!m)
        return flxi_oom(err, "a mesh");
    *m = (flxi_member){.mesh = {flxi_member_collect, flxi_member_locate, discard_member}, .ctx = ctx};
    flx_code code = open_member(m, &o, err);
    if (code == FLX_OK)
        code = flxi_mesh_set(ctx, &m->mesh, err);
    if (code != FLX_OK)
        discard_member(&m->mesh);
    return code;
}

void flx_mesh_leave(flx_context *ctx)
{
    if (ctx)
        flxi_mesh_set(ctx, NULL, NULL);
}

/* ---- Questions ---- */

static flxi_member *member_of(flx_context *ctx)
{
    return (flxi_member *)flxi_mesh_of(ctx);
}

void flx_mesh_abort(flx_context *ctx, int status)
{
    flxi_member *m = member_of(ctx);
    if (m && m->transport->end_all)
        m->transport->end_all(m->link, status);
}

int64_t flx_mesh_rank(flx_context *ctx)
{
    const flxi_member *m = member_of(ctx);
    return m ? m->rank : 0;
}

int64_t flx_mesh_size(flx_context *ctx)
{
    const flxi_member *m = member_of(ctx);
    return m ? m->size : 1;
}

flx_code flx_mesh_axis(flx_context *ctx, const char *axis_name, int64_t *index, int64_t *size, flx_error *err)
{
    const flxi_member *m = member_of(ctx);
    int64_t at = 0, n = 1;
    if (!ctx || !axis_name)
        return flxi_fail(err, FLX_E_USAGE, "flx_mesh_axis: a context and the name of an axis are needed");
    if (m)
        FLXI_TRY(flxi_member_locate(&m->mesh, axis_name, &at, &n, err));
    if (index)
        *index = at;
    if (size)
        *size = n;
    return FLX_OK;
}

flx_code flx_mesh_agree(flx_context *ctx, const char *what, uint64_t value, flx_error *err)
{
    if (!ctx || !what)
        return flxi_fail(err, FLX_E_USAGE, "flx_mesh_agree: a context and a word for the message are needed");
    flxi_member *m = member_of(ctx);
    const flxi_collective c = {.kind = COLLECT_AGREE, .op = what, .axis_name = "", .value = value};
    return m ? flxi_member_collect(&m->mesh, &c, err) : FLX_OK;
}

void flx_mesh_set_step(flx_context *ctx, int64_t step)
{
    flxi_member *m = member_of(ctx);
    if (m)
        m->step = step;
}
