/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.h: the tokens of a model. Texts of tokens are in the memory of the file, which the vocabulary holds. */
#ifndef FLXI_VOCABULARY_H
#define FLXI_VOCABULARY_H

#include "base/hash.h"
#include "gguf/gguf_file.h"
#include "gguf/tokens/merge_symbols.h"

#include <fluxion/decoder.h>

/* What tokenizer.ggml.token_type says. */
enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_USER = 4, TOKEN_UNUSED = 5, TOKEN_BYTE = 6 };

typedef enum { VOCABULARY_PAIRS, VOCABULARY_SCORES, VOCABULARY_PATHS } flxi_vocabulary_kind;

/* Roles that keys of the file give to tokens. */
typedef enum { ROLE_BOS, ROLE_EOS, ROLE_UNK, ROLE_EOT, ROLE_EOM, NUM_ROLES } flxi_token_role;

typedef struct {
    const char *text;
    uint32_t size;
    float score;
    uint8_t type;
} flxi_token;

struct flx_vocabulary {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_gguf_image *image;
    flxi_vocabulary_kind kind;
    flxi_token *tokens;
    size_t count;
    flxi_index by_text;
    flxi_index by_pair; /* of VOCABULARY_PAIRS: from two tokens to a position in joins */
    flxi_join *joins;
    size_t num_joins;
    FLXI_VEC(int32_t) specials; /* tokens that are found in texts before these are divided, longest first */
    int32_t roles[NUM_ROLES];
    int32_t bytes[256]; /* the token of a byte, or -1 */
    bool adds_bos, adds_eos, adds_space;
    bool splits_digits; /* how words are divided before pairs are joined: */
    int digits;         /* at most that many in a piece; 0: any number */
    bool is_gpt2;       /* the older division */
    float least_score;
    uint32_t longest;  /* bytes of a token */
    char warning[160]; /* empty: none */
};

/* The token with this text, -1 when there is none. */
int32_t flxi_vocabulary_lookup(const flx_vocabulary *v, const char *text, size_t size);

/* ---- Dividing words (word_split.c) ---- */

/* The length of the piece at the beginning of s, where n is not 0. */
size_t flxi_word_length(const flx_vocabulary *v, const char *s, size_t n);

/* ---- Most probable division (best_path.c) ---- */

typedef FLXI_VEC(int32_t) flxi_token_list;

flx_code flxi_best_path(const flx_vocabulary *v, const char *s, size_t n, flxi_token_list *out, flx_error *err);

#endif
