/* SPDX-License-Identifier: Apache-2.0 */
/* batch_text.h: a graph given as text, batched over some of its inputs and run on chosen values. */
#ifndef FLX_TEST_BATCH_TEXT_H
#define FLX_TEST_BATCH_TEXT_H

#include "gradient_text.h"

enum { BATCH_MAX_INPUTS = 4 };

/* An input: its elements, row-major, with a leading batch axis where `batched`. */
typedef struct {
    const char *name;
    double at[GRADIENT_MAX_PARTS];
    bool batched;
} batch_row;

/* The code of the run; the parts of the one output are in `out`. */
static inline int32_t run_batched(const char *text, flx_dim size, const batch_row *rows, size_t n, double *out,
                                  flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", err);
    CHECK_OK(m ? FLX_OK : err->code, err);
    flx_feed feeds[BATCH_MAX_INPUTS];
    flx_tensor *in[BATCH_MAX_INPUTS];
    flx_vmap_axis axes[BATCH_MAX_INPUTS];
    flx_tensor *y = NULL;
    size_t batched = 0;
    CHECK(n <= BATCH_MAX_INPUTS);
    for (size_t i = 0; i < n; i++) {
        const flx_graph *g = flx_module_main(m);
        const flx_type *one = flx_val_type(g, flx_graph_find(g, rows[i].name));
        CHECK(one != NULL);
        flx_type type = *one;
        if (rows[i].batched) {
            memmove(type.dims + 1, type.dims, (size_t)type.rank++ * sizeof type.dims[0]);
            type.dims[0] = size;
            axes[batched++] = (flx_vmap_axis){rows[i].name, 0};
        }
        in[i] = gradient_tensor(ctx, &type, rows[i].at);
        feeds[i] = (flx_feed){rows[i].name, in[i]};
    }
    flx_graph *v = flx_vmap(flx_module_main(m), axes, batched, NULL, 0, size, err);
    CHECK_OK(v ? FLX_OK : err->code, err);
    int32_t code = (int32_t)flx_run(v, ON_REF, feeds, n, &y, err);
    if (code == FLX_OK)
        gradient_read(y, out);
    flx_tensor_release(y);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
    flx_graph_release(v);
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

static inline void check_batched(const char *text, flx_dim size, const batch_row *rows, size_t n, const double *want,
                                 size_t count)
{
    double found[GRADIENT_MAX_PARTS] = {0};
    flx_error err = {0};
    CHECK_OK(run_batched(text, size, rows, n, found, &err), &err);
    for (size_t k = 0; k < count; k++) {
        test_fail_context("%s, number %zu", text, k);
        CHECK_NEAR(found[k], want[k], 0);
    }
}

#endif
