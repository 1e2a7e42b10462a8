/* SPDX-License-Identifier: Apache-2.0 */
/* write_loader.c: NAME_load(): parameters from a safetensors file that the caller has read or mapped into memory. The
   functions that read its JSON are written into the file; numbers stay where they are. */
#include "standalone/standalone.h"

/* $ is a placeholder for the prefix. */
static const char values[] = "\n/* After the string that begins at p. */\n"
                             "static const char *$_skip_string(const char *p, const char *end)\n"
                             "{\n"
                             "    for (p++; p < end && *p != '\"'; p++)\n"
                             "        p += *p == '\\\\' && p + 1 < end;\n"
                             "    return p < end ? p + 1 : end;\n"
                             "}\n"
                             "\n/* After the value that begins at p. */\n"
                             "static const char *$_skip_value(const char *p, const char *end)\n"
                             "{\n"
                             "    int depth = 0;\n"
                             "    while (p < end && !(depth == 0 && (*p == ',' || *p == '}' || *p == ']'))) {\n"
                             "        if (*p == '\"') {\n"
                             "            p = $_skip_string(p, end);\n"
                             "            continue;\n"
                             "        }\n"
                             "        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');\n"
                             "        p++;\n"
                             "    }\n"
                             "    return p;\n"
                             "}\n"
                             "\nstatic const char *$_skip_space(const char *p, const char *end)\n"
                             "{\n"
                             "    while (p < end && (*p == ' ' || *p == '\\n' || *p == '\\r' || *p == '\\t'))\n"
                             "        p++;\n"
                             "    return p;\n"
                             "}\n";

/* Names in the file may have escapes. */
static const char names[] =
    "\n/* One character of a string with escapes, as UTF-8 in `to`: its length; 0: it is not one. */\n"
    "static int $_character(const char **p, const char *end, char *to)\n"
    "{\n"
    "    static const char escapes[] = \"\\\"\\\"\\\\\\\\//b\\bf\\fn\\nr\\rt\\t\";\n"
    "    uint32_t code = 0;\n"
    "    if (**p != '\\\\') {\n"
    "        *to = *(*p)++;\n"
    "        return 1;\n"
    "    }\n"
    "    if (end - *p < 2)\n"
    "        return 0;\n"
    "    for (size_t i = 0; i + 1 < sizeof escapes; i += 2)\n"
    "        if ((*p)[1] == escapes[i]) {\n"
    "            *to = escapes[i + 1];\n"
    "            *p += 2;\n"
    "            return 1;\n"
    "        }\n"
    "    do {\n"
    "        if (end - *p < 6 || (*p)[0] != '\\\\' || (*p)[1] != 'u')\n"
    "            return 0;\n"
    "        uint32_t unit = 0;\n"
    "        for (int i = 2; i < 6; i++) {\n"
    "            const char c = (*p)[i];\n"
    "            const int digit = c >= '0' && c <= '9'   ? c - '0'\n"
    "                              : c >= 'a' && c <= 'f' ? c - 'a' + 10\n"
    "                              : c >= 'A' && c <= 'F' ? c - 'A' + 10\n"
    "                                                     : 16;\n"
    "            if (digit == 16)\n"
    "                return 0;\n"
    "            unit = unit * 16 + (uint32_t)digit;\n"
    "        }\n"
    "        *p += 6;\n"
    "        code = code ? 0x10000u + ((code - 0xd800u) << 10) + (unit & 0x3ffu) : unit;\n"
    "    } while (code >= 0xd800u && code < 0xdc00u);\n"
    "    const int length = code < 0x80u ? 1 : code < 0x800u ? 2 : code < 0x10000u ? 3 : 4;\n"
    "    static const unsigned char heads[] = {0, 0, 0xc0u, 0xe0u, 0xf0u};\n"
    "    for (int i = length - 1; i > 0; i--, code >>= 6)\n"
    "        to[i] = (char)(0x80u | (code & 0x3fu));\n"
    "    to[0] = (char)(heads[length] | code);\n"
    "    return length;\n"
    "}\n"
    "\n/* Whether the string from p to end, with escapes, is this text. */\n"
    "static int $_is_name(const char *p, const char *end, const char *text)\n"
    "{\n"
    "    while (p < end) {\n"
    "        char c[4];\n"
    "        const int n = $_character(&p, end, c);\n"
    "        if (n == 0)\n"
    "            return 0;\n"
    "        for (int i = 0; i < n; i++, text++)\n"
    "            if (*text == 0 || c[i] != *text)\n"
    "                return 0;\n"
    "    }\n"
    "    return *text == 0;\n"
    "}\n";

static const char tensors[] =
    "\n/* The value of a member of the object that begins at p; NULL: there is none. */\n"
    "static const char *$_member(const char *p, const char *end, const char *key)\n"
    "{\n"
    "    p = $_skip_space(p, end);\n"
    "    if (p == end || *p != '{')\n"
    "        return NULL;\n"
    "    for (p = $_skip_space(p + 1, end); p < end && *p == '\"';) {\n"
    "        const char *const name = p + 1;\n"
    "        p = $_skip_string(p, end);\n"
    "        const int is_it = $_is_name(name, p > name ? p - 1 : p, key);\n"
    "        p = $_skip_space(p, end);\n"
    "        if (p == end || *p != ':')\n"
    "            return NULL;\n"
    "        p = $_skip_space(p + 1, end);\n"
    "        if (is_it)\n"
    "            return p < end ? p : NULL;\n"
    "        p = $_skip_space($_skip_value(p, end), end);\n"
    "        if (p < end && *p == ',')\n"
    "            p = $_skip_space(p + 1, end);\n"
    "    }\n"
    "    return NULL;\n"
    "}\n"
    "\n/* Whether the value at p is this text, apart from spaces. */\n"
    "static int $_is_text(const char *p, const char *end, const char *text)\n"
    "{\n"
    "    for (; *text; text++, p++) {\n"
    "        p = $_skip_space(p, end);\n"
    "        if (p == end || *p != *text)\n"
    "            return 0;\n"
    "    }\n"
    "    return 1;\n"
    "}\n"
    "\n/* The bytes of a tensor of this dtype, shape and size in the file; NULL: it does not have it. */\n"
    "static const void *$_tensor(const void *file, size_t bytes, const char *name, const char *dtype,\n"
    "                            const char *shape, size_t nbytes)\n"
    "{\n"
    "    const unsigned char *const at = (const unsigned char *)file;\n"
    "    const uint16_t one = 1;\n"
    "    uint64_t size = 0, offset = 0;\n"
    "    if (bytes < 8 || *(const unsigned char *)&one != 1)\n"
    "        return NULL; /* numbers in the file are little-endian */\n"
    "    for (int i = 0; i < 8; i++)\n"
    "        size |= (uint64_t)at[i] << 8 * i;\n"
    "    if (size > bytes - 8)\n"
    "        return NULL;\n"
    "    const char *const begin = (const char *)at + 8, *const end = begin + size;\n"
    "    const char *const entry = $_member(begin, end, name);\n"
    "    const char *const has_dtype = entry ? $_member(entry, end, \"dtype\") : NULL;\n"
    "    const char *const has_shape = entry ? $_member(entry, end, \"shape\") : NULL;\n"
    "    const char *p = entry ? $_member(entry, end, \"data_offsets\") : NULL;\n"
    "    if (!has_dtype || !has_shape || !p || *p != '[' || !$_is_text(has_dtype, end, dtype) ||\n"
    "        !$_is_text(has_shape, end, shape))\n"
    "        return NULL;\n"
    "    for (p = $_skip_space(p + 1, end); p < end && *p >= '0' && *p <= '9' && offset < UINT64_MAX / 16; p++)\n"
    "        offset = offset * 10 + (uint64_t)(*p - '0');\n"
    "    return offset <= bytes - 8 - size && nbytes <= bytes - 8 - size - offset ? end + offset : NULL;\n"
    "}\n";

static const char *dtype_text(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64: return "\\\"F64\\\"";
    case FLX_F32: return "\\\"F32\\\"";
    case FLX_F16: return "\\\"F16\\\"";
    case FLX_BF16: return "\\\"BF16\\\"";
    case FLX_I64: return "\\\"I64\\\"";
    case FLX_I32: return "\\\"I32\\\"";
    case FLX_I16: return "\\\"I16\\\"";
    case FLX_I8: return "\\\"I8\\\"";
    case FLX_U64: return "\\\"U64\\\"";
    case FLX_U32: return "\\\"U32\\\"";
    case FLX_U16: return "\\\"U16\\\"";
    case FLX_U8: return "\\\"U8\\\"";
    case FLX_BOOL: return "\\\"BOOL\\\"";
    case FLX_C64: return "\\\"C64\\\"";
    default: return NULL;
    }
}

static void add_text(flxi_sa_file *f, const char *text, flxi_strbuf *out)
{
    for (const char *p = text; *p; p++)
        if (*p == '$')
            flxi_add_text(out, f->prefix);
        else
            flxi_add_char(out, *p);
}

static void add_shape(flxi_strbuf *out, const flx_type *t)
{
    flxi_add_char(out, '[');
    for (int k = 0; k < t->rank; k++)
        flxi_addf(out, "%s%lld", k ? "," : "", (long long)t->dims[k]);
    flxi_add_char(out, ']');
}

/* A field's bytes: copied where steps change it, else read where they are. */
static void add_field(flxi_sa_model *s, const flxi_sa_field *p, flxi_strbuf *out)
{
    const char *type = flxi_sa_type(p->type->dtype);
    flxi_addf(out, "    if ((at = %s_tensor(file, bytes, ", s->f.prefix);
    flxi_add_quoted(out, p->name);
    flxi_addf(out, ", \"%s\", \"", dtype_text(p->type->dtype));
    add_shape(out, p->type);
    flxi_addf(out, "\", %zu)) == NULL)\n        return %s_BAD_FILE;\n", p->nbytes, flxi_sa_capitals(&s->f));
    if (s->trains) {
        flxi_addf(out, "    memcpy(m->%s, at, %zu);\n", p->field, p->nbytes);
        return;
    }
    flxi_addf(out, "    if ((uintptr_t)at %% sizeof(%s) != 0)\n        return %s_BAD_FILE;\n", type,
              flxi_sa_capitals(&s->f));
    flxi_addf(out, "    m->%s = (const %s *)at;\n", p->field, type);
}

flx_code flxi_sa_loader(flxi_sa_model *s, flxi_strbuf *declarations, flxi_strbuf *out)
{
    const char *name = s->f.prefix;
    flxi_addf(declarations,
              "/* Finds the parameters in a safetensors file of `bytes` bytes in memory%s. */\n"
              "int %s_load(%s *m, const void *file, size_t bytes);\n",
              s->trains ? ", and copies them" : ", which must stay there: the model points into it", name, name);
    add_text(&s->f, values, out);
    add_text(&s->f, names, out);
    add_text(&s->f, tensors, out);
    flxi_addf(out, "\nint %s_load(%s *m, const void *file, size_t bytes)\n{\n    const void *at;\n", name, name);
    for (size_t i = 0; i < s->fields.n; i++) {
        const flxi_sa_field *p = &s->fields.at[i];
        if (p->is_state)
            continue;
        if (!dtype_text(p->type->dtype))
            return flxi_fail(s->err, FLX_E_UNSUPPORTED, "parameter '%.60s' is %s, which safetensors files do not have",
                             p->name, flx_dtype_name(p->type->dtype));
        add_field(s, p, out);
    }
    flxi_add_text(out, "    return 0;\n}\n");
    return FLX_OK;
}
