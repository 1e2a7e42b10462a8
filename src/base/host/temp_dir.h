/* SPDX-License-Identifier: Apache-2.0 */
/* temp_dir.h: a directory for the files of a compiler: below $TMPDIR, or /tmp where that is not set. */
#ifndef FLXI_TEMP_DIR_H
#define FLXI_TEMP_DIR_H

#include "base/error.h"

enum { FLXI_TEMP_DIR_BYTES = 4096 };

typedef struct {
    char path[FLXI_TEMP_DIR_BYTES]; /* "": not made yet */
    int lock;                       /* on the directory; below 0: none */
} flxi_temp_dir;

/* Also removes what processes left that were killed while they had one; once in each process. */
flx_code flxi_temp_dir_make(flxi_temp_dir *d, flx_error *err);

/* With all that is in it; nothing where it was not made. */
void flxi_temp_dir_remove(flxi_temp_dir *d);

/* "cannot <what> in '<dir>'" with the reason of errno. */
flx_code flxi_temp_dir_fail(flx_error *err, const char *what, const char *dir);

#endif
