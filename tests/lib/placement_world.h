/* SPDX-License-Identifier: Apache-2.0 */
/* Random placement problems, and the costs of their placements computed naively. */
#ifndef TESTS_PLACEMENT_WORLD_H
#define TESTS_PLACEMENT_WORLD_H

#include "platform/base/rng.h"
#include "search/placement.h"

#include <math.h>
#include <string.h>

enum { WORLD_OPS = 256, WORLD_VALUES = 640, WORLD_PIECES = 4096, WORLD_FORMATS = 8, WORLD_LIST = 16 };

struct placement_world {
	struct placement_problem p;
	int nbackends_used;
	struct placement_op op[WORLD_OPS];
	int reads[WORLD_OPS][WORLD_LIST], writes[WORLD_OPS][WORLD_LIST];
	struct placement_piece piece[WORLD_PIECES];
	int ops[WORLD_PIECES][WORLD_LIST];
	struct placement_port read[WORLD_PIECES][WORLD_LIST], write[WORLD_PIECES][WORLD_LIST];
	struct placement_port input[WORLD_LIST], output[WORLD_VALUES];
	double launch[PLACEMENT_DEVICES], move[WORLD_VALUES][WORLD_FORMATS][WORLD_FORMATS];
	int mover[WORLD_FORMATS * WORLD_FORMATS];
	int writer[WORLD_VALUES]; /* -1: input */
	bool wanted[WORLD_VALUES];
	bool after[WORLD_OPS][WORLD_OPS]; /* after[x][y]: y needs x */
};

struct world_shape {
	int nops, window, nbackends, nformats, ndevices, most_pieces, most_pattern;
	double patterns;                                 /* patterns tried per operator */
	double two_writes, two_reads, far, no_move, odd; /* probabilities */
	bool simple;  /* only patterns whose inputs come from operators before all of theirs */
	bool uniform; /* each back end has one format and a piece for each operator */
};

static inline double world_move(void *moves, int value, int from, int to)
{
	struct placement_world *w = moves;
	return w->move[value][from][to];
}

static inline bool chance(struct rng *r, double p)
{
	return rng_unit(r) < p;
}

static inline double world_ns(struct rng *r, int most)
{
	return (double)(1 + rng_below(r, (uint32_t)most));
}

static inline void world_graph(struct placement_world *w, struct rng *r, const struct world_shape *s)
{
	int nvalues = 0, readers[WORLD_VALUES] = {0};
	int ninputs = 1 + (int)rng_below(r, 2);
	for (int i = 0; i < ninputs; i++, nvalues++) {
		w->input[i] = (struct placement_port){nvalues, (int)rng_below(r, (uint32_t)s->nformats)};
		w->writer[nvalues] = -1;
	}
	for (int op = 0; op < s->nops; op++) {
		int n = 0, want = chance(r, s->two_reads) ? 2 : 1;
		for (int i = 0; i < want; i++) {
			int window = chance(r, s->far) ? nvalues : s->window;
			int back = 1 + (int)rng_below(r, (uint32_t)(window < nvalues ? window : nvalues));
			/* The value that has no reader yet and is oldest, often: it keeps the graph
			 * connected. */
			int v = nvalues - back;
			for (int k = nvalues - s->window > 0 ? nvalues - s->window : 0; k < nvalues; k++)
				if (!readers[k] && chance(r, 0.7)) {
					v = k;
					break;
				}
			w->reads[op][n++] = v;
			readers[v]++;
		}
		for (int i = 0; i < n; i++)
			for (int x = 0; x < op; x++)
				if (w->writer[w->reads[op][i]] >= 0 &&
				    (x == w->writer[w->reads[op][i]] ||
				     w->after[x][w->writer[w->reads[op][i]]]))
					w->after[x][op] = true;
		int writes = chance(r, s->two_writes) ? 2 : 1;
		for (int i = 0; i < writes; i++) {
			w->writes[op][i] = nvalues;
			w->writer[nvalues++] = op;
		}
		w->op[op] = (struct placement_op){n, writes, w->reads[op], w->writes[op]};
	}
	w->p.nops = s->nops;
	w->p.nvalues = nvalues;
	w->p.ninputs = ninputs;
	for (int v = 0; v < nvalues; v++)
		if ((w->writer[v] >= 0 && !readers[v] && chance(r, 0.9)) || chance(r, 0.05)) {
			w->wanted[v] = true;
			w->output[w->p.noutputs++] =
			    (struct placement_port){v, (int)rng_below(r, (uint32_t)s->nformats)};
		}
}

static inline bool in_set(const int *set, int n, int x)
{
	for (int i = 0; i < n; i++)
		if (set[i] == x)
			return true;
	return false;
}

/* May these operators be a piece? */
static inline bool world_convex(const struct placement_world *w, const int *op, int n, bool simple)
{
	int first = op[0];
	for (int i = 1; i < n; i++)
		first = op[i] < first ? op[i] : first;
	for (int x = 0; x < w->p.nops; x++)
		for (int i = 0; i < n && !in_set(op, n, x); i++)
			for (int k = 0; k < n; k++)
				if (w->after[op[i]][x] && w->after[x][op[k]])
					return false;
	for (int i = 0; i < n && simple; i++)
		for (int k = 0; k < w->op[op[i]].nreads; k++) {
			int writer = w->writer[w->reads[op[i]][k]];
			if (writer >= first && !in_set(op, n, writer))
				return false;
		}
	return true;
}

static inline void world_piece(struct placement_world *w, struct rng *r, const struct world_shape *s,
			       const int *op, int n, int backend)
{
	int at = w->p.npieces, most = s->ndevices;
	struct placement_piece *x = &w->piece[at];
	*x = (struct placement_piece){
	    .nops = n, .op = w->ops[at], .backend = backend, .read = w->read[at], .write = w->write[at]};
	x->device = s->uniform ? backend % most : (int)rng_below(r, (uint32_t)most);
	memcpy(w->ops[at], op, sizeof(int) * (size_t)n);
	x->ns = 0;
	for (int i = 0; i < n; i++)
		x->ns += world_ns(r, 100);
	x->ns = floor(x->ns * (n > 1 ? 0.75 : 1));
	int format = backend % s->nformats, one = chance(r, 0.7);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < w->op[op[i]].nreads; k++) {
			int v = w->reads[op[i]][k];
			bool there = w->writer[v] >= 0 && in_set(op, n, w->writer[v]);
			for (int j = 0; j < x->nreads && !there; j++)
				there = w->read[at][j].value == v;
			if (there)
				continue;
			if (!s->uniform && !one)
				format = (int)rng_below(r, (uint32_t)s->nformats);
			w->read[at][x->nreads++] = (struct placement_port){v, format};
		}
		for (int k = 0; k < w->op[op[i]].nwrites; k++) {
			int v = w->writes[op[i]][k];
			bool needed = w->wanted[v] || chance(r, 0.2);
			for (int y = 0; y < w->p.nops && !needed; y++)
				needed = in_set(w->reads[y], w->op[y].nreads, v) && !in_set(op, n, y);
			if (!needed || (n > 1 && chance(r, s->odd)))
				continue;
			if (!s->uniform && !one)
				format = (int)rng_below(r, (uint32_t)s->nformats);
			w->write[at][x->nwrites++] = (struct placement_port){v, format};
		}
	}
	w->p.npieces++;
}

/* Up to most_pattern operators: a chain of readers, or any. */
static inline int world_pattern(const struct placement_world *w, struct rng *r, const struct world_shape *s,
				int *op)
{
	int n = 1, size = 2 + (int)rng_below(r, (uint32_t)(s->most_pattern - 1));
	op[0] = (int)rng_below(r, (uint32_t)w->p.nops);
	for (int tries = 0; n < size && tries < 30; tries++) {
		int x = (int)rng_below(r, (uint32_t)w->p.nops);
		bool joined = s->odd > 0 && chance(r, s->odd);
		for (int i = 0; i < n && !joined; i++)
			for (int v = 0; v < w->op[x].nreads; v++)
				joined |= w->writer[w->reads[x][v]] == op[i];
		if (!joined) { /* a reader of one of them */
			int v = w->writes[op[rng_below(r, (uint32_t)n)]][0];
			for (int y = 0; y < w->p.nops && !joined; y++)
				if (in_set(w->reads[y], w->op[y].nreads, v) && chance(r, 0.7)) {
					x = y;
					joined = true;
				}
		}
		if (!joined || in_set(op, n, x))
			continue;
		op[n] = x;
		n += world_convex(w, op, n + 1, s->simple);
	}
	return n;
}

/* Fills *w, which is zero. */
static inline void world_make(struct placement_world *w, uint64_t seed, const struct world_shape *s)
{
	struct rng r;
	rng_seed(&r, seed);
	world_graph(w, &r, s);
	int most = s->most_pieces ? s->most_pieces : WORLD_PIECES, set[WORLD_LIST];
	int none = s->most_pieces && chance(&r, 0.2) ? (int)rng_below(&r, (uint32_t)s->nops) : -1;
	for (int op = 0; op < s->nops; op++)
		for (int b = 0; b < s->nbackends && op != none && w->p.npieces < most; b++)
			if (s->uniform || (s->most_pieces ? !b : !b || chance(&r, 0.6)))
				world_piece(w, &r, s, &op, 1,
					    s->uniform ? b : (int)rng_below(&r, (uint32_t)s->nbackends));
	for (int i = 0; i < (int)(s->patterns * s->nops) && w->p.npieces < most; i++) {
		int n = world_pattern(w, &r, s, set);
		if (n > 1)
			world_piece(w, &r, s, set, n, (int)rng_below(&r, (uint32_t)s->nbackends));
	}
	for (int d = 0; d < s->ndevices; d++)
		w->launch[d] = (double)rng_below(&r, 12);
	for (int v = 0; v < w->p.nvalues; v++)
		for (int f = 0; f < s->nformats; f++)
			for (int g = 0; g < s->nformats; g++)
				w->move[v][f][g] =
				    chance(&r, s->no_move) ? INFINITY : (double)rng_below(&r, 40);
	for (int i = 0; i < s->nformats * s->nformats; i++)
		w->mover[i] = (int)rng_below(&r, (uint32_t)s->ndevices + 1) - 1;
	w->p.nformats = s->nformats;
	w->p.nbackends = s->nbackends;
	w->p.ndevices = s->ndevices;
	w->p.op = w->op;
	w->p.piece = w->piece;
	w->p.input = w->input;
	w->p.output = w->output;
	w->p.launch_ns = w->launch;
	w->p.move_ns = world_move;
	w->p.moves = w;
	w->p.mover = chance(&r, 0.5) ? w->mover : NULL;
}

/* ---- naive costs ---- */

static inline int piece_of(const struct placement_world *w, const int *set, int n, int op)
{
	for (int i = 0; i < n; i++)
		if (in_set(w->piece[set[i]].op, w->piece[set[i]].nops, op))
			return i;
	return -1;
}

static inline int format_of(const struct placement_world *w, const int *set, int n, int value)
{
	for (int i = 0; i < w->p.ninputs; i++)
		if (w->input[i].value == value)
			return w->input[i].format;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < w->piece[set[i]].nwrites; k++)
			if (w->write[set[i]][k].value == value)
				return w->write[set[i]][k].format;
	return -1;
}

static inline bool covers_once(const struct placement_world *w, const int *set, int n)
{
	int count[WORLD_OPS] = {0};
	for (int i = 0; i < n; i++)
		for (int k = 0; k < w->piece[set[i]].nops; k++)
			count[w->ops[set[i]][k]]++;
	for (int op = 0; op < w->p.nops; op++)
		if (count[op] != 1)
			return false;
	return true;
}

/* Does piece i of the set read what piece k writes? */
static inline bool waits_for(const struct placement_world *w, const int *set, int n, int i, int k)
{
	for (int j = 0; j < w->piece[set[i]].nreads; j++) {
		int writer = w->writer[w->read[set[i]][j].value];
		if (writer >= 0 && piece_of(w, set, n, writer) == k)
			return true;
	}
	return false;
}

static inline bool can_run(const struct placement_world *w, const int *set, int n)
{
	bool done[WORLD_OPS] = {0};
	for (int round = 0, left = n; left; round++) {
		if (round > n)
			return false;
		for (int i = 0; i < n; i++) {
			bool ready = !done[i];
			for (int k = 0; k < n && ready; k++)
				ready = done[k] || !waits_for(w, set, n, i, k);
			left -= ready;
			done[i] |= ready;
		}
	}
	return true;
}

/* Cost (a); INFINITY: not legal. */
static inline double naive_alone(const struct placement_world *w, const int *set, int n)
{
	static bool moved[WORLD_VALUES][WORLD_FORMATS];
	memset(moved, 0, sizeof moved);
	if (!covers_once(w, set, n) || !can_run(w, set, n))
		return INFINITY;
	double sum = 0;
	for (int i = 0; i < n; i++) {
		sum += w->piece[set[i]].ns + w->launch[w->piece[set[i]].device];
		for (int k = 0; k < w->piece[set[i]].nreads; k++)
			moved[w->read[set[i]][k].value][w->read[set[i]][k].format] = true;
	}
	for (int i = 0; i < w->p.noutputs; i++)
		moved[w->output[i].value][w->output[i].format] = true;
	for (int v = 0; v < w->p.nvalues; v++)
		for (int f = 0; f < w->p.nformats; f++) {
			int from = moved[v][f] ? format_of(w, set, n, v) : f;
			if (from < 0)
				return INFINITY;
			sum += from == f ? 0 : w->move[v][from][f];
		}
	return sum;
}

/* Longest way from piece i to the end. */
static inline double naive_path(const struct placement_world *w, const int *set, int n, int i, double *known)
{
	if (known[i] >= 0)
		return known[i];
	double most = 0;
	for (int j = 0; j < w->piece[set[i]].nwrites; j++) {
		struct placement_port x = w->write[set[i]][j];
		for (int k = 0; k < w->p.noutputs; k++)
			if (w->output[k].value == x.value && w->output[k].format != x.format)
				most = fmax(most, w->move[x.value][x.format][w->output[k].format]);
		for (int k = 0; k < n; k++)
			for (int r = 0; r < w->piece[set[k]].nreads; r++) {
				struct placement_port y = w->read[set[k]][r];
				if (y.value == x.value)
					most = fmax(most, naive_path(w, set, n, k, known) +
							      (x.format == y.format
								   ? 0
								   : w->move[x.value][x.format][y.format]));
			}
	}
	return known[i] = most + w->piece[set[i]].ns + w->launch[w->piece[set[i]].device];
}

struct naive_time {
	double lane[PLACEMENT_DEVICES + 1], there[WORLD_VALUES][WORLD_FORMATS]; /* -1: not there */
};

static inline double naive_have(const struct placement_world *w, const int *set, int n, struct naive_time *t,
				struct placement_port x)
{
	int from = format_of(w, set, n, x.value);
	if (t->there[x.value][x.format] < 0) {
		int mover = w->p.mover ? w->mover[from * w->p.nformats + x.format] : -1;
		double *lane = &t->lane[mover < 0 ? PLACEMENT_DEVICES : mover];
		*lane = fmax(*lane, t->there[x.value][from]) + w->move[x.value][from][x.format];
		t->there[x.value][x.format] = *lane;
	}
	return t->there[x.value][x.format];
}

/* When piece i would start; *t as it is then. */
static inline double naive_start(const struct placement_world *w, const int *set, int n, struct naive_time *t,
				 int i)
{
	double start = 0;
	for (int k = 0; k < w->piece[set[i]].nreads; k++)
		start = fmax(start, naive_have(w, set, n, t, w->read[set[i]][k]));
	return fmax(start, t->lane[w->piece[set[i]].device]);
}

static inline double naive_schedule(const struct placement_world *w, const int *set, int n, bool by_path)
{
	static struct naive_time t, trial;
	double path[WORLD_OPS], end = 0;
	bool done[WORLD_OPS] = {0};
	memset(&t, 0, sizeof t);
	for (int v = 0; v < w->p.nvalues; v++)
		for (int f = 0; f < w->p.nformats; f++)
			t.there[v][f] = -1;
	for (int i = 0; i < w->p.ninputs; i++)
		t.there[w->input[i].value][w->input[i].format] = 0;
	for (int i = 0; i < n; i++)
		path[i] = -1;
	for (int step = 0; step < n; step++) {
		int best = -1;
		double best_ns = 0;
		for (int i = 0; i < n; i++) {
			bool ready = !done[i];
			for (int k = 0; k < n && ready; k++)
				ready = done[k] || !waits_for(w, set, n, i, k);
			if (!ready)
				continue;
			trial = t;
			double ns = naive_start(w, set, n, &trial, i), mine = naive_path(w, set, n, i, path);
			double other = best < 0 ? 0 : path[best];
			int first = w->p.nops, best_first = first;
			for (int k = 0; k < w->piece[set[i]].nops; k++)
				first = w->ops[set[i]][k] < first ? w->ops[set[i]][k] : first;
			for (int k = 0; best >= 0 && k < w->piece[set[best]].nops; k++)
				best_first =
				    w->ops[set[best]][k] < best_first ? w->ops[set[best]][k] : best_first;
			double keys[2][3] = {{ns - best_ns, other - mine, first - best_first},
					     {other - mine, ns - best_ns, first - best_first}};
			const double *key = keys[by_path];
			double decides = key[0] != 0 ? key[0] : key[1] != 0 ? key[1] : key[2];
			if (best < 0 || decides < 0) {
				best = i;
				best_ns = ns;
			}
		}
		const struct placement_piece *x = &w->piece[set[best]];
		double ns = naive_start(w, set, n, &t, best) + x->ns + w->launch[x->device];
		t.lane[x->device] = ns;
		for (int k = 0; k < x->nwrites; k++)
			t.there[x->write[k].value][x->write[k].format] = ns;
		end = fmax(end, ns);
		done[best] = true;
	}
	for (int i = 0; i < w->p.noutputs; i++)
		end = fmax(end, naive_have(w, set, n, &t, w->output[i]));
	return end;
}

/* Cost (b) of a legal placement. */
static inline double naive_overlap(const struct placement_world *w, const int *set, int n)
{
	return fmin(naive_schedule(w, set, n, false), naive_schedule(w, set, n, true));
}

#endif
