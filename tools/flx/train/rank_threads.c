/* SPDX-License-Identifier: Apache-2.0 */
/* rank_threads.c: see rank_threads.h. */
#include "train/rank_threads.h"

#include "mesh/mesh_run.h"
#include "report.h"
#include "train/data/share.h"
#include "train/mesh_setting.h"

#include <fluxion/stop.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const train_plan *first; /* of rank 0 */
    const char *file;
    const training_request *request;
    flx_local_mesh *local;
    flx_stop *stop; /* of the thread of rank 0: it stops all */
    int64_t rank;
    pthread_t thread;
    int status;
} member;

static void *run_member(void *user)
{
    member *m = user;
    train_plan p;
    report_as_rank(m->rank);
    flx_stop_use(m->stop);
    m->status = plan_read(&p, m->file);
    p.threads = m->first->threads;
    if (!m->status)
        m->status = mesh_setting_apply(&p, m->first->mesh);
    if (!m->status)
        m->status = share_begin_thread(&p, m->local, m->rank);
    if (!m->status)
        m->status = training_run(&p, m->request);
    plan_free(&p);
    flx_stop_use(NULL);
    return NULL;
}

static int start_members(member *members, int64_t ranks, const member *like, int64_t *started)
{
    for (int64_t i = 1; i < ranks; i++) {
        members[i] = *like;
        members[i].rank = i;
        if (pthread_create(&members[i].thread, NULL, run_member, &members[i]) != 0)
            return fail(FLX_E_IO, "a thread for rank %lld cannot be started", (long long)i);
        *started = i;
    }
    return STATUS_OK;
}

static int run_all(train_plan *p, member *like, int64_t ranks)
{
    int64_t started = 0;
    member *members = calloc((size_t)ranks, sizeof *members);
    int status = members ? STATUS_OK : fail_memory();
    report_as_rank(0);
    like->stop = flx_stop_use(NULL);
    flx_stop_use(like->stop);
    if (!status)
        status = share_begin_thread(p, like->local, 0);
    if (!status)
        status = start_members(members, ranks, like, &started);
    if (!status)
        status = training_run(p, like->request);
    flx_mesh_leave(p->model.ctx); /* others that wait for this rank fail */
    for (int64_t i = 1; i <= started; i++) {
        pthread_join(members[i].thread, NULL);
        status = status ? status : members[i].status;
    }
    free(members);
    return report_ranks_end(status);
}

int rank_threads_run(train_plan *p, const char *file, const training_request *request)
{
    flx_error err = {0};
    int64_t ranks = mesh_run_ranks(p->mesh);
    int status = mesh_run_check_threads(ranks);
    if (!status && strcmp(file, "-") == 0)
        status = fail(FLX_E_USAGE, "ranks that are threads each read the settings: give a file");
    if (status)
        return status;
    if (!p->threads)
        p->threads = mesh_run_threads(ranks);
    flx_context *ctx = flx_context_new(NULL);
    member like = {.first = p, .file = file, .request = request};
    like.local = ctx ? flx_local_mesh_new(ctx, ranks, &err) : NULL;
    status = !ctx ? fail_memory() : !like.local ? report(&err, NULL) : run_all(p, &like, ranks);
    flx_local_mesh_free(like.local);
    flx_context_free(ctx);
    return status;
}
