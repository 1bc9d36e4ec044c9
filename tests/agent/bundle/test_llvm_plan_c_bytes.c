/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised networks as C: random tasks over bytes and random networks, in plain C, with compiled kernels,
 * and with both. The programs give the bytes of the tasks' references, whatever the compiler may do with
 * floats elsewhere. */
#include "agent/run/plan_parts.h"
#include "kernels/onnx/import.h"
#include "kernels/task/task_stage.h"
#include "tests/lib/byte_cases.h"
#include "tests/lib/byte_net.h"
#include "tests/lib/byte_steps.h"
#include "tests/lib/integer_net.h"
#include "tests/lib/plan_c.h"

enum { TASKS = 60, NETS = 14 };

/* Compilers fuse multiplications and additions by default, where the machine can. */
static const char *const options[] = {STRICT " -O1", "-Wall -Werror -O3 -march=native"};

static bool failed(uint64_t seed, const char *what)
{
	if (test_bad)
		printf("seed %d: %s\n", (int)seed, what);
	return test_bad;
}

/* The program of one task gives what the task's reference gives. */
static void check_task(const char *text, uint64_t seed)
{
	struct byte_steps s;
	struct tensor in[MOST_VALUES], out[MOST_VALUES];
	struct c_net n = {.in = in, .out = out};
	REQUIRE_OK(byte_steps_open(&s, &text, 1));
	n.g = s.g;
	for (int i = 0; i < s.g->ninputs; i++)
		in[i] = s.plain[0][s.g->input[i]];
	for (int i = 0; i < s.g->noutputs; i++)
		out[i] = s.plain[0][s.g->output[i]];
	CHECK_OK(plan_build_whole(s.g, &s.s, &host, NULL, NULL, &n.p));
	CHECK_OK(compile_with(&n, "task", 1 + (int)seed % 3, options[seed % 2]));
	if (!test_bad)
		check_program(&n, "task");
	plan_free(n.p);
	byte_steps_close(&s);
}

TEST(random_tasks)
{
	int chains = 0;
	REQUIRE_OK(target_host(&host));
	for (uint64_t seed = 1; seed <= TASKS && !test_bad; seed++) {
		struct rng r;
		struct task *t = malloc(sizeof *t);
		struct buf text = {0};
		rng_seed(&r, seed);
		byte_text(&text, &r);
		REQUIRE_OK(task_parse(buf_str(&text), t));
		chains += t->nstages > 1;
		if (!task_floats(t))
			check_task(strchr(buf_str(&text), '\n') + 1, seed);
		failed(seed, buf_str(&text));
		buf_free(&text);
		free(t);
	}
	CHECK(chains > 2);
}

/* A sum of whole values beyond 2^24 is rounded once, when a float is made of it. */
TEST(sums_are_whole)
{
	REQUIRE_OK(target_host(&host));
	steps_least += 1 << 24;
	for (int k = 9; k < 15 && !test_bad; k++) {
		struct arena a = {0};
		check_task(
		    arena_printf(&a,
				 "operand A in u8 [50,%d] plain\noperand B const i8 [%d,40] plain\n"
				 "operand D const i32 [40] plain\noperand Y out i8 [50,40] plain\n"
				 "stage m:50 n:40 | k:%d\nread A [m,k]\nread B [k,n]\nread D [n]\n"
				 "body r0 r1 mul\nsum\npost acc r2 add 16777216 sub 0.0500000007 mul rint\n"
				 "write Y [m,n]\n",
				 k, k, k),
		    (uint64_t)k);
		failed((uint64_t)k, "whole sums");
		arena_free(&a);
	}
	steps_least -= 1 << 24;
}

static struct graph *random_net(uint64_t seed)
{
	struct byte_net net;
	struct graph *g = NULL;
	const struct import_opts none = {0};
	struct blob b = byte_net(&net, seed, &(struct byte_net_size){0});
	CHECK_OK(import_bytes(b.p, b.n, ".", &none, &g));
	CHECK_OK(graph_optimize(g));
	arena_free(&net.k.a);
	return g;
}

static int tasks_of_bytes(const struct plan *p)
{
	int n = 0;
	for (int i = 0; i < p->nsteps; i++)
		n += p->step[i].step->kind == STEP_TASK && !task_floats(p->step[i].step->task);
	return n;
}

/* The network with kernels for the steps in the mask answers as its operators do, bit for bit. */
static void check_net(uint64_t seed, unsigned mask)
{
	struct c_net n, nodes;
	struct code_maker m = {.mask = mask};
	const struct kernel_source src = {.ctx = &m, .find = find_code};
	REQUIRE_OK(net_plan(&nodes, random_net(seed), false, NULL));
	REQUIRE_OK(net_plan(&n, random_net(seed), true, &src));
	CHECK(tasks_of_bytes(n.p) > 3 && (m.made > 0) == (mask > 0));
	n.exact = true;
	for (int k = 0; k < n.g->ninputs; k++)
		for (int64_t i = 0; i < shape_count(&n.in[k].shape); i++)
			((float *)n.in[k].data)[i] *= 3;
	CHECK_OK(compile_with(&n, "net", 1 + (int)seed % 3, options[seed % 2]));
	CHECK_OK(plan_run(nodes.p, n.in, n.out));
	if (!test_bad)
		check_program(&n, "net");
	net_close(&n);
	net_close(&nodes);
}

TEST(random_networks)
{
	static const unsigned masks[] = {0, ~0u, 0x5555, 0xaaaa};
	REQUIRE_OK(target_host(&host));
	for (uint64_t seed = 1; seed <= NETS && !test_bad; seed++) {
		check_net(seed, masks[seed % 4]);
		failed(seed, "network");
	}
}

/* Sums of s32 with a zero point that is an input, and with any padding. */
TEST(integer_products)
{
	const struct import_opts none = {0};
	int padded = 0;
	REQUIRE_OK(target_host(&host));
	for (uint64_t seed = 1; seed <= 200 && padded < 12 && !test_bad; seed++) {
		struct integer_net d;
		struct c_net n, nodes;
		struct graph *g[2] = {NULL};
		struct blob b = integer_net(&d, seed);
		bool pads = false, wanted = d.conv && d.zero == ZERO_INPUT;
		for (int i = 0; i < 2 && wanted; i++) {
			REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &g[i]));
			REQUIRE_OK(graph_optimize(g[i]));
		}
		for (int i = 0; wanted && i < g[0]->nnodes; i++)
			pads |= !g[0]->node[i].dead && !strcmp(node_type(&g[0]->node[i]), "Pad");
		if (pads) {
			REQUIRE_OK(net_plan(&nodes, g[0], false, NULL));
			REQUIRE_OK(net_plan(&n, g[1], true, NULL));
			n.exact = true;
			*(uint8_t *)n.in[1].data = (uint8_t)(7 * seed);
			CHECK_OK(compile_with(&n, "sums", 1 + (int)seed % 3, options[seed % 2]));
			CHECK_OK(plan_run(nodes.p, n.in, n.out));
			if (!test_bad)
				check_program(&n, "sums");
			net_close(&n);
			net_close(&nodes);
			padded++;
		} else if (wanted) {
			graph_free(g[0]);
			graph_free(g[1]);
		}
		failed(seed, "integer product");
		arena_free(&d.m.k.a);
	}
	CHECK(padded == 12);
}

TEST_MAIN
