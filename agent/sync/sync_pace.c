/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_pace.h"

#include <math.h>

static int64_t between(int64_t least, int64_t x, int64_t most)
{
	return x < least ? least : x > most ? most : x;
}

/* Uniform in [0, span]. */
static int64_t draw(struct rng *r, int64_t span)
{
	return (int64_t)(rng_unit(r) * ((double)span + 1));
}

static int64_t after(int64_t now_ns, int64_t wait_ns)
{
	return now_ns > INT64_MAX - wait_ns ? INT64_MAX : now_ns + wait_ns;
}

/* The largest wait after so many failures in a row, >= 1. */
static int64_t back_off(int failures, int64_t every_ns)
{
	int64_t span = every_ns > PACE_BASE_NS ? every_ns : PACE_BASE_NS;
	int64_t most = 2 * span > PACE_MOST_NS ? 2 * span : PACE_MOST_NS;
	for (int i = 0; i < failures && span < most; i++)
		span *= 2;
	return span < most ? span : most;
}

/* In a series of waits, each uniform in [0, span], draws the time from a random moment to the end of the wait
 * that it falls into. */
static int64_t draw_rest(struct rng *r, int64_t span)
{
	return (int64_t)((1 - sqrt(1 - rng_unit(r))) * (double)span);
}

static int64_t draw_wait(const struct sync_pace *p, enum pace_end end, int64_t every_ns, struct rng *r)
{
	if (end == PACE_FAILED)
		return draw(r, back_off(p->failures, every_ns));
	return end == PACE_GOOD ? draw(r, 2 * every_ns) : draw_rest(r, 2 * every_ns);
}

void pace_next(struct sync_pace *p, enum pace_end end, int64_t now_ns, int64_t every_ns, int64_t retry_after_ns,
	       struct rng *r)
{
	int64_t every = between(0, every_ns, PACE_EVERY_MOST_NS);
	int64_t retry = between(0, retry_after_ns, PACE_RETRY_MOST_NS);
	if (end == PACE_GOOD)
		p->failures = 0;
	if (end == PACE_FAILED && p->failures < INT32_MAX)
		p->failures++;
	int64_t wait = draw_wait(p, end, every, r);
	int64_t least = retry ? retry + draw(r, retry / 2) : 0;
	p->next_ns = after(now_ns, wait > least ? wait : least);
}

static void turn(struct sync_pace *p, int64_t now_ns)
{
	int64_t today = now_ns / PACE_DAY_NS;
	if (today > p->day)
		p->bytes = 0;
	p->day = today;
}

int64_t pace_left(struct sync_pace *p, int64_t now_ns, int64_t day_bytes)
{
	turn(p, now_ns);
	if (day_bytes <= 0)
		return INT64_MAX;
	return p->bytes < day_bytes ? day_bytes - p->bytes : 0;
}

void pace_moved(struct sync_pace *p, int64_t now_ns, int64_t bytes)
{
	turn(p, now_ns);
	int64_t room = INT64_MAX - p->bytes;
	p->bytes += between(0, bytes, room);
}
