/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a model costs a process: growth of peak RSS from before the model is loaded until after some
 * runs, in a process of its own for each engine, one thread. Engines: hone, and ONNX Runtime through its C
 * ABI, whose library `make bench-peers` installs. The memory that ONNX Runtime takes before any model is
 * shown apart.
 *
 *	make bench-rss                       networks of the zoo and, with HONE_DATA, ten published ones
 *	make bench-rss ARGS="a.onnx --cache DIR --kernels default" */
#include "platform/run/child.h"
#include "platform/base/file.h"
#include "agent/cache/json.h"
#include "tools/bench/ort.h"
#include "tools/hone/ready.h"
#include "tools/hone/table.h"
#include "tools/hone/zoo.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const zoo_names[] = {"mobilenet_v2",  "resnet18",           "resnet50",
					"squeezenet1_1", "efficientnet_lite0", "vit_tiny"};
static const char *const data_names[] = {"fastestdet_352", "oww_embedding",         "policy_go1",
					 "ppocrv3_det_ch", "pulp_dronet_v2",        "silero_vad_openvino_16k",
					 "vittrack",       "super_resolution_core", "yolox_nano_416",
					 "yunet_n_320"};
enum { ZOO = sizeof zoo_names / sizeof *zoo_names, DATA = sizeof data_names / sizeof *data_names };

enum { LINE = 33 };

struct growth {
	long library, peak, stays; /* KiB: before the model is loaded, the model's own peak, held at the
				    * end */
};

/* A value of /proc/self/status in KiB. */
static long status_kib(const char *key)
{
	char line[256];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && kib < 0 && fgets(line, sizeof line, f))
		if (!strncmp(line, key, strlen(key)))
			kib = atol(line + strlen(key));
	if (f)
		fclose(f);
	return kib;
}

/* Resets the peak to the present RSS, and returns that. */
static long begin_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");
	if (f) {
		fputs("5", f);
		fclose(f);
	}
	return status_kib("VmHWM:");
}

static int run_hone(const struct args *a, int runs, struct growth *g)
{
	char cache[4096];
	enum ready_kernels kind;
	struct host h;
	struct ready r;
	long before = begin_peak();
	int rc = ready_kernels_parse(arg_str(a, "kernels", "best"), &kind);
	if (rc >= 0)
		rc = model_cache_dir(a, cache, sizeof cache);
	if (rc >= 0)
		rc = host_open(a, cache, false, &h);
	if (rc < 0)
		return rc;
	rc = ready_open(a, a->pos[0], cache, kind, &h, &r);
	for (int i = 0; i < runs && rc >= 0; i++)
		rc = plan_run(r.plan, r.in, r.out);
	*g = (struct growth){0, status_kib("VmHWM:") - before, status_kib("VmRSS:") - before};
	if (rc >= 0)
		ready_close(&r);
	host_close(&h);
	return rc;
}

static int run_ort(const struct args *a, int runs, struct growth *g)
{
	struct ort o;
	long before = begin_peak();
	int rc = ort_open(&o, arg_str(a, "ort", ""), (int)arg_int(a, "threads", 1));
	long library = status_kib("VmRSS:");
	if (rc >= 0)
		rc = ort_load(&o, a->pos[0]);
	for (int i = 0; i < runs && rc >= 0; i++)
		rc = ort_run(&o);
	*g =
	    (struct growth){library - before, status_kib("VmHWM:") - library, status_kib("VmRSS:") - library};
	return rc;
}

/* Runs in the child; prints the figures on standard output. */
static int run_engine(const struct args *a, const char *engine)
{
	struct growth g;
	int runs = (int)arg_int(a, "runs", 20);
	bool hone = !strcmp(engine, "hone");
	if (a->npos != 1 || (!hone && strcmp(engine, "ort") != 0))
		return fail(E_USAGE, "--engine needs hone or ort, and one model");
	int rc = hone ? run_hone(a, runs, &g) : run_ort(a, runs, &g);
	if (rc >= 0)
		printf("%10ld %10ld %10ld\n", g.library, g.peak, g.stays); /* at most LINE bytes */
	return rc;
}

static int in_child(const struct args *a, const char *engine, const char *ort, const char *model,
		    struct growth *g)
{
	char self[4096 + 16], runs[16], threads[16], line[128] = "";
	snprintf(runs, sizeof runs, "%d", (int)arg_int(a, "runs", 20));
	snprintf(threads, sizeof threads, "%d", (int)arg_int(a, "threads", 1));
	int rc = file_self_dir(self, sizeof self - 16);
	strcat(self, "/bench_rss");
	const char *const argv[] = {self,        model,
				    "--engine",  engine,
				    "--ort",     ort,
				    "--runs",    runs,
				    "--threads", threads,
				    "--kernels", arg_str(a, "kernels", "best"),
				    "--cache",   arg_str(a, "cache", ""),
				    NULL};
	struct child c;
	char *copy[sizeof argv / sizeof *argv];
	memcpy(copy, argv, sizeof argv);
	if (!arg_str(a, "cache", NULL))
		copy[12] = NULL;
	if (rc >= 0)
		rc = child_start(&c, copy, NULL);
	if (rc < 0)
		return rc;
	rc = fd_read_full(c.out, line, LINE, &clock_real, clock_now(&clock_real) + 600 * NS_PER_S);
	int status = child_stop(&c, 10 * NS_PER_S);
	if (rc < 0 || status || sscanf(line, "%ld %ld %ld", &g->library, &g->peak, &g->stays) != 3)
		return fail(E_CHILD, "%s failed to run %s", engine, model);
	return 0;
}

struct rss {
	const struct args *args;
	struct arena arena;
	const char *ort; /* path of ONNX Runtime's library; "": none */
	json_t *list;
	struct table table;
};

static json_t *growth_json(const struct growth *g)
{
	return json_pack("{sI sI sI}", "library_kib", (json_int_t)g->library, "peak_kib", (json_int_t)g->peak,
			 "stays_kib", (json_int_t)g->stays);
}

static int measure(struct rss *r, const char *model)
{
	struct growth h, o = {0};
	const char *name = model_name(model, &r->arena);
	int rc = in_child(r->args, "hone", r->ort, model, &h);
	if (rc < 0)
		return rc;
	json_t *x = json_pack("{so so}", "model", json_text(name), "hone", growth_json(&h));
	table_cell(&r->table, "%s", name);
	table_cell(&r->table, "%.1f", (double)h.peak / 1024);
	table_cell(&r->table, "%.1f", (double)h.stays / 1024);
	bool had = *r->ort && in_child(r->args, "ort", r->ort, model, &o) >= 0;
	if (had)
		json_object_set_new(x, "ort", growth_json(&o));
	table_cell(&r->table, had ? "%.1f" : "-", (double)o.peak / 1024);
	table_cell(&r->table, had ? "%.1f" : "-", (double)o.stays / 1024);
	table_cell(&r->table, had ? "%.1f" : "-", (double)o.library / 1024);
	table_cell(&r->table, had ? "%.2f" : "-", had ? (double)h.peak / (double)o.peak : 0);
	return json_array_append_new(r->list, x) ? fail(E_NOMEM, "no memory for the report") : 0;
}

static int measure_zoo(struct rss *r)
{
	char dir[] = "/tmp/bench-rss-XXXXXX";
	int rc = mkdtemp(dir) ? 0 : fail(E_IO, "cannot make a folder in /tmp");
	for (int i = 0; i < ZOO && rc >= 0; i++) {
		struct graph *g;
		const char *path = arena_printf(&r->arena, "%s/%s.onnx", dir, zoo_names[i]);
		if ((rc = zoo_make(zoo_names[i], 1, &g)) < 0)
			break;
		rc = export_file(g, path);
		graph_free(g);
		if (rc >= 0)
			rc = measure(r, path);
		unlink(path);
	}
	rmdir(dir);
	return rc;
}

/* ppocrv3_det_ch leaves its image's size free: both libraries get a copy in which it is fixed. */
static int measure_detector(struct rss *r, const char *path)
{
	const struct import_bind size = {"x", "1x3x320x320"};
	char dir[] = "/tmp/bench-rss-XXXXXX";
	struct graph *g;
	int rc = import_file(path, &(struct import_opts){.nbinds = 1, .binds = &size}, &g);
	if (rc < 0)
		return rc;
	rc = mkdtemp(dir) ? 0 : fail(E_IO, "cannot make a folder in /tmp");
	const char *copy = arena_printf(&r->arena, "%s/ppocrv3_det_ch.onnx", dir);
	if (rc >= 0)
		rc = export_file(g, copy);
	graph_free(g);
	if (rc >= 0)
		rc = measure(r, copy);
	unlink(copy);
	rmdir(dir);
	return rc;
}

static int measure_data(struct rss *r)
{
	const char *data = getenv("HONE_DATA");
	if (!data || !*data) {
		fprintf(stderr, "skipped: published networks (set HONE_DATA)\n");
		return 0;
	}
	int rc = 0;
	for (int i = 0; i < DATA && rc >= 0; i++) {
		const char *path = arena_printf(&r->arena, "%s/models/%s/model.onnx", data, data_names[i]);
		rc = strcmp(data_names[i], "ppocrv3_det_ch") ? measure(r, path) : measure_detector(r, path);
	}
	return rc;
}

/* The library of --ort, else the one that `make bench-peers` installed beside this program. */
static const char *find_ort(struct rss *r)
{
	static const char where[] =
	    "/../peers-venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so*";
	const char *given = arg_str(r->args, "ort", NULL), *found = "";
	char dir[4096];
	glob_t g;
	if (given || file_self_dir(dir, sizeof dir) < 0)
		return given ? given : "";
	if (!glob(arena_printf(&r->arena, "%s%s", dir, where), 0, NULL, &g)) {
		found = arena_strdup(&r->arena, g.gl_pathv[0]);
		globfree(&g);
	} else {
		fprintf(stderr,
			"skipped: no ONNX Runtime (make bench-peers installs it; or give --ort LIBRARY)\n");
	}
	return found;
}

static int measure_all(struct rss *r)
{
	static const char *const head[] = {"network", "hone peak",   "stays", "ORT peak",
					   "stays",   "its library", "ratio"};
	r->table.align = "lrrrrrr";
	for (int i = 0; i < 7; i++)
		table_cell(&r->table, "%s", head[i]);
	int rc = 0;
	for (int i = 0; i < r->args->npos && rc >= 0; i++)
		rc = measure(r, r->args->pos[i]);
	if (rc >= 0 && !r->args->npos)
		rc = measure_zoo(r);
	if (rc >= 0 && !r->args->npos)
		rc = measure_data(r);
	return rc;
}

static int run_rss(const struct args *a)
{
	const char *engine = arg_str(a, "engine", NULL);
	if (engine)
		return run_engine(a, engine);
	struct rss r = {.args = a, .list = json_array()};
	r.ort = find_ort(&r);
	int rc = measure_all(&r);
	if (rc >= 0 && a->json) {
		rc = json_out(json_incref(r.list));
	} else if (rc >= 0) {
		table_print(&r.table, a->color);
		printf("Growth of the resident set in MiB, each in a process of its own; without ONNX "
		       "Runtime's library.\n");
	}
	json_decref(r.list);
	arena_free(&r.arena);
	return rc;
}

static const struct opt opts[] = {
    {"engine", OPT_STR, "NAME",
     "measure hone or ort in this process and print KiB: library, peak, at the end"},
    {"ort", OPT_STR, "LIBRARY", "libonnxruntime.so (default: that of make bench-peers)"},
    {"runs", OPT_INT, "N", "runs (default: 20)"},
    {"kernels", OPT_STR, "KIND", "best (default), default or fallback"},
    OPT_THREADS,
    OPT_LEVEL,
    OPT_CACHE,
    OPT_SHAPE,
    {NULL},
};

static const struct cmd rss = {
    .usage = "[MODEL...] [--kernels KIND] [--cache DIR] [--ort LIBRARY] [--level LEVEL]",
    .summary = "measure the memory of a process that runs a model, and compare with ONNX Runtime",
    .details = "",
    .min_pos = 0,
    .max_pos = -1,
    .opts = opts,
    .run = run_rss,
    .name = "rss",
};

int main(int argc, char **argv)
{
	return cmd_main(&rss, argc, argv);
}
