/* SPDX-License-Identifier: Apache-2.0 */
/* The processor itself. An object is linked into a memory file that is sealed against writing before it is
 * mapped read-execute: no page is ever both writable and executable, so this works where that is forbidden.
 */
#include "platform/dev.h"
#include "platform/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

struct dev_code {
	uint8_t *image; /* mapped read-execute */
	size_t bytes;   /* whole pages */
	int nentries;
	struct {
		char name[32];
		kernel_fn *fn;
	} entry[];
};

static int probe(struct target *t)
{
	int rc = target_host(t);
	return rc < 0 ? rc : 1;
}

static int io_fail(const char *what)
{
	return fail(E_IO, "cannot %s for code: %s", what, strerror(errno));
}

/* Kernels before 6.3 refuse MFD_EXEC; later ones may demand it. */
static int memory_file(void)
{
	int fd = memfd_create("hone-code", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("hone-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? io_fail("make a memory file") : fd;
}

static int write_sealed(int fd, const uint8_t *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t put = pwrite(fd, p + at, n - at, (off_t)at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return io_fail("write the memory file");
		at += (size_t)put;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return io_fail("seal the memory file");
	return E_OK;
}

/* Links for the address that is reserved at `place`, then puts the sealed file there. */
static int map_image(const struct elf *e, uint8_t *place, size_t bytes)
{
	uint8_t *made = calloc(1, bytes);
	if (!made)
		return fail(E_NOMEM, "no memory for %zu bytes of code", bytes);
	int fd = -1, rc = elf_link(e, (uintptr_t)place, made);
	if (rc >= 0)
		rc = fd = memory_file();
	if (rc >= 0)
		rc = write_sealed(fd, made, bytes);
	if (rc >= 0 &&
	    mmap(place, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
		rc = io_fail("map the memory file");
	if (fd >= 0)
		close(fd);
	free(made);
	return rc;
}

static int load(const void *obj, size_t n, struct dev_code **out)
{
	struct elf e;
	int rc = elf_read(&e, obj, n, MACHINE);
	if (rc < 0)
		return rc;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (e.image_bytes + page - 1) / page * page;
	uint8_t *place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED)
		return io_fail("reserve an address");
	struct dev_code *c = calloc(1, sizeof *c + (size_t)e.nentries * sizeof c->entry[0]);
	rc = c ? map_image(&e, place, bytes) : fail(E_NOMEM, "no memory for code");
	if (rc < 0) {
		munmap(place, bytes);
		free(c);
		return rc;
	}
	*c = (struct dev_code){.image = place, .bytes = bytes, .nentries = e.nentries};
	for (int i = 0; i < e.nentries; i++) {
		memcpy(c->entry[i].name, e.entry[i].name, sizeof c->entry[i].name);
		c->entry[i].fn = (kernel_fn *)(uintptr_t)(place + e.entry[i].at);
	}
	__builtin___clear_cache((char *)place, (char *)place + bytes);
	*out = c;
	return E_OK;
}

static int entry(struct dev_code *c, const char *symbol)
{
	for (int i = 0; i < c->nentries; i++)
		if (strcmp(c->entry[i].name, symbol) == 0)
			return i;
	return fail(E_NOTFOUND, "the code has no entry '%s'", symbol);
}

static void run(struct dev_code *c, int number, void *const *buf, const int64_t *param, int64_t begin,
		int64_t end)
{
	c->entry[number].fn(buf, param, begin, end);
}

/* Up to the next entry: the code generator puts one function behind the other. */
static const void *address(struct dev_code *c, int number, size_t *bytes)
{
	uintptr_t at = (uintptr_t)c->entry[number].fn, end = (uintptr_t)c->image + c->bytes;
	for (int i = 0; i < c->nentries; i++) {
		uintptr_t other = (uintptr_t)c->entry[i].fn;
		if (other > at && other < end)
			end = other;
	}
	*bytes = end - at;
	return (const void *)at;
}

static void unload(struct dev_code *c)
{
	if (!c)
		return;
	munmap(c->image, c->bytes);
	free(c);
}

static struct clock *dev_clock(void)
{
	return &clock_real;
}

const struct dev dev_cpu = {
    .name = "cpu",
    .emitter = "llvm",
    .probe = probe,
    .load = load,
    .entry = entry,
    .run = run,
    .address = address,
    .unload = unload,
    .clock = dev_clock,
};
