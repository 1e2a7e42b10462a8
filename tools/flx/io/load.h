/* SPDX-License-Identifier: Apache-2.0 */
/* load.h: the file a command works on. */
#ifndef FLX_LOAD_H
#define FLX_LOAD_H

#include "args.h"

#include <fluxion/decoder.h>
#include <fluxion/onnx.h>
#include <stdbool.h>

/* The bytes of a file, or of standard input for "-". The caller frees data. */
typedef struct {
    char *data;
    size_t size;
} file_bytes;

/* Their binary forms begin with these four bytes. */
#define GRAPH_MAGIC "FLXB"
#define KERNEL_MAGIC "FLXK"
#define GGUF_MAGIC "GGUF"
#define BYTECODE_MAGIC \
    "ML\xef"           \
    "R" /* MLIR bytecode */

int file_read(const char *path, file_bytes *out);
bool begins_with(const file_bytes *bytes, const char magic[4]);
const char *file_name(const char *path); /* for messages */

/* Where the parameters of a graph file are kept: m.safetensors for m.flx, allocated; NULL when memory is exhausted. */
char *weights_path(const char *path);
/* The file that has them, allocated: that one, or weights.safetensors beside the model.flx of a training folder. The
   former's name where there is neither; NULL when memory is exhausted. */
char *weights_find(const char *path);

/* A context in which one tensor may take what the machine has; NULL when memory is exhausted. It listens for
   tell_slow() and tell_unsolved(). */
flx_context *new_context(void);

/* Says in one line on standard error what was compiled or run in a slower way than usual, if anything was; once. */
void tell_slow(void);
/* The same of equations that were not solved to their tol. */
void tell_unsolved(void);

typedef struct {
    const char *path; /* as given; "-" is standard input */
    const char *name; /* the same for messages */
    flx_context *ctx;
    flx_module *module;
    flx_graph *graph;    /* the main one, or that of --graph */
    bool is_chosen;      /* --graph named it */
    flx_onnx *onnx;      /* of an ONNX model: the values of its parameters; else NULL */
    flx_gguf *gguf;      /* of a language model … */
    flx_tensor **values; /* … its tensors, by inputs of the graph */
    flx_buffer mesh;     /* of a StableHLO program: "data=2,model=2"; empty where it names none */
    bool lost_rules;     /* a program of JAX that says nothing of stopped gradients and rules of its functions */
} model;

/* Reads text, the binary form, StableHLO, ONNX or GGUF, whichever the file holds. Close with model_close(), also after
   a failure. */
int model_open(model *m, const char *path);
/* Opens the operand and takes the graph of --graph, where the command has that option. */
int model_open_chosen(model *m, const args *a);
/* The same with the inputs of an ONNX model that --fix gives as constants, and the --activation-bits of a language
   model. */
int model_open_fixed(model *m, const args *a);
/* The number that --activation-bits gives: 8 or 32, 0 where it is not given. */
int activation_bits_read(const args *a, int32_t *out);
/* The value that the file of the model has for a parameter, borrowed; NULL: none. */
flx_tensor *model_param(const model *m, const char *name);
/* The same of bytes that were read from the file already. */
int model_read(model *m, const char *path, const file_bytes *bytes);
void model_close(model *m);

#endif
