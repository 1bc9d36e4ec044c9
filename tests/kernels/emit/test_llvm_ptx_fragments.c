/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments: PTX run on the host against plain sums, in random products of matrices: exact for bytes, near
 * for floats; texts that lack a barrier, a wait or a conversion to TF32, which must be found; targets without
 * them, which are refused. SEED=n runs one program, SEEDS=n changes their number. With PTX_DIR=D texts are
 * written to D/sm_87/N.ptx. */
#include "kernels/emit/emit.h"
#include "tests/lib/ptx_device.h"
#include "tests/lib/ptx_object.h"
#include "tests/lib/fragments_program.h"

#include <sys/stat.h>

static struct arena objects;
static struct frags_maker m;

static struct target gpu(uint64_t which)
{
	static const char *const cpu[] = {"sm_72", "sm_75", "sm_80", "sm_87", "sm_90"};
	static const char *const first[] = {"+ptx63", "+ptx63", "+ptx70", "+ptx74", "+ptx78"};
	struct target t = {.isa = "cuda", .lanes = 4, .regs = 60, .fma = true, .group = 1024};
	strcpy(t.cpu, cpu[which % 5]);
	strcpy(t.features, which / 5 % 2 ? first[which % 5] : which % 5 < 4 ? "+ptx74" : "+ptx83");
	return t;
}

static const char *print(const struct target *t)
{
	struct blob o;
	arena_reset(&objects);
	int rc = emit_find("ptx")->emit(&l, t, &objects, &o);
	const char *text = rc < 0 ? NULL : arena_strndup(&objects, o.p, o.n),
		   *bad = text ? ptx_structure(&l, text, t) : err_text();
	if (bad)
		printf("%s: %s\n%s", t->cpu, bad, getenv("V") ? text : "");
	return bad ? NULL : text;
}

static int run_text(const char *text, uint64_t seed)
{
	void *bufs[FRAGS_BUFS] = {frags_memory.a, frags_memory.b, frags_memory.got, frags_memory.sums};
	int64_t each = (int64_t)dtype_bytes(m.a.memory);
	const int64_t sizes[FRAGS_BUFS] = {m.m * m.k * each, m.k * m.n * each, m.m * m.n * 4,
					   m.parts * m.m * m.n * 4};
	memset(frags_memory.got, 0xff, sizeof frags_memory.got);
	return ptx_device_run(
	    text, strlen(text),
	    &(struct ptx_device_run){.l = &l, .buf = bufs, .bytes = sizes, .at_once = 2, .seed = seed});
}

static uint64_t seeds(uint64_t usual, uint64_t *first)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	*first = one ? strtoull(one, NULL, 10) : 1;
	return one ? 1 : many ? strtoull(many, NULL, 10) : usual;
}

static void keep(const char *text, const struct target *t, uint64_t seed)
{
	char path[512];
	const char *dir = getenv("PTX_DIR");
	if (!dir)
		return;
	snprintf(path, sizeof path, "%s/%s", dir, t->cpu);
	mkdir(path, 0777);
	snprintf(path, sizeof path, "%s/%s/f%llu.ptx", dir, t->cpu, (unsigned long long)seed);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fprintf(f, "//registers %d\n", ptx_estimate(&l, text)) > 0);
	if (f)
		CHECK(fclose(f) == 0);
}

/* The seed's program for its target, whose types the target has. */
static struct target make_program(uint64_t seed)
{
	struct target tg = gpu(seed);
	bool narrow = target_loads_matrices(&tg);
	random_fragments(&m, seed, DT_NONE, narrow);
	if (!target_multiplies_fragments(&tg, dtype_name(m.type)))
		random_fragments(&m, seed, DT_F16, narrow);
	fill_frags_memory(&m);
	return tg;
}

TEST(random_products_are_right)
{
	uint64_t first, n = seeds(90, &first);
	int types[DTYPES] = {0};
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct target tg = make_program(seed);
		const char *text = print(&tg);
		REQUIRE(text);
		keep(text, &tg, seed);
		bool loads = target_loads_matrices(&tg);
		CHECK(!strstr(text, "wmma.") == loads && !strstr(text, "\tmma.sync") == !loads);
		int rc = run_text(text, seed);
		if (rc < 0)
			printf("%s seed %llu: %s\n", tg.cpu, (unsigned long long)seed, err_text());
		CHECK(rc == E_OK && frags_near(&m, frags_memory.got, seed));
		types[m.type]++;
	}
	CHECK(n < 90 || (types[DT_F16] > 4 && types[DT_BF16] > 4 && types[DT_I8] > 4 && types[DT_U8] > 4 &&
			 types[DT_F32] > 4));
}

/* The seed's program of f32, and its text for a target that has TF32. */
static const char *tf32_text(uint64_t seed)
{
	struct target tg = gpu(2 + seed % 3);
	random_fragments(&m, seed, DT_F32, true);
	return print(&tg);
}

/* Memory where all sums are exact, but not those of f32 that are not rounded to TF32, or in another way:
 * elements of A that are ties, and of B that are near whole numbers. */
static void fill_exactly(void)
{
	fill_frags_memory(&m);
	for (int64_t e = 0; e < m.m * m.k; e++)
		frags_memory.a[e] = (float)(below(&m, 2) ? -1 : 1) * (1 + (float)below(&m, 2048) / 2048);
	for (int64_t e = 0; e < m.k * m.n; e++)
		frags_memory.b[e] = (float)(below(&m, 5) - 2) * (1 + 1.f / 8192);
}

/* Whether the text's results are the interpreter's, bit for bit. */
static bool same_bits(const char *text, uint64_t seed)
{
	int rc = run_text(text, seed);
	if (rc >= 0)
		rc = interpret_fragments(&m);
	if (rc < 0)
		printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
	return rc >= 0 && !memcmp(frags_memory.got, frags_memory.want, (size_t)(m.m * m.n) * 4);
}

TEST(tf32_is_rounded_as_by_the_interpreter)
{
	static const char rna[] = "cvt.rna.tf32.f32", mov[] = "mov.b32         ";
	uint64_t first, n = seeds(20, &first);
	int found = 0, loads[2] = {0, 0};
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		const char *text = tf32_text(seed);
		REQUIRE(text && strstr(text, rna) &&
			strstr(text, "mma.sync.aligned.m16n8k8.row.col.f32.tf32"));
		loads[strstr(text, "ldmatrix") != NULL]++;
		fill_exactly();
		CHECK(same_bits(text, seed));
		char *raw = arena_strndup(&objects, text, strlen(text));
		for (char *p = raw; (p = strstr(p, rna));)
			memcpy(p, mov, sizeof mov - 1);
		found += !same_bits(raw, seed);
	}
	CHECK(test_bad || (found == (int)n && (n < 20 || (loads[0] && loads[1]))));
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

/* copies: only programs that copy while they compute, for targets that do. */
static void mutants(const char *part, bool copies, int needed)
{
	int made = 0, found = 0, parts = 0;
	for (uint64_t seed = 1; made < needed && seed < 300 && !test_bad; seed++) {
		struct target tg = make_program(seed);
		if (copies && (seed % 5 < 2 || !(frags_copies(&m.a) || frags_copies(&m.b))))
			continue;
		const char *text = print(&tg);
		REQUIRE(text);
		for (int k = 0; k < 8 && made < needed; k++) {
			const char *less = without(text, part, k);
			bool wrong = false;
			for (uint64_t order = 0; less && order < 6 && !wrong; order++)
				wrong = run_text(less, 100 * seed + order) < 0;
			made += less != NULL;
			found += wrong;
			parts += wrong && m.parts > 1;
			if (less && !wrong)
				printf("seed %llu: \"%s\" number %d is not missed\n",
				       (unsigned long long)seed, part, k);
		}
	}
	printf("%d of %d texts without \"%s\" are found, %d of them of products in parts\n", found, made,
	       part, parts);
	CHECK(made == needed && found == made && parts > needed / 6);
}

TEST(a_barrier_left_out_is_found)
{
	mutants("bar.sync", false, 30);
}

TEST(a_wait_left_out_is_found)
{
	mutants("cp.async.wait_group", true, 30);
}

TEST(fragments_are_refused_where_they_are_missing)
{
	static const struct {
		const char *cpu, *features;
		enum dtype type;
		bool good;
	} rows[] = {{"sm_72", "+ptx61", DT_F16, true},  {"sm_72", "+ptx61", DT_I8, false},
		    {"sm_72", "+ptx63", DT_I8, true},   {"sm_75", "+ptx74", DT_BF16, false},
		    {"sm_80", "+ptx70", DT_BF16, true}, {"sm_80", "+ptx65", DT_BF16, false},
		    {"sm_72", "+ptx74", DT_F32, false}, {"sm_75", "+ptx74", DT_F32, false},
		    {"sm_80", "+ptx65", DT_F32, false}, {"sm_80", "+ptx70", DT_F32, true}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct target tg = gpu(0);
		struct blob o;
		strcpy(tg.cpu, rows[i].cpu);
		strcpy(tg.features, rows[i].features);
		random_fragments(&m, i + 1, rows[i].type, false);
		arena_reset(&objects);
		int rc = emit_find("ptx")->emit(&l, &tg, &objects, &o);
		if (rc != (rows[i].good ? E_OK : E_UNSUPPORTED))
			printf("%s %s: %s\n", tg.cpu, tg.features, rc < 0 ? err_text() : "accepted");
		CHECK(rc == (rows[i].good ? E_OK : E_UNSUPPORTED));
	}
	struct target old = gpu(0);
	struct blob none;
	random_fragments(&m, 1, DT_F16, true);
	CHECK(emit_find("ptx")->emit(&l, &old, &objects, &none) == E_UNSUPPORTED &&
	      strstr(err_text(), "narrow rows"));
	static const char *const others[] = {"opencl", "llvm", "sim"};
	for (int i = 0; i < 3; i++) {
		struct target tg = {
		    .isa = "opencl", .cpu = "generic", .lanes = 4, .regs = 64, .fma = true, .group = 256};
		struct blob o;
		if (i == 1)
			REQUIRE_OK(target_host(&tg));
		else if (i == 2)
			strcpy(tg.isa, "sim");
		random_fragments(&m, 1, DT_F16, false);
		CHECK(emit_find(others[i])->emit(&l, &tg, &objects, &o) == E_UNSUPPORTED);
	}
}

TEST_MAIN
