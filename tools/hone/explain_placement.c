/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/explain_placement.h"

#include "agent/cache/lookup.h"
#include "kernels/library/library.h"
#include "platform/base/log.h"
#include "tools/hone/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKENDS = 1 + LIBRARY_MOST, NAME = 16 };

/* What a back end did with a task. */
struct alternative {
	bool tried;
	enum meas_status status;
	int64_t ns; /* fastest run; 0: not timed */
};

struct row {
	char label[96], winner[NAME];
	struct alternative by[BACKENDS]; /* in the order of `name` */
};

/* Back ends in the order in which they are met; the first is hone. */
struct names {
	int n;
	char name[BACKENDS][NAME];
};

static void backend_of(const char *cand, char out[NAME])
{
	if (!library_is_cand(cand)) {
		snprintf(out, NAME, "hone");
		return;
	}
	cand += strlen(LIBRARY_CAND);
	snprintf(out, NAME, "%.*s", (int)strcspn(cand, "/"), cand);
	log_plain(out);
}

static int index_of(struct names *all, const char *cand)
{
	char name[NAME];
	backend_of(cand, name);
	for (int i = 0; i < all->n; i++)
		if (!strcmp(all->name[i], name))
			return i;
	if (all->n == BACKENDS)
		return -1;
	memcpy(all->name[all->n], name, NAME);
	return all->n++;
}

static void take_log(const struct trials *l, struct names *all, struct row *r)
{
	for (int i = 0; i < l->n; i++) {
		const struct tried *t = &l->entry[i].t;
		int k = index_of(all, t->cand);
		struct alternative *a = k < 0 ? NULL : &r->by[k];
		bool timed = t->ns > 0 && (t->status == MEAS_OK || t->status == MEAS_ABORTED);
		if (!a || (a->ns > 0 && (!timed || a->ns <= t->ns)))
			continue;
		*a = (struct alternative){true, t->status, timed ? t->ns : 0};
	}
}

static void find_row(const struct placement_of *p, int i, struct names *all, struct trials *l, struct row *r)
{
	struct arena scratch = {0};
	struct rec rec;
	struct trials want = {.task = p->task[i].key,
			      .target_key = target_key(p->target),
			      .threads = p->threads,
			      .level = p->level};
	*r = (struct row){.winner = "-"};
	task_label(p->task[i].task, r->label);
	snprintf(want.device, sizeof want.device, "%s", target_device(p->target));
	if (trials_get(p->cache, trials_key(&want), l) >= 0)
		take_log(l, all, r);
	trials_free(l);
	if (cache_find_rec(p->cache, p->task[i].key, p->target, p->threads, p->level, REC_BEST, &scratch,
			   &rec) >= 0)
		backend_of(rec.cand, r->winner);
	arena_free(&scratch);
}

/* All rows; the caller frees them. NULL: no memory. */
static struct row *find_rows(const struct placement_of *p, struct names *all)
{
	struct row *rows = calloc((size_t)p->ntasks + 1, sizeof *rows);
	struct trials *l = malloc(sizeof *l);
	*all = (struct names){1, {"hone"}};
	for (int i = 0; rows && l && i < p->ntasks; i++)
		find_row(p, i, all, l, &rows[i]);
	free(l);
	return rows;
}

static void cell(struct table *t, const struct alternative *a)
{
	if (a->ns > 0)
		table_us(t, a->status == MEAS_ABORTED ? ">" : "", (double)a->ns);
	else
		table_cell(t, "%s",
			   !a->tried                 ? ""
			   : a->status == MEAS_BUILD ? "none"
						     : meas_status_name(a->status));
}

static int print_rows(const struct placement_of *p, const struct names *all, const struct row *rows,
		      bool color)
{
	char align[TABLE_COLS + 1] = "rlr", drop[TABLE_COLS + 1] = "001";
	struct table t = {.align = align, .drop = drop};
	int libraries = 0;
	memset(align + 3, 'r', (size_t)all->n);
	memset(drop + 3, '0', (size_t)all->n);
	align[3 + all->n] = 'l';
	drop[3 + all->n] = '0';
	table_cell(&t, "#");
	table_cell(&t, "task");
	table_cell(&t, "uses");
	for (int k = 0; k < all->n; k++)
		table_cell(&t, "%s us", all->name[k]);
	table_cell(&t, "runs");
	for (int i = 0; i < p->ntasks; i++) {
		table_cell(&t, "%d", i + 1);
		table_cell(&t, "%s", rows[i].label);
		table_cell(&t, "%d", p->task[i].uses);
		for (int k = 0; k < all->n; k++)
			cell(&t, &rows[i].by[k]);
		table_cell(&t, "%s", rows[i].winner);
		libraries += strcmp(rows[i].winner, "hone") != 0 && strcmp(rows[i].winner, "-") != 0;
	}
	table_print(&t, color);
	return libraries;
}

int explain_placement_words(const struct placement_of *p, bool color)
{
	struct names all;
	struct row *rows = find_rows(p, &all);
	int n = rows ? print_rows(p, &all, rows, color) : 0;
	free(rows);
	table_say(
	    "us: the fastest run of any kernel of a back end, alone; hone explain shows the median of the "
	    "one that runs");
	if (all.n < 2) {
		table_say("no library has been tried on these tasks; `hone tune MODEL --library all` lets "
			  "those that are "
			  "installed compete");
		return n;
	}
	table_say(">: it was slower than three times the best kernel, and was not timed to its end");
	table_say("none: the library computes no such layer; an empty cell: it was not tried");
	table_say("all of these compute in the processor's memory, in the layouts that the network has, so "
		  "that moving a "
		  "tensor from one to another costs nothing");
	return n;
}

json_t *explain_placement_json(const struct placement_of *p)
{
	struct names all;
	struct row *rows = find_rows(p, &all);
	json_t *list = json_array();
	for (int i = 0; rows && i < p->ntasks; i++) {
		json_t *alternatives = json_array();
		for (int k = 0; k < all.n; k++) {
			const struct alternative *a = &rows[i].by[k];
			if (a->tried)
				json_array_append_new(
				    alternatives,
				    json_pack("{s:s, s:o, s:s}", "backend", all.name[k], "us",
					      a->ns > 0 ? json_real((double)a->ns / 1e3) : json_null(),
					      "status", meas_status_name(a->status)));
		}
		json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:s, s:o}", "number", i + 1, "label",
						      rows[i].label, "uses", p->task[i].uses, "winner",
						      rows[i].winner, "alternatives", alternatives));
	}
	free(rows);
	return json_pack("{s:o}", "placement", list);
}
