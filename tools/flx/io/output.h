/* SPDX-License-Identifier: Apache-2.0 */
/* output.h: writing results to files. */
#ifndef FLX_OUTPUT_H
#define FLX_OUTPUT_H

#include "args.h"

#include <fluxion/tensor.h>
#include <fluxion/text.h>
#include <stdbool.h>

/* Writes the bytes to a file, which appears whole or not at all; a pipe or a device is written as it is. */
int output_write(const char *path, const flx_buffer *bytes);

/* Makes the folder and those above it. */
int output_make_folder(const char *path);

/* FOLDER/NAME.npy, allocated; NULL when memory is exhausted. */
char *output_path(const char *folder, const char *name);

/* Writes FOLDER/NAME.npy. */
int output_write_npy(const char *folder, const char *name, const flx_tensor *t);

/* What the library reports of writing `path`: failing to write is the system's failure, reading has the same code. */
int output_failed(const char *path, const flx_error *err);

/* Whether both paths are one regular file, which need not exist. NULL and "-" are none. */
bool output_is_same(const char *a, const char *b);
/* Fails if two of these options, a list that ends with NULL, name one file. */
int output_check_distinct(const args *a, const char *const *options);

/* The end of the file's name, from its last dot on; NULL where it has none, as standard output and devices. */
const char *output_extension(const char *path);

#endif
