/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates on a device with memory of its own. Each has buffers there, with guards on both sides that no
 * kernel may write, and a prepared launch per entry. The first run is in this process, too: a context does
 * not survive a fork. So a driver that crashes ends the worker, and a kernel that hangs loses the device,
 * which the worker then answers with E_CHILD until it is replaced. */
#include "agent/worker/local.h"
#include "agent/worker/driver_words.h"
#include "platform/base/log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { GUARD_BYTES = 256, GUARD = 0x5a };
/* Scratch of all indices that run at a time. */
static int64_t scratch_bytes = (int64_t)64 << 20;
/* Drivers may compile when a kernel is launched for the first time; PoCL takes up to 0.4 s, and 10 times that
 * on a busy machine. */
#define COMPILE_NS (8 * NS_PER_S)

struct built_own {
	const struct dev_own *dev;
	struct dev_unit *unit;
	struct dev_mem *mem[CODE_MAX_BUFS];
	int64_t bytes[CODE_MAX_BUFS]; /* without guards */
	struct dev_launch *launch[LOOPS_MAX_ENTRIES];
	int nbufs, nentries;
	int64_t run_ns;           /* of one run: the shortest so far */
	struct dev_launch *graph; /* of many runs; NULL: not recorded */
	int graph_runs;
	bool single; /* a graph of runs could not be recorded or started */
};

void own_scratch_room(int64_t bytes)
{
	scratch_bytes = bytes;
}

/* A driver that fails is the worker's end. */
static int broken(int rc)
{
	return rc == E_IO ? fail_in(E_CHILD, "device") : rc;
}

static int set_guards(const struct built_own *o, int i)
{
	char guard[GUARD_BYTES];
	memset(guard, GUARD, sizeof guard);
	int rc = o->dev->write(o->mem[i], 0, guard, GUARD_BYTES);
	return rc < 0 ? rc : o->dev->write(o->mem[i], GUARD_BYTES + o->bytes[i], guard, GUARD_BYTES);
}

static bool is_guard(const char *p)
{
	for (int i = 0; i < GUARD_BYTES; i++)
		if (p[i] != GUARD)
			return false;
	return true;
}

static int check_guards(const struct built_own *o, const struct manifest *m)
{
	char low[GUARD_BYTES], high[GUARD_BYTES];
	for (int i = 0; i < o->nbufs; i++) {
		if (m->buf[i].texture)
			continue;
		int rc = o->dev->read(o->mem[i], 0, low, GUARD_BYTES);
		if (rc >= 0)
			rc = o->dev->read(o->mem[i], GUARD_BYTES + o->bytes[i], high, GUARD_BYTES);
		if (rc < 0)
			return rc;
		if (!is_guard(low) || !is_guard(high))
			return fail(E_WRONG, "the kernel wrote %s buffer %s",
				    is_guard(low) ? "behind" : "in front of", m->buf[i].name);
	}
	return E_OK;
}

static int64_t longest(const struct local_built *b)
{
	int64_t most = 1;
	for (int i = 0; i < b->m.nentries; i++)
		most = b->extent[i] > most ? b->extent[i] : most;
	return most;
}

/* A texture has no guards: kernels cannot write it. */
static int place_texture(struct local_built *b, struct built_own *o, int i)
{
	bool halves = b->m.buf[i].packing.f16;
	int64_t bytes = (int64_t)b->bytes[i];
	int rc = o->dev->texture ? o->dev->texture(o->unit, halves, bytes / (halves ? 2 : 4), &o->mem[i])
				 : fail(E_UNSUPPORTED, "devices of this kind have no textures");
	if (rc < 0)
		return rc;
	o->nbufs = i + 1;
	return o->dev->write(o->mem[i], 0, b->bufs[i], bytes);
}

static int place(struct local_built *b, struct built_own *o, int i, int64_t bytes)
{
	o->bytes[i] = (bytes + 63) / 64 * 64;
	int rc = o->dev->alloc(o->unit, o->bytes[i] + 2 * GUARD_BYTES, &o->mem[i]);
	if (rc < 0)
		return rc;
	o->nbufs = i + 1;
	rc = set_guards(o, i);
	if (rc < 0 || b->m.buf[i].role == BUF_SCRATCH)
		return rc;
	return o->dev->write(o->mem[i], GUARD_BYTES, b->bufs[i], bytes);
}

static int prepare(struct local_built *b, struct built_own *o, int64_t once)
{
	struct dev_spot spot[CODE_MAX_BUFS];
	int rc = E_OK;
	for (int i = 0; i < o->nbufs; i++)
		spot[i] = (struct dev_spot){o->mem[i], b->m.buf[i].texture ? 0 : GUARD_BYTES};
	for (int e = 0; e < b->m.nentries && rc >= 0; e++) {
		const struct dev_work w = {.buf = spot,
					   .nbufs = o->nbufs,
					   .param = b->m.param,
					   .nparams = b->m.nparams,
					   .end = b->extent[e],
					   .at_once = b->m.scratch_bytes > 0 ? once : 0};
		rc = o->dev->prepare(b->object->code, b->entry[e], &w, &o->launch[e]);
		o->nentries = rc < 0 ? e : e + 1;
	}
	return rc;
}

int own_open(struct local_built *b, const struct dev_own *dev, struct dev_unit *unit)
{
	struct built_own *o = b->own = calloc(1, sizeof *o);
	if (!o)
		return fail(E_NOMEM, "no memory for a kernel");
	o->dev = dev;
	o->unit = unit;
	int64_t all_bytes, once = code_at_once(&b->m, longest(b), scratch_bytes, &all_bytes);
	int rc = E_OK;
	for (int i = 0; i < b->m.nbufs && rc >= 0; i++) {
		bool scratch = b->m.buf[i].role == BUF_SCRATCH;
		rc = b->m.buf[i].texture ? place_texture(b, o, i)
					 : place(b, o, i, scratch ? all_bytes : (int64_t)b->bytes[i]);
	}
	if (rc >= 0)
		rc = prepare(b, o, once);
	return broken(rc);
}

void own_close(struct local_built *b)
{
	struct built_own *o = b->own;
	if (!o)
		return;
	if (o->graph)
		o->dev->drop(o->graph);
	for (int e = 0; e < o->nentries; e++)
		o->dev->drop(o->launch[e]);
	for (int i = 0; i < o->nbufs; i++)
		o->dev->free(o->mem[i]);
	free(o);
	b->own = NULL;
}

/* A kernel that failed has broken the device's context. A driver may report that by any later call, with any
 * error. */
static int ended(int rc)
{
	return rc < 0 && rc != E_TIMEOUT && rc != E_WRONG ? fail_in(E_CHILD, "device") : rc;
}

/* Errors of a start that say nothing of the device. Memory may be free again later. */
static bool is_refusal(int rc)
{
	return rc == E_NOMEM || rc == E_INFEASIBLE;
}

/* ---- the watch over a run that has no deadline: clFinish() cannot be interrupted, and asking for the state
 * instead makes times inexact ---- */

enum { TICK_NS = 100000000, MORE_TICKS = 20, FEW_TICKS = 2 };

/* Read by signal handlers. */
static struct {
	void (*say)(int at, enum meas_status how); /* last words; NULL: nobody listens */
	volatile sig_atomic_t on;                  /* a kernel is timed */
	int at;                                    /* which one */
	int64_t end_ns;                            /* the deadline, on the real clock */
	volatile sig_atomic_t ticks;
	int most, most_late; /* ticks that the run may take, and after the deadline */
} watch;

/* A process that was stopped meanwhile gets one signal for all ticks that it missed. */
static void tick(int sig)
{
	static const char text[] = "hone-worker: the device did not end a kernel that had run before\n";
	(void)sig;
	bool late = clock_now(&clock_real) >= watch.end_ns;
	if (++watch.ticks < (late ? watch.most_late : watch.most))
		return;
	if (watch.say && watch.on)
		watch.say(watch.at, MEAS_TIMEOUT);
	driver_words_show();
	(void)!write(fileno(stderr), text, sizeof text - 1);
	_exit(1);
}

/* A tick comes right after the deadline, as the client then waits for 20 ms only. */
static void set_ticks(int64_t first_ns, int64_t each_ns)
{
	const struct timeval first = {.tv_usec = first_ns / 1000}, each = {.tv_usec = each_ns / 1000};
	(void)setitimer(ITIMER_REAL, &(struct itimerval){each, first}, NULL);
}

static void watch_begin(int at, int64_t expected_ns, int64_t deadline_ns)
{
	struct sigaction act = {.sa_handler = tick, .sa_flags = SA_RESTART};
	int64_t left_ns = deadline_ns - clock_now(&clock_real), ticks = 10 * expected_ns / TICK_NS;
	bool soon = deadline_ns != INT64_MAX && left_ns > 0;
	watch.at = at;
	watch.end_ns = deadline_ns;
	watch.ticks = 0;
	watch.most_late = (int)(ticks < INT32_MAX / 2 ? ticks : INT32_MAX / 2) + FEW_TICKS;
	watch.most = watch.most_late - FEW_TICKS + MORE_TICKS;
	watch.on = 1;
	sigaction(SIGALRM, &act, NULL);
	set_ticks(soon ? left_ns % TICK_NS + NS_PER_MS : TICK_NS, TICK_NS);
}

static void watch_end(void)
{
	set_ticks(0, 0);
	watch.on = 0;
}

/* The driver crashes, in this thread or in one of its own. */
static void crashed(int sig)
{
	if (watch.say && watch.on)
		watch.say(watch.at, MEAS_CRASH);
	watch.on = 0;
	driver_words_show();
	raise(sig); /* the handler is gone, so that the process ends as if there had been none */
}

/* A signal that the driver or a sanitizer handles stays theirs. */
void local_last_words(struct runner *r, void (*say)(int at, enum meas_status how))
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	const struct sigaction act = {.sa_handler = crashed, .sa_flags = SA_RESETHAND};
	struct sigaction old;
	if (!((const struct local *)r)->unit)
		return;
	watch.say = say;
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		if (sigaction(fatal[i], NULL, &old) == 0 &&
		    (old.sa_handler == SIG_DFL || old.sa_handler == driver_words_crashed))
			sigaction(fatal[i], &act, NULL);
}

/* E_NOMEM or E_INFEASIBLE: the driver refused a launch, and the device works. */
static int run_all(const struct built_own *o, int repeats)
{
	int rc = E_OK;
	for (int i = 0; i < repeats && rc >= 0; i++)
		for (int e = 0; e < o->nentries && rc >= 0; e++)
			rc = o->dev->start(o->launch[e]);
	if (rc < 0 && !is_refusal(rc))
		return ended(rc);
	int waited = ended(o->dev->wait(o->unit, INT64_MAX)); /* what came before the refused launch runs */
	return waited < 0 ? waited : rc;
}

/* ---- graphs of runs: the process needs some microseconds for each launch, which would hide the time of a
 * kernel that takes less ---- */

/* A graph takes longer than what the process needs to start it, and a timed run longer than what it needs to
 * wait for it. */
enum { GRAPH_NS = 100000, GRAPHS_NS = 300000, MOST_IN_GRAPH = 512 /* launches */, TRIES = 3 };

static void graph_give_up(struct built_own *o)
{
	log_more("runs of a kernel are started one by one, so that its time may be that of the launches: %s",
		 err_text());
	if (o->graph)
		o->dev->drop(o->graph);
	o->graph = NULL;
	o->single = true;
}

static bool graph_record(struct built_own *o, int runs)
{
	struct dev_launch *all[MOST_IN_GRAPH];
	int n = 0;
	for (int i = 0; i < runs; i++)
		for (int e = 0; e < o->nentries; e++)
			all[n++] = o->launch[e];
	if (o->graph)
		o->dev->drop(o->graph);
	o->graph = NULL;
	o->graph_runs = runs;
	return o->dev->record(o->unit, all, n, &o->graph) >= 0;
}

/* Starts the graph so many times. E_USAGE: it does not start, and runs must be started one by one. */
static int run_graph(const struct built_own *o, int times)
{
	for (int i = 0; i < times; i++)
		if (o->dev->start(o->graph) < 0)
			return E_USAGE;
	return ended(o->dev->wait(o->unit, INT64_MAX));
}

static void note_ns(struct built_own *o, int64_t ns)
{
	o->run_ns = ns < o->run_ns ? ns : o->run_ns;
}

/* Records so many runs, at least two, that they take GRAPH_NS; how long one takes is better known after each
 * try. */
static int graph_make(struct built_own *o, struct clock *clock)
{
	const int most = MOST_IN_GRAPH / o->nentries;
	int rc = E_OK;
	for (int i = 0; i < TRIES && rc >= 0 && !o->single; i++) {
		int64_t runs = GRAPH_NS / (o->run_ns > 0 ? o->run_ns : 1) + 1;
		runs = runs < 2 ? 2 : runs < most ? runs : most;
		if (o->graph && runs <= o->graph_runs)
			break;
		if (!graph_record(o, (int)runs)) {
			graph_give_up(o);
			break;
		}
		int64_t start_ns = clock_now(clock);
		rc = run_graph(o, 1);
		if (rc == E_USAGE)
			graph_give_up(o);
		rc = rc == E_USAGE ? E_OK : rc;
		if (rc >= 0 && o->graph)
			note_ns(o, (clock_now(clock) - start_ns) / o->graph_runs);
	}
	return rc;
}

/* Starts the graph so often that this takes about GRAPHS_NS. 1: *runs is the number of runs that were made,
 * and *ns their time. 0: the runs must be started one by one, and *runs and *ns are as before. */
static int run_recorded(struct built_own *o, struct clock *clock, int64_t *runs, int64_t *ns)
{
	int rc = o->graph ? E_OK : graph_make(o, clock);
	if (rc < 0 || o->single)
		return rc;
	int64_t each_ns = o->run_ns * o->graph_runs, n = GRAPHS_NS / (each_ns > 0 ? each_ns : 1) + 1;
	n = n < MOST_IN_GRAPH ? n : MOST_IN_GRAPH;
	int64_t start_ns = clock_now(clock);
	rc = run_graph(o, (int)n);
	if (rc == E_USAGE) {
		graph_give_up(o);
		return E_OK;
	}
	if (rc < 0)
		return rc;
	*ns = clock_now(clock) - start_ns;
	*runs = n * o->graph_runs;
	return 1;
}

int own_run(const struct local_built *b, int at, int repeats, struct clock *clock, int64_t deadline_ns,
	    int64_t *ns)
{
	struct built_own *o = b->own;
	int64_t runs = repeats;
	int rc = E_OK;
	watch_begin(at, o->run_ns * repeats, deadline_ns);
	if (repeats > 1 && o->dev->record && !o->single)
		rc = run_recorded(o, clock, &runs, ns);
	if (rc == E_OK) {
		int64_t start_ns = clock_now(clock);
		rc = run_all(o, repeats);
		*ns = clock_now(clock) - start_ns;
	}
	watch_end();
	if (rc < 0)
		return rc;
	note_ns(o, *ns / runs);
	*ns = *ns * repeats / runs;
	return E_OK;
}

static int output_of(const struct local_built *b)
{
	for (int i = 0; i < b->m.nbufs; i++)
		if (b->m.buf[i].role == BUF_OUT)
			return i;
	return -1;
}

int own_first_run(struct local_built *b, int64_t patience_ns, int64_t deadline_ns, enum meas_status *status)
{
	struct built_own *o = b->own;
	int out = output_of(b);
	int64_t start_ns = clock_now(&clock_real), end_ns = start_ns + patience_ns + COMPILE_NS;
	if (out < 0)
		return fail(E_WRONG, "the kernel has no output");
	int rc = o->dev->write(o->mem[out], GUARD_BYTES, b->bufs[out], (int64_t)b->bytes[out]);
	for (int e = 0; e < o->nentries && rc >= 0; e++)
		rc = o->dev->start(o->launch[e]);
	bool refused = is_refusal(rc);
	if (rc >= 0 || refused) /* what came before the refused launch runs */
		rc = ended(o->dev->wait(o->unit, end_ns < deadline_ns ? end_ns : deadline_ns));
	if (rc >= 0 && refused) {
		*status = MEAS_INFEASIBLE;
		return E_OK;
	}
	if (rc == E_TIMEOUT && end_ns < deadline_ns) {
		*status = MEAS_TIMEOUT;
		return E_OK;
	}
	if (rc == E_TIMEOUT)
		return fail(E_TIMEOUT, "the deadline came while a candidate ran for the first time");
	o->run_ns = clock_now(&clock_real) - start_ns;
	if (rc >= 0)
		rc = check_guards(o, &b->m);
	if (rc >= 0)
		rc = o->dev->read(o->mem[out], GUARD_BYTES, b->bufs[out], (int64_t)b->bytes[out]);
	return ended(rc);
}
