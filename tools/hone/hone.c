/* SPDX-License-Identifier: Apache-2.0 */
/* The program hone: its commands and their common help. */
#include "tools/hone/cmd.h"
#include "kernels/library/library.h"
#include "tools/hone/glossary.h"
#include "tools/hone/in_folder.h"
#include "tools/hone/model.h"
#include <stddef.h>

static const char *const order[] = {"zoo",       "inspect", "quantize", "calibrate", "tune",    "bench",
				    "run",       "verify",  "tasks",    "explain",   "report",  "show",
				    "devices",   "doctor",  "status",   "wait",      "inhibit", "resume",
				    "bugreport", "help",    "version",  NULL};

static int prepare(const struct args *a)
{
	int rc = in_folder_check(a);
	return rc < 0 ? rc : model_place(a);
}

const struct program hone_program = {
    .name = "hone",
    .summary = "sharpens neural-network kernels on the board that runs them",
    .start = "hone zoo mobilenet_v2 -o m.onnx && hone tune m.onnx --budget 20s",
    .cmds = cmd_table,
    .order = order,
    .environment = "XDG_CACHE_HOME: where the cache lies without \\-\\-cache.\n"
		   "HONE_WORKER: the hone-worker that is started. HONE_WORKER_SOCKET: the socket at which "
		   "workers are had (default: /run/hone/worker.sock where one may connect; empty: none). "
		   "HONE_SANDBOX=off: a worker that is started does not confine itself, for debuggers. "
		   "HONE_SOCKET: honed's control socket. HONE_RUN: its run folder "
		   "(default: the folder of HONE_SOCKET).\n",
    .terms = hone_terms,
    .prepare = prepare,
    .see = ".BR honed (8),\n.BR honed.conf (5),\n.BR hone_api (3)\n",
};

int hone_main(int argc, char **argv)
{
	foreign_use(&library_foreign);
	return program_main(&hone_program, argc, argv);
}
