/* SPDX-License-Identifier: Apache-2.0 */
/* Takes any text as a record from a stranger, with correct keys, and tries its candidate as the worker tries
 * a hint, but with the interpreter instead of machine code: no access may leave a buffer. Tasks that would
 * take long are left out. */
#include "agent/cache/exchange.h"
#include "agent/worker/exercise.h"
#include "kernels/loops/loops.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "tests/lib/fuzz_target.h"
#include "tests/lib/pages_malloc.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MOST_POINTS = 1 << 15, MOST_ELEMS = 1 << 16, MOST_WORK = 1 << 18 };

/* A generic task cannot be run; exercise_open refuses it. */
static bool is_small(const struct task *t)
{
	double all = 1; /* an intermediate may be computed anew for each of its readers */
	for (int i = 0; i < t->noperands; i++)
		if (!t->nsyms && operand_elems(&t->operand[i]) > MOST_ELEMS)
			return false;
	for (int k = 0; k < t->nstages; k++) {
		double points = 1;
		for (int a = 0; a < t->stage[k].naxes; a++)
			points *= (double)t->stage[k].axis[a].extent;
		all += points;
	}
	return t->nsyms || all <= MOST_POINTS;
}

/* The kernel's buffers, as agent/worker/local_kernel.c takes them. False: no memory. */
static bool bind(struct exercise *x, const struct manifest *m, void **bufs, struct packed **packed,
		 struct pages *scratch)
{
	for (int i = 0; i < m->nbufs; i++) {
		const struct code_buf *b = &m->buf[i];
		if (b->role == BUF_SCRATCH) {
			if (pages_open(scratch, (size_t)m->scratch_bytes, PAGES_GUARDED) < 0)
				return false;
			memset(scratch->p, 0xff, scratch->bytes);
			bufs[i] = scratch->p;
		} else if (b->packed) {
			if (!x->constant[b->operand] ||
			    constant_pack(x->constant[b->operand], b, &packed[i]) < 0)
				return false;
			bufs[i] = packed_data(packed[i]);
		} else {
			if (b->elems != x->elems[b->operand])
				abort();
			bufs[i] = x->bufs[b->operand];
		}
	}
	return true;
}

static void interpret(struct exercise *x, const struct loops *l, const struct manifest *m)
{
	void *bufs[CODE_MAX_BUFS] = {0};
	struct packed *packed[CODE_MAX_BUFS] = {0};
	struct pages scratch = {0};
	double err, work = 0;
	for (int e = 0; e < m->nentries; e++)
		work += (double)code_extent(m, e, m->param);
	if (work <= MOST_WORK && bind(x, m, bufs, packed, &scratch)) {
		exercise_poison(x);
		for (int e = 0; e < m->nentries; e++)
			if (loops_run(l, e, bufs, m->param, 0, code_extent(m, e, m->param)) < 0) {
				fprintf(stderr, "%s\n", err_text());
				abort();
			}
		(void)!exercise_check(x, &err); /* a wrong answer is no failure of this test */
	}
	for (int i = 0; i < m->nbufs; i++)
		if (packed[i])
			constant_unpack(packed[i]);
	pages_close(&scratch);
}

static void try_hint(const char *text, const char *cand)
{
	struct arena a = {.cap_bytes = (size_t)1 << 30};
	struct exercise *x = NULL;
	struct constant *constants = NULL;
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	struct loops *l;
	struct manifest m;
	if (task_parse(text, t) >= 0 && is_small(t) && exercise_open(text, &constants, &x) >= 0 &&
	    space_make(&a, t, &fuzz_target, NULL, &s) >= 0) {
		bool legal = space_legal(s, cand) >= 0, made = lower(t, cand, &fuzz_target, &a, &l, &m) >= 0;
		if (made && loops_check(l) < 0) {
			fprintf(stderr, "%s: %s\n", legal ? "legal" : "not of the space", err_text());
			abort();
		}
		if (made)
			interpret(x, l, &m);
	}
	exercise_close(x);
	arena_free(&a);
}

/* Makes a line with the keys of the record's text, if the text is a record. */
static char *line_of(struct rec *r)
{
	struct buf b = {0};
	r->task = hash_text(r->task_text);
	rec_text(r, &b);
	json_t *j = exchange_record(CACHE_REC, rec_key(r), buf_str(&b));
	char *line = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	buf_free(&b);
	return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct exchange_line one;
	struct rec r;
	if (rec_parse(arena_strndup(&a, (const char *)p, n), &a, &r) >= 0) {
		char *line = line_of(&r);
		if (line && exchange_parse(line, strlen(line), &a, &one) >= 0 &&
		    rec_parse(one.text, &a, &r) < 0)
			abort();
		free(line);
		try_hint(r.task_text, r.cand);
	}
	arena_free(&a);
	return 0;
}
