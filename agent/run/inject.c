/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/inject.h"

#include "agent/run/hone.h"
#include "platform/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OVERLAP 0.5f

struct inject {
	struct inject_page *page; /* shared with other processes */
	struct inject_net *net;
	/* Copied once, so that no other process changes them during a run. */
	enum inject_kind kind;
	double error, root_mean_square;
	uint64_t seed;
	char name[INJECT_NAME]; /* of the output; "": the only one */
	int output;
};

const char *inject_kind_name(enum inject_kind k)
{
	static const char *const names[INJECT_KINDS] = {"regression", "classification", "segmentation",
							"detection"};
	return names[k];
}

static int map_page(const char *path, struct inject_page **out)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return fail(E_IO, "cannot open %s, which $" INJECT_VARIABLE " names: %s", path,
			    strerror(errno));
	bool fits =
	    fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)sizeof(struct inject_page);
	void *p = fits ? mmap(NULL, sizeof(struct inject_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
		       : MAP_FAILED;
	close(fd);
	if (p == MAP_FAILED)
		return fail(E_CORRUPT,
			    "%s, which $" INJECT_VARIABLE " names, is not of this version's hone calibrate",
			    path);
	*out = p;
	return E_OK;
}

static bool is_share(double x)
{
	return x >= 0 && x <= 1;
}

static bool is_sound(const struct inject *x)
{
	bool large = x->kind == INJECT_REGRESSION ? x->error >= 0 && x->error <= 1e6 : is_share(x->error);
	return x->kind < INJECT_KINDS && large && isfinite(x->root_mean_square) && x->root_mean_square >= 0;
}

/* ---- which output ---- */

static const char *shape_wanted(enum inject_kind k)
{
	return k == INJECT_SEGMENTATION ? "classes x rows x columns, with a batch in front or not"
	       : k == INJECT_DETECTION  ? "candidates x (4 + scores), or the other way round, each above 4"
					: "at least one dimension with two elements or more";
}

static bool has_shape(enum inject_kind k, const struct shape *s)
{
	int r = s->rank;
	if (shape_count(s) < 1)
		return false;
	switch (k) {
	case INJECT_CLASSIFICATION:
		return r >= 1 && s->d[r - 1] >= 2;
	case INJECT_SEGMENTATION:
		return (r == 3 || r == 4) && s->d[r - 3] >= 2;
	case INJECT_DETECTION:
		return r >= 2 && s->d[r - 1] > 4 && s->d[r - 2] > 4;
	default:
		return true;
	}
}

static int find_output(struct inject *x, const struct tensor *output, const struct hone_tensor *info, int n)
{
	int at = n == 1 && !x->name[0] ? 0 : -1;
	for (int i = 0; i < n && x->name[0]; i++)
		at = strcmp(info[i].name, x->name) ? at : i;
	if (at < 0 && x->name[0])
		return fail(E_USAGE,
			    "the model has no output '%s'; `output =` of its network names one of its %d",
			    x->name, n);
	if (at < 0)
		return fail(E_USAGE,
			    "the model has %d outputs: say with `output = NAME` in its network's section "
			    "which one gets the error",
			    n);
	if (output[at].dtype != DT_F32)
		return fail(E_USAGE, "output '%s' is %s; errors can be put into f32 alone", info[at].name,
			    dtype_name(output[at].dtype));
	if (!has_shape(x->kind, &output[at].shape))
		return fail(E_USAGE, "output '%s' has not the shape of a %s: %s", info[at].name,
			    inject_kind_name(x->kind), shape_wanted(x->kind));
	x->output = at;
	return E_OK;
}

/* ---- the page ---- */

static struct inject_net *net_of(struct inject_page *p, struct key model)
{
	for (int i = 0; i < p->nnets && i < INJECT_NETS; i++)
		if (key_equal(p->net[i].file, model))
			return &p->net[i];
	return NULL;
}

static int check_page(const char *path, const struct inject_page *p)
{
	bool good = !memcmp(p->magic, INJECT_MAGIC, sizeof INJECT_MAGIC) && p->bytes == sizeof *p &&
		    p->nnets >= 0 && p->nnets <= INJECT_NETS;
	return good ? E_OK : fail(E_CORRUPT, "%s is no page of hone calibrate", path);
}

/* Copies what a run needs to know of a network, so that no other process changes it later. */
static int take_net(const char *path, struct inject_page *p, struct inject_net *net, struct inject *x)
{
	*x = (struct inject){.page = p,
			     .net = net,
			     .kind = (enum inject_kind)net->kind,
			     .error = net->error,
			     .root_mean_square = net->root_mean_square,
			     .seed = p->seed + (uint64_t)(net - p->net)};
	memcpy(x->name, net->output, sizeof x->name - 1);
	return is_sound(x) ? E_OK : fail(E_CORRUPT, "%s: the error of a network is out of range", path);
}

static void close_inject(struct inject *x)
{
	munmap(x->page, sizeof *x->page);
	free(x);
}

static int open_inject(const char *path, struct key model, const struct tensor *outputs,
		       const struct hone_tensor *info, int n, struct inject **out)
{
	struct inject_page *page = NULL;
	*out = NULL;
	int rc = map_page(path, &page);
	if (rc < 0)
		return rc;
	rc = check_page(path, page);
	struct inject_net *net = rc < 0 ? NULL : net_of(page, model);
	struct inject *x = net ? calloc(1, sizeof *x) : NULL;
	if (net)
		rc = x ? take_net(path, page, net, x) : fail(E_NOMEM, "no memory to put errors into a model");
	if (rc >= 0 && x)
		rc = find_output(x, outputs, info, n);
	if (rc >= 0 && x) {
		*out = x;
		return E_OK;
	}
	munmap(page, sizeof *page);
	free(x);
	return rc;
}

/* ---- draws ---- */

/* A block of INJECT_BLOCK units: a rank for each, the same for all who ask. Of each ROUND units, one has a
 * rank of each eighth, so that few units are a fair sample, too. */
enum { ROUND = 8, ROUNDS = INJECT_BLOCK / ROUND };
struct block {
	uint64_t number; /* UINT64_MAX: none yet */
	uint8_t rank[INJECT_BLOCK];
};

static void shuffle(struct rng *g, uint8_t *p, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int k = (int)rng_below(g, (uint32_t)i + 1);
		uint8_t t = p[i];
		p[i] = p[k];
		p[k] = t;
	}
}

static void take_block(const struct inject *x, uint64_t number, struct block *b)
{
	struct rng g;
	if (b->number == number)
		return;
	b->number = number;
	rng_seed(&g, x->seed ^ number * UINT64_C(0x9e3779b97f4a7c15));
	for (int part = 0; part < ROUND; part++) {
		uint8_t of_round[ROUNDS];
		for (int i = 0; i < ROUNDS; i++)
			of_round[i] = (uint8_t)(part * ROUNDS + i);
		shuffle(&g, of_round, ROUNDS);
		for (int i = 0; i < ROUNDS; i++)
			b->rank[i * ROUND + part] = of_round[i];
	}
	for (int i = 0; i < ROUNDS; i++)
		shuffle(&g, b->rank + i * ROUND, ROUND);
}

/* Whether unit `at` is among the share that is hit: of the first k blocks, the share of all their units. */
static bool is_hit(const struct inject *x, uint64_t at, struct block *b)
{
	uint64_t k = at / INJECT_BLOCK;
	take_block(x, k, b);
	double before = floor((double)k * INJECT_BLOCK * x->error + 0.5),
	       after = floor((double)(k + 1) * INJECT_BLOCK * x->error + 0.5);
	return b->rank[at % INJECT_BLOCK] < after - before;
}

/* The quantiles of the normal distribution at the middles of INJECT_BLOCK equal shares, the smallest
 * magnitudes first, scaled so that their root mean square is 1. */
static void normal_quantiles(double q[INJECT_BLOCK])
{
	double sum = 0;
	for (int i = 0; i < INJECT_BLOCK / 2; i++) {
		double p = 0.5 + (i + 0.5) / INJECT_BLOCK, low = 0, high = 8;
		for (int k = 0; k < 60; k++) {
			double mid = (low + high) / 2;
			*(0.5 * erfc(-mid / sqrt(2)) < p ? &low : &high) = mid;
		}
		q[2 * i] = low;
		q[2 * i + 1] = -low;
		sum += 2 * low * low;
	}
	for (int i = 0; i < INJECT_BLOCK; i++)
		q[i] /= sqrt(sum / INJECT_BLOCK);
}

static void add_double(atomic_ullong *bits, double more)
{
	unsigned long long old = atomic_load(bits), new;
	do {
		double d;
		memcpy(&d, &old, sizeof d);
		d += more;
		memcpy(&new, &d, sizeof new);
	} while (!atomic_compare_exchange_weak(bits, &old, new));
}

/* ---- the kinds ---- */

static void add_noise(struct inject *x, float *y, int64_t n)
{
	double q[INJECT_BLOCK], squares = 0, noise = 0, scale = x->error * x->root_mean_square;
	struct block b = {.number = UINT64_MAX};
	uint64_t at = atomic_fetch_add(&x->net->units, (unsigned long long)n);
	normal_quantiles(q);
	for (int64_t i = 0; i < n; i++) {
		uint64_t k = at + (uint64_t)i;
		squares += (double)y[i] * y[i];
		if (scale <= 0)
			continue;
		take_block(x, k / INJECT_BLOCK, &b);
		double z = q[b.rank[k % INJECT_BLOCK]];
		noise += z * z;
		y[i] += (float)(scale * z);
	}
	add_double(&x->net->bits, squares);
	atomic_fetch_add(&x->net->noise, (unsigned long long)(1e6 * noise + 0.5));
}

/* The indices of the largest and the second largest of n elements, `step` apart. */
static void two_largest(const float *y, int64_t n, int64_t step, int64_t *first, int64_t *second)
{
	*first = 0;
	*second = -1;
	for (int64_t i = 1; i < n; i++) {
		if (y[i * step] > y[*first * step]) {
			*second = *first;
			*first = i;
		} else if (*second < 0 || y[i * step] > y[*second * step]) {
			*second = i;
		}
	}
}

/* Swaps the two largest elements, which then differ: the former largest is no longer the first of equals. */
static void swap_largest(float *y, int64_t n, int64_t step)
{
	int64_t i, k;
	two_largest(y, n, step, &i, &k);
	float t = y[i * step];
	y[i * step] = y[k * step];
	y[k * step] = t;
	if (!(t > y[i * step]))
		y[i * step] = nextafterf(t, -INFINITY);
}

static void swap_rows(struct inject *x, float *y, const struct shape *s)
{
	struct block b = {.number = UINT64_MAX};
	int64_t n = s->d[s->rank - 1], rows = shape_count(s) / n;
	uint64_t at = atomic_fetch_add(&x->net->units, (unsigned long long)rows), hit = 0;
	for (int64_t r = 0; r < rows; r++)
		if (x->error > 0 && is_hit(x, at + (uint64_t)r, &b)) {
			swap_largest(y + r * n, n, 1);
			hit++;
		}
	atomic_fetch_add(&x->net->hit, hit);
}

struct margin {
	float by;
	int64_t pixel;
};

static int by_margin(const void *a, const void *b)
{
	const struct margin *x = a, *y = b;
	return x->by != y->by ? (x->by > y->by) - (x->by < y->by)
			      : (x->pixel > y->pixel) - (x->pixel < y->pixel);
}

static int swap_pixels(struct inject *x, float *y, const struct shape *s)
{
	int64_t classes = s->d[s->rank - 3], pixels = s->d[s->rank - 2] * s->d[s->rank - 1],
		images = s->rank == 4 ? s->d[0] : 1;
	struct margin *m = malloc(sizeof *m * (size_t)pixels);
	if (!m)
		return fail(E_NOMEM, "no memory to put errors into a segmentation");
	for (int64_t i = 0; i < images; i++) {
		float *image = y + i * classes * pixels;
		uint64_t at = atomic_fetch_add(&x->net->units, (unsigned long long)pixels);
		/* Whole shares of all pixels so far, so that rounding does not add up. */
		int64_t hit = (int64_t)(floor((double)(at + (uint64_t)pixels) * x->error + 0.5) -
					floor((double)at * x->error + 0.5));
		for (int64_t p = 0; p < pixels && hit; p++) {
			int64_t first, second;
			two_largest(image + p, classes, pixels, &first, &second);
			float by = image[first * pixels + p] - image[second * pixels + p];
			m[p] = (struct margin){isnan(by) ? INFINITY : by, p};
		}
		if (hit)
			qsort(m, (size_t)pixels, sizeof *m, by_margin);
		for (int64_t k = 0; k < hit && k < pixels; k++)
			swap_largest(image + m[k].pixel, classes, pixels);
		atomic_fetch_add(&x->net->hit, (unsigned long long)hit);
	}
	free(m);
	return E_OK;
}

/* The candidates of one image. */
struct candidates {
	float *y;
	int64_t n, scores;
	int64_t step, part; /* elements between two candidates, and between two numbers of one */
	float least;        /* of all scores */
	float *best;        /* score of each; below all others once its object is done with */
};

static float number(const struct candidates *c, int64_t i, int64_t k)
{
	return c->y[i * c->step + k * c->part];
}

/* Intersection over union of the boxes of two candidates. */
static float overlap(const struct candidates *c, int64_t i, int64_t k)
{
	float both = 1, a = 1, b = 1;
	for (int d = 0; d < 2; d++) {
		float ci = number(c, i, d), si = number(c, i, d + 2), ck = number(c, k, d),
		      sk = number(c, k, d + 2);
		float low = fmaxf(ci - si / 2, ck - sk / 2), high = fminf(ci + si / 2, ck + sk / 2);
		both *= high > low ? high - low : 0;
		a *= si;
		b *= sk;
	}
	return a + b - both > 0 ? both / (a + b - both) : 0;
}

static void score_all(struct candidates *c)
{
	c->least = INFINITY;
	for (int64_t i = 0; i < c->n; i++) {
		c->best[i] = -INFINITY;
		for (int64_t k = 4; k < 4 + c->scores; k++) {
			float s = number(c, i, k);
			c->best[i] = s > c->best[i] ? s : c->best[i];
			c->least = s < c->least ? s : c->least;
		}
	}
}

/* The best candidate that is left; -1: none is an object. */
static int64_t next_object(const struct candidates *c)
{
	int64_t at = -1;
	for (int64_t i = 0; i < c->n; i++)
		if (c->best[i] >= INJECT_SCORE && (at < 0 || c->best[i] > c->best[at]))
			at = i;
	return at;
}

static void end_object(struct candidates *c, int64_t object, bool lost)
{
	for (int64_t i = 0; i < c->n; i++) {
		bool ended = c->best[i] == -INFINITY || (c->best[i] < INJECT_SCORE && !lost);
		if (i != object && (ended || overlap(c, object, i) <= OVERLAP))
			continue;
		c->best[i] = -INFINITY;
		for (int64_t k = 4; k < 4 + c->scores && lost; k++)
			c->y[i * c->step + k * c->part] = c->least < INJECT_SCORE ? c->least : 0;
	}
}

static int lose_objects(struct inject *x, float *y, const struct shape *s)
{
	int64_t rows = s->d[s->rank - 2], columns = s->d[s->rank - 1],
		images = shape_count(s) / (rows * columns);
	bool by_row = rows >= columns;
	struct candidates c = {.n = by_row ? rows : columns,
			       .scores = (by_row ? columns : rows) - 4,
			       .step = by_row ? columns : 1,
			       .part = by_row ? 1 : columns};
	struct block b = {.number = UINT64_MAX};
	c.best = malloc(sizeof *c.best * (size_t)c.n);
	if (!c.best)
		return fail(E_NOMEM, "no memory to put errors into a detection");
	for (int64_t i = 0; i < images; i++) {
		c.y = y + i * rows * columns;
		score_all(&c);
		for (int64_t object; (object = next_object(&c)) >= 0;) {
			uint64_t at = atomic_fetch_add(&x->net->units, 1);
			bool lost = x->error > 0 && is_hit(x, at, &b);
			end_object(&c, object, lost);
			atomic_fetch_add(&x->net->hit, lost);
		}
	}
	free(c.best);
	return E_OK;
}

static int run_inject(struct inject *x, const struct tensor *outputs)
{
	int rc = E_OK;
	const struct tensor *output = &outputs[x->output];
	const struct shape *s = &output->shape;
	switch (x->kind) {
	case INJECT_CLASSIFICATION:
		swap_rows(x, output->data, s);
		break;
	case INJECT_SEGMENTATION:
		rc = swap_pixels(x, output->data, s);
		break;
	case INJECT_DETECTION:
		rc = lose_objects(x, output->data, s);
		break;
	default:
		add_noise(x, output->data, shape_count(s));
	}
	atomic_fetch_add(&x->net->runs, 1);
	return rc;
}

const struct injector hone_injector = {.open = open_inject, .run = run_inject, .close = close_inject};

double inject_reached(const struct inject_net *n)
{
	double units = (double)atomic_load(&n->units);
	if (units <= 0)
		return NAN;
	return n->kind == INJECT_REGRESSION ? n->error * sqrt(1e-6 * (double)atomic_load(&n->noise) / units)
					    : (double)atomic_load(&n->hit) / units;
}
