/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/snapshot.h"
#include "agent/cache/cache.h"
#include "agent/cache/json.h"
#include "search/share.h"
#include "platform/base/mix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t whole_most = INT64_C(1) << 53; /* largest integer that every JSON reader keeps exact */

enum channel channel_of(const char *board_id)
{
	enum { SEED = 0x63686e6c /* used for this draw only */ };
	return mix_bytes(board_id, strlen(board_id), SEED).lo % 10 == 0 ? CHANNEL_EARLY : CHANNEL_ALL;
}

static int blob_parse(const json_t *j, struct snapshot_blob *b)
{
	char hex[2 * SHA256_BYTES + 1];
	int rc = json_read_text(j, "kind", b->kind, sizeof b->kind);
	bool ours = rc >= 0 && !strcmp(b->kind, "records");
	if (rc >= 0)
		rc = json_read_whole(j, "bytes", 0, ours ? SNAPSHOT_BLOB : whole_most, &b->bytes);
	if (rc >= 0)
		rc = json_read_hex(j, "sha256", hex, 2 * SHA256_BYTES);
	return rc < 0 ? rc : hex_read(hex, SHA256_BYTES, b->sha256.b);
}

static int blobs_parse(const json_t *o, struct arena *a, struct snapshot *s)
{
	const json_t *list;
	int n = json_read_list(o, "blobs", SNAPSHOT_BLOBS, &list), rc = E_OK;
	if (n < 0)
		return n;
	s->blob = arena_try(a, (size_t)n + 1, sizeof *s->blob);
	if (!s->blob)
		return E_NOMEM;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = fail_in(blob_parse(json_array_get(list, (size_t)i), &s->blob[i]), "blob %d", i);
	s->nblob = n;
	return rc;
}

static int revoked_boards(const json_t *o, struct arena *a, struct snapshot *s)
{
	const json_t *list;
	int n = json_read_list(o, "boards", SNAPSHOT_REVOKED, &list);
	if (n < 0)
		return n;
	s->board = arena_try(a, (size_t)n + 1, sizeof *s->board);
	if (!s->board)
		return E_NOMEM;
	for (int i = 0; i < n; i++)
		if (!json_hex(json_array_get(list, (size_t)i), s->board[i], KEY_ID_HEX))
			return fail(E_CORRUPT, "revoked board %d is not the id of a key", i);
	s->nboard = n;
	return E_OK;
}

static int revoked_records(const json_t *o, struct arena *a, struct snapshot *s)
{
	char hex[33];
	const json_t *list;
	int n = json_read_list(o, "records", SNAPSHOT_REVOKED, &list);
	if (n < 0)
		return n;
	s->record = arena_try(a, (size_t)n + 1, sizeof *s->record);
	if (!s->record)
		return E_NOMEM;
	for (int i = 0; i < n; i++)
		if (!json_hex(json_array_get(list, (size_t)i), hex, 32) || key_parse(hex, &s->record[i]) < 0)
			return fail(E_CORRUPT, "revoked record %d is not the hash of a record", i);
	s->nrecord = n;
	return E_OK;
}

/* Gets an optional object; NULL if it is absent. */
static int part_of(const json_t *o, const char *name, const json_t **out)
{
	*out = json_object_get(o, name);
	return *out && !json_is_object(*out) ? fail(E_CORRUPT, "\"%s\" is not an object", name) : E_OK;
}

static int share_parse(const json_t *o, struct snapshot *s)
{
	const json_t *share;
	int64_t parts = 0;
	int rc = part_of(o, "share", &share);
	if (rc < 0 || !share)
		return rc;
	rc = json_read_whole(share, "parts", 0, SHARE_MOST_PARTS, &parts);
	s->parts = (int)parts;
	return rc < 0 || !parts ? rc : json_read_text(share, "salt", s->salt, sizeof s->salt);
}

static int head_parse(const json_t *o, struct snapshot *s)
{
	enum { YEAR_S = 366 * 86400 };
	char channel[16];
	int rc = json_read_hex(o, "class", s->cls, 32);
	if (rc >= 0)
		rc = json_read_text(o, "channel", channel, sizeof channel);
	if (rc >= 0)
		rc = channel_parse(channel, &s->channel);
	if (rc >= 0)
		rc = json_read_whole(o, "serial", 1, whole_most, &s->serial);
	if (rc >= 0)
		rc = json_read_whole(o, "made_s", 0, whole_most, &s->made_s);
	if (rc >= 0)
		rc = json_read_whole(o, "expires_s", s->made_s, whole_most, &s->expires_s);
	return rc < 0 ? rc : json_read_whole(o, "poll_s", 1, YEAR_S, &s->poll_s);
}

static int object_parse(const json_t *o, struct arena *a, struct snapshot *s)
{
	int64_t client = 0;
	const json_t *revoked;
	int rc = json_read_whole(o, "client", 1, INT32_MAX, &client);
	if (rc >= 0 && client > SNAPSHOT_CLIENT)
		rc = fail(E_UNSUPPORTED,
			  "it needs version %lld on the board, and this board has version %d; update hone",
			  (long long)client, SNAPSHOT_CLIENT);
	s->client = (int)client;
	if (rc >= 0)
		rc = head_parse(o, s);
	if (rc >= 0)
		rc = blobs_parse(o, a, s);
	if (rc >= 0)
		rc = part_of(o, "revoked", &revoked);
	if (rc >= 0)
		rc = revoked_boards(revoked, a, s);
	if (rc >= 0)
		rc = revoked_records(revoked, a, s);
	return rc < 0 ? rc : share_parse(o, s);
}

int snapshot_parse(const void *payload, size_t n, struct arena *a, struct snapshot *out)
{
	json_t *o;
	*out = (struct snapshot){0};
	if (n > SNAPSHOT_BYTES)
		return fail(E_CORRUPT, "snapshot: %zu bytes, more than the %d allowed", n, SNAPSHOT_BYTES);
	int rc = json_read(payload, n, &o);
	if (rc < 0)
		return fail_in(rc, "snapshot");
	rc = object_parse(o, a, out);
	json_decref(o);
	return fail_in(rc, "snapshot");
}

static json_t *blob_json(const struct snapshot_blob *b)
{
	char hex[2 * SHA256_BYTES + 1];
	hex_write(b->sha256.b, SHA256_BYTES, hex);
	return json_pack("{ss sI ss}", "kind", b->kind, "bytes", (json_int_t)b->bytes, "sha256", hex);
}

static json_t *revoked_json(const struct snapshot *s)
{
	json_t *boards = json_array(), *records = json_array();
	for (int i = 0; i < s->nboard; i++)
		json_array_append_new(boards, json_string(s->board[i]));
	for (int i = 0; i < s->nrecord; i++) {
		char hex[33];
		key_text(s->record[i], hex);
		json_array_append_new(records, json_string(hex));
	}
	return json_pack("{so so}", "boards", boards, "records", records);
}

static json_t *snapshot_json(const struct snapshot *s)
{
	json_t *blobs = json_array();
	for (int i = 0; i < s->nblob; i++)
		json_array_append_new(blobs, blob_json(&s->blob[i]));
	return json_pack("{ss ss sI sI sI si sI so so s{si ss}}", "class", s->cls, "channel",
			 channel_names[s->channel], "serial", (json_int_t)s->serial, "made_s",
			 (json_int_t)s->made_s, "expires_s", (json_int_t)s->expires_s, "client", s->client,
			 "poll_s", (json_int_t)s->poll_s, "blobs", blobs, "revoked", revoked_json(s), "share",
			 "parts", s->parts, "salt", s->salt);
}

/* Refuses to write a snapshot that could not be read; this also catches members lost for want of memory. */
static int read_again(const char *text, size_t n)
{
	struct arena a = {0};
	struct snapshot s;
	int rc = snapshot_parse(text, n, &a, &s);
	arena_free(&a);
	return rc;
}

int snapshot_print(const struct snapshot *s, struct buf *out)
{
	json_t *o = snapshot_json(s);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text)
		return fail(E_NOMEM, "no memory for a snapshot, or it is not UTF-8");
	size_t n = strlen(text);
	int rc = read_again(text, n);
	if (rc >= 0 && n > SNAPSHOT_BYTES - SIGNED_HEAD)
		rc = fail(E_USAGE, "a snapshot of %zu bytes is too long", n);
	if (rc >= 0)
		buf_add(out, text, n);
	free(text);
	return rc < 0 ? rc : buf_ok(out) ? E_OK : fail(E_NOMEM, "no memory for a snapshot");
}

enum { REVOKED_TEXT = 2 * 33 + sizeof((struct rec *)0)->device + sizeof((struct rec *)0)->cand + 32 };

static void revoked_text(const struct rec *r, struct key task, char text[REVOKED_TEXT])
{
	char task_hex[33], target[33];
	key_text(task, task_hex);
	key_text(r->target_key, target);
	snprintf(text, REVOKED_TEXT, "%s %s %s %d %d %s", task_hex, target, r->device, r->threads, r->level,
		 r->cand);
}

struct key revoked_hash(const struct rec *r)
{
	char text[REVOKED_TEXT];
	revoked_text(r, r->task, text);
	return hash_text(text);
}

struct key revoked_hash_former(const struct rec *r)
{
	char text[REVOKED_TEXT];
	revoked_text(r, mix_text(r->task_text), text);
	return mix_text(text);
}
