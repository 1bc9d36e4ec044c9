/* SPDX-License-Identifier: Apache-2.0 */
/* Makes instructions of text: mnemonic with its suffixes, and operands. */
#include "tests/lib/ptx_decode.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	uint8_t bytes;
} types[T_TYPES] = {
    [T_NONE] = {"", 0},     [T_PRED] = {"pred", 0},     [T_B8] = {"b8", 1},   [T_B16] = {"b16", 2},
    [T_B32] = {"b32", 4},   [T_B64] = {"b64", 8},       [T_U8] = {"u8", 1},   [T_U16] = {"u16", 2},
    [T_U32] = {"u32", 4},   [T_U64] = {"u64", 8},       [T_S8] = {"s8", 1},   [T_S16] = {"s16", 2},
    [T_S32] = {"s32", 4},   [T_S64] = {"s64", 8},       [T_F16] = {"f16", 2}, [T_F16X2] = {"f16x2", 4},
    [T_BF16] = {"bf16", 2}, [T_BF16X2] = {"bf16x2", 4}, [T_F32] = {"f32", 4}, [T_F64] = {"f64", 8},
    [T_TF32] = {"tf32", 4},
};

const char *ptx_type_name(int t)
{
	return types[t].name;
}

unsigned ptx_type_bytes(int t)
{
	return types[t].bytes;
}

int ptx_type_of(const char *s, int n)
{
	for (int t = T_PRED; t < T_TYPES; t++)
		if ((int)strlen(types[t].name) == n && !memcmp(types[t].name, s, (size_t)n))
			return t;
	return T_NONE;
}

static int rounding(struct words *w)
{
	static const struct {
		const char *name;
		uint8_t round;
	} rows[] = {{"rn", R_RN},   {"rz", R_RZ},   {"rm", R_RM},   {"rp", R_RP},  {"rni", R_RNI},
		    {"rzi", R_RZI}, {"rmi", R_RMI}, {"rpi", R_RPI}, {"rna", R_RNA}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (has(w, rows[i].name))
			return rows[i].round;
	return R_NONE;
}

int ptx_want_args(const struct decoder *d, int least, int most)
{
	if (d->l->nargs < least || d->l->nargs > most)
		return fail(E_CORRUPT, "%d operands, wanted %d", d->l->nargs,
			    d->l->nargs < least ? least : most);
	return 0;
}

/* An operand that is read, of `bytes` per lane (0: a predicate); wider: a wider register will do. */
int ptx_read_arg(struct decoder *d, const struct ptx_arg *a, unsigned bytes, bool wider, struct ptx_opnd *o)
{
	const struct ptx_var *v;
	switch (a->kind) {
	case A_REG:
		if (a->reg.bytes != bytes && !(wider && bytes && a->reg.bytes > bytes))
			return fail(E_CORRUPT, "an operand of %u bits, wanted %u", 8u * a->reg.bytes,
				    8 * bytes);
		*o = a->reg;
		return 0;
	case A_F32:
	case A_F64:
		if (bytes != (a->kind == A_F32 ? 4 : 8))
			return fail(E_CORRUPT, "a float's size is not its instruction's");
		*o = ptx_constant(d->p, a->value, bytes);
		return 0;
	case A_INT:
		*o = ptx_constant(d->p, bytes ? a->value : a->value ? ALL_LANES : 0, bytes);
		return 0;
	case A_SPECIAL:
		if (bytes != 4)
			return fail(E_UNSUPPORTED, "a special register as one of %u bits", 8 * bytes);
		*o = ptx_special(d->p, (int)a->value);
		return 0;
	case A_SYMBOL:
		v = ptx_variable(d->p, a->name, a->n);
		if (!v)
			return fail(E_CORRUPT, "unknown name \"%.*s\"", a->n, a->name);
		if (bytes != 4 && bytes != 8)
			return fail(E_CORRUPT, "an address of %u bits", 8 * bytes);
		*o = ptx_constant(d->p, v->address + a->value, bytes);
		return 0;
	default:
		return fail(E_CORRUPT, "an operand that cannot be read here");
	}
}

int ptx_write_arg(const struct ptx_arg *a, unsigned bytes, bool wider, struct ptx_opnd *o)
{
	if (a->kind == A_SINK) {
		*o = (struct ptx_opnd){.reg = SINK, .bytes = (uint8_t)bytes};
		return 0;
	}
	if (a->kind != A_REG)
		return fail(E_CORRUPT, "the result's operand is no register");
	if (a->reg.bytes != bytes && !(wider && bytes && a->reg.bytes > bytes))
		return fail(E_CORRUPT, "a result of %u bits, wanted %u", 8u * a->reg.bytes, 8 * bytes);
	*o = a->reg;
	return 0;
}

/* ---- operations that a row computes ---- */

static const struct ptx_row *find_row(const char *name)
{
	static const struct ptx_row *const tables[] = {ptx_int_rows, ptx_float_rows, ptx_half_rows};
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct ptx_row *r = tables[t]; r->name; r++)
			if (!strcmp(r->name, name))
				return r;
	return NULL;
}

static int use_row(struct decoder *d, const struct ptx_row *r)
{
	struct ptx_ins *in = d->in;
	int rc, ns = 0;
	while (ns < 4 && r->s[ns] != T_NONE)
		ns++;
	in->kind = K_LANES;
	in->fn = ptx_fastest(r->fn);
	in->nd = 1;
	in->ns = (uint8_t)ns;
	bool table = !strcmp(r->name, "lop3.b32"); /* its last operand is a number */
	rc = ptx_want_args(d, 1 + ns + table, 1 + ns + table);
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], ptx_type_bytes(r->d), false, &in->d[0]);
	for (int i = 0; i < ns && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[1 + i], ptx_type_bytes(r->s[i]), false, &in->s[i]);
	if (table)
		in->imm = (int64_t)d->l->arg[4].value;
	return rc;
}

static int decode_lanes(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	struct words *w = d->w;
	char name[96];
	int n = 0, round = rounding(w);
	bool ftz = has(w, "ftz"), sat = has(w, "sat");
	in->relu = has(w, "relu");
	has(w, "approx");
	has(w, "full");
	n = snprintf(name, sizeof name, "%.*s", w->len[0], w->s[0]);
	int types_at = w->n;
	for (int i = 1; i < w->n; i++)
		if (!w->used[i] && ptx_type_of(w->s[i], w->len[i]) == T_NONE) {
			n += snprintf(name + n, sizeof name - (size_t)n, ".%.*s", w->len[i], w->s[i]);
			w->used[i] = true;
		} else if (!w->used[i] && types_at == w->n) {
			types_at = i;
		}
	if (types_at == w->n || n > 40)
		return fail(E_UNSUPPORTED, "unknown instruction");
	int t = in->type = (uint8_t)next_type(w), t2 = next_type(w);
	const char *second = t2 == T_NONE ? "" : ".";
	const struct ptx_row *r = NULL;
	in->round = round == R_NONE ? R_RN : (uint8_t)round;
	in->ftz = ftz;
	in->sat = sat && ptx_floats(t);
	bool plain = in->round == R_RN && !in->sat && !in->relu;
	if (sat && !ptx_floats(t))
		snprintf(name + n, sizeof name - (size_t)n, ".sat.%s%s%s", ptx_type_name(t), second,
			 ptx_type_name(t2));
	else if (ftz && plain)
		snprintf(name + n, sizeof name - (size_t)n, ".ftz.%s%s%s", ptx_type_name(t), second,
			 ptx_type_name(t2));
	else
		snprintf(name + n, sizeof name - (size_t)n, ".%s%s%s", ptx_type_name(t), second,
			 ptx_type_name(t2));
	r = find_row(name);
	if (!r && ftz && plain) {
		plain = false;
		snprintf(name + n, sizeof name - (size_t)n, ".%s%s%s", ptx_type_name(t), second,
			 ptx_type_name(t2));
		r = find_row(name);
	}
	if (!r)
		return fail(E_UNSUPPORTED, "unknown instruction");
	bool narrow = t == T_F16 || t == T_F16X2 || t == T_BF16 || t == T_BF16X2;
	if ((round != R_NONE || ftz || sat) && !ptx_floats(t) && !sat)
		return fail(E_CORRUPT, "a rounding, .ftz or .sat of integers");
	if (narrow && in->round != R_RN)
		return fail(E_UNSUPPORTED, "a rounding of 16-bit floats that is not .rn");
	in->slow = ptx_floats(t) && !plain;
	in->divides = !ptx_floats(t) && (!strncmp(name, "div.", 4) || !strncmp(name, "rem.", 4));
	return use_row(d, r);
}

/* ---- moves, predicates ---- */

static int decode_mov(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	int t = in->type = (uint8_t)next_type(d->w), rc = ptx_want_args(d, 2, 2);
	const struct ptx_arg *to = &d->l->arg[0], *from = &d->l->arg[1];
	if (rc < 0)
		return rc;
	if (t == T_NONE)
		return fail(E_UNSUPPORTED, "unknown type");
	unsigned bytes = ptx_type_bytes(t);
	in->kind = K_MOVE;
	if (t == T_PRED) {
		in->kind = K_LOGIC;
		in->bop = 'm';
	}
	in->nd = in->ns = 1;
	if (to->kind == A_VECTOR && from->kind == A_VECTOR)
		return fail(E_CORRUPT, "a move between vectors");
	if (to->kind == A_VECTOR)
		in->nd = (uint8_t)to->nparts;
	if (from->kind == A_VECTOR)
		in->ns = (uint8_t)from->nparts;
	if (in->nd > MOST_VECTOR || in->ns > MOST_VECTOR || (in->nd > 1 && bytes % in->nd) ||
	    (in->ns > 1 && bytes % in->ns))
		return fail(E_CORRUPT, "a vector of %d elements",
			    to->kind == A_VECTOR ? to->nparts : from->nparts);
	for (int i = 0; i < in->nd && rc >= 0; i++)
		rc =
		    ptx_write_arg(to->kind == A_VECTOR ? &to->part[i] : to, bytes / in->nd, false, &in->d[i]);
	for (int i = 0; i < in->ns && rc >= 0; i++)
		rc = ptx_read_arg(d, from->kind == A_VECTOR ? &from->part[i] : from, bytes / in->ns, false,
				  &in->s[i]);
	return rc;
}

static int decode_logic(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	bool not = d->w->len[0] == 3 && *d->w->s[0] == 'n';
	if (!has(d->w, "pred"))
		return decode_lanes(d);
	in->kind = K_LOGIC;
	in->nd = 1;
	in->ns = not ? 1 : 2;
	in->bop = *d->w->s[0] == 'n' ? 'n' : *d->w->s[0] == 'x' ? 'x' : *d->w->s[0];
	int rc = ptx_want_args(d, 1 + in->ns, 1 + in->ns);
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], 0, false, &in->d[0]);
	for (int i = 0; i < in->ns && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[1 + i], 0, false, &in->s[i]);
	return rc;
}

static int boolean(struct words *w)
{
	return has(w, "and") ? 'a' : has(w, "or") ? 'o' : has(w, "xor") ? 'x' : 0;
}

static const struct ptx_cmp_row *find_cmp(struct words *w, int type)
{
	for (const struct ptx_cmp_row *r = ptx_floats(type) ? ptx_float_cmps : ptx_int_cmps; r->name; r++)
		if (r->type == type && has(w, r->name))
			return r;
	return NULL;
}

/* Types whose comparisons are the same. */
static int cmp_type(int t)
{
	return t == T_B16 ? T_U16 : t == T_B32 ? T_U32 : t == T_B64 ? T_U64 : t;
}

/* Sets in->cmp and the two compared operands, which begin at operand `first`. */
static int decode_cmp(struct decoder *d, int type, int first)
{
	struct ptx_ins *in = d->in;
	in->stype = (uint8_t)type;
	in->bop = (uint8_t)boolean(d->w);
	in->ftz = has(d->w, "ftz");
	const struct ptx_cmp_row *r = find_cmp(d->w, cmp_type(type));
	if (!r)
		return fail(E_UNSUPPORTED, "unknown comparison");
	in->cmp = r->fn;
	in->ns = in->bop ? 3 : 2;
	int rc = ptx_want_args(d, first + in->ns, first + in->ns);
	for (int i = 0; i < 2 && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[first + i], ptx_type_bytes(type), false, &in->s[i]);
	if (rc >= 0 && in->bop)
		rc = ptx_read_arg(d, &d->l->arg[first + 2], 0, false, &in->s[2]);
	return rc;
}

static int decode_setp(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	in->kind = K_SETP;
	int rc = decode_cmp(d, next_type(d->w), 1);
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], 0, false, &in->d[0]);
	in->nd = 1;
	if (rc >= 0 && d->l->arg[0].second) {
		rc = ptx_write_arg(d->l->arg[0].second, 0, false, &in->d[1]);
		in->nd = 2;
	}
	return rc;
}

/* set.lt.u32.f32: all ones (1.0 for floats) or zero. */
static int decode_set(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	in->kind = K_SETP;
	in->sub = 1;
	in->nd = 1;
	in->type = (uint8_t)next_type(d->w);
	int rc = decode_cmp(d, next_type(d->w), 1);
	return rc < 0 ? rc : ptx_write_arg(&d->l->arg[0], ptx_type_bytes(in->type), false, &in->d[0]);
}

static int decode_cvt(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	in->kind = K_CONVERT;
	in->nd = 1;
	in->round = (uint8_t)rounding(d->w);
	in->ftz = has(d->w, "ftz");
	in->sat = has(d->w, "sat");
	in->relu = has(d->w, "relu");
	in->type = (uint8_t)next_type(d->w);
	in->stype = (uint8_t)next_type(d->w);
	if (in->type == T_NONE || in->stype == T_NONE || in->type == T_PRED || in->stype == T_PRED)
		return fail(E_UNSUPPORTED, "unknown conversion");
	bool pair = in->type == T_F16X2 || in->type == T_BF16X2;
	bool tf32 = in->type == T_TF32, plain = !in->ftz && !in->sat && !in->relu;
	if (in->stype == T_F16X2 || in->stype == T_BF16X2 || in->stype == T_TF32 ||
	    ((pair || tf32) && in->stype != T_F32) || tf32 != (in->round == R_RNA) || (tf32 && !plain))
		return fail(E_UNSUPPORTED, "unknown conversion");
	in->ns = pair ? 2 : 1;
	in->fn = ptx_convert;
	int rc = ptx_want_args(d, 1 + in->ns, 1 + in->ns);
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], ptx_type_bytes(in->type), !ptx_floats(in->type), &in->d[0]);
	for (int i = 0; i < in->ns && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[1 + i], ptx_type_bytes(in->stype), true, &in->s[i]);
	return rc;
}

int ptx_space_of(struct words *w)
{
	return has(w, "global")                            ? S_GLOBAL
	       : has(w, "shared") || has(w, "shared::cta") ? S_SHARED
	       : has(w, "const")                           ? S_CONST
	       : has(w, "param") || has(w, "param::entry") ? S_PARAM
	       : has(w, "local")                           ? S_LOCAL
							   : S_GENERIC;
}

/* cvta.shared.u64, cvta.to.shared.u64: adds or subtracts the window of the space. */
static int decode_cvta(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	bool to = has(d->w, "to");
	int space = ptx_space_of(d->w), t = next_type(d->w);
	const char *name = space == S_SHARED || space == S_LOCAL ? (to ? "sub.u64" : "add.u64") : "mov.u64";
	if (t != T_U64)
		return fail(E_UNSUPPORTED, "addresses that are not of 64 bits");
	int rc = ptx_want_args(d, 2, 2);
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], 8, false, &in->d[0]);
	if (rc >= 0)
		rc = ptx_read_arg(d, &d->l->arg[1], 8, false, &in->s[0]);
	in->nd = in->ns = 1;
	in->type = T_U64;
	in->kind = K_MOVE;
	if (*name == 'm' || rc < 0)
		return rc;
	in->kind = K_LANES;
	in->ns = 2;
	in->s[1] = ptx_constant(d->p, space == S_SHARED ? SHARED_WINDOW : LOCAL_WINDOW, 8);
	in->fn = find_row(name)->fn;
	return 0;
}

/* ---- memory ---- */

/* The base of an address into s[0], its offset into imm. */
int ptx_address_arg(struct decoder *d, const struct ptx_arg *a, struct ptx_opnd *o, int64_t *offset)
{
	if (a->kind != A_ADDRESS)
		return fail(E_CORRUPT, "wanted an address in brackets");
	*offset = (int64_t)a->value;
	if (!a->part) {
		*o = ptx_constant(d->p, a->value, 8);
		*offset = 0;
		return 0;
	}
	if (a->part->kind == A_REG && a->part->reg.bytes != 4 && a->part->reg.bytes != 8)
		return fail(E_CORRUPT, "an address of %u bits", 8u * a->part->reg.bytes);
	return ptx_read_arg(d, a->part, a->part->kind == A_REG ? a->part->reg.bytes : 8, false, o);
}

/* Hints and orders of memory that change nothing here. */
static void skip_hints(struct words *w)
{
	static const char *const hints[] = {"ca",      "cg",      "cs",       "lu",   "cv",      "wb",
					    "wt",      "nc",      "volatile", "weak", "relaxed", "acquire",
					    "release", "acq_rel", "cta",      "gpu",  "sys",     "cluster",
					    "unified", "noftz",   NULL};
	for (int i = 0; hints[i]; i++)
		has(w, hints[i]);
	for (int i = 1; i < w->n; i++)
		if (w->len[i] > 4 && w->s[i][0] == 'L' && !memcmp(w->s[i] + 2, "::", 2))
			w->used[i] = true;
}

static int decode_memory(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	bool load = *d->w->s[0] == 'l';
	in->kind = load ? K_LOAD : K_STORE;
	in->space = (uint8_t)ptx_space_of(d->w);
	if (has(d->w, "relaxed") || has(d->w, "acquire") || has(d->w, "release"))
		in->sub = 1; /* races with nothing of its kind */
	skip_hints(d->w);
	in->vector = has(d->w, "v2") ? 2 : has(d->w, "v4") ? 4 : 1;
	int t = in->type = (uint8_t)next_type(d->w), rc = ptx_want_args(d, 2, 2);
	if (t == T_NONE || t == T_PRED)
		return fail(E_UNSUPPORTED, "unknown type");
	const struct ptx_arg *values = &d->l->arg[load ? 0 : 1];
	bool vector = values->kind == A_VECTOR;
	if (rc >= 0 && (vector ? values->nparts : 1) != in->vector)
		return fail(E_CORRUPT, "wanted a vector of %d", in->vector);
	if (!load && (in->space == S_CONST || in->space == S_PARAM))
		return fail(E_CORRUPT, "a store to read-only memory");
	if (rc >= 0)
		rc = ptx_address_arg(d, &d->l->arg[load ? 1 : 0], &in->s[0], &in->imm);
	for (int i = 0; i < in->vector && rc >= 0; i++) {
		const struct ptx_arg *a = vector ? &values->part[i] : values;
		rc = load ? ptx_write_arg(a, ptx_type_bytes(t), true, &in->d[i])
			  : ptx_read_arg(d, a, ptx_type_bytes(t), true, &in->s[1 + i]);
	}
	in->nd = load ? in->vector : 0;
	in->ns = load ? 1 : (uint8_t)(1 + in->vector);
	return rc;
}

/* cp.async.cg.shared.global [to], [from], 16, bytes that are read; the rest is zero. */
static int decode_copy(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	if (!has(d->w, "async"))
		return fail(E_UNSUPPORTED, "unknown instruction");
	if (has(d->w, "commit_group")) {
		in->kind = K_COPY_COMMIT;
		return ptx_want_args(d, 0, 0);
	}
	if (has(d->w, "wait_all") || has(d->w, "wait_group")) {
		in->kind = K_COPY_WAIT;
		in->imm = has(d->w, "wait_all") ? -1 : (int64_t)d->l->arg[0].value;
		return ptx_want_args(d, in->imm < 0 ? 0 : 1, in->imm < 0 ? 0 : 1);
	}
	bool cg = has(d->w, "cg");
	if (!has(d->w, "shared") && !has(d->w, "shared::cta"))
		return fail(E_UNSUPPORTED, "unknown instruction");
	if (!has(d->w, "global"))
		return fail(E_UNSUPPORTED, "unknown instruction");
	skip_hints(d->w);
	in->kind = K_COPY;
	int rc = ptx_want_args(d, 3, 4);
	int64_t to = 0, from = 0;
	if (rc >= 0)
		rc = ptx_address_arg(d, &d->l->arg[0], &in->s[0], &to);
	if (rc >= 0)
		rc = ptx_address_arg(d, &d->l->arg[1], &in->s[1], &from);
	if (rc < 0)
		return rc;
	uint64_t bytes = d->l->arg[2].kind == A_INT ? d->l->arg[2].value : 0;
	if (bytes != 16 && (cg || (bytes != 4 && bytes != 8)))
		return fail(E_CORRUPT, "a copy of %llu bytes", (unsigned long long)bytes);
	if (to != (int32_t)to || from != (int32_t)from)
		return fail(E_UNSUPPORTED, "an address's offset beyond 32 bits");
	in->imm = (int64_t)((uint64_t)from << 32 | (uint32_t)to);
	in->vector = (uint8_t)bytes;
	in->ns = 2;
	if (d->l->nargs == 4) {
		in->ns = 3;
		rc = ptx_read_arg(d, &d->l->arg[3], 4, false, &in->s[2]);
	}
	return rc;
}

/* atom.global.add.f32 d, [a], b; red has no d. The operation is kept as its letters. */
static int decode_atomic(struct decoder *d)
{
	static const char *const ops[] = {"add",  "min", "max", "and", "or", "xor",
					  "exch", "cas", "inc", "dec", NULL};
	struct ptx_ins *in = d->in;
	bool red = *d->w->s[0] == 'r';
	in->kind = K_ATOMIC;
	in->space = (uint8_t)ptx_space_of(d->w);
	skip_hints(d->w);
	int op = 0, rc, first = red ? 0 : 1;
	while (ops[op] && !has(d->w, ops[op]))
		op++;
	in->sub = (uint8_t)op;
	in->vector = 1;
	int t = in->type = (uint8_t)next_type(d->w);
	in->ns = op == 7 ? 3 : 2;
	if (!ops[op] || t == T_NONE || t == T_PRED || ptx_type_bytes(t) < 2)
		return fail(E_UNSUPPORTED, "unknown atomic operation");
	rc = ptx_want_args(d, first + in->ns, first + in->ns);
	if (rc >= 0)
		rc = ptx_address_arg(d, &d->l->arg[first], &in->s[0], &in->imm);
	for (int i = 1; i < in->ns && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[first + i], ptx_type_bytes(t), false, &in->s[i]);
	in->nd = 1;
	in->d[0].reg = SINK;
	if (rc >= 0 && !red)
		rc = ptx_write_arg(&d->l->arg[0], ptx_type_bytes(t), false, &in->d[0]);
	return rc;
}

/* ---- control ---- */

static int decode_bra(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	in->kind = K_BRANCH;
	in->uniform = has(d->w, "uni");
	int rc = ptx_want_args(d, 1, 1);
	if (rc >= 0 && d->l->arg[0].kind != A_SYMBOL)
		return fail(E_CORRUPT, "wanted a label");
	if (rc >= 0) /* the parser replaces the label's place in the text by its instruction */
		in->imm = d->l->arg[0].name - d->l->module;
	return rc;
}

static int decode_exit(struct decoder *d)
{
	has(d->w, "uni");
	d->in->kind = K_EXIT;
	return ptx_want_args(d, 0, 0);
}

static int decode_nothing(struct decoder *d)
{
	for (int i = 1; i < d->w->n; i++)
		d->w->used[i] = true;
	d->in->kind = K_NOTHING;
	return 0;
}

static int decode_bar(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	bool barrier = d->w->len[0] > 3;
	if (!barrier && has(d->w, "warp")) {
		has(d->w, "sync");
		in->kind = K_WARP_SYNC;
		in->ns = 1;
		int rc = ptx_want_args(d, 1, 1);
		return rc < 0 ? rc : ptx_read_arg(d, &d->l->arg[0], 4, false, &in->s[0]);
	}
	has(d->w, "cta");
	in->aligned = !barrier || has(d->w, "aligned");
	in->kind = K_BARRIER;
	in->sub = has(d->w, "arrive");
	if (!in->sub && !has(d->w, "sync"))
		return fail(E_UNSUPPORTED, "unknown barrier");
	int rc = ptx_want_args(d, in->sub ? 2 : 1, 2);
	in->ns = (uint8_t)d->l->nargs;
	for (int i = 0; i < in->ns && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[i], 4, false, &in->s[i]);
	return rc;
}

/* shfl.sync.bfly.b32 d|p, a, lane, clamp, lanes */
static int decode_shfl(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	in->kind = K_SHUFFLE;
	if (!has(d->w, "sync") || !has(d->w, "b32"))
		return fail(E_UNSUPPORTED, "unknown shuffle");
	in->sub = has(d->w, "idx")    ? 'i'
		  : has(d->w, "bfly") ? 'b'
		  : has(d->w, "up")   ? 'u'
		  : has(d->w, "down") ? 'd'
				      : 0;
	if (!in->sub)
		return fail(E_UNSUPPORTED, "unknown shuffle");
	int rc = ptx_want_args(d, 5, 5);
	in->nd = 1;
	in->ns = 4;
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], 4, false, &in->d[0]);
	if (rc >= 0 && d->l->arg[0].second) {
		in->nd = 2;
		rc = ptx_write_arg(d->l->arg[0].second, 0, false, &in->d[1]);
	}
	for (int i = 0; i < 4 && rc >= 0; i++)
		rc = ptx_read_arg(d, &d->l->arg[1 + i], 4, false, &in->s[i]);
	return rc;
}

/* vote.sync.ballot.b32 d, p, lanes; .any.pred .all.pred .uni.pred */
static int decode_vote(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	in->kind = K_VOTE;
	in->sub = has(d->w, "ballot") ? 'b'
		  : has(d->w, "any")  ? 'o'
		  : has(d->w, "all")  ? 'a'
		  : has(d->w, "uni")  ? 'u'
				      : 0;
	bool ballot = in->sub == 'b';
	if (!has(d->w, "sync") || !in->sub || !has(d->w, ballot ? "b32" : "pred"))
		return fail(E_UNSUPPORTED, "unknown vote");
	in->nd = 1;
	in->ns = 2;
	int rc = ptx_want_args(d, 3, 3);
	if (rc >= 0)
		rc = ptx_write_arg(&d->l->arg[0], ballot ? 4 : 0, false, &in->d[0]);
	if (rc >= 0)
		rc = ptx_read_arg(d, &d->l->arg[1], 0, false, &in->s[1]);
	return rc < 0 ? rc : ptx_read_arg(d, &d->l->arg[2], 4, false, &in->s[0]);
}

static int decode_active(struct decoder *d)
{
	has(d->w, "b32");
	d->in->kind = K_ACTIVE;
	d->in->nd = 1;
	int rc = ptx_want_args(d, 1, 1);
	return rc < 0 ? rc : ptx_write_arg(&d->l->arg[0], 4, false, &d->in->d[0]);
}

static const struct {
	const char *name;
	int (*decode)(struct decoder *d);
} bases[] = {
    {"mov", decode_mov},           {"and", decode_logic},         {"or", decode_logic},
    {"xor", decode_logic},         {"not", decode_logic},         {"setp", decode_setp},
    {"set", decode_set},           {"cvt", decode_cvt},           {"cvta", decode_cvta},
    {"ld", decode_memory},         {"ldu", decode_memory},        {"st", decode_memory},
    {"cp", decode_copy},           {"atom", decode_atomic},       {"red", decode_atomic},
    {"bra", decode_bra},           {"ret", decode_exit},          {"exit", decode_exit},
    {"bar", decode_bar},           {"barrier", decode_bar},       {"shfl", decode_shfl},
    {"vote", decode_vote},         {"activemask", decode_active}, {"membar", decode_nothing},
    {"fence", decode_nothing},     {"prefetch", decode_nothing},  {"prefetchu", decode_nothing},
    {"nanosleep", decode_nothing}, {"wmma", ptx_decode_wmma},     {"ldmatrix", ptx_decode_ldmatrix},
    {"mma", ptx_decode_mma},
};

int ptx_decode(struct ptx_parser *p, const struct ptx_line *l, struct ptx_ins *in)
{
	struct words w = {.n = 0};
	for (const char *s = l->word, *end = s + l->n; s < end && w.n < MOST_SUFFIXES; w.n++) {
		const char *dot = memchr(s, '.', (size_t)(end - s));
		w.s[w.n] = s;
		w.len[w.n] = (int)((dot ? dot : end) - s);
		s = dot ? dot + 1 : end;
	}
	struct decoder d = {p, l, &w, in};
	int (*decode)(struct decoder *) = decode_lanes;
	for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
		if ((int)strlen(bases[i].name) == w.len[0] &&
		    !memcmp(bases[i].name, w.s[0], (size_t)w.len[0]))
			decode = bases[i].decode;
	int rc = decode(&d);
	for (int i = 1; i < w.n && rc >= 0; i++)
		if (!w.used[i])
			rc = fail(E_UNSUPPORTED, "unknown suffix \"%.*s\"", w.len[i], w.s[i]);
	return rc;
}
