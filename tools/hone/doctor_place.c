/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of folders, programs and this process. */
#include "agent/cache/cache.h"
#include "agent/control/client.h"
#include "tools/hone/daemon.h"
#include "tools/hone/doctor_parts.h"
#include "tools/hone/model.h"
#include "platform/run/child.h"
#include "platform/base/clock.h"
#include "platform/run/dev.h"
#include "platform/base/file.h"
#include "platform/machine/mount.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define STORE "/var/lib/hone/cache"
/* honed answers once it has opened its cache and read its models; its workers then start beside it. On a slow
 * board that has just started both take seconds, which are no problem. */
#define ANSWER_NS (8 * NS_PER_S)
enum { LEAST_MB = 8, SOME_MB = 96, LEAST_FILES = 64, LEAST_AS_MB = 1024 };

/* ---- the cache's folder */

/* The nearest folder above `dir` that exists, or `dir` itself if it exists. */
static bool nearest(const char *dir, char out[PATH_MAX])
{
	if (snprintf(out, PATH_MAX, "%s", dir) >= PATH_MAX)
		return false;
	while (!file_is_dir(out)) {
		char *slash = strrchr(out, '/');
		if (!slash || !out[1])
			return false;
		slash[slash == out] = 0;
	}
	return true;
}

/* The cache that is looked at; NULL: none is known. */
static const char *cache_of(const struct doctor *d)
{
	return d->o->cache ? d->o->cache : d->cache ? d->cache : d->o->user_cache;
}

/* True: honed writes that cache, so the caller need not be able to. */
static bool is_honeds(const struct doctor *d)
{
	return d->cache && d->pid && !strcmp(cache_of(d), d->cache);
}

static const char *whose(const struct doctor *d, char out[PATH_MAX])
{
	return cache_of(d) && nearest(cache_of(d), out) ? out : NULL;
}

/* The user that writes the cache. */
static uid_t writer(const struct doctor *d)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d", d->pid);
	return is_honeds(d) && stat(path, &st) == 0 ? st.st_uid : geteuid();
}

static bool can_write(const struct doctor *d, const char *dir, const struct stat *st)
{
	uid_t user = writer(d);
	if (user == geteuid())
		return access(dir, W_OK | X_OK) == 0;
	return user == 0 || (user == st->st_uid ? st->st_mode & S_IWUSR : st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Another root may have no table of mounts; then the folder counts as one that keeps its files. */
static enum mount_kind kind_of_place(const struct doctor *d, const char *dir)
{
	char table[PATH_MAX];
	snprintf(table, sizeof table, "%s/proc/self/mountinfo", d->root);
	return file_exists(table) ? mount_of(d->root, dir) : MOUNT_KEEPS;
}

/* Warns if the mount does not keep the folder's files. False: it keeps them. */
static bool forgets(struct doctor *d, const char *whose_cache, const char *dir, enum mount_kind kind,
		    const char *remedy)
{
	if (kind != MOUNT_KEEPS)
		doctor_say(d, FINDING_WARNING, remedy, "%s %s: %.*s", whose_cache, dir,
			   (int)strcspn(mount_words(kind), ";"), mount_words(kind));
	return kind != MOUNT_KEEPS;
}

/* Why the writer cannot make `cache` below `dir`, the nearest folder that exists. False: it can. */
static bool cannot_make(const struct doctor *d, const char *cache, const char *dir, const struct stat *st,
			char why[PATH_MAX + 64])
{
	size_t n = strlen(dir), name = n + strspn(cache + n, "/");
	char below[PATH_MAX];
	struct stat other;
	snprintf(below, sizeof below, "%.*s", (int)(name + strcspn(cache + name, "/")), cache);
	if (lstat(below, &other) == 0) /* a link to nothing, too */
		snprintf(why, PATH_MAX + 64, "%s is not a folder", below);
	else if (!can_write(d, dir, st))
		snprintf(why, PATH_MAX + 64, "user %ju cannot write to %s", (uintmax_t)writer(d), dir);
	else
		return false;
	return true;
}

/* Folders above the cache are not its user's, or serve others, too: no advice changes their owner or mode. */
static const char *other_place(const struct doctor *d)
{
	return is_honeds(d)
		   ? "set cache= in honed.conf to a folder that honed's user can write"
		   : "set HOME or XDG_CACHE_HOME to a folder that you can write, or give --cache DIR";
}

void doctor_cache(struct doctor *d)
{
	char dir[PATH_MAX], fix[PATH_MAX + 64], why[PATH_MAX + 64];
	const char *cache = cache_of(d), *what = cache && is_honeds(d) ? "honed's cache" : "the cache";
	struct stat st;
	if (!cache) {
		doctor_say(d, FINDING_PROBLEM, "set HOME or XDG_CACHE_HOME, or give --cache DIR",
			   "no cache folder is known: tuning results are lost");
		return;
	}
	if (!whose(d, dir) || stat(dir, &st) < 0) {
		doctor_say(d, FINDING_PROBLEM, "give --cache DIR, a folder that can be made",
			   "cannot access the cache folder %s", cache);
		return;
	}
	enum mount_kind kind = kind_of_place(d, cache);
	if (forgets(d, what, cache, kind, "put it on a writable partition: --cache DIR, or a mount there") &&
	    kind == MOUNT_READ_ONLY)
		return;
	const char *who = is_honeds(d) ? "honed" : "you";
	if (strcmp(dir, cache) && cannot_make(d, cache, dir, &st, why)) {
		doctor_say(d, FINDING_PROBLEM, other_place(d),
			   "%s cannot make the cache folder %s (%s): each start would tune again", who, cache,
			   why);
	} else if (!can_write(d, dir, &st)) {
		snprintf(fix, sizeof fix, "sudo chown %ju '%s', or %s", (uintmax_t)writer(d), dir,
			 is_honeds(d) ? "set cache= in honed.conf" : "give --cache DIR");
		doctor_say(d, FINDING_PROBLEM, cache_may_be(dir) ? fix : other_place(d),
			   "%s cannot write to the cache folder %s: each start would tune again", who, dir);
	} else if (!strcmp(dir, cache) && st.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(fix, sizeof fix, "chmod go-w '%s'", dir);
		doctor_say(d, FINDING_WARNING, fix,
			   "others can write to the cache folder %s: its records count as hints, and its "
			   "code is not run",
			   dir);
	} else if (kind == MOUNT_KEEPS) {
		doctor_good(d, "%s %s is writable and survives a restart", what, cache);
	}
}

/* Checks what the cache's folder holds. */
void doctor_records(struct doctor *d)
{
	const char *dir = cache_of(d);
	struct cache *c;
	struct cache_state s;
	if (!dir || !file_is_dir(dir) || access(dir, R_OK | X_OK) < 0)
		return;
	if (d->o->cache && !cache_may_be(dir)) {
		doctor_say(d, FINDING_PROBLEM, "name a cache's folder, or a new or empty one: --cache DIR",
			   "%s holds other files, and none of a cache", dir);
		return;
	}
	if (cache_open_with(&c, dir, CACHE_READ, 0, &(struct cache_options){.seeds = ""}) < 0) {
		doctor_say(d, FINDING_PROBLEM, "make its files readable, or name another folder: --cache DIR",
			   "%s", err_text());
		return;
	}
	cache_state(c, &s);
	if (s.damaged_bytes)
		doctor_say(d, FINDING_WARNING,
			   is_honeds(d) ? "sudo systemctl restart honed, which removes that part; if it comes "
					  "again, check the flash"
					: "hone tune MODEL, which removes that part; if it comes again, check the "
					  "flash",
			   "a part of the cache %s is damaged and ignored: its kernels will be tuned again",
			   dir);
	else if (s.segments)
		doctor_good(d, "no part of the cache %s is damaged", dir);
	cache_close(c);
}

/* Checks honed's cache, if one is configured. */
void doctor_store(struct doctor *d)
{
	char dir[PATH_MAX];
	if (!d->store || snprintf(dir, sizeof dir, "%s%s", d->root, d->store) >= PATH_MAX)
		return;
	if (!forgets(d, "honed's cache", dir, kind_of_place(d, dir),
		     "put it on a writable partition: cache= in honed.conf, or a mount there"))
		doctor_good(d, "honed's cache %s survives a restart", dir);
}

void doctor_space(struct doctor *d)
{
	char dir[PATH_MAX];
	struct statvfs v;
	if (!whose(d, dir) || statvfs(dir, &v) < 0)
		return;
	int64_t mb = (int64_t)((double)v.f_bavail * (double)v.f_frsize / (1 << 20));
	if (mb < SOME_MB)
		doctor_say(d, mb < LEAST_MB ? FINDING_PROBLEM : FINDING_WARNING,
			   "free some space, or give the cache less (--cache-limit, cache_limit=)",
			   "%" PRId64 " MiB are free in the cache's file system; the cache may need 64 MiB",
			   mb);
	else if (v.f_files && v.f_favail < LEAST_FILES)
		doctor_say(d, v.f_favail < 4 ? FINDING_PROBLEM : FINDING_WARNING,
			   "remove small files: the file system has few inodes left",
			   "the cache's file system has room for only %ju more file%s", (uintmax_t)v.f_favail,
			   plural_s((int64_t)v.f_favail));
	else
		doctor_good(d, "%" PRId64 " MiB are free in the cache's file system", mb);
}

void doctor_flash(struct doctor *d)
{
	char dir[PATH_MAX];
	struct stat st;
	struct flash_life life;
	if (!whose(d, dir) || stat(dir, &st) < 0 || flash_life(d->root, st.st_dev, &life) < 0)
		return;
	if (life.near_end || life.tenths > 9)
		doctor_say(d, FINDING_PROBLEM, "replace it; until then use another place with --cache DIR",
			   "the flash %s reports that it is near the end of its life", life.device);
	else if (life.tenths > 7)
		doctor_say(d, FINDING_WARNING, "plan to replace it; writes= in honed.conf limits wear",
			   "the flash %s reports that %d to %d %% of its life are used", life.device,
			   (life.tenths - 1) * 10, life.tenths * 10);
	else if (life.tenths)
		doctor_good(d, "the flash %s reports that %d to %d %% of its life are used", life.device,
			    (life.tenths - 1) * 10, life.tenths * 10);
}

/* ---- honed */

/* Asks the honed at a socket for its status, once. */
static const json_t *ask_status(struct doctor *d, const char *path)
{
	struct client *c = NULL;
	struct request hello = {.op = OP_HELLO, .has_id = true, .id = 1, .version = CONTROL_VERSION};
	const char *reply = NULL;
	int64_t end_ns = clock_now(&clock_real) + ANSWER_NS;
	if (d->asked && !strcmp(d->asked, path))
		return d->status;
	json_decref(d->status);
	d->asked = arena_strdup(d->a, path);
	int rc = client_open(path, end_ns, &c);
	if (rc >= 0)
		rc = client_ask(c, &hello, end_ns, &reply);
	if (rc >= 0)
		rc = client_ask(c, &(struct request){.op = OP_STATUS}, end_ns, &reply);
	d->status = rc < 0 ? NULL : json_loads(reply, 0, NULL);
	d->silence = arena_strdup(d->a, rc < 0 ? err_text() : d->status ? "" : "its answer is not JSON");
	client_close(c);
	return d->status;
}

/* The socket that is asked: the one that was given, else that of the configuration. */
static const char *socket_of(const struct doctor *d, char out[PATH_MAX])
{
	const char *env = getenv("HONE_SOCKET"), *given = d->o->socket;
	if (!given && env && env[0] && !*d->root)
		given = env;
	const char *otherwise = d->socket ? d->socket : CONTROL_SOCKET;
	snprintf(out, PATH_MAX, "%s%s", given ? "" : d->root, given ? given : otherwise);
	return out;
}

/* The configuration of the honed that runs here, wherever that was started from. */
static const char *running_config(struct doctor *d)
{
	char path[PATH_MAX];
	struct conf c;
	if (*d->root && !d->o->socket)
		return NULL;
	if (conf_read(CONF_FILE, d->a, &c) >= 0)
		d->socket = c.socket;
	socket_of(d, path);
	return file_exists(path) ? daemon_config(ask_status(d, path), d->a) : NULL;
}

void doctor_configuration(struct doctor *d)
{
	char path[PATH_MAX], drop_ins[PATH_MAX];
	struct conf c;
	const char *given = d->o->config ? d->o->config : running_config(d);
	if (snprintf(path, sizeof path, "%s%s", given ? "" : d->root, given ? given : CONF_FILE) >=
		PATH_MAX ||
	    snprintf(drop_ins, sizeof drop_ins, "%s.d", path) >= PATH_MAX)
		return;
	bool here = file_exists(path) || file_exists(drop_ins);
	if (conf_read(path, d->a, &c) < 0) {
		doctor_say(
		    d, FINDING_PROBLEM,
		    "honed keeps the old configuration, or does not start: correct that line; honed --check "
		    "lists all mistakes",
		    "honed's configuration is not valid: %s", err_text());
		return;
	}
	d->socket = here ? c.socket : NULL;
	d->limits = c.gate;
	d->store = !here ? NULL : c.cache ? c.cache : STORE;
	if (!here)
		doctor_say(d, FINDING_NOTE,
			   d->o->config ? "give --config FILE, the file of the honed that is meant"
					: "name the models to keep tuned in " CONF_FILE " (man honed.conf)",
			   "there is no %s: a honed without a configuration tunes no models by itself",
			   given ? given : CONF_FILE);
	else
		doctor_good(d, "honed's configuration %s is valid: %d model%s", path, c.nmodels,
			    plural_s(c.nmodels));
	for (int i = 0; i < c.nmodels; i++)
		if (!file_exists(c.model[i].path))
			doctor_say(d, FINDING_WARNING,
				   "correct its path= in honed.conf, or put the file there",
				   "model %s: no such file: %s", c.model[i].name, c.model[i].path);
}

/* Whether both are the same file. */
static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return !strcmp(a, b) ||
	       (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* Models that honed cannot tune, with its reasons. A file that is not there is found with the configuration.
 */
static void failed_models(struct doctor *d, const json_t *s, bool unit)
{
	enum { MOST = 16 }; /* of the findings, so that the later checks have room */
	const json_t *m;
	size_t i;
	int n = 0;
	json_array_foreach(json_object_get(s, "models"), i, m)
	{
		const char *state = daemon_text(m, "state", ""), *file = daemon_text(m, "path", NULL);
		bool refused = !strcmp(state, "refused");
		if ((!refused && strcmp(state, "failed") != 0) || (refused && file && !file_exists(file)))
			continue;
		if (++n > MOST)
			continue;
		doctor_say(
		    d, FINDING_PROBLEM,
		    !daemon_flag(m, "lasting") ? "solve that; honed tries again by itself"
		    : unit ? "solve that; honed tries again when the model's file has changed, or after "
			     "sudo systemctl reload honed"
			   : "solve that; honed tries again when the model's file has changed, or after "
			     "kill -HUP of its process",
		    "model %s on %s %s: %s", daemon_text(m, "name", "?"), daemon_text(m, "device", "cpu"),
		    refused ? "is refused" : "failed", daemon_text(m, "error", "honed does not know why"));
	}
	if (n > MOST)
		doctor_say(d, FINDING_PROBLEM, "hone status lists all", "%d more models failed", n - MOST);
}

/* Takes from honed's status where its cache is, which process it is, and what it finds wrong. */
static void take_status(struct doctor *d, const char *path, const json_t *s)
{
	const char *cache = daemon_text(s, "cache", NULL), *warning = daemon_text(s, "warning", ""),
		   *error = daemon_text(s, "conf_error", ""), *conf = daemon_config(s, d->a);
	bool unit = doctor_has_unit(d, "honed.service");
	char process[48] = "", reload[128];
	d->cache = cache ? arena_strdup(d->a, cache) : NULL;
	d->pid = daemon_pid(s);
	if (d->pid)
		snprintf(process, sizeof process, " (process %d)", d->pid);
	doctor_good(d, "honed answers at %s%s", path, process);
	if (conf && d->o->config && !same_file(conf, d->o->config))
		doctor_say(d, FINDING_NOTE, "without --config, hone doctor checks the one that it uses",
			   "the honed that answers uses another configuration: %s", conf);
	if (*warning)
		doctor_say(d, FINDING_PROBLEM, "solve that; honed tries again by itself",
			   "honed cannot keep results: %s", warning);
	failed_models(d, s, unit);
	snprintf(reload, sizeof reload, "correct it (honed --check lists all mistakes), then %s",
		 unit ? "sudo systemctl reload honed" : "send honed the signal HUP");
	if (*error)
		doctor_say(d, FINDING_PROBLEM, reload, "honed goes on with its former configuration: %s",
			   error);
}

void doctor_honed(struct doctor *d)
{
	char path[PATH_MAX];
	bool unit = doctor_has_unit(d, "honed.service");
	if (!file_exists(socket_of(d, path))) {
		char start[DAEMON_ABSENT];
		daemon_start(d->root, start);
		doctor_say(d, FINDING_NOTE, arena_printf(d->a, "if it should, start it with %s", start),
			   "honed does not run: nothing is tuned while the board is idle; hone tune works "
			   "without it");
		return;
	}
	if (access(path, W_OK) < 0) {
		doctor_say(d, FINDING_WARNING,
			   unit ? "sudo usermod -aG hone $USER, and log in again"
				: "run hone as the user that started honed",
			   "this user may not connect to honed (%s: %s)", path, strerror(errno));
		return;
	}
	const json_t *status = ask_status(d, path);
	if (status)
		take_status(d, path, status);
	else
		doctor_say(d, FINDING_PROBLEM,
			   unit ? "see journalctl -u honed for the reason; sudo systemctl restart honed"
				: "see what honed printed, end it, and start it again",
			   "honed does not answer at %s: %s", path, d->silence);
}

bool doctor_has_unit(const struct doctor *d, const char *unit)
{
	return daemon_has_unit(d->root, unit);
}

/* Runs only if systemd manages the machine. */
void doctor_units(struct doctor *d)
{
	static const char *const units[] = {"honed.service", "honed.socket", "hone-boot.service",
					    "hone-worker.socket", "hone-worker@.service"};
	char path[PATH_MAX], missing[256] = "";
	int n = 0, there = 0;
	snprintf(path, sizeof path, "%s/run/systemd/system", d->root);
	if (!file_is_dir(path))
		return;
	for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
		bool found = doctor_has_unit(d, units[u]);
		there += found;
		if (!found)
			n += snprintf(missing + n, sizeof missing - (size_t)n, "%s%s", n ? ", " : "",
				      units[u]);
	}
	if (n)
		doctor_say(d, there ? FINDING_WARNING : FINDING_NOTE,
			   there ? "install hone again (make install); then sudo systemctl daemon-reload"
				 : "make install, then sudo systemctl daemon-reload, if honed should be a "
				   "service",
			   "the service manager does not know %s", missing);
	else
		doctor_good(d, "honed's units are installed");
}

/* ---- the worker and what it measures on */

static int find_worker(const struct doctor *d, char out[PATH_MAX])
{
	const char *env = getenv("HONE_WORKER"), *given = d->o->worker;
	char dir[PATH_MAX - 16];
	if (!given && env && env[0])
		given = env;
	int rc = given ? E_OK : file_self_dir(dir, sizeof dir);
	if (rc >= 0)
		snprintf(out, PATH_MAX, "%s%s", given ? given : dir, given ? "" : "/hone-worker");
	return rc;
}

/* The first line that the program prints for --version, "hone-worker 0.1.0". */
static int ask_version(char *path, char *out, size_t n)
{
	char *argv[] = {path, "--version", NULL};
	struct child c;
	int64_t end_ns = clock_now(&clock_real) + ANSWER_NS;
	size_t at = 0;
	int rc = child_start(&c, argv, &(struct child_limits){.cpu_s = 5});
	if (rc < 0)
		return rc;
	while (at < n - 1 && (rc = fd_read_full(c.out, out + at, 1, &clock_real, end_ns)) >= 0 &&
	       out[at] != '\n')
		at++;
	out[at] = 0;
	child_stop(&c, 100 * NS_PER_MS);
	return rc;
}

void doctor_worker(struct doctor *d)
{
	char path[PATH_MAX], said[64];
	int rc = find_worker(d, path);
	if (rc < 0 || !file_exists(path)) {
		doctor_say(d, FINDING_PROBLEM, "install it beside hone, or set HONE_WORKER",
			   "no hone-worker found (%s): nothing can be measured", rc < 0 ? err_text() : path);
		return;
	}
	rc = ask_version(path, said, sizeof said);
	if (rc < 0)
		doctor_say(d, FINDING_PROBLEM,
			   "run it by hand (--version); is its file system mounted noexec?",
			   "hone-worker (%s) does not run: %s", path, err_text());
	else if (strcmp(said, "hone-worker " HONE_VERSION))
		doctor_say(d, FINDING_PROBLEM, "install both from one build",
			   "hone is " HONE_VERSION ", but %s says '%s'", path, said);
	else
		doctor_good(d, "%s runs", said);
}

void doctor_devices(struct doctor *d)
{
	for (int i = 0; dev_table[i]; i++) {
		struct target t = {0};
		bool cpu = !strcmp(dev_table[i]->name, "cpu"); /* doctor_drivers.c looks at others */
		int rc = cpu ? dev_table[i]->probe(&t) : 0;
		if (rc > 0)
			doctor_good(d, "device %s: %s, %s, %d core%s", dev_table[i]->name, t.soc, t.isa,
				    t.cores, plural_s(t.cores));
		else if (rc < 0)
			doctor_say(d, FINDING_PROBLEM, "see hone devices", "device %s cannot be used: %s",
				   dev_table[i]->name, err_text());
	}
}

/* Maps code in the way in which kernels are loaded: a sealed memory file, executable and not writable. */
void doctor_code(struct doctor *d)
{
	static const char code[64];
	int fd = memfd_create("hone-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("hone-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool wrote = fd >= 0 && write(fd, code, sizeof code) == (ssize_t)sizeof code;
	void *p = wrote ? mmap(NULL, sizeof code, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	if (p == MAP_FAILED)
		doctor_say(d, FINDING_PROBLEM,
			   "sysctl vm.memfd_noexec=0, and no rule that forbids memory files",
			   "running code from memory is forbidden here (%s): kernels cannot be loaded",
			   strerror(errno));
	else
		doctor_good(d, "kernels can be loaded: running code from memory is allowed");
	if (p != MAP_FAILED)
		munmap(p, sizeof code);
	if (fd >= 0)
		close(fd);
}

/* The soft limit of honed's process in a row of its limits; RLIM_INFINITY: none, or not known. */
static rlim_t limit_of(const char *text, const char *row)
{
	const char *p = strstr(text, row);
	p = p ? p + strlen(row) : "";
	p += strspn(p, " ");
	return strchr("0123456789", *p) && *p ? (rlim_t)strtoull(p, NULL, 10) : RLIM_INFINITY;
}

/* Whether honed's process is that of the unit, and not one that somebody started by hand. */
static bool runs_as_unit(const struct doctor *d)
{
	char path[64], text[1024] = "";
	snprintf(path, sizeof path, "/proc/%d/cgroup", d->pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return doctor_has_unit(d, "honed.service");
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	return strstr(text, "/honed.service") != NULL;
}

/* The limits under which tuning runs: those of the honed that answers, since its jobs inherit them, else this
 * shell's. */
void doctor_limits(struct doctor *d)
{
	static const struct {
		int what;
		const char *name;
		rlim_t least;
		const char *unit;
		rlim_t per;
		const char *remedy, *row, *directive;
	} limits[] = {
	    {RLIMIT_AS, "address space", (rlim_t)LEAST_AS_MB << 20, " MiB", 1 << 20, "ulimit -v unlimited",
	     "Max address space", "LimitAS=infinity"},
	    {RLIMIT_DATA, "data", (rlim_t)LEAST_AS_MB << 20, " MiB", 1 << 20, "ulimit -d unlimited",
	     "Max data size", "LimitDATA=infinity"},
	    {RLIMIT_CPU, "processor time", 600, " s", 1, "ulimit -t unlimited", "Max cpu time",
	     "LimitCPU=infinity"},
	    {RLIMIT_NOFILE, "open files", 256, "", 1, "ulimit -n 1024", "Max open files", "LimitNOFILE=1024"},
	    {RLIMIT_NPROC, "processes", 64, "", 1, "ulimit -u 256", "Max processes", "LimitNPROC=256"},
	    {RLIMIT_FSIZE, "a file's size", (rlim_t)SOME_MB << 20, " MiB", 1 << 20, "ulimit -f unlimited",
	     "Max file size", "LimitFSIZE=infinity"},
	};
	char path[64], text[4096] = "", whose_limits[64] = "this shell";
	snprintf(path, sizeof path, "/proc/%d/limits", d->pid);
	FILE *f = d->pid ? fopen(path, "re") : NULL;
	bool theirs = f != NULL;
	if (f) {
		text[fread(text, 1, sizeof text - 1, f)] = 0;
		fclose(f);
		snprintf(whose_limits, sizeof whose_limits, "honed (process %d)", d->pid);
	}
	int before = d->n;
	bool unit = theirs && runs_as_unit(d);
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct rlimit l = {.rlim_cur = RLIM_INFINITY};
		char remedy[96];
		if (theirs)
			l.rlim_cur = limit_of(text, limits[i].row);
		else if (getrlimit(limits[i].what, &l) < 0)
			continue;
		if (l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= limits[i].least)
			continue;
		snprintf(remedy, sizeof remedy, "%s%s", unit ? limits[i].directive : limits[i].remedy,
			 unit     ? " in honed.service"
			 : theirs ? " where honed is started, and start it again"
				  : "");
		doctor_say(d, FINDING_WARNING, remedy, "%s limits %s to %ju%s", whose_limits, limits[i].name,
			   (uintmax_t)(l.rlim_cur / limits[i].per), limits[i].unit);
	}
	if (d->n == before)
		doctor_good(d, "the limits of %s are high enough", whose_limits);
}
