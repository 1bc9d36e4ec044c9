/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/emit/ptx_flow.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_CLASSES = 16,
	MOST_REGS = 1 << 18,
	MOST_INS = 1 << 17,
	MOST_LABEL = 1 << 17,
	MOST_ARGS = 64,
	MOST_GUARDED = 12, /* instructions of a branch that are made conditional */
	FAST_CONVERT = 86  /* architecture from which integers of 32 bits are converted fast */
};

struct reader {
	const char *p, *end;
	struct arena *a;
	struct ptx_flow *f;
	struct {
		char name[8];
		int len;
		uint32_t first, count;
	} class[MOST_CLASSES];
	int nclasses, sm, *label, nlabels; /* label: instruction that follows, by number */
	int max_ins;
	uint32_t nreg, max_reg;
};

static bool starts(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);
	return (size_t)(end - p) >= n && !memcmp(p, word, n);
}

static const char *find(const char *p, const char *end, const char *word)
{
	return p < end ? memmem(p, (size_t)(end - p), word, strlen(word)) : NULL;
}

static uint32_t number(const char **p, const char *end)
{
	uint32_t v = 0;
	for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
		v = v < MOST_REGS ? v * 10 + (uint32_t)(**p - '0') : v;
	return v;
}

/* `.reg .b32 %r<100>;` */
static bool declare(struct reader *r, const char *p, const char *end)
{
	struct ptx_flow *f = r->f;
	const char *name = memchr(p, '%', (size_t)(end - p)), *less = memchr(p, '<', (size_t)(end - p));
	if (!name || !less || less < name || less - name >= (long)sizeof r->class[0].name ||
	    r->nclasses == MOST_CLASSES)
		return true;
	int weight = find(p, name, ".pred") ? 0 : find(p, name, "64") ? 2 : 1, i = r->nclasses++;
	memcpy(r->class[i].name, name, (size_t)(less - name));
	r->class[i].len = (int)(less - name);
	r->class[i].first = (uint32_t)f->nregs;
	less++;
	r->class[i].count = number(&less, end);
	if (r->class[i].count > MOST_REGS - (uint32_t)f->nregs)
		return false;
	uint8_t *w = ARENA_ARRAY(r->a, uint8_t, (uint32_t)f->nregs + r->class[i].count + 64);
	if (f->nregs)
		memcpy(w, f->weight, (size_t)f->nregs);
	memset(w + f->nregs, weight, r->class[i].count);
	f->weight = w;
	f->nregs += (int)r->class[i].count;
	return true;
}

/* The register at p, a '%'; -1: a special one. Moves p behind it. */
static int register_at(const struct reader *r, const char **p, const char *end)
{
	const char *name = *p, *q = name + 1;
	while (q < end && ((*q >= 'a' && *q <= 'z') || *q == '_'))
		q++;
	int len = (int)(q - name);
	*p = q;
	for (int i = 0; i < r->nclasses; i++)
		if (r->class[i].len == len && !memcmp(r->class[i].name, name, (size_t)len)) {
			uint32_t v = number(p, end);
			return v < r->class[i].count ? (int)(r->class[i].first + v) : -1;
		}
	return -1;
}

static enum flow_class kind_of(const char *op, const char *end, bool registers)
{
	static const struct {
		const char *word;
		uint8_t kind;
	} kinds[] = {{"ld.param", PTX_IMMEDIATE},
		     {"ld.shared", PTX_SHARED},
		     {"wmma.load", PTX_SHARED},
		     {"shfl", PTX_SHARED},
		     {"st.", PTX_STORE},
		     {"wmma.store", PTX_STORE},
		     {"cp.async", PTX_STORE},
		     {"bar", PTX_BARRIER},
		     {"bra", PTX_BRANCH},
		     {"ret", PTX_BRANCH},
		     {"fma", PTX_MATH},
		     {"dp4a", PTX_MATH},
		     {"dp2a", PTX_MATH},
		     {"mul", PTX_MATH},
		     {"mad", PTX_MATH},
		     {"add", PTX_MATH},
		     {"sub", PTX_MATH},
		     {"min", PTX_MATH},
		     {"max", PTX_MATH},
		     {"cvt.rn.f32.s", PTX_CONVERT},
		     {"cvt.rn.f32.u", PTX_CONVERT}};
	if (starts(op, end, "ld.global"))
		return starts(op, end, "ld.global.nc") ? PTX_GLOBAL_CONST : PTX_GLOBAL;
	if (starts(op, end, "mov") && !registers)
		return PTX_IMMEDIATE;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (starts(op, end, kinds[i].word))
			return kinds[i].kind;
	return PTX_PLAIN;
}

static int label_number(const char *p, const char *end)
{
	const char *under = memrchr(p, '_', (size_t)(end - p));
	if (!under)
		return -1;
	under++;
	uint32_t v = number(&under, end);
	return v < MOST_LABEL ? (int)v : -1;
}

/* The registers of an instruction: `op {a, b}, c, [d+4];`. */
static void operands(struct reader *r, struct flow_ins *x, const char *p, const char *end, bool sets)
{
	uint32_t use[MOST_ARGS];
	int n = 0;
	bool first = true, braces = false;
	x->first = r->nreg;
	while (p < end) {
		if (*p == '%') {
			int v = register_at(r, &p, end);
			if (v < 0 || x->ndefs + n >= MOST_ARGS)
				continue;
			if (first && sets)
				r->f->reg[x->first + x->ndefs++] = (uint32_t)v;
			else
				use[n++] = (uint32_t)v;
			continue;
		}
		braces = *p == '{' || (braces && *p != '}');
		first &= *p != '[' && (*p != ',' || braces);
		p++;
	}
	memcpy(r->f->reg + x->first + x->ndefs, use, sizeof *use * (size_t)n);
	x->nuses = (uint8_t)n;
}

/* Half of a fragment of f16 is a copy of the other half, except on the oldest architecture. */
static void halve_fragment(struct reader *r, const struct flow_ins *x, const char *op, const char *end)
{
	if (r->sm > 72 && starts(op, end, "wmma.load") && find(op, end, ".f16"))
		for (int i = 1; i < x->ndefs; i += 2)
			r->f->weight[r->f->reg[x->first + i]] = 0;
}

static void instruction(struct reader *r, const char *p, const char *end)
{
	struct ptx_flow *f = r->f;
	struct flow_ins *x = &f->ins[f->nins++];
	*x = (struct flow_ins){.truth = -1, .next = -1, .label = -1};
	int guard = -1;
	if (*p == '@') {
		x->negated = p + 1 < end && p[1] == '!';
		p += x->negated ? 2 : 1;
		guard = p < end && *p == '%' ? register_at(r, &p, end) : -1;
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
	}
	const char *op = p;
	while (p < end && *p != ' ' && *p != '\t' && *p != '\n')
		p++;
	const char *word = p, *comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
	x->kind = kind_of(op, word, comma && memchr(comma, '%', (size_t)(end - comma)));
	bool sets = x->kind != PTX_STORE && x->kind != PTX_BARRIER && x->kind != PTX_BRANCH;
	x->ret = starts(op, word, "ret");
	x->matrix = starts(op, word, "mma.") || starts(op, word, "wmma.mma");
	if (x->kind == PTX_BRANCH) {
		x->uncond = guard < 0;
		x->label = x->ret ? -1 : label_number(p, end);
		x->first = r->nreg;
	} else {
		operands(r, x, p, end, sets);
		halve_fragment(r, x, op, word);
	}
	if (guard >= 0)
		f->reg[x->first + x->ndefs + x->nuses++] = (uint32_t)guard;
	bool moves = starts(op, word, "mov");
	x->renames = x->ndefs == 1 && x->nuses == 1 && guard < 0 &&
		     ((moves && x->kind == PTX_PLAIN) || starts(op, word, "add.s64"));
	if (starts(op, word, "mov.pred") && comma)
		x->truth = find(comma, end, "0") == NULL;
	x->bytes = starts(op, word, "cvt.s32.s8") || starts(op, word, "cvt.u32.u8") ||
		   starts(op, word, "cvt.s16.s8") || starts(op, word, "bfe");
	r->nreg += (uint32_t)(x->ndefs + x->nuses);
}

/* Reads statements up to the closing brace. */
static bool read_body(struct reader *r)
{
	struct ptx_flow *f = r->f;
	while (r->p < r->end) {
		while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n'))
			r->p++;
		const char *line = memchr(r->p, '\n', (size_t)(r->end - r->p)), *p = r->p;
		if (!line || *p == '}')
			return line || p < r->end;
		if (*p == '$') {
			int n = label_number(p, memchr(p, ':', (size_t)(line - p)) ? line : p);
			if (n >= 0 && n < r->nlabels)
				r->label[n] = f->nins;
		}
		if (starts(p, line, ".reg") && !declare(r, p, line))
			return false;
		r->p = line + 1;
		if (*p == '$' || *p == '.' || *p == '/')
			continue;
		if (starts(p, line, "{ .reg .b16 tmp; "))
			p += strlen("{ .reg .b16 tmp; ");
		const char *end = memchr(p, ';', (size_t)(r->end - p));
		if (!end || f->nins == r->max_ins || r->nreg + MOST_ARGS > r->max_reg)
			return false;
		instruction(r, p, end);
		if (end > line) {
			line = memchr(end, '\n', (size_t)(r->end - end));
			r->p = line ? line + 1 : r->end;
		}
	}
	return false;
}

/* ---- blocks ---- */

/* Which way a branch goes always; -1: either. */
static int decided(const struct ptx_flow *f, const int8_t *truth, const struct flow_ins *x)
{
	int8_t value = x->uncond ? 1 : truth[f->reg[x->first]];
	return value < 0 ? -1 : value != x->negated;
}

static void add_edges(struct reader *r, const int8_t *truth, const int *block_of, int i)
{
	struct ptx_flow *f = r->f;
	struct flow_block *b = &f->block[i];
	const struct flow_ins *x = b->tail >= 0 ? &f->ins[b->tail] : NULL;
	int target = -1, way = 0;
	if (x && x->kind == PTX_BRANCH) {
		if (x->ret)
			return;
		way = decided(f, truth, x);
		int at = x->label >= 0 && x->label < r->nlabels ? r->label[x->label] : -1;
		target = at >= 0 && at < f->nins ? block_of[at] : -1;
	}
	if (target >= 0 && way)
		b->to[b->nto++] = target;
	if (way != 1 && i + 1 < f->nblocks && target != i + 1)
		b->to[b->nto++] = i + 1;
}

static void make_blocks(struct reader *r)
{
	struct ptx_flow *f = r->f;
	bool *leads = ARENA_ARRAY(r->a, bool, f->nins + 2);
	int *block_of = ARENA_ARRAY(r->a, int, f->nins + 1);
	int8_t *truth = ARENA_ARRAY(r->a, int8_t, f->nregs + 1);
	memset(truth, -1, (size_t)f->nregs + 1);
	for (int i = 0; i < r->nlabels; i++)
		if (r->label[i] >= 0)
			leads[r->label[i]] = true;
	for (int i = 0; i < f->nins; i++) {
		const struct flow_ins *x = &f->ins[i];
		leads[i + 1] |= x->kind == PTX_BRANCH;
		f->nblocks += i == 0 || leads[i];
		if (x->truth >= 0 && x->ndefs == 1 && f->sets[f->reg[x->first]] == 1)
			truth[f->reg[x->first]] = x->truth;
	}
	f->block = ARENA_ARRAY(r->a, struct flow_block, f->nblocks + 1);
	for (int i = 0, n = -1; i < f->nins; i++) {
		if (i == 0 || leads[i])
			f->block[++n] = (struct flow_block){.head = i, .tail = i};
		else {
			f->ins[i - 1].next = i;
			f->block[n].tail = i;
		}
		f->block[n].n++;
		block_of[i] = n;
	}
	for (int i = 0; i < f->nblocks; i++)
		add_edges(r, truth, block_of, i);
}

/* Edges to blocks that only branch lead to where these branch. */
static void skip_empty(struct ptx_flow *f)
{
	for (int i = 0; i < f->nblocks; i++) {
		struct flow_block *b = &f->block[i];
		for (int k = 0; k < b->nto; k++)
			for (int n = 0; n < 8; n++) {
				const struct flow_block *t = &f->block[b->to[k]];
				if (t->n != 1 || t->nto != 1 || f->ins[t->head].kind != PTX_BRANCH)
					break;
				b->to[k] = t->to[0];
			}
		b->nto = b->nto == 2 && b->to[0] == b->to[1] ? 1 : b->nto;
	}
}

/* Drops what cannot be reached, and counts the edges into each block. */
static void reach(struct reader *r)
{
	struct ptx_flow *f = r->f;
	int *stack = ARENA_ARRAY(r->a, int, f->nblocks + 1), n = 0;
	for (int i = 0; i < f->nblocks; i++)
		f->block[i].gone = true;
	stack[n++] = 0;
	f->block[0].gone = false;
	while (n) {
		const struct flow_block *b = &f->block[stack[--n]];
		for (int k = 0; k < b->nto; k++) {
			struct flow_block *t = &f->block[b->to[k]];
			t->nfrom++;
			if (t->gone)
				stack[n++] = b->to[k];
			t->gone = false;
		}
	}
}

static bool can_guard(const struct ptx_flow *f, const struct flow_block *b)
{
	if (b->n > MOST_GUARDED + 1)
		return false;
	for (int i = b->head; i >= 0; i = f->ins[i].next)
		if (f->ins[i].kind == PTX_BARRIER)
			return false;
	return true;
}

static void append(struct ptx_flow *f, struct flow_block *to, struct flow_block *from, bool guarded)
{
	for (int i = from->head; guarded && i >= 0; i = f->ins[i].next)
		f->ins[i].guarded = true;
	if (to->tail >= 0)
		f->ins[to->tail].next = from->head;
	to->tail = from->tail;
	to->n += from->n;
	from->gone = true;
}

/* Joins block i with what follows it, if the assembler would need no branch. */
static bool join(struct ptx_flow *f, int i)
{
	struct flow_block *b = &f->block[i];
	if (b->nto == 1 && b->to[0] != i && f->block[b->to[0]].nfrom == 1) {
		struct flow_block *t = &f->block[b->to[0]];
		append(f, b, t, false);
		b->nto = t->nto;
		memcpy(b->to, t->to, sizeof b->to);
		return true;
	}
	if (b->nto < 2)
		return false;
	for (int k = 0; k < 2; k++) {
		struct flow_block *t = &f->block[b->to[k]], *o = &f->block[b->to[1 - k]];
		int after = t->nto == 1 ? t->to[0] : -1;
		if (t == b || o == b || t->nfrom != 1 || after < 0 || !can_guard(f, t))
			continue;
		if (after == b->to[1 - k]) {
			append(f, b, t, true);
		} else if (o->nfrom == 1 && o->nto == 1 && o->to[0] == after && can_guard(f, o)) {
			append(f, b, t, true);
			append(f, b, o, true);
		} else {
			continue;
		}
		f->block[after].nfrom--;
		b->nto = 1;
		b->to[0] = after;
		return true;
	}
	return false;
}

static void join_blocks(struct ptx_flow *f)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = f->nblocks - 1; i >= 0; i--)
			while (!f->block[i].gone && join(f, i))
				changed = true;
	}
}

/* ---- dead code and live registers ---- */

/* Copies, and addresses that differ by a constant, are the same register. */
static void rename_copies(struct reader *r)
{
	struct ptx_flow *f = r->f;
	uint32_t *is = ARENA_ARRAY(r->a, uint32_t, f->nregs + 1);
	for (uint32_t i = 0; i < (uint32_t)f->nregs; i++)
		is[i] = i;
	for (int i = 0; i < f->nins; i++) {
		struct flow_ins *x = &f->ins[i];
		const uint32_t *reg = f->reg + x->first;
		if (x->renames && f->sets[reg[0]] == 1 && f->sets[reg[1]] == 1 &&
		    f->weight[reg[0]] == f->weight[reg[1]]) {
			is[reg[0]] = is[reg[1]];
			x->dead = true;
		}
	}
	for (int i = 0; i < f->nins; i++)
		for (int k = 0; k < f->ins[i].nuses; k++) {
			uint32_t *u = &f->reg[f->ins[i].first + f->ins[i].ndefs + (uint32_t)k];
			for (int n = 0; is[*u] != *u && n < 64; n++)
				*u = is[*u];
		}
}

static bool has_effect(const struct flow_ins *x)
{
	return x->kind == PTX_STORE || x->kind == PTX_BARRIER || x->kind == PTX_BRANCH || !x->ndefs;
}

/* Lists of the instructions that set each register: those of r are at[r] to at[r + 1] of `by`. */
static void list_setters(struct reader *r, int **at, int **by)
{
	struct ptx_flow *f = r->f;
	int *first = ARENA_ARRAY(r->a, int, f->nregs + 2), *list = ARENA_ARRAY(r->a, int, r->nreg + 1);
	for (int i = 0; i < f->nregs; i++)
		first[i + 1] = first[i] + (int)f->sets[i];
	int *next = arena_memdup(r->a, first, sizeof *first * (size_t)(f->nregs + 1));
	for (int i = 0; i < f->nins; i++)
		for (int k = 0; k < f->ins[i].ndefs; k++)
			list[next[f->reg[f->ins[i].first + (uint32_t)k]]++] = i;
	*at = first;
	*by = list;
}

static void drop_dead(struct reader *r)
{
	struct ptx_flow *f = r->f;
	int *at, *by, *stack = ARENA_ARRAY(r->a, int, f->nins + 1), n = 0;
	bool *here = ARENA_ARRAY(r->a, bool, f->nins + 1), *wanted = ARENA_ARRAY(r->a, bool, f->nins + 1);
	list_setters(r, &at, &by);
	for (int b = 0; b < f->nblocks; b++)
		for (int i = f->block[b].gone ? -1 : f->block[b].head; i >= 0; i = f->ins[i].next) {
			here[i] = !f->ins[i].dead;
			wanted[i] = here[i] && has_effect(&f->ins[i]);
			if (wanted[i])
				stack[n++] = i;
		}
	while (n) {
		const struct flow_ins *x = &f->ins[stack[--n]];
		const uint32_t *use = f->reg + x->first + x->ndefs;
		for (int k = 0; k < x->nuses; k++)
			for (int j = at[use[k]]; j < at[use[k] + 1]; j++)
				if (here[by[j]] && !wanted[by[j]]) {
					wanted[by[j]] = true;
					stack[n++] = by[j];
				}
	}
	for (int b = 0; b < f->nblocks; b++) {
		struct flow_block *k = &f->block[b];
		int *link = &k->head, next;
		k->n = 0;
		for (int i = k->gone ? -1 : k->head; i >= 0; i = next) {
			next = f->ins[i].next;
			if (!wanted[i] || f->ins[i].kind == PTX_BRANCH)
				continue;
			*link = i;
			link = &f->ins[i].next;
			k->n++;
		}
		*link = -1;
	}
}

/* Whether the setter of each conversion's operand makes bytes of it, and whether that matters. */
static void find_slow(struct reader *r)
{
	struct ptx_flow *f = r->f;
	bool *bytes = ARENA_ARRAY(r->a, bool, f->nregs + 1);
	for (int i = 0; i < f->nins; i++)
		if (f->ins[i].ndefs == 1)
			bytes[f->reg[f->ins[i].first]] = f->ins[i].bytes;
	for (int i = 0; i < f->nins; i++) {
		struct flow_ins *x = &f->ins[i];
		if (x->kind == PTX_CONVERT && r->sm >= FAST_CONVERT &&
		    !(x->nuses && bytes[f->reg[x->first + x->ndefs]]))
			x->kind = PTX_PLAIN;
	}
}

static void live_sets(struct reader *r)
{
	struct ptx_flow *f = r->f;
	size_t w = (size_t)(f->words = f->nregs / 64 + 1);
	uint64_t **use = ARENA_ARRAY(r->a, uint64_t *, f->nblocks + 1),
		 **set = ARENA_ARRAY(r->a, uint64_t *, f->nblocks + 1);
	for (int b = 0; b < f->nblocks; b++) {
		struct flow_block *k = &f->block[b];
		if (k->gone)
			continue;
		k->in = ARENA_ARRAY(r->a, uint64_t, 4 * w);
		k->out = k->in + w;
		use[b] = k->out + w;
		set[b] = use[b] + w;
		for (int i = k->head; i >= 0; i = f->ins[i].next) {
			const struct flow_ins *x = &f->ins[i];
			const uint32_t *reg = f->reg + x->first;
			for (int j = x->ndefs; j < x->ndefs + x->nuses; j++)
				if (!ptx_in(set[b], reg[j]))
					use[b][reg[j] / 64] |= UINT64_C(1) << (reg[j] % 64);
			for (int j = 0; j < x->ndefs; j++)
				set[b][reg[j] / 64] |= UINT64_C(1) << (reg[j] % 64);
		}
	}
	for (bool changed = true; changed;) {
		changed = false;
		for (int b = f->nblocks - 1; b >= 0; b--) {
			struct flow_block *k = &f->block[b];
			for (size_t j = 0; j < w && !k->gone; j++) {
				for (int t = 0; t < k->nto; t++)
					k->out[j] |= f->block[k->to[t]].in[j];
				uint64_t in = use[b][j] | (k->out[j] & ~set[b][j]);
				changed |= in != k->in[j];
				k->in[j] = in;
			}
		}
	}
}

static bool open_entry(struct reader *r, int entry)
{
	const char *target = find(r->p, r->end, ".target sm_");
	if (target) {
		target += strlen(".target sm_");
		r->sm = (int)number(&target, r->end);
	}
	for (int i = 0; i <= entry && r->p; i++) {
		r->p = find(r->p, r->end, ".entry ");
		r->p = r->p ? find(r->p, r->end, "\n{\n") : NULL;
		r->p = r->p ? r->p + 3 : NULL;
	}
	return r->p;
}

/* Bounds of what the text can hold: each instruction ends with a semicolon, a register begins with a '%'. */
static void make_room(struct reader *r)
{
	uint32_t ends = 0, regs = 0;
	for (const char *p = r->p; p < r->end; p++) {
		ends += *p == ';';
		regs += *p == '%';
	}
	r->max_ins = ends < MOST_INS ? (int)ends : MOST_INS;
	r->max_reg = regs + 2 * MOST_ARGS;
	r->f->ins = ARENA_ARRAY(r->a, struct flow_ins, r->max_ins + 1);
	r->f->reg = ARENA_ARRAY(r->a, uint32_t, r->max_reg);
	r->nlabels = 4 * r->max_ins + 256; /* LLVM leaves numbers out */
	r->label = ARENA_ARRAY(r->a, int, r->nlabels);
	memset(r->label, -1, sizeof *r->label * (size_t)r->nlabels);
}

bool ptx_flow(const char *text, size_t n, int entry, struct arena *a, struct ptx_flow *out)
{
	*out = (struct ptx_flow){0};
	struct reader r = {.p = text, .end = text + n, .a = a, .f = out};
	if (!open_entry(&r, entry))
		return false;
	const char *end = find(r.p, r.end, "\n}\n");
	r.end = end ? end + 2 : r.end;
	make_room(&r);
	if (!read_body(&r) || !out->nins || !out->weight)
		return false;
	out->sets = ARENA_ARRAY(a, uint32_t, out->nregs + 1);
	for (int i = 0; i < out->nins; i++)
		for (int k = 0; k < out->ins[i].ndefs; k++)
			out->sets[out->reg[out->ins[i].first + (uint32_t)k]]++;
	make_blocks(&r);
	skip_empty(out);
	reach(&r);
	join_blocks(out);
	rename_copies(&r);
	for (int i = 0; i < out->nins; i++) {
		const struct flow_ins *x = &out->ins[i];
		for (int k = 0; k < x->ndefs && x->kind == PTX_IMMEDIATE; k++)
			if (out->sets[out->reg[x->first + (uint32_t)k]] == 1)
				out->weight[out->reg[x->first + (uint32_t)k]] = 0;
	}
	drop_dead(&r);
	find_slow(&r);
	live_sets(&r);
	return true;
}
