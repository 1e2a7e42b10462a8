/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_chain.c: see kernel_chain.h. */
#include "backend/cpu/jit/kernel_chain.h"

#include <stdio.h>

const char *flxi_chain_function(flxi_chain_name *name, size_t number)
{
    snprintf(name->s, sizeof name->s, "flxc_%zu", number);
    return name->s;
}

const char *flxi_chain_loop_function(flxi_chain_name *name, size_t number)
{
    snprintf(name->s, sizeof name->s, "flxl_%zu", number);
    return name->s;
}

static const char *product_function(flxi_chain_name *name, size_t number, uint32_t call)
{
    snprintf(name->s, sizeof name->s, "flxp_%zu_%u", number, call);
    return name->s;
}

bool flxi_chain_fits(const flxi_chain_code *code, const flxi_kentry *entries, size_t begin, size_t end)
{
    const flxi_chain *c = code->chain;
    for (uint32_t i = 0; i < c->n; i++) {
        size_t k = c->steps[i].kernel;
        if (c->steps[i].kind == CHAIN_KERNEL && (k < begin || k >= end || entries[k].scratch))
            return false;
    }
    return true;
}

/* ---- Steps ---- */

static void write_kernel_call(const flxi_chain_step *c, const flxi_kentry *entry, flxi_strbuf *out)
{
    uint64_t groups = (uint64_t)c->grid[0] * c->grid[1] * c->grid[2];
    if (groups == 0)
        return;
    flxi_add_text(out, "    {\n        void *const data[] = {");
    for (uint32_t i = 0; i < c->num_slots; i++)
        flxi_addf(out, "%sat[%u]", i ? ", " : "", c->slots[i]);
    flxi_addf(out, "};\n        const k_dispatch d = {data, 0, {%uu, %uu, %uu}, %uu};\n", c->grid[0], c->grid[1],
              c->grid[2], c->lanes);
    flxi_addf(out, "        %s(&d, 0, %lluu, 0, status);\n    }\n", entry->name, (unsigned long long)groups);
}

static void write_calls(const flxi_chain *c, size_t number, const flxi_kentry *entries, flxi_strbuf *out)
{
    flxi_chain_name name;
    for (uint32_t i = 0; i < c->n; i++) {
        const flxi_chain_step *s = &c->steps[i];
        switch ((flxi_chain_kind)s->kind) {
        case CHAIN_KERNEL: write_kernel_call(s, &entries[s->kernel], out); break;
        case CHAIN_NODE:
            flxi_addf(out, "    %s(at[%u], at[%u], at[%u]);\n", product_function(&name, number, i), s->slots[0],
                      s->slots[1], s->slots[2]);
            break;
        case CHAIN_COPY:
            flxi_addf(out, "    __builtin_memcpy(at[%u], at[%u], %zu);\n", s->slots[1], s->slots[0], s->nbytes);
            break;
        case CHAIN_FOREIGN: /* of no chain that was accepted */ break;
        }
    }
}

/* ---- Loops ---- */

static void write_loop(const flxi_chain *c, size_t number, flxi_strbuf *out)
{
    flxi_chain_name name;
    const flxi_chain_loop *l = c->loop;
    flxi_addf(out, "\ntypedef struct { k_u8 *at; k_i64 step; } flxl_row_%zu;\n", number);
    flxi_addf(out, "typedef struct { k_u8 *in, *buffer[2]; k_i64 step; } flxl_carry_%zu;\n", number);
    flxi_chain_loop_function(&name, number);
    flxi_addf(out, "void %s(void **at, const flxl_row_%zu *r, flxl_carry_%zu *c, k_i64 from, k_i64 to)\n{\n", name.s,
              number, number);
    flxi_add_text(out, "    for (k_i64 t = from; t < to; t++) {\n");
    for (uint32_t i = 0; i < l->num_rows; i++)
        flxi_addf(out, "        at[%u] = r[%u].at + t * r[%u].step;\n", l->rows[i].slot, i, i);
    for (uint32_t i = 0; i < l->num_carries; i++) {
        if (l->carry_in[i] != FLXI_NO_SLOT)
            flxi_addf(out, "        at[%u] = c[%u].in;\n", l->carry_in[i], i);
        flxi_addf(out, "        at[%u] = c[%u].in = c[%u].buffer[t & 1] + t * c[%u].step;\n", l->carry_out[i], i, i, i);
    }
    flxi_addf(out, "        %s(at);\n    }\n}\n", flxi_chain_function(&name, number));
}

void flxi_chain_write(const flxi_chain_code *code, size_t number, const flxi_kentry *entries, flxi_kfile *f)
{
    const flxi_chain *c = code->chain;
    flxi_chain_name name;
    flxi_strbuf *out = &f->kernels;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->steps[i].kind == CHAIN_NODE)
            flxi_small_product_write(&code->products[i], product_function(&name, number, i), f);
    flxi_chain_function(&name, number);
    flxi_addf(out, "\nvoid %s(void *const *at);\nvoid %s(void *const *at)\n{\n    k_u32 status[%d] = {0};\n", name.s,
              name.s, KSTATUS_WORDS);
    write_calls(c, number, entries, out);
    flxi_add_text(out, "}\n");
    if (c->loop)
        write_loop(c, number, out);
}
