/* SPDX-License-Identifier: Apache-2.0 */
/* Runs hone on a pseudo terminal of a given width, and looks at what its screen would show. */
#ifndef TESTS_CLI_TERMINAL_H
#define TESTS_CLI_TERMINAL_H

#include "platform/base/log.h"
#include "tests/lib/cli.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

enum { ON_OUT = 1, ON_ERR = 2 };

static int end_after_ms;         /* the next commands get SIGINT then; 0: never */
static char cli_screen[1 << 20]; /* all bytes that the terminal got in the last run */

static inline void end_later(void)
{
	timer_t t;
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGINT};
	struct itimerspec in = {.it_value = {end_after_ms / 1000, end_after_ms % 1000 * 1000000}};
	if (end_after_ms && (timer_create(CLOCK_MONOTONIC, &e, &t) < 0 || timer_settime(t, 0, &in, NULL) < 0))
		_exit(121);
}

static int terminal_rows = 24;
static const char *terminal_kind = "xterm";
static int press_after_ms; /* > 0: then Ctrl-C is pressed on the terminal, which nobody has read so far */

/* The terminal is the one of the child, so that its Ctrl-C reaches the child. */
static inline void own_terminal(int slave)
{
	if (press_after_ms && (setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) < 0))
		_exit(122);
}

static inline void press_ctrl_c(int fd)
{
	usleep((useconds_t)press_after_ms * 1000);
	if (press_after_ms && write(fd, "\003", 1) != 1)
		abort();
}

static inline int terminal_open(int columns, char name[64])
{
	setenv("TERM", terminal_kind, 1);
	struct winsize w = {.ws_row = (unsigned short)terminal_rows, .ws_col = (unsigned short)columns};
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || grantpt(fd) < 0 || unlockpt(fd) < 0 || ptsname_r(fd, name, 64) ||
	    ioctl(fd, TIOCSWINSZ, &w) < 0)
		abort();
	return fd;
}

/* Reads what the terminal has after byte n of the screen, or gets within 20 ms. Returns the bytes in all. */
static inline size_t screen_read(int fd, size_t n)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t got = poll(&p, 1, 20) > 0 ? read(fd, cli_screen + n, sizeof cli_screen - 1 - n) : 0;
	return got > 0 ? n + (size_t)got : n;
}

/* Fills the screen with all that the child writes to the terminal, whose two ends it closes. The slave stays
 * open until the child has ended: a read that meets the closing of the last slave can fail and leave text
 * unread. Returns the child's status as waitpid has it. */
static inline int screen_of(pid_t pid, int master, int slave)
{
	int status = 0;
	size_t n = 0, before = 0;
	while (waitpid(pid, &status, WNOHANG) == 0)
		n = screen_read(master, n);
	do {
		before = n;
		n = screen_read(master, n);
	} while (n > before);
	cli_screen[n] = 0;
	close(slave);
	close(master);
	return status;
}

/* Runs hone with words, split at blanks; `which` of its streams are the terminal, the others files. Returns
 * its exit status. columns 0: the terminal does not know its width. */
__attribute__((format(printf, 3, 4))) static int hone_on_terminal(int columns, int which, const char *format,
								  ...)
{
	char words[1200], name[64], *argv[32] = {"hone"};
	int argc = 1, status;
	va_list ap;
	va_start(ap, format);
	vsnprintf(words, sizeof words, format, ap);
	va_end(ap);
	for (char *w = strtok(words, " "); w && argc < 31; w = strtok(NULL, " "))
		argv[argc++] = w;
	int fd = terminal_open(columns, name), slave = open(name, O_RDWR | O_NOCTTY);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("HONE_SOCKET", "/dev/null/honed.sock", 0);
		setenv("HONE_RUN", "/dev/null", 0);
		own_terminal(slave);
		redirect(1, in_dir("stdout"));
		redirect(2, in_dir("stderr"));
		for (int i = 1; i <= 2; i++)
			if (which & i && dup2(slave, i) < 0)
				_exit(120);
		end_later();
		_exit(hone_main(argc, argv));
	}
	press_ctrl_c(fd);
	status = screen_of(pid, fd, slave);
	slurp(in_dir("stdout"), cli_out, sizeof cli_out);
	slurp(in_dir("stderr"), cli_err, sizeof cli_err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void screen_strip(void) /* removes escape sequences */
{
	char *to = cli_screen;
	for (const char *p = cli_screen; *p;)
		if (*p == '\033' && p[1] == '[') {
			p += 2 + strcspn(p + 2, "ABCDEFGHJKmhlsu");
			p += *p != 0;
		} else {
			*to++ = *p++;
		}
	*to = 0;
}

/* The widest line that the terminal got, in columns, once it is stripped. */
static inline int screen_widest(char line[4096])
{
	int most = 0;
	screen_strip();
	for (const char *p = cli_screen; *p; p += strspn(p, "\r\n")) {
		char now[4096];
		size_t n = strcspn(p, "\r\n");
		snprintf(now, sizeof now, "%.*s", (int)n, p);
		p += n;
		if (log_width(now) <= most)
			continue;
		most = log_width(now);
		memcpy(line, now, strlen(now) + 1);
	}
	return most;
}

#define CHECK_FITS(columns)                                                                                  \
	do {                                                                                                 \
		char line_[4096] = "";                                                                       \
		int wide_ = screen_widest(line_);                                                            \
		if (wide_ > (columns)) {                                                                     \
			printf("%s:%d: %d columns of %d: %s\n", __FILE__, __LINE__, wide_, columns, line_);  \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)

#endif
