/* SPDX-License-Identifier: Apache-2.0 */
/* manual.c: docs/ops.md, docs/errors.md and docs/other-frameworks.md. */
#include "op_row.h"

#include <string.h>

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

static void write_manual_attrs(FILE *f, const op_row *e)
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

void write_ops_manual(FILE *f)
{
    fputs("<!-- Generated from src/ops/ by script/generate; do not edit. -->\n"
          "# Ops\n\n"
          "Every op as it is written in text: operands, then attributes; `=` gives the default, an attribute without "
          "one must\n"
          "be given. `x...` is any number of operands, `[x]` one that may be left out. Operands share one dtype out of "
          "those\n"
          "listed, except those with a role: `:index` any integer dtype, or floats that hold integers, whose "
          "derivative is\n"
          "zero; `:pred` anything nonzero, `:key` a u32[2], `:int` any integer dtype, `:any` as the op says. `flx ops "
          "NAME`\n"
          "prints one row.\n",
          f);
    const char *family = "";
    for (size_t i = 0; i < flx_op_count(); i++) {
        op_row e = read_op(i);
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

void write_error_manual(FILE *f)
{
    fputs("<!-- Generated from include/fluxion/types.h by script/generate; do not edit. -->\n"
          "# Errors\n\n"
          "Every failure is a value: a code, a message that names the thing, the position, and where it helps a hint. "
          "The "
          "library\n"
          "never aborts, exits or prints. The last column is the exit status of `flx`; a file that it cannot write is "
          "3,\n"
          "one that it cannot read is 2.\n\n"
          "| code | number | meaning | exit status |\n|---|---|---|---|\n",
          f);
#define ERROR_ROW(name, value, status, text)                                    \
    fprintf(f, "| `FLX_E_%s` | %d | %s | %d%s |\n", #name, value, text, status, \
            FLX_E_##name == FLX_E_IO ? " or 3" : "");
    FLX_ERROR_MAP(ERROR_ROW)
}

static void write_cell(FILE *f, const char *text)
{
    for (; *text; text++)
        fprintf(f, *text == '|' ? "\\|" : "%c", *text);
}

void write_foreign_manual(FILE *f)
{
    flx_foreign_view row;
    fputs("<!-- Generated from src/graph/op/foreign_names.def by script/generate; do not edit. -->\n"
          "# Names of other frameworks\n\n"
          "What functions of PyTorch, NumPy, JAX and ONNX are called here: an op ([ops.md](ops.md)), or a function of\n"
          "`fluxion/nn.h` ([nn.md](nn.md)). Case, underscores and the module do not matter: the error message for\n"
          "`torch.nn.MaxPool2d(x)` gives the same answer, and so does `flx ops MaxPool2d`. Names that are the same\n"
          "everywhere (`exp`, `softmax` …) are left out. Where the last column is empty, the op takes the same "
          "operands.\n\n"
          "| there | in | here | how |\n|---|---|---|---|\n",
          f);
    for (size_t i = 0; flx_foreign_name(i, &row) == FLX_OK; i++) {
        int is_function = strncmp(row.ours, "flx_", 4) == 0;
        fprintf(f, row.ours[0] ? "| `%s` | %s | `%s%s` | " : "| `%s` | %s | %s%s | ", row.name, row.frameworks,
                row.ours[0] ? row.ours : "–", is_function ? "()" : "");
        write_cell(f, row.note);
        fputs(" |\n", f);
    }
}
