/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the CUDA driver that lies. */
#include "tests/lib/fake_cuda_parts.h"

struct image { /* a cubin: a head and the PTX */
	char magic[8];
	uint64_t n;
	char text[];
};

struct link {
	struct image *image;
	char *log;
	size_t room;
};

static uint64_t hash_of(const struct image *i)
{
	uint64_t h = 1;
	for (uint64_t k = 0; k < i->n; k++)
		h = (h ^ (unsigned char)i->text[k]) * UINT64_C(0x100000001b3);
	return h;
}

static bool is_linked(uint64_t hash)
{
	for (int i = 0; i < IMAGES; i++)
		if (linked[i] == hash)
			return true;
	return false;
}

int cuLinkCreate_v2(unsigned n, const int *options, void **values, void **link)
{
	BEGIN(CURRENT);
	struct link *l = calloc(1, sizeof *l);
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			l->log = values[i];
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			l->room = (size_t)(uintptr_t)values[i];
	}
	*link = made(__func__, l);
	return end(CUDA_SUCCESS);
}

int cuLinkAddData_v2(void *link, int type, void *data, size_t bytes, const char *name, unsigned n,
		     const int *options, void **values)
{
	static const char magic[8] = "\177FAKEC\1";
	struct link *l = link;
	struct ptx *ptx = NULL;
	BEGIN(CURRENT);
	(void)name, (void)n, (void)options, (void)values;
	fake_cuda_links++;
	if (type != CU_JIT_INPUT_PTX || !bytes || ((char *)data)[bytes - 1])
		return end(CUDA_ERROR_INVALID_VALUE);
	bool refused = lies_at("jit", fake_cuda_links);
	if (refused || ptx_load(data, bytes - 1, &ptx) < 0) {
		if (l->log && l->room)
			snprintf(
			    l->log, l->room, "%s",
			    refused
				? "ptxas application ptx input, line 9; error:\n\033[1mno such instruction"
				: err_text());
		return end(CUDA_ERROR_INVALID_PTX);
	}
	ptx_free(ptx);
	l->image = calloc(1, sizeof *l->image + bytes);
	memcpy(l->image->magic, magic, sizeof magic);
	l->image->n = bytes - 1;
	memcpy(l->image->text, data, bytes);
	linked[fake_cuda_links % IMAGES] = hash_of(l->image);
	return end(CUDA_SUCCESS);
}

int cuLinkComplete(void *link, void **cubin, size_t *bytes)
{
	struct link *l = link;
	BEGIN(CURRENT);
	if (lies("slow-link"))
		usleep(1500000);
	*cubin = made(__func__, l->image);
	*bytes = l->image ? sizeof *l->image + l->image->n : 0;
	return end(CUDA_SUCCESS);
}

int cuLinkDestroy(void *link)
{
	BEGIN(CURRENT);
	struct link *l = link;
	if (l->image)
		free(l->image);
	free(l);
	return end(CUDA_SUCCESS);
}

int cuModuleLoadData(void **module, const void *image)
{
	const struct image *i = image;
	BEGIN(UNSAFE);
	fake_cuda_loads++;
	if (memcmp(i->magic, "\177FAKEC\1", 8) || (lies("kept-refused") && !is_linked(hash_of(i))))
		return end(CUDA_ERROR_NO_BINARY_FOR_GPU);
	struct module *m = calloc(1, sizeof *m);
	if (ptx_load(i->text, (size_t)i->n, &m->ptx) < 0) {
		free(m);
		return end(CUDA_ERROR_INVALID_IMAGE);
	}
	*module = made(__func__, m);
	return end(CUDA_SUCCESS);
}

int cuModuleUnload(void *module)
{
	struct module *m = module;
	BEGIN(UNSAFE);
	for (struct function *f = m->functions, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	ptx_free(m->ptx);
	free(m);
	return end(CUDA_SUCCESS);
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	struct module *m = module;
	BEGIN(CURRENT);
	const struct ptx_entry *e = ptx_find(m->ptx, name);
	if (!e || e->nparams > PARAMS)
		return end(CUDA_ERROR_NOT_FOUND);
	struct function *f = calloc(1, sizeof *f);
	f->module = m;
	f->next = m->functions;
	m->functions = f;
	f->nparams = e->nparams;
	snprintf(f->name, sizeof f->name, "%s", name);
	*function = made(__func__, f);
	return end(CUDA_SUCCESS);
}

int cuFuncGetAttribute(int *out, int what, void *function)
{
	BEGIN(CURRENT);
	(void)function;
	*out = what == CU_FUNC_ATTRIBUTE_NUM_REGS           ? 40
	       : what == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES ? 16 * lies("spills")
	       : lies("few-registers")                      ? 32
							    : 1024;
	return end(CUDA_SUCCESS);
}

int cuFuncSetAttribute(void *function, int what, int value)
{
	BEGIN(CURRENT);
	struct function *f = function;
	if (!f || what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > SHARED_MOST)
		return end(CUDA_ERROR_INVALID_VALUE);
	f->shared_most = value;
	return end(CUDA_SUCCESS);
}
