/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h: reading the fixtures of tests/oracle, and comparing results with the independent answers in them. */
#ifndef FLX_TEST_FIXTURE_H
#define FLX_TEST_FIXTURE_H

#include <fluxion/tensor.h>
#include <fluxion/text.h>

/* Calls `visit` for each graph of each .flx file in a folder of tests/oracle. FLX_TEST_CASE=softmax keeps only the
   files and graphs whose name contains that. */
void fixture_each(const char *folder, void (*visit)(const flx_module *m, const flx_graph *g));

/* How close is in the case's name: __ulp<N> allows N units in the last place of each element, __rel<N> N units in the
   last place of the largest expected magnitude, or of 2^K where that is more and the answer's name (NULL is none) has
   __2p<K>
   (__2m<K>: of 2^-K): for answers that cancellation makes small. Equal infinities agree, and so do two NaNs; integers
   must be equal. A difference is reported with the case, the result's name, the element and both values, and the test
   continues. */
void fixture_agree(const char *case_name, const char *result, const flx_tensor *found, const flx_tensor *expected,
                   const char *answer_name);

/* The same with this additional tolerance for each element; -1, or the number of the first element that disagrees. */
int64_t fixture_first_difference(const char *case_name, const flx_tensor *found, const flx_tensor *expected,
                                 const char *answer_name, const double *more);

/* fixture_agree() for a result whose first difference is known. */
void fixture_report(const char *case_name, const char *result, const flx_tensor *found, const flx_tensor *expected,
                    int64_t difference);

#endif
