/* SPDX-License-Identifier: Apache-2.0 */
/* targets.h: the fuzz targets of tests/fuzz as functions: what they check for one input, and how some of them change
   one. The files target_NAME.c include them. */
#ifndef FLX_ADVERSARY_TARGETS_H
#define FLX_ADVERSARY_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*target_check)(const uint8_t *data, size_t size);

int check_text_input(const uint8_t *data, size_t size);
int check_binary_input(const uint8_t *data, size_t size);
int check_kernel_text_input(const uint8_t *data, size_t size);
int check_kernel_wire_input(const uint8_t *data, size_t size);
int check_stablehlo_input(const uint8_t *data, size_t size);
int check_bytecode_input(const uint8_t *data, size_t size);
int check_gguf_input(const uint8_t *data, size_t size);
int check_onnx_input(const uint8_t *data, size_t size);
int check_npy_input(const uint8_t *data, size_t size);
int check_recording_input(const uint8_t *data, size_t size);
int check_graph_input(const uint8_t *data, size_t size);
int check_data_input(const uint8_t *data, size_t size);

bool accepts_data_input(const uint8_t *data, size_t size);

size_t mutate_text_input(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t mutate_kernel_text_input(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t mutate_kernel_wire_input(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#endif
