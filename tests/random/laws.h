/* SPDX-License-Identifier: Apache-2.0 */
/* laws.h: what every transform of every graph must obey, tried at one point of one graph. */
#ifndef FLX_LAWS_H
#define FLX_LAWS_H

#include "random_graph.h"

enum { LAW_DETAIL = 600 };

typedef struct {
    const char *name;
    /* False when it is broken, with what was found in `detail`. A graph the law says nothing about obeys it: one
       whose first output is no f64 number, or whose values are not finite. */
    bool (*holds)(const subject *s, char detail[LAW_DETAIL]);
    int one_in; /* tried on one graph in so many */
} law;

extern const law laws[];
extern const size_t num_laws;

#endif
