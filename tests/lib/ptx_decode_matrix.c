/* SPDX-License-Identifier: Apache-2.0 */
/* Makes instructions of matrices: wmma, ldmatrix and mma. */
#include "tests/lib/ptx_decode.h"

/* Appends the n registers of a fragment; results are written. */
static int registers_arg(struct decoder *d, const struct ptx_arg *a, int n, bool result, struct ptx_opnd *to)
{
	int rc = 0;
	if (a->kind != A_VECTOR || a->nparts != n)
		return fail(E_CORRUPT, "wanted a fragment of %d registers", n);
	for (int i = 0; i < n && rc >= 0; i++)
		rc = result ? ptx_write_arg(&a->part[i], 4, false, &to[i])
			    : ptx_read_arg(d, &a->part[i], 4, false, &to[i]);
	d->in->nregs = (uint8_t)(d->in->nregs + n);
	return rc;
}

static int fragment_arg(struct decoder *d, const struct ptx_arg *a, int type, bool result,
			struct ptx_opnd *to)
{
	return registers_arg(d, a, ptx_matrix_registers(type), result, to);
}

/* The order of the next matrix. */
static int decode_order(struct words *w, bool *columns)
{
	for (int i = 1; i < w->n; i++)
		if (!w->used[i] && w->len[i] == 3 &&
		    (!memcmp(w->s[i], "row", 3) || !memcmp(w->s[i], "col", 3))) {
			*columns = *w->s[i] == 'c';
			w->used[i] = true;
			return 0;
		}
	return fail(E_CORRUPT, "the order of a matrix is missing");
}

/* Of an element of the part 'a', 'b' or 'c'. */
static bool is_matrix_type(int part, int t)
{
	return part == 'c' ? t == T_F32 || t == T_S32 : t == T_F16 || t == T_BF16 || t == T_S8 || t == T_U8;
}

/* wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 d, a, b, c: of f16; of others all four types stand there.
 */
static int decode_product(struct decoder *d, struct ptx_opnd *regs)
{
	struct ptx_ins *in = d->in;
	int t[4] = {T_NONE, T_NONE, T_NONE, T_NONE}, n = 0, rc = decode_order(d->w, &in->columns[0]);
	if (rc >= 0)
		rc = decode_order(d->w, &in->columns[1]);
	while (n < 4 && (t[n] = next_type(d->w)) != T_NONE)
		n++;
	in->sub = 'm';
	in->type = (uint8_t)t[0];
	in->stype = (uint8_t)(n == 2 ? T_F16 : t[1]);
	if (n == 2 ? t[0] != T_F32 || t[1] != T_F32
		   : n != 4 || t[1] != t[2] || t[0] != t[3] || !is_matrix_type('a', t[1]) ||
			 t[0] != (ptx_floats(t[1]) ? T_F32 : T_S32))
		return fail(E_UNSUPPORTED, "unknown types of matrices");
	const int type[4] = {in->type, in->stype, in->stype, in->type};
	if (rc >= 0)
		rc = ptx_want_args(d, 4, 4);
	for (int i = 0; i < 4 && rc >= 0; i++)
		rc = fragment_arg(d, &d->l->arg[i], type[i], !i, regs + in->nregs);
	return rc;
}

int ptx_decode_wmma(struct decoder *d)
{
	bool load = has(d->w, "load"), store = has(d->w, "store");
	struct ptx_ins *in = d->in;
	struct ptx_opnd *regs = ptx_operands(d->p, 32);
	in->kind = K_MATRIX;
	in->regs = regs;
	has(d->w, "aligned");
	if (!has(d->w, "sync") || !has(d->w, "m16n16k16"))
		return fail(E_UNSUPPORTED, "unknown matrices");
	if (has(d->w, "mma"))
		return decode_product(d, regs);
	in->sub = load ? 'l' : 's';
	in->matrix = load && has(d->w, "a") ? 'a' : load && has(d->w, "b") ? 'b' : 'c';
	if (in->matrix == 'c' && !has(d->w, load ? "c" : "d"))
		return fail(E_UNSUPPORTED, "unknown part of a product");
	int rc = decode_order(d->w, &in->columns[0]);
	in->space = (uint8_t)ptx_space_of(d->w);
	in->type = (uint8_t)next_type(d->w);
	in->vector = 1;
	in->ns = 2;
	if ((!load && !store) || !is_matrix_type(in->matrix, in->type))
		return fail(E_UNSUPPORTED, "unknown type of a matrix");
	if (rc >= 0)
		rc = ptx_want_args(d, 3, 3);
	if (rc >= 0)
		rc = fragment_arg(d, &d->l->arg[store ? 1 : 0], in->type, load, regs);
	if (rc >= 0)
		rc = ptx_address_arg(d, &d->l->arg[store ? 0 : 1], &in->s[0], &in->imm);
	return rc < 0 ? rc : ptx_read_arg(d, &d->l->arg[2], 4, false, &in->s[1]);
}

/* ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {r, ...}, [a]; */
int ptx_decode_ldmatrix(struct decoder *d)
{
	struct ptx_ins *in = d->in;
	struct ptx_opnd *regs = ptx_operands(d->p, 4);
	int n = has(d->w, "x4") ? 4 : has(d->w, "x2") ? 2 : has(d->w, "x1") ? 1 : 0;
	bool known = has(d->w, "sync") && has(d->w, "aligned") && has(d->w, "m8n8") && has(d->w, "b16") && n;
	in->kind = K_MATRIX;
	in->sub = 'x';
	in->regs = regs;
	in->columns[0] = has(d->w, "trans");
	in->space = (uint8_t)ptx_space_of(d->w);
	in->type = T_B16;
	in->vector = 1;
	in->ns = 1;
	if (!known || in->space != S_SHARED)
		return fail(E_UNSUPPORTED, "unknown ldmatrix");
	int rc = ptx_want_args(d, 2, 2);
	if (rc >= 0)
		rc = registers_arg(d, &d->l->arg[0], n, true, regs);
	return rc < 0 ? rc : ptx_address_arg(d, &d->l->arg[1], &in->s[0], &in->imm);
}

/* mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 d, a, b, c; */
int ptx_decode_mma(struct decoder *d)
{
	static const struct {
		const char *name;
		uint8_t m, k, bytes; /* bytes: of an element of A and B */
	} shapes[] = {{"m16n8k16", 16, 16, 2},
		      {"m16n8k16", 16, 16, 1},
		      {"m16n8k8", 16, 8, 2},
		      {"m8n8k16", 8, 16, 1},
		      {"m16n8k8", 16, 8, 4}};
	struct ptx_ins *in = d->in;
	struct ptx_opnd *regs = ptx_operands(d->p, 16);
	bool known = has(d->w, "sync") && has(d->w, "aligned") && has(d->w, "row") && has(d->w, "col");
	int t[4], shape = -1, rc = ptx_want_args(d, 4, 4);
	for (int i = 0; i < 4; i++)
		t[i] = next_type(d->w);
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (has(d->w, shapes[i].name) && shapes[i].bytes == ptx_type_bytes(t[1]))
			shape = (int)i;
	bool floats = ptx_floats(t[1]);
	for (int i = 1; i < 3; i++)
		known &= is_matrix_type('a', t[i]) || t[i] == T_TF32;
	if (!known || shape < 0 || t[0] != t[3] || (floats && t[1] != t[2]) || ptx_floats(t[2]) != floats ||
	    t[0] != (floats ? T_F32 : T_S32))
		return fail(E_UNSUPPORTED, "unknown mma");
	in->kind = K_MATRIX;
	in->sub = 'p';
	in->regs = regs;
	in->type = (uint8_t)t[0];
	in->stype = (uint8_t)t[1];
	in->stype2 = (uint8_t)t[2];
	in->vector = shapes[shape].k;
	in->matrix = shapes[shape].m;
	int a = in->matrix * in->vector * shapes[shape].bytes / (4 * LANES), c = in->matrix / 4,
	    b = 8 * in->vector * shapes[shape].bytes / (4 * LANES);
	const int n[4] = {c, a, b, c};
	for (int i = 0; i < 4 && rc >= 0; i++)
		rc = registers_arg(d, &d->l->arg[i], n[i], !i, regs + in->nregs);
	return rc;
}
