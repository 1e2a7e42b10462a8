/* SPDX-License-Identifier: Apache-2.0 */
/* dim.c: dimensions as polynomials in canonical form; see dim.h.

   A table entry is a sum of terms, each an integer times a product of atoms. Terms are kept in graded lexicographic
   order of their atoms (by name, quotients after symbols), like terms merged, zero terms dropped; a sum without atoms
   is a plain number and has no entry. So two dimensions are equal as polynomials exactly when they are the same
   integer. Division is polynomial long division; what does not divide out becomes a quotient atom, either exact
   (checked when the symbols are bound) or floor. Sizes are bounded (terms, factors, nesting, weight), so work per
   operation is bounded too, and so are coefficients: each is itself a legal number. Beyond the bounds the result is
   FLX_DIM_INVALID. */
#include "graph/type/dim.h"

#include "graph/graph.h"

/* Quotients share their parts, so the text of a dimension may be exponentially longer than its entries: the weight
   counts the nodes that printing, hashing and binding would visit. */
enum { MAX_TERMS = 24, MAX_FACTORS = 12, MAX_NESTING = 16, MAX_WEIGHT = 512 };

typedef struct {
    int64_t coef; /* never 0 */
    uint32_t n;
    uint32_t atoms[MAX_FACTORS]; /* in order, repeated for powers */
} term;

typedef struct { /* a polynomial being worked on; terms in order */
    uint32_t n;
    bool bad; /* overflow or too large */
    term t[MAX_TERMS];
} poly;

typedef struct {
    const char *name; /* of a symbol; NULL for a quotient */
    flx_dim num, den;
    bool floor;
    int nesting;
    uint32_t weight;
} atom;

typedef struct {
    uint32_t n;
    uint32_t weight;
    const term *t;
} entry;

/* Why there is no result: lack of memory, a division of numbers that is not exact or is by zero. None of these: it is
   too large. */
typedef struct {
    bool starved, is_inexact, divides_by_zero;
} dim_causes;

struct flxi_dim_table {
    flxi_allocator mem;
    flxi_arena arena;
    flxi_strings names;
    FLXI_VEC(atom) atoms;
    FLXI_VEC(entry) entries;
    flxi_index index;        /* of entries by content */
    flxi_index atom_index;   /* of atoms by content */
    atomic_uint starvations; /* how often memory ran out */
    dim_causes causes;       /* of invalid results */
};

static const flx_dim first_handle = FLX_DIM_INVALID + 1;

flxi_dim_table *flxi_dim_table_new(const flxi_allocator *mem)
{
    flxi_dim_table *t = flxi_alloc(mem, 1, sizeof *t);
    if (!t)
        return NULL;
    t->mem = *mem;
    flxi_arena_init(&t->arena, &t->mem);
    t->names.arena = &t->arena;
    return t;
}

void flxi_dim_table_free(flxi_dim_table *t)
{
    if (!t)
        return;
    flxi_allocator mem = t->mem;
    flxi_strings_free(&t->names);
    flxi_vec_free(&mem, &t->atoms);
    flxi_vec_free(&mem, &t->entries);
    flxi_index_free(&mem, &t->index);
    flxi_index_free(&mem, &t->atom_index);
    flxi_arena_free(&t->arena);
    flxi_free(&mem, t, 1, sizeof *t);
}

/* ---- Order ---- */

static const entry *entry_of(const flxi_dim_table *t, flx_dim d)
{
    return &t->entries.at[d - first_handle];
}

static int compare_dims(const flxi_dim_table *t, flx_dim a, flx_dim b);

static int compare_atoms(const flxi_dim_table *t, uint32_t a, uint32_t b)
{
    if (a == b)
        return 0;
    const atom *x = &t->atoms.at[a];
    const atom *y = &t->atoms.at[b];
    if (x->name && y->name)
        return strcmp(x->name, y->name);
    if (x->name || y->name)
        return x->name ? -1 : 1;
    int c = compare_dims(t, x->num, y->num);
    if (c == 0)
        c = compare_dims(t, x->den, y->den);
    return c ? c : (int)x->floor - (int)y->floor;
}

/* Negative when a's product comes first: higher degree, then the earlier atoms. */
static int compare_products(const flxi_dim_table *t, const term *a, const term *b)
{
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (uint32_t i = 0; i < a->n; i++) {
        int c = compare_atoms(t, a->atoms[i], b->atoms[i]);
        if (c)
            return c;
    }
    return 0;
}

/* Any total order will do. Nesting is bounded, and so is the recursion. */
static int compare_dims(const flxi_dim_table *t, flx_dim a, flx_dim b)
{
    if (a == b)
        return 0;
    bool plain_a = flxi_dim_is_number(a);
    bool plain_b = flxi_dim_is_number(b);
    if (plain_a || plain_b) {
        if (plain_a != plain_b)
            return plain_a ? -1 : 1;
        return a < b ? -1 : 1;
    }
    const entry *x = entry_of(t, a);
    const entry *y = entry_of(t, b);
    for (uint32_t i = 0; i < x->n && i < y->n; i++) {
        int c = compare_products(t, &x->t[i], &y->t[i]);
        if (c)
            return c;
        if (x->t[i].coef != y->t[i].coef)
            return x->t[i].coef < y->t[i].coef ? -1 : 1;
    }
    return x->n < y->n ? -1 : 1;
}

/* ---- Polynomials ---- */

static void poly_add_term(const flxi_dim_table *t, poly *p, const term *x)
{
    if (p->bad || x->coef == 0)
        return;
    uint32_t i = 0;
    while (i < p->n && compare_products(t, &p->t[i], x) < 0)
        i++;
    if (i < p->n && compare_products(t, &p->t[i], x) == 0) {
        if (__builtin_add_overflow(p->t[i].coef, x->coef, &p->t[i].coef))
            p->bad = true;
        else if (p->t[i].coef == 0)
            memmove(&p->t[i], &p->t[i + 1], (--p->n - i) * sizeof(term));
        return;
    }
    if (p->n == MAX_TERMS) {
        p->bad = true;
        return;
    }
    memmove(&p->t[i + 1], &p->t[i], (p->n++ - i) * sizeof(term));
    p->t[i] = *x;
}

static void poly_load(const flxi_dim_table *t, flx_dim d, poly *p)
{
    p->n = 0;
    p->bad = d == FLX_DIM_INVALID;
    if (p->bad)
        return;
    if (flxi_dim_is_number(d)) {
        poly_add_term(t, p, &(term){.coef = d});
        return;
    }
    const entry *e = entry_of(t, d);
    memcpy(p->t, e->t, e->n * sizeof(term));
    p->n = e->n;
}

static bool term_mul(const flxi_dim_table *t, const term *a, const term *b, term *out)
{
    if (a->n + b->n > MAX_FACTORS || __builtin_mul_overflow(a->coef, b->coef, &out->coef))
        return false;
    uint32_t i = 0;
    uint32_t j = 0;
    out->n = 0;
    while (i < a->n || j < b->n) {
        bool left = j == b->n || (i < a->n && compare_atoms(t, a->atoms[i], b->atoms[j]) <= 0);
        out->atoms[out->n++] = left ? a->atoms[i++] : b->atoms[j++];
    }
    return true;
}

/* p += a * x, x one term */
static void poly_add_scaled(const flxi_dim_table *t, poly *p, const poly *a, const term *x)
{
    for (uint32_t i = 0; i < a->n && !p->bad; i++) {
        term product;
        if (term_mul(t, &a->t[i], x, &product))
            poly_add_term(t, p, &product);
        else
            p->bad = true;
    }
}

static bool term_div(const flxi_dim_table *t, const term *a, const term *b, term *out)
{
    if (a->coef == INT64_MIN || a->coef % b->coef != 0) /* INT64_MIN has no negative, which callers need */
        return false;
    out->coef = a->coef / b->coef;
    out->n = 0;
    uint32_t j = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (j < b->n && compare_atoms(t, a->atoms[i], b->atoms[j]) == 0)
            j++;
        else
            out->atoms[out->n++] = a->atoms[i];
    }
    return j == b->n;
}

/* a = q * b exactly? Each step cancels a's leading term, and the order is a monomial order, so it ends. */
static bool poly_div(const flxi_dim_table *t, poly *a, const poly *b, poly *q)
{
    q->n = 0;
    q->bad = false;
    for (int step = 0; a->n && step < 4 * MAX_TERMS; step++) {
        term x;
        if (!term_div(t, &a->t[0], &b->t[0], &x))
            return false;
        poly_add_term(t, q, &x);
        x.coef = -x.coef;
        poly_add_scaled(t, a, b, &x);
        if (a->bad || q->bad)
            return false;
    }
    return a->n == 0;
}

static uint64_t poly_hash(const poly *p)
{
    uint64_t h = FLXI_HASH_SEED;
    for (uint32_t i = 0; i < p->n; i++) {
        h = flxi_hash_u64(h, (uint64_t)p->t[i].coef);
        h = flxi_hash_bytes(h, p->t[i].atoms, p->t[i].n * sizeof(uint32_t));
        h = flxi_hash_u64(h, p->t[i].n);
    }
    return h;
}

static bool poly_is(const poly *p, const entry *e)
{
    if (p->n != e->n)
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->t[i].coef != e->t[i].coef || p->t[i].n != e->t[i].n ||
            memcmp(p->t[i].atoms, e->t[i].atoms, p->t[i].n * sizeof(uint32_t)) != 0)
            return false;
    return true;
}

static flx_dim out_of_memory(flxi_dim_table *t)
{
    t->causes.starved = true;
    atomic_fetch_add(&t->starvations, 1);
    return FLX_DIM_INVALID;
}

/* The cost of visiting the polynomial; 0 when it is too large or has an illegal coefficient. */
static uint32_t poly_weight(const flxi_dim_table *t, const poly *p)
{
    uint32_t weight = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->t[i].coef < FLXI_DIM_SYMBOLIC_END || p->t[i].coef > FLXI_DIM_LARGEST)
            return 0;
        weight++;
        for (uint32_t k = 0; k < p->t[i].n; k++)
            weight += t->atoms.at[p->t[i].atoms[k]].weight;
    }
    return weight <= MAX_WEIGHT ? weight : 0;
}

/* The handle of a polynomial: a plain number when it has no atoms. */
static flx_dim poly_store(flxi_dim_table *t, const poly *p)
{
    uint32_t weight = p->bad ? 0 : poly_weight(t, p);
    if (!p->bad && p->n == 0)
        return 0;
    if (weight == 0)
        return FLX_DIM_INVALID;
    if (p->n == 1 && p->t[0].n == 0)
        return p->t[0].coef;
    uint64_t h = poly_hash(p);
    uint32_t i;
    for (flxi_probe k = flxi_index_first(&t->index, h); flxi_index_next(&t->index, &k, &i);)
        if (poly_is(p, &t->entries.at[i]))
            return first_handle + i;
    const term *kept = flxi_dup(&t->arena, term, p->t, p->n);
    if (!kept || !flxi_reserve(&t->mem, &t->entries) || !flxi_index_add(&t->mem, &t->index, h, (uint32_t)t->entries.n))
        return out_of_memory(t);
    t->entries.at[t->entries.n] = (entry){p->n, weight, kept};
    return first_handle + (flx_dim)t->entries.n++;
}

/* ---- Atoms ---- */

static flx_dim atom_dim(flxi_dim_table *t, uint32_t i)
{
    poly p = {.n = 1, .t[0] = {.coef = 1, .n = 1, .atoms = {i}}};
    return poly_store(t, &p);
}

static uint64_t atom_hash(const atom *a)
{
    uint64_t h = flxi_hash_text(FLXI_HASH_SEED, a->name ? a->name : a->floor ? "//" : "/");
    return flxi_hash_u64(flxi_hash_u64(h, (uint64_t)a->num), (uint64_t)a->den);
}

static flx_dim find_atom(flxi_dim_table *t, const atom *wanted)
{
    uint64_t h = atom_hash(wanted);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&t->atom_index, h); flxi_index_next(&t->atom_index, &p, &i);) {
        const atom *a = &t->atoms.at[i];
        if (a->name == wanted->name && a->num == wanted->num && a->den == wanted->den && a->floor == wanted->floor)
            return atom_dim(t, i);
    }
    if (wanted->nesting > MAX_NESTING || wanted->weight > MAX_WEIGHT)
        return FLX_DIM_INVALID;
    if (!flxi_reserve(&t->mem, &t->atoms) || !flxi_index_add(&t->mem, &t->atom_index, h, (uint32_t)t->atoms.n))
        return out_of_memory(t);
    t->atoms.at[t->atoms.n++] = *wanted;
    return atom_dim(t, (uint32_t)t->atoms.n - 1);
}

static int nesting_of(const flxi_dim_table *t, flx_dim d)
{
    int deepest = 0;
    if (flxi_dim_is_number(d))
        return 0;
    const entry *e = entry_of(t, d);
    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t k = 0; k < e->t[i].n; k++)
            if (t->atoms.at[e->t[i].atoms[k]].nesting > deepest)
                deepest = t->atoms.at[e->t[i].atoms[k]].nesting;
    return deepest;
}

static uint32_t weight_of(const flxi_dim_table *t, flx_dim d)
{
    return flxi_dim_is_number(d) ? 1 : entry_of(t, d)->weight;
}

static flx_dim make_quotient(flxi_dim_table *t, flx_dim num, flx_dim den, bool floor)
{
    if (num == FLX_DIM_INVALID || den == FLX_DIM_INVALID)
        return FLX_DIM_INVALID;
    int a = nesting_of(t, num);
    int b = nesting_of(t, den);
    return find_atom(t, &(atom){.num = num,
                                .den = den,
                                .floor = floor,
                                .nesting = 1 + (a > b ? a : b),
                                .weight = 1 + weight_of(t, num) + weight_of(t, den)});
}

/* ---- Arithmetic, with the lock held ---- */

static flx_dim add_locked(flxi_dim_table *t, flx_dim a, flx_dim b, int64_t factor)
{
    poly p;
    poly q;
    poly_load(t, a, &p);
    poly_load(t, b, &q);
    p.bad |= q.bad;
    poly_add_scaled(t, &p, &q, &(term){.coef = factor});
    return poly_store(t, &p);
}

static flx_dim mul_locked(flxi_dim_table *t, flx_dim a, flx_dim b)
{
    poly p;
    poly q;
    poly sum = {0};
    poly_load(t, a, &p);
    poly_load(t, b, &q);
    sum.bad = p.bad || q.bad;
    for (uint32_t i = 0; i < q.n && !sum.bad; i++)
        poly_add_scaled(t, &sum, &p, &q.t[i]);
    return poly_store(t, &sum);
}

static flx_dim div_locked(flxi_dim_table *t, flx_dim a, flx_dim b)
{
    poly p;
    poly q;
    poly quotient;
    poly_load(t, a, &p);
    poly_load(t, b, &q);
    t->causes.divides_by_zero |= !q.bad && q.n == 0;
    if (p.bad || q.bad || q.n == 0)
        return FLX_DIM_INVALID;
    if (poly_div(t, &p, &q, &quotient))
        return poly_store(t, &quotient);
    if (flxi_dim_is_number(a) && flxi_dim_is_number(b)) {
        t->causes.is_inexact = true;
        return FLX_DIM_INVALID;
    }
    return make_quotient(t, a, b, false);
}

static int64_t floor_of(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

/* With a numeric divisor every multiple of it is taken out of the quotient: ⌊(cA + r)/c⌋ = A + ⌊r/c⌋. */
static flx_dim floor_locked(flxi_dim_table *t, flx_dim a, flx_dim b)
{
    poly p;
    poly q;
    poly whole = {0};
    poly rest = {0};
    poly_load(t, a, &p);
    poly_load(t, b, &q);
    t->causes.divides_by_zero |= !q.bad && q.n == 0;
    if (p.bad || q.bad || q.n == 0)
        return FLX_DIM_INVALID;
    if (!flxi_dim_is_number(b)) {
        poly copy = p;
        return poly_div(t, &copy, &q, &whole) ? poly_store(t, &whole) : make_quotient(t, a, b, true);
    }
    if (b < 0)
        return FLX_DIM_INVALID;
    for (uint32_t i = 0; i < p.n; i++) {
        term x = p.t[i];
        x.coef = floor_of(p.t[i].coef, b);
        poly_add_term(t, &whole, &x);
        x.coef = p.t[i].coef - x.coef * b;
        poly_add_term(t, &rest, &x);
    }
    flx_dim left = poly_store(t, &rest);
    if (!flxi_dim_is_number(left)) {
        poly tail;
        poly_load(t, make_quotient(t, left, b, true), &tail);
        whole.bad |= tail.bad;
        poly_add_scaled(t, &whole, &tail, &(term){.coef = 1});
    }
    return poly_store(t, &whole);
}

/* ---- Entry points ---- */

typedef enum { DIM_ADD, DIM_SUB, DIM_MUL, DIM_DIV, DIM_FLOOR } dim_op;

static flx_dim plain_op(dim_op op, int64_t a, int64_t b)
{
    int64_t v = 0;
    bool bad = false;
    switch (op) {
    case DIM_ADD: bad = __builtin_add_overflow(a, b, &v); break;
    case DIM_SUB: bad = __builtin_sub_overflow(a, b, &v); break;
    case DIM_MUL: bad = __builtin_mul_overflow(a, b, &v); break;
    case DIM_DIV:
        bad = b == 0 || a % b != 0;
        v = bad ? 0 : a / b;
        break;
    case DIM_FLOOR:
        bad = b <= 0;
        v = bad ? 0 : floor_of(a, b);
        break;
    }
    return bad || v < FLXI_DIM_SYMBOLIC_END || v > FLXI_DIM_LARGEST ? FLX_DIM_INVALID : v;
}

static flx_dim table_op(flxi_dim_table *t, dim_op op, flx_dim a, flx_dim b)
{
    switch (op) {
    case DIM_ADD: return add_locked(t, a, b, 1);
    case DIM_SUB: return add_locked(t, a, b, -1);
    case DIM_MUL: return mul_locked(t, a, b);
    case DIM_DIV: return div_locked(t, a, b);
    case DIM_FLOOR: return floor_locked(t, a, b);
    }
    return FLX_DIM_INVALID;
}

static bool known(const flxi_dim_table *t, flx_dim d)
{
    return flxi_dim_is_number(d) || (d >= first_handle && (uint64_t)d - (uint64_t)first_handle < t->entries.n);
}

static flx_dim dim_op_run(flx_context *ctx, dim_op op, flx_dim a, flx_dim b)
{
    bool is_plain = flxi_dim_is_number(a) && flxi_dim_is_number(b);
    flx_dim d = is_plain ? plain_op(op, a, b) : FLX_DIM_INVALID;
    if (d != FLX_DIM_INVALID || !ctx)
        return d;
    pthread_mutex_lock(&ctx->lock);
    if (known(ctx->dims, a) && known(ctx->dims, b)) { /* otherwise the reason for a or b is kept */
        ctx->dims->causes.starved = false;
        d = is_plain ? d : table_op(ctx->dims, op, a, b);
    }
    pthread_mutex_unlock(&ctx->lock);
    return d;
}

bool flxi_dim_is_known(flx_context *ctx, flx_dim d)
{
    if (flxi_dim_is_number(d))
        return true;
    pthread_mutex_lock(&ctx->lock);
    bool is_known = known(ctx->dims, d);
    pthread_mutex_unlock(&ctx->lock);
    return is_known;
}

unsigned flxi_dim_starvations(flx_context *ctx)
{
    return atomic_load(&ctx->dims->starvations);
}

bool flxi_dim_starved(flx_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    bool is_starved = ctx->dims->causes.starved;
    pthread_mutex_unlock(&ctx->lock);
    return is_starved;
}

flx_dim flx_dim_add(flx_context *ctx, flx_dim a, flx_dim b)
{
    return dim_op_run(ctx, DIM_ADD, a, b);
}

flx_dim flx_dim_sub(flx_context *ctx, flx_dim a, flx_dim b)
{
    return dim_op_run(ctx, DIM_SUB, a, b);
}

flx_dim flx_dim_mul(flx_context *ctx, flx_dim a, flx_dim b)
{
    return dim_op_run(ctx, DIM_MUL, a, b);
}

flx_dim flx_dim_div(flx_context *ctx, flx_dim a, flx_dim b)
{
    return dim_op_run(ctx, DIM_DIV, a, b);
}

flx_dim flxi_dim_floor_div(flx_context *ctx, flx_dim a, flx_dim b)
{
    return dim_op_run(ctx, DIM_FLOOR, a, b);
}

flx_dim flxi_dim_ceil_div(flx_context *ctx, flx_dim a, flx_dim b)
{
    return flxi_dim_floor_div(ctx, flx_dim_add(ctx, a, flx_dim_sub(ctx, b, 1)), b);
}

int flx_dim_is_static(flx_dim dim)
{
    return flxi_dim_is_number(dim);
}

flx_dim flx_dim_symbol(flx_context *ctx, const char *name)
{
    if (!ctx || !name || !flxi_is_name(name, strlen(name)))
        return FLX_DIM_INVALID;
    pthread_mutex_lock(&ctx->lock);
    ctx->dims->causes.starved = false;
    const char *kept = flxi_intern(&ctx->dims->names, name, strlen(name));
    flx_dim d = kept ? find_atom(ctx->dims, &(atom){.name = kept, .weight = 1}) : out_of_memory(ctx->dims);
    pthread_mutex_unlock(&ctx->lock);
    return d;
}

/* The sign of a - b where it is the same for all values of the symbols; 0 where it is not known or a and b are equal.
   Nothing is stored, so it cannot fail for lack of memory. */
static int sure_sign(flx_context *ctx, flx_dim a, flx_dim b)
{
    if (a == b || (flxi_dim_is_number(a) && flxi_dim_is_number(b)))
        return (a > b) - (a < b);
    poly p;
    poly q;
    int sign = 0;
    pthread_mutex_lock(&ctx->lock);
    if (known(ctx->dims, a) && known(ctx->dims, b)) {
        poly_load(ctx->dims, a, &p);
        poly_load(ctx->dims, b, &q);
        poly_add_scaled(ctx->dims, &p, &q, &(term){.coef = -1});
        if (!p.bad && p.n == 1 && p.t[0].n == 0)
            sign = p.t[0].coef < 0 ? -1 : 1;
    }
    pthread_mutex_unlock(&ctx->lock);
    return sign;
}

bool flxi_dims_differ(flx_context *ctx, flx_dim a, flx_dim b)
{
    return sure_sign(ctx, a, b) != 0;
}

bool flxi_dim_below(flx_context *ctx, flx_dim d, flx_dim bound)
{
    return sure_sign(ctx, d, bound) < 0;
}

/* ---- Lower bounds ---- */

typedef struct {
    int64_t (*of)(void *user, const char *symbol);
    void *user;
} symbol_bounds;

static bool least_locked(const flxi_dim_table *t, flx_dim d, const symbol_bounds *b, int64_t *out);
static bool least_poly(const flxi_dim_table *t, const poly *p, const symbol_bounds *b, int64_t *out);

/* For an atom that is known to be nonnegative. */
static bool least_atom(const flxi_dim_table *t, const atom *a, const symbol_bounds *b, int64_t *out)
{
    if (a->name) {
        *out = b->of(b->user, a->name);
        return *out >= 0;
    }
    int64_t den;
    if (!least_locked(t, a->num, b, out) || *out < 0 || !least_locked(t, a->den, b, &den) || den <= 0)
        return false;
    *out = flxi_dim_is_number(a->den) ? *out / den : 0;
    return true;
}

/* A term grows with its atoms where its factor is positive; otherwise nothing bounds it from below. */
static bool least_by_terms(const flxi_dim_table *t, const poly *p, const symbol_bounds *b, int64_t *out)
{
    int64_t sum = 0;
    bool found = !p->bad;
    for (uint32_t i = 0; i < p->n && found; i++) {
        int64_t product = p->t[i].coef;
        found = p->t[i].n == 0 || product > 0;
        for (uint32_t k = 0; k < p->t[i].n && found; k++) {
            int64_t factor;
            found = least_atom(t, &t->atoms.at[p->t[i].atoms[k]], b, &factor) &&
                    !__builtin_mul_overflow(product, factor, &product);
        }
        found = found && !__builtin_add_overflow(sum, product, &sum);
    }
    *out = sum;
    return found;
}

/* The first term that is a number times ⌊x / n⌋, which lies between (x − n + 1) / n and x / n, is replaced by the bound
   that makes the sum smaller; multiplied by n everything stays integral. Each step removes one quotient. */
static bool least_without_quotient(const flxi_dim_table *t, const poly *p, const symbol_bounds *b, int64_t *out)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const atom *q = p->t[i].n == 1 ? &t->atoms.at[p->t[i].atoms[0]] : NULL;
        if (!q || q->name || !q->floor || !flxi_dim_is_number(q->den) || q->den <= 0)
            continue;
        poly sum = {0};
        poly num;
        poly rest = *p;
        memmove(&rest.t[i], &rest.t[i + 1], (rest.n - i - 1) * sizeof(term));
        rest.n--;
        poly_load(t, q->num, &num);
        poly_add_scaled(t, &sum, &rest, &(term){.coef = q->den});
        poly_add_scaled(t, &sum, &num, &(term){.coef = p->t[i].coef});
        int64_t gap;
        if (sum.bad || num.bad || __builtin_mul_overflow(p->t[i].coef, 1 - q->den, &gap))
            return false;
        if (gap < 0)
            poly_add_term(t, &sum, &(term){.coef = gap});
        if (sum.bad || !least_poly(t, &sum, b, out))
            return false;
        *out = -floor_of(-*out, q->den);
        return true;
    }
    return false;
}

static bool least_poly(const flxi_dim_table *t, const poly *p, const symbol_bounds *b, int64_t *out)
{
    return least_by_terms(t, p, b, out) || least_without_quotient(t, p, b, out);
}

static bool least_locked(const flxi_dim_table *t, flx_dim d, const symbol_bounds *b, int64_t *out)
{
    poly p;
    poly_load(t, d, &p);
    return !p.bad && least_poly(t, &p, b, out);
}

bool flxi_dim_least(flx_context *ctx, flx_dim d, int64_t (*least)(void *user, const char *symbol), void *user,
                    int64_t *out)
{
    symbol_bounds b = {least, user};
    pthread_mutex_lock(&ctx->lock);
    bool found = known(ctx->dims, d) && least_locked(ctx->dims, d, &b, out);
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

/* ---- Binding ---- */

static flx_dim bind_locked(flxi_dim_table *t, flx_dim d, const flx_dim_binding *b, size_t n);

static flx_dim bind_atom(flxi_dim_table *t, uint32_t i, const flx_dim_binding *b, size_t n)
{
    atom a = t->atoms.at[i]; /* a copy: the array may grow below */
    if (a.name) {
        for (size_t k = 0; k < n; k++)
            if (strcmp(b[k].name, a.name) == 0)
                return b[k].extent;
        return atom_dim(t, i);
    }
    flx_dim num = bind_locked(t, a.num, b, n);
    flx_dim den = bind_locked(t, a.den, b, n);
    if (num == FLX_DIM_INVALID || den == FLX_DIM_INVALID)
        return FLX_DIM_INVALID;
    return a.floor ? floor_locked(t, num, den) : div_locked(t, num, den);
}

static flx_dim bind_locked(flxi_dim_table *t, flx_dim d, const flx_dim_binding *b, size_t n)
{
    if (flxi_dim_is_number(d) || d == FLX_DIM_INVALID)
        return d;
    flx_dim sum = 0;
    entry e = *entry_of(t, d);
    for (uint32_t i = 0; i < e.n && sum != FLX_DIM_INVALID; i++) {
        flx_dim product = e.t[i].coef;
        for (uint32_t k = 0; k < e.t[i].n && product != FLX_DIM_INVALID; k++)
            product = mul_locked(t, product, bind_atom(t, e.t[i].atoms[k], b, n));
        sum = add_locked(t, sum, product, 1);
    }
    return sum;
}

/* Why a dimension has no value for the given extents. */
static void explain_unbound(dim_causes why, flx_context *ctx, flx_dim d, flx_error *err)
{
    char text[100];
    flx_dim_print(ctx, d, text, sizeof text);
    if (why.starved)
        flxi_oom(err, "dimensions");
    else if (why.divides_by_zero)
        flxi_fail_hint(err, FLX_E_SHAPE, "choose other extents", "the dimension %s divides by zero for these extents",
                       text);
    else if (why.is_inexact)
        flxi_fail_hint(err, FLX_E_SHAPE, "choose extents for which every division in it is exact",
                       "the dimension %s is not an integer for these extents", text);
    else
        flxi_fail_hint(err, FLX_E_SIZE, "choose smaller extents", "the dimension %s is too large for these extents",
                       text);
}

flx_dim flxi_dim_bind(flx_context *ctx, flx_dim d, const flx_dim_binding *b, size_t n, flx_error *err)
{
    if (flxi_dim_is_number(d))
        return d;
    pthread_mutex_lock(&ctx->lock);
    ctx->dims->causes = (dim_causes){0};
    flx_dim bound = known(ctx->dims, d) ? bind_locked(ctx->dims, d, b, n) : FLX_DIM_INVALID;
    const dim_causes causes = ctx->dims->causes;
    pthread_mutex_unlock(&ctx->lock);
    if (bound == FLX_DIM_INVALID)
        explain_unbound(causes, ctx, d, err);
    return bound;
}

const char *flxi_dim_solve(flx_context *ctx, flx_dim d, int64_t value, int64_t *extent)
{
    const char *name = NULL;
    if (flxi_dim_is_number(d))
        return NULL;
    pthread_mutex_lock(&ctx->lock);
    if (known(ctx->dims, d)) {
        const entry *e = entry_of(ctx->dims, d);
        int64_t rest = e->n == 2 && e->t[1].n == 0 ? e->t[1].coef : 0;
        bool is_linear = e->t[0].n == 1 && (e->n == 1 || rest != 0);
        int64_t scaled;
        name = is_linear ? ctx->dims->atoms.at[e->t[0].atoms[0]].name : NULL;
        *extent = -1;
        if (name && !__builtin_sub_overflow(value, rest, &scaled) && scaled % e->t[0].coef == 0)
            *extent = scaled / e->t[0].coef;
    }
    pthread_mutex_unlock(&ctx->lock);
    return name;
}

/* ---- Text ---- */

static void write_locked(const flxi_dim_table *t, flx_dim d, flxi_strbuf *out);

/* In a quotient, a number or a single symbol is written without parentheses, anything else with them. */
static void write_side(const flxi_dim_table *t, flx_dim d, flxi_strbuf *out)
{
    bool is_plain = flxi_dim_is_number(d) && d >= 0;
    if (!flxi_dim_is_number(d)) {
        const entry *e = entry_of(t, d);
        is_plain = e->n == 1 && e->t[0].coef == 1 && e->t[0].n == 1 && t->atoms.at[e->t[0].atoms[0]].name;
    }
    flxi_add_text(out, is_plain ? "" : "(");
    write_locked(t, d, out);
    flxi_add_text(out, is_plain ? "" : ")");
}

static void write_atom(const flxi_dim_table *t, uint32_t i, bool in_product, flxi_strbuf *out)
{
    const atom *a = &t->atoms.at[i];
    if (a->name) {
        flxi_add_text(out, a->name);
        return;
    }
    flxi_add_text(out, in_product ? "(" : "");
    write_side(t, a->num, out);
    flxi_add_text(out, a->floor ? "//" : "/");
    write_side(t, a->den, out);
    flxi_add_text(out, in_product ? ")" : "");
}

static void write_locked(const flxi_dim_table *t, flx_dim d, flxi_strbuf *out)
{
    if (flxi_dim_is_number(d)) {
        flxi_addf(out, "%lld", (long long)d);
        return;
    }
    if (!known(t, d)) {
        flxi_add_text(out, "?");
        return;
    }
    const entry *e = entry_of(t, d);
    for (uint32_t i = 0; i < e->n; i++) {
        const term *x = &e->t[i];
        uint64_t magnitude = x->coef < 0 ? 0 - (uint64_t)x->coef : (uint64_t)x->coef;
        if (i)
            flxi_add_text(out, x->coef < 0 ? " - " : " + ");
        else if (x->coef < 0)
            flxi_add_text(out, "-");
        if (magnitude != 1 || x->n == 0)
            flxi_addf(out, x->n ? "%llu*" : "%llu", (unsigned long long)magnitude);
        for (uint32_t k = 0; k < x->n; k++) {
            if (k)
                flxi_add_char(out, '*');
            write_atom(t, x->atoms[k], x->n > 1 || magnitude != 1 || x->coef < 0, out);
        }
    }
}

void flxi_dim_write(flx_context *ctx, flx_dim d, flxi_strbuf *out)
{
    if (flxi_dim_is_number(d)) {
        flxi_addf(out, "%lld", (long long)d);
        return;
    }
    pthread_mutex_lock(&ctx->lock);
    write_locked(ctx->dims, d, out);
    pthread_mutex_unlock(&ctx->lock);
}

static void visit_symbols(const flxi_dim_table *t, flx_dim d, void (*fn)(void *, const char *), void *user)
{
    if (!known(t, d) || flxi_dim_is_number(d))
        return;
    const entry *e = entry_of(t, d);
    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t k = 0; k < e->t[i].n; k++) {
            const atom *a = &t->atoms.at[e->t[i].atoms[k]];
            if (a->name) {
                fn(user, a->name);
            } else {
                visit_symbols(t, a->num, fn, user);
                visit_symbols(t, a->den, fn, user);
            }
        }
}

void flxi_dim_symbols(flx_context *ctx, flx_dim d, void (*fn)(void *user, const char *name), void *user)
{
    if (flxi_dim_is_number(d))
        return;
    pthread_mutex_lock(&ctx->lock);
    visit_symbols(ctx->dims, d, fn, user);
    pthread_mutex_unlock(&ctx->lock);
}

static uint64_t hash_locked(const flxi_dim_table *t, uint64_t h, flx_dim d)
{
    if (flxi_dim_is_number(d) || !known(t, d))
        return flxi_hash_u64(h, (uint64_t)d);
    const entry *e = entry_of(t, d);
    for (uint32_t i = 0; i < e->n; i++) {
        h = flxi_hash_u64(h, (uint64_t)e->t[i].coef);
        for (uint32_t k = 0; k < e->t[i].n; k++) {
            const atom *a = &t->atoms.at[e->t[i].atoms[k]];
            h = flxi_hash_text(h, a->name ? a->name : a->floor ? "//" : "/");
            if (!a->name)
                h = hash_locked(t, hash_locked(t, h, a->num), a->den);
        }
    }
    return h;
}

uint64_t flxi_dim_hash(flx_context *ctx, uint64_t h, flx_dim d)
{
    if (flxi_dim_is_number(d))
        return flxi_hash_u64(h, (uint64_t)d);
    pthread_mutex_lock(&ctx->lock);
    h = hash_locked(ctx->dims, h, d);
    pthread_mutex_unlock(&ctx->lock);
    return h;
}
