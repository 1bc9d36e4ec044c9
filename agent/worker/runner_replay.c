/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/replay.h"

#include "kernels/space/features.h"
#include "platform/base/hash.h"
#include "platform/base/mix.h"
#include "platform/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PHASE_EVERY = 8, MOST_HANDLES = 1 << 16 };
#define PHASE_NS (NS_PER_S / 4)
#define PHASE_FACTOR 2.0
/* Least deviation of a feature, so that features that hardly vary among the recorded candidates do not make
 * another one distant. */
#define LEAST_DEVIATION 0.05f

/* A landscape with the data for distances. */
struct field {
	const struct landscape *l;
	struct task *task;
	struct space *space; /* NULL: not made yet */
	float (*f)[FEATURES];
	float scale[FEATURES];
	struct key *structure;
	bool *legal;        /* a file's candidate need not be legal */
	bool *wino, *built; /* built: a candidate of that structure was built before */
};

struct handle {
	int field, point; /* field -1: free slot */
};

struct replay {
	struct runner base;
	struct clock clock;
	struct target target;
	struct replay_noise noise;
	struct rng rng;
	struct arena a;
	struct field *field;
	int nfields;
	struct handle *handle;
	int nhandles, cap;
};

static struct replay *replay_of(struct runner *r)
{
	return (struct replay *)r;
}

static struct key structure_of(const char *cand)
{
	char text[CAND_MAX];
	space_structure(cand, text);
	return mix_text(text);
}

static bool is_winograd(const char *cand)
{
	return strstr(cand, "winograd=") != NULL;
}

static void scale_features(struct field *x)
{
	for (int k = 0; k < FEATURES; k++) {
		double sum = 0, square = 0, n = 0;
		for (int i = 0; i < x->l->n; i++) {
			double f = x->legal[i] ? (double)x->f[i][k] : 0;
			sum += f;
			square += f * f;
			n += x->legal[i];
		}
		double var = n > 0 ? square / n - sum / n * (sum / n) : 0;
		float sd = var > 0 ? (float)sqrt(var) : 0;
		x->scale[k] = 1 / (sd > LEAST_DEVIATION ? sd : LEAST_DEVIATION);
	}
}

static int open_field(struct replay *p, struct field *x)
{
	const struct landscape *l = x->l;
	/* The job has a level. */
	const struct space_want want = {.level = LEVEL_HALF_SUM, .threads = l->threads};
	if (x->space)
		return E_OK;
	x->task = ARENA_NEW(&p->a, struct task);
	int rc = task_parse(l->task, x->task);
	if (rc >= 0)
		rc = space_make(&p->a, x->task, &p->target, &want, &x->space);
	if (rc < 0)
		return fail_in(rc, "landscape of %s", l->label);
	x->f = arena_alloc(&p->a, sizeof *x->f * (size_t)l->n);
	x->structure = ARENA_ARRAY(&p->a, struct key, l->n);
	x->legal = ARENA_ARRAY(&p->a, bool, l->n);
	x->wino = ARENA_ARRAY(&p->a, bool, l->n);
	x->built = ARENA_ARRAY(&p->a, bool, l->n);
	for (int i = 0; i < l->n; i++) {
		x->legal[i] = space_legal(x->space, l->point[i].cand) >= 0;
		if (x->legal[i])
			space_features(x->space, l->point[i].cand, x->f[i]);
		x->structure[i] = structure_of(l->point[i].cand);
		x->wino[i] = is_winograd(l->point[i].cand);
	}
	scale_features(x);
	return E_OK;
}

static int find_field(struct replay *p, const char *task, struct field **out)
{
	for (int i = 0; i < p->nfields; i++)
		if (!strcmp(p->field[i].l->task, task)) {
			*out = &p->field[i];
			return open_field(p, *out);
		}
	return fail(E_NOTFOUND,
		    "no landscape of this task is among the %d that are replayed; record it with hone tune "
		    "MODEL --record DIR (hone tasks MODEL lists a model's)",
		    p->nfields);
}

static float distance(const struct field *x, int i, const float f[FEATURES])
{
	float sum = 0;
	for (int k = 0; k < FEATURES; k++) {
		float d = (x->f[i][k] - f[k]) * x->scale[k];
		sum += d * d;
	}
	return sum;
}

static int nearest(const struct field *x, const char *cand)
{
	int best[2] = {-1, -1}; /* [0]: of another algorithm, [1]: of the same */
	float least[2] = {0, 0}, f[FEATURES];
	bool wino = is_winograd(cand);
	space_features(x->space, cand, f);
	for (int i = 0; i < x->l->n; i++) {
		int same = x->wino[i] == wino;
		if (!x->legal[i])
			continue;
		float d = distance(x, i, f);
		if (best[same] < 0 || d < least[same]) {
			best[same] = i;
			least[same] = d;
		}
	}
	return best[1] >= 0 ? best[1] : best[0];
}

static int find_point(const struct field *x, const char *cand)
{
	int rc = space_legal(x->space, cand);
	if (rc < 0)
		return rc;
	int i = landscape_find(x->l, cand);
	if (i < 0)
		i = nearest(x, cand);
	return i < 0 ? fail(E_NOTFOUND, "no candidate of %s is recorded", x->l->label) : i;
}

int replay_point(struct runner *replay, int i, const char *cand)
{
	struct replay *p = replay_of(replay);
	int rc = open_field(p, &p->field[i]);
	return rc < 0 ? rc : find_point(&p->field[i], cand);
}

/* Cost by structure: the slowest recorded build the first time, later the fastest. */
static int64_t build_cost(struct field *x, int point)
{
	int64_t least = INT64_MAX, most = 0;
	bool again = x->built[point];
	for (int i = 0; i < x->l->n; i++) {
		int64_t ns = x->l->point[i].build_ns;
		if (!key_equal(x->structure[i], x->structure[point]))
			continue;
		x->built[i] = true;
		least = ns < least ? ns : least;
		most = ns > most ? ns : most;
	}
	return again ? least : most;
}

static int spend(struct replay *p, int64_t ns, int64_t deadline_ns)
{
	int64_t left = deadline_ns - p->clock.virtual_ns;
	clock_advance(&p->clock, ns < left ? ns : left < 0 ? 0 : left);
	return ns >= left ? fail(E_TIMEOUT, "the deadline passed") : E_OK;
}

static int new_handle(struct replay *p)
{
	for (int i = 0; i < p->nhandles; i++)
		if (p->handle[i].field < 0)
			return i;
	if (p->nhandles == p->cap) {
		int cap = p->cap ? 2 * p->cap : 32;
		struct handle *h = cap <= MOST_HANDLES ? realloc(p->handle, sizeof *h * (size_t)cap) : NULL;
		if (!h)
			return fail(E_NOMEM, "no memory for more than %d candidates", p->cap);
		p->handle = h;
		p->cap = cap;
	}
	return p->nhandles++;
}

static int replay_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			int *handle, struct meas *m)
{
	struct replay *p = replay_of(r);
	struct field *x = NULL;
	*handle = -1;
	*m = (struct meas){.status = MEAS_INFEASIBLE, .threads = r->threads};
	int rc = find_field(p, task, &x);
	if (rc < 0)
		return rc;
	int point = find_point(x, cand);
	if (point == E_NOTFOUND)
		return point;
	if (point < 0)
		return spend(p, 0, deadline_ns);
	const struct landscape_point *at = &x->l->point[point];
	m->build_ns = build_cost(x, point);
	m->status = at->status == MEAS_ABORTED ? MEAS_OK : at->status;
	rc = spend(p, m->build_ns, deadline_ns);
	if (rc < 0 || m->status != MEAS_OK)
		return rc;
	rc = new_handle(p);
	if (rc < 0)
		return rc;
	p->handle[rc] = (struct handle){(int)(x - p->field), point};
	*handle = rc;
	return E_OK;
}

static enum ahead replay_ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task, (void)cand;
	return AHEAD_NOT;
}

static bool slow_phase(const struct replay *p)
{
	int64_t phase[2] = {(int64_t)p->noise.seed, p->clock.virtual_ns / PHASE_NS};
	return p->noise.sigma > 0 && mix_bytes(phase, sizeof phase, 1).lo % PHASE_EVERY == 0;
}

/* Runs once on the virtual clock. */
static int run(struct replay *p, int handle, int64_t deadline_ns, int64_t *ns)
{
	const struct handle *h = &p->handle[handle];
	double t = (double)landscape_ns(p->field[h->field].l, h->point);
	if (p->noise.sigma > 0)
		t *= exp(p->noise.sigma * rng_normal(&p->rng)) * (slow_phase(p) ? PHASE_FACTOR : 1);
	*ns = t >= 1 ? (int64_t)t : 1;
	return spend(p, *ns, deadline_ns);
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void summarize(int64_t *ns, int n, struct meas *m)
{
	qsort(ns, (size_t)n, sizeof *ns, ascending);
	m->runs = n;
	m->min_ns = ns[0];
	m->median_ns = ns[n / 2];
	for (int i = 0; i < n; i++)
		ns[i] = llabs(ns[i] - m->median_ns);
	qsort(ns, (size_t)n, sizeof *ns, ascending);
	m->spread_ns = ns[n / 2];
}

/* ns: [handle][round] */
static int run_rounds(struct replay *p, const int *handles, int n, int rounds, int64_t abort_ns,
		      int64_t deadline_ns, int64_t *ns, struct meas *m)
{
	int64_t first;
	for (int i = 0; i < n; i++) {
		m[i] = (struct meas){.status = MEAS_OK, .threads = p->base.threads};
		int rc = run(p, handles[i], deadline_ns, &first);
		if (rc < 0)
			return rc;
		m[i].min_ns = m[i].median_ns = first;
		m[i].runs = 1;
		if (abort_ns > 0 && first > abort_ns)
			m[i].status = MEAS_ABORTED;
	}
	for (int k = 0; k < rounds; k++)
		for (int i = 0; i < n; i++) {
			int rc = m[i].status == MEAS_OK ? run(p, handles[i], deadline_ns,
							      &ns[(size_t)i * (size_t)rounds + (size_t)k])
							: E_OK;
			if (rc < 0)
				return rc;
		}
	for (int i = 0; i < n && rounds; i++)
		if (m[i].status == MEAS_OK)
			summarize(ns + (size_t)i * (size_t)rounds, rounds, &m[i]);
	return E_OK;
}

static int replay_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
		       unsigned how, int64_t deadline_ns, struct meas *m)
{
	struct replay *p = replay_of(r);
	struct arena a = {0};
	(void)how;
	if (n < 0 || rounds < 0)
		return fail(E_USAGE, "%d kernels in %d rounds cannot be timed", n, rounds);
	for (int i = 0; i < n; i++)
		if (handles[i] < 0 || handles[i] >= p->nhandles || p->handle[handles[i]].field < 0)
			return fail(E_USAGE, "handle %d is not a built candidate", handles[i]);
	int64_t *ns = arena_try(&a, (size_t)n * (size_t)rounds + 1, sizeof *ns);
	int rc = ns ? run_rounds(p, handles, n, rounds, abort_ns, deadline_ns, ns, m) : E_NOMEM;
	arena_free(&a);
	return rc;
}

static int replay_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	(void)r, (void)handle, (void)deadline_ns;
	*out = (struct blob){.p = arena_alloc(a, 1), .n = 0};
	return E_OK;
}

static void replay_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct replay *p = replay_of(r);
	(void)deadline_ns;
	for (int i = 0; i < p->nhandles; i++)
		if (handle < 0 || i == handle)
			p->handle[i].field = -1;
}

static void replay_close(struct runner *r)
{
	struct replay *p = replay_of(r);
	arena_free(&p->a);
	free(p->handle);
	free(p);
}

static const struct runner_ops ops = {
    .build = replay_build,
    .ahead = replay_ahead,
    .progress = replay_ahead,
    .time = replay_time,
    .code = replay_code,
    .drop = replay_drop,
    .close = replay_close,
};

static int check_fields(const struct landscape *l, int n)
{
	for (int i = 0; i < n; i++) {
		if (!key_equal(target_key(&l[i].target), target_key(&l[0].target)) ||
		    l[i].threads != l[0].threads)
			return fail(E_USAGE,
				    "the landscapes of %s and %s are of different machines or numbers of "
				    "threads; keep them in different folders",
				    l[0].label, l[i].label);
		if (l[i].n == 0)
			return fail(E_USAGE, "the landscape of %s is empty; remove it", l[i].label);
	}
	return E_OK;
}

static int open_replay(const struct target *t, int threads, int n, struct replay_noise noise,
		       struct replay **out)
{
	struct replay *p = *out = calloc(1, sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for a runner");
	p->noise = noise;
	rng_seed(&p->rng, noise.seed);
	p->clock = clock_virtual(0);
	p->target = *t;
	p->nfields = n;
	p->field = ARENA_ARRAY(&p->a, struct field, n);
	p->base = (struct runner){
	    .ops = &ops, .emitter = "replay", .clock = &p->clock, .target = &p->target, .threads = threads};
	return E_OK;
}

int runner_replay(const struct landscape *l, int n, struct replay_noise noise, struct runner **out)
{
	struct replay *p;
	int rc = check_fields(l, n);
	if (rc >= 0)
		rc = open_replay(&l[0].target, l[0].threads, n, noise, &p);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		p->field[i].l = &l[i];
	*out = &p->base;
	return E_OK;
}

int replay_another(struct runner *of, struct replay_noise noise, struct runner **out)
{
	struct replay *p, *from = replay_of(of);
	int rc = E_OK;
	for (int i = 0; i < from->nfields && rc >= 0; i++)
		rc = open_field(from, &from->field[i]);
	if (rc >= 0)
		rc = open_replay(&from->target, of->threads, from->nfields, noise, &p);
	if (rc < 0)
		return rc;
	for (int i = 0; i < from->nfields; i++) {
		p->field[i] = from->field[i];
		p->field[i].built = ARENA_ARRAY(&p->a, bool, from->field[i].l->n);
	}
	*out = &p->base;
	return E_OK;
}
