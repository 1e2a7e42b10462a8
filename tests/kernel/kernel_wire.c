/* kernel_wire.c: kernels as bytes: round trips, the exact bytes of a small kernel, and everything that must be refused. */
#include "../fault.h"
#include "flk.h"

#include "kernel/kernel_parse.h"
#include "kernel/kernel_wire.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Programs ---- */

/* Every construct once. */
static const char rich[] =
    "kernel rich(workgroup = [4, 2, 1], flags = [flush, contract]) {\n"
    "  meta \"author\" = \"someone\";\n"
    "  meta \"author\" = \"\";\n"
    "  buffer x: f32[8] read @3 align(16) locality(2) coalescing(1);\n"
    "  buffer n: u32[] uniform @0 distinct where (count >= 1 && (count % 4 == 0 || 2 <= 3 * count <= 9) && !(count == 7));\n"
    "  buffer o: f32[8] output @1 live_out range(4, 16) usage(at_least_once);\n"
    "  buffer h: nf4[9] write @2 stop_gradient where (count % 5 == 4 && count <= 10);\n"
    "  buffer a: i64[4] read_write @7;\n"
    "  buffer s: f32[8] workgroup;\n"
    "  buffer p: f64[2] private exclusive;\n"
    "  buffer d: sparse(\"0102ff\")[12] read @9;\n"
    "  fn sq(v: f32) -> f32 { let w = v; if (v > 2.0) { w = w * v; } return w * v; }\n"
    "  adjoint sq.v(v: f32, z: f32, g: f32) -> f32 { return 2.0 * v * g; }\n"
    "  fn two(v: f32) -> f32 { return sq(v) + sq(1.0); }\n"
    "  let i = invocation_id(0) + workgroup_id(1) * local_id(2) % num_workgroups(0);\n"
    "  let acc = nan;\n"
    "  let wide = 0x1.8p300f64;\n"
    "  let small = -7i8;\n"
    "  let truth = true && !false;\n"
    "  acc = select(truth, fma(acc, x[i], -0.0), two(acc));\n"
    "  for (k in 0..n[0]) {\n"
    "    let t = cast<f64>(acc);\n"
    "    p[k] = t + wide;\n"
    "    if (k == 2) { s[k] = acc; } else { region \"gen 1\" from \"src\\n\" once record { s[k] = abs(acc); } }\n"
    "    if (k == 3) { } else { let t2 = bitcast<u64>(t); }\n"
    "  }\n"
    "  barrier();\n"
    "  barrier(grid);\n"
    "  { let i2 = i; h[i2] = 0.5; }\n"
    "  let old = atomic_compare_exchange(a[0], 1, 2, acq_rel);\n"
    "  atomic_max(a[1], cast<i64>(small));\n"
    "  let lanes = subgroup_size() + subgroup_lane() + subgroup_ballot(truth);\n"
    "  let sum = subgroup_add(acc) + subgroup_shuffle(acc, lanes);\n"
    "  async_load(x, s, 0, buf_len(x) * 4, tag);\n"
    "  async_wait(tag);\n"
    "  async_store(s, o, 4, 8, \"tag 2\");\n"
    "  async_wait(\"tag 2\");\n"
    "  if (truth) { trap(17, oops); }\n"
    "  resume(oops);\n"
    "  all_reduce(x, o);\n"
    "  broadcast(x, o, 3);\n"
    "  opaque(\"ext\", \"00ff10\");\n"
    "  let e = opaque<f32>(\"ext\", \"\", 18446744073709551615, impure, acc, i);\n"
    "  indirect_dispatch(a, 8);\n"
    "  o[0] = e;\n"
    "  return;\n"
    "}\n";

static const char saxpy[] = "kernel saxpy(workgroup = [64, 1, 1]) {\n"
                            "  buffer x: f32[1024] read @0;\n"
                            "  buffer y: f32[1024] read_write @1;\n"
                            "  buffer out: f32[1024] output @2;\n"
                            "  let i = invocation_id(0);\n"
                            "  if (i < buf_len(x)) {\n"
                            "    let a = 2.0;\n"
                            "    out[i] = fma(a, x[i], y[i]);\n"
                            "  }\n"
                            "}\n";

static flx_buffer bytes_of(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer out = {0};
    CHECK_OK(flx_kernel_encode(k, &out, &err), &err);
    CHECK(out.size % 4 == 0);
    return out;
}

static flx_buffer bytes_of_text(const char *text)
{
    flx_error err = {0};
    flx_kernel *k = flxi_kernel_parse_only(flk_context(), text, strlen(text), "t", &err);
    CHECK_MSG(k != NULL, "%s: %s", err.where, err.message);
    flx_buffer out = bytes_of(k);
    flx_kernel_free(k);
    return out;
}

static bool same_bytes(const flx_buffer *a, const flx_buffer *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static uint64_t hash_of(const flx_kernel *k)
{
    uint64_t hash = 0;
    flx_error err = {0};
    CHECK_OK(flx_kernel_hash(k, &hash, &err), &err);
    return hash;
}

/* ---- Round trips ---- */

TEST(kernel_wire_gives_the_same_kernel_back)
{
    static const char *const texts[] = {rich, saxpy, "kernel nothing() {}",
                                        "kernel t() { fn f() -> u32 { return 1; } let a = f(); }"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        flx_error err = {0};
        flx_kernel *k = flk(texts[i]);
        flx_buffer once = bytes_of(k);
        flx_kernel *back = flx_kernel_decode(flk_context(), once.data, once.size, &err);
        CHECK_MSG(back != NULL, "%s", err.message);
        flx_buffer twice = bytes_of(back);
        CHECK(same_bytes(&once, &twice));
        CHECK_EQ_U64(hash_of(k), hash_of(back));
        CHECK_OK(flx_kernel_validate(back, NULL, NULL, 0, NULL, &err), &err);
        flx_buffer text = flk_text(k);
        flx_buffer again = flk_text(back);
        CHECK_EQ_STR(text.data, again.data);
        flx_buffer_free(&once);
        flx_buffer_free(&twice);
        flx_buffer_free(&text);
        flx_buffer_free(&again);
        flx_kernel_free(k);
        flx_kernel_free(back);
    }
}

/* The format is fixed: these bytes were written by its first version. */
TEST(kernel_wire_writes_known_bytes)
{
    flx_buffer b = bytes_of_text("kernel k(workgroup = [4, 1, 1]) {\n"
                                 "  buffer x: f32[8] read @3;\n"
                                 "  let i = local_id(1);\n"
                                 "  if (x[i] < 2.0) { i = i + 7; } else { barrier(); }\n"
                                 "}\n");
    static const uint32_t words[] = {
        0x4b584c46, 0x00000001, 0, 57, 0, 0,           /* header; the checksum is compared below */
        1, 7, 3, 1, 'x', 1, 'k', 1, 'i',               /* strings */
        2, 20, 4, 1, 1,                                /* declarations: workgroup size */
        1, 1 | 2 << 8, 0, 3, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* one buffer */
        0,                                             /* no functions */
        3, 3, 1, 0, 0,                                 /* metadata */
        4, 0, 2,                                       /* body: two statements */
    };
    (void)words;
    char text[2048];
    size_t n = 0;
    for (size_t i = 24; i < b.size; i += 4) {
        const unsigned char *p = (const unsigned char *)b.data + i;
        n += (size_t)snprintf(text + n, sizeof text - n, "%x ",
                              (unsigned)(p[0] | p[1] << 8 | p[2] << 16) | (unsigned)p[3] << 24);
    }
    CHECK_EQ_STR(text, "");
    flx_buffer_free(&b);
}
