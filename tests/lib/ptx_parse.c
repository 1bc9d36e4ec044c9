/* SPDX-License-Identifier: Apache-2.0 */
/* Directives, declarations, labels and entries of PTX text. */
#include "tests/lib/ptx_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void declare_registers(struct ptx_parser *p)
{
	int type = p->n > 1 ? ptx_type_of(p->tok + 1, p->n - 1) : T_NONE;
	if (!p->k || type == T_NONE || type == T_B8 || type == T_U8 || type == T_S8) {
		ptx_bad(p, E_UNSUPPORTED, "registers of type \"%.*s\"", p->n, p->tok);
		return;
	}
	ptx_next(p);
	do {
		struct ptx_reg_name r = {.name = p->tok, .n = p->n, .count = -1, .type = (uint8_t)type};
		if (!ptx_at_word(p))
			ptx_bad(p, E_CORRUPT, "wanted a register's name before \"%.*s\"", p->n, p->tok);
		ptx_next(p);
		if (ptx_take(p, "<")) {
			uint64_t count = ptx_number(p);
			r.count = count < MOST_REGS ? (int64_t)count : MOST_REGS;
			ptx_need(p, ">");
		}
		struct ptx_opnd o = ptx_new_register(p, type == T_PRED ? 0 : ptx_type_bytes(type),
						     r.count < 0 ? 1 : (uint32_t)r.count);
		r.first = o.reg;
		r.first_off = o.off;
		GROW(&p->scratch, p->names, p->nnames, p->names_cap);
		p->names[p->nnames++] = r;
	} while (ptx_take(p, ","));
	ptx_need(p, ";");
}

/* ---- variables ---- */

const struct ptx_var *ptx_variable(struct ptx_parser *p, const char *name, int n)
{
	for (int i = p->m->nvars; i-- > 0;)
		if (ptx_same(p->m->vars[i].name, (int)strlen(p->m->vars[i].name), name, n))
			return &p->m->vars[i];
	return NULL;
}

static uint64_t rounded_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

/* `{1, {2, 3}}`, or one value, into the bytes of a variable. */
static void initialise(struct ptx_parser *p, const struct ptx_var *v, int type)
{
	size_t at = 0, each = ptx_type_bytes(type);
	int depth = 0;
	do {
		while (ptx_take(p, "{"))
			depth++;
		bool minus = ptx_take(p, "-");
		uint64_t value;
		enum ptx_arg_kind kind;
		if (!ptx_is(p, "}")) {
			if (!ptx_read_number(p->tok, p->n, &value, &kind))
				ptx_bad(p, E_UNSUPPORTED, "an initialiser that is no number: \"%.*s\"", p->n,
					p->tok);
			if (p->rc < 0)
				return;
			if (at + each > v->bytes) {
				ptx_bad(p, E_CORRUPT, "more initialisers than \"%s\" has elements", v->name);
				return;
			}
			value = minus ? 0 - value : value;
			memcpy((char *)(uintptr_t)v->address + at, &value, each);
			at += each;
			ptx_next(p);
		}
		while (depth && ptx_take(p, "}"))
			depth--;
	} while (ptx_take(p, ","));
	if (depth)
		ptx_need(p, "}");
}

/* Behind `.shared`, `.global` ... : `.align 4 .b8 name[16] = {...};` */
static void declare_variable(struct ptx_parser *p, int space, bool external)
{
	struct ptx_var v = {.space = (uint8_t)space, .align = 0};
	int type = T_NONE;
	uint64_t vector = 1;
	while (p->n > 1 && *p->tok == '.') {
		if (ptx_take(p, ".align"))
			v.align = ptx_number(p);
		else if (ptx_take(p, ".v2"))
			vector = 2;
		else if (ptx_take(p, ".v4"))
			vector = 4;
		else if (ptx_take(p, ".attribute"))
			ptx_bad(p, E_UNSUPPORTED, ".attribute");
		else if ((type = ptx_type_of(p->tok + 1, p->n - 1)) != T_NONE && type != T_PRED)
			ptx_next(p);
		else
			ptx_bad(p, E_UNSUPPORTED, "\"%.*s\" of a variable", p->n, p->tok);
	}
	if (type == T_NONE || !ptx_at_word(p)) {
		ptx_bad(p, E_CORRUPT, "wanted a variable's type and name before \"%.*s\"", p->n, p->tok);
		return;
	}
	v.name = arena_strndup(&p->m->mem, p->tok, (size_t)p->n);
	ptx_next(p);
	uint64_t count = vector;
	bool open = false;
	while (ptx_take(p, "[")) {
		uint64_t dim = ptx_is(p, "]") ? 0 : ptx_number(p);
		open |= dim == 0;
		count *= dim && dim < MOST_STORE ? dim : 1;
		if (count > MOST_STORE)
			ptx_bad(p, E_UNSUPPORTED, "\"%s\" is too big", v.name);
		ptx_need(p, "]");
	}
	if (!v.align)
		v.align = vector * ptx_type_bytes(type);
	if (v.align > 1024 || (v.align & (v.align - 1)))
		ptx_bad(p, E_CORRUPT, "an alignment of %zu bytes", v.align);
	if (open && !(space == S_SHARED && external))
		ptx_bad(p, E_UNSUPPORTED, "\"%s\" has no size", v.name);
	if (external && !open)
		ptx_bad(p, E_UNSUPPORTED, "\"%s\" is defined elsewhere", v.name);
	if (p->rc < 0)
		return;
	v.bytes = open ? 0 : count * ptx_type_bytes(type);
	uint64_t *at = space == S_SHARED ? &p->shared_at : &p->local_at;
	if (space == S_GLOBAL || space == S_CONST) {
		struct ptx *m = p->m;
		uint64_t at_byte = rounded_up(m->store_bytes, v.align);
		if (at_byte + v.bytes > MOST_STORE) {
			ptx_bad(p, E_UNSUPPORTED, "more than %d bytes of variables", MOST_STORE);
			return;
		}
		m->store_bytes = at_byte + v.bytes;
		v.address = (uintptr_t)m->store + at_byte;
	} else {
		v.address = open ? DYNAMIC_SHARED : rounded_up(*at, v.align);
		if (!open)
			*at = v.address + v.bytes;
		if (*at > MOST_SHARED)
			ptx_bad(p, E_UNSUPPORTED, "more than %d bytes of .shared or .local variables",
				MOST_SHARED);
	}
	GROW(&p->m->mem, p->m->vars, p->m->nvars, p->vars_cap);
	p->m->vars[p->m->nvars++] = v;
	if (ptx_take(p, "=")) {
		if (space == S_GLOBAL || space == S_CONST)
			initialise(p, &v, type);
		else
			ptx_bad(p, E_CORRUPT, "\"%s\" cannot have an initialiser", v.name);
	}
	ptx_need(p, ";");
}

static void read_instruction(struct ptx_parser *p)
{
	struct ptx_kernel *k = p->k;
	struct ptx_line l = {.module = p->m->text, .number = p->tok_line};
	struct ptx_ins in = {
	    .pred.reg = SINK, .text = (uint32_t)(p->tok - p->m->text), .line = (uint32_t)p->tok_line};
	if (ptx_take(p, "@")) {
		struct ptx_arg a;
		ptx_read_simple(p, &a);
		if (a.kind != A_REG || a.type != T_PRED)
			ptx_bad(p, E_CORRUPT, "wanted a predicate behind @");
		in.pred = a.reg;
	}
	l.word = p->tok;
	l.n = p->n;
	if (!ptx_at_word(p))
		ptx_bad(p, E_CORRUPT, "wanted an instruction before \"%.*s\"", p->n, p->tok);
	p->nparts = 0;
	ptx_next(p);
	while (p->n && !ptx_is(p, ";")) {
		if (l.nargs == MOST_OPERANDS) {
			ptx_bad(p, E_CORRUPT, "too many operands");
			break;
		}
		ptx_read_operand(p, &l.arg[l.nargs++]);
		if (!ptx_take(p, ","))
			break;
	}
	if (p->rc < 0)
		return;
	int next_line = p->tok_line;
	p->tok_line = l.number;
	int rc = ptx_decode(p, &l, &in);
	if (rc < 0) {
		ptx_bad(p, rc, "%.*s: %s", l.n, l.word, err_text());
		return;
	}
	p->tok_line = next_line;
	ptx_need(p, ";");
	GROW(&p->m->mem, k->code, k->n, p->code_cap);
	k->code[k->n++] = in;
}

struct ptx_opnd *ptx_operands(struct ptx_parser *p, int n)
{
	return ARENA_ARRAY(&p->m->mem, struct ptx_opnd, n);
}

/* ---- bodies ---- */

static int by_name(const void *x, const void *y)
{
	const struct ptx_label *a = x, *b = y;
	return a->n != b->n ? a->n - b->n : memcmp(a->name, b->name, (size_t)a->n);
}

/* Branches hold the place of their label's name until now. */
static void resolve_labels(struct ptx_parser *p)
{
	struct ptx_kernel *k = p->k;
	if (p->nlabels)
		qsort(p->labels, (size_t)p->nlabels, sizeof *p->labels, by_name);
	for (int i = 1; i < p->nlabels; i++)
		if (!by_name(&p->labels[i - 1], &p->labels[i]))
			ptx_bad(p, E_CORRUPT, "label \"%.*s\" is there twice", p->labels[i].n,
				p->labels[i].name);
	for (uint32_t i = 0; i < k->n; i++) {
		if (k->code[i].kind != K_BRANCH)
			continue;
		struct ptx_label key = {.name = p->m->text + k->code[i].imm};
		while (ptx_word_char((unsigned char)key.name[key.n]))
			key.n++;
		const struct ptx_label *l =
		    p->nlabels ? bsearch(&key, p->labels, (size_t)p->nlabels, sizeof key, by_name) : NULL;
		if (!l)
			ptx_bad(p, E_CORRUPT, "no label \"%.*s\"", key.n, key.name);
		else
			k->code[i].imm = l->at;
	}
}

static void skip_statement(struct ptx_parser *p)
{
	while (p->n && !ptx_is(p, ";"))
		ptx_next(p);
	ptx_need(p, ";");
}

/* .loc and .file end with their line. */
static void skip_line(struct ptx_parser *p)
{
	int line = p->tok_line;
	while (p->n && p->tok_line == line)
		ptx_next(p);
}

static int space_of(const struct ptx_parser *p)
{
	return ptx_is(p, ".shared")   ? S_SHARED
	       : ptx_is(p, ".local")  ? S_LOCAL
	       : ptx_is(p, ".global") ? S_GLOBAL
	       : ptx_is(p, ".const")  ? S_CONST
				      : -1;
}

static void read_body(struct ptx_parser *p)
{
	ptx_need(p, "{");
	for (int depth = 1; depth && p->n;) {
		int space = space_of(p);
		if (ptx_take(p, "{")) {
			if (p->nscopes == MOST_SCOPES)
				ptx_bad(p, E_UNSUPPORTED, "more than %d braces are open", MOST_SCOPES);
			else
				p->scope[p->nscopes++] = p->nnames;
			depth++;
		} else if (ptx_is(p, "}")) {
			depth--;
			if (p->nscopes)
				p->nnames = p->scope[--p->nscopes];
			ptx_next(p);
		} else if (ptx_take(p, ".reg")) {
			declare_registers(p);
		} else if (space >= 0) {
			ptx_next(p);
			declare_variable(p, space, false);
		} else if (ptx_take(p, ".pragma")) {
			skip_statement(p);
		} else if (ptx_is(p, ".loc") || ptx_is(p, ".file")) {
			skip_line(p);
		} else if (ptx_take(p, ";")) {
		} else if (p->n && *p->tok == '.') {
			ptx_bad(p, E_UNSUPPORTED, "directive \"%.*s\"", p->n, p->tok);
		} else if (ptx_at_word(p) && p->p < p->end && *p->p == ':') {
			GROW(&p->scratch, p->labels, p->nlabels, p->labels_cap);
			p->labels[p->nlabels++] = (struct ptx_label){p->tok, p->n, p->k->n};
			ptx_next(p);
			ptx_next(p);
		} else {
			read_instruction(p);
		}
		if (depth && !p->n)
			ptx_bad(p, E_CORRUPT, "the text ends within an entry");
	}
}

static void read_params(struct ptx_parser *p)
{
	struct ptx_kernel *k = p->k;
	if (!ptx_take(p, "(") || ptx_take(p, ")"))
		return;
	do {
		ptx_need(p, ".param");
		int type = T_NONE;
		uint64_t align = 0, count = 1;
		while (p->n > 1 && *p->tok == '.') {
			if (ptx_take(p, ".align"))
				align = ptx_number(p);
			else if (ptx_take(p, ".ptr")) { /* .ptr .global .align 4: of what it points to */
				if (space_of(p) >= 0)
					ptx_next(p);
				if (ptx_take(p, ".align"))
					ptx_number(p);
			} else if ((type = ptx_type_of(p->tok + 1, p->n - 1)) != T_NONE && type != T_PRED)
				ptx_next(p);
			else
				ptx_bad(p, E_UNSUPPORTED, "\"%.*s\" of a parameter", p->n, p->tok);
		}
		if (type == T_NONE || !ptx_at_word(p) || k->e.nparams == MOST_PARAMS) {
			ptx_bad(p, E_CORRUPT, "a parameter without type or name, or more than %d",
				MOST_PARAMS);
			return;
		}
		struct ptx_var v = {.name = arena_strndup(&p->m->mem, p->tok, (size_t)p->n),
				    .space = S_PARAM};
		ptx_next(p);
		if (ptx_take(p, "[")) {
			count = ptx_number(p);
			ptx_need(p, "]");
		}
		align = align ? align : ptx_type_bytes(type);
		v.bytes = count * ptx_type_bytes(type);
		if (count > 1 << 16 || align > 1024 || (align & (align - 1))) {
			ptx_bad(p, E_CORRUPT, "a parameter of %llu bytes, alignment %llu",
				(unsigned long long)v.bytes, (unsigned long long)align);
			return;
		}
		v.address = rounded_up(k->params_bytes, align);
		k->params_bytes = v.address + v.bytes;
		k->param_at[k->e.nparams] = v.address;
		k->param_bytes[k->e.nparams++] = v.bytes;
		GROW(&p->m->mem, p->m->vars, p->m->nvars, p->vars_cap);
		p->m->vars[p->m->nvars++] = v;
	} while (ptx_take(p, ","));
	ptx_need(p, ")");
}

static void read_three(struct ptx_parser *p, unsigned v[3])
{
	v[0] = v[1] = v[2] = 1;
	int i = 0;
	do {
		uint64_t n = ptx_number(p);
		v[i++] = n <= 65536 ? (unsigned)n : 65536;
	} while (i < 3 && ptx_take(p, ","));
}

/* Instructions that touch memory with fewer bytes at a time make the shadow finer. */
static uint32_t granule_shift(const struct ptx_kernel *k, int space)
{
	unsigned granule = 16;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct ptx_ins *in = &k->code[i];
		bool memory = in->kind == K_LOAD || in->kind == K_STORE || in->kind == K_ATOMIC;
		unsigned bytes = in->kind == K_COPY ? in->vector : ptx_type_bytes(in->type) * in->vector;
		if (in->kind != K_COPY && !(memory && (in->space == space || in->space == S_GENERIC)))
			continue;
		granule = bytes < granule ? bytes : granule;
	}
	return (uint32_t)__builtin_ctz(granule);
}

static void read_entry(struct ptx_parser *p)
{
	GROW(&p->m->mem, p->m->kernel, p->m->nkernels, p->kernels_cap);
	struct ptx_kernel *k = p->k = &p->m->kernel[p->m->nkernels];
	memset(k, 0, sizeof *k);
	int vars = p->m->nvars, scope_names = p->nnames;
	p->nlabels = p->code_cap = p->consts_cap = p->specials_cap = 0;
	p->shared_at = p->module_shared;
	p->local_at = 0;
	if (!ptx_at_word(p))
		ptx_bad(p, E_CORRUPT, "wanted an entry's name before \"%.*s\"", p->n, p->tok);
	k->e.name = arena_strndup(&p->m->mem, p->tok, (size_t)p->n);
	k->e.target = p->m->target;
	ptx_next(p);
	ptx_new_register(p, 8, 1); /* register 0: always defined */
	read_params(p);
	unsigned ignored[3];
	while (p->n && *p->tok == '.') {
		if (ptx_take(p, ".reqntid"))
			read_three(p, k->e.reqntid);
		else if (ptx_take(p, ".maxntid"))
			read_three(p, k->e.maxntid);
		else if (ptx_take(p, ".minnctapersm") || ptx_take(p, ".maxnreg"))
			read_three(p, ignored);
		else if (ptx_take(p, ".pragma"))
			skip_statement(p);
		else
			ptx_bad(p, E_UNSUPPORTED, "directive \"%.*s\"", p->n, p->tok);
	}
	read_body(p);
	if (p->rc < 0)
		return;
	resolve_labels(p);
	struct ptx_ins end = {
	    .kind = K_EXIT, .pred.reg = SINK, .line = (uint32_t)p->tok_line, .text = UINT32_MAX};
	GROW(&p->m->mem, k->code, k->n, p->code_cap);
	k->code[k->n++] = end;
	k->granule_shift = granule_shift(k, S_SHARED);
	k->global_shift = granule_shift(k, S_GLOBAL);
	k->e.shared_bytes = p->shared_at;
	k->e.local_bytes = p->local_at;
	for (int i = 0; i < p->m->nvars; i++) /* names of the entry's own variables end here */
		if (i >= vars && p->m->vars[i].space != S_GLOBAL && p->m->vars[i].space != S_CONST)
			p->m->vars[i].name = "";
	p->nnames = scope_names;
	p->nscopes = 0;
	p->m->nkernels++;
	p->k = NULL;
}

static void read_module(struct ptx_parser *p)
{
	bool external = false;
	ptx_next(p);
	ptx_need(p, ".version");
	ptx_next(p); /* 7.4 */
	ptx_need(p, ".target");
	snprintf(p->m->target, sizeof p->m->target, "%.*s", p->n, p->tok);
	do
		ptx_next(p);
	while (ptx_take(p, ","));
	while (p->n) {
		int space = space_of(p);
		if (ptx_take(p, ".address_size")) {
			if (ptx_number(p) != 64)
				ptx_bad(p, E_UNSUPPORTED, "addresses that are not of 64 bits");
		} else if (ptx_take(p, ".visible") || ptx_take(p, ".weak") || ptx_take(p, ".common")) {
			continue;
		} else if (ptx_take(p, ".extern")) {
			external = true;
			continue;
		} else if (ptx_take(p, ".entry")) {
			read_entry(p);
		} else if (space >= 0) {
			ptx_next(p);
			declare_variable(p, space, external);
			p->module_shared = p->shared_at;
		} else if (ptx_is(p, ".file") || ptx_is(p, ".loc")) {
			skip_line(p);
		} else if (ptx_take(p, ".pragma")) {
			skip_statement(p);
		} else if (ptx_take(p, ".section")) {
			while (p->n && !ptx_is(p, "}"))
				ptx_next(p);
			ptx_need(p, "}");
		} else {
			ptx_bad(p, E_UNSUPPORTED, "directive \"%.*s\"", p->n, p->tok);
		}
		external = false;
	}
}

int ptx_load(const char *text, size_t n, struct ptx **out)
{
	struct ptx *m = calloc(1, sizeof *m);
	*out = NULL;
	if (!m)
		return fail(E_NOMEM, "no memory for a PTX module");
	n = strnlen(text, n);
	if (n > 1 << 28) {
		free(m);
		return fail(E_NOMEM, "a PTX text of %zu bytes", n);
	}
	m->n = n;
	m->text = arena_strndup(&m->mem, text, n);
	m->store = mmap(NULL, MOST_STORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->store == MAP_FAILED) {
		m->store = NULL;
		ptx_free(m);
		return fail(E_NOMEM, "no memory for the variables of a PTX module");
	}
	struct ptx_parser p = {.m = m, .p = m->text, .end = m->text + n, .line = 1, .tok_line = 1};
	read_module(&p);
	arena_free(&p.scratch);
	if (p.rc < 0) {
		ptx_free(m);
		return p.rc;
	}
	*out = m;
	return 0;
}

void ptx_free(struct ptx *m)
{
	if (!m)
		return;
	if (m->store)
		munmap(m->store, MOST_STORE);
	arena_free(&m->mem);
	free(m);
}

int ptx_entries(const struct ptx *m)
{
	return m->nkernels;
}

const struct ptx_entry *ptx_entry(const struct ptx *m, int i)
{
	return &m->kernel[i].e;
}

const struct ptx_entry *ptx_find(const struct ptx *m, const char *name)
{
	for (int i = 0; i < m->nkernels; i++)
		if (!strcmp(m->kernel[i].e.name, name))
			return &m->kernel[i].e;
	return NULL;
}

size_t ptx_param_bytes(const struct ptx_entry *e, int i)
{
	return ((const struct ptx_kernel *)e)->param_bytes[i]; /* e is its first member */
}
