/* SPDX-License-Identifier: Apache-2.0 */
#include "search/placement_parts.h"
#include "platform/base/clock.h"

#include <math.h>
#include <string.h>

enum {
	WIDER = 8,
	WIDEST = 64 * PLACEMENT_BEAM /* beams, if a narrower one finds no placement */,
	DEAD_ENDS = 16
};
#define ROUNDING 1e-9 /* of sums of times */

uint64_t place_hash(const int *piece, int n)
{
	uint64_t sum = 0;
	for (int i = 0; i < n; i++) {
		uint64_t z = ((uint64_t)piece[i] + 1) * UINT64_C(0x9e3779b97f4a7c15);
		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		sum += z ^ (z >> 31);
	}
	return sum ? sum : 1;
}

int place_try(struct place_best *b, const int *piece, int n, double *ns)
{
	struct placement x = {.n = n, .piece = b->order};
	b->evals++;
	*ns = INFINITY;
	if (!place_own(&b->cost, piece, n))
		return E_OK;
	x.ns = place_cost(&b->cost, b->s->overlap, piece, n, b->order, &x.alone_ns, NULL);
	if (isinf(x.ns))
		return E_OK;
	double found = x.ns;
	if (b->s->measure) {
		int rc = b->s->measure(b->s->user, &x, &found);
		if (rc == E_INFEASIBLE)
			return err_clear(E_OK);
		if (rc == E_STOPPED || rc == E_TIMEOUT)
			b->over = true;
		if (b->over && b->n)
			return err_clear(E_OK);
		if (rc < 0)
			return rc;
		if (!(found >= 0) || isinf(found))
			return fail(E_USAGE,
				    "placement: the network was measured as %g ns, which is not a time",
				    found);
	}
	*ns = found;
	if (b->n && found >= b->ns)
		return E_OK;
	b->ns = found;
	b->alone_ns = x.alone_ns;
	b->n = n;
	memcpy(b->piece, b->order, sizeof *piece * (size_t)n);
	return E_OK;
}

/* ---- all placements ---- */

/* Steps through the sets of pieces that cover each operator once: the first uncovered operator is covered by
 * each piece that begins there, in turn. */
struct walk {
	const struct place_net *net;
	int *piece, *choice, *at, n; /* chosen pieces; index in `begins` of each; its first operator */
	bool *covered;
	int nodes;
};

static int walk_begin(struct walk *k, const struct place_net *net, struct arena *a)
{
	size_t nops = (size_t)net->p->nops;
	*k = (struct walk){.net = net};
	k->piece = arena_try(a, nops, sizeof(int));
	k->choice = arena_try(a, nops, sizeof(int));
	k->at = arena_try(a, nops + 1, sizeof(int));
	k->covered = arena_try(a, nops + 1, sizeof(bool));
	if (!k->piece || !k->choice || !k->at || !k->covered)
		return E_NOMEM;
	k->choice[0] = net->begin_at[0];
	return E_OK;
}

static void walk_cover(struct walk *k, int piece, bool covered)
{
	const struct placement_piece *x = &k->net->p->piece[piece];
	for (int i = 0; i < x->nops; i++)
		k->covered[x->op[i]] = covered;
}

static bool walk_fits(const struct walk *k, int piece)
{
	const struct placement_piece *x = &k->net->p->piece[piece];
	for (int i = 0; i < x->nops; i++)
		if (k->covered[x->op[i]])
			return false;
	return true;
}

/* 1: piece[0 .. n) covers all; 0: that was the last; E_UNSUPPORTED: too many steps. */
static int walk_next(struct walk *k, int most_nodes)
{
	const struct place_net *net = k->net;
	int nops = net->p->nops;
	if (k->n && k->at[k->n] == nops) /* the last answer */
		walk_cover(k, k->piece[--k->n], false);
	for (;;) {
		int end = net->begin_at[k->at[k->n] + 1];
		while (k->choice[k->n] < end && !walk_fits(k, net->begins[k->choice[k->n]]))
			k->choice[k->n]++;
		if (++k->nodes > most_nodes)
			return E_UNSUPPORTED;
		if (k->choice[k->n] == end) {
			if (!k->n)
				return 0;
			walk_cover(k, k->piece[--k->n], false);
			continue;
		}
		int piece = net->begins[k->choice[k->n]++], op = k->at[k->n];
		walk_cover(k, piece, true);
		k->piece[k->n++] = piece;
		while (op < nops && k->covered[op])
			op++;
		k->at[k->n] = op;
		if (op == nops)
			return 1;
		k->choice[k->n] = net->begin_at[op];
	}
}

/* How many sets cover all; more than `most`: most + 1. */
static int count_all(const struct place_net *net, int most, struct arena *a)
{
	struct walk k;
	int rc = walk_begin(&k, net, a), n = 0;
	while (rc >= 0 && n <= most && (rc = walk_next(&k, DEAD_ENDS * PLACEMENT_FEW)) == 1)
		n++;
	return rc == E_UNSUPPORTED ? most + 1 : rc < 0 ? rc : n;
}

/* Tries all but those that were tried. */
static int try_all(struct place_best *b, const uint64_t *tried, int ntried, struct arena *a)
{
	struct walk k;
	double ns;
	int rc = walk_begin(&k, b->net, a);
	while (rc >= 0 && !place_over(b) && (rc = walk_next(&k, DEAD_ENDS * PLACEMENT_FEW)) == 1) {
		uint64_t hash = place_hash(k.piece, k.n);
		bool again = false;
		for (int i = 0; i < ntried && !again; i++)
			again = tried[i] == hash;
		if (!again)
			rc = place_try(b, k.piece, k.n, &ns);
	}
	return rc;
}

/* ---- one back end ---- */

/* More than a placement can cost. */
static double cost_limit(const struct place_net *net)
{
	double sum = 1;
	for (int op = 0; op < net->p->nops; op++) {
		double most = 0;
		for (int k = net->begin_at[op]; k < net->begin_at[op + 1]; k++)
			most = fmax(most, net->piece[net->begins[k]].ns);
		sum += most;
	}
	for (int value = 0; value < net->p->nvalues; value++) {
		const struct place_value *v = &net->value[value];
		int rows = __builtin_popcount(v->from), columns = __builtin_popcount(v->to);
		for (int i = 0; i < rows * columns; i++)
			sum += isinf(v->move[i]) ? 0 : v->move[i];
	}
	return sum;
}

/* The best placement that uses other back ends for as few operators as can be. That is for those alone that
 * this one has no piece for, if it can; else each operator on another back end costs more than all else. */
static int find_single(const struct place_net *net, int backend, const struct placement_search *s,
		       struct arena *a, int *piece, int *n)
{
	const struct placement_problem *p = net->p;
	double *surcharge = arena_try(a, (size_t)p->npieces + 1, sizeof *surcharge);
	bool *own = arena_try(a, (size_t)p->nops, sizeof *own), exact, any = false;
	if (!surcharge || !own)
		return E_NOMEM;
	for (int i = 0; i < p->npieces; i++)
		for (int k = 0; k < p->piece[i].nops; k++)
			if (p->piece[i].backend == backend && net->piece[i].usable)
				any = own[p->piece[i].op[k]] = true;
	if (!any)
		return 0;
	for (int i = 0; i < p->npieces; i++)
		for (int k = 0; k < p->piece[i].nops; k++)
			if (p->piece[i].backend != backend && own[p->piece[i].op[k]])
				surcharge[i] = INFINITY;
	struct place_dp how = {
	    .surcharge_ns = surcharge, .beam = PLACEMENT_BEAM, .most_ns = INFINITY, .s = s};
	int rc = place_dp(net, &how, piece, n, &exact);
	if (rc)
		return rc;
	double limit = cost_limit(net);
	for (int i = 0; i < p->npieces; i++)
		surcharge[i] = p->piece[i].backend == backend ? 0 : limit * p->piece[i].nops;
	return place_dp(net, &how, piece, n, &exact);
}

/* ---- both levels ---- */

/* Sets of pieces to begin with, with their cost (a), and their order by it. */
struct seeds {
	int n, *piece, *of; /* piece: [n][nops]; of: pieces of each */
	double *ns;
	uint64_t *hash;
};

static int *seed_at(const struct seeds *x, const struct place_net *net, int i)
{
	return x->piece + (size_t)i * (size_t)net->p->nops;
}

static int seeds_new(struct seeds *x, const struct place_net *net, struct arena *a)
{
	size_t most = (size_t)net->p->nbackends + 1;
	*x = (struct seeds){0};
	x->piece = arena_try(a, most * (size_t)net->p->nops, sizeof(int));
	x->of = arena_try(a, most, sizeof(int));
	x->ns = arena_try(a, most, sizeof *x->ns);
	x->hash = arena_try(a, most, sizeof *x->hash);
	return x->piece && x->of && x->ns && x->hash ? E_OK : E_NOMEM;
}

/* Keeps the seed that was written behind the last one, in the order of costs (a). */
static void add_seed(struct seeds *x, struct place_best *b)
{
	size_t row = sizeof(int) * (size_t)b->net->p->nops;
	int i = x->n, n = x->of[i], *piece = seed_at(x, b->net, i);
	uint64_t hash = place_hash(piece, n);
	double ns;
	for (int k = 0; k < i; k++)
		if (x->hash[k] == hash)
			return;
	if (!place_own(&b->cost, piece, n) ||
	    isinf(place_cost(&b->cost, false, piece, n, b->order, &ns, NULL)))
		return;
	for (; i && x->ns[i - 1] > ns; i--) {
		memcpy(seed_at(x, b->net, i), seed_at(x, b->net, i - 1), row);
		x->of[i] = x->of[i - 1];
		x->ns[i] = x->ns[i - 1];
		x->hash[i] = x->hash[i - 1];
	}
	memcpy(seed_at(x, b->net, i), b->order, sizeof(int) * (size_t)n);
	x->of[i] = n;
	x->ns[i] = ns;
	x->hash[i] = hash;
	x->n++;
}

/* The placements on single back ends, and the best one by cost (a). */
static int find_seeds(struct place_best *b, struct arena *a, struct seeds *x, bool *exact)
{
	int rc = seeds_new(x, b->net, a), found = 0;
	for (int k = 0; k < b->net->p->nbackends && rc >= 0; k++) {
		rc = find_single(b->net, k, b->s, a, seed_at(x, b->net, x->n), &x->of[x->n]);
		if (rc == 1)
			add_seed(x, b);
	}
	struct place_dp how = {.beam = PLACEMENT_BEAM, .most_ns = x->n ? x->ns[0] : INFINITY, .s = b->s};
	for (; rc >= 0 && how.beam <= WIDEST; how.beam *= WIDER) {
		rc = found = place_dp(b->net, &how, seed_at(x, b->net, x->n), &x->of[x->n], exact);
		if (rc == 1)
			add_seed(x, b);
		if (x->n || *exact)
			break;
	}
	return rc < 0 ? rc : found;
}

static int start_best(const struct place_net *net, const struct placement_search *s, struct arena *a,
		      struct place_best *b)
{
	size_t nops = (size_t)net->p->nops;
	int fit = PLACEMENT_WORK / net->p->nops;
	*b = (struct place_best){.net = net, .s = s, .budget = fit < PLACEMENT_EVALS ? fit : PLACEMENT_EVALS};
	if (s->evals > 0)
		b->budget = s->evals < PLACEMENT_MOST_EVALS ? s->evals : PLACEMENT_MOST_EVALS;
	b->piece = arena_try(a, nops, sizeof(int));
	b->order = arena_try(a, nops, sizeof(int));
	return b->piece && b->order ? place_cost_new(net, a, &b->cost) : E_NOMEM;
}

/* Tries all if they are few, else evolves the seeds. */
static int second_level(struct place_best *b, struct seeds *x, struct arena *a, bool *exact)
{
	int most = PLACEMENT_FEW, rc = E_OK;
	if (b->s->measure && b->budget < most)
		most = b->budget;
	int n = 0;
	for (; n < x->n && rc >= 0 && !(b->s->measure && n && place_over(b)); n++)
		rc = place_try(b, seed_at(x, b->net, n), x->of[n], &x->ns[n]);
	int all = rc < 0 ? rc : count_all(b->net, most, a);
	if (all < 0)
		return all;
	*exact = false;
	if (all > most)
		return place_evolve(b, x->piece, x->of, x->ns, n);
	b->budget = all + 1;
	rc = try_all(b, x->hash, n, a);
	*exact = rc >= 0 && !place_over(b);
	return rc;
}

static int not_found(bool exact)
{
	return fail(E_NOTFOUND,
		    exact
			? "placement: no set of measured pieces covers each operator once, with moves that "
			  "can be made; give each operator a piece of its own on the fallback back end"
			: "placement: no legal placement was found; give each operator a piece of its own on "
			  "the fallback back end");
}

static void report(const struct place_best *b, bool exact, struct placement *out)
{
	*out = (struct placement){.n = b->n,
				  .piece = b->piece,
				  .ns = b->ns,
				  .alone_ns = b->alone_ns,
				  .exact = exact,
				  .evals = b->evals};
}

static int solve(const struct place_net *net, const struct placement_search *s, struct arena *a,
		 struct placement *out)
{
	struct place_best b;
	struct seeds seeds;
	bool exact = false;
	int rc = start_best(net, s, a, &b);
	if (rc >= 0)
		rc = find_seeds(&b, a, &seeds, &exact);
	if (rc < 0)
		return rc;
	if (!seeds.n)
		return not_found(exact);
	if (exact && !s->overlap && !s->measure) {
		double ns;
		rc = place_try(&b, seeds.piece, seeds.of[0], &ns);
		b.evals = 0;
	} else {
		rc = second_level(&b, &seeds, a, &exact);
	}
	if (rc >= 0 && !b.n)
		rc = fail(E_NOTFOUND, "placement: none of the placements that were measured could run");
	if (rc >= 0)
		report(&b, exact, out);
	return rc < 0 ? rc : E_OK;
}

int placement_solve(const struct placement_problem *p, const struct placement_search *s, struct arena *a,
		    struct placement *out)
{
	struct place_net net;
	int rc = place_net(p, false, a, &net);
	return rc < 0 ? rc : solve(&net, s, a, out);
}

int placement_single(const struct placement_problem *p, int backend, const struct placement_search *s,
		     struct arena *a, struct placement *out)
{
	struct placement_search model = *s;
	struct place_net net;
	struct place_best b;
	double ns = INFINITY;
	int rc = place_net(p, false, a, &net), n = 0;
	if (rc < 0)
		return rc;
	if (backend < 0 || backend >= p->nbackends)
		return fail(E_USAGE, "placement: there is no back end %d", backend);
	int *piece = arena_try(a, (size_t)p->nops, sizeof *piece);
	model.measure = NULL;
	rc = piece ? start_best(&net, &model, a, &b) : E_NOMEM;
	if (rc >= 0)
		rc = find_single(&net, backend, &model, a, piece, &n);
	if (rc == 1)
		rc = place_try(&b, piece, n, &ns);
	if (rc >= 0 && isinf(ns))
		rc = fail(E_NOTFOUND, "placement: no legal placement on back end %d was found", backend);
	if (rc >= 0)
		report(&b, false, out);
	return rc < 0 ? rc : E_OK;
}

int placement_exhaustive(const struct placement_problem *p, const struct placement_search *s, struct arena *a,
			 struct placement *out)
{
	struct place_net net;
	struct place_best b;
	int rc = place_net(p, false, a, &net);
	if (rc >= 0)
		rc = start_best(&net, s, a, &b);
	int all = rc < 0 ? rc : count_all(&net, PLACEMENT_FEW, a);
	if (all < 0)
		return all;
	if (all > PLACEMENT_FEW)
		return fail(E_UNSUPPORTED,
			    "placement: more than %d sets of pieces cover the network; search them",
			    PLACEMENT_FEW);
	b.budget = all + 1;
	rc = try_all(&b, NULL, 0, a);
	if (rc >= 0 && !b.n)
		rc = not_found(!place_over(&b));
	if (rc >= 0)
		report(&b, !place_over(&b), out);
	return rc < 0 ? rc : E_OK;
}

int placement_cost(const struct placement_problem *p, bool overlap, const int *piece, int n, struct arena *a,
		   struct placement *out)
{
	struct place_net net;
	struct place_cost c;
	const char *why;
	int rc = place_net(p, true, a, &net);
	if (rc >= 0)
		rc = place_cost_new(&net, a, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		if (!piece || piece[i] < 0 || piece[i] >= p->npieces)
			return fail(E_USAGE, "placement: there is no piece number %d of a placement", i);
	if (n < 0 || n > p->nops || !place_own(&c, piece, n))
		return fail(E_INFEASIBLE, "placement: an operator is covered by no piece or by two");
	int *order = arena_try(a, (size_t)p->nops, sizeof *order);
	if (!order)
		return E_NOMEM;
	*out = (struct placement){.n = n, .piece = order, .evals = 1};
	out->ns = place_cost(&c, overlap, piece, n, order, &out->alone_ns, &why);
	return isinf(out->ns) ? fail(E_INFEASIBLE, "placement: %s", why) : E_OK;
}

/* ---- what to measure ---- */

/* Time that the incumbent spends in the operators of a piece; each operator has an equal share of its piece.
 */
static double time_in(const struct place_net *net, const struct placement *x, int piece)
{
	double sum = 0;
	for (int i = 0; i < x->n; i++) {
		const struct place_piece *y = &net->piece[x->piece[i]];
		const struct placement_piece *z = &net->p->piece[piece];
		for (int k = 0; k < z->nops; k++)
			if (z->op[k] - y->first < 64 * net->words && place_covers(y, z->op[k]))
				sum += y->ns / y->is->nops;
	}
	return sum;
}

/* Of the unmeasured pieces of a placement, the one that saves most for its price. now: incumbent, may have
 * none. */
static int choose_piece(const struct place_net *net, const struct placement *hope,
			const struct placement *now, const double *price_ns)
{
	int best = -1;
	double most = -INFINITY;
	for (int i = 0; i < hope->n; i++) {
		int piece = hope->piece[i];
		const struct placement_piece *x = &net->p->piece[piece];
		double saved = now->n ? time_in(net, now, piece) - net->piece[piece].ns : x->nops;
		/* A piece without a gain of its own saves moves of others: it comes after those with one. */
		double worth = price_ns && saved > 0 ? saved / price_ns[piece] : saved;
		if (x->unmeasured && worth > most) {
			most = worth;
			best = piece;
		}
	}
	return best;
}

int placement_next(const struct placement_problem *p, const struct placement_search *s,
		   const double *price_ns, struct arena *a, struct placement_ask *out)
{
	struct placement_search model = *s;
	struct place_net net, measured;
	struct placement hope, now = {.ns = INFINITY};
	model.measure = NULL;
	int rc = place_net(p, true, a, &net);
	for (int i = 0; i < p->npieces && price_ns && rc >= 0; i++)
		if (!(price_ns[i] > 0))
			return fail(E_USAGE, "placement: measuring piece %d has no price above 0", i);
	if (rc >= 0)
		rc = solve(&net, &model, a, &hope);
	if (rc < 0)
		return rc;
	rc = place_net(p, false, a, &measured);
	if (rc >= 0)
		rc = solve(&measured, &model, a, &now);
	if (rc < 0 && rc != E_NOTFOUND)
		return rc;
	err_clear(E_OK);
	out->gain_ns = now.ns - hope.ns;
	out->piece = out->gain_ns > ROUNDING * hope.ns ? choose_piece(&net, &hope, &now, price_ns) : -1;
	return out->piece >= 0;
}

int64_t placement_share_ns(int64_t box_ns)
{
	if (box_ns <= 0)
		return 0;
	return box_ns >= 20 * NS_PER_S ? box_ns / 10 : box_ns / 10 * 3;
}
