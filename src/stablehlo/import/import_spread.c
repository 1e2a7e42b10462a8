/* SPDX-License-Identifier: Apache-2.0 */
/* import_spread.c: how results of @main are cut where the program leaves it open: as follows from how its arguments are
   cut, operation by operation. An axis of a result is cut like the axes of operands that it corresponds to; where no
   rule is known, or an axis of the mesh would be used twice, it is whole. Nothing is computed differently for it. */
#include "stablehlo/import/import_program.h"
#include "stablehlo/import/import_scope.h"

#include <stdio.h>

enum { MOST_CALLS = 200 };

/* By axis of the value: names of axes of the mesh, with commas between them; NULL: whole. */
typedef struct {
    const char *at[FLX_MAX_RANK];
} spread;

typedef struct {
    const hlo_module *m;
    hlo_mesh mesh;
    flxi_arena *arena;
    int calls;    /* that may still be followed */
    bool starved; /* of memory */
} spreader;

static void follow(spreader *p, const hlo_region *r, spread *values, spread *results, size_t n);

/* ---- One axis ---- */

static bool is_used(const spread *s, const char *axes)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        for (const char *a = s->at[k]; a && *a; a += strcspn(a, ","), a += *a == ',')
            for (const char *b = axes; *b; b += strcspn(b, ","), b += *b == ',')
                if (strcspn(a, ",") == strcspn(b, ",") && memcmp(a, b, strcspn(a, ",")) == 0)
                    return true;
    return false;
}

static void put(const spreader *p, const hlo_type *t, spread *out, int axis, const char *axes)
{
    flxi_mesh_axes along;
    if (!axes || !*axes || axis < 0 || axis >= t->rank || out->at[axis] || is_used(out, axes))
        return;
    if (flxi_mesh_find_axes(p->mesh.axes, p->mesh.num_axes, axes, &along, NULL) == FLX_OK && t->dims[axis] > 0 &&
        t->dims[axis] % flxi_mesh_count(&along) == 0)
        out->at[axis] = axes;
}

/* ---- Operations ---- */

typedef struct {
    const spreader *p;
    const hlo_op *op;
    const spread *values; /* by number */
    spread *out;          /* of result `index` */
    size_t index;
} spread_site;

static const spread *operand(const spread_site *s, size_t i)
{
    return &s->values[s->op->operands[i]->number];
}

static const hlo_type *result_type(const spread_site *s)
{
    return s->op->results[s->index]->type;
}

/* A list of an attribute, or of a member of it; n is −1 where there is none. */
static const int64_t *list(const spread_site *s, const char *name, const char *member, int64_t *n)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    if (a && member)
        a = a->kind == HLO_A_DICT ? flxi_hlo_entry(a, member) : NULL;
    *n = a && a->kind == HLO_A_LIST && a->ints ? (int64_t)a->num_numbers : -1;
    return *n >= 0 ? a->ints : NULL;
}

static bool has(const int64_t *v, int64_t n, int64_t x)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i] == x)
            return true;
    return false;
}

/* Axes of equal extents of all operands that have the rank of the result. */
static void spread_same(spread_site *s)
{
    const hlo_type *t = result_type(s);
    for (size_t i = 0; i < s->op->num_operands; i++) {
        const hlo_type *o = s->op->operands[i]->type;
        for (int k = 0; o->kind == HLO_TENSOR && o->rank == t->rank && k < t->rank; k++)
            if (o->dims[k] == t->dims[k])
                put(s->p, t, s->out, k, operand(s, i)->at[k]);
    }
}

static void spread_like_operand(spread_site *s)
{
    if (s->index < s->op->num_operands)
        *s->out = *operand(s, s->index);
}

static void spread_broadcast(spread_site *s)
{
    int64_t n;
    const int64_t *to = list(s, "broadcast_dimensions", NULL, &n);
    const hlo_type *o = s->op->operands[0]->type;
    for (int k = 0; k < n && k < o->rank; k++)
        if (o->dims[k] > 1)
            put(s->p, result_type(s), s->out, (int)to[k], operand(s, 0)->at[k]);
}

static void spread_transpose(spread_site *s)
{
    int64_t n;
    const int64_t *from = list(s, "permutation", NULL, &n);
    for (int k = 0; k < n && k < FLX_MAX_RANK; k++)
        if (from[k] >= 0 && from[k] < FLX_MAX_RANK)
            put(s->p, result_type(s), s->out, k, operand(s, 0)->at[from[k]]);
}

/* The axes that are left. */
static void spread_reduce(spread_site *s)
{
    int64_t n, at = 0;
    const int64_t *gone = list(s, "dimensions", NULL, &n);
    for (int k = 0; n >= 0 && k < s->op->operands[s->index]->type->rank; k++)
        if (!has(gone, n, k))
            put(s->p, result_type(s), s->out, (int)at++, operand(s, s->index)->at[k]);
}

/* Axes of batches, then those of each operand that are neither such nor summed over. */
static void spread_product(spread_site *s)
{
    static const char name[] = "dot_dimension_numbers";
    int64_t nb[2], nc[2];
    const int64_t *batch[2] = {list(s, name, "lhs_batching_dimensions", &nb[0]),
                               list(s, name, "rhs_batching_dimensions", &nb[1])};
    const int64_t *summed[2] = {list(s, name, "lhs_contracting_dimensions", &nc[0]),
                                list(s, name, "rhs_contracting_dimensions", &nc[1])};
    int at = nb[0] > 0 ? (int)nb[0] : 0;
    for (int side = 0; side < 2; side++) {
        for (int k = 0; k < nb[side]; k++)
            if (batch[side][k] >= 0 && batch[side][k] < FLX_MAX_RANK)
                put(s->p, result_type(s), s->out, k, operand(s, (size_t)side)->at[batch[side][k]]);
        for (int k = 0; k < s->op->operands[side]->type->rank; k++)
            if (!has(batch[side], nb[side], k) && !has(summed[side], nc[side], k))
                put(s->p, result_type(s), s->out, at++, operand(s, (size_t)side)->at[k]);
    }
}

/* Axes of windows that are as long as those of the operand, and the axes of the indices. */
static void spread_gather(spread_site *s)
{
    static const char name[] = "dimension_numbers";
    int64_t no, nc, nb, ns, next = 0, at = 0;
    const int64_t *offset = list(s, name, "offset_dims", &no), *gone = list(s, name, "collapsed_slice_dims", &nc);
    const int64_t *batch = list(s, name, "operand_batching_dims", &nb), *sizes = list(s, "slice_sizes", NULL, &ns);
    const hlo_attr *numbers = flxi_hlo_attr(s->op, name);
    const hlo_attr *last = numbers ? flxi_hlo_entry(numbers, "index_vector_dim") : NULL;
    const hlo_type *x = s->op->operands[0]->type, *indices = s->op->operands[1]->type, *t = result_type(s);
    for (int k = 0; k < x->rank && k < ns; k++)
        if (!has(gone, nc, k) && !has(batch, nb, k) && next < no) {
            if (sizes[k] == x->dims[k])
                put(s->p, t, s->out, (int)offset[next], operand(s, 0)->at[k]);
            next++;
        }
    for (int k = 0; last && last->kind == HLO_A_INT && k < indices->rank; k++) {
        if (k == last->integer)
            continue;
        while (has(offset, no, at))
            at++;
        put(s->p, t, s->out, (int)at++, operand(s, 1)->at[k]);
    }
}

/* Axes that begin at the same element of the value: the slower part of one that is split or joined keeps its cut. */
static void spread_reshape(spread_site *s)
{
    const hlo_type *from = s->op->operands[0]->type, *to = result_type(s);
    int64_t a = 1, b = 1;
    for (int i = 0, k = 0; i < from->rank && k < to->rank;) {
        if (a == b)
            put(s->p, to, s->out, k, operand(s, 0)->at[i]);
        if (a * from->dims[i] <= b * to->dims[k])
            a *= from->dims[i++];
        else
            b *= to->dims[k++];
        if (i < from->rank && k < to->rank && a > b && a == b * to->dims[k])
            b *= to->dims[k++];
    }
}

/* What the program says; open axes stay as they were. */
static void spread_as_said(spread_site *s, const char *name, size_t index, const spread *before)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    hlo_cuts cuts;
    if (!a || a->kind != HLO_A_OPAQUE || !flxi_hlo_read_cuts(&s->p->mesh, a->text, index, &cuts))
        return;
    for (int k = 0; k < cuts.rank; k++)
        put(s->p, result_type(s), s->out, k, flxi_arena_text(s->p->arena, cuts.at[k], strlen(cuts.at[k])));
    for (int k = 0; before && strchr(a->text, '?') && k < cuts.rank; k++)
        put(s->p, result_type(s), s->out, k, before->at[k]);
}

static void spread_constraint(spread_site *s)
{
    spread_as_said(s, "sharding", 0, operand(s, 0));
}

static void spread_manual(spread_site *s)
{
    spread_as_said(s, "out_shardings", s->index, NULL);
}

static const struct {
    const char *name;
    void (*rule)(spread_site *s);
    size_t least; /* operands */
} rules[] = {
    {"stablehlo.broadcast_in_dim", spread_broadcast, 1},
    {"stablehlo.transpose", spread_transpose, 1},
    {"stablehlo.reduce", spread_reduce, 1},
    {"stablehlo.dot_general", spread_product, 2},
    {"stablehlo.reshape", spread_reshape, 1},
    {"stablehlo.optimization_barrier", spread_like_operand, 1},
    {"sdy.sharding_constraint", spread_constraint, 1},
    {"sdy.reshard", spread_constraint, 1},
    {"sdy.manual_computation", spread_manual, 0},
    {"stablehlo.custom_call", NULL, 0},
    {"stablehlo.gather", spread_gather, 2},
    {"stablehlo.scatter", NULL, 0},
    {"stablehlo.sort", NULL, 0},
    {"stablehlo.convolution", NULL, 0},
    {"stablehlo.fft", NULL, 0},
    {"stablehlo.cholesky", NULL, 0},
    {"stablehlo.triangular_solve", NULL, 0},
};

/* ---- Functions ---- */

static void follow_call(spreader *p, const hlo_op *op, spread *values)
{
    const hlo_attr *callee = flxi_hlo_attr(op, "callee");
    const hlo_function *f = callee && callee->kind == HLO_A_SYMBOL ? flxi_hlo_find(p->m, callee->text) : NULL;
    if (!f || f->is_declared_only || f->body.num_args != op->num_operands || f->num_results != op->num_results ||
        p->calls-- <= 0)
        return;
    spread *inner = flxi_new(p->arena, spread, f->num_values + 1);
    spread *results = flxi_new(p->arena, spread, f->num_results + 1);
    if (!inner || !results) {
        p->starved = true;
        return;
    }
    for (size_t i = 0; i < op->num_operands; i++)
        inner[f->body.args[i]->number] = values[op->operands[i]->number];
    follow(p, &f->body, inner, results, f->num_results);
    for (size_t i = 0; i < op->num_results; i++)
        values[op->results[i]->number] = results[i];
}

/* A loop, whose carried values are cut as they begin or as its body returns them, or a choice among branches. */
static void follow_regions(spreader *p, const hlo_op *op, spread *values, size_t first, bool is_loop)
{
    spread *inner = flxi_new(p->arena, spread, op->num_results + 1);
    p->starved |= !inner;
    for (size_t i = 0; inner && is_loop && i < op->num_results && i < op->num_operands; i++)
        values[op->results[i]->number] = values[op->operands[i]->number];
    for (size_t r = first; inner && r < op->num_regions; r++) {
        const hlo_region *body = &op->regions[r];
        memset(inner, 0, op->num_results * sizeof *inner);
        for (size_t i = 0; is_loop && i < body->num_args && i < op->num_operands; i++)
            values[body->args[i]->number] = values[op->operands[i]->number];
        follow(p, body, values, inner, op->num_results);
        for (size_t i = 0; i < op->num_results; i++)
            for (int k = 0; op->results[i]->type->kind == HLO_TENSOR && k < op->results[i]->type->rank; k++)
                put(p, op->results[i]->type, &values[op->results[i]->number], k, inner[i].at[k]);
    }
}

static void follow_op(const spreader *p, const hlo_op *op, spread *values)
{
    void (*rule)(spread_site *) = spread_same;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(op->name, rules[i].name) == 0)
            rule = op->num_operands >= rules[i].least ? rules[i].rule : NULL;
    for (size_t i = 0; rule && i < op->num_results; i++) {
        spread out = {{NULL}};
        spread_site s = {p, op, values, &out, i};
        if (op->results[i]->type->kind == HLO_TENSOR)
            rule(&s);
        values[op->results[i]->number] = out;
    }
}

static void follow(spreader *p, const hlo_region *r, spread *values, spread *results, size_t n)
{
    for (const hlo_op *op = r->first; op && !p->starved; op = op->next) {
        bool is_loop = strcmp(op->name, "stablehlo.while") == 0;
        if (strcmp(op->name, "func.call") == 0)
            follow_call(p, op, values);
        else if (is_loop || strcmp(op->name, "stablehlo.case") == 0 || strcmp(op->name, "stablehlo.if") == 0)
            follow_regions(p, op, values, is_loop, is_loop);
        else
            follow_op(p, op, values);
        if (!op->next)
            for (size_t i = 0; i < n && i < op->num_operands; i++)
                results[i] = values[op->operands[i]->number];
    }
}

/* How an argument is cut; only along the mesh of the processes. */
static void read_argument(spreader *p, const hlo_function *f, size_t i, spread *out)
{
    const hlo_attr *a = flxi_hlo_sharding_of(f->arg_attrs ? f->arg_attrs[i] : NULL);
    hlo_cuts cuts;
    if (!a || !flxi_hlo_read_sharding(&p->mesh, a, &cuts))
        return;
    for (int k = 0; k < cuts.rank && k < f->body.args[i]->type->rank; k++)
        if (cuts.at[k][0])
            out->at[k] = flxi_arena_text(p->arena, cuts.at[k], strlen(cuts.at[k]));
}

/* Axes that the program leaves open: without a sharding all of them. */
static bool is_open(const hlo_attr *sharding)
{
    return !sharding || (sharding->kind == HLO_A_OPAQUE && strchr(sharding->text, '?'));
}

static const hlo_cuts *cuts_of(flxi_arena *arena, const spread *s, int rank)
{
    hlo_cuts *cuts = flxi_new(arena, hlo_cuts, 1);
    for (int k = 0; cuts && k < rank; k++)
        snprintf(cuts->at[k], sizeof cuts->at[k], "%s", s->at[k] ? s->at[k] : "");
    if (cuts)
        cuts->rank = rank;
    return cuts;
}

/* Keeps how open results are cut. */
static bool keep_results(const hlo_function *f, const spread *results, flxi_arena *arena, const hlo_cuts **out)
{
    for (size_t i = 0; i < f->num_results; i++) {
        const hlo_type *t = f->results[i];
        bool is_cut = false;
        for (int k = 0; t->kind == HLO_TENSOR && k < t->rank; k++)
            is_cut |= results[i].at[k] != NULL;
        if (!is_cut || !is_open(flxi_hlo_sharding_of(f->result_attrs ? f->result_attrs[i] : NULL)))
            continue;
        out[i] = cuts_of(arena, &results[i], t->rank);
        if (!out[i])
            return false;
    }
    return true;
}

bool flxi_hlo_spread(const hlo_module *m, const hlo_function *f, flxi_arena *arena, const hlo_cuts **out)
{
    flxi_arena scratch; /* of all values */
    flxi_arena_init(&scratch, arena->mem);
    spreader p = {.m = m, .arena = &scratch, .calls = MOST_CALLS};
    spread *values = flxi_new(&scratch, spread, f->num_values + 1);
    spread *results = flxi_new(&scratch, spread, f->num_results + 1);
    flxi_hlo_read_mesh(m, &p.mesh);
    p.starved = !values || !results;
    for (size_t i = 0; !p.starved && i < f->body.num_args; i++)
        read_argument(&p, f, i, &values[f->body.args[i]->number]);
    if (!p.starved && p.mesh.ranks > 1)
        follow(&p, &f->body, values, results, f->num_results);
    bool is_complete = !p.starved && keep_results(f, results, arena, out);
    flxi_arena_free(&scratch);
    return is_complete;
}
