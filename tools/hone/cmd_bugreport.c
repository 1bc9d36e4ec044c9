/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what a stranger needs to know to diagnose a problem on a board, as one text. */
#include "agent/cache/cache.h"
#include "agent/control/conf.h"
#include "tools/hone/doctor.h"
#include "platform/run/child.h"
#include "platform/base/log.h"
#include "platform/machine/vitals.h"
#include "tools/hone/daemon.h"
#include "agent/cache/json.h"
#include "tools/hone/mask.h"
#include "tools/hone/model.h"
#include "tools/hone/output.h"
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 10, LOG_BYTES = 256 << 10 };
#define LOG_NS (10 * NS_PER_S)

struct report {
	const struct args *args;
	struct arena arena;
	const char *root; /* $HONE_SYSROOT: the root of the board's files */
	json_t *status;   /* NULL: no daemon */
	char cache[4096];
};

struct section {
	const char *name, *what;
	void (*fill)(struct report *r, struct buf *out);
};

static void version(struct report *r, struct buf *out)
{
	buf_printf(out, "hone %s\nhoned %s\n", HONE_VERSION,
		   r->status ? daemon_text(r->status, "version", "?") : "does not run");
}

static void status(struct report *r, struct buf *out)
{
	char *text = r->status ? json_dumps(r->status, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
	struct daemon_inhibit *file;
	int n = inhibit_list(&r->arena, &file);
	buf_printf(out, "%s\n", text ? text : "honed does not run");
	for (int i = 0; i < n; i++)
		buf_printf(out, "inhibit file %s: %s\n", file[i].name, file[i].why);
	free(text);
}

static const char *on_board(struct report *r, const char *path)
{
	return arena_printf(&r->arena, "%s%s", r->root, path);
}

static void findings(struct report *r, struct buf *out)
{
	const struct finding *f;
	const struct doctor_options o = {.sysroot = r->root,
					 .cache = r->cache[0] ? r->cache : NULL,
					 .socket = arg_str(r->args, "socket", NULL)};
	int n = doctor_look(&o, &r->arena, &f);
	if (n < 0)
		buf_printf(out, "%s\n", err_text());
	for (int i = 0; i < n; i++)
		buf_printf(out, "%s %s: %s%s%s\n", finding_word(f[i].kind), f[i].check, f[i].what,
			   *f[i].remedy ? " -> " : "", f[i].remedy);
}

static void vitals(struct report *r, struct buf *out)
{
	struct vitals_reader *reader;
	struct vitals v;
	if (vitals_open(r->root, &reader) < 0) {
		buf_printf(out, "%s\n", err_text());
		return;
	}
	vitals_read(reader, clock_now(&clock_real), &v);
	vitals_close(reader);
	buf_printf(
	    out,
	    "known: %#x; cpus %d, busy %.1f of %.1f s since boot; stalled %.1f s (cpu), %.1f s (io), %.1f s "
	    "(memory)\n",
	    v.has, v.cpus, (double)v.busy_ns / 1e9, (double)v.total_ns / 1e9, (double)v.stalled_ns[0] / 1e9,
	    (double)v.stalled_ns[1] / 1e9, (double)v.stalled_ns[2] / 1e9);
	if (v.has & VITAL_HEAT)
		buf_printf(out, "zone %s %.1f C, headroom %.1f C%s\n", v.zone, v.temp_mc / 1e3,
			   v.headroom_mc / 1e3, v.trip_assumed ? " (assumed)" : "");
	if (v.has & VITAL_THROTTLE)
		buf_printf(out, "throttle %#x now, %#x since boot, %lld event%s\n", v.throttle,
			   v.throttled_by, (long long)v.throttled, plural_s(v.throttled));
	if (v.has & VITAL_CLOCK)
		buf_printf(out, "clock %lld of %lld kHz\n", (long long)v.clock_khz,
			   (long long)v.clock_most_khz);
	buf_printf(out, "memory %lld of %lld MiB free\n", (long long)v.memory_free_bytes >> 20,
		   (long long)v.memory_bytes >> 20);
	if (v.has & VITAL_BATTERY)
		buf_printf(out, "battery %d %%%s\n", v.battery_pct, v.discharging ? ", discharging" : "");
}

/* Copies a configuration file, whose name is shown without `root`. Of [sync] only the keys are copied: no
 * values, no continuation lines, no comments. As honed reads it, a section may follow blanks, and the first
 * one a byte order mark. */
static void put_conf(struct report *r, const char *root, const char *path, struct buf *out)
{
	struct blob b;
	bool sync = false;
	buf_printf(out, "-- %s\n", path + strlen(root));
	if (file_read(&r->arena, path, FILE_BYTES, &b) < 0) {
		buf_printf(out, "%s\n", err_text());
		return;
	}
	char *text = arena_strdup(&r->arena, b.p), *rest = NULL;
	text += strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *p = line + strspn(line, " \t\r\v\f");
		sync = *p == '[' ? !strncmp(p, "[sync]", 6) : sync;
		if (!sync || *p == '[')
			buf_printf(out, "%s\n", line);
		else if (p == line && strpbrk(line, "=:") && !strchr("#;", *line))
			buf_printf(out, "%.*s= (left out)\n", (int)strcspn(line, "=:"), line);
		else if (*p)
			buf_puts(out, "(left out)\n");
	}
}

/* All files of the configuration of the honed that answers, else of the board's, without the values of
 * [sync], which may be private. */
static void configuration(struct report *r, struct buf *out)
{
	struct conf c;
	struct dirent **e;
	bool asks = !*r->root || arg_given(r->args, "socket"); /* not honed of another board */
	const char *theirs = r->status && asks ? daemon_config(r->status, &r->arena) : NULL;
	const char *file = theirs ? theirs : on_board(r, CONF_FILE), *root = theirs ? "" : r->root;
	put_conf(r, root, file, out);
	int n = scandir(arena_printf(&r->arena, "%s.d", file), &e, NULL, alphasort);
	for (int i = 0; i < n; free(e[i++]))
		if (e[i]->d_name[0] != '.')
			put_conf(r, root, arena_printf(&r->arena, "%s.d/%s", file, e[i]->d_name), out);
	if (n >= 0)
		free(e);
	if (conf_read(file, &r->arena, &c) < 0)
		buf_printf(out, "-- %s\n", err_text());
	else if (file_exists(file) || n >= 0)
		buf_puts(out, "-- the configuration is valid\n");
	else
		buf_puts(out,
			 "-- there is no configuration: a honed without one tunes no models by itself\n");
}

static void target(struct report *r, struct buf *out)
{
	struct target t;
	if (target_host(&t) < 0) {
		buf_printf(out, "%s\n", err_text());
		return;
	}
	target_recall(r->cache, &t);
	target_text(&t, out);
	buf_puts(out, "\n");
}

static void cache(struct report *r, struct buf *out)
{
	struct cache *c;
	struct cache_state s;
	if (model_cache_read(r->cache, &c) < 0) {
		buf_printf(out, "%s\n", err_text());
		return;
	}
	cache_state(c, &s);
	buf_printf(
	    out,
	    "%s: layers %d, files %d of %lld bytes, cap %lld; records %d, codes %d of %lld bytes, logs "
	    "%d; dead %lld, damaged %lld, written %lld over its life, generation %llu%s\n",
	    s.dir, s.layers, s.segments, (long long)s.file_bytes, (long long)s.cap_bytes, s.count[CACHE_REC],
	    s.count[CACHE_CODE], (long long)s.code_bytes, s.count[CACHE_TRIALS], (long long)s.dead_bytes,
	    (long long)s.damaged_bytes, (long long)s.written_bytes, (unsigned long long)s.generation,
	    s.foreign ? "; others can write it: its code is not run" : "");
	cache_close(c);
}

/* Output of a child until the timeout, cut at LOG_BYTES. */
static void put_output(char *const argv[], struct buf *out)
{
	struct child c;
	char part[4096];
	size_t all = 0;
	ssize_t n = 1;
	int64_t end_ns = daemon_deadline(LOG_NS);
	if (child_start(&c, argv, &(struct child_limits){0}) < 0) {
		buf_printf(out, "%s\n", err_text());
		return;
	}
	while (n > 0 && all < LOG_BYTES && clock_now(&clock_real) < end_ns) {
		struct pollfd p = {.fd = c.out, .events = POLLIN};
		if (poll(&p, 1, 100) <= 0)
			continue;
		n = read(c.out, part, sizeof part);
		buf_add(out, part, n > 0 ? (size_t)n : 0);
		all += n > 0 ? (size_t)n : 0;
	}
	child_stop(&c, 0);
}

static void journal(struct report *r, struct buf *out)
{
	(void)r;
	static char *const argv[] = {"/usr/bin/journalctl", "-q", "--no-pager", "-n", "300",       "-o",
				     "short-iso",           "-u", "honed",      "-u", "hone-boot", "-u",
				     "hone-worker*",        NULL};
	if (access(argv[0], X_OK) < 0)
		buf_puts(out, "no journalctl here\n");
	else
		put_output(argv, out);
}

/* A file of /proc, which does not tell its size; "" if there is none. The caller may cut the text into
 * words. */
static char *proc_text(struct report *r, const char *path)
{
	char *text = arena_alloc(&r->arena, FILE_BYTES);
	FILE *f = fopen(on_board(r, path), "re");
	if (f) {
		text[fread(text, 1, FILE_BYTES - 1, f)] = 0;
		fclose(f);
	}
	return text;
}

static bool is_below(const char *path, const char *mount)
{
	size_t n = strlen(mount);
	return !strcmp(mount, "/") || (!strncmp(path, mount, n) && (path[n] == '/' || !path[n]));
}

/* Mounts of our folders: mount point, type, options. The source is left out, because it may name another
 * machine. */
static void mounts(struct report *r, struct buf *out)
{
	const char *folders[] = {r->cache, daemon_run_folder(), "/etc/hone", "/tmp"};
	char *next = proc_text(r, "/proc/self/mountinfo");
	for (char *line = strsep(&next, "\n"); line; line = strsep(&next, "\n")) {
		char at[1024], options[256], type[64] = "?";
		const char *dash = strstr(line, " - ");
		if (sscanf(line, "%*s %*s %*s %*s %1023s %255s", at, options) != 2)
			continue;
		if (dash)
			sscanf(dash, " - %63s", type);
		for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
			if (is_below(folders[i], at)) {
				buf_printf(out, "%s %s %s\n", at, type, options);
				break;
			}
	}
}

/* Version of the kernel and the system. Of the command line only the options that concern hone are copied;
 * the rest may hold anything. */
static void kernel(struct report *r, struct buf *out)
{
	static const char *const about_us[] = {
	    "hone.", "psi=", "cgroup", "isolcpus=", "nohz", "mitigations=", "mem="};
	struct utsname u;
	struct blob b;
	if (uname(&u) == 0)
		buf_printf(out, "%s %s %s %s\n", u.sysname, u.release, u.version, u.machine);
	if (file_read(&r->arena, on_board(r, "/etc/os-release"), FILE_BYTES, &b) >= 0) {
		const char *name = strstr(b.p, "PRETTY_NAME=");
		buf_printf(out, "%.*s\n", name ? (int)strcspn(name, "\n") : 0, name ? name : "");
	}
	if (file_read(&r->arena, on_board(r, "/proc/device-tree/model"), FILE_BYTES, &b) >= 0)
		buf_printf(out, "%s\n", (const char *)b.p);
	char *words = proc_text(r, "/proc/cmdline");
	for (char *w = strtok(words, " \n"); w; w = strtok(NULL, " \n"))
		for (size_t i = 0; i < sizeof about_us / sizeof *about_us; i++)
			if (!strncmp(w, about_us[i], strlen(about_us[i])))
				buf_printf(out, "%s\n", w);
}

/* A report begins with OUTPUT_BUGREPORT, which is the first section. */
static const struct section sections[] = {
    {"version", "version of hone and of the running honed", version},
    {"status", "status that honed reports, and the inhibit files", status},
    {"findings", "problems that hone doctor finds", findings},
    {"configuration", "honed.conf and its drop-ins, without the values of [sync]", configuration},
    {"vitals", "load, pressure, heat, throttling, clocks, memory and battery now", vitals},
    {"target", "the processor that kernels are made for", target},
    {"cache", "size of the cache, without its content", cache},
    {"log", "the last 300 lines of honed, hone-boot and hone-worker in the journal", journal},
    {"mounts", "type and options of the file systems that hone uses", mounts},
    {"kernel", "Linux version, board model, and the part of the kernel command line that concerns hone",
     kernel},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static void find_cache(struct report *r)
{
	const char *theirs = daemon_text(r->status, "cache", NULL);
	if (!arg_str(r->args, "cache", NULL) && theirs)
		snprintf(r->cache, sizeof r->cache, "%s", theirs);
	else if (model_cache_dir(r->args, r->cache, sizeof r->cache) < 0)
		r->cache[0] = 0;
}

static char *masked(struct report *r, const struct mask *m, int i)
{
	struct buf raw = {0}, out = {0};
	sections[i].fill(r, &raw);
	mask_text(m, buf_str(&raw), &out);
	char *text = arena_strdup(&r->arena, buf_str(&out));
	log_plain(text);
	buf_free(&raw);
	buf_free(&out);
	return text;
}

static int put_report(const char *path, char *const text[SECTIONS])
{
	struct buf b = {0};
	for (int i = 0; i < SECTIONS; i++)
		buf_printf(&b, "== %s: %s\n%s%s\n", sections[i].name, sections[i].what, text[i],
			   *text[i] ? "" : "(nothing)\n");
	struct blob whole = {buf_str(&b), b.n};
	int rc = path ? file_write_parts(path, &whole, 1, 0600) : 0;
	if (!path)
		fwrite(whole.p, 1, whole.n, stdout);
	buf_free(&b);
	return rc;
}

static int put_json(char *const text[SECTIONS])
{
	json_t *list = json_array();
	for (int i = 0; i < SECTIONS; i++)
		json_array_append_new(
		    list, json_pack("{ss so}", "name", sections[i].name, "words", json_text(text[i])));
	return json_out(json_pack("{so}", "sections", list));
}

static void list(const char *path)
{
	log_info("The report holds:");
	for (int i = 0; i < SECTIONS; i++)
		log_info("  %-14s %s", sections[i].name, sections[i].what);
	log_info("The names of this board and its users are replaced by HOST and USER. Values of keys, "
		 "tokens, passwords and secrets are left out. Models and kernels appear by name and path "
		 "only. Read "
		 "the report before you send it%s%s.",
		 path ? ": " : "", path ? path : "");
}

static int run_bugreport(const struct args *a)
{
	struct report r = {.args = a};
	struct mask m;
	char *text[SECTIONS], to[PATH_MAX];
	const char *path = arg_str(a, "output", NULL), *root = getenv("HONE_SYSROOT");
	r.root = root ? root : "";
	if (path && a->json)
		return fail(E_USAGE, "--output and --json exclude each other");
	int rc = path ? output_file(a, path, OUTPUT_BUGREPORT, to) : 0;
	if (rc < 0)
		return rc;
	list(path);
	model_cache_of_socket(arg_str(a, "socket", NULL));
	if (daemon_status(arg_str(a, "socket", NULL), &r.status) < 0)
		log_info("hone: warning: %s", err_text());
	find_cache(&r);
	mask_board(&m);
	for (int i = 0; i < SECTIONS; i++)
		text[i] = masked(&r, &m, i);
	rc = a->json ? put_json(text) : put_report(path ? to : NULL, text);
	json_decref(r.status);
	arena_free(&r.arena);
	return rc;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE", "write to this file, readable by its owner only (default: standard output)",
     'o'},
    OPT_CACHE,
    OPT_SOCKET,
    {NULL},
};

const struct cmd cmd_bugreport = {
    .usage = "[-o FILE]",
    .summary = "collect information about this board for a bug report",
    .details = "Sections: version, status, findings (of hone doctor), configuration (without the values of "
	       "[sync]),\nvitals, target, cache (its size, not its content), log (the last lines of honed in "
	       "the journal),\nmounts, kernel. It first lists what the report holds, and sends nothing. The "
	       "names of the board and\nits users are replaced by HOST and USER. Values of keys, tokens, "
	       "passwords and secrets are left out.\nModels and kernels appear by name and path only. Run it "
	       "as root to include the journal and honed's\ncache.",
    .opts = opts,
    .run = run_bugreport,
    .name = "bugreport",
};
