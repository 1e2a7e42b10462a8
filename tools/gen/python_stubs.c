/* SPDX-License-Identifier: Apache-2.0 */
/* python_stubs.c: python/fluxion/ops.pyi, the signatures of the functions that the Python package has for the ops,
   for editors and type checkers. Attributes are optional where they have a default; a required attribute after
   an optional parameter is given by name. */
#include "op_row.h"

#include <string.h>

static const struct {
    const char *kind, *type;
} types[] = {
    {"int", "int"},
    {"bool", "bool"},
    {"real", "float"},
    {"word", "str"},
    {"dtype", "_DType"},
    {"dim", "int"},
    {"ints", "Sequence[int]"},
    {"bools", "Sequence[bool]"},
    {"dims", "Sequence[int]"},
    {"pairs", "Sequence[Any]"},
    {"reals", "Sequence[float]"},
    {"string", "str"},
};

static const char *type_of(const char *kind)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].kind, kind) == 0)
            return types[i].type;
    }
    return "Any";
}

/* Names that Python reserves get an underscore, as in the package. */
static const char *after(const char *name)
{
    static const char *const words[] = {"and", "or", "not", "if", "while", "else", "from", "lambda"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i], name) == 0)
            return "_";
    }
    return "";
}

static int write_operands(FILE *f, const op_row *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        const char *name = op->operand[i];
        if (op->variadic) {
            fprintf(f, "*%s: _Operand", op->operand[0]);
            return 1;
        }
        int optional = i >= op->num_leading;
        fprintf(f, "%s%s%s: _Operand%s", i ? ", " : "", name, after(name), optional ? " | None = None" : "");
    }
    return op->num_operands > 0;
}

static void write_attributes(FILE *f, const op_row *op, int has_operands)
{
    int named = op->variadic; /* whether what follows is given by name */
    int optional = op->num_leading < op->num_operands;
    for (int required = 1; required >= 0; required--) {
        for (uint32_t i = 0; i < op->view.num_attrs; i++) {
            flx_attr_view a;
            if (flx_op_attr(op->view.name, i, &a) != FLX_OK || a.required != required)
                continue;
            if (!named && required && optional) {
                fprintf(f, "%s*", has_operands ? ", " : "");
                has_operands = named = 1;
            }
            fprintf(f, "%s%s%s: %s%s", has_operands ? ", " : "", a.name, after(a.name), type_of(a.kind),
                    required ? "" : " | None = None");
            has_operands = 1;
        }
    }
}

void write_python_stubs(FILE *f)
{
    fprintf(f, "# SPDX-License-Identifier: Apache-2.0\n"
               "# Generated from the op table by script/generate; do not edit.\n"
               "\"\"\"Every op of the library as a function.\"\"\"\n\n"
               "from typing import Any, Sequence\n\n"
               "from . import Array, DType\n\n"
               "_Operand = Any\n"
               "_DType = DType | str | type\n\n");
    for (size_t i = 0; i < flx_op_count(); i++) {
        op_row op = read_op(i);
        fprintf(f, "def %s%s(", op.view.name, after(op.view.name));
        int has_operands = write_operands(f, &op);
        write_attributes(f, &op, has_operands);
        fprintf(f, ") -> %s: ...\n", op.num_results == 1 ? "Array" : op.num_results < 0 ? "Any" : "tuple[Array, ...]");
    }
}
