/* SPDX-License-Identifier: Apache-2.0 */
/* The content of the operators' pages. */
#include "tools/fleet/fleet_page.h"
#include "tools/fleet/fleet_form.h"
#include "tools/hone/cmd.h"
#include "platform/base/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REFRESH_S = 60, SHORT = 5 /* rows of a list that is part of another page */ };

static const char *const channel_kinds[CHANNELS] = {"canary", "early", "all"};

static int on_row(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	html_row(ctx, col);
	return E_OK;
}

/* Writes the table of a list; path: of its other screens. */
static int put_list(struct page *p, struct list_view *v, const char *path, const char *hide)
{
	struct html_table t = {.v = v, .path = path, .hide = hide};
	int rc = list_read(p->c, v, on_row, &t);
	if (rc < 0)
		buf_free(&t.rows);
	else
		html_table(&t, &p->r->body);
	return rc;
}

/* Writes the first rows of a list, and a link to the whole list. */
static int put_short(struct page *p, const struct fleet_list *l, const char *filter, const char *path,
		     const char *hide)
{
	struct list_view v = {.list = l, .most = SHORT};
	struct html_table t = {.v = &v, .path = path, .hide = hide};
	snprintf(v.filter[0], sizeof v.filter[0], "%s", filter);
	int rc = list_read(p->c, &v, on_row, &t);
	if (rc < 0) {
		buf_free(&t.rows);
		return rc;
	}
	v.pages = 1; /* no links to other screens: the whole list has its own page */
	html_table(&t, &p->r->body);
	if (v.total > SHORT)
		buf_printf(&p->r->body, "<p><a href=\"%s\">All %" PRId64 "</a></p>\n", path, v.total);
	return E_OK;
}

static void put_head(struct page *p, const char *text)
{
	buf_printf(&p->r->body, "<h2>%s</h2>\n", text);
}

/* The first page. */

static void put_rollout(struct page *p, bool stopped)
{
	struct buf *b = &p->r->body;
	buf_printf(b, "<section class=\"rollout %s\"><div><h2>Rollout: %s</h2>\n<p>%s</p></div>\n",
		   stopped ? "stopped" : "going", stopped ? "stopped" : "running",
		   stopped ? "Channels early and all keep what they have, whatever boards say. Revoke what "
			     "was wrong before you continue."
			   : "Records that enough boards agree on go from canary to early to all.");
	if (stopped)
		page_order(p, "go-on", "Continue the rollout", NULL, NULL, false);
	else
		page_order(p, "stop", "Stop the rollout", NULL, NULL, false);
	buf_puts(b, "</section>\n");
}

/* `one` names a single thing, and the rest of it follows the plural's s: "record" and " taken". */
static void put_tile(struct buf *b, const char *one, const char *rest, int64_t n, const char *note)
{
	buf_printf(b, "<div class=\"tile\"><b>");
	html_count(n, b);
	buf_printf(b, "</b><span>%s%s%s</span><small>%s</small></div>\n", one, plural_s(n), rest, note);
}

static void put_tiles(struct page *p, const struct figures *g)
{
	char note[4][128];
	int64_t refused = 0;
	for (int i = 0; i < COUNT_REFUSALS; i++)
		refused += g->taken[i];
	snprintf(note[0], sizeof *note, "%" PRId64 " silent, %" PRId64 " struck out, %" PRId64 " revoked",
		 g->silent, g->struck, g->revoked);
	snprintf(note[1], sizeof *note, "in %" PRId64 " class%s", g->classes, g->classes == 1 ? "" : "es");
	snprintf(note[2], sizeof *note, "in %" PRId64 " batch%s, %" PRId64 " waiting; %.1f MiB today",
		 g->taken[COUNT_BATCHES], g->taken[COUNT_BATCHES] == 1 ? "" : "es", g->waiting,
		 (double)g->day_bytes / (1 << 20));
	snprintf(note[3], sizeof *note,
		 "%" PRId64 " with bad records; %" PRId64 " board%s over the daily limit, %" PRId64
		 " record%s left out",
		 g->taken[COUNT_BATCH], g->over, plural_s(g->over), g->left_out, plural_s(g->left_out));
	buf_puts(&p->r->body, "<section class=\"tiles\">");
	put_tile(&p->r->body, "board", "", g->boards, note[0]);
	put_tile(&p->r->body, "kernel", "", g->kernels, note[1]);
	put_tile(&p->r->body, "record", " taken", g->taken[COUNT_RECORDS], note[2]);
	put_tile(&p->r->body, "request", " refused", refused, note[3]);
	buf_puts(&p->r->body, "</section>\n");
}

static void put_speedups(struct page *p, const struct figures *g)
{
	char title[128];
	if (!g->sped) {
		buf_puts(&p->r->body,
			 "<figure class=\"chart\"><figcaption>Speed-ups of kernels</figcaption><p "
			 "class=\"empty\">Not known yet: boards must agree on a kernel, and one of them must "
			 "have sent its untuned time.</p></figure>\n");
		return;
	}
	snprintf(title, sizeof title, "Speed-ups of %" PRId64 " kernel%s on channel %s, %.2f× on average",
		 g->sped, plural_s(g->sped), channel_names[g->widest], g->mean);
	html_bars(title, figures_bars, g->speedups, FIGURES_BARS, &p->r->body);
}

static void put_charts(struct page *p, const struct figures *g)
{
	struct html_line boards = {.name = "boards", .kind = "all"}, on[CHANNELS];
	memcpy(boards.y, g->joined, sizeof boards.y);
	for (int i = 0; i < CHANNELS; i++) {
		on[i] = (struct html_line){.name = channel_names[i], .kind = channel_kinds[i]};
		memcpy(on[i].y, g->came[i], sizeof on[i].y);
	}
	buf_puts(&p->r->body, "<section class=\"charts\">");
	html_lines("Boards that joined", &boards, 1, g->start_s, g->step_s, &p->r->body);
	html_lines("Kernels that boards agree on, by channel", on, CHANNELS, g->start_s, g->step_s,
		   &p->r->body);
	put_speedups(p, g);
	buf_puts(&p->r->body, "</section>\n");
}

static int put_overview(struct page *p, const struct figures *g)
{
	struct list_view classes;
	int rc = list_ask(&list_classes, p->q->path, p->q->query, 0, &classes);
	if (rc < 0)
		return rc;
	put_rollout(p, g->stopped);
	put_tiles(p, g);
	put_charts(p, g);
	put_head(p, "Classes");
	rc = put_list(p, &classes, "/", NULL);
	if (rc < 0)
		return rc;
	put_head(p, "Last refusals");
	rc = put_short(p, &list_rejects, "", "/page/rejects", NULL);
	if (rc < 0)
		return rc;
	put_head(p, "Administration");
	return put_short(p, &list_log, "", "/page/log", NULL);
}

void page_overview(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct page p;
	struct figures g;
	if (page_open(&p, f, c, q, r) < 0)
		return;
	int rc = fleet_figures(f, c, &g);
	page_head(&p, "Fleet", "/", REFRESH_S);
	if (rc >= 0)
		rc = put_overview(&p, &g);
	if (rc < 0)
		page_failed(&p, rc);
	else
		page_foot(&p, 200);
}

/* A class. */

struct class_row {
	char label[160];
	int64_t boards, bad;
};

static int on_class(void *ctx, const struct db_value *col, int n)
{
	struct class_row *k = ctx;
	(void)n;
	snprintf(k->label, sizeof k->label, "%s", col[1].type == DB_TEXT ? col[1].p : "");
	k->boards = col[2].i;
	k->bad = col[3].i;
	return E_OK;
}

static int find_class(struct page *p, char cls[LIST_ID], struct class_row *k)
{
	struct list_view v = {.list = &list_classes};
	int rc = path_id(p->q->path, cls);
	if (rc < 0)
		return rc;
	memcpy(v.filter[0], cls, LIST_ID);
	rc = list_read(p->c, &v, on_class, k);
	return rc == 0 ? fail(E_NOTFOUND, "no board belongs to class %s", cls) : rc;
}

static void put_coverage(struct page *p, const struct figures *g)
{
	buf_puts(&p->r->body,
		 "<section class=\"charts\"><figure class=\"chart\"><figcaption>Kernels that boards "
		 "agree on</figcaption>\n");
	html_shares(channel_names, channel_kinds, g->on, CHANNELS, g->kernels, &p->r->body);
	buf_puts(&p->r->body, "</figure>\n");
	put_speedups(p, g);
	buf_puts(&p->r->body, "</section>\n");
}

/* Says when a kernel gets to a channel, as the table shows kernels that are on none. */
static void put_rules(struct page *p)
{
	const struct fleet_conf *c = &p->f->c;
	char stage[DURATION_TEXT], wait[64] = "";
	duration_print(c->stage_ns, stage);
	if (c->stage_ns)
		snprintf(wait, sizeof wait, ", after %s on the channel before", stage);
	buf_printf(
	    &p->r->body,
	    "<p>A record comes to channel canary when %d board%s report%s it, to early when %d and to all "
	    "when %d agree on it%s.</p>\n",
	    c->quorum[0], plural_s(c->quorum[0]), c->quorum[0] == 1 ? "s" : "", c->quorum[1], c->quorum[2],
	    wait);
}

static int put_class(struct page *p, const char *cls, const struct class_row *k)
{
	struct buf *b = &p->r->body;
	struct figures g;
	char path[96], boards[96];
	int rc = class_figures(p->c, cls, &g);
	if (rc < 0)
		return rc;
	snprintf(path, sizeof path, "/page/class/%s", cls);
	snprintf(boards, sizeof boards, "/page/boards?class=%s", cls);
	buf_printf(b, "<p class=\"lead\"><span class=\"id\">%s</span><br><a href=\"%s\">", cls, boards);
	html_count(k->boards, b);
	buf_printf(b, " board%s</a>, %" PRId64 " revoked or struck out</p>\n", plural_s(k->boards), k->bad);
	put_coverage(p, &g);
	put_head(p, "Channels");
	struct list_view channels = {.list = &list_channels}, models = {.list = &list_models}, kernels;
	memcpy(channels.filter[0], cls, LIST_ID);
	memcpy(models.filter[0], cls, LIST_ID);
	rc = put_list(p, &channels, path, NULL);
	if (rc >= 0) {
		buf_puts(b,
			 "<p>Withdrawing stops the rollout, and channels early and all go back to what they "
			 "had before.</p>\n");
		page_order(p, "withdraw", "Withdraw the last release", "class", cls, true);
		put_head(p, "Models");
		rc = put_list(p, &models, path, NULL);
	}
	if (rc >= 0)
		rc = list_ask(&list_kernels, p->q->path, p->q->query, 1, &kernels);
	if (rc < 0)
		return rc;
	put_head(p, "Kernels");
	put_rules(p);
	return put_list(p, &kernels, path, NULL);
}

void page_class(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct page p;
	struct class_row k = {{0}};
	char cls[LIST_ID];
	if (page_open(&p, f, c, q, r) < 0)
		return;
	int rc = find_class(&p, cls, &k);
	if (rc >= 0) {
		page_head(&p, k.label[0] ? k.label : "A class", NULL, 0);
		rc = put_class(&p, cls, &k);
	}
	if (rc < 0)
		page_failed(&p, rc);
	else
		page_foot(&p, 200);
}

/* A board. */

static void put_fact(struct buf *b, const char *name)
{
	buf_printf(b, "</dd><dt>%s</dt><dd>", name);
}

static void put_facts(struct page *p, const struct store_board *k)
{
	struct buf *b = &p->r->body;
	buf_printf(b, "<dl><dt>Id</dt><dd class=\"id\">%s", k->id);
	put_fact(b, "Name");
	html_stranger(k->name, b);
	put_fact(b, "Machine");
	html_stranger(k->label, b);
	put_fact(b, "Class");
	if (strlen(k->cls) == 32)
		buf_printf(b, "<a class=\"id\" href=\"/page/class/%s\">%s</a>", k->cls, k->cls);
	put_fact(b, "Joined");
	html_time(k->enrolled_s, b);
	put_fact(b, "Last batch");
	html_time(k->last_s, b);
	put_fact(b, "Sent");
	html_count(k->records, b);
	buf_printf(b, " record%s in ", plural_s(k->records));
	html_count(k->batches, b);
	buf_puts(b, k->batches == 1 ? " batch" : " batches");
	put_fact(b, "Score");
	if (k->words > 0)
		buf_printf(
		    b, "%" PRId64 " of %" PRId64 " word%s that could be compared agree%s with other boards",
		    k->good, k->words, plural_s(k->words), k->words == 1 ? "s" : "");
	else
		buf_puts(b, "none of its words could be compared yet");
	put_fact(b, "State");
	buf_puts(b, k->revoked_s ? "revoked: " : k->struck ? "struck out: its words do not count" : "good");
	html_stranger(k->why, b);
	buf_puts(b, "</dd></dl>\n");
}

static int put_board(struct page *p, const struct store_board *k)
{
	struct list_view words, rejects = {.list = &list_rejects};
	char path[96];
	int rc = list_ask(&list_words, p->q->path, p->q->query, 1, &words);
	if (rc < 0)
		return rc;
	snprintf(path, sizeof path, "/page/board/%s", k->id);
	put_facts(p, k);
	if (k->revoked_s)
		page_order(p, "unrevoke", "Undo the revocation", "board", k->id, false);
	else
		page_order(p, "revoke", "Revoke this board", "board", k->id, true);
	put_head(p, "Words of this board");
	rc = put_list(p, &words, path, NULL);
	if (rc < 0)
		return rc;
	put_head(p, "Its refused requests");
	snprintf(rejects.filter[1], sizeof rejects.filter[1], "%s", k->id);
	rejects.most = SHORT;
	return put_list(p, &rejects, "/page/rejects", "who");
}

void page_board(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct page p;
	struct store_board k;
	char id[LIST_ID];
	if (page_open(&p, f, c, q, r) < 0)
		return;
	int rc = path_id(q->path, id);
	if (rc >= 0)
		rc = store_board(c, id, &k);
	if (rc >= 0) {
		page_head(&p, k.name[0] ? k.name : "A board", "/page/boards", 0);
		rc = put_board(&p, &k);
	}
	if (rc < 0)
		page_failed(&p, rc);
	else
		page_foot(&p, 200);
}

/* Lists. */

static void put_choice(struct buf *b, const char *value, const char *now)
{
	buf_printf(b, "<option%s>%s</option>", !strcmp(value, now) ? " selected" : "", value);
}

static void before_boards(struct page *p, const struct list_view *v)
{
	static const char *const states[] = {"good", "silent", "struck out", "revoked"};
	struct buf *b = &p->r->body;
	buf_puts(b,
		 "<form class=\"filter\"><label>Begins with <input name=\"find\" maxlength=\"64\" value=\"");
	html_text(v->filter[2], b);
	buf_puts(b, "\" placeholder=\"id or name\"></label><label>State <select name=\"state\"><option "
		    "value=\"\">any</option>");
	for (size_t i = 0; i < sizeof states / sizeof *states; i++)
		put_choice(b, states[i], v->filter[1]);
	buf_puts(b, "</select></label><label>Class <input name=\"class\" maxlength=\"32\" value=\"");
	html_text(v->filter[0], b);
	buf_puts(b, "\"></label><button>Show</button></form>\n");
}

static void before_rejects(struct page *p, const struct list_view *v)
{
	struct buf *b = &p->r->body;
	char every[DURATION_TEXT];
	duration_print(p->f->c.every_ns, every);
	buf_printf(
	    b,
	    "<p>A refused request is listed within a second; what is wrong inside of a batch, once the "
	    "next round has read it, every %s.</p>\n",
	    every);
	buf_puts(b,
		 "<form class=\"filter\"><label>What <select name=\"what\"><option value=\"\">any</option>");
	for (int i = 0; i < COUNT_REFUSALS; i++)
		put_choice(b, store_counts[i], v->filter[0]);
	buf_puts(b, "</select></label><label>Who <input name=\"who\" maxlength=\"64\" value=\"");
	html_text(v->filter[1], b);
	buf_puts(b, "\"></label><button>Show</button></form>\n");
}

static void before_revoked(struct page *p, const struct list_view *v)
{
	(void)v;
	buf_puts(&p->r->body,
		 "<p>Boards drop a revoked record with their next snapshot. The page of a class or "
		 "a board shows the ids of records.</p>\n");
	page_order(p, "revoke", "Revoke the record", "record", NULL, true);
	page_order(p, "unrevoke", "Undo the revocation", "record", NULL, false);
}

static void before_log(struct page *p, const struct list_view *v)
{
	(void)v;
	buf_puts(&p->r->body, "<p>Every order, and every attempt without a good token.</p>\n");
}

static void answer_list(struct page *p, const struct fleet_list *l, const char *title,
			void (*before)(struct page *p, const struct list_view *v))
{
	struct list_view v;
	int rc = list_ask(l, p->q->path, p->q->query, 0, &v);
	page_head(p, title, p->q->path, 0);
	if (rc >= 0) {
		before(p, &v);
		rc = put_list(p, &v, p->q->path, NULL);
	}
	if (rc < 0)
		page_failed(p, rc);
	else
		page_foot(p, 200);
}

#define LIST_PAGE(fn, list, title, before)                                                                   \
	void fn(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)    \
	{                                                                                                    \
		struct page p;                                                                               \
		if (page_open(&p, f, c, q, r) >= 0)                                                          \
			answer_list(&p, &list, title, before);                                               \
	}

LIST_PAGE(page_boards, list_boards, "Boards", before_boards)
LIST_PAGE(page_rejects, list_rejects, "Refused", before_rejects)
LIST_PAGE(page_records, list_revoked, "Revoked records", before_revoked)
LIST_PAGE(page_log, list_log, "Log", before_log)
