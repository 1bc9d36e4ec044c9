/* SPDX-License-Identifier: Apache-2.0 */
/* Has the program that honed starts for its jobs look at what `honed --check` cannot know itself: import a
 * model, to find what a job would (another program's format, a damaged file, operators that hone does not
 * have, free sizes without a shape), and list the devices. honed itself reads no models and loads no
 * drivers. */
#ifndef AGENT_EXAMINE_H
#define AGENT_EXAMINE_H

#include "agent/control/conf.h"

/* Begins what hone appends to an error of its usage. The user of honed has not called that command. */
#define HELP_OF_HONE " (see `hone "

/* Appends to `why` what is wrong with the model, one line without its end; nothing if it is good. E_IO: the
 * program cannot be started; E_TIMEOUT: it did not end in wait_ns (INT64_MAX: it may take any time), and was
 * killed. */
int examine_model(const char *program, const struct conf_model *m, int64_t wait_ns,
		  struct buf *why) MUST_CHECK;
/* Whether the level of a model (LEVEL_INT8) needs examples of inputs, as the cache has no recipe of it.
 * cache: a folder, which may be missing. False also if that cannot be found out, which examine_model
 * explains. */
bool examine_needs_examples(const char *program, const struct conf_model *m, const char *cache);
/* Appends a line "FILE:LINE: what" for each file of a board that is wrong; returns their number. E_IO: the
 * program cannot be started. */
int examine_boards(const char *program, struct buf *mistakes) MUST_CHECK;
/* Appends the names of the devices beside the processor that can be used now, as in "opencl:0, opencl:1";
 * nothing: there is none. E_IO: the program cannot be started, or failed; E_TIMEOUT: it did not end in
 * wait_ns, and was killed. */
int examine_devices(const char *program, int64_t wait_ns, struct buf *names) MUST_CHECK;

#endif
