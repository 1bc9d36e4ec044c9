/* SPDX-License-Identifier: Apache-2.0 */
/* Choices as a record of the cache, CACHE_CHOICES: the model, target, device, number of threads and level
 * that they were made for, then the choices.
 *
 * Text: "hone-chosen 1", the fields of the table in chosen_rec.c (agent/cache/fields.h), then the text of
 * kernels/group/choices.h. The key is the hash of the fields, so it follows from the content. In the former
 * version a record held only the choices; chosen_load reads those, but they are not imported from others. */
#ifndef AGENT_CHOSEN_REC_H
#define AGENT_CHOSEN_REC_H

#include "kernels/task/level.h"
#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/hash.h"

struct chosen_rec {
	struct key model, target_key; /* graph_key of the optimised graph; the class of boards */
	char device[16];
	int threads;
	enum level level;
	const char *choices; /* text of kernels/group/choices.h; after chosen_rec_parse it points into the
				parsed text and is unchecked */
};

struct key chosen_rec_key(const struct chosen_rec *r);
void chosen_rec_text(const struct chosen_rec *r, struct buf *out);
bool chosen_rec_is_former(const char *text);                               /* only choices, without fields */
int chosen_rec_parse(const char *text, struct chosen_rec *out) MUST_CHECK; /* hostile text: E_CORRUPT */

#endif
