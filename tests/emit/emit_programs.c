/* SPDX-License-Identifier: Apache-2.0 */
/* emit_programs.c: see emit_programs.h. */
#include "emit/emit_programs.h"

const emit_program emit_programs[] = {
    /* ---- Control flow ---- */
    {"kernel nested(workgroup = [4, 3, 2]) { buffer x: f32[] read; buffer out: f32[] read_write;"
     " let i = invocation_id(0) + 8 * (invocation_id(1) + 3 * invocation_id(2)); let a = x[i]; let n = 0u32;"
     " for (p in 0..local_id(1) + 2) { for (q in p..5) { if (a > 0.5) { a = a * 0.75; n = n + q; }"
     "   else { if (n % 3 == 1) { a = a + 1.5; } n = n + 1; let fresh = a; fresh = fresh + 1.0; out[i] = fresh; } } }"
     " out[i + 48] = a; out[i + 96] = cast<f32>(n); }",
     0,
     {2, 1, 1},
     160,
     0},
    {"kernel early(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; let i = invocation_id(0);"
     " if (i >= buf_len(x)) { return; } let y = x[i]; for (j in 0..9) { if (y > 100.0) { out[i] = y; return; }"
     " y = y * 2.0 + 1.0; } out[i] = -y; }",
     0,
     {9, 1, 1},
     67,
     0},
    {"kernel scopes { buffer out: u32[16] output; let a = 1u32; { let b = a + 1; out[0] = b; a = b; }"
     " { let b = a * 10; out[1] = b; } region part from \"source\" { let c = a; c = c + 5; out[2] = c; a = c; }"
     " if (a > 3) { let b = 7u32; out[3] = b; } else { let b = 8u32; out[3] = b; } out[4] = a;"
     " for (i in 4294967293..4294967295) { out[5] = out[5] + 1; } for (i in 3..3) { out[6] = 1; } for (i in 4..3) { "
     "out[7] = 1; }"
     " let n = 3u32; for (i in 0..n) { n = 100; out[8] = out[8] + 1; } if (0u32) { out[9] = 1; } if (n) { out[10] = n; "
     "} }",
     0,
     {1, 1, 1},
     0,
     0},
    {"kernel deep { buffer x: f32[] read; buffer out: f32[] output; let i = workgroup_id(0);"
     " out[i] = ((((((((((((((((x[i] + 1.0) * 2.0) - 3.0) / 4.0) + x[i]) * 0.5) - x[i + 1]) + 2.0) * 1.5) - 1.0) + "
     "x[i]) * 2.0)"
     " - 3.0) / 1.25) + x[i]) * 0.5) - x[i + 1]; }",
     0,
     {20, 1, 1},
     20,
     0},
    {"kernel grid(workgroup = [3, 2, 1]) { buffer out: u32[] read_write; let l = local_id(0) + 3 * local_id(1);"
     " let w = workgroup_id(0) + num_workgroups(0) * (workgroup_id(1) + num_workgroups(1) * workgroup_id(2));"
     " let at = 6 * (6 * w + l); out[at] = invocation_id(0); out[at + 1] = invocation_id(1); out[at + 2] = "
     "invocation_id(2);"
     " out[at + 3] = num_workgroups(1); out[at + 4] = buf_len(out); out[at + 5] = local_id(2) + w; }",
     0,
     {2, 3, 2},
     500,
     0},
    {"kernel functions(workgroup = [4, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;"
     " fn twice(a: f32) -> f32 { return a + a; }"
     " fn steps(a: f32, n: u32) -> f32 { let s = a; for (i in 0..n) { if (s > 2.0) { s = s - 1.5; } else { s = "
     "twice(s) + 0.25; } }"
     "   return s; }"
     " fn three() -> u32 { return 3u32; }"
     " let i = invocation_id(0); out[i] = steps(twice(x[i]), three() + i % 3) - steps(x[i], 2); }",
     0,
     {16, 1, 1},
     0,
     0},

    /* ---- Memory ---- */
    {"kernel bounds(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer k: u32[] read; buffer f: f32[7] read;"
     " buffer out: f32[] read_write; buffer own: f32[5] private; let i = invocation_id(0); let j = k[i];"
     " own[j % 7] = x[j]; out[j] = f[j % 9] + own[i % 5] + f[i % 7] + f[i & 3] + f[min(i, 6)]; if (i < 7) { out[i] = "
     "f[i]; }"
     " if (j < buf_len(x) && i < buf_len(out)) { out[i + 64] = x[j] + f[select(j > 3, 2, 9)]; } out[4294967295] = 1.0; "
     "}",
     PROGRAM_ORDER,
     {4, 1, 1},
     100,
     120},
    {"kernel guards(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: f32[] read_write;"
     " let i = invocation_id(0); let n = buf_len(y); if (!(i < n) || i >= buf_len(out)) { return; } out[i] = y[i] + "
     "x[i];"
     " for (j in 0..buf_len(x)) { if (j == i) { out[i] = out[i] + x[j]; } } let k = i; k = k + 1; if (k < n) { k = k + "
     "7; out[i] = out[i] + y[k]; } }",
     0,
     {10, 1, 1},
     71,
     0},
    {"kernel private_arrays(workgroup = [4, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer p: f32[6] "
     "private;"
     " buffer q: bf16[3] private; buffer c: u4[5] private; let i = invocation_id(0); p[i % 6] = x[i]; p[(i + 1) % 6] = "
     "p[i % 6] * 2.0;"
     " q[1] = cast<bf16>(x[i]); c[i % 5] = 7; c[(i + 1) % 5] = 21; let s = 0.0; for (j in 0..8) { s = s + p[j]; }"
     " for (j in 0..5) { s = s + cast<f32>(c[j]); } out[i] = s + cast<f32>(q[i % 4]); }",
     0,
     {16, 1, 1},
     0,
     0},
    {"kernel large_private(workgroup = [4, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer p: "
     "f32[6000] private;"
     " let i = invocation_id(0); out[i] = p[i] + p[5999 - i]; p[i] = x[i]; p[5999 - i] = 2.0; out[i] = out[i] + p[i] + "
     "p[5999 - i]; }",
     0,
     {16, 1, 1},
     0,
     0},
    {"kernel packed(workgroup = [8, 1, 1]) { buffer a: i4[] read; buffer b: u4[] read_write; buffer c: fp4[] "
     "read_write;"
     " buffer d: nf4[] read_write; buffer e: f8e4m3[] read_write; buffer f: f8e5m2[] read_write; buffer g: bool[] "
     "read_write;"
     " buffer h: i4[] output; let i = invocation_id(0); h[i] = a[i] * 3i32; b[i] = b[i] + 1; c[i] = c[i] * 1.5; d[i] = "
     "d[i] * -0.9;"
     " e[i] = e[i] * 0.7; f[i] = f[i] * 1.3; g[i] = !g[i]; }",
     0,
     {9, 1, 1},
     70,
     0},
    {"kernel many_threads(workgroup = [64, 1, 1]) { buffer b: u4[] read_write; buffer x: f32[] read; buffer out: f32[] "
     "output;"
     " let i = invocation_id(0); b[i] = b[i] + 3; if (i < buf_len(out)) { out[i] = x[i] * x[buf_len(x) - 1 - i]; } }",
     0,
     {512, 1, 1},
     30001,
     0},
    {"kernel async(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer out: f32[] read_write; buffer sh: f32[8] "
     "workgroup;"
     " let l = local_id(0); let g = workgroup_id(0); if (l == 0) { async_load(x, sh, g * 32, 32 + l, \"in\"); }"
     " sh[l] = 1.0; barrier(); if (l == 0) { async_wait(\"in\"); } barrier(); sh[l] = sh[l] * 2.0; barrier();"
     " if (l == 0) { async_store(sh, out, g * 32 + 4, 4000, \"out\"); async_wait(\"out\"); } }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel async_alone(workgroup = [4, 1, 1]) { buffer x: u8[] read; buffer out: u16[] read_write; let i = "
     "invocation_id(0);"
     " if (i % 3 != 1) { async_load(x, out, i * 3, i, \"a\"); } if (i == 5) { out[1] = 7u16; } async_wait(\"a\"); "
     "out[i + 10] = cast<u16>(i); }",
     PROGRAM_ORDER,
     {5, 1, 1},
     0,
     0},
    {"kernel collective { buffer x: f32[] read; buffer out: f32[] read_write; buffer y: f32[] read_write;"
     " all_reduce(x, out); broadcast(x, y, 0); }",
     PROGRAM_SERIAL,
     {1, 1, 1},
     0,
     0},
    {"kernel stage { buffer g: u32[8] read_write; if (workgroup_id(0) == 2) { g[2] = 5; g[3] = 6; g[4] = 7; "
     "indirect_dispatch(g, 8); } }",
     PROGRAM_SERIAL,
     {4, 1, 1},
     0,
     0},

    /* ---- Barriers ---- */
    {"kernel mirror(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer sh: f32[8] "
     "workgroup;"
     " let l = local_id(0); let i = invocation_id(0); let own = x[i] * 2.0; sh[l] = own; barrier(); out[i] = sh[7 - l] "
     "* own; }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel scan(workgroup = [16, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer sh: f32[16] "
     "workgroup;"
     " let l = local_id(0); sh[l] = x[invocation_id(0)]; barrier(); for (s in 0..4) { let d = 1u32 << s; let t = 0.0;"
     " if (l >= d) { t = sh[l - d]; } barrier(); sh[l] = sh[l] + t; barrier(); } out[invocation_id(0)] = sh[l]; }",
     0,
     {4, 1, 1},
     0,
     0},
    {"kernel tiles(workgroup = [4, 4, 1]) { buffer a: f32[64] read; buffer b: f32[64] read; buffer c: f32[64] output;"
     " buffer ta: f32[16] workgroup; buffer tb: f32[16] workgroup; let x = local_id(0); let y = local_id(1);"
     " let row = invocation_id(1); let col = invocation_id(0); let sum = 0.0; for (t in 0..2) {"
     " ta[y * 4 + x] = a[row * 8 + t * 4 + x]; tb[y * 4 + x] = b[(t * 4 + y) * 8 + col]; barrier();"
     " for (k in 0..4) { sum = sum + ta[y * 4 + k] * tb[k * 4 + x]; } barrier(); } c[row * 8 + col] = sum; }",
     0,
     {2, 2, 1},
     0,
     0},
    {"kernel uniform_flow(workgroup = [8, 1, 1]) { buffer u: u32[4] uniform; buffer x: f32[] read; buffer out: f32[] "
     "output;"
     " buffer sh: f32[8] workgroup; let l = local_id(0); let w = workgroup_id(0); let i = invocation_id(0); let n = "
     "u[0] % 5 + w;"
     " let acc = x[i]; if (w % 3 == 2) { out[i] = -1.0; return; } for (r in w..n) { sh[l] = acc; barrier(); if (r % 2 "
     "== 0) {"
     " acc = acc + sh[(l + 1) % 8]; barrier(); sh[(l + 3) % 8] = acc * 0.5; } else { let q = acc; barrier(); acc = q * "
     "0.25 + sh[7 - l]; }"
     " barrier(); acc = acc + sh[l]; barrier(); if (r > 6 && w > 1) { out[i] = acc; return; } } out[i] = acc + 1.0; }",
     0,
     {9, 1, 1},
     72,
     0},
    {"kernel private_across(workgroup = [4, 2, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer sh: f32[8] "
     "workgroup;"
     " buffer p: f32[3] private; buffer c: nf4[3] private; let l = local_id(0) + 4 * local_id(1); p[l % 3] = x[l]; "
     "c[1] = 0.5; sh[l] = p[l % 3];"
     " barrier(); for (k in 0..3) { p[k] = p[k] + sh[(l + k) % 8]; c[k] = p[k]; barrier(); sh[l] = p[k]; barrier(); }"
     " out[l + 8 * workgroup_id(0)] = p[0] + p[1] * p[2] + c[1]; }",
     0,
     {5, 1, 1},
     0,
     0},
    {"kernel leaves_late(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer sh: f32[8] "
     "workgroup;"
     " let l = local_id(0); sh[l] = x[invocation_id(0)]; barrier(); let v = sh[7 - l]; if (v > 0.0) { return; } "
     "out[invocation_id(0)] = v; }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel shared_atomics(workgroup = [16, 1, 1]) { buffer k: u32[] read; buffer out: u32[] output; buffer bins: "
     "u32[8] workgroup;"
     " buffer top: i64[1] workgroup; let l = local_id(0); atomic_add(bins[k[invocation_id(0)] % 8], 1);"
     " atomic_max(top[0], cast<i64>(k[invocation_id(0)])); barrier(); if (l < 8) { out[workgroup_id(0) * 8 + l] = "
     "bins[l] + cast<u32>(top[0]); } }",
     0,
     {4, 1, 1},
     0,
     1000},
    {"kernel two_barriers_in_branches(workgroup = [4, 1, 1]) { buffer out: u32[] output; buffer sh: u32[4] workgroup;"
     " let l = local_id(0); let w = workgroup_id(0); let t = l; if (w > 1) { sh[l] = l * 3; barrier(); t = sh[3 - l]; "
     "if (w > 2) { barrier();"
     " sh[l] = t + w; barrier(); t = t + sh[(l + 1) % 4]; } } else { sh[l] = w; barrier(); t = t + sh[0]; } barrier(); "
     "out[invocation_id(0)] = t; }",
     0,
     {5, 1, 1},
     0,
     0},

    /* ---- Subgroups ---- */
    {"kernel lanes(workgroup = [20, 1, 1]) { buffer x: f32[] read; buffer k: i32[] read; buffer out: f32[] output; "
     "buffer oi: u32[] output;"
     " let i = invocation_id(0); let s = subgroup_add(x[i]) + x[i]; let t = subgroup_shuffle(s, subgroup_lane() + 1) + "
     "subgroup_shuffle(x[i], 2);"
     " out[i] = t * 0.5; oi[i] = subgroup_ballot(x[i] > 0.0) + subgroup_lane() * 64 + subgroup_size() + "
     "cast<u32>(subgroup_add(k[i])); }",
     0,
     {3, 1, 1},
     0,
     0},
    {"kernel lanes_of_types(workgroup = [32, 1, 1]) { buffer h: f16[] read; buffer b: bf16[] read; buffer q: u8[] "
     "read; buffer w: i64[] read;"
     " buffer oh: f16[] output; buffer ob: bf16[] output; buffer oq: u8[] output; buffer ow: i64[] output; let i = "
     "invocation_id(0);"
     " oh[i] = subgroup_add(h[i]); ob[i] = subgroup_shuffle(b[i], i / 2); oq[i] = subgroup_add(q[i]); ow[i] = "
     "subgroup_add(w[i]); }",
     0,
     {2, 1, 1},
     0,
     0},
    {"kernel lanes_in_loops(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer sh: f32[8] "
     "workgroup; let i = invocation_id(0);"
     " let a = x[i]; for (r in 0..3) { a = a * 0.5 + subgroup_add(a); sh[local_id(0)] = a; barrier();"
     " if (workgroup_id(0) > 0) { a = a + subgroup_shuffle(sh[7 - local_id(0)], r); } barrier(); } out[i] = a; }",
     0,
     {3, 1, 1},
     0,
     0},
    {"kernel lanes_diverge(workgroup = [24, 1, 1]) { buffer x: u32[] read; buffer out: u32[] output; let i = "
     "invocation_id(0); let v = x[i];"
     " let a = 1u32; if (v % 3 == 0) { a = subgroup_add(v); } else { a = subgroup_shuffle(v, subgroup_lane() / 2) + a; "
     "if (v % 2 == 1) {"
     " a = a + subgroup_ballot(v > 10); } a = a + 5; } for (r in 0..v % 5) { a = a + subgroup_add(r + 1) * 3; if (r == "
     "2) { a = a + subgroup_ballot(true); } }"
     " out[i] = a; }",
     PROGRAM_DIVERGENT,
     {3, 1, 1},
     0,
     100},
    {"kernel lanes_leave(workgroup = [16, 1, 1]) { buffer x: u32[] read; buffer out: u32[] output; let i = "
     "invocation_id(0); let v = x[i];"
     " out[i] = subgroup_add(v); if (v % 4 == 1) { return; } out[i] = out[i] + subgroup_ballot(true); for (r in 0..4) "
     "{ if (v % 5 == r) { return; }"
     " out[i] = out[i] * 7 + subgroup_add(r); } }",
     PROGRAM_DIVERGENT,
     {4, 1, 1},
     0,
     100},
    {"kernel lane_conditions(workgroup = [8, 1, 1]) { buffer x: u32[] read; buffer out: u32[] output; let i = "
     "invocation_id(0);"
     " if (subgroup_ballot(x[i] > 40) > 3) { out[i] = subgroup_lane(); } else { out[i] = 100; } for (r in "
     "0..subgroup_add(x[i] % 3)) { out[i] = out[i] + r; }"
     " out[subgroup_add(x[i]) % 64] = 9; }",
     PROGRAM_DIVERGENT | PROGRAM_ORDER,
     {1, 1, 1},
     0,
     100},

    /* ---- Atomics ---- */
    {"kernel atomics_u32(workgroup = [16, 1, 1]) { buffer k: u32[] read; buffer a: u32[16] read_write; let i = "
     "invocation_id(0); let v = k[i];"
     " atomic_add(a[0], v); atomic_sub(a[1], v); atomic_min(a[2], v); atomic_max(a[3], v, acq_rel); atomic_and(a[4], v "
     "| 12); atomic_or(a[5], v);"
     " atomic_xor(a[6], v); atomic_add(a[8 + v % 32], 3, seq_cst); atomic_add(a[99 + i], 1); }",
     0,
     {4, 1, 1},
     0,
     0},
    {"kernel atomics_i32(workgroup = [16, 1, 1]) { buffer k: i32[] read; buffer a: i32[16] read_write; let v = "
     "k[invocation_id(0)];"
     " atomic_add(a[0], v); atomic_sub(a[1], v); atomic_min(a[2], v); atomic_max(a[3], v); atomic_and(a[4], v); "
     "atomic_or(a[5], v); atomic_xor(a[6], v); }",
     0,
     {4, 1, 1},
     0,
     0},
    {"kernel atomics_64(workgroup = [16, 1, 1]) { buffer k: u64[] read; buffer s: i64[] read; buffer a: u64[8] "
     "read_write; buffer b: i64[8] read_write;"
     " let i = invocation_id(0); atomic_add(a[0], k[i]); atomic_sub(a[1], k[i]); atomic_min(a[2], k[i]); "
     "atomic_max(a[3], k[i]); atomic_xor(a[4], k[i]);"
     " atomic_and(a[5], k[i]); atomic_or(a[6], k[i]); atomic_min(b[0], s[i]); atomic_max(b[1], s[i]); atomic_add(b[2], "
     "s[i]); atomic_sub(b[3], s[i]); }",
     0,
     {4, 1, 1},
     0,
     0},
    {"kernel atomics_float(workgroup = [16, 1, 1]) { buffer x: f32[] read; buffer a: f32[8] read_write; let v = "
     "x[invocation_id(0)];"
     " atomic_min(a[2], v); atomic_max(a[3], v); atomic_add(a[4], 1.0); atomic_add(a[77 + cast<u32>(v > 0.0)], v); }",
     0,
     {4, 1, 1},
     0,
     0},
    {"kernel atomics_ordered(workgroup = [16, 1, 1]) { buffer x: f32[] read; buffer k: u32[] read; buffer a: f32[8] "
     "read_write; buffer d: f64[4] read_write;"
     " buffer n: u32[8] read_write; buffer out: u32[] output; let i = invocation_id(0); atomic_add(a[i % 3], x[i]); "
     "atomic_add(d[0], cast<f64>(x[i]));"
     " let slot = atomic_add(n[0], 1); out[slot] = i; let old = atomic_exchange(n[1], k[i]); out[i + 64] = old;"
     " let seen = atomic_compare_exchange(n[2], k[i] % 3, k[i]); out[i + 128] = seen; a[4] = atomic_exchange(a[5], "
     "x[i]); }",
     PROGRAM_ORDER | PROGRAM_F64,
     {8, 1, 1},
     256,
     100},
    {"kernel atomics_in_order { buffer n: u32[4] read_write; buffer out: u32[8] read_write;"
     " out[atomic_add(n[0], 1) % 8] = n[0] + atomic_add(n[0], 10) * n[0] + atomic_xor(n[1], n[0]); let t = n[1] + "
     "atomic_exchange(n[1], 7) * n[1];"
     " out[7] = t; atomic_add(n[atomic_add(n[2], 1) % 4], atomic_sub(n[3], 2)); if (atomic_add(n[3], 1) > 3) { out[6] "
     "= n[3]; } }",
     PROGRAM_ORDER,
     {1, 1, 1},
     0,
     50},
    {"kernel atomics_and_lanes(workgroup = [8, 1, 1]) { buffer n: u32[4] read_write; buffer out: u32[] output; let i = "
     "invocation_id(0);"
     " out[i] = atomic_add(n[0], 1) * 1000 + subgroup_add(atomic_add(n[0], 1)) + atomic_add(n[0], 2); }",
     PROGRAM_ORDER | PROGRAM_NEEDS_32,
     {1, 1, 1},
     0,
     50},

    /* ---- Traps ---- */
    {"kernel trapped(workgroup = [4, 1, 1]) { buffer x: u32[] read; buffer out: u32[] output; let i = "
     "invocation_id(0); out[i] = i;"
     " if (i == 1000) { trap(1, \"never\"); } if (i > 20 && i % 7 == 3) { trap(i * 10, \"here\"); } out[i] = 2; }",
     PROGRAM_TRAPS | PROGRAM_ORDER,
     {64, 1, 1},
     0,
     0},
    {"kernel trapped_late(workgroup = [64, 1, 1]) { buffer out: u32[] read_write; buffer sh: u32[64] workgroup; let i "
     "= invocation_id(0);"
     " sh[local_id(0)] = i; barrier(); if (sh[63 - local_id(0)] == 10005) { trap(sh[0], \"late\"); } barrier(); out[i] "
     "= sh[0]; }",
     PROGRAM_TRAPS | PROGRAM_ORDER,
     {200, 1, 1},
     0,
     0},

    /* ---- Racy reads that choose addresses, and names that are code ---- */
    {"kernel steered(workgroup = [8, 1, 1]) { buffer k: u32[] read_write; buffer x: f32[] read; buffer out: f32[] "
     "output; let i = invocation_id(0);"
     " let at = k[i]; let far = at * 2 + k[at % 64]; out[i] = x[at] + x[far] + x[k[i]]; k[i] = at + 1; if (k[i] < 40) "
     "{ out[k[i]] = 1.0; } }",
     PROGRAM_ORDER,
     {8, 1, 1},
     0,
     80},
    {"kernel flushing(workgroup = [8, 1, 1], flags = [flush, contract, reassociate, reciprocal]) { buffer x: u32[] "
     "read; buffer out: f32[] output;"
     " let i = invocation_id(0); out[i] = cast<f32>(x[i] % 100) * 0.5 + 1.0; }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel bits_of_results(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: u32[] "
     "output; let i = invocation_id(0);"
     " let q = x[i] / y[i]; q = q - q; let r = fma(x[i], y[i], q); let s = select(i % 2 == 0, r, x[i]); out[i] = "
     "bitcast<u32>(s) ^ bitcast<u32>(copysign(1.0, q)); }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel bits_of_loops(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: u32[] "
     "output; let i = invocation_id(0); let a = x[i] / y[i]; let b = a;"
     " for (k in 0..3) { let c = b - b; if (k % 2 == 1) { b = -c; } else { b = select(c > 0.0, a, c * y[i]); } }"
     " out[i] = bitcast<u32>(b) ^ bitcast<u32>(copysign(abs(a), b)); }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel bits_of_functions(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: u32[] "
     "output; fn f(a: f32, b: f32) -> f32 { let q = a / b; return q - q; } let i = invocation_id(0);"
     " out[i] = bitcast<u32>(-f(x[i], y[i])); }",
     0,
     {8, 1, 1},
     0,
     0},
    {"kernel bits_in_memory(workgroup = [8, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer t: f32[] "
     "read_write; buffer out: u32[] output; let i = invocation_id(0); let q = x[i] / y[i]; t[i] = q - q;"
     " out[i] = bitcast<u32>(t[i]); }",
     0,
     {8, 1, 1},
     0,
     0},

    /* ---- Stores to every other element ---- */
    {"kernel parts(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: f32[] output;"
     " let i = invocation_id(0); let a = x[i] + y[i]; let b = x[i] - y[i]; out[2 * i] = a; out[2 * i + 1] = b; }",
     0,
     {2, 1, 1},
     251,
     0},
    {"kernel parts_of_words(workgroup = [64, 1, 1]) { buffer x: u32[] read; buffer out: u32[] output;"
     " let i = invocation_id(0); let a = x[i]; out[2 * i + 1] = a; out[2 * i] = a * 3; }",
     0,
     {2, 1, 1},
     251,
     0},
    {"kernel parts_of_doubles(workgroup = [64, 1, 1]) { buffer x: f64[] read; buffer out: f64[] output;"
     " let i = invocation_id(0); let a = x[i]; out[2 * i] = a; out[2 * i + 1] = -a; }",
     PROGRAM_F64,
     {2, 1, 1},
     251,
     0},
    {"kernel parts_that_depend(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer out: f32[] read_write;"
     " let i = invocation_id(0); out[2 * i] = x[i]; out[2 * i + 1] = out[2 * i] + 1.0; out[2 * i] = x[i + 1];"
     " out[2 * i] = x[i + 2]; }",
     0,
     {2, 1, 1},
     251,
     0},
};

const size_t num_emit_programs = sizeof emit_programs / sizeof emit_programs[0];

void emit_program_check(const emit_program *p, const flx_kernel *k, const char *device, uint32_t max_ulp)
{
    static const uint32_t sizes[] = {32, 8, 5, 1};
    bool has_lanes = strstr(p->text, "subgroup_") != NULL && strcmp(device, "cuda") != 0; /* a card has 32 */
    device_pair pair = {.device = device,
                        .open_count = p->count,
                        .max_ulp = max_ulp,
                        .max_index = p->max_index,
                        .is_error = p->flags & PROGRAM_TRAPS};
    for (int a = 0; a < 3; a++)
        pair.grid[a] = p->groups[a] ? p->groups[a] : 1;
    for (size_t s = 0; s < (has_lanes && !(p->flags & PROGRAM_NEEDS_32) ? 4 : 1); s++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            pair.subgroup_size = sizes[s];
            pair.seed = test_seed() + seed;
            device_pair_check(k, &pair);
        }
}
