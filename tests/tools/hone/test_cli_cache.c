/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: commands that look at a cache, and commands that carry it from board to board. Past 800
 * lines because all of them work on the records that `make` puts into a cache. */
#include "agent/cache/gain.h"
#include "agent/cache/chosen.h"
#include "agent/cache/history.h"
#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/trials.h"
#include "kernels/group/group.h"
#include "kernels/onnx/import.h"
#include "kernels/graph/optimize.h"
#include "platform/base/mix.h"
#include "platform/base/rng.h"
#include "search/job.h"
#include "tests/lib/cands.h"
#include "tests/lib/cli.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/records.h"
#include "tools/hone/zoo.h"
#include <glob.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tasks of the steering network. */
static struct step_task *tasks;
static int ntasks;

static void load_tasks(void)
{
	static struct arena a;
	struct graph *g;
	struct target t;
	struct steps *s;
	setenv("HONE_SEEDS", "", 1);
	if (ntasks)
		return;
	CHECK_OK(zoo_make("steering", 1, &g));
	CHECK_OK(target_host(&t));
	CHECK_OK(graph_optimize(g));
	CHECK_OK(graph_steps(g, &t, NULL, &a, &s));
	ntasks = steps_tasks(s, &a, &tasks);
	CHECK(ntasks > 2);
}

static struct rec sample(int i, int64_t ns)
{
	struct rec r = {.task = tasks[i].key,
			.kind = REC_BEST,
			.threads = 1,
			.meas = {.status = MEAS_OK, .runs = 5, .min_ns = ns, .median_ns = ns},
			.task_text = tasks[i].text,
			.label = "a label"};
	snprintf(r.target, sizeof r.target, "a board");
	snprintf(r.device, sizeof r.device, "cpu");
	snprintf(r.emitter, sizeof r.emitter, "llvm-19/1");
	cand_of(tasks[i].text, (int)ns, r.cand);
	return r;
}

/* Makes a cache with the first n tasks, with a log and, if `code`, the code of each. */
static void make(const char *path, int n, int64_t ns, bool code)
{
	struct cache *c;
	load_tasks();
	REQUIRE_OK(cache_open(&c, path, false, 0));
	for (int i = 0; i < n; i++) {
		struct rec r = sample(i, ns);
		struct trials l = {0};
		trials_start(&l, r.task, r.task_text, "a label");
		snprintf(l.device, sizeof l.device, "cpu");
		l.threads = 1;
		l.boxes = 1;
		CHECK_OK(trials_put(c, &l));
		trials_free(&l);
		if (code)
			CHECK_OK(kept_code_put(c, &r, (struct blob){&ns, sizeof ns}));
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
}

/* median_ns of a task's record; 0: none. *code: whether its code is there. */
static int64_t time_of(const char *path, int i, bool *code)
{
	struct arena a = {0};
	struct cache *c;
	struct rec want = sample(i, 1), got;
	struct blob b;
	int64_t ns = 0;
	*code = false;
	CHECK_OK(cache_open(&c, path, true, 0));
	if (cache_get_rec(c, rec_key(&want), &a, &got) >= 0) {
		ns = got.meas.median_ns;
		*code = kept_code_get(c, &got, &a, &b) >= 0;
	}
	cache_close(c);
	arena_free(&a);
	return ns;
}

/* The claim of a task's open hint in ns; 0: there is none. */
static int64_t hint_of(const char *path, int i)
{
	struct arena a = {0};
	struct cache *c;
	struct rec want = sample(i, 1), got;
	CHECK_OK(cache_open(&c, path, true, 0));
	int64_t ns = hint_get(c, &want, &a, &got) >= 0 && hint_open(&got) ? hint_claim_ns(&got) : 0;
	cache_close(c);
	arena_free(&a);
	return ns;
}

static void put_choices(const char *path)
{
	struct arena a = {0};
	struct cache *c;
	struct key k;
	const char *text = record_choices(&a, hash_text("a model"), hash_text("a machine"),
					  "hone-choices 1\njoin 1 Conv_2\n", &k);
	REQUIRE_OK(cache_open(&c, path, false, 0));
	CHECK_OK(cache_put(c, CACHE_CHOICES, k, text, strlen(text)));
	cache_close(c);
	arena_free(&a);
}

static void replace_all(char *text, const char *from, const char *to)
{
	for (char *at; (at = strstr(text, from));)
		memcpy(at, to, strlen(to));
}

TEST(export_and_import)
{
	bool code;
	char from[256], to[256], lines[256];
	static char text[1 << 20];
	snprintf(from, sizeof from, "%s", in_dir("from"));
	snprintf(to, sizeof to, "%s", in_dir("to"));
	snprintf(lines, sizeof lines, "%s", in_dir("lines"));
	make(from, 3, 1000, true);
	CHECK_RUN(0, "export --cache %s", from);
	CHECK(!strstr(cli_out, "\"code\""));
	snprintf(text, sizeof text, "%s", cli_out);
	REQUIRE_OK(file_write(lines, text, strlen(text)));
	CHECK_RUN(0, "import %s --json --cache %s", lines, to);
	/* logs are not taken: a search would trust them */
	CHECK(out_number("taken") == 3 && out_number("passed_over") == 3 && out_number("known") == 0 &&
	      out_number("refused") == 0);
	CHECK_RUN(0, "import %s --logs --json --cache %s", lines, to);
	CHECK(out_number("taken") == 3 && out_number("known") == 3);
	CHECK(hint_of(to, 2) == 1000 && !time_of(to, 2, &code));
	CHECK_RUN(0, "import %s --json --cache %s", lines, to);
	CHECK(out_number("taken") == 0 && out_number("known") == 3 && out_number("passed_over") == 3);
	size_t whole = strlen(text); /* a file that was cut off fails, wherever; the lines before it are taken */
	for (size_t cut = 2; cut < whole; cut += whole / 9) {
		if (text[whole - cut - 1] == '\n' || text[whole - cut] == '\n')
			continue;
		REQUIRE_OK(file_write(lines, text, whole - cut));
		CHECK_RUN(1, "import %s --cache %s", lines, in_dir("cut"));
		CHECK_SAYS(cli_err, ", so it was cut off: copy or export it again");
		CHECK(!strstr(cli_err, "before that line are imported") == !memchr(text, '\n', whole - cut));
	}
	REQUIRE_OK(file_write(lines, text, whole - 1)); /* only the last line's end is missing */
	CHECK_RUN(0, "import %s --cache %s", lines, in_dir("whole"));
	REQUIRE_OK(file_write(lines, text, whole));
	make(to, 1, 900, true); /* a record that this board measured is not replaced */
	CHECK_RUN(0, "import %s -q --cache %s", lines, to);
	CHECK(time_of(to, 0, &code) == 900 && code);
	char merged[256];
	snprintf(merged, sizeof merged, "%s", in_dir("of-hints"));
	CHECK_RUN(0, "merge %s --cache %s", in_dir("whole"), merged);
	CHECK_SAYS(cli_err, "3 imported records that hone tune has not tried yet are not merged");
	CHECK_RUN(0, "merge %s --json --cache %s", in_dir("whole"), merged);
	CHECK(out_number("hints_left") == 3);
	CHECK_RUN(0, "merge %s --cache %s", from, merged);
	CHECK(!strstr(cli_err, "not tried yet"));
}

/* Imported records of this machine's class wait for a box; those of other classes are not used. */
TEST(import_and_status_count_hints)
{
	char from[256], to[256], lines[256];
	static char text[1 << 20] = "damaged\0line\n";
	struct cache *c;
	struct target t;
	snprintf(from, sizeof from, "%s", in_dir("two-classes"));
	snprintf(to, sizeof to, "%s", in_dir("hinted"));
	snprintf(lines, sizeof lines, "%s", in_dir("two-classes.jsonl"));
	load_tasks();
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(cache_open(&c, from, false, 0));
	for (int i = 0; i < 3; i++) {
		struct rec r = sample(i, 1000);
		if (i < 2)
			r.target_key = target_key(&t);
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	CHECK_RUN(0, "export -q --cache %s", from);
	size_t n = strlen(cli_out);
	memcpy(text + 13, cli_out, n);
	REQUIRE_OK(file_write(lines, text, 13 + n)); /* a damaged line spoils no others */
	CHECK_RUN(0, "import %s --cache %s", lines, to);
	CHECK_SAYS(cli_out, "3 records imported into ");
	CHECK_SAYS(cli_out, ", 1 refused\nusable here at once: 0 records; hints: 2 records, which the next hone "
			    "tune compiles, checks and times before they are used; 1 record of another class of "
			    "boards, which is not used here\n");
	CHECK_RUN(0, "status --cache %s", to);
	CHECK_SAYS(cli_out, "hints      3 imported or from a fleet, not tried here yet; hone tune times them before "
			    "they are used; 1 of another class of boards, which is not used here\n");
	CHECK_RUN(0, "status --json --cache %s", to);
	CHECK(out_number("hints_untried") == 2 && out_number("hints_of_other_classes") == 1);
	CHECK_RUN(0, "import %s --json --cache %s", lines, to); /* all are known */
	CHECK(out_number("for_next_tune") == 0 && out_number("of_other_classes") == 0);
	CHECK_RUN(0, "import %s --json --cache %s", lines, in_dir("hinted-too"));
	CHECK(out_number("usable_at_once") == 0 && out_number("for_next_tune") == 2 &&
	      out_number("of_other_classes") == 1);
	CHECK_RUN(0, "status --cache %s", from);
	CHECK(!strstr(cli_out, "hints "));
}

/* Sums say what each number counts: choices are no records, which `show` lists. */
TEST(sums_name_choices)
{
	char from[256], to[256], lines[256];
	snprintf(from, sizeof from, "%s", in_dir("choosing"));
	snprintf(to, sizeof to, "%s", in_dir("chosen"));
	snprintf(lines, sizeof lines, "%s", in_dir("choices.jsonl"));
	make(from, 2, 1000, true);
	put_choices(from);
	CHECK_RUN(0, "export -o %s --cache %s", lines, from);
	CHECK_RUN(0, "import %s --cache %s", lines, to);
	CHECK_SAYS(cli_out, "2 records and choices for 1 model imported into ");
	CHECK_RUN(0, "import %s --logs --cache %s", lines, to);
	CHECK_SAYS(cli_out, "2 logs of tuning imported into ");
	CHECK_SAYS(cli_out, "usable here at once: 2 logs of tuning; hints: 0 records\n");
	CHECK_RUN(0, "merge %s --cache %s", from, in_dir("merged"));
	CHECK_SAYS(cli_out, "2 records, choices for 1 model and 2 logs of tuning merged into ");
	CHECK_RUN(0, "merge %s --cache %s", from, in_dir("merged"));
	CHECK_SAYS(cli_out, "0 records merged into ");
}

/* Commands that write a cache of which this user may only read fail: the user's own cache does not take its
 * place, of which `forget` would remove what it holds. */
TEST(another_cache_takes_no_writes)
{
	static const char *const commands[] = {"forget --all", "import LINES", "merge OWN"};
	char locked[256], own[300], home[256], lines[256], words[1200];
	snprintf(locked, sizeof locked, "%s", in_dir("locked"));
	snprintf(home, sizeof home, "%s", in_dir("home"));
	snprintf(own, sizeof own, "%s/hone", home);
	snprintf(lines, sizeof lines, "%s", in_dir("lines_of_locked"));
	REQUIRE(mkdir(home, 0777) == 0);
	make(locked, 2, 1000, false);
	make(own, 3, 1000, false);
	CHECK_RUN(0, "export -q --cache %s", locked);
	REQUIRE_OK(file_write(lines, cli_out, strlen(cli_out)));
	snprintf(words, sizeof words, "chmod -R a+rwX '%s' && chmod -R a-w '%s'", dir, locked);
	REQUIRE(system(words) == 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("XDG_CACHE_HOME", home, 1);
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(99);
		for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
			const char *what = strchr(commands[i], 'L')     ? lines
					   : strstr(commands[i], "OWN") ? own
									: "";
			int status = hone("%.*s %s --cache %s", (int)strcspn(commands[i], "LO"), commands[i],
					  what, locked);
			CHECK(status == 1);
			CHECK_SAYS(cli_err, "cannot write to it");
		}
		CHECK_RUN(0, "show --json --cache %s", own);
		json_t *j = parse_out();
		CHECK(json_array_size(json_object_get(j, "record_list")) == 3);
		_exit(test_bad);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	snprintf(words, sizeof words, "chmod -R go-w '%s' && chmod -R u+w '%s'", dir, dir);
	CHECK(system(words) == 0);
}

TEST(import_of_no_export)
{
	static const char text[] = "one\ntwo\n";
	char to[256];
	snprintf(to, sizeof to, "%s", in_dir("no_export_cache"));
	REQUIRE_OK(file_write(in_dir("no_export"), text, sizeof text - 1));
	CHECK_RUN(1, "import %s --cache %s", in_dir("no_export"), to);
	CHECK_SAYS(cli_err, "no line is a record");
	CHECK(!strstr(cli_err, "Next:"));
}

/* Removes the number of lines from an export, as former versions wrote none. */
static void remove_count(char *text)
{
	char *at = strstr(text, ",\"records\":");
	REQUIRE(at != NULL);
	char *stop = strchr(at, '}');
	memmove(at, stop, strlen(stop) + 1);
}

/* An export says how many lines it has, so that a lack of lines is seen, also where several were put into one
 * file. The lines may be in any order, and may be chosen on purpose: a file without the last line's end was cut
 * off, one with it gets a warning. Former exports say nothing, and are read. */
TEST(import_sees_that_lines_are_missing)
{
	enum { FROM = 3, MOST = 2 * FROM * FROM };
	static char text[FROM][sizeof cli_out];
	char from[256], lines[256];
	struct rng r;
	for (int i = 0; i < FROM; i++) {
		char folder[32];
		snprintf(folder, sizeof folder, "counted_%d", i);
		snprintf(from, sizeof from, "%s", in_dir(folder));
		make(from, i + 1, 1000, false);
		CHECK_RUN(0, "export -q --cache %s", from);
		strcpy(text[i], cli_out);
	}
	snprintf(lines, sizeof lines, "%s", in_dir("counted.jsonl"));
	rng_seed(&r, 5);
	for (int round = 0; round < 40; round++) {
		static char one[sizeof cli_out];
		char *line[MOST];
		struct buf all = {0};
		int due = 0, n = 0, files = 1 + (int)rng_below(&r, 3), drop = (int)rng_below(&r, 3);
		for (int i = 0; i < files; i++) {
			int k = (int)rng_below(&r, FROM);
			bool former = rng_below(&r, 3) == 0;
			strcpy(one, text[k]);
			if (former)
				remove_count(one);
			for (char *at = one; *at; at += strcspn(at, "\n") + 1) {
				size_t len = strcspn(at, "\n");
				if (n && rng_below(&r, 3) < (uint64_t)drop)
					continue;
				due += strstr(at, "\"records\":") && strstr(at, "\"records\":") < at + len
					   ? 2 * (k + 1)
					   : 0;
				REQUIRE((line[n++] = strndup(at, len)) != NULL);
			}
		}
		bool ends = rng_below(&r, 2), missing = n < due;
		for (int i = n - 1; i > 0 && round % 2; i--) {
			int k = (int)rng_below(&r, (uint64_t)i + 1);
			char *last = line[i];
			line[i] = line[k];
			line[k] = last;
		}
		for (int i = 0; i < n; i++)
			buf_printf(&all, "%s%s", line[i], i < n - 1 || ends ? "\n" : "");
		REQUIRE_OK(file_write(lines, buf_str(&all), all.n));
		buf_free(&all);
		for (int i = 0; i < n; i++)
			free(line[i]);
		CHECK_RUN(missing && !ends, "import %s --json --cache %s", lines, in_dir("counted_to"));
		CHECK(out_number("taken") + out_number("known") + out_number("passed_over") == n);
		snprintf(one, sizeof one, ": %d of the %d records that were exported are in it%s", n, due,
			 ends ? "; if nobody chose these" : ", so it was cut off");
		CHECK(!strstr(cli_err, one) == !missing && (missing || !strstr(cli_err, "warning")));
	}
}

/* Counts that no file can hold add up without an overflow. */
TEST(import_of_absurd_counts)
{
	char to[256];
	struct buf b = {0};
	snprintf(to, sizeof to, "%s", in_dir("absurd"));
	for (int i = 0; i < 3; i++)
		buf_puts(&b, "{\"type\":\"rec\",\"records\":9223372036854775807}\n");
	REQUIRE_OK(file_write(in_dir("absurd.jsonl"), buf_str(&b), b.n));
	buf_free(&b);
	CHECK_RUN(1, "import %s --cache %s", in_dir("absurd.jsonl"), to);
	CHECK_SAYS(cli_err, "3 of the 9223372036854775807 records");
	CHECK_SAYS(cli_err, "no line is a record");
	CHECK_RUN(1, "import %s --cache %s", dir, to);
	CHECK_SAYS(cli_err, "Is a directory; give a file");
	CHECK(!strstr(cli_err, "imported"));
}

/* Good files and bad ones in every order: all good lines are imported, and each bad file is named with its
 * reason. */
TEST(import_goes_on_after_a_bad_file)
{
	enum { GOOD, CUT, CUT_FIRST, PROSE, GONE, KINDS };
	static const char *const name[KINDS] = {"good", "cut", "cut_first", "prose", "gone"},
				 *const why[KINDS] = {[CUT] = "files_cut ends within line 2, so it was cut off",
						      [CUT_FIRST] = "files_cut_first ends within line 1, so it was cut off",
						      [PROSE] = "files_prose: no line is a record",
						      [GONE] = "files_gone: No such file"};
	static char text[sizeof cli_out];
	char from[256], path[KINDS][256];
	snprintf(from, sizeof from, "%s", in_dir("files_from"));
	make(from, 3, 1000, false);
	CHECK_RUN(0, "export -q --cache %s", from);
	snprintf(text, sizeof text, "%s", cli_out);
	size_t first = strcspn(text, "\n") + 1, second = first + strcspn(text + first, "\n") + 1;
	const struct blob bytes[KINDS] = {[GOOD] = {text + second, strlen(text + second)},
					  [CUT] = {text, first + 40},
					  [CUT_FIRST] = {text, 40},
					  [PROSE] = {"hello\n{\"a\": 1}", 14}};
	for (int i = 0; i < KINDS; i++) {
		char file[32];
		snprintf(file, sizeof file, "files_%s", name[i]);
		snprintf(path[i], sizeof path[i], "%s", in_dir(file));
		if (bytes[i].p)
			REQUIRE_OK(file_write(path[i], bytes[i].p, bytes[i].n));
	}
	struct rng r;
	rng_seed(&r, 11);
	for (int round = 0; round < 12; round++) {
		char files[1100] = "", to[32];
		int count[KINDS] = {0}, bad = 0, order[4], n = 2 + (int)rng_below(&r, 3);
		for (int i = 0; i < n; i++) {
			order[i] = (int)rng_below(&r, KINDS);
			count[order[i]]++;
			bad += order[i] != GOOD;
			snprintf(files + strlen(files), sizeof files - strlen(files), " %s", path[order[i]]);
		}
		snprintf(to, sizeof to, "files_to_%d", round);
		CHECK_RUN(bad > 0, "import --json%s --cache %s", files, in_dir(to));
		for (int i = 0; i < KINDS; i++)
			CHECK(!why[i] || !strstr(cli_err, why[i]) == !count[i]);
		if (!count[GOOD] && !count[CUT] && !count[CUT_FIRST] && !count[PROSE])
			continue; /* an error alone */
		CHECK(out_number("failed") == bad);
		CHECK(out_number("taken") == (count[GOOD] > 0) + (count[CUT] > 0));
	}
}

/* The refused lines that standard error accounts for: each is named with its line, or counted with a reason
 * that was named. */
static int told_refused(void)
{
	static const char head[] = "hone: ";
	int all = 0, more, n;
	for (const char *p = cli_err; p && *p; p = (p = strchr(p, '\n')) ? p + 1 : NULL) {
		size_t len = strcspn(p, "\n");
		if (strncmp(p, head, strlen(head)) || !memmem(p, len, " refused", 8))
			continue;
		n = 0;
		bool counts = sscanf(p, "hone: %d more line%n", &more, &n) == 1 && n > 0;
		all += counts ? more : 1;
	}
	return all;
}

/* Bad lines of strangers: each is refused, and the others are taken. */
TEST(import_refuses)
{
	static const char *const change[][2] = {
	    {"\"rec\"", "\"cod\""},         /* no such type */
	    {"threads 1", "threads 0"},     /* out of range */
	    {"median_ns 1", "median_ns 0"}, /* below the lower limit */
	    {"stage n:1", "stage n:2"},     /* the text does not match the task's key */
	    {"{", "["},
	};
	static char text[1 << 20], all[1 << 20];
	char from[256], to[256], lines[256];
	snprintf(from, sizeof from, "%s", in_dir("one"));
	snprintf(to, sizeof to, "%s", in_dir("strangers"));
	snprintf(lines, sizeof lines, "%s", in_dir("hostile"));
	make(from, 1, 1000, false);
	CHECK_RUN(0, "export -q --cache %s", from);
	char *end = strchr(cli_out, '\n');
	REQUIRE(end != NULL);
	end[1] = 0;
	remove_count(cli_out);
	all[0] = 0;
	for (int i = 0; i < 5; i++) {
		snprintf(text, sizeof text, "%s", cli_out);
		REQUIRE(strstr(text, change[i][0]) != NULL);
		replace_all(text, change[i][0], change[i][1]);
		strcat(all, text);
	}
	strcat(all, "\n{}\nnull\n{\"type\":\"rec\",\"key\":\"00\",\"text\":\"\"}\n");
	REQUIRE_OK(file_write(lines, all, strlen(all)));
	snprintf(text, sizeof text, "%s", cli_out);
	CHECK_RUN(1, "import %s --json --cache %s", lines, to);
	CHECK(out_number("taken") == 0 && out_number("refused") == 8 && told_refused() == 8);
	CHECK_SAYS(cli_err, "refused: ");
	strcat(all, text);
	REQUIRE_OK(file_write(lines, all, strlen(all)));
	CHECK_RUN(0, "import %s --cache %s", lines, to);
	CHECK_SAYS(cli_out, "1 record imported");
	CHECK(hint_of(to, 0) == 1000);
	CHECK_RUN(1, "import /nowhere/lines --cache %s", to);
	CHECK_SAYS(cli_err, "hone export");
	REQUIRE_OK(file_write(lines, "", 0));
	CHECK_RUN(1, "import %s --cache %s", lines, to);
	CHECK_SAYS(cli_err, "error: ");
	CHECK_SAYS(cli_err, "is empty, so nothing of it is imported; give a file that hone export");
	CHECK(!strstr(cli_err, "Next: ") && !cli_out[0]);
}

static void put_long_line(struct buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_add(b, "[", 1);
	buf_puts(b, "\n");
}

/* Memory is bounded for a line of any length, and the lines after it are taken, also a last line without a
 * newline. */
TEST(import_passes_over_long_lines)
{
	char from[256], to[256], lines[256], line[32];
	struct buf all = {0};
	snprintf(from, sizeof from, "%s", in_dir("shorts"));
	snprintf(to, sizeof to, "%s", in_dir("longs"));
	snprintf(lines, sizeof lines, "%s", in_dir("long-lines"));
	make(from, 2, 1000, false);
	CHECK_RUN(0, "export -q --cache %s", from);
	char *second = strchr(cli_out, '\n');
	REQUIRE(second != NULL);
	put_long_line(&all, (8 << 20) + 5);
	buf_add(&all, cli_out, (size_t)(second + 1 - cli_out));
	put_long_line(&all, 1 << 20);
	put_long_line(&all, (1 << 20) - 1); /* nested too deep */
	buf_add(&all, "{\0}\n \t\n", 7);
	buf_add(&all, second + 1, strcspn(second + 1, "\n"));
	REQUIRE(buf_ok(&all));
	REQUIRE_OK(file_write(lines, all.p, all.n));
	CHECK_RUN(0, "import %s --json --cache %s", lines, to);
	CHECK(out_number("taken") == 2 && out_number("refused") == 4 && told_refused() == 4);
	snprintf(line, sizeof line, "%s", "long-lines:1 refused: longer");
	CHECK_SAYS(cli_err, line);
	CHECK_RUN(1, "import %s --cache %s", from, to); /* a folder */
	CHECK_SAYS(cli_err, "shorts: Is a directory; give a file");
	buf_free(&all);
}

/* A record with names that contain terminal control characters, and one of another machine, which becomes a
 * candidate. */
TEST(import_of_strangers)
{
	char to[256], lines[256], key[33];
	struct rec r[3];
	struct buf all = {0};
	load_tasks();
	snprintf(to, sizeof to, "%s", in_dir("visited"));
	snprintf(lines, sizeof lines, "%s", in_dir("visitors"));
	for (int i = 0; i < 3; i++)
		r[i] = sample(0, 1000 + i);
	snprintf(r[0].cand, sizeof r[0].cand, "tile=\033[2Jx:8");
	snprintf(r[1].emitter, sizeof r[1].emitter, "llvm\007");
	r[2].target_key = hash_text("another machine");
	r[2].label = "conv \033[31m";
	for (int i = 0; i < 3; i++) {
		struct buf text = {0};
		rec_text(&r[i], &text);
		key_text(rec_key(&r[i]), key);
		json_t *j = json_pack("{ss ss ss}", "type", "rec", "key", key, "text", text.p);
		char *line = json_dumps(j, JSON_COMPACT);
		buf_printf(&all, "%s\n", line);
		free(line);
		json_decref(j);
		buf_free(&text);
	}
	REQUIRE_OK(file_write(lines, all.p, all.n));
	CHECK_RUN(0, "import %s --json --cache %s", lines, to);
	CHECK(out_number("taken") == 1 && out_number("refused") == 2);
	CHECK_SAYS(cli_err, "not plain text");
	CHECK_RUN(0, "show --cache %s", to);
	CHECK_SAYS(cli_out, "  us  ");
	CHECK(!strstr(cli_out, "0.0000"));
	CHECK_SAYS(cli_out, "untried  par=1 outer=n | block=n:1003");
	CHECK_SAYS(cli_out, "conv ?[31m");
	CHECK(!strchr(cli_out, '\033'));
	buf_free(&all);
}

/* A fleet strips the labels of records; the task column is then made from the task. */
TEST(show_names_tasks_without_a_label)
{
	char to[256], lines[256], key[33], label[96];
	struct buf all = {0}, text = {0};
	load_tasks();
	snprintf(to, sizeof to, "%s", in_dir("unlabelled"));
	snprintf(lines, sizeof lines, "%s", in_dir("unlabelled-lines"));
	task_label(tasks[0].task, label);
	REQUIRE(strlen(label) > 4);
	struct rec r = sample(0, 1000);
	r.label = "";
	r.target_key = hash_text("another machine");
	rec_text(&r, &text);
	key_text(rec_key(&r), key);
	json_t *j = json_pack("{ss ss ss}", "type", "rec", "key", key, "text", text.p);
	char *line = json_dumps(j, JSON_COMPACT);
	buf_printf(&all, "%s\n", line);
	REQUIRE_OK(file_write(lines, all.p, all.n));
	CHECK_RUN(0, "import %s -q --cache %s", lines, to);
	CHECK_RUN(0, "show --cache %s", to);
	CHECK_SAYS(cli_out, label);
	CHECK_RUN(0, "show %.*s --json --cache %s", (int)strcspn(label, " "), label,
		  to); /* it can be searched */
	json_t *shown = parse_out(), *first = json_array_get(json_object_get(shown, "record_list"), 0);
	REQUIRE(json_is_string(json_object_get(first, "label")));
	CHECK(!strcmp(json_string_value(json_object_get(first, "label")), label));
	json_decref(shown);
	free(line);
	json_decref(j);
	buf_free(&text);
	buf_free(&all);
}

/* A damaged cache is told by show, bench and doctor, once for each cache. */
TEST(damage_is_told)
{
	char path[256];
	struct cache *c;
	load_tasks();
	snprintf(path, sizeof path, "%s", in_dir("torn"));
	REQUIRE_OK(cache_open(&c, path, false, 0));
	for (int i = 0; i < 3; i++) {
		struct rec r = sample(i, 1000);
		CHECK_OK(cache_put_rec(c, &r));
		CHECK_OK(cache_commit(c));
	}
	cache_close(c);
	for (int damaged = 0; damaged < 2; damaged++) {
		for (int i = 0; i < 2; i++) {
			if (i)
				CHECK_RUN(0, "bench %s %s --runs 2 --threads 1 --cache %s", steering(), steering(), path);
			else
				CHECK_RUN(0, "show --cache %s", path);
			const char *said = strstr(cli_err, " is damaged and ignored: its kernels will be");
			CHECK(!said == !damaged);
			CHECK(!said || !strstr(said + 1, " is damaged and ignored"));
			CHECK(!damaged || strstr(cli_err, path));
		}
		hone("doctor --json --cache %s", path);
		CHECK(!strstr(cli_out, " is damaged and ignored: its kernels will be") == !damaged);
		glob_t g;
		char pattern[300];
		snprintf(pattern, sizeof pattern, "%s/*.seg", path);
		REQUIRE(glob(pattern, 0, NULL, &g) == 0);
		FILE *f = fopen(g.gl_pathv[0], "r+");
		globfree(&g);
		REQUIRE(f && fseek(f, -100, SEEK_END) == 0 && fputs("damage", f) >= 0 && fclose(f) == 0);
	}
	/* as the advice says, a box removes that part */
	CHECK_SAYS(cli_out, "hone tune MODEL, which removes that part");
	hone("tune %s --budget 1s --threads 1 --cache %s", steering(), path);
	CHECK_SAYS(cli_err, ": removed a damaged part, ");
	hone("doctor --json --cache %s", path);
	CHECK(!strstr(cli_out, " is damaged and ignored"));
}

/* A best record may have a longer time than the default, as each has the time of its own moment: it says so. */
TEST(show_marks_times_of_other_moments)
{
	for (int slower = 0; slower < 2; slower++) {
		char path[256];
		struct cache *c;
		load_tasks();
		snprintf(path, sizeof path, "%s", in_dir(slower ? "slower" : "faster"));
		struct rec best = sample(0, slower ? 2000 : 900), def = best;
		def.kind = REC_DEFAULT;
		def.meas = sample(0, 1000).meas;
		snprintf(def.cand, sizeof def.cand, "another");
		REQUIRE_OK(cache_open(&c, path, false, 0));
		CHECK_OK(cache_put_rec(c, &def));
		CHECK_OK(cache_put_rec(c, &best));
		cache_close(c);
		CHECK_RUN(0, "show --cache %s", path);
		CHECK(!strstr(cli_out, " [1] ") == !slower);
		CHECK(!strstr(cli_out, "[1] longer than the default's time") == !slower);
	}
}

/* Records of the processor and of devices are told apart; the device's name only where there are several. */
TEST(show_names_devices)
{
	static const char *const target[] = {"a board", "Mali-G52 opencl 4", "PoCL opencl 4"};
	char path[256];
	struct cache *c;
	load_tasks();
	snprintf(path, sizeof path, "%s", in_dir("devices"));
	for (int i = 0; i < 3; i++) {
		struct rec r = sample(0, 1000);
		snprintf(r.target, sizeof r.target, "%s", target[i]);
		snprintf(r.device, sizeof r.device, i ? "opencl" : "cpu");
		snprintf(r.emitter, sizeof r.emitter, i ? "opencl-1.2/11" : "llvm-19/1");
		r.target_key = hash_text(target[i]);
		REQUIRE_OK(cache_open(&c, path, false, 0));
		CHECK_OK(cache_put_rec(c, &r));
		cache_close(c);
		CHECK_RUN(0, "show --cache %s", path);
		CHECK_SAYS(cli_out, "  device");
		CHECK_SAYS(cli_out, "  best  cpu  ");
		CHECK(!strstr(cli_out, "  best  opencl  ") == (i != 1));
		CHECK(!strstr(cli_out, "  best  opencl Mali-G52  ") == (i != 2));
	}
	CHECK_SAYS(cli_out, "  best  opencl PoCL      ");
	CHECK_RUN(0, "show opencl --json --cache %s", path);
	json_t *shown = parse_out(), *list = json_object_get(shown, "record_list");
	CHECK(json_array_size(list) == 2);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(list, 0), "device")), "opencl"));
	json_decref(shown);
	CHECK_RUN(0, "status --cache %s", path);
	CHECK_SAYS(cli_out, "3 records (2 of them for other devices), code");
	CHECK_RUN(0, "show Mali --cache %s", path);
	CHECK_SAYS(cli_out, "1 record ");
	CHECK_SAYS(cli_out, "  best  opencl Mali-G52        -  "); /* it has no threads of hone */
	CHECK_RUN(0, "show --help");
	CHECK_SAYS(cli_out, "Column device says what");
	REQUIRE_OK(cache_open(&c, path, false, 0));
	for (int i = 0; i < 2; i++) { /* that of the device is the older one */
		struct gain g = {.threads = 1, .default_ms = 2, .now_ms = 1, .faster = {2, 1.9, 2.1, 25}};
		snprintf(g.date, sizeof g.date, "2026-01-0%d 03:04 UTC", 3 - i);
		snprintf(g.model, sizeof g.model, "%.150s", steering());
		snprintf(g.device, sizeof g.device, "%s", i ? "opencl:0" : "");
		CHECK_OK(gain_put(c, hash_text(target[i]), &g));
	}
	cache_close(c);
	CHECK_RUN(0, "show opencl --cache %s", path);
	CHECK_SAYS(cli_err, " --device opencl:0 ");
	CHECK_RUN(0, "show --cache %s", path);
	CHECK(strstr(cli_err, "Next: hone bench ") && !strstr(cli_err, "--device"));
}

/* Lines damaged at random: each is taken, known or refused, and counted once. */
TEST(import_of_damaged_lines)
{
	enum { LINES = 3000 };
	static char text[1 << 16];
	char from[256], to[256], lines[256];
	struct buf all = {0};
	struct rng r;
	snprintf(from, sizeof from, "%s", in_dir("whole"));
	snprintf(to, sizeof to, "%s", in_dir("damaged"));
	snprintf(lines, sizeof lines, "%s", in_dir("damage"));
	make(from, 1, 1000, false);
	CHECK_RUN(0, "export -q --cache %s", from);
	size_t n = strlen(cli_out);
	REQUIRE(n < sizeof text);
	rng_seed(&r, 7);
	int count = 0;
	while (count < LINES) {
		memcpy(text, cli_out, n);
		for (int k = 1 + (int)rng_below(&r, 3); k > 0; k--) {
			size_t at = (size_t)rng_below(&r, (int64_t)n);
			if (text[at] != '\n')
				text[at] = (char)(' ' + rng_below(&r, 224));
		}
		buf_add(&all, text, n);
		for (size_t i = 0; i < n; i++)
			count += text[i] == '\n';
	}
	REQUIRE_OK(file_write(lines, all.p, all.n));
	int status = hone("import %s --json --cache %s", lines, to);
	CHECK(status == 0 || status == 1);
	CHECK(out_number("taken") + out_number("known") + out_number("passed_over") + out_number("refused") ==
	      count);
	CHECK(out_number("refused") > count / 4 && told_refused() == (int)out_number("refused"));
	CHECK_RUN(0, "show --json --cache %s", to);
	CHECK_RUN(0, "export -q --cache %s", to);
	buf_free(&all);
}

/* A cache that the user cannot read is an error that names the way out. */
TEST(a_cache_that_cannot_be_read)
{
	static const char *const commands[] = {"bench --runs 2", "run --random", "report", "compile",
					       "verify",	 "show"};
	char home[256], model[256], words[700];
	if (geteuid() != 0)
		SKIP("not root: every folder here can be read");
	snprintf(home, sizeof home, "%s", in_dir("closed"));
	snprintf(model, sizeof model, "%s", one_node("closed.onnx", "Relu", "4"));
	CHECK(mkdir(home, 0755) == 0 && chmod(model, 0644) == 0);
	setenv("XDG_CACHE_HOME", home, 1);
	snprintf(words, sizeof words, "%s/hone", home);
	make(words, 2, 1000, false);
	REQUIRE(chmod(words, 0700) == 0 && chmod(dir, 0777) == 0);
	REQUIRE_OK(file_write(in_dir("stderr"), "", 0));
	REQUIRE_OK(file_write(in_dir("stdout"), "", 0));
	REQUIRE(chmod(in_dir("stderr"), 0666) == 0 && chmod(in_dir("stdout"), 0666) == 0);
	nobody = true;
	for (size_t i = 0; i < 2 * sizeof commands / sizeof *commands; i++) {
		const char *command = commands[i / 2];
		bool named = i % 2, writes = !strcmp(command, "report") || !strcmp(command, "compile");
		CHECK_RUN(1, "%s %s %s%s%s%s", command, strcmp(command, "show") ? model : "",
			  named ? "--cache " : "", named ? words : "", writes ? " -o " : "",
			  writes ? in_dir("page") : "");
		CHECK_SAYS(cli_err, "this user cannot read it (Permission denied): name another folder "
				    "(--cache DIR)");
	}
	nobody = false;
	unsetenv("XDG_CACHE_HOME");
	REQUIRE(chmod(dir, 0700) == 0);
}

/* A user can merge the folder that is named; the user's own cache, which is layered above it, is left out. */
TEST(merge_reads_one_folder)
{
	char cmd[700], one[256], user[256], to[256];
	if (geteuid() != 0)
		SKIP("not root: every folder here can be written");
	snprintf(one, sizeof one, "%s", in_dir("read-only"));
	snprintf(user, sizeof user, "%s", in_dir("home/hone"));
	snprintf(to, sizeof to, "%s", in_dir("home/to"));
	make(one, 2, 1000, true);
	make(user, 3, 900, true);
	snprintf(cmd, sizeof cmd, "chmod 755 %s && mkdir %s && chown -R 65534:65534 %s", dir, to,
		 in_dir("home"));
	REQUIRE(system(cmd) == 0);
	setenv("XDG_CACHE_HOME", in_dir("home"), 1);
	nobody = true;
	REQUIRE_OK(file_write(in_dir("stderr"), "", 0));
	snprintf(cmd, sizeof cmd, "chmod 777 %s", dir);
	REQUIRE(system(cmd) == 0);
	REQUIRE(chmod(in_dir("stderr"), 0666) == 0 && chmod(in_dir("stdout"), 0666) == 0);
	CHECK_RUN(0, "merge %s --json --cache %s", one, to);
	CHECK(out_number("taken") == 4 && out_number("code_objects") == 2);
	nobody = false;
	unsetenv("XDG_CACHE_HOME");
	REQUIRE(chmod(dir, 0700) == 0);
	snprintf(cmd, sizeof cmd, "chown -R 0:0 %s",
		 in_dir("home")); /* root accepts only folders that root owns */
	REQUIRE(system(cmd) == 0);
	bool code;
	CHECK(time_of(to, 1, &code) == 1000 && !time_of(to, 2, &code));
}

/* Records that nobody measured are refused. */
TEST(merge_refuses)
{
	char from[256], to[256];
	struct cache *c;
	snprintf(from, sizeof from, "%s", in_dir("merge-bad"));
	snprintf(to, sizeof to, "%s", in_dir("merge-good"));
	make(from, 2, 1000, true);
	struct rec r = sample(1, 1000);
	r.meas.runs = 0;
	REQUIRE_OK(cache_open(&c, from, false, 0));
	CHECK_OK(cache_put_rec(c, &r));
	CHECK_OK(cache_put(c, CACHE_HISTORY, r.task, "hone-history 1\nx\n", 17));
	cache_close(c);
	CHECK_RUN(0, "merge %s --json --cache %s", from, to);
	CHECK(out_number("taken") == 3 && out_number("refused") == 2);
	CHECK_SAYS(cli_err, "2 invalid records of");
}

TEST(merge_keeps_the_faster)
{
	bool code;
	char one[256], two[256], three[256];
	snprintf(one, sizeof one, "%s", in_dir("merge1"));
	snprintf(two, sizeof two, "%s", in_dir("merge2"));
	snprintf(three, sizeof three, "%s", in_dir("merge3"));
	make(one, 1, 1000, true);
	make(two, 2, 800, true);
	make(three, 2, 500, false);
	CHECK_RUN(0, "merge %s %s --json --cache %s", two, three, one);
	CHECK(out_number("code_objects") == 2 && out_number("taken") == 5 && hint_of(one, 0) == 500 &&
	      hint_of(one, 1) == 500);
	CHECK(time_of(one, 0, &code) == 800 && code);
	CHECK(time_of(one, 1, &code) == 800 && code); /* the faster record has no code */
	CHECK_RUN(0, "merge %s --cache %s", one, two);
	CHECK_SAYS(cli_out, "0 records merged");
	CHECK_RUN(0, "merge %s --cache %s", one, three);
	CHECK(time_of(three, 0, &code) == 800 && code); /* a record without code is replaced */
	CHECK_RUN(1, "merge /nowhere --cache %s", two);
	CHECK_SAYS(cli_err, "/nowhere: No such file or directory; merge takes folders of caches");
}

TEST(a_pack_becomes_a_seed)
{
	bool code;
	char from[256], image[256], top[256], file[300];
	snprintf(from, sizeof from, "%s", in_dir("packed"));
	snprintf(image, sizeof image, "%s", in_dir("image"));
	snprintf(top, sizeof top, "%s", in_dir("robot"));
	snprintf(file, sizeof file, "%s/board.seg", image);
	make(from, 3, 1000, true);
	REQUIRE_OK(file_mkdirs(image, 0755));
	CHECK_RUN(0, "export --cache %s", from);
	CHECK_SAYS(cli_err, "3 records and 3 logs of tuning of ");
	CHECK_RUN(0, "pack -o %s --cache %s", file, from);
	CHECK_SAYS(cli_out, "3 records and 3 logs of tuning, code of 3 candidates, ");
	CHECK_RUN(0, "pack -o %s --json --cache %s", file, from);
	CHECK(out_number("records") == 6 && out_number("code_objects") == 3 && out_number("hints") == 0);
	CHECK(out_number("bytes") > 1000);
	CHECK_RUN(0, "export -o %s --json --cache %s", in_dir("as-many.jsonl"), from); /* the same records */
	CHECK(out_number("records") == 6);
	CHECK_RUN(2, "pack -o board.bin --cache %s", from);
	setenv("HONE_SEEDS", image, 1);
	REQUIRE_OK(file_mkdirs(top, 0755));
	CHECK_RUN(0, "status --json --cache %s", top);
	json_t *j = parse_out();
	CHECK(json_count(json_object_get(j, "records_by_type"), "type", "rec") == 3);
	json_decref(j);
	CHECK(time_of(top, 0, &code) == 1000 && code);
	CHECK_RUN(1, "forget --task nonesuch --cache %s", from);
	CHECK_SAYS(cli_err, "nonesuch");
	CHECK_RUN(1, "pack --cache %s/nowhere", from);
	CHECK_RUN(1, "export --cache %s/nowhere", from);
	CHECK_SAYS(cli_err, "there is no cache");
	CHECK_RUN(0, "forget --all --json --cache %s", from);
	setenv("HONE_SEEDS", "", 1);
}

/* The file that --output names has what standard output would have, and hone import takes it. */
TEST(export_to_a_file)
{
	static char lines[1 << 20], text[1 << 20];
	char from[256], file[256];
	snprintf(from, sizeof from, "%s", in_dir("exported"));
	snprintf(file, sizeof file, "%s", in_dir("records.jsonl"));
	make(from, 3, 1000, false);
	CHECK_RUN(0, "export --cache %s", from);
	snprintf(lines, sizeof lines, "%s", cli_out);
	CHECK_RUN(0, "export -o %s --cache %s", file, from);
	CHECK(!cli_out[0]);
	slurp(file, text, sizeof text);
	CHECK(*text && !strcmp(lines, text));
	CHECK_RUN(0, "export -o %s --json --cache %s", file, from);
	CHECK(out_number("records") == 6 && out_number("left_out") == 0);
	slurp(file, text, sizeof text);
	CHECK(!strcmp(lines, text));
	CHECK_RUN(0, "export --json --cache %s", from);
	CHECK(!strcmp(lines, cli_out));
	CHECK_RUN(0, "import %s --cache %s", file, in_dir("imported"));
	CHECK_RUN(1, "export -o %s/x --cache %s", file, from);
	char words[600];
	snprintf(words, sizeof words, "export --cache %s", from);
	CHECK(hone_to("/dev/full", words) == 1 && !strstr(cli_err, "hone import"));
	CHECK_SAYS(cli_err, "hone: error: standard output: No space left on device");
}

TEST(forget)
{
	bool code;
	char path[256], key[33];
	snprintf(path, sizeof path, "%s", in_dir("forgetful"));
	make(path, 3, 1000, true);
	key_text(tasks[1].key, key);
	CHECK_RUN(2, "forget --cache %s", path);
	CHECK_RUN(2, "forget --all --task %s --cache %s", key, path);
	CHECK_RUN(2, "forget --task ab --cache %s", path);
	CHECK_RUN(1, "forget --all --cache %s/not-there", path);
	CHECK_RUN(0, "forget --task %.8s --json --cache %s", key, path);
	CHECK(out_number("kernel_count") == 1 && out_number("logs") == 1);
	CHECK(!time_of(path, 1, &code) && time_of(path, 0, &code) == 1000 && code);
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), path);
	CHECK(out_number("kernel_count") == 2 && !time_of(path, 0, &code) && !time_of(path, 2, &code));
	struct cache *c; /* as divided for four threads */
	struct arena a = {0};
	struct graph *g;
	struct target t;
	struct choices none, two = {0};
	struct steps *steps;
	struct step_task *all;
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &g));
	REQUIRE_OK(cache_open(&c, path, false, 0));
	const struct chosen_for f = {c, &t, 4, true};
	REQUIRE_OK(chosen_steps(&f, g, &a, &none, &steps));
	choices_set(&two, &a, CHOICE_JOIN, "Conv_2", 0);
	REQUIRE_OK(chosen_divide(&t, NULL, 0, g, &a, &two, &steps));
	int n = steps_tasks(steps, &a, &all), others = 0;
	for (int i = 0; i < n; i++) {
		bool is_new = true;
		for (int k = 0; k < ntasks; k++)
			is_new &= !key_equal(all[i].key, tasks[k].key);
		struct rec r = sample(0, 600);
		r.task = all[i].key;
		r.task_text = all[i].text;
		others += is_new;
		if (is_new)
			CHECK_OK(cache_put_rec(c, &r));
	}
	CHECK_OK(chosen_save(&f, g, &two));
	cache_close(c);
	CHECK_RUN(0, "tasks %s --json", steering());
	char *by_rules = strdup(cli_out);
	CHECK_RUN(0, "tasks %s --json --cache %s", steering(), path); /* divided as the cache chose */
	CHECK(by_rules && strcmp(by_rules, cli_out) != 0);
	free(by_rules);
	CHECK_RUN(1, "tasks %s --cache %s/none", steering(), path);
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), path);
	CHECK(others > 0 && out_number("kernel_count") == others);
	graph_free(g);
	arena_free(&a);
	make(path, 3, 700, true);
	CHECK_RUN(0, "forget --all --cache %s", path);
	CHECK_SAYS(cli_out, "3 kernels");
	CHECK_RUN(0, "status --json --cache %s", path);
	CHECK(out_number("record_bytes") == 0 && out_number("code_bytes") == 0 &&
	      out_number("file_bytes") < 1000);
}

/* Saves choices of the steering network, or sets *hint to whether strangers' choices of it are there. */
static void steering_choices(const char *path, bool *hint)
{
	struct arena a = {0};
	struct cache *c;
	struct graph *g;
	struct target t;
	struct choices two = {0};
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(cache_open(&c, path, false, 0));
	const struct chosen_for f = {c, &t, 2, LEVEL_FP32};
	choices_set(&two, &a, CHOICE_JOIN, "Conv_2", 0);
	if (hint)
		*hint = chosen_hint(&f, g, &a, &two) >= 0;
	else
		CHECK_OK(chosen_save(&f, g, &two));
	cache_close(c);
	graph_free(g);
	arena_free(&a);
}

/* Imported records are found, removed and counted as others are. */
TEST(forget_imported_records)
{
	bool chosen = false;
	char from[256], to[256], lines[256], key[33];
	snprintf(from, sizeof from, "%s", in_dir("forget-from"));
	snprintf(to, sizeof to, "%s", in_dir("forget-to"));
	snprintf(lines, sizeof lines, "%s", in_dir("forget.jsonl"));
	make(from, 3, 1000, false);
	steering_choices(from, NULL);
	key_text(tasks[1].key, key);
	CHECK_RUN(0, "export -o %s --cache %s", lines, from);
	CHECK_RUN(0, "import %s -q --cache %s", lines, to);
	CHECK_RUN(0, "forget --task %.8s --cache %s", key, to);
	CHECK_SAYS(cli_out, "removed 0 kernels, 1 imported record and 0 logs from ");
	steering_choices(to, &chosen);
	CHECK(!hint_of(to, 1) && hint_of(to, 0) == 1000 && chosen);
	CHECK_RUN(1, "forget --task %.8s --cache %s", key, to);
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), to);
	CHECK(out_number("hints") == 2 && out_number("kernel_count") == 0);
	steering_choices(to, &chosen);
	CHECK(!hint_of(to, 0) && !chosen);
	CHECK_RUN(0, "import %s -q --cache %s", lines, to);
	CHECK_RUN(0, "forget --all --json --cache %s", to);
	CHECK(out_number("hints") == 3);
}

static const char read_only[] = "22 1 8:1 / / ro,relatime - ext4 /dev/root ro\n";

/* The limit comes from the option or the environment; commands that write keep to it, and status shows it. */
TEST(the_limit_of_a_cache)
{
	char path[256], from[256];
	snprintf(path, sizeof path, "%s", in_dir("limited"));
	snprintf(from, sizeof from, "%s", in_dir("large"));
	REQUIRE_OK(file_mkdirs(path, 0755));
	CHECK_RUN(0, "status --json --cache %s", path);
	CHECK(out_number("cap_bytes") == 64 << 20);
	CHECK_RUN(0, "status --json --cache-limit 3M --cache %s", path);
	CHECK(out_number("cap_bytes") == 3 << 20);
	CHECK_RUN(2, "status --cache-limit 3 --cache %s", path);
	CHECK_SAYS(cli_err, "write 512K, 32M or 1G");
	CHECK_RUN(2, "import - --cache-limit 1000K --cache %s", path);
	CHECK_SAYS(cli_err, "at least 1M");
	CHECK_RUN(2, "tune x.onnx --cache-limit=0K --cache %s", path);
	CHECK_RUN(2, "import - --cache-limit 2G --cache %s", path);
	CHECK_SAYS(cli_err, "at most 1G");
	setenv("HONE_CACHE_LIMIT", "much", 1);
	CHECK_RUN(2, "merge %s --cache %s", from, path);
	CHECK_SAYS(cli_err, "HONE_CACHE_LIMIT: 'much'");
	setenv("HONE_CACHE_LIMIT", "1M", 1);
	CHECK_RUN(0, "status --cache %s", path);
	CHECK_SAYS(cli_out, "of 1 MiB");
	CHECK_RUN(0, "status --json --cache-limit 2M --cache %s", path);
	CHECK(out_number("cap_bytes") == 2 << 20);
	make(from, 4, 1000, true);
	struct cache *c;
	static char bytes[250 << 10];
	REQUIRE_OK(cache_open(&c, from, false, 0));
	for (int i = 0; i < 4; i++) {
		struct rec r = sample(i, 1000);
		CHECK_OK(kept_code_put(c, &r, (struct blob){bytes, sizeof bytes}));
	}
	cache_close(c);
	CHECK_RUN(0, "merge %s --json --cache %s", from, path); /* 1 MB of code */
	CHECK_RUN(0, "status --json --cache %s", path);
	json_t *j = parse_out(), *records = json_object_get(j, "records_by_type");
	CHECK(json_integer_value(json_object_get(j, "file_bytes")) <= 1 << 20);
	CHECK(json_count(records, "type", "rec") < 4);
	CHECK(json_count(records, "type", "rec") == json_integer_value(json_object_get(j, "code_objects")));
	json_decref(j);
	unsetenv("HONE_CACHE_LIMIT");
}

/* Import takes records until the cache is full, and evicts nothing. */
TEST(import_evicts_nothing)
{
	enum { N = 20000 };
	char path[256], lines[256];
	struct history h = {0};
	struct buf out = {0}, t = {0};
	snprintf(path, sizeof path, "%s", in_dir("ours"));
	snprintf(lines, sizeof lines, "%s", in_dir("theirs.jsonl"));
	setenv("HONE_CACHE_LIMIT", "1M", 1);
	make(path, 4, 1000, true);
	history_add(&h, (struct history_point){1, 2, 3});
	history_text(&h, &t);
	for (int i = 0; i < N; i++) {
		char key[33];
		key_text(mix_bytes(&i, sizeof i, 1), key);
		json_t *j = json_pack("{ss ss ss}", "type", "history", "key", key, "text", buf_str(&t));
		char *line = json_dumps(j, JSON_COMPACT);
		buf_printf(&out, "%s\n", line);
		free(line);
		json_decref(j);
	}
	REQUIRE_OK(file_write(lines, out.p, out.n));
	CHECK_RUN(0, "import %s --json --cache %s", lines, path);
	int taken = (int)out_number("taken"), left = (int)out_number("left_out");
	CHECK(taken > 1000 && left > 1000 && taken + left == N);
	CHECK_RUN(0, "import %s --cache %s", lines, path);
	CHECK_SAYS(cli_err, "not imported");
	CHECK_RUN(0, "status --json --cache %s", path);
	json_t *j = parse_out(), *records = json_object_get(j, "records_by_type");
	CHECK(json_integer_value(json_object_get(j, "code_objects")) == 4);
	CHECK(json_count(records, "type", "rec") == 4);
	CHECK(json_integer_value(json_object_get(j, "file_bytes")) <= 1 << 20);
	json_decref(j);
	unsetenv("HONE_CACHE_LIMIT");
	buf_free(&out);
	buf_free(&t);
}

/* A writer without a limit evicts nothing that a writer with a limit wrote; nor does hone forget. */
TEST(a_limit_stays_with_its_cache)
{
	enum { N = 75, CODE = 1 << 20 };
	char path[256], key[33];
	static char code[CODE];
	struct cache *c;
	snprintf(path, sizeof path, "%s", in_dir("roomy"));
	struct rec r = sample(0, 1000);
	REQUIRE_OK(
	    cache_open_with(&c, path, CACHE_WRITE, 0, &(struct cache_options){.cap_bytes = 100 << 20}));
	CHECK_OK(cache_put_rec(c, &r));
	for (int i = 0; i < N; i++) {
		memcpy(code, &i, sizeof i);
		CHECK_OK(cache_put(c, CACHE_CODE, mix_bytes(&i, sizeof i, 1), code, CODE));
	}
	cache_close(c);
	CHECK_RUN(1, "forget --task 00000000 --cache %s", path); /* of no task */
	CHECK_RUN(0, "status --json --cache %s", path);
	json_t *j = parse_out();
	CHECK(json_integer_value(json_object_get(j, "code_objects")) == N);
	json_decref(j);
	key_text(r.task, key); /* the code belongs to no record: it goes with the first one that is forgotten */
	CHECK_RUN(0, "forget --task %s --cache %s", key, path);
	CHECK_RUN(0, "status --json --cache %s", path);
	j = parse_out();
	CHECK(json_integer_value(json_object_get(j, "code_objects")) == 0);
	json_decref(j);
	CHECK(out_number("cap_bytes") == 100 << 20);
}

TEST(status)
{
	char path[256];
	snprintf(path, sizeof path, "%s", in_dir("stately"));
	make(path, 3, 1000, true);
	CHECK_RUN(0, "status --json --cache %s", path);
	json_t *j = parse_out();
	check_keys(
	    j, "cache records_by_type record_bytes code_bytes dead_bytes damaged_bytes file_bytes cap_bytes "
	       "index_bytes written_bytes cache_layers segments generation worn warnings");
	CHECK(json_integer_value(json_object_get(j, "generation")) == 2);
	CHECK(json_integer_value(json_object_get(j, "written_bytes")) > 256 << 10);
	json_decref(j);
	CHECK_RUN(0, "status --cache %s", path);
	CHECK_SAYS(cli_out, "1 layer, 2 files");
	CHECK_SAYS(cli_out, "3 records, code of 3 candidates");
	CHECK_SAYS(cli_err, "Next: hone show");
	REQUIRE(chmod(path, 0777) == 0);
	CHECK_RUN(0, "status --cache %s", path);
	CHECK_SAYS(cli_out, "others can write");
	char in_memory[] = "/dev/shm/hone-empty-XXXXXX";
	if (mkdtemp(in_memory)) {
		CHECK_RUN(0, "status --cache %s", in_memory);
		CHECK_SAYS(cli_out, "hone tune");
		CHECK_SAYS(cli_out, "in memory");
		CHECK(rmdir(in_memory) == 0);
	}
	REQUIRE(chmod(path, 0755) == 0);
	CHECK_OK(file_mkdirs(in_dir("sysroot/proc/self"), 0755));
	CHECK_OK(file_write(in_dir("sysroot/proc/self/mountinfo"), read_only, strlen(read_only)));
	setenv("HONE_SYSROOT", in_dir("sysroot"), 1);
	CHECK_RUN(0, "status --json --cache %s", path);
	unsetenv("HONE_SYSROOT");
	CHECK_SAYS(cli_out, "its file system is read-only");
}

/* Runs status on a real read-only mount, in a mount namespace of its own. */
static int status_on_a_read_only_mount(const char *path)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(path, path, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		return 77;
	setenv("XDG_CACHE_HOME", in_dir("home"), 1);
	CHECK_RUN(0, "status --cache %s", path);
	CHECK_SAYS(cli_out, "its file system is read-only");
	CHECK_SAYS(cli_out, "3 records");
	return test_bad;
}

TEST(status_says_that_it_is_read_only)
{
	char path[256];
	int status = -1;
	snprintf(path, sizeof path, "%s", in_dir("sealed"));
	make(path, 3, 1000, true);
	pid_t pid = fork();
	if (pid == 0)
		_exit(status_on_a_read_only_mount(path));
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP("this process may not mount");
	CHECK(WEXITSTATUS(status) == 0);
}

/* A command that reads a cache which --cache names says if there is none; the default one may be missing. */
TEST(a_cache_to_read_must_be_there)
{
	static const char *const readers[] = {"bench M --runs 1",
					      "verify M",
					      "run M --random",
					      "show",
					      "status",
					      "forget --all",
					      "explain M",
					      "report M -o D/page",
					      "export",
					      "compile M -o D/compiled",
					      "tune M --rigor cached",
					      "bench M --runs 1 --cache D/cache"};
	char words[1024];
	REQUIRE_OK(file_write(in_dir("file"), "x", 1));
	REQUIRE_OK(file_mkdirs(in_dir("other"), 0755));
	REQUIRE_OK(file_mkdirs(in_dir("empty"), 0755));
	REQUIRE_OK(file_write(in_dir("other/target.c"), "x", 1));
	steering();
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
		fill_words(readers[i], "MD", (const char *const[]){steering(), dir}, words);
		CHECK_RUN(1, "%s --cache %s", words, in_dir("absent"));
		CHECK_SAYS(cli_err, "there is no cache folder ");
		CHECK_SAYS(cli_err, "/absent; `hone tune MODEL --cache ");
		CHECK_SAYS(cli_err, "/absent` makes it");
		CHECK(!strstr(cli_err, "give --cache"));
		CHECK_RUN(2, "%s --cache %s", words, in_dir("file"));
		CHECK_SAYS(cli_err, "/file is not a folder, so it is no cache");
		CHECK(!cli_out[0] && !file_exists(in_dir("absent")));
		CHECK_RUN(2, "%s --cache %s", words, in_dir("other"));
		CHECK_SAYS(cli_err, "/other holds other files, and none of a cache");
		CHECK(!cli_out[0]);
	}
	hone("doctor --config /dev/null --cache %s", in_dir("other"));
	CHECK_SAYS(cli_out, "holds other files, and none of a cache");
	CHECK_SAYS(cli_err, "Next: hone doctor --cache ");
	CHECK_SAYS(cli_err, "/other --config /dev/null\n");
	CHECK_RUN(1, "merge %s --cache %s", in_dir("other"), in_dir("merged-others"));
	CHECK_SAYS(cli_err, "/other holds other files, and none of a cache");
	CHECK_RUN(0, "show --cache %s", in_dir("empty"));
	CHECK_RUN(0, "merge %s --cache %s", in_dir("empty"), in_dir("merged-others"));
	setenv("XDG_CACHE_HOME", in_dir("no-home"), 1);
	CHECK_RUN(0, "run %s -q --random", steering());
	CHECK(!cli_err[0]);
	unsetenv("XDG_CACHE_HOME");
}

/* No command puts a cache into a folder that holds other files, or anything else into it. */
TEST(a_cache_to_write_is_no_other_folder)
{
	static const char *const writers[] = {"import L", "merge O", "tune M --budget 100ms",
					      "tune M --device opencl:0 --budget 100ms"};
	char words[1024], other[256], empty[256], lines[256], from[256];
	snprintf(other, sizeof other, "%s", in_dir("project"));
	snprintf(empty, sizeof empty, "%s", in_dir("nothing-yet"));
	snprintf(lines, sizeof lines, "%s", in_dir("for-a-project.jsonl"));
	snprintf(from, sizeof from, "%s", in_dir("own"));
	make(from, 1, 1000, false);
	CHECK_RUN(0, "export -o %s --cache %s", lines, from);
	REQUIRE_OK(file_mkdirs(other, 0755));
	REQUIRE_OK(file_mkdirs(empty, 0755));
	REQUIRE_OK(file_write(in_dir("project/main.c"), "x", 1));
	for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
		glob_t g = {0};
		char pattern[300];
		fill_words(writers[i], "LOM", (const char *const[]){lines, from, steering()}, words);
		CHECK_RUN(2, "%s --cache %s", words, other);
		CHECK_SAYS(cli_err, "/project holds other files, and none of a cache: name a cache's folder, or a new or empty one");
		snprintf(pattern, sizeof pattern, "%s/*", other);
		CHECK(glob(pattern, 0, NULL, &g) == 0 && g.gl_pathc == 1);
		globfree(&g);
	}
	CHECK_RUN(1, "import %s/gone.jsonl %s/gone-too.jsonl --cache %s", empty, empty, in_dir("never"));
	CHECK(strstr(cli_err, "gone.jsonl: No such file") && access(in_dir("never"), F_OK) < 0);
	REQUIRE_OK(file_write(in_dir("nothing-yet/.gitkeep"), "", 0));
	REQUIRE_OK(file_mkdirs(in_dir("nothing-yet/images"), 0755)); /* libhone ran there before */
	CHECK_RUN(0, "import %s --cache %s", lines, empty);
	REQUIRE_OK(file_write(in_dir("nothing-yet/notes"), "x", 1)); /* a cache with other files */
	CHECK_RUN(0, "merge %s --cache %s", from, empty);
}

TEST_MAIN
