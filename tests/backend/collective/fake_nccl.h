/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nccl.h: a library that imitates the driver of a card and NCCL (fake_cards.inc). */
#ifndef FLX_TEST_FAKE_NCCL_H
#define FLX_TEST_FAKE_NCCL_H

#include <stdbool.h>

/* Compiles it in FOLDER/lib64, for the $LD_LIBRARY_PATH of a process. */
bool fake_nccl_make(const char *folder);

#endif
