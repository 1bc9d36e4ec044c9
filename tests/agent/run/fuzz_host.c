/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as `names`, as a Host header and as a request's target, one line each. A host that is
 * accepted is written like one of our names or addresses, in any letter case; an absolute target is reduced
 * to its path. */
#include "tools/fleet/fleet_host.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MOST = 1024 };

static void line(const uint8_t **p, size_t *n, char out[MOST])
{
	size_t len = 0;
	while (len < *n && (*p)[len] != '\n')
		len++;
	size_t kept = len < MOST - 1 ? len : MOST - 1;
	memcpy(out, *p, kept);
	out[kept] = 0;
	len += len < *n;
	*p += len;
	*n -= len;
}

static int verdict(const struct host_names *h, const char *authority)
{
	int rc = host_check(h, authority, NULL);
	if (rc != E_OK && rc != E_USAGE && rc != E_WRONG)
		abort();
	return rc;
}

static void check(const struct host_names *h, char authority[MOST])
{
	const bool ours = verdict(h, authority) == E_OK;
	if (ours && strpbrk(authority, "@/\\?#,;*%\r\n\""))
		abort();
	for (char *c = authority; *c; c++)
		*c = (char)(isupper((unsigned char)*c) ? tolower((unsigned char)*c)
						       : toupper((unsigned char)*c));
	if (ours != (verdict(h, authority) == E_OK))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char names[MOST], authority[MOST], target[MOST], of_target[MOST];
	struct fleet_conf c = {.names = names};
	struct host_names *h;
	line(&p, &n, names);
	line(&p, &n, authority);
	line(&p, &n, target);
	if (host_names_open(&c, &h) < 0) {
		c.names = "fleet.example.org";
		if (h || host_names_open(&c, &h) < 0)
			abort();
	}
	check(h, authority);
	size_t before = strlen(target);
	int absolute = host_of_target(target, of_target);
	if (absolute == 1 && (*target != '/' || strlen(target) > before || strlen(of_target) >= HOST_TEXT))
		abort();
	if (absolute == 1)
		check(h, of_target);
	host_names_close(h);
	return 0;
}
