/* lower_custom_call.c: custom_call by the name of its target. */
#include "io/stablehlo/lower_custom_call.h"

#include <string.h>

static const hlo_call_target *const target_tables[] = {flxi_hlo_check_targets, flxi_hlo_jax_targets, flxi_hlo_lapack_targets, flxi_hlo_dynamic_targets};

static void lower_custom_call(hlo_site *s)
{
    const char *target = flxi_hlo_word(s, "call_target_name", "");
    for (size_t t = 0; t < sizeof target_tables / sizeof *target_tables; t++)
        for (const hlo_call_target *row = target_tables[t]; row->target; row++)
            if (strcmp(row->target, target) == 0) {
                row->lower(s);
                return;
            }
    flxi_hlo_unsupported(s, "no function @%.100s is known here", target);
}

const hlo_rule flxi_hlo_custom_call_rules[] = {
    {"stablehlo.custom_call", HLO_MANY, 0, HLO_TAKES_ANY, lower_custom_call, NULL, NULL},
    {0},
};
