/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches a fleet's files by name, over HTTPS (libcurl) or from a folder of the same files, and sends
 * uploads.
 *
 * Nothing from the server is trusted: the length of every answer is bounded before it is read, compression
 * and redirects are refused, headers end after FETCH_HEADERS bytes, and a transfer that is too slow, reaches
 * the deadline or uses up the bytes that may be moved is ended. Host and certificate are always checked;
 * plain HTTP is for this machine only. One thread.
 *
 * A download that can be resumed (fetch_blob) is kept in a file: FETCH_HEAD bytes with the ETag, padded with
 * \n, then the bytes received so far. It is resumed by Range and If-Range, so that parts of two files are
 * never joined; without a strong ETag it begins anew.
 *
 * Errors: E_NOTFOUND: no such file; E_BUSY: the server asked to come later (Retry-After), or the bytes are
 * used up; E_WRONG: wrong certificate or host, or the server refuses or redirects us; E_UNSUPPORTED: the
 * server rejects what was sent, and would reject it again (400, 413, 422); E_CORRUPT: an answer that no
 * server may give; E_TIMEOUT: too slow, or the deadline; E_STOPPED; E_IO: anything else, also no network. */
#ifndef AGENT_SYNC_FETCH_H
#define AGENT_SYNC_FETCH_H

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"

#include <signal.h>

enum { FETCH_ETAG = 100, FETCH_HEAD = 128, FETCH_HEADERS = 16 << 10 };

struct fetch_options {
	const char *from;             /* see sync_server_check; must stay valid */
	const char *ca;               /* file with the server's authority; NULL: the system's */
	const char *cert, *key;       /* files of a client certificate; NULL: none */
	const char *proxy;            /* NULL: from the environment */
	int64_t rate_bytes;           /* a second; 0: no limit */
	int64_t most_bytes;           /* up and down together, without TLS */
	int64_t deadline_ns, slow_ns; /* deadline of all; how long a transfer may be too slow */
	struct clock *clock;
	const volatile sig_atomic_t *stop; /* set by a signal to stop; NULL: never */
};

struct fetch;
int fetch_open(const struct fetch_options *o, struct fetch **out) MUST_CHECK;
void fetch_close(struct fetch *f); /* NULL: nothing */

struct fetched {
	struct buf body;
	char etag[FETCH_ETAG]; /* "": none, or a weak one */
};

/* Gets a file of at most `most` bytes. etag: NULL, "", or the ETag of the known version. 1: out holds the
 * body; 0: the known version is still current. */
int fetch_get(struct fetch *f, const char *name, size_t most, const char *etag,
	      struct fetched *out) MUST_CHECK;
/* Gets a blob of n bytes; the bytes that the file `part` has are not fetched again. The caller removes that
 * file. */
int fetch_blob(struct fetch *f, const char *name, size_t n, const char *part, struct buf *out) MUST_CHECK;
/* Posts n bytes; the answer has at most `most` bytes. From a folder: E_UNSUPPORTED. */
int fetch_post(struct fetch *f, const char *name, const char *type, const void *p, size_t n, size_t most,
	       struct fetched *out) MUST_CHECK;

struct fetch_sum {
	int64_t down_bytes, up_bytes; /* without the overhead of TLS */
	int64_t retry_after_ns;       /* the last Retry-After; 0: none */
	bool answered;                /* the server was reached */
};
void fetch_sum(const struct fetch *f, struct fetch_sum *out);

#endif
