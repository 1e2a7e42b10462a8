/* SPDX-License-Identifier: Apache-2.0 */
/* test_folder.h: a folder for each test of a file, so that leftovers of one are not found by another. */
#ifndef FLX_TEST_FOLDER_H
#define FLX_TEST_FOLDER_H

/* Makes an empty folder, whose path is test_folder until the next call. */
extern char test_folder[600];
void test_folder_begin(const char *name);

/* A path in it; the text lives until the second call after this one. */
const char *test_folder_path(const char *name);

#endif
