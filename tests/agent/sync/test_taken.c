/* SPDX-License-Identifier: Apache-2.0 */
/* Tests on the simulator which records of strangers a board takes, and how much a lie costs it.
 * Past 800 lines because every case is told with the same simulated board. */
#include "agent/cache/chosen.h"
#include "agent/cache/chosen_rec.h"
#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/sync/batch.h"
#include "agent/sync/offered.h"
#include "agent/cache/seeds.h"
#include "agent/cache/lookup.h"
#include "agent/sync/taken.h"
#include "kernels/loops/code.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"
#include "tests/lib/cands.h"
#include "tests/lib/records.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <unistd.h>

enum { NTASKS = 3 };

static const char emitter[] = "sim-1/" CODE_REVISION;
static const char *const texts[NTASKS] = {
    task_matmul,
    task_small_conv,
    task_pointwise,
};

/* The ways in which strangers' candidates fail in these tests. */
enum lie { SLOW, NO_BUILD, WRONG, CRASH, HANGS, NONSENSE, OTHER_CLASS, LIES };
static const char *const lie_names[LIES] = {"slow",  "does not build", "wrong",      "crashes",
					    "hangs", "nonsense",       "other class"};

/* A board with a cache, whose boxes run on the simulator. */
struct board {
	char dir[64];
	struct cache *cache;
	struct target target;
	struct arena a;
	struct job_task task[NTASKS];
	struct job_result result[NTASKS];
	struct trials log[NTASKS];
	int boxes;
	enum lie lie;
	char liar[NTASKS][CAND_MAX]; /* "": none */
	int builds, lied[NTASKS];    /* builds of all candidates, and of a task's liar */
	int believed[NTASKS];        /* trials of the liar because a stranger claimed it, */
	int found[NTASKS];           /* and because the search drew it */
};
static struct board *here; /* the board whose box runs */

static void open_board(struct board *b)
{
	*b = (struct board){0};
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	snprintf(b->dir, sizeof b->dir, "%s/hone-taken-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(b->dir) || cache_open(&b->cache, b->dir, false, 0) < 0)
		abort();
	dev_sim.probe(&b->target);
}

static void close_board(struct board *b)
{
	char cmd[96];
	cache_close(b->cache);
	arena_free(&b->a);
	snprintf(cmd, sizeof cmd, "rm -r '%s'", b->dir);
	CHECK(system(cmd) == 0);
}

/* Puts winners with their code into the cache at once, as the real sink does. */
static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob code)
{
	struct board *b = ctx;
	struct arena a = {0};
	struct code c;
	struct buf bytes = {0};
	struct rec r = {.task = hash_text(texts[task]),
			.kind = best ? REC_BEST : REC_DEFAULT,
			.target_key = target_key(&b->target),
			.device = "cpu",
			.threads = 1,
			.meas = *m,
			.task_text = texts[task],
			.label = "task"};
	CHECK_OK(code_parse(code.p, code.n, &a, &c));
	snprintf(c.m.version, sizeof c.m.version, "%s", emitter);
	snprintf(r.emitter, sizeof r.emitter, "%s", emitter);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	target_label(&b->target, r.target);
	code_bytes(&c, &bytes);
	CHECK_OK(kept_code_put(b->cache, &r, (struct blob){bytes.p, bytes.n}));
	CHECK_OK(cache_put_rec(b->cache, &r));
	buf_free(&bytes);
	arena_free(&a);
	return E_OK;
}

static void tried(void *ctx, int task, const struct tried *t)
{
	struct board *b = ctx;
	trials_add(&b->log[task], t, b->log[task].boxes);
	if (t->lost || strcmp(b->liar[task], t->cand))
		return;
	bool said = t->by == TRIED_SEED || t->by == TRIED_INCUMBENT;
	(said ? b->believed : b->found)[task]++;
}

static void open_log(struct board *b, int i)
{
	struct trials *l = &b->log[i], name;
	trials_start(&name, hash_text(texts[i]), texts[i], "task");
	name.target_key = target_key(&b->target);
	name.threads = 1;
	snprintf(name.device, sizeof name.device, "cpu");
	snprintf(name.emitter, sizeof name.emitter, "%s", emitter);
	if (trials_get(b->cache, trials_key(&name), l) < 0)
		*l = name;
	else
		trials_free(&name);
	struct tried *known = ARENA_ARRAY(&b->a, struct tried, l->n + 1);
	for (int k = 0; k < l->n; k++) {
		known[k] = l->entry[k].t;
		known[k].cand = arena_strdup(&b->a, known[k].cand);
	}
	b->task[i].tried = known;
	b->task[i].ntried = l->n;
	l->boxes++;
}

static void find_incumbent(struct board *b, int i)
{
	struct rec r;
	b->task[i] = (struct job_task){.text = texts[i], .label = "task", .uses = 1 + i};
	if (cache_find_rec(b->cache, hash_text(texts[i]), &b->target, 1, false, REC_BEST, &b->a, &r) >= 0)
		b->task[i].codeless = !cache_has_code(b->cache, NULL, &r);
	else if (hint_find(b->cache, hash_text(texts[i]), target_key(&b->target), "cpu", 1, false, &b->a, &r) >= 0)
		b->task[i].claim_ns = (b->task[i].codeless = true) ? hint_claim_ns(&r) : 0;
	else
		return;
	b->task[i].incumbent = arena_strdup(&b->a, r.cand);
}

/* Builds candidates; liars misbehave as chosen. Counts each build. */
static int build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		 struct meas *m)
{
	struct sim_runner *s = (struct sim_runner *)r;
	int i = 0;
	while (strcmp(texts[i], task))
		i++;
	here->builds++;
	if (strcmp(here->liar[i], cand))
		return sim_build(r, task, cand, deadline_ns, handle, m);
	here->lied[i]++;
	if (here->lie == SLOW) {
		int rc = sim_build(r, task, cand, deadline_ns, handle, m);
		if (rc >= 0 && *handle >= 0)
			s->h[*handle].cost_ns *= 40;
		return rc;
	}
	static const enum meas_status status[LIES] = {[NO_BUILD] = MEAS_BUILD, [WRONG] = MEAS_WRONG};
	*m = (struct meas){.status = status[here->lie], .build_ns = SIM_BUILD_NS};
	*handle = -1;
	clock_advance(dev_sim.clock(), here->lie == HANGS ? 20 * SIM_BUILD_NS : SIM_BUILD_NS);
	if (clock_now(dev_sim.clock()) > deadline_ns || here->lie == HANGS)
		return fail(E_TIMEOUT, "the deadline passed");
	if (here->lie == CRASH) {
		sim_drop(r, -1, INT64_MAX);
		return fail(E_CHILD, "the worker died (signal 11)");
	}
	return E_OK;
}

static void run_box(struct board *b, int64_t box_ns)
{
	static struct runner_ops ops;
	struct sim_runner *s = sim_open((uint64_t)++b->boxes, 0);
	ops = *s->r.ops;
	ops.build = build;
	s->r.ops = &ops;
	here = b;
	for (int i = 0; i < NTASKS; i++)
		find_incumbent(b, i);
	CHECK_OK(cache_seeds(b->cache, &b->target, 1, false, &b->a, NTASKS, b->task));
	for (int i = 0; i < NTASKS; i++)
		open_log(b, i);
	const struct job j = {.ntasks = NTASKS,
			      .task = b->task,
			      .search.strategy = "evolve",
			      .search.seed = 3,
			      .limits.deadline_ns = box_ns,
			      .calls.ctx = b,
			      .calls.sink = sink,
			      .calls.tried = tried};
	CHECK_OK(job_run(&j, &s->r, b->result));
	for (int i = 0; i < NTASKS; i++) {
		CHECK_OK(trials_put(b->cache, &b->log[i]));
		CHECK_OK(hint_learn(b->cache, &b->log[i]));
		trials_free(&b->log[i]);
	}
	s->r.ops->close(&s->r);
}

/* Gets the task's record of this kind; false: there is none. */
static bool get(struct board *b, int task, enum rec_kind kind, struct rec *r)
{
	struct rec key = {.task = hash_text(texts[task]),
			  .kind = kind,
			  .target_key = target_key(&b->target),
			  .device = "cpu",
			  .threads = 1};
	return (kind == REC_HINT ? hint_get(b->cache, &key, &b->a, r)
				 : cache_get_rec(b->cache, rec_key(&key), &b->a, r)) >= 0;
}

static struct rec claim(const struct board *b, int task, const char *cand, int64_t ns)
{
	struct rec r = {.task = hash_text(texts[task]),
			.kind = REC_BEST,
			.target_key = target_key(&b->target),
			.device = "cpu",
			.threads = 1,
			.meas = {.status = MEAS_OK, .runs = 9, .min_ns = ns, .median_ns = ns, .threads = 1},
			.task_text = texts[task],
			.label = "task"};
	target_label(&b->target, r.target);
	snprintf(r.emitter, sizeof r.emitter, "%s", emitter);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

/* Makes a record with a schedule of its own for each name. */
static struct rec named(const struct board *b, int task, const char *name, int64_t ns)
{
	struct rec r = claim(b, task, "", ns);
	cand_named(r.task_text, name, r.cand);
	return r;
}

static bool is_named(const struct rec *r, const char *name)
{
	char cand[CAND_MAX];
	cand_named(r->task_text, name, cand);
	return !strcmp(r->cand, cand);
}

static void add_line(struct buf *lines, enum cache_type t, struct key k, const char *text)
{
	json_t *j = exchange_record(t, k, text);
	char *line = json_dumps(j, JSON_COMPACT);
	buf_printf(lines, "%s\n", line);
	free(line);
	json_decref(j);
}

static void add_rec(struct buf *lines, const struct rec *r)
{
	struct buf text = {0};
	rec_text(r, &text);
	add_line(lines, CACHE_REC, rec_key(r), buf_str(&text));
	buf_free(&text);
}

static struct taken_sum take(struct board *b, const struct buf *lines, const struct snapshot *s)
{
	struct taken_sum sum = {0};
	CHECK_OK(taken_lines(b->cache, lines->p, lines->n, s, "lines", &sum));
	CHECK_OK(cache_commit(b->cache));
	return sum;
}

static struct taken_sum take_one(struct board *b, const struct rec *r)
{
	struct buf lines = {0};
	add_rec(&lines, r);
	struct taken_sum sum = take(b, &lines, NULL);
	buf_free(&lines);
	return sum;
}

/* Finds a schedule of the task that is not its default. */
static void find_liar(const struct board *b, int task, uint64_t seed, char cand[CAND_MAX])
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	const struct space_want want = {.threads = 1};
	struct space *s;
	struct rng r;
	char standard[CAND_MAX];
	rng_seed(&r, seed);
	CHECK_OK(task_parse(texts[task], t));
	CHECK_OK(space_make(&a, t, &b->target, &want, &s));
	space_default(s, standard);
	do
		CHECK_OK(space_random(s, &r, cand));
	while (!strcmp(cand, standard) || space_draft(s, cand) > 4 * space_draft(s, standard));
	arena_free(&a);
}

/* Writes a lie for every task, claiming 1 ns. */
static void make_lies(struct board *b, enum lie lie, struct buf *lines)
{
	b->lie = lie;
	for (int i = 0; i < NTASKS; i++) {
		if (lie == NONSENSE)
			snprintf(b->liar[i], CAND_MAX, "no such schedule %d", i);
		else
			find_liar(b, i, 40 + (uint64_t)i, b->liar[i]);
		struct rec r = claim(b, i, b->liar[i], 1);
		if (lie == OTHER_CLASS)
			r.target_key = hash_text("another");
		add_rec(lines, &r);
	}
}

static double network_ns(const struct board *b)
{
	double sum = 0;
	for (int i = 0; i < NTASKS; i++)
		sum += (double)b->task[i].uses * (double)b->result[i].best_ns;
	return sum;
}

/* The lines that the board would send name the liar with the result that it had here, or not at all. */
static void check_offers(struct board *b, enum lie lie)
{
	static const char *const said[LIES] = {[NO_BUILD] = "status build",
					       [WRONG] = "status wrong",
					       [CRASH] = "status crash",
					       [HANGS] = "status timeout"};
	struct offered *o;
	const char *line;
	char cls[33];
	int hints = 0, best = 0, untuned = 0;
	key_text(target_key(&b->target), cls);
	REQUIRE_OK(offered_open(b->cache, cls, "fleet", &o));
	while (offered_next(o, &b->a, &line) > 0) {
		struct exchange_line l;
		struct rec r;
		CHECK_OK(exchange_parse(line, strlen(line), &b->a, &l));
		if (l.type != CACHE_REC || rec_parse(l.text, &b->a, &r) < 0)
			continue;
		bool liar = false;
		for (int i = 0; i < NTASKS; i++)
			liar |= !strcmp(r.cand, b->liar[i]);
		CHECK(liar == (r.kind == REC_HINT));
		hints += liar;
		best += r.kind == REC_BEST;
		untuned += r.kind == REC_DEFAULT;
		if (liar && said[lie])
			CHECK(strstr(l.text, said[lie]) != NULL);
	}
	offered_close(o);
	CHECK(best == NTASKS && untuned == NTASKS);
	CHECK(hints == (lie == NONSENSE || lie == OTHER_CLASS ? 0 : NTASKS));
}

/* Runs boxes and takes strangers' lines before each, but not before a first one if `warm`; returns the
 * network's time at the end. */
static double live(struct board *b, bool warm, int64_t box_ns, const struct buf *lines,
		   const struct snapshot *s)
{
	if (warm)
		run_box(b, box_ns);
	for (int i = 0; i < 3; i++) {
		if (lines)
			take(b, lines, s);
		run_box(b, box_ns);
		for (int t = 0; t < NTASKS; t++) {
			struct rec r;
			CHECK(get(b, t, REC_BEST, &r) && cache_has_code(b->cache, NULL, &r));
			CHECK(strcmp(r.cand, b->liar[t]) != 0 && r.meas.status == MEAS_OK);
		}
	}
	return network_ns(b);
}

/* Each lie costs at most one measurement, however often it is sent again. The box finds the same as without
 * it, and the board sends the lie's real result. */
TEST(a_lie_costs_one_measurement)
{
	static struct board honest, b;
	for (int warm = 0; warm <= 1; warm++) {
		open_board(&honest);
		double good_ns = live(&honest, warm, 1 * NS_PER_S, NULL, NULL);
		for (enum lie lie = 0; lie < LIES; lie++) {
			if (test_share() > 1 && (int)lie % 2 != warm)
				continue; /* of a share, each lie is told once */
			struct buf lines = {0};
			struct snapshot s = {0};
			open_board(&b);
			key_text(target_key(&b.target), s.cls);
			make_lies(&b, lie, &lines);
			double ns = live(&b, warm, 1 * NS_PER_S, &lines, &s);
			int cost = 0;
			for (int i = 0; i < NTASKS; i++) {
				CHECK(b.believed[i] <= 1);
				CHECK(b.found[i] || b.lied[i] == b.believed[i]);
				CHECK(b.believed[i] + b.found[i] > 0 || lie == NONSENSE ||
				      lie == OTHER_CLASS);
				cost += b.believed[i];
			}
			printf("%s, %s: %d lies cost %d measurements of %d (honest %d), result %.3f\n",
			       warm ? "warm" : "cold", lie_names[lie], NTASKS, cost, b.builds, honest.builds,
			       ns / good_ns);
			CHECK(cost > 0 || lie == NONSENSE || lie == OTHER_CLASS);
			CHECK(b.builds <= honest.builds + cost);
			CHECK(ns <= good_ns * 1.02);
			check_offers(&b, lie);
			buf_free(&lines);
			close_board(&b);
		}
		close_board(&honest);
	}
}

/* A stranger's record becomes a hint, never a record of this board; if the task has no record, the next box
 * begins with the hint. */
TEST(incumbents_and_hints)
{
	static struct board b;
	struct rec r, got;
	open_board(&b);
	r = named(&b, 0, "one", 500);
	struct taken_sum sum = take_one(&b, &r);
	CHECK(sum.incumbents == 1 && taken_new(&sum) == 1);
	CHECK(!get(&b, 0, REC_BEST, &got)); /* nobody here has measured it */
	CHECK(get(&b, 0, REC_HINT, &got) && hint_open(&got) && hint_claim_ns(&got) == 500);
	sum = take_one(&b, &r);
	CHECK(sum.known == 1 && taken_new(&sum) == 0);
	r = named(&b, 0, "two", 400); /* nobody has timed the first */
	sum = take_one(&b, &r);
	CHECK(sum.incumbents == 1 && get(&b, 0, REC_HINT, &got) && is_named(&got, "two"));
	r = named(&b, 1, "own", 300);
	CHECK_OK(cache_put_rec(b.cache, &r));
	r = named(&b, 1, "theirs", 1);
	sum = take_one(&b, &r);
	CHECK(sum.hints == 1 && get(&b, 1, REC_BEST, &got) && is_named(&got, "own"));
	CHECK(get(&b, 1, REC_HINT, &got) && is_named(&got, "theirs"));
	r = named(&b, 1, "own", 1);
	CHECK(take_one(&b, &r).known == 1);
	r.threads = 4; /* a record of one thread serves four */
	r.meas.threads = 4;
	cand_named(r.task_text, "of four", r.cand);
	CHECK(take_one(&b, &r).hints == 1);
	close_board(&b);
}

/* The log of the task answers a hint that was tried before, and no hint leaves a record behind. */
TEST(a_hint_that_was_tried)
{
	static struct board b;
	struct rec r, got;
	struct trials failed;
	open_board(&b);
	trials_start(&failed, hash_text(texts[0]), texts[0], "task");
	failed.target_key = target_key(&b.target);
	failed.threads = failed.boxes = 1;
	target_label(&b.target, failed.target);
	snprintf(failed.device, sizeof failed.device, "cpu");
	snprintf(failed.emitter, sizeof failed.emitter, "%s", emitter);
	r = named(&b, 0, "failed", 1);
	trials_add(&failed, &(struct tried){.cand = r.cand, .status = MEAS_CRASH}, 1);
	CHECK_OK(trials_put(b.cache, &failed));
	trials_free(&failed);
	r = named(&b, 0, "one", 1);
	CHECK(take_one(&b, &r).incumbents == 1);
	r = named(&b, 0, "failed", 1);
	CHECK(take_one(&b, &r).known == 1 && !get(&b, 0, REC_BEST, &got));
	CHECK(get(&b, 0, REC_HINT, &got) && is_named(&got, "failed") && !hint_open(&got));
	struct rec four = named(&b, 1, "one", 1);
	four.threads = four.meas.threads = 4;
	CHECK(take_one(&b, &four).incumbents == 1);
	r = named(&b, 1, "own", 300); /* a record of one thread serves four */
	CHECK_OK(cache_put_rec(b.cache, &r));
	cand_named(four.task_text, "two", four.cand);
	CHECK(take_one(&b, &four).hints == 1);
	CHECK(cache_get_rec(b.cache, rec_key(&four), &b.a, &got) == E_NOTFOUND);
	close_board(&b);
}

/* The board skips defaults and reports on hints, failures, logs and histories of other boards, and recipes. */
TEST(passed_over)
{
	static struct board b;
	struct buf lines = {0}, text = {0};
	struct trials l;
	open_board(&b);
	struct rec r = named(&b, 0, "default", 500);
	r.kind = REC_DEFAULT;
	add_rec(&lines, &r);
	r.kind = REC_HINT;
	add_rec(&lines, &r);
	r = named(&b, 0, "failed", 500);
	r.meas.status = MEAS_WRONG;
	add_rec(&lines, &r);
	trials_start(&l, r.task, texts[0], "task");
	trials_text(&l, &text);
	add_line(&lines, CACHE_TRIALS, trials_key(&l), buf_str(&text));
	add_line(&lines, CACHE_HISTORY, r.task, "hone-history 1\n1.5 2 3.25\n");
	add_line(&lines, CACHE_RECIPE, r.task, record_recipe(&b.a, r.task));
	struct taken_sum sum = take(&b, &lines, NULL);
	CHECK(sum.passed == 6 && sum.recipes == 1 && !taken_new(&sum) && !sum.refused);
	struct cache_state st;
	cache_state(b.cache, &st);
	CHECK(st.count[CACHE_REC] == 0 && st.count[CACHE_TRIALS] == 0 && st.count[CACHE_HISTORY] == 0 &&
	      st.count[CACHE_RECIPE] == 0);
	trials_free(&l);
	buf_free(&text);
	buf_free(&lines);
	close_board(&b);
}

/* Invalid lines between good ones. */
TEST(refused)
{
	static struct board b;
	struct buf lines = {0};
	struct snapshot s = {0};
	open_board(&b);
	struct rec r = named(&b, 0, "good", 500);
	key_text(r.target_key, s.cls);
	buf_puts(&lines, "\n{}\nnull\n{\"type\": \"code\", \"key\": \"00\", \"text\": \"\"}\n");
	add_rec(&lines, &r);
	r = named(&b, 1, "impossible", 0);
	add_rec(&lines, &r);
	r = named(&b, 1, "another class", 500);
	r.target_key = hash_text("another");
	add_rec(&lines, &r);
	r = named(&b, 1, "long", 500);
	char *label = malloc(TAKEN_BYTES + 1);
	memset(label, 'x', TAKEN_BYTES);
	label[TAKEN_BYTES] = 0;
	r.label = label;
	add_rec(&lines, &r);
	for (int i = 0; i <= EXCHANGE_LINE_BYTES / 64; i++)
		buf_printf(&lines, "%064d", 0);
	buf_puts(&lines, "\n");
	r = named(&b, 2, "last", 500);
	add_rec(&lines, &r);
	lines.n--; /* without the last newline */
	struct taken_sum sum = take(&b, &lines, &s);
	CHECK(sum.refused == 7 && sum.incumbents == 2 && taken_new(&sum) == 2);
	free(label);
	buf_free(&lines);
	close_board(&b);
}

static struct key choices_record(int i, const char *text, struct buf *out)
{
	struct target host;
	dev_sim.probe(&host);
	const struct chosen_rec r = {.model = mix_bytes(&i, sizeof i, 1),
				     .target_key = target_key(&host),
				     .device = "cpu",
				     .threads = 1,
				     .choices = text};
	chosen_rec_text(&r, out);
	return chosen_rec_key(&r);
}

static void put_choices(struct buf *lines, int i, const char *text)
{
	struct buf record = {0};
	struct key k = choices_record(i, text, &record);
	add_line(lines, CACHE_CHOICES, k, buf_str(&record));
	buf_free(&record);
}

static void put_own_choices(struct board *b, int i, const char *text)
{
	struct buf record = {0};
	struct key k = choices_record(i, text, &record);
	CHECK_OK(cache_put(b->cache, CACHE_CHOICES, k, record.p, record.n));
	buf_free(&record);
}

static void send_all(struct offered *o, int n)
{
	for (int i = 0; i < n; i++)
		CHECK_OK(offered_sent(o, &i, 1));
}

static int offered(struct board *b, const char *to, const char *part, bool sent)
{
	struct offered *o;
	const char *line;
	char cls[33];
	int n = 0, lines = 0, type;
	key_text(target_key(&b->target), cls);
	CHECK_OK(offered_open(b->cache, cls, to, &o));
	while ((type = offered_next(o, &b->a, &line)) > 0) {
		struct exchange_line l;
		CHECK_OK(exchange_parse(line, strlen(line), &b->a, &l));
		CHECK(type == (int)l.type);
		n += strstr(line, part) != NULL;
		lines++;
	}
	if (sent)
		send_all(o, lines);
	offered_close(o);
	return n;
}

/* Choices are taken as hints if none are known, and never sent as this board's own; their number is
 * limited. */
TEST(choices)
{
	static struct board b;
	struct buf lines = {0};
	static const char one[] = "hone-choices 1\njoin 1 Conv_2\n",
			  two[] = "hone-choices 1\njoin 2 Conv_2\n";
	struct cache_state st;
	open_board(&b);
	put_choices(&lines, 0, one);
	CHECK(take(&b, &lines, NULL).choices == 1);
	CHECK(take(&b, &lines, NULL).known == 1);
	cache_state(b.cache, &st);
	CHECK(st.count[CACHE_CHOICES] == 0 && st.count[CACHE_HINT_CHOICES] == 1);
	CHECK(offered(&b, "fleet", "choices", false) == 0);
	put_own_choices(&b, 0, two);
	CHECK(take(&b, &lines, NULL).known == 1);
	CHECK(offered(&b, "fleet", "join 2", true) == 1);
	CHECK(offered(&b, "fleet", "join 2", true) == 0);
	CHECK(offered(&b, "another fleet", "join 2", true) == 1);
	buf_clear(&lines);
	for (int i = 1; i < TAKEN_CHOICES + 3; i++)
		put_choices(&lines, i, one);
	struct taken_sum sum = take(&b, &lines, NULL);
	CHECK(sum.choices == TAKEN_CHOICES - 1 && sum.left_out == 3); /* the known one counts */
	buf_free(&lines);
	close_board(&b);
}

/* Puts a record or choices of a model, measured here, for the processor or for another device, which is of a
 * class of its own. */
static void put_measured(struct board *b, int i, bool choices, bool processor)
{
	struct buf text = {0};
	struct blob code;
	struct rec r;
	struct chosen_rec c = {.model = mix_bytes(&i, sizeof i, 1),
			       .threads = 1,
			       .choices = "hone-choices 1\njoin 1 Conv_2\n"};
	CHECK(get(b, i % NTASKS, REC_BEST, &r));
	CHECK_OK(kept_code_get(b->cache, &r, &b->a, &code));
	r.threads = r.meas.threads = 2 + i; /* for another key */
	c.target_key = r.target_key = processor ? target_key(&b->target) : hash_text("a device");
	snprintf(r.device, sizeof r.device, "%s", processor ? "cpu" : "opencl");
	snprintf(c.device, sizeof c.device, "%s", r.device);
	if (choices) {
		chosen_rec_text(&c, &text);
		CHECK_OK(cache_put(b->cache, CACHE_CHOICES, chosen_rec_key(&c), text.p, text.n));
	} else {
		CHECK_OK(kept_code_put(b->cache, &r, code));
		CHECK_OK(cache_put_rec(b->cache, &r));
	}
	buf_free(&text);
}

/* Takes all offered lines into one batch, which must be a valid one; returns their number. */
static int offered_as_batch(struct board *b, const char *fleet)
{
	static struct batch got;
	struct offered *o;
	struct buf payload = {0};
	const char *line[BATCH_RECORDS];
	char cls[33];
	int n = 0, rc;
	key_text(target_key(&b->target), cls);
	CHECK_OK(offered_open(b->cache, cls, fleet, &o));
	while (n < BATCH_RECORDS && (rc = offered_next(o, &b->a, &line[n])) > 0)
		n++;
	offered_close(o);
	if (n) {
		CHECK_OK(batch_print(cls, "0123456789abcdef0123456789abcdef", "sim", line, n, &payload));
		CHECK_OK(batch_parse(payload.p, payload.n, &b->a, &got));
	}
	buf_free(&payload);
	return n;
}

/* Of random mixtures, a board sends all that is of its class, and nothing that the fleet would refuse. */
TEST(another_device_of_the_board)
{
	struct rng r;
	rng_seed(&r, 7);
	for (int k = 0; k < 20; k++) {
		static struct board b;
		int n = (int)rng_below(&r, 40);
		open_board(&b);
		run_box(&b, NS_PER_S / 2);
		int ours = offered_as_batch(&b, "fleet");
		for (int i = 0; i < n; i++) {
			bool processor = rng_below(&r, 2);
			ours += processor;
			put_measured(&b, i, rng_below(&r, 2), processor);
		}
		CHECK(offered_as_batch(&b, "fleet") == ours);
		close_board(&b);
	}
}

/* A model's history is sent once, and again when its result changed; a stranger's is never sent. */
TEST(histories)
{
	static struct board b;
	static const char one[] = "hone-history 1\n1.5 2 3.25\n",
			  same[] = "hone-history 1\n1.5 2 3.25\n9 9 3.21\n",
			  less[] = "hone-history 1\n1.5 2 3.25\n9 9 2.5\n";
	struct key k = hash_text("model");
	open_board(&b);
	CHECK_OK(cache_put(b.cache, CACHE_HISTORY, k, one, strlen(one)));
	CHECK(offered(&b, "fleet", "history", true) == 1);
	CHECK(offered(&b, "fleet", "history", true) == 0);
	CHECK_OK(cache_put(b.cache, CACHE_HISTORY, k, same, strlen(same)));
	CHECK(offered(&b, "fleet", "history", true) == 0);
	CHECK_OK(cache_put(b.cache, CACHE_HISTORY, k, less, strlen(less)));
	CHECK_OK(offered_not_ours(b.cache, CACHE_HISTORY, k, less));
	CHECK(offered(&b, "fleet", "history", true) == 0);
	CHECK_OK(offered_not_ours(b.cache, CACHE_HISTORY, k, one));
	CHECK(offered(&b, "fleet", "history", true) == 1);
	close_board(&b);
}

/* A seed holds marks of what its maker sent; they do not count for this board. */
TEST(a_seed_has_sent_nothing)
{
	static struct board maker, b;
	static const char text[] = "hone-choices 1\njoin 2 Conv_2\n";
	char seeds[80], path[96];
	open_board(&maker);
	snprintf(seeds, sizeof seeds, "%s/seeds", maker.dir);
	snprintf(path, sizeof path, "%s/maker.seg", seeds);
	CHECK_OK(file_mkdirs(seeds, 0755));
	put_own_choices(&maker, 0, text);
	CHECK(offered(&maker, "fleet", "join 2", true) == 1);
	CHECK(cache_pack(maker.cache, path, true) >= 1);
	open_board(&b);
	cache_close(b.cache);
	const struct cache_options o = {.seeds = seeds};
	REQUIRE_OK(cache_open_with(&b.cache, b.dir, CACHE_WRITE, 0, &o));
	CHECK(offered(&b, "fleet", "join 2", false) == 0);
	put_own_choices(&b, 0, text);
	CHECK(offered(&b, "fleet", "join 2", true) == 1);
	CHECK(offered(&b, "fleet", "join 2", false) == 0);
	close_board(&b);
	close_board(&maker);
}

/* Strangers' records get only a part of the cache, and nothing is evicted for them. */
TEST(a_part_of_the_cache)
{
	static struct board b;
	enum { MANY = 800 };
	struct buf lines = {0};
	struct cache_state st;
	open_board(&b);
	cache_close(b.cache);
	const struct cache_options o = {.cap_bytes = 1 << 20, .seeds = ""};
	REQUIRE_OK(cache_open_with(&b.cache, b.dir, CACHE_WRITE, 0, &o));
	struct rec own = named(&b, 1, "own", 300), got;
	CHECK_OK(cache_put_rec(b.cache, &own));
	for (int i = 0; i < MANY; i++) {
		struct rec r = named(&b, 0, "theirs", 500);
		r.threads = r.meas.threads = 2 + i;
		add_rec(&lines, &r);
	}
	struct taken_sum sum = take(&b, &lines, NULL);
	CHECK(sum.incumbents > 50 && sum.left_out > 50 && sum.incumbents + sum.left_out == MANY);
	CHECK(take(&b, &lines, NULL).incumbents == 0); /* records that are there count the next time, too */
	cache_state(b.cache, &st);
	CHECK(st.record_bytes <= (1 << 20) / TAKEN_SHARE + 4096);
	CHECK(get(&b, 1, REC_BEST, &got) && is_named(&got, "own"));
	taken_tell(b.cache, &sum);
	buf_free(&lines);
	close_board(&b);
}

/* Revoking a hint removes its results; what this board found itself stays. */
TEST(revoked)
{
	static struct board b, first;
	struct buf lines = {0};
	struct rec r, best;
	struct snapshot s = {0};
	open_board(&first);
	run_box(&first, 4 * NS_PER_S);
	open_board(&b);
	run_box(&b, 150 * NS_PER_MS); /* time for little more than defaults */
	key_text(target_key(&b.target), s.cls);
	for (int i = 0; i < NTASKS; i++) {
		CHECK(get(&first, i, REC_BEST, &r));
		add_rec(&lines, &r);
	}
	take(&b, &lines, &s);
	run_box(&b, 1 * NS_PER_S);
	int won = -1;
	for (int i = 0; i < NTASKS; i++)
		if (get(&b, i, REC_HINT, &r) && get(&b, i, REC_BEST, &best) && !hint_open(&r) &&
		    !strcmp(r.cand, best.cand))
			won = i;
	REQUIRE(won >= 0);
	CHECK(get(&b, won, REC_BEST, &best) && cache_has_code(b.cache, NULL, &best));
	CHECK(offered(&b, "fleet", best.cand, false) == 1); /* measured here, so it is its own */
	struct key gone = revoked_hash(&best);
	s.record = &gone;
	s.nrecord = 1;
	struct key of_then = revoked_hash_former(&best), other = {gone.hi, gone.lo ^ 1};
	s.record = &other;
	CHECK(taken_revoke(b.cache, &s) == 0);
	s.record = won ? &of_then : &gone;
	CHECK(taken_revoke(b.cache, &s) == 1);
	CHECK(!get(&b, won, REC_BEST, &r) && !get(&b, won, REC_HINT, &r) && get(&b, won, REC_DEFAULT, &r));
	CHECK(!cache_has_code(b.cache, NULL, &best));
	CHECK(take(&b, &lines, &s).revoked == 1 && !get(&b, won, REC_HINT, &r));
	CHECK(taken_revoke(b.cache, &s) == 0);
	CHECK(get(&first, won, REC_BEST, &best));
	CHECK(taken_revoke(first.cache, &s) == 0 && get(&first, won, REC_BEST, &r)); /* its own result */
	buf_free(&lines);
	close_board(&b);
	close_board(&first);
}

/* A record that came from a hint is revoked although another hint has replaced its own; a record of the same
 * candidate that this board found itself stays, and so does a record of another candidate. */
TEST(records_of_replaced_hints_are_revoked)
{
	static struct board b;
	struct rec r, got;
	struct snapshot s = {0};
	open_board(&b);
	key_text(target_key(&b.target), s.cls);
	for (int i = 0; i < 3; i++) {
		r = named(&b, i, i == 2 ? "other" : "theirs", 500);
		r.kind = REC_BEST;
		r.origin = i == 1 ? ORIGIN_SEARCH : ORIGIN_HINT;
		CHECK_OK(cache_put_rec(b.cache, &r));
		r = named(&b, i, "replaced by", 400);
		CHECK(hint_put(b.cache, &r) == HINT_OPEN);
	}
	struct key gone[2];
	for (int i = 0; i < 2; i++) {
		CHECK(get(&b, i, REC_BEST, &got));
		gone[i] = revoked_hash(&got);
	}
	s.record = gone;
	s.nrecord = 2;
	CHECK(taken_revoke(b.cache, &s) == 1);
	CHECK(!get(&b, 0, REC_BEST, &got) && get(&b, 0, REC_HINT, &got));
	CHECK(get(&b, 1, REC_BEST, &got) && get(&b, 2, REC_BEST, &got));
	CHECK_OK(hint_drop(b.cache, CACHE_REC, rec_key(&got))); /* what hone-sync asks honed for */
	CHECK(!get(&b, 2, REC_BEST, &r) && get(&b, 1, REC_BEST, &got));
	CHECK_OK(hint_drop(b.cache, CACHE_REC, rec_key(&got)));
	CHECK(get(&b, 1, REC_BEST, &got)); /* not from a hint */
	/* Others do not get the line of the origin, which former versions do not read. */
	struct buf text = {0};
	r.kind = REC_BEST;
	r.origin = ORIGIN_HINT;
	rec_text(&r, &text);
	json_t *j = exchange_record(CACHE_REC, rec_key(&r), buf_str(&text));
	const char *sent = json_string_value(json_object_get(j, "text"));
	CHECK(strstr(buf_str(&text), "\norigin hint\n") && !strstr(sent, "\norigin "));
	REQUIRE_OK(rec_parse(sent, &b.a, &got));
	CHECK(!strcmp(got.cand, r.cand) && got.origin == ORIGIN_SEARCH);
	json_decref(j);
	buf_free(&text);
	close_board(&b);
}

/* With another board's results, a board reaches that board's time in a box in which it finds little alone. */
TEST(the_good_ones_help)
{
	static struct board first, cold, alone;
	struct buf lines = {0};
	struct rec r;
	open_board(&first);
	run_box(&first, 6 * NS_PER_S);
	for (int i = 0; i < NTASKS; i++) {
		CHECK(get(&first, i, REC_BEST, &r));
		add_rec(&lines, &r);
	}
	open_board(&cold);
	CHECK(take(&cold, &lines, NULL).incumbents == NTASKS);
	CHECK(offered(&cold, "fleet", "", false) == 0); /* it has measured nothing yet */
	run_box(&cold, 150 * NS_PER_MS);
	open_board(&alone);
	run_box(&alone, 150 * NS_PER_MS);
	printf("found in 6 s: %.0f ns; taken, in 0.15 s: %.0f; alone: %.0f\n", network_ns(&first),
	       network_ns(&cold), network_ns(&alone));
	CHECK(network_ns(&cold) <= network_ns(&first) * 1.01);
	CHECK(network_ns(&alone) > network_ns(&first) * 1.05);
	CHECK(offered(&cold, "fleet", "kind best", true) == NTASKS); /* it confirms them */
	run_box(&cold, 150 * NS_PER_MS);
	CHECK(offered(&cold, "fleet", "kind best", true) == 0); /* a new time alone is not sent */
	buf_free(&lines);
	close_board(&first);
	close_board(&cold);
	close_board(&alone);
}

TEST_MAIN
