/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-boards: the table of configs/boards/PREDICTED.md: times of networks that tools/bench/predict.h
 * predicts for one core of boards that nobody measured hone on, with default schedules, beside times of other
 * libraries that others measured (ARGS="--measured FILE": a file with a head line "board,device,threads,
 * powersave,loops,network,min_ms,max_ms,avg_ms"). --here predicts for this x86-64 machine with vectors of
 * four floats, which `HONE_ISA=x86-64-v2 hone bench MODEL --kernels default --threads 1` measures. */
#include "kernels/group/group.h"
#include "kernels/space/space.h"
#include "platform/machine/board.h"
#include "tools/bench/predict_board.h"
#include "tools/bench/predict_here.h"
#include "tools/hone/model.h"
#include "tools/hone/zoo.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct network {
	const char *zoo, *others; /* their name in the file of others' measurements */
} networks[] = {{"mobilenet_v1", "mobilenet"},
		{"mobilenet_v2", "mobilenet_v2"},
		{"squeezenet1_1", "squeezenet"},
		{"resnet18", "resnet18"},
		{"resnet50", "resnet50"}};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* How the file of others begins the name of a board. */
static const struct {
	const char *file, *others;
} boards[] = {{"rpi3", "Raspberry Pi 3 Model B+"},
	      {"rpi4", "Raspberry Pi 4 Model B"},
	      {"rpi5", "Raspberry Pi 5 Broadcom BCM2712, Cortex-A76"},
	      {"rpi-zero2w", "Raspberry Pi Zero 2 W"},
	      {"rk3399", "Rockchip RK3399 (Cortex-A72"},
	      {"rk3588", "Rockchip RK3588 (Cortex-A76"},
	      {"jetson-nano", "NVIDIA Jetson Nano"},
	      {"jetson-orin", "NVIDIA Jetson AGX Orin"}};

struct prediction {
	double ns;
	int left_out;  /* operators without a prediction */
	int unmatched; /* loops whose machine code was not found */
};

/* Sums up the tasks of a network at their default schedules. Fused blocks count as their parts. */
static int predict_steps(const struct steps *s, const struct predict_cpu *cpu, const char *dir, bool all,
			 struct prediction *out)
{
	struct arena a = {0};
	struct key *key = ARENA_ARRAY(&a, struct key, s->nsteps);
	double *ns = ARENA_ARRAY(&a, double, s->nsteps);
	int n = 0, rc = E_OK;
	for (int i = 0; i < s->nsteps && rc >= 0; i++) {
		const struct step *st = &s->step[i];
		struct predict_work w;
		struct space *space;
		char cand[CAND_MAX];
		const struct space_want want = {.level = LEVEL_FP32, .threads = 1};
		out->left_out += st->kind == STEP_HOST;
		if (st->kind != STEP_TASK || st->fused)
			continue;
		struct key k = task_key(st->task);
		int known = 0;
		while (known < n && !key_equal(key[known], k))
			known++;
		if (known == n) {
			struct arena scratch = {0};
			rc = space_make(&scratch, st->task, &cpu->target, &want, &space);
			if (rc >= 0) {
				space_default(space, cand);
				rc = predict_work(st->task, cand, cpu, dir, &w);
			}
			arena_free(&scratch);
			key[n] = k;
			out->unmatched += rc >= 0 ? w.unmatched : 0;
			ns[n++] = rc >= 0 ? predict_ns(&w, cpu, &predict_fitted) : -1;
			if (all && rc >= 0)
				fprintf(stderr, "%s: %.0f us, of which %.0f by the model's cycles; %s\n",
					st->name, ns[n - 1] / 1e3, w.cycles / cpu->mhz, cand);
			if (rc == E_UNSUPPORTED)
				rc = E_OK;
		}
		out->left_out += ns[known] < 0;
		out->ns += ns[known] > 0 ? ns[known] : 0;
		rc = fail_in(rc, "%s", st->name);
	}
	arena_free(&a);
	return rc;
}

static int predict_network(const char *name, const struct predict_cpu *cpu, const char *dir, bool all,
			   struct prediction *out)
{
	struct arena a = {0};
	struct graph *g = NULL;
	struct choices none;
	struct steps *s;
	const struct chosen_for f = {NULL, &cpu->target, 1, LEVEL_FP32};
	*out = (struct prediction){0};
	int rc = zoo_make(name, 1, &g);
	if (rc >= 0)
		rc = chosen_steps(&f, g, &a, &none, &s);
	if (rc >= 0)
		rc = predict_steps(s, cpu, dir, all, out);
	graph_free(g);
	arena_free(&a);
	return fail_in(rc, "%s", name);
}

/* ---- what others measured */

/* The part of a line behind its first field, which may be quoted; the field without quotes. */
static char *first_field(char *line, char **rest)
{
	char *end = *line == '"' ? strchr(line + 1, '"') : strchr(line, ',');
	char *field = line + (*line == '"');
	if (!end || (*line == '"' && end[1] != ','))
		return NULL;
	*rest = *line == '"' ? end + 2 : end + 1;
	*end = 0;
	return field;
}

/* The least average of one thread on the fast cores, in ms; 0: none. */
static double others_ms(const struct blob *file, const char *board, const char *network)
{
	struct arena a = {0};
	char *text = file->p ? arena_strndup(&a, file->p, file->n) : NULL, *next;
	double best = 0;
	for (char *line = text; line; line = next) {
		char *rest, device[16], name[64];
		int threads, powersave, loops;
		double min, max, average;
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		char *field = first_field(line, &rest);
		if (!field || strncmp(field, board, strlen(board)) != 0 ||
		    sscanf(rest, "%15[^,],%d,%d,%d,%63[^,],%lf,%lf,%lf", device, &threads, &powersave, &loops,
			   name, &min, &max, &average) != 8)
			continue;
		if (strcmp(device, "cpu") || threads != 1 || powersave == 1 || strcmp(name, network))
			continue;
		best = best == 0 || average < best ? average : best;
	}
	arena_free(&a);
	return best;
}

/* ---- the table */

static const char *name_of_others(const char *board)
{
	for (size_t i = 0; i < sizeof boards / sizeof *boards; i++)
		if (!strcmp(boards[i].file, board))
			return boards[i].others;
	return NULL;
}

static int row(const char *board, const struct network *n, const struct predict_cpu *cpu,
	       const struct blob *file, const char *dir, bool all)
{
	struct prediction p;
	const char *others = name_of_others(board);
	int rc = predict_network(n->zoo, cpu, dir, all, &p);
	if (rc < 0)
		return rc;
	double ms = others ? others_ms(file, others, n->others) : 0;
	printf("| %s | %s, %.0f MHz | %s | %.0f |", board, cpu->target.cpu, cpu->mhz, n->zoo, p.ns / 1e6);
	if (ms > 0)
		printf(" %.0f |\n", ms);
	else
		printf(" - |\n");
	if (p.left_out)
		fprintf(stderr, "%s, %s: %d operators are not predicted\n", board, n->zoo, p.left_out);
	if (p.unmatched)
		fprintf(stderr, "%s, %s: %d loops are not found, so the time is wrong\n", board, n->zoo,
			p.unmatched);
	return fflush(stdout) ? E_IO : E_OK;
}

static int rows(const struct args *a, const char *board, const struct predict_cpu *cpu,
		const struct blob *file, const char *dir)
{
	const char *only = arg_str(a, "network", "");
	int rc = E_OK;
	for (int i = 0; i < NETWORKS && rc >= 0; i++)
		if (strstr(networks[i].zoo, only))
			rc = row(board, &networks[i], cpu, file, dir, arg_flag(a, "all"));
	return rc;
}

static int table(const struct args *a, const struct blob *file, struct arena *arena, const char *dir)
{
	char folder[PATH_MAX];
	const char *names[MOST_BOARDS], *only = arg_str(a, "board", "");
	struct predict_cpu cpu;
	printf("| board | core, assumed clock | network | hone, predicted, ms | ncnn, measured by its users, "
	       "ms |\n"
	       "|---|---|---|--:|--:|\n");
	if (arg_flag(a, "here")) {
		int rc = predict_here(&cpu);
		return rc < 0 ? rc : rows(a, "here", &cpu, file, dir);
	}
	int rc = board_dir(folder, sizeof folder), n = rc < 0 ? 0 : predict_boards(folder, arena, names);
	for (int i = 0; i < n && rc >= 0; i++) {
		if (*only && strcmp(only, names[i]))
			continue;
		rc = predict_board(folder, names[i], &cpu);
		if (rc >= 0)
			rc = rows(a, names[i], &cpu, file, dir);
	}
	return n < 0 ? n : rc;
}

static int run(const struct args *a)
{
	char dir[] = "/tmp/hone-predict-XXXXXX", command[64];
	const char *measured = arg_str(a, "measured", NULL);
	struct blob file = {NULL, 0};
	struct arena arena = {0};
	int rc = machine_is_here() ? E_OK
				   : fail(E_NOTFOUND, "llvm-mca-19 and llvm-objdump-19 are needed: apt-get "
						      "install llvm-19");
	if (rc >= 0 && measured)
		rc = file_read(&arena, measured, 0, &file);
	if (rc >= 0 && !mkdtemp(dir))
		rc = fail(E_IO, "cannot make a folder in /tmp");
	if (rc >= 0) {
		rc = table(a, &file, &arena, dir);
		snprintf(command, sizeof command, "rm -r %s", dir);
		if (system(command) != 0)
			fprintf(stderr, "cannot remove %s\n", dir);
	}
	arena_free(&arena);
	return rc;
}

static const struct opt opts[] = {
    {"board", OPT_STR, "NAME", "this board alone (default: all with a section [predict])"},
    {"network", OPT_STR, "TEXT", "networks whose name contains this"},
    {"measured", OPT_STR, "FILE", "what others measured"},
    {"all", OPT_FLAG, NULL, "show each kernel on standard error"},
    {"here", OPT_FLAG, NULL, "predict for this machine, with vectors of four floats"},
    {NULL}};
static const struct cmd bench_boards = {.usage = "[--board NAME] [--network TEXT] [--measured FILE]",
					.summary = "predict times of networks on boards",
					.details = "",
					.opts = opts,
					.run = run,
					.name = "bench-boards"};

int main(int argc, char **argv)
{
	return cmd_main(&bench_boards, argc, argv);
}
