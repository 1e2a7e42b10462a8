/* key_list.c: see key_list.h. Names are shown whole or not at all. */
#include "io/key_list.h"

#include "base/error.h"

#include <stdio.h>

void flxi_key_list_add(flxi_key_list *l, const char *name, size_t size)
{
    char shown[64];
    size_t room = sizeof l->text - l->n;
    if (l->left_out || size >= sizeof shown || size + 3 > room) {
        l->left_out++;
        return;
    }
    flxi_printable(shown, sizeof shown, name, size);
    l->n += (size_t)snprintf(l->text + l->n, room, "%s%s", l->n ? ", " : "", shown);
}

void flxi_key_list_hint(const flxi_key_list *l, flx_error *err)
{
    if (l->left_out && l->n)
        flxi_hint(err, "it has: %s and %llu more", l->text, (unsigned long long)l->left_out);
    else if (l->left_out)
        flxi_hint(err, "it has %llu with long names", (unsigned long long)l->left_out);
    else if (l->n)
        flxi_hint(err, "it has: %s", l->text);
    else
        flxi_hint(err, "it has none");
}
