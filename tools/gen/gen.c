/* SPDX-License-Identifier: Apache-2.0 */
/* gen.c: writes the files that are generated from the tables, under the folder given as argument: the header
   include/fluxion/ops.h, the stubs python/fluxion/ops.pyi and the pages docs/ops.md, docs/errors.md and
   docs/other-frameworks.md. It reads the public catalogue only. Run it with script/generate. */
#include "op_row.h"

static int write_file(const char *dir, const char *path, void (*write)(FILE *))
{
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    FILE *f = fopen(full, "w");
    if (!f) {
        perror(full);
        return 3;
    }
    write(f);
    if (ferror(f) | fclose(f)) {
        perror(full);
        return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(
            stderr,
            "usage: flx_gen DIR   (writes include/fluxion/ops.h, python/fluxion/ops.pyi and pages of docs in DIR)\n");
        return 2;
    }
    int status = write_file(argv[1], "include/fluxion/ops.h", write_ops_header);
    status |= write_file(argv[1], "docs/ops.md", write_ops_manual);
    status |= write_file(argv[1], "docs/errors.md", write_error_manual);
    status |= write_file(argv[1], "python/fluxion/ops.pyi", write_python_stubs);
    return status | write_file(argv[1], "docs/other-frameworks.md", write_foreign_manual);
}
