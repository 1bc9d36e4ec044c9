/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of hone-fleet share, and nobody else needs. */
#ifndef TOOLS_FLEET_PARTS_H
#define TOOLS_FLEET_PARTS_H

#include "tools/fleet/fleet.h"
#include "tools/fleet/fleet_store.h"
#include <jansson.h>
#include <pthread.h>

enum { FLEET_REFUSED = 256 /* between two writings; more are counted alone */ };

struct fleet {
	struct fleet_conf c;
	struct clock *clock;
	int64_t (*date_s)(void); /* since 1970 */
	struct private_key *ca, *key;
	struct buf ca_pem;
	int publish_fd;        /* of the folder; -1: published elsewhere */
	struct db_conn **conn; /* of each thread, then of rounds: fleet_conn */
	pthread_mutex_t mutex; /* of what follows */
	int nrefused;
	struct store_refused refused[FLEET_REFUSED];
	int64_t uncounted[STORE_COUNTS]; /* not written yet */
	uint64_t drawn;                  /* ids of rows */
	struct admin *admin;             /* tools/fleet/fleet_admin.h */
	struct fleet_kept *kept;         /* tools/fleet/fleet_figures.h */
	/* Of rounds alone (tools/fleet/fleet_round.h). */
	struct place *place; /* NULL: not opened yet */
	bool led;            /* and offered the place everything, since this one leads */
	int64_t roots;       /* were sent */
	int (*step)(void *ctx);
	void *step_ctx;
};

/* The connection of rounds, flushes and administration: for one thread, beside the answering ones. */
static inline struct db_conn *fleet_conn(const struct fleet *f)
{
	return f->conn[f->c.threads];
}

/* Answers a request of one path; r is empty but for `file`. c: the thread's connection. */
typedef void fleet_fn(struct fleet *f, struct db_conn *c, const struct fleet_request *q,
		      struct fleet_reply *r);
struct fleet_route {
	const char *method; /* "GET" takes HEAD, too */
	const char *path;   /* '*': one part, without '/' */
	fleet_fn *answer;
	bool open; /* for any peer: boards or who signs in need it, or it asks for the token by itself */
};
extern const struct fleet_route fleet_routes[]; /* the first that matches; ends with method NULL */
bool fleet_path_matches(const char *path, const char *pattern);

fleet_fn fleet_enrol, fleet_records, fleet_health, fleet_static, fleet_admin, fleet_openapi;
/* Lists and single things as JSON; the operators' pages, and their forms. */
fleet_fn api_overview, api_classes, api_class, api_kernels, api_models, api_boards, api_board, api_words,
    api_rejects, api_revoked, api_log;
fleet_fn page_overview, page_style, page_class, page_boards, page_board, page_rejects, page_records, page_log,
    page_sign_in, page_sign_in_done, page_sign_out, page_do;
/* What was kept of tools/fleet/fleet_figures.h is read anew. */
void fleet_figures_stale(struct fleet *f);

/* Counts a refusal, and notes who and why. */
void fleet_refused(struct fleet *f, enum store_count what, const struct fleet_request *q, const char *who,
		   const char *why);
/* The body is {"error": text}. */
void fleet_say(struct fleet_reply *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void fleet_count(struct fleet *f, enum store_count what, int64_t n);
/* Both. */
void fleet_refuse(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r, int status,
		  enum store_count what, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
/* Of an error within: 503 and Retry-After for a database that is busy or gone, else 500; the log has why. */
void fleet_say_fault(struct fleet_reply *r, int rc);
/* The body is this JSON, which is consumed; NULL: no memory. */
void fleet_say_json(struct fleet_reply *r, int status, json_t *j);

/* Takes what boards sent into their words, at most `most` batches (in the round of who leads): their number.
 */
int fleet_digest(struct fleet *f, struct db_conn *c, int most) MUST_CHECK;

#endif
