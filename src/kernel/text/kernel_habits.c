/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_habits.c: hints for kernel text that follows the habits of C, CUDA and OpenCL. They are looked for only where
   the text is wrong already. */
#include "kernel/text/kernel_reader.h"

#include <ctype.h>
#include <stdio.h>

typedef struct {
    const char *there, *here;
} habit;

static const char *find_habit(const habit *rows, size_t count, const char *s, size_t n)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].there) == n && memcmp(rows[i].there, s, n) == 0)
            return rows[i].here;
    return NULL;
}

const char *flxi_khabit_function(const char *name)
{
    static const habit rows[] = {
        {"get_global_id", "write invocation_id(0)"},
        {"get_local_id", "write local_id(0)"},
        {"get_group_id", "write workgroup_id(0)"},
        {"get_num_groups", "write num_workgroups(0)"},
        {"__syncthreads", "write barrier();"},
        {"syncthreads", "write barrier();"},
        {"atomicAdd", "write atomic_add(buf[i], e)"},
        {"atomicMax", "write atomic_max(buf[i], e)"},
        {"atomicMin", "write atomic_min(buf[i], e)"},
        {"atomicExch", "write atomic_exchange(buf[i], e)"},
        {"atomicCAS", "write atomic_compare_exchange(buf[i], expected, e)"},
        {"float", "write cast<f32>(e)"},
        {"double", "write cast<f64>(e)"},
        {"int", "write cast<i32>(e)"},
        {"uint", "write cast<u32>(e)"},
        {"length", "write buf_len(buf)"},
        {"len", "write buf_len(buf)"},
    };
    return find_habit(rows, sizeof rows / sizeof *rows, name, strlen(name));
}

/* The word that ends before `at`, blanks aside. */
static size_t word_before(const char *text, const char *at, const char **word)
{
    while (at > text && isspace((unsigned char)at[-1]))
        at--;
    const char *end = at;
    while (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
        at--;
    *word = at;
    return (size_t)(end - at);
}

static bool is_type(const char *s, size_t n)
{
    static const char *const words[] = {"float", "double", "int",   "uint", "bool",     "unsigned", "half",
                                        "auto",  "var",    "const", "char", "f32",      "f64",      "f16",
                                        "i32",   "i64",    "u32",   "u64",  "uint32_t", "int32_t"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0)
            return true;
    return false;
}

/* threadIdx.x and the like, at the dot. */
static const char *hint_member(const char *word, size_t n)
{
    static const habit rows[] = {
        {"threadIdx", "write local_id(0)"},
        {"blockIdx", "write workgroup_id(0)"},
        {"gridDim", "write num_workgroups(0)"},
        {"blockDim", "write the number that `workgroup = [x, y, z]` gives"},
        {"gl_GlobalInvocationID", "write invocation_id(0)"},
    };
    const char *here = find_habit(rows, sizeof rows / sizeof *rows, word, n);
    return here ? here : "there are no members; the length of a buffer is buf_len(buf)";
}

const char *flxi_khabit(const flxi_kparser *p, const char *what, char *buffer, size_t size)
{
    const flxi_ktoken *t = &p->x.token;
    const char *word;
    size_t n = word_before(p->x.text, t->s, &word);
    char before = t->s > p->x.text ? t->s[-1] : 0;
    buffer[0] = 0;
    if (flxi_ktoken_is(t, "graph") && !p->b)
        return "it holds graphs: flx check and flx run read it, in C flx_parse()";
    if (t->kind == KT_MARK && *t->s == '=' && before && strchr("+-*/%&|^", before))
        snprintf(buffer, size, "there is no %c=: write a = a %c e%s", before, before,
                 before == '+' ? "; invocations that share an element use atomic_add(buf[i], e)" : "");
    else if (t->kind == KT_MARK && before == *t->s && (*t->s == '+' || *t->s == '-'))
        snprintf(buffer, size, "there is no %c%c: write i = i %c 1", before, before, before);
    else if (*t->s == '?')
        return "write select(condition, a, b)";
    else if (*t->s == '.' && n)
        return hint_member(word, n);
    else if (strcmp(what, "in") == 0)
        return "write for (i in 0..n) { … }";
    else if (strcmp(what, "'{'") == 0 && p->b)
        return "bodies are written in braces: { … }";
    else if (strcmp(what, "';'") == 0 && t->kind == KT_NAME && is_type(word, n))
        snprintf(buffer, size, "write let %.*s = …; a number may have its type as a suffix, as in 1.0f64",
                 (int)(t->n < 40 ? t->n : 40), t->s);
    return buffer[0] ? buffer : NULL;
}
