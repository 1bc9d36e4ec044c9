/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: the peer's identity, lines and payloads, and the limits: incomplete lines, payloads that are
 * arriving, replies that wait to be read, and the work done for one connection before the others get a
 * turn. */
#include "agent/honed/honed_loop.h"
#include "agent/cache/share_kept.h"
#include "platform/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CHUNK_BYTES = 16 << 10,
	TURN_LINES = 32,         /* lines of one connection before others are served */
	LINES_BYTES = 1 << 20,   /* bytes of all incomplete lines */
	COMING_BYTES = 32 << 20, /* bytes of arriving payloads: two of the largest */
	SEND_BYTES = 32 << 10,   /* bytes that the kernel buffers for a client that does not read */
	UNREAD_BYTES = 4 << 10,  /* with more unread bytes the connection is not read */
	UNREAD_ALL = 8 << 20,    /* unread bytes of all clients; over that a client that has some is closed */
	ACCEPTS = 64,
	LAST_READS = 16, /* of a connection whose client has ended */
};

/* Why a connection is not read. PAUSE_UNREAD: it asks faster than it reads. */
enum pause { PAUSE_NOT, PAUSE_TURN, PAUSE_UNREAD, PAUSE_STORE, PAUSE_COMING };

struct loop_conn {
	uv_pipe_t pipe;
	struct loop *l;
	int id;
	struct peer peer;
	bool is_job, is_child, closing; /* is_job: may put, because it is a job's or syncs */
	bool last;                      /* its client has ended: nothing pauses what is left to read */
	enum pause pause;
	int lines;             /* taken in this turn */
	struct buf line, held; /* incomplete line; bytes that were not looked at yet */
	bool too_long;
	size_t skip;
	struct request *put; /* the put whose payload is arriving */
	bool admitted;       /* its bytes are counted in coming_bytes */
	struct buf payload;
};

static char chunk[CHUNK_BYTES];

static struct loop_conn *find(const struct loop *l, int client)
{
	return client >= 0 && client < l->room ? l->conn[client] : NULL;
}

static void free_line(struct loop_conn *c)
{
	c->l->lines_bytes -= c->line.n;
	buf_free(&c->line);
}

static void end_put(struct loop_conn *c)
{
	if (!c->put)
		return;
	c->l->coming_bytes -= c->admitted ? (size_t)c->put->bytes : 0;
	c->admitted = false;
	free(c->put);
	c->put = NULL;
	buf_free(&c->payload);
}

static void on_turn(uv_idle_t *i)
{
	loop_resume(i->data);
}

static void set_pause(struct loop_conn *c, enum pause why)
{
	why = c->last ? PAUSE_NOT : why;
	c->l->paused += (why != PAUSE_NOT) - (c->pause != PAUSE_NOT);
	c->pause = why;
	if (why == PAUSE_TURN)
		uv_idle_start(&c->l->turn, on_turn);
}

void loop_gone(struct loop *l, int client)
{
	struct loop_conn *c = find(l, client);
	if (!c)
		return;
	l->conn[client] = NULL;
	l->nconns--;
	free_line(c);
	end_put(c);
	buf_free(&c->held);
	free(c);
	loop_tell(l, &(struct honed_event){.kind = HE_GONE, .client = client});
}

static void on_closed(uv_handle_t *h)
{
	struct loop_conn *c = h->data;
	struct loop *l = c->l;
	if (!c->is_child || !loop_job_eof(l, c->id))
		loop_gone(l, c->id);
	if (l->paused)
		loop_resume(l);
}

static void hang_up(struct loop_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	set_pause(c, PAUSE_NOT);
	end_put(c);
	uv_close((uv_handle_t *)&c->pipe, on_closed);
}

void loop_hang_up(struct loop *l, int client)
{
	struct loop_conn *c = find(l, client);
	if (c)
		hang_up(c);
}

struct sending {
	uv_write_t w;
	struct loop_conn *c;
	size_t n;
	char bytes[];
};

static size_t unread(const struct loop_conn *c)
{
	return uv_stream_get_write_queue_size((const uv_stream_t *)&c->pipe);
}

static void go_on(struct loop_conn *c);

static void on_written(uv_write_t *w, int status)
{
	struct sending *s = (struct sending *)w;
	struct loop_conn *c = s->c;
	(void)status; /* reading reports the end of the connection */
	c->l->unread_bytes -= s->n;
	free(s);
	if (!c->closing && c->pause == PAUSE_UNREAD && unread(c) == 0)
		go_on(c);
}

/* Queues what the kernel does not take at once. */
static void send_rest(struct loop_conn *c, const char *p, size_t n)
{
	struct sending *s = malloc(sizeof *s + n);
	if (!s) {
		hang_up(c);
		return;
	}
	memcpy(s->bytes, p, n);
	s->c = c;
	s->n = n;
	uv_buf_t b = uv_buf_init(s->bytes, (unsigned)n);
	if (uv_write(&s->w, (uv_stream_t *)&c->pipe, &b, 1, on_written) < 0) {
		free(s);
		hang_up(c);
		return;
	}
	c->l->unread_bytes += n;
}

void loop_send(struct loop *l, int client, const char *text)
{
	struct loop_conn *c = find(l, client);
	if (!c || c->closing)
		return;
	size_t n = strlen(text), waits = unread(c);
	if (waits + n > HONED_QUEUE_BYTES || (waits && l->unread_bytes + n > UNREAD_ALL)) {
		log_more(
		    "honed: closed the connection of client %d (process %d), which does not read its replies",
		    client, (int)c->peer.pid);
		hang_up(c);
		return;
	}
	uv_buf_t b = uv_buf_init((char *)(uintptr_t)text, (unsigned)n);
	int sent = waits ? 0 : uv_try_write((uv_stream_t *)&c->pipe, &b, 1);
	if (sent == UV_EPIPE || sent == UV_ECONNRESET)
		return; /* what it sent before it ended is still to be read */
	if (sent < 0 && sent != UV_EAGAIN)
		hang_up(c);
	else if ((sent > 0 ? (size_t)sent : 0) < n)
		send_rest(c, text + (sent > 0 ? sent : 0), n - (sent > 0 ? (size_t)sent : 0));
}

static void broken(struct loop_conn *c, const struct request *r, int rc)
{
	char text[512];
	snprintf(text, sizeof text, "%s", err_text());
	loop_tell(c->l, &(struct honed_event){
			    .kind = HE_BROKEN, .client = c->id, .request = r, .rc = rc, .text = text});
}

static void tell_request(struct loop_conn *c, const struct request *r, struct blob payload)
{
	c->is_job |=
	    (r->op == OP_JOB && c->peer.owner) || (r->op == OP_SYNC && (c->peer.owner || c->peer.brings));
	loop_tell(c->l, &(struct honed_event){
			    .kind = HE_REQUEST, .client = c->id, .request = r, .payload = payload});
}

/* Refuses a put and skips its payload. */
static void refuse_put(struct loop_conn *c, const struct request *r, int rc)
{
	c->skip = (size_t)r->bytes;
	broken(c, r, rc);
}

/* Reserves room for the whole payload, so that every put that has begun can end. */
static bool admit(struct loop_conn *c)
{
	size_t *coming = &c->l->coming_bytes, n = (size_t)c->put->bytes;
	c->admitted = *coming == 0 || *coming + n <= COMING_BYTES || c->last;
	*coming += c->admitted ? n : 0;
	return c->admitted;
}

static void start_put(struct loop_conn *c, const struct request *r)
{
	if (!c->is_job) {
		refuse_put(c, r,
			   fail(E_USAGE, "only jobs and hone-sync may put: send \"job\" or \"sync\" first"));
		return;
	}
	c->put = malloc(sizeof *c->put);
	if (!c->put) {
		refuse_put(c, r, fail(E_NOMEM, "no memory for a put"));
		return;
	}
	*c->put = *r;
	if (!admit(c))
		set_pause(c, PAUSE_COMING);
}

static void take_line(struct loop_conn *c, const char *line, size_t n)
{
	struct request r;
	int rc = control_parse(line, n, &r);
	c->lines++;
	if (rc < 0)
		broken(c, &r, rc);
	else if (r.op == OP_PUT)
		start_put(c, &r);
	else
		tell_request(c, &r, (struct blob){0});
}

/* Takes bytes up to the end of a line. Returns how many. */
static size_t take_text(struct loop_conn *c, const char *p, size_t n)
{
	const char *nl = memchr(p, '\n', n);
	size_t k = nl ? (size_t)(nl - p) : n, all = c->line.n + k;
	if (!c->too_long && all > CONTROL_LINE) {
		struct request none = {0};
		c->too_long = true;
		free_line(c);
		broken(c, &none, fail(E_CORRUPT, "a line of more than %d bytes", CONTROL_LINE));
	} else if (!c->too_long && nl && !c->line.n) {
		take_line(c, p, k);
	} else if (!c->too_long) {
		buf_add(&c->line, p, k);
		c->l->lines_bytes += buf_ok(&c->line) ? k : 0;
		if (!buf_ok(&c->line) || c->l->lines_bytes > LINES_BYTES) {
			hang_up(c);
			return n;
		}
		if (nl) {
			struct buf line = c->line;
			c->line = (struct buf){0};
			c->l->lines_bytes -= line.n;
			take_line(c, line.p, line.n);
			buf_free(&line);
		}
	}
	c->too_long &= !nl;
	return k + (nl != NULL);
}

static size_t take_payload(struct loop_conn *c, const char *p, size_t n)
{
	size_t want = (size_t)c->put->bytes - c->payload.n, k = n < want ? n : want;
	buf_add(&c->payload, p, k);
	if (!buf_ok(&c->payload)) {
		hang_up(c);
		return n;
	}
	return k;
}

static void end_of_payload(struct loop_conn *c)
{
	struct request r = *c->put;
	struct buf payload = c->payload;
	c->payload = (struct buf){0};
	end_put(c);
	tell_request(c, &r, (struct blob){payload.p, payload.n});
	buf_free(&payload);
	if (store_bytes(c->l->store) > STORE_BYTES && !c->closing)
		set_pause(c, PAUSE_STORE);
}

/* Takes as much as is allowed now and holds the rest. */
static void take(struct loop_conn *c, const char *p, size_t n)
{
	size_t at = 0;
	while (!c->closing && !c->pause && (at < n || (c->put && c->payload.n == (size_t)c->put->bytes))) {
		size_t left = n - at;
		if (c->put && c->payload.n == (size_t)c->put->bytes) {
			end_of_payload(c);
		} else if (c->put) {
			at += take_payload(c, p + at, left);
		} else if (c->skip) {
			size_t k = left < c->skip ? left : c->skip;
			c->skip -= k;
			at += k;
		} else {
			at += take_text(c, p + at, left);
		}
		if (!c->closing && !c->pause && unread(c) > UNREAD_BYTES)
			set_pause(c, PAUSE_UNREAD);
		if (!c->closing && !c->pause && c->lines >= TURN_LINES)
			set_pause(c, PAUSE_TURN);
	}
	if (!c->closing && at < n)
		buf_add(&c->held, p + at, n - at);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *b)
{
	(void)h, (void)size;
	*b = uv_buf_init(chunk, sizeof chunk);
}

/* Takes what a client sent before it ended: a job's result. A client that ends without having read all that
 * it was sent resets its connection, and libuv reads no more after that error. */
static void take_last(struct loop_conn *c)
{
	uv_os_fd_t fd;
	ssize_t n = 1;
	struct buf held = c->held;
	c->held = (struct buf){0};
	c->last = true;
	set_pause(c, PAUSE_NOT);
	if (c->put && !c->admitted)
		admit(c);
	take(c, buf_str(&held), held.n);
	buf_free(&held);
	for (int i = 0; i < LAST_READS && n > 0 && !c->closing; i++) {
		n = uv_fileno((const uv_handle_t *)&c->pipe, &fd) < 0
			? -1
			: recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
		if (n > 0)
			take(c, chunk, (size_t)n);
	}
}

void loop_take_last(struct loop *l, int client)
{
	struct loop_conn *c = find(l, client);
	if (c && !c->closing)
		take_last(c);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct loop_conn *c = s->data;
	if (n < 0) {
		if (n == UV_ECONNRESET)
			take_last(c);
		if (!c->closing)
			hang_up(c);
		return;
	}
	c->lines = 0;
	take(c, b->base, (size_t)n);
	if (c->closing || !c->pause)
		return;
	uv_read_stop(s);
	if (!buf_ok(&c->held))
		hang_up(c);
}

static bool may_go_on(struct loop_conn *c)
{
	const struct loop *l = c->l;
	switch (c->pause) {
	case PAUSE_NOT:
		return false;
	case PAUSE_TURN:
		return true;
	case PAUSE_UNREAD:
		return unread(c) == 0;
	case PAUSE_STORE:
		return store_bytes(l->store) <= STORE_BYTES;
	case PAUSE_COMING:
		return admit(c);
	}
	return false;
}

static void go_on(struct loop_conn *c)
{
	struct buf held = c->held;
	c->held = (struct buf){0};
	c->lines = 0;
	set_pause(c, PAUSE_NOT);
	take(c, buf_str(&held), held.n);
	buf_free(&held);
	if (c->closing)
		return;
	if (!buf_ok(&c->held) || (!c->pause && uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) < 0))
		hang_up(c);
}

void loop_resume(struct loop *l)
{
	bool turns = false;
	for (int i = 0; i < l->room && l->paused; i++)
		if (l->conn[i] && may_go_on(l->conn[i]))
			go_on(l->conn[i]);
	for (int i = 0; i < l->room && l->paused && !turns; i++)
		turns = l->conn[i] && l->conn[i]->pause == PAUSE_TURN;
	if (!turns)
		uv_idle_stop(&l->turn);
}

static int free_id(struct loop *l)
{
	for (int i = 0; i < l->room; i++)
		if (!l->conn[i])
			return i;
	int from = l->room, room = from ? 2 * from : 16;
	struct loop_conn **more = realloc(l->conn, (size_t)room * sizeof *more);
	if (!more)
		return fail(E_NOMEM, "no memory for a connection");
	memset(more + l->room, 0, (size_t)(room - l->room) * sizeof *more);
	l->conn = more;
	l->room = room;
	return from;
}

/* Takes ownership of the descriptor. Returns the number of the connection. */
static int add(struct loop *l, int fd, const struct peer *peer, bool child)
{
	int id = free_id(l);
	struct loop_conn *c = id < 0 ? NULL : calloc(1, sizeof *c);
	if (!c || uv_pipe_init(&l->uv, &c->pipe, 0) < 0 || uv_pipe_open(&c->pipe, fd) < 0) {
		close(fd);
		free(c);
		return fail(E_NOMEM, "no memory for a connection");
	}
	c->pipe.data = c;
	c->l = l;
	c->id = id;
	c->peer = *peer;
	c->is_job = c->is_child = child;
	l->conn[id] = c;
	l->nconns++;
	if (uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) < 0)
		hang_up(c);
	return id;
}

int loop_adopt(struct loop *l, int fd, pid_t pid)
{
	return add(l, fd, &(struct peer){.pid = pid, .uid = geteuid(), .owner = true}, true);
}

static bool in_group(int fd, const struct loop *l, gid_t primary)
{
	gid_t group[256];
	socklen_t n = sizeof group;
	if (!l->has_group)
		return false;
	if (primary == l->group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, group, &n) < 0)
		return false;
	for (size_t i = 0; i < n / sizeof *group; i++)
		if (group[i] == l->group)
			return true;
	return false;
}

/* hone-sync's state folder belongs to its user (agent/sync/sync.h); only root decides who owns it. */
static bool has_sync_state(const struct loop *l, uid_t uid)
{
	const char *path = SYNC_STATE;
	struct stat st;
	for (int i = 0; l->conf && i < l->conf->nsync; i++)
		if (!strcmp(l->conf->sync[i].key, "state"))
			path = l->conf->sync[i].value;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid;
}

static void welcome(struct loop *l, int fd)
{
	struct ucred u;
	socklen_t n = sizeof u;
	const int room = SEND_BYTES;
	if (l->nconns >= HONED_CLIENTS + 2 * HONED_JOBS ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) < 0) {
		close(fd);
		return;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	struct peer p = {
	    .pid = u.pid, .uid = u.uid, .owner = u.uid == 0 || u.uid == geteuid() || in_group(fd, l, u.gid)};
	p.brings = p.owner || has_sync_state(l, u.uid);
	int id = add(l, fd, &p, false);
	if (id < 0)
		log_error("%s", err_text());
	else
		loop_tell(l, &(struct honed_event){.kind = HE_CLIENT, .client = id, .peer = p});
}

static void on_connection(uv_poll_t *p, int status, int events);

/* When no descriptor is left, the spare one is used to accept the next client in line and close it. */
static bool turn_away(struct loop *l)
{
	if ((errno != EMFILE && errno != ENFILE) || l->spare_fd < 0)
		return false;
	close(l->spare_fd);
	int fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		close(fd);
	l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd >= 0;
}

/* Accepting stops for 100 ms: turning away every client that comes would keep us busy. */
static void pause_accepting(struct loop *l)
{
	static int64_t told_ns;
	int64_t now = loop_now();
	if (!told_ns || now - told_ns > 60 * NS_PER_S) {
		log_error("refuses new clients, because descriptors or memory have run out");
		told_ns = now;
	}
	uv_poll_stop(&l->accepts);
	l->accept_ns = now + 100 * NS_PER_MS;
	loop_arm(l);
}

void loop_accept_again(struct loop *l)
{
	l->accept_ns = INT64_MAX;
	uv_poll_start(&l->accepts, UV_READABLE, on_connection);
}

static void on_connection(uv_poll_t *p, int status, int events)
{
	struct loop *l = p->data;
	(void)status, (void)events;
	bool full = false;
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			welcome(l, fd);
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR && errno != ECONNABORTED) {
			full = true;
			if (!turn_away(l))
				break;
		}
	}
	if (full)
		pause_accepting(l);
}

int loop_listen(struct loop *l)
{
	if (l->listen_fd < 0)
		return E_OK;
	l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (listen(l->listen_fd, 511) < 0 || fcntl(l->listen_fd, F_SETFL, O_NONBLOCK) < 0)
		return fail(E_IO, "cannot listen on the control socket: %s", strerror(errno));
	if (uv_poll_init(&l->uv, &l->accepts, l->listen_fd) < 0)
		return fail(E_NOMEM, "no memory for the control socket");
	l->accepts.data = l;
	loop_accept_again(l);
	return E_OK;
}

void loop_clients_close(struct loop *l)
{
	for (int i = 0; i < l->room; i++)
		if (l->conn[i])
			hang_up(l->conn[i]);
}
