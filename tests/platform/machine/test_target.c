/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/target.h"
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "platform/machine/target_isa.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same(const struct target *a, const struct target *b)
{
	struct buf x = {0}, y = {0};
	target_text(a, &x);
	target_text(b, &y);
	bool equal = strcmp(buf_str(&x), buf_str(&y)) == 0;
	buf_free(&x);
	buf_free(&y);
	return equal;
}

TEST(host_is_sane)
{
	struct target t;
	REQUIRE_OK(target_host(&t));
	CHECK(t.lanes == 4 || t.lanes == 8 || t.lanes == 16);
	CHECK(t.regs == 16 || t.regs == 32);
	CHECK(t.cores >= 1 && t.l1_bytes >= 4096 && t.line_bytes >= 16);
	CHECK(t.soc[0] && t.cpu[0] && t.isa[0] && !strchr(t.soc, ' '));
	CHECK(t.fma_gflops == 0);
	CHECK(strstr(t.features, "+"));
}

TEST(baselines)
{
	static const struct {
		const char *isa;
		int lanes, regs;
		bool fma;
	} want[] = {{"x86-64-v2", 4, 16, false},
		    {"x86-64-v3", 8, 16, true},
		    {"x86-64-v4", 16, 32, true},
		    {"armv8-a", 4, 32, true}};
	for (size_t i = 0; i < 4; i++) {
		struct target t;
		REQUIRE_OK(target_baseline(want[i].isa, &t));
		CHECK(t.lanes == want[i].lanes && t.regs == want[i].regs && t.fma == want[i].fma);
	}
	struct target t;
	CHECK_FAILS(target_baseline("pdp11", &t), E_NOTFOUND, "x86-64-v3");
}

TEST(targets_run_code_of_smaller_ones_only)
{
	struct target v2, v3, v4, arm, host;
	REQUIRE_OK(target_baseline("x86-64-v2", &v2));
	REQUIRE_OK(target_baseline("x86-64-v3", &v3));
	REQUIRE_OK(target_baseline("x86-64-v4", &v4));
	REQUIRE_OK(target_baseline("armv8-a", &arm));
	CHECK(target_runs(&v4, &v2) && target_runs(&v4, &v3) && target_runs(&v3, &v3));
	CHECK(!target_runs(&v2, &v3) && !target_runs(&v3, &v4));
	CHECK(!target_runs(&arm, &v2) && !target_runs(&v4, &arm));
	REQUIRE_OK(target_host(&host));
	struct target own;
	REQUIRE_OK(target_baseline(host.isa, &own));
	CHECK(target_runs(&host, &own) && target_runs(&host, &host));
	strcpy(own.features, "+nosuchthing");
	CHECK(!target_runs(&host, &own));
	/* A name that is the beginning of another name is a different feature. */
	strcpy(own.features, "+avx");
	strcpy(host.features, "+avx2,-avx");
	CHECK(!target_runs(&host, &own));
	strcpy(host.features, "+avx2,+avx");
	CHECK(target_runs(&host, &own));
}

/* A target from outside may be anything that can be written; LLVM ends the process where it contradicts
 * itself. */
TEST(contradictions_are_found)
{
	static const struct {
		const char *isa, *cpu, *change, *text;
		int lanes;
	} bad[] = {
	    {"x86-64-v3", "generic", "", "vectors of 4 to 8 lanes, not of 16", 16},
	    {"x86-64-v2", "generic", "", "vectors of 4 to 4 lanes, not of 8", 8},
	    {"armv8-a", "generic", "", "not of 1", 1},
	    {"x86-64-v4", "generic", "", "not of 12", 12},
	    {"x86-64-v3", "i386", "", "unknown processor i386", 8},
	    {"armv8-a", "znver4", "", "unknown processor znver4", 4},
	    {"x86-64-v3", "cortex-a53", "", "unknown processor cortex-a53", 8},
	    {"x86-64-v3", "generic", ",+avx512vnni", "cannot have the feature '+avx512vnni'", 8},
	    {"x86-64-v2", "generic", ",+avxvnni", "cannot have the feature '+avxvnni'", 4},
	    {"x86-64-v3", "generic", ",-avx2", "given twice", 8},
	    {"x86-64-v3", "generic", ",+dotprod", "no feature '+dotprod' of x86-64-v3", 8},
	    {"armv8-a", "generic", ",+avx512bf16", "no feature '+avx512bf16' of armv8-a", 4},
	    {"armv8-a", "generic", ",+", "no feature '+'", 4},
	    {"armv8-a", "generic", ",,", "no feature ''", 4},
	};
	struct target t;
	char extras[sizeof t.features];
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		REQUIRE_OK(target_baseline(bad[i].isa, &t));
		CHECK_OK(target_check(&t));
		t.lanes = bad[i].lanes;
		snprintf(t.cpu, sizeof t.cpu, "%s", bad[i].cpu);
		strcat(t.features, bad[i].change);
		CHECK_FAILS(target_check(&t), E_UNSUPPORTED, bad[i].text);
	}
	REQUIRE_OK(target_baseline("x86-64-v3", &t));
	target_extras(&t, extras);
	CHECK(!strcmp(extras, ""));
	strcat(t.features, ",+avxvnni,-avx512vnni");
	CHECK_OK(target_check(&t));
	target_extras(&t, extras);
	CHECK(!strcmp(extras, "+avxvnni") && target_has(&t, extras) && !target_has(&t, "+avx512vnni"));
	strcpy(t.features, "+avx2");
	CHECK_FAILS(target_check(&t), E_UNSUPPORTED, "x86-64-v3 without the feature");
	strcpy(t.isa, "sim");
	CHECK_FAILS(target_check(&t), E_UNSUPPORTED, "unknown ISA sim");
	REQUIRE_OK(target_host(&t));
	CHECK_OK(target_check(&t));
}

TEST(architectures_of_cuda)
{
	static const struct {
		const char *cpu, *features, *text;
	} bad[] = {{"sm_70", "+ptx74", "unknown architecture sm_70"},
		   {"sm_87 ", "+ptx74", "unknown architecture sm_87 "},
		   {"sm_87", "", "needs one version of PTX"},
		   {"sm_87", "+ptx74,+ptx75", "needs one version of PTX"},
		   {"sm_87", "+ptx79", "not '+ptx79'"},
		   {"sm_87", "+ptx", "not '+ptx'"},
		   {"sm_87", "+ptx+74", "not '+ptx+74'"},
		   {"sm_87", "+ptx074", "not '+ptx074'"},
		   {"sm_87", "+ptx 74", "not '+ptx 74'"},
		   {"sm_87", "+ptx73", "sm_87 needs +ptx74 or later"},
		   {"sm_90", "+ptx74", "sm_90 needs +ptx78"}};
	static const char *const good[][2] = {{"sm_72", "+ptx61"}, {"sm_75", "+ptx85"}, {"sm_80", "+ptx70"},
					      {"sm_86", "+ptx71"}, {"sm_87", "+ptx74"}, {"sm_89", "+ptx78"},
					      {"sm_90", "+ptx83"}};
	struct target t = {.isa = "cuda", .lanes = 4};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		strcpy(t.cpu, good[i][0]);
		strcpy(t.features, good[i][1]);
		CHECK_OK(target_check(&t));
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		strcpy(t.cpu, bad[i].cpu);
		strcpy(t.features, bad[i].features);
		CHECK_FAILS(target_check(&t), E_UNSUPPORTED, bad[i].text);
	}
	strcpy(t.features, "+ptx78");
	t.lanes = 8;
	CHECK_FAILS(target_check(&t), E_UNSUPPORTED, "vectors of 4 lanes");
}

TEST(text_round_trip)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "armv7-neon"};
	struct rng r;
	rng_seed(&r, 7);
	for (int i = 0; i < 200; i++) {
		struct target t, back;
		struct buf b = {0};
		REQUIRE_OK(target_baseline(names[i % 5], &t));
		t.fma_gflops = rng_unit(&r) * 500;
		t.copy_gbs = rng_unit(&r) / 3;
		for (int k = 0; k < 4; k++)
			t.bw_gbs[k] = k == 2 ? 0 : rng_unit(&r) * 1e6;
		t.l3_bytes = (int64_t)rng_below(&r, 1u << 30);
		t.group = i % 3 ? 1 << i % 13 : 0;
		t.launch_ns[0] = i % 5 ? rng_unit(&r) * 1e5 : 0;
		t.launch_ns[1] = i % 7 ? rng_unit(&r) * 1e4 : 0;
		target_text(&t, &b);
		CHECK((strstr(buf_str(&b), " group=") != NULL) == (t.group > 0));
		REQUIRE_OK(target_parse(buf_str(&b), &back));
		CHECK(same(&t, &back));
		CHECK(memcmp(&t.bw_gbs, &back.bw_gbs, sizeof t.bw_gbs) == 0 &&
		      t.fma_gflops == back.fma_gflops);
		CHECK(memcmp(&t.launch_ns, &back.launch_ns, sizeof t.launch_ns) == 0);
		CHECK((strstr(buf_str(&b), " launch=") != NULL) ==
		      (t.launch_ns[0] > 0 || t.launch_ns[1] > 0));
		CHECK(key_equal(target_key(&t), target_key(&back)));
		buf_free(&b);
	}
}

TEST(groups_are_powers_of_two)
{
	static const struct {
		const char *key;
		int rc;
	} all[] = {{"", E_OK},
		   {" group=4096 serial=1", E_OK},
		   {" serial=2", E_CORRUPT},
		   {" group=1024", E_OK},
		   {" group=96", E_CORRUPT},
		   {" group=0", E_CORRUPT},
		   {" group=8192", E_CORRUPT}};
	char text[300];
	struct target t;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		snprintf(
		    text, sizeof text,
		    "opencl soc=g cpu=generic lanes=4 regs=60 fused=1 l1=1 l2=1 l3=0 line=64 cores=4%s fma=0 "
		    "bw=0,0,0,0 copy=0 feat=",
		    all[i].key);
		CHECK(target_parse(text, &t) == all[i].rc);
	}
	CHECK(target_vectors(&t, 4) == 60 && target_vectors(&t, 16) == 15 && target_vectors(&t, 1) == 240);
	CHECK(target_most_lanes(&t) == 16);
	t.serial = 1; /* a processor's narrow vectors take whole registers */
	CHECK(target_vectors(&t, 4) == 60 && target_vectors(&t, 16) == 15 && target_vectors(&t, 1) == 60);
	REQUIRE_OK(target_baseline("x86-64-v3", &t));
	CHECK(target_vectors(&t, 4) == 16 && target_vectors(&t, 1) == 16 && target_most_lanes(&t) == 8);
}

/* Files that were written before launches were measured have none; the shorter launch is kept. */
TEST(launches_of_a_device)
{
	static const struct {
		const char *key;
		int rc;
		double ns[2];
	} all[] = {{"", E_OK, {0, 0}},
		   {" launch=4100.5,900", E_OK, {4100.5, 900}},
		   {" launch=4100,0", E_OK, {4100, 0}},
		   {" launch=0,0", E_CORRUPT, {0, 0}},
		   {" launch=4100", E_CORRUPT, {0, 0}},
		   {" launch=-1,5", E_CORRUPT, {0, 0}},
		   {" launch=1e10,5", E_CORRUPT, {0, 0}},
		   {" launch=nan,5", E_CORRUPT, {0, 0}}};
	char text[300];
	struct target t;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		snprintf(text, sizeof text,
			 "cuda soc=g cpu=sm_87 lanes=4 regs=60 fused=1 l1=1 l2=1 l3=0 line=64 cores=4 fma=1 "
			 "bw=0,0,0,0 copy=0%s feat=",
			 all[i].key);
		CHECK(target_parse(text, &t) == all[i].rc);
		if (all[i].rc >= 0)
			CHECK(t.launch_ns[0] == all[i].ns[0] && t.launch_ns[1] == all[i].ns[1]);
	}
	t = (struct target){.launch_ns = {0, 500}};
	target_raise(&t, &(struct target){.launch_ns = {3000, 600}});
	CHECK(t.launch_ns[0] == 3000 && t.launch_ns[1] == 500);
	target_raise(&t, &(struct target){.launch_ns = {2000, 0}});
	CHECK(t.launch_ns[0] == 2000 && t.launch_ns[1] == 500);
}

TEST(key_has_no_peaks)
{
	struct target a, b;
	REQUIRE_OK(target_baseline("x86-64-v3", &a));
	b = a;
	b.fma_gflops = 10;
	b.bw_gbs[1] = 3;
	CHECK(!same(&a, &b));
	CHECK(key_equal(target_key(&a), target_key(&b)));
	b.lanes = 4;
	CHECK(!key_equal(target_key(&a), target_key(&b)));
}

/* A virtual machine may hide some parts of AVX-512; then none of it is used. */
TEST(parts_of_avx512_are_none)
{
#define V3 "pni ssse3 sse4_1 sse4_2 popcnt cx16 avx avx2 fma f16c bmi1 bmi2 abm movbe"
	static const char *const parts[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
	struct target t = {0};
	REQUIRE_OK(isa_of_flags(V3 " avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni", ISA_X86, &t));
	CHECK(!strcmp(t.isa, "x86-64-v4") && t.lanes == 16);
	CHECK(strstr(t.features, "+avx512f,") && strstr(t.features, "+avx512vnni") &&
	      strstr(t.features, ",-avx512bf16"));
	for (int without = 0; without < 5; without++) {
		char flags[256] = V3 " avx512_vnni avx_vnni";
		for (int i = 0; i < 5; i++)
			if (i != without) {
				strcat(flags, " ");
				strcat(flags, parts[i]);
			}
		t = (struct target){0};
		REQUIRE_OK(isa_of_flags(flags, ISA_X86, &t));
		CHECK(!strcmp(t.isa, "x86-64-v3") && t.lanes == 8);
		CHECK(!strstr(t.features, "+avx512") && strstr(t.features, ",-avx512f,") &&
		      strstr(t.features, ",-avx512vnni"));
		CHECK(strstr(t.features, "+avx2,") && strstr(t.features, "+avxvnni"));
	}
	CHECK_FAILS(isa_of_flags("pni ssse3", ISA_X86, &t), E_UNSUPPORTED, "SSE4.2");
#undef V3
}

/* A result of another power mode or revision belongs to another target; both are words, whatever the files
 * hold. */
TEST(revision_and_power_mode)
{
	char dir[] = "/tmp/hone-target-XXXXXX", path[64], label[160];
	struct target a, b, back;
	struct buf text = {0};
	REQUIRE(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/status", dir);
	REQUIRE_OK(target_baseline("armv8-a", &a));
	isa_power_mode(path, &a);
	isa_revision(path, "r4p1", &a);
	CHECK(!strcmp(a.mode, "") && !strcmp(a.rev, "r4p1"));
	b = a;
	REQUIRE_OK(file_write(path, "pmode:0002 fmode:fanNull\n", 25));
	isa_power_mode(path, &b);
	CHECK(!strcmp(b.mode, "pmode:0002"));
	CHECK(!key_equal(target_key(&a), target_key(&b)));
	target_label(&b, label);
	CHECK(!strcmp(label, "baseline pmode:0002 armv8-a 4"));
	target_text(&b, &text);
	REQUIRE_OK(target_parse(buf_str(&text), &back));
	CHECK(same(&b, &back) && !strcmp(back.mode, b.mode) && !strcmp(back.rev, b.rev));
	b = a;
	REQUIRE_OK(file_write(path,
			      "B0 \x01\xff"
			      "2.1\n",
			      9));
	isa_revision(path, "r4p1", &b);
	CHECK(!strcmp(b.rev, "B0_2.1"));
	CHECK(!key_equal(target_key(&a), target_key(&b)));
	char longer[300];
	memset(longer, 'x', sizeof longer);
	REQUIRE_OK(file_write(path, longer, sizeof longer));
	isa_power_mode(path, &b);
	CHECK(strlen(b.mode) == sizeof b.mode - 1);
	CHECK_FAILS(target_parse("x86-64-v4 soc=a rev= cpu=b lanes=4", &back), E_CORRUPT, "rev");
	unlink(path);
	rmdir(dir);
	buf_free(&text);
}

/* Any text is either a target that prints with all its fields as read, or E_CORRUPT. */
TEST(hostile_text)
{
	struct target t, back;
	struct buf b = {0};
	struct rng r;
	rng_seed(&r, 9);
	REQUIRE_OK(target_baseline("x86-64-v4", &t));
	t.fma_gflops = 123.4;
	target_text(&t, &b);
	char s[4096];
	for (int i = 0; i < 20000; i++) {
		snprintf(s, sizeof s, "%s", buf_str(&b));
		size_t n = strlen(s);
		if (i & 1)
			s[rng_below(&r, (uint32_t)n)] = 0;
		for (uint32_t k = rng_below(&r, 4); k; k--)
			s[rng_below(&r, (uint32_t)n)] = (char)rng_u64(&r);
		int rc = target_parse(s, &back);
		CHECK(rc == E_OK || rc == E_CORRUPT);
	}
	CHECK_FAILS(target_parse("", &t), E_CORRUPT, "ISA");
	CHECK_FAILS(target_parse("x86-64-v4", &t), E_CORRUPT, "soc");
	CHECK_FAILS(target_parse("x86-64-v4 soc=a cpu=b lanes=-1", &t), E_CORRUPT, "lanes");
	CHECK_FAILS(target_parse("x86-64-v4 soc=a cpu=b lanes=99999999999999999999", &t), E_CORRUPT, "lanes");
	buf_printf(&b, " more");
	CHECK_FAILS(target_parse(buf_str(&b), &t), E_CORRUPT, "after its end");
	buf_free(&b);
}

static int kept_host(const char *dir, struct clock *clock, struct target *t)
{
	int rc = target_host(t);
	return rc < 0 ? rc : target_kept(dir, clock, t);
}

/* Peaks that were measured before the board's file named a cache are measured again, and those of another
 * cluster stay. */
TEST(kept_for_each_cluster_and_all_its_caches)
{
	const char *dir = scratch_folder();
	struct target big, little, now;
	struct clock still = clock_virtual(1);
	char path[300];
	snprintf(path, sizeof path, "%s/target", dir);
	REQUIRE_OK(target_host(&big));
	big.l3_bytes = 0;
	REQUIRE_OK(target_kept(dir, &clock_real, &big));
	CHECK(big.l3_bytes == 0 && big.bw_gbs[1] > 0 && big.bw_gbs[2] == 0);
	little = big;
	strcpy(little.cpu, strcmp(big.cpu, "generic") ? "generic" : "other");
	little.bw_gbs[1] = 123;
	target_write_peaks(dir, path, &little);
	now = big;
	REQUIRE_OK(target_kept(dir, &still, &now));
	CHECK(same(&now, &big));
	now.l3_bytes = 4 << 20;
	REQUIRE_OK(target_kept(dir, &clock_real, &now));
	CHECK(now.l3_bytes == 4 << 20 && now.bw_gbs[2] > 0);
	little.bw_gbs[1] = 0;
	CHECK(target_recall(dir, &little) && little.bw_gbs[1] == 123);
	/* The file stays short, however many others there were. */
	for (int i = 0; i < 20; i++) {
		snprintf(little.cpu, sizeof little.cpu, "core-%d", i);
		target_write_peaks(dir, path, &little);
	}
	struct arena a = {0};
	struct blob b;
	int lines = 0;
	REQUIRE_OK(file_read(&a, path, 0, &b));
	for (size_t i = 0; i < b.n; i++)
		lines += ((const char *)b.p)[i] == '\n';
	CHECK(lines == 8 && target_recall(dir, &little));
	arena_free(&a);
}

TEST(measured_and_kept)
{
	char dir[] = "/tmp/hone-target-XXXXXX", path[64], cmd[128];
	REQUIRE(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/sub", dir);
	struct target t, again;
	int64_t start = clock_now(&clock_real);
	REQUIRE_OK(kept_host(path, &clock_real, &t));
	CHECK(clock_now(&clock_real) > start);
	CHECK(t.fma_gflops > 0.1 && t.bw_gbs[0] > 0.1 && t.bw_gbs[3] > 0.01 && t.copy_gbs > 0.01);
	CHECK((t.l3_bytes == 0) == (t.bw_gbs[2] == 0));
	REQUIRE_OK(kept_host(path, &clock_real, &again));
	CHECK(same(&t, &again)); /* a second measurement would differ */

	/* Peaks that were too low rise, and stay. */
	again.fma_gflops = again.bw_gbs[1] = 0.01;
	again.bw_gbs[3] = 1e9;
	REQUIRE_OK(target_measure_again(path, &clock_real, &again));
	CHECK(again.fma_gflops > 0.1 && again.bw_gbs[1] > 0.1 && again.bw_gbs[3] == 1e9);
	REQUIRE_OK(kept_host(path, &clock_real, &t));
	CHECK(same(&t, &again));

	/* Peaks are fresh for a minute, unless the calendar was set back. */
	snprintf(cmd, sizeof cmd, "%s/target", path);
	CHECK(target_is_fresh(path) && !target_is_fresh(dir));
	for (int late_s = -100; late_s <= 100; late_s += 200) {
		struct timespec at = {.tv_sec = time(NULL) + late_s}, times[2] = {at, at};
		CHECK(utimensat(AT_FDCWD, cmd, times, 0) == 0 && !target_is_fresh(path));
	}

	/* A damaged file, or one of another machine, is measured again. */
	REQUIRE_OK(file_write(cmd, "rubbish\n", 8));
	struct clock still = clock_virtual(1);
	REQUIRE_OK(kept_host(path, &still, &again));
	CHECK(again.fma_gflops == 0);
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	CHECK(system(cmd) == 0);
}

TEST(another_isa_is_not_measured)
{
	struct target t;
	REQUIRE_OK(target_baseline("x86-64-v3", &t));
	strcpy(t.isa, "sim");
	CHECK_FAILS(target_measure(&t, &clock_real), E_UNSUPPORTED, "sim");
	float one[1024] = {0};
	CHECK_FAILS(target_stream(&t, one, sizeof one, one, sizeof one), E_UNSUPPORTED, "sim");
}

/* Exactly the requested bytes are written, from what was read; nothing after them changes. */
TEST(streams_write_what_they_say)
{
	enum { PAGE = 1024, PAGES = 7 };
	static _Alignas(64) float from[PAGE * PAGES], to[PAGE * (PAGES + 1)];
	static const struct {
		int in, out;
	} pages[] = {{7, 7}, {7, 3}, {3, 7}, {7, 0}, {0, 7}, {0, 0}, {1, 1}};
	struct target t;
	REQUIRE_OK(target_host(&t));
	for (int i = 0; i < PAGE * PAGES; i++)
		from[i] = (float)(1 + i);
	for (size_t k = 0; k < sizeof pages / sizeof *pages; k++) {
		size_t out = (size_t)pages[k].out * PAGE, unknown = 0;
		memset(to, 0, sizeof to);
		REQUIRE_OK(target_stream(&t, to, out * sizeof *to + 100, from,
					 (size_t)pages[k].in * PAGE * sizeof *from + 4));
		for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
			bool copied =
			    to[i] != 0 && to[i] <= PAGE * PAGES && ((size_t)to[i] - 1) % PAGE == i % PAGE;
			unknown += i < out ? !copied : to[i] != 0;
			unknown += pages[k].in == pages[k].out && i < out && to[i] != from[i];
		}
		CHECK(unknown == 0);
	}
}

TEST(an_older_processor)
{
	struct target t, older, all;
	REQUIRE_OK(target_host(&all));
	const char *isa = !strncmp(all.isa, "x86", 3) ? "x86-64-v2" : all.isa;
	REQUIRE(setenv("HONE_ISA", isa, 1) == 0);
	CHECK_OK(target_host(&t));
	CHECK_OK(target_baseline(isa, &older));
	CHECK(!strcmp(t.isa, isa) && t.lanes == older.lanes && t.regs == older.regs && t.fma == older.fma);
	CHECK(!strcmp(t.features, older.features) && t.cores == all.cores && t.l1_bytes == all.l1_bytes);
	REQUIRE(setenv("HONE_ISA", "vax", 1) == 0);
	CHECK_FAILS(target_host(&t), E_NOTFOUND, "HONE_ISA=vax");
	REQUIRE(setenv("HONE_ISA", !strncmp(isa, "arm", 3) ? "x86-64-v2" : "armv8-a", 1) == 0);
	CHECK_FAILS(target_host(&t), E_UNSUPPORTED, "this processor is");
	REQUIRE(unsetenv("HONE_ISA") == 0);
}

TEST_MAIN
