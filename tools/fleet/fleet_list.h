/* SPDX-License-Identifier: Apache-2.0 */
/* What the server shows of its database: lists of rows, a screen of them at a time. A list is one value, from
 * which the page makes a table (tools/fleet/fleet_page.c) and the API an array (tools/fleet/fleet_api.c); to
 * add one: a row of the table in tools/fleet/fleet_list.c and its route.
 *
 * What a table's columns hold came from strangers: whoever prints it escapes it. Statements touch a bounded
 * number of rows, or as many as there are boards. */
#ifndef TOOLS_FLEET_LIST_H
#define TOOLS_FLEET_LIST_H

#include "tools/fleet/fleet_store.h"

enum {
	LIST_ROWS = 50,
	LIST_PAGES = 100000,
	LIST_FILTERS = 3,
	LIST_FILTER = 80, /* bytes of one, with the NUL */
};

enum cell {
	CELL_TEXT,
	CELL_ID, /* hex digits */
	CELL_CLASS,
	CELL_BOARD, /* id of one, or what a stranger gave as such */
	CELL_INT,
	CELL_SERIAL,  /* without commas */
	CELL_TIME,    /* seconds since 1970; 0: never */
	CELL_TIME_US, /* microseconds */
	CELL_NS,      /* 0: not known */
	CELL_RATIO,   /* in hundredths; 0: not known */
	CELL_PCT,     /* < 0: not known */
	CELL_CHANNEL,
};

struct list_col {
	const char *name; /* in JSON */
	const char *head; /* of a table; NULL: not in it */
	enum cell kind;
};

struct fleet_list {
	const char *name;
	const char *filter[LIST_FILTERS]; /* names of the parameters $1, ...; all texts; "": no such filter */
	const char *rows;                 /* statement; its last two parameters are LIMIT and OFFSET */
	const char *count;                /* how many there are in all */
	const struct list_col *col;       /* ends with name NULL */
	const char *empty;                /* what is said where there are none: what to do next */
};

extern const struct fleet_list list_boards, list_classes, list_channels, list_kernels, list_models,
    list_words, list_rejects, list_reasons, list_log, list_revoked;

/* A screen of a list. filter: LIST_FILTERS texts. page: from 1 on; one that is too high is the last. */
struct list_view {
	const struct fleet_list *list;
	char filter[LIST_FILTERS][LIST_FILTER];
	int in_path; /* 1: the first filter is an id of the path */
	int64_t page, pages, total;
	int most; /* rows; 0: LIST_ROWS */
};
enum { LIST_ID = 33 };
/* The id in a path: the first part that is 32 lower-case hex digits. E_NOTFOUND: none is. */
int path_id(const char *path, char out[LIST_ID]) MUST_CHECK;
/* What a request asks for. E_NOTFOUND, E_USAGE. */
int list_ask(const struct fleet_list *l, const char *path, const char *query, int in_path,
	     struct list_view *v) MUST_CHECK;
/* fn < 0 ends it. Fills page, pages and total. Returns the number of rows. */
int list_read(struct db_conn *c, struct list_view *v, db_row_fn *fn, void *ctx) MUST_CHECK;

#endif
