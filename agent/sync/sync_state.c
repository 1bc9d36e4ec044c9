/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_state.h"

#include "agent/cache/json.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/machine/sysfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_USE_NS (INT64_MAX / 4)
enum { MOST_JSON = 16 << 10, MOST_TAKEN = SNAPSHOT_BLOBS * 65 };

const char *state_path(const struct sync_state *s, const char *name)
{
	static char path[4][PATH_MAX];
	static int turn;
	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof *path, "%s/%s", s->folder, name);
	return path[turn];
}

enum kind { K_NUMBER, K_BOOL, K_TEXT };

#define AT(field) offsetof(struct sync_state, field)
#define TEXT(field) AT(field), sizeof((struct sync_state *)0)->field
static const struct {
	char name[12];
	uint8_t kind;
	uint16_t at, room;
} fields[] = {
    {"boot", K_TEXT, TEXT(boot)},
    {"before_ns", K_NUMBER, AT(before_ns)},
    {"seen_ns", K_NUMBER, AT(seen_ns)},
    {"next_ns", K_NUMBER, AT(pace.next_ns)},
    {"day", K_NUMBER, AT(pace.day)},
    {"day_bytes", K_NUMBER, AT(pace.bytes)},
    {"chosen", K_BOOL, AT(chosen)},
    {"quiet_ns", K_NUMBER, AT(quiet_ns)},
    {"of", K_TEXT, TEXT(of)},
    {"etag", K_TEXT, TEXT(etag)},
    {"doc", K_TEXT, TEXT(doc)},
    {"cache", K_TEXT, TEXT(cache)},
    {"serial", K_NUMBER, AT(serial)},
    {"made_s", K_NUMBER, AT(made_s)},
    {"expires_s", K_NUMBER, AT(expires_s)},
    {"poll_s", K_NUMBER, AT(poll_s)},
    {"token_ns", K_NUMBER, AT(token_ns)},
    {"push_from", K_NUMBER, AT(push_from)},
    {"fresh_ns", K_NUMBER, AT(fresh_ns)},
    {"ran_s", K_NUMBER, AT(ran_s)},
    {"offline", K_BOOL, AT(offline)},
    {"overdue", K_BOOL, AT(stale)},
    {"revoked", K_BOOL, AT(revoked)},
    {"error", K_TEXT, TEXT(error)},
    {"board", K_TEXT, TEXT(board)},
    {"joined", K_TEXT, TEXT(joined)},
    {"taken", K_NUMBER, AT(taken)},
    {"choices", K_NUMBER, AT(choices)},
    {"refused", K_NUMBER, AT(refused)},
    {"sent", K_NUMBER, AT(sent)},
    {"down_bytes", K_NUMBER, AT(down_bytes)},
    {"up_bytes", K_NUMBER, AT(up_bytes)},
};
enum { NFIELDS = sizeof fields / sizeof *fields };

static void field_read(struct sync_state *s, int i, const json_t *v)
{
	void *at = (char *)s + fields[i].at;
	if (fields[i].kind == K_NUMBER && json_is_integer(v) && json_integer_value(v) >= 0)
		*(int64_t *)at = json_integer_value(v);
	else if (fields[i].kind == K_BOOL)
		*(bool *)at = json_is_true(v);
	else if (fields[i].kind == K_TEXT && json_is_string(v))
		snprintf(at, fields[i].room, "%s", json_string_value(v));
}

static json_t *field_json(const struct sync_state *s, int i)
{
	const void *at = (const char *)s + fields[i].at;
	return fields[i].kind == K_NUMBER ? json_integer(*(const int64_t *)at)
	       : fields[i].kind == K_BOOL ? json_boolean(*(const bool *)at)
					  : json_text(at);
}

void state_glance(struct sync_state *s, const char *folder)
{
	struct arena a = {0};
	struct blob b;
	*s = (struct sync_state){0};
	snprintf(s->folder, sizeof s->folder, "%s", folder);
	int rc = file_read(&a, state_path(s, "sync.json"), MOST_JSON, &b);
	json_t *j = rc < 0 ? NULL : json_loadb(b.p, b.n, JSON_REJECT_DUPLICATES, NULL);
	if (!j && rc != E_NOTFOUND)
		log_info("hone-sync: cannot read %s: starting a new one", state_path(s, "sync.json"));
	for (int i = 0; i < NFIELDS; i++)
		field_read(s, i, json_object_get(j, fields[i].name));
	json_int_t failures = json_integer_value(json_object_get(j, "failures"));
	if (s->before_ns > MOST_USE_NS || s->seen_ns > MOST_USE_NS)
		s->before_ns = s->seen_ns = 0;
	s->pace.failures = failures > 0 && failures < 1000 ? (int)failures : 0;
	json_decref(j);
	arena_free(&a);
}

int state_save(const struct sync_state *s)
{
	json_t *j = json_object();
	int bad = json_object_set_new(j, "failures", json_integer(s->pace.failures));
	for (int i = 0; i < NFIELDS; i++)
		bad |= json_object_set_new(j, fields[i].name, field_json(s, i));
	char *text = bad ? NULL : json_dumps(j, JSON_COMPACT);
	json_decref(j);
	int rc = text ? file_write(state_path(s, "sync.json"), text, strlen(text))
		      : fail(E_NOMEM, "no memory for the result of this run");
	free(text);
	return rc;
}

/* Reads the hashes of taken blobs; lines that are cut or not a hash are skipped. */
static void read_taken(struct sync_state *s, struct arena *a)
{
	struct blob b;
	if (file_read(a, state_path(s, "taken"), MOST_TAKEN, &b) < 0)
		return;
	s->blob = malloc(sizeof *s->blob * SNAPSHOT_BLOBS);
	const char *p = b.p, *end = p + b.n;
	for (; s->blob && end - p >= 65 && s->nblob < SNAPSHOT_BLOBS; p += 65) {
		char hex[65] = "";
		memcpy(hex, p, 64);
		if (p[64] == '\n' && hex_read(hex, SHA256_BYTES, s->blob[s->nblob].b) >= 0)
			s->nblob++;
	}
}

int state_open(struct sync_state *s, const char *folder)
{
	struct arena a = {0};
	char blobs[PATH_MAX];
	if (strlen(folder) >= sizeof s->folder)
		return fail(E_USAGE, "the path %s is too long", folder);
	state_glance(s, folder);
	int rc = file_mkdirs(folder, 0755);
	snprintf(blobs, sizeof blobs, "%s", state_path(s, "blob"));
	if (rc >= 0)
		rc = file_mkdirs(blobs, 0700);
	read_taken(s, &a);
	arena_free(&a);
	return rc;
}

void state_free(struct sync_state *s)
{
	free(s->blob);
	s->blob = NULL;
	s->nblob = 0;
}

int64_t state_use(struct sync_state *s, const struct sync_now *now)
{
	int64_t clock_ns = clock_now(now->clock);
	if (strcmp(s->boot, now->boot) || clock_ns < s->seen_ns) {
		snprintf(s->boot, sizeof s->boot, "%s", now->boot);
		s->before_ns += s->seen_ns;
		s->chosen = false;
	}
	s->seen_ns = clock_ns;
	return s->before_ns + clock_ns;
}

int64_t state_token(const struct sync_conf *c)
{
	struct stat st;
	if (!c->token || stat(c->token, &st) < 0)
		return 0;
	bool sane = st.st_mtim.tv_sec > 0 && (int64_t)st.st_mtim.tv_sec < INT64_MAX / NS_PER_S - 1;
	return sane ? st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : 1;
}

bool state_has_to_join(const struct sync_conf *c, const struct sync_state *s)
{
	return c->token && c->server && !sync_is_folder(c->server) && !file_exists(state_path(s, SYNC_CERT));
}

bool state_join_is_due(const struct sync_conf *c, const struct sync_state *s)
{
	int64_t token_ns = state_has_to_join(c, s) ? state_token(c) : 0;
	return token_ns && token_ns != s->token_ns;
}

int64_t state_next(const struct sync_conf *c, const struct sync_state *s)
{
	return s->quiet_ns > s->pace.next_ns || state_join_is_due(c, s) ? s->quiet_ns : s->pace.next_ns;
}

bool state_has_blob(const struct sync_state *s, const struct sha256 *h)
{
	for (int i = 0; i < s->nblob; i++)
		if (!memcmp(s->blob[i].b, h->b, sizeof h->b))
			return true;
	return false;
}

static int write_taken(const struct sync_state *s)
{
	struct buf b = {0};
	for (int i = 0; i < s->nblob; i++) {
		char hex[2 * SHA256_BYTES + 1];
		hex_write(s->blob[i].b, SHA256_BYTES, hex);
		buf_printf(&b, "%s\n", hex);
	}
	int rc = buf_ok(&b) ? file_write(state_path(s, "taken"), buf_str(&b), b.n)
			    : fail(E_NOMEM, "no memory for the list of imported records");
	buf_free(&b);
	return rc;
}

int state_add_blob(struct sync_state *s, const struct sha256 *h)
{
	if (!s->blob)
		s->blob = malloc(sizeof *s->blob * SNAPSHOT_BLOBS);
	if (!s->blob)
		return fail(E_NOMEM, "no memory for the list of imported records");
	if (s->nblob == SNAPSHOT_BLOBS) { /* full of blobs from unfinished snapshots: drops the oldest */
		memmove(s->blob, s->blob + 1, sizeof *s->blob * (SNAPSHOT_BLOBS - 1));
		s->nblob--;
	}
	s->blob[s->nblob++] = *h;
	return write_taken(s);
}

int state_keep_blobs(struct sync_state *s, const struct snapshot *of)
{
	int n = 0, before = s->nblob;
	for (int i = 0; i < before; i++)
		for (int k = 0; k < of->nblob; k++)
			if (!memcmp(s->blob[i].b, of->blob[k].sha256.b, SHA256_BYTES)) {
				s->blob[n++] = s->blob[i];
				break;
			}
	s->nblob = n;
	return n == before ? E_OK : write_taken(s);
}

void sync_boot(char *out, size_t n)
{
	if (!sysfile_line("", "/proc/sys/kernel/random/boot_id", out, n))
		log_more("hone-sync: the kernel tells no boot_id");
}

bool sync_status(const struct sync_conf *c, const struct sync_now *now, struct buf *out)
{
	struct sync_state s;
	state_glance(&s, sync_state_folder(c));
	int64_t use_ns = state_use(&s, now), at_ns = state_next(c, &s);
	json_t *j = s.ran_s || s.chosen || s.pace.next_ns ? json_object() : NULL;
	char *text;
	if (j) {
		int64_t wait_ns = s.chosen && at_ns > use_ns ? at_ns - use_ns : 0;
		char mine[SYNC_NAME];
		sync_board_name(c, NULL, s.board, mine);
		json_object_set_new(j, "name", json_text(mine));
		if (file_exists(state_path(&s, SYNC_CERT)))
			json_object_set_new(j, "joined",
					    json_text(sync_name_good(s.joined) ? s.joined : mine));
		json_object_set_new(j, "server", c->server ? json_text(c->server) : json_null());
		/* Without a server, which --folder does not need, there is no next run. */
		json_object_set_new(j, "next_s",
				    s.chosen && c->server ? json_integer(wait_ns / NS_PER_S) : json_null());
		json_object_set_new(j, "good", json_boolean(!s.error[0]));
		json_object_set_new(j, "failures", json_integer(s.pace.failures));
		for (const char *const *name =
			 (const char *const[]){"ran_s", "error", "offline", "overdue", "revoked", "serial",
					       "board", "taken", "choices", "refused", "sent", "down_bytes",
					       "up_bytes", NULL};
		     *name; name++)
			for (int i = 0; i < NFIELDS; i++)
				if (!strcmp(fields[i].name, *name))
					json_object_set_new(j, *name, field_json(&s, i));
		if (!s.error[0])
			json_object_set_new(j, "error", json_null());
	}
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	buf_puts(out, text ? text : "{}");
	bool some = text != NULL;
	free(text);
	json_decref(j);
	return some;
}

bool sync_failed(const struct sync_conf *c, char *why, size_t n)
{
	struct sync_state s;
	state_glance(&s, sync_state_folder(c));
	snprintf(why, n, "%s", s.offline ? "" : s.error);
	return *why;
}
