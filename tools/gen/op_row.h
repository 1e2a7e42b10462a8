/* SPDX-License-Identifier: Apache-2.0 */
/* op_row.h: a row of the public op table, taken apart for the writers of this folder. */
#ifndef OP_ROW_H
#define OP_ROW_H

#include <fluxion/catalogue.h>
#include <stdio.h>

enum { MAX_OPERANDS = 8, NAME_SIZE = 48 };

typedef struct {
    flx_op_view view;
    char operand[MAX_OPERANDS][NAME_SIZE];
    int num_operands;
    int num_leading; /* operands before the first that may be left out */
    int variadic;    /* then all operands are one list */
    int num_results; /* -1: as many as the op says */
} op_row;

op_row read_op(size_t i);

/* The writers, one for each file. */
void write_ops_header(FILE *f);
void write_ops_manual(FILE *f);
void write_error_manual(FILE *f);
void write_foreign_manual(FILE *f);
void write_python_stubs(FILE *f);

#endif
