/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_recording.c: recordings, and the lists of names in archives of arrays. What is read as a recording has a graph
   that verifies, and runs or fails with a message. */
#include "fuzz_checks.h"

#include <fluxion/recording.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void list_names(flx_context *ctx, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_keys *keys = flx_keys_decode(ctx, data, size, &err);
    if (!keys)
        need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0]);
    for (size_t i = 0; keys && i < flx_keys_count(keys); i++) {
        const char *name = flx_keys_at(keys, i);
        need(name != NULL);
        flx_tensor_release(flx_npz_decode(ctx, data, size, name, NULL));
        flx_tensor_release(flx_safetensors_decode(ctx, data, size, name, NULL));
    }
    need(!keys || !flx_keys_at(keys, flx_keys_count(keys)));
    flx_keys_free(keys);
}

static void run_recording(flx_context *ctx, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_tensor *out[MAX_OUTPUTS];
    flx_recording *r = flx_recording_decode(ctx, data, size, &err);
    if (!r) {
        need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0]);
        return;
    }
    const flx_graph *g = flx_recording_graph(r);
    check_graph(g);
    flx_recording_failure(r, &err);
    if (flx_graph_output_count(g) <= MAX_OUTPUTS) {
        flx_stop *stop = flx_stop_new(ctx, 2.0, &err);
        need(stop != NULL);
        flx_stop_use(stop);
        flx_code code = flx_recording_run(r, &(flx_run_options){.device = "ref"}, out, &err);
        need(code == FLX_OK || (code != FLX_E_INTERNAL && err.message[0]));
        for (size_t i = 0; code == FLX_OK && i < flx_graph_output_count(g); i++)
            flx_tensor_release(out[i]);
        flx_stop_use(NULL);
        flx_stop_free(stop);
    }
    flx_recording_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    need(ctx != NULL);
    list_names(ctx, data, size);
    run_recording(ctx, data, size);
    flx_context_free(ctx);
    return 0;
}
