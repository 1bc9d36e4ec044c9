/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/fallback.h"
#include "agent/run/fallback_data.h"
#include "kernels/group/compose.h"
#include "kernels/task/task_stage.h"
#include "platform/machine/target_isa.h"

#include <string.h>

static void name_operand(struct operand *o, int i)
{
	static const char letters[] = "xywu"; /* by role, as group_collapse.c names them */
	memset(o->name, 0, sizeof o->name);
	o->name[0] = o->dtype == DT_I32 ? 't' : letters[o->role];
	o->name[1] = (char)('a' + i);
}

/* Names do not matter. */
static void name_axes(struct stage *s)
{
	for (int a = 0; a < s->naxes; a++) {
		memset(s->axis[a].name, 0, sizeof s->axis[a].name);
		s->axis[a].name[0] = 'a';
		s->axis[a].name[1] = (char)('a' + a);
	}
}

/* Returns the part's number of the task's operand i, which is added at its first use. */
static int take(struct task *part, int *of, const struct task *t, int i)
{
	for (int k = 0; k < part->noperands; k++)
		if (of[k] == i)
			return k;
	part->operand[part->noperands] = t->operand[i];
	of[part->noperands] = i;
	return part->noperands++;
}

/* The accumulator is only used as "acc rK add" where rK is one constant vector. */
static bool has_bias(const struct task *t, const struct stage *s)
{
	const struct prog *p = &s->post;
	if (p->n < 3 || p->at[0].op != P_ACC || p->at[1].op != P_READ || p->at[2].op != P_ADD)
		return false;
	const struct operand *o = &t->operand[s->read[p->at[1].arg].operand];
	for (int i = 3; i < p->n; i++)
		if (p->at[i].op == P_ACC && (i + 2 >= p->n || p->at[i + 1].op != P_READ ||
					     p->at[i + 1].arg != p->at[1].arg || p->at[i + 2].op != P_ADD))
			return false;
	return o->role == ROLE_CONST && o->dims.rank == 1 && o->dtype == DT_F32;
}

/* Makes the core with the first `npost` operations of the epilogue. */
static void make_core(const struct task *t, int lanes, int npost, struct fallback_parts *out)
{
	const struct stage *s = &t->stage[0];
	struct task *c = &out->core;
	struct stage *cs = &c->stage[0];
	*cs = *s;
	memset(&cs->post, 0, sizeof cs->post);
	memset(cs->read, 0, sizeof cs->read);
	cs->nreads = 0;
	name_axes(cs);
	c->nstages = 1;
	for (int i = 0; i < s->body.n; i++) {
		if (s->body.at[i].op != P_READ)
			continue;
		int r = s->body.at[i].arg;
		if (r >= cs->nreads) {
			cs->read[r] = s->read[r];
			cs->nreads = r + 1;
		}
	}
	cs->post.n = npost;
	memcpy(cs->post.at, s->post.at, sizeof *cs->post.at * (size_t)npost);
	for (int i = 0; i < npost; i++) {
		if (s->post.at[i].op != P_READ)
			continue;
		cs->read[cs->nreads] = s->read[s->post.at[i].arg];
		cs->post.at[i].arg = (uint8_t)cs->nreads++;
	}
	for (int i = 0; i < cs->nreads; i++)
		cs->read[i].operand = take(c, out->core_of, t, cs->read[i].operand);
	cs->out.operand = take(c, out->core_of, t, cs->out.operand);
	int n = c->noperands; /* without tables */
	for (int i = 0; i < cs->nreads; i++)
		for (int d = 0; d < c->operand[cs->read[i].operand].dims.rank; d++)
			if (cs->read[i].dim[d].table >= 0)
				cs->read[i].dim[d].table = take(c, out->core_of, t, cs->read[i].dim[d].table);
	for (int i = n; i < c->noperands; i++)
		name_operand(&c->operand[i], i);
	for (int i = 0; i < n; i++) {
		struct operand *o = &c->operand[i];
		const struct read *r = i < cs->nreads ? &cs->read[i] : &cs->out;
		bool guarded = false;
		name_operand(o, i);
		for (int d = 0; d < o->dims.rank; d++)
			guarded |= index_guarded(t, s, r, d);
		o->fill = guarded ? o->fill : 0; /* halos hold it; only guards ask for it */
		/* The weights' dim that the innermost output channel or column walks. */
		for (int d = o->dims.rank - 1; o->role == ROLE_CONST && o->dims.rank >= 2 && d >= 0; d--)
			for (int a = 0; a < cs->naxes; a++)
				if (cs->axis[a].kind == AXIS_SPATIAL && r->dim[d].coef[a] == 1 &&
				    !o->layout.n)
					layout_blocked(&o->layout, o->dims.rank, d, lanes);
	}
}

/* Makes the map in place: it reads the output, then runs the rest of the program. */
static int make_rest(const struct task *t, bool bias, struct fallback_parts *out)
{
	const struct stage *s = &t->stage[0];
	struct task *c = &out->rest;
	struct stage *cs = &c->stage[0];
	int naxes = 0;
	while (naxes < s->naxes && s->axis[naxes].kind == AXIS_SPATIAL)
		naxes++;
	*cs = *s;
	memset(cs->axis + naxes, 0, sizeof *cs->axis * (size_t)(MAX_AXES - naxes));
	cs->naxes = naxes;
	cs->comb = COMB_NONE;
	c->nstages = 1;
	c->noperands = 1;
	c->operand[0] = t->operand[s->out.operand];
	c->operand[0].role = ROLE_IN;
	out->rest_of[0] = s->out.operand;
	memset(cs->read, 0, sizeof cs->read);
	cs->read[0] = s->out;
	cs->read[0].operand = 0;
	cs->nreads = 1;
	memset(&cs->body, 0, sizeof cs->body);
	memset(&cs->post, 0, sizeof cs->post);
	for (int i = 0; i < s->post.n; i++) {
		int n = cs->body.n++;
		cs->body.at[n] = s->post.at[i];
		if (s->post.at[i].op == P_ACC) {
			cs->body.at[n].op = P_READ;
			cs->body.at[n].arg = 0;
			i += bias ? 2 : 0; /* the accumulator with the bias is the output itself */
		} else if (s->post.at[i].op == P_READ) {
			if (cs->nreads == MAX_READS || c->noperands == MAX_OPERANDS - 1)
				return fail(E_UNSUPPORTED, "too many operands");
			cs->read[cs->nreads] = s->read[s->post.at[i].arg];
			cs->body.at[n].arg = (uint8_t)cs->nreads;
			cs->read[cs->nreads].operand = take(c, out->rest_of, t, cs->read[cs->nreads].operand);
			cs->nreads++;
		}
	}
	out->rest_of[c->noperands] = s->out.operand;
	c->operand[c->noperands] = t->operand[s->out.operand];
	cs->out.operand = c->noperands++;
	for (int i = 0; i < c->noperands; i++)
		name_operand(&c->operand[i], i);
	return task_check(c);
}

/* Makes a chain of all stages except maps into temporaries, whose size would depend on parameters: the stages
 * that read those do their work. */
static void make_chain(const struct task *t, struct fallback_parts *out)
{
	struct task *c = &out->core;
	*c = *t;
	for (int i = 0; i < t->noperands; i++)
		out->core_of[i] = i;
	for (int k = c->nstages - 2; k >= 0; k--) {
		int tmp = c->stage[k].out.operand;
		if (c->stage[k].comb != COMB_NONE || !task_inline(c, k))
			continue;
		for (int i = tmp; i < c->noperands; i++)
			out->core_of[i] = out->core_of[i + 1];
	}
	for (int i = 0; i < c->noperands; i++)
		name_operand(&c->operand[i], i);
	for (int k = 0; k < c->nstages; k++)
		name_axes(&c->stage[k]);
}

int fallback_split(const struct task *t, int lanes, bool whole, struct fallback_parts *out)
{
	const struct stage *s = &t->stage[0];
	memset(out, 0, sizeof *out);
	if (!task_floats(t))
		return fail(E_UNSUPPORTED, "there are no fallback kernels for integers");
	if ((t->nstages == 1 && s->comb == COMB_NONE) || (t->nstages > 1 && !whole) || t->nsyms)
		return fail(E_UNSUPPORTED, "there are no fallback kernels for maps and for parts of chains");
	if (t->nstages > 1) {
		make_chain(t, out);
		return E_OK;
	}
	bool bias = has_bias(t, s);
	int npost = whole ? s->post.n : bias ? 3 : 0, nreads = 0;
	for (int i = 0; i < s->body.n + npost; i++)
		nreads += (i < npost ? s->post.at[i].op : s->body.at[i - npost].op) == P_READ;
	if (nreads > s->nreads)
		return fail(E_UNSUPPORTED, "an operand is read twice");
	make_core(t, lanes, npost, out);
	int rc = task_check(&out->core);
	if (rc >= 0 && s->post.n > npost)
		rc = make_rest(t, bias, out);
	return rc < 0 ? fail_in(E_UNSUPPORTED, "fallback") : E_OK;
}

static bool look_up(const struct blob *archive, struct key key, struct blob *found)
{
	struct cur c = {.p = archive->p, .n = archive->n};
	size_t at = 0, found_at = SIZE_MAX;
	const void *magic = cur_bytes(&c, 4);
	if (!magic || memcmp(magic, "HFB2", 4))
		return false;
	for (uint32_t i = 0, n = cur_u32(&c); i < n && !c.bad; i++) {
		struct key k;
		k.hi = cur_u64(&c);
		k.lo = cur_u64(&c);
		uint32_t bytes = cur_u32(&c);
		if (key_equal(k, key)) {
			found_at = at;
			found->n = bytes;
		}
		at += bytes;
	}
	const char *code = cur_bytes(&c, at);
	if (!code || found_at == SIZE_MAX)
		return false;
	found->p = code + found_at;
	return true;
}

static int bind(const struct blob *b, const struct target *host, struct arena *a, const int64_t *params,
		int n, struct code *out)
{
	struct target need;
	int rc = code_parse(b->p, b->n, a, out);
	if (rc >= 0)
		rc = target_baseline(out->m.isa, &need);
	if (rc < 0)
		return rc;
	if (!target_runs(host, &need) || !target_has(host, out->m.features) || out->m.nsyms != n)
		return fail(E_UNSUPPORTED, "fallback kernel of %s", out->m.isa);
	memcpy(out->m.param, params, sizeof *params * (size_t)n);
	return E_OK;
}

/* Finds the kernel in the archive of one ISA. */
static int find_in(const struct isa *i, struct key key, const struct target *host, struct arena *a,
		   const int64_t *params, int n, struct code *out)
{
	struct target need;
	struct blob archive, found = {0};
	int rc = target_baseline(i->name, &need);
	if (rc >= 0 && !target_runs(host, &need))
		return fail(E_NOTFOUND, "this machine does not run %s", i->name);
	if (rc >= 0)
		rc = fallback_archive(i->name, &archive);
	if (rc < 0)
		return rc;
	return look_up(&archive, key, &found) ? bind(&found, host, a, params, n, out) : E_NOTFOUND;
}

/* Finds the best kernel in the archives for exactly this task. */
static int find_core(const struct task *t, const struct target *host, struct arena *a, struct arena *scratch,
		     struct code *out)
{
	const struct isa *end = isa_table;
	int64_t params[MAX_SYMS];
	struct task *g = ARENA_NEW(scratch, struct task);
	int n = task_abstract(t, g, params), rc = E_NOTFOUND;
	if (n < 0)
		return n;
	struct key key = task_key(g);
	while (end->name)
		end++;
	for (const struct isa *i = end; i > isa_table && rc < 0; i--)
		rc = find_in(i - 1, key, host, a, params, n, out);
	return rc < 0 ? fail(E_NOTFOUND, "no fallback kernel for this task") : E_OK;
}

/* Returns the index of the addition that adds the read at `i` to an expression of the accumulator; -1: there
 * is none. */
static int end_of_sum(const struct prog *p, int i)
{
	bool acc = false;
	for (int k = i + 1, depth = 0; k < p->n; k++) {
		if (depth == 1 && p->at[k].op == P_ADD)
			return acc ? k : -1;
		acc |= p->at[k].op == P_ACC;
		depth += 1 - prog_op_arity((enum prog_op)p->at[k].op);
		if (depth < 1)
			return -1;
	}
	return -1;
}

/* "rK acc add" becomes "acc rK add", and "rK acc rB add add" "acc rB add rK add", as samples write them. */
static void order_sums(struct prog *p)
{
	for (int i = 0; i < p->n; i++) {
		int end = p->at[i].op == P_READ ? end_of_sum(p, i) : -1;
		if (end < 0)
			continue;
		uint8_t read = p->at[i].arg;
		memmove(&p->at[i], &p->at[i + 1], sizeof p->at[0] * (size_t)(end - i - 1));
		p->at[end - 1].op = P_READ;
		p->at[end - 1].arg = read;
		p->at[end - 1].imm = 0;
		i--;
	}
}

int fallback_find(const struct task *t, const struct target *host, struct arena *a,
		  struct fallback_parts *parts, struct code *out)
{
	int rc = E_NOTFOUND;
	struct arena scratch = {0};
	struct task *own = arena_memdup(&scratch, t, sizeof *own);
	order_sums(&own->stage[0].post);
	for (int whole = 1; whole >= 0 && rc < 0; whole--) {
		rc = fallback_split(own, host->lanes, whole, parts);
		if (rc >= 0)
			rc = find_core(&parts->core, host, a, &scratch, out);
	}
	arena_free(&scratch);
	return rc;
}
