/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the host that a request names. The owner of a foreign web site can let its name resolve to this
 * server's address (DNS rebinding); a browser that is allowed to read this server would then read it for that
 * site, but it still sends the site's name as Host. A request for another host is therefore refused.
 *
 * These hosts are ours: localhost; loopback addresses; the address at which the connection arrived (a number
 * cannot be rebound); the names of conf->names, which are DNS names, "*.example.org" for one label in the
 * place of '*', or addresses, with commas or spaces between them. Where conf->names is NULL, the names of
 * conf->cert count, or without one those of KEYS/server.pem, if it is there.
 *
 * Case and one dot at the end of a name make no difference. The port is parsed but not compared: nginx and
 * forwarded ports change it, and it protects nothing. */
#ifndef TOOLS_FLEET_HOST_H
#define TOOLS_FLEET_HOST_H

#include "tools/fleet/fleet.h"
#include <sys/socket.h>

enum { HOST_NAMES = 64, HOST_TEXT = 320 /* bytes of an authority, with the NUL */ };

struct host_names;
/* E_USAGE: a word of conf->names is no host. A certificate that cannot be read gives no names. */
int host_names_open(const struct fleet_conf *c, struct host_names **out) MUST_CHECK;
void host_names_close(struct host_names *h); /* NULL: nothing */

/* authority: "HOST", "HOST:PORT" or "[ADDRESS]:PORT" as the request has it; NULL: it has none. arrived: own
 * address of the connection, NULL: not known. E_USAGE: none, or not well formed; E_WRONG: another host. */
int host_check(const struct host_names *h, const char *authority, const struct sockaddr *arrived) MUST_CHECK;

/* Takes the authority out of a target in absolute form ("http://AUTHORITY/PATH?QUERY"), which every server
 * must take (RFC 9112, 3.2.2), and leaves "/PATH?QUERY" in its place: 1. A target in another form stays: 0.
 * E_USAGE: an authority of HOST_TEXT bytes or more. */
int host_of_target(char *target, char authority[HOST_TEXT]) MUST_CHECK;

#endif
