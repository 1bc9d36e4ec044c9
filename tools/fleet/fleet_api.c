/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of the page as JSON: {"LIST": [{column: value, ...}, ...], "page", "pages", "total"}. Filters and
 * page are parameters of the query. configs/fleet/openapi.json describes them. */
#include "tools/fleet/fleet_admin.h"
#include "tools/fleet/fleet_data.h"
#include "tools/fleet/fleet_figures.h"
#include "agent/cache/json.h"

#include <stdio.h>
#include <string.h>

#define PLAIN_CACHE "public, max-age=3600"

static json_t *text_or_null(const struct db_value *v)
{
	return v->type == DB_TEXT && v->n ? json_text(v->p) : json_null();
}

static json_t *text(const struct db_value *v)
{
	return json_text(v->type == DB_TEXT ? v->p : "");
}

static json_t *whole(const struct db_value *v)
{
	return json_integer(v->i);
}

static json_t *known(const struct db_value *v)
{
	return v->i > 0 ? json_integer(v->i) : json_null();
}

static json_t *ratio(const struct db_value *v)
{
	return v->i > 0 ? json_real((double)v->i / 100) : json_null();
}

static json_t *percent(const struct db_value *v)
{
	return v->i >= 0 ? json_integer(v->i) : json_null();
}

static json_t *channel(const struct db_value *v)
{
	return json_string(v->i >= 0 && v->i < CHANNELS ? channel_names[v->i] : "");
}

static json_t *(*const cells[])(const struct db_value *v) = {
    [CELL_TEXT] = text, [CELL_ID] = text_or_null, [CELL_CLASS] = text_or_null, [CELL_BOARD] = text,
    [CELL_INT] = whole, [CELL_SERIAL] = whole,    [CELL_TIME] = known,         [CELL_TIME_US] = known,
    [CELL_NS] = known,  [CELL_RATIO] = ratio,     [CELL_PCT] = percent,        [CELL_CHANNEL] = channel,
};

struct rows {
	const struct fleet_list *list;
	json_t *array;
};

static int on_row(void *ctx, const struct db_value *col, int n)
{
	const struct rows *s = ctx;
	json_t *o = json_object();
	for (int i = 0; i < n && s->list->col[i].name; i++)
		if (json_object_set_new(o, s->list->col[i].name, cells[s->list->col[i].kind](&col[i])) < 0)
			break;
	return json_array_append_new(s->array, o) < 0 ? fail(E_NOMEM, "no memory") : E_OK;
}

static json_t *rows_of(struct db_conn *c, struct list_view *v, int *rc)
{
	struct rows s = {v->list, json_array()};
	*rc = list_read(c, v, on_row, &s);
	return s.array;
}

static void say_failed(struct fleet_reply *r, int rc)
{
	if (rc == E_USAGE || rc == E_NOTFOUND)
		fleet_say(r, rc == E_USAGE ? 400 : 404, "%s", err_text());
	else
		fleet_say_fault(r, rc);
}

static void say_list(struct db_conn *c, const struct fleet_request *q, const struct fleet_list *l,
		     int in_path, struct fleet_reply *r)
{
	struct list_view v;
	int rc = list_ask(l, q->path, q->query, in_path, &v);
	json_t *rows = rc >= 0 ? rows_of(c, &v, &rc) : NULL;
	if (rc < 0) {
		json_decref(rows);
		say_failed(r, rc);
		return;
	}
	fleet_say_json(r, 200,
		       json_pack("{s:o,s:I,s:I,s:I}", l->name, rows, "page", (json_int_t)v.page, "pages",
				 (json_int_t)v.pages, "total", (json_int_t)v.total));
}

#define LIST(fn, list, in_path)                                                                              \
	void fn(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)    \
	{                                                                                                    \
		(void)f;                                                                                     \
		say_list(c, q, &list, in_path, r);                                                           \
	}

LIST(api_boards, list_boards, 0)
LIST(api_classes, list_classes, 0)
LIST(api_kernels, list_kernels, 1)
LIST(api_models, list_models, 1)
LIST(api_words, list_words, 1)
LIST(api_rejects, list_rejects, 0)
LIST(api_log, list_log, 0)
LIST(api_revoked, list_revoked, 0)

/* Answers with one row of a list as an object, chosen by the id in the path. */
static void say_one(struct db_conn *c, const struct fleet_request *q, const struct fleet_list *l, int filter,
		    const struct fleet_list *more, struct fleet_reply *r)
{
	struct list_view v, w;
	json_t *rows = NULL, *also = NULL;
	int rc = list_ask(l, q->path, q->query, 1, &v);
	if (rc >= 0 && filter > 0) {
		memcpy(v.filter[filter], v.filter[0], LIST_FILTER);
		v.filter[0][0] = 0;
	}
	if (rc >= 0)
		rows = rows_of(c, &v, &rc);
	if (rc >= 0 && v.total == 0)
		rc = fail(E_NOTFOUND, "there is no entry with this id");
	if (rc >= 0 && more && (rc = list_ask(more, q->path, q->query, 1, &w)) >= 0)
		also = rows_of(c, &w, &rc);
	json_t *one = rc >= 0 ? json_incref(json_array_get(rows, 0)) : NULL;
	json_decref(rows);
	if (rc >= 0 && also)
		(void)json_object_set(one, more->name, also);
	json_decref(also);
	if (rc < 0)
		say_failed(r, rc);
	else
		fleet_say_json(r, 200, one);
}

void api_board(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	(void)f;
	say_one(c, q, &list_boards, 2, NULL, r);
}

void api_class(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	(void)f;
	say_one(c, q, &list_classes, 0, &list_channels, r);
}

void api_overview(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct figures g;
	(void)q;
	int rc = fleet_figures(f, c, &g);
	if (rc < 0)
		fleet_say_fault(r, rc);
	else
		fleet_say_json(r, 200, figures_json(&g));
}

/* Files. */

static void say_file(const char *p, const char *end, const char *type, struct fleet_reply *r)
{
	r->status = 200;
	r->type = type;
	r->cache = PLAIN_CACHE;
	buf_add(&r->body, p, (size_t)(end - p));
}

void fleet_openapi(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	(void)f, (void)c, (void)q;
	say_file(fleet_data_openapi, fleet_data_openapi_end, "application/json", r);
}

void page_style(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	(void)f, (void)c, (void)q;
	say_file(fleet_data_style, fleet_data_style_end, "text/css; charset=utf-8", r);
}
