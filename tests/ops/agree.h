/* agree.h: holds a computed tensor against the answer of an independent implementation. */
#ifndef FLX_TEST_AGREE_H
#define FLX_TEST_AGREE_H

#include <fluxion/tensor.h>

/* How close is in the case's name: __ulp<N> allows N units in the last place of each element, __rel<N> N units in the last
   place of the largest expected magnitude. Equal infinities agree, and so do two NaNs; integers must be equal. What disagrees
   is reported with the case, the result's name, the element and both values, and the test goes on. */
void expect_agreement(const char *case_name, const char *result, const flx_tensor *found, const flx_tensor *expected);

/* A file of the repository in memory, with a 0 byte behind it; free it. `size` receives its length. */
char *read_whole_file(const char *path, size_t *size);

#endif
