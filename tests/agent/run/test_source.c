/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels from a cache: which record serves a task, and with which code. */
#include "agent/cache/kept_code.h"
#include "agent/cache/lookup.h"
#include "agent/run/source.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/tasks.h"

#include <fcntl.h>
#include <unistd.h>

static struct rec make_rec(const char *cand, enum rec_kind kind, int threads, enum level level, int64_t ns)
{
	struct rec r = {.task = hash_text(task_conv),
			.kind = (int)kind,
			.target_key = target_key(&target),
			.device = "cpu",
			.emitter = "llvm-19/" CODE_REVISION,
			.threads = threads,
			.level = level,
			.meas = {.status = MEAS_OK, .runs = 3, .min_ns = ns, .median_ns = ns},
			.task_text = task_conv,
			.label = "conv"};
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

static void put(const char *cand, enum rec_kind kind, int threads, enum level level)
{
	const struct rec r = make_rec(cand, kind, threads, level, 1000);
	put_code(&r, r.emitter, r.cand); /* told by the candidate */
	CHECK_OK(cache_put_rec(cache, &r));
}

/* Returns the candidate whose code a source gives for the task; "": none. */
static const char *gives(int threads, enum level level, enum rec_kind kind, enum kernel_origin *origin)
{
	static char cand[64];
	struct arena a = {0};
	struct kernel_source src;
	struct code c = {0};
	cand[0] = 0;
	if (cache_source(cache, &target, threads, level, kind, &src) < 0)
		abort();
	int rc = src.find(src.ctx, NULL, task_conv, &a, &c, origin);
	CHECK(rc == E_OK || rc == E_NOTFOUND);
	if (rc == E_OK)
		snprintf(cand, sizeof cand, "%.*s", (int)c.object.n, (const char *)c.object.p);
	cache_source_free(&src);
	arena_free(&a);
	return cand;
}

static void check_gives(const char *want, int threads, enum level level, enum rec_kind kind)
{
	enum kernel_origin origin;
	const char *got = gives(threads, level, kind, &origin);
	if (strcmp(got, want))
		printf("%d threads, exact %d, kind %d: '%s', wanted '%s'\n", threads, level, kind, got, want);
	CHECK(!strcmp(got, want));
}

/* The nearest record serves: of this number of threads, else of one; inexact, else level; best, else default.
 */
TEST(the_nearest_record_serves)
{
	enum kernel_origin origin;
	open_cache();
	check_gives("", 4, false, REC_BEST);
	put("default one", REC_DEFAULT, 1, false);
	check_gives("default one", 4, false, REC_BEST);
	gives(4, false, REC_BEST, &origin);
	CHECK(origin == FROM_DEFAULT);
	put("exact one", REC_BEST, 1, true);
	check_gives("exact one", 4, false, REC_BEST);
	check_gives("exact one", 4, true, REC_BEST);
	gives(4, false, REC_BEST, &origin);
	CHECK(origin == FROM_CACHE);
	put("exact four", REC_BEST, 4, true);
	check_gives("exact four", 4, false, REC_BEST);
	check_gives("exact one", 2, false, REC_BEST);
	put("one", REC_BEST, 1, false);
	check_gives("one", 4, false, REC_BEST); /* exactness before threads */
	check_gives("exact four", 4, true, REC_BEST);
	put("four", REC_BEST, 4, false);
	check_gives("four", 4, false, REC_BEST);
	check_gives("one", 1, false, REC_BEST);
	check_gives("exact one", 1, true, REC_BEST); /* never an inexact one */
	check_gives("default one", 4, false, REC_DEFAULT);
	check_gives("", 4, true, REC_DEFAULT);
	target.lanes = 16; /* records of another board do not serve */
	check_gives("", 4, false, REC_BEST);
	target.lanes = 8;
	close_cache();
}

/* A crash between the two writes of a new winner: the old pair still belongs together, and never the new
 * record with the old code. */
TEST(a_record_meets_no_code_but_its_own)
{
	struct rec newer = make_rec("newer", REC_BEST, 1, false, 900);
	open_cache();
	put("default", REC_DEFAULT, 1, false);
	put("older", REC_BEST, 1, false);
	put_code(&newer, newer.emitter, newer.cand);
	check_gives("older", 1, false, REC_BEST);
	CHECK_OK(cache_put_rec(cache, &newer));
	check_gives("newer", 1, false, REC_BEST);
	newer = make_rec("newest, without code", REC_BEST, 1, false, 800);
	CHECK_OK(cache_put_rec(cache, &newer));
	check_gives("default", 1, false, REC_BEST);
	newer = make_rec("newer", REC_BEST, 1, false, 900);
	snprintf(newer.emitter, sizeof newer.emitter,
		 "llvm-20/" CODE_REVISION); /* an upgrade: the code is of no use */
	CHECK_OK(cache_put_rec(cache, &newer));
	check_gives("default", 1, false, REC_BEST);
	close_cache();
}

/* Boards of one class can differ in what their kernels enable: code that needs more is skipped. */
TEST(code_for_features_that_the_machine_lacks_is_skipped)
{
	struct rec newer = make_rec("newer", REC_BEST, 1, false, 900);
	open_cache();
	put("default", REC_DEFAULT, 1, false);
	code_features = "+avxvnni,+avx512bf16";
	put_code(&newer, newer.emitter, newer.cand);
	code_features = "";
	CHECK_OK(cache_put_rec(cache, &newer));
	strcpy(target.features, "+avx2,+avxvnni,-avx512bf16");
	check_gives("default", 1, false, REC_BEST);
	CHECK(!cache_has_code(cache, &target, &newer) && cache_has_code(cache, NULL, &newer));
	strcpy(target.features, "+avx2,+avxvnni,+avx512bf16");
	check_gives("newer", 1, false, REC_BEST);
	CHECK(cache_has_code(cache, &target, &newer));
	target.features[0] = 0;
	close_cache();
}

static void damage_file(void)
{
	char path[96];
	struct arena a = {0};
	REQUIRE_OK(cache_commit(cache));
	snprintf(path, sizeof path, "%s/00000001.seg", dir); /* code is written first */
	struct blob file;
	REQUIRE_OK(file_read(&a, path, 0, &file));
	char *bytes = arena_memdup(&a, file.p, file.n);
	char *at = memmem(bytes, file.n, "HCO1", 4);
	REQUIRE(at != NULL);
	at[60] ^= 1;
	int fd = open(path, O_WRONLY);
	CHECK(pwrite(fd, bytes, file.n, 0) == (ssize_t)file.n);
	close(fd);
	arena_free(&a);
}

/* Damage on flash, or intact bytes that are not code: a miss, and the next best record serves. */
TEST(damaged_code_is_a_miss)
{
	open_cache();
	put("best", REC_BEST, 1, false);
	put("default", REC_DEFAULT, 1, false);
	check_gives("best", 1, false, REC_BEST);
	damage_file(); /* in what came first */
	check_gives("default", 1, false, REC_BEST);
	const struct rec r = make_rec("default", REC_DEFAULT, 1, false, 1000);
	CHECK_OK(kept_code_put(cache, &r, (struct blob){"HCO1 nonsense", 13}));
	check_gives("", 1, false, REC_BEST);
	close_cache();
}

TEST(a_record_is_found_without_its_code)
{
	struct arena a = {0};
	struct rec got;
	open_cache();
	const struct rec one = make_rec("one", REC_BEST, 1, false, 1000);
	CHECK_OK(cache_put_rec(cache, &one));
	CHECK_OK(cache_find_rec(cache, hash_text(task_conv), &target, 4, false, REC_BEST, &a, &got));
	CHECK(!strcmp(got.cand, "one") && got.threads == 1);
	CHECK_FAILS(cache_find_rec(cache, hash_text("x"), &target, 4, false, REC_BEST, &a, &got), E_NOTFOUND,
		    "no record");
	arena_free(&a);
	close_cache();
}

/* Whatever lies under a record's code key, it serves only if it was compiled for that very task, candidate,
 * emitter, device and target: bytes of any other one are a miss. */
TEST(code_of_something_else_is_a_miss)
{
	static const char *const what[] = {"task", "cand", "emitter", "device", "target", "nothing"};
	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		struct arena a = {0};
		struct blob b;
		open_cache();
		put("best", REC_BEST, 1, false);
		struct rec mine = make_rec("best", REC_BEST, 1, false, 1000), other = mine;
		if (i == 0)
			other.task_text = task_matmul;
		else if (i == 1)
			strcpy(other.cand, "another");
		else if (i == 2)
			strcpy(other.emitter, "llvm-18/" CODE_REVISION);
		else if (i == 3)
			strcpy(other.device, "gpu");
		else if (i == 4)
			other.target_key.lo ^= 1;
		put_code(&other, other.emitter, "foreign");
		REQUIRE_OK(cache_get(cache, CACHE_CODE, code_key(&other), &a, &b));
		CHECK_OK(cache_put(cache, CACHE_CODE, code_key(&mine), b.p, b.n));
		check_gives(i == 5 ? "foreign" : "", 1, false, REC_BEST);
		arena_free(&a);
		close_cache();
	}
}

/* A record that claims the key of a task whose text is another one. */
TEST(a_record_of_another_text_is_a_miss)
{
	open_cache();
	struct rec r = make_rec("best", REC_BEST, 1, false, 1000);
	r.task_text = task_matmul;
	put_code(&r, r.emitter, r.cand);
	CHECK_OK(cache_put_rec(cache, &r));
	check_gives("", 1, false, REC_BEST);
	close_cache();
}

TEST_MAIN
