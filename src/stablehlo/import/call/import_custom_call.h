/* SPDX-License-Identifier: Apache-2.0 */
/* import_custom_call.h: functions outside the language that programs call by name. */
#ifndef FLXI_STABLEHLO_IMPORT_CUSTOM_CALL_H
#define FLXI_STABLEHLO_IMPORT_CUSTOM_CALL_H

#include "stablehlo/import/import_site.h"

typedef struct {
    const char *target;
    void (*import)(hlo_site *s);
} hlo_call_target;

/* The function that attribute called_computations names; NULL with the error in the graph. */
const hlo_function *flxi_hlo_called(hlo_site *s);

/* The tables, each ended by a row without target; import_custom_call.c lists them. */
extern const hlo_call_target flxi_hlo_check_targets[];
extern const hlo_call_target flxi_hlo_jax_targets[];
extern const hlo_call_target flxi_hlo_lapack_targets[];
extern const hlo_call_target flxi_hlo_dynamic_targets[];
extern const hlo_call_target flxi_hlo_host_targets[];
extern const hlo_call_target flxi_hlo_rule_targets[];

#endif
