/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a cache whose folder another process writes: the other process is here a second cache of this one. */
#include "tests/lib/cache_dir.h"
#include "tests/lib/silent.h"

static struct cache *keeper; /* NULL: gone */
static struct said {
	int puts, commits, agains, dies_at; /* dies_at: which commit it dies at */
	int refuse;                         /* error that it returns; 0: none */
	enum cache_type refused;
	int again; /* what `again` returns */
} say;

static int put(void *ctx, enum cache_type t, struct key k, const void *p, size_t n)
{
	(void)ctx;
	say.puts++;
	if (!keeper)
		return fail(E_IO, "it is gone");
	if (say.refuse && t == say.refused)
		return fail(say.refuse, "this is not taken");
	return cache_put(keeper, t, k, p, n);
}

static int write_nothing(int fd, const void *p, size_t n, int64_t at)
{
	(void)fd, (void)p, (void)n, (void)at;
	return -EIO;
}

/* The keeper loses what it had not committed. */
static void kill_keeper(void)
{
	struct disk broken = disk_system;
	broken.write = write_nothing;
	disk = &broken;
	close_silently(keeper);
	disk = &disk_system;
	keeper = NULL;
}

static int commit(void *ctx)
{
	(void)ctx;
	if (++say.commits == say.dies_at)
		kill_keeper();
	if (!keeper)
		return fail(E_IO, "it is gone");
	if (say.refuse == E_IO)
		return fail(E_IO, "the disk is full");
	return cache_commit(keeper);
}

static bool alive(void *ctx)
{
	(void)ctx;
	return keeper != NULL;
}

static void open_keeper(void)
{
	CHECK_OK(cache_open_with(&keeper, dir, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
}

static int again(void *ctx)
{
	(void)ctx;
	say.agains++;
	if (say.again == E_OK)
		open_keeper();
	return say.again < 0 ? fail(say.again, "nobody is there") : E_OK;
}

static const struct cache_through through = {NULL, put, commit, alive, again};

static struct cache *open_through(void)
{
	struct cache *c = NULL;
	say = (struct said){.again = E_NOTFOUND};
	fresh_dir();
	open_keeper();
	CHECK_OK(cache_open_with(&c, dir, CACHE_THROUGH, 0,
				 &(struct cache_options){.seeds = "", .through = &through}));
	return c;
}

static int durable(void)
{
	struct cache *c;
	CHECK_OK(cache_open_with(&c, dir, CACHE_READ, 0, &(struct cache_options){.seeds = ""}));
	int n = check_records(c, 1000);
	cache_close(c);
	return n;
}

static int64_t waiting(const struct cache *c)
{
	struct cache_state s;
	cache_state(c, &s);
	return s.waiting_bytes;
}

static void close_both(struct cache *c)
{
	cache_close(c);
	cache_close(keeper);
	keeper = NULL;
}

TEST(puts_go_through)
{
	struct cache *c = open_through();
	put_records(c, 0, 10);
	CHECK(say.puts == 10 && say.commits == 0 && durable() == 0);
	CHECK(check_records(c, 1000) == 10 && waiting(c) > 0);
	CHECK_OK(cache_commit(c));
	CHECK(durable() == 10 && check_records(c, 1000) == 10 && waiting(c) == 0);
	CHECK_OK(cache_commit(c));
	CHECK(say.commits == 1);
	put_records(c, 5, 15); /* five of them are there */
	CHECK(say.puts == 15);
	struct rec r = sample(3);
	CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&r)));
	CHECK(check_records(c, 1000) == 14);
	CHECK_OK(cache_refresh(c) < 0 ? -1 : 0);
	CHECK_OK(cache_commit(c));
	CHECK(check_records(c, 1000) == 14 && durable() == 14 && waiting(c) == 0);
	CHECK(cache_generation(c) == cache_generation(keeper));
	put_records(c, 15, 400); /* the caller does not wait for the keeper's disk */
	CHECK_OK(cache_hand_over(c));
	CHECK(say.commits == 2 && say.puts == 15 + 1 + 385 && waiting(c) > 0 &&
	      check_records(c, 1000) == 399);
	close_both(c);
	CHECK(say.commits == 3 && durable() == 399);
	remove_dir();
}

TEST(waiting_puts_are_bounded)
{
	struct cache *c = open_through();
	cache_close(c);
	CHECK_OK(cache_open_with(
	    &c, dir, CACHE_THROUGH, 0,
	    &(struct cache_options){.cap_bytes = 64 << 10, .seeds = "", .through = &through}));
	for (int i = 0; i < 400; i += 10) {
		put_records(c, i, i + 10);
		CHECK(waiting(c) < 16 << 10);
	}
	CHECK(say.commits > 0);
	close_both(c);
	CHECK(durable() == 400);
	remove_dir();
}

/* Puts that were handed over to a keeper that dies are handed over to the next one. */
TEST(a_keeper_that_dies_with_what_was_handed_over)
{
	for (int way = 0; way < 2; way++) {
		struct cache *c = open_through();
		say.again = way ? E_OK : E_NOTFOUND;
		put_records(c, 0, 100);
		CHECK_OK(cache_hand_over(c));
		kill_keeper();
		CHECK(durable() < 100);
		CHECK_OK(cache_hand_over(c)); /* now its death is seen */
		CHECK(durable() == 100 && say.agains == 1);
		close_both(c);
		remove_dir();
	}
}

/* The keeper commits by itself and compacts, while others read. */
TEST(the_keeper_commits_and_compacts_by_itself)
{
	struct cache *c = open_through();
	put_records(c, 0, 10);
	CHECK_OK(cache_commit(keeper));
	CHECK(cache_refresh(c) >= 0);
	CHECK_OK(cache_commit(c));
	CHECK(check_records(c, 1000) == 10 && waiting(c) == 0);
	put_records(keeper, 10, 20);
	put_records(c, 20, 30);
	CHECK_OK(cache_compact(keeper));
	CHECK_OK(cache_commit(c));
	CHECK(check_records(c, 1000) == 30 && durable() == 30);
	close_both(c);
	remove_dir();
}

static void put_code(struct cache *c, const char *text)
{
	CHECK_OK(cache_put(c, CACHE_CODE, hash_text(text), text, strlen(text)));
}

static bool has_code(struct cache *c, const char *text)
{
	struct arena a = {0};
	struct blob b;
	bool has = cache_get(c, CACHE_CODE, hash_text(text), &a, &b) >= 0 && b.n == strlen(text) &&
		   !memcmp(b.p, text, b.n);
	arena_free(&a);
	return has;
}

TEST(refused_puts_stay_here)
{
	struct cache *c = open_through();
	say.refuse = E_USAGE;
	say.refused = CACHE_CODE;
	put_code(c, "one");
	put_code(c, "two");
	put_records(c, 0, 5);
	CHECK_OK(cache_commit(c));
	CHECK(durable() == 5 && has_code(c, "one") && has_code(c, "two"));
	put_records(c, 5, 200);
	CHECK_OK(cache_commit(c));
	CHECK(durable() == 200 && has_code(c, "one") && has_code(c, "two"));
	CHECK(!has_code(keeper, "one"));
	say.refuse = E_UNSUPPORTED;
	say.refused = CACHE_TRIALS;
	CHECK_FAILS(cache_put(c, CACHE_TRIALS, hash_text("t"), "x", 1), E_UNSUPPORTED, "not taken");
	CHECK_OK(cache_commit(c));
	close_both(c);
	CHECK(durable() == 200);
	remove_dir();
}

/* After a full disk the next commit tries again. */
TEST(puts_wait_until_they_can_be_written)
{
	struct cache *c = open_through();
	say.refuse = E_IO;
	say.refused = CACHE_REC;
	struct rec r = sample(0);
	CHECK_FAILS(cache_put_rec(c, &r), E_IO, "not taken");
	CHECK_FAILS(cache_commit(c), E_IO, "not taken");
	CHECK(check_records(c, 10) == 1);
	say.refuse = 0;
	CHECK_OK(cache_commit(c));
	CHECK(durable() == 1 && waiting(c) == 0);
	close_both(c);
	remove_dir();
}

/* No put is lost, whenever its keeper dies. */
TEST(a_keeper_that_dies)
{
	for (int dies_at = 1; dies_at <= 3; dies_at++)
		for (int way = 0; way < 2; way++) {
			struct cache *c = open_through();
			say.dies_at = dies_at;
			say.again = way ? E_OK : E_NOTFOUND;
			for (int i = 0; i < 4; i++) {
				put_records(c, 10 * i, 10 * i + 10);
				CHECK_OK(cache_commit(c));
				CHECK(durable() == 10 * i + 10 && check_records(c, 1000) == 10 * i + 10);
			}
			CHECK(say.agains == 1 && (keeper != NULL) == (way == 1));
			close_both(c);
			CHECK(durable() == 40);
			remove_dir();
		}
}

TEST(a_keeper_that_dies_between_puts)
{
	struct cache *c = open_through();
	put_records(c, 0, 5);
	put_code(c, "one");
	kill_keeper();
	put_records(c, 5, 10);
	CHECK(check_records(c, 1000) == 10);
	CHECK_OK(cache_commit(c));
	CHECK(durable() == 10 && has_code(c, "one"));
	put_records(c, 10, 20); /* now this process is the writer */
	close_both(c);
	CHECK(durable() == 20);
	remove_dir();
}

/* Another process has the folder by now, or this process is to end: waiting puts stay in memory. */
TEST(a_keeper_that_dies_and_nobody_may_follow)
{
	struct cache *c = open_through(), *other;
	put_records(c, 0, 5);
	kill_keeper();
	CHECK_OK(cache_open_with(&other, dir, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	CHECK_FAILS(cache_commit(c), E_IO, "in use");
	CHECK(check_records(c, 1000) == 5);
	cache_close(other);
	say.again = E_STOPPED;
	CHECK_FAILS(cache_commit(c), E_STOPPED, "");
	CHECK(check_records(c, 1000) == 5);
	say.again = E_NOTFOUND;
	CHECK_OK(cache_commit(c));
	close_both(c);
	CHECK(durable() == 5);
	remove_dir();
}

TEST_MAIN
