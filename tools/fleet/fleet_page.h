/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the operators' page and its API. */
#ifndef TOOLS_FLEET_PAGE_H
#define TOOLS_FLEET_PAGE_H

#include "tools/fleet/fleet_admin.h"
#include "tools/fleet/fleet_figures.h"

/* Content-Security-Policy: allows only this site's own style sheet, and forms that are sent to this site. */
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

/* Begins a page, and finds the reader's session. < 0: r says what failed. */
int page_open(struct page *p, struct fleet *f, struct db_conn *c, const struct fleet_request *q,
	      struct fleet_reply *r) MUST_CHECK;
void page_head(struct page *p, const char *title, const char *here, int refresh_s);
void page_foot(struct page *p, int status);
/* Replaces what was written by a page with one sentence. */
void page_say(struct page *p, int status, const char *title, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Makes the page of an error: 400, 404 or 503. */
void page_failed(struct page *p, int rc);
/* Redirects to another page, by GET. */
void page_go(struct page *p, const char *path);

/* Writes the form of an order. fixed, value: a hidden field that names its object, or NULL; why: the form
 * asks for the reason. Readers that are not signed in must enter the token, too. */
void page_order(struct page *p, const char *order, const char *button, const char *fixed, const char *value,
		bool why);

#endif
