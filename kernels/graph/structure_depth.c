/* SPDX-License-Identifier: Apache-2.0 */
/* DepthToSpace and SpaceToDepth: channels are (block row, block column, channel), or in mode CRD (channel,
 * block row, block column). */
#include "kernels/graph/structure.h"

#include <string.h>

enum { N, C, Y, I, X, J, AXES };

static void image(struct read *r, int64_t block)
{
	r->dim[0].coef[N] = 1;
	r->dim[1].coef[C] = 1;
	r->dim[2].coef[Y] = r->dim[3].coef[X] = block;
	r->dim[2].coef[I] = r->dim[3].coef[J] = 1;
}

static void depths(struct read *r, int64_t channels, int64_t block, bool crd)
{
	r->dim[0].coef[N] = 1;
	r->dim[1].coef[C] = crd ? block * block : 1;
	r->dim[1].coef[I] = crd ? block : channels * block;
	r->dim[1].coef[J] = crd ? 1 : channels;
	r->dim[2].coef[Y] = r->dim[3].coef[X] = 1;
}

int structure_depth(const struct opctx *c, struct task *t)
{
	static const char *const names[AXES] = {"n", "c", "y", "i", "x", "j"};
	bool to_space = !strcmp(node_type(c->node), "DepthToSpace");
	bool crd = to_space && !strcmp(node_str(c->node, "mode", "DCR"), "CRD");
	const struct shape *in = &c->in[0].shape, *out = &c->out[0].shape, *few = to_space ? out : in,
			   *small = to_space ? in : out;
	int64_t block = node_int(c->node, "blocksize", 1);
	int ix, iy, rc = structure_operand(t, c, 'i', 0, &ix);
	if (rc >= 0)
		rc = structure_operand(t, c, 'o', 0, &iy);
	if (rc < 0)
		return rc;
	if (in->rank != 4 || block < 1)
		return fail(E_UNSUPPORTED, "depth and space of rank %d", in->rank);
	const int64_t extent[AXES] = {few->d[0], few->d[1], small->d[2], block, small->d[3], block};
	struct stage *s = structure_stage(t);
	for (int a = 0; a < AXES; a++)
		structure_axis(s, names[a], AXIS_SPATIAL, extent[a]);
	struct read *r = structure_read(s, ix);
	structure_out(t, s, iy);
	for (int d = 0; d < 4; d++)
		memset(s->out.dim[d].coef, 0, sizeof s->out.dim[d].coef);
	image(to_space ? &s->out : r, block);
	depths(to_space ? r : &s->out, few->d[1], block, crd);
	prog_text(&s->body, c->node, "r0");
	return E_OK;
}
