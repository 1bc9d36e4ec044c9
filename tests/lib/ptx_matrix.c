/* SPDX-License-Identifier: Apache-2.0 */
/* wmma.load, wmma.mma and wmma.store of m16n16k16. Which thread holds an element is the device's affair: here
 * element e of a fragment, counted by rows, is number e % 8 of lane (e / 8 + turn) % 32, where the turn
 * depends on the fragment's part, type and order, so that a fragment taken for another one gives a wrong
 * answer. Of f32, s32 and f16 each number has a register, which holds an f16 twice; of bf16 two, of bytes
 * four numbers share one.
 *
 * A warp touches memory in rows of 16 bytes, each by a lane that the seed chooses: an access that only the
 * order of one lane's instructions protects is a race under most seeds. */
#include "tests/lib/ptx_exec.h"

#include <math.h>
#include <string.h>

enum { SIZE = 16, ELEMS = SIZE * SIZE, EACH = ELEMS / LANES, ROW = 16 };

struct part {
	int part; /* 'a', 'b', 'c' */
	int type;
	bool columns;
};

int ptx_matrix_registers(int type)
{
	return ptx_type_bytes(type) == 1 ? 2 : type == T_BF16 ? 4 : EACH;
}

/* Where element e of a fragment lies. */
struct slot {
	int lane, reg;
	unsigned at, bytes; /* in the register */
};

static struct slot slot_of(const struct part *f, int e)
{
	int turn = 5 * (f->part - 'a') + 3 * f->type + (f->columns ? 16 : 0), n = e % EACH,
	    each = EACH / ptx_matrix_registers(f->type);
	unsigned bytes = ptx_type_bytes(f->type);
	return (struct slot){(e / EACH + turn) % LANES, n / each, (unsigned)(n % each) * bytes, bytes};
}

static void get(const struct ptx_warp *w, const struct ptx_opnd *regs, const struct part *f, int e, void *to)
{
	struct slot s = slot_of(f, e);
	memcpy(to, w->regs + regs[s.reg].off + (size_t)s.lane * 4 + s.at, s.bytes);
}

/* Registers to be, and the fragment's element e there. */
static void put(uint32_t (*regs)[LANES], const struct part *f, int e, const void *from)
{
	struct slot s = slot_of(f, e);
	uint8_t *to = (uint8_t *)&regs[s.reg][s.lane] + s.at;
	memcpy(to, from, s.bytes);
	if (f->type == T_F16)
		memcpy(to + 2, from, 2);
}

static void set_registers(struct ptx_warp *w, const struct ptx_opnd *to, const struct part *f,
			  uint32_t (*regs)[LANES])
{
	for (int i = 0; i < ptx_matrix_registers(f->type); i++)
		ptx_commit(w, &to[i], regs[i], ALL_LANES);
}

static uint64_t lane_value(struct ptx_exec *x, const struct ptx_warp *w, const struct ptx_opnd *o)
{
	uint64_t v[2] = {0, 0};
	for (int i = 0; i < LANES; i++) {
		v[1] = 0;
		memcpy(&v[1], w->regs + o->off + (size_t)i * o->bytes, o->bytes);
		if (i && v[0] != v[1])
			ptx_stop(x, i, "a matrix whose place differs between lanes of the warp");
		v[0] = v[1];
	}
	return v[0];
}

/* Reads or writes the 16 rows (columns) of a matrix in memory. */
static void transfer(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, bool write, uint8_t *p)
{
	uint64_t base = lane_value(x, w, &in->s[0]) + (uint64_t)in->imm,
		 pitch = lane_value(x, w, &in->s[1]) * ptx_type_bytes(in->type), at[LANES];
	unsigned aligned = 4 * (unsigned)ptx_matrix_registers(in->type); /* PTX ISA: the fragment's bytes */
	unsigned row = SIZE * ptx_type_bytes(in->type), pieces = row / ROW, turn = rng_below(&x->rng, LANES);
	if (base % aligned || pitch % aligned)
		ptx_stop(x, 0, "a matrix at %#llx with rows of %llu bytes is not aligned",
			 (unsigned long long)base, (unsigned long long)pitch);
	for (unsigned i = 0; i < SIZE * pieces; i += LANES) {
		uint32_t lanes = 0;
		uint8_t bytes[LANES][ROW];
		unsigned n = SIZE * pieces - i < LANES ? SIZE * pieces - i : LANES;
		for (unsigned k = i; k < i + n; k++) {
			unsigned lane = (k + turn) % LANES;
			lanes |= 1u << lane;
			at[lane] = base + k / pieces * pitch + k % pieces * ROW;
			memcpy(bytes[lane], p + (size_t)k * ROW, ROW);
		}
		ptx_access_rows(x, w, in->space, at, lanes, write, bytes);
		for (unsigned k = i; k < i + n && !write; k++)
			memcpy(p + (size_t)k * ROW, bytes[(k + turn) % LANES], ROW);
	}
}

static void load_store(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, bool store)
{
	const struct part f = {in->matrix, in->type, in->columns[0]};
	uint8_t memory[ELEMS * 4];
	uint32_t regs[EACH][LANES];
	/* The same fragment, however it lies in memory: only A and B have one for each order. */
	const struct part held = {f.part, f.type, f.columns && f.part != 'c'};
	unsigned bytes = ptx_type_bytes(f.type);
	if (!store)
		transfer(x, w, in, false, memory);
	for (int e = 0; e < ELEMS; e++) {
		int place = f.columns ? e % SIZE * SIZE + e / SIZE : e;
		if (store)
			get(w, in->regs, &held, e, memory + (size_t)place * bytes);
		else
			put(regs, &held, e, memory + (size_t)place * bytes);
	}
	if (store)
		transfer(x, w, in, true, memory);
	else
		set_registers(w, in->regs, &held, regs);
}

static double value(const struct ptx_warp *w, const struct ptx_opnd *regs, const struct part *f, int e)
{
	uint8_t u;
	uint16_t h;
	int32_t s;
	float v;
	switch (f->type) {
	case T_U8:
	case T_S8:
		get(w, regs, f, e, &u);
		return f->type == T_U8 ? u : (int8_t)u;
	case T_F16:
	case T_BF16:
		get(w, regs, f, e, &h);
		return f->type == T_F16 ? ptx_f16_to_f32(h) : ptx_bf16_to_f32(h);
	case T_S32:
		get(w, regs, f, e, &s);
		return s;
	default:
		get(w, regs, f, e, &v);
		return v;
	}
}

/* A device adds products in an order, and cuts sums, in ways that are its own: here the sum of all products
 * and c is rounded toward zero. */
uint32_t ptx_matrix_sum(double sum, int type)
{
	uint32_t bits;
	if (type == T_S32)
		return (uint32_t)(int64_t)sum;
	float v = (float)sum;
	if (isfinite(v) && fabs((double)v) > fabs(sum))
		v = nextafterf(v, 0);
	memcpy(&bits, &v, sizeof bits);
	return bits;
}

static void multiply(struct ptx_warp *w, const struct ptx_ins *in)
{
	const struct part a = {'a', in->stype, in->columns[0]}, b = {'b', in->stype, in->columns[1]},
			  c = {'c', in->type, false};
	int n = ptx_matrix_registers(in->stype);
	const struct ptx_opnd *ra = in->regs + EACH, *rb = ra + n, *rc = rb + n;
	double va[ELEMS], vb[ELEMS];
	uint32_t regs[EACH][LANES];
	for (int e = 0; e < ELEMS; e++) {
		va[e] = value(w, ra, &a, e);
		vb[e] = value(w, rb, &b, e);
	}
	for (int e = 0; e < ELEMS; e++) {
		double sum = value(w, rc, &c, e);
		for (int k = SIZE - 1; k >= 0; k--)
			sum += va[e / SIZE * SIZE + k] * vb[k * SIZE + e % SIZE];
		uint32_t r = ptx_matrix_sum(sum, in->type);
		put(regs, &c, e, &r);
	}
	set_registers(w, in->regs, &c, regs);
}

void ptx_matrix(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in)
{
	if (in->sub == 'm')
		multiply(w, in);
	else if (in->sub == 'p')
		ptx_mma(w, in);
	else if (in->sub == 'x')
		ptx_ldmatrix(x, w, in);
	else
		load_store(x, w, in, in->sub == 's');
}
