/* SPDX-License-Identifier: Apache-2.0 */
/* nn.h: parts of networks, as ordinary functions over a graph. They only append ops: a layer declares
   its parameters in the graph under names that begin with its own ("encoder.0.w"), with their initialisation, and
   returns a value. What they build is differentiated, batched, printed and compiled like anything else. Errors stick in
   the graph, as everywhere: check once.

   Layers take activations of any rank [..., width]; sequences are [N, S, width], images [N, C, spatial...] with one to
   three spatial axes. Parameters have the dtype of x. An activation is the name of an op of one operand that keeps its
   type ("relu", "gelu", "silu" …), NULL for none. Options may be NULL: defaults for all. Sizes must be positive; a name
   that is NULL and an argument out of range are USAGE, a tensor of another shape is SHAPE.

   States, such as the statistics of a batch norm, are parameters `p` for which the layer adds an output `new_<p>`: what
   training assigns to them. flx_output() puts all other outputs before them. docs/nn.md has the formulas. */
#ifndef FLUXION_NN_H
#define FLUXION_NN_H

#include <fluxion/graph.h>
#include <fluxion/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Linear layers ---- */

/** act(x w + b): parameters `name`.w [width of x, units] and `name`.b [units]. */
FLX_API flx_val flx_nn_linear(flx_graph *g, const char *name, flx_val x, int64_t units, const char *activation);
/** The same without b. */
FLX_API flx_val flx_nn_project(flx_graph *g, const char *name, flx_val x, int64_t units);

/** Linear layers `name`.0, `name`.1 …, with the activation between them and none after the last. */
FLX_API flx_val flx_nn_mlp(flx_graph *g, const char *name, flx_val x, const int64_t *units, size_t count,
                           const char *activation);

/** Rows of `name`.table [count, width] by integer indices: [..., width]. */
FLX_API flx_val flx_nn_embedding(flx_graph *g, const char *name, flx_val indices, int64_t count, int64_t width,
                                 flx_dtype dtype);

/** The op of this name on x; x itself where it is NULL. */
FLX_API flx_val flx_nn_activate(flx_graph *g, flx_val x, const char *activation);

/* ---- Random numbers ---- */

/** A key u32[2] for the random ops of this step. The state `name` holds the key from which it is derived, and which
    becomes another one with every training step. Each use of the same key gives the same numbers: one key per layer. */
FLX_API flx_val flx_nn_key(flx_graph *g, const char *name);

/** x with a part `rate` of its elements zero and the others scaled up; key is u32[2], a new one for every step. With
    FLX_NONE as key it is x itself, as in inference. */
FLX_API flx_val flx_nn_dropout(flx_graph *g, flx_val x, flx_val key, double rate);

/* ---- Convolution and pooling ----

   Of images. Lists have one number for all spatial axes, or one for each; of paddings also two for each, low and
   high. */

typedef struct flx_nn_conv_options {
    uint32_t struct_size;   /* sizeof(flx_nn_conv_options); 0: the layout of version 0.2 */
    int32_t no_bias;        /* without b */
    flx_ints kernel;        /* extents of the window; absent: 3, of flx_nn_conv_transpose() 2 */
    flx_ints stride;        /* absent: 1, of flx_nn_conv_transpose() 2 */
    flx_ints dilation;      /* distance of the window's elements; absent: 1 */
    flx_ints padding;       /* absent: what keeps the extents at stride 1, of flx_nn_conv_transpose() 0 */
    flx_ints extra;         /* of flx_nn_conv_transpose(): added to the high ends of the result; absent: 0 */
    int64_t groups;         /* 0: 1; as many as x has channels: a depthwise convolution */
    const char *activation; /* NULL: none */
} flx_nn_conv_options;

/** act(conv(x) + b): parameters `name`.w [channels, C / groups, kernel...] and `name`.b [channels]. */
FLX_API flx_val flx_nn_conv(flx_graph *g, const char *name, flx_val x, int64_t channels,
                            const flx_nn_conv_options *options);
/** The transposed convolution, which enlarges: parameters `name`.w [C, channels / groups, kernel...] and `name`.b. */
FLX_API flx_val flx_nn_conv_transpose(flx_graph *g, const char *name, flx_val x, int64_t channels,
                                      const flx_nn_conv_options *options);

typedef struct flx_nn_pool_options {
    uint32_t struct_size;    /* sizeof(flx_nn_pool_options); 0: the layout of version 0.2 */
    int32_t exclude_padding; /* of flx_nn_avg_pool(): the mean of the elements of x alone */
    flx_ints kernel;         /* extents of the window; absent: 2 */
    flx_ints stride;         /* absent: kernel */
    flx_ints padding;        /* absent: 0; smaller than the window */
} flx_nn_pool_options;

FLX_API flx_val flx_nn_max_pool(flx_graph *g, flx_val x, const flx_nn_pool_options *options);
FLX_API flx_val flx_nn_avg_pool(flx_graph *g, flx_val x, const flx_nn_pool_options *options);
/** Means over windows that cover x evenly: [N, C, sizes...], for static extents. `sizes`: one for all axes or one each.
 */
FLX_API flx_val flx_nn_adaptive_avg_pool(flx_graph *g, flx_val x, flx_ints sizes);
/** The mean and the maximum over all spatial axes: [N, C]. */
FLX_API flx_val flx_nn_global_avg_pool(flx_graph *g, flx_val x);
FLX_API flx_val flx_nn_global_max_pool(flx_graph *g, flx_val x);

typedef struct flx_nn_unet_options {
    uint32_t struct_size;   /* sizeof(flx_nn_unet_options); 0: the layout of version 0.2 */
    int32_t reserved;       /* must be 0 */
    int64_t norm_groups;    /* of the group norm after each convolution; 0: none */
    const char *activation; /* NULL: "relu" */
} flx_nn_unet_options;

/** Two convolutions `name`.conv1 and `name`.conv2 of window 3 (with `name`.norm1, `name`.norm2), whose result goes to
    *skip; then the maximum over windows of 2. */
FLX_API flx_val flx_nn_unet_down(flx_graph *g, const char *name, flx_val x, int64_t channels,
                                 const flx_nn_unet_options *options, flx_val *skip);
/** The way back: `name`.up doubles the extents of x, the channels of `skip` follow its own, then two convolutions. */
FLX_API flx_val flx_nn_unet_up(flx_graph *g, const char *name, flx_val x, flx_val skip, int64_t channels,
                               const flx_nn_unet_options *options);

/* ---- Norms; eps 0: 1e-5 ---- */

/** `name`.gamma and `name`.beta of the width of x's last axis. */
FLX_API flx_val flx_nn_layer_norm(flx_graph *g, const char *name, flx_val x, double eps);
/** `name`.gamma only. */
FLX_API flx_val flx_nn_rms_norm(flx_graph *g, const char *name, flx_val x, double eps);
/** Of images, over the spatial axes and the channels of a group; `name`.gamma and `name`.beta [C]. */
FLX_API flx_val flx_nn_group_norm(flx_graph *g, const char *name, flx_val x, int64_t groups, double eps);
/** The same with as many groups as channels. */
FLX_API flx_val flx_nn_instance_norm(flx_graph *g, const char *name, flx_val x, double eps);

typedef struct flx_nn_batch_norm_options {
    uint32_t struct_size; /* sizeof(flx_nn_batch_norm_options); 0: the layout of version 0.2 */
    int32_t is_training;  /* by the batch's own statistics, which also update the running ones; 0: by the latter */
    double momentum;      /* weight of the batch in the running statistics; 0: 0.1 */
    double eps;           /* 0: 1e-5 */
} flx_nn_batch_norm_options;

/** Of x [N, C] or [N, C, spatial...], per channel: parameters `name`.gamma, `name`.beta, states `name`.mean and
    `name`.var [C], which are f32 where x is narrower. The running variance is that of a sample (over n - 1). */
FLX_API flx_val flx_nn_batch_norm(flx_graph *g, const char *name, flx_val x, const flx_nn_batch_norm_options *options);

/* ---- Attention ---- */

/* Keys and values [N, capacity, kv_heads * head_dim] of the tokens so far. */
typedef struct flx_nn_cache {
    flx_val keys, values;
} flx_nn_cache;

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
    flx_val position;      /* integer scalar: the position of the first token of x; FLX_NONE: 0 */
    flx_nn_cache *cache;   /* not NULL: the keys and values of x are put at its positions, *cache becomes the new
                              values, and attention is to all tokens up to the last of x, or as mask_kind says */
} flx_nn_attention_options;

/** Attention of x [N, S, width] to `context` [N, T, any width] (FLX_NONE: to itself), projected back to the width of x.
    Parameters `name`.q, .k, .v, .o, each with .w and .b. A cache must have room for all tokens: positions beyond it
    are put at its end, where they replace others. */
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
    flx_val context;                           /* [N, T, any width]: attention to it follows that to x itself */
    const flx_nn_attention_options *cross;     /* of the attention to the context; NULL: as `attention`, no mask */
    flx_val key;                               /* of the dropout; FLX_NONE: none */
    double dropout;                            /* rate, on what each part adds to its input */
} flx_nn_block_options;

/** A transformer block: attention and a feed-forward network, each added to what goes into it. Parameters of
    `name`.attention, `name`.up, `name`.down (and `name`.gate), `name`.norm1, `name`.norm2. With a context it is the
    block of a decoder: `name`.cross comes between the two, with `name`.norm2, and the network has `name`.norm3. */
FLX_API flx_val flx_nn_transformer_block(flx_graph *g, const char *name, flx_val x,
                                         const flx_nn_block_options *options);

typedef struct flx_nn_gpt_options {
    uint32_t struct_size; /* sizeof(flx_nn_gpt_options); 0: the layout of version 0.2 */
    int32_t is_decoding;  /* a step of generating text: what it has seen is kept in states */
    int64_t vocabulary;   /* tokens; 0: 256, for bytes */
    int64_t width;        /* numbers of a token; 0: 96 */
    int64_t layers;       /* blocks; 0: 3 */
    int64_t heads;        /* of the attention; 0: 4 */
    int64_t context;      /* of is_decoding: the tokens that the states have room for; 0: 64 */
    int32_t dtype;        /* of parameters and logits; 0: f32 */
    int32_t reserved;     /* 0 */
} flx_nn_gpt_options;

/** A decoder of tokens [N, S], integers: the logits [N, S, vocabulary] of the token after each of them. Embedding,
    blocks with rotary positions, rms norms and gated networks, and a projection, without biases: parameters of
    `name`.tokens, `name`.block0 …, `name`.norm, `name`.head; an empty name is left out. With is_decoding the tokens
    follow those of earlier steps, whose number, keys and values are the states `name`.position, `name`.keys0,
    `name`.values0 …; all others are the same parameters (flx_generate()). */
FLX_API flx_val flx_nn_gpt(flx_graph *g, const char *name, flx_val tokens, const flx_nn_gpt_options *options);

typedef struct flx_nn_moe_options {
    uint32_t struct_size;   /* sizeof(flx_nn_moe_options); 0: the layout of version 0.2 */
    int32_t no_bias;        /* experts without b */
    int64_t top_k;          /* experts for each token; 0: 2, or 1 where there is only one */
    int64_t hidden;         /* width inside an expert; 0: 4 times x's */
    const char *activation; /* NULL: "gelu" */
} flx_nn_moe_options;

/** A mixture of `experts` feed-forward networks of x [..., width]: each token gets the sum of its top_k experts,
    weighted by the softmax of their logits. All experts are computed for all tokens. Parameters `name`.gate.w [width,
    experts], `name`.up.w [experts, width, hidden], `name`.up.b, `name`.down.w, `name`.down.b. *balance (if it is not
    NULL) gets a scalar loss, 1 where all experts are used alike and more otherwise. */
FLX_API flx_val flx_nn_moe(flx_graph *g, const char *name, flx_val x, int64_t experts,
                           const flx_nn_moe_options *options, flx_val *balance);

/* ---- Positions ---- */

/** [length, width] of sines and cosines: sin(p f_i) in the even columns, cos(p f_i) in the odd ones, f_i = theta^(-2i /
    width); theta 0: 10000. */
FLX_API flx_val flx_nn_sinusoids(flx_graph *g, flx_dim length, int64_t width, double theta, flx_dtype dtype);
/** The tables [length, head_dim / 2] that the op rope takes, for the positions from `position`, an integer scalar, on;
    FLX_NONE: from 0. theta 0: 10000. */
FLX_API void flx_nn_rope_tables(flx_graph *g, flx_dim length, flx_val position, int64_t head_dim, double theta,
                                flx_dtype dtype, flx_val *cosines, flx_val *sines);

/* ---- Recurrence ----

   Sequences x [N, S, width]; the result is the sequence of states [N, S, units], of both directions [N, S, 2 units],
   computed by a scan. Parameters are `name`.w, `name`.u …; those of several layers `name`.0.w, `name`.1.w …; those of
   the direction from the end `name`.reverse.w or `name`.0.reverse.w. */

typedef struct flx_nn_recurrent_options {
    uint32_t struct_size;     /* sizeof(flx_nn_recurrent_options); 0: the layout of version 0.2 */
    int32_t is_bidirectional; /* a second pass from the end; the next layer gets both results */
    int32_t is_reverse;       /* from the end only */
    int32_t reserved;         /* must be 0 */
    int64_t layers;           /* 0: 1; each takes the result of the one before */
    flx_val lengths;          /* integers [N]: the steps of each sequence, others are padding: the state stays as it
                                 is, and the result is 0. FLX_NONE: all */
    flx_val hidden;           /* initial states [layers * directions, N, units]; FLX_NONE: 0 */
    flx_val cell;             /* of flx_nn_lstm(), likewise */
} flx_nn_recurrent_options;

/* Final states [layers * directions, N, units], the directions of a layer next to each other. */
typedef struct flx_nn_recurrent_state {
    flx_val hidden;
    flx_val cell; /* of flx_nn_lstm(); otherwise none */
} flx_nn_recurrent_state;

/** h' = tanh(x w + h u + b). `last` (in all three) may be NULL. */
FLX_API flx_val flx_nn_rnn(flx_graph *g, const char *name, flx_val x, int64_t units,
                           const flx_nn_recurrent_options *options, flx_nn_recurrent_state *last);
/** Gates r, z and candidate n in the columns of w, u [.., 3 units]: n = tanh(x w_n + b_n + r (h u_n + c_n)),
    h' = (1 - z) n + z h. Parameters .w, .u, .b, .c. */
FLX_API flx_val flx_nn_gru(flx_graph *g, const char *name, flx_val x, int64_t units,
                           const flx_nn_recurrent_options *options, flx_nn_recurrent_state *last);
/** Gates i, f, candidate g, gate o in the columns of w, u [.., 4 units]: c' = f c + i g, h' = o tanh(c'). */
FLX_API flx_val flx_nn_lstm(flx_graph *g, const char *name, flx_val x, int64_t units,
                            const flx_nn_recurrent_options *options, flx_nn_recurrent_state *last);

typedef struct flx_nn_mamba_options {
    uint32_t struct_size; /* sizeof(flx_nn_mamba_options); 0: the layout of version 0.2 */
    int32_t reserved;     /* must be 0 */
    int64_t inner;        /* width of the recurrence; 0: twice x's */
    int64_t states;       /* per inner channel; 0: 16 */
    int64_t kernel;       /* of the causal convolution; 0: 4 */
    int64_t rank;         /* of the step sizes; 0: x's width / 16, rounded up */
} flx_nn_mamba_options;

/** A Mamba block: a selective state space of x [N, S, width], by a scan, gated and projected back to the width.
    Parameters `name`.in, `name`.conv, `name`.select, `name`.step, `name`.out, `name`.a and `name`.d. */
FLX_API flx_val flx_nn_mamba(flx_graph *g, const char *name, flx_val x, const flx_nn_mamba_options *options);

/* ---- Losses: scalars, the mean over all examples. Values that are compared have one shape: SHAPE otherwise ---- */

FLX_API flx_val flx_nn_mse(flx_graph *g, flx_val y, flx_val target);
FLX_API flx_val flx_nn_mae(flx_graph *g, flx_val y, flx_val target);
/** Quadratic up to delta, which is positive, linear beyond. */
FLX_API flx_val flx_nn_huber(flx_graph *g, flx_val y, flx_val target, double delta);
/** logits [..., C], labels [...]; `smoothing` of the weight, 0 to 1, is spread over all classes. */
FLX_API flx_val flx_nn_cross_entropy(flx_graph *g, flx_val logits, flx_val labels, double smoothing);
/** -log_probs[i, labels[i]] for log_probs [N, C]. */
FLX_API flx_val flx_nn_nll(flx_graph *g, flx_val log_probs, flx_val labels);
/** Targets between 0 and 1, of the shape of logits. */
FLX_API flx_val flx_nn_bce_with_logits(flx_graph *g, flx_val logits, flx_val target);
/** The same, weighted by (1 - p_t)^gamma, where p_t is the probability of the target, and by alpha for targets of 1 and
    1 - alpha for those of 0. alpha 0: unweighted, gamma 0: 2. */
FLX_API flx_val flx_nn_focal(flx_graph *g, flx_val logits, flx_val target, double alpha, double gamma);
/** 1 - (2 sum p t + smooth) / (sum p + sum t + smooth) of each example, for p [N, ...] between 0 and 1. smooth 0: 1. */
FLX_API flx_val flx_nn_dice(flx_graph *g, flx_val p, flx_val target, double smooth);
/** max(0, 1 - y target), targets -1 or 1. */
FLX_API flx_val flx_nn_hinge(flx_graph *g, flx_val y, flx_val target);
/** 1 - cos(y, target) along the last axis. */
FLX_API flx_val flx_nn_cosine(flx_graph *g, flx_val y, flx_val target);
/** max(0, |anchor - positive| - |anchor - negative| + margin), norms along the last axis. margin 0: 1. */
FLX_API flx_val flx_nn_triplet(flx_graph *g, flx_val anchor, flx_val positive, flx_val negative, double margin);
/** InfoNCE of a, b [N, width]: row i of b is the match of row i of a among all rows. Cosines divided by `temperature`,
    which is positive. */
FLX_API flx_val flx_nn_contrastive(flx_graph *g, flx_val a, flx_val b, double temperature);
/** (log var + (mean - target)² / var) / 2, where var is at least eps; eps 0: 1e-6. */
FLX_API flx_val flx_nn_gaussian_nll(flx_graph *g, flx_val mean, flx_val target, flx_val var, double eps);
/** exp(log_rate) - target log_rate. */
FLX_API flx_val flx_nn_poisson_nll(flx_graph *g, flx_val log_rate, flx_val target);
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
