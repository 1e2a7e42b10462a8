/* SPDX-License-Identifier: Apache-2.0 */
/* symbolic_text.h: graphs with symbolic dimensions: their types and the results of a run. */
#ifndef FLX_TEST_SYMBOLIC_TEXT_H
#define FLX_TEST_SYMBOLIC_TEXT_H

#include "run_text.h"

/* The type of the first output of the text's main graph. */
static inline void check_text_type(const char *text, const char *type)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    size_t n = 0;
    while (text[n])
        n++;
    flx_module *m = flx_parse(ctx, text, n, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    char found[80];
    const flx_graph *g = flx_module_main(m);
    flx_type_print(ctx, flx_val_type(g, flx_graph_output(g, 0)), found, sizeof found);
    CHECK_EQ_STR(found, type);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Runs the main graph, whose one input is `x` of one symbolic extent, on zeros of that extent. The code of the run; on
   success the shape of the first output is in *out. */
static inline int32_t run_text_at(const char *text, flx_type x_type, flx_type *out, flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    size_t n = 0;
    while (text[n])
        n++;
    flx_module *m = flx_parse(ctx, text, n, "test", err);
    CHECK_OK(m ? FLX_OK : err->code, err);
    flx_tensor *x = flx_tensor_new(ctx, &x_type, NULL, err);
    CHECK(x != NULL);
    flx_tensor *y[TEXT_MAX_OUTPUTS] = {0};
    CHECK(flx_graph_output_count(flx_module_main(m)) <= TEXT_MAX_OUTPUTS);
    int32_t code = (int32_t)flx_run(flx_module_main(m), ON_REF, &(flx_feed){"x", x}, 1, y, err);
    if (code == FLX_OK)
        *out = *flx_tensor_type(y[0]);
    for (int i = 0; i < TEXT_MAX_OUTPUTS; i++)
        flx_tensor_release(y[i]);
    flx_tensor_release(x);
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

#endif
