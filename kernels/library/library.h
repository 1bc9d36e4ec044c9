/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that compute layers: candidates of the same tasks as hone's own kernels, built, checked and timed
 * in the same way. A library is one file library_NAME.c that defines `const struct library library_NAME`; the
 * Makefile writes library_table[]. A user's own one is a shared library (kernels/library/hone_backend.h), and
 * its name is the path of its file.
 *
 * An open library is identified by its word, "openblas/0.3.21@5b7c051f6e6da4c2": name, version and the first
 * 8 bytes of the build id of its file. Its candidate of a task is "library=WORD parts=N": N pieces, one for
 * each thread. The object of its code is text: LIBRARY_MAGIC, then the lines "word WORD", "file NAME" (what
 * to open), "parts N" and "piece ..." (piece_text). Loading it opens the library, unless it is open, and
 * fails if it is another one than the word says. Libraries stay open until the process ends.
 *
 * A library is foreign code: only a worker opens one that was not checked before. */
#ifndef KERNELS_LIBRARY_H
#define KERNELS_LIBRARY_H

#include "kernels/library/piece.h"
#include "kernels/loops/code.h"
#include "platform/run/foreign.h"

#include <string.h>

#define LIBRARY_CAND "library="

enum { LIBRARY_WORD = 64, LIBRARY_FILE = 512, LIBRARY_MOST = 8 };

struct library {
	const char *name;
	const char *const *file; /* names for dlopen, the best first; NULL-terminated */
	/* Finds its functions in the open file and fills in the back end. E_UNSUPPORTED: another version. */
	int (*open)(void *handle, struct hone_backend *out);
};

extern const struct library *const library_table[];
#define LIBRARY_NAMES "openblas onednn xnnpack" /* of library_table, for programs that do not link it */
#define LIBRARY_ALL "all"                       /* in lists of names: those of the table */

/* The next name of a list with commas between names, cut to fit; returns what follows it, NULL at the end. */
static inline const char *library_next(const char *list, char name[LIBRARY_FILE])
{
	list += strspn(list, ", ");
	size_t n = strcspn(list, ","), kept = n < LIBRARY_FILE ? n : LIBRARY_FILE - 1;
	memcpy(name, list, kept);
	name[kept] = 0;
	return n ? list + n : NULL;
}

/* Identifies a library for processes that do not open it. */
struct library_found {
	char word[LIBRARY_WORD];
	char file[LIBRARY_FILE]; /* absolute path, or a name that the loader finds */
};

/* Opens a library of the table by its name, or a user's by its absolute path. E_NOTFOUND: it is not
 * installed; E_UNSUPPORTED: it is no back end, or has no build id. */
int library_open(const char *name, struct library_found *out) MUST_CHECK;
/* Whether a candidate is a library's; hone's own are schedules. */
static inline bool library_is_cand(const char *cand)
{
	return !strncmp(cand, LIBRARY_CAND, sizeof LIBRARY_CAND - 1);
}
/* The candidate of a library for a task. E_UNSUPPORTED: no library has such a layer. Whether this one has it
 * is known when its code is made. */
int library_cand(const struct task *t, const char *word, int threads, char cand[], size_t room) MUST_CHECK;
/* The manifest and the object (in the arena) of a candidate whose library is open. E_UNSUPPORTED: the library
 * does not compute such a piece; E_CORRUPT: not a candidate. The caller sets the manifest's emitter, version
 * and target. */
int library_code(const struct task *t, const char *cand, struct arena *a, struct manifest *m,
		 struct blob *object) MUST_CHECK;
/* The functions by which platform/run/dev_cpu.c loads and runs such objects. */
extern const struct foreign_code library_foreign;

/* Computes a piece with portable code. */
void library_portable(const struct hone_piece *p, const struct hone_buffers *b);

/* For back ends: y = min(max(y + bias + add, least), greatest). bias: it is still to be added. */
void library_finish(const struct hone_piece *p, const struct hone_buffers *b, bool bias, bool add);

#endif
