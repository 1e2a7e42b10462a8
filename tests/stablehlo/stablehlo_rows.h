/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_rows.h: operations of StableHLO as rows of a table: operands, the lines that use them, and what must come
   out. All rows of a table are one program, which runs by the reference evaluator and compiled. */
#ifndef FLX_STABLEHLO_ROWS_H
#define FLX_STABLEHLO_ROWS_H

#include "fault.h"
#include "test.h"

#include <fluxion/exec.h>
#include <fluxion/run.h>
#include <fluxion/stablehlo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_OPERANDS = 5 };

typedef struct {
    const char *name;
    struct {
        const char *type, *value;
    } in[ROW_OPERANDS]; /* %a, %b, %c … */
    const char *lines;  /* define %r */
    const char *type;   /* of %r */
    const char *expected;
    const char *check; /* eq, close, almost_eq; NULL: eq */
} hlo_row;

typedef struct {
    char *data;
    size_t size;
} hlo_text;

enum { HLO_TEXT_ROOM = 1 << 20 };

static inline void add_text(hlo_text *t, const char *fmt, ...) FLX_PRINTF(2, 3);
static inline void add_text(hlo_text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    t->size += (size_t)vsnprintf(t->data + t->size, HLO_TEXT_ROOM - t->size, fmt, args);
    va_end(args);
    CHECK(t->size < HLO_TEXT_ROOM);
}

/* Operands go through a barrier, so that the compiler does not compute with them. */
static inline void add_row(hlo_text *t, const hlo_row *row, size_t number)
{
    add_text(t, "func.func private @row%zu() -> tensor<%s> {\n", number, row->type);
    for (int i = 0; i < ROW_OPERANDS && row->in[i].type; i++)
        add_text(t,
                 "  %%in%d = stablehlo.constant dense<%s> : tensor<%s>\n"
                 "  %%%c = stablehlo.optimization_barrier %%in%d : tensor<%s>\n",
                 i, row->in[i].value, row->in[i].type, "abcde"[i], i, row -> in[i].type);
    add_text(t, "%s\n  return %%r : tensor<%s>\n}\n", row->lines, row->type);
}

static inline void add_check(hlo_text *t, const hlo_row *row, size_t number)
{
    add_text(t,
             "  %%r%zu = func.call @row%zu() : () -> tensor<%s>\n"
             "  %%e%zu = stablehlo.constant dense<%s> : tensor<%s>\n"
             "  stablehlo.custom_call @check.expect_%s(%%r%zu, %%e%zu) {has_side_effect = true} : "
             "(tensor<%s>, tensor<%s>) -> ()\n",
             number, number, row->type, number, row->expected, row->type, row->check ? row->check : "eq", number,
             number, row->type, row->type);
}

static inline void check_program(const char *text, const char *device, const char *name)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_import_stablehlo(ctx, text, strlen(text), name, &err);
    CHECK_MSG(m, "%s: %s: %s", name, err.where, err.message);
    flx_tensor *out = NULL;
    flx_run_options options = {.struct_size = sizeof options, .device = device};
    flx_code code = flx_run(flx_module_main(m), &options, NULL, 0, &out, &err);
    CHECK_MSG(code == FLX_OK, "%s on %s: %s\n%s", name, device, err.message, text);
    flx_tensor_release(out);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

/* Importing fails with OOM, and leaks nothing, at whichever request there is no memory. */
static inline void starve_program(const char *text, const char *name)
{
    for (size_t n = 1;; n++) {
        fault f = {.fail_at = n};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_module *m = ctx ? flx_import_stablehlo(ctx, text, strlen(text), name, &err) : NULL;
        CHECK_MSG(m || !ctx || err.code == FLX_E_OOM, "%s: request %zu: %s: %s", name, n, err.where, err.message);
        flx_module_free(m);
        flx_context_free(ctx);
        CHECK_MSG(fault_is_clean(&f), "%s: request %zu: %zu blocks leaked, %zu errors", name, n, f.live_blocks,
                  f.errors);
        if (!f.failed)
            break;
    }
}

static inline void check_some_rows(const hlo_row *rows, size_t n, const char *device)
{
    hlo_text t = {calloc(1, HLO_TEXT_ROOM), 0};
    CHECK(t.data != NULL);
    for (size_t i = 0; i < n; i++)
        add_row(&t, &rows[i], i);
    add_text(&t, "func.func public @main() -> tensor<f32> {\n");
    for (size_t i = 0; i < n; i++)
        add_check(&t, &rows[i], i);
    add_text(&t, "  %%one = stablehlo.constant dense<1.0> : tensor<f32>\n  return %%one : tensor<f32>\n}\n");
    check_program(t.data, device, n == 1 ? rows->name : "all rows");
    if (n == 1)
        starve_program(t.data, rows->name);
    free(t.data);
}

/* One by one by the reference evaluator, so that a failure names its row; then all at once, compiled. */
static inline void check_rows(const hlo_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_some_rows(&rows[i], 1, "ref");
    check_some_rows(rows, n, "cpu");
}
#define CHECK_ROWS(rows) check_rows((rows), sizeof(rows) / sizeof *(rows))

/* ---- Programs that are refused ---- */

typedef struct {
    const char *arguments; /* of the function */
    const char *line;      /* the second line of the text, with the mistake */
    flx_code code;
    const char *where; /* LINE:COL */
    const char *part;  /* of the message */
} hlo_mistake;

static inline void check_mistakes(const hlo_mistake *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[2000];
        char where[40];
        flx_error err = {0};
        snprintf(text, sizeof text, "func.func @main(%s) {\n%s\nreturn\n}\n", rows[i].arguments, rows[i].line);
        snprintf(where, sizeof where, "t:%s", rows[i].where);
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = flx_import_stablehlo(ctx, text, strlen(text), "t", &err);
        CHECK_MSG(!m, "accepted: %s", rows[i].line);
        CHECK_MSG(err.code == (int32_t)rows[i].code, "%s: code %d: %s", rows[i].line, err.code, err.message);
        CHECK_EQ_STR(err.where, where);
        CHECK_MSG(strstr(err.message, rows[i].part), "%s: %s", rows[i].line, err.message);
        flx_context_free(ctx);
        test_count_case();
    }
}
#define CHECK_MISTAKES(rows) check_mistakes((rows), sizeof(rows) / sizeof *(rows))

#endif
