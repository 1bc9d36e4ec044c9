/* SPDX-License-Identifier: Apache-2.0 */
/* Writes seeds for a fuzz target: `seeds fuzz_NAME DIR`; none if the target is not listed here. */
#include "agent/worker/wire_msg.h"
#include "agent/cache/cache.h"
#include "agent/control/control.h"
#include "agent/run/image.h"
#include "agent/worker/landscape.h"
#include "agent/sync/pack.h"
#include "agent/cache/gain.h"
#include "agent/cache/trials.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/onnx/import.h"
#include "kernels/graph/optimize.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"
#include "platform/run/object.h"
#include "agent/sync/batch.h"
#include "agent/sync/snapshot.h"
#include "agent/sync/trust.h"
#include "tests/lib/elf_objects.h"
#include "tests/lib/keys.h"
#include "tests/lib/pictures.h"
#include "tests/lib/records.h"
#include "tests/lib/submission.h"
#include "tests/lib/tasks.h"
#include "tools/bench/op_models.h"
#include "tools/hone/zoo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int write_seed(const char *dir, int i, const struct buf *b)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/seed-%d", dir, i);
	return file_write(path, buf_str(b), b->n);
}

static void tiny(struct zoo *z, int i)
{
	static const char *const unary[] = {"Relu",    "Sigmoid", "Softmax",  "Exp",
					    "Flatten", "Shape",   "Identity", "Neg"};
	struct fmap x = zoo_input(z, "x", 2, 4, 4);
	if (i % 3 == 1)
		x = zoo_conv(z, x, (struct zoo_conv){3, 3, 1, 1, .norm = i & 4, .act = ACT_RELU6});
	if (i % 3 == 2)
		x = zoo_max_pool(z, x, 2, 2, 0, i & 4);
	zoo_output(z, zoo_unary(z, unary[i % 8], x.value), "y");
}

static int tiny_graph(int i, struct graph **out)
{
	struct arena a = {0};
	struct graph *g = *out = ARENA_NEW(&a, struct graph);
	g->name = "tiny";
	g->arena = a;
	struct zoo z = {.g = g, .opset = 17};
	rng_seed(&z.rng, (uint64_t)i);
	tiny(&z, i);
	return z.rc;
}

/* Exports models of a few nodes. */
static int seeds_import(const char *dir)
{
	int rc = 0;
	for (int i = 0; i < 24 && rc >= 0; i++) {
		char path[4096];
		struct graph *g;
		snprintf(path, sizeof path, "%s/seed-%d", dir, i);
		rc = tiny_graph(i, &g);
		if (rc >= 0)
			rc = export_file(g, path);
		graph_free(g);
	}
	return rc;
}

/* An example of each way in which a plan runs something: portable tasks with windows, tables, chains and
 * blocks, nodes that their operators evaluate, parts that are copied. */
static const struct op_model image_models[] = {
    {"1", "MaxPool", "kernel_shape=3,3 pads=1,1,1,1", {"1x5x4x4"}},
    {"2", "MaxPool", "kernel_shape=2,2 strides=2,2", {"1x8x4x4"}, true},
    {"3", "Resize", "mode=nearest", {"1x2x3x3 - f:1,1,2,2"}},
    {"4", "Resize", "mode=linear", {"1x2x3x3 - f:1,1,2,2"}},
    {"5", "Softmax", "axis=-1", {"3x7"}},
    {"6", "LayerNormalization", "axis=-1", {"1x3x8 w:8 w:8"}},
    {"7", "LRN", "size=3", {"1x5x3x3"}},
    {"8", "Where", "", {"b:1x2x3x3 1x2x3x3 1x2x3x3"}},
    {"9", "Cast", "to=7", {"2x5"}},
    {"10", "ArgMax", "axis=1", {"1x4x3x3"}},
    {"11", "TopK", "axis=1", {"3x9 i:4"}, false, 2},
    {"12", "CumSum", "", {"2x3x4 i:2"}},
    {"13", "Transpose", "perm=0,2,3,1", {"1x4x3x2"}},
    {"14", "Concat", "axis=1", {"1x3x4x4 1x5x4x4"}},
    {"15", "Concat", "axis=1", {"1x3x4x4 1x5x4x4"}, true},
    {"16", "Split", "axis=1", {"1x6x4x4"}, false, 2},
    {"17", "Split", "axis=1", {"1x8x4x4"}, true, 2},
    {"18", "Slice", "", {"1x4x6x6 i:0,0 i:99,99 i:2,3 i:2,2"}},
    {"19", "Pad", "mode=reflect", {"1x2x4x4 i:0,0,1,1,0,0,1,1"}},
    {"20", "Gather", "axis=0", {"9x4 n:5@9"}},
    {"21", "Tile", "", {"1x2x3x3 i:1,2,1,1"}},
    {"22", "DepthToSpace", "blocksize=2", {"1x8x2x2"}, true},
    {"23", "LSTM", "hidden_size=4", {"3x1x4 w:1x16x4 w:1x16x4 w:1x32"}, false, 3},
    {"24", "GRU", "hidden_size=4", {"3x1x4 w:1x12x4 w:1x12x4 w:1x24"}, false, 2},
    {"25", "Equal", "", {"1x2x4x4 1x2x4x4"}},
    {"26", "ReduceMean", "axes=1,", {"1x3x8"}},
    {"27", "MatMul", "", {"3x5 w:5x7"}},
    {"28", "ConvTranspose", "strides=2,2", {"1x3x3x3 w:3x4x3x3"}},
    {"29", "Conv", "pads=1,1,1,1", {"1x3x4x4 w:6x3x3x3 w:6"}},
    {"30", "Gelu", "", {"1x8x3x3"}, true},
    {NULL},
};

static int seed_image(const char *dir, int i, struct graph *g, const struct target *t)
{
	char path[4096];
	struct image im = {.target = *t, .threads = 1, .name = "tiny"};
	struct steps *s;
	struct arena a = {0};
	struct buf meta = {0};
	struct plan *p = NULL;
	snprintf(path, sizeof path, "%s/seed-%d", dir, i);
	int rc = graph_steps(g, t, NULL, &a, &s);
	if (rc >= 0)
		rc = plan_build_described(g, s, t, NULL, NULL, &meta, &p);
	if (rc >= 0)
		rc = image_write(path, &im, p, &meta);
	plan_free(p);
	buf_free(&meta);
	arena_free(&a);
	return rc;
}

/* Images, in portable C, of the models of seeds_import and of image_models. */
static int seeds_image(const char *dir)
{
	struct target t;
	struct graph *g;
	int rc = target_host(&t), n = 0;
	for (; n < 24 && rc >= 0; n++) {
		rc = tiny_graph(n, &g);
		if (rc >= 0)
			rc = graph_infer(g);
		if (rc >= 0)
			rc = seed_image(dir, n, g, &t);
		graph_free(g);
	}
	for (const struct op_model *m = image_models; m->name && rc >= 0; m++, n++) {
		struct arena a = {0};
		g = ARENA_NEW(&a, struct graph);
		g->name = m->type;
		g->arena = a;
		rc = op_model_make(g, m, m->in[0]);
		if (rc >= 0)
			rc = seed_image(dir, n, g, &t);
		graph_free(g);
	}
	return rc;
}

/* Writes "TASK@CAND" for the tasks of the steering network: default and random candidates. */
static int seeds_cand(const char *dir)
{
	struct graph *g;
	struct target t;
	struct arena a = {0};
	struct steps *s;
	struct step_task *tasks;
	int n = 0, rc = zoo_make("steering", 1, &g);
	if (rc < 0)
		return rc;
	rc = target_baseline("x86-64-v3", &t);
	if (rc >= 0)
		rc = graph_optimize(g);
	if (rc >= 0)
		rc = graph_steps(g, &t, NULL, &a, &s);
	if (rc >= 0)
		rc = n = steps_tasks(s, &a, &tasks);
	for (int i = 0; i < n * 4 && rc >= 0; i++) {
		struct space *space;
		struct rng r;
		struct buf b = {0};
		char cand[CAND_MAX];
		rng_seed(&r, (uint64_t)i);
		rc = space_make(&a, tasks[i / 4].task, &t, NULL, &space);
		if (rc >= 0 && (i % 4 == 0 || space_random(space, &r, cand) < 0))
			space_default(space, cand);
		buf_printf(&b, "%s@%s", tasks[i / 4].text, rc >= 0 ? cand : "");
		if (rc >= 0)
			rc = write_seed(dir, i, &b);
		buf_free(&b);
	}
	graph_free(g);
	arena_free(&a);
	return rc;
}

static int seeds_record(const char *dir)
{
	struct rec r = {.kind = 1,
			.target = "soc x86-64-v3 8",
			.device = "cpu",
			.threads = 2,
			.emitter = "llvm-19/1",
			.cand = "",
			.meas = {.runs = 9, .min_ns = 1000, .median_ns = 1100, .spread_ns = 10, .threads = 2},
			.task_text = "axes m:6\nA f32[6] in [m]\nbody A\nB f32[6] out [m]\n",
			.label = "copy 6"};
	struct buf b = {0};
	rec_text(&r, &b);
	int rc = write_seed(dir, 0, &b);
	buf_free(&b);
	return rc;
}

static int hint_seed(const char *dir, int i, const struct task *task, const struct target *t)
{
	struct arena a = {0};
	struct space *space;
	struct rng rng;
	struct buf text = {0}, b = {0};
	struct rec r = {.kind = REC_HINT,
			.device = "cpu",
			.threads = 1,
			.emitter = "llvm-19/1",
			.meas = {.runs = 9, .min_ns = 1000, .median_ns = 1100},
			.label = "any"};
	task_text(task, &text);
	r.task_text = buf_str(&text);
	rng_seed(&rng, (uint64_t)i);
	int rc = space_make(&a, task, t, NULL, &space);
	if (rc >= 0 && (i % 4 == 0 || space_random(space, &rng, r.cand) < 0))
		space_default(space, r.cand);
	rec_text(&r, &b);
	if (rc >= 0)
		rc = write_seed(dir, i, &b);
	buf_free(&text);
	buf_free(&b);
	arena_free(&a);
	return rc;
}

/* Writes small tasks with default and random candidates. */
static int seeds_hint(const char *dir)
{
	static const char conv[] =
	    "task syms=0\noperand X in f32 [1,8,5,6] 0.1/4.2.3.1;2+1+1;3+1+1\n"
	    "operand W const f32 [7,8,3,3] plain\noperand B const f32 [7] plain\n"
	    "operand Y out f32 [1,7,5,6] 0.1/4.2.3.1\nstage n:1 k:7 y:5 x:6 | c:8 r:3 s:3\n"
	    "read X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\n"
	    "post acc r2 add 0 max\nwrite Y [n,k,y,x]\n";
	static const char *const texts[] = {conv, task_matmul, task_softmax};
	static struct task task;
	struct target t;
	struct rng r;
	rng_seed(&r, 31);
	int rc = target_baseline("x86-64-v2", &t);
	for (int i = 0; i < 160 && rc >= 0; i++) {
		if (i < 48)
			rc = task_parse(texts[i / 16], &task);
		else if (i % 2 == 0)
			task_random(&r, &task);
		if (rc >= 0)
			rc = hint_seed(dir, i, &task, &t);
	}
	return rc;
}

static int seeds_trials(const char *dir)
{
	static struct trials l;
	static const char *const cand[] = {"lane=k:16 tile=x:14", "lane=k:16 | block=y:8", "tile=x:7"};
	struct buf b = {0};
	trials_start(&l, hash_text("task"), "task syms=0\n", "conv 3x3");
	l.boxes = 1;
	for (int i = 0; i < 3; i++) {
		const struct tried t = {
		    .cand = cand[i], .by = (enum tried_by)i, .status = (enum meas_status)i, .ns = 1000};
		trials_add(&l, &t, 1);
	}
	trials_text(&l, &b);
	int rc = write_seed(dir, 0, &b);
	buf_free(&b);
	trials_free(&l);
	return rc;
}

static int seeds_gain(const char *dir)
{
	const struct gain g = {.model = "net.onnx",
			       .date = "2026-01-02 03:04 UTC",
			       .threads = 1,
			       .default_ms = 2,
			       .now_ms = 1,
			       .faster = {2, 1.9, 2.1, 25, false}};
	struct buf b = {0};
	gain_text(&g, &b);
	int rc = write_seed(dir, 0, &b);
	buf_free(&b);
	return rc;
}

static int seeds_landscape(const char *dir)
{
	struct landscape_point point[] = {{MEAS_OK, 1000, 1010, 9, 5, 1.25, "lane=k:16 | block=y:8"},
					  {MEAS_SPILL, 0, 0, 0, 9, 0, "tile=x:28"}};
	struct landscape l = {.task = "task syms=0\n",
			      .label = "conv",
			      .threads = 1,
			      .protocol = "net: words",
			      .n = 2,
			      .point = point};
	struct buf b = {0};
	int rc = target_baseline("x86-64-v3", &l.target);
	landscape_text(&l, true, &b);
	if (rc >= 0)
		rc = write_seed(dir, 0, &b);
	buf_free(&b);
	return rc;
}

static const char seed_choices[] = "hone-choices 1\njoin 1 Conv_2\n";

static int put_choices(struct cache *c, struct key model)
{
	struct arena a = {0};
	struct key k;
	const char *text = record_choices(&a, model, (struct key){0}, seed_choices, &k);
	int rc = cache_put(c, CACHE_CHOICES, k, text, strlen(text));
	arena_free(&a);
	return rc;
}

static struct rec seed_rec(void)
{
	return (struct rec){.task = hash_text(task_matmul),
			    .kind = 1,
			    .device = "cpu",
			    .threads = 1,
			    .emitter = "llvm-19/1",
			    .cand = "",
			    .meas = {.runs = 9, .min_ns = 1000, .median_ns = 1100},
			    .task_text = task_matmul,
			    .label = "conv"};
}

static int put_recipe(struct cache *c, struct key model)
{
	struct arena a = {0};
	const char *text = record_recipe(&a, model);
	int rc = cache_put(c, CACHE_RECIPE, model, text, strlen(text));
	arena_free(&a);
	return rc;
}

/* Puts a record and a log of a task, choices, a history and a recipe. */
static int put_exchanged(struct cache *c)
{
	static struct trials l;
	static const char history[] = "hone-history 1\n1.5 2 3.25\n";
	struct rec r = seed_rec();
	const struct tried t = {.cand = r.cand, .ns = 1000};
	trials_start(&l, r.task, r.task_text, "conv");
	l.boxes = 1;
	trials_add(&l, &t, 1);
	int rc = cache_put_rec(c, &r);
	if (rc >= 0)
		rc = trials_put(c, &l);
	if (rc >= 0)
		rc = put_choices(c, r.task);
	if (rc >= 0)
		rc = cache_put(c, CACHE_HISTORY, r.task, history, sizeof history - 1);
	if (rc >= 0)
		rc = put_recipe(c, r.task);
	trials_free(&l);
	return rc;
}

/* Writes a line of each type, as hone export does. */
static int write_exchanged(struct cache *c, const char *dir)
{
	int rc = 0;
	for (int i = 0; exchange_types[i] && rc >= 0; i++) {
		struct arena a = {0};
		struct buf b = {0};
		struct key *k;
		int n = cache_keys(c, exchange_types[i], &a, &k);
		json_t *j = NULL;
		char *line = n && exchange_json(c, exchange_types[i], k[0], &j) > 0
				 ? json_dumps(j, JSON_COMPACT)
				 : NULL;
		buf_puts(&b, line ? line : "");
		rc = b.n ? write_seed(dir, i, &b)
			 : fail(E_NOTFOUND, "no %s", exchange_name(exchange_types[i]));
		buf_free(&b);
		free(line);
		json_decref(j);
		arena_free(&a);
	}
	return rc;
}

static int seeds_exchange(const char *dir)
{
	struct cache *c;
	int rc = cache_open_with(&c, dir, CACHE_MEMORY, 0, &(struct cache_options){.seeds = ""});
	if (rc < 0)
		return rc;
	rc = put_exchanged(c);
	if (rc >= 0)
		rc = write_exchanged(c, dir);
	cache_close(c);
	return rc;
}

/* Writes a pack, its signed description, and records in the form of tests/agent/sync/fuzz_pack.c. */
static int seeds_pack(const char *dir)
{
	static const struct pack_about about = {.cls = "any", .label = "board", .bytes = 7, .records = 2};
	struct key chosen_for;
	struct rec r = seed_rec();
	struct arena a = {0};
	struct buf b[3] = {{0}}, text = {0};
	struct blob file;
	struct cache *c;
	char path[4096];
	snprintf(path, sizeof path, "%s/seed-pack.seg", dir);
	buf_add(&b[0], "", 1);
	pack_about_print(&about, &b[0]);
	int rc = cache_open_with(&c, "/nowhere", CACHE_MEMORY, 0, &(struct cache_options){.seeds = ""});
	if (rc < 0)
		return rc;
	rc = put_exchanged(c);
	if (rc >= 0)
		rc = cache_pack(c, path, true);
	cache_close(c);
	if (rc >= 0)
		rc = file_read(&a, path, 0, &file);
	remove(path);
	if (rc >= 0) {
		buf_add(&b[1], "\1", 1);
		buf_add(&b[1], file.p, file.n);
	}
	rec_text(&r, &text);
	buf_printf(&b[2], "\2\1%c%c%s", (int)(text.n & 255), (int)(text.n >> 8), buf_str(&text));
	const char *choices = record_choices(&a, r.task, r.target_key, seed_choices, &chosen_for);
	buf_printf(&b[2], "\2%c", (int)strlen(choices));
	buf_add(&b[2], "", 1);
	buf_puts(&b[2], choices);
	for (int i = 0; i < 3 && rc >= 0; i++)
		rc = write_seed(dir, i, &b[i]);
	for (int i = 0; i < 3; i++)
		buf_free(&b[i]);
	buf_free(&text);
	arena_free(&a);
	return rc;
}

static int seeds_control(const char *dir)
{
	int rc = 0;
	for (int op = 0; op < OP_COUNT && rc >= 0; op++) {
		struct request r = {.op = (enum control_op)op,
				    .has_id = true,
				    .id = op,
				    .model = "/opt/robot/seg.onnx",
				    .text = "ready",
				    .ms = 20000,
				    .job = 3,
				    .bytes = 212,
				    .version = CONTROL_VERSION,
				    .threads = 4,
				    .type = CACHE_REC,
				    .now = true,
				    .lease = LEASE_MEASURE,
				    .ntasks = 40,
				    .trials = 7,
				    .before_ms = 8.25,
				    .promise = 0.125};
		struct buf b = {0};
		control_print(&r, &b);
		rc = write_seed(dir, op, &b);
		buf_free(&b);
	}
	return rc;
}

/* Writes the example configuration as it is, and with every key enabled. */
static int seeds_conf(const char *dir)
{
	struct arena a = {0};
	struct blob b;
	struct buf all = {0};
	int rc = file_read(&a, "configs/honed.conf", 0, &b);
	if (rc >= 0) {
		buf_add(&all, b.p, b.n);
		rc = write_seed(dir, 0, &all);
	}
	for (char *p = all.p; rc >= 0 && (p = strstr(p, "\n#")); p++)
		p[1] = p[2] == ' ' ? '#' : ' ';
	if (rc >= 0)
		rc = write_seed(dir, 1, &all);
	buf_free(&all);
	arena_free(&a);
	return rc;
}

static int seeds_hello(const char *dir)
{
	struct wire_hello h = {.device = "cpu", .threads = 4, .cpus = 15, .nice = 20};
	struct buf body = {0}, message = {0};
	int rc = target_host(&h.target);
	wire_put_hello(&body, &h);
	buf_u32(&message, WIRE_MAGIC);
	buf_u32(&message, WIRE_HELLO);
	buf_u32(&message, (uint32_t)body.n);
	buf_add(&message, body.p, body.n);
	if (rc >= 0)
		rc = write_seed(dir, 0, &message);
	buf_free(&message);
	buf_free(&body);
	return rc;
}

/* Writes a root document with two signatures, and one document of each other kind. */
static int seeds_signed(const char *dir)
{
	static const char *const kinds[] = {"root", "snapshot", "records", "pack"};
	const struct test_keys *k = keys(4);
	struct root r = {.version = 1};
	struct buf text = {0};
	int rc = 0;
	r.role[ROLE_ROOT] =
	    (struct role_keys){.threshold = 2, .n = 3, .key = {k->public[0], k -> public[1], k -> public[2]}};
	r.role[ROLE_FLEET] = (struct role_keys){.threshold = 1, .n = 1, .key = {k->public[3]}};
	root_print(&r, &text);
	for (int i = 0; i < 4 && rc >= 0; i++) {
		struct buf b = {0};
		rc = signed_write(kinds[i], i ? "{}" : text.p, i ? 2 : text.n, k->private, i ? i - 1 : 2, &b);
		if (rc >= 0)
			rc = write_seed(dir, i, &b);
		buf_free(&b);
	}
	buf_free(&text);
	return rc;
}

static int seeds_snapshot(const char *dir)
{
	struct snapshot_blob blob[] = {{"records", 4096, {{1}}}, {"later", 1, {{2}}}};
	char board[1][KEY_ID_HEX + 1] = {"00112233445566778899aabbccddeeff"};
	struct key record[] = {{1, 2}};
	struct snapshot s = {.cls = "0123456789abcdef0123456789abcdef",
			     .channel = CHANNEL_ALL,
			     .serial = 7,
			     .made_s = 1800000000,
			     .expires_s = 1802592000,
			     .client = SNAPSHOT_CLIENT,
			     .poll_s = 21600,
			     .nblob = 2,
			     .blob = blob,
			     .nboard = 1,
			     .board = board,
			     .nrecord = 1,
			     .record = record,
			     .parts = 16,
			     .salt = "salt"};
	struct buf b = {0};
	int rc = snapshot_print(&s, &b);
	if (rc >= 0)
		rc = write_seed(dir, 0, &b);
	buf_free(&b);
	return rc;
}

static int seeds_batch(const char *dir)
{
	static const char cls[] = "0123456789abcdef0123456789abcdef";
	struct arena a = {0};
	int rc = 0;
	for (int n = 1; n <= 3 && rc >= 0; n++) {
		const char *line[3];
		struct buf b = {0};
		for (int i = 0; i < n; i++) {
			struct key k = {0x0123456789abcdef, 0x0123456789abcdef};
			struct rec r = record(&a, i, k, 1000);
			line[i] = i % 2 ? record_trials_line(&a, &r) : record_line(&a, &r);
		}
		rc = batch_print(cls, cls, "soc", line, n, &b);
		if (rc >= 0)
			rc = write_seed(dir, n, &b);
		buf_free(&b);
	}
	arena_free(&a);
	return rc;
}

/* Decodes a PEM's base64 behind a byte that marks DER (tests/tools/fleet/fuzz_csr.c). */
static void pem_bytes(const char *pem, struct buf *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t v = 0;
	int bits = 0;
	buf_u8(out, 0);
	for (const char *p = strchr(pem, '\n'); *p && *p != '-' && *p != '='; p++) {
		const char *d = strchr(digits, *p);
		if (!d)
			continue;
		v = v << 6 | (uint32_t)(d - digits);
		bits += 6;
		if (bits >= 8)
			buf_u8(out, (uint8_t)(v >> (bits -= 8)));
	}
}

static int seeds_csr(const char *dir)
{
	const struct test_keys *k = keys(2);
	struct buf pem[3] = {0};
	int rc = csr_write(k->private[0], "board-7", &pem[0]);
	if (rc >= 0)
		rc = cert_write_ca(k->private[1], "ca", &pem[1]);
	if (rc >= 0)
		rc = cert_write(k->private[1], pem[1].p, &k->public[0], "board-7", "fleet.example.org",
				1800000000, 10, &pem[2]);
	for (int i = 0; i < 3; i++) {
		struct buf text = {0}, bytes = {0};
		buf_printf(&text, "\1%s", buf_str(&pem[i]));
		if (rc >= 0)
			pem_bytes(pem[i].p, &bytes);
		if (rc >= 0)
			rc = write_seed(dir, 2 * i, &text);
		if (rc >= 0)
			rc = write_seed(dir, 2 * i + 1, &bytes);
		buf_free(&text);
		buf_free(&bytes);
		buf_free(&pem[i]);
	}
	return rc;
}

static int seeds_fleet(const char *dir)
{
	static const char *const requests[] = {
	    "GET\n/v1/health\n\n\n\n",
	    "HEAD\n/v1/root/1\n\n\n\n",
	    "GET\n/v1/blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n\"x\", "
	    "W/\"y\"\nbytes=2-5\n\"z\"\n",
	    "GET\n/v1/0123456789abcdef0123456789abcdef/early/snapshot\n*\nbytes=-3\n\n",
	    "POST\n/v1/enrol\n\n\n\n{\"token\":\"hone-0\",\"csr\":\"-----BEGIN CERTIFICATE "
	    "REQUEST-----\\n\"}",
	    "POST\n/v1/records\n\n\n\nhone-signed 1 records 3\nsig 00112233445566778899aabbccddeeff "
	    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	    "001122"
	    "33445566778899aabbccddeeff\n\n{}\n",
	    "GET\n/v1/api/boards?class=0123456789abcdef0123456789abcdef&n=5\n\n\n\n",
	    "GET\n/\n\n\n\n",
	    "GET\n/page/boards?find=a%41&state=good&page=2\n\n__Host-hone="
	    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n192.0.2.1\n",
	    "GET\n/page/rejects?what=batch&who=%3Cb%3E\n\n\n\n",
	    "GET\n/v1/api/classes/0123456789abcdef0123456789abcdef/kernels?page=1\n\n\n\n",
	    "POST\n/page/sign-in\n\n\n192.0.2.2\ntoken=a+b%20",
	    "POST\n/page/do/revoke\n\n__Host-hone=00\n192.0.2.3\ncsrf=00&board=00&why=x",
	    "POST\n/v1/admin/stop\nBearer 0\n\n\nstop=1"};
	int rc = 0;
	for (int i = 0; i < (int)(sizeof requests / sizeof *requests) && rc >= 0; i++) {
		struct buf b = {0};
		buf_puts(&b, requests[i]);
		rc = write_seed(dir, i, &b);
		buf_free(&b);
	}
	return rc;
}

static int seeds_host(const char *dir)
{
	static const char *const lines[] = {
	    "a.b, *.b [2001:db8::7]\na.b:8440\nhttp://localhost:1/v1/health?x\n",
	    "2001:db8::9\n[2001:db8:0::9]:1\nHTTPS://a?b\n", "a\n127.0.0.1.\n/v1/health\n",
	    "*.a\nb.a.:65535\n*\n", "\n[::ffff:127.0.0.1]\nhttp://\n"};
	int rc = 0;
	for (int i = 0; i < (int)(sizeof lines / sizeof *lines) && rc >= 0; i++) {
		struct buf b = {0};
		buf_puts(&b, lines[i]);
		rc = write_seed(dir, i, &b);
		buf_free(&b);
	}
	return rc;
}

static int seeds_picture(const char *dir)
{
	static const int types[] = {PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE, PNG_COLOR_TYPE_GRAY_ALPHA,
				    PNG_COLOR_TYPE_RGB_ALPHA};
	int rc = 0;
	for (int i = 0; i < 11 && rc >= 0; i++) {
		struct buf b = {0};
		if (i < 8)
			pic_png(9, 7, types[i / 2], i == 7 ? 16 : 8, i & 1, &b);
		else
			pic_jpeg(16, 9, i == 8 ? JCS_RGB : JCS_GRAYSCALE, i == 10 ? 64 : 0, &b);
		rc = write_seed(dir, i, &b);
		buf_free(&b);
	}
	return rc;
}

static int seeds_submission(const char *dir)
{
	int rc = 0;
	for (int i = 0; i < 8 && rc >= 0; i++) {
		struct submission s = random_submission((uint64_t)i);
		struct buf b = {0};
		rc = submission_text(&s, &b);
		if (rc >= 0)
			rc = write_seed(dir, i, &b);
		buf_free(&b);
	}
	return rc;
}

static int seeds_elf(const char *dir)
{
	static const struct object_symbol one = {"k0", 0, 64};
	uint8_t file[2048], code[64] = {0xc3};
	const struct object x86 = {EM_X86_64, true, ".text", 64, sizeof code, &one, 1};
	struct buf b = {0}, tail = {0};
	int rc = object_make(&x86, &b, &tail);
	buf_add(&b, code, sizeof code);
	buf_add(&b, tail.p, tail.n);
	for (int i = 0; i < 3 && rc >= 0; i++) {
		if (i) {
			b.n = 0;
			buf_add(&b, file, i == 1 ? aarch64_object(file) : armv7_object(file));
		}
		rc = write_seed(dir, i, &b);
	}
	buf_free(&b);
	buf_free(&tail);
	return rc;
}

static const struct {
	const char *name;
	int (*make)(const char *dir);
} targets[] = {
    {"fuzz_import", seeds_import}, {"fuzz_image", seeds_image},       {"fuzz_cand", seeds_cand},
    {"fuzz_record", seeds_record}, {"fuzz_exchange", seeds_exchange}, {"fuzz_landscape", seeds_landscape},
    {"fuzz_trials", seeds_trials}, {"fuzz_control", seeds_control},   {"fuzz_conf", seeds_conf},
    {"fuzz_hello", seeds_hello},   {"fuzz_signed", seeds_signed},     {"fuzz_snapshot", seeds_snapshot},
    {"fuzz_batch", seeds_batch},   {"fuzz_csr", seeds_csr},           {"fuzz_pack", seeds_pack},
    {"fuzz_fleet", seeds_fleet},   {"fuzz_host", seeds_host},         {"fuzz_picture", seeds_picture},
    {"fuzz_hint", seeds_hint},     {"fuzz_gain", seeds_gain},         {"fuzz_elf", seeds_elf},
    {"fuzz_submission", seeds_submission}};

int main(int argc, char **argv)
{
	int rc = argc == 3 ? 0 : fail(E_USAGE, "usage: seeds fuzz_NAME DIR");
	for (size_t i = 0; rc >= 0 && i < sizeof targets / sizeof *targets; i++)
		if (!strcmp(argv[1], targets[i].name))
			rc = targets[i].make(argv[2]);
	if (rc < 0)
		log_error("%s", err_text());
	return rc < 0;
}
