/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory of a block above 48 KB: a launch asks for it, up to what the device says. */
#include "platform/run/cuda.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/test.h"

/* k0: b[item] = item + 1, by way of the last 128 of the bytes that are shared. Up to 48 KB are the program's
 * own. */
static int make_object(char *out, size_t room, int shared)
{
	char declared[64] = ".extern .shared .align 16 .b8 shared[]";
	if (shared <= CUDA_STATIC)
		snprintf(declared, sizeof declared, ".shared .align 16 .b8 shared[%d]", shared);
	return snprintf(out, room,
			"//hone-ptx k0,32,1,%d\n.version 6.1\n.target sm_72\n.address_size 64\n"
			"%s;\n"
			".visible .entry k0(.param .u64 k0_b, .param .u64 k0_begin, .param .u64 k0_end)\n"
			".reqntid 32, 1, 1\n{\n.reg .b32 %%r<8>;\n.reg .b64 %%rd<4>;\n"
			"ld.param.u64 %%rd1, [k0_b];\ncvta.to.global.u64 %%rd2, %%rd1;\n"
			"mov.u32 %%r1, %%tid.x;\nshl.b32 %%r2, %%r1, 2;\nmov.u32 %%r3, shared;\n"
			"add.s32 %%r4, %%r3, %%r2;\nadd.s32 %%r5, %%r1, 1;\n"
			"st.shared.u32 [%%r4+%d], %%r5;\nld.shared.u32 %%r6, [%%r4+%d];\n"
			"mul.wide.u32 %%rd3, %%r2, 1;\nadd.s64 %%rd3, %%rd2, %%rd3;\n"
			"st.global.u32 [%%rd3], %%r6;\nret;\n}\n",
			shared, declared, shared - 128, shared - 128);
}

struct side {
	struct cuda_code *code;
	struct cuda_buf *buf;
	struct cuda_job *job;
};

static int prepare(struct cuda_dev *d, int shared, struct side *s)
{
	char text[2000];
	int n = make_object(text, sizeof text, shared), rc;
	*s = (struct side){NULL};
	rc = cuda_load(d, text, (size_t)n, &s->code);
	if (rc >= 0)
		rc = cuda_alloc(d, 128, &s->buf);
	if (rc >= 0)
		rc = cuda_entry(s->code, "k0");
	struct cuda_launch at = {.spot = &(struct cuda_spot){.buf = s->buf}, .nspots = 1, .end = 32};
	return rc < 0 ? rc : cuda_prepare(s->code, 0, &at, &s->job);
}

static void drop(struct side *s)
{
	cuda_drop(s->job);
	cuda_unload(s->code);
	cuda_free(s->buf);
}

static int run(struct cuda_dev *d, int shared, int32_t got[32])
{
	struct side s;
	int rc = prepare(d, shared, &s);
	if (rc >= 0)
		rc = cuda_start(s.job);
	if (rc >= 0)
		rc = cuda_read(s.buf, 0, got, 128);
	drop(&s);
	return rc;
}

TEST(launches_ask_for_shared_memory)
{
	static const int sizes[] = {(48 << 10) + 16, 96 << 10, 163 << 10};
	struct cuda *c;
	struct cuda_dev *d;
	cuda_lie("");
	REQUIRE_OK(cuda_open(fake_cuda(), &c));
	REQUIRE_OK(cuda_use(c, 0, &d));
	CHECK(cuda_dev_info(d)->shared_most == 163 << 10);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		int32_t got[32] = {0};
		CHECK_OK(run(d, sizes[i], got));
		for (int k = 0; k < 32; k++)
			CHECK(got[k] == k + 1);
	}
	CHECK_FAILS(run(d, (163 << 10) + 16, (int32_t[32]){0}), E_INFEASIBLE, "the device allows 166912");
	cuda_lie("cuFuncSetAttribute 1");
	CHECK_FAILS(run(d, 96 << 10, (int32_t[32]){0}), E_INFEASIBLE, "cuFuncSetAttribute");
	cuda_lie("");
	cuda_leave(d);
	cuda_close(c);
}

/* Each launch of a graph keeps the size that it was recorded with, whatever its neighbours ask for. */
TEST(graphs_ask_for_shared_memory)
{
	static const int sizes[] = {163 << 10, 1 << 10, (48 << 10) + 16, 96 << 10, 48 << 10};
	enum { JOBS = sizeof sizes / sizeof *sizes };
	struct cuda *c;
	struct cuda_dev *d;
	struct side s[JOBS];
	struct cuda_job *job[JOBS], *all = NULL;
	cuda_lie("");
	REQUIRE_OK(cuda_open(fake_cuda(), &c));
	REQUIRE_OK(cuda_use(c, 0, &d));
	for (int i = 0; i < JOBS; i++) {
		CHECK_OK(prepare(d, sizes[i], &s[i]));
		job[i] = s[i].job;
	}
	CHECK_OK(cuda_record(d, job, JOBS, &all));
	for (int round = 0; round < 2 && all; round++) {
		static const int32_t none[32];
		int32_t got[32];
		for (int i = 0; i < JOBS; i++)
			CHECK_OK(cuda_write(s[i].buf, 0, none, sizeof none));
		CHECK_OK(cuda_start(all));
		for (int i = 0; i < JOBS; i++) {
			CHECK_OK(cuda_read(s[i].buf, 0, got, sizeof got));
			for (int k = 0; k < 32; k++)
				CHECK(got[k] == k + 1);
		}
	}
	cuda_drop(all);
	for (int i = 0; i < JOBS; i++)
		drop(&s[i]);
	cuda_leave(d);
	cuda_close(c);
}

TEST_MAIN
