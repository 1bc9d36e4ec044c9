/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks by a server, a mirror, a network or a stick. The board refuses each with a reason, its cache and
 * trust stay the same byte for byte, and the next good run works. Each row of the tables is an attack of
 * Uptane's list, or one that HTTP allows. Attacks on files come from a web server and from a folder. Past 800
 * lines because the attacks are one table each, beside the code that carries them out, and are counted
 * together. */
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

static void read_file(const char *name, struct buf *out)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, tree_path(&tree, name), 0, &b));
	buf_add(out, b.p, b.n);
	arena_free(&a);
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

static void s_flip_payload(void)
{
	flip(snapshot_name, 5);
}
static void s_flip_signature(void)
{
	struct buf b = {0};
	read_file(snapshot_name, &b);
	char *sig = strstr(b.p, "\nsig ");
	sig[60] = sig[60] == '0' ? '1' : '0';
	tree_write(&tree, snapshot_name, b.p, b.n);
	buf_free(&b);
}
static void s_cut_empty(void)
{
	tree_write(&tree, snapshot_name, "", 0);
}
static void s_cut_head(void)
{
	cut(snapshot_name, 20);
}
static void s_cut_half(void)
{
	cut(snapshot_name, 400);
}
static void s_cut_last(void)
{
	cut(snapshot_name, SIZE_MAX);
}
static void s_longer(void)
{
	pad(snapshot_name, 3000);
}
static void s_oversized(void)
{
	pad(snapshot_name, SNAPSHOT_BYTES + 1);
}
static void s_older(void)
{
	struct snapshot s = tree.s;
	s.serial = 4;
	put_snapshot(s, tree.fleet);
}
static void s_oldest(void)
{
	struct snapshot s = tree.s;
	s.serial = 1;
	put_snapshot(s, tree.fleet);
}
static void s_class(void)
{
	struct snapshot s = tree.s;
	memset(s.cls, 'a', 32);
	put_snapshot(s, tree.fleet);
}
static void s_channel(void)
{
	struct snapshot s = tree.s;
	s.channel = CHANNEL_CANARY;
	put_snapshot(s, tree.fleet);
}
static void s_stranger(void)
{
	put_snapshot(tree.s, tree.stranger);
}
static void s_by_root(void)
{
	put_snapshot(tree.s, tree.root[0]);
}
static void s_unsigned(void)
{
	struct buf b = {0}, out = {0};
	CHECK_OK(snapshot_print(&tree.s, &b));
	buf_printf(&out, "hone-signed 1 snapshot %zu\n\n%s", b.n, b.p);
	tree_write(&tree, snapshot_name, out.p, out.n);
	buf_free(&b);
	buf_free(&out);
}
static void s_kind(void)
{
	struct buf b = {0};
	CHECK_OK(snapshot_print(&tree.s, &b));
	sign_as("records", buf_str(&b), tree.fleet);
	buf_free(&b);
}
static void s_kind_renamed(void)
{
	struct buf b = {0};
	s_kind();
	read_file(snapshot_name, &b);
	const char *end = strchr(b.p, '\n'), *length = memrchr(b.p, ' ', (size_t)(end - b.p));
	struct buf out = {0};
	buf_printf(&out, "hone-signed 1 snapshot%s", length);
	tree_write(&tree, snapshot_name, out.p, out.n);
	buf_free(&b);
	buf_free(&out);
}
static void s_no_json(void)
{
	sign_as("snapshot", "]]]]", tree.fleet);
}
static void s_list(void)
{
	sign_as("snapshot", "[1,2,3]", tree.fleet);
}
static void s_nothing(void)
{
	sign_as("snapshot", "{}", tree.fleet);
}
static void s_deep(void)
{
	struct buf b = {0};
	for (int i = 0; i < 100000; i++)
		buf_puts(&b, "[");
	sign_as("snapshot", buf_str(&b), tree.fleet);
	buf_free(&b);
}
static void s_twice(void)
{
	sign_changed("{", "{\"serial\":7,");
}
static void s_huge_serial(void)
{
	sign_changed("\"serial\":6", "\"serial\":99999999999999999999");
}
static void s_minus_serial(void)
{
	sign_changed("\"serial\":6", "\"serial\":-6");
}
static void s_real_serial(void)
{
	sign_changed("\"serial\":6", "\"serial\":6.5");
}
static void s_text_serial(void)
{
	sign_changed("\"serial\":6", "\"serial\":\"6\"");
}
static void s_newer_client(void)
{
	sign_changed("\"client\":1", "\"client\":2");
}
static void claim_bytes(const char *bytes)
{
	char was[48], is[48];
	snprintf(was, sizeof was, "\"bytes\":%lld", (long long)tree.blob[1].bytes);
	snprintf(is, sizeof is, "\"bytes\":%s", bytes);
	sign_changed(was, is);
}
static void s_huge_blob(void)
{
	claim_bytes("4194305");
}
static void s_endless_blob(void)
{
	claim_bytes("9223372036854775807");
}
static void s_minus_blob(void)
{
	claim_bytes("-1");
}
static void s_longer_blob(void)
{
	claim_bytes("4000000");
}
static void s_html(void)
{
	static const char page[] = "<html><body>Please log in to the hotel's network</body></html>";
	tree_write(&tree, snapshot_name, page, strlen(page));
}
static void s_expired(void)
{
	tree.now.date_s = TREE_MADE_S + TREE_LIFE_S + 86400 * 3;
}
static void s_is_blob(void)
{
	struct buf b = {0};
	read_file(blob_name, &b);
	tree_write(&tree, snapshot_name, b.p, b.n);
	buf_free(&b);
}

static void b_flip(void)
{
	flip(blob_name, 10);
}
static void b_cut(void)
{
	cut(blob_name, 100);
}
static void b_empty(void)
{
	tree_write(&tree, blob_name, "", 0);
}
static void b_longer(void)
{
	pad(blob_name, 9000);
}
static void b_oversized(void)
{
	pad(blob_name, SNAPSHOT_BLOB + 1000);
}
static void b_gone(void)
{
	CHECK(remove(tree_path(&tree, blob_name)) == 0);
}
static void b_mixed(void) /* a blob of the snapshot before */
{
	struct buf b = {0};
	struct snapshot_blob first = tree.blob[0];
	read_file(tree_blob_name(&first), &b);
	tree_write(&tree, blob_name, b.p, b.n);
	buf_free(&b);
}
static void b_same_length(void)
{
	struct buf b = {0};
	read_file(blob_name, &b);
	memset(b.p, 'x', b.n);
	tree_write(&tree, blob_name, b.p, b.n);
	buf_free(&b);
}

static void put_root(const char *name, int first, int n)
{
	struct buf doc = {0};
	tree_sign_root(&tree, first, n, &doc);
	tree_write(&tree, name, doc.p, doc.n);
	buf_free(&doc);
}
static void r_one_of_three(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	put_root("www/root/2", 0, 1);
}
static void r_strangers(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	struct private_key *other;
	CHECK_OK(private_key_make(&other));
	const struct private_key *key[] = {tree.stranger, other};
	struct buf payload = {0}, doc = {0};
	root_print(&tree.doc, &payload);
	CHECK_OK(signed_write("root", payload.p, payload.n, key, 2, &doc));
	tree_write(&tree, "www/root/2", doc.p, doc.n);
	private_key_free(other);
	buf_free(&payload);
	buf_free(&doc);
}
static void r_one_twice(void)
{
	r_one_of_three();
	struct buf b = {0}, out = {0};
	read_file("www/root/2", &b);
	char *sig = strchr(b.p, '\n') + 1, *end = strchr(sig, '\n') + 1;
	buf_printf(&out, "%.*s%.*s%s", (int)(end - b.p), b.p, (int)(end - sig), sig, end);
	tree_write(&tree, "www/root/2", out.p, out.n);
	buf_free(&b);
	buf_free(&out);
}
static void r_skips(void)
{
	tree_make_root(&tree, 3, tree.stranger);
	put_root("www/root/2", 0, 2);
}
static void r_replayed(void)
{
	tree_make_root(&tree, 1, tree.fleet);
	put_root("www/root/2", 0, 2);
}
static void r_cut(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	put_root("www/root/2", 0, 2);
	cut("www/root/2", 600);
}
static void r_flip(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	put_root("www/root/2", 0, 2);
	flip("www/root/2", 40);
}
static void r_oversized(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	put_root("www/root/2", 0, 2);
	pad("www/root/2", TRUST_BYTES + 1);
}
static void r_by_fleet(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	const struct private_key *key[] = {tree.fleet, tree.root[0]};
	struct buf payload = {0}, doc = {0};
	root_print(&tree.doc, &payload);
	CHECK_OK(signed_write("root", payload.p, payload.n, key, 2, &doc));
	tree_write(&tree, "www/root/2", doc.p, doc.n);
	buf_free(&payload);
	buf_free(&doc);
}
static void root_of(const char *payload)
{
	const struct private_key *key[] = {tree.root[0], tree.root[1]};
	struct buf doc = {0};
	CHECK_OK(signed_write("root", payload, strlen(payload), key, 2, &doc));
	tree_write(&tree, "www/root/2", doc.p, doc.n);
	buf_free(&doc);
}
static void r_hostile(void)
{
	root_of("{\"version\":2,\"root\":{\"threshold\":0,\"keys\":[]},\"fleet\":[]}");
}
static void r_no_json(void)
{
	root_of("{{{{");
}
static void r_low_threshold(void)
{
	tree_make_root(&tree, 2, tree.stranger);
	tree.doc.role[ROLE_FLEET].threshold = 0;
	put_root("www/root/2", 0, 2);
}
static void r_is_snapshot(void)
{
	struct buf b = {0};
	read_file(snapshot_name, &b);
	tree_write(&tree, "www/root/2", b.p, b.n);
	buf_free(&b);
}
static void r_new_keys_unsigned(void) /* the old keys sign it, its own do not */
{
	tree_make_root(&tree, 2, tree.stranger);
	for (int i = 0; i < TREE_ROOTS; i++) {
		struct private_key *k;
		CHECK_OK(private_key_make(&k));
		private_key_public(k, &tree.doc.role[ROLE_ROOT].key[i]);
		private_key_free(k);
	}
	put_root("www/root/2", 0, 2);
}

struct attack {
	const char *name;
	void (*set)(void);
	int rc;
	const char *text;
};

static const struct attack attacks[] = {
    {"snapshot: a byte of its payload flipped", s_flip_payload, E_WRONG, "snapshot"},
    {"snapshot: a digit of its signature flipped", s_flip_signature, E_WRONG, "snapshot"},
    {"snapshot: empty", s_cut_empty, E_CORRUPT, "snapshot"},
    {"snapshot: cut in its first line", s_cut_head, E_CORRUPT, "snapshot"},
    {"snapshot: cut in its payload", s_cut_half, E_CORRUPT, "snapshot"},
    {"snapshot: without its last byte", s_cut_last, E_CORRUPT, "snapshot"},
    {"snapshot: bytes behind its end", s_longer, E_CORRUPT, "snapshot"},
    {"snapshot: oversized", s_oversized, E_CORRUPT, "more than"},
    {"snapshot: an older one, rightly signed", s_older, E_WRONG, "older"},
    {"snapshot: the first one, rightly signed", s_oldest, E_WRONG, "older"},
    {"snapshot: of another class, rightly signed", s_class, E_WRONG, "class"},
    {"snapshot: of another channel, rightly signed", s_channel, E_WRONG, "channel"},
    {"snapshot: by a stranger's key", s_stranger, E_WRONG, "snapshot"},
    {"snapshot: by a root key", s_by_root, E_WRONG, "snapshot"},
    {"snapshot: by nobody", s_unsigned, 0, "snapshot"},
    {"snapshot: another kind of document", s_kind, E_CORRUPT, "snapshot"},
    {"snapshot: another kind, renamed", s_kind_renamed, E_WRONG, "snapshot"},
    {"snapshot: no JSON", s_no_json, E_CORRUPT, "snapshot"},
    {"snapshot: a list", s_list, E_CORRUPT, "snapshot"},
    {"snapshot: an empty object", s_nothing, E_CORRUPT, "snapshot"},
    {"snapshot: 100,000 deep", s_deep, E_CORRUPT, "snapshot"},
    {"snapshot: its serial twice", s_twice, E_CORRUPT, "snapshot"},
    {"snapshot: a serial over all numbers", s_huge_serial, E_CORRUPT, "snapshot"},
    {"snapshot: a negative serial", s_minus_serial, E_CORRUPT, "snapshot"},
    {"snapshot: half a serial", s_real_serial, E_CORRUPT, "snapshot"},
    {"snapshot: a serial in quotes", s_text_serial, E_CORRUPT, "snapshot"},
    {"snapshot: for newer boards", s_newer_client, E_UNSUPPORTED, "snapshot"},
    {"snapshot: a blob over all sizes", s_huge_blob, E_CORRUPT, "snapshot"},
    {"snapshot: a blob without end", s_endless_blob, E_CORRUPT, "snapshot"},
    {"snapshot: a blob of negative length", s_minus_blob, E_CORRUPT, "snapshot"},
    {"snapshot: a blob that is said to be longer", s_longer_blob, E_CORRUPT, "blob/"},
    {"snapshot: a page of a captive portal", s_html, E_CORRUPT, "snapshot"},
    {"snapshot: expired", s_expired, E_WRONG, "expired 3 days ago"},
    {"snapshot: a blob in its place", s_is_blob, E_CORRUPT, "snapshot"},
    {"blob: a byte flipped", b_flip, E_CORRUPT, "blob/"},
    {"blob: cut", b_cut, E_CORRUPT, "blob/"},
    {"blob: empty", b_empty, E_CORRUPT, "blob/"},
    {"blob: longer", b_longer, E_CORRUPT, "blob/"},
    {"blob: oversized", b_oversized, E_CORRUPT, "blob/"},
    {"blob: gone", b_gone, E_NOTFOUND, "blob/"},
    {"blob: of the snapshot before", b_mixed, E_CORRUPT, "blob/"},
    {"blob: other bytes, as many", b_same_length, E_CORRUPT, "other bytes"},
    {"root: signed by one of three", r_one_of_three, E_WRONG, "root/2"},
    {"root: signed by one of three, twice", r_one_twice, E_CORRUPT, "root/2"},
    {"root: signed by strangers", r_strangers, E_WRONG, "root/2"},
    {"root: signed by the fleet key and one of three", r_by_fleet, E_WRONG, "root/2"},
    {"root: a version left out", r_skips, E_UNSUPPORTED, "root/2"},
    {"root: the first one again", r_replayed, E_WRONG, "root/2"},
    {"root: cut", r_cut, E_CORRUPT, "root/2"},
    {"root: a byte flipped", r_flip, 0, "root/2"},
    {"root: oversized", r_oversized, E_CORRUPT, "root/2"},
    {"root: hostile JSON, rightly signed", r_hostile, E_CORRUPT, "root/2"},
    {"root: no JSON, rightly signed", r_no_json, E_CORRUPT, "root/2"},
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
			a->set();
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
     "other bytes"},
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
	} want[LIES] = {[LIE_BYTES] = {"other bytes in the rest", E_CORRUPT, "other bytes"},
			[LIE_RANGE] = {"another range than asked for", E_CORRUPT, "other bytes"},
			[LIE_416] = {"416 in mid-resume", E_OK, ""},
			[LIE_SHORT] = {"a rest that is short", E_CORRUPT, "bytes, not the"},
			[LIE_CHANGED] = {"another file under another tag", E_CORRUPT, "other bytes"}};
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
