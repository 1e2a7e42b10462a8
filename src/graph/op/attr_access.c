/* SPDX-License-Identifier: Apache-2.0 */
/* attr_access.c: see attr_access.h. */
#include "graph/op/attr_access.h"

#include "graph/op/attr_kinds.h"

#include <math.h>

const flxi_attr *flxi_find_attr(const flxi_op *op, const char *name)
{
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        if (strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

const void *flxi_attr_field(const flxi_op *op, const void *attrs, const char *name, flxi_attr_storage storage)
{
    const flxi_attr *a = attrs ? flxi_find_attr(op, name) : NULL;
    return a && flxi_attr_kinds[a->kind].storage == storage ? (const char *)attrs + a->offset : NULL;
}

int64_t flxi_attr_int(const flxi_op *op, const void *attrs, const char *name)
{
    const int64_t *v = flxi_attr_field(op, attrs, name, STORED_INT);
    return v ? *v : FLXI_ABSENT;
}

const flx_ints *flxi_attr_ints(const flxi_op *op, const void *attrs, const char *name)
{
    static const flx_ints none = {NULL, 0};
    const flx_ints *v = flxi_attr_field(op, attrs, name, STORED_INTS);
    return v ? v : &none;
}

double flxi_attr_real(const flxi_op *op, const void *attrs, const char *name)
{
    const double *v = flxi_attr_field(op, attrs, name, STORED_REAL);
    return v ? *v : NAN;
}

const flx_graph *flxi_attr_graph(const flxi_op *op, const void *attrs, const char *name)
{
    const flx_graph *const *v = flxi_attr_field(op, attrs, name, STORED_GRAPH);
    return v ? *v : NULL;
}

const flx_tensor *flxi_attr_tensor(const flxi_op *op, const void *attrs, const char *name)
{
    const flx_tensor *const *v = flxi_attr_field(op, attrs, name, STORED_TENSOR);
    return v ? *v : NULL;
}

const flx_type *flxi_attr_type(const flxi_op *op, const void *attrs, const char *name)
{
    const flx_type *const *v = flxi_attr_field(op, attrs, name, STORED_TYPE);
    return v ? *v : NULL;
}

const flxi_combine *flxi_attr_combine(const flxi_op *op, const void *attrs, const char *name)
{
    return flxi_attr_field(op, attrs, name, STORED_COMBINE);
}

const flx_graphs *flxi_attr_graphs(const flxi_op *op, const void *attrs, const char *name)
{
    static const flx_graphs none = {NULL, 0};
    const flx_graphs *v = flxi_attr_field(op, attrs, name, STORED_GRAPHS);
    return v ? v : &none;
}

void flxi_attr_set_int(const flxi_op *op, void *attrs, const char *name, int64_t value)
{
    const flxi_attr *a = flxi_find_attr(op, name);
    if (a && flxi_attr_kinds[a->kind].storage == STORED_INT)
        *(int64_t *)(void *)((char *)attrs + a->offset) = value;
}

bool flxi_attr_is_word(const flxi_op *op, const void *attrs, const char *name, const char *word)
{
    const int64_t *plain = flxi_attr_field(op, attrs, name, STORED_INT);
    const flxi_combine *combine = flxi_attr_field(op, attrs, name, STORED_COMBINE);
    const flxi_attr *a = flxi_find_attr(op, name);
    if (!a || !a->words || (!plain && !combine))
        return false;
    int64_t given = plain ? *plain : combine->word;
    return given >= 0 && given == flxi_word_find(a->words, word, strlen(word));
}
