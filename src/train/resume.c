/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c: trainers in checkpoints. Parameters and states have their own names, so that any program that reads
   .safetensors finds the weights; the position of the loader is text. What is restored is checked completely before
   anything is changed. */
#include "base/error.h"
#include "train/params.h"
#include "train/train.h"

#include <fluxion/checkpoint.h>
#include <fluxion/data.h>

static const char epoch_key[] = "loader.epoch", row_key[] = "loader.row", optimiser_key[] = "trainer.optimiser";

/* ---- The optimiser ---- */

static const char *optimiser_of(const flx_trainer *t)
{
    return flx_optimiser_name(flxi_trainer_training(t)->optimiser);
}

flx_code flxi_store_optimiser(const flx_trainer *t, flx_checkpoint *c, flx_error *err)
{
    return flx_checkpoint_set(c, optimiser_key, optimiser_of(t), err);
}

flx_code flxi_check_optimiser(const flx_trainer *t, const flx_checkpoint *c, flx_error *err)
{
    const char *then = flx_checkpoint_text(c, optimiser_key), *now = optimiser_of(t);
    char shown[40];
    if (!then || strcmp(then, now) == 0)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_USAGE, "flx_params_load() takes the parameters alone",
                          "the checkpoint is of a training with %s, but the trainer has %s",
                          flxi_printable(shown, sizeof shown, then, strlen(then)), now);
}

/* ---- Saving ---- */

static flx_code store_set(const flx_params *s, flx_checkpoint *c, flx_error *err)
{
    for (size_t i = 0; i < flx_params_count(s); i++) {
        flx_tensor *value = flx_params_at(s, i);
        if (!value)
            return flxi_fail(err, FLX_E_MISSING_INPUT, "the parameter '%.100s' has no value yet",
                             flx_params_name(s, i));
        FLXI_TRY(flx_checkpoint_add(c, flx_params_name(s, i), value, err));
    }
    return FLX_OK;
}

flx_code flx_trainer_store(const flx_trainer *t, const flx_loader *loader, flx_checkpoint *c, flx_error *err)
{
    if (!t || !c)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_store: trainer and checkpoint must not be NULL");
    FLXI_TRY(store_set(flx_trainer_params(t), c, err));
    FLXI_TRY(store_set(flx_trainer_state(t), c, err));
    FLXI_TRY(flxi_store_optimiser(t, c, err));
    if (!loader)
        return FLX_OK;
    int64_t epoch, row;
    flx_loader_position(loader, &epoch, &row);
    FLXI_TRY(flx_checkpoint_set_number(c, epoch_key, epoch, err));
    return flx_checkpoint_set_number(c, row_key, row, err);
}

flx_code flx_trainer_save(const flx_trainer *t, const flx_loader *loader, const char *path, flx_error *err)
{
    if (!t || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_save: trainer and path must not be NULL");
    flx_checkpoint *c = flx_checkpoint_new(flx_trainer_params(t)->ctx, err);
    if (!c)
        return FLX_E_OOM;
    flx_code code = flx_trainer_store(t, loader, c, err);
    if (code == FLX_OK)
        code = flx_checkpoint_write(c, path, err);
    flx_checkpoint_free(c);
    return code;
}

/* ---- Loading ---- */

static flx_code check_set(const flx_params *s, const flx_checkpoint *c, flx_error *err)
{
    for (size_t i = 0; i < s->entries.n; i++) {
        const flx_tensor *value = flx_checkpoint_tensor(c, s->entries.at[i]->name, err);
        if (!value) {
            flxi_hint(err, "it was written with other options of the training, or by another version");
            return FLX_E_NAME;
        }
        FLXI_TRY(flxi_param_fits(s, s->entries.at[i], flx_tensor_type(value), err));
    }
    return FLX_OK;
}

static flx_code take_set(flx_params *s, const flx_checkpoint *c, flx_error *err)
{
    for (size_t i = 0; i < s->entries.n; i++)
        FLXI_TRY(flx_params_set(s, s->entries.at[i]->name, flx_checkpoint_tensor(c, s->entries.at[i]->name, err), err));
    return FLX_OK;
}

flx_code flx_trainer_restore(flx_trainer *t, flx_loader *loader, const flx_checkpoint *c, flx_error *err)
{
    int64_t epoch, row;
    if (!t || !c)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_restore: trainer and checkpoint must not be NULL");
    FLXI_TRY(flxi_check_optimiser(t, c, err));
    FLXI_TRY(check_set(flx_trainer_params(t), c, err));
    FLXI_TRY(check_set(flx_trainer_state(t), c, err));
    if (loader) {
        FLXI_TRY(flx_checkpoint_number(c, epoch_key, &epoch, err));
        FLXI_TRY(flx_checkpoint_number(c, row_key, &row, err));
        FLXI_TRY(flx_loader_seek(loader, epoch, row, err));
    }
    FLXI_TRY(take_set(flx_trainer_params(t), c, err));
    return take_set(flx_trainer_state(t), c, err);
}

flx_code flx_trainer_load(flx_trainer *t, flx_loader *loader, const char *path, flx_error *err)
{
    if (!t || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_load: trainer and path must not be NULL");
    flx_error own = {0}; /* the caller's may be NULL */
    flx_checkpoint *c = flx_checkpoint_read(flx_trainer_params(t)->ctx, path, &own);
    flx_code code = c ? flx_trainer_restore(t, loader, c, &own) : (flx_code)own.code;
    flx_checkpoint_free(c);
    if (code != FLX_OK) {
        flxi_at(&own, "%s", path);
        if (err)
            *err = own;
    }
    return code;
}
