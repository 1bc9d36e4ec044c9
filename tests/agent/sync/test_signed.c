/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/signed.h"
#include "tests/lib/keys.h"
#include "tests/lib/test.h"

static const char payload[] = "{\"what\": \"is said\"}\n\nsig is no signature here\n";

static struct buf doc_by(const char *kind, int n)
{
	struct buf b = {0};
	CHECK_OK(signed_write(kind, payload, sizeof payload - 1, keys(n)->private, n, &b));
	return b;
}

TEST(goes_and_comes)
{
	const struct test_keys *k = keys(8);
	for (int n = 0; n <= SIGNED_MOST; n++) {
		struct buf b = doc_by("root", n);
		struct signed_doc d;
		int who = -1;
		REQUIRE_OK(signed_parse(b.p, b.n, "root", &d));
		CHECK(d.n == n && d.payload.n == sizeof payload - 1 &&
		      !memcmp(d.payload.p, payload, d.payload.n));
		for (int want = 1; want <= n; want++)
			CHECK(signed_check(&d, k->public, 8, want, &who) == n);
		CHECK(!n || who == 0);
		CHECK_FAILS(signed_check(&d, k->public, 8, n + 1, NULL), E_WRONG,
			    n ? "keys that must sign" : "not signed by a key that your root file trusts");
		buf_free(&b);
	}
}

TEST(empty_and_binary_payloads)
{
	const struct test_keys *k = keys(1);
	char bytes[1000];
	for (int i = 0; i < 1000; i++)
		bytes[i] = (char)i;
	for (size_t n = 0; n <= sizeof bytes; n += 250) {
		struct buf b = {0};
		struct signed_doc d;
		REQUIRE_OK(signed_write("pack", bytes, n, k->private, 1, &b));
		REQUIRE_OK(signed_parse(b.p, b.n, "pack", &d));
		CHECK(d.payload.n == n && !memcmp(d.payload.p, bytes, n));
		CHECK(signed_check(&d, k->public, 1, 1, NULL) == 1);
		buf_free(&b);
	}
}

/* Which keys signed, with a threshold of 2 of 3 keys, and the result. */
TEST(thresholds)
{
	static const struct {
		int by[3], n, good;
	} cases[] = {
	    {{0}, 0, 0},    {{0}, 1, 0},       {{2}, 1, 0},       {{0, 1}, 2, 2},
	    {{2, 0}, 2, 2}, {{1, 2}, 2, 2},    {{0, 1, 2}, 3, 3}, {{0, 3}, 2, 0},
	    {{3, 4}, 2, 0}, {{3, 1, 4}, 3, 0}, {{3, 1, 2}, 3, 2},
	};
	const struct test_keys *k = keys(5);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct private_key *by[3];
		struct buf b = {0};
		struct signed_doc d;
		for (int j = 0; j < cases[i].n; j++)
			by[j] = k->private[cases[i].by[j]];
		REQUIRE_OK(signed_write("root", "x", 1, by, cases[i].n, &b));
		REQUIRE_OK(signed_parse(b.p, b.n, "root", &d));
		int good = signed_check(&d, k->public, 3, 2, NULL);
		CHECK(good == (cases[i].good ? cases[i].good : E_WRONG));
		buf_free(&b);
	}
	struct buf b = doc_by("root", 1);
	struct signed_doc d;
	REQUIRE_OK(signed_parse(b.p, b.n, "root", &d));
	CHECK_FAILS(signed_check(&d, k->public, 3, 0, NULL), E_USAGE, "threshold");
	/* A key that is listed twice counts once. */
	struct public_key twice[2] = {k->public[0], k -> public[0]};
	CHECK_FAILS(signed_check(&d, twice, 2, 2, NULL), E_WRONG, "1 of the 2");
	CHECK_FAILS(signed_check(&d, k->public, 0, 1, NULL), E_WRONG, "not signed by a key");
	buf_free(&b);
}

TEST(one_key_signs_once)
{
	const struct test_keys *k = keys(2);
	const struct private_key *by[2] = {k->private[0], k -> private[0]};
	struct buf b = {0};
	struct signed_doc d;
	REQUIRE_OK(signed_write("root", "x", 1, by, 2, &b));
	CHECK_FAILS(signed_parse(b.p, b.n, "root", &d), E_CORRUPT, "signed twice");
	buf_free(&b);
}

/* One key's signature stands under another key's id. */
TEST(a_signature_under_another_name)
{
	const struct test_keys *k = keys(2);
	struct buf b = doc_by("root", 1);
	struct signed_doc d;
	char *id = strstr(b.p, "sig ") + 4, other[KEY_ID_HEX + 1];
	public_key_id(&k->public[1], other);
	memcpy(id, other, KEY_ID_HEX);
	REQUIRE_OK(signed_parse(b.p, b.n, "root", &d));
	CHECK_FAILS(signed_check(&d, k->public, 2, 1, NULL), E_WRONG,
		    "1 signature of a trusted key does not match");
	buf_free(&b);
}

/* Bytes that were signed as one kind or length do not count as another. */
TEST(kinds_do_not_mix)
{
	const struct test_keys *k = keys(1);
	struct buf b = doc_by("records", 1);
	struct signed_doc d;
	CHECK_FAILS(signed_parse(b.p, b.n, "snapshot", &d), E_CORRUPT,
		    "of kind records; one of kind snapshot");
	struct buf other = {0};
	buf_printf(&other, "hone-signed 1 snapshot %s", b.p + strlen("hone-signed 1 records "));
	REQUIRE_OK(signed_parse(other.p, other.n, "snapshot", &d));
	CHECK_FAILS(signed_check(&d, k->public, 1, 1, NULL), E_WRONG,
		    "1 signature of a trusted key does not match");
	static const char *const bad[] = {"", "Root", "ro ot", "root\n", "r00t", "abcdefghijklmnop"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(signed_write(bad[i], "", 0, k->private, 1, &other), E_USAGE, "kind");
	buf_free(&other);
	buf_free(&b);
}

TEST(added_signatures)
{
	const struct test_keys *k = keys(9);
	struct buf at_once = doc_by("root", 3), b = doc_by("root", 0);
	for (int i = 0; i < 8; i++) {
		struct buf next = {0};
		REQUIRE_OK(signed_add(b.p, b.n, k->private[i], &next));
		buf_free(&b);
		b = next;
		CHECK(i != 2 || (b.n == at_once.n && !memcmp(b.p, at_once.p, b.n)));
	}
	struct signed_doc d;
	struct buf more = {0};
	REQUIRE_OK(signed_parse(b.p, b.n, "root", &d));
	CHECK(signed_check(&d, k->public, 8, 8, NULL) == 8);
	CHECK_FAILS(signed_add(b.p, b.n, k->private[3], &more), E_BUSY, "already");
	CHECK_FAILS(signed_add(b.p, b.n, k->private[8], &more), E_USAGE, "8 signatures");
	CHECK_FAILS(signed_add("x", 1, k->private[0], &more), E_CORRUPT, "not a signed document");
	CHECK(!more.n);
	buf_free(&more);
	buf_free(&b);
	buf_free(&at_once);
}

/* Returns whether the bytes parse with a valid signature; only the original does. */
static bool taken(const char *p, size_t n)
{
	struct signed_doc d;
	char *copy = memcpy(malloc(n ? n : 1), p, n); /* the parser must not read bytes behind the end */
	bool good =
	    signed_parse(copy, n, "root", &d) >= 0 && signed_check(&d, keys(2)->public, 2, 2, NULL) == 2;
	free(copy);
	return good;
}

TEST(each_byte_and_each_length)
{
	struct buf b = doc_by("root", 2);
	CHECK(taken(b.p, b.n));
	for (size_t i = 0; i < b.n; i++) {
		char was = b.p[i];
		static const char flips[] = {1, 0x20, (char)0x80};
		for (int f = 0; f < 3; f++) {
			b.p[i] = (char)(was ^ flips[f]);
			CHECK(!taken(b.p, b.n));
		}
		b.p[i] = 0;
		CHECK(!taken(b.p, b.n));
		b.p[i] = was;
	}
	for (size_t n = 0; n < b.n; n++)
		CHECK(!taken(b.p, n));
	for (size_t n = 1; n < b.n; n++)
		CHECK(!taken(b.p + n, b.n - n));
	buf_puts(&b, "x");
	CHECK(!taken(b.p, b.n));
	buf_free(&b);
}

TEST(heads_that_are_none)
{
	static const char *const bad[] = {
	    "",
	    "\n",
	    "hone-signed 1 root 0",
	    "hone-signed 1 root 0\n",
	    "hone-signed 2 root 0\n\n",
	    "hone-signed 1  root 0\n\n",
	    "hone-signed 1 root  0\n\n",
	    "hone-signed 1 root 00\n\n",
	    "hone-signed 1 root +0\n\n",
	    "hone-signed 1 root -0\n\n",
	    "hone-signed 1 root 0 \n\n",
	    "hone-signed 1 root 0x0\n\n",
	    "hone-signed 1 root 1\n\n",
	    "hone-signed 1 root 18446744073709551616\n\n",
	    "hone-signed 1 root 99999999999999999999999999999999999999999999999999999999999\n\n",
	    "hone-signed 1 root -1\n\n",
	    "hone-signed 1 rootrootrootroot 0\n\n",
	    "hone-signed 1 ROOT 0\n\n",
	    "hone-signed 1 root 0\nsig \n\n",
	    "hone-signed 1 root 0\n \n",
	    "hone-signed 1 root 0\nx\n\n",
	    "hone-signed 1 root 0\r\n\r\n",
	    " hone-signed 1 root 0\n\n",
	};
	struct signed_doc d;
	REQUIRE_OK(crypto_start());
	CHECK_OK(signed_parse("hone-signed 1 root 0\n\n", 22, "root", &d));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(signed_parse(bad[i], strlen(bad[i]), "root", &d), E_CORRUPT, "sign");
}

/* Endless lines and heads cost no more than the largest allowed head. */
TEST(heads_without_end)
{
	struct signed_doc d;
	struct buf b = {0};
	char sig[SIGNATURE_BYTES * 2 + 1];
	REQUIRE_OK(crypto_start());
	memset(sig, '0', sizeof sig - 1);
	sig[sizeof sig - 1] = 0;
	for (int i = 0; i < 100; i++)
		buf_puts(&b, "hone-signed 1 root 0");
	CHECK(signed_parse(b.p, b.n, "root", &d) == E_CORRUPT);
	buf_clear(&b);
	buf_puts(&b, "hone-signed 1 root 0\n");
	for (int i = 0; i < SIGNED_MOST; i++)
		buf_printf(&b, "sig %032x %s\n", (unsigned)i, sig);
	size_t most = b.n;
	buf_puts(&b, "\n");
	CHECK_OK(signed_parse(b.p, b.n, "root", &d));
	b.n = most;
	buf_printf(&b, "sig %032x %s\n\n", 99U, sig);
	CHECK_FAILS(signed_parse(b.p, b.n, "root", &d), E_CORRUPT, "more than 8");
	buf_free(&b);
}

TEST_MAIN
