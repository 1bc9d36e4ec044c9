/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/err.h"
#include "tests/lib/test.h"

TEST(text_is_kept)
{
	CHECK(fail(E_CORRUPT, "record %u: bad crc", 3u) == E_CORRUPT);
	CHECK(strcmp(err_text(), "record 3: bad crc") == 0);
}

TEST(caller_puts_in_front)
{
	int rc = fail(E_CORRUPT, "record 3: bad crc");
	CHECK(fail_in(rc, "cache %s", "/p") == E_CORRUPT);
	CHECK(strcmp(err_text(), "cache /p: record 3: bad crc") == 0);
	CHECK(fail_in(7, "not a failure") == 7);
	CHECK(strcmp(err_text(), "cache /p: record 3: bad crc") == 0);
}

TEST(own_text_as_argument)
{
	(void)fail(E_IO, "disk full");
	(void)fail(E_IO, "while saving: %s", err_text());
	CHECK(strcmp(err_text(), "while saving: disk full") == 0);
}

TEST(long_text_is_cut_at_a_character)
{
	char big[8192];
	for (int shift = 0; shift < 4; shift++) {
		size_t n = 0;
		while (n < (size_t)shift)
			big[n++] = 'a';
		for (; n + 3 < sizeof big; n += 3)
			memcpy(big + n, "\xE2\x82\xAC", 3); /* euro sign */
		big[n] = 0;
		(void)fail(E_IO, "%s", big);
		size_t len = strlen(err_text());
		CHECK(len < 4096 && len > 4090);
		CHECK((len - (size_t)shift) % 3 == 0);
	}
}

TEST(names)
{
	CHECK(strcmp(err_name(E_OK), "ok") == 0);
	CHECK(strcmp(err_name(5), "ok") == 0);
	CHECK(strcmp(err_name(E_CORRUPT), "corrupt") == 0);
	CHECK(strcmp(err_name(E_STOPPED), "stopped") == 0);
	CHECK(strcmp(err_name(-99), "unknown") == 0);
}

TEST_MAIN
