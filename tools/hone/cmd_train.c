/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/cmd.h"
#include "agent/cache/json.h"
#include "tools/hone/judge.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include <string.h>

enum { MOST_FOLDERS = 64 };

struct school {
	struct arena a;
	struct problem *p;
	int tasks, n;
	const char *soc; /* soc of the first landscape */
};

/* Reads the landscapes of all folders as problems. */
static int gather(struct school *x, const struct args *a)
{
	struct landscape *all[MOST_FOLDERS], *flat;
	int n[MOST_FOLDERS], total = 0, at = 0;
	for (int i = 0; i < a->npos; i++) {
		n[i] = landscape_folder(a->pos[i], &x->a, &all[i]);
		if (n[i] < 0)
			return n[i];
		total += n[i];
	}
	flat = ARENA_ARRAY(&x->a, struct landscape, total + 1);
	for (int i = 0; i < a->npos; at += n[i++])
		memcpy(flat + at, all[i], sizeof *flat * (size_t)n[i]);
	x->soc = total ? flat[0].target.soc : "";
	int rc = x->tasks = problems_of(flat, total, &x->a, &x->p);
	for (int i = 0; i < rc; i++)
		x->n += x->p[i].n;
	return rc;
}

static int teach(struct school *x, const struct cost *c, uint64_t seed, const char *path)
{
	struct buf text = {0};
	void *state;
	int rc = c->start(&x->a, NULL, 0, seed, &state);
	if (rc < 0)
		return rc;
	buf_printf(&text, OUTPUT_PRIOR ": %d candidates of %d tasks on %s, seed %llu\n", x->n, x->tasks,
		   x->soc, (unsigned long long)seed);
	char *use = ARENA_ARRAY(&x->a, char, x->tasks + 1);
	memset(use, 1, (size_t)x->tasks);
	judge_teach(c, state, x->p, x->tasks, use);
	size_t before = text.n;
	c->save(state, &text);
	if (!buf_ok(&text))
		rc = fail(E_NOMEM, "no memory for a prior");
	else if (text.n == before)
		rc = fail(E_USAGE, "--cost: '%s' learns nothing", c->name);
	else
		rc = file_write(path, text.p, text.n);
	buf_free(&text);
	return rc;
}

static int run_train(const struct args *a)
{
	struct school x = {0};
	const char *path = arg_str(a, "output", NULL), *name = arg_str(a, "cost", "mlp");
	const struct cost *c = cost_find(name);
	uint64_t seed;
	char to[PATH_MAX];
	if (!c)
		return fail(E_USAGE, "--cost: unknown cost model '%s'", name);
	if (!path)
		return fail(E_USAGE, "missing option -o; usage: `hone train %s -o %s.txt`", a->pos[0], name);
	if (a->npos > MOST_FOLDERS)
		return fail(E_USAGE, "more than %d folders", MOST_FOLDERS);
	int rc = arg_seed(a, &seed);
	if (rc >= 0)
		rc = output_file(a, path, OUTPUT_PRIOR, to);
	if (rc >= 0)
		rc = gather(&x, a);
	if (rc == 0)
		rc = fail(E_NOTFOUND, "no task of these landscapes has candidates with times");
	if (rc >= 0)
		rc = teach(&x, c, seed, to);
	arena_free(&x.a);
	if (rc < 0)
		return rc;
	if (a->json)
		return json_out(
		    json_pack("{ss ss si si}", "cost", name, "file", path, "tasks", x.tasks, "samples", x.n));
	log_info("wrote %s (%d candidate%s of %d task%s)", path, x.n, plural_s(x.n), x.tasks,
		 plural_s(x.tasks));
	log_info("a build from source includes it if it lies in configs/priors as %s-ISA.txt", name);
	return 0;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE", "where to write the prior", 'o'},
    {"cost", OPT_STR, "NAME", "the cost model that learns: mlp (default) or trees", .values = "mlp trees"},
    {"seed", OPT_INT, "N", "seed of the cost model's random numbers (default 1)"},
    {NULL},
};

const struct cmd cmd_train = {
    .usage = "DIR... -o FILE [--cost NAME] [--seed N]",
    .summary = "make a cost model's prior from landscapes",
    .details =
	"hone tune --record DIR and make bench-landscape write landscapes: candidates and their times. A\n"
	"prior is the state with which a cost model begins on such machines.",
    .min_pos = 1,
    .max_pos = MOST_FOLDERS,
    .opts = opts,
    .run = run_train,
    .name = "train",
};
