/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of plan_c: plan_c.c (steps, which become calls and tables), plan_c_code.c (machine
 * code), plan_c_task.c (steps in plain C), plan_c_math.c (their operators), plan_c_node.c (nodes without a
 * task), plan_c_copy.c (copies and halos), plan_c_text.c (the two texts), plan_c_files.c (the four files). */
#ifndef AGENT_PLAN_C_PARTS_H
#define AGENT_PLAN_C_PARTS_H

#include "agent/bundle/plan_c.h"
#include "agent/run/plan_parts.h"
#include "platform/base/buf.h"
#include "platform/run/elf.h"
#include "platform/base/hash.h"
#include "platform/run/object.h"

#include <elf.h>

/* Memory regions of the source. `at` is in bytes; for C_IN and C_OUT it is the tensor's number. C_SCRATCH:
 * the calling thread's scratch. C_STATUS: the value that the run will return. */
enum c_region { C_ARENA, C_WEIGHTS, C_IN, C_OUT, C_SCRATCH, C_STATUS, C_NOWHERE };

struct c_place {
	enum c_region region;
	int64_t at;
};

struct c_object { /* machine code of a kernel; equal ones only once */
	const struct blob *from;
	int number, entries;
	char (*entry)[32];
};

struct c_tensor {
	const char *member; /* name of the struct's member: "in_data" */
	const char *upper;  /* "IN_DATA" */
	const struct tensor *t;
	const char *name; /* the model's */
};

struct plan_c {
	const struct plan *p;
	struct arena a;
	const char *name, *upper;
	char tag[9]; /* 8 hex digits, a hash of all files: files of different sets do not link */
	/* NAME_kernels.o */
	struct buf image;
	size_t code_align;
	int nobjects, nsymbols;
	struct c_object *object;
	struct object_symbol *symbol; /* "k0_1": without name and tag */
	const char *isa[8];
	int nisa;
	/* NAME_weights.o: the plan's, then constants that are copied as they are */
	int nextra;
	struct blob *extra;
	int64_t weight_bytes;
	/* NAME.c */
	struct buf functions, tables, calls, fixed;
	struct buf keys; /* keys of functions, to find equal ones */
	int nfunctions, ntables, ncalls, portable;
	bool op[P_OPS], floor_div;
	bool exact;      /* some step in plain C writes bytes: every operation is rounded by itself */
	bool to_byte[2]; /* u8, i8 */
	/* memory */
	int64_t value_bytes, thread_bytes;
	struct c_tensor *in, *out;
};

/* true: AArch64; false: x86-64. No other machine is supported. */
static inline bool c_is_arm(void)
{
	return elf_machine() == EM_AARCH64;
}

static inline int64_t c_round64(int64_t n)
{
	return (n + 63) / 64 * 64;
}

/* A call of the source being made; it has up to CODE_MAX_BUFS places. */
struct c_call {
	const char *fn;
	int64_t extent;
	int param, place, nplaces; /* tables' numbers, -1: none */
	int edge, nedges;
	bool alone;
};

/* plan_c.c */
struct c_place c_place_of(const struct plan_c *c, void *const *at);
/* Of a node's operand; a constant is put as it is at the end of the weights. */
struct c_place c_tensor_place(struct plan_c *c, const struct tensor *t);
/* Adds a table of places; returns its number. */
int c_places(struct plan_c *c, const struct c_place *place, int n);
void c_call(struct plan_c *c, const struct c_call *call);
/* Adds a static function of the kernels' type with this body; returns its name ("f3") in the arena. */
const char *c_function(struct plan_c *c, const struct buf *body);
/* Writes a comment. Names in it come from a model, so text that could end the comment or continue the line is
 * left out. */
void c_comment(struct buf *b, const char *text);

/* plan_c_code.c: puts machine code at its place in the image, once. */
int c_object(struct plan_c *c, const struct code *code, struct c_object **out) MUST_CHECK;

/* plan_c_task.c: writes stage k of a portable task as calls. buf: the task's operands; in place: the operand
 * whose memory the output uses; -1: none. */
void c_stage(struct plan_c *c, const struct host_task *h, int k, void *const *buf, int in_place);
/* plan_c_math.c: writes the helpers that the functions use. */
void c_helpers(const struct plan_c *c, struct buf *out);
bool c_needs_math(const struct plan_c *c); /* functions of the system's library */
/* Writes a constant of exactly this value. */
void c_float(struct buf *b, float v);

/* plan_c_node.c */
bool c_node_has_form(const struct pstep *ps);
void c_node(struct plan_c *c, const struct pstep *ps);

/* plan_c_copy.c */
void c_copy(struct plan_c *c, const struct window *w, enum dtype t, bool into, struct c_place from,
	    struct c_place to);
void c_copy_bytes(struct plan_c *c, int64_t bytes, struct c_place from, struct c_place to);
/* Adds a table of the halos that are filled again for these values; returns its number. */
int c_edges(struct plan_c *c, const int *value, int n);
/* Fills only the halo. */
void c_refill(struct plan_c *c, int value);
/* Writes the halos that are filled once and then stay. */
void c_fixed_edges(struct plan_c *c);

/* plan_c_files.c: sets the tag that tells this set from all others; call it when steps and constants are
 * complete. */
int c_set_tag(struct plan_c *c) MUST_CHECK;
/* Makes the objects, and writes all four files. */
int c_write(struct plan_c *c, const char *dir, const struct buf *header, const struct buf *source) MUST_CHECK;

/* plan_c_text.c */
const char *c_dtype(enum dtype t);
void c_header(const struct plan_c *c, struct buf *out);
void c_source(const struct plan_c *c, struct buf *out);

#endif
