/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_parse_decl.c: what precedes the statements of a kernel: its header, metadata and buffers. */
#include "kernel/text/kernel_reader.h"

/* ---- The header ---- */

static flx_code parse_size(flxi_kparser *p, uint32_t size[3])
{
    FLXI_TRY(flxi_kneed_mark(p, '['));
    for (int a = 0; a < 3; a++) {
        uint64_t v;
        FLXI_TRY(flxi_kread_u64(p, "a workgroup size", UINT32_MAX, &v));
        size[a] = (uint32_t)v;
        if (!flxi_ktake_mark(p, ',') || flxi_kis_mark(p, ']'))
            break;
    }
    return flxi_kneed_mark(p, ']');
}

static flx_code parse_flags(flxi_kparser *p, uint32_t *flags)
{
    FLXI_TRY(flxi_kneed_mark(p, '['));
    while (!flxi_kis_mark(p, ']')) {
        uint32_t i = flxi_kread_word(p, flxi_kernel_flag_words, FLXI_KERNEL_FLAG_WORDS);
        if (i == FLXI_KERNEL_FLAG_WORDS)
            return flxi_kexpected(p, "a flag: flush, contract, reassociate or reciprocal");
        *flags |= 1u << i;
        if (!flxi_ktake_mark(p, ','))
            break;
    }
    return flxi_kneed_mark(p, ']');
}

static flx_code parse_options(flxi_kparser *p, uint32_t size[3], uint32_t *flags)
{
    static const char *const words[] = {"workgroup", "flags"};
    while (!flxi_kis_mark(p, ')')) {
        uint32_t i = flxi_kread_word(p, words, 2);
        if (i == 2)
            return flxi_kexpected(p, "workgroup = [x, y, z] or flags = [...]");
        FLXI_TRY(flxi_kneed_mark(p, '='));
        FLXI_TRY(i == 0 ? parse_size(p, size) : parse_flags(p, flags));
        if (!flxi_ktake_mark(p, ','))
            break;
    }
    return flxi_kneed_mark(p, ')');
}

/* The name is needed to create the builder, which stores names; so this one is unescaped here. */
static flx_code make_builder(flxi_kparser *p)
{
    static const uint32_t one[3] = {1, 1, 1};
    flxi_ktoken t = p->x.token;
    flx_error err = {0};
    const char *bad = NULL;
    size_t n = t.n;
    if (!flxi_kat_name(p) || (t.kind == KT_NAME && flxi_kname_is_reserved(t.s, t.n)))
        return flxi_kexpected(p, "the kernel's name");
    char *name = flxi_alloc(p->mem, t.n + 1, 1);
    if (!name)
        return flxi_kfail_memory(p);
    if (t.kind == KT_STRING)
        n = flxi_kstring_read(&t, name, &bad);
    else
        memcpy(name, t.s, n);
    if (!bad) {
        name[n] = 0;
        p->b = flxi_kb_new(p->ctx, name, one, &err);
    }
    flxi_free(p->mem, name, t.n + 1, 1);
    if (bad)
        return flxi_kfail_at(p, bad, "the escapes are \\\" \\\\ \\n \\t \\r \\xHH", "unknown escape in a string");
    if (!p->b)
        return flxi_kfail_memory(p);
    flxi_knext(p);
    return FLX_OK;
}

flx_code flxi_kparse_header(flxi_kparser *p)
{
    uint32_t flags = 0;
    if (!flxi_ktake_word(p, "kernel"))
        return flxi_kexpected(p, "kernel");
    FLXI_TRY(make_builder(p));
    if (flxi_ktake_mark(p, '('))
        FLXI_TRY(parse_options(p, p->b->k->size, &flags));
    flxi_kb_set_flags(p->b, flags);
    return flxi_kneed_mark(p, '{');
}

flx_code flxi_kparse_meta(flxi_kparser *p)
{
    const char *key, *value;
    flxi_knext(p);
    FLXI_TRY(flxi_kread_string(p, "a key, as a string", &key));
    FLXI_TRY(flxi_kneed_mark(p, '='));
    FLXI_TRY(flxi_kread_string(p, "a value, as a string", &value));
    flxi_kb_meta(p->b, key, value);
    FLXI_TRY(flxi_kcheck_builder(p, p->x.token.s));
    return flxi_kneed_mark(p, ';');
}

/* ---- Conditions on the count ---- */

typedef FLXI_VEC(flx_kernel_predicate) predicate_list;

static flx_code add_predicate(flxi_kparser *p, predicate_list *list, size_t at, flx_kernel_predicate test)
{
    if (list->n >= FLXI_KERNEL_MAX_PREDICATES)
        return flxi_kfail_rule(p, p->x.token.s, "K72", "split the condition",
                               "the number of parts of a condition exceeds the limit of %d",
                               FLXI_KERNEL_MAX_PREDICATES);
    if (!flxi_push(p->mem, list, test))
        return flxi_kfail_memory(p);
    memmove(&list->at[at + 1], &list->at[at], (list->n - 1 - at) * sizeof *list->at);
    list->at[at] = test;
    return FLX_OK;
}

static flx_code need_count(flxi_kparser *p)
{
    return flxi_ktake_word(p, "count") ? FLX_OK : flxi_kexpected(p, "count");
}

static flx_code need_mark2(flxi_kparser *p, char a, char b)
{
    char what[8] = {'\'', a, b, '\'', 0};
    if (p->x.token.mark != FLXI_MARK(a, b))
        return flxi_kexpected(p, what);
    flxi_knext(p);
    return FLX_OK;
}

static flx_code read_bound(flxi_kparser *p, uint64_t *out)
{
    return flxi_kread_u64(p, "a number", UINT64_MAX, out);
}

/* lo <= a * count <= hi */
static flx_code parse_affine(flxi_kparser *p, flx_kernel_predicate *test)
{
    test->test = FLX_KERNEL_COUNT_AFFINE;
    FLXI_TRY(read_bound(p, &test->b));
    FLXI_TRY(need_mark2(p, '<', '='));
    FLXI_TRY(read_bound(p, &test->a));
    FLXI_TRY(flxi_kneed_mark(p, '*'));
    FLXI_TRY(need_count(p));
    FLXI_TRY(need_mark2(p, '<', '='));
    return read_bound(p, &test->c);
}

/* count >= n, count <= n, count == n, count % n == 0, count % m == r; `mod` for % keeps r = 0 a remainder. */
static flx_code parse_test(flxi_kparser *p, flx_kernel_predicate *test)
{
    if (p->x.token.kind == KT_NUMBER)
        return parse_affine(p, test);
    FLXI_TRY(need_count(p));
    bool word = flxi_ktake_word(p, "mod");
    if (word || flxi_ktake_mark(p, '%')) {
        FLXI_TRY(read_bound(p, &test->a));
        FLXI_TRY(need_mark2(p, '=', '='));
        FLXI_TRY(read_bound(p, &test->b));
        test->test = word || test->b ? FLX_KERNEL_COUNT_MOD : FLX_KERNEL_COUNT_MULTIPLE;
        return FLX_OK;
    }
    switch (p->x.token.mark) {
    case FLXI_MARK('>', '='): test->test = FLX_KERNEL_COUNT_GE; break;
    case FLXI_MARK('<', '='): test->test = FLX_KERNEL_COUNT_LE; break;
    case FLXI_MARK('=', '='): test->test = FLX_KERNEL_COUNT_EQ; break;
    default: return flxi_kexpected(p, "one of >= <= == %");
    }
    flxi_knext(p);
    return read_bound(p, &test->a);
}

static flx_code parse_condition(flxi_kparser *p, predicate_list *list, int depth);

static flx_code parse_factor(flxi_kparser *p, predicate_list *list, int depth)
{
    flx_kernel_predicate test = {0};
    if (depth > FLXI_KERNEL_MAX_PREDICATES)
        return flxi_kfail_rule(p, p->x.token.s, "K70", "split the condition",
                               "the nesting of a condition exceeds the limit of %d", FLXI_KERNEL_MAX_PREDICATES);
    if (flxi_ktake_mark(p, '!')) {
        FLXI_TRY(add_predicate(p, list, list->n, (flx_kernel_predicate){.test = FLX_KERNEL_COUNT_NOT}));
        if (!flxi_kis_mark(p, '(') && !flxi_kis_mark(p, '!'))
            return flxi_kexpected(p, "'('");
        return parse_factor(p, list, depth + 1);
    }
    if (flxi_ktake_mark(p, '(')) {
        FLXI_TRY(parse_condition(p, list, depth + 1));
        return flxi_kneed_mark(p, ')');
    }
    FLXI_TRY(parse_test(p, &test));
    return add_predicate(p, list, list->n, test);
}

static flx_code parse_conjunction(flxi_kparser *p, predicate_list *list, int depth)
{
    size_t start = list->n;
    FLXI_TRY(parse_factor(p, list, depth));
    while (p->x.token.mark == FLXI_MARK('&', '&')) {
        flxi_knext(p);
        FLXI_TRY(add_predicate(p, list, start, (flx_kernel_predicate){.test = FLX_KERNEL_COUNT_AND}));
        FLXI_TRY(parse_factor(p, list, depth));
    }
    return FLX_OK;
}

/* The list is in prefix order: insert the operator before its first operand, which is already there. */
static flx_code parse_condition(flxi_kparser *p, predicate_list *list, int depth)
{
    size_t start = list->n;
    FLXI_TRY(parse_conjunction(p, list, depth));
    while (p->x.token.mark == FLXI_MARK('|', '|')) {
        flxi_knext(p);
        FLXI_TRY(add_predicate(p, list, start, (flx_kernel_predicate){.test = FLX_KERNEL_COUNT_OR}));
        FLXI_TRY(parse_conjunction(p, list, depth));
    }
    return FLX_OK;
}

/* ---- Buffers ---- */

/* The buffer being read, with the lists that are freed once the builder has copies. */
typedef struct {
    flxi_kbuffer b;
    predicate_list predicates;
    char *descriptor;
    bool bound;
} declaration;

static flx_code parse_element(flxi_kparser *p, declaration *d)
{
    flxi_ktoken t = p->x.token;
    const char *bytes;
    d->b.element = t.kind == KT_NAME ? (uint8_t)flxi_ktype_find(t.s, t.n) : 0;
    if (!d->b.element)
        return flxi_kexpected(p, "an element type, as in f32[1024]");
    flxi_knext(p);
    if (flxi_ktake_mark(p, '(')) {
        FLXI_TRY(flxi_kread_bytes(p, &bytes, &d->b.descriptor_size));
        d->b.descriptor = d->descriptor = flxi_alloc(p->mem, d->b.descriptor_size, 1);
        if (!d->descriptor)
            return flxi_kfail_memory(p);
        memcpy(d->descriptor, bytes, d->b.descriptor_size);
        FLXI_TRY(flxi_kneed_mark(p, ')'));
    }
    FLXI_TRY(flxi_kneed_mark(p, '['));
    if (flxi_kis_mark(p, ']'))
        return flxi_kneed_mark(p, ']');
    t = p->x.token;
    FLXI_TRY(flxi_kread_u64(p, "a count of elements", UINT64_MAX, &d->b.count));
    if (d->b.count == 0)
        return flxi_kfail_at(p, t.s, "[] leaves the count open until the kernel runs",
                             "a buffer has at least one element");
    return flxi_kneed_mark(p, ']');
}

static flx_code parse_access(flxi_kparser *p, declaration *d)
{
    if (flxi_ktake_word(p, "output")) {
        d->b.access = FLX_KERNEL_READ_WRITE;
        d->b.flags = FLX_KERNEL_OUTPUT;
        return FLX_OK;
    }
    for (uint8_t i = 1; i < FLX_KERNEL_ACCESS_COUNT; i++)
        if (flxi_ktake_word(p, flxi_kaccess_names[i])) {
            d->b.access = i;
            return FLX_OK;
        }
    return flxi_kexpected(p, "an access: read write read_write output uniform workgroup private");
}

static bool take_flag(flxi_kparser *p, uint32_t *flags)
{
    uint32_t i = flxi_kread_word(p, flxi_kbuffer_flag_words, FLXI_KBUFFER_FLAG_WORDS);
    if (i == FLXI_KBUFFER_FLAG_WORDS)
        return false;
    *flags |= 1u << i;
    return true;
}

static flx_code parse_binding(flxi_kparser *p, declaration *d, const char *at)
{
    uint64_t v;
    FLXI_TRY(flxi_kread_u64(p, "a binding", UINT32_MAX, &v));
    if (!flxi_kbuffer_is_bound(&d->b))
        return flxi_kfail_at(p, at, "leave it out", "a %s buffer takes no binding", flxi_kaccess_names[d->b.access]);
    d->b.binding = (uint32_t)v;
    d->bound = true;
    return FLX_OK;
}

static flx_code parse_range(flxi_kparser *p, declaration *d)
{
    FLXI_TRY(flxi_kread_u64(p, "the first byte", UINT64_MAX, &d->b.range_begin));
    FLXI_TRY(flxi_kneed_mark(p, ','));
    return flxi_kread_u64(p, "the end of the bytes", UINT64_MAX, &d->b.range_end);
}

static flx_code parse_usage(flxi_kparser *p, declaration *d)
{
    uint32_t i = flxi_kread_word(p, flxi_kusage_words, FLXI_KUSAGE_WORDS);
    if (i == FLXI_KUSAGE_WORDS)
        return flxi_kexpected(p, "at_most_once, at_least_once or exactly_once");
    d->b.usage = (uint8_t)i;
    return FLX_OK;
}

static flx_code parse_hint(flxi_kparser *p, uint32_t *out)
{
    uint64_t v;
    FLXI_TRY(flxi_kread_u64(p, "a number", UINT32_MAX, &v));
    *out = (uint32_t)v;
    return FLX_OK;
}

/* One of the parenthesised options; *found: there was one. */
static flx_code parse_option(flxi_kparser *p, declaration *d, bool *found)
{
    static const char *const words[] = {"range", "usage", "align", "locality", "coalescing", "where"};
    uint32_t i = flxi_kread_word(p, words, 6);
    *found = i < 6;
    if (!*found)
        return FLX_OK;
    FLXI_TRY(flxi_kneed_mark(p, '('));
    switch (i) {
    case 0: FLXI_TRY(parse_range(p, d)); break;
    case 1: FLXI_TRY(parse_usage(p, d)); break;
    case 2: FLXI_TRY(parse_hint(p, &d->b.alignment)); break;
    case 3: FLXI_TRY(parse_hint(p, &d->b.locality)); break;
    case 4: FLXI_TRY(parse_hint(p, &d->b.coalescing)); break;
    default:
        d->predicates.n = 0;
        FLXI_TRY(parse_condition(p, &d->predicates, 0));
        break;
    }
    return flxi_kneed_mark(p, ')');
}

static flx_code parse_declaration(flxi_kparser *p, declaration *d)
{
    FLXI_TRY(flxi_kneed_mark(p, ':'));
    FLXI_TRY(parse_element(p, d));
    FLXI_TRY(parse_access(p, d));
    while (!flxi_kis_mark(p, ';')) {
        const char *at = p->x.token.s;
        bool found = take_flag(p, &d->b.flags);
        if (!found && flxi_ktake_mark(p, '@')) {
            found = true;
            FLXI_TRY(parse_binding(p, d, at));
        } else if (!found) {
            FLXI_TRY(parse_option(p, d, &found));
        }
        if (!found)
            return flxi_kexpected(p, "a flag, @BINDING or ';'");
    }
    d->b.predicates = d->predicates.at;
    d->b.num_predicates = d->predicates.n;
    return flxi_kneed_mark(p, ';');
}

flx_code flxi_kparse_buffer(flxi_kparser *p)
{
    declaration d = {0};
    size_t symbol;
    flxi_knext(p);
    const char *at = p->x.token.s;
    FLXI_TRY(flxi_kread_name(p, "a buffer's name", &symbol));
    d.b.name = flxi_ksymbol_text(p, symbol);
    flx_code code = parse_declaration(p, &d);
    uint32_t number = code == FLX_OK ? flxi_kb_buffer(p->b, &d.b) : 0;
    if (code == FLX_OK)
        code = flxi_kcheck_builder(p, at);
    flxi_vec_free(p->mem, &d.predicates);
    if (d.descriptor)
        flxi_free(p->mem, d.descriptor, d.b.descriptor_size, 1);
    FLXI_TRY(code);
    bool loose = !d.bound && flxi_kbuffer_is_bound(&d.b);
    flxi_ksymbol *s = flxi_ksymbol_at(p, symbol);
    if (!s || !flxi_push(p->mem, &p->unbound, loose))
        return flxi_kfail_memory(p);
    if (!s->buffer) /* if two buffers share a name, which validation reports, it means the first */
        s->buffer = number;
    return FLX_OK;
}

flx_code flxi_kbind_rest(flxi_kparser *p)
{
    size_t n = p->unbound.n;
    char *taken = flxi_alloc(p->mem, n, 1);
    uint32_t next = 0;
    if (!taken)
        return flxi_kfail_memory(p);
    for (size_t i = 0; i < n; i++) {
        const flxi_kbuffer *b = &p->b->buffers.at[i + 1];
        bool bound = flxi_kbuffer_is_bound(b) && !p->unbound.at[i];
        if (bound && b->binding < n)
            taken[b->binding] = 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (!p->unbound.at[i])
            continue;
        while (taken[next]) /* terminates: there are fewer bound buffers than slots */
            next++;
        p->b->buffers.at[i + 1].binding = next++;
    }
    flxi_free(p->mem, taken, n, 1);
    return FLX_OK;
}
