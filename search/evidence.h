/* SPDX-License-Identifier: Apache-2.0 */
/* How much is known near a candidate: the covariance of a Bayesian linear regression on the features. It
 * depends only on which candidates were measured, not on their times, so it serves every model alike. */
#ifndef SEARCH_EVIDENCE_H
#define SEARCH_EVIDENCE_H

#include "search/prior.h"
#include "search/rows.h"

enum { EVIDENCE_COLUMNS = (FEATURES + ROW - 1) / ROW * ROW };

struct evidence {
	float cov[FEATURES][EVIDENCE_COLUMNS]; /* feature 0 stands for a constant; columns beyond FEATURES are
						  0; 15 KB */
	float noise;                           /* sd of the log of a time if the weights were known exactly */
};

void evidence_init(struct evidence *e);
void evidence_add(struct evidence *e, const float f[FEATURES]);
double evidence_sd(const struct evidence *e, const float f[FEATURES]); /* of the logarithm of a time */
int evidence_read(struct evidence *e, struct prior *p) MUST_CHECK;
void evidence_write(const struct evidence *e, struct buf *out);

#endif
