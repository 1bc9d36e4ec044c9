/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of launches, each of which one call starts (NVIDIA, CUDA Driver API, "Graph Management").
 * They are captured in a stream of their own: the device's stream keeps working when a capture fails. Other
 * threads of the process may use the driver meanwhile (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL). */
#include "platform/run/cuda_api.h"

#include <stdlib.h>
#include <string.h>

struct cuda_graph {
	struct cuda_dev *dev;
	int n;
	struct cuda_job **job;
	void *exec;
	unsigned moved; /* the device's count when the addresses of buffers were captured */
	bool started;
};

/* The calls below are made with the context current. */
static int instantiate(struct cuda_dev *d, void *graph, void **exec)
{
	const struct cuda_api *api = d->api;
	bool flags = api->cuGraphInstantiateWithFlags;
	int code = flags ? api->cuGraphInstantiateWithFlags(exec, graph, 0)
			 : api->cuGraphInstantiate(exec, graph, NULL, NULL, 0);
	return cuda_got(d, flags ? "cuGraphInstantiateWithFlags" : "cuGraphInstantiate", *exec != NULL, code);
}

/* A capture that began is ended in any case. */
static int capture(struct cuda_graph *g, void *stream, void **graph)
{
	struct cuda_dev *d = g->dev;
	int rc = cuda_done(d, "cuStreamBeginCapture_v2",
			   d->api->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	if (rc < 0)
		return rc;
	for (int i = 0; i < g->n && rc >= 0; i++)
		rc = cuda_launch_in(g->job[i], stream);
	if (d->lost)
		return rc;
	int code = d->api->cuStreamEndCapture(stream, graph);
	return rc < 0 ? rc : cuda_got(d, "cuStreamEndCapture", *graph != NULL, code);
}

static void end_exec(struct cuda_graph *g)
{
	struct cuda_dev *d = g->dev;
	if (g->exec && !d->lost)
		(void)cuda_done(d, "cuGraphExecDestroy", d->api->cuGraphExecDestroy(g->exec));
	g->exec = NULL;
}

static int make_exec(struct cuda_graph *g)
{
	struct cuda_dev *d = g->dev;
	void *stream = NULL, *graph = NULL;
	int code = d->api->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	int rc = cuda_got(d, "cuStreamCreate", stream != NULL, code);
	if (rc >= 0)
		rc = capture(g, stream, &graph);
	if (rc >= 0)
		rc = instantiate(d, graph, &g->exec);
	if (graph && !d->lost)
		(void)cuda_done(d, "cuGraphDestroy", d->api->cuGraphDestroy(graph));
	if (stream && !d->lost)
		(void)cuda_done(d, "cuStreamDestroy_v2", d->api->cuStreamDestroy_v2(stream));
	g->moved = d->moved;
	if (rc < 0)
		g->exec = NULL;
	return rc < 0 ? rc : d->lost ? fail(E_IO, "the CUDA device is lost (%s)", d->why) : E_OK;
}

static bool has_graphs(const struct cuda_api *a)
{
	return a->cuStreamBeginCapture_v2 && a->cuStreamEndCapture && a->cuGraphDestroy &&
	       a->cuGraphExecDestroy && a->cuGraphLaunch &&
	       (a->cuGraphInstantiateWithFlags || a->cuGraphInstantiate);
}

int cuda_graph_make(struct cuda_dev *d, struct cuda_job *const *job, int n, struct cuda_graph **out)
{
	if (!has_graphs(d->api))
		return fail(E_UNSUPPORTED, "the CUDA driver has no graphs");
	struct cuda_graph *g = calloc(1, sizeof *g);
	struct cuda_job **copy = calloc((size_t)n, sizeof *copy);
	if (!g || !copy) {
		free(g);
		free(copy);
		return fail(E_NOMEM, "no memory for a graph of %d launches", n);
	}
	memcpy(copy, job, sizeof *copy * (size_t)n);
	*g = (struct cuda_graph){.dev = d, .n = n, .job = copy};
	int rc = cuda_enter(d);
	if (rc >= 0) {
		rc = make_exec(g);
		cuda_exit(d);
	}
	if (rc < 0)
		cuda_graph_free(g);
	else
		*out = g;
	return rc;
}

/* A buffer that was moved has another address. Its graph may still run. */
static int make_again(struct cuda_graph *g)
{
	struct cuda_dev *d = g->dev;
	int rc = cuda_done(d, "cuStreamSynchronize", d->api->cuStreamSynchronize(d->stream));
	if (rc < 0)
		return rc;
	end_exec(g);
	return make_exec(g);
}

int cuda_graph_start(struct cuda_graph *g)
{
	struct cuda_dev *d = g->dev;
	int rc = cuda_enter(d);
	if (rc < 0)
		return rc;
	if (!g->exec || g->moved != d->moved)
		rc = make_again(g);
	if (rc >= 0)
		rc = cuda_done(d, "cuGraphLaunch", d->api->cuGraphLaunch(g->exec, d->stream));
	g->started |= rc >= 0;
	cuda_exit(d);
	return rc;
}

void cuda_graph_free(struct cuda_graph *g)
{
	if (!g)
		return;
	struct cuda_dev *d = g->dev;
	if (g->exec && !d->lost && cuda_enter(d) >= 0) {
		if (g->started) /* the run may have been given up */
			(void)cuda_done(d, "cuStreamSynchronize", d->api->cuStreamSynchronize(d->stream));
		end_exec(g);
		cuda_exit(d);
	}
	free(g->job);
	free(g);
}
