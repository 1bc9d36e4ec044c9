/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet token, boards, rename, revoke: they work on the database that hone-fleet serve made, whether a
 * server runs or not. */
#include "tools/fleet/fleet_verbs.h"
#include "agent/cache/json.h"
#include "agent/sync/sync.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include "tools/fleet/fleet_conf.h"
#include "tools/fleet/fleet_store.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct work {
	struct arena a;
	struct fleet_conf conf;
	struct db_conn *c;
};

void fleet_command(const struct args *args, const struct cmd *to, struct buf *out)
{
	next_program(out);
	buf_printf(out, " %s", to->name);
	for (const struct opt *o = to->opts; o->name; o++)
		arg_again(args, o->name, to, out);
}

static bool is_missing(const char *path)
{
	return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

bool fleet_lacks_keys(const char *keys)
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s/ca.key", keys) < (int)sizeof path && is_missing(path);
}

static int fail_missing(const struct args *args, const struct fleet_conf *c)
{
	struct buf serve = {0}, init = {0};
	fleet_command(args, &fleet_cmd_serve, &serve);
	if (fleet_lacks_keys(c->keys)) {
		buf_puts(&init, ", once `");
		fleet_command(args, &fleet_cmd_init, &init);
		buf_printf(&init, "` has made keys in %s", c->keys);
	}
	int rc =
	    fail(E_NOTFOUND,
		 "there is no database %s; `%s` creates it%s, or give the one that the server uses with --db",
		 c->db, buf_str(&serve), buf_str(&init));
	buf_free(&serve);
	buf_free(&init);
	return rc;
}

/* Checks that a database that is a file is there, and that its folder lets this user look. */
static int find_database(const struct args *args, const struct fleet_conf *c)
{
	if (strstr(c->db, "://") || *c->db == ':' || file_exists(c->db))
		return E_OK;
	if (is_missing(c->db))
		return fail_missing(args, c);
	return fail(E_IO, "database %s: %s; start hone-fleet as the user who runs the server, or as root",
		    c->db, strerror(errno));
}

/* Opens the database that the server made: opening a mistyped file would make an empty one. */
static int begin(const struct args *args, struct work *w)
{
	int rc = fleet_conf_of(args, &w->conf, &w->a);
	if (rc >= 0)
		rc = find_database(args, &w->conf);
	if (rc >= 0)
		rc = crypto_start();
	return rc < 0 ? rc : store_database(w->conf.db, &w->c);
}

void fleet_next(const struct args *args, const struct cmd *to, const char *more)
{
	struct buf b = {0};
	buf_printf(&b, "Next: hone-fleet %s", to->name);
	for (const struct opt *o = to->opts; o->name; o++)
		arg_again(args, o->name, to, &b);
	buf_puts(&b, more);
	next_take(&b);
}

static void end(struct work *w)
{
	db_close(w->c);
	arena_free(&w->a);
}

/* Logs who did what, in the log of administration. */
static int note(struct work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int note(struct work *w, const char *fmt, ...)
{
	char what[256], who[64];
	uint64_t id;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	const struct passwd *user = getpwuid(getuid());
	snprintf(who, sizeof who, "user %s", user ? user->pw_name : "unknown");
	int rc = crypto_random(&id, sizeof id);
	return rc < 0 ? rc : store_admin(w->c, who, what, (int64_t)time(NULL) * 1000000, id);
}

/* Tokens. */

static int make_token(const struct args *args, struct work *w)
{
	char token[TOKEN_TEXT];
	int64_t now = time(NULL), uses = arg_int(args, "uses", 1),
		left_s = arg_duration(args, "expires", 24 * 3600 * NS_PER_S) / NS_PER_S;
	if (uses < 1 || uses > 1000000)
		return fail(E_USAGE, "--uses %" PRId64 ": must be 1 to 1000000", uses);
	if (left_s < 60 || left_s > INT64_C(3660) * 86400)
		return fail(E_USAGE, "--expires must be 1m to 3660d");
	const char *about = arg_str(args, "note", "");
	char left[DURATION_TEXT];
	duration_print(left_s * NS_PER_S, left);
	int rc = store_token_make(w->c, about, now, now + left_s, (int)uses, token);
	if (rc >= 0)
		rc = note(w, "token for %" PRId64 " board%s, for %s%s%s", uses, plural_s(uses), left,
			  *about ? ": " : "", about);
	if (rc < 0)
		return rc;
	if (args->json)
		return json_out(json_pack("{s:s,s:I,s:I}", "token", token, "boards_at_most", (json_int_t)uses,
					  "expires_s", (json_int_t)(now + left_s)));
	puts(token);
	log_info(
	    "hone-fleet: this token is for %" PRId64
	    " board%s, and is not shown again. Put it into the file that `token` in [sync] of honed.conf "
	    "names",
	    uses, plural_s(uses));
	return E_OK;
}

static int run_token(const struct args *args)
{
	struct work w = {0};
	int rc = begin(args, &w);
	if (rc >= 0)
		rc = make_token(args, &w);
	end(&w);
	return rc;
}

static const struct opt token_opts[] = {
    {"uses", OPT_INT, "1", "boards that may join with it"},
    {"expires", OPT_DURATION, "24h", "how long it is valid"},
    {"note", OPT_STR, "TEXT", "what it is for: the log of administration shows it"},
    FLEET_OPT_DB,
    FLEET_OPT_CONFIG,
    FLEET_OPT_STATE,
    {NULL},
};

const struct cmd fleet_cmd_token = {
    .usage = "[--uses N] [--expires TIME]",
    .summary = "make a token with which boards join",
    .details = "Prints the token on standard output; the database keeps only its hash.",
    .max_pos = 0,
    .opts = token_opts,
    .run = run_token,
    .name = "token",
};

/* Boards. */

static const char *day_of(int64_t s, char out[16])
{
	time_t t = (time_t)s;
	struct tm tm;
	if (!s || !gmtime_r(&t, &tm) || !strftime(out, 16, "%Y-%m-%d", &tm))
		strcpy(out, "-");
	return out;
}

static int print_board(void *ctx, const struct store_board *b)
{
	char came[16], last[16];
	struct table *t = ctx;
	table_cell(t, "%s", b->id);
	table_cell(t, "%s", b->name);
	table_cell(t, "%s", day_of(b->enrolled_s, came));
	table_cell(t, "%s", day_of(b->last_s, last));
	table_cell(t, "%" PRId64, b->records);
	table_cell(t, "%s", b->revoked_s ? "revoked" : b->struck ? "struck out" : "good");
	table_cell(t, "%s", b->label);
	return E_OK;
}

static int pack_board(void *ctx, const struct store_board *b)
{
	json_t *j = json_pack("{s:s,s:o,s:s,s:o,s:I,s:I,s:I,s:I,s:b,s:b,s:o}", "id", b->id, "name",
			      json_text(b->name), "class", b->cls, "class_label", json_text(b->label),
			      "enrolled_s", (json_int_t)b->enrolled_s, "last_s", (json_int_t)b->last_s,
			      "batches", (json_int_t)b->batches, "records", (json_int_t)b->records, "revoked",
			      b->revoked_s != 0, "struck", b->struck, "why", json_text(b->why));
	return json_array_append_new(ctx, j) < 0 ? fail(E_NOMEM, "no memory for the JSON") : E_OK;
}

static int print_boards(const struct args *args, struct work *w)
{
	static const char *const head[] = {"board", "name", "joined", "last", "sent", "state", "machine"};
	struct table t = {.align = "llllrll"};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	int rc = store_boards(w->c, print_board, &t);
	table_print(&t, args->color);
	if (rc == 0) {
		log_info("hone-fleet: no board has joined yet; a board joins with a token");
		fleet_next(args, &fleet_cmd_token, "");
	}
	return rc;
}

static int pack_boards(struct work *w)
{
	json_t *list = json_array();
	int rc = store_boards(w->c, pack_board, list);
	if (rc >= 0)
		rc = json_out(json_pack("{s:O}", "boards", list));
	json_decref(list);
	return rc;
}

static int run_boards(const struct args *args)
{
	struct work w = {0};
	int rc = begin(args, &w);
	if (rc >= 0)
		rc = args->json ? pack_boards(&w) : print_boards(args, &w);
	end(&w);
	return rc < 0 ? rc : 0;
}

static const struct opt db_opts[] = {FLEET_OPT_DB, FLEET_OPT_CONFIG, FLEET_OPT_STATE, {NULL}};

const struct cmd fleet_cmd_boards = {
    .usage = "",
    .summary = "list the boards that joined",
    .details = "sent: records, choices and histories that the board sent, each as often as it sent it.",
    .max_pos = 0,
    .opts = db_opts,
    .run = run_boards,
    .name = "boards",
};

/* Finds a board by its name, its id, or the first digits of its id. */

enum { MOST_NAMED = 4, LEAST_DIGITS = 4 };

struct wanted {
	const char *name, *digits; /* the word; digits NULL: it names a board */
	int n;                     /* boards of that name, or whose ids begin so */
	char id[KEY_ID_HEX + 1];   /* of the first */
	char ids[MOST_NAMED * (KEY_ID_HEX + 2) + 1];
};

static int compare_board(void *ctx, const struct store_board *b)
{
	struct wanted *w = ctx;
	size_t n = strlen(w->ids);
	if (w->digits ? strncmp(b->id, w->digits, strlen(w->digits)) : strcmp(b->name, w->name))
		return E_OK;
	if (w->n < MOST_NAMED)
		snprintf(w->ids + n, sizeof w->ids - n, "%s%s", n ? ", " : "", b->id);
	if (w->n++ == 0)
		snprintf(w->id, sizeof w->id, "%s", b->id);
	return E_OK;
}

static int find_board(struct work *w, const char *word, char id[KEY_ID_HEX + 1])
{
	struct key key;
	struct wanted wanted = {.name = word};
	if (key_parse(word, &key) >= 0) {
		key_text(key, id);
		return E_OK;
	}
	size_t n = strlen(word);
	int rc = store_boards(w->c, compare_board, &wanted);
	if (rc >= 0 && !wanted.n && n >= LEAST_DIGITS && strspn(word, "0123456789abcdef") == n) {
		wanted.digits = word;
		rc = store_boards(w->c, compare_board, &wanted);
	}
	if (rc < 0)
		return rc;
	if (wanted.n > 1)
		return fail(E_USAGE, "%d boards %s '%s': give the id of one, %s%s", wanted.n,
			    wanted.digits ? "have ids that begin with" : "are called", word, wanted.ids,
			    wanted.n > MOST_NAMED ? ", or another of hone-fleet boards" : "");
	if (!wanted.n)
		return fail(
		    E_NOTFOUND,
		    "no board is called '%.80s', and no id begins so; `hone-fleet boards` shows names "
		    "and ids",
		    word);
	memcpy(id, wanted.id, sizeof wanted.id);
	return E_OK;
}

/* Renaming: boards keep the name with which they joined. */

struct others {
	const char *name, *than;
	char id[KEY_ID_HEX + 1]; /* of another board of that name; "": there is none */
};

static int compare_others(void *ctx, const struct store_board *b)
{
	struct others *o = ctx;
	if (!strcmp(b->name, o->name) && strcmp(b->id, o->than))
		snprintf(o->id, sizeof o->id, "%s", b->id);
	return E_OK;
}

/* Boards may join by one name, but no operator gives a name twice: commands could not use it then. */
static int check_unused(struct work *w, const char *id, const char *name)
{
	struct others o = {.name = name, .than = id};
	int rc = store_boards(w->c, compare_others, &o);
	return rc < 0    ? rc
	       : o.id[0] ? fail(E_USAGE, "board %s is called %s already: choose another name", o.id, name)
			 : E_OK;
}

static int rename_one(const struct args *args, struct work *w)
{
	char text[KEY_ID_HEX + 1];
	const char *name = args->pos[1];
	if (!sync_name_good(name))
		return fail(E_USAGE,
			    "'%.80s' cannot name a board: use 1 to 63 letters, digits, '-', '.', '_'", name);
	int rc = find_board(w, args->pos[0], text);
	if (rc >= 0)
		rc = check_unused(w, text, name);
	if (rc >= 0)
		rc = store_rename(w->c, text, name);
	if (rc >= 0)
		rc = note(w, "board renamed %s: %s", text, name);
	if (rc >= 0 && args->json)
		return json_out(json_pack("{ss ss}", "board", text, "name", name));
	if (rc >= 0)
		log_info("hone-fleet: board %s is now called %s here; the board itself shows that after its next upload, "
			 "and its former name as long as it uploads nothing (upload = no)",
			 text, name);
	return rc;
}

static int run_rename(const struct args *args)
{
	struct work w = {0};
	int rc = begin(args, &w);
	if (rc >= 0)
		rc = rename_one(args, &w);
	end(&w);
	return rc < 0 ? rc : 0;
}

const struct cmd fleet_cmd_rename = {
    .usage = "BOARD NAME",
    .summary = "give a board another name",
    .details =
	"A board joins by its host name, or by name in [sync] of its honed.conf; lists and pages show it\n"
	"beside the board's id. BOARD is its id, the first digits of it, or its present\n"
	"name if no other board has it. NAME must be no other board's. The board learns it\n"
	"with the answer to its next upload, and shows the former one until then: a board with\n"
	"upload = no goes on with that.",
    .min_pos = 2,
    .max_pos = 2,
    .opts = db_opts,
    .run = run_rename,
    .name = "rename",
};

/* Revoking. */

static int check_revoked(struct work *w, const char *id)
{
	struct store_board b;
	int rc = store_board(w->c, id, &b);
	return rc < 0 || b.revoked_s ? rc : fail(E_USAGE, "board %s (%s) is not revoked", id, b.name);
}

static int revoke_one(const struct args *args, struct work *w)
{
	struct key key;
	char text[KEY_ID_HEX + 1] = "";
	const bool record = arg_flag(args, "record"), undo = arg_flag(args, "undo");
	const char *why = arg_str(args, "why", "");
	if (record && key_parse(args->pos[0], &key) < 0)
		return fail(E_USAGE, "'%s' is not a record's id: 32 hex digits", args->pos[0]);
	if (!undo && !*why)
		return fail(E_USAGE, "missing option --why TEXT: the log and the page show the reason");
	int rc = record ? E_OK : find_board(w, args->pos[0], text);
	if (record)
		key_text(key, text);
	if (rc >= 0 && undo && !record)
		rc = check_revoked(w, text);
	if (rc >= 0)
		rc = record ? store_revoke_record(w->c, text, undo ? NULL : why, time(NULL))
			    : store_revoke(w->c, text, undo ? NULL : why, time(NULL));
	if (rc >= 0)
		rc = note(w, "%s%s %s: %s", record ? "record" : "board",
			  undo ? " no longer revoked" : " revoked", text, why);
	if (rc >= 0 && args->json)
		return json_out(json_pack("{ss sb}", record ? "record" : "board", text, "revoked", !undo));
	if (rc >= 0)
		log_info("hone-fleet: %s %s is %s; the next snapshot says so", record ? "record" : "board",
			 text, undo ? "no longer revoked" : "revoked");
	return rc;
}

static int run_revoke(const struct args *args)
{
	struct work w = {0};
	int rc = begin(args, &w);
	if (rc >= 0)
		rc = revoke_one(args, &w);
	end(&w);
	return rc < 0 ? rc : 0;
}

static const struct opt revoke_opts[] = {
    {"why", OPT_STR, "TEXT", "reason, for the page and the log"},
    {"record", OPT_FLAG, NULL, "BOARD is the id of a record"},
    {"undo", OPT_FLAG, NULL, "take a revocation back"},
    FLEET_OPT_DB,
    FLEET_OPT_CONFIG,
    FLEET_OPT_STATE,
    {NULL},
};

const struct cmd fleet_cmd_revoke = {
    .usage = "BOARD --why TEXT | BOARD --undo",
    .summary = "revoke a board or a record, or take that back",
    .details = "The server refuses what a revoked board sends, and no longer counts what it sent before. "
	       "Boards do not use a revoked record. BOARD is an id, the first\n"
	       "digits of one, or a name that only one board has.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = revoke_opts,
    .run = run_revoke,
    .name = "revoke",
};
