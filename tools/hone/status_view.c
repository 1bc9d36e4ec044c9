/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/status_view.h"
#include "kernels/task/level.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include "tools/hone/daemon.h"
#include "tools/hone/synced.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Prints a line on standard output, without control characters. */
static void say(const char *what, struct buf *b)
{
	if (b->p)
		log_one_line(b->p);
	if (b->n)
		table_words(what, 11, buf_str(b));
	buf_free(b);
}

/* rough: with a ~ */
static void cell_ms(struct table *t, double ms, bool rough)
{
	if (ms > 0)
		table_cell(t, "%s%.3f", rough ? "~" : "", ms);
	else
		table_cell(t, "-");
}

/* What tuning has gained since the time before was measured. */
static void cell_gain(struct table *t, double before, double now, bool rough)
{
	if (before > 0 && now > 0 && !rough)
		table_cell(t, "%.*fx", before / now < 1e4 ? 2 : 0, before / now);
	else
		table_cell(t, "-");
}

/* Of a model, a job or a gain. An older honed names no device. */
static const char *device_of(const json_t *o)
{
	return daemon_text(o, "device", "cpu");
}

static bool is_on_processor(const json_t *o)
{
	return !strcmp(device_of(o), "cpu");
}

static bool all_on_processor(const json_t *list)
{
	const json_t *o;
	size_t k;
	json_array_foreach(list, k, o) if (!is_on_processor(o)) return false;
	return true;
}

/* Whether rows name their device, the processor too: honed tunes on another one, or did. */
static bool names_devices(const json_t *s)
{
	return !all_on_processor(json_object_get(s, "models")) ||
	       !all_on_processor(json_object_get(s, "jobs")) ||
	       !all_on_processor(json_object_get(s, "gains"));
}

/* A line for each network that the cache has tuned kernels for. */
static void gain_lines(const json_t *gains, bool devices)
{
	const json_t *g;
	size_t i;
	json_array_foreach(gains, i, g)
	{
		struct buf b = {0};
		double threads = daemon_num(g, "threads", 1);
		const char *level = daemon_text(g, "level", "fp32"), *shapes = daemon_text(g, "shapes", "");
		buf_puts(&b, daemon_text(g, "model", "?"));
		if (!strcmp(shapes, "?"))
			buf_puts(&b, ", of given shapes");
		else if (*shapes)
			buf_printf(&b, ", shape%s %s", strchr(shapes, ' ') ? "s" : "", shapes);
		if (devices)
			buf_printf(&b, ", %s", device_of(g));
		if (is_on_processor(g))
			buf_printf(&b, ", %.0f thread%s", threads, plural_s((int64_t)threads));
		if (strcmp(level, level_name(LEVEL_FP32)))
			buf_printf(&b, ", level %s", level);
		buf_printf(&b, ": %s", daemon_text(g, "words", "?"));
		say("tuned", &b);
	}
}

static void next_of(const json_t *m, struct buf *b)
{
	double missing = daemon_num(m, "missing", 0), promise = daemon_num(m, "promise", -1);
	if (*daemon_text(m, "error", ""))
		buf_puts(b, "see below");
	else if (missing > 0)
		buf_printf(b, "%.0f kernel%s not made yet", missing, plural_s((int64_t)missing));
	else if (promise > 0.005)
		buf_printf(b, "%.0f %% less time expected", 100 * promise);
	if (daemon_num(m, "next_s", 0) > 0) {
		buf_puts(b, b->n ? "; in " : "in ");
		duration_words(daemon_num(m, "next_s", 0), b);
	}
}

/* Why a model failed or cannot be used: in lines of its own, because the table would cut it. */
static void error_line(const json_t *m, bool devices)
{
	struct buf b = {0};
	const char *error = daemon_text(m, "error", ""), *state = daemon_text(m, "state", "");
	bool ended = !strcmp(state, "refused") || !strcmp(state, "failed");
	if (*error)
		buf_printf(&b, "%s%s%s: %s", daemon_text(m, "name", "?"), devices ? " on " : "",
			   devices ? device_of(m) : "", error);
	if (daemon_flag(m, "lasting"))
		buf_puts(&b, "; honed tries again when the file has changed, or after " DAEMON_RELOAD);
	else if (*error && !strcmp(state, "refused"))
		buf_puts(&b, "; honed looks again when the file appears or changes");
	say(ended ? state : "last error", &b);
}

static void note_line(const json_t *m)
{
	struct buf b = {0};
	const char *note = daemon_text(m, "note", "");
	if (*note)
		buf_printf(&b, "%s on %s: %s", daemon_text(m, "name", "?"), device_of(m), note);
	say("note", &b);
}

static void models_table(const json_t *models, bool devices, bool color)
{
	static const char *const head[] = {"model", "device", "state", "first ms", "now ms", "gain", "next"};
	const int now_column = devices ? 4 : 3;
	struct table t = {.align = devices ? "llwrrrw" : "lwrrrw", .drop = devices ? "0001020" : "001020"};
	const json_t *m;
	size_t k;
	bool rough = false;
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		if (i != 1 || devices)
			table_cell(&t, "%s", head[i]);
	json_array_foreach(models, k, m)
	{
		struct buf next = {0};
		table_cell(&t, "%s", daemon_text(m, "name", "?"));
		if (devices)
			table_cell(&t, "%s", device_of(m));
		table_cell(&t, "%s", daemon_text(m, "state", "?"));
		bool is_rough = daemon_flag(m, "now_rough");
		rough |= is_rough;
		double before = daemon_num(m, "before_ms", 0), now = daemon_num(m, "now_ms", 0);
		cell_ms(&t, before, false);
		cell_ms(&t, now, is_rough);
		cell_gain(&t, before, now, is_rough);
		next_of(m, &next);
		table_cell(&t, "%s", buf_str(&next));
		buf_free(&next);
	}
	table_print(&t, color);
	if (rough && t.shown >> now_column & 1)
		table_say("~: not certain before the next undisturbed slice, and then gain is shown: no slice was "
			  "undisturbed yet, or since the last one other programs disturbed a slice that gained, "
			  "or it was cut short");
	json_array_foreach(models, k, m)
	{
		error_line(m, devices);
		note_line(m);
	}
}

static void gate_line(const json_t *g)
{
	struct buf b = {0};
	if (!json_is_object(g))
		return;
	buf_printf(&b, "%s", daemon_flag(g, "open") ? "open" : "closed");
	const char *why = daemon_text(g, "why", ""), *text = daemon_text(g, "words", "");
	if (*why && strcmp(why, "open") && strncmp(text, why, strlen(why)) != 0)
		buf_printf(&b, " (%s)", why);
	if (*text)
		buf_printf(&b, ": %s", text);
	double load = daemon_num(g, "load_pct", -1), temp = daemon_num(g, "temp_c", NAN);
	if (load >= 0 && !strstr(text, "others use"))
		buf_printf(&b, "; other processes use %.0f %%", load);
	if (isfinite(temp))
		buf_printf(&b, "; %.1f C in %s, %.1f C below its limit", temp, daemon_text(g, "zone", "?"),
			   daemon_num(g, "headroom_c", 0));
	if (daemon_flag(g, "throttled"))
		buf_puts(&b, "; throttled");
	say("gate", &b);
}

static void job_line(const json_t *j, bool devices)
{
	struct buf b = {0};
	double before = daemon_num(j, "before_ms", 0), now = daemon_num(j, "now_ms", 0);
	const char *lease = daemon_text(j, "lease", "none"), *label = daemon_text(j, "label", "");
	buf_printf(&b, "%.0f: %s, ", daemon_num(j, "job", 0), daemon_text(j, "model", "?"));
	if (devices)
		buf_printf(&b, "%s, ", device_of(j));
	buf_puts(&b, daemon_text(j, "state", "?"));
	if (strcmp(lease, "none"))
		buf_printf(&b, ", holds %s", lease);
	if (daemon_num(j, "ntasks", 0) > 0)
		buf_printf(&b, ", task %.0f of %.0f", daemon_num(j, "task", 0), daemon_num(j, "ntasks", 0));
	if (*label)
		buf_printf(&b, " (%s)", label);
	if (daemon_num(j, "trials", 0) > 0)
		buf_printf(&b, ", %.0f trial%s", daemon_num(j, "trials", 0),
			   plural_s((int64_t)daemon_num(j, "trials", 0)));
	if (before > 0 && now > 0)
		buf_printf(&b, ", kernels timed so far, in sum: %.3f -> %.3f ms", before, now);
	if (json_is_number(json_object_get(j, "left_s"))) {
		buf_puts(&b, ", ");
		duration_words(daemon_num(j, "left_s", 0), &b);
		buf_puts(&b, " left");
	}
	say("job", &b);
}

static void inhibit_line(const json_t *h)
{
	struct buf b = {0};
	const char *name = daemon_text(h, "name", ""); /* "": the inhibit is a file that honed.conf names */
	buf_printf(&b, "%s%s%s", name, *name ? ": " : "", daemon_text(h, "why", "?"));
	if (json_is_number(json_object_get(h, "left_s"))) {
		buf_puts(&b, " (for another ");
		duration_words(daemon_num(h, "left_s", 0), &b);
		buf_puts(&b, ")");
	}
	say("inhibit", &b);
}

static void flash_line(const json_t *f)
{
	struct buf b = {0};
	double limit = daemon_num(f, "limit_bytes", 0);
	if (!json_is_object(f))
		return;
	buf_printf(&b, "%.2f MiB today", daemon_num(f, "today_bytes", 0) / (1 << 20));
	if (limit > 0)
		buf_printf(&b, " of at most %.0f MiB a day", limit / (1 << 20));
	say("flash", &b);
}

static void sync_line(const json_t *s)
{
	struct buf b = {0};
	if (json_is_number(json_object_get(s, "next_s"))) {
		buf_puts(&b, "in ");
		duration_words(daemon_num(s, "next_s", 0), &b);
	}
	if (synced_failed(s))
		buf_printf(&b, "%sthe last run failed (hone sync says why)", b.n ? "; " : "");
	say("sync", &b);
}

void status_view(const json_t *s, bool color)
{
	const json_t *models = json_object_get(s, "models"), *x;
	struct buf verdict = {0}, warning = {0}, conf = {0}, more = {0};
	size_t i;
	bool devices = names_devices(s);
	buf_printf(&verdict, "%s", daemon_text(s, "verdict", "honed runs"));
	say("honed", &verdict);
	buf_puts(&warning, daemon_text(s, "warning", ""));
	say("warning", &warning);
	buf_puts(&conf, daemon_text(s, "conf_error", ""));
	say("conf", &conf);
	if (json_array_size(models))
		models_table(models, devices, color);
	if (daemon_num(s, "models_left", 0) > 0)
		buf_printf(&more, "and %.0f more", daemon_num(s, "models_left", 0));
	say("models", &more);
	gate_line(json_object_get(s, "gate"));
	json_array_foreach(json_object_get(s, "jobs"), i, x) job_line(x, devices);
	json_array_foreach(json_object_get(s, "inhibits"), i, x) inhibit_line(x);
	flash_line(json_object_get(s, "flash"));
	sync_line(json_object_get(s, "sync"));
	gain_lines(json_object_get(s, "gains"), devices); /* long: last, as --watch shows what fits */
}

void status_line(const json_t *s, struct buf *out)
{
	const json_t *g = json_object_get(s, "gate"), *m;
	bool devices = names_devices(s);
	size_t i;
	buf_printf(out, "gate %s", daemon_flag(g, "open") ? "open" : daemon_text(g, "why", "closed"));
	json_array_foreach(json_object_get(s, "models"), i, m)
	{
		double before = daemon_num(m, "before_ms", 0), now = daemon_num(m, "now_ms", 0);
		buf_printf(out, "; %s ", daemon_text(m, "name", "?"));
		if (devices)
			buf_printf(out, "on %s ", device_of(m));
		buf_puts(out, daemon_text(m, "state", "?"));
		if (before > 0 && now > 0)
			buf_printf(out, " %.3f -> %s%.3f ms", before, daemon_flag(m, "now_rough") ? "~" : "",
				   now);
	}
	if (out->p)
		log_one_line(out->p);
}
