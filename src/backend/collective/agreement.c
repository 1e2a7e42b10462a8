/* SPDX-License-Identifier: Apache-2.0 */
/* agreement.c: before values travel, the processes of a group make sure that all are there and about to do the same.
   Each sends a header to the first process of the group, which compares them and answers with a verdict: continue, or
   an error that all of them then return. So a process that hangs, died or runs another graph is named by all others,
   and none of them waits for longer than three times the time limit. It costs two short messages for each exchange. */
#include "backend/collective/member.h"

#include <stdio.h>

/* What must be equal, then where the process is. */
typedef struct {
    char op[40], axis[FLXI_MESH_NAME];
    int64_t kind, dtype, reduction, elements, size, process;
    uint64_t pairs; /* of a permutation; or the value that is compared */
    int64_t step;
    uint64_t exchange;
} header;

static header make_header(const flxi_member *m, const flxi_collective *c)
{
    header h;
    memset(&h, 0, sizeof h); /* padding too */
    snprintf(h.op, sizeof h.op, "%s", c->op);
    snprintf(h.axis, sizeof h.axis, "%s", c->axis_name);
    h.kind = c->kind;
    h.dtype = c->dtype;
    h.reduction = c->reduction;
    h.elements = (int64_t)c->elements;
    h.size = c->size;
    h.process = c->process;
    h.pairs = c->value;
    for (size_t i = 0; i < c->num_pairs; i++)
        h.pairs = flxi_hash_u64(flxi_hash_u64(h.pairs, (uint64_t)c->sources[i]), (uint64_t)c->targets[i]);
    h.step = m->step;
    h.exchange = m->exchanges;
    return h;
}

/* ---- Words ---- */

static void write_when(char *text, size_t size, const header *h)
{
    if (h->step)
        snprintf(text, size, " in step %lld", (long long)h->step);
    else
        snprintf(text, size, " in exchange %llu", (unsigned long long)h->exchange);
}

static void write_what(char *text, size_t size, const header *h)
{
    if (h->kind == COLLECT_AGREE)
        snprintf(text, size, "%s %016llx", h->op, (unsigned long long)h->pairs);
    else if (h->kind == COLLECT_BARRIER)
        snprintf(text, size, "%s", h->op);
    else
        snprintf(text, size, "%s of %lld %s along '%s'", h->op, (long long)h->elements,
                 flx_dtype_name((flx_dtype)h->dtype), h->axis);
}

static flx_code differ(int64_t rank, const header *theirs, int64_t own_rank, const header *own, flx_error *err)
{
    char there[96], here[96], when[48];
    write_what(there, sizeof there, theirs);
    write_what(here, sizeof here, own);
    write_when(when, sizeof when, theirs);
    bool is_named = strcmp(there, here) != 0;
    return flxi_fail_hint(err, FLX_E_CHECK, "all processes must run the same graph on values of the same types",
                          "rank %lld differs%s: it has %s%s, rank %lld has %s", (long long)rank, when, there,
                          is_named ? "" : " with other attributes", (long long)own_rank, here);
}

/* ---- Transfers with names ---- */

static bool is_listed(const int64_t *ranks, size_t n, int64_t rank)
{
    for (size_t i = 0; i < n; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* "rank 1", or "ranks 0 and 2": a process that waits for another that hangs gives no sign either. */
static void write_missing(char *text, size_t size, const flxi_message *messages, size_t n)
{
    enum { MOST = 4 };
    int64_t ranks[MOST + 1];
    size_t count = 0, at = 0;
    for (size_t i = 0; i < n && count <= MOST; i++)
        if (!messages[i].is_done && !is_listed(ranks, count, messages[i].peer))
            ranks[count++] = messages[i].peer;
    size_t shown = count > MOST ? MOST : count;
    for (size_t i = 0; i < shown && at < size; i++) {
        const char *before = i == 0 ? (count > 1 ? "ranks " : "rank ") : i + 1 == count ? " and " : ", ";
        at += (size_t)snprintf(text + at, size - at, "%s%lld", before, (long long)ranks[i]);
    }
    if (count > shown && at < size)
        snprintf(text + at, size - at, " and others");
}

static flx_code missing(const flxi_member *m, const flxi_message *messages, size_t n, double seconds, flx_code code,
                        flx_error *err)
{
    header h = {.step = m->step, .exchange = m->exchanges};
    char when[48];
    size_t i = 0;
    for (size_t k = n; k > 0; k--) /* one that is gone, else the first that is missing */
        if (messages[k - 1].is_gone || (!messages[k - 1].is_done && !messages[i].is_gone))
            i = k - 1;
    write_when(when, sizeof when, &h);
    if (messages[i].is_gone)
        return flxi_fail_hint(err, FLX_E_DEVICE, "its own message says why it ended", "rank %lld has left the mesh%s",
                              (long long)messages[i].peer, when);
    if (code != FLX_E_TIMEOUT)
        return code;
    char who[96];
    write_missing(who, sizeof who, messages, n);
    return flxi_fail_hint(err, FLX_E_TIMEOUT, "$FLX_MESH_TIMEOUT is the limit in seconds", "%s gave no sign for %g s%s",
                          who, seconds, when);
}

flx_code flxi_member_transfer(flxi_member *m, flxi_message *messages, size_t n, double seconds, flx_error *err)
{
    flx_error why = {0};
    int64_t deadline = flxi_transport_clock() + (int64_t)(seconds * 1e9);
    flx_code code = n ? m->transport->transfer(m->link, messages, n, deadline, m->computes, &why) : FLX_OK;
    if (code == FLX_OK)
        return FLX_OK;
    if (err)
        *err = why;
    if (code == FLX_E_TIMEOUT || code == FLX_E_DEVICE)
        return missing(m, messages, n, seconds, code, err);
    return code;
}

/* ---- The verdict ---- */

static void judge(const flxi_process_group *g, const header *headers, flx_error *verdict)
{
    for (int64_t k = 1; k < g->n; k++)
        if (memcmp(&headers[k], &headers[0], offsetof(header, step)) != 0) {
            differ(g->ranks[k], &headers[k], g->ranks[0], &headers[0], verdict);
            return;
        }
}

/* Those that are known to be there get the verdict; one that does not take it is no reason to wait. */
static void announce(flxi_member *m, const flxi_process_group *g, flxi_message *messages, flx_error *verdict)
{
    size_t n = 0;
    for (int64_t k = 1; k < g->n; k++)
        if (messages[k - 1].is_done)
            messages[n++] = (flxi_message){
                .peer = g->ranks[k], .tag = TAG_VERDICT, .is_sent = true, .data = verdict, .nbytes = sizeof *verdict};
    flx_error ignored = {0};
    if (verdict->code)
        flxi_member_transfer(m, messages, n, m->timeout < 1 ? m->timeout : 1, &ignored);
    else
        flxi_member_transfer(m, messages, n, m->timeout, verdict);
}

static flx_code lead(flxi_member *m, const flxi_process_group *g, const flxi_collective *c, flx_error *err)
{
    size_t n = (size_t)g->n;
    header *headers = flxi_alloc(&m->ctx->mem, n, sizeof *headers);
    flxi_message *messages = flxi_alloc(&m->ctx->mem, n, sizeof *messages);
    flx_error verdict = {0};
    if (headers && messages) {
        headers[0] = make_header(m, c);
        for (size_t k = 1; k < n; k++)
            messages[k - 1] =
                (flxi_message){.peer = g->ranks[k], .tag = TAG_HEADER, .data = &headers[k], .nbytes = sizeof *headers};
        if (flxi_member_transfer(m, messages, n - 1, m->timeout, &verdict) == FLX_OK)
            judge(g, headers, &verdict);
        announce(m, g, messages, &verdict);
    } else {
        flxi_oom(&verdict, "an exchange");
    }
    if (headers)
        flxi_free(&m->ctx->mem, headers, n, sizeof *headers);
    if (messages)
        flxi_free(&m->ctx->mem, messages, n, sizeof *messages);
    if (verdict.code && err)
        *err = verdict;
    return (flx_code)verdict.code;
}

static flx_code follow(flxi_member *m, const flxi_process_group *g, const flxi_collective *c, flx_error *err)
{
    header own = make_header(m, c);
    flx_error verdict = {0};
    flxi_message messages[] = {
        {.peer = g->ranks[0], .tag = TAG_HEADER, .is_sent = true, .data = &own, .nbytes = sizeof own},
        {.peer = g->ranks[0], .tag = TAG_VERDICT, .data = &verdict, .nbytes = sizeof verdict}};
    FLXI_TRY(flxi_member_transfer(m, messages, 2, 3 * m->timeout, err));
    if (verdict.code && err)
        *err = verdict;
    return (flx_code)verdict.code;
}

flx_code flxi_member_agree(flxi_member *m, const flxi_process_group *g, const flxi_collective *c, flx_error *err)
{
    if (g->n == 1)
        return FLX_OK;
    return g->index == 0 ? lead(m, g, c, err) : follow(m, g, c, err);
}

/* ---- At a meeting ---- */

typedef struct {
    flxi_member *m;
    const flxi_process_group *group;
    const flxi_collective *c;
    const flxi_collective **all; /* room for those of the group */
    header own;
    flx_error verdict;
    bool is_made;
} arrival;

static const arrival *arrival_at(const flxi_meeting *meeting, int64_t k)
{
    return meeting->others[k]->user;
}

static void judge_arrivals(const flxi_meeting *meeting, arrival *a)
{
    const header *first = &arrival_at(meeting, 0)->own;
    for (int64_t k = 0; k < meeting->n; k++) {
        const header *h = &arrival_at(meeting, k)->own;
        a->all[k] = arrival_at(meeting, k)->c;
        if (memcmp(h, first, offsetof(header, step)) != 0) {
            differ(meeting->ranks[k], h, meeting->ranks[0], first, &a->verdict);
            return;
        }
    }
    flxi_collect_together(&a->m->ctx->mem, a->all, meeting->n, &a->is_made, &a->verdict);
}

/* By one process, for all that are there. */
static void decide(flxi_meeting *meeting, flx_code code)
{
    arrival *a = meeting->user;
    if (code == FLX_OK)
        judge_arrivals(meeting, a);
    else
        missing(a->m, meeting->signs, (size_t)meeting->n, a->m->timeout, code, &a->verdict);
    for (int64_t k = 0; k < meeting->n; k++)
        if (meeting->others[k]) {
            arrival *other = meeting->others[k]->user;
            other->verdict = a->verdict;
            other->is_made = a->is_made;
        }
}

flx_code flxi_member_meet(flxi_member *m, const flxi_process_group *g, const flxi_collective *c, bool *is_made,
                          flx_error *err)
{
    arrival a = {.m = m, .group = g, .c = c, .own = make_header(m, c)};
    flxi_meeting meeting = {.ranks = g->ranks, .n = g->n, .user = &a, .act = decide};
    int64_t deadline = flxi_transport_clock() + (int64_t)(m->timeout * 1e9);
    flx_code code = FLX_OK;
    flxi_arena room;
    if (g->n == 1)
        return FLX_OK;
    flxi_arena_init(&room, &m->ctx->mem);
    a.all = flxi_new(&room, const flxi_collective *, g->n);
    meeting.others = flxi_new(&room, flxi_meeting *, g->n);
    meeting.signs = flxi_new(&room, flxi_message, g->n);
    if (a.all && meeting.others && meeting.signs)
        code = m->transport->meet(m->link, &meeting, deadline, err);
    else
        code = flxi_oom(err, "an exchange");
    flxi_arena_free(&room);
    *is_made = a.is_made;
    if (a.verdict.code && err)
        *err = a.verdict;
    return code ? code : (flx_code)a.verdict.code;
}

/* ---- Between two ---- */

flx_code flxi_member_send(flxi_member *m, int64_t peer, const flxi_collective *c, flx_error *err)
{
    header own = make_header(m, c);
    flxi_message messages[] = {{.peer = peer, .tag = TAG_POINT, .is_sent = true, .data = &own, .nbytes = sizeof own},
                               {.peer = peer,
                                .tag = TAG_POINT,
                                .is_sent = true,
                                .data = (void *)(uintptr_t)c->in,
                                .nbytes = c->elements * flx_dtype_size((flx_dtype)c->dtype)}};
    return flxi_member_transfer(m, messages, 2, m->timeout, err);
}

flx_code flxi_member_receive(flxi_member *m, int64_t peer, const flxi_collective *c, flx_error *err)
{
    header theirs, own = make_header(m, c);
    flxi_message message = {.peer = peer, .tag = TAG_POINT, .data = &theirs, .nbytes = sizeof theirs};
    FLXI_TRY(flxi_member_transfer(m, &message, 1, m->timeout, err));
    theirs.op[sizeof theirs.op - 1] = theirs.axis[sizeof theirs.axis - 1] = 0;
    if (theirs.dtype != own.dtype || theirs.elements != own.elements || strcmp(theirs.axis, own.axis) != 0)
        return differ(peer, &theirs, m->rank, &own, err);
    message = (flxi_message){
        .peer = peer, .tag = TAG_POINT, .data = c->out, .nbytes = c->elements * flx_dtype_size((flx_dtype)c->dtype)};
    return flxi_member_transfer(m, &message, 1, m->timeout, err);
}
