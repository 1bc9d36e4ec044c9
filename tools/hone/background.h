/* SPDX-License-Identifier: Apache-2.0 */
/* hone tune --background: honed tunes the model when its gate opens, or at once with --now. */
#ifndef TOOLS_BACKGROUND_H
#define TOOLS_BACKGROUND_H

#include "tools/hone/cmd.h"

/* Rows for the table of options. */
#define OPT_BACKGROUND                                                                                       \
	{                                                                                                    \
		"background", OPT_FLAG, NULL,                                                                \
		    "let honed tune when the board is idle, and return at once; goes with --now, --budget, " \
		    "--threads, --device and --shape"                                                        \
	}
#define OPT_NOW                                                                                              \
	{                                                                                                    \
		"now", OPT_FLAG, NULL,                                                                       \
		    "with --background: start at once, even on a busy board; an inhibit, heat, a low "       \
		    "battery and lack of memory still hold it back, before its budget begins"                \
	}

/* Whether --background was given. E_USAGE: with options that honed does not take. */
int background_asked(const struct args *a) MUST_CHECK;
/* Asks honed to tune a->pos[0]: the path of a model, or the name of one in honed.conf. */
int background_tune(const struct args *a) MUST_CHECK;

#endif
