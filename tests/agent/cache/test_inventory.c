/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/inventory.h"
#include "platform/base/file.h"
#include "tests/lib/cache_dir.h"

/* Puts records first to last - 1 and their code into the cache of the folder. */
static void fill(const char *folder, int first, int last)
{
	struct cache *c;
	REQUIRE_OK(cache_open(&c, folder, false, 0));
	for (int i = first; i < last; i++) {
		struct rec r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
		CHECK_OK(cache_put(c, CACHE_CODE, code_key(&r), "code", 4));
	}
	cache_close(c);
}

static struct inventory take(const char *folder)
{
	struct inventory none = {0}, v;
	CHECK(inventory_compare(folder, &none, &v) == 0);
	CHECK(key_equal(v.files, inventory_files(folder)));
	return v;
}

/* In the command $1 is a, and $2 is b. */
static void shell(const char *how, const char *a, const char *b)
{
	char cmd[512];
	snprintf(cmd, sizeof cmd, "set -- %s %s; %s", a, b, how);
	CHECK(system(cmd) == 0);
}

/* Each case changes a cache of 20 records whose inventory was taken. */
TEST(what_a_cache_lacks)
{
	static const struct {
		const char *how, *says;
	} cases[] = {
	    {":", NULL},
	    {"touch $1/*.seg", NULL}, /* it is read, and has all */
	    {"rm -rf $1", "0 of 20 records, code of 0 of 20 kernels"},
	    {"rm -rf $1 && mkdir $1", "0 of 20 records, code of 0 of 20 kernels"},
	    {"rm -rf $1 && echo x > $1", "0 of 20 records, code of 0 of 20 kernels"},
	    {"rm -rf $1/* && echo x > $1/photo.jpg", "0 of 20 records, code of 0 of 20 kernels"},
	    {"rm -rf $1 && cp -r $2 $1", "other records"}, /* another cache, which has more */
	    {"printf x | dd of=$(ls $1/*.seg | tail -1) bs=1 seek=900 conv=notrunc 2>/dev/null", "19 of 20 records"},
	    {"truncate -s 1000 $(ls $1/*.seg | tail -1)", " of 20 records"},
	    {"chmod 777 $1/*.seg; touch $1/*.seg", "0 of 20 records"}, /* others may write it: hints */
	};
	char other[80], what[80];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct inventory before, now;
		fresh_dir();
		snprintf(other, sizeof other, "%s.other", dir);
		fill(dir, 0, 20);
		fill(other, 100, 140);
		before = take(dir);
		CHECK(before.records == 20 && before.code == 20);
		shell(cases[i].how, dir, other);
		int lacks = inventory_compare(dir, &before, &now);
		inventory_say(&before, &now, what, sizeof what);
		if (lacks != (cases[i].says != NULL) || (lacks && !strstr(what, cases[i].says))) {
			printf("%s: %d: %s\n", cases[i].how, lacks, what);
			test_bad = 1;
		}
		/* What it has now is what it is compared with next. */
		CHECK(inventory_compare(dir, &now, &before) == 0);
		shell("rm -rf $1 $2", dir, other);
	}
}

TEST(a_cache_that_grows_lacks_nothing)
{
	struct inventory before, now;
	struct cache *c;
	struct rec r = sample(3);
	fresh_dir();
	fill(dir, 0, 8);
	before = take(dir);
	fill(dir, 8, 30);
	CHECK(inventory_compare(dir, &before, &now) == 0 && now.records == 30 && now.code == 30);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	CHECK_OK(cache_compact(c)); /* other files, with the same records */
	cache_close(c);
	CHECK(inventory_compare(dir, &now, &before) == 0);
	REQUIRE_OK(cache_open(&c, dir, false, 0)); /* as hone forget does */
	CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&r)));
	cache_close(c);
	CHECK(inventory_compare(dir, &before, &now) == 1 && now.records == 29 && now.code == 30);
	remove_dir();
}

/* Kernels that an image ships count, and so do they when they are gone. */
TEST(seed_layers_count)
{
	struct inventory before, now;
	char seeds[200], one[80], two[80];
	fresh_dir();
	snprintf(one, sizeof one, "%s.1", dir);
	snprintf(two, sizeof two, "%s.2", dir);
	fill(one, 0, 10);
	fill(two, 10, 20);
	snprintf(seeds, sizeof seeds, "/no/seeds:%s::%s:", one, two);
	setenv("HONE_SEEDS", seeds, 1);
	before = take(dir);
	CHECK(before.records == 20);
	CHECK(inventory_compare(dir, &before, &now) == 0);
	shell("rm -rf $1", two, "");
	CHECK(inventory_compare(dir, &before, &now) == 1 && now.records == 10);
	setenv("HONE_SEEDS", "", 1);
	shell("rm -rf $1", one, "");
	remove_dir();
}

/* Of an unknown inventory nothing is lacking, and puts that wait are not in the files. */
TEST(only_what_is_in_files_counts)
{
	struct inventory none = {0}, v;
	struct cache *c;
	struct rec r = sample(1);
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	CHECK_OK(cache_put_rec(c, &r));
	inventory_take(c, &v);
	CHECK(v.records == 0 && inventory_is_known(&v) && !inventory_lacks(c, &none, &v));
	CHECK_OK(cache_commit(c));
	inventory_take(c, &v);
	CHECK(v.records == 1 && key_equal(v.some[0], rec_key(&r)) && !v.some[1].hi && !v.some[1].lo);
	cache_close(c);
	remove_dir();
}

TEST_MAIN
