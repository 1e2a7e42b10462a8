/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/stablehlo.h: programs as StableHLO text (.mlir) and bytecode (.mlirbc), in and out. */
#ifndef FLUXION_STABLEHLO_H
#define FLUXION_STABLEHLO_H

#include <fluxion/text.h>

FLX_BEGIN_DECLS

/** Reads StableHLO: text, a portable artifact (MLIR bytecode of StableHLO 1.0 to 1.17), or a file written by
    `jax.export`, which holds one. Errors in bytecode carry FILE:OFFSET, and the line of the original program in their
    message where the bytes name it. `file` names it in errors (NULL: "text"). The module's main graph is @main, or the
    only public function; functions that it calls become part of it. Arguments are inputs arg0, arg1 …, results are
    out0, out1 …;
    calls of check.expect_eq, expect_close and expect_almost_eq become checks that a run makes (FLX_E_CHECK). Calls back
    into Python (jax.debug.print, io_callback, pure_callback) are calls of the operations fluxion.callback, which has an
    effect, and fluxion.pure_callback, with an attribute `id`, if the context has them (fluxion/custom.h); else those
    without results are left out, and the others end a run that reaches them with FLX_E_CHECK. What is
    valid but not known here is FLX_E_UNSUPPORTED and names the operation. On failure NULL, with FILE:LINE:COL in
    err->where. */
FLX_API flx_module *flx_import_stablehlo(flx_context *ctx, const char *text, size_t length, const char *file,
                                         flx_error *err);

enum {
    /** Arguments are called as in the program that the text was made from, where their locations say so:
        loc("params['layers'][0]['w']") is the input params.layers.0.w. A name that is taken gets a `_`. */
    FLX_STABLEHLO_NAMES = 1
};

/** The same with flags FLX_STABLEHLO_…. */
FLX_API flx_module *flx_import_stablehlo_with(flx_context *ctx, const char *text, size_t length, const char *file,
                                              uint32_t flags, flx_error *err);

/** The mesh of devices that the program is written for, as flx_mesh_join() and flx_partition() take it:
    "data=2,model=2"; empty where there is none. With a mesh, shardings (sdy.sharding, mhlo.sharding) are imported as
    ops `shard` where an axis of a value is cut along axes of the mesh in their order, and left out otherwise; manual
    computations (shard_map of JAX) become the part of each process with its exchanges, so that the graph runs on that
    mesh alone. Axes without names are called axis0, axis1 … */
FLX_API flx_code flx_stablehlo_mesh(flx_context *ctx, const char *text, size_t length, const char *file,
                                    flx_buffer *out, flx_error *err);

/** Writes `g` as a StableHLO module whose @main takes the inputs and parameters of `g` in order of declaration and
    returns its outputs. An op without counterpart is written as its decomposition; one that has none is
    FLX_E_UNSUPPORTED, and so is a symbolic dimension: flx_specialise() first. */
FLX_API flx_code flx_export_stablehlo(const flx_graph *g, flx_buffer *out, flx_error *err);

/** The same as a portable artifact of StableHLO 1.4.0 (.mlirbc), which `jax.export` and other compilers read. An
    operation of CHLO (erf, lgamma, asin …) has no portable form: FLX_E_UNSUPPORTED. */
FLX_API flx_code flx_export_stablehlo_bytecode(const flx_graph *g, flx_buffer *out, flx_error *err);

FLX_END_DECLS
#endif
