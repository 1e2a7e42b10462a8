/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_file.h: the kernel a command works on, and its buffers as tensors. */
#ifndef FLX_KERNEL_FILE_H
#define FLX_KERNEL_FILE_H

#include "args.h"
#include "io/load.h"

#include <fluxion/kernel.h>
#include <fluxion/tensor.h>

typedef struct {
    const char *name; /* of the file, for messages */
    flx_context *ctx;
    file_bytes bytes;
    flx_kernel *kernel;
} kernel_file;

/* Reads text or the wire form, whichever the file holds, and validates. Close with kernel_close(), also after a
   failure. */
int kernel_open(kernel_file *f, const char *path);
void kernel_close(kernel_file *f);
/* The same, reporting all that is wrong with the kernel, and its warnings: `warnings` receives their number. */
int kernel_open_checked(kernel_file *f, const char *path, size_t *warnings);

/* Writes a kernel to -o: text, or the wire form if the name ends in .flkb. */
int kernel_write(const flx_kernel *k, const args *a);
/* Writes text that belongs to the kernel to -o. */
int kernel_write_text(const flx_buffer *text, const args *a);

/* ---- Values of buffers ---- */

typedef struct {
    const char *name;
    flx_kernel_buffer declared;
    const char *forward; /* of a cotangent or gradient: the buffer that it belongs to; or NULL */
    uint32_t role;       /* of such a one, a flx_kernel_role */
    flx_tensor *value;   /* elements of types that tensors lack are bytes */
    uint32_t *words;     /* of a bool buffer: a word for each element */
} buffer_value;

typedef struct {
    buffer_value *at;
    size_t count;
    uint64_t invocations;
} buffer_values;

/* --grid X[,Y,Z]. */
int grid_read(const args *a, uint32_t grid[3]);

/* The kernel's bound buffers and, if `derived` is not NULL, its cotangents and gradients under the names that they have
   there, with what --in and --length give. Other names are reported. Free with values_free(), also after a failure. */
int values_read(buffer_values *v, const kernel_file *f, const args *a, const uint32_t grid[3],
                const flx_kernel_derived *derived);
void values_free(buffer_values *v);
buffer_value *values_find(buffer_values *v, const char *name);
/* Makes zeros for a buffer that has no value; an open length is that of --length, or the number of invocations. */
int values_zero(buffer_values *v, const kernel_file *f, buffer_value *b);
/* The cotangent (FLX_KERNEL_COTANGENT) or gradient of a buffer; NULL when it has none. */
buffer_value *values_derivative(buffer_values *v, const char *buffer, uint32_t role);
/* Makes zeros for a cotangent or gradient that has no value, with as many elements as its buffer has. */
int values_zero_derivative(buffer_values *v, const kernel_file *f, buffer_value *b);

/* As memory for a run. `memory` has room for count. Bool buffers are written back by values_take(). */
int values_memory(buffer_values *v, flx_kernel_memory *memory, size_t *n);
int values_take(buffer_values *v);
/* Prints a buffer's summary, or writes DIR/NAME.npy if --out is given. */
int value_tell(const kernel_file *f, const args *a, const buffer_value *b);

#define OPTION_KERNEL_OUTPUT                                                                              \
    {                                                                                                     \
        "-o", "OUT", "where it goes: a file, or -, standard output, as without this option", MAY_BE_GIVEN \
    }
#define OPTION_GRID                                                                                     \
    {                                                                                                   \
        "--grid", "X[,Y,Z]", "how many workgroups along each axis; those left out are 1", MUST_BE_GIVEN \
    }
#define OPTION_KERNEL_IN                                                                     \
    {                                                                                        \
        "--in", "NAME=SPEC", "the contents of a buffer; SPEC is explained above", MAY_REPEAT \
    }
#define OPTION_LENGTH                                                                                 \
    {                                                                                                 \
        "--length", "NAME=N",                                                                         \
            "elements of a buffer whose count is open; a file shows its own, an\noutput has one per " \
            "invocation unless this is given",                                                        \
            MAY_REPEAT                                                                                \
    }
#define OPTION_KERNEL_OUT                                                 \
    {                                                                     \
        "--out", "DIR", "write each result as DIR/NAME.npy", MAY_BE_GIVEN \
    }
#define OPTION_KERNEL_DEVICE                                                                                \
    {                                                                                                       \
        "--device", "NAME", "where to run: cpu unless given, ref (the interpreter) or opencl", MAY_BE_GIVEN \
    }
#define OPTION_CHECK_RACES                                                                                          \
    {                                                                                                               \
        "--check-races", NULL, "fail at the first data race; the interpreter runs the kernel, slowly", MAY_BE_GIVEN \
    }
#define OPTION_CHECK_ARITHMETIC                                                                                  \
    {                                                                                                            \
        "--check-arithmetic", NULL, "fail at a division by zero or an overflow of signed integers", MAY_BE_GIVEN \
    }
#define ABOUT_KERNEL_SPEC                                                                        \
    "SPEC is path.npy, path.npz:key, path.safetensors:key, a number that fills, 1,2,3, zeros,\n" \
    "ones, iota, normal[:SEED] or uniform[:SEED]. A file is flattened; its dtype must fit."

#endif
