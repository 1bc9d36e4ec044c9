/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU, LSTM: all directions, both layouts, lengths per sequence, clipping, and the classic activation
 * functions.
 *
 * x [t][n][i] (layout 1: [n][t][i]); W [dirs][gates h][i]; R [dirs][gates h][h]; B [dirs][2 gates h]: of W,
 * then of R. Gates in ONNX order: LSTM i o f c, GRU z r h. y [t][dirs][n][h] (layout 1: [n][t][dirs][h]). */
#include "kernels/graph/shapes.h"
#include "kernels/task/walk.h"

#include <math.h>

enum { K_RNN, K_GRU, K_LSTM };

#define COMMON "activation_alpha activation_beta activations clip direction hidden_size "
static const struct op_row rows[] = {
    {"GRU", 7, 13, 3, 6, 0, 2, K_GRU, COMMON "linear_before_reset"},
    {"GRU", 14, 0, 3, 6, 0, 2, K_GRU, COMMON "linear_before_reset layout"},
    {"LSTM", 7, 13, 3, 8, 0, 3, K_LSTM, COMMON "input_forget"},
    {"LSTM", 14, 0, 3, 8, 0, 3, K_LSTM, COMMON "input_forget layout"},
    {"RNN", 7, 13, 3, 6, 0, 2, K_RNN, COMMON},
    {"RNN", 14, 0, 3, 6, 0, 2, K_RNN, COMMON "layout"},
    {""},
};

enum { MAX_ACTS = 3 };
#define ACTS "Sigmoid Tanh Relu Affine Elu HardSigmoid LeakyRelu ScaledTanh Softplus Softsign ThresholdedRelu"
enum { A_SIGMOID, A_TANH, A_RELU, A_AFFINE, A_ELU, A_HARDSIGMOID, A_LEAKYRELU, A_SCALEDTANH };
enum { A_SOFTPLUS = A_SCALEDTANH + 1, A_SOFTSIGN, A_THRESHOLDEDRELU };

static const struct {
	bool alpha, beta; /* the function takes this parameter from the lists */
	float a, b;       /* defaults if the lists are absent */
} act_params[] = {
    [A_AFFINE] = {true, true, 1, 0},
    [A_ELU] = {true, false, 1, 0},
    [A_HARDSIGMOID] = {true, true, 0.2f, 0.5f},
    [A_LEAKYRELU] = {true, false, 0.01f, 0},
    [A_SCALEDTANH] = {true, true, 1, 1},
    [A_THRESHOLDEDRELU] = {true, false, 1, 0},
};

struct act {
	int fn;
	double a, b;
};

struct cell {
	int kind, gates, nacts, dirs;
	bool batch_first, reset_after, coupled;
	bool backward[2];
	int64_t t, n, i, h;
	double clip; /* 0: none */
	struct act act[2][MAX_ACTS];
};

static double activate(const struct act *f, double x)
{
	switch (f->fn) {
	case A_SIGMOID:
		return 1 / (1 + exp(-x));
	case A_TANH:
		return tanh(x);
	case A_RELU:
		return x > 0 ? x : 0;
	case A_AFFINE:
		return f->a * x + f->b;
	case A_ELU:
		return x < 0 ? f->a * expm1(x) : x;
	case A_HARDSIGMOID:
		return fmax(0, fmin(1, f->a * x + f->b));
	case A_LEAKYRELU:
		return x < 0 ? f->a * x : x;
	case A_SCALEDTANH:
		return f->a * tanh(f->b * x);
	case A_SOFTPLUS:
		return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
	case A_SOFTSIGN:
		return x / (1 + fabs(x));
	default:
		return x > f->a ? x : 0;
	}
}

/* Index of name in ACTS. */
static int act_find(const char *name)
{
	struct attr a = {.name = "activations", .kind = ATTR_STRING, .s = name};
	struct node n = {.nattr = 1, .attr = &a};
	return attr_choice(&(struct opctx){.node = &n}, "activations", ACTS, -1);
}

static int read_acts(const struct opctx *c, struct cell *m)
{
	static const int usual[3][MAX_ACTS] = {
	    [K_RNN] = {A_TANH}, [K_GRU] = {A_SIGMOID, A_TANH}, [K_LSTM] = {A_SIGMOID, A_TANH, A_TANH}};
	const struct attr *names = node_attr(c->node, "activations"),
			  *alpha = node_attr(c->node, "activation_alpha");
	const struct attr *beta = node_attr(c->node, "activation_beta");
	int na = alpha && alpha->kind == ATTR_FLOATS ? alpha->n : 0,
	    nb = beta && beta->kind == ATTR_FLOATS ? beta->n : 0;
	if (names && (names->kind != ATTR_STRINGS || names->n != m->dirs * m->nacts))
		return fail(E_CORRUPT, "activations are not a list of %d names", m->dirs * m->nacts);
	for (int k = 0, ia = 0, ib = 0; k < m->dirs * m->nacts; k++) {
		struct act *f = &m->act[k / m->nacts][k % m->nacts];
		f->fn = names ? act_find(names->strings[k]) : usual[m->kind][k % m->nacts];
		if (f->fn < 0)
			return f->fn;
		f->a = act_params[f->fn].a;
		f->b = act_params[f->fn].b;
		if (act_params[f->fn].alpha && ia < na)
			f->a = alpha->floats[ia++];
		if (act_params[f->fn].beta && ib < nb)
			f->b = beta->floats[ib++];
	}
	return E_OK;
}

/* Checks that input i, if present, has floats of this shape. */
static int need_shape(const struct opctx *c, int i, int rank, const int64_t *d)
{
	if (!in_there(c, i))
		return E_OK;
	struct shape want = {.rank = rank};
	for (int k = 0; k < rank; k++)
		want.d[k] = d[k];
	int rc = in_need(c, i, DTYPES_FLOAT);
	if (rc < 0)
		return rc;
	if (shape_equal(&c->in[i].shape, &want))
		return E_OK;
	char got[160], should[160];
	shape_text(&c->in[i].shape, got);
	shape_text(&want, should);
	return fail(E_CORRUPT, "input %d of shape %s is not %s", i, got, should);
}

static int check_inputs(const struct opctx *c, const struct cell *m)
{
	int64_t d = m->dirs, gh = m->gates * m->h;
	int64_t state[] = {d, m->n, m->h}, first[] = {m->n, d, m->h};
	int rc;
	if ((rc = need_shape(c, 1, 3, (int64_t[]){d, gh, m->i})) < 0 ||
	    (rc = need_shape(c, 2, 3, (int64_t[]){d, gh, m->h})) < 0 ||
	    (rc = need_shape(c, 3, 2, (int64_t[]){d, 2 * gh})) < 0 ||
	    (rc = need_shape(c, 5, 3, m->batch_first ? first : state)) < 0)
		return rc;
	if (m->kind == K_LSTM && ((rc = need_shape(c, 6, 3, m->batch_first ? first : state)) < 0 ||
				  (rc = need_shape(c, 7, 2, (int64_t[]){d, 3 * m->h})) < 0))
		return rc;
	if (!in_there(c, 4))
		return E_OK;
	if ((rc = in_need(c, 4, DTYPES_INDEX)) < 0)
		return rc;
	if (c->in[4].shape.rank != 1 || c->in[4].shape.d[0] != m->n)
		return fail(E_CORRUPT, "sequence_lens is not a vector of %lld", (long long)m->n);
	return E_OK;
}

static int plan(const struct opctx *c, struct cell *m)
{
	int rc, direction = attr_choice(c, "direction", "forward reverse bidirectional", 0);
	if (direction < 0 || (rc = in_need(c, 0, DTYPES_FLOAT)) < 0 ||
	    (rc = in_need(c, 1, DTYPES_FLOAT)) < 0 || (rc = in_need(c, 2, DTYPES_FLOAT)) < 0)
		return direction < 0 ? direction : rc;
	for (int i = 0; i < 3; i++)
		if ((rc = in_need_rank(c, i, 3, 3)) < 0)
			return rc;
	const struct shape *x = &c->in[0].shape;
	*m = (struct cell){.kind = c->code,
			   .gates = c->code == K_RNN   ? 1
				    : c->code == K_GRU ? 3
						       : 4,
			   .nacts = 1 + c->code,
			   .dirs = direction == 2 ? 2 : 1,
			   .backward = {direction == 1, true},
			   .batch_first = node_int(c->node, "layout", 0) != 0,
			   .reset_after = node_int(c->node, "linear_before_reset", 0) != 0,
			   .coupled = node_int(c->node, "input_forget", 0) != 0,
			   .clip = node_float(c->node, "clip", 0),
			   .i = x->d[2],
			   .h = c->in[2].shape.d[2]};
	m->t = x->d[m->batch_first];
	m->n = x->d[!m->batch_first];
	if (node_int(c->node, "hidden_size", m->h) != m->h)
		return fail(E_CORRUPT, "hidden_size is not that of R, %lld", (long long)m->h);
	if ((rc = check_inputs(c, m)) < 0)
		return rc;
	return read_acts(c, m);
}

static int infer(struct opctx *c)
{
	struct cell m;
	int rc = plan(c, &m);
	if (rc < 0)
		return rc;
	struct shape y = {4, {m.t, m.dirs, m.n, m.h}}, state = {3, {m.dirs, m.n, m.h}};
	if (m.batch_first) {
		y = (struct shape){4, {m.n, m.t, m.dirs, m.h}};
		state = (struct shape){3, {m.n, m.dirs, m.h}};
	}
	for (int i = 1; i < (m.kind == K_LSTM ? 3 : 2); i++)
		if ((rc = out_set(c, i, c->in[0].dtype, &state)) < 0)
			return rc;
	return out_set(c, 0, c->in[0].dtype, &y);
}

/* One direction's weights and the state of one sequence, all as doubles. */
struct run {
	double *w, *r, *bw, *br,
	    *p; /* [gates h][i], [gates h][h], [gates h] twice, LSTM's peepholes [3][h] (i o f) */
	double *x, *pre, *rec; /* [i]; [gates h] from the input; [gates h] from the state */
	double *h, *c;         /* [h] */
};

static void affine(int64_t rows_n, int64_t cols, const double *w, const double *x, const double *bias,
		   double *y)
{
	for (int64_t i = 0; i < rows_n; i++) {
		double sum = bias[i];
		for (int64_t j = 0; j < cols; j++)
			sum += w[i * cols + j] * x[j];
		y[i] = sum;
	}
}

static double clipped(const struct cell *m, double v)
{
	if (!(m->clip > 0))
		return v;
	return v > m->clip ? m->clip : v < -m->clip ? -m->clip : v;
}

static void step_rnn(const struct cell *m, const struct act *f, struct run *s)
{
	affine(m->h, m->h, s->r, s->h, s->br, s->rec);
	for (int64_t j = 0; j < m->h; j++)
		s->h[j] = activate(&f[0], clipped(m, s->pre[j] + s->rec[j]));
}

/* reset_after: the reset gate scales R h + b instead of h. */
static void step_gru(const struct cell *m, const struct act *f, struct run *s)
{
	int64_t h = m->h;
	double *z = s->pre, *r = s->pre + h, *n = s->pre + 2 * h;
	affine(3 * h, h, s->r, s->h, s->br, s->rec);
	for (int64_t j = 0; j < 2 * h; j++)
		s->pre[j] = activate(&f[0], clipped(m, s->pre[j] + s->rec[j]));
	if (!m->reset_after) {
		for (int64_t j = 0; j < h; j++)
			s->c[j] = r[j] * s->h[j];
		affine(h, h, s->r + 2 * h * h, s->c, s->br + 2 * h, s->rec + 2 * h);
	}
	for (int64_t j = 0; j < h; j++) {
		double rec = s->rec[2 * h + j] * (m->reset_after ? r[j] : 1);
		n[j] = activate(&f[1], clipped(m, n[j] + rec));
	}
	for (int64_t j = 0; j < h; j++)
		s->h[j] = (1 - z[j]) * n[j] + z[j] * s->h[j];
}

static void step_lstm(const struct cell *m, const struct act *f, struct run *s)
{
	int64_t h = m->h;
	affine(4 * h, h, s->r, s->h, s->br, s->rec);
	for (int64_t j = 0; j < 4 * h; j++)
		s->pre[j] += s->rec[j];
	for (int64_t j = 0; j < h; j++) {
		const double *p = s->p + j;
		double in = activate(&f[0], clipped(m, s->pre[j] + p[0] * s->c[j]));
		double forget = activate(&f[0], clipped(m, s->pre[2 * h + j] + p[2 * h] * s->c[j]));
		double fresh = activate(&f[1], clipped(m, s->pre[3 * h + j]));
		double cell = (m->coupled ? 1 - in : forget) * s->c[j] + in * fresh;
		double out = activate(&f[0], clipped(m, s->pre[h + j] + p[h] * cell));
		s->c[j] = cell;
		s->h[j] = out * activate(&f[2], cell);
	}
}

static double *doubles(struct opctx *c, int in, int64_t at, int64_t n)
{
	double *v = arena_try(c->arena, (size_t)n + 1, sizeof *v);
	if (v && in >= 0 && in_there(c, in))
		load_f64(&c->in[in], at, 1, n, v);
	return v;
}

static int run_open(struct opctx *c, const struct cell *m, int d, struct run *s)
{
	int64_t gh = m->gates * m->h;
	s->w = doubles(c, 1, d * gh * m->i, gh * m->i);
	s->r = doubles(c, 2, d * gh * m->h, gh * m->h);
	s->bw = doubles(c, 3, d * 2 * gh, gh);
	s->br = doubles(c, 3, d * 2 * gh + gh, gh);
	s->p = doubles(c, m->kind == K_LSTM ? 7 : -1, d * 3 * m->h, 3 * m->h);
	s->x = doubles(c, -1, 0, m->i);
	s->pre = doubles(c, -1, 0, gh);
	s->rec = doubles(c, -1, 0, gh);
	s->h = doubles(c, -1, 0, m->h);
	s->c = doubles(c, -1, 0, m->h);
	return s->w && s->r && s->bw && s->br && s->p && s->x && s->pre && s->rec && s->h && s->c ? E_OK
												  : E_NOMEM;
}

static int64_t state_at(const struct cell *m, int d, int64_t n)
{
	return (m->batch_first ? n * m->dirs + d : d * m->n + n) * m->h;
}

static int64_t y_at(const struct cell *m, int d, int64_t t, int64_t n)
{
	return (m->batch_first ? (n * m->t + t) * m->dirs + d : (t * m->dirs + d) * m->n + n) * m->h;
}

static void start_state(const struct opctx *c, const struct cell *m, int d, int64_t n, struct run *s)
{
	double *state[] = {s->h, s->c};
	for (int k = 0; k < 2; k++) {
		int in = 5 + k;
		for (int64_t j = 0; j < m->h; j++)
			state[k][j] = 0;
		if (in_there(c, in) && (k == 0 || m->kind == K_LSTM))
			load_f64(&c->in[in], state_at(m, d, n), 1, m->h, state[k]);
	}
}

/* Computes one sequence in one direction; y past its length stays zero. */
static void sequence(struct opctx *c, const struct cell *m, int d, int64_t n, struct run *s)
{
	static void (*const step[])(const struct cell *, const struct act *, struct run *) = {
	    [K_RNN] = step_rnn, [K_GRU] = step_gru, [K_LSTM] = step_lstm};
	int64_t len = in_there(c, 4) ? tensor_get_i64(&c->in[4], n) : m->t;
	len = len < 0 ? 0 : len > m->t ? m->t : len;
	start_state(c, m, d, n, s);
	for (int64_t k = 0; k < len; k++) {
		int64_t t = m->backward[d] ? len - 1 - k : k;
		load_f64(&c->in[0], (m->batch_first ? n * m->t + t : t * m->n + n) * m->i, 1, m->i, s->x);
		affine(m->gates * m->h, m->i, s->w, s->x, s->bw, s->pre);
		step[m->kind](m, m->act[d], s);
		if (out_wanted(c, 0))
			store_f64(&c->out[0], y_at(m, d, t, n), m->h, s->h);
	}
	if (out_wanted(c, 1))
		store_f64(&c->out[1], state_at(m, d, n), m->h, s->h);
	if (out_wanted(c, 2))
		store_f64(&c->out[2], state_at(m, d, n), m->h, s->c);
}

static int eval(struct opctx *c)
{
	struct cell m;
	struct run s;
	int rc = plan(c, &m);
	for (int d = 0; rc >= 0 && d < m.dirs; d++) {
		if ((rc = run_open(c, &m, d, &s)) < 0)
			return rc;
		for (int64_t n = 0; n < m.n; n++)
			sequence(c, &m, d, n, &s);
	}
	return rc;
}

const struct op op_rnn = {.rows = rows, .infer = infer, .eval = eval};
