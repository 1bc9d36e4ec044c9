/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of threads in the interpreter and the checker: what the statements mean, random programs, and
 * programs that lack a barrier or a wait. SEED=n runs one program, SEEDS=n changes their number. */
#include "tests/lib/test.h"
#include "tests/lib/threads_program.h"

#include <stdlib.h>

static uint64_t seeds(uint64_t usual, uint64_t *first)
{
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	*first = from ? strtoull(from, NULL, 0) : 1;
	return from ? 1 : count ? strtoull(count, NULL, 0) : usual;
}

TEST(random_programs_keep_the_rules)
{
	struct threads_maker m = {0};
	uint64_t first, n = seeds(60, &first);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		random_threads(&m, seed);
		fill_threads_memory(&m);
		if (loops_check(&l) < 0 || interpret_threads(&m) < 0)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		REQUIRE_OK(loops_check(&l));
		CHECK(interpret_threads(&m) == E_OK);
	}
}

/* Removes the n-th barrier or wait of a list, counted in *at; returns whether it did. */
static bool remove_meeting(struct stmt **list, int n, int *at)
{
	for (; *list; list = &(*list)->next) {
		struct stmt *s = *list;
		if ((s->op == ST_BARRIER || s->op == ST_WAIT) && (*at)++ == n) {
			*list = s->next;
			return true;
		}
		if (remove_meeting(&s->body, n, at) || remove_meeting(&s->other, n, at))
			return true;
	}
	return false;
}

/* A wait for one group more than the program's, which lets a copy be read too early. */
static bool weaken_wait(struct stmt *s)
{
	for (; s; s = s->next) {
		if (s->op == ST_WAIT) {
			s->s32++;
			return true;
		}
		if (weaken_wait(s->body) || weaken_wait(s->other))
			return true;
	}
	return false;
}

TEST(programs_without_a_barrier_or_a_wait_are_found)
{
	struct threads_maker m = {0};
	uint64_t first, n = seeds(30, &first);
	int found = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++)
		for (int k = 0;; k++) {
			int at = 0;
			random_threads(&m, seed);
			fill_threads_memory(&m);
			if (!remove_meeting(&l.entry[0].body, k, &at))
				break;
			REQUIRE_OK(loops_check(&l));
			int rc = interpret_threads(&m);
			if (rc != E_CORRUPT)
				printf("seed %llu, meeting %d\n", (unsigned long long)seed, k);
			CHECK(rc == E_CORRUPT);
			found++;
		}
	CHECK(test_bad || found > 2 * (int)n);
}

TEST(waits_for_too_few_groups_are_found)
{
	struct threads_maker m = {0};
	uint64_t first, n = seeds(30, &first);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		random_threads(&m, seed);
		fill_threads_memory(&m);
		if (weaken_wait(l.entry[0].body))
			CHECK(interpret_threads(&m) == E_CORRUPT);
	}
}

/* A block of 64 threads with s, t: 64 shared floats and integers, x: 256 floats, o: 64. */
static const struct ix *block, *thread;

static void begin(int threads)
{
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	loops_buf(&l, "x", BUF_IN, DT_F32, c(256));
	loops_buf(&l, "o", BUF_OUT, DT_F32, c(256));
	loops_buf(&l, "s", BUF_SHARED, DT_F32, c(64));
	loops_entry_threads(&l, c(1), threads, &thread);
	block = ix_var(&l, l.entry[0].var);
}

enum { X, O, S };

static struct mem at(int buf, const struct ix *x)
{
	return (struct mem){.buf = buf, .at = x, .stride = 1};
}

static int end(void)
{
	loops_entry_end(&l);
	return loops_check(&l);
}

static float x[256], o[256];

static int run(void)
{
	void *bufs[] = {x, o};
	for (int i = 0; i < 256; i++) {
		x[i] = (float)i;
		o[i] = -1;
	}
	return loops_run(&l, 0, bufs, NULL, 0, 1);
}

TEST(a_copy_takes_valid_elements_and_zeros)
{
	begin(16);
	struct mem from = at(X, plus(times(thread, 4), c(8)));
	from.valid = ix_sub(&l, c(37), times(thread, 4));
	lv_copy(&l, S, times(thread, 4), from, 4);
	lv_commit(&l);
	lv_wait(&l, 0);
	lv_barrier(&l);
	int v = lv_new(&l, 4);
	lv_load(&l, v, at(S, times(ix_sub(&l, c(15), thread), 4)));
	lv_store(&l, v, at(O, times(thread, 4)));
	REQUIRE_OK(end());
	REQUIRE_OK(run());
	for (int i = 0; i < 64; i++) {
		int from_thread = 15 - i / 4, e = from_thread * 4 + i % 4;
		CHECK(o[i] == (e < 37 ? (float)(e + 8) : 0));
	}
}

TEST(a_shuffle_swaps_threads)
{
	begin(64);
	int v = lv_new(&l, 1);
	lv_load(&l, v, at(X, thread));
	lv_shuffle(&l, v, v, 5);
	lv_store(&l, v, at(O, thread));
	REQUIRE_OK(end());
	REQUIRE_OK(run());
	for (int i = 0; i < 64; i++)
		CHECK(o[i] == (float)(i ^ 5));
	struct buf text = {0};
	loops_print(&l, &text);
	CHECK(strstr(buf_str(&text), "shuf v0 5") && strstr(buf_str(&text), "threads i1 to 64"));
	buf_free(&text);
}

/* Two threads store one element of an output. */
TEST(outputs_that_two_threads_store_are_found)
{
	begin(32);
	int v = lv_new(&l, 1);
	lv_const(&l, v, 1);
	lv_store(&l, v, at(O, ix_div(&l, thread, c(2))));
	REQUIRE_OK(end());
	CHECK(run() == E_CORRUPT && strstr(err_text(), "another thread"));
}

TEST(copies_between_places_and_unfinished_ones_are_found)
{
	begin(8);
	lv_copy(&l, S, times(thread, 4), at(X, plus(times(thread, 4), c(2))), 4);
	lv_commit(&l);
	lv_wait(&l, 0);
	REQUIRE_OK(end());
	CHECK(run() == E_CORRUPT && strstr(err_text(), "from between"));
	begin(8);
	lv_copy(&l, S, plus(times(thread, 4), c(2)), at(X, times(thread, 4)), 4);
	lv_commit(&l);
	lv_wait(&l, 0);
	REQUIRE_OK(end());
	CHECK(run() == E_CORRUPT && strstr(err_text(), "to between"));
	begin(8);
	lv_copy(&l, S, times(thread, 4), at(X, times(thread, 4)), 4);
	lv_commit(&l);
	REQUIRE_OK(end());
	CHECK(run() == E_CORRUPT && strstr(err_text(), "before its copies"));
	begin(8); /* never committed */
	lv_copy(&l, S, times(thread, 4), at(X, times(thread, 4)), 4);
	lv_wait(&l, 0);
	REQUIRE_OK(end());
	CHECK(run() == E_CORRUPT);
}

/* Not even the thread that makes a copy sees or changes its elements before it waits. */
TEST(nobody_touches_what_a_copy_fills)
{
	for (int how = 0; how < 5; how++) {
		begin(8);
		int v = lv_new(&l, 1);
		lv_const(&l, v, 1);
		lv_store(&l, v, at(S, thread));
		lv_copy(&l, S, thread, at(X, thread), 1);
		lv_commit(&l);
		if (how == 0 || how == 3) /* a barrier or a wait for less is not enough */
			lv_wait(&l, how == 3);
		if (how == 4)
			lv_barrier(&l);
		if (how == 2)
			lv_store(&l, v, at(S, thread));
		else
			lv_load(&l, v, at(S, thread));
		lv_wait(&l, 0);
		lv_store(&l, v, at(O, thread));
		REQUIRE_OK(end());
		CHECK(run() == (how ? E_CORRUPT : E_OK));
		CHECK(how ? strstr(err_text(), "before the copy ends") != NULL : o[7] == 7);
	}
}

/* One element is read by all threads, then written by one of them, which must wait for the others. */
TEST(writes_wait_for_all_readers)
{
	for (int waits = 0; waits < 2; waits++)
		for (int writer = 0; writer < 8; writer++) {
			begin(8);
			int v = lv_new(&l, 1);
			lv_const(&l, v, 1);
			lv_store(&l, v, at(S, thread));
			lv_barrier(&l);
			lv_load(&l, v, at(S, c(3)));
			if (waits)
				lv_barrier(&l);
			struct stmt *s = if_begin(&l, ix_eq(&l, thread, c(writer)));
			lv_store(&l, v, at(S, c(3)));
			if_end(&l, s);
			REQUIRE_OK(end());
			CHECK(run() == (waits ? E_OK : E_CORRUPT));
		}
}

TEST(shared_elements_begin_unset)
{
	begin(8);
	int v = lv_new(&l, 1);
	lv_load(&l, v, at(S, thread));
	lv_store(&l, v, at(O, thread));
	REQUIRE_OK(end());
	CHECK(run() == E_CORRUPT && strstr(err_text(), "unset"));
}

static void meet_barrier(int v)
{
	(void)v;
	lv_barrier(&l);
}

static void meet_commit(int v)
{
	(void)v;
	lv_commit(&l);
}

static void meet_wait(int v)
{
	(void)v;
	lv_wait(&l, 1);
}

static void meet_shuffle(int v)
{
	lv_shuffle(&l, v, v, 1);
}

/* Where all threads go is a place to meet; where some may go is not. */
TEST(threads_meet_where_all_of_them_go)
{
	static void (*const meet[])(int) = {meet_barrier, meet_commit, meet_wait, meet_shuffle};
	for (int i = 0; i < 4; i++)
		for (int how = 0; how < 6; how++) {
			const struct ix *k, *j;
			struct stmt *s = NULL, *outer = NULL;
			begin(32);
			int v = lv_new(&l, 1);
			lv_const(&l, v, 1);
			if (how == 0)
				s = if_begin(&l, ix_lt(&l, thread, c(3)));
			else if (how == 1)
				s = for_begin(&l, c(0), thread, 1, false, &k);
			else if (how == 2)
				s = if_begin(&l, ix_lt(&l, block, c(3)));
			else if (how == 3)
				s = for_begin(&l, c(0), plus(block, c(2)), 1, false, &k);
			else
				outer = for_begin(&l, how == 4 ? c(0) : ix_mod(&l, thread, c(2)), c(4), 1,
						  false, &j);
			if (outer) /* a branch on a variable that threads may see differently */
				s = if_begin(&l, ix_lt(&l, j, c(2)));
			meet[i](v);
			if (how == 1 || how == 3)
				for_end(&l, s);
			else
				if_end(&l, s);
			if (outer)
				for_end(&l, outer);
			bool good = how == 2 || how == 3 || how == 4;
			CHECK((end() == E_OK) == good);
			CHECK(good || strstr(err_text(), "threads meet"));
		}
}

/* Every thread's address in a shared buffer is proven, under conditions too. */
TEST(addresses_of_all_threads_are_proven)
{
	for (int shift = 0; shift < 2; shift++)
		for (int how = 0; how < 3; how++) {
			begin(64);
			int v = lv_new(&l, 1);
			lv_const(&l, v, 1);
			struct stmt *s = if_begin(&l, ix_lt(&l, thread, c(10)));
			if (how == 0)
				lv_store(&l, v, at(S, plus(thread, c(shift))));
			else if (how == 1)
				lv_load(&l, v, at(S, ix_sub(&l, c(63 - shift), thread)));
			else
				lv_copy(&l, S, plus(thread, c(shift)), at(X, thread), 1);
			if_end(&l, s);
			CHECK((end() == E_OK) == !shift);
			CHECK(!shift || strstr(err_text(), "outside"));
		}
	begin(64); /* of an input where the end is reached */
	int v = lv_new(&l, 1);
	lv_load(&l, v, at(X, plus(thread, c(193))));
	CHECK(end() == E_CORRUPT && strstr(err_text(), "outside"));
}

/* Programs that loops_check refuses, each for its reason. */
static void refused(const char *why)
{
	CHECK(end() == E_CORRUPT && strstr(err_text(), why));
	if (!strstr(err_text(), why))
		printf("%s: %s\n", why, err_text());
}

TEST(copies_are_checked)
{
	begin(32);
	lv_copy(&l, O, thread, at(X, thread), 1);
	refused("shared buffer");
	begin(32);
	lv_copy(&l, S, thread, at(O, thread), 1);
	refused("input or constant");
	begin(20);
	lv_copy(&l, S, times(thread, 3), at(X, thread), 3);
	refused("4, 8 or 16");
	begin(32);
	lv_copy(&l, S, thread, (struct mem){.buf = X, .at = thread, .stride = 2}, 1);
	refused("stride");
	begin(32);
	lv_copy(&l, S, thread, (struct mem){.buf = X, .at = thread, .stride = 1, .guard = thread}, 1);
	refused("guard");
	begin(32);
	lv_copy(&l, 9, thread, at(X, thread), 1);
	refused("nowhere");
	begin(32);
	lv_wait(&l, -1);
	refused("wait");
}

TEST(shuffles_are_checked)
{
	for (int mask = -1; mask < 34; mask++) {
		begin(32);
		int v = lv_new(&l, 1);
		lv_const(&l, v, 1);
		lv_shuffle(&l, v, v, mask);
		CHECK((end() == E_OK) == (mask >= 1 && mask <= 31));
	}
	begin(48);
	int v = lv_new(&l, 1);
	lv_const(&l, v, 1);
	lv_shuffle(&l, v, v, 1);
	refused("multiple of 32");
}

TEST(buffers_and_threads_are_checked)
{
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	loops_buf(&l, "s", BUF_SHARED, DT_F32, c(64));
	loops_buf(&l, "o", BUF_OUT, DT_F32, c(64));
	loops_entry_threads(&l, c(1), 32, &thread);
	refused("before");
	begin(32);
	loops_buf(&l, "t", BUF_SHARED, DT_F32, c(LOOPS_MAX_SHARED / 4));
	refused("bytes");
	begin(1);
	CHECK(end() == E_INFEASIBLE);
	begin(LOOPS_MAX_THREADS + 1);
	CHECK(end() == E_INFEASIBLE);
	arena_reset(&arena); /* without threads */
	loops_init(&l, &arena, true);
	loops_buf(&l, "s", BUF_SHARED, DT_F32, c(64));
	loops_entry(&l, c(1));
	lv_barrier(&l);
	refused("entry with threads");
	arena_reset(&arena); /* threads have no scratch */
	loops_init(&l, &arena, true);
	loops_buf(&l, "s", BUF_SCRATCH, DT_F32, c(64));
	loops_entry_threads(&l, c(1), 32, &thread);
	int v = lv_new(&l, 1);
	lv_load(&l, v, at(0, thread));
	refused("scratch");
}

TEST_MAIN
