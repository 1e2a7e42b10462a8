/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: running a graph once on a device: match the feeds with the inputs, bind symbolic dimensions, hand over. */
#include "backend/devices.h"
#include "base/host/stop.h"
#include "passes/pass.h"
#include "runtime/exec.h"
#include "runtime/feeds.h"

/* On a device that runs graphs as they are. */
static flx_code run_as_it_is(flxi_feeding *s, const flxi_device *device, const flx_run_options *options,
                             flx_tensor **outputs, flx_error *err)
{
    flx_graph *special = NULL;
    const flx_graph *g = s->g;
    if (s->g->symbols.n) {
        FLXI_TRY(flxi_specialise(s->g, s->bound.at, s->bound.n, &special, NULL, err));
        g = special;
    }
    flx_code code = device->run_graph(g, options, s->in, outputs, err);
    flx_graph_release(special);
    return code;
}

static flx_code run_on(const flxi_device *device, const flx_graph *g, const flxi_run_call *run, flx_error *err)
{
    const flx_run_options *options = run->options;
    flxi_feeding s;
    flxi_stop_scope scope;
    flxi_stop_enter(&scope, options->stop, options->time_limit);
    flx_code code = flxi_feeding_begin(&s, g, options, run->feeds, run->num_feeds, err);
    if (code == FLX_OK)
        code = flxi_feeding_check(&s);
    if (code == FLX_OK)
        code = device->run_graph ? run_as_it_is(&s, device, options, run->outputs, err)
                                 : flxi_run_compiled(g, device, run, err);
    flxi_feeding_end(&s);
    flxi_stop_leave(&scope);
    return code;
}

flx_code flx_run(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                 flx_tensor **outputs, flx_error *err)
{
    flx_error local = {0};
    const flxi_device *device = NULL;
    flx_code code = flx_graph_error(g, &local);
    for (size_t i = 0; outputs && i < flx_graph_output_count(g); i++)
        outputs[i] = NULL;
    flx_run_options o;
    if (code == FLX_OK && ((num_feeds && !feeds) || (g->outputs.n && !outputs)))
        code = flxi_fail(&local, FLX_E_USAGE, "flx_run: feeds and outputs must be given");
    if (code == FLX_OK)
        code = flxi_run_options_read(options, &o, &local);
    if (code == FLX_OK)
        code = flxi_check_symbols(g->symbols.at, g->symbols.n, g->name, o.dims, o.num_dims, &local);
    if (code == FLX_OK && o.status)
        *o.status = 0;
    if (code == FLX_OK)
        code = flxi_device_for_graphs(o.device, &device, &local);
    if (code == FLX_OK)
        code = run_on(device, g, &(flxi_run_call){&o, feeds, num_feeds, outputs}, &local);
    if (code != FLX_OK && device)
        flxi_at(&local, "%s", g->name);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
