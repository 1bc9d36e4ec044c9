/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/chosen_rec.h"

#include "agent/fields.h"

#include <stddef.h>
#include <string.h>

#define FIRST_LINE "hone-chosen 1\n"

static const struct field fields[] = {
    FIELD("model", F_KEY, struct chosen_rec, model),
    FIELD("target_key", F_KEY, struct chosen_rec, target_key),
    FIELD("device", F_CHARS, struct chosen_rec, device),
    FIELD("threads", F_INT, struct chosen_rec, threads),
    FIELD("exact", F_BOOL, struct chosen_rec, exact),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

static void head_text(const struct chosen_rec *r, struct buf *out)
{
	buf_puts(out, FIRST_LINE);
	fields_text(fields, NFIELDS, r, out);
}

struct key chosen_rec_key(const struct chosen_rec *r)
{
	struct buf head = {0};
	head_text(r, &head);
	struct key k = hash_text(buf_str(&head));
	buf_free(&head);
	return k;
}

void chosen_rec_text(const struct chosen_rec *r, struct buf *out)
{
	head_text(r, out);
	buf_puts(out, r->choices);
}

int chosen_rec_parse(const char *text, struct chosen_rec *out)
{
	*out = (struct chosen_rec){0};
	if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT, "not choices of this version, which say what they were made for");
	text += strlen(FIRST_LINE);
	struct arena scratch = {0}; /* no field lives on in it */
	int rc = fields_parse(fields, NFIELDS, &text, &scratch, out);
	arena_free(&scratch);
	out->choices = text;
	return fail_in(rc, "choices");
}
