/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for chains in a ring of rows. */
#include "kernels/space/frag.h"
#include "kernels/space/share.h"
#include "kernels/space/space_rules.h"

#include <float.h>
#include <math.h>

/* Rows of a step. More rows gain nothing: on MobileNetV2's blocks 7 and 8 rows lose 1 to 3 %. If rows do not
 * need each other, as in attention, they are tiled, so the numbers have many divisors. If a stage copies the
 * input, its rows should be in the L1 for the next stage: 3x3/2 convolutions take 265, 256 and 233 us with 4,
 * 2 and 1 rows in YuNet, 98, 88 and 82 us in VitTrack. */
static const int image_rows[] = {4, 2, 1}, apart_rows[] = {12, 6, 4, 1}, head_rows[] = {8, 4, 1},
		 copied_rows[] = {1};

enum { SHORT_ROWS = 8 };

/* Bytes of all intermediates, kept as rings or as a whole. */
static double scratch(const struct task *t, const struct ring *r, bool whole)
{
	double bytes = 0;
	for (int i = 0; i < t->noperands; i++) {
		const struct operand *o = &t->operand[i];
		int d = r->dim[i];
		if (o->role != ROLE_TMP)
			continue;
		double all = (double)operand_elems(o) * (double)dtype_bytes(o->dtype),
		       rows = d < 0 ? 1 : (double)(o->dims.d[d] + o->layout.lo[d] + o->layout.hi[d]);
		bytes += whole || d < 0 ? all : all / rows * (double)r->held[i];
	}
	return bytes;
}

/* Whether to compute several rows at a time: the rows are short and shared by all stages. In a single row
 * each addition waits for the one before it, and summing a vector of rows takes no longer than summing one
 * (LayerNormalization of 48 and 192 elements: per row, 8 rows at a time take 64 and 68 % of the time of
 * single rows, 16 rows 53 and 60 %). Not if the tensors exceed the L2: the additions of single rows then
 * overlap with memory accesses, and several rows at a time only alternate between reading and writing memory
 * (4x784 rows of 512: 24 % longer). */
static bool short_rows(struct space *s, int rows)
{
	const struct task *t = s->t;
	const struct stage *last = &t->stage[t->nstages - 1];
	int axis = task_shared(t) - 1;
	double l2 = s->tg.l2_bytes ? (double)s->tg.l2_bytes : 1 << 19;
	struct ring r;
	if (axis < 0 || last->axis[axis].extent < 2 * rows || task_bytes(t, false) > l2 ||
	    task_ring(t, axis, rows, &r) < 0 || !ring_apart(t, &r))
		return false;
	for (int k = 0; k < t->nstages; k++) {
		double n = 4;
		for (int a = axis + 1; a < t->stage[k].naxes; a++)
			n *= (double)t->stage[k].axis[a].extent;
		if (r.st[k].axis < 0 || n * rows > (double)s->tg.l1_bytes / 2)
			return false;
	}
	s->ring = r;
	return true;
}

/* Values are read faster in memory order than by columns of a head: 197x3x64 takes 97 % of the time with
 * tiles of 6x4 instead of 12x2, 320x48 93 % with 8x3. */
int rules_head(const struct space *s)
{
	const struct task *t = s->t;
	const struct stage *last = &t->stage[t->nstages - 1];
	int64_t n = last->axis[stage_spatial(last) - 1].extent;
	bool soft = false;
	for (int k = 0; k < t->nstages - 1; k++)
		soft |= stage_long_body(&t->stage[k]);
	if (!soft || last->comb != COMB_SUM || s->tg.regs < 32 || n % s->tg.lanes)
		return 0;
	n /= s->tg.lanes;
	return n == 3 || n == 4 ? (int)n : 0;
}

void rules_ring(struct space *s)
{
	const struct task *t = s->t;
	int last = t->nstages - 1;
	s->ring.rows = 0;
	bool many = s->tg.lanes >= MANY_ROWS && s->tg.regs > MANY_ROWS;
	if (task_vectors(t) || (many && short_rows(s, MANY_ROWS)) || short_rows(s, SHORT_ROWS))
		return;
	for (int a = task_shared(t); a < stage_spatial(&t->stage[last]); a++) {
		struct ring r;
		if (task_ring(t, a, 1, &r) < 0 || scratch(t, &r, false) * 2 > scratch(t, &r, true))
			continue;
		const int *rows = ring_copy(t) >= 0    ? copied_rows
				  : !ring_apart(t, &r) ? image_rows
				  : rules_head(s) == 3 ? head_rows
						       : apart_rows;
		for (int i = 0; i == 0 || rows[i - 1] > 1; i++) {
			if (task_ring(t, a, rows[i], &r) < 0)
				continue;
			s->ring = r;
			if (scratch(t, &r, false) <= (double)s->tg.l2_bytes / 2)
				break;
		}
		return;
	}
}

void rules_init(const struct space *s, struct sched *out)
{
	sched_init(s->t, out);
	if (!s->ring.rows)
		return;
	out->st[s->t->nstages - 1].ring_axis = s->ring.st[s->t->nstages - 1].axis;
	out->st[s->t->nstages - 1].ring = s->ring.rows;
}

int rules_rows(const struct space *s, int stage)
{
	return s->ring.rows ? s->ring.st[stage].axis : -1;
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

int64_t rules_chunk(const struct space *s, const struct sstage *last, int64_t chunks)
{
	int64_t shared = 1; /* parallel indexes of the shared axes, outside of the ring */
	for (int a = 0; a < task_shared(s->t); a++)
		shared *= s->t->stage[0].axis[a].extent;
	chunks = chunks > 1 ? chunks / gcd(chunks, shared) : chunks;
	int64_t rows = s->t->stage[s->t->nstages - 1].axis[last->ring_axis].extent,
		steps = (rows + last->ring - 1) / last->ring,
		chunk = chunks > 1 ? (steps + chunks - 1) / chunks : steps;
	return chunk < steps ? chunk : 0;
}

/* Latency in rows: those that the slowest thread computes of the last stage, plus for each of its chunks the
 * most rows of an earlier stage that the chunk computes although a neighbouring chunk does too. Short steps
 * cost a little more. */
static double chunk_latency(const struct space *s, const struct sstage *last, const struct ring *r,
			    int64_t chunk)
{
	int64_t rows = s->t->stage[s->t->nstages - 1].axis[last->ring_axis].extent,
		steps = (rows + r->rows - 1) / r->rows, chunks = (steps + chunk - 1) / chunk,
		rounds = (chunks + s->want.threads - 1) / s->want.threads;
	double again = 0;
	for (int k = 0; k < s->t->nstages; k++) {
		if (r->st[k].axis < 0)
			continue;
		double more = (double)(r->st[k].hi + 1 - r->st[k].lo - r->st[k].step) / (double)r->st[k].step;
		again = more > again ? more : again;
	}
	return (double)rounds * ((double)(chunk * r->rows) + again) * (1 + .06 / (double)(r->rows * r->rows));
}

void rules_thread_ring(const struct space *s, struct sstage *last)
{
	double best = DBL_MAX;
	for (int rows = s->ring.rows; rows >= 1; rows /= 2) {
		struct sstage c = *last;
		struct ring r;
		c.ring = rows;
		if (task_ring(s->t, c.ring_axis, rows, &r) < 0)
			continue;
		for (int n = 1; n <= 2; n++) {
			int64_t chunk = c.block[c.ring_axis] =
			    rules_chunk(s, &c, (int64_t)n * s->want.threads);
			double d = chunk ? chunk_latency(s, &c, &r, chunk) : DBL_MAX;
			if (d < best * .999) {
				best = d;
				*last = c;
			}
		}
	}
}

bool rules_apart(const struct space *s)
{
	return s->ring.rows && ring_apart(s->t, &s->ring);
}

bool rules_row_tiles(const struct space *s, int stage)
{
	return s->ring.rows && ring_whole(&s->ring, stage);
}

void rules_fit_rows(const struct space *s, struct sched *c)
{
	for (int k = 0; k < s->t->nstages; k++)
		if (rules_row_tiles(s, k)) {
			int *tile = &c->st[k].tile[s->ring.st[k].axis];
			*tile = (int)largest_divisor(c->st[s->t->nstages - 1].ring, *tile);
		}
}

/* Parallel indexes along a ring: each of them computes all that its rows need, also rows of earlier stages
 * that the index before it has computed. */
static double ring_chunks(const struct task *t, const struct sstage *last)
{
	double rows = (double)extent_guess(t->stage[t->nstages - 1].axis[last->ring_axis].extent),
	       block = (double)last->block[last->ring_axis];
	return block > 0 ? ceil(ceil(rows / last->ring) / block) : 1;
}

double rules_draft(const struct space *s, const struct sched *c, struct draft_terms of[MAX_STAGES])
{
	const struct sstage *last = &c->st[s->t->nstages - 1];
	struct ring r = {0};
	double cycles = 0;
	if (SCHED_THREADED && sched_frags(s->t, c)) {
		cycles = frags_draft(s, c);
		for (int k = 0; of && k < s->t->nstages; k++)
			of[k] = (struct draft_terms){.cycles = k ? cycles : 0};
		return cycles;
	}
	bool ring = last->ring_axis >= 0 && task_ring(s->t, last->ring_axis, last->ring, &r) >= 0;
	double chunks = ring ? ring_chunks(s->t, last) : 1;
	for (int k = 0; k < s->t->nstages; k++) {
		bool by_rows = ring && r.st[k].axis >= 0;
		double extent = by_rows ? (double)s->t->stage[k].axis[r.st[k].axis].extent : 0,
		       rows = (double)(r.rows * r.st[k].step);
		struct draft_terms once =
		    draft_rows(s->t, &s->tg, k, &c->st[k], r.st[k].axis, by_rows ? (int64_t)rows : 0);
		double times = by_rows ? 1 : chunks;
		if (by_rows && rows < extent)
			times = (extent + (chunks - 1) * (double)ring_again(&r, k)) / rows;
		double all = once.cycles * times;
		if (of) {
			of[k] = (struct draft_terms){.cycles = all, .live = once.live};
			draft_add(&of[k], &once, times);
		}
		cycles += all;
	}
	return cycles;
}
