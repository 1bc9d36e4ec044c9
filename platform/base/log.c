/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/log.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/wrap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	UNKNOWN_COLUMNS = 80, /* of a terminal that does not say its width */
	LEAST_COLUMNS = 20    /* narrower lines would hold a word each */
};

static atomic_int level = LOG_NORMAL; /* any thread may set and read it */
static atomic_bool journal;
static _Atomic(const char *) program = "hone";
static int own_fd = STDERR_FILENO; /* where stderr leads */
static bool live_shown;      /* a live line is on the terminal: erase it before other output */
static int64_t live_last_ns; /* off a terminal: when the last line was written */

void log_level_set(enum log_level l)
{
	atomic_store_explicit(&level, (int)l, memory_order_relaxed);
}

void log_move(FILE *to)
{
	stderr = to;
	own_fd = fileno(to);
}

void log_program_set(const char *name)
{
	atomic_store_explicit(&program, name, memory_order_relaxed);
}

void log_journal_set(bool on)
{
	atomic_store_explicit(&journal, on, memory_order_relaxed);
}

enum log_level log_level(void)
{
	return (enum log_level)atomic_load_explicit(&level, memory_order_relaxed);
}

static void erase_live(void)
{
	if (live_shown)
		fputs("\r\033[K", stderr);
	live_shown = false;
}

/* Length in bytes of the character at p if it is UTF-8 and no control character; else 0. */
static size_t plain_bytes(const unsigned char *p)
{
	if (*p < 0x80)
		return *p == '\n' || *p == '\t' || (*p >= ' ' && *p != 0x7f);
	size_t n = *p >= 0xc2 && *p < 0xe0   ? 2
		   : *p >= 0xe0 && *p < 0xf0 ? 3
		   : *p >= 0xf0 && *p < 0xf5 ? 4
					     : 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return *p == 0xc2 && p[1] < 0xa0 ? 0 : n; /* C1 */
}

void log_plain(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p;) {
		size_t n = plain_bytes(p);
		if (!n)
			*p = '?';
		p += n ? n : 1;
	}
}

void log_one_line(char *text)
{
	log_plain(text);
	for (char *p = strpbrk(text, "\n\t"); p; p = strpbrk(p, "\n\t"))
		*p = '?';
}

/* Appends a line in as many lines as the terminal needs. */
static void add_broken(const char *line, int columns, struct buf *out)
{
	int indent = (int)strspn(line, " "), room = columns - indent;
	buf_printf(out, "%*s", indent, "");
	for (line += indent; *line;) {
		size_t n = wrap_line(line, room > LEAST_COLUMNS ? room : LEAST_COLUMNS, false);
		buf_add(out, line, n);
		line += n;
		if (*line++)
			buf_printf(out, "\n%*s", indent, "");
		else
			break;
	}
}

/* Appends the message as the terminal shows it; off a terminal, as it is. Its newlines become NULs. */
static void lay_out(char *text, bool whole, struct buf *out)
{
	int columns = log_columns(own_fd, UNKNOWN_COLUMNS);
	if (whole || *text == '{' || !isatty(own_fd)) {
		buf_puts(out, text);
		return;
	}
	for (char *line = text, *end; line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = 0;
		add_broken(line, columns, out);
		buf_puts(out, end ? "\n" : "");
	}
}

/* Writes a message in one call, so that lines of processes that share a stream stay whole. Without memory it
 * writes the format alone. */
static void put(const char *before, const char *fmt, va_list ap, bool whole)
{
	char *text = NULL;
	struct buf all = {0}, out = {0};
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	if (text) {
		log_plain(text);
		buf_printf(&all, "%s%s", before, text);
	}
	if (all.n && buf_ok(&all))
		lay_out(all.p, whole, &out);
	if (out.n && buf_ok(&out))
		fprintf(stderr, "%s\n", buf_str(&out));
	else
		fprintf(stderr, "%s%s\n", before, text ? text : fmt);
	buf_free(&all);
	buf_free(&out);
	free(text);
}

enum priority { PRIORITY_ERROR = 3, PRIORITY_INFO = 6, PRIORITY_MORE = 7 }; /* as in syslog */

static void say(enum priority p, const char *before, const char *fmt, va_list ap, bool whole)
{
	char lead[64];
	int err = errno; /* asking for the terminal sets it, and callers still need theirs */
	bool told = atomic_load_explicit(&journal, memory_order_relaxed);
	if (told)
		snprintf(lead, sizeof lead, "<%d>%s", (int)p, before);
	else
		snprintf(lead, sizeof lead, "%s", before);
	flockfile(stderr);
	erase_live();
	put(lead, fmt, ap, whole || told);
	fflush(stderr);
	funlockfile(stderr);
	errno = err;
}

void log_info(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (level >= LOG_NORMAL)
		say(PRIORITY_INFO, "", fmt, ap, false);
	va_end(ap);
}

void log_notice(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	say(PRIORITY_INFO, "", fmt, ap, false);
	va_end(ap);
}

void log_whole(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (level >= LOG_NORMAL)
		say(PRIORITY_INFO, "", fmt, ap, true);
	va_end(ap);
}

void log_more(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (level >= LOG_VERBOSE)
		say(PRIORITY_MORE, "", fmt, ap, false);
	va_end(ap);
}

void log_error(const char *fmt, ...)
{
	char before[48];
	va_list ap;
	va_start(ap, fmt);
	snprintf(before, sizeof before, "%s: error: ", atomic_load_explicit(&program, memory_order_relaxed));
	say(PRIORITY_ERROR, before, fmt, ap, false);
	va_end(ap);
}

int log_columns(int fd, int otherwise)
{
	struct winsize w;
	if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col)
		return w.ws_col;
	const char *s = getenv("COLUMNS");
	int n = s ? atoi(s) : 0;
	return n > 0 && n < 10000 ? n : otherwise;
}

int log_width(const char *text)
{
	int n = 0;
	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

void log_cut(char *text, int columns)
{
	for (int n = 0; *text; text++)
		if ((*text & 0xc0) != 0x80 && n++ == columns)
			*text-- = 0;
}

bool log_is_terminal(int fd)
{
	const char *term = getenv("TERM");
	return isatty(fd) && !(term && !strcmp(term, "dumb"));
}

/* The last column stays free: some terminals begin a new line when it is written. */
static void put_live(const char *fmt, va_list ap)
{
	static const char dots[] = "...";
	char *text;
	int room = log_columns(own_fd, UNKNOWN_COLUMNS) - 1;
	if (vasprintf(&text, fmt, ap) < 0)
		return;
	log_one_line(text);
	bool fits = log_width(text) <= room;
	log_cut(text, fits ? room : room - (int)sizeof dots + 1);
	fprintf(stderr, "%s%s", text, fits ? "" : dots);
	free(text);
}

static void live_on_terminal(const char *fmt, va_list ap)
{
	flockfile(stderr);
	erase_live();
	if (fmt) {
		put_live(fmt, ap);
		live_shown = true;
	}
	fflush(stderr);
	funlockfile(stderr);
}

void log_live(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (level >= LOG_NORMAL && log_is_terminal(own_fd)) {
		live_on_terminal(fmt, ap);
	} else if (level >= LOG_VERBOSE && fmt) {
		int64_t now = clock_now(&clock_real);
		if (!live_last_ns || now - live_last_ns >= NS_PER_S) {
			live_last_ns = now;
			say(PRIORITY_MORE, "", fmt, ap, false);
		}
	}
	va_end(ap);
}

bool log_to_journal(void)
{
	const char *s = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;
	return s && sscanf(s, "%llu:%llu", &dev, &ino) == 2 && fstat(own_fd, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}
