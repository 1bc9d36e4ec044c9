/* SPDX-License-Identifier: Apache-2.0 */
/* ConvTranspose as a gather. Along a dim with stride s, output y uses the taps r with r = y + pad (mod s), at
 * input (y + pad - r) / s. The weights are regrouped by phase, y mod s: made[0] is [c][phases][taps per
 * phase][k], zero where a phase has fewer taps, so that all phases share one loop nest. If s divides the
 * output, phases are separate axes and the weights can be packed; else the phase is computed as a
 * remainder. */
#include "kernels/graph/geometry.h"
#include "kernels/graph/structure.h"

#include <string.h>

struct deconv {
	const struct opctx *c;
	struct filter_window w;
	int n, first;                   /* spatial dims; index of the first of them in w */
	int64_t taps[3];                /* per phase */
	bool split[3];                  /* the phases are an axis */
	int pixel[3], phase[3], tap[3]; /* axis numbers */
};

static const char *const pixel_names[] = {"z", "y", "x"}, *const phase_names[] = {"zp", "yp", "xp"},
			 *const tap_names[] = {"q", "r", "s"};

static int regroup(const struct deconv *d)
{
	const struct tensor *from = &d->c->in[1];
	struct tensor *to = &d->c->made[0];
	const struct filter_window *w = &d->w;
	struct shape dims = {2 * d->n + 2, {from->shape.d[0]}};
	for (int i = 0; i < d->n; i++) {
		dims.d[1 + i] = w->stride[d->first + i];
		dims.d[1 + d->n + i] = d->taps[d->first + i];
	}
	int64_t k = dims.d[2 * d->n + 1] = from->shape.d[1], rows, at[MAX_RANK] = {0};
	int rc = shape_check(&dims, INT32_MAX);
	if (rc < 0 || (rc = tensor_alloc(d->c->arena, DT_F32, &dims, to)) < 0)
		return rc;
	rows = shape_count(&dims) / k;
	for (int64_t i = 0; i < rows; i++) {
		int64_t tap = 0;
		bool there = true;
		for (int e = 0; e < d->n; e++) {
			int f = d->first + e;
			int64_t s = w->stride[f], r = at[1 + d->n + e] * s + (at[1 + e] + w->begin[f]) % s;
			there &= r < w->kernel[f];
			tap = tap * w->kernel[f] + r;
		}
		for (int64_t j = 0; there && j < k; j++)
			((float *)to->data)[i * k + j] =
			    ((const float *)from->data)[(at[0] * k + j) * span3(w->kernel) + tap];
		for (int e = 2 * d->n; e >= 0 && ++at[e] == dims.d[e]; e--)
			at[e] = 0;
	}
	return E_OK;
}

static int open(struct deconv *d, const struct opctx *c)
{
	memset(d, 0, sizeof *d);
	d->c = c;
	int rc = deconv_window(c, &c->in[0].shape, &c->in[1].shape, &d->w);
	if (rc < 0)
		return fail_in(E_UNSUPPORTED, "ConvTranspose");
	d->n = d->w.rank;
	d->first = 3 - d->n;
	for (int i = d->first; i < 3; i++) {
		int64_t s = d->w.stride[i];
		if (s > 1 && d->w.dilation[i] > 1)
			return fail(E_UNSUPPORTED, "ConvTranspose with stride and dilation");
		d->taps[i] = (d->w.kernel[i] + s - 1) / s;
		d->split[i] = s > 1 && d->w.out[i] % s == 0;
	}
	if (!c->in[1].data || c->in[1].dtype != DT_F32)
		return fail(E_UNSUPPORTED, "ConvTranspose by computed weights");
	return E_OK;
}

static void axes(struct deconv *d, struct stage *s)
{
	for (int i = d->first; i < 3; i++)
		d->phase[i] =
		    d->split[i] ? structure_axis(s, phase_names[i], AXIS_SPATIAL, d->w.stride[i]) : -1;
	for (int i = d->first; i < 3; i++)
		d->pixel[i] = structure_axis(s, pixel_names[i], AXIS_SPATIAL,
					     d->w.out[i] / (d->split[i] ? d->w.stride[i] : 1));
}

/* Sets the indexes for dim i of the input, of the phase and the tap in the weights, and of the output. */
static void index_dim(const struct deconv *d, int i, struct index *x, struct index *phase, struct index *tap,
		      struct index *y)
{
	int64_t s = d->w.stride[i], step = d->split[i] ? s : 1;
	y->coef[d->pixel[i]] = step;
	if (d->split[i])
		y->coef[d->phase[i]] = 1;
	*phase = *y;
	if (d->split[i])
		phase->coef[d->pixel[i]] = 0;
	else if (s > 1)
		phase->mod = s;
	else
		phase->coef[d->pixel[i]] = 0;
	tap->coef[d->tap[i]] = 1;
	*x = *y;
	x->off = d->w.begin[i];
	x->coef[d->tap[i]] = -(s > 1 ? s : d->w.dilation[i]);
	x->div = s > 1 ? s : 0;
	if (d->split[i] && d->w.begin[i] % s == 0) { /* the phase never carries into the pixel */
		x->off /= s;
		x->coef[d->pixel[i]] = 1;
		x->coef[d->phase[i]] = 0;
		x->coef[d->tap[i]] = -1;
		x->div = 0;
	}
}

/* Axes n [g] k phases pixels | [c] taps. Depthwise: the channel axis is k. */
int structure_deconv(const struct opctx *c, struct task *t)
{
	struct deconv d;
	int ix, iw, ib = -1, iy, rc = open(&d, c);
	int64_t group = conv_group(c), channels = c->in[0].shape.d[1] / group, filters = c->in[1].shape.d[1];
	if (rc < 0 || (rc = structure_operand(t, c, 'i', 0, &ix)) < 0 || (rc = regroup(&d)) < 0 ||
	    (rc = structure_operand(t, c, 'm', 0, &iw)) < 0)
		return rc;
	if (c->nin > 2 && c->in[2].dtype != DT_NONE && (rc = structure_operand(t, c, 'i', 2, &ib)) < 0)
		return rc;
	if ((rc = structure_operand(t, c, 'o', 0, &iy)) < 0)
		return rc;
	bool depthwise = group > 1 && channels == 1 && filters == 1, grouped = group > 1 && !depthwise;
	struct stage *s = structure_stage(t);
	int an = structure_axis(s, "n", AXIS_SPATIAL, c->out[0].shape.d[0]);
	int ag = grouped ? structure_axis(s, "g", AXIS_SPATIAL, group) : -1;
	int ak = structure_axis(s, "k", AXIS_SPATIAL, depthwise ? group : filters);
	axes(&d, s);
	int ac = depthwise ? -1 : structure_axis(s, "c", AXIS_REDUCTION, channels);
	for (int i = d.first; i < 3; i++)
		d.tap[i] = structure_axis(s, tap_names[i], AXIS_REDUCTION, d.taps[i]);
	structure_out(t, s, iy);
	memset(s->out.dim[0].coef, 0, sizeof s->out.dim[0].coef * MAX_RANK);
	for (int i = 0; i < MAX_RANK; i++)
		s->out.dim[i] = (struct index){.table = -1};
	struct read *x = structure_read(s, ix), *w = structure_read(s, iw), *y = &s->out;
	x->dim[0].coef[an] = y->dim[0].coef[an] = 1;
	y->dim[1].coef[ak] = x->dim[1].coef[depthwise ? ak : ac] = w->dim[0].coef[depthwise ? ak : ac] = 1;
	if (grouped) {
		y->dim[1].coef[ag] = filters;
		x->dim[1].coef[ag] = w->dim[0].coef[ag] = channels;
	}
	for (int i = 0; i < d.n; i++)
		index_dim(&d, d.first + i, &x->dim[2 + i], &w->dim[1 + i], &w->dim[1 + d.n + i],
			  &y->dim[2 + i]);
	if (!depthwise)
		w->dim[2 * d.n + 1].coef[ak] = 1;
	prog_text(&s->body, c->node, "r0 r1 mul");
	s->comb = COMB_SUM;
	if (ib >= 0) {
		structure_read(s, ib)->dim[0] = y->dim[1];
		prog_text(&s->post, c->node, "acc r2 add");
	}
	return E_OK;
}
