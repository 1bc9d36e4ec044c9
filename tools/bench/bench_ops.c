/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-ops: all operators other than convolutions, at default schedules, on one core. Each case is a
 * model of one node, or of one node between 1x1 convolutions, which make its tensors blocked by channels.
 * Kernels without a convolution count, conversions of layout too. The figure is the tenth percentile of
 * --runs runs (60).
 *
 * The roofline is the larger of two times. Arithmetic: the vector operations that the operator's definition
 * takes (kernels/space/draft.h), two per cycle. Memory: plain loops that read the inputs once and write the
 * outputs once (for a Slice or a Gather only the bytes that it takes), timed beside the case on as many
 * bytes, in place if the kernel may overwrite its input. Bytes over the read bandwidth would be too strict: a
 * written line is read first and written back, so a copy within L2 reaches half of that. Column "bound":
 * which of the two it is, and which memory level holds these bytes.
 *
 * bench_ops [--runs N] [--case TEXT] [--fallback] [--verbose]: cases whose name contains TEXT; fallback
 * kernels, without a compiler; every kernel of each case. */
#include "kernels/space/draft.h"
#include "kernels/graph/optimize.h"
#include "tools/bench/op_models.h"
#include "tools/hone/ready.h"
#include "platform/base/stats.h"
#include "tools/hone/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_RUNS = 10000 };

struct bench {
	struct host host;
	struct kernel_source source;
	struct table table;
	int runs;
	bool verbose;
	float *from, *to; /* buffers of the plain loops */
};

enum { STREAM_MAX = 64 << 20, STREAM_RUNS = 64 };
static double tensor_bytes(const struct graph *g, int v)
{
	const struct tensor *t = &g->value[v].t;
	return (double)shape_count(&t->shape) * (double)dtype_bytes(t->dtype);
}

/* Bytes that the node must move: its inputs and outputs once. */
struct moved {
	double in, out;
};

static struct moved node_bytes(const struct graph *g, const struct op_model *c, const struct node *n)
{
	struct moved m = {0};
	bool takes = !strcmp(c->type, "Slice") || !strcmp(c->type, "Gather");
	for (int i = 0; i < n->nout; i++)
		m.out += n->out[i] >= 0 ? tensor_bytes(g, n->out[i]) : 0;
	for (int i = 0; i < n->nin; i++)
		m.in += n->in[i] >= 0 ? tensor_bytes(g, n->in[i]) : 0;
	if (takes && m.in > m.out)
		m.in = m.out;
	return m;
}

static const char *level(const struct target *t, double bytes)
{
	return bytes <= (double)t->l1_bytes   ? "L1"
	       : bytes <= (double)t->l2_bytes ? "L2"
	       : bytes <= (double)t->l3_bytes ? "L3"
					      : "memory";
}

static size_t stream_size(double bytes)
{
	return bytes > STREAM_MAX ? STREAM_MAX : ((size_t)bytes + 4095) / 4096 * 4096;
}

/* Time of plain loops that move as many bytes; sizes are rounded up to whole pages. `over`: the output
 * overwrites the input. */
static double stream_ns(const struct bench *b, struct moved m, bool over)
{
	double ns[STREAM_RUNS];
	size_t in = stream_size(m.in), out = stream_size(m.out);
	int rc = E_OK;
	for (int i = 0; i < STREAM_RUNS && rc >= 0; i++) {
		int64_t start = clock_now(&clock_real);
		rc = target_stream(&b->host.target, over ? b->from : b->to, out, b->from, in);
		ns[i] = (double)(clock_now(&clock_real) - start);
	}
	return rc < 0 ? 0 : stats_quantile(ns, STREAM_RUNS, .1) * (m.in + m.out) / (double)(in + out);
}

static bool counts(const struct graph *g, const struct step *s)
{
	return s->anchor < 0 || strcmp(node_type(&g->node[s->anchor]), "Conv") != 0;
}

/* Prints a kernel with its default schedule. */
static void say_kernel(const struct bench *b, const struct plan_kernel *k, const struct step *s)
{
	struct arena a = {0};
	struct space *space;
	char cand[CAND_MAX] = "";
	if (s->kind == STEP_TASK && space_make(&a, s->task, &b->host.target, NULL, &space) >= 0)
		space_default(space, cand);
	fprintf(stderr, "  %9.1f us %-8s %s (%s)  %s\n", (double)k->ns / 1e3, ready_origin(k->origin),
		k->label, k->name, cand);
	arena_free(&a);
}

struct figures {
	double ns, arithmetic_ns;
	bool over; /* the case is one kernel that may overwrite its input */
	int kernels;
	enum kernel_origin worst;
};

static double arithmetic_ns(const struct target *t, const struct task *task)
{
	return draft_arithmetic(task, t->lanes) / 2 / draft_ghz(t);
}

static bool writes_over(const struct task *t)
{
	int out = t->stage[t->nstages - 1].out.operand;
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_IN && task_overwrites(t, i) &&
		    operand_elems(&t->operand[i]) == operand_elems(&t->operand[out]))
			return true;
	return false;
}

/* In each run, sums the times of the kernels without a convolution. */
static int measure(struct bench *b, const struct graph *g, const struct steps *s, struct plan *p,
		   const struct tensor *in, struct tensor *out, struct figures *f)
{
	static double ns[MAX_RUNS];
	const struct plan_kernel *k;
	int n = plan_kernels(p, &k), rc = E_OK;
	for (int i = 0; i < b->runs + 3 && rc >= 0; i++) {
		rc = plan_run_timed(p, in, out, &clock_real);
		double *sum = &ns[i < 3 ? 0 : i - 3];
		*sum = 0;
		for (int j = 0; j < n; j++)
			*sum += counts(g, &s->step[k[j].step]) ? (double)k[j].ns : 0;
	}
	for (int j = 0; j < n && rc >= 0; j++) {
		const struct step *step = &s->step[k[j].step];
		if (!counts(g, step))
			continue;
		f->kernels++;
		f->worst = k[j].origin > f->worst ? k[j].origin : f->worst;
		if (step->kind == STEP_TASK)
			f->arithmetic_ns += arithmetic_ns(&b->host.target, step->task);
		f->over = f->kernels == 1 && step->kind == STEP_TASK && writes_over(step->task);
		if (b->verbose)
			say_kernel(b, &k[j], step);
	}
	f->ns = stats_quantile(ns, b->runs, .1);
	return rc;
}

static void row(struct bench *b, const struct op_model *c, const char *in, struct moved m,
		const struct figures *f)
{
	double bytes = m.in + m.out, memory = stream_ns(b, m, f->over);
	bool arithmetic = f->arithmetic_ns > memory;
	char shapes[64];
	snprintf(shapes, sizeof shapes, "%.*s%s", (int)strcspn(in, "-:"), in, c->blocked ? " blocked" : "");
	table_cell(&b->table, "%s", c->name);
	table_cell(&b->table, "%s", shapes);
	table_cell(&b->table, "%.1f", f->ns / 1e3);
	table_cell(&b->table, "%.0f", bytes / 1024);
	table_cell(&b->table, "%.1f", f->ns > 0 ? bytes / f->ns : 0);
	table_cell(&b->table, f->ns > memory / 20 ? "%.0f %%" : "in place",
		   100 * fmax(memory, f->arithmetic_ns) / f->ns);
	table_cell(&b->table, "%s",
		   arithmetic ? "arithmetic" : level(&b->host.target, f->over ? m.in : bytes));
	table_cell(&b->table, "%d", f->kernels);
	table_cell(&b->table, "%s", f->worst > FROM_DEFAULT ? ready_origin(f->worst) : "");
}

static int run_graph(struct bench *b, const struct op_model *c, struct graph *g, int node, const char *shapes)
{
	struct arena a = {0};
	struct steps *s;
	struct plan *p = NULL;
	struct tensor *in, *out;
	struct figures f = {0};
	struct choices alone = {0}; /* choices that keep the node out of the convolutions' kernels */
	struct moved bytes = node_bytes(g, c, &g->node[node]);
	int rc = graph_optimize(g);
	choices_set(&alone, &a, CHOICE_FUSE, OP_MODEL_CONV, 1);
	choices_set(&alone, &a, CHOICE_FUSE, OP_MODEL_NODE, 1);
	choices_set(&alone, &a, CHOICE_JOIN, OP_MODEL_CONV, 0);
	if (rc >= 0)
		rc = graph_steps(g, &b->host.target, &alone, &a, &s);
	if (rc >= 0)
		rc = plan_build(g, s, &b->host.target, b->source.find ? &b->source : NULL, b->host.pool, &p);
	if (rc >= 0)
		rc = model_inputs(g, 1, &a, &in);
	if (rc >= 0)
		rc = model_outputs(g, &a, &out);
	if (rc >= 0)
		rc = measure(b, g, s, p, in, out, &f);
	if (rc >= 0)
		row(b, c, shapes, bytes, &f);
	plan_free(p);
	arena_free(&a);
	return rc;
}

static int run_case(struct bench *b, const struct op_model *c, const char *in)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = c->name;
	int rc = op_model_make(g, c, in);
	if (rc >= 0)
		rc = run_graph(b, c, g, rc, in);
	graph_free(g);
	return fail_in(rc, "%s %s", c->name, in);
}

/* Allocates the buffers in huge pages if possible; they are half a page apart, so that no load waits for a
 * store 4 KB before it. */
static int stream_buffers(struct bench *b)
{
	size_t bytes = 2 * STREAM_MAX + 2048;
	b->from = aligned_alloc(2 << 20, (bytes + (2 << 20) - 1) >> 21 << 21);
	if (!b->from)
		return fail(E_NOMEM, "no memory for plain loops");
	(void)madvise(b->from, bytes, MADV_HUGEPAGE);
	memset(b->from, 0, bytes);
	b->to = b->from + (STREAM_MAX + 2048) / sizeof *b->to;
	return E_OK;
}

static int run_cases(struct bench *b, const char *only)
{
	static const char *const head[] = {"operator",    "shape", "us",      "KiB", "GB/s",
					   "of roofline", "bound", "kernels", ""};
	b->table.align = "llrrrrlrl";
	for (int i = 0; i < 9; i++)
		table_cell(&b->table, "%s", head[i]);
	int rc = stream_buffers(b);
	for (const struct op_model *c = op_models; c->name && rc >= 0; c++)
		for (int k = 0; k < 2 && rc >= 0; k++)
			if (c->in[k] && (!only || strstr(c->name, only)))
				rc = run_case(b, c, c->in[k]);
	if (rc >= 0)
		table_print(&b->table, false);
	free(b->from);
	return rc;
}

static int run_ops(const struct args *a)
{
	struct bench b = {.runs = (int)arg_int(a, "runs", 60), .verbose = arg_flag(a, "verbose")};
	char dir[4096];
	if (b.runs < 1 || b.runs > MAX_RUNS)
		return fail(E_USAGE, "--runs %d: must be 1 to %d", b.runs, MAX_RUNS);
	int rc = model_cache_dir(a, dir, sizeof dir);
	if (rc >= 0)
		rc = host_open(a, dir, true, &b.host);
	bool fallback = arg_flag(a, "fallback");
	if (rc >= 0 && !fallback)
		rc = defaults_open(NULL, &b.host, false, &b.source);
	if (rc < 0)
		return rc;
	rc = run_cases(&b, arg_str(a, "case", NULL));
	if (!fallback)
		defaults_close(&b.source);
	host_close(&b.host);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"runs", OPT_INT, "N", "runs of each case (60)"},
    {"case", OPT_STR, "TEXT", "only cases whose name contains this text"},
    {"fallback", OPT_FLAG, NULL, "use fallback kernels"},
    {"verbose", OPT_FLAG, NULL, "print every kernel"},
    OPT_THREADS,
    OPT_LEVEL,
    OPT_CACHE,
    {NULL},
};

static const struct cmd ops = {
    .usage = "[--runs N] [--case TEXT] [--fallback] [--verbose] [--threads N]",
    .summary = "compare all operators except convolutions with their rooflines",
    .details = "",
    .max_pos = 0,
    .opts = opts,
    .run = run_ops,
    .name = "ops",
};

int main(int argc, char **argv)
{
	return cmd_main(&ops, argc, argv);
}
