/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_host.h: plays the part of JAX: loads the plugin and drives its table. */
#ifndef FLX_TESTS_PJRT_HOST_H
#define FLX_TESTS_PJRT_HOST_H

#include "pjrt/pjrt_abi.h"

/* Calls a slot with arguments whose struct_size is set; fails the test with the message of an error. */
void host_call(int slot, void *args, size_t size);
/* The same, for a call that must fail with this code; the message is in a buffer that the next call overwrites. */
const char *host_refused(int slot, void *args, size_t size, int32_t code);
#define HOST_CALL(slot, args) host_call(PJRT_##slot, &(args), sizeof(args))
#define HOST_REFUSED(slot, args, code) host_refused(PJRT_##slot, &(args), sizeof(args), (code))

const pjrt_api *host_api(void);

/* With these options, which may be NULL. */
pjrt_client *host_client(const pjrt_named_value *options, size_t n);
void host_close(pjrt_client *c);

pjrt_buffer *host_put(pjrt_client *c, pjrt_type type, const int64_t *dims, size_t rank, const void *data);
void host_get(pjrt_buffer *b, void *data, size_t size);
void host_drop(pjrt_buffer *b);
int host_is_deleted(pjrt_buffer *b);

pjrt_executable *host_compile(pjrt_client *c, const char *program);
pjrt_executable *host_compile_for(pjrt_client *c, const char *program, size_t num_devices);
void host_run(pjrt_executable *x, pjrt_buffer *const *args, size_t num_args, pjrt_buffer **outputs);
/* The same on at most 8 devices, with lists by device. */
void host_run_on(pjrt_executable *x, size_t num_devices, pjrt_buffer *const *const *args, size_t num_args,
                 pjrt_buffer **const *outputs);
void host_free(pjrt_executable *x);

#endif
