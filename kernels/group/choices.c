/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/choices.h"

#include <string.h>

static const char head[] = "hone-choices 1\n";
static const char *const kinds[CHOICE_KINDS] = {
    [CHOICE_JOIN] = "join", [CHOICE_LANES] = "lanes", [CHOICE_FUSE] = "fuse", [CHOICE_BYTES] = "bytes"};

const char *choice_kind_name(enum choice_kind kind)
{
	return kinds[kind];
}

static int order(const struct choice *x, enum choice_kind kind, const char *name)
{
	return x->kind != kind ? (x->kind < kind ? -1 : 1) : strcmp(x->name, name);
}

/* Index of a choice, or where it would be inserted. */
static int find(const struct choices *c, enum choice_kind kind, const char *name)
{
	int from = 0, to = c->n;
	while (from < to) {
		int at = (from + to) / 2;
		if (order(&c->choice[at], kind, name) < 0)
			from = at + 1;
		else
			to = at;
	}
	return from;
}

static bool is_at(const struct choices *c, int at, enum choice_kind kind, const char *name)
{
	return at < c->n && order(&c->choice[at], kind, name) == 0;
}

int choices_get(const struct choices *c, enum choice_kind kind, const char *name, int fallback)
{
	int at = c ? find(c, kind, name) : 0;
	return c && is_at(c, at, kind, name) ? c->choice[at].number : fallback;
}

void choices_set(struct choices *c, struct arena *a, enum choice_kind kind, const char *name, int number)
{
	int at = find(c, kind, name), there = is_at(c, at, kind, name), n = 0;
	struct choice *to = ARENA_ARRAY(a, struct choice, c->n + 1);
	for (int i = 0; i < at; i++)
		to[n++] = c->choice[i];
	if (number >= 0)
		to[n++] = (struct choice){kind, name, number};
	for (int i = at + there; i < c->n; i++)
		to[n++] = c->choice[i];
	for (int i = 0; i < n; i++)
		to[i].name = arena_strdup(a, to[i].name);
	*c = (struct choices){n, to};
}

bool choices_equal(const struct choices *x, const struct choices *y)
{
	bool same = x->n == y->n;
	for (int i = 0; same && i < x->n; i++)
		same = order(&x->choice[i], y->choice[i].kind, y->choice[i].name) == 0 &&
		       x->choice[i].number == y->choice[i].number;
	return same;
}

static bool escaped(unsigned char c)
{
	return c < 32 || c == 127 || c == '\\';
}

void choices_text(const struct choices *c, struct buf *out)
{
	buf_puts(out, head);
	for (int i = 0; i < c->n; i++) {
		buf_printf(out, "%s %d ", kinds[c->choice[i].kind], c->choice[i].number);
		for (const char *p = c->choice[i].name; *p; p++)
			if (escaped((unsigned char)*p))
				buf_printf(out, "\\x%02x", (unsigned char)*p);
			else
				buf_add(out, p, 1);
		buf_puts(out, "\n");
	}
}

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Reads a name up to its newline, unescaped into `out`. NULL: choices_text would write it differently. */
static const char *read_name(const char *p, char *out)
{
	for (; *p && *p != '\n'; p++) {
		if (*p != '\\') {
			if (escaped((unsigned char)*p))
				return NULL;
			*out++ = *p;
			continue;
		}
		if (p[1] != 'x' || hex(p[2]) < 0 || hex(p[3]) < 0)
			return NULL;
		int c = hex(p[2]) * 16 + hex(p[3]);
		if (!c || !escaped((unsigned char)c))
			return NULL;
		*out++ = (char)c;
		p += 3;
	}
	*out = 0;
	return *p ? p + 1 : NULL;
}

/* Reads "KIND N " at p. NULL: it is not there. */
static const char *read_start(const char *p, struct choice *out)
{
	int64_t number = 0;
	int digits = 0, kind = 0;
	size_t n = strcspn(p, " ");
	while (kind < CHOICE_KINDS && (strlen(kinds[kind]) != n || strncmp(p, kinds[kind], n) != 0))
		kind++;
	if (kind == CHOICE_KINDS || !p[n])
		return NULL;
	p += n + 1;
	for (; *p >= '0' && *p <= '9' && digits < 8; p++, digits++)
		number = number * 10 + (*p - '0');
	if (!digits || *p != ' ' || number > CHOICE_MAX || (digits > 1 && p[-digits] == '0'))
		return NULL;
	out->kind = (enum choice_kind)kind;
	out->number = (int)number;
	return p + 1;
}

static int count_lines(const char *p)
{
	int n = 0;
	for (; *p; p++)
		n += *p == '\n';
	return n;
}

int choices_parse(const char *text, struct arena *a, struct choices *out)
{
	*out = (struct choices){0};
	if (strncmp(text, head, sizeof head - 1) != 0)
		return fail(E_CORRUPT, "choices: not of this format");
	text += sizeof head - 1;
	size_t len = strlen(text);
	struct choice *c = arena_try(a, (size_t)count_lines(text) + 1, sizeof *c);
	char *names = arena_try(a, len + 1, 1);
	if (!c || !names)
		return E_NOMEM;
	int n = 0;
	for (const char *p = text; *p; n++) {
		p = read_start(p, &c[n]);
		c[n].name = names;
		p = p ? read_name(p, names) : NULL;
		if (!p || (n > 0 && order(&c[n - 1], c[n].kind, c[n].name) >= 0))
			return fail(E_CORRUPT, "choices: line %d is not well formed", n + 2);
		names += strlen(names) + 1;
	}
	*out = (struct choices){n, c};
	return E_OK;
}
