/* SPDX-License-Identifier: Apache-2.0 */
/* The processor itself. Objects are linked into a memory file that is sealed against writing before it is
 * mapped read-execute: no page is ever both writable and executable, so this works where that is forbidden.
 */
#include "platform/run/dev.h"
#include "platform/run/elf.h"
#include "platform/base/log.h"
#include "platform/run/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Memory mapped read-execute, whole pages; codes loaded at once share it. */
struct map {
	uint8_t *p;
	size_t bytes;
	int users;
};

struct dev_code {
	void *piece; /* of foreign code, which has nothing else; NULL: machine code */
	struct map *map;
	uint8_t *image; /* this code's part of the map */
	size_t bytes;
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

/* Rounded up to whole pages. */
static size_t room(const struct elf *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (e->image_bytes + page - 1) / page * page;
}

/* Links each object for its address in the reserved range, then maps the sealed file there. */
static int map_images(const struct elf *e, int n, const struct map *m)
{
	uint8_t *made = calloc(1, m->bytes);
	if (!made)
		return fail(E_NOMEM, "no memory for %zu bytes of code", m->bytes);
	int fd = -1, rc = E_OK;
	for (size_t i = 0, at = 0; i < (size_t)n && rc >= 0; at += room(&e[i++]))
		rc = elf_link(&e[i], (uintptr_t)m->p + at, made + at);
	if (rc >= 0)
		rc = fd = memory_file();
	if (rc >= 0)
		rc = write_sealed(fd, made, m->bytes);
	if (rc >= 0 && mmap(m->p, m->bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE, fd,
			    0) == MAP_FAILED)
		rc = io_fail("map the memory file");
	if (fd >= 0)
		close(fd);
	free(made);
	return rc;
}

static struct dev_code *make_code(const struct elf *e, struct map *m, uint8_t *image)
{
	struct dev_code *c = calloc(1, sizeof *c + (size_t)e->nentries * sizeof c->entry[0]);
	if (!c)
		return NULL;
	*c = (struct dev_code){.map = m, .image = image, .bytes = room(e), .nentries = e->nentries};
	for (int i = 0; i < e->nentries; i++) {
		memcpy(c->entry[i].name, e->entry[i].name, sizeof c->entry[i].name);
		c->entry[i].fn = (kernel_fn *)(uintptr_t)(image + e->entry[i].at);
	}
	m->users++;
	return c;
}

static const struct foreign_code *foreign;

void foreign_use(const struct foreign_code *f)
{
	foreign = f;
}

static void (*find_foreign)(void);

void foreign_find(void (*find)(void))
{
	find_foreign = find;
}

bool foreign_is(const void *obj, size_t n)
{
	return n >= sizeof FOREIGN_MAGIC && !memcmp(obj, FOREIGN_MAGIC, sizeof FOREIGN_MAGIC - 1);
}

static int load_foreign(const void *obj, size_t n, struct dev_code **out)
{
	struct dev_code *c = calloc(1, sizeof *c + sizeof c->entry[0]);
	if (!foreign && find_foreign)
		find_foreign();
	int rc = !c        ? fail(E_NOMEM, "no memory for code")
		 : foreign ? foreign->load(obj, n, &c->piece)
			   : fail(E_UNSUPPORTED, "no libraries");
	if (rc < 0) {
		free(c);
		return rc;
	}
	c->nentries = 1;
	memcpy(c->entry[0].name, FOREIGN_ENTRY, sizeof FOREIGN_ENTRY);
	*out = c;
	return E_OK;
}

static void unload(struct dev_code *c)
{
	if (!c)
		return;
	if (c->piece) {
		foreign->unload(c->piece);
		free(c);
		return;
	}
	if (--c->map->users == 0) {
		munmap(c->map->p, c->map->bytes);
		free(c->map);
	}
	free(c);
}

static int load_elfs(const struct elf *e, int n, struct map *m, struct dev_code **out)
{
	int made = 0, rc = map_images(e, n, m);
	for (size_t at = 0; rc >= 0 && made < n; at += room(&e[made++]))
		if (!(out[made] = make_code(&e[made], m, m->p + at))) {
			rc = fail(E_NOMEM, "no memory for code");
			break;
		}
	if (rc >= 0) {
		__builtin___clear_cache((char *)m->p, (char *)m->p + m->bytes);
		return E_OK;
	}
	m->users++; /* keeps the map while the codes made so far are unloaded */
	while (made > 0)
		unload(out[--made]);
	munmap(m->p, m->bytes);
	return rc;
}

static int load_all(const struct blob *obj, int n, struct dev_code **out)
{
	struct elf *e = calloc((size_t)n, sizeof *e);
	struct map *m = calloc(1, sizeof *m);
	int rc = e && m ? E_OK : fail(E_NOMEM, "no memory for code");
	for (int i = 0; i < n && rc >= 0; i++) {
		rc = elf_read(&e[i], obj[i].p, obj[i].n, elf_machine());
		m->bytes += rc < 0 ? 0 : room(&e[i]);
	}
	if (rc >= 0) {
		m->p = mmap(NULL, m->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		rc = m->p == MAP_FAILED ? io_fail("reserve an address") : load_elfs(e, n, m, out);
	}
	if (rc < 0)
		free(m);
	free(e);
	return rc;
}

static int load(const void *obj, size_t n, struct dev_code **out)
{
	if (foreign_is(obj, n))
		return load_foreign(obj, n, out);
	return load_all(&(struct blob){obj, n}, 1, out);
}

static int entry(struct dev_code *c, const char *symbol)
{
	for (int i = 0; i < c->nentries; i++)
		if (strcmp(c->entry[i].name, symbol) == 0)
			return i;
	return fail(E_NOTFOUND, "the code has no entry point '%s'", symbol);
}

static void run(struct dev_code *c, int number, void *const *buf, const int64_t *param, int64_t begin,
		int64_t end)
{
	if (c->piece)
		foreign->run(c->piece, buf, begin, end);
	else
		c->entry[number].fn(buf, param, begin, end);
}

/* An entry reaches up to the next one, because the code generator places functions one after the other. */
static const void *address(struct dev_code *c, int number, size_t *bytes)
{
	if (c->piece)
		return NULL;
	uintptr_t at = (uintptr_t)c->entry[number].fn, end = (uintptr_t)c->image + c->bytes;
	for (int i = 0; i < c->nentries; i++) {
		uintptr_t other = (uintptr_t)c->entry[i].fn;
		if (other > at && other < end)
			end = other;
	}
	*bytes = end - at;
	return (const void *)at;
}

bool foreign_ready(struct dev_code *c, void *const *buf, const char *name)
{
	if (c->piece)
		foreign->run(c->piece, buf, 0, 0);
	return foreign_good(c, name);
}

bool foreign_good(const struct dev_code *c, const char *name)
{
	return !c->piece || foreign->good(c->piece, log_level() == LOG_QUIET ? NULL : name);
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
    .load_all = load_all,
    .entry = entry,
    .run = run,
    .address = address,
    .unload = unload,
    .clock = dev_clock,
};
