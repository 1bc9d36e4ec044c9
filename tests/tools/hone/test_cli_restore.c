/* SPDX-License-Identifier: Apache-2.0 */
/* A box that leaves the whole network slower than it was restores the kernels from before. */
#include "agent/cache/kept_code.h"
#include "agent/worker/landscape.h"
#include "kernels/loops/code.h"
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"

enum { CHANNELS = 64, TRIES = 4 };

/* Two convolutions, the first with a Relu: two tasks. */
static const char *convolutions(void)
{
	enum { W = CHANNELS * CHANNELS * 9 };
	static float weights[W];
	struct onnx_maker k;
	struct rng r;
	int64_t pads[] = {1, 1, 1, 1};
	rng_seed(&r, 2);
	rng_fill(&r, weights, W);
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 64 16 16");
	mk_init(&k, "W", 1, "64 64 3 3", weights, sizeof weights);
	mk_attr_ints(&k, mk_node(&k, "Conv", "x W", "a"), "pads", 4, pads);
	mk_node(&k, "Relu", "a", "b");
	mk_attr_ints(&k, mk_node(&k, "Conv", "b W", "y"), "pads", 4, pads);
	mk_output(&k, "y");
	return write_model(&k, "convs.onnx");
}

/* The slowest of the recorded candidates of a task, and its time. */
static const char *slowest(const char *record, const char *task, int64_t *ns, struct arena *a)
{
	struct landscape *l;
	const char *cand = "";
	int n = landscape_folder(record, a, &l);
	*ns = 0;
	CHECK(n == 2);
	for (int k = 0; k < n; k++)
		for (int i = 0; i < l[k].n && !strcmp(l[k].task, task); i++)
			if (landscape_ns(&l[k], i) > *ns) {
				*ns = landscape_ns(&l[k], i);
				cand = l[k].point[i].cand;
			}
	CHECK(*ns > 0);
	return cand;
}

/* Finds the best record of the task with a Relu. */
static int find(void *ctx, const struct rec *r)
{
	if (r->kind == REC_BEST && strstr(r->label, "relu"))
		*(struct rec *)ctx = *r;
	return 0;
}

/* That record, and its code. */
static struct blob read_best(struct cache *c, struct rec *best, struct arena *a)
{
	struct blob code = {0};
	*best = (struct rec){0};
	CHECK(cache_each_rec(c, a, find, best) >= 4 && best->cand[0]);
	CHECK_OK(kept_code_get(c, best, a, &code));
	return code;
}

/* The code of a kernel that does nothing: no other is as fast. */
static struct blob lazy(struct blob code, struct arena *a)
{
	struct code c;
	struct buf bytes = {0};
	CHECK_OK(code_parse(code.p, code.n, a, &c));
	for (int e = 0; e < c.m.nentries; e++)
		snprintf(c.m.extent_expr[e], sizeof *c.m.extent_expr, "0");
	code_bytes(&c, &bytes);
	const struct blob out = {arena_memdup(a, bytes.p, bytes.n), bytes.n};
	buf_free(&bytes);
	return out;
}

/* Gives the best record the slowest candidate, which the next box will find slow, with code that is faster
 * than any that a box finds: as if all that it finds lost in the network. Returns that code. */
static struct blob plant(const char *cache, const char *record, struct arena *a)
{
	struct cache *c;
	struct rec best;
	struct key *key;
	int64_t slow_ns;
	CHECK_OK(cache_open(&c, cache, false, 0));
	struct blob code = lazy(read_best(c, &best, a), a);
	snprintf(best.cand, sizeof best.cand, "%s", slowest(record, best.task_text, &slow_ns, a));
	best.meas.min_ns = best.meas.median_ns = slow_ns;
	CHECK_OK(kept_code_put(c, &best, code));
	CHECK_OK(cache_put_rec(c, &best));
	int n = cache_keys(c, CACHE_TRIALS, a, &key); /* which say that there are faster ones */
	for (int i = 0; i < n; i++)
		CHECK_OK(cache_forget(c, CACHE_TRIALS, key[i]));
	cache_close(c);
	return code;
}

static bool serves(const char *cache, struct blob code)
{
	struct arena a = {0};
	struct cache *c;
	struct rec best;
	CHECK_OK(cache_open(&c, cache, true, 0));
	struct blob now = read_best(c, &best, &a);
	bool same = now.n == code.n && !memcmp(now.p, code.p, code.n);
	cache_close(c);
	arena_free(&a);
	return same;
}

TEST(a_box_that_leaves_the_network_slower)
{
	struct arena a = {0};
	char model[256], cache[256], record[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(model, sizeof model, "%s", convolutions());
	snprintf(cache, sizeof cache, "%s", in_dir("kept"));
	snprintf(record, sizeof record, "%s", in_dir("record"));
	CHECK_RUN(0, "tune %s --budget 2s --threads 1 --record %s --cache %s", model, record, cache);
	long long restored = 0;
	for (int i = 0; i < TRIES && !restored; i++) { /* a busy machine leaves no time to compare networks */
		struct blob fast = plant(cache, record, &a);
		CHECK_RUN(0, "tune %s --budget 3s --threads 1 --json --cache %s", model, cache);
		restored = out_number("restored");
		CHECK(!restored ||
		      (out_number("trials") > 0 && !out_number("reverted") && serves(cache, fast)));
	}
	CHECK(restored > 0);
	*cli_out = 0;
	for (int i = 0; i < TRIES && !strstr(cli_out, " from before this box, which "); i++) {
		(void)plant(cache, record, &a);
		CHECK_RUN(0, "tune %s --budget 3s --threads 1 --cache %s", model, cache);
	}
	CHECK_SAYS(cli_out, " from before this box, which ");
	/* A box that changed no kernel restores none. */
	CHECK_RUN(0, "tune %s --rigor estimate --budget 20s --threads 1 --json --cache %s", model, cache);
	CHECK(out_number("restored") == 0);
	arena_free(&a);
}

TEST_MAIN
