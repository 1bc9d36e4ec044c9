/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_list.h"
#include "tools/fleet/fleet_form.h"
#include <string.h>

#define COLS (const struct list_col[])
#define STATE                                                                                                \
	"CASE WHEN revoked_s <> 0 THEN 'revoked' WHEN struck <> 0 THEN 'struck out' WHEN batches = 0 THEN "  \
	"'silent' ELSE 'good' END"
#define BOARDS                                                                                               \
	"FROM boards WHERE ($1 = '' OR class = $1) AND ($2 = '' OR $2 = " STATE                              \
	") AND ($3 = '' OR substr(id, 1, length($3)) = $3 OR substr(name, 1, length($3)) = $3)"

const struct fleet_list list_boards = {
    .name = "boards",
    .filter = {"class", "state", "find"},
    .rows = "SELECT id, name, class, label, " STATE ", batches, records, sent_bytes, CAST((SELECT "
	    "COALESCE(SUM(n), 0) FROM left_out WHERE left_out.board = boards.id) AS BIGINT), CASE WHEN words "
	    "> 0 THEN "
	    "good * 100 / words ELSE -1 END, enrolled_s, last_s, why " BOARDS
	    " ORDER BY last_s DESC, id LIMIT $4 OFFSET $5",
    .count = "SELECT COUNT(*) " BOARDS,
    .col = COLS{{"id", "Board", CELL_BOARD},
		{"name", "Name", CELL_TEXT},
		{"class", "Class", CELL_CLASS},
		{"label", "Machine", CELL_TEXT},
		{"state", "State", CELL_TEXT},
		{"batches", "Batches", CELL_INT},
		{"records", "Records", CELL_INT},
		{"day_bytes", "Bytes, last day", CELL_INT},
		{"left_out", "Left out", CELL_INT},
		{"score_pct", "Score", CELL_PCT},
		{"enrolled_s", NULL, CELL_TIME},
		{"last_s", "Last batch", CELL_TIME},
		{"why", "Why", CELL_TEXT},
		{NULL}},
    .empty = "No such board. To join, a board needs a token, which `hone-fleet token` makes.",
};

#define ON(channel)                                                                                          \
	"(SELECT COUNT(*) FROM shown s WHERE s.class = b.class AND s.channel = " channel                     \
	" AND s.type = 1 AND s.now = 1)"

/* A class has the label that most of its boards use, so one board cannot name it for all. */
const struct fleet_list list_classes = {
    .name = "classes",
    .rows = "SELECT b.class, (SELECT label FROM boards l WHERE l.class = b.class GROUP BY label ORDER BY "
	    "COUNT(*) DESC, label LIMIT 1), b.n, b.bad, (SELECT COUNT(*) FROM kernels k WHERE k.class = "
	    "b.class AND k.type = 1), " ON("0") ", " ON("1") ", " ON(
		"2") ", b.last_s FROM (SELECT class, "
		     "COUNT(*) AS n, COUNT(CASE WHEN revoked_s <> 0 OR struck <> 0 THEN 1 END) AS bad, "
		     "MAX(last_s) AS "
		     "last_s FROM boards WHERE class <> '' AND ($1 = '' OR class = $1) GROUP BY class ORDER "
		     "BY 2 DESC, "
		     "1 LIMIT $2 OFFSET $3) b ORDER BY b.n DESC, b.class",
    .filter = {"class"},
    .count = "SELECT COUNT(DISTINCT class) FROM boards WHERE class <> '' AND ($1 = '' OR class = $1)",
    .col = COLS{{"class", "Class", CELL_CLASS},
		{"label", "Machine", CELL_TEXT},
		{"boards", "Boards", CELL_INT},
		{"bad_boards", "Not believed", CELL_INT},
		{"kernels", "Kernels", CELL_INT},
		{"canary", "canary", CELL_INT},
		{"early", "early", CELL_INT},
		{"all", "all", CELL_INT},
		{"last_s", "Last batch", CELL_TIME},
		{NULL}},
    .empty =
	"No board has sent records yet. Join boards with `hone-fleet token` and set `upload = yes` in [sync] "
	"of their honed.conf.",
};

#define NEWEST                                                                                               \
	"FROM snapshots s WHERE class = $1 AND serial = (SELECT MAX(serial) FROM snapshots t WHERE t.class " \
	"= "                                                                                                 \
	"s.class AND t.channel = s.channel)"

const struct fleet_list list_channels = {
    .name = "channels",
    .filter = {"class"},
    .rows = "SELECT channel, serial, records, made_s, expires_s, sent " NEWEST
	    " ORDER BY channel LIMIT $2 OFFSET $3",
    .count = "SELECT COUNT(*) " NEWEST,
    .col = COLS{{"channel", "Channel", CELL_CHANNEL},
		{"serial", "Serial", CELL_SERIAL},
		{"records", "Records", CELL_INT},
		{"made_s", "Made", CELL_TIME},
		{"expires_s", "Expires", CELL_TIME},
		{"sent", NULL, CELL_INT},
		{NULL}},
    .empty = "Nothing is published for this class yet. A round does so once enough boards agree.",
};

#define ON_CHANNEL(a, channel)                                                                               \
	" LEFT JOIN shown " a " ON " a ".class = k.class AND " a ".channel = " channel " AND " a             \
	".type = 1 AND " a ".key = k.key AND " a ".now = 1"
/* Boards that report the same record of a kernel, of those that are believed; NULL: none. */
#define REPORTS                                                                                              \
	"(SELECT COUNT(*) FROM words w JOIN boards b ON b.id = w.board WHERE w.class = $1 AND w.type = 1 "   \
	"AND w.key = q.key AND w.failed = 0 AND b.revoked_s = 0 AND b.struck = 0 GROUP BY w.cand ORDER BY "  \
	"COUNT(*) DESC LIMIT 1)"
#define FAILURES                                                                                             \
	"EXISTS (SELECT 1 FROM words w WHERE w.class = $1 AND w.type = 1 AND w.key = q.key AND w.failed "    \
	"<> 0)"
#define OF_ANY(column) "COALESCE(a." column ", e." column ", c." column ", 0)"

const struct fleet_list list_kernels = {
    .name = "kernels",
    .filter = {"class"},
    .rows =
	"SELECT q.key, q.label, q.device, q.threads, q.before_ns, q.canary, q.early, q.widest, q.speedup, "
	"q.boards, CASE WHEN q.widest > 0 THEN '' WHEN " REPORTS " = 1 THEN '1 board' WHEN " REPORTS
	" > 1 THEN CAST(" REPORTS " AS TEXT) || ' boards' WHEN " FAILURES
	" THEN 'works nowhere' ELSE 'not tuned' END, q.record FROM (SELECT k.key AS key, k.label AS label, "
	"k.device AS device, k.threads AS threads, k.before_ns AS before_ns, COALESCE(c.median_ns, 0) AS "
	"canary, COALESCE(e.median_ns, 0) AS early, COALESCE(a.median_ns, 0) AS widest, CASE WHEN "
	"k.before_ns > 0 AND " OF_ANY("median_ns") " > 0 THEN k.before_ns * 100 / " OF_ANY(
	    "median_ns") " ELSE 0 END AS speedup, " OF_ANY("boards") " AS boards, COALESCE(a.cand, e.cand, "
								     "c.cand, '') AS record FROM kernels "
								     "k" ON_CHANNEL("c", "0")
									 ON_CHANNEL("e", "1") ON_CHANNEL(
									     "a",
									     "2") " WHERE k.class = $1 AND "
										  "k.type = 1 ORDER BY 9 "
										  "DESC, k.label, k.key "
										  "LIMIT $2 OFFSET $3) q "
										  "ORDER BY "
										  "q.speedup DESC, q.label, "
										  "q.key",
    .count = "SELECT COUNT(*) FROM kernels WHERE class = $1 AND type = 1",
    .col = COLS{{"key", NULL, CELL_ID},
		{"label", "Kernel", CELL_TEXT},
		{"device", "Device", CELL_TEXT},
		{"threads", "Threads", CELL_INT},
		{"default_ns", "Default", CELL_NS},
		{"canary_ns", "canary", CELL_NS},
		{"early_ns", "early", CELL_NS},
		{"all_ns", "all", CELL_NS},
		{"speedup", "Speed-up", CELL_RATIO},
		{"boards", "Boards agree", CELL_INT},
		{"waits", "Reported by", CELL_TEXT},
		{"record", "Record", CELL_ID},
		{NULL}},
    .empty = "No kernel of this class is known yet. The next round reads what boards have sent.",
};

const struct fleet_list list_models = {
    .name = "models",
    .filter = {"class"},
    .rows = "SELECT key, before_ns, after_ns, CASE WHEN after_ns > 0 THEN before_ns * 100 / after_ns ELSE 0 "
	    "END, boards, since_s FROM kernels WHERE class = $1 AND type = 5 ORDER BY 4 DESC, key LIMIT $2 "
	    "OFFSET $3",
    .count = "SELECT COUNT(*) FROM kernels WHERE class = $1 AND type = 5",
    .col = COLS{{"model", "Model", CELL_ID},
		{"first_ns", "At first", CELL_NS},
		{"best_ns", "Tuned", CELL_NS},
		{"speedup", "Speed-up", CELL_RATIO},
		{"boards", "Boards", CELL_INT},
		{"since_s", "Known since", CELL_TIME},
		{NULL}},
    .empty = "No board has sent times of a whole model.",
};

const struct fleet_list list_words = {
    .name = "words",
    .filter = {"board"},
    .rows = "SELECT w.key, w.class, COALESCE(k.label, ''), w.cand, CASE WHEN w.failed <> 0 THEN 'does not "
	    "work' WHEN w.type = 2 THEN 'choice' ELSE 'works' END, w.median_ns, w.said_s FROM words w LEFT "
	    "JOIN kernels k ON k.class = w.class AND k.type = w.type AND k.key = w.key WHERE w.board = $1 "
	    "ORDER BY w.said_s DESC, w.key, w.cand LIMIT $2 OFFSET $3",
    .count = "SELECT COUNT(*) FROM words WHERE board = $1",
    .col = COLS{{"key", NULL, CELL_ID},
		{"class", NULL, CELL_CLASS},
		{"label", "Kernel", CELL_TEXT},
		{"record", "Record", CELL_ID},
		{"says", "Says", CELL_TEXT},
		{"median_ns", "Median", CELL_NS},
		{"said_s", "When", CELL_TIME},
		{NULL}},
    .empty = "This board has sent no valid record yet. The next round reads what boards have sent.",
};

#define REJECTS "FROM rejects WHERE ($1 = '' OR what = $1) AND ($2 = '' OR who = $2)"

const struct fleet_list list_rejects = {
    .name = "rejects",
    .filter = {"what", "who"},
    .rows = "SELECT at_us, what, who, COALESCE((SELECT name FROM boards WHERE boards.id = rejects.who), ''), "
	    "peer, why " REJECTS " ORDER BY at_us DESC, id DESC LIMIT $3 OFFSET $4",
    .count = "SELECT COUNT(*) " REJECTS,
    .col = COLS{{"at_us", "When", CELL_TIME_US},
		{"what", "What", CELL_TEXT},
		{"who", "Who", CELL_BOARD},
		{"name", "Name", CELL_TEXT},
		{"peer", "From", CELL_TEXT},
		{"why", "Why", CELL_TEXT},
		{NULL}},
    .empty = "Nothing was refused.",
};

/* Counts of all time; the first names are refusals (enum store_count). */
const struct fleet_list list_reasons = {
    .name = "counts",
    .rows = "SELECT name, n FROM counts ORDER BY n DESC, name LIMIT $1 OFFSET $2",
    .count = "SELECT COUNT(*) FROM counts",
    .col = COLS{{"name", "What", CELL_TEXT}, {"n", "Times", CELL_INT}, {NULL}},
    .empty = "Nothing was counted yet.",
};

const struct fleet_list list_log = {
    .name = "log",
    .rows = "SELECT at_us, who, what, 'done' AS came FROM admin UNION ALL SELECT at_us, peer, why, 'refused' "
	    "FROM rejects WHERE what = 'admin' ORDER BY 1 DESC, 3 LIMIT $1 OFFSET $2",
    .count = "SELECT (SELECT COUNT(*) FROM admin) + (SELECT COUNT(*) FROM rejects WHERE what = 'admin')",
    .col = COLS{{"at_us", "When", CELL_TIME_US},
		{"who", "Who", CELL_TEXT},
		{"what", "What", CELL_TEXT},
		{"outcome", "Outcome", CELL_TEXT},
		{NULL}},
    .empty = "No orders yet. An order needs the admin token, which `hone-fleet init` showed.",
};

const struct fleet_list list_revoked = {
    .name = "revoked",
    .rows = "SELECT hash, why, at_s FROM revoked ORDER BY at_s DESC, hash LIMIT $1 OFFSET $2",
    .count = "SELECT COUNT(*) FROM revoked",
    .col =
	COLS{{"record", "Record", CELL_ID}, {"why", "Why", CELL_TEXT}, {"at_s", "Since", CELL_TIME}, {NULL}},
    .empty = "No record is revoked.",
};

static int on_total(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	*(int64_t *)ctx = col[0].i;
	return E_OK;
}

int list_read(struct db_conn *c, struct list_view *v, db_row_fn *fn, void *ctx)
{
	struct db_value param[LIST_FILTERS + 2];
	const int most = v->most ? v->most : LIST_ROWS;
	int n = 0;
	for (; n < LIST_FILTERS && v->list->filter[n]; n++)
		param[n] = DB_T(v->filter[n]);
	v->total = 0;
	int rc = store_exec(c, v->list->count, param, n, on_total, &v->total);
	if (rc < 0)
		return rc;
	v->pages = v->total > 0 ? (v->total + most - 1) / most : 1;
	v->pages = v->pages < LIST_PAGES ? v->pages : LIST_PAGES;
	v->page = v->page < 1 ? 1 : v->page > v->pages ? v->pages : v->page;
	param[n] = DB_I(most);
	param[n + 1] = DB_I((v->page - 1) * most);
	return store_exec(c, v->list->rows, param, n + 2, fn, ctx);
}

int path_id(const char *path, char out[LIST_ID])
{
	static const char hex[] = "0123456789abcdef";
	*out = 0;
	for (const char *p = path; (p = strchr(p, '/')) != NULL;)
		if (strspn(++p, hex) == LIST_ID - 1 && (!p[LIST_ID - 1] || p[LIST_ID - 1] == '/')) {
			memcpy(out, p, LIST_ID - 1);
			out[LIST_ID - 1] = 0;
			return E_OK;
		}
	return fail(E_NOTFOUND, "missing id in the path: 32 lower-case hex digits");
}

int list_ask(const struct fleet_list *l, const char *path, const char *query, int in_path,
	     struct list_view *v)
{
	*v = (struct list_view){.list = l, .in_path = in_path};
	int rc = in_path ? path_id(path, v->filter[0]) : E_OK;
	if (rc >= 0)
		rc = form_page(query, LIST_PAGES, &v->page);
	for (int i = in_path; i < LIST_FILTERS && l->filter[i] && rc >= 0; i++)
		rc = form_get(query, strlen(query), l->filter[i], v->filter[i], LIST_FILTER);
	return rc < 0 ? rc : E_OK;
}
