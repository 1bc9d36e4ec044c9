/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/mask.h"
#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char home[] = "/home/";

void mask_add(struct mask *m, const char *from, const char *to)
{
	if (!from || strlen(from) < 3 || strlen(from) >= sizeof m->word->from || m->n == MASK_WORDS)
		return;
	struct mask_word *w = &m->word[m->n++];
	snprintf(w->from, sizeof w->from, "%s", from);
	w->to = to;
}

static void add_user(struct mask *m, const char *name)
{
	static const char *const known[] = {"root", "hone", "nobody", "localhost"};
	for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
		if (!strcmp(name, known[i]))
			return;
	mask_add(m, name, "USER");
}

void mask_board(struct mask *m)
{
	char host[72] = "";
	*m = (struct mask){0};
	if (gethostname(host, sizeof host - 1) == 0 && strcmp(host, "localhost")) {
		mask_add(m, host, "HOST");
		host[strcspn(host, ".")] = 0;
		mask_add(m, host, "HOST");
	}
	const struct passwd *p = getpwuid(getuid());
	add_user(m, p ? p->pw_name : NULL);
	add_user(m, getenv("USER"));
	add_user(m, getenv("SUDO_USER"));
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Number of bytes of `text` that a masked word covers; 0: none. */
static size_t masked(const struct mask *m, const char *text, const char **to)
{
	for (int i = 0; i < m->n; i++) {
		size_t n = strlen(m->word[i].from);
		if (!strncasecmp(text, m->word[i].from, n) && !in_word(text[n])) {
			*to = m->word[i].to;
			return n;
		}
	}
	return 0;
}

/* Offset of a secret's value in a line of n bytes; n: there is none. */
static size_t secret_at(const char *line, size_t n)
{
	static const char *const names[] = {"key", "token", "passw", "secret", "credential"};
	for (size_t i = 0; i < n; i++) {
		size_t at = n;
		for (size_t k = 0; k < sizeof names / sizeof *names && at == n; k++)
			if (!strncasecmp(line + i, names[k], strlen(names[k])))
				at = i + strlen(names[k]);
		while (at < n && (in_word(line[at]) || line[at] == '-' || line[at] == '"'))
			at++;
		while (at < n && line[at] == ' ')
			at++;
		if (at < n && (line[at] == '=' || line[at] == ':'))
			return at + 1;
	}
	return n;
}

static void mask_line(const struct mask *m, const char *line, size_t n, struct buf *out)
{
	size_t end = secret_at(line, n);
	for (size_t i = 0; i < end;) {
		const char *to = NULL;
		size_t k = i == 0 || !in_word(line[i - 1]) ? masked(m, line + i, &to) : 0;
		if (k) {
			buf_puts(out, to);
			i += k;
		} else if (!strncmp(line + i, home, strlen(home))) {
			buf_puts(out, "/home/USER");
			i += strlen(home);
			i += strcspn(line + i, "/ \n\t\"':,;");
		} else {
			buf_add(out, line + i++, 1);
		}
	}
	if (end < n)
		buf_puts(out, " (left out)");
}

void mask_text(const struct mask *m, const char *text, struct buf *out)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		mask_line(m, text, n, out);
		text += n;
		if (*text)
			buf_add(out, text++, 1);
	}
}
