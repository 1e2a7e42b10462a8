/* SPDX-License-Identifier: Apache-2.0 */
/* random_moves.c: scans whose bodies move elements: chains of views of the carry, of a row of the sequence and of what
   is the same in all steps, with products of matching rows between them. What grouping, hoisting and the memory plan do
   with views is decided by such chains. */
#include "random_graph.h"

#include "test.h"

#include <string.h>

enum { MAX_MOVED = 12, MAX_AXES = 4, MAX_COUNT = 36 };

typedef struct {
    int rank;
    int64_t dims[MAX_AXES + 2];
} shape;

/* The values q0, q1 … of a body. */
typedef struct {
    random_maker *m;
    shape v[MAX_MOVED];
    int n;
} mover;

static int64_t count(const shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

static bool same(const shape *a, const shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static int pick_like(mover *w, int x)
{
    for (int tries = 0; tries < 8; tries++) {
        int y = random_below(w->m, w->n);
        if (same(&w->v[x], &w->v[y]))
            return y;
    }
    return x;
}

/* ---- Moves: each writes a call on qx and returns the shape of its result ---- */

static shape move_transpose(mover *w, random_line *l, int x)
{
    shape s = w->v[x], to = s;
    int64_t perm[MAX_AXES + 2];
    for (int i = 0; i < s.rank; i++)
        perm[i] = i;
    for (int i = s.rank; i-- > 1;) {
        int j = random_below(w->m, i + 1);
        int64_t keep = perm[i];
        perm[i] = perm[j];
        perm[j] = keep;
    }
    for (int i = 0; i < s.rank; i++)
        to.dims[i] = s.dims[perm[i]];
    random_say(l, "transpose(q%d, perm=", x);
    random_say_ints(l, perm, (size_t)s.rank);
    random_say(l, ")");
    return to;
}

static shape move_reshape(mover *w, random_line *l, int x)
{
    int64_t left = count(&w->v[x]);
    shape to = {0};
    for (int64_t d = 2; d <= left && to.rank < MAX_AXES - 1;) {
        if (left % d == 0 && random_below(w->m, 3)) {
            to.dims[to.rank++] = d;
            left /= d;
        } else {
            d++;
        }
    }
    to.dims[to.rank++] = left;
    random_say(l, "reshape(q%d, shape=", x);
    random_say_ints(l, to.dims, (size_t)to.rank);
    random_say(l, ")");
    return to;
}

static shape move_slice(mover *w, random_line *l, int x)
{
    shape s = w->v[x], to = s;
    int64_t start[MAX_AXES + 2], limit[MAX_AXES + 2], stride[MAX_AXES + 2];
    for (int i = 0; i < s.rank; i++) {
        start[i] = random_below(w->m, (int)s.dims[i]);
        limit[i] = start[i] + 1 + random_below(w->m, (int)(s.dims[i] - start[i]));
        stride[i] = 1 + (random_below(w->m, 4) == 0);
        to.dims[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
    }
    random_say(l, "slice(q%d, start=", x);
    random_say_ints(l, start, (size_t)s.rank);
    random_say(l, ", limit=");
    random_say_ints(l, limit, (size_t)s.rank);
    random_say(l, ", stride=");
    random_say_ints(l, stride, (size_t)s.rank);
    random_say(l, ")");
    return to;
}

static shape move_pad(mover *w, random_line *l, int x)
{
    shape s = w->v[x], to = s;
    int64_t low[MAX_AXES + 2], high[MAX_AXES + 2], interior[MAX_AXES + 2];
    for (int i = 0; i < s.rank; i++) {
        low[i] = random_below(w->m, 2) - (s.dims[i] > 2 && random_below(w->m, 2));
        high[i] = random_below(w->m, 2);
        interior[i] = random_below(w->m, 4) == 0;
        to.dims[i] = low[i] + high[i] + s.dims[i] + interior[i] * (s.dims[i] - 1);
    }
    random_say(l, "pad(q%d, 0.3, low=", x);
    random_say_ints(l, low, (size_t)s.rank);
    random_say(l, ", high=");
    random_say_ints(l, high, (size_t)s.rank);
    random_say(l, ", interior=");
    random_say_ints(l, interior, (size_t)s.rank);
    random_say(l, ")");
    return to;
}

static shape move_broadcast(mover *w, random_line *l, int x)
{
    shape s = w->v[x], to = {.rank = s.rank + 1};
    int64_t axes[MAX_AXES + 2];
    int gap = random_below(w->m, s.rank + 1);
    for (int i = 0, k = 0; i <= s.rank; i++) {
        to.dims[i] = i == gap ? 1 + random_below(w->m, 3) : s.dims[k];
        if (i != gap)
            axes[k++] = i;
    }
    random_say(l, "broadcast_in_dim(q%d, shape=", x);
    random_say_ints(l, to.dims, (size_t)to.rank);
    random_say(l, ", axes=");
    random_say_ints(l, axes, (size_t)s.rank);
    random_say(l, ")");
    return to;
}

static shape move_concat(mover *w, random_line *l, int x)
{
    shape s = w->v[x];
    int axis = random_below(w->m, s.rank), y = pick_like(w, x);
    if (random_below(w->m, 2)) {
        random_say(l, "concat(q%d, q%d, axis=%d)", x, y, axis);
    } else {
        random_say(l, "concat(q%d, q%d, q%d, axis=%d)", y, x, y, axis);
        s.dims[axis] += w->v[x].dims[axis];
    }
    s.dims[axis] += w->v[x].dims[axis];
    return s;
}

static shape move_gather(mover *w, random_line *l, int x)
{
    shape s = w->v[x];
    int axis = random_below(w->m, s.rank), n = 1 + random_below(w->m, 3), below = (int)s.dims[axis];
    random_say(l, "gather(q%d, const(i32[%d], [", x, n);
    for (int k = 0; k < n; k++)
        random_say(l, "%s%d", k ? ", " : "", random_below(w->m, below));
    random_say(l, "]), axis=%d)", axis);
    s.dims[axis] = n;
    return s;
}

static shape move_along(mover *w, random_line *l, int x)
{
    shape s = w->v[x];
    int axis = random_below(w->m, s.rank), n = (int)s.dims[axis];
    switch (random_below(w->m, 4)) {
    case 0: random_say(l, "reverse(q%d, axes=[%d])", x, axis); break;
    case 1: random_say(l, "roll(q%d, shift=1, axis=%d)", x, axis); break;
    case 2:
        s.dims[axis] = 1 + random_below(w->m, n);
        random_say(l, "narrow(q%d, axis=%d, start=%d, len=%d)", x, axis, random_below(w->m, n - (int)s.dims[axis] + 1),
                   (int)s.dims[axis]);
        break;
    default: random_say(l, "cumsum(mul(0.5, q%d), axis=%d)", x, axis); break;
    }
    return s;
}

/* ---- Products and sums ---- */

/* A row with a row; or the same by another axis. */
static shape move_dot(mover *w, random_line *l, int x)
{
    shape s = w->v[x], to = {.rank = s.rank - 1};
    int y = pick_like(w, x), summed = random_below(w->m, s.rank), left = 0;
    int batch = s.rank == 1 ? 0 : 1 + random_below(w->m, s.rank - 1);
    int64_t axes[MAX_AXES + 2];
    for (int i = 0; i < s.rank && left < batch; i++)
        if (i != summed)
            axes[left++] = i;
    to.rank = 0;
    for (int i = 0; i < batch; i++)
        to.dims[to.rank++] = s.dims[axes[i]];
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < s.rank; i++) {
            bool is_free = i != summed;
            for (int k = 0; k < batch; k++)
                is_free &= axes[k] != i;
            if (is_free && to.rank < MAX_AXES + 2)
                to.dims[to.rank++] = s.dims[i];
        }
    random_say(l, "dot_general(q%d, q%d, lc=[%d], rc=[%d], lb=", x, y, summed, summed);
    random_say_ints(l, axes, (size_t)batch);
    random_say(l, ", rb=");
    random_say_ints(l, axes, (size_t)batch);
    random_say(l, ")");
    return to;
}

static shape move_sum(mover *w, random_line *l, int x)
{
    shape s = w->v[x];
    int axis = random_below(w->m, s.rank);
    random_say(l, "reduce_mean(q%d, axes=[%d])", x, axis);
    memmove(s.dims + axis, s.dims + axis + 1, (size_t)(s.rank - axis - 1) * sizeof *s.dims);
    s.rank--;
    return s;
}

static shape move_element(mover *w, random_line *l, int x)
{
    static const char *const calls[] = {"sin(q%d)", "mul(0.7, q%d)", "cos(q%d)"};
    shape s = w->v[x];
    if (random_below(w->m, 2))
        random_say(l, calls[random_below(w->m, 3)], x);
    else
        random_say(l, "mul(0.6, add(q%d, q%d))", x, pick_like(w, x));
    return s;
}

static void say_move(mover *w, random_line *body)
{
    static shape (*const moves[])(mover *, random_line *, int) = {
        move_transpose, move_reshape, move_slice, move_pad,    move_concat, move_gather,
        move_along,     move_dot,     move_dot,   move_concat, move_sum,    move_element};
    int x = random_below(w->m, 3) ? w->n - 1 : random_below(w->m, w->n);
    random_line l = {0};
    shape to = w->v[x].rank == 0 || (random_below(w->m, 8) == 0 && w->v[x].rank < MAX_AXES)
                   ? move_broadcast(w, &l, x)
                   : moves[random_below(w->m, (int)(sizeof moves / sizeof *moves))](w, &l, x);
    if (count(&to) > MAX_COUNT || count(&to) < 1 || to.rank > MAX_AXES)
        return;
    random_say(body, "  q%d = %s\n", w->n, l.s);
    w->v[w->n++] = to;
}

bool random_moves(random_maker *m)
{
    int xs = random_pick(m, m->real, 1);
    if (xs < 0)
        return false;
    flx_type t = m->v[xs].text;
    t.rank--;
    memmove(t.dims, t.dims + 1, (size_t)t.rank * sizeof(flx_dim));
    mover w = {.m = m, .n = 3};
    w.v[0].rank = t.rank;
    for (int i = 0; i < t.rank; i++) {
        if (!flx_dim_is_static(t.dims[i]) || t.rank > MAX_AXES)
            return false;
        w.v[0].dims[i] = t.dims[i];
    }
    w.v[1] = w.v[2] = w.v[0];
    random_line body = {0}, type = {0}, l = {0};
    for (int k = 3 + random_below(m, 6); k > 0; k--)
        say_move(&w, &body);
    random_say_type(&type, m, &t);
    random_say(&m->draft, "graph move%d(q0: %s, q1: %s, q2: %s) {\n%s", m->bodies, type.s, type.s, type.s, body.s);
    random_say(&m->draft, "  s = reduce_mean(q%d)\n", w.n - 1);
    int stacked = random_below(m, 2) ? w.n - 1 : random_below(m, w.n);
    random_say(&m->draft, "  return mul(0.5, sin(add(q%d, s))), q%d, s\n}\n", 2 * random_below(m, 2), stacked);
    const char *reverse = random_yes_no(m);
    int shared = random_pick_like(m, xs), start = random_pick_like(m, xs);
    random_say(&l, "scan(gather(v%d, 0), gather(v%d, %d), v%d, body=@move%d, num_bcast=1, reverse=%s)", start, shared,
               (int)m->v[xs].type.dims[0] - 1, xs, m->bodies, reverse);
    m->bodies++;
    return random_keep(m, l.s, 3);
}
