/* SPDX-License-Identifier: Apache-2.0 */
/* If: the branch that its condition chooses takes its place. */
#include "kernels/onnx/import_parts.h"

static int32_t elem_type(const Onnx__ValueInfoProto *p)
{
	return p->type && p->type->tensor_type ? p->type->tensor_type->elem_type : 0;
}

/* Both branches have the node's outputs, and do not say different types. */
static int check_branches(const struct import_flow *f, const struct import_body *b,
			  const struct import_body *other)
{
	if (b->p->n_output != f->p->n_output || other->p->n_output != f->p->n_output)
		return fail(E_CORRUPT, "its branches give %zu and %zu outputs, the node has %zu",
			    b->p->n_output, other->p->n_output, f->p->n_output);
	if (b->p->n_input || other->p->n_input)
		return fail(E_CORRUPT, "a branch has inputs");
	for (size_t k = 0; k < b->p->n_output; k++) {
		int32_t t = elem_type(b->p->output[k]), u = elem_type(other->p->output[k]);
		if (t && u && t != u)
			return fail(E_CORRUPT, "output %zu is %s in one branch and %s in the other", k,
				    pb_type_name(t), pb_type_name(u));
	}
	return E_OK;
}

/* The branch's outputs become those of the node, so that no copies are needed; what is left gets one. */
static int bind_outputs(struct importer *im, const struct import_flow *f, const struct import_body *b,
			struct import_scope *s)
{
	for (int k = 0; k < f->nout; k++) {
		const char *name = b->p->output[k]->name;
		if (f->out[k] < 0 || !name || !*name || names_find(&s->bound, name))
			continue;
		im->scope = s;
		int rc = import_find(im, name) < 0 ? names_add(&s->bound, name, f->out[k]) : E_OK;
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int link_outputs(struct importer *im, const struct import_flow *f, const struct import_body *b,
			struct import_scope *s)
{
	for (int k = 0; k < f->nout; k++) {
		int v = flow_output(im, b, s, (size_t)k);
		if (v < 0)
			return v;
		if (f->out[k] < 0 || v == f->out[k])
			continue;
		int rc = flow_node(im, "Identity", f->name, 1, &v, f->out[k], 0, NULL);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int step(struct importer *im, struct import_flow *f, int *wait)
{
	(void)wait;
	struct import_body *branch[2];
	int64_t chosen;
	if (f->nin != 1)
		return fail(E_CORRUPT, "%d inputs; If takes 1", f->nin);
	int rc = flow_scalar(im, f->in[0], DT_BOOL, "condition", &chosen);
	for (int k = 0; rc >= 0 && k < 2; k++)
		rc = flow_body(im, f, k ? "then_branch" : "else_branch", k, &branch[k]);
	if (rc >= 0)
		rc = check_branches(f, branch[chosen], branch[!chosen]);
	struct import_scope *s = rc < 0 ? NULL : flow_scope(im, f->scope, 1);
	if (!s)
		return rc < 0 ? rc : E_NOMEM;
	rc = bind_outputs(im, f, branch[chosen], s);
	if (rc >= 0)
		rc = flow_constants(im, branch[chosen], s);
	if (rc >= 0)
		rc = flow_copy(im, branch[chosen], s, 0);
	return rc >= 0 ? link_outputs(im, f, branch[chosen], s) : rc;
}

const struct flow_kind flow_if = {"If", 1, "then_branch else_branch", step};
