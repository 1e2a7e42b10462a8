/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.h: texts inside of other texts. Names, messages and samples come from outside: whatever they hold, they
   must not end the string, the element or the script that they are part of. */
#ifndef FLXI_REPORT_TEXT_H
#define FLXI_REPORT_TEXT_H

#include "base/strbuf.h"

/* A JSON string that may be part of a script element of HTML: < > & and the line separators of JavaScript are written
   as \u escapes, control bytes too, and what is not UTF-8 becomes U+FFFD. */
void flxi_json_string(flxi_strbuf *out, const char *s);
/* The same without the quotes around it, for at most n bytes of s. */
void flxi_json_part(flxi_strbuf *out, const char *s, size_t n);
/* A number, or null for one that is not finite. */
void flxi_json_number(flxi_strbuf *out, double x);
/* A number with at most `digits` decimals, for coordinates. */
void flxi_add_fixed(flxi_strbuf *out, double x, int digits);

/* Text of HTML, SVG and XML, also inside of attributes. Control bytes and what is not UTF-8 become U+FFFD. */
void flxi_add_xml(flxi_strbuf *out, const char *s);
/* The same, cut to that many characters with an ellipsis at the end. */
void flxi_add_xml_cut(flxi_strbuf *out, const char *s, size_t max);

/* How many characters: bytes that do not continue another. */
size_t flxi_text_length(const char *s);

void flxi_add_base64(flxi_strbuf *out, const void *bytes, size_t n);

#endif
