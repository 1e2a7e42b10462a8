/* SPDX-License-Identifier: Apache-2.0 */
/* merge_sort.c: a bottom-up merge sort. */
#include "numeric/merge_sort.h"

#include "base/host/stop.h"

typedef struct {
    flxi_before before;
    void *user;
} order;

/* Merges from[bounds 0 … 1) and from[bounds 1 … 2); the left one comes first unless the right one must. False when the
   work is stopped. */
static bool merge(const order *o, const int64_t *from, int64_t *to, const int64_t bounds[3])
{
    int64_t left = bounds[0];
    int64_t right = bounds[1];
    for (int64_t k = bounds[0]; k < bounds[2]; k++) {
        if (flxi_stopped_by_now())
            return false;
        bool take_right = left == bounds[1] || (right < bounds[2] && o->before(o->user, from[right], from[left]));
        to[k] = take_right ? from[right++] : from[left++];
    }
    return true;
}

int64_t *flxi_sort_positions(int64_t *v, int64_t *spare, int64_t n, flxi_before before, void *user)
{
    order o = {before, user};
    int64_t *from = v;
    int64_t *to = spare;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = begin + width < n ? begin + width : n;
            int64_t end = middle + width < n ? middle + width : n;
            if (!merge(&o, from, to, (const int64_t[]){begin, middle, end}))
                return from; /* all positions are there */
        }
        int64_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}
