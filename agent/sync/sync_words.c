/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_words.h"

#include "platform/base/buf.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include "platform/base/wrap.h"

#include <string.h>
#include <unistd.h>

enum { UNKNOWN_COLUMNS = 80 };

static const char *text_of(const json_t *s, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(s, key));
	return text && *text ? text : otherwise;
}

static bool flag_of(const json_t *s, const char *key)
{
	return json_is_true(json_object_get(s, key));
}

static long long number_of(const json_t *s, const char *key)
{
	return json_integer_value(json_object_get(s, key));
}

/* Prints a line behind its head, and clears it. Servers wrote some of its words. */
static void say(const char *head, struct buf *line)
{
	int columns = log_columns(STDOUT_FILENO, isatty(STDOUT_FILENO) ? UNKNOWN_COLUMNS : 0);
	if (line->p)
		log_one_line(line->p);
	wrap_print(head, (int)strlen(head), buf_str(line), columns, false);
	buf_clear(line);
}

static void say_last(const json_t *s, struct buf *line)
{
	const char *error = text_of(s, "error", ""), *joined = text_of(s, "joined", NULL);
	if (flag_of(s, "offline"))
		buf_printf(line, "offline, no server was reached: %s", error);
	else
		buf_printf(line, "%s%s", *error ? "failed: " : "good", error);
	say("last run   ", line);
	buf_printf(line, "serial %lld%s", number_of(s, "serial"),
		   flag_of(s, "overdue") ? ", and nothing new for too long: the server may be cut off" : "");
	say("fleet      ", line);
	/* hone-fleet rename may have given it another name, which the next upload brings. */
	buf_printf(line, "%s (%s %s)%s", text_of(s, "board", "no id yet"),
		   joined ? "in the fleet as" : "joins as", joined ? joined : text_of(s, "name", "-"),
		   flag_of(s, "revoked") ? ", revoked by the fleet: nothing that it sends counts" : "");
	say("board      ", line);
	buf_printf(
	    line,
	    "%lld record%s taken, choices for %lld model%s, %lld refused; %lld sent (records, choices and "
	    "histories); %.1f KiB down, %.1f KiB up",
	    number_of(s, "taken"), plural_s(number_of(s, "taken")), number_of(s, "choices"),
	    plural_s(number_of(s, "choices")), number_of(s, "refused"), number_of(s, "sent"),
	    (double)number_of(s, "down_bytes") / 1024, (double)number_of(s, "up_bytes") / 1024);
	say("all runs   ", line);
}

/* Without systemd, nothing is known to start hone-sync when its turn has come. */
static void say_next(long long next_s, struct buf *line)
{
	bool timer = access("/run/systemd/system", F_OK) == 0;
	buf_puts(line, timer ? "the timer starts it in " : "due in ");
	duration_words((double)next_s, line);
	if (!timer)
		buf_puts(line,
			 "; systemd does not run here, so start hone-sync by other means, such as cron");
	say("next run   ", line);
}

void sync_words(const json_t *s)
{
	struct buf line = {0};
	if (number_of(s, "ran_s") > 0) {
		say_last(s, &line);
	} else {
		buf_puts(&line, "none yet");
		say("last run   ", &line);
	}
	if (number_of(s, "next_s") > 0)
		say_next(number_of(s, "next_s"), &line);
	buf_free(&line);
}
