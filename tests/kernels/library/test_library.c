/* SPDX-License-Identifier: Apache-2.0 */
/* Generated convolutions and products, with all layouts, paddings, groups and epilogues that pieces have:
 * the piece that is recognised computes what the task says, and so does each library that is installed. */
#include "kernels/library/library.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>

enum { CASES = 1500, MOST_TEXT = 4096 };

static int share(int n)
{
	const char *word = getenv("HONE_TEST_SHARE");
	int part = word ? atoi(word) : 1;
	return part > 1 ? (n + part - 1) / part : n;
}

/* ---- tasks ---- */

static int one_of(struct rng *r, int n, const int *of)
{
	return of[rng_below(r, (uint32_t)n)];
}

static int64_t up_to(struct rng *r, int64_t n)
{
	return 1 + (int64_t)rng_below(r, (uint32_t)n);
}

/* A layout of images: plain, channels in blocks, or channels innermost; with a halo where allowed. */
static void put_layout(struct rng *r, struct buf *b, int rank, int64_t halo)
{
	const int blocks[] = {4, 8, 16};
	switch (rng_below(r, 4)) {
	case 0:
	case 1:
		buf_puts(b, "plain");
		break;
	case 2:
		buf_puts(b, rank == 4 ? "0.2.3.1" : "0.2.1");
		break;
	default:
		buf_printf(b, rank == 4 ? "0.1/%d.2.3.1" : "0.1/%d.2.1", one_of(r, 3, blocks));
	}
	if (halo && rng_below(r, 2) && rank == 4)
		buf_printf(b, ";2+%d+%d;3+%d+%d", (int)rng_below(r, 3), (int)rng_below(r, 3),
			   (int)rng_below(r, 3), (int)rng_below(r, 3));
}

/* What follows the sum, of reads r2 (a bias) and r3 (an addend). */
static const char *const tails[] = {"acc",
				    "acc r2 add",
				    "acc 0 max",
				    "acc r2 add 0 max 6 min",
				    "acc r2 add 6 min",
				    "acc r2 add r3 add",
				    "r3 acc r2 add add 0 max",
				    "acc r2 add r3 add 0 max 6 min"};

static int reads_of(const char *tail)
{
	return strstr(tail, "r3") ? 2 : strstr(tail, "r2") ? 1 : 0;
}

static void conv_task(struct rng *r, struct buf *b)
{
	const int64_t depthwise = rng_below(r, 3) == 0, rank = rng_below(r, 5) ? 4 : 3;
	const int64_t c = depthwise ? 1 : up_to(r, 20), k = rng_below(r, 3) ? up_to(r, 40) : 8 * up_to(r, 4);
	const int64_t kh = rank == 3 ? 1 : up_to(r, 3), kw = rank == 3 ? 1 : up_to(r, 4), sh = up_to(r, 2),
		      sw = up_to(r, 2), dh = up_to(r, 2), dw = up_to(r, 2);
	const int64_t ph = rank == 3 ? 0 : (int64_t)rng_below(r, (uint32_t)kh),
		      pw = rank == 3 ? 0 : (int64_t)rng_below(r, (uint32_t)kw);
	const int64_t oh = up_to(r, 7), ow = up_to(r, 9);
	const int64_t h = (oh - 1) * sh + (kh - 1) * dh + 1 - ph, w = (ow - 1) * sw + (kw - 1) * dw + 1 - pw;
	const int64_t ih = h < 1 ? 1 : h, iw = w < 1 ? 1 : w, in = depthwise ? k : c,
		      n = rng_below(r, 6) ? 1 : 2;
	const char *tail = tails[rng_below(r, sizeof tails / sizeof *tails)];
	const int reads = reads_of(tail);
	buf_puts(b, "task syms=0\noperand x in f32 [");
	if (rank == 4)
		buf_printf(b, "%lld,%lld,%lld,%lld] ", (long long)n, (long long)in, (long long)ih,
			   (long long)iw);
	else
		buf_printf(b, "%lld,%lld,%lld] ", (long long)n, (long long)in, (long long)iw);
	put_layout(r, b, (int)rank, 1);
	buf_printf(b, "\noperand w const f32 [%lld,%lld,%lld,%lld] plain\n", (long long)k, (long long)c,
		   (long long)kh, (long long)kw);
	if (reads)
		buf_printf(b, "operand b const f32 [%lld] plain\n", (long long)k);
	for (int i = 0; i < 1 + (reads > 1); i++) {
		buf_puts(b, i ? "operand a in f32 [" : "operand y out f32 [");
		if (rank == 4)
			buf_printf(b, "%lld,%lld,%lld,%lld] ", (long long)n, (long long)k, (long long)oh,
				   (long long)ow);
		else
			buf_printf(b, "%lld,%lld,%lld] ", (long long)n, (long long)k, (long long)ow);
		put_layout(r, b, (int)rank, 1);
		buf_puts(b, "\n");
	}
	buf_printf(b, "stage n:%lld k:%lld ", (long long)n, (long long)k);
	if (rank == 4)
		buf_printf(b, "y:%lld ", (long long)oh);
	buf_printf(b, "x:%lld |", (long long)ow);
	if (!depthwise)
		buf_printf(b, " c:%lld", (long long)c);
	if (rank == 4)
		buf_printf(b, " r:%lld s:%lld", (long long)kh, (long long)kw);
	else if (depthwise)
		buf_puts(b, " r:1");
	buf_printf(b, "\nread x [n,%s", depthwise ? "k" : "c");
	if (rank == 4) {
		buf_printf(b, sh > 1 ? ",%lld*y" : ",y", (long long)sh);
		buf_printf(b, dh > 1 ? "+%lld*r" : "+r", (long long)dh);
		if (ph)
			buf_printf(b, "-%lld", (long long)ph);
	}
	buf_printf(b, sw > 1 ? ",%lld*x" : ",x", (long long)sw);
	if (rank == 4)
		buf_printf(b, dw > 1 ? "+%lld*s" : "+s", (long long)dw);
	if (pw)
		buf_printf(b, "-%lld", (long long)pw);
	buf_printf(b, "]\nread w [k,%s,%s,%s]\n", depthwise ? "0" : "c", rank == 4 ? "r" : "0",
		   rank == 4 ? "s" : "0");
	if (reads)
		buf_puts(b, "read b [k]\n");
	if (reads > 1)
		buf_puts(b, rank == 4 ? "read a [n,k,y,x]\n" : "read a [n,k,x]\n");
	buf_printf(b, "body r0 r1 mul\nsum\npost %s\nwrite y [%s]\n", tail, rank == 4 ? "n,k,y,x" : "n,k,x");
}

static void product_task(struct rng *r, struct buf *b)
{
	const long long m = rng_below(r, 3) ? up_to(r, 40) : 1, n = up_to(r, 70), k = up_to(r, 50);
	const bool turned = rng_below(r, 2), constant = rng_below(r, 3) != 0;
	const char *tail = tails[rng_below(r, sizeof tails / sizeof *tails)];
	const int reads = reads_of(tail);
	const bool rows = reads && rng_below(r, 4) == 0;
	buf_printf(b, "task syms=0\noperand x in f32 [%lld,%lld] plain\n", m, k);
	buf_printf(b, "operand w %s f32 [%lld,%lld] plain\n", constant ? "const" : "in", turned ? n : k,
		   turned ? k : n);
	if (reads)
		buf_printf(b, "operand b const f32 [%lld] plain\n", rows ? m : n);
	buf_printf(b, "operand y out f32 [%lld,%lld] plain\n", m, n);
	if (reads > 1)
		buf_printf(b, "operand a in f32 [%lld,%lld] plain\n", m, n);
	buf_printf(b, "stage m:%lld n:%lld | k:%lld\nread x [m,k]\nread w [%s]\n", m, n, k,
		   turned ? "n,k" : "k,n");
	if (reads)
		buf_puts(b, rows ? "read b [m]\n" : "read b [n]\n");
	if (reads > 1)
		buf_puts(b, "read a [m,n]\n");
	buf_printf(b, "body r0 r1 mul\nsum\npost %s\nwrite y [m,n]\n", tail);
}

/* ---- memory ---- */

struct memory {
	struct task t;
	void *buf[MAX_OPERANDS];
	int64_t elems[MAX_OPERANDS];
	int out;
};

#define UNTOUCHED 12345.5f

static bool memory_open(struct memory *m, const char *text, struct rng *r)
{
	memset(m, 0, sizeof *m);
	if (task_parse(text, &m->t) < 0) {
		printf("not a task: %s\n%s", err_text(), text);
		return false;
	}
	for (int i = 0; i < m->t.noperands; i++) {
		const struct operand *o = &m->t.operand[i];
		int64_t plain = shape_count(&o->dims);
		float *values = malloc((size_t)plain * sizeof *values);
		m->elems[i] = operand_elems(o);
		m->buf[i] = aligned_alloc(64, ((size_t)m->elems[i] * 4 + 63) / 64 * 64);
		for (int64_t k = 0; k < plain; k++)
			values[k] = (float)rng_unit(r) * 2 - 1;
		operand_pack(o, values, m->buf[i]);
		free(values);
		if (o->role == ROLE_OUT)
			m->out = i;
	}
	return true;
}

static void memory_poison(struct memory *m)
{
	float *out = m->buf[m->out];
	for (int64_t i = 0; i < m->elems[m->out]; i++)
		out[i] = UNTOUCHED;
}

static void memory_close(struct memory *m)
{
	for (int i = 0; i < m->t.noperands; i++)
		free(m->buf[i]);
}

/* ---- the piece's definition, word for word ---- */

static struct hone_buffers buffers_of(const struct memory *m, const struct task_piece *p)
{
	const float *none = NULL;
	return (struct hone_buffers){
	    (const float *)m->buf[p->x] + p->x_at, (const float *)m->buf[p->w] + p->w_at,
	    p->bias < 0 ? none : (const float *)m->buf[p->bias] + p->bias_at,
	    p->add < 0 ? none : (const float *)m->buf[p->add] + p->add_at, (float *)m->buf[p->y] + p->y_at};
}

static void compute(const struct memory *m, const struct task_piece *p)
{
	const struct hone_buffers b = buffers_of(m, p);
	library_portable(&p->p, &b);
}

/* What the output must be: the task's reference where it writes, and untouched halos. Lanes that channels in
 * blocks leave unused may hold anything. */
static bool agrees(const struct memory *m, const float *want, const char *who, const char *text)
{
	const float *got = m->buf[m->out];
	const struct operand *o = &m->t.operand[m->out];
	int64_t plain = shape_count(&o->dims);
	char *written = calloc((size_t)m->elems[m->out], 1);
	int32_t *one = calloc((size_t)plain, sizeof *one);
	bool good = true;
	for (int64_t i = 0, at[MAX_RANK] = {0}; i < plain; i++) {
		written[operand_offset(o, at)] = 1;
		for (int d = o->dims.rank - 1; d >= 0 && ++at[d] == o->dims.d[d]; d--)
			at[d] = 0;
	}
	bool blocked = false;
	for (int j = 0; j < o->layout.n; j++)
		blocked |= o->layout.ax[j].div > 1;
	for (int64_t i = 0; i < m->elems[m->out] && good; i++) {
		good = written[i] ? fabs((double)got[i] - (double)want[i]) <= 1e-4 * 8
				  : blocked || got[i] == UNTOUCHED;
		if (!good)
			printf("%s: element %lld is %g, not %g\n%s", who, (long long)i, (double)got[i],
			       written[i] ? (double)want[i] : (double)UNTOUCHED, text);
	}
	free(written);
	free(one);
	return good;
}

static float *reference_of(struct memory *m)
{
	struct arena scratch = {0};
	float *want = malloc((size_t)m->elems[m->out] * sizeof *want);
	memory_poison(m);
	CHECK_OK(task_reference(&m->t, m->buf, &scratch));
	memcpy(want, m->buf[m->out], (size_t)m->elems[m->out] * sizeof *want);
	arena_free(&scratch);
	return want;
}

static void make_text(struct rng *r, struct buf *text)
{
	buf_clear(text);
	if (rng_below(r, 3))
		conv_task(r, text);
	else
		product_task(r, text);
}

TEST(a_recognised_piece_computes_the_task)
{
	struct rng r;
	struct buf text = {0};
	int pieces = 0, all = share(CASES);
	rng_seed(&r, 11);
	for (int i = 0; i < all; i++) {
		struct memory m;
		struct task_piece p, part, again;
		make_text(&r, &text);
		REQUIRE(memory_open(&m, buf_str(&text), &r));
		if (piece_of_task(&m.t, &p) >= 0) {
			pieces++;
			float *want = reference_of(&m);
			int n = piece_parts(&p, 1 + (int)rng_below(&r, 4));
			memory_poison(&m);
			for (int k = 0; k < n; k++) {
				struct buf line = {0};
				piece_part(&p, n, k, &part);
				piece_text(&part, &line);
				CHECK_OK(piece_parse(buf_str(&line), &again));
				CHECK(memcmp(&again, &part, sizeof part) == 0);
				compute(&m, &again);
				buf_free(&line);
			}
			CHECK(agrees(&m, want, "piece", buf_str(&text)));
			free(want);
		}
		memory_close(&m);
	}
	CHECK(pieces >= all * 95 / 100);
	buf_free(&text);
}

TEST(installed_libraries_compute_pieces)
{
	int open = 0;
	for (const struct library *const *l = library_table; *l; l++) {
		struct library_found found;
		struct rng r;
		struct buf text = {0};
		int computed = 0, all = share(CASES / 3);
		if (library_open((*l)->name, &found) < 0) {
			printf("%s\n", err_text());
			continue;
		}
		open++;
		rng_seed(&r, 12);
		for (int i = 0; i < all; i++) {
			struct memory m;
			struct manifest man;
			struct arena a = {0};
			struct blob object;
			char cand[256];
			void *piece;
			make_text(&r, &text);
			REQUIRE(memory_open(&m, buf_str(&text), &r));
			int rc = library_cand(&m.t, found.word, 1 + (int)rng_below(&r, 3), cand, sizeof cand);
			if (rc >= 0)
				rc = library_code(&m.t, cand, &a, &man, &object);
			if (rc >= 0) {
				computed++;
				float *want = reference_of(&m);
				REQUIRE(library_foreign.load(object.p, object.n, &piece) >= 0);
				memory_poison(&m);
				library_foreign.run(piece, m.buf, 0, 0);
				library_foreign.run(piece, m.buf, 0, atoi(man.extent_expr[0]));
				CHECK(library_foreign.good(piece, "piece"));
				CHECK(agrees(&m, want, found.word, buf_str(&text)));
				library_foreign.unload(piece);
				free(want);
			}
			arena_free(&a);
			memory_close(&m);
		}
		printf("%s computes %d of %d\n", found.word, computed, all);
		CHECK(computed > all / 20);
		buf_free(&text);
	}
	if (!open)
		SKIP("none of the libraries is installed");
}

TEST_MAIN
