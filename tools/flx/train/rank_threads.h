/* SPDX-License-Identifier: Apache-2.0 */
/* rank_threads.h: a training whose ranks are threads of this process. */
#ifndef FLX_TRAIN_RANK_THREADS_H
#define FLX_TRAIN_RANK_THREADS_H

#include "train/training.h"

/* The calling thread is rank 0, with the plan `p` of the mesh p->mesh. Others read the file again, each with a context,
   data and a trainer of its own. */
int rank_threads_run(train_plan *p, const char *file, const training_request *request);

#endif
