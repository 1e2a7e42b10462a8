/* SPDX-License-Identifier: Apache-2.0 */
/* loss_kinds.c: see loss_kinds.h. */
#include "train/loss_kinds.h"

#include <fluxion/nn.h>
#include <fluxion/ops.h>
#include <fluxion/train.h>

static flx_val cross_entropy(flx_graph *g, flx_val y, flx_val truth)
{
    return flx_nn_cross_entropy(g, y, truth, 0);
}

static flx_val huber(flx_graph *g, flx_val y, flx_val truth)
{
    return flx_nn_huber(g, y, truth, 1);
}

static const loss_kind kinds[] = {
    {"cross_entropy", cross_entropy, true},
    {"bce", flx_nn_bce_with_logits, false},
    {"mse", flx_nn_mse, false},
    {"mae", flx_nn_mae, false},
    {"huber", huber, false},
};

const loss_kind *loss_kind_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

void loss_kind_append(const loss_kind *kind, flx_graph *g, flx_val y, flx_val truth)
{
    const flx_type *type = flx_val_type(g, y), *shape = flx_val_type(g, truth);
    if (!type || !shape)
        return; /* the graph has the error */
    if (!kind->is_of_classes && shape->rank < type->rank)
        y = flx_reshape(g, y, (flx_ints){shape->dims, (size_t)shape->rank});
    if (!kind->is_of_classes && shape->dtype != type->dtype)
        truth = flx_cast(g, truth, (flx_dtype)type->dtype);
    flx_output(g, kind->build(g, y, truth), "loss");
    if (kind->is_of_classes)
        flx_output(g, flx_accuracy(g, y, truth), "accuracy");
}
