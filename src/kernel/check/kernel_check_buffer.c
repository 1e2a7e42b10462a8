/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_check_buffer.c: see kernel_check_buffer.h. */
#include "kernel/check/kernel_check_buffer.h"

#include <stdio.h>

/* ---- Conditions on a count ---- */

static int operands_of(uint32_t test)
{
    return test == FLX_KERNEL_COUNT_AND || test == FLX_KERNEL_COUNT_OR ? 2 : test == FLX_KERNEL_COUNT_NOT;
}

bool flxi_kpredicate_is_whole(const flx_kernel_predicate *p, size_t n)
{
    size_t wanted = 1;
    if (n > FLXI_KERNEL_MAX_PREDICATES)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (wanted == 0 || p[i].test == 0 || p[i].test > FLX_KERNEL_COUNT_NOT)
            return false;
        if ((p[i].test == FLX_KERNEL_COUNT_MULTIPLE || p[i].test == FLX_KERNEL_COUNT_MOD) && p[i].a == 0)
            return false;
        wanted += (size_t)operands_of(p[i].test) - 1;
    }
    return n == 0 || wanted == 0;
}

static bool is_affine(const flx_kernel_predicate *p, uint64_t count)
{
    uint64_t product;
    bool overflows = __builtin_mul_overflow(p->a, count, &product);
    return !overflows && p->b <= product && product <= p->c; /* a product that overflows is above every bound */
}

static bool holds_one(const flx_kernel_predicate *p, uint64_t count, const bool *operands)
{
    switch ((flx_kernel_test)p->test) {
    case FLX_KERNEL_COUNT_GE: return count >= p->a;
    case FLX_KERNEL_COUNT_LE: return count <= p->a;
    case FLX_KERNEL_COUNT_EQ: return count == p->a;
    case FLX_KERNEL_COUNT_MULTIPLE: return count % p->a == 0;
    case FLX_KERNEL_COUNT_MOD: return count % p->a == p->b;
    case FLX_KERNEL_COUNT_AFFINE: return is_affine(p, count);
    case FLX_KERNEL_COUNT_AND: return operands[0] && operands[-1];
    case FLX_KERNEL_COUNT_OR: return operands[0] || operands[-1];
    case FLX_KERNEL_COUNT_NOT: return !operands[0];
    }
    return false;
}

/* From the end: the operands of a condition are then the last results, the first operand on top. */
bool flxi_kpredicate_holds(const flx_kernel_predicate *p, size_t n, uint64_t count)
{
    bool stack[FLXI_KERNEL_MAX_PREDICATES + 1];
    size_t top = 0;
    if (n == 0 || !flxi_kpredicate_is_whole(p, n))
        return n == 0;
    for (size_t i = n; i-- > 0;) {
        bool holds = holds_one(&p[i], count, &stack[top - (top > 0)]);
        top -= (size_t)operands_of(p[i].test);
        stack[top++] = holds;
    }
    return stack[0];
}

/* ---- The kernel ---- */

static void check_size(flxi_kchecker *c)
{
    const uint32_t *size = c->k->size;
    uint64_t product = 1;
    for (int a = 0; a < 3; a++) {
        if (size[a] == 0) {
            flxi_kfind(c, "K01", "every dimension of a workgroup is at least 1",
                       "workgroup [%u, %u, %u]: dimension %d is 0", (unsigned)size[0], (unsigned)size[1],
                       (unsigned)size[2], a);
            return;
        }
        product = product > c->target.max_workgroup ? product : product * size[a];
    }
    if (product > c->target.max_workgroup)
        flxi_kfind(c, "K01", "make the workgroup smaller and the grid larger",
                   "workgroup [%u, %u, %u] has more than %u invocations", (unsigned)size[0], (unsigned)size[1],
                   (unsigned)size[2], (unsigned)c->target.max_workgroup);
}

static void check_meta(flxi_kchecker *c)
{
    flxi_kcheck_name(c, "the kernel", c->k->name);
    for (size_t i = 0; i < c->k->num_meta; i++) {
        flxi_kcheck_text(c, "the key", c->k->meta[i].key);
        flxi_kcheck_text(c, "the value", c->k->meta[i].value);
    }
}

/* ---- Buffers ---- */

void flxi_kcheck_type(flxi_kchecker *c, const char *what, uint32_t type)
{
    bool lacks = (type == FLX_F64 && (c->target.flags & FLX_KERNEL_LACKS_F64)) ||
                 (type == FLX_F16 && (c->target.flags & FLX_KERNEL_LACKS_F16));
    if (lacks)
        flxi_kfind(c, "K31", "use f32 on this target", "%s: the target does not support %s", what,
                   flxi_ktype_shown(type));
}

static void check_names(flxi_kchecker *c, uint32_t number, flxi_index *bindings)
{
    const flxi_kbuffer *b = &c->k->buffers[number];
    flxi_kcheck_name(c, "buffer", b->name);
    flxi_kname *name = flxi_kname_of(c, b->name);
    if (name->buffer)
        flxi_kfind(c, "K02", "give each buffer a name of its own", "a second buffer is named '%s'",
                   flxi_kshow(b->name).at);
    else
        name->buffer = number;
    if (!flxi_kbuffer_is_bound(b))
        return;
    uint32_t other;
    flxi_probe p = flxi_index_first(bindings, b->binding);
    if (flxi_index_next(bindings, &p, &other))
        flxi_kfind(c, "K03", "give each bound buffer a slot of its own", "buffers '%s' and '%s' both have binding %u",
                   flxi_kshow(c->k->buffers[other].name).at, flxi_kshow(b->name).at, (unsigned)b->binding);
    else if (!flxi_index_add(c->mem, bindings, b->binding, number))
        c->failed = true;
}

/* Bytes of workgroup or private memory so far; the buffer that exceeds the limit is reported. */
static void check_total(flxi_kchecker *c, const flxi_kbuffer *b, uint64_t *total, uint64_t limit)
{
    const char *kind = flxi_kaccess_names[b->access];
    if (b->count == 0) {
        flxi_kfind(c, "K04", "write the number of elements in the declaration", "%s buffer '%s' has no count", kind,
                   flxi_kshow(b->name).at);
        return;
    }
    bool was_over = *total > limit;
    uint64_t bytes = flxi_ktype_bytes(b->element, b->count);
    *total = bytes > UINT64_MAX - *total ? UINT64_MAX : *total + bytes;
    if (*total > limit && !was_over)
        flxi_kfind(c, "K04", "use fewer elements, or storage",
                   "with buffer '%s', %s memory takes %llu bytes; the limit is %llu", flxi_kshow(b->name).at, kind,
                   (unsigned long long)*total, (unsigned long long)limit);
}

static void check_output(flxi_kchecker *c, const flxi_kbuffer *b)
{
    flxi_kshown name = flxi_kshow(b->name);
    const flxi_ktype *t = flxi_ktype_of(b->element);
    bool is_output = (b->flags & FLX_KERNEL_OUTPUT) != 0;
    if (is_output && t->kind == 0)
        flxi_kfind(c, "K05", "the elements of an output must have a type that can be stored",
                   "output '%s' has elements of type %s", name.at, flxi_ktype_shown(b->element));
    if (is_output && b->access != FLX_KERNEL_READ_WRITE)
        flxi_kfind(c, "K05", "declare it read_write", "output '%s' is a %s buffer", name.at,
                   flxi_kaccess_names[b->access]);
    if (b->descriptor_size && t->kind)
        flxi_kfind(c, "K64", "only descriptive element types have descriptors", "buffer '%s' of %s has a descriptor",
                   name.at, flxi_ktype_shown(b->element));
    if (b->range_begin == 0 && b->range_end == 0)
        return;
    uint64_t size = b->count ? flxi_ktype_bytes(b->element, b->count) : UINT64_MAX;
    if (!is_output)
        flxi_kfind(c, "K06", "only outputs are read back", "buffer '%s' has a byte range but is not an output",
                   name.at);
    else if (b->range_begin > b->range_end || b->range_end > size)
        flxi_kfind(c, "K06", "a range has 0 <= begin <= end <= size", "range (%llu, %llu) of output '%s'%s",
                   (unsigned long long)b->range_begin, (unsigned long long)b->range_end, name.at,
                   b->range_begin > b->range_end ? " ends before it begins" : " ends after the end of the buffer");
}

static void check_predicates(flxi_kchecker *c, const flxi_kbuffer *b)
{
    if (!flxi_kpredicate_is_whole(b->predicates, b->num_predicates))
        flxi_kfind(c, "K07", "and, or are followed by two conditions, not by one; divisors are not 0",
                   "the condition on the count of buffer '%s' is not well-formed", flxi_kshow(b->name).at);
    else if (b->count && !flxi_kpredicate_holds(b->predicates, b->num_predicates, b->count))
        flxi_kfind(c, "K07", "change the count or its condition",
                   "buffer '%s' has %llu elements, which violates its condition", flxi_kshow(b->name).at,
                   (unsigned long long)b->count);
}

static void check_usage(flxi_kchecker *c, const flxi_kbuffer *b, uint64_t uses)
{
    static const char *const wanted[] = {"", "at most once", "at least once", "exactly once"};
    bool too_many = uses > 1 && (b->usage == FLX_KERNEL_AT_MOST_ONCE || b->usage == FLX_KERNEL_EXACTLY_ONCE);
    bool too_few = uses < 1 && (b->usage == FLX_KERNEL_AT_LEAST_ONCE || b->usage == FLX_KERNEL_EXACTLY_ONCE);
    if (too_many || too_few)
        flxi_kfind(c, "K08", "loads, stores, atomics and copies count, once for each occurrence in the text",
                   "buffer '%s' must be used %s but is used %llu times", flxi_kshow(b->name).at, wanted[b->usage],
                   (unsigned long long)uses);
}

static void check_buffer(flxi_kchecker *c, uint32_t number, uint64_t totals[2], flxi_index *bindings)
{
    const flxi_kbuffer *b = &c->k->buffers[number];
    char root[80];
    snprintf(root, sizeof root, "buffer %s", flxi_kshow(b->name).at);
    c->path.root = root;
    c->position = b->position;
    check_names(c, number, bindings);
    if (b->access == FLX_KERNEL_WORKGROUP)
        check_total(c, b, &totals[0], c->target.max_workgroup_bytes);
    else if (b->access == FLX_KERNEL_PRIVATE)
        check_total(c, b, &totals[1], c->target.max_private_bytes);
    check_output(c, b);
    check_predicates(c, b);
    check_usage(c, b, c->uses[number]);
    flxi_kcheck_type(c, root, b->element);
    c->path.root = "";
}

void flxi_kcheck_declarations(flxi_kchecker *c)
{
    uint64_t totals[2] = {0};
    flxi_index bindings = {0};
    c->path.root = "kernel";
    c->position = c->k->position;
    check_size(c);
    check_meta(c);
    for (uint32_t i = 1; i <= c->k->num_buffers && !c->failed; i++)
        check_buffer(c, i, totals, &bindings);
    flxi_index_free(c->mem, &bindings);
}
