/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.h: changes to valid inputs that keep most of their structure. All choices come from one sequence of random
   numbers, which begins with the seed of the case. */
#ifndef FLX_ADVERSARY_MUTATE_H
#define FLX_ADVERSARY_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MUTATE_ROOM = 1 << 18 };

void mutate_begin(uint64_t seed);
size_t pick_below(size_t n); /* 0 … n - 1; 0 for n = 0 */
uint64_t pick_bits(void);

/* An integer that programs get wrong: small, a power of two, next to one, all bits. */
uint64_t odd_integer(void);

/* ---- Seeds (seeds.c) ---- */

typedef struct {
    char *bytes;
    size_t size;
    const char *path;
    int validity; /* 0 not known, 1 accepted by its reader, 2 not */
} seed_file;

typedef struct {
    seed_file *files;
    size_t n;
} seed_list;

/* Files of the source tree in these folders, and below, whose names end in `suffix` ("" for any), sorted by path.
   Comment lines, which begin with `comment` (NULL: none), are left out. The folders are a list that ends with NULL. */
seed_list load_seeds(const char *const *folders, const char *suffix, const char *comment);
const seed_file *pick_seed(const seed_list *l);

/* Words of a libFuzzer dictionary in tests/fuzz. */
typedef struct {
    char **words;
    size_t n;
} word_list;
word_list load_words(const char *name);

/* ---- Text ---- */

typedef struct {
    const word_list *words;                         /* of the language */
    const seed_list *seeds;                         /* where statements come from */
    bool (*accepts)(const char *text, size_t size); /* whether it is valid; NULL: not known */
} language;

/* One of its seeds; as a rule a valid one. */
const seed_file *pick_text(const language *l);

/* Changes tokens, lists, statements and blocks of a text in the manner of C; several changes as a rule. Where it is
   known what is valid, most changes that make a valid text invalid are undone, so that the result differs much from the
   seed and still gets past the reader. Writes at most `room` bytes to `out`, which must not overlap the text; returns
   how many. */
size_t mutate_text(const language *l, const char *text, size_t size, char *out, size_t room);

/* ---- Bytes ---- */

/* The same name and meaning as libFuzzer's: one change to the bytes in place; returns the new size. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Puts `n` bytes of `what`, which may be part of the data, in place of `old` bytes at `at`. Returns the new size,
   or the old one when there is no room. */
size_t replace_bytes(uint8_t *data, size_t size, size_t room, size_t at, size_t old, const void *what, size_t n);
void put_integer(uint8_t *at, size_t width, uint64_t v); /* little-endian */
uint64_t get_integer(const uint8_t *at, size_t width);

/* A number near to this one, a small one, or an odd one. */
uint64_t near_integer(uint64_t v);

/* Changes the payload of a graph in its binary form: names, numbers, whole nodes. Returns the new size. */
size_t mutate_graph_payload(uint8_t *data, size_t size, size_t room);

/* Changes an archive: entries are changed by their kind, removed, doubled, renamed, and written again with correct
   checksums; sometimes fields of the result are changed too. */
size_t mutate_zip(uint8_t *data, size_t size, size_t room, const language *l);
size_t mutate_npy(uint8_t *data, size_t size, size_t room, const language *l);
size_t mutate_safetensors(uint8_t *data, size_t size, size_t room, const language *l);

/* Models: fields are changed, removed, doubled, moved, and lengths and counts around them corrected as a rule. */
size_t mutate_protobuf(uint8_t *data, size_t size, size_t room); /* ONNX */
size_t mutate_mlir(uint8_t *data, size_t size, size_t room);     /* StableHLO bytecode */
size_t mutate_gguf(uint8_t *data, size_t size, size_t room);

#endif
