/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/crypto.h"
#include "platform/base/rng.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"
#include <pthread.h>

/* RFC 6979, A.2.5: a key, and its signatures of "sample" and "test". */
static const char rfc_key[] = "-----BEGIN EC PRIVATE KEY-----\n"
			      "MHcCAQEEIMmvqdhFunUWa1whV2ex1pNOUMPbNuibEnuKYisSD2choAoGCCqGSM49\n"
			      "AwEHoUQDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7Yfps5mliLmDyn7Z5A/4QCLi8\n"
			      "maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==\n"
			      "-----END EC PRIVATE KEY-----\n";
static const char rfc_key_short[] = "-----BEGIN EC PRIVATE KEY-----\n"
				    "MDECAQEEIMmvqdhFunUWa1whV2ex1pNOUMPbNuibEnuKYisSD2choAoGCCqGSM49AwEH\n"
				    "-----END EC PRIVATE KEY-----\n";
static const char rfc_key_pkcs8[] = "-----BEGIN PRIVATE KEY-----\n"
				    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgya+p2EW6dRZrXCFX\n"
				    "Z7HWk05Qw9s26JsSe4piKxIPZyGhRANCAARg/tS6JVqdMclh63TGNW1owEm4kjth\n"
				    "+mzmaWIuYPKftnkD/hAIuLyZpBrp6VYovGTy8bIMLX6fUXejwpTURiKZ\n"
				    "-----END PRIVATE KEY-----\n";
static const char rfc_public[] =
    "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb67903fe1008b8bc99a41ae9e95628bc64f2f1b2"
    "0c2d7e9f5177a3c294d4462299";
static const char p384_key[] = "-----BEGIN EC PRIVATE KEY-----\n"
			       "MIGkAgEBBDDgm0CxSN6IUYksGJzoxnjE/qCFBC5nA5W4iSg6jue8N6Qm0QzRTcxU\n"
			       "7d6dK6jy0tqgBwYFK4EEACKhZANiAAQvIkD0vtwJujzGCkI0cDXIXd1Ir5umvJUf\n"
			       "I/oetHTIM5FLMzMXHYU1tsqGcbdBF2+eXhpt+2sNpmYjowRDygLyTvOkX6LwXziN\n"
			       "/GaWUEZeV1NqXlvVjkSrCIK1e9Dt6fY=\n"
			       "-----END EC PRIVATE KEY-----\n";

static bool is_hex(const void *p, size_t n, const char *hex)
{
	char text[2 * PUBLIC_KEY_BYTES + 1];
	hex_write(p, n, text);
	return !strcmp(text, hex);
}

static struct sha256 hash_of(const char *text)
{
	struct sha256 h = {0};
	CHECK_OK(crypto_sha256(text, strlen(text), &h));
	return h;
}

static struct private_key *key_of(const char *pem)
{
	struct private_key *k = NULL;
	CHECK_OK(crypto_start());
	CHECK_OK(private_key_read(scratch_text("key", pem, 0600), &k));
	return k;
}

static struct private_key *new_key(void)
{
	struct private_key *k = NULL;
	CHECK_OK(crypto_start());
	CHECK_OK(private_key_make(&k));
	return k;
}

TEST(sha256_vectors)
{
	REQUIRE_OK(crypto_start());
	CHECK_OK(crypto_start());
	struct sha256 h = hash_of("");
	CHECK(is_hex(h.b, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
	h = hash_of("abc");
	CHECK(is_hex(h.b, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
	struct crypto_hash *parts;
	char a[1000];
	memset(a, 'a', sizeof a);
	REQUIRE_OK(crypto_hash_begin(&parts));
	for (int i = 0; i < 1000; i++)
		CHECK_OK(crypto_hash_add(parts, a, sizeof a));
	CHECK_OK(crypto_hash_add(parts, a, 0));
	CHECK_OK(crypto_hash_end(parts, &h));
	CHECK(is_hex(h.b, 32, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
	REQUIRE_OK(crypto_hash_begin(&parts));
	CHECK_OK(crypto_hash_end(parts, NULL));
}

TEST(hmac_vectors)
{
	static const struct {
		int key, nkey; /* a byte repeated; 0: text; -1: 1, 2, 3... */
		const char *key_text;
		int data, ndata;
		const char *data_text, *mac;
	} rfc4231[] = {
	    {0x0b, 20, NULL, 0, 0, "Hi There",
	     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
	    {0, 0, "Jefe", 0, 0, "what do ya want for nothing?",
	     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
	    {0xaa, 20, NULL, 0xdd, 50, NULL,
	     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
	    {-1, 25, NULL, 0xcd, 50, NULL,
	     "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
	    {0xaa, 131, NULL, 0, 0, "Test Using Larger Than Block-Size Key - Hash Key First",
	     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
	    {0xaa, 131, NULL, 0, 0,
	     "This is a test using a larger than block-size key and a larger than block-size data. The key "
	     "needs "
	     "to be hashed before being used by the HMAC algorithm.",
	     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
	    {0, 0, "", 0, 0, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
	};
	for (size_t i = 0; i < sizeof rfc4231 / sizeof rfc4231[0]; i++) {
		uint8_t key[256], data[256];
		struct sha256 mac;
		memset(key, rfc4231[i].key, sizeof key);
		memset(data, rfc4231[i].data, sizeof data);
		for (int b = 0; b < 25 && rfc4231[i].key < 0; b++)
			key[b] = (uint8_t)(b + 1);
		const char *k = rfc4231[i].key_text, *d = rfc4231[i].data_text;
		CHECK_OK(crypto_hmac(k ? k : (char *)key, k ? strlen(k) : (size_t)rfc4231[i].nkey,
				     d ? d : (char *)data, d ? strlen(d) : (size_t)rfc4231[i].ndata, &mac));
		CHECK(is_hex(mac.b, 32, rfc4231[i].mac));
	}
}

TEST(random_differs)
{
	uint8_t a[64], b[64], zero[64] = {0};
	CHECK_OK(crypto_random(a, sizeof a));
	CHECK_OK(crypto_random(b, sizeof b));
	CHECK(memcmp(a, b, sizeof a) && memcmp(a, zero, sizeof a));
	CHECK_OK(crypto_random(a, 0));
}

TEST(hex)
{
	uint8_t b[3];
	char text[7];
	CHECK_OK(hex_read("00fFa9", 3, b));
	hex_write(b, 3, text);
	CHECK(!strcmp(text, "00ffa9"));
	CHECK_FAILS(hex_read("00ffa", 3, b), E_CORRUPT, "character 5 is not");
	CHECK_FAILS(hex_read("", 3, b), E_CORRUPT, "character 0 is not");
	CHECK_FAILS(hex_read("00ffa9a", 3, b), E_CORRUPT, "more than");
	static const char bad[] = "/:@G`g \x80";
	for (const char *c = bad; *c; c++)
		CHECK_FAILS(hex_read((char[]){'0', *c, 0}, 1, b), E_CORRUPT, "hex digits");
}

TEST(ecdsa_vectors)
{
	static const char *const forms[] = {rfc_key, rfc_key_short, rfc_key_pkcs8};
	static const struct {
		const char *text, *signature;
	} signs[] = {
	    {"sample", "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
		       "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"},
	    {"test", "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367"
		     "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"},
	};
	for (int f = 0; f < 3; f++) {
		struct private_key *k = key_of(forms[f]);
		REQUIRE(k);
		struct public_key p;
		private_key_public(k, &p);
		CHECK(is_hex(p.b, sizeof p.b, rfc_public));
		for (int i = 0; i < 2; i++) {
			struct sha256 h = hash_of(signs[i].text);
			struct signature s;
			CHECK_OK(crypto_sign(k, &h, &s));
			CHECK(is_hex(s.b, sizeof s.b, signs[i].signature));
			CHECK(crypto_verified(&p, &h, &s));
		}
		private_key_free(k);
	}
}

/* Flips each bit of r, s and the hash. */
TEST(verify_refuses_any_other_bit)
{
	struct private_key *k = new_key();
	struct public_key p;
	struct sha256 h = hash_of("x");
	struct signature s;
	private_key_public(k, &p);
	REQUIRE_OK(crypto_sign(k, &h, &s));
	int taken = 0;
	for (int i = 0; i < 8 * SIGNATURE_BYTES; i++) {
		s.b[i / 8] ^= (uint8_t)(1 << i % 8);
		taken += crypto_verified(&p, &h, &s);
		s.b[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (int i = 0; i < 8 * SHA256_BYTES; i++) {
		h.b[i / 8] ^= (uint8_t)(1 << i % 8);
		taken += crypto_verified(&p, &h, &s);
		h.b[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	CHECK(!taken);
	CHECK(crypto_verified(&p, &h, &s));
	private_key_free(k);
}

/* 0, 1, the order, and numbers above it. */
TEST(verify_refuses_degenerate_numbers)
{
	static const char *const odd[] = {"0000000000000000000000000000000000000000000000000000000000000000",
					  "0000000000000000000000000000000000000000000000000000000000000001",
					  "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
					  "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632552",
					  "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"};
	struct public_key p;
	struct sha256 h = hash_of("x"), zero = {0};
	REQUIRE_OK(crypto_start());
	REQUIRE_OK(hex_read(rfc_public, sizeof p.b, p.b));
	for (int r = 0; r < 5; r++)
		for (int s = 0; s < 5; s++) {
			struct signature sig;
			REQUIRE_OK(hex_read(odd[r], 32, sig.b));
			REQUIRE_OK(hex_read(odd[s], 32, sig.b + 32));
			CHECK(!crypto_verified(&p, &h, &sig));
			CHECK(!crypto_verified(&p, &zero, &sig));
		}
}

TEST(public_keys)
{
	struct public_key p, q;
	char id[KEY_ID_HEX + 1];
	REQUIRE_OK(crypto_start());
	REQUIRE_OK(hex_read(rfc_public, sizeof p.b, p.b));
	CHECK(public_key_good(&p));
	public_key_id(&p, id);
	struct sha256 h;
	REQUIRE_OK(crypto_sha256(p.b, sizeof p.b, &h));
	CHECK(is_hex(h.b, 16, id) && strlen(id) == KEY_ID_HEX);
	for (int i = 0; i < 8 * PUBLIC_KEY_BYTES; i++) {
		q = p;
		q.b[i / 8] ^= (uint8_t)(1 << i % 8);
		CHECK(!public_key_good(&q));
		struct signature s = {{1}};
		CHECK(!crypto_verified(&q, &h, &s));
	}
	memset(&q, 0, sizeof q);
	CHECK(!public_key_good(&q));
	q.b[0] = 4;
	CHECK(!public_key_good(&q));
	memset(q.b + 1, 0xff, sizeof q.b - 1);
	CHECK(!public_key_good(&q));
}

TEST(key_files)
{
	struct private_key *k = new_key(), *again = NULL;
	struct public_key p, q;
	struct stat st;
	const char *path = scratch("made");
	REQUIRE_OK(private_key_write(k, path));
	REQUIRE(stat(path, &st) == 0);
	CHECK((st.st_mode & 07777) == 0600 && st.st_nlink == 1);
	CHECK_FAILS(private_key_write(k, path), E_BUSY, "never overwritten");
	REQUIRE_OK(private_key_read(path, &again));
	private_key_public(k, &p);
	private_key_public(again, &q);
	CHECK(!memcmp(&p, &q, sizeof p));
	private_key_free(again);
	for (unsigned bit = 1; bit < 0100; bit <<= 1) {
		REQUIRE(chmod(path, 0600 | bit) == 0);
		CHECK_FAILS(private_key_read(path, &again), E_USAGE, "chmod 600");
	}
	CHECK_FAILS(private_key_read(scratch("none"), &again), E_NOTFOUND, "none");
	CHECK_FAILS(private_key_read("/dev/null", &again), E_IO, "regular");
	CHECK_FAILS(private_key_write(k, "/nowhere/at/all"), E_IO, "/nowhere");
	private_key_free(k);
	private_key_free(NULL);
	/* Only the three intended files lie there: no partial key. */
	char cmd[160];
	snprintf(cmd, sizeof cmd, "test $(ls -A %s | wc -l) -le 2", scratch_dir);
	CHECK(system(cmd) == 0);
}

TEST(key_files_of_others)
{
	struct private_key *k = NULL;
	char big[10000];
	memset(big, 'x', sizeof big);
	REQUIRE_OK(crypto_start());
	CHECK_FAILS(private_key_read(scratch_text("k", p384_key, 0600), &k), E_CORRUPT, "P-256");
	CHECK_FAILS(private_key_read(scratch_text("k", "", 0600), &k), E_CORRUPT, "P-256");
	CHECK_FAILS(private_key_read(scratch_file("k", big, sizeof big, 0600), &k), E_CORRUPT, "too long");
	for (size_t n = 0; n < sizeof rfc_key - 3; n++)
		CHECK_FAILS(private_key_read(scratch_file("k", rfc_key, n, 0600), &k), E_CORRUPT, "P-256");
}

TEST(keys_differ)
{
	struct private_key *a = new_key(), *b = new_key();
	struct public_key p, q;
	private_key_public(a, &p);
	private_key_public(b, &q);
	CHECK(memcmp(&p, &q, sizeof p) && public_key_good(&p) && public_key_good(&q));
	struct sha256 h = hash_of("x");
	struct signature s;
	CHECK_OK(crypto_sign(a, &h, &s));
	CHECK(crypto_verified(&p, &h, &s) && !crypto_verified(&q, &h, &s));
	private_key_free(a);
	private_key_free(b);
}

static struct private_key *shared;

static void *sign_and_verify(void *seed)
{
	struct public_key p;
	private_key_public(shared, &p);
	long bad = 0;
	for (int i = 0; i < 20; i++) {
		struct sha256 h;
		struct signature s, again;
		long text[2] = {(long)seed, i};
		bad += crypto_sha256(text, sizeof text, &h) < 0 || crypto_sign(shared, &h, &s) < 0 ||
		       crypto_sign(shared, &h, &again) < 0 || memcmp(&s, &again, sizeof s) ||
		       !crypto_verified(&p, &h, &s);
	}
	return (void *)bad;
}

TEST(threads_share_a_key)
{
	pthread_t t[8];
	shared = new_key();
	REQUIRE(shared);
	for (long i = 0; i < 8; i++)
		REQUIRE(pthread_create(&t[i], NULL, sign_and_verify, (void *)i) == 0);
	for (int i = 0; i < 8; i++) {
		void *bad;
		pthread_join(t[i], &bad);
		CHECK(!bad);
	}
	private_key_free(shared);
}

/* ---- X.509 ---- */

static bool openssl(const char *args)
{
	char cmd[1024];
	snprintf(cmd, sizeof cmd, "cd %s && openssl %s >openssl.log 2>&1", scratch_dir, args);
	return system(cmd) == 0;
}

static bool no_openssl(void)
{
	return system("command -v openssl >/dev/null") != 0;
}

TEST(csr_goes_and_comes)
{
	struct private_key *k = new_key();
	struct public_key p, q;
	struct buf pem = {0};
	char name[64];
	private_key_public(k, &p);
	REQUIRE_OK(csr_write(k, "board-7.Line_2", &pem));
	REQUIRE_OK(csr_read(pem.p, pem.n, &q, name));
	CHECK(!memcmp(&p, &q, sizeof p) && !strcmp(name, "board-7.Line_2"));
	/* Changes each byte: the certificate is refused, or says the same in another encoding. */
	for (size_t i = 0; i < pem.n; i++) {
		char was = pem.p[i];
		for (int x = 1; x < 256; x *= 4) {
			pem.p[i] = (char)(was ^ x);
			int rc = csr_read(pem.p, pem.n, &q, name);
			CHECK(rc == E_CORRUPT ||
			      (rc >= 0 && !memcmp(&p, &q, sizeof p) && !strcmp(name, "board-7.Line_2")));
		}
		pem.p[i] = was;
	}
	for (size_t n = 0; n < pem.n - 2; n++)
		CHECK(csr_read(pem.p, n, &q, name) == E_CORRUPT);
	CHECK_FAILS(csr_read(rfc_key, sizeof rfc_key - 1, &q, name), E_CORRUPT, "signing request");
	buf_free(&pem);
	private_key_free(k);
}

TEST(names_of_certificates)
{
	struct private_key *k = new_key();
	struct buf pem = {0};
	char longest[65];
	memset(longest, 'a', 64);
	longest[64] = 0;
	static const char *const bad[] = {"", "a,CN=b", "a b", "a\n", "a/b", "\xc3\xa4", "a=b", "a+b", "*"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(csr_write(k, bad[i], &pem), E_USAGE, "cannot name a certificate");
	CHECK_FAILS(csr_write(k, longest, &pem), E_USAGE, "cannot name a certificate");
	CHECK_OK(csr_write(k, longest + 1, &pem));
	struct public_key q;
	char name[64];
	CHECK_OK(csr_read(pem.p, pem.n, &q, name));
	CHECK(!strcmp(name, longest + 1));
	buf_free(&pem);
	private_key_free(k);
}

struct authority {
	struct private_key *key;
	struct buf pem;
};

static struct authority authority(const char *name)
{
	struct authority a = {.key = new_key()};
	CHECK_OK(cert_write_ca(a.key, name, &a.pem));
	return a;
}

static void authority_free(struct authority *a)
{
	private_key_free(a->key);
	buf_free(&a->pem);
}

TEST(certificates_go_and_come)
{
	struct authority a = authority("hone-fleet"), b = authority("hone-fleet");
	struct private_key *k = new_key();
	struct public_key p, q;
	struct buf pem = {0};
	char name[64] = "";
	private_key_public(k, &p);
	/* Past, present and far future give the same answer, as boards know no date. */
	static const int64_t nows[] = {0, 1800000000, 250000000000};
	for (int i = 0; i < 3; i++) {
		buf_clear(&pem);
		REQUIRE_OK(cert_write(a.key, a.pem.p, &p, "board-7", NULL, nows[i], 10, &pem));
		CHECK_OK(cert_read(pem.p, pem.n, a.pem.p, &q, name));
		CHECK(!memcmp(&p, &q, sizeof p) && !strcmp(name, "board-7"));
	}
	CHECK_FAILS(cert_read(pem.p, pem.n, b.pem.p, &q, name), E_WRONG, "not of this authority");
	CHECK_FAILS(cert_write(b.key, a.pem.p, &p, "x", NULL, 0, 10, &pem), E_USAGE, "another key");
	CHECK_FAILS(cert_write(a.key, "", &p, "x", NULL, 0, 10, &pem), E_CORRUPT, "authority");
	CHECK_FAILS(cert_write(a.key, a.pem.p, &p, "x y", NULL, 0, 10, &pem), E_USAGE, "cannot name");
	CHECK_FAILS(cert_write(a.key, a.pem.p, &p, "x", "a host", 0, 10, &pem), E_USAGE, "not a host");
	CHECK_FAILS(cert_write(a.key, a.pem.p, &p, "x", "", 0, 10, &pem), E_USAGE, "not a host");
	CHECK_FAILS(cert_write(a.key, a.pem.p, &p, "x", NULL, 0, 0, &pem), E_USAGE, "0 years");
	CHECK_FAILS(cert_write(a.key, a.pem.p, &p, "x", NULL, INT64_MAX, 1, &pem), E_USAGE, "1 years");
	memset(&q, 0, sizeof q);
	CHECK_FAILS(cert_write(a.key, a.pem.p, &q, "x", NULL, 0, 1, &pem), E_CORRUPT, "certificate");
	/* A board's certificate cannot sign others. */
	struct buf child = {0};
	buf_clear(&pem);
	REQUIRE_OK(cert_write(a.key, a.pem.p, &p, "board-7", NULL, 0, 10, &pem));
	REQUIRE_OK(cert_write(k, pem.p, &p, "board-8", NULL, 0, 10, &child));
	CHECK_FAILS(cert_read(child.p, child.n, a.pem.p, &q, name), E_WRONG, "not of this authority");
	buf_puts(&child, pem.p);
	CHECK_FAILS(cert_read(child.p, child.n, a.pem.p, &q, name), E_CORRUPT, "more than one");
	buf_free(&child);
	buf_free(&pem);
	private_key_free(k);
	authority_free(&a);
	authority_free(&b);
}

static int take_host(void *ctx, const char *host)
{
	buf_printf(ctx, "%s ", host);
	return strcmp(host, "stop.example.org") ? E_OK : fail(E_STOPPED, "enough");
}

/* Returns whether cert_hosts lists the `wanted` hosts of a chain: a certificate for `host`, then its
 * authority's. */
static bool hosts_are(const struct authority *a, const char *host, const char *wanted)
{
	struct public_key p;
	struct buf pem = {0}, hosts = {0};
	private_key_public(a->key, &p);
	CHECK_OK(cert_write(a->key, a->pem.p, &p, "fleet", host, 1800000000, 10, &pem));
	buf_puts(&pem, a->pem.p);
	CHECK_OK(cert_hosts(pem.p, pem.n, take_host, &hosts));
	bool same = !strcmp(buf_str(&hosts), wanted);
	buf_free(&pem);
	buf_free(&hosts);
	return same;
}

TEST(certificates_name_their_hosts)
{
	struct authority a = authority("hone-fleet");
	struct buf pem = {0}, none = {0};
	CHECK(hosts_are(&a, "fleet.example.org", "fleet.example.org "));
	CHECK(hosts_are(&a, "*.example.org", "*.example.org "));
	CHECK(hosts_are(&a, "192.0.2.7", "192.0.2.7 "));
	CHECK(hosts_are(&a, "2001:db8::7", "2001:db8::7 "));
	CHECK(hosts_are(&a, NULL, ""));
	CHECK_FAILS(cert_hosts("x", 1, take_host, &none), E_CORRUPT, "PEM");
	struct public_key p;
	private_key_public(a.key, &p);
	buf_clear(&pem);
	CHECK_OK(cert_write(a.key, a.pem.p, &p, "fleet", "stop.example.org", 0, 10, &pem));
	CHECK_FAILS(cert_hosts(pem.p, pem.n, take_host, &none), E_STOPPED, "enough");
	for (size_t i = 0; i < pem.n; i++) {
		char was = pem.p[i];
		pem.p[i] = (char)(was ^ 1 << i % 8);
		buf_clear(&none);
		(void)!cert_hosts(pem.p, pem.n, take_host, &none);
		pem.p[i] = was;
	}
	buf_free(&none);
	buf_free(&pem);
	authority_free(&a);
}

TEST(certificates_are_hostile)
{
	struct authority a = authority("hone-fleet");
	struct public_key p, q;
	struct buf pem = {0};
	char name[64];
	private_key_public(a.key, &p);
	REQUIRE_OK(cert_write(a.key, a.pem.p, &p, "board-7", "fleet.example.org", 1800000000, 10, &pem));
	for (size_t i = 0; i < pem.n; i++) {
		char was = pem.p[i];
		pem.p[i] = (char)(was ^ 1 << i % 8);
		int rc = cert_read(pem.p, pem.n, a.pem.p, &q, name);
		CHECK(rc == E_CORRUPT || rc == E_WRONG ||
		      (rc >= 0 && !memcmp(&p, &q, sizeof p) && !strcmp(name, "board-7")));
		pem.p[i] = was;
	}
	for (size_t n = 0; n < pem.n - 2; n++)
		CHECK(cert_read(pem.p, n, a.pem.p, &q, name) < 0);
	buf_free(&pem);
	authority_free(&a);
}

TEST(openssl_agrees)
{
	if (no_openssl())
		SKIP("openssl is not installed");
	struct authority a = authority("hone-fleet");
	struct private_key *k = new_key();
	struct public_key p;
	struct buf csr = {0}, client = {0}, server = {0}, address = {0};
	private_key_public(k, &p);
	int64_t now_s = (int64_t)time(NULL);
	REQUIRE_OK(csr_write(k, "board-7", &csr));
	REQUIRE_OK(cert_write(a.key, a.pem.p, &p, "board-7", NULL, now_s, 10, &client));
	REQUIRE_OK(cert_write(a.key, a.pem.p, &p, "fleet", "fleet.example.org", now_s, 100, &server));
	REQUIRE_OK(cert_write(a.key, a.pem.p, &p, "fleet", "::1", now_s, 100, &address));
	scratch_text("ca.pem", a.pem.p, 0644);
	scratch_text("board.csr", csr.p, 0644);
	scratch_text("client.pem", client.p, 0644);
	scratch_text("server.pem", server.p, 0644);
	scratch_text("address.pem", address.p, 0644);
	CHECK(openssl("req -in board.csr -verify -noout"));
	CHECK(openssl("verify -x509_strict -CAfile ca.pem -purpose sslclient client.pem"));
	CHECK(openssl(
	    "verify -x509_strict -CAfile ca.pem -purpose sslserver -verify_hostname fleet.example.org "
	    "server.pem"));
	CHECK(!openssl("verify -CAfile ca.pem -verify_hostname other.example.org server.pem"));
	CHECK(!openssl("verify -CAfile ca.pem -purpose sslserver client.pem"));
	CHECK(openssl("verify -x509_strict -CAfile ca.pem -purpose sslserver -verify_ip ::1 address.pem"));
	CHECK(openssl("verify -x509_strict -CAfile ca.pem -attime 946684801 client.pem"));
	CHECK(openssl("verify -x509_strict -CAfile ca.pem -attime 3000000000 server.pem"));
	CHECK(!openssl("verify -x509_strict -CAfile ca.pem -attime 3000000000 client.pem"));
	buf_free(&csr);
	buf_free(&client);
	buf_free(&server);
	buf_free(&address);
	private_key_free(k);
	authority_free(&a);
}

static int read_csr_of(const char *file, char name[64])
{
	struct arena a = {0};
	struct blob b;
	struct public_key p;
	int rc = file_read(&a, scratch(file), 0, &b);
	if (rc >= 0)
		rc = csr_read(b.p, b.n, &p, name);
	arena_free(&a);
	return rc;
}

/* Requests made by openssl are read, or refused. */
TEST(openssl_makes_requests)
{
	char name[64];
	if (no_openssl())
		SKIP("openssl is not installed");
	REQUIRE_OK(crypto_start());
	scratch_text("rfc.pem", rfc_key, 0600);
	scratch_text("p384.pem", p384_key, 0600);
	REQUIRE(openssl("req -new -key rfc.pem -subj /CN=board-9 -out good.csr"));
	CHECK_OK(read_csr_of("good.csr", name));
	CHECK(!strcmp(name, "board-9"));
	REQUIRE(openssl("req -new -key p384.pem -subj /CN=board-9 -out p384.csr"));
	CHECK_FAILS(read_csr_of("p384.csr", name), E_CORRUPT, "P-256");
	REQUIRE(openssl("req -new -key rfc.pem -sha512 -subj /CN=board-9 -out sha512.csr"));
	CHECK_FAILS(read_csr_of("sha512.csr", name), E_CORRUPT, "SHA-256");
	REQUIRE(openssl("req -new -key rfc.pem -subj /O=x/CN=board-9 -out two.csr"));
	CHECK_FAILS(read_csr_of("two.csr", name), E_CORRUPT, "CN alone");
	REQUIRE(openssl("req -new -key rfc.pem -subj /O=board-9 -out o.csr"));
	CHECK_FAILS(read_csr_of("o.csr", name), E_CORRUPT, "CN alone");
	REQUIRE(openssl("req -new -key rfc.pem -subj '/CN=board 9' -out space.csr"));
	CHECK_FAILS(read_csr_of("space.csr", name), E_CORRUPT, "letters");
	REQUIRE(openssl("req -newkey rsa:2048 -nodes -keyout rsa.pem -subj /CN=board-9 -out rsa.csr"));
	CHECK_FAILS(read_csr_of("rsa.csr", name), E_CORRUPT, "P-256");
	struct private_key *k = NULL;
	CHECK_FAILS(private_key_read(scratch("rsa.pem"), &k), E_CORRUPT, "P-256");
}

/* Public keys that openssl writes: those of P-256 are read; other curves, parts and damaged ones are refused. */
TEST(public_keys_in_pem)
{
	struct arena a = {0};
	struct blob b;
	struct private_key *k;
	struct public_key own, got;
	REQUIRE_OK(crypto_start());
	scratch_text("p384-public.pem", p384_key, 0600);
	REQUIRE_OK(private_key_read(scratch_text("public.pem", rfc_key, 0600), &k));
	private_key_public(k, &own);
	private_key_free(k);
	if (system("openssl version >/dev/null 2>&1") != 0)
		SKIP("no openssl");
	REQUIRE(openssl("pkey -in public.pem -pubout -out p256.pub"));
	REQUIRE(openssl("pkey -in p384-public.pem -pubout -out p384.pub"));
	REQUIRE(openssl("genpkey -algorithm ED25519 -out ed.pem") && openssl("pkey -in ed.pem -pubout -out ed.pub"));
	REQUIRE_OK(file_read(&a, scratch("p256.pub"), 0, &b));
	CHECK_OK(public_key_pem(b.p, b.n, &got));
	CHECK(!memcmp(&own, &got, sizeof own));
	for (size_t n = 0; n + 2 < b.n; n++)
		CHECK_FAILS(public_key_pem(b.p, n, &got), E_CORRUPT, "not a public key for P-256");
	for (size_t i = 28; i < 150; i++) { /* letters of base64 */
		char pem[1024];
		memcpy(pem, b.p, b.n);
		pem[i] = pem[i] == 'A' ? 'B' : 'A';
		if (public_key_pem(pem, b.n, &got) >= 0)
			CHECK(public_key_good(&got));
	}
	static const char *const others[] = {"p384.pub", "ed.pub", "rsa.pem"};
	for (int i = 0; i < 3 && file_exists(scratch(others[i])); i++) {
		REQUIRE_OK(file_read(&a, scratch(others[i]), 0, &b));
		CHECK_FAILS(public_key_pem(b.p, b.n, &got), E_CORRUPT, "not a public key for P-256");
	}
	arena_free(&a);
}

TEST_MAIN
