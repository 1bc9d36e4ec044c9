/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of fleet_http: how long each may stay in its state, and which one is closed for a new
 * one.
 *
 * Every state has a deadline that counts from the state's beginning, so a byte now and then extends nothing.
 * Peers are counted by network: an IPv4 address, also one that is mapped into IPv6, or the /64 of an IPv6
 * address, since whoever has one address of a /64 commonly has all of them.
 *
 * No newcomer is refused, since a stranger that holds connections must not keep others out. Instead, the
 * connection that has been in its state for the longest time is closed. It is one of the newcomer's network
 * if that network has LINKS_PEER connections (with limit_peers) or, in a full table, LINKS_SHARE; otherwise,
 * in a full table, it is the oldest of all. So short requests are always answered. A connection that
 * fleet_answer works for is never closed.
 *
 * Thread-safe. A connection is ended with shutdown(2). Its owner notices that, calls links_remove and then
 * closes the descriptor. */
#ifndef TOOLS_FLEET_LINKS_H
#define TOOLS_FLEET_LINKS_H

#include "platform/base/clock.h"
#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	LINKS = 1024,            /* connections in a full table */
	LINKS_SHARE = LINKS / 4, /* connections of one network, in a full table */
	LINKS_PEER = 64,         /* connections of one network at any time, with limit_peers */
	LINKS_SPARE = LINKS / 4, /* more that the owner must accept, since connections that end still count */
	LINKS_RATE = 512,        /* bytes/s: half of the lowest `rate` of hone-sync */
	LINKS_IDLE_S = 75        /* seconds between an answer and the next request */
};
#define LINKS_HEAD_NS (10 * NS_PER_S) /* configs/nginx/hone-fleet.conf has the same limit */
#define LINKS_BODY_NS (30 * NS_PER_S) /* plus the time that the received bytes take at LINKS_RATE */
#define LINKS_TAKE_NS (900 * NS_PER_S)

enum link_state {
	LINK_HEAD, /* until the TLS handshake is done and a request's header is complete */
	LINK_BODY, /* until its body is complete */
	LINK_WORK, /* while fleet_answer works: no limit */
	LINK_TAKE, /* until the peer has received the answer */
	LINK_IDLE, /* until the next request begins */
};

struct link_net {
	uint8_t b[16];
};
/* Returns the network that a peer's connections count for. */
struct link_net link_net(const struct sockaddr *peer);

struct links;
struct link;
int links_open(struct clock *clock, bool limit_peers, struct links **out) MUST_CHECK;
void links_close(struct links *s); /* all links must have been removed; NULL: nothing */
/* Closes a connection if one of this peer needs the room. Returns 1 if that one was not idle, else 0. */
int links_make_room(struct links *s, const struct sockaddr *peer);
/* NULL: no memory; the connection was shut down. */
struct link *links_add(struct links *s, int fd, const struct sockaddr *peer);
void links_remove(struct links *s, struct link *l);
/* Begins a state, and its deadline; from LINK_HEAD to LINK_HEAD, the deadline stays. l NULL: nothing. */
void links_state(struct links *s, struct link *l, enum link_state state);
/* n bytes of a body were received: moves the deadline by the time that they take at LINKS_RATE. l NULL:
 * nothing. */
void links_came(struct links *s, struct link *l, size_t n);
/* Closes connections that are past their deadline. Returns how many of them were not idle. Called every
 * second or so. */
int links_sweep(struct links *s);

#endif
