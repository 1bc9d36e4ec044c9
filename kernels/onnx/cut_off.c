/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/onnx/cut_off.h"
#include "kernels/graph/names.h"
#include "kernels/graph/op.h"
#include "kernels/onnx/import_parts.h"
#include "kernels/onnx/onnx_pb.h"
#include "platform/base/file.h"
#include <stdlib.h>
#include <string.h>

enum {
	FED = 1,     /* depends on an input of the model */
	BEYOND = 2,  /* depends on a node that is not supported, or is one of its outputs */
	WANTED = 4,  /* an output of the part before */
	MOST = 16,   /* names that a command lists */
	TIMES = 64,  /* memory over the file's size */
	TEXT = 4000, /* bytes of an error's text with a command */
};

struct cut_off {
	struct arena a;
	const Onnx__GraphProto *g;
	int opset;
	struct names is; /* of a tensor: FED, BEYOND, WANTED */
	const char *in[MOST], *out[MOST];
	int nin, nout;
};

static bool is_default(const Onnx__NodeProto *n)
{
	return !n->domain || !*n->domain || !strcmp(n->domain, "ai.onnx");
}

static bool is_supported(const struct cut_off *c, const Onnx__NodeProto *n)
{
	int row;
	const char *type = n->op_type ? n->op_type : "";
	return import_flow_kind(n) ||
	       (is_default(n) && (!strcmp(type, "Constant") || op_find(type, c->opset, &row)));
}

static int what_is(const struct cut_off *c, const char *name)
{
	const int *is = names_find(&c->is, name);
	return is ? *is : 0;
}

static int add_what(struct cut_off *c, const char *name, int what)
{
	int *is = *name ? names_find(&c->is, name) : NULL;
	if (is)
		*is |= what;
	return is || !*name ? E_OK : names_add(&c->is, name, what);
}

static int take_inputs(struct cut_off *c)
{
	struct names constants = {.a = &c->a};
	int rc = E_OK;
	for (size_t i = 0; i < c->g->n_initializer; i++)
		if (c->g->initializer[i]->name && !names_find(&constants, c->g->initializer[i]->name))
			if ((rc = names_add(&constants, c->g->initializer[i]->name, 0)) < 0)
				return rc;
	for (size_t i = 0; i < c->g->n_input && rc >= 0; i++) {
		const char *name = c->g->input[i]->name;
		if (!name || names_find(&constants, name))
			continue;
		if (c->nin == MOST)
			return E_UNSUPPORTED;
		c->in[c->nin++] = name;
		rc = add_what(c, name, 0); /* an input itself is no output of the part */
	}
	return rc;
}

static bool is_input(const struct cut_off *c, const char *name)
{
	for (int i = 0; i < c->nin; i++)
		if (!strcmp(c->in[i], name))
			return true;
	return false;
}

/* Nodes come in order: no node reads a later one's output. */
static int walk(struct cut_off *c, bool *any)
{
	int rc = E_OK;
	for (size_t i = 0; i < c->g->n_node && rc >= 0; i++) {
		const Onnx__NodeProto *n = c->g->node[i];
		int what = is_supported(c, n) ? 0 : BEYOND;
		*any |= what != 0;
		for (size_t k = 0; k < n->n_input; k++)
			what |= is_input(c, n->input[k]) ? FED : what_is(c, n->input[k]) & (FED | BEYOND);
		for (size_t k = 0; k < n->n_input && what & BEYOND; k++)
			if (what_is(c, n->input[k]) == FED)
				(void)add_what(c, n->input[k], WANTED);
		for (size_t k = 0; k < n->n_output && rc >= 0; k++)
			rc = add_what(c, n->output[k], what);
	}
	return rc;
}

static int take_outputs(struct cut_off *c)
{
	for (size_t i = 0; i < c->g->n_output; i++)
		if (c->g->output[i]->name && what_is(c, c->g->output[i]->name) == FED)
			(void)add_what(c, c->g->output[i]->name, WANTED);
	for (size_t i = 0; i < c->g->n_node; i++)
		for (size_t k = 0; k < c->g->node[i]->n_output; k++) {
			const char *name = c->g->node[i]->output[k];
			if (what_is(c, name) != (FED | WANTED))
				continue;
			if (c->nout == MOST)
				return E_UNSUPPORTED;
			c->out[c->nout++] = name;
		}
	return c->nout ? E_OK : E_UNSUPPORTED;
}

/* Python's list of the names, in a shell's double quotes. False: a name cannot stand there as it is. */
static bool put_names(struct buf *b, const char *const *name, int n)
{
	bool plain = true;
	for (int i = 0; i < n; i++) {
		for (const char *p = name[i]; *p; p++)
			plain &= (unsigned char)*p >= ' ' && !strchr("'\"\\$`!", *p);
		buf_printf(b, "%s'%s'", i ? ", " : "[", name[i]);
	}
	buf_puts(b, "]");
	return plain;
}

static bool put_command(struct cut_off *c, const char *path, struct buf *b)
{
	size_t n = strlen(path);
	bool ends = n > 5 && !strcmp(path + n - 5, ".onnx");
	const char *to = arena_printf(&c->a, "%.*s-cut.onnx", (int)(n - (ends ? 5 : 0)), path);
	const char *const files[] = {path, to};
	struct buf paths = {0};
	bool plain = put_names(&paths, files, 2);
	buf_printf(b, "python3 -c \"import onnx; onnx.utils.extract_model(%.*s, ", (int)paths.n - 2,
		   buf_str(&paths) + 1); /* without the brackets of a list */
	plain &= put_names(b, c->in, c->nin);
	buf_puts(b, ", ");
	plain &= put_names(b, c->out, c->nout);
	buf_puts(b, ")\"");
	buf_free(&paths);
	return plain && b->n + strlen(err_text()) < TEXT;
}

static int look(struct cut_off *c, const char *path)
{
	struct blob file;
	Onnx__ModelProto *m;
	int rc = file_read(&c->a, path, 0, &file);
	if (rc < 0)
		return rc;
	c->a.cap_bytes = ((size_t)64 << 20) + file.n * TIMES;
	rc = pb_unpack(&c->a, &onnx__model_proto__descriptor, file.p, file.n, &m);
	if (rc < 0 || !m->graph)
		return rc < 0 ? rc : E_CORRUPT;
	c->g = m->graph;
	c->is.a = &c->a;
	for (size_t i = 0; i < m->n_opset_import; i++) {
		const Onnx__OpsetProto *o = m->opset_import[i];
		bool ours = !o->domain || !*o->domain || !strcmp(o->domain, "ai.onnx");
		if (ours && o->version > c->opset && o->version < 1000)
			c->opset = (int)o->version;
	}
	bool any = false;
	rc = take_inputs(c);
	if (rc >= 0)
		rc = walk(c, &any);
	if (rc >= 0 && any)
		rc = take_outputs(c);
	return rc < 0 ? rc : any ? E_OK : E_UNSUPPORTED;
}

int cut_off_explain(const char *path, int rc)
{
	if (rc != E_UNSUPPORTED || !strstr(err_text(), "not supported"))
		return rc;
	char *text = strdup(err_text());
	struct cut_off c = {.opset = 0};
	struct buf b = {0};
	bool found = text && look(&c, path) >= 0 && put_command(&c, path, &b);
	rc = found ? fail(rc,
			  "%s\n" CUT_OFF_ADVICE "before them (with the Python package onnx; the "
			  "application then "
			  "does what they do): `%s`",
			  text, buf_str(&b))
		   : fail(rc, "%s", text ? text : "the model has operators that are not supported");
	free(text);
	buf_free(&b);
	arena_free(&c.a);
	return rc;
}
