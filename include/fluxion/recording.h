/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/recording.h: a run in a file: the graph, its options and all inputs, so that a failure on one machine can be
   run again on another (`flx replay`). Experimental: the file may change.

   A recording is a zip archive: `recording.txt` says how the graph was compiled and run, `graph.flxb` is the graph in
   its binary form, and the inputs are the arrays `input_0.npy` and so on, which NumPy reads too. */
#ifndef FLUXION_RECORDING_H
#define FLUXION_RECORDING_H

#include <fluxion/exec.h>

FLX_BEGIN_DECLS

/** Writes a file from which flx_recording_run() repeats flx_exec_run() with the same arguments; nothing is run.
    Parameters that were set are part of it. The file appears whole or not at all. */
FLX_API flx_code flx_exec_record(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                                 const char *path, flx_error *err);

typedef struct flx_recording flx_recording;

/** Reads a recording. Any other file is an error. Free with flx_recording_free(). */
FLX_API flx_recording *flx_recording_read(flx_context *ctx, const char *path, flx_error *err);
FLX_API flx_recording *flx_recording_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err);
FLX_API void flx_recording_free(flx_recording *r); /* NULL is fine */

/** The graph; lives as long as the recording. */
FLX_API const flx_graph *flx_recording_graph(const flx_recording *r);
/** What the recorded run failed with: its code and message, or FLX_OK when no failure was recorded. */
FLX_API flx_code flx_recording_failure(const flx_recording *r, flx_error *out);

/** Runs the recorded graph on the recorded inputs, with the options of compiling that it had. Of `options`, which may
    be NULL, the device (NULL: $FLX_DEVICE or cpu), print and status are used. `outputs` as for flx_run(). Many threads
    may run one recording. */
FLX_API flx_code flx_recording_run(const flx_recording *r, const flx_run_options *options, flx_tensor **outputs,
                                   flx_error *err);

FLX_END_DECLS
#endif
