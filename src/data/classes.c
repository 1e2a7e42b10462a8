/* SPDX-License-Identifier: Apache-2.0 */
/* classes.c: the numbers of classes. A reader numbers the classes that it finds, so that a file which lacks one numbers
   the others differently; a model knows the numbers of the data that it was trained on. */
#include "data/dataset.h"

#include "base/distinct.h"
#include "graph/type/tensor.h"

static flx_code check(const flx_dataset *d, const char *label, const flxi_column **out, flx_error *err)
{
    for (size_t i = 0; i < d->columns.n; i++) {
        const flxi_column *c = &d->columns.at[i];
        if (strcmp(c->name, label) != 0)
            continue;
        *out = c;
        return c->type.rank == 1 && c->type.dtype == FLX_I32 && c->base
                   ? FLX_OK
                   : flxi_fail(err, FLX_E_DTYPE, "column '%.60s' has no labels, which are i32 in memory", label);
    }
    return flxi_fail(err, FLX_E_NAME, "the dataset has no column '%.60s'", label);
}

/* What each class of the dataset is called in the list: its position there. */
static flx_code number_classes(const flx_dataset *d, const char *const *classes, size_t count, int32_t *numbers,
                               flx_error *err)
{
    for (size_t i = 0; i < d->classes.n; i++) {
        size_t k = 0;
        while (k < count && strcmp(classes[k], d->classes.at[i]) != 0)
            k++;
        if (k == count) {
            char shown[64];
            flxi_printable(shown, sizeof shown, d->classes.at[i], strlen(d->classes.at[i]));
            return flxi_fail(err, FLX_E_NAME, "the class '%s' is not one of the %zu that are known", shown, count);
        }
        numbers[i] = (int32_t)k;
    }
    return FLX_OK;
}

/* A new base with the labels in their new numbers. */
static flx_tensor *renumber(const flx_dataset *d, const flxi_column *c, const int32_t *numbers, flx_error *err)
{
    flx_tensor *t = flx_tensor_new(d->ctx, &c->type, NULL, err);
    for (int64_t i = 0; t && i < d->rows; i++) {
        int32_t label;
        memcpy(&label, (const char *)c->base->data + c->first + (size_t)flxi_column_row(c, i) * c->stride,
               sizeof label);
        ((int32_t *)t->data)[i] = label >= 0 && (size_t)label < d->classes.n ? numbers[label] : label;
    }
    return t;
}

static flx_code use_classes(flx_dataset *d, const char *label, const char *const *classes, size_t count,
                            flxi_arena *scratch, flx_error *err)
{
    const flxi_column *c = NULL;
    FLXI_TRY(check(d, label, &c, err));
    FLXI_TRY(flxi_check_distinct(d->mem, "the list of classes has twice", classes, count, sizeof *classes, err));
    int32_t *numbers = flxi_new(scratch, int32_t, d->classes.n + 1);
    if (!numbers)
        return flxi_oom(err, "the classes of a dataset");
    FLXI_TRY(number_classes(d, classes, count, numbers, err));
    flx_tensor *t = renumber(d, c, numbers, err);
    if (!t)
        return err ? (flx_code)err->code : FLX_E_OOM;
    size_t before = d->classes.n;
    flx_code code = FLX_OK;
    for (size_t i = 0; code == FLX_OK && i < count; i++)
        code = flxi_dataset_add_class(d, classes[i], strlen(classes[i]), err);
    if (code != FLX_OK) {
        d->classes.n = before;
        flx_tensor_release(t);
        return code;
    }
    memmove(d->classes.at, d->classes.at + before, count * sizeof *d->classes.at);
    d->classes.n = count;
    flxi_column *to = (flxi_column *)c;
    flx_tensor_release(to->base);
    to->base = t;
    to->first = 0;
    to->order = NULL;
    to->stride = sizeof(int32_t);
    return FLX_OK;
}

flx_code flx_dataset_use_classes(flx_dataset *d, const char *label, const char *const *classes, size_t count,
                                 flx_error *err)
{
    flxi_arena scratch;
    if (!d || !label || (!classes && count))
        return flxi_fail(err, FLX_E_USAGE, "flx_dataset_use_classes: dataset, label and classes must not be NULL");
    flxi_arena_init(&scratch, d->mem);
    flx_code code = use_classes(d, label, classes, count, &scratch, err);
    flxi_arena_free(&scratch);
    return code;
}
