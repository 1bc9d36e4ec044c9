/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/chosen_rec.h"

#include "agent/cache/fields.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FIRST_LINE "hone-chosen 1\n"

static const struct field fields[] = {
    FIELD("model", F_KEY, struct chosen_rec, model),
    FIELD("target_key", F_KEY, struct chosen_rec, target_key),
    FIELD("device", F_CHARS, struct chosen_rec, device),
    FIELD("threads", F_INT, struct chosen_rec, threads),
    FIELD("exact", F_WORD, struct chosen_rec, level, level_word),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

struct key chosen_rec_key(const struct chosen_rec *r)
{
	char text[128], model[33], target[33];
	key_text(r->model, model);
	key_text(r->target_key, target);
	snprintf(text, sizeof text, "chosen %s %s %s %d %d", model, target, r->device, r->threads, r->level);
	return hash_text(text);
}

void chosen_rec_text(const struct chosen_rec *r, struct buf *out)
{
	buf_puts(out, FIRST_LINE);
	fields_text(fields, NFIELDS, r, out);
	buf_puts(out, r->choices);
}

bool chosen_rec_is_former(const char *text)
{
	return !strncmp(text, "hone-choices ", strlen("hone-choices "));
}

int chosen_rec_parse(const char *text, struct chosen_rec *out)
{
	*out = (struct chosen_rec){0};
	if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT,
			    "not choices of this version, which name their model, device and threads");
	text += strlen(FIRST_LINE);
	struct arena scratch = {0}; /* no field of this struct points into it */
	int rc = fields_parse(fields, NFIELDS, &text, &scratch, out);
	arena_free(&scratch);
	out->choices = text;
	return fail_in(rc, "choices");
}
