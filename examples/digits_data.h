/* SPDX-License-Identifier: Apache-2.0 */
/* digits_data.h: drawn digits for the examples that compare networks: batches for training, and a test. */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include "example.h"
#include <fluxion/data.h>

enum { TEST = 1000, BATCH = 50 };

typedef struct {
    flx_context *ctx;
    flx_loader *loader;
    flx_tensor *x, *label; /* held out */
} data;

/* Digits to train on, and TEST others. */
static inline data open_data(flx_context *ctx, int64_t rows)
{
    int64_t last[TEST];
    for (int i = 0; i < TEST; i++)
        last[i] = rows + i;
    flx_dataset *digits = flx_digits(ctx, rows + TEST, 1, &err);
    need(digits != NULL);
    flx_dataset *first = flx_dataset_slice(digits, 0, rows, &err);
    flx_loader_options batches = {.struct_size = sizeof batches, .batch = BATCH, .flags = FLX_LOADER_SHUFFLE};
    data d = {.ctx = ctx, .loader = flx_loader_new(first, &batches, &err)};
    d.x = flx_dataset_gather(digits, "x", last, TEST, &err);
    d.label = flx_dataset_gather(digits, "label", last, TEST, &err);
    need(d.loader && d.x && d.label);
    flx_dataset_free(first);
    flx_dataset_free(digits);
    return d;
}

static inline void close_data(data *d)
{
    flx_tensor_release(d->x);
    flx_tensor_release(d->label);
    flx_loader_free(d->loader);
}

#endif
