/* SPDX-License-Identifier: Apache-2.0 */
/* default_device.c: $FLX_DEVICE decides where the caller gives no device, and only as far as that device goes. */
#include "kernel/flk.h"
#include "runtime/session_case.h"

#include <stdlib.h>

/* Runs with another $FLX_DEVICE; the tests' own is ref. */
static void use_device(const char *name)
{
    CHECK(setenv("FLX_DEVICE", name, 1) == 0);
}

TEST(api_default_device_without_graphs_compiles_for_cpu)
{
    static const char *const names[] = {"ref", "opencl", "cpu", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        session_case c;
        session_begin(&c, "graph f(x: f32[3]) { return add(x, 1) }", 0);
        use_device(names[i]);
        c.exec = flx_compile(c.g, NULL, &c.err);
        use_device("ref");
        test_fail_context("FLX_DEVICE=%s", names[i]);
        CHECK_MADE(c.exec, &c.err);
        session_end(&c);
    }
}

TEST(api_default_device_that_does_not_exist_is_an_error)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[3]) { return add(x, 1) }", 0);
    use_device("abacus");
    c.exec = flx_compile(c.g, NULL, &c.err);
    flx_code code = (flx_code)c.err.code;
    flx_exec *named = flx_compile(c.g, &(flx_compile_options){.device = "cpu"}, NULL);
    use_device("ref");
    CHECK(!c.exec && code == FLX_E_NAME && named);
    flx_exec_free(named);
    session_end(&c);
}

TEST(api_default_device_leaves_step_limits_to_the_interpreter)
{
    flx_error err = {0};
    uint32_t x[1] = {0};
    flx_kernel *k = flk("kernel t { buffer x: u32[1] read_write @0; for (i in 0..4294967295) { x[0] = i; } }");
    flx_kernel_memory memory = {"x", x, sizeof x};
    flx_kernel_run_options o = {.struct_size = sizeof o, .max_steps = 1000};
    use_device("cpu");
    flx_code code = flx_kernel_run(k, (const uint32_t[3]){1, 1, 1}, &memory, 1, &o, &err);
    use_device("ref");
    CHECK_CODE(code, FLX_E_KERNEL, &err);
    flx_kernel_release(k);
}
