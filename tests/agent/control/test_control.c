/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/control.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

static int parse(const char *line, struct request *r)
{
	return control_parse(line, strlen(line), r);
}

TEST(every_request_reads_back)
{
	for (int op = 0; op < OP_COUNT; op++) {
		struct request r = {.op = (enum control_op)op,
				    .has_id = op % 2,
				    .id = -op,
				    .model = "/opt/a \"b\"\\\n\xc3\xa9.onnx",
				    .text = "moves\ttill \xf0\x9f\xa4\x96",
				    .device = "opencl:0",
				    .shapes = "x=1x3x8x8\nn=4",
				    .ms = 1500,
				    .job = 77,
				    .bytes = CONTROL_PUT,
				    .version = 1,
				    .threads = 3,
				    .type = 6,
				    .now = true,
				    .stops = true,
				    .lease = LEASE_QUIET,
				    .key = hash_text("key"),
				    .task = 1,
				    .ntasks = 2,
				    .trials = 3,
				    .kept = 4,
				    .missing = 5,
				    .before_ms = 0.1,
				    .default_ms = 1.0 / 3,
				    .now_ms = 1e-7,
				    .disturbed = true,
				    .lasting = true,
				    .left_ms = -2.5,
				    .promise = 0};
		struct request back;
		struct buf one = {0}, two = {0};
		control_print(&r, &one);
		REQUIRE(buf_ok(&one) && one.n < CONTROL_LINE && one.p[one.n - 1] == '\n');
		CHECK_OK(control_parse(one.p, one.n - 1, &back));
		control_print(&back, &two);
		CHECK(!strcmp(one.p, two.p));
		CHECK(!strcmp(back.device, op == OP_JOB || op == OP_TUNE ? r.device : ""));
		CHECK(!strcmp(back.shapes, op == OP_TUNE ? r.shapes : ""));
		CHECK(back.op == r.op && back.has_id == r.has_id && back.id == (r.has_id ? r.id : 0));
		buf_free(&one);
		buf_free(&two);
	}
}

TEST(values_arrive)
{
	struct request r;
	CHECK_OK(parse("{\"id\":9,\"op\":\"put\",\"type\":3,\"bytes\":212,"
		       "\"key\":\"00000000000000010000000000000002\",\"more\":[{}]}",
		       &r));
	CHECK(r.op == OP_PUT && r.has_id && r.id == 9 && r.type == 3 && r.bytes == 212);
	CHECK(r.key.hi == 1 && r.key.lo == 2);
	CHECK_OK(parse("{\"op\":\"done\",\"disturbed\":true}", &r));
	CHECK(r.disturbed && !r.lasting);
	CHECK_OK(parse("{\"op\":\"done\",\"lasting\":true}", &r));
	CHECK(r.lasting && !r.disturbed);
	CHECK_OK(parse(" {\"op\":\"done\",\"after_ms\":2,\"promise\":0}", &r));
	CHECK(!r.has_id && r.now_ms == 2 && r.promise == 0);
	CHECK_OK(parse("{\"op\":\"done\",\"promise\":-0.0}", &r));
	struct buf b = {0};
	control_print(&r, &b);
	CHECK(strstr(buf_str(&b), "\"promise\":0}"));
	buf_free(&b);
	CHECK_OK(parse("{\"op\":\"done\"}", &r));
	CHECK(r.promise < 0 && r.kept == 0);
	CHECK_OK(parse("{\"op\":\"job\",\"model\":\"m\",\"pid\":12}", &r));
	CHECK(r.job == 12 && !strcmp(r.model, "m"));
	CHECK_OK(parse("{\"op\":\"lease\",\"kind\":\"measure\",\"threads\":\"of another op\"}", &r));
	CHECK(r.lease == LEASE_MEASURE);
}

/* Each line is refused with a reason, and still returns its id. */
TEST(refused)
{
	static const struct {
		int rc;
		const char *line, *part;
	} bad[] = {
	    {E_CORRUPT, "", "JSON"},
	    {E_CORRUPT, "{\"op\":\"status\"", "JSON"},
	    {E_CORRUPT, "{\"op\":\"status\"} x", "JSON"},
	    {E_CORRUPT, "[]", "object"},
	    {E_CORRUPT, "7", "JSON"},
	    {E_CORRUPT, "{\"op\":\"status\",\"op\":\"tune\"}", "duplicate"},
	    {E_CORRUPT, "{\"op\":\"stat\\u0000us\"}", "JSON"},
	    {E_CORRUPT, "{\"op\":\"\xff\"}", "JSON"},
	    {E_CORRUPT, "{\"id\":1,\"more\":2}", "'op' is missing"},
	    {E_CORRUPT, "{\"id\":1,\"op\":4}", "'op' is missing"},
	    {E_UNSUPPORTED, "{\"id\":1,\"op\":\"fly\"}", "unknown op 'fly'"},
	    {E_CORRUPT, "{\"id\":\"1\",\"op\":\"status\"}", "'id'"},
	    {E_CORRUPT, "{\"id\":1.5,\"op\":\"status\"}", "'id'"},
	    {E_CORRUPT, "{\"id\":99999999999999999999,\"op\":\"status\"}", "JSON"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"hello\"}", "'version' is missing"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"hello\",\"version\":0}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"hello\",\"version\":1.0}", "whole"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"tune\"}", "'model' is missing"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"tune\",\"model\":7}", "'model'"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"tune\",\"model\":\"m\",\"threads\":-1}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"tune\",\"model\":\"m\",\"threads\":4294967297}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"tune\",\"model\":\"m\",\"ms\":9223372036854775807}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"tune\",\"model\":\"m\",\"now\":1}", "'now'"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"job\",\"model\":\"m\",\"pid\":0}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"job\",\"model\":\"m\",\"pid\":-1}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"lease\",\"kind\":\"\"}", "compute"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"lease\",\"kind\":1}", "compute"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"put\",\"type\":1,\"bytes\":1,\"key\":\"12\"}", "hex"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"forget\",\"type\":14,\"key\":\"\"}", "within"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"progress\",\"now_ms\":1e300}", "number"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"progress\",\"now_ms\":true}", "number"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"progress\",\"now_ms\":-1}", "number"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"progress\",\"net_ms\":-1}", "number"},
	    {E_CORRUPT, "{\"id\":1,\"op\":\"done\",\"promise\":1.01}", "number"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct request r;
		CHECK_FAILS(parse(bad[i].line, &r), bad[i].rc, bad[i].part);
		if (strstr(bad[i].line, "{\"id\":1,"))
			CHECK(r.has_id && r.id == 1);
		else
			CHECK(!r.has_id);
	}
}

TEST(put_says_how_many_bytes)
{
	static const char *const bytes[] = {"-1", "16777217", "1e3", "\"1\"", "null"};
	struct request r;
	for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		char line[256];
		snprintf(line, sizeof line,
			 "{\"id\":1,\"op\":\"put\",\"type\":1,"
			 "\"key\":\"00000000000000010000000000000002\",\"bytes\":%s}",
			 bytes[i]);
		CHECK_FAILS(parse(line, &r), E_CORRUPT, "'bytes'");
	}
}

TEST(long_words)
{
	static char line[CONTROL_LINE + 64];
	struct request r;
	int n = snprintf(line, sizeof line, "{\"id\":5,\"op\":\"inhibit\",\"why\":\"%0255d\"}", 0);
	CHECK_OK(control_parse(line, (size_t)n, &r));
	n = snprintf(line, sizeof line, "{\"id\":5,\"op\":\"inhibit\",\"why\":\"%0256d\"}", 0);
	CHECK_FAILS(control_parse(line, (size_t)n, &r), E_CORRUPT, "255");
	CHECK(r.has_id && r.id == 5);
	memset(line, ' ', sizeof line);
	memcpy(line, "{\"op\":\"status\"}", 15);
	CHECK_OK(control_parse(line, CONTROL_LINE, &r));
	CHECK_FAILS(control_parse(line, CONTROL_LINE + 1, &r), E_CORRUPT, "at most");
	memset(line, '[', sizeof line);
	CHECK_FAILS(control_parse(line, CONTROL_LINE, &r), E_CORRUPT, "JSON");
}

TEST(replies)
{
	const struct request with = {.has_id = true, .id = 7}, without = {0};
	struct buf b = {0};
	control_good(&with, NULL, &b);
	control_good(&without, "\"version\":1", &b);
	control_bad(&with, E_BUSY, "a \"job\"\nruns\xff", &b);
	CHECK(!strcmp(buf_str(&b),
		      "{\"id\":7,\"ok\":true}\n{\"ok\":true,\"version\":1}\n"
		      "{\"id\":7,\"ok\":false,\"code\":\"busy\",\"error\":\"a \\\"job\\\"\\u000aruns?\"}\n"));
	buf_free(&b);
}

/* Any error text becomes one line. */
TEST(codes_read_back)
{
	for (int rc = E_USAGE; rc >= E_STOPPED; rc--)
		CHECK(control_code(err_name(rc)) == rc);
	CHECK(control_code("") == E_IO && control_code("good") == E_IO && control_code(NULL) == E_IO);
}

TEST(long_errors_fit)
{
	static char text[4096];
	struct buf b = {0};
	memset(text, 1, sizeof text - 1);
	control_bad(&(struct request){.has_id = true, .id = INT64_MIN}, E_CHILD, text, &b);
	CHECK(buf_ok(&b) && b.n < CONTROL_LINE);
	buf_clear(&b);
	memset(text, 'x', 999);
	strcpy(text + 999, "\xc3\xa9");
	control_bad(&(struct request){0}, E_CHILD, text, &b);
	CHECK(strstr(buf_str(&b), "xxx\"}\n") && !strchr(buf_str(&b), '?'));
	buf_free(&b);
}

TEST(text_of_any_bytes)
{
	struct buf b = {0};
	/* Cut off, too long, a surrogate, beyond the last character, C1. */
	control_text(&b, "a\xc3 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe0\x80\x80 \xc2\x80 \x7f");
	CHECK(!strcmp(buf_str(&b), "\"a? ?? ??? ???? ??? \xc2\x80 \x7f\""));
	for (uint64_t seed = 1; seed < 2000; seed++) {
		struct rng rng;
		char s[40], line[600];
		struct request r;
		rng_seed(&rng, seed);
		for (size_t i = 0; i < sizeof s; i++)
			s[i] = (char)(rng_u64(&rng) >> 11);
		s[sizeof s - 1] = 0;
		buf_clear(&b);
		control_text(&b, s);
		snprintf(line, sizeof line, "{\"op\":\"inhibit\",\"why\":%s}", buf_str(&b));
		CHECK_OK(parse(line, &r));
	}
	buf_free(&b);
}

TEST_MAIN
