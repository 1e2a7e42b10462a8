/* SPDX-License-Identifier: Apache-2.0 */
/* graph_text.h: shared by tests of graphs: text to graph and back, and comparing the results. */
#ifndef FLX_TEST_GRAPH_TEXT_H
#define FLX_TEST_GRAPH_TEXT_H

#include "test.h"

#include <fluxion/fluxion.h>
#include <string.h>

/* Parses the text, which must be valid. */
static inline flx_module *module_of(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
    CHECK_MSG(m != NULL, "%s: %s (%s) in\n%s", err.where, err.message, flx_code_name(err.code), text);
    return m;
}

/* The main graph of the text, held on its own; free it with flx_graph_release(). */
static inline flx_graph *graph_of(flx_context *ctx, const char *text)
{
    flx_module *m = module_of(ctx, text);
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return g;
}

/* The graph as text; free with flx_buffer_free(). */
static inline flx_buffer text_of(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer out = {0};
    CHECK_OK(flx_graph_print(g, &out, &err), &err);
    CHECK(out.data && strlen(out.data) == out.size);
    return out;
}

static inline flx_buffer bytes_of(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer out = {0};
    CHECK_OK(flx_graph_encode(g, &out, &err), &err);
    return out;
}

/* Graph → text → graph is exact, text is stable; graph → bytes → graph is exact, bytes are stable. */
static inline void check_round_trip(const flx_graph *g)
{
    flx_error err = {0};
    flx_context *ctx = flx_graph_context(g);
    CHECK_OK(flx_graph_verify(g, &err), &err);
    flx_buffer text = text_of(g);
    flx_buffer bytes = bytes_of(g);
    flx_graph *from_text = graph_of(ctx, text.data);
    CHECK_MSG(flx_graph_hash(from_text) == flx_graph_hash(g), "text changes the graph:\n%s", text.data);
    flx_buffer again = text_of(from_text);
    CHECK_EQ_STR(again.data, text.data);
    flx_buffer_free(&again);
    flx_module *decoded = flx_decode(ctx, bytes.data, bytes.size, "b", &err);
    CHECK_MSG(decoded != NULL, "%s", err.message);
    CHECK_MSG(flx_graph_hash(flx_module_main(decoded)) == flx_graph_hash(g), "the bytes change the graph");
    again = bytes_of(flx_module_main(decoded));
    CHECK(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);
    flx_buffer_free(&again);
    again = text_of(flx_module_main(decoded));
    CHECK_EQ_STR(again.data, text.data);
    flx_buffer_free(&again);
    flx_graph_release(from_text);
    flx_module_free(decoded);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
}

/* Reads and prints the text once: it comes out as `expected`, reads back exactly and is stable from then on. */
static inline void check_prints(const char *text, const char *expected)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, text);
    flx_buffer printed = text_of(g);
    CHECK_EQ_STR(printed.data, expected);
    flx_buffer_free(&printed);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* The text does not parse: this code, at this LINE:COL; `message`, if given, is part of the message. */
static inline void check_refused(const char *text, flx_code code, const char *position, const char *message)
{
    flx_error err = {0};
    char where[40] = "t:";
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
    test_fail_context("%s", text);
    CHECK_MSG(m == NULL, "the text is accepted");
    CHECK_CODE(err.code, code, &err);
    CHECK_EQ_STR(err.where, strcat(where, position));
    CHECK_MSG(err.message[0] && (!message || strstr(err.message, message)), "the message is '%s'", err.message);
    flx_context_free(ctx);
    test_fail_context("%s", "");
}

#endif
