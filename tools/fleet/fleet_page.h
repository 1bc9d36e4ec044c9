/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the operators' page and its API share. */
#ifndef TOOLS_FLEET_PAGE_H
#define TOOLS_FLEET_PAGE_H

#include "tools/fleet/fleet_admin.h"
#include "tools/fleet/fleet_figures.h"

/* Nothing but this site's own style sheet, and forms to itself. */
#define PAGE_POLICY                                                                                          \
	"default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "         \
	"frame-ancestors 'none'"

/* A page that is being written. */
struct page {
	struct fleet *f;
	struct db_conn *c;
	const struct fleet_request *q;
	struct fleet_reply *r;
	struct admin_session session;
};

/* With its session. < 0: r says what failed. */
int page_open(struct page *p, struct fleet *f, struct db_conn *c, const struct fleet_request *q,
	      struct fleet_reply *r) MUST_CHECK;
void page_head(struct page *p, const char *title, const char *here, int refresh_s);
void page_foot(struct page *p, int status);
/* A page of one sentence in the place of what was written. */
void page_say(struct page *p, int status, const char *title, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Of an error: 400, 404 or 503. */
void page_failed(struct page *p, int rc);
/* To another page, by GET. */
void page_go(struct page *p, const char *path);

/* The form of an order. fixed: name and value of what it is about, or NULL; why: it has a line for the
 * reason. Who is not signed in gives the token with it. */
void page_order(struct page *p, const char *order, const char *button, const char *fixed, const char *value,
		bool why);

#endif
