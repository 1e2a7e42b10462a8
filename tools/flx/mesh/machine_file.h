/* SPDX-License-Identifier: Apache-2.0 */
/* machine_file.h: the description of a machine that `flx plan` computes times for; docs/distributed.md has its form. */
#ifndef FLX_MACHINE_FILE_H
#define FLX_MACHINE_FILE_H

#include "train/settings.h"

#include <fluxion/mesh.h>

enum { MACHINE_LINKS = 16 };

typedef struct {
    settings settings; /* as they were read */
    flx_link links[MACHINE_LINKS];
    flx_machine machine;
    double memory; /* bytes of a rank; 0: not said */
} machine_file;

/* Free with machine_file_free(), also after a failure. */
int machine_file_read(machine_file *f, const char *path);
void machine_file_free(machine_file *f);

#endif
