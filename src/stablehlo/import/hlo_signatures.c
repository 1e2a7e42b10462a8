/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_signatures.c: which element types and shapes an operation takes and gives, one row per operation.

   Our own ops are more generous than the language: they stretch operands, and formats narrower than any dtype look
   like the dtype that carries them. So what the text declares is compared with a signature before a rule sees it.

   A signature is a pattern for each operand, "->", a pattern for each result. A pattern is
     a shape     nothing: any; a digit: the rank; A, B: one shape for all values with that letter
     elements    E, F, G: one element type for all values with that letter; P: the real type of E's parts; Z: the
                 complex type with parts of E; lower-case letters: any of these classes; T: any tensor; .: anything,
                 tuples and tokens too
     : classes   which classes E, F or G may be
     *           the pattern repeats for all values that are left; ?: the value may be absent
   Classes: b i1, i signed, u unsigned, f float, c complex, q quantised, x index, j exactly i32. */
#include "stablehlo/import/import_scope.h"

#include <stdio.h>
#include <stdlib.h>

const hlo_signature flxi_hlo_signatures[] = {
    /* sorted by name */
    {"chlo.acos", "E:fc -> E"},
    {"chlo.acosh", "E:fc -> E"},
    {"chlo.asin", "E:fc -> E"},
    {"chlo.asin_acos_kernel", "E:fc -> E"},
    {"chlo.asinh", "E:fc -> E"},
    {"chlo.atan", "E:fc -> E"},
    {"chlo.atanh", "E:fc -> E"},
    {"chlo.bessel_i1e", "E:f -> E"},
    {"chlo.broadcast_add", "E:biufcq E -> E"},
    {"chlo.broadcast_and", "E:biu E -> E"},
    {"chlo.broadcast_atan2", "E:fcq E -> E"},
    {"chlo.broadcast_compare", "E E -> b"},
    {"chlo.broadcast_complex", "E:f E -> Z"},
    {"chlo.broadcast_divide", "E:iufcq E -> E"},
    {"chlo.broadcast_maximum", "E:biufcq E -> E"},
    {"chlo.broadcast_minimum", "E:biufcq E -> E"},
    {"chlo.broadcast_multiply", "E:biufcq E -> E"},
    {"chlo.broadcast_next_after", "E:f E -> E"},
    {"chlo.broadcast_or", "E:biu E -> E"},
    {"chlo.broadcast_polygamma", "E:f E -> E"},
    {"chlo.broadcast_power", "E:iufcq E -> E"},
    {"chlo.broadcast_remainder", "E:iufcq E -> E"},
    {"chlo.broadcast_select", "b E E -> E"},
    {"chlo.broadcast_shift_left", "E:iu E -> E"},
    {"chlo.broadcast_shift_right_arithmetic", "E:iu E -> E"},
    {"chlo.broadcast_shift_right_logical", "E:iu E -> E"},
    {"chlo.broadcast_subtract", "E:iufcq E -> E"},
    {"chlo.broadcast_xor", "E:biu E -> E"},
    {"chlo.broadcast_zeta", "E:f E -> E"},
    {"chlo.conj", "E:ifc -> E"},
    {"chlo.cosh", "E:fc -> E"},
    {"chlo.digamma", "E:f -> E"},
    {"chlo.dynamic_reshape", "E 1iux -> E"},
    {"chlo.erf", "E:f -> E"},
    {"chlo.erf_inv", "E:f -> E"},
    {"chlo.erfc", "E:f -> E"},
    {"chlo.is_inf", "f -> b"},
    {"chlo.is_neg_inf", "f -> b"},
    {"chlo.is_pos_inf", "f -> b"},
    {"chlo.lgamma", "E:f -> E"},
    {"chlo.mulhi", "E:iu E -> E"},
    {"chlo.next_after", "E:f E -> E"},
    {"chlo.polygamma", "E:f E -> E"},
    {"chlo.sinh", "E:fc -> E"},
    {"chlo.square", "E:iufc -> E"},
    {"chlo.tan", "E:fc -> E"},
    {"chlo.top_k", "E:biuf -> E j"},
    {"chlo.zeta", "E:f E -> E"},
    {"stablehlo.abs", "E:ifcq -> P"},
    {"stablehlo.add", "E:biufcq E -> E"},
    {"stablehlo.and", "E:biu E -> E"},
    {"stablehlo.atan2", "E:fcq E -> E"},
    {"stablehlo.batch_norm_grad", "AE:fq 1E 1E 1E AE -> AE 1E 1E"},
    {"stablehlo.batch_norm_inference", "AE:fq 1E 1E 1E 1E -> AE"},
    {"stablehlo.batch_norm_training", "AE:fq 1E 1E -> AE 1E 1E"},
    {"stablehlo.bitcast_convert", "T -> T"},
    {"stablehlo.broadcast", "E -> E"},
    {"stablehlo.broadcast_in_dim", "E -> E"},
    {"stablehlo.case", "0j -> .*"},
    {"stablehlo.cbrt", "E:fcq -> E"},
    {"stablehlo.ceil", "E:fq -> E"},
    {"stablehlo.cholesky", "AE:fcq -> AE"},
    {"stablehlo.clamp", "E:biufcq AE E -> AE"},
    {"stablehlo.compare", "E E -> b"},
    {"stablehlo.complex", "E:f E -> Z"},
    {"stablehlo.concatenate", "E E* -> E"},
    {"stablehlo.convert", "biufc -> biufc"},
    {"stablehlo.convolution", "T T -> T"},
    {"stablehlo.cosine", "E:fcq -> E"},
    {"stablehlo.count_leading_zeros", "E:iu -> E"},
    {"stablehlo.divide", "E:iufcq E -> E"},
    {"stablehlo.dot", "T T -> T"},
    {"stablehlo.dot_general", "T T -> T"},
    {"stablehlo.dynamic_broadcast_in_dim", "E 1iux -> E"},
    {"stablehlo.dynamic_conv", "T T iux -> T"},
    {"stablehlo.dynamic_gather", "E iux 1iux -> E"},
    {"stablehlo.dynamic_iota", "1iux -> iufcq"},
    {"stablehlo.dynamic_pad", "E 0E 1iux 1iux 1iux -> E"},
    {"stablehlo.dynamic_reshape", "E 1iux -> E"},
    {"stablehlo.dynamic_slice", "E 0F:iu? 0F* -> E"},
    {"stablehlo.dynamic_update_slice", "E E 0F:iu? 0F* -> E"},
    {"stablehlo.exponential", "E:fcq -> E"},
    {"stablehlo.exponential_minus_one", "E:fcq -> E"},
    {"stablehlo.fft", "fc -> fc"},
    {"stablehlo.floor", "E:fq -> E"},
    {"stablehlo.gather", "E iux -> E"},
    {"stablehlo.get_dimension_size", "T -> 0j"},
    {"stablehlo.if", "0b -> .*"},
    {"stablehlo.imag", "E:fc -> P"},
    {"stablehlo.iota", "-> iufcq"},
    {"stablehlo.is_finite", "fq -> b"},
    {"stablehlo.log", "E:fcq -> E"},
    {"stablehlo.log_plus_one", "E:fcq -> E"},
    {"stablehlo.logistic", "E:fcq -> E"},
    {"stablehlo.map", "AT AT* -> AT"},
    {"stablehlo.maximum", "E:biufcq E -> E"},
    {"stablehlo.minimum", "E:biufcq E -> E"},
    {"stablehlo.multiply", "E:biufcq E -> E"},
    {"stablehlo.negate", "E:iufcq -> E"},
    {"stablehlo.not", "E:biu -> E"},
    {"stablehlo.or", "E:biu E -> E"},
    {"stablehlo.pad", "E 0E -> E"},
    {"stablehlo.popcnt", "E:iu -> E"},
    {"stablehlo.power", "E:iufcq E -> E"},
    {"stablehlo.real", "E:fc -> P"},
    {"stablehlo.real_dynamic_slice", "E 1F:iux 1F 1F -> E"},
    {"stablehlo.reduce", "T* -> T*"},
    {"stablehlo.reduce_precision", "E:fq -> E"},
    {"stablehlo.reduce_window", "T* -> T*"},
    {"stablehlo.remainder", "E:iufcq E -> E"},
    {"stablehlo.reshape", "E -> E"},
    {"stablehlo.reverse", "E -> E"},
    {"stablehlo.rng", "0E:biuf 0E 1iux -> E"},
    {"stablehlo.rng_bit_generator", "1E:u -> 1E biuf"},
    {"stablehlo.round_nearest_afz", "E:fq -> E"},
    {"stablehlo.round_nearest_even", "E:fq -> E"},
    {"stablehlo.rsqrt", "E:fcq -> E"},
    {"stablehlo.scatter", "T* -> T*"},
    {"stablehlo.select", "b AE AE -> AE"},
    {"stablehlo.select_and_scatter", "AE E 0E -> AE"},
    {"stablehlo.set_dimension_size", "E 0j -> E"},
    {"stablehlo.shift_left", "E:iu E -> E"},
    {"stablehlo.shift_right_arithmetic", "E:iu E -> E"},
    {"stablehlo.shift_right_logical", "E:iu E -> E"},
    {"stablehlo.sign", "E:ifcq -> E"},
    {"stablehlo.sine", "E:fcq -> E"},
    {"stablehlo.slice", "E -> E"},
    {"stablehlo.sort", "T* -> T*"},
    {"stablehlo.sqrt", "E:fcq -> E"},
    {"stablehlo.subtract", "E:iufcq E -> E"},
    {"stablehlo.tan", "E:fcq -> E"},
    {"stablehlo.tanh", "E:fcq -> E"},
    {"stablehlo.torch_index_select", "E iux -> E"},
    {"stablehlo.transpose", "E -> E"},
    {"stablehlo.triangular_solve", "E:fcq AE -> AE"},
    {"stablehlo.uniform_dequantize", "Aq -> Af"},
    {"stablehlo.uniform_quantize", "Afq -> Aq"},
    {"stablehlo.xor", "E:biu E -> E"},
};
const size_t flxi_hlo_num_signatures = sizeof flxi_hlo_signatures / sizeof *flxi_hlo_signatures;

static int by_name(const void *key, const void *row)
{
    return strcmp(key, ((const hlo_signature *)row)->name);
}

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
    out->element = is_class(*p) ? '.' : *p++;
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
    bool same_shape; /* all values are of shape group A */
} matching;

static bool refuse_elements(matching *m, const char *who, const hlo_type *t, const char *wanted)
{
    char text[120];
    flxi_hlo_type_print(t, text, sizeof text);
    flxi_hlo_fail(m->s, FLX_E_DTYPE, NULL, "%s is %s, but must hold %s", who, text, wanted);
    return false;
}

/* What moves quantised elements leaves their scales; stretching and choosing may give them others. */
static bool keeps_scales(const hlo_site *s)
{
    static const char *const free_ones[] = {"stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim",
                                            "stablehlo.select", "stablehlo.convert"};
    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++)
        if (strcmp(s->op->name, free_ones[i]) == 0)
            return false;
    return (s->rule->flags & HLO_MOVES) != 0;
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
        return refuse_elements(m, who, t, "complex numbers with such parts");
    return p->element < 'E' || p->element > 'G' || match_group(m, who, t, (size_t)(p->element - 'E'));
}

static bool refuse_shape(matching *m, const char *who, const hlo_type *t, const char *of)
{
    char text[120];
    flxi_hlo_type_print(t, text, sizeof text);
    flxi_hlo_fail(m->s, FLX_E_SHAPE, "the language stretches nothing by itself: use broadcast_in_dim",
                  "%s is %s, but must have the shape of %s", who, text, of);
    return false;
}

/* `have` is what is known of the value: the type in the graph, for a result the declared one. */
static bool match_shape(matching *m, const char *who, const hlo_type *t, const flx_type *have, const pattern *p)
{
    int group = m->same_shape ? 0 : p->shape;
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

/* That of a rule without a row follows from its flags. */
static const char *signature_of(const hlo_site *s)
{
    const hlo_signature *row =
        bsearch(s->op->name, flxi_hlo_signatures, flxi_hlo_num_signatures, sizeof *flxi_hlo_signatures, by_name);
    if (row)
        return row->signature;
    if (s->rule->flags & HLO_TAKES_ANY)
        return NULL;
    return s->rule->flags & HLO_ELEMENTS ? "E* -> T T*" : "T* -> T T*";
}

bool flxi_hlo_check_signature(hlo_site *s)
{
    const char *p = signature_of(s);
    if (!p)
        return true;
    matching m = {.s = s, .same_shape = (s->rule->flags & HLO_SAME_TYPE) != 0};
    bool whole = s->nx == s->op->num_operands; /* otherwise some are tuples, which the patterns refuse */
    side operands = {"operand", s->op->operands, whole ? s->x : NULL, s->op->num_operands};
    side results = {"result", s->op->results, NULL, s->op->num_results};
    p = match_side(&m, p, &operands);
    if (!p)
        return false;
    while (*p == ' ' || *p == '-' || *p == '>')
        p++;
    return match_side(&m, p, &results) != NULL;
}
