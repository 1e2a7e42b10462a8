/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_queue.c: what a client computes after a call has returned. One thread runs jobs in the order in which they were
   added, so that a job finds what earlier ones compute. There is one queue for all devices: they are one processor. Few
   jobs may wait, since each has memory for its results. */
#include "pjrt/pjrt.h"

enum { MOST_WAITING = 2 };

void flxi_pjrt_queue_open(pjrt_queue *q)
{
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
}

/* The next job, NULL when there will be none. */
static pjrt_job *take(pjrt_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->is_closing)
        pthread_cond_wait(&q->changed, &q->lock);
    pjrt_job *job = q->first;
    if (job) {
        q->first = job->next;
        q->waiting--;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return job;
}

static void *run_jobs(void *user)
{
    for (pjrt_job *job = take(user); job; job = take(user))
        job->run(job);
    return NULL;
}

bool flxi_pjrt_queue_add(pjrt_queue *q, pjrt_job *job)
{
    pthread_mutex_lock(&q->lock);
    if (!q->has_thread)
        q->has_thread = pthread_create(&q->thread, NULL, run_jobs, q) == 0;
    bool has_thread = q->has_thread;
    while (has_thread && q->waiting == MOST_WAITING)
        pthread_cond_wait(&q->changed, &q->lock);
    if (has_thread) {
        job->next = NULL;
        *(q->first ? &q->last->next : &q->first) = job;
        q->last = job;
        q->waiting++;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return has_thread;
}

void flxi_pjrt_queue_close(pjrt_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->is_closing = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (q->has_thread)
        pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}
