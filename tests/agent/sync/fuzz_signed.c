/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a signed document: it is refused, or another key can sign it too. Its payload is parsed
 * as a root document: it is refused, or reads back the same after printing. */
#include "agent/sync/trust.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct private_key *fresh_key(void)
{
	struct private_key *k;
	if (crypto_start() < 0 || private_key_make(&k) < 0)
		abort();
	return k;
}

static void sign_too(const uint8_t *p, size_t n, const struct signed_doc *d)
{
	static struct private_key *k;
	struct public_key its;
	struct signed_doc e;
	struct buf b = {0};
	if (!k)
		k = fresh_key();
	private_key_public(k, &its);
	int rc = signed_add(p, n, k, &b);
	if (rc >= 0 &&
	    (signed_parse(b.p, b.n, d->kind, &e) < 0 || e.n != d->n + 1 || e.payload.n != d->payload.n ||
	     memcmp(&d->hash, &e.hash, sizeof d->hash) || signed_check(&e, &its, 1, 1, NULL) != 1))
		abort();
	if (rc < 0 && rc != E_BUSY && d->n < SIGNED_MOST) /* E_BUSY: the fuzzer saw our id */
		abort();
	buf_free(&b);
}

static void as_root(const struct signed_doc *d)
{
	struct root r, s;
	struct buf b = {0};
	if (root_parse(d->payload.p, d->payload.n, &r) >= 0) {
		root_print(&r, &b);
		if (root_parse(b.p, b.n, &s) < 0 || memcmp(&r, &s, sizeof r))
			abort();
	}
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const kinds[] = {"root", "snapshot", "records", "pack"};
	struct signed_doc d;
	if (crypto_start() < 0)
		abort();
	for (int i = 0; i < 4; i++)
		if (signed_parse(p, n, kinds[i], &d) >= 0) {
			sign_too(p, n, &d);
			as_root(&d);
		}
	return 0;
}
