/* SPDX-License-Identifier: Apache-2.0 */
/* einsum.c: einsum and its notation.

       eq   := term {"," term} ["->" term]      one term for each operand, then that of the result
       term := {letter | "..."}                 "..." at most once; spaces are ignored

   A letter names an axis: axes with the same letter have the same extent and move together, also within one operand,
   where they select a diagonal. Letters that the result does not have are summed over. "..." stands for the axes that a
   term has no letters for; they broadcast as in NumPy, and the result must have them. Without "->" the result has the
   axes of "...", then the letters that occur exactly once, in the order of ASCII.

   Every rule parses the text again: it is short, and nothing needs to be kept. A label is a small number: A-Z, a-z,
   then the axes of "..." counted so that the last of each term is the last label, which aligns them to the right. */
#include "ops/product/contraction.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"

enum { LETTERS = 52, LABELS = LETTERS + FLX_MAX_RANK };
_Static_assert(LABELS <= (int)FLXI_MAX_CONTRACTED, "every label can be summed over");

typedef struct {
    const char *eq;
} einsum_attrs;

static const flxi_attr einsum_schema[] = {A_STRING_REQ(einsum_attrs, eq), A_END};

/* ---- Reading eq ---- */

typedef struct {
    const char *at, *end;
} span;

typedef struct {
    int label[FLX_MAX_RANK]; /* of each letter */
    int letters;
    int dots; /* number of letters before "...", or -1 without */
} term;

/* -1 if it is not a letter. */
static int label_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    return -1;
}

static char letter_of(int label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

/* NULL, or the error. */
static const char *read_term(span s, term *t)
{
    *t = (term){.dots = -1};
    while (s.at < s.end) {
        if (*s.at == ' ') {
            s.at++;
        } else if (s.end - s.at >= 3 && memcmp(s.at, "...", 3) == 0) {
            if (t->dots >= 0)
                return "a term has '...' twice";
            t->dots = t->letters;
            s.at += 3;
        } else if (label_of(*s.at) < 0) {
            return "a term consists of letters and '...'";
        } else if (t->letters == FLX_MAX_RANK) {
            return "a term has more letters than a tensor can have axes";
        } else {
            t->label[t->letters++] = label_of(*s.at++);
        }
    }
    return NULL;
}

/* Splits at "->"; without it the result's span has no text at all (at is NULL). */
static void split_arrow(const char *eq, span *operands, span *result)
{
    const char *end = eq + strlen(eq);
    const char *arrow = strstr(eq, "->");
    *operands = (span){eq, arrow ? arrow : end};
    *result = arrow ? (span){arrow + 2, end} : (span){NULL, NULL};
}

/* Takes the next term off the operands' part. False when the text has run out. */
static bool next_term(span *rest, span *out)
{
    if (!rest->at)
        return false;
    const char *comma = memchr(rest->at, ',', (size_t)(rest->end - rest->at));
    *out = (span){rest->at, comma ? comma : rest->end};
    rest->at = comma ? comma + 1 : NULL;
    return true;
}

static size_t count_terms(span operands)
{
    size_t n = 0;
    span s;
    while (next_term(&operands, &s))
        n++;
    return n;
}

/* The label of each of the `rank` axes a term describes. The caller has checked that it describes that many. */
static void labels_of(const term *t, int rank, int label[FLX_MAX_RANK])
{
    int unnamed = rank - t->letters;
    for (int k = 0, letter = 0; k < rank; k++) {
        bool in_dots = t->dots >= 0 && k >= t->dots && k < t->dots + unnamed;
        label[k] = in_dots ? LABELS - unnamed + (k - t->dots) : t->label[letter++];
    }
}

/* ---- What the terms say together ---- */

typedef struct {
    flx_dim extent[LABELS];
    size_t uses[LABELS]; /* among the operands; 0: unused */
    int unnamed;         /* axes that "..." stands for, after broadcasting */
    int rank;            /* of the result */
    int label[FLX_MAX_RANK];
} einsum_plan;

/* Records an operand's axes. *clash becomes the label whose extents do not match, or is unchanged. `f` is NULL after
   inference: then unequal extents of a letter are a symbol and its value. */
static void note_operand(einsum_plan *p, const flx_type *x, const int *label, flxi_infer *f, int *clash)
{
    for (int k = 0; k < x->rank; k++) {
        int at = label[k];
        flx_dim *extent = &p->extent[at];
        flx_dim d = x->dims[k];
        bool fits = p->uses[at] == 0 || d == *extent;
        if (fits)
            *extent = d;
        else if (at >= LETTERS && (d == 1 || *extent == 1))
            *extent = d == 1 ? *extent : d;
        else if (at < LETTERS && (!f || flxi_dims_may_equal(f, d, *extent)))
            *extent = flxi_agreed_dim(d, *extent);
        else
            *clash = at;
        p->uses[at]++;
    }
}

/* The result without "->". False when its rank is too large. */
static bool implied_result(einsum_plan *p)
{
    int n = 0;
    for (int i = LABELS - p->unnamed; i < LABELS; i++)
        p->label[n++] = i;
    for (int i = 0; i < LETTERS; i++) {
        if (p->uses[i] != 1)
            continue;
        if (n == FLX_MAX_RANK)
            return false;
        p->label[n++] = i;
    }
    p->rank = n;
    return true;
}

/* The result's term; NULL, or the error. */
static const char *stated_result(einsum_plan *p, const term *t)
{
    if (t->dots < 0 && p->unnamed > 0)
        return "the result must have the '...' of the operands";
    p->rank = t->letters + (t->dots >= 0 ? p->unnamed : 0);
    if (p->rank > FLX_MAX_RANK)
        return "the result has too many axes";
    labels_of(t, p->rank, p->label);
    bool seen[LABELS] = {false};
    for (int k = 0; k < p->rank; k++) {
        if (p->uses[p->label[k]] == 0)
            return "a letter of the result occurs in no operand";
        if (seen[p->label[k]])
            return "the result has a letter twice";
        seen[p->label[k]] = true;
    }
    return NULL;
}

/* NULL, or the error in the result. */
static const char *plan_result(einsum_plan *p, span result)
{
    if (!result.at)
        return implied_result(p) ? NULL : "the result has too many axes";
    term t;
    const char *problem = read_term(result, &t);
    return problem ? problem : stated_result(p, &t);
}

/* ---- Inference ---- */

static flx_code fail_eq(flxi_infer *f, const char *problem)
{
    const einsum_attrs *a = f->attrs;
    char text[64];
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "write eq like \"ij,jk->ik\"", "eq=\"%s\": %s",
                           flxi_printable(text, sizeof text, a->eq, strlen(a->eq)), problem);
}

static flx_code infer_operand(flxi_infer *f, einsum_plan *p, uint32_t i, span s)
{
    const flx_type *x = f->in[i];
    flxi_type_text tx;
    term t;
    int label[FLX_MAX_RANK];
    int clash = -1;
    const char *problem = read_term(s, &t);
    if (problem)
        return fail_eq(f, problem);
    if (t.dots < 0 ? t.letters != x->rank : t.letters > x->rank)
        return flxi_infer_fail(f, FLX_E_SHAPE, "one letter for each axis; '...' stands for axes without a letter",
                               "the term of operand %u has %d letters, but its shape is %s", (unsigned)i, t.letters,
                               flxi_shape_str(f->ctx, x, &tx));
    labels_of(&t, x->rank, label);
    note_operand(p, x, label, f, &clash);
    if (x->rank - t.letters > p->unnamed)
        p->unnamed = x->rank - t.letters;
    if (clash < 0)
        return FLX_OK;
    char named[] = {'\'', letter_of(clash < LETTERS ? clash : 0), '\'', 0};
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "the extents of %s differ between the operands: operand %u is %s",
                           clash < LETTERS ? named : "'...'", (unsigned)i, flxi_shape_str(f->ctx, x, &tx));
}

static flx_code infer_einsum(flxi_infer *f)
{
    const einsum_attrs *a = f->attrs;
    einsum_plan p = {.rank = 0};
    span operands, result, s;
    split_arrow(a->eq, &operands, &result);
    size_t terms = count_terms(operands);
    if (terms != f->nin)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "eq has one term for each operand, separated by commas",
                               "eq has %zu terms for %u operands", terms, (unsigned)f->nin);
    for (uint32_t i = 0; i < f->nin && next_term(&operands, &s); i++)
        FLXI_TRY(infer_operand(f, &p, i, s));
    const char *problem = plan_result(&p, result);
    if (problem)
        return fail_eq(f, problem);
    flx_type y = {.dtype = f->in[0]->dtype, .rank = p.rank};
    for (int k = 0; k < p.rank; k++)
        y.dims[k] = p.extent[p.label[k]];
    f->out[0] = y;
    return FLX_OK;
}

/* ---- Evaluation ---- */

/* What each label is: an axis of the result, or of the sum. */
typedef struct {
    bool in_result[LABELS];
    int axis[LABELS];
} label_axes;

static label_axes order_labels(const einsum_plan *p, flxi_contraction *c)
{
    label_axes at = {0};
    for (int k = 0; k < p->rank; k++) {
        at.in_result[p->label[k]] = true;
        at.axis[p->label[k]] = k;
    }
    for (int i = 0; i < LABELS; i++) {
        if (p->uses[i] == 0 || at.in_result[i])
            continue;
        at.axis[i] = c->num_sums;
        c->sum_dims[c->num_sums++] = p->extent[i];
    }
    return at;
}

/* Reads the term of each operand again; false when the text does not fit, which inference has ruled out. */
static bool plan_operands(const flxi_eval *e, span operands, einsum_plan *p)
{
    span s;
    int clash = -1;
    for (uint32_t i = 0; i < e->nin; i++) {
        const flx_type *x = &e->in[i]->type;
        term t;
        int label[FLX_MAX_RANK];
        if (!next_term(&operands, &s) || read_term(s, &t) || t.letters > x->rank || (t.dots < 0 && t.letters < x->rank))
            return false;
        labels_of(&t, x->rank, label);
        note_operand(p, x, label, NULL, &clash);
        if (x->rank - t.letters > p->unnamed)
            p->unnamed = x->rank - t.letters;
    }
    return clash < 0;
}

/* How operand x moves: the strides of axes with the same label are added, that of a stretched axis is 0. */
static flxi_factor einsum_factor(const flx_tensor *x, span s, const einsum_plan *p, const label_axes *at)
{
    flxi_factor m = {.data = x->data};
    int64_t strides[FLX_MAX_RANK];
    int label[FLX_MAX_RANK];
    term t;
    read_term(s, &t); /* read before, without a problem */
    labels_of(&t, x->type.rank, label);
    flxi_strides(&x->type, strides);
    for (int k = 0; k < x->type.rank; k++) {
        bool stretched = x->type.dims[k] == 1 && p->extent[label[k]] != 1;
        int64_t *along = at->in_result[label[k]] ? m.along_result : m.along_sum;
        if (!stretched)
            along[at->axis[label[k]]] += strides[k];
    }
    return m;
}

static flx_code eval_einsum(flxi_eval *e)
{
    const einsum_attrs *a = e->attrs;
    einsum_plan p = {.rank = 0};
    span operands, result, s;
    split_arrow(a->eq, &operands, &result);
    if (!plan_operands(e, operands, &p) || plan_result(&p, result))
        return flxi_eval_fail(e, FLX_E_INTERNAL, NULL, "eq does not fit the operands");
    flxi_contraction c = {.factors = e->nin};
    label_axes at = order_labels(&p, &c);
    flxi_factor *factors = flxi_alloc(e->mem, e->nin, sizeof *factors);
    if (!factors)
        return flxi_oom(e->err, "einsum: the strides of its operands");
    for (uint32_t i = 0; i < e->nin && next_term(&operands, &s); i++)
        factors[i] = einsum_factor(e->in[i], s, &p, &at);
    flxi_contract(&c, factors, e->out[0]);
    flxi_free(e->mem, factors, e->nin, sizeof *factors);
    return FLX_OK;
}

/* ---- What the rules see ---- */

/* A tensor whose axes have labels, each at most once, except in an original operand. */
typedef struct {
    flx_val v;
    int rank;
    int label[FLX_MAX_RANK];
} labelled;

typedef struct {
    einsum_plan plan; /* of one example */
    labelled *in;
} einsum_view;

/* False, with the error in the graph, when memory is exhausted. Labels are those of one example. */
static bool view_einsum(flxi_site *s, einsum_view *w)
{
    span operands, result, text;
    int clash = -1;
    *w = (einsum_view){.in = flxi_rule_new(s, labelled, s->nin)};
    split_arrow(((const einsum_attrs *)s->attrs)->eq, &operands, &result);
    for (uint32_t i = 0; w->in && i < s->nin && next_term(&operands, &text); i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        bool batched = s->batched && s->batched[i];
        flx_type x = flx_type_make((flx_dtype)t->dtype, t->rank - batched, t->dims + batched);
        term parts;
        read_term(text, &parts); /* read before, without a problem */
        w->in[i] = (labelled){.v = s->x[i], .rank = x.rank};
        labels_of(&parts, x.rank, w->in[i].label);
        note_operand(&w->plan, &x, w->in[i].label, NULL, &clash);
        if (x.rank - parts.letters > w->plan.unnamed)
            w->plan.unnamed = x.rank - parts.letters;
    }
    if (w->in && !plan_result(&w->plan, result) && clash < 0)
        return true;
    flxi_site_fail(s, FLX_E_INTERNAL, NULL,
                   "eq does not fit the operands"); /* the first error is kept: it may be lack of memory */
    return false;
}

/* Without the axes that stretch: along them the tensor is constant, as it is without the label. */
static labelled without_stretched(flxi_site *s, const einsum_view *w, labelled x)
{
    const flx_type *t = flxi_typeof(s, x.v);
    flx_dim dims[FLX_MAX_RANK];
    labelled y = {.rank = 0};
    for (int k = 0; k < x.rank; k++) {
        if (t->dims[k] == 1 && w->plan.extent[x.label[k]] != 1)
            continue;
        dims[y.rank] = t->dims[k];
        y.label[y.rank++] = x.label[k];
    }
    y.v = flxi_reshape_to(s, x.v, y.rank, dims);
    return y;
}

static bool has_label(const labelled *x, int label)
{
    for (int k = 0; k < x->rank; k++)
        if (x->label[k] == label)
            return true;
    return false;
}

/* ---- Derivative: an einsum of the cotangent with the other operands ---- */

/* A letter for every label: its own, or for an axis of "..." one that is not in use. False when none is left. */
static bool name_labels(flxi_site *s, const einsum_plan *p, char name[LABELS])
{
    int next = 0;
    for (int i = 0; i < LABELS; i++) {
        if (i < LETTERS) {
            name[i] = letter_of(i);
            continue;
        }
        if (p->uses[i] == 0)
            continue;
        while (next < LETTERS && p->uses[next])
            next++;
        if (next == LETTERS) {
            flxi_site_fail(s, FLX_E_UNSUPPORTED, "split it into several products", "more than %d different axes",
                           LETTERS);
            return false;
        }
        name[i] = letter_of(next++);
    }
    return true;
}

static char *write_term(char *at, const labelled *x, const char name[LABELS])
{
    for (int k = 0; k < x->rank; k++)
        *at++ = name[x->label[k]];
    return at;
}

/* Σ over the labels that `to` does not have of the product of n factors; `to` gets the value. */
static void sum_product(flxi_site *s, const labelled *factors, uint32_t n, const char name[LABELS], labelled *to)
{
    flx_val *x = flxi_rule_new(s, flx_val, n);
    char *eq = flxi_rule_new(s, char, (size_t)(n + 1) * (FLX_MAX_RANK + 1) + 3);
    char *at = eq;
    if (!x || !eq)
        return;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = factors[i].v;
        if (i > 0)
            *at++ = ',';
        at = write_term(at, &factors[i], name);
    }
    *at++ = '-';
    *at++ = '>';
    at = write_term(at, to, name);
    *at = '\0';
    to->v = flx_einsum(s->g, x, n, eq);
}

/* True where axes with the same label are at the same position; FLX_NONE when all labels differ. */
static flx_val diagonal_mask(flxi_site *s, const labelled *x, const flx_type *t)
{
    flx_val mask = FLX_NONE;
    for (int k = 0; k < x->rank; k++)
        for (int j = 0; j < k; j++) {
            if (x->label[j] != x->label[k])
                continue;
            flx_type line[2] = {{.dtype = FLX_I64, .rank = x->rank}, {.dtype = FLX_I64, .rank = x->rank}};
            for (int i = 0; i < x->rank; i++) {
                line[0].dims[i] = i == j ? t->dims[i] : 1;
                line[1].dims[i] = i == k ? t->dims[i] : 1;
            }
            flx_val same = flx_eq(s->g, flx_iota(s->g, &line[0], j), flx_iota(s->g, &line[1], k));
            mask = flxi_is_none(mask) ? same : flx_and(s->g, mask, same);
            break; /* the axes before j agree already */
        }
    return mask;
}

/* Labels that only operand i has were summed over: its cotangent repeats along them. Of axes with the same label only
   the diagonal was read. */
static flx_val einsum_cotangent(flxi_site *s, const einsum_view *w, uint32_t i, flx_val dy, const char name[LABELS])
{
    const flx_type *t = flxi_typeof(s, s->x[i]);
    labelled *factors = flxi_rule_new(s, labelled, s->nin);
    int64_t axes[FLX_MAX_RANK];
    labelled to = {.rank = 0};
    if (!factors)
        return FLX_NONE;
    factors[0] = (labelled){.v = dy, .rank = w->plan.rank};
    memcpy(factors[0].label, w->plan.label, sizeof factors[0].label);
    uint32_t n = 1;
    for (uint32_t k = 0; k < s->nin; k++) {
        if (k == i)
            continue;
        factors[n] = without_stretched(s, w, w->in[k]);
        factors[n].v = flxi_conj(s, factors[n].v);
        n++;
    }
    for (int k = 0; k < t->rank; k++) {
        int label = w->in[i].label[k];
        bool elsewhere = false;
        for (uint32_t j = 0; j < n; j++)
            elsewhere |= has_label(&factors[j], label);
        bool stretched = t->dims[k] == 1 && w->plan.extent[label] != 1;
        if (!elsewhere || stretched || has_label(&to, label))
            continue;
        axes[to.rank] = k;
        to.label[to.rank++] = label;
    }
    sum_product(s, factors, n, name, &to);
    flx_dim dims[FLX_MAX_RANK];
    for (int k = 0; k < to.rank; k++)
        dims[k] = t->dims[axes[k]];
    flx_val v = flxi_reshape_to(s, to.v, to.rank, dims);
    if (to.rank < t->rank)
        v = flx_broadcast_in_dim(s->g, v, flxi_dims_list(t->rank, t->dims), flxi_dims_list(to.rank, axes));
    flx_val mask = diagonal_mask(s, &w->in[i], t);
    return flxi_is_none(mask) ? v : flxi_masked(s, mask, v);
}

static void vjp_einsum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    einsum_view w;
    char name[LABELS];
    if (!view_einsum(s, &w) || !name_labels(s, &w.plan, name))
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        if (s->wanted[i])
            dx[i] = einsum_cotangent(s, &w, i, dy[0], name);
}

/* ---- Batching: one more letter ---- */

static char *write_text(char *at, const char *text, size_t n)
{
    memcpy(at, text, n);
    return at + n;
}

static void batch_einsum(flxi_site *s, flx_val *by)
{
    einsum_attrs *a = flxi_site_attrs(s);
    einsum_view w;
    span operands, result, text;
    int free = 0;
    if (!a || !view_einsum(s, &w))
        return;
    while (free < LETTERS && w.plan.uses[free])
        free++;
    if (free == LETTERS) {
        flxi_site_fail(s, FLX_E_UNSUPPORTED, "split it into several products", "no letter is left for the batch axis");
        return;
    }
    char *eq = flxi_rule_new(s, char, strlen(a->eq) + s->nin + FLX_MAX_RANK + 8);
    char *at = eq;
    if (!eq)
        return;
    split_arrow(a->eq, &operands, &result);
    for (uint32_t i = 0; i < s->nin && next_term(&operands, &text); i++) {
        if (i > 0)
            *at++ = ',';
        if (s->batched[i])
            *at++ = letter_of(free);
        at = write_text(at, text.at, (size_t)(text.end - text.at));
    }
    at = write_text(at, "->", 2);
    *at++ = letter_of(free);
    if (result.at)
        at = write_text(at, result.at, (size_t)(result.end - result.at));
    else if (w.plan.unnamed)
        at = write_text(at, "...", 3);
    for (int k = w.plan.unnamed; !result.at && k < w.plan.rank; k++)
        *at++ = letter_of(w.plan.label[k]);
    *at = '\0';
    a->eq = eq;
    flxi_append(s, a, s->x, s->nin, by);
}

/* ---- Decomposition: one operand after the other by dot_general ---- */

/* One axis for each label. */
static labelled without_diagonals(flxi_site *s, labelled x)
{
    for (int k = 1; k < x.rank; k++) {
        int j = 0;
        while (x.label[j] != x.label[k])
            j++;
        if (j == k)
            continue;
        int label = x.label[k];
        x.v = flxi_move_axis(s, flxi_move_axis(s, x.v, k, x.rank - 1), j, x.rank - 2);
        x.v = flx_diag(s->g, x.v, 0);
        memmove(x.label + k, x.label + k + 1, (size_t)(x.rank - k - 1) * sizeof *x.label);
        memmove(x.label + j, x.label + j + 1, (size_t)(x.rank - j - 2) * sizeof *x.label);
        x.label[x.rank - 2] = label;
        x.rank--;
        k = 0; /* labels have moved: start again */
    }
    return x;
}

/* Sums over the labels that nothing else needs. */
static labelled without_unwanted(flxi_site *s, labelled x, const bool wanted[LABELS])
{
    int64_t axes[FLX_MAX_RANK];
    size_t n = 0;
    labelled y = {.rank = 0};
    for (int k = 0; k < x.rank; k++) {
        if (wanted[x.label[k]])
            y.label[y.rank++] = x.label[k];
        else
            axes[n++] = k;
    }
    y.v = flxi_sum_axes(s, x.v, (flx_ints){axes, n}, false);
    return y;
}

/* The product of two, summed over the labels that both have and nothing else needs; *sums: whether there are such. */
static labelled contract_pair(flxi_site *s, const labelled *l, const labelled *r, const bool wanted[LABELS], bool *sums)
{
    int64_t pairs[4][FLX_MAX_RANK]; /* lc, rc, lb, rb */
    size_t n[2] = {0, 0};
    labelled y = {.rank = 0};
    for (int k = 0; k < l->rank; k++)
        for (int j = 0; j < r->rank; j++) {
            if (l->label[k] != r->label[j])
                continue;
            int kept = wanted[l->label[k]];
            pairs[2 * kept][n[kept]] = k;
            pairs[2 * kept + 1][n[kept]++] = j;
        }
    size_t rank = (size_t)(l->rank + r->rank) - n[1] - 2 * n[0];
    *sums = n[0] > 0;
    if (rank > FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, "reorder the operands", "an intermediate product has rank %zu", rank);
        return y;
    }
    for (size_t i = 0; i < n[1]; i++)
        y.label[y.rank++] = l->label[pairs[2][i]];
    for (int k = 0; k < l->rank; k++)
        if (!has_label(r, l->label[k]))
            y.label[y.rank++] = l->label[k];
    for (int k = 0; k < r->rank; k++)
        if (!has_label(l, r->label[k]))
            y.label[y.rank++] = r->label[k];
    y.v = flx_dot_general(s->g, l->v, r->v, (flx_ints){pairs[0], n[0]}, (flx_ints){pairs[1], n[0]},
                          (flx_ints){pairs[2], n[1]}, (flx_ints){pairs[3], n[1]});
    return y;
}

/* Labels of the result, of operands from `first` on and of one more tensor. */
static void mark_wanted(const einsum_view *w, uint32_t first, uint32_t n, const labelled *also, bool wanted[LABELS])
{
    memset(wanted, 0, LABELS * sizeof *wanted);
    for (int k = 0; k < w->plan.rank; k++)
        wanted[w->plan.label[k]] = true;
    for (uint32_t i = first; i < n; i++)
        for (int k = 0; k < w->in[i].rank; k++)
            wanted[w->in[i].label[k]] = true;
    for (int k = 0; also && k < also->rank; k++)
        wanted[also->label[k]] = true;
}

/* Sums start from +0. A product that sums last did so; after another step -0 may be left, which becomes +0. */
static flx_val from_zero(flxi_site *s, const einsum_view *w, flx_val v)
{
    bool in_result[LABELS] = {false}, sums = false;
    for (int k = 0; k < w->plan.rank; k++)
        in_result[w->plan.label[k]] = true;
    for (int i = 0; i < LABELS; i++)
        sums |= w->plan.uses[i] && !in_result[i];
    bool is_signed = flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flxi_typeof(s, v)->dtype);
    return sums && is_signed ? flx_add(s->g, v, flxi_number(s, v, 0.0)) : v;
}

static void decompose_einsum(flxi_site *s, flx_val *y)
{
    einsum_view w;
    bool wanted[LABELS], ends_with_sum = false;
    labelled product = {.rank = 0};
    if (!view_einsum(s, &w))
        return;
    for (uint32_t i = 0; i < s->nin; i++) {
        mark_wanted(&w, i + 1, s->nin, i ? &product : NULL, wanted);
        labelled x = without_diagonals(s, without_stretched(s, &w, w.in[i]));
        x = without_unwanted(s, x, wanted);
        mark_wanted(&w, i + 1, s->nin, NULL, wanted);
        product = i ? contract_pair(s, &product, &x, wanted, &ends_with_sum) : x;
    }
    if (!ends_with_sum)
        product.v = from_zero(s, &w, product.v);
    int64_t perm[FLX_MAX_RANK] = {0};
    flx_dim dims[FLX_MAX_RANK];
    for (int k = 0; k < w.plan.rank; k++) {
        dims[k] = w.plan.extent[w.plan.label[k]];
        for (int j = 0; j < product.rank; j++)
            if (product.label[j] == w.plan.label[k])
                perm[k] = j;
    }
    flx_val v = flx_transpose(s->g, product.v, flxi_dims_list(w.plan.rank, perm));
    y[0] = flxi_reshape_to(s, v, w.plan.rank, dims);
}

static const flxi_sample samples_einsum[] = {
    {"T[3, 4], T[4, 2]", "eq=\"ij,jk->ik\"", NULL, FLX_OK},
    {"T[3, 4], T[4, 2]", "eq=\"ij, jk\"", NULL, FLX_OK},
    {"T[2, 3]", "eq=\"ba\"", NULL, FLX_OK},
    {"T[2, 3]", "eq=\"ij->\"", NULL, FLX_OK},
    {"T[3, 3]", "eq=\"ii\"", NULL, FLX_OK},
    {"T[3, 3]", "eq=\"ii->i\"", NULL, FLX_OK},
    {"T[]", "eq=\"\"", NULL, FLX_OK},
    {"T[], T[2]", "eq=\",i->i\"", NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 2]", "eq=\"...j,jk->...k\"", NULL, FLX_OK},
    {"T[2, 1, 3], T[4, 3]", "eq=\"...j,...j->j...\"", NULL, FLX_OK},
    {"T[2, 3], T[1, 3]", "eq=\"...,...\"", NULL, FLX_OK},
    {"T[2], T[3], T[2, 3]", "eq=\"a,b,ab->b\"", NULL, FLX_OK},
    {"T[3, 0], T[0, 2]", "eq=\"ij,jk->ik\"", NULL, FLX_OK},
    {"T[0, 3], T[3, 2]", "eq=\"ij,jk->ki\"", NULL, FLX_OK},
    {"T[N, 3], T[N, 3]", "eq=\"ij,ij->i\"", NULL, FLX_OK},
    {"T[3, 2, 3, 2, 3], T[3, 2]", "eq=\"ijiji,ij->j\"", NULL, FLX_OK},
    {"T[2, 3], T[3, 3, 4]", "eq=\"ab,bbc\"", NULL, FLX_OK},
    {"T[2, 3, 4], T[2]", "eq=\"abc,a->a\"", NULL, FLX_OK},
    {"T[1, 3], T[2, 1], T[3, 2, 3]", "eq=\"...,...,a...->...a\"", NULL, FLX_OK},
    {"T[2, 3, 4], T[2, 4, 3]", "eq=\"b...x,bx...->...b\"", NULL, FLX_OK},
    {"T[N, 3], T[2, N]", "eq=\"ij,ki->kj\"", NULL, FLX_OK},
    {"T[N, N, 2], T[3, 2]", "eq=\"iij,ik->k\"", NULL, FLX_OK},
    {"T[3, 4], T[3, 2]", "eq=\"ij,jk->ik\"", NULL, FLX_E_SHAPE},
    {"T[3, 1], T[4, 2]", "eq=\"ij,jk->ik\"", NULL, FLX_E_SHAPE},
    {"T[3, 4]", "eq=\"i\"", NULL, FLX_E_SHAPE},
    {"T[3, 4]", "eq=\"ijk...\"", NULL, FLX_E_SHAPE},
    {"T[2, 3], T[4, 3]", "eq=\"...j,...j->...\"", NULL, FLX_E_SHAPE},
    {"T[3, 4]", "eq=\"ij,jk->ik\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"ij->ik\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"ij->ii\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"ij->i->j\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"i.j\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"i......\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"...j->j\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "eq=\"i1\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* A letter of the result is the same position in every operand that has it. */
static bool link_einsum(const flxi_use *u, flxi_link *l)
{
    span rest;
    span result;
    span text;
    term t;
    int from[FLX_MAX_RANK];
    int to[FLX_MAX_RANK];
    split_arrow(((const einsum_attrs *)u->n->attrs)->eq, &rest, &result);
    for (uint32_t k = 0; k <= u->operand; k++)
        if (!next_term(&rest, &text))
            return false;
    if (!result.at || read_term(text, &t))
        return false;
    labels_of(&t, flxi_link_operand(u)->rank, from);
    if (read_term(result, &t))
        return false;
    labels_of(&t, flxi_link_result(u)->rank, to);
    for (int k = 0; k < flxi_link_result(u)->rank; k++)
        if (to[k] == from[l->axis])
            return flxi_link_move(u, l, k);
    return false;
}

const flxi_rules flxi_rules_einsum = {
    .infer = infer_einsum,
    .eval = eval_einsum,
    .vjp = vjp_einsum,
    .batch = batch_einsum,
    .decompose = decompose_einsum,
    .schema = einsum_schema,
    .attrs_size = sizeof(einsum_attrs),
    .samples = samples_einsum,
    .link = link_einsum,
};
