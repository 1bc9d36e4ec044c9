/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical text of a task, and back. One line each, single spaces, in this order:
 *
 *   task syms=N
 *   operand NAME in|out|const|tmp f32|u8|i8|i32 [DIM,...] LAYOUT [fill=F]   every operand, in order
 *   stage AXIS:EXTENT ... [| AXIS:EXTENT ...]                               spatial | reduction; then its
 *   read NAME [INDEX,...]                                                   reads r0, r1, ...
 *   body PROG
 *   sum|max|min|prod                                                        only with reduction axes
 *   post PROG                                                               only where not empty
 *   write NAME [INDEX,...]
 *
 * LAYOUT: "plain" or physical axes "0.1/16.2.3.1", then ";DIM+LO+HI" per dim with a halo. INDEX: "2*y+r-1" in
 * order of the axes, offset last; "(...)/2%3" with division and remainder, "@T(...)" through table T, a last
 * "?" where guarded. PROG: r0, acc, numbers (%.9g) and operator names. A size N may be a symbol "$3". */
#include "kernels/task/task.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {"in", "out", "const", "tmp"};
static const enum dtype types[] = {DT_F32, DT_I32, DT_U8, DT_I8};
static const char *const type_names[] = {"f32", "i32", "u8", "i8"};
static const char *const comb_names[] = {"", "sum", "max", "min", "prod"};

static void put_size(struct buf *out, int64_t v)
{
	if (IS_SYM(v))
		buf_printf(out, "$%d", SYM_INDEX(v));
	else
		buf_printf(out, "%lld", (long long)v);
}

static void layout_text(const struct layout *l, struct buf *out)
{
	if (!l->n)
		buf_puts(out, "plain");
	for (int j = 0; j < l->n; j++) {
		buf_printf(out, j ? ".%d" : "%d", l->ax[j].dim);
		if (l->ax[j].div > 1)
			buf_printf(out, "/%d", l->ax[j].div);
	}
	for (int d = 0; d < MAX_RANK; d++) {
		if (!l->lo[d] && !l->hi[d])
			continue;
		buf_printf(out, ";%d+", d);
		put_size(out, l->lo[d]);
		buf_puts(out, "+");
		put_size(out, l->hi[d]);
	}
}

static void put_operand(const struct operand *o, struct buf *out)
{
	buf_printf(out, "operand %s %s %s [", o->name, role_names[o->role], dtype_name(o->dtype));
	for (int d = 0; d < o->dims.rank; d++) {
		buf_puts(out, d ? "," : "");
		put_size(out, o->dims.d[d]);
	}
	buf_puts(out, "] ");
	layout_text(&o->layout, out);
	if (o->fill != 0)
		buf_printf(out, " fill=%.9g", (double)o->fill);
	buf_puts(out, "\n");
}

static void put_index(const struct task *t, const struct stage *s, const struct index *x, struct buf *out)
{
	bool wrapped = x->div > 1 || x->mod > 1 || x->table >= 0, any = false;
	if (x->table >= 0)
		buf_printf(out, "@%s", t->operand[x->table].name);
	buf_puts(out, wrapped ? "(" : "");
	for (int a = 0; a < s->naxes; a++) {
		int64_t c = x->coef[a];
		if (!c)
			continue;
		buf_puts(out, c == -1 ? "-" : any && (c > 0 || IS_SYM(c)) ? "+" : "");
		if (c != 1 && c != -1) {
			put_size(out, c);
			buf_puts(out, "*");
		}
		buf_puts(out, s->axis[a].name);
		any = true;
	}
	if (x->off || !any) {
		buf_puts(out, any && (x->off > 0 || IS_SYM(x->off)) ? "+" : "");
		put_size(out, x->off);
	}
	buf_puts(out, wrapped ? ")" : "");
	if (x->div > 1)
		buf_printf(out, "/%lld", (long long)x->div);
	if (x->mod > 1)
		buf_printf(out, "%%%lld", (long long)x->mod);
	buf_puts(out, x->guard ? "?" : "");
}

static void put_read(const struct task *t, const struct stage *s, const char *word, const struct read *r,
		     struct buf *out)
{
	buf_printf(out, "%s %s [", word, t->operand[r->operand].name);
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++) {
		buf_puts(out, d ? "," : "");
		put_index(t, s, &r->dim[d], out);
	}
	buf_puts(out, "]\n");
}

static void put_prog(const char *word, const struct prog *p, struct buf *out)
{
	buf_puts(out, word);
	for (int i = 0; i < p->n; i++) {
		if (p->at[i].op == P_READ)
			buf_printf(out, " r%d", p->at[i].arg);
		else if (p->at[i].op == P_IMM)
			buf_printf(out, " %.9g", (double)p->at[i].imm);
		else
			buf_printf(out, " %s", prog_op_name(p->at[i].op));
	}
	buf_puts(out, "\n");
}

static void put_stage(const struct task *t, const struct stage *s, struct buf *out)
{
	buf_puts(out, "stage");
	for (int a = 0; a < s->naxes; a++) {
		if (s->axis[a].kind == AXIS_REDUCTION && (!a || s->axis[a - 1].kind == AXIS_SPATIAL))
			buf_puts(out, " |");
		buf_printf(out, " %s:", s->axis[a].name);
		put_size(out, s->axis[a].extent);
	}
	buf_puts(out, "\n");
	for (int i = 0; i < s->nreads; i++)
		put_read(t, s, "read", &s->read[i], out);
	put_prog("body", &s->body, out);
	if (s->comb != COMB_NONE)
		buf_printf(out, "%s\n", comb_names[s->comb]);
	if (s->post.n)
		put_prog("post", &s->post, out);
	put_read(t, s, "write", &s->out, out);
}

void task_text(const struct task *t, struct buf *out)
{
	buf_printf(out, "task syms=%d\n", t->nsyms);
	for (int i = 0; i < t->noperands; i++)
		put_operand(&t->operand[i], out);
	for (int i = 0; i < t->nstages; i++)
		put_stage(t, &t->stage[i], out);
}

/* Parsing. An error is sticky: everything after it does nothing. */
struct in {
	const char *p;
	int line;
	const char *bad; /* what was expected */
};

static void expect(struct in *in, bool good, const char *what)
{
	if (!good && !in->bad)
		in->bad = what;
}

static bool eat(struct in *in, const char *s)
{
	size_t n = strlen(s);
	if (in->bad || strncmp(in->p, s, n))
		return false;
	in->p += n;
	return true;
}

static void need(struct in *in, const char *s)
{
	expect(in, eat(in, s), s);
}

static void newline(struct in *in)
{
	expect(in, eat(in, "\n"), "end of line");
	in->line += !in->bad;
}

/* Canonical integers have no plus sign and no leading zeros. */
static int64_t get_int(struct in *in)
{
	const char *s = in->p;
	bool minus = !in->bad && *s == '-';
	s += minus;
	if (in->bad || !isdigit((unsigned char)*s) ||
	    (*s == '0' && (minus || isdigit((unsigned char)s[1])))) {
		expect(in, false, "an integer");
		return 0;
	}
	int64_t v = 0;
	for (; isdigit((unsigned char)*s); s++) {
		if (v > (INT64_C(1) << 50)) {
			expect(in, false, "a smaller integer");
			return 0;
		}
		v = v * 10 + (*s - '0');
	}
	in->p = s;
	return minus ? -v : v;
}

static int get_small(struct in *in, int max)
{
	int64_t v = get_int(in);
	expect(in, v >= 0 && v <= max, "a smaller number");
	return in->bad ? 0 : (int)v;
}

static int64_t get_size(struct in *in)
{
	if (!eat(in, "$"))
		return get_int(in);
	int64_t v = get_small(in, MAX_SYMS - 1);
	return SYM(v);
}

static void get_name(struct in *in, char name[8])
{
	size_t n = 0;
	memset(name, 0, 8);
	while (!in->bad && (isalnum((unsigned char)in->p[n]) || in->p[n] == '_') && n < 8)
		n++;
	expect(in, n > 0 && n < 8, "a name of at most 7 letters");
	if (in->bad)
		return;
	memcpy(name, in->p, n);
	in->p += n;
}

static float get_float(struct in *in)
{
	char *end = NULL, back[64], text[64];
	size_t n = 0;
	while (!in->bad && n < sizeof text - 1 && in->p[n] && !isspace((unsigned char)in->p[n]))
		n++;
	memcpy(text, in->bad ? "" : in->p, in->bad ? 0 : n);
	text[n] = 0;
	float v = strtof(text, &end);
	snprintf(back, sizeof back, "%.9g", (double)v);
	expect(in, n && !*end && !strcmp(back, text) && !isnan(v), "a number as %.9g prints it");
	in->p += in->bad ? 0 : n;
	return in->bad ? 0 : v;
}

static int get_word(struct in *in, const char *const *words, int n, const char *what)
{
	for (int i = 0; i < n; i++)
		if (words[i][0] && eat(in, words[i]))
			return i;
	expect(in, false, what);
	return 0;
}

static void get_layout(struct in *in, struct layout *l)
{
	if (!eat(in, "plain")) {
		do {
			if (l->n == MAX_SPLITS) {
				expect(in, false, "fewer layout axes");
				return;
			}
			int n = l->n++;
			l->ax[n].dim = (uint8_t)get_small(in, MAX_RANK - 1);
			l->ax[n].div = eat(in, "/") ? get_small(in, 4096) : 1;
		} while (eat(in, "."));
	}
	while (eat(in, ";")) {
		int d = get_small(in, MAX_RANK - 1);
		need(in, "+");
		l->lo[d] = get_size(in);
		need(in, "+");
		l->hi[d] = get_size(in);
	}
}

static void get_operand(struct in *in, struct task *t)
{
	if (t->noperands == MAX_OPERANDS) {
		expect(in, false, "fewer operands");
		return;
	}
	struct operand *o = &t->operand[t->noperands++];
	get_name(in, o->name);
	need(in, " ");
	o->role = get_word(in, role_names, 4, "a role");
	need(in, " ");
	o->dtype = types[get_word(in, type_names, 4, "a type")];
	need(in, " [");
	while (!in->bad && !eat(in, "]")) {
		if (o->dims.rank)
			need(in, ",");
		expect(in, o->dims.rank < MAX_RANK, "fewer dims");
		if (!in->bad)
			o->dims.d[o->dims.rank++] = get_size(in);
	}
	need(in, " ");
	get_layout(in, &o->layout);
	if (eat(in, " fill="))
		o->fill = get_float(in);
	newline(in);
}

static int find_operand(struct in *in, const struct task *t)
{
	char name[8];
	get_name(in, name);
	for (int i = 0; i < t->noperands && !in->bad; i++)
		if (!strcmp(t->operand[i].name, name))
			return i;
	expect(in, false, "the name of an operand");
	return 0;
}

static int find_axis(struct in *in, const struct stage *s)
{
	char name[8];
	get_name(in, name);
	for (int i = 0; i < s->naxes && !in->bad; i++)
		if (!strcmp(s->axis[i].name, name))
			return i;
	expect(in, false, "the name of an axis");
	return 0;
}

static void get_term(struct in *in, const struct stage *s, struct index *x, int *last)
{
	int64_t c = 1;
	if (eat(in, "-")) {
		if (isdigit((unsigned char)*in->p))
			in->p--; /* the sign belongs to the number */
		else
			c = -1;
	}
	if (c == 1 && (*in->p == '$' || *in->p == '-' || isdigit((unsigned char)*in->p))) {
		c = get_size(in);
		if (!eat(in, "*")) {
			x->off = c;
			*last = MAX_AXES;
			return;
		}
		expect(in, IS_SYM(c) || (c != 0 && c != 1 && c != -1), "no coefficient of 1");
	}
	int a = find_axis(in, s);
	expect(in, a > *last, "terms in the order of axes, offset last");
	if (in->bad)
		return;
	x->coef[a] = c;
	*last = a;
}

static void get_index(struct in *in, const struct task *t, const struct stage *s, struct index *x)
{
	int last = -1;
	x->table = eat(in, "@") ? find_operand(in, t) : -1;
	bool wrapped = eat(in, "(");
	do
		get_term(in, s, x, &last);
	while (!in->bad && last < MAX_AXES && (eat(in, "+") || *in->p == '-'));
	if (wrapped) {
		need(in, ")");
		if (eat(in, "/"))
			x->div = get_small(in, INT32_MAX);
		if (eat(in, "%"))
			x->mod = get_small(in, INT32_MAX);
	}
	x->guard = eat(in, "?");
}

static void get_read(struct in *in, const struct task *t, const struct stage *s, struct read *r)
{
	r->operand = find_operand(in, t);
	for (int d = 0; d < MAX_RANK; d++)
		r->dim[d].table = -1;
	need(in, " [");
	for (int d = 0; d < t->operand[r->operand].dims.rank && !in->bad; d++) {
		if (d)
			need(in, ",");
		get_index(in, t, s, &r->dim[d]);
	}
	need(in, "]");
	newline(in);
}

static void get_step(struct in *in, struct prog *p)
{
	int n = p->n++;
	if (*in->p == 'r' && isdigit((unsigned char)in->p[1])) {
		in->p++;
		p->at[n].op = P_READ;
		p->at[n].arg = (uint8_t)get_small(in, MAX_READS - 1);
		return;
	}
	size_t len = 0;
	while (isalpha((unsigned char)in->p[len]))
		len++;
	for (int op = P_ACC; op < P_OPS; op++) {
		const char *name = prog_op_name(op);
		if (op != P_IMM && strlen(name) == len && !strncmp(in->p, name, len)) {
			p->at[n].op = (uint8_t)op;
			in->p += len;
			return;
		}
	}
	p->at[n].op = P_IMM;
	p->at[n].imm = get_float(in);
}

static void get_prog(struct in *in, struct prog *p)
{
	while (eat(in, " ")) {
		expect(in, p->n < MAX_PROG, "a shorter program");
		if (!in->bad)
			get_step(in, p);
	}
	newline(in);
}

static void get_axes(struct in *in, struct stage *s)
{
	enum axis_kind kind = AXIS_SPATIAL;
	while (eat(in, " ")) {
		if (kind == AXIS_SPATIAL && eat(in, "| "))
			kind = AXIS_REDUCTION;
		expect(in, s->naxes < MAX_AXES, "fewer axes");
		if (in->bad)
			return;
		struct axis *a = &s->axis[s->naxes++];
		a->kind = kind;
		get_name(in, a->name);
		need(in, ":");
		a->extent = get_size(in);
	}
	newline(in);
}

static void get_stage(struct in *in, struct task *t)
{
	expect(in, t->nstages < MAX_STAGES, "fewer stages");
	if (in->bad)
		return;
	struct stage *s = &t->stage[t->nstages++];
	get_axes(in, s);
	while (eat(in, "read ")) {
		expect(in, s->nreads < MAX_READS, "fewer reads");
		if (in->bad)
			return;
		get_read(in, t, s, &s->read[s->nreads++]);
	}
	need(in, "body");
	get_prog(in, &s->body);
	if (s->naxes && s->axis[s->naxes - 1].kind == AXIS_REDUCTION) {
		s->comb = get_word(in, comb_names, 5, "a combiner");
		newline(in);
	}
	if (eat(in, "post"))
		get_prog(in, &s->post);
	need(in, "write ");
	get_read(in, t, s, &s->out);
}

int task_parse(const char *text, struct task *out)
{
	struct in in = {text, 1, NULL};
	memset(out, 0, sizeof *out);
	need(&in, "task syms=");
	out->nsyms = get_small(&in, MAX_SYMS);
	newline(&in);
	while (eat(&in, "operand "))
		get_operand(&in, out);
	while (eat(&in, "stage"))
		get_stage(&in, out);
	expect(&in, !in.bad && !*in.p, "operand, stage or the end");
	if (in.bad)
		return fail(E_CORRUPT, "task text, line %d: expected %s", in.line, in.bad);
	return task_check(out);
}
