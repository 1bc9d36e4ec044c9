/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/mask.h"
#include "tests/lib/test.h"

static const struct {
	const char *text, *want;
} row[] = {
    {"", ""},
    {"\n\n", "\n\n"},
    {"arm7 started", "HOST started"},
    {"ARM7: honed on arm7.", "HOST: honed on HOST."},
    {"alarm7 arm72 arm7_x arm7-x", "alarm7 arm72 arm7_x HOST-x"},
    {"/home/anna/m.onnx /home/bo", "/home/USER/m.onnx /home/USER"},
    {"/home/", "/home/USER"},
    {"anna's (anna) annab", "USER's (USER) annab"},
    {"key = abc", "key = (left out)"},
    {"a\nAPI_KEY=abc def\nb", "a\nAPI_KEY= (left out)\nb"},
    {"\"token\": \"abc\",\nrest", "\"token\": (left out)\nrest"},
    {"x passwd: y", "x passwd: (left out)"},
    {"the key to it", "the key to it"},
    {"monkey business = 7", "monkey business = 7"},
    {"secret_of-anna=1", "secret_of-USER= (left out)"},
    {"key=", "key="},
};

TEST(names_and_secrets_are_masked)
{
	struct mask m = {0};
	mask_add(&m, "arm7", "HOST");
	mask_add(&m, "anna", "USER");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct buf b = {0};
		mask_text(&m, row[i].text, &b);
		if (strcmp(buf_str(&b), row[i].want)) {
			printf("%s\n-> %s\nwanted %s\n", row[i].text, buf_str(&b), row[i].want);
			test_bad = 1;
		}
		buf_free(&b);
	}
}

TEST(too_short_and_too_many_words_are_left)
{
	struct mask m = {0};
	struct buf b = {0};
	mask_add(&m, "ab", "X");
	mask_add(&m, NULL, "X");
	CHECK(m.n == 0);
	for (int i = 0; i < 3 * MASK_WORDS; i++)
		mask_add(&m, "word", "X");
	CHECK(m.n == MASK_WORDS);
	mask_text(&m, "ab word", &b);
	CHECK(!strcmp(buf_str(&b), "ab X"));
	buf_free(&b);
	mask_board(&m);
	CHECK(m.n <= MASK_WORDS);
}

TEST_MAIN
