/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks by a server, a mirror, a network or a stick. The board refuses each with a reason, its cache and
 * trust stay the same byte for byte, and the next good run works. Each row of the tables is an attack of
 * Uptane's list, or one that HTTP allows. Attacks on files come from a web server and from a folder. */
#include "tests/lib/fleet_tree.h"

#include <poll.h>
#include <sys/stat.h>

static struct tree tree;
static struct web web;
static struct sync_sum sum;
static int count;

static char snapshot_name[96], blob_name[96];

/* Publishes the honest fleet's next snapshot: serial 6, with two more records that the board does not know
 * yet. */
static void publish_honest(void)
{
	tree_publish(&tree);
	struct buf lines = {0};
	for (int i = 3; i < 5; i++) {
		struct rec r = tree_rec(&tree, i);
		tree_line(&r, &lines);
	}
	tree_write(&tree, blob_name, lines.p, lines.n);
	buf_free(&lines);
	for (int v = 2; v < 5; v++) {
		char name[32];
		snprintf(name, sizeof name, "www/root/%d", v);
		(void)!remove(tree_path(&tree, name));
	}
}

static void begin(bool by_web)
{
	tree_open(&tree);
	snprintf(snapshot_name, sizeof snapshot_name, "%s", tree_snapshot_name(&tree));
	web = (struct web){.dir = tree.www};
	web_start(&web);
	if (by_web)
		tree.conf.server = web.url;
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.taken == 3);
	tree.s.serial++;
	snprintf(blob_name, sizeof blob_name, "%s", tree_blob_name(tree_add_records(&tree, 3, 5)));
	publish_honest();
}

static void finish(void)
{
	web_stop(&web);
	tree_close(&tree);
	count++;
}

/* The honest fleet is back: whatever the attack left, the next run succeeds, and all records are there. */
static void recover(const char *name)
{
	struct clock later = clock_virtual(clock_now(&clock_real) + 8 * PACE_DAY_NS);
	web.answer = NULL;
	publish_honest();
	tree.now.date_s = TREE_MADE_S + 100;
	tree.now.clock = &later; /* any Retry-After has passed */
	int rc = tree_sync(&tree, &sum);
	if (rc < 0 || tree_has(&tree, 0, 5) != 5) {
		printf("after '%s' the honest fleet is not taken: %s\n", name,
		       rc < 0 ? err_text() : "records");
		test_bad = 1;
	}
}

static void judge(const char *name, bool by_web, int rc, const char *text)
{
	struct key before = tree_hash(&tree);
	int got = tree_sync(&tree, &sum);
	if ((rc ? got != rc : got >= 0) || !strstr(err_text(), text) || strchr(err_text(), '\n')) {
		printf("'%s' by %s: got %s (%s), wanted %s with \"%s\"\n", name, by_web ? "web" : "folder",
		       got < 0 ? err_name(got) : "good", got < 0 ? err_text() : "", err_name(rc), text);
		test_bad = 1;
	}
	if (!key_equal(before, tree_hash(&tree)) || tree_has(&tree, 3, 5)) {
		printf("'%s' by %s: cache or trust changed\n", name, by_web ? "web" : "folder");
		test_bad = 1;
	}
	recover(name);
}

/* Attacks on files. */

struct attack {
	const char *name; /* its first letter tells the file: snapshot, blob or root */
	void (*set)(const struct attack *a);
	int rc;
	const char *text;      /* part of the error */
	size_t n;              /* a place, length or number for `set` */
	const char *to, *from; /* texts for `set` */
};

static void read_file(const char *name, struct buf *out)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, tree_path(&tree, name), 0, &b));
	buf_add(out, b.p, b.n);
	arena_free(&a);
}

static void copy(const char *from, const char *to)
{
	struct buf b = {0};
	read_file(from, &b);
	tree_write(&tree, to, b.p, b.n);
	buf_free(&b);
}

static void flip(const char *name, size_t from_end)
{
	struct buf b = {0};
	read_file(name, &b);
	b.p[b.n - 1 - from_end] ^= 1;
	tree_write(&tree, name, b.p, b.n);
	buf_free(&b);
}

static void cut(const char *name, size_t n)
{
	struct buf b = {0};
	read_file(name, &b);
	tree_write(&tree, name, b.p, n < b.n ? n : b.n - 1);
	buf_free(&b);
}

static void pad(const char *name, size_t to)
{
	struct buf b = {0};
	read_file(name, &b);
	while (b.n < to)
		buf_puts(&b, "                                                                ");
	tree_write(&tree, name, b.p, b.n);
	buf_free(&b);
}

static void sign_as(const char *kind, const char *payload, const struct private_key *key)
{
	struct buf doc = {0};
	CHECK_OK(signed_write(kind, payload, strlen(payload), &key, 1, &doc));
	tree_write(&tree, snapshot_name, doc.p, doc.n);
	buf_free(&doc);
}

/* Signs the honest payload with one text replaced. */
static void sign_changed(const char *from, const char *to)
{
	struct buf b = {0}, out = {0};
	CHECK_OK(snapshot_print(&tree.s, &b));
	char *at = strstr(b.p, from);
	CHECK(at != NULL);
	if (at)
		buf_printf(&out, "%.*s%s%s", (int)(at - b.p), b.p, to, at + strlen(from));
	sign_as("snapshot", buf_str(&out), tree.fleet);
	buf_free(&b);
	buf_free(&out);
}

static void put_snapshot(struct snapshot s, const struct private_key *key)
{
	struct buf doc = {0};
	tree_sign(&s, key, &doc);
	tree_write(&tree, snapshot_name, doc.p, doc.n);
	buf_free(&doc);
}

static void s_flip_signature(const struct attack *a)
{
	(void)a;
	struct buf b = {0};
	read_file(snapshot_name, &b);
	char *sig = strstr(b.p, "\nsig ");
	sig[60] = sig[60] == '0' ? '1' : '0';
	tree_write(&tree, snapshot_name, b.p, b.n);
	buf_free(&b);
}
static void s_class(const struct attack *a)
{
	(void)a;
	struct snapshot s = tree.s;
	memset(s.cls, 'a', 32);
	put_snapshot(s, tree.fleet);
}
static void s_channel(const struct attack *a)
{
	(void)a;
	struct snapshot s = tree.s;
	s.channel = CHANNEL_CANARY;
	put_snapshot(s, tree.fleet);
}
static void s_stranger(const struct attack *a)
{
	(void)a;
	put_snapshot(tree.s, tree.stranger);
}
static void s_by_root(const struct attack *a)
{
	(void)a;
	put_snapshot(tree.s, tree.root[0]);
}
static void s_unsigned(const struct attack *a)
{
	(void)a;
	struct buf b = {0}, out = {0};
	CHECK_OK(snapshot_print(&tree.s, &b));
	buf_printf(&out, "hone-signed 1 snapshot %zu\n\n%s", b.n, b.p);
	tree_write(&tree, snapshot_name, out.p, out.n);
	buf_free(&b);
	buf_free(&out);
}
static void s_kind(const struct attack *a)
{
	(void)a;
	struct buf b = {0};
	CHECK_OK(snapshot_print(&tree.s, &b));
	sign_as("records", buf_str(&b), tree.fleet);
	buf_free(&b);
}
static void s_kind_renamed(const struct attack *a)
{
	struct buf b = {0};
	s_kind(a);
	read_file(snapshot_name, &b);
	const char *end = strchr(b.p, '\n'), *length = memrchr(b.p, ' ', (size_t)(end - b.p));
	struct buf out = {0};
	buf_printf(&out, "hone-signed 1 snapshot%s", length);
	tree_write(&tree, snapshot_name, out.p, out.n);
	buf_free(&b);
	buf_free(&out);
}
static void s_deep(const struct attack *a)
{
	(void)a;
	struct buf b = {0};
	for (int i = 0; i < 100000; i++)
		buf_puts(&b, "[");
	sign_as("snapshot", buf_str(&b), tree.fleet);
	buf_free(&b);
}
static void s_expired(const struct attack *a)
{
	(void)a;
	tree.now.date_s = TREE_MADE_S + TREE_LIFE_S + 86400 * 3;
}
static void s_is_blob(const struct attack *a)
{
	(void)a;
	copy(blob_name, snapshot_name);
}

static void b_gone(const struct attack *a)
{
	(void)a;
	CHECK(remove(tree_path(&tree, blob_name)) == 0);
}
static void b_mixed(const struct attack *a) /* a blob of the snapshot before */
{
	(void)a;
	copy(tree_blob_name(&tree.blob[0]), blob_name);
}
static void b_same_length(const struct attack *a)
{
	(void)a;
	struct buf b = {0};
	read_file(blob_name, &b);
	memset(b.p, 'x', b.n);
	tree_write(&tree, blob_name, b.p, b.n);
	buf_free(&b);
}

static void put_root(int n)
{
	struct buf doc = {0};
	tree_sign_root(&tree, 0, n, &doc);
	tree_write(&tree, "www/root/2", doc.p, doc.n);
	buf_free(&doc);
}
static void put_root_by(const char *payload, const struct private_key *one, const struct private_key *other)
{
	const struct private_key *key[] = {one, other};
	struct buf doc = {0};
	CHECK_OK(signed_write("root", payload, strlen(payload), key, 2, &doc));
	tree_write(&tree, "www/root/2", doc.p, doc.n);
	buf_free(&doc);
}
static void put_next_root_by(const struct private_key *one, const struct private_key *other)
{
	struct buf payload = {0};
	tree_make_root(&tree, 2, tree.stranger);
	root_print(&tree.doc, &payload);
	put_root_by(buf_str(&payload), one, other);
	buf_free(&payload);
}
static void r_strangers(const struct attack *a)
{
	struct private_key *other;
	(void)a;
	CHECK_OK(private_key_make(&other));
	put_next_root_by(tree.stranger, other);
	private_key_free(other);
}
static void r_by_fleet(const struct attack *a)
{
	(void)a;
	put_next_root_by(tree.fleet, tree.root[0]);
}
static void r_one_of_three(const struct attack *a)
{
	(void)a;
	tree_make_root(&tree, 2, tree.stranger);
	put_root(1);
}
static void r_one_twice(const struct attack *a)
{
	r_one_of_three(a);
	struct buf b = {0}, out = {0};
	read_file("www/root/2", &b);
	char *sig = strchr(b.p, '\n') + 1, *end = strchr(sig, '\n') + 1;
	buf_printf(&out, "%.*s%.*s%s", (int)(end - b.p), b.p, (int)(end - sig), sig, end);
	tree_write(&tree, "www/root/2", out.p, out.n);
	buf_free(&b);
	buf_free(&out);
}
static void r_skips(const struct attack *a)
{
	(void)a;
	tree_make_root(&tree, 3, tree.stranger);
	put_root(2);
}
static void r_replayed(const struct attack *a)
{
	(void)a;
	tree_make_root(&tree, 1, tree.fleet);
	put_root(2);
}
static void r_low_threshold(const struct attack *a)
{
	(void)a;
	tree_make_root(&tree, 2, tree.stranger);
	tree.doc.role[ROLE_FLEET].threshold = 0;
	put_root(2);
}
static void r_is_snapshot(const struct attack *a)
{
	(void)a;
	copy(snapshot_name, "www/root/2");
}
static void r_new_keys_unsigned(const struct attack *a) /* the old keys sign it, its own do not */
{
	(void)a;
	tree_make_root(&tree, 2, tree.stranger);
	for (int i = 0; i < TREE_ROOTS; i++) {
		struct private_key *k;
		CHECK_OK(private_key_make(&k));
		private_key_public(k, &tree.doc.role[ROLE_ROOT].key[i]);
		private_key_free(k);
	}
	put_root(2);
}

/* The file that the attack changes, as the honest fleet publishes it. */
static const char *honest(const struct attack *a)
{
	if (a->name[0] != 'r')
		return a->name[0] == 's' ? snapshot_name : blob_name;
	tree_make_root(&tree, 2, tree.stranger);
	put_root(2);
	return "www/root/2";
}
static void flipped(const struct attack *a)
{
	flip(honest(a), a->n);
}
static void is_cut(const struct attack *a)
{
	cut(honest(a), a->n);
}
static void padded(const struct attack *a)
{
	pad(honest(a), a->n);
}
static void replaced(const struct attack *a)
{
	tree_write(&tree, honest(a), a->to, strlen(a->to));
}
static void signed_right(const struct attack *a)
{
	if (a->name[0] == 's')
		sign_as("snapshot", a->to, tree.fleet);
	else
		put_root_by(a->to, tree.root[0], tree.root[1]);
}
static void changed(const struct attack *a)
{
	sign_changed(a->from, a->to);
}
static void serial_is(const struct attack *a)
{
	struct snapshot s = tree.s;
	s.serial = (int64_t)a->n;
	put_snapshot(s, tree.fleet);
}
static void bytes_are(const struct attack *a)
{
	char was[48], is[48];
	snprintf(was, sizeof was, "\"bytes\":%lld", (long long)tree.blob[1].bytes);
	snprintf(is, sizeof is, "\"bytes\":%s", a->to);
	sign_changed(was, is);
}

static const struct attack attacks[] = {
    {"snapshot: a byte of its payload flipped", flipped, E_WRONG, "snapshot", .n = 5},
    {"snapshot: a digit of its signature flipped", s_flip_signature, E_WRONG, "snapshot"},
    {"snapshot: empty", replaced, E_CORRUPT, "snapshot", .to = ""},
    {"snapshot: cut in its first line", is_cut, E_CORRUPT, "snapshot", .n = 20},
    {"snapshot: cut in its payload", is_cut, E_CORRUPT, "snapshot", .n = 400},
    {"snapshot: without its last byte", is_cut, E_CORRUPT, "snapshot", .n = SIZE_MAX},
    {"snapshot: bytes behind its end", padded, E_CORRUPT, "snapshot", .n = 3000},
    {"snapshot: oversized", padded, E_CORRUPT, "more than", .n = SNAPSHOT_BYTES + 1},
    {"snapshot: an older one, rightly signed", serial_is, E_WRONG, "older", .n = 4},
    {"snapshot: the first one, rightly signed", serial_is, E_WRONG, "older", .n = 1},
    {"snapshot: of another class, rightly signed", s_class, E_WRONG, "class"},
    {"snapshot: of another channel, rightly signed", s_channel, E_WRONG, "channel"},
    {"snapshot: by a stranger's key", s_stranger, E_WRONG, "snapshot"},
    {"snapshot: by a root key", s_by_root, E_WRONG, "snapshot"},
    {"snapshot: by nobody", s_unsigned, 0, "snapshot"},
    {"snapshot: another kind of document", s_kind, E_CORRUPT, "snapshot"},
    {"snapshot: another kind, renamed", s_kind_renamed, E_WRONG, "snapshot"},
    {"snapshot: no JSON", signed_right, E_CORRUPT, "snapshot", .to = "]]]]"},
    {"snapshot: a list", signed_right, E_CORRUPT, "snapshot", .to = "[1,2,3]"},
    {"snapshot: an empty object", signed_right, E_CORRUPT, "snapshot", .to = "{}"},
    {"snapshot: 100,000 deep", s_deep, E_CORRUPT, "snapshot"},
    {"snapshot: its serial twice", changed, E_CORRUPT, "snapshot", .from = "{", .to = "{\"serial\":7,"},
    {"snapshot: a serial over all numbers", changed, E_CORRUPT, "snapshot", .from = "\"serial\":6",
     .to = "\"serial\":99999999999999999999"},
    {"snapshot: a negative serial", changed, E_CORRUPT, "snapshot", .from = "\"serial\":6",
     .to = "\"serial\":-6"},
    {"snapshot: half a serial", changed, E_CORRUPT, "snapshot", .from = "\"serial\":6",
     .to = "\"serial\":6.5"},
    {"snapshot: a serial in quotes", changed, E_CORRUPT, "snapshot", .from = "\"serial\":6",
     .to = "\"serial\":\"6\""},
    {"snapshot: for newer boards", changed, E_UNSUPPORTED, "snapshot", .from = "\"client\":1",
     .to = "\"client\":2"},
    {"snapshot: a blob over all sizes", bytes_are, E_CORRUPT, "snapshot", .to = "4194305"},
    {"snapshot: a blob without end", bytes_are, E_CORRUPT, "snapshot", .to = "9223372036854775807"},
    {"snapshot: a blob of negative length", bytes_are, E_CORRUPT, "snapshot", .to = "-1"},
    {"snapshot: a blob that is said to be longer", bytes_are, E_CORRUPT, "blob/", .to = "4000000"},
    {"snapshot: a page of a captive portal", replaced, E_CORRUPT, "snapshot",
     .to = "<html><body>Please log in to the hotel's network</body></html>"},
    {"snapshot: expired", s_expired, E_WRONG, "expired 3 days ago"},
    {"snapshot: a blob in its place", s_is_blob, E_CORRUPT, "snapshot"},
    {"blob: a byte flipped", flipped, E_CORRUPT, "blob/", .n = 10},
    {"blob: cut", is_cut, E_CORRUPT, "blob/", .n = 100},
    {"blob: empty", replaced, E_CORRUPT, "blob/", .to = ""},
    {"blob: longer", padded, E_CORRUPT, "blob/", .n = 9000},
    {"blob: oversized", padded, E_CORRUPT, "blob/", .n = SNAPSHOT_BLOB + 1000},
    {"blob: gone", b_gone, E_NOTFOUND, "blob/"},
    {"blob: of the snapshot before", b_mixed, E_CORRUPT, "blob/"},
    {"blob: other bytes, as many", b_same_length, E_CORRUPT, "does not match its signed hash"},
    {"root: signed by one of three", r_one_of_three, E_WRONG, "root/2"},
    {"root: signed by one of three, twice", r_one_twice, E_CORRUPT, "root/2"},
    {"root: signed by strangers", r_strangers, E_WRONG, "root/2"},
    {"root: signed by the fleet key and one of three", r_by_fleet, E_WRONG, "root/2"},
    {"root: a version left out", r_skips, E_UNSUPPORTED, "root/2"},
    {"root: the first one again", r_replayed, E_WRONG, "root/2"},
    {"root: cut", is_cut, E_CORRUPT, "root/2", .n = 600},
    {"root: a byte flipped", flipped, 0, "root/2", .n = 40},
    {"root: oversized", padded, E_CORRUPT, "root/2", .n = TRUST_BYTES + 1},
    {"root: hostile JSON, rightly signed", signed_right, E_CORRUPT, "root/2",
     .to = "{\"version\":2,\"root\":{\"threshold\":0,\"keys\":[]},\"fleet\":[]}"},
    {"root: no JSON, rightly signed", signed_right, E_CORRUPT, "root/2", .to = "{{{{"},
    {"root: a threshold of none, rightly signed", r_low_threshold, E_CORRUPT, "root/2"},
    {"root: a snapshot in its place", r_is_snapshot, E_CORRUPT, "root/2"},
    {"root: new root keys that did not sign", r_new_keys_unsigned, E_WRONG, "root/2"},
};
enum { ATTACKS = sizeof attacks / sizeof *attacks };

TEST(files)
{
	for (int by_web = 0; by_web < 2; by_web++)
		for (int i = 0; i < ATTACKS; i++) {
			const struct attack *a = &attacks[i];
			begin(by_web);
			a->set(a);
			judge(a->name, by_web, a->rc, a->text);
			finish();
		}
}

/* Attacks on the connection: on requests whose path contains w->ctx, or on all (NULL). */

static bool is_target(const struct web *w, const struct web_ask *q)
{
	return !w->ctx || strstr(q->path, w->ctx);
}

struct answer {
	const char *name, *head;
	char fill; /* sent again and again; 0: the connection ends */
	bool slow;
	int rc;
	const char *text;
};

static const struct answer answers[] = {
    {"endless", "HTTP/1.1 200 x\r\n\r\n", 'x', false, E_CORRUPT, "more than"},
    {"endless, in chunks", "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n", 'x', false,
     E_CORRUPT, "more than"},
    {"endless, of a length", "HTTP/1.1 200 x\r\nContent-Length: 99999999999\r\n\r\n", 'x', false, E_CORRUPT,
     "more than"},
    {"endless header", "HTTP/1.1 200 x\r\nX: ", 'x', false, 0, ""},
    {"endless headers", "HTTP/1.1 200 x\r\n", '\n', false, 0, ""},
    {"a byte a second", "HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n", 'x', true, E_TIMEOUT, "slow"},
    {"a header's byte a second", "HTTP/1.1 200 x\r\nX: ", 'x', true, E_TIMEOUT, "slow"},
    {"silence", "", 0, true, E_TIMEOUT, "slow"},
    {"a connection that ends", "", 0, false, E_IO, ""},
    {"half a status line", "HTTP/1.", 0, false, 0, ""},
    {"another protocol", "220 smtp.example ESMTP\r\n", 0, false, 0, ""},
    {"a length that lies", "HTTP/1.1 200 x\r\nContent-Length: 500\r\n\r\nxxx", 0, false, E_IO, "cut"},
    {"a negative length", "HTTP/1.1 200 x\r\nContent-Length: -5\r\n\r\nxxx", 0, false, E_CORRUPT, ""},
    {"a redirect to http", "HTTP/1.1 302 x\r\nLocation: http://127.0.0.1/x\r\nContent-Length: 0\r\n\r\n", 0,
     false, E_WRONG, "elsewhere"},
    {"a redirect to another host",
     "HTTP/1.1 301 x\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n", 0, false, E_WRONG,
     "elsewhere"},
    {"a redirect to itself", "HTTP/1.1 307 x\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", 0, false, E_WRONG,
     "elsewhere"},
    {"a redirect to a file", "HTTP/1.1 308 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", 0,
     false, E_WRONG, "elsewhere"},
    {"a bomb in gzip",
     "HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08\x01\x01", 0, false,
     E_CORRUPT, "encoding gzip"},
    {"a part that was not asked for",
     "HTTP/1.1 206 x\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nxxxxx", 0, false, E_CORRUPT,
     "the answer has other bytes"},
    {"500", "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", 0, false, E_IO, "500"},
    {"500 with an endless page", "HTTP/1.1 500 x\r\n\r\n", 'x', false, E_IO, "500"},
    {"503, later", "HTTP/1.1 503 x\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n", 0, false, E_BUSY,
     "later"},
    {"429, in a thousand years", "HTTP/1.1 429 x\r\nRetry-After: 31536000000\r\nContent-Length: 0\r\n\r\n", 0,
     false, E_BUSY, "later"},
    {"401", "HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n", 0, false, E_WRONG, "401"},
    {"403", "HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n", 0, false, E_WRONG, "403"},
    {"416", "HTTP/1.1 416 x\r\nContent-Length: 0\r\n\r\n", 0, false, E_WRONG, "416"},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

static int give_answer(struct web *w, int fd, const struct web_ask *q)
{
	const struct answer *a = &answers[w->mode];
	char page[4096];
	if (!is_target(w, q))
		return -1;
	memset(page, a->fill == '\n' ? 'X' : a->fill, sizeof page);
	if (a->fill == '\n')
		for (size_t i = 0; i + 8 < sizeof page; i += 8)
			memcpy(page + i, "X: yyy\r\n", 8);
	if (!web_says(w, fd, a->head) || (!a->fill && !a->slow))
		return 0;
	for (struct pollfd p = {.fd = fd, .events = POLLIN}; !atomic_load(&w->ends);) {
		if (poll(&p, 1, a->slow ? 100 : 0) || (a->fill && !web_send(w, fd, page,
									    a->slow           ? 1
									    : a->fill == '\n' ? 4088
											      : sizeof page)))
			return 0;
	}
	return 0;
}

/* Sends each answer in place of root, snapshot and blob. */
TEST(answers)
{
	static char *const targets[] = {"root/", "snapshot", "blob/"};
	for (int i = 0; i < ANSWERS; i++)
		for (int k = 0; k < 3; k++) {
			char name[96];
			begin(true);
			if (answers[i].slow)
				tree.conf.run_ns = 4 * NS_PER_S;
			snprintf(name, sizeof name, "%s in place of %s", answers[i].name, targets[k]);
			web.mode = i;
			web.ctx = targets[k];
			web.answer = give_answer;
			struct key before = tree_hash(&tree);
			int rc = tree_sync(&tree, &sum);
			bool right = answers[i].rc ? rc == answers[i].rc : rc < 0;
			if (!right || !strstr(err_text(), answers[i].text) || strchr(err_text(), '\n')) {
				printf("%s: got %s (%s)\n", name, rc < 0 ? err_name(rc) : "good",
				       rc < 0 ? err_text() : "");
				test_bad = 1;
			}
			CHECK(key_equal(before, tree_hash(&tree)) && sum.down_bytes < SNAPSHOT_BLOB);
			tree.conf.run_ns = 20 * NS_PER_S;
			recover(name);
			finish();
		}
}

/* A download was cut: when the board resumes it, the server lies. */

enum { LIE_BYTES, LIE_RANGE, LIE_416, LIE_SHORT, LIE_CHANGED, LIES };

static int lie(struct web *w, int fd, const struct web_ask *q)
{
	struct arena a = {0};
	struct blob b;
	char more[128], range[32];
	int rc = 0;
	if (strncmp(q->path, "blob/", 5))
		return -1;
	CHECK_OK(file_read(&a, tree_path(&tree, blob_name), 0, &b));
	web_header(q, "Range", range, sizeof range);
	size_t half = b.n / 2;
	if (!w->count++) { /* sends half of it */
		snprintf(more, sizeof more, "HTTP/1.1 200 x\r\nETag: \"a\"\r\nContent-Length: %zu\r\n\r\n",
			 b.n);
		rc = web_says(w, fd, more) && web_send(w, fd, b.p, half) && false;
	} else if (w->mode == LIE_416) {
		rc = *range ? web_reply(w, fd, 416, "", "", 0) : -1;
	} else if (w->mode == LIE_CHANGED) { /* sends another whole file, with another tag */
		char *other = arena_alloc(&a, b.n);
		memset(other, 'x', b.n);
		rc = web_reply(w, fd, 200, "ETag: \"b\"\r\n", other, b.n);
	} else {
		size_t from = w->mode == LIE_RANGE ? half - 1 : half, n = b.n - half - (w->mode == LIE_SHORT);
		char *rest = arena_memdup(&a, (const char *)b.p + half, n);
		rest[0] ^= w->mode == LIE_BYTES;
		snprintf(more, sizeof more, "ETag: \"a\"\r\nContent-Range: bytes %zu-%zu/%zu\r\n", from,
			 b.n - 1, b.n);
		rc = web_reply(w, fd, 206, more, rest, n);
	}
	arena_free(&a);
	return rc;
}

TEST(lies_on_resumption)
{
	static const struct {
		const char *name;
		int rc;
		const char *text;
	} want[LIES] = {[LIE_BYTES] = {"other bytes in the rest", E_CORRUPT, "does not match"},
			[LIE_RANGE] = {"another range than asked for", E_CORRUPT, "other bytes"},
			[LIE_416] = {"416 in mid-resume", E_OK, ""},
			[LIE_SHORT] = {"a rest that is short", E_CORRUPT, "bytes instead of"},
			[LIE_CHANGED] = {"another file under another tag", E_CORRUPT, "does not match"}};
	for (int i = 0; i < LIES; i++) {
		begin(true);
		web.mode = i;
		web.answer = lie;
		struct key before = tree_hash(&tree);
		CHECK_FAILS(tree_sync(&tree, &sum), E_IO, "cut");
		CHECK(key_equal(before, tree_hash(&tree)));
		int rc = tree_sync(&tree, &sum);
		if (rc != want[i].rc || (rc < 0 && !strstr(err_text(), want[i].text))) {
			printf("%s: got %s (%s)\n", want[i].name, err_name(rc), rc < 0 ? err_text() : "");
			test_bad = 1;
		}
		CHECK(rc >= 0 || key_equal(before, tree_hash(&tree)));
		recover(want[i].name);
		finish();
	}
}

/* Every second answer is a 500: the board gets through after some runs. */
static int every_second(struct web *w, int fd, const struct web_ask *q)
{
	(void)q;
	return w->count++ % 2 ? -1 : web_reply(w, fd, 500, "", "", 0);
}

TEST(a_server_that_fails_every_second_time)
{
	begin(true);
	web.answer = every_second;
	int rc = -1, runs = 0;
	while (rc < 0 && runs++ < 8) {
		struct key before = tree_hash(&tree);
		web.count = runs; /* begin with a good answer or a 500 */
		rc = tree_sync(&tree, &sum);
		CHECK(rc >= 0 || (rc == E_IO && key_equal(before, tree_hash(&tree))));
	}
	recover("500 every second time");
	finish();
}

/* The lines are validly signed but hostile: the fleet's key was stolen, or the fleet was deceived. */
TEST(lines_that_are_signed_and_bad)
{
	static const char *const lines[] = {
	    "garbage\n",
	    "{}\n",
	    "[]\n",
	    "\n\n\n",
	    "{\"type\":\"code\",\"key\":\"00000000000000000000000000000000\",\"text\":\"x\"}\n",
	    "{\"type\":\"rec\",\"key\":\"00000000000000000000000000000000\",\"text\":\"x\"}\n",
	    "{\"type\":\"rec\",\"key\":\"zz\",\"text\":\"x\"}\n",
	    "{\"type\":\"rec\",\"key\":1,\"text\":{}}\n",
	    "{\"type\":\"forget\",\"key\":\"00000000000000000000000000000000\",\"text\":\"x\"}\n",
	    "no end of line",
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		begin(true);
		struct rec r = tree_rec(&tree, 6);
		struct buf b = {0};
		buf_puts(&b, lines[i]);
		if (strchr(lines[i], '\n'))
			tree_line(&r, &b); /* a good line beside it */
		tree.s.serial++;
		tree_add_blob(&tree, buf_str(&b));
		tree_publish(&tree);
		CHECK_OK(tree_sync(&tree, &sum));
		CHECK(tree_has(&tree, 0, 5) == 5 &&
		      tree_has(&tree, 6, 7) == (strchr(lines[i], '\n') != NULL));
		CHECK(sum.refused == (lines[i][0] != '\n'));
		buf_free(&b);
		finish();
	}
}

/* A blob of our class holds a record of another class and a revoked one. */
TEST(records_that_are_not_for_us)
{
	begin(true);
	struct rec other = tree_rec(&tree, 6), revoked = tree_rec(&tree, 7);
	struct buf b = {0};
	other.target_key = hash_text("another board");
	tree_line(&other, &b);
	tree_line(&revoked, &b);
	struct key k = revoked_hash(&revoked);
	tree.s.record = &k;
	tree.s.nrecord = 1;
	tree.s.serial++;
	tree_add_blob(&tree, buf_str(&b));
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(tree_has(&tree, 0, 5) == 5 && tree_has(&tree, 6, 8) == 0 && sum.refused == 1);
	buf_free(&b);
	count++;
	finish();
}

/* The root document has revoked a fleet key. */
TEST(a_key_that_was_revoked)
{
	begin(true);
	struct private_key *old = tree.fleet;
	CHECK_OK(private_key_make(&tree.fleet));
	tree_make_root(&tree, 2, tree.fleet);
	tree_publish(&tree);
	tree_write_root(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	CHECK(sum.roots == 1 && sum.taken == 2);
	struct key before = tree_hash(&tree);
	tree.s.serial++;
	put_snapshot(tree.s, old);
	CHECK_FAILS(tree_sync(&tree, &sum), E_WRONG, "snapshot");
	CHECK(key_equal(before, tree_hash(&tree)));
	tree_publish(&tree);
	CHECK_OK(tree_sync(&tree, &sum));
	private_key_free(old);
	finish();
}

TEST(their_number)
{
	printf("%d attacks\n", count);
	CHECK(count > 150);
}

TEST_MAIN
