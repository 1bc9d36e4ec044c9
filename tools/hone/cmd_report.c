/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/image.h"
#include "agent/run/plan_device.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/adds_up.h"
#include "tools/hone/chart.h"
#include "tools/hone/guard.h"
#include "tools/hone/headline.h"
#include "tools/hone/keep.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include "tools/hone/ready.h"
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include "platform/base/stats.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 25, SHOWN = 40 /* kernels that get a bar of their own */ };

struct report {
	const struct args *args;
	char cache_dir[4096];
	struct host host;
	struct arena arena;
	struct ready before, after;
	enum ready_kernels untuned; /* kind of kernels in `before` */
	double before_ms, after_ms; /* time of the whole network, medians */
	struct faster faster;       /* `after` against `before`, measured for this page */
	struct disturbance machine; /* meanwhile */
	bool has_gain;
	struct gain gain; /* what the last tuning measured */
	int n;
	struct chart_kernel *kernel; /* kernels of `after`, in the order of execution */
	const char **origin;
	struct roof *roof;
	int *cores; /* that each kernel runs on */
	struct history history; /* n is 0 if none is kept */
};

/* Opens the model with default schedules if they can be made, else with the fallback kernels. */
static int open_before(struct report *r)
{
	const char *path = r->args->pos[0];
	r->untuned = KERNELS_DEFAULT;
	int rc = ready_open(r->args, path, r->cache_dir, KERNELS_DEFAULT, &r->host, &r->before);
	if (rc >= 0)
		return rc;
	log_info("no default schedules (%s): comparing with the fallback kernels", err_text());
	r->untuned = KERNELS_FALLBACK;
	return ready_open(r->args, path, r->cache_dir, KERNELS_FALLBACK, &r->host, &r->before);
}

static int time_networks(struct report *r)
{
	struct ready *net[2] = {&r->before, &r->after};
	double *ns[2];
	for (int i = 0; i < 2; i++)
		ns[i] = ARENA_ARRAY(&r->arena, double, RUNS);
	struct disturb machine;
	int rc = 0;
	disturb_begin(&machine, NULL);
	for (int k = -2; k < 2 * RUNS && rc >= 0; k++) { /* the first run of each warms up */
		struct ready *x = net[(k + 2) % 2];
		int64_t start = clock_now(&clock_real);
		rc = plan_run(x->plan, x->in, x->out);
		if (k >= 0)
			ns[k % 2][k / 2] = (double)(clock_now(&clock_real) - start);
	}
	disturb_end(&machine, &r->machine);
	if (rc < 0)
		return rc;
	r->faster = faster_by_rounds(ns[0], ns[1], RUNS);
	r->before_ms = stats_median(ns[0], RUNS) / 1e6;
	r->after_ms = stats_median(ns[1], RUNS) / 1e6;
	return 0;
}

/* The time of the kernel of the same node with the same label before tuning; 0: there is none, because it was
 * fused differently. */
static double find_before(const struct report *r, const struct plan_kernel *k, const struct kernel_time *time)
{
	const struct plan_kernel *b;
	int n = plan_kernels(r->before.plan, &b);
	for (int i = 0; i < n; i++)
		if (!strcmp(b[i].name, k->name) && !strcmp(b[i].label, k->label))
			return time[i].median_ns;
	return 0;
}

static int time_kernels(struct report *r)
{
	struct ready *net[2] = {&r->before, &r->after};
	struct kernel_time *time[2];
	const struct plan_kernel *k;
	int rc = ready_time_kernels(net, 2, RUNS, 20 * NS_PER_S, &r->arena, time);
	if (rc < 0)
		return rc;
	r->n = plan_kernels(r->after.plan, &k);
	r->kernel = ARENA_ARRAY(&r->arena, struct chart_kernel, r->n + 1);
	r->origin = ARENA_ARRAY(&r->arena, const char *, r->n + 1);
	r->roof = ARENA_ARRAY(&r->arena, struct roof, r->n + 1);
	r->cores = ARENA_ARRAY(&r->arena, int, r->n + 1);
	for (int i = 0; i < r->n; i++) {
		r->kernel[i] = (struct chart_kernel){
		    k[i].name,  k[i].label, find_before(r, &k[i], time[0]), time[1][i].median_ns,
		    k[i].flops, k[i].bytes};
		r->origin[i] = ready_kind(&k[i]);
		r->roof[i] = roof_of_kernel(&r->host.target, &k[i]);
		r->cores[i] = roof_cores(&r->host.target, r->host.threads, &k[i]);
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct chart_kernel *x = a, *y = b;
	return x->after_ns < y->after_ns ? 1 : x->after_ns > y->after_ns ? -1 : 0;
}

static void section(struct buf *out, const char *title, const char *words)
{
	buf_printf(out, "<h2>%s</h2>\n<p class=\"dim\">%s</p>\n", title, words);
}

static void write_bars(const struct report *r, struct buf *out)
{
	struct chart_kernel *sorted = ARENA_ARRAY((struct arena *)&r->arena, struct chart_kernel, r->n + 1);
	memcpy(sorted, r->kernel, sizeof *sorted * (size_t)r->n);
	qsort(sorted, (size_t)r->n, sizeof *sorted, by_time);
	section(
	    out, "Time by kernel",
	    r->untuned == KERNELS_DEFAULT
		? "Microseconds inside the network, the longest first: above the untuned default schedules, "
		  "below what runs now."
		: "Microseconds inside the network, the longest first: above the fallback kernels, below "
		  "what runs now.");
	chart_bars(sorted, r->n < SHOWN ? r->n : SHOWN, out);
}

/* A cell of the table that says its column, for pages that are too narrow for columns. */
__attribute__((format(printf, 3, 4))) static void cell(struct buf *out, const char *column, const char *fmt,
						       ...)
{
	char text[64];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	buf_printf(out, "<td data-h=\"%s\">%s</td>", column, text);
}

static void write_table(const struct report *r, struct buf *out)
{
	struct roof_notes notes = {0};
	section(out, "Every kernel", "In the order of execution.");
	buf_puts(out,
		 "<div class=\"scroll\"><table><tr><th>node</th><th>task</th><th>us default</th><th>us</th>"
		 "<th>GFLOP/s</th><th>of roofline</th><th>kernels</th></tr>\n");
	for (int i = 0; i < r->n; i++) {
		const struct chart_kernel *k = &r->kernel[i];
		double ns = k->after_ns > 0 ? k->after_ns : 1;
		char share[24];
		buf_puts(out, "<tr><td>");
		chart_escape(k->name, out);
		buf_puts(out, "</td><td>");
		chart_escape(k->label, out);
		buf_puts(out, "</td>");
		cell(out, "us default", k->before_ns > 0 ? "%.1f" : "-", k->before_ns / 1e3);
		cell(out, "us", "%.1f", ns / 1e3);
		cell(out, "GFLOP/s", k->flops > 0 ? "%.1f" : "-", k->flops / ns);
		roof_cell(&notes, &r->roof[i], roof_pct(&r->roof[i], r->cores[i], ns), share);
		cell(out, "of roofline", "%s", share);
		cell(out, "kernels", "%s", r->origin[i]);
		buf_puts(out, "</tr>\n");
	}
	buf_puts(out, "</table></div>\n");
	roof_notes_text(&notes, "<p class=\"dim\">", "</p>\n", out);
}

static const char *untuned_name(const struct report *r)
{
	return r->untuned == KERNELS_DEFAULT ? GAIN_THAN : "fallback kernels";
}

/* Words of the terminal as a sentence of the page. */
static void write_sentence(const struct buf *words, struct buf *out)
{
	char first[2] = {(char)toupper((unsigned char)buf_str(words)[0])};
	if (!first[0])
		return;
	chart_escape(first, out);
	chart_escape(buf_str(words) + 1, out);
	buf_puts(out, ".");
}

/* What this page measured, and what the last tuning measured. */
static void write_headlines(const struct report *r, struct buf *out)
{
	struct buf line = {0};
	buf_puts(&line, "measured for this page, round by round: ");
	faster_words(&r->faster, untuned_name(r), &r->machine, &line);
	buf_puts(out, "<p>");
	write_sentence(&line, out);
	if (r->has_gain) {
		buf_clear(&line);
		buf_puts(&line, "tuning: ");
		gain_words(&r->gain, &line);
		buf_puts(out, "<br>");
		write_sentence(&line, out);
	}
	buf_puts(out, "</p>\n");
	buf_free(&line);
}

static void write_apart(const struct report *r, struct buf *out)
{
	struct buf note = {0};
	double sum_ns = 0;
	for (int i = 0; i < r->n; i++)
		sum_ns += r->kernel[i].after_ns;
	adds_up_note(sum_ns, 1e6 * r->after_ms, r->n,
		     plan_device_use(r->after.plan).steps ? r->host.name : NULL, &note);
	if (note.n) {
		buf_puts(out, "<p class=\"dim\">");
		write_sentence(&note, out);
		buf_puts(out, "</p>\n");
	}
	buf_free(&note);
}

/* What the network ran on. */
static void write_machine(const struct report *r, struct buf *out)
{
	const struct target *t = &r->host.target;
	if (r->host.name)
		buf_printf(out, "%s, ", r->host.name);
	else
		buf_printf(out, "%d thread%s, ", r->host.threads, plural_s(r->host.threads));
	chart_escape(t->soc, out);
	if (r->host.name)
		buf_printf(
		    out,
		    ", %d compute unit%s, %.1f GFLOP/s; steps without a kernel for the device run on the "
		    "processor",
		    t->cores, plural_s(t->cores), t->fma_gflops);
	else
		buf_printf(out, ", %s, %.1f GFLOP/s a core", t->isa, t->fma_gflops);
}

static void write_head(const struct report *r, struct buf *out)
{
	const char *name = model_name(r->args->pos[0], (struct arena *)&r->arena);
	buf_puts(out, OUTPUT_REPORT
		 "<html lang=\"en\"><head><meta charset=\"utf-8\">"
		 "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>hone: ");
	chart_escape(name, out);
	buf_puts(out, "</title><style>");
	chart_style(out);
	buf_puts(out, "</style></head><body>\n<h1>");
	chart_escape(name, out);
	buf_printf(out, "</h1>\n<p><b>%.3f ms</b> an inference, %.3f ms with %s (median times). ",
		   r->after_ms, r->before_ms, untuned_name(r));
	write_machine(r, out);
	buf_printf(out, ". hone %s.</p>\n", HONE_VERSION);
	write_headlines(r, out);
	write_apart(r, out);
}

/* Whether the cache has no kernel of the network, though some can be tuned. */
static bool is_untuned(const struct report *r)
{
	const struct plan_kernel *k;
	int n = plan_kernels(r->after.plan, &k), tuned = 0, missing = 0;
	for (int i = 0; i < n; i++) {
		tuned += k[i].origin == FROM_CACHE;
		missing += ready_missing(&r->after, &k[i]);
	}
	return missing && !tuned;
}

/* Says that the page shows built-in kernels, because the cache has none of this network. */
static void untuned_words(const struct report *r, struct buf *out)
{
	buf_printf(
	    out,
	    "no kernel of the cache is tuned for this network and %s: what runs now are built-in kernels",
	    r->host.name ? "device" : "number of threads");
}

static void page(const struct report *r, struct buf *out)
{
	int cores = r->host.threads < r->host.target.cores ? r->host.threads : r->host.target.cores;
	write_head(r, out);
	if (is_untuned(r)) {
		buf_puts(out, "<p><b>Not tuned yet:</b> ");
		untuned_words(r, out);
		buf_printf(out, "; run hone tune%s%s, then make this page again.</p>\n",
			   r->host.name ? " --device " : "", r->host.name ? r->host.name : "");
	}
	section(out, "Roofline",
		"A point is a kernel, its area the share of the time. The flat roof is arithmetic in f32, of "
		"which dot products of "
		"bytes reach up to four times as much; the "
		"slopes are what each level of memory can read.");
	chart_roofline(&r->host.target, cores, r->kernel, r->n, out);
	write_bars(r, out);
	if (r->history.n > 1) {
		section(out, "Progress of the search",
			"Sum of the best times of all kernels, by seconds since tuning began.");
		chart_history(&r->history, out);
	}
	write_table(r, out);
	buf_puts(out, "</body></html>\n");
}

static int find_history(struct report *r)
{
	struct blob text;
	if (!r->after.cache)
		return 0;
	r->has_gain = gain_get(r->after.cache, r->after.history, &r->gain);
	int rc = cache_get(r->after.cache, CACHE_HISTORY, r->after.history, &r->arena, &text);
	if (rc >= 0)
		rc = history_parse((const char *)text.p, text.n, &r->history);
	return rc == E_NOTFOUND || rc == E_CORRUPT ? 0 : rc;
}

static int measure(struct report *r)
{
	int rc = model_cache_to_read(r->args, r->cache_dir, sizeof r->cache_dir);
	if (rc >= 0)
		rc = host_open(r->args, r->cache_dir, true, &r->host);
	if (rc >= 0)
		rc = ready_open(r->args, r->args->pos[0], r->cache_dir, KERNELS_BEST, &r->host, &r->after);
	if (rc >= 0)
		rc = open_before(r);
	if (rc >= 0)
		rc = find_history(r);
	if (rc >= 0)
		rc = time_networks(r);
	return rc < 0 ? rc : time_kernels(r);
}

static int write_page(struct report *r, const char *file)
{
	struct buf html = {0};
	page(r, &html);
	int rc = buf_ok(&html) ? file_write(file, html.p, html.n) : fail(E_NOMEM, "no memory for the page");
	buf_free(&html);
	return rc;
}

static void say_untuned(const struct report *r)
{
	struct buf b = {0};
	untuned_words(r, &b);
	table_say("%s; tune it, then make the page again", buf_str(&b));
	buf_free(&b);
}

static int words(const struct report *r, const char *file)
{
	bool untuned = is_untuned(r);
	if (r->args->json)
		return json_out(json_pack(
		    "{so so so si si so so so so sb}", "model", json_text(r->args->pos[0]), "file",
		    json_text(file), "device", json_text(r->host.name ? r->host.name : "cpu"), "threads",
		    r->host.threads, "kernel_count", r->n, "before_ms", json_num(r->before_ms), "after_ms",
		    json_num(r->after_ms), "faster", headline_json(&r->faster, &r->machine), "gain",
		    r->has_gain ? headline_gain_json(&r->gain) : json_null(), "untuned", untuned));
	table_say("wrote %s: median times %.3f ms, %.3f ms with %s; %d kernel%s", file, r->after_ms,
		  r->before_ms, untuned_name(r), r->n, plural_s(r->n));
	headline_print("measured now, round by round: ", &r->faster, untuned_name(r), &r->machine);
	headline_medians(faster_misled(&r->faster, r->before_ms, r->after_ms));
	if (r->has_gain) {
		headline_gain("tuning: ", &r->gain);
		headline_moments(&r->gain, r->after_ms);
	}
	if (untuned)
		say_untuned(r);
	next_flush();
	log_info("open %s in a browser", file);
	if (untuned)
		keep_tune(r->args, r->cache_dir, r->args->pos[0], " --budget 20s");
	return 0;
}

/* A compiled model has its own kernels alone, so there is nothing to compare them with. */
static int needs_model(const char *path)
{
	char file[4096];
	struct buf bench = {0};
	int rc = E_OK;
	shell_path(&bench, path);
	if (image_find(path, file, sizeof file) && file_exists(file))
		rc = fail(
		    E_UNSUPPORTED,
		    "%s is a compiled model, and a report compares tuned kernels with untuned ones: give the "
		    "ONNX model that it was compiled from; `hone bench %s` times it as it is",
		    path, buf_str(&bench));
	buf_free(&bench);
	return rc;
}

static int report(const struct args *a)
{
	char to[PATH_MAX];
	const char *file = arg_str(a, "output", NULL);
	if (!file)
		return fail(E_USAGE, "missing option -o; usage: hone report %s -o FILE.html", a->pos[0]);
	int rc = needs_model(a->pos[0]);
	if (rc >= 0)
		rc = output_file(a, file, OUTPUT_REPORT, to); /* before a minute of measuring */
	if (rc < 0)
		return rc;
	struct report *r = calloc(1, sizeof *r);
	if (!r)
		return fail(E_NOMEM, "no memory for a report");
	r->args = a;
	rc = measure(r);
	if (rc >= 0)
		rc = write_page(r, to);
	if (rc >= 0)
		rc = words(r, file);
	if (rc >= 0)
		rc = guard_done();
	ready_close(&r->before);
	ready_close(&r->after);
	host_close(&r->host);
	arena_free(&r->arena);
	free(r);
	return rc < 0 ? rc : 0;
}

static int run_report(const struct args *a)
{
	return guard_run(a, report, GUARD_FAILS);
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE", "the page to write", 'o'},
    OPT_THREADS,
    OPT_DEVICE,
    OPT_LEVEL,
    OPT_CACHE,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_report = {
    .usage = "MODEL -o FILE.html [--threads N] [--device cpu[:CLUSTER]|opencl:N|cuda:N] [--cache DIR] "
	     "[--level LEVEL]",
    .summary = "write an HTML page that shows where the time goes, before and after tuning",
    .details =
	"A page that needs nothing else: roofline plot, time by kernel before and after, how the search\n"
	"went, every kernel. Kernels are measured now, with what the cache holds; of a model that was never\n"
	"tuned, the page and the command's words say so.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_report,
    .name = "report",
};
