/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_onnx.c: ONNX models. What the reader accepts is a graph that verifies and can be used; what it rejects has an
   error with FILE:OFFSET. No external data is read. The bytes are also read as a tensor. */
#include "fuzz_checks.h"
#include "transform_checks.h"

#include <fluxion/onnx.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const flx_error *err)
{
    need(err->code != FLX_OK && err->code != FLX_E_INTERNAL && err->message[0]);
    need(strncmp(err->where, "fuzz:", 5) == 0 || err->code == FLX_E_OOM);
}

/* Texts are filled up with zeros to the longest one, to a megabyte or to 64 times their bytes. */
static void read_tensor(flx_context *ctx, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_tensor *t = flx_onnx_tensor_decode(ctx, data, size, "fuzz", &err);
    if (t)
        need(flx_tensor_nbytes(t) <= (1 << 20) + 64 * (size + 1) && (flx_tensor_get(t, flx_tensor_count(t) - 1), 1));
    else
        check_error(&err);
    flx_tensor_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_context *ctx =
        flx_context_new(&(flx_context_options){.alloc = FUZZ_ALLOC, .memory_limit = 64 << 20, .node_limit = 20000});
    flx_onnx *m = flx_onnx_decode(ctx, data, size, "fuzz", NULL, &err);
    if (m) {
        need(flx_graph_verify(flx_onnx_graph(m), &err) == FLX_OK);
        check_uses(flx_onnx_graph(m));
    } else {
        check_error(&err);
    }
    flx_onnx_free(m);
    read_tensor(ctx, data, size);
    flx_context_free(ctx);
    return 0;
}
