/* SPDX-License-Identifier: Apache-2.0 */
/* text_graph.c: the graph of a whole text as a public function, and the values of its parameters. */
#include "base/options.h"
#include "gguf/decoder_graph.h"

enum { MOST_RANK = 4096 };

static flx_code check_options(const flx_text_graph_options *o, flx_error *err)
{
    if (o->flags & ~(uint32_t)FLX_TEXT_LOSS)
        return flxi_fail(err, FLX_E_USAGE, "flx_text_graph: unknown flags 0x%x", o->flags);
    if (o->activation_bits != 0 && o->activation_bits != 8 && o->activation_bits != 32)
        return flxi_fail(err, FLX_E_USAGE, "flx_text_graph: activation_bits must be 8 or 32, or 0 for 32: it is %d",
                         (int)o->activation_bits);
    if (o->adapter_rank >= 0 && o->adapter_rank <= MOST_RANK && o->adapter_scale >= 0 && o->adapter_scale < 1e6)
        return FLX_OK;
    return flxi_fail(err, FLX_E_USAGE,
                     "flx_text_graph: adapter_rank must be between 0 and %d, adapter_scale between 0 and 1e6",
                     MOST_RANK);
}

flx_graph *flx_text_graph(const flx_gguf *f, const flx_text_graph_options *options, flx_error *err)
{
    flx_text_graph_options o;
    flxi_model_sizes m;
    flx_error local = {0};
    if (!f) {
        flxi_fail(err, FLX_E_USAGE, "flx_text_graph: a file must be given");
        return NULL;
    }
    if (FLXI_READ_OPTIONS(flx_text_graph_options, &o, options, err) != FLX_OK || check_options(&o, err) != FLX_OK)
        return NULL;
    flx_graph *g = flxi_model_sizes_read(f, &m, &local) == FLX_OK ? flxi_text_graph(f, &m, &o, &local) : NULL;
    if (!g && err)
        *err = local;
    return g;
}

flx_tensor *flx_text_param(const flx_gguf *f, const flx_graph *g, const char *name, flx_error *err)
{
    flx_val v = f && g && name ? flx_graph_find(g, name) : FLX_NONE;
    int64_t i = v.id ? flx_gguf_find_tensor(f, name) : -1;
    if (i >= 0)
        return flx_val_type(g, v)->dtype == FLX_U8 ? flx_gguf_tensor_bytes(f, (size_t)i, err)
                                                   : flx_gguf_tensor_f32(f, (size_t)i, err);
    flxi_fail(err, FLX_E_NAME, "'%.60s' is not a parameter of the graph that the file has", name ? name : "");
    return NULL;
}
