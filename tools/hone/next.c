/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/next.h"
#include "platform/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *program = "hone", *called; /* called NULL: by its name */
static bool left_device, needs_examples;

void next_leave_device(void)
{
	left_device = true;
}

void next_need_examples(void)
{
	needs_examples = true;
}

void next_called(const char *name, const char *how)
{
	program = name;
	called = strchr(how, '/') ? how : NULL;
}

void next_program(struct buf *out)
{
	shell_path(out, called ? called : program);
}

/* Finds the words behind "Next: PROGRAM"; NULL: the line begins with another program. */
static const char *behind_program(const char *line)
{
	static const char lead[] = "Next: ";
	const size_t at = sizeof lead - 1, n = strlen(program);
	return !strncmp(line, lead, at) && !strncmp(line + at, program, n) && line[at + n] == ' '
		   ? line + at + n
		   : NULL;
}

void next_flush(void)
{
	fflush(stdout);
	if (ferror(stdout))
		log_level_set(LOG_QUIET);
}

void next_take(struct buf *text)
{
	struct buf own = {0};
	const char *words = buf_ok(text) ? behind_program(buf_str(text)) : NULL;
	next_flush();
	if (words) {
		next_program(&own);
		log_whole("Next: %s%s", buf_str(&own), words);
	} else if (buf_ok(text) && text->n) {
		log_whole("%s", buf_str(text));
	}
	buf_free(&own);
	buf_free(text);
}

/* True if the text has " --NAME ". */
static bool names(const char *text, const char *name)
{
	char option[32];
	snprintf(option, sizeof option, " --%s ", name);
	return strstr(text, option) != NULL;
}

/* Whether the device of --device is one for another command: replay:DIR is of hone tune alone, and one that
 * was left is not there. */
static bool takes_device(const struct args *a)
{
	bool replay = arg_has(a, "device") && !strncmp(arg_str(a, "device", ""), "replay:", 7);
	return !replay && !left_device;
}

void next_words(const struct args *a, const char *command, const char *model, const char *more,
		const char *cache, struct buf *out)
{
	static const char *const kept[] = {"budget",  "rigor", "threads", "cpus",   "level", "exact",
					   "kernels", "cache", "shape",   "device", NULL};
	static const char *const examples[] = {"data", "examples", "error",  "resize",
					       "mean", "scale",    "layout", "channels"};
	const struct cmd *to = cmd_find(a->program, command); /* NULL in benchmarks */
	buf_printf(out, "hone %s ", command);
	shell_path(out, model);
	buf_puts(out, more);
	if (arg_has(a, "level") && arg_has(a, "data") && arg_given(a, "data") && !arg_given(a, "level"))
		buf_puts(out, " --level int8"); /* examples imply it */
	for (size_t i = 0;
	     needs_examples && !strcmp(command, "tune") && i < sizeof examples / sizeof *examples; i++)
		arg_again(a, examples[i], to, out);
	for (int i = 0; kept[i]; i++) {
		if (names(more, kept[i]) && strcmp(kept[i], "shape")) /* shapes add up */
			continue;
		if (!strcmp(kept[i], "device") && !takes_device(a))
			continue;
		if (!cache || strcmp(kept[i], "cache")) {
			arg_again(a, kept[i], to, out);
			continue;
		}
		buf_puts(out, " --cache ");
		shell_path(out, cache);
	}
}

void next_hone(const struct args *a, const char *command, const char *model, const char *more)
{
	struct buf b = {0};
	buf_puts(&b, "Next: ");
	next_words(a, command, model, more, NULL, &b);
	next_take(&b);
}

void next_say(const char *fmt, ...)
{
	struct buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_puts(&b, "Next: ");
	for (const char *p = fmt, *s; *p; p = s) {
		s = strstr(p, "%s");
		buf_add(&b, p, s ? (size_t)(s - p) : strlen(p));
		if (s)
			shell_path(&b, va_arg(ap, const char *));
		s = s ? s + 2 : p + strlen(p);
	}
	va_end(ap);
	next_take(&b);
}
