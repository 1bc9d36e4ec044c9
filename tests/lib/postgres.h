/* SPDX-License-Identifier: Apache-2.0 */
/* A PostgreSQL for the tests of one process: $HONE_TEST_PG, else a private one that tests/sh/postgres.sh
 * starts and that ends with the process. */
#ifndef TESTS_POSTGRES_H
#define TESTS_POSTGRES_H

#include <postgresql/libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_POSTGRES "no PostgreSQL: apt-get install postgresql-15"

static char postgres_dir[64], postgres_text[160];
static pid_t postgres_pid, postgres_owner;

__attribute__((destructor)) static void postgres_stop(void)
{
	char cmd[96];
	if (postgres_owner != getpid())
		return;
	if (postgres_pid > 0) {
		kill(postgres_pid, SIGINT);
		waitpid(postgres_pid, NULL, 0);
	}
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", postgres_dir);
	if (system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", postgres_dir);
}

static inline int postgres_spawn(void)
{
	fflush(NULL);
	postgres_pid = fork();
	if (postgres_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execlp("sh", "sh", "tests/sh/postgres.sh", postgres_dir, "-c", "fsync=off", (char *)NULL);
		_exit(77);
	}
	return postgres_pid;
}

/* Returns whether it answers within a minute. */
static inline int postgres_ready(void)
{
	for (int i = 0; i < 1200; i++) {
		if (PQping(postgres_text) == PQPING_OK)
			return 1;
		if (waitpid(postgres_pid, NULL, WNOHANG) == postgres_pid) {
			postgres_pid = 0;
			return 0;
		}
		usleep(50000);
	}
	return 0;
}

/* The server's URL; NULL: no server here. */
static inline const char *postgres_url(void)
{
	static int tried, ready;
	if (getenv("HONE_TEST_PG"))
		return getenv("HONE_TEST_PG");
	if (!tried++) {
		snprintf(postgres_dir, sizeof postgres_dir, "/tmp/hone-test-pg-XXXXXX");
		if (!mkdtemp(postgres_dir))
			abort();
		postgres_owner = getpid();
		snprintf(postgres_text, sizeof postgres_text, "postgresql:///postgres?host=%s&user=hone",
			 postgres_dir);
		ready = postgres_spawn() > 0 && postgres_ready();
	}
	return ready ? postgres_text : NULL;
}

#endif
