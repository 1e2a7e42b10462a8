/* SPDX-License-Identifier: Apache-2.0 */
/* best_path.c: divides a text into the tokens whose scores, logarithms of probabilities, have the greatest sum (Kudo,
   "Subword regularization", 2018), by dynamic programming over the ends of tokens. A character that no token covers
   costs more than any token, and becomes the unknown token or its bytes. */
#include "base/text/utf8.h"
#include "gguf/tokens/vocabulary.h"

#include <math.h>

typedef struct {
    double score;
    uint32_t from; /* where its last token begins */
    int32_t token; /* -1: a character without one */
} step;

static size_t character_length(const char *s, size_t n)
{
    size_t length = flxi_utf8_length(s, n);
    return length ? length : 1;
}

static void improve(step *s, double score, uint32_t from, int32_t token)
{
    if (score > s->score)
        *s = (step){score, from, token};
}

static void find_steps(const flx_vocabulary *v, const char *s, size_t n, step *steps)
{
    const double penalty = 10;
    for (size_t i = 1; i <= n; i++)
        steps[i].score = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (steps[i].score == -INFINITY)
            continue; /* inside of a character */
        size_t most = n - i < v->longest ? n - i : v->longest;
        for (size_t size = 1; size <= most; size++) {
            int32_t token = flxi_vocabulary_lookup(v, s + i, size);
            if (token >= 0 && (v->tokens[token].type == TOKEN_NORMAL || v->tokens[token].type == TOKEN_USER))
                improve(&steps[i + size], steps[i].score + (double)v->tokens[token].score, (uint32_t)i, token);
        }
        size_t size = character_length(s + i, n - i);
        improve(&steps[i + size], steps[i].score + (double)v->least_score - penalty, (uint32_t)i, -1);
    }
}

/* Appends the tokens of the path, last first, then turns them round. Neighbouring unknown characters are one token. */
static bool append_path(const flx_vocabulary *v, const char *s, size_t n, const step *steps, flxi_token_list *out)
{
    size_t first = out->n;
    int32_t unknown = v->roles[ROLE_UNK];
    bool ok = true;
    for (size_t i = n; ok && i > 0; i = steps[i].from) {
        const step *p = &steps[i];
        if (p->token >= 0) {
            ok = flxi_push(v->mem, out, p->token);
        } else if (v->bytes[(unsigned char)s[p->from]] >= 0) {
            for (size_t k = i; ok && k > p->from; k--)
                ok = v->bytes[(unsigned char)s[k - 1]] < 0 || flxi_push(v->mem, out, v->bytes[(unsigned char)s[k - 1]]);
        } else if (unknown >= 0 && (out->n == first || out->at[out->n - 1] != unknown)) {
            ok = flxi_push(v->mem, out, unknown);
        }
    }
    for (size_t a = first, b = out->n; ok && a + 1 < b; a++, b--) {
        int32_t t = out->at[a];
        out->at[a] = out->at[b - 1];
        out->at[b - 1] = t;
    }
    return ok;
}

flx_code flxi_best_path(const flx_vocabulary *v, const char *s, size_t n, flxi_token_list *out, flx_error *err)
{
    step *steps = flxi_alloc(v->mem, n + 1, sizeof *steps);
    if (!steps)
        return flxi_oom(err, "the tokens of a text");
    find_steps(v, s, n, steps);
    bool ok = append_path(v, s, n, steps, out);
    flxi_free(v->mem, steps, n + 1, sizeof *steps);
    return ok ? FLX_OK : flxi_oom(err, "the tokens of a text");
}
