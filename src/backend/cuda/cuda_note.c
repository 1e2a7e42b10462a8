/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_note.c: see cuda_note.h. A stream that is captured knows the nodes after which the next one comes. Between two
   pieces those are set to the last nodes of the pieces that the next one comes after, so that no other streams and no
   events are needed. */
#include "backend/cuda/cuda_note.h"

#include "base/memory.h"

/* The last nodes of piece i are nodes[first[i]] … nodes[first[i + 1] - 1], once it has ended. */
struct flxi_cuda_pieces {
    FLXI_VEC(flxi_cu_node) nodes, next;
    FLXI_VEC(size_t) first;
};

struct flxi_sequence {
    flxi_card *card;
    flxi_cu_graph_exec graph;
};

/* ---- Queues ---- */

flx_code flxi_cuda_open_queue(flx_context *ctx, int threads, flxi_queue **out, flx_error *err)
{
    flxi_card *card;
    (void)threads;
    *out = NULL;
    FLXI_TRY(flxi_card_of(ctx, &card, err));
    flxi_queue *q = flxi_alloc(card->mem, 1, sizeof *q);
    if (!q)
        return flxi_oom(err, "a stream");
    q->card = card;
    flxi_cu_result result = card->cu->StreamCreate(&q->stream, FLXI_CU_STREAM_NON_BLOCKING);
    if (result != FLXI_CU_SUCCESS) {
        flxi_free(card->mem, q, 1, sizeof *q);
        return flxi_cuda_fail(card->cu, "cuStreamCreate", result, err);
    }
    *out = q;
    return FLX_OK;
}

static void free_pieces(flxi_queue *q)
{
    if (!q->pieces)
        return;
    flxi_vec_free(q->card->mem, &q->pieces->nodes);
    flxi_vec_free(q->card->mem, &q->pieces->next);
    flxi_vec_free(q->card->mem, &q->pieces->first);
    flxi_free(q->card->mem, q->pieces, 1, sizeof *q->pieces);
}

void flxi_cuda_close_queue(flxi_queue *q)
{
    if (!q)
        return;
    if (q->card->cu->CtxSetCurrent(q->card->context) == FLXI_CU_SUCCESS)
        q->card->cu->StreamDestroy(q->stream);
    free_pieces(q);
    flxi_free(q->card->mem, q, 1, sizeof *q);
}

/* ---- Noting ---- */

/* A stream of its own: other runs may use the queue meanwhile. */
flx_code flxi_cuda_note(const flxi_device_run *r, flxi_queue **out)
{
    FLXI_TRY(flxi_cuda_open_queue(r->ctx, 1, out, r->err));
    const flxi_cuda *cu = (*out)->card->cu;
    flxi_cu_result result = cu->StreamBeginCapture((*out)->stream, FLXI_CU_CAPTURE_THREAD_LOCAL);
    if (result == FLXI_CU_SUCCESS)
        return FLX_OK;
    flxi_cuda_close_queue(*out);
    *out = NULL;
    return flxi_cuda_fail(cu, "cuStreamBeginCapture", result, r->err);
}

/* Keeps the last nodes of the piece that ends here. */
static flx_code end_piece(flxi_queue *q, flx_error *err)
{
    flxi_cuda_pieces *p = q->pieces;
    const flxi_cu_node *last = NULL;
    flxi_cu_graph graph;
    unsigned long long id;
    size_t n = 0;
    int status;
    FLXI_CU_TRY(q->card->cu, err, StreamGetCaptureInfo, q->stream, &status, &id, &graph, &last, &n);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        ok = flxi_push(q->card->mem, &p->nodes, last[i]);
    return ok ? FLX_OK : flxi_oom(err, "a graph of steps");
}

/* Pieces without nodes have those of the pieces that they come after. */
static bool add_next(flxi_cuda_pieces *p, flxi_cu_node node, const flxi_allocator *mem)
{
    for (size_t i = 0; i < p->next.n; i++)
        if (p->next.at[i] == node)
            return true;
    return flxi_push(mem, &p->next, node);
}

flx_code flxi_cuda_note_piece(const flxi_device_run *r, uint32_t i, const uint32_t *after, uint32_t num_after)
{
    flxi_queue *q = r->queue;
    const flxi_allocator *mem = q->card->mem;
    if (!q->pieces && !(q->pieces = flxi_alloc(mem, 1, sizeof *q->pieces)))
        return flxi_oom(r->err, "a graph of steps");
    flxi_cuda_pieces *p = q->pieces;
    if (i > 0)
        FLXI_TRY(end_piece(q, r->err));
    bool ok = flxi_push(mem, &p->first, p->nodes.n);
    p->next.n = 0;
    for (uint32_t k = 0; k < num_after; k++)
        for (size_t at = p->first.at[after[k]]; at < p->first.at[after[k] + 1] && ok; at++)
            ok = add_next(p, p->nodes.at[at], mem);
    if (!ok)
        return flxi_oom(r->err, "a graph of steps");
    FLXI_CU_TRY(q->card->cu, r->err, StreamUpdateCaptureDependencies, q->stream, p->next.at, p->next.n,
                FLXI_CU_SET_DEPENDENCIES);
    return FLX_OK;
}

void flxi_cuda_free_sequence(flxi_sequence *s)
{
    if (!s)
        return;
    if (s->graph && s->card->cu->CtxSetCurrent(s->card->context) == FLXI_CU_SUCCESS)
        s->card->cu->GraphExecDestroy(s->graph);
    flxi_free(s->card->mem, s, 1, sizeof *s);
}

static flx_code make_sequence(flxi_card *card, flxi_cu_graph graph, flxi_sequence **out, flx_error *err)
{
    flxi_sequence *s = flxi_alloc(card->mem, 1, sizeof *s);
    if (!s)
        return flxi_oom(err, "a sequence of steps");
    s->card = card;
    flxi_cu_result result = card->cu->GraphInstantiate(&s->graph, graph, 0);
    if (result != FLXI_CU_SUCCESS) {
        flxi_cuda_free_sequence(s);
        return flxi_cuda_fail(card->cu, "cuGraphInstantiate", result, err);
    }
    *out = s;
    return FLX_OK;
}

flx_code flxi_cuda_end_note(const flxi_device_run *r, flxi_queue *queue, flxi_sequence **out)
{
    flxi_card *card = queue->card;
    flxi_cu_graph graph = NULL;
    flx_code code = FLX_OK;
    flxi_cu_result result = card->cu->StreamEndCapture(queue->stream, &graph);
    if (out)
        code = result == FLXI_CU_SUCCESS && graph ? make_sequence(card, graph, out, r->err)
                                                  : flxi_cuda_fail(card->cu, "cuStreamEndCapture", result, r->err);
    if (graph)
        card->cu->GraphDestroy(graph);
    flxi_cuda_close_queue(queue);
    return code;
}

flx_code flxi_cuda_run_sequence(const flxi_device_run *r, flxi_sequence *s)
{
    FLXI_CU_TRY(s->card->cu, r->err, CtxSetCurrent, s->card->context);
    FLXI_CU_TRY(s->card->cu, r->err, GraphLaunch, s->graph, flxi_card_stream(s->card, r));
    return FLX_OK;
}
