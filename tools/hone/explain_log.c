/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/explain_log.h"
#include "agent/cache/json.h"
#include "platform/base/log.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define INDENT "           " /* of what is said of a task, as in hone explain */

static bool has_won(const struct trials *l, const char *cand)
{
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, cand))
			return !l->entry[i].t.lost;
	return false;
}

/* The same interval about another ratio. */
static struct faster moved_to(const struct faster *f, double ratio)
{
	return (struct faster){ratio, ratio * (f->low / f->ratio), ratio * (f->high / f->ratio), f->rounds,
			       f->few};
}

struct task_times explain_times(const struct trials *l, const struct rec *def, const struct rec *best,
				const char *def_cand, const char *chosen)
{
	bool is_default = !strcmp(def_cand, chosen);
	bool raced = l && l->default_ns > 0 && (is_default || (l->best_ns > 0 && has_won(l, chosen)));
	const struct rec *own = is_default && def ? def : best; /* of the chosen one */
	struct task_times b = {.raced = raced};
	b.best_ns = own      ? (double)own->meas.median_ns
		    : !raced ? 0
			     : (double)(is_default ? l->default_ns : l->best_ns);
	if (is_default)
		b.default_ns = b.best_ns;
	else if (raced)
		b.default_ns = b.best_ns * (double)l->default_ns / (double)l->best_ns;
	else
		b.default_ns = def ? (double)def->meas.median_ns : 0;
	if (is_default || !def || !best || b.default_ns <= 0 || b.best_ns <= 0)
		return b;
	b.faster = faster_by_records(&def->meas, &best->meas);
	if (raced && b.faster.rounds)
		b.faster = moved_to(&b.faster, b.default_ns / b.best_ns);
	return b;
}

double explain_fastest_ns(const struct trials *l, const char *cand)
{
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, cand) && l->entry[i].t.status == MEAS_OK)
			return (double)l->entry[i].t.ns;
	return 0;
}

struct payback explain_payback(const struct trials *l, int uses, const struct task_times *b)
{
	struct payback p = {.spent_ns = (double)l->spent_ns, .tasks = 1};
	bool sure = faster_significant(&b->faster);
	p.slower = sure && b->faster.ratio < 1;
	if (sure && !p.slower)
		p.saved_ns = uses * (b->default_ns - b->best_ns);
	p.unpaired = p.saved_ns > 0 && !b->raced;
	p.has_fallback = l->fallback_ns > 0 && b->best_ns > 0;
	if (p.has_fallback)
		p.fallback_ns = uses * ((double)l->fallback_ns - b->best_ns);
	return p;
}

void explain_payback_add(struct payback *sum, const struct payback *p)
{
	if (p->tasks) /* the sum is known only if every part is */
		sum->has_fallback = (!sum->tasks || sum->has_fallback) && p->has_fallback;
	sum->spent_ns += p->spent_ns;
	sum->saved_ns += p->saved_ns;
	sum->fallback_ns += p->fallback_ns;
	sum->tasks += p->tasks;
	sum->slower |= p->slower;
	sum->unpaired |= p->unpaired;
}

void explain_payback_of(struct payback *sum, const struct gain *g)
{
	bool sure = faster_significant(&g->faster), wins = sure && g->faster.ratio > 1;
	sum->saved_ns = wins ? 1e6 * g->default_ms * (1 - 1 / g->faster.ratio) : 0;
	sum->slower = sure && !wins;
	sum->network = true;
	sum->unpaired = false;
	sum->disturbed = disturbed(&g->machine);
}

json_t *explain_payback_json(const struct payback *p)
{
	return json_pack("{so so so so so sb sb}", "spent_s", json_num(p->spent_ns / 1e9), "saved_ms",
			 json_num(p->saved_ns / 1e6), "saved_on_fallback_ms", json_num(p->fallback_ns / 1e6),
			 "inferences", json_num(trials_payback(p->spent_ns, p->saved_ns)),
			 "inferences_on_fallback", json_num(trials_payback(p->spent_ns, p->fallback_ns)),
			 "paired", !p->unpaired, "while_disturbed", p->disturbed);
}

enum { MOST_INFERENCES = 100000000 }; /* a larger number of them is not counted */

static void after(double spent_ns, double saved_ns, const char *by, const char *why_not, struct buf *out)
{
	double n = trials_payback(spent_ns, saved_ns);
	if (isnan(n))
		buf_printf(out, "%s", why_not);
	else if (n > MOST_INFERENCES)
		buf_printf(
		    out,
		    "is paid back only after more than 100 million inferences (each saves %s%.0f ns, %s)",
		    saved_ns < 1 ? "less than " : "", fmax(saved_ns, 1), by);
	else
		buf_printf(out, "is paid back after %.0f inference%s (each saves %.4f ms, %s)", n,
			   n == 1 ? "" : "s", saved_ns / 1e6, by);
}

/* Beside savings by times of kernels: what the whole network takes, and why it may be less. */
static void add_network(const struct payback *p, const struct gain *g, struct buf *out)
{
	buf_printf(out, "; the whole network took %.4f ms, with " GAIN_THAN " %.4f ms, measured %s",
		   g->now_ms, g->default_ms, g->date);
	if (p->saved_ns > 1e6 * g->default_ms)
		buf_puts(out, ": the search timed these kernels at a moment when the machine was slower");
}

void explain_payback_words(const struct payback *p, const struct gain *network, const char *before)
{
	static const char alone[] = "by times of kernels alone";
	const char *by = p->unpaired ? "by times of kernels alone at different moments" : alone;
	struct buf b = {0};
	if (p->network)
		by = p->disturbed ? "as measured of the whole network, disturbed"
				  : "as measured of the whole network";
	buf_printf(&b, "tuning took %.2f s; against " GAIN_THAN " this ", p->spent_ns / 1e9);
	after(p->spent_ns, p->saved_ns, by,
	      p->slower ? "is never paid back: the tuned kernels are slower"
			: "is not paid back so far: there is no significant difference",
	      &b);
	if (p->has_fallback) {
		buf_puts(&b,
			 "; against fallback kernels, which were timed once, at another moment that may have "
			 "been disturbed, this ");
		after(p->spent_ns, p->fallback_ns, alone, "is not paid back: they were not slower", &b);
		buf_puts(&b, "; hone bench --kernels best --kernels fallback runs both in turn");
	}
	if (network && !p->network && p->saved_ns > 0)
		add_network(p, network, &b);
	table_words(before, log_width(before), buf_str(&b));
	buf_free(&b);
}

static json_t *trial_json(const struct trials_entry *e)
{
	const struct tried *t = &e->t;
	return json_pack("{so ss si so so so so so so sb}", "cand", json_text(t->cand), "by",
			 tried_by_name(t->by), "box", e->box, "at_s", json_num((double)t->at_ns / 1e9), "us",
			 json_num((double)t->ns / 1e3), "time_ratio", json_num(trials_ratio(e)), "draft_us",
			 json_num((double)t->draft_ns / 1e3), "model_us", json_num((double)t->guess_ns / 1e3),
			 "model_sd", json_num(t->guess_sd), "lost", t->lost);
}

static json_t *statuses_json(const struct trials *l)
{
	json_t *list = json_array();
	for (int i = 0; i < MEAS_STATUSES; i++)
		if (l->count[i])
			json_array_append_new(list, json_pack("{ss si}", "status",
							      meas_status_name((enum meas_status)i), "count",
							      l->count[i]));
	return list;
}

json_t *explain_log_json(const struct trials *l, const struct payback *p)
{
	struct trials_sum s;
	json_t *best = json_array(), *steps = json_array();
	trials_sum(l, &s);
	for (int i = 0; i < s.nbest; i++)
		json_array_append_new(best, trial_json(&l->entry[s.best[i]]));
	for (int i = 0; i < s.nsteps; i++)
		json_array_append_new(steps, json_pack("{si so so}", "box", s.step[i].box, "at_s",
						       json_num((double)s.step[i].at_ns / 1e9), "time_ratio",
						       json_num(s.step[i].ratio)));
	return json_pack("{so si si si so so so so so so so so}", "emitter", json_text(l->emitter), "boxes",
			 l->boxes, "tried", s.tried, "failed", s.failed, "statuses", statuses_json(l), "best",
			 best, "improvements", steps, "draft_rank", json_num(s.draft_rank), "model_rank",
			 json_num(s.model_rank), "draft_error_pct", json_num(100 * s.draft_error),
			 "model_error_pct", json_num(100 * s.model_error), "payback",
			 explain_payback_json(p));
}

static void counts_words(const struct trials *l, const struct trials_sum *s)
{
	const char *before = " (";
	struct buf b = {0};
	buf_printf(&b, "%d in %d box%s with %s, %d of them failed", s->tried, l->boxes,
		   l->boxes == 1 ? "" : "es", l->emitter, s->failed);
	for (int i = MEAS_INFEASIBLE; i < MEAS_STATUSES; i++)
		if (i != MEAS_ABORTED && l->count[i]) {
			buf_printf(&b, "%s%d %s", before, l->count[i], meas_status_name((enum meas_status)i));
			before = ", ";
		}
	buf_puts(&b, *before == ',' ? ")" : "");
	if (l->count[MEAS_ABORTED])
		buf_printf(&b, ", %d %s stopped early, because %s far too slow", l->count[MEAS_ABORTED],
			   l->count[MEAS_ABORTED] == 1 ? "was" : "were",
			   l->count[MEAS_ABORTED] == 1 ? "it was" : "they were");
	table_item("  tried    ", "%s", buf_str(&b));
	buf_free(&b);
}

/* The entry of the chosen candidate, if it was timed and is not among the fastest; -1: none. */
static int find_chosen(const struct trials *l, const struct trials_sum *s, const char *chosen)
{
	for (int i = 0; i < s->nbest; i++)
		if (!strcmp(l->entry[s->best[i]].t.cand, chosen))
			return -1;
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, chosen) && trials_ratio(&l->entry[i]) > 0)
			return i;
	return -1;
}

enum { ROOMY = 120, TIGHT = 50 }; /* columns of a terminal */

/* Returns whether a time is marked. */
static bool best_table(const struct trials *l, const struct trials_sum *s, const char *chosen,
		       double least_ns)
{
	bool fast = false;
	static const char *const head[] = {"of default's time", "fastest us", "draft us", "box", "at s", "by",
					   "candidate"};
	struct table t = {.align = "rrrrrww", .drop = "0013200"};
	const int columns = table_columns();
	const bool narrow = columns > 0 && columns < ROOMY; /* the indent is better used for schedules */
	for (int i = 0; i < 7; i++)
		table_cell(&t, "%s%s", i || narrow ? "" : "           ",
			   !i && columns > 0 && columns < TIGHT ? "of default" : head[i]);
	int chosen_at = find_chosen(l, s, chosen);
	for (int i = 0; i < s->nbest + (chosen_at >= 0); i++) {
		const struct trials_entry *e = &l->entry[i < s->nbest ? s->best[i] : chosen_at];
		bool serves = !strcmp(e->t.cand, chosen);
		table_cell(&t, "%.1f %%", 100 * trials_ratio(e));
		fast |= (double)e->t.ns < least_ns;
		table_us(&t, (double)e->t.ns < least_ns ? "* " : "", (double)e->t.ns);
		table_us(&t, "", (double)e->t.draft_ns);
		table_cell(&t, "%d", e->box);
		table_cell(&t, "%.1f", (double)e->t.at_ns / 1e9);
		table_cell(&t, "%s%s", tried_by_name(e->t.by),
			   serves      ? ", chosen"
			   : e->t.lost ? ", lost a race"
				       : "");
		table_cell(&t, "%s", e->t.cand);
	}
	table_print(&t, false);
	return fast;
}

void explain_marked_words(void)
{
	table_say("* less than the roofline's time: the machine was slower when its peaks were measured "
		  "(hone devices shows them), or a cache kept data between the runs");
}

static void draft_words(double rank, double error)
{
	static const char lead[] = "  draft    ";
	if (isnan(rank))
		table_item(lead, "too few candidates were timed to judge it");
	else
		table_item(lead, "rank correlation %.2f with the measured times, median error %.0f %%", rank,
			   100 * error);
}

/* Says why candidates that seem faster than the chosen one were not chosen. */
static void seems_faster_words(const struct trials *l, const struct trials_sum *s, const char *chosen)
{
	int lost = 0, above = 0;
	while (above < s->nbest && strcmp(l->entry[s->best[above]].t.cand, chosen) != 0)
		lost += l->entry[s->best[above++]].t.lost;
	if (!above || (above == s->nbest && find_chosen(l, s, chosen) < 0))
		return;
	table_say(
	    "           above the chosen one, by a few runs each: %d lost a race; %d could not be shown "
	    "to be faster, or %s slower inside the network",
	    lost, above - lost, above - lost == 1 ? "was" : "were");
}

static void steps_words(const struct trials_sum *s)
{
	struct buf b = {0};
	buf_puts(&b, "by the fastest of a few runs each; races decide:");
	for (int i = 0; i < s->nsteps; i++) {
		bool other = s->step[i].box > 1 && (i == 0 || s->step[i - 1].box != s->step[i].box);
		if (other)
			buf_printf(&b, " box %d:", s->step[i].box);
		buf_printf(&b, " %.2fx at %.1f s%s", s->step[i].ratio, (double)s->step[i].at_ns / 1e9,
			   i + 1 < s->nsteps ? "," : "");
	}
	table_item("  search   ", "%s", buf_str(&b));
	buf_free(&b);
}

bool explain_log_words(const struct trials *l, const struct payback *p, const struct gain *network,
		       const char *chosen, double least_ns)
{
	struct trials_sum s;
	bool marked = false;
	trials_sum(l, &s);
	counts_words(l, &s);
	if (s.nbest) {
		marked = best_table(l, &s, chosen, least_ns);
		seems_faster_words(l, &s, chosen);
		steps_words(&s);
	}
	draft_words(s.draft_rank, s.draft_error);
	explain_payback_words(p, network, "  payback  ");
	return marked;
}
