/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_signatures.c: the element types and shapes that an operation takes and returns, against the signature in its row
   (operations.def, which describes the notation).

   Our own ops allow more than the language: they broadcast operands, and formats narrower than any dtype look like the
   dtype that carries them. So the declared types are compared with the signature before a rule sees them. */
#include "stablehlo/import/import_scope.h"

#include <stdio.h>

/* ---- Patterns ---- */

typedef struct {
    int rank;  /* −1: any */
    int shape; /* number of its group, −1: none */
    char element;
    const char *classes;
    size_t num_classes; /* 0: any */
    bool repeats, optional;
} pattern;

static bool is_class(char c)
{
    return c >= 'a' && c <= 'z';
}

/* Reads one pattern; NULL at the end of a side. */
static const char *read_pattern(const char *p, pattern *out)
{
    while (*p == ' ')
        p++;
    if (!*p || *p == '-')
        return NULL;
    *out = (pattern){.rank = -1, .shape = -1};
    if (*p >= '0' && *p <= '9')
        out->rank = *p++ - '0';
    else if (*p == 'A' || *p == 'B')
        out->shape = *p++ - 'A';
    out->element = is_class(*p) || !*p ? '.' : *p++;
    if (*p == ':')
        p++;
    out->classes = p;
    while (is_class(*p))
        p++;
    out->num_classes = (size_t)(p - out->classes);
    out->repeats = *p == '*';
    out->optional = *p == '?' || *p == '*';
    return p + (*p == '*' || *p == '?');
}

int flxi_hlo_signature_operands(const char *signature)
{
    pattern p;
    int n = 0;
    while ((signature = read_pattern(signature, &p))) {
        if (p.optional)
            return HLO_MANY;
        n++;
    }
    return n;
}

static bool is_pattern(const pattern *p)
{
    bool ok = strchr("EFGPZT._", p->element) != NULL;
    for (size_t i = 0; i < p->num_classes; i++)
        ok &= strchr("biufcqxj", p->classes[i]) != NULL;
    return ok;
}

bool flxi_hlo_is_signature(const char *signature)
{
    int arrows = 0;
    for (;;) {
        signature += strspn(signature, " ");
        if (!*signature)
            return arrows == 1;
        if (strncmp(signature, "->", 2) == 0) {
            arrows++;
            signature += 2;
            continue;
        }
        pattern p;
        signature = read_pattern(signature, &p);
        if (!signature || !is_pattern(&p) || (*signature && *signature != ' '))
            return false;
    }
}

/* ---- Elements ---- */

char flxi_hlo_element_class(const hlo_type *t)
{
    hlo_element e = t->element;
    if (t->quant)
        return 'q';
    if (e == HLO_I1)
        return 'b';
    if (e == HLO_INDEX)
        return 'x';
    if (e < HLO_UI2)
        return 'i';
    if (e < HLO_INDEX)
        return 'u';
    return e == HLO_C64 || e == HLO_C128 ? 'c' : 'f';
}

static bool in_classes(const hlo_type *t, const pattern *p)
{
    char c = flxi_hlo_element_class(t);
    for (size_t i = 0; i < p->num_classes; i++)
        if (p->classes[i] == c || (p->classes[i] == 'j' && !t->quant && t->element == HLO_I32))
            return true;
    return p->num_classes == 0;
}

bool flxi_hlo_same_element(const hlo_type *a, const hlo_type *b)
{
    if (!a->quant || !b->quant)
        return !a->quant == !b->quant && a->element == b->element;
    return a->quant->storage == b->quant->storage && a->quant->expressed == b->quant->expressed;
}

static hlo_element part_of(hlo_element e)
{
    return e == HLO_C64 ? HLO_F32 : e == HLO_C128 ? HLO_F64 : e;
}

static bool is_complex_of(const hlo_type *t, hlo_element part)
{
    return !t->quant && flxi_hlo_element_class(t) == 'c' && part_of(t->element) == part;
}

/* "integers or floats" for "if". */
static void describe_classes(const pattern *p, char *text, size_t size)
{
    static const struct {
        char letter;
        const char *words;
    } names[] = {{'b', "i1"},
                 {'i', "signed integers"},
                 {'u', "unsigned integers"},
                 {'f', "floats"},
                 {'c', "complex numbers"},
                 {'q', "quantised numbers"},
                 {'x', "indices"},
                 {'j', "i32"}};
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < p->num_classes; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (names[k].letter == p->classes[i] && at < size) {
                const char *link = i == 0 ? "" : i + 1 == p->num_classes ? " or " : ", ";
                at += (size_t)snprintf(text + at, size - at, "%s%s", link, names[k].words);
            }
}

/* ---- Matching ---- */

typedef struct {
    hlo_site *s;
    const hlo_type *element[3];
    char element_of[3][24]; /* whose it is, for messages */
    flx_type shape[2];
    bool has_shape[2];
    char shape_of[2][24];
} matching;

static bool refuse_elements(matching *m, const char *who, const hlo_type *t, const char *wanted)
{
    char text[120];
    flxi_hlo_type_print(t, text, sizeof text);
    flxi_hlo_fail(m->s, FLX_E_DTYPE, NULL, "%s is %s, but must hold %s", who, text, wanted);
    return false;
}

/* An operation that moves quantised elements keeps their scales, unless its row says otherwise. */
static bool keeps_scales(const hlo_site *s)
{
    return s->row->moves && !s->row->rescales;
}

static bool match_group(matching *m, const char *who, const hlo_type *t, size_t group)
{
    if (!m->element[group]) {
        m->element[group] = t;
        snprintf(m->element_of[group], sizeof m->element_of[group], "%s", who);
        return true;
    }
    const hlo_type *first = m->element[group];
    if (flxi_hlo_same_element(t, first) && (!keeps_scales(m->s) || flxi_hlo_same_quant(t->quant, first->quant)))
        return true;
    char text[120];
    char other[120];
    flxi_hlo_type_print(t, text, sizeof text);
    flxi_hlo_type_print(first, other, sizeof other);
    flxi_hlo_fail(m->s, FLX_E_DTYPE, NULL, "the element types of %s, %.60s, and %s, %.60s, differ",
                  m->element_of[group], other, who, text);
    return false;
}

static bool match_element(matching *m, const char *who, const hlo_type *t, const pattern *p)
{
    char wanted[120];
    if (!in_classes(t, p)) {
        describe_classes(p, wanted, sizeof wanted);
        return refuse_elements(m, who, t, wanted);
    }
    const hlo_type *e = m->element[0];
    if (p->element == 'P' && !(e->quant ? flxi_hlo_same_element(t, e) : !t->quant && t->element == part_of(e->element)))
        return refuse_elements(m, who, t, flxi_hlo_element(part_of(e->element))->text);
    if (p->element == 'Z' && !is_complex_of(t, e->element))
        return refuse_elements(m, who, t, "complex numbers with these parts");
    return p->element < 'E' || p->element > 'G' || match_group(m, who, t, (size_t)(p->element - 'E'));
}

static bool refuse_shape(matching *m, const char *who, const hlo_type *t, const char *of)
{
    char text[120];
    flxi_hlo_type_print(t, text, sizeof text);
    flxi_hlo_fail(m->s, FLX_E_SHAPE, "StableHLO does not broadcast implicitly: use broadcast_in_dim",
                  "%s is %s, but must have the shape of %s", who, text, of);
    return false;
}

/* `have` is what is known of the value: the type in the graph, for a result the declared one. */
static bool match_shape(matching *m, const char *who, const hlo_type *t, const flx_type *have, const pattern *p)
{
    int group = p->shape;
    if (p->rank >= 0 && !t->is_unranked && t->rank != p->rank) {
        char text[120];
        flxi_hlo_type_print(t, text, sizeof text);
        flxi_hlo_fail(m->s, FLX_E_SHAPE, NULL, "%s is %s, but must have %d axes", who, text, p->rank);
        return false;
    }
    if (group < 0 || (have == NULL && t->is_unranked))
        return true;
    if (have && !m->has_shape[group]) {
        m->has_shape[group] = true;
        m->shape[group] = *have;
        snprintf(m->shape_of[group], sizeof m->shape_of[group], "%s", who);
        return true;
    }
    if (!m->has_shape[group])
        return true;
    const flx_type *first = &m->shape[group];
    int rank = have ? have->rank : t->rank;
    bool fits = rank == first->rank;
    for (int i = 0; i < rank && fits; i++) {
        flx_dim d = have ? have->dims[i] : t->dims[i];
        fits = (!have && d == HLO_DYNAMIC) || flxi_hlo_equal_extents(m->s, first->dims[i], d);
    }
    return fits || flxi_hlo_failed(m->s) || refuse_shape(m, who, t, m->shape_of[group]);
}

typedef struct {
    const char *noun;
    const hlo_value *const *values;
    const flx_val *known; /* NULL: results */
    size_t n;
} side;

static bool refuse_count(matching *m, const side *d)
{
    flxi_hlo_fail(m->s, FLX_E_ARITY, NULL, "it has the wrong number of %ss: %zu", d->noun, d->n);
    return false;
}

/* Bare elements and tensors of unknown rank are known to other dialects only. */
static bool is_value(const hlo_site *s, const hlo_type *t)
{
    bool is_own = strncmp(s->op->name, "stablehlo.", 10) == 0 || strncmp(s->op->name, "chlo.", 5) == 0;
    return is_own ? t->kind == HLO_TENSOR && !t->is_unranked : t->kind == HLO_TENSOR || t->kind == HLO_SCALAR;
}

/* Matches all values of one side; returns where the patterns end, NULL after an error. */
static const char *match_side(matching *m, const char *p, const side *d)
{
    pattern now = {0};
    bool have = false;
    for (size_t i = 0; i < d->n; i++) {
        const hlo_type *t = d->values[i]->type;
        char who[24];
        snprintf(who, sizeof who, "%s %zu", d->noun, i);
        if (!have || !now.repeats) {
            p = read_pattern(p, &now);
            have = true;
        }
        if (!p) {
            refuse_count(m, d);
            return NULL;
        }
        if (now.element == '_')
            continue;
        if (t->kind != HLO_TENSOR && t->kind != HLO_SCALAR && now.element == '.' && now.num_classes == 0)
            continue;
        if (!is_value(m->s, t)) {
            refuse_elements(m, who, t, "the elements of a tensor");
            return NULL;
        }
        const flx_type *have_type = d->known ? flxi_hlo_typeof(m->s, d->known[i]) : NULL;
        if (!match_element(m, who, t, &now) || !match_shape(m, who, t, have_type, &now))
            return NULL;
    }
    const char *rest = p;
    while ((rest = read_pattern(rest, &now))) {
        if (!now.optional) {
            refuse_count(m, d);
            return NULL;
        }
        p = rest;
    }
    return p;
}

bool flxi_hlo_check_signature(hlo_site *s)
{
    const char *p = s->row->signature;
    matching m = {.s = s};
    bool is_whole = s->nx == s->op->num_operands; /* otherwise some are tuples, which the patterns refuse */
    side operands = {"operand", s->op->operands, is_whole ? s->x : NULL, s->op->num_operands};
    side results = {"result", s->op->results, NULL, s->op->num_results};
    p = match_side(&m, p, &operands);
    if (!p)
        return false;
    while (*p == ' ' || *p == '-' || *p == '>')
        p++;
    return match_side(&m, p, &results) != NULL;
}
