/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_file.c: see cuda_file.h. */
#include "emit/cuda_file.h"

#include "emit/kernel_emit.h"

#include <stdio.h>
#include <stdlib.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

static struct {
    flxi_kfile file;
    bool is_open;
    unsigned number; /* of files so far */
} cuda;

void cuda_file_add(const flx_kernel *k)
{
    flxi_kentry entry;
    flx_error err = {0};
    if (!test_keep_dir())
        return;
    if (flxi_kernel_check_target(k, &flxi_target_cuda, &err) != FLX_OK) {
        printf("   %s: CUDA is left out: %s\n", test_name(), err.message);
        return;
    }
    if (!cuda.is_open)
        flxi_kfile_init(&cuda.file, &flxi_target_cuda, &mem);
    cuda.is_open = true;
    CHECK_OK(flxi_kernel_write(&cuda.file, k, &entry, &err), &err);
}

void cuda_file_add_derived(const flx_kernel_derived *d)
{
    for (size_t i = 0; i < flx_kernel_derived_count(d); i++)
        cuda_file_add(flx_kernel_derived_kernel(d, i));
    if (flx_kernel_derived_counting(d))
        cuda_file_add(flx_kernel_derived_counting(d));
}

void cuda_file_end(void)
{
    char path[1200];
    flxi_strbuf text;
    flx_error err = {0};
    if (!cuda.is_open)
        return;
    flxi_strbuf_init(&text, &mem);
    CHECK_OK(flxi_kfile_text(&cuda.file, &text, &err), &err);
    snprintf(path, sizeof path, "%s/%s_%u.cu", test_keep_dir(), test_name(), ++cuda.number);
    FILE *f = fopen(path, "w");
    CHECK_MSG(f && fwrite(text.at, 1, text.n, f) == text.n, "cannot write %s", path);
    fclose(f);
    flxi_strbuf_free(&text);
    flxi_kfile_free(&cuda.file);
    cuda.is_open = false;
}
