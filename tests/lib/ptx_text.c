/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, numbers, registers and operands of PTX text. */
#include "tests/lib/ptx_parse.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int ptx_bad(struct ptx_parser *p, int rc, const char *fmt, ...)
{
	if (p->rc < 0)
		return p->rc;
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	p->n = 0; /* as at the end of the text: loops end */
	p->end = p->p;
	return p->rc = fail(rc, "PTX line %d: %s", p->tok_line, text);
}

struct ptx_kernel *ptx_parsing(struct ptx_parser *p)
{
	return p->k;
}

void *ptx_grown(struct arena *a, void *array, int n, int *cap, size_t bytes)
{
	if (n < *cap)
		return array;
	*cap = *cap ? 2 * *cap : 16;
	void *more = arena_alloc(a, (size_t)*cap * bytes);
	if (n)
		memcpy(more, array, (size_t)n * bytes);
	return more;
}
/* ---- tokens ---- */

bool ptx_word_char(int c)
{
	return isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void skip_blank(struct ptx_parser *p)
{
	while (p->p < p->end) {
		if (*p->p == '\n') {
			p->line++;
			p->p++;
		} else if (isspace((unsigned char)*p->p)) {
			p->p++;
		} else if (p->end - p->p > 1 && !memcmp(p->p, "//", 2)) {
			while (p->p < p->end && *p->p != '\n')
				p->p++;
		} else if (p->end - p->p > 1 && !memcmp(p->p, "/*", 2)) {
			for (p->p += 2; p->p < p->end && !(p->end - p->p > 1 && !memcmp(p->p, "*/", 2));
			     p->p++)
				p->line += *p->p == '\n';
			p->p = p->end - p->p > 1 ? p->p + 2 : p->end;
		} else {
			return;
		}
	}
}

void ptx_next(struct ptx_parser *p)
{
	skip_blank(p);
	p->tok = p->p;
	p->tok_line = p->line;
	p->n = 0;
	if (p->p >= p->end)
		return;
	if (*p->p == '"') {
		do
			p->p++;
		while (p->p < p->end && *p->p != '"' && *p->p != '\n');
		p->p += p->p < p->end;
	} else if (ptx_word_char((unsigned char)*p->p)) {
		while (p->p < p->end && (ptx_word_char((unsigned char)*p->p) ||
					 (*p->p == ':' && p->end - p->p > 2 && p->p[1] == ':' &&
					  isalnum((unsigned char)p->p[2]))))
			p->p += *p->p == ':' ? 2 : 1;
	} else {
		p->p++;
	}
	if (p->p - p->tok > 5 && !memcmp(p->tok, ".reg.", 5)) /* a blank is not needed between them */
		p->p = p->tok + 4;
	p->n = (int)(p->p - p->tok);
}

bool ptx_is(const struct ptx_parser *p, const char *s)
{
	return p->n == (int)strlen(s) && !memcmp(p->tok, s, (size_t)p->n);
}

bool ptx_take(struct ptx_parser *p, const char *s)
{
	if (!ptx_is(p, s))
		return false;
	ptx_next(p);
	return true;
}

void ptx_need(struct ptx_parser *p, const char *s)
{
	if (!ptx_take(p, s))
		ptx_bad(p, E_CORRUPT, "wanted \"%s\" before \"%.*s\"", s, p->n, p->tok);
}

bool ptx_at_word(const struct ptx_parser *p)
{
	return p->n > 0 && ptx_word_char((unsigned char)*p->tok);
}

bool ptx_read_number(const char *s, int n, uint64_t *v, enum ptx_arg_kind *kind)
{
	if (n < 1 || !isdigit((unsigned char)*s))
		return false;
	int base = 10, at = 0;
	*kind = A_INT;
	if (n > 2 && s[0] == '0') {
		int c = s[1] | 0x20;
		bool f32 = c == 'f' && n == 10, f64 = c == 'd' && n == 18;
		if (f32 || f64)
			*kind = f32 ? A_F32 : A_F64;
		base = c == 'x' || f32 || f64 ? 16 : c == 'b' ? 2 : 8;
		at = base == 8 ? 1 : 2;
	}
	if (n > at + 1 && s[n - 1] == 'U')
		n--;
	*v = 0;
	for (; at < n; at++) {
		int c = s[at] | 0x20, d = isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
		if (d >= base)
			return false;
		*v = *v * (unsigned)base + (unsigned)d;
	}
	return true;
}

uint64_t ptx_number(struct ptx_parser *p)
{
	uint64_t v = 0;
	enum ptx_arg_kind kind;
	if (!ptx_read_number(p->tok, p->n, &v, &kind) || kind != A_INT)
		ptx_bad(p, E_CORRUPT, "wanted a number before \"%.*s\"", p->n, p->tok);
	ptx_next(p);
	return v;
}

/* ---- registers, constants ---- */

struct ptx_opnd ptx_new_register(struct ptx_parser *p, unsigned bytes, uint32_t count)
{
	struct ptx_kernel *k = p->k;
	uint32_t each = bytes ? bytes * LANES : LANES;
	struct ptx_opnd o = {.off = k->regs_bytes, .reg = k->nregs, .bytes = (uint8_t)bytes};
	if (count > MOST_REGS - k->nregs) {
		ptx_bad(p, E_UNSUPPORTED, "more than %d registers", MOST_REGS);
		return o;
	}
	k->nregs += count;
	k->regs_bytes += each * count;
	return o;
}

struct ptx_opnd ptx_constant(struct ptx_parser *p, uint64_t value, unsigned bytes)
{
	struct ptx_kernel *k = p->k;
	if (bytes < 8)
		value &= bytes ? ((uint64_t)1 << 8 * bytes) - 1 : ALL_LANES;
	for (uint32_t i = k->nconsts; i-- > 0 && i + 64 > k->nconsts;)
		if (k->consts[i].value == value && k->consts[i].bytes == bytes)
			return (struct ptx_opnd){.off = k->consts[i].off, .reg = 0, .bytes = (uint8_t)bytes};
	struct ptx_opnd o = ptx_new_register(p, bytes, 1);
	GROW(&p->m->mem, k->consts, k->nconsts, p->consts_cap);
	k->consts[k->nconsts++] = (struct ptx_const){o.off, (uint8_t)bytes, value};
	o.reg = 0; /* a register that is always defined */
	return o;
}

const char *const ptx_special_names[] = {"%tid.x",
					 "%tid.y",
					 "%tid.z",
					 "%ntid.x",
					 "%ntid.y",
					 "%ntid.z",
					 "%ctaid.x",
					 "%ctaid.y",
					 "%ctaid.z",
					 "%nctaid.x",
					 "%nctaid.y",
					 "%nctaid.z",
					 "%laneid",
					 "%warpid",
					 "%nwarpid",
					 "%smid",
					 "%nsmid",
					 "%lanemask_eq",
					 "%lanemask_le",
					 "%lanemask_lt",
					 "%lanemask_ge",
					 "%lanemask_gt",
					 "%dynamic_smem_size",
					 "WARP_SZ",
					 NULL};

struct ptx_opnd ptx_special(struct ptx_parser *p, int what)
{
	struct ptx_kernel *k = p->k;
	for (uint32_t i = 0; i < k->nspecials; i++)
		if (k->specials[i].what == what)
			return (struct ptx_opnd){.off = k->specials[i].off, .reg = 0, .bytes = 4};
	struct ptx_opnd o = ptx_new_register(p, 4, 1);
	GROW(&p->m->mem, k->specials, k->nspecials, p->specials_cap);
	k->specials[k->nspecials++] = (struct ptx_special){o.off, (uint8_t)what};
	o.reg = 0;
	return o;
}

bool ptx_same(const char *a, int n, const char *b, int m)
{
	return n == m && !memcmp(a, b, (size_t)n);
}

static bool find_register(const struct ptx_parser *p, const char *s, int n, struct ptx_arg *a)
{
	int digits = n;
	while (digits > 0 && isdigit((unsigned char)s[digits - 1]))
		digits--;
	for (int i = p->nnames; i-- > 0;) {
		const struct ptx_reg_name *r = &p->names[i];
		uint32_t at = 0;
		if (r->count < 0 && !ptx_same(s, n, r->name, r->n))
			continue;
		if (r->count >= 0) {
			if (digits == n || n - digits > 9 || !ptx_same(s, digits, r->name, r->n))
				continue;
			for (int c = digits; c < n; c++)
				at = at * 10 + (uint32_t)(s[c] - '0');
			if (at >= r->count)
				continue;
		}
		unsigned bytes = r->type == T_PRED ? 0 : ptx_type_bytes(r->type);
		*a = (struct ptx_arg){.kind = A_REG, .type = r->type};
		a->reg = (struct ptx_opnd){.off = r->first_off + at * (bytes ? bytes * LANES : LANES),
					   .reg = r->first + at,
					   .bytes = (uint8_t)bytes};
		return true;
	}
	return false;
}

/* ---- operands ---- */

static struct ptx_arg *new_part(struct ptx_parser *p)
{
	if (p->nparts == MOST_PARTS) {
		ptx_bad(p, E_CORRUPT, "too many operands");
		return &p->parts[0];
	}
	return &p->parts[p->nparts++];
}

void ptx_read_simple(struct ptx_parser *p, struct ptx_arg *a)
{
	*a = (struct ptx_arg){.kind = A_INT};
	bool minus = false;
	a->negated = ptx_take(p, "!");
	while (ptx_is(p, "-") || ptx_is(p, "+")) {
		minus ^= ptx_is(p, "-");
		ptx_next(p);
	}
	bool negated = a->negated;
	if (!ptx_at_word(p)) {
		ptx_bad(p, E_CORRUPT, "wanted an operand before \"%.*s\"", p->n, p->tok);
	} else if (ptx_is(p, "_")) {
		a->kind = A_SINK;
	} else if (ptx_read_number(p->tok, p->n, &a->value, &a->kind)) {
		a->value = minus ? 0 - a->value : a->value;
	} else if (!find_register(p, p->tok, p->n, a)) {
		a->kind = A_SYMBOL;
		a->name = p->tok;
		a->n = p->n;
		for (int i = 0; ptx_special_names[i]; i++)
			if (ptx_is(p, ptx_special_names[i])) {
				a->kind = A_SPECIAL;
				a->value = (uint64_t)i;
			}
	}
	a->negated = a->reg.negated = negated;
	ptx_next(p);
}

void ptx_read_operand(struct ptx_parser *p, struct ptx_arg *a)
{
	if (ptx_take(p, "{")) {
		struct ptx_arg part[8];
		int n = 0;
		do
			ptx_read_simple(p, &part[n++]);
		while (n < 8 && ptx_take(p, ","));
		ptx_need(p, "}");
		*a = (struct ptx_arg){.kind = A_VECTOR, .nparts = n};
		for (int i = 0; i < n; i++) {
			struct ptx_arg *to = new_part(p);
			*to = part[i];
			a->part = i ? a->part : to;
		}
	} else if (ptx_take(p, "[")) {
		struct ptx_arg *base = new_part(p);
		*a = (struct ptx_arg){.kind = A_ADDRESS, .part = base, .nparts = 1};
		ptx_read_simple(p, base);
		if (base->kind == A_INT) {
			a->value = base->value;
			a->part = NULL;
		}
		while (ptx_is(p, "+") || ptx_is(p, "-")) {
			struct ptx_arg offset;
			ptx_read_simple(p, &offset);
			if (offset.kind != A_INT)
				ptx_bad(p, E_UNSUPPORTED, "an address's offset that is no number");
			a->value += offset.value;
		}
		ptx_need(p, "]");
	} else {
		ptx_read_simple(p, a);
		if (a->kind == A_SYMBOL && (ptx_is(p, "+") || ptx_is(p, "-"))) {
			struct ptx_arg offset;
			ptx_read_simple(p, &offset);
			a->value = offset.kind == A_INT ? offset.value : 0;
		}
		if (ptx_take(p, "|")) {
			a->second = new_part(p);
			ptx_read_simple(p, a->second);
		}
	}
}
