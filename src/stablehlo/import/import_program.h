/* SPDX-License-Identifier: Apache-2.0 */
/* import_program.h: the two halves of flx_import_stablehlo(), for callers that also need the declared types: reading a
   program into its tree, and importing the tree as a graph. */
#ifndef FLXI_STABLEHLO_IMPORT_PROGRAM_H
#define FLXI_STABLEHLO_IMPORT_PROGRAM_H

#include "stablehlo/syntax/syntax.h"

#include <fluxion/text.h>

enum {
    HLO_IMPORT_CODES = 1, /* arguments and results of @main whose element types are narrower than any dtype are bytes:
                             integers in their low bits, floats as their codes */
    HLO_IMPORT_NAMES = 2, /* arguments of @main are called as in the program that this one was made from */
    HLO_IMPORT_WHOLE = 4  /* shardings outside of manual computations are left out: values there are whole */
};

/* Reads text, bytecode, or a file of jax.export with bytecode in it. Free with flxi_hlo_module_free(). On failure *out
   holds nothing. */
flx_code flxi_hlo_read(flx_context *ctx, const char *bytes, size_t size, const char *file, hlo_module *out,
                       flx_error *err);

/* @main, or the only public function; NULL with an error. */
const hlo_function *flxi_hlo_entry_function(const hlo_module *m, flx_error *err);

/* Whether the program has an operation: of custom calls, one with this target (NULL: any operation of the name). */
bool flxi_hlo_uses(const hlo_module *m, const char *name, const char *target);

/* Its mesh as text: "x=4,y=2" ("": none of several devices). */
enum { HLO_MESH_TEXT = 1024 };
void flxi_hlo_mesh_of_processes(const hlo_module *m, char out[HLO_MESH_TEXT]);

/* How a value is cut among n devices; the caller gives the room. */
typedef struct {
    int64_t *parts;   /* into how many along each axis */
    int64_t *at;      /* for each device in turn which of them it has, by axis */
    int64_t summands; /* 1, or the value is the sum of what that many devices have */
    int64_t *summand; /* for each device which of them it has */
} hlo_tiles;

/* How results of @main whose cuts the program leaves open are cut, as follows from its arguments (import_spread.c): one
   entry each, NULL where nothing follows. False: no memory. */
typedef struct hlo_cuts hlo_cuts;
bool flxi_hlo_spread(const hlo_module *m, const hlo_function *f, flxi_arena *arena, const hlo_cuts **out);

/* That of an argument or result of @main with this dictionary of attributes (NULL: none), or, where they are not NULL,
   of the cuts of flxi_hlo_spread(). False: in a way that is not known. */
bool flxi_hlo_read_tiles_of(const hlo_module *m, const hlo_attr *dict, const hlo_cuts *spread, int rank, int64_t n,
                            hlo_tiles *out);

flx_module *flxi_hlo_import(flx_context *ctx, const hlo_module *program, const char *file, uint32_t flags,
                            flx_error *err);

/* The graph of each process of the program's mesh: cut by flx_partition() as its shardings say, or, where it says
   itself what each process computes, as it is imported. Without a mesh, the whole graph. */
flx_graph *flxi_hlo_process_graph(flx_context *ctx, const hlo_module *program, const char *file, flx_error *err);

#endif
