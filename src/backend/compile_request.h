/* SPDX-License-Identifier: Apache-2.0 */
/* compile_request.h: what devices that compile texts do alike with the options of a request. */
#ifndef FLXI_COMPILE_REQUEST_H
#define FLXI_COMPILE_REQUEST_H

#include "backend/backend.h"
#include "backend/object_cache.h"
#include "base/strbuf.h"

/* Writes a text to DIR/kernels_<number>.<ending>. */
flx_code flxi_dump_text(const char *dir, size_t number, const char *ending, const flxi_strbuf *text, flx_error *err);

/* Logs how many objects were in the cache, how many were compiled, and why the cache was not used as wanted: then
   something is slow. */
void flxi_log_cache(const flxi_compile_request *q, const char *device, uint64_t found, uint64_t compiled,
                    const flxi_cache_stats *stats);

/* The object cache that a request wants. Closing it logs the same. */
flx_code flxi_open_cache(const flxi_compile_request *q, flxi_object_cache **out, flx_error *err);
void flxi_close_cache(const flxi_compile_request *q, const char *device, flxi_object_cache *cache, uint64_t found,
                      uint64_t compiled);

#endif
