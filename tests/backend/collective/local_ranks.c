/* SPDX-License-Identifier: Apache-2.0 */
/* local_ranks.c: see local_ranks.h. */
#include "local_ranks.h"

#include "../../test.h"

#include <pthread.h>
#include <string.h>

typedef struct {
    local_rank rank;
    flx_mesh_options options;
    void (*fn)(local_rank *r);
} job;

static void *run_job(void *user)
{
    job *j = user;
    j->rank.ctx = flx_context_new(NULL);
    if (j->rank.ctx && flx_mesh_join(j->rank.ctx, &j->options, &j->rank.err) == FLX_OK)
        j->fn(&j->rank);
    else
        CHECK_OK((flx_code)j->rank.err.code, &j->rank.err);
    flx_context_free(j->rank.ctx);
    return NULL;
}

void local_ranks_run_with(const flx_mesh_options *options, int64_t ranks, void (*fn)(local_rank *r), void *user)
{
    flx_error err = {0};
    pthread_t threads[MAX_RANKS];
    job jobs[MAX_RANKS];
    flx_context *ctx = flx_context_new(NULL);
    CHECK(ctx != NULL);
    flx_local_mesh *mesh = flx_local_mesh_new(ctx, ranks, &err);
    CHECK_MADE(mesh, &err);
    for (int64_t i = 0; i < ranks; i++) {
        jobs[i] = (job){.rank = {.rank = i, .size = ranks, .user = user}, .options = *options, .fn = fn};
        jobs[i].options.struct_size = sizeof *options;
        jobs[i].options.local = mesh;
        jobs[i].options.rank = i;
        CHECK(pthread_create(&threads[i], NULL, run_job, &jobs[i]) == 0);
    }
    for (int64_t i = 0; i < ranks; i++)
        pthread_join(threads[i], NULL);
    flx_local_mesh_free(mesh);
    flx_context_free(ctx);
}

void local_ranks_run(int64_t ranks, const char *axes, double timeout, void (*fn)(local_rank *r), void *user)
{
    local_ranks_run_with(&(flx_mesh_options){.axes = axes, .timeout = timeout}, ranks, fn, user);
}

static flx_code run_graph(local_rank *r, const flx_graph *g, const char *device, const double *values, double *out)
{
    flx_feed feeds[8] = {0};
    flx_tensor *results[8] = {0};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= 8 && flx_graph_output_count(g) <= 8);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(r->ctx, flx_val_type(g, v), values, &r->err);
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
        values += t ? flx_tensor_count(t) : 0;
    }
    const flx_run_options options = {.struct_size = sizeof options, .device = device};
    flx_code code = flx_run(g, &options, feeds, n, results, &r->err);
    for (size_t i = 0; code == FLX_OK && i < flx_graph_output_count(g); i++) {
        memcpy(out, flx_tensor_const_data(results[i]), flx_tensor_nbytes(results[i]));
        out += flx_tensor_nbytes(results[i]) / sizeof *out;
    }
    for (size_t i = 0; i < 8; i++) {
        flx_tensor_release(results[i]);
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    }
    return code;
}

flx_code local_rank_text(local_rank *r, const char *text, local_change change, const char *device, const double *values,
                         double *out)
{
    flx_module *m = flx_parse(r->ctx, text, strlen(text), "test", &r->err);
    flx_graph *g = m ? flx_module_main(m) : NULL, *changed = g && change ? change(g, &r->err) : NULL;
    flx_code code =
        (change ? changed : g) ? run_graph(r, change ? changed : g, device, values, out) : (flx_code)r->err.code;
    flx_graph_release(changed);
    flx_module_free(m);
    return code;
}
