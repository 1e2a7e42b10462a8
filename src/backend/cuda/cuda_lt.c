/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_lt.c: products by cuBLASLt. It knows columns as we know rows: the row-major product c = a b is the column-major
   product of b and a. Nothing is transposed in memory; what has no unit stride is left to our own kernel. The first
   algorithm that the library suggests is used, which is the same one every time: so the bits are too. */
#include "backend/cuda/cuda_product.h"

/* A product as the library sees it; found again by its bytes. */
typedef struct {
    uint32_t m, n, k, batches;
    int64_t lead[2], step[2]; /* of b and a: between columns as stored, and between matrices */
    int32_t dtype, op[2];
    uint32_t alignment; /* of all addresses: 16 bytes, or that of an element */
    size_t workspace;
} shape;

/* Batches of two axes, such as examples and heads, are as many products of the inner axis as the outer one has. */
typedef struct {
    uint32_t count, inner;
    int64_t step[2]; /* of b and a, in elements */
} outer_axis;

struct flxi_lt_plan {
    shape of;
    flxi_lt_desc desc;
    flxi_lt_layout layout[3]; /* b, a, c */
    uint64_t algo[8];
    bool is_taken; /* by the library; else our own kernel computes it */
    flxi_lt_plan *next;
};

/* ---- Shapes ---- */

/* One operand: its lines and its depth as a matrix, with the one or the other contiguous. */
static bool side(const flxi_card_walk *line, const flxi_card_walk *depth, uint32_t lines, uint32_t depths,
                 bool is_first, shape *s)
{
    int at = is_first ? 0 : 1;
    if (line->rank > 1 || depth->rank > 1)
        return false;
    int64_t by_line = line->rank ? line->stride[0] : 0, by_depth = depth->rank ? depth->stride[0] : 0;
    bool along_depth = !depth->rank || by_depth == 1; /* each line is contiguous */
    bool along_line = !line->rank || by_line == 1;
    if (along_depth && (line->rank == 0 || by_line >= depths)) {
        s->lead[at] = line->rank ? by_line : depths;
        s->op[at] = is_first ? FLXI_LT_OP_T : FLXI_LT_OP_N;
        return true;
    }
    if (!along_line || (depth->rank && by_depth < lines))
        return false;
    s->lead[at] = depth->rank ? by_depth : lines;
    s->op[at] = is_first ? FLXI_LT_OP_N : FLXI_LT_OP_T;
    return true;
}

/* The batches of one side as the inner and the outer axis: those of the other side, or repeated. */
static bool split_batches(const flxi_card_walk *w, int at, outer_axis *o, shape *s)
{
    if (w->rank == 2 && w->extent[1] == o->inner && w->extent[0] == o->count) {
        s->step[at] = w->stride[1];
        o->step[at] = w->stride[0];
        return true;
    }
    if (w->rank > 1 || (w->rank == 1 && w->extent[0] != o->inner * o->count))
        return false;
    s->step[at] = w->rank ? w->stride[0] : 0;
    o->step[at] = s->step[at] * o->inner;
    return true;
}

static bool find_batches(const flxi_card_product *p, outer_axis *o, shape *s)
{
    const flxi_card_walk *two = p->a_batch.rank == 2 ? &p->a_batch : p->b_batch.rank == 2 ? &p->b_batch : NULL;
    *o = (outer_axis){.count = two ? two->extent[0] : 1, .inner = two ? two->extent[1] : p->batches};
    s->batches = o->inner;
    return split_batches(&p->b_batch, 0, o, s) && split_batches(&p->a_batch, 1, o, s);
}

static bool find_shape(const flxi_card_product_plan *plan, const void *const in[2], const void *out,
                       const void *scratch, outer_axis *o, shape *s)
{
    const flxi_card_product *p = &plan->product;
    memset(s, 0, sizeof *s);
    s->m = p->m;
    s->n = p->n;
    s->k = p->k;
    s->dtype = plan->dtype;
    if (!find_batches(p, o, s))
        return false;
    size_t size = flx_dtype_size((flx_dtype)plan->dtype);
    uintptr_t all = (uintptr_t)in[0] | (uintptr_t)in[1] | (uintptr_t)out;
    if (o->count > 1)
        all |= (uintptr_t)o->step[0] * size | (uintptr_t)o->step[1] * size | (uintptr_t)o->inner * p->m * p->n * size;
    s->alignment = all % 16 ? (uint32_t)size : 16;
    s->workspace = (uintptr_t)scratch % 256 ? 0 : plan->workspace; /* what the library asks for */
    return side(&p->b_line, &p->b_depth, p->n, p->k, true, s) && side(&p->a_line, &p->a_depth, p->m, p->k, false, s);
}

/* ---- Plans ---- */

typedef struct {
    int32_t dtype;
    int data, compute, scale;
} lt_type;

static const lt_type types[] = {
    {FLX_F32, FLXI_LT_R_32F, FLXI_LT_COMPUTE_32F, FLXI_LT_R_32F},
    {FLX_F64, FLXI_LT_R_64F, FLXI_LT_COMPUTE_64F, FLXI_LT_R_64F},
    {FLX_F16, FLXI_LT_R_16F, FLXI_LT_COMPUTE_32F, FLXI_LT_R_32F},
    {FLX_BF16, FLXI_LT_R_16BF, FLXI_LT_COMPUTE_32F, FLXI_LT_R_32F},
};

static const lt_type *type_of(int32_t dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype)
            return &types[i];
    return NULL;
}

static bool make_layout(const flxi_cublaslt *lt, flxi_lt_layout *out, int type, const uint64_t extent[2], int64_t lead,
                        const shape *s, int64_t step)
{
    int32_t batches = (int32_t)s->batches;
    return lt->MatrixLayoutCreate(out, type, extent[0], extent[1], lead) == 0 &&
           lt->MatrixLayoutSetAttribute(*out, FLXI_LT_LAYOUT_BATCH_COUNT, &batches, sizeof batches) == 0 &&
           lt->MatrixLayoutSetAttribute(*out, FLXI_LT_LAYOUT_BATCH_STRIDE, &step, sizeof step) == 0;
}

/* b and a as they are stored, then c, which is dense. */
static bool make_layouts(const flxi_cublaslt *lt, flxi_lt_plan *p, int type)
{
    const shape *s = &p->of;
    const uint64_t plain_b[2] = {s->n, s->k}, turned_b[2] = {s->k, s->n}, plain_a[2] = {s->k, s->m},
                   turned_a[2] = {s->m, s->k}, c[2] = {s->n, s->m};
    return make_layout(lt, &p->layout[0], type, s->op[0] == FLXI_LT_OP_N ? plain_b : turned_b, s->lead[0], s,
                       s->step[0]) &&
           make_layout(lt, &p->layout[1], type, s->op[1] == FLXI_LT_OP_N ? plain_a : turned_a, s->lead[1], s,
                       s->step[1]) &&
           make_layout(lt, &p->layout[2], type, c, s->n, s, (int64_t)s->m * s->n);
}

static bool choose(const flxi_cublaslt *lt, flxi_lt_handle handle, flxi_lt_plan *p, flxi_lt_preference preference)
{
    flxi_lt_heuristic found;
    int n = 0;
    uint64_t workspace = p->of.workspace;
    bool ok =
        lt->MatmulPreferenceSetAttribute(preference, FLXI_LT_PREF_MAX_WORKSPACE, &workspace, sizeof workspace) == 0;
    for (int i = 0; i < 4; i++)
        ok &= lt->MatmulPreferenceSetAttribute(preference, FLXI_LT_PREF_MIN_ALIGNMENT_A + i, &p->of.alignment,
                                               sizeof p->of.alignment) == 0;
    ok = ok &&
         lt->MatmulAlgoGetHeuristic(handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2], preference,
                                    1, &found, &n) == 0 &&
         n > 0 && found.state == 0;
    if (ok)
        memcpy(p->algo, found.algo, sizeof p->algo);
    return ok;
}

static void make_plan(const flxi_cublaslt *lt, flxi_lt_handle handle, flxi_lt_plan *p)
{
    const lt_type *t = type_of(p->of.dtype);
    flxi_lt_preference preference = NULL;
    p->is_taken = t && lt->MatmulDescCreate(&p->desc, t->compute, t->scale) == 0 &&
                  lt->MatmulDescSetAttribute(p->desc, FLXI_LT_DESC_TRANSA, &p->of.op[0], sizeof p->of.op[0]) == 0 &&
                  lt->MatmulDescSetAttribute(p->desc, FLXI_LT_DESC_TRANSB, &p->of.op[1], sizeof p->of.op[1]) == 0 &&
                  make_layouts(lt, p, t->data) && lt->MatmulPreferenceCreate(&preference) == 0 &&
                  choose(lt, handle, p, preference);
    if (preference)
        lt->MatmulPreferenceDestroy(preference);
}

void flxi_cuda_free_lt_plans(flxi_card *card)
{
    for (flxi_lt_plan *p = card->lt_plans, *next; p; p = next) {
        const flxi_cublaslt *lt = flxi_cuda_lt(NULL);
        next = p->next;
        for (int i = 0; i < 3; i++)
            if (p->layout[i])
                lt->MatrixLayoutDestroy(p->layout[i]);
        if (p->desc)
            lt->MatmulDescDestroy(p->desc);
        flxi_free(card->mem, p, 1, sizeof *p);
    }
    card->lt_plans = NULL;
}

/* Plans live as long as the card; NULL: memory is exhausted. */
static const flxi_lt_plan *plan_of(flxi_card *card, const flxi_cublaslt *lt, flxi_lt_handle handle, const shape *s)
{
    pthread_mutex_lock(&card->lock);
    flxi_lt_plan *p = card->lt_plans;
    while (p && memcmp(&p->of, s, sizeof *s) != 0)
        p = p->next;
    if (!p && (p = flxi_alloc(card->mem, 1, sizeof *p))) {
        p->of = *s;
        make_plan(lt, handle, p);
        p->next = card->lt_plans;
        card->lt_plans = p;
    }
    pthread_mutex_unlock(&card->lock);
    return p;
}

/* ---- Running ---- */

flx_code flxi_cuda_run_lt(flxi_card *card, flxi_cu_stream stream, const flxi_card_product_plan *p,
                          const void *const in[2], void *out, void *scratch, bool *done, flx_error *err)
{
    static const float one = 1, zero = 0;
    static const double one_wide = 1, zero_wide = 0;
    flxi_lt_handle handle;
    shape s;
    outer_axis o;
    *done = false;
    if (!type_of(p->dtype) || !find_shape(p, in, out, scratch, &o, &s))
        return FLX_OK;
    const flxi_cublaslt *lt = flxi_card_lt(card, &handle, NULL);
    if (!lt)
        return FLX_OK;
    const flxi_lt_plan *plan = plan_of(card, lt, handle, &s);
    if (!plan)
        return flxi_oom(err, "a product");
    if (!plan->is_taken)
        return FLX_OK;
    bool is_wide = p->dtype == FLX_F64;
    const void *alpha = is_wide ? (const void *)&one_wide : &one, *beta = is_wide ? (const void *)&zero_wide : &zero;
    const char *a = in[0], *b = in[1];
    char *c = out;
    int64_t size = (int64_t)flx_dtype_size((flx_dtype)p->dtype);
    int status = 0;
    for (uint32_t i = 0; i < o.count && status == 0; i++) {
        status = lt->Matmul(handle, plan->desc, alpha, b, plan->layout[0], a, plan->layout[1], beta, c, plan->layout[2],
                            c, plan->layout[2], plan->algo, scratch, s.workspace, stream);
        a += o.step[1] * size;
        b += o.step[0] * size;
        c += (int64_t)o.inner * s.m * s.n * size;
    }
    *done = status == 0;
    return status == 0 ? FLX_OK
                       : flxi_fail(err, FLX_E_DEVICE, "cublasLtMatmul failed with status %d for [%u, %u, %u]", status,
                                   s.m, s.k, s.n);
}
