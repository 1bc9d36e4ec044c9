/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/trusted.h"

#include "agent/cache/share_kept.h"
#include "agent/sync/trust.h"
#include "platform/base/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEX = 2 * PUBLIC_KEY_BYTES };

/* Makes a temporary folder for the state, which then begins with the image's root. */
static int make_temp(struct trusted *t)
{
	snprintf(t->temp, sizeof t->temp, "/tmp/hone-trust-XXXXXX");
	if (mkdtemp(t->temp))
		return E_OK;
	t->temp[0] = 0;
	return fail(E_IO, "cannot make a folder in /tmp");
}

int trusted_open(const struct args *a, bool own_state, struct trusted *t)
{
	const char *root = arg_str(a, "root", NULL);
	*t = (struct trusted){0};
	int rc = crypto_start();
	if (rc < 0 || (!root && !file_exists(TRUST_ROOT)))
		return rc;
	bool sync = !root && !own_state && access(SYNC_STATE "/trust", R_OK) == 0;
	rc = sync ? E_OK : make_temp(t);
	if (rc >= 0)
		rc = trust_open(root, sync ? SYNC_STATE : t->temp, &t->trust);
	if (rc < 0)
		trusted_close(t);
	return rc;
}

static int read_key(const char *text, size_t bytes, struct public_key *out)
{
	static const char pem[] = "-----BEGIN ";
	size_t n = strcspn(text, " \t\r\n");
	if (!strncmp(text, pem, sizeof pem - 1))
		return public_key_pem(text, bytes, out) < 0 ? fail(E_USAGE, "--key: %s", err_text()) : E_OK;
	if (n != HEX || hex_read(text, PUBLIC_KEY_BYTES, out->b) < 0 || !public_key_good(out))
		return fail(E_USAGE,
			    "--key: not a public key: give %d hex digits, or a file that begins with them "
			    "or is a public key for P-256 in PEM",
			    HEX);
	return E_OK;
}

int trusted_keys(const struct args *a, struct trusted *t)
{
	struct arena arena = {0};
	const char *const *list;
	int n = arg_list(a, "key", &list), rc = E_OK;
	if (n > TRUSTED_KEYS)
		return fail(E_USAGE, "--key: at most %d keys are possible", TRUSTED_KEYS);
	for (t->n = 0; t->n < n && rc >= 0; t->n++) {
		const char *text = list[t->n];
		struct blob b = {.p = text, .n = HEX};
		if (strlen(text) != HEX)
			rc = file_read(&arena, text, 64 << 10, &b);
		if (rc >= 0)
			rc = read_key(b.p, b.n, &t->key[t->n]);
	}
	arena_free(&arena);
	return rc;
}

void trusted_close(struct trusted *t)
{
	char path[64];
	trust_close(t->trust);
	t->trust = NULL;
	if (!t->temp[0])
		return;
	snprintf(path, sizeof path, "%s/trust", t->temp);
	unlink(path);
	rmdir(t->temp);
	t->temp[0] = 0;
}
