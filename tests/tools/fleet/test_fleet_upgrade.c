/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet with a database of version 1: its channels keep their records. */
#include "tests/lib/fleet_world.h"

/* Makes tables of version 1, with another hash for each key. */
static void make_former(struct world *w)
{
	static const char *const undo[] = {"DROP TABLE left_out",
					   "DROP INDEX boards_day",
					   "DROP INDEX words_size",
					   "ALTER TABLE boards DROP COLUMN sent_bytes",
					   "ALTER TABLE boards DROP COLUMN over_day",
					   "ALTER TABLE words DROP COLUMN bytes",
					   "ALTER TABLE classes DROP COLUMN revoked",
					   "ALTER TABLE snapshots DROP COLUMN placed",
					   "ALTER TABLE blobs DROP COLUMN placed",
					   "UPDATE settings SET value = '1' WHERE name = 'schema'",
					   "UPDATE words SET key = substr(key, 17) || substr(key, 1, 16), "
					   "cand = substr(cand, 17) || substr(cand, 1, 16)",
					   "UPDATE shown SET key = substr(key, 17) || substr(key, 1, 16), "
					   "cand = substr(cand, 17) || substr(cand, 1, 16)"};
	for (size_t i = 0; i < sizeof undo / sizeof *undo; i++)
		CHECK_OK(db_exec(world_conn(w), undo[i], NULL, 0, NULL, NULL));
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
