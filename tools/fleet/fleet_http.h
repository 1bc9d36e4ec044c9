/* SPDX-License-Identifier: Apache-2.0 */
/* fleet_answer on the network: HTTP/1.1 by libmicrohttpd, on conf->threads threads; TLS where there is a
 * certificate. What strangers can make it hold is bounded: LINKS connections (tools/fleet/fleet_links.h says
 * how long each may take, and which goes when one more comes) of HTTP_HEAD bytes each, and HTTP_BODIES bytes
 * of all bodies together (503 above that; 413 for one above FLEET_BODY). Published files are sent from the
 * file.
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
/* Where it listens: "http://127.0.0.1:8440". */
const char *fleet_http_url(const struct fleet_http *h);
/* It listens on more than loopback, and without a certificate. */
bool fleet_http_exposed(const struct fleet_http *h);
/* Closes what is too slow: every second or so. */
void fleet_http_sweep(struct fleet_http *h);
/* Takes no more connections, and lets those that ask have their answer, for wait_ns at most. NULL: nothing.
 */
void fleet_http_close(struct fleet_http *h, int64_t wait_ns);

#endif
