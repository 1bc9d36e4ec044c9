/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/trust.h"
#include "tests/lib/keys.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

static const char cls[] = "0123456789abcdef0123456789abcdef",
		  other_cls[] = "ffffffffffffffffffffffffffffffff";

/* Digits of base 16 select from keys(): root's, then the fleet's. */
static struct root root_of(int64_t version, const char *roots, int threshold, const char *fleets)
{
	const char *of[ROLES] = {roots, fleets};
	struct root r = {.version = version};
	r.role[ROLE_ROOT].threshold = threshold;
	r.role[ROLE_FLEET].threshold = 1;
	for (int role = 0; role < ROLES; role++)
		for (const char *c = of[role]; *c; c++)
			r.role[role].key[r.role[role].n++] =
			    keys(16)->public[strtol((char[]){*c, 0}, NULL, 16)];
	return r;
}

static struct buf signed_by(const char *kind, const char *text, size_t n, const char *who)
{
	const struct private_key *by[16];
	int nby = 0;
	struct buf b = {0};
	for (; *who; who++)
		by[nby++] = keys(16)->private[strtol((char[]){*who, 0}, NULL, 16)];
	CHECK_OK(signed_write(kind, text, n, by, nby, &b));
	return b;
}

static struct buf doc_of(const struct root *r, const char *who)
{
	struct buf text = {0};
	root_print(r, &text);
	struct buf b = signed_by("root", text.p, text.n, who);
	buf_free(&text);
	return b;
}

static struct buf doc(int64_t version, const char *roots, int threshold, const char *fleets, const char *who)
{
	struct root r = root_of(version, roots, threshold, fleets);
	return doc_of(&r, who);
}

/* ---- root documents ---- */

TEST(root_goes_and_comes)
{
	struct root r = root_of(7, "012", 2, "34"), s;
	struct buf b = {0};
	root_print(&r, &b);
	REQUIRE_OK(root_parse(b.p, b.n, &s));
	CHECK(!memcmp(&r, &s, sizeof r));
	buf_free(&b);
}

static int parse(const char *text)
{
	struct root r;
	return root_parse(text, strlen(text), &r);
}

static int parse_parts(const char *version, const char *root, const char *fleet)
{
	struct buf b = {0};
	buf_printf(&b, "{\"version\":%s,\"root\":%s,\"fleet\":%s}", version, root, fleet);
	int rc = parse(b.p);
	buf_free(&b);
	return rc;
}

static const char *role_text(int threshold, const char *who)
{
	static char text[4][4096];
	static int next;
	char *at = text[next++ % 4], *start = at;
	at += sprintf(at, "{\"threshold\":%d,\"keys\":[", threshold);
	for (const char *c = who; *c; c++) {
		char hex[2 * PUBLIC_KEY_BYTES + 1];
		hex_write(keys(16)->public[strtol((char[]){*c, 0}, NULL, 16)].b, PUBLIC_KEY_BYTES, hex);
		at += sprintf(at, "%s\"%s\"", c == who ? "" : ",", hex);
	}
	sprintf(at, "]}");
	return start;
}

TEST(roots_that_are_none)
{
	static const char *const versions[] = {"0", "-1", "1.0", "\"1\"", "null", "9007199254740993", "1e3"};
	static const char *const roles[] = {"null",
					    "[]",
					    "{}",
					    "1",
					    "{\"threshold\":1,\"keys\":[]}",
					    "{\"threshold\":1,\"keys\":[1]}",
					    "{\"threshold\":1,\"keys\":[\"\"]}",
					    "{\"threshold\":1,\"keys\":{}}",
					    "{\"keys\":[\"x\"]}"};
	CHECK_OK(parse_parts("1", role_text(2, "012"), role_text(1, "3")));
	CHECK_OK(parse_parts("9007199254740992,\"later\":[]", role_text(8, "01234567"), role_text(3, "89a")));
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
		CHECK_FAILS(parse_parts(versions[i], role_text(2, "012"), role_text(1, "3")), E_CORRUPT,
			    "version");
	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
		CHECK_FAILS(parse_parts("1", roles[i], role_text(1, "3")), E_CORRUPT, "root");
		CHECK_FAILS(parse_parts("1", role_text(2, "012"), roles[i]), E_CORRUPT, "fleet");
	}
	CHECK_FAILS(parse_parts("1", role_text(0, "012"), role_text(1, "3")), E_CORRUPT, "threshold");
	CHECK_FAILS(parse_parts("1", role_text(4, "012"), role_text(1, "3")), E_CORRUPT, "threshold");
	CHECK_FAILS(parse_parts("1", role_text(9, "0123456789"), role_text(1, "a")), E_CORRUPT, "threshold");
	CHECK_FAILS(parse_parts("1", role_text(2, "010"), role_text(1, "3")), E_CORRUPT, "twice");
	CHECK_FAILS(parse_parts("1", role_text(2, "012"), role_text(1, "33")), E_CORRUPT, "twice");
	CHECK_FAILS(parse_parts("1", role_text(2, "012"), role_text(1, "2")), E_CORRUPT, "twice");
	CHECK_FAILS(parse_parts("1", role_text(1, "00000000000000000"), role_text(1, "3")), E_CORRUPT,
		    "keys");
	static const char *const bad[] = {"", "[]", "{", "1", "{\"version\":1}"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(parse(bad[i]), E_CORRUPT, "root");
	static char big[TRUST_BYTES + 1];
	struct root r;
	CHECK_FAILS(root_parse(big, sizeof big, &r), E_CORRUPT, "more than");
	CHECK_FAILS(root_read(big, sizeof big, &r), E_CORRUPT, "more than");
	memset(big, '[', sizeof big);
	CHECK_FAILS(root_parse(big, TRUST_BYTES, &r), E_CORRUPT, "not JSON");
}

/* The changed bytes are no point of the curve. */
TEST(keys_off_the_curve)
{
	struct root r = root_of(1, "012", 2, "3"), s;
	struct buf b = {0};
	r.role[ROLE_FLEET].key[0].b[40] ^= 1;
	root_print(&r, &b);
	CHECK_FAILS(root_parse(b.p, b.n, &s), E_CORRUPT, "not a point of the curve");
	buf_free(&b);
}

TEST(root_signs_itself)
{
	static const struct {
		const char *who;
		bool good;
	} cases[] = {{"", false},  {"0", false},  {"01", true},  {"12", true},   {"20", true}, {"012", true},
		     {"3", false}, {"03", false}, {"34", false}, {"0123", true}, {"45", false}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buf b = doc(1, "012", 2, "3", cases[i].who);
		struct root r;
		int rc = root_read(b.p, b.n, &r);
		CHECK(rc == (cases[i].good ? E_OK : E_WRONG));
		buf_free(&b);
	}
	struct root r = root_of(1, "012", 2, "3");
	struct buf text = {0};
	root_print(&r, &text);
	struct buf b = signed_by("snapshot", text.p, text.n, "012");
	CHECK_FAILS(root_read(b.p, b.n, &r), E_CORRUPT, "kind snapshot");
	buf_free(&b);
	buf_free(&text);
}

/* Version 1 has keys 0, 1, 2; the next one has 1, 2, 5 unless the row says otherwise. */
TEST(roots_that_follow)
{
	static const struct {
		int64_t version;
		const char *roots, *who;
		int rc;
		const char *says;
	} cases[] = {
	    {2, "125", "12", E_OK, ""},
	    {2, "125", "0125", E_OK, ""},
	    {2, "125", "0251", E_OK, ""},
	    {2, "125", "25", E_WRONG, "root keys of version 1: 1 of the 2"},
	    {2, "125", "01", E_WRONG, "root keys of version 2: 1 of the 2"},
	    {2, "567", "567", E_WRONG, "root keys of version 1: not signed by a key"},
	    {2, "567", "012", E_WRONG, "root keys of version 2: not signed by a key"},
	    {2, "567", "0156", E_OK, ""},
	    {2, "567", "015", E_WRONG, "root keys of version 2: 1 of the 2"},
	    {2, "567", "056", E_WRONG, "root keys of version 1: 1 of the 2"},
	    {2, "567", "3456", E_WRONG, "root keys of version 1: not signed by a key"},
	    {3, "125", "012", E_UNSUPPORTED, "install version 2 first"},
	    {1, "012", "012", E_UNSUPPORTED, "does not follow"},
	    {9007199254740992, "125", "012", E_UNSUPPORTED, "install version 2 first"},
	};
	struct root one = root_of(1, "012", 2, "3"), next;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buf b = doc(cases[i].version, cases[i].roots, 2, "3", cases[i].who);
		if (cases[i].rc == E_OK)
			CHECK_OK(root_follows(&one, b.p, b.n, &next));
		else
			CHECK_FAILS(root_follows(&one, b.p, b.n, &next), cases[i].rc, cases[i].says);
		buf_free(&b);
	}
}

TEST(each_byte_of_a_root)
{
	struct root one = root_of(1, "012", 2, "3"), next;
	struct buf b = doc(2, "012", 2, "4", "01");
	for (size_t i = 0; i < b.n; i++) {
		b.p[i] ^= (char)(1 << i % 8);
		int rc = root_follows(&one, b.p, b.n, &next);
		CHECK(rc == E_CORRUPT || rc == E_WRONG || rc == E_UNSUPPORTED);
		b.p[i] ^= (char)(1 << i % 8);
	}
	for (size_t n = 0; n < b.n; n++)
		CHECK(root_follows(&one, b.p, n, &next) == E_CORRUPT);
	CHECK_OK(root_follows(&one, b.p, b.n, &next));
	buf_free(&b);
}

/* ---- the state of a board ---- */

struct place {
	char image[128], dir[128], state[160], serials[128];
};

/* Makes a new board with that image. */
static struct place board(const struct buf *image, const char *serials)
{
	static int n;
	struct place p;
	char dir[32];
	snprintf(dir, sizeof dir, "image-%d", n);
	CHECK_OK(file_mkdirs(scratch(dir), 0755));
	snprintf(p.image, sizeof p.image, "%s/root.signed", scratch(dir));
	snprintf(p.serials, sizeof p.serials, "%s/SERIALS", scratch(dir));
	snprintf(dir, sizeof dir, "board-%d/state", n++);
	snprintf(p.dir, sizeof p.dir, "%s", scratch(dir));
	snprintf(p.state, sizeof p.state, "%s/trust", p.dir);
	CHECK_OK(file_write(p.image, image->p, image->n));
	if (serials)
		CHECK_OK(file_write(p.serials, serials, strlen(serials)));
	return p;
}

/* Opens the trust; logs the error otherwise. */
static struct trust *open_good(const struct place *p, int rc)
{
	struct trust *t = NULL;
	int is = trust_open(p->image, p->dir, &t);
	CHECK(is == rc);
	if (is < 0)
		printf("%s\n", err_text());
	return t;
}

static bool advance_is(struct trust *t, struct buf b, int rc)
{
	int is = trust_advance(t, b.p, b.n);
	if (is != rc)
		printf("advance: %d (%s), not %d\n", is, is < 0 ? err_text() : "", rc);
	buf_free(&b);
	return is == rc;
}

/* Returns whether a snapshot signed by keys `who` counts. */
static bool fleet_is(const struct trust *t, const char *who)
{
	struct buf b = signed_by("snapshot", "x", 1, who);
	struct signed_doc d;
	CHECK_OK(signed_parse(b.p, b.n, "snapshot", &d));
	int rc = trust_check(t, ROLE_FLEET, &d);
	CHECK(rc >= 0 || rc == E_WRONG);
	buf_free(&b);
	return rc >= 0;
}

TEST(a_new_board)
{
	struct buf image = doc(1, "012", 2, "3", "01");
	struct place p = board(&image, NULL);
	struct trust *t = open_good(&p, 0);
	struct stat st;
	REQUIRE(t);
	CHECK(trust_root(t)->version == 1 && trust_floor(t, cls, "all") == 0);
	CHECK(fleet_is(t, "3") && !fleet_is(t, "0") && !fleet_is(t, "4") && !fleet_is(t, ""));
	CHECK(!file_exists(p.state));
	CHECK_OK(trust_raise(t, cls, "all", 5));
	REQUIRE(stat(p.state, &st) == 0 && stat(p.dir, &st) == 0);
	CHECK((st.st_mode & 077) == 0);
	REQUIRE(stat(p.state, &st) == 0);
	CHECK((st.st_mode & 077) == 0);
	trust_close(t);
	buf_free(&image);
}

TEST(images_that_are_none)
{
	struct buf image = doc(1, "012", 2, "3", "01"), unsigned_one = doc(1, "012", 2, "3", "0");
	struct place p = board(&image, NULL);
	struct trust *t = NULL;
	CHECK_FAILS(trust_open(scratch("nothing"), p.dir, &t), E_NOTFOUND, "no root of trust");
	CHECK_OK(file_write(p.image, unsigned_one.p, unsigned_one.n));
	CHECK_FAILS(trust_open(p.image, p.dir, &t), E_WRONG, "1 of the 2");
	CHECK_OK(file_write(p.image, "x", 1));
	CHECK_FAILS(trust_open(p.image, p.dir, &t), E_CORRUPT, "image's root");
	CHECK_OK(file_write(p.image, image.p, image.n));
	static const char *const bad[] = {"x",
					  "0123456789abcdef0123456789abcdef all",
					  "0123456789abcdef0123456789abcdef all 0\n",
					  "0123456789abcdef0123456789abcdef all 1 2\n",
					  "0123456789abcdef0123456789abcdef beta 1\n",
					  "0123 all 1\n",
					  "0123456789abcdef0123456789abcdef all 99999999999999999\n"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK_OK(file_write(p.serials, bad[i], strlen(bad[i])));
		CHECK_FAILS(trust_open(p.image, p.dir, &t), E_CORRUPT, "SERIALS");
	}
	CHECK(!t);
	buf_free(&image);
	buf_free(&unsigned_one);
}

TEST(serials_never_fall)
{
	struct buf image = doc(1, "012", 2, "3", "01");
	struct place p = board(&image, NULL);
	for (int again = 0; again < 3; again++) {
		struct trust *t = open_good(&p, 0);
		REQUIRE(t);
		int64_t was = again * 10;
		CHECK(trust_floor(t, cls, "all") == was);
		CHECK(trust_floor(t, cls, "early") == 0 && trust_floor(t, other_cls, "all") == 0);
		CHECK_OK(trust_raise(t, cls, "all", was + 10));
		CHECK_OK(trust_raise(t, cls, "all", was + 10));
		CHECK_FAILS(trust_raise(t, cls, "all", was + 9), E_WRONG, "older than");
		CHECK_FAILS(trust_raise(t, cls, "all", 1), E_WRONG, "older than");
		CHECK_FAILS(trust_raise(t, cls, "all", 0), E_USAGE, "not a serial");
		CHECK_FAILS(trust_raise(t, cls, "all", -1), E_USAGE, "not a serial");
		CHECK_FAILS(trust_raise(t, cls, "all", INT64_MAX), E_USAGE, "not a serial");
		CHECK_FAILS(trust_raise(t, "x", "all", 99), E_USAGE, "not a class");
		CHECK_FAILS(trust_raise(t, "0123456789abcdef0123456789abcdef0", "all", 99), E_USAGE,
			    "not a class");
		CHECK_FAILS(trust_raise(t, cls, "all 7\n", 99), E_CORRUPT, "not a channel");
		CHECK(trust_floor(t, cls, "all") == was + 10);
		trust_close(t);
	}
	buf_free(&image);
}

TEST(as_many_classes_as_may_be)
{
	struct buf image = doc(1, "012", 2, "3", "01");
	struct place p = board(&image, "0123456789abcdef0123456789abcdef all 7\n");
	struct trust *t = open_good(&p, 0);
	REQUIRE(t);
	for (int i = 0; i < TRUST_FLOORS; i++) {
		char c[33];
		snprintf(c, sizeof c, "%032x", (unsigned)i);
		CHECK_OK(trust_raise(t, c, "canary", INT64_C(1) << 53));
	}
	CHECK_FAILS(trust_raise(t, other_cls, "all", 1), E_NOMEM, "more than 256");
	CHECK_OK(trust_raise(t, "00000000000000000000000000000007", "canary", INT64_C(1) << 53));
	trust_close(t);
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_floor(t, "000000000000000000000000000000ff", "canary") == INT64_C(1) << 53);
	CHECK(trust_floor(t, cls, "all") == 7);
	trust_close(t);
	buf_free(&image);
}

/* A board that is two roots behind takes one after the other, and stops at the first bad one. */
TEST(rotation)
{
	struct buf image = doc(1, "012", 2, "3", "01");
	struct place p = board(&image, NULL);
	struct trust *t = open_good(&p, 0);
	REQUIRE(t);
	CHECK_OK(trust_raise(t, cls, "all", 9));
	CHECK(advance_is(t, doc(3, "678", 2, "45", "5667"), E_CORRUPT)); /* a key twice */
	CHECK(advance_is(t, doc(3, "678", 2, "5", "67"), E_UNSUPPORTED));
	CHECK(advance_is(t, doc(2, "126", 2, "34", "6"), E_WRONG));
	CHECK(
	    advance_is(t, doc(1, "012", 2, "5", "01"), 0)); /* not newer: another document of this version */
	CHECK(trust_root(t)->version == 1 && fleet_is(t, "3") && !fleet_is(t, "4") && !fleet_is(t, "5"));
	CHECK(advance_is(t, doc(2, "126", 2, "34", "126"), 1));
	CHECK(trust_root(t)->version == 2 && fleet_is(t, "3") && fleet_is(t, "4"));
	CHECK(advance_is(t, doc(2, "126", 2, "34", "126"), 0));
	trust_close(t);
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_root(t)->version == 2 && trust_floor(t, cls, "all") == 9);
	CHECK(advance_is(t, doc(3, "678", 2, "45", "67"), E_WRONG));
	CHECK(advance_is(t, doc(3, "678", 2, "45", "0678"), E_WRONG)); /* 0 was retired */
	CHECK(advance_is(t, doc(3, "678", 2, "45", "1267"), 1));
	CHECK(!fleet_is(t, "3") && fleet_is(t, "4") && fleet_is(t, "5"));
	CHECK(trust_floor(t, cls, "all") == 9);
	CHECK(advance_is(t, doc(1, "012", 2, "3", "01"), 0));
	CHECK(trust_root(t)->version == 3);
	trust_close(t);
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_root(t)->version == 3 && trust_floor(t, cls, "all") == 9 && !fleet_is(t, "3"));
	trust_close(t);
	buf_free(&image);
}

/* A stolen fleet key signed the highest serial; root revokes the key, and the fleet continues. */
TEST(a_stolen_key_is_recovered_from)
{
	struct buf image = doc(1, "012", 2, "3", "01");
	struct place p = board(&image, "0123456789abcdef0123456789abcdef all 7\n");
	struct trust *t = open_good(&p, 0);
	REQUIRE(t);
	CHECK_OK(trust_raise(t, cls, "all", INT64_C(1) << 53));
	CHECK(
	    advance_is(t, doc(2, "012", 2, "34", "01"), 1)); /* the key stays trusted, so its serial counts */
	CHECK(trust_floor(t, cls, "all") == INT64_C(1) << 53);
	CHECK(advance_is(t, doc(3, "012", 2, "5", "01"), 1));
	CHECK(trust_floor(t, cls, "all") == 7);
	CHECK_OK(trust_raise(t, cls, "all", 8));
	trust_close(t);
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_floor(t, cls, "all") == 8 && fleet_is(t, "5") && !fleet_is(t, "3") && !fleet_is(t, "4"));
	trust_close(t);
	buf_free(&image);
}

TEST(a_newer_image)
{
	struct buf image = doc(1, "012", 2, "3", "01"), two = doc(2, "012", 2, "34", "01"),
		   three = doc(3, "012", 2, "4", "01"), alien = doc(4, "89a", 2, "b", "89");
	struct place p = board(&image, NULL);
	struct trust *t = open_good(&p, 0);
	REQUIRE(t);
	CHECK_OK(trust_raise(t, cls, "all", 9));
	CHECK(trust_advance(t, two.p, two.n) == 1);
	trust_close(t);
	CHECK_OK(file_write(p.image, three.p, three.n));
	CHECK_OK(file_write(p.serials, "0123456789abcdef0123456789abcdef all 8\n", 39));
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_root(t)->version == 3 && trust_floor(t, cls, "all") == 9 && !fleet_is(t, "3"));
	trust_close(t);
	CHECK_OK(file_write(p.serials, "0123456789abcdef0123456789abcdef all 12", 39));
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_floor(t, cls, "all") == 12);
	CHECK_FAILS(trust_raise(t, cls, "all", 11), E_WRONG, "older");
	trust_close(t);
	/* With an older image again, the state still counts. */
	CHECK_OK(file_write(p.image, image.p, image.n));
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_root(t)->version == 2);
	trust_close(t);
	/* The board moves to another fleet. */
	CHECK_OK(file_write(p.image, alien.p, alien.n));
	CHECK(unlink(p.serials) == 0);
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_root(t)->version == 4 && trust_floor(t, cls, "all") == 0 && fleet_is(t, "b"));
	trust_close(t);
	buf_free(&image);
	buf_free(&two);
	buf_free(&three);
	buf_free(&alien);
}

/* A damaged state never counts for less than the image, and is distinguished from a missing one. */
TEST(each_byte_of_the_state)
{
	struct buf image = doc(1, "0", 1, "3", "0");
	struct place p = board(&image, "0123456789abcdef0123456789abcdef all 7\n");
	struct arena a = {0};
	struct blob good;
	struct trust *t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(advance_is(t, doc(2, "0", 1, "34", "0"), 1));
	CHECK_OK(trust_raise(t, cls, "all", 9));
	trust_close(t);
	REQUIRE_OK(file_read(&a, p.state, 0, &good));
	char *bytes = arena_memdup(&a, good.p, good.n);
	if (!freopen("/dev/null", "w", stderr)) /* each damage is logged */
		abort();
	const size_t step = test_share() > 1 ? 7 : 1; /* no multiple of 2: each bit of a byte has its turn */
	for (size_t i = 0; i < 2 * good.n; i += step) {
		size_t n = i < good.n ? good.n : i - good.n;
		FILE *f = fopen(p.state, "w"); /* no sync, for speed */
		REQUIRE(f);
		if (i < good.n)
			bytes[i] ^= (char)(1 << i % 8);
		fwrite(bytes, 1, n, f);
		fclose(f);
		if (i < good.n)
			bytes[i] ^= (char)(1 << i % 8);
		t = open_good(&p, 1);
		REQUIRE(t);
		CHECK(trust_root(t)->version == 1 && trust_floor(t, cls, "all") == 7 && !fleet_is(t, "4"));
		trust_close(t);
	}
	/* The next raise writes a whole state again. */
	t = open_good(&p, 1);
	REQUIRE(t);
	CHECK_FAILS(trust_raise(t, cls, "all", 6), E_WRONG, "older");
	CHECK(advance_is(t, doc(2, "0", 1, "34", "0"), 1));
	trust_close(t);
	t = open_good(&p, 0);
	REQUIRE(t);
	CHECK(trust_root(t)->version == 2 && trust_floor(t, cls, "all") == 7);
	trust_close(t);
	CHECK(truncate(p.state, 10 << 20) == 0);
	t = open_good(&p, 1);
	trust_close(t);
	arena_free(&a);
	buf_free(&image);
}

/* If the state's folder cannot be written, nothing is taken. */
TEST(nowhere_to_keep_it)
{
	struct buf image = doc(1, "012", 2, "3", "01");
	struct place p = board(&image, NULL);
	struct trust *t = open_good(&p, 0);
	char cmd[300];
	REQUIRE(t);
	CHECK_OK(trust_raise(t, cls, "all", 5));
	snprintf(cmd, sizeof cmd, "rm -r %s && : > %s", p.dir, p.dir);
	REQUIRE(system(cmd) == 0);
	CHECK(trust_raise(t, cls, "all", 6) == E_IO);
	CHECK(advance_is(t, doc(2, "012", 2, "5", "01"), E_IO));
	CHECK(trust_floor(t, cls, "all") == 5 && trust_root(t)->version == 1 && fleet_is(t, "3"));
	trust_close(t);
	t = NULL;
	CHECK(trust_open(p.image, p.dir, &t) == E_IO && !t);
	buf_free(&image);
}

TEST_MAIN
