/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: folds over windows of any geometry (reduce_window), and their counterpart that sends values back to one
   position of each window (select_and_scatter).

   reduce_window follows its definition literally: a fold starts from init and combines init again at every padded
   position, so init should be the identity of combine. With a named combine, sums follow docs/numerics.md, "Sums and
   products", and everything is rounded once; with a graph each application rounds as the graph does. */
#include "ops/signal/window.h"
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/express/express_combine.h"
#include "ops/express/express_window.h"
#include "ops/opcode.h"
#include "ops/rule/body/fold_body.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"
#include "ops/rule/wide.h"

/* ---- Attributes ---- */

#define PADDING_ROWS A_DIMS(flxi_window_common, pad_low, "all 0"), A_DIMS(flxi_window_common, pad_high, "all 0")

static const flxi_attr reduce_window_schema[] = {
    A_DIMS_REQ(flxi_window_common, window),
    A_COMBINE_REQ(flxi_reduce_window_attrs, combine, FLXI_WINDOW_COMBINES),
    A_DIMS(flxi_window_common, strides, "all 1"),
    A_INTS(flxi_reduce_window_attrs, base_dilation, "all 1"),
    A_INTS(flxi_reduce_window_attrs, window_dilation, "all 1"),
    PADDING_ROWS,
    A_END,
};

static const flxi_attr scatter_schema[] = {
    A_DIMS_REQ(flxi_window_common, window),
    A_COMBINE(flxi_select_and_scatter_attrs, select, FLXI_WINDOW_SELECTS),
    A_COMBINE(flxi_select_and_scatter_attrs, combine, FLXI_WINDOW_COMBINES),
    A_DIMS(flxi_window_common, strides, "all 1"),
    PADDING_ROWS,
    A_END,
};

/* ---- Inference ---- */

static flx_code norm_window(flxi_infer *f, flxi_window_common *a, int rank)
{
    size_t n = (size_t)rank;
    FLXI_TRY(flxi_norm_sizes(f, "window", &a->window, n, 1, 1));
    FLXI_TRY(flxi_norm_sizes(f, "strides", &a->strides, n, 1, 1));
    FLXI_TRY(flxi_norm_list(f, "pad_low", &a->pad_low, n, 0));
    return flxi_norm_list(f, "pad_high", &a->pad_high, n, 0);
}

int64_t flxi_window_word(const flxi_combine *c)
{
    static const flxi_opcode ops[] = {
        [FLXI_WINDOW_ADD] = OP_add, [FLXI_WINDOW_MAX] = OP_max, [FLXI_WINDOW_MIN] = OP_min, [FLXI_WINDOW_MUL] = OP_mul};
    const flxi_op *op = c->graph ? flxi_body_combination(c->graph) : &flxi_ops[ops[c->word]];
    for (size_t i = 0; op && i < sizeof ops / sizeof *ops; i++)
        if (op == &flxi_ops[ops[i]])
            return (int64_t)i;
    return -1;
}

flxi_slide flxi_window_slide(const flxi_window_common *a, int k, flx_dim extent)
{
    return (flxi_slide){
        .extent = extent,
        .low = a->pad_low.v[k],
        .high = a->pad_high.v[k],
        .window = a->window.v[k],
        .stride = a->strides.v[k],
        .base_dilation = 1,
        .dilation = 1,
    };
}

flx_dim flxi_window_count(flx_context *ctx, const flxi_slide *s)
{
    flx_dim room = flxi_slide_room(ctx, s);
    if (flxi_dim_is_number(room) && room < 0)
        return 0;
    return flxi_slide_count(ctx, room, s->stride);
}

/* Padding holds init, so it is an element like the others. */
static flx_code need_same_dtype(flxi_infer *f, uint32_t init, uint32_t of)
{
    if (f->in[init]->dtype == f->in[of]->dtype)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_DTYPE, "write the scalar as full(T[], value) with that dtype",
                           "operand %u, the init of operand %u, must be %s, but it is %s", init, of,
                           flx_dtype_name(f->in[of]->dtype), flx_dtype_name(f->in[init]->dtype));
}

/* A named combine that compares needs an order. */
static flx_code need_combine(flxi_infer *f, const flxi_combine *c, int32_t dtype)
{
    if (c->graph || !flxi_is_complex(dtype) || (c->word != FLXI_WINDOW_MAX && c->word != FLXI_WINDOW_MIN))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_DTYPE, "use combine=@graph to define the result",
                           "combine=max and combine=min need an order, which %s does not have", flx_dtype_name(dtype));
}

static uint32_t first_operand(uint32_t nin, size_t j)
{
    (void)nin;
    (void)j;
    return 0;
}

/* A body with one output, a scalar of the given dtype. */
static flx_code need_binary_body(flxi_infer *f, const char *attr, const flx_graph *body, int32_t dtype)
{
    if (!body)
        return FLX_OK;
    FLXI_TRY(flxi_match_scalar_body(f, attr, body, 2, first_operand));
    if (flxi_body_outputs(body) != 1)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "%s must return one value, it returns %zu", attr,
                               flxi_body_outputs(body));
    return flxi_match_scalar_output(f, attr, body, 0, dtype);
}

static flx_code infer_reduce_window(flxi_infer *f)
{
    flxi_reduce_window_attrs *a = f->attrs;
    uint32_t n;
    flx_type shape;
    FLXI_TRY(flxi_need_inits(f, &n));
    FLXI_TRY(flxi_equal_shapes(f, n, &shape));
    for (uint32_t i = 0; i < n; i++)
        FLXI_TRY(need_same_dtype(f, n + i, i));
    FLXI_TRY(norm_window(f, &a->common, shape.rank));
    FLXI_TRY(flxi_norm_sizes(f, "base_dilation", &a->base_dilation, (size_t)shape.rank, 1, 1));
    FLXI_TRY(flxi_norm_sizes(f, "window_dilation", &a->window_dilation, (size_t)shape.rank, 1, 1));
    if (a->combine.graph)
        FLXI_TRY(flxi_match_fold_body(f, "combine", a->combine.graph));
    else if (n != 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "combine=@graph reduces several arrays at once",
                               "a named combine reduces one array, got %u", n);
    FLXI_TRY(need_combine(f, &a->combine, f->in[0]->dtype));

    flx_type y = shape;
    for (int k = 0; k < shape.rank; k++) {
        flxi_slide s = flxi_window_slide(&a->common, k, shape.dims[k]);
        s.base_dilation = a->base_dilation.v[k];
        s.dilation = a->window_dilation.v[k];
        y.dims[k] = flxi_window_count(f->ctx, &s);
    }
    FLXI_TRY(flxi_results(f, n));
    for (uint32_t i = 0; i < n; i++) {
        f->out[i] = y;
        f->out[i].dtype = f->in[i]->dtype;
    }
    return FLX_OK;
}

static flx_code infer_select_and_scatter(flxi_infer *f)
{
    flxi_select_and_scatter_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *source = f->in[1];
    FLXI_TRY(norm_window(f, &a->common, x->rank));
    flxi_type_text text;
    if (f->in[2]->rank != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "init must be a scalar, but it is %s",
                               flxi_type_str(f->ctx, f->in[2], &text));
    FLXI_TRY(need_binary_body(f, "select", a->select.graph, FLX_BOOL));
    FLXI_TRY(need_binary_body(f, "combine", a->combine.graph, x->dtype));
    FLXI_TRY(need_combine(f, &a->combine, x->dtype));
    if (!a->select.graph && flxi_is_complex(x->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "use select=@graph to define the order", "%s has no order to select by",
                               flx_dtype_name(x->dtype));

    flx_type windows = *x;
    bool fits = source->rank == x->rank;
    for (int k = 0; k < x->rank; k++) {
        flxi_slide s = flxi_window_slide(&a->common, k, x->dims[k]);
        windows.dims[k] = flxi_window_count(f->ctx, &s);
        fits = fits && flxi_dims_may_equal(f, windows.dims[k], source->dims[k]);
    }
    if (!fits) {
        flxi_type_text tw;
        flxi_type_text ts;
        return flxi_infer_fail(f, FLX_E_SHAPE, "source has one element for each window",
                               "the windows are %s, but source is %s", flxi_shape_str(f->ctx, &windows, &tw),
                               flxi_shape_str(f->ctx, source, &ts));
    }
    f->out[0] = *x;
    return FLX_OK;
}

/* ---- reduce_window ---- */

static flxi_windows windows_of(const flxi_window_common *a, const flx_type *x, const flx_type *y)
{
    flxi_windows w = {0};
    for (int k = 0; k < x->rank; k++)
        w.axis[k] = flxi_window_slide(a, k, x->dims[k]);
    flxi_windows_over(&w, x, y);
    return w;
}

typedef flxi_num (*num_fn)(flxi_num, flxi_num);

static num_fn combine_fn(int64_t word, const flxi_arith *t, bool rounds)
{
    switch (word) {
    case FLXI_WINDOW_MAX: return t->max;
    case FLXI_WINDOW_MIN: return t->min;
    case FLXI_WINDOW_MUL: return t->mul;
    default: return rounds ? t->add : t->accumulate;
    }
}

/* x as an element of its dtype. */
static flxi_num rounded(const flxi_arith *t, flxi_num x)
{
    _Alignas(max_align_t) unsigned char element[FLXI_SCALAR_BYTES];
    t->store(element, 0, x);
    return t->load(element, 0);
}

static void fold_named(flxi_eval *e, const flxi_windows *w, int64_t word, bool rounds)
{
    const flx_tensor *x = e->in[0];
    flx_tensor *y = e->out[0];
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    num_fn combine = combine_fn(word, t, rounds);
    flxi_num init = t->load(e->in[1]->data, 0);
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(o, w->count, w->rank)) {
        int64_t k[FLX_MAX_RANK] = {0};
        flxi_num acc = init;
        do {
            int64_t at = flxi_windows_at(w, o, k);
            acc = combine(acc, at < 0 ? init : t->load(x->data, at));
            acc = rounds ? rounded(t, acc) : acc;
        } while (flxi_next(k, w->window, w->rank));
        t->store(y->data, i, acc);
    }
}

static flx_code fold_window(flxi_scalar_body *b, const flxi_windows *w, const int64_t *o)
{
    int64_t k[FLX_MAX_RANK] = {0};
    flxi_fold_start(b);
    do
        FLXI_TRY(flxi_fold_step(b, flxi_windows_at(w, o, k)));
    while (flxi_next(k, w->window, w->rank));
    return FLX_OK;
}

static flx_code fold_graph(flxi_eval *e, const flxi_windows *w, const flx_graph *body)
{
    flxi_scalar_body b;
    flx_code code = flxi_fold_begin(&b, e, body);
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; code == FLX_OK && i < e->out[0]->count && !flxi_stopped_by_now();
         i++, flxi_next(o, w->count, w->rank)) {
        code = fold_window(&b, w, o);
        flxi_fold_store(&b, i);
    }
    flxi_scalar_body_end(&b);
    return code;
}

static flxi_windows dilated_windows(const flxi_reduce_window_attrs *a, const flx_type *x, const flx_type *y)
{
    flxi_windows w = windows_of(&a->common, x, y);
    for (int k = 0; k < w.rank; k++) {
        w.axis[k].base_dilation = a->base_dilation.v[k];
        w.axis[k].dilation = a->window_dilation.v[k];
    }
    return w;
}

static flx_code eval_reduce_window(flxi_eval *e)
{
    const flxi_reduce_window_attrs *a = e->attrs;
    flxi_windows w = dilated_windows(a, &e->in[0]->type, &e->out[0]->type);
    int64_t word = flxi_window_word(&a->combine);
    if (word < 0)
        return fold_graph(e, &w, a->combine.graph);
    fold_named(e, &w, word, a->combine.graph);
    return FLX_OK;
}

/* ---- select_and_scatter ---- */

typedef struct {
    flxi_eval *e;
    const flxi_select_and_scatter_attrs *a;
    const flxi_arith *t;
    flxi_windows w;
    num_fn combine;               /* NULL: combine_body does it */
    flxi_scalar_body select_body; /* with .e NULL when the attribute is a word */
    flxi_scalar_body combine_body;
    flxi_num *y; /* the result before it is rounded */
} scattering;

/* Runs body(a, b); the result stays in the body. */
static flx_code call_binary(flxi_scalar_body *body, const flxi_arith *t, flxi_num a, flxi_num b)
{
    t->store(body->in[0]->data, 0, a);
    t->store(body->in[1]->data, 0, b);
    return flxi_scalar_body_call(body);
}

static flx_code stays_selected(scattering *s, flxi_num kept, flxi_num candidate, bool *stays)
{
    const flxi_arith *t = s->t;
    if (s->a->select.graph) {
        FLXI_TRY(call_binary(&s->select_body, t, kept, candidate));
        *stays = flxi_load_truth(FLX_BOOL, flxi_scalar_body_result(&s->select_body, 0), 0);
        return FLX_OK;
    }
    bool is_strict = s->a->select.word == FLXI_SELECT_GT || s->a->select.word == FLXI_SELECT_LT;
    bool is_larger = s->a->select.word == FLXI_SELECT_GE || s->a->select.word == FLXI_SELECT_GT;
    *stays =
        (is_larger ? t->less(candidate, kept) : t->less(kept, candidate)) || (!is_strict && t->equal(kept, candidate));
    return FLX_OK;
}

static flx_code combine_into(scattering *s, int64_t at, flxi_num value)
{
    if (s->combine) {
        flxi_num sum = s->combine(s->y[at], value);
        s->y[at] = s->a->combine.graph ? rounded(s->t, sum) : sum;
        return FLX_OK;
    }
    FLXI_TRY(call_binary(&s->combine_body, s->t, s->y[at], value));
    s->y[at] = s->t->load(flxi_scalar_body_result(&s->combine_body, 0), 0);
    return FLX_OK;
}

/* The element of x that window o keeps, -1 when it has only padding. */
static flx_code selected_of(scattering *s, const int64_t *o, int64_t *selected)
{
    const void *x = s->e->in[0]->data;
    int64_t k[FLX_MAX_RANK] = {0};
    flxi_num kept = s->t->zero;
    *selected = -1;
    do {
        int64_t at = flxi_windows_at(&s->w, o, k);
        if (at < 0)
            continue;
        flxi_num candidate = s->t->load(x, at);
        bool stays = false;
        if (*selected >= 0)
            FLXI_TRY(stays_selected(s, kept, candidate, &stays));
        if (!stays) {
            *selected = at;
            kept = candidate;
        }
    } while (flxi_next(k, s->w.window, s->w.rank));
    return FLX_OK;
}

static flx_code scatter_all(scattering *s)
{
    const flx_tensor *source = s->e->in[1];
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < source->count && !flxi_stopped_by_now(); i++, flxi_next(o, s->w.count, s->w.rank)) {
        int64_t at;
        FLXI_TRY(selected_of(s, o, &at));
        if (at >= 0)
            FLXI_TRY(combine_into(s, at, s->t->load(source->data, i)));
    }
    return FLX_OK;
}

static flx_code begin_scatter(scattering *s)
{
    s->y = flxi_wide_begin(s->e, s->t->load(s->e->in[2]->data, 0));
    if (!s->y)
        return FLX_E_OOM;
    if (s->a->select.graph)
        FLXI_TRY(flxi_scalar_body_begin(&s->select_body, s->e, s->a->select.graph, 2, first_operand));
    if (!s->combine)
        FLXI_TRY(flxi_scalar_body_begin(&s->combine_body, s->e, s->a->combine.graph, 2, first_operand));
    return FLX_OK;
}

static flx_code eval_select_and_scatter(flxi_eval *e)
{
    const flxi_select_and_scatter_attrs *a = e->attrs;
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    int64_t word = flxi_window_word(&a->combine);
    scattering s = {.e = e,
                    .a = a,
                    .t = t,
                    .w = windows_of(&a->common, &e->in[0]->type, &e->in[1]->type),
                    .combine = word < 0 ? NULL : combine_fn(word, t, a->combine.graph)};
    flx_code code = begin_scatter(&s);
    if (code == FLX_OK)
        code = scatter_all(&s);
    if (s.combine_body.e)
        flxi_scalar_body_end(&s.combine_body);
    if (s.select_body.e)
        flxi_scalar_body_end(&s.select_body);
    return s.y ? flxi_wide_end(e, s.y, code) : code;
}

/* ---- Rules ---- */

#define GRAPH_ADD "graph f(a: T[], x: T[]) { return add(a, x) }"
#define GRAPH_MAX_AT \
    "graph f(a: f32[], i: i32[], x: f32[], k: i32[]) { p = ge(a, x) return where(p, a, x), where(p, i, k) }"

static const flxi_sample samples_reduce_window[] = {
    {"T[3, 4], T[]", "window=[2, 2], combine=add", NULL, FLX_OK},
    {"T[3, 4], T[]", "window=[2, 1], combine=mul, strides=[1, 2], pad_low=[1, 0], pad_high=[0, 1]", NULL, FLX_OK},
    {"T[5], T[]", "window=[2], combine=add, base_dilation=[2], window_dilation=[3], pad_low=[-1]", NULL, FLX_OK},
    {"T[3, 3], T[]", "window=[2, 2], combine=@f", GRAPH_ADD, FLX_OK},
    {"f32[6], i32[6], f32[], i32[]", "window=[3], strides=[2], combine=@f", GRAPH_MAX_AT, FLX_OK},
    {"f32[3, 4], f32[]", "window=[1, 3], combine=max, pad_low=[0, 1]", NULL, FLX_OK},
    {"i16[3, 4], i16[]", "window=[2, 2], combine=min", NULL, FLX_OK},
    {"bool[3, 4], bool[]", "window=[2, 2], combine=max", NULL, FLX_OK},
    {"T[2, 76], T[]", "window=[2, 33], combine=add, strides=[1, 3], pad_low=[1, 2], window_dilation=[1, 2]", NULL,
     FLX_OK},
    {"f64[90]{0.8..1.2}, f64[]{0.8..1.2}", "window=[70], combine=mul, pad_high=[4]", NULL, FLX_OK},
    {"f32[3, 40], f32[]", "window=[3, 30], combine=max, base_dilation=[1, 2], pad_low=[0, 5]", NULL, FLX_OK},
    {"i16[100], i16[]", "window=[65], combine=min, strides=[4]", NULL, FLX_OK},
    {"T[], T[]", "window=[], combine=add", NULL, FLX_OK},
    {"T[0, 3], T[]", "window=[1, 2], combine=add", NULL, FLX_OK},
    {"T[0], T[]", "window=[2], combine=add, pad_low=[3]", NULL, FLX_OK},
    {"T[0, 2], T[]", "window=[2, 1], combine=add, pad_low=[1, 0], pad_high=[2, 0]", NULL, FLX_OK},
    {"T[2], T[]", "window=[5], combine=add", NULL, FLX_OK},
    {"T[N, 4], T[]", "window=[1, 2], combine=add", NULL, FLX_OK},
    {"T[N + 1], T[]", "window=[N + 1], combine=add, pad_low=[N]", NULL, FLX_OK},
    {"T[3, 4], T[]", "window=[2], combine=add", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "window=[2, 0], combine=add", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "window=[2, 2], strides=[0, 1], combine=add", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "window=[2, 2], base_dilation=[1, 0], combine=add", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "window=[2, 2]", NULL, FLX_E_ATTRIBUTE},
    {"f32[3], f32[3], f32[], f32[]", "window=[2], combine=add", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[1]", "window=[2, 2], combine=add", NULL, FLX_E_SHAPE},
    {"T[3, 4]", "window=[2, 2], combine=add", NULL, FLX_E_ARITY},
    {"f32[3], f64[]", "window=[2], combine=add", NULL, FLX_E_DTYPE},
    {"c64[3], c64[]", "window=[2], combine=max", NULL, FLX_E_DTYPE},
    {"f32[3], f32[]", "window=[2], combine=@f", "graph f(a: f32[], x: f32[]) { return a, x }", FLX_E_ARITY},
    {0},
};

static const flxi_sample samples_select_and_scatter[] = {
    {"f32[4, 6], f32[2, 3], f32[]", "window=[2, 2], strides=[2, 2]", NULL, FLX_OK},
    {"bf16[5], bf16[4], bf16[]", "window=[2], select=lt", NULL, FLX_OK},
    {"f64[3, 5], f64[2, 3], f64[]", "window=[2, 3], select=gt, combine=mul", NULL, FLX_OK},
    {"f64[6], f64[5], f64[]", "window=[3], pad_low=[3], pad_high=[-2], select=le, combine=max", NULL, FLX_OK},
    {"i32[5], i32[3], i32[]", "window=[3], strides=[2], pad_low=[1], pad_high=[1], select=le, combine=max", NULL,
     FLX_OK},
    {"bool[5], bool[4], bool[]", "window=[2], select=gt, combine=min", NULL, FLX_OK},
    {"T[4], T[2], T[]", "window=[2], strides=[2], select=@p, combine=@f",
     "graph p(a: T[], b: T[]) { return eq(a, b) } " GRAPH_ADD, FLX_OK},
    {"f32[], f32[], f32[]", "window=[]", NULL, FLX_OK},
    {"f32[0, 3], f32[0, 2], f32[]", "window=[1, 2]", NULL, FLX_OK},
    {"f32[N, 4], f32[N, 2], f32[]", "window=[1, 2], strides=[1, 2]", NULL, FLX_OK},
    {"f32[4], f32[2], f32[]", "window=[2]", NULL, FLX_E_SHAPE},
    {"f32[4], f32[3], f32[1]", "window=[2]", NULL, FLX_E_SHAPE},
    {"f32[4], f32[3], f32[]", "window=[-2]", NULL, FLX_E_ATTRIBUTE},
    {"c64[4], c64[3], c64[]", "window=[2]", NULL, FLX_E_DTYPE},
    {"f32[4], f32[3], f32[]", "window=[2], select=@p", "graph p(a: f32[], b: f32[]) { return a }", FLX_E_DTYPE},
    {0},
};

/* ---- Kernel expressions ---- */

static bool expresses_reduce_window(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const flxi_reduce_window_attrs *a = attrs;
    (void)nin;
    flxi_windows w = dilated_windows(a, in[0], in[0]);
    return flxi_window_word(&a->combine) >= 0 && flxi_kwindow_expresses(&w);
}

static flxi_kval pull_reduce_window(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const flxi_reduce_window_attrs *a = e->attrs;
    flxi_kcombining op = (flxi_kcombining)flxi_window_word(&a->combine);
    flxi_windows w = dilated_windows(a, e->in[0], e->out[result]);
    flxi_kindex o = flxi_at_axes(e, at);
    flxi_kval init = flxi_operand_at(e, 1, &(flxi_kindex){.flat = flxi_ku(e, 0)});
    init = flxi_khold_value(e, flxi_kas(e, init, e->dtype));
    flxi_kval acc = init;
    int64_t k[FLX_MAX_RANK] = {0};
    do {
        flxi_ktap tap = flxi_kwindow_tap(e, &w, &o, k);
        flxi_kval x = init;
        if (!tap.never)
            x = flxi_kas(e, flxi_operand_at(e, 0, &tap.at), e->dtype);
        if (!tap.never && tap.inside)
            x = flxi_kchoose(e, tap.inside, x, init);
        acc = flxi_kcombine(e, op, acc, flxi_khold_value(e, x));
        if (a->combine.graph) /* rounds at each step */
            acc = flxi_kas(e, flxi_kas(e, acc, e->out[result]->dtype), e->dtype);
        acc = flxi_khold_value(e, acc);
    } while (flxi_next(k, w.window, w.rank));
    return flxi_kas(e, acc, e->out[result]->dtype);
}

/* How often windows meet elements, when there are as many windows as `windows` has elements. */
static int64_t meetings(const flx_type *windows, const flxi_window_common *a)
{
    int64_t n = flxi_work_count(windows);
    for (size_t k = 0; k < a->window.n; k++)
        n = flxi_times(n, flxi_work_extent(a->window.v[k]));
    return n;
}

static void work_reduce_window(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    w->flops = meetings(flxi_type_at(g, n->first), n->attrs);
}

static bool bodies_reduce_window(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flxi_reduce_window_attrs *a = n->attrs;
    *out = (flxi_body){
        .graph = a->combine.graph, .role = BODY_ELEMENT, .runs = meetings(flxi_type_at(g, n->first), &a->common)};
    return i == 0 && a->combine.graph;
}

static void work_select_and_scatter(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    w->flops = meetings(flxi_type_at(g, n->in[1]), n->attrs);
}

/* Both attributes may be words. */
static bool bodies_select_and_scatter(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const flxi_select_and_scatter_attrs *a = n->attrs;
    const flx_type *source = flxi_type_at(g, n->in[1]);
    flxi_body list[2];
    uint32_t count = 0;
    if (a->select.graph)
        list[count++] =
            (flxi_body){.graph = a->select.graph, .role = BODY_ELEMENT, .runs = meetings(source, &a->common)};
    if (a->combine.graph)
        list[count++] = (flxi_body){.graph = a->combine.graph, .role = BODY_ELEMENT, .runs = flxi_work_count(source)};
    if (i < count)
        *out = list[i];
    return i < count;
}

/* Along an axis whose windows are single elements in their order, such as that of examples, elements do not meet. */
static bool link_window(const flxi_use *u, flxi_link *l)
{
    const flxi_window_common *a = u->n->attrs;
    int k = l->axis;
    bool is_single = a->window.v[k] == 1 && a->strides.v[k] == 1 && a->pad_low.v[k] == 0 && a->pad_high.v[k] == 0;
    if (u->n->op == OP_reduce_window)
        is_single = is_single && ((const flxi_reduce_window_attrs *)u->n->attrs)->base_dilation.v[k] == 1;
    return is_single && flxi_link_move(u, l, k);
}

const flxi_rules flxi_rules_reduce_window = {
    .infer = infer_reduce_window,
    .eval = eval_reduce_window,
    .pull = pull_reduce_window,
    .expresses = expresses_reduce_window,
    .schema = reduce_window_schema,
    .attrs_size = sizeof(flxi_reduce_window_attrs),
    .vjp = flxi_vjp_reduce_window,
    .jvp = flxi_jvp_reduce_window,
    .batch = flxi_batch_reduce_window,
    .decompose = flxi_decompose_reduce_window,
    .samples = samples_reduce_window,
    .work = work_reduce_window,
    .bodies = bodies_reduce_window,
    .link = link_window,
    .shard = &flxi_shard_linked,
};

const flxi_rules flxi_rules_select_and_scatter = {
    .infer = infer_select_and_scatter,
    .eval = eval_select_and_scatter,
    .schema = scatter_schema,
    .attrs_size = sizeof(flxi_select_and_scatter_attrs),
    .vjp = flxi_vjp_select_and_scatter,
    .jvp = flxi_jvp_select_and_scatter,
    .batch = flxi_batch_select_and_scatter,
    .decompose = flxi_decompose_select_and_scatter,
    .samples = samples_select_and_scatter,
    .work = work_select_and_scatter,
    .bodies = bodies_select_and_scatter,
    .link = link_window,
    .shard = &flxi_shard_linked,
};
