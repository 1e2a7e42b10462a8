/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c: the decoders of tensor files. The first byte of the input selects one: .npy, .npz, .safetensors, bare
   DEFLATE data, bare JSON. Returned tensors are read completely. */
#include "format/inflate.h"
#include "format/json.h"

#include <fluxion/tensor.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink; /* so that the bytes are really read */

static void use_tensor(flx_tensor *t)
{
    const unsigned char *bytes = flx_tensor_const_data(t);
    unsigned char sum = 0;
    for (size_t i = 0; i < flx_tensor_nbytes(t); i++)
        sum ^= bytes[i];
    sink = sum;
    (void)flx_tensor_get(t, flx_tensor_count(t) - 1);
    flx_tensor_release(t);
}

static void decode_tensor(int kind, const uint8_t *data, size_t size)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_error err = {0};
    flx_tensor *t = kind == 0   ? flx_npy_decode(ctx, data, size, &err)
                    : kind == 1 ? flx_npz_decode(ctx, data, size, "a", &err)
                                : flx_safetensors_decode(ctx, data, size, "a", &err);
    if (!t && (err.code == FLX_OK || err.code == FLX_E_INTERNAL))
        abort();
    if (t)
        use_tensor(t);
    flx_context_free(ctx);
}

/* The first two bytes say how long the output should be. */
static void inflate_bare(const uint8_t *data, size_t size)
{
    if (size < 2)
        return;
    size_t n = (size_t)data[0] << 8 | data[1];
    void *out = malloc(n + 1);
    if (out)
        (void)flxi_inflate(data + 2, size - 2, out, n, NULL);
    free(out);
}

static void walk_json(const char *text, size_t size)
{
    flxi_json j = flxi_json_begin(text, size);
    flxi_json_token t;
    while ((t = flxi_json_next(&j)) > FLXI_JSON_END) {
        char out[8];
        uint64_t u;
        double x;
        if (t == FLXI_JSON_KEY || t == FLXI_JSON_STRING) {
            size_t n = flxi_json_text(&j, out, sizeof out);
            if (n < sizeof out && flxi_json_is(&j, out) != (strlen(out) == n)) /* a 0 inside equals no text */
                abort();
        } else if (t == FLXI_JSON_NUMBER) {
            (void)flxi_json_u64(&j, &u);
            (void)flxi_json_double(&j, &x);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    int kind = data[0] % 5;
    if (kind < 3)
        decode_tensor(kind, data + 1, size - 1);
    else if (kind == 3)
        inflate_bare(data + 1, size - 1);
    else
        walk_json((const char *)data + 1, size - 1);
    return 0;
}
