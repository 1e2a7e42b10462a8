/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_callback.c: calls from a program back into the process that runs it.

   The importer turns the custom call fluxion_callback into the op `custom` of the operation fluxion.callback, or
   fluxion.pure_callback where it has no effect (src/stablehlo/import/call/import_host_calls.c). Both are registered
   here. Their attributes are the number of the function and the types of the results; evaluating one calls the function
   that the Python package has set, which finds the Python function by its number. The context's allocator is not
   involved, and no lock is held during the call: a callback may itself run programs. */
#include "pjrt/pjrt_callback.h"

#include "base/error.h"

#include <fluxion/custom.h>
#include <stdio.h>

enum { MAX_VALUES = 64, MAX_TEXT = 8192 };

static _Atomic(pjrt_callback) callback;
static _Thread_local pjrt_error *last_error; /* a pointer: memory of each thread is scarce in a library loaded late */

static void set_callback(pjrt_callback function)
{
    atomic_store(&callback, function);
}

static atomic_int asking;

static void show_programs(int32_t change)
{
    atomic_fetch_add(&asking, change);
}

bool flxi_pjrt_shows_programs(void)
{
    return atomic_load(&asking) > 0;
}

pjrt_callback_extension flxi_pjrt_callback_extension = {
    .struct_size = sizeof(pjrt_callback_extension),
    .type = PJRT_EXTENSION_CALLBACK,
    .next = &flxi_pjrt_layouts_extension,
    .set_callback = set_callback,
    .show_programs = show_programs,
    .write_process = flxi_pjrt_write_process,
};

void flxi_pjrt_forget_callback_error(void)
{
    flxi_pjrt_error_free(last_error);
    last_error = NULL;
}

pjrt_error *flxi_pjrt_callback_error(void)
{
    pjrt_error *e = last_error;
    last_error = NULL;
    return e;
}

/* The library's own errors have room for a line only; the text of an exception has many. */
static flx_code fail_with(const char *text, int64_t id, flx_error *err)
{
    flxi_pjrt_forget_callback_error();
    last_error = flxi_pjrt_fail_text(PJRT_INTERNAL, text, strlen(text));
    return flxi_fail(err, FLX_E_INTERNAL, "host callback %lld failed: %.150s", (long long)id, text);
}

/* ---- The operation ---- */

/* The attribute `types`: for each result its dtype, rank and extents. */
static flx_code infer(void *user, const flx_custom_call *c, flx_type *results, size_t *num_results, flx_error *err)
{
    const flx_attr *a = flx_custom_attr(c, "types");
    size_t n = 0;
    (void)user;
    if (!a || a->kind != FLX_ATTR_INTS)
        return flxi_fail(err, FLX_E_ATTRIBUTE, "a host callback needs the types of its results");
    for (size_t i = 0; i + 2 <= a->as.ints.n && n < 16;) {
        const int64_t *v = a->as.ints.v + i;
        if (v[1] < 0 || v[1] > FLX_MAX_RANK || (size_t)v[1] > a->as.ints.n - i - 2)
            return flxi_fail(err, FLX_E_ATTRIBUTE, "the types of a host callback's results are malformed");
        results[n++] = flx_type_make((flx_dtype)v[0], (int32_t)v[1], v + 2);
        i += 2 + (size_t)v[1];
    }
    *num_results = n;
    return FLX_OK;
}

static pjrt_view view_of(const flx_type *t, void *data)
{
    return (pjrt_view){data, t->dims, t->dtype, t->rank};
}

static flx_code eval(void *user, const flx_custom_call *c, const void *const *inputs, void *const *results,
                     flx_error *err)
{
    pjrt_view in[MAX_VALUES];
    pjrt_view out[16];
    pjrt_callback f = atomic_load(&callback);
    const flx_attr *id = flx_custom_attr(c, "id");
    size_t num_in = flx_custom_num_inputs(c);
    size_t num_out = flx_custom_num_results(c);
    (void)user;
    if (!f || !id || num_in > MAX_VALUES || num_out > 16)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "import jax_plugins.fluxion before the program is run",
                              "a host callback with %zu operands and %zu results: %s", num_in, num_out,
                              f ? "there are too many" : "no function was set for callbacks");
    for (size_t i = 0; i < num_in; i++)
        in[i] = view_of(flx_custom_input(c, i), (void *)(uintptr_t)inputs[i]);
    for (size_t i = 0; i < num_out; i++)
        out[i] = view_of(flx_custom_result(c, i), results[i]);
    char text[MAX_TEXT];
    text[0] = text[MAX_TEXT - 1] = 0;
    if (f((uint64_t)id->as.i, num_in, in, num_out, out, text, sizeof text - 1) == 0)
        return FLX_OK;
    return fail_with(text, id->as.i, err);
}

flx_code flxi_pjrt_register_callback(flx_context *ctx, flx_error *err)
{
    flx_custom_op op = {.struct_size = sizeof op, .infer = infer, .eval = eval};
    op.name = "fluxion.pure_callback";
    FLXI_TRY(flx_register_custom(ctx, &op, err));
    op.name = "fluxion.callback";
    op.flags = FLX_CUSTOM_EFFECT;
    return flx_register_custom(ctx, &op, err);
}
