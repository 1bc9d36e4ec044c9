/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4 in the Authorization header, as S3-compatible stores require it. Pure. */
#ifndef TOOLS_SIGV4_H
#define TOOLS_SIGV4_H

#include "platform/base/buf.h"
#include "platform/base/err.h"

struct sigv4_header {
	const char *name, *value; /* name: lower case; value: without blanks around it */
};

struct sigv4 {
	const char *key_id, *secret, *region, *service;
	const char *date;                  /* value of x-amz-date: 20130524T000000Z */
	const char *method, *path;         /* path: as sent (sigv4_escape) */
	const char *query;                 /* canonical form; "": none */
	const struct sigv4_header *header; /* headers to sign, sorted by name; they include host */
	int nheader;
	const char *payload; /* SHA-256 of the body, 64 hex digits */
};

/* Writes the value of the Authorization header. */
int sigv4_sign(const struct sigv4 *s, struct buf *out) MUST_CHECK;
/* Percent-encodes all but letters, digits, "-._~" and '/'. */
void sigv4_escape(const char *path, struct buf *out);

#endif
