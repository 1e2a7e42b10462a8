/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise.h: the common part of every pointwise op's rules, for the families that hold such ops. */
#ifndef FLXI_POINTWISE_H
#define FLXI_POINTWISE_H

#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "graph/op/site.h"

#include <complex.h>
#include <math.h>

/* Operands broadcast, the result has their dtype. */
#define POINTWISE_RULES .infer = flxi_infer_pointwise, .eval = flxi_eval_pointwise
/* The same with a bool result. */
#define PREDICATE_RULES .infer = flxi_infer_predicate, .eval = flxi_eval_pointwise

#endif
