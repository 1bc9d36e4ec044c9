/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's state, its tokens and operands (ptx_text.c), for ptx_parse.c. */
#ifndef TESTS_PTX_PARSE_H
#define TESTS_PTX_PARSE_H

#include "tests/lib/ptx_parts.h"

enum {
	MOST_SCOPES = 16,
	MOST_REGS = 1 << 20,
	MOST_PARTS = 64,
	MOST_STORE = 1 << 22,
	MOST_SHARED = DYNAMIC_SHARED
};

struct ptx_reg_name { /* `%r<33>` or `%p` */
	const char *name;
	int n;
	int64_t count; /* -1: one register of this name */
	uint8_t type;
	uint32_t first;     /* index of the first */
	uint32_t first_off; /* its lanes */
};
struct ptx_label {
	const char *name;
	int n;
	uint32_t at;
};

struct ptx_parser {
	struct ptx *m;
	const char *p, *end; /* text that is left */
	int line;
	const char *tok; /* the token at hand; n is 0 at the end of the text */
	int n;
	int tok_line;
	int rc;               /* sticky */
	struct arena scratch; /* names, labels: until the module is parsed */
	struct ptx_kernel *k; /* in its body */
	struct ptx_reg_name *names;
	int nnames, names_cap;
	int scope[MOST_SCOPES]; /* nnames at each opening brace */
	int nscopes;
	struct ptx_label *labels;
	int nlabels, labels_cap, code_cap, consts_cap, specials_cap, vars_cap, kernels_cap;
	uint64_t shared_at, local_at; /* bytes that are in use */
	uint64_t module_shared;
	struct ptx_arg parts[MOST_PARTS]; /* of the instruction at hand */
	int nparts;
};

/* Makes room for one more of an array of n in an arena. */
void *ptx_grown(struct arena *a, void *array, int n, int *cap, size_t bytes);
#define GROW(arena, array, count, cap)                                                                       \
	(array) = ptx_grown(arena, array, (int)(count), &(cap), sizeof *(array))

void ptx_next(struct ptx_parser *p); /* token */
bool ptx_is(const struct ptx_parser *p, const char *s);
bool ptx_take(struct ptx_parser *p, const char *s); /* goes on if it is */
void ptx_need(struct ptx_parser *p, const char *s);
bool ptx_at_word(const struct ptx_parser *p);
bool ptx_word_char(int c);
bool ptx_same(const char *a, int n, const char *b, int m);
/* The digits of a number: 12, 0x1F, 0f3F800000 (bits of a float); false: it is none. */
bool ptx_read_number(const char *s, int n, uint64_t *v, enum ptx_arg_kind *kind);
uint64_t ptx_number(struct ptx_parser *p); /* a whole one without sign */

struct ptx_opnd ptx_new_register(struct ptx_parser *p, unsigned bytes, uint32_t count);
void ptx_read_simple(struct ptx_parser *p, struct ptx_arg *a); /* a register, number or name */
void ptx_read_operand(struct ptx_parser *p, struct ptx_arg *a);

#endif
