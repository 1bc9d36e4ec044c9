/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/quality.h"
#include <math.h>
#include <string.h>

#define GOAL 0.95

double quality_at(const struct course *c, double at_s)
{
	double q = 0;
	for (int i = 0; i < c->n && c->moment[i].at_s <= at_s; i++)
		q = c->moment[i].quality;
	return q;
}

double quality_seconds(const struct course *c, double level)
{
	double at_s = NAN;
	for (int i = c->n - 1; i >= 0 && c->moment[i].quality >= level; i--)
		at_s = c->moment[i].at_s;
	return at_s;
}

struct quality_sum quality_sum(const struct course *c, int n, const char *network, const char *strategy,
			       double at_s)
{
	struct quality_sum s = {0, 0, INFINITY};
	for (int i = 0; i < n; i++) {
		if ((network && strcmp(c[i].network, network)) || strcmp(c[i].strategy, strategy))
			continue;
		double q = quality_at(&c[i], at_s);
		s.n++;
		s.mean += log(q);
		s.worst = fmin(s.worst, q);
	}
	s.mean = s.n ? exp(s.mean / s.n) : NAN;
	s.worst = s.n ? s.worst : NAN;
	return s;
}

static json_t *moment_json(const struct moment *m)
{
	return json_pack("{so so so so so so s{si si si si}}", "at_s", json_num(m->at_s), "ms",
			 json_num(m->ms), "quality", json_num(m->quality), "quality_least",
			 json_num(m->least), "quality_most", json_num(m->most), "quality_median",
			 json_num(m->median), "kernels", "tuned", m->tuned, "default", m->standard,
			 "fallback", m->fallback, "portable", m->portable);
}

json_t *quality_json(const struct course *c)
{
	json_t *list = json_array();
	for (int i = 0; i < c->n; i++)
		json_array_append_new(list, moment_json(&c->moment[i]));
	return json_pack("{so so sI si so so so so so}", "network", json_text(c->network), "strategy",
			 json_text(c->strategy), "seed", (json_int_t)c->seed, "trials", c->trials,
			 "elapsed_s", json_num(c->elapsed_s), "own_pct", json_num(c->own_pct), "state_bytes",
			 json_num(c->state_bytes), "seconds_to_95", json_num(quality_seconds(c, GOAL)),
			 "moments", list);
}
