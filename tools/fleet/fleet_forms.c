/* SPDX-License-Identifier: Apache-2.0 */
/* The operators' pages: the frame of each page, and the actions of the forms. */
#include "tools/fleet/fleet_page.h"
#include "tools/fleet/fleet_form.h"
#include "platform/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FORM = 4096 };

/* The frame. */

static void set_reply(struct fleet_reply *r, int status)
{
	r->status = status;
	r->type = "text/html; charset=utf-8";
	r->policy = PAGE_POLICY;
}

int page_open(struct page *p, struct fleet *f, struct db_conn *c, const struct fleet_request *q,
	      struct fleet_reply *r)
{
	*p = (struct page){.f = f, .c = c, .q = q, .r = r};
	int rc = session_of(f, c, q, &p->session);
	if (rc < 0)
		page_failed(p, rc);
	return rc;
}

void page_head(struct page *p, const char *title, const char *here, int refresh_s)
{
	const struct html_page h = {.title = title,
				    .signed_in = p->session.in,
				    .csrf = p->session.csrf,
				    .refresh_s = p->session.in ? 0 : refresh_s,
				    .here = here};
	html_begin(&h, &p->r->body);
}

void page_foot(struct page *p, int status)
{
	html_end(p->f->date_s(), &p->r->body);
	set_reply(p->r, status);
}

void page_say(struct page *p, int status, const char *title, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	buf_clear(&p->r->body);
	page_head(p, title, NULL, 0);
	buf_puts(&p->r->body, "<p>");
	html_text(text, &p->r->body);
	buf_puts(&p->r->body, "</p><p><a href=\"/\">Back to the fleet</a></p>\n");
	page_foot(p, status);
}

void page_failed(struct page *p, int rc)
{
	if (rc == E_USAGE || rc == E_NOTFOUND) {
		page_say(p, rc == E_USAGE ? 400 : 404, rc == E_USAGE ? "Bad request" : "Not found", "%s",
			 err_text());
		return;
	}
	fleet_say_fault(p->r, rc);
	int status = p->r->status;
	page_say(p, status, "Server error",
		 "The server cannot do this now; its log says why. Try again later.");
}

void page_go(struct page *p, const char *path)
{
	buf_clear(&p->r->body);
	set_reply(p->r, 303);
	snprintf(p->r->location, sizeof p->r->location, "%s", path);
}

void page_order(struct page *p, const char *order, const char *button, const char *fixed, const char *value,
		bool why)
{
	struct buf *b = &p->r->body;
	buf_printf(b, "<form class=\"order\" method=\"post\" action=\"/page/do/%s\">", order);
	if (fixed && value)
		buf_printf(b, "<input type=\"hidden\" name=\"%s\" value=\"%s\">", fixed, value);
	else if (fixed)
		buf_printf(
		    b,
		    "<label>Record <input name=\"%s\" required pattern=\"[0-9a-f]{32}\" maxlength=\"32\" "
		    "placeholder=\"32 hex digits\"></label>",
		    fixed);
	if (why)
		buf_puts(b, "<label>Why <input name=\"why\" required maxlength=\"150\"></label>");
	if (p->session.in)
		buf_printf(b, "<input type=\"hidden\" name=\"csrf\" value=\"%s\">", p->session.csrf);
	else
		buf_puts(
		    b,
		    "<label>Admin token <input type=\"password\" name=\"token\" required maxlength=\"127\" "
		    "autocomplete=\"current-password\"></label>");
	buf_printf(b, "<button class=\"%s\">%s</button></form>\n", order, button);
}

/* Forms. */

static int get_form(const void *from, const char *name, char *out, size_t n)
{
	const struct fleet_request *q = from;
	return form_get(q->body ? q->body : "", q->n, name, out, n);
}

static void refuse(struct page *p, int status, const char *why)
{
	admin_refuse(p->f, p->q, p->r, status, why);
	page_say(p, status, "Refused", "%s. This attempt is in the log.", why);
}

static bool has_token(struct page *p)
{
	char token[ADMIN_TOKEN];
	bool good = get_form(p->q, "token", token, sizeof token) > 0 && admin_token_good(p->f->admin, token);
	explicit_bzero(token, sizeof token);
	return good;
}

static bool has_csrf(struct page *p)
{
	char csrf[ADMIN_COOKIE];
	return p->session.in && get_form(p->q, "csrf", csrf, sizeof csrf) > 0 &&
	       texts_same(csrf, p->session.csrf);
}

/* Checks the form's size and its sender; false: r says what is wrong. */
static bool may_send(struct page *p, struct fleet *f, struct db_conn *c, const struct fleet_request *q,
		     struct fleet_reply *r)
{
	if (page_open(p, f, c, q, r) < 0)
		return false;
	if (q->n > MOST_FORM) {
		page_say(p, 413, "Too long", "A form may have at most %d bytes.", MOST_FORM);
		return false;
	}
	if (!has_csrf(p) && !has_token(p) && !admin_may(f, q, r)) {
		page_say(p, 429, "Too many requests", "Too many admin requests; wait a few seconds.");
		return false;
	}
	if (!f->admin->has) {
		refuse(p, 403, "This server has no admin token: `hone-fleet init` makes one");
		return false;
	}
	return true;
}

void page_sign_in(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct page p;
	if (page_open(&p, f, c, q, r) < 0)
		return;
	page_head(&p, "Sign in", NULL, 0);
	buf_puts(
	    &r->body,
	    "<p>Enter the admin token that <code>hone-fleet init</code> showed. You stay signed in for eight "
	    "hours, in this browser only. From another machine this needs HTTPS.</p>\n"
	    "<form class=\"order\" method=\"post\"><label>Admin token <input type=\"password\" "
	    "name=\"token\" required maxlength=\"127\" autocomplete=\"current-password\"></label>"
	    "<button>Sign in</button></form>\n");
	page_foot(&p, 200);
}

void page_sign_in_done(struct fleet *f, struct db_conn *c, const struct fleet_request *q,
		       struct fleet_reply *r)
{
	struct page p;
	char cookie[ADMIN_COOKIE];
	if (!may_send(&p, f, c, q, r))
		return;
	if (!has_token(&p)) {
		refuse(&p, 403, "Wrong admin token");
		return;
	}
	int rc = session_begin(f, c, cookie);
	if (rc < 0) {
		page_failed(&p, rc);
		return;
	}
	snprintf(r->cookie, sizeof r->cookie,
		 SESSION_COOKIE "=%s; Path=/; Max-Age=%d; Secure; HttpOnly; SameSite=Strict", cookie,
		 ADMIN_SESSION_S);
	page_go(&p, "/");
}

void page_sign_out(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct page p;
	if (!may_send(&p, f, c, q, r))
		return;
	int rc = has_csrf(&p) ? session_end(f, c, q) : E_OK;
	if (rc < 0) {
		page_failed(&p, rc);
		return;
	}
	snprintf(r->cookie, sizeof r->cookie,
		 SESSION_COOKIE "=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
	page_go(&p, "/");
}

/* Goes to the page that shows the result of the order. */
static void go_back(struct page *p, const struct order *o)
{
	char path[96] = "/";
	if (o->board[0])
		snprintf(path, sizeof path, "/page/board/%s", o->board);
	else if (o->record[0])
		snprintf(path, sizeof path, "/page/records");
	else if (strlen(o->cls) == 32)
		snprintf(path, sizeof path, "/page/class/%s", o->cls);
	page_go(p, path);
}

void page_do(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct page p;
	struct order o;
	if (!may_send(&p, f, c, q, r))
		return;
	if (!has_csrf(&p) && !has_token(&p)) {
		refuse(&p, 403, "This needs the admin token or a form of your own session");
		return;
	}
	int rc = order_read(c, strrchr(q->path, '/') + 1, get_form, q, &o);
	if (rc >= 0)
		rc = order_do(f, c, q, "page", &o);
	if (rc < 0)
		page_failed(&p, rc);
	else
		go_back(&p, &o);
}
