/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-others ARGS="FILE [--seed N]": ranks layers by what hone expects of them on boards that others
 * measured (a file with the head line
 * "device,backend,family,dtype,layout,in_shape,w_shape,stride,pad,dilation,
 * groups,out_h,out_w,macs,best_us,gflops,best_op": the best times of another program's kernels). Per board:
 * rank correlation of these times with the multiply-adds alone, with the draft of the default schedule, and
 * with a prior trained on the times of a random half of the layers and judged on the others, over ten halves.
 * The prior's features need no clock of the board: multiply-adds, bytes that cross the memory, the draft's
 * cycles. Nothing is timed here; the other program's schedules are not hone's. */
#include "kernels/space/space.h"
#include "platform/base/rng.h"
#include "platform/base/stats.h"
#include "tools/bench/predict_board.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, FEATURES = 4, HALVES = 10, FIELDS = 17 };

static const struct {
	const char *device, *board;
} boards[] = {{"bcm2837", "rpi3"}, {"rk3399", "rk3399"}};
enum { BOARDS = sizeof boards / sizeof *boards };

struct layer {
	int c, h, w, k, r, s, stride[2], pad[4], out[2];
	bool deep;
	double macs, us, draft, x[FEATURES];
};

static bool read_row(char *line, const char *device, struct layer *y)
{
	char *f[FIELDS];
	int n = 0, group;
	*y = (struct layer){0};
	for (char *at = line; at && n < FIELDS; n++) {
		f[n] = at;
		at = strchr(at, ',');
		if (at)
			*at++ = 0;
	}
	if (n < FIELDS || strcmp(f[0], device) != 0 || strcmp(f[1], "arm_cpu") != 0 ||
	    strcmp(f[3], "float32") != 0 || strcmp(f[4], "NCHW") != 0 || strcmp(f[9], "1x1") != 0)
		return false;
	y->deep = !strcmp(f[2], "conv");
	return (y->deep || !strcmp(f[2], "dw")) && sscanf(f[5], "1x%dx%dx%d", &y->c, &y->h, &y->w) == 3 &&
	       sscanf(f[6], "%dx%dx%dx%d", &y->k, &group, &y->r, &y->s) == 4 &&
	       group == (y->deep ? y->c : 1) && sscanf(f[7], "%dx%d", &y->stride[0], &y->stride[1]) == 2 &&
	       sscanf(f[8], "%dx%dx%dx%d", &y->pad[0], &y->pad[1], &y->pad[2], &y->pad[3]) == 4 &&
	       sscanf(f[11], "%d", &y->out[0]) == 1 && sscanf(f[12], "%d", &y->out[1]) == 1 &&
	       sscanf(f[13], "%lf", &y->macs) == 1 && sscanf(f[14], "%lf", &y->us) == 1 && y->us > 0 &&
	       y->macs > 0;
}

static int task_of(const struct layer *y, struct task *t)
{
	char text[1024], at[2][32];
	for (int i = 0; i < 2; i++) {
		int n = y->stride[i] > 1 ? snprintf(at[i], 32, "%d*", y->stride[i]) : 0;
		snprintf(at[i] + n, 32 - (size_t)n, "%c+%c%.0d", "yx"[i], "rs"[i], -y->pad[i]);
	}
	int n = snprintf(text, sizeof text, "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/4.2.3.1", y->c,
			 y->h, y->w);
	if (y->pad[0] + y->pad[1] + y->pad[2] + y->pad[3])
		n += snprintf(text + n, sizeof text - (size_t)n, ";2+%d+%d;3+%d+%d", y->pad[0], y->pad[2],
			      y->pad[1], y->pad[3]);
	n += snprintf(text + n, sizeof text - (size_t)n,
		      "\noperand W const f32 [%d,%d,%d,%d] plain\noperand B const f32 [%d] plain\n"
		      "operand Y out f32 [1,%d,%d,%d] 0.1/4.2.3.1\nstage n:1 k:%d y:%d x:%d |",
		      y->k, y->deep ? y->c : 1, y->r, y->s, y->k, y->k, y->out[0], y->out[1], y->k, y->out[0],
		      y->out[1]);
	if (y->deep)
		n += snprintf(text + n, sizeof text - (size_t)n, " c:%d", y->c);
	snprintf(text + n, sizeof text - (size_t)n,
		 " r:%d s:%d\nread X [n,%s,%s,%s]\nread W [k,%s,r,s]\nread B [k]\nbody r0 r1 mul\nsum\n"
		 "post acc r2 add 0 max\nwrite Y [n,k,y,x]\n",
		 y->r, y->s, y->deep ? "c" : "k", at[0], at[1], y->deep ? "c" : "0");
	return fail_in(task_parse(text, t), "%s", text);
}

/* Sets the draft and the features, all logarithms but the first. false: hone has no task of this form. */
static bool expect(struct layer *y, const struct target *tg)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space_want want = {.level = LEVEL_FP32, .threads = 1};
	struct space *s;
	char cand[CAND_MAX];
	int rc = task_of(y, t);
	if (rc >= 0)
		rc = space_make(&a, t, tg, &want, &s);
	if (rc >= 0) {
		space_default(s, cand);
		y->draft = space_draft(s, cand);
		double in = (double)y->c * y->h * y->w, out = (double)y->k * y->out[0] * y->out[1],
		       weights = (double)y->k * (y->deep ? y->c : 1) * y->r * y->s;
		double cycles = y->draft * tg->fma_gflops;
		memcpy(y->x, (double[]){1, log(y->macs), log(in + out + weights), log(cycles)}, sizeof y->x);
	}
	arena_free(&a);
	return rc >= 0;
}

/* ---- statistics ---- */

static int by_value(const void *a, const void *b)
{
	double x = **(double *const *)a, y = **(double *const *)b;
	return (x > y) - (x < y);
}

static double rank_correlation(double *x, double *y, int n)
{
	static double *at[MOST], rank[2][MOST];
	double *v[2] = {x, y}, squares = 0;
	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < n; i++)
			at[i] = &v[k][i];
		qsort(at, (size_t)n, sizeof *at, by_value);
		for (int i = 0; i < n; i++)
			rank[k][at[i] - v[k]] = i;
	}
	for (int i = 0; i < n; i++)
		squares += (rank[0][i] - rank[1][i]) * (rank[0][i] - rank[1][i]);
	return 1 - 6 * squares / ((double)n * n * n - n);
}

/* Least squares with a little weight on small coefficients (ridge), by elimination. */
static void fit(const struct layer *y, const int *at, int n, double w[FEATURES])
{
	double m[FEATURES][FEATURES + 1] = {{0}};
	for (int i = 0; i < n; i++)
		for (int r = 0; r < FEATURES; r++)
			for (int c = 0; c <= FEATURES; c++)
				m[r][c] += y[at[i]].x[r] * (c < FEATURES ? y[at[i]].x[c] : log(y[at[i]].us));
	for (int r = 0; r < FEATURES; r++)
		m[r][r] += .01;
	for (int p = 0; p < FEATURES; p++)
		for (int r = 0; r < FEATURES; r++)
			for (int c = FEATURES; c >= p && r != p; c--)
				m[r][c] -= m[p][c] * m[r][p] / m[p][p];
	for (int r = 0; r < FEATURES; r++)
		w[r] = m[r][FEATURES] / m[r][r];
}

static double prior(const struct layer *y, const double w[FEATURES])
{
	double sum = 0;
	for (int i = 0; i < FEATURES; i++)
		sum += w[i] * y->x[i];
	return exp(sum);
}

static void judge(const char *device, const struct layer *y, int n, uint64_t seed)
{
	static double us[MOST], macs[MOST], draft[MOST], guess[MOST], error[MOST];
	static int at[MOST];
	double rank = 0, median = 0, w[FEATURES];
	struct rng r;
	rng_seed(&r, seed);
	for (int i = 0; i < n; i++)
		us[i] = y[i].us, macs[i] = y[i].macs, draft[i] = y[i].draft, at[i] = i;
	double of_macs = rank_correlation(macs, us, n), of_draft = rank_correlation(draft, us, n);
	for (int k = 0; k < HALVES; k++) {
		for (int i = n - 1; i > 0; i--) {
			int j = (int)rng_below(&r, (uint32_t)i + 1), x = at[i];
			at[i] = at[j], at[j] = x;
		}
		fit(y, at, n / 2, w);
		for (int i = n / 2; i < n; i++) {
			us[i - n / 2] = y[at[i]].us;
			guess[i - n / 2] = prior(&y[at[i]], w);
			error[i - n / 2] = fabs(guess[i - n / 2] / y[at[i]].us - 1);
		}
		rank += rank_correlation(guess, us, n - n / 2) / HALVES;
		median += stats_median(error, n - n / 2) / HALVES;
	}
	printf("%-8s %3d layers: rank correlation of multiply-adds %.3f, of the draft %.3f, of a prior on "
	       "layers "
	       "that it was not trained on %.3f (median error %.0f %%)\n",
	       device, n, of_macs, of_draft, rank, 100 * median);
}

int main(int argc, char **argv)
{
	static struct layer y[MOST];
	struct arena a = {0};
	struct blob file;
	uint64_t seed = argc > 3 && !strcmp(argv[2], "--seed") ? strtoull(argv[3], NULL, 0) : 1;
	int rc = E_OK;
	if (argc < 2 || file_read(&a, argv[1], 0, &file) < 0) {
		fprintf(stderr, "bench-others: %s (usage: bench-others FILE [--seed N])\n",
			argc < 2 ? "missing argument FILE" : err_text());
		return 2;
	}
	for (int b = 0; b < BOARDS && rc >= 0; b++) {
		struct predict_cpu cpu;
		int n = 0;
		rc = predict_board("configs/boards", boards[b].board, &cpu);
		char *text = arena_strndup(&a, file.p, file.n), *next;
		for (char *line = text; line && n < MOST && rc >= 0; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = 0;
			n += read_row(line, boards[b].device, &y[n]) && expect(&y[n], &cpu.target);
		}
		if (rc >= 0 && n > 20)
			judge(boards[b].device, y, n, seed);
		else if (rc >= 0)
			rc = fail(E_CORRUPT, "%s has %d layers of %s; at least 21 are needed", argv[1], n,
				  boards[b].device);
	}
	if (rc < 0)
		fprintf(stderr, "bench-others: %s\n", err_text());
	arena_free(&a);
	return rc < 0;
}
