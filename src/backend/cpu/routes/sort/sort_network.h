/* SPDX-License-Identifier: Apache-2.0 */
/* sort_network.h: networks of minima and maxima for 16 vectors, as lists of X(i, j): of vectors i and j the smaller
   items go to i, the larger ones to j. SORT_16 is Batcher's network, CLEAN_16 sorts what first rises, then falls. */
#ifndef FLXI_SORT_NETWORK_H
#define FLXI_SORT_NETWORK_H

#define EACH_16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
/* clang-format off */
#define SORT_16 \
    X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13) X(14, 15) X(0, 2) X(1, 3) X(4, 6) X(5, 7) \
    X(8, 10) X(9, 11) X(12, 14) X(13, 15) X(1, 2) X(5, 6) X(9, 10) X(13, 14) X(0, 4) X(1, 5) X(2, 6) X(3, 7) \
    X(8, 12) X(9, 13) X(10, 14) X(11, 15) X(2, 4) X(3, 5) X(10, 12) X(11, 13) X(1, 2) X(3, 4) X(5, 6) X(9, 10) \
    X(11, 12) X(13, 14) X(0, 8) X(1, 9) X(2, 10) X(3, 11) X(4, 12) X(5, 13) X(6, 14) X(7, 15) X(4, 8) X(5, 9) \
    X(6, 10) X(7, 11) X(2, 4) X(3, 5) X(6, 8) X(7, 9) X(10, 12) X(11, 13) X(1, 2) X(3, 4) X(5, 6) X(7, 8) \
    X(9, 10) X(11, 12) X(13, 14)
#define CLEAN_16 \
    X(0, 8) X(1, 9) X(2, 10) X(3, 11) X(4, 12) X(5, 13) X(6, 14) X(7, 15) X(0, 4) X(1, 5) X(2, 6) X(3, 7) \
    X(8, 12) X(9, 13) X(10, 14) X(11, 15) X(0, 2) X(1, 3) X(4, 6) X(5, 7) X(8, 10) X(9, 11) X(12, 14) X(13, 15) \
    X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13) X(14, 15)
/* clang-format on */

#endif
