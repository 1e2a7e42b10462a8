/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nccl.c: see fake_nccl.h. Functions of the driver that fake_cards.inc does not have do nothing. */
#include "fake_nccl.h"

#include "backend/cuda/cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *const symbols[] = {
#define SYMBOL(name, symbol, parameters) symbol,
    FLXI_CUDA_DRIVER(SYMBOL)
#undef SYMBOL
};

/* One library with two names, so that the driver knows what NCCL has begun. */
bool fake_nccl_make(const char *folder)
{
    char path[400], command[1600];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/lib64", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/others.c", folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        fprintf(f, "__attribute__((weak)) int %s() { return 0; }\n", symbols[i]);
    fclose(f);
    snprintf(command, sizeof command,
             "cc -std=gnu17 -w -fPIC -shared -pthread -o '%s/lib64/libcuda.so.1' '%s' -x c '" FLX_SOURCE_DIR
             "/tests/backend/collective/fake_cards.inc' && ln -sf libcuda.so.1 '%s/lib64/libnccl.so.2'",
             folder, path, folder);
    return system(command) == 0;
}
