/* SPDX-License-Identifier: Apache-2.0 */
/* Events in any order, with any content: the state machine assumes nothing about its driver except its
 * clock. */
#include "agent/honed/honed.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

enum { MODELS = 5 };

struct any {
	struct honed *h;
	struct honed_options o;
	struct conf conf;
	struct conf_model model[MODELS];
	struct honed_model file[MODELS];
	struct rng rng;
	struct vitals vitals;
	int64_t now_ns;
};

static int64_t below(struct any *l, int64_t n)
{
	return n > 0 ? (int64_t)rng_below(&l->rng, (uint32_t)n) : 0;
}

static bool chance(struct any *l, int percent)
{
	return below(l, 100) < percent;
}

static void mute(void *ctx, const struct honed_action *a)
{
	int *n = ctx;
	n[a->kind]++;
	CHECK(a->kind != HA_SEND || a->text[strlen(a->text) - 1] == '\n');
}

static void begin(struct any *l, uint64_t seed, int *sums)
{
	static const char *const paths[MODELS] = {"/m/0", "/m/1", "/m/2", "/m/3", "/m/4"};
	*l = (struct any){.now_ns = NS_PER_S};
	rng_seed(&l->rng, seed);
	l->conf = (struct conf){.boot_unclean = 3,
				.idle = true,
				.slice_ns = (1 + below(l, 20)) * NS_PER_S,
				.rest_ns = (1 + below(l, 60)) * NS_PER_S,
				.jobs = (int)below(l, 4),
				.nmodels = (int)below(l, MODELS + 1),
				.boot_budget_ns = 10 * NS_PER_S,
				.model = l->model};
	l->conf.gate.settle_ns = below(l, 3) * NS_PER_S;
	for (int i = 0; i < MODELS; i++) {
		l->model[i] =
		    (struct conf_model){.name = paths[i] + 3, .path = paths[i], .threads = (int)below(l, 4)};
		l->file[i].key = (struct key){7, (uint64_t)i};
		l->file[i].refused = chance(l, 5) ? "no such file" : NULL;
	}
	l->vitals = (struct vitals){
	    .has = VITAL_HEAT | VITAL_MEMORY | VITAL_THROTTLE, .cpus = 4, .memory_bytes = INT64_C(4) << 30};
	l->o = (struct honed_options){.mode = HONED_RESIDENT,
				      .conf = &l->conf,
				      .now_ns = l->now_ns,
				      .ncpus = 1 + (int)below(l, 6),
				      .cpus = {0, 1, 2, 3, 4, 5},
				      .uid = 500,
				      .ctx = sums,
				      .act = mute};
}

static struct honed_event any_event(struct any *l, struct request *r)
{
	/* any kind but HE_STOP, which would end everything */
	struct honed_event e = {.kind = (enum honed_event_kind)below(l, HE_STOP)};
	if ((e.kind == HE_GONE || e.kind == HE_INHIBIT || e.kind == HE_BROKEN) && chance(l, 90))
		e.kind = HE_REQUEST;
	e.client = (int)below(l, 20) - 2;
	e.job = (int)below(l, 20) - 2;
	e.peer = (struct peer){1, (uid_t)(below(l, 3) * 500), chance(l, 50)};
	e.rc = -(int)below(l, 13);
	e.ticket = below(l, 20);
	e.written_bytes = below(l, 1 << 20) - 99;
	e.minute = (int)below(l, 1500) - 1;
	e.own_ns = below(l, 1 << 30);
	e.text = chance(l, 50) && e.kind != HE_INHIBIT ? "text\n\"\\\033" : NULL;
	e.name = chance(l, 50) ? "1-2-3" : NULL;
	*r = (struct request){
	    .op = (enum control_op)below(l, OP_COUNT), .has_id = chance(l, 80), .id = below(l, 99)};
	r->lease = (enum lease)below(l, 4);
	r->job = below(l, 20) - 2;
	r->ms = 1 + below(l, 500);
	r->version = (int)below(l, 3);
	r->type = (int)below(l, 9);
	r->threads = (int)below(l, 9);
	r->stops = chance(l, 50);
	r->now = chance(l, 50);
	r->trials = (int)below(l, 100);
	r->missing = (int)below(l, 3);
	r->promise = below(l, 3) - 1.0;
	r->before_ms = below(l, 3);
	r->now_ms = below(l, 3);
	snprintf(r->model, sizeof r->model, "%s", chance(l, 50) ? "/m/0" : "\033");
	snprintf(r->text, sizeof r->text, "%s", chance(l, 50) ? "ready" : "");
	e.request = chance(l, 95) ? r : NULL;
	l->vitals.headroom_mc = (int)below(l, 60000);
	l->vitals.memory_free_bytes = below(l, 1 << 30);
	l->vitals.throttled += chance(l, 5);
	e.vitals = chance(l, 95) ? &l->vitals : NULL;
	e.conf = chance(l, 50) ? &l->conf : NULL;
	e.model = l->file;
	e.nmodels = (int)below(l, l->conf.nmodels + 1);
	return e;
}

TEST(any_events_at_all)
{
	static struct any l;
	int sums[HA_LEAVE + 1] = {0};
	for (uint64_t seed = 1; seed <= 40; seed++) {
		begin(&l, seed, sums);
		CHECK_OK(honed_open(&l.o, &l.h));
		for (int i = 0; i < 3000; i++) {
			struct request r;
			struct honed_event e = any_event(&l, &r);
			l.now_ns += below(&l, 300) * NS_PER_MS;
			honed_event(l.h, l.now_ns, &e);
		}
		struct buf b = {0};
		honed_status(l.h, l.now_ns, &b);
		honed_metrics(l.h, l.now_ns, &b);
		CHECK(b.n > 1000);
		buf_free(&b);
		honed_close(l.h);
	}
	CHECK(sums[HA_START] > 9 && sums[HA_PUT] > 99 && sums[HA_SIGNAL] > 9 && sums[HA_SEND] > 9999);
}

TEST_MAIN
