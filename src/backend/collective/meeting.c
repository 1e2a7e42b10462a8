/* SPDX-License-Identifier: Apache-2.0 */
/* meeting.c: the exchange of a whole group by one of its processes, where these are threads: it reads the operands of
   all and writes the results of all. For small values that takes less time than waking each process for its share. Sums
   are those of flxi_reduce_parts() in the order of the processes, as in collect.c, so the bits are the same. */
#include "backend/collective/member.h"

/* Of the operands of all together. For more of them the processes share the work, with messages. */
enum { MOST_BYTES = 1 << 20 };

typedef struct {
    const flxi_collective *const *all; /* by process */
    const flxi_collective *c;          /* the first: what is equal in all of them */
    int64_t n;
    size_t bytes, size;  /* of an element; of an operand */
    unsigned char *room; /* of n + 1 operands: a result may be where an operand is */
} group;

static const void **operands(const group *g, const void **out)
{
    for (int64_t k = 0; k < g->n; k++)
        out[k] = g->all[k]->in;
    return out;
}

/* The sum, or another reduction, in the room; NULL: no memory. */
static unsigned char *reduced(const group *g, const flxi_allocator *mem)
{
    const void **parts = flxi_alloc(mem, (size_t)g->n, sizeof *parts);
    if (!parts)
        return NULL;
    flxi_reduce_parts(g->c->dtype, g->c->reduction, operands(g, parts), (size_t)g->n, g->c->elements, g->room);
    flxi_free(mem, parts, (size_t)g->n, sizeof *parts);
    return g->room;
}

static void copy_bytes(void *to, const void *from, size_t n)
{
    if (n && to != from)
        memcpy(to, from, n);
}

/* Copies of all operands, one after the other. */
static unsigned char *copied(const group *g)
{
    for (int64_t k = 0; k < g->n; k++)
        copy_bytes(g->room + (size_t)k * g->size, g->all[k]->in, g->size);
    return g->room;
}

static bool all_reduce(const group *g, const flxi_allocator *mem)
{
    const unsigned char *sum = reduced(g, mem);
    for (int64_t k = 0; sum && k < g->n; k++)
        copy_bytes(g->all[k]->out, sum, g->size);
    return sum;
}

static bool reduce_scatter(const group *g, const flxi_allocator *mem)
{
    unsigned char *sum = reduced(g, mem);
    for (int64_t k = 0; sum && k < g->n; k++)
        flxi_copy_piece(&g->c->from, g->n, g->bytes, k, g->all[k]->out, sum, true);
    return sum;
}

static bool all_gather(const group *g, const flxi_allocator *mem)
{
    (void)mem;
    unsigned char *pieces = copied(g);
    for (int64_t p = 0; p < g->n; p++)
        for (int64_t k = 0; k < g->n; k++)
            flxi_copy_piece(&g->c->to, g->n, g->bytes, k, pieces + (size_t)k * g->size, g->all[p]->out, false);
    return true;
}

static bool all_to_all(const group *g, const flxi_allocator *mem)
{
    (void)mem;
    unsigned char *values = copied(g), *piece = values + (size_t)g->n * g->size;
    for (int64_t p = 0; p < g->n; p++)
        for (int64_t k = 0; k < g->n; k++) {
            flxi_copy_piece(&g->c->from, g->n, g->bytes, p, piece, values + (size_t)k * g->size, true);
            flxi_copy_piece(&g->c->to, g->n, g->bytes, k, piece, g->all[p]->out, false);
        }
    return true;
}

static bool broadcast(const group *g, const flxi_allocator *mem)
{
    (void)mem;
    for (int64_t k = 0; k < g->n; k++)
        copy_bytes(g->all[k]->out, g->all[g->c->process]->in, g->size);
    return true;
}

static bool permute(const group *g, const flxi_allocator *mem)
{
    (void)mem;
    const unsigned char *values = copied(g);
    for (int64_t k = 0; g->size && k < g->n; k++)
        memset(g->all[k]->out, 0, g->size);
    for (size_t i = 0; i < g->c->num_pairs; i++)
        copy_bytes(g->all[g->c->targets[i]]->out, values + (size_t)g->c->sources[i] * g->size, g->size);
    return true;
}

static bool nothing(const group *g, const flxi_allocator *mem)
{
    (void)g;
    (void)mem;
    return true;
}

static bool (*const ways[])(const group *g, const flxi_allocator *mem) = {
    [COLLECT_ALL_REDUCE] = all_reduce, [COLLECT_ALL_GATHER] = all_gather, [COLLECT_REDUCE_SCATTER] = reduce_scatter,
    [COLLECT_ALL_TO_ALL] = all_to_all, [COLLECT_BROADCAST] = broadcast,   [COLLECT_PERMUTE] = permute,
    [COLLECT_BARRIER] = nothing,       [COLLECT_AGREE] = nothing,
};

flx_code flxi_collect_together(const flxi_allocator *mem, const flxi_collective *const *all, int64_t n, bool *is_made,
                               flx_error *err)
{
    group g = {.all = all, .c = all[0], .n = n, .bytes = all[0]->dtype ? flx_dtype_size(all[0]->dtype) : 1};
    g.size = g.c->elements * g.bytes;
    *is_made = false;
    if (g.size > MOST_BYTES / (size_t)n)
        return FLX_OK;
    size_t room = (size_t)(n + 1) * (g.size ? g.size : 1);
    g.room = flxi_alloc(mem, room, 1);
    if (!g.room)
        return flxi_oom(err, "an exchange between processes");
    *is_made = ways[g.c->kind](&g, mem);
    flxi_free(mem, g.room, room, 1);
    return *is_made ? FLX_OK : flxi_oom(err, "an exchange between processes");
}
