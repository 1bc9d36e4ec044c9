/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/leash.h"

#include "agent/control/leash_link.h"
#include "platform/run/child.h"
#include "platform/base/log.h"
#include "platform/machine/vitals.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO_NS (5 * NS_PER_S)
#define SAY_EVERY_NS (200 * NS_PER_MS)

struct leash {
	struct link *link;            /* NULL: no honed, which would look at the board for this job */
	struct vitals_reader *vitals; /* NULL: the board cannot be looked at */
	struct vitals at_lease;
	struct clock *clock;
	volatile sig_atomic_t *stop;
	bool child; /* honed started this process, which ends when honed is gone */
	bool syncs; /* not a job, it only brings records */
	enum lease held;
	atomic_bool rested; /* since the last release: workers behind streams have ended */
	atomic_bool closing;
	int64_t said_ns;
	char taint[256], last_taint[256]; /* of the last release; the last that there was */
	int threads;
	char socket[PATH_MAX], cache[PATH_MAX], model[1024], device[sizeof((struct request *)0)->device];
};

/* Runs on the link's thread. */
static void rest(struct leash *l)
{
	atomic_store(&l->rested, true);
	child_rest_all(true);
}

static void on_event(void *ctx, const char *event)
{
	struct leash *l = ctx;
	bool gone = !event, stops = event && !strcmp(event, "stop");
	bool ends = gone ? l->child && !atomic_load(&l->closing) : stops;
	if (event && !strcmp(event, "yield"))
		rest(l);
	else if (gone || stops || !strcmp(event, "go on"))
		child_rest_all(false); /* a job that is told to stop must run to save its results */
	if (stops && !l->child)
		log_info("hone: honed told this process to stop");
	if (ends && l->stop)
		*l->stop = 1;
}

static bool same_folder(const char *a, const char *b)
{
	struct stat x, y;
	if (!strcmp(a, b))
		return true;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int ask(struct leash *l, struct request *r, const void *payload, int64_t deadline_ns, json_t **reply)
{
	bool stops = r->op == OP_LEASE; /* all other requests are quick, or must be completed before the
					   end */
	*reply = NULL;
	if (!l->link)
		return fail(E_IO, "honed does not run");
	return link_ask(l->link, r, payload, stops ? l->stop : NULL, deadline_ns, reply);
}

/* Asks, and needs only the `ok` of the reply. */
static int tell(struct leash *l, struct request *r, const void *payload)
{
	json_t *reply;
	int rc = ask(l, r, payload, INT64_MAX, &reply);
	json_decref(reply);
	return rc;
}

static int say_hello(struct leash *l)
{
	struct request r = {.op = OP_HELLO, .version = CONTROL_VERSION};
	json_t *reply;
	int rc = ask(l, &r, NULL, clock_now(l->clock) + HELLO_NS, &reply);
	json_int_t version = rc < 0 ? 0 : json_integer_value(json_object_get(reply, "version"));
	if (rc >= 0 && version != CONTROL_VERSION)
		rc = fail(E_UNSUPPORTED, "honed uses version %d of the control protocol, not %d",
			  (int)version, CONTROL_VERSION);
	json_decref(reply);
	return rc;
}

/* Returns > 0 if honed owns the cache that this job uses. */
static int be_a_job(struct leash *l)
{
	struct request r = {.op = l->syncs ? OP_SYNC : OP_JOB, .threads = l->threads, .job = getpid()};
	json_t *reply;
	memcpy(r.model, l->model, sizeof r.model);
	memcpy(r.device, l->device, sizeof r.device);
	int rc = ask(l, &r, NULL, clock_now(l->clock) + HELLO_NS, &reply);
	const char *cache = json_string_value(json_object_get(reply, "cache"));
	bool same = cache && same_folder(cache, l->cache);
	if (rc >= 0 && !same)
		log_more("honed keeps cache %s, so this job does not go through honed",
			 cache ? cache : "(none)");
	json_decref(reply);
	return rc < 0 ? rc : same;
}

/* Returns the descriptor that a child of honed inherits; -1: this is no child of honed. */
static int inherited(void)
{
	const char *s = getenv("HONE_CONTROL_FD");
	char *end;
	long fd = s ? strtol(s, &end, 10) : -1;
	struct stat st;
	if (!s || *end || fd < 3 || fd > INT_MAX || fstat((int)fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -1;
	return (int)fd;
}

/* Returns -1 if no honed listens there, or it refuses this process. */
static int reach(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (snprintf(a.sun_path, sizeof a.sun_path, "%s", path) >= (int)sizeof a.sun_path)
		return -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0 || fcntl(fd, F_SETFL, 0) < 0) {
		if (errno == EACCES)
			log_more("this user may not use honed's socket %s", path);
		close(fd);
		return -1;
	}
	return fd;
}

static int join(struct leash *l, int fd)
{
	int rc = link_open(fd, on_event, l, &l->link);
	if (rc >= 0)
		rc = say_hello(l);
	if (rc >= 0 && !l->child)
		rc = be_a_job(l);
	if (rc > 0)
		log_more("%s honed, which keeps cache %s", l->syncs ? "sending records to" : "tuning through",
			 l->cache);
	if (rc > 0 || (rc >= 0 && l->child))
		return E_OK;
	atomic_store(&l->closing, true);
	link_close(l->link);
	atomic_store(&l->closing, false);
	l->link = NULL;
	return rc;
}

static void keep_options(struct leash *l, const struct leash_options *o)
{
	const char *env = getenv("HONE_SOCKET"), *socket = env && *env ? env : CONTROL_SOCKET;
	l->clock = o->clock;
	l->stop = o->stop;
	l->threads = o->threads;
	l->syncs = o->syncs;
	snprintf(l->socket, sizeof l->socket, "%s", o->socket ? o->socket : socket);
	snprintf(l->cache, sizeof l->cache, "%s", o->cache ? o->cache : "");
	snprintf(l->model, sizeof l->model, "%s", o->model ? o->model : "");
	snprintf(l->device, sizeof l->device, "%s", o->device ? o->device : "");
}

int leash_again(struct leash *l)
{
	if (l->child)
		return fail(E_STOPPED, "honed, which started this job, is gone");
	link_close(l->link);
	l->link = NULL;
	int fd = reach(l->socket), rc = fd < 0 ? E_OK : join(l, fd);
	if (rc < 0)
		log_more("%s", err_text());
	return l->link ? E_OK : fail(E_NOTFOUND, "honed does not run");
}

bool leash_is_child(void)
{
	return inherited() >= 0;
}

int leash_open(const struct leash_options *o, struct leash **out)
{
	struct leash *l = calloc(1, sizeof *l);
	if (!l)
		return fail(E_NOMEM, "no memory for a leash");
	keep_options(l, o);
	const char *root = o->sysroot ? o->sysroot : getenv("HONE_SYSROOT");
	if (!o->syncs && vitals_open(root ? root : "", &l->vitals) < 0)
		log_more("throttling and clocks cannot be watched: %s", err_text());
	int fd = o->socket || o->syncs ? -1 : inherited();
	l->child = fd >= 0;
	if (l->child)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (fd < 0)
		fd = reach(l->socket);
	int rc = fd < 0 ? E_OK : join(l, fd);
	if (rc < 0 && l->child) {
		vitals_close(l->vitals);
		free(l);
		return fail_in(rc, "honed, which started this job");
	}
	if (rc < 0)
		log_info("hone: cannot work through honed: %s; use a folder of your own with --cache DIR",
			 err_text());
	*out = l;
	return E_OK;
}

void leash_close(struct leash *l)
{
	if (!l)
		return;
	atomic_store(&l->closing, true);
	link_close(l->link);
	child_rest_all(false);
	vitals_close(l->vitals);
	free(l);
}

const char *leash_last_taint(const struct leash *l)
{
	return l->last_taint;
}

bool leash_held(const struct leash *l)
{
	return l->link && link_alive(l->link);
}

static bool told_to_stop(const struct leash *l)
{
	return l->stop && *l->stop;
}

/* A process that honed did not start continues when honed is gone. */
static int forgive(struct leash *l, int rc)
{
	return rc == E_IO && !l->child && !leash_held(l) ? E_OK : rc;
}

static void glance(struct leash *l, struct vitals *out)
{
	*out = (struct vitals){0};
	if (l->vitals && !leash_held(l))
		vitals_glance(l->vitals, clock_now(l->clock), out);
}

int leash_lease(struct leash *l, enum lease kind, int64_t deadline_ns)
{
	assert(l->held == LEASE_NONE && kind != LEASE_NONE);
	/* A child's workers are in its process group, unless they are behind a socket. */
	bool stops = l->child && !child_has_streams();
	struct request r = {.op = OP_LEASE, .lease = kind, .stops = stops};
	json_t *reply = NULL;
	if (told_to_stop(l))
		return fail(E_STOPPED, "stopped");
	if (deadline_ns <= clock_now(l->clock))
		return fail(E_TIMEOUT, "the deadline has passed");
	int rc = leash_held(l) ? forgive(l, ask(l, &r, NULL, deadline_ns, &reply)) : E_OK;
	json_decref(reply);
	if (rc == E_TIMEOUT || rc == E_STOPPED) { /* it may still be granted later */
		struct request no = {.op = OP_RELEASE};
		rc = tell(l, &no, NULL) < 0 ? fail(rc, "honed granted no lease in time, and "
						       "cannot be told that it is no longer needed")
					    : fail(rc, "honed granted no lease in time");
	}
	if (rc < 0)
		return told_to_stop(l) ? fail(E_STOPPED, "stopped") : rc;
	l->held = kind;
	glance(l, &l->at_lease);
	return E_OK;
}

/* Writes what honed says of the lease into l->taint. */
static int release(struct leash *l)
{
	struct request r = {.op = OP_RELEASE};
	json_t *reply;
	int rc = ask(l, &r, NULL, INT64_MAX, &reply);
	const json_t *tainted = json_object_get(reply, "tainted");
	if (json_is_string(tainted))
		snprintf(l->taint, sizeof l->taint, "%s", json_string_value(tainted));
	else if (json_is_true(tainted))
		snprintf(l->taint, sizeof l->taint, "honed discarded this measurement");
	json_decref(reply);
	return forgive(l, rc);
}

int leash_release(struct leash *l, const char **taint)
{
	assert(l->held != LEASE_NONE);
	l->held = LEASE_NONE;
	l->taint[0] = 0;
	int rc = leash_held(l) ? release(l) : E_OK;
	struct vitals now;
	glance(l, &now);
	const char *board = vitals_taint(&l->at_lease, &now);
	if (!l->taint[0] && board)
		snprintf(l->taint, sizeof l->taint, "%s", board);
	if (atomic_exchange(&l->rested, false) && !l->taint[0])
		snprintf(l->taint, sizeof l->taint, "the job was paused meanwhile");
	*taint = l->taint[0] ? l->taint : NULL;
	if (*taint)
		memcpy(l->last_taint, l->taint, sizeof l->last_taint);
	return rc < 0 && told_to_stop(l) ? fail(E_STOPPED, "stopped") : rc;
}

int leash_put(struct leash *l, int type, struct key k, const void *p, size_t n)
{
	struct request r = {.op = OP_PUT, .type = type, .key = k, .bytes = (int64_t)n};
	if (n > CONTROL_PUT)
		return fail(E_UNSUPPORTED, "a record of %zu bytes is too large for honed", n);
	return tell(l, &r, p);
}

int leash_forget(struct leash *l, int type, struct key k)
{
	struct request r = {.op = OP_FORGET, .type = type, .key = k};
	return tell(l, &r, NULL);
}

int leash_commit(struct leash *l)
{
	struct request r = {.op = OP_COMMIT};
	return tell(l, &r, NULL);
}

void leash_say_last(struct leash *l, const struct request *done)
{
	if (l && leash_held(l))
		link_say_last(l->link, done);
}

void leash_say(struct leash *l, const struct request *r)
{
	int64_t now_ns = clock_now(l->clock);
	if (!leash_held(l) || (r->op == OP_PROGRESS && now_ns - l->said_ns < SAY_EVERY_NS))
		return;
	l->said_ns = now_ns;
	if (link_say(l->link, r) < 0)
		log_more("%s", err_text());
}
