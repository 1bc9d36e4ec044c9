/* SPDX-License-Identifier: Apache-2.0 */
/* Prints honed's status, or what is known without it, and the cache: its contents, its wear of the flash, and
 * problems of its folder. */
#include "agent/cache/exchange.h"
#include "agent/cache/cache.h"
#include "platform/base/log.h"
#include "platform/machine/mount.h"
#include "tools/hone/daemon.h"
#include "agent/cache/json.h"
#include "tools/hone/gains.h"
#include "tools/hone/hints.h"
#include "tools/hone/model.h"
#include "tools/hone/known.h"
#include "tools/hone/next.h"
#include "tools/hone/status_view.h"
#include "tools/hone/synced.h"
#include "tools/hone/table.h"
#include "tools/hone/watch.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* Writes that each block of a cheap card endures (TLC; data sheets of eMMC give 3,000 and more). */
enum { WRITES_A_BLOCK = 1000 };

struct status {
	struct cache_state s;
	struct hints hints;
	const char *above; /* the user's own cache, if its records lie above those of the folder; else NULL */
	int on_devices; /* kernels for devices with a driver, among all */
	struct flash_life life;
	double worn; /* share of the writes that a card of the file system's size endures, used up by the
		      * cache */
	char mount[2][5000];
	const char *warning[6];
	int nwarnings;
};

static void warn(struct status *s, const char *text)
{
	if (*text)
		s->warning[s->nwarnings++] = text;
}

/* Warns about the mount of the folder that was asked for and, if the user's folder takes the writes instead,
 * about that one's. */
static void look_at_mounts(struct status *s, const char *root, const char *dir)
{
	enum mount_kind asked = mount_of(root, dir), written = mount_of(root, s->s.dir);
	const char *words[2] = {mount_words(asked), mount_words(written)};
	for (int i = 0; i < (strcmp(dir, s->s.dir) ? 2 : 1); i++)
		if (*words[i])
			snprintf(s->mount[i], sizeof *s->mount, "%s: %s", i ? s->s.dir : dir, words[i]);
	warn(s, s->mount[0]);
	warn(s, s->mount[1]);
}

static int count_device(void *ctx, const struct rec *r)
{
	struct status *s = ctx;
	s->on_devices += strcmp(r->device, "cpu") != 0;
	return 0;
}

/* dir: the folder that was asked for. */
static void look(struct status *s, const char *dir)
{
	struct stat st;
	struct statvfs v;
	const char *root = getenv("HONE_SYSROOT");
	look_at_mounts(s, root ? root : "", dir);
	if (s->s.foreign)
		warn(s, "others can write a folder of the cache: its records are hints, and its code is not "
			"run; chmod go-w");
	if (s->s.damaged_bytes)
		warn(s, "a part of it is damaged and ignored: its kernels will be tuned again (hone "
			"doctor says how that part is removed)");
	if (statvfs(s->s.dir, &v) == 0 && v.f_blocks)
		s->worn =
		    (double)s->s.written_bytes / WRITES_A_BLOCK / ((double)v.f_blocks * (double)v.f_frsize);
	if (stat(s->s.dir, &st) < 0 || flash_life(root ? root : "", st.st_dev, &s->life) < 0)
		return;
	if (s->life.near_end || s->life.tenths > 9)
		warn(s, "the flash reports that it is near the end of its life: replace it");
}

static json_t *types_json(const struct cache_state *c)
{
	json_t *list = json_array();
	for (int i = 0; exchange_types[i]; i++)
		json_array_append_new(list, json_pack("{ss si}", "type", exchange_name(exchange_types[i]),
						      "count", c->count[exchange_types[i]]));
	return list;
}

/* dir: the folder that was asked for. */
static json_t *cache_json(const struct status *s, const char *dir)
{
	const struct cache_state *c = &s->s;
	json_t *warnings = json_array();
	for (int i = 0; i < s->nwarnings; i++)
		json_array_append_new(warnings, json_text(s->warning[i]));
	json_t *j = json_pack(
	    "{so so si si si si sI sI sI sI sI sI sI sI si si sI so so}", "cache", json_text(dir),
	    "records_by_type", types_json(c), "code_objects", c->count[CACHE_CODE], "records_on_devices",
	    s->on_devices, "hints_untried", s->hints.here, "hints_of_other_classes", s->hints.other,
	    "record_bytes", (json_int_t)c->record_bytes, "code_bytes", (json_int_t)c->code_bytes,
	    "dead_bytes", (json_int_t)c->dead_bytes, "damaged_bytes", (json_int_t)c->damaged_bytes,
	    "file_bytes", (json_int_t)c->file_bytes, "cap_bytes", (json_int_t)c->cap_bytes, "index_bytes",
	    (json_int_t)c->index_bytes, "written_bytes", (json_int_t)c->written_bytes, "cache_layers",
	    c->layers, "segments", c->segments, "generation", (json_int_t)c->generation, "worn",
	    json_num(s->worn), "warnings", warnings);
	if (j && s->above)
		json_object_set_new(j, "also", json_text(s->above));
	if (j && s->life.tenths)
		json_object_set_new(j, "flash_life_tenths", json_integer(s->life.tenths));
	return j;
}

__attribute__((format(printf, 2, 3))) static void say(const char *what, const char *fmt, ...)
{
	char text[6000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	log_one_line(text);
	table_words(what, 11, text);
}

static void hints_text(const struct hints *h)
{
	int n = h->here + h->other;
	if (!n)
		return;
	char others[96] = "";
	if (h->other)
		snprintf(others, sizeof others, "; %d of another class of boards, which %s not used here",
			 h->other, h->other == 1 ? "is" : "are");
	say("hints", "%d imported or from a fleet, not tried here yet; hone tune times %s before %s used%s", n,
	    n == 1 ? "it" : "them", n == 1 ? "it is" : "they are", others);
}

static void cache_text(const struct status *s, const char *dir)
{
	const struct cache_state *c = &s->s;
	say("cache", "%s%s%s, %d layer%s, %d file%s", dir, s->above ? " and " : "", s->above ? s->above : "",
	    c->layers, plural_s(c->layers), c->segments, plural_s(c->segments));
	char devices[64] = "";
	if (s->on_devices)
		snprintf(devices, sizeof devices, " (%d of them for other devices)", s->on_devices);
	say("holds", "%d record%s%s, code of %d candidate%s (%.1f KiB), %d log%s of tuning; all but code %.1f KiB",
	    c->count[CACHE_REC], plural_s(c->count[CACHE_REC]), devices, c->count[CACHE_CODE],
	    plural_s(c->count[CACHE_CODE]), (double)c->code_bytes / 1024, c->count[CACHE_TRIALS],
	    plural_s(c->count[CACHE_TRIALS]), (double)c->record_bytes / 1024);
	hints_text(&s->hints);
	say("files", "%.1f of %.0f MiB, %.1f KiB of them superseded; index %.1f KiB of memory",
	    (double)c->file_bytes / (1 << 20), (double)c->cap_bytes / (1 << 20), (double)c->dead_bytes / 1024,
	    (double)c->index_bytes / 1024);
	say("written",
	    "%.2f MiB over its life (generation %llu): %.2g %% of what a card of this size endures at "
	    "%d writes a block",
	    (double)c->written_bytes / (1 << 20), (unsigned long long)c->generation, 100 * s->worn,
	    WRITES_A_BLOCK);
	if (s->life.tenths)
		say("flash", "%s reports that %d to %d %% of its life are used", s->life.device,
		    (s->life.tenths - 1) * 10, s->life.tenths * 10);
	for (int i = 0; i < s->nwarnings; i++)
		say("warning", "%s", s->warning[i]);
}

/* The status without honed, in the same format. */
static json_t *without_daemon(const char *why)
{
	struct arena a = {0};
	struct daemon_inhibit *file;
	int n = inhibit_list(&a, &file);
	json_t *inhibits = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(inhibits,
				      json_pack("{so so so}", "name", json_text(file[i].name), "why",
						json_text(file[i].why), "left_s", json_num(file[i].left_s)));
	arena_free(&a);
	return json_pack("{so so}", "verdict", json_text(why), "inhibits", inhibits);
}

/* honed's status, or its substitute. */
static json_t *ask_daemon(const struct args *a, bool *there)
{
	json_t *d = NULL;
	const char *socket = arg_str(a, "socket", NULL);
	char none[DAEMON_ABSENT], text[DAEMON_ABSENT + 100];
	daemon_use(socket);
	int rc = daemon_status(socket, &d);
	*there = rc > 0;
	if (rc > 0)
		return d;
	daemon_absent(socket, none);
	snprintf(text, sizeof text,
		 "%s; until then only hone tune tunes, and models run with the kernels of the cache", none);
	return without_daemon(rc < 0 ? err_text() : text);
}

/* Adds the result of hone-sync's last run, if there was one. */
static void add_sync(json_t *d)
{
	struct arena a = {0};
	struct sync_conf c;
	json_t *s = synced_conf(NULL, &a, &c, NULL) < 0 ? NULL : synced_status(&c);
	if (json_object_size(s))
		json_object_set(d, "sync", s);
	json_decref(s);
	arena_free(&a);
}

/* The folder of --cache, which has to exist, else honed's, else the user's. */
static int cache_folder(const struct args *a, const json_t *d, char *out, size_t n)
{
	const char *theirs = daemon_text(d, "cache", NULL);
	if (arg_given(a, "cache") || !theirs || strlen(theirs) >= n)
		return model_cache_to_read(a, out, n);
	snprintf(out, n, "%s", theirs);
	return 0;
}

static void next_step(const struct status *s, const char *dir, bool there)
{
	if (there)
		next_say("hone status --watch");
	else if (s->s.count[CACHE_REC])
		next_say("hone show --cache %s", dir);
	else
		known_tune(NULL, dir); /* an empty cache knows none */
}

static int show(const struct args *a, const json_t *d, bool there, const struct status *s, const char *dir)
{
	if (a->json) {
		json_t *j = json_deep_copy(d);
		json_object_set_new(j, "daemon", json_boolean(there));
		if (s->s.dir) {
			json_t *c = cache_json(s, dir);
			json_object_update(j, c);
			json_decref(c);
		}
		return json_out(j);
	}
	status_view(d, a->color);
	if (s->s.dir)
		cache_text(s, dir);
	next_step(s, dir, there);
	return 0;
}

static int watch_status(const struct args *a)
{
	char dir[4096];
	bool named = arg_given(a, "cache");
	int rc = named ? model_cache_to_read(a, dir, sizeof dir) : E_OK;
	return rc < 0 ? rc : watch(arg_str(a, "socket", NULL), named ? dir : NULL, a->json, a->color);
}

static int run_status(const struct args *a)
{
	char dir[4096] = "";
	struct cache *c = NULL;
	struct status s = {0};
	struct cache_options o = {0};
	bool there = false;
	int rc = model_cache_limit(a, &o.cap_bytes);
	if (rc < 0)
		return rc;
	model_cache_of_socket(arg_str(a, "socket", NULL));
	if (arg_flag(a, "watch"))
		return watch_status(a);
	json_t *d = ask_daemon(a, &there);
	add_sync(d);
	rc = cache_folder(a, d, dir, sizeof dir);
	o.only_here = rc >= 0 && model_cache_is_bare(dir);
	if (rc >= 0)
		rc = cache_open_with(&c, dir, CACHE_READ, 0, &o);
	if (rc >= 0) {
		struct arena scratch = {0};
		cache_state(c, &s.s);
		if (cache_each_rec(c, &scratch, count_device, &s) < 0)
			log_more("records cannot be counted: %s", err_text());
		if (hints_count(c, &s.hints) < 0)
			log_more("hints cannot be counted: %s", err_text());
		arena_free(&scratch);
		gains_add(d, c);
		look(&s, dir);
		s.above = model_cache_above(c, dir);
	} else if (there && !arg_given(a, "cache")) { /* we may not be allowed to read honed's cache */
		log_info("hone: warning: cache: %s", err_text());
		rc = 0;
	}
	if (rc >= 0)
		rc = show(a, d, there, &s, dir);
	if (c)
		cache_close(c);
	json_decref(d);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"watch", OPT_FLAG, NULL,
     "keep showing it: live on a terminal, else a line for each change; --json: JSON lines"},
    OPT_CACHE,
    OPT_CACHE_LIMIT,
    OPT_SOCKET,
    {NULL},
};

const struct cmd cmd_status = {
    .usage = "[--watch] [--cache DIR]",
    .summary = "show what honed does and why, what the cache holds, and the wear of the flash",
    .details =
	"The first line says what honed does, and why. Then come its models, the gate, honed's jobs, its\n"
	"inhibits, the gains over default schedules that the cache has, and the cache. Without a daemon it\n"
	"shows what is known without one. --watch ends with Ctrl-C, survives a restart of the daemon, and\n"
	"shows as many lines as the terminal has, the first ones first.\n\n"
	"Of a model, first is the first time of its file, before_ms of --json. Shorter times of the same\n"
	"kernels correct it until a slice was undisturbed; that slice corrects it last. The journal has the\n"
	"times of each slice. gain is the product of what each slice has gained since. now is first divided\n"
	"by gain, because the times of two slices do not compare. now is marked ~, and gain is -, if no\n"
	"slice was undisturbed yet, or if a slice that gained was disturbed by other programs or cut short.\n"
	"A note says so if the processor alone is faster than a device.\n\n"
	"worn: bytes that this cache wrote over its life (whole blocks, without the file system's own\n"
	"journal), as a share of what a card of the file system's size endures. If the eMMC reports its\n"
	"own wear, that is shown too.",
    .opts = opts,
    .run = run_status,
    .name = "status",
};
