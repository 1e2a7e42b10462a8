/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_work.h: what ops on matrices cost: the leading terms of the usual algorithms, for each matrix of a batch.
   Where iterations follow whose number depends on the data, only what comes before them counts. */
#ifndef FLXI_MATRIX_WORK_H
#define FLXI_MATRIX_WORK_H

#include "graph/graph.h"

void flxi_work_lu(const flx_graph *g, const flxi_node *n, flxi_work *w);
void flxi_work_cholesky(const flx_graph *g, const flxi_node *n, flxi_work *w);
void flxi_work_solve(const flx_graph *g, const flxi_node *n, flxi_work *w);
void flxi_work_triangular(const flx_graph *g, const flxi_node *n, flxi_work *w);
void flxi_work_qr(const flx_graph *g, const flxi_node *n, flxi_work *w);
void flxi_work_expm(const flx_graph *g, const flxi_node *n, flxi_work *w); /* one product and one solution */
void flxi_work_eigh(const flx_graph *g, const flxi_node *n, flxi_work *w); /* to tridiagonal form */
void flxi_work_eig(const flx_graph *g, const flxi_node *n, flxi_work *w);  /* to Hessenberg form */
void flxi_work_svd(const flx_graph *g, const flxi_node *n, flxi_work *w);  /* to bidiagonal form */

#endif
