/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_text.c: operations on texts. Texts exist only while the model is read: they are constants or fixed inputs, and
   what these rules return follows from them. */
#include "base/text/utf8.h"
#include "onnx/import/onnx_site.h"

/* A small file must not ask for minutes and gigabytes. */
enum { MOST_TEXTS = 1 << 20, MOST_BYTES = 1 << 26 };

/* ---- Operands and results ---- */

static const onnx_texts *texts_at(onnx_site *s, size_t i)
{
    if (s->in[i].kind == ONNX_T_TEXTS)
        return &s->in[i].texts;
    flxi_onnx_fail(s, FLX_E_DTYPE, NULL, "operand %zu must have texts", i);
    return NULL;
}

/* Texts of this shape as result 0; the lists live as long as the import. */
static void give_texts(onnx_site *s, const char *const *at, size_t n, const int64_t *dims, size_t rank)
{
    s->out[0] = (onnx_value){.kind = ONNX_T_TEXTS, .element = ONNX_STRING, .texts = {at, n, dims, rank}};
    s->out[0].is_const = true;
}

static int64_t *copy_dims(onnx_site *s, const onnx_texts *x)
{
    int64_t *dims = flxi_onnx_new(s, int64_t, x->rank + 1);
    if (dims && x->rank)
        memcpy(dims, x->dims, x->rank * sizeof *dims);
    return dims;
}

static char *copy_text(onnx_site *s, const char *text, size_t n)
{
    char *copy = flxi_onnx_new(s, char, n + 1);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

/* Counts texts and bytes of a result; false once they are too many. */
static bool within(onnx_site *s, int64_t texts, int64_t bytes)
{
    if (texts <= MOST_TEXTS && bytes <= MOST_BYTES)
        return true;
    flxi_onnx_fail(s, FLX_E_SIZE, NULL, "more than %d texts, or %d bytes of texts", MOST_TEXTS, MOST_BYTES);
    return false;
}

/* Texts of tensors are known to be UTF-8, those of attributes are not. */
static bool is_text(onnx_site *s, const char *text)
{
    if (text && flxi_is_utf8(text, strlen(text)))
        return true;
    flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "an attribute has a text that is not UTF-8");
    return false;
}

bool flxi_onnx_constant_texts(onnx_site *s)
{
    const onnx_attr *a = flxi_onnx_attr(s, "value");
    const onnx_attr *one = flxi_onnx_attr(s, "value_string"), *list = flxi_onnx_attr(s, "value_strings");
    onnx_tensor t = {.name = "value"};
    int64_t *n = flxi_onnx_new(s, int64_t, 1);
    if (!n)
        return true;
    if (a && a->t && a->t->element == ONNX_STRING) {
        t = *a->t;
    } else if (one && one->s) {
        const char **text = flxi_onnx_new(s, const char *, 1);
        t.num_texts = text != NULL;
        t.texts = text;
        if (text)
            *text = one->s;
    } else if (list && list->strings) {
        *n = (int64_t)list->num_strings;
        t = (onnx_tensor){
            .name = "value", .texts = list->strings, .num_texts = list->num_strings, .dims = n, .rank = 1};
    } else {
        return false;
    }
    flx_error err = {0};
    onnx_texts texts;
    if (flxi_onnx_texts_read(&t, &texts, &err) == FLX_OK)
        give_texts(s, texts.at, texts.n, texts.dims, texts.rank);
    else
        flxi_graph_fail(s->g, &err);
    return true;
}

/* ---- Two operands, which broadcast ---- */

typedef struct {
    const onnx_texts *a, *b;
    int64_t *dims;
    size_t rank, n;
} text_pairs;

static int64_t extent_from_end(const onnx_texts *x, size_t k)
{
    return k < x->rank ? x->dims[x->rank - 1 - k] : 1;
}

static bool pair_texts(onnx_site *s, text_pairs *p)
{
    p->a = texts_at(s, 0);
    p->b = p->a ? texts_at(s, 1) : NULL;
    if (!p->b)
        return false;
    p->rank = p->a->rank > p->b->rank ? p->a->rank : p->b->rank;
    p->dims = flxi_onnx_new(s, int64_t, p->rank);
    p->n = 1;
    for (size_t k = 0; p->dims && k < p->rank; k++) {
        int64_t x = extent_from_end(p->a, k), y = extent_from_end(p->b, k), both = x == 1 ? y : x;
        if (x != both && x != 1) {
            flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operands do not broadcast");
            return false;
        }
        if (y != both && y != 1) {
            flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operands do not broadcast");
            return false;
        }
        p->dims[p->rank - 1 - k] = both;
        p->n *= (size_t)both;
        if (!within(s, (int64_t)p->n, 0))
            return false;
    }
    return p->dims != NULL;
}

/* The text of x at element i of the result. */
static const char *text_of(const text_pairs *p, const onnx_texts *x, size_t i)
{
    size_t at = 0, step = 1;
    for (size_t k = 0; k < p->rank; k++) {
        size_t extent = (size_t)p->dims[p->rank - 1 - k], own = (size_t)extent_from_end(x, k);
        at += own == 1 ? 0 : i % extent * step;
        step *= own;
        i /= extent;
    }
    return x->at[at];
}

void flxi_onnx_import_string_concat(onnx_site *s)
{
    text_pairs p;
    if (!pair_texts(s, &p))
        return;
    const char **out = flxi_onnx_new(s, const char *, p.n);
    int64_t bytes = 0;
    for (size_t i = 0; out && i < p.n; i++) {
        const char *a = text_of(&p, p.a, i), *b = text_of(&p, p.b, i);
        size_t n = strlen(a), m = strlen(b);
        bytes += (int64_t)(n + m);
        char *both = within(s, 0, bytes) ? flxi_onnx_new(s, char, n + m + 1) : NULL;
        if (!both)
            return;
        memcpy(both, a, n);
        memcpy(both + n, b, m);
        out[i] = both;
    }
    if (out)
        give_texts(s, out, p.n, p.dims, p.rank);
}

void flxi_onnx_import_binary(onnx_site *s);

void flxi_onnx_import_equal(onnx_site *s)
{
    text_pairs p;
    if (s->in[0].kind != ONNX_T_TEXTS && s->in[1].kind != ONNX_T_TEXTS) {
        flxi_onnx_import_binary(s);
        return;
    }
    if (!pair_texts(s, &p))
        return;
    flx_type type = flx_type_make(FLX_BOOL, (int32_t)p.rank, p.dims);
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(flx_graph_context(s->g), &type, NULL, &err);
    for (size_t i = 0; t && i < p.n; i++)
        ((unsigned char *)flx_tensor_data(t))[i] = strcmp(text_of(&p, p.a, i), text_of(&p, p.b, i)) == 0;
    if (t)
        s->y[0] = flx_const(s->g, .type = &type, .data = t);
    else
        flxi_graph_fail(s->g, &err);
    flx_tensor_release(t);
}

/* ---- Characters ---- */

static uint32_t decode(const char *s, size_t length)
{
    const unsigned char *p = (const unsigned char *)s;
    uint32_t c = length == 1 ? p[0] : p[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (p[i] & 63);
    return c;
}

static bool is_space(uint32_t c)
{
    static const uint32_t ranges[][2] = {{9, 13},          {28, 32},         {0x85, 0x85},     {0xa0, 0xa0},
                                         {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                         {0x205f, 0x205f}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

/* Small letters, every `every`th character, and how far their capitals are from them. All have as many bytes. */
static const struct {
    uint32_t first, last, every;
    int32_t capital;
} letters[] = {
    {'a', 'z', 1, -32},     {0xe0, 0xf6, 1, -32},   {0xf8, 0xfe, 1, -32},   {0xff, 0xff, 1, 121},
    {0x101, 0x12f, 2, -1},  {0x133, 0x137, 2, -1},  {0x13a, 0x148, 2, -1},  {0x14b, 0x177, 2, -1},
    {0x17a, 0x17e, 2, -1},  {0x3ac, 0x3ac, 1, -38}, {0x3ad, 0x3af, 1, -37}, {0x3b1, 0x3c1, 1, -32},
    {0x3c4, 0x3cb, 1, -32}, {0x3cc, 0x3cc, 1, -64}, {0x3cd, 0x3ce, 1, -63}, {0x430, 0x44f, 1, -32},
    {0x450, 0x45f, 1, -80}, {0x461, 0x481, 2, -1},  {0x48b, 0x4bf, 2, -1},  {0x4d1, 0x52f, 2, -1},
};

/* Ranges without small letters and capitals: signs, and scripts that do not have them. */
static const uint32_t caseless[][2] = {
    {0, 64},          {91, 96},           {123, 0xb4},        {0xb6, 0xbf},     {0xd7, 0xd7},
    {0xf7, 0xf7},     {0x590, 0x109f},    {0x2000, 0x20ff},   {0x2e80, 0xa63f}, {0xac00, 0xd7a3},
    {0xf900, 0xfaff}, {0x1f300, 0x1faff}, {0x20000, 0x3ffff},
};

/* The small letter or capital of c; 0: not known. Letters whose counterpart depends on the word or the language, or has
   several characters, are not in the table. */
static uint32_t counterpart(uint32_t c, bool upper)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        uint32_t capital = (uint32_t)((int32_t)c - letters[i].capital); /* the small letter if c is a capital */
        bool is_small = c >= letters[i].first && c <= letters[i].last && (c - letters[i].first) % letters[i].every == 0;
        bool is_capital = capital >= letters[i].first && capital <= letters[i].last &&
                          (capital - letters[i].first) % letters[i].every == 0;
        if (is_small)
            return upper ? (uint32_t)((int32_t)c + letters[i].capital) : c;
        if (is_capital)
            return upper ? c : capital;
    }
    for (size_t i = 0; i < sizeof caseless / sizeof *caseless; i++)
        if (c >= caseless[i][0] && c <= caseless[i][1])
            return c;
    return 0;
}

/* A copy in capitals or in small letters; NULL after an error. */
static const char *change_case(onnx_site *s, const char *text, bool upper)
{
    size_t n = strlen(text);
    char *out = copy_text(s, text, n);
    for (size_t i = 0, length; out && i < n; i += length) {
        length = flxi_utf8_length(text + i, n - i);
        uint32_t c = decode(text + i, length), other = counterpart(c, upper);
        if (!other) {
            flxi_onnx_unsupported(s, "capitals and small letters of the character U+%04X", c);
            return NULL;
        }
        for (size_t k = length; other != c && k-- > 0; other >>= 6) /* as many bytes: the first keeps its mark */
            out[i + k] = (char)(length == 1 ? other : k ? 0x80 | (other & 63) : 0xc0 | (other & 31));
    }
    return out;
}

/* ---- StringNormalizer ---- */

typedef struct {
    const char **stopwords; /* in small letters where that does not matter */
    size_t num_stopwords;
    bool is_sensitive, is_upper, is_lower;
} normalizer;

static bool read_normalizer(onnx_site *s, normalizer *z)
{
    const char *change = flxi_onnx_word(s, "case_change_action", "NONE");
    const char *locale = flxi_onnx_word(s, "locale", "en_US");
    const char *const *words = flxi_onnx_words(s, "stopwords", &z->num_stopwords);
    z->is_sensitive = flxi_onnx_int(s, "is_case_sensitive", 0) != 0;
    z->stopwords = flxi_onnx_new(s, const char *, z->num_stopwords);
    for (size_t i = 0; z->stopwords && i < z->num_stopwords; i++)
        z->stopwords[i] = !is_text(s, words[i]) || z->is_sensitive ? words[i] : change_case(s, words[i], false);
    z->is_upper = change && strcmp(change, "UPPER") == 0;
    z->is_lower = change && strcmp(change, "LOWER") == 0;
    if (flxi_onnx_failed(s) || !change || !locale || !z->stopwords)
        return false;
    if (!z->is_upper && !z->is_lower && strcmp(change, "NONE") != 0) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "case_change_action '%.40s' is not one of LOWER, UPPER, NONE", change);
        return false;
    }
    bool is_other = strncmp(locale, "tr", 2) == 0 || strncmp(locale, "az", 2) == 0 || strncmp(locale, "lt", 2) == 0;
    if (is_other)
        flxi_onnx_unsupported(s, "the letters of the locale '%.40s'", locale);
    return !is_other;
}

static bool is_stopword(onnx_site *s, const normalizer *z, const char *text)
{
    const char *x = z->is_sensitive || !z->num_stopwords ? text : change_case(s, text, false);
    for (size_t i = 0; x && i < z->num_stopwords; i++)
        if (strcmp(x, z->stopwords[i]) == 0)
            return true;
    return !x;
}

/* Stopwords are left out, what remains changes its case; one empty text where nothing remains. */
void flxi_onnx_import_string_normalizer(onnx_site *s)
{
    const onnx_texts *x = texts_at(s, 0);
    normalizer z;
    if (!x || !read_normalizer(s, &z))
        return;
    if ((x->rank != 1 && x->rank != 2) || (x->rank == 2 && x->dims[0] != 1)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand must be [C] or [1, C]");
        return;
    }
    if (!within(s, (int64_t)x->n, 0) || !flxi_onnx_spend(s, (int64_t)(x->n / 64 * (z.num_stopwords + 1))))
        return;
    const char **out = flxi_onnx_new(s, const char *, x->n + 1);
    int64_t *dims = copy_dims(s, x);
    size_t n = 0;
    for (size_t i = 0; out && dims && i < x->n; i++)
        if (!is_stopword(s, &z, x->at[i]))
            out[n++] = z.is_upper || z.is_lower ? change_case(s, x->at[i], z.is_upper) : x->at[i];
    if (!out || !dims || flxi_onnx_failed(s))
        return;
    if (n == 0)
        out[n++] = "";
    dims[x->rank - 1] = (int64_t)n;
    give_texts(s, out, n, dims, x->rank);
}

/* ---- StringSplit ---- */

typedef struct {
    const char *delimiter; /* NULL: white space */
    int64_t most;          /* divisions */
} splitter;

/* Texts are well-formed and end with a 0, so that a character may be asked for without their length. */
static const char *after_space(const char *at)
{
    for (size_t length; *at && is_space(decode(at, length = flxi_utf8_length(at, 4))); at += length)
        ;
    return at;
}

static const char *before_space(const char *at)
{
    for (size_t length; *at && !is_space(decode(at, length = flxi_utf8_length(at, 4))); at += length)
        ;
    return at;
}

/* The next part of the text, from *at on; NULL when there is none. *at is then after it, NULL at the end. */
static const char *next_part(const splitter *z, int64_t division, const char **at, size_t *length)
{
    const char *from = *at;
    if (!from)
        return NULL;
    if (!z->delimiter) {
        from = after_space(from);
        if (!*from)
            return NULL;
    }
    const char *end = division >= z->most ? NULL : z->delimiter ? strstr(from, z->delimiter) : before_space(from);
    *length = end ? (size_t)(end - from) : strlen(from);
    *at = !end ? NULL : z->delimiter ? end + strlen(z->delimiter) : end;
    return from;
}

static size_t count_parts(const splitter *z, const char *text)
{
    size_t n = 0, length;
    while (next_part(z, (int64_t)n, &text, &length))
        n++;
    return n;
}

/* The parts along a new axis, filled up with empty texts, and how many there are of each. */
void flxi_onnx_import_string_split(onnx_site *s)
{
    const onnx_texts *x = texts_at(s, 0);
    splitter z = {flxi_onnx_word(s, "delimiter", NULL), flxi_onnx_int(s, "maxsplit", INT64_MAX)};
    if (!x || (z.delimiter && !is_text(s, z.delimiter)) || flxi_onnx_failed(s))
        return;
    z.delimiter = z.delimiter && z.delimiter[0] ? z.delimiter : NULL;
    z.most = z.most < 0 ? INT64_MAX : z.most;
    int64_t *counts = flxi_onnx_new(s, int64_t, x->n), *dims = copy_dims(s, x), most = 0;
    for (size_t i = 0; counts && i < x->n; i++) {
        counts[i] = (int64_t)count_parts(&z, x->at[i]);
        most = counts[i] > most ? counts[i] : most;
    }
    if (!counts || !dims || (x->n && !within(s, most, 0)) || !within(s, (int64_t)x->n * most, 0))
        return;
    const char **out = flxi_onnx_new(s, const char *, x->n *(size_t)most);
    for (size_t i = 0; out && i < x->n; i++) {
        const char *at = x->at[i];
        for (int64_t k = 0; k < most; k++) {
            size_t length = 0;
            const char *part = next_part(&z, k, &at, &length);
            out[(int64_t)i * most + k] = part ? copy_text(s, part, length) : "";
        }
    }
    if (!out || flxi_onnx_failed(s))
        return;
    dims[x->rank] = most;
    give_texts(s, out, x->n * (size_t)most, dims, x->rank + 1);
    s->y[1] = flx_reshape(s->g, flxi_onnx_vector(s, counts, x->n), .shape = {x->dims, x->rank});
}

/* ---- LabelEncoder ---- */

/* A list of texts: of an attribute, or of a tensor that is one. */
static bool read_list(onnx_site *s, const char *list, const char *tensor, onnx_texts *out)
{
    const onnx_attr *a = flxi_onnx_attr(s, tensor);
    *out = (onnx_texts){.rank = 1};
    out->at = flxi_onnx_words(s, list, &out->n);
    for (size_t i = 0; out->at && i < out->n; i++)
        if (!is_text(s, out->at[i]))
            return false;
    flx_error err = {0};
    if (out->at || !a || !a->t || a->t->element != ONNX_STRING)
        return out->at != NULL;
    if (flxi_onnx_texts_read(a->t, out, &err) == FLX_OK)
        return true;
    flxi_graph_fail(s->g, &err);
    return false;
}

/* Numbers of an attribute or of a tensor as a vector. */
static flx_val number_list(onnx_site *s, const char *ints, const char *reals, const char *tensor)
{
    const onnx_attr *a = flxi_onnx_attr(s, tensor);
    flx_ints i = flxi_onnx_ints(s, ints);
    flx_reals r = flxi_onnx_reals(s, reals);
    if (i.v)
        return flxi_onnx_vector(s, i.v, i.n);
    if (a && a->t)
        return flx_reshape(s->g, flxi_onnx_constant(s, a->t, NULL), .shape = FLX_INTS(-1));
    float *f = r.v ? flxi_onnx_new(s, float, r.n) : NULL;
    for (size_t k = 0; f && k < r.n; k++)
        f[k] = (float)r.v[k];
    flx_type type = flx_type_make(FLX_F32, 1, &(flx_dim){(flx_dim)r.n});
    flx_error err = {0};
    flx_tensor *t = f ? flx_tensor_new(flx_graph_context(s->g), &type, f, &err) : NULL;
    flx_val v = t ? flx_const(s->g, .type = &type, .data = t) : FLX_NONE;
    flx_tensor_release(t);
    if (!t)
        flxi_onnx_unsupported(s, "values that are neither texts nor numbers");
    return v;
}

/* The value of texts that are no key, as a vector of one element like `values`. */
static flx_val absent_value(onnx_site *s, flx_val values)
{
    const onnx_attr *a = flxi_onnx_attr(s, "default_tensor");
    bool is_float = flxi_is_float(flxi_onnx_dtype(s, values));
    double x = is_float ? flxi_onnx_real(s, "default_float", -0.0) : (double)flxi_onnx_int(s, "default_int64", -1);
    flx_val v = a && a->t ? flxi_onnx_constant(s, a->t, NULL) : flxi_onnx_number(s, values, x);
    return flx_reshape(s->g, v, .shape = FLX_INTS(1));
}

/* The position of each text among the keys; their number for texts that are not among them. */
static int64_t *find_keys(onnx_site *s, const onnx_texts *x, const onnx_texts *keys)
{
    if (!flxi_onnx_spend(s, (int64_t)(x->n / 64 * (keys->n + 1))))
        return NULL;
    int64_t *at = flxi_onnx_new(s, int64_t, x->n);
    for (size_t i = 0; at && i < x->n; i++)
        while ((size_t)at[i] < keys->n && strcmp(x->at[i], keys->at[at[i]]) != 0)
            at[i]++;
    return at;
}

static bool check_values(onnx_site *s, size_t keys, int64_t values)
{
    if ((int64_t)keys == values)
        return true;
    flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "it has %zu keys, but %lld values", keys, (long long)values);
    return false;
}

static void encode_as_texts(onnx_site *s, const onnx_texts *x, const int64_t *at, size_t keys, const onnx_texts *words)
{
    onnx_texts absent = {.n = 0};
    bool has_tensor = read_list(s, "", "default_tensor", &absent) && absent.n;
    const char *other = has_tensor ? absent.at[0] : flxi_onnx_word(s, "default_string", "_Unused");
    const char **out = flxi_onnx_new(s, const char *, x->n);
    if (!out || !is_text(s, other) || !check_values(s, keys, (int64_t)words->n))
        return;
    for (size_t i = 0; i < x->n; i++)
        out[i] = (size_t)at[i] < keys ? words->at[at[i]] : other;
    give_texts(s, out, x->n, x->dims, x->rank);
}

void flxi_onnx_import_label_encoder(onnx_site *s)
{
    onnx_texts keys, words;
    if (s->in[0].kind != ONNX_T_TEXTS || !read_list(s, "keys_strings", "keys_tensor", &keys)) {
        flxi_onnx_unsupported(s, "keys that are not texts");
        return;
    }
    const onnx_texts *x = &s->in[0].texts;
    int64_t *at = find_keys(s, x, &keys);
    if (!at)
        return;
    if (read_list(s, "values_strings", "values_tensor", &words)) {
        encode_as_texts(s, x, at, keys.n, &words);
        return;
    }
    flx_val values = number_list(s, "values_int64s", "values_floats", "values_tensor");
    if (flxi_onnx_failed(s) || !check_values(s, keys.n, flxi_onnx_dim(s, values, 0)))
        return;
    flx_val table[] = {values, absent_value(s, values)};
    flx_val index = flx_reshape(s->g, flxi_onnx_vector(s, at, x->n), .shape = {x->dims, x->rank});
    s->y[0] = flx_gather(s->g, flx_concat(s->g, table, 2, .axis = 0), index, .axis = 0);
}
