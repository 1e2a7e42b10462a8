/* SPDX-License-Identifier: Apache-2.0 */
/* failing_calls.h: when replaced calls of the system fail, are interrupted, or do less than requested. */
#ifndef FLX_FAILING_CALLS_H
#define FLX_FAILING_CALLS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int fail_at; /* the call that fails with `error`, counted from 1; 0: none */
    int error;
    bool is_slow;        /* every transfer moves one byte at most */
    bool is_interrupted; /* every other transfer is interrupted by a signal */
    int calls;           /* so far */
} failing_calls;

static inline bool call_fails(failing_calls *c)
{
    if (++c->calls != c->fail_at)
        return false;
    errno = c->error;
    return true;
}

static inline bool call_is_interrupted(const failing_calls *c)
{
    static int turn;
    if (!c->is_interrupted || ++turn % 2)
        return false;
    errno = EINTR;
    return true;
}

/* What a transfer of n bytes moves at most. */
static inline size_t call_moves(const failing_calls *c, size_t n)
{
    return c->is_slow && n > 1 ? 1 : n;
}

/* Of a call that has done its work nevertheless, as a failing close does. */
static inline int call_result(failing_calls *c, int result)
{
    return call_fails(c) ? -1 : result;
}

#endif
