/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_graph.c: the building functions. The input is read as a sequence of calls: ops with operands among the existing
   values, attributes of the right and of the wrong kind, names, pins, outputs. A call that fails leaves its error in
   the graph and later calls do nothing; a graph without an error must be consistent. */
#include "fuzz_checks.h"
#include "ops/opcode.h"
#include "transform_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_VALUES = 64, MAX_OPERANDS = 8, MAX_ATTRS = 16, MAX_LIST = 6 };

typedef struct {
    const uint8_t *at, *end;
    flx_context *ctx;
    flx_graph *g;
    flx_graph *body; /* of one f32[2] to one */
    flx_val values[MAX_VALUES];
    size_t n;
} script;

static unsigned next(script *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static flx_val pick(script *s)
{
    unsigned k = next(s);
    if (k >= 254)
        return k == 255 ? FLX_NONE : (flx_val){k, k};
    return s->n ? s->values[k % s->n] : FLX_NONE;
}

static void keep(script *s, flx_val v)
{
    if (v.id && s->n < MAX_VALUES)
        s->values[s->n++] = v;
}

static int64_t integer(script *s)
{
    static const int64_t odd[] = {
        INT64_MAX,        INT64_MIN, INT64_MAX - 1, INT64_C(1) << 62, -(INT64_C(1) << 62), INT32_MAX, INT32_MIN,
        INT64_C(1) << 40, 1000,      -1000};
    unsigned k = next(s);
    if (k < 200)
        return (int64_t)(k % 12) - 3;
    if (k < 230)
        return flx_dim_symbol(s->ctx, k % 2 ? "N" : "M");
    return odd[k % 10];
}

static flx_type type(script *s)
{
    flx_type t = {.dtype = (int32_t)(1 + next(s) % (FLX_DTYPE_COUNT - 1)), .rank = (int32_t)(next(s) % 5)};
    if (next(s) == 255)
        t.dtype = (int32_t)integer(s) % 100;
    if (next(s) == 255)
        t.rank = (int32_t)integer(s) % 100;
    for (int i = 0; i < FLX_MAX_RANK && i < t.rank; i++) {
        unsigned k = next(s);
        t.dims[i] = k < 220 ? k % 5 : integer(s);
    }
    return t;
}

/* ---- Attributes ---- */

typedef struct {
    flx_attr attrs[MAX_ATTRS];
    size_t n;
    int64_t ints[MAX_ATTRS][MAX_LIST];
    double reals[MAX_LIST];
    flx_type types[MAX_ATTRS];
    const flx_graph *graphs[MAX_LIST];
    flx_tensor *tensors[MAX_ATTRS];
} given;

static const char *word(script *s, const char *words)
{
    static char text[64];
    size_t n = 0;
    const char *w = words ? flxi_word_at(words, (int64_t)(next(s) % 8), &n) : NULL;
    if (!w || n >= sizeof text)
        return next(s) % 2 ? "true" : flx_dtype_name((int32_t)(next(s) % FLX_DTYPE_COUNT));
    memcpy(text, w, n);
    text[n] = 0;
    return text;
}

static int32_t natural_kind(flxi_attr_kind kind, unsigned k)
{
    static const int32_t kinds[] = {
        [ATTR_INT] = FLX_ATTR_INT,       [ATTR_BOOL] = FLX_ATTR_INT,     [ATTR_REAL] = FLX_ATTR_REAL,
        [ATTR_WORD] = FLX_ATTR_WORD,     [ATTR_DTYPE] = FLX_ATTR_WORD,   [ATTR_DIM] = FLX_ATTR_INT,
        [ATTR_INTS] = FLX_ATTR_INTS,     [ATTR_BOOLS] = FLX_ATTR_INTS,   [ATTR_DIMS] = FLX_ATTR_INTS,
        [ATTR_PAIRS] = FLX_ATTR_PAIRS,   [ATTR_REALS] = FLX_ATTR_REALS,  [ATTR_STRING] = FLX_ATTR_STRING,
        [ATTR_TYPE] = FLX_ATTR_TYPE,     [ATTR_TYPES] = FLX_ATTR_TYPES,  [ATTR_GRAPH] = FLX_ATTR_GRAPH,
        [ATTR_GRAPHS] = FLX_ATTR_GRAPHS, [ATTR_COMBINE] = FLX_ATTR_WORD, [ATTR_DATA] = FLX_ATTR_TENSOR,
        [ATTR_VALUE] = FLX_ATTR_TENSOR,
    };
    if (k >= 250)
        return (int32_t)(k - 249 + 3);
    if (kind == ATTR_COMBINE && k % 2)
        return FLX_ATTR_GRAPH;
    return kinds[kind];
}

static void give(script *s, given *g, const flxi_attr *a)
{
    flx_attr *out = &g->attrs[g->n];
    size_t length = next(s) % (MAX_LIST + 1);
    *out = (flx_attr){.key = a->name, .kind = natural_kind(a->kind, next(s))};
    switch (out->kind) {
    case FLX_ATTR_INT: out->as.i = integer(s); break;
    case FLX_ATTR_REAL: out->as.r = (double)integer(s) / 4.0; break;
    case FLX_ATTR_WORD:
    case FLX_ATTR_STRING:
        out->as.s = out->kind == FLX_ATTR_STRING && next(s) % 2 ? "ab,bc->ac" : word(s, a->words);
        break;
    case FLX_ATTR_INTS:
    case FLX_ATTR_PAIRS:
        for (size_t i = 0; i < length; i++)
            g->ints[g->n][i] = integer(s);
        out->as.ints = (flx_ints){g->ints[g->n], length};
        break;
    case FLX_ATTR_REALS: out->as.reals = (flx_reals){g->reals, length}; break;
    case FLX_ATTR_TYPE:
        g->types[g->n] = type(s);
        out->as.type = &g->types[g->n];
        break;
    case FLX_ATTR_TYPES:
        g->types[g->n] = type(s);
        out->as.types = (flx_types){&g->types[g->n], 1};
        break;
    case FLX_ATTR_GRAPH: out->as.graph = next(s) % 8 ? s->body : s->g; break;
    case FLX_ATTR_GRAPHS:
        g->graphs[0] = g->graphs[1] = s->body;
        out->as.graphs = (flx_graphs){g->graphs, length % 3};
        break;
    default: /* a literal: of the type given before it, or one element */
        g->types[g->n] = g->n && g->attrs[0].kind == FLX_ATTR_TYPE ? g->types[0] : (flx_type){.dtype = FLX_F32};
        if (a->kind == ATTR_VALUE)
            g->types[g->n].rank = 0;
        g->tensors[g->n] = flx_tensor_new(s->ctx, &g->types[g->n], NULL, NULL);
        out->as.tensor = g->tensors[g->n];
        break;
    }
    g->n++;
}

/* ---- Calls ---- */

static void call_op(script *s)
{
    flxi_opcode op = (flxi_opcode)(1 + next(s) % (OP_COUNT - 1));
    const flxi_operands *o = flxi_operands_of(&flxi_ops[op]);
    flx_val in[MAX_OPERANDS];
    flx_val out[4];
    given attrs = {.n = 0};
    unsigned k = next(s);
    size_t nin = k < 240 ? (size_t)(o->required + (int)(o->variadic ? k % 3 : 0)) : k % MAX_OPERANDS;
    nin = nin > MAX_OPERANDS ? MAX_OPERANDS : nin;
    for (size_t i = 0; i < nin; i++)
        in[i] = pick(s);
    for (const flxi_attr *a = flxi_ops[op].rules->schema; a && a->name && attrs.n < MAX_ATTRS; a++)
        if ((a->flags & ATTR_REQUIRED) ? next(s) < 250 : next(s) % 4 == 0)
            give(s, &attrs, a);
    uint32_t n = flx_op(s->g, flxi_ops[op].name, in, nin, attrs.attrs, attrs.n, out, 4);
    for (uint32_t i = 0; i < n && i < 4; i++)
        keep(s, out[i]);
    for (size_t i = 0; i < attrs.n; i++)
        flx_tensor_release(attrs.tensors[i]);
}

static const char *name(script *s)
{
    static const char *const names[] = {"a", "b", "x", "v0", "a_2", "_", "out0", "b_2", "main", "", "1", "graph"};
    return names[next(s) % 12];
}

static void begin(script *s);
static void end(script *s);

static void call(script *s)
{
    flx_type t;
    switch (next(s) % 16) {
    case 0:
        t = type(s);
        keep(s, flx_input(s->g, name(s), &t));
        break;
    case 1:
        t = type(s);
        keep(s, flx_param(s->g, name(s), &t));
        break;
    case 2: keep(s, flx_scalar(s->g, (flx_dtype)(1 + next(s) % (FLX_DTYPE_COUNT - 1)), (double)integer(s))); break;
    case 3: flx_named(s->g, pick(s), name(s)); break;
    case 4: flx_pin(s->g, pick(s)); break;
    case 5: flx_output(s->g, pick(s), next(s) % 2 ? name(s) : NULL); break;
    case 6:
        end(s);
        begin(s);
        break;
    default: call_op(s); break;
    }
}

static void begin(script *s)
{
    static const char *const names[] = {"p", "q", "r", "t"};
    static const int32_t dtypes[] = {FLX_F32, FLX_I32, FLX_BOOL, FLX_C64};
    s->g = flx_graph_new(s->ctx, "g");
    s->n = 0;
    for (int i = 0; i < 4; i++) {
        flx_type t = {.dtype = dtypes[i], .rank = 1 + i % 2, .dims = {2, 3}};
        keep(s, flx_input(s->g, names[i], &t));
    }
}

/* Ends the graph: with an error there is no graph; otherwise it must be consistent. */
static void end(script *s)
{
    flx_error err = {0};
    if (flx_graph_error(s->g, &err) == FLX_OK) {
        check_graph(s->g);
        if (is_cheap(s->g)) {
            check_passes(s->g);
            run_on_awkward_values(s->g);
        }
        check_uses(s->g);
    } else {
        need(err.code != FLX_E_INTERNAL && err.message[0]);
    }
    flx_graph_release(s->g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    script s = {.at = data, .end = data + size};
    s.ctx = flx_context_new(&(flx_context_options){.memory_limit = 1 << 20});
    flx_type t = {.dtype = FLX_F32, .rank = 1, .dims = {2}};
    s.body = flx_graph_new(s.ctx, "body");
    flx_val x = flx_input(s.body, "x", &t);
    flx_output(s.body, flx_add(s.body, x, x), "y");
    begin(&s);
    while (s.at < s.end) {
        call(&s);
        if (flx_graph_error(s.g, NULL) != FLX_OK || s.n >= MAX_VALUES - 4) {
            end(&s);
            begin(&s);
        }
    }
    end(&s);
    flx_graph_release(s.body);
    flx_context_free(s.ctx);
    return 0;
}
