/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the first of a worker's stream: the result is an error, or a HELLO that stays the same
 * when it is sent again. */
#include "agent/worker/wire_msg.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int take(const void *p, size_t n, struct wire_hello *h)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0 || send(fd[0], p, n, 0) != (ssize_t)n)
		abort();
	close(fd[0]);
	int rc = wire_take_hello(fd[1], h);
	close(fd[1]);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct wire_hello h, again;
	struct buf body = {0}, message = {0};
	if (n <= 1 << 16 && take(p, n, &h) >= 0) {
		wire_put_hello(&body, &h);
		buf_u32(&message, WIRE_MAGIC);
		buf_u32(&message, WIRE_HELLO);
		buf_u32(&message, (uint32_t)body.n);
		buf_add(&message, body.p, body.n);
		if (take(message.p, message.n, &again) < 0 || again.threads != h.threads ||
		    again.cpus != h.cpus || again.nice != h.nice || strcmp(again.device, h.device) != 0)
			abort();
	}
	buf_free(&message);
	buf_free(&body);
	return 0;
}
