/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as C: the source compiles without a warning, needs no other library, and computes what the plan does,
 * bit for bit. */
#include "agent/bundle/plan_c_parts.h"
#include "kernels/onnx/import.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "platform/base/file.h"
#include "tests/lib/net.h"
#include "tests/lib/onnx_make.h"
#include "tests/lib/pad_net.h"
#include "tests/lib/plan_c.h"
#include "agent/run/source.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <fcntl.h>
#include <sys/resource.h>

static void check_net(struct graph *g, const char *name, int threads)
{
	struct c_net n;
	int rc = net_plan(&n, g, false, NULL);
	CHECK_OK(rc);
	if (rc >= 0)
		check_plan(&n, name, threads);
	net_close(&n);
}

static struct graph *zoo_net(const char *name, uint64_t seed)
{
	struct graph *g = NULL;
	CHECK_OK(zoo_make(name, seed, &g));
	CHECK_OK(graph_optimize(g));
	return g;
}

TEST(a_network_of_the_zoo)
{
	check_net(zoo_net("steering", 1), "steering", 1);
}

TEST(parts_of_others_and_threads)
{
	check_net(zoo_net("squeezenet1_1", 1), "squeezenet", 3);
}

/* Kernels made for it, with halos and scratch. */
TEST(tuned_kernels)
{
	struct c_net n;
	struct target t;
	struct cache *c = NULL;
	struct kernel_source src = {0};
	if (!worker())
		SKIP("no hone-worker (set HONE_WORKER)");
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(cache_open(&c, in_dir("cache"), true, 0));
	CHECK_OK(cache_source(c, &t, 1, false, REC_BEST, &src));
	CHECK_OK(net_plan(&n, zoo_net("steering", 1), false, &src));
	if (!test_bad)
		check_plan(&n, "tuned", 2);
	const struct plan_kernel *k;
	for (int i = n.p ? plan_kernels(n.p, &k) - 1 : -1; i >= 0; i--)
		CHECK(k[i].origin == FROM_CACHE);
	net_close(&n);
	cache_source_free(&src);
	cache_close(c);
}

TEST(published_networks)
{
	static const char *const all[] = {"hand_keypoint_classifier", "yunet_n_320",
					  "ultraface_rfb_320_nopost", "vittrack",
					  "silero_vad_openvino_16k",  "pulp_dronet_v2"};
	const struct import_opts opts = {0};
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct graph *g;
		char path[600];
		snprintf(path, sizeof path, "%s/models/%s/model.onnx", test_data(), all[i]);
		REQUIRE_OK(import_file(path, &opts, &g));
		CHECK_OK(graph_optimize(g));
		check_net(g, all[i], 1 + (int)i % 3);
	}
}

/* Constants around images, other than 0, that later nodes read in other ways. */
TEST(random_networks_with_pads)
{
	for (uint64_t seed = 1; seed <= 12 && !test_bad; seed++) {
		struct tensor in;
		struct graph *g = pad_net(seed, DT_F32, &in);
		CHECK_OK(graph_optimize(g));
		check_net(g, "pads", 1 + (int)seed % 3);
		if (test_bad)
			printf("seed %d\n", (int)seed);
	}
}

/* One program without hone: the objects need only memcpy and memset from elsewhere. */
TEST(two_networks_in_one_program)
{
	struct c_net n[2];
	static const char *const names[] = {"left_eye", "right_eye"};
	for (int i = 0; i < 2; i++) {
		char in[32];
		snprintf(in, sizeof in, "in.%s", names[i]);
		REQUIRE_OK(net_plan(&n[i], zoo_net("steering", 5 + (uint64_t)i), false, NULL));
		REQUIRE_OK(compile(&n[i], names[i], 1 + i));
		REQUIRE_OK(plan_run(n[i].p, n[i].in, n[i].out));
		write_tensors(in, n[i].in, n[i].g->ninputs);
		CHECK(shell("%s -O2 -ffreestanding -fno-pic -fno-stack-protector -c %s.c -o bare.o && "
			    "ld -r -o bare_all.o bare.o %s_kernels.o %s_weights.o && "
			    "! nm -u bare_all.o | grep -v -w -e memcpy -e memset && "
			    "! nm -g --defined-only bare_all.o | grep -v ' %s_' && "
			    "! nm bare_all.o | grep -i ' [bdc] '",
			    compiler(), names[i], names[i], names[i], names[i]) == 0);
	}
	CHECK(shell("printf 'int left_eye_main(void), right_eye_main(void);\n"
		    "int main(void) { return left_eye_main() || right_eye_main(); }\n' > main.c && "
		    "%s -Wl,--fatal-warnings main.c left_eye*.o right_eye*.o -o both && ./both",
		    compiler()) == 0);
	check_outputs(&n[0], names[0]);
	check_outputs(&n[1], names[1]);
	CHECK(memcmp(n[0].out[0].data, n[1].out[0].data, bytes_of(&n[0].out[0])) != 0);
	net_close(&n[0]);
	net_close(&n[1]);
}

TEST(names)
{
	static const struct {
		const char *from, *to;
	} rows[] = {
	    {"yunet", "yunet"},    {"YuNet-n.320", "YuNet_n_320"},
	    {"3d", "net_3d"},      {"_x", "x"},
	    {"", "net"},           {"a/b c", "a_b_c"},
	    {"*/", "net"},         {"\xc3\xbc", "net"},
	    {"if", "if"},          {"-dash", "net_dash"},
	    {"__a__b__", "a_b"},   {"na\xc3\xafve (v2)", "na_ve_v2"},
	    {"___", "net"},        {"string", "net_string"},
	    {"math", "net_math"},  {"math2", "math2"},
	    {"time-", "net_time"}, {"features", "net_features"},
	};
	char out[PLAN_C_NAME], longest[200];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		plan_c_name(rows[i].from, out);
		CHECK(!strcmp(out, rows[i].to));
	}
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = 0;
	plan_c_name(longest, out);
	CHECK(strlen(out) == PLAN_C_NAME - 1);
	longest[PLAN_C_NAME - 2] = '-';
	plan_c_name(longest, out);
	CHECK(strlen(out) == PLAN_C_NAME - 2);
}

/* Makes an optimised graph with these two values as outputs. */
static struct graph *two_outputs(struct zoo *z, int a, const char *a_name, int b, const char *b_name)
{
	struct graph *g = z->g;
	g->output = ARENA_ARRAY(&g->arena, int, 2);
	g->output[0] = a;
	g->output[1] = b;
	g->noutputs = 2;
	g->value[a].is_output = g->value[b].is_output = true;
	g->value[a].name = a_name;
	g->value[b].name = b_name;
	CHECK_OK(z->rc);
	CHECK_OK(graph_infer(g));
	CHECK_OK(graph_optimize(g));
	return g;
}

/* Names that would end comments, continue lines, or be equal for a compiler. */
TEST(hostile_names)
{
	struct zoo z = net_begin("*/ #error \"");
	struct fmap x = zoo_input(&z, "int", 3, 9, 9), y = zoo_input(&z, "a*/\n#error \"x\" \\", 3, 9, 9),
		    w = zoo_input(&z, "A+/\n#error_\"x\"_\\", 3, 9, 9);
	const int inputs[] = {x.value, y.value, w.value};
	z.g->input = arena_memdup(&z.g->arena, inputs, sizeof inputs);
	z.g->ninputs = 3;
	const struct zoo_conv conv = {.k = 5, .r = 3, .stride = 1, .pad = 1, .act = ACT_RELU};
	struct fmap p = zoo_conv(&z, zoo_add(&z, x, y), conv), q = zoo_conv(&z, zoo_add(&z, w, y), conv);
	struct graph *g = two_outputs(&z, p.value, "", zoo_unary(&z, "Tanh", q.value),
				      "?"
				      "?/");
	for (int i = 0; i < g->nnodes; i++)
		g->node[i].name = i % 2 ? "*/ #error ?"
					  "?/"
					: "// \\\n/* \xff";
	check_net(g, "hostile", 2);
}

/* A comment shows the true name, as UTF-8, but for what would end it or turn the text around. */
TEST(comments_show_true_names)
{
	static const char *const names[][2] = {
	    {"\xc3\xa9", "\xc3\xa9"},
	    {"\xc3\x9f'\"#", "\xc3\x9f'\"#"},
	    {"\xe6\x97\xa5\xf0\x9f\x99\x82", "\xe6\x97\xa5\xf0\x9f\x99\x82"},
	    {"a*/b", "a\\x2a/b"},
	    {"?\?/\n\\", "\\x3f\\x3f/\\x0a\\x5c"},
	    {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
	    {"\xc3", "\\xc3"},
	    {"\xd8\x9c", "\\xd8\\x9c"},
	    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
	    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct buf b = {0};
		c_comment(&b, names[i][0]);
		CHECK(!strcmp(buf_str(&b), names[i][1]));
		buf_free(&b);
	}
}

/* Indices as inputs, some counted from the end; then one that is out of range. */
TEST(nodes_in_c)
{
	struct zoo z = net_begin("nodes");
	const struct shape table = {2, {5, 6}}, seven = {1, {7}};
	int ids = zoo_input(&z, "ids", 1, 1, 7).value, emb = zoo_normal(&z, "emb", &table, 0, 1);
	z.g->value[ids].t.dtype = DT_I64;
	z.g->value[ids].t.shape = seven;
	const struct attr axis = zoo_attr_int("axis", -1), f32 = zoo_attr_int("to", 1),
			  u8 = zoo_attr_int("to", 2), across = zoo_attr_int("axis", 1);
	int rows = zoo_node(&z, "Gather", 2, (const int[]){emb, ids}, 0, NULL);
	int most = zoo_node(&z, "ArgMax", 1, &rows, 1, &axis),
	    least = zoo_node(&z, "ArgMin", 1, &rows, 0, NULL);
	int sum = zoo_binary(&z, "Add", rows, zoo_node(&z, "Cast", 1, &most, 1, &f32));
	int small = zoo_node(&z, "Cast", 1, &sum, 1, &u8);
	int picked = zoo_node(&z, "Gather", 2, (const int[]){small, least}, 1, &across);
	picked = zoo_node(&z, "Concat", 2, (const int[]){picked, picked}, 1, &across); /* copies of bytes */
	check_net(two_outputs(&z, sum, "sum", picked, "picked"), "nodes", 2);
	CHECK(shell("printf '#include \"nodes.h\"\n"
		    "static unsigned char arena[NODES_ARENA_BYTES] __attribute__((aligned(64)));\n"
		    "static float a[NODES_OUT_SUM_ELEMS];\nstatic uint8_t b[NODES_OUT_PICKED_ELEMS];\n"
		    "int main(void) {\n\tint64_t ids[NODES_IN_IDS_ELEMS] = {0};\n"
		    "\tconst struct nodes_io io = {ids, a, b};\n\tnodes_init(arena);\n"
		    "\tif (nodes_run(&io, arena) != 0)\n\t\treturn 1;\n\tids[3] = 5;\n"
		    "\treturn nodes_run(&io, arena) != -2;\n}\n' > range.c && "
		    "%s " STRICT " range.c nodes.o nodes_kernels.o nodes_weights.o -lm -o range && ./range",
		    compiler()) == 0);
}

static int any(struct rng *r, int lo, int hi)
{
	return lo + (int)rng_below(r, (uint64_t)(hi - lo + 1));
}

/* Adds a Pad of a random shape, one of whose sizes may be 0, with the value "v". */
static void add_pad(struct onnx_maker *k, struct rng *r, int i)
{
	int rank = any(r, 1, 4), none = any(r, 0, 2) ? -1 : any(r, 0, rank - 1);
	int64_t pads[8] = {0};
	char dims[64] = "", two[16];
	for (int d = 0; d < rank; d++) {
		snprintf(dims + strlen(dims), 16, "%s%d", d ? " " : "", d == none ? 0 : any(r, 1, 4));
		pads[d] = d == none && any(r, 0, 1) ? 0 : any(r, 0, 2);
		pads[rank + d] = d == none && any(r, 0, 1) ? 0 : any(r, 0, 2);
	}
	snprintf(two, sizeof two, "%d", 2 * rank);
	mk_input(k, arena_printf(&k->a, "x%d", i), 1, dims);
	mk_init(k, arena_printf(&k->a, "p%d", i), 7, two, pads, (size_t)(2 * rank) * sizeof *pads);
	mk_node(k, "Pad", arena_printf(&k->a, "x%d p%d v", i, i), arena_printf(&k->a, "y%d", i));
	mk_output(k, arena_printf(&k->a, "y%d", i));
}

/* Adds a Gather of rows of up to two elements, by three indexes or by none. */
static void add_gather(struct onnx_maker *k, struct rng *r, int i)
{
	mk_input(k, arena_printf(&k->a, "t%d", i), 1, arena_printf(&k->a, "4 %d", any(r, 0, 2)));
	mk_node(k, "Gather", arena_printf(&k->a, "t%d %s", i, any(r, 0, 1) ? "ids" : "none"),
		arena_printf(&k->a, "z%d", i));
	mk_output(k, arena_printf(&k->a, "z%d", i));
}

/* Nodes of all ranks, some without elements. */
TEST(random_nodes_in_c)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 4 && !test_bad; i++) {
		struct onnx_maker k;
		struct graph *g;
		const struct import_opts plain = {0};
		char name[16];
		snprintf(name, sizeof name, "pads%d", i);
		mk_start(&k, 18, 64);
		mk_input(&k, "v", 1, "");
		mk_input(&k, "ids", 7, "3");
		mk_input(&k, "none", 7, "0");
		for (int n = 0; n < 12; n++)
			(n % 3 ? add_pad : add_gather)(&k, &r, n);
		REQUIRE_OK(mk_import(&k, NULL, &plain, &g));
		REQUIRE_OK(graph_optimize(g));
		check_net(g, name, 2);
		arena_free(&k.a);
	}
}

TEST(unsupported_nodes_are_listed)
{
	struct zoo z = net_begin("arg");
	struct c_net n;
	struct plan_c_sizes sizes;
	struct fmap x = zoo_conv(&z, zoo_input(&z, "x", 3, 8, 8), (struct zoo_conv){.k = 4, .r = 1, .stride = 1});
	const struct attr to = zoo_attr_int("to", 7); /* i64 */
	int whole = zoo_node(&z, "Cast", 1, &x.value, 1, &to), a = zoo_unary(&z, "ArgMax", whole),
	    b = zoo_unary(&z, "ArgMin", whole);
	struct graph *g = two_outputs(&z, a, "a", b, "b");
	for (int i = 0, k = 0; i < g->nnodes; i++)
		if (!strncmp(node_type(&g->node[i]), "Arg", 3))
			g->node[i].name = k++ ? "arg_b" : "arg_a";
	REQUIRE_OK(net_plan(&n, g, false, NULL));
	CHECK_FAILS(plan_c_write(n.p, in_dir("none"), "arg", &sizes), E_UNSUPPORTED,
		    "'arg_a' (ArgMax), 'arg_b' (ArgMin)");
	CHECK(!file_exists(in_dir("none")));
	net_close(&n);
}

static int files_in(const char *path)
{
	int n = 0;
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (d)
		closedir(d);
	return n;
}

/* Limits the length of files, as on a full disk. Returns what plan_c_write returned. */
static int write_short(const struct plan *p, const char *to, rlim_t most)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct plan_c_sizes sizes;
		const struct rlimit limit = {most, most};
		signal(SIGXFSZ, SIG_IGN);
		_exit(setrlimit(RLIMIT_FSIZE, &limit) < 0 ? 99 : -plan_c_write(p, to, "net", &sizes));
	}
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -128;
}

/* Number of renames that succeed before one fails; -1: none fails. */
static int good_renames = -1;

int rename(const char *from, const char *to)
{
	if (good_renames >= 0 && good_renames-- == 0) {
		errno = EIO;
		return -1;
	}
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* Whichever rename fails, nothing changes, also in an empty folder. Returns the number of renames. */
static int renames_that_fail(const struct plan *p, const char *to, const char *same)
{
	struct plan_c_sizes sizes;
	int n = 0, rc = E_IO;
	for (; rc == E_IO && n < 100; n++) {
		good_renames = n;
		rc = plan_c_write(p, in_dir(to), "net", &sizes);
		good_renames = -1;
		if (rc == E_IO)
			CHECK(shell("diff -r %s %s", to, same) == 0);
	}
	CHECK_OK(rc);
	return n - 1;
}

TEST(a_rename_that_fails)
{
	struct c_net n[2];
	struct plan_c_sizes sizes;
	for (int i = 0; i < 2; i++)
		REQUIRE_OK(net_plan(&n[i], zoo_net("steering", 5 + (uint64_t)i), false, NULL));
	REQUIRE(shell("rm -rf again && mkdir again empty") == 0);
	CHECK(renames_that_fail(n[0].p, "again", "empty") >= 4);
	CHECK(shell("cp -r again first") == 0);
	CHECK(renames_that_fail(n[1].p, "again", "first") >= 4);
	REQUIRE_OK(plan_c_write(n[1].p, in_dir("second"), "net", &sizes));
	CHECK(shell("diff -r again second") == 0 && shell("diff -r first second >/dev/null") != 0);
	net_close(&n[0]);
	net_close(&n[1]);
}

/* Files of two plans with one name do not link. */
TEST(sets_do_not_mix)
{
	struct c_net n;
	struct plan_c_sizes sizes;
	static const char *const suffix[] = {".h", ".c", "_kernels.o", "_weights.o", "_kernels.h"};
	for (int i = 0; i < 2; i++) {
		REQUIRE_OK(net_plan(&n, zoo_net("steering", 5 + (uint64_t)i), false, NULL));
		REQUIRE_OK(plan_c_write(n.p, in_dir(i ? "right" : "left"), "net", &sizes));
		CHECK(sizes.kernels > 0);
		net_close(&n);
	}
	CHECK(shell("printf '#include \"net.h\"\nint main(void) { return net_run(NULL, NULL) != -1; }\n' "
		    ">use.c") == 0);
	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
		bool mixed = i + 1 < sizeof suffix / sizeof *suffix;
		CHECK(shell("rm -rf mix && cp -r left mix && cp use.c mix && %s cp right/net%s mix",
			    mixed ? "" : ":", suffix[i]) == 0);
		int rc = shell(
		    "cd mix && %s -c net.c 2>why && %s use.c net.o net_kernels.o net_weights.o -lm -o use "
		    "2>>why && ./use",
		    compiler(), compiler());
		CHECK(mixed
			  ? rc != 0 &&
				shell("grep -q -e 'undefined reference' -e 'net.h is of another set' mix/why") ==
				    0
			  : rc == 0);
	}
}

/* After an error a previous set stays unchanged; without one, no file is left. */
TEST(all_files_or_none)
{
	struct c_net n;
	struct plan_c_sizes sizes;
	REQUIRE_OK(net_plan(&n, zoo_net("steering", 1), false, NULL));
	static const rlim_t most[] = {0, 2000, 12000, 30000, 900000};
	for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
		CHECK(write_short(n.p, in_dir("full"), most[i]) == E_IO);
		CHECK(files_in(in_dir("full")) == 0);
	}
	REQUIRE_OK(plan_c_write(n.p, in_dir("full"), "net", &sizes));
	CHECK(files_in(in_dir("full")) == 4);
	CHECK(shell("cp -r full before") == 0);
	CHECK(write_short(n.p, in_dir("full"), 30000) == E_IO);
	CHECK(shell("diff -r full before") == 0);
	REQUIRE_OK(plan_c_write(n.p, in_dir("full"), "net", &sizes));
	CHECK(shell("diff -r full before") == 0); /* the same plan, the same bytes */
	CHECK(
	    shell("rm full/net_weights.o && mkdir full/net_weights.o && rm -r before && cp -r full before") ==
	    0);
	CHECK_FAILS(plan_c_write(n.p, in_dir("full"), "net", &sizes), E_IO, "net_weights.o");
	CHECK(shell("diff -r full before") == 0);
	/* The leftovers of an earlier process with this number. */
	CHECK(shell("rmdir full/net_weights.o && for f in .h .c _kernels.o _weights.o; do echo x "
		    ">full/net$f.%d; done",
		    (int)getpid()) == 0);
	REQUIRE_OK(plan_c_write(n.p, in_dir("full"), "net", &sizes));
	CHECK(files_in(in_dir("full")) == 8);
	CHECK(shell("touch file") == 0);
	CHECK(plan_c_write(n.p, in_dir("file"), "net", &sizes) < 0);
	CHECK(plan_c_write(n.p, in_dir("file/below"), "net", &sizes) < 0);
	net_close(&n);
}

TEST(command)
{
	CHECK_RUN(0, "compile %s --c -o %s --json", steering(), in_dir("c"));
	json_t *o = parse_out(), *c = json_object_get(o, "c");
	check_keys(o, "model output isa threads kernels_by_kind files c");
	check_keys(c, "name code_bytes weight_bytes arena_bytes thread_bytes kernel_count portable");
	CHECK(json_array_size(json_object_get(o, "files")) == 4 && files_in(in_dir("c")) == 4);
	CHECK(!strcmp(json_string_value(json_object_get(c, "name")), "steering"));
	json_decref(o);
	CHECK(file_exists(in_dir("c/steering_weights.o")));
	CHECK_RUN(0, "compile %s --c --name 2nd-eye -o %s", steering(), in_dir("c"));
	CHECK_SAYS(cli_err, "cc -O3 -c");
	CHECK(files_in(in_dir("c")) == 8 && file_exists(in_dir("c/net_2nd_eye.h")));
	CHECK_RUN(2, "compile %s --c", steering());
	CHECK_RUN(2, "compile %s --c --beside -o %s", steering(), in_dir("d"));
	CHECK_RUN(2, "compile %s --name x -o %s", steering(), in_dir("d"));
	CHECK(!file_exists(in_dir("d")));
}

TEST(only_of_plans_that_were_built_for_it)
{
	struct target t;
	struct steps *s;
	struct arena a = {0};
	struct plan *p = NULL;
	struct plan_c_sizes sizes;
	struct graph *g = zoo_net("steering", 1);
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(graph_steps(g, &t, NULL, &a, &s));
	REQUIRE_OK(plan_build(g, s, &t, NULL, NULL, &p));
	CHECK_FAILS(plan_c_write(p, in_dir("none"), "net", &sizes), E_USAGE, "not built");
	plan_free(p);
	graph_free(g);
	arena_free(&a);
}

/* Mappings may lie one directly behind the other. */
TEST(places_at_the_seam_of_two_mappings)
{
	static char both[256];
	struct plan p = {.memory = {.p = both, .bytes = 128},
			 .weights = {.p = both + 128, .bytes = 64},
			 .threads = {.p = both + 192, .bytes = 64},
			 .memory_bytes = 100,
			 .thread_bytes = 16,
			 .scratch_bytes = 64};
	void *given = both + 128;
	struct given in = {&given, 3};
	const struct plan_c c = {.p = &p};
	static const struct {
		int at;
		struct c_place want;
	} rows[] = {{0, {C_ARENA, 0}},         {127, {C_ARENA, 127}},  {128, {C_WEIGHTS, 0}},
		    {191, {C_WEIGHTS, 63}},    {192, {C_WEIGHTS, 64}}, {208, {C_ARENA, 128}},
		    {250, {C_ARENA, 128 + 42}}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		void *at = both + rows[i].at;
		struct c_place got = c_place_of(&c, &at);
		CHECK(got.region == rows[i].want.region && got.at == rows[i].want.at);
	}
	CHECK(c_place_of(&c, &given).region == C_WEIGHTS);
	p.ngiven = 1;
	p.given = &in;
	CHECK(c_place_of(&c, &given).region == C_IN && c_place_of(&c, &given).at == 3);
}

TEST_MAIN
