/* SPDX-License-Identifier: Apache-2.0 */
/* Prints loops as text: v3 is a vector variable, i2 a loop variable; parameters and buffers have their
 * names. */
#include "kernels/loops/loops.h"

static const char *const role_name[] = {"in", "out", "const", "scratch", "shared"};
static const char *const binary[] = {[IX_ADD] = " + ", [IX_MUL] = " * ", [IX_DIV] = " / ", [IX_MOD] = " % ",
				     [IX_MIN] = "min", [IX_MAX] = "max", [IX_LT] = " < ",  [IX_EQ] = " == "};

/* Recursion is bounded by IX_MAX_HEIGHT. */
void ix_print(const struct loops *l, const struct ix *x, struct buf *out)
{
	switch (x->op) {
	case IX_CONST:
		buf_printf(out, "%lld", (long long)x->c);
		return;
	case IX_VAR:
		buf_printf(out, "i%d", x->id);
		return;
	case IX_PARAM:
		buf_puts(out, l->param[x->id].name);
		return;
	case IX_TABLE:
		buf_printf(out, "%s[", l->buf[x->id].name);
		ix_print(l, x->a, out);
		buf_puts(out, "]");
		return;
	default:
		break;
	}
	bool call = x->op == IX_MIN || x->op == IX_MAX, bare = x->op == IX_ADD || x->op == IX_MUL;
	bool sum = x->op == IX_MUL && x->a->op == IX_ADD;
	buf_puts(out, call ? binary[x->op] : "");
	buf_puts(out, bare && !sum ? "" : "(");
	ix_print(l, x->a, out);
	buf_puts(out, call ? ", " : binary[x->op]);
	ix_print(l, x->b, out);
	buf_puts(out, bare && !sum ? "" : ")");
}

static void print_mem(const struct loops *l, const struct mem *m, struct buf *out)
{
	buf_printf(out, "%s[", l->buf[m->buf].name);
	ix_print(l, m->at, out);
	buf_puts(out, "]");
	if (m->as != DT_NONE)
		buf_printf(out, " as %s", dtype_name(m->as));
	if (mem_group(m) > 1)
		buf_printf(out, " group %d", m->group);
	if (m->stride != mem_group(m))
		buf_printf(out, " stride %lld", (long long)m->stride);
	if (m->valid) {
		buf_puts(out, " valid ");
		ix_print(l, m->valid, out);
	}
	if (m->guard) {
		buf_puts(out, " guard ");
		ix_print(l, m->guard, out);
		buf_printf(out, " fill %.9g", (double)m->fill);
	}
}

static void print_set(const struct loops *l, const struct stmt *s, struct buf *out)
{
	const int arg[4] = {s->a, s->b, s->c, s->d};
	bool whole = l->type[s->dst] == LV_S32;
	const struct fragment *f = &l->fragment[s->dst];
	if (f->part != FRAG_NONE)
		buf_printf(out, "v%d.%c %s%s = %s", s->dst, "-ABC"[f->part], dtype_name(f->dtype),
			   f -> columns ? " columns" : "", vop_info[s->vop].name);
	else
		buf_printf(out, "v%d.%s%d = %s", s->dst, whole ? "s" : "", l->lanes[s->dst],
			   vop_info[s->vop].name);
	for (int i = 0; i < vop_info[s->vop].args; i++)
		buf_printf(out, " v%d", arg[i]);
	if (s->vop == V_CONST && whole)
		buf_printf(out, " %d", s->s32);
	else if (s->vop == V_CONST)
		buf_printf(out, " %.9g", (double)s->imm);
	if (s->vop == V_LANE || s->vop == V_TRN0 || s->vop == V_TRN1 || s->vop == V_LACE || s->vop == V_SHUF)
		buf_printf(out, " %d", (int)s->imm);
	if ((s->vop == V_DOT4U || s->vop == V_DOT4S) && s->imm != 0)
		buf_puts(out, " narrow");
	if (s->vop == V_LOAD || s->vop == V_FRAG_LOAD) {
		buf_puts(out, " ");
		print_mem(l, &s->mem, out);
	}
}

static void print_head(const struct loops *l, const struct stmt *s, struct buf *out)
{
	if (s->op == ST_IF) {
		buf_puts(out, "if ");
		ix_print(l, s->lo, out);
		return;
	}
	buf_printf(out, "for i%d = ", s->var);
	ix_print(l, s->lo, out);
	buf_puts(out, " to ");
	ix_print(l, s->hi, out);
	if (s->step != 1)
		buf_printf(out, " step %lld", (long long)s->step);
	if (!s->at_least_once)
		buf_puts(out, " or none");
}

static void print_copy(const struct loops *l, const struct stmt *s, struct buf *out)
{
	buf_printf(out, "copy %d %s[", s->s32, l->buf[s->to].name);
	ix_print(l, s->to_at, out);
	buf_puts(out, "] = ");
	print_mem(l, &s->mem, out);
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static void print_body(const struct loops *l, const struct stmt *s, int indent, struct buf *out)
{
	for (; s; s = s->next) {
		buf_printf(out, "%*s", 2 * indent, "");
		switch (s->op) {
		case ST_SET:
			print_set(l, s, out);
			break;
		case ST_STORE:
		case ST_FRAG_STORE:
			buf_puts(out, s->op == ST_FRAG_STORE ? "frag_store " : "");
			print_mem(l, &s->mem, out);
			buf_printf(out, " = v%d", s->a);
			break;
		case ST_PREFETCH:
			buf_printf(out, "prefetch%d ", (int)s->imm);
			print_mem(l, &s->mem, out);
			break;
		case ST_FOR:
		case ST_IF:
			print_head(l, s, out);
			break;
		case ST_BARRIER:
			buf_puts(out, "barrier");
			break;
		case ST_COPY:
			print_copy(l, s, out);
			break;
		case ST_COMMIT:
			buf_puts(out, "commit");
			break;
		case ST_WAIT:
			buf_printf(out, "wait %d", s->s32);
			break;
		}
		buf_puts(out, "\n");
		if (s->op == ST_FOR || s->op == ST_IF)
			print_body(l, s->body, indent + 1, out);
		if (s->op == ST_IF && s->other) {
			buf_printf(out, "%*selse\n", 2 * indent, "");
			print_body(l, s->other, indent + 1, out);
		}
	}
}

void loops_print(const struct loops *l, struct buf *out)
{
	buf_printf(out, "loops%s%s%s%s\n", l->fma ? " fma" : "", l->f16 ? " f16" : "",
		   l->blocks ? " blocks" : "", l->failed ? " failed" : "");
	for (int i = 0; i < l->nparams; i++)
		buf_printf(out, "param %s %lld..%lld\n", l->param[i].name, (long long)l->param[i].lo,
			   (long long)l->param[i].hi);
	for (int i = 0; i < l->nbufs; i++) {
		const struct lbuf *b = &l->buf[i];
		buf_printf(out, "%s%s %s %s[", b->common ? "common " : b->texture ? "texture " : "",
			   role_name[b->role], dtype_name(b->dtype), b->name);
		ix_print(l, b->elems, out);
		buf_puts(out, "]\n");
	}
	for (int i = 0; i < l->nentries; i++) {
		const struct entry *e = &l->entry[i];
		buf_printf(out, "entry %s: i%d to ", e->name, e->var);
		ix_print(l, e->extent, out);
		if (e->group)
			buf_printf(out, " in groups of %d", e->group);
		if (e->threads > 1)
			buf_printf(out, ", threads i%d to %d", e->thread, e->threads);
		if (e->blocks > 1)
			buf_printf(out, ", %d blocks a unit", e->blocks);
		buf_puts(out, "\n");
		print_body(l, e->body, 1, out);
	}
}
