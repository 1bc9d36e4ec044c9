/* SPDX-License-Identifier: Apache-2.0 */
/* The costs of one placement: the sum, and the list schedule that search/placement.h describes. */
#include "search/placement_parts.h"

#include <math.h>
#include <string.h>

int place_cost_new(const struct place_net *net, struct arena *a, struct place_cost *c)
{
	size_t nops = (size_t)net->p->nops, nvalues = (size_t)net->p->nvalues + 1;
	*c = (struct place_cost){.net = net};
	c->owner = arena_try(a, nops, sizeof(int));
	c->format = arena_try(a, nvalues, 1);
	c->there = arena_try(a, nvalues, sizeof *c->there);
	c->at = arena_try(a, nvalues * (size_t)net->p->nformats, sizeof *c->at);
	c->waits = arena_try(a, nops, sizeof(int));
	c->order = arena_try(a, nops, sizeof(int));
	c->by_start = arena_try(a, nops, sizeof(int));
	c->ready = arena_try(a, nops, sizeof(int));
	c->path = arena_try(a, nops, sizeof *c->path);
	bool values = c->format && c->there && c->at;
	return values && c->owner && c->waits && c->order && c->by_start && c->ready && c->path ? E_OK
												: E_NOMEM;
}

bool place_own(struct place_cost *c, const int *piece, int n)
{
	const struct placement_problem *p = c->net->p;
	int covered = 0;
	for (int op = 0; op < p->nops; op++)
		c->owner[op] = -1;
	for (int i = 0; i < n; i++) {
		const struct placement_piece *x = &p->piece[piece[i]];
		for (int k = 0; k < x->nops; k++, covered++) {
			if (c->owner[x->op[k]] >= 0)
				return false;
			c->owner[x->op[k]] = i;
		}
	}
	return covered == p->nops;
}

static void write_formats(struct place_cost *c, const int *piece, int n)
{
	const struct placement_problem *p = c->net->p;
	for (int v = 0; v < p->nvalues; v++)
		c->format[v] = (unsigned char)c->net->value[v].format;
	memset(c->there, 0, sizeof *c->there * (size_t)p->nvalues);
	for (int i = 0; i < n; i++) {
		const struct placement_piece *x = &p->piece[piece[i]];
		for (int k = 0; k < x->nwrites; k++)
			c->format[x->write[k].value] = (unsigned char)x->write[k].format;
	}
}

/* What it costs to have a value there, unless it is. */
static double move_once(struct place_cost *c, int value, int to)
{
	const struct place_value *v = &c->net->value[value];
	if (c->format[value] == PLACE_NONE)
		return INFINITY;
	if (c->format[value] == to || c->there[value] >> to & 1)
		return 0;
	c->there[value] |= 1u << to;
	return place_move(v, c->format[value], to);
}

static double sum_moves(struct place_cost *c, const int *piece, int n)
{
	const struct placement_problem *p = c->net->p;
	double sum = 0;
	for (int i = 0; i < n; i++) {
		const struct placement_piece *x = &p->piece[piece[i]];
		for (int k = 0; k < x->nreads; k++)
			sum += move_once(c, x->read[k].value, x->read[k].format);
	}
	for (int i = 0; i < p->noutputs; i++)
		sum += move_once(c, p->output[i].value, p->output[i].format);
	return sum;
}

/* Index in the set of the piece that writes what this port reads; -1: an input of the network. */
static int writer_of(const struct place_cost *c, const struct placement_port *x)
{
	int op = c->net->value[x->value].writer;
	return op < 0 ? -1 : c->owner[op];
}

/* Those of the pieces that read what piece i writes, without their number of reads left, are ready. */
static int release_readers(struct place_cost *c, const int *piece, int i, int *ready, int nready)
{
	const struct placement_problem *p = c->net->p;
	const struct placement_piece *x = &p->piece[piece[i]];
	for (int k = 0; k < x->nwrites; k++) {
		const struct place_value *v = &c->net->value[x->write[k].value];
		for (int r = 0; r < v->nreaders; r++) {
			/* Each operator that reads it counts as one, also of the same piece. */
			int reader = c->owner[v->reader[r]];
			if (reader != i && --c->waits[reader] == 0)
				ready[nready++] = reader;
		}
	}
	return nready;
}

static int count_waits(struct place_cost *c, const int *piece, int n, int *ready)
{
	int nready = 0;
	for (int i = 0; i < n; i++) {
		const struct placement_piece *x = &c->net->p->piece[piece[i]];
		c->waits[i] = 0;
		for (int k = 0; k < x->nreads; k++) {
			const struct place_value *v = &c->net->value[x->read[k].value];
			for (int r = 0; r < v->nreaders && v->writer >= 0; r++)
				c->waits[i] += c->owner[v->reader[r]] == i;
		}
		if (!c->waits[i])
			ready[nready++] = i;
	}
	return nready;
}

/* An order in which they can run, those with low operators first. false: some wait for each other. */
static bool sort_pieces(struct place_cost *c, const int *piece, int n)
{
	const struct place_piece *of = c->net->piece;
	int nready = count_waits(c, piece, n, c->ready), done = 0;
	while (nready) {
		int best = 0;
		for (int i = 1; i < nready; i++)
			if (of[piece[c->ready[i]]].first < of[piece[c->ready[best]]].first)
				best = i;
		int next = c->ready[best];
		c->ready[best] = c->ready[--nready];
		c->order[done++] = next;
		nready = release_readers(c, piece, next, c->ready, nready);
	}
	return done == n;
}

/* Longest way from the start of each piece to the end of the network. */
static void measure_paths(struct place_cost *c, const int *piece, int n)
{
	const struct placement_problem *p = c->net->p;
	memset(c->path, 0, sizeof *c->path * (size_t)n);
	for (int i = 0; i < p->noutputs; i++) {
		const struct placement_port *o = &p->output[i];
		int from = writer_of(c, o);
		double ns = place_move(&c->net->value[o->value], c->format[o->value], o->format);
		if (from >= 0 && ns > c->path[from])
			c->path[from] = ns;
	}
	for (int k = n - 1; k >= 0; k--) {
		int i = c->order[k];
		const struct placement_piece *x = &p->piece[piece[i]];
		c->path[i] += c->net->piece[piece[i]].ns;
		for (int r = 0; r < x->nreads; r++) {
			int from = writer_of(c, &x->read[r]), value = x->read[r].value;
			double ns = c->path[i] +
				    place_move(&c->net->value[value], c->format[value], x->read[r].format);
			if (from >= 0 && ns > c->path[from])
				c->path[from] = ns;
		}
	}
}

/* Times at which devices, and last the copy engine, are free. */
struct lanes {
	double free_ns[PLACEMENT_DEVICES + 1];
};

/* When value is there in format `to`, with the move that it takes. keep: the move is made. */
static double have_value(struct place_cost *c, struct lanes *l, const struct placement_port *x, bool keep)
{
	const struct placement_problem *p = c->net->p;
	int from = c->format[x->value], to = x->format;
	double *at = c->at + (size_t)x->value * (size_t)p->nformats;
	if (from == to || c->there[x->value] >> to & 1)
		return at[to];
	int mover = p->mover ? p->mover[from * p->nformats + to] : -1;
	double *free_ns = &l->free_ns[mover < 0 ? PLACEMENT_DEVICES : mover];
	double start = *free_ns > at[from] ? *free_ns : at[from];
	*free_ns = start + place_move(&c->net->value[x->value], from, to);
	if (keep) {
		c->there[x->value] |= 1u << to;
		at[to] = *free_ns;
	}
	return *free_ns;
}

static double start_of(struct place_cost *c, struct lanes *l, const struct placement_piece *x, bool keep)
{
	double start = 0;
	for (int k = 0; k < x->nreads; k++) {
		double ns = have_value(c, l, &x->read[k], keep);
		start = ns > start ? ns : start;
	}
	return l->free_ns[x->device] > start ? l->free_ns[x->device] : start;
}

/* A ready piece: when it can start, and how long the network takes from there. */
struct turn {
	double start_ns, path_ns;
	int first; /* operator */
};

static bool goes_before(const struct turn *a, const struct turn *b, bool by_path)
{
	if (by_path && a->path_ns != b->path_ns)
		return a->path_ns > b->path_ns;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	return a->path_ns != b->path_ns ? a->path_ns > b->path_ns : a->first < b->first;
}

/* Index in ready[] of the piece that runs next. */
static int choose_next(struct place_cost *c, const struct lanes *l, const int *piece, int nready,
		       bool by_path)
{
	int best = -1;
	struct turn best_turn = {0};
	for (int k = 0; k < nready && nready > 1; k++) {
		int i = c->ready[k];
		struct turn turn = {.path_ns = c->path[i], .first = c->net->piece[piece[i]].first};
		struct lanes trial = *l;
		if (best >= 0 && by_path && turn.path_ns < best_turn.path_ns)
			continue;
		turn.start_ns = start_of(c, &trial, &c->net->p->piece[piece[i]], false);
		if (best < 0 || goes_before(&turn, &best_turn, by_path)) {
			best = k;
			best_turn = turn;
		}
	}
	return best < 0 ? 0 : best;
}

/* After measure_paths: the end of a list schedule, and its order. */
static double schedule(struct place_cost *c, const int *piece, int n, bool by_path)
{
	const struct placement_problem *p = c->net->p;
	struct lanes l = {{0}};
	double end = 0;
	memset(c->there, 0, sizeof *c->there * (size_t)p->nvalues);
	for (int i = 0; i < p->ninputs; i++)
		c->at[(size_t)p->input[i].value * (size_t)p->nformats + (size_t)p->input[i].format] = 0;
	int nready = count_waits(c, piece, n, c->ready);
	for (int done = 0; done < n; done++) {
		int best = choose_next(c, &l, piece, nready, by_path), i = c->ready[best];
		const struct placement_piece *x = &p->piece[piece[i]];
		double ns = start_of(c, &l, x, true) + c->net->piece[piece[i]].ns;
		l.free_ns[x->device] = ns;
		for (int k = 0; k < x->nwrites; k++)
			c->at[(size_t)x->write[k].value * (size_t)p->nformats + (size_t)x->write[k].format] =
			    ns;
		end = ns > end ? ns : end;
		c->order[done] = i;
		c->ready[best] = c->ready[--nready];
		nready = release_readers(c, piece, i, c->ready, nready);
	}
	for (int i = 0; i < p->noutputs; i++) {
		double ns = have_value(c, &l, &p->output[i], true);
		end = ns > end ? ns : end;
	}
	return end;
}

/* After sort_pieces: the end of the better list schedule, and its order. */
static double schedule_better(struct place_cost *c, const int *piece, int n)
{
	measure_paths(c, piece, n);
	double by_start = schedule(c, piece, n, false);
	memcpy(c->by_start, c->order, sizeof *c->order * (size_t)n);
	double by_path = schedule(c, piece, n, true);
	if (by_path < by_start)
		return by_path;
	memcpy(c->order, c->by_start, sizeof *c->order * (size_t)n);
	return by_start;
}

double place_cost(struct place_cost *c, bool overlap, const int *piece, int n, int *order, double *alone_ns,
		  const char **why)
{
	double sum = 0;
	const char *bad = NULL;
	write_formats(c, piece, n);
	for (int i = 0; i < n; i++)
		sum += c->net->piece[piece[i]].ns;
	sum += sum_moves(c, piece, n);
	if (isinf(sum))
		bad = "a value that is needed is not written, or cannot be moved to a format in which it is "
		      "read";
	else if (!sort_pieces(c, piece, n))
		bad = "pieces wait for each other";
	if (why)
		*why = bad;
	*alone_ns = bad ? INFINITY : sum;
	if (bad)
		return INFINITY;
	double end = overlap ? schedule_better(c, piece, n) : sum;
	/* Without any overlap, rounding could make the end later. */
	end = end < sum ? end : sum;
	for (int i = 0; i < n; i++)
		c->order[i] = piece[c->order[i]];
	if (order)
		memcpy(order, c->order, sizeof *order * (size_t)n);
	return end;
}
