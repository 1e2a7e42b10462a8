/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_devices.c: `flx devices`, and how all commands choose a device. */
#include "command/cmd_devices.h"

#include "args.h"
#include "commands.h"
#include "io/json_writer.h"
#include "report.h"

#include <fluxion/run.h>
#include <stdio.h>
#include <string.h>

int device_choose(const char *given, const char **device)
{
    flx_error err = {0};
    *device = given ? given : flx_device_default();
    return flx_device_check(given, &err) == FLX_OK ? STATUS_OK : report(&err, NULL);
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
