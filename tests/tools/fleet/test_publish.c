/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/crypto.h"
#include "platform/base/file.h"
#include "tests/lib/fake_s3.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"
#include "tools/fleet/publish.h"
#include "tools/fleet/sigv4.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

static char dir[64];

static const char *make_dir(void)
{
	snprintf(dir, sizeof dir, "%s", scratch_folder());
	return dir;
}

static const char *in_dir(const char *name)
{
	static char path[2][PATH_MAX];
	static int turn;
	turn = !turn;
	snprintf(path[turn], PATH_MAX, "%s/%s", dir, name);
	return path[turn];
}

static bool holds(const char *name, const char *text)
{
	struct arena a = {0};
	struct blob b;
	bool good = file_read(&a, in_dir(name), 0, &b) >= 0 && b.n == strlen(text) && !memcmp(b.p, text, b.n);
	arena_free(&a);
	return good;
}

static int put_text(struct place *p, const char *name, const char *text, bool immutable)
{
	return place_put(p, name, text, strlen(text), immutable);
}

static ino_t inode(const char *name)
{
	struct stat st;
	return stat(in_dir(name), &st) == 0 ? st.st_ino : 0;
}

TEST(kinds_of_places)
{
	const struct publish *k;
	CHECK(publish_find("/srv/hone", &k) == E_OK && !strcmp(k->name, "folder"));
	CHECK(publish_find("s3://bucket/x", &k) == E_OK && !strcmp(k->name, "s3"));
	CHECK_FAILS(publish_find("ftp://somewhere", &k), E_UNSUPPORTED, "neither a folder nor s3://");
}

TEST(a_folder)
{
	struct place *p;
	char path[128];
	snprintf(path, sizeof path, "%s/pub/deep", make_dir());
	REQUIRE_OK(place_open(path, &p));
	CHECK(put_text(p, "blob/ab", "one", true) == 1);
	CHECK(holds("pub/deep/blob/ab", "one"));
	ino_t first = inode("pub/deep/blob/ab");
	CHECK(put_text(p, "blob/ab", "one", true) == 0 && inode("pub/deep/blob/ab") == first);
	CHECK(put_text(p, "blob/ab", "longer", true) == 1 &&
	      holds("pub/deep/blob/ab", "longer")); /* it had been cut short */
	CHECK(put_text(p, "c0/canary/snapshot", "1", false) == 1 &&
	      put_text(p, "c0/canary/snapshot", "2", false) == 1);
	CHECK(holds("pub/deep/c0/canary/snapshot", "2"));
	CHECK(put_text(p, "blob/empty", "", true) == 1 && put_text(p, "blob/empty", "", true) == 0);
	CHECK(place_drop(p, "blob/ab") == 1 && place_drop(p, "blob/ab") == 0 && !inode("pub/deep/blob/ab"));
	CHECK(place_drop(p, "blob/empty/x") == 0);
	place_close(p);
	place_close(NULL);
}

TEST(names_that_are_none)
{
	struct place *p;
	char name[PUBLISH_NAME + 1];
	REQUIRE_OK(place_open(make_dir(), &p));
	const char *const bad[] = {"",       "/",   "/x", "x/",  "a//b", "..",  "../x",
				   "a/../b", "a.b", "A",  "a b", "a\n",  "a%2f"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_FAILS(put_text(p, bad[i], "x", false), E_USAGE, "is not the name");
		CHECK_FAILS(place_drop(p, bad[i]), E_USAGE, "is not the name");
	}
	memset(name, 'a', sizeof name);
	name[PUBLISH_NAME] = 0;
	CHECK_FAILS(put_text(p, name, "x", false), E_USAGE, "is not the name");
	name[PUBLISH_NAME - 1] = 0;
	CHECK(put_text(p, name, "x", false) == 1);
	place_close(p);
}

TEST(a_folder_that_cannot_be)
{
	struct place *p;
	make_dir();
	CHECK_OK(file_write(in_dir("file"), "x", 1));
	CHECK(place_open(in_dir("file"), &p) < 0 && !p);
	CHECK(place_open(in_dir("file/x"), &p) < 0);
	REQUIRE_OK(place_open(dir, &p));
	CHECK(put_text(p, "file/x", "x", true) < 0); /* a file is in the way */
	CHECK(holds("file", "x"));
	place_close(p);
}

/* A writer that is killed leaves either the old file or the new one; temporary files are deleted when they
 * are old. */
TEST(a_writer_that_is_killed)
{
	enum { BYTES = 1 << 20 };
	struct place *p;
	char *text = malloc(BYTES);
	make_dir();
	for (int i = 0; i < 12; i++) {
		pid_t child = fork();
		if (child == 0) {
			if (place_open(dir, &p) < 0)
				_exit(1);
			for (int j = 0;; j++) {
				memset(text, 'a' + j % 26, BYTES);
				if (place_put(p, "c/all/snapshot", text, BYTES, false) < 0)
					_exit(1);
			}
		}
		while (!inode("c/all/snapshot"))
			usleep(1000);
		usleep(3000 * (useconds_t)i);
		kill(child, SIGKILL);
		int status;
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		struct arena a = {0};
		struct blob b = {0};
		CHECK_OK(file_read(&a, in_dir("c/all/snapshot"), 0, &b));
		CHECK(b.n == BYTES);
		for (size_t at = 1; at < b.n && !test_bad; at++)
			CHECK(((const char *)b.p)[at] == ((const char *)b.p)[0]);
		arena_free(&a);
	}
	free(text);
	CHECK_OK(file_write(in_dir("c/all/snapshot.0123abcd"), "x", 1));
	CHECK_OK(file_write(in_dir("c/all/snapshot.4567abcd"), "x", 1));
	struct utimbuf old = {1, 1};
	utime(in_dir("c/all/snapshot.0123abcd"), &old);
	utime(in_dir("c/all/snapshot"), &old);
	REQUIRE_OK(place_open(dir, &p));
	CHECK(!inode("c/all/snapshot.0123abcd") && inode("c/all/snapshot.4567abcd") &&
	      inode("c/all/snapshot"));
	place_close(p);
}

/* Examples published by Amazon: S3's manual (signed headers), and get-vanilla of the test suite. */
static const char empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
#define S3_DOC(m, p, q, h, payload)                                                                          \
	{                                                                                                    \
		"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", "s3",       \
		    "20130524T000000Z", m, p, q, h, sizeof h / sizeof *h, payload                            \
	}
#define DOC_HOST                                                                                             \
	{                                                                                                    \
		"host", "examplebucket.s3.amazonaws.com"                                                     \
	}
#define DOC_DATE                                                                                             \
	{                                                                                                    \
		"x-amz-date", "20130524T000000Z"                                                             \
	}

TEST(published_signatures)
{
	static const char put_hash[] = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	const struct sigv4_header get[] = {
	    DOC_HOST, {"range", "bytes=0-9"}, {"x-amz-content-sha256", empty_hash}, DOC_DATE};
	const struct sigv4_header put[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
					   DOC_HOST,
					   {"x-amz-content-sha256", put_hash},
					   DOC_DATE,
					   {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
	const struct sigv4_header list[] = {DOC_HOST, {"x-amz-content-sha256", empty_hash}, DOC_DATE};
	const struct sigv4_header vanilla[] = {{"host", "example.amazonaws.com"},
					       {"x-amz-date", "20150830T123600Z"}};
	const struct {
		struct sigv4 s;
		const char *signature, *scope;
	} example[] = {
	    {S3_DOC("GET", "/test.txt", "", get, empty_hash),
	     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
	     "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"},
	    {S3_DOC("PUT", "/test%24file.text", "", put, put_hash),
	     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
	     "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"},
	    {S3_DOC("GET", "/", "lifecycle=", list, empty_hash),
	     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
	     "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"},
	    {S3_DOC("GET", "/", "max-keys=2&prefix=J", list, empty_hash),
	     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", "AWS4-HMAC-SHA256 "},
	    {{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "service",
	      "20150830T123600Z", "GET", "/", "", vanilla, 2, empty_hash},
	     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
	     "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request,"},
	};
	CHECK_OK(crypto_start());
	for (size_t i = 0; i < sizeof example / sizeof *example; i++) {
		struct buf b = {0};
		CHECK_OK(sigv4_sign(&example[i].s, &b));
		const char *at = strstr(buf_str(&b), "Signature=");
		CHECK(at && !strcmp(at + 10, example[i].signature) && strstr(buf_str(&b), example[i].scope));
		buf_free(&b);
	}
	struct buf b = {0};
	sigv4_escape("/a-b._~/\xc3\xa9 $+%", &b);
	CHECK(!strcmp(buf_str(&b), "/a-b._~/%C3%A9%20%24%2B%25"));
	buf_free(&b);
}

static struct fake_s3 *fake_on(struct place **p)
{
	struct fake_s3 *f = fake_s3_start();
	setenv("AWS_ENDPOINT_URL", f->url, 1);
	setenv("AWS_REGION", FAKE_REGION, 1);
	setenv("AWS_ACCESS_KEY_ID", FAKE_ID, 1);
	setenv("AWS_SECRET_ACCESS_KEY", FAKE_SECRET, 1);
	unsetenv("AWS_SESSION_TOKEN");
	CHECK_OK(place_open("s3://pub/fleet one/", p));
	return f;
}

static bool has(struct fake_s3 *f, const char *name, const char *text)
{
	const struct fake_object *o = fake_s3_find(f, name);
	return o && o->n == strlen(text) && !memcmp(o->p, text, o->n);
}

TEST(a_store)
{
	struct place *p;
	struct fake_s3 *f = fake_on(&p);
	char big[100000];
	memset(big, 'x', sizeof big);
	CHECK(put_text(p, "blob/ab", "one", true) == 1 && has(f, "/pub/fleet%20one/blob/ab", "one"));
	CHECK(strstr(fake_s3_find(f, "/pub/fleet%20one/blob/ab")->cache, "immutable"));
	CHECK(f->heads == 1 && f->puts == 1);
	CHECK(put_text(p, "blob/ab", "one", true) == 0 && f->puts == 1);
	CHECK(put_text(p, "blob/ab", "more", true) == 1 && has(f, "/pub/fleet%20one/blob/ab", "more"));
	CHECK(put_text(p, "c/all/snapshot", "1", false) == 1 &&
	      put_text(p, "c/all/snapshot", "2", false) == 1);
	CHECK(has(f, "/pub/fleet%20one/c/all/snapshot", "2") && f->puts == 4 && f->heads == 3);
	CHECK(!strstr(fake_s3_find(f, "/pub/fleet%20one/c/all/snapshot")->cache, "immutable"));
	CHECK(place_put(p, "blob/big", big, sizeof big, true) == 1);
	CHECK(put_text(p, "blob/0", "", true) == 1 && has(f, "/pub/fleet%20one/blob/0", ""));
	CHECK(place_drop(p, "blob/ab") == 1 && !fake_s3_find(f, "/pub/fleet%20one/blob/ab"));
	CHECK(f->wrong == 0);
	place_close(p);
	setenv("AWS_SESSION_TOKEN", "of/a+role==", 1);
	REQUIRE_OK(place_open("s3://pub", &p));
	CHECK(put_text(p, "root/1", "r", true) == 1 && has(f, "/pub/root/1", "r") && f->wrong == 0);
	unsetenv("AWS_SESSION_TOKEN");
	place_close(p);
	fake_s3_stop(f);
}

TEST(a_store_that_fails_for_a_while)
{
	struct place *p;
	struct fake_s3 *f = fake_on(&p);
	f->fail = 2, f->fail_status = 503;
	CHECK(put_text(p, "blob/a", "x", false) == 1 && f->requests == 3);
	f->fail = 1, f->fail_status = 429;
	CHECK(place_drop(p, "blob/a") == 1);
	f->fail = 1000, f->fail_status = 500, f->requests = 0;
	CHECK_FAILS(put_text(p, "blob/a", "x", true), E_IO, ": 500 ");
	CHECK(f->requests == 5);
	f->fail = 0;
	CHECK(put_text(p, "blob/a", "x", true) == 1);
	place_close(p);
	fake_s3_stop(f);
}

TEST(a_store_that_refuses)
{
	struct place *p;
	struct fake_s3 *f = fake_on(&p);
	f->fail = 1, f->fail_status = 403; /* HEAD gets 403, but PUT works */
	CHECK(put_text(p, "blob/a", "x", true) == 1 && f->requests == 2);
	f->requests = 0, f->fail = 1;
	CHECK_FAILS(put_text(p, "blob/a", "y", false), E_USAGE, "AWS_SECRET_ACCESS_KEY");
	CHECK(f->requests == 1);
	f->fail = 1, f->fail_status = 404;
	CHECK_FAILS(put_text(p, "blob/a", "y", false), E_USAGE, "create the bucket");
	f->fail = 1, f->fail_status = 301;
	CHECK_FAILS(place_drop(p, "blob/a"), E_USAGE, "AWS_REGION");
	CHECK(has(f, "/pub/fleet%20one/blob/a", "x"));
	place_close(p);

	setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
	REQUIRE_OK(place_open("s3://pub", &p));
	CHECK_FAILS(put_text(p, "blob/b", "x", false), E_USAGE, "SignatureDoesNotMatch");
	CHECK(f->wrong == 1 && !fake_s3_find(f, "/pub/blob/b"));
	place_close(p);
	setenv("AWS_SECRET_ACCESS_KEY", FAKE_SECRET, 1);
	setenv("AWS_REGION", "elsewhere-2", 1);
	REQUIRE_OK(place_open("s3://pub", &p));
	CHECK_FAILS(put_text(p, "blob/b", "x", false), E_USAGE, "403");
	place_close(p);
	fake_s3_stop(f);
}

TEST(a_store_that_is_not_there)
{
	struct place *p;
	struct fake_s3 *f = fake_on(&p);
	fake_s3_stop(f);
	CHECK_FAILS(put_text(p, "blob/a", "x", false), E_IO, "http://127.0.0.1");
	place_close(p);
}

TEST(settings_that_a_store_needs)
{
	struct place *p;
	unsetenv("AWS_ACCESS_KEY_ID");
	CHECK_FAILS(place_open("s3://pub", &p), E_USAGE, "AWS_ACCESS_KEY_ID");
	setenv("AWS_ACCESS_KEY_ID", FAKE_ID, 1);
	setenv("AWS_SECRET_ACCESS_KEY", FAKE_SECRET, 1);
	setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9/x", 1);
	CHECK_FAILS(place_open("s3://pub", &p), E_USAGE, "AWS_ENDPOINT_URL");
	setenv("AWS_ENDPOINT_URL", "file:///etc", 1);
	CHECK_FAILS(place_open("s3://pub", &p), E_USAGE, "AWS_ENDPOINT_URL");
	setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9/", 1);
	CHECK_FAILS(place_open("s3://", &p), E_USAGE, "s3://BUCKET");
	CHECK_FAILS(place_open("s3:///x", &p), E_USAGE, "s3://BUCKET");
	CHECK_FAILS(place_open("s3://b/../c", &p), E_USAGE, "s3://BUCKET");
	CHECK_OK(place_open("s3://b", &p));
	place_close(p);
}

TEST_MAIN
