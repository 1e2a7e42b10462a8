/* SPDX-License-Identifier: Apache-2.0 */
/* laws.h: laws that every transform of every graph must obey, tested at one point of one graph. */
#ifndef FLX_LAWS_H
#define FLX_LAWS_H

#include "random_graph.h"

enum { LAW_DETAIL = 600 };

typedef struct {
    const char *name;
    /* False when it is violated, with the finding in `detail`. A graph to which the law does not apply obeys it: one
       whose first output is not an f64 scalar, or whose values are not finite. */
    bool (*holds)(const subject *s, char detail[LAW_DETAIL]);
    int one_in; /* tested on one graph in this many */
} law;

extern const law laws[];
extern const size_t num_laws;

/* Tests the laws that are this seed's turn, or all, on its random graph, and reports each that it breaks with a small
   graph that breaks it too. False when the seed gives no graph. With `control` the graph is one of
   random_control_subject(). */
bool random_laws_try(uint64_t seed, bool every_law, bool control);

#endif
