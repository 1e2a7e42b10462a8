/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h: from a graph to a module that can run. */
#ifndef FLXI_COMPILE_H
#define FLXI_COMPILE_H

#include "compile/program.h"
#include "passes/pass.h"

/* The passes over one graph, without its bodies. */
flx_code flxi_optimise(const flx_graph *g, bool fuses, flx_graph **out, flx_error *err);
/* The i-th of them and its name, or NULL when there are fewer. */
flxi_pass flxi_compile_pass(size_t i, const char **name);

/* The functions of small blocks, which the blocks then know (build_chain.c). */
flx_code flxi_program_chains(flxi_program *m, bool is_scalar, flxi_chain **chains, size_t *n, flx_error *err);

void flxi_program_init(flxi_program *m, flx_context *ctx);
/* A graph of static types. The module is freed with flxi_program_free() whether this succeeds or not. */
flx_code flxi_program_compile(flxi_program *m, const flx_graph *g, flxi_compile_service *s,
                              const flxi_native_options *o, flx_error *err);

#endif
