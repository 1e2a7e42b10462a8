/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: running a graph once on a device: match the feeds with the inputs, bind symbolic dimensions, hand over. */
#include "backend/ref/ref.h"
#include "base/host/default_device.h"
#include "passes/pass.h"
#include "runtime/device.h"
#include "runtime/exec.h"
#include "runtime/feeds.h"

static flx_code run_by_reference(flxi_feeding *s, const flx_run_options *options, flx_tensor **outputs, flx_error *err)
{
    flx_graph *special = NULL;
    const flx_graph *g = s->g;
    if (s->g->symbols.n) {
        FLXI_TRY(flxi_specialise(s->g, s->bound.at, s->bound.n, &special, NULL, err));
        g = special;
    }
    flx_code code = flxi_feeding_check(s, g);
    if (code == FLX_OK)
        code = flxi_ref_run(g, options, s->in, outputs, err);
    flx_graph_release(special);
    return code;
}

static flx_code run_checked(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                            flx_tensor **outputs, flx_error *err)
{
    if (strcmp(options->device, "cpu") == 0)
        return flxi_run_compiled(g, options, feeds, num_feeds, outputs, err);
    flxi_feeding s;
    flx_code code = flxi_feeding_begin(&s, g, options, feeds, num_feeds, err);
    if (code == FLX_OK)
        code = run_by_reference(&s, options, outputs, err);
    flxi_feeding_end(&s);
    return code;
}

flx_code flx_run(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                 flx_tensor **outputs, flx_error *err)
{
    flx_error local = {0};
    flx_code code = flx_graph_error(g, &local);
    for (size_t i = 0; outputs && i < flx_graph_output_count(g); i++)
        outputs[i] = NULL;
    flx_run_options o;
    if (code == FLX_OK && ((num_feeds && !feeds) || (g->outputs.n && !outputs)))
        code = flxi_fail(&local, FLX_E_USAGE, "flx_run: feeds and outputs must be given");
    if (code == FLX_OK)
        code = flxi_run_options_read(options, &o, &local);
    if (code == FLX_OK && o.status)
        *o.status = 0;
    if (code == FLX_OK)
        o.device = flxi_device_or_default(o.device);
    if (code == FLX_OK)
        code = flxi_check_device(o.device, &local);
    if (code == FLX_OK)
        code = run_checked(g, &o, feeds, num_feeds, outputs, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
