/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet with a database of version 1: its channels keep their records. */
#include "tests/lib/fleet_world.h"
#include "tests/lib/schema_v1.h"

/* Makes tables of version 1, with another hash for each key. */
static void make_former(struct world *w)
{
	static const char *const keys[] = {"UPDATE words SET key = substr(key, 17) || substr(key, 1, 16), "
					   "cand = substr(cand, 17) || substr(cand, 1, 16)",
					   "UPDATE shown SET key = substr(key, 17) || substr(key, 1, 16), "
					   "cand = substr(cand, 17) || substr(cand, 1, 16)"};
	schema_v1(world_conn(w));
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		CHECK_OK(db_exec(world_conn(w), keys[i], NULL, 0, NULL, NULL));
	world_close(w);
	world_open(w);
}

static int records(struct world *w, int channel)
{
	struct world_view *v = view(w, channel);
	int n = v->there ? v->nrec : -1;
	view_free(v);
	return n;
}

/* With stages of a day, the records of channel all are there again after the first round after the
 * upgrade. */
TEST(channels_keep_their_records)
{
	enum { RECORDS = 5, DAY_S = 86400 };
	struct world *w = world_new();
	w->conf.stage_ns = DAY_S * NS_PER_S;
	world_close(w);
	world_open(w);
	for (int b = 0; b < 3; b++) {
		for (int i = 0; i < RECORDS; i++)
			say(w, i, 1, MS);
		from(w, b);
	}
	for (int i = 0; i < 4; i++) {
		round_good(w);
		world_now_s += DAY_S;
	}
	for (int c = 0; c < CHANNELS; c++)
		CHECK(records(w, c) == RECORDS);
	make_former(w);
	world_now_s += 60;
	round_good(w);
	for (int c = 0; c < CHANNELS; c++)
		CHECK(records(w, c) == RECORDS);
	world_free(w);
}

TEST_MAIN
