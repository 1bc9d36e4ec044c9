/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/wire_msg.h"
#include "platform/run/child.h"

#include <string.h>

/* Limit of times from the stream, because they are added up and scaled. */
#define MOST_NS (INT64_MAX / 4)

enum { HEAD_BYTES = 12, STEP_BYTES = 1 << 20 };

/* The buffer grows as bytes arrive, so that a length alone reserves no memory. */
static int receive_body(int fd, struct clock *clock, int64_t deadline_ns, size_t n, struct buf *body)
{
	static const char zeros[4096];
	while (body->n < n) {
		size_t at = body->n, step = n - at < STEP_BYTES ? n - at : STEP_BYTES;
		for (size_t k = 0; k < step; k += sizeof zeros)
			buf_add(body, zeros, step - k < sizeof zeros ? step - k : sizeof zeros);
		if (!buf_ok(body))
			return fail(E_NOMEM, "no memory for a message of %zu bytes", n);
		int rc = fd_read_full(fd, body->p + at, step, clock, deadline_ns);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int wire_receive(int fd, struct clock *clock, int64_t deadline_ns, uint32_t *type, struct buf *body)
{
	uint8_t head[HEAD_BYTES];
	buf_clear(body);
	int rc = fd_read_full(fd, head, sizeof head, clock, deadline_ns);
	if (rc < 0)
		return rc;
	struct cur c = {.p = head, .n = sizeof head};
	uint32_t magic = cur_u32(&c);
	*type = cur_u32(&c);
	uint32_t n = cur_u32(&c);
	if (magic != WIRE_MAGIC || n > WIRE_MAX_BYTES)
		return fail(E_CORRUPT, "the stream holds something that is not a message");
	return receive_body(fd, clock, deadline_ns, n, body);
}

int wire_send(int fd, struct clock *clock, int64_t deadline_ns, uint32_t type, const struct buf *body)
{
	struct buf message = {0};
	if (!buf_ok(body) || body->n > WIRE_MAX_BYTES)
		return fail(E_NOMEM, "a message of %zu bytes is too large", body->n);
	buf_u32(&message, WIRE_MAGIC);
	buf_u32(&message, type);
	buf_u32(&message, (uint32_t)body->n);
	buf_add(&message, buf_str(body), body->n);
	int rc = buf_ok(&message) ? fd_write_full(fd, message.p, message.n, clock, deadline_ns)
				  : fail(E_NOMEM, "no memory for a message of %zu bytes", body->n);
	buf_free(&message);
	return rc;
}

void wire_put_str(struct buf *b, const char *s)
{
	size_t n = strlen(s);
	buf_u32(b, (uint32_t)n);
	buf_add(b, s, n);
}

void wire_put_hello(struct buf *b, const struct wire_hello *h)
{
	struct buf target = {0};
	target_text(&h->target, &target);
	wire_put_str(b, h->device);
	wire_put_str(b, buf_str(&target));
	buf_u32(b, (uint32_t)h->threads);
	buf_u64(b, h->cpus);
	buf_u32(b, (uint32_t)h->nice);
	buf_u64(b, (uint64_t)h->memory_bytes);
	wire_put_str(b, h->libraries);
	b->failed |= target.failed;
	buf_free(&target);
}

const char *wire_get_str(struct cur *c, size_t most_bytes, struct arena *a)
{
	size_t n = cur_u32(c);
	const char *p = n <= most_bytes ? cur_bytes(c, n) : NULL;
	if (!p || memchr(p, 0, n)) {
		c->bad = true;
		return NULL;
	}
	return arena_strndup(a, p, n);
}

void wire_put_meas(struct buf *b, const struct meas *m)
{
	uint64_t err;
	memcpy(&err, &m->max_rel_err, sizeof err);
	buf_u32(b, (uint32_t)m->status);
	buf_u32(b, (uint32_t)m->runs);
	buf_u64(b, (uint64_t)m->min_ns);
	buf_u64(b, (uint64_t)m->median_ns);
	buf_u64(b, (uint64_t)m->spread_ns);
	buf_u64(b, (uint64_t)m->build_ns);
	buf_u64(b, (uint64_t)m->check_ns);
	buf_u64(b, err);
	buf_u32(b, (uint32_t)m->mhz_before);
	buf_u32(b, (uint32_t)m->mhz_after);
	buf_u32(b, (uint32_t)m->mc_before);
	buf_u32(b, (uint32_t)m->mc_after);
	buf_u32(b, (uint32_t)m->throttled);
	buf_u32(b, (uint32_t)m->threads);
}

void wire_get_meas(struct cur *c, struct meas *m)
{
	uint32_t status = cur_u32(c);
	*m = (struct meas){.runs = (int32_t)cur_u32(c)};
	m->min_ns = (int64_t)cur_u64(c);
	m->median_ns = (int64_t)cur_u64(c);
	m->spread_ns = (int64_t)cur_u64(c);
	m->build_ns = (int64_t)cur_u64(c);
	m->check_ns = (int64_t)cur_u64(c);
	uint64_t err = cur_u64(c);
	memcpy(&m->max_rel_err, &err, sizeof err);
	m->mhz_before = (int32_t)cur_u32(c);
	m->mhz_after = (int32_t)cur_u32(c);
	m->mc_before = (int32_t)cur_u32(c);
	m->mc_after = (int32_t)cur_u32(c);
	m->throttled = cur_u32(c) != 0;
	m->threads = (int32_t)cur_u32(c);
	const int64_t ns[] = {m->min_ns, m->median_ns, m->spread_ns, m->build_ns, m->check_ns};
	for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
		c->bad |= ns[i] < 0 || ns[i] > MOST_NS;
	if (status >= MEAS_STATUSES || m->runs < 0)
		c->bad = true;
	else
		m->status = (enum meas_status)status;
}

int64_t wire_left(struct clock *clock, int64_t deadline_ns)
{
	int64_t left = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - clock_now(clock);
	return left < 0 ? 0 : left;
}

int64_t wire_deadline(struct clock *clock, int64_t left_ns)
{
	int64_t now = clock_now(clock);
	return left_ns < 0 ? now : left_ns > INT64_MAX - now ? INT64_MAX : now + left_ns;
}
