/* SPDX-License-Identifier: Apache-2.0 */
/* hone-worker: builds, checks and times candidates for another process; it alone holds a compiler. It is
 * expendable: if it crashes, its owner loses only the handles.
 *
 * hone-worker --serve: the stream of agent/worker/wire.h on 0 and 1.
 *
 * hone-worker --fallback ISA [--few] -o FILE: kernels for any size, made at build time.
 *
 * hone-worker --describe DEVICE: the target of a device whose driver may crash or hang.
 *
 * hone-worker --libraries NAMES: which of these libraries can be opened.
 *
 * hone-worker --bench-compile TASK: how fast candidates of a task (a file with its text) are compiled. */
#include "agent/worker/bench_compile.h"
#include "agent/run/fallback.h"
#include "agent/worker/device.h"
#include "agent/worker/driver_words.h"
#include "agent/worker/libraries.h"
#include "agent/worker/wire.h"
#include "kernels/emit/emit.h"
#include "platform/run/dev.h"
#include "platform/run/device_name.h"
#include "platform/base/log.h"
#include "platform/base/options.h"
#include "platform/base/out.h"
#include "platform/run/sandbox.h"
#include "platform/base/wrap.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct words {
	const char *target, *fallback, *output, *bench, *describe, *libraries;
	bool few, measure, serve, version, help;
};

static const char usage[] = /* of wrap_help */
    "usage: hone-worker\t--serve [--verbose]\n"
    "       hone-worker\t--fallback\vISA [--few] -o\vFILE\n"
    "       hone-worker\t--bench-compile TASK_FILE [--target\vTEXT]\n"
    "       hone-worker\t--describe\vDEVICE [--measure] [--verbose]\n"
    "       hone-worker\t--libraries\vNAMES\n"
    "       hone-worker\t--version\n"
    "\n"
    "hone starts it with --serve, and the build of hone with --fallback. --bench-compile times builds. "
    "--describe prints the target of a device like cuda:0, with its peaks if they are measured. --libraries "
    "opens libraries that compute layers (openblas,onednn,xnnpack, or paths) and prints what they are.\n";

/* Crashes are expected here, so there are no core files; no program that runs here may gain rights. */
static void prepare(void)
{
	struct rlimit none = {0, 0};
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
}

/* A worker's own limits: a day of processor time, because a worker that reaches it is replaced; files as
 * large as a message. */
static struct sandbox_limits limits = {.cpu_s = 24 * 3600, .file_bytes = INT64_C(64) << 20, .files = 256};

/* HONE_SANDBOX=off is for debuggers. It is no security hole: whoever sets a worker's environment also chooses
 * its program. On a kernel (or emulator) without system-call filters only the limits apply. */
static int confine(struct runner *r, bool apart)
{
	static struct sandbox_cage *cage; /* needed until the process ends */
	const char *word = getenv("HONE_SANDBOX");
	if (word && strcmp(word, "off") == 0) {
		log_info("hone-worker is not confined: HONE_SANDBOX=off");
		return E_OK;
	}
	if (apart) {
		log_more(
		    "hone-worker is not confined: a device's driver opens files and starts compilers, and "
		    "libraries compile kernels");
		return E_OK;
	}
	int rc = sandbox_cage_make(&cage);
	if (rc >= 0)
		rc = sandbox_enter();
	if (rc >= 0)
		local_cage(r, sandbox_cage_enter, cage);
	if (rc != E_UNSUPPORTED)
		return rc;
	log_info("hone-worker is not confined: %s", err_text());
	return E_OK;
}

/* The compiler allocates and frees some MB per candidate, and tasks as much again. The memory is kept,
 * because otherwise each 4 KB of it would cost a page fault each time. */
static void keep_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 128 << 20);
	(void)mallopt(M_TOP_PAD, 4 << 20);
}

/* Moves the stream away from 0 and 1, so that output of a library cannot get into it. */
static int take_stream(int *in, int *out)
{
	*in = fcntl(0, F_DUPFD_CLOEXEC, 3);
	*out = fcntl(1, F_DUPFD_CLOEXEC, 3);
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (*in < 0 || *out < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(2, 1) < 0)
		return fail(E_IO, "descriptors 0 and 1 must be open");
	close(nothing);
	return E_OK;
}

/* Uses the client's cpus, and a priority no higher than the client's; if the system refuses, the worker goes
 * on as it is. */
static void take_place(const struct wire_hello *h)
{
	const struct sched_param none = {0};
	wire_place(h->cpus);
	if (h->nice > getpriority(PRIO_PROCESS, 0))
		(void)setpriority(PRIO_PROCESS, 0, h->nice < 20 ? h->nice : 19);
	if (h->nice == 20)
		(void)sched_setscheduler(0, SCHED_IDLE, &none);
}

static int open_runner(const struct wire_hello *h, struct runner **out)
{
	const struct dev *d = dev_find(h->device);
	const struct emit *e = d ? emit_find(d->emitter) : NULL;
	int number = device_is_named(h->device) ? dev_number(h->device) : -1; /* worker_compiles_for */
	return e ? runner_local(d, number, e, &h->target, h->threads, d->clock() == &clock_real, out)
		 : E_NOTFOUND;
}

/* Everything that needs the system comes first, then the sandbox. */
static int open_confined(int in, struct runner **out)
{
	struct wire_hello h;
	int rc = wire_take_hello(in, &h);
	if (rc < 0)
		return rc;
	take_place(&h);
	limits.data_bytes = h.memory_bytes;
	if (device_is_named(h.device)) {
		limits.memory_bytes = INT64_MAX; /* drivers reserve more addresses than the machine has */
		driver_words_keep();
	}
	rc = sandbox_limit(&limits);
	if (rc >= 0)
		rc = open_runner(&h, out);
	if (rc < 0)
		return rc;
	if (h.libraries[0])
		libraries_open(h.libraries);
	rc = wire_watch(in);
	if (rc >= 0)
		rc = confine(*out, device_is_named(h.device) || h.libraries[0]);
	if (rc < 0)
		(*out)->ops->close(*out);
	return rc;
}

static int serve(void)
{
	int in, out;
	struct runner *r;
	int rc = take_stream(&in, &out);
	if (rc < 0)
		return rc;
	rc = open_confined(in, &r);
	if (rc < 0)
		return rc == E_CHILD ? E_OK : wire_refuse(rc, out);
	local_last_words(r, wire_last_words);
	rc = wire_serve(r, in, out);
	r->ops->close(r);
	return rc;
}

static int make_fallback(const struct words *w)
{
	const struct emit *e = emit_find("llvm");
	if (!w->output)
		return fail(E_USAGE, "--fallback needs -o FILE");
	return e ? fallback_make(w->fallback, e, w->few, w->output) : E_NOTFOUND;
}

static int bench(const struct words *w)
{
	struct target t;
	const struct dev *d = dev_find("cpu");
	const struct emit *e = d ? emit_find(d->emitter) : NULL;
	if (!e)
		return E_NOTFOUND;
	int rc = w->target ? target_parse(w->target, &t) : target_host(&t);
	return rc < 0 ? rc : bench_compile(w->bench, d, e, &t);
}

static int describe(const struct words *w)
{
	driver_words_keep();
	return device_describe(w->describe, w->measure);
}

static int version(void)
{
	printf("hone-worker %s\n", HONE_VERSION);
	for (const struct emit *const *e = emit_table; *e; e++)
		printf("emitter %s %s\n", (*e)->name, (*e)->version());
	return E_OK;
}

static int read_words(int argc, char **argv, struct words *w)
{
	enum {
		SERVE = 256,
		DESCRIBE,
		MEASURE,
		TARGET,
		FALLBACK,
		FEW,
		BENCH,
		LIBRARIES,
		VERSION,
		VERBOSE,
		HELP
	};
	static const struct option options[] = {
	    {"serve", no_argument, NULL, SERVE},
	    {"describe", required_argument, NULL, DESCRIBE},
	    {"measure", no_argument, NULL, MEASURE},
	    {"target", required_argument, NULL, TARGET},
	    {"fallback", required_argument, NULL, FALLBACK},
	    {"few", no_argument, NULL, FEW},
	    {"bench-compile", required_argument, NULL, BENCH},
	    {"libraries", required_argument, NULL, LIBRARIES},
	    {"version", no_argument, NULL, VERSION},
	    {"verbose", no_argument, NULL, VERBOSE},
	    {"help", no_argument, NULL, HELP},
	    {NULL, 0, NULL, 0},
	};
	*w = (struct words){0};
	opterr = 0; /* options_refuse says it */
	for (int o, at = 1; (o = getopt_long(argc, argv, "o:", options, NULL)) != -1; at = optind) {
		switch (o) {
		case SERVE:
			w->serve = true;
			break;
		case DESCRIBE:
			w->describe = optarg;
			break;
		case MEASURE:
			w->measure = true;
			break;
		case TARGET:
			w->target = optarg;
			break;
		case FALLBACK:
			w->fallback = optarg;
			break;
		case FEW:
			w->few = true;
			break;
		case LIBRARIES:
			w->libraries = optarg;
			break;
		case BENCH:
			w->bench = optarg;
			break;
		case VERSION:
			w->version = true;
			break;
		case VERBOSE:
			log_level_set(LOG_VERBOSE);
			break;
		case HELP:
			w->help = true;
			break;
		case 'o':
			w->output = optarg;
			break;
		default:
			return options_refuse("hone-worker", argc, argv, at, options);
		}
	}
	if (optind < argc)
		return fail(E_USAGE, "unexpected argument '%s' (see hone-worker --help)", argv[optind]);
	return w->serve || w->fallback || w->bench || w->describe || w->libraries || w->version || w->help
		   ? E_OK
		   : fail(E_USAGE, "nothing to do: give an option (see hone-worker --help)");
}

int main(int argc, char **argv)
{
	struct words w;
	if (read_words(argc, argv, &w) < 0) {
		log_error("%s", err_text());
		return 2;
	}
	if (w.help) {
		wrap_help(usage);
		return out_end(0);
	}
	prepare();
	keep_memory();
	foreign_use(&library_foreign);
	int rc = w.serve       ? serve()
		 : w.fallback  ? make_fallback(&w)
		 : w.bench     ? bench(&w)
		 : w.libraries ? libraries_describe(w.libraries)
		 : w.describe  ? describe(&w)
			       : version();
	if (rc < 0) {
		driver_words_show();
		if (!w.describe) /* which has said it on stdout */
			log_error("%s", err_text());
		return rc == E_USAGE ? 2 : 1;
	}
	return out_end(0);
}
