/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of rows from the database, read one screen at a time. The page shows a list as a table
 * (tools/fleet/fleet_page.c), and the API as an array (tools/fleet/fleet_api.c). To add a list, add it to
 * tools/fleet/fleet_list.c, and a route that shows it.
 *
 * The values came from strangers, so whoever prints them must escape them. A statement touches a bounded
 * number of rows, or as many as there are boards. */
#ifndef TOOLS_FLEET_LIST_H
#define TOOLS_FLEET_LIST_H

#include "tools/fleet/fleet_store.h"

enum {
	LIST_ROWS = 50,
	LIST_PAGES = 100000,
	LIST_FILTERS = 3,
	LIST_FILTER = 80, /* bytes of one filter, with the NUL */
};

enum cell {
	CELL_TEXT,
	CELL_ID, /* hex digits */
	CELL_CLASS,
	CELL_BOARD, /* id of a board, or what a stranger gave as one */
	CELL_INT,
	CELL_SERIAL,  /* printed without commas */
	CELL_TIME,    /* seconds since 1970; 0: never */
	CELL_TIME_US, /* microseconds since 1970; 0: never */
	CELL_NS,      /* nanoseconds; 0: not known */
	CELL_RATIO,   /* in hundredths; 0: not known */
	CELL_PCT,     /* < 0: not known */
	CELL_CHANNEL,
};

struct list_col {
	const char *name; /* key in JSON */
	const char *head; /* heading in the table; NULL: not shown there */
	enum cell kind;
};

struct fleet_list {
	const char *name;
	const char *filter[LIST_FILTERS]; /* names of the parameters $1, ..., all texts; "" matches all */
	const char *rows;                 /* statement; its last two parameters are LIMIT and OFFSET */
	const char *count;                /* statement; number of all rows */
	const struct list_col *col;       /* ends with name NULL */
	const char *empty;                /* text for a list without rows: what to do next */
};

extern const struct fleet_list list_boards, list_classes, list_channels, list_kernels, list_models,
    list_words, list_rejects, list_reasons, list_log, list_revoked;

/* A screen of a list. filter: LIST_FILTERS texts. page: from 1 on; a number that is too high shows the last
 * page. */
struct list_view {
	const struct fleet_list *list;
	char filter[LIST_FILTERS][LIST_FILTER];
	int in_path; /* 1: the first filter is the id in the path */
	int64_t page, pages, total;
	int most; /* rows of a screen; 0: LIST_ROWS */
};
enum { LIST_ID = 33 };
/* Finds the id in a path: its first part that is 32 lower-case hex digits. E_NOTFOUND: there is none. */
int path_id(const char *path, char out[LIST_ID]) MUST_CHECK;
/* Reads from a request which rows it asks for. E_NOTFOUND: no id in the path; E_USAGE: a bad parameter. */
int list_ask(const struct fleet_list *l, const char *path, const char *query, int in_path,
	     struct list_view *v) MUST_CHECK;
/* Reads the screen, and fills page, pages and total; fn < 0 ends it. Returns the number of rows. */
int list_read(struct db_conn *c, struct list_view *v, db_row_fn *fn, void *ctx) MUST_CHECK;

#endif
