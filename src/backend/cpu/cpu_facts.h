/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_facts.h: what `flx devices` prints about the CPU. */
#ifndef FLXI_CPU_FACTS_H
#define FLXI_CPU_FACTS_H

#include "backend/backend.h"

extern const flxi_device_fact flxi_cpu_facts[]; /* ended by {0} */

#endif
