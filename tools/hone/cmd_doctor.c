/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/doctor.h"
#include "agent/cache/json.h"
#include "agent/control/conf.h"
#include "platform/base/log.h"
#include "tools/hone/daemon.h"
#include "tools/hone/model.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/known.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = FINDING_PROBLEM + 1 };

struct report {
	const struct finding *f;
	int n, count[KINDS];
};

static int report_json(const struct report *r)
{
	json_t *list = json_array();
	for (int i = 0; i < r->n; i++)
		json_array_append_new(list,
				      json_pack("{ss ss so so}", "check", r->f[i].check, "severity",
						finding_word(r->f[i].kind), "what", json_text(r->f[i].what),
						"remedy", json_text(r->f[i].remedy)));
	return json_out(json_pack("{si si si si sb so}", "problem_count", r->count[FINDING_PROBLEM],
				  "warning_count", r->count[FINDING_WARNING], "note_count",
				  r->count[FINDING_NOTE], "ok_count", r->count[FINDING_OK], "stopped",
				  interrupted(), "findings", list));
}

static void print_finding(const struct finding *f, bool color)
{
	static const char *const paint[KINDS] = {"\033[32m", "", "\033[33m", "\033[31m"};
	bool painted = color && *paint[f->kind];
	char lead[64];
	snprintf(lead, sizeof lead, "%s%-8s%s %-14s ", painted ? paint[f->kind] : "", finding_word(f->kind),
		 painted ? "\033[0m" : "", f->check);
	table_words(lead, 24, f->what);
	if (*f->remedy)
		table_words("", 24, f->remedy);
}

/* The same check again. */
static void next_doctor(const struct args *a)
{
	static const char *const kept[] = {"cache", "socket", "config", "sysroot"};
	struct buf b = {0};
	buf_puts(&b, "Next: hone doctor");
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		arg_again(a, kept[i], a->cmd, &b);
	next_take(&b);
}

/* Names a model that is known in the cache that the command will use. */
static void next_tune(const char *cache)
{
	char dir[4096];
	if (cache)
		known_tune_in(cache, cache);
	else
		known_tune_in(model_cache_default(dir, sizeof dir) < 0 ? "" : dir, NULL);
}

/* Prints the worst findings first. cache: the folder that was given; NULL: none. */
static void report_text(const struct report *r, const struct args *a, const char *cache)
{
	const int *n = r->count;
	printf("%d problem%s, %d warning%s, %d note%s; %d well\n", n[FINDING_PROBLEM],
	       plural_s(n[FINDING_PROBLEM]), n[FINDING_WARNING], plural_s(n[FINDING_WARNING]),
	       n[FINDING_NOTE], plural_s(n[FINDING_NOTE]), n[FINDING_OK]);
	for (int k = KINDS - 1; k >= 0; k--)
		for (int i = 0; i < r->n; i++)
			if ((int)r->f[i].kind == k)
				print_finding(&r->f[i], a->color);
	next_flush();
	if (interrupted())
		log_info("interrupted: not all was checked");
	else if (n[FINDING_PROBLEM])
		log_info("solve the problems, then check again");
	if (interrupted() || n[FINDING_PROBLEM])
		next_doctor(a);
	else
		next_tune(cache);
}

static int run_doctor(const struct args *a)
{
	char user[4096];
	const char *env = getenv("HONE_SYSROOT");
	struct arena arena = {0};
	struct report r = {0};
	struct doctor_options o = {.sysroot = arg_str(a, "sysroot", env ? env : ""), .stop = &interrupt_stop};
	interrupt_catch();
	o.cache = arg_str(a, "cache", NULL);
	o.config = arg_str(a, "config", NULL);
	o.socket = arg_str(a, "socket", NULL);
	if (file_cache_dir(user, sizeof user) >= 0)
		o.user_cache = user;
	if (o.cache && !*o.cache)
		return fail(E_USAGE, "--cache: '' is not a folder's name");
	int rc = r.n = doctor_look(&o, &arena, &r.f);
	for (int i = 0; i < r.n; i++)
		r.count[r.f[i].kind]++;
	if (rc >= 0 && a->json)
		rc = report_json(&r);
	else if (rc >= 0)
		report_text(&r, a, o.cache);
	arena_free(&arena);
	return interrupt_status(rc < 0 ? rc : r.count[FINDING_PROBLEM] > 0);
}

static const struct opt opts[] = {
    OPT_CACHE,
    OPT_SOCKET,
    {"config", OPT_STR, "FILE", "honed's configuration (default: " CONF_FILE ")"},
    {"sysroot", OPT_STR, "DIR", "folder to use as the root of the board (default: $HONE_SYSROOT)"},
    {NULL}};

const struct cmd cmd_doctor = {
    .usage = "[--cache DIR] [--socket PATH] [--config FILE] [--sysroot DIR]",
    .summary = "find problems that prevent good tuning here, and how to solve them",
    .details =
	"Checks governor and clocks, heat and throttling, pressure and memory, the cache's folder and its\n"
	"flash, honed, its configuration and units, hone-worker, and OpenCL and CUDA: drivers, devices, and\n"
	"whether this user may open them. If a honed answers, its cache\n"
	"and the limits of its process are checked, not yours. Changes nothing: hone never sets clocks or\n"
	"governors. Exit status 1 if there is a problem: tuning does not work, or its\n"
	"results are lost. With another root, checks of this process are skipped.",
    .opts = opts,
    .run = run_doctor,
    .name = "doctor",
};
