/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to honed that a thread reads: events are passed on at once, replies wait for their caller. One
 * caller at a time, besides link_say_last. Part of leash.c; not for others. */
#ifndef AGENT_LEASH_LINK_H
#define AGENT_LEASH_LINK_H

#include "agent/control/control.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include <jansson.h>
#include <signal.h>

struct link;

/* Called on the link's thread, so it must not block. event: "yield", "go on", "stop"; NULL: honed is gone,
 * and this is the last call. */
typedef void link_event(void *ctx, const char *event);

/* link_close closes fd; link_open closes it on failure. */
int link_open(int fd, link_event *event, void *ctx, struct link **out) MUST_CHECK;
void link_close(struct link *k);
bool link_alive(struct link *k);
/* Sends r, with the payload behind it if r->bytes is set, and returns the reply, which the caller must
 * decref. If honed refuses, returns honed's error with its text. E_TIMEOUT at deadline_ns (INT64_MAX: when
 * honed has been silent for LINK_PATIENCE_NS while this process ran); E_STOPPED as soon as *stop is set (stop
 * may be NULL); E_IO: honed is gone. */
int link_ask(struct link *k, struct request *r, const void *payload, const volatile sig_atomic_t *stop,
	     int64_t deadline_ns, json_t **reply) MUST_CHECK;
/* Sends a request that has no reply. */
int link_say(struct link *k, const struct request *r) MUST_CHECK;
/* The same from another thread than the caller's. Nothing, or a part of it, is sent if for 100 ms the caller
 * is still sending, or there is no room. It is the last that is sent. */
void link_say_last(struct link *k, const struct request *r);

#define LINK_PATIENCE_NS (60 * NS_PER_S)

#endif
