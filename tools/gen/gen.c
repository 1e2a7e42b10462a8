/* SPDX-License-Identifier: Apache-2.0 */
/* gen.c: writes what is generated from the tables: include/fluxion/ops.h, docs/ops.md and docs/errors.md, under the
   folder given as argument. It reads the public catalogue only. Run it with script/generate. */
#include <fluxion/catalogue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 8, MAX_PARAMETERS = 4, NAME_SIZE = 48 };

typedef struct {
    flx_op_view view;
    char operand[MAX_OPERANDS][NAME_SIZE];
    int num_operands;
    int num_leading; /* operands before the first that may be left out */
    int variadic;    /* then all operands are one list */
    int num_results; /* -1: as many as the op says */
    int as_struct;   /* attributes in a struct instead of parameters */
} op_entry;

/* ---- Reading a row ---- */

static void read_name(const char *s, char *out)
{
    size_t n = 0;
    while (*s == ' ' || *s == '[')
        s++;
    while (n < NAME_SIZE - 1 && ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') || s[n] == '_' ||
                                 (s[n] >= '0' && s[n] <= '9')))
        n++;
    memcpy(out, s, n);
    out[n] = 0;
}

static op_entry read_op(size_t i)
{
    op_entry e = {0};
    flx_op_at(i, &e.view);
    e.variadic = e.view.max_operands < 0;
    for (const char *s = e.view.operands; *s && e.num_operands < MAX_OPERANDS;) {
        if (e.num_leading == e.num_operands && s[strspn(s, " ")] != '[')
            e.num_leading++;
        read_name(s, e.operand[e.num_operands++]);
        s += strcspn(s, ",");
        s += *s == ',';
    }
    e.num_results = strcmp(e.view.results, "...") == 0 ? -1 : 1;
    for (const char *s = e.view.results; e.num_results > 0 && *s; s++)
        e.num_results += *s == ',';
    e.as_struct = e.view.num_attrs > MAX_PARAMETERS;
    return e;
}

static int is_declared(const op_entry *e)
{
    return strcmp(e->view.name, "input") == 0 || strcmp(e->view.name, "param") == 0;
}

/* ---- The header ---- */

typedef struct {
    const char *kind;
    const char *type;   /* of the parameter */
    const char *absent; /* condition under which it is left out; %s is the parameter */
    const char *make;   /* the helper that makes the flx_attr */
    const char *none;   /* the value that means absent */
} c_kind;

static const c_kind c_kinds[] = {
    {"int", "int64_t ", "%s == FLX_DEFAULT", "flx_attr_int", "FLX_DEFAULT"},
    {"dim", "flx_dim ", "%s == FLX_DEFAULT", "flx_attr_int", "FLX_DEFAULT"},
    {"bool", "int ", "%s < 0", "flx_attr_int", "-1"},
    {"real", "double ", "%s != %s", "flx_attr_real", "NAN"},
    {"word", "const char *", "!%s", "flx_attr_word", "NULL"},
    {"dtype", "flx_dtype ", "%s == FLX_DTYPE_NONE", "flx_attr_dtype", "FLX_DTYPE_NONE"},
    {"ints", "flx_ints ", "!%s.v", "flx_attr_ints", "{NULL, 0}"},
    {"bools", "flx_ints ", "!%s.v", "flx_attr_ints", "{NULL, 0}"},
    {"dims", "flx_ints ", "!%s.v", "flx_attr_ints", "{NULL, 0}"},
    {"pairs", "flx_ints ", "!%s.v", "flx_attr_pairs", "{NULL, 0}"},
    {"reals", "flx_reals ", "!%s.v", "flx_attr_reals", "{NULL, 0}"},
    {"string", "const char *", "!%s", "flx_attr_string", "NULL"},
    {"type", "const flx_type *", "!%s", "flx_attr_type", "NULL"},
    {"types", "flx_types ", "!%s.v", "flx_attr_types", "{NULL, 0}"},
    {"graph", "const flx_graph *", "!%s", "flx_attr_graph", "NULL"},
    {"graphs", "flx_graphs ", "!%s.v", "flx_attr_graphs", "{NULL, 0}"},
    {"combine", "flx_combine ", "!%s.word && !%s.graph", "flx_attr_combine", "{NULL, NULL}"},
    {"data", "const flx_tensor *", "!%s", "flx_attr_tensor", "NULL"},
    {"value", "const flx_tensor *", "!%s", "flx_attr_tensor", "NULL"},
};

static const c_kind *kind_of(const flx_attr_view *a)
{
    for (size_t i = 0; i < sizeof c_kinds / sizeof c_kinds[0]; i++)
        if (strcmp(c_kinds[i].kind, a->kind) == 0)
            return &c_kinds[i];
    fprintf(stderr, "flx_gen: no C type for attributes of kind '%s'\n", a->kind);
    exit(3);
}

/* Attribute names that are C or C++ keywords get a trailing underscore. */
static const char *c_name(const char *name, char *buffer)
{
    static const char *const keywords[] = {"else", "and", "or", "not", "xor", "case", "default", "template"};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(keywords[i], name) == 0) {
            snprintf(buffer, NAME_SIZE, "%s_", name);
            return buffer;
        }
    return name;
}

static const char header_head[] =
    "/* fluxion/ops.h: one function per op. Generated from src/ops/ by script/generate; do not edit.\n"
    "\n"
    "   Each appends a node to the graph and returns its result (several: in `results`). Operands come first, then "
    "the\n"
    "   attributes in the manual's order (docs/ops.md); more than four attributes are fields of a struct, which starts "
    "as\n"
    "   FLX_<OP>_ATTRS and may be NULL. To take an attribute's default pass FLX_DEFAULT (integers), -1 (flags), NAN "
    "(reals),\n"
    "   NULL (words, graphs), FLX_DTYPE_NONE or {NULL, 0} (lists). Errors stay in the graph: flx_graph_error(). All of "
    "this is\n"
    "   inline over flx_op(), so no symbol of the library depends on the set of ops. */\n"
    "#ifndef FLUXION_OPS_H\n"
    "#define FLUXION_OPS_H\n"
    "\n"
    "#include <fluxion/graph.h>\n"
    "#include <math.h>\n"
    "\n"
    "FLX_BEGIN_DECLS\n"
    "\n"
    "/* A way to combine two values: a word such as \"add\", or a graph of two scalars. */\n"
    "typedef struct flx_combine {\n"
    "    const char *word;\n"
    "    const flx_graph *graph;\n"
    "} flx_combine;\n"
    "\n"
    "/* ---- Making attributes ---- */\n"
    "\n"
    "static inline flx_attr flx_attr_of(const char *key, int32_t kind)\n"
    "{\n"
    "    flx_attr a;\n"
    "    a.key = key;\n"
    "    a.kind = kind;\n"
    "    a.as.ints.v = NULL;\n"
    "    a.as.ints.n = 0;\n"
    "    return a;\n"
    "}\n";

static void write_attr_maker(FILE *f, const char *name, const char *type, const char *kind, const char *field)
{
    fprintf(f,
            "\nstatic inline flx_attr flx_attr_%s(const char *key, %sv)\n"
            "{\n"
            "    flx_attr a = flx_attr_of(key, FLX_ATTR_%s);\n"
            "    a.as.%s = v;\n"
            "    return a;\n"
            "}\n",
            name, type, kind, field);
}

static const char header_tail[] = "\nstatic inline flx_attr flx_attr_dtype(const char *key, flx_dtype v)\n"
                                  "{\n"
                                  "    return flx_attr_int(key, (int64_t)v);\n"
                                  "}\n"
                                  "\nstatic inline flx_attr flx_attr_combine(const char *key, flx_combine v)\n"
                                  "{\n"
                                  "    return v.graph ? flx_attr_graph(key, v.graph) : flx_attr_word(key, v.word);\n"
                                  "}\n"
                                  "\nstatic inline flx_val flx_op1(flx_graph *g, const char *op, const flx_val *in, "
                                  "size_t n, const flx_attr *attrs,\n"
                                  "                              size_t num_attrs)\n"
                                  "{\n"
                                  "    flx_val y;\n"
                                  "    y.id = 0;\n"
                                  "    y.graph = 0;\n"
                                  "    flx_op(g, op, in, n, attrs, num_attrs, &y, 1);\n"
                                  "    return y;\n"
                                  "}\n";

static void write_struct(FILE *f, const op_entry *e)
{
    char upper[NAME_SIZE];
    char name[NAME_SIZE];
    size_t n = strlen(e->view.name);
    for (size_t i = 0; i <= n; i++)
        upper[i] = (char)(e->view.name[i] >= 'a' && e->view.name[i] <= 'z' ? e->view.name[i] - 32 : e->view.name[i]);
    fprintf(f, "typedef struct flx_%s_attrs {\n", e->view.name);
    flx_attr_view a;
    for (uint32_t i = 0; i < e->view.num_attrs; i++) {
        flx_op_attr(e->view.name, i, &a);
        fprintf(f, "    %s%s; /* %s */\n", kind_of(&a)->type, c_name(a.name, name),
                a.required ? "must be given" : a.fallback);
    }
    fprintf(f, "} flx_%s_attrs;\n#define FLX_%s_ATTRS {", e->view.name, upper);
    for (uint32_t i = 0; i < e->view.num_attrs; i++) {
        flx_op_attr(e->view.name, i, &a);
        fprintf(f, "%s%s", i ? ", " : "", kind_of(&a)->none);
    }
    fprintf(f, "}\n\n");
}

static void write_signature(FILE *f, const op_entry *e)
{
    char name[NAME_SIZE];
    const char *result = e->num_results == 1 ? "flx_val" : e->num_results < 0 ? "uint32_t" : "void";
    fprintf(f, "static inline %s flx_%s(flx_graph *g", result, e->view.name);
    if (e->variadic)
        fprintf(f, ", const flx_val *operands, size_t num_operands");
    for (int i = 0; !e->variadic && i < e->num_operands; i++)
        fprintf(f, ", flx_val %s", e->operand[i]);
    for (uint32_t i = 0; !e->as_struct && i < e->view.num_attrs; i++) {
        flx_attr_view a;
        flx_op_attr(e->view.name, i, &a);
        fprintf(f, ", %s%s", kind_of(&a)->type, c_name(a.name, name));
    }
    if (e->as_struct)
        fprintf(f, ", const flx_%s_attrs *attrs", e->view.name);
    if (e->num_results < 0)
        fprintf(f, ", flx_val *results, size_t capacity");
    else if (e->num_results > 1)
        fprintf(f, ", flx_val results[%d]", e->num_results);
    fprintf(f, ")\n");
}

static void write_attr(FILE *f, const op_entry *e, uint32_t i)
{
    flx_attr_view a;
    char name[NAME_SIZE];
    char access[2 * NAME_SIZE];
    char condition[256];
    flx_op_attr(e->view.name, i, &a);
    snprintf(access, sizeof access, "%s%s", e->as_struct ? "attrs->" : "", c_name(a.name, name));
    snprintf(condition, sizeof condition, kind_of(&a)->absent, access, access); /* a format of c_kinds */
    fprintf(f, "    %sif (!(%s))\n        %sflx_a[flx_n++] = %s(\"%s\", %s);\n", e->as_struct ? "    " : "", condition,
            e->as_struct ? "    " : "", kind_of(&a)->make, a.name, access);
}

static void write_body(FILE *f, const op_entry *e)
{
    const char *inputs = e->num_operands ? "flx_x" : "NULL"; /* locals have a prefix that no attribute has */
    char count[32];
    int optional = !e->variadic && e->view.min_operands < e->num_operands;
    int scattered = optional && e->num_leading < e->view.min_operands; /* required operands behind optional ones */
    snprintf(count, sizeof count, "%d", e->num_operands);
    fprintf(f, "{\n");
    if (e->view.num_attrs)
        fprintf(f, "    flx_attr flx_a[%u];\n    size_t flx_n = 0;\n", e->view.num_attrs);
    if (e->variadic) {
        inputs = "operands";
        snprintf(count, sizeof count, "num_operands");
    } else if (e->num_operands) {
        fprintf(f, "    flx_val flx_x[%d];\n", e->num_operands);
        for (int i = 0; i < e->num_operands && (!scattered || i < e->num_leading); i++)
            fprintf(f, "    flx_x[%d] = %s;\n", i, e->operand[i]);
    }
    if (optional)
        snprintf(count, sizeof count, "num_operands");
    if (scattered) { /* what is none is left out */
        fprintf(f, "    size_t num_operands = %d;\n", e->num_leading);
        for (int i = e->num_leading; i < e->num_operands; i++)
            fprintf(f, "    if (%s.id)\n        flx_x[num_operands++] = %s;\n", e->operand[i], e->operand[i]);
    } else if (optional) { /* absent operands are none at the end */
        fprintf(f,
                "    size_t num_operands = %d;\n    while (num_operands > %d && !flx_x[num_operands - 1].id)\n"
                "        num_operands--;\n",
                e->num_operands, e->view.min_operands);
    }
    if (e->as_struct)
        fprintf(f, "    if (attrs) {\n");
    for (uint32_t i = 0; i < e->view.num_attrs; i++)
        write_attr(f, e, i);
    if (e->as_struct)
        fprintf(f, "    }\n");
    const char *attrs = e->view.num_attrs ? "flx_n ? flx_a : NULL, flx_n" : "NULL, 0";
    if (e->num_results == 1)
        fprintf(f, "    return flx_op1(g, \"%s\", %s, %s, %s);\n", e->view.name, inputs, count, attrs);
    else if (e->num_results < 0)
        fprintf(f, "    return flx_op(g, \"%s\", %s, %s, %s, results, capacity);\n", e->view.name, inputs, count,
                attrs);
    else
        fprintf(f, "    flx_op(g, \"%s\", %s, %s, %s, results, %d);\n", e->view.name, inputs, count, attrs,
                e->num_results);
    fprintf(f, "}\n\n");
}

static void write_header(FILE *f)
{
    fputs(header_head, f);
    write_attr_maker(f, "int", "int64_t ", "INT", "i");
    write_attr_maker(f, "real", "double ", "REAL", "r");
    write_attr_maker(f, "word", "const char *", "WORD", "s");
    write_attr_maker(f, "string", "const char *", "STRING", "s");
    write_attr_maker(f, "ints", "flx_ints ", "INTS", "ints");
    write_attr_maker(f, "pairs", "flx_ints ", "PAIRS", "ints");
    write_attr_maker(f, "reals", "flx_reals ", "REALS", "reals");
    write_attr_maker(f, "type", "const flx_type *", "TYPE", "type");
    write_attr_maker(f, "types", "flx_types ", "TYPES", "types");
    write_attr_maker(f, "graph", "const flx_graph *", "GRAPH", "graph");
    write_attr_maker(f, "graphs", "flx_graphs ", "GRAPHS", "graphs");
    write_attr_maker(f, "tensor", "const flx_tensor *", "TENSOR", "tensor");
    fputs(header_tail, f);
    const char *family = "";
    for (size_t i = 0; i < flx_op_count(); i++) {
        op_entry e = read_op(i);
        if (is_declared(&e))
            continue;
        if (strcmp(family, e.view.family) != 0)
            fprintf(f, "\n/* ---- %s ---- */\n\n", e.view.family);
        family = e.view.family;
        if (e.as_struct)
            write_struct(f, &e);
        fprintf(f, "/** %s */\n", e.view.doc);
        write_signature(f, &e);
        write_body(f, &e);
    }
    fputs("FLX_END_DECLS\n#endif\n", f);
}

/* ---- The manual ---- */

static void write_dtypes(FILE *f, uint32_t set)
{
    static const struct {
        uint32_t bits;
        const char *name;
    } groups[] = {{0x1e, "floats"}, {0x60, "complex"}, {0x780, "signed"}, {0x7800, "unsigned"}, {0x8000, "bool"}};
    const char *separator = "";
    uint32_t all = 0;
    for (size_t i = 0; i < 5; i++)
        all |= groups[i].bits;
    if ((set & all) == all) {
        fputs("all", f);
        return;
    }
    for (size_t i = 0; i < 5; i++) {
        if ((set & groups[i].bits) == groups[i].bits) {
            fprintf(f, "%s%s", separator, groups[i].name);
            separator = ", ";
            set &= ~groups[i].bits;
        }
    }
    for (int d = 1; d < FLX_DTYPE_COUNT; d++)
        if (set >> d & 1) {
            fprintf(f, "%s%s", separator, flx_dtype_name(d));
            separator = ", ";
        }
}

static void write_manual_attrs(FILE *f, const op_entry *e)
{
    for (uint32_t i = 0; i < e->view.num_attrs; i++) {
        flx_attr_view a;
        flx_op_attr(e->view.name, i, &a);
        if (a.positional)
            fprintf(f, "%s%s", i || e->num_operands ? ", " : "", a.name);
        else if (a.required)
            fprintf(f, "%s%s", i || e->num_operands ? ", " : "", a.name);
        else
            fprintf(f, "%s%s=%s", i || e->num_operands ? ", " : "", a.name, a.fallback);
    }
}

static void write_manual(FILE *f)
{
    fputs("<!-- Generated from src/ops/ by script/generate; do not edit. -->\n"
          "# Ops\n\n"
          "Every op as it is written in text: operands, then attributes; `=` gives the default, an attribute without "
          "one must\n"
          "be given. `x...` is any number of operands, `[x]` one that may be left out. Operands share one dtype out of "
          "those\n"
          "listed, except those with a role: `:index` any integer dtype (or floats that hold integers), `:pred` "
          "anything\n"
          "nonzero, `:key` a u32[2], `:int` any integer dtype, `:any` as the op says. `flx ops NAME` prints one row.\n",
          f);
    const char *family = "";
    for (size_t i = 0; i < flx_op_count(); i++) {
        op_entry e = read_op(i);
        if (strcmp(family, e.view.family) != 0)
            fprintf(f, "\n## %s\n\n| op | result | dtypes | meaning |\n|---|---|---|---|\n", e.view.family);
        family = e.view.family;
        fprintf(f, "| `%s(%s", e.view.name, e.view.operands);
        write_manual_attrs(f, &e);
        fprintf(f, ")` | `%s` | ", e.view.results);
        write_dtypes(f, e.view.dtypes);
        fputs(" | ", f);
        for (const char *s = e.view.doc; *s; s++)
            fprintf(f, *s == '|' ? "\\|" : "%c", *s);
        fputs(" |\n", f);
    }
    fputs("\n## Second names\n\nRead, never printed.\n\n| second name | op |\n|---|---|\n", f);
    const char *synonym;
    const char *name;
    for (size_t i = 0; flx_op_synonym(i, &synonym, &name) == FLX_OK; i++)
        fprintf(f, "| `%s` | `%s` |\n", synonym, name);
}

static void write_errors(FILE *f)
{
    fputs("<!-- Generated from include/fluxion/types.h by script/generate; do not edit. -->\n"
          "# Errors\n\n"
          "Every failure is a value: a code, a message that names the thing, the place, and where it helps a hint. The "
          "library\n"
          "never aborts, exits or prints. The last column is the exit status of `flx`.\n\n"
          "| code | number | meaning | exit status |\n|---|---|---|---|\n",
          f);
#define ERROR_ROW(name, value, status, text) fprintf(f, "| `FLX_E_%s` | %d | %s | %d |\n", #name, value, text, status);
    FLX_ERROR_MAP(ERROR_ROW)
}

/* ---- Files ---- */

static int write_file(const char *dir, const char *path, void (*write)(FILE *))
{
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    FILE *f = fopen(full, "w");
    if (!f) {
        perror(full);
        return 3;
    }
    write(f);
    if (ferror(f) | fclose(f)) {
        perror(full);
        return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr,
                "usage: flx_gen DIR   (writes DIR/include/fluxion/ops.h, DIR/docs/ops.md, DIR/docs/errors.md)\n");
        return 2;
    }
    int status = write_file(argv[1], "include/fluxion/ops.h", write_header);
    status |= write_file(argv[1], "docs/ops.md", write_manual);
    return status | write_file(argv[1], "docs/errors.md", write_errors);
}
