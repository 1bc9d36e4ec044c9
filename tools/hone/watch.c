/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/watch.h"
#include "tools/hone/daemon.h"
#include "agent/cache/json.h"
#include "platform/base/log.h"
#include "tools/hone/gains.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/status_view.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define AGAIN_NS (500 * NS_PER_MS) /* interval at which it looks for a honed that has gone */

struct watch {
	const char *cache;
	bool json, color, live;
	struct buf last; /* the last line printed */
	json_t *shown;   /* live: the status on the screen, with its gains; NULL: none */
};

/* The lines of the status that fit on the terminal beside the hint and the cursor's line; INT_MAX: it does
 * not say how many lines it has. */
static int room(void)
{
	struct winsize w;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0;
	return !known ? INT_MAX : w.ws_row > 4 ? w.ws_row - 2 : 2;
}

/* Prints the lines that fit; the most important ones come first. */
static void put_frame(const char *text)
{
	int lines = 0, most = room();
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	int shown = lines > most ? most - 1 : lines;
	const char *end = text;
	for (int i = 0; i < shown; i++)
		end = strchr(end, '\n') + 1;
	printf("%.*s", (int)(end - text), text);
	if (shown < lines)
		printf("and %d more lines: hone status\n", lines - shown);
}

/* The status is written to memory first, because the terminal decides how many of its lines are shown. */
static void draw(const struct watch *w, const json_t *status)
{
	char *text = NULL;
	size_t n = 0;
	FILE *screen = stdout, *frame = open_memstream(&text, &n);
	stdout = frame ? frame : screen;
	if (!frame)
		printf("\033[H\033[2J");
	status_view(status, w->color);
	stdout = screen;
	if (frame && fclose(frame) == 0) {
		printf("\033[H\033[2J");
		put_frame(text);
	}
	free(text);
	fflush(stdout);
	if (!interrupted())
		log_info("press Ctrl-C to end");
}

static void put_line(struct watch *w, struct buf *line)
{
	if (strcmp(buf_str(line), buf_str(&w->last))) {
		printf("%s\n", buf_str(line));
		buf_clear(&w->last);
		buf_puts(&w->last, buf_str(line));
	}
	buf_free(line);
}

static int show(struct watch *w, json_t *status)
{
	struct buf line = {0};
	int rc = 0;
	if (w->json) {
		json_object_del(status, "event");
		json_object_set_new(status, "daemon", json_true());
		rc = json_out(json_incref(status));
	} else if (w->live) {
		gains_add_of(status, w->cache);
		draw(w, status);
		json_decref(w->shown);
		w->shown = json_incref(status);
	} else {
		status_line(status, &line);
		put_line(w, &line);
	}
	fflush(stdout);
	return ferror(stdout) ? fail(E_IO, "standard output: %s", strerror(errno)) : rc;
}

/* Ends the process if the reader of standard output is gone, which only a write would tell. */
static void end_without_reader(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO};
	if (poll(&p, 1, 0) > 0 && p.revents & POLLERR)
		raise(SIGPIPE);
}

static int show_absent(struct watch *w)
{
	static const char text[] = "honed does not run; waiting for it";
	struct buf line = {0};
	int rc = 0;
	json_decref(w->shown);
	w->shown = NULL;
	buf_puts(&line, text);
	if (w->json && strcmp(buf_str(&w->last), text)) {
		rc = json_out(json_pack("{sb ss}", "daemon", 0, "verdict", text));
		buf_clear(&w->last);
		buf_puts(&w->last, text);
	}
	if (w->json)
		buf_free(&line);
	else
		put_line(w, &line);
	fflush(stdout);
	return rc;
}

static int follow(struct watch *w, struct client *c)
{
	const char *line;
	int rc = client_ask(c, &(struct request){.op = OP_WATCH}, daemon_deadline(DAEMON_NS), &line);
	while (rc >= 0 && !interrupted() && (rc = client_next(c, INT64_MAX, &line)) >= 0) {
		json_t *status = json_loads(line, 0, NULL);
		if (!strcmp(daemon_text(status, "event", ""), "status"))
			rc = show(w, status);
		json_decref(status);
	}
	return rc;
}

int watch(const char *socket, const char *cache, bool json, bool color)
{
	struct watch w = {.cache = cache, .json = json, .color = color, .live = !json && log_is_terminal(1)};
	int rc = 0;
	interrupt_catch();
	while (!interrupted() && rc >= 0) {
		struct client *c = NULL;
		rc = daemon_open(socket, &c);
		if (rc > 0)
			rc = follow(&w, c);
		client_close(c);
		if (!interrupted() && (rc == 0 || rc == E_IO || rc == E_TIMEOUT) && !ferror(stdout)) {
			rc = show_absent(&w);
			end_without_reader();
			clock_real.sleep(&clock_real, AGAIN_NS);
		}
	}
	if (interrupted() && w.shown) /* a terminal drops what it has not shown yet when Ctrl-C is pressed */
		draw(&w, w.shown);
	json_decref(w.shown);
	buf_free(&w.last);
	rc = interrupted() ? interrupt_status(E_OK) : rc;
	return rc == INTERRUPT_STATUS ? 0 : rc;
}
