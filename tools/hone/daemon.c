/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/daemon.h"
#include "agent/control/gate.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_INHIBITS = 256, WHY_BYTES = 256 };

int64_t daemon_deadline(int64_t ns)
{
	int64_t now = clock_now(&clock_real);
	return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

int daemon_open(const char *socket, struct client **out)
{
	*out = NULL;
	int rc = client_open(socket, daemon_deadline(DAEMON_NS), out);
	return rc >= 0 ? 1 : rc == E_NOTFOUND ? 0 : rc;
}

bool daemon_has_unit(const char *root, const char *unit)
{
	static const char *const dirs[] = {"/etc/systemd/system", "/usr/local/lib/systemd/system",
					   "/usr/lib/systemd/system", "/lib/systemd/system"};
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/run/systemd/system", root);
	bool found = false, systemd = file_is_dir(path);
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs && systemd && !found; i++) {
		snprintf(path, sizeof path, "%s%s/%s", root, dirs[i], unit);
		found = file_exists(path);
	}
	return found;
}

void daemon_start(const char *root, char out[DAEMON_ABSENT])
{
	char dir[DAEMON_ABSENT / 2 - 8], path[DAEMON_ABSENT / 2] = "";
	const char *sudo = geteuid() ? "sudo " : "";
	if (file_self_dir(dir, sizeof dir) >= 0)
		snprintf(path, sizeof path, "%s/honed", dir);
	if (daemon_has_unit(root, "honed.service"))
		snprintf(out, DAEMON_ABSENT, "%ssystemctl enable --now honed.socket honed", sudo);
	else
		snprintf(out, DAEMON_ABSENT,
			 "%s%s --config FILE (no unit of systemd starts it here; make install adds one)",
			 sudo, access(path, X_OK) == 0 ? path : "honed");
}

void daemon_absent(const char *socket, char out[DAEMON_ABSENT])
{
	const char *path = client_socket(socket);
	bool usual = !strcmp(path, CONTROL_SOCKET);
	char start[DAEMON_ABSENT];
	daemon_start("", start);
	snprintf(
	    out, DAEMON_ABSENT,
	    "honed does not run: nothing listens on %.110s (--socket PATH or $HONE_SOCKET names another); "
	    "start it with %.250s%.110s%s",
	    path, usual ? start : "honed --socket ", usual ? "" : path,
	    usual ? "" : " and its other options (--config, --state, --run)");
}

int daemon_ask(struct client *c, const struct request *r, int64_t deadline_ns, json_t **reply)
{
	const char *line;
	int rc = client_ask(c, r, deadline_ns, &line);
	if (rc < 0)
		return rc;
	*reply = json_loads(line, 0, NULL);
	return *reply ? 0 : fail(E_NOMEM, "no memory for honed's reply");
}

int daemon_status(const char *socket, json_t **out)
{
	struct client *c;
	*out = NULL;
	int rc = daemon_open(socket, &c);
	if (rc <= 0)
		return rc;
	rc = daemon_ask(c, &(struct request){.op = OP_STATUS}, daemon_deadline(DAEMON_NS), out);
	client_close(c);
	json_object_del(*out, "id"); /* "id" and "ok" belong to the reply, not to the status */
	json_object_del(*out, "ok");
	return rc < 0 ? rc : 1;
}

/* Whether a reason is one that jobs with --now wait for, too (VIEW_HARD of agent/honed). */
static bool is_hard(const char *why)
{
	static const enum gate_why soft[] = {GATE_SETTLING, GATE_HOURS, GATE_LOAD, GATE_PRESSURE};
	for (size_t i = 0; i < sizeof soft / sizeof *soft; i++)
		if (!strcmp(why, gate_word(soft[i])))
			return false;
	return true;
}

/* Who inhibits, why, since when, and what ends it. A file that somebody made has no name here, and its text
 * says which it is. */
static void say_inhibit(const json_t *inhibit, char *why, size_t n)
{
	struct buf b = {0};
	const char *name = daemon_text(inhibit, "name", "");
	buf_printf(&b, "inhibited: %s", daemon_text(inhibit, "why", "no reason given"));
	if (json_is_number(json_object_get(inhibit, "since_s"))) {
		buf_puts(&b, ", for ");
		duration_words(daemon_num(inhibit, "since_s", 0), &b);
	}
	buf_printf(&b, *name ? "; hone resume %s ends it" : "; it ends when that file is removed%s", name);
	snprintf(why, n, "%s", buf_str(&b));
	buf_free(&b);
}

bool daemon_is_closed(const char *socket, bool now, char *why, size_t n)
{
	json_t *d = NULL;
	int rc = daemon_status(socket, &d);
	const json_t *gate = json_object_get(d, "gate");
	bool closed = rc > 0 && json_is_object(gate) && !daemon_flag(gate, "open") &&
		      (!now || is_hard(daemon_text(gate, "why", "")));
	const json_t *inhibit = json_array_get(json_object_get(d, "inhibits"), 0);
	if (closed && inhibit && !strcmp(daemon_text(gate, "why", ""), gate_word(GATE_INHIBITED)))
		say_inhibit(inhibit, why, n);
	else if (closed)
		snprintf(why, n, "%s", daemon_text(gate, "words", "its gate is closed"));
	json_decref(d);
	return closed;
}

const char *daemon_text(const json_t *o, const char *key, const char *fallback)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : fallback;
}

double daemon_num(const json_t *o, const char *key, double fallback)
{
	const json_t *v = json_object_get(o, key);
	return json_is_number(v) ? json_number_value(v) : fallback;
}

bool daemon_flag(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

int daemon_pid(const json_t *status)
{
	double pid = daemon_num(status, "pid", 0);
	return pid >= 1 && pid < INT_MAX ? (int)pid : 0;
}

const char *daemon_config(const json_t *status, struct arena *a)
{
	char link[64], folder[PATH_MAX];
	const char *conf = daemon_text(status, "conf", "");
	if (*conf == '/')
		return arena_strdup(a, conf);
	snprintf(link, sizeof link, "/proc/%d/cwd", daemon_pid(status));
	ssize_t n = *conf ? readlink(link, folder, sizeof folder) : -1;
	return n > 0 && n < PATH_MAX ? arena_printf(a, "%.*s/%s", (int)n, folder, conf) : NULL;
}

enum { FOLDER_BYTES = 128 };    /* a socket's path is at most 108 bytes long */
static char used[FOLDER_BYTES]; /* the folder of the given socket */

/* Writes the folder of a socket; "" if there is no socket. */
static void folder_of(const char *socket, char out[FOLDER_BYTES])
{
	const char *slash = socket ? strrchr(socket, '/') : NULL;
	int n = slash == socket ? 1 : slash ? (int)(slash - socket) : 1;
	snprintf(out, FOLDER_BYTES, "%.*s", socket && *socket ? n : 0, slash ? socket : ".");
}

void daemon_use(const char *socket)
{
	folder_of(socket, used);
}

const char *daemon_run_folder(void)
{
	static char beside[FOLDER_BYTES];
	const char *run = getenv("HONE_RUN");
	folder_of(getenv("HONE_SOCKET"), beside);
	return *used ? used : run && *run ? run : *beside ? beside : "/run/hone";
}

/* Parses USER-NUMBER-UNTIL: the user and how long the inhibit lasts. Any other name leaves both unknown. */
static void parse_name(const char *name, struct daemon_inhibit *out)
{
	unsigned uid, number;
	long long until;
	char again[INHIBIT_NAME] = "";
	out->left_s = INFINITY;
	if (sscanf(name, "%10u-%9u-%18lld", &uid, &number, &until) == 3)
		snprintf(again, sizeof again, "%u-%u-%lld", uid, number, until);
	if (strcmp(again, name))
		return;
	out->uid = uid;
	if (until)
		out->left_s = (double)(until - clock_now(&clock_real)) / 1e9;
}

static const char *const folders[] = {"inhibit", "inhibit.d"};
enum { FOLDERS = sizeof folders / sizeof *folders };

static int path_of(const char *folder, const char *name, char *out, size_t size)
{
	if (!*name || *name == '.' || strchr(name, '/'))
		return fail(E_USAGE, "'%.40s' is not an inhibit's name; hone status shows them", name);
	int n = snprintf(out, size, "%s/%s/%s", daemon_run_folder(), folder, name);
	return n < (int)size ? 0 : fail(E_USAGE, "inhibit %.40s: $HONE_RUN or the name is too long", name);
}

static int write_in(const char *folder, const char *name, const char *line)
{
	char path[PATH_MAX];
	int rc = path_of(folder, name, path, sizeof path);
	return rc < 0 ? rc : file_write(path, line, strlen(line));
}

static int make_folder(const char *folder)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", daemon_run_folder(), folder);
	return file_mkdirs(path, 0755);
}

static bool is_open_to_us(const char *folder)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", daemon_run_folder(), folder);
	return access(path, W_OK | X_OK) == 0;
}

int inhibit_write(int64_t ns, bool lasts, const char *why, char *name)
{
	char line[WHY_BYTES];
	snprintf(line, sizeof line, "%.200s (user %u)\n", why, (unsigned)getuid());
	snprintf(name, INHIBIT_NAME, "%u-%d-%lld", (unsigned)getuid(), (int)getpid() % 1000000000,
		 ns ? (long long)daemon_deadline(ns) : 0LL);
	int rc = make_folder(folders[0]);
	if (rc >= 0)
		rc = write_in(folders[0], name, line);
	if (rc != E_IO)
		return rc;
	if (!is_open_to_us(folders[1]))
		return fail_in(rc, "be root, or set $HONE_RUN to honed's run folder");
	if (ns && lasts)
		return fail(E_UNSUPPORTED,
			    "nobody would end it: leave --for out, give a command, or be root");
	return write_in(folders[1], name, line);
}

int inhibit_remove(const char *name)
{
	char path[PATH_MAX];
	for (int i = 0; i < FOLDERS; i++) {
		int rc = path_of(folders[i], name, path, sizeof path);
		if (rc < 0 || unlink(path) == 0)
			return rc < 0 ? rc : 0;
		if (errno != ENOENT && errno != ENOTDIR)
			return fail(E_IO, "%s: %s; be root, or the user who made it", path, strerror(errno));
	}
	return fail(E_NOTFOUND, "there is no inhibit '%s'; hone status shows all inhibits", name);
}

/* The first line of a file, without characters that control a terminal. */
static const char *first_line(int fd, struct arena *a)
{
	char text[WHY_BYTES];
	ssize_t n = read(fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	text[strcspn(text, "\n")] = 0;
	log_plain(text);
	return arena_strdup(a, text);
}

static bool look(int folder, const char *name, bool ends, struct arena *a, struct daemon_inhibit *out)
{
	struct stat st;
	int fd = *name == '.' ? -1 : openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (good) {
		char *plain = arena_strdup(a, name);
		log_one_line(plain);
		*out = (struct daemon_inhibit){.name = plain, .why = first_line(fd, a), .uid = st.st_uid};
		parse_name(name, out);
		if (!ends)
			out->left_s = INFINITY;
		good = out->left_s > 0;
	}
	if (fd >= 0)
		close(fd);
	return good;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct daemon_inhibit *)a)->name, ((const struct daemon_inhibit *)b)->name);
}

int inhibit_list(struct arena *a, struct daemon_inhibit **out)
{
	char path[PATH_MAX];
	int n = 0;
	*out = ARENA_ARRAY(a, struct daemon_inhibit, MOST_INHIBITS);
	for (int i = 0; i < FOLDERS; i++) {
		snprintf(path, sizeof path, "%s/%s", daemon_run_folder(), folders[i]);
		DIR *d = opendir(path);
		for (struct dirent *e; d && n < MOST_INHIBITS && (e = readdir(d));)
			n += look(dirfd(d), e->d_name, i == 0, a, *out + n);
		if (d)
			closedir(d);
	}
	qsort(*out, (size_t)n, sizeof **out, by_name);
	return n;
}
