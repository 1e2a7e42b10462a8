/* SPDX-License-Identifier: Apache-2.0 */
/* io_npz.c: .npz archives: NumPy's own, hand-made archives with every field wrong once, damage, and writing. */
#include "test.h"

#include "damage.h"
#include "fault.h"
#include "format/crc32.h"
#include "format/endian.h"
#include "format/zip.h"

#include <fluxion/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* numpy.savez(a=float32 [1.5, -2], b=bool [[1, 0], [0, 1]]) */
static const char numpy_stored[] =
    "504b03042d000000000000002100d6434b05ffffffffffffffff05001400612e6e7079010010008800000000000000880000000000000093"
    "4e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065"
    "273a2028322c292c207d20202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020200a0000c03f000000c0504b03042d000000000000002100bbe44cadffffffffffffffff05001400622e6e"
    "70790100100084000000000000008400000000000000934e554d5059010076007b276465736372273a20277c6231272c2027666f72747261"
    "6e5f6f72646572273a2046616c73652c20277368617065273a2028322c2032292c207d202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020200a01000001504b01022d032d00000000000000"
    "2100d6434b058800000088000000050000000000000000000000800100000000612e6e7079504b01022d032d000000000000002100bbe44c"
    "ad84000000840000000500000000000000000000008001bf000000622e6e7079504b05060000000002000200660000007a0100000000";

/* numpy.savez_compressed(a=float32 [1.5, -2], b=int64 0…99 as [4, 25]) */
static const char numpy_deflated[] =
    "504b03042d000000080000002100d6434b05ffffffffffffffff05001400612e6e70790100100088000000000000004b000000000000009b"
    "ec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a"
    "463a9a3a0ab50a14002e068603f60c400200504b03042d000000080000002100a1f716baffffffffffffffff05001400622e6e7079010010"
    "00a003000000000000ff000000000000009dcc6b33026100c5f12d947bc9fdfeb8f56c59b714498458d7b22e45a8ac5ac38c91d935de189f"
    "c2179699bf2fe0bcf9cd392fce773697310a2ee543f99455cba9d8322164f2392e35211f6bf6bb6dbe966b76d5fadd75f3c5b1eabbf364be"
    "59f5ae463511898534f125fe9b5685b8d08d0dd8884de8412f36630bfe1db6613b766027fad08f5d18c06eecc15eecc37e1cc0411cc2611c"
    "c1511cc371143881933885d338834194a86208c3388b1acee13c2ee0222e610497318a315cc1558ce31a26701d93b8819b98c22ddcc61d4c"
    "e32eeea18efb7880877884c7788219cce2291a7886e778819798c33c5ee13516f0066ff10e8b58c232dea3890f58c11f504b01022d032d00"
    "0000080000002100d6434b054b00000088000000050000000000000000000000800100000000612e6e7079504b01022d032d000000080000"
    "002100a1f716baff000000a0030000050000000000000000000000800182000000622e6e7079504b0506000000000200020066000000b801"
    "00000000";

TEST(crc32_has_its_published_value)
{
    flxi_crc32 c;
    flxi_crc32_begin(&c);
    CHECK_EQ_U64(flxi_crc32_end(&c), 0);
    flxi_crc32_add(&c, "123456789", 9);
    CHECK_EQ_U64(flxi_crc32_end(&c), 0xcbf43926);
    flxi_crc32_begin(&c); /* the same in uneven pieces */
    flxi_crc32_add(&c, "1", 1);
    flxi_crc32_add(&c, "", 0);
    flxi_crc32_add(&c, "23456789", 8);
    CHECK_EQ_U64(flxi_crc32_end(&c), 0xcbf43926);
}

TEST(npz_reads_what_numpy_writes)
{
    unsigned char bytes[1024];
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    for (int deflated = 0; deflated < 2; deflated++) {
        size_t n = damage_hex(deflated ? numpy_deflated : numpy_stored, bytes, sizeof bytes);
        flx_tensor *t = flx_npz_decode(ctx, bytes, n, "a", &err);
        CHECK_MSG(t, "%s", err.message);
        CHECK(flx_tensor_type(t)->dtype == FLX_F32 && flx_tensor_get(t, 0) == 1.5 && flx_tensor_get(t, 1) == -2.0);
        flx_tensor_release(t);
        t = flx_npz_decode(ctx, bytes, n, "b", &err);
        CHECK_MSG(t, "%s", err.message);
        CHECK_EQ_I64(flx_tensor_type(t)->dtype, deflated ? FLX_I64 : FLX_BOOL);
        for (int i = 0; deflated && i < 100; i++)
            CHECK(flx_tensor_get(t, i) == i);
        flx_tensor_release(t);
        t = flx_npz_decode(ctx, bytes, n, "b.npy", &err); /* the entry's own name works too */
        CHECK(t);
        flx_tensor_release(t);
        CHECK(!flx_npz_decode(ctx, bytes, n, "c", &err));
        CHECK_EQ_I64(err.code, FLX_E_NAME);
        CHECK_EQ_STR(err.hint, "available: a, b");
    }
    CHECK(!flx_npz_decode(ctx, bytes, 10, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_npz_decode(ctx, NULL, 10, "a", &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_npz_decode(NULL, bytes, 10, "a", NULL));
    CHECK(!flx_npz_read(ctx, NULL, "a", &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_npz_read(ctx, "/no/such.npz", "a", &err) && err.code == FLX_E_IO);
    CHECK_EQ_STR(err.where, "/no/such.npz");
    flx_context_free(ctx);
}

static flx_tensor *decode_a(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    return flx_npz_decode(ctx, bytes, size, "a", err);
}

static flx_tensor *decode_b(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    return flx_npz_decode(ctx, bytes, size, "b", err);
}

TEST(npz_withstands_damage)
{
    unsigned char bytes[1024];
    size_t n = damage_hex(numpy_stored, bytes, sizeof bytes);
    damage_everywhere(decode_a, bytes, n, 1024);
    damage_allocations(decode_a, bytes, n);
    n = damage_hex(numpy_deflated, bytes, sizeof bytes);
    damage_everywhere(decode_b, bytes, n, (size_t)1032 * n);
    damage_allocations(decode_b, bytes, n);
}

TEST(npz_limit_of_the_context_holds)
{
    unsigned char bytes[1024];
    size_t n = damage_hex(numpy_deflated, bytes, sizeof bytes);
    fault f = {0};
    flx_context *ctx =
        flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f, .memory_limit = 900});
    flx_error err;
    f.largest = 0;
    CHECK(!flx_npz_decode(ctx, bytes, n, "b", &err)); /* 928 bytes inflated */
    CHECK_EQ_I64(err.code, FLX_E_SIZE);
    CHECK(f.largest <= 900);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

/* ---- Archives made by hand ---- */

typedef struct {
    unsigned char bytes[4096];
    size_t size;
    size_t central, end; /* where these records begin */
} archive;

static const char content[] = "\x93NUMPY\1\0\x37\0{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}abc";
enum { content_size = 10 + 0x37 + 3 };

typedef struct {
    bool wide;    /* all sizes and offsets in zip64 fields */
    bool foreign; /* another extra field before the zip64 one */
    const char *names[3];
    size_t comment; /* bytes after the end record */
} layout;

static void put_name(archive *z, const char *name)
{
    memcpy(z->bytes + z->size, name, strlen(name));
    z->size += strlen(name);
}

static void put_wide(archive *z, const layout *l, const uint64_t *values, size_t count)
{
    unsigned char *p = z->bytes + z->size;
    if (l->foreign) {
        flxi_put16(p, 0x5455);
        flxi_put16(p + 2, 5);
        p += 9;
    }
    flxi_put16(p, 1);
    flxi_put16(p + 2, (uint32_t)(8 * count));
    for (size_t i = 0; i < count; i++)
        flxi_put64(p + 4 + 8 * i, values[i]);
    z->size = (size_t)(p - z->bytes) + 4 + 8 * count;
}

/* What both headers of an entry say from byte `at` on: checksum, sizes, and lengths of the name and of the extra
   fields, which have that many bytes. */
static void put_entry(unsigned char *at, const layout *l, const char *name, uint32_t wide_bytes)
{
    uint32_t size = l->wide ? UINT32_MAX : content_size;
    flxi_crc32 crc;
    flxi_crc32_begin(&crc);
    flxi_crc32_add(&crc, content, content_size);
    flxi_put32(at, flxi_crc32_end(&crc));
    flxi_put32(at + 4, size);
    flxi_put32(at + 8, size);
    flxi_put16(at + 12, (uint32_t)strlen(name));
    flxi_put16(at + 14, l->wide ? (l->foreign ? 13u : 4u) + wide_bytes : 0);
}

static void put_member(archive *z, const layout *l, const char *name)
{
    unsigned char *p = z->bytes + z->size;
    flxi_put32(p, 0x04034b50);
    put_entry(p + 14, l, name, 16);
    z->size += 30;
    put_name(z, name);
    if (l->wide)
        put_wide(z, l, (const uint64_t[]){content_size, content_size}, 2);
    memcpy(z->bytes + z->size, content, content_size);
    z->size += content_size;
}

static void put_central(archive *z, const layout *l, const char *name, size_t at)
{
    unsigned char *p = z->bytes + z->size;
    flxi_put32(p, 0x02014b50);
    put_entry(p + 16, l, name, 24);
    flxi_put32(p + 42, l->wide ? UINT32_MAX : (uint32_t)at);
    z->size += 46;
    put_name(z, name);
    if (l->wide)
        put_wide(z, l, (const uint64_t[]){content_size, content_size, at}, 3);
}

static void put_wide_end(archive *z, uint32_t count, size_t directory)
{
    unsigned char *p = z->bytes + z->size;
    flxi_put32(p, 0x06064b50);
    flxi_put64(p + 4, 44);
    flxi_put64(p + 24, count);
    flxi_put64(p + 32, count);
    flxi_put64(p + 40, directory);
    flxi_put64(p + 48, z->central);
    flxi_put32(p + 56, 0x07064b50);
    flxi_put64(p + 64, z->size);
    flxi_put32(p + 72, 1);
    z->size += 76;
}

static archive make_archive(layout l)
{
    archive z = {.size = 0};
    size_t at[3];
    uint32_t count = 0;
    for (; count < 3 && l.names[count]; count++) {
        at[count] = z.size;
        put_member(&z, &l, l.names[count]);
    }
    z.central = z.size;
    for (uint32_t i = 0; i < count; i++)
        put_central(&z, &l, l.names[i], at[i]);
    size_t directory = z.size - z.central;
    if (l.wide)
        put_wide_end(&z, count, directory);
    z.end = z.size;
    unsigned char *p = z.bytes + z.size;
    flxi_put32(p, 0x06054b50);
    flxi_put16(p + 8, l.wide ? 0xffff : count);
    flxi_put16(p + 10, l.wide ? 0xffff : count);
    flxi_put32(p + 12, l.wide ? UINT32_MAX : (uint32_t)directory);
    flxi_put32(p + 16, l.wide ? UINT32_MAX : (uint32_t)z.central);
    flxi_put16(p + 20, (uint32_t)l.comment);
    memset(p + 22, 'c', l.comment);
    z.size += 22 + l.comment;
    return z;
}

static int32_t code_of(const archive *z, const char *key, flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    unsigned char *copy = malloc(z->size);
    CHECK(ctx && copy);
    memcpy(copy, z->bytes, z->size);
    flx_tensor *t = flx_npz_decode(ctx, copy, z->size, key, err);
    free(copy);
    int32_t code = t ? FLX_OK : err->code;
    if (t)
        CHECK(memcmp(flx_tensor_const_data(t), "abc", 3) == 0);
    flx_tensor_release(t);
    flx_context_free(ctx);
    return code;
}

TEST(npz_archives_of_every_layout)
{
    flx_error err;
    for (int i = 0; i < 8; i++) {
        archive z = make_archive((layout){
            .wide = i & 1, .foreign = i >> 1 & 1, .names = {"x.npy", "a.npy", "y"}, .comment = i & 4 ? 300 : 0});
        test_fail_context("layout %d", i);
        CHECK_CODE(code_of(&z, "a", &err), FLX_OK, &err);
        CHECK_CODE(code_of(&z, "x", &err), FLX_OK, &err);
        CHECK_CODE(code_of(&z, "y", &err), FLX_OK, &err);
        CHECK_CODE(code_of(&z, "", &err), FLX_E_NAME, &err);
        CHECK_EQ_STR(err.hint, "available: x, a, y");
    }
    archive empty = make_archive((layout){.comment = 0});
    CHECK_CODE(code_of(&empty, "a", &err), FLX_E_NAME, &err);
    CHECK_EQ_STR(err.hint, "it is empty");
}

TEST(npz_wide_archive_withstands_damage)
{
    archive z = make_archive((layout){.wide = true, .foreign = true, .names = {"a.npy", "b.npy"}, .comment = 3});
    damage_everywhere(decode_b, z.bytes, z.size, 1024);
    damage_allocations(decode_b, z.bytes, z.size);
}

TEST(npz_key_with_and_without_suffix)
{
    flx_error err;
    archive z = make_archive((layout){.names = {"a", "a.npy"}});
    CHECK_CODE(code_of(&z, "a", &err), FLX_OK, &err);
    z = make_archive((layout){.names = {"a.npy", "b.npy", "a.npy"}});
    CHECK_CODE(code_of(&z, "a", &err), FLX_E_SYNTAX, &err);
    CHECK_CODE(code_of(&z, "b", &err), FLX_OK, &err);
    z = make_archive((layout){.names = {"a", "a", "a.npy"}});
    CHECK_CODE(code_of(&z, "a", &err), FLX_OK, &err);
}

/* One field of an ordinary archive replaced: `at` counts from the beginning, the directory, or the end record. */
TEST(npz_wrong_fields_are_refused)
{
    static const struct {
        const char *what;
        char from; /* 'l'ocal header, 'c'entral record, 'e'nd record */
        unsigned at, size;
        uint32_t value;
        int32_t code;
    } rows[] = {
        {"no local header", 'l', 0, 4, 0, FLX_E_SYNTAX},
        {"another method in the local header", 'l', 8, 2, 8, FLX_E_SYNTAX},
        {"another name length in the local header", 'l', 26, 2, 6, FLX_E_SYNTAX},
        {"data outside the file", 'l', 28, 2, 60000, FLX_E_SYNTAX},
        {"no directory record", 'c', 0, 4, 0, FLX_E_SYNTAX},
        {"an encrypted entry", 'c', 8, 2, 1, FLX_E_UNSUPPORTED},
        {"an unknown method", 'c', 10, 2, 14, FLX_E_UNSUPPORTED},
        {"a wrong checksum", 'c', 16, 4, 12345, FLX_E_SYNTAX},
        {"a stored size that is too large", 'c', 20, 4, 100000, FLX_E_SYNTAX},
        {"a size that differs", 'c', 24, 4, content_size - 1, FLX_E_SYNTAX},
        {"a huge size without a wide field", 'c', 24, 4, UINT32_MAX, FLX_E_SYNTAX},
        {"a name that runs out of the directory", 'c', 28, 2, 6, FLX_E_SYNTAX},
        {"an extra field that runs out", 'c', 30, 2, 1, FLX_E_SYNTAX},
        {"a comment that runs out", 'c', 32, 2, 1, FLX_E_SYNTAX},
        {"an entry after the directory", 'c', 42, 4, 5000, FLX_E_SYNTAX},
        {"an entry at a wrong offset", 'c', 42, 4, 1, FLX_E_SYNTAX},
        {"no end record", 'e', 0, 4, 0, FLX_E_SYNTAX},
        {"an archive of several parts", 'e', 4, 2, 1, FLX_E_UNSUPPORTED},
        {"entries in another part", 'e', 8, 2, 2, FLX_E_UNSUPPORTED},
        {"too many entries", 'e', 10, 2, 700, FLX_E_UNSUPPORTED},
        {"a directory that is too long", 'e', 12, 4, 5000, FLX_E_SYNTAX},
        {"a directory that is too short", 'e', 12, 4, 50, FLX_E_SYNTAX},
        {"a directory outside the file", 'e', 16, 4, 5000, FLX_E_SYNTAX},
        {"a directory at a wrong offset", 'e', 16, 4, 3, FLX_E_SYNTAX},
        {"a wide directory without its record", 'e', 16, 4, UINT32_MAX, FLX_E_SYNTAX},
        {"a comment that is longer", 'e', 20, 2, 1, FLX_E_SYNTAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        archive z = make_archive((layout){.names = {"a.npy"}});
        size_t base = rows[i].from == 'l' ? 0 : rows[i].from == 'c' ? z.central : z.end;
        unsigned char *p = z.bytes + base + rows[i].at;
        if (rows[i].size == 2)
            flxi_put16(p, rows[i].value);
        else
            flxi_put32(p, rows[i].value);
        test_fail_context("%s", rows[i].what);
        CHECK_CODE(code_of(&z, "a", &err), rows[i].code, &err);
    }
}

TEST(npz_entry_must_not_reach_into_the_directory)
{
    flx_error err = {0};
    archive z = make_archive((layout){.names = {"a.npy"}});
    flxi_put32(z.bytes + z.central + 20, (uint32_t)z.central);
    flxi_put32(z.bytes + z.central + 24, (uint32_t)z.central);
    CHECK_CODE(code_of(&z, "a", &err), FLX_E_SYNTAX, &err);
    CHECK_MSG(strstr(err.message, "outside"), "%s", err.message);
}

TEST(npz_wrong_wide_fields_are_refused)
{
    static const struct {
        const char *what;
        unsigned at; /* before the end record */
        unsigned size;
        uint64_t value;
        int32_t code;
    } rows[] = {
        {"no wide end record", 76, 4, 0, FLX_E_SYNTAX},
        {"a wide end of several parts", 60, 4, 1, FLX_E_UNSUPPORTED},
        {"entries in other parts", 52, 8, 9, FLX_E_UNSUPPORTED},
        {"too long a directory", 36, 8, UINT64_MAX, FLX_E_SYNTAX},
        {"a directory far outside", 28, 8, UINT64_MAX - 5, FLX_E_SYNTAX},
        {"no locator", 20, 4, 0, FLX_E_SYNTAX},
        {"a locator of several parts", 16, 4, 1, FLX_E_UNSUPPORTED},
        {"a wide end far outside", 12, 8, UINT64_MAX, FLX_E_SYNTAX},
        {"a wide end too near", 12, 8, 600, FLX_E_SYNTAX},
        {"many parts", 4, 4, 2, FLX_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        archive z = make_archive((layout){.wide = true, .names = {"a.npy"}});
        unsigned char *p = z.bytes + z.end - rows[i].at;
        if (rows[i].size == 4)
            flxi_put32(p, (uint32_t)rows[i].value);
        else
            flxi_put64(p, rows[i].value);
        test_fail_context("%s", rows[i].what);
        CHECK_CODE(code_of(&z, "a", &err), rows[i].code, &err);
    }
    flx_error err = {0};
    archive z = make_archive((layout){.wide = true, .names = {"a.npy"}});
    flxi_put16(z.bytes + z.central + 46 + 5 + 2, 16); /* the field is too short for three values */
    CHECK_CODE(code_of(&z, "a", &err), FLX_E_SYNTAX, &err);
}

TEST(npz_impossible_inflation_allocates_nothing)
{
    unsigned char bytes[1024];
    size_t n = damage_hex(numpy_deflated, bytes, sizeof bytes);
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_error err;
    flxi_put32(bytes + 0x1b8 + 24, 0x7fffffff); /* entry a states 2 GiB from 75 bytes */
    f.largest = 0;
    CHECK(!flx_npz_decode(ctx, bytes, n, "a", &err));
    CHECK_EQ_I64(err.code, FLX_E_SYNTAX);
    CHECK(f.largest < 1024);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

/* ---- Writing ---- */

static const char *temp_path(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

/* Three tensors, which a context that counts its allocations owns, and the archive that they are written to. */
typedef struct {
    fault f;
    flx_context *ctx;
    const flx_tensor *tensors[3];
    const char *path;
} three;

static const double three_values[4] = {1, 2, 3, 4};
static const char *const three_keys[3] = {"w", "layer/0.\xc3\xa9", "empty"};

static void three_begin(three *c)
{
    static const uint16_t half = 0x3fc0; /* 1.5 */
    flx_error err = {0};
    flx_type types[3] = {flx_type_make(FLX_F64, 2, (const int64_t[]){2, 2}), flx_type_make(FLX_BF16, 0, NULL),
                         flx_type_make(FLX_I16, 1, (const int64_t[]){0})};
    const void *data[3] = {three_values, &half, NULL};
    *c = (three){.path = temp_path("three.npz")};
    c->ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &c->f});
    for (int i = 0; i < 3; i++) {
        c->tensors[i] = flx_tensor_new(c->ctx, &types[i], data[i], &err);
        CHECK_MADE(c->tensors[i], &err);
    }
    CHECK_OK((int32_t)flx_npz_write(c->path, three_keys, c->tensors, 3, &err), &err);
}

static void three_end(three *c)
{
    for (int i = 0; i < 3; i++)
        flx_tensor_release((flx_tensor *)c->tensors[i]);
    flx_context_free(c->ctx);
    CHECK(fault_is_clean(&c->f));
}

static flx_tensor *three_read(const three *c, int i)
{
    flx_error err = {0};
    flx_tensor *t = flx_npz_read(c->ctx, c->path, three_keys[i], &err);
    CHECK_MADE(t, &err);
    return t;
}

TEST(npz_write_and_read_give_the_same_tensors)
{
    three c;
    flx_error err = {0};
    three_begin(&c);
    flx_tensor *t = three_read(&c, 0);
    CHECK(flx_tensor_type(t)->dims[1] == 2 && memcmp(flx_tensor_const_data(t), three_values, sizeof three_values) == 0);
    flx_tensor_release(t);
    t = three_read(&c, 1);
    CHECK(flx_tensor_type(t)->dtype == FLX_F32 && flx_tensor_get(t, 0) == 1.5);
    flx_tensor_release(t);
    t = three_read(&c, 2);
    CHECK(flx_tensor_count(t) == 0 && flx_tensor_type(t)->dtype == FLX_I16);
    flx_tensor_release(t);
    CHECK(!flx_npz_read(c.ctx, c.path, "v", &err));
    CHECK_EQ_I64(err.code, FLX_E_NAME);
    CHECK_EQ_STR(err.where, c.path);
    CHECK_OK((int32_t)flx_npz_write(c.path, NULL, NULL, 0, &err), &err);
    CHECK(!flx_npz_read(c.ctx, c.path, "w", &err) && err.code == FLX_E_NAME);
    three_end(&c);
}

TEST(npz_write_refuses_wrong_keys_and_leaves_the_old_file)
{
    three c;
    flx_error err = {0};
    three_begin(&c);
    CHECK_EQ_I64(flx_npz_write(c.path, (const char *const[]){"a", "b", "a"}, c.tensors, 3, &err), FLX_E_DUP_NAME);
    CHECK_EQ_I64(flx_npz_write(c.path, (const char *const[]){"a", ""}, c.tensors, 2, &err), FLX_E_NAME);
    CHECK_EQ_I64(flx_npz_write(c.path, (const char *const[]){"a", NULL}, c.tensors, 2, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_npz_write(NULL, three_keys, c.tensors, 3, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_npz_write(test_missing_path("x.npz"), three_keys, c.tensors, 3, &err), FLX_E_IO);
    flx_tensor_release(three_read(&c, 0));
    three_end(&c);
}

TEST(npz_write_survives_failed_allocations)
{
    three c;
    flx_error err = {0};
    three_begin(&c);
    size_t before = c.f.calls;
    CHECK_OK((int32_t)flx_npz_write(c.path, three_keys, c.tensors, 3, &err), &err);
    size_t calls = c.f.calls - before;
    CHECK(calls > 3);
    for (size_t n = 1; n <= calls; n++) {
        size_t live = c.f.live_blocks;
        c.f.fail_at = c.f.calls + n;
        test_fail_context("allocation %zu of %zu fails", n, calls);
        CHECK_CODE((int32_t)flx_npz_write(c.path, three_keys, c.tensors, 3, &err), FLX_E_OOM, &err);
        CHECK_EQ_U64(c.f.live_blocks, live);
    }
    c.f.fail_at = 0;
    flx_tensor_release(three_read(&c, 0));
    three_end(&c);
}

/* Names of the entries of an archive on disk; every content must be `text`. */
static uint64_t check_archive(const char *path, const char *text)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_source s;
    flxi_zip z;
    flx_error err;
    CHECK_OK((int32_t)flxi_source_open(&s, &mem, path, 0, &err), &err);
    CHECK_OK((int32_t)flxi_zip_open(&z, &mem, &s, &err), &err);
    uint64_t n = 0;
    size_t at = 0;
    flxi_zip_entry e;
    for (bool more = true; more; n += more) {
        CHECK_OK((int32_t)flxi_zip_next(&z, &at, &e, &more, &err), &err);
        if (!more || n % 1000 > 1)
            continue;
        flxi_source inside;
        void *block;
        char out[16] = "";
        CHECK_OK((int32_t)flxi_zip_content(&z, &e, 0, &inside, &block, &err), &err);
        CHECK(!block && inside.size == strlen(text));
        CHECK_OK((int32_t)flxi_source_read(&inside, 0, out, strlen(text), &err), &err);
        CHECK_EQ_STR(out, text);
    }
    CHECK_EQ_U64(n, z.count);
    flxi_zip_close(&z);
    flxi_source_close(&s);
    return n;
}

TEST(zip_writes_more_entries_than_16_bits_count)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    static flxi_zip_writer w;
    flx_error err;
    flxi_piece piece = {"x", 1};
    CHECK_OK((int32_t)flxi_zip_write_begin(&w, &mem, temp_path("many.zip"), &err), &err);
    for (int i = 0; i < 65535; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        CHECK_OK((int32_t)flxi_zip_write_entry(&w, name, &piece, 1, &err), &err);
    }
    CHECK_OK((int32_t)flxi_zip_write_end(&w, &err), &err);
    CHECK_EQ_U64(check_archive(temp_path("many.zip"), "x"), 65535);
}

/* The gap is a hole in the file, which takes no room on disk. */
TEST(zip_writes_beyond_4_gib)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    static flxi_zip_writer w;
    flx_error err;
    flxi_piece pieces[2] = {{"con", 3}, {"tent", 4}};
    CHECK_OK((int32_t)flxi_zip_write_begin(&w, &mem, temp_path("far.zip"), &err), &err);
    CHECK_OK((int32_t)flxi_zip_write_entry(&w, "near", pieces, 2, &err), &err);
    off_t far = lseek(w.save.fd, (off_t)5 << 30, SEEK_CUR);
    CHECK(far > 0);
    w.save.written = (uint64_t)far;
    CHECK_OK((int32_t)flxi_zip_write_entry(&w, "far", pieces, 2, &err), &err);
    CHECK_OK((int32_t)flxi_zip_write_end(&w, &err), &err);
    CHECK_EQ_U64(check_archive(temp_path("far.zip"), "content"), 2);
    CHECK(remove(temp_path("far.zip")) == 0);
}

TEST(zip_refuses_names_that_are_too_long)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    static flxi_zip_writer w;
    static char name[65537];
    flx_error err;
    memset(name, 'n', sizeof name - 1);
    CHECK_OK((int32_t)flxi_zip_write_begin(&w, &mem, temp_path("long.zip"), &err), &err);
    CHECK_CODE((int32_t)flxi_zip_write_entry(&w, name, NULL, 0, &err), FLX_E_SIZE, &err);
    name[65535] = 0;
    CHECK_OK((int32_t)flxi_zip_write_entry(&w, name, NULL, 0, &err), &err);
    flxi_zip_write_abandon(&w);
    FILE *in = fopen(temp_path("long.zip"), "rb");
    CHECK(!in);
}

static flx_tensor *read_from_disk(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    FILE *out = fopen(temp_path("disk.npz"), "wb");
    CHECK(out);
    CHECK(fwrite(bytes, 1, size, out) == size);
    fclose(out);
    return flx_npz_read(ctx, temp_path("disk.npz"), "a", err);
}

TEST(npz_file_reading_withstands_damage)
{
    unsigned char bytes[1024];
    size_t n = damage_hex(numpy_deflated, bytes, sizeof bytes);
    damage_everywhere(read_from_disk, bytes, n, (size_t)1032 * n);
    damage_allocations(read_from_disk, bytes, n);
}
