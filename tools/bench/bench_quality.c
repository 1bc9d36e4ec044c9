/* SPDX-License-Identifier: Apache-2.0 */
/* Quality by time: how fast a network runs after a short box, as a share of its speed after a long one.
 *
 * Every box has a fresh cache, and runs on the processor on which this program started. The networks of all
 * caches are then run in turns with that of the long box (`hone bench`), which gives each share its 95 %
 * interval. Narrower vectors are those of older ISA levels, which HONE_ISA selects.
 *
 * make bench-quality: three networks, each width, boxes of 2 s, 10 s and 300 s. Others:
 * make bench-quality ARGS="resnet18 --isa x86-64-v2 --box 2s --boxes 5 --long 60s" */
#include "kernels/onnx/import.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/stats.h"
#include "platform/machine/disturb.h"
#include "platform/machine/target.h"
#include "tools/bench/one_core.h"
#include "tools/hone/cmd.h"
#include "tools/hone/zoo.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 3 /* caches beside the long box's that `hone bench` takes at once */, MOST_BOXES = 100 };

/* Seed of the first short box; the long one has 1. */
enum { FIRST_SEED = 2 };

struct quality {
	const struct args *args;
	char top[64], hone[4096 + 16];
	struct target own;
	const char *name, *model; /* as it was given; its file */
	const char *isa;          /* NULL: this machine's own */
	int nmodels;              /* measured so far */
	const char *caches;       /* how the names of the caches begin */
	int64_t boxes;            /* of each length */
	const char *runs; /* of each network when they are compared; NULL: as many as hone bench takes */
};

struct share {
	double of, low, high; /* the long box's time over this one's; its 95 % interval */
};

static void name_cache(const struct quality *q, const char *box, int64_t i, char out[256])
{
	snprintf(out, 256, "%s-%s-%d", q->caches, box, (int)i);
}

/* In the child: runs hone, whose report goes to the file `out`. */
static void exec_hone(const struct quality *q, char *const argv[])
{
	char out[96];
	snprintf(out, sizeof out, "%s/report", q->top);
	int to = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool set = q->isa ? setenv("HONE_ISA", q->isa, 1) == 0 : unsetenv("HONE_ISA") == 0;
	if (set && to >= 0 && dup2(to, 1) >= 0)
		execv(q->hone, argv);
	_exit(127);
}

static int run_hone(const struct quality *q, char *const argv[])
{
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		exec_hone(q, argv);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return fail(E_CHILD, "cannot start %s: %s", q->hone, strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return fail(E_CHILD, "hone %s %s failed (wait status %#x); its words are above", argv[1],
			    q->model, (unsigned)status);
	return E_OK;
}

static int run_box(const struct quality *q, const char *box, int64_t i, int64_t seed)
{
	char cache[256], number[24];
	name_cache(q, box, i, cache);
	snprintf(number, sizeof number, "%lld", (long long)seed);
	const char *argv[] = {q->hone,  "tune", q->model,  "--budget", box,  "--threads", "1",
			      "--seed", number, "--cache", cache,      "-q", "--json",    NULL};
	return run_hone(q, (char *const *)argv);
}

/* Reads the report of `hone bench`: the n shares against its first network, and how the machine was disturbed
 * ("": it was not). */
static int read_shares(const struct quality *q, int n, struct share *out, char words[200])
{
	char path[96];
	snprintf(path, sizeof path, "%s/report", q->top);
	json_t *report = json_load_file(path, 0, NULL), *list = json_object_get(report, "faster_than_first");
	int rc = (int)json_array_size(list) == n ? E_OK : fail(E_CORRUPT, "hone bench wrote no comparison");
	for (int i = 0; i < n && rc >= 0; i++) {
		const json_t *one = json_array_get(list, (size_t)i);
		out[i].of = json_number_value(json_object_get(one, "ratio"));
		out[i].low = json_number_value(json_object_get(one, "low"));
		out[i].high = json_number_value(json_object_get(one, "high"));
		const char *why = json_string_value(json_object_get(one, "disturbed"));
		if (why)
			snprintf(words, 200, "%s", why);
	}
	json_decref(report);
	return rc;
}

/* Compares n <= TURNS boxes with the long one. */
static int compare(const struct quality *q, const char *last, const char *box, int64_t first, int n,
		   struct share *out, char words[200])
{
	char cache[1 + TURNS][256];
	const char *argv[12 + 2 * (1 + TURNS)] = {q->hone, "bench", q->model, "--threads",
						  "1",     "-q",    "--json"};
	int at = 7;
	for (int i = 0; i <= n; i++) {
		name_cache(q, i ? box : last, i ? first + i - 1 : 0, cache[i]);
		argv[at++] = "--cache";
		argv[at++] = cache[i];
	}
	if (q->runs) {
		argv[at++] = "--runs";
		argv[at] = q->runs;
	}
	int rc = run_hone(q, (char *const *)argv);
	return rc < 0 ? rc : read_shares(q, n, out, words);
}

static int compare_boxes(const struct quality *q, const char *last, const char *box)
{
	struct share s[MOST_BOXES];
	double of[MOST_BOXES];
	char words[200] = "";
	int n = (int)q->boxes;
	for (int i = 0; i < n; i += TURNS) {
		int rc = compare(q, last, box, i, n - i < TURNS ? n - i : TURNS, &s[i], words);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; i < n; i++)
		of[i] = s[i].of;
	printf("  box of %-5s median %.3f;", box, stats_median(of, n));
	for (int i = 0; i < n; i++)
		printf(" %.3f (%.3f to %.3f)", s[i].of, s[i].low, s[i].high);
	printf("%s%s\n", *words ? "; disturbed: " : "", words);
	return E_OK;
}

/* Processor time of the boxes so far. */
static int64_t children_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_CHILDREN, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * NS_PER_US;
}

/* Boxes of different lengths take turns, so that a slow minute of the machine does not spoil one length
 * alone. */
static int run_boxes(const struct quality *q, int nboxes, const char *const *box, const char *last)
{
	int rc = E_OK;
	for (int64_t i = 0; i < q->boxes; i++)
		for (int k = 0; k < nboxes && rc >= 0; k++)
			rc = run_box(q, box[k], i, FIRST_SEED + i);
	return rc < 0 ? rc : run_box(q, last, 0, 1);
}

static int measure(const struct quality *q, int nboxes, const char *const *box, const char *last)
{
	struct disturb machine;
	struct disturbance seen;
	struct buf words = {0};
	disturb_begin(&machine, NULL);
	int64_t from_ns = clock_now(&clock_real), used_ns = children_ns();
	int rc = run_boxes(q, nboxes, box, last);
	disturb_end(&machine, &seen);
	int64_t wall_ns = clock_now(&clock_real) - from_ns;
	if (seen.others_pct >= 0) /* the boxes themselves are no disturbance */
		seen.others_pct -= (int)(100 * (children_ns() - used_ns) / (wall_ns + 1));
	disturbance_words(&seen, &words);
	if (rc >= 0)
		printf("%s, %s: shares of the speed after %s%s%s\n", q->name, q->isa ? q->isa : q->own.isa,
		       last, words.n ? "; while the boxes ran: " : "", words.n ? buf_str(&words) : "");
	buf_free(&words);
	for (int k = 0; k < nboxes && rc >= 0; k++)
		rc = compare_boxes(q, last, box[k]);
	fflush(stdout);
	return rc;
}

/* Writes the network of the zoo, unless `name` is a file of its own. */
static int open_model(struct quality *q, struct arena *a, const char *name)
{
	struct graph *g;
	q->name = name;
	q->model = name;
	if (strchr(name, '.') || strchr(name, '/'))
		return E_OK;
	q->model = arena_printf(a, "%s/%s.onnx", q->top, name);
	int rc = zoo_make(name, 1, &g);
	if (rc < 0)
		return rc;
	rc = export_file(g, q->model);
	graph_free(g);
	return rc;
}

/* ISA levels of different vector widths that this machine runs, widest first. NULL: its own. */
static int find_levels(const struct quality *q, const char *out[3])
{
	static const char *const older[] = {"x86-64-v3", "x86-64-v2"};
	struct target t;
	int n = 0;
	out[n++] = NULL;
	for (int i = 0; i < 2; i++)
		if (target_baseline(older[i], &t) >= 0 && t.lanes < q->own.lanes && target_runs(&q->own, &t))
			out[n++] = older[i];
	return n;
}

/* Measures one network at each ISA level, with fresh caches for each. */
static int measure_levels(struct quality *q, const char *name)
{
	struct arena a = {0};
	const char *found[3], *const *isa, *const *box;
	static const char *const usual[] = {"2s", "10s"};
	int n = arg_list(q->args, "isa", &isa), nboxes = arg_list(q->args, "box", &box),
	    rc = open_model(q, &a, name);
	if (!n) {
		n = find_levels(q, found);
		isa = found;
	}
	for (int i = 0; i < n && rc >= 0; i++) {
		q->isa = isa[i];
		q->caches = arena_printf(&a, "%s/%d-%d", q->top, q->nmodels, i);
		rc = nboxes ? measure(q, nboxes, box, arg_str(q->args, "long", "300s"))
			    : measure(q, 2, usual, arg_str(q->args, "long", "300s"));
	}
	q->nmodels++;
	arena_free(&a);
	return rc;
}

static int prepare(struct quality *q)
{
	if (q->boxes < 1 || q->boxes > MOST_BOXES)
		return fail(E_USAGE, "--boxes takes 1 to %d", MOST_BOXES);
	int rc = file_self_dir(q->hone, sizeof q->hone - 16);
	strcat(q->hone, "/../hone");
	if (rc >= 0 && access(q->hone, X_OK) < 0)
		rc = fail(E_NOTFOUND, "%s is missing; `make` builds it", q->hone);
	if (rc >= 0)
		rc = target_host(&q->own);
	if (rc >= 0)
		rc = one_core();
	if (rc >= 0 && !mkdtemp(q->top))
		rc = fail(E_IO, "cannot make a folder in /tmp: %s; free some space", strerror(errno));
	return rc;
}

static int run(const struct args *a)
{
	static const char *const usual[] = {"resnet18", "mobilenet_v2", "squeezenet1_1"};
	struct quality q = {.args = a,
			    .top = "/tmp/hone-quality-XXXXXX",
			    .boxes = arg_int(a, "boxes", 1),
			    .runs = arg_str(a, "runs", NULL)};
	char cmd[96];
	int rc = prepare(&q);
	if (rc < 0)
		return rc;
	for (int i = 0; i < (a->npos ? a->npos : 3) && rc >= 0; i++)
		rc = measure_levels(&q, a->npos ? a->pos[i] : usual[i]);
	snprintf(cmd, sizeof cmd, "rm -rf %s", q.top);
	if (system(cmd) != 0 && rc >= 0)
		rc = fail(E_IO, "%s stays", q.top);
	return rc;
}

static const struct opt opts[] = {
    {"box", OPT_LIST, "TIME", "length of the short boxes (default: 2s and 10s; may be repeated)"},
    {"boxes", OPT_INT, "N", "boxes of each length, with seeds of their own (default: 1)"},
    {"long", OPT_STR, "TIME", "length of the box that they are compared with (default: 300s)"},
    {"isa", OPT_LIST, "NAME",
     "ISA level (default: this machine's, and older ones with narrower vectors; may be repeated)"},
    {"runs", OPT_STR, "N", "runs of each network when they are compared (default: three seconds)"},
    {NULL},
};

int main(int argc, char **argv)
{
	static const struct cmd cmd = {.usage = "[NET|MODEL]...",
				       .summary = "measure the quality of short boxes against a long one",
				       .details = "",
				       .max_pos = 16,
				       .opts = opts,
				       .run = run,
				       .name = "bench-quality"};
	return cmd_main(&cmd, argc, argv);
}
