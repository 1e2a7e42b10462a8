/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/stop.h: ending work early: runs, compilations, and everything else that takes long.

   A stop is set by flx_stop_request(), or when its time is over, and remains set. Work that belongs to it then ends
   within milliseconds and fails with CANCELLED or TIMEOUT; what it worked on is as it was before. A C compiler that it
   has started is killed. Runs and compilations take a stop as an option (exec.h, run.h); flx_stop_use() makes one hold
   for all calls of a thread: reading, importing, differentiating, compiling, running. */
#ifndef FLUXION_STOP_H
#define FLUXION_STOP_H

#include <fluxion/graph.h>

FLX_BEGIN_DECLS

typedef struct flx_stop flx_stop;

/** A stop that is set after that many seconds from now; 0: only on request. NULL on failure. Lives until
    flx_stop_free(), which no work that uses it may outlive. */
FLX_API flx_stop *flx_stop_new(flx_context *ctx, double seconds, flx_error *err);
FLX_API void flx_stop_free(flx_stop *s); /* NULL is fine */

/** Sets it: its work ends with CANCELLED. Any thread and any signal handler may call it. */
FLX_API void flx_stop_request(flx_stop *s);

/** All later calls of this thread belong to `s`, until the next flx_stop_use(); NULL: to none. Returns what was used
    before. */
FLX_API flx_stop *flx_stop_use(flx_stop *s);

FLX_END_DECLS
#endif
