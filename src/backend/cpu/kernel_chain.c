/* kernel_chain.c: see kernel_chain.h. */
#include "backend/cpu/kernel_chain.h"

#include <stdio.h>

const char *flxi_chain_name(char *name, size_t number)
{
    snprintf(name, 24, "flxc_%zu", number);
    return name;
}

bool flxi_chain_fits(const flxi_chain *c, const flxi_kentry *entries, size_t begin, size_t end)
{
    for (uint32_t i = 0; i < c->n; i++) {
        size_t k = c->calls[i].kernel;
        if (k < begin || k >= end || entries[k].scratch)
            return false;
    }
    return true;
}

static void write_call(const flxi_chain_call *c, const flxi_kentry *entry, flxi_strbuf *out)
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

void flxi_chain_write(const flxi_chain *c, size_t number, const flxi_kentry *entries, flxi_strbuf *out)
{
    char name[24];
    flxi_chain_name(name, number);
    flxi_addf(out, "\nvoid %s(void *const *at);\nvoid %s(void *const *at)\n{\n    k_u32 status[%d] = {0};\n", name,
              name, KSTATUS_WORDS);
    for (uint32_t i = 0; i < c->n; i++)
        write_call(&c->calls[i], &entries[c->calls[i].kernel], out);
    flxi_add_text(out, "}\n");
}
