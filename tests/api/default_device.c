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
    static const char *const names[] = {"ref", "cpu", ""};
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

/* One wording for all: a name in $FLX_DEVICE, and the same name given. */
static void check_words(const char *where, const flx_error *err, flx_code code, const char *message)
{
    test_fail_context("%s", where);
    CHECK_CODE((flx_code)err->code, code, err);
    CHECK_EQ_STR(err->message, message);
    CHECK_EQ_STR(err->hint, "devices: ref, cpu, opencl; not available: cuda");
}

/* Everything that takes a device, with this one; NULL: the default. */
static void check_refusals(const char *device, flx_code code, const char *message)
{
    enum { CHECK, RUN, COMPILE, KERNEL, COUNT };
    static const char *const where[] = {"flx_device_check", "flx_run", "flx_compile", "flx_kernel_run"};
    flx_error err[COUNT] = {{0}};
    session_case c;
    uint32_t x[1] = {0};
    flx_tensor *out = NULL;
    session_begin(&c, "graph f() { return 1 }", 0);
    flx_kernel *k = flk("kernel t { buffer x: u32[1] read_write @0; x[0] = 1; }");
    flx_kernel_memory memory = {"x", x, sizeof x};
    flx_device_check(device, &err[CHECK]);
    flx_run(c.g, &(flx_run_options){.struct_size = sizeof(flx_run_options), .device = device}, NULL, 0, &out,
            &err[RUN]);
    flx_exec *e = flx_compile(c.g, &(flx_compile_options){.struct_size = sizeof(flx_compile_options), .device = device},
                              &err[COMPILE]);
    flx_kernel_run(k, (const uint32_t[3]){1, 1, 1}, &memory, 1,
                   &(flx_kernel_run_options){.struct_size = sizeof(flx_kernel_run_options), .device = device},
                   &err[KERNEL]);
    use_device("ref");
    CHECK(!out && !e && x[0] == 0);
    for (int i = 0; i < COUNT; i++)
        check_words(where[i], &err[i], code, message);
    flx_kernel_release(k);
    session_end(&c);
}

TEST(api_default_device_is_refused_in_the_same_words_everywhere)
{
    check_refusals("abacus", FLX_E_NAME, "unknown device 'abacus'");
    check_refusals("cuda", FLX_E_DEVICE,
                   "device 'cuda' is not available: there is no NVIDIA card with a driver for CUDA 12 or later here");
    use_device("abacus");
    check_refusals(NULL, FLX_E_NAME, "unknown device 'abacus' (from FLX_DEVICE)");
    use_device("cuda");
    check_refusals(NULL, FLX_E_DEVICE,
                   "device 'cuda' (from FLX_DEVICE) is not available: there is no NVIDIA card with a driver for CUDA "
                   "12 or later here");
}

TEST(api_device_check_says_what_graphs_can_run_on)
{
    flx_error err = {0};
    CHECK_EQ_STR(flx_device_default(), "ref");
    CHECK_OK(flx_device_check(NULL, &err), &err);
    CHECK_OK(flx_device_check("cpu", &err), &err);
    CHECK_CODE(flx_device_check("", &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_device_check("a\tvery long name that no device of any machine has had so far", NULL), FLX_E_NAME,
               NULL);
    use_device("");
    const char *name = flx_device_default();
    use_device("ref");
    CHECK_EQ_STR(name, "cpu");
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
