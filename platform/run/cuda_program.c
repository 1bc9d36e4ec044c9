/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: linked from PTX, or taken from the cubin that an earlier link left behind the PTX. */
#include "platform/run/cuda_api.h"
#include "platform/run/driver_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Changes whenever a link of the same PTX is asked for in another way. */
#define LINK_OPTIONS "1"

enum { MOST_HEAD = 1024, MOST_THREADS = 1024, MOST_SHARED = 1 << 20, LOG_BYTES = 8 << 10 };

static bool take_number(const char **at, const char *end, long most, long *out)
{
	const char *from = *at;
	*out = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *out <= most)
		*out = *out * 10 + (*(*at)++ - '0');
	return *at > from && *out <= most;
}

static bool take_char(const char **at, const char *end, char c)
{
	bool is = *at < end && **at == c;
	*at += is;
	return is;
}

/* A symbol of PTX: letters, digits and _, not a digit first. */
static bool take_name(const char **at, const char *end, char *out, size_t room)
{
	size_t n = 0;
	for (; *at < end && (**at == '_' || (**at >= 'a' && **at <= 'z') || (**at >= 'A' && **at <= 'Z') ||
			     (n && **at >= '0' && **at <= '9'));
	     ++*at) {
		if (n + 1 >= room)
			return false;
		out[n++] = **at;
	}
	out[n] = 0;
	return n > 0;
}

static bool take_entry(const char **at, const char *end, struct cuda_symbol *e, long *shared)
{
	long group = 0, threads = 0;
	bool good = take_name(at, end, e->name, sizeof e->name) && take_char(at, end, ',') &&
		    take_number(at, end, MOST_THREADS, &group) && take_char(at, end, ',') &&
		    take_number(at, end, MOST_THREADS, &threads) && take_char(at, end, ',') &&
		    take_number(at, end, MOST_SHARED, shared);
	e->group = (int)group;
	e->threads = (int)threads;
	e->shared = *shared > CUDA_STATIC ? (int)*shared : 0;
	return good && group > 0 && threads > 0;
}

static int check_entry(const struct cuda_info *i, const struct cuda_symbol *e, long shared)
{
	if ((int64_t)e->group * e->threads > i->group_items)
		return fail(E_INFEASIBLE, "entry %s has blocks of %d threads: the device allows %lld",
			    e->name, e->group * e->threads, (long long)i->group_items);
	int64_t most = e->shared && i->shared_most > i->shared_bytes ? i->shared_most : i->shared_bytes;
	if (shared > most)
		return fail(E_INFEASIBLE, "entry %s shares %ld bytes in a block: the device allows %lld",
			    e->name, shared, (long long)most);
	return E_OK;
}

int cuda_parse_head(const char *object, size_t n, struct cuda_code *c, size_t *source)
{
	static const char head[] = "//hone-ptx ";
	const char *end = memchr(object, '\n', n < MOST_HEAD ? n : MOST_HEAD), *at = object + sizeof head - 1;
	int rc = E_OK;
	if (!end || end < at || memcmp(object, head, sizeof head - 1))
		return fail(E_CORRUPT, "a PTX object must begin with \"%s\"", head);
	do {
		long shared = 0;
		if (c->nentries == CUDA_MAX_ENTRIES || !take_entry(&at, end, &c->entry[c->nentries], &shared))
			return fail(E_CORRUPT, "a PTX object's list of entries is malformed, or too long");
		rc = check_entry(c->dev->info, &c->entry[c->nentries++], shared);
	} while (rc >= 0 && take_char(&at, end, ';'));
	if (rc >= 0 && at != end)
		return fail(E_CORRUPT, "a PTX object's list of entries is malformed");
	*source = (size_t)(end + 1 - object);
	return rc;
}

/* What a cubin depends on. */
static struct key key_of(const struct cuda_info *i, const char *object, size_t n)
{
	char text[sizeof i->name + 64];
	snprintf(text, sizeof text, "%s %lld %lld " LINK_OPTIONS, i->name, (long long)i->capability,
		 (long long)i->driver);
	return hash_join(hash_bytes(object, n), hash_text(text));
}

static int load_module(struct cuda_code *c, const void *image)
{
	int code = c->dev->api->cuModuleLoadData(&c->module, image);
	int rc = cuda_got(c->dev, "cuModuleLoadData", c->module != NULL, code);
	if (rc < 0)
		c->module = NULL;
	return rc;
}

static bool copy_cubin(struct cuda_code *c, const void *p, size_t n)
{
	c->cubin = malloc(n);
	c->bytes = n;
	if (c->cubin)
		memcpy(c->cubin, p, n);
	return c->cubin;
}

/* The driver gets no length, so only what is whole is given to it. Drivers refuse cubins of others; then it
 * is linked from PTX. */
static bool take_cubin(struct cuda_code *c, const char *p, size_t n)
{
	struct cur at = {.p = (const uint8_t *)p, .n = n};
	struct key k, sum;
	k.hi = cur_u64(&at);
	k.lo = cur_u64(&at);
	sum.hi = cur_u64(&at);
	sum.lo = cur_u64(&at);
	size_t bytes = n - at.at;
	if (at.bad || !bytes || bytes > CUDA_MAX_BINARY || !key_equal(k, c->key) ||
	    !key_equal(sum, hash_bytes(at.p + at.at, bytes)) || !copy_cubin(c, at.p + at.at, bytes))
		return false;
	if (load_module(c, c->cubin) >= 0)
		return true;
	free(c->cubin);
	c->cubin = NULL;
	return false;
}

/* Puts the first words of the linker's log behind the error. */
static int link_failed(struct cuda_dev *d, const char *call, int code, const char *log)
{
	char words[400] = "", text[160];
	int rc = cuda_done(d, call, code);
	driver_text_copy(words, sizeof words, log, LOG_BYTES);
	snprintf(text, sizeof text, "%s", err_text());
	return fail(rc, "%s%s%s", text, words[0] ? ": " : "", words);
}

/* The cubin is the link's, and is copied before that is destroyed. */
static int complete(struct cuda_code *c, void *link, const char *log)
{
	void *cubin = NULL;
	size_t bytes = 0;
	int code = c->dev->api->cuLinkComplete(link, &cubin, &bytes);
	if (code != CUDA_SUCCESS)
		return link_failed(c->dev, "cuLinkComplete", code, log);
	if (!cubin || !bytes || bytes > CUDA_MAX_BINARY)
		return fail(E_IO, "cuLinkComplete: it gave no program, or one of over %d bytes",
			    (int)CUDA_MAX_BINARY);
	return copy_cubin(c, cubin, bytes) ? E_OK : fail(E_NOMEM, "no memory for a cubin");
}

/* ptx: n bytes, and a NUL. */
static int link_ptx(struct cuda_code *c, char *ptx, size_t n, char *log)
{
	const struct cuda_api *api = c->dev->api;
	static const int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)}, *link = NULL;
	int code = api->cuLinkCreate_v2(2, options, values, &link);
	int rc = cuda_got(c->dev, "cuLinkCreate_v2", link != NULL, code);
	if (rc < 0)
		return rc;
	code = api->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, ptx, n + 1, "kernel", 0, NULL, NULL);
	rc = code == CUDA_SUCCESS ? complete(c, link, log)
				  : link_failed(c->dev, "cuLinkAddData_v2", code, log);
	if (!c->dev->lost)
		api->cuLinkDestroy(link);
	return rc;
}

static int build(struct cuda_code *c, const char *source, size_t n)
{
	char *ptx = malloc(n + 1), *log = calloc(1, LOG_BYTES);
	int rc = ptx && log ? E_OK : fail(E_NOMEM, "no memory for a CUDA program");
	if (rc >= 0) {
		memcpy(ptx, source, n);
		ptx[n] = 0;
		rc = link_ptx(c, ptx, n, log);
	}
	if (rc >= 0)
		rc = load_module(c, c->cubin);
	free(ptx);
	free(log);
	return rc;
}

int cuda_load(struct cuda_dev *d, const void *object, size_t n, struct cuda_code **out)
{
	const char *text = object, *nul = n ? memchr(object, 0, n) : NULL;
	size_t source = 0, length = nul ? (size_t)(nul - text) : n;
	int rc = cuda_enter(d);
	if (rc < 0)
		return rc;
	struct cuda_code *c = calloc(1, sizeof *c);
	if (!c) {
		cuda_exit(d);
		return fail(E_NOMEM, "no memory for a CUDA program");
	}
	c->dev = d;
	rc = cuda_parse_head(text, length, c, &source);
	if (rc >= 0) {
		c->key = key_of(d->info, text, length);
		if ((!nul || !take_cubin(c, nul + 1, n - length - 1)))
			rc = d->lost ? cuda_enter(d) : build(c, text + source, length - source);
	}
	cuda_exit(d);
	if (rc < 0)
		cuda_unload(c);
	else
		*out = c;
	return rc;
}

int cuda_binary(const struct cuda_code *c, struct buf *object)
{
	struct key sum = hash_bytes(c->cubin, c->bytes);
	buf_u8(object, 0);
	buf_u64(object, c->key.hi);
	buf_u64(object, c->key.lo);
	buf_u64(object, sum.hi);
	buf_u64(object, sum.lo);
	buf_add(object, c->cubin, c->bytes);
	return buf_ok(object) ? E_OK : fail(E_NOMEM, "no memory for a cubin");
}

static int get_made(struct cuda_dev *d, void *function, struct cuda_made *out)
{
	static const int what[] = {CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
				   CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK};
	int v[3] = {0};
	for (int i = 0; i < 3; i++) {
		int rc =
		    cuda_done(d, "cuFuncGetAttribute", d->api->cuFuncGetAttribute(&v[i], what[i], function));
		if (rc < 0)
			return rc;
		v[i] = v[i] > 0 ? v[i] : 0;
	}
	*out = (struct cuda_made){v[0], v[1], v[2]};
	return E_OK;
}

static int look_up(struct cuda_code *c, struct cuda_symbol *e)
{
	struct cuda_dev *d = c->dev;
	void *function = NULL;
	int code = d->api->cuModuleGetFunction(&function, c->module, e->name);
	if (code == CUDA_ERROR_NOT_FOUND)
		return fail(E_NOTFOUND, "the code has no entry point '%s'", e->name);
	int rc = cuda_got(d, "cuModuleGetFunction", function != NULL, code);
	if (rc >= 0)
		rc = get_made(d, function, &e->made);
	if (rc >= 0 && e->made.most_threads < e->group * e->threads)
		rc = fail(E_INFEASIBLE,
			  "entry %s needs %d registers: the device runs blocks of %d threads, not %d",
			  e->name, e->made.registers, e->made.most_threads, e->group * e->threads);
	if (rc >= 0 && e->shared)
		rc = cuda_done(d, "cuFuncSetAttribute",
			       d->api->cuFuncSetAttribute(function,
							  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
							  e->shared));
	if (rc >= 0)
		e->function = function;
	return rc;
}

int cuda_entry(struct cuda_code *c, const char *symbol)
{
	int i = 0;
	while (i < c->nentries && strcmp(c->entry[i].name, symbol))
		i++;
	int rc = c->dev->lost ? cuda_enter(c->dev) : E_OK;
	if (rc >= 0 && i == c->nentries)
		return fail(E_NOTFOUND, "the code has no entry point '%s'", symbol);
	if (rc < 0 || c->entry[i].function)
		return rc < 0 ? rc : i;
	rc = cuda_enter(c->dev);
	if (rc < 0)
		return rc;
	rc = look_up(c, &c->entry[i]);
	cuda_exit(c->dev);
	return rc < 0 ? rc : i;
}

int cuda_made(struct cuda_code *c, int entry, struct cuda_made *out)
{
	if (entry < 0 || entry >= c->nentries || !c->entry[entry].function)
		return fail(E_USAGE, "entry %d is not known", entry);
	*out = c->entry[entry].made;
	return E_OK;
}

void cuda_unload(struct cuda_code *c)
{
	if (!c)
		return;
	if (c->module && !c->dev->lost && cuda_enter(c->dev) >= 0) {
		(void)cuda_done(c->dev, "cuModuleUnload", c->dev->api->cuModuleUnload(c->module));
		cuda_exit(c->dev);
	}
	free(c->cubin);
	free(c);
}
