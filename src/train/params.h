/* SPDX-License-Identifier: Apache-2.0 */
/* params.h: sets of named tensors, for trainers. */
#ifndef FLXI_PARAMS_H
#define FLXI_PARAMS_H

#include "base/hash.h"
#include "graph/graph.h"

#include <fluxion/train.h>

/* An entry stays where it is and keeps its tensor as long as the set lives. */
typedef struct {
    const char *name;
    flx_tensor *value;
    bool is_set;
} flxi_param;

struct flx_params {
    flx_context *ctx;
    const flxi_allocator *mem;
    atomic_uint refs;
    flxi_arena arena; /* entries and names */
    FLXI_VEC(flxi_param *) entries;
    flxi_index index; /* by name */
};

/* NULL when there is none. */
flxi_param *flxi_params_find(const flx_params *s, const char *name);

/* Adds an entry that holds the tensor; there must be none of this name. */
flx_code flxi_params_hold(flx_params *s, const char *name, flx_tensor *value, bool is_set, flx_error *err);
/* The same with a new tensor of zeros. */
flx_code flxi_params_zeros(flx_params *s, const char *name, const flx_type *type, bool is_set, flx_error *err);

/* flx_params_join() for the first leaves of a graph. */
flx_code flxi_params_join(flx_params *s, const flx_graph *g, size_t num_leaves, uint64_t seed, flx_error *err);

/* DTYPE or SHAPE when a value of this type cannot be the parameter. */
flx_code flxi_param_fits(const flx_params *s, const flxi_param *p, const flx_type *type, flx_error *err);

/* Whether the parameter that is leaf i is a state: the position of the output that it becomes. */
bool flxi_find_update(const flx_graph *g, size_t leaf, size_t *output);

/* The graph of a trainer's step, whose first outputs, that many, are those of the loss without states (trainer.c). */
const flx_graph *flxi_trainer_graph(const flx_trainer *t);
size_t flxi_trainer_results(const flx_trainer *t);
struct flxi_training;
struct flx_checkpoint;
const struct flxi_training *flxi_trainer_training(const flx_trainer *t);

/* A checkpoint names the optimiser, since states of several have one name: `m` of adam is not that of momentum. USAGE
   when the trainer has another one; checkpoints of versions that did not name it are accepted. */
flx_code flxi_store_optimiser(const flx_trainer *t, struct flx_checkpoint *c, flx_error *err);
flx_code flxi_check_optimiser(const flx_trainer *t, const struct flx_checkpoint *c, flx_error *err);
/* The device of its options; NULL: the usual one. */
const char *flxi_trainer_device(const flx_trainer *t);

#endif
