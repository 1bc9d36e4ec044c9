/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/hint.h"
#include "agent/cache/stale.h"
#include "agent/run/image.h"
#include "agent/worker/wire.h"
#include "kernels/library/library.h"
#include "kernels/onnx/look.h"
#include "kernels/task/task.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "search/job.h"
#include "agent/cache/json.h"
#include "tools/hone/model.h"
#include "tools/hone/known.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct show {
	const char *word; /* searched in the label, the task, the candidate, the device and its target; NULL:
			   * all records */
	bool lines;
	struct cache *cache;
	struct target target;
	char emitter[32];
	int stale;
	int ncpu;   /* shown records of the processor */
	int slower; /* best records whose default has a shorter time, of another moment */
	char
	    first[sizeof((struct rec *)0)->target]; /* the first target of a device with a driver; "": none */
	bool several;                               /* such devices of several targets have records */
	unsigned levels;                            /* a bit for each level that records have */
	json_t *records;                            /* NULL: the output is a table or lines */
	struct table table;
	int n;
};

/* Columns of a record that are found from its task: the label, if the record has none, and the speed. */
struct shown {
	char made[96];
	const char *label; /* the record's own, or `made` */
	double gflops;     /* 0: not known, because the text cannot be parsed or there is no time */
};

/* Records of other boards come without a label, because hone-fleet strips what strangers could write there,
 * so it is made from the task. */
static void look(const struct rec *r, struct shown *out)
{
	struct task *t = malloc(sizeof *t);
	bool good = t && task_parse(r->task_text, t) >= 0;
	*out = (struct shown){.made = "-", .label = out->made};
	if (good && r->meas.median_ns > 0)
		out->gflops = task_flops(t) / (double)r->meas.median_ns;
	if (*r->label)
		out->label = r->label;
	else if (good)
		task_label(t, out->made);
	free(t);
}

static json_t *rec_json(const struct rec *r, const struct shown *k, enum stale stale)
{
	char key[33];
	key_text(r->task, key);
	return json_pack(
	    "{ss so so ss ss so so si sb ss so so ss so so so so si so so}", "task_key", key, "label",
	    json_text(k->label), "task_text", json_text(r->task_text), "record_kind", rec_kind_name(r->kind),
	    "origin", rec_origin_name(r->origin), "target", json_text(r->target), "device",
	    json_text(r->device), "threads", r->threads, "exact", r->level == LEVEL_EXACT, "level",
	    level_name((int)r->level), "emitter", json_text(r->emitter), "cand", json_text(r->cand), "status",
	    meas_status_name(r->meas.status), "median_ms", json_ms((double)r->meas.median_ns), "min_ms",
	    json_ms((double)r->meas.min_ns), "spread_ms", json_ms((double)r->meas.spread_ns), "gflops",
	    json_num(k->gflops), "runs", r->meas.runs, "max_rel_err", json_num(r->meas.max_rel_err), "stale",
	    stale ? json_text(stale_name(stale)) : json_null());
}

static bool wanted(const struct show *s, const struct rec *r, const struct shown *k)
{
	return !s->word || strstr(k->label, s->word) || strstr(r->task_text, s->word) ||
	       strstr(r->cand, s->word) || strstr(r->device, s->word) || strstr(r->target, s->word);
}

static int look_at_rec(void *ctx, const struct rec *r)
{
	struct show *s = ctx;
	s->levels |= 1u << (unsigned)r->level;
	if (!strcmp(r->device, "cpu"))
		return 0;
	if (!*s->first)
		memcpy(s->first, r->target, sizeof s->first);
	s->several |= strcmp(s->first, r->target) != 0;
	return 0;
}

/* The kind of device and, where the cache has records of several such devices, which one it is. */
static void cell_device(struct show *s, const struct rec *r)
{
	bool named = s->several && strcmp(r->device, "cpu");
	table_cell(&s->table, "%s%s%.*s", r->device, named ? " " : "",
		   named ? (int)strcspn(r->target, " ") : 0, r->target);
}

/* The record of the same task that a row is compared with: the default one, or for the default the best one,
 * hone's own if the best is a library's. False: there is none. */
static bool find_other(const struct show *s, const struct rec *r, struct arena *a, struct rec *out)
{
	struct rec key = *r;
	key.kind = r->kind == REC_DEFAULT ? REC_BEST : REC_DEFAULT;
	if (r->kind == REC_HINT)
		return false;
	int rc = cache_get_rec(s->cache, rec_key(&key), a, out);
	key.kind = REC_OWN;
	if (r->kind == REC_DEFAULT && (rc < 0 || library_is_cand(out->cand)))
		rc = cache_get_rec(s->cache, rec_key(&key), a, out);
	return rc >= 0;
}

/* What the table says of a record beside the one of the other kind. */
struct beside {
	bool same;   /* both have one schedule */
	bool slower; /* it is the best one and has a longer time than the default, which lost a race to it:
		      * each record has the time of the moment at which it was written */
};

static struct beside look_beside(const struct show *s, const struct rec *r)
{
	struct arena scratch = {0};
	struct rec other;
	bool found = find_other(s, r, &scratch, &other), same = found && !strcmp(other.cand, r->cand);
	struct beside b = {.same = same,
			   .slower = found && !same && r->kind == REC_BEST && other.meas.median_ns > 0 &&
				     other.meas.median_ns < r->meas.median_ns};
	arena_free(&scratch);
	return b;
}

static bool by_level(const struct show *s)
{
	return (s->levels & (s->levels - 1)) != 0;
}

static int show_rec(void *ctx, const struct rec *r)
{
	struct show *s = ctx;
	struct shown k;
	look(r, &k);
	if (!wanted(s, r, &k))
		return 0;
	s->ncpu += !strcmp(r->device, "cpu");
	if (!s->n++)
		worker_emitter("cpu", &s->target, s->emitter);
	/* Records of a device with a driver are judged where that is open. */
	bool judged = r->kind != REC_HINT && !strcmp(r->device, target_device(&s->target));
	enum stale stale = judged ? stale_rec(s->cache, r, &s->target, s->emitter) : STALE_NOT;
	if (!judged && r->origin == ORIGIN_THROTTLED)
		stale = STALE_THROTTLED;
	s->stale += stale != STALE_NOT;
	if (s->records)
		return json_array_append_new(s->records, rec_json(r, &k, stale)) < 0
			   ? fail(E_NOMEM, "no memory for the JSON")
			   : 0;
	if (s->lines)
		return json_out(rec_json(r, &k, stale));
	struct beside b = look_beside(s, r);
	if (b.same && r->kind == REC_DEFAULT) /* the row of the best one says so */
		return 0;
	table_cell(&s->table, "%s", k.label);
	table_cell(&s->table, "%s%s%s", rec_kind_name(r->kind), b.same ? " = default" : "",
		   r->origin == ORIGIN_HINT ? ", from a hint" : "");
	if (by_level(s))
		table_cell(&s->table, "%s", level_name((int)r->level));
	cell_device(s, r);
	if (strcmp(r->device, "cpu") != 0) /* the device has threads of its own */
		table_cell(&s->table, "-");
	else
		table_cell(&s->table, "%d", r->threads);
	s->slower += b.slower;
	if (b.slower)
		table_cell(&s->table, r->meas.median_ns < 10000 ? "%.2f [1]" : "%.1f [1]",
			   (double)r->meas.median_ns / 1e3);
	else
		table_us(&s->table, "", (double)r->meas.median_ns);
	table_cell(&s->table, "%.1f", k.gflops);
	table_cell(&s->table, "%s", hint_open(r) ? "untried" : stale_name(stale));
	table_cell(&s->table, "%s", r->cand);
	return 0;
}

/* The columns; that of the level is only there if records differ in it. */
static const char *const head[] = {"task", "kind",    "level", "device",   "threads",
				   "us",   "GFLOP/s", "stale", "candidate"};
#define LINES "hone show --lines tells all"
enum { HEADS = sizeof head / sizeof *head, LEVEL_COLUMN = 2 };

static void begin_table(struct show *s)
{
	s->table = by_level(s) ? (struct table){.align = "llllrrrlw", .drop = "000030120", .more = LINES}
			       : (struct table){.align = "lllrrrlw", .drop = "00030120", .more = LINES};
	for (int i = 0; i < HEADS; i++)
		if (i != LEVEL_COLUMN || by_level(s))
			table_cell(&s->table, "%s", head[i]);
}

/* Says what a path is that was given as the word, as records know tasks and no files, and what to do. */
static void explain_path(const struct args *a, const char *path)
{
	struct arena scratch = {0};
	struct onnx_look look;
	char image[PATH_MAX];
	next_flush();
	if (image_find(path, image, sizeof image) && file_exists(image)) {
		log_info("%s is a compiled model, which has its kernels in itself", path);
		next_hone(a, "bench", path, "");
	} else if (file_is_dir(path) && cache_may_be(path)) {
		log_info("%s is a folder; the folder of a cache is given by --cache", path);
		next_say("hone show --cache %s", path);
	} else if (file_is_dir(path)) {
		log_info("%s is a folder, and no cache; WORD is a part of a task, as in `hone show conv`",
			 path);
	} else if (look_file(path, &scratch, &look) >= 0) {
		log_info("records do not name models; hone explain shows those of a model");
		next_hone(a, "explain", path, "");
	} else {
		log_info("%s; WORD is a part of a task, as in `hone show conv`", err_text());
	}
	arena_free(&scratch);
}

static int finish(const struct args *a, struct show *s, const char *dir)
{
	const char *above = model_cache_above(s->cache, dir);
	if (s->records)
		return json_out(json_pack("{so so* so}", "cache", json_text(dir), "also",
					  above ? json_text(above) : NULL, "record_list", s->records));
	if (s->lines)
		return 0;
	if (s->stale) /* else the column says nothing, and goes before others */
		s->table.drop = by_level(s) ? "000020130" : "00020130";
	if (s->n > 0)
		table_print(&s->table, a->color);
	else
		arena_free(&s->table.arena);
	if (s->slower)
		table_say("[1] longer than the default's time: each time is of another moment, at which the "
			  "machine "
			  "was faster or slower. A kernel becomes the best one by a race in which both run "
			  "at the same "
			  "moment; hone explain MODEL shows by how much it won.");
	if (s->stale)
		table_say("stale: %d of them; hone tune times those again before it believes them", s->stale);
	struct buf names = {0};
	model_cache_names(s->cache, dir, &names);
	if (s->word && !s->n)
		table_say("No record in %s contains '%s'", buf_str(&names), s->word);
	else
		table_say("%d record%s in %s", s->n, plural_s(s->n), buf_str(&names));
	buf_free(&names);
	if (s->word && !s->n && file_exists(s->word))
		explain_path(a, s->word);
	else if (s->word && !s->n)
		next_say("hone show --cache %s", dir);
	else if (s->n)
		known_bench(s->cache, !s->ncpu, dir);
	else
		known_tune(s->cache, dir);
	return 0;
}

static int run_show(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	struct show s = {.word = a->npos ? a->pos[0] : NULL, .lines = arg_flag(a, "lines")};
	int rc = model_cache_to_read(a, dir, sizeof dir);
	if (rc >= 0)
		rc = target_host(&s.target);
	if (rc >= 0)
		rc = model_cache_read(dir, &c);
	if (rc < 0)
		return rc;
	s.cache = c;
	model_cache_warn(c);
	s.records = a->json ? json_array() : NULL;
	struct arena arena = {0};
	rc = cache_each_rec(c, &arena, look_at_rec, &s);
	if (rc >= 0)
		rc = hint_each(c, &arena, look_at_rec, &s);
	begin_table(&s);
	if (rc >= 0)
		rc = cache_each_rec(c, &arena, show_rec, &s);
	if (rc >= 0)
		rc = hint_each(c, &arena, show_rec, &s);
	if (rc >= 0)
		rc = finish(a, &s, dir);
	arena_free(&arena);
	cache_close(c);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"lines", OPT_FLAG, NULL, "print one JSON object per record, one per line"},
    OPT_CACHE,
    {NULL},
};

const struct cmd cmd_show = {
    .usage = "[WORD] [--lines] [--cache DIR]",
    .summary = "list the records of the cache",
    .details =
	"A record is the time of one candidate of a task: its best one, its default one, or a hint; own is\n"
	"the best one of hone's own where a library's kernel is the best. With\n"
	"WORD: the records whose task, candidate, device or machine contains it. Where the best "
	"schedule\n"
	"is the default one, one row shows both records: best = default. Column device says "
	"what\n"
	"a kernel runs on: cpu, opencl or cuda, with the device's name if the cache has records of several.\n"
	"Column stale says why a time must be\n"
	"measured again before it is trusted: code (missing), emitter (made by another version), clock\n"
	"(another frequency), age (many boxes ago), numbers (impossible), machine (another one). Records of\n"
	"kind hint are claims of other boards: untried, or with the time measured here.",
    .max_pos = 1,
    .opts = opts,
    .run = run_show,
    .name = "show",
};
