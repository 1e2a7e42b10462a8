/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kernel_text.c: kernels as text. What parses is valid, and is checked like every kernel; what does not gives an
   error with a location. Most changes are to tokens. */
#include "kernel_checks.h"

#include "kernel/text/kernel_lex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* ---- Changes ---- */

enum { MAX_TOKENS = 3000, MAX_TEXT = 1 << 16 };

static struct {
    flxi_ktoken at[MAX_TOKENS];
    size_t n;
} tokens;

static uint64_t random_state;

static size_t below(size_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n ? (size_t)(random_state >> 33) % n : 0;
}

static flxi_ktoken token_of(const char *s)
{
    flxi_klexer x;
    flxi_klex_start(&x, s, s + strlen(s), s);
    return x.token;
}

static flxi_ktoken any_token(void)
{
    static const char *const some[] = {"0",
                                       "1",
                                       "4",
                                       "7u8",
                                       "2.5",
                                       "1.0f64",
                                       "inf",
                                       "nan",
                                       "true",
                                       "3i32",
                                       "4294967295",
                                       "0x1p-149",
                                       "(",
                                       ")",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ";",
                                       ",",
                                       "=",
                                       "+",
                                       "-",
                                       "*",
                                       "/",
                                       "%",
                                       "&",
                                       "|",
                                       "^",
                                       "~",
                                       "!",
                                       "<",
                                       "<<",
                                       ">>",
                                       "&&",
                                       "||",
                                       "==",
                                       "<=",
                                       "..",
                                       "let",
                                       "if",
                                       "else",
                                       "for",
                                       "in",
                                       "barrier",
                                       "return",
                                       "region",
                                       "buffer",
                                       "fn",
                                       "adjoint",
                                       "read",
                                       "write",
                                       "output",
                                       "read_write",
                                       "uniform",
                                       "workgroup",
                                       "private",
                                       "select",
                                       "fma",
                                       "cast",
                                       "bitcast",
                                       "invocation_id",
                                       "local_id",
                                       "workgroup_id",
                                       "buf_len",
                                       "atomic_add",
                                       "atomic_compare_exchange",
                                       "subgroup_add",
                                       "subgroup_shuffle",
                                       "f32",
                                       "f64",
                                       "f16",
                                       "bf16",
                                       "i8",
                                       "u32",
                                       "i64",
                                       "bool",
                                       "u4",
                                       "grid",
                                       "relaxed",
                                       "stop_gradient",
                                       "distinct"};
    if (tokens.n && below(3))
        return tokens.at[below(tokens.n)];
    if (below(3) == 0)
        return token_of(below(2) ? flxi_kunaries[1 + below(KUN_COUNT - 1)].name
                                 : flxi_kbinaries[1 + below(KBIN_COUNT - 1)].name);
    return token_of(some[below(sizeof some / sizeof some[0])]);
}

/* Another token of the same kind. */
static flxi_ktoken like(flxi_ktoken t)
{
    for (int i = 0; i < 30; i++) {
        flxi_ktoken other = any_token();
        if (other.kind == t.kind)
            return other;
    }
    return t;
}

/* The tokens from..to, put in before `at`. */
static void insert_copy(size_t at, size_t from, size_t n)
{
    static flxi_ktoken copy[MAX_TOKENS];
    if (tokens.n + n > MAX_TOKENS)
        return;
    memcpy(copy, &tokens.at[from], n * sizeof copy[0]);
    memmove(&tokens.at[at + n], &tokens.at[at], (tokens.n - at) * sizeof copy[0]);
    memcpy(&tokens.at[at], copy, n * sizeof copy[0]);
    tokens.n += n;
}

static int is_end(const flxi_ktoken *t)
{
    return t->n == 1 && (*t->s == ';' || *t->s == '{' || *t->s == '}');
}

/* After the end of a statement near a random position. */
static size_t statement(void)
{
    size_t at = below(tokens.n);
    while (at < tokens.n && !is_end(&tokens.at[at]))
        at++;
    return at < tokens.n ? at + 1 : at;
}

static void copy_statement(void)
{
    size_t from = statement();
    size_t end = from;
    while (end < tokens.n && !is_end(&tokens.at[end]))
        end++;
    if (end < tokens.n && *tokens.at[end].s == ';')
        insert_copy(statement(), from, end + 1 - from);
}

static void change_tokens(void)
{
    size_t at = below(tokens.n);
    switch (below(8)) {
    case 0:
        memmove(&tokens.at[at], &tokens.at[at + 1], (tokens.n - at - 1) * sizeof tokens.at[0]);
        tokens.n--;
        break;
    case 1:
        insert_copy(at, below(tokens.n), 1);
        tokens.at[at] = any_token();
        break;
    case 2:
    case 3: copy_statement(); break;
    case 4: tokens.at[at] = any_token(); break;
    default: tokens.at[at] = like(tokens.at[at]); break;
    }
}

static size_t write_tokens(char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < tokens.n && n + tokens.at[i].n + 1 <= room; i++) {
        memcpy(out + n, tokens.at[i].s, tokens.at[i].n);
        n += tokens.at[i].n;
        out[n++] = ' ';
    }
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static char before[MAX_TEXT];
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + size;
    if (size == 0 || size > sizeof before || below(4) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    memcpy(before, data, size);
    flxi_klexer x;
    tokens.n = 0;
    for (flxi_klex_start(&x, before, before + size, before); x.token.kind != KT_END && tokens.n < MAX_TOKENS;
         flxi_klex_next(&x))
        tokens.at[tokens.n++] = x.token;
    for (size_t n = 1 + below(4); n > 0 && tokens.n > 0; n--)
        change_tokens();
    return write_tokens((char *)data, max_size);
}

/* ---- Checks ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_kernel *k = flx_kernel_parse(ctx, (const char *)data, size, "fuzz", &err);
    if (!k)
        need((err.code == FLX_E_KERNEL || err.code == FLX_E_SYNTAX) && err.message[0] &&
             strncmp(err.where, "fuzz:", 5) == 0);
    if (k) {
        need(flxi_kernel_check(k, &err) == FLX_OK);
        check_kernel(k);
    }
    flx_kernel_release(k);
    flx_context_free(ctx);
    return 0;
}
