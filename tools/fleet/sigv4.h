/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4, by header: what S3-compatible stores ask for. Pure. */
#ifndef TOOLS_SIGV4_H
#define TOOLS_SIGV4_H

#include "platform/base/buf.h"
#include "platform/base/err.h"

struct sigv4_header {
	const char *name, *value; /* lower case; without blanks around it */
};

struct sigv4 {
	const char *key_id, *secret, *region, *service;
	const char *date;                  /* 20130524T000000Z, as x-amz-date says */
	const char *method, *path;         /* as sent: sigv4_escape */
	const char *query;                 /* canonical; "": none */
	const struct sigv4_header *header; /* that are signed, by name; host is one of them */
	int nheader;
	const char *payload; /* SHA-256 of the body, 64 hex digits */
};

/* The value of the header Authorization. */
int sigv4_sign(const struct sigv4 *s, struct buf *out) MUST_CHECK;
/* Percent-encodes all but letters, digits, "-._~" and '/'. */
void sigv4_escape(const char *path, struct buf *out);

#endif
