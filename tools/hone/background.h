/* SPDX-License-Identifier: Apache-2.0 */
/* hone tune --background: honed tunes the model, when the gate is open, or with --now at once. */
#ifndef TOOLS_BACKGROUND_H
#define TOOLS_BACKGROUND_H

#include "tools/hone/cmd.h"

/* Rows for the table of options. */
#define OPT_BACKGROUND                                                                                       \
	{                                                                                                    \
		"background", OPT_FLAG, NULL,                                                                \
		    "ask honed to do it when the board has time, and return; goes with --budget and "        \
		    "--threads"                                                                              \
	}
#define OPT_NOW                                                                                              \
	{                                                                                                    \
		"now", OPT_FLAG, NULL, "with --background: at once, also on a busy board"                    \
	}

/* Whether it is asked for. E_USAGE: with options that honed does not take. */
int background_asked(const struct args *a) MUST_CHECK;
/* Asks honed; a->pos[0] is the model, or the name of one of honed.conf. */
int background_tune(const struct args *a) MUST_CHECK;

#endif
