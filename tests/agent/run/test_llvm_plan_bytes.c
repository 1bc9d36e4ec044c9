/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of steps over bytes, made by hand: with compiled kernels, by the reference, or with both; on threads;
 * kept, restored from an image, or built beside another. Every way gives the bytes of the tasks' reference,
 * run one after the other on plain tensors. */
#include "agent/run/plan_parts.h"
#include "tests/lib/byte_steps.h"

/* Two runs, so that halos in memory that others use are filled again. */
static bool runs_right(struct plan *p, struct byte_steps *n)
{
	struct arena a = {0};
	bool good = true;
	for (int run = 0; run < RUNS && good; run++) {
		struct tensor in[MOST_VALUES], out[MOST_VALUES];
		for (int i = 0; i < n->g->ninputs; i++)
			in[i] = n->plain[run][n->g->input[i]];
		for (int i = 0; i < n->g->noutputs && good; i++) {
			const struct tensor *t = &n->plain[run][n->g->output[i]];
			good = tensor_alloc(&a, t->dtype, &t->shape, &out[i]) >= 0;
		}
		good = good && plan_run(p, in, out) >= 0;
		for (int i = 0; i < n->g->noutputs && good; i++) {
			double diff, most;
			good = tensor_compare(&out[i], &n->plain[run][n->g->output[i]], &diff, &most) >= 0 &&
			       diff <= (out[i].dtype == DT_F32 ? 1e-5 * most : 0);
		}
	}
	arena_free(&a);
	return good;
}

/* Every value of a kept plan after the second run. */
static bool values_right(struct plan *p, struct byte_steps *n)
{
	struct arena a = {0};
	bool good = true;
	for (int v = 0; v < n->g->nvalues && good; v++) {
		struct tensor t;
		double diff, most;
		const struct tensor *want = &n->plain[RUNS - 1][v];
		good = plan_value(p, v, &a, &t) >= 0 && tensor_compare(&t, want, &diff, &most) >= 0 &&
		       diff <= (t.dtype == DT_F32 ? 1e-5 * most : 0);
	}
	arena_free(&a);
	return good;
}

/* Restores a plan whose constants have been freed. */
static bool restored_right(struct byte_steps *n, const struct kernel_source *src, struct pool *pool)
{
	struct plan *p, *q;
	struct buf meta = {0};
	if (plan_build_described(n->g, &n->s, &host, src, pool, &meta, &p) < 0)
		return false;
	bool good = runs_right(p, n) && plan_restore(meta.p, meta.n, pool, &q) >= 0;
	if (good) {
		good = q->weight_bytes == p->weight_bytes;
		memcpy(q->weights.p, p->weights.p, p->weight_bytes);
		plan_free(p);
		p = NULL;
		good = good && plan_check(q) >= 0 && runs_right(q, n);
		plan_free(q);
	}
	plan_free(p);
	buf_free(&meta);
	return good;
}

static void check_ways(struct byte_steps *n, unsigned mask, struct pool *pool)
{
	struct plan *p, *q;
	struct code_maker m = {.mask = mask};
	const struct kernel_source src = {.ctx = &m, .find = find_code};
	REQUIRE_OK(plan_build_kept(n->g, &n->s, &host, &src, pool, &p));
	CHECK(runs_right(p, n) && values_right(p, n));
	plan_free(p);
	m.asked = 0;
	REQUIRE_OK(plan_build_beside(n->g, &n->s, &host, &src, pool, NULL, &p));
	m.asked = 0;
	REQUIRE_OK(plan_build_beside(n->g, &n->s, &host, &src, pool, p, &q));
	CHECK(runs_right(q, n) && runs_right(p, n));
	CHECK(plan_memory(q).weights_bytes == plan_memory(p).weights_bytes &&
	      plan_bytes(q) == plan_memory(q).values_bytes);
	plan_free(q);
	plan_free(p);
	m.asked = 0;
	CHECK(restored_right(n, &src, pool));
	int wanted = 0;
	for (int i = 0; i < n->s.nsteps; i++)
		wanted += mask >> i & 1;
	CHECK(m.made == 4 * wanted);
}

static void check_net(const char *const *text, int steps)
{
	static const unsigned masks[] = {0, 0xff, 0xaa, 0x55};
	struct pool *pool;
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(pool_open(&pool, 3, NULL));
	for (int i = 0; i < 8; i++) {
		struct byte_steps n;
		REQUIRE_OK(byte_steps_open(&n, text, steps));
		check_ways(&n, masks[i / 2], i % 2 ? pool : NULL);
		if (test_bad)
			printf("kernels %x, %s\n", masks[i / 2], i % 2 ? "threads" : "no threads");
		byte_steps_close(&n);
	}
	pool_close(pool);
}

/* A 3x3 convolution, quantized. Constants are named after the output. */
static const char *conv(struct arena *a, const char *x, const char *x_form, int c, const char *y,
			const char *y_form, int k, int zero)
{
	enum { H = 9, W = 7 };
	struct buf b = {0};
	buf_printf(&b, "operand %s in %.2s [1,%d,%d,%d] %s\n", x, x_form, c, H, W, x_form + 3);
	buf_printf(&b, "operand W%s const i8 [%d,%d,3,3] plain\noperand B%s const i32 [%d] plain\n", y, k, c,
		   y, k);
	buf_printf(&b, "operand S%s const f32 [%d] plain\n", y, k);
	buf_printf(&b, "operand %s out %.2s [1,%d,%d,%d] %s\n", y, y_form, k, H, W, y_form + 3);
	buf_printf(&b, "stage n:1 k:%d y:%d x:%d | c:%d r:3 s:3\nread %s [n,c,y+r-1,x+s-1]\n", k, H, W, c, x);
	buf_printf(&b, "read W%s [k,c,r,s]\nread B%s [k]\nread S%s [k]\nbody r0 r1 mul\nsum\n", y, y, y);
	buf_printf(&b, "post acc r2 add r3 mul rint %d add\nwrite %s [n,k,y,x]\n", zero, y);
	const char *text = arena_strdup(a, buf_str(&b));
	buf_free(&b);
	return text;
}

/* Blocks with a halo that holds the zero point, channels that fill the last block only partly. */
#define BLOCK_7 "u8 0.1/16.2.3.1;2+1+1;3+1+1 fill=7"
#define BLOCK_100 "u8 0.1/16.2.3.1;2+1+1;3+1+1 fill=100"
#define SIGNED "i8 0.1/16.2.3.1;2+1+1;3+1+1 fill=-3"
#define LAST_9 "u8 0.2.3.1;2+1+1;3+1+1 fill=9"

TEST(convolutions_with_halos)
{
	struct arena a = {0};
	const char *const text[] = {conv(&a, "X", BLOCK_7, 19, "A", BLOCK_7, 21, 7),
				    conv(&a, "A", BLOCK_7, 21, "B", BLOCK_100, 21, 100),
				    conv(&a, "B", BLOCK_100, 21, "C", SIGNED, 5, -3),
				    conv(&a, "C", SIGNED, 5, "D", LAST_9, 32, 9),
				    conv(&a, "D", LAST_9, 32, "E", BLOCK_7, 16, 7),
				    conv(&a, "E", BLOCK_7, 16, "Y", "u8 plain", 3, 128)};
	check_net(text, 6);
	arena_free(&a);
}

/* The halo is the caller's: inputs and outputs are plain in its memory, and blocks in the plan's. */
TEST(inputs_and_outputs)
{
	struct arena a = {0};
	const char *const plain[] = {conv(&a, "X", "u8 plain fill=7", 3, "Y", "i8 plain", 5, 1)},
			  *const blocks[] = {conv(&a, "X", BLOCK_7, 3, "Y", SIGNED, 5, -3)},
			  *const last[] = {conv(&a, "X", "u8 plain fill=7", 3, "A", LAST_9, 5, 9),
					   conv(&a, "A", LAST_9, 5, "Y", LAST_9, 6, 9)};
	check_net(plain, 1);
	check_net(blocks, 1);
	check_net(last, 2);
	arena_free(&a);
}

static const char quantize[] =
    "operand X in f32 [1,19,9,7] plain\noperand A out u8 [1,19,9,7] 0.1/16.2.3.1;2+1+1;3+1+1 fill=7\n"
    "stage c:19 y:9 x:7\nread X [0,c,y,x]\nbody r0 200000 mul rint 7 add\nwrite A [0,c,y,x]\n";
static const char dequantize[] =
    "operand B in u8 [1,21,9,7] 0.1/16.2.3.1;2+1+1;3+1+1 fill=100\n"
    "operand F out f32 [1,21,9,7] 0.1/16.2.3.1;2+1+1;3+1+1\n"
    "stage c:21 y:9 x:7\nread B [0,c,y,x]\nbody r0 100 sub 0.0309999995 mul\nwrite F [0,c,y,x]\n";
static const char product[] =
    "operand F in f32 [1,21,9,7] 0.1/16.2.3.1;2+1+1;3+1+1\n"
    "operand V const f32 [33,21,3,3] plain\noperand G out f32 [1,33,9,7] 0.1/16.2.3.1\n"
    "stage n:1 k:33 y:9 x:7 | c:21 r:3 s:3\nread F [n,c,y+r-1,x+s-1]\nread V [k,c,r,s]\n"
    "body r0 r1 mul\nsum\nwrite G [n,k,y,x]\n";

/* Floats become bytes and floats again. */
TEST(floats_and_bytes)
{
	struct arena a = {0};
	const char *const text[] = {quantize, conv(&a, "A", BLOCK_7, 19, "B", BLOCK_100, 21, 100), dequantize,
				    product};
	check_net(text, 4);
	arena_free(&a);
}

static bool overlap(const struct plan *p, int v, int u)
{
	const struct operand *x = &p->s->value[v].buf, *y = &p->s->value[u].buf;
	const char *a = p->place[v].p, *b = p->place[u].p;
	return a && b && a < b + operand_elems(y) * (int64_t)dtype_bytes(y->dtype) &&
	       b < a + operand_elems(x) * (int64_t)dtype_bytes(x->dtype);
}

/* Padding lanes of floats never hold bytes, which may be a NaN. */
TEST(padding_lanes_stay_finite)
{
	struct byte_steps n;
	struct plan *p;
	struct arena a = {0};
	int floats = 0, bytes = 0;
	const char *const text[] = {quantize, conv(&a, "A", BLOCK_7, 19, "B", BLOCK_100, 21, 100), dequantize,
				    product};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(byte_steps_open(&n, text, 4));
	REQUIRE_OK(plan_build(n.g, &n.s, &host, NULL, NULL, &p));
	for (int v = 0; v < n.g->nvalues; v++) {
		floats += p->place[v].p && n.value[v].buf.dtype == DT_F32;
		bytes += p->place[v].p && n.value[v].buf.dtype == DT_U8;
		for (int u = 0; u < n.g->nvalues && n.value[v].buf.dtype == DT_F32; u++)
			CHECK(n.value[u].buf.dtype != DT_U8 || !overlap(p, v, u));
	}
	CHECK(floats == 2 && bytes == 2);
	plan_free(p);
	byte_steps_close(&n);
	arena_free(&a);
}

/* A chain whose intermediates are bytes, and a sum with a residual that may be overwritten. */
TEST(chains_and_residuals)
{
	static const char *const text[] = {
	    "operand X in u8 [1,20,9,7] 0.1/16.2.3.1\noperand W const i8 [33,20,1,1] plain\noperand S const "
	    "f32 [33] "
	    "plain\noperand H tmp u8 [1,33,9,7] 0.1/16.2.3.1;2+1+1;3+1+1 fill=3\noperand V const i8 "
	    "[33,1,3,3] "
	    "plain\noperand D tmp u8 [1,33,9,7] 0.1/16.2.3.1\noperand U const i8 [20,33,1,1] plain\noperand "
	    "B const "
	    "i32 [20] plain\noperand A out u8 [1,20,9,7] 0.1/16.2.3.1\nstage n:1 k:33 y:9 x:7 | c:20\nread X "
	    "[n,c,y,x]\nread W [k,c,0,0]\nread S [k]\nbody r0 r1 mul\nsum\npost acc r2 mul rint 3 add\nwrite "
	    "H "
	    "[n,k,y,x]\nstage n:1 k:33 y:9 x:7 | r:3 s:3\nread H [n,k,y+r-1,x+s-1]\nread V [k,0,r,s]\nbody "
	    "r0 r1 "
	    "mul\nsum\npost acc 0.00700000022 mul rint 3 add\nwrite D [n,k,y,x]\nstage n:1 k:20 y:9 x:7 | "
	    "c:33\nread D "
	    "[n,c,y,x]\nread U [k,c,0,0]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0.00109999999 mul "
	    "rint 3 "
	    "add\nwrite A [n,k,y,x]\n",
	    "operand A in u8 [1,20,9,7] 0.1/16.2.3.1\noperand X in u8 [1,20,9,7] 0.1/16.2.3.1\noperand R out "
	    "u8 "
	    "[1,20,9,7] 0.1/16.2.3.1\nstage c:20 y:9 x:7\nread A [0,c,y,x]\nread X [0,c,y,x]\nbody r0 3 sub "
	    "0.370000005 mul r1 5 sub 0.709999979 mul add rint 9 add\nwrite R [0,c,y,x]\n",
	    "operand R in u8 [1,20,9,7] 0.1/16.2.3.1\noperand Y out u8 [20,1] plain\nstage c:20 | y:9 "
	    "x:7\nread R "
	    "[0,c,y,x]\nbody r0\nsum\npost acc 0.0158730168 mul rint\nwrite Y [c,0]\n"};
	check_net(text, 3);
}

/* Plain bytes are used where the caller has them; a run by the reference is long enough for threads. */
TEST(bytes_of_the_caller)
{
	struct byte_steps n;
	struct plan *p;
	struct pool *pool;
	struct arena a = {0};
	const char *const text[] = {conv(&a, "X", "u8 plain fill=7", 3, "Y", "i8 plain", 5, 1)};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(pool_open(&pool, 2, NULL));
	REQUIRE_OK(byte_steps_open(&n, text, 1));
	REQUIRE_OK(plan_build(n.g, &n.s, &host, NULL, pool, &p));
	CHECK(p->ngiven == 2 && !p->memory_bytes && !p->alone);
	CHECK(runs_right(p, &n));
	plan_free(p);
	byte_steps_close(&n);
	pool_close(pool);
	arena_free(&a);
}

/* Values whose lifetimes are apart share memory, and constants take a byte per element. */
TEST(memory)
{
	enum { BLOCKS = 2 * 16 * 11 * 9, WEIGHTS = 21 * 32 * 9, TABLES = 8 * 128 };
	struct byte_steps n;
	struct plan *p;
	struct arena a = {0};
	const char *const text[] = {conv(&a, "X", BLOCK_7, 19, "A", BLOCK_7, 21, 7),
				    conv(&a, "A", BLOCK_7, 21, "B", BLOCK_100, 21, 100),
				    conv(&a, "B", BLOCK_100, 21, "C", BLOCK_7, 21, 7),
				    conv(&a, "C", BLOCK_7, 21, "Y", BLOCK_7, 21, 7)};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(byte_steps_open(&n, text, 4));
	REQUIRE_OK(plan_build(n.g, &n.s, &host, NULL, NULL, &p));
	struct plan_memory m = plan_memory(p);
	CHECK(m.values_bytes <= 2 * (BLOCKS + 63));
	CHECK(m.weights_bytes <= 4 * WEIGHTS + TABLES);
	CHECK(runs_right(p, &n));
	plan_free(p);
	byte_steps_close(&n);
	arena_free(&a);
}

static bool refused_again(struct plan *p)
{
	struct plan *q;
	struct buf meta = {0};
	plan_describe(p, &meta);
	int rc = plan_restore(meta.p, meta.n, NULL, &q);
	if (rc >= 0)
		plan_free(q);
	buf_free(&meta);
	return rc == E_CORRUPT;
}

/* A damaged description is refused, or its plan runs to an end inside of its memory. */
TEST(hostile_descriptions)
{
	struct byte_steps n;
	struct plan *p, *q;
	struct arena a = {0};
	struct buf meta = {0};
	int refused = 0, ran = 0;
	const char *const text[] = {
	    conv(&a, "X", BLOCK_7, 3, "A", "u8 0.1/16.2.3.1;2+1+1;3+1+1 fill=7", 2, 7),
	    conv(&a, "A", BLOCK_7, 2, "Y", "u8 plain", 2, 7)};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(byte_steps_open(&n, text, 2));
	REQUIRE_OK(plan_build_described(n.g, &n.s, &host, NULL, NULL, &meta, &p));
	for (size_t i = 40; i < meta.n; i++) { /* the memory's size stays, or it takes all memory */
		int bit = (int)(i % 8);
		meta.p[i] = (char)(meta.p[i] ^ 1 << bit);
		if (plan_restore(meta.p, meta.n, NULL, &q) >= 0) {
			(void)runs_right(q, &n);
			plan_free(q);
			ran++;
		} else {
			refused++;
		}
		meta.p[i] = (char)(meta.p[i] ^ 1 << bit);
	}
	CHECK(refused > 300 && ran > 300);
	p->copy_in[0].unit = 2;
	CHECK(refused_again(p));
	p->copy_in[0].unit = 1;
	CHECK(!refused_again(p));
	n.value[n.g->input[0]].buf.dtype = DT_I16; /* of a value with a halo */
	CHECK(refused_again(p));
	plan_free(p);
	buf_free(&meta);
	byte_steps_close(&n);
	arena_free(&a);
}

/* Code that says it packs bytes for Winograd is of another task: the reference takes its place. */
TEST(bytes_have_no_winograd)
{
	struct byte_steps n;
	struct plan *p;
	struct arena a = {0};
	struct code_maker m = {.mask = 1, .winograd = true};
	const struct kernel_source src = {.ctx = &m, .find = find_code};
	const char *const text[] = {conv(&a, "X", BLOCK_7, 16, "Y", BLOCK_7, 16, 7)};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(byte_steps_open(&n, text, 1));
	REQUIRE_OK(plan_build(n.g, &n.s, &host, &src, NULL, &p));
	CHECK(m.made == 1 && p->kernel[0].origin == FROM_HOST);
	CHECK(runs_right(p, &n));
	plan_free(p);
	byte_steps_close(&n);
	arena_free(&a);
}

TEST_MAIN
