/* SPDX-License-Identifier: Apache-2.0 */
/* curve_bits.c: see curve_bits.h. Compiled steps add in an order that the shapes decide, whatever the instruction set,
   the compiler and the number of threads. A few scalars, such as 1 - beta^t, come from the C library. So machines of
   one architecture with one version of that library are one class. */
#include "curve_bits.h"

#include "base/hash.h"
#include "effort.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

static const char *machine_class(void)
{
#if defined __x86_64__ && defined __GLIBC__
    static char name[60];
    snprintf(name, sizeof name, "x86_64-glibc-%s", gnu_get_libc_version());
    return name;
#else
    return "other";
#endif
}

/* Looks for `key` of the class: whether there is the class, and the bits, 0 where the key is absent. */
static bool find_stored(const char *class, const char *key, unsigned long long *bits)
{
    char path[700], line[200], its_class[60], its_key[120];
    unsigned long long its_bits;
    bool is_known = false;
    *bits = 0;
    snprintf(path, sizeof path, "%s/tests/train/curve_bits.txt", test_source_dir());
    FILE *f = fopen(path, "r");
    CHECK_MSG(f != NULL, "%s", path);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%59s %119s %llx", its_class, its_key, &its_bits) != 3 || strcmp(its_class, class) != 0)
            continue;
        is_known = true;
        if (strcmp(its_key, key) == 0)
            *bits = its_bits;
    }
    fclose(f);
    return is_known;
}

void curve_bits_check(const char *key, const double *losses, size_t n)
{
    unsigned long long bits = flxi_hash_bytes(FLXI_HASH_SEED, losses, n * sizeof *losses), stored;
    if (effort(EFFORT_report)) {
        printf("bits %s %s %016llx\n", machine_class(), key, bits);
        return;
    }
    if (!find_stored(machine_class(), key, &stored))
        return;
    CHECK_MSG(bits == stored,
              "%s: other bits than those of %s in tests/train/curve_bits.txt; if the order of sums is meant to change, "
              "tests/train/store_curve_bits stores the new ones",
              key, machine_class());
    test_count_case();
}
