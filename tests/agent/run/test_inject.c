/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that are put into outputs on purpose: they hit their targets on generated outputs, and a page of
 * hostile bytes does no harm. */
#include "agent/run/hone.h"
#include "agent/run/inject.h"
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>
#include <unistd.h>

static char page_path[64];
static const struct key model = {1, 2};

static struct inject_page fresh_page(enum inject_kind kind, double error)
{
	struct inject_page p = {.magic = INJECT_MAGIC, .bytes = sizeof p, .nnets = 1, .seed = 3};
	p.net[0].file = model;
	p.net[0].kind = (int32_t)kind;
	p.net[0].error = error;
	return p;
}

static void write_page(const struct inject_page *p)
{
	snprintf(page_path, sizeof page_path, "/tmp/hone-inject-%d", (int)getpid());
	CHECK_OK(file_write(page_path, p, sizeof *p));
}

static int open_on(const struct tensor *t, int n, struct inject **out)
{
	static const struct hone_tensor info[] = {{.name = "y"}, {.name = "z"}};
	return hone_injector.open(page_path, model, t, info, n, out);
}

static struct inject_net counts(void)
{
	struct arena a = {0};
	struct blob b;
	struct inject_net net = {.kind = -1};
	CHECK_OK(file_read(&a, page_path, 0, &b));
	if (b.n == sizeof(struct inject_page))
		net = ((const struct inject_page *)b.p)->net[0];
	arena_free(&a);
	return net;
}

static struct shape shape_of(int rank, const int64_t *d)
{
	struct shape s = {.rank = rank};
	for (int i = 0; i < rank; i++)
		s.d[i] = d[i];
	return s;
}

static void fill(struct rng *g, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = (float)(3 * rng_normal(g));
}

enum { MOST = 20000 };
static float clean[MOST], noisy[MOST];

/* Runs an output of a shape `runs` times with other values; changed(): counts what changed in a run. */
static void run_all(enum inject_kind kind, double error, double norm, const struct shape *s, int runs,
		    struct rng *g, double (*changed)(const struct shape *s), double *sum)
{
	struct inject_page p = fresh_page(kind, error);
	struct inject *x;
	struct tensor t = {.dtype = DT_F32, .shape = *s, .data = noisy};
	p.net[0].root_mean_square = norm;
	write_page(&p);
	*sum = 0;
	REQUIRE_OK(open_on(&t, 1, &x));
	for (int r = 0; r < runs; r++) {
		fill(g, clean, shape_count(s));
		memcpy(noisy, clean, sizeof *noisy * (size_t)shape_count(s));
		CHECK_OK(hone_injector.run(x, &t));
		*sum += changed(s);
	}
	hone_injector.close(x);
	struct inject_net net = counts();
	CHECK(atomic_load(&net.runs) == (unsigned long long)runs);
}

static double squares(const struct shape *s)
{
	double sum = 0;
	for (int64_t i = 0; i < shape_count(s); i++)
		sum += (noisy[i] - clean[i]) * (double)(noisy[i] - clean[i]);
	return sum;
}

TEST(regression_hits_its_share)
{
	struct rng g;
	rng_seed(&g, 1);
	for (int k = 0; k < 200; k++) {
		const int64_t d[] = {1 + rng_below(&g, 3), 1 + rng_below(&g, 40)};
		struct shape s = shape_of(2, d);
		double error = pow(10, -3 + 3 * rng_unit(&g)), norm = 0.1 + 10 * rng_unit(&g), sum;
		int runs = (int)(640 / shape_count(&s)) + 1;
		run_all(INJECT_REGRESSION, error, norm, &s, runs, &g, squares, &sum);
		struct inject_net net = counts();
		double got = sqrt(sum / (double)(runs * shape_count(&s))) / norm;
		if (fabs(got - error) > 0.06 * error || fabs(inject_reached(&net) - got) > 0.01 * error) {
			printf("error %g, got %g, counted %g\n", error, got, inject_reached(&net));
			CHECK(!"the error of a regression is hit");
		}
	}
}

static int64_t largest(const float *y, int64_t n, int64_t step)
{
	int64_t at = 0;
	for (int64_t i = 1; i < n; i++)
		at = y[i * step] > y[at * step] ? i : at;
	return at;
}

static double rows_changed(const struct shape *s)
{
	int64_t n = s->d[s->rank - 1], rows = shape_count(s) / n;
	double sum = 0;
	for (int64_t r = 0; r < rows; r++)
		sum += largest(clean + r * n, n, 1) != largest(noisy + r * n, n, 1);
	return sum;
}

/* Few answers are a fair sample, too. */
TEST(forty_answers)
{
	struct rng g;
	const int64_t d[] = {1, 1}, classes[] = {1, 10};
	struct shape one = shape_of(2, d), ten = shape_of(2, classes);
	rng_seed(&g, 8);
	for (int k = 0; k < 100; k++) {
		double error = rng_unit(&g), sum;
		run_all(INJECT_REGRESSION, error, 1, &one, 40, &g, squares, &sum);
		CHECK(fabs(sqrt(sum / 40) / error - 1) < 0.1);
		run_all(INJECT_CLASSIFICATION, error, 0, &ten, 40, &g, rows_changed, &sum);
		CHECK(fabs(sum - 40 * error) <= 4);
	}
}

TEST(classification_hits_its_share)
{
	struct rng g;
	rng_seed(&g, 2);
	for (int k = 0; k < 200; k++) {
		const int64_t d[] = {1 + rng_below(&g, 4), 2 + rng_below(&g, 50)};
		bool rows_of = rng_below(&g, 2);
		struct shape s = shape_of(rows_of ? 2 : 1, rows_of ? d : d + 1);
		double error = rng_unit(&g), sum;
		int64_t rows = shape_count(&s) / s.d[s.rank - 1];
		int runs = (int)(640 / rows) + 1;
		run_all(INJECT_CLASSIFICATION, error, 0, &s, runs, &g, rows_changed, &sum);
		struct inject_net net = counts();
		CHECK(fabs(sum - error * runs * (double)rows) <= 20);
		CHECK(fabs(inject_reached(&net) - sum / (runs * (double)rows)) < 1e-9);
	}
}

static double pixels_changed(const struct shape *s)
{
	int64_t classes = s->d[s->rank - 3], pixels = s->d[s->rank - 2] * s->d[s->rank - 1], sum = 0;
	for (int64_t at = 0; at < shape_count(s); at += classes * pixels)
		for (int64_t p = 0; p < pixels; p++)
			sum += largest(clean + at + p, classes, pixels) !=
			       largest(noisy + at + p, classes, pixels);
	return (double)sum;
}

TEST(segmentation_hits_its_share)
{
	struct rng g;
	rng_seed(&g, 3);
	for (int k = 0; k < 100; k++) {
		const int64_t d[] = {1 + rng_below(&g, 2), 2 + rng_below(&g, 5), 1 + rng_below(&g, 20),
				     1 + rng_below(&g, 20)};
		bool batch = rng_below(&g, 2);
		struct shape s = shape_of(batch ? 4 : 3, batch ? d : d + 1);
		double error = rng_unit(&g), sum;
		int64_t pixels = shape_count(&s) / s.d[s.rank - 3];
		run_all(INJECT_SEGMENTATION, error, 0, &s, 5, &g, pixels_changed, &sum);
		CHECK(fabs(sum - error * 5 * (double)pixels) <= 1);
	}
}

/* Objects far apart, with three candidates each, in one of the two orders of numbers. */
enum { OBJECTS = 10, CANDIDATES = 40, NUMBERS = 7 };

static void place_objects(struct rng *g, bool by_row)
{
	for (int c = 0; c < CANDIDATES; c++) {
		int object = c / 3;
		float v[NUMBERS] = {100.0f * (float)object + (float)rng_unit(g), 50, 20, 20, 0, 0, 0};
		if (object < OBJECTS)
			v[4 + rng_below(g, 3)] = (float)(0.3 + 0.6 * rng_unit(g));
		for (int n = 0; n < NUMBERS; n++)
			clean[by_row ? c * NUMBERS + n : n * CANDIDATES + c] = v[n];
	}
	memcpy(noisy, clean, sizeof *noisy * CANDIDATES * NUMBERS);
}

/* Objects of which no candidate has a score any more; -1: some, but not all candidates of an object lost
 * theirs. */
static int lost_objects(bool by_row)
{
	int lost = 0;
	for (int o = 0; o < OBJECTS; o++) {
		int left = 0;
		for (int c = 3 * o; c < 3 * o + 3; c++)
			for (int n = 4; n < NUMBERS; n++)
				left += noisy[by_row ? c * NUMBERS + n : n * CANDIDATES + c] >= INJECT_SCORE;
		if (left != 0 && left != 3)
			return -1;
		lost += left == 0;
	}
	return lost;
}

TEST(detection_loses_its_share_of_objects)
{
	struct rng g;
	rng_seed(&g, 4);
	for (int k = 0; k < 40; k++) {
		bool by_row = k % 2;
		const int64_t d[] = {1, by_row ? CANDIDATES : NUMBERS, by_row ? NUMBERS : CANDIDATES};
		struct inject_page p = fresh_page(INJECT_DETECTION, rng_unit(&g));
		struct tensor t = {.dtype = DT_F32, .shape = shape_of(3, d), .data = noisy};
		struct inject *x;
		int lost = 0;
		write_page(&p);
		REQUIRE_OK(open_on(&t, 1, &x));
		for (int r = 0; r < 32; r++) {
			place_objects(&g, by_row);
			CHECK_OK(hone_injector.run(x, &t));
			int n = lost_objects(by_row);
			CHECK(n >= 0);
			lost += n;
		}
		hone_injector.close(x);
		struct inject_net net = counts();
		CHECK(fabs(lost - p.net[0].error * 32 * OBJECTS) <= 2);
		CHECK(fabs(inject_reached(&net) - lost / (32.0 * OBJECTS)) < 1e-9);
	}
}

TEST(no_error_changes_nothing)
{
	struct rng g;
	rng_seed(&g, 5);
	for (int kind = 0; kind < INJECT_KINDS; kind++) {
		const int64_t d[] = {2, 6, 8};
		struct inject_page p = fresh_page((enum inject_kind)kind, 0);
		struct tensor t = {.dtype = DT_F32, .shape = shape_of(3, d), .data = noisy};
		struct inject *x;
		write_page(&p);
		REQUIRE_OK(open_on(&t, 1, &x));
		fill(&g, clean, 96);
		memcpy(noisy, clean, sizeof *noisy * 96);
		CHECK_OK(hone_injector.run(x, &t));
		CHECK(!memcmp(noisy, clean, sizeof *noisy * 96));
		hone_injector.close(x);
	}
}

TEST(an_output_that_does_not_fit)
{
	struct inject *x;
	const int64_t d[] = {1, 4};
	struct tensor t[] = {{.dtype = DT_I64, .shape = shape_of(2, d)},
			     {.dtype = DT_F32, .shape = shape_of(2, d)}};
	struct inject_page p = fresh_page(INJECT_REGRESSION, 0.1);
	write_page(&p);
	CHECK_FAILS(open_on(t, 2, &x), E_USAGE, "2 outputs");
	CHECK_FAILS(open_on(t, 1, &x), E_USAGE, "f32 alone");
	strcpy(p.net[0].output, "q");
	write_page(&p);
	CHECK_FAILS(open_on(t, 2, &x), E_USAGE, "no output 'q'");
	p = fresh_page(INJECT_DETECTION, 0.1);
	strcpy(p.net[0].output, "z");
	write_page(&p);
	CHECK_FAILS(open_on(t, 2, &x), E_USAGE, "has not the shape of a detection");
	p.net[0].file.lo++;
	write_page(&p);
	CHECK_OK(open_on(t, 2, &x));
	CHECK(!x); /* the page does not know the model */
}

TEST(hostile_pages)
{
	struct rng g;
	const int64_t d[] = {2, 5, 6};
	struct tensor t = {.dtype = DT_F32, .shape = shape_of(3, d), .data = noisy};
	rng_seed(&g, 6);
	for (int k = 0; k < 3000; k++) {
		struct inject_page p =
		    fresh_page((enum inject_kind)rng_below(&g, INJECT_KINDS), rng_unit(&g));
		struct inject *x = NULL;
		for (int n = (int)rng_below(&g, 6); n >= 0; n--) {
			size_t at = rng_below(&g, 2) ? rng_below(&g, sizeof p) : rng_below(&g, 160);
			((unsigned char *)&p)[at] = (unsigned char)rng_below(&g, 256);
		}
		snprintf(page_path, sizeof page_path, "/tmp/hone-inject-%d", (int)getpid());
		CHECK_OK(file_write_soon(page_path, &p,
					 sizeof p - (rng_below(&g, 10) ? 0 : rng_below(&g, sizeof p))));
		fill(&g, noisy, 60);
		int rc = open_on(&t, 1, &x);
		CHECK(rc == E_OK || rc == E_CORRUPT || rc == E_USAGE);
		if (rc == E_OK && x) {
			CHECK_OK(hone_injector.run(x, &t));
			hone_injector.close(x);
		}
	}
	unlink(page_path);
	CHECK_FAILS(open_on(&t, 1, &(struct inject *){0}), E_IO, "HONE_CALIBRATE");
}

TEST_MAIN
