/* cmd_devices.c: `flx devices`, and the rules on device names that all commands share. */
#include "cmd_devices.h"

#include "args.h"
#include "commands.h"
#include "json_writer.h"
#include "report.h"

#include <fluxion/run.h>
#include <stdio.h>
#include <string.h>

const char default_device[] = "ref";

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

static int run_devices(const args *a)
{
    json j = {0};
    const char *name;
    char detail[200] = "";
    for (size_t i = 0;; i++) {
        flx_code code = flx_device(i, &name, detail, sizeof detail);
        if (code == FLX_E_NAME)
            return STATUS_OK;
        if (args_has(a, "--json")) {
            json_object_begin(&j, NULL);
            json_text(&j, "name", name);
            json_bool(&j, "available", code == FLX_OK);
            json_text(&j, "detail", detail);
            json_object_end(&j);
        } else {
            printf("%-7s %-13s %s\n", name, code == FLX_OK ? "available" : "not available", detail);
        }
    }
}

static const option options[] = {OPTION_JSON, {0}};

static const char *const examples[] = {"flx devices", "flx devices --json", NULL};

const command command_devices = {
    .name = "devices",
    .operand = "",
    .summary = "what this machine offers",
    .about = "Lists the devices that graphs can run on, one per line, with what is known of each.",
    .options = options,
    .examples = examples,
    .run = run_devices,
};
