/* SPDX-License-Identifier: Apache-2.0 */
/* typo.h: which of the names that exist a wrong name was meant to be. */
#ifndef FLXI_TYPO_H
#define FLXI_TYPO_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *word; /* n bytes: what was written */
    size_t n;
    const char *best; /* best_n bytes: the nearest candidate so far, or NULL */
    size_t best_n;
    size_t most; /* edits that a candidate may need to be nearer than the best */
} flxi_typo;

/* At most `most` letters may have to be changed, added or removed; case does not count. */
flxi_typo flxi_typo_begin(const char *word, size_t n, size_t most);
/* Whether the candidate, n bytes, is nearer than those before it. */
bool flxi_typo_consider(flxi_typo *t, const char *candidate, size_t n);

#endif
