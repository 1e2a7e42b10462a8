/* SPDX-License-Identifier: Apache-2.0 */
/* collect.c: exchanges as messages between pairs of processes. Sums are made where all parts of them are, in the order
   of the processes, so their bits depend on the number of processes alone: not on the transport, on who is first, or on
   the process that looks at them. An all_reduce is a reduce_scatter and an all_gather of nearly equal pieces, which
   moves as few bytes as any way can: 2 (n - 1) / n of the value to and from each process. */
#include "backend/collective/member.h"
#include "backend/message_size.h"

#include <stdio.h>

typedef struct {
    flxi_member *m;
    const flxi_collective *c;
    flxi_process_group group;
    size_t bytes; /* of an element */
    flxi_arena arena;
    flxi_message *messages;
    size_t n;
    flx_error *err;
} exchange;

/* ---- Messages ---- */

static void add_message(exchange *x, int64_t process, bool is_sent, const void *data, size_t nbytes)
{
    if (nbytes > 0)
        x->messages[x->n++] = (flxi_message){.peer = x->group.ranks[process],
                                             .tag = TAG_DATA,
                                             .is_sent = is_sent,
                                             .data = (void *)(uintptr_t)data,
                                             .nbytes = nbytes};
}

static void count_sent(exchange *x, size_t nbytes)
{
    x->m->sent.messages++;
    x->m->sent.bytes += (int64_t)nbytes;
}

static flx_code move_messages(exchange *x)
{
    size_t n = x->n;
    x->n = 0;
    for (size_t i = 0; i < n; i++)
        if (x->messages[i].is_sent)
            count_sent(x, x->messages[i].nbytes);
    return flxi_member_transfer(x->m, x->messages, n, x->m->timeout, x->err);
}

static unsigned char *new_bytes(exchange *x, size_t n)
{
    return flxi_arena_alloc(&x->arena, n ? n : 1, 1, 64);
}

static flx_code no_memory(exchange *x)
{
    return flxi_oom(x->err, "an exchange between processes");
}

/* ---- Pieces: [outer, n, inner] of [outer, pieces * n, inner] ---- */

static size_t piece_bytes(const exchange *x, const flxi_split *whole)
{
    return (size_t)(whole->outer * (whole->n / x->group.n) * whole->inner) * x->bytes;
}

void flxi_copy_piece(const flxi_split *whole, int64_t pieces, size_t bytes, int64_t k, unsigned char *piece,
                     unsigned char *of_whole, bool is_cut)
{
    size_t row = (size_t)(whole->n / pieces * whole->inner) * bytes;
    size_t step = (size_t)(whole->n * whole->inner) * bytes;
    for (int64_t o = 0; row && o < whole->outer; o++) {
        unsigned char *a = piece + (size_t)o * row, *b = of_whole + (size_t)o * step + (size_t)k * row;
        memcpy(is_cut ? a : b, is_cut ? b : a, row);
    }
}

static void copy_piece(const exchange *x, const flxi_split *whole, int64_t k, unsigned char *piece,
                       unsigned char *of_whole, bool is_cut)
{
    flxi_copy_piece(whole, x->group.n, x->bytes, k, piece, of_whole, is_cut);
}

/* The operand as pieces one after another. NULL: no memory. */
static const unsigned char *cut(exchange *x)
{
    const flxi_split *whole = &x->c->from;
    if (whole->outer == 1)
        return x->c->in;
    size_t size = piece_bytes(x, whole);
    unsigned char *pieces = new_bytes(x, size * (size_t)x->group.n);
    for (int64_t k = 0; pieces && k < x->group.n; k++)
        copy_piece(x, whole, k, pieces + (size_t)k * size, (unsigned char *)(uintptr_t)x->c->in, true);
    return pieces;
}

/* ---- Reductions ---- */

/* The parts of all processes: this one's is where it is. */
static flx_code reduce_piece(exchange *x, const unsigned char *own, unsigned char *received, size_t count, void *out)
{
    size_t n = (size_t)x->group.n;
    const void **parts = flxi_new(&x->arena, const void *, n);
    if (!parts)
        return no_memory(x);
    for (size_t k = 0; k < n; k++)
        parts[k] = (int64_t)k == x->group.index ? own : received + k * count * x->bytes;
    flxi_reduce_parts(x->c->dtype, x->c->reduction, parts, n, count, out);
    return FLX_OK;
}

static size_t bound(const exchange *x, int64_t k)
{
    size_t n = (size_t)x->group.n, each = x->c->elements / n, rest = x->c->elements % n;
    return (size_t)k * each + ((size_t)k < rest ? (size_t)k : rest);
}

/* An all_reduce in chunks: while a chunk of sums goes to the others, the parts of the next one arrive. What is received
   stays in the processor's cache until it is added, and little memory is touched for the first time. */
typedef struct {
    exchange *x;
    size_t chunk, steps; /* elements, and how many chunks the largest piece has */
    unsigned char *received;
    const void **parts;
} reduction;

/* Chunk i of the piece of process k. */
static size_t chunk_begin(const reduction *r, int64_t k, size_t i)
{
    size_t begin = bound(r->x, k) + i * r->chunk, end = bound(r->x, k + 1);
    return begin < end ? begin : end;
}

static size_t chunk_bytes(const reduction *r, int64_t k, size_t i)
{
    return (chunk_begin(r, k, i + 1) - chunk_begin(r, k, i)) * r->x->bytes;
}

static void add_parts(const reduction *r, size_t i)
{
    exchange *x = r->x;
    const unsigned char *in = x->c->in;
    for (int64_t k = 0; k < x->group.n; k++)
        if (k != x->group.index) {
            add_message(x, k, false, r->received + (size_t)k * r->chunk * x->bytes, chunk_bytes(r, x->group.index, i));
            add_message(x, k, true, in + chunk_begin(r, k, i) * x->bytes, chunk_bytes(r, k, i));
        }
}

static void add_sums(const reduction *r, size_t i)
{
    exchange *x = r->x;
    unsigned char *out = x->c->out;
    int64_t me = x->group.index;
    for (int64_t k = 0; k < x->group.n; k++)
        if (k != me) {
            add_message(x, k, false, out + chunk_begin(r, k, i) * x->bytes, chunk_bytes(r, k, i));
            add_message(x, k, true, out + chunk_begin(r, me, i) * x->bytes, chunk_bytes(r, me, i));
        }
}

static void add_up(const reduction *r, size_t i)
{
    const exchange *x = r->x;
    int64_t me = x->group.index;
    size_t begin = chunk_begin(r, me, i), count = chunk_begin(r, me, i + 1) - begin;
    for (int64_t k = 0; k < x->group.n; k++)
        r->parts[k] = k == me ? (const unsigned char *)x->c->in + begin * x->bytes
                              : r->received + (size_t)k * r->chunk * x->bytes;
    flxi_reduce_parts(x->c->dtype, x->c->reduction, r->parts, (size_t)x->group.n, count,
                      (unsigned char *)x->c->out + begin * x->bytes);
}

static flx_code all_reduce(exchange *x)
{
    size_t largest = bound(x, 1), most = FLXI_REDUCE_CHUNK / x->bytes;
    reduction r = {.x = x, .chunk = largest < most ? largest : most};
    r.steps = r.chunk ? (largest + r.chunk - 1) / r.chunk : 0;
    r.received = new_bytes(x, r.chunk * x->bytes * (size_t)x->group.n);
    r.parts = flxi_new(&x->arena, const void *, (size_t)x->group.n);
    if (!r.received || !r.parts)
        return no_memory(x);
    for (size_t i = 0; i <= r.steps; i++) {
        if (i < r.steps)
            add_parts(&r, i);
        if (i > 0)
            add_sums(&r, i - 1);
        FLXI_TRY(move_messages(x));
        if (i < r.steps)
            add_up(&r, i);
    }
    return FLX_OK;
}

static flx_code reduce_scatter(exchange *x)
{
    size_t size = piece_bytes(x, &x->c->from);
    const unsigned char *pieces = cut(x);
    unsigned char *received = new_bytes(x, size * (size_t)x->group.n);
    int64_t me = x->group.index;
    if (!pieces || !received)
        return no_memory(x);
    for (int64_t k = 0; k < x->group.n; k++)
        if (k != me) {
            add_message(x, k, false, received + (size_t)k * size, size);
            add_message(x, k, true, pieces + (size_t)k * size, size);
        }
    FLXI_TRY(move_messages(x));
    return reduce_piece(x, pieces + (size_t)me * size, received, size / x->bytes, x->c->out);
}

/* ---- Values as they are ---- */

/* Each process gets a piece of `sent` (step 0: all of it); what arrives is joined along the axis of the result. */
static flx_code exchange_pieces(exchange *x, const unsigned char *sent, size_t step)
{
    const flxi_split *whole = &x->c->to;
    size_t size = piece_bytes(x, whole);
    int64_t me = x->group.index;
    bool is_direct = whole->outer == 1;
    unsigned char *received = is_direct ? x->c->out : new_bytes(x, size * (size_t)x->group.n);
    if (!sent || !received)
        return no_memory(x);
    for (int64_t k = 0; k < x->group.n; k++)
        if (k != me) {
            add_message(x, k, false, received + (size_t)k * size, size);
            add_message(x, k, true, sent + (size_t)k * step, size);
        }
    if (size)
        memcpy(received + (size_t)me * size, sent + (size_t)me * step, size);
    FLXI_TRY(move_messages(x));
    for (int64_t k = 0; !is_direct && k < x->group.n; k++)
        copy_piece(x, whole, k, received + (size_t)k * size, x->c->out, false);
    return FLX_OK;
}

static flx_code all_gather(exchange *x)
{
    return exchange_pieces(x, x->c->in, 0);
}

static flx_code all_to_all(exchange *x)
{
    return exchange_pieces(x, cut(x), piece_bytes(x, &x->c->from));
}

/* A tree: process r, counted from the root, gets the value from r without its highest bit. */
static flx_code broadcast(exchange *x)
{
    int64_t n = x->group.n, root = x->c->process, own = (x->group.index - root + n) % n, bit = 1;
    size_t size = x->c->elements * x->bytes;
    while (bit <= own)
        bit *= 2;
    if (own == 0 && size)
        memcpy(x->c->out, x->c->in, size);
    if (own > 0) {
        add_message(x, (own - bit / 2 + root) % n, false, x->c->out, size);
        FLXI_TRY(move_messages(x));
    }
    for (; own + bit < n; bit *= 2)
        add_message(x, (own + bit + root) % n, true, x->c->out, size);
    return move_messages(x);
}

static flx_code permute(exchange *x)
{
    const flxi_collective *c = x->c;
    size_t size = c->elements * x->bytes;
    bool is_target = false;
    for (size_t i = 0; i < c->num_pairs; i++) {
        bool sends = c->sources[i] == x->group.index, receives = c->targets[i] == x->group.index;
        is_target |= receives;
        if (sends && receives && size)
            memcpy(c->out, c->in, size);
        else if (sends)
            add_message(x, c->targets[i], true, c->in, size);
        else if (receives)
            add_message(x, c->sources[i], false, c->out, size);
    }
    if (!is_target && size)
        memset(c->out, 0, size);
    return move_messages(x);
}

/* A process receives zeros from itself. */
static flx_code send_value(exchange *x)
{
    const flxi_collective *c = x->c;
    if (c->elements)
        memcpy(c->out, c->in, c->elements * x->bytes);
    if (c->process == x->group.index)
        return FLX_OK;
    count_sent(x, c->elements * x->bytes);
    return flxi_member_send(x->m, x->group.ranks[c->process], c, x->err);
}

static flx_code receive_value(exchange *x)
{
    const flxi_collective *c = x->c;
    if (c->process != x->group.index)
        return flxi_member_receive(x->m, x->group.ranks[c->process], c, x->err);
    if (c->elements)
        memset(c->out, 0, c->elements * x->bytes);
    return FLX_OK;
}

static flx_code nothing(exchange *x)
{
    (void)x;
    return FLX_OK;
}

/* ---- One exchange ---- */

static flx_code (*const ways[])(exchange *x) = {
    [COLLECT_ALL_REDUCE] = all_reduce, [COLLECT_ALL_GATHER] = all_gather, [COLLECT_REDUCE_SCATTER] = reduce_scatter,
    [COLLECT_ALL_TO_ALL] = all_to_all, [COLLECT_BROADCAST] = broadcast,   [COLLECT_PERMUTE] = permute,
    [COLLECT_SEND] = send_value,       [COLLECT_RECV] = receive_value,    [COLLECT_BARRIER] = nothing,
    [COLLECT_AGREE] = nothing,
};

static flx_code run_exchange(exchange *x)
{
    bool is_point = x->c->kind == COLLECT_SEND || x->c->kind == COLLECT_RECV;
    FLXI_TRY(flxi_member_group(x->m, x->c->axis_name, &x->group, x->err));
    FLXI_TRY(flxi_collective_check(x->c, x->group.n, x->err));
    x->messages = flxi_new(&x->arena, flxi_message, 4 * (size_t)x->group.n + 64);
    if (!x->messages)
        return no_memory(x);
    bool is_made = false;
    if (!is_point && x->m->meets)
        FLXI_TRY(flxi_member_meet(x->m, &x->group, x->c, &is_made, x->err));
    else if (!is_point)
        FLXI_TRY(flxi_member_agree(x->m, &x->group, x->c, x->err));
    return is_made ? FLX_OK : ways[x->c->kind](x);
}

flx_code flxi_member_collect(flxi_mesh *mesh, const flxi_collective *c, flx_error *err)
{
    flxi_member *m = (flxi_member *)mesh;
    FLXI_TRY(flxi_background_wait(m->background, err)); /* exchanges of all processes have one order */
    return flxi_member_exchange(m, c, err);
}

flx_code flxi_member_exchange(flxi_member *m, const flxi_collective *c, flx_error *err)
{
    flx_error why = {0};
    if (m->has_failed)
        return flxi_fail_hint(err, FLX_E_DEVICE, "leave the mesh, and join another one",
                              "the mesh failed before: %.150s", m->failure.message);
    exchange x = {.m = m, .c = c, .bytes = c->dtype ? flx_dtype_size(c->dtype) : 1, .err = &why};
    flxi_arena_init(&x.arena, &m->ctx->mem);
    m->exchanges++;
    m->sent.exchanges += c->kind != COLLECT_AGREE;
    flx_code code = run_exchange(&x);
    flxi_member_group_free(m, &x.group);
    flxi_arena_free(&x.arena);
    if (code == FLX_OK)
        return FLX_OK;
    m->has_failed = true;
    m->failure = why;
    if (err)
        *err = why;
    return code;
}
