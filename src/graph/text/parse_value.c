/* SPDX-License-Identifier: Apache-2.0 */
/* parse_value.c: dimensions, types, attribute values and literal tensors in the text form. Recursion is bounded: by a
   constant for parentheses in dimensions, by the rank of the type for literal lists. */
#include "graph/text/parse.h"

#include "base/number.h"
#include "graph/op/eval.h"

#include <math.h>

enum { MAX_PARENTHESES = 64 };

/* ---- Dimensions: sum of products of factors ---- */

/* Reports why a dimension is invalid: `message`, unless memory ran out. */
static flx_code bad_dim(flxi_reader *r, const char *at, flx_code code, const char *hint, const char *message)
{
    if (flxi_dim_starved(r->g->ctx))
        return flxi_fail_at(r, at, FLX_E_OOM, NULL, "out of memory: dimensions");
    return flxi_fail_at(r, at, code, hint, "%s", message);
}

static const char too_large[] = "this dimension is too large";

static bool is_digits(const flxi_token *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->s[i] < '0' || t->s[i] > '9')
            return false;
    return true;
}

static flx_code parse_sum(flxi_reader *r, int depth, flx_dim *out);

static flx_code parse_factor(flxi_reader *r, int depth, flx_dim *out)
{
    flxi_token t = r->x.token;
    if (depth > MAX_PARENTHESES)
        return flxi_fail_at(r, t.s, FLX_E_SIZE, NULL, "a dimension nests deeper than %d", MAX_PARENTHESES);
    if (flxi_is_mark(&t, '(')) {
        flxi_lex_next(&r->x);
        FLXI_TRY(parse_sum(r, depth + 1, out));
        return flxi_expect_mark(r, ')');
    }
    if (flxi_is_mark(&t, '-')) {
        flxi_lex_next(&r->x);
        FLXI_TRY(parse_factor(r, depth + 1, out));
        *out = flx_dim_sub(r->g->ctx, 0, *out);
    } else if (t.kind == TOKEN_NUMBER) {
        int64_t v = INT64_MAX;
        if (!flxi_read_i64(t.s, t.n, &v) && !is_digits(&t))
            return flxi_expected(r, "a dimension (a whole number or a name)");
        if (v > FLXI_DIM_LARGEST)
            return flxi_fail_at(r, t.s, FLX_E_SIZE, NULL, "%s", too_large);
        flxi_lex_next(&r->x);
        *out = v;
    } else if (t.kind == TOKEN_NAME && flxi_is_name(t.s, t.n)) {
        const char *name = flxi_arena_text(&r->scratch, t.s, t.n);
        if (!name)
            return flxi_fail_at(r, t.s, FLX_E_OOM, NULL, "out of memory: dimensions");
        flxi_lex_next(&r->x);
        *out = flx_dim_symbol(r->g->ctx, name);
    } else {
        return flxi_expected(r, "a dimension (a whole number or a name)");
    }
    return *out == FLX_DIM_INVALID ? bad_dim(r, t.s, FLX_E_SIZE, NULL, too_large) : FLX_OK;
}

static flx_code parse_product(flxi_reader *r, int depth, flx_dim *out)
{
    flx_context *ctx = r->g->ctx;
    FLXI_TRY(parse_factor(r, depth, out));
    for (;;) {
        flxi_token t = r->x.token;
        bool times = flxi_is_mark(&t, '*');
        if (!times && !(t.kind == TOKEN_MARK && *t.s == '/'))
            return FLX_OK;
        flx_dim b;
        flxi_lex_next(&r->x);
        FLXI_TRY(parse_factor(r, depth, &b));
        *out = times      ? flx_dim_mul(ctx, *out, b)
               : t.n == 2 ? flxi_dim_floor_div(ctx, *out, b)
                          : flx_dim_div(ctx, *out, b);
        if (*out == FLX_DIM_INVALID)
            return times    ? bad_dim(r, t.s, FLX_E_SIZE, NULL, too_large)
                   : b == 0 ? bad_dim(r, t.s, FLX_E_SHAPE, NULL, "this division is by zero")
                            : bad_dim(r, t.s, FLX_E_SHAPE, "division must be exact; a // b rounds down",
                                      "this division has no whole result");
    }
}

static flx_code parse_sum(flxi_reader *r, int depth, flx_dim *out)
{
    flx_context *ctx = r->g->ctx;
    FLXI_TRY(parse_product(r, depth, out));
    for (;;) {
        flxi_token t = r->x.token;
        bool plus = flxi_is_mark(&t, '+');
        if (!plus && !flxi_is_mark(&t, '-'))
            return FLX_OK;
        flx_dim b;
        flxi_lex_next(&r->x);
        FLXI_TRY(parse_product(r, depth, &b));
        *out = plus ? flx_dim_add(ctx, *out, b) : flx_dim_sub(ctx, *out, b);
        if (*out == FLX_DIM_INVALID)
            return bad_dim(r, t.s, FLX_E_SIZE, NULL, too_large);
    }
}

flx_code flxi_parse_dim(flxi_reader *r, flx_dim *out)
{
    return parse_sum(r, 0, out);
}

/* ---- Types ---- */

static int32_t dtype_of(const flxi_token *t)
{
    char name[8];
    if (t->kind != TOKEN_NAME || t->n >= sizeof name)
        return FLX_DTYPE_NONE;
    memcpy(name, t->s, t->n);
    name[t->n] = 0;
    return (int32_t)flx_dtype_parse(name);
}

static bool type_follows(const flxi_reader *r)
{
    flxi_lexer ahead = r->x;
    if (dtype_of(&ahead.token) == FLX_DTYPE_NONE)
        return false;
    flxi_lex_next(&ahead);
    return flxi_is_mark(&ahead.token, '[');
}

flx_code flxi_parse_type(flxi_reader *r, flx_type *out)
{
    const char *at = r->x.token.s;
    *out = (flx_type){.dtype = dtype_of(&r->x.token)};
    if (!out->dtype) {
        flx_code code = flxi_expected(r, "a type such as f32[2, 3]");
        flxi_hint_type(r);
        return code;
    }
    flxi_token dtype = r->x.token;
    flxi_lex_next(&r->x);
    if (!flxi_is_mark(&r->x.token, '[')) {
        flx_code code = flxi_expect_mark(r, '[');
        flxi_hint(flxi_parse_error(r), "a scalar is %.*s[], a vector %.*s[3]", (int)dtype.n, dtype.s, (int)dtype.n,
                  dtype.s);
        return code;
    }
    flxi_lex_next(&r->x);
    while (!flxi_is_mark(&r->x.token, ']')) {
        if (out->rank == FLX_MAX_RANK)
            return flxi_fail_at(r, r->x.token.s, FLX_E_SIZE, NULL, "a tensor has at most %d dimensions", FLX_MAX_RANK);
        FLXI_TRY(flxi_parse_dim(r, &out->dims[out->rank++]));
        if (!flxi_is_mark(&r->x.token, ','))
            break;
        flxi_lex_next(&r->x);
    }
    FLXI_TRY(flxi_expect_mark(r, ']'));
    flx_error err = {0};
    if (flxi_type_check(r->g->ctx, out, &err) != FLX_OK)
        return flxi_pass_at(r, at, &err);
    return FLX_OK;
}

/* ---- Numbers ---- */

static bool is_number_word(const flxi_token *t)
{
    return flxi_is_word(t, "inf") || flxi_is_word(t, "nan") || flxi_is_word(t, "true") || flxi_is_word(t, "false");
}

bool flxi_at_number(const flxi_reader *r)
{
    return r->x.token.kind == TOKEN_NUMBER || flxi_is_mark(&r->x.token, '-') || is_number_word(&r->x.token);
}

flx_code flxi_parse_number(flxi_reader *r, flxi_literal *out)
{
    *out = (flxi_literal){.at = r->x.token.s};
    if (flxi_is_mark(&r->x.token, '-')) {
        out->negative = true;
        flxi_lex_next(&r->x);
    }
    out->token = r->x.token;
    double ignored;
    bool fits = out->token.kind == TOKEN_NUMBER ? flxi_read_double(out->token.s, out->token.n, &ignored)
                                                : is_number_word(&out->token);
    bool truth = flxi_is_word(&out->token, "true") || flxi_is_word(&out->token, "false");
    if (!fits || (truth && out->negative)) {
        flx_code code = flxi_expected(r, "a number");
        if (out->negative)
            flxi_hint_negative(r);
        return code;
    }
    flxi_lex_next(&r->x);
    return FLX_OK;
}

static double literal_double(const flxi_literal *l)
{
    double v = 0.0;
    if (flxi_is_word(&l->token, "inf"))
        v = INFINITY;
    else if (flxi_is_word(&l->token, "nan"))
        v = NAN;
    else
        flxi_read_double(l->token.s, l->token.n, &v);
    return l->negative ? -v : v;
}

/* Whole numbers may be written 3, 3.0 or 1e3; digits beyond double's are read exactly. */
static bool literal_int(const flxi_literal *l, int32_t dtype, int64_t *out)
{
    uint64_t magnitude;
    if (!flxi_read_u64(l->token.s, l->token.n, &magnitude)) {
        double v = l->token.kind == TOKEN_NUMBER ? literal_double(l) : NAN;
        if (!(v == trunc(v)) || fabs(v) >= 9007199254740992.0)
            return false;
        magnitude = (uint64_t)fabs(v);
    }
    int bits = flxi_int_bits(dtype);
    uint64_t top = UINT64_MAX >> (64 - bits);
    bool is_signed = flxi_is_signed(dtype);
    uint64_t limit = is_signed ? top / 2 + (l->negative ? 1 : 0) : l->negative ? 0 : top;
    *out = (int64_t)(l->negative ? 0 - magnitude : magnitude);
    return magnitude <= limit;
}

flx_code flxi_store_literal(flxi_reader *r, const flxi_literal *l, int32_t dtype, void *base, int64_t i)
{
    char text[48];
    bool truth = flxi_is_word(&l->token, "true") || flxi_is_word(&l->token, "false");
    int64_t v;
    flxi_printable(text, sizeof text, l->at, (size_t)(l->token.s + l->token.n - l->at));
    if (dtype == FLX_BOOL || truth) {
        v = flxi_is_word(&l->token, "true");
        if (dtype == FLX_BOOL && (truth || (literal_int(l, FLX_U8, &v) && v <= 1))) {
            flxi_store_int(dtype, base, i, v);
            return FLX_OK;
        }
        return flxi_fail_at(r, l->at, FLX_E_DTYPE, NULL, "%s is not a value of %s", text, flx_dtype_name(dtype));
    }
    if (flxi_is_int(dtype)) {
        if (!literal_int(l, dtype, &v))
            return flxi_fail_at(r, l->at, FLX_E_DTYPE, NULL, "%s is not a value of %s", text, flx_dtype_name(dtype));
        flxi_store_int(dtype, base, i, v);
    } else {
        flxi_store_double(dtype, base, i, literal_double(l));
    }
    return FLX_OK;
}

/* ---- Literal tensors ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static flx_code parse_hex(flxi_reader *r, const flx_type *type, flx_tensor *t)
{
    const char *s = r->x.token.s + 1;
    size_t n = r->x.token.n - 2;
    flxi_type_text text;
    unsigned char *bytes = t->data;
    if (n != 2 * t->nbytes)
        return flxi_fail_at(r, r->x.token.s, FLX_E_SHAPE, NULL, "%zu hexadecimal digits given, but %s needs %zu", n,
                            flxi_type_str(r->g->ctx, type, &text), 2 * t->nbytes);
    for (size_t i = 0; i < t->nbytes; i++) {
        int high = hex_digit(s[2 * i]);
        int low = hex_digit(s[2 * i + 1]);
        if (high < 0 || low < 0)
            return flxi_fail_at(r, s + 2 * i, FLX_E_SYNTAX, NULL, "this is not a hexadecimal digit");
        bytes[i] = (unsigned char)(high << 4 | low);
        if (type->dtype == FLX_BOOL && bytes[i] > 1)
            return flxi_fail_at(r, s + 2 * i, FLX_E_DTYPE, NULL, "a bool byte must be 00 or 01");
    }
    flxi_lex_next(&r->x);
    return FLX_OK;
}

/* One element: a number, or [re, im] for a complex one. */
static flx_code parse_element(flxi_reader *r, flx_tensor *t, int64_t i)
{
    flxi_literal l;
    int32_t dtype = t->type.dtype;
    if (!flxi_is_complex(dtype) || !flxi_is_mark(&r->x.token, '[')) {
        FLXI_TRY(flxi_parse_number(r, &l));
        return flxi_store_literal(r, &l, dtype, t->data, i);
    }
    for (int part = 0; part < 2; part++) {
        flxi_lex_next(&r->x);
        FLXI_TRY(flxi_parse_number(r, &l));
        FLXI_TRY(flxi_store_literal(r, &l, flxi_part_dtype(dtype), t->data, 2 * i + part));
        if (part == 0 && !flxi_is_mark(&r->x.token, ','))
            return flxi_expected(r, "',' between real and imaginary part");
    }
    return flxi_expect_mark(r, ']');
}

/* The list nests like the shape, so the recursion is as deep as the rank. */
static flx_code parse_nested(flxi_reader *r, flx_tensor *t, int axis, int64_t *at)
{
    if (axis == t->type.rank)
        return parse_element(r, t, (*at)++);
    const char *open = r->x.token.s;
    FLXI_TRY(flxi_expect_mark(r, '['));
    int64_t n = 0;
    while (!flxi_is_mark(&r->x.token, ']')) {
        if (n++ == t->type.dims[axis])
            return flxi_fail_at(r, r->x.token.s, FLX_E_SHAPE, NULL, "this list has more than %lld entries",
                                (long long)t->type.dims[axis]);
        FLXI_TRY(parse_nested(r, t, axis + 1, at));
        if (!flxi_is_mark(&r->x.token, ','))
            break;
        flxi_lex_next(&r->x);
    }
    if (n != t->type.dims[axis])
        return flxi_fail_at(r, open, FLX_E_SHAPE, NULL, "this list has %lld entries, expected %lld", (long long)n,
                            (long long)t->type.dims[axis]);
    return flxi_expect_mark(r, ']');
}

/* Each element takes at least one character, so a file cannot cause allocations beyond a multiple of its size. */
static flx_code parse_data(flxi_reader *r, const flx_type *type, flx_attr *out)
{
    int64_t count;
    flx_error err = {0};
    flxi_type_text text;
    const char *at = r->x.token.s;
    if (!flxi_type_is_static(type))
        return flxi_fail_at(r, at, FLX_E_UNBOUND_DIM, "full(type, value) and iota(type) may be symbolic",
                            "a literal needs numbers for its dimensions, not %s",
                            flxi_type_str(r->g->ctx, type, &text));
    if (!flxi_static_count(type, &count) || count > r->x.end - at)
        return flxi_fail_at(r, at, FLX_E_SHAPE, NULL, "the text is too short to hold a %s",
                            flxi_type_str(r->g->ctx, type, &text));
    flx_tensor *t = flx_tensor_new(r->g->ctx, type, NULL, &err);
    if (!t)
        return flxi_pass_at(r, at, &err);
    int64_t filled = 0;
    flx_code code = r->x.token.kind == TOKEN_STRING ? parse_hex(r, type, t) : parse_nested(r, t, 0, &filled);
    if (code != FLX_OK) {
        flx_tensor_release(t);
        return code;
    }
    *out = (flx_attr){.kind = FLX_ATTR_TENSOR, .as.tensor = t};
    return FLX_OK;
}

/* ---- Attribute values ---- */

static flx_code parse_string(flxi_reader *r, flx_attr *out)
{
    const char *s = r->x.token.s + 1;
    size_t n = r->x.token.n - 2;
    char *text = flxi_new(&r->scratch, char, n + 1);
    size_t k = 0;
    if (!text)
        return flxi_fail_at(r, s, FLX_E_OOM, NULL, "out of memory: a string");
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '\\' && i + 1 < n) {
            c = s[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        if (c == 0)
            return flxi_fail_at(r, s + i, FLX_E_SYNTAX, NULL, "a string cannot contain a zero byte");
        text[k++] = c;
    }
    *out = (flx_attr){.kind = FLX_ATTR_STRING, .as.s = text};
    flxi_lex_next(&r->x);
    return FLX_OK;
}

static flx_code parse_graph_name(flxi_reader *r, const flx_graph **out)
{
    flxi_lex_next(&r->x); /* @ */
    if (r->x.token.kind != TOKEN_NAME)
        return flxi_expected(r, "the name of a graph after '@'");
    flxi_token name = r->x.token;
    FLXI_TRY(flxi_find_graph(r, &name, out));
    flxi_lex_next(&r->x);
    return FLX_OK;
}

/* The text of a kernel of the file. */
static flx_code parse_kernel_name(flxi_reader *r, flx_attr *out)
{
    flxi_lex_next(&r->x); /* @ */
    if (r->x.token.kind != TOKEN_NAME)
        return flxi_expected(r, "the name of a kernel after '@'");
    flxi_token name = r->x.token;
    *out = (flx_attr){.kind = FLX_ATTR_STRING};
    FLXI_TRY(flxi_find_kernel(r, &name, &out->as.s));
    flxi_lex_next(&r->x);
    return FLX_OK;
}

/* Elements of a list in order of appearance; its kind is known only at the end. */
typedef struct {
    FLXI_VEC(int64_t) ints; /* pairs take two entries each */
    FLXI_VEC(double) reals;
    FLXI_VEC(flx_type) types;
    FLXI_VEC(const flx_graph *) graphs;
    bool has_pairs, has_reals;
} list_parts;

/* All of the list's growth comes from the context's allocator and is copied to scratch at the end. */
static bool push_number(const flxi_allocator *mem, list_parts *l, int64_t low, int64_t high, double real)
{
    return flxi_push(mem, &l->ints, low) && flxi_push(mem, &l->ints, high) && flxi_push(mem, &l->reals, real);
}

static flx_code parse_pair(flxi_reader *r, list_parts *l)
{
    flx_dim pair[2];
    flxi_lex_next(&r->x);
    FLXI_TRY(flxi_parse_dim(r, &pair[0]));
    FLXI_TRY(flxi_expect_mark(r, ','));
    FLXI_TRY(flxi_parse_dim(r, &pair[1]));
    FLXI_TRY(flxi_expect_mark(r, ']'));
    l->has_pairs = true;
    return push_number(&r->g->ctx->mem, l, pair[0], pair[1], 0.0) ? FLX_OK : FLX_E_OOM;
}

static bool at_real(const flxi_reader *r)
{
    flxi_lexer ahead = r->x;
    if (flxi_is_mark(&ahead.token, '-'))
        flxi_lex_next(&ahead);
    int64_t whole;
    if (flxi_is_word(&ahead.token, "inf") || flxi_is_word(&ahead.token, "nan"))
        return true;
    return ahead.token.kind == TOKEN_NUMBER && !flxi_read_i64(ahead.token.s, ahead.token.n, &whole);
}

static flx_code parse_list_entry(flxi_reader *r, list_parts *l)
{
    const flxi_allocator *mem = &r->g->ctx->mem;
    flxi_token t = r->x.token;
    bool ok;
    if (flxi_is_mark(&t, '['))
        return parse_pair(r, l);
    if (flxi_is_mark(&t, '@')) {
        const flx_graph *g;
        FLXI_TRY(parse_graph_name(r, &g));
        ok = flxi_push(mem, &l->graphs, g);
    } else if (type_follows(r)) {
        flx_type type;
        FLXI_TRY(flxi_parse_type(r, &type));
        ok = flxi_push(mem, &l->types, type);
    } else if (flxi_is_word(&t, "true") || flxi_is_word(&t, "false")) {
        int64_t v = flxi_is_word(&t, "true");
        flxi_lex_next(&r->x);
        ok = push_number(mem, l, v, v, (double)v);
    } else if (at_real(r)) {
        flxi_literal number;
        FLXI_TRY(flxi_parse_number(r, &number));
        l->has_reals = true;
        ok = push_number(mem, l, 0, 0, literal_double(&number));
    } else {
        flx_dim d;
        FLXI_TRY(flxi_parse_dim(r, &d));
        ok = push_number(mem, l, d, d, (double)d);
    }
    return ok ? FLX_OK : FLX_E_OOM;
}

static flx_code keep_list(flxi_reader *r, const list_parts *l, const char *at, flx_attr *out)
{
    int kinds = (l->graphs.n > 0) + (l->types.n > 0) + (l->reals.n > 0);
    if (kinds > 1 || (l->has_pairs && l->has_reals))
        return flxi_fail_at(r, at, FLX_E_SYNTAX, NULL, "the entries of this list are of different kinds");
    if (l->graphs.n) {
        const flx_graph **v = flxi_dup(&r->scratch, const flx_graph *, l->graphs.at, l->graphs.n);
        *out = (flx_attr){.kind = FLX_ATTR_GRAPHS, .as.graphs = {v, l->graphs.n}};
        return v ? FLX_OK : FLX_E_OOM;
    }
    if (l->types.n) {
        flx_type *v = flxi_dup(&r->scratch, flx_type, l->types.at, l->types.n);
        *out = (flx_attr){.kind = FLX_ATTR_TYPES, .as.types = {v, l->types.n}};
        return v ? FLX_OK : FLX_E_OOM;
    }
    if (l->has_reals) {
        double *v = flxi_dup(&r->scratch, double, l->reals.at, l->reals.n);
        *out = (flx_attr){.kind = FLX_ATTR_REALS, .as.reals = {v, l->reals.n}};
        return v ? FLX_OK : FLX_E_OOM;
    }
    size_t step = l->has_pairs ? 1 : 2;
    size_t n = l->ints.n / step;
    int64_t *v = flxi_new(&r->scratch, int64_t, n);
    for (size_t i = 0; v && i < n; i++)
        v[i] = l->ints.at[i * step];
    *out = (flx_attr){.kind = l->has_pairs ? FLX_ATTR_PAIRS : FLX_ATTR_INTS, .as.ints = {v, n}};
    return v ? FLX_OK : FLX_E_OOM;
}

static flx_code parse_entries(flxi_reader *r, list_parts *l)
{
    flxi_lex_next(&r->x); /* [ */
    while (!flxi_is_mark(&r->x.token, ']')) {
        FLXI_TRY(parse_list_entry(r, l));
        if (!flxi_is_mark(&r->x.token, ','))
            break;
        flxi_lex_next(&r->x);
    }
    return flxi_expect_mark(r, ']');
}

static flx_code parse_list(flxi_reader *r, flx_attr *out)
{
    const flxi_allocator *mem = &r->g->ctx->mem;
    const char *at = r->x.token.s;
    list_parts l = {0};
    flx_code code = parse_entries(r, &l);
    if (code == FLX_OK)
        code = keep_list(r, &l, at, out);
    if (code == FLX_E_OOM && flxi_parse_error(r)->code == FLX_OK)
        flxi_fail_at(r, at, FLX_E_OOM, NULL, "out of memory: a list");
    flxi_vec_free(mem, &l.ints);
    flxi_vec_free(mem, &l.reals);
    flxi_vec_free(mem, &l.types);
    flxi_vec_free(mem, &l.graphs);
    return code;
}

/* Where a real number is expected, it is read as one: -0 and numbers beyond 64 bits are not integers. */
static flx_code parse_scalar_attr(flxi_reader *r, flxi_attr_kind wanted, flx_attr *out)
{
    flxi_literal l;
    int64_t whole;
    FLXI_TRY(flxi_parse_number(r, &l));
    if (flxi_is_word(&l.token, "true") || flxi_is_word(&l.token, "false"))
        *out = (flx_attr){.kind = FLX_ATTR_WORD, .as.s = flxi_is_word(&l.token, "true") ? "true" : "false"};
    else if (wanted == ATTR_REAL)
        *out = (flx_attr){.kind = FLX_ATTR_REAL, .as.r = literal_double(&l)};
    else if (flxi_read_i64(l.at, (size_t)(l.token.s + l.token.n - l.at), &whole) ||
             (l.negative && flxi_read_i64(l.token.s, l.token.n, &whole) && (whole = -whole, true)))
        *out = (flx_attr){.kind = FLX_ATTR_INT, .as.i = whole};
    else
        *out = (flx_attr){.kind = FLX_ATTR_REAL, .as.r = literal_double(&l)};
    if (out->kind == FLX_ATTR_INT && !flxi_dim_is_number(out->as.i))
        return flxi_fail_at(r, l.at, FLX_E_SIZE, NULL, "this number is too large");
    return FLX_OK;
}

/* The word `none`, which leaves an attribute absent, unless it begins a sum or product of a symbol of that name. */
static bool at_none(const flxi_reader *r)
{
    flxi_lexer ahead = r->x;
    if (!flxi_is_word(&ahead.token, "none"))
        return false;
    flxi_lex_next(&ahead);
    return flxi_is_mark(&ahead.token, ',') || flxi_is_mark(&ahead.token, ')');
}

static flx_code parse_word(flxi_reader *r, const char *name, flx_attr *out)
{
    flxi_token t = r->x.token;
    if (t.kind != TOKEN_NAME) {
        flx_code code = flxi_expected(r, "the value of an attribute");
        if (flxi_is_mark(&t, '('))
            flxi_hint(flxi_parse_error(r), "lists are in brackets: %s=[…]", name);
        return code;
    }
    const char *word = flxi_arena_text(&r->scratch, t.s, t.n);
    if (!word)
        return flxi_fail_at(r, t.s, FLX_E_OOM, NULL, "out of memory: a word");
    flxi_lex_next(&r->x);
    *out = (flx_attr){.kind = FLX_ATTR_WORD, .as.s = word};
    return FLX_OK;
}

flx_code flxi_parse_attr(flxi_reader *r, const flxi_attr *a, const flx_type *type, flx_attr *out)
{
    flxi_token t = r->x.token;
    if (a->kind == ATTR_DATA || a->kind == ATTR_VALUE) {
        if (!type)
            return flxi_expected(r, "a type such as f32[2, 3]");
        flx_type scalar = {.dtype = type->dtype};
        return parse_data(r, a->kind == ATTR_DATA ? type : &scalar, out);
    }
    if (type_follows(r) || a->kind == ATTR_TYPE) {
        flx_type *kept = flxi_new(&r->scratch, flx_type, 1);
        if (!kept)
            return flxi_fail_at(r, t.s, FLX_E_OOM, NULL, "out of memory: a type");
        *out = (flx_attr){.kind = FLX_ATTR_TYPE, .as.type = kept};
        return flxi_parse_type(r, kept);
    }
    if (t.kind == TOKEN_STRING)
        return parse_string(r, out);
    if (flxi_is_mark(&t, '['))
        return parse_list(r, out);
    if (flxi_is_mark(&t, '@') && (a->flags & ATTR_KERNEL))
        return parse_kernel_name(r, out);
    if (flxi_is_mark(&t, '@')) {
        *out = (flx_attr){.kind = FLX_ATTR_GRAPH};
        return parse_graph_name(r, &out->as.graph);
    }
    if (a->kind == ATTR_DIM && !at_none(r)) {
        *out = (flx_attr){.kind = FLX_ATTR_INT};
        return flxi_parse_dim(r, &out->as.i);
    }
    if (flxi_at_number(r))
        return parse_scalar_attr(r, a->kind, out);
    return parse_word(r, a->name, out);
}
