/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/text.h: graphs as text (.flx) and as bytes (.flxb), and modules: the graphs of one file. */
#ifndef FLUXION_TEXT_H
#define FLUXION_TEXT_H

#include <fluxion/graph.h>

FLX_BEGIN_DECLS

/* The graphs of one file, in file order. A module holds its graphs; take one out with flx_graph_retain(). */
typedef struct flx_module flx_module;

/** Reads `.flx` text. `file` names it in errors (NULL: "text"). On failure NULL, with FILE:LINE:COL in err->where. */
FLX_API flx_module *flx_parse(flx_context *ctx, const char *text, size_t length, const char *file, flx_error *err);

/** Reads the binary form that flx_graph_encode() wrote. Any other bytes are an error. */
FLX_API flx_module *flx_decode(flx_context *ctx, const void *bytes, size_t size, const char *file, flx_error *err);

FLX_API void flx_module_free(flx_module *m); /* NULL is fine */
FLX_API size_t flx_module_count(const flx_module *m);
FLX_API flx_graph *flx_module_graph(const flx_module *m, size_t i);        /* NULL when out of range */
FLX_API flx_graph *flx_module_find(const flx_module *m, const char *name); /* NULL when absent */

/** Adds a finished graph of the same context, which the module holds from now on. DUP_NAME when it has one of this
    name. */
FLX_API flx_code flx_module_add(flx_module *m, flx_graph *g, flx_error *err);

/** The graph called main, else the last one; NULL when the file holds none. */
FLX_API flx_graph *flx_module_main(const flx_module *m);

/* Text or bytes that the library allocated. Free with flx_buffer_free(). A 0 byte follows the `size` bytes of data. */
typedef struct flx_buffer {
    char *data;
    size_t size;
    flx_context *ctx;
} flx_buffer;

FLX_API void flx_buffer_free(flx_buffer *b); /* NULL is fine; leaves {0} */

/** Writes `g` and the graphs it uses, `g` last, as text that reads back to the same graph. */
FLX_API flx_code flx_graph_print(const flx_graph *g, flx_buffer *out, flx_error *err);

/** Writes every graph of the module once, in an order in which bodies come before their users. */
FLX_API flx_code flx_module_print(const flx_module *m, flx_buffer *out, flx_error *err);

/** Writes `g` and the graphs it uses in the binary form. */
FLX_API flx_code flx_graph_encode(const flx_graph *g, flx_buffer *out, flx_error *err);

FLX_END_DECLS
#endif
