/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h: what layers share. They are built with the public API; only options and errors go through the library's own
   helpers. */
#ifndef FLXI_LAYER_H
#define FLXI_LAYER_H

#include <fluxion/nn.h>
#include <fluxion/ops.h>
#include <stdbool.h>

/* The type of v; a harmless one after an error, which the graph keeps. */
const flx_type *flxi_nn_type(flx_graph *g, flx_val v);
flx_dtype flxi_nn_dtype(flx_graph *g, flx_val v);
/* The extent of the last axis; 1 after an error. */
flx_dim flxi_nn_width(flx_graph *g, flx_val v);

/* Parameter `name`.`part` of this dtype and shape. */
flx_val flxi_nn_param(flx_graph *g, const char *name, const char *part, flx_dtype dtype, const flx_dim *dims, int rank,
                      flx_init init);
flx_init flxi_nn_zeros(void);
flx_init flxi_nn_ones(void);
/* Uniform within 1 / sqrt(inputs). */
flx_init flxi_nn_uniform(double inputs);

/* Makes a parameter a state: adds the output new_<param>. */
void flxi_nn_update(flx_graph *g, flx_val param, flx_val next);

/* name.part, in `buffer`; FLXI_NN_NAME bytes. A name that is too long is truncated; it may then collide with another,
   which is reported as usual. */
enum { FLXI_NN_NAME = 240 };
const char *flxi_nn_join(char *buffer, const char *name, const char *part);

/* The op of this name on one value; x itself where the name is NULL. */
flx_val flxi_nn_activate(flx_graph *g, flx_val x, const char *activation);

/* v with the first two axes exchanged. */
flx_val flxi_nn_swap01(flx_graph *g, flx_val v);

/* [channels] as [channels, 1, 1 …], for images [N, C, spatial...]. */
flx_val flxi_nn_per_channel(flx_graph *g, flx_val v, int spatial);

/* Reads a struct of options (base/options.h); an error goes to the graph, and then all options are 0. */
void flxi_nn_read(flx_graph *g, void *dst, size_t size, size_t alignment, const void *given, const char *name);
#define FLXI_NN_READ(g, type, dst, given) flxi_nn_read((g), (dst), sizeof(type), _Alignof(type), (given), #type)

/* `is_fit`; where it does not hold, the graph gets a USAGE error, "function: …", unless it has an error already. */
bool flxi_nn_require(flx_graph *g, bool is_fit, const char *function, const char *fmt, ...) FLX_PRINTF(4, 5);
/* The same with SHAPE and a hint, which may be NULL. "%s" of a type is written by flxi_nn_text(). */
bool flxi_nn_require_shape(flx_graph *g, bool is_fit, const char *hint, const char *function, const char *fmt, ...)
    FLX_PRINTF(5, 6);
typedef struct {
    char s[100];
} flxi_nn_type_text;
const char *flxi_nn_text(flx_graph *g, flx_val v, flxi_nn_type_text *text);

/* The name of a layer, and a number of units: neither NULL nor 0 nor negative, which would be a symbol. */
bool flxi_nn_check_name(flx_graph *g, const char *function, const char *name);
bool flxi_nn_check_layer(flx_graph *g, const char *function, const char *name, int64_t units);
/* An activation by its name, which may be NULL: the name of an op of one operand. */
bool flxi_nn_check_activation(flx_graph *g, const char *function, const char *activation);
/* eps of a norm: finite and not negative. */
bool flxi_nn_check_eps(flx_graph *g, const char *function, double eps);
/* x has between `least` and `most` axes, `shape` in words. */
bool flxi_nn_check_rank(flx_graph *g, const char *function, flx_val x, int least, int most, const char *shape);
/* Two values of one shape. */
bool flxi_nn_check_same(flx_graph *g, const char *function, flx_val a, flx_val b);
bool flxi_nn_is_integer(flx_graph *g, flx_val v);

/* A scalar of the dtype of `like`. */
flx_val flxi_nn_number(flx_graph *g, flx_val like, double x);

#endif
