/* SPDX-License-Identifier: Apache-2.0 */
/* hone-sync: runs agent/sync/sync.h from a timer or by hand. A run that is not due ends before it opens the
 * cache or contacts a server. */
#include "agent/cache/json.h"
#include "agent/control/conf.h"
#include "agent/sync/pack.h"
#include "agent/sync/sync_cache.h"
#include "agent/sync/sync_words.h"
#include "platform/base/log.h"
#include "platform/base/near.h"
#include "platform/base/options.h"
#include "platform/base/out.h"
#include "platform/base/quantity.h"
#include "platform/base/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] = /* of wrap_help */
    "usage: hone-sync\t[--now] [--folder\vDIR] [--config\vFILE] [--cache\vDIR] [--socket\vPATH] "
    "[--wait[=5m]] "
    "[--json] [-q] [-v]\n"
    "       hone-sync\t--status [--json] [--config\vFILE]\n"
    "       hone-sync\t--version | version | --help | help\n"
    "\n"
    "Takes what the board's fleet publishes into the cache, as candidates that are timed before they count, "
    "and sends what this board measured if upload = yes. Without --now it ends at once if its turn has not "
    "come yet: that comes about as often as the server asks, but within a factor of 4 of `every` in [sync] "
    "of "
    "the configuration (6h; 1m to 744h). A board with a new token joins its fleet at once, and until it has "
    "joined, it tries about every 10 minutes (less often after failures).\n"
    "\n"
    "  --now\tdo not wait for the turn (but for the time that the server asked for)\n"
    "  --folder DIR\ttake from a folder of the same files, such as a USB stick; nothing is sent\n"
    "  --status\tprint the result of the last run, and what all runs took and sent; without a run, exit 1\n"
    "  --json\tprint one JSON object on standard output: the result of the run or, with --status, the last "
    "one; if it fails, the error\n"
    "  --config FILE\tconfiguration (default " CONF_FILE "); its drop-ins lie in FILE.d\n"
    "  --cache DIR\tcache (default: as configured, else " CACHE_DAEMON ")\n"
    "  --socket PATH\tcontrol socket of honed (default: as configured)\n"
    "  --wait[=5m]\tif another process writes the cache, wait until it ends (for that long at most)\n"
    "  -q, -v\tprint less, more\n"
    "\n"
    "Exit status: 0 if the run was good, if no server was reached (without --now), or if none was due, "
    "whatever the last run did; 1 if it failed; 2 for a mistake in the command line.\n";

struct words {
	const char *conf, *folder, *cache, *socket;
	bool now, status, json, version, help;
	int64_t wait_ns; /* for another writer of the cache; INT64_MAX: without a limit */
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* `help` and `version`, as hone and hone-fleet take them. */
static int word_alone(const char *word, struct words *w)
{
	struct near n;
	near_begin(&n, word);
	near_add(&n, "help");
	near_add(&n, "version");
	w->help = !strcmp(word, "help");
	w->version = !strcmp(word, "version");
	if (w->help || w->version)
		return E_OK;
	if (n.best)
		return fail(E_USAGE, "unexpected argument '%s'; did you mean '%s'?", word, n.best);
	return fail(E_USAGE, "unexpected argument '%s'; see hone-sync --help", word);
}

static int parse(int argc, char **argv, struct words *w)
{
	enum { CONFIG = 256, FOLDER, CACHE, SOCKET, NOW, STATUS, JSON, VERSION, HELP, WAIT };
	static const struct option options[] = {{"config", required_argument, 0, CONFIG},
						{"folder", required_argument, 0, FOLDER},
						{"cache", required_argument, 0, CACHE},
						{"socket", required_argument, 0, SOCKET},
						{"now", no_argument, 0, NOW},
						{"status", no_argument, 0, STATUS},
						{"json", no_argument, 0, JSON},
						{"version", no_argument, 0, VERSION},
						{"help", no_argument, 0, HELP},
						{"wait", optional_argument, 0, WAIT},
						{"verbose", no_argument, 0, 'v'},
						{"quiet", no_argument, 0, 'q'},
						{0}};
	const char **const text[] = {&w->conf, &w->folder, &w->cache, &w->socket};
	bool *const flag[] = {&w->now, &w->status, &w->json, &w->version, &w->help};
	opterr = 0; /* options_refuse says it */
	for (int c, k = 0, at = 1; (c = getopt_long(argc, argv, "qv", options, &k)) != -1; at = optind) {
		if (c >= CONFIG && c <= SOCKET && options_check_value(argc, argv, options, k) < 0)
			return E_USAGE;
		if (c >= CONFIG && c <= SOCKET)
			*text[c - CONFIG] = optarg;
		else if (c >= NOW && c <= HELP)
			*flag[c - NOW] = true;
		else if (c == WAIT && !optarg)
			w->wait_ns = INT64_MAX;
		else if (c == WAIT && duration_parse(optarg, &w->wait_ns) < 0)
			return fail_in(E_USAGE, "--wait");
		else if (c == WAIT)
			continue;
		else if (c == 'q' || c == 'v')
			log_level_set(c == 'q' ? LOG_QUIET : LOG_VERBOSE);
		else
			return options_refuse("hone-sync", argc, argv, at, options);
	}
	return optind < argc ? word_alone(argv[optind], w) : E_OK;
}

/* Checks that the folder holds a fleet's files, so that the result of the last run is kept if it does not. */
static int look_into(const char *folder)
{
	char root[PATH_MAX + 8], blob[PATH_MAX + 8];
	snprintf(root, sizeof root, "%s/root", folder);
	snprintf(blob, sizeof blob, "%s/blob", folder);
	if (!file_is_dir(folder))
		return fail(E_NOTFOUND, "%s is not a folder", folder);
	if (access(folder, X_OK) < 0)
		return fail(E_IO, "%s: %s", folder, strerror(errno));
	if (!file_is_dir(root) && !file_is_dir(blob))
		return fail(E_NOTFOUND,
			    "no fleet's files are in %s; name the folder that has the fleet's root and blob",
			    folder);
	return E_OK;
}

/* With --folder, a run by hand neither enrols nor sends anything. */
static int choose(const struct words *w, struct sync_conf *c, char *folder)
{
	if (!w->folder)
		return E_OK;
	if (!realpath(w->folder, folder))
		return fail(E_NOTFOUND, "%s: %s", w->folder, strerror(errno));
	int rc = look_into(folder);
	if (rc < 0)
		return rc;
	c->server = folder;
	c->push = false;
	c->token = NULL;
	return E_OK;
}

/* Writes what was taken: records, which hone show lists, and choices (which groups of a model are fused). */
static void print_taken(const struct sync_sum *s, struct buf *out)
{
	const int of[CACHE_TYPES] = {[CACHE_HINT] = s->taken, [CACHE_CHOICES] = s->choices};
	bool some = s->taken || s->choices;
	if (!some && !s->fresh) {
		buf_puts(out, "nothing new to take");
		return;
	}
	exchange_words(of, out);
	buf_puts(out, some ? " taken, which this board times before it uses them" : " taken");
}

/* One line with what was taken and sent; a run of the timer in which nothing happened says nothing. */
static void tell_result(const struct sync_sum *s, const struct sync_conf *c, bool by_hand)
{
	struct buf b = {0};
	if (!s->taken && !s->choices && !s->sent && !by_hand)
		return;
	print_taken(s, &b);
	if (c->push) {
		buf_puts(&b, "; ");
		exchange_words(s->sent_of, &b);
		buf_puts(&b, " sent");
	}
	log_info("hone-sync: %s: %s", c->server, buf_str(&b));
	buf_free(&b);
}

static void tell(const struct sync_sum *s, const struct sync_conf *c, bool by_hand)
{
	const char *what = s->fresh ? "serial" : "nothing new since serial";
	log_more(
	    "hone-sync: %s: %s %lld; %d blob%s, %d record%s taken, choices for %d model%s, %d refused, %d "
	    "sent; %lld bytes down, %lld up",
	    c->server, what, (long long)s->serial, s->blobs, plural_s(s->blobs), s->taken,
	    plural_s(s->taken), s->choices, plural_s(s->choices), s->refused, s->sent,
	    (long long)s->down_bytes, (long long)s->up_bytes);
	tell_result(s, c, by_hand);
}

/* Takes the packs of the watched folder; a pack that none of the fleet's keys signed is refused. */
static int take_packs(const struct sync_conf *c, const struct sync_cache *to)
{
	char known[PATH_MAX];
	struct trust *t = NULL;
	struct taken_sum taken = {0};
	struct pack_watched sum = {.taken = &taken};
	snprintf(known, sizeof known, "%s/packs", sync_state_folder(c));
	int rc = crypto_start();
	if (rc >= 0)
		rc = trust_open(c->root, sync_state_folder(c), &t);
	if (rc >= 0)
		rc = pack_watch(sync_cache_of(to), c->watch, known, t, NULL, 0, &sum);
	trust_close(t);
	if (sum.packs || sum.refused)
		log_info("hone-sync: %s: %d pack%s taken, %d refused", c->watch, sum.packs,
			 plural_s(sum.packs), sum.refused);
	return fail_in(rc, "packs");
}

/* The error of a board that the fleet has revoked; a run of the timer fails with it once for each snapshot. */
static int refuse_revoked(const struct sync_sum *s, const struct sync_conf *c, bool by_hand, int rc)
{
	if (!s->revoked || !(s->fresh || by_hand))
		return rc;
	if (rc < 0) /* both are errors of this run */
		log_error("%s", err_text());
	return fail(E_NOTFOUND, "%s: " SYNC_REVOKED, c->server);
}

static int run_once(const struct words *w, const struct sync_conf *c, const struct sync_cache *to,
		    const struct sync_now *now)
{
	struct sync_sum sum = {0};
	int rc = sync_run(c, to, now, &sum);
	/* A run that fails keeps what it took and sent before. */
	if (rc >= 0 || sum.unsent || sum.untried || sum.taken || sum.choices || sum.sent)
		tell(&sum, c, w->now || w->folder);
	if (rc == E_IO && sum.offline && !w->now) { /* a board may be offline for years */
		log_more("hone-sync: %s", err_text());
		rc = E_OK;
	}
	return refuse_revoked(&sum, c, w->now || w->folder, rc);
}

/* When root starts hone-sync by hand, it switches to the owner of the state folder, as the unit would. */
static int be_its_user(const struct sync_conf *c)
{
	struct stat st;
	if (geteuid() != 0 || stat(sync_state_folder(c), &st) < 0 || st.st_uid == 0)
		return E_OK;
	if (setgroups(0, NULL) < 0 || setgid(st.st_gid) < 0 || setuid(st.st_uid) < 0)
		return fail(E_IO, "cannot switch to user %u, the owner of %s: %s", (unsigned)st.st_uid,
			    sync_state_folder(c), strerror(errno));
	return E_OK;
}

/* Prints the result of the last run, for programs or in words. */
static int print_status(const struct words *w, const struct sync_conf *c, const struct sync_now *now)
{
	struct buf b = {0};
	if (!sync_status(c, now, &b) && w->status) {
		buf_free(&b);
		return fail(E_NOTFOUND,
			    "%s holds no result of a run; hone-sync --now makes one with this configuration",
			    sync_state_folder(c));
	}
	json_t *j = buf_ok(&b) ? json_loads(buf_str(&b), 0, NULL) : NULL;
	buf_free(&b);
	if (w->json || !j)
		return json_out(j);
	sync_words(j);
	json_decref(j);
	return E_OK;
}

static void tell_wait(const struct sync_conf *c, int64_t wait_ns, void (*say)(const char *fmt, ...))
{
	struct buf wait = {0};
	char why[1024];
	bool failed = sync_failed(c, why, sizeof why);
	duration_words((double)wait_ns / NS_PER_S, &wait);
	if (failed)
		say("hone-sync: the last run failed: %s", why);
	say("hone-sync: the next run is due in %s; %s--now does not wait for it", buf_str(&wait),
	    failed ? "when you have corrected the cause, " : "");
	buf_free(&wait);
}

/* Returns whether a run against the server is due. */
static bool is_due(const struct words *w, const struct sync_conf *c, const struct sync_now *now)
{
	/* The timer starts it often: only a person is told why nothing happens. */
	void (*say)(const char *fmt, ...) = log_to_journal() ? log_more : log_info;
	if (!c->server && !w->folder && !c->watch)
		say("hone-sync: nothing to do: server is not set in [sync] of %s",
		    w->conf ? w->conf : CONF_FILE);
	int64_t wait_ns = !c->server ? 1 : w->now || w->folder ? 0 : sync_due(c, now);
	if (c->server && wait_ns > 0)
		tell_wait(c, wait_ns, say);
	return wait_ns == 0;
}

static int do_due(const struct words *w, const struct conf *conf, const struct sync_conf *c,
		  const struct sync_now *now)
{
	struct sync_cache to;
	bool due = is_due(w, c, now), packs = c->watch && !w->folder && file_is_dir(c->watch);
	struct sync_cache_options o = {.dir = w->cache      ? w->cache
					      : conf->cache ? conf->cache
							    : CACHE_DAEMON,
				       .socket = w->socket               ? w->socket
						 : getenv("HONE_SOCKET") ? NULL
									 : conf->socket,
				       .state = sync_state_folder(c),
				       .server = c->server,
				       .clock = now->clock,
				       .wait_ns = w->wait_ns,
				       .stop = &stop};
	if (!due && !packs)
		return E_OK;
	int rc = sync_cache_open(&o, &to);
	if (rc < 0) /* E_USAGE is kept for the command line */
		return rc == E_USAGE && !w->cache ? fail_in(E_CORRUPT, "cache") : rc;
	int watched = packs ? take_packs(c, &to) : E_OK;
	if (watched < 0)
		log_info("hone-sync: %s", err_text());
	rc = due ? run_once(w, c, &to, now) : E_OK;
	sync_cache_close(&to);
	return rc < 0 ? rc : watched;
}

static int work(const struct words *w, struct arena *a)
{
	char boot[64], folder[PATH_MAX];
	struct conf conf;
	struct sync_conf c;
	sync_boot(boot, sizeof boot);
	const struct sync_now now = {.clock = &clock_real, .date_s = time(NULL), .boot = boot, .stop = &stop};
	int rc = w->conf ? conf_given(w->conf) : E_OK;
	if (rc >= 0)
		rc = conf_read(w->conf ? w->conf : CONF_FILE, a, &conf);
	if (rc >= 0)
		rc = sync_conf_read(&conf, &c);
	if (rc >= 0)
		rc = choose(w, &c, folder);
	if (rc < 0)
		return rc == E_USAGE ? fail_in(E_CORRUPT, "configuration")
				     : rc; /* E_USAGE is kept for the command line */
	if (w->status)
		return print_status(w, &c, &now);
	if (w->now && !c.server && !c.watch)
		return fail(E_NOTFOUND, "no fleet is configured: set server in [sync] of %s",
			    w->conf ? w->conf : CONF_FILE);
	rc = be_its_user(&c);
	if (rc >= 0)
		rc = do_due(w, &conf, &c, &now);
	return rc >= 0 && w->json ? print_status(w, &c, &now) : rc;
}

/* Makes descriptors 0, 1 and 2 exist, ignores SIGPIPE, and makes malloc use one heap and return free
 * memory. */
static void settle(void)
{
	for (int fd; (fd = open("/dev/null", O_RDWR)) >= 0;)
		if (fd > 2) {
			close(fd);
			break;
		}
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TRIM_THRESHOLD, 64 << 10);
	(void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	umask(022);
}

/* Whether --json is among the words, also behind one that cannot be parsed. */
static bool asks_json(int argc, char **argv)
{
	bool json = false;
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		json |= !strcmp(argv[i], "--json");
	return json;
}

static int print_version(const struct words *w)
{
	if (w->json)
		return json_out(json_pack("{ss ss}", "name", "hone-sync", "version", HONE_VERSION));
	printf("hone-sync %s\n", HONE_VERSION);
	return E_OK;
}

int main(int argc, char **argv)
{
	struct words w = {0};
	struct arena a = {0};
	settle();
	log_program_set("hone-sync");
	log_journal_set(log_to_journal());
	int rc = parse(argc, argv, &w);
	w.json |= asks_json(argc, argv);
	if (rc >= 0 && w.help)
		wrap_help(usage);
	else if (rc >= 0)
		rc = w.version ? print_version(&w) : work(&w, &a);
	if (rc >= 0)
		rc = out_flush();
	int status = rc == E_USAGE ? 2 : rc < 0;
	if (rc < 0)
		log_error("%s", err_text());
	if (rc < 0 && w.json)
		json_out_error(rc, status);
	arena_free(&a);
	return status;
}
