/* SPDX-License-Identifier: Apache-2.0 */
/* Random (operator, shape, schedule) triples with vectors of 4 lanes, or of the widths that a device of work
 * items has: the kernel that the emitter opencl
 * prints equals the interpreter bit for bit on an OpenCL device, and the reference within tolerance, and
 * writes nothing behind its buffers. A failing seed is printed: SEED=n runs only that seed, SEEDS=n changes
 * the number. Where the device rounds no division correctly, only the reference is compared. */
#include "kernels/loops/lower.h"
#include "tests/lib/byte_cases.h"
#include "tests/lib/items_cases.h"
#include "tests/lib/opencl_device.h"
#include "tests/lib/opencl_extensions.h"

enum {
	AT_ONCE = 64,         /* work items of a launch: each has scratch of its own */
	SHORT_SOURCE = 12000, /* bytes: PoCL takes seconds for longer ones; they run with SEEDS or SEED */
};

struct outcome {
	int ran, scratch, calls, grouped, spread, rows;
	int left_out; /* too long, or without a schedule of the level's own, or with the key */
};

typedef void make_text(struct buf *b, struct rng *r);
typedef struct target make_board(uint64_t seed);

/* Which kernels are tried. */
struct kind {
	enum level level;
	make_text *make;
	const char *features;    /* of the target; NULL: it is no OpenCL device */
	const char *definitions; /* what the device's compiler would know; they follow the first line */
	const char *calls;       /* most kernels must call this; NULL: no matter */
	bool largest;            /* among them products of the largest bytes */
	make_board *board;       /* of the target, if no features are given; NULL: a processor's */
	const char *key;         /* of each schedule; NULL: any, in one of four cases the default */
	size_t longest;          /* bytes of a source; 0: SHORT_SOURCE */
};

static bool same_elements(const void *a, const void *b, int64_t n, int64_t each)
{
	const float *x = a, *y = b;
	if (each != 4)
		return memcmp(a, b, (size_t)(n * each)) == 0;
	for (int64_t i = 0; i < n; i++)
		if (!device_same(x[i], y[i]))
			return false;
	return true;
}

static int interpret(const struct loops *l, const struct manifest *m, void **bufs)
{
	int rc = E_OK;
	for (int e = 0; e < m->nentries && rc >= 0; e++)
		rc = loops_run(l, e, bufs, m->param, 0, code_extent(m, e, m->param));
	return rc;
}

/* Returns NULL if all agree; else what is wrong. */
static const char *compare(struct kcase *c, struct opencl_dev *dev, const char *cand, const struct target *tg,
			   const struct kind *kind, double tolerance, struct rng *r, struct outcome *o)
{
	struct loops *l;
	struct manifest m;
	struct blob object;
	void *a[CODE_MAX_BUFS], *b[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS], bytes[CODE_MAX_BUFS];
	int out = -1;
	if (lower(&c->t, cand, tg, &c->a, &l, &m) < 0 || emit_find("opencl")->emit(l, tg, &c->a, &object) < 0)
		return err_text();
	if (object.n > (kind->longest ? kind->longest : SHORT_SOURCE) && !getenv("SEEDS") &&
	    !getenv("SEED")) {
		o->left_out++;
		return NULL;
	}
	if (kind->definitions) {
		const char *text = arena_strndup(&c->a, object.p, object.n);
		o->calls += !kind->calls || strstr(text, kind->calls);
		object = with_definitions(&c->a, &object, kind->definitions);
	}
	const char *object_text = arena_strndup(&c->a, object.p, object.n);
	bool threads = strstr(cand, "threads=") || strstr(cand, "share=");
	const char *group = strstr(cand, "group="), *said = strstr(object_text, "reqd_work_group_size(");
	if (threads ? !said || atoi(said + 21) != 1
	    : group ? !said || atoi(group + 6) != atoi(said + 21)
		    : said != NULL)
		return "the kernel requires another group";
	o->grouped += group != NULL;
	o->spread += m.nentries > 1;
	case_bind(c, &m, a, elems);
	for (int i = 0; i < m.nbufs; i++) {
		out = m.buf[i].role == BUF_OUT ? i : out;
		bytes[i] = elems[i] * case_each(c, &m.buf[i]);
		o->scratch += m.buf[i].role == BUF_SCRATCH;
		o->rows += m.buf[i].texture && elems[i] > 4 * OPENCL_IMAGE_TEXELS;
		if (m.buf[i].texture != (strstr(object_text, "image2d_t m") && l->buf[i].texture))
			return "the kernel has no texture where the manifest has one";
	}
	memcpy(b, a, sizeof b);
	int64_t each = case_each(c, &m.buf[out]);
	b[out] = guarded_type(&c->a, elems[out], each);
	memcpy(b[out], a[out], (size_t)bytes[out]);
	if (interpret(l, &m, b) < 0)
		return err_text();
	struct device_run run = {.l = l,
				 .buf = a,
				 .bytes = bytes,
				 .param = m.param,
				 .at_once = AT_ONCE,
				 .group = rng_below(r, 8) ? 1 : 4, /* compiling for groups takes longer */
				 .backwards = rng_below(r, 2)};
	if (device_run(dev, &object, &run) < 0)
		return err_text();
	o->ran++;
	if (opencl_dev_info(dev)->exact_divide && !same_elements(a[out], b[out], elems[out], each))
		return "the device and the interpreter differ";
	double error = case_error(c, a[out]);
	return error < tolerance || (each == 1 && error == 0) ? NULL : "reference differs";
}

static struct target processor_board(uint64_t seed)
{
	return case_board(4, seed % 2 ? 16 : 32);
}

static void one(uint64_t seed, struct opencl_dev *dev, const struct kind *kind, struct outcome *o)
{
	const struct space_want want = {.level = kind->level};
	struct target tg = kind->features ? case_gpu()
			   : kind->board  ? kind->board(seed)
					  : processor_board(seed);
	struct rng r;
	struct buf text = {0};
	struct kcase c;
	struct space *s;
	char cand[CAND_MAX] = "";
	if (kind->level == LEVEL_HALF)
		strcat(tg.features, ",+avx512bf16");
	if (kind->features)
		strcpy(tg.features, kind->features);
	rng_seed(&r, seed);
	const char *bad = NULL;
	if (kind->largest && seed % 2)
		largest_case(&c, (int)(seed / 2 % LARGEST));
	else
		kind->make(&text, &r);
	if ((text.n && case_parse(&c, buf_str(&text), &r) < 0) ||
	    space_make(&c.a, &c.t, &tg, &want, &s) < 0 ||
	    (level_f16(kind->level) && case_round(&c, kind->level == LEVEL_HALF) < 0))
		bad = err_text();
	if (!bad) {
		space_default(s, cand);
		bool own = level_f16(kind->level) && kind->features;
		if (own && !byte_cand(s, &r, kind->level == LEVEL_W16 ? "w16=1" : "f16", cand)) {
			o->left_out++;
			buf_free(&text);
			arena_free(&c.a);
			return;
		}
		if (kind->key && !draw_with(s, &r, kind->key, cand)) {
			o->left_out++;
			buf_free(&text);
			arena_free(&c.a);
			return;
		}
		if (!own && !kind->key && seed % 4 && space_random(s, &r, cand) < 0)
			bad = err_text();
	}
	bool rounds = cand_pairs(cand) == DT_F16 || (cand_pairs(cand) && c.t.nstages > 1);
	if (!bad)
		bad = compare(&c, dev, cand, &tg, kind, rounds ? 1e-2 : case_tolerance(buf_str(&text), cand),
			      &r, o);
	if (bad)
		printf("seed %llu: %s\n%s\n%s", (unsigned long long)seed, bad, cand, buf_str(&text));
	CHECK(!bad);
	buf_free(&text);
	arena_free(&c.a);
}

static void many(uint64_t usual, const struct kind *kind)
{
	const char *why;
	struct outcome o = {0};
	struct opencl_dev *dev = opencl_device(&why);
	uint64_t first, n = device_seeds(usual, &first);
	if (!dev)
		SKIP(why);
	for (uint64_t seed = first; seed < first + n + (uint64_t)o.left_out && !test_bad; seed++)
		one(seed, dev, kind, &o);
	printf("%d kernels ran, %d of them with scratch, %d in groups, %d with parts, %d with textures of "
	       "several "
	       "rows; %d are left out\n",
	       o.ran, o.scratch, o.grouped, o.spread, o.rows, o.left_out);
	CHECK(test_bad || (o.ran == (int)n && o.left_out < 40 * (int)n));
	CHECK(test_bad || !kind->definitions || 2 * o.calls >= o.ran);
	bool items = kind->board == items_board || kind->board == textures_board;
	CHECK(n < 20 || kind->key || kind->features || ((o.grouped > 0) == items && (o.spread > 0) == items));
}

TEST(kernels_of_floats)
{
	many(24, &(struct kind){LEVEL_FP32, case_text});
}

TEST(kernels_of_bytes)
{
	many(8, &(struct kind){LEVEL_FP32, byte_text});
}

TEST(kernels_of_byte_blocks)
{
	many(2, &(struct kind){LEVEL_FP32, byte_block_text});
}

/* Devices with dot products of their own; a compiler that knows none of their functions comes last. */
TEST(kernels_of_bytes_by_dot_products)
{
	static const char khr[] = "+cl_khr_integer_dot_product", arm[] = "+cl_arm_integer_dot_product_int8",
			  both[] = "+cl_arm_integer_dot_product_int8,"
				   "+cl_arm_integer_dot_product_accumulate_int8";
	many(6, &(struct kind){LEVEL_FP32, byte_products_text, khr, khr_dots, "(dot4", true});
	many(3, &(struct kind){LEVEL_FP32, byte_rows_text, khr, khr_dots, NULL, false});
	many(6, &(struct kind){LEVEL_FP32, byte_products_text, both, arm_dot_acc, "(dot4", true});
	many(4, &(struct kind){LEVEL_FP32, byte_products_text, arm, arm_dot, "(dot4", true});
	many(4, &(struct kind){LEVEL_FP32, byte_products_text, both, "", "(dot4", true});
}

TEST(kernels_of_halves)
{
	many(8, &(struct kind){LEVEL_HALF, products_text});
}

static void pairs_conv(struct buf *b, struct rng *r)
{
	paired_conv(b, r, 18);
}

/* Sums of products of f16, on a device that adds f16. */
TEST(kernels_that_sum_in_f16)
{
	many(8, &(struct kind){LEVEL_HALF_SUM, pairs_conv, "+cl_khr_fp16", half_functions, " = fma2_"});
}

TEST(kernels_with_weights_in_f16)
{
	many(6, &(struct kind){LEVEL_W16, products_text, ""});
}

TEST(kernels_of_work_items)
{
	many(22, &(struct kind){LEVEL_FP32, case_text, .board = items_board});
}

TEST(kernels_with_reductions_in_parts)
{
	many(12, &(struct kind){LEVEL_FP32, case_text, .board = items_board, .key = "spread=1"});
}

/* Windows whose rows stay in registers while an item makes one tile after the other. */
TEST(kernels_of_work_items_that_move_down)
{
	many(10, &(struct kind){LEVEL_FP32, windows_text, .board = items_board, .key = "down="});
	many(3, &(struct kind){LEVEL_W16, windows_text, "", .key = "w16=1 down="});
}

/* Winograd's three launches. */
TEST(kernels_of_work_items_by_winograd)
{
	many(6, &(struct kind){LEVEL_FP32, conv_3x3_text, .board = items_board,
			       .key = "winograd=", .longest = 60000});
	many(2, &(struct kind){LEVEL_W16, conv_3x3_text, "", .key = "winograd=", .longest = 60000});
}

/* And its one launch of blocks of threads. */
TEST(kernels_of_threads_by_winograd)
{
	many(5, &(struct kind){LEVEL_FP32, conv_3x3_text, .board = items_board,
			       .key = "chunk=", .longest = 60000});
	many(1, &(struct kind){LEVEL_W16, conv_3x3_text, "", .key = "chunk=", .longest = 60000});
}

static void products_or_windows(struct buf *b, struct rng *r)
{
	(rng_below(r, 2) ? products_text : case_text)(b, r);
}

/* Weights that are images on the device, of f32 and of f16; some fill several rows of texels. */
TEST(kernels_with_textures)
{
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	struct target t;
	if (!dev)
		SKIP(why);
	opencl_target(opencl_dev_info(dev), &t);
	if (!target_textures(&t))
		SKIP("the device has no images");
	many(16,
	     &(struct kind){LEVEL_FP32, products_or_windows, .board = textures_board, .key = "texture=1"});
	many(8, &(struct kind){LEVEL_W16, products_text, "+textures", .key = "w16=1 texture=1"});
}

/* The last vector of a reduction is wider than the usual vectors, and a part of it must not count. */
TEST(masks_of_wide_vectors)
{
	const char *why, *text = "task syms=0\noperand X in f32 [3,45] plain\noperand Y out f32 [3] plain\n"
				 "stage y:3 | x:45\nread X [y,x]\nbody r0 exp\nsum\nwrite Y [y]\n";
	struct opencl_dev *dev = opencl_device(&why);
	struct outcome o = {0};
	struct target tg = items_board(0);
	if (!dev)
		SKIP(why);
	for (int lanes = 2; lanes <= 16; lanes *= 2) {
		struct kcase c;
		struct rng r;
		char cand[CAND_MAX];
		rng_seed(&r, 1);
		REQUIRE_OK(case_parse(&c, text, &r));
		snprintf(cand, sizeof cand, "lane=x:%d par=1", lanes);
		const char *bad = compare(&c, dev, cand, &tg, &(struct kind){LEVEL_FP32}, 1e-5, &r, &o);
		if (bad)
			printf("%s: %s\n", cand, bad);
		CHECK(!bad);
		arena_free(&c.a);
	}
	CHECK(o.ran == 4 && o.scratch == 4);
}

TEST(kernels_of_work_items_and_bytes)
{
	many(6, &(struct kind){LEVEL_FP32, byte_text, .board = items_board});
}

/* Tiles that threads share, of tasks that can have them. */
TEST(kernels_of_threads)
{
	many(10, &(struct kind){LEVEL_FP32, case_text, .board = items_board, .key = "share="});
}

TEST(kernels_of_threads_with_warps)
{
	many(4, &(struct kind){LEVEL_FP32, tiles_text, .board = items_board, .key = "warp="});
}

TEST(kernels_of_threads_with_parts)
{
	many(6, &(struct kind){LEVEL_FP32, case_text, .board = items_board, .key = "parts"});
}

TEST(kernels_of_threads_with_rings_of_boxes)
{
	many(8, &(struct kind){LEVEL_FP32, case_text, .board = items_board, .key = "ring"});
}

/* Rows whose sums threads share. */
TEST(kernels_of_threads_that_share_sums)
{
	many(10, &(struct kind){LEVEL_FP32, rows_text, .board = items_board, .key = "team"});
}

/* Chains that threads run together. */
TEST(kernels_of_threads_in_chains)
{
	many(14, &(struct kind){LEVEL_FP32, chain_text, .board = items_board, .key = "threads="});
}

/* On a device that lists sub-groups, whose compiler knows none: shuffles go through local memory. */
TEST(kernels_of_threads_that_shuffle)
{
	many(4, &(struct kind){LEVEL_FP32, rows_text, "+cl_khr_subgroup_shuffle", "", "together() > ",
			       .key = "team"});
}

/* A read without dims is the same for all threads, and is not shared. */
TEST(threads_and_a_scalar)
{
	const char *why, *text = "task syms=0\noperand X in f32 [16,32] plain\noperand S in f32 [] plain\n"
				 "operand W const f32 [32,16] plain\noperand Y out f32 [16,16] plain\n"
				 "stage y:16 x:16 | k:32\nread X [y,k]\nread W [k,x]\nread S []\n"
				 "body r0 r1 mul r2 mul\nsum\nwrite Y [y,x]\n";
	struct opencl_dev *dev = opencl_device(&why);
	struct outcome o = {0};
	struct target tg = items_board(0);
	struct kcase c;
	struct rng r;
	if (!dev)
		SKIP(why);
	rng_seed(&r, 1);
	REQUIRE_OK(case_parse(&c, text, &r));
	const char *bad = compare(&c, dev, "lane=x:4 tile=y:2 par=2 threads=y:4,x:2 share=k:8", &tg,
				  &(struct kind){LEVEL_FP32}, 1e-5, &r, &o);
	if (bad)
		printf("%s\n", bad);
	CHECK(!bad && o.ran == 1);
	arena_free(&c.a);
}

TEST_MAIN
