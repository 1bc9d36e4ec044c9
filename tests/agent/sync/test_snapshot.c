/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/snapshot.h"
#include "agent/cache/cache.h"
#include "tests/lib/test.h"
#include "platform/base/mix.h"

static const char cls[] = "0123456789abcdef0123456789abcdef";

static struct snapshot example(struct arena *a)
{
	struct snapshot s = {.channel = CHANNEL_EARLY,
			     .serial = 7,
			     .made_s = 1800000000,
			     .expires_s = 1802592000,
			     .client = SNAPSHOT_CLIENT,
			     .poll_s = 21600,
			     .nblob = 2,
			     .nboard = 1,
			     .nrecord = 2,
			     .parts = 16,
			     .salt = "round 7"};
	strcpy(s.cls, cls);
	s.blob = ARENA_ARRAY(a, struct snapshot_blob, 2);
	s.blob[0] = (struct snapshot_blob){"records", 4096, {{1, 2, 3}}};
	s.blob[1] = (struct snapshot_blob){"weights", INT64_C(1) << 40, {{4, 5, 6}}};
	s.board = arena_alloc(a, sizeof *s.board);
	strcpy(s.board[0], cls);
	s.record = ARENA_ARRAY(a, struct key, 2);
	s.record[0] = (struct key){1, 2};
	s.record[1] = (struct key){UINT64_MAX, 0};
	return s;
}

static bool same(const struct snapshot *a, const struct snapshot *b)
{
	return !strcmp(a->cls, b->cls) && a->channel == b->channel && a->serial == b->serial &&
	       a->made_s == b->made_s && a->expires_s == b->expires_s && a->client == b->client &&
	       a->poll_s == b->poll_s && a->nblob == b->nblob && a->nboard == b->nboard &&
	       a->nrecord == b->nrecord && a->parts == b->parts && !strcmp(a->salt, b->salt) &&
	       !memcmp(a->blob, b->blob, sizeof *a->blob * (size_t)a->nblob) &&
	       !memcmp(a->board, b->board, sizeof *a->board * (size_t)a->nboard) &&
	       !memcmp(a->record, b->record, sizeof *a->record * (size_t)a->nrecord);
}

TEST(goes_and_comes)
{
	struct arena a = {0};
	struct buf b = {0};
	struct snapshot s = example(&a), t;
	REQUIRE_OK(snapshot_print(&s, &b));
	REQUIRE_OK(snapshot_parse(b.p, b.n, &a, &t));
	CHECK(same(&s, &t));
	buf_clear(&b);
	s.nblob = s.nboard = s.nrecord = s.parts = 0;
	s.salt[0] = 0;
	REQUIRE_OK(snapshot_print(&s, &b));
	REQUIRE_OK(snapshot_parse(b.p, b.n, &a, &t));
	CHECK(same(&s, &t));
	buf_free(&b);
	arena_free(&a);
}

/* A document at all limits at once can still be read. */
TEST(the_largest)
{
	struct arena a = {0};
	struct buf b = {0};
	struct snapshot s = example(&a), t;
	s.blob = ARENA_ARRAY(&a, struct snapshot_blob, SNAPSHOT_BLOBS + 1);
	s.board = arena_alloc(&a, sizeof *s.board * SNAPSHOT_REVOKED);
	s.record = ARENA_ARRAY(&a, struct key, SNAPSHOT_REVOKED);
	for (int i = 0; i < SNAPSHOT_BLOBS + 1; i++)
		s.blob[i] =
		    (struct snapshot_blob){"records", SNAPSHOT_BLOB, {{(uint8_t)i, (uint8_t)(i >> 8)}}};
	for (int i = 0; i < SNAPSHOT_REVOKED; i++)
		strcpy(s.board[i], cls);
	s.nblob = SNAPSHOT_BLOBS;
	s.nboard = s.nrecord = SNAPSHOT_REVOKED;
	s.serial = s.made_s = s.expires_s = INT64_C(1) << 53;
	REQUIRE_OK(snapshot_print(&s, &b));
	CHECK(b.n + SIGNED_HEAD <= SNAPSHOT_BYTES);
	REQUIRE_OK(snapshot_parse(b.p, b.n, &a, &t));
	CHECK(same(&s, &t));
	s.nblob++;
	CHECK_FAILS(snapshot_print(&s, &b), E_CORRUPT, "\"blobs\"");
	buf_free(&b);
	arena_free(&a);
}

static int parse(const char *text)
{
	struct arena a = {0};
	struct snapshot s;
	int rc = snapshot_parse(text, strlen(text), &a, &s);
	arena_free(&a);
	return rc;
}

/* Parses an example with one member changed; NULL: left out. */
static int with(const char *name, const char *value)
{
	static const char *const members[][2] = {
	    {"class", "\"0123456789abcdef0123456789abcdef\""},
	    {"channel", "\"all\""},
	    {"serial", "1"},
	    {"made_s", "100"},
	    {"expires_s", "200"},
	    {"client", "1"},
	    {"poll_s", "60"},
	    {"blobs", "[]"},
	    {"revoked", "{}"},
	    {"share", "{\"parts\":2,\"salt\":\"x\"}"},
	};
	struct buf b = {0};
	for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
		const char *v = strcmp(members[i][0], name) ? members[i][1] : value;
		if (v)
			buf_printf(&b, "%s\"%s\":%s", b.n ? "," : "{", members[i][0], v);
	}
	buf_puts(&b, "}");
	int rc = parse(b.p);
	buf_free(&b);
	return rc;
}

TEST(members)
{
	static const struct {
		const char *name, *good[4], *bad[14];
	} cases[] = {
	    {"class",
	     {"\"ffffffffffffffffffffffffffffffff\""},
	     {NULL, "\"\"", "\"any\"", "\"0123456789ABCDEF0123456789abcdef\"", "1", "null",
	      "\"0123456789abcdef0123456789abcde\"", "\"0123456789abcdef0123456789abcdef0\"",
	      "\"../../../../../../../../etc/passw\"", "\"0123456789abcdef\\u00000123456789abcdef\""}},
	    {"channel", {"\"canary\"", "\"early\""}, {NULL, "\"ALL\"", "\"\"", "\"all \"", "3", "[\"all\"]"}},
	    {"serial",
	     {"1", "9007199254740992"},
	     {NULL, "0", "-1", "9007199254740993", "9223372036854775808", "1e3", "1.0", "\"1\"", "true",
	      "null", "1e999", "99999999999999999999999999"}},
	    {"made_s", {"0", "200"}, {NULL, "-1", "201", "0.5"}},
	    {"expires_s", {"100", "9007199254740992"}, {NULL, "99", "-1", "\"never\""}},
	    {"client", {"1"}, {NULL, "0", "-1", "4294967297", "1.0"}},
	    {"poll_s", {"1", "31622400"}, {NULL, "0", "-60", "31622401"}},
	    {"blobs",
	     {NULL, "[{\"kind\":\"else\",\"bytes\":9007199254740992,\"sha256\":"
		    "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]"},
	     {"{}", "[1]", "[{}]", "[[]]", "[null]", "\"x\"",
	      "[{\"kind\":\"records\",\"bytes\":4194305,\"sha256\":"
	      "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]",
	      "[{\"kind\":\"records\",\"bytes\":-1,\"sha256\":"
	      "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]",
	      "[{\"kind\":\"records\",\"bytes\":1,\"sha256\":"
	      "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeef\"}]",
	      "[{\"kind\":\"recordsrecordsrecords\",\"bytes\":1,\"sha256\":"
	      "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]"}},
	    {"revoked",
	     {NULL, "{\"boards\":[],\"records\":[]}",
	      "{\"boards\":[\"0123456789abcdef0123456789abcdef\"],\"else\":1}"},
	     {"[]", "1", "{\"boards\":{}}", "{\"boards\":[\"x\"]}", "{\"boards\":[1]}",
	      "{\"records\":[\"\"]}", "{\"records\":[null]}"}},
	    {"share",
	     {NULL, "{\"parts\":0}", "{\"parts\":1048576,\"salt\":\"0123456789abcdef0123456789abcdef\"}"},
	     {"[]", "{}", "{\"parts\":-1,\"salt\":\"x\"}", "{\"parts\":1048577,\"salt\":\"x\"}",
	      "{\"parts\":2}", "{\"parts\":2,\"salt\":\"\"}",
	      "{\"parts\":2,\"salt\":\"0123456789abcdef0123456789abcdef0\"}",
	      "{\"parts\":2,\"salt\":\"\\n\"}", "{\"parts\":2,\"salt\":1}"}},
	    {"unknown", {NULL}, {0}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (int j = 0; j < 4 && (!j || cases[i].good[j]); j++)
			CHECK_OK(with(cases[i].name, cases[i].good[j]));
		for (int j = 0; j < 14 && (!j || cases[i].bad[j]) && (cases[i].bad[0] || cases[i].bad[1]);
		     j++)
			CHECK_FAILS(with(cases[i].name, cases[i].bad[j]), E_CORRUPT, "snapshot");
	}
	CHECK_FAILS(with("client", "2"), E_UNSUPPORTED, "update hone");
}

TEST(not_json)
{
	static const char *const bad[] = {"",
					  "{",
					  "{}",
					  "[]",
					  "null",
					  "1",
					  "\"\"",
					  "{} {}",
					  "{\"a\":1,\"a\":1}",
					  "\x80",
					  "{\"a\":\"\xff\"}",
					  "\xef\xbb\xbf{}"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(parse(bad[i]), E_CORRUPT, "snapshot");
	struct arena a = {0};
	struct snapshot s;
	static char big[SNAPSHOT_BYTES + 1];
	CHECK_FAILS(snapshot_parse(big, sizeof big, &a, &s), E_CORRUPT, "more than");
	CHECK_FAILS(snapshot_parse(big, 100, &a, &s), E_CORRUPT, "not JSON"); /* NUL bytes */
	for (int kind = 0; kind < 3; kind++) { /* the deepest and the widest JSON of this length */
		memset(big, "[{["[kind], sizeof big);
		for (size_t i = 0; kind == 1 && i + 6 < sizeof big; i += 5)
			memcpy(big + i, "{\"a\":", 5);
		for (size_t i = 1; kind == 2 && i + 2 < sizeof big; i += 2)
			memcpy(big + i, "0,", 2);
		CHECK_FAILS(snapshot_parse(big, sizeof big - 1, &a, &s), E_CORRUPT, "not JSON");
	}
	arena_free(&a);
}

TEST(each_byte_and_each_length)
{
	struct arena a = {0};
	struct buf b = {0};
	struct snapshot s = example(&a), t;
	REQUIRE_OK(snapshot_print(&s, &b));
	for (size_t i = 0; i < b.n; i++)
		for (int x = 1; x < 256; x <<= 1) {
			char was = b.p[i];
			b.p[i] = (char)(was ^ x);
			char *copy = memcpy(malloc(b.n), b.p, b.n);
			int rc = snapshot_parse(copy, b.n, &a, &t);
			CHECK(rc >= 0 || rc == E_CORRUPT || rc == E_UNSUPPORTED);
			free(copy);
			b.p[i] = was;
		}
	for (size_t n = 0; n < b.n; n++)
		CHECK(snapshot_parse(b.p, n, &a, &t) == E_CORRUPT);
	buf_free(&b);
	arena_free(&a);
}

TEST(channels)
{
	enum channel c;
	for (int i = 0; i < CHANNELS; i++) {
		CHECK_OK(channel_parse(channel_names[i], &c));
		CHECK((int)c == i);
	}
	CHECK_FAILS(channel_parse("beta", &c), E_CORRUPT, "not a channel");
	int count[CHANNELS] = {0};
	for (int i = 0; i < 10000; i++) {
		char id[KEY_ID_HEX + 1];
		key_text(mix_bytes(&i, sizeof i, 1), id);
		count[channel_of(id)]++;
		CHECK(channel_of(id) == channel_of(id));
	}
	CHECK(!count[CHANNEL_CANARY] && count[CHANNEL_EARLY] > 900 && count[CHANNEL_EARLY] < 1100);
}

/* The hash covers all that names a candidate, and nothing that was measured. */
TEST(revoked_hash_covers_the_candidate)
{
	struct rec r = {
	    .task = {1, 2}, .target_key = {3, 4}, .device = "cpu", .threads = 2, .cand = "tile=x:14"};
	struct rec other[6] = {r, r, r, r, r, r}, same_one = r;
	other[0].task.lo++;
	other[1].target_key.hi++;
	strcpy(other[2].device, "gpu");
	other[3].threads++;
	other[4].level = true;
	strcpy(other[5].cand, "tile=x:7");
	for (int i = 0; i < 6; i++)
		CHECK(!key_equal(revoked_hash(&r), revoked_hash(&other[i])));
	same_one.meas.median_ns = 1;
	strcpy(same_one.emitter, "another");
	CHECK(key_equal(revoked_hash(&r), revoked_hash(&same_one)));
	memset(r.cand, 'x', sizeof r.cand - 1);
	same_one = r;
	same_one.cand[sizeof r.cand - 2] = 'y';
	CHECK(!key_equal(revoked_hash(&r), revoked_hash(&same_one)));
}

TEST_MAIN
