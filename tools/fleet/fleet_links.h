/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of fleet_http: how long each may take for what it does, and which one must go for another.
 *
 * Every state has a deadline that counts from the state's beginning, so that a byte now and then extends
 * nothing. Peers are counted by network: an IPv4 address, also one that is mapped into IPv6, or the /64 of an
 * IPv6 address, since whoever has one address of a /64 commonly has all of them.
 *
 * No newcomer is refused, since a stranger that holds connections must not keep others out: the connection
 * goes that has been in its state for the longest time. It is the network's own if the network has LINKS_PEER
 * of them (limit_peers) or, where the table is full, LINKS_SHARE; else one of all in a full table. So short
 * requests are answered whatever is open. A connection that fleet_answer works for never goes.
 *
 * Thread-safe. A connection is ended with shutdown(2); its owner notices, closes the descriptor and calls
 * links_remove before that. */
#ifndef TOOLS_FLEET_LINKS_H
#define TOOLS_FLEET_LINKS_H

#include "platform/base/clock.h"
#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	LINKS = 1024,            /* the table is full with so many */
	LINKS_SHARE = LINKS / 4, /* of one network, in a full table */
	LINKS_PEER = 64,         /* of one network at any time, with limit_peers */
	LINKS_SPARE = LINKS / 4, /* more that the owner must take: those that end are among them */
	LINKS_RATE = 512,        /* bytes a second: half of the least `rate` that hone-sync can be set to */
	LINKS_IDLE_S = 75        /* between an answer and the next request's first line */
};
#define LINKS_HEAD_NS (10 * NS_PER_S) /* the same in configs/nginx/hone-fleet.conf */
#define LINKS_BODY_NS (30 * NS_PER_S) /* and what the bytes that came take at LINKS_RATE */
#define LINKS_TAKE_NS (900 * NS_PER_S)

enum link_state {
	LINK_HEAD, /* until a request's header is whole; with the handshake */
	LINK_BODY, /* until its body is */
	LINK_WORK, /* fleet_answer makes its answer: no limit */
	LINK_TAKE, /* until its answer is taken */
	LINK_IDLE, /* until the next one begins */
};

struct link_net {
	uint8_t b[16];
};
/* The network that a peer's connections count for. */
struct link_net link_net(const struct sockaddr *peer);

struct links;
struct link;
int links_open(struct clock *clock, bool limit_peers, struct links **out) MUST_CHECK;
void links_close(struct links *s); /* no link may be left; NULL: nothing */
/* Makes room for a connection of this peer: the number that was ended, which did not wait idly. */
int links_make_room(struct links *s, const struct sockaddr *peer);
/* NULL: no memory, and the connection is ended. */
struct link *links_add(struct links *s, int fd, const struct sockaddr *peer);
void links_remove(struct links *s, struct link *l);
/* l NULL: nothing. From LINK_HEAD to itself: its time goes on. */
void links_state(struct links *s, struct link *l, enum link_state state);
/* n bytes of a body came: its deadline moves by the time that they take at LINKS_RATE. l NULL: nothing. */
void links_came(struct links *s, struct link *l, size_t n);
/* Ends connections that are beyond their deadline. Returns how many of them had a request under way. Called
 * every second or so. */
int links_sweep(struct links *s);

#endif
