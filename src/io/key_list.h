/* key_list.h: the first few names that a file has, for the hint of "no such key". */
#ifndef FLXI_KEY_LIST_H
#define FLXI_KEY_LIST_H

#include <fluxion/types.h>

typedef struct {
    char text[90]; /* room for the hint's other words */
    size_t n;      /* bytes of text */
    uint64_t left_out;
} flxi_key_list;

void flxi_key_list_add(flxi_key_list *l, const char *name, size_t size);

/* Sets the hint: "it has: a, b, c and 12 more". */
void flxi_key_list_hint(const flxi_key_list *l, flx_error *err);

#endif
