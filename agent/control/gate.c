/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/gate.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"

#include <stdio.h>
#include <string.h>

#define LOAD_WINDOW_NS (100 * NS_PER_MS)
#define LOAD_STEP_NS (20 * NS_PER_MS)  /* looks that follow faster count as one */
#define LOAD_SLACK_NS (15 * NS_PER_MS) /* one and a half ticks */
#define LOAD_LEAST_NS (20 * NS_PER_MS)
#define STALL_WINDOW_NS (2 * NS_PER_S)
/* processor time of honed's children in that window: less means that none of them runs */
#define RESTING_NS (20 * NS_PER_MS)
#define OPEN_AGAIN_NS (25 * NS_PER_MS) /* so that any 100 ms contain a full window, less one tick */
#define CLOSED_MOST_NS (60 * NS_PER_S)
#define REOPEN 0.8 /* share of the limits of load and pressure below which a closed gate opens again */

enum { HEADROOM_MORE_MC = 3000, BATTERY_MORE_PCT = 5, DAY_MINUTES = 24 * 60, CPU = 0, IO = 1, MEMORY = 2 };

const char *gate_word(enum gate_why why)
{
	static const char *const words[GATE_WHYS] = {"open", "settling", "inhibited", "hours", "throttled",
						     "hot",  "battery",  "memory",    "load",  "pressure"};
	return (unsigned)why < GATE_WHYS ? words[why] : "unknown";
}

void gate_init(struct gate *g, const struct gate_limits *limits)
{
	struct gate_limits l = *limits;
	l.load_pct = l.load_pct > 0 ? l.load_pct : 25;
	l.pressure_pct = l.pressure_pct > 0 ? l.pressure_pct : 10;
	l.headroom_mc = l.headroom_mc ? l.headroom_mc : 15000;
	l.battery_pct = l.battery_pct ? l.battery_pct : 30;
	l.memory_bytes = l.memory_bytes ? l.memory_bytes : INT64_C(128) << 20;
	l.settle_ns = l.settle_ns ? l.settle_ns : 10 * NS_PER_S;
	*g = (struct gate){.limits = l, .load_pct = -1, .why = GATE_SETTLING, .well_since_ns = -1};
}

static double pct(int64_t part, int64_t of)
{
	double v = of > 0 ? 100.0 * (double)part / (double)of : 0;
	return v < 0 ? 0 : v > 100 ? 100 : v;
}

/* ---- load and pressure: from counters to shares of the time */

static void keep_load(struct gate *g, const struct gate_load *l)
{
	if (g->nloads == GATE_LOADS)
		memmove(g->load, g->load + 1, (size_t)--g->nloads * sizeof *g->load);
	g->load[g->nloads++] = *l;
}

/* Returns the newest look that is a window old; NULL: none. */
static const struct gate_load *window_start(const struct gate *g, int64_t now_ns)
{
	for (int i = g->nloads - 1; i >= 0; i--)
		if (now_ns - g->load[i].at_ns >= LOAD_WINDOW_NS)
			return &g->load[i];
	return NULL;
}

/* Returns `over`: the load of others reaches the limit. */
static bool judge_load(struct gate *g, int64_t now_ns, const struct gate_look *look)
{
	const struct vitals *v = look->v;
	struct gate_load now = {now_ns, v->busy_ns - look->own_ns, v->total_ns};
	const struct gate_load *from = window_start(g, now_ns);
	bool over = false;
	if (!(v->has & VITAL_LOAD)) {
		g->nloads = 0;
		g->load_pct = -1;
		return false;
	}
	if (from) {
		int64_t others = now.others_ns - from->others_ns, total = now.total_ns - from->total_ns;
		int64_t slack = now_ns - from->at_ns < NS_PER_S ? LOAD_SLACK_NS : 0;
		double limit = g->limits.load_pct * (g->open ? 1 : REOPEN) / 100;
		g->load_pct = total > 0 ? pct(others, total) : -1;
		over = g->limits.load_pct < 100 && total > 0 && others >= LOAD_LEAST_NS &&
		       (double)(others + slack) >= limit * (double)total;
	}
	if (!g->nloads || now_ns - g->load[g->nloads - 1].at_ns >= LOAD_STEP_NS)
		keep_load(g, &now);
	return over;
}

static void start_stalls(struct gate *g, int64_t now_ns, const struct gate_look *look)
{
	g->stalls_known = true;
	g->stalls_at_ns = now_ns;
	g->stalls_own_ns = look->own_ns;
	memcpy(g->stalled_ns, look->v->stalled_ns, sizeof g->stalled_ns);
}

/* out[]: the share over the last 2 s, or the share of 2 s that the waits so far already reach, whichever is
 * more. */
static void judge_stalls(struct gate *g, int64_t now_ns, const struct gate_look *look, double out[3])
{
	memset(out, 0, 3 * sizeof *out);
	if (!(look->v->has & VITAL_PRESSURE)) {
		g->stalls_known = false;
		return;
	}
	if (!g->stalls_known || now_ns < g->stalls_at_ns) {
		memset(g->stalled_pct, 0, sizeof g->stalled_pct);
		start_stalls(g, now_ns, look);
		return;
	}
	int64_t ns = now_ns - g->stalls_at_ns;
	bool full = ns >= STALL_WINDOW_NS;
	for (int i = 0; i < 3; i++) {
		int64_t stalled = look->v->stalled_ns[i] - g->stalled_ns[i];
		bool ours = i == CPU && (g->open || look->own_ns - g->stalls_own_ns > RESTING_NS);
		double now = ours ? 0 : pct(stalled, full ? ns : STALL_WINDOW_NS);
		out[i] = full || now > g->stalled_pct[i] ? now : g->stalled_pct[i];
		if (full)
			g->stalled_pct[i] = now;
	}
	if (full)
		start_stalls(g, now_ns, look);
}

/* ---- reasons to stay closed: each function writes its text */

struct sight {
	const struct gate *g;
	const struct gate_limits *limit;
	const struct gate_look *look;
	const struct vitals *v;
	bool over;         /* the load limit is reached */
	double stalled[3]; /* percent */
	char *text;
	size_t room;
};

static bool inhibited(const struct sight *s)
{
	if (s->look->inhibited)
		snprintf(s->text, s->room, "inhibited: %.150s", s->look->inhibited);
	return s->look->inhibited;
}

static bool out_of_hours(const struct sight *s)
{
	int from = s->limit->from_minute, to = s->limit->to_minute, m = s->look->minute;
	if (from == to || (m >= 0 && (from < to ? m >= from && m < to : m >= from || m < to)))
		return false;
	int n = snprintf(s->text, s->room, "tuning is only allowed from %02d:%02d to %02d:%02d; ", from / 60,
			 from % 60, to / 60, to % 60);
	if (m < 0)
		snprintf(s->text + n, s->room - (size_t)n, "the time of day is not known");
	else
		snprintf(s->text + n, s->room - (size_t)n, "it is %02d:%02d", m / 60 % 24, m % 60);
	return true;
}

static bool throttled(const struct sight *s)
{
	int64_t events = s->g->looked ? s->v->throttled - s->g->throttled : 0;
	char what[160];
	if (!(s->v->has & VITAL_THROTTLE) || (!s->v->throttle && events <= 0))
		return false;
	if (s->v->throttle)
		snprintf(s->text, s->room, "the board throttles: %s; tuning goes on when that ends",
			 vitals_throttle_text(s->v->throttle, what, sizeof what));
	else
		snprintf(s->text, s->room, "the board throttled since the last look");
	return true;
}

static bool hot(const struct sight *s)
{
	const struct vitals *v = s->v;
	int need = s->limit->headroom_mc + (s->g->open ? 0 : HEADROOM_MORE_MC);
	if (!(v->has & VITAL_HEAT) || v->headroom_mc >= need)
		return false;
	snprintf(s->text, s->room,
		 "zone %.31s is at %.1f C, %.1f C %s its limit%s; tuning goes on at %.0f C below it", v->zone,
		 v->temp_mc / 1e3, (v->headroom_mc < 0 ? -v->headroom_mc : v->headroom_mc) / 1e3,
		 v->headroom_mc < 0 ? "above" : "below",
		 v->trip_assumed ? " (85 C: the board reports none)" : "",
		 (s->limit->headroom_mc + HEADROOM_MORE_MC) / 1e3);
	return true;
}

static bool low_battery(const struct sight *s)
{
	int need = s->limit->battery_pct, more = need + BATTERY_MORE_PCT;
	more = more < 100 ? more : 100;
	if (!(s->v->has & VITAL_BATTERY) || !s->v->discharging ||
	    s->v->battery_pct >= (s->g->open ? need : more))
		return false;
	snprintf(s->text, s->room,
		 "the battery is at %d %% and discharging, its limit is %d %%; tuning goes on at %d %%, or "
		 "when it charges",
		 s->v->battery_pct, need, more);
	return true;
}

static bool low_memory(const struct sight *s)
{
	int64_t need = s->limit->memory_bytes, more = need + need / 4;
	if (!(s->v->has & VITAL_MEMORY) || s->v->memory_free_bytes >= (s->g->open ? need : more))
		return false;
	snprintf(s->text, s->room,
		 "%lld MiB of memory are free, the limit is %lld MiB; tuning goes on at %lld MiB",
		 (long long)(s->v->memory_free_bytes >> 20), (long long)(need >> 20),
		 (long long)(more >> 20));
	return true;
}

/* The load is judged with a slack, so over a short time the shown value may lie below the limit. */
static bool loaded(const struct sight *s)
{
	double limit = s->limit->load_pct;
	if (s->over)
		snprintf(
		    s->text, s->room,
		    "others use %.0f %% of %d processor%s, the limit is %s%.0f %%; tuning goes on below %.0f "
		    "%%",
		    s->g->load_pct, s->v->cpus, plural_s(s->v->cpus), s->g->load_pct < limit ? "about " : "",
		    limit, limit * REOPEN);
	return s->over;
}

static bool pressed(const struct sight *s)
{
	static const char *const what[] = {"a processor", "io", "memory"};
	double limit = s->limit->pressure_pct;
	for (int i = 2; limit < 100 && i >= 0; i--) {
		double most = s->g->open ? limit * (i == IO ? 4 : 1) : limit * REOPEN;
		if (s->stalled[i] < most)
			continue;
		snprintf(s->text, s->room,
			 "tasks wait for %s %.0f %% of the time, the limit is %.0f %%; tuning goes on below "
			 "%.0f %%",
			 what[i], s->stalled[i], limit, limit * REOPEN);
		return true;
	}
	return false;
}

static const struct {
	enum gate_why why;
	bool (*stands)(const struct sight *s);
} reasons[] = {
    {GATE_INHIBITED, inhibited}, {GATE_HOURS, out_of_hours},
    {GATE_THROTTLED, throttled}, {GATE_HOT, hot},
    {GATE_BATTERY, low_battery}, {GATE_MEMORY, low_memory},
    {GATE_LOAD, loaded},         {GATE_PRESSURE, pressed},
};

/* Returns GATE_OPEN if no reason applies. */
static enum gate_why find_reason(const struct sight *s)
{
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (reasons[i].stands(s))
			return reasons[i].why;
	return GATE_OPEN;
}

/* ---- the verdict */

static int64_t within(int64_t v, int64_t least, int64_t most)
{
	return v < least ? least : v > most ? most : v;
}

/* A short time without a reason, too short to open, does not restart the interval: else a load that comes and
 * goes for hours would be looked at each second. */
static void shut_for(struct gate *g, int64_t now_ns, enum gate_why why)
{
	bool same = why == g->why || why == GATE_SETTLING || g->why == GATE_SETTLING;
	if (g->open || !g->looked || !same)
		g->why_since_ns = now_ns;
	g->open = false;
	g->why = why;
}

void gate_shut(struct gate *g, int64_t now_ns)
{
	shut_for(g, now_ns, GATE_INHIBITED);
	g->well_since_ns = -1;
}

static void settle(struct gate *g, int64_t now_ns)
{
	if (g->well_since_ns < 0 || g->well_since_ns > now_ns)
		g->well_since_ns = now_ns;
	if (g->open || now_ns - g->well_since_ns >= g->limits.settle_ns) {
		g->open = true;
		g->why = GATE_OPEN;
	} else {
		shut_for(g, now_ns, GATE_SETTLING);
	}
}

static int64_t look_again(const struct gate *g, int64_t now_ns)
{
	if (g->open)
		return OPEN_AGAIN_NS;
	if (g->why == GATE_SETTLING)
		return within(g->well_since_ns + g->limits.settle_ns - now_ns, NS_PER_MS, NS_PER_S);
	return within((now_ns - g->why_since_ns) / 4, NS_PER_S, CLOSED_MOST_NS);
}

static void say_well(const struct gate *g, int64_t now_ns, const struct vitals *v, struct gate_verdict *out)
{
	int n = 0;
	if (!g->open)
		n = snprintf(out->text, sizeof out->text,
			     "tuning may go on in %.0f s, if nothing speaks against it until then; ",
			     (double)(g->well_since_ns + g->limits.settle_ns - now_ns) / 1e9);
	if (g->load_pct >= 0)
		n +=
		    snprintf(out->text + n, sizeof out->text - (size_t)n,
			     "others use %.0f %% of %d processor%s", g->load_pct, v->cpus, plural_s(v->cpus));
	else
		n += snprintf(out->text + n, sizeof out->text - (size_t)n, "the load is not known");
	if (v->has & VITAL_HEAT)
		snprintf(out->text + n, sizeof out->text - (size_t)n,
			 ", zone %.31s is %.1f C below its limit", v->zone, v->headroom_mc / 1e3);
}

void gate_look(struct gate *g, int64_t now_ns, const struct gate_look *look, struct gate_verdict *out)
{
	const struct vitals *v = look->v;
	*out = (struct gate_verdict){0};
	struct sight s = {g, &g->limits, look, v, .text = out->text, .room = sizeof out->text};
	s.over = judge_load(g, now_ns, look);
	judge_stalls(g, now_ns, look, s.stalled);
	enum gate_why why = find_reason(&s);
	if (why == GATE_OPEN) {
		settle(g, now_ns);
		say_well(g, now_ns, v, out);
	} else {
		shut_for(g, now_ns, why);
		g->well_since_ns = -1;
	}
	g->throttled = v->throttled;
	g->looked = true;
	out->why = g->why;
	out->open = g->open;
	out->load_pct = g->load_pct;
	out->again_ns = look_again(g, now_ns);
	out->free_memory = (v->has & VITAL_MEMORY && v->memory_free_bytes < g->limits.memory_bytes / 2) ||
			   (g->limits.pressure_pct < 100 && s.stalled[MEMORY] >= 2 * g->limits.pressure_pct);
}
