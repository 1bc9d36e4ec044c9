/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/buf.h"
#include "tests/lib/test.h"

TEST(text_grows)
{
	struct buf b = {0};
	CHECK(strcmp(buf_str(&b), "") == 0);
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d,", i);
	CHECK(buf_ok(&b) && b.n == strlen(b.p) && b.n == 3890);
	CHECK(strncmp(buf_str(&b), "0,1,2,", 6) == 0);
	buf_clear(&b);
	CHECK(b.n == 0 && strcmp(buf_str(&b), "") == 0);
	buf_puts(&b, "again");
	CHECK(strcmp(buf_str(&b), "again") == 0);
	buf_free(&b);
}

TEST(exact_sizes)
{
	for (size_t n = 0; n < 300; n++) {
		struct buf b = {0}, c = {0};
		char s[301];
		memset(s, 'x', n);
		s[n] = 0;
		buf_printf(&b, "%s", s);
		buf_puts(&c, s);
		CHECK(b.n == n && strcmp(buf_str(&b), s) == 0);
		CHECK(c.n == n && strcmp(buf_str(&c), s) == 0);
		buf_free(&b);
		buf_free(&c);
	}
}

TEST(failure_is_sticky)
{
	struct buf b = {0};
	buf_puts(&b, "abc");
	buf_add(&b, "", SIZE_MAX - 2);
	CHECK(!buf_ok(&b));
	buf_puts(&b, "def");
	buf_printf(&b, "%d", 1);
	CHECK(strcmp(buf_str(&b), "abc") == 0);
	buf_clear(&b);
	CHECK(buf_ok(&b));
	buf_free(&b);
}

TEST(numbers_round_trip)
{
	struct buf b = {0};
	buf_u8(&b, 0xFE);
	buf_u32(&b, 0x01020304);
	buf_u64(&b, UINT64_C(0x1122334455667788));
	CHECK(b.n == 13 && (unsigned char)b.p[1] == 4);
	struct cur c = {.p = (const uint8_t *)b.p, .n = b.n};
	CHECK(*(const uint8_t *)cur_bytes(&c, 1) == 0xFE);
	CHECK(cur_u32(&c) == 0x01020304);
	CHECK(cur_u64(&c) == UINT64_C(0x1122334455667788));
	CHECK(!c.bad && c.at == 13);
	CHECK(cur_u32(&c) == 0 && c.bad);
	buf_free(&b);
}

TEST(reading_past_the_end)
{
	struct cur c = {.p = (const uint8_t *)"abc", .n = 3};
	CHECK(cur_bytes(&c, SIZE_MAX) == NULL && c.bad);
	CHECK(cur_u64(&c) == 0);
	c = (struct cur){.p = (const uint8_t *)"abc", .n = 3};
	CHECK(cur_u32(&c) == 0 && c.bad);
	c = (struct cur){.p = (const uint8_t *)"abc", .n = 3};
	CHECK(cur_bytes(&c, 3) != NULL && !c.bad);
	CHECK(cur_bytes(&c, 0) != NULL && !c.bad);
}

TEST_MAIN
