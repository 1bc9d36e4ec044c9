/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the OpenCL emitter: emit_opencl.c prints programs, entries and statements,
 * opencl_ix.c integer expressions, opencl_ops.c operations, opencl_ext.c those for which devices have
 * extensions, opencl_mem.c loads and stores, opencl_texture.c loads from textures, opencl_threads.c what only
 * threads do.
 *
 * Names in the source are made of a letter and a number, so no string from outside gets into it: m and o a
 * buffer's memory and its first byte, b the buffer, a and p parameters as passed and as used, v vector
 * variables, i loop variables, c and e a loop's counter and end. */
#ifndef KERNELS_OPENCL_GEN_H
#define KERNELS_OPENCL_GEN_H

#include "kernels/loops/loops.h"
#include "platform/machine/target.h"

enum { OPENCL_MAX_SOURCE = 4 << 20 }; /* bytes; drivers take minutes for more */

struct cl_gen {
	const struct loops *l;
	struct buf out;
	bool over;           /* sticky: the source is too long */
	bool dots, khr_dots; /* dot products are calls of functions; those of cl_khr_integer_dot_product */
	bool halves;         /* so is arithmetic in f16 */
	bool exchanges;      /* SHUFs are exchanges in a sub-group where that is large enough; */
	bool khr_exchanges;  /* those of cl_khr_subgroup_shuffle */
};

/* The type of a variable of lanes lanes: "float4", "int". Of an element of memory: "uchar"; f16 and bf16 are
 * ushort. */
const char *cl_type(enum lv_type type, int lanes);
const char *cl_element(enum dtype t);
/* The digits of a vector type's name: "4", "" for one lane. */
const char *cl_width(int lanes);
/* Prints lane i of variable v: "v3.s1", "v3" if it has one. */
void cl_lane(struct cl_gen *g, int v, int i);

/* Whether a C int holds every value of x; then its expression is of type int, else long. */
bool cl_is_int(const struct ix *x);
const char *cl_ix_type(const struct ix *x);
void cl_ix(struct cl_gen *g, const struct ix *x);
/* The functions that expressions call. */
extern const char cl_ix_functions[];

/* Whether an operation with a result of this type can be printed: what no table names cannot. */
bool cl_has(enum vop op, enum lv_type type);
/* Prints a ST_SET that is no load, of an operation that cl_has. */
void cl_set(struct cl_gen *g, const struct stmt *s);

/* The sum of c and the products of four bytes of a and b, as an expression: DOT4U and DOT4S. Sums of the four
 * products fit s32. */
#define CL_DOT4U(a, b, c)                                                                                    \
	c " + ((" a " & 255) * (" b " << 24 >> 24) + (" a " >> 8 & 255) * (" b " << 16 >> 24) + (" a         \
	  " >> 16 & 255) * (" b " << 8 >> 24) + (" a " >> 24 & 255) * (" b " >> 24))"
#define CL_DOT4S(a, b, c)                                                                                    \
	c " + ((" a " << 24 >> 24) * (" b " << 24 >> 24) + (" a " << 16 >> 24) * (" b " << 16 >> 24) + (" a  \
	  " << 8 >> 24) * (" b " << 8 >> 24) + (" a " >> 24) * (" b " >> 24))"

/* Chooses the extensions that the program's operations use on the target. Before all that follows. */
void cl_ext_choose(struct cl_gen *g, const struct target *t);
/* Whether an extension has an operation that OpenCL C itself does not have. */
bool cl_ext_has(const struct cl_gen *g, enum vop op);
/* The OpenCL C that they belong to: "CL1.2". */
const char *cl_ext_standard(const struct cl_gen *g);
void cl_ext_functions(struct cl_gen *g); /* prints them */
/* Prints the expression of an operation by an extension; false: none is chosen for it. */
bool cl_ext_set(struct cl_gen *g, const struct stmt *s);

void cl_load(struct cl_gen *g, const struct stmt *s);
void cl_store(struct cl_gen *g, const struct stmt *s);

/* Prints a load from a texture, without its guard. */
void cl_texels(struct cl_gen *g, const struct stmt *s);

/* Statements of threads: a ST_COPY, and a SHUF. */
void cl_copy(struct cl_gen *g, const struct stmt *s);
void cl_shuffle(struct cl_gen *g, const struct stmt *s);
/* Declares, at the begin of an entry's kernel, the memory that its SHUFs need. */
void cl_shuffle_memory(struct cl_gen *g, const struct entry *e);

#endif
