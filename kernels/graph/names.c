/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/names.h"
#include "platform/base/err.h"
#include "platform/base/mix.h"
#include <string.h>

struct names_slot {
	const char *name; /* NULL: free */
	uint64_t hash;
	int value;
};

/* Open addressing, at most half full. Returns the slot of the name, or the free slot where it belongs. */
static struct names_slot *probe(const struct names *m, const char *name, uint64_t hash)
{
	size_t i = hash & (m->cap - 1);
	while (m->slot[i].name && (m->slot[i].hash != hash || strcmp(m->slot[i].name, name)))
		i = (i + 1) & (m->cap - 1);
	return &m->slot[i];
}

static int grow(struct names *m)
{
	struct names bigger = {m->a, m->n, m->cap ? m->cap * 2 : 16, NULL};
	bigger.slot = arena_try(m->a, bigger.cap, sizeof *bigger.slot);
	if (!bigger.slot)
		return E_NOMEM;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].name)
			*probe(&bigger, m->slot[i].name, m->slot[i].hash) = m->slot[i];
	*m = bigger;
	return E_OK;
}

int *names_find(const struct names *m, const char *name)
{
	if (!m->cap)
		return NULL;
	struct names_slot *s = probe(m, name, mix_text(name).lo);
	return s->name ? &s->value : NULL;
}

int names_add(struct names *m, const char *name, int value)
{
	if (m->n * 2 >= m->cap && grow(m) < 0)
		return E_NOMEM;
	uint64_t hash = mix_text(name).lo;
	struct names_slot *s = probe(m, name, hash);
	if (s->name)
		return fail(E_CORRUPT, "the name '%.200s' is used twice", name);
	*s = (struct names_slot){name, hash, value};
	m->n++;
	return E_OK;
}
