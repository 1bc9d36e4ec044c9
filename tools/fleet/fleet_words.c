/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregates a class's words in a round, and writes the records of its channels to `shown`. */
#include "tools/fleet/fleet_line.h"
#include "tools/fleet/fleet_round.h"
#include "platform/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, TIMES = 64 /* bytes by which a published line may exceed its plain line */ };

struct said {
	struct word w;
	int64_t said_s, bytes;
};

/* How much of a class's channels is one board's. */
struct share {
	int lone; /* records that it alone says, on the present channel */
	int64_t lone_bytes;
	int64_t left, left_bytes; /* left out of channels for lack of room */
	int64_t was;              /* records left out before this round */
};

struct class_words {
	struct round *r;
	const char *cls;
	struct arena a;
	struct said *said;
	struct held *held;
	bool *stays; /* per held: the channel keeps it */
	int nsaid, nheld, room_said, room_held;
	char last[4][33]; /* type, key, cand, board of a page's last row */
	struct word *word;
	struct cand_score *score;
	struct agreed *agreed;
	int nagreed;
	bool *out;           /* per agreed: there is no room for it */
	struct share *share; /* per board */
};

static bool more_room(struct arena *a, void **p, int n, int *room, size_t each)
{
	if (n < *room)
		return true;
	int want = *room ? 2 * *room : 256;
	void *more = arena_try(a, (size_t)want, each);
	if (!more)
		return false;
	if (n)
		memcpy(more, *p, (size_t)n * each);
	*p = more;
	*room = want;
	return true;
}

static int by_id(const void *id, const void *m)
{
	return strcmp(id, ((const struct round_member *)m)->id);
}

static int find_board(const struct round *r, const char *id)
{
	const struct round_member *m =
	    r->nboard ? bsearch(id, r->board, (size_t)r->nboard, sizeof *m, by_id) : NULL;
	return m ? (int)(m - r->board) : -1;
}

static int on_word(void *ctx, const struct db_value *col, int n)
{
	struct class_words *s = ctx;
	(void)n;
	if (!more_room(&s->a, (void **)&s->said, s->nsaid, &s->room_said, sizeof *s->said))
		return E_NOMEM;
	for (int i = 1; i < 4; i++)
		snprintf(s->last[i], sizeof s->last[i], "%s", col[i].p);
	snprintf(s->last[0], sizeof s->last[0], "%d", (int)col[0].i);
	struct said *w = &s->said[s->nsaid];
	*w = (struct said){.w = {.board = find_board(s->r, col[3].p),
				 .type = (enum cache_type)col[0].i,
				 .failed = col[5].i != 0,
				 .median_ns = col[4].i},
			   .said_s = col[6].i,
			   .bytes = col[7].i};
	s->nsaid +=
	    w->w.board >= 0 && key_parse(col[1].p, &w->w.key) >= 0 && key_parse(col[2].p, &w->w.cand) >= 0;
	return E_OK;
}

/* Reads words in pages, so that another writer waits for one page at most. */
static int load_words(struct class_words *s)
{
	int rc = PAGE;
	while (rc == PAGE)
		rc =
		    db_exec(s->r->c,
			    "SELECT type, key, cand, board, median_ns, failed, said_s, bytes FROM words "
			    "WHERE class = "
			    "$1 "
			    "AND (type, key, cand, board) > ($2, $3, $4, $5) ORDER BY type, key, cand, board "
			    "LIMIT $6",
			    DB_PARAMS(DB_T(s->cls), DB_I(atoi(s->last[0])), DB_T(s->last[1]),
				      DB_T(s->last[2]), DB_T(s->last[3]), DB_I(PAGE)),
			    on_word, s);
	return rc;
}

static int on_held(void *ctx, const struct db_value *col, int n)
{
	struct class_words *s = ctx;
	(void)n;
	if (!more_room(&s->a, (void **)&s->held, s->nheld, &s->room_held, sizeof *s->held))
		return E_NOMEM;
	struct held *h = &s->held[s->nheld];
	*h = (struct held){.channel = (enum channel)col[0].i,
			   .type = (enum cache_type)col[1].i,
			   .since_s = col[4].i,
			   .now = col[5].i != 0,
			   .median_ns = col[6].i};
	s->nheld += col[0].i >= 0 && col[0].i < CHANNELS && key_parse(col[2].p, &h->key) >= 0 &&
		    key_parse(col[3].p, &h->cand) >= 0;
	return E_OK;
}

static int on_left(void *ctx, const struct db_value *col, int n)
{
	struct class_words *s = ctx;
	int board = find_board(s->r, col[0].p);
	(void)n;
	if (board >= 0)
		s->share[board].was = col[1].i;
	return E_OK;
}

static int by_said(const void *a, const void *b)
{
	const struct said *x = a, *y = b;
	int o = (x->said_s > y->said_s) - (x->said_s < y->said_s);
	return o ? o : (x->w.cand.hi > y->w.cand.hi) - (x->w.cand.hi < y->w.cand.hi);
}

static int load(struct class_words *s)
{
	int rc = load_words(s);
	if (rc >= 0)
		rc = db_exec(
		    s->r->c,
		    "SELECT channel, type, key, cand, since_s, now, median_ns FROM shown WHERE class = $1",
		    DB_PARAMS(DB_T(s->cls)), on_held, s);
	if (rc < 0)
		return rc;
	if (s->nsaid)
		qsort(s->said, (size_t)s->nsaid, sizeof *s->said, by_said);
	size_t boards = (size_t)s->r->nboard + 1;
	s->word = arena_try(&s->a, (size_t)s->nsaid + 1, sizeof *s->word);
	s->stays = arena_try(&s->a, (size_t)s->nheld + 1, sizeof *s->stays);
	s->score = arena_try(&s->a, boards, sizeof *s->score);
	s->share = arena_try(&s->a, boards, sizeof *s->share);
	if (!s->word || !s->stays || !s->score || !s->share)
		return E_NOMEM;
	for (int i = 0; i < s->nsaid; i++)
		s->word[i] = s->said[i].w;
	return db_exec(s->r->c, "SELECT board, n FROM left_out WHERE class = $1", DB_PARAMS(DB_T(s->cls)),
		       on_left, s);
}

static int count(struct class_words *s)
{
	const struct round *r = s->r;
	const struct fleet_conf *f = &r->f->c;
	bool *revoked = arena_try(&s->a, (size_t)r->nboard + 1, sizeof *revoked);
	if (!revoked)
		return E_NOMEM;
	for (int i = 0; i < r->nboard; i++)
		revoked[i] = r->board[i].revoked;
	struct aggregate_in in = {.word = s->word,
				  .nword = s->nsaid,
				  .nboard = r->nboard,
				  .revoked = revoked,
				  .record = r->record,
				  .nrecord = r->nrecord,
				  .held = s->held,
				  .nheld = s->nheld,
				  .rules = {.tolerance = (double)f->tolerance_pct / 100,
					    .stage_s = fleet_stage_s(f),
					    .now_s = r->now_s}};
	memcpy(in.rules.quorum, f->quorum, sizeof in.rules.quorum);
	s->nagreed = aggregate(&in, &s->a, &s->agreed, s->score);
	return s->nagreed;
}

/* Leaves out records for lack of room. */

/* Sorts by channel, then records of more boards first, then those that are there already. */
static int by_claim(const void *a, const void *b)
{
	const struct agreed *x = *(const struct agreed *const *)a, *y = *(const struct agreed *const *)b;
	int o = (int)x->channel - (int)y->channel;
	o = o ? o : (x->boards < y->boards) - (x->boards > y->boards);
	o = o ? o : (x->held < 0) - (y->held < 0);
	return o ? o : (x > y) - (x < y);
}

static bool has_room(struct share *x, const struct agreed *g, int64_t bytes, int64_t used)
{
	bool lone = g->boards == 1;
	if (used + bytes > CHANNEL_BYTES ||
	    (lone && (x->lone >= LONE_MOST || x->lone_bytes + bytes > LONE_BYTES))) {
		x->left++;
		x->left_bytes += bytes;
		return false;
	}
	x->lone += lone;
	x->lone_bytes += lone ? bytes : 0;
	return true;
}

static int leave_out(struct class_words *s)
{
	const struct agreed **g = arena_try(&s->a, (size_t)s->nagreed + 1, sizeof *g);
	int64_t used = 0;
	s->out = arena_try(&s->a, (size_t)s->nagreed + 1, sizeof *s->out);
	if (!g || !s->out)
		return E_NOMEM;
	for (int i = 0; i < s->nagreed; i++)
		g[i] = &s->agreed[i];
	qsort(g, (size_t)s->nagreed, sizeof *g, by_claim);
	for (int i = 0; i < s->nagreed; i++) {
		if (i && g[i]->channel != g[i - 1]->channel) {
			used = 0;
			for (int b = 0; b < s->r->nboard; b++)
				s->share[b].lone = 0, s->share[b].lone_bytes = 0;
		}
		int64_t bytes = s->said[g[i]->from].bytes - STORE_ROW + TIMES;
		bool fits = has_room(&s->share[s->word[g[i]->from].board], g[i], bytes, used);
		used += fits ? bytes : 0;
		s->out[g[i] - s->agreed] = !fits;
	}
	return E_OK;
}

/* The plain lines of one word, sorted, so that boards with the same line follow each other. */
struct found {
	const struct class_words *s;
	char *line, *most; /* the present line; the line of most boards */
	int n, nmost, boards;
};

static int on_line(void *ctx, const struct db_value *col, int n)
{
	struct found *f = ctx;
	const struct round *r = f->s->r;
	int board = find_board(r, col[0].p);
	(void)n;
	if (board < 0 || r->board[board].revoked || f->s->score[board].struck)
		return E_OK;
	if (!f->line || strcmp(f->line, col[1].p) != 0) {
		if (f->line != f->most)
			free(f->line);
		f->line = strdup(col[1].p);
		f->n = 0;
	}
	f->boards++;
	if (!f->line || ++f->n <= f->nmost)
		return f->line ? E_OK : E_NOMEM;
	if (f->most != f->line)
		free(f->most);
	f->most = f->line;
	f->nmost = f->n;
	return E_OK;
}

static void free_found(struct found *f)
{
	if (f->line != f->most)
		free(f->line);
	free(f->most);
}

static int write_shown(struct class_words *s, struct db_conn *c, const struct agreed *g, const char *line)
{
	char key[33], cand[33];
	key_text(g->key, key);
	key_text(g->cand, cand);
	return db_exec(
	    c,
	    "INSERT INTO shown (class, channel, type, key, cand, since_s, now, median_ns, boards, line) "
	    "VALUES "
	    "($1, $2, $3, $4, $5, $6, 1, $7, $8, $9) ON CONFLICT (class, channel, type, key, cand) DO UPDATE "
	    "SET "
	    "now = 1, median_ns = excluded.median_ns, boards = excluded.boards, line = excluded.line",
	    DB_PARAMS(DB_T(s->cls), DB_I(g->channel), DB_I(g->type), DB_T(key), DB_T(cand), DB_I(s->r->now_s),
		      DB_I(g->median_ns), DB_I(g->boards), DB_T(line)),
	    NULL, NULL);
}

/* Finds the line to publish: the one that most boards say byte for byte, which must be as many as the
 * channel's quorum. A word's key and cand are hashes of its text, so no other text should have them; if no
 * text reaches the quorum, none is published. */
static int read_line(struct class_words *s, struct db_conn *c, const struct agreed *g, struct found *f)
{
	char key[33], cand[33];
	key_text(g->key, key);
	key_text(g->cand, cand);
	*f = (struct found){.s = s};
	return db_exec(
	    c,
	    "SELECT board, line FROM words WHERE class = $1 AND type = $2 AND key = $3 AND cand = $4 AND "
	    "failed = 0 AND median_ns BETWEEN $5 AND $6 ORDER BY line",
	    DB_PARAMS(DB_T(s->cls), DB_I(g->type), DB_T(key), DB_T(cand), DB_I(g->low_ns), DB_I(g->high_ns)),
	    on_line, f);
}

static int show(struct class_words *s, struct db_conn *c, const struct agreed *g)
{
	struct found f;
	struct agreed said = *g;
	char cand[33];
	int rc = read_line(s, c, g, &f), quorum = s->r->f->c.quorum[g->channel];
	said.boards = g->boards < f.nmost ? g->boards : f.nmost;
	char *line = rc >= 0 && f.nmost >= (quorum > 1 ? quorum : 1) ? line_publish(&said, f.most) : NULL;
	key_text(g->cand, cand);
	if (rc >= 0 && f.nmost < f.boards)
		log_error("class %s: record %s: boards say different texts, %d of them one, %d others; "
			  "revoke the boards that lie",
			  s->cls, cand, f.nmost, f.boards - f.nmost);
	if (rc >= 0 && !line)
		log_error("class %s: record %s is left out: it cannot be read, or too few boards "
			  "say it in the "
			  "same text",
			  s->cls, cand);
	if (rc >= 0 && line)
		rc = write_shown(s, c, &said, line);
	free(line);
	free_found(&f);
	return rc < 0 ? rc : E_OK;
}

static int hide(struct class_words *s, struct db_conn *c, const struct held *h)
{
	char key[33], cand[33];
	key_text(h->key, key);
	key_text(h->cand, cand);
	return db_exec(
	    c,
	    "UPDATE shown SET now = 0, line = '' WHERE class = $1 AND channel = $2 AND type = $3 AND key = "
	    "$4 AND cand = $5",
	    DB_PARAMS(DB_T(s->cls), DB_I(h->channel), DB_I(h->type), DB_T(key), DB_T(cand)), NULL, NULL);
}

static bool frozen(const struct round *r, enum channel c)
{
	return r->stop && c != CHANNEL_CANARY;
}

/* First hides records that are not agreed on as they are, since one may be shown again with another time. */
static int write_channels(struct class_words *s, struct db_conn *c)
{
	int rc = E_OK;
	for (int i = 0; i < s->nheld; i++)
		s->stays[i] = !s->held[i].now || frozen(s->r, s->held[i].channel);
	for (int i = 0; i < s->nagreed; i++)
		if (s->agreed[i].held >= 0 && !s->out[i])
			s->stays[s->agreed[i].held] = true;
	for (int i = 0; i < s->nheld && rc >= 0; i++)
		rc = s->stays[i] ? E_OK : hide(s, c, &s->held[i]);
	for (int i = 0; i < s->nagreed && rc >= 0; i++) {
		const struct agreed *g = &s->agreed[i];
		if (g->held < 0 && !frozen(s->r, g->channel) && !s->out[i])
			rc = show(s, c, g);
	}
	return rc;
}

static int write_scores(struct class_words *s, struct db_conn *c)
{
	int rc = E_OK;
	for (int i = 0; i < s->r->nboard && rc >= 0; i++) {
		const struct round_member *m = &s->r->board[i];
		const struct cand_score *x = &s->score[i];
		if (strcmp(m->cls, s->cls) ||
		    (m->words == x->words && m->good == x->good && m->struck == x->struck))
			continue;
		rc = db_exec(c, "UPDATE boards SET words = $2, good = $3, struck = $4 WHERE id = $1",
			     DB_PARAMS(DB_T(m->id), DB_I(x->words), DB_I(x->good), DB_I(x->struck)), NULL,
			     NULL);
		if (x->struck && !m->struck)
			log_info("hone-fleet: board %s is struck out: of its words, only %d of %d agree "
				 "with other boards",
				 m->id, x->good, x->words);
	}
	return rc;
}

static int write_left(struct class_words *s, struct db_conn *c)
{
	int rc = E_OK;
	for (int i = 0; i < s->r->nboard && rc >= 0; i++) {
		const struct share *x = &s->share[i];
		const char *id = s->r->board[i].id;
		if (x->left == x->was)
			continue;
		rc = x->left ? db_exec(c,
				       "INSERT INTO left_out (class, board, n, bytes, since_s) VALUES ($1, "
				       "$2, $3, $4, $5) "
				       "ON CONFLICT (class, board) DO UPDATE SET n = excluded.n, bytes = "
				       "excluded.bytes",
				       DB_PARAMS(DB_T(s->cls), DB_T(id), DB_I(x->left), DB_I(x->left_bytes),
						 DB_I(s->r->now_s)),
				       NULL, NULL)
			     : db_exec(c, "DELETE FROM left_out WHERE class = $1 AND board = $2",
				       DB_PARAMS(DB_T(s->cls), DB_T(id)), NULL, NULL);
	}
	return rc;
}

/* Tells the operator about boards of which more is left out than before. */
static void tell_left(const struct class_words *s)
{
	char why[160];
	for (int i = 0; i < s->r->nboard; i++) {
		const struct share *x = &s->share[i];
		if (x->left <= x->was)
			continue;
		snprintf(why, sizeof why,
			 "class %s has no room for %" PRId64 " more record%s of this board (%" PRId64
			 " bytes)",
			 s->cls, x->left, plural_s(x->left), x->left_bytes);
		log_error("board %s: %s: they are left out; revoke it if they are nonsense",
			  s->r->board[i].id, why);
		fleet_refused(s->r->f, COUNT_ROOM, NULL, s->r->board[i].id, why);
	}
}

static int write_all(struct db_conn *c, void *ctx)
{
	int rc = write_channels(ctx, c);
	if (rc >= 0)
		rc = write_left(ctx, c);
	return rc < 0 ? rc : write_scores(ctx, c);
}

int round_words(struct round *r, const char *cls)
{
	struct class_words s = {.r = r, .cls = cls, .last = {"0"}};
	int rc = load(&s);
	if (rc >= 0)
		rc = count(&s);
	if (rc >= 0)
		rc = leave_out(&s);
	if (rc >= 0)
		rc = store_do(r->c, write_all, &s);
	if (rc >= 0)
		tell_left(&s);
	arena_free(&s.a);
	return rc;
}
