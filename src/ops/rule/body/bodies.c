/* SPDX-License-Identifier: Apache-2.0 */
/* bodies.c: see bodies.h. */
#include "ops/rule/body/bodies.h"
#include "base/host/stop.h"

flx_code flxi_body_results(flxi_infer *f, const flx_graph *body, size_t from, size_t n)
{
    if (n == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the op would have no result");
    FLXI_TRY(flxi_results(f, n));
    for (size_t i = 0; i < n; i++)
        f->out[i] = *flxi_body_output(body, from + i);
    return FLX_OK;
}

flx_code flxi_match_carries(flxi_infer *f, const flx_graph *body, const flx_type *const *carries, size_t n)
{
    flxi_type_text a;
    flxi_type_text b;
    if (flxi_body_outputs(body) < n)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "body returns %zu results, expected %zu, one for each carry",
                               flxi_body_outputs(body), n);
    for (size_t i = 0; i < n; i++) {
        const flx_type *next = flxi_body_output(body, i);
        if (!flxi_type_equal(next, carries[i]))
            return flxi_infer_fail(f, next->dtype == carries[i]->dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                                   "carry %zu is %s, but the body returns %s", i, flxi_type_str(f->ctx, carries[i], &a),
                                   flxi_type_str(f->ctx, next, &b));
    }
    return FLX_OK;
}

flx_code flxi_eval_body(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in)
{
    size_t n = flxi_body_outputs(body);
    flx_tensor **out = flxi_alloc(e->mem, n, sizeof *out);
    if (!out)
        return flxi_oom(e->err, "results of a body");
    flx_code code = e->run_body(e, body, in, out);
    for (size_t i = 0; i < n; i++) {
        if (code == FLX_OK && i < e->nout && e->out[i]->nbytes)
            flxi_stop_copy(e->out[i]->data, out[i]->data, e->out[i]->nbytes);
        flx_tensor_release(out[i]);
    }
    flxi_free(e->mem, out, n, sizeof *out);
    return code;
}
