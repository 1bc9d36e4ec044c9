/* SPDX-License-Identifier: Apache-2.0 */
/* Images: a plan as one file. A process loads it in milliseconds, because it needs no model, no import, no
 * passes, no packing and no cache.
 *
 * File: "HIM7", u32 CRC32C of all that follows up to the weights, key, same and note (16 bytes each: hi, lo),
 * u64 bytes of the description, u64 bytes of the weights, u32 CRC32C of the weights, u32 bytes of the label,
 * the label, the description, zeros up to a multiple of 4096, the packed weights. The label is three lines:
 * version and memory layout of the hone that wrote it, the target (platform/machine/target.h), "THREADS LEVEL
 * NAME". The description holds numbers as they lie in this machine's memory, without addresses: a place is a
 * region and an offset in it. A change of the format changes "HIM7" too. Only the version of hone that wrote
 * an image reads it, on a processor that has all of the target's features.
 *
 * The machine code in an image is trusted; everything else is checked. Whatever the numbers are, steps that
 * run without machine code stay inside the plan's memory and the caller's tensors. Therefore an image is
 * refused (E_USAGE) if a user other than root and this process's user can write it or change its folder.
 *
 * A bundle is a folder with an image IMAGE_FILE in it; other files there do not matter. */
#ifndef AGENT_IMAGE_H
#define AGENT_IMAGE_H

#include "agent/run/plan.h"
#include "kernels/group/choices.h"
#include "kernels/task/level.h"
#include "platform/base/buf.h"
#include "platform/base/hash.h"

#define IMAGE_FILE "plan.hone"

struct image {
	struct key key;  /* model and options that it was made for; the caller computes it */
	struct key same; /* identifies the model's file without reading it whole; the caller computes it */
	struct key note; /* hash of the choices and kernels of its plan (image_note) */
	struct target target;
	int threads; /* its kernels were chosen for this number; it runs with any */
	enum level level;
	char name[64]; /* name of the model as one word, cut to fit */
};

/* Writes a temporary file beside the path, then renames it. `meta`: from plan_build_described. E_UNSUPPORTED:
 * no reader would accept the image, so nothing is written. */
int image_write(const char *path, const struct image *im, const struct plan *p,
		const struct buf *meta) MUST_CHECK;
/* Reads an image. key NULL: any key is accepted. E_NOTFOUND: no such file, or it has another key; E_USAGE:
 * others can write it, or it is a link or not a file; E_IO: it cannot be opened; E_CORRUPT: it is damaged;
 * E_UNSUPPORTED: another version made it, or it is for a processor with features that `here` lacks. */
int image_read(const char *path, const struct key *key, const struct target *here, struct pool *pool,
	       struct image *im, struct plan **out) MUST_CHECK;
/* Computes the note: begin with the choices, then add each kernel in the order in which it is found. */
struct key image_note_begin(const struct choices *c);
struct key image_note(struct key before, const struct code *found, enum kernel_origin origin);
/* Reads only the keys, without checking the rest, so that the caller knows whether to call image_read. Errors
 * as of image_read. */
int image_peek(const char *path, struct image *im) MUST_CHECK;
/* E_USAGE: image_read would refuse any file at that path, because others can change its folder. */
int image_folder_check(const char *path) MUST_CHECK;
/* Sets out to the image file of `path`: IMAGE_FILE in a folder, or the path itself if it is an image. False:
 * the path is neither a folder nor an image. */
bool image_find(const char *path, char *out, size_t n);
/* For commands that need a model. E_USAGE: the path is an image or a folder. */
int image_is_no_model(const char *path) MUST_CHECK;

#endif
