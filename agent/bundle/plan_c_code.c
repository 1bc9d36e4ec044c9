/* SPDX-License-Identifier: Apache-2.0 */
/* The machine code of all kernels as one image. Each kernel is linked at its place in it; its bytes may not
 * depend on the address of the image, which is aligned as its section is. */
#include "agent/bundle/plan_c_parts.h"

#include <stdlib.h>
#include <string.h>

enum { FAR = 1 << 28 }; /* a second address to link for: a multiple of 4096 */

static int link_at(const struct elf *e, uint64_t base, struct arena *a, uint8_t **out)
{
	*out = arena_try(a, e->image_bytes, 1);
	return *out ? elf_link(e, base, *out) : E_NOMEM;
}

static void pad(struct buf *b, size_t align)
{
	while (b->n % align)
		buf_u8(b, 0);
}

static void add_symbols(struct plan_c *c, const struct elf *e, uint64_t base, struct c_object *o)
{
	for (int i = 0; i < e->nentries; i++) {
		size_t end = e->image_bytes;
		for (int k = 0; k < e->nentries; k++)
			end = e->entry[k].at > e->entry[i].at && e->entry[k].at < end ? e->entry[k].at : end;
		c->symbol[c->nsymbols++] = (struct object_symbol){
		    arena_printf(&c->a, "k%d_%d", o->number, i), base + e->entry[i].at, end - e->entry[i].at};
	}
}

static int add_object(struct plan_c *c, const struct blob *from, struct c_object *o)
{
	struct elf e;
	uint8_t *here, *there;
	int rc = elf_read(&e, from->p, from->n, elf_machine());
	if (rc < 0)
		return rc;
	c->code_align = e.align > c->code_align ? e.align : c->code_align;
	pad(&c->image, e.align > 64 ? e.align : 64);
	uint64_t base = c->image.n;
	if ((rc = link_at(&e, base, &c->a, &here)) < 0 || (rc = link_at(&e, base + FAR, &c->a, &there)) < 0)
		return rc;
	if (memcmp(here, there, e.image_bytes) != 0)
		return fail(E_UNSUPPORTED, "a kernel depends on its address");
	*o = (struct c_object){from, c->nobjects, e.nentries, NULL};
	o->entry = arena_try(&c->a, (size_t)e.nentries, sizeof *o->entry);
	if (!o->entry)
		return E_NOMEM;
	for (int i = 0; i < e.nentries; i++)
		memcpy(o->entry[i], e.entry[i].name, sizeof *o->entry);
	add_symbols(c, &e, base, o);
	buf_add(&c->image, here, e.image_bytes);
	c->nobjects++;
	return E_OK;
}

static void note_isa(struct plan_c *c, const char *isa)
{
	for (int i = 0; i < c->nisa; i++)
		if (!strcmp(c->isa[i], isa))
			return;
	if (c->nisa < (int)(sizeof c->isa / sizeof *c->isa))
		c->isa[c->nisa++] = arena_strdup(&c->a, isa);
}

int c_object(struct plan_c *c, const struct code *code, struct c_object **out)
{
	note_isa(c, code->m.isa);
	for (int i = 0; i < c->nobjects; i++) {
		*out = &c->object[i];
		if ((*out)->from->n == code->object.n &&
		    !memcmp((*out)->from->p, code->object.p, code->object.n))
			return E_OK;
	}
	*out = &c->object[c->nobjects];
	return fail_in(add_object(c, &code->object, *out), "machine code");
}
