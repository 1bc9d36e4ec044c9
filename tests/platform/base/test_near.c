/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/near.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

static const char *nearest(const char *word, const char *const *names)
{
	struct near n;
	near_begin(&n, word);
	for (int i = 0; names[i]; i++)
		near_add(&n, names[i]);
	return n.best ? n.best : "";
}

TEST(the_nearest_name)
{
	static const char *const names[] = {"tune", "bench", "verify", "mobilenet_v2", "mobilenet_v1", NULL};
	CHECK(!strcmp(nearest("tuen", names), "tune"));
	CHECK(!strcmp(nearest("Bench", names), "bench"));
	CHECK(!strcmp(nearest("ver", names), "verify")); /* its beginning */
	CHECK(!strcmp(nearest("mobilnetv2", names), "mobilenet_v2"));
	CHECK(!strcmp(nearest("mobilenet_v1", names), "mobilenet_v1"));
	CHECK(!strcmp(nearest("tun", (const char *const[]){"run", "tune", NULL}), "tune"));
	CHECK(!strcmp(nearest("tun", (const char *const[]){"tune", "run", NULL}), "tune"));
	CHECK(!strcmp(nearest("run", (const char *const[]){"runner", "Run", NULL}), "Run"));
	CHECK(!strcmp(nearest("mobilnet", names), "mobilenet_v2")); /* a long word, like its beginning */
	CHECK(!*nearest("budget",
			(const char *const[]){"quiet", "runs", NULL})); /* half of the letters differ */
	CHECK(!strcmp(nearest("buget", (const char *const[]){"quiet", "budget", NULL}), "budget"));
	CHECK(!*nearest("mbnlt", names));
	CHECK(!*nearest("qwertyuiop", names));
	CHECK(!*nearest("xy", names));
	CHECK(!*nearest("", names));
	CHECK(!*nearest("N", (const char *const[]){"x", "y", NULL})); /* no letter in common */
	CHECK(!*nearest("", (const char *const[]){"x", NULL}));
	CHECK(!strcmp(nearest("N", (const char *const[]){"x", "n", NULL}), "n"));
	CHECK(!strcmp(nearest("N", (const char *const[]){"x", "n1", NULL}), "n1"));
}

/* The distance by its definition: the cheapest of all last steps. */
static int slow(const char *a, int la, const char *b, int lb)
{
	if (!la || !lb)
		return la + lb;
	int best = slow(a, la - 1, b, lb - 1) + (a[la - 1] != b[lb - 1]), other;
	if ((other = slow(a, la - 1, b, lb) + 1) < best)
		best = other;
	if ((other = slow(a, la, b, lb - 1) + 1) < best)
		best = other;
	if (la > 1 && lb > 1 && a[la - 1] == b[lb - 2] && a[la - 2] == b[lb - 1] &&
	    (other = slow(a, la - 2, b, lb - 2) + 1) < best)
		best = other;
	return best;
}

TEST(the_distance_is_as_defined)
{
	struct rng r;
	rng_seed(&r, 7);
	for (int i = 0; i < 3000; i++) {
		char a[8] = "", b[8] = "";
		int la = (int)rng_below(&r, 7), lb = (int)rng_below(&r, 7);
		for (int k = 0; k < la; k++)
			a[k] = (char)('a' + rng_below(&r, 3));
		for (int k = 0; k < lb; k++)
			b[k] = (char)('a' + rng_below(&r, 3));
		CHECK(near_distance(a, b) == slow(a, la, b, lb));
	}
	char *word = malloc(100001); /* only 31 letters count */
	memset(word, 'a', 100000);
	word[100000] = 0;
	CHECK(near_distance(word, "a") == 30);
	free(word);
}

TEST_MAIN
