/* SPDX-License-Identifier: Apache-2.0 */
/* PTX of random candidates: every one is emitted, is text that its first line describes, is the same when it
 * is emitted again, has no local memory, and run on the host gives the bits that the interpreter of loops
 * gives, and the reference's answer within tolerance. SEED=n tries one seed, SEEDS=n changes their number.
 * PTX_DIR=dir writes PTX_EACH files per architecture there for the assembler (tests/sh/ptxas.sh). */
#include "tests/lib/ptx_cases.h"
#include "tests/lib/ptx_device.h"
#include "tests/lib/ptx_object.h"

#include <sys/stat.h>
#include <time.h>

static uint64_t number_of(const char *name, uint64_t usual)
{
	const char *v = getenv(name);
	return v ? strtoull(v, NULL, 10) : usual;
}

static const struct emit *ptx(void)
{
	const struct emit *e = emit_find("ptx");
	CHECK(e != NULL);
	return e;
}

/* Loops of the program that stay loops have the note. */
static int loops_of(const struct stmt *s)
{
	int n = 0;
	for (; s; s = s->next)
		n += (s->op == ST_FOR) + loops_of(s->body) + loops_of(s->other);
	return n;
}

/* With the estimate of its registers, and with that of its schedule's plan if it has fragments, for the
 * assembler's test. */
static bool write_text(const char *dir, const char *cpu, int i, const char *text, int registers, int planned)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, cpu);
	mkdir(path, 0777);
	snprintf(path, sizeof path, "%s/%s/%04d.ptx", dir, cpu, i);
	FILE *f = fopen(path, "w");
	bool good = f && fputs(text, f) >= 0 && fprintf(f, "//registers %d\n", registers) > 0 &&
		    (!planned || fprintf(f, "//planned %d\n", planned) > 0);
	return (!f || fclose(f) == 0) && good;
}

static int interpret(const struct loops *l, const struct manifest *m, void **bufs)
{
	int rc = E_OK;
	for (int e = 0; e < m->nentries && rc >= 0; e++)
		rc = loops_run(l, e, bufs, m->param, 0, code_extent(m, e, m->param));
	return rc;
}

/* Runs the text and the loops. NULL: they agree. */
static const char *compare(struct ptx_case *p, const struct blob *object, uint64_t seed)
{
	static char text[160];
	void *a[CODE_MAX_BUFS], *b[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS], bytes[CODE_MAX_BUFS];
	int out = -1;
	case_bind(&p->c, &p->m, a, elems);
	for (int i = 0; i < p->m.nbufs; i++) {
		out = p->m.buf[i].role == BUF_OUT ? i : out;
		bytes[i] = elems[i] * case_each(&p->c, &p->m.buf[i]);
	}
	memcpy(b, a, sizeof b);
	int64_t each = case_each(&p->c, &p->m.buf[out]);
	b[out] = guarded_type(&p->c.a, elems[out], each);
	memcpy(b[out], a[out], (size_t)bytes[out]);
	if (interpret(p->l, &p->m, b) < 0)
		return err_text();
	struct ptx_device_run run = {.l = p->l,
				     .buf = a,
				     .bytes = bytes,
				     .param = p->m.param,
				     .at_once = seed % 5 ? 1000 : 37,
				     .backwards = seed % 2,
				     .seed = seed};
	if (ptx_device_run(object->p, object->n, &run) < 0)
		return err_text();
	for (int64_t i = 0; i < elems[out]; i++) {
		const char *x = (char *)a[out] + i * each, *y = (char *)b[out] + i * each;
		if (each == 4 ? ptx_same_f32(x, y) : !memcmp(x, y, (size_t)each))
			continue;
		if (strstr(p->cand, "fragrows=") && cand_pairs(p->cand) && !p->exact)
			break; /* the order of their sums is the device's */
		snprintf(text, sizeof text, "element %lld of the output differs from the interpreter's",
			 (long long)i);
		return text;
	}
	bool rounds = cand_pairs(p->cand) == DT_F16 || (cand_pairs(p->cand) && p->c.t.nstages > 1) ||
		      (cand_pairs(p->cand) && strstr(p->cand, "fragrows="));
	if (rounds && !(case_error(&p->c, b[out]) < 1e-2))
		return "the interpreter's answer differs from the reference";
	double error = case_error(&p->c, a[out]),
	       most = rounds ? 1e-2 : case_tolerance(buf_str(&p->task), p->cand);
	return error < most || (each == 1 && error == 0) ? NULL : "the reference differs";
}

struct outcome {
	int tried, refused, pragmas;
	double ms[4096];
};

static void one(const char *cpu, uint64_t seed, const char *dir, struct outcome *o)
{
	struct ptx_case p;
	struct blob a, b;
	if (!ptx_make(&p, cpu, seed)) {
		ptx_drop(&p);
		return;
	}
	clock_t start = clock(); /* of this process: others do not count */
	const char *bad = p.bad;
	int rc = bad ? E_OK : ptx()->emit(p.l, &p.tg, &p.c.a, &a);
	if ((rc == E_INFEASIBLE || rc == E_SPILL) && strstr(err_text(), "registers")) {
		o->refused++;
		ptx_drop(&p);
		return;
	}
	if (rc < 0)
		bad = err_text();
	double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
	if (!bad) {
		const char *text = arena_strndup(&p.c.a, a.p, a.n);
		bad = ptx_structure(p.l, text, &p.tg);
		int pragmas = test_count(text, ".pragma \"nounroll\";"), loops = 0;
		for (int i = 0; i < p.l->nentries; i++)
			loops += loops_of(p.l->entry[i].body);
		if (!bad && pragmas > loops)
			bad = "more notes than loops";
		o->pragmas += pragmas;
		if (!bad && !dir &&
		    (ptx()->emit(p.l, &p.tg, &p.c.a, &b) < 0 || a.n != b.n || memcmp(a.p, b.p, a.n)))
			bad = "another text when it is emitted again";
		if (!bad && !dir)
			bad = compare(&p, &a, seed);
		if (dir && !write_text(dir, cpu, o->tried, text, ptx_estimate(p.l, text),
				       ptx_planned(&p.c.t, &p.tg, p.cand, &p.c.a)))
			bad = "its file cannot be written";
		if (bad && getenv("HONE_PRINT"))
			puts(text);
	}
	if (bad)
		ptx_complain(&p, seed, bad);
	CHECK(!bad);
	o->ms[o->tried++ % 4096] = ms;
	ptx_drop(&p);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

TEST(random_candidates)
{
	static struct outcome o;
	const char *dir = getenv("PTX_DIR");
	uint64_t first = number_of("SEED", 1), n = number_of("SEEDS", getenv("SEED") ? 1 : 75);
	int each = (int)number_of("PTX_EACH", 0);
	for (int c = 0; c < PTX_CPUS && !test_bad; c++) {
		memset(&o, 0, sizeof o);
		for (uint64_t seed = first; !test_bad && (each ? o.tried < each : seed < first + n); seed++)
			if (dir || getenv("SEED") || (seed + seed / PTX_KINDS) % PTX_CPUS == (uint64_t)c ||
			    getenv("SEEDS"))
				one(ptx_cpus[c], seed, dir, &o);
		int k = o.tried < 4096 ? o.tried : 4096;
		qsort(o.ms, (size_t)k, sizeof *o.ms, by_value);
		printf(
		    "%s: %d candidates, emitted in %.1f ms (median; most %.1f), %d loops; %d are refused\n",
		    ptx_cpus[c], o.tried, k ? o.ms[k / 2] : 0, k ? o.ms[k - 1] : 0, o.pragmas, o.refused);
	}
}

TEST_MAIN
