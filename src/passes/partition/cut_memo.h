/* SPDX-License-Identifier: Apache-2.0 */
/* cut_memo.h: what a partition has found out about bodies. A body is placed and cut once for each way in which its
   inputs and outputs are cut; without this, bodies that use bodies twice would double the work at every level. */
#ifndef FLXI_CUT_MEMO_H
#define FLXI_CUT_MEMO_H

#include "passes/partition/partition.h"

typedef struct {
    const flx_graph *body;   /* held in an answer */
    const flxi_cuts *inputs; /* by input */
    const flxi_cuts *wanted; /* by output: the body for parts is asked for; NULL: how its outputs would be cut */
    uint32_t carries;        /* of a loop whose round it is: they may collect sums; or 0 */
    const flx_graph *test;   /* of that loop, held in an answer; NULL: it has none */
} flxi_cut_question;

typedef struct {
    flxi_cut_question question;
    flx_graph *made;             /* the body for parts, held; NULL: it was not asked for */
    const flxi_along *terms;     /* of that body, by carry: what it is a term of, to be added up after the loop */
    const flxi_cuts *outputs;    /* by output, if it was not asked for */
    flx_partition_report report; /* of the body; of `gathered` alone where it was placed */
} flxi_cut_answer;

struct flxi_cut_memo {
    const flxi_allocator *mem;
    flxi_arena *arena;
    FLXI_VEC(flxi_cut_answer) answers;
    flxi_index index; /* by the hash of the question */
    int64_t visits;   /* of nodes, in all bodies */
};

/* NULL when it is not known; valid until the next answer. */
const flxi_cut_answer *flxi_cut_memo_find(const flxi_cut_memo *m, const flxi_cut_question *q);
/* Keeps an answer with references of its own. */
flx_code flxi_cut_memo_keep(flxi_cut_memo *m, const flxi_cut_answer *a, flx_error *err);
void flxi_cut_memo_free(flxi_cut_memo *m);

#endif
