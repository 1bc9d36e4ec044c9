/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/jobs_sim.h"

#include "agent/honed/honed.h"
#include "agent/control/policy.h"
#include "platform/base/rng.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Quantiles of a stage's duration: 5, 25, 50, 75, 95 and 100 %. */
enum { QUANTILES = 6 };

struct net {
	const char *name;
	int tasks, trials;
	double start_ms[4];       /* peaks and the network before; import; the network after */
	double build[QUANTILES];  /* including the check */
	double timing[QUANTILES]; /* one candidate */
	double race[QUANTILES];   /* one call; a slice ends with some calls */
	double first_ms, won;     /* first_ms: network with default schedules; won: share of it that search
				   * gains */
	double bare;              /* network without kernels, as a multiple of first_ms */
};

/* hone tune --budget 20s --threads 1 --builders 0 on one core of a server (AVX-512). */
static const struct net nets[SIM_NETS] = {
    {"mobilenet_v2",
     27,
     1190,
     {322, 64, 290, 883},
     {0.8, 5.1, 7.0, 11.3, 21.4, 57},
     {0.3, 0.6, 0.9, 1.4, 3.4, 7.7},
     {2.0, 4.1, 7.0, 14.0, 23.8, 71},
     4.21,
     0.04,
     1.8},
    {"squeezenet1_1",
     20,
     835,
     {323, 51, 242, 775},
     {1.6, 6.8, 12.6, 17.4, 23.9, 44},
     {0.3, 0.6, 1.4, 2.1, 7.5, 27},
     {1.5, 4.1, 8.2, 16.7, 48.5, 73},
     3.29,
     0.03,
     3.6},
    {"resnet18",
     22,
     405,
     {330, 135, 288, 1837},
     {7.7, 13.7, 19.1, 29.0, 57.5, 141},
     {2.6, 3.6, 4.8, 7.1, 11.1, 17.2},
     {12.5, 22, 31, 59, 87, 90},
     12.1,
     0.03,
     3.6},
    {"yunet_n",
     55,
     2022,
     {330, 27, 134, 342},
     {0.5, 2.8, 4.6, 7.0, 15.1, 44},
     {0.04, 0.3, 0.5, 0.8, 3.4, 6.2},
     {0.2, 1.7, 3.5, 5.1, 20.7, 68},
     1.98,
     0.05,
     1.5},
};

#define OWN_NS (300 * NS_PER_US) /* own work between two leases: search, and asking for them */
#define TAINTED_NS (10 * NS_PER_MS)
#define BESIDE 0.03 /* slowdown of a processor per other processor in use */
#define CHECKS 0.22 /* share of a build that is the check; the rest can be made ahead */
enum { SLICE = 10, STEPS = 1 << 24, ACTIONS = 256, BUILDERS = 2 };

enum does { DOES_NOTHING, DOES_OWN, DOES_ASK, DOES_WORK, DOES_WAIT, DOES_RELEASE };
/* FIELD: selects the candidates of the race. */
enum phase { PEAKS, IMPORT, BEFORE, BUILD, TIMING, FIELD, RACE, AFTER, ENDED };

struct builder {
	int cpu;
	int64_t left_ns; /* 0: idle */
};

struct sim_job {
	const struct net *net;
	struct rng rng;
	int number, client, cpu;
	enum does does;
	bool alive, stopped, told_to_stop;
	enum phase phase;
	enum lease lease;
	int64_t left_ns, takes_ns, asked_ns, id;
	int trials, fields, races;
	int nbuilders, fresh, made; /* candidates not yet begun; candidates that builders have made */
	struct builder builder[BUILDERS];
	int64_t end_ns; /* end of its slice */
	bool late;
	double before_ms;
	int64_t ended_ns, good_ns, worked_ns; /* worked: sum of its stages' durations without disturbance */
	int64_t alone_good_ns;
};

struct sim {
	const struct sim_want *want;
	struct sim_told *told;
	struct honed *honed;
	struct conf conf;
	struct conf_model model[SIM_JOBS];
	struct honed_model known[SIM_JOBS];
	char name[SIM_JOBS][32];
	struct sim_job job[SIM_JOBS];
	double behind; /* slowdown summed over time, ns x share */
	int64_t now_ns, draining_ns, idle_ns, quiet_ns, longest_ns;
	bool left;
	int first, n;
	struct honed_action action[ACTIONS]; /* ring of actions; their pointers are not valid any more */
	char *text[ACTIONS];
	uint64_t cpus[ACTIONS];
};

/* ---- a job ---- */

static int64_t draw(struct rng *r, const double q[QUANTILES])
{
	static const double at[QUANTILES] = {0.05, 0.25, 0.5, 0.75, 0.95, 1};
	double u = rng_unit(r), ms = q[0];
	for (int i = 1; i < QUANTILES && u > at[i - 1]; i++)
		ms = q[i - 1] + (q[i] - q[i - 1]) * fmin(1, (u - at[i - 1]) / (at[i] - at[i - 1]));
	return (int64_t)(ms * NS_PER_MS);
}

/* The lease that a phase takes. Defaults are measured alone on the machine. */
static enum lease lease_of(const struct sim_job *j)
{
	static const enum lease of[] = {LEASE_QUIET,   LEASE_COMPUTE, LEASE_QUIET, LEASE_COMPUTE,
					LEASE_MEASURE, LEASE_MEASURE, LEASE_QUIET, LEASE_QUIET};
	return j->phase == TIMING && j->trials < j->net->tasks ? LEASE_QUIET : of[j->phase];
}

static int64_t takes_ns(struct sim_job *j)
{
	const struct net *n = j->net;
	switch (j->phase) {
	case BUILD:
		return draw(&j->rng, n->build);
	case TIMING:
		return draw(&j->rng, n->timing);
	case FIELD:
	case RACE:
		return draw(&j->rng, n->race);
	default:
		return (int64_t)(n->start_ms[j->phase == AFTER ? 3 : j->phase] * NS_PER_MS);
	}
}

/* Share of the search's total gain that is reached after the trials so far. */
static double won(const struct sim_job *j)
{
	double searched = j->trials - j->net->tasks;
	return searched <= 0 ? 0 : 1 - exp(-4 * searched / (j->net->trials - j->net->tasks));
}

static double ms_of(const struct sim_job *j)
{
	bool bare = j->trials < j->net->tasks;
	return j->net->first_ms * (bare ? j->net->bare : 1 - j->net->won * won(j));
}

static double best_ms(const struct net *n)
{
	return n->first_ms * (1 - n->won);
}

static bool is_good(const struct sim_job *j)
{
	return ms_of(j) <= best_ms(j->net) / 0.99;
}

/* Candidates are known from the beginning of a slice, defaults from the beginning of the job. */
static enum phase build_or_end(struct sim_job *j)
{
	const struct net *n = j->net;
	int searched = j->trials - n->tasks, left = n->trials - j->trials;
	if (left <= 0 || j->late)
		return AFTER;
	if (searched >= 0 && searched % SLICE == 0)
		j->fresh = left < SLICE ? left : SLICE;
	return BUILD;
}

static enum phase after_timing(struct sim_job *j)
{
	int searched = ++j->trials - j->net->tasks;
	if (searched <= 0 || searched % SLICE)
		return build_or_end(j);
	int calls = 2 + (int)rng_below(&j->rng, 4);
	j->fields = calls < 3 ? calls : 2;
	j->races = calls - j->fields;
	return FIELD;
}

static enum phase next_phase(struct sim_job *j)
{
	switch (j->phase) {
	case BEFORE:
		j->fresh = j->net->tasks - j->trials > 0 ? j->net->tasks - j->trials : 0;
		return build_or_end(j);
	case TIMING:
		return after_timing(j);
	case FIELD:
		return --j->fields ? FIELD : j->races ? RACE : build_or_end(j);
	case RACE:
		return --j->races ? RACE : build_or_end(j);
	default:
		return j->phase + 1;
	}
}

/* Gives idle builders of the job their next candidate. */
static void feed_builders(struct sim_job *j)
{
	for (int i = 0; i < j->nbuilders; i++) {
		struct builder *b = &j->builder[i];
		if (b->left_ns > 0 || !j->fresh || j->made > 2 * j->nbuilders || j->phase >= AFTER)
			continue;
		b->left_ns = (int64_t)((1 - CHECKS) * (double)draw(&j->rng, j->net->build));
		j->worked_ns += b->left_ns;
		j->fresh--;
	}
}

static bool builds_ahead(const struct sim_job *j)
{
	bool any = false;
	for (int i = 0; i < j->nbuilders; i++)
		any |= j->builder[i].left_ns > 0;
	return any;
}

/* Checks a candidate that a builder has made; else makes one here, or waits for the builders if there is no
 * other. */
static enum does begin_build(struct sim_job *j)
{
	if (!j->made && j->fresh > 0) {
		j->fresh--;
		return DOES_WORK;
	}
	if (!j->made && !builds_ahead(j))
		return DOES_WORK;
	if (!j->made)
		return DOES_WAIT;
	j->made--;
	j->worked_ns -= (int64_t)((1 - CHECKS) * (double)j->takes_ns);
	j->takes_ns = (int64_t)(CHECKS * (double)j->takes_ns);
	return DOES_WORK;
}

static void begin(struct sim_job *j, int64_t own_ns)
{
	j->does = DOES_OWN;
	j->left_ns = own_ns;
}

static void go_on(struct sim_job *j)
{
	j->phase = next_phase(j);
	if (j->phase == ENDED)
		return;
	j->takes_ns = takes_ns(j);
	j->worked_ns += OWN_NS + j->takes_ns;
	begin(j, OWN_NS);
}

/* ---- honed ---- */

static void tell(struct sim *s, struct honed_event e);

static void say(struct sim *s, struct sim_job *j, struct request q)
{
	q.has_id = true;
	q.id = ++j->id;
	tell(s, (struct honed_event){.kind = HE_REQUEST, .client = j->client, .request = &q});
}

static void end_job(struct sim *s, struct sim_job *j)
{
	double ms = ms_of(j), left = 1 - best_ms(j->net) / ms;
	say(s, j,
	    (struct request){.op = OP_DONE,
			     .trials = j->trials,
			     .before_ms = j->before_ms,
			     .default_ms = j->net->first_ms,
			     .now_ms = ms,
			     .promise = j->trials < j->net->trials ? left : 0});
	j->alive = false;
	j->ended_ns = s->now_ns;
	tell(s, (struct honed_event){.kind = HE_GONE, .client = j->client});
	tell(s, (struct honed_event){.kind = HE_ENDED, .job = j->number});
}

static bool excludes(const struct sim_job *a, const struct sim_job *b)
{
	enum lease most = a->lease > b->lease ? a->lease : b->lease;
	return most == LEASE_QUIET || (most == LEASE_MEASURE && a->cpu == b->cpu);
}

static void check_alone(struct sim *s, const struct sim_job *j)
{
	for (int i = 0; i < s->want->jobs; i++) {
		const struct sim_job *o = &s->job[i];
		s->told->both += o != j && o->alive && o->does == DOES_WORK && !o->stopped && excludes(o, j);
	}
}

static void granted(struct sim *s, struct sim_job *j)
{
	int64_t waited_ns = s->now_ns - j->asked_ns;
	s->longest_ns = waited_ns > s->longest_ns ? waited_ns : s->longest_ns;
	s->told->leases++;
	check_alone(s, j);
	j->does = j->phase == BUILD ? begin_build(j) : DOES_WORK;
	j->left_ns = j->takes_ns;
	feed_builders(j);
}

static void released(struct sim *s, struct sim_job *j, bool tainted)
{
	if (tainted) {
		begin(j, TAINTED_NS);
		return;
	}
	bool measured = j->phase == TIMING;
	j->late = s->now_ns >= j->end_ns;
	go_on(j);
	if (j->phase == ENDED) {
		end_job(s, j);
		return;
	}
	if (!j->good_ns && is_good(j)) {
		j->good_ns = s->now_ns;
		j->alone_good_ns = j->worked_ns;
	}
	if (measured)
		say(s, j,
		    (struct request){
			.op = OP_PROGRESS, .ntasks = j->net->tasks, .trials = j->trials, .now_ms = ms_of(j)});
}

static void hear(struct sim *s, struct sim_job *j, const char *text)
{
	char id[32];
	snprintf(id, sizeof id, "\"id\":%lld,", (long long)j->id);
	if (strstr(text, "\"event\":\"stop\""))
		j->told_to_stop = true;
	if (!strstr(text, id))
		return;
	if (j->does == DOES_ASK && strstr(text, "\"ok\":true"))
		granted(s, j);
	else if (j->does == DOES_RELEASE)
		released(s, j, !strstr(text, "\"tainted\":false"));
}

static void look(struct sim *s, enum honed_event_kind kind)
{
	int n = s->want->cores;
	const struct vitals v = {.has = VITAL_LOAD | VITAL_MEMORY,
				 .at_ns = s->now_ns,
				 .cpus = n,
				 .total_ns = s->now_ns * n,
				 .memory_free_bytes = INT64_C(8) << 30,
				 .memory_bytes = INT64_C(16) << 30};
	tell(s, (struct honed_event){.kind = kind, .vitals = &v, .minute = -1});
}

/* Starts or resumes a job: a slice continues where the last one ended. */
static void start_job(struct sim *s, const struct honed_action *a, uint64_t cpus)
{
	int i = (int)(a->model - s->model);
	struct sim_job *j = &s->job[i];
	j->number = j->client = a->job;
	j->cpu = __builtin_ctzll(cpus);
	j->nbuilders = 0;
	for (cpus &= cpus - 1; cpus && j->nbuilders < BUILDERS; cpus &= cpus - 1)
		j->builder[j->nbuilders++] = (struct builder){.cpu = __builtin_ctzll(cpus)};
	j->made = 0;
	j->alive = true;
	j->stopped = j->late = false;
	j->before_ms = ms_of(j);
	j->end_ns = s->now_ns + a->budget_ns;
	j->phase = j->trials ? IMPORT : PEAKS;
	j->takes_ns = takes_ns(j);
	j->worked_ns += OWN_NS + j->takes_ns;
	begin(j, OWN_NS);
	tell(s,
	     (struct honed_event){.kind = HE_STARTED, .job = a->job, .pid = 1000 + a->job, .client = a->job});
}

static void do_action(struct sim *s, const struct honed_action *a, const char *text, uint64_t cpus)
{
	struct sim_job *j = s->job;
	for (int i = 0; i < s->want->jobs; i++)
		if (s->job[i].alive && (s->job[i].number == a->job || s->job[i].client == a->client))
			j = &s->job[i];
	switch (a->kind) {
	case HA_SEND:
		if (j->alive && text)
			hear(s, j, text);
		break;
	case HA_SIGNAL:
		j->stopped = a->signal == SIGSTOP || (j->stopped && a->signal != SIGCONT);
		break;
	case HA_LOOK:
	case HA_GLANCE:
		look(s, a->kind == HA_LOOK ? HE_VITALS : HE_GLANCE);
		break;
	case HA_START:
		start_job(s, a, cpus);
		break;
	case HA_COMMIT:
		tell(s, (struct honed_event){.kind = HE_STORED, .ticket = a->ticket});
		break;
	case HA_LEAVE:
		s->left = true;
		break;
	default:
		break;
	}
}

static void act(void *ctx, const struct honed_action *a)
{
	struct sim *s = ctx;
	int i = (s->first + s->n++) % ACTIONS;
	if (s->n > ACTIONS)
		abort();
	s->action[i] = *a;
	s->text[i] = a->kind == HA_SEND && a->text ? strdup(a->text) : NULL;
	s->cpus[i] = 0;
	for (int k = 0; k < a->ncpus && a->kind == HA_START; k++)
		s->cpus[i] |= UINT64_C(1) << a->cpus[k];
}

/* Executes actions in order, after the call to honed that requested them. */
static void work_off(struct sim *s)
{
	while (s->n) {
		int i = s->first;
		struct honed_action a = s->action[i];
		char *text = s->text[i];
		s->first = (i + 1) % ACTIONS;
		s->n--;
		do_action(s, &a, text, s->cpus[i]);
		free(text);
	}
}

static void tell(struct sim *s, struct honed_event e)
{
	honed_event(s->honed, s->now_ns, &e);
}

/* ---- time ---- */

static bool runs(const struct sim_job *j)
{
	return j->alive && !j->stopped && (j->does == DOES_OWN || j->does == DOES_WORK);
}

static bool waits(const struct sim_job *j)
{
	return j->alive && (j->does == DOES_ASK || j->stopped);
}

/* Builders pause while their own job measures alone. */
static bool build_goes_on(const struct sim_job *j, const struct builder *b)
{
	return j->alive && !j->stopped && b->left_ns > 0 &&
	       !(j->does == DOES_WORK && j->lease == LEASE_QUIET);
}

static void count_on(const struct sim *s, int on[64])
{
	memset(on, 0, 64 * sizeof *on);
	for (int i = 0; i < s->want->jobs; i++) {
		const struct sim_job *j = &s->job[i];
		on[j->cpu] += runs(j);
		for (int k = 0; k < j->nbuilders; k++)
			on[j->builder[k].cpu] += build_goes_on(j, &j->builder[k]);
	}
}

static double speed(const int on[64], int cpu)
{
	int others = 0;
	for (int i = 0; i < 64; i++)
		others += i != cpu ? on[i] : 0;
	return 1 / (on[cpu] * (1 + BESIDE * others));
}

static void sooner_of(const struct sim *s, int64_t *next_ns, int64_t left_ns, double speed)
{
	int64_t at_ns = s->now_ns + (int64_t)ceil((double)left_ns / speed);
	*next_ns = at_ns < *next_ns ? at_ns : *next_ns;
}

static int64_t next_ns(const struct sim *s)
{
	int64_t next_ns = honed_wakeup(s->honed);
	int on[64];
	count_on(s, on);
	for (int i = 0; i < s->want->jobs; i++) {
		const struct sim_job *j = &s->job[i];
		if (runs(j))
			sooner_of(s, &next_ns, j->left_ns, speed(on, j->cpu));
		for (int k = 0; k < j->nbuilders; k++)
			if (build_goes_on(j, &j->builder[k]))
				sooner_of(s, &next_ns, j->builder[k].left_ns, speed(on, j->builder[k].cpu));
	}
	return next_ns > s->now_ns ? next_ns : s->now_ns;
}

static void count(struct sim *s, int64_t ns)
{
	bool measures = false, wants = false, quiet = false;
	unsigned busy = 0, waited = 0;
	for (int i = 0; i < s->want->jobs; i++) {
		const struct sim_job *j = &s->job[i];
		bool works = runs(j) && j->does == DOES_WORK;
		measures |= works && j->lease >= LEASE_MEASURE;
		quiet |= works && j->lease == LEASE_QUIET;
		wants |= j->alive && j->does == DOES_ASK && j->lease >= LEASE_MEASURE;
		busy |= runs(j) ? 1U << j->cpu : 0;
		waited |= waits(j) ? 1U << j->cpu : 0;
	}
	for (int i = 0; i < s->want->jobs; i++)
		s->behind += (double)ns * (ms_of(&s->job[i]) / best_ms(s->job[i].net) - 1) / s->want->jobs;
	s->quiet_ns += quiet ? ns : 0;
	s->draining_ns += wants && !measures ? ns : 0;
	s->idle_ns += ns * __builtin_popcount(waited & ~busy);
}

static void build_on(struct sim_job *j, struct builder *b, int64_t ns)
{
	b->left_ns -= ns;
	if (b->left_ns > 1)
		return;
	b->left_ns = 0;
	j->made++;
	if (j->does == DOES_WAIT) {
		j->does = begin_build(j);
		j->left_ns = j->takes_ns;
	}
	feed_builders(j);
}

static void pass(struct sim *s, int64_t to_ns)
{
	int64_t ns = to_ns - s->now_ns;
	int on[64];
	count_on(s, on);
	count(s, ns);
	for (int i = 0; i < s->want->jobs; i++) {
		struct sim_job *j = &s->job[i];
		bool goes_on[BUILDERS]; /* state before this step */
		for (int k = 0; k < j->nbuilders; k++)
			goes_on[k] = build_goes_on(j, &j->builder[k]);
		if (runs(j))
			j->left_ns -= (int64_t)((double)ns * speed(on, j->cpu));
		for (int k = 0; k < j->nbuilders; k++)
			if (goes_on[k])
				build_on(j, &j->builder[k],
					 (int64_t)((double)ns * speed(on, j->builder[k].cpu)));
	}
	s->now_ns = to_ns;
}

static void due(struct sim *s, struct sim_job *j)
{
	if (!runs(j) || j->left_ns > 1)
		return;
	if (j->does == DOES_OWN) {
		j->does = DOES_ASK;
		j->lease = lease_of(j);
		j->asked_ns = s->now_ns;
		say(s, j, (struct request){.op = OP_LEASE, .lease = j->lease, .stops = !s->want->drains});
	} else {
		j->does = DOES_RELEASE;
		say(s, j, (struct request){.op = OP_RELEASE});
	}
	work_off(s);
}

/* A simulation of slices ends when each network is good. */
static bool over(const struct sim *s)
{
	for (int i = 0; i < s->want->jobs && s->want->slice_ns && !s->left; i++)
		if (!s->job[i].good_ns)
			return false;
	return s->left || s->want->slice_ns;
}

static int run(struct sim *s)
{
	for (int step = 0; !over(s); step++) {
		if (step == STEPS)
			return fail(E_TIMEOUT, "the simulated jobs do not end");
		int64_t to_ns = next_ns(s);
		if (to_ns == INT64_MAX)
			return fail(E_TIMEOUT, "no simulated job can go on");
		pass(s, to_ns);
		for (int i = 0; i < s->want->jobs; i++)
			due(s, &s->job[i]);
		if (honed_wakeup(s->honed) <= s->now_ns)
			tell(s, (struct honed_event){.kind = HE_TIMER});
		work_off(s);
	}
	return E_OK;
}

static double s_of(int64_t ns)
{
	return (double)ns / 1e9;
}

static void sum_up(const struct sim *s, struct sim_told *t)
{
	int n = s->want->jobs;
	double sum = 0, squares = 0, all_s = 0;
	for (int i = 0; i < n; i++) {
		const struct sim_job *j = &s->job[i];
		double slower = (double)j->ended_ns / (double)j->worked_ns;
		sum += slower;
		squares += slower * slower;
		t->alone_s += s_of(j->worked_ns);
		t->alone_good_s += s_of(j->alone_good_ns);
		t->good_s = fmax(t->good_s, s_of(j->good_ns));
		all_s = fmax(all_s, s_of(j->ended_ns));
	}
	double first = (double)s->job[0].ended_ns / (double)s->job[0].worked_ns;
	t->first = n > 1 ? first * (n - 1) / (sum - first) : 1;
	t->behind = s->behind / (double)s->now_ns;
	t->together_s = all_s;
	t->fairness = sum * sum / (n * squares);
	t->draining = s_of(s->draining_ns) / all_s;
	t->idle = s_of(s->idle_ns) / all_s / s->want->cores;
	t->quiet = s_of(s->quiet_ns) / all_s;
	t->wait_ms = (double)s->longest_ns / 1e6;
}

static void configure(struct sim *s)
{
	const struct sim_want *w = s->want;
	conf_defaults(&s->conf);
	s->conf.policy = w->policy;
	s->conf.boot_jobs = w->at_once;
	s->conf.nmodels = w->jobs;
	s->conf.jobs = 1;
	s->conf.slice_ns = w->slice_ns ? w->slice_ns : s->conf.slice_ns;
	s->conf.log = -1;
	s->conf.model = s->model;
	for (int i = 0; i < w->jobs; i++) {
		snprintf(s->name[i], sizeof s->name[i], "%s.%d", nets[(w->first + i) % SIM_NETS].name, i);
		s->model[i] = (struct conf_model){.name = s->name[i], .path = s->name[i], .threads = 1};
		s->job[i].net = &nets[(w->first + i) % SIM_NETS];
		rng_seed(&s->job[i].rng, w->seed * SIM_JOBS + (uint64_t)(w->first + i));
		s->model[i].priority = i ? 0 : w->priority;
		s->known[i].key.lo = (uint64_t)i + 1;
	}
}

static int simulate(const struct sim_want *w, struct sim_told *out)
{
	struct sim *s = calloc(1, sizeof *s);
	if (!s)
		return fail(E_NOMEM, "no memory for a simulation");
	*out = (struct sim_told){0};
	s->want = w;
	s->told = out;
	configure(s);
	struct honed_options o = {.mode = w->slice_ns ? HONED_RESIDENT : HONED_BOX,
				  .conf = &s->conf,
				  .box_ns = 1000 * NS_PER_S,
				  .ncpus = w->cores,
				  .cache = "/nowhere",
				  .ctx = s,
				  .act = act};
	for (int i = 0; i < w->cores; i++)
		o.cpus[i] = i;
	int rc = w->cores < 1 || w->cores > 8 || w->jobs < 1 || w->jobs > SIM_JOBS
		     ? fail(E_USAGE, "the number of cores must be 1 to 8, of jobs 1 to %d", SIM_JOBS)
		     : honed_open(&o, &s->honed);
	if (rc >= 0) {
		tell(s, (struct honed_event){
			    .kind = HE_START, .nmodels = w->jobs, .model = s->known, .minute = -1});
		work_off(s);
		rc = run(s);
		sum_up(s, out);
		honed_close(s->honed);
	}
	for (; s->n; s->n--, s->first = (s->first + 1) % ACTIONS)
		free(s->text[s->first]);
	free(s);
	return rc;
}

int jobs_sim(const struct sim_want *w, struct sim_told *out)
{
	int rc = simulate(w, out);
	for (int i = 0; i < w->jobs && w->jobs > 1 && !w->slice_ns && rc >= 0; i++) {
		struct sim_want one = *w;
		struct sim_told x;
		one.jobs = 1;
		one.first = w->first + i;
		one.at_once = 0;
		rc = simulate(&one, &x);
		out->ahead_s += x.together_s;
	}
	return rc;
}
