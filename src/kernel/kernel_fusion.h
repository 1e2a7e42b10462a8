/* kernel_fusion.h: two dispatches in one. */
#ifndef FLXI_KERNEL_FUSION_H
#define FLXI_KERNEL_FUSION_H

#include "kernel/kernel.h"

/* A kernel that does what dispatching `first` and then `second` over the same grid does. Bound buffers of one name
   are the same memory. NULL with the reason as error when an invocation of the second may need what another one of
   the first did, or when they do not fit together otherwise. The optimiser then takes away what need not go through
   memory. */
flx_kernel *flxi_kernel_fuse(const flx_kernel *first, const flx_kernel *second, flx_error *err);

#endif
