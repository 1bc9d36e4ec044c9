/* SPDX-License-Identifier: Apache-2.0 */
/* hone forget where two models share kernels: a network, and one that consists of its first layers. */
#include "agent/cache/gain.h"
#include "agent/cache/history.h"
#include "agent/cache/recipe.h"
#include "kernels/graph/optimize.h"
#include "kernels/onnx/import.h"
#include "platform/machine/target.h"
#include "tests/lib/cli.h"
#include "tools/hone/cut.h"

static char piece[256], cache[256];
static struct key piece_key; /* of the gain of the first layers */

/* Writes the first layers of the steering network as a model, tunes both into a fresh cache, and gives both a
 * gain. */
static void two_models(const char *name)
{
	struct arena a = {0};
	struct graph *g, *cut;
	struct target t;
	struct cache *c;
	int *from;
	snprintf(piece, sizeof piece, "%s", in_dir("first-layers.onnx"));
	snprintf(cache, sizeof cache, "%s", in_dir(name));
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &g));
	REQUIRE_OK(cut_graph(g, g->node[3].out[0], ARENA_ARRAY(&a, bool, g->nvalues), &cut, &from));
	REQUIRE_OK(export_file(cut, piece));
	graph_free(cut);
	REQUIRE(mkdir(cache, 0755) == 0);
	CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", cache);
	CHECK_RUN(0, KERNELS_ONCE, piece, "-q", cache);
	REQUIRE_OK(import_file(piece, &(struct import_opts){0}, &cut));
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(cache_open(&c, cache, false, 0));
	for (int i = 0; i < 2; i++) {
		struct gain gain = {.threads = 1,
				    .level = LEVEL_FP32,
				    .default_ms = 2,
				    .now_ms = 1,
				    .kernels = 10,
				    .faster = {2, 1.9, 2.1, 20},
				    .date = "2026-01-02T03:04:05Z"};
		snprintf(gain.model, sizeof gain.model, "%.150s", i ? piece : steering());
		REQUIRE_OK(graph_optimize(i ? cut : g));
		piece_key = history_key(i ? cut : g, &t, 1, LEVEL_FP32);
		CHECK_OK(gain_put(c, piece_key, &gain));
		if (!i) /* of a number of threads that nothing looks for */
			CHECK_OK(gain_put(c, history_key(g, &t, 200, LEVEL_FP32), &gain));
	}
	cache_close(c);
	graph_free(g);
	graph_free(cut);
	arena_free(&a);
}

static bool piece_has_gain(void)
{
	struct cache *c;
	struct gain gain;
	if (cache_open(&c, cache, true, 0) < 0)
		return false;
	bool found = gain_get(c, piece_key, &gain);
	cache_close(c);
	return found;
}

TEST(what_another_model_uses_is_kept)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	two_models("shared");
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), cache);
	CHECK(out_number("kernel_count") > 0 && out_number("shared") > 0);
	CHECK_RUN(0, "tune %s --rigor cached --threads 1 --cache %s", piece, cache);
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", steering(), cache);
	CHECK(piece_has_gain());
	CHECK_RUN(0, "forget --model %s --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, "removed 0 kernels");
	CHECK_SAYS(cli_out, "that other models, or this one at other sizes, use, too: ");
	CHECK_SAYS(cli_out,
		   "; --shape forgets a model at such sizes, and `hone forget --task KEY` a single kernel");
	CHECK_SAYS(cli_out, piece);
	CHECK_RUN(0, "forget --model %s --cache %s", piece, cache); /* no other model is left */
	CHECK(!strstr(cli_out, "removed 0") && !strstr(cli_out, "kept"));
	CHECK(!piece_has_gain());
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", piece, cache);
}

TEST(what_a_model_that_is_gone_used_is_removed)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	two_models("gone");
	REQUIRE(unlink(piece) == 0);
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), cache);
	CHECK(out_number("kernel_count") > 0 && out_number("shared") == 0);
	CHECK_SAYS(cli_err, "1 model that this cache was tuned for cannot be read");
}

/* A gain tells of all kernels of its model: without one of them it is wrong. */
TEST(a_gain_goes_with_a_kernel_of_its_model)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	two_models("task");
	CHECK_RUN(0, "tasks %s --json --cache %s", piece, cache);
	json_t *j = parse_out(), *of_piece = json_deep_copy(json_object_get(j, "tasks"));
	json_decref(j);
	CHECK_RUN(0, "tasks %s --json --cache %s", steering(), cache);
	j = parse_out();
	json_t *all = json_object_get(j, "tasks");
	size_t last = json_array_size(all) - 1;
	CHECK_RUN(0, "forget --task %.16s --cache %s",
		  json_string_value(json_object_get(json_array_get(all, last), "task_key")), cache);
	CHECK(piece_has_gain()); /* the first layers have no such task */
	CHECK_RUN(0, "forget --task %.16s --cache %s",
		  json_string_value(json_object_get(json_array_get(of_piece, 0), "task_key")), cache);
	CHECK(!piece_has_gain());
	json_decref(j);
	json_decref(of_piece);
}

/* Makes a cache with what stands for the steering network's recipe, and one of another model. */
static void two_recipes(const char *name)
{
	struct graph *g;
	struct cache *c;
	snprintf(cache, sizeof cache, "%s", in_dir(name));
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &g));
	REQUIRE_OK(cache_open(&c, cache, false, 0));
	CHECK_OK(cache_put(c, CACHE_RECIPE, recipe_key(g), "hone-recipe 2\n", 14));
	CHECK_OK(cache_put(c, CACHE_RECIPE, hash_text("another"), "hone-recipe 2\n", 14));
	cache_close(c);
	graph_free(g);
}

/* Only examples make a recipe again, so its removal is told. */
TEST(a_recipe_that_is_removed_is_told)
{
	two_recipes("recipes");
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), cache);
	CHECK(out_number("recipes") == 1);
	CHECK_RUN(0, "forget --model %s --json --cache %s", steering(), cache);
	CHECK(out_number("recipes") == 0);
	CHECK_RUN(0, "forget --model %s --cache %s", steering(), cache);
	CHECK(!strstr(cli_out, "level int8"));
	two_recipes("recipes");
	CHECK_RUN(0, "forget --model %s --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, "and its recipe of level int8");
	CHECK_RUN(0, "forget --all --cache %s", cache);
	CHECK_SAYS(cli_out, ", and 1 recipe of level int8, which needs examples");
	two_recipes("recipes");
	CHECK_RUN(0, "forget --all --json --cache %s", cache);
	CHECK(out_number("recipes") == 2);
	CHECK_RUN(0, "forget --help");
	CHECK_SAYS(cli_out, "its history and its recipe of");
}

TEST_MAIN
