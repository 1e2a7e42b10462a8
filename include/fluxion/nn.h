/* SPDX-License-Identifier: Apache-2.0 */
/* nn.h: parts of networks, as ordinary functions over a graph. They only append ops: a layer declares
   its parameters in the graph under names that begin with its own ("encoder.0.w"), and returns a value. What they build
   is differentiated, batched, printed and compiled like anything else. Errors stick in the graph, as everywhere: check
   once.

   Layers take activations of any rank [..., width]; sequences are [N, S, width]. Parameters have the dtype of x. An
   activation is the name of an op of one operand that keeps its type ("relu", "gelu", "silu" …), NULL for none. Options
   may be NULL: defaults for all. Sizes must be positive; a name that is NULL and an argument out of range are USAGE. */
#ifndef FLUXION_NN_H
#define FLUXION_NN_H

#include <fluxion/graph.h>
#include <fluxion/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers ---- */

/** act(x w + b): parameters `name`.w [width of x, units] and `name`.b [units]. */
FLX_API flx_val flx_nn_linear(flx_graph *g, const char *name, flx_val x, int64_t units, const char *activation);
/** The same without b. */
FLX_API flx_val flx_nn_project(flx_graph *g, const char *name, flx_val x, int64_t units);

/** Linear layers `name`.0, `name`.1 …, with the activation between them and none after the last. */
FLX_API flx_val flx_nn_mlp(flx_graph *g, const char *name, flx_val x, const int64_t *units, size_t count,
                           const char *activation);

/** `name`.gamma and `name`.beta of the width of x's last axis. */
FLX_API flx_val flx_nn_layer_norm(flx_graph *g, const char *name, flx_val x, double eps);
/** `name`.gamma only. */
FLX_API flx_val flx_nn_rms_norm(flx_graph *g, const char *name, flx_val x, double eps);

/** Rows of `name`.table [count, width] by integer indices: [..., width]. */
FLX_API flx_val flx_nn_embedding(flx_graph *g, const char *name, flx_val indices, int64_t count, int64_t width,
                                 flx_dtype dtype);

typedef struct flx_nn_conv_options {
    uint32_t struct_size;   /* sizeof(flx_nn_conv_options); 0: the layout of version 0.2 */
    uint32_t flags;         /* none yet; must be 0 */
    int64_t kernel;         /* extent along every spatial axis; 0: 3 */
    int64_t stride;         /* 0: 1 */
    int64_t groups;         /* 0: 1 */
    int64_t norm_groups;    /* of a group_norm after the convolution; 0: none */
    const char *activation; /* NULL: none */
} flx_nn_conv_options;

/** act(norm(conv(x) + b)) for x [N, C, spatial...], padded by (kernel - 1) / 2 on both sides. Parameters `name`.w,
    `name`.b, and `name`.gamma, `name`.beta if there is a norm. */
FLX_API flx_val flx_nn_conv_block(flx_graph *g, const char *name, flx_val x, int64_t channels,
                                  const flx_nn_conv_options *options);

/** x with a part `rate` of its elements zero and the others scaled up; key is u32[2], a new one for every step. */
FLX_API flx_val flx_nn_dropout(flx_graph *g, flx_val x, flx_val key, double rate);

/* ---- Attention ---- */

typedef struct flx_nn_attention_options {
    uint32_t struct_size;  /* sizeof(flx_nn_attention_options); 0: the layout of version 0.2 */
    int32_t no_bias;       /* projections without b */
    int64_t heads;         /* 0: 1; must divide the width of x unless head_dim is given */
    int64_t kv_heads;      /* 0: as many as heads; must divide heads */
    int64_t head_dim;      /* 0: width / heads */
    const char *mask_kind; /* of the op attention: NULL is "none"; "causal", "sliding_window", "custom", "bias" */
    int64_t window;        /* of sliding_window */
    flx_val mask;          /* of custom and bias */
    double rope_theta;     /* 0: none; else q and k are rotated by their positions */
} flx_nn_attention_options;

/** Attention of x [N, S, width] to `context` [N, T, any width] (FLX_NONE: to itself), projected back to the width of x.
    Parameters `name`.q, .k, .v, .o, each with .w and .b. */
FLX_API flx_val flx_nn_attention(flx_graph *g, const char *name, flx_val x, flx_val context,
                                 const flx_nn_attention_options *options);

typedef struct flx_nn_block_options {
    uint32_t struct_size;                      /* sizeof(flx_nn_block_options); 0: the layout of version 0.2 */
    int32_t is_post_norm;                      /* norms after the sums instead of before the layers */
    int32_t is_rms;                            /* rms_norm instead of layer_norm */
    int32_t is_gated;                          /* act(x gate) * (x up) instead of act(x up), as in SwiGLU */
    int64_t hidden;                            /* width between the two linear layers; 0: 4 times x's */
    const char *activation;                    /* NULL: "gelu" */
    double eps;                                /* 0: 1e-5 */
    const flx_nn_attention_options *attention; /* NULL: one head */
} flx_nn_block_options;

/** A transformer block: attention and a feed-forward network, each added to what goes into it. Parameters of
    `name`.attention, `name`.up, `name`.down (and `name`.gate), `name`.norm1, `name`.norm2. */
FLX_API flx_val flx_nn_transformer_block(flx_graph *g, const char *name, flx_val x,
                                         const flx_nn_block_options *options);

/* ---- Positions ---- */

/** [length, width] of sines and cosines: sin(p f_i) in the even columns, cos(p f_i) in the odd ones, f_i = theta^(-2i /
    width); theta 0: 10000. */
FLX_API flx_val flx_nn_sinusoids(flx_graph *g, flx_dim length, int64_t width, double theta, flx_dtype dtype);
/** The tables [length, head_dim / 2] that the op rope takes. theta 0: 10000. */
FLX_API void flx_nn_rope_tables(flx_graph *g, flx_dim length, int64_t head_dim, double theta, flx_dtype dtype,
                                flx_val *cosines, flx_val *sines);

/* ---- Recurrence ----

   Sequences x [N, S, width]; the result is the sequence of states [N, S, units], computed by a scan. *last (if it is
   not NULL) gets the last state [N, units]. States start at zero. */

/** h' = tanh(x w + h u + b). */
FLX_API flx_val flx_nn_rnn(flx_graph *g, const char *name, flx_val x, int64_t units, flx_val *last);
/** Gates r, z and candidate n in the columns of w, u [.., 3 units]: n = tanh(x w_n + b_n + r (h u_n + c_n)),
    h' = (1 - z) n + z h. Parameters .w, .u, .b, .c. */
FLX_API flx_val flx_nn_gru(flx_graph *g, const char *name, flx_val x, int64_t units, flx_val *last);
/** Gates i, f, candidate g, gate o in the columns of w, u [.., 4 units]: c' = f c + i g, h' = o tanh(c'). */
FLX_API flx_val flx_nn_lstm(flx_graph *g, const char *name, flx_val x, int64_t units, flx_val *last);

/* ---- Losses: scalars, the mean over all examples. Values that are compared have one shape: SHAPE otherwise ---- */

FLX_API flx_val flx_nn_mse(flx_graph *g, flx_val y, flx_val target);
FLX_API flx_val flx_nn_mae(flx_graph *g, flx_val y, flx_val target);
/** Quadratic up to delta, which is positive, linear beyond. */
FLX_API flx_val flx_nn_huber(flx_graph *g, flx_val y, flx_val target, double delta);
/** logits [N, C], labels [N]; `smoothing` of the weight, 0 to 1, is spread over all classes. */
FLX_API flx_val flx_nn_cross_entropy(flx_graph *g, flx_val logits, flx_val labels, double smoothing);
/** Targets between 0 and 1, of the shape of logits. */
FLX_API flx_val flx_nn_bce_with_logits(flx_graph *g, flx_val logits, flx_val target);
/** Sum over the last axis of p (log p - log_q), the mean over the others; 0 where p is 0. */
FLX_API flx_val flx_nn_kl(flx_graph *g, flx_val p, flx_val log_q);
/** Connectionist temporal classification: log_probs [N, T, C], labels [N, L] (integers, not `blank`), lengths [N] of
    both. The mean of -log p(labels); infinite where the input is too short for its labels. */
FLX_API flx_val flx_nn_ctc(flx_graph *g, flx_val log_probs, flx_val labels, flx_val input_lengths,
                           flx_val label_lengths, int64_t blank);

#ifdef __cplusplus
}
#endif
#endif
