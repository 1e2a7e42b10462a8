/* SPDX-License-Identifier: Apache-2.0 */
/* readers.h: what the attacks on readers share. Everything that reads bytes from outside is given valid files that were
   changed, and then the checks of its fuzz target. */
#ifndef FLX_ADVERSARY_READERS_H
#define FLX_ADVERSARY_READERS_H

#include "adversary/adversary.h"
#include "adversary/mutate/mutate.h"
#include "adversary/target/targets.h"

/* The input of the case, in the making. */
extern uint8_t input[MUTATE_ROOM];

/* These bytes, at most half of the room: changes may make them longer. Returns how many. */
size_t begin_with(const void *bytes, size_t size);

/* The checks of a fuzz target on the input, or on the file that was given instead of it. */
void check(target_check target, size_t size);

void note_accepted(bool accepted);

/* ---- Guided changes to bytes ---- */

typedef size_t (*byte_change)(uint8_t *data, size_t size, size_t room);
typedef bool (*byte_check)(const uint8_t *data, size_t size);

/* Several changes, most of which the reader accepts; then perhaps one that it may not. */
size_t change_bytes(uint8_t *data, size_t size, size_t room, byte_change change, byte_check accepts);

/* ---- Texts (read_texts.c) ---- */

typedef struct {
    const char *suffix, *comment, *words;
    const char *const *corpus;
    bool (*accepts)(const char *text, size_t size);
    language l; /* loaded when it is first used */
    seed_list seeds;
    word_list dictionary;
} text_form;

extern const char *const graph_corpus[];

const language *language_of(text_form *f);
bool is_stablehlo(const char *text, size_t size);

#endif
