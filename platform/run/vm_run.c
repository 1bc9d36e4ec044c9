/* SPDX-License-Identifier: Apache-2.0 */
/* Executes code and computes the time that it would take. */
#include "platform/run/vm_parts.h"

#include <fenv.h>

enum {
	ALU_LATENCY = 4 * TICK,
	L1_LATENCY = 3 * TICK,
	L2_LATENCY = 12 * TICK,
	DRAM_LATENCY = 60 * TICK,
	L2_LINE = 4 * TICK,     /* ticks that a line from L2 occupies the memory port, */
	DRAM_LINE = 16 * TICK,  /* a line from DRAM */
	LINE_ELEMS = 16,        /* 64 bytes */
	CALL_TICKS = 40 * TICK, /* fixed cost of a kernel call */
};
#define MAX_ELEMS (INT64_C(1) << 48) /* of a buffer, so that index arithmetic cannot overflow */
#define BUDGET INT64_C(4000000000)   /* instructions of one call: minutes */

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

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The front end issues four instructions a cycle. */
static int64_t issue(struct vm *vm)
{
	return vm->front += TICK / 4;
}

/* The arithmetic port takes instructions in order, each once its sources are ready. */
static void time_vector(struct vm *vm, const struct vm_ins *s)
{
	const char *sh = vm_shape[s->op];
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

/* Ticks until a line has arrived; *busy: ticks that it occupies the memory port. Stores and prefetches
 * allocate too. */
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

/* Times lanes [0, n) of an access that is known to be inside its buffer. The memory port does not wait for
 * arithmetic: loads run ahead, and stores are buffered. */
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
	return fail(E_CORRUPT,
		    "instruction %td reads or writes element %lld of buffer %d, which has %lld elements",
		    s - vm->code, (long long)at, s->b, (long long)vm->elems[s->b]);
}

/* The number of lanes that an access touches; < 0: one of them is outside the buffer. */
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
			dst[i] = vm_from_bits(s->x);
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
		vm_vector(vm, s);
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
