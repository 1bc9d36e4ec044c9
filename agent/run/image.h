/* SPDX-License-Identifier: Apache-2.0 */
/* Images: a plan as one file that is made ready again without its model: no import, no passes, no packing, no
 * cache. What a process needs to start in milliseconds.
 *
 * File: "HIM2", u32 CRC32C of all that follows up to the weights, key, same and note (16 bytes each: hi, lo),
 * u64 bytes of the description, u64 bytes of the weights, u32 CRC32C of the weights, u32 bytes of the label,
 * the label, the description, zeros up to a multiple of 4096, the packed weights. The label is three lines:
 * version and layout of who wrote it, the target (platform/machine/target.h), "THREADS EXACT NAME". The
 * description is as numbers lie in memory here and has no addresses: a place is a region and an offset in it.
 * A change of the format changes "HIM2" too. Only the version that wrote it reads it, on a processor that has
 * all of the target's features.
 *
 * Machine code is trusted. All else is checked: whatever the numbers are, what runs without machine code
 * stays inside of the plan's memory and of the caller's tensors.
 *
 * An image holds machine code: one that somebody other than root and this process's user can write, or whose
 * folder they can change, is refused (E_USAGE).
 *
 * A bundle is a folder with an image IMAGE_FILE in it, whatever else is there. */
#ifndef AGENT_IMAGE_H
#define AGENT_IMAGE_H

#include "agent/run/plan.h"
#include "kernels/group/choices.h"
#include "platform/base/buf.h"
#include "platform/base/hash.h"

#define IMAGE_FILE "plan.hone"

struct image {
	struct key key;  /* what it is for; chosen by the caller */
	struct key same; /* of the model's file without reading it; chosen by the caller */
	struct key note; /* of what its plan was made of */
	struct target target;
	int threads; /* its kernels were chosen for these; it runs with any number */
	bool exact;
	char name[64]; /* of the model; cut to fit, a word */
};

/* Writes a temporary file beside the path, then renames it. `meta`: from plan_build_described. E_UNSUPPORTED:
 * no reader would accept it, and nothing is written. */
int image_write(const char *path, const struct image *im, const struct plan *p,
		const struct buf *meta) MUST_CHECK;
/* Reads an image. key NULL: with any key. E_NOTFOUND: there is none, or it has another key; E_USAGE: not
 * trustworthy, a link, or not a file; E_IO: it cannot be opened; E_CORRUPT: damaged; E_UNSUPPORTED: made by
 * another version, or for a processor whose features `here` lacks. */
int image_read(const char *path, const struct key *key, const struct target *here, struct pool *pool,
	       struct image *im, struct plan **out) MUST_CHECK;
/* Hashes the note: first the choices, then each kernel that is found, in turn. */
struct key image_note_begin(const struct choices *c);
struct key image_note(struct key before, const struct code *found, enum kernel_origin origin);
/* Reads only the keys, unchecked, to see whether image_read is worth a call. Errors are image_read's. */
int image_peek(const char *path, struct image *im) MUST_CHECK;
/* E_USAGE: image_read would refuse any file at that path, because of its folder. */
int image_folder_check(const char *path) MUST_CHECK;
/* The image that `path` stands for, a bundle's folder or an image itself, into out. False: it is neither. */
bool image_find(const char *path, char *out, size_t n);
/* For commands that need a model. E_USAGE: the path is a bundle, an image or some other folder. */
int image_is_no_model(const char *path) MUST_CHECK;

#endif
