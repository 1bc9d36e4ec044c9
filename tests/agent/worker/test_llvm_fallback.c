/* SPDX-License-Identifier: Apache-2.0 */
/* The archives of fallback kernels that the build made are whole, of the right ISA, and have the forms that
 * networks need. */
#include "tests/lib/test.h"
#include "agent/run/fallback.h"
#include "kernels/group/group_parts.h"
#include "platform/base/buf.h"

#include <glob.h>
#include <unistd.h>

/* $(B)/gen/`name`, beside this program's folder. */
static void made(const char *name, char path[600])
{
	char self[512];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(self, '/');
		if (slash)
			*slash = 0;
	}
	snprintf(path, 600, "%s/gen/%s", self, name);
}

static void check_archive(const char *path, int least, int below)
{
	struct arena a = {0};
	struct blob b;
	char isa[64];
	snprintf(isa, sizeof isa, "%s", strrchr(path, '/') + 1);
	*strchr(isa, '.') = 0;
	REQUIRE_OK(file_read(&a, path, 0, &b));
	struct cur index = {.p = b.p, .n = b.n};
	cur_bytes(&index, 4);
	int n = (int)cur_u32(&index);
	printf("%s: %d kernels\n", isa, n);
	REQUIRE(n >= least && n < below);
	struct cur c = {.p = b.p, .n = b.n, .at = 8 + 20 * (size_t)n};
	for (int k = 0; k < n; k++) {
		struct code code;
		cur_bytes(&index, 16);
		uint32_t bytes = cur_u32(&index);
		const void *p = cur_bytes(&c, bytes);
		REQUIRE(p != NULL);
		CHECK_OK(code_parse(p, bytes, &a, &code));
		CHECK(!strcmp(code.m.isa, isa) && code.m.nsyms > 0);
	}
	CHECK(!c.bad && c.at == c.n);
	arena_free(&a);
}

TEST(archive_of_each_baseline)
{
	char path[600];
	glob_t found;
	made("*.fallback", path);
	REQUIRE(glob(path, 0, NULL, &found) == 0);
#ifdef __x86_64__
	CHECK(found.gl_pathc == 3);
#endif
	for (size_t i = 0; i < found.gl_pathc; i++)
		check_archive(found.gl_pathv[i], 230, 1024);
	globfree(&found);
	made("few/*.fallback", path); /* the archive of libhone */
	REQUIRE(glob(path, 0, NULL, &found) == 0);
	CHECK(found.gl_pathc == 1);
	check_archive(found.gl_pathv[0], 110, 220);
	globfree(&found);
	CHECK_FAILS(fallback_make("vax", emit_find("llvm"), false, "/dev/null"), E_NOTFOUND, "vax");
}

/* Tasks as steps write them, with other sizes: halos on one side or none, channels that fill a block only
 * partly. Grouped and transposed convolutions are the portable path's (agent/run/host_tile.h). */
static const char *const forms[] = {
    "operand X in f32 [1,24,9,12,10] 0.1/16.2.3.4.1;2+1+1;3+1+1;4+1+1\noperand W const f32 [20,24,3,3,3] "
    "plain\n"
    "operand B const f32 [20] plain\noperand Y out f32 [1,20,9,12,10] 0.1/16.2.3.4.1\nstage n:1 k:20 z:9 "
    "y:12 x:10 | "
    "c:24 q:3 r:3 s:3\nread X [n,c,z+q-1,y+r-1,x+s-1]\nread W [k,c,q,r,s]\nread B [k]\nbody r0 r1 "
    "mul\nsum\npost acc "
    "r2 add 0 max\nwrite Y [n,k,z,y,x]\n",
    "operand X in f32 [1,7,9,9] plain;2+1+1;3+1+1\noperand W const f32 [5,7,3,3] plain\noperand B const f32 "
    "[5] "
    "plain\noperand Y out f32 [1,5,9,9] plain\nstage n:1 k:5 y:9 x:9 | c:7 r:3 s:3\nread X "
    "[n,c,y+r-1,x+s-1]\nread W "
    "[k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add\nwrite Y [n,k,y,x]\n",
    "operand X in f32 [1,20,11] 0.1/16.2.1\noperand Y out f32 [1,20,5] 0.1/16.2.1\nstage n:1 k:20 x:5 | "
    "s:3\nread X "
    "[n,k,2*x+s]\nbody r0\nmax\nwrite Y [n,k,x]\n",
    "operand X in f32 [1,20,11] plain\noperand Y out f32 [1,20,11] plain;1+2+2\nstage n:1 k:20 x:11 | "
    "j:3\nread X "
    "[n,k+j-1,x]\nbody r0 square\nsum\nwrite Y [n,k,x]\n",
    "operand X in f32 [1,4,9] plain\noperand U tmp f32 [1,4,1] plain\noperand V tmp f32 [1,4,1] "
    "plain\noperand Y out "
    "f32 [1,4,9] plain\nstage a:1 b:4 | x:9\nread X [a,b,x]\nbody r0\nmax\nwrite U [a,b,0]\nstage a:1 b:4 | "
    "x:9\nread X "
    "[a,b,x]\nread U [a,b,0]\nbody r0 r1 sub exp\nsum\npost acc recip\nwrite V [a,b,0]\nstage a:1 b:4 "
    "x:9\nread X "
    "[a,b,x]\nread U [a,b,0]\nread V [a,b,0]\nbody r0 r1 sub exp r2 mul\nwrite Y [a,b,x]\n",
};

static bool in_archive(const struct blob *b, struct key want)
{
	struct cur c = {.p = b->p, .n = b->n};
	cur_bytes(&c, 4);
	for (uint32_t i = 0, n = cur_u32(&c); i < n && !c.bad; i++) {
		struct key k;
		k.hi = cur_u64(&c);
		k.lo = cur_u64(&c);
		cur_u32(&c);
		if (key_equal(k, want))
			return true;
	}
	return false;
}

TEST(forms_that_networks_have)
{
	char path[600], text[2048];
	struct arena a = {0};
	struct blob b;
	static struct task t, g;
	static struct fallback_parts parts;
	int64_t params[MAX_SYMS];
	made("x86-64-v4.fallback", path);
	if (!file_exists(path))
		SKIP("no fallback kernels with 16 lanes");
	REQUIRE_OK(file_read(&a, path, 0, &b));
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		snprintf(text, sizeof text, "task syms=0\n%s", forms[i]);
		REQUIRE_OK(task_parse(text, &t));
		task_simplify(&t);
		REQUIRE_OK(fallback_split(&t, 16, true, &parts));
		REQUIRE_OK(task_abstract(&parts.core, &g, params));
		bool there = in_archive(&b, task_key(&g));
		CHECK(there);
		if (!there)
			printf("%s", text);
	}
	CHECK_FAILS(fallback_split(&t, 16, false, &parts), E_UNSUPPORTED, "chains");
	arena_free(&a);
}

TEST_MAIN
