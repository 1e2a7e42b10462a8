/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_type.h: element types of programs as those of the interface. */
#ifndef FLXI_PJRT_TYPE_H
#define FLXI_PJRT_TYPE_H

#include "stablehlo/syntax/syntax.h"

int32_t flxi_pjrt_type_of(hlo_element element); /* PJRT_INVALID: there is none */

#endif
