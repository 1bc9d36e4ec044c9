/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the PTX interpreter: a module around the body of one entry, and a launch over host buffers. */
#ifndef TESTS_PTX_CALL_H
#define TESTS_PTX_CALL_H

#include "tests/lib/ptx.h"
#include "platform/base/buf.h"

#include <stdio.h>

enum { PTX_BUFFERS = 3 };
struct ptx_call {
	const char *before;     /* text before the entry, as variables; NULL: none */
	const char *directives; /* of the entry; NULL: none */
	const char *body;       /* p0, p1, p2 are its parameters */
	unsigned grid, block[2];
	size_t shared_bytes;
	uint64_t seed, budget;
	bool global_races;
	struct {
		void *p;
		size_t bytes;
		bool read_only;
	} buffer[PTX_BUFFERS]; /* p NULL: p's value is the number `bytes` */
	uint64_t ran;
};

static inline bool ptx_call_may(void *user, uint64_t at, size_t bytes, bool write)
{
	const struct ptx_call *c = user;
	for (int i = 0; i < PTX_BUFFERS; i++) {
		uint64_t from = (uintptr_t)c->buffer[i].p;
		if (from && at >= from && at - from <= c->buffer[i].bytes &&
		    bytes <= c->buffer[i].bytes - (at - from))
			return !(write && c->buffer[i].read_only);
	}
	return false;
}

static inline void ptx_call_text(const struct ptx_call *c, struct buf *text)
{
	buf_printf(text, ".version 7.4\n.target sm_80\n.address_size 64\n%s\n", c->before ? c->before : "");
	buf_puts(text, ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n");
	buf_printf(text,
		   "%s\n{\n\t.reg .pred %%p<32>;\n\t.reg .b16 %%h<32>;\n\t.reg .b32 %%r<128>;\n\t.reg .f32 "
		   "%%f<64>;\n"
		   "\t.reg .f64 %%fd<32>;\n\t.reg .b64 %%rd<64>;\n%s\n}\n",
		   c->directives ? c->directives : "", c->body);
}

static inline int ptx_call_run(struct ptx_call *c)
{
	struct buf text = {0};
	struct ptx *m;
	uint64_t value[PTX_BUFFERS];
	void *param[PTX_BUFFERS];
	ptx_call_text(c, &text);
	int rc = ptx_load(buf_str(&text), text.n, &m);
	buf_free(&text);
	if (rc < 0)
		return rc;
	for (int i = 0; i < PTX_BUFFERS; i++) {
		value[i] = c->buffer[i].p ? (uintptr_t)c->buffer[i].p : c->buffer[i].bytes;
		param[i] = &value[i];
	}
	struct ptx_launch l = {.entry = "k",
			       .grid = {c->grid ? c->grid : 1, 1, 1},
			       .block = {c->block[0] ? c->block[0] : 32, c->block[1] ? c->block[1] : 1, 1},
			       .param = param,
			       .nparams = PTX_BUFFERS,
			       .shared_bytes = c->shared_bytes,
			       .seed = c->seed,
			       .budget = c->budget ? c->budget : 1 << 20,
			       .may = ptx_call_may,
			       .user = c,
			       .global_races = c->global_races,
			       .ran = &c->ran};
	rc = ptx_run(m, &l);
	ptx_free(m);
	return rc;
}

#endif
