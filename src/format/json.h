/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: a strict JSON reader (RFC 8259) that returns one token at a time.

   Nothing is allocated and nothing recurses; nesting is bounded. The text must be UTF-8. Numbers and strings are
   decoded only on request. Repeated keys are reported as they occur.

       flxi_json j = flxi_json_begin(text, size);
       for (flxi_json_token t; (t = flxi_json_next(&j)) > FLXI_JSON_END;) … */
#ifndef FLXI_JSON_H
#define FLXI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FLXI_JSON_ERROR, /* see .error; every later call returns it again */
    FLXI_JSON_END,   /* the text is complete */
    FLXI_JSON_OBJECT,
    FLXI_JSON_OBJECT_END,
    FLXI_JSON_ARRAY,
    FLXI_JSON_ARRAY_END,
    FLXI_JSON_KEY, /* its value comes next */
    FLXI_JSON_STRING,
    FLXI_JSON_NUMBER,
    FLXI_JSON_TRUE,
    FLXI_JSON_FALSE,
    FLXI_JSON_NULL
} flxi_json_token;

#define FLXI_JSON_DEPTH 64

typedef struct {
    const char *text;
    size_t size, at;
    const char *error; /* what is wrong at `at`, or NULL */
    const char *start; /* of the last key, string (inside the quotes) or number … */
    size_t length;     /* … and its bytes */
    int expect;        /* private: what may come next */
    unsigned depth;
    uint64_t objects; /* bit d: level d is an object, not an array */
} flxi_json;

flxi_json flxi_json_begin(const char *text, size_t size);
flxi_json_token flxi_json_next(flxi_json *j);

/* Skips the value that begins with `first`, the token just read. False on an error. */
bool flxi_json_skip(flxi_json *j, flxi_json_token first);

/* Whether the key or string just read is this text. */
bool flxi_json_is(const flxi_json *j, const char *text);

/* Copies the decoded key or string just read, truncated to fit, with a terminating 0; returns its full length. */
size_t flxi_json_text(const flxi_json *j, char *out, size_t size);

/* The number just read as an integer without fraction or exponent; false if it is not one or does not fit. */
bool flxi_json_u64(const flxi_json *j, uint64_t *out);
bool flxi_json_double(const flxi_json *j, double *out);

#endif
