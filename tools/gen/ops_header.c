/* SPDX-License-Identifier: Apache-2.0 */
/* ops_header.c: include/fluxion/ops.h. An op without attributes is an inline function over flx_op(). An op with
   attributes is a struct of them, the value of that struct in which all are absent, an inline function that takes the
   struct, and for C a macro that makes the struct of its last arguments: flx_argmax(g, x, .axis = 1). */
#include "op_row.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lines of at most 120 columns ---- */

enum { MAX_COLUMNS = 120, TEXT_SIZE = 8192 };

typedef struct {
    char text[TEXT_SIZE];
    size_t size;
} line;

static void put(line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->size, TEXT_SIZE - l->size, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= TEXT_SIZE - l->size) {
        fprintf(stderr, "flx_gen: a line is longer than %d characters\n", TEXT_SIZE);
        exit(3);
    }
    l->size += (size_t)n;
}

/* Writes the text and a line break, broken at blanks; later lines begin with `indent` blanks, and lines that continue
   end with `more`. */
static void write_line(FILE *f, line *l, int indent, const char *more)
{
    const char *s = l->text;
    size_t room = MAX_COLUMNS - strlen(more);
    while (strlen(s) > room) {
        size_t n = room;
        while (n > 0 && s[n] != ' ')
            n--;
        if (n == 0)
            n = strcspn(s, " ");
        fprintf(f, "%.*s%s\n%*s", (int)n, s, more, indent, "");
        s += n + (s[n] == ' ');
        room = MAX_COLUMNS - strlen(more) - (size_t)indent;
    }
    fprintf(f, "%s\n", s);
    l->size = 0;
    l->text[0] = 0;
}

/* ---- Attributes as C ---- */

typedef struct {
    const char *kind;
    const char *type;   /* of the field */
    const char *absent; /* the value that means absent */
    const char *given;  /* the condition under which the field says something; %s is the field */
    const char *make;   /* the helper that makes the flx_attr */
    int is_number;      /* 0 may be meant: only a struct without its size takes it for absent */
} c_kind;

static const c_kind c_kinds[] = {
    {"int", "int64_t ", "FLX_DEFAULT", "%s != FLX_DEFAULT", "flx_attr_int", 1},
    {"dim", "flx_dim ", "FLX_DEFAULT", "%s != FLX_DEFAULT", "flx_attr_int", 1},
    {"bool", "int ", "-1", "%s >= 0", "flx_attr_int", 1},
    {"real", "double ", "NAN", "%s == %s", "flx_attr_real", 1},
    {"word", "const char *", "NULL", "%s", "flx_attr_word", 0},
    {"dtype", "flx_dtype ", "FLX_DTYPE_NONE", "%s != FLX_DTYPE_NONE", "flx_attr_dtype", 0},
    {"ints", "flx_ints ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_ints", 0},
    {"bools", "flx_ints ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_ints", 0},
    {"dims", "flx_ints ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_ints", 0},
    {"pairs", "flx_ints ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_pairs", 0},
    {"reals", "flx_reals ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_reals", 0},
    {"string", "const char *", "NULL", "%s", "flx_attr_string", 0},
    {"type", "const flx_type *", "NULL", "%s", "flx_attr_type", 0},
    {"types", "flx_types ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_types", 0},
    {"graph", "const flx_graph *", "NULL", "%s", "flx_attr_graph", 0},
    {"graphs", "flx_graphs ", "{NULL, 0}", "FLX_LISTED_(%s)", "flx_attr_graphs", 0},
    {"combine", "flx_combine ", "{NULL, NULL}", "(%s.word || %s.graph)", "flx_attr_combine", 0},
    {"data", "const flx_tensor *", "NULL", "%s", "flx_attr_tensor", 0},
    {"value", "const flx_tensor *", "NULL", "%s", "flx_attr_tensor", 0},
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

static flx_attr_view attr_at(const op_row *e, uint32_t i)
{
    flx_attr_view a;
    flx_op_attr(e->view.name, i, &a);
    return a;
}

static const char *upper_name(const op_row *e)
{
    static char upper[NAME_SIZE];
    size_t n = strlen(e->view.name);
    for (size_t i = 0; i <= n; i++)
        upper[i] = (char)toupper((unsigned char)e->view.name[i]);
    return upper;
}

/* ---- The top of the header ---- */

static const char head[] =
    "/* SPDX-License-Identifier: Apache-2.0\n"
    "   Generated from src/ops/ by script/generate; do not edit.\n"
    "\n"
    "   fluxion/ops.h: one function per op. Each appends a node to the graph and returns its result. Operands come "
    "first. An\n"
    "   op with several results writes them to an array after the operands and returns how many there are, 0 on error. "
    "Errors\n"
    "   stay in the graph: flx_graph_error(). docs/ops.md describes the ops.\n"
    "\n"
    "   Attributes come last. In C they are written by name, or by position in the order of ops.md:\n"
    "       y = flx_argmax(g, x, .axis = 0);\n"
    "       y = flx_softmax(g, x);                 defaults for all\n"
    "   In C++, and for attributes that are computed, fill the struct and call the function that takes it (NULL: "
    "defaults):\n"
    "       flx_argmax_attrs attrs = FLX_ARGMAX_ATTRS;\n"
    "       attrs.axis = 0;\n"
    "       y = flx_argmax_with(g, x, &attrs);\n"
    "   FLX_<OP>_ATTRS sets every attribute to absent, which is FLX_DEFAULT for integers, -1 for flags, NAN for reals "
    "and\n"
    "   zero for everything else; an absent attribute takes the default given in its comment. A struct that is all "
    "zero "
    "is\n"
    "   accepted too: while struct_size is 0, a number that is 0 is absent as well, so 0 itself needs "
    "FLX_<OP>_ATTRS.\n"
    "\n"
    "   All of this is inline over flx_op(), so no symbol of the library depends on the set of ops. */\n"
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

static void write_attr_makers(FILE *f)
{
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
}

static const char tools[] =
    "\nstatic inline flx_attr flx_attr_dtype(const char *key, flx_dtype v)\n"
    "{\n"
    "    return flx_attr_int(key, (int64_t)v);\n"
    "}\n"
    "\n"
    "static inline flx_attr flx_attr_combine(const char *key, flx_combine v)\n"
    "{\n"
    "    return v.graph ? flx_attr_graph(key, v.graph) : flx_attr_word(key, v.word);\n"
    "}\n"
    "\n"
    "static inline flx_val flx_op1(flx_graph *g, const char *op, const flx_val *in, size_t n, const flx_attr *attrs,\n"
    "                              size_t num_attrs)\n"
    "{\n"
    "    flx_val y;\n"
    "    y.id = 0;\n"
    "    y.graph = 0;\n"
    "    flx_op(g, op, in, n, attrs, num_attrs, &y, 1);\n"
    "    return y;\n"
    "}\n"
    "\n"
    "/* ---- Reading structs of attributes ---- */\n"
    "\n"
    "/* Whether the struct is long enough to have the field; a number is absent too where it is 0 and the size is. */\n"
    "#define FLX_LISTED_(list) ((list).v || (list).n)\n"
    "#define FLX_HAS_(type, field) \\\n"
    "    (attrs && (attrs->struct_size == 0 || attrs->struct_size >= offsetof(type, field) + sizeof attrs->field))\n"
    "#define FLX_HAS_NUMBER_(type, field) (FLX_HAS_(type, field) && (attrs->struct_size != 0 || attrs->field != 0))\n"
    "\n"
    "/* Structs of this version need no check; whether another size is accepted is decided by the library. */\n"
    "#ifdef __cplusplus\n"
    "#define FLX_ALIGNMENT_(type) alignof(type)\n"
    "#else\n"
    "#define FLX_ALIGNMENT_(type) _Alignof(type)\n"
    "#endif\n"
    "#define FLX_CHECK_SIZE_(type) \\\n"
    "    ((void)(attrs && attrs->struct_size != 0 && attrs->struct_size != sizeof(type) && \\\n"
    "            flx_attrs_check(g, attrs, #type, sizeof(type), FLX_ALIGNMENT_(type))))\n"
    "\n"
    "/* The macros list every attribute as absent and then the caller's, which override them: exactly what is meant, "
    "but "
    "what\n"
    "   compilers warn about. */\n"
    "#if defined(__clang__)\n"
    "#define FLX_QUIET_ \\\n"
    "    _Pragma(\"clang diagnostic push\") _Pragma(\"clang diagnostic ignored \\\"-Winitializer-overrides\\\"\") \\\n"
    "        _Pragma(\"clang diagnostic ignored \\\"-Wshadow\\\"\")\n"
    "#define FLX_LOUD_ _Pragma(\"clang diagnostic pop\")\n"
    "#elif defined(__GNUC__)\n"
    "#define FLX_QUIET_ \\\n"
    "    _Pragma(\"GCC diagnostic push\") _Pragma(\"GCC diagnostic ignored \\\"-Woverride-init\\\"\") \\\n"
    "        _Pragma(\"GCC diagnostic ignored \\\"-Wshadow\\\"\") \\\n"
    "        _Pragma(\"GCC diagnostic ignored \\\"-Wmissing-field-initializers\\\"\")\n"
    "#define FLX_LOUD_ _Pragma(\"GCC diagnostic pop\")\n"
    "#endif\n"
    "#if defined(__GNUC__)\n"
    "#define FLX_BUILT_(type, call) __extension__({ FLX_QUIET_ type flx_result_ = call; FLX_LOUD_ flx_result_; })\n"
    "#else\n"
    "#define FLX_BUILT_(type, call) call\n"
    "#endif\n";

/* ---- One op ---- */

static void write_struct(FILE *f, const op_row *e)
{
    char name[NAME_SIZE];
    line l = {0};
    fprintf(f, "typedef struct flx_%s_attrs {\n    uint32_t struct_size; /* sizeof(flx_%s_attrs) */\n", e->view.name,
            e->view.name);
    for (uint32_t i = 0; i < e->view.num_attrs; i++) {
        flx_attr_view a = attr_at(e, i);
        put(&l, "    %s%s; /* %s%s%s */", kind_of(&a)->type, c_name(a.name, name),
            a.required ? "must be given" : a.fallback, a.words[0] ? "; of: " : "", a.words);
        write_line(f, &l, 8, "");
    }
    fprintf(f, "} flx_%s_attrs;\n", e->view.name);
    put(&l, "#define FLX_%s_ATTRS {sizeof(flx_%s_attrs)", upper_name(e), e->view.name);
    for (uint32_t i = 0; i < e->view.num_attrs; i++) {
        flx_attr_view a = attr_at(e, i);
        put(&l, ", %s", kind_of(&a)->absent);
    }
    put(&l, "}");
    write_line(f, &l, 4, " \\");
    fputs("\n", f);
}

/* Operands and results as parameters of the function, or as its arguments in the macro. */
static void put_operands(line *l, const op_row *e, int with_types)
{
    put(l, with_types ? "(flx_graph *g" : "((g_)");
    if (e->variadic)
        put(l, with_types ? ", const flx_val *operands, size_t num_operands" : ", (operands_), (num_operands_)");
    for (int i = 0; !e->variadic && i < e->num_operands; i++)
        put(l, with_types ? ", flx_val %s" : ", (%s_)", e->operand[i]);
    if (e->num_results < 0)
        put(l, with_types ? ", flx_val *results, size_t capacity" : ", (results_), (capacity_)");
    else if (e->num_results > 1)
        put(l, with_types ? ", flx_val results[%d]" : ", (results_)", e->num_results);
}

static void write_signature(FILE *f, const op_row *e)
{
    line l = {0};
    put(&l, "static inline %s flx_%s%s", e->num_results == 1 ? "flx_val" : "uint32_t", e->view.name,
        e->view.num_attrs ? "_with" : "");
    int indent = (int)l.size + 1;
    put_operands(&l, e, 1);
    if (e->view.num_attrs)
        put(&l, ", const flx_%s_attrs *attrs", e->view.name);
    put(&l, ")");
    write_line(f, &l, indent, "");
}

static int has_required(const op_row *e)
{
    for (uint32_t i = 0; i < e->view.num_attrs; i++)
        if (attr_at(e, i).required)
            return 1;
    return 0;
}

/* In C++, flx_OP(g, x) or flx_OP(g, x, &attrs). */
static void write_overload(FILE *f, const op_row *e)
{
    line l = {0};
    fputs("#else\n", f);
    put(&l, "static inline %s flx_%s", e->num_results == 1 ? "flx_val" : "uint32_t", e->view.name);
    int indent = (int)l.size + 1;
    put_operands(&l, e, 1);
    put(&l, ", const flx_%s_attrs *attrs%s)", e->view.name, has_required(e) ? "" : " = NULL");
    write_line(f, &l, indent, "");
    fputs("{\n", f);
    put(&l, "    return flx_%s_with(g", e->view.name);
    if (e->variadic)
        put(&l, ", operands, num_operands");
    for (int i = 0; !e->variadic && i < e->num_operands; i++)
        put(&l, ", %s", e->operand[i]);
    put(&l, "%s, attrs);", e->num_results < 0 ? ", results, capacity" : e->num_results > 1 ? ", results" : "");
    write_line(f, &l, 8, "");
    fputs("}\n", f);
}

/* In C, flx_OP(g, x, …): whatever comes after operands and results initialises the struct. Its size is given again at
   the end, so that there is something to give where there is no attribute. Parameters end with an underscore because a
   macro would also replace a field of their name. */
static void write_macro(FILE *f, const op_row *e)
{
    char name[NAME_SIZE];
    const char *upper = upper_name(e);
    line l = {0};
    fputs("#ifndef __cplusplus\n", f);
    put(&l, "#define flx_%s(...) FLX_%s_(__VA_ARGS__, .struct_size = sizeof(flx_%s_attrs))", e->view.name, upper,
        e->view.name);
    write_line(f, &l, 4, " \\");
    put(&l, "#define FLX_%s_(g_", upper);
    if (e->variadic)
        put(&l, ", operands_, num_operands_");
    for (int i = 0; !e->variadic && i < e->num_operands; i++)
        put(&l, ", %s_", e->operand[i]);
    put(&l, "%s", e->num_results < 0 ? ", results_, capacity_" : e->num_results > 1 ? ", results_" : "");
    put(&l, ", ...) FLX_BUILT_(%s, flx_%s_with", e->num_results == 1 ? "flx_val" : "uint32_t", e->view.name);
    put_operands(&l, e, 0);
    put(&l, ", &(flx_%s_attrs){", e->view.name);
    for (uint32_t i = 0; i < e->view.num_attrs; i++) {
        flx_attr_view a = attr_at(e, i);
        if (kind_of(&a)->is_number)
            put(&l, ".%s = %s, ", c_name(a.name, name), kind_of(&a)->absent);
    }
    put(&l, ".struct_size = 0, __VA_ARGS__}))");
    write_line(f, &l, 4, " \\");
    write_overload(f, e);
    fputs("#endif\n\n", f);
}

static void write_attr(FILE *f, const op_row *e, uint32_t i)
{
    char name[NAME_SIZE];
    char field[2 * NAME_SIZE];
    char given[256];
    line l = {0};
    flx_attr_view a = attr_at(e, i);
    const c_kind *k = kind_of(&a);
    snprintf(field, sizeof field, "attrs->%s", c_name(a.name, name));
    snprintf(given, sizeof given, k->given, field, field); /* a format of c_kinds */
    put(&l, "    if (FLX_HAS%s_(flx_%s_attrs, %s) && %s)", k->is_number ? "_NUMBER" : "", e->view.name,
        c_name(a.name, name), given);
    write_line(f, &l, 8, "");
    fprintf(f, "        flx_a[flx_n++] = %s(\"%s\", %s);\n", k->make, a.name, field);
}

/* Operands in the array flx_x; returns the text of their number. Locals have a prefix that no attribute has. */
static const char *write_operands(FILE *f, const op_row *e, char *count, size_t size)
{
    int optional = !e->variadic && e->view.min_operands < e->num_operands;
    int scattered = optional && e->num_leading < e->view.min_operands; /* required operands after optional ones */
    snprintf(count, size, "%d", e->num_operands);
    if (!e->variadic && e->num_operands) {
        fprintf(f, "    flx_val flx_x[%d];\n", e->num_operands);
        for (int i = 0; i < e->num_operands && (!scattered || i < e->num_leading); i++)
            fprintf(f, "    flx_x[%d] = %s;\n", i, e->operand[i]);
    }
    if (scattered) { /* absent operands are left out */
        fprintf(f, "    size_t num_operands = %d;\n", e->num_leading);
        for (int i = e->num_leading; i < e->num_operands; i++)
            fprintf(f, "    if (%s.id)\n        flx_x[num_operands++] = %s;\n", e->operand[i], e->operand[i]);
    } else if (optional) { /* absent operands are none at the end */
        fprintf(f,
                "    size_t num_operands = %d;\n    while (num_operands > %d && !flx_x[num_operands - 1].id)\n"
                "        num_operands--;\n",
                e->num_operands, e->view.min_operands);
    }
    return optional || e->variadic ? "num_operands" : count;
}

static void write_body(FILE *f, const op_row *e)
{
    const char *inputs = e->variadic ? "operands" : e->num_operands ? "flx_x" : "NULL";
    const char *attrs = e->view.num_attrs ? "flx_n ? flx_a : NULL, flx_n" : "NULL, 0";
    char number[32];
    fputs("{\n", f);
    if (e->view.num_attrs)
        fprintf(f, "    flx_attr flx_a[%u];\n    size_t flx_n = 0;\n", e->view.num_attrs);
    const char *count = write_operands(f, e, number, sizeof number);
    if (e->view.num_attrs)
        fprintf(f, "    FLX_CHECK_SIZE_(flx_%s_attrs);\n", e->view.name);
    for (uint32_t i = 0; i < e->view.num_attrs; i++)
        write_attr(f, e, i);
    if (e->num_results == 1)
        fprintf(f, "    return flx_op1(g, \"%s\", %s, %s, %s);\n", e->view.name, inputs, count, attrs);
    else if (e->num_results < 0)
        fprintf(f, "    return flx_op(g, \"%s\", %s, %s, %s, results, capacity);\n", e->view.name, inputs, count,
                attrs);
    else
        fprintf(f, "    return flx_op(g, \"%s\", %s, %s, %s, results, %d);\n", e->view.name, inputs, count, attrs,
                e->num_results);
    fputs("}\n\n", f);
}

static void write_op(FILE *f, const op_row *e)
{
    line l = {0};
    if (e->view.num_attrs)
        write_struct(f, e);
    put(&l, "/** %s */", e->view.doc);
    write_line(f, &l, 4, "");
    write_signature(f, e);
    write_body(f, e);
    if (e->view.num_attrs)
        write_macro(f, e);
}

static int is_declaration(const op_row *e)
{
    return strcmp(e->view.name, "input") == 0 || strcmp(e->view.name, "param") == 0;
}

void write_ops_header(FILE *f)
{
    fputs(head, f);
    write_attr_makers(f);
    fputs(tools, f);
    const char *family = "";
    for (size_t i = 0; i < flx_op_count(); i++) {
        op_row e = read_op(i);
        if (is_declaration(&e))
            continue;
        if (strcmp(family, e.view.family) != 0)
            fprintf(f, "\n/* ---- %s ---- */\n\n", e.view.family);
        family = e.view.family;
        write_op(f, &e);
    }
    fputs("#undef FLX_LISTED_\n", f);
    fputs("#undef FLX_HAS_\n#undef FLX_HAS_NUMBER_\n#undef FLX_CHECK_SIZE_\n#undef FLX_ALIGNMENT_\n", f);
    fputs("\nFLX_END_DECLS\n#endif\n", f);
}
