/* SPDX-License-Identifier: Apache-2.0 */
/* Has the program that honed starts for its jobs import a model, so that `honed --check` finds what a job
 * would: another program's format, a damaged file, operators that hone does not have, free sizes without a
 * shape. honed itself does not read models. */
#ifndef AGENT_EXAMINE_H
#define AGENT_EXAMINE_H

#include "agent/control/conf.h"

/* Appends to `why` what is wrong with the model, one line without its end; nothing if it is good. E_IO: the
 * program cannot be started. */
int examine_model(const char *program, const struct conf_model *m, struct buf *why) MUST_CHECK;

#endif
