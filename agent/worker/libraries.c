/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/libraries.h"

#include "agent/worker/hire.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/run/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_NS (20 * NS_PER_S)

static bool is_known(const char *name)
{
	for (const struct library *const *l = library_table; *l; l++)
		if (!strcmp((*l)->name, name))
			return true;
	return false;
}

static int not_known(const char *name)
{
	struct buf names = {0};
	for (const struct library *const *l = library_table; *l; l++)
		buf_printf(&names, "%s, ", (*l)->name);
	int rc =
	    fail(E_USAGE,
		 "there is no library '%.60s': give %sall, or the absolute path of a shared library that "
		 "exports hone_backend",
		 name, buf_str(&names));
	buf_free(&names);
	return rc;
}

static int add(struct library_state out[LIBRARY_MOST], int n, const char *name, bool named)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(out[i].name, name)) {
			out[i].named |= named;
			return n;
		}
	if (n == LIBRARY_MOST)
		return fail(E_USAGE, "at most %d libraries can compete", LIBRARY_MOST);
	out[n] = (struct library_state){.named = named, .why = "the worker did not say"};
	snprintf(out[n].name, sizeof out[n].name, "%s", name);
	return n + 1;
}

static int read_names(const char *names, struct library_state out[LIBRARY_MOST])
{
	char name[LIBRARY_FILE];
	int n = 0;
	for (const char *at = names; n >= 0 && (at = library_next(at, name));) {
		if (!strcmp(name, LIBRARY_ALL))
			for (const struct library *const *l = library_table; *l && n >= 0; l++)
				n = add(out, n, (*l)->name, false);
		else
			n = is_known(name) || name[0] == '/' ? add(out, n, name, true) : not_known(name);
	}
	return n ? n : fail(E_USAGE, "the list of libraries is empty");
}

static bool take(char *to, size_t room, const char *from)
{
	size_t n = strlen(from);
	if (n < room)
		memcpy(to, from, n + 1);
	return n < room;
}

/* One line of the worker's answer. */
static void read_line(char *line, struct library_state *all, int n)
{
	char *word = strchr(line, '\t'), *file = word ? strchr(word + 1, '\t') : NULL;
	if (!word)
		return;
	*word++ = 0;
	for (int i = 0; i < n; i++) {
		struct library_state *s = &all[i];
		if (strcmp(s->name, line) != 0)
			continue;
		if (*word == '!' || !file) {
			snprintf(s->why, sizeof s->why, "%s", word + (*word == '!'));
			log_one_line(s->why);
			continue;
		}
		*file = 0;
		s->open = take(s->found.word, sizeof s->found.word, word) &&
			  take(s->found.file, sizeof s->found.file, file + 1);
	}
}

static void read_answer(const struct child *c, struct library_state *all, int n)
{
	char line[2048];
	size_t at = 0;
	int64_t end_ns = clock_now(&clock_real) + ANSWER_NS;
	while (fd_read_full(c->out, line + at, 1, &clock_real, end_ns) >= 0) {
		if (line[at] != '\n') {
			at += at + 1 < sizeof line;
			continue;
		}
		line[at] = 0;
		read_line(line, all, n);
		at = 0;
	}
}

int libraries_find(const char *names, const char *worker, struct library_state out[LIBRARY_MOST])
{
	struct hire h;
	struct child c;
	struct buf list = {0};
	int n = read_names(names, out), rc = n < 0 ? n : hire_find(&h, worker);
	if (rc < 0)
		return rc;
	hire_program(&h);
	for (int i = 0; i < n; i++)
		buf_printf(&list, "%s%s", i ? "," : "", out[i].name);
	char *argv[] = {h.path, "--libraries", list.p, NULL};
	rc = buf_ok(&list) ? child_start(&c, argv, NULL) : fail(E_NOMEM, "no memory for a list of libraries");
	if (rc >= 0) {
		read_answer(&c, out, n);
		(void)child_stop(&c, 100 * NS_PER_MS);
	}
	buf_free(&list);
	return rc < 0 ? rc : n;
}

/* Libraries start as many threads as these say when they are opened; hone divides layers itself. */
static void ask_for_one_thread(void)
{
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	setenv("OMP_NUM_THREADS", "1", 1);
}

int libraries_describe(const char *names)
{
	struct library_state all[LIBRARY_MOST];
	int n = read_names(names, all);
	ask_for_one_thread();
	for (int i = 0; i < n; i++) {
		struct library_found f;
		int rc = library_open(all[i].name, &f);
		if (rc < 0)
			printf("%s\t!%s\n", all[i].name, err_text());
		else
			printf("%s\t%s\t%s\n", all[i].name, f.word, f.file);
		fflush(stdout);
	}
	return n < 0 ? n : E_OK;
}

void libraries_open(const char *names)
{
	struct library_state all[LIBRARY_MOST];
	int n = *names ? read_names(names, all) : 0;
	ask_for_one_thread();
	for (int i = 0; i < n; i++) {
		struct library_found f;
		if (library_open(all[i].name, &f) < 0)
			log_info("hone-worker: %s", err_text());
	}
}
