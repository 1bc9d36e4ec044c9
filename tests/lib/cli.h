/* SPDX-License-Identifier: Apache-2.0 */
/* Runs commands as a script would: hone_main in a child process, whose exit status and output tests check. */
#ifndef TESTS_CLI_H
#define TESTS_CLI_H

#include "platform/base/file.h"
#include "tests/lib/json_page.h"
#include "tests/lib/test.h"
#include "tools/hone/cmd.h"
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends when each task has a kernel, so that neither result nor time depends on the load of the machine.
 * Arguments: a model, more options, a cache. */
#define KERNELS_ONCE "tune %s --json --rigor estimate --budget 60s --threads 1 %s --cache %s"

static char cli_out[1 << 20], cli_err[1 << 16]; /* of the last run */
static char cli_command[32];                    /* of the last run: "hone tune" */
static pid_t last_child;                        /* of the last run */
static char dir[128]; /* a folder of this process, made on first use, with an empty folder "cache" */

static const char *in_dir(const char *name)
{
	static char path[8][256];
	static int next;
	if (!dir[0]) {
		snprintf(dir, sizeof dir, "/tmp/hone-test-cli-XXXXXX");
		char empty[160];
		if (!mkdtemp(dir))
			abort();
		snprintf(empty, sizeof empty, "%s/cache", dir);
		if (mkdir(empty, 0755) < 0)
			abort();
	}
	char *p = path[next++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

__attribute__((destructor)) static void remove_dir(void)
{
	char cmd[160];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	if (dir[0] && system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", dir);
}

/* Copies words to `out`, with the letters replaced by paths: letters[i] by path[i]. */
static inline void fill_words(const char *words, const char *letters, const char *const *path, char out[1024])
{
	size_t n = 0;
	for (; *words && n < 700; words++) {
		const char *at = strchr(letters, *words);
		n += (size_t)snprintf(out + n, 1024 - n, "%.*s", at ? 256 : 1,
				      at ? path[at - letters] : words);
	}
	out[n] = 0;
}

static void slurp(const char *path, char *to, size_t cap)
{
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(to, 1, cap - 1, f) : 0;
	to[n] = 0;
	if (f)
		fclose(f);
}

static void redirect(int fd, const char *path)
{
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (to < 0 || dup2(to, fd) < 0)
		_exit(120);
}

static bool homeless;         /* the child has neither HOME nor XDG_CACHE_HOME */
static bool nobody;           /* the child of a test that runs as root is another user */
static int stop_with;         /* signal for the child once it catches it; 0: none */
static useconds_t stop_after_us; /* and then so much later */
static const char *stop_once; /* and once its standard error says this; NULL: at once */

static void wait_for_words(pid_t pid)
{
	char text[1 << 14];
	for (int i = 0; stop_once && i < 120000 && kill(pid, 0) == 0; i++) {
		slurp(in_dir("stderr"), text, sizeof text);
		if (strstr(text, stop_once))
			return;
		usleep(500);
	}
}

/* Sends stop_with once the child has a handler for it. */
static void stop_child(pid_t pid)
{
	char path[64], text[4096] = "";
	unsigned long long caught = 0;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	for (int i = 0; i < 20000 && !(caught >> (stop_with - 1) & 1); i++) {
		slurp(path, text, sizeof text);
		const char *at = strstr(text, "SigCgt:");
		caught = at ? strtoull(at + 7, NULL, 16) : 0;
		usleep(500);
	}
	wait_for_words(pid);
	usleep(stop_after_us);
	kill(pid, stop_with);
}

/* Runs `hone WORDS...` (split at spaces, in place) and returns its exit status, 128 + n for signal n. */
static int hone_to(const char *stdout_path, char *words)
{
	char *argv[32] = {"hone"};
	int argc = 1;
	for (char *w = strtok(words, " "); w && argc < 31; w = strtok(NULL, " "))
		argv[argc++] = strcmp(w, "''") ? w : w + 2; /* '' is an empty word */
	char err_path[256];
	int word = 1;
	while (word < argc - 1 && argv[word][0] == '-')
		word++;
	snprintf(cli_command, sizeof cli_command, "hone %s", argc > 1 ? argv[word] : "");
	snprintf(err_path, sizeof err_path, "%s", in_dir("stderr"));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (homeless && (unsetenv("HOME") < 0 || unsetenv("XDG_CACHE_HOME") < 0))
			_exit(121);
		if (nobody && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(122);
		setenv("HONE_SOCKET", "/dev/null/honed.sock", 0); /* not a honed that runs on this machine */
		setenv("HONE_RUN", "/dev/null", 0);
		redirect(1, stdout_path);
		redirect(2, err_path);
		_exit(hone_main(argc, argv));
	}
	int status = 0;
	last_child = pid;
	if (stop_with)
		stop_child(pid);
	waitpid(pid, &status, 0);
	slurp(err_path, cli_err, sizeof cli_err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs hone with the words that printf makes; its output is then in `cli_out` and `cli_err`. */
__attribute__((format(printf, 1, 2))) static int hone(const char *format, ...)
{
	char path[256], words[1200];
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(words, sizeof words, format, ap);
	va_end(ap);
	if (n < 0 || n >= (int)sizeof words)
		abort();
	snprintf(path, sizeof path, "%s", in_dir("stdout"));
	int status = hone_to(path, words);
	slurp(path, cli_out, sizeof cli_out);
	return status;
}

#define CHECK_RUN(status, ...)                                                                               \
	do {                                                                                                 \
		int got_ = hone(__VA_ARGS__);                                                                \
		if (got_ != (status)) {                                                                      \
			printf("%s:%d: exit %d, wanted %d: %s\n", __FILE__, __LINE__, got_, status,          \
			       cli_err);                                                                     \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)
#define CHECK_SAYS(text, part)                                                                               \
	do {                                                                                                 \
		if (!strstr(text, part)) {                                                                   \
			printf("%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, part, text);                 \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)

/* Whether a box with this exit status ended well, or tried no kernel for lack of time. */
static inline bool box_passed(int status)
{
	return status == 0 || (status == 1 && strstr(cli_out, "ended before any kernel was tried"));
}

static inline json_t *parse_out(void)
{
	json_error_t e;
	json_t *j = json_loads(cli_out, JSON_REJECT_DUPLICATES, &e);
	if (!json_is_object(j)) {
		printf("not one JSON object (%s): %s\n", e.text, cli_out);
		test_bad = 1;
	} else if (*cli_command) {
		json_page_check(cli_command, j);
	}
	return j;
}

/* The count in a list of objects, as {"type": "rec", "count": 3}, of the one whose `key` is `is`; 0: there is
 * none. */
static inline json_int_t json_count(const json_t *list, const char *key, const char *is)
{
	size_t i;
	json_t *o;
	json_array_foreach(list, i, o)
	{
		const char *text = json_string_value(json_object_get(o, key));
		if (text && !strcmp(text, is))
			return json_integer_value(json_object_get(o, "count"));
	}
	return 0;
}

static inline long long out_number(const char *key)
{
	json_t *j = parse_out();
	long long v = json_integer_value(json_object_get(j, key));
	json_decref(j);
	return v;
}

static inline void check_keys(const json_t *j, const char *keys)
{
	char copy[512];
	snprintf(copy, sizeof copy, "%s", keys);
	for (char *k = strtok(copy, " "); k; k = strtok(NULL, " "))
		if (!json_object_get(j, k)) {
			printf("key %s is missing: %s\n", k, cli_out);
			test_bad = 1;
		}
}

/* Path of a small model, which the zoo writes on first use. */
static inline const char *steering(void)
{
	static char path[256];
	if (!path[0]) {
		snprintf(path, sizeof path, "%s", in_dir("steering.onnx"));
		CHECK_RUN(0, "zoo -q steering --output=%s", path);
		CHECK(!cli_err[0]);
	}
	return path;
}

static inline const char *worker(void)
{
	const char *path = getenv("HONE_WORKER");
	return path && file_exists(path) ? path : NULL;
}

#endif
