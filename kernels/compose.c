/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/compose.h"

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
		for (int a = 0; a < map->naxes; a++) { /* axis a is what outer says of dim a */
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

/* Read number `read` of p gives way to the program of `map`, whose reads begin there. */
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
	if (s->nreads + more > MAX_OPERANDS || !splice(&s->body, read, map) || !splice(&s->post, read, map))
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

bool task_inline(struct task *t, int k)
{
	struct task out = *t;
	const struct stage *map = &t->stage[k];
	int tmp = map->out.operand;
	if (t->operand[tmp].role != ROLE_TMP || !stage_maps(t, map))
		return false;
	for (int s = k + 1; s < t->nstages; s++)
		for (int r = 0; r < out.stage[s].nreads; r++)
			if (out.stage[s].read[r].operand == tmp && !inline_read(&out.stage[s], r, map))
				return false;
	memmove(&out.stage[k], &out.stage[k + 1], sizeof *out.stage * (size_t)(out.nstages - 1 - k));
	memset(&out.stage[--out.nstages], 0, sizeof *out.stage);
	task_drop_operand(&out, tmp);
	*t = out;
	return true;
}
