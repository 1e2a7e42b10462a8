/* SPDX-License-Identifier: Apache-2.0 */
/* machine_file.c: see machine_file.h. */
#include "mesh/machine_file.h"

#include "report.h"

#include <string.h>

static const double most = 1e30;
static const int64_t most_ranks = 1 << 20;

static int missing(const machine_file *f, const setting *at, const char *what)
{
    return settings_fail(&f->settings, at, "%s is missing", what);
}

/* link(ranks=8, bandwidth=3e11, latency=2e-6) */
static int read_link(machine_file *f, setting *from, const flx_link *before, flx_link *out)
{
    const settings *s = &f->settings;
    if (from->kind != SETTING_CALL || strcmp(from->text, "link") != 0)
        return settings_fail(s, from, "write link(ranks=8, bandwidth=1e11, latency=1e-6)");
    int status = settings_integer(s, from, "ranks", 1, most_ranks, &out->ranks);
    if (!status)
        status = settings_number(s, from, "bandwidth", SETTINGS_ABOVE_0, most, &out->bandwidth);
    if (!status)
        status = settings_number(s, from, "latency", 0, most, &out->latency);
    if (!status)
        status = settings_check_taken(s, from);
    if (status)
        return status;
    if (!out->ranks || !(out->bandwidth > 0))
        return missing(f, from, out->ranks ? "bandwidth" : "ranks");
    if (before && (out->ranks % before->ranks || out->ranks == before->ranks))
        return settings_fail(s, from, "a link joins groups of the %lld ranks of the link before, but has %lld",
                             (long long)before->ranks, (long long)out->ranks);
    return STATUS_OK;
}

static int read_links(machine_file *f)
{
    setting *list = settings_take(&f->settings.root, "links");
    int status = STATUS_OK;
    if (!list)
        return STATUS_OK;
    if (list->kind != SETTING_LIST || !list->first)
        return settings_fail(&f->settings, list, "links must be a list: [link(ranks=8, bandwidth=1e11, latency=1e-6)]");
    for (setting *part = list->first; !status && part; part = part->next) {
        uint32_t n = f->machine.num_links;
        if (n == MACHINE_LINKS)
            return settings_fail(&f->settings, part, "there are more than %d links", MACHINE_LINKS);
        status = read_link(f, part, n ? &f->links[n - 1] : NULL, &f->links[n]);
        f->machine.num_links++;
    }
    f->machine.links = f->links;
    return status;
}

int machine_file_read(machine_file *f, const char *path)
{
    *f = (machine_file){.machine = {.struct_size = sizeof f->machine}};
    settings *s = &f->settings;
    int status = settings_read(s, path);
    if (!status && s->has_graphs)
        status = fail(FLX_E_USAGE, "%s: a machine has settings, but a graph or kernel follows them", path);
    if (!status)
        status = settings_number(s, &s->root, "flops", SETTINGS_ABOVE_0, most, &f->machine.flops);
    if (!status)
        status = settings_number(s, &s->root, "bandwidth", SETTINGS_ABOVE_0, most, &f->machine.bandwidth);
    if (!status)
        status = settings_number(s, &s->root, "memory", SETTINGS_ABOVE_0, most, &f->memory);
    if (!status)
        status = settings_number(s, &s->root, "message", 0, 1, &f->machine.message);
    if (!status)
        status = read_links(f);
    if (!status)
        status = settings_check_taken(s, &s->root);
    if (!status && !(f->machine.flops > 0))
        return missing(f, &s->root, "flops");
    if (!status && !f->machine.num_links)
        return missing(f, &s->root, "links");
    return status;
}

void machine_file_free(machine_file *f)
{
    settings_free(&f->settings);
}
