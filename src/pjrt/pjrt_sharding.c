/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_sharding.c: how arguments and results are cut among devices, as JAX asks for it: protocol buffers OpSharding.
   The fields that are written: 1 the kind (0 replicated, 3 cut); 3 into how many parts each axis is cut, then the
   number of summands and the number of copies; 4 the devices of these tiles in row-major order; 6 whether there are
   copies; 8 the kinds of summands (6) and copies (0) where there are summands. */
#include "pjrt/pjrt.h"

#include "base/strbuf.h"

enum { KIND_CUT = 3, KIND_SUMMANDS = 6, WIRE_VARINT = 0, WIRE_BYTES = 2 };

static void put_varint(flxi_strbuf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        flxi_add_char(b, (char)(v | 0x80));
    flxi_add_char(b, (char)v);
}

static void put_key(flxi_strbuf *b, unsigned number, unsigned kind)
{
    put_varint(b, number << 3 | kind);
}

/* A list of numbers as one field of bytes. */
static void put_numbers(flxi_strbuf *b, unsigned number, const int64_t *v, size_t n)
{
    flxi_strbuf packed;
    flxi_strbuf_init(&packed, b->mem);
    for (size_t i = 0; i < n; i++)
        put_varint(&packed, (uint64_t)v[i]);
    put_key(b, number, WIRE_BYTES);
    put_varint(b, packed.n);
    flxi_add_bytes(b, packed.at, packed.n);
    b->failed |= packed.failed;
    flxi_strbuf_free(&packed);
}

static bool has_tile(const pjrt_slot *slot, size_t device, const int64_t *at)
{
    for (size_t k = 0; k < slot->rank; k++)
        if (slot->at[device * slot->rank + k] != at[k])
            return false;
    return true;
}

/* The devices of each tile in turn, by the summands that they have. */
static void list_devices(const pjrt_slot *slot, size_t num_devices, int64_t *out)
{
    int64_t at[FLX_MAX_RANK] = {0};
    for (size_t n = 0; n < num_devices;) {
        for (int64_t s = 0; s < slot->summands; s++)
            for (size_t d = 0; d < num_devices; d++)
                if (slot->summand[d] == s && has_tile(slot, d, at))
                    out[n++] = (int64_t)d;
        for (size_t k = slot->rank; k-- > 0 && ++at[k] == slot->parts[k];)
            at[k] = 0;
    }
}

static void put_sharding(flxi_strbuf *b, const pjrt_slot *slot, size_t num_devices)
{
    static const int64_t kinds[] = {KIND_SUMMANDS, 0};
    int64_t dims[FLX_MAX_RANK + 2], devices[PJRT_MAX_DEVICES], copies;
    bool is_sum = slot->summands > 1;
    if (!slot->is_cut)
        return; /* nothing says: replicated */
    copies = (int64_t)num_devices / slot->summands;
    for (size_t k = 0; k < slot->rank; k++) {
        dims[k] = slot->parts[k];
        copies /= dims[k];
    }
    dims[slot->rank] = slot->summands;
    dims[slot->rank + is_sum] = copies;
    list_devices(slot, num_devices, devices);
    put_key(b, 1, WIRE_VARINT);
    put_varint(b, KIND_CUT);
    put_numbers(b, 3, dims, slot->rank + is_sum + (copies > 1));
    put_numbers(b, 4, devices, num_devices);
    if (is_sum) {
        put_numbers(b, 8, kinds, 1 + (copies > 1));
    } else if (copies > 1) {
        put_key(b, 6, WIRE_VARINT);
        put_varint(b, 1);
    }
}

/* For a program without results one entry is kept: callers take none for a tuple without elements. */
static bool describe(pjrt_executable *x, const pjrt_slot *slots, size_t n, int which)
{
    size_t count = n ? n : 1;
    const char **texts = flxi_new(&x->arena, const char *, count);
    size_t *sizes = flxi_new(&x->arena, size_t, count);
    bool is_complete = texts && sizes;
    for (size_t i = 0; is_complete && i < count; i++) {
        flxi_strbuf b;
        flxi_strbuf_init(&b, &flxi_pjrt_mem);
        if (i < n)
            put_sharding(&b, &slots[i], x->num_devices);
        sizes[i] = b.n;
        texts[i] = flxi_arena_text(&x->arena, b.n ? b.at : "", b.n);
        is_complete = texts[i] && !b.failed;
        flxi_strbuf_free(&b);
    }
    x->shardings[which] = texts;
    x->sharding_sizes[which] = sizes;
    return is_complete;
}

pjrt_error *flxi_pjrt_describe_shardings(pjrt_executable *x)
{
    if (x->num_devices == 1)
        return NULL;
    bool is_complete = describe(x, x->args, x->num_args, 0) && describe(x, x->results, x->num_results, 1);
    return is_complete ? NULL : flxi_pjrt_oom();
}

/* ---- The extension ---- */

static pjrt_error *answer(pjrt_sharding_args *a, int which, size_t n)
{
    a->count = n;
    a->protos = a->executable->shardings[which];
    a->sizes = a->executable->sharding_sizes[which];
    return NULL;
}

static pjrt_error *parameter_shardings(void *args)
{
    return answer(args, 0, ((pjrt_sharding_args *)args)->executable->num_args);
}

static pjrt_error *output_shardings(void *args)
{
    size_t n = ((pjrt_sharding_args *)args)->executable->num_results;
    return answer(args, 1, n ? n : 1);
}

pjrt_shardings_extension flxi_pjrt_shardings_extension = {
    .struct_size = sizeof(pjrt_shardings_extension),
    .type = PJRT_EXTENSION_SHARDINGS,
    .parameter_shardings = parameter_shardings,
    .output_shardings = output_shardings,
};
