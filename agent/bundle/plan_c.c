/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bundle/plan_c.h"
#include "agent/bundle/plan_c_parts.h"
#include "agent/run/host_parts.h"
#include "kernels/task/task_stage.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether a file NAME.h in a folder of -I would hide a header of the C library. */
static bool is_header(const char *name)
{
	static const char *const headers[] = {
	    "alloca",  "endian",  "features", "sched",  "unistd",   "assert",      "complex",
	    "ctype",   "errno",   "fenv",     "float",  "inttypes", "iso646",      "limits",
	    "locale",  "math",    "setjmp",   "signal", "stdalign", "stdarg",      "stdatomic",
	    "stdbool", "stddef",  "stdint",   "stdio",  "stdlib",   "stdnoreturn", "string",
	    "tgmath",  "threads", "time",     "uchar",  "wchar",    "wctype"};
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
		if (!strcmp(name, headers[i]))
			return true;
	return false;
}

void plan_c_name(const char *text, char out[PLAN_C_NAME])
{
	size_t n = 0;
	text += strspn(text, "_");
	bool letter = is_word(*text) && !(*text >= '0' && *text <= '9');
	char trimmed[PLAN_C_NAME];
	snprintf(trimmed, sizeof trimmed, "%s", text);
	for (size_t end = strlen(trimmed); end && !isalnum((unsigned char)trimmed[end - 1]); end--)
		trimmed[end - 1] = 0; /* as below */
	for (const char *p = letter && !is_header(trimmed) ? "" : "net_"; *p;)
		out[n++] = *p++;
	for (const char *p = text; *p && n < PLAN_C_NAME - 1; p++)
		if ((is_word(*p) && *p != '_') || !n || out[n - 1] != '_')
			out[n++] = is_word(*p) ? *p : '_';
	while (n && out[n - 1] == '_')
		n--;
	out[n] = 0;
}

static char *upper(struct arena *a, const char *s)
{
	char *u = arena_strdup(a, s);
	for (char *p = u; *p; p++)
		*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
	return u;
}

static bool goes_on(const char *p, int n)
{
	for (int i = 0; i < n; i++)
		if (((uint8_t)p[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* Bytes of the character of UTF-8 at p, which may stand in a comment; 0: it may not, because it is invalid, a
 * control character, or turns the direction of the text that follows. */
static int letter_bytes(const char *p)
{
	uint8_t a = (uint8_t)p[0], b = a ? (uint8_t)p[1] : 0;
	if (a < 0x80) /* neither the end of a comment, nor a trigraph or an escape */
		return a >= ' ' && a != 0x7f && !strchr("*?\\", a);
	if (a >= 0xc2 && a < 0xe0)
		return goes_on(p + 1, 1) && (a > 0xc2 || b >= 0xa0) && (a != 0xd8 || b != 0x9c) ? 2 : 0;
	if (a >= 0xe0 && a < 0xf0) {
		bool odd = (a == 0xe0 && b < 0xa0) || (a == 0xed && b >= 0xa0) || (a == 0xe2 && b <= 0x81) ||
			   (a == 0xef && b == 0xbb);
		return goes_on(p + 1, 2) && !odd ? 3 : 0;
	}
	bool wide = (a == 0xf0 && b >= 0x90) || (a > 0xf0 && a < 0xf4) || (a == 0xf4 && b < 0x90);
	return wide && goes_on(p + 1, 3) ? 4 : 0;
}

void c_comment(struct buf *b, const char *text)
{
	for (const char *p = text; *p;) {
		int n = letter_bytes(p);
		if (n)
			buf_add(b, p, (size_t)n);
		else
			buf_printf(b, "\\x%02x", (uint8_t)*p);
		p += n ? n : 1;
	}
}

static bool is_taken(const struct c_tensor *all, int n, const char *upper_name)
{
	for (int k = 0; k < n; k++)
		if (!strcmp(all[k].upper, upper_name))
			return true;
	return false;
}

/* Names a tensor "in_data", or "in_data_2" if that is taken; letter case does not count, as macros use
 * capitals. */
static void name_tensor(struct plan_c *c, struct c_tensor *all, int i, const char *prefix)
{
	char name[PLAN_C_NAME];
	struct c_tensor *x = &all[i];
	plan_c_name(x->name && *x->name ? x->name : "tensor", name);
	x->member = arena_printf(&c->a, "%s_%s", prefix, name);
	x->upper = upper(&c->a, x->member);
	for (int k = 2; is_taken(all, i, x->upper); k++) {
		x->member = arena_printf(&c->a, "%s_%s_%d", prefix, name, k);
		x->upper = upper(&c->a, x->member);
	}
}

static int name_tensors(struct plan_c *c, const int *value, int n, const char *prefix, struct c_tensor **out)
{
	const struct graph *g = c->p->g;
	struct c_tensor *all = arena_try(&c->a, (size_t)n + 1, sizeof *all);
	if (!all)
		return E_NOMEM;
	for (int i = 0; i < n; i++) {
		all[i].t = &g->value[value[i]].t;
		all[i].name = g->value[value[i]].name;
		name_tensor(c, all, i, prefix);
	}
	*out = all;
	return E_OK;
}

/* ---- parts of the source ---- */

struct c_place c_place_of(const struct plan_c *c, void *const *at)
{
	static const enum c_region region[IMAGE_REGIONS] = {[NOWHERE] = C_NOWHERE,
							    [IN_MEMORY] = C_ARENA,
							    [IN_WEIGHTS] = C_WEIGHTS,
							    [IN_TEMPORARY] = C_ARENA,
							    [GIVEN] = C_IN};
	int64_t offset;
	enum image_region r = plan_region(c->p, at, &offset);
	if (r == IN_TEMPORARY) /* temporaries lie behind the values */
		offset += c_round64((int64_t)c->p->memory_bytes);
	return (struct c_place){region[r], offset};
}

static struct c_place add_constant(struct plan_c *c, const void *p, size_t bytes)
{
	struct c_place at = {C_WEIGHTS, c_round64((int64_t)c->p->weight_bytes)};
	for (int i = 0; i < c->nextra; i++) {
		if (c->extra[i].p == p && c->extra[i].n == bytes)
			return at;
		at.at += c_round64((int64_t)c->extra[i].n);
	}
	c->extra[c->nextra++] = (struct blob){p, bytes};
	c->weight_bytes += c_round64((int64_t)bytes);
	return at;
}

int c_places(struct plan_c *c, const struct c_place *place, int n)
{
	static const char *const region[] = {"ARENA", "WEIGHTS", "IN", "OUT", "SCRATCH", "STATUS", "NOWHERE"};
	buf_printf(&c->tables, "static const struct place q%d[] = {", c->ntables);
	for (int i = 0; i < n; i++)
		buf_printf(&c->tables, "%s{%s, %lld}", i ? ", " : "", region[place[i].region],
			   (long long)place[i].at);
	buf_puts(&c->tables, "};\n");
	return c->ntables++;
}

static void put_table(struct buf *b, const char *letter, int number)
{
	if (number < 0)
		buf_puts(b, "NULL, ");
	else
		buf_printf(b, "%s%d, ", letter, number);
}

void c_call(struct plan_c *c, const struct c_call *call)
{
	if (call->extent <= 0)
		return;
	buf_printf(&c->calls, "\t{%s, %lld, ", call->fn, (long long)call->extent);
	put_table(&c->calls, "p", call->param);
	put_table(&c->calls, "q", call->place);
	buf_printf(&c->calls, "%d, ", call->place < 0 ? 0 : call->nplaces);
	put_table(&c->calls, "e", call->edge);
	buf_printf(&c->calls, "%d, %d},\n", call->edge < 0 ? 0 : call->nedges, call->alone);
	c->ncalls++;
}

const char *c_function(struct plan_c *c, const struct buf *body)
{
	struct key key = hash_bytes(body->p, body->n);
	int i = 0;
	c->functions.failed |= body->failed;
	while (i < c->nfunctions && memcmp(c->keys.p + (size_t)i * sizeof key, &key, sizeof key) != 0)
		i++;
	if (i == c->nfunctions && !c->keys.failed) {
		buf_add(&c->keys, &key, sizeof key);
		buf_printf(&c->functions,
			   "static void f%d(void *const *buf, const int64_t *param, int64_t begin, int64_t "
			   "end)\n{\n%s}\n\n",
			   i, buf_str(body));
		c->nfunctions++;
	}
	return arena_printf(&c->a, "f%d", i);
}

/* ---- steps ---- */

static int put_param(struct plan_c *c, const struct pstep *ps)
{
	int n = ps->found->m.nparams;
	if (!n)
		return -1;
	buf_printf(&c->tables, "static const int64_t p%d[] = {", c->ntables);
	for (int i = 0; i < n; i++)
		if (ps->param[i] == INT64_MIN)
			buf_printf(&c->tables, "%sINT64_MIN", i ? ", " : "");
		else
			buf_printf(&c->tables, "%s%lld", i ? ", " : "", (long long)ps->param[i]);
	buf_puts(&c->tables, "};\n");
	return c->ntables++;
}

static int find_entry(const struct c_object *o, const char *name)
{
	for (int i = 0; i < o->entries; i++)
		if (!strcmp(o->entry[i], name))
			return i;
	return fail(E_CORRUPT, "a kernel has no entry %s", name);
}

static int put_kernel(struct plan_c *c, const struct pstep *ps)
{
	struct c_object *o;
	struct c_place place[CODE_MAX_BUFS];
	int rc = c_object(c, ps->found, &o);
	if (rc < 0)
		return rc;
	for (int i = 0; i < ps->nbufs; i++) {
		place[i] = c_place_of(c, &ps->buf[i]);
		if (place[i].region == C_NOWHERE && i == ps->nbufs - 1)
			place[i].region = C_SCRATCH;
	}
	struct c_call call = {
	    .nplaces = ps->nbufs, .param = put_param(c, ps), .edge = -1, .alone = ps->alone};
	call.place = c_places(c, place, ps->nbufs);
	for (int e = 0; e < ps->nentries; e++) {
		int entry = find_entry(o, ps->found->m.entry[e]);
		if (entry < 0)
			return entry;
		call.fn = arena_printf(&c->a, "k%d_%d", o->number, entry);
		call.extent = ps->entry[e].extent;
		if (e == ps->nentries - 1 && ps->nrefill) {
			call.edge = c_edges(c, ps->refill, ps->nrefill);
			call.nedges = ps->nrefill;
		}
		c_call(c, &call);
	}
	return E_OK;
}

/* The epilogue after a fallback kernel reads that kernel's output where it writes its own. Returns the
 * operand it reads there. */
static int in_place(const struct pstep *ps)
{
	int out = ps->tail ? ps->rest_of[ps->nrest - 1] : -1;
	for (int k = 0; k < ps->nrest - 1; k++)
		if (ps->rest_of[k] == out)
			return k;
	return -1;
}

static int put_task(struct plan_c *c, const struct pstep *ps)
{
	int rc = ps->code ? put_kernel(c, ps) : E_OK, n = ps->host ? host_entries(ps->host) : 0;
	for (int i = 0; i < ps->nrefill && ps->host; i++)
		c_refill(c, ps->refill[i]);
	for (int k = 0; k < n; k++)
		c_stage(c, ps->host, k, ps->buf, -1);
	if (ps->tail)
		c_stage(c, ps->tail, 0, ps->tail_buf, in_place(ps));
	c->portable += ps->host || ps->tail;
	return rc;
}

struct c_place c_tensor_place(struct plan_c *c, const struct tensor *t)
{
	struct c_place at = c_place_of(c, &t->data);
	return at.region == C_NOWHERE
		   ? add_constant(c, t->data, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype))
		   : at;
}

/* Concat and Split. */
static void put_parts(struct plan_c *c, const struct pstep *ps)
{
	const struct node *n = &c->p->g->node[ps->step->node];
	bool join = !strcmp(node_type(n), "Concat");
	for (int i = 0; i < (join ? n->nin : n->nout); i++) {
		const struct part *x = &ps->part[i];
		if (!x->bytes || x->there)
			continue;
		const struct tensor *part = join ? &ps->ctx.in[i] : &ps->ctx.out[i],
				    *whole = join ? &ps->ctx.out[0] : &ps->ctx.in[0];
		c_copy(c, &x->w, DT_F32, join, c_tensor_place(c, join ? part : whole),
		       c_tensor_place(c, join ? whole : part));
	}
}

static void put_node(struct plan_c *c, const struct pstep *ps)
{
	const struct node *n = &c->p->g->node[ps->step->node];
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0 && c->p->place[n->out[i]].refill)
			c_refill(c, n->out[i]);
	if (step_any_layout(c->p->g, ps->step->node))
		put_parts(c, ps);
	else
		c_node(c, ps);
}

static int64_t bytes_of(const struct tensor *t)
{
	return shape_count(&t->shape) * (int64_t)dtype_bytes(t->dtype);
}

/* Whether a value of the type may have any layout. */
static bool has_window(enum dtype t)
{
	return t == DT_F32 || t == DT_I32 || dtype_is_byte(t);
}

static void put_inputs(struct plan_c *c)
{
	const struct plan *p = c->p;
	for (int i = 0; i < p->g->ninputs; i++) {
		int v = p->g->input[i];
		struct c_place from = {C_IN, i}, to = c_place_of(c, (void *const *)&p->place[v].p);
		if (to.region == C_NOWHERE)
			continue;
		if (p->place[v].refill)
			c_refill(c, v);
		if (has_window(p->in[i].dtype))
			c_copy(c, &p->copy_in[i], p->in[i].dtype, true, from, to);
		else
			c_copy_bytes(c, bytes_of(c->in[i].t), from, to);
	}
}

static void put_outputs(struct plan_c *c)
{
	const struct plan *p = c->p;
	for (int i = 0; i < p->g->noutputs; i++) {
		const struct tensor *t = c->out[i].t;
		struct c_place from = t->data ? c_tensor_place(c, t)
					      : c_place_of(c, (void *const *)&p->place[p->g->output[i]].p),
			       to = {C_OUT, i};
		if (t->data || !has_window(t->dtype))
			c_copy_bytes(c, bytes_of(t), from, to);
		else
			c_copy(c, &p->copy_out[i], p->out[i].dtype, false, from, to);
	}
}

static int put_steps(struct plan_c *c)
{
	int rc = E_OK;
	put_inputs(c);
	for (int i = 0; i < c->p->nsteps && rc >= 0; i++) {
		const struct pstep *ps = &c->p->step[i];
		if (ps->step->kind == STEP_ALIAS)
			continue;
		buf_puts(&c->calls, "\t/* ");
		c_comment(&c->calls, ps->step->name);
		buf_puts(&c->calls, ": ");
		c_comment(&c->calls, c->p->kernel[ps->kernel].label);
		buf_puts(&c->calls, " */\n");
		if (ps->step->kind == STEP_TASK)
			rc = put_task(c, ps);
		else
			put_node(c, ps);
	}
	put_outputs(c);
	c_fixed_edges(c);
	return rc;
}

/* ---- plans that cannot be written ---- */

static int check(const struct plan *p)
{
	struct buf list = {0};
	int n = 0;
	if (!p->whole)
		return fail(E_USAGE, "the plan was not built to be written as C");
	if (!object_knows(elf_machine()))
		return fail(E_UNSUPPORTED, "C is written for x86-64 and AArch64 only");
	for (int i = 0; i < p->nsteps; i++) {
		const struct step *s = p->step[i].step;
		if (s->kind != STEP_HOST || step_any_layout(p->g, s->node) || c_node_has_form(&p->step[i]))
			continue;
		const struct node *node = &p->g->node[s->node];
		buf_printf(&list, "%s'%s' (%s)", n++ ? ", " : "", node->name, node_type(node));
	}
	int rc = !n ? E_OK
		    : fail(E_UNSUPPORTED,
			   "%d node%s no form in C: %s; cut the model before %s and do that work in the "
			   "application, or run the model with libhone",
			   n, n > 1 ? "s have" : " has", buf_str(&list), n > 1 ? "them" : "it");
	buf_free(&list);
	return rc;
}

/* ---- all together ---- */

static int begin(struct plan_c *c)
{
	const struct plan *p = c->p;
	size_t parts = 0;
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].step->kind == STEP_HOST)
			parts += (size_t)p->step[i].ctx.nin + (size_t)p->step[i].ctx.nout;
	c->object = arena_try(&c->a, (size_t)p->nsteps + 1, sizeof *c->object);
	c->symbol = arena_try(&c->a, ((size_t)p->nsteps + 1) * 64, sizeof *c->symbol);
	c->extra = arena_try(&c->a, 2 * parts + (size_t)p->g->noutputs + 1, sizeof *c->extra);
	if (!c->object || !c->symbol || !c->extra)
		return E_NOMEM;
	c->weight_bytes = c_round64((int64_t)p->weight_bytes);
	c->code_align = c_is_arm() ? 4096 : 64; /* AArch64 code addresses data by pages */
	int64_t threads = (int64_t)(p->pool ? pool_threads(p->pool) : 1) * (int64_t)p->thread_bytes;
	c->value_bytes = c_round64((int64_t)p->memory_bytes) + c_round64((int64_t)p->scratch_bytes - threads);
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].code && c_round64(p->step[i].found->m.scratch_bytes) > c->thread_bytes)
			c->thread_bytes = c_round64(p->step[i].found->m.scratch_bytes);
	int rc = name_tensors(c, p->g->input, p->g->ninputs, "in", &c->in);
	return rc < 0 ? rc : name_tensors(c, p->g->output, p->g->noutputs, "out", &c->out);
}

static int make(struct plan_c *c, const char *dir, struct plan_c_sizes *out)
{
	struct buf header = {0}, source = {0};
	int rc = begin(c);
	if (rc >= 0)
		rc = put_steps(c);
	if (rc < 0)
		return rc;
	c->weight_bytes = c->weight_bytes ? c->weight_bytes : 64;
	if ((rc = c_set_tag(c)) < 0)
		return rc;
	c_header(c, &header);
	c_source(c, &source);
	const struct buf *all[] = {&header,    &source,   &c->image, &c->functions,
				   &c->tables, &c->calls, &c->fixed, &c->keys};
	for (size_t i = 0; i < sizeof all / sizeof *all && rc >= 0; i++)
		rc = buf_ok(all[i]) ? E_OK : fail(E_NOMEM, "no memory for a source");
	if (rc >= 0)
		rc = c_write(c, dir, &header, &source);
	*out = (struct plan_c_sizes){c->image.n,
				     (size_t)c->weight_bytes,
				     source.n,
				     (size_t)(c->value_bytes + c->thread_bytes),
				     (size_t)c->thread_bytes,
				     c->nobjects,
				     c->portable};
	buf_free(&header);
	buf_free(&source);
	return rc;
}

int plan_c_write(const struct plan *p, const char *dir, const char *name, struct plan_c_sizes *out)
{
	struct plan_c c = {.p = p, .name = name};
	int rc = check(p);
	if (rc < 0)
		return rc;
	c.upper = upper(&c.a, name);
	rc = make(&c, dir, out);
	struct buf *all[] = {&c.image, &c.functions, &c.tables, &c.calls, &c.fixed, &c.keys};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		buf_free(all[i]);
	arena_free(&c.a);
	return fail_in(rc, "C source");
}
