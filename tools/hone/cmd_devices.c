/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/log.h"
#include "platform/machine/board.h"
#include "platform/machine/topo.h"
#include "platform/run/dev.h"
#include "agent/cache/json.h"
#include "tools/hone/model.h"
#include "tools/hone/known.h"
#include "tools/hone/drivers.h"
#include "tools/hone/table.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static json_t *describe_json(const struct dev *d, const struct target *t)
{
	struct buf text = {0};
	target_text(t, &text);
	json_t *j =
	    json_pack("{ss sb ss ss ss ss ss si si si sb sI sI sI so s[ooo o] so}", "name", d->name, "usable",
		      1, "emitter", d->emitter, "isa", t->isa, "soc", t->soc, "revision", t->rev,
		      "power_mode", t->mode, "cores", t->cores, "lanes", t->lanes, "registers", t->regs,
		      "fma", t->fma, "l1_bytes", (json_int_t)t->l1_bytes, "l2_bytes", (json_int_t)t->l2_bytes,
		      "l3_bytes", (json_int_t)t->l3_bytes, "gflops_per_core", json_num(t->fma_gflops),
		      "read_gbs", json_num(t->bw_gbs[0]), json_num(t->bw_gbs[1]), json_num(t->bw_gbs[2]),
		      json_num(t->bw_gbs[3]), "target_text", json_string(buf_str(&text)));
	buf_free(&text);
	return j;
}

static void describe(const struct dev *d, const struct target *t)
{
	table_say("%s: %s, %s%s%s%s%s%s%s, %d core%s, vectors of %d floats, %d registers", d->name, t->soc,
		  t->rev[0] ? "revision " : "", t->rev, t->rev[0] ? ", " : "",
		  t->mode[0] ? "power mode " : "", t->mode, t->mode[0] ? ", " : "", t->isa, t->cores,
		  plural_s(t->cores), t->lanes, t->regs);
	printf("  caches: %lld KiB, %lld KiB, %lld KiB\n", (long long)t->l1_bytes / 1024,
	       (long long)t->l2_bytes / 1024, (long long)t->l3_bytes / 1024);
	if (t->fma_gflops > 0)
		table_say("  one core: %.1f GFLOP/s; reads %.0f, %.0f, %.0f, %.1f GB/s (L1, L2, L3, memory); "
			  "copies %.1f GB/s",
			  t->fma_gflops, t->bw_gbs[0], t->bw_gbs[1], t->bw_gbs[2], t->bw_gbs[3], t->copy_gbs);
}

/* The CPU's peaks are taken from the cache folder or measured now. */
static int probe(const struct args *a, const struct dev *d, struct target *t)
{
	char dir[4096];
	memset(t, 0, sizeof *t);
	int rc = d->probe(t);
	if (rc <= 0)
		return rc;
	rc = machine_target(model_cache_dir(a, dir, sizeof dir) < 0 ? "" : dir, t);
	return rc < 0 ? rc : 1;
}

/* The first of these is "cpu", too. */
static void all_clusters(struct clusters *c)
{
	cpu_set_t may;
	topo_allowed(&may);
	topo_clusters("", &may, c);
}

/* Describes a cluster from within: a thread that is bound to it measures its speed. */
static void list_cluster(const struct args *a, const struct cluster *c, json_t *devices)
{
	char name[TOPO_NAME + 8];
	struct target t;
	struct dev as_cpu = *dev_find("cpu");
	cpu_set_t was;
	snprintf(name, sizeof name, "cpu:%s", c->name);
	as_cpu.name = name;
	int rc = topo_keep_to(name, &was);
	if (rc >= 0)
		rc = probe(a, &as_cpu, &t);
	if (a->json)
		json_array_append_new(devices, rc > 0 ? describe_json(&as_cpu, &t)
						      : json_pack("{ss sb ss}", "name", name, "usable", 0,
								  "why", rc < 0 ? err_text() : "not here"));
	else if (rc > 0)
		describe(&as_cpu, &t);
	else
		printf("%s: not usable: %s\n", name, rc < 0 ? err_text() : "not here");
	(void)sched_setaffinity(0, sizeof was, &was);
}

/* The board that a file describes; false: none does. A file that is wrong gets a warning. */
static bool find_board(struct board_file *b)
{
	char dir[PATH_MAX];
	int rc = board_dir(dir, sizeof dir);
	if (rc >= 0)
		rc = board_find(dir, "", "", b);
	if (rc < 0 && rc != E_NOTFOUND)
		log_info("%s", err_text());
	return rc >= 0;
}

#define NAMES_WAIT_NS (3 * INT64_C(1000000000)) /* somebody may wait for a completion */

/* Measures nothing; the bash completion calls it. */
static int print_names(const struct args *a)
{
	if (a->json)
		return fail(E_USAGE, "devices: --names excludes --json, which has the names, too");
	for (int i = 0; dev_table[i]; i++) {
		struct target t = {.cores = 0};
		if (!strcmp(dev_table[i]->name, "cpu") && dev_table[i]->probe(&t) > 0)
			printf("%s\n", dev_table[i]->name);
	}
	struct clusters c;
	all_clusters(&c);
	for (int i = 0; c.n > 1 && i < c.n; i++)
		printf("cpu:%s\n", c.of[i].name);
	for (enum drivers d = 0; d < DRIVERS; d++) {
		struct buf names = {0}, note = {0};
		drivers_names(d, NAMES_WAIT_NS, &names, &note);
		fputs(buf_str(&names), stdout);
		if (note.n)
			log_info("%s: %s", drivers_name(d), buf_str(&note));
		buf_free(&names);
		buf_free(&note);
	}
	return 0;
}

/* Says which file is of this board; one that is wrong is an error, whichever board it is of. */
static int check_boards(const struct args *a)
{
	char dir[PATH_MAX];
	struct buf mistakes = {0};
	struct board_file b;
	int rc = board_dir(dir, sizeof dir), n = rc >= 0 ? board_check(dir, &mistakes) : 0;
	bool known = rc >= 0 && board_find(dir, "", "", &b) >= 0;
	if (rc == E_NOTFOUND)
		rc = E_OK;
	if (a->json)
		rc = rc < 0 ? rc
			    : json_out(json_pack("{ss? ss? si ss}", "board_file", known ? b.file : NULL,
						 "board_name", known ? b.name : NULL, "mistakes", n, "words",
						 buf_str(&mistakes)));
	else if (rc >= 0)
		printf("%s", buf_str(&mistakes));
	if (rc >= 0 && !a->json && known)
		table_say("board: %s (%s/%s.conf, by %s)", b.name, dir, b.file, b.match);
	else if (rc >= 0 && !a->json)
		table_say("board: no file describes it, so all is probed and measured");
	if (rc >= 0 && n)
		rc = fail(E_CORRUPT, "%d file%s of boards in %s cannot be used; mend or remove %s", n,
			  plural_s(n), dir, n > 1 ? "them" : "it");
	buf_free(&mistakes);
	return rc;
}

static int run_devices(const struct args *a)
{
	if (a->npos)
		return fail(
		    E_USAGE,
		    "hone devices takes no name, but '%s': with --board it says which file of configs/boards "
		    "describes this machine, and looks for mistakes in the files of all boards",
		    a->pos[0]);
	if (arg_given(a, "board"))
		return check_boards(a);
	if (arg_given(a, "names"))
		return print_names(a);
	char dir[PATH_MAX];
	const char *cache = model_cache_dir(a, dir, sizeof dir) < 0 ? "" : dir;
	json_t *devices = json_array();
	struct board_file board;
	bool known = find_board(&board);
	if (known && !a->json)
		table_say("board: %s (%s.conf, by %s)", board.name, board.file, board.match);
	for (int i = 0; dev_table[i]; i++) {
		const struct dev *d = dev_table[i];
		struct target t;
		if (strcmp(d->name,
			   "cpu")) /* devices with drivers are listed below; no network runs on a simulator */
			continue;
		int rc = probe(a, d, &t);
		if (a->json)
			json_array_append_new(devices,
					      rc > 0 ? describe_json(d, &t)
						     : json_pack("{ss sb ss}", "name", d->name, "usable", 0,
								 "why", rc < 0 ? err_text() : "not here"));
		else if (rc > 0)
			describe(d, &t);
		else
			printf("%s: not usable: %s\n", d->name, rc < 0 ? err_text() : "not here");
	}
	struct clusters c;
	all_clusters(&c);
	for (int i = 1; i < c.n; i++)
		list_cluster(a, &c.of[i], devices);
	if (a->json)
		return json_out(json_pack("{ss? ss? so so so}", "board_file", known ? board.file : NULL,
					  "board_name", known ? board.name : NULL, "devices", devices,
					  "opencl", drivers_json(DRIVERS_OPENCL, cache, DRIVERS_WAIT_NS),
					  "cuda", drivers_json(DRIVERS_CUDA, cache, DRIVERS_WAIT_NS)));
	json_decref(devices);
	for (enum drivers d = 0; d < DRIVERS; d++)
		drivers_print(d, cache, DRIVERS_WAIT_NS);
	known_bench_in(cache, arg_str(a, "cache", NULL)); /* a known model is a tuned one */
	return 0;
}

static const struct opt opts[] = {
    OPT_CACHE,
    {"board", OPT_FLAG, NULL,
     "only which file describes the board; fails if the file of any board has a mistake"},
    {"names", OPT_FLAG, NULL, "only the names of those that are usable now, one a line; measures nothing"},
    {NULL}};

const struct cmd cmd_devices = {
    .usage = "[--cache DIR] [--names | --board]",
    .summary = "list the devices of this machine, and how fast they are",
    .details =
	"Peaks are measured once, in under a second, and kept in the cache folder. A board with several "
	"kinds of cores has a cluster of each: cpu is the fastest, and hone tune --device cpu:NAME tunes "
	"for another one. Devices of "
	"OpenCL and CUDA are listed with their limits, and peaks once hone tune has measured them. A "
	"process of its own asks their drivers, which may crash. "
	"hone tune --device opencl:N or cuda:N tunes for one.",
    .max_pos = 1, /* for an error that says more */
    .opts = opts,
    .run = run_devices,
    .name = "devices",
};
