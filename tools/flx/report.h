/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: telling the user what went wrong. Every function prints to standard error at once and returns the exit
   status that fits, so callers write `return fail(...)`: a status that is not 0 has been reported. */
#ifndef FLX_REPORT_H
#define FLX_REPORT_H

#include <fluxion/kernel.h>
#include <stdbool.h>

enum { STATUS_OK = 0, STATUS_DIFFERS = 1, STATUS_BAD_INPUT = 2, STATUS_SYSTEM = 3 };

/* `error: MESSAGE [CODE]`. */
int fail(int32_t code, const char *fmt, ...) FLX_PRINTF(2, 3);

/* `hint: TEXT`, after a failure. */
void hint(const char *fmt, ...) FLX_PRINTF(1, 2);

/* `note: TEXT`, where nothing failed. */
void note(const char *fmt, ...) FLX_PRINTF(1, 2);

/* The same ending in a list: `error: MESSAGE: a, b, c [CODE]`, `hint: TEXT: a, b, c`, `note: TEXT: a, b, c`. Begin, add
   items, end. */
void fail_list_begin(const char *fmt, ...) FLX_PRINTF(1, 2);
int fail_list_end(int32_t code);
void hint_list_begin(const char *fmt, ...) FLX_PRINTF(1, 2);
void hint_list_end(void);
void note_list_begin(const char *fmt, ...) FLX_PRINTF(1, 2);
void note_list_end(void);
void list_item(const char *item);

/* What the library reports. With a file, an error that has a position in it begins `FILE:LINE:COL: `, and any other
   `FILE: `; without one (NULL) the message stands alone. */
int report(const flx_error *err, const char *file);

/* The calling thread is a rank of a mesh. What several say alike is written once, and that another has left the mesh
   only if none says why: report_ranks_end(), which the first one calls when the others have ended. It returns the
   status of the first failure of a rank's own, or if there is none `status`; report_waits(): whether a rank has only
   found that another has left. */
void report_as_rank(int64_t rank);
bool report_waits(void);
int report_ranks_end(int status);
bool report_is_of_another(const flx_error *err);

/* What a transform of the library reports: `error: MESSAGE (in grad of 'f') [CODE]`. */
int report_transform(const flx_error *err);

/* What is found in a kernel: `FILE:LINE:COL: error: K23 MESSAGE [KERNEL]` or `FILE:LINE:COL: warning: K30 MESSAGE`, and
   its hint. `where` follows the file's name. */
void report_finding(const char *file, const char *where, const flx_kernel_finding *f);

/* The word after a number: plural(n, "row", "rows"). */
const char *plural(int64_t n, const char *one, const char *many);

/* Memory is exhausted. */
int fail_memory(void);

/* A result could not be written to `path`; `why` comes from errno or the library. */
int fail_write(const char *path, const char *why);

#endif
