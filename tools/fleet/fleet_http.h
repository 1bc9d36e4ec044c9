/* SPDX-License-Identifier: Apache-2.0 */
/* Serves fleet_answer over HTTP/1.1, by libmicrohttpd, on conf->threads threads; with TLS if there is a
 * certificate. The memory that strangers can occupy is bounded: LINKS connections of HTTP_HEAD bytes each
 * (tools/fleet/fleet_links.h says how long each may take, and which one is closed for a new one), and
 * HTTP_BODIES bytes of all bodies together (503 above that; 413 for a body above FLEET_BODY). Published files
 * are sent from the file.
 *
 * A request names one of this server's hosts (tools/fleet/fleet_host.h): 400 for none, two or nonsense, 421
 * for another server's. It counts as local if the peer is on this machine and no header says that a proxy
 * passes the request on; a proxy on this machine must therefore send one, as nginx does with X-Real-IP, which
 * is then the address in the log. */
#ifndef TOOLS_FLEET_HTTP_H
#define TOOLS_FLEET_HTTP_H

#include "tools/fleet/fleet.h"

enum { HTTP_HEAD = 32 << 10, HTTP_BODIES = 64 << 20 };

struct fleet_http;

int fleet_http_open(struct fleet *f, struct fleet_http **out) MUST_CHECK;
/* The server's URL: "http://127.0.0.1:8440". */
const char *fleet_http_url(const struct fleet_http *h);
/* Whether it listens on more than loopback without a certificate. */
bool fleet_http_exposed(const struct fleet_http *h);
/* Closes connections that are too slow. Called every second or so. */
void fleet_http_sweep(struct fleet_http *h);
/* Accepts no more connections, and waits at most wait_ns until the requests under way are answered. NULL:
 * nothing. */
void fleet_http_close(struct fleet_http *h, int64_t wait_ns);

#endif
