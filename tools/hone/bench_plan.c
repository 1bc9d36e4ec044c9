/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/bench_plan.h"
#include "agent/cache/json.h"
#include "agent/run/plan_device.h"
#include "tools/hone/placed.h"
#include "tools/hone/table.h"
#include <stdio.h>

json_t *bench_memory_json(const struct ready *r)
{
	struct plan_memory m = plan_memory(r->plan);
	const struct steps *s = r->model.steps; /* NULL for a compiled model */
	json_t *o = json_pack("{sI sI sI sI}", "values_bytes", (json_int_t)m.values_bytes, "live_bytes",
			      (json_int_t)m.live_bytes, "weights_bytes", (json_int_t)m.weights_bytes,
			      "scratch_bytes", (json_int_t)m.scratch_bytes);
	if (o && s) {
		json_object_set_new(o, "order_peak_bytes", json_integer(s->peak_bytes));
		json_object_set_new(o, "given_peak_bytes", json_integer(s->given_peak_bytes));
	}
	return o;
}

void bench_memory(const struct ready *r)
{
	const double mib = 1 << 20;
	struct plan_memory m = plan_memory(r->plan);
	const struct steps *s = r->model.steps;
	char order[80] = "";
	if (s && s->peak_bytes < s->given_peak_bytes)
		snprintf(order, sizeof order, " (the model's order of nodes: %.0f %% more)",
			 100.0 * (double)s->given_peak_bytes / (double)s->peak_bytes - 100);
	table_say("memory: values %.2f MiB, of which %.2f live at once%s; weights %.2f, scratch %.2f",
		  (double)m.values_bytes / mib, (double)m.live_bytes / mib, order,
		  (double)m.weights_bytes / mib, (double)m.scratch_bytes / mib);
}

json_t *bench_device_json(const struct ready *r)
{
	const struct host *h = r->host;
	struct plan_device_use u = plan_device_use(r->plan);
	struct placed placed = {0};
	placed_plan(&placed, r->plan);
	return h->name ? json_pack("{so si si si sI sI sI si si so si so}", "name", json_text(h->name),
				   "steps", u.steps, "launches", u.launches, "copies", u.copies, "to_bytes",
				   (json_int_t)u.to_bytes, "from_bytes", (json_int_t)u.from_bytes,
				   "held_bytes", (json_int_t)u.held_bytes, "maps", u.maps, "host_threads",
				   pool_threads(h->pool), "on_processor", placed_json(&placed), "graphs",
				   u.graphs, "graphs_why", json_text(u.graphs_why ? u.graphs_why : ""))
		       : json_null();
}

void bench_device(const struct ready *r)
{
	const struct host *h = r->host;
	const double mib = 1 << 20;
	const struct plan_kernel *k;
	struct plan_device_use u = plan_device_use(r->plan);
	int n = plan_kernels(r->plan, &k);
	struct placed placed = {0};
	if (!h->name)
		return;
	placed_plan(&placed, r->plan);
	table_say("%s: %d of %d kernel%s run%s there, in %d launch%s; %d map%s and %d cop%s a run, "
		  "%.2f MiB to it and %.2f MiB from it; %.1f MiB of its memory",
		  h->name, u.steps, n, plural_s(n), n == 1 ? "s" : "", u.launches,
		  u.launches == 1 ? "" : "es", u.maps, plural_s(u.maps), u.copies,
		  u.copies == 1 ? "y" : "ies", (double)u.to_bytes / mib, (double)u.from_bytes / mib,
		  (double)u.held_bytes / mib);
	if (u.graphs_why && *u.graphs_why)
		table_say("some launches are started one by one: %s", u.graphs_why);
	else if (u.graphs)
		table_say("%d CUDA graph%s start%s several launches each", u.graphs, plural_s(u.graphs),
			  u.graphs == 1 ? "s" : "");
	placed_print(&placed, h->name);
}
