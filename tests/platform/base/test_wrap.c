/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/wrap.h"
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

enum { TOKENS = 12, TOKEN = 64, TEXT = TOKENS * (TOKEN + 1) };

/* A word, or a command of several words in backquotes with letters around it. Some letters take two bytes. */
static void make_token(struct rng *r, char out[TOKEN])
{
	size_t n = 0;
	bool command = rng_below(r, 4) == 0;
	int words = command ? 1 + (int)rng_below(r, 3) : 1;
	if (command && rng_below(r, 2))
		out[n++] = '(';
	if (command)
		out[n++] = '`';
	for (int i = 0; i < words; i++) {
		n += (size_t)snprintf(out + n, TOKEN - n, "%s", i ? " " : "");
		for (int k = 1 + (int)rng_below(r, 9); k > 0; k--)
			n += (size_t)snprintf(out + n, TOKEN - n, "%s", rng_below(r, 5) ? "x" : "\xc3\xbc");
	}
	snprintf(out + n, TOKEN - n, "%s%s", command ? "`" : "", rng_below(r, 3) ? "" : ",");
}

/* The lines by their definition: as many tokens as fit, at least one. */
static void by_tokens(char token[TOKENS][TOKEN], int n, int columns, char *out)
{
	int at = 0;
	*out = 0;
	for (int i = 0; i < n; i++) {
		int w = log_width(token[i]);
		bool breaks = i && at + 1 + w > columns;
		strcat(strcat(out, !i ? "" : breaks ? "\n" : " "), token[i]);
		at = !i || breaks ? w : at + 1 + w;
	}
}

static void by_lines(const char *text, int columns, char *out)
{
	*out = 0;
	while (*text) {
		size_t n = wrap_line(text, columns, false);
		REQUIRE(n > 0 && n <= strlen(text));
		strncat(out, text, n);
		text += n;
		if (*text) {
			CHECK(*text == ' ');
			strcat(out, "\n");
			text++;
		}
	}
}

TEST(lines_are_as_defined)
{
	struct rng r;
	rng_seed(&r, 11);
	for (int i = 0; i < 5000; i++) {
		char token[TOKENS][TOKEN], text[TEXT] = "", want[TEXT], got[TEXT];
		int n = 1 + (int)rng_below(&r, TOKENS), columns = 1 + (int)rng_below(&r, 40);
		for (int k = 0; k < n; k++) {
			make_token(&r, token[k]);
			strcat(strcat(text, k ? " " : ""), token[k]);
		}
		by_tokens(token, n, columns, want);
		by_lines(text, columns, got);
		if (strcmp(got, want)) {
			printf("case %d, %d columns:\n%s\ninstead of\n%s\n", i, columns, got, want);
			test_bad = 1;
			break;
		}
	}
}

TEST(long_words_are_cut_if_asked)
{
	CHECK(wrap_line("abcdefgh", 3, true) == 3);
	CHECK(wrap_line("abcdefgh", 3, false) == 8);
	CHECK(wrap_line("ab cdefgh", 3, true) == 2);
	CHECK(wrap_line("\xc3\xbc\xc3\xbc\xc3\xbc", 2, true) == 4);
	CHECK(wrap_line("`a b c d` e", 3, true) == 9); /* a command is not cut */
	CHECK(wrap_line("x`a b c d` e", 3, true) == 10);
	CHECK(wrap_line("`a b c d", 3, true) == 2); /* it is none: it has no end */
	CHECK(wrap_line("", 3, true) == 0);
}

TEST(columns_of_text)
{
	const char *text = "a\xc3\xbc"
			   "b";
	CHECK(wrap_column(text, 0) == text);
	CHECK(wrap_column(text, 2) == text + 3);
	CHECK(wrap_column(text, 9) == text + 4);
}

TEST_MAIN
