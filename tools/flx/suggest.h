/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.h: guessing what a misspelt word was meant to be. */
#ifndef FLX_SUGGEST_H
#define FLX_SUGGEST_H

typedef struct {
    const char *word; /* what was typed */
    const char *best; /* the candidate nearest to it, or NULL when none is near */
    int distance;
} suggestion;

suggestion suggest_begin(const char *word);
void suggest_consider(suggestion *s, const char *candidate);

#endif
