/* SPDX-License-Identifier: Apache-2.0 */
/* vector_frame.c: the loops over invocations around a kernel in vectors, and the public functions.

   All invocations of a row of workgroups are one loop in steps of whole vectors. The remainder, where the frame `if (i
   < n)` or the size of workgroups cuts a vector, is the same text once more under a mask. */
#include "emit/vector/vector_writer.h"

#include "emit/vector/vector_spelling.h"

#include <stdio.h>

/* ---- The loop ---- */

static void declare_ids(flxi_kwriter *w)
{
    const uint8_t *ids = w->ids;
    uint32_t n = w->k->size[0];
    if (ids[FLX_KERNEL_WORKGROUP_ID] & 1)
        flxi_kw_line(w, "const k_u32 w0 = i0 / %uu;", n);
    if (ids[FLX_KERNEL_LOCAL_ID] & 1)
        flxi_kw_line(
            w, n == w->vectors->lanes * w->vectors->parts ? "const k_u32 l0 = 0;" : "const k_u32 l0 = i0 %% %uu;", n);
    for (unsigned a = 1; a < 3; a++) {
        if (ids[FLX_KERNEL_INVOCATION_ID] >> a & 1)
            flxi_kw_line(w, "const k_u32 i%u = w%u;", a, a);
        if (ids[FLX_KERNEL_LOCAL_ID] >> a & 1)
            flxi_kw_line(w, "const k_u32 l%u = 0;", a);
    }
    if (w->uses_lane)
        flxi_kw_line(w, "const k_u32 lane = 0;");
}

static void write_body(flxi_kwriter *w)
{
    declare_ids(w);
    w->next_label++;
    w->label_used = false;
    flxi_vw_list(w, w->k->body);
    if (w->label_used)
        flxi_kw_line(w, "done%u:;", w->next_label);
}

/* Whether the loop over whole vectors can leave a remainder. */
static bool has_rest(const flxi_kwriter *w)
{
    unsigned whole = w->vectors->lanes * w->vectors->parts;
    if (w->file->plain && w->file->plain->is_for_any)
        return true;
    const flxi_kx *end = &w->k->exprs[w->vectors->end];
    bool cuts = w->decided && (end->kind != KX_LITERAL || end->bits % whole != 0);
    return cuts || w->k->size[0] % whole != 0;
}

static void write_rest(flxi_kwriter *w)
{
    flxi_ksubject s = {.type = FLX_U32};
    flxi_kw_line(w, "if (i0 < e0) {");
    w->depth++;
    w->vectors->mask = ++w->next_mask;
    for (unsigned part = 0; part < w->vectors->parts; part++) {
        s.x[0] = flxi_kw_text(w, "%uu", part * w->vectors->lanes);
        const char *text = flxi_vw_text(w, "@mask(($i)(@ramp($a, 1u) < @all(e0 - i0)))", &s);
        flxi_kw_begin(w);
        flxi_kw_add(w, "const ");
        flxi_vtext_type(w->file, &w->out, FLX_BOOL, w->vectors->lanes);
        flxi_kw_addf(w, " m%u_%u = ", w->vectors->mask, part);
        flxi_kw_add(w, text);
        flxi_kw_add(w, ";\n");
    }
    write_body(w);
    w->vectors->mask = 0;
    flxi_kw_close(w);
}

/* A row of workgroups starting at g0, `run` of them. Rows may be short: the ids of the next one are counted, not
   divided. */
static void open_row(flxi_kwriter *w)
{
    uint8_t used = w->ids[FLX_KERNEL_WORKGROUP_ID] | w->ids[FLX_KERNEL_INVOCATION_ID];
    const char *across = flxi_kw_grid(w, 0), *down = flxi_kw_grid(w, 1);
    flxi_kw_line(w, "if (begin >= end)");
    flxi_kw_line(w, "    return;");
    flxi_kw_line(w, "k_u32 g0 = (k_u32)(begin %% %s);", across);
    if (used & 6)
        flxi_kw_line(w, "k_u32 w1 = (k_u32)(begin / %s %% %s);", across, down);
    if (used & 4)
        flxi_kw_line(w, "k_u32 w2 = (k_u32)(begin / %s / %s);", across, down);
    flxi_kw_line(w, "for (k_u64 g = begin, run; g < end; g += run) {");
    w->depth++;
    flxi_kw_line(w, "run = %s - g0 < end - g ? %s - g0 : end - g;", across, across);
}

static void close_row(flxi_kwriter *w)
{
    uint8_t used = w->ids[FLX_KERNEL_WORKGROUP_ID] | w->ids[FLX_KERNEL_INVOCATION_ID];
    const char *down = flxi_kw_grid(w, 1);
    flxi_kw_line(w, "g0 = 0;");
    if (used & 4)
        flxi_kw_line(w, "w2 += w1 + 1 == %s;", down);
    if (used & 6)
        flxi_kw_line(w, "w1 = w1 + 1 == %s ? 0 : w1 + 1;", down);
    flxi_kw_close(w);
}

void flxi_vw_write(flxi_kwriter *w)
{
    uint32_t n = w->k->size[0], whole = w->vectors->lanes * w->vectors->parts;
    open_row(w);
    flxi_kw_line(w, "k_u32 i0 = g0 * %uu, e0 = (g0 + (k_u32)run) * %uu;", n, n);
    if (w->decided) {
        const char *limit = flxi_kw_value(w, w->vectors->end);
        flxi_kw_line(w, "if (e0 > %s) e0 = %s;", limit, limit);
    }
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (; i0 < e0 && e0 - i0 >= %uu; i0 += %uu)", whole, whole);
    flxi_kw_open(w);
    write_body(w);
    flxi_kw_close(w);
    if (has_rest(w))
        write_rest(w);
    close_row(w);
    if (w->vectors->uses_stream) {
        flxi_kw_line(w, "#if defined(__SSE__)");
        flxi_kw_line(w, "__builtin_ia32_sfence();");
        flxi_kw_line(w, "#endif");
    }
}

bool flxi_vw_begin(flxi_kwriter *w)
{
    flxi_kvectors *v = flxi_new(&w->facts, flxi_kvectors, 1);
    if (!v) {
        w->code = flxi_oom(w->err, "the text of a kernel");
        return false;
    }
    flxi_vw_survey(w, v);
    w->file->vector_reason = v->reason;
    if (v->reason) {
        w->decided = NULL;
        return false;
    }
    w->vectors = v;
    w->has_sync = false; /* lanes are always synchronised */
    return true;
}

void flxi_vw_comment(flxi_kwriter *w)
{
    const flxi_kvectors *v = w->vectors;
    if (v)
        flxi_kw_line(w, "/* %u invocations at a time, in %u vector%s. */", v->lanes * v->parts, v->parts,
                     v->parts > 1 ? "s" : "");
    else
        flxi_kw_line(w, "/* One invocation at a time: %s. */", w->file->vector_reason);
}

/* ---- Public functions ---- */

unsigned flxi_vector_host_bytes(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? 64
           : __builtin_cpu_supports("avx2")                                        ? 32
                                                                                   : 16;
#else
    return 16;
#endif
}

flx_code flxi_vector_write(flxi_kfile *f, const flx_kernel *k, const flxi_vector_options *o, flxi_kentry *entry,
                           const char **reason, flx_error *err)
{
    static const flxi_vector_options usual;
    f->vector = o ? o : &usual;
    f->vector_reason = NULL;
    f->vector_spelling = &flxi_vector_spelling;
    if (!f->vector_bytes)
        f->vector_bytes = f->vector->bytes ? f->vector->bytes : flxi_vector_host_bytes();
    unsigned bytes = f->vector->bytes ? f->vector->bytes : f->vector_bytes;
    if ((bytes != 64 && bytes != 32 && bytes != 16) || bytes != f->vector_bytes)
        return flxi_fail_hint(err, FLX_E_USAGE, "use 16, 32 or 64, the same for all kernels of a file",
                              "vectors of %u bytes in a file that uses vectors of %u", bytes, f->vector_bytes);
    flx_code code = flxi_kernel_write(f, k, entry, err);
    f->vector = NULL;
    if (reason)
        *reason = f->vector_reason;
    return code;
}
