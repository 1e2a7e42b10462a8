/* SPDX-License-Identifier: Apache-2.0 */
/* run_text.h: a graph given as text, built and run in one call, for tests of single ops. */
#ifndef FLX_TEST_RUN_TEXT_H
#define FLX_TEST_RUN_TEXT_H

#include "test.h"

#include <fluxion/run.h>
#include <fluxion/text.h>

#define TEXT_MAX_OUTPUTS 4

typedef struct {
    flx_context *ctx;
    flx_module *module;
    flx_tensor *out[TEXT_MAX_OUTPUTS];
    int32_t code; /* of building or of running */
    flx_error err;
} text_run;

/* Runs the main graph of the text, which has no inputs. Check `code`, then end it with text_end(). */
static inline text_run text_begin(const char *text)
{
    text_run r = {.ctx = flx_context_new(NULL)};
    CHECK(r.ctx != NULL);
    size_t n = 0;
    while (text[n])
        n++;
    r.module = flx_parse(r.ctx, text, n, "test", &r.err);
    r.code = r.module ? FLX_OK : r.err.code;
    if (r.module) {
        CHECK(flx_graph_output_count(flx_module_main(r.module)) <= TEXT_MAX_OUTPUTS);
        r.code = (int32_t)flx_run(flx_module_main(r.module), ON_REF, NULL, 0, r.out, &r.err);
    }
    return r;
}

static inline void text_end(text_run *r)
{
    for (int i = 0; i < TEXT_MAX_OUTPUTS; i++)
        flx_tensor_release(r->out[i]);
    flx_module_free(r->module);
    flx_context_free(r->ctx);
}

/* The text fails to build or run with this code and message. */
static inline void check_text_fails(const char *text, int32_t code, const char *message)
{
    text_run r = text_begin(text);
    CHECK_CODE(r.code, code, &r.err);
    CHECK_EQ_STR(r.err.message, message);
    text_end(&r);
}

#endif
