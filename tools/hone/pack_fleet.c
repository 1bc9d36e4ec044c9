/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/pack_fleet.h"

#include "agent/sync/pack_file.h"
#include "agent/sync/trust.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROOTS = 1000 };

static int path_in(char out[PATH_MAX], const char *folder, const char *rest)
{
	return snprintf(out, PATH_MAX, "%s/%s", folder, rest) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path %.80s... is too long", folder);
}

/* Reads the roots that follow the image's root. */
static int read_roots(const char *folder, struct trust *t)
{
	for (int i = 0; i < MOST_ROOTS; i++) {
		struct arena a = {0};
		struct blob b;
		char rest[64], path[PATH_MAX];
		snprintf(rest, sizeof rest, "root/%" PRId64, trust_root(t)->version + 1);
		int rc = path_in(path, folder, rest);
		if (rc >= 0)
			rc = pack_file_small(path, TRUST_BYTES, &a, &b);
		if (rc >= 0)
			rc = fail_in(trust_advance(t, b.p, b.n), "%s", path);
		arena_free(&a);
		if (rc < 0)
			return rc == E_NOTFOUND ? E_OK : rc;
	}
	return E_OK;
}

static int read_snapshot(const char *folder, const char *cls, const char *channel, const struct trust *t,
			 struct arena *a, struct snapshot *out)
{
	struct blob b;
	struct signed_doc d;
	enum channel want;
	char rest[128], path[PATH_MAX];
	int rc = channel_parse(channel, &want);
	snprintf(rest, sizeof rest, "%s/%s/snapshot", cls, channel);
	if (rc >= 0)
		rc = path_in(path, folder, rest);
	if (rc >= 0)
		rc = pack_file_small(path, SNAPSHOT_BYTES + SIGNED_HEAD, a, &b);
	if (rc < 0)
		return rc;
	rc = signed_parse(b.p, b.n, "snapshot", &d);
	if (rc >= 0)
		rc = trust_check(t, ROLE_FLEET, &d);
	if (rc >= 0)
		rc = snapshot_parse(d.payload.p, d.payload.n, a, out);
	if (rc >= 0 && (strcmp(out->cls, cls) || out->channel != want))
		rc = fail(E_WRONG, "it is of class %s, channel %s", out->cls, channel_names[out->channel]);
	return fail_in(rc, "%s", path);
}

static int take_blob(const char *folder, const struct snapshot *s, const struct snapshot_blob *blob,
		     struct cache *to, struct taken_sum *sum)
{
	struct arena a = {0};
	struct blob b;
	struct sha256 hash;
	char rest[5 + 2 * SHA256_BYTES + 1] = "blob/", path[PATH_MAX];
	hex_write(blob->sha256.b, SHA256_BYTES, rest + 5);
	int rc = path_in(path, folder, rest);
	if (rc >= 0)
		rc = pack_file_small(path, SNAPSHOT_BLOB, &a, &b);
	if (rc >= 0)
		rc = crypto_sha256(b.p, b.n, &hash);
	if (rc >= 0 && ((int64_t)b.n != blob->bytes || memcmp(hash.b, blob->sha256.b, sizeof hash.b)))
		rc = fail(E_CORRUPT, "%s does not match its signed hash: copy it again", path);
	if (rc >= 0)
		rc = taken_lines(to, b.p, b.n, s, path, sum);
	arena_free(&a);
	return rc;
}

int pack_fleet(const char *folder, const char *cls, const char *channel, struct trusted *t, struct cache *to,
	       int64_t *serial, struct taken_sum *sum)
{
	struct arena a = {0};
	struct snapshot s = {0};
	if (!t->trust)
		return fail(E_USAGE, "--from: no root of trust: this machine has no " TRUST_ROOT
				     "; give --root FILE");
	int rc = read_roots(folder, t->trust);
	if (rc >= 0)
		rc = read_snapshot(folder, cls, channel, t->trust, &a, &s);
	for (int i = 0; i < s.nblob && rc >= 0; i++)
		if (!strcmp(s.blob[i].kind, "records"))
			rc = take_blob(folder, &s, &s.blob[i], to, sum);
	*serial = s.serial;
	arena_free(&a);
	return rc;
}
