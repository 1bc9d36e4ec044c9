/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/beside.h"
#include "agent/bundle/plan_c.h"
#include "agent/cache/lookup.h"
#include "platform/base/file.h"
#include "platform/base/folder.h"
#include "platform/base/log.h"
#include "agent/cache/json.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/leftover.h"
#include "tools/hone/output.h"
#include "tools/hone/ready.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct compile {
	const struct args *args;
	struct host host;
	struct cache *cache; /* NULL: none */
	struct kernel_source made;
	struct model model;
	struct plan *plan;
	struct buf meta;
	struct image image;
	struct import_opts opts; /* import options of `beside` */
	struct beside beside;
	char c_name[PLAN_C_NAME];
	struct plan_c_sizes sizes; /* sizes of the C source */
	json_t *files;
	struct arena arena;
};

static bool is_known(const struct compile *c, const struct task *t)
{
	struct rec r;
	struct arena a = {0};
	struct buf text = {0};
	task_text(t, &text);
	bool found = c->cache && cache_find_rec(c->cache, hash_text(buf_str(&text)), &c->host.target,
						c->host.threads, c->host.level, REC_BEST, &a, &r) >= 0;
	buf_free(&text);
	arena_free(&a);
	return found;
}

/* Whether to run a fused step as its parts: nobody tuned the fused step, but some part of it was tuned. */
static bool parts_are_better(const struct compile *c, const struct task *t)
{
	const struct steps *s = c->model.steps;
	int fused = -1;
	for (int i = 0; i < s->nsteps && fused < 0; i++)
		if (s->step[i].fused && s->step[i].task == t)
			fused = i;
	if (fused < 0 || is_known(c, t))
		return false;
	bool better = false;
	for (int i = 0; i < s->nsteps && !better; i++)
		better = s->step[i].fused_by == fused && s->step[i].kind == STEP_TASK &&
			 is_known(c, s->step[i].task);
	return better;
}

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct compile *c = ctx;
	if (parts_are_better(c, t))
		return fail(E_NOTFOUND, "the parts are tuned");
	int rc = c->made.find(c->made.ctx, t, text, a, out, origin);
	if (rc >= 0)
		c->image.note = image_note(c->image.note, out, *origin);
	return rc;
}

static int make_plan(struct compile *c)
{
	const struct kernel_source src = {c, find};
	struct chosen_for f = ready_chosen(&c->host, KERNELS_BEST, c->cache);
	int rc = model_open(c->args, c->args->pos[0], &f, &c->model);
	if (rc >= 0 && arg_flag(c->args, "c"))
		rc = model_take_all_bytes(&c->model, &c->host.target);
	if (rc < 0)
		return rc;
	c->image.target = c->host.target;
	c->image.threads = c->host.threads;
	c->image.level = c->host.level;
	c->image.note = image_note_begin(&c->model.choices);
	if (arg_flag(c->args, "c"))
		return plan_build_whole(c->model.g, c->model.steps, &c->host.target, &src, c->host.pool,
					&c->plan);
	return plan_build_described(c->model.g, c->model.steps, &c->host.target, &src, c->host.pool, &c->meta,
				    &c->plan);
}

static void add_file(struct compile *c, const char *path, size_t bytes)
{
	json_array_append_new(c->files,
			      json_pack("{so sI}", "file", json_text(path), "bytes", (json_int_t)bytes));
}

/* Writes the image and reads it back, because an image that no process can load is useless. The owner of the
 * file may still have to be changed to the user who will run it. */
static int write_image(struct compile *c, const char *path)
{
	struct stat st = {0};
	struct image im;
	struct plan *p = NULL;
	int rc = image_write(path, &c->image, c->plan, &c->meta);
	if (rc >= 0 && stat(path, &st) < 0)
		rc = fail(E_IO, "%s was written, but has been removed since; compile again", path);
	if (rc >= 0)
		rc = image_read(path, &c->image.key, &c->host.target, c->host.pool, &im, &p);
	if (rc == E_USAGE) {
		log_info("hone: the image cannot be loaded as it is: %s", err_text());
		rc = E_OK;
	}
	plan_free(p);
	add_file(c, path, (size_t)st.st_size);
	return rc;
}

static json_t *tensors_json(const struct graph *g, const int *index, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++) {
		const struct value *v = &g->value[index[i]];
		json_t *shape = json_array();
		for (int d = 0; d < v->t.shape.rank; d++)
			json_array_append_new(shape, json_integer(v->t.shape.d[d]));
		json_array_append_new(list, json_pack("{so ss so}", "name", json_text(v->name), "dtype",
						      dtype_name(v->t.dtype), "shape", shape));
	}
	return list;
}

static json_t *origins_json(const struct compile *c)
{
	const struct plan_kernel *k;
	int n = plan_kernels(c->plan, &k), count[4] = {0};
	json_t *list = json_array();
	for (int i = 0; i < n; i++)
		count[kernel_origin_kind(k[i].origin, k[i].at_default)]++;
	for (int i = 0; i < 4; i++)
		json_array_append_new(list,
				      json_pack("{ss si}", "kernel_kind", ready_origin((enum kernel_origin)i),
						"count", count[i]));
	return list;
}

/* Kernels of the cache whose best schedule is the default one. */
static int at_defaults(const struct compile *c)
{
	const struct plan_kernel *k;
	int n = plan_kernels(c->plan, &k), count = 0;
	for (int i = 0; i < n; i++)
		count += k[i].at_default;
	return count;
}

/* A description for people and their scripts; no part of hone reads it. */
static json_t *manifest(const struct compile *c)
{
	struct buf target = {0};
	const struct plan_kernel *k;
	const struct graph *g = plan_graph(c->plan);
	int n = plan_kernels(c->plan, &k);
	json_t *list = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{so so ss sb}", "name", json_text(k[i].name), "label",
						      json_text(k[i].label), "kind", ready_kind(&k[i]),
						      "at_default", k[i].at_default));
	target_text(&c->host.target, &target);
	/* The first key is OUTPUT_BUNDLE. */
	json_t *o = json_pack("{ss so ss so si sb ss so so so}", "made_by", "hone compile", "model",
			      json_text(c->image.name), "version", HONE_VERSION, "target",
			      json_text(buf_str(&target)), "threads", c->host.threads, "exact",
			      c->host.level == LEVEL_EXACT, "level", level_name((int)c->host.level), "inputs",
			      tensors_json(g, g->input, g->ninputs), "outputs",
			      tensors_json(g, g->output, g->noutputs), "kernels", list);
	buf_free(&target);
	return o;
}

static int write_manifest(struct compile *c, const char *path)
{
	json_t *o = manifest(c);
	char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
	int rc = text ? file_write(path, text, strlen(text)) : fail(E_NOMEM, "no memory for %s", path);
	if (rc >= 0)
		add_file(c, path, strlen(text));
	free(text);
	json_decref(o);
	return rc;
}

/* A folder that holds the bundle of a model of another name is not overwritten: an application that loads it
 * would silently run another network. A file that is no bundle's description says nothing. */
static int check_folder(struct compile *c, const char *dir)
{
	char *path = arena_printf(&c->arena, "%s/bundle.json", dir);
	json_t *o = json_load_file(path, 0, NULL);
	const char *name = json_string_value(json_object_get(o, "model"));
	int rc =
	    name && strcmp(name, c->image.name)
		? fail(E_USAGE, "%s holds the bundle of model '%.80s'; remove it, or name another folder",
		       dir, name)
		: E_OK;
	json_decref(o);
	return rc;
}

static int write_bundle(struct compile *c, const char *dir)
{
	int rc = file_mkdirs(dir, 0755);
	if (rc >= 0)
		rc = write_image(c, arena_printf(&c->arena, "%s/" IMAGE_FILE, dir));
	if (rc >= 0)
		rc = write_manifest(c, arena_printf(&c->arena, "%s/bundle.json", dir));
	return rc;
}

static int write_c(struct compile *c, const char *dir)
{
	static const char *const suffix[] = {".h", ".c", "_kernels.o", "_weights.o"};
	int rc = plan_c_write(c->plan, dir, c->c_name, &c->sizes);
	for (int i = 0; i < 4 && rc >= 0; i++) {
		struct stat st = {0};
		const char *path = arena_printf(&c->arena, "%s/%s%s", dir, c->c_name, suffix[i]);
		if (stat(path, &st) < 0)
			rc = fail(E_IO, "%s was written, but has been removed since; compile again", path);
		add_file(c, path, (size_t)st.st_size);
	}
	return rc;
}

static json_t *c_json(const struct compile *c)
{
	const struct plan_c_sizes *s = &c->sizes;
	return json_pack("{ss sI sI sI sI si si}", "name", c->c_name, "code_bytes", (json_int_t)s->code_bytes,
			 "weight_bytes", (json_int_t)s->weight_bytes, "arena_bytes",
			 (json_int_t)s->arena_bytes, "thread_bytes", (json_int_t)s->thread_bytes,
			 "kernel_count", s->kernels, "portable", s->portable);
}

/* Records the model's identity before it is read. */
static int know_model(struct compile *c)
{
	int rc = c->opts.nbinds = model_binds(c->args, &c->arena, &c->opts.binds);
	c->beside = (struct beside){c->args->pos[0], &c->opts, c->host.threads, c->host.level};
	if (rc >= 0)
		rc = beside_same(&c->beside, &c->image.same);
	return rc < 0 ? rc : beside_key(&c->beside, &c->image.key);
}

static int write_beside(struct compile *c)
{
	char path[4096];
	const char *model = c->args->pos[0];
	struct key now;
	if (c->model.g->external)
		return fail(E_UNSUPPORTED,
			    "%s has its data in other files: compile it into a folder (-o DIR)", model);
	if (!beside_path(model, path, sizeof path))
		return fail(E_USAGE, "the name %s is too long", model);
	int rc = beside_same(&c->beside, &now);
	if (rc >= 0 && !key_equal(now, c->image.same))
		rc = fail(E_BUSY, "%s changed while it was compiled: compile it again", model);
	return rc < 0 ? rc : write_image(c, path);
}

static int report(struct compile *c)
{
	const char *dir = arg_str(c->args, "output", NULL);
	json_t *origins = origins_json(c);
	if (c->args->json)
		return json_out(json_pack("{so so ss si so si sO so*}", "model", json_text(c->args->pos[0]),
					  "output", dir ? json_text(dir) : json_null(), "isa",
					  c->host.target.isa, "threads", c->host.threads, "kernels_by_kind",
					  origins, "at_default_count", at_defaults(c), "files", c->files, "c",
					  *c->c_name ? c_json(c) : NULL));
	size_t i;
	json_t *f, *origin;
	json_array_foreach(c->files, i, f)
	{
		double kib = (double)json_integer_value(json_object_get(f, "bytes")) / 1024;
		printf(kib < 1024 ? "%s  %.1f KiB\n" : "%s  %.2f MiB\n",
		       json_string_value(json_object_get(f, "file")), kib < 1024 ? kib : kib / 1024);
	}
	json_array_foreach(origins, i, origin)
	{
		int n = (int)json_integer_value(json_object_get(origin, "count"));
		if (n)
			printf("%d %s kernel%s\n", n,
			       json_string_value(json_object_get(origin, "kernel_kind")), plural_s(n));
	}
	json_decref(origins);
	if (*c->c_name) {
		char file[4096];
		snprintf(file, sizeof file, "%s/%s.c", dir, c->c_name);
		table_say("%.1f KiB of RAM; %s.h says how to use it", (double)c->sizes.arena_bytes / 1024,
			  c->c_name);
		next_say("cc -O3 -c %s", file);
	} else if (dir) {
		next_say("hone bench %s", dir);
	} else {
		next_flush();
		log_info("libhone takes what was written beside %s when it loads that", c->args->pos[0]);
	}
	return 0;
}

static int can_write_bundle(struct compile *c, const char *dir)
{
	int rc = check_folder(c, dir);
	if (rc >= 0)
		rc = output_in(c->args, arena_printf(&c->arena, "%s/" IMAGE_FILE, dir), OUTPUT_IMAGE);
	return rc < 0 ? rc
		      : output_in(c->args, arena_printf(&c->arena, "%s/bundle.json", dir), OUTPUT_BUNDLE);
}

static bool begins(const struct compile *c, const char *path, const char *text)
{
	return !file_is_dir(path) && output_replaces(c->args, path, text, "folder") >= 0;
}

/* Whether a file is one of a bundle, for whichever model. */
static bool is_of_bundle(struct compile *c, const char *dir, const char *name)
{
	const char *path = arena_printf(&c->arena, "%s/%s", dir, name);
	bool image = !strcmp(name, IMAGE_FILE);
	return (image || !strcmp(name, "bundle.json")) && file_exists(path) &&
	       begins(c, path, image ? OUTPUT_IMAGE : OUTPUT_BUNDLE);
}

/* An object does not say who made it, so it counts as hone's if such a header is beside it. */
static int can_write_c(struct compile *c, const char *dir)
{
	struct arena *a = &c->arena;
	if (is_of_bundle(c, dir, IMAGE_FILE) || is_of_bundle(c, dir, "bundle.json"))
		return fail(
		    E_USAGE,
		    "%s is a compiled model, which hone run and libhone take as a whole: name another "
		    "folder for the C of --c",
		    dir);
	const char *path = arena_printf(a, "%s/%s", dir, c->c_name);
	const int header =
	    output_in(c->args, arena_printf(a, "%s.h", path), arena_printf(a, PLAN_C_HEADER, c->c_name));
	int rc = header;
	if (rc >= 0)
		rc = output_in(c->args, arena_printf(a, "%s.c", path),
			       arena_printf(a, PLAN_C_SOURCE, c->c_name));
	if (rc >= 0)
		rc = output_in(c->args, arena_printf(a, "%s_kernels.o", path), header ? OUTPUT_OBJECT : NULL);
	if (rc >= 0)
		rc = output_in(c->args, arena_printf(a, "%s_weights.o", path), header ? OUTPUT_OBJECT : NULL);
	return rc;
}

/* Whether a file is one that hone compile wrote for a program in C, or the object that a compiler made of it.
 */
static bool is_of_c(struct compile *c, const char *dir, const char *name)
{
	static const char *const of_c[] = {"_kernels.o", "_weights.o", ".o", ".h", ".c"};
	struct arena *a = &c->arena;
	const char *path = arena_printf(a, "%s/%s", dir, name);
	int i = 0;
	while (i < 5 && !file_ends_with(name, of_c[i]))
		i++;
	if (i == 5)
		return false;
	const char *stem = arena_strndup(a, name, strlen(name) - strlen(of_c[i]));
	const char *header = arena_printf(a, "%s/%s.h", dir, stem);
	return file_exists(header) && begins(c, header, arena_printf(a, PLAN_C_HEADER, stem)) &&
	       begins(c, path,
		      i < 3    ? OUTPUT_OBJECT
		      : i == 3 ? arena_printf(a, PLAN_C_HEADER, stem)
			       : arena_printf(a, PLAN_C_SOURCE, stem));
}

/* Refuses to make a bundle of a folder with files of others, or with C of --c. */
static int check_others(struct compile *c, const char *dir)
{
	const struct dirent *e;
	DIR *d = opendir(dir);
	int rc = E_OK;
	while (d && rc >= 0 && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !is_of_bundle(c, dir, e->d_name) &&
		    !leftover_is(dirfd(d), e->d_name))
			rc =
			    is_of_c(c, dir, e->d_name)
				? fail(E_USAGE,
				       "%s has C that hone compile --c wrote, such as %.80s: name another "
				       "folder for the compiled model",
				       dir, e->d_name)
				: fail(
				      E_USAGE,
				      "%s has other files, such as %.80s: name a new or empty folder, or one "
				      "that hone compile wrote",
				      dir, e->d_name);
	if (d)
		closedir(d);
	return rc;
}

/* Checks that the files can be written, and replaces none that hone compile did not write, before minutes are
 * spent on making kernels. */
static int can_write(struct compile *c)
{
	char path[4096];
	const struct args *a = c->args;
	const char *dir = arg_str(a, "output", NULL);
	int rc = dir ? file_can_mkdirs(dir) : E_OK;
	if (rc >= 0 && dir)
		rc = arg_flag(a, "c") ? can_write_c(c, dir) : can_write_bundle(c, dir);
	if (rc >= 0 && dir && !arg_flag(a, "c")) /* C is made for a folder with the program's own files */
		rc = check_others(c, dir);
	if (rc < 0 || !arg_flag(a, "beside") || !beside_path(a->pos[0], path, sizeof path))
		return rc; /* write_beside says that a name is too long */
	rc = file_can_write(path);
	return rc < 0 ? rc : output_replaces(a, path, OUTPUT_IMAGE, "folder (-o DIR)");
}

static void name_output(struct compile *c)
{
	const char *given = arg_str(c->args, "name", NULL);
	snprintf(c->image.name, sizeof c->image.name, "%s", model_name(c->args->pos[0], &c->arena));
	if (!arg_flag(c->args, "c"))
		return;
	plan_c_name(given ? given : c->image.name, c->c_name);
	if (!given && strcmp(c->image.name, c->c_name) != 0)
		log_info("hone: C names begin with %s, as letters, digits and '_' are all that the file's "
			 "name can "
			 "give them; --name chooses others",
			 c->c_name);
	if (given && strcmp(given, c->c_name) != 0)
		log_info(
		    "hone: --name '%.60s': C names begin with %s instead: they have letters, digits and '_', "
		    "first a letter, and this one at most %d of them",
		    given, c->c_name, PLAN_C_NAME - 1);
}

static int compile(struct compile *c, char *cache_dir, size_t n)
{
	const char *dir = arg_str(c->args, "output", NULL);
	bool beside = arg_flag(c->args, "beside");
	int rc = can_write(c);
	if (rc >= 0)
		rc = model_cache_or_none(c->args, cache_dir, n);
	if (rc >= 0)
		rc = host_open(c->args, cache_dir, true, &c->host);
	if (rc >= 0 && *cache_dir)
		rc = model_cache_read(cache_dir, &c->cache);
	if (rc >= 0)
		rc = defaults_open(c->cache, &c->host, true, &c->made);
	if (rc >= 0 && beside)
		rc = know_model(c);
	if (rc >= 0)
		rc = make_plan(c);
	if (rc >= 0 && interrupted()) /* files that are begun are completed */
		rc = fail(E_STOPPED, "interrupted");
	struct new_folder made;
	new_folder_note(&made, dir);
	if (rc >= 0 && dir)
		rc = arg_flag(c->args, "c") ? write_c(c, dir) : write_bundle(c, dir);
	if (rc < 0)
		new_folder_drop(&made);
	else if (dir)
		leftover_remove(dir, arg_flag(c->args, "c") ? c->c_name : NULL);
	if (rc >= 0 && beside)
		rc = write_beside(c);
	return rc < 0 ? rc : report(c);
}

static int run_compile(const struct args *a)
{
	char dir[4096];
	const char *device = arg_str(a, "device", "cpu");
	if (strcmp(device, "cpu"))
		return fail(
		    E_USAGE,
		    "--device %s is not possible: bundles and compiled models run on processors; `hone run "
		    "--device` and libhone run the model itself on a device",
		    device);
	if (!arg_str(a, "output", NULL) && !arg_flag(a, "beside"))
		return fail(E_USAGE, "missing option -o DIR or --beside; usage: hone compile %s -o DIR",
			    a->pos[0]);
	if (arg_flag(a, "c") && (arg_flag(a, "beside") || !arg_str(a, "output", NULL)))
		return fail(E_USAGE, "--c needs a folder: hone compile %s --c -o DIR", a->pos[0]);
	if (arg_str(a, "name", NULL) && !arg_flag(a, "c"))
		return fail(E_USAGE, "--name goes with --c");
	struct compile c = {.args = a, .files = json_array()};
	interrupt_catch();
	int rc = image_is_no_model(a->pos[0]);
	if (rc >= 0) {
		name_output(&c);
		rc = compile(&c, dir, sizeof dir);
	}
	plan_free(c.plan);
	if (c.model.g)
		model_close(&c.model);
	if (c.made.ctx)
		defaults_close(&c.made);
	if (c.cache)
		cache_close(c.cache);
	host_close(&c.host);
	buf_free(&c.meta);
	json_decref(c.files);
	arena_free(&c.arena);
	return interrupt_status_of(rc < 0 ? rc : 0, "written");
}

static const struct opt opts[] = {
    {"output", OPT_STR, "DIR",
     "write a bundle: DIR/" IMAGE_FILE " and DIR/bundle.json, which lists its files", 'o'},
    {"beside", OPT_FLAG, NULL, "write MODEL.hone, which libhone loads instead of MODEL until MODEL changes"},
    {"c", OPT_FLAG, NULL,
     "write C for firmware instead: DIR/NAME.h, NAME.c, NAME_kernels.o and NAME_weights.o"},
    {"name", OPT_STR, "NAME", "with --c: prefix of the files and of all C names (default: the model's name)"},
    OPT_CACHE,
    {"device", OPT_STR, "NAME", "only cpu: bundles and compiled models run on processors", .values = "cpu"},
    OPT_THREADS,
    OPT_LEVEL,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_compile = {
    .usage = "MODEL -o DIR [--threads N] [--cache DIR] [--level LEVEL]",
    .summary = "write a model with its kernels and packed weights into a folder",
    .details = "hone run, hone bench and libhone accept DIR as a model, without cache, model file or "
	       "compiler. DIR is\nmade; if it exists, it must be empty, or hold only what hone compile wrote "
	       "before. With --c it may\nhold other files, but no compiled model. The kernels come from the "
	       "cache; hone-worker "
	       "builds missing code, with the known "
	       "schedule or the default\none. DIR runs with this version of hone, on processors that have "
	       "all features of this one. It holds\nmachine code: DIR must belong to root or to the user who "
	       "runs it, and nobody else may write to it.\nWith --c, a program needs nothing of hone: it "
	       "compiles C99, links the kernels and packed weights as\nobjects, and provides one block of "
	       "RAM. NAME.h says how. A program may link several networks.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_compile,
    .name = "compile",
};
