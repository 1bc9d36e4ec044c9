/* SPDX-License-Identifier: Apache-2.0 */
/* Files: configuration, models, inhibits, marks, metrics. */
#include "agent/honed/honed_loop.h"
#include "agent/honed/marks.h"
#include "agent/run/image.h"
#include "platform/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INHIBIT_BYTES = 200 };

static int path_of(char out[PATH_MAX], const char *folder, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path %.80s... is too long", folder);
}

/* Models. */

/* A key changes with the file, with the options of the model, with the machine, and with hone-worker, whose
 * file stands for the emitter's version (asking the worker would take longer than a boot that has nothing to
 * do). */
static struct key model_key(const struct loop *l, const struct conf_model *m, const struct stat *st)
{
	struct buf b = {0};
	buf_printf(&b, "%s\n%jd %ju %jd %ld\n%d %d", m->path, (intmax_t)st->st_size, (uintmax_t)st->st_ino,
		   (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, m->threads, m->level);
	for (int i = 0; i < m->shapes.n; i++)
		buf_printf(&b, " %s", m->shapes.shape[i]);
	if (m->device)
		buf_printf(&b, "\n%s", m->device);
	if (m->library)
		buf_printf(&b, "\nlibrary %s", m->library);
	struct key k = hash_join(hash_bytes(buf_str(&b), b.n), l->id);
	buf_free(&b);
	return k;
}

static const char *why_no_folder(const char *path)
{
	char file[PATH_MAX];
	bool compiled = snprintf(file, sizeof file, "%s/" IMAGE_FILE, path) < PATH_MAX && file_exists(file);
	return compiled ? "a compiled model; name the model file that it was compiled from"
			: "a folder; name the file of a model";
}

static void look_at(struct loop *l, int i)
{
	const struct conf_model *m = &l->conf->model[i];
	struct stat st;
	l->model[i] = (struct honed_model){0};
	const char *why = stat(m->path, &st) < 0      ? strerror(errno)
			  : S_ISDIR(st.st_mode)       ? why_no_folder(m->path)
			  : !S_ISREG(st.st_mode)      ? "not a regular file"
			  : access(m->path, R_OK) < 0 ? strerror(errno)
						      : NULL;
	if (why) {
		snprintf(l->refused[i], sizeof l->refused[i], "%.100s: %s", m->path, why);
		l->model[i].refused = l->refused[i];
	} else {
		l->model[i].key = model_key(l, m, &st);
	}
}

void loop_models_look(struct loop *l)
{
	for (int i = 0; i < l->conf->nmodels && i < HONED_MODELS; i++)
		look_at(l, i);
	l->looked_models_ns = loop_now();
}

static struct key of_all(const struct loop *l)
{
	struct key k = {0};
	for (int i = 0; i < l->conf->nmodels && i < HONED_MODELS; i++)
		k = hash_join(k, l->model[i].refused ? hash_text(l->model[i].refused) : l->model[i].key);
	return k;
}

bool loop_models_changed(struct loop *l)
{
	struct key before = of_all(l);
	loop_models_look(l);
	return !key_equal(before, of_all(l));
}

/* Inhibits: files in RUN/inhibit and RUN/inhibit.d. Files in the first that honed made, or hone inhibit made
 * for it, are named UID-NUMBER-UNTIL; once honed knows of them (HE_KEPT) it handles them itself. Any other
 * file there, and any file that the configuration names, inhibits for as long as it exists. */

/* Does not follow links: a user who may make one there would see a line of a file that only we may read. */
static void read_why(int folder, const char *path, char out[INHIBIT_BYTES])
{
	int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? 0 : read(fd, out, INHIBIT_BYTES - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	out[strcspn(out, "\n")] = 0;
	log_plain(out);
}

static bool is_known(const struct loop *l, const char *name)
{
	for (int i = 0; i < l->nkept; i++)
		if (!strcmp(l->kept[i], name))
			return true;
	return false;
}

static void know(struct loop *l, const char *name)
{
	if (l->nkept < LOOP_KEPT && strlen(name) < sizeof l->kept[0] && !is_known(l, name))
		strcpy(l->kept[l->nkept++], name);
}

static void unknow(struct loop *l, const char *name)
{
	for (int i = 0; i < l->nkept; i++)
		if (!strcmp(l->kept[i], name))
			memmove(l->kept[i], l->kept[--l->nkept], sizeof l->kept[0]);
}

static DIR *open_folder(const struct loop *l, const char *name)
{
	char path[PATH_MAX];
	return path_of(path, l->o.run, name) < 0 ? NULL : opendir(path);
}

/* The file's name begins with a user's id; its owner must be that user, our own user or root. */
static bool is_honest(int folder, const char *name)
{
	struct stat st;
	char *end;
	unsigned long uid = strtoul(name, &end, 10);
	return end > name && *end == '-' && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && (st.st_uid == uid || st.st_uid == 0 || st.st_uid == geteuid());
}

void loop_kept(struct loop *l)
{
	char why[INHIBIT_BYTES];
	DIR *d = open_folder(l, "inhibit");
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!is_honest(dirfd(d), e->d_name))
			continue;
		read_why(dirfd(d), e->d_name, why);
		know(l, e->d_name);
		loop_tell(l, &(struct honed_event){.kind = HE_KEPT, .name = e->d_name, .text = why});
	}
	if (d)
		closedir(d);
}

/* Finds the file of a folder that is first by name and that honed did not make. */
static bool foreign(struct loop *l, const char *folder, char name[NAME_MAX + 1], char why[INHIBIT_BYTES])
{
	DIR *d = open_folder(l, folder);
	*name = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && !is_known(l, e->d_name) && (!*name || strcmp(e->d_name, name) < 0))
			strcpy(name, e->d_name);
	if (*name)
		read_why(dirfd(d), name, why);
	if (d)
		closedir(d);
	return *name;
}

static void look_for_inhibits(struct loop *l)
{
	char name[PATH_MAX + NAME_MAX], why[INHIBIT_BYTES] = "", text[512];
	bool is = foreign(l, "inhibit", name, why) || foreign(l, "inhibit.d", name, why);
	for (int i = 0; !is && i < l->conf->ninhibit; i++)
		if (access(l->conf->inhibit[i], F_OK) == 0) {
			snprintf(name, sizeof name, "%s", l->conf->inhibit[i]);
			read_why(AT_FDCWD, name, why);
			is = true;
		}
	snprintf(text, sizeof text, "%s%s%.200s", why, *why ? ", says " : "file ", name);
	log_plain(text);
	struct key now = is ? hash_text(text) : (struct key){0};
	if (key_equal(now, l->inhibited))
		return;
	l->inhibited = now;
	loop_tell(l, &(struct honed_event){.kind = HE_INHIBIT, .text = is ? text : NULL});
}

/* Anybody may fill inhibit.d and change it all day: if a look takes long, looks are limited to a twentieth of
 * the time. */
void loop_inhibited(struct loop *l)
{
	int64_t now = loop_now();
	if (now < l->inhibits_from_ns) {
		l->inhibits_ns = l->inhibits_from_ns;
		loop_watch_pause(l, true);
		loop_arm(l);
		return;
	}
	if (l->inhibits_ns != INT64_MAX)
		loop_watch_pause(l, false);
	l->inhibits_ns = INT64_MAX;
	look_for_inhibits(l);
	int64_t after = loop_now(), took = after - now;
	if (took > NS_PER_MS)
		l->inhibits_from_ns = after + (took < NS_PER_S / 20 ? 20 * took : NS_PER_S);
}

void loop_inhibit(struct loop *l, const char *name, const char *text)
{
	char path[PATH_MAX], file[PATH_MAX];
	int rc = path_of(path, l->o.run, "inhibit");
	if (rc >= 0)
		rc = path_of(file, path, name);
	if (rc >= 0 && text) {
		know(l, name);
		rc = file_mkdirs(path, 0755);
		if (rc >= 0)
			rc = file_write(file, text, strlen(text));
	} else if (rc >= 0) {
		unknow(l, name);
		rc = unlink(file) < 0 && errno != ENOENT
			 ? fail(E_IO, "cannot remove %s: %s", file, strerror(errno))
			 : E_OK;
	}
	if (rc < 0)
		log_error("%s; a restart will not know of it", err_text());
}

/* Configuration. */

int loop_conf(struct loop *l, const char *path)
{
	struct arena a = {0};
	struct conf *c = ARENA_NEW(&a, struct conf);
	int rc = conf_read(path, &a, c);
	if (rc < 0) {
		arena_free(&a);
		return rc;
	}
	struct arena old = l->conf_arena;
	const struct conf *before = l->conf;
	l->conf_arena = a;
	l->conf = c;
	loop_models_look(l);
	if (before) {
		if (before->cache_bytes != c->cache_bytes || strcmp(before->socket, c->socket) ||
		    (before->cache && c->cache ? strcmp(before->cache, c->cache) : before->cache != c->cache))
			log_info("honed: a change of the cache, its limit or the socket takes effect when "
				 "honed is restarted");
		loop_tell(l, &(struct honed_event){
				 .kind = HE_CONF, .conf = c, .nmodels = c->nmodels, .model = l->model});
	}
	arena_free(&old);
	return E_OK;
}

void loop_reload(struct loop *l)
{
	char text[512];
	if (notify_reloading(&l->notify, loop_now()) < 0)
		log_more("honed: %s", err_text());
	int rc = loop_conf(l, l->o.conf);
	if (rc < 0) {
		snprintf(text, sizeof text, "%s", err_text());
		loop_tell(l, &(struct honed_event){.kind = HE_CONF, .rc = rc, .text = text});
	} else {
		loop_watch(l);
		loop_inhibited(l);
	}
	if (notify_send(&l->notify, "READY=1") < 0)
		log_more("honed: %s", err_text());
}

/* Marks and metrics. */

struct marks_work {
	uv_work_t w;
	struct loop *l;
	int64_t took_ns;
	bool new_cache; /* its folder was made just now */
	struct marks marks;
	char path[PATH_MAX];
};

static void write_marks(const char *path, const struct marks *m)
{
	if (marks_write(path, m) < 0)
		log_error("%s; the next box will examine every model again", err_text());
}

/* Makes the file that is already written durable. */
static void sync_marks(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fsync(fd) < 0)
		log_error("a power cut may lose the marks in %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void on_marks(uv_work_t *w)
{
	struct marks_work *m = w->data;
	if (m->new_cache)
		file_sync_folder_of(m->l->cache);
	int64_t from_ns = loop_now();
	if (m->l->o.box)
		sync_marks(m->path);
	else
		write_marks(m->path, &m->marks);
	m->took_ns = loop_now() - from_ns;
}

static void on_marked(uv_work_t *w, int status)
{
	struct marks_work *m = w->data;
	(void)status;
	m->l->marks_ns = m->took_ns;
	if (m->new_cache) {
		m->l->names_cache = false;
		loop_stored(m->l);
	}
	free(m);
}

static int replace(const char *path, const struct buf *b);

/* In a box the marks are written before what they warn of happens, so that a honed that starts after a crash
 * sees them. Nothing waits for the flash: a thread syncs them if the sync can end within the box. A power cut
 * can then lose only the mark that this box ended well. */
static void show_marks(const char *path, const struct marks *m)
{
	struct buf b = {0};
	marks_print(m, &b);
	if (!buf_ok(&b) || replace(path, &b) < 0)
		log_error("%s; the next box will examine every model again",
			  buf_ok(&b) ? err_text() : "no memory for marks");
	buf_free(&b);
}

static bool has_time_to_sync(const struct loop *l)
{
	return clock_since_start(&clock_real) + l->marks_ns <= l->o.budget_ns;
}

void loop_marks(struct loop *l, const struct marks *m)
{
	struct marks_work *w = calloc(1, sizeof *w);
	if (!w || path_of(w->path, l->o.state, "marks") < 0 || file_mkdirs(l->o.state, 0755) < 0) {
		log_error("cannot keep marks: %s", w ? err_text() : "no memory");
		free(w);
		return;
	}
	w->marks = *m;
	w->marks.day = marks_day();
	w->l = l;
	w->w.data = w;
	if (l->o.box)
		show_marks(w->path, &w->marks);
	if (l->o.box && !has_time_to_sync(l)) {
		free(w);
		return;
	}
	w->new_cache = l->o.box && mkdir(l->cache, 0755) == 0;
	l->names_cache = l->names_cache || w->new_cache;
	if (loop_queue(l, &w->w, on_marks, on_marked) >= 0)
		return;
	l->names_cache = false;
	on_marks(&w->w);
	free(w);
}

/* Writes a new file and renames it over the old one, so that a reader always sees a whole file. It is not
 * synced: it need not survive a power cut. */
static int replace(const char *path, const struct buf *b)
{
	char temp[PATH_MAX];
	int rc = snprintf(temp, sizeof temp, "%s.new", path) < PATH_MAX
		     ? E_OK
		     : fail(E_USAGE, "the path %.80s... is too long", path);
	int fd = rc < 0 ? -1 : open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	bool good = fd >= 0 && write(fd, b->p, b->n) == (ssize_t)b->n;
	int err = errno;
	if (fd >= 0)
		close(fd);
	if (good && rename(temp, path) == 0)
		return E_OK;
	return rc < 0 ? rc : fail(E_IO, "cannot write %s: %s", path, strerror(good ? errno : err));
}

void loop_metrics_remove(const struct loop *l)
{
	char path[PATH_MAX];
	if (path_of(path, l->o.run, "metrics.prom") >= 0)
		(void)unlink(path);
}

void loop_metrics(struct loop *l)
{
	char path[PATH_MAX];
	struct buf b = {0};
	honed_metrics(l->h, loop_now(), &b);
	struct key now = hash_bytes(buf_str(&b), b.n);
	if (buf_ok(&b) && b.n && !key_equal(now, l->metrics_written)) {
		int rc = path_of(path, l->o.run, "metrics.prom");
		if (rc >= 0)
			rc = replace(path, &b);
		if (rc < 0)
			log_more("honed: %s", err_text());
		l->metrics_written = now;
	}
	buf_free(&b);
}
