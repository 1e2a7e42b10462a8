/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_emit.c: emits a whole kernel: its functions, then the kernel, which the target writes around the statements.
   */
#include "emit/kernel_emit.h"

#include "base/context.h"
#include "emit/kernel_writer.h"
#include "kernel/check/kernel_validate.h"

#include <stdio.h>

/* Limit for the text of one kernel. */
static const size_t max_text = (size_t)256 << 20;

/* ---- Parts of frames ---- */

uint64_t flxi_kw_array_count(const flxi_kwriter *w, uint32_t buffer)
{
    const flxi_kbuffer *b = &w->k->buffers[buffer];
    if (flxi_ktype_of(b->element)->bits == 4)
        return w->target->has_words ? (b->count + 7) / 8 : (b->count + 1) / 2;
    return b->count;
}

void flxi_kw_declare_private(flxi_kwriter *w)
{
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (flxi_kw_address(w, i) == KADDRESS_PRIVATE && w->is_accessed[i]) {
            unsigned long count = (unsigned long)flxi_kw_array_count(w, i);
            flxi_kw_line(w, "%s%s b%u[%lu];", w->target->space[KADDRESS_PRIVATE],
                         flxi_ktext_element(w->target, w->k->buffers[i].element), i, count);
            flxi_kw_line(w, "for (k_u32 j = 0; j < %luu; j++) b%u[j] = 0;", count, i);
        }
    for (size_t i = 0; i < w->copies.n; i++)
        flxi_kw_line(w, "k_u32 c%zu = 0, c%zu = 0, c%zu = 0;", i * 3, i * 3 + 1, i * 3 + 2);
}

void flxi_kw_restart(flxi_kwriter *w)
{
    w->out.n = 0;
    w->statement = 0;
    w->next_temp = w->next_mask = w->next_label = w->next_trap = w->next_indirect = w->interval = 0;
    w->is_open = w->label_used = w->end_used = false;
}

/* ---- Functions ---- */

static void write_function(flxi_kwriter *w, uint32_t number)
{
    const flxi_kfn *fn = &w->k->fns[number];
    flxi_kw_begin(w);
    flxi_kw_addf(w, "%s %s f%u_%u(", w->target->function, flxi_ktext_type(fn->type), w->file->num_kernels, number);
    for (uint32_t i = 0; i < fn->num_params; i++)
        flxi_kw_addf(w, "%s%s v%u", i ? ", " : "", flxi_ktext_type(w->k->vars[fn->params[i]].type), fn->params[i]);
    flxi_kw_add(w, fn->num_params ? ")\n{\n" : "void)\n{\n");
    w->depth++;
    flxi_kw_declare_ticks(w, fn->body);
    flxi_kw_list(w, fn->body);
    w->binds = false;
    const char *result = flxi_kw_root(w, fn->result);
    flxi_kw_begin(w);
    flxi_kw_add(w, "return ");
    flxi_kw_add(w, result);
    flxi_kw_add(w, ";\n");
    flxi_kw_close(w);
}

static void write_functions(flxi_kwriter *w)
{
    w->in_function = true;
    for (uint32_t i = 1; i <= w->k->num_fns && w->code == FLX_OK; i++)
        if (!w->k->fns[i].adjoint_of)
            write_function(w, i);
    w->in_function = false;
    if (w->out.at)
        flxi_add_bytes(&w->file->kernels, w->out.at, w->out.n);
    w->out.n = 0;
}

/* ---- Kernels ---- */

static void start_writer(flxi_kwriter *w, flxi_kfile *f, const flx_kernel *k, flxi_kentry *entry, flx_error *err)
{
    *w = (flxi_kwriter){.file = f, .target = f->target, .k = k, .entry = entry, .err = err, .lane = "l"};
    flxi_strbuf_init(&w->out, f->mem);
    flxi_strbuf_init(&w->piece, f->mem);
    flxi_arena_init(&w->facts, f->mem);
    flxi_arena_init(&w->words, f->mem);
}

static void free_writer(flxi_kwriter *w)
{
    const flxi_allocator *mem = flxi_kernel_mem(w->k);
    if (w->ranges.f)
        flxi_kranges_free(&w->ranges);
    if (w->known.k)
        flxi_kfacts_free(&w->known);
    if (w->uniform.exprs)
        flxi_kuniform_free(&w->uniform);
    flxi_vec_free(mem, &w->copies);
    flxi_vec_free(mem, &w->arrays);
    flxi_strbuf_free(&w->out);
    flxi_strbuf_free(&w->piece);
    flxi_arena_free(&w->facts);
    flxi_arena_free(&w->words);
}

static flx_code write_kernel(flxi_kwriter *w)
{
    FLXI_TRY(flxi_kw_survey(w));
    write_functions(w);
    if (w->code == FLX_OK)
        w->target->write(w);
    if (w->code == FLX_OK && (w->out.failed || w->file->failed || w->ranges.failed))
        w->code = flxi_oom(w->err, "the text of a kernel");
    if (w->code == FLX_OK && w->out.n > max_text)
        w->code = flxi_fail(w->err, FLX_E_SIZE, "the text of kernel '%.60s' exceeds %zu bytes", w->k->name, max_text);
    if (w->code == FLX_OK)
        flxi_add_bytes(&w->file->kernels, w->out.at, w->out.n);
    return w->code;
}

flx_code flxi_kernel_write(flxi_kfile *f, const flx_kernel *k, flxi_kentry *entry, flx_error *err)
{
    flxi_kwriter w;
    *entry = (flxi_kentry){0};
    if (f->plain)
        snprintf(entry->name, sizeof entry->name, "%s", f->plain->name);
    else
        snprintf(entry->name, sizeof entry->name, "flxk_%u", f->num_kernels);
    f->flags = k->flags;
    start_writer(&w, f, k, entry, err);
    flx_code code = write_kernel(&w);
    entry->is_ordered = w.is_ordered;
    entry->has_grid_barrier = w.has_grid_barrier;
    entry->has_status = w.has_traps || w.has_indirect;
    entry->has_subgroups = w.uses_lanes;
    f->num_kernels++;
    free_writer(&w);
    return code;
}

flx_code flxi_kernel_check_target(const flx_kernel *k, const flxi_ktarget *t, flx_error *err)
{
    flx_kernel_target target = {.struct_size = sizeof target,
                                .flags = t->abilities,
                                .max_workgroup_bytes = t->max_workgroup_bytes,
                                .max_private_bytes = t->max_private_bytes};
    return flx_kernel_validate(k, &target, NULL, 0, NULL, err);
}

static const flxi_ks *find_site(flxi_klist list, flxi_ks_kind kind, uint32_t *left)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i], *inner;
        if (s->kind == kind && (*left)-- == 0)
            return s;
        if ((inner = find_site(s->body, kind, left)) || (inner = find_site(s->other, kind, left)))
            return inner;
    }
    return NULL;
}

const flxi_ks *flxi_kernel_site(const flx_kernel *k, flxi_ks_kind kind, uint32_t site)
{
    return find_site(k->body, kind, &site);
}

flx_code flx_kernel_emit(const flx_kernel *k, const char *target, flx_buffer *out, flx_error *err)
{
    const flxi_ktarget *t = flxi_ktarget_find(target);
    char shown[40];
    flxi_kfile file;
    flxi_kentry entry;
    flxi_strbuf text;
    if (!k || !target || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_emit: %s is NULL",
                         !k       ? "the kernel"
                         : target ? "the result"
                                  : "the target");
    if (!t)
        return flxi_fail_hint(err, FLX_E_NAME, "targets are c, cuda and opencl", "unknown target '%s'",
                              flxi_printable(shown, sizeof shown, target ? target : "", target ? strlen(target) : 0));
    FLXI_TRY(flxi_kernel_check_target(k, t, err));
    flxi_kfile_init(&file, t, flxi_kernel_mem(k));
    flxi_strbuf_init(&text, flxi_kernel_mem(k));
    flx_code code = flxi_kernel_write(&file, k, &entry, err);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, &text, err);
    if (code == FLX_OK)
        code = flxi_buffer_finish(&text, k->ctx, out, err);
    else
        flxi_strbuf_free(&text);
    flxi_kfile_free(&file);
    return code;
}
