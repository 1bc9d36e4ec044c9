/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of errors that are too long lose their middle, not their end. */
#include "agent/honed/shorten.h"
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

TEST(the_remedy_stays)
{
	char out[80];
	shorten("short; do this", out, sizeof out);
	CHECK(!strcmp(out, "short; do this"));
	shorten("m.onnx: node 'conv_1' (Conv): its weights have rank 5, and only ranks of 3 and 4 are known; "
		"export it with --opset 17",
		out, sizeof out);
	CHECK(!strcmp(out, "m.onnx: node 'conv_1' (Conv): its weights have ... export it with --opset 17"));
	shorten("onewordwithoutanyblankthatisfarlongerthanthereisroomforinthetextthatisallowedtobewritten",
		out, 40);
	CHECK(strlen(out) == 39 && !strncmp(out, "onewordwithout", 14) && strstr(out, " ... ") &&
	      !strcmp(out + strlen(out) - 9, "bewritten"));
}

/* Words of ASCII, or of characters of 2 to 4 bytes, with ends of clauses between some of them. */
static void make_text(struct rng *r, char *out, size_t n)
{
	static const char *const letters[] = {"a", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\xa4\x96"};
	static const char *const ends[] = {" ", " ", " ", "; ", ": ", ". "};
	int only = (int)rng_below(r, 6); /* 4, 5: any letter */
	size_t at = 0;
	while (at + 64 < n) {
		for (int k = (int)rng_below(r, 12); k >= 0; k--)
			at += (size_t)snprintf(out + at, n - at, "%s",
					       letters[only < 4 ? only : (int)rng_below(r, 4)]);
		at += (size_t)snprintf(out + at, n - at, "%s", ends[rng_below(r, 6)]);
	}
	snprintf(out + at, n - at, "end");
}

TEST(generated_texts_fit_and_stay_whole_characters)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 20000 && !test_bad; i++) {
		char text[400], out[400], plain[400];
		size_t n = 32 + rng_below(&r, 200);
		make_text(&r, text, 70 + rng_below(&r, 330));
		shorten(text, out, n);
		snprintf(plain, sizeof plain, "%s", out);
		log_plain(plain); /* half a character would become '?' */
		CHECK(strlen(out) < n && !strcmp(plain, out));
		const char *gap = strstr(out, " ... ");
		CHECK(!gap == (strlen(text) < n));
		if (!gap) {
			CHECK(!strcmp(out, text));
			continue;
		}
		size_t begin = (size_t)(gap - out), end = strlen(gap + 5);
		const char *from = text + strlen(text) - end;
		CHECK(!strncmp(text, out, begin) && end > 0 && !strcmp(from, gap + 5));
		/* no word is cut, if there is a place between words in the half that is for it */
		size_t half = (n - sizeof " ... ") / 2;
		CHECK(from[-1] == ' ' || !memchr(text + strlen(text) - half - 1, ' ', half));
		CHECK(begin == 0 || text[begin] == ' ' || !memchr(text, ' ', begin));
	}
}

TEST_MAIN
