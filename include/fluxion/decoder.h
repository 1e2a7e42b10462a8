/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/decoder.h: language models from GGUF files: the tokens of texts, and the logits of the next token.
   Experimental. */
#ifndef FLUXION_DECODER_H
#define FLUXION_DECODER_H

#include <fluxion/gguf.h>
#include <fluxion/run.h>

FLX_BEGIN_DECLS

/* ---- Tokens ---- */

/* The tokens of a model: how texts are divided is part of its file. Threads may share it. */
typedef struct flx_vocabulary flx_vocabulary;

/** From the keys tokenizer.ggml.*: byte pairs ("gpt2"), SentencePiece with merges by score ("llama") or by the most
    probable division ("t5"). UNSUPPORTED for other models, NAME when the file has none. It holds what it needs of the
    file. Free with flx_vocabulary_free(). */
FLX_API flx_vocabulary *flx_vocabulary_new(const flx_gguf *f, flx_error *err);
FLX_API void flx_vocabulary_free(flx_vocabulary *v);          /* NULL is fine */
FLX_API int64_t flx_vocabulary_size(const flx_vocabulary *v); /* tokens */
/** What the file lacks, so that texts may get other tokens than its author meant: an unknown division of texts before
    byte pairs are joined (that of gpt-2 is used), or no list of control tokens. NULL: nothing. */
FLX_API const char *flx_vocabulary_warning(const flx_vocabulary *v);

/* Flags of flx_vocabulary_encode(). */
enum {
    FLX_ENCODE_ENDS = 1,    /* adds the tokens of the beginning and the end of a text, as the file says */
    FLX_ENCODE_CONTROLS = 2 /* names of control tokens, such as <|im_end|>, are these tokens; text otherwise */
};

/** The tokens of a text, i32 [n], in O(n log n). Bytes that are not UTF-8 are encoded byte by byte. */
FLX_API flx_tensor *flx_vocabulary_encode(const flx_vocabulary *v, const char *text, size_t size, uint32_t flags,
                                          flx_error *err);
/** The text of tokens; control tokens have none. INDEX for a number that is not a token. */
FLX_API flx_code flx_vocabulary_decode(const flx_vocabulary *v, const int32_t *tokens, size_t count, flx_buffer *out,
                                       flx_error *err);
/** The token of this name, -1 when there is none. */
FLX_API int32_t flx_vocabulary_find(const flx_vocabulary *v, const char *name);
/** Whether a text ends with this token: the end of a text, or of a turn. */
FLX_API int flx_vocabulary_is_end(const flx_vocabulary *v, int32_t token);

/* ---- Logits ---- */

/* A model and the tokens that it has seen. Calls for one of them must not overlap. */
typedef struct flx_decoder flx_decoder;

typedef struct flx_decoder_options {
    uint32_t struct_size; /* sizeof(flx_decoder_options) */
    int32_t threads;      /* 0: one for each core; results do not depend on it */
    int64_t context;      /* tokens that it may see; 0: what the model was made for, at most 4096 */
    flx_stop *stop;       /* NULL, or ends what it does, with CANCELLED */
    /* 8: products with packed weights of integers (q4_0 to q8_0, q2_k to q6_k, iq4, tq2_0) round the other side to 8
       bits in blocks, as llama.cpp does, which is about twice as fast; 32: they do not. 0: 8 */
    int32_t activation_bits;
    int32_t reserved; /* 0 */
} flx_decoder_options;

/** A decoder of the architecture that the file names: llama (also mistral), qwen2, qwen3, gemma, gemma2, gemma3, phi3,
    starcoder2, stablelm, granite, olmo2. Weights are used as they are in the file, without a copy. UNSUPPORTED for
    other architectures, NAME when a tensor is missing, SHAPE when one does not fit. Free with flx_decoder_free(). */
FLX_API flx_decoder *flx_decoder_new(const flx_gguf *f, const flx_decoder_options *options, flx_error *err);
FLX_API void flx_decoder_free(flx_decoder *d); /* NULL is fine */

FLX_API int64_t flx_decoder_vocabulary(const flx_decoder *d); /* logits of a token */
FLX_API int64_t flx_decoder_context(const flx_decoder *d);    /* tokens that it may see */
FLX_API int64_t flx_decoder_seen(const flx_decoder *d);       /* tokens that it has seen */

/** Shows it further tokens and writes the logits of what follows the last of them, flx_decoder_vocabulary() numbers;
    logits may be NULL. INDEX for a number that is not a token, SIZE when the context is full: nothing is changed. */
FLX_API flx_code flx_decoder_feed(flx_decoder *d, const int32_t *tokens, size_t count, float *logits, flx_error *err);
/** Forgets all tokens after the first `count`, 0: all. */
FLX_API void flx_decoder_rewind(flx_decoder *d, int64_t count);

/** The graph of a step; it belongs to the decoder: flx_graph_retain() keeps it. Inputs: tokens i32 [T], position, the
    number of tokens before them, and last, the row whose logits are returned; then keys and values of each block
    [1, C, width]. Outputs: logits [1, vocabulary], then the new keys and values. Parameters are the tensors of the
    file, by their names. */
FLX_API flx_graph *flx_decoder_graph(const flx_decoder *d);

/* ---- Whole texts ---- */

/* Flags of flx_text_graph_options. */
enum {
    FLX_TEXT_LOSS =
        1 /* the graph has the input next i32 [T], the tokens that should follow, and its output 0 is the loss,
                         the mean of their cross entropies; the logits are output 1 */
};

typedef struct flx_text_graph_options {
    uint32_t struct_size;    /* sizeof(flx_text_graph_options) */
    uint32_t flags;          /* FLX_TEXT_… */
    int32_t adapter_rank;    /* of the adapters of the products in blocks; 0: there are none */
    int32_t activation_bits; /* as in flx_decoder_options, but 0: 32 */
    double adapter_scale;    /* times what an adapter adds; 0: 1 */
} flx_text_graph_options;

/** The graph of a whole text, without caches: the input tokens i32 [T], the output logits f32 [T, vocabulary], of what
    follows each token. It can be differentiated. Parameters are the tensors of the file, by their names; matrices
    stay packed, u8 [rows, bytes of a row]. With adapter_rank r a product of a block with the matrix NAME also adds
    adapter_scale (x A^T) B^T: parameters NAME.lora_a f32 [r, numbers of a row] and NAME.lora_b [rows, r], which begins
    as zero. Errors as of flx_decoder_new(). */
FLX_API flx_graph *flx_text_graph(const flx_gguf *f, const flx_text_graph_options *options, flx_error *err);
/** The value of such a parameter in the file; NULL with NAME when it does not have it, as of adapters. */
FLX_API flx_tensor *flx_text_param(const flx_gguf *f, const flx_graph *g, const char *name, flx_error *err);

/* ---- Sampling ---- */

typedef struct flx_sampling {
    uint32_t struct_size; /* sizeof(flx_sampling) */
    int32_t top_k;        /* draws from that many of the most likely tokens only; 0: all */
    double top_p;         /* … and from the fewest that have this probability together; 0 or 1: all */
    double min_p;         /* … and from those with at least this part of the greatest probability; 0: all */
    double temperature;   /* 0: the most likely token; 1: as the model says; above: more varied */
} flx_sampling;

/** Draws a token from logits; *state is the state of the random numbers, at first the seed. Equal logits, options and
    states give equal tokens; of equal logits the lower number comes first. -1 with an error: NUMERIC when no logit is
    finite. */
FLX_API int32_t flx_sample_token(flx_context *ctx, const float *logits, int64_t count, const flx_sampling *options,
                                 uint64_t *state, flx_error *err);

FLX_END_DECLS
#endif
