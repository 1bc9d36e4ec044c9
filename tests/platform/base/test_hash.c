/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/crypto.h"
#include "platform/base/hash.h"
#include "platform/base/mix.h"
#include "tests/lib/test.h"

/* FIPS 180-4's examples, cut to 128 bits. */
TEST(keys_are_sha256)
{
	char text[33];
	key_text(hash_text(""), text);
	CHECK(strcmp(text, "e3b0c44298fc1c149afbf4c8996fb924") == 0);
	key_text(hash_text("abc"), text);
	CHECK(strcmp(text, "ba7816bf8f01cfea414140de5dae2223") == 0);
	key_text(hash_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), text);
	CHECK(strcmp(text, "248d6a61d20638b8e5c026930c3e6039") == 0);
}

/* Compares the whole digest with the library that signs. */
TEST(equals_another_library)
{
	unsigned char p[300];
	for (size_t n = 0; n < sizeof p; n++) {
		struct sha256 other;
		struct hash h;
		uint8_t digest[HASH_BYTES];
		p[n] = (unsigned char)(n * 31 + 7);
		hash_begin(&h);
		hash_add(&h, p, n / 3);
		hash_add(&h, p + n / 3, n - n / 3);
		hash_end(&h, digest);
		CHECK_OK(crypto_sha256(p, n, &other));
		CHECK(memcmp(digest, other.b, HASH_BYTES) == 0);
	}
}

/* Published values of MurmurHash3_x64_128 with seed 0. */
TEST(known_mixes)
{
	char text[33];
	key_text(mix_text(""), text);
	CHECK(strcmp(text, "00000000000000000000000000000000") == 0);
	key_text(mix_text("hello"), text);
	CHECK(strcmp(text, "cbd8a7b341bd9b025b1e906a48ae1d19") == 0);
	key_text(mix_text("The quick brown fox jumps over the lazy dog"), text);
	CHECK(strcmp(text, "e34bbc7bbc071b6c7a433ca9c49a9347") == 0);
}

TEST(every_length_and_bit_matters)
{
	unsigned char p[64] = {0};
	struct key last = mix_bytes(p, 0, 5);
	for (size_t n = 1; n <= sizeof p; n++) {
		struct key k = mix_bytes(p, n, 5);
		CHECK(!key_equal(k, last));
		p[n - 1] ^= 1;
		CHECK(!key_equal(k, mix_bytes(p, n, 5)));
		p[n - 1] ^= 1;
		last = k;
	}
	CHECK(!key_equal(mix_bytes(p, 8, 1), mix_bytes(p, 8, 2)));
}

TEST(keys)
{
	struct key a = hash_text("a"), b = hash_text("b"), back;
	CHECK(!key_equal(hash_join(a, b), hash_join(b, a)));
	char text[33];
	key_text(a, text);
	CHECK_OK(key_parse(text, &back));
	CHECK(key_equal(a, back));
	CHECK_FAILS(key_parse("", &back), E_CORRUPT, "32");
	CHECK_FAILS(key_parse("00000000000000000000000000000000a", &back), E_CORRUPT, "32");
	CHECK_FAILS(key_parse("0000000000000000000000000000000g", &back), E_CORRUPT, "32");
	CHECK_FAILS(key_parse("0000000000000000000000000000000", &back), E_CORRUPT, "32");
}

TEST(crc_is_castagnoli)
{
	CHECK(crc32c(0, "123456789", 9) == 0xE3069283);
	unsigned char zeros[32] = {0};
	CHECK(crc32c(0, zeros, 32) == 0x8A9136AA); /* RFC 3720, B.4 */
	CHECK(crc32c(crc32c(0, "1234", 4), "56789", 5) == 0xE3069283);
	CHECK(crc32c(0, "", 0) == 0);
}

/* The processor's instruction and the table give the same, at every length and alignment. */
TEST(crc_by_the_processor)
{
	unsigned char p[100];
	for (int i = 0; i < 100; i++)
		p[i] = (unsigned char)(i * 37 + 11);
	for (size_t from = 0; from < 9; from++)
		for (size_t n = 0; n + from <= sizeof p; n++)
			CHECK(crc32c((uint32_t)n, p + from, n) == crc32c_table((uint32_t)n, p + from, n));
}

/* From some size on, several parts are summed at once. */
TEST(crc_of_large_bytes)
{
	enum { N = 320000 };
	unsigned char *p = malloc(N);
	REQUIRE(p != NULL);
	for (uint32_t i = 0, x = 1; i < N; i++)
		p[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
	for (size_t from = 0; from < 3; from++)
		for (size_t n = 3 * 16384 - 1; n < N - 3; n += n / 3 + from)
			CHECK(crc32c((uint32_t)n, p + from, n) == crc32c_table((uint32_t)n, p + from, n));
	free(p);
}

TEST_MAIN
