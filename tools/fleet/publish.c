/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/publish.h"
#include <stdlib.h>
#include <string.h>

struct place {
	const struct publish *kind;
	void *own;
};

int publish_find(const char *url, const struct publish **out)
{
	*out = NULL;
	for (int i = 0; publish_table[i]; i++) {
		const struct publish *k = publish_table[i];
		if (*k->prefix ? !strncmp(url, k->prefix, strlen(k->prefix)) : !*out && !strstr(url, "://"))
			*out = k;
	}
	return *out ? E_OK
		    : fail(E_UNSUPPORTED, "publish = %s: neither a folder nor s3://BUCKET/PREFIX", url);
}

int place_open(const char *url, struct place **out)
{
	struct place *p = calloc(1, sizeof *p);
	int rc = p ? publish_find(url, &p->kind) : fail(E_NOMEM, "no memory");
	if (rc >= 0)
		rc = p->kind->open(url, &p->own);
	if (rc < 0)
		free(p);
	*out = rc < 0 ? NULL : p;
	return rc;
}

void place_close(struct place *p)
{
	if (p)
		p->kind->close(p->own);
	free(p);
}

/* Rejects names that lead out of the place, and hidden ones. */
static int check_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789/";
	size_t n = strlen(name);
	if (!n || n >= PUBLISH_NAME || strspn(name, letters) != n || name[0] == '/' || name[n - 1] == '/' ||
	    strstr(name, "//"))
		return fail(E_USAGE, "'%.80s' is not the name of a published file", name);
	return E_OK;
}

int place_put(struct place *p, const char *name, const void *bytes, size_t n, bool immutable)
{
	int rc = check_name(name);
	return rc < 0 ? rc : p->kind->put(p->own, name, bytes, n, immutable);
}

int place_drop(struct place *p, const char *name)
{
	int rc = check_name(name);
	return rc < 0 ? rc : p->kind->drop(p->own, name);
}
