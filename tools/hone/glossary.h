/* SPDX-License-Identifier: Apache-2.0 */
/* The words of tables in plain sentences, which `hone help words` lists. To add one: a line in glossary.c. */
#ifndef TOOLS_GLOSSARY_H
#define TOOLS_GLOSSARY_H

struct term {
	const char *name; /* as tables print it */
	const char *text; /* whole sentences */
};

extern const struct term hone_terms[]; /* by name; ends with name NULL */
/* Letter case does not count. NULL: there is no such word; terms may be NULL. */
const struct term *term_find(const struct term *terms, const char *word);

#endif
