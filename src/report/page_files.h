/* SPDX-License-Identifier: Apache-2.0 */
/* page_files.h: the files of src/report/page/, which the build turns into arrays (CMakeLists.txt). */
#ifndef FLXI_PAGE_FILES_H
#define FLXI_PAGE_FILES_H

#include <stddef.h>

extern const unsigned char flxi_page_style[]; /* style.css */
extern const size_t flxi_page_style_size;
extern const unsigned char flxi_page_script[]; /* charts.js, graph.js and page.js, one after the other */
extern const size_t flxi_page_script_size;

#endif
