/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/until.h"

#include <stddef.h>

static _Thread_local struct until *limit;

struct until *until_set(struct until *u)
{
	struct until *before = limit;
	limit = u;
	return before;
}

static bool stopped(const struct until *u)
{
	return u->stop && *u->stop;
}

bool until_over(void)
{
	return limit && (stopped(limit) || clock_now(limit->clock) >= limit->end_ns);
}

void until_read(int64_t bytes)
{
	if (limit)
		atomic_fetch_add_explicit(&limit->read_bytes, bytes, memory_order_relaxed);
}

int until_stopped(int64_t grace_ns)
{
	if (!limit || !stopped(limit))
		return E_OK;
	int64_t now_ns = clock_now(limit->clock);
	if (!limit->stopped_ns)
		limit->stopped_ns = now_ns;
	return now_ns - limit->stopped_ns < grace_ns ? E_OK : fail(E_STOPPED, "stopped by a signal");
}

int until_check(void)
{
	if (!until_over())
		return E_OK;
	return stopped(limit) ? fail(E_STOPPED, "stopped by a signal") : fail(E_TIMEOUT, "the time is over");
}
