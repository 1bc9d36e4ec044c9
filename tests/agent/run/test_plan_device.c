/* SPDX-License-Identifier: Apache-2.0 */
/* Plans on an OpenCL device: random networks whose steps run there or on the processor, as chance decides,
 * give what they give without the device. SEED=n makes one network, SEEDS=n changes their number. Past 800
 * lines because every case builds its plan on the one device that fails as it is told. */
#include "agent/run/plan_device.h"
#include "agent/run/plan_parts.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/onnx_make.h"
#include "tests/lib/opencl_code.h"
#include "tests/lib/opencl_device.h"
#include "tests/lib/pad_net.h"

static struct target target; /* of the device */
static struct plan_device_watch watch;

/* The device, opened once. NULL: there is none. */
static struct plan_device *device(const char **why)
{
	static struct plan_device *d;
	if (!opencl_device(why) || d)
		return d;
	if (plan_device_open("opencl:0", &d) < 0)
		*why = err_text();
	else
		plan_device_target(d, &target);
	return d;
}

/* ---- devices that map memory otherwise ---- */

enum maps {
	MAPS_AS_IS,     /* the device's own driver */
	MAPS_ELSEWHERE, /* at another address each time, and the rest of the memory is not there */
	MAPS_CROOKED,   /* at an address that is not aligned */
	MAPS_NOT,       /* refuses */
	MAPS
};

static const struct dev_own *true_own;
static enum maps how;
static int maps_left; /* until it refuses */
static struct {
	char *block;             /* NULL: nothing is mapped */
	int64_t at, bytes, room; /* room: of the block */
	int shift;
} mapped;
static bool wrote_beside;

/* Whether what lies around the mapped part, which the plan must leave alone, is as it was. */
static bool is_intact(void)
{
	int64_t begin = mapped.shift + mapped.at, end = begin + mapped.bytes;
	for (int64_t i = 0; i < mapped.room; i++)
		if ((i < begin || i >= end) && mapped.block[i] != (char)0xff)
			return false;
	return true;
}

static int odd_map(struct dev_mem *m, int64_t at, int64_t bytes, void **out)
{
	static char *last;
	if (how == MAPS_NOT || maps_left-- <= 0)
		return fail(E_IO, "no map");
	CHECK(!mapped.block && at >= 0 && bytes > 0);
	mapped.at = at;
	mapped.bytes = bytes;
	mapped.shift = how == MAPS_CROOKED ? 4 : 0;
	mapped.room = (at + bytes + 191) / 64 * 64;
	mapped.block = aligned_alloc(64, (size_t)mapped.room);
	memset(mapped.block, 0xff, (size_t)mapped.room);
	free(last); /* not before, so that no address comes twice in turn */
	last = mapped.block;
	*out = mapped.block + mapped.shift + at;
	return true_own->read(m, at, *out, bytes);
}

static int odd_unmap(struct dev_mem *m)
{
	CHECK(mapped.block);
	if (!mapped.block)
		return E_OK;
	wrote_beside |= !is_intact();
	char *p = mapped.block + mapped.shift + mapped.at;
	int rc = true_own->write(m, mapped.at, p, mapped.bytes);
	memset(p, 0xff, (size_t)mapped.bytes);
	mapped.block = NULL;
	return rc;
}

/* Graphs of launches, each of which is refused after some starts, or when it is recorded. */
enum { GRAPHS = 200, LONGEST = 100 };
static struct launch_graph {
	int n, starts_left;
	struct dev_launch *launch[LONGEST];
} graphs[GRAPHS];
static struct rng odds;
static int recorded, started, refused;

static struct launch_graph *graph_of(const struct dev_launch *l)
{
	for (int i = 0; i < GRAPHS; i++)
		if ((const void *)l == &graphs[i])
			return &graphs[i];
	return NULL;
}

static int odd_record(struct dev_unit *u, struct dev_launch *const *l, int n, struct dev_launch **out)
{
	int i = 0;
	(void)u;
	while (i < GRAPHS && graphs[i].n)
		i++;
	CHECK(n > 1);
	if (rng_below(&odds, 8) == 0 || i == GRAPHS || n > LONGEST) {
		refused++;
		return fail(E_NOMEM, "no graph");
	}
	graphs[i] =
	    (struct launch_graph){n, rng_below(&odds, 3) ? INT_MAX : (int)rng_below(&odds, 4), {NULL}};
	memcpy(graphs[i].launch, l, sizeof *l * (size_t)n);
	*out = (struct dev_launch *)&graphs[i];
	recorded++;
	return E_OK;
}

static int odd_start(struct dev_launch *l)
{
	struct launch_graph *s = graph_of(l);
	int rc = E_OK;
	CHECK(!mapped.block);
	if (!s)
		return true_own->start(l);
	CHECK(s->n);
	if (s->starts_left-- == 0) {
		refused++;
		return fail(E_IO, "the graph does not start");
	}
	started++;
	for (int i = 0; i < s->n && rc >= 0; i++)
		rc = true_own->start(s->launch[i]);
	return rc;
}

/* Launches outlive their graphs. */
static void odd_drop(struct dev_launch *l)
{
	struct launch_graph *s = graph_of(l);
	if (s) {
		s->n = 0;
		return;
	}
	for (int i = 0; i < GRAPHS; i++)
		for (int k = 0; k < graphs[i].n; k++)
			CHECK(graphs[i].launch[k] != l);
	true_own->drop(l);
}

static void odd_free(struct dev_mem *m)
{
	mapped.block = NULL;
	true_own->free(m);
}

/* The same device for each way to map; NULL: there is none. */
static struct plan_device *device_that(enum maps m, const char **why)
{
	static struct dev dev;
	static struct dev_own own;
	static struct plan_device *d;
	struct plan_device *as_is = device(why);
	how = m;
	maps_left = INT32_MAX;
	if (m == MAPS_AS_IS || !as_is)
		return as_is;
	if (!d) {
		dev = *dev_find("opencl");
		true_own = dev.own;
		own = *true_own;
		own.map = odd_map;
		own.unmap = odd_unmap;
		own.start = odd_start;
		own.drop = odd_drop;
		own.record = odd_record;
		own.free = odd_free;
		dev.own = &own;
		CHECK_OK(plan_device_open_as(&dev, "opencl:0", &d));
	}
	return d;
}

static bool copies_tensors(enum maps m)
{
	return m == MAPS_CROOKED || m == MAPS_NOT;
}

/* Makes code for the device of `percent` of the tasks, or of those that the mask says, in the order in which
 * it is asked. */
struct maker {
	struct rng rng;
	const char *key; /* of all schedules; NULL: drawn */
	uint32_t percent;
	unsigned mask;
	int asked, made, spread, textures; /* made of parts that are work items, with textures */
};

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct maker *m = ctx;
	(void)text;
	bool chosen = m->mask >> m->asked++ & 1;
	if (!chosen && !(m->percent && rng_below(&m->rng, 100) < m->percent))
		return E_NOTFOUND;
	*origin = FROM_DEFAULT;
	char cand[CAND_MAX];
	static const char *const key[] = {NULL, "spread=", "texture=1", "spread="};
	int rc = opencl_code_with(t, &target, a, m->key ? m->key : key[rng_below(&m->rng, 4)], cand, out);
	m->spread += rc >= 0 && out->m.shares_scratch;
	m->textures += rc >= 0 && strstr(cand, "texture=1");
	if (rc < 0)
		printf("no code: %s\n", err_text());
	m->made += rc >= 0;
	return rc < 0 ? E_NOTFOUND : E_OK;
}

/* ---- random networks ---- */

enum { MOST_NODES = 24, MOST_MAPS = 40 };

struct map { /* a value [1][c][h][w] */
	char name[8];
	int c, h, w;
};

struct net {
	struct onnx_maker k;
	struct rng rng;
	struct map map[MOST_MAPS];
	int nmaps, nread[MOST_MAPS];
};

static int pick(struct net *n)
{
	int i = n->nmaps - 1 - (int)rng_below(&n->rng, 3);
	i = i < 0 ? 0 : i;
	n->nread[i]++;
	return i;
}

static struct map *fresh(struct net *n, int c, int h, int w)
{
	struct map *m = &n->map[n->nmaps];
	*m = (struct map){.c = c, .h = h, .w = w};
	snprintf(m->name, sizeof m->name, "v%d", n->nmaps++);
	return m;
}

static void weights(struct net *n, const char *name, const char *dims, int count)
{
	float *v = ARENA_ARRAY(&n->k.a, float, count);
	rng_fill(&n->rng, v, (size_t)count);
	for (int i = 0; i < count; i++)
		v[i] /= 4;
	mk_init(&n->k, name, 1, dims, v, (size_t)count * sizeof *v);
}

static const char *text(struct net *n, const char *a, const char *b, const char *c)
{
	return arena_printf(&n->k.a, "%s %s %s", a, b, c);
}

static void add_conv(struct net *n, const struct map *x)
{
	static const int channels[] = {3, 4, 8, 12};
	int k = channels[rng_below(&n->rng, 4)], r = rng_below(&n->rng, 2) ? 3 : 1;
	struct map *y = fresh(n, k, x->h, x->w);
	const char *w = arena_printf(&n->k.a, "W%s", y->name), *b = arena_printf(&n->k.a, "B%s", y->name);
	weights(n, w, arena_printf(&n->k.a, "%d %d %d %d", k, x->c, r, r), k * x->c * r * r);
	weights(n, b, arena_printf(&n->k.a, "%d", k), k);
	Onnx__NodeProto *node = mk_node(&n->k, "Conv", text(n, x->name, w, b), y->name);
	static const int64_t one[] = {1, 1, 1, 1}, none[] = {0, 0, 0, 0};
	mk_attr_ints(&n->k, node, "pads", 4, r == 3 ? one : none);
}

/* Maps of one image size are joined, and one of even channels is cut. */
static void add_concat(struct net *n, const struct map *x)
{
	int j = pick(n);
	const struct map *z = &n->map[j];
	if (z->h != x->h || z->w != x->w || x->c + z->c > 40)
		z = x;
	struct map *y = fresh(n, x->c + z->c, x->h, x->w);
	mk_attr_int(&n->k, mk_node(&n->k, "Concat", text(n, x->name, z->name, ""), y->name), "axis", 1);
}

static void add_split(struct net *n, const struct map *x)
{
	struct map *y = fresh(n, x->c / 2, x->h, x->w), *z = fresh(n, x->c / 2, x->h, x->w);
	mk_attr_int(&n->k, mk_node(&n->k, "Split", x->name, text(n, y->name, z->name, "")), "axis", 1);
}

static void add_view(struct net *n, const struct map *x)
{
	int c = x->c % 2 ? x->c : x->c / 2, h = x->c % 2 ? x->w : x->h, w = x->c % 2 ? x->h : 2 * x->w;
	struct map *y = fresh(n, c, h, w);
	const int64_t dims[] = {1, c, h, w};
	const char *s = arena_printf(&n->k.a, "S%s", y->name);
	mk_init(&n->k, s, 7, "4", dims, sizeof dims);
	mk_node(&n->k, "Reshape", text(n, x->name, s, ""), y->name);
}

/* A node without a task. */
static void add_host(struct net *n, const struct map *x)
{
	static const int32_t axis = 1;
	struct map *y = fresh(n, x->c, x->h, x->w);
	const char *s = arena_printf(&n->k.a, "A%s", y->name);
	mk_init(&n->k, s, 6, "", &axis, sizeof axis);
	mk_node(&n->k, "CumSum", text(n, x->name, s, ""), y->name);
}

static void add_unary(struct net *n, const struct map *x)
{
	static const char *const types[] = {"Relu", "Sigmoid", "Neg", "Tanh"};
	struct map *y = fresh(n, x->c, x->h, x->w);
	mk_node(&n->k, types[rng_below(&n->rng, 4)], x->name, y->name);
}

static void add_sum(struct net *n, const struct map *x)
{
	const struct map *z = &n->map[pick(n)];
	if (z->c != x->c || z->h != x->h || z->w != x->w)
		z = x;
	struct map *y = fresh(n, x->c, x->h, x->w);
	mk_node(&n->k, rng_below(&n->rng, 2) ? "Add" : "Mul", text(n, x->name, z->name, ""), y->name);
}

static void add_pool(struct net *n, const struct map *x)
{
	static const int64_t two[] = {2, 2};
	struct map *y = fresh(n, x->c, (x->h - 2) / 2 + 1, (x->w - 2) / 2 + 1);
	Onnx__NodeProto *node = mk_node(&n->k, "MaxPool", x->name, y->name);
	mk_attr_ints(&n->k, node, "kernel_shape", 2, two);
	mk_attr_ints(&n->k, node, "strides", 2, two);
}

static void add_node(struct net *n)
{
	struct map x = n->map[pick(n)];
	switch (rng_below(&n->rng, 12)) {
	case 0:
	case 1:
	case 2:
		add_conv(n, &x);
		break;
	case 3:
	case 4:
		add_concat(n, &x);
		break;
	case 5:
	case 6:
		(x.c % 2 ? add_unary : add_split)(n, &x);
		break;
	case 7:
		add_view(n, &x);
		break;
	case 8:
		add_host(n, &x);
		break;
	case 9:
		add_unary(n, &x);
		break;
	case 10:
		add_sum(n, &x);
		break;
	default:
		(x.h < 4 || x.w < 4 ? add_conv : add_pool)(n, &x);
	}
}

/* What nothing reads is an output, and so is another value now and then. */
static int random_net(struct net *n, uint64_t seed, struct graph **g)
{
	const struct import_opts none = {0};
	memset(n, 0, sizeof *n);
	rng_seed(&n->rng, seed);
	mk_start(&n->k, 13, 3 * MOST_NODES);
	int inputs = 1 + (int)rng_below(&n->rng, 2), nodes = 4 + (int)rng_below(&n->rng, 9);
	for (int i = 0; i < inputs; i++) {
		struct map *m = fresh(n, i ? 8 : 4, 9, 8);
		mk_input(&n->k, m->name, 1, arena_printf(&n->k.a, "1 %d %d %d", m->c, m->h, m->w));
	}
	for (int i = 0; i < nodes; i++)
		add_node(n);
	for (int i = inputs; i < n->nmaps; i++)
		if (!n->nread[i] || !rng_below(&n->rng, 8))
			mk_output(&n->k, n->map[i].name);
	int rc = mk_import(&n->k, ".", &none, g);
	return rc < 0 ? rc : graph_optimize(*g);
}

/* ---- comparing ---- */

struct data {
	struct arena a;
	struct tensor *in, *out, *want;
};

static struct tensor *tensors(struct arena *a, const struct graph *g, const int *value, int n)
{
	struct tensor *t = ARENA_ARRAY(a, struct tensor, n + 1);
	for (int i = 0; i < n; i++)
		CHECK_OK(tensor_alloc(a, g->value[value[i]].t.dtype, &g->value[value[i]].t.shape, &t[i]));
	return t;
}

static void open_data(struct data *d, const struct graph *g)
{
	*d = (struct data){.a = {0}};
	d->in = tensors(&d->a, g, g->input, g->ninputs);
	d->out = tensors(&d->a, g, g->output, g->noutputs);
	d->want = tensors(&d->a, g, g->output, g->noutputs);
}

static void fill(const struct graph *g, struct tensor *in, struct rng *r)
{
	for (int i = 0; i < g->ninputs; i++)
		rng_fill(r, in[i].data, (size_t)shape_count(&in[i].shape));
}

static bool near(const struct tensor *got, const struct tensor *want)
{
	double diff = 1, most = 0;
	return tensor_compare(got, want, &diff, &most) >= 0 && diff <= 1e-5 * most + 1e-6;
}

/* Three runs on other inputs each, the last one timed. */
static bool same(struct plan *p, struct plan *on_cpu, const struct graph *g, struct data *d, struct rng *r)
{
	bool good = true;
	for (int run = 0; run < 3 && good; run++) {
		fill(g, d->in, r);
		good = plan_run(on_cpu, d->in, d->want) >= 0 &&
		       plan_run_timed(p, d->in, d->out, run == 2 ? &clock_real : NULL) >= 0;
		for (int i = 0; i < g->noutputs && good; i++)
			good = near(&d->out[i], &d->want[i]);
	}
	return good;
}

/* Two runs whose inputs and outputs are the plan's own tensors, as far as these are plain. Returns how many
 * are; < 0: an answer is wrong. */
static int same_in_place(struct plan *p, struct plan *on_cpu, const struct graph *g, struct data *d,
			 struct rng *r)
{
	int n = 0;
	struct tensor *in = tensors(&d->a, g, g->input, g->ninputs),
		      *out = tensors(&d->a, g, g->output, g->noutputs);
	for (int run = 0; run < 2; run++) {
		fill(g, d->in, r);
		for (int i = 0; i < g->ninputs; i++) {
			void *at = plan_in_place(p, false, i);
			in[i].data = at ? memcpy(at, d->in[i].data, (size_t)shape_count(&in[i].shape) * 4)
					: d->in[i].data;
			n += at != NULL;
		}
		for (int i = 0; i < g->noutputs; i++) {
			void *at = plan_in_place(p, true, i);
			out[i].data = at ? at : d->out[i].data;
			n += at != NULL;
		}
		if (plan_run(on_cpu, d->in, d->want) < 0 || plan_run(p, in, out) < 0)
			return -1;
		for (int i = 0; i < g->ninputs; i++) { /* outputs stay while the next inputs are written */
			void *at = plan_in_place(p, false, i);
			if (at)
				memset(at, 0x55, (size_t)shape_count(&in[i].shape) * 4);
		}
		for (int i = 0; i < g->noutputs; i++) {
			void *at = plan_in_place(p, true, i);
			out[i].data = at ? at : d->out[i].data;
			if (!near(&out[i], &d->want[i]))
				return -1;
		}
	}
	return n;
}

/* All values of two kept plans. Where a kernel fuses steps, a value may be missing in either. */
static int values_same(struct plan *p, struct plan *on_cpu, const struct steps *s)
{
	struct arena a = {0};
	struct tensor x, y;
	int compared = 0, bad = 0;
	for (int v = 0; v < s->nvalues && !bad; v++) {
		if (s->value[v].constant || plan_value(p, v, &a, &x) < 0 || plan_value(on_cpu, v, &a, &y) < 0)
			continue;
		compared++;
		bad = !near(&x, &y);
	}
	arena_free(&a);
	return bad ? -1 : compared;
}

static int far_steps(const struct plan *p)
{
	int n = 0;
	for (int i = 0; i < p->nsteps; i++)
		n += p->step[i].far;
	return n;
}

struct totals {
	int nets, steps, far, host, parts, aliases, copies, maps, placed, values, spread, textures;
};

static void count(struct totals *t, const struct plan *p, int values)
{
	t->nets++;
	for (int i = 0; i < p->nsteps; i++) {
		t->host += p->step[i].step->kind == STEP_HOST && !p->step[i].part;
		t->parts += p->step[i].part != NULL;
		t->aliases += p->step[i].step->kind == STEP_ALIAS;
	}
	t->steps += p->nsteps;
	t->far += far_steps(p);
	t->copies += plan_device_use(p).copies;
	t->maps += plan_device_use(p).maps;
	t->values += values;
}

/* A device that shares memory copies nothing. */
static bool right_use(const struct plan *p, enum maps m)
{
	struct plan_device_use u = plan_device_use(p);
	return u.steps == far_steps(p) && (copies_tensors(m) ? !u.maps
							     : !u.copies && !u.to_bytes && !u.from_bytes &&
								   (u.maps > 0) == (u.steps > 0));
}

static void check_net(uint64_t seed, struct plan_device *d, struct pool *pool, struct totals *total)
{
	static const uint32_t percents[] = {0, 20, 50, 80, 100};
	struct net n;
	struct graph *g;
	struct steps *s;
	struct arena a = {0};
	struct data data;
	struct plan *p, *q;
	struct rng r;
	rng_seed(&r, seed);
	REQUIRE_OK(random_net(&n, seed, &g));
	REQUIRE_OK(graph_steps(g, &target, NULL, &a, &s));
	struct maker m = {.percent = percents[seed % 5]};
	rng_seed(&m.rng, seed + 1);
	const struct kernel_source src = {.ctx = &m, .find = find, .device = d};
	bool kept = seed % 2;
	open_data(&data, g);
	REQUIRE_OK((kept ? plan_build_kept : plan_build)(g, s, &target, NULL, pool, &q));
	REQUIRE_OK((kept ? plan_build_kept : plan_build)(g, s, &target, &src, pool, &p));
	CHECK(far_steps(p) == m.made && right_use(p, how));
	bool good = same(p, q, g, &data, &r);
	int values = good && kept ? values_same(p, q, s) : 0, placed = same_in_place(p, q, g, &data, &r);
	if (!good || values < 0 || placed < 0)
		printf("seed %llu: %s\n", (unsigned long long)seed, good ? "a value differs" : err_text());
	CHECK(good && values >= 0 && placed >= 0 && !wrote_beside);
	total->placed += placed;
	count(total, p, values);
	total->spread += m.spread;
	total->textures += m.textures;
	plan_free(p);
	plan_free(q);
	arena_free(&data.a);
	graph_free(g);
	arena_free(&a);
	arena_free(&n.k.a);
}

TEST(networks_that_run_on_both)
{
	const char *why;
	struct plan_device *d = device(&why);
	struct totals t = {0};
	struct pool *pool;
	uint64_t first, n = device_seeds(40, &first);
	if (!d)
		SKIP(why);
	REQUIRE_OK(pool_open(&pool, 2, NULL));
	rng_seed(&odds, first);
	for (uint64_t i = 0; i < n && !test_bad; i++)
		check_net(first + i, device_that((first + i) / 5 % MAPS, &why), i % 3 ? NULL : pool, &t);
	pool_close(pool);
	printf("%d networks: %d steps, %d on the device, %d of them in two launches, %d with textures, %d "
	       "nodes, "
	       "%d of parts, %d views, %d copies, %d maps, %d in place, %d values\n",
	       t.nets, t.steps, t.far, t.spread, t.textures, t.host, t.parts, t.aliases, t.copies, t.maps,
	       t.placed, t.values);
	printf("%d graphs of launches, %d starts of them, %d refused\n", recorded, started, refused);
	CHECK(test_bad || n < 40 || (recorded > 10 && started > recorded && refused > 3));
	CHECK(test_bad || n < 40 ||
	      (t.far > t.steps / 4 && t.host > 10 && t.parts > 10 && t.aliases > 10 && t.copies > t.nets &&
	       t.maps > t.nets / 2 && t.placed > t.nets && t.values > 100 && t.spread > 10 &&
	       (t.textures > 10 || !target_textures(&target))));
}

/* Constants around images, other than 0, that later nodes read in other ways. */
TEST(networks_with_pads)
{
	const char *why;
	struct plan_device *d = device(&why);
	if (!d)
		SKIP(why);
	uint64_t first, n = device_seeds(30, &first);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct arena a = {0};
		struct tensor in, out, want;
		struct steps *s;
		struct plan *p = NULL;
		struct maker m = {.percent = seed % 2 ? 100 : 50};
		const struct kernel_source src = {.ctx = &m, .find = find, .device = d};
		struct graph *g = pad_net(seed, DT_F32, &in);
		rng_seed(&m.rng, seed);
		pad_answer(seed, DT_F32, &a, &want);
		CHECK_OK(graph_optimize(g));
		CHECK_OK(graph_steps(g, &target, NULL, &a, &s));
		CHECK_OK(tensor_alloc(&a, DT_F32, &want.shape, &out));
		CHECK_OK(plan_build(g, s, &target, &src, NULL, &p));
		for (int run = 0; run < 2 && p; run++)
			CHECK_OK(plan_run(p, &in, &out));
		CHECK(pad_near(&out, &want));
		if (test_bad)
			printf("seed %d\n", (int)seed);
		plan_free(p);
		graph_free(g);
		arena_free(&a);
	}
}

/* ---- counts, of networks made by hand ---- */

/* A line of text per node: type, inputs, outputs. Inputs x and z are [1,8,8,8], and weights [8,8,1,1] too. */
struct by_hand {
	const char *node[8][3];
	const char *outputs;
	unsigned mask; /* of the tasks that run on the device */
	int steps, maps, copies;
	int there, back; /* of the copies, in tensors of 8 x 8 x 8 floats */
};

static const struct by_hand hands[] = {
    /* all there: one copy per input and output */
    {{{"Conv", "x W", "a"}, {"MaxPool", "a", "b"}, {"Conv", "b W", "c"}}, "c", 7, 3, 1, 2, 1, 1},
    {{{"Conv", "x W", "a"}, {"Conv", "z W", "b"}, {"MaxPool", "a", "c"}, {"MaxPool", "b", "d"}},
     "c d",
     15,
     4,
     1,
     4,
     2,
     2},
    /* nothing there */
    {{{"Conv", "x W", "a"}, {"MaxPool", "a", "b"}}, "b", 0, 0, 0, 0, 0, 0},
    /* the processor works in between */
    {{{"Conv", "x W", "a"}, {"CumSum", "a A", "b"}, {"Conv", "b W", "c"}}, "c", 3, 2, 2, 4, 2, 2},
    {{{"Conv", "x W", "a"}, {"MaxPool", "a", "b"}, {"Conv", "b W", "c"}}, "c", 5, 2, 2, 4, 2, 2},
    {{{"Conv", "x W", "a"}, {"MaxPool", "a", "b"}, {"Conv", "b W", "c"}}, "c", 2, 1, 1, 2, 1, 1},
    /* both sides read a value, and it crosses once */
    {{{"Conv", "x W", "a"}, {"CumSum", "a A", "b"}, {"CumSum", "a A", "c"}, {"Conv", "a W", "d"}},
     "b c d",
     3,
     2,
     2,
     3,
     1,
     2},
    /* an output that the device reads, too */
    {{{"Conv", "x W", "a"}, {"MaxPool", "a", "b"}}, "a b", 3, 2, 1, 3, 1, 2},
    /* a view moves nothing */
    {{{"Conv", "x W", "a"}, {"Reshape", "a S", "b"}, {"Conv", "b W", "c"}}, "c", 3, 2, 1, 2, 1, 1},
    /* a view is the value that it looks at */
    {{{"Conv", "x W", "a"}, {"Reshape", "a S", "b"}, {"CumSum", "b A", "c"}}, "c", 1, 1, 1, 2, 1, 1},
};

static int make_by_hand(const struct by_hand *h, struct onnx_maker *k, struct graph **g)
{
	static const int64_t one[] = {1, 1, 1, 1}, three[] = {3, 3}, shape[] = {1, 8, 8, 8};
	static const int32_t axis = 1;
	static float w[64];
	const struct import_opts none = {0};
	char copy[16], *save = NULL;
	for (int i = 0; i < 64; i++)
		w[i] = (float)(i % 7 - 3) / 8;
	mk_start(k, 13, 16);
	mk_input(k, "x", 1, "1 8 8 8");
	for (int i = 0; h->node[i][0]; i++)
		if (strstr(h->node[i][1], "z"))
			mk_input(k, "z", 1, "1 8 8 8");
	mk_init(k, "W", 1, "8 8 1 1", w, sizeof w);
	mk_init(k, "A", 6, "", &axis, sizeof axis);
	mk_init(k, "S", 7, "4", shape, sizeof shape);
	for (int i = 0; i < 8 && h->node[i][0]; i++) {
		Onnx__NodeProto *n = mk_node(k, h->node[i][0], h->node[i][1], h->node[i][2]);
		if (strcmp(h->node[i][0], "MaxPool"))
			continue;
		mk_attr_ints(k, n, "kernel_shape", 2, three);
		mk_attr_ints(k, n, "pads", 4, one);
	}
	snprintf(copy, sizeof copy, "%s", h->outputs);
	for (char *y = strtok_r(copy, " ", &save); y; y = strtok_r(NULL, " ", &save))
		mk_output(k, y);
	int rc = mk_import(k, ".", &none, g);
	return rc < 0 ? rc : graph_optimize(*g);
}

static int64_t looks;

/* A run looks at its clock once behind each step. */
static int64_t count_looks(struct clock *c)
{
	(void)c;
	return ++looks;
}

/* From now on runs end behind that many more steps. */
static void end_after(struct plan *p, int steps)
{
	static struct clock counting = {.now = count_looks};
	looks = 0;
	plan_deadline(p, &counting, steps);
}

static void check_by_hand(const struct by_hand *h, struct plan_device *d)
{
	enum { BYTES = 8 * 8 * 8 * 4, WITH_HALO = 8 * 10 * 10 * 4 };
	struct onnx_maker k;
	struct graph *g;
	struct steps *s;
	struct arena a = {0};
	struct data data;
	struct plan *p, *q;
	struct rng r;
	rng_seed(&r, 1);
	REQUIRE_OK(make_by_hand(h, &k, &g));
	REQUIRE_OK(graph_steps(g, &target, NULL, &a, &s));
	struct maker m = {.mask = h->mask};
	const struct kernel_source src = {.ctx = &m, .find = find, .device = d};
	open_data(&data, g);
	REQUIRE_OK(plan_build(g, s, &target, NULL, NULL, &q));
	REQUIRE_OK(plan_build(g, s, &target, &src, NULL, &p));
	struct plan_device_use u = plan_device_use(p);
	bool copied = copies_tensors(how);
	CHECK(u.steps == h->steps && u.launches >= h->steps && u.copies == (copied ? h->copies : 0) &&
	      u.maps == (copied ? 0 : h->maps));
	CHECK(u.to_bytes >= copied * h->there * BYTES && u.to_bytes <= copied * h->there * WITH_HALO);
	CHECK(u.from_bytes >= copied * h->back * BYTES && u.from_bytes <= copied * h->back * WITH_HALO);
	CHECK(u.held_bytes >= (int64_t)plan_bytes(p) && plan_device_use(q).steps == 0);
	CHECK(same(p, q, g, &data, &r));
	for (int steps = 0; steps < p->nsteps && !test_bad; steps++) {
		end_after(p, steps);
		CHECK_FAILS(plan_run(p, data.in, data.out), E_TIMEOUT, "did not end in time");
		end_after(p, INT32_MAX);
		CHECK(same(p, q, g, &data, &r));
	}
	CHECK(!watch.failed && !watch.since_ns && !wrote_beside);
	if (test_bad)
		printf(
		    "case %d, maps %d: %d steps, %d launches, %d maps, %d copies, %lld and %lld bytes: %s\n",
		    (int)(h - hands), (int)how, u.steps, u.launches, u.maps, u.copies, (long long)u.to_bytes,
		    (long long)u.from_bytes, err_text());
	plan_free(p);
	plan_free(q);
	arena_free(&data.a);
	graph_free(g);
	arena_free(&a);
	arena_free(&k.a);
}

TEST(copies_are_counted)
{
	const char *why;
	struct plan_device *d = device(&why);
	if (!d)
		SKIP(why);
	plan_device_watched_by(&watch);
	for (enum maps m = 0; m < MAPS; m++)
		for (size_t i = 0; i < sizeof hands / sizeof *hands && !test_bad; i++)
			check_by_hand(&hands[i], device_that(m, &why));
	plan_device_watched_by(NULL);
}

/* A driver that maps no more ends the run, not the process; and with it the maps that it holds. */
TEST(maps_that_fail_later)
{
	const char *why;
	struct onnx_maker k;
	struct graph *g;
	struct steps *s;
	struct arena a = {0};
	struct data data;
	struct plan *p;
	if (!device(&why))
		SKIP(why);
	for (int good = 1; good < 6; good++) {
		struct maker m = {.mask = hands[3].mask};
		const struct kernel_source src = {
		    .ctx = &m, .find = find, .device = device_that(MAPS_ELSEWHERE, &why)};
		maps_left = good;
		REQUIRE_OK(make_by_hand(&hands[3], &k, &g));
		REQUIRE_OK(graph_steps(g, &target, NULL, &a, &s));
		open_data(&data, g);
		REQUIRE_OK(plan_build(g, s, &target, &src, NULL, &p));
		int runs = 0;
		while (runs < 4 && plan_run(p, data.in, data.out) >= 0)
			runs++;
		CHECK_FAILS(plan_run(p, data.in, data.out), E_IO, "device opencl:0: no map");
		CHECK(runs == (good - 1) / 2); /* one to build, and two for a run */
		plan_free(p);
		arena_free(&data.a);
		graph_free(g);
		arena_free(&a);
		arena_free(&k.a);
	}
}

static int textures_left; /* until the driver makes no more */
static int no_more;       /* its error then */
static int64_t textures_bytes;

static int few_textures(struct dev_unit *u, bool halves, int64_t elems, struct dev_mem **out)
{
	if (textures_left-- <= 0)
		return fail(no_more, "no texture");
	textures_bytes = elems * (halves ? 2 : 4);
	return dev_find("opencl")->own->texture(u, halves, elems, out);
}

/* A device that lists textures and makes none, or makes them when the kernels are loaded, and not when the
 * plan needs them: the processor does those steps, in the same plan, also if that takes over the graph's
 * constants. */
TEST(textures_that_are_not_made)
{
	const char *why;
	static struct dev dev;
	static struct dev_own own;
	struct plan_device *d;
	if (!device(&why))
		SKIP(why);
	dev = *dev_find("opencl");
	own = *dev.own;
	own.texture = few_textures;
	dev.own = &own;
	if (!target_textures(&target))
		SKIP("the device has no images");
	REQUIRE_OK(plan_device_open_as(&dev, "opencl:0", &d));
	for (int i = 0, made = 0; i < 16; i++, made = i % 4) {
		struct onnx_maker k;
		struct graph *g;
		struct steps *s;
		struct arena a = {0};
		struct data data;
		struct plan *p, *q;
		struct rng r;
		struct maker m = {.mask = 63, .key = "texture=1"};
		struct plan_device_watch seen = {0};
		const struct kernel_source src = {.ctx = &m, .find = find, .device = d};
		rng_seed(&r, 1);
		textures_left = made;
		no_more = i & 4 ? E_NOMEM : E_INFEASIBLE;
		REQUIRE_OK(make_by_hand(&hands[0], &k, &g)); /* two convolutions with the same weights */
		REQUIRE_OK(graph_steps(g, &target, NULL, &a, &s));
		open_data(&data, g);
		REQUIRE_OK(plan_build(g, s, &target, NULL, NULL, &q));
		bool late = made == 1 || made == 2;
		plan_device_watched_by(&seen);
		REQUIRE_OK((i & 8 ? plan_build_take : plan_build)(g, s, &target, &src, NULL, &p));
		plan_device_watched_by(NULL);
		CHECK(m.textures == (late ? 4 : 2) && !seen.failed);
		CHECK(far_steps(p) == (made == 3 ? 3 : 1));
		CHECK(made < 3 || plan_device_use(p).held_bytes >= (int64_t)plan_bytes(p) + textures_bytes);
		CHECK(same(p, q, g, &data, &r));
		plan_free(p);
		plan_free(q);
		arena_free(&data.a);
		graph_free(g);
		arena_free(&a);
		arena_free(&k.a);
	}
	plan_device_close(d);
}

TEST(names_of_devices)
{
	const char *why;
	struct plan_device *d;
	if (!device(&why))
		SKIP(why);
	CHECK_FAILS(plan_device_open("opencl:999", &d), E_NOTFOUND, "no OpenCL device 999");
	CHECK_FAILS(plan_device_open("opencl:x", &d), E_NOTFOUND, "unknown device");
	CHECK_FAILS(plan_device_open("cpu", &d), E_USAGE, "needs no plan of its own");
}

TEST_MAIN
