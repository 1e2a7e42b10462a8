/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_image.c: the bytes of a GGUF file. Files are mapped, since their tensors are as large as memory and are only
   read: what a run does not use is never loaded, and programs that use the same file share it. A file that others
   truncate while it is mapped ends the program with a signal; that is documented, and the price of not copying. */
#include "base/host/system.h"
#include "gguf/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

static flxi_gguf_image *new_image(flx_context *ctx, const char *name, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_gguf_image *m = flxi_alloc(mem, 1, sizeof *m);
    if (!m) {
        flxi_oom(err, "a GGUF file");
        return NULL;
    }
    size_t n = strlen(name);
    size_t room = sizeof m->name - 24; /* an offset follows it in messages */
    const char *from = n > room ? name + n - room : name;
    flxi_printable(m->name, sizeof m->name, from, strlen(from));
    m->mem = mem;
    atomic_init(&m->holds, 1);
    return m;
}

flxi_gguf_image *flxi_gguf_borrow(flx_context *ctx, const void *bytes, size_t size, const char *name, flx_error *err)
{
    flxi_gguf_image *m = new_image(ctx, name, err);
    if (m) {
        m->bytes = bytes;
        m->size = size;
    }
    return m;
}

static flx_code map_bytes(flxi_gguf_image *m, int fd, const char *path, flx_error *err)
{
    struct stat s;
    if (flxi_system.fstat(fd, &s) != 0)
        return flxi_fail(err, FLX_E_IO, "cannot read '%.120s': %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return flxi_fail(err, FLX_E_IO, "'%.120s' is not a file that can be mapped", path);
    if (s.st_size == 0)
        return flxi_fail(err, FLX_E_SYNTAX, "'%.120s' is empty, not a GGUF file", path);
    void *bytes = flxi_system.map(fd, (size_t)s.st_size);
    if (bytes == MAP_FAILED)
        return flxi_fail(err, FLX_E_IO, "cannot map '%.120s': %s", path, strerror(errno));
    m->bytes = bytes;
    m->size = (size_t)s.st_size;
    m->is_mapped = true;
    return FLX_OK;
}

flxi_gguf_image *flxi_gguf_map(flx_context *ctx, const char *path, flx_error *err)
{
    flxi_gguf_image *m = new_image(ctx, path, err);
    int fd = m ? flxi_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0) /* a pipe does not wait */ : -1;
    if (m && fd < 0)
        flxi_fail(err, FLX_E_IO, "cannot open '%.120s': %s", path, strerror(errno));
    bool ok = fd >= 0 && map_bytes(m, fd, path, err) == FLX_OK;
    if (fd >= 0)
        flxi_system.close(fd);
    if (ok)
        return m;
    flxi_gguf_drop(m);
    return NULL;
}

flxi_gguf_image *flxi_gguf_hold(flxi_gguf_image *m)
{
    atomic_fetch_add_explicit(&m->holds, 1, memory_order_relaxed);
    return m;
}

void flxi_gguf_drop(flxi_gguf_image *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->holds, 1, memory_order_acq_rel) != 1)
        return;
    if (m->is_mapped)
        munmap((void *)(uintptr_t)m->bytes, m->size);
    flxi_free(m->mem, m, 1, sizeof *m);
}
