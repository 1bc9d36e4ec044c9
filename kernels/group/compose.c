/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/compose.h"

#include <string.h>

static bool affine(const struct index *x)
{
	return x->div <= 1 && x->mod <= 1 && x->table < 0;
}

bool read_through(const struct stage *map, const struct read *inner, const struct read *outer,
		  struct read *out)
{
	struct read r = {.operand = inner->operand};
	for (int e = 0; e < MAX_RANK; e++) {
		const struct index *from = &inner->dim[e];
		struct index *x = &r.dim[e];
		x->table = -1;
		x->off = from->off;
		if (!affine(from))
			return false;
		for (int a = 0; a < map->naxes; a++) { /* replace axis a by outer's index of dim a */
			int64_t c = from->coef[a];
			if (!c)
				continue;
			if (a >= MAX_RANK || !affine(&outer->dim[a]))
				return false;
			x->off += c * outer->dim[a].off;
			for (int b = 0; b < MAX_AXES; b++)
				x->coef[b] += c * outer->dim[a].coef[b];
		}
	}
	*out = r;
	return true;
}

/* The linear position of what r reads, as an index of one dim. Axes of extent 1 are ignored. */
static bool position(const struct stage *s, const struct read *r, const struct shape *dims, struct index *out)
{
	int64_t stride = 1;
	*out = (struct index){.table = -1};
	for (int d = dims->rank - 1; d >= 0; stride *= dims->d[d--]) {
		if (!affine(&r->dim[d]))
			return false;
		out->off += r->dim[d].off * stride;
		for (int a = 0; a < s->naxes; a++)
			out->coef[a] += s->axis[a].extent > 1 ? r->dim[d].coef[a] * stride : 0;
	}
	return true;
}

/* Moves whole multiples of stride from x to dim. False: the remainder can reach the next multiple. */
static bool take_dim(const struct stage *s, struct index *x, int64_t stride, struct index *dim)
{
	int64_t most = x->off % stride;
	dim->off = x->off / stride;
	x->off = most;
	for (int a = 0; a < s->naxes; a++) {
		if (x->coef[a] < 0 || (x->coef[a] > stride && x->coef[a] % stride))
			return false;
		dim->coef[a] = x->coef[a] / stride;
		x->coef[a] %= stride;
		most += x->coef[a] * (s->axis[a].extent - 1);
	}
	return most < stride;
}

bool read_reshaped(const struct stage *s, const struct read *r, const struct shape *now,
		   const struct shape *was, struct read *out)
{
	struct read found = {.operand = r->operand};
	struct index x;
	int64_t stride = shape_count(was);
	if (stride < 1 || !position(s, r, now, &x))
		return false;
	for (int d = 0; d < MAX_RANK; d++) {
		found.dim[d].table = -1;
		if (d >= was->rank || was->d[d] == 1)
			continue;
		stride /= was->d[d];
		if (!take_dim(s, &x, stride, &found.dim[d]))
			return false;
	}
	*out = found;
	return true;
}

bool stage_maps(const struct task *t, const struct stage *s)
{
	if (s->comb != COMB_NONE || s->post.n || s->naxes != t->operand[s->out.operand].dims.rank)
		return false;
	for (int d = 0; d < s->naxes; d++) {
		const struct index *x = &s->out.dim[d];
		for (int a = 0; a < MAX_AXES; a++)
			if (x->coef[a] != (a == d))
				return false;
		if (x->off || !affine(x))
			return false;
	}
	return true;
}

/* Replaces read number `read` of p by the program of `map`, whose reads are numbered from there on. */
static bool splice(struct prog *p, int read, const struct stage *map)
{
	struct prog out = {0};
	for (int i = 0; i < p->n; i++) {
		bool here = p->at[i].op == P_READ && p->at[i].arg == read;
		int n = here ? map->body.n : 1;
		if (out.n + n > MAX_PROG)
			return false;
		memcpy(&out.at[out.n], here ? map->body.at : &p->at[i], sizeof *p->at * (size_t)n);
		for (int j = out.n; j < out.n + n; j++) {
			if (out.at[j].op != P_READ)
				continue;
			int by = here ? read : out.at[j].arg > read ? map->nreads - 1 : 0;
			out.at[j].arg = (uint8_t)(out.at[j].arg + by);
		}
		out.n += n;
	}
	*p = out;
	return true;
}

static bool inline_read(struct stage *s, int read, const struct stage *map)
{
	struct read outer = s->read[read];
	int more = map->nreads - 1, tail = s->nreads - read - 1;
	if (s->nreads + more > MAX_READS || !splice(&s->body, read, map) || !splice(&s->post, read, map))
		return false;
	memmove(&s->read[read + map->nreads], &s->read[read + 1], sizeof *s->read * (size_t)tail);
	s->nreads += more;
	for (int i = 0; i < map->nreads; i++)
		if (!read_through(map, &map->read[i], &outer, &s->read[read + i]))
			return false;
	return true;
}

void task_drop_operand(struct task *t, int i)
{
	memmove(&t->operand[i], &t->operand[i + 1], sizeof *t->operand * (size_t)(t->noperands - 1 - i));
	memset(&t->operand[--t->noperands], 0, sizeof *t->operand);
	for (int k = 0; k < t->nstages; k++)
		for (int r = 0; r <= t->stage[k].nreads; r++) {
			struct read *x = r < t->stage[k].nreads ? &t->stage[k].read[r] : &t->stage[k].out;
			x->operand -= x->operand > i;
			for (int d = 0; d < MAX_RANK; d++)
				x->dim[d].table -= x->dim[d].table > i;
		}
}

static void drop_stage(struct task *t, int k)
{
	int tmp = t->stage[k].out.operand;
	memmove(&t->stage[k], &t->stage[k + 1], sizeof *t->stage * (size_t)(t->nstages - 1 - k));
	memset(&t->stage[--t->nstages], 0, sizeof *t->stage);
	task_drop_operand(t, tmp);
}

bool task_inline(struct task *t, int k)
{
	struct task out = *t;
	const struct stage *map = &t->stage[k];
	int tmp = map->out.operand;
	if (t->operand[tmp].role != ROLE_TMP || t->operand[tmp].fill != 0 || !stage_maps(t, map))
		return false;
	for (int s = k + 1; s < t->nstages; s++)
		for (int r = 0; r < out.stage[s].nreads; r++)
			if (out.stage[s].read[r].operand == tmp && !inline_read(&out.stage[s], r, map))
				return false;
	drop_stage(&out, k);
	*t = out;
	return true;
}

/* Whether the program is "a b mul" of two different reads. */
static bool multiplies(const struct prog *p)
{
	return p->n == 3 && p->at[0].op == P_READ && p->at[1].op == P_READ && p->at[2].op == P_MUL &&
	       p->at[0].arg != p->at[1].arg;
}

/* Replaces every "acc" of the program by "acc rK mul". */
static bool scale_sum(struct prog *p, int read)
{
	struct prog out = {0}, in = *p;
	if (!in.n)
		in.at[in.n++].op = P_ACC;
	for (int i = 0; i < in.n; i++) {
		bool acc = in.at[i].op == P_ACC;
		if (out.n + 3 > MAX_PROG)
			return false;
		out.at[out.n++] = in.at[i];
		if (!acc)
			continue;
		out.at[out.n].op = P_READ;
		out.at[out.n++].arg = (uint8_t)read;
		out.at[out.n++].op = P_MUL;
	}
	*p = out;
	return true;
}

int task_delay_factor(struct task *t)
{
	int k = t->nstages - 2;
	if (k < 0)
		return -1;
	struct task out = *t;
	const struct stage *map = &t->stage[k];
	struct stage *s = &out.stage[k + 1];
	struct read outer = s->read[0], *factor = &s->read[s->nreads];
	bool good = s->comb == COMB_SUM && multiplies(&s->body) && s->nreads < MAX_READS &&
		    stage_maps(t, map) && map->nreads == 2 && multiplies(&map->body) &&
		    t->operand[map->out.operand].role == ROLE_TMP && outer.operand == map->out.operand;
	for (int i = 1; i < s->nreads; i++)
		good &= s->read[i].operand != map->out.operand;
	for (int i = 0; good && i < s->post.n; i++)
		good &= s->post.at[i].op != P_READ || s->post.at[i].arg != 0;
	if (!good || !read_through(map, &map->read[0], &outer, &s->read[0]) ||
	    !read_through(map, &map->read[1], &outer, factor) || !scale_sum(&s->post, s->nreads++))
		return -1;
	for (int d = 0; d < MAX_RANK; d++)
		for (int a = 0; a < s->naxes; a++)
			if (factor->dim[d].coef[a] && s->axis[a].kind == AXIS_REDUCTION)
				return -1;
	int tmp = map->out.operand;
	drop_stage(&out, k);
	*t = out;
	return tmp;
}
