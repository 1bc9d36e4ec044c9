/* SPDX-License-Identifier: Apache-2.0 */
/* Enrolled boards lie. A liar among honest boards gets no byte of its own to other boards, whatever field of
 * a record it changes and whatever it knows of hashes. */
#include "tests/lib/collide.h"
#include "tests/lib/fleet_world.h"
#include "platform/base/rng.h"
#include <glob.h>

enum { LIAR = 3, HONEST = 3, TASKS = 40 };

/* Changes to fields that do not name the candidate; a board may send each of them. */
static void lie_target(struct rec *r)
{
	snprintf(r->target, sizeof r->target, "evil x86-64-v3 8");
}
static void lie_emitter(struct rec *r)
{
	snprintf(r->emitter, sizeof r->emitter, "llvm-66.6.6/66");
}
static void lie_label(struct rec *r)
{
	r->label = "evil <b>label</b>\\n";
}
static void lie_kind(struct rec *r)
{
	r->kind = REC_HINT;
}
static void lie_status(struct rec *r)
{
	r->kind = REC_HINT;
	r->meas.status = MEAS_ABORTED;
}
static void lie_runs(struct rec *r)
{
	r->meas.runs = 66606;
}
static void lie_min(struct rec *r)
{
	r->meas.min_ns = 66607;
}
static void lie_spread(struct rec *r)
{
	r->meas.spread_ns = 66608;
}
static void lie_build(struct rec *r)
{
	r->meas.build_ns = 66609;
}
static void lie_error(struct rec *r)
{
	r->meas.max_rel_err = 0.0666;
}
static void lie_mhz(struct rec *r)
{
	r->meas.mhz_before = 66610;
	r->meas.mhz_after = 66611;
}
static void lie_heat(struct rec *r)
{
	r->meas.mc_before = 66612;
	r->meas.mc_after = 66613;
}
static void lie_measured(struct rec *r)
{
	r->meas.threads = 0;
}
/* Changes to fields that name the candidate, which make another one that nobody else knows. */
static void lie_cand(struct rec *r)
{
	cand_of(r->task_text, 665, r->cand);
}
static void lie_device(struct rec *r)
{
	snprintf(r->device, sizeof r->device, "evil");
}
static void lie_device_with_signs(struct rec *r)
{
	snprintf(r->device, sizeof r->device, "cpu:2-0_lane"); /* spaces are refused */
}
static void lie_threads(struct rec *r)
{
	r->threads = r->meas.threads = 1;
}
static void lie_exact(struct rec *r)
{
	r->level = true;
}

static void (*const lies[])(struct rec *r) = {
    lie_target,  lie_emitter, lie_label, lie_kind, lie_status,   lie_runs, lie_min,    lie_spread,
    lie_build,   lie_error,   lie_mhz,   lie_heat, lie_measured, lie_cand, lie_device, lie_device_with_signs,
    lie_threads, lie_exact};
enum { LIES = sizeof lies / sizeof *lies, NAMELESS = 13 /* the first ones do not change the candidate */ };

static struct rec honest_rec(struct world *w, int task, int board)
{
	return world_rec(w, task, 1, MS + board * MS / 50);
}

/* Reads the bytes of every blob in the place. */
static void read_place(struct world *w, struct buf *out)
{
	char pattern[256];
	glob_t g;
	buf_clear(out);
	snprintf(pattern, sizeof pattern, "%s/blob/*", w->publish);
	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++) {
			struct blob b;
			CHECK_OK(file_read(&w->a, g.gl_pathv[i], 0, &b));
			buf_add(out, b.p, b.n);
		}
	globfree(&g);
}

/* Whether the place has no text or number of the liar's (lies). Keys cannot hold them by chance. */
static bool is_clean(const struct buf *place)
{
	static const char *const marks[] = {"evil", "66.6", "m:666", " 6660", " 6661", "0x1.10cb"};
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
		if (strstr(buf_str(place), marks[i]))
			return false;
	return true;
}

/* Whether the record has the values of the honest boards, and no number of the liar's. */
static bool is_fleets(struct world *w, const struct rec *r, int task)
{
	struct rec want = honest_rec(w, task, 0);
	struct buf is = {0}, should = {0};
	want.target[0] = want.emitter[0] = 0;
	want.label = "";
	want.meas = (struct meas){.status = MEAS_OK,
				  .runs = r->meas.runs,
				  .min_ns = r->meas.median_ns,
				  .median_ns = r->meas.median_ns,
				  .spread_ns = r->meas.spread_ns};
	rec_text(r, &is);
	rec_text(&want, &should);
	bool good = !strcmp(buf_str(&is), buf_str(&should)) && r->meas.median_ns >= MS &&
		    r->meas.median_ns <= MS + MS / 20 && r->meas.spread_ns <= MS / 20 &&
		    r->meas.runs >= HONEST && r->meas.runs <= HONEST + 1;
	if (!good)
		printf("task %d: published:\n%s\n", task, buf_str(&is));
	buf_free(&is);
	buf_free(&should);
	return good;
}

static struct world *careful_world(void)
{
	struct world *w = world_new();
	w->conf.quorum[0] = 2;
	w->conf.quorum[1] = 2;
	world_close(w);
	world_open(w);
	return w;
}

static void check_channels(struct world *w, int tasks)
{
	struct buf place = {0};
	for (int c = 0; c < CHANNELS; c++) {
		struct world_view *v = view(w, c);
		CHECK(v->nrec == tasks);
		for (int i = 0; i < tasks; i++) {
			const struct rec *r = view_rec(w, v, i);
			CHECK(r && is_fleets(w, r, i));
		}
		view_free(v);
	}
	read_place(w, &place);
	CHECK(place.n > 0 && is_clean(&place));
	buf_free(&place);
}

/* Says a changed record whose time is the median, so that it would be the one to be published. */
static void lie(struct world *w, int task, uint64_t which)
{
	struct rec r = honest_rec(w, task, 1);
	for (int i = 0; i < LIES; i++)
		if (which >> i & 1)
			lies[i](&r);
	r.task = hash_text(r.task_text);
	world_say(w, &r);
}

TEST(no_field_of_one_liar_gets_published)
{
	struct rng rng;
	rng_seed(&rng, 20);
	for (int turn = 0; turn < 4; turn++) {
		struct world *w = careful_world();
		int tasks = turn ? TASKS : LIES;
		for (int b = 0; b < HONEST; b++) {
			for (int i = 0; i < tasks; i++) {
				struct rec r = honest_rec(w, i, b);
				world_say(w, &r);
			}
			from(w, b);
		}
		/* Turn 0: each field alone; turn 1: all fields that do not name the candidate; then random
		 * sets of fields. */
		for (int i = 0; i < tasks; i++)
			lie(w, i,
			    turn == 0   ? UINT64_C(1) << i
			    : turn == 1 ? (UINT64_C(1) << NAMELESS) - 1
					: rng_u64(&rng));
		from(w, LIAR);
		round_good(w);
		check_channels(w, tasks);
		world_free(w);
		if (test_bad)
			printf("turn %d\n", turn);
	}
	printf("%d lies alone, %d together\n", LIES, 3 * TASKS);
}

/* The liar comes first, and is alone: canary has its candidate, but nothing that only the liar said. */
TEST(a_lone_board_has_no_words_on_canary)
{
	struct world *w = world_new();
	struct buf place = {0};
	for (int i = 0; i < NAMELESS; i++)
		lie(w, i, UINT64_C(1) << i);
	from(w, LIAR);
	round_good(w);
	struct world_view *v = view(w, CHANNEL_CANARY);
	CHECK(v->nrec == NAMELESS);
	for (int i = 0; i < v->nrec; i++)
		CHECK(!*v->rec[i].target && !*v->rec[i].emitter && !*v->rec[i].label &&
		      v->rec[i].meas.runs == 1);
	view_free(v);
	read_place(w, &place);
	CHECK(place.n > 0 && is_clean(&place));
	buf_free(&place);
	world_free(w);
}

/* Finds another candidate whose name has the same fast hash as r's. Returns whether one was found. */
static bool collide(const struct rec *r, char *evil, size_t room)
{
	char text[1024], task[33], target[33], other[16];
	key_text(r->task, task);
	key_text(r->target_key, target);
	int head =
	    snprintf(text, sizeof text, "%s %s %s %d %d ", task, target, r->device, r->threads, r->level);
	snprintf(text + head, sizeof text - (size_t)head, "%s", r->cand);
	int at = (head + 15) / 16 * 16, own = at - head; /* bytes of the candidate before the next block */
	if (own < 5 || strlen(r->cand) < (size_t)own + 16)
		return false;
	struct mix_state before = {0, 0}, after;
	for (int i = 0; i < at - 16; i += 16)
		mix_block(&before, text + i);
	after = before;
	mix_block(&after, text + at - 16);
	mix_block(&after, text + at);
	for (uint64_t n = 0; n < UINT64_C(1) << 27; n++) {
		struct mix_state s = before;
		uint64_t v = n;
		for (int i = 0; i < own; i++, v /= 64)
			text[head + i] = (char)('?' + v % 64);
		mix_block(&s, text + at - 16);
		mix_bridge(s, after, other);
		if (!mix_is_plain(other, 16))
			continue;
		memcpy(text + at, other, 16);
		snprintf(evil, room, "%s", text + head);
		return true;
	}
	return false;
}

/* Whether the board's batch of what it said was accepted. */
static bool taken(struct world *w, int board)
{
	int status = world_post(w, board, w->cls, w->line, w->nline);
	CHECK(status == 202 || status == 400);
	w->nline = 0;
	return status == 202;
}

TEST(a_candidate_of_the_same_fast_hash_is_another)
{
	struct world *w = world_new();
	struct buf place = {0};
	struct rec good = world_rec(w, 0, 1, MS);
	char evil[512];
	snprintf(good.cand, sizeof good.cand, "lane=n:8 tile=m:4,n:2 unroll=k:8 par=1 outer=m | block=m:2");
	REQUIRE(collide(&good, evil, sizeof evil));
	printf("'%s'\n'%s'\n", good.cand, evil);
	for (int b = 0; b < HONEST; b++) {
		good.meas.median_ns = good.meas.min_ns = MS + b * MS / 50;
		world_say(w, &good);
		from(w, b);
	}
	struct rec bad = good;
	bad.meas.median_ns = bad.meas.min_ns = MS + MS / 50 - 1;
	snprintf(bad.cand, sizeof bad.cand, "%s", evil);
	world_say(w, &bad);
	(void)taken(w, LIAR);
	round_good(w);
	for (int c = 0; c < CHANNELS; c++) {
		struct world_view *v = view(w, c);
		CHECK(v->nrec == 1 && !strcmp(v->rec[0].cand, good.cand) && v->rec[0].meas.runs == HONEST);
		view_free(v);
	}
	read_place(w, &place);
	CHECK(!strstr(buf_str(&place), evil));
	buf_free(&place);
	world_free(w);
}

/* Assumes that even the present hash is broken: a word has the honest boards' key and cand, but another
 * text. */
TEST(another_text_under_the_same_key_goes_nowhere)
{
	for (int liars = 1; liars <= 4; liars++) {
		struct world *w = world_new();
		struct buf place = {0};
		char line[STORE_WORD];
		for (int b = 0; b < HONEST + liars; b++) {
			struct rec r = honest_rec(w, 0, b < HONEST ? b : 1);
			world_say(w, &r);
			from(w, b);
		}
		CHECK_OK(fleet_digest(w->f, world_conn(w), 100));
		struct rec bad = honest_rec(w, 0, 1);
		lie_cand(&bad);
		snprintf(line, sizeof line, "%s", record_line(&w->a, &bad));
		for (int b = HONEST; b < HONEST + liars; b++)
			CHECK(store_exec(world_conn(w), "UPDATE words SET line = $2 WHERE board = $1",
					 DB_PARAMS(DB_T(w->id[b]), DB_T(line)), NULL, NULL) == 1);
		round_good(w);
		CHECK(on(w, 0, liars > HONEST ? -1 : 1, liars > HONEST ? -1 : 1, liars > HONEST ? -1 : 1));
		struct world_view *v = view(w, CHANNEL_ALL);
		if (liars <= HONEST)
			CHECK(v->nrec == 1 && v->rec[0].meas.runs == HONEST);
		view_free(v);
		read_place(w, &place);
		CHECK(is_clean(&place));
		buf_free(&place);
		world_free(w);
	}
}

TEST_MAIN
