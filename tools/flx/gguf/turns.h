/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h: how models expect the turns of a conversation to be written. */
#ifndef FLX_TURNS_H
#define FLX_TURNS_H

#include <fluxion/gguf.h>

/* What is written before and after what the user and the model say. */
typedef struct {
    const char *name;
    const char *mark;                         /* the template of the file has this text */
    const char *system_before, *system_after; /* NULL: a system text is put before what the user says first */
    const char *user_before, *user_after;     /* … after it the model begins */
    const char *model_after;
} turn_form;

/* The form of the file's chat template, or that of plain text where it has none or one that is not known. */
const turn_form *turn_form_of(const flx_gguf *f);
const turn_form *turn_form_plain(void);

#endif
