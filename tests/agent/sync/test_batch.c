/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/batch.h"
#include "tests/lib/keys.h"
#include "tests/lib/records.h"
#include "tests/lib/test.h"

static const char cls[] = "0123456789abcdef0123456789abcdef", board[] = "ffeeddccbbaa99887766554433221100";
static const struct key cls_key = {0x0123456789abcdef, 0x0123456789abcdef};

static const char **lines(struct arena *a, int n)
{
	const char **line = ARENA_ARRAY(a, const char *, n);
	for (int i = 0; i < n; i++) {
		struct rec r = record(a, i, cls_key, 1000 + i);
		line[i] = i % 3 == 2 ? record_trials_line(a, &r) : record_line(a, &r);
	}
	return line;
}

static struct batch parsed;

static int parse(const char *text)
{
	static struct arena a; /* holds `parsed` until the next call */
	if (crypto_start() < 0)
		abort();
	arena_free(&a);
	return batch_parse(text, strlen(text), &a, &parsed);
}

TEST(goes_and_comes)
{
	struct arena a = {0};
	struct buf b = {0};
	const char **line = lines(&a, BATCH_RECORDS);
	REQUIRE_OK(crypto_start());
	for (int n = 1; n <= BATCH_RECORDS; n += 21) {
		buf_clear(&b);
		REQUIRE_OK(batch_print(cls, board, "soc x86 \xc3\xa4 8", line, n, &b));
		REQUIRE_OK(batch_parse(b.p, b.n, &a, &parsed));
		CHECK(!strcmp(parsed.cls, cls) && !strcmp(parsed.board, board) && parsed.n == n);
		CHECK(!strcmp(parsed.label, "soc x86 \xc3\xa4 8"));
		for (int i = 0; i < n; i++) {
			CHECK(!strcmp(parsed.raw[i], line[i]));
			CHECK(parsed.line[i].type == (i % 3 == 2 ? CACHE_TRIALS : CACHE_REC));
		}
		struct sha256 name;
		REQUIRE_OK(crypto_sha256(b.p, b.n, &name));
		CHECK(!memcmp(&name, &parsed.name, sizeof name));
	}
	buf_free(&b);
	arena_free(&a);
}

TEST(batches_that_are_not_sent)
{
	struct arena a = {0};
	struct buf b = {0};
	const char **line = lines(&a, BATCH_RECORDS + 1);
	CHECK_FAILS(batch_print(cls, board, "x", line, 0, &b), E_USAGE, "1 to 64");
	CHECK_FAILS(batch_print(cls, board, "x", line, BATCH_RECORDS + 1, &b), E_USAGE, "1 to 64");
	char *big = memset(arena_alloc(&a, BATCH_BYTES + 1), 'x', BATCH_BYTES);
	CHECK_FAILS(batch_print(cls, board, "x", (const char *const[]){big}, 1, &b), E_USAGE, "bytes");
	buf_free(&b);
	arena_free(&a);
}

static int with_head(const char *head)
{
	struct arena a = {0};
	char *text = arena_printf(&a, "%s\n%s\n", head, lines(&a, 1)[0]);
	int rc = parse(text);
	arena_free(&a);
	return rc;
}

#define HEAD(c, b, l, n) "{\"class\":" c ",\"board\":" b ",\"label\":" l ",\"n\":" n "}"
#define CLS "\"0123456789abcdef0123456789abcdef\""

TEST(heads)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "[]",
	    "{",
	    HEAD("\"\"", CLS, "\"x\"", "1"),
	    HEAD("\"any\"", CLS, "\"x\"", "1"),
	    HEAD(CLS, "\"me\"", "\"x\"", "1"),
	    HEAD(CLS, "1", "\"x\"", "1"),
	    HEAD(CLS, CLS, "\"\"", "1"),
	    HEAD(CLS, CLS, "\"\\u001b[2J\"", "1"),
	    HEAD(CLS, CLS, "\"\\u0000\"", "1"),
	    HEAD(CLS, CLS, "1", "1"),
	    HEAD(CLS, CLS, "\"x\"", "0"),
	    HEAD(CLS, CLS, "\"x\"", "2"),
	    HEAD(CLS, CLS, "\"x\"", "65"),
	    HEAD(CLS, CLS, "\"x\"", "-1"),
	    HEAD(CLS, CLS, "\"x\"", "4294967297"),
	    HEAD(CLS, CLS, "\"x\"", "1.0"),
	    HEAD(CLS, CLS, "\"x\"", "\"1\""),
	    HEAD(CLS, CLS, "\"x\"", "1,\"n\":1"),
	    HEAD(CLS, CLS, "\"x\"", "1") "{}",
	};
	CHECK_OK(with_head(HEAD(CLS, CLS, "\"x\"", "1")));
	CHECK_OK(with_head(HEAD(CLS, CLS, "\"x\"", "1,\"later\":[]")));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(with_head(bad[i]), E_CORRUPT, "batch: line");
	char label[200];
	memset(label, 'x', sizeof label);
	label[160] = 0;
	struct arena a = {0};
	CHECK_FAILS(with_head(arena_printf(&a, HEAD(CLS, CLS, "\"%s\"", "1"), label)), E_CORRUPT,
		    "\"label\"");
	CHECK_OK(with_head(arena_printf(&a, HEAD(CLS, CLS, "\"%s\"", "1"), label + 1)));
	arena_free(&a);
}

/* Parses n lines under a head that announces `says` lines. */
static int with_lines(const char *const *line, int n, int says)
{
	struct buf b = {0};
	buf_printf(&b, HEAD(CLS, CLS, "\"x\"", "%d") "\n", says);
	for (int i = 0; i < n; i++)
		buf_printf(&b, "%s\n", line[i]);
	int rc = parse(b.p);
	buf_free(&b);
	return rc;
}

TEST(records)
{
	struct arena a = {0};
	const char **line = lines(&a, 4);
	struct rec other = record(&a, 1, (struct key){1, 1}, 1000), fast = record(&a, 1, cls_key, -1);
	CHECK_OK(with_lines(line, 4, 4));
	CHECK_FAILS(with_lines(line, 3, 4), E_CORRUPT, "line 5: missing line: 4");
	CHECK_FAILS(with_lines(line, 4, 3), E_CORRUPT, "more than the 3");
	CHECK_FAILS(with_lines((const char *const[]){line[0], line[1], line[0]}, 3, 3), E_CORRUPT,
		    "line 4: the same record as in line 2");
	CHECK_FAILS(with_lines((const char *const[]){line[0], ""}, 2, 2), E_CORRUPT, "line 3");
	CHECK_FAILS(with_lines((const char *const[]){line[0], "{}"}, 2, 2), E_CORRUPT, "line 3");
	CHECK_FAILS(with_lines((const char *const[]){record_line(&a, &other)}, 1, 1), E_CORRUPT,
		    "line 2: the record is of another class");
	CHECK_FAILS(with_lines((const char *const[]){record_trials_line(&a, &other)}, 1, 1), E_CORRUPT,
		    "line 2: the record is of another class");
	CHECK_FAILS(with_lines((const char *const[]){record_line(&a, &fast)}, 1, 1), E_CORRUPT,
		    "line 2: record");
	const struct key model = hash_text("model");
	const char *chosen = record_choices_line(&a, model, cls_key, "hone-choices 1\njoin 1 Conv_2\n"),
		   *elsewhere = record_choices_line(&a, model, model, "hone-choices 1\njoin 1 Conv_2\n"),
		   *unnamed = record_as_line(&a, CACHE_CHOICES, cls_key, "hone-choices 1\njoin 1 Conv_2\n");
	CHECK_OK(with_lines(&chosen, 1, 1));
	CHECK_FAILS(with_lines(&elsewhere, 1, 1), E_CORRUPT, "line 2: the record is of another class");
	const char *both[] = {unnamed, chosen};
	CHECK_OK(with_lines(&unnamed, 1, 1)); /* from a board before its upgrade */
	CHECK(parsed.n == 0);
	CHECK_OK(with_lines(both, 2, 2));
	CHECK(parsed.n == 1 && parsed.line[0].type == CACHE_CHOICES && !strcmp(parsed.raw[0], chosen));
	arena_free(&a);
}

static const char *code_line(struct arena *a)
{
	return arena_printf(a, "{\"type\":\"code\",\"key\":\"%s\",\"text\":\"x\"}", cls);
}

TEST(no_code)
{
	struct arena a = {0};
	CHECK_FAILS(with_lines((const char *const[]){code_line(&a)}, 1, 1), E_CORRUPT, "line 2");
	arena_free(&a);
}

/* A recipe decides what a model answers: no fleet takes one, alone or among records. */
TEST(no_recipe)
{
	struct arena a = {0};
	struct exchange_line l;
	const char **line = lines(&a, 2), *recipe = record_recipe_line(&a, hash_text("model"));
	CHECK_OK(exchange_parse(recipe, strlen(recipe), &a, &l));
	CHECK_FAILS(with_lines(&recipe, 1, 1), E_CORRUPT, "line 2: a recipe, which a fleet does not take");
	CHECK_FAILS(with_lines((const char *const[]){line[0], recipe, line[1]}, 3, 3), E_CORRUPT,
		    "line 3: a recipe");
	arena_free(&a);
}

TEST(sizes)
{
	struct arena a = {0};
	char *big = arena_alloc(&a, BATCH_BYTES + 2);
	REQUIRE_OK(crypto_start());
	CHECK_FAILS(batch_parse(big, BATCH_BYTES + 1, &a, &parsed), E_CORRUPT, "more than");
	CHECK_FAILS(batch_parse(big, 100, &a, &parsed), E_CORRUPT, "line 1");
	CHECK_FAILS(batch_parse("", 0, &a, &parsed), E_CORRUPT, "line 1");
	/* A line of the largest length and depth. */
	static const char fill[] = "[x\n \"";
	for (int i = 0; i < 5; i++) {
		int n = sprintf(big, HEAD(CLS, CLS, "\"x\"", "64") "\n");
		memset(big + n, fill[i], (size_t)(BATCH_BYTES - n));
		big[BATCH_BYTES - 1] = '\n';
		CHECK_FAILS(batch_parse(big, BATCH_BYTES, &a, &parsed), E_CORRUPT, "line 2");
	}
	arena_free(&a);
}

TEST(each_byte_and_each_length)
{
	struct arena a = {0}, scratch = {0};
	struct buf b = {0};
	struct rec r = record(&a, 0, cls_key, 1000);
	const char *line[2] = {record_line(&a, &r), record_trials_line(&a, &r)};
	REQUIRE_OK(crypto_start());
	REQUIRE_OK(batch_print(cls, board, "soc", line, 2, &b));
	for (size_t i = 0; i < b.n; i++) {
		char was = b.p[i];
		for (int x = 1; x < 256; x <<= 1) {
			b.p[i] = (char)(was ^ x);
			char *copy = memcpy(malloc(b.n), b.p, b.n);
			int rc = batch_parse(copy, b.n, &scratch, &parsed);
			CHECK(rc == E_CORRUPT || rc >= 0);
			free(copy);
			arena_reset(&scratch);
		}
		b.p[i] = 0;
		CHECK(batch_parse(b.p, b.n, &scratch, &parsed) == E_CORRUPT);
		b.p[i] = was;
	}
	for (size_t n = 0; n < b.n; n++) {
		CHECK(batch_parse(b.p, n, &scratch, &parsed) == E_CORRUPT);
		arena_reset(&scratch);
	}
	buf_free(&b);
	arena_free(&scratch);
	arena_free(&a);
}

TEST_MAIN
