/* SPDX-License-Identifier: Apache-2.0 */
/* op.c: the op table, made from src/ops/ops.def, and lookups in it. Adding an op needs no change here. */
#include "graph/op/op.h"

#include "base/hash.h"

#include <fluxion/catalogue.h>
#include <pthread.h>

/* ---- Second names ---- */

flx_code flx_op_synonym(size_t i, const char **synonym, const char **name)
{
    for (const flxi_op_synonym *k = flxi_op_synonyms; k->name; k++) {
        if (flxi_op_lookup(k->name, strlen(k->name)) == OP_NONE)
            continue; /* the op it stands for is not in the table */
        if (i-- == 0) {
            if (synonym)
                *synonym = k->synonym;
            if (name)
                *name = k->name;
            return FLX_OK;
        }
    }
    return FLX_E_NAME;
}

const char *flxi_attr_name_of(const flxi_op *op, const char *key)
{
    for (const flxi_attr_synonym *k = flxi_attr_synonyms; k->name; k++)
        if (strcmp(k->synonym, key) == 0 && strcmp(k->op, op->name) == 0)
            return k->name;
    return key;
}

/* ---- Lookup: facts derived from the rows, worked out once per process and constant from then on ---- */

enum { SLOTS = 2048 };
static uint16_t slots[SLOTS]; /* opcodes by hash of their name, open addressing */
static flxi_operands operands[FLXI_MAX_OPS];
static flxi_opcode leaf_ops[2], const_op; /* by traits; leaf_ops[1] is param */
static pthread_once_t derived = PTHREAD_ONCE_INIT;

static size_t slot_of(const char *name, size_t n)
{
    uint64_t h = flxi_hash_bytes(FLXI_HASH_SEED, name, n);
    return (size_t)(h ^ h >> 32) & (SLOTS - 1);
}

static flxi_operands read_operands(const flxi_op *op);

static void derive(void)
{
    for (uint32_t i = 1; i < flxi_op_rows; i++) {
        size_t k = slot_of(flxi_ops[i].name, strlen(flxi_ops[i].name));
        while (slots[k])
            k = (k + 1) & (SLOTS - 1);
        slots[k] = (uint16_t)i;
        operands[i] = read_operands(&flxi_ops[i]);
        if (flxi_ops[i].traits & TRAIT_DECLARED)
            leaf_ops[(flxi_ops[i].traits & TRAIT_PARAM) != 0] = i;
        if (flxi_ops[i].traits & TRAIT_CONST)
            const_op = i;
    }
}

flxi_opcode flxi_leaf_op(bool is_param)
{
    pthread_once(&derived, derive);
    return leaf_ops[is_param];
}

flxi_opcode flxi_const_op(void)
{
    pthread_once(&derived, derive);
    return const_op;
}

static flxi_opcode find_row(const char *name, size_t n)
{
    pthread_once(&derived, derive);
    for (size_t k = slot_of(name, n); slots[k]; k = (k + 1) & (SLOTS - 1)) {
        const char *row = flxi_ops[slots[k]].name;
        if (strncmp(row, name, n) == 0 && row[n] == 0)
            return (flxi_opcode)slots[k];
    }
    return OP_NONE;
}

flxi_opcode flxi_op_lookup(const char *name, size_t n)
{
    if (n == 0)
        return OP_NONE;
    flxi_opcode op = find_row(name, n);
    for (const flxi_op_synonym *k = flxi_op_synonyms; op == OP_NONE && k->name; k++)
        if (strlen(k->synonym) == n && memcmp(k->synonym, name, n) == 0)
            op = find_row(k->name, strlen(k->name));
    return op;
}

const flxi_operands *flxi_operands_of(const flxi_op *op)
{
    pthread_once(&derived, derive);
    return &operands[op - flxi_ops];
}

/* ---- Which rule an op has ---- */

static bool has_partial(const flxi_rules *r)
{
    return r->partial || r->mask;
}

static int32_t batch_kind(const flxi_op *op)
{
    if (op->rules->batch || op->op_class == CLASS_POINTWISE)
        return FLX_RULE_OWN;
    return op->rules->decompose ? FLX_RULE_DECOMPOSE : op->op_class == CLASS_LEAF ? FLX_RULE_OWN : FLX_RULE_LOOP;
}

int32_t flxi_rule_kind(const flxi_op *op, flxi_mode mode)
{
    const flxi_rules *r = op->rules;
    if (mode == MODE_BATCH)
        return batch_kind(op);
    if (mode == MODE_BACKWARD_OPS)
        return r->backward_vjp ? FLX_RULE_OWN : flxi_rule_kind(op, MODE_VJP);
    if (op->traits & TRAIT_ZERO_GRAD || op->op_class == CLASS_LEAF)
        return FLX_RULE_ZERO;
    bool is_linear = (op->traits & (TRAIT_LINEAR | TRAIT_MULTILINEAR)) != 0;
    if (has_partial(r) || (mode == MODE_VJP ? r->vjp != NULL : r->jvp || is_linear))
        return FLX_RULE_OWN;
    if (r->decompose)
        return FLX_RULE_DECOMPOSE;
    if (mode == MODE_JVP && r->vjp)
        return FLX_RULE_OWN; /* by transposing the vjp */
    return r->undefined ? FLX_RULE_UNDEFINED : FLX_RULE_NONE;
}

/* ---- Which values have derivatives ---- */

bool flxi_takes_derivative(const flxi_op *op, int32_t dtype)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, dtype) || (flxi_is_int(dtype) && (op->traits & TRAIT_SHADOW));
}

bool flxi_gives_derivative(const flxi_op *op, int32_t dtype, bool quantised)
{
    if (flxi_is_int(dtype))
        return (op->traits & TRAIT_QUANTISES) || (quantised && (op->traits & TRAIT_SHADOW));
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, dtype);
}

/* ---- Operands and results as the row states them ---- */

static flxi_role role_of(const char *s, size_t n)
{
    static const char *const names = "index pred key any int pair";
    size_t k = 0;
    for (int r = ROLE_INDEX; r <= ROLE_PAIR; r++) {
        size_t len = strcspn(names + k, " ");
        if (len == n && memcmp(names + k, s, n) == 0)
            return (flxi_role)r;
        k += len + 1;
    }
    return ROLE_SAME;
}

static flxi_operands read_operands(const flxi_op *op)
{
    flxi_operands o = {0};
    for (const char *s = op->operands; *s;) {
        size_t n = strcspn(s, ",");
        bool optional = memchr(s, '[', n) != NULL;
        const char *dots = strstr(s, "...");
        if (dots && dots < s + n)
            o.variadic = true;
        const char *colon = memchr(s, ':', n);
        size_t len = 0;
        while (colon && colon + 1 + len < s + n && colon[1 + len] >= 'a' && colon[1 + len] <= 'z')
            len++;
        if (o.count < 8)
            o.role[o.count++] = colon ? role_of(colon + 1, len) : ROLE_SAME;
        if (!optional && !(dots && dots < s + n))
            o.required++;
        s += n;
        while (*s == ',' || *s == ' ')
            s++;
    }
    return o;
}

flxi_role flxi_operand_role(const flxi_operands *o, uint32_t i)
{
    if (o->count == 0)
        return ROLE_SAME;
    return o->role[i < (uint32_t)o->count ? i : (uint32_t)o->count - 1];
}

uint32_t flxi_number_anchor(const flxi_op *op, uint32_t i, uint32_t n, bool (*is_bare)(const void *, uint32_t),
                            const void *user)
{
    const flxi_operands *o = flxi_operands_of(op);
    flxi_role role = flxi_operand_role(o, i);
    if (role == ROLE_PAIR && i >= n / 2 && n % 2 == 0 && !is_bare(user, i - n / 2))
        return i - n / 2;
    for (uint32_t k = 0; role == ROLE_SAME && k < n; k++)
        if (flxi_operand_role(o, k) == ROLE_SAME && !is_bare(user, k))
            return k;
    return UINT32_MAX;
}

int32_t flxi_number_dtype(const flxi_op *op, uint32_t i, bool is_truth)
{
    switch (flxi_operand_role(flxi_operands_of(op), i)) {
    case ROLE_INDEX:
    case ROLE_INT: return FLX_I64;
    case ROLE_PRED: return FLX_BOOL;
    case ROLE_KEY: return FLX_U32;
    default: return is_truth ? FLX_BOOL : FLX_F32;
    }
}

int flxi_fixed_results(const flxi_op *op)
{
    if (strcmp(op->results, "...") == 0)
        return -1;
    int n = 1;
    for (const char *s = op->results; *s; s++)
        n += *s == ',';
    return n;
}
