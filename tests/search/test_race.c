/* SPDX-License-Identifier: Apache-2.0 */
/* Races whose times the device's throttling changed (meas.throttled), on a runner that follows a script. */
#include "search/race.h"
#include "tests/lib/test.h"

#include <string.h>

/* Of each kernel, by its handle: its time in a race and in a duel, and whether throttling changes them. */
struct script {
	struct runner r;
	int64_t race_ns[BOX_MAX_RACE], duel_ns[BOX_MAX_RACE];
	bool spoils_race[BOX_MAX_RACE], spoils_duel[BOX_MAX_RACE];
	int races, duels, rounds;
};

static int script_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
		       unsigned how, int64_t deadline_ns, struct meas *m)
{
	struct script *s = (struct script *)r;
	bool quiet = how & TIME_QUIET;
	(void)abort_ns, (void)deadline_ns;
	*(quiet ? &s->duels : &s->races) += 1;
	s->rounds += rounds;
	for (int i = 0; i < n; i++) {
		int k = handles[i];
		int64_t ns = quiet ? s->duel_ns[k] : s->race_ns[k];
		m[i] = (struct meas){.status = MEAS_OK,
				     .runs = rounds,
				     .min_ns = ns,
				     .median_ns = ns,
				     .spread_ns = ns / 1000,
				     .throttled = quiet ? s->spoils_duel[k] : s->spoils_race[k]};
	}
	return E_OK;
}

static void script_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	(void)r, (void)handle, (void)deadline_ns;
}

static const struct runner_ops script_ops = {.time = script_time, .drop = script_drop};

/* Races kernels 0 (the incumbent) to n - 1. */
static struct verdict race(struct script *s, int n)
{
	static const struct job job;
	struct box b = {.job = &job, .runner = &s->r, .deadline_ns = INT64_MAX};
	struct built code[BOX_MAX_RACE];
	struct verdict v;
	s->r = (struct runner){.ops = &script_ops, .clock = &clock_real};
	for (int i = 0; i < n; i++)
		code[i] = (struct built){.handle = i};
	CHECK_OK(race_run(&b, code, n, s->race_ns[0], &v));
	CHECK(v.failed < 0);
	return v;
}

TEST(the_fastest_challenger_wins)
{
	struct script s = {.race_ns = {1000000, 900000, 800000, 1200000},
			   .duel_ns = {1000000, 900000, 800000, 1200000}};
	struct verdict v = race(&s, 4);
	CHECK(v.winner_at == 2 && v.ratio < .81 && v.winner.median_ns == 800000);
	CHECK(!v.lost[0] && !v.lost[1] && !v.lost[2] && v.lost[3]);
	CHECK(s.races == 1 && s.duels == 1);
}

/* A challenger that was timed while the device throttled is neither the best of a race nor its loser. */
TEST(throttled_challengers_neither_win_nor_lose)
{
	struct script s = {.race_ns = {1000000, 900000, 100000, 9000000},
			   .duel_ns = {1000000, 900000, 100000, 9000000},
			   .spoils_race = {false, false, true, true}};
	struct verdict v = race(&s, 4);
	CHECK(v.winner_at == 1 && !v.winner.throttled);
	CHECK(!v.lost[0] && !v.lost[1] && !v.lost[2] && !v.lost[3]);
}

/* With a throttled incumbent nothing is decided, and there is no duel. */
TEST(a_throttled_incumbent_stays)
{
	struct script s = {.race_ns = {1000000, 100000, 9000000},
			   .duel_ns = {1000000, 100000, 9000000},
			   .spoils_race = {true}};
	struct verdict v = race(&s, 3);
	CHECK(v.winner_at == 0 && s.duels == 0);
	CHECK(!v.lost[0] && !v.lost[1] && !v.lost[2]);
}

/* A duel that throttling spoils ends at once: the incumbent stays, and the challenger has not lost. */
TEST(a_throttled_duel_decides_nothing)
{
	for (int slow = 0; slow < 2; slow++)
		for (int spoilt = 0; spoilt < 2; spoilt++) {
			struct script s = {.race_ns = {1000000, 500000},
					   .duel_ns = {1000000, slow ? 2000000 : 500000}};
			s.spoils_duel[spoilt] = true;
			struct verdict v = race(&s, 2);
			CHECK(v.winner_at == 0 && !v.lost[0] && !v.lost[1] && s.duels == 1);
			CHECK(v.winner.throttled == (spoilt == 1));
		}
}

TEST_MAIN
