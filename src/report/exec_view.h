/* SPDX-License-Identifier: Apache-2.0 */
/* exec_view.h: what a report says about a compiled program. */
#ifndef FLXI_EXEC_VIEW_H
#define FLXI_EXEC_VIEW_H

#include "compile/program.h"
#include "report/graph_view.h"

/* The step of each node of a routine's graph; in the arena. */
flx_code flxi_steps_of_routine(const flxi_program *m, const flxi_routine *l, flxi_arena *arena, flxi_view_steps *out,
                               flx_error *err);

/* The steps of graphs that the program was compiled from: by the names of nodes, which passes keep where they can. */
flx_code flxi_steps_by_name(const flxi_program *m, const flx_graph *g, flxi_arena *arena, flxi_view_steps *out,
                            flx_error *err);

enum { FLXI_VIEW_EVENTS = 40000 }; /* that a page shows */

/* Arrays of JSON: the steps, with their times where there is a trace; its first events, as start, time, step, thread of
   each, one after the other; and the memory plan of the main routine. */
void flxi_steps_json(const flxi_program *m, const flx_run_trace *trace, flxi_strbuf *out);
void flxi_events_json(const flxi_program *m, const flx_run_trace *trace, flxi_strbuf *out);
void flxi_memory_json(const flxi_program *m, flxi_strbuf *out);

#endif
