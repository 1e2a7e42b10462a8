/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_loop_text.c: the loop of a scan as CUDA C. Kernels are functions of one invocation, which the threads of each
   block call in turn. Before compute capability 9.0 there are no clusters: one block then has each part. */
#include "backend/cuda/loop/cuda_loop.h"
#include "emit/kernel_emit.h"

#include <stdio.h>

typedef struct {
    const flxi_chain *c;
    const flxi_loop_plan *p;
    const flxi_kentry *entries; /* of its kernels, by step */
    flxi_strbuf *out;
    bool is_read[FLXI_LOOP_SLOTS], is_written[FLXI_LOOP_SLOTS]; /* since all threads met */
} writing;

/* ---- Slots ---- */

/* Where the slot is in this step of the loop, as bytes. */
static void write_slot(const writing *w, uint32_t slot)
{
    const flxi_loop_slot *s = &w->p->slots[slot];
    switch ((flxi_loop_kind)s->kind) {
    case LOOP_GLOBAL: flxi_addf(w->out, "g%u", s->line); break;
    case LOOP_ROW:
        flxi_addf(w->out, "(memory + %u + ((k_u32)t & %u) * %u)", s->at, FLXI_LOOP_STAGES - 1, s->each);
        break;
    case LOOP_CARRY_IN: flxi_addf(w->out, "(memory + %u + (1 - odd) * %u)", s->at, s->each); break;
    case LOOP_RESULT:
    case LOOP_CARRY_OUT: flxi_addf(w->out, "(memory + %u + odd * %u)", s->at, s->each); break;
    case LOOP_OWN:
    case LOOP_UNUSED: flxi_addf(w->out, "(memory + %u)", s->at); break;
    }
}

/* Whether others may just have written the slot, or may still read it. */
static bool is_busy(const writing *w, uint32_t slot, bool writes)
{
    for (uint32_t i = 0; i < w->c->num_slots; i++)
        if ((w->is_written[i] || (writes && w->is_read[i])) && flxi_cuda_loop_overlaps(w->p, i, slot))
            return true;
    return false;
}

/* All threads meet where a step reads what others may just have written, or writes what they may still read. */
static void meet(writing *w, const flxi_chain_step *s)
{
    bool must = false;
    for (uint32_t k = 0; k < s->num_slots; k++)
        must |= is_busy(w, s->slots[k], flxi_cuda_loop_writes(s, k));
    if (must) {
        flxi_add_text(w->out, "        __syncthreads();\n");
        memset(w->is_read, 0, sizeof w->is_read);
        memset(w->is_written, 0, sizeof w->is_written);
    }
    for (uint32_t k = 0; k < s->num_slots; k++)
        (flxi_cuda_loop_writes(s, k) ? w->is_written : w->is_read)[s->slots[k]] = true;
}

/* ---- Steps ---- */

static void write_axes(flxi_strbuf *out, const char *of, const uint32_t n[3])
{
    flxi_addf(out, "{%s %% %uu, %s / %uu %% %uu, %s / %uu}", of, n[0], of, n[0], n[1], of, n[0] * n[1]);
}

static void write_kernel(const writing *w, uint32_t i)
{
    const flxi_chain_step *s = &w->c->steps[i];
    const flx_kernel *k = s->text;
    uint32_t size = flxi_kernel_workgroup(k), groups = s->grid[0] * s->grid[1] * s->grid[2];
    flxi_addf(w->out, "        for (k_u32 v = threadIdx.x; v < %uu; v += %uu) {\n            ", groups * size,
              w->p->threads);
    flxi_addf(w->out, "const k_u32 group = v / %uu, own = v %% %uu;\n            const k_place place = {", size, size);
    write_axes(w->out, "group", s->grid);
    flxi_add_text(w->out, ", ");
    write_axes(w->out, "own", k->size);
    flxi_addf(w->out, ", {%uu, %uu, %uu}};\n            %s(place", s->grid[0], s->grid[1], s->grid[2],
              w->entries[i].name);
    for (uint32_t b = 0; b < s->num_slots; b++) {
        uint64_t count = k->buffers[b + 1].count;
        flxi_addf(w->out, ", (%s *)", flxi_ktext_element(&flxi_target_cuda_part, k->buffers[b + 1].element));
        write_slot(w, s->slots[b]);
        flxi_addf(w->out, ", %uu", count < UINT32_MAX ? (uint32_t)count : UINT32_MAX);
    }
    flxi_add_text(w->out, ");\n        }\n");
}

static void write_product(const writing *w, uint32_t i, uint32_t number, uint32_t exchange)
{
    const flxi_chain_step *s = &w->c->steps[i];
    flxi_addf(w->out, "        product%u.run((const float *)", i);
    write_slot(w, s->slots[0]);
    flxi_add_text(w->out, ", (const float *)");
    write_slot(w, s->slots[1]);
    flxi_add_text(w->out, ", (float *)");
    write_slot(w, s->slots[2]);
    flxi_addf(w->out, ", memory, %u, %u, block, t - l.from);\n", exchange, w->p->barriers + number * 16);
}

static void write_copy(const writing *w, uint32_t i)
{
    const flxi_chain_step *s = &w->c->steps[i];
    flxi_add_text(w->out, "        k_copy(");
    write_slot(w, s->slots[1]);
    flxi_add_text(w->out, ", ");
    write_slot(w, s->slots[0]);
    flxi_addf(w->out, ", %uu, threadIdx.x, %uu);\n", (uint32_t)s->nbytes, w->p->threads);
}

static void write_steps(writing *w)
{
    uint32_t number = 0, exchange = w->p->exchange;
    for (uint32_t i = 0; i < w->c->n; i++) {
        const flxi_chain_step *s = &w->c->steps[i];
        meet(w, s);
        if (s->kind == CHAIN_KERNEL)
            write_kernel(w, i);
        else if (s->kind == CHAIN_COPY)
            write_copy(w, i);
        else {
            write_product(w, i, number++, exchange);
            exchange += (2 * w->p->products[i].m * w->p->products[i].n * (uint32_t)sizeof(float) + 15) / 16 * 16;
        }
    }
}

/* ---- Around the steps ---- */

/* One block alone may not have the registers that a cluster has. */
static void write_products(const writing *w)
{
    const char *holding = w->p->blocks > 1 ? "K_CLUSTERS != 0" : "true";
    for (uint32_t i = 0; i < w->c->n; i++) {
        const flxi_loop_product *x = &w->p->products[i];
        if (w->c->steps[i].kind != CHAIN_NODE)
            continue;
        const flxi_loop_slot *b = &w->p->slots[w->c->steps[i].slots[1]];
        bool holds = w->p->holds_weights && b->kind == LOOP_GLOBAL;
        flxi_addf(w->out, "    k_product<BLOCKS, %u, %u, %u, %u, %d, %d, %d, %d, %s> product%u;\n", w->p->threads, x->m,
                  x->n, x->k, x->a_line, x->a_depth, x->b_line, x->b_depth, holds ? holding : "false", i);
        if (holds)
            flxi_addf(w->out, "    product%u.hold((const float *)g%u, block);\n", i, b->line);
    }
}

/* Rows of step `t` of the loop, if there is such a step; one group of copies in any case. */
static void write_fetch(const writing *w, const char *t, const char *indent)
{
    flxi_addf(w->out, "%sif (%s < l.to) {\n", indent, t);
    for (uint32_t i = 0; i < w->c->loop->num_rows; i++) {
        uint32_t slot = w->c->loop->rows[i].slot;
        const flxi_loop_slot *s = &w->p->slots[slot];
        if (s->kind == LOOP_ROW)
            flxi_addf(w->out,
                      "%s    k_fetch(memory + %u + ((k_u32)(%s) & %u) * %u, k_line_at(l.line[%u], part, %s), %uu, "
                      "threadIdx.x, %uu);\n",
                      indent, s->at, t, FLXI_LOOP_STAGES - 1, s->each, i, t, (uint32_t)w->c->slot_bytes[slot],
                      w->p->threads);
    }
    flxi_addf(w->out, "%s}\n%sk_fetched();\n", indent, indent);
}

/* What step t - 1 computed goes to the card's memory; blocks share the work. Carries that are no trajectory do so at
   the end alone. */
static void write_results(const writing *w, bool is_last)
{
    const char *indent = is_last ? "    " : "        ";
    const flxi_chain_loop *loop = w->c->loop;
    flxi_addf(w->out, "%sif (t > l.from) {\n%s    const k_u32 was = (k_u32)(t - 1) & 1;\n", indent, indent);
    for (uint32_t i = 0; i < loop->num_rows; i++) {
        uint32_t slot = loop->rows[i].slot;
        const flxi_loop_slot *s = &w->p->slots[slot];
        if (s->kind == LOOP_RESULT)
            flxi_addf(w->out,
                      "%s    k_copy(k_line_at(l.line[%u], part, t - 1), memory + %u + was * %u, %uu, first, all);\n",
                      indent, i, s->at, s->each, (uint32_t)w->c->slot_bytes[slot]);
    }
    for (uint32_t i = 0; i < loop->num_carries; i++) {
        uint32_t slot = loop->carry_out[i];
        const flxi_loop_slot *s = &w->p->slots[slot];
        flxi_addf(w->out, "%s    ", indent);
        if (!is_last)
            flxi_addf(w->out, "if (l.line[%u].step)\n%s        ", s->line + 1, indent);
        flxi_addf(w->out,
                  "k_copy(k_line_at(l.line[%u + was], part, t - 1), memory + %u + was * %u, %uu, first, all);\n",
                  s->line + 1, s->at, s->each, (uint32_t)w->c->slot_bytes[slot]);
    }
    flxi_addf(w->out, "%s}\n", indent);
}

static void write_beginning(const writing *w)
{
    const flxi_chain_loop *loop = w->c->loop;
    for (uint32_t i = 0; i < w->c->num_slots; i++)
        if (w->p->slots[i].kind == LOOP_GLOBAL)
            flxi_addf(w->out, "    unsigned char *const g%u = (unsigned char *)l.line[%u].at;\n", w->p->slots[i].line,
                      w->p->slots[i].line);
    write_products(w);
    for (uint32_t i = 0; i < loop->num_carries; i++) {
        const flxi_loop_slot *s = &w->p->slots[loop->carry_out[i]];
        flxi_addf(w->out,
                  "    k_copy(memory + %u + ((k_u32)(t - 1) & 1) * %u, k_line_at(l.line[%u], part, 0), %uu, "
                  "threadIdx.x, %uu);\n",
                  s->at, s->each, s->line, (uint32_t)w->c->slot_bytes[loop->carry_out[i]], w->p->threads);
    }
    for (int i = 0; i < FLXI_LOOP_STAGES - 1; i++) {
        char t[16];
        snprintf(t, sizeof t, "t + %d", i);
        write_fetch(w, t, "    ");
    }
    flxi_add_text(w->out, "#if K_CLUSTERS\n    if (BLOCKS > 1) {\n        if (threadIdx.x == 0)\n");
    flxi_addf(w->out,
              "            for (int i = 0; i < %u; i++)\n"
              "                k_barrier_init(k_shared(memory + %u) + 8 * i);\n        k_meet();\n    }\n#endif\n",
              2 * w->p->num_products, w->p->barriers);
}

static void write_loop(writing *w, size_t number)
{
    const flxi_loop_plan *p = w->p;
    flxi_addf(w->out,
              "\n#undef K_TOGETHER\n#if K_CLUSTERS && %u > 1\n#define K_TOGETHER __cluster_dims__(%u, 1, 1)\n#else\n"
              "#define K_TOGETHER\n#endif\n",
              p->blocks, p->blocks);
    flxi_addf(w->out,
              "extern \"C\" __global__ void __launch_bounds__(%u) K_TOGETHER\n"
              "flxl_%zu(const __grid_constant__ k_loop<%u> l)\n{\n",
              p->threads, number, p->num_lines ? p->num_lines : 1);
    flxi_addf(w->out, "    constexpr int BLOCKS = K_CLUSTERS ? %u : 1;\n", p->blocks);
    flxi_add_text(w->out, "    extern __shared__ __align__(16) unsigned char memory[];\n"
                          "    const k_u32 block = blockIdx.x % BLOCKS, part = blockIdx.x / BLOCKS;\n");
    flxi_addf(w->out, "    const k_u32 first = block * %u + threadIdx.x, all = BLOCKS * %u;\n    k_i64 t = l.from;\n",
              p->threads, p->threads);
    write_beginning(w);
    flxi_addf(w->out,
              "    for (; t < l.to; t++) {\n        const k_u32 odd = (k_u32)t & 1;\n        k_await_fetched<%d>();\n"
              "        __syncthreads();\n",
              FLXI_LOOP_STAGES - 2);
    write_fetch(w, "t + 3", "        ");
    write_results(w, false);
    write_steps(w);
    flxi_add_text(w->out, "    }\n    __syncthreads();\n");
    write_results(w, true);
    flxi_add_text(w->out, "#if K_CLUSTERS\n    if (BLOCKS > 1)\n        k_meet();\n#endif\n}\n");
}

/* ---- Texts ---- */

_Static_assert(FLXI_LOOP_STAGES == 4, "rows are fetched three steps ahead");

/* Kernels that several steps run are written once. */
static flx_code write_functions(const flxi_chain *c, flxi_kfile *f, flxi_kentry *entries, flx_error *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t same = 0;
        if (c->steps[i].kind != CHAIN_KERNEL)
            continue;
        while (same < i && (c->steps[same].kind != CHAIN_KERNEL || c->steps[same].text != c->steps[i].text))
            same++;
        if (same < i) {
            entries[i] = entries[same];
            continue;
        }
        FLXI_TRY(flxi_kernel_check_target(c->steps[i].text, &flxi_target_cuda_part, err));
        f->may_alias = f->aligns = true;
        FLXI_TRY(flxi_kernel_write(f, c->steps[i].text, &entries[i], err));
        if (entries[i].has_status)
            return flxi_fail(err, FLX_E_INTERNAL, "a kernel of a loop says how it ended");
    }
    return FLX_OK;
}

static flx_code write_chain(const flxi_chain *c, size_t number, flxi_kfile *f, flx_error *err)
{
    flxi_kentry entries[FLXI_LOOP_STEPS];
    flxi_loop_plan plan;
    uint32_t step;
    const char *why = flxi_cuda_plan_loop(c, &plan, &step);
    if (why)
        return flxi_fail(err, FLX_E_INTERNAL, "a loop that was accepted: %s", why);
    FLXI_TRY(write_functions(c, f, entries, err));
    writing w = {.c = c, .p = &plan, .entries = entries, .out = &f->kernels};
    write_loop(&w, number);
    return FLX_OK;
}

flx_code flxi_cuda_write_loops(flxi_chain *const *chains, size_t n, flxi_strbuf *out, flx_error *err)
{
    flxi_kfile file;
    flx_code code = FLX_OK;
    flxi_kfile_init(&file, &flxi_target_cuda_part, out->mem);
    for (size_t i = 0; flxi_cuda_loop_helpers[i]; i++)
        flxi_add_text(&file.kernels, flxi_cuda_loop_helpers[i]);
    for (size_t i = 0; code == FLX_OK && i < n; i++)
        code = write_chain(chains[i], i, &file, err);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, out, err);
    flxi_kfile_free(&file);
    return code;
}
