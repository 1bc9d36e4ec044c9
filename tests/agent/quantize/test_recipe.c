/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes: they make the same network as the quantiser; texts that are damaged or of other networks change no
 * answer; limits of errors hold on examples that were held out. */
#include "agent/cache/recipe.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/quantize.h"
#include "tests/lib/records.h"

enum { NETS = 24, MUTANTS = 400 };

static int make_recipe(struct quantised *q, struct buf *text)
{
	return quantize_recipe(q->g, q->example, EXAMPLES, &q->o, &q->arena, &q->r, text);
}

/* Whether both graphs answer the same on all examples, bit for bit. */
static bool same_answers(const struct quantised *q, const struct graph *x, const struct graph *y)
{
	struct arena a = {0};
	bool same = true;
	for (int i = 0; i < EXAMPLES && same; i++) {
		struct tensor s = quantised_eval(x, &q->example[i], &a),
			      t = quantised_eval(y, &q->example[i], &a);
		same = s.data && t.data &&
		       !memcmp(s.data, t.data, (size_t)shape_count(&s.shape) * sizeof(float));
	}
	arena_free(&a);
	return same;
}

static int quantised_nodes(const struct graph *g)
{
	return count_type(g, "QuantizeLinear") + count_type(g, "DequantizeLinear");
}

/* The quantiser's network and that of its recipe are one. */
static void check_net(int seed)
{
	struct quantised q;
	struct buf text = {0};
	struct recipe r;
	struct graph *g = random_net(seed), *again = random_net(seed);
	quantised_start(&q);
	q.o.most = seed % 3 ? 0 : seed % 2 ? .01 : .004;
	quantised_take(&q, random_net(seed), 1);
	int rc = quantised_run(&q);
	CHECK_OK(quantize_recipe(again, q.example, EXAMPLES, &q.o, &q.arena, &q.r, &text));
	CHECK_OK(recipe_apply(buf_str(&text), g, &r));
	CHECK(r.layers == q.r.nlayers && r.quantised == q.r.nquantised && (r.quantised > 0) == (rc >= 0));
	CHECK(r.examples == q.r.examples && r.held_out == q.r.held_out && r.held_out > 0);
	CHECK(!(q.o.most > 0) || (r.error <= q.o.most && r.held_out_error <= q.o.most));
	CHECK_OK(graph_check(g, true));
	const struct graph *want = rc < 0 ? again : q.out; /* no layer makes so small an error */
	CHECK(quantised_nodes(g) == quantised_nodes(want) && (quantised_nodes(g) > 0) == (rc >= 0));
	if (!same_answers(&q, g, want)) {
		printf("seed %d: the recipe's network answers otherwise\n", seed);
		test_bad = 1;
	}
	buf_free(&text);
	graph_free(g);
	graph_free(again);
	quantised_end(&q);
}

TEST(a_recipe_makes_the_same_network)
{
	for (int seed = 1; seed <= NETS; seed++)
		check_net(seed);
}

/* Changes, removes or doubles some characters. */
static void damage(struct rng *rng, char *text)
{
	static const char few[] = "0123456789-. \nvle+";
	size_t n = strlen(text);
	for (int k = 1 + (int)rng_below(rng, 3); k > 0 && n > 8; k--) {
		size_t at = rng_below(rng, (uint32_t)n), len = 1 + rng_below(rng, 6);
		switch (rng_below(rng, 3)) {
		case 0:
			text[at] = few[rng_below(rng, sizeof few - 1)];
			break;
		case 1:
			len = at + len < n ? len : n - at;
			memmove(text + at, text + at + len, n - at - len + 1);
			n -= len;
			break;
		default:
			text[at] = 0;
			n = at;
		}
	}
}

/* A damaged recipe is refused, or quantises in another way: the network still runs. */
static void check_mutant(struct quantised *q, const struct buf *text, int seed, int *refused, int *unknown)
{
	struct rng rng;
	struct arena a = {0};
	char *mutant = arena_strndup(&a, text->p, text->n);
	struct graph *g = random_net(5);
	rng_seed(&rng, (uint64_t)seed);
	damage(&rng, mutant);
	struct recipe r;
	int known = recipe_check(mutant, recipe_key(g)), rc = recipe_apply(mutant, g, &r);
	CHECK(rc >= 0 || rc == E_CORRUPT);
	CHECK(known >= 0 || (known == E_CORRUPT && rc < 0)); /* without the model, less is known */
	*unknown += known >= 0 && rc < 0;
	CHECK_OK(graph_check(g, true));
	*refused += rc < 0;
	struct tensor got = quantised_eval(g, &q->example[0], &a),
		      ref = quantised_eval(q->g, &q->example[0], &a);
	if (rc < 0) /* the graph is as it was, but for folding */
		CHECK(distance(&got, &ref) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

TEST(damaged_recipes)
{
	struct quantised q;
	struct recipe r;
	struct buf text = {0};
	int refused = 0, unknown = 0;
	quantised_start(&q);
	quantised_take(&q, random_net(5), 1);
	CHECK_OK(make_recipe(&q, &text));
	for (int seed = 1; seed <= MUTANTS; seed++)
		check_mutant(&q, &text, seed, &refused, &unknown);
	CHECK(refused > MUTANTS / 2 && refused < MUTANTS && unknown < refused / 4);
	char *cut = malloc(text.n); /* its last newline is missing, and nothing may be read behind it */
	memcpy(cut, text.p, text.n);
	cut[text.n - 1] = 0;
	CHECK(recipe_apply(cut, q.g, &r) == E_CORRUPT);
	free(cut);
	CHECK(recipe_apply("hone-recipe 2\n", q.g, &r) == E_CORRUPT &&
	      recipe_apply("", q.g, &r) == E_CORRUPT);
	struct graph *other = random_net(6);
	CHECK(recipe_apply(buf_str(&text), other, &r) == E_CORRUPT);
	graph_free(other);
	buf_free(&text);
	quantised_end(&q);
}

/* Texts that no model makes, each one change from a good one. */
TEST(texts_are_checked_without_their_model)
{
	static const struct {
		const char *from, *to;
	} rows[] = {
	    {"hone-recipe 2", "hone-recipe 1"},
	    {"hone-recipe 2", "Hone-recipe 2"},
	    {"values 3\n", ""},
	    {"values 3", "values -1"},
	    {"layers 2", "layers 0"},
	    {"quantized 1", "quantized 3"},
	    {"layers 2", "layers 99999999999"},
	    {"error 1", "error -1"},
	    {"v 0", "v 3"},
	    {"v 0", "v -1"},
	    {"v 0", "v 2"}, /* twice the same */
	    {"v 0", "w 0"},
	    {"3c23d70a", "3C23d70a"},
	    {"3c23d70a", "3c23d70"},
	    {"3c23d70a", "3c23d70a0"},
	    {"3c23d70a", "ffc00000"}, /* NaN */
	    {"3c23d70a", "7f800000"},
	    {"3c23d70a", "bc23d70a"}, /* negative */
	    {"3c23d70a", "00000001"},
	    {" 128", " 256"},
	    {" 128", " -1"},
	    {" 128", "128"},
	    {"l 1 3", "l 2 3"},
	    {"l 1 3", "l 1 4"},
	    {"l 1 3", "l 1 2"},
	    {"l 1 3", "l 1 0"},
	    {"l 1 3", "l 1 99999999999999999999"},
	    {"-7", "-99999999999"},
	    {"-7", "x"},
	    {"12\n", "12"},
	    {"12\n", "12\n\n"},
	    {"12\n", "12\nv 1 3c23d70a 0\n"}, /* a value behind the layers */
	};
	struct arena a = {0};
	const struct key model = hash_text("model");
	const char *text = record_recipe(&a, model);
	CHECK_OK(recipe_check(text, model));
	CHECK_FAILS(recipe_check(text, hash_text("another")), E_CORRUPT, "its key is not that of the model");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *at = strstr(text, rows[i].from);
		REQUIRE(at != NULL);
		int rc = recipe_check(arena_printf(&a, "%.*s%s%s", (int)(at - text), text, rows[i].to,
						   at + strlen(rows[i].from)),
				      model);
		if (rc != E_CORRUPT) {
			printf("'%s' instead of '%s': %d\n", rows[i].to, rows[i].from, rc);
			test_bad = 1;
		}
	}
	struct buf big = {0};
	buf_puts(&big, text);
	big.n--;
	while (big.n <= RECIPE_BYTES)
		buf_puts(&big, " 1");
	buf_puts(&big, "\n");
	CHECK_FAILS(recipe_check(buf_str(&big), model), E_CORRUPT, "longer than");
	buf_free(&big);
	arena_free(&a);
}

/* A cache's recipe is that of a network with these weights, for level int8 alone. */
TEST(a_recipe_is_of_one_network)
{
	struct quantised q;
	struct buf text = {0};
	struct cache *c;
	struct recipe r;
	quantised_start(&q);
	quantised_take(&q, random_net(5), 1);
	struct key k = recipe_key(q.g);
	CHECK_OK(make_recipe(&q, &text));
	REQUIRE_OK(cache_open(&c, scratch("cache"), false, 0));
	struct graph *g = random_net(5);
	CHECK(recipe_use(&c, 1, LEVEL_INT8, g, &r) == E_NOTFOUND && !quantised_nodes(g));
	CHECK_OK(cache_put(c, CACHE_RECIPE, k, text.p, text.n));
	CHECK_OK(recipe_use(&c, 1, LEVEL_W16, g, &r));
	CHECK(!r.layers && !quantised_nodes(g));
	for (int i = 0; i < g->nvalues; i++) /* other weights: retrained */
		if (g->value[i].t.data && shape_count(&g->value[i].t.shape) > 64) {
			((float *)g->value[i].t.data)[0] += .5f;
			break;
		}
	CHECK(recipe_use(&c, 1, LEVEL_INT8, g, &r) == E_NOTFOUND);
	graph_free(g);
	g = random_net(5);
	CHECK_OK(recipe_use(&c, 1, LEVEL_INT8, g, &r));
	CHECK(r.layers == q.r.nlayers && quantised_nodes(g) > 0);
	int n = quantised_nodes(g);
	CHECK_OK(recipe_use(&c, 1, LEVEL_INT8, g, &r)); /* a model's own quantisation stays */
	CHECK(!r.layers && quantised_nodes(g) == n);
	graph_free(g);
	/* Under the key of another network, which has its form, the text does not serve. */
	g = random_net(5);
	for (int i = 0; i < g->nvalues; i++)
		if (g->value[i].t.data && shape_count(&g->value[i].t.shape) > 64)
			((float *)g->value[i].t.data)[1] += .5f;
	CHECK_OK(cache_put(c, CACHE_RECIPE, recipe_key(g), text.p, text.n));
	CHECK_FAILS(recipe_use(&c, 1, LEVEL_INT8, g, &r), E_CORRUPT, "not a recipe of this model");
	CHECK(!quantised_nodes(g));
	graph_free(g);
	cache_close(c);
	buf_free(&text);
	quantised_end(&q);
}

TEST_MAIN
