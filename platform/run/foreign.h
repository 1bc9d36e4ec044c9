/* SPDX-License-Identifier: Apache-2.0 */
/* Code of the processor that is no machine code: an object that begins with FOREIGN_MAGIC says which other
 * library computes what. dev_cpu.c hands such objects to whoever has registered for them. */
#ifndef PLATFORM_FOREIGN_H
#define PLATFORM_FOREIGN_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOREIGN_MAGIC "hone-library 1\n"
#define FOREIGN_ENTRY "library"

struct foreign_code {
	/* E_NOTFOUND, E_UNSUPPORTED: the library is not there, or is another one than the object says. */
	int (*load)(const void *object, size_t n, void **out);
	/* Runs parts begin to end. The first call with begin == end makes the parts ready for the constants
	 * in buf, which stay where they are from then on; a part that is not ready becomes so when it is run
	 * first. */
	void (*run)(void *piece, void *const *buf, int64_t begin, int64_t end);
	/* Whether every run since the last call has computed its output; if not, the log says why of the
	 * layer with this name (NULL: it says nothing). A piece that has failed does not fail again: portable
	 * code computes its later runs. No run may be going on. */
	int (*good)(void *piece, const char *name);
	void (*unload)(void *piece);
};

/* Registers it for this process. As long as nobody has, such objects are refused (E_UNSUPPORTED). */
void foreign_use(const struct foreign_code *f);
/* Is called once, before the first such object is loaded, to register it. */
void foreign_find(void (*find)(void));
/* Whether an object is such code. */
bool foreign_is(const void *object, size_t n);

struct dev_code;
/* Makes loaded code of dev_cpu ready for the constants in buf; machine code is. False: it cannot be used. */
bool foreign_ready(struct dev_code *c, void *const *buf, const char *name);
/* foreign_code.good of loaded code; machine code always is. Quiet processes log nothing. */
bool foreign_good(const struct dev_code *c, const char *name);

#endif
