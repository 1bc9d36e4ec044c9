/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of a fleet's leader: records are agreed on, staged, stopped, withdrawn, revoked, signed and placed,
 * also if a round ends midway. Past 800 lines because every block is one life of the same small world
 * (tests/lib/fleet_world.h) and reads its channels with the same few helpers. */
#include "search/share.h"
#include "tests/lib/fleet_world.h"
#include "tests/lib/fake_s3.h"
#include "platform/base/mix.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Files are put into the place by rename(2), so a round can be killed, or fail, at any of them. */
static int renames, die_at, fail_at;
static bool die_after;

int rename(const char *from_path, const char *to)
{
	bool now = ++renames == die_at;
	if (now && !die_after)
		kill(getpid(), SIGKILL);
	if (renames == fail_at) {
		errno = EIO;
		return -1;
	}
	int rc = (int)syscall(SYS_renameat2, AT_FDCWD, from_path, AT_FDCWD, to, 0);
	if (now)
		kill(getpid(), SIGKILL);
	return rc;
}

static void honest(struct world *w, int boards, int from_task, int to_task, int cand, int64_t ns)
{
	for (int b = 0; b < boards; b++) {
		for (int i = from_task; i < to_task; i++)
			say(w, i, cand, ns + b * ns / 50);
		from(w, b);
	}
}

TEST(five_agree_and_one_lies)
{
	struct world *w = world_new();
	struct store_board b;
	honest(w, 5, 0, 10, 1, MS);
	for (int i = 0; i < 10; i++)
		say(w, i, 1, 10), say(w, i + 100, 7, 10);
	from(w, 5);
	for (int i = 0; i < 10; i++)
		say(w, i, 2, 10);
	from(w, 5);
	round_good(w);
	CHECK(on(w, 0, 2, 1, 1) && on(w, 9, 2, 1, 1) && on(w, 100, 7, -1, -1));
	struct world_view *v = view(w, CHANNEL_ALL);
	const struct rec *r = view_rec(w, v, 0);
	CHECK(v->nrec == 10 && r->meas.median_ns >= MS && r->meas.median_ns <= MS + MS / 10 &&
	      r->meas.runs == 5 && !*r->label);
	view_free(v);
	CHECK_OK(store_board(world_conn(w), w->id[5], &b));
	CHECK(b.words == 10 && b.good == 0 && !b.struck);

	honest(w, 5, 10, 20, 1, MS);
	for (int i = 10; i < 20; i++)
		say(w, i, 1, 10);
	from(w, 5);
	round_good(w);
	CHECK(on(w, 0, 1, 1, 1) && on(w, 19, 1, 1, 1) && on(w, 100, -1, -1, -1));
	CHECK_OK(store_board(world_conn(w), w->id[5], &b));
	CHECK(b.struck && b.words == 20);
	CHECK_OK(store_board(world_conn(w), w->id[0], &b));
	CHECK(!b.struck && b.words == 20 && b.good == 20);
	world_free(w);
}

/* Makes a round, which returns so, and returns what it logged. */
static const char *logged_by_round(struct world *w, int want)
{
	static char said[16 << 10];
	fflush(stderr);
	int was = dup(2), fd = memfd_create("said", MFD_CLOEXEC);
	CHECK(was >= 0 && dup2(fd, 2) == 2);
	log_level_set(LOG_NORMAL);
	CHECK(fleet_round(w->f) == want);
	log_level_set(LOG_QUIET);
	CHECK(dup2(was, 2) == 2);
	ssize_t got = pread(fd, said, sizeof said - 1, 0);
	said[got > 0 ? got : 0] = 0;
	close(fd);
	close(was);
	return said;
}

/* The log has what is published, once, and what operators order by commands, which only write to the
 * database. */
TEST(publications_and_commands_are_logged)
{
	struct world *w = world_new();
	char name[100];
	honest(w, 5, 0, 10, 1, MS);
	const char *log = logged_by_round(w, 1);
	CHECK(strstr(log, "hone-fleet: published channel canary of class ") &&
	      strstr(log, ": 10 records, serial ") && !strstr(log, "user "));
	CHECK(!strstr(logged_by_round(w, 1), "published"));
	world_now_s += 7200; /* all files are offered again, which publishes nothing */
	CHECK(!strstr(logged_by_round(w, 1), "published"));
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof name, "board renamed x: arm-%d\033", i);
		CHECK_OK(store_admin(world_conn(w), "user ann", name, world_now_s * 1000000, (uint64_t)i));
		CHECK_OK(store_admin(world_conn(w), "admin, 192.0.2.1", "stop", world_now_s * 1000000,
				     (uint64_t)i + 100));
		world_now_s += i;
		log = logged_by_round(w, 1);
		world_now_s += 3;
		static char both[32 << 10];
		snprintf(both, sizeof both, "%s%s%s", log, "|", "");
		snprintf(both + strlen(both), sizeof both - strlen(both), "%s", logged_by_round(w, 1));
		snprintf(name, sizeof name, "hone-fleet: user ann: board renamed x: arm-%d?\n", i);
		const char *at = strstr(both, name);
		CHECK(at && !strstr(at + strlen(name), "user ann") && !strstr(both, "stop"));
	}
	world_free(w);
}

TEST(quorums)
{
	struct world *w = world_new();
	honest(w, 1, 0, 1, 1, MS);
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	honest(w, 2, 0, 1, 1, MS);
	round_good(w);
	CHECK(on(w, 0, 1, 1, -1));
	honest(w, 3, 0, 1, 1, MS);
	round_good(w);
	CHECK(on(w, 0, 1, 1, 1));
	world_free(w);
}

/* If nothing is new, polls find the same file, with the same date and serial. */
TEST(nothing_new)
{
	struct world *w = world_new();
	honest(w, 3, 0, 5, 1, MS);
	round_good(w);
	struct world_view *a = view(w, CHANNEL_ALL);
	for (int i = 0; i < 5; i++) {
		world_now_s += i == 3 ? SWEEP_S + 1 : 60;
		honest(w, 3, 0, 5, 1, MS + i * 1000); /* the boards say about the same again */
		round_good(w);
	}
	world_close(w);
	world_open(w);
	round_good(w);
	struct world_view *b = view(w, CHANNEL_ALL);
	CHECK(a->s.serial == b->s.serial && a->st.st_ino == b->st.st_ino &&
	      a->st.st_mtim.tv_nsec == b->st.st_mtim.tv_nsec && a->st.st_mtim.tv_sec == b->st.st_mtim.tv_sec);
	view_free(a);
	view_free(b);
	world_free(w);
}

TEST(serials_never_fall)
{
	struct world *w = world_new();
	int64_t last[CHANNELS] = {0};
	const int64_t dates[] = {0, 100, -5000, -5000, 7, 1000000, -10};
	for (int i = 0; i < 7; i++) {
		world_now_s = WORLD_START + dates[i];
		honest(w, 3, i, i + 1, 1, MS);
		round_good(w);
		for (int c = 0; c < CHANNELS; c++) {
			int64_t s = serial(w, c);
			CHECK(s > last[c]);
			last[c] = s;
		}
	}
	CHECK(last[0] > WORLD_START);
	world_free(w);
}

TEST(stages_take_their_time)
{
	struct world *w = world_new();
	w->conf.stage_ns = 1000 * NS_PER_S;
	world_close(w);
	world_open(w);
	honest(w, 3, 0, 1, 1, MS);
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	world_now_s += 999;
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	world_now_s += 1;
	round_good(w);
	CHECK(on(w, 0, 1, 1, -1));
	world_now_s += 999;
	round_good(w);
	CHECK(on(w, 0, 1, 1, -1));
	world_now_s += 1;
	round_good(w);
	CHECK(on(w, 0, 1, 1, 1));
	/* A board of canary tried it, and reports that it is wrong. */
	say_hint(w, 0, 1, MEAS_WRONG, 0);
	from(w, 4);
	round_good(w);
	CHECK(on(w, 0, -1, -1, -1));
	world_free(w);
}

/* Stages do not go on during a stop, since nobody watched them. */
TEST(stages_begin_anew_after_a_stop)
{
	struct world *w = world_new();
	w->conf.stage_ns = 1000 * NS_PER_S;
	world_close(w);
	world_open(w);
	honest(w, 3, 0, 1, 1, MS);
	round_good(w);
	world_now_s += 900;
	CHECK_OK(rollout_stop(world_conn(w)));
	world_now_s += 5000;
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	CHECK_OK(rollout_go_on(world_conn(w), world_now_s));
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	world_now_s += 1000;
	round_good(w);
	CHECK(on(w, 0, 1, 1, -1));
	world_now_s += 1000;
	round_good(w);
	CHECK(on(w, 0, 1, 1, 1));
	world_free(w);
}

TEST(hints_that_were_tried_are_words)
{
	struct world *w = world_new();
	say(w, 0, 1, 10), say(w, 1, 1, MS), say(w, 2, 1, MS), say(w, 3, 1, MS);
	from(w, 0);
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	for (int b = 1; b < 3; b++) {
		say_hint(w, 0, 1, MEAS_ABORTED, MS);
		say_hint(w, 1, 1, MEAS_OK, MS);
		say_hint(w, 2, 1, MEAS_TIMEOUT, 0);
		say_hint(w, 3, 1, MEAS_CRASH, 0);
		from(w, b);
	}
	round_good(w);
	CHECK(on(w, 0, 1, 1, -1) && on(w, 1, 1, 1, 1) && on(w, 2, 1, -1, -1) && on(w, 3, -1, -1, -1));
	struct world_view *v = view(w, CHANNEL_CANARY);
	const struct rec *r = view_rec(w, v, 0);
	CHECK(r && r->meas.median_ns == MS); /* the time that two boards say, not that of one */
	view_free(v);
	world_free(w);
}

TEST(boards_of_the_former_version_count)
{
	struct world *w = world_new();
	for (int b = 0; b < 3; b++) {
		struct rec r = world_rec(w, 0, 1, MS);
		w->line[w->nline++] = b == 1 ? record_line(&w->a, &r) : record_former_line(&w->a, &r);
		from(w, b);
	}
	round_good(w);
	CHECK(on(w, 0, 1, 1, 1));
	world_free(w);
}

TEST(one_leads)
{
	struct world *w = world_new();
	struct fleet *other;
	REQUIRE_OK(fleet_open(&w->conf, &clock_real, world_date, &other));
	honest(w, 3, 0, 1, 1, MS);
	CHECK(fleet_round(other) == 1);
	CHECK(on(w, 0, 1, 1, 1));
	honest(w, 3, 0, 1, 2, MS / 2);
	CHECK(strstr(logged_by_round(w, 0), "another hone-fleet publishes from this database"));
	CHECK(!*logged_by_round(w, 0)); /* once */
	CHECK(on(w, 0, 1, 1, 1));
	fleet_close(other);
	CHECK(fleet_round(w->f) == 1);
	CHECK(on(w, 0, 2, 2, 2));
	world_free(w);
}

TEST(stop)
{
	struct world *w = world_new();
	honest(w, 3, 0, 2, 1, MS);
	round_good(w);
	CHECK(rollout_stopped(world_conn(w)) == 0);
	CHECK_OK(rollout_stop(world_conn(w)));
	CHECK(rollout_stopped(world_conn(w)) == 1);
	honest(w, 3, 0, 3, 2, MS / 2);
	int64_t before = serial(w, CHANNEL_ALL);
	round_good(w);
	CHECK(on(w, 0, 2, 1, 1) && on(w, 2, 2, -1, -1) && serial(w, CHANNEL_ALL) == before);

	CHECK_OK(store_revoke(world_conn(w), w->id[0], "stolen", world_now_s)); /* revocations go on */
	world_now_s += 60;
	round_good(w);
	struct world_view *v = view(w, CHANNEL_ALL);
	CHECK(v->s.serial > before && v->s.nboard == 1 && !strcmp(v->s.board[0], w->id[0]) && v->nrec == 2);
	view_free(v);
	CHECK(on(w, 0, 2, 1, 1));

	CHECK_OK(rollout_go_on(world_conn(w), world_now_s));
	round_good(w);
	CHECK(on(w, 0, 2, 2, -1)); /* only two boards are left */
	CHECK_OK(store_revoke(world_conn(w), w->id[0], NULL, 0));
	round_good(w);
	CHECK(on(w, 0, 2, 2, 2));
	world_free(w);
}

static void revoke_rec(struct world *w, int i, int cand)
{
	struct rec r = world_rec(w, i, cand, MS);
	char hash[33];
	key_text(revoked_hash(&r), hash);
	CHECK_OK(store_revoke_record(world_conn(w), hash, "bad", world_now_s));
}

TEST(withdraw)
{
	struct world *w = world_new();
	for (int cand = 1; cand <= 3; cand++, world_now_s += 60) {
		honest(w, 3, 0, 1, cand, MS >> cand);
		round_good(w);
	}
	CHECK(on(w, 0, 3, 3, 3));
	int64_t before = serial(w, CHANNEL_ALL);
	CHECK_OK(rollout_withdraw(world_conn(w), NULL));
	round_good(w);
	CHECK(on(w, 0, 3, 2, 2) && serial(w, CHANNEL_ALL) > before);
	CHECK(rollout_stopped(world_conn(w)) == 1);
	before = serial(w, CHANNEL_ALL);
	world_now_s += 60;
	round_good(w); /* it is done once */
	honest(w, 3, 1, 2, 1, MS);
	round_good(w);
	CHECK(on(w, 0, 3, 2, 2) && on(w, 1, 1, -1, -1) && serial(w, CHANNEL_ALL) == before);
	CHECK_OK(rollout_withdraw(world_conn(w), "00000000000000000000000000000000")); /* another class's */
	round_good(w);
	CHECK(on(w, 0, 3, 2, 2));
	CHECK_OK(rollout_withdraw(world_conn(w), w->cls)); /* one state further back */
	round_good(w);
	CHECK(on(w, 0, 3, 1, 1));
	for (int i = 0; i < 2; i++) { /* back to nothing, and no further */
		CHECK_OK(rollout_withdraw(world_conn(w), w->cls));
		round_good(w);
		CHECK(on(w, 0, 3, -1, -1));
	}
	CHECK(serial(w, CHANNEL_ALL) > before);

	revoke_rec(w, 0, 3);
	CHECK_OK(rollout_go_on(world_conn(w), world_now_s));
	round_good(w);
	CHECK(on(w, 0, 2, 2, 2) && on(w, 1, 1, 1, 1));
	struct world_view *v = view(w, CHANNEL_EARLY);
	CHECK(v->s.nrecord == 1);
	view_free(v);
	CHECK_OK(rollout_withdraw(world_conn(w), NULL)); /* withdrawn records are not what was there before */
	round_good(w);
	CHECK(on(w, 0, 2, -1, -1));
	world_free(w);
}

/* A database in which all is withdrawn right after the first of the two settings was read. */
static const struct db *real_db;
static bool withdrawn;

static int exec_and_withdraw(struct db_conn *c, const char *sql, const struct db_value *param, int n,
			     db_row_fn *fn, void *ctx)
{
	int rc = real_db->exec(c, sql, param, n, fn, ctx);
	bool reads = n == 1 && param[0].type == DB_TEXT && !strncmp(sql, "SELECT value", 12) &&
		     (!strcmp(param[0].p, "stop") || !strcmp(param[0].p, "withdraw"));
	if (reads && !withdrawn) {
		withdrawn = true;
		CHECK_OK(rollout_withdraw(c, NULL));
	}
	return rc;
}

TEST(withdrawn_while_a_round_begins)
{
	struct world *w = world_new();
	for (int cand = 1; cand <= 2; cand++, world_now_s += 60) {
		honest(w, 3, 0, 1, cand, MS >> cand);
		round_good(w);
	}
	CHECK(on(w, 0, 2, 2, 2));
	real_db = world_conn(w)->db;
	struct db spied = *real_db;
	spied.exec = exec_and_withdraw;
	world_conn(w)->db = &spied;
	honest(w, 3, 1, 2, 1, MS);
	round_good(w);
	world_conn(w)->db = real_db;
	CHECK(withdrawn && on(w, 1, 1, -1, -1)); /* it is stopped at least */
	world_now_s += 60;
	round_good(w);
	CHECK(on(w, 0, 2, 1, 1));
	world_free(w);
}

TEST(signed_again_before_it_expires)
{
	struct world *w = world_new();
	honest(w, 3, 0, 1, 1, MS);
	round_good(w);
	struct world_view *a = view(w, CHANNEL_ALL);
	CHECK(a->s.made_s == world_now_s && a->s.expires_s == world_now_s + w->conf.expire_s);
	world_now_s += w->conf.expire_s * 3 / 4 - 1;
	round_good(w);
	CHECK(serial(w, CHANNEL_ALL) == a->s.serial);
	world_now_s += 1;
	round_good(w);
	struct world_view *b = view(w, CHANNEL_ALL);
	CHECK(b->s.serial > a->s.serial && b->s.expires_s == world_now_s + w->conf.expire_s);
	CHECK(a->s.nblob == 1 && b->s.nblob == 1 && !memcmp(a->s.blob, b->s.blob, sizeof *a->s.blob));
	view_free(a);
	view_free(b);
	CHECK_OK(rollout_stop(world_conn(w))); /* also during a stop */
	world_now_s += w->conf.expire_s;
	int64_t last = serial(w, CHANNEL_ALL);
	round_good(w);
	CHECK(serial(w, CHANNEL_ALL) > last && on(w, 0, 1, 1, 1));
	world_free(w);
}

TEST(signed_again_by_another_key)
{
	struct world *w = world_new();
	struct private_key *key;
	char path[256];
	honest(w, 3, 0, 1, 1, MS);
	round_good(w);
	int64_t last = serial(w, CHANNEL_ALL);
	world_close(w);
	snprintf(path, sizeof path, "%s/fleet.key", w->keys);
	CHECK(unlink(path) == 0);
	world_key(path, &key);
	private_key_public(key, &w->fleet_key);
	private_key_free(key);
	world_open(w);
	round_good(w);
	CHECK(serial(w, CHANNEL_ALL) == last + 1 && on(w, 0, 1, 1, 1)); /* both check the signature */
	round_good(w);
	CHECK(serial(w, CHANNEL_ALL) == last + 1);
	world_free(w);
}

TEST(records_without_words_are_forgotten)
{
	struct world *w = world_new();
	struct db_conn *c = world_conn(w);
	honest(w, 3, 0, 2, 1, MS);
	round_good(w);
	CHECK(store_exec(c, "DELETE FROM words WHERE key = (SELECT MIN(key) FROM words)", NULL, 0, NULL,
			 NULL) == 3);
	CHECK_OK(store_exec(c, "UPDATE classes SET dirty = 1", NULL, 0, NULL, NULL));
	world_now_s += SWEEP_S;
	round_good(w);
	CHECK(store_exec(c, "SELECT key FROM shown", NULL, 0, NULL, NULL) == 3);
	struct world_view *v = view(w, CHANNEL_ALL);
	CHECK(v->nrec == 1);
	view_free(v);
	world_free(w);
}

/* Runs a round in a process that is killed at its n-th file. 1: the round came to its end. */
static bool round_that_dies(struct world *w, int at, bool after)
{
	int status;
	world_close(w);
	pid_t child = fork();
	if (child == 0) {
		world_open(w);
		renames = 0, die_at = at, die_after = after;
		_exit(fleet_round(w->f) == 1 ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child);
	world_open(w);
	bool done = WIFEXITED(status);
	CHECK(done ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
	return done;
}

/* Every snapshot in the place is whole, and no older than before. */
static void check_place(struct world *w, int64_t last[CHANNELS])
{
	for (int c = 0; c < CHANNELS; c++) {
		struct world_view *v = view(w, c);
		CHECK(v->s.serial >= last[c]);
		last[c] = v->s.serial;
		view_free(v);
	}
}

TEST(killed_at_every_file)
{
	struct world *w = world_new();
	int64_t last[CHANNELS] = {0};
	int killed = 0;
	for (int turn = 0; turn < 4; turn++) {
		int task = 10 * turn;
		honest(w, 3, task, task + 3, 1, MS);
		world_now_s += 60;
		for (int at = 1;; at++) {
			bool done = round_that_dies(w, at, turn % 2);
			check_place(w, last);
			if (test_bad || done)
				break;
			killed++;
			if (at == turn + 1) { /* the next round repairs all */
				round_good(w);
				break;
			}
			honest(w, 3, task + 3 + at, task + 4 + at, 1, MS);
			world_now_s += 60;
		}
		CHECK(on(w, task, 1, 1, 1) && on(w, task + 2, 1, 1, 1));
	}
	CHECK(killed >= 8);
	world_free(w);
}

TEST(a_place_that_fails_at_every_file)
{
	struct world *w = world_new();
	int64_t last[CHANNELS] = {0};
	honest(w, 3, 0, 3, 1, MS);
	int failures = 0;
	for (int at = 1;; at++) {
		renames = 0, fail_at = at;
		honest(w, 3, 10 + at, 11 + at, 1, MS);
		world_now_s += 60;
		int rc = fleet_round(w->f);
		check_place(w, last);
		if (rc >= 0)
			break;
		failures++;
		CHECK(rc == E_IO && strstr(err_text(), "publish = "));
		fail_at = 0;
		if (at % 2)
			round_good(w);
	}
	fail_at = 0;
	CHECK(failures >= 4);
	CHECK(on(w, 0, 1, 1, 1) && on(w, 11, 1, 1, 1) && on(w, 10 + failures, 1, 1, 1));
	world_free(w);
}

/* The place lost all files: a new leader, or the next hour, sends them again, roots, too. */
TEST(a_place_that_was_emptied)
{
	struct world *w = world_new();
	char cmd[256], path[256];
	CHECK_OK(file_mkdirs((snprintf(path, sizeof path, "%s/root", w->keys), path), 0700));
	for (int i = 1; i <= 2; i++) {
		snprintf(path, sizeof path, "%s/root/%d", w->keys, i);
		CHECK_OK(file_write(path, "root", 4));
	}
	honest(w, 3, 0, 1, 1, MS);
	for (int turn = 0; turn < 3; turn++) {
		if (turn == 1)
			world_now_s += SWEEP_S;
		if (turn == 2) {
			world_close(w);
			world_open(w);
		}
		round_good(w);
		snprintf(path, sizeof path, "%s/root/2", w->publish);
		CHECK(on(w, 0, 1, 1, 1) && file_exists(path));
		snprintf(cmd, sizeof cmd, "rm -rf %s/*", w->publish);
		CHECK(system(cmd) == 0);
	}
	snprintf(path, sizeof path, "%s/root/3", w->keys);
	CHECK_OK(file_write(path, "root", 4));
	round_good(w);
	snprintf(path, sizeof path, "%s/root/3", w->publish);
	CHECK(file_exists(path));
	world_free(w);
}

static int blobs_there(struct world *w)
{
	char cmd[256];
	int n = -1;
	snprintf(cmd, sizeof cmd, "ls %s/blob | wc -l", w->publish);
	FILE *p = popen(cmd, "r");
	CHECK(p && fscanf(p, "%d", &n) == 1);
	if (p)
		pclose(p);
	return n;
}

TEST(old_blobs_stay_for_a_while)
{
	struct world *w = world_new();
	int64_t ns = 1000 * MS;
	for (int i = 0; i < KEEP_STATES + 4; i++, ns = ns * 9 / 10) {
		honest(w, 3, 0, 1, i, ns);
		world_now_s += 60;
		round_good(w);
	}
	int many = blobs_there(w);
	world_now_s += SWEEP_S;
	round_good(w);
	world_now_s += GRACE_S - 10;
	round_good(w);
	CHECK(blobs_there(w) == many);
	world_now_s += SWEEP_S;
	round_good(w);
	int left = blobs_there(w);
	CHECK(many == KEEP_STATES + 4 && left == KEEP_STATES);
	for (int i = 0; i < 3; i++) {
		CHECK_OK(rollout_withdraw(world_conn(w), NULL)); /* states that are kept can come back */
		round_good(w);
		CHECK(on(w, 0, KEEP_STATES + 3, KEEP_STATES + 2 - i, KEEP_STATES + 2 - i));
	}
	world_free(w);
}

TEST(a_small_change_is_one_blob)
{
	struct world *w = world_new();
	honest(w, 3, 0, 400, 1, MS);
	round_good(w);
	struct world_view *a = view(w, CHANNEL_ALL);
	CHECK(a->nrec == 400 && a->s.nblob >= 4);
	honest(w, 3, 17, 18, 2, MS / 2);
	world_now_s += 60;
	round_good(w);
	struct world_view *b = view(w, CHANNEL_ALL);
	int news = 0;
	for (int i = 0; i < b->s.nblob; i++) {
		bool old = false;
		CHECK(b->s.blob[i].bytes <= SHARD_BYTES);
		for (int j = 0; j < a->s.nblob; j++)
			old |= !memcmp(&a->s.blob[j].sha256, &b->s.blob[i].sha256, SHA256_BYTES);
		news += !old;
	}
	CHECK(b->nrec == 400 && news == 1 && on(w, 17, 2, 2, 2));
	view_free(a);
	view_free(b);
	world_free(w);
}

TEST(shards)
{
	enum { N = 30000, LINE = 3000 };
	struct shard_line *l = calloc(N, sizeof *l);
	struct arena a = {0};
	struct blob *out;
	char text[LINE];
	memset(text, 'x', sizeof text);
	for (int kind = 0; kind < 3; kind++) {
		size_t total = 0;
		for (int i = 0; i < N; i++)
			l[i] = (struct shard_line){.key = kind == 1 ? (struct key){7, (uint64_t)i}
								    : mix_bytes(&i, sizeof i, 0),
						   .line = text,
						   .n = kind == 2   ? (size_t)(i % LINE)
							: kind == 1 ? 100
								    : LINE};
		int n = round_shards(l, N, &a, &out);
		CHECK_OK(n);
		CHECK(n <= SNAPSHOT_BLOBS && n > 0);
		for (int i = 0; i < n; i++) {
			total += out[i].n;
			CHECK(out[i].n <= (kind == 1 ? SNAPSHOT_BLOB : 4 * SHARD_BYTES));
		}
		for (int i = 0; i < N; i++)
			total -= l[i].n + 1;
		CHECK(total == 0);
		arena_reset(&a);
	}
	CHECK(round_shards(l, 0, &a, &out) == 0);
	for (int i = 0; i < N; i++)
		l[i].key = (struct key){7, 7}, l[i].n = LINE;
	CHECK(round_shards(l, N, &a, &out) == 1 && out[0].n <= SNAPSHOT_BLOB); /* the rest is left out */
	int left = 0;
	for (int i = 0; i < N; i++)
		left += l[i].left;
	CHECK((size_t)(N - left) * (LINE + 1) == out[0].n && left > 0);
	arena_free(&a);
	free(l);
}

TEST(a_board_alone_does_not_fill_canary)
{
	struct world *w = world_new();
	for (int i = 0; i < LONE_MOST + 100; i++)
		say(w, i, 1, MS);
	from(w, 0);
	honest(w, 3, 2000, 2010, 1, MS);
	round_good(w);
	struct world_view *v = view(w, CHANNEL_CANARY);
	CHECK(v->nrec == LONE_MOST + 10);
	view_free(v);
	CHECK(on(w, 2000, 1, 1, 1));
	world_free(w);
}

TEST(classes_of_a_board_are_few)
{
	struct world *w = world_new();
	char first[33];
	snprintf(first, sizeof first, "%s", w->cls);
	for (int i = 0; i < 12; i++) {
		w->class_key.lo = (uint64_t)i;
		key_text(w->class_key, w->cls);
		say(w, 0, 1, MS);
		from(w, 0);
	}
	round_good(w);
	int n = 0;
	for (int i = 0; i < 12; i++) {
		w->class_key.lo = (uint64_t)i;
		key_text(w->class_key, w->cls);
		struct world_view *v = view(w, CHANNEL_CANARY);
		n += v->there;
		view_free(v);
	}
	CHECK(n == 8);
	CHECK_OK(fleet_flush(w->f));
	CHECK(store_exec(world_conn(w), "SELECT why FROM rejects WHERE what = 'limit'", NULL, 0, NULL,
			 NULL) == 4);
	world_free(w);
}

TEST(defaults_alone_make_no_class)
{
	struct world *w = world_new();
	for (int i = 0; i < 20; i++) {
		w->class_key.lo = (uint64_t)i;
		key_text(w->class_key, w->cls);
		struct rec r = world_rec(w, 0, 0, MS);
		r.kind = REC_DEFAULT;
		world_say(w, &r);
		from(w, 0);
	}
	round_good(w);
	struct db_conn *c = world_conn(w);
	CHECK(store_exec(c, "SELECT class FROM classes", NULL, 0, NULL, NULL) == 0);
	CHECK(store_exec(c, "SELECT key FROM kernels", NULL, 0, NULL, NULL) == 20);
	CHECK_OK(store_exec(c, "DELETE FROM gains WHERE class <> (SELECT MIN(class) FROM gains)", NULL, 0,
			    NULL, NULL));
	world_now_s += SWEEP_S;
	round_good(w); /* kernels that no word or gain names any more */
	CHECK(store_exec(c, "SELECT key FROM kernels", NULL, 0, NULL, NULL) == 1);
	world_free(w);
}

static int parts(struct world *w, char salt[33])
{
	struct world_view *v = view(w, CHANNEL_ALL);
	int n = v->s.parts;
	memcpy(salt, v->s.salt, 33);
	view_free(v);
	return n;
}

TEST(the_search_is_divided_by_boards)
{
	struct world *w = world_new();
	char salt[2][33], four[33] = "";
	for (int boards = 1; boards <= WORLD_BOARDS; boards++) {
		say(w, 0, 1, MS);
		from(w, boards - 1);
		world_now_s += 60;
		round_good(w);
		CHECK(parts(w, salt[0]) == (boards < 4 ? 0 : share_parts(boards)));
		if (boards == 4)
			memcpy(four, salt[0], sizeof four);
		if (boards >= 4)
			CHECK(*four && !strcmp(four, salt[0]));
	}
	for (int i = 0; i < 7; i++)
		CHECK_OK(store_revoke(world_conn(w), w->id[i], "gone", world_now_s));
	round_good(w);
	CHECK(parts(w, salt[1]) == 2 && !strcmp(salt[0], salt[1]));
	for (int i = 7; i < 10; i++)
		CHECK_OK(store_revoke(world_conn(w), w->id[i], "gone", world_now_s));
	round_good(w);
	CHECK(parts(w, salt[1]) == 0);
	world_free(w);
}

static int steps_left;

static int on_step(void *ctx)
{
	(void)ctx;
	return steps_left-- > 0 ? E_OK : fail(E_STOPPED, "stopped");
}

TEST(a_round_ends_when_it_is_told)
{
	struct world *w = world_new();
	int64_t last[CHANNELS] = {0};
	int stopped = 0;
	honest(w, 3, 0, 5, 1, MS);
	for (int n = 0;; n++) {
		steps_left = n;
		fleet_on_step(w->f, on_step, NULL);
		int rc = fleet_round(w->f);
		check_place(w, last);
		if (rc == 1)
			break;
		CHECK_FAILS(rc, E_STOPPED, "stopped");
		stopped++;
		honest(w, 3, 10 + n, 11 + n, 1, MS);
	}
	CHECK(stopped >= 3 && on(w, 0, 1, 1, 1) && on(w, 9 + stopped, 1, 1, 1));
	world_free(w);
}

TEST(unreadable_batches_are_skipped)
{
	struct world *w = world_new();
	honest(w, 3, 0, 1, 1, MS);
	CHECK_OK(store_exec(
	    world_conn(w),
	    "INSERT INTO batches (name, board, class, n, came_s, taken, doc) VALUES ('bad', 'x', 'y', 1, "
	    "0, 0, NULL)",
	    NULL, 0, NULL, NULL));
	round_good(w);
	CHECK(on(w, 0, 1, 1, 1));
	CHECK(store_exec(world_conn(w), "SELECT name FROM batches WHERE taken = 0", NULL, 0, NULL, NULL) ==
	      0);
	CHECK_OK(store_set(world_conn(w), "withdraw", "nonsense"));
	CHECK_FAILS(fleet_round(w->f), E_CORRUPT, "withdraw");
	world_free(w);
}

/* A word's line is as long as a record may be, whatever the length of the label that came with it. */
TEST(words_and_lines_are_bounded)
{
	struct world *w = world_new();
	struct rec r = world_rec(w, 0, 1, MS);
	char *label = arena_alloc(&w->a, STORE_WORD + 1);
	memset(label, 'l', STORE_WORD);
	r.label = label;
	world_say(w, &r);
	w->line[w->nline++] = record_big_choices(&w->a, hash_text("net"), w->class_key, 0, STORE_WORD);
	from(w, 0);
	round_good(w);
	CHECK(on(w, 0, 1, -1, -1));
	CHECK(store_exec(world_conn(w), "SELECT key FROM words", NULL, 0, NULL, NULL) == 1);
	world_free(w);
}

TEST(a_store_as_the_place)
{
	struct world *w = world_new();
	struct fake_s3 *s3 = fake_s3_start();
	char name[256];
	setenv("AWS_ENDPOINT_URL", s3->url, 1);
	setenv("AWS_REGION", FAKE_REGION, 1);
	setenv("AWS_ACCESS_KEY_ID", FAKE_ID, 1);
	setenv("AWS_SECRET_ACCESS_KEY", FAKE_SECRET, 1);
	w->conf.publish = "s3://fleet/pub";
	world_close(w);
	world_open(w);
	honest(w, 3, 0, 3, 1, MS);
	round_good(w);
	for (int c = 0; c < CHANNELS; c++) {
		snprintf(name, sizeof name, "/fleet/pub/%s/%s/snapshot", w->cls, channel_names[c]);
		CHECK(fake_s3_find(s3, name) != NULL);
	}
	CHECK(s3->nobject >= 4 && s3->wrong == 0);
	int puts = s3->puts;
	round_good(w);
	CHECK(s3->puts == puts);
	honest(w, 3, 3, 4, 1, MS);
	s3->fail = 1000, s3->fail_status = 403;
	CHECK(fleet_round(w->f) == E_USAGE);
	s3->fail = 0;
	round_good(w);
	CHECK(s3->puts > puts && s3->wrong == 0);
	world_close(w);
	fake_s3_stop(s3);
	world_open(w);
	world_free(w);
}

TEST_MAIN
