/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/refused.h"

#include "platform/base/buf.h"
#include "platform/base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void refused_add(struct refused *r, const char *path, int64_t line, const char *why)
{
	char text[sizeof r->row->why];
	snprintf(text, sizeof text, "%s", why);
	for (int i = 0; i < r->n; i++)
		if (!strcmp(r->row[i].why, text)) {
			r->row[i].more++;
			return;
		}
	if (r->n == REFUSED_REASONS) {
		r->others++;
		return;
	}
	log_info("hone: %s:%" PRId64 " refused: %s", path, line, why);
	memcpy(r->row[r->n++].why, text, sizeof text);
}

void refused_tell(const struct refused *r)
{
	for (int i = 0; i < r->n; i++)
		if (r->row[i].more)
			log_info("hone: %d more line%s refused: %s", r->row[i].more, plural_s(r->row[i].more),
				 r->row[i].why);
	if (r->others)
		log_info("hone: %d more line%s refused for other reasons", r->others, plural_s(r->others));
}
