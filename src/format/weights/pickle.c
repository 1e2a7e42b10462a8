/* SPDX-License-Identifier: Apache-2.0 */
/* pickle.c: see pickle.h. Every value takes at least one byte of the pickle, and stored values are numbered without
   gaps, so memory is in proportion to the bytes. Operations are rows of a table; what has no row is refused. */
#include "format/weights/pickle.h"

#include "format/endian.h"
#include "graph/type/type.h"

typedef flxi_pickle_value value;

typedef struct {
    flxi_pickle *p;
    const flxi_allocator *mem;
    const unsigned char *bytes;
    size_t size, at; /* at: after the operation and its operand */
    size_t began;    /* the current operation */
    FLXI_VEC(const value *) stack, stored;
    FLXI_VEC(size_t) marks; /* heights of the stack */
    const unsigned char *operand;
    bool is_done;
    flx_error *err;
} machine;

static flx_code malformed(machine *m, const char *what)
{
    return flxi_fail(m->err, FLX_E_SYNTAX, "pickle: %s", what);
}

/* ---- Names that are allowed ---- */

typedef enum {
    NAME_DICT,
    NAME_SIZE,
    NAME_STORAGE,      /* a type of storages */
    NAME_DTYPE,        /* of a tensor over bytes */
    NAME_TENSOR,       /* (storage, offset, size, strides, …) */
    NAME_TENSOR_DTYPE, /* (storage, offset, size, strides, …, dtype at 6, …) */
    NAME_PARAMETER     /* (tensor, …) */
} name_role;

static const struct {
    const char *module, *name;
    name_role role;
    int32_t dtype;
} names[] = {
    {"collections", "OrderedDict", NAME_DICT, 0},
    {"torch", "Size", NAME_SIZE, 0},
    {"torch", "DoubleStorage", NAME_STORAGE, FLX_F64},
    {"torch", "FloatStorage", NAME_STORAGE, FLX_F32},
    {"torch", "HalfStorage", NAME_STORAGE, FLX_F16},
    {"torch", "BFloat16Storage", NAME_STORAGE, FLX_BF16},
    {"torch", "ComplexFloatStorage", NAME_STORAGE, FLX_C64},
    {"torch", "ComplexDoubleStorage", NAME_STORAGE, FLX_C128},
    {"torch", "LongStorage", NAME_STORAGE, FLX_I64},
    {"torch", "IntStorage", NAME_STORAGE, FLX_I32},
    {"torch", "ShortStorage", NAME_STORAGE, FLX_I16},
    {"torch", "CharStorage", NAME_STORAGE, FLX_I8},
    {"torch", "ByteStorage", NAME_STORAGE, FLX_U8},
    {"torch", "BoolStorage", NAME_STORAGE, FLX_BOOL},
    {"torch.storage", "UntypedStorage", NAME_STORAGE, FLX_DTYPE_NONE},
    {"torch", "uint16", NAME_DTYPE, FLX_U16},
    {"torch", "uint32", NAME_DTYPE, FLX_U32},
    {"torch", "uint64", NAME_DTYPE, FLX_U64},
    {"torch._utils", "_rebuild_tensor", NAME_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", NAME_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v3", NAME_TENSOR_DTYPE, 0},
    {"torch._utils", "_rebuild_parameter", NAME_PARAMETER, 0},
};

static bool is_text(const char *s, size_t n, const char *text)
{
    return strlen(text) == n && memcmp(s, text, n) == 0;
}

/* ---- Values ---- */

static value *make(machine *m, flxi_pickle_kind kind)
{
    value *v = flxi_new(&m->p->arena, value, 1);
    if (!v || !flxi_push(m->mem, &m->p->all, v)) {
        flxi_oom(m->err, "a pickle");
        return NULL;
    }
    v->kind = kind;
    return v;
}

static flx_code push(machine *m, const value *v)
{
    if (!v)
        return FLX_E_OOM;
    return flxi_push(m->mem, &m->stack, v) ? FLX_OK : flxi_oom(m->err, "a pickle");
}

/* The lowest value that operations may take: what is above the last mark. */
static size_t floor_of(const machine *m)
{
    return m->marks.n ? m->marks.at[m->marks.n - 1] : 0;
}

static flx_code pop(machine *m, const value **out)
{
    if (m->stack.n <= floor_of(m))
        return malformed(m, "the stack is empty");
    *out = m->stack.at[--m->stack.n];
    return FLX_OK;
}

static flx_code top(machine *m, flxi_pickle_kind kind, value **out)
{
    if (m->stack.n <= floor_of(m))
        return malformed(m, "the stack is empty");
    *out = (value *)(uintptr_t)m->stack.at[m->stack.n - 1]; /* all values are made by make() */
    return (*out)->kind == kind ? FLX_OK : malformed(m, "the value has another type than the operation needs");
}

static flx_code add_item(machine *m, value *to, const value *item)
{
    return flxi_push(m->mem, &to->items, item) ? FLX_OK : flxi_oom(m->err, "a pickle");
}

/* Moves the values from `first` on into the items of `to`. */
static flx_code take_items(machine *m, value *to, size_t first)
{
    for (size_t i = first; i < m->stack.n; i++)
        FLXI_TRY(add_item(m, to, m->stack.at[i]));
    m->stack.n = first;
    return FLX_OK;
}

/* Ends the last mark; *first is the first value above it. */
static flx_code end_mark(machine *m, size_t *first)
{
    if (m->marks.n == 0)
        return malformed(m, "there is no mark");
    *first = m->marks.at[--m->marks.n];
    return FLX_OK;
}

/* ---- Storages and tensors ---- */

static const value *item(const value *v, size_t i, flxi_pickle_kind kind)
{
    return i < v->items.n && v->items.at[i]->kind == kind ? v->items.at[i] : NULL;
}

static int role_of(const value *v)
{
    return v && v->kind == FLXI_PICKLE_NAME ? (int)names[v->position].role : -1;
}

/* ("storage", type, entry, device, count) */
static flx_code push_storage(machine *m, const value *id)
{
    const value *word = item(id, 0, FLXI_PICKLE_TEXT), *type = item(id, 1, FLXI_PICKLE_NAME),
                *entry = item(id, 2, FLXI_PICKLE_TEXT), *count = item(id, 4, FLXI_PICKLE_NUMBER);
    if (id->kind != FLXI_PICKLE_TUPLE || !word || !is_text(word->text, word->size, "storage") ||
        role_of(type) != NAME_STORAGE || !entry || !count || count->number < 0)
        return malformed(m, "the description of a storage is invalid");
    value *v = make(m, FLXI_PICKLE_STORAGE);
    flxi_pickle_storage *s = v ? flxi_new(&m->p->arena, flxi_pickle_storage, 1) : NULL;
    if (!s)
        return flxi_oom(m->err, "a pickle");
    *s = (flxi_pickle_storage){names[type->position].dtype, entry->text, entry->size, count->number};
    v->storage = s;
    return push(m, v);
}

/* Whether the elements are within `count` of the storage, and are not more than these. */
static bool is_within(const flxi_pickle_tensor *t, int64_t count)
{
    int64_t elements = 1, last = t->offset;
    for (int i = 0; i < t->type.rank; i++) {
        int64_t span;
        if (t->type.dims[i] < 0 || t->strides[i] < 0 || __builtin_mul_overflow(elements, t->type.dims[i], &elements))
            return false;
        if (t->type.dims[i] > 0 && (__builtin_mul_overflow(t->type.dims[i] - 1, t->strides[i], &span) ||
                                    __builtin_add_overflow(last, span, &last)))
            return false;
    }
    return t->offset >= 0 && elements <= count && (elements == 0 || last < count);
}

static flx_code fill_tensor(machine *m, const value *args, int32_t dtype, flxi_pickle_tensor *t)
{
    const value *storage = item(args, 0, FLXI_PICKLE_STORAGE), *offset = item(args, 1, FLXI_PICKLE_NUMBER),
                *size = item(args, 2, FLXI_PICKLE_TUPLE), *strides = item(args, 3, FLXI_PICKLE_TUPLE);
    if (!storage || !offset || !size || !strides || size->items.n != strides->items.n)
        return malformed(m, "the description of a tensor is invalid");
    if (size->items.n > FLX_MAX_RANK)
        return flxi_fail(m->err, FLX_E_UNSUPPORTED, "a tensor has %zu dimensions, the limit is %d", size->items.n,
                         FLX_MAX_RANK);
    t->storage = storage->storage;
    t->offset = offset->number;
    t->type = flx_type_make((flx_dtype)(dtype ? dtype : storage->storage->dtype), 0, NULL);
    if (t->type.dtype == FLX_DTYPE_NONE)
        return malformed(m, "a tensor has no dtype");
    for (; t->type.rank < (int32_t)size->items.n; t->type.rank++) {
        const value *dim = item(size, (size_t)t->type.rank, FLXI_PICKLE_NUMBER),
                    *stride = item(strides, (size_t)t->type.rank, FLXI_PICKLE_NUMBER);
        if (!dim || !stride)
            return malformed(m, "the description of a tensor is invalid");
        t->type.dims[t->type.rank] = dim->number;
        t->strides[t->type.rank] = stride->number;
    }
    int64_t count = storage->storage->count;
    if (storage->storage->dtype == FLX_DTYPE_NONE)
        count /= (int64_t)flx_dtype_size(t->type.dtype);
    return is_within(t, count) ? FLX_OK : malformed(m, "a tensor has elements that its storage does not have");
}

static flx_code push_tensor(machine *m, const value *args, int32_t dtype)
{
    value *v = make(m, FLXI_PICKLE_TENSOR);
    v = v && (v->tensor = flxi_new(&m->p->arena, flxi_pickle_tensor, 1)) ? v : NULL;
    if (!v)
        return flxi_oom(m->err, "a pickle");
    FLXI_TRY(fill_tensor(m, args, dtype, v->tensor));
    return push(m, v);
}

/* ---- Operations ---- */

static flx_code op_nothing(machine *m)
{
    (void)m;
    return FLX_OK;
}

static flx_code op_protocol(machine *m)
{
    return m->operand[0] <= 5 ? FLX_OK : malformed(m, "its protocol is not known");
}

static flx_code op_stop(machine *m)
{
    m->is_done = true;
    FLXI_TRY(pop(m, &m->p->root));
    return m->stack.n == 0 && m->marks.n == 0 ? FLX_OK : malformed(m, "it ends with more than one value");
}

static flx_code op_mark(machine *m)
{
    return flxi_push(m->mem, &m->marks, m->stack.n) ? FLX_OK : flxi_oom(m->err, "a pickle");
}

static flx_code op_none(machine *m)
{
    return push(m, make(m, FLXI_PICKLE_NONE));
}

static flx_code op_dict(machine *m)
{
    return push(m, make(m, FLXI_PICKLE_DICT));
}

static flx_code op_list(machine *m)
{
    return push(m, make(m, FLXI_PICKLE_LIST));
}

static flx_code op_empty_tuple(machine *m)
{
    return push(m, make(m, FLXI_PICKLE_TUPLE));
}

static flx_code push_number(machine *m, int64_t number)
{
    value *v = make(m, FLXI_PICKLE_NUMBER);
    if (v)
        v->number = number;
    return push(m, v);
}

static flx_code op_true(machine *m)
{
    return push_number(m, 1);
}

static flx_code op_false(machine *m)
{
    return push_number(m, 0);
}

static flx_code op_int1(machine *m)
{
    return push_number(m, m->operand[0]);
}

static flx_code op_int2(machine *m)
{
    return push_number(m, flxi_get16(m->operand));
}

static flx_code op_int4(machine *m)
{
    return push_number(m, (int32_t)flxi_get32(m->operand));
}

/* The operand of variable length: n bytes after the operation's own operand. */
static flx_code take(machine *m, uint64_t n, const unsigned char **out)
{
    if (n > m->size - m->at)
        return malformed(m, "it ends too early");
    *out = m->bytes + m->at;
    m->at += (size_t)n;
    return FLX_OK;
}

/* Integers in two's complement of up to 8 bytes. */
static flx_code op_long(machine *m)
{
    const unsigned char *p = NULL;
    size_t n = m->operand[0];
    FLXI_TRY(take(m, n, &p));
    if (n > 8)
        return malformed(m, "an integer does not fit 64 bits");
    uint64_t x = n && p[n - 1] & 128 ? UINT64_MAX : 0;
    for (size_t i = n; i-- > 0;)
        x = x << 8 | p[i];
    return push_number(m, (int64_t)x);
}

static flx_code push_text(machine *m, uint64_t size)
{
    const unsigned char *p = NULL;
    FLXI_TRY(take(m, size, &p));
    value *v = make(m, FLXI_PICKLE_TEXT);
    if (v) {
        v->text = (const char *)p;
        v->size = (size_t)size;
    }
    return push(m, v);
}

static flx_code op_text1(machine *m)
{
    return push_text(m, m->operand[0]);
}

static flx_code op_text4(machine *m)
{
    return push_text(m, flxi_get32(m->operand));
}

static flx_code store(machine *m, uint64_t number)
{
    if (m->stack.n <= floor_of(m))
        return malformed(m, "the stack is empty");
    const value *v = m->stack.at[m->stack.n - 1];
    if (number > m->stored.n)
        return malformed(m, "stored values are not numbered in order");
    if (number < m->stored.n)
        m->stored.at[number] = v;
    else if (!flxi_push(m->mem, &m->stored, v))
        return flxi_oom(m->err, "a pickle");
    return FLX_OK;
}

static flx_code op_store1(machine *m)
{
    return store(m, m->operand[0]);
}

static flx_code op_store4(machine *m)
{
    return store(m, flxi_get32(m->operand));
}

static flx_code op_store_next(machine *m)
{
    return store(m, m->stored.n);
}

static flx_code fetch(machine *m, uint64_t number)
{
    return number < m->stored.n ? push(m, m->stored.at[number]) : malformed(m, "no value has the number");
}

static flx_code op_fetch1(machine *m)
{
    return fetch(m, m->operand[0]);
}

static flx_code op_fetch4(machine *m)
{
    return fetch(m, flxi_get32(m->operand));
}

static flx_code push_tuple(machine *m, size_t first)
{
    value *v = make(m, FLXI_PICKLE_TUPLE);
    if (!v)
        return FLX_E_OOM;
    FLXI_TRY(take_items(m, v, first));
    return push(m, v);
}

static flx_code op_tuple(machine *m)
{
    size_t first = 0;
    FLXI_TRY(end_mark(m, &first));
    return push_tuple(m, first);
}

static flx_code short_tuple(machine *m, size_t n)
{
    return m->stack.n - floor_of(m) >= n ? push_tuple(m, m->stack.n - n) : malformed(m, "the stack is empty");
}

static flx_code op_tuple1(machine *m)
{
    return short_tuple(m, 1);
}

static flx_code op_tuple2(machine *m)
{
    return short_tuple(m, 2);
}

static flx_code op_tuple3(machine *m)
{
    return short_tuple(m, 3);
}

static flx_code op_append(machine *m)
{
    const value *v = NULL;
    value *list = NULL;
    FLXI_TRY(pop(m, &v));
    FLXI_TRY(top(m, FLXI_PICKLE_LIST, &list));
    return add_item(m, list, v);
}

/* Moves what is above the mark into the container below it. */
static flx_code extend(machine *m, flxi_pickle_kind kind)
{
    size_t first = 0;
    value *to = NULL;
    FLXI_TRY(end_mark(m, &first));
    size_t n = m->stack.n - first;
    if (kind == FLXI_PICKLE_DICT && n % 2)
        return malformed(m, "a key has no value");
    m->stack.n = first;
    FLXI_TRY(top(m, kind, &to));
    m->stack.n = first + n;
    return take_items(m, to, first);
}

static flx_code op_appends(machine *m)
{
    return extend(m, FLXI_PICKLE_LIST);
}

static flx_code op_set_items(machine *m)
{
    return extend(m, FLXI_PICKLE_DICT);
}

static flx_code op_set_item(machine *m)
{
    const value *key = NULL, *v = NULL;
    value *dict = NULL;
    FLXI_TRY(pop(m, &v));
    FLXI_TRY(pop(m, &key));
    FLXI_TRY(top(m, FLXI_PICKLE_DICT, &dict));
    FLXI_TRY(add_item(m, dict, key));
    return add_item(m, dict, v);
}

/* Attributes of an object: those of a dict, such as versions of modules, are not needed. */
static flx_code op_build(machine *m)
{
    const value *state = NULL;
    value *dict = NULL;
    FLXI_TRY(pop(m, &state));
    return top(m, FLXI_PICKLE_DICT, &dict);
}

static flx_code push_name(machine *m, const char *module, size_t module_size, const char *name, size_t name_size)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_text(module, module_size, names[i].module) && is_text(name, name_size, names[i].name)) {
            value *v = make(m, FLXI_PICKLE_NAME);
            if (v)
                v->position = (int)i;
            return push(m, v);
        }
    char shown[2][60];
    return flxi_fail_hint(m->err, FLX_E_UNSUPPORTED,
                          "only tensors, dicts, lists, tuples, texts and numbers are read: save module.state_dict()",
                          "pickle: it uses %s.%s, which is refused",
                          flxi_printable(shown[0], sizeof shown[0], module, module_size),
                          flxi_printable(shown[1], sizeof shown[1], name, name_size));
}

/* Two lines. */
static flx_code op_name(machine *m)
{
    const char *part[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        part[i] = (const char *)m->bytes + m->at;
        const char *end = memchr(part[i], '\n', m->size - m->at);
        if (!end)
            return malformed(m, "it ends too early");
        size[i] = (size_t)(end - part[i]);
        m->at += size[i] + 1;
    }
    return push_name(m, part[0], size[0], part[1], size[1]);
}

static flx_code op_name_of_texts(machine *m)
{
    const value *module = NULL, *name = NULL;
    FLXI_TRY(pop(m, &name));
    FLXI_TRY(pop(m, &module));
    if (module->kind != FLXI_PICKLE_TEXT || name->kind != FLXI_PICKLE_TEXT)
        return malformed(m, "a name is not a text");
    return push_name(m, module->text, module->size, name->text, name->size);
}

static flx_code op_storage(machine *m)
{
    const value *id = NULL;
    FLXI_TRY(pop(m, &id));
    return push_storage(m, id);
}

static flx_code op_call(machine *m)
{
    const value *args = NULL, *callee = NULL;
    FLXI_TRY(pop(m, &args));
    FLXI_TRY(pop(m, &callee));
    int role = role_of(callee);
    const value *first = args->kind == FLXI_PICKLE_TUPLE && args->items.n ? args->items.at[0] : NULL;
    if (args->kind != FLXI_PICKLE_TUPLE)
        return malformed(m, "the arguments of a call are not a tuple");
    if (role == NAME_DICT && !first)
        return op_dict(m);
    if (role == NAME_SIZE && first && first->kind == FLXI_PICKLE_TUPLE)
        return push(m, first);
    if (role == NAME_PARAMETER && first && first->kind == FLXI_PICKLE_TENSOR)
        return push(m, first);
    if (role == NAME_TENSOR)
        return push_tensor(m, args, FLX_DTYPE_NONE);
    const value *dtype = item(args, 6, FLXI_PICKLE_NAME);
    if (role == NAME_TENSOR_DTYPE && role_of(dtype) == NAME_DTYPE)
        return push_tensor(m, args, names[dtype->position].dtype);
    return flxi_fail(m->err, FLX_E_UNSUPPORTED, "pickle: a call is refused: it does not make a tensor or a dict");
}

/* X(operation, bytes of its operand, function) */
#define OPERATIONS(X)            \
    X(0x80, 1, op_protocol)      \
    X(0x95, 8, op_nothing)       \
    X('.', 0, op_stop)           \
    X('(', 0, op_mark)           \
    X('N', 0, op_none)           \
    X('}', 0, op_dict)           \
    X(']', 0, op_list)           \
    X(')', 0, op_empty_tuple)    \
    X(0x88, 0, op_true)          \
    X(0x89, 0, op_false)         \
    X('K', 1, op_int1)           \
    X('M', 2, op_int2)           \
    X('J', 4, op_int4)           \
    X(0x8a, 1, op_long)          \
    X('G', 8, op_false)          \
    X(0x8c, 1, op_text1)         \
    X('X', 4, op_text4)          \
    X('q', 1, op_store1)         \
    X('r', 4, op_store4)         \
    X(0x94, 0, op_store_next)    \
    X('h', 1, op_fetch1)         \
    X('j', 4, op_fetch4)         \
    X('t', 0, op_tuple)          \
    X(0x85, 0, op_tuple1)        \
    X(0x86, 0, op_tuple2)        \
    X(0x87, 0, op_tuple3)        \
    X('a', 0, op_append)         \
    X('e', 0, op_appends)        \
    X('s', 0, op_set_item)       \
    X('u', 0, op_set_items)      \
    X('b', 0, op_build)          \
    X('c', 0, op_name)           \
    X(0x93, 0, op_name_of_texts) \
    X('Q', 0, op_storage)        \
    X('R', 0, op_call)

static const struct {
    uint8_t operand;
    flx_code (*run)(machine *m);
} operations[256] = {
#define ROW(code, operand, run) [code] = {operand, run},
    OPERATIONS(ROW)
#undef ROW
};

static flx_code step(machine *m)
{
    m->began = m->at;
    if (m->at == m->size)
        return malformed(m, "it ends too early");
    unsigned code = m->bytes[m->at++];
    if (!operations[code].run)
        return flxi_fail_hint(
            m->err, FLX_E_UNSUPPORTED,
            "only tensors, dicts, lists, tuples, texts and numbers are read: save module.state_dict()",
            "pickle: the operation 0x%02x is refused", code);
    FLXI_TRY(take(m, operations[code].operand, &m->operand));
    return operations[code].run(m);
}

flx_code flxi_pickle_read(flxi_pickle *p, const flxi_allocator *mem, const unsigned char *bytes, size_t size,
                          size_t *offset, flx_error *err)
{
    machine m = {.p = p, .mem = mem, .bytes = bytes, .size = size, .err = err};
    *p = (flxi_pickle){.root = NULL};
    flxi_arena_init(&p->arena, mem);
    flx_code code = FLX_OK;
    while (code == FLX_OK && !m.is_done)
        code = step(&m);
    *offset = m.began;
    flxi_vec_free(mem, &m.stack);
    flxi_vec_free(mem, &m.stored);
    flxi_vec_free(mem, &m.marks);
    return code;
}

void flxi_pickle_free(flxi_pickle *p)
{
    const flxi_allocator *mem = p->arena.mem;
    for (size_t i = 0; i < p->all.n; i++)
        flxi_vec_free(mem, &p->all.at[i]->items);
    flxi_vec_free(mem, &p->all);
    flxi_arena_free(&p->arena);
}
