/* SPDX-License-Identifier: Apache-2.0 */
/* member.c: joining and leaving a mesh, its axes, and the processes along them. */
#include "backend/collective/member.h"

#include "base/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int64_t flxi_transport_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Axes ---- */

flx_code flxi_member_locate(const flxi_mesh *mesh, const char *axis_name, int64_t *index, int64_t *size, flx_error *err)
{
    const flxi_member *m = (const flxi_member *)mesh;
    flxi_mesh_axes along;
    FLXI_TRY(flxi_mesh_find_axes(m->axes, m->num_axes, axis_name, &along, err));
    *index = flxi_mesh_index(&along, m->rank);
    *size = flxi_mesh_count(&along);
    return FLX_OK;
}

flx_code flxi_member_group(const flxi_member *m, const char *axis_name, flxi_process_group *out, flx_error *err)
{
    flxi_mesh_axes along;
    FLXI_TRY(flxi_mesh_find_axes(m->axes, m->num_axes, axis_name, &along, err));
    out->n = flxi_mesh_count(&along);
    out->index = flxi_mesh_index(&along, m->rank);
    out->ranks = flxi_alloc(&m->ctx->mem, (size_t)out->n, sizeof *out->ranks);
    if (!out->ranks)
        return flxi_oom(err, "a group of processes");
    for (int64_t k = 0; k < out->n; k++)
        out->ranks[k] = flxi_mesh_peer(&along, m->rank, k);
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
    flxi_background_free(m->background);
    if (m->link)
        m->transport->close(m->link, m->has_failed);
    flxi_free(&m->ctx->mem, m, 1, sizeof *m);
}

static flx_code choose_transport(const flx_mesh_options *o, const flxi_transport **out, flx_error *err)
{
    static const flxi_transport *const all[] = {&flxi_mpi_transport, &flxi_nccl_transport, &flxi_local_transport};
    const char *name = o->transport ? o->transport : o->local ? "local" : "mpi";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]->name) == 0) {
            *out = all[i];
            return FLX_OK;
        }
    return flxi_fail_hint(err, FLX_E_NAME, "mpi, nccl or local", "there is no transport '%.40s'", name);
}

static flx_code choose_timeout(double given, double *out, flx_error *err)
{
    const char *text = getenv("FLX_MESH_TIMEOUT");
    *out = given > 0 ? given : text && *text ? strtod(text, NULL) : 120;
    if (given < 0 || !(*out > 0) || *out > 1e8)
        return flxi_fail(err, FLX_E_USAGE, "the time limit of a mesh must be a positive number of seconds");
    return FLX_OK;
}

static flx_code choose_overlap(flxi_member *m, const flx_mesh_options *o, flx_error *err)
{
    const char *text = getenv("FLX_MESH_OVERLAP");
    if (o->flags & ~(uint32_t)(FLX_MESH_IN_ORDER | FLX_MESH_MEET))
        return flxi_fail(err, FLX_E_USAGE, "flx_mesh_join: unknown flags 0x%x", (unsigned)o->flags);
    m->meets = o->flags & FLX_MESH_MEET;
    if (m->meets && !m->transport->meet)
        return flxi_fail(err, FLX_E_USAGE, "FLX_MESH_MEET is for the transport local, not %s", m->transport->name);
    if (text && *text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return flxi_fail(err, FLX_E_USAGE, "FLX_MESH_OVERLAP must be 0 or 1, got '%.40s'", text);
    bool is_wanted = !(o->flags & FLX_MESH_IN_ORDER) && !(text && *text == '0');
    m->overlaps = is_wanted && (!m->transport->serves_threads || m->transport->serves_threads(m->link));
    return FLX_OK;
}

static flx_code open_member(flxi_member *m, flx_mesh_options *o, flx_error *err)
{
    FLXI_TRY(choose_transport(o, &m->transport, err));
    FLXI_TRY(choose_timeout(o->timeout, &m->timeout, err));
    o->timeout = m->timeout;
    FLXI_TRY(m->transport->open(m->ctx, o, &m->link, &m->rank, &m->size, err));
    FLXI_TRY(choose_overlap(m, o, err));
    return flxi_mesh_read_axes(o->axes, &m->size, m->axes, &m->num_axes, err);
}

static flx_code new_member(flx_context *ctx, const flx_mesh_options *options, flxi_member **out, flx_error *err)
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
    *m = (flxi_member){
        .mesh = {flxi_member_collect, flxi_member_start, flxi_member_finish, flxi_member_locate, discard_member},
        .ctx = ctx};
    flx_code code = open_member(m, &o, err);
    if (code == FLX_OK)
        *out = m;
    else
        discard_member(&m->mesh);
    return code;
}

flx_code flx_mesh_join(flx_context *ctx, const flx_mesh_options *options, flx_error *err)
{
    flxi_member *m;
    FLXI_TRY(new_member(ctx, options, &m, err));
    flx_code code = flxi_mesh_set(ctx, &m->mesh, err);
    if (code != FLX_OK)
        discard_member(&m->mesh);
    return code;
}

flx_code flx_mesh_join_thread(flx_context *ctx, const flx_mesh_options *options, flx_error *err)
{
    flxi_member *m;
    FLXI_TRY(new_member(ctx, options, &m, err));
    flxi_mesh_enter(ctx, &m->mesh);
    return FLX_OK;
}

void flx_mesh_leave_thread(flx_context *ctx)
{
    flxi_mesh *m = flxi_mesh_entered(ctx);
    if (m) {
        flxi_mesh_enter(ctx, NULL);
        m->discard(m);
    }
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

/* "rank 1, step 7: …"; alone only what happened. */
static flx_code said_by(const flxi_member *m, int64_t rank, const flx_error *why, flx_error *err)
{
    char who[64] = "";
    const char *hint = why->hint[0] ? why->hint : NULL;
    if (m && m->size > 1 && m->step)
        snprintf(who, sizeof who, "rank %lld, step %lld: ", (long long)rank, (long long)m->step);
    else if (m && m->size > 1)
        snprintf(who, sizeof who, "rank %lld: ", (long long)rank);
    return flxi_fail_hint(err, (flx_code)why->code, hint, "%s%.*s", who, (int)(sizeof why->message - sizeof who),
                          why->message);
}

flx_code flx_mesh_agree_on(flx_context *ctx, const flx_error *own, flx_error *err)
{
    if (!ctx || !own)
        return flxi_fail(err, FLX_E_USAGE, "flx_mesh_agree_on: a context and an error are needed");
    flxi_member *m = member_of(ctx);
    int64_t n = m ? m->size : 1, first = 0;
    size_t size = sizeof *own;
    flx_error *all = flxi_alloc(&ctx->mem, (size_t)n, size);
    if (!all)
        return flxi_oom(err, "an agreement");
    all[0] = *own;
    const flxi_collective c = {.kind = COLLECT_ALL_GATHER,
                               .op = "an agreement",
                               .axis_name = "",
                               .dtype = FLX_U8,
                               .from = {1, (int64_t)size, 1},
                               .to = {1, (int64_t)size * n, 1},
                               .in = own,
                               .out = all,
                               .elements = size};
    flx_code code = m ? flxi_member_collect(&m->mesh, &c, err) : FLX_OK;
    while (code == FLX_OK && first < n && all[first].code == FLX_OK)
        first++;
    if (code == FLX_OK && first < n) {
        all[first].hint[sizeof all[first].hint - 1] = 0;
        code = said_by(m, first, &all[first], err);
    }
    flxi_free(&ctx->mem, all, (size_t)n, size);
    return code;
}

flx_code flx_mesh_sent(flx_context *ctx, flx_mesh_traffic *out, flx_error *err)
{
    const flxi_member *m = member_of(ctx);
    if (!ctx || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_mesh_sent: a context and where to write the numbers are needed");
    const flx_mesh_traffic none = {.exchanges = 0};
    return FLXI_FILL_OPTIONS(flx_mesh_traffic, out, m ? &m->sent : &none, err);
}

void flx_mesh_set_step(flx_context *ctx, int64_t step)
{
    flxi_member *m = member_of(ctx);
    if (m)
        m->step = step;
}
