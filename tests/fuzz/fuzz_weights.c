/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_weights.c: files of named tensors, whatever their form is: what a file lists is read completely. */
#include <fluxion/tensor.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char weights_sink; /* so that the bytes are really read */

static void need_error(const flx_error *err)
{
    if (err->code == FLX_OK || err->code == FLX_E_INTERNAL || !err->message[0])
        abort();
}

static void use_key(flx_context *ctx, const uint8_t *data, size_t size, const char *key)
{
    flx_error err = {0};
    flx_tensor *t = flx_weights_decode(ctx, data, size, key, &err);
    if (!t) {
        need_error(&err);
        return;
    }
    const unsigned char *bytes = flx_tensor_const_data(t);
    for (size_t i = 0; i < flx_tensor_nbytes(t); i++)
        weights_sink ^= bytes[i];
    flx_tensor_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST_KEYS = 20 }; /* a file that lists many is as slow as it is long */
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_error err = {0};
    flx_keys *keys = flx_keys_decode(ctx, data, size, &err);
    if (!keys)
        need_error(&err);
    for (size_t i = 0; i < flx_keys_count(keys) && i < MOST_KEYS; i++)
        use_key(ctx, data, size, flx_keys_at(keys, i));
    use_key(ctx, data, size, "no such key");
    flx_keys_free(keys);
    flx_context_free(ctx);
    return 0;
}
