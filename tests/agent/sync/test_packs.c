/* SPDX-License-Identifier: Apache-2.0 */
/* Tests packs: signed caches that come in an image or on a USB stick. */
#include "agent/cache/kept_code.h"
#include "agent/sync/pack.h"
#include "agent/cache/segment.h"
#include "agent/cache/lookup.h"
#include "agent/sync/trust.h"
#include "platform/base/log.h"
#include "search/job.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/cands.h"
#include "tests/lib/keys.h"
#include "tests/lib/records.h"
#include "tests/lib/scratch.h"

#include <fcntl.h>

enum { RECORDS = 3 };

static const char version[] = "llvm-19/" CODE_REVISION;

static struct rec make_rec(int i)
{
	const char *text = task_product(10 + i);
	struct rec r = {.task = hash_text(text),
			.kind = REC_BEST,
			.target_key = target_key(&target),
			.device = "cpu",
			.threads = 1,
			.meas = {.status = MEAS_OK, .runs = 3, .min_ns = 900, .median_ns = 1000},
			.task_text = text,
			.label = "x"};
	snprintf(r.emitter, sizeof r.emitter, "%s", version);
	cand_of(text, i, r.cand);
	snprintf(r.target, sizeof r.target, "%s %s %d", target.soc, target.isa, target.lanes);
	return r;
}

/* Makes a pack of RECORDS records with their code, a default, choices and a log, signed by key 0. */
static const char *make_pack(const char *name)
{
	static char path[8][256];
	static int turn;
	char *out = path[turn++ % 8];
	struct pack_about about;
	snprintf(out, sizeof *path, "%s", scratch(name));
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	open_cache();
	for (int i = 0; i < RECORDS; i++) {
		struct rec r = make_rec(i);
		CHECK_OK(cache_put_rec(cache, &r));
		put_code(&r, version, "object");
	}
	struct rec r = make_rec(0);
	r.kind = REC_DEFAULT;
	CHECK_OK(cache_put_rec(cache, &r));
	struct arena a = {0};
	struct key k;
	const char *choices = record_choices(&a, r.task, r.target_key, "hone-choices 1\njoin 1 Conv_2\n", &k);
	CHECK_OK(cache_put(cache, CACHE_CHOICES, k, choices, strlen(choices)));
	arena_free(&a);
	CHECK_OK(cache_put(cache, CACHE_HISTORY, r.task, "hone-history 1\n1.5 2 3.25\n", 26));
	CHECK(cache_pack(cache, out, true) == 2 * RECORDS + 3);
	close_cache();
	CHECK_OK(pack_describe(out, &about));
	snprintf(about.label, sizeof about.label, "board");
	CHECK_OK(pack_sign(out, &about, keys(2)->private[0]));
	return out;
}

static int take(const char *path, const struct public_key *by, struct taken_sum *sum)
{
	*sum = (struct taken_sum){0};
	return pack_import(cache, path, NULL, by, by ? 1 : 0, sum, NULL);
}

static int count(enum cache_type t)
{
	struct cache_state st;
	cache_state(cache, &st);
	return st.count[t];
}

TEST(import_takes_records_and_no_code)
{
	const char *path = make_pack("import.seg");
	struct pack_about about;
	struct taken_sum sum;
	struct arena a = {0};
	open_cache();
	CHECK_OK(pack_verify(path, NULL, keys(2)->public, 1, &about));
	CHECK(about.records == 2 * RECORDS + 3 && about.code == RECORDS && !strcmp(about.label, "board"));
	char cls[33];
	key_text(target_key(&target), cls);
	CHECK(!strcmp(about.cls, cls));
	CHECK_OK(take(path, keys(2)->public, &sum));
	CHECK(sum.incumbents == RECORDS && sum.choices == 1 && sum.passed == 1 && !sum.refused);
	CHECK(count(CACHE_CODE) == 0 && count(CACHE_REC) == 0 && count(CACHE_HINT) == RECORDS &&
	      count(CACHE_HISTORY) == 0);
	CHECK_OK(take(path, keys(2)->public, &sum));
	CHECK(!taken_new(&sum) && sum.known == RECORDS + 1);
	close_cache();
	arena_free(&a);
}

/* A board has taken a hint and not timed it yet: boards that take its pack get a hint, too. */
TEST(hints_in_a_pack_are_hints)
{
	struct taken_sum sum;
	struct pack_about about;
	const char *path = make_pack("hints.seg");
	char again[256];
	open_cache();
	CHECK_OK(take(path, keys(2)->public, &sum));
	REQUIRE(count(CACHE_HINT) == RECORDS);
	snprintf(again, sizeof again, "%s", scratch("again.seg"));
	CHECK(cache_pack(cache, again, false) >= RECORDS);
	CHECK_OK(pack_describe(again, &about));
	CHECK_OK(pack_sign(again, &about, keys(2)->private[0]));
	close_cache();
	open_cache();
	CHECK_OK(take(again, keys(2)->public, &sum));
	CHECK(sum.incumbents == RECORDS && sum.choices == 1 && !sum.refused);
	close_cache();
}

/* In a layer that only root can write, a pack's code runs, and no signature is needed. */
TEST(in_an_image_its_code_counts)
{
	REQUIRE_OK(file_mkdirs(scratch("image"), 0755));
	const char *path = make_pack("image/board.seg");
	setenv("HONE_SEEDS", scratch("image"), 1);
	open_cache();
	struct arena a = {0};
	struct rec r, want = make_rec(1);
	CHECK_OK(cache_get_rec(cache, rec_key(&want), &a, &r));
	CHECK(cache_has_code(cache, NULL, &r) && !cache_is_own(cache, CACHE_REC, rec_key(&r)));
	close_cache();
	CHECK(chmod(path, 0666) == 0); /* anybody may have written it */
	open_cache();
	CHECK(cache_get_rec(cache, rec_key(&want), &a, &r) == E_NOTFOUND);
	CHECK(!cache_has_code(cache, NULL, &r) && count(CACHE_HINT) >= RECORDS);
	close_cache();
	setenv("HONE_SEEDS", "", 1);
	arena_free(&a);
}

TEST(who_signed)
{
	const char *path = make_pack("who.seg");
	struct pack_about about;
	struct taken_sum sum;
	open_cache();
	CHECK_FAILS(take(path, &keys(2)->public[1], &sum), E_WRONG, "--key");
	CHECK_FAILS(take(path, NULL, &sum), E_WRONG, "not signed by a key");
	CHECK_OK(take(path, &keys(2)->public[0], &sum));
	struct root root = {.version = 1, .role = {{1, 1}, {1, 1}}};
	root.role[ROLE_ROOT].key[0] = keys(2)->public[1];
	root.role[ROLE_FLEET].key[0] = keys(2)->public[0];
	struct buf text = {0}, doc = {0};
	struct trust *t;
	root_print(&root, &text);
	CHECK_OK(signed_write("root", text.p, text.n, &keys(2)->private[1], 1, &doc));
	REQUIRE_OK(trust_open(scratch_file("root.signed", doc.p, doc.n, 0644), scratch("state"), &t));
	CHECK_OK(pack_verify(path, t, NULL, 0, &about));
	about.serial = 5; /* the board has a newer one of its fleet */
	CHECK_OK(pack_sign(path, &about, keys(2)->private[0]));
	CHECK_OK(trust_raise(t, about.cls, "early", 5));
	CHECK_OK(pack_verify(path, t, NULL, 0, &about));
	CHECK_OK(trust_raise(t, about.cls, "early", 6));
	CHECK_FAILS(pack_verify(path, t, NULL, 0, &about), E_WRONG, "older than 6");
	CHECK_OK(
	    pack_verify(path, NULL, keys(2)->public, 1, &about)); /* keys of a maker know no oldest serial */
	CHECK_OK(pack_describe(path, &about));                    /* a root key signs no packs */
	CHECK_OK(pack_sign(path, &about, keys(2)->private[1]));
	CHECK_FAILS(pack_verify(path, t, NULL, 0, &about), E_WRONG, "not signed by a key");
	trust_close(t);
	char sig[300];
	snprintf(sig, sizeof sig, "%s" PACK_SIG, path);
	CHECK(unlink(sig) == 0);
	CHECK_FAILS(take(path, &keys(2)->public[0], &sum), E_NOTFOUND, PACK_SIG);
	sum = (struct taken_sum){0};
	CHECK_OK(pack_import_unsigned(cache, path, &sum, NULL));
	CHECK(sum.known == RECORDS + 1);
	buf_free(&text);
	buf_free(&doc);
	close_cache();
}

static void write_raw(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
}

/* Makes a pack of one record and its code, because each try checks a signature. */
static const char *make_small(void)
{
	static char path[256];
	struct pack_about about;
	struct rec r = make_rec(0);
	snprintf(path, sizeof path, "%s", scratch("small.seg"));
	open_cache();
	CHECK_OK(cache_put_rec(cache, &r));
	CHECK_OK(kept_code_put(cache, &r, (struct blob){"code", 4}));
	CHECK(cache_pack(cache, path, true) == 2);
	close_cache();
	CHECK_OK(pack_describe(path, &about));
	CHECK_OK(pack_sign(path, &about, keys(2)->private[0]));
	return path;
}

/* Flips each byte of a file, and cuts it at every step-th one: nothing is taken. Returns the number of
 * tries. */
static int damage(const char *path, const char *file, size_t step)
{
	struct arena a = {0};
	struct blob whole;
	struct taken_sum sum;
	int tries = 0;
	CHECK_OK(file_read(&a, file, 0, &whole));
	uint8_t *copy = arena_memdup(&a, whole.p, whole.n);
	for (size_t i = 0; i < whole.n; i++) {
		copy[i] ^= (uint8_t)(1u << i % 8);
		write_raw(file, copy, whole.n);
		int rc = take(path, keys(2)->public, &sum);
		CHECK(rc == E_CORRUPT || rc == E_WRONG || rc == E_BUSY);
		copy[i] ^= (uint8_t)(1u << i % 8);
		tries++;
		if (i % step)
			continue;
		write_raw(file, copy, i);
		rc = take(path, keys(2)->public, &sum);
		CHECK(rc == E_CORRUPT || rc == E_WRONG || rc == E_BUSY);
		tries++;
	}
	struct buf longer = {0};
	buf_add(&longer, whole.p, whole.n);
	buf_puts(&longer, "x");
	write_raw(file, longer.p, longer.n);
	CHECK(take(path, keys(2)->public, &sum) == E_CORRUPT);
	buf_free(&longer);
	write_raw(file, whole.p, whole.n);
	arena_free(&a);
	return tries;
}

TEST(any_damage_is_refused)
{
	const char *path = make_small();
	char sig[300];
	struct taken_sum sum;
	snprintf(sig, sizeof sig, "%s" PACK_SIG, path);
	open_cache();
	int of_pack = damage(path, path, 8), of_sig = damage(path, sig, 1);
	printf("refused: %d damaged packs, %d damaged signatures\n", of_pack, of_sig);
	CHECK(of_pack > 700 && of_sig > 500);
	CHECK(count(CACHE_REC) == 0 && count(CACHE_CHOICES) == 0);
	CHECK(cache_generation(cache) == 0); /* nothing was written to flash */
	CHECK_OK(take(path, keys(2)->public, &sum));
	CHECK(sum.incumbents == 1);
	close_cache();
}

/* An unsigned damaged pack is not taken in parts. */
TEST(unsigned_damage)
{
	const char *path = make_pack("unsigned.seg");
	struct arena a = {0};
	struct blob whole;
	CHECK_OK(file_read(&a, path, 0, &whole));
	open_cache();
	uint8_t *copy = arena_memdup(&a, whole.p, whole.n);
	for (size_t i = 0; i < whole.n; i += 7) {
		struct taken_sum sum = {0};
		copy[i] ^= 4;
		write_raw(path, copy, whole.n);
		int rc = pack_import_unsigned(cache, path, &sum, NULL);
		copy[i] ^= 4;
		CHECK(rc == E_CORRUPT || (i >= 40 && i < SEG_HEAD && rc >= 0));
	}
	CHECK(count(CACHE_REC) == 0);
	close_cache();
	arena_free(&a);
}

/* Files that a hostile stick may hold. */
TEST(hostile_files)
{
	const char *path = make_pack("real.seg");
	struct taken_sum sum;
	char sig[300];
	open_cache();
	CHECK_FAILS(take(scratch("nothing.seg"), keys(2)->public, &sum), E_NOTFOUND, "nothing");
	CHECK(symlink(path, scratch("link.seg")) == 0);
	CHECK_FAILS(take(scratch("link.seg"), keys(2)->public, &sum), E_CORRUPT, "link");
	CHECK(mkfifo(scratch("fifo.seg"), 0644) == 0);
	CHECK_FAILS(take(scratch("fifo.seg"), keys(2)->public, &sum), E_CORRUPT, "regular");
	CHECK_FAILS(take(scratch_dir, keys(2)->public, &sum), E_CORRUPT, "regular");
	const char *huge = scratch_text("huge.seg", "", 0644);
	CHECK(truncate(huge, (off_t)PACK_BYTES + 1) == 0);
	CHECK_FAILS(take(huge, keys(2)->public, &sum), E_CORRUPT, "more than");
	snprintf(sig, sizeof sig, "%s" PACK_SIG, path);
	CHECK(truncate(sig, PACK_SIG_BYTES + 1) == 0);
	CHECK_FAILS(take(path, keys(2)->public, &sum), E_CORRUPT, "more than");
	CHECK(count(CACHE_REC) == 0);
	close_cache();
}

/* Malformed signed descriptions are refused. */
TEST(what_is_signed)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "[]",
	    "{\"class\": \"any\"}",
	    "{\"class\":\"ANY\",\"label\":\"\",\"bytes\":1,\"records\":1,\"code\":0,\"serial\":0,\"sha256\":"
	    "\"$\"}",
	    "{\"class\":\"any\",\"label\":\"\\u001b\",\"bytes\":1,\"records\":1,\"code\":0,\"serial\":0,"
	    "\"sha256\":\"$\"}",
	    "{\"class\":\"any\",\"label\":\"\",\"bytes\":-1,\"records\":1,\"code\":0,\"serial\":0,\"sha256\":"
	    "\"$\"}",
	    "{\"class\":\"any\",\"label\":\"\",\"bytes\":1,\"records\":1,\"code\":2,\"serial\":0,\"sha256\":"
	    "\"$\"}",
	    "{\"class\":\"any\",\"label\":\"\",\"bytes\":1.5,\"records\":1,\"code\":0,\"serial\":0,"
	    "\"sha256\":\"$\"}",
	    "{\"class\":\"any\",\"label\":\"\",\"bytes\":1,\"records\":1,\"code\":0,\"serial\":1e300,"
	    "\"sha256\":\"$\"}",
	    "{\"class\":\"any\",\"label\":\"\",\"bytes\":1,\"records\":1,\"code\":0,\"serial\":0,\"sha256\":"
	    "\"00\"}",
	    "{\"class\":\"any\",\"class\":\"any\",\"label\":\"\",\"bytes\":1,\"records\":1,\"code\":0,"
	    "\"serial\":0,"
	    "\"sha256\":\"$\"}",
	};
	struct pack_about about = {.cls = "any", .label = "a board", .bytes = 7, .records = 2, .code = 1},
			  got;
	struct buf text = {0};
	pack_about_print(&about, &text);
	CHECK_OK(pack_about_parse(text.p, text.n, &got));
	CHECK(!memcmp(&about, &got, sizeof got));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		buf_clear(&text);
		const char *at = strchr(bad[i], '$');
		buf_add(&text, bad[i], at ? (size_t)(at - bad[i]) : strlen(bad[i]));
		if (at)
			buf_printf(&text, "%064d%s", 0, at + 1);
		CHECK_FAILS(pack_about_parse(text.p ? text.p : "", text.n, &got), E_CORRUPT, "signature");
	}
	buf_free(&text);
}

static void copy_file(const char *from, const char *to)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, from, 0, &b));
	write_raw(to, b.p, b.n);
	arena_free(&a);
}

static struct pack_watched watch(const char *folder, struct taken_sum *sum)
{
	struct pack_watched w = {.taken = sum};
	*sum = (struct taken_sum){0};
	CHECK_OK(pack_watch(cache, folder, scratch("watched"), NULL, keys(2)->public, 1, &w));
	return w;
}

/* Takes each pack once, as soon as it is complete, and again after it was copied again. */
TEST(a_watched_folder)
{
	const char *path = make_pack("stick.seg");
	char stick[256], seg[300], sig[320], from_sig[300];
	struct taken_sum sum;
	snprintf(stick, sizeof stick, "%s", scratch("usb"));
	snprintf(seg, sizeof seg, "%s/board.seg", stick);
	snprintf(sig, sizeof sig, "%s" PACK_SIG, seg);
	snprintf(from_sig, sizeof from_sig, "%s" PACK_SIG, path);
	REQUIRE_OK(file_mkdirs(stick, 0755));
	open_cache();
	struct pack_watched w = watch(stick, &sum);
	CHECK(!w.packs && !w.refused && !w.waiting);
	copy_file(path, seg);
	w = watch(stick, &sum);
	CHECK(!w.packs && w.waiting == 1); /* no signature yet */
	copy_file(from_sig, sig);
	CHECK(truncate(seg, 1000) == 0);
	w = watch(stick, &sum);
	CHECK(!w.packs && !w.refused && w.waiting == 1); /* half a copy */
	copy_file(path, seg);
	w = watch(stick, &sum);
	CHECK(w.packs == 1 && sum.incumbents == RECORDS);
	w = watch(stick, &sum);
	CHECK(!w.packs && !w.waiting && !taken_new(&sum) && !sum.known); /* not read again */
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, seg, 0, &b));
	((char *)(uintptr_t)b.p)[b.n / 2] ^= 1;
	write_raw(seg, b.p, b.n);
	w = watch(stick, &sum);
	CHECK(!w.packs && w.refused == 1);
	w = watch(stick, &sum);
	CHECK(!w.packs && !w.refused); /* the log has it already */
	CHECK(unlink(seg) == 0);
	copy_file(path, seg);
	w = watch(stick, &sum);
	CHECK(w.packs == 1 && sum.known == RECORDS + 1);
	write_raw(scratch("watched"), "rubbish\n", 8); /* now all packs count as new */
	w = watch(stick, &sum);
	CHECK(w.packs == 1);
	CHECK_FAILS(pack_watch(cache, scratch("no stick"), scratch("watched"), NULL, NULL, 0, &w), E_NOTFOUND,
		    "no stick");
	arena_free(&a);
	close_cache();
}

/* Packs a recipe, then one with the same key whose text names another model. Returns the pack, signed. */
static const char *pack_recipes(struct key model, struct arena *a)
{
	struct pack_about about;
	CHECK_OK(file_mkdirs(scratch("recipes"), 0755));
	const char *out = arena_strdup(a, scratch("recipes/board.seg")), *text = record_recipe(a, model),
		   *other = record_recipe(a, hash_text("another"));
	open_cache();
	CHECK_OK(cache_put(cache, CACHE_RECIPE, model, text, strlen(text)));
	CHECK_OK(cache_put(cache, CACHE_RECIPE, hash_text("key"), other, strlen(other)));
	CHECK(cache_pack(cache, out, true) == 2);
	close_cache();
	CHECK_OK(pack_describe(out, &about));
	CHECK_OK(pack_sign(out, &about, keys(2)->private[0]));
	return out;
}

/* Only an importer who asks for recipes gets those of a pack, whoever signed it; hone-sync asks for none. */
TEST(recipes_are_for_those_who_ask)
{
	struct arena a = {0};
	struct blob b;
	const struct key model = hash_text("model");
	const char *path = pack_recipes(model, &a), *text = record_recipe(&a, model);
	struct taken_sum sum;
	struct exchange_sum recipes = {0};
	open_cache();
	CHECK_OK(take(path, keys(2)->public, &sum));
	CHECK(sum.recipes == 2 && sum.passed == 2 && !sum.refused && count(CACHE_RECIPE) == 0);
	sum = (struct taken_sum){0};
	CHECK_OK(pack_import(cache, path, NULL, keys(2)->public, 1, &sum, &recipes));
	CHECK(recipes.taken == 1 && sum.refused == 1 && count(CACHE_RECIPE) == 1);
	CHECK_OK(cache_get(cache, CACHE_RECIPE, model, &a, &b));
	CHECK(b.n == strlen(text) && !memcmp(b.p, text, b.n));
	close_cache();
	open_cache();
	struct pack_watched w = watch(scratch("recipes"), &sum);
	CHECK(w.packs == 1 && sum.recipes == 2 && count(CACHE_RECIPE) == 0);
	close_cache();
	arena_free(&a);
}

/* A stick has links out of the folder, files that would block, names with terminal codes, and very many
 * files. */
TEST(a_hostile_stick)
{
	const char *path = make_pack("bad.seg");
	char stick[256], name[400], from_sig[300];
	struct taken_sum sum;
	snprintf(stick, sizeof stick, "%s", scratch("bad"));
	snprintf(from_sig, sizeof from_sig, "%s" PACK_SIG, path);
	REQUIRE_OK(file_mkdirs(stick, 0755));
	static const char *const names[] = {"\033[2J.seg", "a b.seg",    ".hidden.seg", "new\nline.seg",
					    "..seg",       "no.segment", "-\377.seg"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(name, sizeof name, "%s/%s", stick, names[i]);
		copy_file(path, name);
		strncat(name, PACK_SIG, sizeof name - strlen(name) - 1);
		copy_file(from_sig, name);
	}
	snprintf(name, sizeof name, "%s/link.seg", stick);
	CHECK(symlink(path, name) == 0);
	snprintf(name, sizeof name, "%s/link.seg" PACK_SIG, stick);
	CHECK(symlink(from_sig, name) == 0);
	snprintf(name, sizeof name, "%s/fifo.seg", stick);
	CHECK(mkfifo(name, 0644) == 0);
	snprintf(name, sizeof name, "%s/fifo.seg" PACK_SIG, stick);
	CHECK(mkfifo(name, 0644) == 0);
	snprintf(name, sizeof name, "%s/folder.seg", stick);
	CHECK(mkdir(name, 0755) == 0);
	open_cache();
	struct pack_watched w = watch(stick, &sum);
	CHECK(!w.packs && !w.refused && w.waiting == 3 && !taken_new(&sum));
	for (int i = 0; i < 3 * PACK_WATCHED; i++) {
		snprintf(name, sizeof name, "%s/many-%d.seg", stick, i);
		copy_file(path, name);
		snprintf(name, sizeof name, "%s/many-%d.seg" PACK_SIG, stick, i);
		copy_file(from_sig, name);
	}
	int packs = 0;
	for (int i = 0; i < 3; i++) {
		w = watch(stick, &sum);
		CHECK(w.packs == PACK_WATCHED);
		packs += w.packs;
	}
	w = watch(stick, &sum);
	CHECK(packs == 3 * PACK_WATCHED && !w.packs);
	CHECK(count(CACHE_HINT) == RECORDS);
	close_cache();
}

TEST_MAIN
