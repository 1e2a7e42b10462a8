/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_table.c: GetPjrtApi, the one function that the plugin exports, and the table that it returns. Calls that are
   not implemented are answered with an error that has their name: JAX turns it into an exception or continues without
   them. */
#include "pjrt/pjrt_callback.h"

#define SLOT(name, function)
#define LACK(name)                                                                      \
    static pjrt_error *lack_##name(void *args)                                          \
    {                                                                                   \
        (void)args;                                                                     \
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "PJRT_" #name " is not implemented"); \
    }
#include "pjrt/pjrt_slots.def"
#undef SLOT
#undef LACK

static pjrt_api api = {
    .struct_size = offsetof(pjrt_api, slots) + sizeof(pjrt_call) * PJRT_NUM_SLOTS,
    .extension_start = &flxi_pjrt_callback_extension,
    .version = {.struct_size = sizeof api.version, .major = PJRT_MAJOR, .minor = PJRT_MINOR},
    .slots =
        {
#define SLOT(name, function) [PJRT_##name] = flxi_pjrt_##function,
#define LACK(name) [PJRT_##name] = lack_##name,
#include "pjrt/pjrt_slots.def"
#undef SLOT
#undef LACK
        },
};

FLX_API const pjrt_api *GetPjrtApi(void);

const pjrt_api *GetPjrtApi(void)
{
    return &api;
}

pjrt_error *flxi_pjrt_plugin_initialize(void *args)
{
    (void)args;
    return NULL;
}

/* JAX writes programs in the version asked for here: 1.15 has everything that it produces, and lists of replica groups
   instead of mesh axes. */
pjrt_error *flxi_pjrt_plugin_attributes(void *args)
{
    static const int64_t newest[3] = {1, 15, 0};
    static const int64_t oldest[3] = {0, 9, 0};
#define NAMED(text) .struct_size = sizeof(pjrt_named_value), .name = (text), .name_size = sizeof(text) - 1
    static const pjrt_named_value attributes[] = {
        {NAMED("stablehlo_current_version"), .type = PJRT_VALUE_INTS, .integers = newest, .size = 3},
        {NAMED("stablehlo_minimum_version"), .type = PJRT_VALUE_INTS, .integers = oldest, .size = 3},
        {NAMED("xla_version"), .type = PJRT_VALUE_INT, .integer = 2, .size = 1},
    };
#undef NAMED
    pjrt_plugin_attributes_args *a = args;
    a->attributes = attributes;
    a->num_attributes = sizeof attributes / sizeof *attributes;
    return NULL;
}
