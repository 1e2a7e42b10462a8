/* SPDX-License-Identifier: Apache-2.0 */
/* contraction_route.h: matmul and dot_general as a matrix product, for callers that add an epilogue. */
#ifndef FLXI_CONTRACTION_ROUTE_H
#define FLXI_CONTRACTION_ROUTE_H

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/routes/routes.h"

/* The product that computes the node, with data pointers where the node has them; the result must not be empty. */
flxi_gemm flxi_contraction_product(const flxi_route_node *n);

#endif
