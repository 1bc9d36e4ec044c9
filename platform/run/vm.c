/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/vm_parts.h"

#include <stdlib.h>

enum {
	HEADER_BYTES = 36,
	INS_BYTES = 28,
	ENTRY_BYTES = 24,
	MAX_CODE = 1 << 20,
};

const char *const vm_shape[VM_OPS] = {
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
    [VM_TRN0] = "vvv--",   [VM_TRN1] = "vvv--",     [VM_LACE] = "vvv--",   [VM_HADD] = "vv---",
    [VM_HMIN] = "vv---",   [VM_HMAX] = "vv---",     [VM_HMUL] = "vv---",
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

/* Checks instruction i of an entry that spans code[lo, hi). */
static bool ins_ok(const struct vm_object *o, uint32_t i, uint32_t lo, uint32_t hi)
{
	const struct vm_ins *s = &o->code[i];
	if (s->op >= VM_OPS || !vm_shape[s->op])
		return false;
	const unsigned field[5] = {s->dst, s->a, s->b, s->c, s->d};
	for (int f = 0; f < 5; f++)
		if (!field_ok(o, vm_shape[s->op][f], field[f]))
			return false;
	if (vm_shape[s->op][0] == 'v' && !(lanes_ok(s->lanes) && lanes_ok(s->src)))
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
	case VM_TRN0:
	case VM_TRN1:
		return s->x >= 1 && s->x < s->lanes && !(s->x & (s->x - 1));
	case VM_LACE:
		return s->x >> 8 >= 2 && s->x >> 8 <= s->lanes && (s->x >> 4 & 15) < s->x >> 8 &&
		       (s->x & 15) < s->x >> 8;
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
		return fail(E_CORRUPT, "simulator object: %zu bytes are too few or too many for its counts",
			    n);
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
