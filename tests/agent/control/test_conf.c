/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/conf.h"
#include "agent/control/policy.h"
#include "kernels/library/library.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "tests/lib/device_names.h"
#include "tests/lib/test.h"
#include <sys/stat.h>
#include <unistd.h>

static int read_text(struct arena *a, const char *text, struct conf *c)
{
	conf_defaults(c);
	return conf_text("honed.conf", text, strlen(text), a, c);
}

TEST(every_key_is_taken)
{
	struct arena a = {0};
	struct conf c;
	REQUIRE_OK(read_text(
	    &a,
	    "# words\n[honed]\ncache = /c ; behind a value\ncache_limit=32M\nsocket: /s\n"
	    "policy = fifo\nlog = verbose\nlibrary = all\n[boot]\nbudget = 500ms\njobs = 2\nunclean = 5\n"
	    "[idle]\ntune = no\nslice = 1m\nhours = 22:30-06:05\nload = 40%\npressure = 5\n"
	    "headroom = 20\nbattery = 50%\nmemory = 1G\nsettle = 3s\nrest = 1h\n"
	    "[limits]\nmemory = 64M\njobs = 3\nwrites = 1M\n"
	    "[inhibit]\nfile = /a\n  file = /b\n"
	    "[model gr\xc3\xbcn 1]\npath = /m.onnx\nthreads = 4\npriority = -7\nlevel = w16\n"
	    "shape = in:put=1x3x224x224\nshape = N:4\nshape = in:put=2x3\n[model two]\npath = /2\n"
	    "[sync]\nserver = https://x\nevery = 1h\nserver = https://y\n",
	    &c));
	CHECK(!strcmp(c.cache, "/c") && c.cache_bytes == 32 << 20 && !strcmp(c.socket, "/s"));
	CHECK(!strcmp(c.policy, "fifo") && c.log == LOG_VERBOSE && !strcmp(c.library, "all"));
	CHECK(c.boot_budget_ns == 500 * NS_PER_MS && c.boot_jobs == 2 && c.boot_unclean == 5);
	CHECK(!c.idle && c.slice_ns == 60 * NS_PER_S && c.rest_ns == 3600 * NS_PER_S);
	CHECK(c.gate.from_minute == 22 * 60 + 30 && c.gate.to_minute == 6 * 60 + 5);
	CHECK(c.gate.load_pct == 40 && c.gate.pressure_pct == 5 && c.gate.headroom_mc == 20000);
	CHECK(c.gate.battery_pct == 50 && c.gate.memory_bytes == 1 << 30 && c.gate.settle_ns == 3 * NS_PER_S);
	CHECK(c.job_memory_bytes == 64 << 20 && c.jobs == 3 && c.writes_bytes == 1 << 20);
	REQUIRE(c.ninhibit == 2 && !strcmp(c.inhibit[0], "/a") && !strcmp(c.inhibit[1], "/b"));
	REQUIRE(c.nmodels == 2);
	CHECK(!strcmp(c.model[0].name, "gr\xc3\xbcn 1") && !strcmp(c.model[0].path, "/m.onnx"));
	CHECK(c.model[0].threads == 4 && c.model[0].priority == -7 && c.model[0].level == LEVEL_W16 &&
	      c.model[0].line == 31);
	REQUIRE(c.model[0].shapes.n == 2);
	CHECK(!strcmp(c.model[0].shapes.shape[0], "in:put=2x3")); /* a later line overrides an earlier one */
	CHECK(!strcmp(c.model[0].shapes.shape[1], "N=4"));        /* the old form */
	CHECK(!c.model[1].shapes.n && c.model[1].level == LEVEL_FP32 && !strcmp(c.model[1].path, "/2"));
	REQUIRE(c.nsync == 2 && !strcmp(c.sync[0].value, "https://y") && !strcmp(c.sync[1].key, "every"));
	arena_free(&a);
}

/* [honed] holds where a model's section does not say it, and on the processor alone. */
TEST(libraries_of_models)
{
	static const char text[] =
	    "[model a]\npath = /a\n[model b]\npath = /b\nlibrary = none\n"
	    "[model c]\npath = /c\nlibrary = onednn, /opt/my lib.so,xnnpack\ndevice = cuda:0 cpu cpu:big\n"
	    "[honed]\nlibrary = all\n";
	struct arena a = {0};
	struct conf c;
	REQUIRE_OK(read_text(&a, text, &c));
	REQUIRE_OK(conf_spread(&a, &c));
	REQUIRE(c.nmodels == 5);
	CHECK(!strcmp(c.model[0].library, "all") && !c.model[1].library && !c.model[2].library);
	for (int i = 3; i < 5; i++)
		CHECK(c.model[i].library && !strcmp(c.model[i].library, "onednn, /opt/my lib.so,xnnpack"));
	REQUIRE_OK(read_text(&a, "[model a]\npath = /a\n", &c));
	REQUIRE_OK(conf_spread(&a, &c));
	CHECK(!c.model[0].library);
	arena_free(&a);
	struct buf all = {0};
	for (const struct library *const *l = library_table; *l; l++)
		buf_printf(&all, "%s%s", all.n ? " " : "", (*l)->name);
	CHECK(conf_is_libraries("all") && !conf_is_libraries("") && !conf_is_libraries("none,all"));
	for (const struct library *const *l = library_table; *l; l++)
		CHECK(conf_is_libraries((*l)->name));
	CHECK(strlen(LIBRARY_NAMES) == all.n); /* both have the same names */
	buf_free(&all);
}

static const struct {
	const char *text, *said; /* after "honed.conf:" */
} refused[] = {
    {"[honed]\nlibrary = mkl\n", "2: [honed] library = mkl is not possible; it takes none, all, or names"},
    {"[model a]\nlibrary = openblas onednn\n", "2: [model a] library = openblas onednn is not possible"},
    {"[model a]\nlibrary = openblas,libx.so\n", "2: [model a] library = openblas,libx.so is not possible"},
    {"[model a]\nlibrary = ,\n", "2: [model a] library = , is not possible"},
    {"[boot]\nbudget = 20x\n", "2: [boot] budget = 20x is not possible; it takes 0s to 1h"},
    {"[boot]\nbudget = 2h\n", "2: [boot] budget"},
    {"[model m]\npath = /m\ndevice = gpu\n",
     "3: [model m] device = gpu is not possible; it takes cpu, cpu:CLUSTER, opencl:N"},
    {"[model m]\npath = /m\ndevice =\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = opencl\n", "3: [model m] device = opencl"},
    {"[model m]\npath = /m\ndevice = opencl:1000\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = opencl:01\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = cuda:1000\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = cuda\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = opencl:-1\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = opencl:1x\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = cpu,opencl:0\n", "3: [model m] device"},
    {"[model m]\npath = /m\ndevice = cpu opencl:0 cpu\n",
     "3: [model m] device = cpu opencl:0 cpu: cpu is there twice; name it once"},
    {"[model m]\npath = /m\ndevice = opencl:0\topencl:0\n",
     "3: [model m] device = opencl:0\topencl:0: opencl:0 is there twice"},
    {"[model m]\npath = /m\ndevice = cpu opencl:0 opencl:1 opencl:2 opencl:3 opencl:4 opencl:5 opencl:6 "
     "opencl:7\n",
     "3: [model m] device"},
    {"[boot]\n\n# x\njobs = 17\n", "4: [boot] jobs = 17"},
    {"[boot]\njobs = 1x\n", "2: [boot] jobs"},
    {"[boot]\njobs =\n", "2: [boot] jobs"},
    {"[boot]\nunclean = 99999999999999999999\n", "2: [boot] unclean"},
    {"[boot]\ncache = /x\n",
     "2: [boot] cache: no such key; it belongs to [honed]; there are: budget, jobs, unclean"},
    {"[honed]\nmemory = 1M\n", "2: [honed] memory: no such key; it belongs to [idle], [limits];"},
    {"[honed]\nshape = N=1\n", "2: [honed] shape: no such key; it belongs to [model NAME];"},
    {"[honed]\ntoken = /x\n", "2: [honed] token: no such key; it belongs to [sync];"},
    {"[boots]\n", "1: [boots]: no such section; did you mean [boot]? there are: [honed], [boot], [idle]"},
    {"[modl x]\n", "1: [modl x]: no such section; did you mean [model NAME]? there are: "},
    {"[camera]\n", "1: [camera]: no such section; there are: "},
    {"[boot]\nbudgte = 2s\n", "2: [boot] budgte: no such key; did you mean budget? there are: budget, jobs"},
    {"\n[boots] ; x\nbudget = 2s\n", "2: [boots]"},
    {"[model]\n", "1: [model]: no such section"},
    {"[model ]\n", "1: [model"},
    {"[boot] budget = 2s\n", "1: text after [boot]"},
    {"[boot\nbudget = 2s\n", "1: neither a [section] nor key = value"},
    {"budget = 2s\n", "1: budget: this key is before any section"},
    {"[boot]\nbudget = 2s\nwhat\njobs = 99\n", "3: neither"},
    {"[boot]\njobs = 99\nwhat\n", "2: [boot] jobs"},
    {"[idle]\ntune = true\n", "2: [idle] tune = true is not possible; it takes yes or no"},
    {"[idle]\nhours = 24:00-06:00\n", "2: [idle] hours"},
    {"[idle]\nhours = 2:00-06:00\n", "2: [idle] hours"},
    {"[idle]\nhours = 06:00-06:00\n", "2: [idle] hours"},
    {"[idle]\nhours = 06:00-07:00 \x7f\n", "2: not UTF-8, or a control character"},
    {"[idle]\nload = 0%\n", "2: [idle] load"},
    {"[idle]\nload = 101%\n", "2: [idle] load"},
    {"[idle]\nbattery = %\n", "2: [idle] battery"},
    {"[idle]\nheadroom = 15C\n", "2: [idle] headroom"},
    {"[idle]\nslice = 1.2.3s\n", "2: [idle] slice"},
    {"[idle]\nmemory = 1T\n", "2: [idle] memory"},
    {"[limits]\nmemory = 99999999999999999999G\n", "2: [limits] memory"},
    {"[honed]\ncache = here\n", "2: [honed] cache = here is not possible; it takes an absolute path"},
    {"[honed]\npolicy = best\n", "2: [honed] policy = best is not possible; it takes "},
    {"[honed]\nlog = loud\n", "2: [honed] log"},
    {"[inhibit]\nfile = x\n", "2: [inhibit] file"},
    {"[model x]\nthreads = 2\n\n", "1: [model x]: path is missing"},
    {"[model x]\n[model y]\npath = /y\n", "1: [model x]: path is missing"},
    {"[model x/y]\npath = /y\n", "1: [model x/y]: not a valid model name"},
    {"[model x]\npath = /y\nshape = 1x3\n", "3: [model x] shape"},
    {"[model x]\npath = /y\nshape = a=1x\n", "3: [model x] shape"},
    {"[model x]\npath = /y\nshape = a:1x\n", "3: [model x] shape"},
    {"[model x]\npath = /y\nshape = =1\n", "3: [model x] shape"},
    {"[model x]\npath = /y\nshape = a=1\nshape = b=1\nshape = c=1\nshape = d=1\nshape = e=1\nshape = f=1\n"
     "shape = g=1\nshape = h=1\nshape = h=2\nshape = i=1\n",
     "12: [model x] shape = i=1 is not possible; it takes what --shape of hone tune takes, x=1x3x224x224"},
    {"[model x]\npath = /y\nshape = a:0123456789\n", "3: [model x] shape"},
    {"[model x]\npath = /y\nmodel = a\n", "3: [model x] model: no such key; there are: path, threads"},
    {"[boot]\nbudget = 2s\nb\xff = 1\n", "3: not UTF-8"},
};

TEST(mistakes_are_reported_with_their_line)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct arena a = {0};
		struct conf c;
		char said[256];
		snprintf(said, sizeof said, "honed.conf:%s", refused[i].said);
		CHECK_FAILS(read_text(&a, refused[i].text, &c), E_USAGE, said);
		arena_free(&a);
	}
}

TEST(long_lines_nul_bytes_and_crowds_are_refused)
{
	struct arena a = {0};
	struct conf c;
	struct buf b = {0};
	char line[300];
	snprintf(line, sizeof line, "[honed]\ncache = /%0186d\n", 0);
	CHECK_OK(read_text(&a, line, &c));
	CHECK(c.cache && strlen(c.cache) == 187);
	snprintf(line, sizeof line, "[honed]\ncache = /%0200d\n", 0);
	CHECK_FAILS(read_text(&a, line, &c), E_USAGE, "honed.conf:2: a line of 209 bytes; at most 197");
	snprintf(line, sizeof line, "[model %050d]\n", 0);
	CHECK_FAILS(read_text(&a, line, &c), E_USAGE, "honed.conf:1: a section's name is too long");
	conf_defaults(&c);
	CHECK_FAILS(conf_text("f", "[boot]\n\0jobs = 1\n", 17, &a, &c), E_USAGE, "f:2: a NUL byte");
	for (int i = 0; i <= CONF_MODELS; i++)
		buf_printf(&b, "[model m%d]\npath = /m\n", i);
	CHECK_FAILS(read_text(&a, buf_str(&b), &c), E_USAGE, "honed.conf:129: [model m64]: too many models");
	buf_clear(&b);
	buf_puts(&b, "[inhibit]\n");
	for (int i = 0; i <= 64; i++)
		buf_puts(&b, "file = /m\n");
	CHECK_FAILS(read_text(&a, buf_str(&b), &c), E_USAGE, "honed.conf:66: [inhibit] file");
	buf_clear(&b);
	buf_puts(&b, "[sync]\n");
	for (int i = 0; i <= 64; i++)
		buf_printf(&b, "k%d = 1\n", i);
	CHECK_FAILS(read_text(&a, buf_str(&b), &c), E_USAGE, "honed.conf:66: [sync] k64: too many keys");
	buf_free(&b);
	arena_free(&a);
}

TEST(text_in_other_clothes_is_the_same)
{
	struct arena a = {0};
	struct conf c;
	CHECK_OK(read_text(&a, "\xef\xbb\xbf[boot]\r\n\tjobs = 3\r\n\r\n[boot]\n  unclean=4", &c));
	CHECK(c.boot_jobs == 3 && c.boot_unclean == 4);
	CHECK_OK(read_text(&a, "", &c));
	CHECK_OK(read_text(&a, "[idle]\nhours = 01:00-02:00\nhours = always\n", &c));
	CHECK(c.gate.from_minute == c.gate.to_minute);
	arena_free(&a);
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	CHECK_OK(file_write(path, text, strlen(text)));
}

TEST(drop_ins_come_by_name_and_win)
{
	char top[] = "/tmp/hone-conf-XXXXXX", path[64], folder[64];
	struct arena a = {0};
	struct conf c;
	REQUIRE(mkdtemp(top));
	snprintf(path, sizeof path, "%s/honed.conf", top);
	snprintf(folder, sizeof folder, "%s/honed.conf.d", top);
	CHECK_OK(conf_read(path, &a, &c));
	CHECK(c.boot_budget_ns == 20 * NS_PER_S && c.nmodels == 0);
	REQUIRE(mkdir(folder, 0755) == 0);
	put(folder, "10-a.conf", "[boot]\nbudget = 3s\njobs = 4\n[model m]\nthreads = 2\n");
	CHECK_FAILS(conf_read(path, &a, &c), E_USAGE, "10-a.conf:4: [model m]: path is missing");
	put(top, "honed.conf",
	    "[boot]\nbudget = 2s\nunclean = 9\n[model m]\npath = /m\n[inhibit]\nfile = /x\n");
	put(folder, "20-b.conf", "[boot]\nbudget = 4s\n[inhibit]\nfile = /y\n");
	put(folder, ".hidden.conf", "what");
	put(folder, "30-c.conf~", "what");
	put(folder, ".conf", "what");
	REQUIRE_OK(conf_read(path, &a, &c));
	CHECK(c.boot_budget_ns == 4 * NS_PER_S && c.boot_jobs == 4 && c.boot_unclean == 9 && c.ninhibit == 2);
	REQUIRE(c.nmodels == 1);
	CHECK(c.model[0].threads == 2 && !strcmp(c.model[0].path, "/m"));
	put(folder, "15-x.conf", "[boot]\nbudget = soon\n");
	CHECK_FAILS(conf_read(path, &a, &c), E_USAGE, "honed.conf.d/15-x.conf:2: [boot] budget = soon");
	snprintf(folder, sizeof folder, "rm -rf %s", top);
	CHECK(system(folder) == 0);
	arena_free(&a);
}

static int count_of(const char *text, const char *part)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
		n++;
	return n;
}

TEST(every_mistake_is_found)
{
	char top[] = "/tmp/hone-conf-XXXXXX", path[64], folder[64], bad[300];
	struct arena a = {0};
	struct conf c;
	static const char *const found[] = {
	    "honed.conf:1: early: this key is before any section",
	    "honed.conf:3: [boot] budget = soon is not possible",
	    "honed.conf:4: [boot] wings: no such key; there are: budget",
	    "honed.conf:5: neither a [section] nor key = value",
	    "honed.conf:7: [nest]: no such section",
	    "honed.conf:12: [model n] path = relative is not possible",
	    "honed.conf:13: not UTF-8",
	    "honed.conf:14: a line of 250 bytes",
	    "honed.conf:15: text after [idle]",
	    "honed.conf:17: [model a/b]: not a valid model name",
	    "honed.conf:20: [limits] jobs = 0 is not possible",
	    "honed.conf:21: neither a [section] nor key = value",
	    "honed.conf:10: [model m]: path is missing",
	    "honed.conf.d/10-a.conf:2: [idle] load = 0% is not possible",
	    "honed.conf.d/10-a.conf:3: [model o]: path is missing",
	};
	struct buf b = {0};
	REQUIRE(mkdtemp(top));
	snprintf(path, sizeof path, "%s/honed.conf", top);
	snprintf(folder, sizeof folder, "%s/honed.conf.d", top);
	CHECK(conf_check(path, &a, &c, &b) == 0 && !b.n);
	REQUIRE(mkdir(folder, 0755) == 0);
	char text[1200];
	memset(bad, 'x', 250);
	bad[250] = 0;
	snprintf(
	    text, sizeof text,
	    "early = 1\n[boot]\nbudget = soon\nwings = 2\nwhat\njobs = 2\n[nest]\neggs = 3\n\n[model m]\n"
	    "[model n]\npath = relative\n\x80 = 1\n%s\n[idle] tune = no\nrest = 1\n[model a/b]\npath = "
	    "1\n[limits]\n"
	    "jobs = 0\nwrites ; = 1M\n",
	    bad);
	put(top, "honed.conf", text);
	put(folder, "10-a.conf", "[idle]\nload = 0%\n[model o]\n");
	int n = conf_check(path, &a, &c, &b);
	CHECK(n == (int)(sizeof found / sizeof *found) && count_of(buf_str(&b), "\n") == n);
	const char *last = buf_str(&b);
	for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
		const char *here = strstr(last, found[i]);
		if (!here)
			printf("no '%s' after: %s\n", found[i], last);
		CHECK(here != NULL);
		last = here ? here : last;
	}
	buf_free(&b);
	put(folder, "10-a.conf", "[idle]\nload = 10%\n");
	put(top, "honed.conf", "[boot]\njobs = 2 ; two\nbudget : 3s\n[model n]\npath = /n\n");
	CHECK(conf_check(path, &a, &c, &b) == 0 && !b.n);
	CHECK(conf_check("/proc", &a, &c, &b) == 1 && strstr(buf_str(&b), "/proc"));
	buf_free(&b);
	arena_free(&a);
	snprintf(folder, sizeof folder, "rm -rf %s", top);
	CHECK(system(folder) == 0);
}

/* Mistakes that conf_read leaves alone: a later line of a file wins, and honed runs without hone-sync. */
TEST(repetitions_and_sync_are_found_by_the_check_alone)
{
	static const char text[] =
	    "[boot]\njobs = 2\n[model m]\npath = /m\nshape = N=1\nshape = N=2\nshape = M=2\n"
	    "path = /n\n[boot]\njobs = 3\n[model  m]\nthreads = 2\n[inhibit]\nfile = /a\n"
	    "file = /a\n[sync]\nserver = ftp://x\nservr = y\nevery = 1h\nevery = 2h\nday = 1\n"
	    "name = a b\nca =\n";
	static const char found[] =
	    "6: [model m] shape = N is in line 5 already; keep one of the two\n"
	    "8: [model m] path is in line 4 already; keep one of the two\n"
	    "9: [boot] is in line 1 already; write all its keys there\n"
	    "10: [boot] jobs is in line 2 already; keep one of the two\n"
	    "11: [model m] is in line 3 already; write all its keys there\n"
	    "17: [sync] server: 'ftp://x': allowed are https://HOST[:PORT][/PATH], http:// to this machine "
	    "(127.0.0.1), and the absolute path of a folder\n"
	    "18: [sync] servr: no such key; did you mean server? there are: server, ca, root, state, token, "
	    "name, "
	    "watch, proxy, channel, upload, every, run, day, rate\n"
	    "20: [sync] every is in line 19 already; keep one of the two\n"
	    "21: [sync] day = 1 is not possible; it takes 0 (no limit), or 64K to 1024G a day\n"
	    "22: [sync] name = a b is not possible; it takes 1 to 63 letters, digits, '-', '.' and '_'\n"
	    "23: [sync] ca =  is not possible; it takes an absolute path\n";
	char top[] = "/tmp/hone-conf-XXXXXX", path[64], folder[64], line[80];
	struct arena a = {0};
	struct conf c;
	struct buf b = {0};
	REQUIRE(mkdtemp(top));
	snprintf(path, sizeof path, "%s/honed.conf", top);
	snprintf(folder, sizeof folder, "%s/honed.conf.d", top);
	put(top, "honed.conf", text);
	CHECK(conf_check(path, &a, &c, &b) == count_of(found, "\n"));
	const char *said = buf_str(&b), *want = found;
	for (; *want; want = strchr(want, '\n') + 1, said = strchr(said, '\n') + 1) {
		snprintf(line, sizeof line, "%s:", path);
		size_t n = (size_t)(strchr(want, '\n') - want) + 1, at = strlen(line);
		bool same = !strncmp(said, line, at) && !strncmp(said + at, want, n);
		if (!same)
			printf("not %.*s but %s", (int)n, want, said);
		REQUIRE(same);
	}
	CHECK_OK(conf_read(path, &a, &c));
	CHECK(c.boot_jobs == 3 && c.nmodels == 1 && c.model[0].threads == 2 &&
	      !strcmp(c.model[0].path, "/n"));
	/* Another file may give a key again: that is how drop-ins override. */
	buf_free(&b);
	put(top, "honed.conf", "[boot]\njobs = 2\n[sync]\nday = 0\n");
	REQUIRE(mkdir(folder, 0755) == 0);
	put(folder, "10-a.conf", "[boot]\njobs = 3\n[sync]\nday = 1M\n");
	CHECK(conf_check(path, &a, &c, &b) == 0 && c.boot_jobs == 3);
	buf_free(&b);
	arena_free(&a);
	snprintf(folder, sizeof folder, "rm -rf %s", top);
	CHECK(system(folder) == 0);
}

TEST(a_file_that_cannot_be_read_is_not_the_defaults)
{
	struct arena a = {0};
	struct conf c;
	CHECK_FAILS(conf_read("/proc", &a, &c), E_IO, "/proc");
	CHECK_OK(conf_read("/nowhere/honed.conf", &a, &c));
	arena_free(&a);
}

/* Copies lines of the form "#key = value" or "#[section]" without their #. */
static void without_comments(const struct blob *b, struct buf *out)
{
	const char *end = (const char *)b->p + b->n;
	for (const char *p = b->p; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl + 1 : end) - p), skip = *p == '#' && n > 1 && p[1] != ' ';
		buf_add(out, p + skip, n - skip);
		p += n;
	}
}

static bool same_limits(const struct gate_limits *x, const struct gate_limits *y)
{
	return x->load_pct == y->load_pct && x->pressure_pct == y->pressure_pct &&
	       x->headroom_mc == y->headroom_mc && x->battery_pct == y->battery_pct &&
	       x->memory_bytes == y->memory_bytes && x->settle_ns == y->settle_ns &&
	       x->from_minute == y->from_minute && x->to_minute == y->to_minute;
}

static bool same_rest(const struct conf *x, const struct conf *y)
{
	return !strcmp(x->socket, y->socket) && !strcmp(x->policy, y->policy) &&
	       x->cache_bytes == y->cache_bytes && x->log == y->log &&
	       x->boot_budget_ns == y->boot_budget_ns && x->boot_jobs == y->boot_jobs &&
	       x->boot_unclean == y->boot_unclean && x->idle == y->idle && x->slice_ns == y->slice_ns &&
	       x->rest_ns == y->rest_ns && x->job_memory_bytes == y->job_memory_bytes &&
	       x->writes_bytes == y->writes_bytes && x->jobs == y->jobs;
}

TEST(the_example_says_every_default)
{
	struct arena a = {0};
	struct conf defaults, as_is, all;
	struct blob b;
	struct buf text = {0};
	conf_defaults(&defaults);
	REQUIRE_OK(file_read(&a, "configs/honed.conf", 0, &b));
	CHECK_OK(conf_read("configs/honed.conf", &a, &as_is));
	CHECK(same_rest(&as_is, &defaults) && same_limits(&as_is.gate, &defaults.gate) && as_is.nmodels == 0);
	without_comments(&b, &text);
	REQUIRE_OK(read_text(&a, buf_str(&text), &all));
	CHECK(same_rest(&all, &defaults) && same_limits(&all.gate, &defaults.gate));
	CHECK(all.cache && all.ninhibit == 1);
	REQUIRE(all.nmodels == 1);
	CHECK(all.model[0].path && all.model[0].shapes.n && all.model[0].level == LEVEL_FP32 &&
	      !all.model[0].threads);
	for (int i = 0; policy_table[i]; i++)
		CHECK(strstr(buf_str(&text), policy_table[i]->name));
	buf_free(&text);
	arena_free(&a);
}

TEST(the_robots_example_holds)
{
	struct arena a = {0};
	struct conf c;
	CHECK_OK(conf_read("configs/examples/robot.conf", &a, &c));
	REQUIRE(c.nmodels == 2 && c.ninhibit == 1);
	CHECK(c.model[0].threads == 2 && c.model[0].priority == 10 && c.model[1].shapes.n);
	CHECK(c.boot_budget_ns == 30 * NS_PER_S && c.gate.from_minute == 22 * 60);
	arena_free(&a);
}

TEST(budget_of_a_kernel_command_line)
{
	int64_t ns = -1;
	CHECK(conf_cmdline_budget("root=/dev/sda quiet", &ns) == 0 && ns == -1);
	CHECK(conf_cmdline_budget("", &ns) == 0);
	CHECK(conf_cmdline_budget("xhone.budget=5s hone.budgets=5s\n", &ns) == 0);
	CHECK(conf_cmdline_budget("quiet hone.budget=5s hone.budget=500ms\n", &ns) == 1 &&
	      ns == 500 * NS_PER_MS);
	CHECK(conf_cmdline_budget("hone.budget=20", &ns) == 1 && ns == 20 * NS_PER_S);
	CHECK(conf_cmdline_budget("hone.budget=0s", &ns) == 1 && ns == 0);
	CHECK_FAILS(conf_cmdline_budget("hone.budget=", &ns), E_USAGE,
		    "kernel command line: hone.budget= is not possible");
	CHECK_FAILS(conf_cmdline_budget("hone.budget=20x", &ns), E_USAGE, "it takes 0s to 1h");
	CHECK_FAILS(conf_cmdline_budget("hone.budget=2h x", &ns), E_USAGE, "hone.budget=2h");
	CHECK_FAILS(conf_cmdline_budget("hone.budget=1111111111111111111111111111111111s", &ns), E_USAGE,
		    "1111");
	CHECK(ns == 0);
}

/* `exact` is a former name of a level: it does not silently undo another one. */
TEST(exact_and_level)
{
	static const struct {
		const char *lines;
		int level; /* -1: refused */
	} k[] = {{"exact = yes", LEVEL_EXACT},          {"level = w16\nexact = no", LEVEL_W16},
		 {"level = w16\nexact = yes", -1},      {"level = half-sum", LEVEL_HALF_SUM},
		 {"level = half-sum\nexact = yes", -1}, {"exact = no", LEVEL_FP32}};
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct arena a = {0};
		struct conf c;
		char text[200];
		conf_defaults(&c);
		int n = snprintf(text, sizeof text, "[model m]\npath = /m.onnx\n%s\n", k[i].lines);
		int rc = conf_text("conf", text, (size_t)n, &a, &c);
		CHECK(k[i].level < 0 ? rc == E_USAGE : rc >= 0 && (int)c.model[0].level == k[i].level);
		arena_free(&a);
	}
}

/* A model with several devices becomes as many, with all that its section says. */
TEST(devices_are_spread)
{
	struct arena a = {0};
	struct conf c;
	REQUIRE_OK(read_text(&a,
			     "[model a]\npath = /a\ndevice = opencl:0\tcpu   opencl:999\nshape = N=4\n"
			     "priority = 3\n[model b]\npath = /b\n[model c]\npath = /c\ndevice = cpu\n"
			     "[model d]\npath = /d\ndevice = cpu\ndevice = cuda:2\n",
			     &c));
	CHECK(c.nmodels == 4);
	REQUIRE_OK(conf_spread(&a, &c));
	static const struct {
		const char *name, *device;
	} want[] = {{"a", "opencl:0"}, {"a", NULL}, {"a", "opencl:999"},
		    {"b", NULL},       {"c", NULL}, {"d", "cuda:2"}};
	REQUIRE(c.nmodels == 6);
	for (int i = 0; i < 6; i++) {
		const struct conf_model *m = &c.model[i];
		CHECK(!strcmp(m->name, want[i].name) && m->path[1] == *want[i].name);
		CHECK(want[i].device ? m->device && !strcmp(m->device, want[i].device) : !m->device);
		CHECK(!strcmp(conf_device_name(m->device), want[i].device ? want[i].device : "cpu"));
		CHECK(i >= 3 || (m->priority == 3 && m->shapes.n == 1 && !strcmp(m->shapes.shape[0], "N=4")));
	}
	arena_free(&a);
}

static bool is_cluster(const char *name)
{
	char own[40] = "";
	int end = 0;
	return sscanf(name, "cpu:%31[a-zA-Z0-9._-]%n", own, &end) == 1 && !name[end] &&
	       strcspn(own, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") < strlen(own);
}

TEST(generated_names_of_devices)
{
	struct rng r;
	rng_seed(&r, 8);
	for (int i = 0; i < 3000; i++) {
		char name[32];
		device_name_draw(&r, name);
		CHECK(conf_is_device(name) == (device_name_is_printed(name) || is_cluster(name)));
	}
	for (int i = 0; i < 3000; i++) {
		char name[48] = "cpu:";
		int n = 4 + (int)rng_below(&r, 36);
		for (int k = 4; k < n; k++)
			name[k] = "abzAZ019-._:/ +\t"[rng_below(&r, rng_below(&r, 4) ? 11 : 16)];
		CHECK(conf_is_device(name) == is_cluster(name));
	}
	CHECK(conf_is_device("cpu:cortex-a53") && conf_is_device("cpu:id-4e-003") && !conf_is_device("cpu:"));
	CHECK(conf_is_device("cpu") && !conf_is_device("cpu:0") && !conf_is_device("opencl"));
}

/* Random lists: what is taken is what was written, in its order; at most CONF_MODELS pairs stay. */
TEST(random_devices_are_spread)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int round = 0, refusals = 0; round < 300; round++) {
		struct arena a = {0};
		struct conf c;
		struct buf text = {0}, want = {0}, got = {0};
		int n = 1 + (int)rng_below(&r, 20), pairs = 0;
		for (int i = 0; i < n; i++) {
			int first = (int)rng_below(&r, 900), k = 1 + (int)rng_below(&r, CONF_DEVICES);
			buf_printf(&text, "[model m%d]\npath = /m%d\ndevice =", i, i);
			for (int d = 0; d < k; d++, pairs++) {
				bool cpu = !d && rng_below(&r, 2);
				char name[16];
				snprintf(name, sizeof name, cpu ? "cpu" : "opencl:%d", first + d);
				buf_printf(&text, " %s", name);
				if (pairs < CONF_MODELS)
					buf_printf(&want, "m%d %s\n", i, name);
			}
			buf_puts(&text, "\n");
		}
		REQUIRE_OK(read_text(&a, buf_str(&text), &c));
		int rc = conf_spread(&a, &c);
		refusals += rc < 0;
		CHECK(rc == (pairs > CONF_MODELS ? E_USAGE : E_OK));
		for (int i = 0; i < c.nmodels; i++)
			buf_printf(&got, "%s %s\n", c.model[i].name, conf_device_name(c.model[i].device));
		CHECK(!strcmp(buf_str(&want), buf_str(&got)));
		CHECK(round < 299 || refusals > 30);
		buf_free(&text), buf_free(&want), buf_free(&got);
		arena_free(&a);
	}
}

/* A later file changes a model's devices as a whole; the check reports too many pairs. */
TEST(devices_of_drop_ins)
{
	char top[] = "/tmp/hone-conf-XXXXXX", path[64], folder[80];
	struct arena a = {0};
	struct conf c;
	struct buf b = {0}, many = {0};
	REQUIRE(mkdtemp(top));
	snprintf(path, sizeof path, "%s/honed.conf", top);
	snprintf(folder, sizeof folder, "%s/honed.conf.d", top);
	REQUIRE(mkdir(folder, 0755) == 0);
	put(top, "honed.conf", "[model m]\npath = /m\ndevice = cpu opencl:0 opencl:1\n");
	CHECK_OK(conf_read(path, &a, &c));
	CHECK(c.nmodels == 3);
	put(folder, "10.conf", "[model m]\ndevice = opencl:1\n");
	CHECK_OK(conf_read(path, &a, &c));
	CHECK(c.nmodels == 1 && !strcmp(c.model[0].device, "opencl:1"));
	for (int i = 0; i < 33; i++)
		buf_printf(&many, "[model n%d]\npath = /n\ndevice = cpu opencl:0\n", i);
	put(folder, "10.conf", buf_str(&many));
	CHECK_FAILS(conf_read(path, &a, &c), E_USAGE,
		    "69 models and devices to tune them on; at most 64 pairs");
	CHECK(conf_check(path, &a, &c, &b) == 1 && strstr(buf_str(&b), "at most 64 pairs are kept tuned\n"));
	CHECK(strstr(buf_str(&b), "/10.conf:91: [model n30]: 69 models"));
	CHECK(c.nmodels == CONF_MODELS);
	buf_free(&b), buf_free(&many);
	arena_free(&a);
	snprintf(folder, sizeof folder, "rm -rf %s", top);
	CHECK(system(folder) == 0);
}

TEST_MAIN
