/* SPDX-License-Identifier: Apache-2.0 */
/* test_folder.c: see test_folder.h. */
#include "test_folder.h"

#include "test.h"

#include <stdio.h>
#include <sys/stat.h>

char test_folder[600];

void test_folder_begin(const char *name)
{
    snprintf(test_folder, sizeof test_folder, "%s/%s", test_temp_dir(), name);
    CHECK(mkdir(test_folder, 0777) == 0);
}

const char *test_folder_path(const char *name)
{
    static char path[2][800];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder, name);
    return path[turn];
}
