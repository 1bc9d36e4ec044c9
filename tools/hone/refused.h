/* SPDX-License-Identifier: Apache-2.0 */
/* Why lines of imported files were refused. The first line of each reason is named at once on standard error;
 * the others are counted, and refused_tell says how many there were of each reason. */
#ifndef TOOLS_REFUSED_H
#define TOOLS_REFUSED_H

#include <stdint.h>

enum { REFUSED_REASONS = 8 };

struct refused {
	int n;
	struct {
		char why[200];
		int more; /* lines after the first one */
	} row[REFUSED_REASONS];
	int others; /* lines of further reasons, which are not named */
};

void refused_add(struct refused *r, const char *path, int64_t line, const char *why);
void refused_tell(const struct refused *r);

#endif
