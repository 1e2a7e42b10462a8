/* einsum.c: einsum and its notation.

       eq   := term {"," term} ["->" term]      one term for each operand, then that of the result
       term := {letter | "..."}                 "..." at most once; spaces are free

   A letter names an axis: axes with the same letter have the same extent and move together, also within one operand,
   where they select a diagonal. Letters that the result does not have are summed over. "..." stands for the axes that a
   term has no letters for; they broadcast as in NumPy, and the result must have them. Without "->" the result has the
   axes of "...", then the letters that occur exactly once, in the order of ASCII.

   Both rules read the text anew: it is short, and nothing needs to be kept. A label is a small number: A-Z, a-z, then
   the axes of "..." counted so that the last of each term is the last label, which aligns them to the right. */
#include "ops/axis_lists.h"
#include "ops/contraction.h"

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

/* -1 for what is no letter. */
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

/* NULL, or what is wrong. */
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

/* Notes an operand's axes. *clash becomes the label whose extents do not fit, or stays. `f` is NULL in evaluation,
   where all extents are numbers. */
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
        else if (at < LETTERS && f && flxi_dims_may_equal(f, d, *extent))
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

/* The result's term; NULL, or what is wrong. */
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

/* NULL, or what is wrong with the result. */
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
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "eq is written like \"ij,jk->ik\"", "eq=\"%s\": %s",
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
        return flxi_infer_fail(f, FLX_E_SHAPE, "one letter for each axis; '...' stands for the axes without",
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

/* Where each label stands: an axis of the result, or of the sum. */
typedef struct {
    bool in_result[LABELS];
    int axis[LABELS];
} places;

static places place_labels(const einsum_plan *p, flxi_contraction *c)
{
    places at = {0};
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

/* How operand x moves: the strides of axes with one label add up, a stretched axis stands still. */
static flxi_factor einsum_factor(const flx_tensor *x, span s, const einsum_plan *p, const places *at)
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
    places at = place_labels(&p, &c);
    flxi_factor *factors = flxi_alloc(e->mem, e->nin, sizeof *factors);
    if (!factors)
        return flxi_oom(e->err, "einsum: the strides of its operands");
    for (uint32_t i = 0; i < e->nin && next_term(&operands, &s); i++)
        factors[i] = einsum_factor(e->in[i], s, &p, &at);
    flxi_contract(&c, factors, e->out[0]);
    flxi_free(e->mem, factors, e->nin, sizeof *factors);
    return FLX_OK;
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

const flxi_rules flxi_rules_einsum = {
    .infer = infer_einsum,
    .eval = eval_einsum,
    .schema = einsum_schema,
    .attrs_size = sizeof(einsum_attrs),
    .samples = samples_einsum,
};
