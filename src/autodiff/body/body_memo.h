/* SPDX-License-Identifier: Apache-2.0 */
/* body_memo.h: what a transform has made of bodies. A body that several nodes use is transformed once for each set of
   flags; without this, bodies that use bodies twice would double the work at every level. */
#ifndef FLXI_BODY_MEMO_H
#define FLXI_BODY_MEMO_H

#include "passes/decompose.h"

typedef enum { ASKED_VJP, ASKED_JVP, ASKED_VMAP, ASKED_SPLIT, ASKED_NEEDS } flxi_asked;

/* A question: which transform of which body, with these flags by input and output. */
typedef struct {
    flxi_asked asked;
    const flx_graph *body; /* held in an answer */
    uint32_t options;
    flx_dim size;
    const bool *inputs, *outputs; /* NULL: not part of the question */
} flxi_question;

/* Of needs.c: where a boolean tensor, whose axes go along these axes of an input (-1: extent 1), is false, that input
   gets no cotangent. */
typedef struct {
    uint32_t input;
    int8_t axis[FLX_MAX_RANK];
} flxi_flag;

typedef struct {
    flxi_question question;
    flx_graph *made;        /* held */
    flx_graph *second;      /* of a split: the backward part; held */
    uint32_t kept;          /* of a split */
    const bool *out;        /* of a vmap: which outputs are batched */
    const uint8_t *status;  /* of needs.c: by input */
    const flxi_flag *flags; /* of needs.c: by output of `made` */
} flxi_answer;

struct flxi_body_memo {
    const flxi_allocator *mem; /* NULL: empty */
    flxi_arena arena;
    FLXI_VEC(flxi_answer) answers;
    flxi_index index; /* by the hash of the question */
};

/* NULL when it is not known; valid until the next answer. */
const flxi_answer *flxi_memo_find(const flxi_body_memo *m, const flxi_question *q);
/* Keeps an answer with references of its own; false when memory is exhausted. */
bool flxi_memo_keep(flxi_body_memo *m, const flxi_allocator *mem, const flxi_question *q, const flxi_answer *a);
void flxi_memo_free(flxi_body_memo *m);

#endif
