/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces an Einsum of two operands, whose products are those of matrices, by MatMul: each operand gets its
 * axes in the order batch, rows, sums (the second one: batch, sums, columns), each group as one dimension. */
#include "kernels/graph/einsum.h"
#include "kernels/graph/pass.h"

#include <string.h>

enum { OPSET = 13, BATCH, ROWS, COLUMNS, SUMS, OTHER };

/* What a label is for the product. */
static int part_of(const struct einsum *e, int l)
{
	bool in0 = e->in[0].axes[l], in1 = e->in[1].axes[l];
	if (l >= e->out)
		return in0 && in1 ? SUMS : OTHER;
	return in0 && in1 ? BATCH : in0 ? ROWS : COLUMNS;
}

/* Whether each label is at most once in an operand and has the same extent in all, and none is summed over
 * one operand alone. */
static bool is_product(const struct graph *g, const struct node *n, const struct einsum *e)
{
	for (int k = 0; k < 2; k++) {
		const struct tensor *t = &g->value[n->in[k]].t;
		if (t->dtype != DT_F32)
			return false;
		for (int i = 0; i < t->shape.rank; i++)
			if (t->shape.d[i] != e->size[e->in[k].label[i]])
				return false;
	}
	for (int l = 0; l < e->labels; l++)
		if (e->in[0].axes[l] > 1 || e->in[1].axes[l] > 1 || part_of(e, l) == OTHER || !e->size[l])
			return false;
	return true;
}

struct making {
	struct graph *g;
	const char *name;
	const struct einsum *e;
	bool batches;
	int rc; /* the first failure; after it nothing is added */
};

static int add(struct making *m, const char *type, const char *suffix, int nin, const int *in,
	       const struct attr *attr)
{
	int v = m->rc < 0 ? m->rc
			  : pass_add(m->g, type, pass_name(m->g, m->name, suffix), OPSET, nin, in,
				     attr != NULL, attr);
	m->rc = v < 0 ? v : m->rc;
	return v;
}

/* Adds a Transpose, unless the order is that of the axes already. */
static int transpose(struct making *m, const char *suffix, int v, const int64_t *perm, int rank)
{
	const struct attr attr = {.name = "perm", .kind = ATTR_INTS, .n = rank, .ints = perm};
	bool same = true;
	for (int i = 0; i < rank; i++)
		same &= perm[i] == i;
	return same ? v : add(m, "Transpose", suffix, 1, &v, &attr);
}

static int reshape(struct making *m, const char *suffix, int v, const int64_t *d, int rank)
{
	int list = m->rc < 0 ? m->rc
			     : graph_add_constant(m->g, pass_name(m->g, m->name, "shape"), DT_I64,
						  &(struct shape){1, {rank}}, d);
	m->rc = list < 0 ? list : m->rc;
	return add(m, "Reshape", suffix, 2, (int[]){v, list}, NULL);
}

/* Appends the labels of a part, and multiplies their extents; those of sums are in the order of the first
 * operand, all others in that of the output. */
static int64_t append(const struct einsum *e, int part, int *label, int *n)
{
	int64_t extent = 1;
	for (int l = 0; l < e->labels; l++)
		if (part_of(e, l) == part) {
			label[(*n)++] = l;
			extent *= e->size[l];
		}
	return extent;
}

/* Operand k as matrices of the extents d, with its labels in this order. Without a batch they have rank 2, as
 * weights have. */
static int matrices(struct making *m, int k, int v, const int *label, int n, const int64_t d[3])
{
	int64_t perm[MAX_RANK];
	for (int i = 0; i < n; i++)
		for (int axis = 0; axis < n; axis++)
			if (m->e->in[k].label[axis] == label[i])
				perm[i] = axis;
	return reshape(m, k ? "right" : "left", transpose(m, k ? "right_order" : "left_order", v, perm, n),
		       d + !m->batches, 2 + m->batches);
}

/* Puts the last node in the place of the Einsum: the product has its labels in this order. */
static int finish(struct making *m, int at, int product, const int *label)
{
	const struct einsum *e = m->e;
	int64_t d[MAX_RANK], perm[MAX_RANK];
	bool same = true;
	for (int i = 0; i < e->out; i++) {
		d[i] = e->size[label[i]];
		perm[label[i]] = i;
		same &= label[i] == i;
	}
	const struct attr order = {.name = "perm", .kind = ATTR_INTS, .n = e->out, .ints = perm};
	int v = reshape(m, "parts", product, d, e->out);
	return m->rc < 0 ? m->rc
			 : graph_replace_node(m->g, at, same ? "Identity" : "Transpose", m->name, OPSET, 1,
					      &v, !same, &order);
}

static int replace(struct graph *g, int at, const struct einsum *e)
{
	struct making m = {.g = g, .name = g->node[at].name, .e = e};
	int left[EINSUM_LABELS], right[EINSUM_LABELS], out[EINSUM_LABELS],
	    in[] = {g->node[at].in[0], g->node[at].in[1]};
	int nl = 0, nr = 0, no = 0;
	int64_t batch = append(e, BATCH, left, &nl), rows = append(e, ROWS, left, &nl),
		sums = append(e, SUMS, left, &nl);
	append(e, BATCH, right, &nr);
	m.batches = nr > 0;
	append(e, SUMS, right, &nr);
	int64_t columns = append(e, COLUMNS, right, &nr);
	append(e, BATCH, out, &no);
	append(e, ROWS, out, &no);
	append(e, COLUMNS, out, &no);
	int a = matrices(&m, 0, in[0], left, nl, (int64_t[]){batch, rows, sums});
	int b = matrices(&m, 1, in[1], right, nr, (int64_t[]){batch, sums, columns});
	int product = add(&m, "MatMul", "product", 2, (int[]){a, b}, NULL);
	return m.rc < 0 ? m.rc : finish(&m, at, product, out);
}

int pass_einsum(struct graph *g, struct arena *scratch)
{
	int n = g->nnodes, done = 0;
	for (int i = 0; i < n; i++) {
		struct einsum e;
		const struct node *node = &g->node[i];
		if (node->dead || strcmp(node_type(node), "Einsum") != 0 || node->nin != 2)
			continue;
		const struct tensor in[] = {g->value[node->in[0]].t, g->value[node->in[1]].t};
		int rc = einsum_read(node_str(node, "equation", ""), 2, in, &e);
		if (rc >= 0 && is_product(g, node, &e) && (rc = replace(g, i, &e)) >= 0)
			done++;
		if (rc < 0)
			return rc;
	}
	(void)scratch;
	return done;
}
