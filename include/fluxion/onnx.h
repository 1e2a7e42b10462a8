/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/onnx.h: models in the ONNX format (.onnx), as graphs. Experimental. */
#ifndef FLUXION_ONNX_H
#define FLUXION_ONNX_H

#include <fluxion/run.h>
#include <fluxion/text.h>

FLX_BEGIN_DECLS

/* A model: a graph, and the values that the file has for its parameters. */
typedef struct flx_onnx flx_onnx;

/* Flags of flx_onnx_options. */
enum {
    FLX_ONNX_CONSTANTS = 1 /* initialisers are constants of the graph, not parameters */
};

typedef struct flx_onnx_options {
    uint32_t struct_size;   /* sizeof(flx_onnx_options); 0: the layout of version 0.2 */
    uint32_t flags;         /* FLX_ONNX_CONSTANTS or 0 */
    const flx_feed *inputs; /* inputs of the model that are constants from now on, by their names in the file or in the
                               graph: needed where a shape follows from the value of an input, and for texts, which
                               are u8 with one more axis: the bytes of each, filled up with zeros */
    size_t num_inputs;
    const flx_dim_binding *dims; /* extents for names of dimensions in the file */
    size_t num_dims;
    const char *folder; /* flx_onnx_decode: where files of external data are; NULL: they are refused */
} flx_onnx_options;

/** Reads a model. Its inputs become inputs of the graph, in order of the file. Floating initialisers with at least one
    axis become parameters; other initialisers are constants. Characters of names that our names cannot have become `_`.
    Named dimensions are symbolic. An operation that is not known, or that needs a value which is not known before the
    run, is FLX_E_UNSUPPORTED and names it. External data is read from the folder of the file and below it, never from
    elsewhere. On failure NULL, with FILE:OFFSET in err->where. Free with flx_onnx_free(). */
FLX_API flx_onnx *flx_onnx_read(flx_context *ctx, const char *path, const flx_onnx_options *options, flx_error *err);
/** The same of bytes in memory; `file` names them in errors (NULL: "model"). They are not needed afterwards. */
FLX_API flx_onnx *flx_onnx_decode(flx_context *ctx, const void *bytes, size_t size, const char *file,
                                  const flx_onnx_options *options, flx_error *err);
FLX_API void flx_onnx_free(flx_onnx *m); /* NULL is fine */

/** The graph; it belongs to the model: flx_graph_retain() keeps it. */
FLX_API flx_graph *flx_onnx_graph(const flx_onnx *m);

/** A new module whose only graph it is; free with flx_module_free(). NULL when memory is exhausted. */
FLX_API flx_module *flx_onnx_module(const flx_onnx *m, flx_error *err);

/** The parameters of the graph, in order of declaration: how many; name and value of one of them, NULL when out of
    range. They live as long as the model; flx_tensor_retain() keeps a value. */
FLX_API size_t flx_onnx_param_count(const flx_onnx *m);
FLX_API const char *flx_onnx_param_name(const flx_onnx *m, size_t i);
FLX_API flx_tensor *flx_onnx_param_value(const flx_onnx *m, size_t i);

/** The bytes of an ONNX model (version 21 of the standard domain) that computes `g`. Parameters and inputs for which
    `params` has a value are initialisers, the others inputs. An op that ONNX does not have is decomposed; where that
    does not help, it is FLX_E_UNSUPPORTED and named. Symbolic extents are kept where the operation allows it. */
FLX_API flx_code flx_onnx_encode(const flx_graph *g, const flx_feed *params, size_t num_params, flx_buffer *out,
                                 flx_error *err);

/** A tensor in the form of ONNX (TensorProto), as the test data of ONNX has them. The name is not read. */
FLX_API flx_tensor *flx_onnx_tensor_decode(flx_context *ctx, const void *bytes, size_t size, const char *file,
                                           flx_error *err);

FLX_END_DECLS
#endif
