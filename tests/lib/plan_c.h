/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles plans that were written as C (agent/bundle/plan_c.h), runs them, and compares what they answer
 * with the plan. */
#ifndef TESTS_PLAN_C_H
#define TESTS_PLAN_C_H

#include "agent/bundle/plan_c.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "kernels/group/group.h"
#include "kernels/onnx/import.h"
#include "platform/base/file.h"
#include "tests/lib/cli.h"
#include "tools/hone/model.h"

#include <math.h>
#include <stdarg.h>

/* Runs a command in the folder; 0: it succeeded. */
__attribute__((format(printf, 1, 2))) static inline int shell(const char *format, ...)
{
	char cmd[2048];
	va_list ap;
	(void)in_dir("");
	int n = snprintf(cmd, sizeof cmd, "cd %s && ", dir);
	va_start(ap, format);
	vsnprintf(cmd + n, sizeof cmd - (size_t)n, format, ap);
	va_end(ap);
	fflush(NULL);
	return system(cmd);
}

/* A network, its plan, and a run of it. */
struct c_net {
	struct graph *g;
	struct arena a;
	struct plan *p;
	struct tensor *in, *out;
	bool exact; /* floats have to be the same, too */
};

static inline void fill(struct tensor *t, int seed)
{
	int64_t n = shape_count(&t->shape);
	for (int64_t i = 0; i < n; i++)
		tensor_set(t, i,
			   t->dtype == DT_F32 ? (double)((i * 37 + seed * 11) % 101) / 101.0 - 0.5
					      : (double)((i * 3 + seed) % 5 - 2));
}

/* Makes inputs and outputs of a graph. */
static inline int net_tensors(struct c_net *n)
{
	const struct graph *g = n->g;
	int rc = E_OK;
	n->in = ARENA_ARRAY(&n->a, struct tensor, g->ninputs + 1);
	n->out = ARENA_ARRAY(&n->a, struct tensor, g->noutputs + 1);
	for (int i = 0; i < g->ninputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->input[i]].t;
		if ((rc = tensor_alloc(&n->a, x->dtype, &x->shape, &n->in[i])) >= 0)
			fill(&n->in[i], i);
	}
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->output[i]].t;
		rc = tensor_alloc(&n->a, x->dtype, &x->shape, &n->out[i]);
	}
	return rc;
}

/* Plans a graph that is optimised. bytes: quantised operators are tasks. */
static inline int net_plan(struct c_net *n, struct graph *g, bool bytes, const struct kernel_source *src)
{
	struct target t;
	struct steps *s;
	struct choices c = {0};
	*n = (struct c_net){.g = g};
	int rc = target_host(&t);
	if (bytes)
		choices_set(&c, &n->a, CHOICE_BYTES, CHOICE_ALL, 1);
	if (rc >= 0)
		rc = graph_steps(g, &t, &c, &n->a, &s);
	if (rc >= 0)
		rc = plan_build_whole(g, s, &t, src, NULL, &n->p);
	return rc < 0 ? rc : net_tensors(n);
}

static inline void net_close(struct c_net *n)
{
	plan_free(n->p);
	graph_free(n->g);
	arena_free(&n->a);
}

static inline size_t bytes_of(const struct tensor *t)
{
	return (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
}

static inline void write_tensors(const char *name, const struct tensor *t, int n)
{
	FILE *f = fopen(in_dir(name), "w");
	REQUIRE(f != NULL);
	for (int i = 0; i < n; i++)
		CHECK(fwrite(t[i].data, 1, bytes_of(&t[i]), f) == bytes_of(&t[i]));
	CHECK(fclose(f) == 0);
}

/* Writes a program that reads in.NAME, runs NAME `runs` times in an arena of rubbish and writes out.NAME;
 * several threads take turns, the last range first. */
static inline void write_main(const struct c_net *n, const char *name, int threads)
{
	char file[128];
	snprintf(file, sizeof file, "%s_main.c", name);
	FILE *f = fopen(in_dir(file), "w");
	REQUIRE(f != NULL);
	fprintf(f, "#include \"%s.h\"\n#include <stdio.h>\n#include <string.h>\n", name);
	fprintf(f, "static unsigned char arena[%s_AB] __attribute__((aligned(64)));\n", name);
	for (int i = 0; i < n->g->ninputs; i++)
		fprintf(f, "static unsigned char in%d[%zu] __attribute__((aligned(8)));\n", i,
			bytes_of(&n->in[i]) + 1);
	for (int i = 0; i < n->g->noutputs; i++)
		fprintf(f, "static unsigned char out%d[%zu] __attribute__((aligned(8)));\n", i,
			bytes_of(&n->out[i]) + 1);
	fprintf(f,
		"static void turns(void *user, %s_range *fn, void *ctx, int64_t extent)\n{\n"
		"\tint n = *(int *)user;\n"
		"\tfor (int t = n - 1; t >= 0; t--)\n"
		"\t\tif (extent * t / n < extent * (t + 1) / n)\n"
		"\t\t\tfn(ctx, t, extent * t / n, extent * (t + 1) / n);\n}\n",
		name);
	fprintf(f, "int %s_main(void)\n{\n\tint threads = %d, good = 1;\n\tstruct %s_io io;\n\tvoid *p[] = {",
		name, threads, name);
	for (int i = 0; i < n->g->ninputs; i++)
		fprintf(f, "in%d, ", i);
	for (int i = 0; i < n->g->noutputs; i++)
		fprintf(f, "out%d, ", i);
	fprintf(f,
		"0};\n\tmemcpy(&io, p, sizeof io);\n\tFILE *f = fopen(\"in.%s\", \"r\");\n\tif "
		"(!f)\n\t\treturn 1;\n",
		name);
	for (int i = 0; i < n->g->ninputs; i++)
		fprintf(f, "\tgood &= fread(in%d, 1, %zu, f) == %zu;\n", i, bytes_of(&n->in[i]),
			bytes_of(&n->in[i]));
	fprintf(
	    f,
	    "\tfclose(f);\n\tmemset(arena, 0xff, sizeof arena);\n\t%s_init(arena);\n"
	    "\tfor (int i = 0; i < 2; i++)\n"
	    "\t\tgood &= %s_run_parallel(&io, arena, threads, turns, &threads) == 0;\n"
	    "\tgood &= %s_run(&io, arena) == 0 && %s_run(&io, arena + 4) < 0 && %s_run(NULL, arena) < 0;\n"
	    "\tgood &= %s_run_parallel(&io, arena, 2, NULL, NULL) < 0;\n"
	    "\tf = fopen(\"out.%s\", \"w\");\n\tif (!f)\n\t\treturn 1;\n",
	    name, name, name, name, name, name, name);
	for (int i = 0; i < n->g->noutputs; i++)
		fprintf(f, "\tgood &= fwrite(out%d, 1, %zu, f) == %zu;\n", i, bytes_of(&n->out[i]),
			bytes_of(&n->out[i]));
	fprintf(f, "\treturn fclose(f) != 0 || !good;\n}\n");
	CHECK(fclose(f) == 0);
}

#define STRICT "-std=c99 -pedantic -Wall -Wextra -Wshadow -Wmissing-prototypes -Werror"

static inline const char *compiler(void)
{
	const char *cc = getenv("CC");
	return cc && *cc ? cc : "cc";
}

/* Writes and compiles it with these options of the compiler; 0: it succeeded. */
static inline int compile_with(const struct c_net *n, const char *name, int threads, const char *options)
{
	struct plan_c_sizes sizes;
	char upper[PLAN_C_NAME] = "";
	for (int i = 0; name[i]; i++)
		upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
	int rc = plan_c_write(n->p, in_dir(""), name, &sizes);
	if (rc < 0)
		return rc;
	write_main(n, name, threads);
	rc = shell("%s %s -c %s.c && %s -std=c99 -Wall -Werror -D%s_AB='%s_ARENA_BYTES_FOR(%d)' -c %s_main.c",
		   compiler(), options, name, compiler(), name, upper, threads, name);
	return rc ? fail(E_CORRUPT, "%s does not compile", name) : E_OK;
}

static inline int compile(const struct c_net *n, const char *name, int threads)
{
	return compile_with(n, name, threads, STRICT " -O1");
}

/* Equal, but for floats' rounding: the portable path fuses multiplications and additions where the machine
 * can, and the bundle was compiled without that. */
static inline bool same_values(const struct tensor *t, const void *got, bool exact)
{
	const float *a = t->data, *b = got;
	float most = 0;
	int64_t n = shape_count(&t->shape);
	if (t->dtype != DT_F32 || exact)
		return !memcmp(got, t->data, bytes_of(t));
	for (int64_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(a[i]));
	for (int64_t i = 0; i < n; i++)
		if (!(a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-5f * most))
			return false;
	return true;
}

static inline void check_outputs(const struct c_net *n, const char *name)
{
	struct arena a = {0};
	struct blob b;
	char file[128];
	snprintf(file, sizeof file, "out.%s", name);
	REQUIRE_OK(file_read(&a, in_dir(file), 0, &b));
	size_t at = 0;
	for (int i = 0; i < n->g->noutputs; i++) {
		size_t bytes = bytes_of(&n->out[i]);
		bool same = at + bytes <= b.n && same_values(&n->out[i], (const char *)b.p + at, n->exact);
		CHECK(same);
		at += bytes;
	}
	CHECK(at == b.n);
	arena_free(&a);
}

/* Links and runs the program of a net that was compiled, and compares its outputs with n->out. */
static inline void check_program(const struct c_net *n, const char *name)
{
	char file[128];
	snprintf(file, sizeof file, "in.%s", name);
	write_tensors(file, n->in, n->g->ninputs);
	CHECK(shell("echo 'int %s_main(void); int main(void) { return %s_main(); }' > main.c && "
		    "%s -Wl,--fatal-warnings main.c %s.o %s_main.o %s_kernels.o %s_weights.o -lm -o prog_%s "
		    "&& ./prog_%s",
		    name, name, compiler(), name, name, name, name, name, name) == 0);
	check_outputs(n, name);
}

static inline void check_plan(const struct c_net *n, const char *name, int threads)
{
	int rc = compile(n, name, threads);
	if (rc >= 0)
		rc = plan_run(n->p, n->in, n->out);
	CHECK_OK(rc);
	if (rc >= 0)
		check_program(n, name);
}

/* Has `hone compile` write a model as C, compiles and runs that on these inputs (NULL: those of `hone run
 * --random`), and reads the outputs. Returns their bytes. */
static inline size_t run_c(const char *path, const char *options, struct tensor *in, void *to, size_t cap)
{
	struct c_net n = {0};
	struct arena a = {0};
	struct blob b = {0};
	const struct import_opts none = {0};
	CHECK_RUN(0, "compile %s --c --name net -o %s --threads 1 %s", path, in_dir("c"), options);
	CHECK_OK(import_file(path, &none, &n.g));
	n.in = in;
	if (!in)
		CHECK_OK(model_inputs(n.g, 1, &n.a, &n.in));
	CHECK_OK(model_outputs(n.g, &n.a, &n.out));
	write_main(&n, "net", 1);
	write_tensors("in.net", n.in, n.g->ninputs);
	CHECK(shell("echo 'int net_main(void); int main(void) { return net_main(); }' > main.c && "
		    "%s -O2 -Dnet_AB=NET_ARENA_BYTES -Ic c/net.c net_main.c main.c c/net_kernels.o "
		    "c/net_weights.o -o net -lm && ./net",
		    compiler()) == 0);
	CHECK_OK(file_read(&a, in_dir("out.net"), cap, &b));
	if (b.n)
		memcpy(to, b.p, b.n);
	size_t bytes = b.n;
	arena_free(&a);
	net_close(&n);
	return bytes;
}

#endif
