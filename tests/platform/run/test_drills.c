/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong on a GPU: a kernel that never ends, a store to an address that is nobody's, and no memory
 * left. Each happens in a process of its own, which must notice in time; a new process must then work on the
 * same device at once. The device is that of the CUDA driver that lies, or the one that DRILLS_DEVICE=cuda:0
 * names, where kernels do all this. make bench-gpu (tools/bench/gpu.sh) calls it. */
#include "platform/base/clock.h"
#include "platform/run/dev.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/test.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

/* k0 writes 7 into the buffer; k1 stores to address 16; k2 waits for the buffer's second word to become 3. */
#define HEAD(k)                                                                                              \
	".visible .entry k" k "(.param .u64 m, .param .u64 begin, .param .u64 end)\n.reqntid 32, 1, 1\n{\n"  \
	".reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"                                           \
	"ld.param.u64 %rd0, [m];\ncvta.to.global.u64 %rd1, %rd0;\n"
static const char object[] = "//hone-ptx k0,32,1,0;k1,32,1,0;k2,32,1,0\n"
			     ".version 6.3\n.target sm_70\n.address_size 64\n" HEAD("0")  //
    "mov.u32 %r0, 7;\nst.global.u32 [%rd1], %r0;\nret;\n}\n" HEAD("1")                    //
    "mov.u64 %rd2, 16;\nmov.u32 %r0, 7;\nst.global.u32 [%rd2], %r0;\nret;\n}\n" HEAD("2") //
    "AGAIN:\nld.volatile.global.u32 %r0, [%rd1+4];\nsetp.ne.u32 %p0, %r0, 3;\n@%p0 bra AGAIN;\nret;\n}\n";

enum drill { WORKS, HANGS, BAD_ADDRESS, NO_MEMORY, DRILLS };
static const char *const names[DRILLS] = {"works", "hang", "bad_address", "out_of_memory"};
/* What the driver does instead where there is no device. */
static const char *const lies[DRILLS] = {"", "stuck", "", "cuMemAlloc_v2=2@2"};
#define DEADLINE_NS (300 * NS_PER_MS)
#define LATE_NS (500 * NS_PER_MS)

static const struct dev *device;
static int number;

static int run(const struct dev_own *own, struct dev_unit *u, int entry, struct dev_mem *mem)
{
	const struct dev_spot spot = {mem, 0};
	const struct dev_work w = {.buf = &spot, .nbufs = 1, .end = 32};
	struct dev_code *c = NULL;
	struct dev_launch *l = NULL;
	const char name[] = {'k', (char)('0' + entry), 0};
	int rc = own->load(u, object, sizeof object - 1, &c), k = rc < 0 ? rc : device->entry(c, name);
	if (k >= 0)
		k = own->prepare(c, k, &w, &l);
	if (k >= 0)
		k = own->start(l);
	return k < 0 ? k : own->wait(u, clock_now(&clock_real) + DEADLINE_NS);
}

static bool writes_seven(const struct dev_own *own, struct dev_unit *u, struct dev_mem *mem)
{
	uint32_t words[16] = {0};
	return own->write(mem, 0, words, sizeof words) >= 0 && run(own, u, 0, mem) >= 0 &&
	       own->read(mem, 0, words, sizeof words) >= 0 && words[0] == 7;
}

/* In a process of its own: 0 if all was as it must be. The process ends without cleaning up. */
static int drill(enum drill d)
{
	const struct dev_own *own = device->own;
	struct dev_limits limits;
	struct dev_unit *u;
	struct dev_mem *mem = NULL, *more = NULL;
	uint32_t words[16] = {0};
	if (own->open(number, &u) < 0 || own->alloc(u, sizeof words, &mem) < 0)
		return 1;
	if (d == WORKS)
		return writes_seven(own, u, mem) ? 0 : 2;
	if (d == NO_MEMORY) {
		own->limits(u, &limits);
		int rc = E_OK;
		for (int i = 0; i < 4 && rc >= 0; i++)
			rc = own->alloc(u, limits.memory_bytes, &more);
		return rc != E_NOMEM ? 3 : writes_seven(own, u, mem) ? 0 : 4;
	}
	if (own->write(mem, 0, words, sizeof words) < 0)
		return 5;
	int64_t start_ns = clock_now(&clock_real);
	int rc = run(own, u, d == HANGS ? 2 : 1, mem);
	int64_t took_ns = clock_now(&clock_real) - start_ns;
	if (rc != (d == HANGS ? E_TIMEOUT : E_IO))
		return 6;
	if (d == HANGS && took_ns > DEADLINE_NS + LATE_NS + 2 * NS_PER_S) /* with the link */
		return 7;
	return own->write(mem, 0, words, sizeof words) == E_IO ? 0 : 8; /* lost */
}

/* The result of a drill, and how long its process was there; -1: it had to be killed. */
static int in_a_process(enum drill d, double *ms)
{
	double start_s = test_now_s();
	int status = 0;
	fflush(NULL);
	pid_t pid = fork(), ended = 0;
	if (pid == 0) {
		if (!getenv("DRILLS_DEVICE"))
			cuda_lie(lies[d]);
		int rc = drill(d);
		if (rc)
			printf("drill %s: step %d: %s\n", names[d], rc, err_text());
		fflush(NULL);
		_exit(rc);
	}
	while (pid > 0 && !ended && test_now_s() - start_s < 15) {
		ended = waitpid(pid, &status, WNOHANG);
		clock_real.sleep(&clock_real, NS_PER_MS);
	}
	if (pid > 0 && !ended && kill(pid, SIGKILL) == 0)
		(void)waitpid(pid, &status, 0);
	*ms = 1e3 * (test_now_s() - start_s);
	return ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(drills)
{
	const char *name = getenv("DRILLS_DEVICE");
	char report[1000] = "";
	int n = 0;
	device = dev_find(name ? name : "cuda:0");
	number = name ? dev_number(name) : 0;
	REQUIRE(device && device->own);
	if (!name)
		CHECK(dlopen(fake_cuda(), RTLD_NOW));
	for (enum drill d = WORKS; d < DRILLS; d++) {
		double ms, back_ms;
		int rc = in_a_process(d, &ms), again = in_a_process(WORKS, &back_ms);
		n += snprintf(
		    report + n, sizeof report - (size_t)n,
		    "%s\"%s\": {\"good\": %s, \"ms\": %.0f, \"works_again\": %s, \"again_ms\": %.0f}",
		    d ? ", " : "{", names[d], rc ? "false" : "true", ms, again ? "false" : "true", back_ms);
		CHECK(rc == 0 && again == 0);
	}
	printf("%s}\n", report);
}

TEST_MAIN
