/* SPDX-License-Identifier: Apache-2.0 */
/* bytecode.h: StableHLO programs in binary form, read into the same tree as text (syntax/syntax.h).

   A portable artifact is MLIR bytecode of VHLO, the versioned form of StableHLO: what JAX hands to a backend, and what
   .mlirbc files and `jax.export` hold. The bytes are treated as untrusted. */
#ifndef FLXI_STABLEHLO_BYTECODE_H
#define FLXI_STABLEHLO_BYTECODE_H

#include "base/strbuf.h"
#include "stablehlo/syntax/syntax.h"

/* Whether the bytes begin as MLIR bytecode does. */
bool flxi_hlo_is_bytecode(const char *bytes, size_t length);

/* The bytecode within a file written by jax.export; {NULL, 0} when the bytes are not such a file. */
typedef struct {
    const char *at;
    size_t length;
} flxi_hlo_artifact;
flxi_hlo_artifact flxi_hlo_exported_by_jax(const char *bytes, size_t length);

/* Reads a portable artifact. The tree refers to the bytes (names, large constants), which must outlive it. Errors carry
   FILE:OFFSET in err->where. On failure *out holds nothing. */
flx_code flxi_hlo_read_bytecode(const flxi_allocator *mem, const char *bytes, size_t length, const char *file,
                                hlo_module *out, flx_error *err);

/* Writes the program as a portable artifact. Operations of other dialects than StableHLO are UNSUPPORTED. */
flx_code flxi_hlo_write_bytecode(const hlo_module *m, flxi_strbuf *out, flx_error *err);

#endif
