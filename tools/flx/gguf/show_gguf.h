/* SPDX-License-Identifier: Apache-2.0 */
/* show_gguf.h: what a GGUF file holds, as text. */
#ifndef FLX_SHOW_GGUF_H
#define FLX_SHOW_GGUF_H

#include <stdbool.h>

/* Whether a path names such a file. */
bool is_gguf(const char *path);

/* Prints the named values and a table of the tensors. Returns a status. */
int show_gguf(const char *path, bool as_json);

#endif
