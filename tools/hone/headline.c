/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/headline.h"
#include "platform/base/log.h"
#include "tools/hone/table.h"
#include <string.h>

enum { LEAD_COLUMNS = 20 }; /* a longer lead is a part of the text, which is indented as the lead is */

/* The stored texts may come from anywhere. */
static void print_line(const char *lead, struct buf *b)
{
	size_t blanks = strspn(lead, " "), width = log_width(lead);
	char indent[LEAD_COLUMNS + 1];
	struct buf whole = {0};
	if (b->p)
		log_one_line(b->p);
	if (width > LEAD_COLUMNS) {
		buf_printf(&whole, "%s%s", lead + blanks, buf_str(b));
		snprintf(indent, sizeof indent, "%.*s", (int)blanks, lead);
		table_words(indent, strlen(indent), buf_str(&whole));
	} else {
		table_words(lead, width, buf_str(b));
	}
	buf_free(&whole);
	buf_free(b);
}

void headline_print(const char *lead, const struct faster *f, const char *than,
		    const struct disturbance *machine)
{
	static struct disturbance said; /* how the lines before it were disturbed */
	struct buf b = {0};
	if (!f->rounds)
		return;
	bool same = machine && disturbed(machine) && machine->share_pct == said.share_pct &&
		    machine->others_pct == said.others_pct && !strcmp(machine->clock, said.clock);
	faster_words(f, than, same ? NULL : machine, &b);
	buf_puts(&b, same ? "; also disturbed (as above)" : "");
	if (machine)
		said = *machine;
	print_line(lead, &b);
}

void headline_medians(bool misled)
{
	if (misled)
		table_say("  the times of the whole network are medians of all rounds; the comparison is "
			  "round by round, which other load disturbs less: believe the comparison");
}

void headline_moments(const struct gain *g, double median_ms)
{
	char then[24], now[24];
	double ratio = median_ms / g->now_ms;
	if (!(ratio > GAIN_APART || ratio < 1 / GAIN_APART))
		return;
	table_say(
	    "  its median was %s when tuning measured it, and is %s now: each is of its own moment, and "
	    "other "
	    "load, heat or the clock made the machine slower in one of them; the comparison with default "
	    "schedules is round by round, which that disturbs less",
	    table_ms(g->now_ms, then), table_ms(median_ms, now));
}

json_t *headline_json(const struct faster *f, const struct disturbance *machine)
{
	struct buf why = {0};
	if (!f->rounds)
		return json_null();
	if (machine)
		disturbance_words(machine, &why);
	json_t *o =
	    json_pack("{so so so si sb sb so}", "ratio", json_num(f->ratio), "low", json_num(f->low), "high",
		      json_num(f->high), "rounds", f->rounds, "significant", faster_significant(f),
		      "few_rounds", f->few, "disturbed", why.n ? json_text(buf_str(&why)) : json_null());
	buf_free(&why);
	return o;
}

void headline_gain(const char *lead, const struct gain *g)
{
	struct buf b = {0};
	gain_words(g, &b);
	print_line(lead, &b);
}

json_t *headline_gain_json(const struct gain *g)
{
	json_t *o = headline_json(&g->faster, &g->machine);
	json_object_set_new(o, "model", json_text(g->model));
	json_object_set_new(o, "device", json_text(g->device[0] ? g->device : "cpu"));
	json_object_set_new(o, "threads", json_integer(g->threads));
	json_object_set_new(o, "level", json_text(level_name(g->level)));
	json_object_set_new(o, "shapes", g->shapes[0] ? json_text(g->shapes) : json_null());
	json_object_set_new(o, "default_ms", json_num(g->default_ms));
	json_object_set_new(o, "now_ms", json_num(g->now_ms));
	json_object_set_new(o, "date", json_text(g->date));
	struct buf words = {0};
	gain_words(g, &words);
	json_object_set_new(o, "words", json_text(buf_str(&words)));
	buf_free(&words);
	return o;
}
