/* SPDX-License-Identifier: Apache-2.0 */
/* One operator call from text, without a model.
 *
 * attributes "axis=1 alpha=0.5f mode=reflect pads=[1,1] scales=[2f,2f] activations={Tanh,Relu}
 *            value=<i64 1 7>"
 * tensors    "2x3 1,2,3,4,5,6 | i64 2 0,1 | - | bool scalar 1": type (f32 where absent), shape, values (a
 *            shorter list repeats; none: 1, 2, 3, ...), constants; "?" in front: not a constant until eval;
 *            "-": absent */
#ifndef TESTS_OP_CALL_H
#define TESTS_OP_CALL_H

#include "kernels/graph/op.h"
#include "tests/lib/test.h"

enum { CALL_ATTRS = 12, CALL_TENSORS = 10 };

struct call {
	struct arena arena;
	struct node node;
	struct attr attr[CALL_ATTRS];
	struct tensor in[CALL_TENSORS], out[CALL_TENSORS];
	void *late[CALL_TENSORS]; /* data of inputs that infer does not see */
	int out_index[CALL_TENSORS];
	void *heap[2 * CALL_TENSORS]; /* memory of tensors at eval */
	struct opctx c;
};

static inline enum dtype call_dtype(const char *s)
{
	for (int t = DT_F32; t < DTYPES; t++)
		if (!strcmp(s, dtype_name((enum dtype)t)))
			return (enum dtype)t;
	return DT_NONE;
}

static inline bool call_tensor(struct arena *a, char *text, struct tensor *t)
{
	char *save = NULL, *word = strtok_r(text, " ", &save);
	enum dtype type = word ? call_dtype(word) : DT_NONE;
	struct shape s = {0};
	if (type)
		word = strtok_r(NULL, " ", &save);
	if (!word || (strcmp(word, "scalar") && shape_parse(word, &s) < 0) ||
	    tensor_alloc(a, type ? type : DT_F32, &s, t) < 0)
		return false;
	char *list = strtok_r(NULL, " ", &save), *end = list;
	for (int64_t i = 0; i < shape_count(&s); i++) {
		if (list && !*end)
			end = list;
		tensor_set(t, i, list ? strtod(end, &end) : (double)(i + 1));
		end += list && *end == ',';
	}
	return true;
}

static inline void call_list(struct arena *a, char *text, struct attr *at)
{
	bool floats = strchr(text, 'f') != NULL, strings = *text == '{';
	int64_t *ints = ARENA_ARRAY(a, int64_t, strlen(text));
	float *reals = ARENA_ARRAY(a, float, strlen(text));
	const char **names = ARENA_ARRAY(a, const char *, strlen(text));
	char *save = NULL;
	text[strlen(text) - 1] = 0;
	for (char *w = strtok_r(text + 1, ",", &save); w; w = strtok_r(NULL, ",", &save), at->n++) {
		names[at->n] = w;
		ints[at->n] = strings ? 0 : strtoll(w, NULL, 10);
		reals[at->n] = strings ? 0 : strtof(w, NULL);
	}
	at->kind = strings ? ATTR_STRINGS : floats ? ATTR_FLOATS : ATTR_INTS;
	at->ints = ints;
	at->floats = reals;
	at->strings = names;
}

static inline void call_attr(struct arena *a, char *word, struct attr *at)
{
	char *v = strchr(word, '='), *end;
	*v++ = 0;
	*at = (struct attr){.name = word};
	if (*v == '[' || *v == '{') {
		call_list(a, v, at);
	} else if (*v == '<') {
		at->kind = ATTR_TENSOR;
		v[strlen(v) - 1] = 0;
		for (char *p = v; *p; p++)
			*p = *p == '_' ? ' ' : *p;
		if (!call_tensor(a, v + 1, &at->t))
			abort();
	} else {
		double number = strtod(v, &end);
		at->kind = end == v ? ATTR_STRING : *end == 'f' ? ATTR_FLOAT : ATTR_INT;
		at->i = (int64_t)number;
		at->f = (float)number;
		at->s = v;
	}
}

/* Fills k; false: the text is not understood or the operator is unknown. */
static inline bool call_open(struct call *k, const char *type, int opset, const char *attrs, const char *in,
			     int nout)
{
	memset(k, 0, sizeof *k);
	k->node.name = "test";
	k->node.opset = opset;
	k->node.op = op_find(type, opset, &k->node.row);
	if (!k->node.op)
		return false;
	char *save = NULL, *copy = arena_strdup(&k->arena, attrs);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		call_attr(&k->arena, w, &k->attr[k->node.nattr++]);
	k->node.attr = k->attr;
	int n = 0;
	save = NULL;
	copy = arena_strdup(&k->arena, in);
	for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save), n++) {
		bool late = strchr(w, '?') != NULL;
		w += strspn(w, " ?");
		if (*w != '-' && !call_tensor(&k->arena, w, &k->in[n]))
			return false;
		if (late) {
			k->late[n] = k->in[n].data;
			k->in[n].data = NULL;
		}
	}
	for (int i = 0; i < nout; i++)
		k->out_index[i] = i;
	k->node.out = k->out_index;
	k->node.nin = n;
	k->node.nout = nout;
	k->c = (struct opctx){&k->node, k->node.op->rows[k->node.row].code, opset, &k->arena, n, nout, k->in,
			      k->out};
	return true;
}

static inline int call_infer(struct call *k)
{
	return k->node.op->infer(&k->c);
}

/* Moves data to memory of exactly its size, so that a sanitizer sees each access outside it. */
static inline void call_fence(struct tensor *t, void **heap)
{
	if (!t->dtype || !t->data)
		return;
	size_t n = (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
	*heap = malloc(n ? n : 1);
	if (!*heap)
		abort();
	memcpy(*heap, t->data, n);
	t->data = *heap;
}

static inline int call_eval(struct call *k)
{
	for (int i = 0; i < k->c.nin; i++)
		if (k->late[i])
			k->in[i].data = k->late[i];
	for (int i = 0; i < k->c.nout; i++) {
		struct shape s = k->out[i].shape;
		int rc = tensor_alloc(&k->arena, k->out[i].dtype, &s, &k->out[i]);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; i < CALL_TENSORS; i++) {
		call_fence(&k->in[i], &k->heap[i]);
		call_fence(&k->out[i], &k->heap[CALL_TENSORS + i]);
	}
	return k->node.op->eval(&k->c);
}

static inline void call_close(struct call *k)
{
	for (int i = 0; i < 2 * CALL_TENSORS; i++)
		free(k->heap[i]);
	arena_free(&k->arena);
}

#endif
