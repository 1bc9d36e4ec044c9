/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of threads: PTX run on the host against the interpreter, bit for bit, in random programs; and texts
 * that lack a barrier or a wait, which must be found. SEED=n runs one program, SEEDS=n changes their
 * number. */
#include "kernels/emit/emit.h"
#include "tests/lib/ptx_device.h"
#include "tests/lib/ptx_object.h"
#include "tests/lib/threads_program.h"

static struct arena objects;

static struct target gpu(uint64_t which)
{
	static const char *const cpu[] = {"sm_72", "sm_75", "sm_80", "sm_87", "sm_90"};
	static const char *const first[] = {"+ptx61", "+ptx63", "+ptx70", "+ptx74", "+ptx78"};
	struct target t = {.isa = "cuda", .lanes = 4, .regs = 60, .fma = true, .group = 1024};
	strcpy(t.cpu, cpu[which % 5]);
	strcpy(t.features, which / 5 % 2 ? first[which % 5] : which % 5 < 4 ? "+ptx74" : "+ptx83");
	return t;
}

/* The object of the program in `l`. */
static const char *print(const struct target *t)
{
	struct blob o;
	arena_reset(&objects);
	int rc = loops_check(&l);
	if (rc >= 0)
		rc = emit_find("ptx")->emit(&l, t, &objects, &o);
	const char *text = rc < 0 ? NULL : arena_strndup(&objects, o.p, o.n),
		   *bad = text ? ptx_structure(&l, text, t) : err_text();
	if (bad)
		printf("%s: %s\n", t->cpu, bad);
	return bad ? NULL : text;
}

static int run_text(const char *text, uint64_t seed)
{
	void *bufs[THREADS_BUFS] = {threads_memory.x, threads_memory.y, threads_memory.got};
	const int64_t sizes[THREADS_BUFS] = {sizeof threads_memory.x,
					     THREADS_ELEMS * (int64_t)dtype_bytes(l.buf[Y_IN].dtype),
					     sizeof threads_memory.got};
	return ptx_device_run(
	    text, strlen(text),
	    &(struct ptx_device_run){.l = &l, .buf = bufs, .bytes = sizes, .at_once = 2, .seed = seed});
}

static bool same_memory(uint64_t seed)
{
	for (int i = 0; i < THREADS_ELEMS; i++) {
		const float *a = &threads_memory.want[i], *b = &threads_memory.got[i];
		if (l.buf[O_OUT].dtype == DT_I32 ? !memcmp(a, b, 4) : ptx_same_f32(a, b))
			continue;
		printf("seed %llu: element %d\n", (unsigned long long)seed, i);
		return false;
	}
	return true;
}

static uint64_t seeds(uint64_t usual, uint64_t *first)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	*first = one ? strtoull(one, NULL, 10) : 1;
	return one ? 1 : many ? strtoull(many, NULL, 10) : usual;
}

TEST(random_threads_equal_the_interpreter)
{
	uint64_t first, n = seeds(30, &first);
	int later = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct threads_maker m = {0};
		struct target tg = gpu(seed);
		random_threads(&m, seed);
		fill_threads_memory(&m);
		REQUIRE_OK(loops_check(&l));
		REQUIRE_OK(interpret_threads(&m));
		const char *text = print(&tg);
		REQUIRE(text);
		later += strstr(text, "cp.async") != NULL;
		int rc = run_text(text, seed);
		if (rc < 0)
			printf("%s seed %llu: %s\n", tg.cpu, (unsigned long long)seed, err_text());
		CHECK(rc == E_OK && same_memory(seed));
	}
	CHECK(n < 30 || later >= (int)n / 3);
}

/* A copy of the text without the k-th line that has the part; NULL: there are not so many. */
static const char *without(const char *text, const char *part, int k)
{
	const char *at = strstr(text, part);
	for (; at && k > 0; k--)
		at = strstr(at + 1, part);
	if (!at)
		return NULL;
	char *copy = arena_strndup(&objects, text, strlen(text));
	for (char *p = copy + (at - text); *p != '\n'; p++)
		*p = ' ';
	return copy;
}

/* Every barrier and wait of the programs is needed. With some order of threads and copies, the text without
 * it is an error or gives another answer. */
static void mutants(const char *part, int needed)
{
	int made = 0, found = 0;
	for (uint64_t seed = 1; made < needed && seed < 300; seed++) {
		struct threads_maker m = {0};
		struct target tg = gpu(2 + seed % 3);
		random_threads(&m, seed);
		fill_threads_memory(&m);
		REQUIRE_OK(interpret_threads(&m));
		const char *text = print(&tg);
		REQUIRE(text);
		for (int k = 0; k < 8 && made < needed; k++) {
			const char *less = without(text, part, k);
			bool wrong = false;
			for (uint64_t order = 0; less && order < 6 && !wrong; order++) {
				memset(threads_memory.got, 0xff, sizeof threads_memory.got);
				wrong = run_text(less, 100 * seed + order) < 0;
				for (int i = 0; i < THREADS_ELEMS && !wrong; i++)
					wrong =
					    !ptx_same_f32(&threads_memory.want[i], &threads_memory.got[i]);
			}
			made += less != NULL;
			found += wrong;
			if (less && !wrong)
				printf("seed %llu: \"%s\" number %d is not missed\n",
				       (unsigned long long)seed, part, k);
		}
	}
	printf("%d of %d texts without \"%s\" are found\n", found, made, part);
	CHECK(made == needed && found == made);
}

TEST(a_barrier_left_out_is_found)
{
	mutants("bar.sync", 30);
}

TEST(a_wait_left_out_is_found)
{
	mutants("cp.async.wait_group", 20);
}

TEST_MAIN
