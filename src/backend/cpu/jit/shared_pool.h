/* SPDX-License-Identifier: Apache-2.0 */
/* shared_pool.h: the threads of a context: one pool for all that runs on the CPU. */
#ifndef FLXI_SHARED_POOL_H
#define FLXI_SHARED_POOL_H

#include "base/context.h"
#include "base/host/thread_pool.h"

/* NULL when threads cannot be had: then everything runs on the caller. Lives as long as the context. */
flxi_pool *flxi_shared_pool(flx_context *ctx);

#endif
