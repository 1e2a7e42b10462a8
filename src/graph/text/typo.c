/* SPDX-License-Identifier: Apache-2.0 */
/* typo.c: see typo.h. The distance is that of Levenshtein without regard to case; longer words than LONGEST are not
   looked at, so the work for a candidate is bounded. */
#include "graph/text/typo.h"

enum { LONGEST = 40 };

static char small_letter(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* The usual table of the distances between all prefixes, one row at a time. */
static size_t edits_between(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        row[i] = i;
    for (size_t k = 1; k <= m; k++) {
        size_t diagonal = row[0];
        row[0] = k;
        for (size_t i = 1; i <= n; i++) {
            size_t change = diagonal + (small_letter(a[i - 1]) != small_letter(b[k - 1]));
            size_t other = 1 + (row[i] < row[i - 1] ? row[i] : row[i - 1]);
            diagonal = row[i];
            row[i] = change < other ? change : other;
        }
    }
    return row[n];
}

flxi_typo flxi_typo_begin(const char *word, size_t n, size_t most)
{
    return (flxi_typo){.word = word, .n = n, .most = most + 1};
}

/* How many letters the word and a candidate begin with: of candidates as near, the one that begins alike was meant. */
static size_t common(const flxi_typo *t, const char *candidate, size_t n)
{
    size_t k = 0;
    while (k < n && k < t->n && small_letter(t->word[k]) == small_letter(candidate[k]))
        k++;
    return k;
}

bool flxi_typo_consider(flxi_typo *t, const char *candidate, size_t n)
{
    if (!n || t->n > LONGEST || n > LONGEST)
        return false;
    size_t edits = edits_between(t->word, t->n, candidate, n);
    bool is_alike = t->best && edits == t->most && common(t, candidate, n) > common(t, t->best, t->best_n);
    if (edits >= t->most && !is_alike)
        return false;
    t->most = edits;
    t->best = candidate;
    t->best_n = n;
    return true;
}
