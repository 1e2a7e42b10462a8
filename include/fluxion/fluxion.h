/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/fluxion.h: the core: build a graph with ops or read it as text, transform it, compile it, run it, train it.
   Other headers are included by the callers that want them: fluxion/nn.h (layers and losses), fluxion/data.h
   (datasets), fluxion/kernel.h (kernels), fluxion/custom.h (ops of the program), fluxion/stablehlo.h, fluxion/onnx.h
   and others, which docs/api.md lists. */
#ifndef FLUXION_FLUXION_H
#define FLUXION_FLUXION_H

#include <fluxion/catalogue.h>
#include <fluxion/exec.h>
#include <fluxion/graph.h>
#include <fluxion/lower.h>
#include <fluxion/ops.h>
#include <fluxion/quantise.h>
#include <fluxion/run.h>
#include <fluxion/stop.h>
#include <fluxion/tensor.h>
#include <fluxion/text.h>
#include <fluxion/train.h>
#include <fluxion/transform.h>
#include <fluxion/types.h>

#endif
