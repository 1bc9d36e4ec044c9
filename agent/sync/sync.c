/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync.h"

#include "agent/cache/json.h"
#include "agent/sync/sync_fetch.h"
#include "agent/sync/sync_push.h"
#include "agent/sync/sync_state.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOTS_MOST = 64 /* in one run */, MOST_REPLY = 64 << 10, MOST_TOKEN = 4096 };
#define SLOW_NS (20 * NS_PER_S)

struct run {
	const struct sync_conf *c;
	const struct sync_cache *to;
	const struct sync_now *now;
	struct sync_sum *sum;
	struct sync_state state;
	struct trust *trust;
	struct fetch *fetch;
	struct private_key *key;
	bool certified;
	int64_t end_ns; /* deadline of the run; 0: it has not connected yet */
	const char *channel;
	int64_t retry_ns;         /* from the server's Retry-After; 0: none */
	struct sync_state former; /* as the last run left it; it does not own its blobs */
	int64_t token_ns;         /* state_token of the token with which the board has to join; 0: none */
	bool only_refused;        /* the run failed by lines that the server refused, and by nothing else */
	bool pulled;              /* the source was read, though it may have nothing new */
};

static const char *folder(const struct run *r)
{
	return sync_state_folder(r->c);
}

/* The board's key and certificate. */

static int make_key(struct run *r)
{
	const char *path = state_path(&r->state, "key.pem");
	int rc = private_key_read(path, &r->key);
	if (rc != E_NOTFOUND)
		return rc;
	rc = private_key_make(&r->key);
	return rc < 0 ? rc : private_key_write(r->key, path);
}

/* Reads the join token without the blanks around it. */
static int read_token(const struct run *r, struct arena *a, const char **out)
{
	struct blob b;
	int rc = file_read(a, r->c->token, MOST_TOKEN, &b);
	if (rc < 0)
		return fail(rc, "token in [sync]: %s%s", err_text(),
			    rc == E_NOTFOUND ? "; `hone-fleet token` on the server makes a token" : "");
	const char *p = b.p, *from = p + strspn(p, " \t\r\n");
	*out = arena_strndup(a, from, strcspn(from, " \t\r\n"));
	return **out
		   ? E_OK
		   : fail(E_CORRUPT, "%s does not hold a token; `hone-fleet token` prints one", r->c->token);
}

static int enrol_body(const struct run *r, struct buf *body)
{
	struct arena a = {0};
	struct buf csr = {0};
	struct public_key pub;
	char id[KEY_ID_HEX + 1], name[SYNC_NAME];
	const char *token = "";
	private_key_public(r->key, &pub);
	public_key_id(&pub, id);
	sync_board_name(r->c, NULL, id, name);
	int rc = read_token(r, &a, &token);
	if (rc >= 0)
		rc = csr_write(r->key, name, &csr);
	json_t *j = rc < 0 ? NULL : json_pack("{so ss}", "token", json_text(token), "csr", buf_str(&csr));
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	buf_puts(body, text ? text : "");
	if (rc >= 0 && (!text || !buf_ok(body)))
		rc = fail(E_NOMEM, "no memory for a request");
	free(text);
	json_decref(j);
	buf_free(&csr);
	arena_free(&a);
	return rc;
}

/* Keeps the certificate that the server gave. Only its form is checked: a wrong one would harm this server
 * only. */
static int keep_certificate(struct run *r, const struct fetched *got)
{
	json_t *j = json_loadb(buf_str(&got->body), got->body.n, JSON_REJECT_DUPLICATES, NULL);
	const char *cert = json_string_value(json_object_get(j, "cert"));
	int rc = cert && !strncmp(cert, "-----BEGIN CERTIFICATE-----", 27)
		     ? file_write(state_path(&r->state, SYNC_CERT), cert, strlen(cert))
		     : fail(E_CORRUPT, "%s did not return a certificate", r->c->server);
	json_decref(j);
	return rc;
}

static int enrol(struct run *r)
{
	struct buf body = {0};
	struct fetched got = {0};
	int rc = enrol_body(r, &body);
	if (rc >= 0)
		rc = fetch_post(r->fetch, "enrol", "application/json", body.p, body.n, MOST_REPLY, &got);
	if (rc >= 0)
		rc = keep_certificate(r, &got);
	if (rc >= 0) {
		struct public_key pub;
		char id[KEY_ID_HEX + 1], name[SYNC_NAME];
		private_key_public(r->key, &pub);
		public_key_id(&pub, id);
		sync_board_name(r->c, NULL, id, name);
		snprintf(r->state.joined, sizeof r->state.joined, "%s", name);
		log_info("hone-sync: this board is enrolled at %s as %s (%s)", r->c->server, name, id);
	}
	r->certified = rc >= 0;
	buf_free(&got.body);
	buf_free(&body);
	return fail_in(rc, "enrolment");
}

/* Connections. */

static int connect_to(struct run *r, int64_t left_bytes)
{
	static char cert[600], key[600];
	if (!r->end_ns)
		r->end_ns = clock_now(r->now->clock) + r->c->run_ns;
	fetch_close(r->fetch);
	r->fetch = NULL;
	snprintf(cert, sizeof cert, "%s", state_path(&r->state, SYNC_CERT));
	snprintf(key, sizeof key, "%s", state_path(&r->state, "key.pem"));
	r->certified = file_exists(cert);
	const struct fetch_options o = {.from = r->c->server,
					.ca = r->c->ca,
					.cert = r->certified ? cert : NULL,
					.key = r->certified ? key : NULL,
					.proxy = r->c->proxy,
					.rate_bytes = r->c->rate_bytes,
					.most_bytes = left_bytes,
					.deadline_ns = r->end_ns,
					.slow_ns = r->c->run_ns / 4 < SLOW_NS ? r->c->run_ns / 4 : SLOW_NS,
					.clock = r->now->clock,
					.stop = r->now->stop};
	return fetch_open(&o, &r->fetch);
}

/* Adds the connection's traffic to the day's count and to the sum; call it once for each connection. */
static void count_traffic(struct run *r, int rc, int64_t use_ns)
{
	struct fetch_sum s;
	if (!r->fetch)
		return;
	fetch_sum(r->fetch, &s);
	r->sum->down_bytes += s.down_bytes;
	r->sum->up_bytes += s.up_bytes;
	r->sum->offline = rc == E_IO && !s.answered;
	pace_moved(&r->state.pace, use_ns, s.down_bytes + s.up_bytes);
	r->retry_ns = s.retry_after_ns;
}

/* Downloads: root, snapshot, blobs. */

static int pull_roots(struct run *r)
{
	for (int i = 0; i < ROOTS_MOST; i++) {
		char name[48];
		struct fetched got;
		snprintf(name, sizeof name, "root/%" PRId64, trust_root(r->trust)->version + 1);
		int rc = fetch_get(r->fetch, name, TRUST_BYTES, NULL, &got);
		if (rc < 0) /* the error names the file */
			return rc == E_NOTFOUND ? E_OK : rc;
		rc = trust_advance(r->trust, got.body.p, got.body.n);
		buf_free(&got.body);
		if (rc == 0)
			rc = fail(E_WRONG, "it is not newer than the root that this board has");
		if (rc < 0)
			return fail_in(rc, "%s", name);
		r->sum->roots++;
		log_info("hone-sync: root %" PRId64 " is now in use", trust_root(r->trust)->version);
	}
	return E_OK;
}

/* Checks class, channel, serial and expiry. Expiry counts only if the board's date may be right (not before
 * made_s). */
static int check_snapshot(const struct run *r, const struct snapshot *s)
{
	int64_t floor = trust_floor(r->trust, r->to->cls, r->channel), date_s = r->now->date_s;
	if (strcmp(s->cls, r->to->cls))
		return fail(E_WRONG, "it is of class %s, and this board is of class %s", s->cls, r->to->cls);
	if (strcmp(channel_names[s->channel], r->channel))
		return fail(E_WRONG, "it is of channel %s, not %s", channel_names[s->channel], r->channel);
	if (s->serial < floor)
		return fail(E_WRONG,
			    "its serial %" PRId64 " is older than %" PRId64 ", which this board has already",
			    s->serial, floor);
	if (date_s >= s->made_s && date_s > s->expires_s) {
		struct buf since = {0};
		duration_words((double)(date_s - s->expires_s), &since);
		int rc = fail(E_WRONG, "it expired %s ago", buf_str(&since));
		buf_free(&since);
		return rc;
	}
	return E_OK;
}

static int read_snapshot(const struct run *r, const struct fetched *got, struct arena *a, struct snapshot *s)
{
	struct signed_doc d;
	int rc = signed_parse(got->body.p, got->body.n, "snapshot", &d);
	if (rc >= 0)
		rc = trust_check(r->trust, ROLE_FLEET, &d);
	if (rc >= 0)
		rc = snapshot_parse(d.payload.p, d.payload.n, a, s);
	return rc < 0 ? rc : check_snapshot(r, s);
}

/* Fetches a whole blob and checks its hash against the snapshot's; a partial file with wrong bytes is
 * deleted. */
static int fetch_checked(struct run *r, const struct snapshot_blob *b, struct buf *out)
{
	char hex[2 * SHA256_BYTES + 1], name[80], part[600];
	struct sha256 h;
	hex_write(b->sha256.b, SHA256_BYTES, hex);
	snprintf(name, sizeof name, "blob/%s", hex);
	snprintf(part, sizeof part, "%s/%s", r->state.folder, name);
	int rc = fetch_blob(r->fetch, name, (size_t)b->bytes, part, out);
	if (rc >= 0)
		rc = crypto_sha256(out->p, out->n, &h);
	if (rc >= 0 && memcmp(h.b, b->sha256.b, sizeof h.b))
		rc = fail(E_CORRUPT, "%s/%s does not match its signed hash", r->c->server, name);
	if (rc == E_CORRUPT)
		unlink(part);
	return rc;
}

static int raise_serial(struct run *r, const struct snapshot *s)
{
	int64_t floor = trust_floor(r->trust, s->cls, r->channel);
	return s->serial == floor ? E_OK : trust_raise(r->trust, s->cls, r->channel, s->serial);
}

/* The serial is durable before anything of its snapshot is taken, and the records are durable before their
 * blob counts as taken. */
static int pull_blob(struct run *r, const struct snapshot *s, const struct snapshot_blob *b)
{
	struct buf lines = {0};
	char hex[2 * SHA256_BYTES + 1], name[80];
	struct sync_sum got = {.refused = 0};
	int rc = fetch_checked(r, b, &lines);
	if (rc >= 0)
		rc = raise_serial(r, s);
	if (rc >= 0)
		rc = r->to->take(r->to->ctx, s, buf_str(&lines), lines.n, &got);
	buf_free(&lines);
	r->sum->refused += got.refused;
	if (rc >= 0)
		rc = r->to->commit(r->to->ctx);
	if (rc >= 0)
		rc = state_add_blob(&r->state, &b->sha256);
	if (rc < 0)
		return rc;
	r->sum->taken += got.taken;
	r->sum->choices += got.choices;
	r->sum->blobs++;
	hex_write(b->sha256.b, SHA256_BYTES, hex);
	snprintf(name, sizeof name, "blob/%s", hex);
	unlink(state_path(&r->state, name));
	if (r->to->id)
		snprintf(r->state.cache, sizeof r->state.cache, "%s", r->to->id);
	return E_OK;
}

/* Deletes partial blobs that this snapshot does not name. */
static void drop_parts(struct run *r, const struct snapshot *s)
{
	char path[600];
	snprintf(path, sizeof path, "%s", state_path(&r->state, "blob"));
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		struct sha256 h;
		bool named =
		    strlen(e->d_name) == 2 * SHA256_BYTES && hex_read(e->d_name, SHA256_BYTES, h.b) >= 0;
		int i = 0;
		while (named && i < s->nblob && memcmp(s->blob[i].sha256.b, h.b, sizeof h.b))
			i++;
		if (e->d_name[0] != '.' && (!named || i == s->nblob))
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

static int pull_blobs(struct run *r, const struct snapshot *s)
{
	int rc = E_OK;
	drop_parts(r, s);
	for (int i = 0; i < s->nblob && rc >= 0; i++)
		if (!strcmp(s->blob[i].kind, "records") && !state_has_blob(&r->state, &s->blob[i].sha256))
			rc = pull_blob(r, s, &s->blob[i]);
	return rc;
}

static int take_back(struct run *r, const struct snapshot *s)
{
	int rc = raise_serial(r, s);
	if (rc >= 0)
		rc = r->to->revoke(r->to->ctx, s);
	return rc < 0 ? rc : r->to->commit(r->to->ctx);
}

/* Revocations are applied first, so that a server which withholds a blob cannot delay them. */
static int take_snapshot(struct run *r, const struct snapshot *s)
{
	int rc = s->nboard + s->nrecord ? take_back(r, s) : E_OK;
	if (rc >= 0)
		rc = pull_blobs(r, s);
	if (rc >= 0)
		rc = raise_serial(r, s);
	if (rc >= 0 && r->to->share(r->to->ctx, s, r->state.board) < 0)
		log_info("hone-sync: the search is not divided among boards: %s", err_text());
	return rc < 0 ? rc : state_keep_blobs(&r->state, s);
}

static bool is_revoked(const struct snapshot *s, const char *board)
{
	for (int i = 0; i < s->nboard; i++)
		if (!strcmp(s->board[i], board))
			return true;
	return false;
}

static void remember(struct run *r, const struct snapshot *s, const char *etag, const char *doc,
		     int64_t use_ns)
{
	struct sync_state *t = &r->state;
	if (s->serial > t->serial)
		t->fresh_ns = use_ns;
	t->serial = s->serial;
	t->made_s = s->made_s;
	t->expires_s = s->expires_s;
	t->poll_s = s->poll_s;
	t->revoked = is_revoked(s, t->board);
	snprintf(t->etag, sizeof t->etag, "%s", etag);
	snprintf(t->doc, sizeof t->doc, "%s", doc);
	r->sum->fresh = true;
}

static int document_name(const struct fetched *got, char out[65])
{
	struct sha256 h;
	int rc = crypto_sha256(got->body.p, got->body.n, &h);
	if (rc >= 0)
		hex_write(h.b, sizeof h.b, out);
	return rc;
}

/* The kept state belongs to one server, class and channel; with another one it is cleared. */
static void know(struct run *r)
{
	char of[sizeof r->state.of];
	snprintf(of, sizeof of, "%.120s %s %s", r->c->server, r->to->cls, r->channel);
	if (!strcmp(of, r->state.of))
		return;
	memcpy(r->state.of, of, sizeof of);
	r->state.etag[0] = r->state.doc[0] = 0;
	r->state.revoked = false;
	r->state.serial = r->state.made_s = r->state.expires_s = r->state.poll_s = r->state.push_from = 0;
}

/* If another source could not be read, or its folder had no snapshot, `hone status` goes on to show the
 * serial of the former source. Its ETag stays cleared: the cache may be a new one (know_cache). */
static void know_former(struct run *r)
{
	struct sync_state *t = &r->state;
	const struct sync_state *f = &r->former;
	bool stays = !r->pulled || sync_is_folder(r->c->server);
	if (r->sum->fresh || !stays || !f->of[0] || !strcmp(t->of, f->of))
		return;
	memcpy(t->of, f->of, sizeof t->of);
	t->serial = f->serial;
	t->made_s = f->made_s;
	t->expires_s = f->expires_s;
	t->poll_s = f->poll_s;
	t->push_from = f->push_from;
}

/* A new or recreated cache lacks the records that were taken before, so all blobs are taken again. */
static void know_cache(struct run *r)
{
	if (!r->to->id || !strcmp(r->state.cache, r->to->id))
		return;
	r->state.etag[0] = r->state.doc[0] = 0;
	r->state.nblob = 0;
}

/* Reports a freeze attack: a server that is cut off from its fleet repeats the same validly signed snapshot
 * for ever. */
static void look_for_frost(struct run *r, int64_t use_ns)
{
	struct sync_state *t = &r->state;
	int64_t life_ns = t->expires_s > t->made_s && t->expires_s - t->made_s < PACE_EVERY_MOST_NS / NS_PER_S
			      ? (t->expires_s - t->made_s) * NS_PER_S
			      : PACE_EVERY_MOST_NS;
	bool past = r->now->date_s >= t->made_s && r->now->date_s > t->expires_s;
	t->stale = t->serial && (past || use_ns - t->fresh_ns > life_ns);
	if (t->stale)
		log_info("hone-sync: %s has had nothing new since serial %" PRId64
			 " for longer than that snapshot is valid: the server may be cut off from its fleet",
			 r->c->server, t->serial);
}

static int pull_snapshot(struct run *r, int64_t use_ns)
{
	struct arena a = {0};
	struct fetched got;
	struct snapshot s;
	char name[80], doc[65] = "";
	snprintf(name, sizeof name, "%s/%s/snapshot", r->to->cls, r->channel);
	int rc = fetch_get(r->fetch, name, SNAPSHOT_BYTES, r->state.etag, &got);
	if (rc == E_NOTFOUND) {
		void (*say)(const char *fmt, ...) = sync_is_folder(r->c->server) ? log_info : log_more;
		say("hone-sync: %s has nothing for boards of class %s yet", r->c->server, r->to->cls);
		return E_OK;
	}
	if (rc > 0)
		rc = document_name(&got, doc) < 0 ? E_IO : 1;
	if (rc > 0 && strcmp(doc, r->state.doc)) {
		rc = read_snapshot(r, &got, &a, &s);
		buf_free(&got.body);
		if (rc >= 0)
			rc = take_snapshot(r, &s);
		if (rc >= 0)
			remember(r, &s, got.etag, doc, use_ns);
	}
	if (rc >= 0 && got.etag[0])
		memcpy(r->state.etag, got.etag, sizeof got.etag);
	buf_free(&got.body);
	arena_free(&a);
	if (rc >= 0)
		look_for_frost(r, use_ns);
	return fail_in(rc, "snapshot");
}

/* Uploads. */

static int push(struct run *r)
{
	if (!r->certified) {
		log_more("hone-sync: this board is not enrolled, so nothing is sent; set token in [sync] to "
			 "a file with a token");
		return E_OK;
	}
	struct push p = {.to = r->to,
			 .fetch = r->fetch,
			 .key = r->key,
			 .board = r->state.board,
			 .sum = r->sum,
			 .from = r->state.push_from};
	int rc = sync_push(&p);
	r->state.push_from = p.from;
	if (p.name[0])
		snprintf(r->state.joined, sizeof r->state.joined, "%s", p.name);
	r->only_refused = rc < 0 && p.all_answered;
	return fail_in(rc, "upload");
}

/* One run. */

static void name_board(struct run *r)
{
	struct public_key pub;
	private_key_public(r->key, &pub);
	public_key_id(&pub, r->state.board);
}

static int identify(struct run *r)
{
	int rc = crypto_start();
	if (rc >= 0)
		rc = make_key(r);
	if (rc >= 0)
		rc = trust_open(r->c->root, folder(r), &r->trust);
	if (rc < 0)
		return rc;
	name_board(r);
	r->channel = channel_names[r->c->has_channel ? r->c->channel : channel_of(r->state.board)];
	know(r);
	know_cache(r);
	return E_OK;
}

static int begin_talk(struct run *r, int64_t use_ns)
{
	int64_t left =
	    sync_is_folder(r->c->server) ? INT64_MAX : pace_left(&r->state.pace, use_ns, r->c->day_bytes);
	return left ? connect_to(r, left)
		    : fail(E_BUSY, "today's limit of bytes is used up: see day in [sync]");
}

/* Enrols, then reconnects: the connection that was opened without the certificate cannot use it. */
static int join_fleet(struct run *r, int64_t use_ns)
{
	int rc = enrol(r);
	if (rc < 0)
		return rc;
	count_traffic(r, rc, use_ns);
	fetch_close(r->fetch);
	r->fetch = NULL;
	return begin_talk(r, use_ns);
}

static int talk(struct run *r, int64_t use_ns)
{
	bool remote = !sync_is_folder(r->c->server);
	int rc = begin_talk(r, use_ns);
	if (rc < 0)
		return rc;
	char why[STATE_TEXT] = "";
	int enrolled = remote && r->c->token && !r->certified ? join_fleet(r, use_ns) : E_OK;
	if (enrolled < 0)
		snprintf(why, sizeof why, "%s", err_text());
	if (!r->fetch)
		return enrolled;
	rc = pull_roots(r);
	if (rc >= 0)
		rc = pull_snapshot(r, use_ns);
	r->pulled = rc >= 0;
	if (rc >= 0 && r->c->push && remote)
		rc = push(r);
	/* Public files are fetched even if enrolment failed; its error is reported afterwards. */
	return rc < 0 || enrolled >= 0 ? rc : fail(enrolled, "%s", why);
}

static void seed(struct rng *r, int64_t use_ns)
{
	uint64_t s = 0;
	if (crypto_start() < 0 || crypto_random(&s, sizeof s) < 0)
		s = (uint64_t)use_ns;
	rng_seed(r, s);
}

/* The polling interval: PACE_JOIN_NS at most before the board has joined, then what the snapshot asks for,
 * within a factor of 4 of the configured one. */
static int64_t every_of(const struct sync_conf *c, const struct sync_state *t)
{
	int64_t own_ns = c->every_ns, poll_ns = 0;
	if (state_has_to_join(c, t))
		return own_ns < PACE_JOIN_NS ? own_ns : PACE_JOIN_NS;
	if (t->poll_s > 0 && t->poll_s < PACE_EVERY_MOST_NS / NS_PER_S)
		poll_ns = t->poll_s * NS_PER_S;
	if (!poll_ns)
		return own_ns;
	return poll_ns < own_ns / 4 ? own_ns / 4 : poll_ns > own_ns * 4 ? own_ns * 4 : poll_ns;
}

/* Stores the run's result: when the next run is due, and what `hone status` shows. */
static void conclude(struct run *r, int rc, int64_t use_ns)
{
	struct sync_state *t = &r->state;
	struct rng rng;
	seed(&rng, use_ns);
	/* Refused lines fail every run until they change, and must not slow the board's pulls. */
	enum pace_end end = rc < 0 && !r->only_refused ? PACE_FAILED : PACE_GOOD;
	pace_next(&t->pace, end, use_ns, every_of(r->c, t), r->retry_ns, &rng);
	if (!sync_is_folder(r->c->server)) /* a folder cannot lift the server's Retry-After */
		t->quiet_ns = r->retry_ns ? use_ns + r->retry_ns : 0;
	t->chosen = true;
	if (r->token_ns)
		t->token_ns = r->token_ns;
	t->ran_s = r->now->date_s;
	t->offline = r->sum->offline;
	snprintf(t->error, sizeof t->error, "%s", rc < 0 ? err_text() : t->revoked ? SYNC_REVOKED : "");
	t->taken += r->sum->taken;
	t->choices += r->sum->choices;
	t->refused += r->sum->refused;
	t->sent += r->sum->sent;
	t->down_bytes += r->sum->down_bytes;
	t->up_bytes += r->sum->up_bytes;
	r->sum->serial = t->serial;
	r->sum->revoked = t->revoked;
}

static int refuse_early(const struct run *r, int64_t left_ns)
{
	struct buf left = {0};
	duration_words((double)left_ns / NS_PER_S, &left);
	int rc = fail(E_BUSY, "%s asked this board to wait another %s", r->c->server, buf_str(&left));
	buf_free(&left);
	return rc;
}

static int run_locked(struct run *r)
{
	int rc = state_open(&r->state, folder(r));
	if (rc < 0)
		return rc;
	int64_t use_ns = state_use(&r->state, r->now);
	r->former = r->state;
	bool remote = !sync_is_folder(r->c->server);
	if (remote && r->state.quiet_ns > use_ns)
		return refuse_early(r, r->state.quiet_ns - use_ns);
	r->token_ns = state_has_to_join(r->c, &r->state) ? state_token(r->c) : 0;
	rc = identify(r);
	if (rc >= 0)
		rc = talk(r, use_ns);
	if (remote)
		count_traffic(r, rc, use_ns);
	know_former(r);
	conclude(r, rc, use_ns);
	char text[STATE_TEXT];
	snprintf(text, sizeof text, "%s", err_text());
	int saved = state_save(&r->state);
	return rc < 0 ? fail(rc, "%s", text) : saved;
}

int sync_run(const struct sync_conf *c, const struct sync_cache *to, const struct sync_now *now,
	     struct sync_sum *out)
{
	struct run r = {.c = c, .to = to, .now = now, .sum = out};
	char lock[600];
	int fd = -1;
	*out = (struct sync_sum){0};
	if (!c->server)
		return fail(E_USAGE, "server is not set in [sync] of honed.conf");
	snprintf(lock, sizeof lock, "%s/lock", folder(&r));
	int rc = file_mkdirs(folder(&r), 0755);
	if (rc >= 0)
		rc = file_lock(lock, 0, &fd);
	if (rc >= 0)
		rc = run_locked(&r);
	fetch_close(r.fetch);
	trust_close(r.trust);
	private_key_free(r.key);
	state_free(&r.state);
	file_unlock(fd);
	return rc;
}

/* Chooses the first run after a boot. If another run is under way (E_BUSY), that one saves its own choice. */
static int choose(struct sync_state *s, const struct sync_conf *c, int64_t use_ns)
{
	struct rng rng;
	int fd = -1, rc = file_mkdirs(s->folder, 0755);
	if (rc >= 0)
		rc = file_lock(state_path(s, "lock"), 0, &fd);
	seed(&rng, use_ns);
	pace_next(&s->pace, PACE_START, use_ns, every_of(c, s), 0, &rng);
	s->chosen = true;
	if (rc >= 0)
		rc = state_save(s);
	file_unlock(fd);
	return rc == E_BUSY ? E_OK : rc;
}

int64_t sync_due(const struct sync_conf *c, const struct sync_now *now)
{
	struct sync_state s;
	state_glance(&s, sync_state_folder(c));
	int64_t use_ns = state_use(&s, now);
	if (!state_join_is_due(c, &s) && !s.chosen && choose(&s, c, use_ns) < 0)
		log_info("hone-sync: %s", err_text());
	int64_t at_ns = state_next(c, &s);
	return at_ns > use_ns ? at_ns - use_ns : 0;
}
