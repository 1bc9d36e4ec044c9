/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded lives of honed's decisions: a board with random heat, load, files, flash and people, and jobs that
 * work, hang, crash or ignore messages. After each event the laws of agent/honed/honed.h are checked.
 * HONED_LIVES=N: number of lives; HONED_SEED=S: only that life, with its log.
 * Past 800 lines because all laws look at the one board and its lives. */
#include "agent/control/gate.h"
#include "agent/honed/honed.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"
#include <signal.h>

enum { PROCS = 24, STORES = 64, MODELS = 5, PEOPLE = 6 };
#define MS NS_PER_MS

enum nature { WORKS, CRASHES, HANGS, DEAF };
enum proc_state { P_NONE, P_STARTING, P_RUNS };

struct proc {
	enum proc_state state;
	enum nature nature;
	bool ours, stops, resting, stopped, told_stop, said_done, said_lasting;
	int number, conn, model;
	uint64_t cpus;
	const char *device; /* NULL: the processor */
	int64_t at_ns, until_ns, yield_ns, stopped_ns, told_ns, killed_ns;
	enum lease held, wants;
	int64_t held_ns, wants_ns;
	bool must, clean; /* must: its lease is certainly tainted; clean: it certainly is not */
	bool owes;        /* it must release a lease that was taken from it */
	int64_t lease_id, release_id, commit_id, job_id;
	int64_t puts; /* number of all puts when it asked for its commit */
};

struct life {
	struct honed *h;
	struct honed_options o;
	struct conf conf;
	struct conf_model model[MODELS];
	struct honed_model file[MODELS];
	struct rng rng;
	uint64_t seed;
	bool tell, left, bad, inhibited, closed, stopping;
	int64_t now_ns, end_ns, left_ns;
	struct vitals vitals;
	int looks, glances, reloads, closed_client; /* -1: none */
	struct proc proc[PROCS];
	struct {
		int64_t at_ns, ticket, puts;
	} store[STORES];
	int64_t puts, durable, id, world_ns, busy_ns;
	bool full;   /* the flash is full */
	bool unseen; /* the board changed, and honed has not looked since */
	bool person[PEOPLE];
	bool asked[1024]; /* jobs that people asked for, by number */
	int fails[MODELS];
	int64_t failed_ns[MODELS];
	bool lasting[MODELS]; /* it failed for good, until its file or the configuration changes */
	struct marks marks;
	int beside; /* leases of a device and of the processor that were held at once */
	int nmarks, starts, losses, commits, grants, tainted, yields, kills;
	bool hot;
};

static int64_t below(struct life *l, int64_t n)
{
	return n > 0 ? (int64_t)rng_below(&l->rng, (uint32_t)n) : 0;
}

static bool chance(struct life *l, int percent)
{
	return below(l, 100) < percent;
}

#define LAW(l, cond, ...)                                                                                    \
	do {                                                                                                 \
		if (!(cond) && !(l)->bad) {                                                                  \
			printf("seed %llu, %.3f s: %s: ", (unsigned long long)(l)->seed,                     \
			       (double)(l)->now_ns / 1e9, #cond);                                            \
			printf(__VA_ARGS__);                                                                 \
			printf("\n");                                                                        \
			(l)->bad = true;                                                                     \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)

#define TELL(l, ...)                                                                                         \
	do {                                                                                                 \
		if ((l)->tell) {                                                                             \
			printf("%10.3f ", (double)(l)->now_ns / 1e9);                                        \
			printf(__VA_ARGS__);                                                                 \
			printf("\n");                                                                        \
		}                                                                                            \
	} while (0)

static struct proc *by_number(struct life *l, int number)
{
	for (int i = 0; i < PROCS; i++)
		if (l->proc[i].state && l->proc[i].ours && l->proc[i].number == number)
			return &l->proc[i];
	return NULL;
}

static struct proc *by_conn(struct life *l, int conn)
{
	for (int i = 0; i < PROCS; i++)
		if (l->proc[i].state == P_RUNS && l->proc[i].conn == conn)
			return &l->proc[i];
	return NULL;
}

static bool same_device(const struct proc *a, const struct proc *b)
{
	return a->device && b->device && !strcmp(a->device, b->device);
}

/* By the words of control.h. */
static bool excludes(const struct proc *a, const struct proc *b)
{
	bool measures = a->held >= LEASE_MEASURE || b->held >= LEASE_MEASURE;
	bool quiet_cpu = (a->held == LEASE_QUIET && !a->device) || (b->held == LEASE_QUIET && !b->device);
	bool quiet = a->held == LEASE_QUIET || b->held == LEASE_QUIET;
	if (!a->held || !b->held)
		return false;
	if (quiet_cpu || (quiet && a->held >= LEASE_MEASURE && b->held >= LEASE_MEASURE))
		return true;
	return measures && ((a->cpus & b->cpus) || same_device(a, b));
}

static void check_leases(struct life *l)
{
	for (int i = 0; i < PROCS; i++)
		for (int k = i + 1; k < PROCS; k++) {
			const struct proc *a = &l->proc[i], *b = &l->proc[k];
			if ((a->stopped && a->held == LEASE_COMPUTE) ||
			    (b->stopped && b->held == LEASE_COMPUTE))
				continue; /* stopped midway for the other job */
			LAW(l, !excludes(a, b), "jobs %d and %d hold leases", a->number, b->number);
			l->beside += a->held && b->held && a->device && !b->device;
		}
}

/* Handles a message from honed to a job. */
static void hear(struct life *l, struct proc *p, const char *text)
{
	const char *at = strstr(text, "\"id\":");
	int64_t id = at ? atoll(at + 5) : 0;
	bool ok = strstr(text, "\"ok\":true");
	if (strstr(text, "\"event\":\"yield\"")) {
		p->resting = true;
		p->yield_ns = l->now_ns;
		p->must = p->must || p->held != LEASE_NONE;
		p->owes = p->owes || p->held != LEASE_NONE;
		p->held = p->ours ? p->held : LEASE_NONE;
		l->yields++;
	} else if (strstr(text, "\"event\":\"go on\"")) {
		LAW(l, !l->inhibited, "job %d goes on while inhibited", p->number);
		p->resting = false;
	} else if (strstr(text, "\"event\":\"stop\"")) {
		p->told_stop = true;
		p->resting = false;
		p->told_ns = l->now_ns;
	} else if (id && id == p->job_id && !ok) {
		*p = (struct proc){0};
	} else if (id && id == p->lease_id) {
		p->lease_id = 0;
		if (ok) {
			LAW(l, !p->resting, "job %d was given a lease while it rests", p->number);
			p->held = p->wants;
			p->held_ns = l->now_ns;
			p->must = false;
			p->clean = !l->unseen;
			l->grants++;
			check_leases(l);
		}
		p->wants = LEASE_NONE;
	} else if (id && id == p->release_id) {
		bool tainted = !strstr(text, "\"tainted\":false");
		LAW(l, !p->must || tainted, "job %d measured while the board changed: %s", p->number, text);
		LAW(l, !p->clean || !tainted || p->must, "job %d: tainted for nothing: %s", p->number, text);
		l->tainted += tainted;
		p->release_id = 0;
		p->held = LEASE_NONE;
		p->owes = p->must = false;
	} else if (id && id == p->commit_id) {
		p->commit_id = 0;
		LAW(l, !ok || l->durable >= p->puts, "job %d: %lld of %lld records are durable", p->number,
		    (long long)l->durable, (long long)p->puts);
		l->commits++;
	}
}

static void start(struct life *l, const struct honed_action *a)
{
	struct proc *p = l->proc;
	for (; p < l->proc + PROCS && p->state; p++)
		;
	LAW(l, p < l->proc + PROCS, "too many jobs");
	if (p == l->proc + PROCS)
		return;
	*p = (struct proc){.state = P_STARTING, .ours = true, .number = a->job, .model = -1};
	for (int i = 0; i < l->conf.nmodels; i++)
		if (a->model == &l->model[i])
			p->model = i;
	p->device = a->model->device;
	LAW(l, !p->device || (a->threads == 1 && a->ncpus == 1), "%d threads on %s", a->threads, p->device);
	for (int i = 0; i < a->ncpus; i++)
		p->cpus |= UINT64_C(1) << a->cpus[i];
	p->at_ns = l->now_ns + below(l, 20) * MS;
	p->until_ns = l->now_ns + a->budget_ns;
	p->stops = chance(l, 50);
	p->nature = chance(l, 70) ? WORKS : (enum nature)below(l, 4);
	l->starts++;
	LAW(l, a->budget_ns > 0, "a job without time");
	LAW(l, a->ncpus > 0, "a job without processors");
	LAW(l, !l->inhibited, "a job starts while inhibited");
	if (l->o.mode == HONED_BOX)
		LAW(l, p->until_ns <= l->o.box_ns, "a job for longer than the box");
	if (l->o.mode == HONED_BOX)
		LAW(l, l->nmarks, "a box starts a job before its marks");
	LAW(l, p->model < 0 || !l->lasting[p->model] || l->asked[p->number & 1023],
	    "model %d is started again after a lasting failure", p->model);
	if (p->model >= 0 && l->fails[p->model] && !l->asked[p->number & 1023]) {
		int64_t pause = 10 * NS_PER_S << (l->fails[p->model] < 9 ? l->fails[p->model] - 1 : 8);
		LAW(l, l->now_ns - l->failed_ns[p->model] >= pause, "model %d failed %d times", p->model,
		    l->fails[p->model]);
	}
}

static void signalled(struct life *l, const struct honed_action *a)
{
	struct proc *p = by_number(l, a->job);
	if (!p)
		return;
	if (a->signal == SIGKILL && !p->killed_ns) {
		p->killed_ns = l->now_ns;
		p->at_ns = l->now_ns + below(l, 3) * MS;
		l->kills++;
	}
	if (a->signal == SIGSTOP) {
		p->stopped = true;
		p->stopped_ns = l->now_ns;
		p->held = p->resting ? LEASE_NONE : p->held;
	}
	if (a->signal == SIGCONT) {
		p->stopped = false;
		check_leases(l);
	}
}

static void commit(struct life *l, const struct honed_action *a)
{
	int i = 0;
	while (i < STORES && l->store[i].ticket)
		i++;
	LAW(l, i < STORES, "too many commits");
	if (i == STORES)
		return;
	int64_t at = l->now_ns + below(l, 50) * MS;
	for (int k = 0; k < STORES; k++) /* stores end in order */
		if (l->store[k].ticket && l->store[k].at_ns > at)
			at = l->store[k].at_ns;
	l->store[i].at_ns = at;
	l->store[i].ticket = a->ticket;
	l->store[i].puts = l->puts;
}

static void act(void *ctx, const struct honed_action *a)
{
	struct life *l = ctx;
	struct proc *p;
	LAW(l, !l->left, "action %d after the end", a->kind);
	switch (a->kind) {
	case HA_SEND:
		TELL(l, "< %d %.100s", a->client, a->text);
		LAW(l,
		    strlen(a->text) <= CONTROL_SAID && strchr(a->text, '\n') == a->text + strlen(a->text) - 1,
		    "a line that is none");
		if (a->client < PEOPLE && strstr(a->text, "\"job\":"))
			l->asked[atoi(strstr(a->text, "\"job\":") + 6) & 1023] = true;
		p = by_conn(l, a->client);
		if (p)
			hear(l, p, a->text);
		break;
	case HA_CLOSE:
		l->closed_client = a->client;
		break;
	case HA_LOOK:
		l->looks++;
		break;
	case HA_GLANCE:
		l->glances++;
		break;
	case HA_START:
		TELL(l, "start %d %s for %lld ms", a->job, a->model->name, (long long)(a->budget_ns / MS));
		start(l, a);
		break;
	case HA_SIGNAL:
		TELL(l, "signal %d to %d", a->signal, a->job);
		signalled(l, a);
		break;
	case HA_PUT:
		l->puts++;
		break;
	case HA_COMMIT:
		commit(l, a);
		break;
	case HA_MARKS:
		l->marks = *a->marks;
		l->nmarks++;
		break;
	case HA_RELOAD:
		l->reloads++;
		break;
	case HA_LEAVE:
		TELL(l, "leave");
		l->left = true;
		l->left_ns = l->now_ns;
		break;
	case HA_STATUS:
	case HA_LOG:
		TELL(l, "%s", a->text);
		break;
	default:
		break;
	}
}

/* Checks after each event what must always hold. */
static void check(struct life *l)
{
	if (l->left)
		return;
	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &l->proc[i];
		if (p->state != P_RUNS || p->killed_ns)
			continue;
		if (l->closed)
			LAW(l, p->resting || p->told_stop, "job %d runs while the gate is closed", p->number);
		if (p->resting && p->ours && !p->stopped)
			LAW(l, l->now_ns <= p->yield_ns + HONED_YIELD_NS + MS, "job %d was not stopped",
			    p->number);
		if (p->resting && p->ours)
			LAW(l, l->now_ns <= p->yield_ns + HONED_REST_NS + MS, "job %d rests for ever",
			    p->number);
		if (p->lease_id && !p->resting && !p->told_stop)
			LAW(l, l->now_ns - p->wants_ns < 100 * NS_PER_S,
			    "job %d waits for its lease for ever", p->number);
	}
	if (l->o.mode == HONED_BOX)
		for (int i = 0; i < PROCS; i++)
			LAW(l, !l->proc[i].state || !l->proc[i].ours || l->now_ns <= l->o.box_ns + 20 * MS,
			    "job %d outlives its box", l->proc[i].number);
}

static void event(struct life *l, struct honed_event e)
{
	if (l->left)
		return;
	if (e.kind == HE_VITALS)
		l->closed = l->hot || l->inhibited;
	honed_event(l->h, l->now_ns, &e);
	while (!l->left && (l->looks || l->glances || l->reloads)) {
		struct honed_event f = {.kind = l->looks ? HE_VITALS : l->glances ? HE_GLANCE : HE_CONF};
		int *of = l->looks ? &l->looks : l->glances ? &l->glances : &l->reloads;
		--*of;
		l->unseen = false;
		f.vitals = &l->vitals;
		f.own_ns = l->busy_ns;
		f.minute = 100;
		if (f.kind == HE_CONF && chance(l, 50)) {
			f.conf = &l->conf;
			f.nmodels = l->conf.nmodels;
			f.model = l->file;
			memset(l->lasting, 0, sizeof l->lasting);
		} else if (f.kind == HE_CONF) {
			f.rc = E_USAGE;
			f.text = "no";
		}
		if (f.kind == HE_VITALS)
			l->closed = l->hot || l->inhibited;
		honed_event(l->h, l->now_ns, &f);
	}
	check(l);
	if (l->closed_client >= 0) {
		int client = l->closed_client;
		l->closed_client = -1;
		honed_event(l->h, l->now_ns, &(struct honed_event){.kind = HE_GONE, .client = client});
	}
}

static void ask(struct life *l, int conn, struct request r)
{
	char payload[16] = "";
	r.has_id = r.op != OP_PROGRESS && r.op != OP_DONE;
	TELL(l, "> %d op %d id %lld", conn, r.op, (long long)r.id);
	event(l, (struct honed_event){.kind = HE_REQUEST,
				      .client = conn,
				      .request = &r,
				      .payload = {payload, r.op == OP_PUT ? (size_t)r.bytes : 0}});
}

static void ends(struct life *l, struct proc *p, int rc, const char *text)
{
	struct proc was = *p;
	bool failed = rc < 0 && !was.killed_ns && !was.told_stop;
	if (was.ours && was.model >= 0 && failed)
		l->failed_ns[was.model] = l->now_ns;
	if (was.ours && was.model >= 0 && failed && was.said_lasting) {
		l->lasting[was.model] = true;
		l->losses++;
	}
	*p = (struct proc){0};
	if (was.state == P_RUNS)
		event(l, (struct honed_event){.kind = HE_GONE, .client = was.conn});
	if (was.ours)
		event(l, (struct honed_event){.kind = HE_ENDED, .job = was.number, .rc = rc, .text = text});
	if (failed && was.ours && was.model >= 0)
		l->fails[was.model]++;
}

static void done(struct life *l, struct proc *p)
{
	struct request r = {.op = OP_DONE, .trials = 20, .before_ms = 5, .default_ms = 6};
	r.now_ms = chance(l, 50) ? 4 : 5;
	r.missing = chance(l, 20);
	r.promise = chance(l, 30) ? 0 : rng_unit(&l->rng);
	if (p->model >= 0)
		l->fails[p->model] = l->lasting[p->model] = 0;
	p->said_done = true;
	ask(l, p->conn, r);
}

/* A job's next step when it is able to act. */
static void works(struct life *l, struct proc *p)
{
	if (p->told_stop || l->now_ns >= p->until_ns) {
		if (!p->said_done)
			done(l, p);
		if (p->state == P_RUNS)
			ends(l, p, E_OK, NULL);
		return;
	}
	if (p->release_id || p->lease_id || p->commit_id)
		return;
	if (p->held || p->owes) {
		if ((p->held == LEASE_MEASURE || p->held == LEASE_QUIET) &&
		    chance(l, 3)) { /* the board throttles during its measurement */
			l->vitals.throttled++;
			l->unseen = true;
			for (int i = 0; i < PROCS; i++) {
				l->proc[i].clean = false;
				if (l->proc[i].held == LEASE_MEASURE || l->proc[i].held == LEASE_QUIET)
					l->proc[i].must = true;
			}
		}
		p->release_id = ++l->id;
		ask(l, p->conn, (struct request){.op = OP_RELEASE, .id = p->release_id});
		return;
	}
	switch (below(l, 5)) {
	case 0:
		/* A record that another's job puts during honed's last commit is not saved. The job gets no
		 * answer to its own commit, so it puts the record again when honed is gone. */
		if (!p->ours && l->stopping)
			break;
		ask(l, p->conn, (struct request){.op = OP_PUT, .id = ++l->id, .type = 1, .bytes = 9});
		break;
	case 1:
		p->commit_id = ++l->id;
		p->puts = l->puts;
		ask(l, p->conn, (struct request){.op = OP_COMMIT, .id = p->commit_id});
		break;
	case 2:
		ask(l, p->conn,
		    (struct request){.op = OP_PROGRESS, .trials = 1, .before_ms = 5, .now_ms = 4});
		break;
	default:
		p->lease_id = ++l->id;
		p->wants_ns = l->now_ns;
		p->wants = (enum lease)(1 + below(l, 3));
		ask(l, p->conn,
		    (struct request){
			.op = OP_LEASE, .id = p->lease_id, .lease = p->wants, .stops = p->stops});
		break;
	}
}

static void step_proc(struct life *l, struct proc *p)
{
	if (p->killed_ns) {
		ends(l, p, E_CHILD, "killed");
		return;
	}
	if (p->state == P_STARTING) {
		if (p->nature == CRASHES && chance(l, 50)) {
			ends(l, p, E_IO, "no such program");
			return;
		}
		p->state = P_RUNS;
		p->conn = 1000 + p->number;
		p->at_ns = l->now_ns + below(l, 30) * MS;
		event(l, (struct honed_event){
			     .kind = HE_STARTED, .job = p->number, .pid = p->number, .client = p->conn});
		return;
	}
	p->at_ns = l->now_ns + (1 + below(l, 60)) * MS;
	if (p->stopped || (p->resting && !p->told_stop))
		return;
	if (p->nature == CRASHES && p->ours && chance(l, 5)) {
		p->said_lasting = true;
		ask(l, p->conn, (struct request){.op = OP_DONE, .lasting = true});
		if (p->state == P_RUNS)
			ends(l, p, E_CHILD, "the file is damaged");
		return;
	}
	if (p->nature == CRASHES && chance(l, 5)) {
		ends(l, p, E_CHILD, "signal 11");
		return;
	}
	if (p->nature == HANGS || (p->nature == DEAF && l->now_ns >= p->until_ns))
		p->at_ns = l->now_ns + NS_PER_S;
	else
		works(l, p);
}

static void step_store(struct life *l, int i)
{
	int64_t ticket = l->store[i].ticket, puts = l->store[i].puts;
	bool fails = l->full;
	l->store[i].ticket = 0;
	if (!fails && puts > l->durable)
		l->durable = puts;
	event(l, (struct honed_event){.kind = HE_STORED,
				      .ticket = ticket,
				      .rc = fails ? E_IO : E_OK,
				      .text = fails ? "no space left on device" : NULL,
				      .generation = (uint64_t)ticket,
				      .written_bytes = l->puts * 4096});
}

static void toggle_hot(struct life *l)
{
	l->hot = !l->hot;
	l->vitals.headroom_mc = l->hot ? 1000 : 40000;
	l->vitals.temp_mc = 85000 - l->vitals.headroom_mc;
	if (l->hot && chance(l, 20))
		l->vitals.memory_free_bytes = 10 << 20;
	else
		l->vitals.memory_free_bytes = INT64_C(2) << 30;
	for (int i = 0; i < PROCS; i++)
		l->proc[i].clean = false;
	if (chance(l, 50))
		event(l, (struct honed_event){
			     .kind = HE_VITALS, .vitals = &l->vitals, .own_ns = l->busy_ns, .minute = 100});
}

static void people(struct life *l)
{
	int i = (int)below(l, PEOPLE), op = (int)below(l, OP_COUNT);
	if (!l->person[i]) {
		l->person[i] = true;
		event(l, (struct honed_event){
			     .kind = HE_CLIENT, .client = i, .peer = {1, (uid_t)(i % 3 * 500), i % 3 == 0}});
		return;
	}
	if (chance(l, 15)) {
		struct proc *p = by_conn(l, i);
		l->person[i] = false;
		if (p)
			*p = (struct proc){0};
		event(l, (struct honed_event){.kind = HE_GONE, .client = i});
		return;
	}
	struct request r = {
	    .op = (enum control_op)op, .id = ++l->id, .version = 1, .ms = 1 + below(l, 20000)};
	r.now = chance(l, 50);
	r.job = below(l, 30);
	r.lease = (enum lease)below(l, 4);
	r.type = (int)below(l, 8);
	r.threads = (int)below(l, 3);
	snprintf(r.model, sizeof r.model, "%s", chance(l, 50) ? "/m/0" : "/other");
	snprintf(r.text, sizeof r.text, "%s",
		 op == OP_WAIT   ? "ready"
		 : chance(l, 50) ? "arm\033[1m moves"
				 : "");
	if (op == OP_INHIBIT || op == OP_RESUME || op == OP_RELOAD || (op >= OP_JOB && op != OP_PROGRESS))
		return; /* handled elsewhere, because the laws must know of these */
	ask(l, i, r);
}

/* Starts a job by hand, as a user does. */
static void user_job(struct life *l)
{
	struct proc *p = l->proc;
	int conn = 5000 + (int)++l->id;
	for (; p < l->proc + PROCS && p->state; p++)
		;
	if (p == l->proc + PROCS || l->left)
		return;
	*p = (struct proc){
	    .state = P_STARTING, .number = -conn, .conn = conn, .model = -1, .cpus = ~UINT64_C(0)};
	p->at_ns = l->now_ns + MS;
	p->until_ns = l->now_ns + 5 * NS_PER_S;
	event(l, (struct honed_event){.kind = HE_CLIENT, .client = conn, .peer = {1, 0, true}});
	struct request r = {.op = OP_JOB, .id = ++l->id, .job = conn};
	snprintf(r.model, sizeof r.model, "/by/hand");
	if (chance(l, 30)) {
		strcpy(r.device, "opencl:0");
		p->device = "opencl:0";
	}
	p->state = P_RUNS;
	p->job_id = r.id;
	ask(l, conn, r);
}

static void toggle_inhibit(struct life *l)
{
	struct request r = {.op = l->inhibited ? OP_RESUME : OP_INHIBIT, .id = ++l->id};
	snprintf(r.text, sizeof r.text, "%s", l->inhibited ? "" : "the arm moves");
	event(l, (struct honed_event){.kind = HE_CLIENT, .client = 900, .peer = {1, 0, true}});
	l->inhibited = !l->inhibited;
	l->closed = l->inhibited || l->closed;
	for (int i = 0; i < PROCS; i++)
		l->proc[i].clean = false;
	ask(l, 900, r);
}

static void world(struct life *l)
{
	l->world_ns = l->now_ns + below(l, 3000) * MS;
	switch (below(l, 12)) {
	case 0:
	case 1:
		toggle_hot(l);
		break;
	case 2:
		toggle_inhibit(l);
		break;
	case 3:
		l->full = chance(l, 30);
		break;
	case 4:
		if (l->conf.nmodels) {
			int i = (int)below(l, l->conf.nmodels), changed = chance(l, 50);
			l->file[i].key.lo += (uint64_t)changed;
			l->lasting[i] &= !changed;
			memset(l->fails, 0, sizeof l->fails);
		}
		event(l,
		      (struct honed_event){.kind = HE_MODELS, .nmodels = l->conf.nmodels, .model = l->file});
		break;
	case 5:
		user_job(l);
		break;
	case 6: /* invalid events */
		event(l, (struct honed_event){.kind = HE_ENDED, .job = 99999, .rc = -1});
		event(l, (struct honed_event){.kind = HE_GONE, .client = 77777});
		event(l, (struct honed_event){.kind = HE_STARTED, .job = 99999, .client = 88888});
		event(l, (struct honed_event){.kind = HE_STORED, .ticket = 99999});
		event(l,
		      (struct honed_event){.kind = HE_BROKEN, .client = 901, .rc = E_CORRUPT, .text = "no"});
		break;
	default:
		people(l);
	}
}

static int64_t soonest(const struct life *l)
{
	int64_t at = honed_wakeup(l->h) < l->now_ns ? l->now_ns : honed_wakeup(l->h);
	at = l->world_ns < at ? l->world_ns : at;
	for (int i = 0; i < PROCS; i++)
		if (l->proc[i].state && l->proc[i].at_ns < at)
			at = l->proc[i].at_ns;
	for (int i = 0; i < STORES; i++)
		if (l->store[i].ticket && l->store[i].at_ns < at)
			at = l->store[i].at_ns;
	return at;
}

static void step(struct life *l)
{
	int64_t at = soonest(l);
	l->busy_ns += at - l->now_ns;
	l->now_ns = at;
	if (honed_wakeup(l->h) <= at) {
		event(l, (struct honed_event){.kind = HE_TIMER});
		LAW(l, l->left || honed_wakeup(l->h) > at, "a timer that is due for ever");
	}
	for (int i = 0; i < STORES; i++)
		if (l->store[i].ticket && l->store[i].at_ns <= at)
			step_store(l, i);
	for (int i = 0; i < PROCS; i++)
		if (l->proc[i].state && l->proc[i].at_ns <= at)
			step_proc(l, &l->proc[i]);
	if (l->world_ns <= at)
		world(l);
}

static void begin(struct life *l, uint64_t seed)
{
	static const char *const paths[] = {"/m/0", "/m/1", "/m/2", "/m/3", "/m/4"};
	static const char *const devices[] = {NULL, NULL, "opencl:0", "opencl:1"};
	*l = (struct life){.closed_client = -1, .seed = seed, .now_ns = NS_PER_S, .tell = l->tell};
	rng_seed(&l->rng, seed);
	l->conf = (struct conf){.boot_jobs = (int)below(l, 4),
				.boot_unclean = 3,
				.idle = true,
				.slice_ns = (1 + below(l, 20)) * NS_PER_S,
				.rest_ns = (1 + below(l, 60)) * NS_PER_S,
				.job_memory_bytes = 512 << 20,
				.writes_bytes = chance(l, 20) ? 400 << 10 : 0,
				.jobs = (int)below(l, 4),
				.nmodels = (int)below(l, MODELS + 1),
				.boot_budget_ns = 10 * NS_PER_S,
				.model = l->model};
	l->conf.gate.settle_ns = below(l, 3) * NS_PER_S;
	for (int i = 0; i < l->conf.nmodels; i++) {
		l->model[i] = (struct conf_model){.name = paths[i] + 3,
						  .path = paths[i],
						  .device = devices[below(l, 4)],
						  .threads = (int)below(l, 4),
						  .priority = (int)below(l, 3)};
		l->file[i].key = (struct key){7, (uint64_t)i * 1000};
		l->file[i].refused = chance(l, 5) ? "no such file" : NULL;
	}
	l->vitals = (struct vitals){.has = VITAL_HEAT | VITAL_MEMORY | VITAL_THROTTLE,
				    .cpus = 4,
				    .headroom_mc = 40000,
				    .memory_free_bytes = INT64_C(2) << 30,
				    .memory_bytes = INT64_C(4) << 30};
	l->o = (struct honed_options){.mode = chance(l, 40) ? HONED_BOX : HONED_RESIDENT,
				      .conf = &l->conf,
				      .now_ns = l->now_ns,
				      .box_ns = l->now_ns + (1 + below(l, 25)) * NS_PER_S,
				      .ncpus = 1 + (int)below(l, 6),
				      .cpus = {0, 1, 2, 3, 4, 5},
				      .uid = 500,
				      .ctx = l,
				      .act = act};
	l->end_ns = l->now_ns + 120 * NS_PER_S;
}

/* At the end honed is told to stop: it leaves in time, and everything that could be saved is saved. */
static void finish(struct life *l)
{
	int64_t told = l->now_ns;
	l->world_ns = INT64_MAX;
	l->stopping = true;
	event(l, (struct honed_event){.kind = HE_STOP});
	while (!l->left && l->now_ns < told + 60 * NS_PER_S && !l->bad)
		step(l);
	LAW(l, l->left, "it does not end");
	for (int i = 0; i < PROCS; i++)
		LAW(l,
		    !l->proc[i].state || !l->proc[i].ours || l->proc[i].killed_ns || l->o.mode == HONED_BOX,
		    "job %d is left alive", l->proc[i].number);
	if (l->o.mode == HONED_RESIDENT)
		LAW(l, l->full || l->durable == l->puts, "%lld of %lld records were saved",
		    (long long)l->durable, (long long)l->puts);
}

static void live(struct life *l, uint64_t seed)
{
	begin(l, seed);
	CHECK_OK(honed_open(&l->o, &l->h));
	event(l, (struct honed_event){.kind = HE_START, .nmodels = l->conf.nmodels, .model = l->file});
	while (!l->left && l->now_ns < l->end_ns && !l->bad)
		step(l);
	if (l->o.mode == HONED_BOX) {
		LAW(l, l->left, "a box without an end");
		LAW(l, l->left_ns <= l->o.box_ns + 20 * MS, "a box that was left late");
		LAW(l, !l->nmarks || l->marks.unclean == 0, "a box that does not know that it ended");
	}
	if (!l->left)
		finish(l);
	honed_close(l->h);
}

TEST(lives)
{
	static struct life l;
	const char *n = getenv("HONED_LIVES"), *s = getenv("HONED_SEED");
	int lives = n ? atoi(n) : 1000, starts = 0, grants = 0, commits = 0, yields = 0, tainted = 0,
	    kills = 0, beside = 0, losses = 0;
	l.tell = s;
	for (int i = 0; i < (s ? 1 : lives) && !l.bad; i++) {
		live(&l, s ? (uint64_t)atoll(s) : (uint64_t)i + 1);
		starts += l.starts;
		grants += l.grants;
		commits += l.commits;
		yields += l.yields;
		tainted += l.tainted;
		kills += l.kills;
		beside += l.beside;
		losses += l.losses;
	}
	printf("%d lives: %d starts, %d leases (two devices at once %d times), %d tainted, %d commits, %d "
	       "yields, %d kills, %d lasting failures\n",
	       lives, starts, grants, beside, tainted, commits, yields, kills, losses);
	CHECK(s || (starts > lives && grants > lives && commits > lives && yields > lives &&
		    tainted > lives / 4 && beside > lives && losses > lives / 50));
}

TEST_MAIN
