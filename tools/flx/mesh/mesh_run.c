/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_run.c: see mesh_run.h. */
#include "mesh/mesh_run.h"

#include "mesh/mesh_cuts.h"
#include "report.h"

#include <fluxion/stop.h>
#include <fluxion/text.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rank that is a thread. */
typedef struct {
    mesh_run *of;
    int64_t rank;
    pthread_t thread;
    flx_error err;
} member;

struct mesh_run {
    const mesh_request *request;
    flx_context *ctx; /* of this rank */
    flx_graph *graph; /* of each rank */
    flx_buffer bytes; /* the same, for the contexts of others */
    mesh_cuts cuts;
    flx_local_mesh *local;
    flx_stop *stop; /* of this thread: it stops the others too */
    member *members;
    int64_t num_members; /* that were started */
    inputs whole;        /* values before they were cut */
};

/* ---- Other ranks ---- */

static flx_code take_parts(const mesh_run *r, flx_context *ctx, flx_feed *feeds, flx_error *err)
{
    for (size_t i = 0; i < r->whole.num_feeds; i++) {
        const flx_feed *f = &r->whole.feeds[i];
        const char *spec = mesh_cuts_find(&r->cuts, f->name);
        flx_tensor *part = spec ? flx_mesh_part(ctx, f->value, r->request->axes, spec, flx_mesh_rank(ctx), err)
                                : flx_tensor_new(ctx, flx_tensor_type(f->value), flx_tensor_const_data(f->value), err);
        feeds[i] = (flx_feed){f->name, part};
        if (!part)
            return (flx_code)err->code;
    }
    return FLX_OK;
}

static flx_code run_graph(const mesh_run *r, const flx_graph *g, const flx_feed *feeds, flx_tensor **outputs,
                          flx_error *err)
{
    size_t n = r->whole.num_feeds;
    if (strcmp(r->request->device, "ref") == 0)
        return flx_run(g, &r->request->run, feeds, n, outputs, err);
    flx_exec *e = flx_compile(g, &r->request->compile, err);
    flx_code code = e ? flx_exec_run(e, &r->request->run, feeds, n, outputs, err) : (flx_code)err->code;
    flx_exec_free(e);
    return code;
}

/* An output with the name of a cut input, such as the input itself, is cut like it. */
static flx_code join_outputs(const mesh_run *r, flx_context *ctx, flx_tensor **outputs, flx_error *err)
{
    for (size_t i = 0; i < flx_graph_output_count(r->graph); i++) {
        const char *spec = mesh_cuts_find(&r->cuts, flx_graph_output_name(r->graph, i));
        if (!spec)
            continue;
        flx_tensor *whole = flx_mesh_whole(ctx, outputs[i], r->request->axes, spec, err);
        if (!whole)
            return (flx_code)err->code;
        flx_tensor_release(outputs[i]);
        outputs[i] = whole;
    }
    return FLX_OK;
}

/* What all ranks do after their runs: none has a result if one has failed. */
static flx_code end_run(const mesh_run *r, flx_context *ctx, flx_tensor **outputs, flx_error *err)
{
    flx_code code = join_outputs(r, ctx, outputs, err);
    return code ? code : flx_mesh_agree(ctx, "the end of the run", 0, err);
}

static flx_code run_rank(member *m, flx_context *ctx)
{
    const mesh_run *r = m->of;
    flx_module *module = flx_decode(ctx, r->bytes.data, r->bytes.size, "mesh", &m->err);
    flx_graph *g = module ? flx_module_main(module) : NULL;
    size_t num_outputs = flx_graph_output_count(r->graph);
    flx_feed *feeds = calloc(r->whole.num_feeds + 1, sizeof *feeds);
    flx_tensor **outputs = calloc(num_outputs + 1, sizeof *outputs);
    flx_code code = g ? FLX_OK : (flx_code)m->err.code;
    if (!code && (!feeds || !outputs))
        code = (m->err = (flx_error){.code = FLX_E_OOM, .message = "out of memory"}).code;
    if (!code)
        code = take_parts(r, ctx, feeds, &m->err);
    if (!code)
        code = run_graph(r, g, feeds, outputs, &m->err);
    if (!code)
        code = end_run(r, ctx, outputs, &m->err);
    for (size_t i = 0; outputs && i < num_outputs; i++)
        flx_tensor_release(outputs[i]);
    for (size_t i = 0; feeds && i < r->whole.num_feeds; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    free(outputs);
    free(feeds);
    flx_module_free(module);
    return code;
}

static void *run_member(void *user)
{
    member *m = user;
    const flx_mesh_options options = {
        .struct_size = sizeof options, .axes = m->of->request->axes, .local = m->of->local, .rank = m->rank};
    flx_context *ctx = new_context();
    flx_stop_use(m->of->stop);
    if (!ctx)
        m->err = (flx_error){.code = FLX_E_OOM, .message = "out of memory"};
    else if (flx_mesh_join(ctx, &options, &m->err) == FLX_OK)
        run_rank(m, ctx);
    flx_context_free(ctx);
    flx_stop_use(NULL);
    return NULL;
}

/* ---- This rank ---- */

int64_t mesh_run_ranks(const char *axes)
{
    int64_t n = 1;
    for (const char *s = axes; (s = strchr(s, '=')) != NULL; s++)
        if (__builtin_mul_overflow(n, strtoll(s + 1, NULL, 10), &n))
            return INT64_MAX;
    return n < 0 ? INT64_MAX : n;
}

const char *mesh_run_transport(const args *a)
{
    return args_has(a, "--nccl") ? "nccl" : args_has(a, "--mpi") ? "mpi" : NULL;
}

enum { MAX_THREADS = 64 }; /* ranks of one process */

int mesh_run_check_threads(int64_t ranks)
{
    if (ranks <= MAX_THREADS)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "--mesh: one process can have %d ranks, not %lld", MAX_THREADS, (long long)ranks);
    hint("start the ranks with mpirun and give --mpi");
    return status;
}

int32_t mesh_run_threads(int64_t ranks)
{
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (int32_t)(cores > ranks ? cores / ranks : 1);
}

static int join_local(mesh_run *r, mesh_request *q)
{
    flx_error err = {0};
    int64_t ranks = mesh_run_ranks(q->axes);
    int status = mesh_run_check_threads(ranks);
    if (status)
        return status;
    r->local = flx_local_mesh_new(r->ctx, ranks, &err);
    r->members = calloc((size_t)ranks, sizeof *r->members);
    const flx_mesh_options options = {.struct_size = sizeof options, .axes = q->axes, .local = r->local};
    if (!r->local || !r->members || flx_mesh_join(r->ctx, &options, &err))
        return r->local && !r->members ? fail_memory() : report(&err, NULL);
    if (!q->compile.threads)
        q->compile.threads = mesh_run_threads(ranks);
    report_as_rank(0);
    r->stop = flx_stop_use(NULL);
    flx_stop_use(r->stop);
    for (int64_t i = 1; i < ranks; i++) {
        member *m = &r->members[r->num_members];
        *m = (member){.of = r, .rank = i};
        if (pthread_create(&m->thread, NULL, run_member, m) != 0)
            return fail(FLX_E_IO, "a thread for rank %lld cannot be started", (long long)i);
        r->num_members++;
    }
    return STATUS_OK;
}

static int join_processes(mesh_run *r)
{
    flx_error err = {0};
    const flx_mesh_options options = {
        .struct_size = sizeof options, .transport = r->request->transport, .axes = r->request->axes};
    if (flx_mesh_join(r->ctx, &options, &err) || flx_mesh_agree(r->ctx, "the graph", flx_graph_hash(r->graph), &err))
        return report(&err, NULL);
    if (!mesh_run_tells(r) && !freopen("/dev/null", "w", stdout))
        return fail(FLX_E_IO, "/dev/null cannot be opened");
    return STATUS_OK;
}

/* The values of `in` are kept for the other ranks; it gets parts. */
static int cut_inputs(mesh_run *r, inputs *in)
{
    flx_error err = {0};
    size_t n = r->whole.num_feeds;
    *in = (inputs){.feeds = calloc(n + 1, sizeof *in->feeds), .values = calloc(n + 1, sizeof *in->values)};
    if (!in->feeds || !in->values)
        return fail_memory();
    flx_code code = take_parts(r, r->ctx, in->feeds, &err);
    for (size_t i = 0; i < n; i++)
        in->values[i] = (flx_tensor *)(uintptr_t)in->feeds[i].value;
    in->num_feeds = n;
    return code ? report(&err, NULL) : STATUS_OK;
}

int mesh_run_begin(mesh_run **out, model *m, inputs *in, const args *a, mesh_request *q)
{
    flx_error err = {0};
    mesh_run *r = *out = calloc(1, sizeof *r);
    if (!r)
        return fail_memory();
    *r = (mesh_run){.request = q, .ctx = m->ctx};
    int status = mesh_cuts_read(&r->cuts, a);
    if (!status)
        status = mesh_cuts_add_said(&r->cuts, m->graph);
    if (!status)
        status = mesh_cuts_apply(&r->cuts, m->graph, q->axes, in, &r->graph);
    if (status)
        return status;
    if (flx_graph_encode(r->graph, &r->bytes, &err))
        return report(&err, NULL);
    m->graph = r->graph;
    r->whole = *in;
    *in = (inputs){0};
    status = q->transport ? join_processes(r) : join_local(r, q);
    return status ? status : cut_inputs(r, in);
}

int mesh_run_join(const mesh_run *r, flx_tensor **outputs)
{
    flx_error err = {0};
    return r && end_run(r, r->ctx, outputs, &err) ? report(&err, NULL) : STATUS_OK;
}

bool mesh_run_tells(const mesh_run *r)
{
    return flx_mesh_rank(r->ctx) == 0;
}

/* What all ranks may end with. */
static bool is_stopped(const member *m)
{
    return m->err.code == FLX_E_CANCELLED || m->err.code == FLX_E_TIMEOUT;
}

/* The first rank beside this one that failed by itself, or else one that was stopped. */
static const member *find_failed(const mesh_run *r)
{
    const member *found = NULL;
    for (int64_t i = 0; i < r->num_members; i++) {
        const member *m = &r->members[i];
        if (m->err.code && !report_is_of_another(&m->err) && (!found || (is_stopped(found) && !is_stopped(m))))
            found = m;
    }
    return found;
}

/* Why the run failed, once. */
static int tell_members(const mesh_run *r, int status)
{
    const member *m = find_failed(r);
    bool tells = m && (!status || report_waits());
    if (tells && is_stopped(m))
        status = report(&m->err, NULL);
    else if (tells) {
        status = fail(m->err.code, "rank %lld: %s", (long long)m->rank, m->err.message);
        if (m->err.hint[0])
            hint("%s", m->err.hint);
    }
    return report_ranks_end(status);
}

int mesh_run_end(mesh_run *r, int status)
{
    if (!r)
        return status;
    if (status && r->request->transport && flx_mesh_size(r->ctx) > 1) {
        fflush(NULL);
        flx_mesh_abort(r->ctx, status);
    }
    flx_mesh_leave(r->ctx);
    for (int64_t i = 0; i < r->num_members; i++)
        pthread_join(r->members[i].thread, NULL);
    status = tell_members(r, status);
    flx_local_mesh_free(r->local);
    inputs_free(&r->whole);
    mesh_cuts_free(&r->cuts);
    flx_buffer_free(&r->bytes);
    flx_graph_release(r->graph);
    free(r->members);
    free(r);
    return status;
}
