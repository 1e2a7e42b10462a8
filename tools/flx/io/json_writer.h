/* SPDX-License-Identifier: Apache-2.0 */
/* json_writer.h: writing JSON to standard output, one object per line.

   Numbers print so that they read back to the same value. JSON has no infinities and no NaN: they are the strings
   "inf", "-inf" and "nan". Strings are UTF-8; bytes that are not become U+FFFD. */
#ifndef FLX_JSON_WRITER_H
#define FLX_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool needs_comma;
    int depth;
} json;

/* Containers. `key` is NULL inside an array and for the outermost object, which ends its line. */
void json_object_begin(json *j, const char *key);
void json_object_end(json *j);
void json_array_begin(json *j, const char *key);
void json_array_end(json *j);

void json_text(json *j, const char *key, const char *value); /* NULL is null */
void json_integer(json *j, const char *key, int64_t value);
void json_unsigned(json *j, const char *key, uint64_t value);
void json_bool(json *j, const char *key, bool value);
/* With this many bits of mantissa: 53 for f64, 24 for f32 and narrower. */
void json_number(json *j, const char *key, double value, int bits);

#endif
