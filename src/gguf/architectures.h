/* SPDX-License-Identifier: Apache-2.0 */
/* architectures.h: what is known about the decoders that files name, and the sizes that a file gives them. */
#ifndef FLXI_ARCHITECTURES_H
#define FLXI_ARCHITECTURES_H

#include "gguf/gguf_file.h"

typedef enum { ROTATE_NEIGHBOURS, ROTATE_HALVES } flxi_rotation;

/* One row of architectures.def. */
typedef struct {
    const char *name;
    flxi_rotation rotation; /* which numbers of a head are rotated together: 2i and 2i + 1, or i and i + n / 2 */
    const char *activation; /* an op */
    bool is_layer_norm;     /* layer_norm instead of rms_norm */
    bool scales_embedding;  /* by the root of the width */
    int local_layers;       /* of every local_layers + 1 blocks all but the last attend to a window only; 0: as
                               sliding_window says, all or none */
    double local_theta;     /* base of the rotation in those blocks; 0: the same as in others */
} flxi_architecture;

/* The sizes of a model. */
typedef struct {
    const flxi_architecture *facts;
    int64_t context, width, blocks, vocabulary;
    int64_t heads, kv_heads, head_dim, rotated;                           /* rotated: numbers of a head */
    int64_t window;                                                       /* 0: none */
    double eps, theta, theta_scale;                                       /* positions are divided by theta_scale */
    double attention_softcap, final_softcap;                              /* 0: none */
    double embedding_scale, residual_scale, logit_scale, attention_scale; /* 1, 1, 1 and 0 where there is none */
} flxi_model_sizes;

flx_code flxi_model_sizes_read(const flx_gguf *f, flxi_model_sizes *out, flx_error *err);

/* Whether block i attends to a window only. */
bool flxi_is_local(const flxi_model_sizes *m, int64_t i);

#endif
