/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/options.h"
#include "platform/base/near.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int options_refuse(const char *program, int argc, char **argv, int at, const struct option *options)
{
	struct near n;
	char name[64];
	while (at < argc - 1 && (argv[at][0] != '-' || !argv[at][1]))
		at++;
	const char *word = argv[at < argc ? at : argc - 1];
	snprintf(name, sizeof name, "%s", word + strspn(word, "-"));
	name[strcspn(name, "=")] = 0;
	near_begin(&n, name);
	for (const struct option *o = options; o->name; o++) {
		near_add(&n, o->name);
		if (!strcmp(name, o->name))
			return fail(E_USAGE,
				    o->has_arg ? "--%s needs a value; see %s --help"
					       : "--%s takes no value; see %s --help",
				    name, program);
	}
	if (n.best)
		return fail(E_USAGE, "unknown option %s; did you mean --%s?", word, n.best);
	return fail(E_USAGE, "unknown option %s; see %s --help", word, program);
}

static bool looks_like_option(const char *word, const struct option *options)
{
	if (word[0] != '-' || !word[1])
		return false;
	while (options->name && (options->val != word[1] || word[2]))
		options++;
	return word[1] == '-' || options->name;
}

int options_check_value(int argc, char **argv, const struct option *options, int index)
{
	const char *name = options[index].name;
	if (options[index].has_arg != required_argument || !optarg || optind > argc ||
	    argv[optind - 1] != optarg || !looks_like_option(optarg, options))
		return E_OK;
	return fail(E_USAGE, "--%s needs a value, but %s follows (as a value: --%s=%s)", name, optarg, name,
		    optarg);
}
