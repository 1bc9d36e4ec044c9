/* SPDX-License-Identifier: Apache-2.0 */
/* The command line on terminals of several widths: progress lines, tables, the status. */
#include "agent/cache/cache.h"
#include "agent/cache/gain.h"
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/cli_terminal.h"
#include "tests/lib/fake_honed.h"
#include "tests/lib/tasks.h"
#include "tools/hone/help.h"
#include "tools/hone/table.h"

static const char long_name[] =
    "/very/long/path/to/the/folder/of/a/network/whose/name/nobody/wants/to/read/at/all.onnx";

/* shown: the columns that the line should take; 0: it is not cut */
static void long_progress(int columns, int which, int shown)
{
	char name[64], line[4096];
	int fd = terminal_open(columns, name), slave = open(name, O_RDWR | O_NOCTTY);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		redirect(2, in_dir("stderr"));
		if (which & ON_ERR && dup2(slave, 2) < 0)
			_exit(1);
		for (int i = 0; i < 3; i++)
			log_live("task %d of 52, \xc3\xbc\xc3\xbc\xc3\xbc %s %s", i, long_name, "a\nb");
		log_live(NULL);
		_exit(0);
	}
	screen_of(pid, fd, slave);
	if (!(which & ON_ERR))
		return;
	CHECK(!strchr(cli_screen, '\n')); /* one line that is redrawn */
	CHECK(!shown || screen_widest(line) == shown);
	CHECK(!shown == !strstr(cli_screen, "...")); /* a cut is seen */
	CHECK_SAYS(cli_screen, "task 2 of 52");
}

TEST(a_progress_line_fits_its_terminal)
{
	static const int columns[] = {20, 40, 80, 132};
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		long_progress(columns[i], ON_ERR, columns[i] < 110 ? columns[i] - 1 : 0);
	unsetenv("COLUMNS");
	long_progress(0, ON_ERR, 79); /* unknown: 80 */
	setenv("COLUMNS", "50", 1);
	long_progress(0, ON_ERR, 49);
	unsetenv("COLUMNS");
	long_progress(80, 0, 0);
	slurp(in_dir("stderr"), cli_err, sizeof cli_err);
	CHECK(!cli_err[0]); /* nothing is redrawn off a terminal */
}

static void table_of(int columns, const char *drop)
{
	char name[64];
	struct table t = {.align = "lrrl", .drop = drop};
	int fd = terminal_open(columns, name), slave = open(name, O_RDWR | O_NOCTTY);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (dup2(slave, 1) < 0)
			_exit(1);
		static const char *const cells[] = {"node",
						    "least",
						    "ms",
						    "last",
						    "begin/of/a/very/long/name/of/a/node/end",
						    "12345678",
						    "1.250",
						    "\xc3\xa4 candidate with a long text that ends here"};
		for (int i = 0; i < 8; i++)
			table_cell(&t, "%s", cells[i]);
		table_print(&t, true);
		fflush(stdout);
		_exit(0);
	}
	screen_of(pid, fd, slave);
}

/* A terminal that erases no lines gets no line that must be erased, and no colours. */
TEST(a_dumb_terminal_gets_no_progress)
{
	char model[256];
	snprintf(model, sizeof model, "%s", steering());
	CHECK(hone_on_terminal(80, ON_OUT | ON_ERR, "verify %s --threads 1", model) == 0);
	const char *progress = strstr(cli_screen, "reference");
	CHECK(progress && !strncmp(progress, "reference\r\033[K", 13));
	terminal_kind = "dumb";
	CHECK(hone_on_terminal(80, ON_OUT | ON_ERR, "verify %s --threads 1", model) == 0);
	CHECK_SAYS(cli_screen, "PASS");
	CHECK(!strstr(cli_screen, "reference\r") && !strstr(cli_screen, "referencePASS"));
	CHECK(!strchr(cli_screen, '\033'));
	terminal_kind = "xterm";
}

/* Whether the screen says the text, which may be broken over several lines. */
static bool screen_reads(const char *text)
{
	static char joined[sizeof cli_screen];
	size_t n = 0;
	for (const char *p = cli_screen; *p; p++) {
		bool blank = strchr(" \r\n", *p);
		if (!blank || (n && joined[n - 1] != ' '))
			joined[n++] = blank ? ' ' : *p;
	}
	joined[n] = 0;
	return strstr(joined, text);
}

TEST(a_table_fits_its_terminal)
{
	table_of(200, "0100");
	CHECK_SAYS(cli_screen, "begin/of/a/very/long/name/of/a/node/end  12345678  1.250  ");
	table_of(80, "0100"); /* names are cut in the middle, all columns stay */
	CHECK_FITS(80);
	CHECK_SAYS(cli_screen, "begin/of");
	CHECK_SAYS(cli_screen, "node/end  12345678  1.250  ");
	CHECK_SAYS(cli_screen, "ends here");
	CHECK_SAYS(cli_screen, "...");
	table_of(48, "0100"); /* the least important column goes */
	CHECK_FITS(48);
	CHECK(!strstr(cli_screen, "12345678") && strstr(cli_screen, "1.250"));
	CHECK(screen_reads("this terminal has no room for \"least\": make it wider, or use --json"));
	table_of(30, "0100");
	CHECK_FITS(30);
	CHECK_SAYS(cli_screen, "1.250");
	table_of(48, NULL);
	CHECK_FITS(48);
	CHECK_SAYS(cli_screen, "12345678");
}

/* Commands take the key of a task, so no terminal is too narrow for it. */
TEST(keys_stay_whole)
{
	static char list[1 << 14];
	char model[256];
	struct onnx_maker k; /* its rows can be told apart by a few letters of the last column */
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 64 32 32");
	mk_node(&k, "Softmax", "x", "a");
	mk_node(&k, "GlobalAveragePool", "a", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "two.onnx"));
	CHECK_RUN(0, "tasks %s --json", model);
	snprintf(list, sizeof list, "%.16000s", cli_out);
	for (int columns = 20; columns <= 60; columns += 2) {
		int n = 0;
		CHECK(hone_on_terminal(columns, ON_OUT, "tasks %s", model) == 0);
		for (const char *at = list; (at = strstr(at, "\"task_key\":")) && (at = strchr(at + 11, '"'));
		     n++) {
			char key[9];
			snprintf(key, sizeof key, "%.8s", at + 1);
			CHECK_SAYS(cli_screen, key);
		}
		CHECK(n == 2);
	}
}

TEST(run_fits_its_terminal)
{
	static const int columns[] = {40, 60, 80, 0};
	char model[256];
	snprintf(model, sizeof model, "%s", in_dir("run.onnx"));
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", model);
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
		CHECK(hone_on_terminal(columns[i], ON_OUT, "run %s --random --threads 1 --cache %s", model,
				       in_dir("cache")) == 0);
		CHECK_FITS(columns[i] ? columns[i] : 80); /* unknown: 80 */
		CHECK(screen_reads("; a first run is slower than later ones"));
		CHECK(screen_reads(" highest: ["));
		CHECK(!strstr(cli_screen, "]\r") && !strstr(cli_screen, "] \r")); /* an index has its value */
	}
	CHECK_RUN(0, "run %s --random --threads 1 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_out, " ms; a first run is slower than later ones\n");
}

/* Words on standard error are broken at the terminal's width, a command to be pasted is not; a file gets each
 * message as one line. */
TEST(words_on_stderr_fit_their_terminal)
{
	static const char *const failing[] = {
	    "tune /nowhere/a-network-with-a-long-name.onnx --budget 20s --cache /nowhere/cache",
	    "bench S --runs 2 --threads 1 --require-cache --cache C --kernels fallback",
	    "bench S --runs 2 --threads 1 --require-cache --cache C", "tune S --data C", "zoo mobilenet_v2"};
	char cache[256], model[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	snprintf(model, sizeof model, "%s", steering());
	for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
		for (int columns = 40; columns <= 80; columns += 20) {
			char words[1024], whole[sizeof cli_err];
			fill_words(failing[i], "SC", (const char *const[]){model, cache}, words);
			CHECK(hone("%s", words) > 0);
			snprintf(whole, sizeof whole, "%s", cli_err);
			whole[strcspn(whole, "\n")] = 0;
			CHECK(strlen(whole) > 70 && !strncmp(whole, "hone: error: ", 13));
			CHECK(hone_on_terminal(columns, ON_ERR, "%s", words) > 0);
			CHECK(screen_reads(whole));
			char *save = NULL;
			for (char *row = strtok_r(cli_screen, "\r\n", &save); row;
			     row = strtok_r(NULL, "\r\n", &save))
				if (log_width(row) > columns && strchr(row, ' ') && !strchr(row, '`')) {
					printf("hone %s at %d columns: %s\n", words, columns, row);
					test_bad = 1;
				}
		}
	CHECK(hone_on_terminal(60, ON_ERR, "bench %s --threads 1 --require-cache --cache %s", model, cache) > 0);
	const char *command = strstr(cli_screen, "`hone tune ");
	CHECK(command && strcspn(command + 1, "`") < strcspn(command + 1, "\r\n")); /* in one line */
	setenv("XDG_CACHE_HOME", in_dir("nobody"), 1); /* whoever runs this may have tuned it */
	CHECK(hone_on_terminal(60, ON_ERR, "tasks %s", model) == 0);
	unsetenv("XDG_CACHE_HOME");
	command = strstr(cli_screen, "Next: hone tune ");
	CHECK(command && strstr(command, " --budget 20s\r\n"));
}

TEST(tables_off_a_terminal_are_whole)
{
	char lines[256];
	unsetenv("COLUMNS");
	snprintf(lines, sizeof lines, "%s", in_dir("whole.onnx"));
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", lines);
	CHECK_RUN(0, "tasks %s", lines);
	CHECK(!strstr(cli_out, "..."));
	setenv("COLUMNS", "40", 1);
	CHECK_RUN(0, "tasks %s", lines);
	for (const char *row = cli_out; *row; row += strcspn(row, "\n"), row += *row == '\n')
		CHECK(strcspn(row, "\n") <= 40);
	unsetenv("COLUMNS");
}

/* Lines of a task's text, and its candidates. */
static bool is_data(const char *row)
{
	return !strncmp(row, "    ", 4) && row[4] != ' ';
}

/* Every command with a table, at 80 and 60 columns. */
TEST(commands_at_80_columns)
{
	char cache[256], large[256];
	static const char *const words[] = {"tasks L",
					    "tasks S",
					    "bench S --runs 2 --threads 1 --cache C",
					    "show --cache C",
					    "inspect S",
					    "devices --cache C",
					    "zoo",
					    "verify S --threads 1 --cache C",
					    "explain S 1 --threads 1 --cache C",
					    "explain S --threads 1 --cache C",
					    "bench L --runs 1 --threads 1 --cache C --kernels fallback"};
	static const char *const tuned[] = {"tune S --rigor cached --threads 1 --cache C",
					    "tune S --rigor estimate --budget 60s --threads 1 --cache C",
					    "explain S 2 --threads 1 --cache C"};
	snprintf(cache, sizeof cache, "%s", in_dir("wide-cache"));
	snprintf(large, sizeof large, "%s", in_dir("squeezenet-with-quite-a-long-name-of-its-file.onnx"));
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", large);
	REQUIRE(mkdir(cache, 0755) == 0);
	if (worker())
		CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", cache);
	enum { UNTUNED = sizeof words / sizeof *words, TUNED = sizeof tuned / sizeof *tuned };
	for (size_t i = 0; i < UNTUNED + (worker() ? TUNED : 0); i++)
		for (int columns = 80; columns >= 60; columns -= 20) {
			char line[1024];
			fill_words(i < UNTUNED ? words[i] : tuned[i - UNTUNED], "LSC",
				   (const char *const[]){large, steering(), cache}, line);
			CHECK(hone_on_terminal(columns, ON_OUT | ON_ERR, "%s", line) == 0);
			/* Commands to be pasted and single words, as paths are, may be wider. */
			screen_strip();
			char *save = NULL;
			int rows = 0;
			for (char *row = strtok_r(cli_screen, "\r\n", &save); row;
			     row = strtok_r(NULL, "\r\n", &save)) {
				bool whole = strstr(row, "Next: ") || !strchr(row, ' ') || strchr(row, '`') || is_data(row);
				rows += !whole;
				if (!whole && log_width(row) > columns) {
					printf("hone %s at %d columns: %s\n", line, columns, row);
					test_bad = 1;
				}
			}
			if (rows <= 1)
				printf("hone %s at %d columns: %d row%s of text\n", line, columns, rows,
				       plural_s(rows));
			CHECK(rows > 1);
		}
}

/* Words of letters, digits and signs, as labels and candidates are. */
static void random_words(struct rng *r, size_t most, char *out)
{
	static const char set[] = "abcdefgh0123456789=:,x->/";
	size_t n = 1 + rng_below(r, (uint32_t)most - 1), word = 0;
	for (size_t i = 0; i < n; i++, word++) {
		bool blank = word > 3 && i + 1 < n && rng_below(r, 8) == 0;
		out[i] = blank ? ' ' : set[rng_below(r, sizeof set - 1)];
		word = blank ? 0 : word;
	}
	out[n] = 0;
}

/* Puts n best records, some with a default that was faster in its moment, of several devices. */
static void put_random_records(const char *path, int n, struct rng *r)
{
	struct cache *c;
	char alike[300];
	bool look_alike = rng_below(r, 2); /* but for one letter, so that none is cut */
	random_words(r, sizeof alike, alike);
	REQUIRE_OK(cache_open(&c, path, false, 0));
	for (int i = 0; i < n; i++) {
		char label[90];
		const char *text = task_product(1 + i);
		bool cpu = rng_below(r, 3) != 0;
		struct rec rec = {.task = hash_text(text),
				  .kind = REC_BEST,
				  .target_key = hash_text("a board"),
				  .threads = 1 + (int)rng_below(r, 64),
				  .task_text = text,
				  .label = label,
				  .meas = {.median_ns = 100 + (int64_t)rng_below(r, 1 << (8 + rng_below(r, 22)))}};
		random_words(r, sizeof label, label);
		snprintf(rec.target, sizeof rec.target, "Board-%d of a kind, 16 lanes", (int)rng_below(r, 1000));
		snprintf(rec.device, sizeof rec.device, cpu ? "cpu" : "opencl");
		snprintf(rec.emitter, sizeof rec.emitter, "llvm-19/1");
		random_words(r, sizeof rec.cand / (1 + rng_below(r, 12)), rec.cand);
		if (look_alike) {
			snprintf(rec.cand, sizeof rec.cand, "%s", alike);
			rec.cand[rng_below(r, (uint32_t)strlen(alike))] = (char)('a' + i % 26);
		}
		CHECK_OK(cache_put_rec(c, &rec));
		rec.kind = REC_DEFAULT;
		rec.meas.median_ns -= 99;
		snprintf(rec.cand, sizeof rec.cand, "lane=k:8");
		if (rng_below(r, 2))
			CHECK_OK(cache_put_rec(c, &rec));
	}
	cache_close(c);
}

/* No row of hone show is wider than the terminal, candidates included. */
TEST(show_fits_its_terminal)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int round = 0; round < 12; round++) {
		char name[32], path[256];
		int n = 1 + (int)rng_below(&r, 30), columns = round % 3 ? 40 + (int)rng_below(&r, 60) : 60;
		snprintf(name, sizeof name, "show-%d", round);
		snprintf(path, sizeof path, "%s", in_dir(name));
		put_random_records(path, n, &r);
		CHECK(hone_on_terminal(columns, ON_OUT | ON_ERR, "show --cache %s", path) == 0);
		screen_strip();
		CHECK_SAYS(cli_screen, "candidate");
		CHECK(strstr(cli_screen, "  GFLOP/s  ") || strstr(cli_screen, "GFLOP/s    ") ||
		      screen_reads("this terminal has no room for"));
		char *save = NULL;
		for (char *row = strtok_r(cli_screen, "\r\n", &save); row; row = strtok_r(NULL, "\r\n", &save)) {
			bool whole = strstr(row, "Next: ") || strchr(row, '`') || !strchr(row, ' ');
			if (!whole && log_width(row) > columns) {
				printf("%d records at %d columns: %s\n", n, columns, row);
				test_bad = 1;
			}
		}
	}
}

/* Whether the screen's table, whose first row has `first`, has a column of this name. */
static bool has_column(const char *first, const char *name)
{
	const char *row = strstr(cli_screen, first), *end = row ? strpbrk(row, "\r\n") : NULL;
	const char *at = row ? strstr(row, name) : NULL;
	CHECK(row && end);
	return at && at < end;
}

/* Columns that a narrow terminal has no room for are said, no note speaks of them, and schedules of a task
 * are whole. */
TEST(what_is_left_out_is_said)
{
	static const char *const columns[] = {"uses", "of roofline", "limited by", "chosen"};
	char cache[256];
	int all = 0;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(cache, sizeof cache, "%s", in_dir("left-out"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", cache);
	for (int width = 40; width <= 200; width += 20) {
		CHECK(hone_on_terminal(width, ON_OUT, "explain %s --threads 1 --cache %s", steering(),
				       cache) == 0);
		screen_strip();
		bool gone = false, cells = !strstr(cli_screen, "  default us  ");
		for (size_t i = 0; i < sizeof columns / sizeof *columns && !cells; i++)
			gone |= !has_column("#  ", columns[i]) && !strstr(cli_screen, "\n    lane=");
		if (!cells && !gone != !strstr(cli_screen, "no room for")) {
			printf("%d: %s\n", width, cli_screen);
			test_bad = 1;
		}
		all += !gone;
		CHECK(hone_on_terminal(width, ON_OUT, "bench %s --runs 2 --threads 1 --cache %s", steering(),
				       cache) == 0);
		screen_strip();
		CHECK(!strstr(cli_screen, "dot products")); /* the model has floats alone */
		if (strstr(cli_screen, "of peak: "))
			CHECK(has_column(" us ", "of peak"));
	}
	CHECK(all > 0);
	CHECK(hone_on_terminal(80, ON_OUT, "explain %s 1 --threads 1 --cache %s", steering(), cache) == 0);
	screen_strip();
	const char *rows = strstr(cli_screen, "  tried  ");
	CHECK(rows && !strstr(rows, "..."));
}

/* Why a model failed; no terminal of these tests shows it in one line. */
#define REASON                                                                                               \
	"the model has an input of free size: add shape = images=1x3x640x640 to its section in honed.conf, " \
	"then reload honed"

/* A status reply of honed whose texts are longer than a terminal is wide. */
static const char busy[] =
    "{\"verdict\":\"rests: the zone cpu-thermal-of-the-first-cluster is at 71 C, "
    "which is more than its limit of 70 C allows\","
    "\"warning\":\"the disk is full: No space left on device; make room there, or "
    "choose another folder with --cache\","
    "\"models\":[{\"name\":\"a-network-with-a-name-of-forty-bytes-in-all\",\"state\":"
    "\"waiting for lease\",\"before_ms\":1234.5,"
    "\"now_ms\":1000.25,\"next_s\":90,\"missing\":12},{\"name\":\"lanes\",\"state\":\"failed\","
    "\"next_s\":20,\"error\":\"" REASON "\"}],\"models_left\":3,"
    "\"gate\":{\"open\":false,\"why\":\"hot\",\"words\":\"zone "
    "cpu-thermal-of-the-first-cluster is at 71 C\",\"load_pct\":3,"
    "\"temp_c\":71,\"zone\":\"cpu-thermal-of-the-first-cluster\",\"headroom_c\":14},"
    "\"jobs\":[{\"job\":7,\"model\":\"/srv/models/"
    "a-network-with-a-name-of-forty-bytes-in-all.onnx\",\"state\":\"resting\","
    "\"lease\":\"measure\",\"task\":3,\"ntasks\":20,\"label\":\"conv 3x3 128->256 "
    "bias relu add clip\",\"trials\":31,"
    "\"before_ms\":12.5,\"now_ms\":5,\"left_s\":8}],\"inhibits\":[],\"flash\":{"
    "\"today_bytes\":2097152,\"limit_bytes\":20971520}}";

static bool busy_honed(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)f, (void)r;
	bool watch = !strcmp(op, "watch");
	buf_printf(out, "{\"id\":%lld,\"ok\":true", id);
	if (!strcmp(op, "hello"))
		buf_puts(out, ",\"version\":2");
	else if (!watch)
		buf_printf(out, ",%s", busy + 1);
	buf_puts(out, !strcmp(op, "hello") || watch ? "}\n" : "\n");
	if (watch)
		buf_printf(out, "{\"event\":\"status\",%s\n", busy + 1);
	return true;
}

TEST(status_at_80_columns)
{
	struct fake f = {.answer = busy_honed};
	fake_folder(&f);
	fake_listen(&f);
	for (int columns = 120; columns >= 40; columns -= 40) {
		CHECK(hone_on_terminal(columns, ON_OUT, "status --cache %s", in_dir("cache")) == 0);
		CHECK(columns < 120 || strstr(cli_screen, "waiting for lease"));
		CHECK(columns < 80 || (strstr(cli_screen, "waiting") && strstr(cli_screen, "lease")));
		CHECK_SAYS(cli_screen, "warning    the disk is full");
		CHECK(screen_reads("failed lanes: " REASON));
		CHECK(columns < 120 || strstr(cli_screen, "make room there, or choose another"));
		CHECK_FITS(columns);
	}
	fake_hush(&f);
	fake_remove(&f);
}

TEST(watch_at_80_columns)
{
	struct fake f = {.answer = busy_honed};
	fake_folder(&f);
	fake_listen(&f);
	end_after_ms = 3000;
	terminal_rows = 60;
	for (int columns = 80; columns >= 40; columns -= 40) {
		CHECK(hone_on_terminal(columns, ON_OUT | ON_ERR, "status --watch") == 0);
		CHECK_SAYS(cli_screen, "\033[H\033[2J");
		CHECK_SAYS(cli_screen, "warning    the disk is full");
		CHECK(screen_reads("failed lanes: " REASON));
		CHECK_SAYS(cli_screen, "press Ctrl-C to end");
		CHECK_FITS(columns);
	}
	CHECK(hone_on_terminal(80, ON_OUT, "status --watch -q") == 0);
	CHECK(!strstr(cli_screen, "Ctrl-C") && !cli_err[0]);
	/* the gains of the cache that is named */
	struct cache *c;
	REQUIRE_OK(cache_open(&c, in_dir("gained"), false, 0));
	CHECK_OK(gain_put(c, hash_text("a"),
			  &(struct gain){.model = "a.onnx",
					 .date = "2026-01-02 03:04 UTC",
					 .threads = 2,
					 .default_ms = 2,
					 .now_ms = 1,
					 .faster = {2, 1.9, 2.1, 9},
					 .machine = {.share_pct = 95}}));
	cache_close(c);
	end_after_ms = 1500;
	CHECK(hone_on_terminal(160, ON_OUT, "status --watch --cache %s", in_dir("gained")) == 0);
	CHECK_SAYS(cli_screen, "a.onnx, 2 threads: 2.00x faster than default schedules");
	end_after_ms = 0;
	terminal_rows = 24;
	fake_hush(&f);
	fake_remove(&f);
}

/* A status that needs more bytes than a terminal holds for its reader (4 KiB). */
static bool large_honed(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)f, (void)r;
	buf_printf(out, "{\"id\":%lld,\"ok\":true%s", id, strcmp(op, "hello") ? "}\n" : ",\"version\":2}\n");
	if (strcmp(op, "watch"))
		return true;
	buf_puts(out, "{\"event\":\"status\",\"warning\":\"the disk is full\",\"models\":[");
	for (int i = 0; i < 60; i++)
		buf_printf(out, "%s{\"name\":\"a-network-with-a-long-name-%d\",\"state\":\"waiting\",\"now_ms\":%d}",
			   i ? "," : "", i, i + 1);
	buf_puts(out, "],\"flash\":{\"today_bytes\":2097152,\"limit_bytes\":20971520}}\n");
	return true;
}

/* A terminal drops what it has not shown yet when Ctrl-C is pressed, so the last frame is drawn again. */
TEST(the_last_frame_is_whole)
{
	struct fake f = {.answer = large_honed};
	fake_folder(&f);
	fake_listen(&f);
	press_after_ms = 1500;
	terminal_rows = 300;
	for (int i = 0; i < 3; i++) {
		CHECK(hone_on_terminal(120, ON_OUT | ON_ERR, "status --watch") == 0);
		const char *frame = strstr(cli_screen, "\033[H\033[2J"), *next;
		while (frame && (next = strstr(frame + 1, "\033[H\033[2J")))
			frame = next;
		CHECK(frame && strstr(frame, "warning    the disk is full"));
		for (int k = 0; frame && k < 60; k++) {
			char row[64];
			snprintf(row, sizeof row, "a-network-with-a-long-name-%d ", k);
			CHECK(strstr(frame, row));
		}
		CHECK(frame && strstr(frame, "2.00 MiB today of at most 20 MiB a day\r\n"));
		CHECK(frame && !strstr(frame, "press Ctrl-C"));
	}
	press_after_ms = 0;
	terminal_rows = 24;
	fake_hush(&f);
	fake_remove(&f);
}

/* No frame is higher than the terminal, so that none scrolls: the first lines are shown, and how many are not. */
TEST(watch_fits_the_height)
{
	struct fake f = {.answer = large_honed};
	struct rng r;
	int all = 0;
	rng_seed(&r, 11);
	fake_folder(&f);
	fake_listen(&f);
	end_after_ms = 700;
	for (int i = 0; i < 6; i++) {
		terminal_rows = i == 0 ? 200 : i == 1 ? 3 : 5 + (int)rng_below(&r, 60);
		CHECK(hone_on_terminal(80, ON_OUT | ON_ERR, "status --watch") == 0);
		int frames = 0;
		for (char *p = cli_screen, *next; (p = strstr(p, "\033[H\033[2J")); p = next) {
			int left = 0;
			next = strstr(p + 1, "\033[H\033[2J");
			next = next ? next : p + strlen(p);
			char was = *next;
			*next = 0;
			int lines = test_count(p, "\n"), hint = strstr(p, "press Ctrl-C") != NULL;
			const char *more = strstr(p, "\nand "), *says = strstr(p, " more lines: hone status\r\n");
			if (more)
				left = atoi(more + 5);
			CHECK(strstr(p, "honed      honed runs\r\n") && frames < 1000);
			CHECK(lines < (terminal_rows > 3 ? terminal_rows : 4));
			CHECK((left > 0) == (says != NULL));
			all = i ? all : lines - hint;
			CHECK(lines - hint - (left > 0) + left == all);
			*next = was;
			frames++;
		}
		CHECK(frames > 0);
	}
	end_after_ms = 0;
	terminal_rows = 24;
	fake_hush(&f);
	fake_remove(&f);
}

static const char wide_row[] =
    "{\"verdict\":\"waits\",\"models\":[{\"name\":\"mobilenet_v2\",\"state\":\"waiting for lease\","
    "\"before_ms\":1234.5,\"now_ms\":1000.25,\"now_rough\":true,\"promise\":0.1,"
    "\"next_s\":90}]}";

static bool wide_honed(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)f, (void)r;
	buf_printf(out, "{\"id\":%lld,\"ok\":true%s", id, strcmp(op, "hello") ? "}\n" : ",\"version\":2}\n");
	if (!strcmp(op, "watch"))
		buf_printf(out, "{\"event\":\"status\",%s\n", wide_row + 1);
	return true;
}

/* Words of the status table go on in the lines below their cell, where the row is too wide. */
TEST(watch_cuts_no_words)
{
	static const char *const words[] = {"waiting", "lease", "~1000.250", "10",  "less",
					    "time",    "expected;", "in",     "90 s"};
	struct fake f = {.answer = wide_honed};
	fake_folder(&f);
	fake_listen(&f);
	end_after_ms = 1500;
	for (int columns = 120; columns >= 60; columns -= 20) {
		CHECK(hone_on_terminal(columns, ON_OUT | ON_ERR, "status --watch") == 0);
		CHECK_FITS(columns);
		CHECK(!strstr(cli_screen, "..."));
		CHECK_SAYS(cli_screen, "mobilenet_v2");
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			CHECK_SAYS(cli_screen, words[i]);
	}
	end_after_ms = 0;
	fake_hush(&f);
	fake_remove(&f);
}

/* The help of all commands: 80 columns off a terminal, at most 100 on a wide one; no word is lost. */
TEST(help_fits_its_terminal)
{
	unsetenv("COLUMNS");
	for (int i = 0; cmd_table[i]; i++) {
		struct buf b = {0};
		help_cmd(&hone_program, cmd_table[i], &b);
		for (const char *p = buf_str(&b); *p; p += strcspn(p, "\n"), p += *p == '\n')
			if (strcspn(p, "\n") > 80) {
				printf("hone %s --help: %.*s\n", cmd_table[i]->name, (int)strcspn(p, "\n"), p);
				test_bad = 1;
			}
		for (const struct opt *o = cmd_table[i]->opts; o && o->name; o++) {
			const char *last = strrchr(o->help, ' ');
			CHECK(last && strstr(buf_str(&b), last + 1));
		}
		buf_free(&b);
	}
	CHECK(hone_on_terminal(60, ON_OUT, "tune --help") == 0);
	CHECK_FITS(60);
	CHECK(screen_reads("usage: hone tune MODEL [--budget 20s] [--rigor LEVEL]"));
	CHECK(hone_on_terminal(200, ON_OUT, "tune --help") == 0);
	CHECK_FITS(100);
	CHECK(hone_on_terminal(40, ON_OUT, "tune --help") == 0);
	CHECK_FITS(40);
	CHECK(hone_on_terminal(40, ON_OUT, "run --help") == 0);
	CHECK_FITS(40);
	CHECK(screen_reads("[--device cpu[:CLUSTER]|opencl:N|"));
	/* Only a command that is to be pasted is wider. */
	setenv("COLUMNS", "40", 1);
	for (int i = 0; cmd_table[i]; i++) {
		struct buf b = {0};
		help_cmd(&hone_program, cmd_table[i], &b);
		for (const char *p = buf_str(&b); *p; p += strcspn(p, "\n"), p += *p == '\n')
			if (strcspn(p, "\n") > 40 && p[strcspn(p, "\n") - 1] != ' ') {
				printf("hone %s --help: %.*s\n", cmd_table[i]->name, (int)strcspn(p, "\n"),
				       p);
				test_bad = 1;
			}
		buf_free(&b);
	}
	unsetenv("COLUMNS");
}

/* Lines of inspect on a model that it cannot import fit, too. */
TEST(inspect_wraps_what_is_wrong)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("free.onnx", "Relu", "batch 3 h w"));
	CHECK(hone_on_terminal(60, ON_OUT, "inspect %s", model) >= 0);
	CHECK_FITS(60);
	CHECK(screen_reads("Sizes are needed: "));
}

TEST_MAIN
