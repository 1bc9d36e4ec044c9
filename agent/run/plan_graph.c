/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_graph.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan_graphs {
	const struct dev_own *dev;
	int nsteps, n; /* n: recorded */
	char why[300];
	struct plan_graph {
		struct dev_launch *all; /* NULL: its launches are started one by one */
		int end;                /* the step behind its last */
	} at[];                         /* per step of the plan */
};

static void give_up(struct plan_graphs *g, int step)
{
	log_more("launches from step %d on are started one by one: %s", step, err_text());
	if (!g->why[0])
		snprintf(g->why, sizeof g->why, "%s", err_text());
}

/* The end of the graph that begins at a step, behind its last step on the device. *n: its launches. */
static int find_end(const struct plan_graph_step *step, int nsteps, int begin, int *n)
{
	int end = begin;
	*n = 0;
	for (int i = begin; i < nsteps && (i == begin || !step[i].moves); i++) {
		*n += step[i].nlaunches;
		end = step[i].nlaunches ? i + 1 : end;
	}
	return end;
}

/* room: for all launches of the graph. */
static void record(struct plan_graphs *g, struct dev_unit *u, const struct plan_graph_step *step, int begin,
		   int end, struct dev_launch **room)
{
	int n = 0;
	for (int i = begin; i < end; i++)
		for (int k = 0; k < step[i].nlaunches; k++)
			room[n++] = step[i].launch[k];
	if (g->dev->record(u, room, n, &g->at[begin].all) < 0) {
		g->at[begin].all = NULL;
		give_up(g, begin);
		return;
	}
	g->at[begin].end = end;
	g->n++;
}

struct plan_graphs *plan_graphs_record(const struct dev_own *dev, struct dev_unit *u,
				       const struct plan_graph_step *step, int nsteps)
{
	size_t all = 0;
	for (int i = 0; i < nsteps; i++)
		all += (size_t)step[i].nlaunches;
	struct plan_graphs *g = calloc(1, sizeof *g + sizeof g->at[0] * ((size_t)nsteps + 1));
	struct dev_launch **room = calloc(all + 1, sizeof *room);
	if (g)
		*g = (struct plan_graphs){.dev = dev, .nsteps = nsteps};
	for (int i = 0, n, end; i < nsteps && g && room && dev->record; i = end > i ? end : i + 1) {
		end = step[i].nlaunches ? find_end(step, nsteps, i, &n) : i;
		if (end > i && n > 1)
			record(g, u, step, i, end, room);
	}
	if (!room) {
		free(g);
		g = NULL;
	}
	free(room);
	return g;
}

int plan_graphs_start(struct plan_graphs *g, int step)
{
	struct plan_graph *s = g ? &g->at[step] : NULL;
	if (!s || !s->all)
		return step;
	if (g->dev->start(s->all) >= 0)
		return s->end;
	give_up(g, step);
	g->dev->drop(s->all);
	s->all = NULL;
	g->n--;
	return step;
}

int plan_graphs_count(const struct plan_graphs *g)
{
	return g ? g->n : 0;
}

const char *plan_graphs_why(const struct plan_graphs *g)
{
	return g ? g->why : "";
}

void plan_graphs_drop(struct plan_graphs *g)
{
	for (int i = 0; g && i < g->nsteps; i++)
		if (g->at[i].all)
			g->dev->drop(g->at[i].all);
	free(g);
}
