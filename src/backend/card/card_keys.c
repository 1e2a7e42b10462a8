/* SPDX-License-Identifier: Apache-2.0 */
/* card_keys.c: see card_keys.h. Blocks sort 1024 keys in their memory; then runs are merged in passes, where each key
   finds its place by a binary search in the run beside its own. */
#include "backend/card/card_keys.h"

const char flxi_card_block_sort[] =
    "FUNCTION void sort_block(LOCAL u64 *s)\n{\n"
    "    for (u32 size = 2; size <= 1024u; size *= 2)\n"
    "        for (u32 d = size / 2; d > 0; d /= 2) {\n            MEET;\n"
    "            EACH_SORTER(t) {\n"
    "                const u32 a = 2 * t - (t & (d - 1)), b = a + d;\n"
    "                const bool up = (a & size) == 0;\n                const u64 p = s[a], q = s[b];\n"
    "                if ((p > q) == up) {\n                    s[a] = q;\n                    s[b] = p;\n"
    "                }\n            }\n        }\n"
    "    MEET;\n}\n";

static const char body[] =
    "KERNEL(SORTERS) sort_blocks(GLOBAL u64 *keys)\n{\n"
    "    SHARED u64 s[1024];\n    const u64 first = (u64)GROUP * 1024u;\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n        s[j] = keys[first + j];\n    sort_block(s);\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n        keys[first + j] = s[j];\n}\n"
    /* Equal keys go nowhere: the first run's come first. */
    "KERNEL(256) merge_runs(GLOBAL const u64 *from, GLOBAL u64 *to, u64 width)\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN, run = i / width, own = i - run * width, key = from[i];\n"
    "    GLOBAL const u64 *other = from + (run ^ 1) * width;\n    u64 low = 0, high = width;\n"
    "    while (low < high) {\n        const u64 middle = (low + high) / 2;\n"
    "        if (other[middle] < key || ((run & 1) && other[middle] == key))\n            low = middle + 1;\n"
    "        else\n            high = middle;\n    }\n"
    "    to[(run / 2) * 2 * width + own + low] = key;\n}\n";

static flx_code write_keys(flxi_card_language language, int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)variant;
    (void)err;
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, flxi_card_block_sort);
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_card_text flxi_card_keys_text = {write_keys, 1};

uint64_t flxi_card_padded_keys(uint64_t n)
{
    uint64_t padded = FLXI_CARD_BLOCK_KEYS;
    while (padded < n)
        padded *= 2;
    return padded;
}

size_t flxi_card_keys_bytes(uint64_t padded)
{
    return 2 * (size_t)padded * sizeof(uint64_t);
}

flx_code flxi_card_merge_keys(const flxi_launcher *on, void *scratch, uint64_t all, uint64_t padded, void **sorted,
                              flx_error *err)
{
    void *from = scratch, *to = (uint64_t *)scratch + all;
    for (uint64_t width = FLXI_CARD_BLOCK_KEYS; width < padded; width *= 2) {
        const flxi_card_argument pass[] = {FLXI_ADDRESS(from), FLXI_ADDRESS(to), FLXI_VALUE(width)};
        FLXI_TRY(flxi_card_launch_line(on, &flxi_card_keys_text, 0, "merge_runs", all, pass, 3, err));
        void *last = from;
        from = to;
        to = last;
    }
    *sorted = from;
    return FLX_OK;
}

flx_code flxi_card_sort_keys(const flxi_launcher *on, void *scratch, uint64_t padded, void **sorted, flx_error *err)
{
    const flxi_card_argument keys[] = {FLXI_ADDRESS(scratch)};
    const flxi_card_launch sort = {&flxi_card_keys_text,
                                   0,
                                   "sort_blocks",
                                   padded / FLXI_CARD_BLOCK_KEYS,
                                   flxi_card_sorters(on->language),
                                   1,
                                   keys,
                                   1};
    FLXI_TRY(on->launch(on, &sort, err));
    return flxi_card_merge_keys(on, scratch, padded, padded, sorted, err);
}

/* ---- Indices ---- */

static const struct {
    int32_t dtype;
    const char *type;
} indices[FLXI_CARD_NUM_INDICES] = {{FLX_I8, "i8"},   {FLX_U8, "u8"},   {FLX_I16, "i16"}, {FLX_U16, "u16"},
                                    {FLX_I32, "i32"}, {FLX_U32, "u32"}, {FLX_I64, "i64"}};

int32_t flxi_card_index_number(int32_t dtype)
{
    for (int32_t i = 0; i < FLXI_CARD_NUM_INDICES; i++)
        if (indices[i].dtype == dtype)
            return i;
    return -1;
}

void flxi_card_add_index(int32_t number, flxi_strbuf *out)
{
    flxi_addf(out, "typedef %s I;\n", indices[number].type);
}
