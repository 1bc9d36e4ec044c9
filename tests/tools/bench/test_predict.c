/* SPDX-License-Identifier: Apache-2.0 */
/* The deterministic parts of predictions: how often loops run is what the interpreter counts, the caches move
 * the bytes that a slow model of them moves, and the loops of machine code are found in disassembly. SEEDS=n
 * tries n random kernels. */
#include "tests/lib/kernel_cases.h"
#include "tools/bench/lru.h"
#include "tools/bench/machine.h"
#include "tools/bench/nest.h"
#include "tools/bench/predict.h"
#include "tools/bench/predict_board.h"
#include "tools/bench/predict_layers.h"
#include "tests/lib/scratch.h"

static uint64_t seeds(uint64_t n)
{
	const char *s = getenv("SEEDS");
	return s ? strtoull(s, NULL, 0) : n;
}

/* ---- counts against the interpreter's: each body gets statements that add 1 to an element of its own */

static void count_in(struct loops *l, int buf, int at, struct stmt **body)
{
	struct stmt *list = NULL, **end = &list, **old = l->tail;
	int one = lv_new(l, 1), v = lv_new(l, 1), sum = lv_new(l, 1);
	l->tail = &list;
	const struct mem m = {.buf = buf, .at = ix_c(l, at), .stride = 1};
	lv_load(l, v, m);
	lv_const(l, one, 1);
	lv_set(l, sum, V_ADD, v, one, -1, -1);
	lv_store(l, sum, m);
	while (*end)
		end = &(*end)->next;
	*end = *body;
	*body = list;
	l->tail = old;
}

struct touched {
	const struct loops *l;
	const int64_t *elems;
	double n;
	bool outside;
};

static void note(void *ctx, int buf, int64_t at, int64_t bytes, bool writes)
{
	struct touched *t = ctx;
	(void)writes;
	int64_t end = t->elems[buf] * (int64_t)dtype_bytes(t->l->buf[buf].dtype);
	t->n++;
	t->outside |= at < 0 || bytes <= 0 || at + bytes > end;
}

static bool has_condition(const struct stmt *s)
{
	for (; s; s = s->next)
		if (((s->op == ST_SET && s->vop == V_LOAD) || s->op == ST_STORE) &&
		    (s->mem.guard || s->mem.valid || (s->mem.stride != mem_group(&s->mem) && s->mem.stride)))
			return true;
		else if ((s->op == ST_FOR || s->op == ST_IF) &&
			 (has_condition(s->body) || has_condition(s->other)))
			return true;
	return false;
}

/* Walks and interprets one entry. */
static void check_counts(struct kcase *c, struct loops *l, struct manifest *m, int e)
{
	struct nest_list nest;
	void *bufs[CODE_MAX_BUFS + 1];
	int64_t elems[CODE_MAX_BUFS + 1], extent = code_extent(m, e, m->param);
	case_bind(c, m, bufs, elems);
	struct touched seen = {.l = l, .elems = elems};
	const struct nest_touch t = {note, &seen};
	REQUIRE_OK(nest_make(l, e, &c->a, &nest));
	REQUIRE_OK(nest_walk(l, e, m->param, bufs, 0, extent, &t, &nest));
	CHECK(!seen.outside);
	double accesses = 0;
	for (int i = 0; i < nest.n; i++)
		accesses += nest.node[i].runs * nest.node[i].accesses;
	CHECK(has_condition(l->entry[e].body) || accesses == seen.n);
	float *counts = guarded(&c->a, nest.n);
	int buf = loops_buf(l, "counts", BUF_OUT, DT_F32, ix_c(l, nest.n));
	bufs[buf] = counts;
	for (int i = 0; i < nest.n; i++) {
		struct nest_node *x = &nest.node[i];
		counts[i] = 0;
		struct stmt *s = (struct stmt *)x->s;
		count_in(l, buf, i,
			 x->kind == NEST_ENTRY  ? &l->entry[e].body
			 : x->kind == NEST_ELSE ? &s->other
						: &s->body);
	}
	REQUIRE_OK(loops_run(l, e, bufs, m->param, 0, extent));
	for (int i = 0; i < nest.n; i++)
		if ((double)counts[i] != nest.node[i].runs) {
			printf("node %d of %d runs %.0f times, counted %.0f\n", i, nest.n, (double)counts[i],
			       nest.node[i].runs);
			test_bad = 1;
		}
}

static void one_kernel(uint64_t seed, const struct target *tg)
{
	struct rng r;
	struct buf text = {0};
	struct kcase c;
	struct space *s;
	struct loops *l;
	struct manifest m;
	char cand[CAND_MAX];
	rng_seed(&r, seed);
	case_text(&text, &r);
	CHECK_OK(case_parse(&c, buf_str(&text), &r));
	CHECK_OK(space_make(&c.a, &c.t, tg, NULL, &s));
	space_default(s, cand);
	if (seed % 4)
		CHECK_OK(space_random(s, &r, cand));
	for (int e = 0; e < LOOPS_MAX_ENTRIES; e++) { /* each time anew, as counting changes the loops */
		int rc = lower(&c.t, cand, tg, &c.a, &l, &m);
		if (rc < 0 || e >= m.nentries)
			break;
		check_counts(&c, l, &m, e);
	}
	if (test_bad)
		printf("seed %llu: %s\n%s", (unsigned long long)seed, cand, buf_str(&text));
	buf_free(&text);
	arena_free(&c.a);
}

TEST(loops_run_as_often_as_the_interpreter_runs_them)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32)};
	for (uint64_t seed = 1; seed <= seeds(150) && !test_bad; seed++)
		one_kernel(seed, &tg[seed % 3]);
}

/* ---- caches */

/* Fully associative, by the time of the last use of every line. */
enum { LINES = 4096 };
struct slow {
	int64_t lines, used[LINES], clock;
	bool here[LINES], dirty[LINES];
	double in, out;
	struct slow *behind;
};

static void slow_touch(struct slow *s, int64_t line, bool writes)
{
	s->used[line] = ++s->clock;
	s->dirty[line] |= writes;
	if (s->here[line])
		return;
	s->here[line] = true;
	s->in++;
	int64_t n = 0, oldest = -1;
	for (int64_t i = 0; i < LINES; i++) {
		n += s->here[i];
		if (s->here[i] && (oldest < 0 || s->used[i] < s->used[oldest]))
			oldest = i;
	}
	if (n > s->lines) {
		s->here[oldest] = false;
		s->out += s->dirty[oldest];
		if (s->dirty[oldest] && s->behind)
			slow_touch(s->behind, oldest, true);
		s->dirty[oldest] = false;
	}
	if (s->behind)
		slow_touch(s->behind, line, false);
}

TEST(caches_move_what_a_slow_model_moves)
{
	struct rng r;
	rng_seed(&r, 3);
	for (uint64_t round = 0; round < seeds(40) / 4 + 4; round++) {
		struct arena a = {0};
		int first = 2 << rng_below(&r, 4), second = first << (1 + rng_below(&r, 3));
		const struct lru_level level[LRU_LEVELS] = {{first * 64, first}, {second * 64, second}};
		struct slow *two = ARENA_NEW(&a, struct slow), *one = ARENA_NEW(&a, struct slow);
		struct lru *c;
		REQUIRE_OK(lru_make(&a, level, 64, &c));
		one->lines = first, two->lines = second, one->behind = two;
		int64_t near = 0;
		for (int i = 0; i < 1500; i++) {
			near = rng_below(&r, 20) ? near + rng_below(&r, 3) : rng_below(&r, LINES - 40);
			int64_t line = (near + rng_below(&r, (uint32_t)second * 2)) % LINES;
			bool writes = rng_below(&r, 3) == 0;
			lru_touch(c, line * 64 + rng_below(&r, 60), 4, writes);
			slow_touch(one, line, writes);
		}
		struct lru_moved m = lru_moved(c);
		CHECK(m.in[0] == 64 * one->in && m.out[0] == 64 * one->out);
		CHECK(m.in[1] == 64 * two->in && m.out[1] == 64 * two->out);
		CHECK(m.in[2] == 0 && m.out[2] == 0 && m.out[0] > 0);
		arena_free(&a);
	}
}

TEST(caches_by_hand)
{
	struct arena a = {0};
	const struct lru_level level[LRU_LEVELS] = {{1024, 4}, {8192, 8}, {0, 0}};
	struct lru *c;
	REQUIRE_OK(lru_make(&a, level, 64, &c));
	lru_touch(c, 60, 8, false); /* two lines */
	CHECK(lru_moved(c).in[0] == 128 && lru_moved(c).in[1] == 128);
	lru_start(c);
	lru_touch(c, 0, 128, true);
	CHECK(lru_moved(c).in[0] == 0);
	lru_touch(c, 4096, 4096, false); /* pushes both out of the first, not of the second */
	CHECK(lru_moved(c).in[0] == 4096 && lru_moved(c).out[0] == 128 && lru_moved(c).out[1] == 0);
	lru_start(c);
	lru_touch(c, 0, 128, false);
	CHECK(lru_moved(c).in[0] == 128 && lru_moved(c).in[1] == 0);
	lru_drop(c, 0, 64);
	lru_start(c);
	lru_touch(c, 0, 128, false);
	CHECK(lru_moved(c).in[0] == 64 && lru_moved(c).in[1] == 64);
	CHECK_FAILS(lru_make(&a, level, 1, &c), E_USAGE, "line");
	arena_free(&a);
}

/* ---- loops of machine code */

static const char nested[] = "\nobject.o:\n\nDisassembly of section .text:\n\n0000000000000000 <k0>:\n"
			     "       0: movq %rdi, %rax\n"
			     "       3: jmp 0x10 <k0+0x10>\n"
			     "       8: addl $1, %ecx  # the outer loop's end is above its head\n"
			     "       c: cmpl $9, %ecx\n"
			     "       e: jge 0x30 <k0+0x30>\n"
			     "      10: xorl %edx, %edx\n"
			     "      14: mulps (%rax), %xmm0\n"
			     "      18: addl $1, %edx\n"
			     "      1c: jl 0x14 <k0+0x14>\n"
			     "      20: addps %xmm0, %xmm1\n"
			     "      24: jne 0x20 <k0+0x20>\n"
			     "      28: jmp 0x8 <k0+0x8>\n"
			     "      30: retq\n"
			     "0000000000000040 <k1>:\n"
			     "      40: retq\n";

TEST(loops_are_found_wherever_their_blocks_lie)
{
	struct arena a = {0};
	struct machine m;
	REQUIRE_OK(machine_parse(&a, nested, "k0", &m));
	CHECK(m.nlines == 13 && m.nloops == 4);
	CHECK(m.loop[1].parent == 0 && m.loop[2].parent == 1 && m.loop[3].parent == 1);
	CHECK(m.owner[0] == 0 && m.owner[2] == 1 && m.owner[5] == 1 && m.owner[6] == 2 && m.owner[9] == 3);
	CHECK(m.owner[11] == 1 && m.owner[12] == 0);
	CHECK(!strcmp(m.line[2].text, "addl $1, %ecx "));
	REQUIRE_OK(machine_parse(&a, nested, "k1", &m));
	CHECK(m.nlines == 1 && m.nloops == 1);
	CHECK_FAILS(machine_parse(&a, nested, "k2", &m), E_NOTFOUND, "no function k2");
	arena_free(&a);
}

/* Of two branches, the one with the lower address comes first. */
TEST(loops_in_branches_are_in_the_order_of_their_addresses)
{
	static const char text[] = "0000000000000000 <k0>:\n"
				   "       0: jne 0x10 <k0+0x10>\n"
				   "       4: mulps %xmm0, %xmm0\n"
				   "       8: jl 0x4 <k0+0x4>\n"
				   "       c: jmp 0x18 <k0+0x18>\n"
				   "      10: addps %xmm0, %xmm0\n"
				   "      14: jl 0x10 <k0+0x10>\n"
				   "      18: retq\n";
	struct arena a = {0};
	struct machine m;
	REQUIRE_OK(machine_parse(&a, text, "k0", &m));
	CHECK(m.nloops == 3 && m.loop[1].parent == 0 && m.loop[2].parent == 0);
	CHECK(m.owner[1] == 1 && m.owner[4] == 2 && m.owner[3] == 0);
	arena_free(&a);
}

TEST(jumps_of_arm)
{
	static const char text[] = "0000000000000000 <k0>:\n"
				   "       0: mov w8, #0x10                // =16\n"
				   "       4: fmla v0.4s, v1.4s, v2.s[1]\n"
				   "       8: bic w1, w2, w3\n"
				   "       c: tbz w8, #0x0, 0x14 <k0+0x14>\n"
				   "      10: bl 0x4 <k0+0x4>\n"
				   "      14: subs w8, w8, #0x1\n"
				   "      18: b.ne 0x4 <k0+0x4>\n"
				   "      1c: ret\n";
	struct arena a = {0};
	struct machine m;
	REQUIRE_OK(machine_parse(&a, text, "k0", &m));
	CHECK(m.nlines == 8 && m.nloops == 2);
	CHECK(m.line[3].jumps && m.line[3].to == 0x14 && m.line[6].to == 4);
	CHECK(!m.line[2].jumps && !m.line[4].jumps);
	CHECK(m.owner[0] == 0 && m.owner[1] == 1 && m.owner[6] == 1 && m.owner[7] == 0);
	CHECK(!strncmp(m.line[0].text, "mov w8, #0x10", 13));
	arena_free(&a);
}

/* ---- arithmetic, layers, boards */

TEST(a_prediction_by_hand)
{
	const struct predict_cpu cpu = {.mhz = 2000, .gbs = {40, 20, 0, 4}};
	const struct predict_work w = {.cycles = 3e6, .bytes = {40e6, 0, 4e6}};
	const struct predict_constants sum = {1, {.5, 1, 1}, 1}, most = {1, {.5, 1, 1}, 100};
	double both = predict_ns(&w, &cpu, &sum), larger = predict_ns(&w, &cpu, &most);
	CHECK(fabs(both - (1.5e6 + 1e6 + 1e6)) < 1); /* core, L2, memory */
	CHECK(larger >= 2e6 && larger < 2.02e6);     /* the bytes alone, behind which the core hides */
}

TEST(layers_are_tasks)
{
	char name[64], text[LAYER_TEXT], names[64][64];
	int n = 0;
	for (; predict_layer(n, name, text); n++) {
		struct task t;
		CHECK_OK(task_parse(text, &t));
		CHECK_OK(task_check(&t));
		for (int i = 0; i < n; i++)
			CHECK(strcmp(names[i], name));
		memcpy(names[n], name, sizeof name);
	}
	CHECK(n == 40);
}

static int wrong_board(const char *text)
{
	struct predict_cpu cpu;
	char path[256], dir[256];
	snprintf(path, sizeof path, "%s", scratch("odd.conf"));
	snprintf(dir, sizeof dir, "%s", path);
	*strrchr(dir, '/') = 0;
	CHECK_OK(file_write_soon(path, text, strlen(text)));
	const char *name = strrchr(path, '/') + 1;
	char board[64];
	snprintf(board, sizeof board, "%.*s", (int)strlen(name) - 5, name);
	return predict_board(dir, board, &cpu);
}

#define BOARD "[caches]\nl1 = 32\n[build]\ntriple = aarch64-linux-gnu\n[predict]\n"
#define GOOD BOARD "core = cortex-a72\nmodel = cortex-a72\nmhz = 1500\nflops = 8\n"

TEST(boards_are_read)
{
	struct arena a = {0};
	struct predict_cpu cpu;
	const char *names[MOST_BOARDS];
	int n = predict_boards("configs/boards", &a, names), found = 0;
	CHECK(n >= 8);
	for (int i = 0; i < n; i++)
		found += !strcmp(names[i], "rpi4");
	CHECK(found == 1);
	CHECK_OK(predict_board("configs/boards", "rpi4", &cpu));
	CHECK(cpu.mhz == 1800 && cpu.target.l2_bytes == 1 << 20 && !cpu.target.l3_bytes && cpu.gbs[3] > 0);
	CHECK(!strcmp(cpu.target.cpu, "cortex-a72") && cpu.target.lanes == 4);
	CHECK(!cpu.target.schedule[0]);
	CHECK_OK(predict_board("configs/boards", "rk3588", &cpu)); /* of the cluster that `core` names */
	CHECK(cpu.target.l1_bytes == 64 << 10 && cpu.target.l2_bytes == 512 << 10 &&
	      cpu.target.l3_bytes == 3072 << 10 && !strcmp(cpu.target.schedule, "neoverse-n1"));
	CHECK_FAILS(predict_board("configs/boards", "x86", &cpu), E_NOTFOUND, "no section [predict]");
	CHECK_FAILS(predict_board("configs/boards", "nowhere", &cpu), E_NOTFOUND, "nowhere");
	CHECK_FAILS(predict_board("configs/boards", "../boards/rpi4", &cpu), E_NOTFOUND, "no board");
	CHECK_OK(wrong_board(GOOD "gbs = 28 14 0 4\n"));
	CHECK_FAILS(wrong_board(GOOD), E_CORRUPT, "needs");
	CHECK_FAILS(wrong_board(strstr(GOOD "gbs = 28 14 0 4\n", "[build]")), E_CORRUPT, "caches");
	CHECK_FAILS(wrong_board(GOOD "gbs = 28 14 0\n"), E_CORRUPT, ":10: the value is wrong");
	CHECK_FAILS(wrong_board(GOOD "gbs = 28 14 0 4\nmhz = 1e9\n"), E_CORRUPT, ":11: the value is wrong");
	CHECK_FAILS(wrong_board(BOARD "core = pdp-11\nmodel = x\nmhz = 1500\nflops = 8\ngbs = 1 1 0 1\n"),
		    E_UNSUPPORTED, "pdp-11");
	arena_free(&a);
}

TEST_MAIN
