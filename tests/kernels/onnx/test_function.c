/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that the importer replaces by simpler ones, against their formulas: random Attention with
 * everything that it may have, RotaryEmbedding, MeanVarianceNormalization, DFT, STFT. Under emulation a share
 * of them runs (test_share).
 */
#include "tests/lib/onnx_make.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"
#include "platform/base/until.h"
#include <inttypes.h>
#include <math.h>

enum { MOST = 4096 };

static const struct import_opts none = {0};

/* An operator's model and its inputs; all values are in [-1, 1] if nothing else is said. */
struct call {
	struct onnx_maker k;
	struct rng r;
	struct arena a;
	char in[64], out[32];
	struct tensor x[8]; /* by input; dtype DT_NONE: absent */
	int n;
};

static void add_input(struct call *c, bool there, enum dtype t, int rank, const int64_t *d)
{
	char dims[64] = "";
	const char *name = arena_printf(&c->k.a, "x%d", c->n);
	struct shape s = {.rank = rank};
	struct tensor *x = &c->x[c->n++];
	sprintf(c->in + strlen(c->in), "%s ", there ? name : "-");
	if (!there)
		return;
	for (int i = 0; i < rank; i++) {
		s.d[i] = d[i];
		sprintf(dims + strlen(dims), "%d ", (int)d[i]);
	}
	mk_input(&c->k, name, t == DT_F32 ? 1 : t == DT_BOOL ? 9 : 7, dims);
	CHECK_OK(tensor_alloc(&c->a, t, &s, x));
	for (int64_t i = 0; i < shape_count(&s); i++)
		tensor_set(x, i, rng_unit(&c->r) * 2 - 1);
}

static void attr_float(struct call *c, Onnx__NodeProto *n, const char *name, float f)
{
	Onnx__AttributeProto *a = mk_attr(&c->k, n, name, 1);
	a->has_f = 1;
	a->f = f;
}

static double get(const struct call *c, int i, int64_t at)
{
	return tensor_get(&c->x[i], at);
}

/* Runs the model, as it is imported and optimised, and compares output `o` with n wanted values. */
static void compare(struct call *c, struct graph *g, const double *want, int64_t n, int o)
{
	for (int optimised = 0; optimised < 2 && !test_bad; optimised++) {
		struct tensor in[8], *t = ARENA_ARRAY(&c->a, struct tensor, 512);
		int count = 0;
		if (optimised)
			REQUIRE_OK(graph_optimize(g));
		for (int i = 0; i < c->n; i++)
			if (c->x[i].dtype != DT_NONE)
				in[count++] = c->x[i];
		REQUIRE(g->nvalues < 512);
		REQUIRE_OK(eval_graph(g, in, t, &c->a));
		const struct tensor *y = &t[g->output[o]];
		REQUIRE(shape_count(&y->shape) == n);
		for (int64_t i = 0; i < n && !test_bad; i++)
			CHECK(fabs(tensor_get(y, i) - want[i]) < 1e-4);
	}
}

/* ---- Attention ---- */

struct attention {
	int64_t b, n, groups, s, t, before, h, hv, left, right, mask_t;
	bool flat, causal, lengths;
	int mask; /* rank of the mask; 0: none */
	enum dtype mask_type;
	double scale, cap;
};

static struct attention draw(struct rng *r)
{
	struct attention a = {.b = 1 + rng_below(r, 2),
			      .groups = 1 + rng_below(r, 2),
			      .s = 1 + rng_below(r, 4),
			      .h = 1 + rng_below(r, 4),
			      .hv = 1 + rng_below(r, 4),
			      .left = -1,
			      .right = -1};
	a.n = a.groups * (1 + rng_below(r, 3));
	a.flat = rng_below(r, 2);
	a.causal = rng_below(r, 2);
	a.lengths = !rng_below(r, 4);
	a.before = a.lengths ? 0 : rng_below(r, 3);
	a.t = a.before + 1 + rng_below(r, 4);
	a.mask = rng_below(r, 2) ? 2 + (int)rng_below(r, 3) : 0;
	a.mask_type = rng_below(r, 2) ? DT_F32 : DT_BOOL;
	a.mask_t = a.mask && !rng_below(r, 3) ? 1 + rng_below(r, (uint32_t)a.t) : a.t;
	if (!a.lengths && !rng_below(r, 3))
		a.left = rng_below(r, 3);
	if (!a.lengths && !rng_below(r, 3))
		a.right = rng_below(r, 3);
	a.scale = rng_below(r, 2) ? 0.5 : 0;
	a.cap = rng_below(r, 2) ? 0.5 : 0;
	return a;
}

/* Element of input i, which is Q, K or V. */
static double head(const struct call *c, const struct attention *a, int i, int64_t b, int64_t n, int64_t p,
		   int64_t e)
{
	int64_t heads = i ? a->groups : a->n, rows = i ? a->t - a->before : a->s,
		size = i == 2 ? a->hv : a->h;
	if (i && p < a->before)
		return get(c, 3 + i, ((b * heads + n) * a->before + p) * size + e);
	p -= i ? a->before : 0;
	return get(c, i,
		   a->flat ? ((b * rows + p) * heads + n) * size + e
			   : ((b * heads + n) * rows + p) * size + e);
}

static double bias(const struct call *c, const struct attention *a, int64_t b, int64_t n, int64_t i,
		   int64_t j)
{
	double v = 0;
	int64_t length = a->lengths ? (int64_t)get(c, 6, b) : a->t;
	int64_t place = i + (a->lengths && a->causal ? length - a->s : a->before);
	if (j >= length || (a->causal && j > place) || (a->left >= 0 && place - j > a->left) ||
	    (a->right >= 0 && j - place > a->right) || (a->mask && j >= a->mask_t))
		return -INFINITY;
	if (a->mask)
		v = get(c, 3,
			((a->mask > 3 ? b * a->n : 0) + (a->mask > 2 ? n : 0)) * a->s * a->mask_t +
			    i * a->mask_t + j);
	return a->mask && a->mask_type == DT_BOOL ? (v ? 0 : -INFINITY) : v;
}

/* One row of the result; the scores before Softmax and after it. */
static void row(const struct call *c, const struct attention *a, int64_t b, int64_t n, int64_t i, double *y,
		double *score)
{
	double sum = 0, most = -INFINITY;
	int64_t g = n / (a->n / a->groups);
	for (int64_t j = 0; j < a->t; j++) {
		double dot = 0;
		for (int64_t e = 0; e < a->h; e++)
			dot += head(c, a, 0, b, n, i, e) * head(c, a, 1, b, g, j, e);
		dot *= a->scale > 0 ? a->scale : 1 / sqrt((double)a->h);
		dot = a->cap > 0 ? a->cap * tanh(dot / a->cap) : dot;
		score[j] = dot + bias(c, a, b, n, i, j);
		most = fmax(most, score[j]);
	}
	for (int64_t j = 0; j < a->t; j++)
		sum += score[j] = isfinite(most) ? exp(score[j] - most) : 0;
	for (int64_t e = 0; e < a->hv; e++) {
		y[e] = 0;
		for (int64_t j = 0; j < a->t && sum > 0; j++)
			y[e] += score[j] / sum * head(c, a, 2, b, g, j, e);
	}
}

static void check_attention(struct rng *r)
{
	struct attention a = draw(r);
	struct call c = {.r = *r};
	static double want[MOST];
	double score[16];
	struct graph *g;
	int64_t fresh = a.t - a.before, mask[4] = {a.b, a.n, a.s, a.mask_t};
	mk_start(&c.k, 25, 16);
	if (a.flat) {
		add_input(&c, true, DT_F32, 3, (int64_t[]){a.b, a.s, a.n * a.h});
		add_input(&c, true, DT_F32, 3, (int64_t[]){a.b, fresh, a.groups * a.h});
		add_input(&c, true, DT_F32, 3, (int64_t[]){a.b, fresh, a.groups * a.hv});
	} else {
		add_input(&c, true, DT_F32, 4, (int64_t[]){a.b, a.n, a.s, a.h});
		add_input(&c, true, DT_F32, 4, (int64_t[]){a.b, a.groups, fresh, a.h});
		add_input(&c, true, DT_F32, 4, (int64_t[]){a.b, a.groups, fresh, a.hv});
	}
	add_input(&c, a.mask, a.mask_type, a.mask, mask + 4 - a.mask);
	for (int64_t i = 0; a.mask && a.mask_type == DT_BOOL && i < shape_count(&c.x[3].shape); i++)
		tensor_set_i64(&c.x[3], i, rng_below(&c.r, 2));
	add_input(&c, a.before, DT_F32, 4, (int64_t[]){a.b, a.groups, a.before, a.h});
	add_input(&c, a.before, DT_F32, 4, (int64_t[]){a.b, a.groups, a.before, a.hv});
	add_input(&c, a.lengths, DT_I64, 1, &a.b);
	for (int64_t b = 0; a.lengths && b < a.b; b++)
		tensor_set_i64(&c.x[6], b, rng_below(&c.r, (uint32_t)a.t + 1));
	Onnx__NodeProto *n = mk_node(&c.k, "Attention", c.in, a.before ? "y - z" : "y");
	if (a.flat) {
		mk_attr_int(&c.k, n, "q_num_heads", a.n);
		mk_attr_int(&c.k, n, "kv_num_heads", a.groups);
	}
	mk_attr_int(&c.k, n, "is_causal", a.causal);
	mk_attr_int(&c.k, n, "left_window_size", a.left);
	mk_attr_int(&c.k, n, "right_window_size", a.right);
	if (a.scale > 0)
		attr_float(&c, n, "scale", (float)a.scale);
	if (a.cap > 0)
		attr_float(&c, n, "softcap", (float)a.cap);
	mk_output(&c.k, "y");
	if (a.before)
		mk_output(&c.k, "z");
	for (int64_t b = 0; b < a.b; b++)
		for (int64_t h = 0; h < a.n; h++)
			for (int64_t i = 0; i < a.s; i++)
				row(&c, &a, b, h, i,
				    want +
					(a.flat ? (b * a.s + i) * a.n + h : (b * a.n + h) * a.s + i) * a.hv,
				    score);
	REQUIRE_OK(mk_import(&c.k, NULL, &none, &g));
	compare(&c, g, want, a.b * a.n * a.s * a.hv, 0);
	for (int64_t i = 0; a.before && i < a.b * a.groups * a.t * a.hv; i++)
		want[i] = head(&c, &a, 2, i / a.hv / a.t / a.groups, i / a.hv / a.t % a.groups,
			       i / a.hv % a.t, i % a.hv);
	if (a.before)
		compare(&c, g, want, a.b * a.groups * a.t * a.hv, 1);
	graph_free(g);
	arena_free(&c.a);
	*r = c.r;
}

TEST(attention)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0, n = 1500 / test_share(); i < n && !test_bad; i++) {
		check_attention(&r);
		if (test_bad)
			printf("  attention %d\n", i);
	}
}

/* ---- RotaryEmbedding ---- */

static void check_rotary(struct rng *r)
{
	struct call c = {.r = *r};
	static double want[MOST];
	struct graph *g;
	int64_t b = 1 + rng_below(r, 2), n = 1 + rng_below(r, 3), s = 1 + rng_below(r, 4),
		half = 1 + rng_below(r, 3);
	int64_t h = 2 * half + (rng_below(r, 2) ? rng_below(r, 3) : 0), most = 5;
	bool flat = rng_below(r, 2), pairs = rng_below(r, 2), known = rng_below(r, 2);
	int64_t wide[4] = {b, n, s, h}, narrow[3] = {b, s, n * h}, table[3] = {b, s, half};
	c.r = *r;
	mk_start(&c.k, 23, 16);
	add_input(&c, true, DT_F32, flat ? 3 : 4, flat ? narrow : wide);
	for (int k = 0; k < 2; k++)
		add_input(&c, true, DT_F32, known ? 2 : 3, known ? (int64_t[]){most, half} : table);
	add_input(&c, known, DT_I64, 2, (int64_t[]){b, s});
	for (int64_t i = 0; known && i < b * s; i++)
		tensor_set_i64(&c.x[3], i, rng_below(&c.r, (uint32_t)most));
	Onnx__NodeProto *node = mk_node(&c.k, "RotaryEmbedding", c.in, "y");
	mk_attr_int(&c.k, node, "interleaved", pairs);
	if (flat)
		mk_attr_int(&c.k, node, "num_heads", n);
	if (h != 2 * half)
		mk_attr_int(&c.k, node, "rotary_embedding_dim", 2 * half);
	mk_output(&c.k, "y");
	for (int64_t i = 0; i < b * n * s; i++) {
		int64_t p = flat ? i / n : i / s / n * s + i % s, at = known ? (int64_t)get(&c, 3, p) : p;
		for (int64_t e = 0; e < h; e++)
			want[i * h + e] = get(&c, 0, i * h + e);
		for (int64_t e = 0; e < half; e++) {
			int64_t x = i * h + (pairs ? 2 * e : e), y = x + (pairs ? 1 : half);
			double cosine = get(&c, 1, at * half + e), sine = get(&c, 2, at * half + e);
			want[x] = get(&c, 0, x) * cosine - get(&c, 0, y) * sine;
			want[y] = get(&c, 0, x) * sine + get(&c, 0, y) * cosine;
		}
	}
	REQUIRE_OK(mk_import(&c.k, NULL, &none, &g));
	compare(&c, g, want, b * n * s * h, 0);
	graph_free(g);
	arena_free(&c.a);
	*r = c.r;
}

TEST(rotary)
{
	struct rng r;
	rng_seed(&r, 4);
	for (int i = 0, n = 500 / test_share(); i < n && !test_bad; i++)
		check_rotary(&r);
}

/* ---- MeanVarianceNormalization ---- */

TEST(mean_and_variance)
{
	for (int opset = 9; opset <= 21; opset += 6)
		for (int given = 0; given < 2; given++) {
			struct call c = {.n = 0};
			struct graph *g;
			double want[24], mean[3] = {0}, square[3] = {0};
			rng_seed(&c.r, 5);
			mk_start(&c.k, opset, 8);
			add_input(&c, true, DT_F32, 4, (int64_t[]){2, 3, 2, 2});
			Onnx__NodeProto *n = mk_node(&c.k, "MeanVarianceNormalization", c.in, "y");
			if (given)
				mk_attr_ints(&c.k, n, "axes", 3, (int64_t[]){0, -2, 3});
			mk_output(&c.k, "y");
			for (int i = 0; i < 24; i++) {
				mean[i / 4 % 3] += get(&c, 0, i) / 8;
				square[i / 4 % 3] += get(&c, 0, i) * get(&c, 0, i) / 8;
			}
			for (int i = 0, k; i < 24; i++)
				k = i / 4 % 3,
				want[i] = (get(&c, 0, i) - mean[k]) / sqrt(square[k] - mean[k] * mean[k]);
			REQUIRE_OK(mk_import(&c.k, NULL, &none, &g));
			compare(&c, g, want, 24, 0);
			graph_free(g);
			arena_free(&c.a);
		}
}

/* ---- DFT, STFT ---- */

static int64_t constant(struct call *c, const char *name, int64_t v)
{
	int32_t narrow = (int32_t)v;
	if (rng_below(&c->r, 2))
		mk_init(&c->k, name, 7, "", &v, sizeof v);
	else
		mk_init(&c->k, name, 6, "", &narrow, sizeof narrow);
	sprintf(c->in + strlen(c->in), "%s ", name);
	return v;
}

/* Sets y[z] to frequency k of n numbers, of which x(i, q) gives the parts. */
static void transform(const struct call *c, int64_t at, int64_t step, int parts, int64_t have, int64_t n,
		      int64_t k, int sign, int window, double *y)
{
	y[0] = y[1] = 0;
	for (int64_t i = 0; i < n && i < have; i++) {
		double a = sign * 2 * M_PI * (double)i * (double)k / (double)n, f = window ? get(c, 2, i) : 1;
		double re = f * get(c, 0, at + i * step * parts),
		       im = parts == 2 ? f * get(c, 0, at + i * step * 2 + 1) : 0;
		y[0] += re * cos(a) - im * sin(a);
		y[1] += re * sin(a) + im * cos(a);
	}
	for (int z = 0; z < 2 && sign > 0; z++)
		y[z] /= (double)n;
}

static void check_dft(struct rng *r)
{
	struct call c = {.r = *r};
	static double want[MOST];
	struct graph *g;
	int rank = 2 + (int)rng_below(&c.r, 3), opset = rng_below(&c.r, 2) ? 17 : 20,
	    axis = (int)rng_below(&c.r, (uint32_t)rank - 1);
	int64_t d[4], inner = 1, outer = 1, n;
	bool half = rng_below(&c.r, 2), inverse = !half && rng_below(&c.r, 2), shown = rng_below(&c.r, 2);
	for (int i = 0; i < rank; i++)
		d[i] = 1 + rng_below(&c.r, i == rank - 1 ? 2 : 5);
	for (int i = 0; i < rank - 1; i++)
		*(i < axis ? &outer : &inner) *= i == axis ? 1 : d[i];
	int parts = (int)d[rank - 1];
	mk_start(&c.k, opset, 16);
	add_input(&c, true, DT_F32, rank, d);
	if (shown)
		n = constant(&c, "length", 1 + rng_below(&c.r, 7));
	else
		n = d[axis], sprintf(c.in + strlen(c.in), "- ");
	if (opset == 20)
		constant(&c, "axis", axis - (shown ? rank : 0));
	Onnx__NodeProto *node = mk_node(&c.k, "DFT", c.in, "y");
	if (opset == 17)
		mk_attr_int(&c.k, node, "axis", axis);
	mk_attr_int(&c.k, node, "onesided", half);
	mk_attr_int(&c.k, node, "inverse", inverse);
	mk_output(&c.k, "y");
	int64_t bins = half ? n / 2 + 1 : n;
	for (int64_t i = 0; i < outer * bins * inner; i++)
		transform(&c, (i / inner / bins * d[axis] * inner + i % inner) * parts, inner, parts, d[axis],
			  n, i / inner % bins, inverse ? 1 : -1, 0, want + 2 * i);
	REQUIRE_OK(mk_import(&c.k, NULL, &none, &g));
	compare(&c, g, want, outer * bins * inner * 2, 0);
	graph_free(g);
	arena_free(&c.a);
	*r = c.r;
}

static void check_stft(struct rng *r)
{
	struct call c = {.r = *r};
	static double want[MOST];
	struct graph *g;
	int64_t b = 1 + rng_below(&c.r, 2), n = 1 + rng_below(&c.r, 6), length = n + rng_below(&c.r, 9);
	int parts = 1 + (int)rng_below(&c.r, 2);
	bool half = rng_below(&c.r, 2), window = rng_below(&c.r, 2), shown = rng_below(&c.r, 2);
	if (!window && !shown) /* one frame */
		n = length;
	mk_start(&c.k, 17, 16);
	add_input(&c, true, DT_F32, 3, (int64_t[]){b, length, parts});
	int64_t step = constant(&c, "step", 1 + rng_below(&c.r, 4)), bins = half ? n / 2 + 1 : n,
		frames = (length - n) / step + 1;
	c.n = 2; /* numbers of inputs, of which the constants are none */
	if (window) {
		struct tensor *w = &c.x[2];
		CHECK_OK(tensor_alloc(&c.a, DT_F32, &(struct shape){1, {n}}, w));
		rng_fill(&c.r, w->data, (size_t)n);
		mk_init(&c.k, "window", 1, arena_printf(&c.k.a, "%d", (int)n), w->data, (size_t)n * 4);
	}
	strcat(c.in, window ? "window " : "- ");
	if (shown)
		constant(&c, "length", n);
	Onnx__NodeProto *node = mk_node(&c.k, "STFT", c.in, "y");
	mk_attr_int(&c.k, node, "onesided", half);
	mk_output(&c.k, "y");
	for (int64_t i = 0; i < b * frames * bins; i++)
		transform(&c, (i / bins / frames * length + i / bins % frames * step) * parts, 1, parts, n, n,
			  i % bins, -1, window, want + 2 * i);
	REQUIRE_OK(mk_import(&c.k, NULL, &none, &g));
	compare(&c, g, want, b * frames * bins * 2, 0);
	graph_free(g);
	arena_free(&c.a);
	*r = c.r;
}

TEST(fourier)
{
	struct rng r;
	rng_seed(&r, 6);
	for (int i = 0, n = 500 / test_share(); i < n && !test_bad; i++) {
		check_dft(&r);
		check_stft(&r);
		if (test_bad)
			printf("  transform %d\n", i);
	}
}

/* ---- what is refused ---- */

/* Shapes of floats, or, after an i, of integers. */
static void refused(const char *type, const char *shapes, const char *attrs, const char *why)
{
	struct call c = {.n = 0};
	struct graph *g = NULL;
	char *save = NULL, *text = arena_strdup(&c.a, shapes);
	mk_start(&c.k, 25, 16);
	for (char *w = strtok_r(text, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
		int64_t d[5];
		enum dtype t = *w == 'i' ? DT_I64 : DT_F32;
		w += t == DT_I64;
		int rank = sscanf(w, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, d, d + 1,
				  d + 2, d + 3, d + 4);
		add_input(&c, rank > 0, t, rank < 0 ? 0 : rank, d);
	}
	Onnx__NodeProto *n = mk_node(&c.k, type, c.in, "y");
	int64_t v;
	char name[32];
	for (int used; sscanf(attrs, " %31[a-z_]=%" SCNd64 "%n", name, &v, &used) == 2; attrs += used)
		mk_attr_int(&c.k, n, arena_strdup(&c.k.a, name), v);
	mk_output(&c.k, "y");
	int rc = mk_import(&c.k, NULL, &none, &g);
	CHECK(rc == E_CORRUPT || rc == E_UNSUPPORTED);
	CHECK(strstr(err_text(), why));
	if (test_bad)
		printf("  %s of %s: %s\n", type, shapes, err_text());
	arena_free(&c.a);
}

TEST(refuses)
{
	refused("Attention", "1 1 2 2|1 1 2 2", "", "2 inputs");
	refused("Attention", "1 1 2 2|-|1 1 2 2", "", "input 1 is absent");
	refused("Attention", "1 2 2|1 2 2|1 2 2", "", "does not divide the last extent");
	refused("Attention", "1 2 3|1 2 2|1 2 2", "q_num_heads=2 kv_num_heads=1",
		"does not divide the last extent");
	refused("Attention", "1 2|1 2|1 2", "", "rank 3");
	refused("Attention", "1 3 2 2|1 2 2 2|1 2 2 2", "", "does not divide that of its queries");
	refused("Attention", "1 1 2 2|1 1 2 2|1 1 2 2|-|1 1 1 2", "", "both absent");
	refused("Attention", "1 1 2 2|1 1 2 3|1 1 2 2", "", "MatMul");
	refused("Attention", "1 1 2 2|1 1 2 2|1 1 2 2", "qk_matmul_output_mode=4", "not 0 to 3");
	refused("Attention", "1 1 2 2|1 1 2 2|1 1 2 2", "causal=1", "attribute 'causal'");
	refused("Attention", "1 1 99999 1|1 1 99999 1|1 1 99999 1", "is_causal=1", "too large");
	refused("Attention", "1 1 0 0|1 1 268435456 0|1 1 268435456 0|-|-|-|i1", "", "too large");
	refused("Attention", "i1 1 2 2|i1 1 2 2|i1 1 2 2", "", "of type i64");
	refused("Attention", "1 1 2 2|1 1 2 2|1 1 2 2|-|-|-|i2", "", "the batch's size");
	refused("Attention", "1 1 2 2|1 1 2 2|1 1 2 2|-|1 1 1 2|1 1 1 2|i1", "", "both nonpad_kv_seqlen");
	refused("Attention", "1 1 2 2|1 1 2 2|1 1 2 2|1 1 1 2 2", "", "rank above 4");
	refused("RotaryEmbedding", "1 1 2 2|1 2 2|1 2 2", "", "do not fit");
	refused("RotaryEmbedding", "1 1 2 2|1 2 1|1 1 2", "", "do not fit");
	refused("RotaryEmbedding", "2 1 3 2|3 2 1|3 2 1", "", "do not fit");
	refused("RotaryEmbedding", "1 1 2 4|5 1|5 1|i1 2", "", "do not fit");
	refused("RotaryEmbedding", "2 1 3 2|5 1|5 1|i3 2", "", "do not fit");
	refused("RotaryEmbedding", "1 1 2 3|1 2 1|1 2 1", "", "not an even number");
	refused("RotaryEmbedding", "1 2 4|1 2 1|1 2 1", "num_heads=3", "num_heads does not divide");
	refused("RotaryEmbedding", "1 1 2 2|2 1|2 1", "", "not of rank 2");
	refused("DFT", "2 3", "", "1 or 2 parts");
	refused("DFT", "1 2 1|1", "", "length");
	refused("DFT", "90000 1", "", "too large");
	refused("DFT", "i4 1", "", "of type i64");
	refused("STFT", "i1 2 1|i1", "", "of type i64");
	refused("DFT", "4 2", "inverse=1 onesided=1", "not supported");
	refused("STFT", "1 2 1|1", "", "frame_step");
	refused("MeanVarianceNormalization", "2 2", "", "axis");
}

TEST(more_axes_than_a_tensor_has)
{
	struct call c = {.n = 0};
	struct graph *g;
	mk_start(&c.k, 13, 8);
	add_input(&c, true, DT_F32, 2, (int64_t[]){2, 2});
	mk_attr_ints(&c.k, mk_node(&c.k, "MeanVarianceNormalization", c.in, "y"), "axes", 9,
		     (int64_t[]){0, 1, 0, 1, 0, 1, 0, 1, 0});
	mk_output(&c.k, "y");
	CHECK_FAILS(mk_import(&c.k, NULL, &none, &g), E_CORRUPT, "too many axes");
	arena_free(&c.a);
}

TEST(operators_of_later_opsets)
{
	static const char *const rows[][2] = {{"Attention", "opset 23 or later"},
					      {"RotaryEmbedding", "opset 23 or later"},
					      {"DFT", "opset 17 or later"}};
	for (int i = 0; i < 3; i++) {
		struct onnx_maker k;
		struct graph *g;
		mk_start(&k, 16, 8);
		mk_input(&k, "x", 1, "1 2 3");
		mk_node(&k, rows[i][0], "x x x", "y");
		mk_output(&k, "y");
		CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED, rows[i][1]);
	}
}

/* ---- constants that are made ---- */

/* Nodes that need equal masks share one, also when there are others between them. */
TEST(masks_are_shared)
{
	enum { NODES = 12, S = 5, T = 7 };
	for (int lengths = 0; lengths < 2; lengths++) {
		struct onnx_maker k;
		struct graph *g;
		int found = 0;
		mk_start(&k, 25, NODES + 1);
		mk_input(&k, "q", 1, "1 1 5 2");
		mk_input(&k, "k", 1, "1 1 7 2");
		mk_input(&k, "n", 7, "1");
		for (int i = 0; i < NODES; i++) {
			const char *y = arena_printf(&k.a, "y%d", i);
			Onnx__NodeProto *n = mk_node(&k, "Attention", lengths ? "q k k - - - n" : "q k k", y);
			mk_attr_int(&k, n, "is_causal", 1);
			if (i % 2 && !lengths)
				mk_attr_int(&k, n, "left_window_size", 2);
			mk_output(&k, y);
		}
		REQUIRE_OK(mk_import(&k, NULL, &none, &g));
		for (int v = 0; v < g->nvalues; v++)
			found += g->value[v].t.data && g->value[v].producer < 0 &&
				 shape_equal(&g->value[v].t.shape, &(struct shape){2, {S, T}});
		CHECK(found == 2 - lengths);
		graph_free(g);
	}
}

static void make_transforms(struct onnx_maker *k, int n, const char *size)
{
	mk_start(k, 17, 8);
	mk_input(k, "x", 1, arena_printf(&k->a, "1 %s 1", size));
	for (int i = 0; i < n; i++) {
		const char *y = arena_printf(&k->a, "y%d", i);
		mk_attr_int(k, mk_node(k, "DFT", "x", y), "onesided", 1);
		mk_output(k, y);
	}
}

/* All nodes together have one limit, and the making of a constant ends with the time. */
TEST(constants_are_limited)
{
	struct onnx_maker k;
	struct graph *g;
	if (test_share() > 1)
		SKIP("large constants take too long here");
	double begun_s = test_now_s();
	make_transforms(&k, 4, "6000"); /* of 137 MiB each */
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED, "over 384 MiB of made constants");
	double whole_s = test_now_s() - begun_s;
	struct until until = {.clock = &clock_real, .end_ns = clock_now(&clock_real) + 20 * NS_PER_MS};
	make_transforms(&k, 1, "9000"); /* of 309 MiB */
	until_set(&until);
	begun_s = test_now_s();
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_TIMEOUT, "time is over");
	CHECK(test_now_s() - begun_s < whole_s / 2);
	until_set(NULL);
}

TEST_MAIN
