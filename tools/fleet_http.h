/* SPDX-License-Identifier: Apache-2.0 */
/* fleet_answer on the network: HTTP/1.1 by libmicrohttpd, on conf->threads threads; TLS where there is a
 * certificate. What strangers can make it hold is bounded: HTTP_CONNS connections of HTTP_HEAD bytes each,
 * and HTTP_BODIES bytes of all bodies together (503 above that; 413 for one above FLEET_BODY). A request that
 * is not whole after HTTP_ASK_NS, an answer not taken after HTTP_TAKE_NS and a connection idle for
 * HTTP_IDLE_S are closed. Published files are sent from the file. A peer on this machine (nginx) may say in
 * X-Real-IP whom it asks for. */
#ifndef TOOLS_FLEET_HTTP_H
#define TOOLS_FLEET_HTTP_H

#include "tools/fleet.h"

enum {
	HTTP_CONNS = 1024,
	HTTP_PEER_CONNS = 64, /* of one address, where it is TLS of its own */
	HTTP_HEAD = 32 << 10,
	HTTP_BODIES = 64 << 20,
	HTTP_IDLE_S = 75
};
#define HTTP_ASK_NS (30 * NS_PER_S)
#define HTTP_TAKE_NS (900 * NS_PER_S)

struct fleet_http;

int fleet_http_open(struct fleet *f, struct fleet_http **out) MUST_CHECK;
/* Where it listens: "http://127.0.0.1:8440". */
const char *fleet_http_url(const struct fleet_http *h);
/* Closes what is too slow: every second or so. */
void fleet_http_sweep(struct fleet_http *h);
/* Takes no more connections, and lets those that ask have their answer, for wait_ns at most. NULL: nothing.
 */
void fleet_http_close(struct fleet_http *h, int64_t wait_ns);

#endif
