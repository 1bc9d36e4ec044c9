/* SPDX-License-Identifier: Apache-2.0 */
/* Sends any request to the fleet's server: the lines METHOD, PATH, If-None-Match, Range, If-Range, then the
 * body. The third line is the Authorization, too, the fourth the Cookie, and the fifth the address (empty: a
 * local peer). The reply must have a status, refusals must be noted, requests without secrets must change
 * nothing, and no page may have a script. */
#include "tests/lib/fleet.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { WORDS = 5, MOST_WORD = 256 };

static struct fleet *server(void)
{
	static struct fleet *f;
	if (!f) {
		struct fleet_conf c = fleet_conf_test();
		static char admin[256];
		log_level_set(LOG_QUIET);
		fleet_file("admin", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 64);
		snprintf(admin, sizeof admin, "%s", fleet_path("admin"));
		c.admin = admin;
		fleet_file("publish/blob/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
			   "0123456789", 10);
		fleet_file("publish/root/1", "root", 4);
		if (fleet_open(&c, &clock_real, fleet_date, &f) < 0)
			abort();
	}
	return f;
}

/* Takes a line from the input. */
static void word(const uint8_t **p, size_t *n, char out[MOST_WORD])
{
	size_t len = 0;
	while (len < *n && (*p)[len] != '\n')
		len++;
	size_t kept = len < MOST_WORD - 1 ? len : MOST_WORD - 1;
	memcpy(out, *p, kept);
	out[kept] = 0;
	len += len < *n;
	*p += len;
	*n -= len;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static int turns;
	struct fleet *f = server();
	(void)test_last, (void)test_skipped; /* of tests/lib/test.h; no test runs here */
	char w[WORDS][MOST_WORD];
	for (int i = 0; i < WORDS; i++)
		word(&p, &n, w[i]);
	char *query = strchr(w[1], '?');
	if (query)
		*query++ = 0;
	const struct fleet_request q = {.method = w[0],
					.path = w[1],
					.query = query ? query : "",
					.if_none_match = *w[2] ? w[2] : NULL,
					.range = *w[3] ? w[3] : NULL,
					.if_range = *w[4] ? w[4] : NULL,
					.authorization = *w[2] ? w[2] : NULL,
					.cookie = *w[3] ? w[3] : NULL,
					.peer = w[4],
					.local = !*w[4],
					.body = p,
					.n = n};
	struct fleet_reply r;
	fleet_answer(f, 0, &q, &r);
	if (r.status < 200 || r.status > 599 || (r.file >= 0 && (r.from < 0 || r.n < 0 || r.from + r.n > 10)))
		abort();
	if (r.body.n && (!r.type || !buf_ok(&r.body)))
		abort();
	if (r.policy && strstr(buf_str(&r.body), "<script"))
		abort();
	fleet_reply_free(&r);
	if (++turns % 256 == 0 &&
	    (fleet_flush(f) < 0 || fleet_rows(f, "SELECT id FROM boards") != 0 ||
	     fleet_rows(f, "SELECT name FROM batches") != 0 || fleet_rows(f, "SELECT what FROM admin") != 0 ||
	     fleet_rows(f, "SELECT id FROM sessions") != 0 ||
	     fleet_rows(f, "SELECT name FROM settings WHERE name = 'stop'") != 0 ||
	     fleet_rows(f, "DELETE FROM rejects") < 0))
		abort();
	return 0;
}
