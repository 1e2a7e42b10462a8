/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_devices.c: `flx devices`, and the rules on device names that all commands share. */
#include "command/cmd_devices.h"

#include "args.h"
#include "commands.h"
#include "io/json_writer.h"
#include "report.h"

#include <fluxion/run.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *default_device(void)
{
    const char *named = getenv("FLX_DEVICE");
    return named && *named ? named : "cpu";
}

/* Names that devices of Fluxion have, whether or not this library was built with them. */
static const char *const known_names[] = {"ref", "cpu", "opencl", "cuda", NULL};

int device_require(const char *name)
{
    const char *found;
    char detail[200] = "";
    for (size_t i = 0;; i++) {
        flx_code code = flx_device(i, &found, detail, sizeof detail);
        if (code == FLX_E_NAME)
            break;
        if (strcmp(found, name) != 0)
            continue;
        if (code == FLX_OK)
            return STATUS_OK;
        int status = fail(FLX_E_DEVICE, "device '%s' is not available: %s", name, detail);
        hint("flx devices lists what there is");
        return status;
    }
    for (const char *const *known = known_names; *known; known++) {
        if (strcmp(*known, name) != 0)
            continue;
        int status = fail(FLX_E_DEVICE, "device '%s' is not part of this build", name);
        hint("flx devices lists what there is");
        return status;
    }
    int status = fail(FLX_E_USAGE, "unknown device '%s'", name);
    hint_list_begin("devices");
    for (const char *const *known = known_names; *known; known++)
        list_item(*known);
    hint_list_end();
    return status;
}

/* ---- Telling ---- */

/* The routes of an op are neighbours; each op is a line. */
static void print_routes(size_t device)
{
    const char *op, *route, *last = "";
    for (size_t k = 0; flx_device_route(device, k, &op, &route) == FLX_OK; k++) {
        if (k == 0)
            printf("  ops with hand-written or library routes, best first; other ops are generated kernels:\n");
        if (strcmp(op, last) != 0)
            printf("%s    %-20s %s", k ? "\n" : "", op, route);
        else
            printf(", %s", route);
        last = op;
    }
    if (last[0])
        putchar('\n');
}

static void print_device(size_t device, const char *name, flx_code state, const char *detail)
{
    const char *fact;
    char text[500];
    printf("%-7s %-13s %s\n", name, state == FLX_OK ? "available" : "not available", detail);
    for (size_t k = 0; flx_device_fact(device, k, &fact, text, sizeof text) == FLX_OK; k++)
        printf("  %-10s %s\n", fact, text);
    print_routes(device);
}

static void print_json(size_t device, const char *name, flx_code state, const char *detail)
{
    const char *fact, *op, *route;
    char text[500];
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "name", name);
    json_bool(&j, "available", state == FLX_OK);
    json_text(&j, "detail", detail);
    for (size_t k = 0; flx_device_fact(device, k, &fact, text, sizeof text) == FLX_OK; k++)
        json_text(&j, fact, text);
    json_array_begin(&j, "routes");
    for (size_t k = 0; flx_device_route(device, k, &op, &route) == FLX_OK; k++) {
        json_object_begin(&j, NULL);
        json_text(&j, "op", op);
        json_text(&j, "route", route);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

static int run_devices(const args *a)
{
    const char *name;
    char detail[200] = "";
    for (size_t i = 0;; i++) {
        flx_code code = flx_device(i, &name, detail, sizeof detail);
        if (code == FLX_E_NAME)
            return STATUS_OK;
        if (args_has(a, "--json"))
            print_json(i, name, code, detail);
        else
            print_device(i, name, code, detail);
    }
}

static const option options[] = {OPTION_JSON, {0}};

static const char *const examples[] = {"flx devices", "flx devices --json", NULL};

const command command_devices = {
    .name = "devices",
    .operand = "",
    .summary = "what this machine offers",
    .about = "Lists the devices that graphs can run on, with what is known of each. The device cpu compiles with the\n"
             "C compiler of the system ($FLX_CC, else gcc, clang or cc) and keeps what was compiled in a cache\n"
             "($FLX_CACHE is on, read-only or off; $FLX_CACHE_DIR). Without a compiler it still runs everything,\n"
             "by its routes and the reference evaluator. Large matrix products may go to a CBLAS library\n"
             "($FLX_BLAS is a path, or off).",
    .options = options,
    .examples = examples,
    .run = run_devices,
};
