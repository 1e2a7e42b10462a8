/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c: the table of devices (devices.def) and its queries. Nothing is looked up on the machine before it is
   requested. */
#include "backend/devices.h"

#include <stdio.h>
#include <stdlib.h>

#define DEVICE(name, variable) extern const flxi_device variable;
#include "backend/devices.def"

static const flxi_device *const rows[] = {
#define DEVICE(name, variable) &variable,
#include "backend/devices.def"
};

enum { NUM_ROWS = sizeof rows / sizeof *rows, MAX_ADDED = 4 };

static const flxi_device *added[MAX_ADDED];

/* Device i, added ones last; NULL when there are fewer. */
static const flxi_device *device_at(size_t i)
{
    return i < NUM_ROWS ? rows[i] : i - NUM_ROWS < MAX_ADDED ? added[i - NUM_ROWS] : NULL;
}

/* Why nothing can run there, or NULL. */
static const char *why_missing(const flxi_device *d)
{
    return d->why_missing ? d->why_missing() : NULL;
}

bool flxi_device_add(const flxi_device *d)
{
    for (size_t i = 0; i < MAX_ADDED; i++)
        if (!added[i]) {
            added[i] = d;
            return true;
        }
    return false;
}

void flxi_device_remove(const flxi_device *d)
{
    for (size_t i = 0; i < MAX_ADDED; i++)
        while (added[i] == d) { /* the rows have no gaps */
            memmove(added + i, added + i + 1, (MAX_ADDED - 1 - i) * sizeof *added);
            added[MAX_ADDED - 1] = NULL;
        }
}

/* ---- Finding ---- */

const char *flx_device_default(void)
{
    const char *named = getenv("FLX_DEVICE");
    return named && *named ? named : "cpu";
}

const flxi_device *flxi_reference_device(void)
{
    return &flxi_device_ref;
}

/* A name as messages show it, and where it comes from when the caller gave none. */
typedef struct {
    char text[64];
} shown_name;

static shown_name show_name(const char *given)
{
    const char *name = given ? given : flx_device_default();
    char printable[40];
    shown_name s;
    snprintf(s.text, sizeof s.text, "'%s'%s", flxi_printable(printable, sizeof printable, name, strlen(name)),
             given ? "" : " (from FLX_DEVICE)");
    return s;
}

/* What there is: "devices: ref, cpu, opencl; not available: cuda"; "(kernels only)" comes after some names. */
static void hint_devices(flx_error *err)
{
    char usable[sizeof err->hint] = "", missing[sizeof err->hint] = "";
    const flxi_device *d;
    for (size_t i = 0; (d = device_at(i)); i++) {
        bool is_missing = why_missing(d);
        char *list = is_missing ? missing : usable;
        size_t n = strlen(list);
        snprintf(list + n, sizeof usable - n, "%s%s%s", n ? ", " : "", d->name,
                 !is_missing && d->no_graphs ? " (kernels only)" : "");
    }
    flxi_hint(err, "devices: %s%s%s", usable, missing[0] ? "; not available: " : "", missing);
}

static flx_code fail_unknown(const char *given, flx_error *err)
{
    flxi_fail(err, FLX_E_NAME, "unknown device %s", show_name(given).text);
    hint_devices(err);
    return FLX_E_NAME;
}

static flx_code fail_unusable(const char *given, const char *why, flx_error *err)
{
    flxi_fail(err, FLX_E_DEVICE, "device %s is not available: %s", show_name(given).text, why);
    hint_devices(err);
    return FLX_E_DEVICE;
}

flx_code flxi_device_find(const char *name, const flxi_device **out, flx_error *err)
{
    const char *wanted = name ? name : flx_device_default();
    const flxi_device *d;
    for (size_t i = 0; (d = device_at(i)); i++)
        if (strcmp(d->name, wanted) == 0) {
            const char *why = why_missing(d);
            *out = why ? NULL : d;
            return why ? fail_unusable(name, why, err) : FLX_OK;
        }
    return fail_unknown(name, err);
}

flx_code flxi_device_for_graphs(const char *name, const flxi_device **out, flx_error *err)
{
    FLXI_TRY(flxi_device_find(name, out, err));
    return (*out)->no_graphs ? fail_unusable(name, (*out)->no_graphs, err) : FLX_OK;
}

/* $FLX_DEVICE may name a device that compiles no graphs, for uncompiled runs or kernels: programs are then for cpu. */
flx_code flxi_device_for_programs(const char *name, const flxi_device **out, flx_error *err)
{
    FLXI_TRY(name ? flxi_device_for_graphs(name, out, err) : flxi_device_find(NULL, out, err));
    if (!name && !(*out)->compile)
        *out = &flxi_device_cpu;
    if ((*out)->compile)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "flx_run() runs graphs there; programs are for cpu",
                          "graphs cannot be compiled for the device '%.40s'", (*out)->name);
}

flx_code flxi_device_for_showing(const char *name, const flxi_device **out, flx_error *err)
{
    const flxi_device *d;
    for (size_t i = 0; name && (d = device_at(i)); i++)
        if (strcmp(d->name, name) == 0 && d->compile) {
            *out = d;
            return FLX_OK;
        }
    return flxi_device_for_programs(name, out, err);
}

flx_code flxi_device_for_kernels(const flx_kernel_run_options *o, const flxi_device **out, flx_error *err)
{
    bool needs_interpreter = o->flags || o->schedule != FLX_KERNEL_FORWARD || o->max_steps != FLXI_KERNEL_MAX_STEPS;
    *out = flxi_reference_device();
    if (!o->device && needs_interpreter)
        return FLX_OK;
    FLXI_TRY(flxi_device_find(o->device, out, err));
    if (!(*out)->run_dispatch)
        return fail_unusable(o->device, "it runs no kernels", err);
    if (o->flags && !(*out)->checks_kernels)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "run it with device ref",
                              "device '%s' neither detects races nor checks arithmetic", (*out)->name);
    if (o->schedule != FLX_KERNEL_FORWARD && !(*out)->checks_kernels)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "run it with device ref",
                              "device '%s' has no schedule: the order of invocations is its own", (*out)->name);
    return FLX_OK;
}

/* ---- Questions ---- */

flx_code flx_device_check(const char *name, flx_error *err)
{
    const flxi_device *found;
    return flxi_device_for_graphs(name, &found, err);
}

flx_code flx_device(size_t i, const char **name, char *detail, size_t size)
{
    const flxi_device *d = device_at(i);
    if (!d)
        return FLX_E_NAME;
    const char *missing = why_missing(d), *why = missing ? missing : d->no_graphs;
    if (name)
        *name = d->name;
    if (detail && size)
        snprintf(detail, size, "%s", why ? why : d->about);
    return why ? FLX_E_DEVICE : FLX_OK;
}

flx_code flx_device_fact(size_t i, size_t k, const char **name, char *text, size_t size)
{
    const flxi_device *d = device_at(i);
    const flxi_device_fact *f = d ? d->facts : NULL;
    for (; f && f->name && k > 0; k--)
        f++;
    if (!f || !f->name)
        return FLX_E_NAME;
    if (name)
        *name = f->name;
    if (text && size)
        f->write(text, size);
    return FLX_OK;
}

flx_code flx_device_route(size_t i, size_t k, const char **op, const char **route)
{
    const flxi_device *d = device_at(i);
    const char *names[2];
    if (!d || !d->route || !d->route(k, &names[0], &names[1]))
        return FLX_E_NAME;
    if (op)
        *op = names[0];
    if (route)
        *route = names[1];
    return FLX_OK;
}
