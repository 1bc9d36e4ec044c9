/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a prior, which a cost model starts from:
 *
 *	hone-prior mlp features=51 set=1
 *	WORD NUMBER...
 *
 * The first line names its model and its features (kernels/space/features.h). Each further line is a word
 * and as many numbers as the model asks for, with 6 digits and one space between them, so that text and value
 * convert into each other exactly. A line that begins with # is a comment. The text may be hostile. */
#ifndef SEARCH_PRIOR_H
#define SEARCH_PRIOR_H

#include "platform/base/buf.h"
#include "platform/base/err.h"

struct prior {
	const char *at, *end;
	int line;
};

/* E_UNSUPPORTED: the prior belongs to another model or other features. */
int prior_open(struct prior *p, const char *text, size_t n, const char *model) MUST_CHECK;
/* Reads the next line, which must be `word` with exactly n numbers, finite and of at most +-1e6. */
int prior_read(struct prior *p, const char *word, float *x, int n) MUST_CHECK;
int prior_end(struct prior *p) MUST_CHECK; /* checks that nothing follows */

void prior_head(struct buf *out, const char *model);
void prior_write(struct buf *out, const char *word, const float *x, int n);

#endif
