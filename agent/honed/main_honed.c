/* SPDX-License-Identifier: Apache-2.0 */
/* honed: the agent on the board; agent/honed/honed.h driven by agent/honed/honed_loop.h.
 *
 * A boot that has nothing to do reads the configuration and the marks, looks at the models' and the cache's
 * files, and ends without opening the cache. */
#include "agent/honed/honed_loop.h"
#include "agent/control/sync_conf.h"
#include "agent/honed/examine.h"
#include "agent/honed/marks.h"
#include "kernels/library/library.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/options.h"
#include "platform/base/out.h"
#include "platform/base/quantity.h"
#include "platform/base/wrap.h"
#include "platform/machine/sysfile.h"
#include "platform/machine/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] = /* of wrap_help */
    "usage: honed\t[--boot\v[--budget\v20s]] [--config\vFILE] [--socket\vPATH] [--run\vDIR] [--state\vDIR] "
    "[--sysroot\vDIR] [--hone\vFILE] [--verbose]\n"
    "       honed\t--check [--config\vFILE] [--socket\vPATH] [--run\vDIR] [--state\vDIR] [--hone\vFILE]\n"
    "       honed\t--version\n"
    "\n"
    "Tunes the models of its configuration while the board is idle, and keeps the results.\n"
    "\n"
    "  --boot\ttune in one time box, for use at boot, then exit\n"
    "  --budget TIME\tlength of the box; overrides hone.budget= of the kernel's command line, and the "
    "configuration\n"
    "  --check\tread the configuration and the models, and print all mistakes, a line each; exit 1 if there "
    "are any\n"
    "  --config FILE\tconfiguration (default " CONF_FILE "); its drop-ins lie in FILE.d\n"
    "  --socket PATH\tcontrol socket (default: with --run, honed.sock in its folder; else as configured)\n"
    "  --run DIR\trun folder (default $RUNTIME_DIRECTORY, else /run/hone)\n"
    "  --state DIR\tstate that survives a reboot, and the cache if none is configured (default "
    "$STATE_DIRECTORY, else /var/lib/hone)\n"
    "  --sysroot DIR\tread /sys and /proc below DIR, for tests\n"
    "  --hone FILE\tthe program that tunes (default: hone beside honed)\n"
    "  --verbose\tlog more\n"
    "\n"
    "hone status shows what honed is doing. Manual: honed(8).\n";

/* hone devices ends drivers that do not answer, before this */
#define DEVICES_NS (30 * NS_PER_S)
/* The models of a start are examined within this time. */
#define EXAMINE_NS (60 * NS_PER_S)

struct words {
	struct loop_options o; /* conf NULL: CONF_FILE, which may be missing */
	bool check, version, help;
};

static int parse(int argc, char **argv, struct words *w)
{
	enum { CONFIG = 1, SOCKET, RUN, STATE, SYSROOT, HONE, BUDGET, BOOT, CHECK, VERBOSE, VERSION, HELP };
	static const struct option options[] = {{"config", required_argument, 0, CONFIG},
						{"socket", required_argument, 0, SOCKET},
						{"run", required_argument, 0, RUN},
						{"state", required_argument, 0, STATE},
						{"sysroot", required_argument, 0, SYSROOT},
						{"hone", required_argument, 0, HONE},
						{"budget", required_argument, 0, BUDGET},
						{"boot", no_argument, 0, BOOT},
						{"check", no_argument, 0, CHECK},
						{"verbose", no_argument, 0, VERBOSE},
						{"version", no_argument, 0, VERSION},
						{"help", no_argument, 0, HELP},
						{0}};
	const char **const text[] = {[CONFIG] = &w->o.conf, [SOCKET] = &w->o.socket,   [RUN] = &w->o.run,
				     [STATE] = &w->o.state, [SYSROOT] = &w->o.sysroot, [HONE] = &w->o.job};
	bool *const flag[] = {[BOOT] = &w->o.box,
			      [CHECK] = &w->check,
			      [VERBOSE] = &w->o.verbose,
			      [VERSION] = &w->version,
			      [HELP] = &w->help};
	int rc = E_OK, k = 0;
	opterr = 0; /* options_refuse says it */
	for (int c, at = 1; rc >= 0 && (c = getopt_long(argc, argv, "", options, &k)) != -1; at = optind) {
		if (c >= CONFIG && c <= BUDGET && options_check_value(argc, argv, options, k) < 0)
			return E_USAGE;
		if (c >= CONFIG && c <= HONE)
			*text[c] = optarg;
		else if (c == BUDGET)
			rc = fail_in(duration_parse(optarg, &w->o.budget_ns), "--budget");
		else if (c >= BOOT && c <= HELP)
			*flag[c] = true;
		else
			return options_refuse("honed", argc, argv, at, options);
	}
	if (rc >= 0 && optind < argc)
		rc = fail(E_USAGE, "unexpected argument '%s'%s (see honed --help)", argv[optind],
			  file_exists(argv[optind]) ? "; a configuration is given by --config" : "");
	return rc;
}

/* The first folder of the list that the service manager passes in the environment. */
static const char *folder(const char *name, const char *otherwise)
{
	const char *s = getenv(name);
	if (!s || *s != '/')
		return otherwise;
	char *first = strndup(s, strcspn(s, ":"));
	return first ? first : otherwise;
}

/* Clients in other folders hear of these paths, so that a relative one would mean another file there. */
static void make_absolute(const char **path)
{
	char *cwd, *whole;
	if (!*path || !**path || **path == '/' || !(cwd = getcwd(NULL, 0)))
		return;
	if (asprintf(&whole, "%s/%s", cwd, *path) >= 0)
		*path = whole;
	free(cwd);
}

static void choose_folders(struct loop_options *o)
{
	static char self[PATH_MAX], job[PATH_MAX + 8], socket[PATH_MAX];
	make_absolute(&o->conf);
	make_absolute(&o->socket);
	make_absolute(&o->run);
	make_absolute(&o->state);
	if (o->run && !o->socket && snprintf(socket, sizeof socket, "%s/honed.sock", o->run) > 0)
		o->socket = socket;
	o->conf = o->conf ? o->conf : CONF_FILE;
	o->sysroot = o->sysroot ? o->sysroot : "";
	o->run = o->run ? o->run : folder("RUNTIME_DIRECTORY", "/run/hone");
	o->state = o->state ? o->state : folder("STATE_DIRECTORY", "/var/lib/hone");
	if (!o->job && file_self_dir(self, sizeof self) >= 0) {
		snprintf(job, sizeof job, "%s/hone", self);
		o->job = job;
	}
	o->job = o->job ? o->job : HONE_LIBDIR "/hone";
}

/* Keeps memory small: one heap for both threads, and unused memory goes back to the system. */
static void stay_small(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TRIM_THRESHOLD, 64 << 10);
	(void)mallopt(M_TOP_PAD, 16 << 10);
	(void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
}

/* Makes sure that descriptors 0, 1 and 2 are open, ignores SIGPIPE, and raises the limit of descriptors so
 * that all clients fit. */
static void settle(void)
{
	struct rlimit files;
	for (int fd; (fd = open("/dev/null", O_RDWR)) >= 0;)
		if (fd > 2) {
			close(fd);
			break;
		}
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 4096) {
		files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* Identity of the target and of the worker's file, which stands for the emitter's version. */
static int identify(struct loop *l)
{
	struct target t;
	struct stat st = {0};
	char path[PATH_MAX];
	const char *worker = getenv("HONE_WORKER"), *slash = strrchr(l->o.job, '/');
	int n =
	    snprintf(path, sizeof path, "%.*shone-worker", slash ? (int)(slash - l->o.job) + 1 : 0, l->o.job);
	int rc = target_host(&t);
	if (rc < 0)
		return rc;
	if (worker || n < (int)sizeof path)
		(void)!stat(worker ? worker : path, &st);
	const int64_t file[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
	l->id = hash_join(target_key(&t), hash_bytes(file, sizeof file));
	return E_OK;
}

/* Takes --budget, else the kernel's command line, else the configuration. */
static void choose_budget(struct loop *l)
{
	char text[4096];
	if (l->o.budget_ns >= 0)
		return;
	l->o.budget_ns = l->conf->boot_budget_ns;
	if (sysfile_line(l->o.sysroot, "/proc/cmdline", text, sizeof text) &&
	    conf_cmdline_budget(text, &l->o.budget_ns) < 0)
		log_error("%s", err_text());
}

static int choose_cache(struct loop *l)
{
	int n = l->conf->cache ? asprintf(&l->cache, "%s", l->conf->cache)
			       : asprintf(&l->cache, "%s/cache", l->o.state);
	return n < 0 ? fail(E_NOMEM, "no memory") : E_OK;
}

/* Marks hold for a cache that has all that it had when they were written. Those of a former version, or of a
 * box that was cut off before it opened the cache, do not say what that was. */
static void doubt_marks(const struct loop *l, struct marks *m)
{
	struct inventory now = {0};
	char what[80] = "nothing that can be read";
	int lacks = inventory_is_known(&m->cache) ? inventory_compare(l->cache, &m->cache, &now) : 1;
	(void)malloc_trim(0);
	if (!lacks)
		return;
	if (lacks < 0)
		log_error("%s", err_text());
	else
		inventory_say(&m->cache, &now, what, sizeof what);
	if (marks_doubt(m) && inventory_is_known(&m->cache))
		log_info("honed: " CACHE_LACKS, l->cache, what);
	m->cache = now;
}

static void read_marks(const struct loop *l, struct marks *m)
{
	char path[PATH_MAX];
	*m = (struct marks){0};
	int rc = snprintf(path, sizeof path, "%s/marks", l->o.state) < (int)sizeof path
		     ? marks_read(path, marks_day(), m)
		     : E_NOTFOUND;
	if (rc < 0 && rc != E_NOTFOUND)
		log_error("%s; every model is examined again", err_text());
	if (m->n)
		doubt_marks(l, m);
}

/* Blocks all signals: honed ends already, so another order to end changes nothing. */
static void hear_no_more(void)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

/* Says that clients which read the configuration look at another socket than that of the command line. */
static void tell_socket(const struct conf *c, const struct loop_options *o)
{
	if (o->socket && strcmp(c->socket, CONTROL_SOCKET) && strcmp(c->socket, o->socket))
		log_info("honed: warning: the socket is %s, as the command line says; socket = %s of %s is "
			 "not used, so give hone --socket %s, or remove one of the two",
			 o->socket, c->socket, o->conf, o->socket);
}

/* Says which paths this honed works with: a user who starts it by hand may not know that they are the
 * system's. */
static void tell_start(const struct loop *l)
{
	const bool by_manager = l->notify.listen_fds > 0;
	log_info("honed: starts: configuration %s%s, socket %s, cache %s, state %s (--config, --socket, "
		 "--run and --state choose others)",
		 l->o.conf, conf_given(l->o.conf) < 0 ? " (which does not exist)" : "",
		 by_manager ? "of the service manager" : l->o.socket, l->cache, l->o.state);
}

static void tell_models(const struct loop *l)
{
	if (!l->conf->nmodels)
		log_info("honed: %s: no model is configured, so there is nothing to tune; add a section "
			 "[model NAME] with path = FILE",
			 l->o.conf);
}

/* Whether it is the first of its section, which has one for each device. */
static bool is_first(const struct conf *c, int i)
{
	return !i || strcmp(c->model[i].name, c->model[i - 1].name) != 0;
}

/* Whether a job has served this file. */
static bool was_served(const struct marks *m, struct key k)
{
	for (int i = 0; i < m->n; i++)
		if (key_equal(m->model[i].model, k))
			return m->model[i].boxed || m->model[i].now_ms > 0;
	return false;
}

/* Whether the start examines it: its file can be read, and honed knows of no job that could use it. */
static bool is_new(const struct loop *l, int i, const struct marks *known)
{
	return i < HONED_MODELS && is_first(l->conf, i) && !l->model[i].refused &&
	       !was_served(known, l->model[i].key);
}

/* Says it in the log and, through the pipe that its standard input is, to honed. */
static void tell_fault(const struct loop *l, int i, const char *why)
{
	const struct conf_model *m = &l->conf->model[i];
	struct loop_fault f = {.key = l->model[i].key};
	log_error("%s:%d: model %s: %s", m->file, m->line, m->name, why);
	snprintf(f.text, sizeof f.text, "%s", why);
	(void)!write(STDIN_FILENO, &f, sizeof f);
}

/* Runs in a process of its own. */
static void examine_all(const struct loop *l, const struct marks *known)
{
	const int64_t end_ns = clock_now(&clock_real) + EXAMINE_NS;
	for (int i = 0; i < l->conf->nmodels; i++) {
		const struct conf_model *m = &l->conf->model[i];
		struct buf why = {0};
		int64_t left_ns = end_ns - clock_now(&clock_real);
		int rc = is_new(l, i, known) ? examine_model(l->o.job, m, left_ns, &why) : E_OK;
		if (rc >= 0 && why.n)
			tell_fault(l, i, buf_str(&why));
		buf_free(&why);
		if (rc < 0) {
			log_more("honed: %s:%d: model %s: %s", m->file, m->line, m->name, err_text());
			return;
		}
	}
}

/* A job may have as much (agent/honed/honed_jobs.c). */
static int64_t memory_of_child(const struct loop *l)
{
	return l->conf->job_memory_bytes > 0 ? l->conf->job_memory_bytes
					     : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

/* Names the models that no job could tune, as one without the shape that it needs, before the machine is
 * idle. It examines only files that no job has served. A child imports them, with the limits of a job. honed
 * does not wait for it, and it ends after EXAMINE_NS, or when honed ends. */
static void examine_new(struct loop *l, const struct marks *known)
{
	bool any = false;
	int ends[2];
	l->faults_fd = -1;
	loop_models_look(l);
	for (int i = 0; i < l->conf->nmodels && !any; i++)
		any = is_new(l, i, known);
	if (l->o.box || !any)
		return;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		log_error("new models are not examined: %s", strerror(errno));
		return;
	}
	fflush(NULL);
	const pid_t parent = getpid();
	l->examiner = fork();
	if (l->examiner == 0) {
		(void)dup2(ends[1], STDIN_FILENO);
		loop_confine(parent, memory_of_child(l));
		examine_all(l, known);
		_exit(0);
	}
	l->faults_fd = ends[0];
	close(ends[1]);
}

/* The error names the first mistake of the configuration alone. */
static int point_to_check(const struct loop *l, int rc)
{
	char text[1024];
	snprintf(text, sizeof text, "%s", err_text());
	return rc == E_USAGE ? fail(rc, "%s; `honed --check --config %s` lists all mistakes", text, l->o.conf)
			     : rc;
}

static int serve(struct loop *l)
{
	struct marks marks;
	int rc = loop_conf(l, l->o.conf);
	if (rc < 0)
		return point_to_check(l, rc);
	if (rc >= 0 && !l->o.socket)
		l->o.socket = strdup(l->conf->socket);
	if (rc >= 0)
		log_level_set(l->o.verbose ? LOG_VERBOSE : (enum log_level)l->conf->log);
	if (rc >= 0)
		rc = choose_cache(l);
	if (rc >= 0)
		rc = identify(l);
	if (rc >= 0)
		rc = loop_socket(l);
	if (rc < 0)
		return rc;
	tell_start(l); /* only now: another honed may run here, and this one refuse to start */
	tell_models(l);
	tell_socket(l->conf, &l->o);
	choose_budget(l);
	read_marks(l, &marks);
	examine_new(l, &marks);
	rc = loop_open(l, &marks);
	if (rc >= 0)
		rc = loop_run(l);
	if (notify_send(&l->notify, "STOPPING=1") < 0)
		log_more("honed: %s", err_text());
	hear_no_more();
	loop_close(l);
	loop_socket_close(l);
	return rc;
}

/* Finds what is wrong with a model's file. A program that cannot be started is not the model's fault. */
static const char *fault_of(const struct loop *l, int i, struct buf *why)
{
	if (l->model[i].refused)
		return l->model[i].refused;
	if (examine_model(l->o.job, &l->conf->model[i], INT64_MAX, why) < 0)
		log_error("%s", err_text());
	return why->n ? buf_str(why) : NULL;
}

static int sections(const struct conf *c)
{
	int n = 0;
	for (int i = 0; i < c->nmodels; i++)
		n += is_first(c, i);
	return n;
}

/* Prints the models whose files cannot be used and returns their number. A path that is itself a mistake was
 * reported before. */
static int check_models(struct loop *l, const struct conf *c)
{
	int bad = 0;
	loop_models_look(l);
	for (int i = 0; i < c->nmodels; i++) {
		const struct conf_model *m = &c->model[i];
		struct buf why = {0};
		const char *fault = *m->path && is_first(c, i) ? fault_of(l, i, &why) : NULL;
		if (fault)
			printf("%s:%d: model %s: %s\n", m->file, m->line, m->name, fault);
		bad += fault != NULL;
		buf_free(&why);
	}
	return bad;
}

/* Whether a list as of examine_devices has the name. */
static bool lists(const char *names, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = names; (p = strstr(p, name)); p += n)
		if (!p[n] || p[n] == ',')
			return true;
	return false;
}

/* Notes devices that do not answer now. That is no mistake: the file may be for boards that have them, and a
 * job whose device is absent is tried again later. */
static void check_devices(const struct loop *l, const struct conf *c)
{
	struct buf names = {0};
	bool asked = false, known = false;
	for (int i = 0; i < c->nmodels; i++) {
		const struct conf_model *m = &c->model[i];
		if (!m->device)
			continue;
		if (!asked && !(known = examine_devices(l->o.job, DEVICES_NS, &names) >= 0))
			log_info("honed: note: the devices are not known: %s", err_text());
		asked = true;
		if (known && !lists(buf_str(&names), m->device))
			log_info("honed: note: %s:%d: model %s: no device %s answers now, so honed cannot "
				 "tune it there; "
				 "there are: " CONF_CPU "%s%s (hone devices says more)",
				 m->file, m->line, m->name, m->device, names.n ? ", " : "", buf_str(&names));
	}
	buf_free(&names);
}

/* Tries to make a folder in this one, or in the nearest one above it that exists: root passes access() also
 * where nothing can be made, as in /proc. */
static int try_folder(const char *what, const char *path, const char *by)
{
	char part[PATH_MAX], temp[PATH_MAX + 16];
	snprintf(part, sizeof part, "%s", path);
	for (char *slash; access(part, F_OK) < 0 && errno != EACCES && (slash = strrchr(part, '/'));)
		slash[slash == part] = 0;
	snprintf(temp, sizeof temp, "%s/.hone-XXXXXX", part);
	if (mkdtemp(temp)) {
		(void)rmdir(temp);
		return E_OK;
	}
	int why = errno;
	int rc = fail(E_IO, "%s %s cannot be %s: %s: %s; name another folder (%s)", what, path,
		      strcmp(part, path) ? "made" : "written", part, strerror(why), by);
	errno = why;
	return rc;
}

static int state_folder(const char *path)
{
	errno = 0;
	return file_exists(path) && !file_is_dir(path)
		   ? fail(E_IO, "state folder %s is a file: remove it, or name another folder (--state)",
			  path)
		   : try_folder("state folder", path, "--state");
}

static int cache_folder(const char *path)
{
	int rc = store_refuse(path);
	errno = 0; /* check_folders asks why */
	if (rc >= 0)
		rc = cache_refuse_unwritable(path);
	return rc < 0 ? rc : try_folder("cache", path, "cache in [honed] of honed.conf");
}

/* Prints the folders that honed could not use and returns their number. What a user may not write is no
 * mistake: honed may run as another one. */
static int check_folders(const struct loop *l, const struct conf *c)
{
	const struct {
		const char *path;
		int (*check)(const char *path);
	} folders[] = {{l->cache, cache_folder}, {l->o.state, state_folder}};
	int bad = 0;
	for (int i = 0; i < 2; i++) {
		if (folders[i].check(folders[i].path) >= 0)
			continue;
		bool others = geteuid() && (errno == EACCES || errno == EPERM);
		if (others)
			log_info("honed: note: %s; that is right if honed runs as another user", err_text());
		else if (!i && c->cache)
			printf("%s:%d: %s\n", c->cache_file, c->cache_line, err_text());
		else
			printf("%s\n", err_text());
		bad += !others;
	}
	return bad;
}

/* Notes models of level int8 that no job can quantise yet. That is no mistake: the file may be older than the
 * examples. */
static void check_recipes(const struct loop *l, const struct conf *c)
{
	for (int i = 0; i < c->nmodels; i++) {
		const struct conf_model *m = &c->model[i];
		if (m->level != LEVEL_INT8 || !*m->path || !is_first(c, i) ||
		    !examine_needs_examples(l->o.job, m, l->cache))
			continue;
		log_info("honed: note: %s:%d: model %s: level int8 needs examples of inputs, which %s does "
			 "not have, so honed cannot tune it yet: hone tune %s --level int8 --data DIR "
			 "--cache %s",
			 m->file, m->line, m->name, l->cache, m->path, l->cache);
	}
}

/* Returns the number of files of boards that are wrong. A program that cannot be started is reported with the
 * models. */
static int check_boards(const struct loop *l)
{
	struct buf mistakes = {0};
	int n = examine_boards(l->o.job, &mistakes);
	printf("%s", buf_str(&mistakes));
	buf_free(&mistakes);
	return n > 0 ? n : 0;
}

/* Notes libraries of the user's own that are not there. That is no mistake: they may be installed later. */
static void check_libraries(const struct conf *c)
{
	for (int i = 0; i < c->nmodels; i++) {
		const struct conf_model *m = &c->model[i];
		char name[LIBRARY_FILE];
		for (const char *at = is_first(c, i) ? m->library : NULL;
		     at && (at = library_next(at, name));)
			if (*name == '/' && !file_exists(name))
				log_info("honed: note: %s:%d: model %s: library %s is not there: the "
					 "model's jobs fail until it is installed",
					 m->file, m->line, m->name, name);
	}
}

static int check(struct loop *l)
{
	struct arena a = {0};
	struct conf c;
	struct buf mistakes = {0};
	int n = conf_check(l->o.conf, &a, &c, &mistakes), bad = 0, folders = 0, boards = check_boards(l);
	if (n >= 0)
		n += sync_conf_gaps(&c, &mistakes);
	printf("%s", buf_str(&mistakes)); /* those found before an error, too */
	l->conf = &c;
	if (n >= 0 && choose_cache(l) < 0)
		n = E_NOMEM;
	if (n >= 0) {
		bad = check_models(l, &c);
		folders = check_folders(l, &c);
		if (conf_given(l->o.conf) < 0)
			printf(
			    "%s does not exist, so the defaults hold; it is optional, but names the models\n",
			    l->o.conf);
		printf("%s: %d model%s\n", l->o.conf, sections(&c), plural_s(sections(&c)));
	}
	fflush(stdout); /* so that it comes before the error where both go into one pipe */
	if (n >= 0)
		tell_socket(&c, &l->o);
	if (n >= 0) {
		check_devices(l, &c);
		check_recipes(l, &c);
		check_libraries(&c);
	}
	buf_free(&mistakes);
	l->conf = NULL;
	arena_free(&a);
	if (n > 0) /* not E_USAGE: the command line was right */
		return fail(E_CORRUPT, "%s: %d mistake%s in the configuration%s%s; correct the lines above",
			    l->o.conf, n, plural_s(n), bad ? ", and model files that cannot be used" : "",
			    folders ? ", and folders that cannot be used" : "");
	if (bad)
		return fail(E_NOTFOUND, "model files that cannot be used: %d", bad);
	if (n >= 0 && folders)
		return fail(E_IO, "folders that honed cannot use: %d; the lines above say what to do",
			    folders);
	if (n >= 0 && boards)
		return fail(
		    E_CORRUPT,
		    "files of boards that cannot be used: %d; mend or remove those of the lines above",
		    boards);
	return n < 0 ? E_CORRUPT : E_OK;
}

static int run(int argc, char **argv)
{
	static struct loop l;
	struct words w = {.o.budget_ns = -1};
	int rc = parse(argc, argv, &w);
	if (rc < 0)
		return rc;
	l.o = w.o;
	if (w.o.conf && !w.help && !w.version)
		rc = conf_given(w.o.conf);
	if (rc < 0)
		return rc;
	choose_folders(&l.o);
	notify_init(&l.notify);
	if (*l.o.sysroot)
		setenv("HONE_SYSROOT", l.o.sysroot, 1); /* so that jobs look at the same board */
	if (w.help)
		wrap_help(usage);
	else if (w.version)
		printf("honed %s\n", HONE_VERSION);
	else
		rc = w.check ? check(&l) : serve(&l);
	return rc;
}

int main(int argc, char **argv)
{
	stay_small();
	settle();
	log_program_set("honed");
	log_journal_set(log_to_journal());
	int rc = run(argc, argv);
	if (rc < 0)
		log_error("%s", err_text());
	return out_end(rc < 0 ? (rc == E_USAGE ? 2 : 1) : 0);
}
