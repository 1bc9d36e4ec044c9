/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments in the interpreter and the checker: random products of matrices against plain sums, programs that
 * lack a barrier, and programs that loops_check refuses. SEED=n runs one program, SEEDS=n changes their
 * number. */
#include "tests/lib/test.h"
#include "tests/lib/fragments_program.h"

#include <stdlib.h>

static uint64_t seeds(uint64_t usual, uint64_t *first)
{
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	*first = from ? strtoull(from, NULL, 0) : 1;
	return from ? 1 : count ? strtoull(count, NULL, 0) : usual;
}

TEST(random_products_are_right)
{
	static struct frags_maker m;
	uint64_t first, n = seeds(60, &first);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		random_fragments(&m, seed, DT_NONE, seed % 2);
		fill_frags_memory(&m);
		if (loops_check(&l) < 0 || interpret_fragments(&m) < 0)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		REQUIRE_OK(loops_check(&l));
		CHECK(interpret_fragments(&m) == E_OK && frags_near(&m, frags_memory.want, seed));
	}
}

/* Removes the n-th barrier or, where there are copies, wait of a list, counted in *at. */
static bool remove_meeting(struct stmt **list, int n, bool waits, int *at)
{
	for (; *list; list = &(*list)->next) {
		struct stmt *s = *list;
		if ((s->op == ST_BARRIER || (waits && s->op == ST_WAIT)) && (*at)++ == n) {
			*list = s->next;
			return true;
		}
		if (remove_meeting(&s->body, n, waits, at) || remove_meeting(&s->other, n, waits, at))
			return true;
	}
	return false;
}

TEST(programs_without_a_barrier_or_a_wait_are_found)
{
	static struct frags_maker m;
	uint64_t first, n = seeds(40, &first);
	int found = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++)
		for (int k = 0;; k++) {
			int at = 0;
			random_fragments(&m, seed, DT_NONE, seed % 2);
			fill_frags_memory(&m);
			bool waits = frags_copies(&m.a) || frags_copies(&m.b);
			if (!remove_meeting(&l.entry[0].body, k, waits, &at))
				break;
			REQUIRE_OK(loops_check(&l));
			int rc = interpret_fragments(&m);
			if (rc != E_CORRUPT)
				printf("seed %llu, meeting %d\n", (unsigned long long)seed, k);
			CHECK(rc == E_CORRUPT);
			found++;
		}
	CHECK(test_bad || found > 2 * (int)n);
}

/* A block of 64 threads with shared buffers of 1024 elements: h of f16, b of s8, f of f32, g of bf16. */
static const struct ix *thread;
enum { O, H, B, F, G };

static void begin(int threads)
{
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	loops_buf(&l, "o", BUF_OUT, DT_F32, c(1024));
	loops_buf(&l, "h", BUF_SHARED, DT_F16, c(1024));
	loops_buf(&l, "b", BUF_SHARED, DT_I8, c(1024));
	loops_buf(&l, "f", BUF_SHARED, DT_F32, c(1024));
	loops_buf(&l, "g", BUF_SHARED, DT_BF16, c(1024));
	loops_entry_threads(&l, c(1), threads, &thread);
}

static int end(void)
{
	loops_entry_end(&l);
	return loops_check(&l);
}

static void refused(const char *why)
{
	int rc = end();
	CHECK(rc == E_CORRUPT && strstr(err_text(), why));
	if (rc != E_CORRUPT || !strstr(err_text(), why))
		printf("%s: %s\n", why, rc < 0 ? err_text() : "accepted");
}

static int fragment(enum frag_part part, enum dtype t)
{
	return lv_fragment(&l, (struct fragment){part, t, false});
}

static int zeros(void)
{
	int v = fragment(FRAG_C, DT_F32);
	lv_const(&l, v, 0);
	return v;
}

static const struct ix *warp(void)
{
	return ix_div(&l, thread, c(WARP));
}

static const struct ix *place(int how)
{
	return how == 0   ? times(warp(), 256)
	       : how == 1 ? times(ix_mod(&l, warp(), c(2)), 512)
	       : how == 2 ? times(ix_div(&l, ix_mod(&l, thread, c(64)), c(32)), 16)
	       : how == 3 ? c(768)
	       : how == 4 ? times(ix_div(&l, thread, c(2)), 16)
	       : how == 5 ? times(ix_div(&l, thread, c(16)), 64)
	       : how == 6 ? times(ix_mod(&l, thread, c(32)), 16)
	       : how == 7 ? plus(times(warp(), 256), c(8))
	       : how == 8 ? c(784)
	       : how == 9 ? c(-16)
			  : times(ix_mod(&l, warp(), c(2)), 1008);
}

TEST(places_are_checked)
{
	static const char *const why[] = {NULL,     NULL,      NULL,      NULL,      "differ", "differ",
					  "differ", "aligned", "outside", "outside", "outside"};
	for (int how = 0; how < 11; how++)
		for (int store = 0; store < 2; store++) {
			begin(64);
			if (store)
				lv_frag_store(&l, zeros(), F, place(how), 16);
			else
				lv_frag_load(&l, fragment(FRAG_A, DT_F16), H, place(how), 16);
			if (store && how == 7) /* 8 floats are 32 bytes */
				CHECK(end() == E_OK);
			else if (why[how])
				refused(why[how]);
			else
				CHECK(end() == E_OK);
		}
	static const int strides[] = {8, 0, -16};
	for (int i = 0; i < 3; i++) {
		begin(64);
		lv_frag_load(&l, fragment(FRAG_A, DT_F16), H, c(0), strides[i]);
		refused("stride");
	}
	begin(64);
	lv_frag_load(&l, fragment(FRAG_A, DT_F16), O, c(0), 16);
	refused("not in a shared buffer");
	begin(64);
	lv_frag_load(&l, fragment(FRAG_A, DT_F16), B, c(0), 16);
	refused("two types");
	begin(64);
	lv_frag_load(&l, fragment(FRAG_A, DT_I32), F, c(0), 16);
	refused("cannot have");
	begin(64);
	lv_frag_load(&l, fragment(FRAG_C, DT_F16), H, c(0), 16);
	refused("cannot have");
	begin(48);
	lv_frag_load(&l, fragment(FRAG_A, DT_F16), H, c(0), 16);
	refused("multiple of 32");
}

/* Each row or column begins at a multiple of the bytes that a thread has of the fragment (PTX ISA,
 * "wmma.load"), of bytes at one of 16. */
TEST(rows_are_aligned)
{
	static const struct {
		enum frag_part part;
		enum dtype dtype;
		int buf, elems; /* the least step */
		bool narrow;
	} cases[] = {{FRAG_A, DT_F16, H, 16},     {FRAG_B, DT_F16, H, 16}, {FRAG_A, DT_BF16, G, 8},
		     {FRAG_B, DT_I8, B, 16},      {FRAG_C, DT_F32, F, 8},  {FRAG_B, DT_F32, F, 8},
		     {FRAG_A, DT_F32, F, 4, true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int at = 0; at < 2; at++)
			for (int n = 1; n <= 48; n++) {
				int64_t stride = at ? 16 : 15 + n;
				begin(64);
				l.narrow = cases[i].narrow;
				if (cases[i].part == FRAG_C)
					lv_frag_store(&l, zeros(), cases[i].buf, c(at ? n : 0), stride);
				else
					lv_frag_load(&l, fragment(cases[i].part, cases[i].dtype),
						     cases[i].buf, c(at ? n : 0), stride);
				if ((at ? n : stride) % cases[i].elems)
					refused("aligned");
				else
					CHECK(end() == E_OK);
			}
}

static void use_load(void)
{
	lv_frag_load(&l, fragment(FRAG_A, DT_F16), H, c(0), 16);
}

static void use_store(void)
{
	static int v;
	v = l.nvars - 1; /* made by begin_use */
	lv_frag_store(&l, v, F, c(0), 16);
}

static void use_set(void)
{
	zeros();
}

TEST(fragments_stand_where_threads_meet)
{
	static void (*const use[])(void) = {use_load, use_store, use_set};
	for (int i = 0; i < 3; i++)
		for (int divided = 0; divided < 2; divided++) {
			begin(64);
			zeros();
			const struct ix *x = divided ? warp() : ix_var(&l, l.entry[0].var);
			struct stmt *s = if_begin(&l, ix_lt(&l, x, c(1)));
			use[i]();
			if_end(&l, s);
			if (divided)
				refused("threads meet");
			else
				CHECK(end() == E_OK);
		}
}

TEST(operations_of_fragments_are_checked)
{
	for (int how = 0; how < 11; how++) {
		begin(64);
		int a = fragment(FRAG_A, DT_F16), f = fragment(FRAG_A, DT_F32), b = fragment(FRAG_B, DT_F16),
		    s = fragment(FRAG_B, DT_I8), sum = zeros(), v = lv_new(&l, 8), one = lv_new(&l, 1),
		    whole = fragment(FRAG_C, DT_I32);
		lv_const(&l, v, 0);
		lv_const_s32(&l, whole, 0);
		lv_frag_load(&l, a, H, c(0), 16);
		lv_frag_load(&l, f, F, c(0), 16);
		lv_frag_load(&l, b, H, c(0), 16);
		lv_frag_load(&l, s, B, c(0), 16);
		switch (how) {
		case 0:
			lv_frag_mma(&l, sum, b, a);
			break;
		case 1:
			lv_frag_mma(&l, sum, a, s);
			break;
		case 2:
			lv_frag_mma(&l, whole, a, b);
			break;
		case 3:
			lv_set(&l, sum, V_ADD, sum, v, -1, -1);
			break;
		case 4:
			lv_lane(&l, one, sum, 0);
			break;
		case 5:
			lv_store(&l, sum, (struct mem){.buf = F, .at = c(0), .stride = 1});
			break;
		case 6:
			lv_shuffle(&l, sum, sum, 1);
			break;
		case 7:
			lv_set(&l, a, V_ADD, a, a, -1, -1);
			break;
		case 8:
			lv_frag_store(&l, v, F, c(0), 16);
			break;
		case 9:
			lv_frag_mma(&l, sum, f, b);
			break;
		default:
			lv_frag_mma(&l, whole, f, s);
		}
		refused(how == 0              ? "A, B and C"
			: how <= 2 || how > 8 ? "go together"
			: how == 8            ? "no fragment C"
					      : "takes no fragment");
	}
	begin(64);
	int a = fragment(FRAG_A, DT_F16), b = fragment(FRAG_B, DT_F16);
	lv_frag_mma(&l, zeros(), a, b);
	refused("before it is set");
}

/* To nearest, ties away from zero, with 10 bits of fraction; what is too large becomes infinite. */
TEST(f32_are_rounded_to_tf32)
{
	static const struct {
		float from, to;
	} rows[] = {{1, 1},
		    {0x1.001p0f, 0x1p0f},
		    {0x1.001ffep0f, 0x1p0f},
		    {0x1.002p0f, 0x1.004p0f}, /* a tie, to an odd fraction: to even would be 1 */
		    {-0x1.002p0f, -0x1.004p0f},
		    {0x1.006p0f, 0x1.008p0f},
		    {0x1.ffep0f, 0x1p1f},
		    {0x1.fffp127f, INFINITY},
		    {-0x1.ffdffep127f, -0x1.ffcp127f},
		    {INFINITY, INFINITY},
		    {-INFINITY, -INFINITY},
		    {0x1p-136f, 0x1p-136f},
		    {0x1p-137f, 0x1p-136f},
		    {0x1p-138f, 0}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		CHECK(tf32_of(rows[i].from) == rows[i].to);
	CHECK(signbit(tf32_of(-0.f)) && isnan(tf32_of(NAN)));
	/* 1 times the tie, summed 16 times. */
	static float out[1024];
	void *bufs[] = {out};
	begin(32);
	int a = fragment(FRAG_A, DT_F32), b = fragment(FRAG_B, DT_F32), v = zeros(), x = lv_new(&l, 16);
	for (int i = 0; i < 2; i++) {
		lv_const(&l, x, i ? 0x1.002p0f : 1);
		lv_store(&l, x,
			 (struct mem){.buf = F, .at = plus(times(thread, 16), c(512 * i)), .stride = 1});
	}
	lv_barrier(&l);
	lv_frag_load(&l, a, F, c(0), 16);
	lv_frag_load(&l, b, F, c(512), 16);
	lv_frag_mma(&l, v, a, b);
	lv_frag_store(&l, v, F, c(256), 16);
	lv_barrier(&l);
	lv_load(
	    &l, x,
	    (struct mem){.buf = F, .at = plus(times(ix_mod(&l, thread, c(16)), 16), c(256)), .stride = 1});
	struct stmt *s = if_begin(&l, ix_lt(&l, thread, c(16)));
	lv_store(&l, x, (struct mem){.buf = O, .at = times(ix_min(&l, thread, c(15)), 16), .stride = 1});
	if_end(&l, s);
	REQUIRE_OK(end());
	REQUIRE_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
	for (int i = 0; i < FRAG_ELEMS; i++)
		CHECK(out[i] == 16 * 0x1.004p0f);
}

TEST(programs_are_printed)
{
	begin(64);
	int a = lv_fragment(&l, (struct fragment){FRAG_A, DT_F16, true}), b = fragment(FRAG_B, DT_F16),
	    v = zeros();
	lv_frag_load(&l, a, H, c(0), 32);
	lv_frag_load(&l, b, H, c(0), 16);
	lv_frag_mma(&l, v, a, b);
	lv_frag_store(&l, v, F, c(32), 16);
	CHECK(end() == E_OK);
	struct buf text = {0};
	loops_print(&l, &text);
	CHECK(strstr(buf_str(&text), "v0.A f16 columns = frag_load h[0] stride 32"));
	CHECK(strstr(buf_str(&text), "v2.C f32 = frag_mma v0 v1 v2"));
	CHECK(strstr(buf_str(&text), "frag_store f[32] stride 16 = v2"));
	if (test_bad)
		puts(buf_str(&text));
	buf_free(&text);
}

/* Whichever thread wrote an element that its warp loads, or reads one that its warp stored, a barrier lies
 * between; so it does between a store and a load of the same warp. */
TEST(no_thread_is_the_warp)
{
	static float out[1024];
	void *bufs[] = {out};
	for (int writer = 0; writer < 33; writer++)
		for (int how = 0; how < 4; how++) {
			bool loads = how < 2, waits = how % 2;
			begin(32);
			int v = zeros(), x = lv_new(&l, 16);
			lv_const(&l, x, 0);
			if (!loads || writer == 32)
				lv_frag_store(&l, v, F, c(0), 16);
			else
				lv_const(&l, x, 1);
			if (waits && !loads)
				lv_barrier(&l);
			struct stmt *s = if_begin(&l, ix_eq(&l, thread, c(writer)));
			for (int i = 0; i < 256; i += 16) {
				struct mem m = {.buf = F, .at = c(i), .stride = 1};
				if (loads)
					lv_store(&l, x, m);
				else
					lv_load(&l, x, m);
			}
			if_end(&l, s);
			if (waits && loads)
				lv_barrier(&l);
			if (loads)
				lv_frag_load(&l, v, F, c(0), 16);
			REQUIRE_OK(end());
			bool reads = loads || writer < 32;
			CHECK(loops_run(&l, 0, bufs, NULL, 0, 1) == (waits || !reads ? E_OK : E_CORRUPT));
		}
}

/* A sum of bytes that is no s32 is refused. */
TEST(overflows_are_found)
{
	static float out[1024];
	void *bufs[] = {out};
	begin(32);
	int a = fragment(FRAG_A, DT_I8), b = fragment(FRAG_B, DT_I8), v = fragment(FRAG_C, DT_I32);
	int x = lv_new_s32(&l, 16);
	lv_const_s32(&l, x, 127);
	lv_store(&l, x, (struct mem){.buf = B, .at = times(thread, 16), .stride = 1});
	lv_barrier(&l);
	lv_const_s32(&l, v, INT32_MAX - 16 * 127 * 127 + 1);
	lv_frag_load(&l, a, B, c(0), 16);
	lv_frag_load(&l, b, B, c(256), 16);
	lv_frag_mma(&l, v, a, b);
	REQUIRE_OK(end());
	CHECK(loops_run(&l, 0, bufs, NULL, 0, 1) == E_CORRUPT && strstr(err_text(), "overflows"));
}

TEST_MAIN
