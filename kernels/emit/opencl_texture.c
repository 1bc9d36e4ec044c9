/* SPDX-License-Identifier: Apache-2.0 */
/* Textures (kernels/loops/loops.h) are images of texels of four elements, in rows of OPENCL_IMAGE_TEXELS, of
 * CL_RGBA and CL_FLOAT or CL_HALF_FLOAT. read_imagef() without a sampler takes whole coordinates, filters
 * nothing and widens f16 exactly; a subnormal f32 may become 0. */
#include "kernels/emit/opencl_gen.h"
#include "platform/run/opencl.h"

enum { TEXEL = 4, ROW = OPENCL_IMAGE_TEXELS, ROW_LOG2 = __builtin_ctz(ROW) };

static void read_texel(struct cl_gen *g, int buf, int i)
{
	buf_printf(&g->out, "%sread_imagef(m%d, (int2)((t + %d) & %d, (t + %d) >> %d))", i ? ", " : "", buf,
		   i, ROW - 1, i, (int)ROW_LOG2);
}

void cl_texels(struct cl_gen *g, const struct stmt *s)
{
	int lanes = g->l->lanes[s->dst];
	buf_puts(&g->out, "const int t = (int)(");
	cl_ix(g, s->mem.at);
	buf_printf(&g->out, " >> 2);\nv%d = (%s)(", s->dst, cl_type(LV_F32, lanes));
	for (int i = 0; i < lanes / TEXEL; i++)
		read_texel(g, s->mem.buf, i);
	buf_puts(&g->out, ");\n");
}
