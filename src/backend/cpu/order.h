/* SPDX-License-Identifier: Apache-2.0 */
/* order.h: in which order the routes of the CPU add, for C files that compute the same bits (src/standalone). It is the
   one header of this folder that sources outside of it include (tests/check/backend). */
#ifndef FLXI_CPU_ORDER_H
#define FLXI_CPU_ORDER_H

#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/gemm/gemm.h"

/* matmul or dot_general; the result must not be empty. */
flxi_gemm_form flxi_order_of_product(const flxi_device_node *n);

/* NULL, or why tiles do not compute the convolution. */
const char *flxi_order_is_direct(const flxi_device_node *n);

/* A convolution that tiles compute. */
flxi_direct_conv flxi_order_of_conv(const flxi_device_node *n);

#endif
