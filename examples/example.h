/* SPDX-License-Identifier: Apache-2.0 */
/* example.h: what the training examples share: ending on an error, the flag --quick, small tensors, random numbers. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_error err; /* of the call that failed */

/* Ends the program with the message of the library, unless `ok`. */
static inline void need(int ok)
{
    if (!ok) {
        fprintf(stderr, "%s: %s %s\n", flx_code_name(err.code), err.message, err.where);
        exit(1);
    }
}

/* Whether the program was called with --quick: a short run that only shows that everything works. */
static inline int is_quick(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--quick") == 0;
}

/* The main graph of a text; release it. */
static inline flx_graph *parse(flx_context *ctx, const char *text)
{
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, &err);
    need(m != NULL);
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return g;
}

/* A tensor with these extents, zero or a copy of `data`; release it. */
static inline flx_tensor *tensor(flx_context *ctx, flx_dtype dtype, flx_ints dims, const void *data)
{
    flx_type type = flx_type_make(dtype, (int32_t)dims.n, dims.v);
    flx_tensor *t = flx_tensor_new(ctx, &type, data, &err);
    need(t != NULL);
    return t;
}

/* A type in place: of_type(FLX_F32, FLX_INTS(3, 4)). */
static inline flx_type of_type(flx_dtype dtype, flx_ints dims)
{
    return flx_type_make(dtype, (int32_t)dims.n, dims.v);
}

/* Random numbers, the same in every run: uniform in [0, 1), and normal. */
static inline double uniform(void)
{
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static inline double normal(void)
{
    double radius = sqrt(-2 * log(1 - uniform()));
    return radius * cos(6.283185307179586 * uniform());
}

/* The status of the program: 0 if its result was reached. */
static inline int verdict(int reached)
{
    puts(reached ? "as expected" : "FAILED: the result was not reached");
    return !reached;
}

#endif
