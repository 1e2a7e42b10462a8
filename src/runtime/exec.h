/* exec.h: executables, for the rest of the runtime. */
#ifndef FLXI_EXEC_H
#define FLXI_EXEC_H

#include "runtime/compile.h"
#include "runtime/lir_run.h"

#include <fluxion/exec.h>

/* flx_run() on device "cpu": compiles, runs once. */
flx_code flxi_run_compiled(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                           flx_tensor **outputs, flx_error *err);

/* A compiled graph of static types. */
typedef struct {
    flxi_module module;
    char note[200]; /* why there is no machine code, or "" */
} flxi_program;

/* With the compiler, or without if it does not work. Freed by flxi_program_free() in any case. */
flx_code flxi_program_make(flxi_program *p, const flx_graph *g, const flx_compile_options *o, flx_error *err);
void flxi_program_free(flxi_program *p);

const char *flxi_step_kind_name(flxi_step_kind kind);
/* The steps as text; explained: with what each computes, and why. */
void flxi_lir_print(const flxi_module *m, const flxi_lir *l, bool is_explained, flxi_strbuf *out);
void flxi_program_report(const flxi_program *p, flxi_strbuf *out);

#endif
