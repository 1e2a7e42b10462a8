/* SPDX-License-Identifier: Apache-2.0 */
/* scalar_body.c: running a sub-graph once per element. The input tensors are made once and refilled; the results of a
   call are copied out before anything is refilled, because a body may return its own inputs. */
#include "ops/rule/body/scalar_body.h"

/* ---- Inference ---- */

flx_code flxi_match_scalar_body(flxi_infer *f, const char *attr, const flx_graph *body, size_t n,
                                flxi_body_operand operand)
{
    flx_type scalars[FLX_DTYPE_COUNT];
    for (int32_t d = 0; d < FLX_DTYPE_COUNT; d++)
        scalars[d] = (flx_type){.dtype = d};

    flxi_mark mark = flxi_arena_mark(f->arena);
    const flx_type **types = flxi_new(f->arena, const flx_type *, n);
    if (!types)
        return flxi_oom(f->err, "the types of a body's inputs");
    for (size_t j = 0; j < n; j++)
        types[j] = &scalars[f->in[operand(f->nin, j)]->dtype];
    flx_code code = flxi_match_body(f, attr, body, types, n);
    flxi_arena_rewind(f->arena, mark);
    return code;
}

flx_code flxi_match_scalar_output(flxi_infer *f, const char *attr, const flx_graph *body, size_t i, int32_t dtype)
{
    const flx_type *t = flxi_body_output(body, i);
    flxi_type_text text;
    if (t->rank != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "the body works on single elements",
                               "output %zu of %s is %s, not a scalar", i, attr, flxi_type_str(f->ctx, t, &text));
    if (dtype != FLX_DTYPE_NONE && t->dtype != dtype)
        return flxi_infer_fail(f, FLX_E_DTYPE, "cast it inside the body", "output %zu of %s is %s, expected %s", i,
                               attr, flxi_type_str(f->ctx, t, &text), flx_dtype_name(dtype));
    return FLX_OK;
}

/* ---- Evaluation ---- */

flx_code flxi_scalar_body_begin(flxi_scalar_body *b, flxi_eval *e, const flx_graph *body, size_t n,
                                flxi_body_operand operand)
{
    *b = (flxi_scalar_body){.e = e, .body = body, .nin = n, .nout = flxi_body_outputs(body)};
    b->in = flxi_alloc(e->mem, b->nin, sizeof *b->in);
    b->out = flxi_alloc(e->mem, b->nout, sizeof *b->out);
    b->results = flxi_alloc(e->mem, b->nout, FLXI_SCALAR_BYTES);
    if (!b->in || !b->out || !b->results)
        return flxi_oom(e->err, "the elements a body works on");
    for (size_t j = 0; j < n; j++) {
        const flx_tensor *x = e->in[operand(e->nin, j)];
        flx_type scalar = {.dtype = x->type.dtype};
        b->in[j] = flx_tensor_new(x->ctx, &scalar, NULL, e->err);
        if (!b->in[j])
            return flxi_oom(e->err, "the elements a body works on");
    }
    return FLX_OK;
}

void flxi_scalar_body_end(flxi_scalar_body *b)
{
    const flxi_allocator *mem = b->e->mem;
    if (b->in) {
        for (size_t j = 0; j < b->nin; j++)
            flx_tensor_release(b->in[j]);
        flxi_free(mem, b->in, b->nin, sizeof *b->in);
    }
    if (b->out)
        flxi_free(mem, b->out, b->nout, sizeof *b->out);
    if (b->results)
        flxi_free(mem, b->results, b->nout, FLXI_SCALAR_BYTES);
}

void flxi_scalar_body_set(flxi_scalar_body *b, size_t j, const void *base, int64_t k)
{
    size_t size = b->in[j]->nbytes;
    memcpy(b->in[j]->data, (const char *)base + (size_t)k * size, size);
}

flx_code flxi_scalar_body_call(flxi_scalar_body *b)
{
    FLXI_TRY(b->e->run_body(b->e, b->body, (const flx_tensor *const *)b->in, b->out));
    for (size_t i = 0; i < b->nout; i++) {
        memcpy(b->results + i * FLXI_SCALAR_BYTES, b->out[i]->data, b->out[i]->nbytes);
        flx_tensor_release(b->out[i]);
        b->out[i] = NULL;
    }
    return FLX_OK;
}
