/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of threads: the emitter opencl against the interpreter on an OpenCL device, bit for bit, in random
 * programs. SEED=n runs one program, SEEDS=n changes their number. Emitters of processors refuse them. */
#include "kernels/emit/emit.h"
#include "tests/lib/opencl_device.h"
#include "tests/lib/threads_program.h"

static struct arena objects;
static const struct target any_target;

static int run_on_device(struct opencl_dev *dev)
{
	void *bufs[THREADS_BUFS] = {threads_memory.x, threads_memory.y, threads_memory.got};
	const int64_t sizes[THREADS_BUFS] = {sizeof threads_memory.x,
					     THREADS_ELEMS * (int64_t)dtype_bytes(l.buf[Y_IN].dtype),
					     sizeof threads_memory.got};
	struct blob o;
	arena_reset(&objects);
	int rc = emit_find("opencl")->emit(&l, &any_target, &objects, &o);
	return rc < 0 ? rc
		      : device_run(dev, &o,
				   &(struct device_run){
				       .l = &l, .buf = bufs, .bytes = sizes, .at_once = 2, .group = 1});
}

TEST(random_threads_equal_the_interpreter)
{
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	uint64_t first, n = device_seeds(16, &first);
	if (!dev)
		SKIP(why);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct threads_maker m = {0};
		random_threads(&m, seed);
		fill_threads_memory(&m);
		REQUIRE_OK(loops_check(&l));
		REQUIRE_OK(interpret_threads(&m));
		int rc = run_on_device(dev), stored = 0;
		if (rc < 0)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		CHECK(rc == E_OK);
		for (int i = 0; i < THREADS_ELEMS; i++) {
			bool whole = l.buf[O_OUT].dtype == DT_I32,
			     same = whole ? memcmp(&threads_memory.want[i], &threads_memory.got[i], 4) == 0
					  : device_same(threads_memory.want[i], threads_memory.got[i]);
			stored += memcmp(&threads_memory.want[i], &(uint32_t){UINT32_MAX}, 4) != 0;
			if (!same)
				printf("seed %llu: element %d\n", (unsigned long long)seed, i);
			CHECK(same);
			if (!same)
				break;
		}
		CHECK(stored >= m.threads * m.lanes * m.blocks * 9 / 10);
	}
}

TEST(processors_have_no_threads)
{
	struct threads_maker m = {0};
	struct blob o;
	random_threads(&m, 1);
	for (int i = 0; emit_table[i]; i++) {
		bool opencl = strcmp(emit_table[i]->name, "opencl") == 0;
		int rc = emit_table[i]->emit(&l, &(struct target){.isa = "x86-64-v3", .lanes = 8, .regs = 16},
					     &objects, &o);
		CHECK(opencl ? rc == E_OK : rc == E_UNSUPPORTED);
	}
}

TEST_MAIN
