/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/fluxion.h: the whole public API. */
#ifndef FLUXION_FLUXION_H
#define FLUXION_FLUXION_H

#include <fluxion/catalogue.h>
#include <fluxion/custom.h>
#include <fluxion/exec.h>
#include <fluxion/graph.h>
#include <fluxion/kernel.h>
#include <fluxion/lower.h>
#include <fluxion/nn.h>
#include <fluxion/ops.h>
#include <fluxion/recording.h>
#include <fluxion/run.h>
#include <fluxion/stablehlo.h>
#include <fluxion/tensor.h>
#include <fluxion/text.h>
#include <fluxion/train.h>
#include <fluxion/transform.h>
#include <fluxion/types.h>

#endif
