/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the CUDA driver that lies. */
#include "tests/lib/fake_cuda_parts.h"

struct graph { /* also one that can be launched */
	struct launch *first, **last;
	bool exec;
};

int cuStreamBeginCapture_v2(void *stream, int mode)
{
	BEGIN(CURRENT);
	struct stream *s = stream_of(stream);
	if (!s || s->captures || s->first || mode < 0 || mode > 2)
		return end(CUDA_ERROR_INVALID_VALUE);
	s->captures = true;
	s->invalid = mode == 0 && lies("busy-threads");
	capturing = s;
	return end(CUDA_SUCCESS);
}

static struct graph *take_launches(struct stream *s)
{
	struct graph *g = calloc(1, sizeof *g);
	g->first = s->first;
	g->last = s->first ? s->last : &g->first;
	s->first = NULL;
	s->last = &s->first;
	return g;
}

int cuStreamEndCapture(void *stream, void **graph)
{
	BEGIN(CURRENT);
	struct stream *s = stream_of(stream);
	*graph = NULL;
	if (!s || !s->captures || s != capturing)
		return end(CUDA_ERROR_INVALID_VALUE);
	struct graph *g = take_launches(s);
	bool bad = s->invalid;
	capturing = NULL;
	s->captures = s->invalid = false;
	*graph = bad ? NULL : made(__func__, g);
	if (!*graph) {
		free_launches(g->first);
		free(g);
	}
	return end(bad ? CAPTURE_INVALIDATED : CUDA_SUCCESS);
}

/* Copies of the launches, behind *last. */
static struct launch **copy_launches(const struct launch *l, struct launch **last, bool count)
{
	for (; l; l = l->next) {
		struct launch *c = malloc(sizeof *c);
		*c = *l;
		c->number = count ? ++fake_cuda_launches : 0;
		c->next = NULL;
		*last = c;
		last = &c->next;
	}
	return last;
}

static int instantiate(const char *call, void **exec, const void *graph)
{
	const struct graph *g = graph;
	if (!g || g->exec)
		return CUDA_ERROR_INVALID_VALUE;
	struct graph *x = calloc(1, sizeof *x);
	x->last = copy_launches(g->first, &x->first, false);
	x->exec = true;
	*exec = made(call, x);
	fake_cuda_graphs += *exec != NULL;
	if (!*exec) {
		free_launches(x->first);
		free(x);
	}
	return CUDA_SUCCESS;
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	BEGIN(UNSAFE);
	return end(flags ? CUDA_ERROR_INVALID_VALUE : instantiate(__func__, exec, graph));
}

int cuGraphInstantiate(void **exec, void *graph, void **bad_node, char *log, size_t room)
{
	BEGIN(UNSAFE);
	(void)bad_node, (void)log, (void)room;
	return end(instantiate(__func__, exec, graph));
}

static int destroy(void *graph, bool exec)
{
	struct graph *g = graph;
	if (!g || g->exec != exec)
		return CUDA_ERROR_INVALID_VALUE;
	free_launches(g->first);
	free(g);
	return CUDA_SUCCESS;
}

int cuGraphDestroy(void *graph)
{
	BEGIN(CURRENT);
	return end(destroy(graph, false));
}

int cuGraphExecDestroy(void *exec)
{
	BEGIN(CURRENT);
	fake_cuda_graphs--;
	return end(destroy(exec, true));
}

int cuGraphLaunch(void *exec, void *stream)
{
	BEGIN(CURRENT);
	const struct graph *x = exec;
	struct stream *s = ready_stream(stream, &code);
	if (!s || !x || !x->exec)
		return end(s ? CUDA_ERROR_INVALID_VALUE : code);
	fake_cuda_graph_starts++;
	s->last = copy_launches(x->first, s->last, true);
	return end(CUDA_SUCCESS);
}
