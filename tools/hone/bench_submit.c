/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/bench_submit.h"
#include "agent/cache/json.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "platform/base/stats.h"
#include "platform/machine/board.h"
#include "platform/machine/disturb.h"
#include "platform/machine/sysfile.h"
#include "tools/hone/compare.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/output.h"
#include "tools/hone/ready.h"
#include "tools/hone/submission.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum { LEAST_RUNS = 20, MOST_RUNS = 500, WARMUP = 3 };
#define MEASURE_NS 5e9 /* of all rounds, unless --runs is given */

struct submit {
	const struct args *args;
	const char *root; /* of the board's files */
	struct arena arena;
	struct host host;
	struct ready ready[SUBMIT_KINDS];
	double *ns[SUBMIT_KINDS]; /* per round */
	int rounds;
	struct vitals before, after;
	struct disturbance machine;
	struct submission out;
};

static const enum ready_kernels kernels_of[] = {KERNELS_FALLBACK, KERNELS_DEFAULT, KERNELS_BEST};

/* ---- measuring */

/* A submission is of one model, and chooses kernels itself. */
static int check_options(const struct args *a)
{
	static const char *const others[] = {"kernels", "rate", "trace", "perf-map", "top"};
	const char *const *caches;
	if (a->npos > 1 || arg_list(a, "cache", &caches) > 1)
		return fail(E_USAGE, "--submit takes one model and one cache");
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (arg_given(a, others[i]))
			return fail(E_USAGE,
				    "--submit measures fallback, default and tuned kernels in turn, so --%s "
				    "is not possible",
				    others[i]);
	return model_device(a)
		   ? fail(E_USAGE, "--submit is for the processor, so --device %s is not possible",
			  model_device(a))
		   : E_OK;
}

static int open_all(struct submit *s, const char *dir)
{
	int rc = host_open(s->args, dir, true, &s->host);
	/* The tuned kernels come first, because without them the others are opened in vain. */
	for (int k = SUBMIT_KINDS - 1; k >= 0 && rc >= 0; k--) {
		rc = ready_open(s->args, s->args->pos[0], dir, kernels_of[k], &s->host, &s->ready[k]);
		if (rc >= 0 && k == SUBMIT_TUNED)
			rc = ready_require(s->args, &s->ready[k]);
	}
	return rc;
}

static int one_run(struct submit *s, int kind, double *ns)
{
	struct ready *r = &s->ready[kind];
	int64_t start = clock_now(&clock_real);
	int rc = plan_run(r->plan, r->in, r->out);
	*ns = (double)(clock_now(&clock_real) - start);
	return fail_in(rc, "%s", r->model.path);
}

static int choose_rounds(struct submit *s)
{
	double round_ns = 0, ns = 0;
	int rc = 0;
	for (int k = 0; k < SUBMIT_KINDS && rc >= 0; k++) {
		for (int i = 0; i < WARMUP && rc >= 0; i++)
			rc = one_run(s, k, &ns);
		round_ns += ns;
	}
	if (rc < 0)
		return rc;
	double fit = MEASURE_NS / (round_ns + 1);
	int64_t n = fit < LEAST_RUNS ? LEAST_RUNS : fit > MOST_RUNS ? MOST_RUNS : (int64_t)fit;
	n = arg_int(s->args, "runs", n);
	if (n < LEAST_RUNS || n > 100 * MOST_RUNS)
		return fail(E_USAGE, "--runs %lld is not possible; a submission takes %d to %d", (long long)n,
			    LEAST_RUNS, 100 * MOST_RUNS);
	s->rounds = (int)n;
	for (int k = 0; k < SUBMIT_KINDS; k++)
		s->ns[k] = ARENA_ARRAY(&s->arena, double, n);
	return E_OK;
}

/* Each kind runs once in each round; a different one begins each time. */
static int measure(struct submit *s)
{
	struct disturb watch;
	struct vitals_reader *reader;
	bool reads = vitals_open(s->root, &reader) >= 0;
	if (reads)
		vitals_read(reader, clock_now(&clock_real), &s->before);
	disturb_begin(&watch, s->root);
	int rc = E_OK;
	for (int r = 0; r < s->rounds && rc >= 0 && !interrupted(); r++) {
		for (int i = 0; i < SUBMIT_KINDS && rc >= 0; i++)
			rc = one_run(s, (r + i) % SUBMIT_KINDS, &s->ns[(r + i) % SUBMIT_KINDS][r]);
		log_live("round %d of %d", r + 1, s->rounds);
	}
	log_live(NULL);
	disturb_end(&watch, &s->machine);
	if (reads) {
		vitals_read(reader, clock_now(&clock_real), &s->after);
		vitals_close(reader);
	}
	return rc >= 0 && interrupted() ? fail(E_STOPPED, "stopped") : rc;
}

static void take_output(void *ctx, const char *name, double rel, bool good)
{
	struct submit *s = ctx;
	s->out.check.outputs++;
	s->out.check.max_rel_err = fmax(s->out.check.max_rel_err, rel);
	if (!good)
		table_say("wrong output '%s': differs by %.3g of the largest value", name, rel);
	if (!good)
		s->out.check.max_rel_err = INFINITY;
}

static int check(struct submit *s)
{
	struct ready *r = &s->ready[SUBMIT_TUNED];
	bool quantised;
	double ns;
	int rc = one_run(s, SUBMIT_TUNED, &ns);
	log_live("reference");
	if (rc >= 0)
		rc = compare_outputs(s->args, r->model.path, s->host.level, &r->cache, r->in, r->out,
				     take_output, s, &quantised);
	log_live(NULL);
	if (rc >= 0 && isinf(s->out.check.max_rel_err))
		rc = fail(E_WRONG,
			  "%s: tuned kernels compute other outputs than the reference; `hone verify` tells "
			  "which of them, and `hone forget` makes the cache forget them",
			  r->model.path);
	return rc;
}

/* ---- the conditions */

static int check_machine(const struct submit *s)
{
	char bits[128];
	struct buf why = {0};
	unsigned now = s->before.throttle | s->after.throttle;
	disturbance_words(&s->machine, &why);
	int rc = E_OK;
	if (now)
		rc =
		    fail(E_BUSY,
			 "the board was throttled (%s), so no file was written: let it cool down, or give it "
			 "a stronger supply, and measure again (hone doctor says more)",
			 vitals_throttle_text(now, bits, sizeof bits));
	else if (disturbed(&s->machine))
		rc = fail(E_BUSY,
			  "the machine was disturbed (%s), so no file was written: stop what else runs "
			  "on it, and measure again",
			  buf_str(&why));
	buf_free(&why);
	return rc;
}

/* A text that is not known, or does not fit, is "-". Control characters become blanks. */
static void put(char to[SUBMISSION_TEXT], const char *text)
{
	int n = snprintf(to, SUBMISSION_TEXT, "%s", *text ? text : "-");
	if (n >= SUBMISSION_TEXT)
		snprintf(to, SUBMISSION_TEXT, "-");
	for (char *p = to; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			*p = ' ';
}

/* Governors of all policies, each once: "performance", "schedutil ondemand". Returns the number of policies.
 */
static int find_governor(const struct submit *s, char out[SUBMISSION_TEXT])
{
	char policy[64][SYSFILE_NAME], path[256], word[32];
	struct buf b = {0};
	int n = sysfile_list(s->root, "/sys/devices/system/cpu/cpufreq", "policy", policy, 64);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpufreq/%.63s/scaling_governor",
			 policy[i]);
		if (sysfile_line(s->root, path, word, sizeof word) && !strstr(buf_str(&b), word))
			buf_printf(&b, "%s%s", b.n ? " " : "", word);
	}
	put(out, buf_str(&b));
	buf_free(&b);
	return n;
}

static void fill_board(struct submit *s)
{
	struct submission *o = &s->out;
	struct target *t = &s->host.target;
	struct board_file b = {.file = ""};
	struct utsname u;
	char dir[PATH_MAX], model[SUBMISSION_TEXT] = "";
	if (board_dir(dir, sizeof dir) >= 0 && board_find(dir, s->root, "", &b) >= 0)
		board_fill(&b, s->root, t);
	if (!sysfile_line(s->root, "/proc/device-tree/model", model, sizeof model))
		sysfile_line(s->root, "/sys/class/dmi/id/product_name", model, sizeof model);
	put(o->board.file, b.file);
	put(o->board.model, model);
	put(o->board.soc, t->soc);
	put(o->board.revision, t->rev);
	put(o->board.mode, t->mode);
	put(o->board.isa, t->isa);
	put(o->board.cpu, t->cpu);
	put(o->board.kernel, uname(&u) == 0 ? u.release : "");
	o->board.cores = t->cores;
	o->board.lanes = t->lanes;
	o->board.regs = t->regs;
	o->board.l1_bytes = t->l1_bytes;
	o->board.l2_bytes = t->l2_bytes;
	o->board.l3_bytes = t->l3_bytes;
	o->board.gflops_per_core = t->fma_gflops;
	memcpy(o->board.read_gbs, t->bw_gbs, sizeof o->board.read_gbs);
}

static void fill_run(struct submit *s)
{
	struct submission *o = &s->out;
	const struct vitals *v = &s->before, *w = &s->after;
	bool heat = v->has & w->has & VITAL_HEAT, clock = w->has & VITAL_CLOCK;
	put(o->run.level, level_name((int)s->host.level));
	int policies = find_governor(s, o->run.governor);
	clock = clock && policies > 0;
	o->run.threads = s->host.threads;
	o->run.rounds = s->rounds;
	o->run.clock_mhz = clock ? w->clock_khz / policies / 1000 : -1;
	o->run.clock_most_mhz = clock ? w->clock_most_khz / policies / 1000 : -1;
	o->run.temp_before_mc = heat ? v->temp_mc : -1;
	o->run.temp_after_mc = heat ? w->temp_mc : -1;
	o->run.throttled_before = v->has & VITAL_THROTTLE ? v->throttled_by != 0 : -1;
	o->run.share_pct = s->machine.share_pct;
	o->run.others_pct = s->machine.others_pct;
}

static int fill_network(struct submit *s)
{
	struct ready *r = &s->ready[SUBMIT_TUNED];
	const struct plan_kernel *k;
	struct blob file;
	struct hash h;
	uint8_t digest[HASH_BYTES];
	int rc = file_read(&s->arena, r->model.path, 0, &file);
	if (rc < 0)
		return rc;
	hash_begin(&h);
	hash_add(&h, file.p, file.n);
	hash_end(&h, digest);
	for (int i = 0; i < HASH_BYTES; i++)
		snprintf(s->out.network.sha256 + 2 * i, 3, "%02x", digest[i]);
	put(s->out.network.name, model_name(r->model.path, &s->arena));
	int n = plan_kernels(r->plan, &k);
	s->out.network.kernels = n;
	for (int i = 0; i < n; i++)
		s->out.network.gflop += k[i].flops / 1e9;
	return E_OK;
}

static void fill_times(struct submit *s)
{
	for (int k = 0; k < SUBMIT_KINDS; k++) {
		struct interval i = stats_interval(s->ns[k], s->rounds);
		s->out.times[k] = (struct submission_times){i.median / 1e6, i.low / 1e6, i.high / 1e6,
							    stats_quantile(s->ns[k], s->rounds, 0) / 1e6,
							    stats_quantile(s->ns[k], s->rounds, .9) / 1e6};
	}
}

/* ---- the file */

static void report(const struct submit *s, const char *to)
{
	const struct submission *o = &s->out;
	table_say("%s on %s, %lld thread%s, %d rounds:", o->network.name, submission_board(o),
		  (long long)o->run.threads, plural_s(o->run.threads), s->rounds);
	for (int k = 0; k < SUBMIT_KINDS; k++)
		table_say("  %-8s kernels: median %.4g ms (95 %% CI %.4g to %.4g), min %.4g",
			  submission_kind[k], o->times[k].median, o->times[k].low, o->times[k].high,
			  o->times[k].min);
	table_say("the outputs match the reference: largest error %.2e of the largest value",
		  o->check.max_rel_err);
	table_say("wrote %s: read it, and send it to the maintainers. It names the model, the kind of board, "
		  "its kernel and how it ran, but no host, user, path or serial number",
		  to);
}

static json_t *report_json(const struct submit *s, const char *to)
{
	json_t *o = json_pack("{so so si so}", "submission", json_text(to), "threads",
			      json_integer(s->out.run.threads), "rounds", s->rounds, "max_rel_err",
			      json_num(s->out.check.max_rel_err));
	for (int k = 0; k < SUBMIT_KINDS; k++) {
		char name[32];
		snprintf(name, sizeof name, "%s_ms", submission_kind[k]);
		json_object_set_new(o, name, json_num(s->out.times[k].median));
	}
	return o;
}

static int write_file(struct submit *s, const char *to)
{
	struct buf text = {0};
	time_t now = time(NULL);
	struct tm tm;
	put(s->out.hone, HONE_VERSION);
	if (gmtime_r(&now, &tm))
		strftime(s->out.date, sizeof s->out.date, "%Y-%m-%d", &tm);
	fill_board(s);
	fill_run(s);
	fill_times(s);
	int rc = fill_network(s);
	if (rc >= 0)
		rc = fail_in(submission_text(&s->out, &text), "the measured values are no submission");
	if (rc >= 0)
		rc = file_write(to, text.p, text.n);
	buf_free(&text);
	return rc;
}

static int submit(struct submit *s, const char *dir, const char *to)
{
	int rc = open_all(s, dir);
	if (rc >= 0)
		rc = choose_rounds(s);
	if (rc >= 0)
		rc = measure(s);
	if (rc >= 0)
		rc = check_machine(s);
	if (rc >= 0)
		rc = check(s);
	if (rc >= 0)
		rc = write_file(s, to);
	if (rc < 0)
		return rc;
	if (s->args->json)
		return json_out(report_json(s, to));
	report(s, to);
	return E_OK;
}

int bench_submit(const struct args *a, const char *name)
{
	char dir[4096] = "", to[PATH_MAX];
	const char *const *given, *root = getenv("HONE_SYSROOT");
	struct submit *s = calloc(1, sizeof *s);
	if (!s)
		return fail(E_NOMEM, "no memory for the benchmark");
	s->args = a;
	s->root = root ? root : "";
	interrupt_catch();
	int rc = check_options(a), n = arg_list(a, "cache", &given);
	if (rc >= 0)
		rc = output_file(a, name, OUTPUT_SUBMISSION, to);
	if (rc >= 0)
		rc = n ? model_cache_check(given[0]) : model_cache_or_none(a, dir, sizeof dir);
	if (rc >= 0)
		rc = submit(s, n ? given[0] : dir, to);
	for (int k = 0; k < SUBMIT_KINDS; k++)
		ready_close(&s->ready[k]);
	host_close(&s->host);
	arena_free(&s->arena);
	free(s);
	return rc;
}
