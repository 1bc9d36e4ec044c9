/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_device.h"
#include "agent/worker/device.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/adds_up.h"
#include "tools/hone/bench_plan.h"
#include "tools/hone/bench_submit.h"
#include "tools/hone/headline.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/keep.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include "tools/hone/placed.h"
#include "tools/hone/profile.h"
#include "tools/hone/guard.h"
#include "tools/hone/ready.h"
#include "platform/base/stats.h"
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
	MAX_VARIANTS = 4,
	MAX_RUNS = 1000000,
	WARMUP = 3,
	TRACE_RUNS = 5,
	ROW_RUNS = 300,   /* unpaced runs with --rate, for the CPU time of a run */
	KERNEL_RUNS = 25, /* timed per kernel: the median of 25 is steady within 2 % */
};
/* No further run of a kernel begins after this time, so slow models get fewer runs. */
#define KERNELS_NS (3 * NS_PER_S)

/* One of the things that are compared: a model with a cache and a kind of kernels. */
struct variant {
	struct ready ready;
	double *ns; /* per run */
	struct kernel_time *kernel;
};

struct bench {
	const struct args *args;
	struct host host;
	struct target processor; /* with peaks, if it runs kernels beside a device */
	struct arena arena;
	int n, runs;
	int top; /* number of kernels to show; 0: all */
	struct variant variant[MAX_VARIANTS];
	struct roof_notes notes;    /* of all tables, printed once, as those that follow */
	bool shares;                /* a table shows shares of the roofline */
	bool peaks;                 /* a table shows shares of the f32 peak */
	bool tables;                /* there is a table */
	bool beside;                /* a table has kernels that the processor runs beside the device */
	bool bytes;                 /* a table has kernels on 8-bit integers */
	const char *low;            /* why some share of the f32 peak is above 100 %; NULL: none is */
	int64_t period_ns;          /* --rate; 0: runs follow each other without a pause */
	int late;                   /* runs that started late by more than a tenth of the period */
	double cpu_pct;             /* CPU load, in % of one core */
	double cpu_ns;              /* CPU time of all threads per round */
	double row_cpu_ns;          /* with --rate: the same for rounds without pauses */
	struct disturbance machine; /* during the rounds */
};

static int64_t cpu_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * NS_PER_US;
}

static int one_run(struct variant *v, double *ns)
{
	int64_t start = clock_now(&clock_real);
	int rc = plan_run(v->ready.plan, v->ready.in, v->ready.out);
	*ns = (double)(clock_now(&clock_real) - start);
	return fail_in(rc, "%s", v->ready.model.path);
}

static int warm_up(struct bench *b, double *round_ns)
{
	double ns = 0;
	*round_ns = 0;
	for (int i = 0; i < b->n; i++) {
		for (int k = 0; k < WARMUP; k++) {
			int rc = one_run(&b->variant[i], &ns);
			if (rc < 0)
				return rc;
		}
		*round_ns += ns;
	}
	return 0;
}

static void wait_until(struct bench *b, int64_t due)
{
	int64_t now = clock_now(&clock_real);
	if (now < due)
		clock_real.sleep(&clock_real, due - now);
	else if (now > due + b->period_ns / 10)
		b->late++;
}

/* Runs n rounds, or fewer after Ctrl-C. Every variant runs once in each round; a different one begins each
 * time. Returns how many were run. */
static int rounds(struct bench *b, int n, bool rated)
{
	int64_t start = clock_now(&clock_real), cpu = cpu_ns();
	int done = 0;
	for (int r = 0; r < n && !interrupted(); r++) {
		if (rated && r)
			wait_until(b, start + r * b->period_ns);
		for (int i = 0; i < b->n; i++) {
			struct variant *v = &b->variant[(r + i) % b->n];
			int rc = one_run(v, &v->ns[r]);
			if (rc < 0)
				return rc;
		}
		log_live("run %d of %d", r + 1, n);
		done = r + 1;
	}
	if (!done)
		return fail(E_STOPPED, "stopped");
	int64_t wall = clock_now(&clock_real) - start;
	double spent = (double)(cpu_ns() - cpu);
	b->cpu_pct = wall > 0 ? 100.0 * spent / (double)wall : 0;
	b->cpu_ns = spent / done;
	return done;
}

/* With --rate, rounds without pauses are measured first; the difference in CPU time shows threads that spin
 * between frames. */
static int all_rounds(struct bench *b)
{
	struct disturb machine;
	disturb_begin(&machine, NULL);
	int rc = b->period_ns ? rounds(b, b->runs < ROW_RUNS ? b->runs : ROW_RUNS, false) : 0;
	b->row_cpu_ns = b->cpu_ns;
	if (rc >= 0 && !interrupted())
		rc = rounds(b, b->runs, b->period_ns > 0);
	disturb_end(&machine, &b->machine);
	if (rc > 0)
		b->runs = rc;
	return rc;
}

static int time_kernels(struct bench *b)
{
	struct ready *r[MAX_VARIANTS];
	struct kernel_time *time[MAX_VARIANTS];
	for (int i = 0; i < b->n; i++)
		r[i] = &b->variant[i].ready;
	int rc = ready_time_kernels(r, b->n, KERNEL_RUNS, KERNELS_NS, &b->arena, time);
	for (int i = 0; i < b->n && rc >= 0; i++)
		b->variant[i].kernel = time[i];
	return rc;
}

/* Runs for about three seconds, at least 20 and at most 500, unless --runs is given. */
static int choose_runs(struct bench *b, double round_ns)
{
	double each_ns = round_ns < (double)b->period_ns ? (double)b->period_ns : round_ns;
	int64_t n = (int64_t)(3e9 / (each_ns + 1));
	n = n < 20 ? 20 : n > 500 ? 500 : n;
	n = arg_int(b->args, "runs", n);
	if (n < 1 || n > MAX_RUNS)
		return fail(E_USAGE, "--runs %lld is not possible; it takes 1 to %d", (long long)n, MAX_RUNS);
	b->runs = (int)n;
	for (int i = 0; i < b->n; i++)
		b->variant[i].ns = ARENA_ARRAY(&b->arena, double, n);
	return 0;
}

static int measure(struct bench *b)
{
	double round_ns;
	int rc = warm_up(b, &round_ns);
	if (rc >= 0)
		rc = choose_runs(b, round_ns);
	if (rc >= 0)
		rc = all_rounds(b);
	if (rc >= 0)
		rc = time_kernels(b);
	log_live(NULL);
	return rc;
}

struct kernel_row {
	double us, min_us, gflops, peak_pct, roofline_pct; /* percentages are of the median */
	struct roof roof;
	const char *peak_why; /* why peak_pct is above 100; NULL: it is not */
	bool low;             /* it passes a peak that was measured too low */
};

/* Whether the processor runs the kernel beside the device that was asked for. */
static bool is_beside(const struct bench *b, const struct variant *v, const struct plan_kernel *k)
{
	return b->host.name && (k->why != WHY_NOT || !plan_device_use(v->ready.plan).steps);
}

/* The shares are of the machine that runs the kernel; 0: its peaks are not known. */
static struct kernel_row kernel_row(const struct bench *b, const struct variant *v, int i)
{
	const struct plan_kernel *k;
	plan_kernels(v->ready.plan, &k);
	bool beside = is_beside(b, v, &k[i]);
	const struct target *t = beside ? &b->processor : &b->host.target;
	double ns = v->kernel[i].median_ns;
	int threads = beside ? pool_threads(b->host.pool) : b->host.threads;
	int cores = roof_cores(t, threads, &k[i]);
	double peak = t->fma_gflops * cores;
	ns = ns > 0 ? ns : 1;
	const struct steps *s = v->ready.model.steps; /* NULL for a compiled model */
	struct roof roof = !beside ? roof_of_kernel(t, &k[i])
			   : s     ? roof_of_step(t, &s->step[k[i].step], &k[i])
				   : (struct roof){0};
	double peak_pct = peak > 0 ? 100 * k[i].flops / ns / peak : 0, pct = roof_pct(&roof, cores, ns);
	bool bytes = placed_on_bytes(k[i].label);
	const char *peak_why = roof_peak_why(peak_pct, bytes, k[i].pairs);
	return (struct kernel_row){
	    .roof = roof,
	    .us = ns / 1e3,
	    .min_us = v->kernel[i].min_ns / 1e3,
	    .gflops = k[i].flops / ns,
	    .peak_pct = peak_pct,
	    .roofline_pct = pct,
	    .peak_why = peak_why,
	    .low = (peak_why && !bytes && !k[i].pairs) || roof_low(&roof, pct),
	};
}

struct ranked {
	int kernel;
	double ns;
};

static int by_cost(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : x->kernel - y->kernel;
}

/* The kernels to show, in the arena: all in their order or, with --top, the most expensive first. Returns how
 * many. */
static int choose_rows(const struct bench *b, const struct variant *v, struct arena *a, struct ranked **out)
{
	const struct plan_kernel *k;
	int n = plan_kernels(v->ready.plan, &k);
	struct ranked *row = *out = ARENA_ARRAY(a, struct ranked, n + 1);
	for (int i = 0; i < n; i++)
		row[i] = (struct ranked){i, v->kernel[i].median_ns};
	if (!b->top)
		return n;
	qsort(row, (size_t)n, sizeof *row, by_cost);
	return n < b->top ? n : b->top;
}

static json_t *kernels_json(const struct bench *b, const struct variant *v)
{
	const struct plan_kernel *k;
	struct arena a = {0};
	struct ranked *row;
	plan_kernels(v->ready.plan, &k);
	int n = choose_rows(b, v, &a, &row);
	json_t *list = json_array();
	for (int at = 0; at < n; at++) {
		int i = row[at].kernel;
		struct kernel_row r = kernel_row(b, v, i);
		const char *why = roof_why(&r.roof, r.roofline_pct);
		json_array_append_new(
		    list,
		    json_pack("{so so so so so so so so so ss sb ss}", "name", json_text(k[i].name), "label",
			      json_text(k[i].label), "us", json_num(r.us), "min_us", json_num(r.min_us),
			      "gflops", json_num(r.gflops), "peak_pct", json_num(r.peak_pct), "roofline_pct",
			      json_num(r.roofline_pct), "roofline_note", why ? json_text(why) : json_null(),
			      "peak_note", r.peak_why ? json_text(r.peak_why) : json_null(), "kernel_kind",
			      ready_kind(&k[i]), "at_default", k[i].at_default, "device",
			      b->host.name && !is_beside(b, v, &k[i]) ? b->host.name : "cpu"));
	}
	arena_free(&a);
	return list;
}

struct summary {
	double median, p90, p99, min; /* ns */
	struct interval interval;     /* of the median */
};

static struct summary summarize(const struct bench *b, struct variant *v)
{
	return (struct summary){stats_median(v->ns, b->runs), stats_quantile(v->ns, b->runs, 0.9),
				stats_quantile(v->ns, b->runs, 0.99), stats_quantile(v->ns, b->runs, 0),
				stats_interval(v->ns, b->runs)};
}

/* How much faster variant i is than the first. */
static struct faster against_first(struct bench *b, int i)
{
	return faster_by_rounds(b->variant[0].ns, b->variant[i].ns, b->runs);
}

/* The gain that the last tuning of this model measured with as many threads. False: none is stored. */
static bool stored_gain(const struct variant *v, struct gain *out)
{
	return v->ready.kernels == KERNELS_BEST && v->ready.model.g &&
	       gain_get(v->ready.cache, v->ready.history, out);
}

/* The tasks that run without a default kernel, if these were asked for. */
static void add_not_default(const struct variant *v, json_t *o)
{
	const char *why;
	int n = ready_not_default(&v->ready, &why);
	if (v->ready.kernels != KERNELS_DEFAULT)
		return;
	json_object_set_new(o, "not_default", json_integer(n));
	json_object_set_new(o, "not_default_why", n && why ? json_text(why) : json_null());
}

static json_t *variant_json(const struct bench *b, struct variant *v)
{
	struct summary s = summarize(b, v);
	struct buf why = {0};
	struct gain g;
	disturbance_words(&b->machine, &why);
	json_t *o = json_pack(
	    "{so ss so si si so so so so so so sI so so so so so so so}", "model",
	    json_text(v->ready.model.path), "kernels_from", ready_kernels_name(v->ready.kernels), "cache",
	    *v->ready.cache_dir ? json_text(v->ready.cache_dir) : json_null(), "threads", b->host.threads,
	    "runs", b->runs, "median_ms", json_ms(s.median), "p90_ms", json_ms(s.p90), "p99_ms",
	    json_ms(s.p99), "min_ms", json_ms(s.min), "load_ms", json_ms((double)v->ready.load_ns), "cpu_pct",
	    json_num(b->cpu_pct), "plan_bytes", (json_int_t)plan_bytes(v->ready.plan), "memory",
	    bench_memory_json(&v->ready), "kernels", kernels_json(b, v), "median_low_ms",
	    json_ms(s.interval.low), "median_high_ms", json_ms(s.interval.high), "disturbed",
	    why.n ? json_text(buf_str(&why)) : json_null(), "gain",
	    stored_gain(v, &g) ? headline_gain_json(&g) : json_null(), "not_quantized",
	    v->ready.model.floats ? json_text(v->ready.model.floats) : json_null());
	json_object_set_new(o, "level", json_text(level_name((int)v->ready.level)));
	json_object_set_new(o, "stopped", json_boolean(interrupted()));
	json_object_set_new(o, "device_use", bench_device_json(&v->ready));
	add_not_default(v, o);
	buf_free(&why);
	const struct plan_kernel *k;
	int n = plan_kernels(v->ready.plan, &k);
	bool low = false;
	for (int i = 0; i < n; i++)
		low |= kernel_row(b, v, i).low;
	json_object_set_new(o, "peaks_low", json_boolean(low));
	if (b->top)
		json_object_set_new(o, "kernels_left_out", json_integer(n > b->top ? n - b->top : 0));
	return o;
}

/* CPU time of a frame over that of a run without pauses. */
static double cpu_ratio(const struct bench *b)
{
	return b->row_cpu_ns > 0 ? b->cpu_ns / b->row_cpu_ns : 0;
}

static int report_json(struct bench *b, const struct faster *faster)
{
	if (b->n == 1) {
		json_t *o = variant_json(b, &b->variant[0]);
		if (b->period_ns) {
			json_object_set_new(o, "late", json_integer(b->late));
			json_object_set_new(o, "cpu_ms", json_ms(b->cpu_ns));
			json_object_set_new(o, "row_cpu_ms", json_ms(b->row_cpu_ns));
			json_object_set_new(o, "cpu_ratio", json_num(cpu_ratio(b)));
		}
		return json_out(o);
	}
	json_t *models = json_array(), *list = json_array();
	for (int i = 0; i < b->n; i++)
		json_array_append_new(models, variant_json(b, &b->variant[i]));
	for (int i = 1; i < b->n; i++)
		json_array_append_new(
		    list, json_pack("{so so so}", "time_ratio", json_num(1 / faster[i].ratio), "time_low",
				    json_num(1 / faster[i].high), "time_high", json_num(1 / faster[i].low)));
	json_t *lines = json_array();
	for (int i = 1; i < b->n; i++)
		json_array_append_new(lines, headline_json(&faster[i], &b->machine));
	return json_out(
	    json_pack("{so so so}", "models", models, "ratios", list, "faster_than_first", lines));
}

enum { PEAK = 1 << 3, ROOFLINE = 1 << 4 /* columns of the kernels' table */ };

static void say_apart(const struct bench *b, struct variant *v, int n, double sum_ns)
{
	struct buf note = {0};
	adds_up_note(sum_ns, stats_median(v->ns, b->runs), n,
		     plan_device_use(v->ready.plan).steps ? b->host.name : NULL, &note);
	if (note.n)
		table_say("%s", buf_str(&note));
	buf_free(&note);
}

/* Whether a kernel of those that are shown passes the device's peaks by so much that they are measured again. */
static void doubt_device(const struct bench *b, const struct variant *v)
{
	const struct plan_kernel *k;
	struct arena a = {0};
	struct ranked *row;
	bool doubtful = false;
	plan_kernels(v->ready.plan, &k);
	int n = choose_rows(b, v, &a, &row);
	for (int at = 0; at < n && b->host.name; at++) {
		int i = row[at].kernel;
		struct kernel_row r = kernel_row(b, v, i);
		const struct device_pace pace = {r.roofline_pct / 100, r.roof.memory_bound, k[i].bytes,
						 1e3 * r.us};
		doubtful |= !is_beside(b, v, &k[i]) && device_is_outpaced(&b->host.target, &pace);
	}
	if (doubtful)
		device_doubt(b->host.name, v->ready.cache_dir);
	arena_free(&a);
}

/* Nothing, if the model has no kernels. */
static void kernels_table(struct bench *b, struct variant *v)
{
	static const char *const head[] = {"us",          "share",   "GFLOP/s", "of peak",
					   "of roofline", "kernels", "task",    "node"};
	const struct plan_kernel *k;
	int n = plan_kernels(v->ready.plan, &k);
	double all = 0;
	struct table t = {.align = "rrrrrlll", .drop = "00214305"};
	struct arena a = {0};
	struct ranked *row;
	double shown_us = 0;
	if (!n)
		return;
	int shown = choose_rows(b, v, &a, &row);
	for (int i = 0; i < 8; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < n; i++)
		all += kernel_row(b, v, i).us;
	for (int at = 0; at < shown; at++) {
		int i = row[at].kernel;
		struct kernel_row r = kernel_row(b, v, i);
		char share[24];
		shown_us += r.us;
		b->low = r.peak_why ? r.peak_why : b->low;
		b->beside = b->beside || is_beside(b, v, &k[i]);
		b->bytes = b->bytes || placed_on_bytes(k[i].label);
		roof_cell(&b->notes, &r.roof, r.roofline_pct, share);
		table_us(&t, "", 1e3 * r.us);
		table_cell(&t, "%.1f %%", 100 * r.us / (all > 0 ? all : 1));
		table_cell(&t, k[i].flops > 0 ? "%.1f" : "-", r.gflops);
		table_cell(&t, k[i].flops > 0 ? "%.0f %%" : "-", r.peak_pct);
		table_cell(&t, "%s", share);
		table_cell(&t, "%s", ready_kind(&k[i]));
		table_cell(&t, "%s", k[i].label);
		table_cell(&t, "%s", k[i].name);
	}
	table_print(&t, b->args->color);
	if (shown < n)
		table_say("%d of %d rows %s left out (%.1f %% of the time); --top N shows more", n - shown,
			  n, n - shown == 1 ? "is" : "are", 100 * (all - shown_us) / (all > 0 ? all : 1));
	say_apart(b, v, n, 1e3 * all);
	b->tables = true;
	b->shares |= (t.shown & ROOFLINE) != 0;
	b->peaks |= (t.shown & PEAK) != 0;
	arena_free(&a);
}

/* What the columns of all tables mean, below the last one. */
static void columns_words(const struct bench *b)
{
	if (b->tables)
		table_say("us: time of the kernel in the network; hone explain shows times of kernels alone");
	if (b->beside && (b->peaks || b->shares))
		table_say("of peak, of roofline: of the machine that runs the kernel, %s or the processor",
			  b->host.name);
	if (b->bytes && b->peaks)
		table_say("of peak: that of f32; dot products of bytes reach up to four times as much");
	else if (b->low && b->peaks)
		table_say("of peak: %s", b->low);
	roof_notes_print(&b->notes, b->shares);
}

/* A median's 95 % interval, and whether the machine was disturbed. */
#define TINY_NS 1e5 /* times below are shown in microseconds */

static void print_certainty(const struct bench *b, const struct interval *median)
{
	struct buf why = {0};
	disturbance_words(&b->machine, &why);
	bool tiny = median->low < TINY_NS;
	double unit = tiny ? 1e3 : 1e6;
	table_say("  95 %% CI of the median %.3f to %.3f %s%s%s", median->low / unit, median->high / unit,
		  tiny ? "us" : "ms", why.n ? "; disturbed: " : "", buf_str(&why));
	buf_free(&why);
}

/* Whether tuning would find nothing that is new to the cache. */
static bool all_tuned(const struct ready *r)
{
	const struct plan_kernel *k;
	int n = plan_kernels(r->plan, &k), tuned = 0;
	for (int i = 0; i < n; i++) {
		tuned += k[i].origin == FROM_CACHE;
		if (k[i].origin == FROM_FALLBACK)
			return false;
	}
	return tuned > 0;
}

/* The kind of kernels that was asked for; if that is the best, and none of them is tuned, what they are. */
static void kernels_words(const struct ready *r, char out[64])
{
	const struct plan_kernel *k;
	int n = plan_kernels(r->plan, &k), count[4] = {0}, kinds = 0, at = 0;
	for (int i = 0; i < n; i++)
		count[kernel_origin_kind(k[i].origin, k[i].at_default)]++;
	for (int i = 0; i < 4; i++)
		kinds += count[i] > 0;
	snprintf(out, 64, "%s", n ? ready_kernels_name(r->kernels) : "no");
	if (r->kernels != KERNELS_BEST || count[FROM_CACHE])
		return;
	for (int i = 0, said = 0; i < 4; i++)
		if (count[i]) {
			const char *lead = !said ? "" : said + 1 == kinds ? " and " : ", ";
			at += snprintf(out + at, (size_t)(64 - at), "%s%s", lead,
				       ready_origin((enum kernel_origin)i));
			said++;
		}
}

/* The reference of operators on bytes takes a hundred times as long as their kernels. */
static void say_not_default(const struct ready *r)
{
	const char *why;
	int n = ready_not_default(r, &why);
	if (n)
		table_say("warning: %d task%s %s no default kernel here and run%s in fallback kernels or "
			  "portable C, "
			  "which may be far slower%s%s",
			  n, plural_s(n), n == 1 ? "has" : "have", n == 1 ? "s" : "", why ? ": " : "",
			  why ? why : "");
}

/* The threads that run the network, or those beside the device. */
static void threads_words(const struct bench *b, const struct variant *v, char out[64])
{
	int n = pool_threads(b->host.pool);
	bool there = plan_device_use(v->ready.plan).steps > 0;
	snprintf(out, 64, "%s%s%d thread%s", there ? b->host.name : "", there ? " and " : "", n, plural_s(n));
}

static const char *level_words(const struct variant *v)
{
	return v->ready.model.floats ? "int8 without quantised layers" : level_name((int)v->ready.level);
}

static void report(struct bench *b, const struct faster *faster)
{
	double medians[MAX_VARIANTS]; /* ms */
	bool misled = false;
	for (int i = 0; i < b->n; i++) {
		struct variant *v = &b->variant[i];
		kernels_table(b, v);
		if (i + 1 == b->n)
			columns_words(b);
		struct summary x = summarize(b, v);
		char kinds[64];
		kernels_words(&v->ready, kinds);
		char number[16] = "", on[64];
		threads_words(b, v, on);
		if (b->n > 1)
			snprintf(number, sizeof number, "#%d ", i + 1);
		bool tiny = x.median < TINY_NS;
		double unit = tiny ? 1e3 : 1e6;
		table_say("%s%s (%s kernels, %s, %s): median %.3f %s, p90 %.3f, p99 %.3f, min %.3f (%d "
			  "run%s); loaded in %.0f ms, %.1f MiB",
			  number, v->ready.model.path, kinds, level_words(v), on, x.median / unit,
			  tiny ? "us" : "ms", x.p90 / unit, x.p99 / unit, x.min / unit, b->runs,
			  plural_s(b->runs), (double)v->ready.load_ns / 1e6,
			  (double)plan_bytes(v->ready.plan) / 1048576);
		print_certainty(b, &x.interval);
		say_not_default(&v->ready);
		bench_memory(&v->ready);
		bench_device(&v->ready);
		if (v->ready.kernels == KERNELS_BEST)
			ready_look_at_records(&v->ready);
		struct gain g;
		if (stored_gain(v, &g)) {
			headline_gain("tuning: ", &g);
			headline_moments(&g, x.median / 1e6);
		}
		medians[i] = x.median / 1e6;
	}
	if (interrupted())
		printf("interrupted: only these runs were measured\n");
	if (b->period_ns)
		table_say("%d of %d runs started late; CPU load %.0f %% of a core; CPU time %.2f ms per "
			  "frame, %.2f ms without pauses (ratio %.2f)",
			  b->late, b->runs, b->cpu_pct, b->cpu_ns / 1e6, b->row_cpu_ns / 1e6, cpu_ratio(b));
	for (int i = 1; i < b->n; i++) {
		char lead[16];
		snprintf(lead, sizeof lead, "#%d: ", i + 1);
		headline_print(lead, &faster[i], "#1", &b->machine);
		misled |= faster_misled(&faster[i], medians[0], medians[i]);
	}
	headline_medians(misled);
	const struct ready *first = &b->variant[0].ready;
	for (int i = 1; i < b->n && !model_took_all(b->args, &first->model); i++)
		first = &b->variant[i].ready; /* the line repeats every --shape */
	if (!first->model.g || !model_took_all(b->args, &first->model)) /* a compiled model cannot be tuned */
		return;
	if (model_is_untunable(&first->model)) {
		next_flush();
		log_info(UNTUNABLE);
	} else if (all_tuned(first))
		next_hone(b->args, "explain", first->model.path, "");
	else
		keep_tune(b->args, first->cache_dir, first->model.path, " --budget 20s");
}

/* Opens every model with every cache and every kind of kernels. */
static int open_variants(struct bench *b, const char *default_dir)
{
	const struct args *a = b->args;
	const char *const *cache = &default_dir, *best = "best", *const *choice = &best, *const * given;
	int ncaches = arg_list(a, "cache", &given), nchoices;
	if (ncaches > 0)
		cache = given;
	ncaches += !ncaches;
	nchoices = arg_list(a, "kernels", &given);
	if (nchoices > 0)
		choice = given;
	nchoices += !nchoices;
	for (int i = 0; i < a->npos * ncaches * nchoices; i++) {
		enum ready_kernels k;
		int rc = ready_kernels_parse(choice[i / a->npos / ncaches], &k);
		if (rc >= 0 && b->n == MAX_VARIANTS)
			rc = fail(E_USAGE, "more than %d combinations of models, caches and kernels",
				  MAX_VARIANTS);
		if (rc >= 0)
			rc = ready_open(a, a->pos[i % a->npos], cache[i / a->npos % ncaches], k, &b->host,
					&b->variant[b->n].ready);
		if (rc < 0)
			return rc;
		if (i % a->npos == 0 && i < a->npos * ncaches) /* once for each cache */
			model_cache_warn(b->variant[b->n].ready.cache);
		b->n++;
		if (arg_flag(a, "require-cache"))
			rc = ready_require(a, &b->variant[b->n - 1].ready);
		if (rc < 0)
			return rc;
	}
	const struct model *m[MAX_VARIANTS];
	for (int i = 0; i < b->n; i++)
		m[i] = &b->variant[i].ready.model;
	return model_shapes_met(a, m, b->n);
}

/* Learns the processor's peaks, if it runs kernels beside the device. */
static int know_processor(struct bench *b, const char *dir)
{
	const struct plan_kernel *k;
	bool beside = false;
	for (int i = 0; i < b->n; i++) {
		int n = plan_kernels(b->variant[i].ready.plan, &k);
		for (int j = 0; j < n; j++)
			beside = beside || is_beside(b, &b->variant[i], &k[j]);
	}
	return beside ? machine_target(dir, &b->processor) : E_OK;
}

/* Checks that the requested profilers can work, before minutes are spent on measuring. */
static int profilers(struct bench *b)
{
	bool map = arg_flag(b->args, "perf-map");
	if (b->n > 1 && (map || arg_str(b->args, "trace", NULL)))
		return fail(E_USAGE, "--trace and --perf-map show one model with one kind of kernels");
	return map ? profile_perf_map(b->variant[0].ready.plan) : 0;
}

static int bench(struct bench *b)
{
	char dir[4096] = "", to[PATH_MAX];
	const char *const *given, *trace = arg_str(b->args, "trace", NULL);
	interrupt_catch();
	int n = arg_list(b->args, "cache", &given);
	int rc = trace ? output_file(b->args, trace, OUTPUT_TRACE, to) : 0;
	if (rc >= 0 && !n)
		rc = model_cache_or_none(b->args, dir, sizeof dir);
	for (int i = 0; i < n && rc >= 0; i++)
		rc = model_cache_check(given[i]);
	if (rc >= 0)
		rc = host_open(b->args, n ? given[0] : dir, true, &b->host);
	if (rc >= 0)
		rc = open_variants(b, dir);
	if (rc >= 0)
		rc = know_processor(b, n ? given[0] : dir);
	if (rc >= 0)
		rc = profilers(b);
	if (rc >= 0)
		rc = measure(b);
	if (rc >= 0 && trace && !interrupted())
		rc = profile_trace(&b->variant[0].ready, TRACE_RUNS, to);
	if (rc < 0)
		return rc;
	struct faster faster[MAX_VARIANTS] = {{0}};
	for (int i = 1; i < b->n; i++)
		faster[i] = against_first(b, i);
	for (int i = 0; i < b->n; i++)
		doubt_device(b, &b->variant[i]);
	if (b->args->json)
		return report_json(b, faster);
	report(b, faster);
	return 0;
}

static int choose_rate(struct bench *b)
{
	const int64_t none = INT64_MIN;
	int64_t rate = arg_int(b->args, "rate", none);
	if (rate != none && (rate < 1 || rate > 1000000))
		return fail(E_USAGE, "--rate %lld is not possible; it takes 1 to 1000000 (Hz)",
			    (long long)rate);
	b->period_ns = rate != none ? NS_PER_S / rate : 0;
	return 0;
}

static int choose_top(struct bench *b)
{
	int64_t top = arg_int(b->args, "top", INT32_MAX);
	if (top < 1 || top > INT32_MAX)
		return fail(E_USAGE, "--top %lld is not possible; it takes 1 or more", (long long)top);
	b->top = arg_given(b->args, "top") ? (int)top : 0;
	return 0;
}

static int bench_all(const struct args *a)
{
	if (arg_given(a, "submit"))
		return interrupt_status(bench_submit(a, arg_str(a, "submit", "")));
	struct bench *b = calloc(1, sizeof *b);
	if (!b)
		return fail(E_NOMEM, "no memory for the benchmark");
	b->args = a;
	int rc = choose_rate(b);
	if (rc >= 0)
		rc = choose_top(b);
	if (rc >= 0)
		rc = bench(b);
	for (int i = 0; i < b->n; i++)
		ready_close(&b->variant[i].ready);
	host_close(&b->host);
	arena_free(&b->arena);
	free(b);
	return interrupt_status(rc < 0 ? rc : 0);
}

static int run_bench(const struct args *a)
{
	return guard_run(a, bench_all, GUARD_FAILS);
}

static const struct opt opts[] = {
    {"runs", OPT_INT, "N", "runs (default: three seconds, 20 to 500)", .also = "n"},
    {"rate", OPT_INT, "HZ", "start runs at this rate, as a camera would; shows late runs and CPU time"},
    {"top", OPT_INT, "N", "show only the N most expensive kernels (default: all, in their order)"},
    {"kernels", OPT_LIST, "KIND", "best (default), default (untuned schedules) or fallback (built in)",
     .values = "best default fallback"},
    {"cache", OPT_LIST, "DIR",
     "cache to take kernels from (default: honed's if it runs, else $XDG_CACHE_HOME/hone)"},
    OPT_REQUIRE_CACHE,
    {"trace", OPT_STR, "FILE", "also write five runs as a trace for Perfetto or Chrome (ui.perfetto.dev), with a row for each thread "
     "and the device"},
    {"submit", OPT_STR, "FILE",
     "measure fallback, default and tuned kernels in turn, and write what adds this board to hone's table"},
    {"perf-map", OPT_FLAG, NULL, "name the kernels for perf in /tmp/perf-PID.map"},
    OPT_THREADS,
    OPT_DEVICE,
    OPT_LEVEL,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_bench = {
    .usage = "MODEL... [--runs N] [--rate HZ] [--kernels KIND] [--threads N] [--device "
	     "cpu[:CLUSTER]|opencl:N|cuda:N] "
	     "[--cache DIR] "
	     "[--level LEVEL] [--submit FILE]",
    .summary = "measure how fast a model runs, as a whole and per kernel",
    .details = "Several models, caches or kinds of kernels are run in turn, and compared with the first by "
	       "the median of\n"
	       "the ratios of neighbouring runs, with its 95 % interval. Kernels are timed in the network, "
	       "where other\n"
	       "kernels change what the caches hold; hone explain shows their times alone.",
    .min_pos = 1,
    .max_pos = MAX_VARIANTS,
    .opts = opts,
    .run = run_bench,
    .name = "bench",
};
