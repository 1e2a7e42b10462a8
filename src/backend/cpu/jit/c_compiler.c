/* SPDX-License-Identifier: Apache-2.0 */
/* c_compiler.c: see c_compiler.h. */
#include "backend/cpu/jit/c_compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- Finding it ---- */

static bool is_program(const char *path, struct stat *st)
{
    return stat(path, st) == 0 && S_ISREG(st->st_mode) && access(path, X_OK) == 0;
}

/* A name without a slash is looked for on the PATH. */
static bool find_program(const char *name, char *path, size_t size, struct stat *st)
{
    int n;
    if (strchr(name, '/')) {
        n = snprintf(path, size, "%s", name);
        return n > 0 && (size_t)n < size && is_program(path, st);
    }
    const char *dirs = secure_getenv("PATH");
    for (const char *at = dirs ? dirs : "/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        n = snprintf(path, size, "%.*s/%s", (int)length, at, name);
        if (length > 0 && n > 0 && (size_t)n < size && is_program(path, st))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static void add_number(flxi_sha256 *h, int64_t v)
{
    flxi_sha256_add_field(h, &v, sizeof v);
}

static void identify(flxi_cc *cc, const struct stat *st)
{
    flxi_sha256 h;
    flxi_sha256_init(&h);
    flxi_sha256_add_field(&h, "fluxion compiler 1", 18);
    flxi_sha256_add_field(&h, cc->path, strlen(cc->path));
    add_number(&h, (int64_t)st->st_dev);
    add_number(&h, (int64_t)st->st_ino);
    add_number(&h, st->st_size);
    add_number(&h, st->st_mtim.tv_sec);
    add_number(&h, st->st_mtim.tv_nsec);
    add_number(&h, st->st_ctim.tv_sec);
    add_number(&h, st->st_ctim.tv_nsec);
    flxi_sha256_end(&h, cc->identity);
}

static bool find_any(flxi_cc *cc, struct stat *st)
{
    static const char *const names[] = {"gcc", "clang", "cc"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (find_program(names[i], cc->path, sizeof cc->path, st))
            return true;
    return false;
}

flx_code flxi_cc_find(flxi_cc *cc, flx_error *err)
{
    const char *chosen = secure_getenv("FLX_CC");
    bool is_chosen = chosen && chosen[0];
    struct stat st;
    char shown[120];
    cc->version[0] = 0;
    cc->family = FLXI_CC_UNKNOWN;
    if (is_chosen ? find_program(chosen, cc->path, sizeof cc->path, &st) : find_any(cc, &st)) {
        identify(cc, &st);
        return FLX_OK;
    }
    if (is_chosen)
        return flxi_fail_hint(err, FLX_E_DEVICE, "set FLX_CC to a C compiler, or unset it",
                              "FLX_CC is '%s', which is not a program",
                              flxi_printable(shown, sizeof shown, chosen, strlen(chosen)));
    return flxi_fail_hint(err, FLX_E_DEVICE, "install gcc or clang, or set FLX_CC; device ref needs none",
                          "there is no C compiler: none of gcc, clang and cc is on the PATH");
}

/* ---- Asking it ---- */

static flxi_cc_family family_of(const char *version)
{
    if (strstr(version, "clang"))
        return FLXI_CC_CLANG;
    return strstr(version, "Free Software Foundation") || strstr(version, "gcc") ? FLXI_CC_GCC : FLXI_CC_UNKNOWN;
}

static bool read_version(flxi_cc *cc, flxi_object_cache *cache)
{
    flxi_cache_entry e;
    if (!flxi_object_cache_read(cache, cc->identity, &e))
        return false;
    bool ok = e.n > 0 && e.n < sizeof cc->version && !memchr(e.bytes, 0, e.n);
    if (ok) {
        memcpy(cc->version, e.bytes, e.n);
        cc->version[e.n] = 0;
    }
    flxi_cache_entry_free(cache, &e);
    return ok;
}

static void write_version(const flxi_cc *cc, flxi_object_cache *cache)
{
    unsigned char text[sizeof cc->version];
    flxi_cache_entry e = {.bytes = text, .n = strlen(cc->version)};
    memcpy(text, cc->version, e.n);
    flxi_sha256_of(text, e.n, e.digest);
    flxi_object_cache_write(cache, cc->identity, &e);
}

/* ---- Remembering it ---- */

enum { IDENTITY = FLXI_SHA256_BYTES };

static void recall_key(unsigned char key[FLXI_SHA256_BYTES])
{
    static const char text[] = "fluxion compiler used last 1";
    flxi_sha256_of(text, sizeof text - 1, key);
}

bool flxi_cc_recall(flxi_cc *cc, flxi_object_cache *cache)
{
    unsigned char key[FLXI_SHA256_BYTES];
    flxi_cache_entry e;
    recall_key(key);
    if (!flxi_object_cache_read(cache, key, &e))
        return false;
    size_t n = e.n > IDENTITY ? e.n - IDENTITY : 0;
    bool ok = n > 0 && n < sizeof cc->version && !memchr(e.bytes + IDENTITY, 0, n);
    *cc = (flxi_cc){.path = ""};
    if (ok) {
        memcpy(cc->identity, e.bytes, IDENTITY);
        memcpy(cc->version, e.bytes + IDENTITY, n);
        cc->family = family_of(cc->version);
    }
    flxi_cache_entry_free(cache, &e);
    return ok;
}

/* It is written only when it changes. */
static void remember(const flxi_cc *cc, flxi_object_cache *cache)
{
    unsigned char key[FLXI_SHA256_BYTES], bytes[IDENTITY + sizeof cc->version];
    flxi_cc last;
    if (flxi_cc_recall(&last, cache) && memcmp(last.identity, cc->identity, IDENTITY) == 0 &&
        strcmp(last.version, cc->version) == 0)
        return;
    flxi_cache_entry e = {.bytes = bytes, .n = IDENTITY + strlen(cc->version)};
    memcpy(bytes, cc->identity, IDENTITY);
    memcpy(bytes + IDENTITY, cc->version, strlen(cc->version));
    flxi_sha256_of(bytes, e.n, e.digest);
    recall_key(key);
    flxi_object_cache_write(cache, key, &e);
}

/* A compiler that fails here says nothing about itself; what is wrong with it shows when it compiles. */
void flxi_cc_probe(flxi_cc *cc, flxi_object_cache *cache, const flxi_process_limits *limits)
{
    if (!read_version(cc, cache)) {
        const char *const args[] = {cc->path, "--version", NULL};
        flxi_process p = {.args = args};
        _Static_assert(sizeof p.said <= sizeof cc->version, "all that is kept has room");
        flxi_processes_run(&p, 1, limits);
        if (!flxi_process_ok(&p) || !p.said[0])
            return;
        memcpy(cc->version, p.said, strlen(p.said) + 1);
        write_version(cc, cache);
    }
    cc->family = family_of(cc->version);
    remember(cc, cache);
}

/* ---- Arguments ---- */

static const char *level_flag(const flxi_cc *cc, flxi_c_level level)
{
    static const char *const flags[] = {
        [FLXI_C_O0] = "-O0", [FLXI_C_O1] = "-O1", [FLXI_C_O2] = "-O2", [FLXI_C_O3] = "-O3"};
    if (level == FLXI_C_USUAL)
        level = cc->family == FLXI_CC_CLANG ? FLXI_C_O1 : FLXI_C_O2;
    return flags[level];
}

size_t flxi_cc_flags(const flxi_cc *cc, flxi_c_level level, unsigned flags, const char *out[FLXI_CC_MAX_FLAGS])
{
    size_t n = 0;
    out[n++] = "-std=gnu17";
    out[n++] = level_flag(cc, level);
    out[n++] = "-ftree-vectorize";
    if (cc->family == FLXI_CC_GCC) /* gcc 12 -O3 makes -1 of the truth of a comparison stored to elements of a vector */
        out[n++] = "-fno-tree-slp-vectorize";
#if defined(__x86_64__)
    out[n++] = "-march=native";
    if (cc->family != FLXI_CC_UNKNOWN) /* all that know C17 know it */
        out[n++] = "-mprefer-vector-width=512";
#endif
    out[n++] = flags & FLXI_C_CONTRACT ? "-ffp-contract=fast" : "-ffp-contract=off";
    out[n++] = "-fno-math-errno";
    if (cc->family != FLXI_CC_GCC) /* gcc then makes trunc(x) of (float)(int)x, which is -0 for x in (-1, 0] */
        out[n++] = "-fno-trapping-math";
    out[n++] = "-fno-strict-aliasing";
    out[n++] = "-fno-builtin"; /* constants too get the library's values */
    out[n++] = "-fopenmp-simd";
    out[n++] = "-fPIC";
    out[n++] = "-shared";
    out[n++] = "-w";
    out[n++] = "-fno-asynchronous-unwind-tables";
    if (cc->family != FLXI_CC_UNKNOWN)
        out[n++] = "-nostdlib"; /* start-up files and libraries cost a third of a small file's time */
    return n;
}

#if defined(__x86_64__)
static void add_leaf(flxi_sha256 *h, unsigned leaf, unsigned part)
{
    unsigned r[4] = {0};
    if (!__get_cpuid_count(leaf, part, &r[0], &r[1], &r[2], &r[3]))
        memset(r, 0, sizeof r);
    if (leaf == 1)
        r[1] = 0; /* the number of the core that happens to run this */
    flxi_sha256_add_field(h, r, sizeof r);
}

void flxi_cc_add_processor(flxi_sha256 *h)
{
    unsigned low = 0, high = 0, a, b, c, d;
    add_leaf(h, 0, 0);
    add_leaf(h, 1, 0);
    add_leaf(h, 7, 0);
    add_leaf(h, 7, 1);
    add_leaf(h, 0x14, 0);
    add_leaf(h, 0x19, 0);
    add_leaf(h, 0x80000001, 0);
    add_leaf(h, 0x80000008, 0);
    if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE) /* the registers that the system saves */
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    flxi_sha256_add_field(h, &low, sizeof low);
    flxi_sha256_add_field(h, &high, sizeof high);
}
#else
void flxi_cc_add_processor(flxi_sha256 *h)
{
    const unsigned long features[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    flxi_sha256_add_field(h, features, sizeof features);
}
#endif
