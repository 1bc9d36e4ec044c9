/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces Attention, RotaryEmbedding, MeanVarianceNormalization, DFT and STFT by nodes of simpler operators,
 * as soon as the shapes of their inputs are known. Letters of shapes: b batch, n heads, s positions of
 * queries, t of keys, h size of a head. */
#include "kernels/graph/shapes.h"
#include "kernels/onnx/import_parts.h"
#include "platform/base/until.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	MOST_BYTES = 384 << 20, /* of all constants that are made here for one import */
	MOST_WAVES = 1 << 26,   /* elements that DFT and STFT take */
};

/* Nodes being made. After an error nothing is added, and values are 0. */
struct making {
	struct importer *im;
	struct import_flow *f;
	enum dtype type; /* of the first input */
	int rc;
};

static struct making begin(struct importer *im, struct import_flow *f, int least, int most, int most_out)
{
	struct making m = {im, f, DT_NONE, E_OK};
	if (f->nin < least || f->nin > most || f->nout > most_out)
		m.rc = fail(E_CORRUPT, "%d inputs and %d outputs; it takes %d to %d and has up to %d", f->nin,
			    f->nout, least, most, most_out);
	for (int k = 0; k < least && m.rc >= 0; k++)
		if (f->in[k] < 0)
			m.rc = fail(E_CORRUPT, "input %d is absent", k);
	if (m.rc >= 0)
		m.type = im->g->value[f->in[0]].t.dtype;
	if (m.rc >= 0 && !dtype_in(m.type, DTYPES_FLOAT))
		m.rc = fail(E_CORRUPT, "input 0 of type %s", dtype_name(m.type));
	return m;
}

static int input(const struct making *m, int k)
{
	return m->rc >= 0 && k < m->f->nin ? m->f->in[k] : -1;
}

/* Returns the shape of input k; an absent input has rank 0. It is valid until a value is added. */
static const struct shape *shape_of(const struct making *m, int k)
{
	static const struct shape none;
	int v = input(m, k);
	return v < 0 ? &none : &m->im->g->value[v].t.shape;
}

static int64_t number(const struct making *m, const char *name, int64_t fallback)
{
	const Onnx__AttributeProto *a = flow_attr(m->f, name);
	return a && a->has_i ? a->i : fallback;
}

static void refuse(struct making *m, const char *why)
{
	if (m->rc >= 0)
		m->rc = fail(E_CORRUPT, "%s", why);
}

static int add_with(struct making *m, const char *type, int nin, const int *in, const struct attr *attr)
{
	char name[256];
	if (m->rc >= 0)
		m->rc = flow_count(m->im, m->f->scope, 1);
	if (m->rc < 0)
		return 0;
	snprintf(name, sizeof name, "%.200s.%d", m->f->name, ++m->im->last_id);
	int v = graph_add_value(m->im->g, name);
	m->rc = v < 0 ? v : flow_node(m->im, type, m->f->name, nin, in, v, attr != NULL, attr);
	return m->rc < 0 ? 0 : v;
}

static int one(struct making *m, const char *type, int a)
{
	return add_with(m, type, 1, &a, NULL);
}

static int two(struct making *m, const char *type, int a, int b)
{
	return add_with(m, type, 2, (int[]){a, b}, NULL);
}

static int ints(struct making *m, int n, const int64_t *d)
{
	int v = m->rc < 0 ? m->rc : flow_ints(m->im, m->f->name, n, d);
	m->rc = v < 0 ? v : m->rc;
	return v < 0 ? 0 : v;
}

typedef double element(const void *of, int64_t i);

/* A tensor whose element i is at(of, i). It counts against MOST_BYTES, and filling it ends with the time. */
static struct tensor filled(struct making *m, struct arena *a, struct shape s, enum dtype type, element *at,
			    const void *of)
{
	struct tensor t = {DT_NONE};
	int64_t next = 0, left = MOST_BYTES - m->im->made_bytes;
	if (m->rc < 0)
		return t;
	if (shape_check(&s, left / (int64_t)dtype_bytes(type)) < 0)
		m->rc = fail(E_UNSUPPORTED, "too large: over %d MiB of made constants", MOST_BYTES >> 20);
	else
		m->rc = tensor_alloc(a, type, &s, &t);
	if (m->rc < 0)
		return t;
	m->im->made_bytes += shape_count(&s) * (int64_t)dtype_bytes(type);
	for (int64_t i = 0; i < shape_count(&s) && !until_over_at(i, &next); i++)
		tensor_set(&t, i, at(of, i));
	m->rc = until_check();
	return t;
}

static int made(struct making *m, struct shape s, enum dtype type, element *at, const void *of)
{
	int v = ints(m, 0, &(int64_t){0});
	struct tensor t = filled(m, &m->im->g->arena, s, type, at, of);
	if (m->rc < 0)
		return 0;
	m->im->g->value[v].t = t;
	return v;
}

static double same(const void *of, int64_t i)
{
	(void)i;
	return *(const double *)of;
}

static int scalar(struct making *m, double x)
{
	return made(m, (struct shape){0}, m->type, same, &x);
}

static int reshape(struct making *m, int v, int rank, const int64_t *d)
{
	return two(m, "Reshape", v, ints(m, rank, d));
}

static int reshape4(struct making *m, int v, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return reshape(m, v, 4, (int64_t[]){a, b, c, d});
}

static int transpose(struct making *m, int v, int rank, const int64_t *perm)
{
	const struct attr attr = {.name = "perm", .kind = ATTR_INTS, .n = rank, .ints = perm};
	return add_with(m, "Transpose", 1, &v, &attr);
}

static int join(struct making *m, int a, int b, int axis)
{
	const struct attr attr = {.name = "axis", .kind = ATTR_INT, .i = axis};
	return add_with(m, "Concat", 2, (int[]){a, b}, &attr);
}

static int slice(struct making *m, int v, int64_t from, int64_t to, int64_t axis)
{
	return add_with(m, "Slice", 4, (int[]){v, ints(m, 1, &from), ints(m, 1, &to), ints(m, 1, &axis)},
			NULL);
}

static int end(struct making *m, int k, int v)
{
	if (m->rc >= 0 && k < m->f->nout && m->f->out[k] >= 0)
		m->rc = flow_node(m->im, "Identity", m->f->name, 1, &v, m->f->out[k], 0, NULL);
	return m->rc < 0 ? m->rc : FLOW_DONE;
}

/* ---- Attention ---- */

static const int64_t swapped[4] = {0, 2, 1, 3}, turned[4] = {0, 1, 3, 2};

/* Input k as [b][n][positions][h]; *s is its shape so. */
static int heads_of(struct making *m, int k, const char *count, struct shape *s)
{
	*s = *shape_of(m, k);
	if (s->rank != shape_of(m, 0)->rank || s->rank < 3 || s->rank > 4)
		refuse(m, "its first inputs are not all of rank 3, or all of rank 4");
	if (m->rc < 0 || s->rank == 4)
		return input(m, k);
	int64_t n = number(m, count, 0);
	if (n < 1 || s->d[2] % n)
		refuse(m, "q_num_heads or kv_num_heads does not divide the last extent of its inputs");
	if (m->rc < 0)
		return 0;
	*s = (struct shape){4, {s->d[0], n, s->d[1], s->d[2] / n}};
	return transpose(m, reshape4(m, input(m, k), s->d[0], s->d[2], n, s->d[3]), 4, swapped);
}

/* 0 where a query may see a key, else minus infinity: added to the scores. */
static int bias_where(struct making *m, int may)
{
	return add_with(m, "Where", 3, (int[]){may, scalar(m, 0), scalar(m, -INFINITY)}, NULL);
}

static void add_bias(struct making *m, int *bias, int more)
{
	*bias = *bias < 0 ? more : two(m, "Add", *bias, more);
}

/* The mask of the input, whose last extent may be smaller than t. */
static void add_mask(struct making *m, int *bias, int64_t t)
{
	int v = input(m, 3);
	int rank = shape_of(m, 3)->rank;
	int64_t pads[2 * MAX_RANK] = {0}, last = rank ? shape_of(m, 3)->d[rank - 1] : t;
	if (v < 0)
		return;
	if (m->im->g->value[v].t.dtype == DT_BOOL)
		v = bias_where(m, v);
	if (last < t) {
		pads[2 * rank - 1] = t - last;
		v = add_with(m, "Pad", 3, (int[]){v, ints(m, 2 * rank, pads), scalar(m, -INFINITY)}, NULL);
	}
	add_bias(m, bias, v);
}

static double distance(const void *of, int64_t i)
{
	const struct import_mask *k = of;
	int64_t far = i % k->t - i / k->t - k->before;
	bool out = (k->right >= 0 && far > k->right) || (k->left >= 0 && -far > k->left);
	return k->type == DT_I64 ? (double)far : out ? -INFINITY : 0;
}

/* How far key j is after query i, for all of them, or a mask of those distances. Nodes that need the same one
 * share it. */
static int distances(struct making *m, struct import_mask k)
{
	struct importer *im = m->im;
	for (int i = 0; i < IMPORT_MASKS; i++) {
		k.value = im->mask[i].value;
		if (m->rc >= 0 && !memcmp(&k, &im->mask[i], sizeof k))
			return (int)k.value;
	}
	k.value = made(m, (struct shape){2, {k.s, k.t}}, (enum dtype)k.type, distance, &k);
	if (m->rc >= 0)
		im->mask[im->nmasks++ % IMPORT_MASKS] = k;
	return (int)k.value;
}

/* Query i is at place i + before among the keys. Limits: the keys after it, if causal; those that are further
 * from it than the window's sizes (-1: none). */
static void add_window(struct making *m, int *bias, int64_t s, int64_t t, int64_t before)
{
	bool causal = number(m, "is_causal", 0) != 0;
	int64_t left = number(m, "left_window_size", -1), right = number(m, "right_window_size", -1);
	if (causal || left >= 0 || right >= 0)
		add_bias(
		    m, bias,
		    distances(m, (struct import_mask){s, t, before, left, causal ? 0 : right, m->type, 0}));
}

/* The number of keys of each batch that count; if causal, its queries are the last of them. */
static void add_lengths(struct making *m, int *bias, int64_t s, int64_t t)
{
	if (number(m, "left_window_size", -1) >= 0 || number(m, "right_window_size", -1) >= 0)
		m->rc = fail(E_UNSUPPORTED, "window sizes with nonpad_kv_seqlen are not supported");
	int length = reshape4(m, input(m, 6), shape_of(m, 6)->d[0], 1, 1, 1);
	int key = distances(m, (struct import_mask){1, t, 0, 0, 0, DT_I64, 0});
	add_bias(m, bias, bias_where(m, two(m, "Less", key, length)));
	if (!number(m, "is_causal", 0))
		return;
	int far = distances(m, (struct import_mask){s, t, 0, 0, 0, DT_I64, 0});
	int after = two(m, "Sub", length, ints(m, 1, &s));
	add_bias(m, bias, bias_where(m, two(m, "LessOrEqual", far, after)));
}

/* A query that sees no key gives zeros, not the NaN of Softmax. */
static int without_blind(struct making *m, int scores, int bias)
{
	int most = two(m, "ReduceMax", bias, ints(m, 1, &(int64_t){-1}));
	int blind = two(m, "Equal", most, scalar(m, -INFINITY));
	return add_with(m, "Where", 3, (int[]){blind, scalar(m, 0), scores}, NULL);
}

/* Softmax of the scores [b][n][s][t], with all that may come between; output 3 gets the step that is asked
 * for. */
static int weights_of(struct making *m, int scores, int bias, bool blind)
{
	const Onnx__AttributeProto *cap = flow_attr(m->f, "softcap");
	int64_t mode = number(m, "qk_matmul_output_mode", 0);
	int step[4] = {scores, scores, 0, 0};
	if (cap && cap->has_f && cap->f > 0)
		step[1] = two(m, "Mul", one(m, "Tanh", two(m, "Div", scores, scalar(m, cap->f))),
			      scalar(m, cap->f));
	step[2] = bias < 0 ? step[1] : two(m, "Add", step[1], bias);
	step[3] = one(m, "Softmax", step[2]);
	if (blind)
		step[3] = without_blind(m, step[3], bias);
	if (mode < 0 || mode > 3)
		refuse(m, "qk_matmul_output_mode is not 0 to 3");
	else
		(void)end(m, 3, step[mode]);
	return step[3];
}

static int attention(struct importer *im, struct import_flow *f, int *wait)
{
	struct making m = begin(im, f, 3, 7, 4);
	struct shape qs, ks, vs;
	int q = heads_of(&m, 0, "q_num_heads", &qs), k = heads_of(&m, 1, "kv_num_heads", &ks),
	    v = heads_of(&m, 2, "kv_num_heads", &vs), bias = -1;
	int64_t before = input(&m, 4) < 0 ? 0 : shape_of(&m, 4)->d[2];
	if ((input(&m, 4) < 0) != (input(&m, 5) < 0) || (input(&m, 4) >= 0 && shape_of(&m, 4)->rank != 4))
		refuse(&m, "past_key and past_value are not both absent, or both of rank 4");
	if (m.rc >= 0 && (ks.d[1] < 1 || qs.d[1] % ks.d[1] || vs.d[1] != ks.d[1]))
		refuse(&m, "the number of its keys' heads does not divide that of its queries");
	if (input(&m, 6) >= 0 && !shape_equal(shape_of(&m, 6), &(struct shape){1, {qs.d[0]}}))
		refuse(&m, "nonpad_kv_seqlen is no vector of the batch's size");
	if (input(&m, 6) >= 0 && input(&m, 4) >= 0)
		refuse(&m, "it has both nonpad_kv_seqlen and past_key");
	if (shape_of(&m, 3)->rank > 4)
		refuse(&m, "its mask has a rank above 4");
	if (m.rc < 0)
		return m.rc;
	if (input(&m, 4) >= 0) {
		k = join(&m, input(&m, 4), k, 2);
		v = join(&m, input(&m, 5), v, 2);
	}
	(void)end(&m, 1, k);
	(void)end(&m, 2, v);
	int64_t b = qs.d[0], n = qs.d[1], s = qs.d[2], t = before + ks.d[2], groups = ks.d[1];
	add_mask(&m, &bias, t);
	bool blind = bias >= 0 || input(&m, 6) >= 0 || number(&m, "left_window_size", -1) >= 0 ||
		     number(&m, "right_window_size", -1) >= 0;
	if (input(&m, 6) >= 0)
		add_lengths(&m, &bias, s, t);
	else
		add_window(&m, &bias, s, t, before);
	const Onnx__AttributeProto *scale = flow_attr(f, "scale");
	q = two(&m, "Mul", q, scalar(&m, scale && scale->has_f ? scale->f : 1 / sqrt((double)qs.d[3])));
	bool shared = groups != n; /* heads of queries that share keys are rows of one product */
	int64_t rows = n / groups * s;
	if (shared)
		q = reshape4(&m, q, b, groups, rows, qs.d[3]);
	int p = two(&m, "MatMul", q, transpose(&m, k, 4, turned));
	if (shared)
		p = reshape4(&m, p, b, n, s, t);
	p = weights_of(&m, p, bias, blind);
	if (shared)
		p = reshape4(&m, p, b, groups, rows, t);
	int y = two(&m, "MatMul", p, v);
	if (shared)
		y = reshape4(&m, y, b, n, s, vs.d[3]);
	if (shape_of(&m, 0)->rank == 3)
		y = reshape(&m, transpose(&m, y, 4, swapped), 3, (int64_t[]){b, s, n * vs.d[3]});
	(void)wait;
	return end(&m, 0, y);
}

/* softmax_precision asks for at least f32, which Softmax always has. */
const struct flow_kind flow_attention = {
    "Attention", 23,
    "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale "
    "softcap softmax_precision",
    attention};

/* ---- RotaryEmbedding ---- */

/* The pairs of numbers that are turned are axis `pair` of [b][..][..][..][..], cosines and sines have 1
 * there. */
static int rotary(struct importer *im, struct import_flow *f, int *wait)
{
	struct making m = begin(im, f, 3, 4, 1);
	struct shape x = *shape_of(&m, 0);
	const struct shape *cache = shape_of(&m, 1);
	int v = input(&m, 0), table[2];
	int64_t n = number(&m, "num_heads", 0);
	bool flat = x.rank == 3, pairs = number(&m, "interleaved", 0) != 0, known = input(&m, 3) >= 0;
	(void)wait;
	if (m.rc >= 0 && !flat && x.rank != 4)
		refuse(&m, "its first input is not of rank 3 or 4");
	if (m.rc >= 0 && flat && (n < 1 || x.d[2] % n))
		refuse(&m, "num_heads does not divide the last extent of its first input");
	if (m.rc >= 0 && (cache->rank != (known ? 2 : 3) || shape_of(&m, 2)->rank != cache->rank))
		refuse(&m, "cos_cache and sin_cache are not of rank 2 with position_ids, or else 3");
	if (m.rc < 0)
		return m.rc;
	if (flat)
		x = (struct shape){4, {x.d[0], x.d[1], n, x.d[2] / n}};
	int64_t size = x.d[3], part = number(&m, "rotary_embedding_dim", 0), half;
	part = part ? part : size;
	half = part / 2;
	if (part < 2 || part % 2 || part > size)
		refuse(&m, "rotary_embedding_dim is not an even number within the size of a head");
	struct shape places = {2, {x.d[0], x.d[flat ? 1 : 2]}}, fit = {3, {places.d[0], places.d[1], half}};
	if (known)
		fit = (struct shape){2, {cache->d[0], half}};
	if (!shape_equal(cache, &fit) || !shape_equal(shape_of(&m, 2), &fit) ||
	    (known && !shape_equal(shape_of(&m, 3), &places)))
		refuse(&m, "its caches or position_ids do not fit its first input");
	if (flat)
		v = reshape(&m, v, 4, x.d);
	int pair = pairs ? 4 : 3, rest = part < size ? slice(&m, v, part, size, 3) : -1;
	int64_t turn[5] = {x.d[0], x.d[1], x.d[2], half, half}, angle[5];
	turn[pair] = 2;
	memcpy(angle, turn, sizeof angle);
	angle[pair] = angle[flat ? 2 : 1] = 1;
	for (int k = 0; k < 2; k++) {
		table[k] = input(&m, 1 + k);
		if (known)
			table[k] = two(&m, "Gather", table[k], input(&m, 3));
		table[k] = reshape(&m, table[k], 5, angle);
	}
	v = reshape(&m, rest >= 0 ? slice(&m, v, 0, part, 3) : v, 5, turn);
	int a = slice(&m, v, 0, 1, pair), b = slice(&m, v, 1, 2, pair);
	int real = two(&m, "Sub", two(&m, "Mul", a, table[0]), two(&m, "Mul", b, table[1]));
	int other = two(&m, "Add", two(&m, "Mul", a, table[1]), two(&m, "Mul", b, table[0]));
	v = reshape4(&m, join(&m, real, other, pair), x.d[0], x.d[1], x.d[2], part);
	v = rest >= 0 ? join(&m, v, rest, 3) : v;
	return end(&m, 0, flat ? reshape(&m, v, 3, (int64_t[]){x.d[0], x.d[1], n * size}) : v);
}

const struct flow_kind flow_rotary = {"RotaryEmbedding", 23, "interleaved num_heads rotary_embedding_dim",
				      rotary};

/* ---- MeanVarianceNormalization ---- */

static int mean(struct making *m, int v, int n, const int64_t *axes)
{
	const struct attr attr = {.name = "axes", .kind = ATTR_INTS, .n = n, .ints = axes};
	return m->im->opset < 18 ? add_with(m, "ReduceMean", 1, &v, &attr)
				 : two(m, "ReduceMean", v, ints(m, n, axes));
}

static int normalise(struct importer *im, struct import_flow *f, int *wait)
{
	static const int64_t usual[] = {0, 2, 3};
	struct making m = begin(im, f, 1, 1, 1);
	const Onnx__AttributeProto *a = flow_attr(f, "axes");
	const int64_t *axes = a && a->n_ints ? a->ints : usual;
	int n = a && a->n_ints && a->n_ints <= MAX_RANK ? (int)a->n_ints : 3, x = input(&m, 0);
	(void)wait;
	if (a && a->n_ints > MAX_RANK)
		refuse(&m, "too many axes");
	int d = m.rc < 0 ? 0 : two(&m, "Sub", x, mean(&m, x, n, axes));
	int deviation = one(&m, "Sqrt", mean(&m, two(&m, "Mul", d, d), n, axes));
	return end(&m, 0, two(&m, "Div", d, two(&m, "Add", deviation, scalar(&m, 1e-9))));
}

const struct flow_kind flow_normalise = {"MeanVarianceNormalization", 9, "axes", normalise};

/* ---- DFT, STFT: products with a constant. Part 0 of a number is real, part 1 imaginary. ---- */

/* The constant that makes `bins` frequencies of n elements. */
struct waves {
	int64_t n, bins;
	int parts; /* of an element: 1 if all are real */
	bool inverse;
	struct tensor circle; /* cosine and sine of each n-th of it */
	struct tensor window; /* without data: none */
};

/* The factor by which part q of element p adds to part z of frequency k. */
static double wave(const struct waves *w, int64_t p, int64_t q, int64_t k, int64_t z)
{
	double f = tensor_get(&w->circle, p * k % w->n * 2 + (q != z));
	return q == z || (z == 1) == w->inverse ? f : -f;
}

static double circle_at(const void *of, int64_t i)
{
	const struct waves *w = of;
	double n = (double)w->n, angle = 2 * M_PI * (double)(i / 2) / n;
	return (i % 2 ? sin(angle) : cos(angle)) / (w->inverse ? n : 1);
}

static double dft_at(const void *of, int64_t i)
{
	const struct waves *w = of;
	int64_t column = i % (2 * w->bins), row = i / (2 * w->bins);
	return wave(w, row / w->parts, row % w->parts, column / 2, column % 2);
}

static double stft_at(const void *of, int64_t i)
{
	const struct waves *w = of;
	int64_t p = i % w->n, q = i / w->n % w->parts, k = i / w->n / w->parts;
	return wave(w, p, q, k / 2, k % 2) * (w->window.data ? tensor_get(&w->window, p) : 1);
}

/* Reads input k, an integer, if it is there. */
static void read_int(struct making *m, int k, const char *what, int64_t *out)
{
	int v = input(m, k);
	if (v >= 0)
		m->rc =
		    flow_scalar(m->im, v, m->im->g->value[v].t.dtype == DT_I32 ? DT_I32 : DT_I64, what, out);
}

/* Reads input k, the number of elements; it is `fallback` if it is absent. */
static void read_waves(struct making *m, int k, int64_t fallback, int64_t parts, bool half, struct waves *w)
{
	*w = (struct waves){.n = fallback, .parts = (int)parts, .inverse = number(m, "inverse", 0) != 0};
	read_int(m, k, "length", &w->n);
	if (parts < 1 || parts > 2 || w->n < 1 || w->n > MOST_WAVES)
		refuse(m, "it is not of numbers with 1 or 2 parts, or its length is below 1 or too large");
	if (m->rc >= 0 && half && w->inverse)
		m->rc = fail(E_UNSUPPORTED, "onesided with inverse is not supported");
	if (m->rc < 0)
		return;
	w->bins = half ? w->n / 2 + 1 : w->n;
	w->circle = filled(m, &m->im->scratch, (struct shape){1, {2 * w->n}}, DT_F64, circle_at, w);
}

static int dft(struct importer *im, struct import_flow *f, int *wait)
{
	bool attribute = im->opset < 20;
	struct making m = begin(im, f, 1, attribute ? 2 : 3, 1);
	struct shape x = *shape_of(&m, 0);
	int64_t axis = number(&m, "axis", attribute ? 1 : -2), perm[MAX_RANK], rows = 1;
	struct waves w;
	(void)wait;
	if (!attribute)
		read_int(&m, 2, "axis", &axis);
	axis += axis < 0 ? x.rank : 0;
	if (x.rank < 2 || axis < 0 || axis > x.rank - 2)
		refuse(&m, "its axis is none of its input's, or the last, which is of parts");
	if (m.rc < 0)
		return m.rc;
	int last = x.rank - 1;
	read_waves(&m, 1, x.d[axis], x.d[last], number(&m, "onesided", 0) != 0, &w);
	if (m.rc < 0)
		return m.rc;
	int v = x.d[axis] > w.n ? slice(&m, input(&m, 0), 0, w.n, axis) : input(&m, 0);
	x.d[axis] = x.d[axis] > w.n ? w.n : x.d[axis];
	for (int i = 0; i <= last; i++)
		perm[i] = i;
	perm[axis] = last - 1; /* the axis and the last but one change places */
	perm[last - 1] = axis;
	v = transpose(&m, v, x.rank, perm);
	int64_t n = x.d[axis] * w.parts, columns = w.bins * 2;
	x.d[axis] = x.d[last - 1];
	for (int i = 0; i < last - 1; i++)
		rows *= x.d[i];
	int table = made(&m, (struct shape){2, {n, columns}}, m.type, dft_at, &w);
	v = two(&m, "MatMul", reshape(&m, v, 2, (int64_t[]){rows, n}), table);
	x.d[last - 1] = w.bins;
	x.d[last] = 2;
	return end(&m, 0, transpose(&m, reshape(&m, v, x.rank, x.d), x.rank, perm));
}

const struct flow_kind flow_dft = {"DFT", 17, "axis inverse onesided", dft};

/* A Conv over the signal, whose filters are waves times the window. */
static int stft(struct importer *im, struct import_flow *f, int *wait)
{
	struct making m = begin(im, f, 2, 4, 1);
	struct shape x = *shape_of(&m, 0);
	int64_t step = 1, parts = x.rank == 3 ? x.d[2] : 1;
	int window = input(&m, 2);
	struct waves w;
	(void)wait;
	if (x.rank < 2 || x.rank > 3)
		refuse(&m, "its signal is not of rank 2 or 3");
	read_int(&m, 1, "frame_step", &step);
	read_waves(&m, 3, window >= 0 ? shape_count(shape_of(&m, 2)) : x.d[1], parts,
		   number(&m, "onesided", 1) != 0, &w);
	if (step < 1 || (window >= 0 && shape_count(shape_of(&m, 2)) != w.n) || x.d[1] < w.n)
		refuse(&m, "its frames do not fit its signal or its window, or frame_step is below 1");
	if (window >= 0)
		w.window = im->g->value[window].t;
	if (m.rc >= 0 && window >= 0 && !w.window.data)
		m.rc = fail(E_UNSUPPORTED, "its window needs a constant");
	if (m.rc < 0)
		return m.rc;
	int filter = made(&m, (struct shape){3, {w.bins * 2, parts, w.n}}, m.type, stft_at, &w);
	const struct attr strides = {.name = "strides", .kind = ATTR_INTS, .n = 1, .ints = &step};
	int v = reshape(&m, input(&m, 0), 3, (int64_t[]){x.d[0], x.d[1], parts});
	v = transpose(&m, v, 3, (int64_t[]){0, 2, 1});
	v = add_with(&m, "Conv", 2, (int[]){v, filter}, &strides);
	v = reshape4(&m, v, x.d[0], w.bins, 2, m.rc < 0 ? 0 : (x.d[1] - w.n) / step + 1);
	return end(&m, 0, transpose(&m, v, 4, (int64_t[]){0, 3, 1, 2}));
}

const struct flow_kind flow_stft = {"STFT", 17, "onesided", stft};
