/* SPDX-License-Identifier: Apache-2.0 */
/* message_size.h: what a plan of exchanges between processes must know of the exchanges themselves. */
#ifndef FLXI_MESSAGE_SIZE_H
#define FLXI_MESSAGE_SIZE_H

/* Bytes of a message of an all_reduce, at most. */
enum { FLXI_REDUCE_CHUNK = 1 << 20 };

#endif
