/* SPDX-License-Identifier: Apache-2.0 */
/* loader_batch.c: the batches of a loader for flx_fit(). */
#include "train/train.h"

#include <fluxion/data.h>

int flx_loader_batch(void *loader, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err)
{
    int64_t row = 0;
    (void)epoch;
    if (!loader || !batch) {
        flxi_fail(err, FLX_E_USAGE, "flx_loader_batch: loader and batch must not be NULL");
        return -1;
    }
    flx_loader_position(loader, NULL, &row);
    if (index > 0 && row == 0) /* the next epoch */
        return 0;
    if (flx_loader_next(loader, &batch->feeds, &batch->num_feeds, err) != FLX_OK)
        return -1;
    if (!batch->feeds && index == 0) { /* it was at the end of its last epoch: begin again */
        if (flx_loader_seek(loader, 0, 0, err) != FLX_OK ||
            flx_loader_next(loader, &batch->feeds, &batch->num_feeds, err) != FLX_OK)
            return -1;
    }
    return batch->feeds != NULL;
}
