/* SPDX-License-Identifier: Apache-2.0 */
/* Watches folders for inhibit files and models that appear, vanish or are replaced. Files that are written in
 * place are watched only if they are models, because a folder may be a busy one. */
#include "agent/honed/honed_loop.h"
#include "platform/base/file.h"
#include "platform/base/log.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTLE_NS NS_PER_S /* from a change of a model or the cache to the look at it */
enum {
	FOLDER = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR,
	MODEL = IN_CLOSE_WRITE | IN_ATTRIB,
	CACHE = IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
		IN_MASK_ADD, /* a model may lie there, too */
	MOST_READS = 256     /* about as many as fill the kernel's queue */
};

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int watch_folder_of(struct loop *l, const char *path)
{
	char folder[PATH_MAX];
	size_t n = (size_t)(last_part(path) - path);
	if (n >= sizeof folder)
		return -1;
	memcpy(folder, path, n);
	folder[n] = 0;
	return inotify_add_watch(l->changes_fd, n ? folder : ".", FOLDER);
}

/* Its other files, as the lock, come and go. */
static bool concerns_cache(const struct loop *l, const struct inotify_event *e)
{
	return e->mask & IN_Q_OVERFLOW ||
	       (e->wd == l->cache_watch && (!e->len || file_ends_with(e->name, ".seg")));
}

static void note(struct loop *l, const struct inotify_event *e, bool *models, bool *inhibits)
{
	const char *name = e->len ? e->name : "";
	if (concerns_cache(l, e) && l->cache_ns == INT64_MAX)
		l->cache_ns = loop_now() + SETTLE_NS;
	if (e->wd == l->cache_watch && !e->len)
		return;
	*models |= !e->len || (e->mask & IN_Q_OVERFLOW);
	*inhibits |=
	    e->wd == l->inhibit_watch[0] || e->wd == l->inhibit_watch[1] || (e->mask & IN_Q_OVERFLOW);
	for (int i = 0; i < l->conf->nmodels; i++)
		*models |= !strcmp(last_part(l->conf->model[i].path), name);
	for (int i = 0; i < l->conf->ninhibit; i++)
		*inhibits |= !strcmp(last_part(l->conf->inhibit[i]), name);
}

static void on_change(uv_poll_t *p, int status, int events)
{
	struct loop *l = p->data;
	_Alignas(struct inotify_event) char text[4096];
	bool models = false, inhibits = false;
	(void)status, (void)events;
	for (int reads = 0; reads < MOST_READS; reads++) {
		ssize_t n = read(l->changes_fd, text, sizeof text);
		if (n <= 0)
			break;
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *e = (const void *)(text + at);
			note(l, e, &models, &inhibits);
			at += (ssize_t)(sizeof *e + e->len);
		}
	}
	if (inhibits)
		loop_inhibited(l);
	if (models)
		l->models_ns = loop_now() + SETTLE_NS;
	loop_arm(l);
}

/* Changes during a pause are reported later; if there are too many, the queue reports an overflow. */
void loop_watch_pause(struct loop *l, bool on)
{
	if (l->changes_fd < 0)
		return;
	if (on)
		uv_poll_stop(&l->changes);
	else
		uv_poll_start(&l->changes, UV_READABLE, on_change);
}

/* Makes a folder of the run folder. Plain mkdir: it need not outlive this boot. */
static void make_folder(const char *folder, mode_t mode)
{
	if (mkdir(folder, 0755) == 0 ? mode != 0755 && chmod(folder, mode) < 0 : errno != EEXIST)
		log_more("honed: cannot create %s: %s", folder, strerror(errno));
}

/* Watches that are no longer needed stay until the next start: they cost an event now and then. */
static void add_all(struct loop *l)
{
	static const char *const names[] = {"inhibit", "inhibit.d"};
	char folder[PATH_MAX];
	for (int i = 0; i < 2; i++) {
		l->inhibit_watch[i] = -1;
		if (snprintf(folder, sizeof folder, "%s/%s", l->o.run, names[i]) >= (int)sizeof folder)
			continue;
		make_folder(folder, i ? 01777 : 0755); /* anybody may make a file in inhibit.d */
		l->inhibit_watch[i] = inotify_add_watch(l->changes_fd, folder, FOLDER);
	}
	for (int i = 0; i < l->conf->ninhibit; i++)
		if (watch_folder_of(l, l->conf->inhibit[i]) < 0)
			log_info("honed: inhibit file %s: its folder cannot be watched (%s): create it, then "
				 "reload",
				 l->conf->inhibit[i], strerror(errno));
	for (int i = 0; i < l->conf->nmodels; i++) {
		/* if that fails, loop_look looks at the file now and then */
		(void)!watch_folder_of(l, l->conf->model[i].path);
		(void)!inotify_add_watch(l->changes_fd, l->conf->model[i].path, MODEL);
	}
}

void loop_watch(struct loop *l)
{
	if (l->changes_fd < 0) {
		l->changes_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		if (l->changes_fd < 0 || uv_poll_init(&l->uv, &l->changes, l->changes_fd) < 0) {
			log_error("cannot watch files: %s", strerror(errno));
			loop_watch_close(l);
			l->changes_fd = -1;
			return;
		}
		l->changes.data = l;
		uv_poll_start(&l->changes, UV_READABLE, on_change);
	}
	add_all(l);
}

void loop_watch_cache(struct loop *l)
{
	if (l->changes_fd >= 0 && !l->o.box && !l->over)
		l->cache_watch = inotify_add_watch(l->changes_fd, l->cache, CACHE);
}

void loop_watch_close(struct loop *l)
{
	if (l->changes_fd >= 0)
		close(l->changes_fd);
}
