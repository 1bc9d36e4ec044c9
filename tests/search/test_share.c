/* SPDX-License-Identifier: Apache-2.0 */
/* A search that boards divide: which board gets which part, how a job uses it, and the file that keeps it. */
#include "agent/cache/share_kept.h"
#include "platform/base/file.h"
#include "platform/base/mix.h"
#include "search/job.h"
#include "search/strategy.h"
#include "tests/lib/scratch.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

enum { BOARDS = 1000, PARTS = 20, ASKS = 60 };

static void board_id(int i, char id[33])
{
	key_text(mix_bytes(&i, sizeof i, 1), id);
}

static uint64_t structure_of(const char *cand)
{
	char text[CAND_MAX];
	space_structure(cand, text);
	return mix_text(text).lo;
}

/* Every structure is in exactly one part; parts are about equally large, for structures and for boards. */
TEST(parts_are_even_and_complete)
{
	int of_board[PARTS] = {0}, of_structure[PARTS] = {0}, moved = 0;
	for (int i = 0; i < BOARDS; i++) {
		char id[33];
		board_id(i, id);
		const struct share s = {PARTS, "salt", id};
		struct portion p = share_portion(&s, "task"), other = share_portion(&s, "another");
		of_board[p.mine]++;
		moved += p.mine != other.mine;
	}
	for (uint64_t u = 1; u <= BOARDS; u++) {
		int owners = 0;
		struct portion p = share_portion(&(struct share){PARTS, "salt", "b"}, "task");
		for (p.mine = 0; p.mine < PARTS; p.mine++)
			if (portion_has(&p, u)) {
				owners++;
				of_structure[p.mine]++;
			}
		CHECK(owners == 1);
	}
	for (int i = 0; i < PARTS; i++) {
		CHECK(of_board[i] > 20 && of_board[i] < 90);
		CHECK(of_structure[i] > 20 && of_structure[i] < 90);
	}
	CHECK(moved > BOARDS * 8 / 10);
}

TEST(undivided_searches_have_all_parts)
{
	const struct share none[] = {{0}, {0, "a", "b"}, {1, "a", "b"}, {-1, "a", "b"}};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		struct portion p = share_portion(&none[i], "task");
		CHECK(p.parts == 0 && portion_has(&p, 7) && share_seed(&none[i], 5) == 5);
	}
	CHECK(share_portion(NULL, "task").parts == 0 && share_seed(NULL, 5) == 5);
	const struct share a = {2, "salt", "a"}, b = {2, "salt", "b"};
	CHECK(share_seed(&a, 5) != 5 && share_seed(&a, 5) != share_seed(&b, 5));
}

TEST(parts_for_boards)
{
	CHECK(share_parts(0) == 0 && share_parts(1) == 0 && share_parts(2) == 2 && share_parts(4) == 2);
	CHECK(share_parts(100) == 10 && share_parts(1000) == 100 && share_parts(INT32_MAX) == SHARE_PARTS);
}

/* ---- strategies ---- */

struct asked {
	struct arena a;
	struct target t;
	struct guide guide;
	void *state;
};

static void open_asked(struct asked *u, const struct strategy *s, struct portion portion)
{
	struct space *space;
	memset(u, 0, sizeof *u);
	dev_sim.probe(&u->t);
	struct task *t = ARENA_NEW(&u->a, struct task);
	REQUIRE_OK(task_parse(task_conv, t));
	REQUIRE_OK(space_make(&u->a, t, &u->t, NULL, &space));
	u->guide = (struct guide){.space = space, .cost = cost_find("draft"), .portion = portion};
	REQUIRE_OK(s->start(&u->a, &u->guide, 1, &u->state));
}

/* Every strategy proposes only candidates of its part until that is dry; then it goes on with the rest. */
TEST(strategies_keep_to_their_part_and_go_on)
{
	struct portion p = share_portion(&(struct share){4, "salt", "board"}, "task");
	for (int i = 0; strategy_table[i] && !test_bad; i++) {
		const struct strategy *s = strategy_table[i];
		struct asked u;
		char cand[CAND_MAX];
		int rest = 0;
		open_asked(&u, s, p);
		for (int k = 0; k < ASKS && !test_bad; k++) {
			int rc = s->ask(u.state, cand);
			if (rc == E_NOTFOUND && u.guide.portion.parts) {
				CHECK(k > 3);
				u.guide.portion = (struct portion){0};
				rc = s->ask(u.state, cand);
			}
			CHECK_OK(rc);
			CHECK(portion_has(&u.guide.portion, structure_of(cand)));
			const struct meas m = {.status = MEAS_OK, .runs = 3, .min_ns = 1000 + k};
			s->tell(u.state, cand, &m);
		}
		u.guide.portion = (struct portion){0};
		for (int k = 0; k < ASKS && !test_bad; k++) {
			CHECK_OK(s->ask(u.state, cand));
			rest += !portion_has(&p, structure_of(cand));
			const struct meas m = {.status = MEAS_OK, .runs = 3, .min_ns = 1000 + k};
			s->tell(u.state, cand, &m);
		}
		CHECK(rest > 0);
		arena_free(&u.a);
	}
}

/* ---- jobs ---- */

enum { MOST = 4096 };
struct heard {
	int n;
	uint64_t key[MOST], unit[MOST];
	enum tried_by by[MOST];
	int64_t at_ns[MOST];
};

static void hear(void *ctx, int task, const struct tried *t)
{
	struct heard *h = ctx;
	(void)task;
	if (h->n == MOST || t->lost)
		return;
	h->key[h->n] = hash_text(t->cand).lo;
	h->unit[h->n] = structure_of(t->cand);
	h->by[h->n] = t->by;
	h->at_ns[h->n++] = t->at_ns;
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob code)
{
	(void)ctx, (void)task, (void)best, (void)cand, (void)m, (void)code;
	return E_OK;
}

static const struct job_seed other_seed = {.cand = "lane=k:4 tile=k:2 outer=y"};

/* Tasks in the order of their first tries by the strategy, and the number of tasks whose seed was tried
 * before all of these. */
struct order {
	int n, first[4], seeds, early;
	bool met[4];
};

static void hear_order(void *ctx, int task, const struct tried *t)
{
	struct order *o = ctx;
	o->seeds += t->by == TRIED_SEED && !strcmp(t->cand, other_seed.cand);
	if (t->by != TRIED_STRATEGY || o->met[task])
		return;
	o->early = o->n ? o->early : o->seeds;
	o->met[task] = true;
	o->first[o->n++] = task;
}

static struct order run_order(struct share share)
{
	struct sim_runner *s = sim_open(3, 0.02);
	struct order o = {0};
	struct job_task task[4];
	struct job_result r[4] = {{0}};
	for (int i = 0; i < 4; i++)
		task[i] = (struct job_task){.text = i % 2 ? task_conv : task_matmul,
					    .label = "task",
					    .uses = 1,
					    .nseeds = i % 2,
					    .seed = &other_seed};
	const struct job j = {.ntasks = 4,
			      .task = task,
			      .search.share = share,
			      .search.seed = 9,
			      .limits.deadline_ns = 4 * NS_PER_S,
			      .calls.ctx = &o,
			      .calls.sink = sink,
			      .calls.tried = hear_order};
	CHECK(job_run(&j, &s->r, r) > 0);
	s->r.ops->close(&s->r);
	return o;
}

static struct job_result run_job(struct share share, const char *strategy, int64_t box_ns, struct heard *h)
{
	struct sim_runner *s = sim_open(3, 0.02);
	const struct job_task task = {.text = task_conv, .label = "conv", .uses = 1};
	const struct job j = {.ntasks = 1,
			      .task = &task,
			      .search.strategy = strategy,
			      .search.share = share,
			      .search.seed = 9,
			      .limits.deadline_ns = box_ns,
			      .calls.ctx = h,
			      .calls.sink = sink,
			      .calls.tried = hear};
	struct job_result r = {0};
	h->n = 0;
	CHECK(job_run(&j, &s->r, &r) > 0);
	s->r.ops->close(&s->r);
	return r;
}

/* Without a division, and with a single part: the same candidates at the same times. */
TEST(undivided_is_the_search_of_always)
{
	static struct heard one, other;
	for (int i = 0; strategy_table[i]; i++) {
		struct job_result a = run_job((struct share){0}, strategy_table[i]->name, NS_PER_S, &one);
		struct job_result b =
		    run_job((struct share){1, "salt", "board"}, strategy_table[i]->name, NS_PER_S, &other);
		CHECK(one.n > 10 && one.n == other.n && a.best_ns == b.best_ns && !strcmp(a.best, b.best));
		CHECK(!memcmp(one.key, other.key, sizeof *one.key * (size_t)one.n));
		CHECK(!memcmp(one.at_ns, other.at_ns, sizeof *one.at_ns * (size_t)one.n));
	}
}

TEST(a_divided_job_proposes_its_part_first)
{
	static struct heard h;
	const struct share s = {8, "salt", "board"};
	struct portion p = share_portion(&s, task_conv);
	run_job(s, NULL, NS_PER_S, &h);
	int own = 0, others = 0, dry = 0;
	for (int i = 0; i < h.n; i++) {
		if (h.by[i] != TRIED_STRATEGY)
			continue;
		bool mine = portion_has(&p, h.unit[i]);
		own += mine;
		others += !mine;
		dry += mine && others; /* its own after another's: what was found later, of few */
	}
	CHECK(own > 5 && dry <= own / 2);
}

/* Seeds of every task are tried before the search of the first begins; boards begin with different tasks. */
TEST(divided_boxes_begin_with_what_is_known_then_differ)
{
	int begins[4] = {0};
	struct order alone = run_order((struct share){0});
	CHECK(alone.n == 4 && alone.early <= 1);
	const int step = test_share() > 1 ? 5 : 1;
	for (int i = 0; i < 24; i += step) {
		char id[33];
		board_id(i, id);
		struct order o = run_order((struct share){2, "salt", id});
		CHECK(o.n == 4 && o.early == 2);
		begins[o.first[0]]++;
	}
	CHECK((begins[0] > 0) + (begins[1] > 0) + (begins[2] > 0) + (begins[3] > 0) >= (step > 1 ? 2 : 3));
}

/* With more parts than structures, a board with an empty part searches the rest. */
TEST(a_part_that_is_empty_is_no_harm)
{
	static struct heard h;
	int strategy = 0;
	struct job_result r = run_job((struct share){SHARE_MOST_PARTS, "salt", "board"}, NULL, NS_PER_S, &h);
	for (int i = 0; i < h.n; i++)
		strategy += h.by[i] == TRIED_STRATEGY;
	CHECK(strategy > 5 && r.best_ns > 0 && r.best_ns <= r.default_ns);
}

/* ---- the file ---- */

#define CLS "0123456789abcdef0123456789abcdef"
#define ID "fedcba9876543210fedcba9876543210"

TEST(shares_are_kept_and_read)
{
	struct arena a = {0};
	struct share s;
	struct key cls;
	struct share division = {40, "Round-7_x", ID};
	REQUIRE_OK(key_parse(CLS, &cls));
	scratch("");
	share_kept_get(scratch_dir, cls, &a, &s);
	CHECK(s.parts == 0);
	REQUIRE_OK(share_kept_put(scratch_dir, CLS, &division));
	REQUIRE_OK(share_kept_put(scratch_dir, CLS, &division));
	share_kept_get(scratch_dir, cls, &a, &s);
	CHECK(s.parts == 40 && !strcmp(s.salt, "Round-7_x") && !strcmp(s.board, ID));
	cls.lo++;
	share_kept_get(scratch_dir, cls, &a, &s);
	CHECK(s.parts == 0);
	cls.lo--;
	division.parts = 0;
	division.salt = "";
	REQUIRE_OK(share_kept_put(scratch_dir, CLS, &division));
	share_kept_get(scratch_dir, cls, &a, &s);
	CHECK(s.parts == 0);
	arena_free(&a);
}

TEST(invalid_shares_are_not_kept)
{
	struct arena a = {0};
	struct share s;
	struct key cls;
	const struct {
		const char *cls;
		struct share s;
	} bad[] = {{CLS, {2, "a b", ID}},   {CLS, {2, "", ID}}, {CLS, {2, "a\nb", ID}}, {CLS, {SHARE_MOST_PARTS + 1, "a", ID}},
		   {CLS, {-1, "a", ID}}, {"x", {2, "a", ID}}, {CLS, {2, "a", "../x"}}};
	const struct share good = {2, "a", ID};
	REQUIRE_OK(key_parse(CLS, &cls));
	scratch("");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		REQUIRE_OK(share_kept_put(scratch_dir, CLS, &good));
		CHECK_FAILS(share_kept_put(scratch_dir, bad[i].cls, &bad[i].s), E_USAGE, "cannot be kept");
		share_kept_get(scratch_dir, cls, &a, &s);
		CHECK(s.parts == 0);
	}
	arena_free(&a);
}

static int parse(const char *text, size_t n, struct share *s)
{
	static struct arena a;
	arena_reset(&a);
	return share_kept_parse(text, n, CLS, &a, s);
}

/* A file that is cut anywhere, or with any byte changed, is refused or gives a division that is in range. */
TEST(a_hostile_file_is_refused)
{
	static const char good[] = CLS " 40 salt " ID "\n";
	static const char *const bad[] = {"",
					  "\n",
					  CLS,
					  CLS " 40 salt " ID,
					  CLS " 40 salt " ID " \n",
					  CLS " -1 salt " ID "\n",
					  CLS " 1048577 salt " ID "\n",
					  CLS " 99999999999999999999 salt " ID "\n",
					  CLS "  salt " ID "\n",
					  CLS " 40 sa%lt " ID "\n",
					  CLS " 40 salt " ID "0\n",
					  CLS " 40 salt " ID "\n\n"};
	struct share s;
	size_t n = strlen(good);
	CHECK_OK(parse(good, n, &s));
	CHECK(s.parts == 40);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(parse(bad[i], strlen(bad[i]), &s), E_CORRUPT, "");
	for (size_t i = 0; i < n; i++) {
		CHECK(parse(good, i, &s) == E_CORRUPT);
		for (int c = 0; c < 256; c++) {
			char text[sizeof good];
			memcpy(text, good, sizeof good);
			text[i] = (char)c;
			int rc = parse(text, n, &s);
			CHECK(rc >= 0 ? s.parts >= 0 && s.parts <= SHARE_MOST_PARTS
				      : rc == E_CORRUPT || rc == E_NOTFOUND);
		}
	}
}

TEST_MAIN
