/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest's text: lines "key value", with keys in this order; starred ones repeat once per entry,
 * parameter or buffer: emitter version isa features lanes nsyms scratch winograd sums common alias entry*
 * param* buf* packing* texture*. "sums f16" or "sums tf32" is left out where manifest.sums is none, "common
 * 1" where each index has scratch of its own, and "texture 1" behind a buffer that is no texture. */
#include "kernels/loops/code.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[4] = {'H', 'C', 'O', '1'};
static const char *const role_names[] = {"in", "out", "const", "scratch"};

static const char *const sums[DTYPES] = {
    [DT_NONE] = "", [DT_F16] = "sums f16\n", [DT_BF16] = "sums bf16\n", [DT_F32] = "sums tf32\n"};

static void put_manifest(const struct manifest *m, struct buf *out)
{
	buf_printf(out, "emitter %s\nversion %s\nisa %s\nfeatures %s\nlanes %d\nnsyms %d\n", m->emitter,
		   m->version, m->isa, m->features, m->lanes, m->nsyms);
	buf_printf(out, "scratch %lld\nwinograd %d\n%s%salias %d %d\n", (long long)m->scratch_bytes,
		   m->winograd, sums[m->sums], m->shares_scratch ? "common 1\n" : "", m->alias_out,
		   m->alias_in);
	for (int i = 0; i < m->nentries; i++)
		buf_printf(out, "entry %s %s\n", m->entry[i], m->extent_expr[i]);
	for (int i = 0; i < m->nparams; i++)
		buf_printf(out, "param %lld\n", (long long)m->param[i]);
	for (int i = 0; i < m->nbufs; i++) {
		const struct code_buf *b = &m->buf[i];
		buf_printf(out, "buf %s %s %d %lld\n", b->name, role_names[b->role], b->operand,
			   (long long)b->elems);
		if (b->packed) {
			buf_puts(out, "packing ");
			pack_text(&b->packing, out);
			buf_puts(out, "\n");
		}
		buf_puts(out, b->texture ? "texture 1\n" : "");
	}
}

bool code_is_current(const struct manifest *m)
{
	static const char end[] = "/" CODE_REVISION;
	size_t n = strlen(m->version), tail = sizeof end - 1;
	return n >= tail && !strcmp(m->version + n - tail, end);
}

void code_bytes(const struct code *c, struct buf *out)
{
	struct buf text = {0};
	put_manifest(&c->m, &text);
	buf_add(out, magic, sizeof magic);
	buf_u32(out, (uint32_t)text.n);
	buf_u32(out, (uint32_t)c->object.n);
	buf_add(out, text.p, text.n);
	buf_add(out, c->object.p, c->object.n);
	if (!buf_ok(&text))
		out->failed = true;
	buf_free(&text);
}

/* The next line's value if its key is `key`; it is NUL-terminated in place. */
static char *line(char **at, const char *key)
{
	size_t n = strlen(key);
	char *s = *at, *end = strchr(s, '\n');
	if (strncmp(s, key, n) || s[n] != ' ' || !end)
		return NULL;
	*end = 0;
	*at = end + 1;
	return s + n + 1;
}

static bool get_text(char **at, const char *key, char *out, size_t cap)
{
	const char *v = line(at, key);
	size_t n = v ? strlen(v) : cap;
	if (n >= cap)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isprint((unsigned char)v[i]))
			return false;
	memcpy(out, v, n + 1);
	return true;
}

static bool number(const char **s, int64_t lo, int64_t hi, int64_t *out)
{
	char *end;
	errno = 0;
	long long v = strtoll(*s, &end, 10);
	if (end == *s || errno || v < lo || v > hi || (*end && *end != ' '))
		return false;
	*s = *end ? end + 1 : end;
	*out = v;
	return true;
}

static bool get_number(char **at, const char *key, int64_t lo, int64_t hi, int64_t *out)
{
	const char *v = line(at, key);
	return v && number(&v, lo, hi, out) && !*v;
}

static int get_entries(char **at, struct manifest *m)
{
	for (char *v; (v = line(at, "entry")); m->nentries++) {
		char *space = strchr(v, ' ');
		if (m->nentries == LOOPS_MAX_ENTRIES || !space ||
		    space - v >= (ptrdiff_t)sizeof m->entry[0] || space == v ||
		    strlen(space + 1) >= sizeof m->extent_expr[0])
			return fail(E_CORRUPT, "entry %d", m->nentries);
		memcpy(m->entry[m->nentries], v, (size_t)(space - v));
		strcpy(m->extent_expr[m->nentries], space + 1);
	}
	for (const char *v; (v = line(at, "param")); m->nparams++)
		if (m->nparams == LOOPS_MAX_PARAMS ||
		    !number(&v, INT64_MIN, INT64_MAX, &m->param[m->nparams]) || *v)
			return fail(E_CORRUPT, "parameter %d", m->nparams);
	if (!m->nentries || m->nsyms > m->nparams)
		return fail(E_CORRUPT, "%d entries, %d parameters, %d symbols", m->nentries, m->nparams,
			    m->nsyms);
	return E_OK;
}

static bool get_buf(const char *v, struct code_buf *b)
{
	const char *space = strchr(v, ' ');
	int64_t operand, elems;
	int role = -1;
	if (!space || space == v || space - v >= (ptrdiff_t)sizeof b->name)
		return false;
	memcpy(b->name, v, (size_t)(space - v));
	v = space + 1;
	for (int i = 0; i < 4; i++) {
		size_t n = strlen(role_names[i]);
		if (!strncmp(v, role_names[i], n) && v[n] == ' ') {
			role = i;
			v += n + 1;
			break;
		}
	}
	if (role < 0 || !number(&v, -1, MAX_OPERANDS - 1, &operand) ||
	    !number(&v, 0, INT64_C(1) << 34, &elems) || *v)
		return false;
	b->role = (enum buf_role)role;
	b->operand = (int)operand;
	b->elems = elems;
	return true;
}

static int get_bufs(char **at, struct manifest *m)
{
	for (const char *v; (v = line(at, "buf")); m->nbufs++) {
		if (m->nbufs == CODE_MAX_BUFS || !get_buf(v, &m->buf[m->nbufs]))
			return fail(E_CORRUPT, "buffer %d", m->nbufs);
		struct code_buf *b = &m->buf[m->nbufs];
		const char *pack = line(at, "packing");
		b->packed = pack != NULL;
		int rc = pack ? pack_parse(pack, &b->packing) : E_OK;
		if (rc < 0)
			return fail_in(rc, "buffer %s", b->name);
		if (pack && (b->role != BUF_CONST || (b->elems && b->elems < pack_elems(&b->packing))))
			return fail(E_CORRUPT,
				    "buffer %s: packing of a buffer that is no constant or too small",
				    b->name);
		const char *texture = line(at, "texture");
		b->texture = texture != NULL;
		if (texture && (strcmp(texture, "1") || !pack || b->packing.bf16))
			return fail(E_CORRUPT, "buffer %s: texture", b->name);
		if ((b->operand < 0) != (b->role == BUF_SCRATCH))
			return fail(E_CORRUPT, "buffer %s: operand %d", b->name, b->operand);
	}
	return E_OK;
}

static int get_manifest(char *at, struct manifest *m)
{
	int64_t lanes, nsyms, winograd, alias_out, alias_in;
	if (!get_text(&at, "emitter", m->emitter, sizeof m->emitter) ||
	    !get_text(&at, "version", m->version, sizeof m->version) ||
	    !get_text(&at, "isa", m->isa, sizeof m->isa) ||
	    !get_text(&at, "features", m->features, sizeof m->features) ||
	    !get_number(&at, "lanes", 1, 64, &lanes) || !get_number(&at, "nsyms", 0, MAX_SYMS, &nsyms) ||
	    !get_number(&at, "scratch", 0, INT64_C(1) << 32, &m->scratch_bytes) ||
	    !get_number(&at, "winograd", 0, 4, &winograd) || winograd % 2)
		return fail(E_CORRUPT, "head");
	const char *v = line(&at, "sums");
	m->sums = !v ? DT_NONE : *v == 't' ? DT_F32 : *v == 'b' ? DT_BF16 : DT_F16;
	if (v && strcmp(v, m->sums == DT_F32 ? "tf32" : dtype_name(m->sums)) != 0)
		return fail(E_CORRUPT, "sums");
	v = line(&at, "common");
	m->shares_scratch = v != NULL;
	if (v && strcmp(v, "1") != 0)
		return fail(E_CORRUPT, "common");
	v = line(&at, "alias");
	if (!v || !number(&v, -1, CODE_MAX_BUFS - 1, &alias_out) ||
	    !number(&v, -1, CODE_MAX_BUFS - 1, &alias_in) || *v)
		return fail(E_CORRUPT, "alias");
	m->lanes = (int)lanes;
	m->nsyms = (int)nsyms;
	m->winograd = (int)winograd;
	m->alias_out = (int)alias_out;
	m->alias_in = (int)alias_in;
	int rc = get_entries(&at, m);
	if (rc >= 0)
		rc = get_bufs(&at, m);
	if (rc >= 0 && (*at || m->alias_out >= m->nbufs || m->alias_in >= m->nbufs))
		rc = fail(E_CORRUPT, "text after the end, or alias");
	for (int i = 0; i < m->nentries && rc >= 0; i++) {
		int64_t extent = code_extent(m, i, m->param);
		if (extent < 0 && !m->nsyms)
			rc = (int)extent;
	}
	return rc;
}

int code_parse(const void *p, size_t n, struct arena *a, struct code *out)
{
	struct cur c = {.p = p, .n = n};
	const void *head = cur_bytes(&c, sizeof magic);
	memset(out, 0, sizeof *out);
	if (!head || memcmp(head, magic, sizeof magic))
		return fail(E_CORRUPT, "code: no HCO1 head");
	size_t text_n = cur_u32(&c), object_n = cur_u32(&c);
	const void *text = cur_bytes(&c, text_n);
	out->object.p = cur_bytes(&c, object_n);
	out->object.n = object_n;
	if (c.bad || c.at != n || !text || !out->object.p || memchr(text, 0, text_n))
		return fail(E_CORRUPT, "code: lengths");
	return fail_in(get_manifest(arena_strndup(a, text, text_n), &out->m), "code: manifest");
}

int64_t code_at_once(const struct manifest *m, int64_t indices, int64_t room_bytes, int64_t *bytes)
{
	int64_t room = m->scratch_bytes <= 0 || m->shares_scratch ? indices : room_bytes / m->scratch_bytes,
		n = room < 1         ? 1
		    : room < indices ? room
				     : indices;
	*bytes = m->scratch_bytes <= 0 ? 0 : m->shares_scratch ? m->scratch_bytes : m->scratch_bytes * n;
	return n;
}

static bool apply(char op, int64_t a, int64_t b, int64_t *out)
{
	switch (op) {
	case '+':
		return !__builtin_add_overflow(a, b, out);
	case '-':
		return !__builtin_sub_overflow(a, b, out);
	case '*':
		return !__builtin_mul_overflow(a, b, out);
	case '/':
		if (b <= 0)
			return false;
		*out = a / b - (a % b < 0);
		return true;
	case '%':
		if (b <= 0)
			return false;
		*out = a % b + (a % b < 0 ? b : 0);
		return true;
	case 'm':
		*out = a < b ? a : b;
		return true;
	case 'M':
		*out = a > b ? a : b;
		return true;
	default:
		return false;
	}
}

enum dtype code_pairs(const struct manifest *m)
{
	for (int i = 0; i < m->nbufs; i++)
		if (m->buf[i].packed && m->buf[i].packing.bf16)
			return DT_BF16;
	return m->sums;
}

int64_t code_extent(const struct manifest *m, int entry, const int64_t *params)
{
	int64_t stack[32];
	int n = 0;
	char text[sizeof m->extent_expr[0]], *save = NULL;
	memcpy(text, m->extent_expr[entry], sizeof text);
	text[sizeof text - 1] = 0;
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		const char *digits = w + (*w == 'p' || *w == '-');
		char *end = NULL;
		long long v = isdigit((unsigned char)*digits) ? strtoll(digits, &end, 10) : 0;
		if (end && !*end) {
			if (n == 32 || (*w == 'p' && v >= m->nparams))
				return fail(E_CORRUPT, "extent %s: too deep or no such parameter",
					    m->extent_expr[entry]);
			stack[n++] = *w == 'p' ? params[v] : *w == '-' ? -v : v;
			continue;
		}
		char op = !strcmp(w, "min") ? 'm' : !strcmp(w, "max") ? 'M' : w[1] ? 0 : w[0];
		if (n < 2 || !apply(op, stack[n - 2], stack[n - 1], &stack[n - 2]))
			return fail(E_CORRUPT, "extent %s: stuck at %s", m->extent_expr[entry], w);
		n--;
	}
	if (n != 1 || stack[0] < 0)
		return fail(E_CORRUPT, "extent %s is no size", m->extent_expr[entry]);
	return stack[0];
}
