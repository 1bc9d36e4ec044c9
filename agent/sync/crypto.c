/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes use PSA; keys and signatures use mbedtls_pk. All three release lines of mbedTLS have these two
 * interfaces, and pk, unlike PSA in 2.28, has no key store that threads cannot share. Keys enter and leave pk
 * as DER in one fixed form each, so a byte comparison rejects every other kind of key that pk could parse. */
#include "agent/sync/crypto.h"
#include "agent/sync/crypto_mbedtls.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SCALAR = 32, DER_SIGNATURE = 72, PEM_BYTES = 8192, HMAC_BLOCK = 64, SERIAL = 16, NAME = 64 };

/* SubjectPublicKeyInfo (RFC 5480) up to the point, and ECPrivateKey (RFC 5915) around the scalar. */
static const uint8_t spki_head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
				    0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
				    0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
static const uint8_t sec1_head[] = {0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20};
static const uint8_t sec1_tail[] = {0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
/* ecdsa-with-SHA256 (RFC 5758), without and with the NULL that mbedTLS 2.28 adds. */
static const uint8_t ecdsa[] = {0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02};
static const uint8_t ecdsa_null[] = {0x30, 0x0c, 0x06, 0x08, 0x2a, 0x86, 0x48,
				     0xce, 0x3d, 0x04, 0x03, 0x02, 0x05, 0x00};

enum { SPKI = sizeof spki_head + PUBLIC_KEY_BYTES, SEC1 = sizeof sec1_head + SCALAR + sizeof sec1_tail };

struct private_key {
	mbedtls_pk_context pk;
	pthread_mutex_t lock; /* signing may fill the curve's tables in pk */
	struct public_key public;
};

struct crypto_hash {
	psa_hash_operation_t op;
};

/* ---- start, random bytes, hashes ---- */

static psa_status_t psa_started;

static void psa_start(void)
{
	psa_started = psa_crypto_init();
}

int crypto_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, psa_start);
	return psa_started == PSA_SUCCESS
		   ? E_OK
		   : fail(E_IO, "cannot start cryptography (PSA: %d); is getrandom() permitted?",
			  (int)psa_started);
}

/* Asks the kernel, so that a child never repeats its parent's bytes after fork. */
int crypto_random(void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = getrandom((char *)p + at, n - at, 0);
		if (got < 0 && errno != EINTR)
			return fail(E_IO, "no random bytes: getrandom: %s", strerror(errno));
		at += got > 0 ? (size_t)got : 0;
	}
	return E_OK;
}

/* The callback form that mbedTLS wants. */
__attribute__((unused)) static int random_for(void *ctx, unsigned char *p, size_t n)
{
	(void)ctx;
	return crypto_random(p, n) < 0 ? -1 : 0;
}

static int hash_fail(psa_status_t s)
{
	return fail(s == PSA_ERROR_INSUFFICIENT_MEMORY ? E_NOMEM : E_IO,
		    "SHA-256 failed (PSA: %d); was crypto_start called?", (int)s);
}

int crypto_sha256(const void *p, size_t n, struct sha256 *out)
{
	size_t got;
	psa_status_t s = psa_hash_compute(PSA_ALG_SHA_256, p, n, out->b, sizeof out->b, &got);
	return s == PSA_SUCCESS ? E_OK : hash_fail(s);
}

int crypto_hash_begin(struct crypto_hash **out)
{
	struct crypto_hash *h = calloc(1, sizeof *h);
	if (!h)
		return fail(E_NOMEM, "no memory for a hash");
	psa_status_t s = psa_hash_setup(&h->op, PSA_ALG_SHA_256);
	if (s != PSA_SUCCESS) {
		free(h);
		return hash_fail(s);
	}
	*out = h;
	return E_OK;
}

int crypto_hash_add(struct crypto_hash *h, const void *p, size_t n)
{
	psa_status_t s = psa_hash_update(&h->op, p, n);
	return s == PSA_SUCCESS ? E_OK : hash_fail(s);
}

int crypto_hash_end(struct crypto_hash *h, struct sha256 *out)
{
	size_t got;
	psa_status_t s = PSA_SUCCESS;
	if (out)
		s = psa_hash_finish(&h->op, out->b, sizeof out->b, &got);
	psa_hash_abort(&h->op);
	free(h);
	return s == PSA_SUCCESS ? E_OK : hash_fail(s);
}

static int hash_two(const void *a, size_t na, const void *b, size_t nb, struct sha256 *out)
{
	struct crypto_hash *h;
	int rc = crypto_hash_begin(&h);
	if (rc < 0)
		return rc;
	rc = crypto_hash_add(h, a, na);
	if (rc >= 0)
		rc = crypto_hash_add(h, b, nb);
	int end = crypto_hash_end(h, rc < 0 ? NULL : out);
	return rc < 0 ? rc : end;
}

/* Built from hashes, as PSA's HMAC takes no empty key, and its keys cannot be shared by threads in 2.28. */
int crypto_hmac(const void *key, size_t nkey, const void *p, size_t n, struct sha256 *out)
{
	uint8_t inner[HMAC_BLOCK] = {0}, outer[HMAC_BLOCK];
	struct sha256 short_key;
	int rc = E_OK;
	if (nkey > HMAC_BLOCK) {
		rc = crypto_sha256(key, nkey, &short_key);
		key = short_key.b;
		nkey = sizeof short_key.b;
	}
	if (rc >= 0 && nkey)
		memcpy(inner, key, nkey);
	for (int i = 0; i < HMAC_BLOCK; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	if (rc >= 0)
		rc = hash_two(inner, sizeof inner, p, n, out);
	if (rc >= 0)
		rc = hash_two(outer, sizeof outer, out->b, sizeof out->b, out);
	explicit_bzero(inner, sizeof inner);
	explicit_bzero(outer, sizeof outer);
	explicit_bzero(&short_key, sizeof short_key);
	return rc;
}

void hex_write(const void *p, size_t n, char *out)
{
	const uint8_t *b = p;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = "0123456789abcdef"[b[i] >> 4];
		out[2 * i + 1] = "0123456789abcdef"[b[i] & 15];
	}
	out[2 * n] = 0;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 'a' ^ 'A';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hex_read(const char *text, size_t n, void *out)
{
	uint8_t *b = out;
	for (size_t i = 0; i < n; i++) {
		int hi = digit(text[2 * i]), lo = hi < 0 ? -1 : digit(text[2 * i + 1]);
		if (lo < 0)
			return fail(E_CORRUPT, "%zu hex digits are needed; character %zu is not a hex digit",
				    2 * n, 2 * i + (hi >= 0));
		b[i] = (uint8_t)(hi << 4 | lo);
	}
	return text[2 * n] ? fail(E_CORRUPT, "more than %zu hex digits", 2 * n) : E_OK;
}

/* ---- signatures: DER in X.509 and mbedTLS, 64 bytes here ---- */

static uint8_t *int_write(uint8_t *to, const uint8_t v[SCALAR])
{
	int skip = 0;
	while (skip < SCALAR - 1 && !v[skip])
		skip++;
	int pad = v[skip] >> 7, n = SCALAR - skip;
	*to++ = 0x02;
	*to++ = (uint8_t)(n + pad);
	if (pad)
		*to++ = 0;
	memcpy(to, v + skip, (size_t)n);
	return to + n;
}

static size_t signature_to_der(const struct signature *s, uint8_t der[DER_SIGNATURE])
{
	uint8_t *end = int_write(int_write(der + 2, s->b), s->b + SCALAR);
	der[0] = 0x30;
	der[1] = (uint8_t)(end - der - 2);
	return (size_t)(end - der);
}

static const uint8_t *int_read(const uint8_t *p, const uint8_t *end, uint8_t out[SCALAR])
{
	if (!p || end - p < 3 || p[0] != 0x02 || p[1] == 0 || p[1] > end - p - 2)
		return NULL;
	int n = p[1];
	p += 2;
	if (n == SCALAR + 1 && p[0] == 0)
		n--, p++;
	if (n > SCALAR)
		return NULL;
	memset(out, 0, SCALAR);
	memcpy(out + SCALAR - n, p, (size_t)n);
	return p + n;
}

static bool signature_from_der(const uint8_t *p, size_t n, struct signature *s)
{
	const uint8_t *end = p + n;
	if (n < 2 || n > DER_SIGNATURE || p[0] != 0x30 || p[1] != n - 2)
		return false;
	p = int_read(p + 2, end, s->b);
	return int_read(p, end, s->b + SCALAR) == end;
}

/* ---- keys ---- */

/* The caller must free pk, also after false. */
static bool public_open(mbedtls_pk_context *pk, const struct public_key *k)
{
	uint8_t der[SPKI];
	memcpy(der, spki_head, sizeof spki_head);
	memcpy(der + sizeof spki_head, k->b, sizeof k->b);
	mbedtls_pk_init(pk);
	return k->b[0] == 4 && mbedtls_pk_parse_public_key(pk, der, sizeof der) == 0;
}

/* Returns false if pk is not a P-256 key. */
static bool public_of(const mbedtls_pk_context *pk, struct public_key *out)
{
	uint8_t der[SPKI + 16];
	int n = mbedtls_pk_write_pubkey_der((mbedtls_pk_context *)pk, der, sizeof der);
	const uint8_t *at = der + sizeof der - SPKI; /* mbedTLS writes DER at the buffer's end */
	if (n != SPKI || memcmp(at, spki_head, sizeof spki_head))
		return false;
	memcpy(out->b, at + sizeof spki_head, sizeof out->b);
	return true;
}

/* pem: DER, or PEM text whose NUL is counted in n. */
static int key_open(const uint8_t *pem, size_t n, struct private_key **out)
{
	struct private_key *k = calloc(1, sizeof *k);
	if (!k)
		return fail(E_NOMEM, "no memory for a key");
	mbedtls_pk_init(&k->pk);
	pthread_mutex_init(&k->lock, NULL);
	int bad = mbedtls_pk_parse_key(&k->pk, pem, n, NULL, 0 RNG_TO_PARSE(random_for));
	if (bad || !public_of(&k->pk, &k->public)) {
		private_key_free(k);
		return fail(E_CORRUPT,
			    "not a private key for P-256 in PEM; `openssl genpkey -algorithm EC -pkeyopt "
			    "ec_paramgen_curve:P-256` makes one (mbedTLS: -0x%04x)",
			    (unsigned)-bad);
	}
	*out = k;
	return E_OK;
}

/* The parser refuses a scalar that is 0 or not below the curve's order, and another one is drawn (FIPS 186-5,
 * A.2.2). */
int private_key_make(struct private_key **out)
{
	uint8_t der[SEC1];
	int rc = E_CORRUPT;
	memcpy(der, sec1_head, sizeof sec1_head);
	memcpy(der + sizeof sec1_head + SCALAR, sec1_tail, sizeof sec1_tail);
	for (int i = 0; i < 8 && rc == E_CORRUPT; i++) {
		rc = crypto_random(der + sizeof sec1_head, SCALAR);
		if (rc >= 0)
			rc = key_open(der, sizeof der, out);
	}
	explicit_bzero(der, sizeof der);
	return rc;
}

static int key_bytes(int fd, const char *path, char *pem, size_t room, size_t *n)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fail(E_IO, "key %s is not a regular file", path);
	if (st.st_mode & 077)
		return fail(E_USAGE, "key %s: others may read it; chmod 600 %s, and make another if they did",
			    path, path);
	ssize_t got = 0;
	for (*n = 0; *n < room && (got = read(fd, pem + *n, room - *n)) > 0; *n += (size_t)got)
		;
	if (got < 0)
		return fail(E_IO, "cannot read key %s: %s", path, strerror(errno));
	return *n < room ? E_OK : fail(E_CORRUPT, "file %s is too long for a key", path);
}

int private_key_read(const char *path, struct private_key **out)
{
	char pem[PEM_BYTES];
	size_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fail(errno == ENOENT ? E_NOTFOUND : E_IO, "cannot open key %s: %s", path,
			    strerror(errno));
	int rc = key_bytes(fd, path, pem, sizeof pem - 1, &n);
	close(fd);
	if (rc >= 0) {
		pem[n] = 0;
		rc = fail_in(key_open((uint8_t *)pem, n + 1, out), "key %s", path);
	}
	explicit_bzero(pem, sizeof pem);
	return rc;
}

/* Renames the file unless the name exists. Some network file systems support only link() for this. */
static int name_it(const char *temp, const char *path)
{
	int bad = renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE);
	if (bad && errno == EINVAL)
		bad = link(temp, path);
	if (bad)
		return fail(errno == EEXIST ? E_BUSY : E_IO, "cannot make key %s: %s%s", path,
			    strerror(errno),
			    errno == EEXIST ? "; an existing key is never overwritten: move it away" : "");
	file_sync_folder_of(path);
	return E_OK;
}

int private_key_write(const struct private_key *k, const char *path)
{
	char pem[PEM_BYTES], temp[PATH_MAX];
	int bad = mbedtls_pk_write_key_pem((mbedtls_pk_context *)&k->pk, (uint8_t *)pem, sizeof pem);
	if (bad)
		return fail(E_NOMEM, "cannot write a key as PEM (mbedTLS: -0x%04x)", (unsigned)-bad);
	int rc = E_OK, fd = -1;
	if (snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= (int)sizeof temp)
		rc = fail(E_USAGE, "the path %.60s... is too long", path);
	else if ((fd = mkostemp(temp, O_CLOEXEC)) < 0)
		rc = fail(E_IO, "cannot make a file beside %s: %s", path, strerror(errno));
	size_t n = strlen(pem);
	if (rc >= 0 && (write(fd, pem, n) != (ssize_t)n || fsync(fd) < 0))
		rc = fail(E_IO, "cannot write key %s: %s", path, strerror(errno));
	explicit_bzero(pem, sizeof pem);
	if (rc >= 0)
		rc = name_it(temp, path);
	if (fd >= 0) {
		close(fd);
		unlink(temp);
	}
	return rc;
}

void private_key_free(struct private_key *k)
{
	if (!k)
		return;
	mbedtls_pk_free(&k->pk);
	pthread_mutex_destroy(&k->lock);
	explicit_bzero(k, sizeof *k);
	free(k);
}

void private_key_public(const struct private_key *k, struct public_key *out)
{
	*out = k->public;
}

int crypto_sign(const struct private_key *k, const struct sha256 *hash, struct signature *out)
{
	struct private_key *mine = (struct private_key *)k; /* signing changes only the curve's tables */
	uint8_t der[2 * DER_SIGNATURE];
	size_t n = 0;
	pthread_mutex_lock(&mine->lock);
	int bad = mbedtls_pk_sign(&mine->pk, MBEDTLS_MD_SHA256, hash->b, sizeof hash->b,
				  der SIGNATURE_ROOM(sizeof der), &n RNG(random_for));
	pthread_mutex_unlock(&mine->lock);
	if (bad || !signature_from_der(der, n, out))
		return fail(E_IO, "cannot sign (mbedTLS: -0x%04x)", (unsigned)-bad);
	return E_OK;
}

void public_key_id(const struct public_key *k, char out[KEY_ID_HEX + 1])
{
	struct sha256 h = {0};
	(void)!crypto_sha256(k->b, sizeof k->b, &h); /* can fail only before crypto_start */
	hex_write(h.b, KEY_ID_HEX / 2, out);
}

bool public_key_good(const struct public_key *k)
{
	mbedtls_pk_context pk;
	bool good = public_open(&pk, k);
	mbedtls_pk_free(&pk);
	return good;
}

bool crypto_verified(const struct public_key *k, const struct sha256 *hash, const struct signature *s)
{
	uint8_t der[DER_SIGNATURE];
	size_t n = signature_to_der(s, der);
	mbedtls_pk_context pk;
	bool good = public_open(&pk, k) &&
		    mbedtls_pk_verify(&pk, MBEDTLS_MD_SHA256, hash->b, sizeof hash->b, der, n) == 0;
	mbedtls_pk_free(&pk);
	return good;
}

/* ---- X.509 ---- */

static bool name_good(const char *name, size_t n)
{
	return n > 0 && n < NAME &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._") >= n;
}

/* "CN=name" */
static int subject_of(const char *name, char out[NAME + 3])
{
	if (!name_good(name, strlen(name)))
		return fail(E_USAGE,
			    "'%.80s' cannot name a certificate: use 1 to 63 letters, digits, '-', '.', '_'",
			    name);
	snprintf(out, NAME + 3, "CN=%s", name);
	return E_OK;
}

/* Reads a name that consists of one CN and nothing else. */
static int name_of(const mbedtls_x509_name *n, char name[NAME])
{
	static const uint8_t cn[] = {0x55, 0x04, 0x03};
	char text[NAME] = "";
	if (n->next || n->oid.len != sizeof cn || memcmp(n->oid.p, cn, sizeof cn) || n->val.len >= NAME)
		return fail(E_CORRUPT, "its subject must be a short CN alone");
	memcpy(text, n->val.p, n->val.len);
	if (!name_good(text, n->val.len))
		return fail(E_CORRUPT, "its name may only have letters, digits, '-', '.', '_'");
	memcpy(name, text, NAME);
	return E_OK;
}

static int x509_fail(const char *what, int bad)
{
	return fail(bad == X509_NO_MEMORY ? E_NOMEM : E_CORRUPT, "%s (mbedTLS: -0x%04x)", what,
		    (unsigned)-bad);
}

int csr_write(const struct private_key *k, const char *name, struct buf *pem)
{
	struct private_key *mine = (struct private_key *)k;
	char subject[NAME + 3], text[PEM_BYTES];
	int rc = subject_of(name, subject);
	if (rc < 0)
		return rc;
	mbedtls_x509write_csr w;
	mbedtls_x509write_csr_init(&w);
	mbedtls_x509write_csr_set_md_alg(&w, MBEDTLS_MD_SHA256);
	mbedtls_x509write_csr_set_key(&w, &mine->pk);
	pthread_mutex_lock(&mine->lock);
	int bad = mbedtls_x509write_csr_set_subject_name(&w, subject);
	bad = bad ? bad : mbedtls_x509write_csr_pem(&w, (uint8_t *)text, sizeof text RNG(random_for));
	pthread_mutex_unlock(&mine->lock);
	mbedtls_x509write_csr_free(&w);
	if (bad)
		return x509_fail("cannot make a signing request", bad);
	buf_puts(pem, text);
	return buf_ok(pem) ? E_OK : fail(E_NOMEM, "no memory for a signing request");
}

/* Copies n bytes of text and adds the NUL that PEM parsers want. NULL: it cannot be PEM text. */
static char *pem_text(const char *pem, size_t n)
{
	return n && n < PEM_BYTES && !memchr(pem, 0, n) ? strndup(pem, n) : NULL;
}

int public_key_pem(const char *pem, size_t n, struct public_key *out)
{
	char *text = pem_text(pem, n);
	mbedtls_pk_context pk;
	mbedtls_pk_init(&pk);
	bool good = text && mbedtls_pk_parse_public_key(&pk, (uint8_t *)text, n + 1) == 0 &&
		    public_of(&pk, out) && public_key_good(out);
	mbedtls_pk_free(&pk);
	free(text);
	return good ? E_OK
		    : fail(E_CORRUPT,
			   "not a public key for P-256 in PEM; `openssl pkey -in KEY -pubout` prints "
			   "that of a private key");
}

static const uint8_t *skip(const uint8_t *p, const uint8_t *end, const uint8_t *what, size_t n)
{
	return (size_t)(end - p) >= n && !memcmp(p, what, n) ? p + n : p;
}

/* The signed part is followed by the algorithm and, up to the end, a bit string with the signature. */
static bool csr_signed(const mbedtls_x509_csr *csr, const struct public_key *k)
{
	const uint8_t *end = csr->raw.p + csr->raw.len, *alg = csr->cri.p + csr->cri.len;
	const uint8_t *at = skip(skip(alg, end, ecdsa, sizeof ecdsa), end, ecdsa_null, sizeof ecdsa_null);
	size_t n = (size_t)(end - at);
	struct signature s;
	struct sha256 hash;
	return at > alg && n > 3 && n < 128 && at[0] == 0x03 && at[1] == n - 2 && at[2] == 0 &&
	       signature_from_der(at + 3, n - 3, &s) && crypto_sha256(csr->cri.p, csr->cri.len, &hash) >= 0 &&
	       crypto_verified(k, &hash, &s);
}

static int csr_check(const mbedtls_x509_csr *csr, struct public_key *out, char name[64])
{
	if (!public_of(&csr->pk, out))
		return fail(E_CORRUPT, "the signing request's key is not of P-256");
	if (!csr_signed(csr, out))
		return fail(E_CORRUPT, "the signing request is not signed by its key with ECDSA and SHA-256");
	return fail_in(name_of(&csr->subject, name), "signing request");
}

int csr_read(const char *pem, size_t n, struct public_key *out, char name[64])
{
	char *text = pem_text(pem, n);
	if (!text)
		return fail(E_CORRUPT, "not a signing request in PEM");
	mbedtls_x509_csr csr;
	mbedtls_x509_csr_init(&csr);
	int bad = mbedtls_x509_csr_parse(&csr, (uint8_t *)text, n + 1);
	int rc = bad ? x509_fail("not a signing request in PEM", bad) : csr_check(&csr, out, name);
	mbedtls_x509_csr_free(&csr);
	free(text);
	return rc;
}

/* Parses exactly one certificate. The caller must free crt, also after an error. */
static int cert_open(mbedtls_x509_crt *crt, const char *pem, size_t n)
{
	char *text = pem_text(pem, n);
	mbedtls_x509_crt_init(crt);
	if (!text)
		return fail(E_CORRUPT, "not a certificate in PEM");
	int bad = mbedtls_x509_crt_parse(crt, (uint8_t *)text, n + 1);
	free(text);
	if (bad)
		return x509_fail("not a certificate in PEM", bad);
	return crt->next ? fail(E_CORRUPT, "more than one certificate") : E_OK;
}

struct cert {
	const struct private_key *ca;
	const struct public_key *of;
	const char *issuer; /* "CN=..." */
	const char *name;
	const char *host;
	char until[16];
	bool is_ca;
};

enum { ALT_DNS = 0x82, ALT_IP = 0x87, ALT_LONGEST = 253 }; /* kinds of SubjectAltName */

/* Writes a SubjectAltName with one host. LONGEST keeps all DER lengths in the one-byte form. */
static int alt_name(mbedtls_x509write_cert *w, const char *host)
{
	enum { LONGEST = 120 };
	uint8_t der[4 + LONGEST], *value = der + 4;
	size_t n = strlen(host);
	bool v4 = inet_pton(AF_INET, host, value) == 1, v6 = !v4 && inet_pton(AF_INET6, host, value) == 1;
	if (!v4 && !v6)
		memcpy(value, host, n);
	n = v4 ? 4 : v6 ? 16 : n;
	der[0] = 0x30;
	der[1] = (uint8_t)(n + 2);
	der[2] = v4 || v6 ? ALT_IP : ALT_DNS;
	der[3] = (uint8_t)n;
	return mbedtls_x509write_crt_set_extension(w, "\x55\x1d\x11", 3, 0, der, n + 4);
}

/* ExtendedKeyUsage: serverAuth or clientAuth. */
static int purpose(mbedtls_x509write_cert *w, bool server)
{
	const uint8_t der[] = {0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06,
			       0x01, 0x05, 0x05, 0x07, 0x03, server ? 0x01 : 0x02};
	return mbedtls_x509write_crt_set_extension(w, "\x55\x1d\x25", 3, 0, der, sizeof der);
}

static int extensions(mbedtls_x509write_cert *w, const struct cert *c)
{
	unsigned usage = c->is_ca ? MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN
				  : MBEDTLS_X509_KU_DIGITAL_SIGNATURE;
	int bad = mbedtls_x509write_crt_set_basic_constraints(w, c->is_ca, c->is_ca ? 0 : -1);
	bad = bad ? bad : mbedtls_x509write_crt_set_key_usage(w, usage);
	bad = bad ? bad : mbedtls_x509write_crt_set_subject_key_identifier(w);
	bad = bad ? bad : mbedtls_x509write_crt_set_authority_key_identifier(w);
	if (!bad && !c->is_ca)
		bad = purpose(w, c->host);
	return !bad && c->host ? alt_name(w, c->host) : bad;
}

static int cert_fill(mbedtls_x509write_cert *w, const struct cert *c, const char *subject, uint8_t *serial)
{
	mbedtls_x509write_crt_set_version(w, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(w, MBEDTLS_MD_SHA256);
	int bad = SET_SERIAL(w, serial, SERIAL);
	bad = bad ? bad : mbedtls_x509write_crt_set_validity(w, "20000101000000", c->until);
	bad = bad ? bad : mbedtls_x509write_crt_set_issuer_name(w, c->issuer);
	bad = bad ? bad : mbedtls_x509write_crt_set_subject_name(w, subject);
	return bad ? bad : extensions(w, c);
}

static int cert_make(const struct cert *c, struct buf *pem)
{
	struct private_key *ca = (struct private_key *)c->ca;
	char subject[NAME + 3], text[PEM_BYTES];
	uint8_t serial[SERIAL];
	mbedtls_pk_context pk;
	mbedtls_x509write_cert w;
	int rc = subject_of(c->name, subject);
	if (rc >= 0)
		rc = crypto_random(serial, sizeof serial);
	if (rc < 0)
		return rc;
	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always of 16 bytes */
	int bad = public_open(&pk, c->of) ? 0 : PSA_ERROR_INVALID_ARGUMENT;
	mbedtls_x509write_crt_init(&w);
	mbedtls_x509write_crt_set_subject_key(&w, &pk);
	mbedtls_x509write_crt_set_issuer_key(&w, &ca->pk);
	pthread_mutex_lock(&ca->lock);
	bad = bad ? bad : cert_fill(&w, c, subject, serial);
	bad = bad ? bad : mbedtls_x509write_crt_pem(&w, (uint8_t *)text, sizeof text RNG(random_for));
	pthread_mutex_unlock(&ca->lock);
	mbedtls_x509write_crt_free(&w);
	mbedtls_pk_free(&pk);
	if (bad)
		return x509_fail("cannot make a certificate", bad);
	buf_puts(pem, text);
	return buf_ok(pem) ? E_OK : fail(E_NOMEM, "no memory for a certificate");
}

int cert_write_ca(const struct private_key *ca, const char *name, struct buf *pem)
{
	char issuer[NAME + 3];
	/* The date that means "no expiry" (RFC 5280, 4.1.2.5). */
	struct cert c = {.ca = ca,
			 .of = &ca->public,
			 .name = name,
			 .is_ca = true,
			 .issuer = issuer,
			 .until = "99991231235959"};
	int rc = subject_of(name, issuer);
	return rc < 0 ? rc : cert_make(&c, pem);
}

/* YYYYMMDDhhmmss */
static int years_from(int64_t now_s, int years, char out[16])
{
	struct tm tm;
	time_t t = (time_t)now_s;
	if (years < 1 || years > 1000 || now_s < 0 || !gmtime_r(&t, &tm) || tm.tm_year > 8099 - years)
		return fail(E_USAGE, "a certificate cannot be valid for %d years", years);
	tm.tm_year += years;
	t = timegm(&tm); /* normalizes 29 February */
	strftime(out, 16, "%Y%m%d%H%M%S", gmtime_r(&t, &tm));
	return E_OK;
}

static bool host_good(const char *host)
{
	struct in6_addr ip;
	size_t n = strlen(host);
	return inet_pton(AF_INET6, host, &ip) == 1 ||
	       (n && n <= 120 &&
		strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.*") == n);
}

static int ca_of(const char *ca_pem, const struct private_key *ca, char issuer[256])
{
	mbedtls_x509_crt crt;
	struct public_key its;
	int rc = fail_in(cert_open(&crt, ca_pem, strlen(ca_pem)), "authority");
	if (rc >= 0 && (!public_of(&crt.pk, &its) || memcmp(&its, &ca->public, sizeof its)))
		rc = fail(E_USAGE, "the authority's certificate belongs to another key");
	if (rc >= 0 && mbedtls_x509_dn_gets(issuer, 256, &crt.subject) < 0)
		rc = fail(E_USAGE, "the authority's name is too long");
	mbedtls_x509_crt_free(&crt);
	return rc;
}

int cert_write(const struct private_key *ca, const char *ca_pem, const struct public_key *of,
	       const char *name, const char *host, int64_t now_s, int years, struct buf *pem)
{
	char issuer[256];
	struct cert c = {.ca = ca, .of = of, .name = name, .host = host, .issuer = issuer};
	int rc =
	    host && !host_good(host)
		? fail(E_USAGE,
		       "'%.80s' is not a host name or address: use 1 to 120 letters, digits, '-', '.', '*', "
		       "or an IP address",
		       host)
		: E_OK;
	if (rc >= 0)
		rc = ca_of(ca_pem, ca, issuer);
	if (rc >= 0)
		rc = years_from(now_s, years, c.until);
	return rc < 0 ? rc : cert_make(&c, pem);
}

static int cert_check(mbedtls_x509_crt *crt, mbedtls_x509_crt *ca, struct public_key *out, char name[64])
{
	enum { DATES = MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE };
	uint32_t why = 0;
	int bad = mbedtls_x509_crt_verify(crt, ca, NULL, NULL, &why, NULL, NULL);
	if (bad && (!why || (why & ~(uint32_t)DATES)))
		return fail(E_WRONG, "the certificate is not of this authority (mbedTLS: 0x%x)",
			    (unsigned)why);
	if (!public_of(&crt->pk, out))
		return fail(E_CORRUPT, "the certificate's key is not of P-256");
	return fail_in(name_of(&crt->subject, name), "certificate");
}

int cert_read(const char *pem, size_t n, const char *ca_pem, struct public_key *out, char name[64])
{
	mbedtls_x509_crt crt, ca;
	int rc = cert_open(&crt, pem, n), ca_rc = cert_open(&ca, ca_pem, strlen(ca_pem));
	if (rc >= 0)
		rc = ca_rc < 0 ? fail_in(ca_rc, "authority") : cert_check(&crt, &ca, out, name);
	mbedtls_x509_crt_free(&crt);
	mbedtls_x509_crt_free(&ca);
	return rc;
}

/* Writes a SubjectAltName as text. false: the name is of another kind, or cannot be a host's. */
static bool alt_text(const mbedtls_x509_buf *alt, char out[ALT_LONGEST + 1])
{
	const bool four = alt->tag == ALT_IP && alt->len == 4, six = alt->tag == ALT_IP && alt->len == 16;
	if (four || six)
		return inet_ntop(four ? AF_INET : AF_INET6, alt->p, out, ALT_LONGEST + 1) != NULL;
	if (alt->tag != ALT_DNS || !alt->len || alt->len > ALT_LONGEST || memchr(alt->p, 0, alt->len))
		return false;
	memcpy(out, alt->p, alt->len);
	out[alt->len] = 0;
	return true;
}

int cert_hosts(const char *pem, size_t n, int (*each)(void *ctx, const char *host), void *ctx)
{
	char host[ALT_LONGEST + 1], *text = pem_text(pem, n);
	mbedtls_x509_crt crt;
	int rc = E_OK;
	if (!text)
		return fail(E_CORRUPT, "not a certificate in PEM");
	mbedtls_x509_crt_init(&crt);
	int bad = mbedtls_x509_crt_parse(&crt, (uint8_t *)text, n + 1);
	free(text);
	if (bad)
		rc = x509_fail("not a certificate in PEM", bad);
	for (const mbedtls_x509_sequence *s = &crt.subject_alt_names; !bad && s && rc >= 0; s = s->next)
		rc = alt_text(&s->buf, host) ? each(ctx, host) : E_OK;
	mbedtls_x509_crt_free(&crt);
	return rc;
}

int crypto_sha256_hex(const struct buf *b, char out[2 * SHA256_BYTES + 1])
{
	struct sha256 h;
	int rc = buf_ok(b) ? crypto_sha256(buf_str(b), b->n, &h) : fail(E_NOMEM, "no memory");
	if (rc >= 0)
		hex_write(h.b, sizeof h.b, out);
	return rc;
}
