/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/client.h"
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AGAIN_NS (20 * NS_PER_MS) /* between tries while the daemon's queue of connections is full */

struct client {
	int fd;
	int64_t last_id;
	size_t n, read; /* bytes in `in`; of these, the last line's with its \n */
	char in[CONTROL_SAID + 1];
};

/* Waits until fd can be read or written. */
static int wait_for(int fd, short what, int64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = what};
	int64_t left_ns = deadline_ns == INT64_MAX ? 0 : deadline_ns - clock_now(&clock_real);
	if (left_ns < 0)
		left_ns = 0;
	struct timespec t = {left_ns / NS_PER_S, left_ns % NS_PER_S};
	int n = ppoll(&p, 1, deadline_ns == INT64_MAX ? NULL : &t, NULL);
	if (n < 0 && errno == EINTR)
		return fail(E_STOPPED, "stopped by a signal");
	if (n < 0)
		return fail(E_IO, "poll: %s", strerror(errno));
	return n ? 0 : fail(E_TIMEOUT, "honed does not answer in time; see " HONED_SAYS);
}

static int connect_to(int fd, const struct sockaddr_un *at, int64_t deadline_ns)
{
	while (connect(fd, (const struct sockaddr *)at, sizeof *at) < 0) {
		int e = errno;
		if (e == ENOENT || e == ECONNREFUSED || e == ENOTDIR)
			return fail(E_NOTFOUND, "no honed listens on %s; start it with " HONED_START,
				    at->sun_path);
		if (e == EACCES || e == EPERM)
			return fail(E_IO, "%s: %s; be root, or join the group that owns it", at->sun_path,
				    strerror(e));
		if (e != EAGAIN && e != EINTR)
			return fail(E_IO, "%s: %s", at->sun_path, strerror(e));
		if (clock_now(&clock_real) >= deadline_ns)
			return fail(E_TIMEOUT, "%s: honed has no free connection; try again later",
				    at->sun_path);
		clock_real.sleep(&clock_real, AGAIN_NS);
	}
	return 0;
}

static int send_all(int fd, const char *p, size_t n, int64_t deadline_ns)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k > 0) {
			p += k;
			n -= (size_t)k;
			continue;
		}
		if (k < 0 && errno != EAGAIN && errno != EINTR)
			return fail(E_IO, "honed closed the connection (%s); try again", strerror(errno));
		int rc = wait_for(fd, POLLOUT, deadline_ns);
		if (rc < 0 && rc != E_STOPPED) /* half a request is useless */
			return rc;
	}
	return 0;
}

static int receive(struct client *c, int64_t deadline_ns)
{
	if (c->n == CONTROL_SAID)
		return fail(E_CORRUPT,
			    "the answer has a line of more than %d bytes, so this is not honed; check the "
			    "path of the socket",
			    CONTROL_SAID);
	for (;;) {
		ssize_t k = recv(c->fd, c->in + c->n, CONTROL_SAID - c->n, 0);
		if (k > 0) {
			c->n += (size_t)k;
			return 0;
		}
		if (k == 0 || (errno != EAGAIN && errno != EINTR))
			return fail(E_IO, "honed closed the connection; try again");
		int rc = wait_for(c->fd, POLLIN, deadline_ns);
		if (rc < 0)
			return rc;
	}
}

/* Reads the next line, without its \n. */
static int next_line(struct client *c, int64_t deadline_ns, char **line)
{
	memmove(c->in, c->in + c->read, c->n -= c->read);
	c->read = 0;
	char *end;
	size_t seen = 0;
	while (!(end = memchr(c->in + seen, '\n', c->n - seen))) {
		seen = c->n;
		int rc = receive(c, deadline_ns);
		if (rc < 0)
			return rc;
	}
	*end = 0;
	c->read = (size_t)(end - c->in) + 1;
	*line = c->in;
	/* A peer that sends without end must not exceed the deadline either. */
	return clock_now(&clock_real) > deadline_ns
		   ? fail(E_TIMEOUT, "honed sent no complete answer in time; see " HONED_SAYS)
		   : 0;
}

/* Classifies a line: 1 the reply to id, 0 an event, 2 neither; refused: honed's error. */
static int what_is(const char *line, int64_t id)
{
	json_error_t e;
	json_t *j = json_loads(line, JSON_DECODE_ANY, &e);
	if (!json_is_object(j)) {
		json_decref(j);
		return fail(E_CORRUPT,
			    "the answer is not a JSON object (%s), so this is not honed; check the path of "
			    "the socket",
			    e.text);
	}
	const json_t *got = json_object_get(j, "id");
	const char *code = json_string_value(json_object_get(j, "code"));
	const char *text = json_string_value(json_object_get(j, "error"));
	bool ours =
	    json_is_integer(got) ? json_integer_value(got) == id : !got; /* honed could not read the id */
	int rc = json_object_get(j, "event") ? 0 : ours ? 1 : 2;
	if (rc == 1 && !json_is_true(json_object_get(j, "ok")))
		rc = fail(control_code(code), "%s", text ? text : "honed refused and gave no reason");
	json_decref(j);
	return rc;
}

int client_ask(struct client *c, const struct request *r, int64_t deadline_ns, const char **reply)
{
	struct request numbered = *r;
	struct buf b = {0};
	char *line;
	numbered.has_id = true;
	numbered.id = ++c->last_id;
	control_print(&numbered, &b);
	int rc = buf_ok(&b) ? send_all(c->fd, buf_str(&b), b.n, deadline_ns) : fail(E_NOMEM, "no memory");
	buf_free(&b);
	while (rc >= 0 && (rc = next_line(c, deadline_ns, &line)) >= 0)
		if ((rc = what_is(line, numbered.id)) == 1)
			break;
	if (rc >= 0)
		*reply = line;
	return rc < 0 ? rc : 0;
}

int client_next(struct client *c, int64_t deadline_ns, const char **event)
{
	char *line = NULL;
	int rc;
	while ((rc = next_line(c, deadline_ns, &line)) >= 0)
		if ((rc = what_is(line, -1)) <= 0)
			break;
	*event = line;
	return rc;
}

static int hello(struct client *c, int64_t deadline_ns)
{
	const struct request r = {.op = OP_HELLO, .version = CONTROL_VERSION};
	const char *reply;
	int rc = client_ask(c, &r, deadline_ns, &reply);
	if (rc < 0)
		return rc;
	json_t *j = json_loads(reply, 0, NULL);
	json_int_t version = json_integer_value(json_object_get(j, "version"));
	json_decref(j);
	if (version != CONTROL_VERSION)
		return fail(
		    E_UNSUPPORTED,
		    "it uses version %lld of the control protocol, and this hone uses version %d; "
		    "install both from one package, then systemctl restart honed (without systemd: end honed "
		    "and start it again)",
		    (long long)version, CONTROL_VERSION);
	return 0;
}

const char *client_socket(const char *socket)
{
	const char *path = socket ? socket : getenv("HONE_SOCKET");
	return path && *path ? path : CONTROL_SOCKET;
}

int client_open(const char *socket_path, int64_t deadline_ns, struct client **out)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const char *path = client_socket(socket_path);
	if (strlen(path) >= sizeof at.sun_path)
		return fail(E_USAGE, "socket %s: the path is longer than the %zu bytes allowed", path,
			    sizeof at.sun_path - 1);
	strcpy(at.sun_path, path);
	struct client *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory for a client");
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = c->fd < 0 ? fail(E_IO, "socket: %s", strerror(errno)) : connect_to(c->fd, &at, deadline_ns);
	if (rc >= 0)
		rc = fail_in(hello(c, deadline_ns), "honed on %s", path);
	if (rc < 0) {
		client_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}
