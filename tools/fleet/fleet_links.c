/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_links.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct link {
	struct link *next, **at;
	struct link_net net;
	int fd;
	enum link_state state;
	int64_t since_ns;
	int64_t earned_ns; /* time earned by the bytes of a body */
	bool cut;          /* shut down; its owner has not noticed yet */
};

struct links {
	struct clock *clock;
	bool limit_peers;
	pthread_mutex_t mutex; /* protects the fields below */
	struct link *first;
	int n; /* links that are not cut */
};

static const int64_t limit_ns[] = {[LINK_HEAD] = LINKS_HEAD_NS,
				   [LINK_BODY] = LINKS_BODY_NS,
				   [LINK_WORK] = INT64_MAX,
				   [LINK_TAKE] = LINKS_TAKE_NS,
				   [LINK_IDLE] = LINKS_IDLE_S * NS_PER_S};

struct link_net link_net(const struct sockaddr *peer)
{
	struct link_net net = {{0}};
	if (peer->sa_family == AF_INET) {
		net.b[10] = net.b[11] = 0xff;
		memcpy(&net.b[12], &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
	} else if (peer->sa_family == AF_INET6) {
		const struct in6_addr *ip = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
		memcpy(net.b, ip, IN6_IS_ADDR_V4MAPPED(ip) ? 16 : 8);
	}
	return net;
}

int links_open(struct clock *clock, bool limit_peers, struct links **out)
{
	struct links *s = *out = calloc(1, sizeof *s);
	if (!s)
		return fail(E_NOMEM, "no memory");
	s->clock = clock;
	s->limit_peers = limit_peers;
	pthread_mutex_init(&s->mutex, NULL);
	return E_OK;
}

void links_close(struct links *s)
{
	if (s)
		pthread_mutex_destroy(&s->mutex);
	free(s);
}

/* Shuts a connection down. Returns whether it was not idle. */
static bool cut(struct links *s, struct link *l)
{
	l->cut = true;
	s->n--;
	shutdown(l->fd, SHUT_RDWR);
	return l->state != LINK_IDLE;
}

static bool is_older(const struct link *l, const struct link *than)
{
	return !than || l->since_ns < than->since_ns;
}

/* Finds the connection to close for a newcomer of `net`; NULL: there is room. */
static struct link *find_victim(const struct links *s, const struct link_net *net)
{
	struct link *oldest = NULL, *own = NULL;
	int of_net = 0;
	for (struct link *l = s->first; l; l = l->next) {
		if (l->cut)
			continue;
		bool is_own = !memcmp(&l->net, net, sizeof *net);
		of_net += is_own;
		if (l->state != LINK_WORK && is_older(l, oldest))
			oldest = l;
		if (l->state != LINK_WORK && is_own && is_older(l, own))
			own = l;
	}
	const bool full = s->n >= LINKS;
	if (own && ((s->limit_peers && of_net >= LINKS_PEER) || (full && of_net >= LINKS_SHARE)))
		return own;
	return full ? oldest : NULL;
}

int links_make_room(struct links *s, const struct sockaddr *peer)
{
	const struct link_net net = link_net(peer);
	bool busy = false;
	pthread_mutex_lock(&s->mutex);
	struct link *l = s->limit_peers || s->n >= LINKS ? find_victim(s, &net) : NULL;
	if (l)
		busy = cut(s, l);
	pthread_mutex_unlock(&s->mutex);
	return busy;
}

struct link *links_add(struct links *s, int fd, const struct sockaddr *peer)
{
	struct link *l = calloc(1, sizeof *l);
	if (!l) {
		shutdown(fd, SHUT_RDWR);
		return NULL;
	}
	pthread_mutex_lock(&s->mutex);
	*l = (struct link){.next = s->first,
			   .at = &s->first,
			   .net = link_net(peer),
			   .fd = fd,
			   .state = LINK_HEAD,
			   .since_ns = clock_now(s->clock)};
	if (s->first)
		s->first->at = &l->next;
	s->first = l;
	s->n++;
	pthread_mutex_unlock(&s->mutex);
	return l;
}

void links_remove(struct links *s, struct link *l)
{
	pthread_mutex_lock(&s->mutex);
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	s->n -= !l->cut;
	pthread_mutex_unlock(&s->mutex);
	free(l);
}

void links_state(struct links *s, struct link *l, enum link_state state)
{
	if (!l)
		return;
	pthread_mutex_lock(&s->mutex);
	if (l->state != LINK_HEAD || state != LINK_HEAD)
		l->since_ns = clock_now(s->clock);
	l->earned_ns = state == LINK_BODY ? l->earned_ns : 0;
	l->state = state;
	pthread_mutex_unlock(&s->mutex);
}

void links_came(struct links *s, struct link *l, size_t n)
{
	if (!l)
		return;
	pthread_mutex_lock(&s->mutex);
	l->earned_ns += (int64_t)n * (NS_PER_S / LINKS_RATE);
	pthread_mutex_unlock(&s->mutex);
}

int links_sweep(struct links *s)
{
	int64_t now_ns = clock_now(s->clock);
	int n = 0;
	pthread_mutex_lock(&s->mutex);
	for (struct link *l = s->first; l; l = l->next)
		if (!l->cut && now_ns - l->since_ns - l->earned_ns > limit_ns[l->state])
			n += cut(s, l);
	pthread_mutex_unlock(&s->mutex);
	return n;
}
