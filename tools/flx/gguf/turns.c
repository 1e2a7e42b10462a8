/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c: see turns.h. Files hold a template as a program in a language of its own. It is not run: its family is
   recognised by a control token that only that family has. */
#include "gguf/turns.h"

#include <string.h>

static const turn_form forms[] = {
    {"chatml", "<|im_start|>", "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n",
     "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n"},
    {"llama3", "<|start_header_id|>", "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>",
     "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     "<|eot_id|>"},
    {"gemma", "<start_of_turn>", NULL, NULL, "<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n",
     "<end_of_turn>\n"},
    {"phi3", "<|assistant|>", "<|system|>\n", "<|end|>\n", "<|user|>\n", "<|end|>\n<|assistant|>\n", "<|end|>\n"},
    {"mistral", "[INST]", NULL, NULL, "[INST] ", " [/INST]", "</s>"},
};

static const turn_form plain = {"plain", "", NULL, NULL, "", "", ""};

static int has_text(const char *s, size_t n, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= n; i++)
        if (memcmp(s + i, part, size) == 0)
            return 1;
    return 0;
}

const turn_form *turn_form_plain(void)
{
    return &plain;
}

const turn_form *turn_form_of(const flx_gguf *f)
{
    size_t n = 0;
    const char *text = flx_gguf_string(f, flx_gguf_find(f, "tokenizer.chat_template"), 0, &n);
    for (size_t i = 0; text && i < sizeof forms / sizeof *forms; i++)
        if (has_text(text, n, forms[i].mark))
            return &forms[i];
    return &plain;
}
