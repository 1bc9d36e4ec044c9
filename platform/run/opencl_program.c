/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: built from source, or taken from the binary that an earlier build left behind the source. */
#include "platform/run/opencl_api.h"
#include "platform/run/driver_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int opencl_lost(void)
{
	return fail(E_IO, "the OpenCL device hangs; start this program again to use it");
}

/* A handle that a call made: NULL is an error whatever the code says. */
int opencl_made(const char *call, const void *handle, int32_t code)
{
	if (code != CL_SUCCESS)
		return opencl_fail(call, code);
	return handle ? E_OK : fail(E_IO, "%s: it gave NULL without an error", call);
}

/* Takes the options from the object's first line; returns where the source begins. */
static int take_options(const struct opencl_info *info, const char *object, size_t n, char *out, size_t room,
			size_t *source)
{
	static const char head[] = "//hone-opencl";
	static const char *const known[] = {"-cl-std=CL1.2", "-cl-std=CL3.0", "-cl-denorms-are-zero"};
	enum { KNOWN = sizeof known / sizeof *known };
	const char *end = memchr(object, '\n', n < 256 ? n : 256), *at = object + sizeof head - 1;
	if (!end || end < at || memcmp(object, head, sizeof head - 1))
		return fail(E_CORRUPT, "an OpenCL object must begin with \"%s\"", head);
	*out = 0;
	while (at < end) {
		size_t k = 0, len;
		if (*at++ != ' ')
			return fail(E_CORRUPT, "an OpenCL object's options are malformed");
		for (len = 0; at + len < end && at[len] != ' ';)
			len++;
		while (k < KNOWN && (strlen(known[k]) != len || memcmp(known[k], at, len)))
			k++;
		if (k == KNOWN || strstr(out, known[k]))
			return fail(E_CORRUPT, "an OpenCL object has an option that is not known");
		snprintf(out + strlen(out), room - strlen(out), "%s ", known[k]);
		at += len;
	}
	if (info->exact_divide)
		snprintf(out + strlen(out), room - strlen(out), "-cl-fp32-correctly-rounded-divide-sqrt");
	*source = (size_t)(end + 1 - object);
	return E_OK;
}

/* Puts the first words of the compiler's log behind the error. */
static int build_failed(const struct opencl_code *c, int32_t code)
{
	enum { MOST = 64 << 10 };
	char *log = calloc(1, MOST + 1), words[400] = "";
	size_t n = 0;
	if (log && c->dev->api->clGetProgramBuildInfo(c->program, c->dev->id, CL_PROGRAM_BUILD_LOG, MOST, log,
						      &n) == CL_SUCCESS)
		driver_text_copy(words, sizeof words, log, n < MOST ? n : MOST);
	free(log);
	int rc = opencl_fail("clBuildProgram", code);
	char text[160];
	snprintf(text, sizeof text, "%s", err_text());
	return fail(rc, "%s%s%s", text, words[0] ? ": " : "", words);
}

static int build(struct opencl_code *c, const char *source, size_t n, const char *options)
{
	const struct opencl_api *api = c->dev->api;
	int32_t code = CL_SUCCESS;
	char all[200];
	c->program = api->clCreateProgramWithSource(c->dev->context, 1, &source, &n, &code);
	int rc = opencl_made("clCreateProgramWithSource", c->program, code);
	if (rc < 0)
		return rc;
	snprintf(all, sizeof all, "-w %s", options); /* PoCL prints its compiler's warnings on stderr */
	code = api->clBuildProgram(c->program, 1, &c->dev->id, all, NULL, NULL);
	return code == CL_SUCCESS ? E_OK : build_failed(c, code);
}

/* What a binary depends on. */
static struct key key_of(const struct opencl_dev *d, const char *object, size_t n, const char *options)
{
	const struct opencl_info *i = d->info;
	const char *const of[] = {i->platform, i->name, i->vendor, i->version, i->driver, options};
	struct key k = hash_bytes(object, n);
	for (size_t f = 0; f < sizeof of / sizeof *of; f++)
		k = hash_join(k, hash_text(of[f]));
	return k;
}

/* Drivers refuse binaries of others; then it is built from source. */
static bool take_binary(struct opencl_code *c, const char *p, size_t n, const char *options)
{
	struct cur at = {.p = (const uint8_t *)p, .n = n};
	struct key k;
	const struct opencl_api *api = c->dev->api;
	k.hi = cur_u64(&at);
	k.lo = cur_u64(&at);
	const unsigned char *binary = at.p + at.at;
	size_t bytes = n - at.at;
	int32_t status = CL_SUCCESS, code = CL_SUCCESS;
	if (at.bad || !bytes || !key_equal(k, c->key))
		return false;
	c->program =
	    api->clCreateProgramWithBinary(c->dev->context, 1, &c->dev->id, &bytes, &binary, &status, &code);
	if (c->program && code == CL_SUCCESS && status == CL_SUCCESS &&
	    api->clBuildProgram(c->program, 1, &c->dev->id, options, NULL, NULL) == CL_SUCCESS)
		return true;
	if (c->program)
		api->clReleaseProgram(c->program);
	c->program = NULL;
	return false;
}

int opencl_load(struct opencl_dev *d, const void *object, size_t n, struct opencl_code **out)
{
	char options[160];
	const char *text = object, *nul = n ? memchr(object, 0, n) : NULL;
	size_t source = 0, length = nul ? (size_t)(nul - text) : n;
	int rc =
	    d->lost ? opencl_lost() : take_options(d->info, object, length, options, sizeof options, &source);
	if (rc < 0)
		return rc;
	struct opencl_code *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory for an OpenCL program");
	c->dev = d;
	c->key = key_of(d, object, length, options);
	if (!nul || !take_binary(c, nul + 1, n - length - 1, options))
		rc = build(c, text + source, length - source, options);
	if (rc < 0)
		opencl_unload(c);
	else
		*out = c;
	return rc;
}

int opencl_binary(struct opencl_code *c, struct buf *object)
{
	const struct opencl_api *api = c->dev->api;
	size_t bytes = 0, n = 0;
	if (c->dev->lost)
		return opencl_lost();
	int32_t code = api->clGetProgramInfo(c->program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, &n);
	if (code != CL_SUCCESS || n != sizeof bytes || !bytes || bytes > OPENCL_MAX_BINARY)
		return code == CL_SUCCESS ? fail(E_UNSUPPORTED, "the OpenCL driver gives no binary")
					  : opencl_fail("clGetProgramInfo", code);
	unsigned char *p = calloc(1, bytes);
	if (!p)
		return fail(E_NOMEM, "no memory for a binary");
	code = api->clGetProgramInfo(c->program, CL_PROGRAM_BINARIES, sizeof p, &p, &n);
	if (code == CL_SUCCESS) {
		buf_u8(object, 0);
		buf_u64(object, c->key.hi);
		buf_u64(object, c->key.lo);
		buf_add(object, p, bytes);
	}
	free(p);
	if (code != CL_SUCCESS)
		return opencl_fail("clGetProgramInfo", code);
	return buf_ok(object) ? E_OK : fail(E_NOMEM, "no memory for a binary");
}

int opencl_entry(struct opencl_code *c, const char *symbol)
{
	int32_t code = CL_SUCCESS;
	if (c->dev->lost)
		return opencl_lost();
	for (int i = 0; i < c->nentries; i++)
		if (!strcmp(c->entry[i].name, symbol))
			return i;
	if (c->nentries == OPENCL_MAX_ENTRIES || strlen(symbol) >= sizeof c->entry[0].name)
		return fail(E_UNSUPPORTED, "an OpenCL program has too many entry points, or too long names");
	void *k = c->dev->api->clCreateKernel(c->program, symbol, &code);
	if (code == CL_INVALID_KERNEL_NAME)
		return fail(E_NOTFOUND, "the code has no entry point '%s'", symbol);
	int rc = opencl_made("clCreateKernel", k, code);
	if (rc < 0)
		return rc;
	strcpy(c->entry[c->nentries].name, symbol);
	c->entry[c->nentries].kernel = k;
	return c->nentries++;
}

void opencl_unload(struct opencl_code *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->nentries && !c->dev->lost; i++)
		c->dev->api->clReleaseKernel(c->entry[i].kernel);
	if (c->program && !c->dev->lost)
		c->dev->api->clReleaseProgram(c->program);
	free(c);
}
