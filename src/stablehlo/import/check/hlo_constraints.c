/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_constraints.c: the attributes of an operation against the constraints in its row (operations.def, which describes
   the notation).

   Our ops count negative axes from the end and fill in absent attributes; in StableHLO both are errors. */
#include "stablehlo/import/import_scope.h"

#include <stdio.h>

/* ---- Notation ---- */

typedef enum {
    AXIS,
    SIGNED_AXIS,
    AXIS_OR_END,
    AXES,
    SORTED_AXES,
    PERMUTATION,
    INTEGERS,
    WORD /* one of `words` */
} constraint_kind;

typedef enum { OPERAND_0, RESULT, LAST_OPERAND, INDICES, SPATIAL } axes_owner;

typedef struct {
    char attribute[40], member[40]; /* member "": the attribute itself */
    bool is_optional;
    constraint_kind kind;
    int64_t least; /* of INTEGERS */
    axes_owner axes_of;
    char words[80]; /* "A|B" */
} constraint;

static const struct {
    const char *word;
    constraint_kind kind;
    int64_t least;
} kinds[] = {
    {"axis", AXIS, 0},
    {"signed_axis", SIGNED_AXIS, 0},
    {"axis_or_end", AXIS_OR_END, 0},
    {"axes", AXES, 0},
    {"sorted_axes", SORTED_AXES, 0},
    {"permutation", PERMUTATION, 0},
    {"integers", INTEGERS, INT64_MIN},
    {"integers>=0", INTEGERS, 0},
    {"integers>=1", INTEGERS, 1},
};

static const struct {
    const char *word;
    axes_owner owner;
} owners[] = {{"result", RESULT}, {"last", LAST_OPERAND}, {"indices", INDICES}, {"spatial", SPATIAL}};

/* Copies the characters of `text` up to one of `ends`; returns where they end, NULL when there is no room or none. */
static const char *copy_until(const char *text, const char *ends, char *out, size_t size)
{
    size_t n = strcspn(text, ends);
    if (n == 0 || n >= size)
        return NULL;
    memcpy(out, text, n);
    out[n] = 0;
    return text + n;
}

static bool set_kind(constraint *c, const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].word, word) == 0) {
            c->kind = kinds[i].kind;
            c->least = kinds[i].least;
            return true;
        }
    c->kind = WORD;
    snprintf(c->words, sizeof c->words, "%s", word);
    return strchr(word, '|') != NULL;
}

static bool set_owner(constraint *c, const char *word)
{
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
        if (strcmp(owners[i].word, word) == 0) {
            c->axes_of = owners[i].owner;
            return true;
        }
    return false;
}

/* Reads one constraint, "name.member? kind@owner"; returns where it ends, NULL when it is malformed. */
static const char *read_constraint(const char *p, constraint *c)
{
    char word[80];
    *c = (constraint){.axes_of = OPERAND_0};
    p = copy_until(p, ".? ", c->attribute, sizeof c->attribute);
    if (p && *p == '.')
        p = copy_until(p + 1, "? ", c->member, sizeof c->member);
    if (p && *p == '?') {
        c->is_optional = true;
        p++;
    }
    p = p && *p == ' ' ? copy_until(p + 1, "@,", word, sizeof word) : NULL;
    if (!p || !set_kind(c, word))
        return NULL;
    if (*p == '@') {
        p = copy_until(p + 1, ",", word, sizeof word);
        if (!p || !set_owner(c, word))
            return NULL;
    }
    return p + strspn(p, ", ");
}

bool flxi_hlo_are_constraints(const char *attributes)
{
    constraint c;
    while (attributes && *attributes)
        attributes = read_constraint(attributes, &c);
    return attributes != NULL;
}

/* ---- Checks ---- */

static const char *label_of(const constraint *c)
{
    return c->member[0] ? c->member : c->attribute;
}

static const hlo_attr *given(const hlo_site *s, const constraint *c)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, c->attribute);
    if (a && c->member[0])
        return a->kind == HLO_A_DICT ? flxi_hlo_entry(a, c->member) : NULL;
    return a;
}

/* Number of axes of the value that the constraint is about; −1: not known. */
static int rank_of(const hlo_site *s, const constraint *c)
{
    if (c->axes_of == RESULT) {
        const hlo_type *t = s->op->num_results ? flxi_hlo_result_type(s, 0) : NULL;
        return t && t->kind == HLO_TENSOR && !t->is_unranked ? t->rank : -1;
    }
    if (s->nx == 0 || s->nx != s->op->num_operands)
        return -1;
    size_t operand = c->axes_of == LAST_OPERAND ? s->nx - 1 : c->axes_of == INDICES ? s->nx / 2 : 0;
    int rank = flxi_hlo_typeof(s, s->x[operand])->rank;
    return c->axes_of == SPATIAL ? (rank < 2 ? 0 : rank - 2) : rank;
}

static bool check_word(hlo_site *s, const constraint *c)
{
    const char *word = flxi_hlo_word(s, c->attribute, "");
    size_t length = strlen(word);
    if (flxi_hlo_failed(s))
        return false;
    for (const char *p = c->words; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (length && strncmp(p, word, length) == 0 && (!p[length] || p[length] == '|'))
            return true;
    }
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s must be one of %s, but is %.36s", c->attribute, c->words, word);
    return false;
}

static bool refuse_axis(hlo_site *s, const constraint *c, int64_t axis, int rank)
{
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %lld, which is out of range for %d axes", label_of(c),
                  (long long)axis, rank);
    return false;
}

static bool check_distinct_axes(hlo_site *s, const constraint *c, flx_ints v, int rank)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (v.v[i] < 0 || v.v[i] >= rank)
            return refuse_axis(s, c, v.v[i], rank);
        if (seen >> v.v[i] & 1) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %lld twice", label_of(c), (long long)v.v[i]);
            return false;
        }
        if (c->kind == SORTED_AXES && i > 0 && v.v[i] < v.v[i - 1]) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s must be sorted", label_of(c));
            return false;
        }
        seen |= UINT32_C(1) << v.v[i];
    }
    return true;
}

static bool check_numbers(hlo_site *s, const constraint *c, flx_ints v)
{
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] < c->least) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %lld, but must be at least %lld", label_of(c),
                          (long long)v.v[i], (long long)c->least);
            return false;
        }
    return true;
}

static bool check_count(hlo_site *s, const constraint *c, flx_ints v, int rank)
{
    if (v.n == (size_t)rank)
        return true;
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %zu entries, but needs %d: one per axis", label_of(c), v.n, rank);
    return false;
}

static bool check_list(hlo_site *s, const constraint *c, const hlo_attr *a)
{
    flx_ints v;
    int rank = rank_of(s, c);
    if (!flxi_hlo_ints_in(s, a, &v)) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s must be a list of integers", label_of(c));
        return false;
    }
    if (rank < 0)
        return true;
    switch (c->kind) {
    case AXIS:
    case AXIS_OR_END:
    case SIGNED_AXIS:
        if (v.n == 1 && v.v[0] < rank + (c->kind == AXIS_OR_END) && v.v[0] >= (c->kind == SIGNED_AXIS ? -rank : 0))
            return true;
        return refuse_axis(s, c, v.n ? v.v[0] : 0, rank);
    case AXES:
    case SORTED_AXES: return check_distinct_axes(s, c, v, rank);
    case PERMUTATION: return check_count(s, c, v, rank) && check_distinct_axes(s, c, v, rank);
    case INTEGERS: return check_count(s, c, v, rank) && check_numbers(s, c, v);
    case WORD: break;
    }
    return true;
}

bool flxi_hlo_check_attributes(hlo_site *s)
{
    constraint c;
    const char *p = s->row->attributes;
    while (p && *p && (p = read_constraint(p, &c))) {
        const hlo_attr *a = given(s, &c);
        if (!a && !c.is_optional) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %s is missing", label_of(&c));
            return false;
        }
        if (a && !(c.kind == WORD ? check_word(s, &c) : check_list(s, &c, a)))
            return false;
    }
    return true;
}
