/* SPDX-License-Identifier: Apache-2.0 */
/* Damages objects in many ways; the linker must refuse them or make something of them. */
#ifndef TESTS_ELF_DAMAGE_H
#define TESTS_ELF_DAMAGE_H

#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "platform/run/elf.h"
#include "tests/lib/test.h"

#include <elf.h>

/* Links the object if it can be read; damaged code is never run. */
static inline void elf_try(const uint8_t *p, size_t n, int machine)
{
	static uint8_t image[ELF_MAX_BYTES];
	struct elf e;
	uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees every read past the end */
	memcpy(exact, p, n);
	int rc = elf_read(&e, exact, n, machine);
	if (rc >= 0) {
		CHECK(e.image_bytes <= ELF_MAX_BYTES);
		rc = elf_link(&e, machine == EM_ARM ? 0x12345000 : 0x7f0000000000, image);
	}
	CHECK(rc == E_OK || rc == E_CORRUPT || rc == E_UNSUPPORTED);
	free(exact);
}

static inline void elf_damage(const struct blob *o, int machine)
{
	uint8_t *p = malloc(o->n);
	struct rng r;
	rng_seed(&r, 11);
	for (size_t n = 0; n < o->n; n++)
		elf_try(o->p, n, machine);
	for (size_t i = 0; i < o->n; i++) {
		memcpy(p, o->p, o->n);
		p[i] ^= (uint8_t)(1u << rng_below(&r, 8));
		elf_try(p, o->n, machine);
		p[i] = (uint8_t)rng_u64(&r);
		for (uint32_t k = rng_below(&r, 4); k; k--)
			p[rng_below(&r, (uint32_t)o->n)] = (uint8_t)rng_u64(&r);
		elf_try(p, o->n, machine);
	}
	free(p);
}

#endif
