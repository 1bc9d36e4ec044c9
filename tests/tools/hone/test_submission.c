/* SPDX-License-Identifier: Apache-2.0 */
/* Files of hone bench --submit: they are read back exactly, and refused when a value was changed by hand or
 * when no board could have measured it. SUBMISSIONS=n tries n random ones. */
#include "tests/lib/submission.h"
#include "tests/lib/test.h"
#include <ctype.h>
#include <math.h>
#include <jansson.h>

static int count(void)
{
	const char *n = getenv("SUBMISSIONS");
	return n ? atoi(n) : 40;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-5 * fabs(a);
}

static bool same(const struct submission *a, const struct submission *b)
{
	bool good = !strcmp(a->hone, b->hone) && !strcmp(a->board.model, b->board.model) &&
		    !strcmp(a->network.sha256, b->network.sha256) && !strcmp(a->run.level, b->run.level) &&
		    a->board.l2_bytes == b->board.l2_bytes && a->run.threads == b->run.threads &&
		    a->run.temp_after_mc == b->run.temp_after_mc &&
		    near(a->network.gflop, b->network.gflop) &&
		    near(a->check.max_rel_err, b->check.max_rel_err);
	for (int k = 0; k < SUBMIT_KINDS; k++)
		good = good && near(a->times[k].median, b->times[k].median) &&
		       near(a->times[k].high, b->times[k].high) && near(a->times[k].p90, b->times[k].p90);
	return good;
}

TEST(a_file_is_read_back)
{
	for (int i = 0; i < count(); i++) {
		struct submission s = random_submission((uint64_t)i), t;
		struct buf text = {0}, again = {0};
		REQUIRE_OK(submission_text(&s, &text));
		REQUIRE_OK(submission_read(text.p, text.n, &t));
		CHECK(same(&s, &t));
		CHECK_OK(submission_text(&t, &again));
		CHECK(!strcmp(buf_str(&text), buf_str(&again)));
		buf_free(&text);
		buf_free(&again);
	}
}

/* Any digit of a value, or letter of a text, that somebody changes. Blanks between members do not count. */
TEST(a_file_that_was_changed_is_refused)
{
	struct rng r;
	int tried = 0;
	rng_seed(&r, 7);
	for (int i = 0; i < count(); i++) {
		struct submission s = random_submission((uint64_t)i), t;
		struct buf text = {0};
		REQUIRE_OK(submission_text(&s, &text));
		for (int k = 0; k < 20; k++) {
			char *at = text.p + rng_below(&r, (uint32_t)text.n), old = *at;
			if (!isdigit((unsigned char)old) && !islower((unsigned char)old))
				continue;
			*at = isdigit((unsigned char)old) ? (char)('0' + (old - '0' + 1) % 10)
			      : old == 'q'                ? 'x'
							  : 'q';
			int rc = submission_read(text.p, text.n, &t);
			if (rc >= 0) {
				printf("read with '%c' for '%c' in %.40s\n", *at, old, at - 10);
				test_bad = 1;
			}
			*at = old;
			tried++;
		}
		CHECK_OK(submission_read(text.p, text.n, &t));
		buf_free(&text);
	}
	CHECK(tried > 5 * count());
}

/* Each member in turn is left out, or of another type; a member of the owner's own is added. */
static void without(const json_t *whole, const char *in, const char *name)
{
	struct submission t;
	for (int other = 0; other < 2; other++) {
		json_t *o = json_deep_copy(whole), *part = *in ? json_object_get(o, in) : o;
		if (other)
			json_object_set_new(part, name, json_true());
		else
			json_object_del(part, name);
		char *text = json_dumps(o, 0);
		int rc = submission_read(text, strlen(text), &t);
		if (rc >= 0 || !*err_text()) {
			printf("read without %s %s\n", in, name);
			test_bad = 1;
		}
		free(text);
		json_decref(o);
	}
}

TEST(every_member_is_needed)
{
	struct submission s = random_submission(3), t;
	struct buf text = {0};
	json_error_t e;
	REQUIRE_OK(submission_text(&s, &text));
	json_t *o = json_loads(buf_str(&text), 0, &e), *v, *w;
	const char *name, *inside;
	int n = 0;
	json_object_foreach(o, name, v)
	{
		without(o, "", name);
		n++;
		if (json_is_object(v))
			json_object_foreach(v, inside, w)
			{
				without(o, name, inside);
				n++;
			}
	}
	CHECK(n > 40);
	json_object_set_new(json_object_get(o, "board"), "serial", json_string("1000"));
	char *more = json_dumps(o, 0);
	CHECK_FAILS(submission_read(more, strlen(more), &t), E_CORRUPT, "a member \"serial\"");
	free(more);
	json_decref(o);
	buf_free(&text);
}

/* Values that contradict each other, with the sum of their file. */
TEST(what_no_board_measures_is_refused)
{
	struct buf text = {0};
	struct submission s = random_submission(5);
	s.times[SUBMIT_TUNED].median = s.times[SUBMIT_TUNED].min / 2;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "contradict each other");
	s = random_submission(5);
	s.times[SUBMIT_DEFAULT].p90 = s.times[SUBMIT_DEFAULT].median / 2;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "p90 is below the median");
	s = random_submission(5);
	for (int i = 0; i < 5; i++)
		(&s.times[SUBMIT_TUNED].median)[i] /= 1000;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "faster than");
	s = random_submission(5);
	s.run.share_pct = 60;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "disturbed: \"share_pct\" is 60");
	s = random_submission(5);
	s.run.others_pct = 90;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "disturbed: \"others_pct\" is 90");
	s = random_submission(5);
	snprintf(s.run.level, sizeof s.run.level, "best");
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "\"level\"");
	s = random_submission(5);
	s.run.rounds = 5;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "\"rounds\"");
	s = random_submission(5);
	s.times[SUBMIT_TUNED].p90 = NAN;
	CHECK_FAILS(submission_text(&s, &text), E_CORRUPT, "\"p90\"");
	CHECK(!text.n);
	buf_free(&text);
}

TEST(other_files_are_refused)
{
	struct submission s;
	char *large = calloc(1, SUBMISSION_BYTES + 1);
	CHECK_FAILS(submission_read("", 0, &s), E_CORRUPT, "not JSON");
	CHECK_FAILS(submission_read("[]", 2, &s), E_CORRUPT, "not a JSON object");
	CHECK_FAILS(submission_read("{}", 2, &s), E_CORRUPT, "no file of hone bench --submit");
	CHECK_FAILS(submission_read(large, SUBMISSION_BYTES + 1, &s), E_CORRUPT, "bytes");
	const char *newer = "{\"made_by\":\"hone bench --submit\",\"format\":2}";
	CHECK_FAILS(submission_read(newer, strlen(newer), &s), E_UNSUPPORTED, "its format is not 1");
	free(large);
}

/* A row has as many columns as its head, whatever the texts of strangers are. */
TEST(a_row_fits_the_table)
{
	struct buf head = {0};
	submission_head(&head);
	int bars = test_count(buf_str(&head), "|") - 11;
	for (int i = 0; i < count(); i++) {
		struct submission s = random_submission((uint64_t)i);
		struct buf row = {0};
		snprintf(s.board.model, sizeof s.board.model, "| <b>board</b> | `x` [a](b) %d", i);
		submission_row(&s, &row);
		CHECK(test_count(buf_str(&row), "|") == bars && test_count(buf_str(&row), "\n") == 1);
		CHECK(!strpbrk(buf_str(&row), "<>`["));
		CHECK(strstr(buf_str(&row), "bboard/b "));
		buf_free(&row);
	}
	buf_free(&head);
}

TEST_MAIN
