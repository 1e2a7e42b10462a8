/* SPDX-License-Identifier: Apache-2.0 */
/* shared_object.c: see shared_object.h. */
#include "backend/cpu/jit/shared_object.h"

#include "base/host/stop.h"
#include "base/host/system.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

struct flxi_object {
    const flxi_allocator *mem;
    void *handle;
};

/* ---- Whether it is worth a try ---- */

/* The loader trusts the headers: touching a segment beyond the end of the file would end the program. */
static bool is_whole(const unsigned char *bytes, size_t n)
{
    ElfW(Ehdr) e;
    if (n < sizeof e)
        return false;
    memcpy(&e, bytes, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_type != ET_DYN || e.e_phentsize != sizeof(ElfW(Phdr)) ||
        e.e_phoff > n || (n - e.e_phoff) / sizeof(ElfW(Phdr)) < e.e_phnum)
        return false;
    bool has_dynamic = false;
    for (size_t i = 0; i < e.e_phnum; i++) {
        ElfW(Phdr) p;
        memcpy(&p, bytes + e.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type != PT_NULL && (p.p_offset > n || p.p_filesz > n - p.p_offset))
            return false;
        has_dynamic = has_dynamic || p.p_type == PT_DYNAMIC;
    }
    return has_dynamic;
}

/* ---- Sealed memory ---- */

static bool has_digest(int fd, size_t n, const unsigned char *digest)
{
    unsigned char found[FLXI_SHA256_BYTES];
    void *bytes = flxi_system.map(fd, n);
    if (bytes == MAP_FAILED)
        return false;
    flxi_sha256_of(bytes, n, found);
    munmap(bytes, n);
    return memcmp(found, digest, sizeof found) == 0;
}

/* The descriptor of sealed memory with these bytes, -1 when the system does not give it. */
static int seal_bytes(const unsigned char *bytes, size_t n, const unsigned char *digest)
{
    int fd = flxi_system.memfd("fluxion", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (flxi_write_all(fd, bytes, n) && flxi_system.seal(fd) == 0 && has_digest(fd, n, digest))
        return fd;
    flxi_system.close(fd);
    return -1;
}

/* The loader takes a path it has seen before for the object it has loaded then, and numbers of descriptors come again.
   So each path is another one: bits of a serial number become parts of it that lead nowhere else. A process can have
   several copies of this library, such as a program's own and that in a plugin, each with serial numbers of its own:
   before them come the bits of an address that only this copy has. */
static void *load_descriptor(int fd)
{
    static atomic_uint last;
    char path[512] = "/proc/self/fd";
    size_t n = strlen(path);
    uintptr_t copy = (uintptr_t)&last;
    for (size_t i = 0; i < 8 * sizeof copy; i++, copy >>= 1)
        n += (size_t)snprintf(path + n, sizeof path - n, copy & 1 ? "/." : "//.");
    for (unsigned serial = atomic_fetch_add(&last, 1); serial > 0; serial >>= 1)
        n += (size_t)snprintf(path + n, sizeof path - n, serial & 1 ? "/." : "//.");
    snprintf(path + n, sizeof path - n, "/%d", fd);
    return flxi_system.dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* ---- Objects ---- */

static void *load_bytes(const unsigned char *bytes, size_t n, const unsigned char *digest)
{
    int fd = seal_bytes(bytes, n, digest);
    if (fd < 0)
        return NULL;
    void *handle = load_descriptor(fd);
    flxi_system.close(fd); /* what is mapped stays */
    return handle;
}

static int ask(void)
{
    return flxi_stopped();
}

/* Its loops then end early when the run is stopped (emit/kernel_poll.c). */
static void set_question(const flxi_object *o)
{
    void (*ask_by)(int (*)(void)) = NULL;
    *(void **)&ask_by = dlsym(o->handle, "flxk_ask_by");
    if (ask_by)
        ask_by(ask);
}

flx_code flxi_object_load(const flxi_allocator *mem, const unsigned char *bytes, size_t n,
                          const unsigned char digest[FLXI_SHA256_BYTES], const char *path, flxi_object **out,
                          flx_error *err)
{
    if (!is_whole(bytes, n))
        return flxi_fail(err, FLX_E_DEVICE, "it is not a complete shared object");
    flxi_object *o = flxi_alloc(mem, 1, sizeof *o);
    if (!o)
        return flxi_oom(err, "a compiled object");
    o->mem = mem;
    o->handle = load_bytes(bytes, n, digest);
    if (!o->handle && path)
        o->handle = flxi_system.dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (o->handle) {
        set_question(o);
        *out = o;
        return FLX_OK;
    }
    const char *why = dlerror();
    flxi_free(mem, o, 1, sizeof *o);
    return flxi_fail(err, FLX_E_DEVICE, "%.160s", why ? why : "the system gives no memory that can hold code");
}

void *flxi_object_symbol(const flxi_object *o, const char *name)
{
    return dlsym(o->handle, name);
}

void flxi_object_free(flxi_object *o)
{
    if (!o)
        return;
    dlclose(o->handle);
    flxi_free(o->mem, o, 1, sizeof *o);
}
