/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_names.h: hints for names that other frameworks use. */
#ifndef FLXI_FOREIGN_NAMES_H
#define FLXI_FOREIGN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* What to write instead of an op that does not exist, in `hint`; false when the name is not known elsewhere either. */
bool flxi_foreign_hint(const char *name, size_t n, char *hint, size_t size);

#endif
