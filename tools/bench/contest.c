/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/contest.h"

#include "platform/base/log.h"
#include "tools/bench/snap.h"

#include <string.h>

enum { HEAT = 8 };
#define CROWN 1.003 /* a challenger must be this much faster than the best ever found */

static int pin(struct contest *c, bool on)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET((unsigned)c->cpu, &one);
	return sched_setaffinity(0, sizeof one, on ? &one : &c->allowed) == 0
		   ? 0
		   : fail(E_IO, "cannot run on processor %d", c->cpu);
}

int contest_open(struct contest *c, const struct args *a, struct arena *arena, const char *work)
{
	*c = (struct contest){.args = a, .arena = arena, .work = work, .machine = DISTURBANCE_NONE};
	if (sched_getaffinity(0, sizeof c->allowed, &c->allowed) < 0)
		return fail(E_IO, "cannot list the processors");
	int last = 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((unsigned)i, &c->allowed))
			last = i;
	int64_t cpu = arg_int(c->args, "cpu", last);
	if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET((unsigned)cpu, &c->allowed))
		return fail(E_USAGE, "--cpu %lld: this process may not use that processor", (long long)cpu);
	c->cpu = (int)cpu;
	return 0;
}

static int open_host(struct contest *c, struct host *h)
{
	*h = (struct host){.threads = 1};
	int rc = model_level(c->args, &h->level);
	if (rc >= 0)
		rc = machine_target(c->work, &h->target);
	return rc < 0 ? rc : machine_pool(1, true, &h->pool);
}

/* *machine: what disturbed this heat. */
static int run_heat(struct contest *c, const char *model, int n, struct net_score *s,
		    struct disturbance *machine)
{
	struct host h = {0};
	struct disturb d;
	int rc = pin(c, true);
	if (rc >= 0)
		rc = open_host(c, &h);
	disturb_begin(&d, NULL);
	if (rc >= 0)
		rc = score_run(c->args, model, &h, CONTEST_OPENINGS, CONTEST_ROUNDS, n, s);
	disturb_end(&d, machine);
	disturbance_add(&c->machine, machine);
	if (h.target.fma_gflops > 0)
		c->target = h.target;
	host_close(&h);
	int back = pin(c, false);
	return rc < 0 ? rc : back;
}

int contest_heat(struct contest *c, const char *model, int n, struct net_score *s)
{
	struct disturbance machine;
	return run_heat(c, model, n, s, &machine);
}

/* Copies the cache to the folder of the best, with a note of the search that made it. */
static int crown(struct contest *c, const struct search_net *net, const char *cache, const char *who)
{
	log_info("%s: the best ever found is now by %s", net->name, who);
	int rc = snap_copy(cache, net->best);
	const char *path = arena_printf(c->arena, "%s/origin", net->best);
	return rc < 0 ? rc : file_write(path, who, strlen(who));
}

int contest_origin(struct contest *c, struct search_net *net)
{
	struct blob text;
	const char *path = arena_printf(c->arena, "%s/origin", net->best);
	net->origin = "an earlier search";
	if (!file_exists(path))
		return 0;
	int rc = file_read(c->arena, path, 4096, &text);
	if (rc >= 0)
		net->origin = text.p;
	return rc;
}

/* The fastest of those that beat the best by CROWN and in every opening; 0: none does. */
static int fastest(int n, const struct net_score *s)
{
	int win = 0; /* the best itself, whose quality is 1 */
	for (int i = 1; i < n; i++)
		if (s[i].quality > CROWN && s[i].least > 1 && s[i].quality > s[win].quality)
			win = i;
	return win;
}

int contest_run(struct contest *c, const struct search_net *net, const struct claim *claim, int n)
{
	int rc = 0;
	if (n && !snap_generation(net->best)) {
		rc = crown(c, net, claim[0].cache, claim[0].who);
		claim++;
		n--;
	}
	for (int i = 0; i < n && rc >= 0; i += HEAT) {
		struct net_score s[HEAT + 1] = {{.cache = net->best}};
		int m = n - i < HEAT ? n - i : HEAT;
		for (int k = 0; k < m; k++)
			s[k + 1] = (struct net_score){.cache = claim[i + k].cache};
		struct disturbance machine;
		rc = run_heat(c, net->path, m + 1, s, &machine);
		int win = rc < 0 || disturbed(&machine) ? 0 : fastest(m + 1, s);
		if (win)
			rc = crown(c, net, claim[i + win - 1].cache, claim[i + win - 1].who);
	}
	return rc;
}
