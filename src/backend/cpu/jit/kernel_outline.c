/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_outline.c: see kernel_outline.h. */
#include "backend/cpu/jit/kernel_outline.h"

#include "base/number.h"

/* ---- Reading ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* The end of what begins like a number: digits, letters, points, and signs of exponents. */
static const char *number_end(const char *s)
{
    bool is_hex = s[0] == '0' && s[1] == 'x';
    for (; is_word(*s) || *s == '.'; s++)
        if (is_hex && *s == 'p' && (s[1] == '+' || s[1] == '-'))
            s++;
    return s;
}

static bool read_float(const char *s, const char *end, flxi_number *x)
{
    double value;
    bool is_f32 = end[-1] == 'f';
    x->type = is_f32 ? NUMBER_F32 : NUMBER_F64;
    bool ok = flxi_read_double(s, (size_t)(end - s) - is_f32, &value);
    memcpy(&x->bits, &value, sizeof value);
    return ok;
}

static bool read_integer(const char *s, const char *end, flxi_number *x)
{
    static const struct {
        const char *suffix;
        flxi_number_type type;
        uint64_t most;
    } forms[] = {{"", NUMBER_I32, INT32_MAX},
                 {"u", NUMBER_U32, UINT32_MAX},
                 {"ll", NUMBER_I64, INT64_MAX},
                 {"ull", NUMBER_U64, UINT64_MAX}};
    const char *stop = s;
    while (stop < end && is_digit(*stop))
        stop++;
    if (!flxi_read_u64(s, (size_t)(stop - s), &x->bits))
        return false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strlen(forms[i].suffix) == (size_t)(end - stop) &&
            memcmp(forms[i].suffix, stop, (size_t)(end - stop)) == 0) {
            x->type = (uint8_t)forms[i].type;
            return x->bits <= forms[i].most;
        }
    return false;
}

/* Whether it is a number that could as well be a variable. Words of bits (0x…) stay as they are, as do indices and
   lengths in brackets, which may have to be constants. */
static bool read_number(const flxi_outline *o, const char *s, const char *end, flxi_number *x)
{
    bool is_hex = s[0] == '0' && s[1] == 'x';
    *x = (flxi_number){.at = (size_t)(s - o->text), .end = (size_t)(end - o->text)};
    if (is_hex)
        return memchr(s, 'p', (size_t)(end - s)) && read_float(s, end, x);
    return s[-1] != '[' && read_integer(s, end, x);
}

static const char *skip_comment(const char *s)
{
    const char *end = s[0] == '/' && s[1] == '*' ? strstr(s + 2, "*/") : NULL;
    return end ? end + 2 : s;
}

/* The text from `from` to `to` belongs to the outline. */
static void add_outline(flxi_outline *o, size_t from, size_t to)
{
    o->hash = flxi_hash_bytes(o->hash, o->text + from, to - from);
}

static bool find_numbers(flxi_outline *o)
{
    size_t from = 0;
    for (const char *s = o->text + o->body; *s;) {
        const char *next = skip_comment(s), *end = next;
        flxi_number x;
        if (next == s && is_word(*s))
            for (end = is_digit(*s) ? number_end(s) : s; is_word(*end); end++)
                continue;
        if (is_digit(*s) && end > s && read_number(o, s, end, &x)) {
            add_outline(o, from, x.at);
            o->hash = flxi_hash_u64(o->hash, x.type);
            from = x.end;
            if (!flxi_push(o->mem, &o->numbers, x))
                return false;
        }
        s = end > s ? end : s + 1;
    }
    add_outline(o, from, o->n);
    return true;
}

static bool read_text(flxi_outline *o, const flxi_allocator *mem, const char *text, size_t n, bool has_numbers)
{
    *o = (flxi_outline){.mem = mem, .n = n, .body = n, .hash = FLXI_HASH_SEED};
    o->text = flxi_alloc(mem, n + 1, 1);
    if (!o->text)
        return false;
    memcpy(o->text, text, n);
    const char *head = has_numbers ? strstr(o->text, "(const k_dispatch *d, ") : NULL;
    const char *open = head ? strstr(head, "{\n") : NULL;
    if (open)
        o->body = (size_t)(open + 2 - o->text);
    return find_numbers(o);
}

bool flxi_outline_init(flxi_outline *o, const flxi_allocator *mem, const char *text, size_t n)
{
    return read_text(o, mem, text, n, true);
}

bool flxi_outline_init_fixed(flxi_outline *o, const flxi_allocator *mem, const char *text, size_t n)
{
    return read_text(o, mem, text, n, false);
}

void flxi_outline_free(flxi_outline *o)
{
    if (!o->mem)
        return;
    if (o->text)
        flxi_free(o->mem, o->text, o->n + 1, 1);
    flxi_vec_free(o->mem, &o->numbers);
    *o = (flxi_outline){0};
}

bool flxi_outline_equal(const flxi_outline *a, const flxi_outline *b)
{
    size_t from_a = 0, from_b = 0;
    if (a->hash != b->hash || a->numbers.n != b->numbers.n)
        return false;
    for (size_t i = 0; i <= a->numbers.n; i++) {
        bool is_last = i == a->numbers.n;
        size_t to_a = is_last ? a->n : a->numbers.at[i].at, to_b = is_last ? b->n : b->numbers.at[i].at;
        if (to_a - from_a != to_b - from_b || memcmp(a->text + from_a, b->text + from_b, to_a - from_a) != 0 ||
            (!is_last && a->numbers.at[i].type != b->numbers.at[i].type))
            return false;
        from_a = is_last ? 0 : a->numbers.at[i].end;
        from_b = is_last ? 0 : b->numbers.at[i].end;
    }
    return true;
}

/* ---- Which numbers are arguments ---- */

static bool is_same_everywhere(const flxi_outline *o, const flxi_outline *const *others, size_t n, size_t i, size_t j)
{
    if (o->numbers.at[i].type != o->numbers.at[j].type || o->numbers.at[i].bits != o->numbers.at[j].bits)
        return false;
    for (size_t k = 0; k < n; k++)
        if (others[k]->numbers.at[i].bits != others[k]->numbers.at[j].bits)
            return false;
    return true;
}

bool flxi_outline_compare(const flxi_outline *o, const flxi_outline *const *others, size_t n, flxi_arena *arena,
                          flxi_outline_sizes *out)
{
    flxi_index known = {0};
    *out = (flxi_outline_sizes){.argument = flxi_new(arena, uint32_t, o->numbers.n)};
    bool ok = out->argument;
    for (size_t i = 0; ok && i < o->numbers.n; i++) {
        uint64_t hash = flxi_hash_u64(FLXI_HASH_SEED, o->numbers.at[i].bits);
        bool differs = false;
        uint32_t j;
        for (size_t k = 0; k < n; k++) {
            differs |= others[k]->numbers.at[i].bits != o->numbers.at[i].bits;
            hash = flxi_hash_u64(hash, others[k]->numbers.at[i].bits);
        }
        if (!differs)
            continue;
        for (flxi_probe p = flxi_index_first(&known, hash); !out->argument[i] && flxi_index_next(&known, &p, &j);)
            if (is_same_everywhere(o, others, n, i, j))
                out->argument[i] = out->argument[j];
        if (out->argument[i])
            continue;
        out->argument[i] = ++out->num_arguments;
        ok = flxi_index_add(o->mem, &known, hash, (uint32_t)i);
    }
    flxi_index_free(o->mem, &known);
    return ok;
}

bool flxi_outline_fits(const flxi_outline *o, const flxi_outline_sizes *s, const flxi_outline *x, uint64_t *sizes)
{
    uint32_t seen = 0; /* arguments are numbered in the order of the text */
    for (size_t i = 0; i < o->numbers.n; i++) {
        uint32_t a = s->argument[i];
        uint64_t bits = x->numbers.at[i].bits;
        if (a > seen)
            sizes[seen++] = bits;
        if (bits != (a ? sizes[a - 1] : o->numbers.at[i].bits))
            return false;
    }
    return true;
}

/* ---- General code ---- */

static void write_argument(flxi_strbuf *out, uint32_t argument, uint8_t type)
{
    static const char *const names[] = {"k_i32", "k_u32", "k_i64", "k_u64", "k_f32", "k_f64"};
    flxi_addf(out, "    const %s size%u = (%s)((const %s *)d->sizes)[%u];\n", names[type], argument, names[type],
              type >= NUMBER_F32 ? "k_f64" : "k_u64", argument - 1);
}

void flxi_outline_write(const flxi_outline *o, const flxi_outline_sizes *s, flxi_strbuf *out)
{
    size_t from = o->body;
    uint32_t declared = 0;
    flxi_add_bytes(out, o->text, from);
    for (size_t i = 0; i < o->numbers.n; i++)
        if (s->argument[i] > declared)
            write_argument(out, ++declared, o->numbers.at[i].type);
    for (size_t i = 0; i < o->numbers.n; i++) {
        if (!s->argument[i])
            continue;
        flxi_add_bytes(out, o->text + from, o->numbers.at[i].at - from);
        flxi_addf(out, "size%u", s->argument[i]);
        from = o->numbers.at[i].end;
    }
    flxi_add_bytes(out, o->text + from, o->n - from);
}
