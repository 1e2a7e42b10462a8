/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_cost.c: messages, bytes and time of one exchange, by the way in which backend/collective makes it. Where
   every process sends to every other, the bytes of a connection are those of a message times the pairs of processes
   that it separates; these are counted once for each set of axes. Otherwise messages are counted one by one. */
#include "plan/mesh_plan.h"

#include "backend/message_size.h"
#include "base/host/stop.h"
#include "graph/op/work.h"

/* By link: pairs of a sender and a receiver of one group, the sender on this side of the connection and the receiver on
   the other, for the connection with most of them. */
typedef struct flxi_crossings {
    struct flxi_crossings *next;
    uint32_t axes; /* a bit for each */
    int64_t pairs[FLXI_MACHINE_LINKS];
} crossings;

/* The ranks that share a connection to the link. */
static int64_t ranks_inside(const flxi_layout *l, uint32_t link)
{
    return link ? l->machine.links[link - 1].ranks : 1;
}

/* ---- Every process sends to every other ---- */

static int64_t count_pairs(const flxi_layout *l, const flxi_mesh_axes *along, int64_t begin, int64_t end)
{
    int64_t n = flxi_mesh_count(along), pairs = 0;
    for (int64_t r = begin; r < end; r++)
        l->counts[flxi_mesh_peer(along, r, 0)]++;
    for (int64_t r = begin; r < end; r++)
        pairs += n - l->counts[flxi_mesh_peer(along, r, 0)];
    for (int64_t r = begin; r < end; r++)
        l->counts[flxi_mesh_peer(along, r, 0)] = 0;
    return pairs;
}

static const crossings *find_crossings(flxi_layout *l, const flxi_mesh_axes *along)
{
    uint32_t axes = 0;
    for (int i = 0; i < along->n; i++)
        axes |= 1u << (along->at[i] - l->axes);
    for (const crossings *c = l->crossings; c; c = c->next)
        if (c->axes == axes)
            return c;
    crossings *made = flxi_new(l->arena, crossings, 1);
    if (!made)
        return NULL;
    *made = (crossings){.next = l->crossings, .axes = axes};
    for (uint32_t k = 0; k < l->machine.num_links; k++)
        for (int64_t begin = 0, size = ranks_inside(l, k); begin < l->ranks; begin += size) {
            int64_t end = begin + size < l->ranks ? begin + size : l->ranks, pairs = count_pairs(l, along, begin, end);
            made->pairs[k] = pairs > made->pairs[k] ? pairs : made->pairs[k];
        }
    l->crossings = made;
    return made;
}

/* ---- Some processes send to some others ---- */

/* Messages of a group of n processes. */
typedef struct {
    const flxi_collective *c;
    int64_t n;
    const int64_t *targets; /* of a permutation, by process; -1: it sends nothing */
} sending;

/* To which process of its group a process sends its message number `i`; -1: it sends no more. */
typedef int64_t (*receiver_fn)(const sending *s, int64_t index, int64_t i);

/* A tree, as in collect.c. */
static int64_t next_of_broadcast(const sending *s, int64_t index, int64_t i)
{
    int64_t n = s->n, own = (index - s->c->process + n) % n, bit = 1;
    while (bit <= own)
        bit *= 2;
    for (; i > 0 && own + bit < n; i--)
        bit *= 2;
    return own + bit < n ? (own + bit + s->c->process) % n : -1;
}

static int64_t next_of_permute(const sending *s, int64_t index, int64_t i)
{
    return i == 0 ? s->targets[index] : -1;
}

static int64_t next_of_send(const sending *s, int64_t index, int64_t i)
{
    return i == 0 && s->c->process != index ? s->c->process : -1;
}

static void list_targets(const flxi_collective *c, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = -1;
    for (size_t k = 0; k < c->num_pairs; k++)
        if (c->targets[k] != c->sources[k])
            out[c->sources[k]] = c->targets[k];
}

/* Messages that leave or enter the connection with most of them. */
static int64_t busiest(const flxi_layout *l, const sending *s, const flxi_mesh_axes *along, receiver_fn next,
                       int64_t size, bool enters)
{
    int64_t most = 0, to;
    for (int64_t r = 0; r < l->ranks; r++)
        for (int64_t i = 0; (to = next(s, flxi_mesh_index(along, r), i)) >= 0; i++) {
            int64_t peer = flxi_mesh_peer(along, r, to), at = (enters ? peer : r) / size;
            if (r / size != peer / size && ++l->counts[at] > most)
                most = l->counts[at];
        }
    memset(l->counts, 0, (size_t)l->ranks * sizeof *l->counts);
    return most;
}

static void count_messages(const flxi_layout *l, const flxi_collective *c, const flxi_mesh_axes *along,
                           receiver_fn next, int64_t bytes, flxi_exchange_cost *out)
{
    const sending s = {c, flxi_mesh_count(along), l->targets};
    if (c->kind == COLLECT_PERMUTE)
        list_targets(c, s.n, l->targets);
    out->messages = busiest(l, &s, along, next, 1, false);
    out->bytes = flxi_times(out->messages, bytes);
    for (uint32_t k = 0; k < l->machine.num_links; k++) {
        int64_t size = ranks_inside(l, k), left = busiest(l, &s, along, next, size, false);
        int64_t entered = busiest(l, &s, along, next, size, true);
        out->link_bytes[k] = (double)(left > entered ? left : entered) * (double)bytes;
    }
}

/* ---- All ---- */

/* Seconds of `rounds` rounds, in each of which a rank waits for messages of others. */
static double time_of(const flxi_layout *l, const flxi_exchange_cost *x, double rounds, double handled)
{
    double latency = 0, moving = 0;
    if (l->machine.flops <= 0)
        return 0;
    for (uint32_t k = 0; k < l->machine.num_links; k++)
        if (x->link_bytes[k] > 0) {
            double seconds = x->link_bytes[k] / l->machine.links[k].bandwidth;
            latency = l->machine.links[k].latency > latency ? l->machine.links[k].latency : latency;
            moving = seconds > moving ? seconds : moving;
        }
    return rounds * latency + moving + handled * l->machine.message;
}

/* Before values travel, the first process of a group hears from all others and answers with a verdict. */
static flxi_exchange_cost agreement(const flxi_layout *l, const crossings *x, int64_t n)
{
    flxi_exchange_cost c = {.messages = 0};
    for (uint32_t k = 0; k < l->machine.num_links; k++)
        c.link_bytes[k] = x->pairs[k] ? (double)(n - 1) * sizeof(flx_error) : 0;
    c.seconds = time_of(l, &c, 2, 2 * (double)(n - 1));
    return c;
}

/* Messages of `piece` bytes between all pairs, `rounds` times. */
static void between_all(const flxi_layout *l, const crossings *x, int64_t n, double piece, double rounds,
                        flxi_exchange_cost *out)
{
    for (uint32_t k = 0; k < l->machine.num_links; k++)
        out->link_bytes[k] = (double)x->pairs[k] * piece * rounds;
    out->seconds = time_of(l, out, rounds, 2 * rounds * (double)(n - 1));
}

/* A reduce_scatter and an all_gather of nearly equal pieces; those of the first processes may have an element more. */
static void cost_all_reduce(const flxi_layout *l, const crossings *x, const flxi_collective *c, int64_t n,
                            flxi_exchange_cost *out)
{
    int64_t elements = (int64_t)c->elements, size = (int64_t)flx_dtype_size(c->dtype);
    int64_t own = elements / n + (elements % n != 0), receivers = elements < n ? elements : n;
    int64_t own_bytes = flxi_times(own, size), chunks = own_bytes / FLXI_REDUCE_CHUNK;
    chunks += own_bytes % FLXI_REDUCE_CHUNK != 0;
    out->messages = elements ? flxi_times(receivers - 1 + n - 1, chunks) : 0;
    out->bytes = flxi_times(flxi_plus(elements - own, flxi_times(n - 1, own)), size);
    between_all(l, x, n, (double)own * (double)size, 2, out);
    out->seconds += l->machine.message * 4 * (double)(n - 1) * (double)(chunks > 1 ? chunks - 1 : 0);
    if (l->machine.bandwidth > 0) /* the parts are read, and their sum is written */
        out->seconds += ((double)elements + (double)own) * (double)size / l->machine.bandwidth;
}

static void cost_of_pieces(const flxi_layout *l, const crossings *x, int64_t n, int64_t piece, flxi_exchange_cost *out)
{
    out->messages = piece ? n - 1 : 0;
    out->bytes = flxi_times(n - 1, piece);
    between_all(l, x, n, (double)piece, 1, out);
}

flx_code flxi_exchange_cost_of(flxi_layout *l, const flxi_collective *c, flxi_exchange_cost *out, flx_error *err)
{
    static const receiver_fn receivers[] = {
        [COLLECT_BROADCAST] = next_of_broadcast, [COLLECT_PERMUTE] = next_of_permute, [COLLECT_SEND] = next_of_send};
    flxi_mesh_axes along;
    flx_error why;
    FLXI_TRY(flxi_stop_check(err));
    FLXI_TRY(flxi_mesh_find_axes(l->axes, l->num_axes, c->axis_name, &along, err));
    int64_t n = flxi_mesh_count(&along);
    int64_t bytes = c->dtype ? flxi_times((int64_t)c->elements, (int64_t)flx_dtype_size(c->dtype)) : 0;
    *out = (flxi_exchange_cost){.messages = 0};
    if (flxi_collective_check(c, n, &why) != FLX_OK)
        return flxi_fail_hint(err, (flx_code)why.code, why.hint, "%s: %.200s", c->op, why.message);
    const crossings *x = find_crossings(l, &along);
    if (!x)
        return flxi_oom(err, "a plan");
    if (n == 1)
        return FLX_OK;
    if (c->kind == COLLECT_ALL_REDUCE)
        cost_all_reduce(l, x, c, n, out);
    else if (c->kind == COLLECT_ALL_GATHER)
        cost_of_pieces(l, x, n, bytes, out);
    else if (c->kind == COLLECT_REDUCE_SCATTER || c->kind == COLLECT_ALL_TO_ALL)
        cost_of_pieces(l, x, n, bytes / n, out);
    else if ((size_t)c->kind < sizeof receivers / sizeof *receivers && receivers[c->kind] && bytes) {
        count_messages(l, c, &along, receivers[c->kind], bytes, out);
        int64_t rounds = 1;
        for (int64_t k = 2; c->kind == COLLECT_BROADCAST && k < n; k *= 2)
            rounds++;
        out->seconds = time_of(l, out, (double)rounds, 2 * (double)out->messages);
    }
    if (c->kind != COLLECT_SEND && c->kind != COLLECT_RECV)
        out->seconds += agreement(l, x, n).seconds;
    return FLX_OK;
}
