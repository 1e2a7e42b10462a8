/* SPDX-License-Identifier: Apache-2.0 */
/* card_program.c: see card_program.h. */
#include "backend/card/card_program.h"

#include "backend/kernel_status.h"

enum { STATUS_BYTES = 64 };
_Static_assert(STATUS_BYTES >= KSTATUS_WORDS * sizeof(uint32_t), "a status fits its memory");

/* Kernels that say how they ended have a status in their scratch. */
static flxi_kernel_code code_of(const flxi_card_kernel *k)
{
    return (flxi_kernel_code){
        .code = k, .scratch = k->entry.has_status ? STATUS_BYTES : 0, .is_watched = k->entry.has_status};
}

flx_code flxi_card_compile(const flxi_card_compiler *by, const flxi_compile_request *q, flxi_kernel_code *kernels,
                           flxi_device_code **out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(q->ctx);
    flxi_device_code *c = flxi_alloc(mem, 1, by->size);
    *out = NULL;
    if (!c)
        return flxi_oom(err, "kernels");
    flxi_arena_init((flxi_arena *)c, mem);
    flx_code code = by->build(c, q, err);
    if (code != FLX_OK) {
        by->free(c);
        return code;
    }
    for (size_t i = 0; i < q->num_kernels; i++)
        kernels[i] = code_of(by->kernel(c, i));
    *out = c;
    return FLX_OK;
}

/* ---- Text ---- */

/* The memory of a user's kernel never overlaps; of others, an output may take the place of an operand that is read
   element by element. */
static flx_code write_kernel(flxi_kfile *file, const flxi_card_style *style, const flxi_compile_request *q, size_t i,
                             flxi_kentry *entry, flx_error *err)
{
    bool is_group = !q->is_call[i];
    FLXI_TRY(flxi_kernel_check_target(q->kernels[i], style->target, err));
    file->may_alias = is_group && !(q->is_apart && q->is_apart[i]);
    file->writes_first = is_group;
    file->aligns = is_group && style->aligns;
    file->before_loop = is_group ? style->before_loop : NULL;
    return flxi_kernel_write(file, q->kernels[i], entry, err);
}

flx_code flxi_card_write(const flxi_card_style *style, const flxi_compile_request *q, const uint8_t *text_of,
                         uint8_t text, flxi_kentry *entries, flxi_strbuf *out, flx_error *err)
{
    flxi_kfile file;
    flx_code code = FLX_OK;
    flxi_kfile_init(&file, style->target, out->mem);
    for (size_t i = 0; code == FLX_OK && i < q->num_kernels; i++)
        if (!text_of || text_of[i] == text)
            code = write_kernel(&file, style, q, i, &entries[i], err);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, out, err);
    flxi_kfile_free(&file);
    return code;
}

flx_code flxi_card_write_source(const flxi_card_style *style, const flxi_compile_request *q, flxi_strbuf *out,
                                flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(q->ctx);
    flxi_kentry *entries = flxi_alloc(mem, q->num_kernels + 1, sizeof *entries);
    if (!entries)
        return flxi_oom(err, "text");
    flx_code code = flxi_card_write(style, q, NULL, 0, entries, out, err);
    flxi_free(mem, entries, q->num_kernels + 1, sizeof *entries);
    return code;
}

/* ---- Steps ---- */

flx_code flxi_card_run_kernel(const flxi_launcher *on, const flxi_kernel_step *s, flx_error *err)
{
    const flxi_card_dispatch d = {.data = s->data, .grid = {s->grid[0], s->grid[1], s->grid[2]}, .lanes = s->lanes};
    return on->run(on, s->code, &d, err);
}

flx_code flxi_card_run_call(const flxi_launcher *on, const flxi_call_step *s, flx_error *err)
{
    enum { LANES = 32 }; /* of subgroups, where a device lets a launch choose them */
    const flxi_card_kernel *k = s->code;
    const flxi_card_dispatch d = {.data = s->data,
                                  .count = s->count,
                                  .grid = {s->grid[0], s->grid[1], s->grid[2]},
                                  .lanes = LANES,
                                  .status = s->scratch};
    const flxi_kdispatch given = {.kernel = s->kernel};
    uint32_t status[KSTATUS_WORDS];
    if (!k->entry.has_status)
        return on->run(on, k, &d, err);
    FLXI_TRY(on->clear(on, s->scratch, sizeof status, err));
    FLXI_TRY(on->run(on, k, &d, err));
    FLXI_TRY(on->fetch(on, status, s->scratch, sizeof status, err));
    return status[KSTATUS_TRAPPED] ? flxi_kernel_report_status(&given, status, err) : FLX_OK;
}

flx_code flxi_card_run_node(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    return ((const flxi_card_way *)s->way->code)->run(on, s, err);
}
