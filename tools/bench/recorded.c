/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/recorded.h"

#include "kernels/space/sched.h"
#include "platform/base/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form { CONV, DEPTHWISE, GEMM };

/* For a GEMM, ic, oc and size are k, n and m. */
static const struct recorded_task {
	const char *file;
	enum form form;
	int ic, oc, size, kernel;
} tasks[] = {
    {"c3_64_56", CONV, 64, 64, 56, 3},         {"c3_256_14", CONV, 256, 256, 14, 3},
    {"c3_64_128_52", CONV, 64, 128, 52, 3},    {"c1_256_64_56", CONV, 256, 64, 56, 1},
    {"c1_96_576_14", CONV, 96, 576, 14, 1},    {"g_196_256_2304", GEMM, 2304, 256, 196, 0},
    {"g_49_512_4608", GEMM, 4608, 512, 49, 0}, {"dw_144_56", DEPTHWISE, 144, 144, 56, 3},
};
enum { NTASKS = sizeof tasks / sizeof *tasks, MOST_BYTES = 16 << 20, MOST_ID = 1 << 16 };

/* A row of the table, by the names of its columns. */
struct row {
	double compile_ms;
	int id, owt, kv, cu, rs, pk, fl, tk, th, tw, tc, oo, io;
};

/* One form of the task; conv has two, with and without flattened pixels. Index of the axis of each role; -1:
 * none. */
struct variant {
	struct task *task;
	struct space *space;
	const char *text;
	int n, k, y, x, c, r, s;
};

const char *recorded_folder(void)
{
	static const char fallback[] = "../shared";
	const char *d = getenv("HONE_DATA");
	char path[PATH_MAX];
	d = d ? d : fallback;
	snprintf(path, sizeof path, "%s/landscape/c3_64_56.csv", d);
	return file_exists(path) ? d : NULL;
}

static int machine(bool narrow, struct target *t)
{
	int rc = target_baseline(narrow ? "x86-64-v3" : "x86-64-v4", t);
	if (rc < 0)
		return rc;
	t->l1_bytes = 48 << 10;
	t->l2_bytes = 1 << 20;
	t->l3_bytes = 32 << 20;
	t->fma_gflops = narrow ? 120.3 : 240.6;
	const double bw[4] = {narrow ? 230 : 460, narrow ? 200 : 220, 112, 33};
	memcpy(t->bw_gbs, bw, sizeof bw);
	return E_OK;
}

static void put_conv(const struct recorded_task *d, int lanes, bool flat, struct buf *b)
{
	int s = d->size, halo = d->kernel / 2;
	buf_puts(b, "task syms=0\n");
	if (flat) {
		buf_printf(b,
			   "operand X in f32 [1,%d,%d] 0.1/%d.2.1\noperand W const f32 [%d,%d] plain\n"
			   "operand Y out f32 [1,%d,%d] 0.1/%d.2.1\nstage n:1 k:%d p:%d | c:%d\n"
			   "read X [n,c,p]\nread W [k,c]\nbody r0 r1 mul\nsum\nwrite Y [n,k,p]\n",
			   d->ic, s * s, lanes, d->oc, d->ic, d->oc, s * s, lanes, d->oc, s * s, d->ic);
		return;
	}
	buf_printf(b, "operand X in f32 [1,%d,%d,%d] 0.1/%d.2.3.1", d->ic, s, s, lanes);
	if (halo)
		buf_printf(b, ";2+%d+%d;3+%d+%d", halo, halo, halo, halo);
	if (d->form == DEPTHWISE)
		buf_printf(b, "\noperand W const f32 [%d,1,%d,%d] plain\n", d->oc, d->kernel, d->kernel);
	else
		buf_printf(b, "\noperand W const f32 [%d,%d,%d,%d] plain\n", d->oc, d->ic, d->kernel,
			   d->kernel);
	buf_printf(b, "operand Y out f32 [1,%d,%d,%d] 0.1/%d.2.3.1\n", d->oc, s, s, lanes);
	if (d->form == DEPTHWISE)
		buf_printf(
		    b,
		    "stage n:1 c:%d y:%d x:%d | r:%d s:%d\nread X [n,c,y+r-%d,x+s-%d]\nread W [c,0,r,s]\n"
		    "body r0 r1 mul\nsum\nwrite Y [n,c,y,x]\n",
		    d->oc, s, s, d->kernel, d->kernel, halo, halo);
	else if (halo)
		buf_printf(b,
			   "stage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [n,c,y+r-%d,x+s-%d]\n"
			   "read W [k,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
			   d->oc, s, s, d->ic, d->kernel, d->kernel, halo, halo);
	else
		buf_printf(b,
			   "stage n:1 k:%d y:%d x:%d | c:%d\nread X [n,c,y,x]\nread W [k,c,0,0]\n"
			   "body r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
			   d->oc, s, s, d->ic);
}

static void put_gemm(const struct recorded_task *d, struct buf *b)
{
	buf_printf(b,
		   "task syms=0\noperand A in f32 [%d,%d] plain\noperand B const f32 [%d,%d] plain\n"
		   "operand C out f32 [%d,%d] plain\nstage m:%d n:%d | k:%d\nread A [m,k]\nread B [k,n]\n"
		   "body r0 r1 mul\nsum\nwrite C [m,n]\n",
		   d->size, d->ic, d->ic, d->oc, d->size, d->oc, d->size, d->oc, d->ic);
}

static int open_variant(const struct recorded_task *d, const struct target *t, bool flat, struct arena *a,
			struct variant *out)
{
	static const struct variant conv = {.n = 0, .k = 1, .y = 2, .x = 3, .c = 4, .r = 5, .s = 6},
				    small = {.n = 0, .k = 1, .y = 2, .x = 3, .c = 4, .r = -1, .s = -1},
				    flattened = {.n = 0, .k = 1, .y = -1, .x = 2, .c = 3, .r = -1, .s = -1},
				    depthwise = {.n = 0, .k = 1, .y = 2, .x = 3, .c = -1, .r = 4, .s = 5},
				    product = {.n = -1, .k = 1, .y = -1, .x = 0, .c = 2, .r = -1, .s = -1};
	struct buf text = {0};
	*out = d->form == GEMM        ? product
	       : d->form == DEPTHWISE ? depthwise
	       : flat                 ? flattened
	       : d->kernel == 1       ? small
				      : conv;
	if (d->form == GEMM)
		put_gemm(d, &text);
	else
		put_conv(d, t->lanes, flat, &text);
	out->task = ARENA_NEW(a, struct task);
	int rc = task_parse(buf_str(&text), out->task);
	if (rc >= 0)
		rc = space_make(a, out->task, t, NULL, &out->space);
	out->text = arena_strdup(a, buf_str(&text));
	buf_free(&text);
	return fail_in(rc, "%s", d->file);
}

static bool parse_row(const char *line, struct row *r)
{
	return sscanf(line, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%lf,", &r->id, &r->owt, &r->kv, &r->cu,
		      &r->rs, &r->pk, &r->fl, &r->tk, &r->th, &r->tw, &r->tc, &r->oo, &r->io,
		      &r->compile_ms) == 14 &&
	       r->compile_ms >= 0 && r->compile_ms < 1e6 && r->id >= 0 && r->id < MOST_ID && r->owt > 0 &&
	       r->kv > 0 && r->cu > 0 && r->rs >= 0 && r->rs <= 2 && r->tk > 0 && r->th > 0 && r->tw > 0 &&
	       r->tc > 0 && r->oo >= 0 && r->oo < 6 && r->io >= 0 && r->io < 3;
}

/* Our axis for a letter of theirs; -1: there is none. */
static int axis_of(const struct variant *x, char letter)
{
	return letter == 'k' ? x->k : letter == 'h' ? x->y : letter == 'w' ? x->x : x->c;
}

static void set_block(const struct variant *x, struct sstage *s, int axis, int tiles)
{
	const struct stage *st = &x->task->stage[0];
	if (axis < 0)
		return;
	int64_t points = (int64_t)s->tile[axis] * (axis == s->lane ? s->lanes : 1);
	if (tiles >= ceil_div(st->axis[axis].extent, points))
		return;
	s->outer[axis] = true;
	s->block[axis] = tiles;
}

/* Sets the order of the loops; false if their order of loops around tiles differs from that of the loops
 * inside, because our schedules have one order for both. par: number of loops outside of the partial sums. */
static bool set_order(const struct variant *x, const struct row *r, struct sstage *s)
{
	static const char *const outer[] = {"khwc", "hwkc", "ckhw", "chwk", "kchw", "hwck"},
				 *const inner[] = {"khw", "hwk", "hkw"};
	int n = 0, last = -1;
	if (x->n >= 0)
		s->order[n++] = (uint8_t)x->n;
	for (const char *c = inner[r->io]; *c; c++)
		if (axis_of(x, *c) >= 0)
			s->order[n++] = (uint8_t)axis_of(x, *c);
	s->par = x->n >= 0;
	bool around = true;
	for (const char *c = outer[r->oo]; *c; c++) {
		int a = axis_of(x, *c);
		if (*c == 'c')
			around = false;
		if (a < 0 || *c == 'c' || !s->outer[a])
			continue;
		int at = 0;
		while (s->order[at] != a)
			at++;
		if (at < last)
			return false;
		last = at;
		s->par += around;
	}
	s->par += s->par == 0;
	return true;
}

static bool say(const struct recorded_task *d, const struct variant *x, const struct target *t,
		const struct row *r, char cand[CAND_MAX])
{
	struct sched c;
	struct sstage *s = &c.st[0];
	sched_init(x->task, &c);
	bool dw = d->form == DEPTHWISE;
	if ((dw && r->rs == 2) || r->owt > SCHED_TILE || r->kv > SCHED_TILE || r->cu > SCHED_TILE)
		return false;
	s->lane = x->k;
	s->lanes = t->lanes;
	s->tile[x->x] = r->owt;
	s->tile[dw ? x->y : x->k] = dw ? r->cu : r->kv;
	s->hoist = !dw || r->rs == 1;
	if (!dw)
		s->unroll[x->c] = r->cu;
	if (x->s >= 0 && (dw || r->rs >= 1))
		s->unroll[x->s] = d->kernel;
	if (x->r >= 0 && (dw || r->rs == 2))
		s->unroll[x->r] = d->kernel;
	set_block(x, s, x->k, r->tk);
	set_block(x, s, x->y, r->th);
	set_block(x, s, x->x, r->tw);
	if (x->c >= 0 && (int64_t)r->tc * t->lanes < d->ic) {
		s->split_axis = x->c;
		s->split = (int64_t)r->tc * t->lanes;
	}
	return set_order(x, r, s) && sched_check(x->task, t, &c) >= 0 && sched_text(x->task, &c, cand) >= 0;
}

static int read_text(const char *folder, bool narrow, const char *file, const char *end, struct arena *a,
		     char **out)
{
	char path[PATH_MAX];
	struct blob b;
	snprintf(path, sizeof path, "%s/landscape/%s%s%s.csv", folder, narrow ? "regs16/" : "", file, end);
	int rc = file_read(a, path, MOST_BYTES, &b);
	*out = rc < 0 ? NULL : arena_strndup(a, b.p, b.n);
	return rc;
}

/* Lower quartiles of the careful runs, by id, in ns; 0: none. */
static double *read_truth(char *text, struct arena *a)
{
	double *ns = ARENA_ARRAY(a, double, MOST_ID), us;
	int id;
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%d,%*d,%*f,%*f,%*f,%*f,%lf", &id, &us) == 2 && id >= 0 && id < MOST_ID &&
		    us > 0 && us < 1e9)
			ns[id] = us * 1e3;
	return ns;
}

static int fill(const struct recorded_task *d, const struct target *t, char *table, const double *truth,
		struct arena *a, struct problem *p, struct recorded_count *count)
{
	struct arena scratch = {0};
	struct variant shape[2]; /* the second one is flattened */
	int forms = d->form == CONV && d->kernel == 1 ? 2 : 1, rc = E_OK;
	for (int i = 0; i < forms && rc >= 0; i++)
		rc = open_variant(d, t, i == 1, &scratch, &shape[i]);
	int lines = 0;
	for (const char *c = table; *c; c++)
		lines += *c == '\n';
	problem_room(p, lines, a);
	char *save = NULL;
	for (char *line = strtok_r(table, "\n", &save); line && rc >= 0; line = strtok_r(NULL, "\n", &save)) {
		struct row r;
		char cand[CAND_MAX];
		if (!parse_row(line, &r) || truth[r.id] <= 0 || p->n > lines)
			continue;
		const struct variant *x = &shape[r.fl && forms > 1];
		count->all++;
		if (!say(d, x, t, &r, cand))
			continue;
		count->said++;
		problem_add(p, x->space, cand, truth[r.id]);
	}
	arena_free(&scratch);
	return rc;
}

int recorded_problems(const char *folder, bool narrow, struct arena *a, struct problem **out,
		      struct recorded_count *count)
{
	struct arena texts = {0};
	struct target t;
	int n = 0, rc = machine(narrow, &t);
	*count = (struct recorded_count){0};
	*out = ARENA_ARRAY(a, struct problem, NTASKS);
	for (int i = 0; i < NTASKS && rc >= 0; i++) {
		char *table, *truth;
		struct problem *p = &(*out)[n];
		*p = (struct problem){.name = tasks[i].file,
				      .family = tasks[i].form == DEPTHWISE ? "depthwise" : "dense"};
		if (read_text(folder, narrow, tasks[i].file, "", &texts, &table) < 0 ||
		    read_text(folder, narrow, tasks[i].file, "_truth", &texts, &truth) < 0)
			continue; /* the second machine lacks some of the tasks */
		rc = fill(&tasks[i], &t, table, read_truth(truth, &texts), a, p, count);
		n += p->n >= 2;
	}
	arena_free(&texts);
	return rc < 0 ? rc : n;
}

static void add_point(struct landscape *l, const struct row *r, double ns, const char *cand, struct arena *a)
{
	if (landscape_find(l, cand) >= 0)
		return;
	l->point[l->n++] = (struct landscape_point){.status = MEAS_OK,
						    .min_ns = (int64_t)ns,
						    .low_ns = (int64_t)ns,
						    .runs = 10,
						    .build_ns = (int64_t)(r->compile_ms * 1e6) + 1,
						    .cand = arena_strdup(a, cand)};
}

static bool has_forms(const struct recorded_task *d)
{
	return d->form == CONV && d->kernel == 1;
}

/* Landscape of one form of a task; strtok_r modifies `table`. */
static int landscape_of(const struct recorded_task *d, const struct target *t, bool flat, char *table,
			const double *truth, struct arena *a, struct landscape *out)
{
	struct variant x;
	char *save = NULL, cand[CAND_MAX];
	int lines = 0, rc = open_variant(d, t, flat, a, &x);
	for (const char *c = table; *c; c++)
		lines += *c == '\n';
	*out = (struct landscape){.task = x.text,
				  .label = d->file,
				  .target = *t,
				  .threads = 1,
				  .protocol = "lower quartile of ten rounds in shuffled order",
				  .point = ARENA_ARRAY(a, struct landscape_point, lines + 1)};
	for (char *line = strtok_r(table, "\n", &save); line && rc >= 0; line = strtok_r(NULL, "\n", &save)) {
		struct row r;
		if (parse_row(line, &r) && truth[r.id] > 0 && (!has_forms(d) || !r.fl == !flat) &&
		    out->n < lines && say(d, &x, t, &r, cand))
			add_point(out, &r, truth[r.id], cand, a);
	}
	return rc;
}

static int read_landscape(const char *folder, bool narrow, const struct recorded_task *d,
			  const struct target *t, struct arena *a, struct landscape *out)
{
	struct landscape form[2] = {{0}};
	char *table, *truth;
	if (read_text(folder, narrow, d->file, "", a, &table) < 0 ||
	    read_text(folder, narrow, d->file, "_truth", a, &truth) < 0)
		return E_NOTFOUND; /* the second machine lacks some of the tasks */
	const double *ns = read_truth(truth, a);
	for (int i = 0; i <= has_forms(d); i++) {
		int rc = landscape_of(d, t, i == 1, arena_strdup(a, table), ns, a, &form[i]);
		if (rc < 0)
			return rc;
	}
	*out = form[1].n > form[0].n ? form[1] : form[0];
	return E_OK;
}

int recorded_landscapes(const char *folder, bool narrow, struct arena *a, struct landscape **out)
{
	struct target t;
	int n = 0, rc = machine(narrow, &t);
	*out = ARENA_ARRAY(a, struct landscape, NTASKS);
	for (int i = 0; i < NTASKS && rc >= 0; i++) {
		rc = read_landscape(folder, narrow, &tasks[i], &t, a, &(*out)[n]);
		n += rc >= 0 && (*out)[n].n >= 2;
		rc = rc == E_NOTFOUND ? E_OK : rc;
	}
	return rc < 0 ? rc : n;
}
