/* SPDX-License-Identifier: Apache-2.0 */
/* Long work ends with its thread's limit, wherever that is reached: a clock that moves by one at every look
 * lets each look be the last one. */
#include "agent/tune/tune_net.h"
#include "kernels/graph/optimize.h"
#include "kernels/task/pack.h"
#include "platform/base/until.h"
#include "tests/lib/onnx_make.h"
#include "tests/lib/scratch.h"

enum { ROWS = 1100, COLUMNS = 2048 }; /* more than two pieces of elements */

static int64_t looks;

static int64_t count_looks(struct clock *c)
{
	(void)c;
	return ++looks;
}

static struct clock counting = {.now = count_looks};

/* y = x * transposed(w), with w beside the model: it is read, folded and packed. */
static const char *write_model(void)
{
	struct onnx_maker k;
	float *w = calloc((size_t)ROWS * COLUMNS, sizeof *w);
	mk_start(&k, 17, 16);
	mk_input(&k, "x", 1, "1 2048");
	Onnx__TensorProto *t = mk_init(&k, "w", 1, "1100 2048", NULL, 0);
	mk_entry(&k, t, "location", "w.bin");
	Onnx__NodeProto *turn = mk_node(&k, "Transpose", "w", "wt");
	turn->name = mk_text("turn");
	mk_node(&k, "MatMul", "x wt", "y");
	mk_node(&k, "Relu", "x", "unused");
	mk_node(&k, "Tanh", "x", "idle");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	scratch_file("w.bin", w, (size_t)ROWS * COLUMNS * sizeof *w, 0600);
	const char *path = scratch_file("model.onnx", b.p, b.n, 0600);
	arena_free(&k.a);
	free(w);
	return path;
}

static int find_nothing(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
			enum kernel_origin *origin)
{
	(void)ctx, (void)t, (void)text, (void)a, (void)out, (void)origin;
	return E_NOTFOUND;
}

static int open_once(struct graph *g, const struct target *t)
{
	static const struct kernel_source none = {.ctx = NULL, .find = find_nothing};
	struct arena a = {0};
	struct steps *s;
	struct net n = {0};
	int rc = graph_optimize(g);
	if (rc >= 0)
		rc = graph_steps(g, t, NULL, &a, &s);
	if (rc >= 0)
		rc = net_open(&n, g, s, t, &none, NULL, &clock_real, NULL);
	net_close(&n);
	arena_free(&a);
	return rc;
}

static int read_and_open(const char *path)
{
	struct target t;
	struct graph *g;
	int rc = target_host(&t);
	if (rc >= 0)
		rc = import_file(path, &(struct import_opts){0}, &g);
	if (rc < 0)
		return rc;
	rc = open_once(g, &t);
	graph_free(g);
	return rc;
}

/* Where a limit was reached, by the words of its message. */
static const char *const places[] = {"external data", "optimising", "folding", "plan", "node '"};
enum { PLACES = sizeof places / sizeof *places };

TEST(every_look_may_be_the_last)
{
	int seen[PLACES] = {0}, rc = E_TIMEOUT;
	const char *path = write_model();
	for (int64_t end = 1; rc < 0 && end < 1000; end++) {
		struct until u = {.clock = &counting, .end_ns = end};
		looks = 0;
		until_set(&u);
		rc = read_and_open(path);
		until_set(NULL);
		CHECK(rc >= 0 || (rc == E_TIMEOUT && strstr(err_text(), "the time is over")));
		CHECK(rc >= 0 || !strstr(err_text(), "cannot be used")); /* no fault of a node */
		CHECK(looks <= end + 2); /* it ends at once, not after more work */
		for (int i = 0; i < PLACES && rc < 0; i++)
			seen[i] += strstr(err_text(), places[i]) != NULL;
	}
	CHECK_OK(rc);
	CHECK(seen[0] >= ROWS * COLUMNS * 4 / UNTIL_PIECE); /* the file is read in pieces */
	CHECK(seen[1] >= 10 && seen[2] >= 1 && seen[3] >= 6 &&
	      seen[4] >= 2); /* weights are packed in pieces */
}

TEST(stops)
{
	volatile sig_atomic_t stop = 1;
	struct until u = {.clock = &clock_real, .end_ns = INT64_MAX, .stop = &stop};
	const char *path = write_model();
	CHECK(until_set(&u) == NULL);
	CHECK_FAILS(read_and_open(path), E_STOPPED, "stopped by a signal");
	stop = 0;
	CHECK_OK(read_and_open(path));
	CHECK(until_set(NULL) == &u);
}

TEST(counts_what_is_to_be_read)
{
	struct until u = {.clock = &clock_real, .end_ns = INT64_MAX};
	_Atomic int64_t all = 0;
	struct graph *g;
	const char *path = write_model();
	until_set(&u);
	CHECK_OK(import_file(path, &(struct import_opts){.all_bytes = &all}, &g));
	until_set(NULL);
	CHECK(all == u.read_bytes && all > ROWS * COLUMNS * 4);
	graph_free(g);
}

TEST_MAIN
