/* SPDX-License-Identifier: Apache-2.0 */
/* exact_graph.h: small random graphs of small whole numbers: every way to compute them gives the same digits. */
#ifndef FLX_ADVERSARY_EXACT_GRAPH_H
#define FLX_ADVERSARY_EXACT_GRAPH_H

/* Writes a graph f(v0) to DIR/g.flx, from the random numbers of mutate.h. */
void write_exact_graph(const char *dir);

/* The arguments of flx that run DIR/g.flx. */
extern const char *const exact_run[];

/* What `flx run` prints of DIR/g.flx, by the reference evaluator; OUTPUT_ROOM bytes. */
void expect_exact(const char *dir, char *out);

#endif
