/* SPDX-License-Identifier: Apache-2.0 */
/* compile_request.c: see compile_request.h. */
#include "backend/compile_request.h"

#include <errno.h>
#include <stdio.h>

flx_code flxi_dump_text(const char *dir, size_t number, const char *ending, const flxi_strbuf *text, flx_error *err)
{
    char path[4096], shown[120];
    int n = snprintf(path, sizeof path, "%s/kernels_%zu.%s", dir, number, ending);
    errno = ENAMETOOLONG;
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "wb") : NULL;
    bool ok = f && fwrite(text->at, 1, text->n, f) == text->n;
    int why = errno;
    if (f && fclose(f) != 0 && ok) {
        why = errno;
        ok = false;
    }
    if (ok)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_IO, "the folder must exist, be writable and have room",
                          "cannot write kernels_%zu.%s to '%s': %s", number, ending,
                          flxi_printable(shown, sizeof shown, dir, strlen(dir)), strerror(why));
}

static void log_count(const flx_context *ctx, flx_log_event event, const char *device, uint64_t n, const char *done)
{
    if (n)
        flxi_log(ctx, event, device, "object cache: %llu objects %s", (unsigned long long)n, done);
}

void flxi_log_cache(const flxi_compile_request *q, const char *device, uint64_t found, uint64_t compiled,
                    const flxi_cache_stats *stats)
{
    log_count(q->ctx, FLX_LOG_CACHE_HIT, device, found, "found");
    log_count(q->ctx, FLX_LOG_CACHE_MISS, device, compiled, "compiled");
    if (!stats->note[0])
        return;
    flxi_log(q->ctx, FLX_LOG_FALLBACK, device, "object cache: %.200s", stats->note);
    *q->is_slow = true;
}

flx_code flxi_open_cache(const flxi_compile_request *q, flxi_object_cache **out, flx_error *err)
{
    const flxi_cache_options options = flxi_cache_options_of(q->options);
    *out = flxi_object_cache_new(flxi_context_mem(q->ctx), &options);
    return *out ? FLX_OK : flxi_oom(err, "the object cache");
}

void flxi_close_cache(const flxi_compile_request *q, const char *device, flxi_object_cache *cache, uint64_t found,
                      uint64_t compiled)
{
    flxi_cache_stats stats;
    flxi_object_cache_stats(cache, &stats);
    flxi_log_cache(q, device, found, compiled, &stats);
    flxi_object_cache_free(cache);
}
