/* SPDX-License-Identifier: Apache-2.0 */
/* misuse.c: arguments that no function accepts: unknown flags, values out of range, unknown and repeated names, NULL.
   Each row is one call with the code it must fail with, and where the text has been misleading, a part of the text.
   Structs of every size are in options.c, layers in tests/nn/nn_misuse.c, unusual graphs in degenerate.c. */
#include "api/api_fixture.h"
#include "api/callbacks.h"
#include "test.h"

#include <fluxion/catalogue.h>
#include <fluxion/custom.h>
#include <fluxion/fluxion.h>
#include <fluxion/kernel.h>
#include <fluxion/recording.h>
#include <fluxion/report.h>
#include <fluxion/stablehlo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef flx_code (*call_fn)(fixture *f, flx_error *err);

typedef struct {
    const char *what;
    flx_code code;
    const char *text; /* part of the message, or NULL */
    call_fn call;
} misuse;

/* CALL(name, expression of f and err that gives a code) */
#define CALL(name, ...)                                    \
    static flx_code name(fixture *f, flx_error *err)       \
    {                                                      \
        (void)f, (void)err; /* some use neither of them */ \
        __VA_ARGS__                                        \
    }

static flx_code made_graph(flx_graph *g, const flx_error *err)
{
    flx_graph_release(g);
    return g ? FLX_OK : (flx_code)err->code;
}

static flx_code made_exec(flx_exec *e, const flx_error *err)
{
    flx_exec_free(e);
    return e ? FLX_OK : (flx_code)err->code;
}

static flx_code made_trainer(flx_trainer *t, const flx_error *err)
{
    flx_trainer_free(t);
    return t ? FLX_OK : (flx_code)err->code;
}

static flx_code made_derived(flx_kernel_derived *d, const flx_error *err)
{
    flx_kernel_derived_free(d);
    return d ? FLX_OK : (flx_code)err->code;
}

static flx_code made_kernel(flx_kernel *k, const flx_error *err)
{
    flx_kernel_release(k);
    return k ? FLX_OK : (flx_code)err->code;
}

static void check_rows(const misuse *rows, size_t n)
{
    fixture f = fixture_new();
    for (size_t i = 0; i < n; i++) {
        flx_error err = {0};
        test_fail_context("%s", rows[i].what);
        flx_code code = rows[i].call(&f, &err);
        EXPECT_MSG(code == rows[i].code, "%s: %s instead of %s: %s", rows[i].what, flx_code_name(code),
                   flx_code_name(rows[i].code), err.message);
        EXPECT_MSG(!rows[i].text || strstr(err.message, rows[i].text), "%s: '%s' does not say '%s'", rows[i].what,
                   err.message, rows[i].text);
        test_count_case();
    }
    fixture_free(&f);
}

#define CHECK_ROWS(rows) check_rows((rows), sizeof(rows) / sizeof *(rows))

static const char *const x_only[] = {"x"};
static const char *const y_only[] = {"y"};
static const char *const x_twice[] = {"x", "x"};
static const char *const y_twice[] = {"y", "y"};
static const char *const unknown[] = {"z"};
static const char *const null_name[] = {NULL};

/* ---- Flags ---- */

enum { NO_FLAG = 1 << 30 };

CALL(flag_grad, flx_grad_options o = {.flags = NO_FLAG}; return made_graph(flx_grad(f->g, x_only, 1, &o, err), err);)
CALL(flag_hvp, flx_grad_options o = {.flags = NO_FLAG}; return made_graph(flx_hvp(f->g, x_only, 1, &o, err), err);)
CALL(flag_jacobian, flx_jacobian_options o = {.flags = NO_FLAG};
     return made_graph(flx_jacobian(f->g, x_only, 1, &o, err), err);)
CALL(flag_hessian, flx_jacobian_options o = {.flags = NO_FLAG};
     return made_graph(flx_hessian(f->g, x_only, 1, &o, err), err);)
CALL(flag_force, flx_force_options o = {.flags = NO_FLAG};
     return made_graph(flx_force_energy_loss(f->g, "x", &o, err), err);)
CALL(flag_rewrite, flx_rewrite_options o = {.flags = NO_FLAG};
     return made_graph(flx_rewrite_patterns(f->g, &o, NULL, err), err);)
CALL(flag_compile, flx_compile_options o = {.flags = NO_FLAG}; return made_exec(flx_compile(f->g, &o, err), err);)
CALL(flag_compile_training, flx_compile_options o = {.flags = NO_FLAG};
     return made_trainer(flx_compile_training(f->g, NULL, &o, err), err);)
CALL(flag_params_load, return flx_params_load(flx_trainer_params(f->trainer), "file", NO_FLAG, err);)
CALL(flag_fit, flx_fit_options o = {.struct_size = sizeof o, .flags = NO_FLAG};
     return flx_fit(f->trainer, &o, NULL, err);)
CALL(flag_training, flx_train_options o = {.flags = NO_FLAG};
     return made_graph(flx_training_graph(f->g, &o, err), err);)

static flx_code show(const fixture *f, const flx_compile_options *o, flx_error *err)
{
    flx_buffer text = {0};
    flx_code code = FLX_OK;
    for (int stage = FLX_STAGE_HIR; stage <= FLX_STAGE_C; stage++) { /* each must refuse them */
        code = flx_show_stage(f->g, (flx_stage)stage, o, &text, err);
        flx_buffer_free(&text);
        if (code == FLX_OK)
            return code;
    }
    return code;
}

CALL(flag_show, flx_compile_options o = {.flags = NO_FLAG}; return show(f, &o, err);)

static flx_code run_with(const fixture *f, const flx_run_options *o, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_code code = flx_run(f->g, o, f->feeds, 2, &y, err);
    flx_tensor_release(y);
    return code;
}

static flx_code exec_run_with(const fixture *f, const flx_run_options *o, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_code code = flx_exec_run(f->exec, o, f->feeds, 2, &y, err);
    flx_tensor_release(y);
    return code;
}

static flx_code start_with(const fixture *f, const flx_run_options *o, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_job *job = flx_exec_start(f->exec, o, f->feeds, 2, err);
    flx_code code = job ? flx_job_wait(job, &y, err) : (flx_code)err->code;
    flx_tensor_release(y);
    flx_job_free(job);
    return code;
}

static flx_code profile_with(const fixture *f, const flx_run_options *o, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_code code = flx_exec_profile(f->exec, o, f->feeds, 2, &y, NULL, 0, NULL, err);
    flx_tensor_release(y);
    return code;
}

static flx_code record_with(const fixture *f, const flx_run_options *o, flx_error *err)
{
    return flx_exec_record(f->exec, o, f->feeds, 2, f->recording, err);
}

static flx_code replay_with(const fixture *f, const flx_run_options *o, flx_error *err)
{
    flx_tensor *y = NULL;
    flx_recording *r = flx_recording_read(f->ctx, f->recording, err);
    flx_code code = r ? flx_recording_run(r, o, &y, err) : (flx_code)err->code;
    flx_tensor_release(y);
    flx_recording_free(r);
    return code;
}

CALL(flag_run, flx_run_options o = {.flags = NO_FLAG}; return run_with(f, &o, err);)
CALL(flag_exec_run, flx_run_options o = {.flags = NO_FLAG}; return exec_run_with(f, &o, err);)
CALL(flag_start, flx_run_options o = {.flags = NO_FLAG}; return start_with(f, &o, err);)
CALL(flag_profile, flx_run_options o = {.flags = NO_FLAG}; return profile_with(f, &o, err);)
CALL(flag_record, flx_run_options o = {.flags = NO_FLAG}; return record_with(f, &o, err);)
CALL(flag_replay, flx_run_options o = {.flags = NO_FLAG}; return replay_with(f, &o, err);)
CALL(flag_context, flx_context_options o = {.flags = NO_FLAG}; flx_context *c = flx_context_new(&o);
     flx_context_free(c); return c ? FLX_OK : FLX_E_USAGE;)

static const uint32_t grid[3] = {4, 1, 1};

static flx_code kernel_with(const fixture *f, const flx_kernel_run_options *o, flx_error *err)
{
    float x[4] = {1, 2, 3, 4}, y[4];
    const flx_kernel_memory memory[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
    return flx_kernel_run(f->kernel, grid, memory, 2, o, err);
}

static flx_code derived_with(const fixture *f, const flx_kernel_run_options *o, flx_error *err)
{
    float x[4] = {1, 2, 3, 4}, dx[4] = {0};
    const flx_kernel_memory memory[] = {{"x", x, sizeof x}, {"grad_x", dx, sizeof dx}};
    return flx_kernel_derived_run(f->derived, grid, memory, 2, o, err);
}

CALL(flag_kernel, flx_kernel_run_options o = {.flags = NO_FLAG}; return kernel_with(f, &o, err);)
CALL(flag_derived, flx_kernel_run_options o = {.flags = NO_FLAG}; return derived_with(f, &o, err);)
CALL(flag_validate, flx_kernel_target o = {.flags = NO_FLAG};
     return flx_kernel_validate(f->kernel, &o, NULL, 0, NULL, err);)
CALL(flag_kernel_grad, flx_kernel_grad_options o = {.flags = NO_FLAG};
     return made_derived(flx_kernel_grad(f->kernel, y_only, 1, x_only, 1, &o, err), err);)
CALL(flag_kernel_jvp, flx_kernel_grad_options o = {.flags = NO_FLAG};
     return made_derived(flx_kernel_jvp(f->kernel, y_only, 1, x_only, 1, &o, err), err);)

static flx_code built(fixture *f, void (*add)(flx_kernel_builder *b), flx_error *err)
{
    flx_kernel_builder *b = flx_kernel_begin(f->ctx, "built", 1, 1, 1);
    add(b);
    return made_kernel(flx_kernel_finish(b, err), err);
}

static void add_flags(flx_kernel_builder *b)
{
    flx_kernel_set_flags(b, NO_FLAG);
}

static void add_buffer_flags(flx_kernel_builder *b)
{
    flx_kernel_buffer o = {.flags = NO_FLAG, .name = "x", .access = FLX_KERNEL_READ, .element = FLX_F32, .count = 1};
    flx_kernel_add_buffer(b, &o);
}

static void add_region_flags(flx_kernel_builder *b)
{
    flx_kernel_region(b, "r", "s", NO_FLAG);
    flx_kernel_end(b);
}

CALL(flag_set_flags, return built(f, add_flags, err);)
CALL(flag_buffer, return built(f, add_buffer_flags, err);)
CALL(flag_region, return built(f, add_region_flags, err);)

CALL(flag_extension, flx_kernel_extension o = {.flags = NO_FLAG,
                                               .name = "first",
                                               .fingerprint = 1,
                                               .id = 7,
                                               .num_args = 1,
                                               .type = type_of_first,
                                               .evaluate = evaluate_first};
     return flx_kernel_register_extension(f->ctx, &o, err);)
CALL(flag_custom, flx_custom_op o = {.flags = NO_FLAG, .name = "same", .infer = infer_same, .eval = evaluate_nothing};
     return flx_register_custom(f->ctx, &o, err);)

TEST(api_misuse_unknown_flags_are_refused)
{
    static const misuse rows[] = {
        {"flx_grad", FLX_E_USAGE, "flx_grad", flag_grad},
        {"flx_hvp", FLX_E_USAGE, "flx_hvp", flag_hvp},
        {"flx_jacobian", FLX_E_USAGE, NULL, flag_jacobian},
        {"flx_hessian", FLX_E_USAGE, NULL, flag_hessian},
        {"flx_force_energy_loss", FLX_E_USAGE, NULL, flag_force},
        {"flx_rewrite_patterns", FLX_E_USAGE, NULL, flag_rewrite},
        {"flx_compile", FLX_E_USAGE, "flx_compile", flag_compile},
        {"flx_compile_training", FLX_E_USAGE, NULL, flag_compile_training},
        {"flx_training_graph", FLX_E_USAGE, NULL, flag_training},
        {"flx_params_load", FLX_E_USAGE, "flags", flag_params_load},
        {"flx_fit", FLX_E_USAGE, "flags", flag_fit},
        {"flx_show_stage", FLX_E_USAGE, "flx_show_stage", flag_show},
        {"flx_run", FLX_E_USAGE, NULL, flag_run},
        {"flx_exec_run", FLX_E_USAGE, NULL, flag_exec_run},
        {"flx_exec_start", FLX_E_USAGE, NULL, flag_start},
        {"flx_exec_profile", FLX_E_USAGE, NULL, flag_profile},
        {"flx_exec_record", FLX_E_USAGE, NULL, flag_record},
        {"flx_recording_run", FLX_E_USAGE, NULL, flag_replay},
        {"flx_context_new", FLX_E_USAGE, NULL, flag_context},
        {"flx_kernel_run", FLX_E_USAGE, NULL, flag_kernel},
        {"flx_kernel_derived_run", FLX_E_USAGE, NULL, flag_derived},
        {"flx_kernel_validate", FLX_E_USAGE, "flx_kernel_validate", flag_validate},
        {"flx_kernel_grad", FLX_E_USAGE, "flx_kernel_grad", flag_kernel_grad},
        {"flx_kernel_jvp", FLX_E_USAGE, "flx_kernel_jvp", flag_kernel_jvp},
        {"flx_kernel_set_flags", FLX_E_USAGE, NULL, flag_set_flags},
        {"flx_kernel_add_buffer", FLX_E_USAGE, NULL, flag_buffer},
        {"flx_kernel_region", FLX_E_USAGE, NULL, flag_region},
        {"flx_kernel_register_extension", FLX_E_USAGE, NULL, flag_extension},
        {"flx_register_custom", FLX_E_USAGE, NULL, flag_custom},
    };
    CHECK_ROWS(rows);
}

/* ---- Values out of range ---- */

CALL(range_show_threads, flx_compile_options o = {.threads = -1}; return show(f, &o, err);)
CALL(range_show_optimisation, flx_compile_options o = {.optimisation = 9}; return show(f, &o, err);)
CALL(range_show_cache, flx_compile_options o = {.cache = 3}; return show(f, &o, err);)
CALL(range_show_reserved, flx_compile_options o = {.reserved = 1}; return show(f, &o, err);)
CALL(range_show_dims, flx_compile_options o = {.num_dims = 1}; return show(f, &o, err);)
CALL(range_show_stage, flx_buffer text = {0}; return flx_show_stage(f->g, (flx_stage)9, NULL, &text, err);)

static const flx_share no_input[] = {{2, 0}}, no_output[] = {{0, 1}}, in_range[] = {{1, 0}};

CALL(range_share_input, flx_compile_options o = {.shares = no_input, .num_shares = 1};
     return made_exec(flx_compile(f->g, &o, err), err);)
CALL(range_share_output, flx_compile_options o = {.shares = no_output, .num_shares = 1};
     return made_exec(flx_compile(f->g, &o, err), err);)
CALL(range_share_show, flx_compile_options o = {.shares = no_input, .num_shares = 1}; return show(f, &o, err);)
CALL(range_share_trainer, flx_compile_options o = {.shares = in_range, .num_shares = 1};
     return made_trainer(flx_compile_training(f->g, NULL, &o, err), err);)
CALL(range_train_reserved, flx_train_options o = {.reserved = 1};
     return made_graph(flx_training_graph(f->g, &o, err), err);)
CALL(range_train_optimiser, flx_train_options o = {.optimiser = 11};
     return made_graph(flx_training_graph(f->g, &o, err), err);)
CALL(range_train_rate, flx_train_options o = {.rate = -1}; return made_graph(flx_training_graph(f->g, &o, err), err);)
CALL(range_memory, flx_context_options o = {.memory_limit = -5}; flx_context *c = flx_context_new(&o);
     flx_context_free(c); return c ? FLX_OK : FLX_E_USAGE;)
CALL(range_mode, flx_jacobian_options o = {.mode = 3}; return made_graph(flx_jacobian(f->g, x_only, 1, &o, err), err);)
CALL(range_chunk, flx_jacobian_options o = {.chunk = -1};
     return made_graph(flx_jacobian(f->g, x_only, 1, &o, err), err);)
CALL(range_weight, flx_force_options o = {.energy_weight = -1};
     return made_graph(flx_force_energy_loss(f->g, "x", &o, err), err);)
CALL(range_order, return made_graph(flx_taylor(f->g, x_only, 1, -1, err), err);)
CALL(range_nth, return made_graph(flx_nth_grad(f->g, "x", -1, err), err);)
CALL(range_policy, return made_graph(flx_lower(f->g, (flx_policy)7, err), err);)
CALL(range_mixed, return made_graph(flx_mixed_precision(f->g, FLX_F64, err), err);)
CALL(range_mixed_dtype, return made_graph(flx_mixed_precision(f->g, (flx_dtype)99, err), err);)
CALL(range_schedule, flx_kernel_run_options o = {.schedule = 9}; return kernel_with(f, &o, err);)
CALL(range_subgroup, flx_kernel_run_options o = {.subgroup_size = 33}; return kernel_with(f, &o, err);)
CALL(range_cast, flx_tensor *t = flx_tensor_cast(f->x, (flx_dtype)99, err); flx_tensor_release(t);
     return t ? FLX_OK : (flx_code)err->code;)
CALL(range_target_subgroup, flx_kernel_target o = {.subgroup_size = 33};
     return flx_kernel_validate(f->kernel, &o, NULL, 0, NULL, err);)
CALL(range_vmap_axis, flx_kernel *k = flx_kernel_vmap(f->kernel, y_only, 1, 3, 1, 2, err); return made_kernel(k, err);)
CALL(range_schedule_cpu, flx_kernel_run_options o = {.schedule = FLX_KERNEL_REVERSE, .device = "cpu"};
     return kernel_with(f, &o, err);)
CALL(range_exec_device, flx_run_options o = {.device = "ref"}; return exec_run_with(f, &o, err);)
CALL(range_exec_no_device, flx_run_options o = {.device = "abacus"}; return exec_run_with(f, &o, err);)
CALL(range_start_device, flx_run_options o = {.device = "ref"}; return start_with(f, &o, err);)
CALL(range_profile_device, flx_run_options o = {.device = "ref"}; return profile_with(f, &o, err);)
CALL(range_record_device, flx_run_options o = {.device = "ref"}; return record_with(f, &o, err);)
CALL(range_exec_same_device, flx_run_options o = {.device = "cpu"}; return exec_run_with(f, &o, err);)
CALL(range_force_zeros, flx_force_options o = {0}; return made_graph(flx_force_energy_loss(f->g, "x", &o, err), err);)

TEST(api_misuse_values_out_of_range_are_refused)
{
    static const misuse rows[] = {
        {"flx_show_stage threads -1", FLX_E_USAGE, "flx_show_stage", range_show_threads},
        {"flx_show_stage optimisation 9", FLX_E_USAGE, "flx_show_stage", range_show_optimisation},
        {"flx_show_stage cache 3", FLX_E_USAGE, "flx_show_stage", range_show_cache},
        {"flx_show_stage reserved 1", FLX_E_USAGE, "flx_show_stage", range_show_reserved},
        {"flx_show_stage dims NULL", FLX_E_USAGE, "flx_show_stage", range_show_dims},
        {"flx_show_stage 9", FLX_E_USAGE, "flx_show_stage", range_show_stage},
        {"flx_compile shares input 2 of 2", FLX_E_USAGE, "share", range_share_input},
        {"flx_compile shares output 1 of 1", FLX_E_USAGE, "share", range_share_output},
        {"flx_show_stage shares input 2 of 2", FLX_E_USAGE, "share", range_share_show},
        {"flx_compile_training shares", FLX_E_USAGE, "share", range_share_trainer},
        {"flx_train_options.reserved 1", FLX_E_USAGE, "reserved", range_train_reserved},
        {"flx_train_options.optimiser 11", FLX_E_USAGE, NULL, range_train_optimiser},
        {"flx_train_options.rate -1", FLX_E_USAGE, NULL, range_train_rate},
        {"flx_context_options.memory_limit -5", FLX_E_USAGE, NULL, range_memory},
        {"flx_jacobian mode 3", FLX_E_USAGE, NULL, range_mode},
        {"flx_jacobian chunk -1", FLX_E_USAGE, NULL, range_chunk},
        {"flx_force_energy_loss weight -1", FLX_E_USAGE, NULL, range_weight},
        {"flx_taylor order -1", FLX_E_USAGE, NULL, range_order},
        {"flx_nth_grad order -1", FLX_E_USAGE, NULL, range_nth},
        {"flx_lower policy 7", FLX_E_USAGE, NULL, range_policy},
        {"flx_mixed_precision to f64", FLX_E_DTYPE, NULL, range_mixed},
        {"flx_mixed_precision to dtype 99", FLX_E_DTYPE, NULL, range_mixed_dtype},
        {"flx_kernel_run schedule 9", FLX_E_USAGE, NULL, range_schedule},
        {"flx_kernel_run subgroup_size 33", FLX_E_USAGE, NULL, range_subgroup},
        {"flx_tensor_cast to 99", FLX_E_DTYPE, NULL, range_cast},
        {"flx_kernel_validate subgroup_size 33", FLX_E_USAGE, NULL, range_target_subgroup},
        {"flx_kernel_vmap axis 3", FLX_E_USAGE, NULL, range_vmap_axis},
        {"flx_kernel_run on cpu in reverse", FLX_E_UNSUPPORTED, "schedule", range_schedule_cpu},
        {"flx_exec_run on another device", FLX_E_USAGE, "flx_exec_run", range_exec_device},
        {"flx_exec_run on no device", FLX_E_USAGE, "flx_exec_run", range_exec_no_device},
        {"flx_exec_start on another device", FLX_E_USAGE, "flx_exec_start", range_start_device},
        {"flx_exec_profile on another device", FLX_E_USAGE, "flx_exec_profile", range_profile_device},
        {"flx_exec_record on another device", FLX_E_USAGE, "flx_exec_record", range_record_device},
        {"flx_exec_run on its own device", FLX_OK, NULL, range_exec_same_device},
        {"flx_force_energy_loss of zeros", FLX_OK, NULL, range_force_zeros},
    };
    CHECK_ROWS(rows);
}

/* ---- Names ---- */

CALL(twice_grad, return made_graph(flx_grad(f->g, x_twice, 2, NULL, err), err);)
CALL(twice_jvp, return made_graph(flx_jvp(f->g, x_twice, 2, err), err);)
CALL(twice_hvp, return made_graph(flx_hvp(f->g, x_twice, 2, NULL, err), err);)
CALL(twice_jacobian, return made_graph(flx_jacobian(f->g, x_twice, 2, NULL, err), err);)
CALL(twice_hessian, return made_graph(flx_hessian(f->g, x_twice, 2, NULL, err), err);)
CALL(twice_taylor, return made_graph(flx_taylor(f->g, x_twice, 2, 2, err), err);)
CALL(twice_vmap, const flx_vmap_axis axes[] = {{"x", 0}, {"x", 1}};
     return made_graph(flx_vmap(f->g, axes, 2, NULL, 0, 4, err), err);)
CALL(twice_params, static const char *const names[] = {"p", "p"};
     flx_train_options o = {.params = names, .num_params = 2};
     return made_graph(flx_training_graph(f->g, &o, err), err);)
CALL(twice_feed, flx_tensor *y = NULL; const flx_feed feeds[] = {{"x", f->x}, {"x", f->x}, {"p", f->x}};
     return flx_run(f->g, NULL, feeds, 3, &y, err);)
CALL(twice_dims, const flx_dim_binding dims[] = {{"N", 1}, {"N", 2}};
     return made_graph(flx_specialise(f->g, dims, 2, err), err);)
CALL(twice_run_dims, const flx_dim_binding dims[] = {{"N", 1}, {"N", 1}};
     flx_run_options o = {.dims = dims, .num_dims = 2}; return run_with(f, &o, err);)
CALL(twice_kernel_outputs, return made_derived(flx_kernel_grad(f->kernel, y_twice, 2, x_only, 1, NULL, err), err);)
CALL(twice_kernel_inputs, return made_derived(flx_kernel_jvp(f->kernel, y_only, 1, x_twice, 2, NULL, err), err);)
CALL(twice_kernel_vmap, static const char *const names[] = {"x", "y", "x"};
     return made_kernel(flx_kernel_vmap(f->kernel, names, 3, 0, 1, 2, err), err);)
CALL(twice_kernel_memory, float x[4] = {0}; float y[4];
     const flx_kernel_memory m[] = {{"x", x, sizeof x}, {"x", x, sizeof x}, {"y", y, sizeof y}};
     return flx_kernel_run(f->kernel, grid, m, 3, NULL, err);)
CALL(twice_derived_memory, float x[4] = {0}; float dx[4];
     const flx_kernel_memory m[] = {{"x", x, sizeof x}, {"grad_x", dx, sizeof dx}, {"grad_x", dx, sizeof dx}};
     return flx_kernel_derived_run(f->derived, grid, m, 3, NULL, err);)
CALL(twice_npz, static const char *const keys[] = {"a", "a"}; const flx_tensor *const values[] = {f->x, f->x};
     return flx_npz_write(test_temp_path("misuse.npz"), keys, values, 2, err);)
CALL(twice_safetensors, static const char *const keys[] = {"a", "a"}; const flx_tensor *const values[] = {f->x, f->x};
     return flx_safetensors_write(test_temp_path("misuse.safetensors"), keys, values, 2, err);)
CALL(twice_passes, return made_kernel(flx_kernel_optimise(f->kernel, "inline,inline,nonsense", err), err);)

TEST(api_misuse_repeated_names_are_refused)
{
    static const misuse rows[] = {
        {"flx_grad", FLX_E_DUP_NAME, "'x'", twice_grad},
        {"flx_jvp", FLX_E_DUP_NAME, "'x'", twice_jvp},
        {"flx_hvp", FLX_E_DUP_NAME, "'x'", twice_hvp},
        {"flx_jacobian", FLX_E_DUP_NAME, "'x'", twice_jacobian},
        {"flx_hessian", FLX_E_DUP_NAME, "'x'", twice_hessian},
        {"flx_taylor", FLX_E_DUP_NAME, "'x'", twice_taylor},
        {"flx_vmap", FLX_E_DUP_NAME, "'x'", twice_vmap},
        {"flx_training_graph", FLX_E_DUP_NAME, "'p'", twice_params},
        {"flx_run feeds", FLX_E_DUP_NAME, "'x'", twice_feed},
        {"flx_specialise", FLX_E_DUP_NAME, "N", twice_dims},
        {"flx_run dims", FLX_E_DUP_NAME, "N", twice_run_dims},
        {"flx_kernel_grad outputs", FLX_E_DUP_NAME, "'y'", twice_kernel_outputs},
        {"flx_kernel_jvp inputs", FLX_E_DUP_NAME, "'x'", twice_kernel_inputs},
        {"flx_kernel_vmap", FLX_E_DUP_NAME, "'x'", twice_kernel_vmap},
        {"flx_kernel_run", FLX_E_DUP_NAME, "'x'", twice_kernel_memory},
        {"flx_kernel_derived_run", FLX_E_DUP_NAME, "'grad_x'", twice_derived_memory},
        {"flx_npz_write", FLX_E_DUP_NAME, "'a'", twice_npz},
        {"flx_safetensors_write", FLX_E_DUP_NAME, "'a'", twice_safetensors},
        {"flx_kernel_optimise", FLX_E_DUP_NAME, "'inline'", twice_passes},
    };
    CHECK_ROWS(rows);
}

CALL(no_grad, return made_graph(flx_grad(f->g, unknown, 1, NULL, err), err);)
CALL(no_jvp, return made_graph(flx_jvp(f->g, unknown, 1, err), err);)
CALL(no_hvp, return made_graph(flx_hvp(f->g, unknown, 1, NULL, err), err);)
CALL(no_jacobian, return made_graph(flx_jacobian(f->g, unknown, 1, NULL, err), err);)
CALL(no_hessian, return made_graph(flx_hessian(f->g, unknown, 1, NULL, err), err);)
CALL(no_taylor, return made_graph(flx_taylor(f->g, unknown, 1, 2, err), err);)
CALL(no_nth, return made_graph(flx_nth_grad(f->g, "z", 2, err), err);)
CALL(no_nth_0, return made_graph(flx_nth_grad(f->g, "z", 0, err), err);)
CALL(no_vmap, const flx_vmap_axis axes[] = {{"z", 0}};
     return made_graph(flx_vmap(f->g, axes, 1, NULL, 0, 4, err), err);)
CALL(no_force, return made_graph(flx_force_energy_loss(f->g, "z", NULL, err), err);)
CALL(no_params, flx_train_options o = {.params = unknown, .num_params = 1};
     return made_graph(flx_training_graph(f->g, &o, err), err);)
CALL(no_feed, flx_tensor *y = NULL; const flx_feed feeds[] = {{"x", f->x}, {"p", f->x}, {"z", f->x}};
     return flx_run(f->g, NULL, feeds, 3, &y, err);)
CALL(no_dims, const flx_dim_binding dims[] = {{"M", 1}}; return made_graph(flx_specialise(f->g, dims, 1, err), err);)
CALL(no_compile_dims, const flx_dim_binding dims[] = {{"M", 1}};
     flx_compile_options o = {.dims = dims, .num_dims = 1, .flags = FLX_COMPILE_INTERPRET};
     return made_exec(flx_compile(f->g, &o, err), err);)
CALL(no_run_dims, const flx_dim_binding dims[] = {{"M", 1}}; flx_run_options o = {.dims = dims, .num_dims = 1};
     return run_with(f, &o, err);)
CALL(no_show_dims, const flx_dim_binding dims[] = {{"M", 1}}; flx_compile_options o = {.dims = dims, .num_dims = 1};
     return show(f, &o, err);)
CALL(no_kernel_output, return made_derived(flx_kernel_grad(f->kernel, unknown, 1, x_only, 1, NULL, err), err);)
CALL(no_kernel_input, return made_derived(flx_kernel_jvp(f->kernel, y_only, 1, unknown, 1, NULL, err), err);)
CALL(no_kernel_vmap, static const char *const names[] = {"y", "z"};
     return made_kernel(flx_kernel_vmap(f->kernel, names, 2, 0, 1, 2, err), err);)
CALL(no_derived_memory, float x[4] = {0}; float dx[4];
     const flx_kernel_memory m[] = {{"x", x, sizeof x}, {"grad_x", dx, sizeof dx}, {"grad_Y", x, sizeof x}};
     return flx_kernel_derived_run(f->derived, grid, m, 3, NULL, err);)
CALL(no_set_param, return flx_exec_set_param(f->exec, "z", f->x, err);)
CALL(no_share_param, return flx_exec_share_param(f->exec, "z", f->x, err);)
CALL(no_params_set, return flx_params_set(flx_trainer_params(f->trainer), "z", f->x, err);)
CALL(no_minimise, flx_minimise_options o = {.struct_size = sizeof o, .params = unknown, .num_params = 1};
     return flx_minimise(f->g, flx_trainer_params(f->trainer), NULL, 0, &o, NULL, err);)
CALL(no_trainer_param, return flx_trainer_set_param(f->trainer, "z", f->x, err);)
CALL(no_device, flx_run_options o = {.device = "abacus"}; return run_with(f, &o, err);)
CALL(no_emit, flx_buffer text = {0}; return flx_kernel_emit(f->kernel, "fortran", &text, err);)
CALL(no_pass, return made_kernel(flx_kernel_optimise(f->kernel, "nonsense", err), err);)

TEST(api_misuse_unknown_names_are_refused)
{
    static const misuse rows[] = {
        {"flx_grad", FLX_E_NAME, "'z'", no_grad},
        {"flx_jvp", FLX_E_NAME, "'z'", no_jvp},
        {"flx_hvp", FLX_E_NAME, "'z'", no_hvp},
        {"flx_jacobian", FLX_E_NAME, "'z'", no_jacobian},
        {"flx_hessian", FLX_E_NAME, "'z'", no_hessian},
        {"flx_taylor", FLX_E_NAME, "'z'", no_taylor},
        {"flx_nth_grad", FLX_E_NAME, "'z'", no_nth},
        {"flx_nth_grad of order 0", FLX_E_NAME, "'z'", no_nth_0},
        {"flx_vmap", FLX_E_NAME, "'z'", no_vmap},
        {"flx_force_energy_loss", FLX_E_NAME, "'z'", no_force},
        {"flx_training_graph", FLX_E_NAME, "'z'", no_params},
        {"flx_run feeds", FLX_E_NAME, "'z'", no_feed},
        {"flx_specialise", FLX_E_NAME, "M", no_dims},
        {"flx_compile dims", FLX_E_NAME, "M", no_compile_dims},
        {"flx_run dims", FLX_E_NAME, "M", no_run_dims},
        {"flx_show_stage dims", FLX_E_NAME, "M", no_show_dims},
        {"flx_kernel_grad outputs", FLX_E_KERNEL, "'z'", no_kernel_output},
        {"flx_kernel_jvp inputs", FLX_E_KERNEL, "'z'", no_kernel_input},
        {"flx_kernel_vmap", FLX_E_KERNEL, "'z'", no_kernel_vmap},
        {"flx_kernel_derived_run", FLX_E_NAME, "'grad_Y'", no_derived_memory},
        {"flx_exec_set_param", FLX_E_NAME, "'z'", no_set_param},
        {"flx_exec_share_param", FLX_E_NAME, "'z'", no_share_param},
        {"flx_params_set", FLX_E_NAME, "'z'", no_params_set},
        {"flx_minimise", FLX_E_NAME, "'z'", no_minimise},
        {"flx_trainer_set_param", FLX_E_NAME, "'z'", no_trainer_param},
        {"flx_run device", FLX_E_NAME, "abacus", no_device},
        {"flx_kernel_emit", FLX_E_NAME, "fortran", no_emit},
        {"flx_kernel_optimise", FLX_E_NAME, "nonsense", no_pass},
    };
    CHECK_ROWS(rows);
}

/* ---- NULL ---- */

CALL(null_grad, return made_graph(flx_grad(f->g, null_name, 1, NULL, err), err);)
CALL(null_jvp, return made_graph(flx_jvp(f->g, null_name, 1, err), err);)
CALL(null_hvp, return made_graph(flx_hvp(f->g, null_name, 1, NULL, err), err);)
CALL(null_hvp_list, return made_graph(flx_hvp(f->g, NULL, 0, NULL, err), err);)
CALL(null_hessian_list, return made_graph(flx_hessian(f->g, NULL, 0, NULL, err), err);)
CALL(null_jacobian, return made_graph(flx_jacobian(f->g, null_name, 1, NULL, err), err);)
CALL(null_hessian, return made_graph(flx_hessian(f->g, null_name, 1, NULL, err), err);)
CALL(null_taylor, return made_graph(flx_taylor(f->g, null_name, 1, 2, err), err);)
CALL(null_vmap, const flx_vmap_axis axes[] = {{NULL, 0}};
     return made_graph(flx_vmap(f->g, axes, 1, NULL, 0, 4, err), err);)
CALL(null_run, flx_tensor *y = NULL; return flx_exec_run(NULL, NULL, f->feeds, 2, &y, err);)
CALL(null_start_feeds, flx_job *j = flx_exec_start(f->exec, NULL, NULL, 2, err); flx_job_free(j);
     return j ? FLX_OK : (flx_code)err->code;)
CALL(null_profile, return flx_exec_profile(f->exec, NULL, f->feeds, 2, NULL, NULL, 0, NULL, err);)
CALL(null_feed, flx_tensor *y = NULL; const flx_feed feeds[] = {{NULL, f->x}};
     return flx_run(f->g, NULL, feeds, 1, &y, err);)
CALL(null_op, flx_graph *g = flx_graph_new(f->ctx, "g"); flx_op(g, NULL, NULL, 0, NULL, 0, NULL, 0);
     flx_code code = flx_graph_error(g, err); flx_graph_release(g); return code;)
CALL(null_activation, flx_graph *g = flx_graph_new(f->ctx, "g"); const flx_type t = flx_type_make(FLX_F32, 0, NULL);
     flx_val x = flx_input(g, "x", &t); flx_activation_derivative(g, NULL, x); flx_code code = flx_graph_error(g, err);
     flx_graph_release(g); return code;)
CALL(null_op_find, flx_op_view v; return flx_op_find(NULL, &v);)
CALL(null_op_find_out, return flx_op_find("add", NULL);)
CALL(null_op_at, return flx_op_at(0, NULL);)
CALL(null_op_attr, flx_attr_view v; return flx_op_attr(NULL, 0, &v);)
CALL(null_op_attr_out, return flx_op_attr("cast", 0, NULL);)
CALL(null_foreign, flx_foreign_view v; return flx_foreign_find(NULL, &v);)
CALL(null_foreign_out, return flx_foreign_find("sum", NULL);)
CALL(null_foreign_at, return flx_foreign_name(0, NULL);)
CALL(null_node, return flx_graph_node(f->g, 0, NULL);)
CALL(null_node_attr, return flx_node_attr(f->g, 0, 0, NULL);)
CALL(null_node_attr_find, flx_node_attr_view v; return flx_node_attr_find(f->g, 0, NULL, &v);)
CALL(null_kernel_grad, return made_derived(flx_kernel_grad(f->kernel, null_name, 1, x_only, 1, NULL, err), err);)
CALL(null_kernel_grad_list, return made_derived(flx_kernel_grad(f->kernel, NULL, 1, x_only, 1, NULL, err), err);)
CALL(null_kernel_jvp, return made_derived(flx_kernel_jvp(f->kernel, y_only, 1, null_name, 1, NULL, err), err);)
CALL(null_kernel_vmap, return made_kernel(flx_kernel_vmap(f->kernel, null_name, 1, 0, 1, 2, err), err);)
CALL(null_need, return flx_kernel_derived_need(f->derived, 0, NULL);)
CALL(null_buffer_at, return flx_kernel_buffer_at(f->kernel, 0, NULL);)
CALL(null_emit, flx_buffer text = {0}; return flx_kernel_emit(f->kernel, NULL, &text, err);)
CALL(null_step, return flx_exec_step(f->exec, 0, NULL);)
CALL(null_force, return made_graph(flx_force_energy_loss(f->g, NULL, NULL, err), err);)
CALL(null_nth, return made_graph(flx_nth_grad(f->g, NULL, 1, err), err);)
CALL(null_dims, const flx_dim_binding dims[] = {{NULL, 1}}; return made_graph(flx_specialise(f->g, dims, 1, err), err);)
CALL(null_print, return flx_graph_print(f->g, NULL, err);)
CALL(null_encode, return flx_graph_encode(f->g, NULL, err);)
CALL(null_export, return flx_export_stablehlo(f->g, NULL, err);)
CALL(null_npz_keys, const flx_tensor *const values[] = {f->x};
     return flx_npz_write(test_temp_path("misuse.npz"), NULL, values, 1, err);)
CALL(null_npz_key, flx_tensor *t = flx_npz_read(f->ctx, "/dev/null", NULL, err); flx_tensor_release(t);
     return t ? FLX_OK : (flx_code)err->code;)
CALL(null_npy_path, flx_tensor *t = flx_npy_read(f->ctx, NULL, err); return t ? FLX_OK : (flx_code)err->code;)
CALL(null_dim, char text[8];
     return flx_dim_print(f->ctx, 3, NULL, 8) == flx_dim_print(f->ctx, 3, text, 8) ? FLX_E_USAGE : FLX_OK;)
CALL(null_type, char text[80]; const flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){3, 4});
     return flx_type_print(f->ctx, &t, NULL, 8) == flx_type_print(f->ctx, &t, text, sizeof text) ? FLX_E_USAGE
                                                                                                 : FLX_OK;)

TEST(api_misuse_null_is_a_usage_error)
{
    static const misuse rows[] = {
        {"flx_grad name", FLX_E_USAGE, NULL, null_grad},
        {"flx_jvp name", FLX_E_USAGE, NULL, null_jvp},
        {"flx_hvp name", FLX_E_USAGE, NULL, null_hvp},
        {"flx_hvp list", FLX_E_USAGE, "flx_hvp", null_hvp_list},
        {"flx_hessian list", FLX_E_USAGE, "flx_hessian", null_hessian_list},
        {"flx_jacobian name", FLX_E_USAGE, NULL, null_jacobian},
        {"flx_hessian name", FLX_E_USAGE, NULL, null_hessian},
        {"flx_taylor name", FLX_E_USAGE, NULL, null_taylor},
        {"flx_vmap name", FLX_E_USAGE, NULL, null_vmap},
        {"flx_exec_run executable", FLX_E_USAGE, "flx_exec_run", null_run},
        {"flx_exec_start feeds", FLX_E_USAGE, "flx_exec_start", null_start_feeds},
        {"flx_exec_profile outputs", FLX_E_USAGE, "flx_exec_profile", null_profile},
        {"flx_run feed name", FLX_E_USAGE, NULL, null_feed},
        {"flx_op name", FLX_E_USAGE, NULL, null_op},
        {"flx_activation_derivative op", FLX_E_USAGE, NULL, null_activation},
        {"flx_op_find name", FLX_E_USAGE, NULL, null_op_find},
        {"flx_op_find out", FLX_E_USAGE, NULL, null_op_find_out},
        {"flx_op_at out", FLX_E_USAGE, NULL, null_op_at},
        {"flx_op_attr op", FLX_E_USAGE, NULL, null_op_attr},
        {"flx_op_attr out", FLX_E_USAGE, NULL, null_op_attr_out},
        {"flx_foreign_find name", FLX_E_USAGE, NULL, null_foreign},
        {"flx_foreign_find out", FLX_E_USAGE, NULL, null_foreign_out},
        {"flx_foreign_name out", FLX_E_USAGE, NULL, null_foreign_at},
        {"flx_graph_node out", FLX_E_USAGE, NULL, null_node},
        {"flx_node_attr out", FLX_E_USAGE, NULL, null_node_attr},
        {"flx_node_attr_find key", FLX_E_USAGE, NULL, null_node_attr_find},
        {"flx_kernel_grad name", FLX_E_USAGE, NULL, null_kernel_grad},
        {"flx_kernel_grad list", FLX_E_USAGE, NULL, null_kernel_grad_list},
        {"flx_kernel_jvp name", FLX_E_USAGE, NULL, null_kernel_jvp},
        {"flx_kernel_vmap name", FLX_E_USAGE, NULL, null_kernel_vmap},
        {"flx_kernel_derived_need out", FLX_E_USAGE, NULL, null_need},
        {"flx_kernel_buffer_at out", FLX_E_USAGE, NULL, null_buffer_at},
        {"flx_kernel_emit target", FLX_E_USAGE, NULL, null_emit},
        {"flx_exec_step out", FLX_E_USAGE, NULL, null_step},
        {"flx_force_energy_loss positions", FLX_E_USAGE, NULL, null_force},
        {"flx_nth_grad name", FLX_E_USAGE, NULL, null_nth},
        {"flx_specialise name", FLX_E_USAGE, NULL, null_dims},
        {"flx_graph_print out", FLX_E_USAGE, NULL, null_print},
        {"flx_graph_encode out", FLX_E_USAGE, NULL, null_encode},
        {"flx_export_stablehlo out", FLX_E_USAGE, NULL, null_export},
        {"flx_npz_write keys", FLX_E_USAGE, NULL, null_npz_keys},
        {"flx_npz_read key", FLX_E_USAGE, NULL, null_npz_key},
        {"flx_npy_read path", FLX_E_USAGE, NULL, null_npy_path},
        {"flx_dim_print buffer", FLX_E_USAGE, NULL, null_dim},
        {"flx_type_print buffer", FLX_E_USAGE, NULL, null_type},
    };
    CHECK_ROWS(rows);
}

/* ---- Structs that functions fill ---- */

/* Fills only what struct_size says is there. */
TEST(api_misuse_filled_structs_keep_to_their_size)
{
    fixture f = fixture_new();
    union {
        flx_kernel_buffer b;
        unsigned char bytes[sizeof(flx_kernel_buffer) + 16];
    } u;
    for (uint32_t size = 0; size <= sizeof(flx_kernel_buffer) + 8; size++) {
        bool is_layout = size != 4 && size % _Alignof(flx_kernel_buffer) == 0;
        size_t filled = size == 0 || size > sizeof u.b ? sizeof u.b : size;
        memset(&u, 0xa5, sizeof u);
        u.b.struct_size = size;
        test_fail_context("struct_size %u", size);
        CHECK_CODE(flx_kernel_buffer_at(f.kernel, 0, &u.b), is_layout ? FLX_OK : FLX_E_USAGE, NULL);
        for (size_t i = is_layout ? filled : sizeof size; i < (size > filled ? size : sizeof u); i++)
            CHECK_MSG(u.bytes[i] == (i < size && is_layout ? 0 : 0xa5), "byte %zu", i);
        if (is_layout && filled == sizeof u.b) {
            CHECK_EQ_STR(u.b.name, "x");
            CHECK_EQ_U64(u.b.count, 4);
        }
        test_count_case();
    }
    fixture_free(&f);
}

TEST(api_foreign_names_after_a_long_prefix)
{
    flx_foreign_view row;
    char name[400];
    memset(name, 'm', 300);
    memcpy(name + 300, ".MaxPool2d", sizeof ".MaxPool2d");
    CHECK_OK(flx_foreign_find(name, &row), NULL);
    CHECK_EQ_STR(row.ours, "pool");
    memcpy(name + 300, "MaxPool2d", sizeof "MaxPool2d"); /* no module: a name of 309 letters */
    CHECK_CODE(flx_foreign_find(name, &row), FLX_E_NAME, NULL);
}

/* ---- Reports ---- */

static flx_code with_report(fixture *f, flx_code (*call)(fixture *f, flx_report *r, flx_error *err), flx_error *err)
{
    flx_report *r = flx_report_new(f->ctx, NULL, err);
    CHECK_MADE(r, err);
    flx_code code = call(f, r, err);
    flx_report_free(r);
    return code;
}

#define REPORT_CALL(name, ...)                                           \
    static flx_code name##_on(fixture *f, flx_report *r, flx_error *err) \
    {                                                                    \
        (void)f; /* some do not use it */                                \
        __VA_ARGS__                                                      \
    }                                                                    \
    static flx_code name(fixture *f, flx_error *err)                     \
    {                                                                    \
        return with_report(f, name##_on, err);                           \
    }

static flx_code made_report(flx_report *r, const flx_error *err)
{
    flx_report_free(r);
    return r ? FLX_OK : (flx_code)err->code;
}

CALL(report_without_context, return made_report(flx_report_new(NULL, NULL, err), err);)
CALL(report_flags, flx_report_options o = {.flags = NO_FLAG}; return made_report(flx_report_new(f->ctx, &o, err), err);)
CALL(report_null_value, return flx_report_add_value(NULL, "a", 1, 1, err);)
REPORT_CALL(report_null_series, return flx_report_add_value(r, NULL, 1, 1, err);)
REPORT_CALL(report_null_fact, return flx_report_add_fact(r, "a", NULL, err);)
REPORT_CALL(report_null_text, return flx_report_add_text(r, "a", 1, NULL, err);)
REPORT_CALL(report_null_image, return flx_report_add_image(r, "a", 1, NULL, err);)
REPORT_CALL(report_image_of_a_row, return flx_report_add_image(r, "a", 1, f->x, err);)
REPORT_CALL(report_no_columns, return flx_report_add_table(r, "a", x_only, 0, NULL, 0, err);)
REPORT_CALL(report_no_cells, return flx_report_add_table(r, "a", x_only, 1, NULL, 1, err);)
REPORT_CALL(report_null_cell, const char *none[] = {NULL};
            return flx_report_add_table(r, "a", x_only, 1, none, 1, err);)
REPORT_CALL(report_no_counts, return flx_report_add_confusion(r, "a", x_only, 1, NULL, err);)
REPORT_CALL(report_no_classes, int64_t n = 0; return flx_report_add_confusion(r, "a", NULL, 0, &n, err);)
REPORT_CALL(report_many_classes, int64_t n = 0; return flx_report_add_confusion(r, "a", NULL, 1001, &n, err);)
REPORT_CALL(report_null_graph, return flx_report_add_graph(r, NULL, err);)
REPORT_CALL(report_no_graph, flx_report_graph o = {0}; return flx_report_add_graph(r, &o, err);)
REPORT_CALL(report_graph_flags, flx_report_graph o = {.graph = f->g, .flags = NO_FLAG};
            return flx_report_add_graph(r, &o, err);)
REPORT_CALL(report_null_buffer, return flx_report_print(r, FLX_REPORT_HTML, NULL, err);)
REPORT_CALL(report_unknown_form, flx_buffer b = {0}; return flx_report_print(r, (flx_report_form)0, &b, err);)
REPORT_CALL(report_null_path, return flx_report_write(r, FLX_REPORT_CSV, NULL, err);)
CALL(report_draw_form, flx_report_graph o = {.graph = f->g}; flx_buffer b = {0};
     return flx_report_draw(&o, (flx_drawing)3, &b, err);)
CALL(report_draw_nothing, flx_report_graph o = {0}; flx_buffer b = {0};
     return flx_report_draw(&o, FLX_DRAWING_SVG, &b, err);)
CALL(report_trace_nothing, flx_buffer b = {0}; return flx_report_trace(f->exec, NULL, &b, err);)
CALL(trace_nothing, flx_tensor *y = NULL; return flx_exec_trace(f->exec, NULL, f->feeds, 2, &y, NULL, err);)
CALL(trace_no_room, flx_tensor *y = NULL; flx_run_trace t = {.event_capacity = 3};
     return flx_exec_trace(f->exec, NULL, f->feeds, 2, &y, &t, err);)

TEST(api_misuse_of_reports)
{
    static const misuse rows[] = {
        {"no context", FLX_E_USAGE, "flx_report_new", report_without_context},
        {"unknown flags", FLX_E_USAGE, "flags", report_flags},
        {"no report", FLX_E_USAGE, "flx_report_add_value", report_null_value},
        {"no series", FLX_E_USAGE, "flx_report_add_value", report_null_series},
        {"no value of a fact", FLX_E_USAGE, "flx_report_add_fact", report_null_fact},
        {"no text", FLX_E_USAGE, "flx_report_add_text", report_null_text},
        {"no image", FLX_E_USAGE, "flx_report_add_image", report_null_image},
        {"an image of rank 1", FLX_E_SHAPE, "[height, width]", report_image_of_a_row},
        {"a table without columns", FLX_E_USAGE, "column", report_no_columns},
        {"a table without cells", FLX_E_USAGE, "cell", report_no_cells},
        {"a cell that is NULL", FLX_E_USAGE, "cell", report_null_cell},
        {"a matrix without counts", FLX_E_USAGE, "flx_report_add_confusion", report_no_counts},
        {"a matrix without classes", FLX_E_SIZE, "classes", report_no_classes},
        {"a matrix of many classes", FLX_E_SIZE, "classes", report_many_classes},
        {"no struct", FLX_E_USAGE, "flx_report_add_graph", report_null_graph},
        {"neither graph nor executable", FLX_E_USAGE, "flx_report_add_graph", report_no_graph},
        {"unknown flags of a graph", FLX_E_USAGE, "flags", report_graph_flags},
        {"no buffer", FLX_E_USAGE, "flx_report_print", report_null_buffer},
        {"a form that does not exist", FLX_E_USAGE, "form", report_unknown_form},
        {"no path", FLX_E_USAGE, "flx_report_write", report_null_path},
        {"a drawing that does not exist", FLX_E_USAGE, "form", report_draw_form},
        {"a drawing of nothing", FLX_E_USAGE, "flx_report_draw", report_draw_nothing},
        {"no trace", FLX_E_USAGE, "flx_report_trace", report_trace_nothing},
        {"a trace to nowhere", FLX_E_USAGE, "flx_exec_trace", trace_nothing},
        {"a trace without its list", FLX_E_USAGE, "flx_exec_trace", trace_no_room},
    };
    CHECK_ROWS(rows);
}
