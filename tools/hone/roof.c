/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include "kernels/space/space.h"
#include "kernels/space/winograd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PCT 100.5   /* shown as 100 % */
#define MOST_OF_PEAK 105 /* %; clocks vary by a few */

static const char counts[] =
    "of roofline: share of the speed that the measured peaks allow, counting the kernel's own "
    "multiplications, "
    "constants as read from memory, and activations as held by the smallest cache that they fit in";
static const char from_cache[] =
    "above 100 %: a cache kept data between the runs that the roofline counts as read from a slower level";
static const char low_peak[] =
    "above 100 %: the peak was measured too low, because other programs or a lower clock slowed the machine "
    "then; peaks are measured again when a kernel passes them by far; hone devices shows them";

static const char low_f32[] =
    "above 100 %, where the peak was measured too low, because other programs or a lower clock slowed the "
    "machine then; hone devices shows the peak";
static const char of_pairs[] =
    "above 100 %, as the peak is that of f32; products of 16-bit floats reach up to twice as much";
static const char of_bytes[] =
    "above 100 %, as the peak is that of f32; dot products of bytes reach up to four times as much";

static struct roof roof_of(const struct target *t, double flops, double bytes, double moved)
{
	struct roof r = {.ns = plan_roofline_ns(t, flops, bytes, moved)};
	r.memory_bound = r.ns > 0 && r.ns > flops / t->fma_gflops * 1.001;
	return r;
}

/* Bytes of weights that the schedule saves by storing f16 or bf16. t: as the schedule sees it. */
static double saved_bytes(const struct task *t, const struct sched *s)
{
	double bytes = 0;
	for (int i = 0; i < t->noperands && t->pairs; i++)
		bytes += t->operand[i].group ? 4 * (double)shape_count(&t->operand[i].dims) : 0;
	for (int k = 0; k < t->nstages; k++) {
		int i = s->st[k].w16 ? stage_stored(t, &t->stage[k], &s->st[k]) : -1;
		bytes += i < 0 ? 0 : 2 * (double)shape_count(&t->operand[i].dims);
	}
	return bytes;
}

struct roof roof_of_task(const struct target *t, const struct task *task, const char *cand)
{
	struct arena a = {0};
	struct sched s;
	const struct task *view = task_view(&a, task, cand);
	bool good = sched_parse(view, cand, &s) >= 0;
	int m = good ? s.st[0].wino.m : 0;
	double flops = task_flops(task) * (m ? winograd_share(m).flops : 1);
	double bytes = task_bytes(task, true) - (good ? saved_bytes(view, &s) : 0);
	arena_free(&a);
	return roof_of(t, flops / space_rate(task, t, cand), bytes, task_bytes(task, false));
}

struct roof roof_of_kernel(const struct target *t, const struct plan_kernel *k)
{
	struct roof r = {.ns = k->roofline_ns};
	r.memory_bound = r.ns > 0 && t->fma_gflops > 0 && r.ns > k->flops / t->fma_gflops * 1.001;
	return r;
}

struct roof roof_of_step(const struct target *t, const struct step *s, const struct plan_kernel *k)
{
	if (s->kind != STEP_TASK)
		return (struct roof){0};
	double flops = k->flops / space_rate(s->task, t, pairs_text(k->pairs));
	return roof_of(t, flops, k->bytes, task_bytes(s->task, false));
}

double roof_pct(const struct roof *r, int cores, double ns)
{
	return ns > 0 ? 100 * r->ns / (cores > 1 ? cores : 1) / ns : 0;
}

int roof_cores(const struct target *t, int threads, const struct plan_kernel *k)
{
	return k->alone ? 1 : threads < t->cores ? threads : t->cores;
}

const char *roof_why(const struct roof *r, double pct)
{
	return pct < MOST_PCT ? NULL : r->memory_bound ? from_cache : low_peak;
}

bool roof_low(const struct roof *r, double pct)
{
	return roof_why(r, pct) == low_peak;
}

const char *roof_peak_why(double pct, bool on_bytes, bool on_pairs)
{
	return pct <= MOST_OF_PEAK ? NULL : on_bytes ? of_bytes : on_pairs ? of_pairs : low_f32;
}

void roof_cell(struct roof_notes *n, const struct roof *r, double pct, char out[24])
{
	const char *why = roof_why(r, pct);
	int i = 0;
	snprintf(out, 24, pct > 0 ? "%.0f %%" : "-", pct);
	if (!why)
		return;
	while (i < n->n && n->why[i] != why)
		i++;
	n->why[i] = why;
	n->n = i == n->n ? i + 1 : n->n;
	snprintf(out, 24, "%.0f %% [%d]", pct, i + 1);
}

void roof_notes_text(const struct roof_notes *n, const char *before, const char *after, struct buf *out)
{
	buf_printf(out, "%s%s%s", before, counts, after);
	for (int i = 0; i < n->n; i++)
		buf_printf(out, "%s[%d] %s%s", before, i + 1, n->why[i], after);
}

void roof_notes_print(const struct roof_notes *n, bool shown)
{
	struct buf b = {0};
	char *save = NULL;
	roof_notes_text(n, "", "\n", &b);
	char *text = shown && buf_ok(&b) ? strdup(buf_str(&b)) : NULL;
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		table_words("", 0, line);
	free(text);
	buf_free(&b);
}
