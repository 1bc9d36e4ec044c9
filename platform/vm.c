/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/vm.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK = 16, /* ticks of a cycle of 1 ns */
	ALU_LATENCY = 4 * TICK,
	L1_LATENCY = 3 * TICK,
	L2_LATENCY = 12 * TICK,
	DRAM_LATENCY = 60 * TICK,
	L2_LINE = 4 * TICK,     /* memory port busy per line from L2, */
	DRAM_LINE = 16 * TICK,  /* from DRAM */
	LINE_ELEMS = 16,        /* 64 bytes */
	L1_LINES = 512,         /* 32 KiB */
	L2_LINES = 4096,        /* 256 KiB */
	CALL_TICKS = 40 * TICK, /* of a kernel call, whatever it does */
	HEADER_BYTES = 36,
	INS_BYTES = 28,
	ENTRY_BYTES = 24,
	MAX_CODE = 1 << 20,
};
#define MAX_ELEMS (INT64_C(1) << 48) /* of a buffer, so that index arithmetic cannot overflow */
#define BUDGET INT64_C(4000000000)   /* instructions of one call: minutes */

struct vm {
	struct vm_object o;
	struct vm_ins *code;
	int64_t *r;                          /* integer registers */
	float (*v)[VM_LANES];                /* vector registers */
	int64_t *ready;                      /* tick at which a vector register has its value */
	int64_t elems[VM_MAX_BUFS];          /* as VM_EXTENT said */
	uint64_t l1[L1_LINES], l2[L2_LINES]; /* line held, + 1; 0: none */
	int64_t front, alu, mem;             /* ticks at which the front end and each port are free */
	int64_t alu_ticks; /* of an arithmetic instruction of 4 lanes: more when registers spill */
	void *const *bufs;
};

/* What an instruction's fields are: 'i' integer register, 'v' vector register, 'o' optional integer register,
 * 'b' buffer,
 * '-' unused (any value); in the order dst a b c d. */
static const char *const shape_of[VM_OPS] = {
    [VM_ICONST] = "i----", [VM_IADD] = "iii--",     [VM_IMUL] = "iii--",   [VM_IDIV] = "iii--",
    [VM_IMOD] = "iii--",   [VM_IMIN] = "iii--",     [VM_IMAX] = "iii--",   [VM_ILT] = "iii--",
    [VM_IEQ] = "iii--",    [VM_ITABLE] = "iib--",   [VM_EXTENT] = "-ib--", [VM_FOR] = "iii--",
    [VM_NEXT] = "-----",   [VM_IF] = "-i---",       [VM_JUMP] = "-----",   [VM_LOAD] = "viboo",
    [VM_STORE] = "viboo",  [VM_PREFETCH] = "-ib--", [VM_CONST] = "v----",  [VM_COPY] = "vv---",
    [VM_LANE] = "vv---",   [VM_ADD] = "vvv--",      [VM_SUB] = "vvv--",    [VM_MUL] = "vvv--",
    [VM_DIV] = "vvv--",    [VM_MIN] = "vvv--",      [VM_MAX] = "vvv--",    [VM_FMA] = "vvvv-",
    [VM_NEG] = "vv---",    [VM_ABS] = "vv---",      [VM_SQRT] = "vv---",   [VM_FLOOR] = "vv---",
    [VM_CEIL] = "vv---",   [VM_RINT] = "vv---",     [VM_SEL_LT] = "vvvvv", [VM_SEL_LE] = "vvvvv",
    [VM_SEL_EQ] = "vvvvv", [VM_POW2] = "vv---",     [VM_GETEXP] = "vv---", [VM_GETMANT] = "vv---",
    [VM_HADD] = "vv---",   [VM_HMIN] = "vv---",     [VM_HMAX] = "vv---",   [VM_HMUL] = "vv---",
};

void vm_encode(const struct vm_object *o, struct buf *out)
{
	buf_add(out, "HVM1", 4);
	buf_u32(out, (uint32_t)o->nbufs | (uint32_t)o->nparams << 16);
	buf_u32(out, (uint32_t)o->nentries | (uint32_t)o->fma << 16);
	const uint32_t head[] = {o->nints, o->nvecs, o->pressure, o->regs, o->ncode, 0};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		buf_u32(out, head[i]);
	for (int i = 0; i < o->nentries; i++) {
		buf_add(out, o->entry[i].symbol, sizeof o->entry[i].symbol);
		buf_u32(out, o->entry[i].first);
		buf_u32(out, o->entry[i].count);
	}
	for (uint32_t i = 0; i < o->ncode; i++) {
		const struct vm_ins *s = &o->code[i];
		buf_u32(out, s->op | (uint32_t)s->lanes << 8 | (uint32_t)s->src << 16);
		buf_u32(out, s->dst | (uint32_t)s->a << 16);
		buf_u32(out, s->b | (uint32_t)s->c << 16);
		buf_u32(out, s->d);
		buf_u32(out, s->x);
		buf_u64(out, (uint64_t)s->imm);
	}
}

static bool lanes_ok(unsigned n)
{
	return n >= 1 && n <= VM_LANES && (n & (n - 1)) == 0;
}

static bool field_ok(const struct vm_object *o, char kind, unsigned f)
{
	switch (kind) {
	case 'i':
		return f < o->nints;
	case 'o':
		return f == VM_NONE || f < o->nints;
	case 'v':
		return f < o->nvecs;
	case 'b':
		return f < (unsigned)o->nbufs;
	default:
		return true;
	}
}

/* Instruction i of an entry that spans code[lo, hi). */
static bool ins_ok(const struct vm_object *o, uint32_t i, uint32_t lo, uint32_t hi)
{
	const struct vm_ins *s = &o->code[i];
	if (s->op >= VM_OPS || !shape_of[s->op])
		return false;
	const unsigned field[5] = {s->dst, s->a, s->b, s->c, s->d};
	for (int f = 0; f < 5; f++)
		if (!field_ok(o, shape_of[s->op][f], field[f]))
			return false;
	if (shape_of[s->op][0] == 'v' && !(lanes_ok(s->lanes) && lanes_ok(s->src)))
		return false;
	switch (s->op) {
	case VM_FOR:
		return s->imm > 0 && s->x > 0 && s->x < hi - i && o->code[i + s->x].op == VM_NEXT &&
		       o->code[i + s->x].x == s->x;
	case VM_NEXT:
		return s->x > 0 && s->x <= i - lo && o->code[i - s->x].op == VM_FOR &&
		       o->code[i - s->x].x == s->x;
	case VM_IF:
	case VM_JUMP:
		return s->x < hi - i;
	case VM_LANE:
		return s->x < s->src;
	case VM_LOAD:
	case VM_STORE:
		return s->imm > -(INT64_C(1) << 40) && s->imm < INT64_C(1) << 40;
	default:
		return true;
	}
}

static void read_ins(struct cur *c, struct vm_ins *s)
{
	uint32_t w = cur_u32(c);
	s->op = (uint8_t)w;
	s->lanes = (uint8_t)(w >> 8);
	s->src = (uint8_t)(w >> 16);
	w = cur_u32(c);
	s->dst = (uint16_t)w;
	s->a = (uint16_t)(w >> 16);
	w = cur_u32(c);
	s->b = (uint16_t)w;
	s->c = (uint16_t)(w >> 16);
	s->d = (uint16_t)cur_u32(c);
	s->x = cur_u32(c);
	s->imm = (int64_t)cur_u64(c);
}

static int read_header(struct cur *c, size_t n, struct vm_object *o)
{
	const char *magic = cur_bytes(c, 4);
	uint32_t w = cur_u32(c);
	o->nbufs = w & 0xffff;
	o->nparams = (int)(w >> 16);
	w = cur_u32(c);
	o->nentries = w & 0xffff;
	o->fma = w >> 16 & 1;
	o->nints = cur_u32(c);
	o->nvecs = cur_u32(c);
	o->pressure = cur_u32(c);
	o->regs = cur_u32(c);
	o->ncode = cur_u32(c);
	cur_u32(c);
	if (!magic || memcmp(magic, "HVM1", 4))
		return fail(E_CORRUPT, "not an object of the simulator");
	if (o->nbufs > VM_MAX_BUFS || o->nparams > VM_MAX_PARAMS || o->nentries > VM_MAX_ENTRIES ||
	    o->nints > VM_MAX_REGS || o->nvecs > VM_MAX_REGS || o->ncode > MAX_CODE ||
	    o->nints < (uint32_t)o->nparams + 2)
		return fail(E_CORRUPT, "simulator object: a count is out of range");
	if (n != HEADER_BYTES + (size_t)o->nentries * ENTRY_BYTES + (size_t)o->ncode * INS_BYTES)
		return fail(E_CORRUPT, "simulator object: %zu bytes do not hold what it claims", n);
	return E_OK;
}

static int check_entries(struct cur *c, struct vm_object *o)
{
	for (int i = 0; i < o->nentries; i++) {
		struct vm_entry *e = &o->entry[i];
		const char *symbol = cur_bytes(c, sizeof e->symbol);
		if (!symbol || !memchr(symbol, 0, sizeof e->symbol))
			return fail(E_CORRUPT, "simulator object: entry %d has no name", i);
		memcpy(e->symbol, symbol, sizeof e->symbol);
		e->first = cur_u32(c);
		e->count = cur_u32(c);
		if (e->first > o->ncode || e->count > o->ncode - e->first)
			return fail(E_CORRUPT, "simulator object: entry %d lies outside the code", i);
	}
	return E_OK;
}

static int check_code(const struct vm_object *o)
{
	for (int e = 0; e < o->nentries; e++) {
		uint32_t lo = o->entry[e].first, hi = lo + o->entry[e].count;
		for (uint32_t i = lo; i < hi; i++)
			if (!ins_ok(o, i, lo, hi))
				return fail(E_CORRUPT, "simulator object: bad instruction %u", i);
	}
	return E_OK;
}

int vm_load(const void *p, size_t n, struct vm **out)
{
	struct cur c = {.p = p, .n = n};
	struct vm *vm = calloc(1, sizeof *vm);
	if (!vm)
		return fail(E_NOMEM, "no memory for a simulator object");
	struct vm_object *o = &vm->o;
	int rc = read_header(&c, n, o);
	if (rc < 0)
		goto out;
	rc = check_entries(&c, o);
	if (rc < 0)
		goto out;
	vm->code = calloc(o->ncode + 1, sizeof *vm->code);
	vm->r = calloc(o->nints, sizeof *vm->r);
	vm->v = calloc(o->nvecs + 1, sizeof *vm->v);
	vm->ready = calloc(o->nvecs + 1, sizeof *vm->ready);
	if (!vm->code || !vm->r || !vm->v || !vm->ready) {
		rc = fail(E_NOMEM, "no memory for a simulator object of %u instructions", o->ncode);
		goto out;
	}
	o->code = vm->code;
	for (uint32_t i = 0; i < o->ncode; i++)
		read_ins(&c, &vm->code[i]);
	rc = check_code(o);
	int64_t excess = o->pressure > o->regs ? (int64_t)o->pressure - o->regs : 0;
	/* One register too many costs 20 %, each further one 6 %, as measured where vectors spill. */
	vm->alu_ticks = TICK + (excess ? 3 + (excess > 40 ? 40 : excess) : 0);
out:
	if (rc < 0)
		vm_free(vm);
	else
		*out = vm;
	return rc;
}

void vm_free(struct vm *vm)
{
	if (!vm)
		return;
	free(vm->code);
	free(vm->r);
	free(vm->v);
	free(vm->ready);
	free(vm);
}

int vm_find(const struct vm *vm, const char *symbol)
{
	for (int i = 0; i < vm->o.nentries; i++)
		if (!strcmp(vm->o.entry[i].symbol, symbol))
			return i;
	return fail(E_NOTFOUND, "no entry %s in this object", symbol);
}

/* Integer arithmetic wraps, so hostile constants do no harm. */
static int64_t wrap_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return b < 1 ? 0 : a / b - (a % b < 0);
}

static int64_t integer(const struct vm_ins *s, int64_t a, int64_t b)
{
	switch (s->op) {
	case VM_IADD:
		return wrap_add(a, b);
	case VM_IMUL:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case VM_IDIV:
		return floor_div(a, b);
	case VM_IMOD:
		return b < 1 ? 0 : a - floor_div(a, b) * b;
	case VM_IMIN:
		return a < b ? a : b;
	case VM_IMAX:
		return a > b ? a : b;
	case VM_ILT:
		return a < b;
	default:
		return a == b;
	}
}

static float from_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static uint32_t to_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* Flush-to-zero, in software on exact results whatever mode the thread is in. The smallest normal may also be
 * the rounding of something tiny: of less than 2^-126 - 2^-151, which rounds to less than 2^-126 with 24 bits
 * and any exponent. */
#define NORMAL 0x1p-126f
#define TINY (0x1p-126 - 0x1p-151)

/* Subnormal to zero of the same sign. */
static float fz(float f)
{
	uint32_t u = to_bits(f);
	return u & 0x7f800000 ? f : from_bits(u & 0x80000000);
}

/* r, whose exact value is tiny where `tiny`. */
static float rounded(float r, bool tiny)
{
	return tiny ? from_bits(to_bits(r) & 0x80000000) : fz(r);
}

static float add(float a, float b)
{
	return fz(fz(a) + fz(b)); /* a tiny sum is exact */
}

static float mul(float a, float b)
{
	float x = fz(a), y = fz(b), r = x * y;
	return fabsf(r) > NORMAL ? r : rounded(r, fabs((double)x * y) < TINY);
}

static float divide(float a, float b)
{
	float x = fz(a), y = fz(b), r = x / y;
	return fabsf(r) > NORMAL ? r : rounded(r, fabs((double)x) < TINY * fabs((double)y));
}

/* Exactly |p + c| < TINY; p is a product of two floats, so exact. Knuth's two-sum gives the error of p + c.
 */
static bool tiny_sum(double p, double c)
{
	double s = p + c, b = s - p, error = (p - (s - b)) + (c - b);
	if (fabs(s) != TINY)
		return fabs(s) < TINY;
	return s > 0 ? error < 0 : error > 0;
}

static float muladd(bool fused, float a, float b, float c)
{
	if (!fused)
		return add(mul(a, b), c);
	float x = fz(a), y = fz(b), z = fz(c), r = fmaf(x, y, z);
	return fabsf(r) > NORMAL ? r : rounded(r, fabsf(r) == NORMAL && tiny_sum((double)x * y, z));
}

static float get_exp(float a)
{
	return (float)((int)(to_bits(a) >> 23 & 0xff) - 127);
}

static float lesser(float a, float b)
{
	return fz(a) < fz(b) ? fz(a) : fz(b);
}

static float greater(float a, float b)
{
	return fz(a) > fz(b) ? fz(a) : fz(b);
}

static float combine(int op, float a, float b)
{
	return op == VM_HADD   ? add(a, b)
	       : op == VM_HMUL ? mul(a, b)
	       : op == VM_HMIN ? lesser(a, b)
			       : greater(a, b);
}

static void horizontal(const struct vm_ins *s, float *dst, const float *a)
{
	float t[VM_LANES];
	memcpy(t, a, sizeof t);
	for (int n = s->src / 2; n >= 1; n /= 2)
		for (int i = 0; i < n; i++)
			t[i] = combine(s->op, t[i], t[i + n]);
	for (int i = 0; i < s->lanes; i++)
		dst[i] = t[0];
}

#define EACH(value)                                                                                          \
	do {                                                                                                 \
		for (int i = 0; i < n; i++)                                                                  \
			dst[i] = (value);                                                                    \
	} while (0);                                                                                         \
	break

/* All vector operations but loads. dst may be any of the sources: lanes do not mix, except where said. */
static void vector(struct vm *vm, const struct vm_ins *s)
{
	const int n = s->lanes;
	float *dst = vm->v[s->dst];
	const char *sh = shape_of[s->op];
	const float *a = vm->v[sh[1] == 'v' ? s->a : 0], *b = vm->v[sh[2] == 'v' ? s->b : 0];
	const float *c = vm->v[sh[3] == 'v' ? s->c : 0], *d = vm->v[sh[4] == 'v' ? s->d : 0];
	const float imm = s->op == VM_LANE ? a[s->x & 15] : from_bits(s->x);
	switch (s->op) {
	case VM_CONST:
	case VM_LANE:
		EACH(imm);
	case VM_COPY:
		EACH(a[i]);
	case VM_ADD:
		EACH(add(a[i], b[i]));
	case VM_SUB:
		EACH(add(a[i], -b[i]));
	case VM_MUL:
		EACH(mul(a[i], b[i]));
	case VM_DIV:
		EACH(divide(a[i], b[i]));
	case VM_MIN:
		EACH(lesser(a[i], b[i]));
	case VM_MAX:
		EACH(greater(a[i], b[i]));
	case VM_FMA:
		EACH(muladd(vm->o.fma, a[i], b[i], c[i]));
	case VM_NEG:
		EACH(from_bits(to_bits(a[i]) ^ 0x80000000));
	case VM_ABS:
		EACH(from_bits(to_bits(a[i]) & 0x7fffffff));
	case VM_SQRT:
		EACH(sqrtf(fz(a[i])));
	case VM_FLOOR:
		EACH(floorf(fz(a[i])));
	case VM_CEIL:
		EACH(ceilf(fz(a[i])));
	case VM_RINT:
		EACH(rintf(fz(a[i])));
	case VM_SEL_LT:
		EACH(fz(a[i]) < fz(b[i]) ? c[i] : d[i]);
	case VM_SEL_LE:
		EACH(fz(a[i]) <= fz(b[i]) ? c[i] : d[i]);
	case VM_SEL_EQ:
		EACH(fz(a[i]) == fz(b[i]) ? c[i] : d[i]);
	case VM_POW2:
		EACH(a[i] >= -126 && a[i] <= 127 ? from_bits((uint32_t)((int)a[i] + 127) << 23) : 0);
	case VM_GETEXP:
		EACH(get_exp(a[i]));
	case VM_GETMANT:
		EACH(from_bits((to_bits(a[i]) & 0x007fffff) | 0x3f800000));
	default:
		horizontal(s, dst, a);
	}
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The front end passes four instructions a cycle. */
static int64_t issue(struct vm *vm)
{
	return vm->front += TICK / 4;
}

/* The arithmetic port takes instructions in order, each once its sources are there. */
static void time_vector(struct vm *vm, const struct vm_ins *s)
{
	const char *sh = shape_of[s->op];
	const uint16_t src[4] = {s->a, s->b, s->c, s->d};
	int64_t at = later(issue(vm), vm->alu);
	for (int i = 0; i < 4; i++)
		if (sh[i + 1] == 'v')
			at = later(at, vm->ready[src[i]]);
	int wide = s->lanes > s->src ? s->lanes : s->src;
	int64_t busy = vm->alu_ticks * ((wide + 3) / 4);
	if (s->op == VM_DIV || s->op == VM_SQRT)
		busy *= 8;
	vm->alu = at + busy;
	vm->ready[s->dst] = at + busy - vm->alu_ticks + ALU_LATENCY;
}

/* Ticks until a line is there; *busy: ticks it occupies the memory port. Stores and prefetches allocate too.
 */
static int64_t touch(struct vm *vm, int buf, int64_t elem, int64_t *busy)
{
	uint64_t line = (uint64_t)(elem / LINE_ELEMS) + ((uint64_t)buf << 40) + 1;
	uint64_t slot = line + (uint64_t)buf * 97; /* buffers do not all start at the same slot */
	uint64_t *one = &vm->l1[slot % L1_LINES], *two = &vm->l2[slot % L2_LINES];
	*busy = TICK;
	if (*one == line)
		return L1_LATENCY;
	*one = line;
	bool in_l2 = *two == line;
	*two = line;
	*busy = in_l2 ? L2_LINE : DRAM_LINE;
	return in_l2 ? L2_LATENCY : DRAM_LATENCY;
}

/* Lanes [0, n) of an access that is known to lie inside. The memory port does not wait for arithmetic: loads
 * run ahead, and stores are buffered. */
static void time_access(struct vm *vm, const struct vm_ins *s, int64_t at, int n)
{
	int64_t start = later(issue(vm), vm->mem), latency = L1_LATENCY, total = 0;
	int step = s->imm == 1 ? 4 : 1; /* four lanes in a row are one access */
	for (int i = 0; i < n; i += step) {
		int64_t busy, wait = touch(vm, s->b, at + i * s->imm, &busy);
		latency = later(latency, wait);
		total += busy;
		if (s->imm == 0)
			break;
	}
	vm->mem = start + later(total, TICK);
	if (s->op == VM_LOAD)
		vm->ready[s->dst] = start + later(total - TICK, 0) + latency;
}

static int outside(const struct vm *vm, const struct vm_ins *s, int64_t at)
{
	return fail(E_CORRUPT, "instruction %td: element %lld of buffer %d, which has %lld", s - vm->code,
		    (long long)at, s->b, (long long)vm->elems[s->b]);
}

/* How many lanes an access touches; < 0: one of them lies outside. */
static int span(const struct vm *vm, const struct vm_ins *s, int64_t at)
{
	int64_t n = s->lanes, limit = vm->elems[s->b];
	if (s->c != VM_NONE)
		n = vm->r[s->c] < 0 ? 0 : vm->r[s->c] < n ? vm->r[s->c] : n;
	if (n == 0)
		return 0;
	/* |imm| < 2^40 and at is inside before the last lane is looked at: no overflow. */
	if (at < 0 || at >= limit || !vm->bufs[s->b])
		return outside(vm, s, at);
	int64_t last = at + (n - 1) * s->imm;
	if (last < 0 || last >= limit)
		return outside(vm, s, last);
	return (int)n;
}

static int load(struct vm *vm, const struct vm_ins *s)
{
	float *dst = vm->v[s->dst];
	if (s->d != VM_NONE && !vm->r[s->d]) {
		for (int i = 0; i < s->lanes; i++)
			dst[i] = from_bits(s->x);
		return E_OK;
	}
	int64_t at = vm->r[s->a];
	int n = span(vm, s, at);
	if (n < 0)
		return n;
	for (int i = n; i < s->lanes; i++)
		dst[i] = 0;
	if (n == 0)
		return E_OK;
	const float *p = (const float *)vm->bufs[s->b] + at;
	for (int i = 0; i < n; i++)
		memcpy(&dst[i], p + i * s->imm, sizeof *p);
	time_access(vm, s, at, n);
	return E_OK;
}

static int store(struct vm *vm, const struct vm_ins *s)
{
	int64_t at = vm->r[s->a];
	if (s->d != VM_NONE && !vm->r[s->d])
		return E_OK;
	int n = span(vm, s, at);
	if (n <= 0)
		return n;
	float *p = (float *)vm->bufs[s->b] + at;
	for (int i = 0; i < n; i++)
		memcpy(p + i * s->imm, &vm->v[s->dst][i], sizeof *p);
	time_access(vm, s, at, n);
	return E_OK;
}

static int table_read(struct vm *vm, const struct vm_ins *s)
{
	int64_t at = vm->r[s->a];
	if (at < 0 || at >= vm->elems[s->b] || !vm->bufs[s->b])
		return outside(vm, s, at);
	int32_t v;
	memcpy(&v, (const int32_t *)vm->bufs[s->b] + at, sizeof v);
	vm->r[s->dst] = v;
	return E_OK;
}

static void prefetch(struct vm *vm, const struct vm_ins *s)
{
	int64_t at = vm->r[s->a], busy;
	if (at < 0 || at >= vm->elems[s->b])
		return;
	touch(vm, s->b, at, &busy);
	vm->mem = later(issue(vm), vm->mem) + busy;
}

/* Executes s and returns how far to move: 1 for the next instruction; 0: failed, *rc says why. */
static int64_t step(struct vm *vm, const struct vm_ins *s, int *rc)
{
	int64_t *r = vm->r;
	switch (s->op) {
	case VM_ITABLE:
		return (*rc = table_read(vm, s)) == E_OK;
	case VM_EXTENT:
		vm->elems[s->b] = r[s->a] < 0 ? 0 : r[s->a] < MAX_ELEMS ? r[s->a] : MAX_ELEMS;
		return 1;
	case VM_ICONST:
		r[s->dst] = s->imm;
		return 1;
	case VM_FOR:
		r[s->dst] = r[s->a];
		return r[s->dst] < r[s->b] ? 1 : s->x + INT64_C(1);
	case VM_NEXT: {
		const struct vm_ins *f = s - s->x;
		vm->front += TICK;
		r[f->dst] = wrap_add(r[f->dst], f->imm);
		return r[f->dst] < r[f->b] ? 1 - (int64_t)s->x : 1;
	}
	case VM_IF:
		vm->front += TICK;
		return r[s->a] ? 1 : s->x + INT64_C(1);
	case VM_JUMP:
		return s->x + INT64_C(1);
	case VM_LOAD:
		return (*rc = load(vm, s)) == E_OK;
	case VM_STORE:
		return (*rc = store(vm, s)) == E_OK;
	case VM_PREFETCH:
		prefetch(vm, s);
		return 1;
	default:
		if (s->op <= VM_IEQ) {
			r[s->dst] = integer(s, r[s->a], r[s->b]);
			return 1;
		}
		vector(vm, s);
		time_vector(vm, s);
		return 1;
	}
}

static void start(struct vm *vm, void *const *bufs, const int64_t *params, int64_t begin, int64_t end)
{
	memset(vm->elems, 0, sizeof vm->elems);
	memset(vm->l1, 0, sizeof vm->l1);
	memset(vm->l2, 0, sizeof vm->l2);
	memset(vm->r, 0, vm->o.nints * sizeof *vm->r);
	memset(vm->v, 0, vm->o.nvecs * sizeof *vm->v);
	memset(vm->ready, 0, vm->o.nvecs * sizeof *vm->ready);
	if (vm->o.nparams)
		memcpy(vm->r, params, (size_t)vm->o.nparams * sizeof *params);
	vm->r[vm->o.nparams] = begin;
	vm->r[vm->o.nparams + 1] = end;
	vm->front = vm->alu = vm->mem = 0;
	vm->bufs = bufs;
}

int vm_run(struct vm *vm, int entry, void *const *bufs, const int64_t *params, int64_t begin, int64_t end,
	   int64_t *cost_ns)
{
	const struct vm_entry *e = &vm->o.entry[entry];
	const struct vm_ins *s = vm->code + e->first, *stop = s + e->count;
	int64_t left = BUDGET;
	int rc = E_OK;
	fenv_t env;
	fegetenv(&env);
	fesetenv(FE_DFL_ENV); /* round to nearest, subnormals kept */
	start(vm, bufs, params, begin, end);
	while (s < stop && rc == E_OK) {
		if (left-- == 0)
			rc = fail(E_TIMEOUT, "a simulated kernel does not end");
		else
			s += step(vm, s, &rc);
	}
	fesetenv(&env);
	*cost_ns = (later(vm->front, later(vm->alu, vm->mem)) + CALL_TICKS) / TICK;
	return rc;
}
