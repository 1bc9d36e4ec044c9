/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of hone-fleet alone. */
#ifndef TOOLS_FLEET_PARTS_H
#define TOOLS_FLEET_PARTS_H

#include "tools/fleet/fleet.h"
#include "tools/fleet/fleet_store.h"
#include <jansson.h>
#include <pthread.h>

enum { FLEET_REFUSED = 256 /* refusals kept until the next flush; more are only counted */ };

struct fleet {
	struct fleet_conf c;
	struct clock *clock;
	int64_t (*date_s)(void); /* seconds since 1970 */
	struct private_key *ca, *key;
	struct buf ca_pem;
	int publish_fd;        /* descriptor of the published folder; -1: published elsewhere */
	struct db_conn **conn; /* one for each thread, then the one of fleet_conn */
	pthread_mutex_t mutex; /* protects the fields from nrefused to drawn */
	int nrefused;
	struct store_refused refused[FLEET_REFUSED];
	int64_t uncounted[STORE_COUNTS]; /* counts that are not in the database yet */
	int joins; /* boards that joined since joins_from_ns, as far as tools/fleet/fleet_enrol.c logs them */
	int64_t joins_from_ns;
	uint64_t drawn;          /* next id of a noted refusal; begins at random */
	struct admin *admin;     /* tools/fleet/fleet_admin.h */
	struct fleet_kept *kept; /* tools/fleet/fleet_figures.h */
	/* For rounds only (tools/fleet/fleet_round.h). */
	struct place *place; /* NULL: not opened yet */
	bool follows;        /* another instance leads, and the log says so */
	bool led;            /* this instance leads, and has offered everything to the place since then */
	int64_t roots;       /* number of root documents that were sent */
	int64_t commands_us; /* the log has the orders of commands until this date; 0: none yet */
	int (*step)(void *ctx);
	void *step_ctx;
};

/* The connection for rounds, flushes and administration: for one thread, which is none of the answering
 * ones. */
static inline struct db_conn *fleet_conn(const struct fleet *f)
{
	return f->conn[f->c.threads];
}

/* Answers a request of one path. c: the thread's connection; r is empty except `file`. */
typedef void fleet_fn(struct fleet *f, struct db_conn *c, const struct fleet_request *q,
		      struct fleet_reply *r);
struct fleet_route {
	const char *method; /* "GET" matches HEAD, too */
	const char *path;   /* '*': one part, without '/' */
	fleet_fn *answer;
	bool open; /* for any peer: boards or the sign-in need it, or it checks the token itself */
};
extern const struct fleet_route fleet_routes[]; /* the first match counts; ends with method NULL */
bool fleet_path_matches(const char *path, const char *pattern);

fleet_fn fleet_enrol, fleet_records, fleet_health, fleet_static, fleet_admin, fleet_openapi;
/* Lists and single objects as JSON; the operators' pages and their forms. */
fleet_fn api_overview, api_classes, api_class, api_kernels, api_models, api_boards, api_board, api_words,
    api_rejects, api_revoked, api_log;
fleet_fn page_overview, page_style, page_class, page_boards, page_board, page_rejects, page_records, page_log,
    page_sign_in, page_sign_in_done, page_sign_out, page_do;
/* Makes the next request read the figures again (tools/fleet/fleet_figures.h). */
void fleet_figures_stale(struct fleet *f);

/* Counts a refusal, and notes who was refused and why. */
void fleet_refused(struct fleet *f, enum store_count what, const struct fleet_request *q, const char *who,
		   const char *why);
/* Makes a reply whose body is {"error": text}. */
void fleet_say(struct fleet_reply *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void fleet_count(struct fleet *f, enum store_count what, int64_t n);
/* Does both: fleet_refused and fleet_say. */
void fleet_refuse(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r, int status,
		  enum store_count what, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
/* Makes the reply for an internal error: 503 with Retry-After if the database is busy or gone, else 500. The
 * log says why. */
void fleet_say_fault(struct fleet_reply *r, int rc);
/* Makes a reply of this JSON, which it consumes; NULL: no memory. */
void fleet_say_json(struct fleet_reply *r, int status, json_t *j);

/* Turns waiting batches, at most `most`, into words; in the leader's round. Returns their number. */
int fleet_digest(struct fleet *f, struct db_conn *c, int most) MUST_CHECK;

#endif
