/* SPDX-License-Identifier: Apache-2.0 */
/* Random operators, shapes and schedules on a device, by its worker, which compares each answer with the
 * reference. The device is that of the CUDA driver that lies, or the one that TRIPLES_DEVICE=cuda:0 names;
 * SEED=n: the first case, SEEDS=n: their number. EACH=n: so many schedules of each operator, which are timed,
 * and of each two of them the draft says which is faster. On a CUDA device every other case is of one of the
 * kinds of ptx_cases.h in turn, products of tensor cores among them. make bench-gpu (tools/bench/gpu.sh)
 * calls it. */
#include "agent/worker/device.h"
#include "agent/worker/wire.h"
#include "kernels/space/draft.h"
#include "kernels/space/space.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/ptx_cases.h"

enum { MOST_EACH = 16 };

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);
	return text ? atoi(text) : otherwise;
}

struct counts {
	int tasks, of[MEAS_STATUSES], fragments, timed, pairs, right;
};

struct timed {
	double draft, ns;
};

/* Pairs whose times differ by a tenth or more. */
static void count_pairs(struct counts *n, const struct timed *t, int ntimed)
{
	for (int i = 0; i < ntimed; i++)
		for (int k = 0; k < i; k++) {
			if (fabs(t[i].ns - t[k].ns) < .1 * fmax(t[i].ns, t[k].ns))
				continue;
			n->pairs++;
			n->right += (t[i].ns < t[k].ns) == (t[i].draft < t[k].draft);
		}
}

/* Returns the handle; < 0: the candidate failed. A worker that died is hired again by the runner. */
static int build(struct runner *r, const char *text, const char *cand, struct counts *n)
{
	struct meas m = {.status = MEAS_OK};
	int h = -1, rc = r->ops->build(r, text, cand, clock_now(&clock_real) + 20 * NS_PER_S, &h, &m);
	if (rc < 0)
		m.status = rc == E_TIMEOUT ? MEAS_TIMEOUT : MEAS_CRASH;
	n->of[m.status]++;
	bool bad = m.status == MEAS_WRONG || m.status == MEAS_CRASH || m.status == MEAS_TIMEOUT;
	if (bad)
		printf("%s: %s%s\n%s", meas_status_name(m.status), cand, rc < 0 ? err_text() : "", text);
	CHECK(!bad);
	return m.status == MEAS_OK ? h : -1;
}

static void one(struct runner *r, const struct target *tg, uint64_t seed, int each, struct counts *n)
{
	struct arena a = {0};
	struct buf text = {0};
	struct rng rng;
	struct timed t[MOST_EACH];
	int ntimed = 0;
	rng_seed(&rng, seed);
	const struct ptx_kind *kind =
	    seed % 2 && !strcmp(tg->isa, "cuda") ? &ptx_kinds[seed / 2 % PTX_KINDS] : &ptx_kinds[0];
	const struct space_want want = {.level = kind->level};
	struct task *task = ARENA_NEW(&a, struct task);
	struct space *s = NULL;
	kind->make(&text, &rng);
	CHECK_OK(task_parse(buf_str(&text), task));
	CHECK_OK(space_make(&a, task, tg, &want, &s));
	n->tasks += s != NULL;
	for (int i = 0; i < each && s; i++) {
		char cand[CAND_MAX];
		struct meas m;
		if (kind->key ? !draw_with(s, &rng, kind->key, cand) : space_random(s, &rng, cand) < 0)
			continue;
		n->fragments += strstr(cand, "fragrows=") != NULL;
		int h = build(r, buf_str(&text), cand, n);
		if (h < 0)
			continue;
		if (each > 1 &&
		    r->ops->time(r, &h, 1, 5, 0, 0, clock_now(&clock_real) + 10 * NS_PER_S, &m) >= 0 &&
		    m.status == MEAS_OK)
			t[ntimed++] = (struct timed){space_draft(s, cand), (double)m.min_ns};
		r->ops->drop(r, h, INT64_MAX);
	}
	n->timed += ntimed;
	count_pairs(n, t, ntimed);
	buf_free(&text);
	arena_free(&a);
}

TEST(random_triples)
{
	const char *device = getenv("TRIPLES_DEVICE"), *worker = getenv("HONE_WORKER");
	int each = number_of("EACH", 1), seeds = number_of("SEEDS", 48), first = number_of("SEED", 1);
	double end_s = test_now_s() + number_of("SECONDS_MOST", 3600);
	struct counts n = {0};
	struct target tg;
	struct runner *r;
	if (!worker || access(worker, X_OK) != 0)
		SKIP("no hone-worker (HONE_WORKER)");
	if (!device) {
		char folder[600];
		snprintf(folder, sizeof folder, "%s", fake_cuda());
		*strrchr(folder, '/') = 0;
		setenv("LD_LIBRARY_PATH", folder, 1);
		cuda_lie("");
		device = "cuda:0";
	}
	each = each < 1 ? 1 : each < MOST_EACH ? each : MOST_EACH;
	REQUIRE_OK(device_target(device, NULL, "", &tg));
	if (each > 1)
		REQUIRE_OK(device_measure(device, NULL, "", &tg));
	REQUIRE_OK(runner_worker(NULL, device, &tg, 1, &r));
	for (int i = 0; i < seeds && test_now_s() < end_s; i++)
		one(r, &tg, (uint64_t)(first + i), each, &n);
	r->ops->close(r);
	printf("{\"device\": \"%s\", \"operators\": %d", device, n.tasks);
	for (int i = 0; i < MEAS_STATUSES; i++)
		if (n.of[i])
			printf(", \"%s\": %d", meas_status_name(i), n.of[i]);
	printf(", \"of_tensor_cores\": %d", n.fragments);
	printf(", \"timed\": %d, \"pairs\": %d, \"pairs_in_the_order_of_the_draft\": %d}\n", n.timed, n.pairs,
	       n.right);
	CHECK(n.fragments > 3 || seeds < 48 || !target_multiplies_fragments(&tg, "f16"));
	CHECK(n.of[MEAS_OK] > seeds / 2 || seeds < 6);
}

TEST_MAIN
