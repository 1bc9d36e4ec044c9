/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/kept_code.h"

#include <string.h>

/* Each part ends with a NUL, so that no two different lists of parts have the same bytes. */
static void add_part(struct hash *h, const char *part)
{
	hash_add(h, part, strlen(part) + 1);
}

static void identity(const struct rec *r, uint8_t id[KEPT_CODE_ID])
{
	struct hash h;
	char target[33];
	key_text(r->target_key, target);
	hash_begin(&h);
	add_part(&h, r->device);
	add_part(&h, r->emitter);
	add_part(&h, r->cand);
	add_part(&h, target);
	add_part(&h, r->task_text);
	hash_end(&h, id);
}

int kept_code_put(struct cache *c, const struct rec *r, struct blob code)
{
	struct buf b = {0};
	uint8_t id[KEPT_CODE_ID];
	identity(r, id);
	buf_add(&b, id, sizeof id);
	buf_add(&b, code.p, code.n);
	int rc = buf_ok(&b) ? cache_put(c, CACHE_CODE, code_key(r), b.p, b.n)
			    : fail(E_NOMEM, "no memory to keep code");
	buf_free(&b);
	return rc;
}

int kept_code_get(struct cache *c, const struct rec *r, struct arena *a, struct blob *out)
{
	struct blob b;
	uint8_t id[KEPT_CODE_ID];
	int rc = cache_get(c, CACHE_CODE, code_key(r), a, &b);
	if (rc < 0)
		return rc;
	identity(r, id);
	if (b.n < sizeof id || memcmp(b.p, id, sizeof id))
		return fail(E_NOTFOUND, "the code in the cache is not of this task and candidate");
	*out = (struct blob){.p = (const uint8_t *)b.p + sizeof id, .n = b.n - sizeof id};
	return E_OK;
}
