/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's bytes against a tuned board, with the real programs: whichever way the bytes come, hone run
 * answers as before, and nothing of the stranger's counts as measured here. The central lie is a record of
 * one network's kernel that, by the keys of the former version, named the code of another network's
 * kernel. */
#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/stale.h"
#include "agent/worker/wire.h"
#include "kernels/group/choices.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/onnx/import.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/collide.h"
#include "tests/lib/fleet_tree.h"
#include "tests/lib/keys.h"
#include "tests/lib/net.h"
#include "tests/lib/records.h"
/* These names are parameters in other files. */
#include "tests/lib/cli.h"
#include "tests/lib/honed.h"

enum { TWINS = 2, MOST_LIES = 512, THREADS = 2, ANSWER_BYTES = 1 << 14 };

/* Two networks of one task each, which differ by a Relu. */
static struct {
	char model[256];
	struct rec best, def; /* as measured on the second board */
} twin[TWINS];

/* A board and its answers before a stranger comes. The first board is tuned for the second network alone, the
 * second board for both. */
static struct board {
	char cache[256];
	char answer[TWINS][THREADS][ANSWER_BYTES];
	size_t bytes[TWINS][THREADS];
	json_t *shown, *exported; /* arrays of texts */
} boards[2];

static struct arena kept;
static char input[256], emitter_now[32];
static struct target host;
static int untried; /* number of untried hints in the last hone show */

/* A false record of the first network's kernel. */
struct lie {
	struct rec r;
	bool former; /* written by the former version */
};

/* ---- the board ---- */

static void write_net(const char *path, enum act act)
{
	struct zoo z = net_begin("twin");
	struct fmap x = zoo_input(&z, "x", 8, 12, 12);
	struct fmap y =
	    zoo_conv(&z, x, (struct zoo_conv){.k = 16, .r = 3, .stride = 1, .pad = 1, .act = act});
	zoo_output(&z, y.value, "y");
	REQUIRE_OK(z.rc);
	REQUIRE_OK(graph_infer(z.g));
	REQUIRE_OK(export_file(z.g, path));
	graph_free(z.g);
}

static void write_input(void)
{
	static float x[8 * 12 * 12];
	const struct tensor t = {DT_F32, {4, {1, 8, 12, 12}}, x};
	for (int i = 0; i < 8 * 12 * 12; i++)
		x[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
	snprintf(input, sizeof input, "%s", in_dir("in.npy"));
	REQUIRE_OK(tensor_write(input, &t, "x"));
}

static size_t answer_of(int i, int threads, const char *cache, char to[ANSWER_BYTES])
{
	FILE *f;
	CHECK_RUN(0, "run %s --threads %d --input %s --output %s --cache %s", twin[i].model, threads, input,
		  in_dir("answer"), cache);
	f = fopen(in_dir("answer/y.npy"), "r");
	size_t n = f ? fread(to, 1, ANSWER_BYTES, f) : 0;
	if (f)
		fclose(f);
	CHECK(n > 128 && unlink(in_dir("answer/y.npy")) == 0);
	return n;
}

static int take_own(void *ctx, const struct rec *r)
{
	(void)ctx;
	int i = strstr(r->task_text, "max") != NULL; /* the network with the Relu */
	struct rec *to = r->kind == REC_BEST ? &twin[i].best : &twin[i].def;
	*to = *r;
	to->task_text = arena_strdup(&kept, r->task_text);
	to->label = arena_strdup(&kept, r->label);
	return E_OK;
}

static void read_own(void)
{
	struct cache *c;
	struct arena a = {0};
	REQUIRE_OK(cache_open(&c, boards[1].cache, true, 0));
	CHECK_OK(cache_each_rec(c, &a, take_own, NULL));
	cache_close(c);
	arena_free(&a);
	for (int i = 0; i < TWINS; i++)
		CHECK(twin[i].best.task_text && twin[i].def.task_text);
}

/* The records that hone show lists for a cache, as texts, without untried hints. */
static json_t *show(const char *cache)
{
	json_t *list = json_array(), *r;
	size_t i;
	CHECK_RUN(0, "show --json --cache %s", cache);
	json_t *j = parse_out();
	untried = 0;
	json_array_foreach(json_object_get(j, "record_list"), i, r)
	{
		const char *kind = json_string_value(json_object_get(r, "record_kind"));
		if (kind && !strcmp(kind, "hint") && !json_integer_value(json_object_get(r, "runs"))) {
			untried++;
			continue;
		}
		char *text = json_dumps(r, JSON_SORT_KEYS);
		json_array_append_new(list, json_string(text));
		free(text);
	}
	json_decref(j);
	return list;
}

static json_t *export(const char *cache)
{
	json_t *list = json_array();
	CHECK_RUN(0, "export -q --cache %s", cache);
	for (char *line = strtok(cli_out, "\n"); line; line = strtok(NULL, "\n"))
		json_array_append_new(list, json_string(line));
	return list;
}

/* Whether both have the same texts, in any order. */
static bool same_texts(const json_t *x, const json_t *y)
{
	size_t found = 0;
	for (size_t i = 0; i < json_array_size(x); i++)
		for (size_t k = 0; k < json_array_size(y); k++)
			found += json_equal(json_array_get(x, i), json_array_get(y, k));
	return found == json_array_size(x) && found == json_array_size(y);
}

static void copy_folder(const char *from, const char *to)
{
	char cmd[800];
	snprintf(cmd, sizeof cmd, "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
	CHECK(system(cmd) == 0);
}

struct found {
	int twin;
	bool kind[REC_KINDS];
};

static int find_kinds(void *ctx, const struct rec *r)
{
	struct found *f = ctx;
	if ((strstr(r->task_text, "max") != NULL) == f->twin)
		f->kind[r->kind] = true;
	return E_OK;
}

static bool is_tuned(int i, const char *cache)
{
	struct cache *c;
	struct arena a = {0};
	struct found f = {.twin = i};
	if (cache_open(&c, cache, true, 0) < 0)
		return false;
	CHECK_OK(cache_each_rec(c, &a, find_kinds, &f));
	cache_close(c);
	arena_free(&a);
	return f.kind[REC_DEFAULT] && f.kind[REC_BEST];
}

/* A busy machine may start no worker within the first, short box. */
static void tune(int i, const char *cache)
{
	for (int s = 1; s <= 16; s *= 2) {
		CHECK_RUN(0, "tune %s --rigor estimate --budget %ds --threads 1 --cache %s", twin[i].model, s,
			  cache);
		if (is_tuned(i, cache))
			return;
	}
	printf("no kernel in 31 s\n");
}

static void ask_board(struct board *b)
{
	for (int i = 0; i < TWINS; i++)
		for (int t = 0; t < THREADS; t++)
			b->bytes[i][t] = answer_of(i, 1 + t, b->cache, b->answer[i][t]);
	CHECK(memcmp(b->answer[0][0], b->answer[1][0], b->bytes[0][0]) != 0);
	b->shown = show(b->cache);
	b->exported = export(b->cache);
	CHECK(json_array_size(b->shown) >= 2 && json_array_size(b->exported) >= 2);
}

/* Tunes the boards, once. False: there is no worker. */
static bool set_up(void)
{
	if (!worker())
		return false;
	if (boards[0].shown)
		return true;
	setenv("HONE_SEEDS", "", 1);
	CHECK_OK(target_host(&host));
	worker_emitter("cpu", &host, emitter_now);
	write_input();
	for (int i = 0; i < TWINS; i++) {
		snprintf(boards[i].cache, sizeof boards[i].cache, "%s%d", in_dir("board"), i);
		snprintf(twin[i].model, sizeof twin[i].model, "%s%d.onnx", in_dir("twin"), i);
		write_net(twin[i].model, i ? ACT_RELU : ACT_NONE);
	}
	tune(1, boards[0].cache);
	copy_folder(boards[0].cache, boards[1].cache);
	tune(0, boards[1].cache);
	read_own();
	for (int i = 0; i < 2; i++)
		ask_board(&boards[i]);
	return true;
}

/* Prints the first number that differs. */
static void print_difference(const char *now, const char *before, size_t n)
{
	for (size_t i = 128; i + 4 <= n; i += 4) {
		float x, y;
		memcpy(&x, now + i, 4);
		memcpy(&y, before + i, 4);
		if (memcmp(&x, &y, 4) != 0) {
			printf("hone run answers %.3f where it was %.3f ", x, y);
			return;
		}
	}
}

/* Whether the board answers as before any stranger came. */
static bool is_as_before(const struct board *b, const char *cache)
{
	static char y[ANSWER_BYTES];
	bool same = true;
	for (int i = 0; i < TWINS; i++)
		for (int t = 0; t < THREADS; t++) {
			size_t n = answer_of(i, 1 + t, cache, y);
			const char *was_all = b->answer[i][t];
			if (n != b->bytes[i][t] || memcmp(y, was_all, n) != 0) {
				print_difference(y, was_all, n);
				printf("... of network %d with %d threads\n", i, 1 + t);
				same = false;
			}
		}
	json_t *s = show(cache), *e = export(cache);
	bool as_shown = same_texts(s, b->shown), as_exported = same_texts(e, b->exported);
	if (!as_shown || !as_exported)
		printf("%s%s\n", as_shown ? "" : "hone show differs ",
		       as_exported ? "" : "hone export differs");
	json_decref(s);
	json_decref(e);
	return same && as_shown && as_exported;
}

/* ---- the stranger ---- */

/* The key that the former version gave a record. */
static struct key former_key(const struct rec *r)
{
	char text[256], task[33], target[33];
	key_text(mix_text(r->task_text), task);
	key_text(r->target_key, target);
	snprintf(text, sizeof text, "rec %s %s %s %d %d %d", task, target, r->device, r->threads, r->level,
		 r->kind);
	return mix_text(text);
}

static struct key former_code_key(const struct rec *r)
{
	return mix_join(mix_join(former_key(r), mix_text(r->emitter)), mix_text(r->cand));
}

/* A record of the first network's kernel that the former version would have served with the code of `of`: the
 * text of its emitter, or of its candidate, is chosen so that the hash leads there. */
static struct rec collide(const struct rec *like, const struct rec *of, bool by_emitter)
{
	struct rec r = *like;
	struct key own = former_key(&r), theirs = former_key(of), emitter = mix_text(of->emitter);
	char text[25] = "";
	snprintf(r.emitter, sizeof r.emitter, "%s", of->emitter);
	snprintf(r.cand, sizeof r.cand, "%s", of->cand);
	if (by_emitter) {
		CHECK(mix_text_of(mix_join_same(theirs, emitter, own), text));
		snprintf(r.emitter, sizeof r.emitter, "%s", text);
	} else {
		struct key joined =
		    mix_join_same(mix_join(theirs, emitter), mix_text(of->cand), mix_join(own, emitter));
		CHECK(mix_text_of(joined, text));
		snprintf(r.cand, sizeof r.cand, "%s", text);
	}
	CHECK(key_equal(former_code_key(&r), former_code_key(of)));
	return r;
}

/* A claim that no measurement here can beat. */
static struct rec claim(void)
{
	struct rec r = twin[0].best;
	r.meas.min_ns = r.meas.median_ns = 100;
	r.meas.spread_ns = 0;
	r.meas.runs = 1000;
	return r;
}

/* The central lies: for each kind and number of threads, with either text chosen, in the words of both
 * versions. */
static int central_lies(struct lie *out)
{
	int n = 0;
	for (int kind = REC_DEFAULT; kind <= REC_HINT; kind++)
		for (int threads = 1; threads <= THREADS; threads++)
			for (int by_emitter = 0; by_emitter < 2; by_emitter++) {
				struct rec r = claim();
				r.kind = kind;
				r.threads = threads;
				r = collide(&r, &twin[1].best, by_emitter);
				out[n++] = (struct lie){r, false};
				out[n++] = (struct lie){r, true};
			}
	return n;
}

/* Every combination of fields that a stranger can choose, beside code that the board has for another task. In
 * a cache the last record of a key counts. */
static int other_lies(struct lie *out)
{
	const char *const emitter[] = {"evil\"{}[]%s%n", "llvm-13.0.0/1", emitter_now};
	const char *const cand[] = {"lane=none tile=zz | '$(x)'", "", twin[1].def.cand, twin[1].best.cand};
	int n = 0;
	for (int e = 0; e < 3; e++)
		for (int c = 0; c < 4; c++)
			for (int threads = 1; threads <= THREADS; threads++)
				for (int kind = REC_DEFAULT; kind <= REC_HINT; kind++)
					for (int ours = 0; ours < 2; ours++) {
						struct rec r = claim();
						snprintf(r.emitter, sizeof r.emitter, "%s", emitter[e]);
						snprintf(r.cand, sizeof r.cand, "%s", cand[c]);
						r.threads = threads;
						r.kind = kind;
						r.target_key = ours ? r.target_key : hash_text("another");
						out[n] = (struct lie){r, (n & 1) != 0};
						n++;
					}
	return n;
}

static const char *text_of(struct arena *a, const struct lie *l)
{
	struct rec r = l->r;
	r.task = l->former ? mix_text(r.task_text) : r.task;
	char *text = arena_strdup(a, record_text(a, &r));
	CHECK(!strncmp(text, "hone-rec 2\n", 11));
	if (l->former)
		text[9] = '1';
	return text;
}

static struct key key_of(const struct lie *l)
{
	return l->former ? former_key(&l->r) : rec_key(&l->r);
}

static void lines_of(const struct lie *l, int n, struct buf *out)
{
	struct arena a = {0};
	for (int i = 0; i < n; i++)
		buf_printf(out, "%s\n", record_as_line(&a, CACHE_REC, key_of(&l[i]), text_of(&a, &l[i])));
	arena_free(&a);
}

/* Writes a cache of the stranger's. With `code`, the other network's code lies beside each record as its
 * own. */
static void write_cache(const char *to, const struct lie *l, int n, bool code)
{
	struct cache *c, *from;
	struct arena a = {0};
	struct blob machine;
	char cmd[300], path[256];
	snprintf(path, sizeof path, "%s", to);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", path);
	if (system(cmd) != 0 || cache_open(&from, boards[1].cache, true, 0) < 0 ||
	    cache_open(&c, path, false, 0) < 0)
		abort();
	CHECK_OK(kept_code_get(from, &twin[1].best, &a, &machine));
	for (int i = 0; i < n; i++) {
		const char *text = text_of(&a, &l[i]);
		CHECK_OK(cache_put(c, CACHE_REC, key_of(&l[i]), text, strlen(text)));
		CHECK_OK(code ? kept_code_put(c, &l[i].r, machine) : E_OK);
	}
	cache_close(c);
	cache_close(from);
	arena_free(&a);
}

/* ---- the ways by which strangers' records come ---- */

static void import_lines(const struct buf *lines, const char *cache)
{
	CHECK_OK(file_write(in_dir("lines"), lines->p, lines->n));
	int status = hone("import -q %s --cache %s", in_dir("lines"), cache);
	CHECK(status == 0 || status == 1);
}

static void by_import(const struct lie *l, int n, const char *cache)
{
	struct buf lines = {0};
	lines_of(l, n, &lines);
	import_lines(&lines, cache);
	buf_free(&lines);
}

static void by_pack(const struct lie *l, int n, const char *cache)
{
	char pack[256], key[256];
	snprintf(pack, sizeof pack, "%s", in_dir("lies.seg"));
	snprintf(key, sizeof key, "%s", in_dir("key"));
	if (!file_exists(key))
		CHECK_OK(private_key_write(keys(1)->private[0], key));
	write_cache(in_dir("packed"), l, n, true);
	CHECK_RUN(0, "pack -o %s --key %s --json --cache %s", pack, key, in_dir("packed"));
	json_t *j = parse_out();
	int status = hone("import -q %s --key %s --cache %s", pack,
			  json_string_value(json_object_get(j, "public")), cache);
	CHECK(status == 0 || status == 1);
	json_decref(j);
}

static struct tree tree;

/* Sends the lines by hone-sync, from a fleet with valid signatures. */
static void sync_lines(const struct buf *lines, const char *cache, const char *socket)
{
	char conf[1024], cmd[PATH_MAX + 2048];
	tree_open(&tree);
	int length =
	    snprintf(conf, sizeof conf,
		     "[idle]\ntune = no\n[sync]\nserver = %s\nstate = %s\nroot = %s\nchannel = all\n",
		     tree.www, tree.state, tree.image);
	tree_write(&tree, "honed.conf", conf, (size_t)length);
	tree.s.nblob = 0; /* the stand-in's own records do not matter here */
	tree_add_blob(&tree, buf_str(lines));
	tree.s.serial++;
	tree_publish(&tree);
	snprintf(cmd, sizeof cmd, "%s -v --now --config %s --cache %s --socket %s >/dev/null 2>%s",
		 program("hone-sync"), tree_path(&tree, "honed.conf"), cache, socket, in_dir("said"));
	CHECK(system(cmd) == 0);
	slurp(in_dir("said"), cli_err, sizeof cli_err);
	tree_close(&tree);
}

static void sync_once(const struct lie *l, int n, const char *cache, const char *socket)
{
	struct buf lines = {0};
	lines_of(l, n, &lines);
	sync_lines(&lines, cache, socket);
	buf_free(&lines);
}

static void by_sync(const struct lie *l, int n, const char *cache)
{
	sync_once(l, n, cache, "/dev/null/honed.sock");
}

/* By hone-sync while honed owns the cache. */
static void by_honed(const struct lie *l, int n, const char *cache)
{
	char theirs[256], socket[256], cmd[800];
	make_folder();
	snprintf(theirs, sizeof theirs, "%s", in_folder("state/cache"));
	snprintf(socket, sizeof socket, "%s", in_folder("run/honed.sock"));
	CHECK_OK(file_mkdirs(in_folder("state"), 0755));
	copy_folder(cache, theirs);
	CHECK(start_honed("[idle]\ntune = no\n", program("hone")));
	sync_once(l, n, theirs, socket);
	CHECK(strstr(cli_err, "sending records to honed") != NULL);
	CHECK(end_honed(SIGTERM) == 0);
	copy_folder(theirs, cache);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", at);
	CHECK(system(cmd) == 0);
	*at = 0;
}

static void by_seed(const struct lie *l, int n, const char *cache)
{
	(void)cache;
	write_cache(in_dir("open-seed"), l, n, true);
	CHECK(chmod(in_dir("open-seed"), 0777) == 0);
	setenv("HONE_SEEDS", in_dir("open-seed"), 1);
}

static void by_merge(const struct lie *l, int n, const char *cache)
{
	write_cache(in_dir("open-merge"), l, n, true);
	CHECK(chmod(in_dir("open-merge"), 0777) == 0);
	CHECK_RUN(0, "merge -q %s --cache %s", in_dir("open-merge"), cache);
}

/* By hone merge of a folder of the user's own that holds only records, as from an archive. */
static void by_merge_without_code(const struct lie *l, int n, const char *cache)
{
	write_cache(in_dir("closed-merge"), l, n, false);
	CHECK_RUN(0, "merge -q %s --cache %s", in_dir("closed-merge"), cache);
}

/* By a write into the cache's own folder, which others may write. Nothing in such a folder is run any more,
 * so the board's own copy lies in the layer below it, as in an image. */
static void by_own_folder(const struct lie *l, int n, const char *cache)
{
	copy_folder(cache, in_dir("below"));
	setenv("HONE_SEEDS", in_dir("below"), 1);
	write_cache(cache, l, n, true);
	CHECK(chmod(cache, 0777) == 0);
}

static const struct way {
	const char *name;
	void (*give)(const struct lie *l, int n, const char *cache);
} ways[] = {
    {"hone import of lines", by_import},
    {"hone import of a signed pack", by_pack},
    {"hone-sync", by_sync},
    {"hone-sync through honed", by_honed},
    {"a seed folder that others may write", by_seed},
    {"hone merge of a folder that others may write", by_merge},
    {"hone merge of records without code", by_merge_without_code},
    {"a cache folder that others may write", by_own_folder},
};

/* Whether the board answers as before, after all these lies at once. */
static bool stands(const struct board *b, const struct way *w, const struct lie *l, int n)
{
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("victim"));
	copy_folder(b->cache, cache);
	w->give(l, n, cache);
	bool as_before = is_as_before(b, cache);
	setenv("HONE_SEEDS", "", 1);
	if (!as_before)
		printf("by %s, board %d: %d record%s, the first of kind %d for %d threads: '%s' '%s'%s\n",
		       w->name, (int)(b - boards), n, n == 1 ? "" : "s", l->r.kind, l->r.threads,
		       l->r.emitter, l->r.cand, l->former ? ", of the former version" : "");
	return as_before;
}

enum { WAYS = sizeof ways / sizeof *ways };

/* The original attack: a record names another network's code, and comes by every way. */
TEST(no_record_of_a_stranger_serves_other_code)
{
	static struct lie lie[MOST_LIES];
	if (!set_up())
		SKIP("no worker to tune with");
	int n = central_lies(lie);
	for (int w = 0; w < WAYS; w++)
		for (int b = 0; b < 2; b++) {
			for (int i = 0; i < 4; i++) /* each also by itself: kind best, one thread */
				CHECK(stands(&boards[b], &ways[w], &lie[8 + i], 1));
			CHECK(stands(&boards[b], &ways[w], lie, n));
		}
	printf("%d lies by %d ways\n", n, WAYS);
}

/* Generated claims: all at once by every way, and each by itself by the fast ways. A claim of a schedule of
 * the task is kept as an untried hint. */
TEST(no_claim_of_a_stranger_counts)
{
	static struct lie lie[MOST_LIES];
	if (!set_up())
		SKIP("no worker to tune with");
	int n = other_lies(lie), hints = 0;
	for (int w = 0; w < WAYS; w++)
		for (int b = 0; b < 2; b++) {
			CHECK(stands(&boards[b], &ways[w], lie, n));
			CHECK((untried > 0) ==
			      (ways[w].give != by_merge)); /* merge takes records with code, or nothing */
		}
	for (int i = 0; i < n && !test_bad; i++) {
		CHECK(stands(&boards[i / 2 % 2], &ways[i % 2 ? 0 : 4], &lie[i], 1));
		hints += untried;
	}
	CHECK(hints > n / 8);
	printf("%d claims by %d ways; %d alone are hints\n", n, WAYS, hints);
}

/* A log claims that the claim's candidate was tried here; it comes before or after the claim itself. */
TEST(no_log_of_a_stranger_counts)
{
	if (!set_up())
		SKIP("no worker to tune with");
	for (int i = 0; i < 4; i++) {
		char cache[256];
		struct buf lines = {0};
		struct rec r = claim();
		snprintf(cache, sizeof cache, "%s", in_dir("victim"));
		snprintf(r.cand, sizeof r.cand, "%s", twin[1].def.cand);
		r.threads = i & 2 ? 2 : 1;
		const char *log = record_trials_line(&kept, &r), *rec = record_line(&kept, &r);
		buf_printf(&lines, "%s\n%s\n", i & 1 ? rec : log, i & 1 ? log : rec);
		for (int b = 0; b < 2; b++) {
			copy_folder(boards[b].cache, cache);
			import_lines(&lines, cache);
			CHECK(is_as_before(&boards[b], cache));
			copy_folder(boards[b].cache, cache);
			sync_lines(&lines, cache, "/dev/null/honed.sock");
			CHECK(is_as_before(&boards[b], cache));
		}
		buf_free(&lines);
	}
}

/* ---- choices ---- */

/* How a model is divided and which kernels run: name and kind of every kernel, from hone bench. */
static json_t *division(const char *model, const char *cache)
{
	json_t *list = json_array(), *k;
	size_t i;
	CHECK_RUN(0, "bench %s --json --runs 1 --threads 1 --cache %s", model, cache);
	json_t *j = parse_out();
	json_array_foreach(json_object_get(j, "kernels"), i, k)
	{
		json_array_append_new(list, json_pack("{sO sO}", "name", json_object_get(k, "name"), "kind",
						      json_object_get(k, "kernel_kind")));
	}
	json_decref(j);
	return list;
}

/* Choices that leave nothing joined, blocked or fused; bits of which: 1 join, 2 lanes, 4 fuse. */
static void poison(const struct graph *g, int which, struct choices *out)
{
	for (int i = 0; i < g->nnodes; i++) {
		const char *name = g->node[i].name;
		choices_set(out, &kept, CHOICE_JOIN, name, which & 1 ? 0 : -1);
		choices_set(out, &kept, CHOICE_FUSE, name, which & 4 ? 1 : -1);
	}
	for (int i = 0; which & 2 && i < g->nvalues; i++)
		if (g->value[i].name)
			choices_set(out, &kept, CHOICE_LANES, g->value[i].name, 1);
}

/* Choices for every number of threads, exact or not, of this class or another. */
static void poison_lines(const struct graph *g, int which, struct buf *out)
{
	struct choices c = {0};
	struct buf choices = {0};
	poison(g, which, &c);
	choices_text(&c, &choices);
	for (int i = 0; i < 8; i++) {
		struct buf text = {0};
		const struct chosen_rec r = {.model = graph_key(g),
					     .target_key = i & 1 ? hash_text("another") : target_key(&host),
					     .device = "cpu",
					     .threads = i & 2 ? 2 : 1,
					     .level = (i & 4) != 0,
					     .choices = buf_str(&choices)};
		chosen_rec_text(&r, &text);
		buf_printf(out, "%s\n",
			   record_as_line(&kept, CACHE_CHOICES, chosen_rec_key(&r), buf_str(&text)));
		buf_free(&text);
	}
	buf_free(&choices);
}

/* Checks that the board keeps the choices as hints, and that its network is divided as before. */
static void check_poison(const struct graph *g, int which, int way, const char *start, const json_t *before)
{
	char cache[256];
	struct buf lines = {0};
	struct cache *c;
	struct cache_state st;
	snprintf(cache, sizeof cache, "%s", in_dir("victim"));
	poison_lines(g, which, &lines);
	copy_folder(start, cache);
	if (way < 2)
		import_lines(&lines, cache);
	if (way > 0)
		sync_lines(&lines, cache, "/dev/null/honed.sock");
	json_t *after = division(steering(), cache);
	CHECK(json_equal(before, after));
	json_decref(after);
	CHECK_OK(cache_open(&c, cache, true, 0));
	cache_state(c, &st);
	CHECK(st.count[CACHE_HINT_CHOICES] > 0);
	cache_close(c);
	buf_free(&lines);
}

/* Only a box with time compares choices. They come by import, hone-sync and both, on a board that is tuned
 * and on one that never was. */
TEST(no_choices_of_a_stranger_divide_a_network)
{
	char start[256];
	struct graph *g;
	if (!set_up())
		SKIP("no worker to tune with");
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &g)); /* the names of nodes are those in
									    * the file */
	REQUIRE_OK(graph_optimize(g));
	for (int tuned = 0; tuned < 2; tuned++) {
		snprintf(start, sizeof start, "%s", in_dir(tuned ? "steers" : "new"));
		if (tuned)
			CHECK_RUN(0, "tune %s --rigor estimate --budget 2s --threads 1 --cache %s",
				  steering(), start);
		else
			CHECK(mkdir(start, 0755) == 0);
		json_t *before = division(steering(), start);
		for (int which = 1; which < 8; which++)
			for (int way = 0; way < 3; way++)
				check_poison(g, which, way, start, before);
		CHECK_RUN(0, "tune %s --rigor estimate --budget 4s --threads 1 --cache %s", steering(),
			  in_dir("victim"));
		json_t *after = division(steering(), in_dir("victim"));
		CHECK(json_array_size(after) <= json_array_size(before));
		printf("%d kernels; after all poison and a box %d\n", (int)json_array_size(before),
		       (int)json_array_size(after));
		json_decref(before);
		json_decref(after);
	}
	graph_free(g);
}

TEST_MAIN
