/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: signed packs, of a cache and of a fleet's published files. */
#include "agent/cache/cache.h"
#include "agent/cache/exchange.h"
#include "agent/cache/kept_code.h"
#include "agent/sync/snapshot.h"
#include "agent/sync/trust.h"
#include "search/job.h"
#include "tests/lib/cands.h"
#include "tests/lib/cli.h"
#include "tests/lib/keys.h"

#include <sys/resource.h>

enum { RECORDS = 3 };

static const struct target machine = {.soc = "board", .isa = "x86-64-v3", .lanes = 8};

static struct rec make_rec(int i)
{
	static char text[RECORDS][256];
	snprintf(text[i], sizeof *text,
		 "task syms=0\noperand A in f32 [%d,40] plain\noperand B const f32 [40,32] plain\n"
		 "operand C out f32 [%d,32] plain\nstage m:%d n:32 | k:40\nread A [m,k]\nread B [k,n]\n"
		 "body r0 r1 mul\nsum\nwrite C [m,n]\n",
		 10 + i, 10 + i, 10 + i);
	struct rec r = {.task = hash_text(text[i]),
			.kind = REC_BEST,
			.target_key = target_key(&machine),
			.device = "cpu",
			.emitter = "llvm-19/1",
			.threads = 1,
			.meas = {.status = MEAS_OK, .runs = 3, .min_ns = 900, .median_ns = 1000},
			.task_text = text[i],
			.label = "x"};
	cand_of(text[i], i, r.cand);
	snprintf(r.target, sizeof r.target, "board x86-64-v3 8");
	return r;
}

static const char *cls(void)
{
	static char text[33];
	key_text(target_key(&machine), text);
	return text;
}

static void make_cache(const char *path)
{
	struct cache *c;
	setenv("HONE_SEEDS", "", 1);
	REQUIRE_OK(cache_open(&c, path, false, 0));
	for (int i = 0; i < RECORDS; i++) {
		struct rec r = make_rec(i);
		CHECK_OK(kept_code_put(c, &r, (struct blob){"code", 4}));
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
}

static void copy_word(const char *key, char *out, size_t n)
{
	json_t *j = parse_out();
	const char *s = json_string_value(json_object_get(j, key));
	snprintf(out, n, "%s", s ? s : "");
	json_decref(j);
}

/* Writes private key i to a file, and returns its path. */
static void key_file(int i, char out[256])
{
	snprintf(out, 256, "%s%d", in_dir("key"), i);
	if (!file_exists(out))
		CHECK_OK(private_key_write(keys(4)->private[i], out));
}

static int records_of(const char *path)
{
	CHECK_RUN(0, "show --json --cache %s", path);
	json_t *j = parse_out();
	int n = (int)json_array_size(json_object_get(j, "record_list"));
	json_decref(j);
	return n;
}

TEST(signed_and_taken)
{
	char from[256], to[256], file[256], key[256], hex[160], path[256], id[64];
	struct arena a = {0};
	struct blob b;
	snprintf(from, sizeof from, "%s", in_dir("from"));
	snprintf(to, sizeof to, "%s", in_dir("to"));
	snprintf(file, sizeof file, "%s", in_dir("board.seg"));
	key_file(0, key);
	make_cache(from);
	CHECK_RUN(0, "pack -o %s --key %s --json --cache %s", file, key, from);
	CHECK(out_number("records") == RECORDS && out_number("code_objects") == RECORDS);
	copy_word("public", hex, sizeof hex);
	copy_word("signed_by", id, sizeof id);
	CHECK(strlen(hex) == 130 && strlen(id) == 32);
	copy_word("class", path, sizeof path);
	CHECK(!strcmp(path, cls()));
	CHECK_RUN(1, "import %s --root %s --cache %s", file, in_dir("no-root"), to);
	CHECK_RUN(1, "import %s --cache %s", file, to);
	CHECK_SAYS(cli_err, "--key");
	CHECK(!file_exists(to)); /* a failed import leaves no folder */
	CHECK_RUN(0, "import %s --key %s --json --cache %s", file, hex, to);
	CHECK(out_number("taken") == RECORDS && out_number("begin") == RECORDS && out_number("refused") == 0);
	CHECK(records_of(to) == RECORDS);
	CHECK_SAYS(cli_out, "\"hint\"");
	CHECK_RUN(0, "status --json --cache %s", to);
	CHECK(!strstr(cli_out, "\"code_objects\": 3"));
	snprintf(path, sizeof path, "%s", in_dir("maker.pub")); /* a key in a file */
	REQUIRE_OK(file_write(path, hex, strlen(hex)));
	CHECK_RUN(0, "import %s --key %s --json --cache %s", file, path, to);
	CHECK(out_number("taken") == 0 && out_number("known") == RECORDS);
	CHECK_RUN(2, "import %s --key %s --cache %s", file, key, to); /* a private key instead */
	CHECK_SAYS(cli_err, "not a public key");
	CHECK_SAYS(cli_err, "openssl pkey -in KEY -pubout");
	REQUIRE_OK(file_write(path, id, strlen(id)));
	CHECK_RUN(2, "import %s --key %s --cache %s", file, path, to);
	CHECK_SAYS(cli_err,
		   "give 130 hex digits, or a file that begins with them or is a public key for P-256");
	char cmd[800];
	snprintf(cmd, sizeof cmd, "openssl pkey -in %s -pubout -out %s 2>/dev/null", key, path);
	if (system(cmd) == 0) { /* there is an openssl */
		CHECK_RUN(0, "import %s --key %s --json --cache %s", file, path, to);
		CHECK(out_number("taken") == 0 && out_number("known") == RECORDS);
	}
	REQUIRE_OK(file_read(&a, file, 0, &b));
	((char *)(uintptr_t)b.p)[b.n / 2] ^= 1;
	REQUIRE_OK(file_write(file, b.p, b.n));
	CHECK_RUN(1, "import %s --key %s --cache %s", file, hex, to);
	CHECK_SAYS(cli_err, "does not match its signed hash");
	/* Imported records are exported without the hints. */
	CHECK_RUN(0, "export -q --cache %s", to);
	CHECK(!strstr(cli_out, "kind hint"));
	arena_free(&a);
}

TEST(unsigned_only_where_it_is_said)
{
	char from[256], to[256], file[256];
	snprintf(from, sizeof from, "%s", in_dir("from-2"));
	snprintf(to, sizeof to, "%s", in_dir("to-2"));
	snprintf(file, sizeof file, "%s", in_dir("unsigned.seg"));
	make_cache(from);
	CHECK_RUN(0, "pack -o %s --no-code --json --cache %s", file, from);
	CHECK(out_number("code_objects") == 0 && !strstr(cli_out, "signed_by"));
	CHECK_RUN(1, "import %s --cache %s", file, to);
	CHECK_SAYS(cli_err, "--unsigned");
	CHECK_SAYS(cli_err, "unsigned.seg: not signed: ask its maker for the signature ");
	CHECK_RUN(0, "pack --help");
	CHECK_SAYS(cli_out, "P-256");
	CHECK_SAYS(cli_out, "openssl genpkey");
	CHECK(!file_exists(to)); /* a failed import leaves no folder */
	CHECK_RUN(0, "import %s --unsigned --json --cache %s", file, to);
	CHECK(out_number("taken") == RECORDS);
	CHECK_RUN(1, "import %s --unsigned --cache %s", in_dir("nothing.seg"), to);
}

TEST(a_class_holds_of_all_records)
{
	char from[256], file[256], key[256];
	struct cache *c;
	snprintf(from, sizeof from, "%s", in_dir("from-3"));
	snprintf(file, sizeof file, "%s", in_dir("class.seg"));
	key_file(0, key);
	make_cache(from);
	CHECK_RUN(0, "pack -o %s --class %s --key %s --json --cache %s", file, cls(), key, from);
	CHECK_RUN(2, "pack -o %s --class %032d --key %s --cache %s", file, 0, key, from);
	CHECK_SAYS(cli_err, "other classes");
	CHECK_RUN(2, "pack -o %s --class abc --cache %s", file, from);
	struct rec r = make_rec(0);
	r.target_key = hash_text("another");
	REQUIRE_OK(cache_open(&c, from, false, 0));
	CHECK_OK(cache_put_rec(c, &r));
	cache_close(c);
	CHECK_RUN(0, "pack -o %s --key %s --json --cache %s", file, key, from);
	CHECK_SAYS(cli_out, "\"any\"");
	CHECK_RUN(1, "pack -o %s --key %s --cache %s", file, in_dir("no-key"), from);
}

/* ---- what a fleet publishes ---- */

static char published[256];

static const char *in_fleet(const char *name)
{
	static char path[4][512];
	static int turn;
	char *p = path[turn++ % 4], *slash;
	snprintf(p, sizeof *path, "%s/%s", published, name);
	slash = strrchr(p, '/');
	*slash = 0;
	CHECK_OK(file_mkdirs(p, 0755));
	*slash = '/';
	return p;
}

static void write_signed(const char *path, const char *kind, const struct buf *text, int by)
{
	struct buf doc = {0};
	CHECK_OK(signed_write(kind, text->p, text->n, &keys(4)->private[by], 1, &doc));
	CHECK_OK(file_write(path, doc.p, doc.n));
	buf_free(&doc);
}

static void write_root(const char *path, int64_t version, int fleet)
{
	struct root root = {.version = version, .role = {{1, 1}, {1, 1}}};
	struct buf text = {0};
	root.role[ROLE_ROOT].key[0] = keys(4)->public[1];
	root.role[ROLE_FLEET].key[0] = keys(4)->public[fleet];
	root_print(&root, &text);
	write_signed(path, "root", &text, 1);
	buf_free(&text);
}

/* Publishes the lines of all records as a blob; the snapshot is signed by key `by`. */
static void publish(int by)
{
	struct buf lines = {0}, text = {0};
	struct snapshot_blob blob = {.kind = "records"};
	struct snapshot s = {.channel = CHANNEL_ALL,
			     .serial = 7,
			     .made_s = 1700000000,
			     .expires_s = 1800000000,
			     .client = SNAPSHOT_CLIENT,
			     .poll_s = 21600,
			     .nblob = 1,
			     .blob = &blob};
	char name[160] = "blob/";
	snprintf(s.cls, sizeof s.cls, "%s", cls());
	for (int i = 0; i < RECORDS; i++) {
		struct rec r = make_rec(i);
		struct buf rec = {0};
		rec_text(&r, &rec);
		json_t *j = exchange_record(CACHE_REC, rec_key(&r), buf_str(&rec));
		char *line = json_dumps(j, JSON_COMPACT);
		buf_printf(&lines, "%s\n", line);
		free(line);
		json_decref(j);
		buf_free(&rec);
	}
	blob.bytes = (int64_t)lines.n;
	CHECK_OK(crypto_sha256(lines.p, lines.n, &blob.sha256));
	hex_write(blob.sha256.b, SHA256_BYTES, name + strlen(name));
	CHECK_OK(file_write(in_fleet(name), lines.p, lines.n));
	CHECK_OK(snapshot_print(&s, &text));
	snprintf(name, sizeof name, "%s/all/snapshot", cls());
	write_signed(in_fleet(name), "snapshot", &text, by);
	buf_free(&lines);
	buf_free(&text);
}

/* The snapshot is signed by the fleet's present key, which a newer root names. */
TEST(a_pack_of_what_a_fleet_published)
{
	char root[256], file[256], to[256], key[256], name[300], hex[160];
	struct arena a = {0};
	struct blob b;
	snprintf(published, sizeof published, "%s", in_dir("fleet"));
	snprintf(root, sizeof root, "%s", in_dir("root.signed"));
	snprintf(file, sizeof file, "%s", in_dir("fleet.seg"));
	snprintf(to, sizeof to, "%s", in_dir("to-4"));
	key_file(0, key);
	write_root(root, 1, 2);
	write_root(in_fleet("root/2"), 2, 3);
	publish(2);
	char words[1100];
	snprintf(words, sizeof words, "pack --from %s --class %s --root %s --key %s -o %s --json", published,
		 cls(), root, key, file);
	CHECK_RUN(1, "%s", words); /* that key has been replaced */
	CHECK_SAYS(cli_err, "snapshot");
	CHECK(!file_exists(file));
	publish(3);
	CHECK_RUN(0, "%s", words);
	CHECK(out_number("code_objects") == 0 && out_number("records") >= RECORDS);
	copy_word("public", hex, sizeof hex);
	CHECK_RUN(0, "import %s --key %s --json --cache %s", file, hex, to);
	CHECK(out_number("taken") == RECORDS);
	CHECK_RUN(1, "pack --from %s --class %032d --root %s -o %s", published, 0, root, file);
	CHECK_RUN(1, "pack --from %s --class %s --channel canary --root %s -o %s", published, cls(), root,
		  file);
	CHECK_RUN(1, "pack --from %s --class %s --channel nightly --root %s -o %s", published, cls(), root,
		  file);
	/* A blob with a changed byte, and a missing blob. */
	snprintf(name, sizeof name, "ls %s/blob", published);
	FILE *p = popen(name, "r");
	char blob[128] = "blob/";
	REQUIRE(p && fgets(blob + 5, 80, p));
	pclose(p);
	blob[strcspn(blob, "\n")] = 0;
	REQUIRE_OK(file_read(&a, in_fleet(blob), 0, &b));
	CHECK_OK(file_write(in_fleet(blob), b.p, b.n - 1));
	CHECK_RUN(1, "%s", words);
	CHECK_SAYS(cli_err, "does not match its signed hash");
	CHECK(unlink(in_fleet(blob)) == 0);
	CHECK_RUN(1, "%s", words);
	arena_free(&a);
}

/* The image's root alone is enough to take a fleet's pack. */
TEST(signed_by_the_fleet)
{
	char from[256], root[256], file[256], to[256], key[256];
	snprintf(from, sizeof from, "%s", in_dir("from-5"));
	snprintf(root, sizeof root, "%s", in_dir("root-5"));
	snprintf(file, sizeof file, "%s", in_dir("by-fleet.seg"));
	snprintf(to, sizeof to, "%s", in_dir("to-5"));
	make_cache(from);
	write_root(root, 1, 2);
	key_file(2, key);
	CHECK_RUN(0, "pack -o %s --key %s --cache %s", file, key, from);
	CHECK_SAYS(cli_out, "signed by");
	CHECK_RUN(0, "import %s --root %s --json --cache %s", file, root, to);
	CHECK(out_number("taken") == RECORDS);
	key_file(1, key); /* root keys do not sign packs */
	CHECK_RUN(0, "pack -o %s --key %s --cache %s", file, key, from);
	CHECK_RUN(1, "import %s --root %s --cache %s", file, root, to);
}

/* Without room, the error names the file, and its folder is not called a cache. */
TEST(a_full_disk_is_not_called_a_cache)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256], file[256], want[400];
	struct rlimit old;
	snprintf(cache, sizeof cache, "%s", in_dir("small"));
	snprintf(file, sizeof file, "%s", in_dir("full.seg"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, old.rlim_max}) == 0);
	CHECK_RUN(1, "pack -o %s --cache %s", file, cache);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
	snprintf(want, sizeof want,
		 "error: %s: File too large; raise the limit of file sizes, or name another file with -o",
		 file);
	CHECK_SAYS(cli_err, want);
	CHECK_RUN(0, "pack -o %s --cache %s", file, cache);
}

/* A user names the folder where packs lie as the cache. */
TEST(packs_in_a_cache_folder_stay)
{
	char from[256], folder[256], file[2][280];
	struct stat was[2], now;
	snprintf(from, sizeof from, "%s", in_dir("given"));
	snprintf(folder, sizeof folder, "%s", in_dir("packs"));
	make_cache(from);
	REQUIRE(mkdir(folder, 0755) == 0);
	for (int i = 0; i < 2; i++) {
		snprintf(file[i], sizeof file[i], "%s/%s.seg", folder, i ? "second" : "robots");
		CHECK_RUN(0, "pack -o %s --cache %s", file[i], from);
		REQUIRE(stat(file[i], &was[i]) == 0);
	}
	CHECK_RUN(0, "import %s --unsigned --cache %s", file[1], folder);
	CHECK_RUN(0, "forget --all --cache %s", folder);
	CHECK(records_of(folder) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(stat(file[i], &now) == 0 && now.st_size == was[i].st_size &&
		      now.st_ino == was[i].st_ino && now.st_mtim.tv_nsec == was[i].st_mtim.tv_nsec);
	CHECK(records_of(from) == RECORDS);
}

TEST_MAIN
