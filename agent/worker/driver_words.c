/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/driver_words.h"

#include "platform/base/log.h"
#include "platform/base/sanitized.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN = 4096, MOST = 1 << 20 /* bytes */ };

static struct {
	int fd;    /* of the words; 0: they are not kept */
	int shown; /* the former standard error */
} words;

void driver_words_crashed(int sig)
{
	driver_words_show();
	raise(sig); /* SA_RESETHAND: the process ends as if there had been no handler */
}

static void handle_crashes(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	const struct sigaction act = {.sa_handler = driver_words_crashed, .sa_flags = SA_RESETHAND};
	struct sigaction old;
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(fatal[i], &act, NULL);
}

/* A sanitizer writes its report to descriptor 2. */
void driver_words_keep(void)
{
	if (log_level() == LOG_VERBOSE || words.fd || SANITIZED)
		return;
	int shown = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int fd = memfd_create("driver-words", MFD_CLOEXEC);
	FILE *own = shown < 0 || fd < 0 ? NULL : fdopen(shown, "w");
	if (!own || fcntl(fd, F_SETFL, O_APPEND) < 0 || dup2(fd, STDERR_FILENO) < 0) {
		if (own)
			fclose(own);
		else if (shown >= 0)
			close(shown);
		if (fd >= 0)
			close(fd);
		return;
	}
	setvbuf(own, NULL, _IONBF, 0);
	log_move(own);
	words.fd = fd;
	words.shown = shown;
	handle_crashes();
}

void driver_words_forget(void)
{
	struct stat st;
	if (words.fd && fstat(words.fd, &st) == 0 && st.st_size > MOST)
		(void)!ftruncate(words.fd, 0);
}

void driver_words_show(void)
{
	char text[SHOWN];
	struct stat st;
	if (!words.fd || fstat(words.fd, &st) < 0)
		return;
	off_t from = st.st_size > SHOWN ? st.st_size - SHOWN : 0;
	ssize_t n = pread(words.fd, text, sizeof text, from);
	if (n > 0)
		(void)!write(words.shown, text, (size_t)n);
	(void)!ftruncate(words.fd, 0);
}
