/* SPDX-License-Identifier: Apache-2.0 */
/* How much is known near a candidate: the covariance of a Bayesian linear regression on its features, which
 * does not depend on what was measured, only on where. It serves every model alike. */
#ifndef SEARCH_EVIDENCE_H
#define SEARCH_EVIDENCE_H

#include "search/prior.h"
#include "search/rows.h"

enum { EVIDENCE_COLUMNS = (FEATURES + ROW - 1) / ROW * ROW };

struct evidence {
	float cov[FEATURES][EVIDENCE_COLUMNS]; /* feature 0 stands for a constant; beyond them 0; 15 KB */
	float noise;                           /* sd of the logarithm of a time, beside what is not known */
};

void evidence_init(struct evidence *e);
void evidence_add(struct evidence *e, const float f[FEATURES]);
double evidence_sd(const struct evidence *e, const float f[FEATURES]); /* of the logarithm of a time */
int evidence_read(struct evidence *e, struct prior *p) MUST_CHECK;
void evidence_write(const struct evidence *e, struct buf *out);

#endif
