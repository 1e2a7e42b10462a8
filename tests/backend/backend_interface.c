/* SPDX-License-Identifier: Apache-2.0 */
/* backend_interface.c: the table of devices: names, defaults, refusals, and that rows are complete. */
#include "backend/devices.h"
#include "runtime/session_case.h"

#include <fluxion/exec.h>
#include <stdlib.h>
#include <string.h>

TEST(backend_interface_rows_are_complete)
{
    const char *name;
    size_t programs = 0, graphs = 0, kernels = 0;
    for (size_t i = 0; flx_device(i, &name, NULL, 0) != FLX_E_NAME; i++) {
        const flxi_device *d = NULL;
        flx_error err = {0};
        if (flxi_device_find(name, &d, &err) != FLX_OK) {
            CHECK_EQ_I64(err.code, FLX_E_DEVICE);
            continue;
        }
        CHECK_EQ_STR(d->name, name);
        CHECK(d->about && d->about[0]);
        CHECK(d->no_graphs || d->run_graph || d->compile);
        CHECK(!d->no_graphs || (!d->run_graph && !d->compile));
        kernels += d->run_dispatch != NULL;
        graphs += d->run_graph != NULL;
        programs += d->compile != NULL;
        if (!d->compile)
            continue;
        CHECK(d->accept_node && d->open_queue && d->close_queue);
        CHECK(d->allocate && d->release && d->copy && d->run_kernel);
        CHECK(!d->route || (d->run_node && d->prepare_node));
        CHECK(!d->accept_chain || (d->run_chain && d->run_loop));
    }
    CHECK(kernels >= 3 && graphs >= 1 && programs >= 1);
}

TEST(backend_interface_default_device_is_the_environments_or_cpu)
{
    const char *before = getenv("FLX_DEVICE");
    char *kept = before ? strdup(before) : NULL;
    unsetenv("FLX_DEVICE");
    CHECK_EQ_STR(flx_device_default(), "cpu");
    setenv("FLX_DEVICE", "", 1);
    CHECK_EQ_STR(flx_device_default(), "cpu");
    setenv("FLX_DEVICE", "ref", 1);
    CHECK_EQ_STR(flx_device_default(), "ref");
    const flxi_device *d = NULL;
    flx_error err = {0};
    CHECK_OK(flxi_device_find(NULL, &d, &err), &err);
    CHECK_EQ_STR(d->name, "ref");
    CHECK_OK(flxi_device_find("cpu", &d, &err), &err);
    CHECK_EQ_STR(d->name, "cpu");
    setenv("FLX_DEVICE", "nonesuch", 1);
    CHECK_CODE(flxi_device_find(NULL, &d, &err), FLX_E_NAME, &err);
    CHECK(strstr(err.message, "nonesuch") && strstr(err.message, "FLX_DEVICE"));
    CHECK_EQ_STR(err.hint, "devices: ref, cpu, opencl; not available: cuda");
    unsetenv("FLX_DEVICE");
    if (kept)
        setenv("FLX_DEVICE", kept, 1);
    free(kept);
}

/* What flx_run() and flx_compile() say to each name: the same table answers both. */
TEST(backend_interface_refusals_have_reasons)
{
    static const struct {
        const char *name;
        int32_t run, compile;
        const char *why; /* in the message of compiling */
    } rows[] = {
        {"ref", FLX_OK, FLX_E_UNSUPPORTED, "cannot be compiled for the device 'ref'"},
        {"cpu", FLX_OK, FLX_OK, ""},
        {"cuda", FLX_E_DEVICE, FLX_E_DEVICE, "there is no NVIDIA card with a driver for CUDA 12 or later here"},
        {"abacus", FLX_E_NAME, FLX_E_NAME, "unknown device 'abacus'"},
    };
    session_case c;
    session_begin(&c, "graph f() { return 1 }", 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_tensor *out = NULL;
        c.err = (flx_error){0};
        CHECK_CODE(flx_run(c.g, &(flx_run_options){.device = rows[i].name}, NULL, 0, &out, &c.err), rows[i].run,
                   &c.err);
        c.err = (flx_error){0};
        flx_compile_options o = {.struct_size = sizeof o, .device = rows[i].name};
        flx_exec *e = flx_compile(c.g, &o, &c.err);
        CHECK_CODE(e ? FLX_OK : (flx_code)c.err.code, rows[i].compile, &c.err);
        CHECK_MSG(strstr(c.err.message, rows[i].why), "%s", c.err.message);
        flx_tensor_release(out);
        flx_exec_free(e);
    }
    session_end(&c);
}

/* Devices that tests add are listed after the others and go without leaving a gap. */
TEST(backend_interface_devices_can_be_added_and_removed)
{
    static const flxi_device first = {.name = "first", .about = "one"}, second = {.name = "second", .no_graphs = "two"};
    size_t n = 0;
    const char *name = NULL;
    char detail[20] = "";
    while (flx_device(n, NULL, NULL, 0) != FLX_E_NAME)
        n++;
    CHECK(flxi_device_add(&first) && flxi_device_add(&second));
    CHECK_CODE(flx_device(n + 1, &name, detail, sizeof detail), FLX_E_DEVICE, NULL);
    CHECK_EQ_STR(name, "second");
    CHECK_EQ_STR(detail, "two");
    flx_error err = {0};
    CHECK_CODE(flx_device_check("second", &err), FLX_E_DEVICE, &err);
    CHECK_EQ_STR(err.message, "device 'second' is not available: two");
    CHECK_MSG(strstr(err.hint, "second (kernels only)"), "%s", err.hint);
    flxi_device_remove(&first);
    CHECK_CODE(flx_device(n, &name, NULL, 0), FLX_E_DEVICE, NULL);
    CHECK_EQ_STR(name, "second");
    flxi_device_remove(&second);
    CHECK_EQ_I64(flx_device(n, &name, NULL, 0), FLX_E_NAME);
}
