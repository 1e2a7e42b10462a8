/* SPDX-License-Identifier: Apache-2.0 */
/* card_keys.c: see card_keys.h. Blocks sort 1024 keys in their memory; then runs are merged in passes, where each key
   finds its place by a binary search in the run beside its own. A pass of few keys takes the time of a launch and of
   the reads that wait for each other: of these up to 16 runs are merged at once, with a thread for each key and run. */
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

const char flxi_card_key_search[] =
    "FUNCTION u64 first_of(GLOBAL const u64 *keys, u64 n, u64 key)\n{\n    u64 low = 0, high = n;\n"
    "    while (low < high) {\n        const u64 middle = (low + high) / 2;\n"
    "        if (keys[middle] < key)\n            low = middle + 1;\n        else\n            high = middle;\n"
    "    }\n    return low;\n}\n";

static const char body[] =
    "KERNEL(SORTERS) sort_blocks(GLOBAL u64 *keys)\n{\n"
    "    SHARED u64 s[1024];\n    const u64 first = (u64)GROUP * 1024u;\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n        s[j] = keys[first + j];\n    sort_block(s);\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n        keys[first + j] = s[j];\n}\n"
    /* Equal keys go nowhere: the first run's come first. */
    "KERNEL(256) merge_runs(GLOBAL const u64 *from, GLOBAL u64 *to, u64 width)\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN, run = i / width, own = i - run * width, key = from[i];\n"
    "    GLOBAL const u64 *other = from + (run ^ 1) * width;\n"
    "    const u64 before = (run & 1) && key == ~(u64)0 ? width : first_of(other, width, key);\n"
    "    to[(run / 2) * 2 * width + own + before] = key;\n}\n"
    "KERNEL(256) merge_many(GLOBAL const u64 *from, GLOBAL u64 *to, u64 width, u32 ways)\n{\n"
    "    SHARED u32 before[256];\n    const u32 way = OWN % ways;\n"
    "    const u64 i = ((u64)GROUP * 256u + OWN) / ways, first = i / (width * ways) * (width * ways);\n"
    "    const u64 run = (i - first) / width, key = from[i];\n"
    "    GLOBAL const u64 *other = from + first + way * width;\n"
    "    before[OWN] = way == run ? 0 : way < run && key == ~(u64)0 ? (u32)width : (u32)first_of(other, width, key);\n"
    "    MEET;\n    if (way)\n        return;\n    u64 at = i - run * width;\n"
    "    for (u32 k = 0; k < ways; k++)\n        at += before[OWN + k];\n    to[at] = key;\n}\n";

static void write_keys(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    (void)variant;
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, flxi_card_block_sort);
    flxi_add_text(out, flxi_card_key_search);
    flxi_add_text(out, body);
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

/* How many runs are merged at once. */
static uint32_t ways_of(uint64_t all, uint64_t width, uint64_t padded)
{
    enum { MOST_KEYS = 1 << 16, MOST_WAYS = 16 };
    uint64_t runs = padded / width;
    return all > MOST_KEYS ? 2 : runs < MOST_WAYS ? (uint32_t)runs : MOST_WAYS;
}

static flx_code merge_pass(const flxi_launcher *on, void *from, void *to, uint64_t all, uint64_t width, uint32_t ways,
                           flx_error *err)
{
    const flxi_card_argument pass[] = {FLXI_ADDRESS(from), FLXI_ADDRESS(to), FLXI_VALUE(width), FLXI_VALUE(ways)};
    const char *name = ways > 2 ? "merge_many" : "merge_runs";
    uint64_t threads = ways > 2 ? all * ways : all;
    return flxi_card_launch_line(on, &flxi_card_keys_text, 0, name, threads, pass, ways > 2 ? 4 : 3, err);
}

flx_code flxi_card_merge_keys(const flxi_launcher *on, void *scratch, uint64_t all, uint64_t padded, void **sorted,
                              flx_error *err)
{
    void *from = scratch, *to = (uint64_t *)scratch + all;
    for (uint64_t width = FLXI_CARD_BLOCK_KEYS; width < padded;) {
        uint32_t ways = ways_of(all, width, padded);
        FLXI_TRY(merge_pass(on, from, to, all, width, ways, err));
        void *last = from;
        from = to;
        to = last;
        width *= ways;
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

/* oob: 0 error, 1 zero, 2 clamp. */
const char flxi_card_resolve[] = "FUNCTION i64 resolve(I index, i64 extent, u32 oob, GLOBAL finding *t, u64 node)\n"
                                 "{\n    const i64 k = (i64)index;\n"
                                 "    if (k >= 0 && k < extent)\n        return k;\n"
                                 "    if (oob == 2 && extent > 0)\n        return k < 0 ? 0 : extent - 1;\n"
                                 "    if (oob != 1)\n        found(t, k, extent, 0, node);\n"
                                 "    return -1;\n}\n";
