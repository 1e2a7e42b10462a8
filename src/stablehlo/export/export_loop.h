/* SPDX-License-Identifier: Apache-2.0 */
/* export_loop.h: making a `while` with a counter and any number of carries. */
#ifndef FLXI_STABLEHLO_EXPORT_LOOP_H
#define FLXI_STABLEHLO_EXPORT_LOOP_H

#include "stablehlo/export/export_rules.h"

enum { EXPORT_COUNTER = 0 }; /* the carry that is an i64 and counts the rounds, where there is one */

/* A loop being made: its values are those of the graph being built, its types those of the carries of both bodies. */
typedef struct {
    flxi_site *s;
    flx_val *init; /* of each carry */
    uint32_t count, room;
    flx_graph *cond, *body;
    flx_val *in_cond, *in_body; /* the carries in them */
    flx_val *out;               /* what the body turns them into; unchanged unless set */
} export_loop;

/* Room for that many carries in addition to the counter. False with the error in the graph; free it all the same. */
bool flxi_loop_begin(export_loop *l, flxi_site *s, uint32_t room);
void flxi_loop_free(export_loop *l);

/* One more carry; its number. The counter comes first. */
uint32_t flxi_loop_carry(export_loop *l, flx_val init);
uint32_t flxi_loop_counter(export_loop *l);
void flxi_loop_count(export_loop *l);                   /* one more round */
flx_val flxi_loop_below(export_loop *l, int64_t bound); /* of cond: fewer rounds than that */

/* Appends the loop, which runs as long as `going` (of cond) is true; y receives the carries. */
void flxi_loop_end(export_loop *l, flx_val going, flx_val *y);

#endif
