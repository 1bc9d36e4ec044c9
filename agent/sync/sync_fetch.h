/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a fleet by name, over HTTPS (libcurl) or out of a folder of the same files; and what is sent up.
 *
 * Nothing of the other side is trusted: every answer has a length that is known before, no compression and no
 * redirect is taken, headers end after FETCH_HEADERS bytes, bytes that come too slowly end it, and so do the
 * deadline and the bytes that may be moved at all. Host and certificate are always checked; plain HTTP is for
 * this machine alone. One thread.
 *
 * What comes in parts (fetch_blob) is kept in a file: FETCH_HEAD bytes with the ETag, padded with \n, then
 * what came of it. It is resumed by Range and If-Range, so that parts of two files are never joined; without
 * a strong ETag it begins anew.
 *
 * Errors: E_NOTFOUND: there is no such file; E_BUSY: asked to come later (Retry-After), or the bytes are used
 * up; E_WRONG: certificate or host are not right, or we are refused or sent elsewhere; E_UNSUPPORTED: what
 * was sent is not taken, and would not be another time (400, 413, 422); E_CORRUPT: no answer that a server
 * may give; E_TIMEOUT: too slow, or the deadline; E_STOPPED; E_IO: anything else, also no network. */
#ifndef AGENT_SYNC_FETCH_H
#define AGENT_SYNC_FETCH_H

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"

#include <signal.h>

enum { FETCH_ETAG = 100, FETCH_HEAD = 128, FETCH_HEADERS = 16 << 10 };

struct fetch_options {
	const char *from;             /* see sync_server_check; kept */
	const char *ca;               /* file with the server's authority; NULL: the system's */
	const char *cert, *key;       /* files of a client certificate; NULL: none */
	const char *proxy;            /* NULL: as the environment says */
	int64_t rate_bytes;           /* a second; 0: no limit */
	int64_t most_bytes;           /* of all, up and down, above TLS */
	int64_t deadline_ns, slow_ns; /* of all; how long bytes may come too slowly */
	struct clock *clock;
	const volatile sig_atomic_t *stop; /* NULL: nobody stops it */
};

struct fetch;
int fetch_open(const struct fetch_options *o, struct fetch **out) MUST_CHECK;
void fetch_close(struct fetch *f); /* NULL: nothing */

struct fetched {
	struct buf body;
	char etag[FETCH_ETAG]; /* "": none, or a weak one */
};

/* At most `most` bytes. etag: NULL or "", or that of what is known. 1: body; 0: that is still it. */
int fetch_get(struct fetch *f, const char *name, size_t most, const char *etag,
	      struct fetched *out) MUST_CHECK;
/* n bytes, as far as `part` has them from there. The part stays, for the caller to remove. */
int fetch_blob(struct fetch *f, const char *name, size_t n, const char *part, struct buf *out) MUST_CHECK;
/* The answer has at most `most` bytes. A folder takes nothing: E_UNSUPPORTED. */
int fetch_post(struct fetch *f, const char *name, const char *type, const void *p, size_t n, size_t most,
	       struct fetched *out) MUST_CHECK;

struct fetch_sum {
	int64_t down_bytes, up_bytes; /* above TLS */
	int64_t retry_after_ns;       /* of the last answer that said so; 0: none did */
	bool answered;                /* somebody was reached */
};
void fetch_sum(const struct fetch *f, struct fetch_sum *out);

#endif
