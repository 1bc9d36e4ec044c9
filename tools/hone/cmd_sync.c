/* SPDX-License-Identifier: Apache-2.0 */
/* Runs hone-sync by hand. hone-sync does the work, as the user who owns its state; this command reports the
 * result. */
#include "agent/control/conf.h"
#include "agent/cache/json.h"
#include "agent/sync/sync.h"
#include "tools/hone/daemon.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/synced.h"
#include "platform/base/file.h"
#include "platform/base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Finds hone-sync beside this program, where it is installed. */
static int find(char *out, size_t n)
{
	char dir[PATH_MAX];
	if (file_self_dir(dir, sizeof dir) >= 0 && snprintf(out, n, "%s/hone-sync", dir) < (int)n &&
	    access(out, X_OK) == 0)
		return E_OK;
	return fail(E_NOTFOUND, "hone-sync is not beside hone; install it");
}

static int run_program(char *const *argv)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGXFSZ, SIG_DFL); /* hone ignores it */
		if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
			execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0)
		return fail(E_IO, "fork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fail(E_IO, "hone-sync: %s", strerror(errno));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? E_OK : 1; /* hone-sync has printed the
									  * reason */
}

/* Says that hone-sync uses a cache without records, which may be not the one that the user tuned in. */
static void say_own_cache(const char *cache)
{
	char own[PATH_MAX];
	struct buf word = {0};
	if (!model_cache_own_instead(cache, own, sizeof own))
		return;
	shell_path(&word, own);
	log_info("hone: hone-sync uses the cache %s, which holds no records; your own cache has some: to use "
		 "that, --cache %s, or cache = in [honed] of the configuration",
		 cache, buf_str(&word));
	buf_free(&word);
}

/* Starts hone-sync. Texts of its command line live in the arena. */
static int start(const struct args *a, struct arena *arena)
{
	static char now[] = "--now", loud[] = "-v", quiet[] = "-q", wait[] = "--wait";
	char program[PATH_MAX];
	char *argv[16] = {program};
	int n = 1, rc = find(program, sizeof program);
	for (const char *const *name = (const char *const[]){"folder", "config", "cache", "socket", NULL};
	     *name; name++) {
		const char *value = arg_given(a, *name) ? arg_str(a, *name, "") : NULL;
		if (!value)
			continue;
		size_t size = strlen(*name) + strlen(value) + 4;
		argv[n] = arena_alloc(arena, size);
		snprintf(argv[n++], size, "--%s=%s", *name, value);
	}
	if (arg_flag(a, "now"))
		argv[n++] = now;
	int64_t wait_ns = arg_duration(a, "wait", 0);
	if (arg_given(a, "wait"))
		argv[n++] = wait_ns == INT64_MAX
				? wait
				: arena_printf(arena, "--wait=%lldus", (long long)(wait_ns / NS_PER_US));
	if (log_level() == LOG_VERBOSE || log_level() == LOG_QUIET)
		argv[n++] = log_level() == LOG_VERBOSE ? loud : quiet;
	return rc < 0 ? rc : run_program(argv);
}

/* Returns whether a run has ended between the two states; a run that fails before it begins changes neither
 * field. */
static bool is_another_run(const json_t *before, const json_t *after)
{
	return !json_equal(json_object_get(before, "ran_s"), json_object_get(after, "ran_s")) ||
	       !json_equal(json_object_get(before, "failures"), json_object_get(after, "failures"));
}

/* Whether this user can keep hone-sync's state in the folder, which hone-sync makes if it is missing. Root
 * starts hone-sync as the folder's owner. */
static int check_state(const char *folder)
{
	struct stat st;
	if (geteuid() == 0 || access(folder, W_OK | X_OK) == 0)
		return E_OK;
	int why = errno;
	if (why == ENOENT)
		return fail_in(
		    file_can_mkdirs(folder),
		    "cannot make %s for the state of hone-sync; name another folder with state = in "
		    "[sync], or start hone sync as root",
		    folder);
	if (stat(folder, &st) == 0 && st.st_uid != geteuid())
		return fail(E_IO,
			    "%s belongs to another user; start hone sync as root, or as the user hone-sync",
			    folder);
	return fail(
	    E_IO,
	    "cannot write into %s, where hone-sync keeps its state: %s; correct its permissions, or name "
	    "another folder with state = in [sync]",
	    folder, strerror(why));
}

static int run_sync(const struct args *a)
{
	struct arena arena = {0};
	struct sync_conf c;
	struct synced_how how = {.config = arg_str(a, "config", NULL)};
	const char *config = how.config;
	int rc = config ? conf_given(config) : E_OK;
	if (rc >= 0)
		rc = synced_conf(config, &arena, &c, &how.cache);
	how.cache = arg_str(a, "cache", how.cache);
	bool asked = arg_flag(a, "now") || arg_given(a, "folder");
	how.fleet = rc >= 0 && (c.server || c.watch);
	how.nothing = !how.fleet && !arg_given(a, "folder");
	json_t *before = rc < 0 ? NULL : synced_status(&c);
	bool early = rc >= 0 && !asked && !c.watch && daemon_num(before, "next_s", 0) > 0;
	if (how.nothing && rc >= 0 && (arg_flag(a, "now") || !json_object_size(before)))
		rc = synced_no_fleet(config);
	else if (rc >= 0 && !how.nothing && !early) {
		rc = check_state(sync_state_folder(&c));
		if (rc >= 0)
			say_own_cache(how.cache);
		rc = rc >= 0 ? start(a, &arena) : asked ? rc : E_OK;
	}
	json_t *j = rc < 0 ? NULL : synced_status(&c);
	if (j && a->json) {
		int out = json_out(json_incref(j));
		rc = rc ? rc : out;
	} else if (j) {
		how.ran = asked || is_another_run(before, j);
		how.good = rc == E_OK;
		if (rc > 0 && !is_another_run(before, j))
			printf("this run   failed before it began%s\n",
			       daemon_num(j, "ran_s", 0) > 0 ? "; below is the result of an earlier run"
							     : "");
		synced_tell(j, &how);
	}
	if (j && rc == E_OK && !asked && synced_failed(j))
		rc = 1;
	json_decref(j);
	json_decref(before);
	arena_free(&arena);
	return rc;
}

static const struct opt opts[] = {
    {"now", OPT_FLAG, NULL, "do not wait for the turn (but for the time that the server asked for)"},
    {"folder", OPT_STR, "DIR",
     "take from a folder of the fleet's files, such as a USB stick; nothing is sent"},
    {"config", OPT_STR, "FILE", "honed's configuration (default: " CONF_FILE ")"},
    {"cache", OPT_STR, "DIR",
     "cache folder (default: cache in [honed] of the configuration, else " CACHE_DAEMON ")"},
    OPT_WAIT,
    OPT_SOCKET,
    {NULL},
};

const struct cmd cmd_sync = {
    .usage = "[--now] [--folder DIR]",
    .summary = "take what the fleet publishes, or show when that is next due",
    .details =
	"Starts hone-sync, which otherwise a timer starts. When it is due, or with --now, it takes what the\n"
	"server in [sync] of honed.conf publishes for boards of this class and, with upload = yes, sends\n"
	"what this board measured. Everything is checked before it is used, and every record is a candidate\n"
	"that the next box times. A user who may not start it sees the result of the last run. Without a\n"
	"fleet in the configuration it fails, unless a run with --folder has a result to show.\n\n"
	"It is due about as often as the server asks, but within a factor of 4 of `every` in [sync] (6h;\n"
	"1m to 744h). If it is not due, the result of the last run is shown. The exit status is 1 if this\n"
	"run, or else the last one, failed; without --now, one that reached no server has not failed.",
    .opts = opts,
    .run = run_sync,
    .name = "sync",
};
