/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/model.h"
#include "kernels/onnx/cut_off.h"
#include "kernels/group/alternatives.h"
#include "agent/control/client.h"
#include "agent/run/image.h"
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "platform/base/shell.h"
#include "platform/machine/topo.h"
#include "platform/run/device_name.h"
#include "tools/hone/drivers.h"
#include "tools/hone/feed_shape.h"
#include "tools/hone/next.h"
#include "kernels/qdq/qdq.h"
#include "kernels/graph/weights.h"
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST_LIMIT (INT64_C(1) << 20)

/* Timeout for honed's answer; after it, honed's cache is not used. */
#define DAEMON_WAIT_NS NS_PER_S

static const char *asked_socket; /* NULL: the default one */

void model_cache_of_socket(const char *socket)
{
	asked_socket = socket;
}

static bool daemons_cache(char *out, size_t n)
{
	const struct request r = {.op = OP_STATUS};
	const char *line, *cache = NULL;
	struct client *c = NULL;
	json_t *status = NULL;
	int64_t deadline_ns = clock_now(&clock_real) + DAEMON_WAIT_NS;
	int rc = client_open(asked_socket, deadline_ns, &c);
	if (rc >= 0)
		rc = client_ask(c, &r, deadline_ns, &line);
	if (rc >= 0) {
		status = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		cache = json_string_value(json_object_get(status, "cache"));
	} else if (rc != E_NOTFOUND) {
		log_more("honed's cache is not used: %s", err_text());
	}
	/* honed's cache folder may not exist yet. */
	bool good = cache && strlen(cache) < n && (access(cache, R_OK | X_OK) == 0 || errno == ENOENT);
	if (good)
		snprintf(out, n, "%s", cache);
	json_decref(status);
	client_close(c);
	return good;
}

/* 1: the folder holds a file of records or code; 0: it holds none; < 0: it cannot be listed. */
static int holds_segments(const char *dir)
{
	DIR *d = opendir(dir);
	bool holds = false;
	for (const struct dirent *e; d && !holds && (e = readdir(d));)
		holds = strstr(e->d_name, ".seg") != NULL;
	if (!d)
		return -1;
	closedir(d);
	return holds;
}

/* Whether the folder holds anything, and is another one than `other`. */
static bool holds_other(const char *dir, const char *other)
{
	struct stat x, y;
	bool same =
	    stat(dir, &x) == 0 && stat(other, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
	return !same && holds_segments(dir) > 0;
}

/* Says once that the user's own cache, which holds kernels, is not the one that is used. */
static void say_other(const char *daemons)
{
	static bool said;
	char own[PATH_MAX];
	struct buf b = {0};
	if (said || file_cache_dir(own, sizeof own) < 0 || !holds_other(own, daemons))
		return;
	said = true;
	shell_path(&b, own);
	log_info("hone: honed's cache %s is used while honed runs; for your own: --cache %s", daemons,
		 buf_str(&b));
	buf_free(&b);
}

bool model_cache_own_instead(const char *dir, char *own, size_t n)
{
	int held = holds_segments(dir);
	bool bare = held == 0 || (held < 0 && errno == ENOENT);
	return bare && file_cache_dir(own, n) >= 0 && holds_other(own, dir);
}

static char default_cache[4096]; /* "": it was not looked for */

int model_cache_default(char *out, size_t n)
{
	bool daemons = daemons_cache(out, n);
	int rc = daemons ? 0 : file_cache_dir(out, n);
	if (daemons)
		say_other(out);
	if (rc >= 0 && !asked_socket) /* the next command will ask the default socket */
		snprintf(default_cache, sizeof default_cache, "%s", out);
	return rc;
}

bool model_cache_was_default(const char *dir)
{
	return default_cache[0] && !strcmp(dir, default_cache);
}

int model_cache_dir(const struct args *a, char *out, size_t n)
{
	const char *given = arg_str(a, "cache", NULL);
	if (!given)
		return model_cache_default(out, n);
	if (!*given || strlen(given) >= n)
		return fail(E_USAGE, "--cache: '%.40s' is not a folder's name", given);
	snprintf(out, n, "%s", given);
	return 0;
}

static int check_folder(const char *dir)
{
	struct stat st;
	bool other = stat(dir, &st) == 0 ? !S_ISDIR(st.st_mode) : errno == ENOTDIR;
	return other ? fail(E_USAGE,
			    "%s is not a folder, so it is no cache: name a folder (--cache DIR), or move it "
			    "away",
			    dir)
		     : E_OK;
}

/* Fails if something else than a folder is there, or if it is there, or may be, and this user cannot read it.
 */
static int may_read(const char *dir)
{
	int rc = check_folder(dir);
	if (rc < 0 || access(dir, R_OK | X_OK) == 0 || errno != EACCES)
		return rc;
	return fail(E_IO, "cache %s: this user cannot read it (%s): name another folder (--cache DIR)", dir,
		    strerror(EACCES));
}

int model_cache_check(const char *dir)
{
	struct stat st;
	if (!*dir)
		return fail(E_USAGE, "--cache: '' is not a folder's name");
	int rc = check_folder(dir);
	if (rc < 0)
		return rc;
	bool there = stat(dir, &st) == 0;
	int err = errno;
	rc = there ? cache_refuse_other(dir) : E_OK;
	if (rc < 0)
		return rc;
	if (there || err == EACCES)
		return may_read(dir);
	errno = err;
	struct buf tune = {0};
	if (errno != ENOENT)
		rc = fail(E_NOTFOUND, "there is no cache in %s: %s", dir, strerror(errno));
	shell_path(&tune, dir);
	if (rc >= 0)
		rc = fail(E_NOTFOUND, "there is no cache folder %s; `hone tune MODEL --cache %s` makes it",
			  dir, buf_str(&tune));
	buf_free(&tune);
	return rc;
}

void model_cache_warn(const struct cache *c)
{
	struct cache_state s = {0};
	if (c)
		cache_state(c, &s);
	if (s.damaged_bytes)
		log_info("hone: warning: a part of the cache %s is damaged and ignored: its kernels will be "
			 "tuned again",
			 s.dir);
}

int model_cache_to_read(const struct args *a, char *out, size_t n)
{
	int rc = model_cache_dir(a, out, n);
	if (rc < 0)
		return rc;
	return arg_str(a, "cache", NULL) ? model_cache_check(out) : may_read(out);
}

int model_cache_or_none(const struct args *a, char *dir, size_t n)
{
	if (arg_given(a, "cache"))
		return model_cache_to_read(a, dir, n);
	int rc = model_cache_default(dir, n);
	if (rc != E_NOTFOUND)
		return rc < 0 ? rc : may_read(dir);
	log_info("hone: warning: %s; so no tuned kernels are used", err_text());
	*dir = 0;
	return E_OK;
}

int model_cache_open_in(const struct args *a, bool to_write, const char *dir, struct cache **out)
{
	/* no other folder takes the place of the one named */
	struct cache_options o = {.only_here = to_write || model_cache_is_bare(dir)};
	int rc = to_write ? model_cache_limit(a, &o.cap_bytes) : model_cache_check(dir);
	if (rc >= 0 && to_write && arg_given(a, "cache"))
		rc = cache_refuse_other(dir);
	if (rc >= 0 && to_write)
		rc = model_cache_wait(a, dir, &o.lock_fd);
	return rc < 0 ? rc : cache_open_with(out, dir, to_write ? CACHE_WRITE : CACHE_READ, NS_PER_S, &o);
}

int model_cache_open(const struct args *a, bool to_write, char *dir, size_t n, struct cache **out)
{
	int rc = model_cache_dir(a, dir, n);
	return rc < 0 ? rc : model_cache_open_in(a, to_write, dir, out);
}

bool model_cache_is_bare(const char *dir)
{
	return !model_cache_was_default(dir) && holds_segments(dir) == 0;
}

int model_cache_read(const char *dir, struct cache **out)
{
	const struct cache_options o = {.only_here = model_cache_is_bare(dir)};
	return cache_open_with(out, dir, CACHE_READ, 0, &o);
}

const char *model_cache_above(const struct cache *c, const char *dir)
{
	const char *top = cache_dir(c);
	return strcmp(top, dir) && holds_segments(top) > 0 ? top : NULL;
}

void model_cache_names(const struct cache *c, const char *dir, struct buf *out)
{
	const char *above = model_cache_above(c, dir);
	buf_printf(out, "%s%s%s", dir, above ? " and " : "", above ? above : "");
}

int model_cache_wait(const struct args *a, const char *dir, int *lock_fd)
{
	*lock_fd = -1;
	return arg_given(a, "wait") ? cache_lock_wait(dir, arg_duration(a, "wait", 0), lock_fd) : E_OK;
}

bool model_cache_is_daemons(const char *dir)
{
	char its[PATH_MAX], one[PATH_MAX], other[PATH_MAX];
	return daemons_cache(its, sizeof its) && realpath(its, one) && realpath(dir, other) &&
	       !strcmp(one, other);
}

int model_cache_limit(const struct args *a, int64_t *bytes)
{
	const char *name = "--cache-limit", *env = getenv("HONE_CACHE_LIMIT");
	int rc = 0;
	*bytes = arg_size(a, "cache-limit", -1);
	if (*bytes < 0) {
		*bytes = 0;
		if (!env || !*env)
			return 0;
		name = "HONE_CACHE_LIMIT";
		rc = fail_in(size_parse(env, bytes), "%s", name);
	}
	if (rc >= 0 && *bytes < LEAST_LIMIT)
		return fail(E_USAGE, "%s: at least 1M, which some dozen kernels need", name);
	if (rc >= 0 && *bytes > CACHE_MOST_BYTES)
		return fail(E_USAGE, "%s: at most 1G", name);
	return rc;
}

void model_devices(struct buf *out)
{
	buf_puts(out, "cpu $(\"${COMP_WORDS[0]}\" devices --names 2>/dev/null | grep :) ");
}

static bool left_device;
static char left_why[700];

void model_leave_device(const char *why)
{
	left_device = true;
	next_leave_device();
	snprintf(left_why, sizeof left_why, "%s", why);
}

const char *model_left_device(void)
{
	return left_device ? left_why : NULL;
}

const char *model_device(const struct args *a)
{
	const char *name = arg_has(a, "device") ? arg_str(a, "device", "cpu") : "cpu";
	return device_is_named(name) && !left_device ? name : NULL;
}

int model_place(const struct args *a)
{
	cpu_set_t was;
	const char *given = arg_has(a, "device") ? arg_str(a, "device", "cpu") : "cpu";
	return device_is_processor(given) ? topo_keep_to(given, &was) : E_OK;
}

int model_device_check(const struct args *a)
{
	const char *given = arg_has(a, "device") ? arg_str(a, "device", "cpu") : "cpu";
	return device_is_named(given) || device_is_processor(given) ? E_OK : drivers_refuse(given);
}

int model_threads(const struct args *a, const struct target *t)
{
	int64_t n = arg_int(a, "threads", t->cores);
	if (n < 1 || n > 64)
		return fail(E_USAGE,
			    "--threads %lld is not possible; it takes 1 to 64 (this machine has %d core%s)",
			    (long long)n, t->cores, plural_s(t->cores));
	if (n > t->cores && n <= topo_cores(NULL, 0))
		log_info("%lld threads use cores of several clusters, which differ in speed (the fastest has %d)",
			 (long long)n, t->cores);
	else if (n > t->cores)
		log_info("%lld threads on %d core%s: they will wait for each other", (long long)n, t->cores,
			 plural_s(t->cores));
	return (int)n;
}

int model_level(const struct args *a, enum level *out)
{
	const char *name = arg_str(a, "level", NULL);
	bool exact = arg_flag(a, "exact");
	*out = exact ? LEVEL_EXACT : LEVEL_FP32;
	int rc = name ? level_parse(name, out) : 0;
	if (rc < 0)
		return rc;
	return exact && *out != LEVEL_EXACT ? fail(E_USAGE, "--exact and --level %s exclude each other", name)
					    : 0;
}

int model_binds(const struct args *a, struct arena *arena, const struct import_bind **out)
{
	const char *const *shape;
	int n = arg_list(a, "shape", &shape);
	struct import_bind *bind = ARENA_ARRAY(arena, struct import_bind, n + feed_shape_most(a) + 1);
	for (int i = 0; i < n; i++) {
		const char *eq = strrchr(shape[i], '=');
		if (!eq || eq == shape[i] || !eq[1])
			return fail(E_USAGE, "--shape %s: write NAME=DIMS, as in --shape image=1x3x320x320",
				    shape[i]);
		bind[i] =
		    (struct import_bind){arena_strndup(arena, shape[i], (size_t)(eq - shape[i])), eq + 1};
		for (int k = 0; k < i; k++)
			if (!strcmp(bind[k].name, bind[i].name))
				return fail(E_USAGE, "--shape gives '%s' twice", bind[i].name);
	}
	*out = bind;
	int files = feed_shape_binds(a, arena, bind, n);
	return files < 0 ? files : n + files;
}

/* A command that reads models several times says this once of each; one that shows what is known of a tuned
 * model does not, because tuning said it. */
static void say_notes(const struct args *a, const char *path, const struct buf *notes)
{
	static struct key said[8];
	static int n;
	struct buf line = {0};
	buf_printf(&line, "%s: %s", path, buf_str(notes));
	struct key k = hash_text(buf_str(&line));
	bool known = !notes->n || !strcmp(a->cmd->name, "explain") || !strcmp(a->cmd->name, "report");
	for (int i = 0; i < n && i < 8; i++)
		known |= key_equal(k, said[i]);
	if (!known) {
		log_info("%s", buf_str(&line));
		said[n++ % 8] = k;
	}
	buf_free(&line);
}

/* Whether the command compares models, of which one may have sizes that another one has not. */
static bool compares_models(const struct args *a)
{
	return !strcmp(a->cmd->name, "bench") && a->npos > 1;
}

/* Whether the text begins with sizes, as "1x3", and then a separator. *rest: what is behind that. */
static bool sizes_end(const char *text, const char **rest)
{
	size_t n = strspn(text, "0123456789x");
	*rest = text + n + strspn(text + n, ",; ");
	return n && *rest > text + n && **rest;
}

/* Appends "--shape H=32 --shape W=32" for the word "H=32,W=32"; nothing for one whose sizes are not followed
 * by another name, as names may have any letter. */
static void split_shape(const char *word, struct buf *out)
{
	const char *eq = strchr(word, '='), *rest;
	if (!eq || !sizes_end(eq + 1, &rest) || !strchr(rest, '='))
		return;
	for (const char *at = word; at; at = eq && sizes_end(eq + 1, &rest) ? rest : NULL) {
		eq = strchr(at, '=');
		int n = eq ? (int)(eq + 1 - at + (long)strspn(eq + 1, "0123456789x")) : (int)strlen(at);
		struct buf one = {0};
		buf_printf(&one, "%.*s", n, at);
		buf_puts(out, out->n ? " --shape " : "--shape ");
		shell_word(out, buf_str(&one));
		buf_free(&one);
	}
}

/* If the importer knows no name of --shape because the word has several sizes, says how to write them. */
static int explain_shapes(const struct args *a, int rc)
{
	const char *const *shape;
	for (int i = 0, n = rc == E_USAGE ? arg_list(a, "shape", &shape) : 0; i < n; i++) {
		struct buf split = {0}, text = {0};
		split_shape(shape[i], &split);
		const char *eq = strrchr(shape[i], '=');
		buf_printf(&text, "'%.*s'", eq ? (int)(eq - shape[i]) : 0, shape[i]);
		if (split.n && strstr(err_text(), buf_str(&text))) {
			buf_clear(&text);
			buf_puts(&text, err_text());
			rc = fail(E_USAGE, "%s; give each name an option of its own: %s", buf_str(&text),
				  buf_str(&split));
		}
		buf_free(&split);
		buf_free(&text);
	}
	return rc;
}

/* m: gets what it took of --shape; NULL: it has to take all. */
static int import(const struct args *a, const char *path, struct model *m, struct graph **out)
{
	struct arena arena = {0};
	struct buf notes = {0};
	struct import_opts o = {.notes = &notes};
	int rc = image_is_no_model(path);
	if (rc >= 0)
		rc = o.nbinds = model_binds(a, &arena, &o.binds);
	if (rc >= 0 && m && compares_models(a))
		m->took = o.taken = ARENA_ARRAY(&m->arena, bool, o.nbinds + 1);
	if (rc >= 0)
		rc = explain_shapes(a, cut_off_explain(path, import_file(path, &o, out)));
	if (rc >= 0)
		say_notes(a, path, &notes);
	buf_free(&notes);
	arena_free(&arena);
	return rc;
}

int model_import(const struct args *a, const char *path, struct graph **out)
{
	return import(a, path, NULL, out);
}

int model_shapes_met(const struct args *a, const struct model *const *m, int n)
{
	const char *const *shape;
	int nshapes = compares_models(a) ? arg_list(a, "shape", &shape) : 0;
	for (int i = 0; i < nshapes; i++) {
		bool met = false;
		for (int k = 0; k < n && !met; k++)
			met = m[k]->took && m[k]->took[i];
		if (!met)
			return fail(E_USAGE,
				    "--shape %.200s: none of the models has such an input or symbolic dimension; "
				    "hone inspect MODEL shows them",
				    shape[i]);
	}
	return E_OK;
}

bool model_took_all(const struct args *a, const struct model *m)
{
	const char *const *shape;
	int n = arg_list(a, "shape", &shape), took = 0;
	for (int i = 0; i < n && m->took; i++)
		took += m->took[i];
	return !m->took || took == n;
}

static int divide(struct model *m, const struct chosen_for *f)
{
	int rc = chosen_steps(f, m->g, &m->arena, &m->choices, &m->steps);
	if (rc >= 0)
		rc = m->ntasks = steps_tasks(m->steps, &m->arena, &m->task);
	return fail_in(rc, "%s", m->path);
}

static int divide_bytes(struct model *m, const struct target *t)
{
	choices_set(&m->choices, &m->arena, CHOICE_BYTES, CHOICE_ALL, 1);
	int rc = chosen_divide(t, NULL, 0, m->g, &m->arena, &m->choices, &m->steps);
	if (rc >= 0)
		rc = m->ntasks = steps_tasks(m->steps, &m->arena, &m->task);
	return rc < 0 ? fail_in(rc, "%s", m->path) : E_OK;
}

bool model_is_untunable(const struct model *m)
{
	return !m->ntasks && !steps_leave_bytes(m->g, m->steps, &m->choices);
}

int model_take_bytes(struct model *m, const struct target *t)
{
	return steps_leave_bytes(m->g, m->steps, &m->choices) ? divide_bytes(m, t) : E_OK;
}

/* The name of an operator that a choice leaves; NULL: none. */
static const char *left_operator(const struct choices *c)
{
	for (int i = 0; i < c->n; i++)
		if (c->choice[i].kind == CHOICE_BYTES && !c->choice[i].number)
			return c->choice[i].name;
	return NULL;
}

int model_take_all_bytes(struct model *m, const struct target *t)
{
	const char *left = left_operator(&m->choices);
	if (!left)
		return model_take_bytes(m, t);
	for (; left; left = left_operator(&m->choices))
		choices_set(&m->choices, &m->arena, CHOICE_BYTES, left, -1);
	return divide_bytes(m, t);
}

/* Why a network that level int8 was asked for still consists of floats; NULL: it does not. */
static const char *why_floats(struct model *m, enum level level)
{
	if (level != LEVEL_INT8 || m->recipe.quantised || qdq_node(m->g))
		return NULL;
	if (!m->recipe.layers)
		return "it has no layer that can be quantised";
	return arena_printf(&m->arena, "its recipe keeps all %d layer%s as floats", m->recipe.layers,
			    plural_s(m->recipe.layers));
}

/* Some commands open a model twice; the line is for the first time. */
static void say_floats(const struct model *m)
{
	static const char *said;
	if (m->floats && said != m->path)
		log_info("hone: level int8 changes nothing of %s, which runs as floats: %s", m->path, m->floats);
	said = m->floats ? m->path : said;
}

int model_open(const struct args *a, const char *path, const struct chosen_for *f, struct model *m)
{
	return model_open_with(a, path, f, f->cache, m);
}

int model_open_with(const struct args *a, const char *path, const struct chosen_for *f, struct cache *recipes,
		    struct model *m)
{
	int64_t start = clock_now(&clock_real);
	*m = (struct model){.path = path};
	int rc = import(a, path, m, &m->g);
	if (rc < 0) {
		arena_free(&m->arena);
		return rc;
	}
	m->nan = weights_nan(m->g, &m->arena);
	m->infinite = m->nan ? NULL : weights_infinite(m->g, &m->arena);
	if (m->nan || m->infinite)
		log_info("hone: warning: %s: %s", path, m->nan ? m->nan : m->infinite);
	rc = recipe_use(&recipes, 1, f->level, m->g, &m->recipe);
	if (rc == E_NOTFOUND)
		rc = fail(rc, "%s; or hone import --recipes FILE, if another board has exported the recipe",
			  err_text());
	rc = fail_in(rc, "%s", path);
	if (rc >= 0) {
		m->floats = why_floats(m, f->level);
		say_floats(m);
		rc = divide(m, f);
	}
	if (rc < 0)
		model_close(m);
	m->load_ns = clock_now(&clock_real) - start;
	return rc;
}

void model_close(struct model *m)
{
	graph_free(m->g);
	arena_free(&m->arena);
	m->g = NULL;
}

static void fill(struct tensor *t, struct rng *r)
{
	int64_t n = shape_count(&t->shape);
	if (t->dtype == DT_F32) {
		rng_fill(r, t->data, (size_t)n);
		return;
	}
	bool real = t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
	for (int64_t i = 0; i < n; i++)
		tensor_set(t, i, real ? 2 * rng_unit(r) - 1 : rng_below(r, 2));
}

int model_inputs(const struct graph *g, uint64_t seed, struct arena *a, struct tensor **out)
{
	struct rng r;
	rng_seed(&r, seed);
	struct tensor *in = ARENA_ARRAY(a, struct tensor, g->ninputs + 1);
	for (int i = 0; i < g->ninputs; i++) {
		const struct tensor *t = &g->value[g->input[i]].t;
		int rc = tensor_alloc(a, t->dtype, &t->shape, &in[i]);
		if (rc < 0)
			return fail_in(rc, "input '%s'", g->value[g->input[i]].name);
		fill(&in[i], &r);
	}
	*out = in;
	return 0;
}

int model_outputs(const struct graph *g, struct arena *a, struct tensor **out)
{
	struct tensor *t = ARENA_ARRAY(a, struct tensor, g->noutputs + 1);
	for (int i = 0; i < g->noutputs; i++) {
		const struct value *v = &g->value[g->output[i]];
		int rc = tensor_alloc(a, v->t.dtype, &v->t.shape, &t[i]);
		if (rc < 0)
			return fail_in(rc, "output '%s'", v->name);
	}
	*out = t;
	return 0;
}

const char *model_name(const char *path, struct arena *a)
{
	const char *base = strrchr(path, '/'), *folder;
	base = base ? base + 1 : path;
	for (folder = base; folder > path && folder[-1] == '/';)
		folder--;
	const char *end = base + strlen(base);
	if (!strcmp(base, "model.onnx") && folder > path) {
		for (base = end = folder; base > path && base[-1] != '/';)
			base--;
	} else if (end - base > 5 && !strcmp(end - 5, ".onnx")) {
		end -= 5;
	}
	return arena_strndup(a, base, (size_t)(end - base));
}
