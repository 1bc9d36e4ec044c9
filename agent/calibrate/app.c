/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/calibrate/app.h"

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/near.h"
#include "platform/base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN "own"
enum { MOST_LINE = 197 /* inih's buffer less \r, \n and NUL */, MOST_FILE = 65536 };

struct reading {
	const char *text;
	size_t n, at;
	int line, rc;
	struct arena *a;
	struct app *app;
};

struct app_key {
	const char *name;
	int (*take)(struct reading *r, const char *value, struct app_net *net);
	const char *allowed;
};

static int number(const char *text, double least, double most, double *out)
{
	char *end;
	double x = strtod(text, &end);
	if (end == text || *end || !(x >= least && x <= most))
		return E_USAGE;
	*out = x;
	return E_OK;
}

static int take_evaluator(struct reading *r, const char *value, struct app_net *net)
{
	(void)net;
	r->app->evaluator = arena_strdup(r->a, value);
	return *value ? E_OK : E_USAGE;
}

static int take_evaluations(struct reading *r, const char *value, struct app_net *net)
{
	double x;
	(void)net;
	int rc = number(value, 1, BOUNDARY_EVALS, &x);
	if (rc < 0 || x != floor(x))
		return E_USAGE;
	r->app->evaluations = (int)x;
	return E_OK;
}

static int take_timeout(struct reading *r, const char *value, struct app_net *net)
{
	(void)net;
	return duration_parse(value, &r->app->timeout_ns) < 0 || r->app->timeout_ns <= 0 ? E_USAGE : E_OK;
}

static int take_wrong(struct reading *r, const char *value, struct app_net *net)
{
	char text[24];
	size_t n = strlen(value);
	bool percent = n && value[n - 1] == '%';
	(void)net;
	if (!n || n >= sizeof text)
		return E_USAGE;
	memcpy(text, value, n + 1);
	while (percent && n && (text[n - 1] == '%' || text[n - 1] == ' '))
		text[--n] = 0;
	int rc = number(text, 0, percent ? 100 * BOUNDARY_WRONG : BOUNDARY_WRONG, &r->app->wrong);
	r->app->wrong /= percent ? 100 : 1;
	return rc;
}

static int take_pass(struct reading *r, const char *value, struct app_net *net)
{
	(void)net;
	return number(value, -HUGE_VAL, HUGE_VAL, &r->app->pass) < 0 || !isfinite(r->app->pass) ? E_USAGE
												: E_OK;
}

static int take_range(struct reading *r, const char *value, struct app_net *net)
{
	char low[64], high[64], more[2];
	(void)net;
	if (sscanf(value, "%63s %63s %1s", low, high, more) != 2 ||
	    number(low, -HUGE_VAL, HUGE_VAL, &r->app->least) < 0 ||
	    number(high, -HUGE_VAL, HUGE_VAL, &r->app->most) < 0)
		return E_USAGE;
	return r->app->least < r->app->most ? E_OK : E_USAGE;
}

static int take_path(struct reading *r, const char *value, struct app_net *net)
{
	net->path = arena_strdup(r->a, value);
	return *value ? E_OK : E_USAGE;
}

static int take_kind(struct reading *r, const char *value, struct app_net *net)
{
	(void)r;
	net->has_kind = true;
	net->kind = INJECT_KINDS;
	if (!strcmp(value, OWN))
		return E_OK;
	for (int k = 0; k < INJECT_KINDS; k++)
		if (!strcmp(inject_kind_name((enum inject_kind)k), value)) {
			net->kind = (enum inject_kind)k;
			return E_OK;
		}
	return E_USAGE;
}

static int take_most(struct reading *r, const char *value, struct app_net *net)
{
	(void)r;
	return number(value, 1e-9, 1e6, &net->most);
}

static int take_output(struct reading *r, const char *value, struct app_net *net)
{
	net->output = arena_strdup(r->a, value);
	return *value && strlen(value) < INJECT_NAME ? E_OK : E_USAGE;
}

static const struct app_key app_keys[] = {
    {"evaluator", take_evaluator, "a command for sh"},
    {"evaluations", take_evaluations, "a number from 1 to 2000"},
    {"timeout", take_timeout, "a duration above 0, as in 10m"},
    {"wrong", take_wrong, "a share from 0% to 30%"},
    {"pass", take_pass, "a number"},
    {"range", take_range, "two numbers, the smaller one first"},
};
static const struct app_key net_keys[] = {
    {"path", take_path, "a file"},
    {"error", take_kind, "regression, classification, segmentation, detection or own"},
    {"most", take_most, "a number from 1e-9 to 1e6"},
    {"output", take_output, "the name of an output, of 1 to 63 bytes"},
};

__attribute__((format(printf, 2, 3))) static int refuse(struct reading *r, const char *fmt, ...)
{
	char what[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return r->rc = fail(E_USAGE, "%s:%d: %s", r->app->file, r->line, what);
}

/* The network of a section, made at its first line; NULL: the section is refused. */
static struct app_net *net_of(struct reading *r, const char *name)
{
	struct app *app = r->app;
	size_t n = strlen(name);
	for (int i = 0; i < app->nnets; i++)
		if (!strcmp(app->net[i].name, name))
			return &app->net[i];
	if (n < 1 || n >= APP_NAME) {
		refuse(r, "[network %s]: a name has 1 to %d bytes", name, APP_NAME - 1);
		return NULL;
	}
	if (app->nnets == BOUNDARY_AXES) {
		refuse(r, "[network %s]: there are too many networks; at most %d are possible", name,
		       BOUNDARY_AXES);
		return NULL;
	}
	struct app_net *net = &app->net[app->nnets++];
	*net = (struct app_net){.name = arena_strdup(r->a, name), .line = r->line};
	return net;
}

static int refuse_key(struct reading *r, const char *section, const char *name, const struct app_key *keys,
		      int n)
{
	struct buf all = {0};
	struct near near;
	near_begin(&near, name);
	for (int i = 0; i < n; i++) {
		buf_printf(&all, "%s%s", i ? ", " : "", keys[i].name);
		near_add(&near, keys[i].name);
	}
	const char *meant = near.best;
	int rc = meant ? refuse(r, "[%s] has no key '%s'; did you mean '%s'?", section, name, meant)
		       : refuse(r, "[%s] has no key '%s'; there are: %s", section, name, buf_str(&all));
	buf_free(&all);
	return rc;
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct reading *r = user;
	struct app_net *net = NULL;
	const struct app_key *keys = app_keys;
	int n = sizeof app_keys / sizeof *app_keys;
	if (r->rc < 0)
		return 0;
	if (!strncmp(section, "network ", 8)) {
		net = net_of(r, section + 8 + strspn(section + 8, " "));
		keys = net_keys;
		n = sizeof net_keys / sizeof *net_keys;
	} else if (strcmp(section, "application")) {
		refuse(r, "there is no section [%s]; there are [application] and [network NAME]", section);
	}
	if (r->rc < 0)
		return 0;
	for (int i = 0; i < n; i++)
		if (!strcmp(keys[i].name, name)) {
			if (keys[i].take(r, value, net) < 0)
				refuse(r, "%s = %s is not possible; it takes %s", name, value,
				       keys[i].allowed);
			return r->rc >= 0;
		}
	refuse_key(r, section, name, keys, n);
	return 0;
}

/* Hands inih one line after the other, without blanks in front of it, which it would take for a continuation
 * of the value before. */
static char *read_line(char *out, int size, void *stream)
{
	struct reading *r = stream;
	if (r->rc < 0 || r->at >= r->n)
		return NULL;
	const char *line = r->text + r->at, *end = memchr(line, '\n', r->n - r->at);
	size_t n = end ? (size_t)(end - line) : r->n - r->at;
	r->at += n + (end != NULL);
	r->line++;
	if (memchr(line, 0, n)) {
		refuse(r, "a byte of 0 is in this line; remove it");
		return NULL;
	}
	while (n && (*line == ' ' || *line == '\t'))
		line++, n--;
	if (n > MOST_LINE || n + 2 > (size_t)size) {
		refuse(r, "a line of %zu bytes; at most %d are allowed", n, MOST_LINE);
		return NULL;
	}
	memcpy(out, line, n);
	out[n] = 0;
	if (!strncmp(out, "evaluator", 9) && strstr(out, " ;")) {
		refuse(r, "a blank and ; begin a comment, and would cut the command; put it into a script");
		return NULL;
	}
	return out;
}

static int check_net(struct reading *r, const struct app_net *net)
{
	r->line = net->line;
	if (!net->has_kind)
		return refuse(
		    r,
		    "[network %s] lacks a line `error =` with regression, classification, segmentation, "
		    "detection or own",
		    net->name);
	if (!net->path && net->kind != INJECT_KINDS)
		return refuse(r, "[network %s] lacks a line `path = MODEL.onnx`", net->name);
	if (net->most > 1 && net->kind != INJECT_REGRESSION && net->kind != INJECT_KINDS)
		return refuse(r, "[network %s]: most = %g is not possible for a share; it takes up to 1",
			      net->name, net->most);
	return E_OK;
}

static int check(struct reading *r)
{
	struct app *app = r->app;
	r->line = 1;
	if (!app->evaluator)
		return refuse(r, "[application] lacks a line `evaluator = COMMAND`");
	if (!app->nnets)
		return refuse(r, "there is no section [network NAME]; write one for each model");
	for (int i = 0; i < app->nnets; i++) {
		struct app_net *net = &app->net[i];
		char mine[APP_NAME + 16], other[APP_NAME + 16];
		if (check_net(r, net) < 0)
			return r->rc;
		if (net->most <= 0)
			net->most = net->kind == INJECT_REGRESSION || net->kind == INJECT_KINDS ? 1 : 0.5;
		app_variable(app, i, mine);
		for (int k = 0; k < i; k++) {
			app_variable(app, k, other);
			if (!strcmp(mine, other))
				return refuse(
				    r, "the networks %s and %s would share the variable %s; rename one",
				    app->net[k].name, net->name, mine);
		}
	}
	return E_OK;
}

int app_parse(const char *path, const char *text, size_t n, struct arena *a, struct app *out)
{
	*out = (struct app){.file = path,
			    .evaluations = APP_EVALUATIONS,
			    .timeout_ns = 600 * NS_PER_S,
			    .least = -INFINITY,
			    .most = INFINITY};
	struct reading r = {.text = text, .n = n, .a = a, .app = out};
	int bad = ini_parse_stream(read_line, &r, on_key, &r);
	if (bad == -2)
		return fail(E_NOMEM, "no memory to read %s", path);
	if (bad > 0 && r.rc >= 0) {
		r.line = bad;
		refuse(&r, "neither a [section] nor key = value");
	}
	return r.rc < 0 ? r.rc : check(&r);
}

static const char *folder_of(const char *path, struct arena *a)
{
	const char *slash = strrchr(path, '/');
	return !slash ? "." : slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

/* Completes a network with its model's key. */
static int read_model(struct app *app, struct app_net *net, struct arena *a)
{
	struct arena scratch = {0};
	struct blob model;
	if (net->kind == INJECT_KINDS) {
		net->file = hash_text(net->name);
		return E_OK;
	}
	size_t n = strlen(app->folder) + strlen(net->path) + 2;
	char *path = ARENA_ARRAY(a, char, n);
	snprintf(path, n, "%s%s%s", *net->path == '/' ? "" : app->folder, *net->path == '/' ? "" : "/",
		 net->path);
	int rc = file_read(&scratch, path, 0, &model);
	if (rc >= 0)
		net->file = hash_bytes(model.p, model.n);
	arena_free(&scratch);
	for (const struct app_net *other = app->net; rc >= 0 && other < net; other++)
		if (key_equal(other->file, net->file))
			return fail(
			    E_USAGE,
			    "%s:%d: the networks %s and %s are the same model; give it one section, or "
			    "copies that differ, as in their names",
			    app->file, net->line, other->name, net->name);
	return fail_in(rc, "%s:%d", app->file, net->line);
}

int app_read(const char *path, struct arena *a, struct app *out)
{
	struct blob text;
	int rc = file_read(a, path, MOST_FILE, &text);
	if (rc >= 0)
		rc = app_parse(path, text.p, text.n, a, out);
	if (rc < 0)
		return rc;
	out->folder = folder_of(path, a);
	for (int i = 0; i < out->nnets && rc >= 0; i++)
		rc = read_model(out, &out->net[i], a);
	return rc;
}

const char *app_kind_name(const struct app_net *net)
{
	return net->kind < INJECT_KINDS ? inject_kind_name(net->kind) : OWN;
}

void app_variable(const struct app *app, int i, char out[APP_NAME + 16])
{
	int n = snprintf(out, APP_NAME + 16, "HONE_ERROR_%s", app->net[i].name);
	for (int k = 0; k < n; k++)
		out[k] = isalnum((unsigned char)out[k]) ? (char)toupper((unsigned char)out[k]) : '_';
}
