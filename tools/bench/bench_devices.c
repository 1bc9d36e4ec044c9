/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-devices: two devices at once, one pinned core each. A real honed tunes two generated models, one
 * on the processor and one on an OpenCL device: each alone, then both side by side. PoCL is held to one
 * thread, which stays on its job's core. Tables:
 *
 * leases: how much processor time the worker of each job, and the job itself, used while the job had no
 * lease, as a share of all that it used; a worker's is at most 1 %. Every few ms honed says which leases are
 * held, and /proc how much time was used. Time counts as outside if the job had no lease in the samples
 * before and after, nor one between them
 *
 * kernels: times of the default schedules, which do not depend on the search, beside another job as a share
 * of those alone; the median of the tasks is within 10 %
 *
 * trials: s until both jobs have made so many trials, together and one after another
 *
 * ARGS="[--trials 40] [--seconds 45] [--device opencl:0]": each of the three runs ends after the trials, or
 * the seconds at the latest; fewer trials are compared then. It needs two cores that nothing else uses. */
#include "agent/control/client.h"
#include "kernels/onnx/import.h"
#include "platform/base/file.h"
#include "tools/hone/zoo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAMPLE_NS (4 * NS_PER_MS)
#define SCAN_NS (200 * NS_PER_MS) /* between searches for new threads */
#define START_NS (20 * NS_PER_S)  /* until a job has started */
#define OUTSIDE_MOST 0.01
#define SLOWER_MOST 0.10
enum {
	JOBS = 2,
	MOST_TRIALS = 1000,
	MOST_THREADS = 64,
	MOST_PROCESSES = 32,
	MOST_KERNELS = 256,
	MOST_SECONDS = 48
};

static const char *const names[JOBS] = {"on-cpu", "on-device"};

struct thread {
	int id, fd; /* fd: of its schedstat, which costs less to read than to find; id 0: it has ended */
	bool is_worker;
	int64_t used_ns; /* at the last sample */
};

struct sample {
	bool free; /* no lease */
	int leases;
};

/* What one job did in one run; times of processors in ns. [0]: of the job itself, [1]: of its workers. */
struct job {
	pid_t pid;
	int64_t start_ns, scanned_ns;
	struct thread thread[MOST_THREADS];
	struct sample last[2]; /* the last samples, the newer one first */
	int64_t since[2];      /* used between these two */
	int64_t used[2], outside[2];
	int64_t seen_ns, free_ns, last_ns;
	int trials;
	int64_t at_ns[MOST_TRIALS + 1]; /* since start_ns, when so many trials had been made; 0: not yet */
};

struct kernel {
	char task[40];
	double ms;
};

struct run {
	struct job job[JOBS];
	int nkernels[JOBS];
	struct kernel kernel[JOBS][MOST_KERNELS];
};

struct bench {
	int trials, seconds;
	const char *device;
	char dir[64], program[PATH_MAX];
	pid_t pid;
	struct client *client;
};

static int64_t now(void)
{
	return clock_now(&clock_real);
}

/* Processor time; < 0: the thread has ended. */
static int64_t used_by(int fd)
{
	char text[64];
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return n > 0 ? strtoll(text, NULL, 10) : -1;
}

static bool read_text(const char *path, char *out, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, out, n - 1);
	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = 0;
	return got > 0;
}

/* What a thread used before it was found does not count. */
static void add_thread(struct job *j, int process, int id, bool is_worker)
{
	char path[80];
	struct thread *t = NULL;
	for (int i = 0; i < MOST_THREADS; i++) {
		if (j->thread[i].id == id)
			return;
		if (!t && !j->thread[i].id)
			t = &j->thread[i];
	}
	snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, id);
	int fd = t ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0)
		*t = (struct thread){.id = id, .fd = fd, .is_worker = is_worker, .used_ns = used_by(fd)};
}

/* Adds the threads of a process, and its children to the list. */
static void scan_process(struct job *j, int process, int list[MOST_PROCESSES], int *n)
{
	char path[80], text[1024];
	snprintf(path, sizeof path, "/proc/%d/comm", process);
	bool is_worker = read_text(path, text, sizeof text) && !strcmp(text, "hone-worker\n");
	snprintf(path, sizeof path, "/proc/%d/task", process);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		add_thread(j, process, atoi(e->d_name), is_worker);
		snprintf(path, sizeof path, "/proc/%d/task/%.12s/children", process, e->d_name);
		if (!read_text(path, text, sizeof text))
			continue;
		for (char *p = text, *end; *n < MOST_PROCESSES; p = end) {
			long child = strtol(p, &end, 10);
			if (end == p || child <= 0)
				break;
			list[(*n)++] = (int)child;
		}
	}
	if (d)
		closedir(d);
}

static void find_threads(struct job *j)
{
	int list[MOST_PROCESSES] = {(int)j->pid}, n = 1;
	for (int i = 0; i < n; i++)
		scan_process(j, list[i], list, &n);
	j->scanned_ns = now();
}

static void read_times(struct job *j, int64_t used[2])
{
	used[0] = used[1] = 0;
	for (int i = 0; i < MOST_THREADS; i++) {
		struct thread *t = &j->thread[i];
		int64_t ns = t->id ? used_by(t->fd) : 0;
		if (ns < 0) {
			close(t->fd);
			t->id = 0;
		} else if (t->id) {
			used[t->is_worker] += ns - t->used_ns;
			t->used_ns = ns;
		}
	}
	if (now() - j->scanned_ns > SCAN_NS)
		find_threads(j);
}

static void forget_threads(struct job *j)
{
	for (int i = 0; i < MOST_THREADS; i++)
		if (j->thread[i].id)
			close(j->thread[i].fd);
}

/* Processor times are read after honed's answer, so a lease may have been granted in between: what was used
 * between the two readings before counts as outside if this answer, too, says that there has been none. */
static void take_sample(struct job *j, const json_t *row)
{
	struct sample s = {!json_is_string(json_object_get(row, "lease")),
			   (int)json_integer_value(json_object_get(row, "leases"))};
	int64_t used[2], at_ns = now();
	bool out = s.free && j->last[0].free && j->last[1].free && s.leases == j->last[0].leases &&
		   s.leases == j->last[1].leases;
	for (int k = 0; k < 2; k++)
		j->outside[k] += out ? j->since[k] : 0;
	if (j->last_ns) {
		j->seen_ns += at_ns - j->last_ns;
		j->free_ns += s.free && j->last[0].free ? at_ns - j->last_ns : 0;
	}
	j->last_ns = at_ns;
	j->last[1] = j->last[0];
	j->last[0] = s;
	read_times(j, used);
	for (int k = 0; k < 2; k++) {
		j->since[k] = used[k];
		j->used[k] += used[k];
	}
	int trials = (int)json_integer_value(json_object_get(row, "trials"));
	for (int t = j->trials + 1; t <= trials && t <= MOST_TRIALS; t++)
		j->at_ns[t] = at_ns - j->start_ns;
	j->trials = trials > j->trials ? trials : j->trials;
}

static int ask_status(struct bench *b, json_t **out)
{
	const char *line;
	int rc = client_ask(b->client, &(struct request){.op = OP_STATUS}, now() + 10 * NS_PER_S, &line);
	if (rc >= 0 && !(*out = json_loads(line, 0, NULL)))
		rc = fail(E_CORRUPT, "honed's status is no JSON");
	return rc;
}

/* Takes a sample of each job; > 0: all that are wanted have made their trials. */
static int look(struct bench *b, struct run *r, unsigned wanted)
{
	json_t *status, *row;
	size_t i;
	bool all = true;
	int rc = ask_status(b, &status);
	if (rc < 0)
		return rc;
	json_array_foreach(json_object_get(status, "jobs"), i, row)
	{
		const char *model = json_string_value(json_object_get(row, "model"));
		pid_t pid = (pid_t)json_integer_value(json_object_get(row, "pid"));
		for (int k = 0; k < JOBS; k++) {
			struct job *j = &r->job[k];
			if (!model || strcmp(model, names[k]) || pid <= 0 || (j->pid && j->pid != pid))
				continue;
			if (!j->pid) {
				j->start_ns = now();
				j->pid = pid;
				find_threads(j);
			}
			take_sample(j, row);
		}
	}
	json_decref(status);
	for (int k = 0; k < JOBS; k++)
		all = all && (!(wanted >> k & 1) || r->job[k].trials >= b->trials);
	return all;
}

static int write_conf(const struct bench *b, const char *path, unsigned wanted)
{
	struct buf t = {0};
	buf_puts(&t, "[idle]\nsettle = 1s\nslice = 10m\nload = 100\npressure = 100\nheadroom = 1\n"
		     "[limits]\nwrites = 1G\n");
	for (int k = 0; k < JOBS; k++)
		if (wanted >> k & 1)
			buf_printf(&t, "[model %s]\npath = %s/%s.onnx\nthreads = 1\ndevice = %s\n", names[k],
				   b->dir, names[k], k ? b->device : "cpu");
	int rc = buf_ok(&t) ? file_write(path, t.p, t.n) : E_NOMEM;
	buf_free(&t);
	return rc;
}

static int start(struct bench *b, unsigned wanted, const char *state)
{
	char conf[256], socket[256], log[256], honed[PATH_MAX + 16];
	int rc = file_mkdirs(state, 0755);
	snprintf(conf, sizeof conf, "%s/honed.conf", state);
	snprintf(socket, sizeof socket, "%s/honed.sock", state);
	snprintf(log, sizeof log, "%s/log", state);
	snprintf(honed, sizeof honed, "%s/honed", b->program);
	if (rc >= 0)
		rc = write_conf(b, conf, wanted);
	if (rc < 0)
		return rc;
	b->pid = fork();
	if (b->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("HONE_SEEDS", "", 1);
		int out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		(void)!dup2(out, 2);
		execl(honed, "honed", "--config", conf, "--run", state, "--state", state, NULL);
		_exit(127);
	}
	for (int i = 0; i < 100 && (rc = client_open(socket, now() + NS_PER_S, &b->client)) < 0; i++)
		clock_real.sleep(&clock_real, 50 * NS_PER_MS);
	return rc;
}

static void stop(struct bench *b)
{
	client_close(b->client);
	b->client = NULL;
	if (b->pid > 0) {
		kill(b->pid, SIGTERM);
		waitpid(b->pid, NULL, 0);
	}
	b->pid = 0;
}

static void show_log(const char *state)
{
	char line[400];
	snprintf(line, sizeof line, "%s/log", state);
	FILE *f = fopen(line, "re");
	while (f && fgets(line, sizeof line, f))
		fputs(line, stderr);
	if (f)
		fclose(f);
}

/* Takes the times of default schedules from the records that a run has left. */
static int take_kernels(const struct bench *b, const char *state, struct run *r)
{
	char words[PATH_MAX + 128];
	snprintf(words, sizeof words, "%s/hone show --json -q --cache %s/cache", b->program, state);
	FILE *f = popen(words, "re");
	json_t *all = f ? json_loadf(f, 0, NULL) : NULL, *row;
	size_t i;
	if (f)
		pclose(f);
	json_array_foreach(json_object_get(all, "record_list"), i, row)
	{
		const char *kind = json_string_value(json_object_get(row, "record_kind"));
		const char *task = json_string_value(json_object_get(row, "task_key"));
		const char *device = json_string_value(json_object_get(row, "device"));
		double ms = json_number_value(json_object_get(row, "median_ms"));
		int k = device && strcmp(device, "cpu") != 0;
		if (!kind || strcmp(kind, "default") || !task || ms <= 0 || r->nkernels[k] == MOST_KERNELS)
			continue;
		struct kernel *to = &r->kernel[k][r->nkernels[k]++];
		snprintf(to->task, sizeof to->task, "%s", task);
		to->ms = ms;
	}
	json_decref(all);
	return all ? E_OK : fail(E_CORRUPT, "hone show gave no JSON");
}

static int run(struct bench *b, unsigned wanted, struct run *r)
{
	char state[128];
	snprintf(state, sizeof state, "%s/state%u", b->dir, wanted);
	int rc = start(b, wanted, state);
	for (int64_t end_ns = now() + b->seconds * NS_PER_S; rc == 0 && now() < end_ns;) {
		rc = look(b, r, wanted);
		clock_real.sleep(&clock_real, SAMPLE_NS);
		for (int k = 0; k < JOBS && rc == 0; k++)
			if (wanted >> k & 1 && !r->job[k].pid &&
			    end_ns - now() < b->seconds * NS_PER_S - START_NS)
				rc = fail(E_TIMEOUT, "honed does not tune %s", names[k]);
	}
	stop(b);
	for (int k = 0; k < JOBS; k++)
		forget_threads(&r->job[k]);
	if (rc >= 0)
		rc = take_kernels(b, state, r);
	if (rc < 0)
		show_log(state);
	return rc;
}

static const char *verdict(bool good)
{
	return good ? "yes" : "NO";
}

static void print_leases(const char *how, const struct run *r)
{
	for (int k = 0; k < JOBS; k++) {
		const struct job *j = &r->job[k];
		if (!j->pid || j->seen_ns <= 0)
			continue;
		double worker = j->used[1] > 0 ? (double)j->outside[1] / (double)j->used[1] : 0;
		double own = j->used[0] > 0 ? (double)j->outside[0] / (double)j->used[0] : 0;
		printf("leases, %-9s %-6s: none for %4.1f %% of %.1f s; outside of them the worker used %.2f "
		       "%% of "
		       "its %.0f ms (at most 1 %%: %s), the job %.1f %% of its %.0f ms\n",
		       names[k], how, 100.0 * (double)j->free_ns / (double)j->seen_ns,
		       (double)j->seen_ns / 1e9, 100 * worker, (double)j->used[1] / 1e6,
		       verdict(worker <= OUTSIDE_MOST), 100 * own, (double)j->used[0] / 1e6);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void print_kernels(int k, const struct run *alone, const struct run *both)
{
	double share[MOST_KERNELS];
	int n = 0;
	for (int i = 0; i < alone->nkernels[k]; i++)
		for (int m = 0; m < both->nkernels[k]; m++)
			if (!strcmp(alone->kernel[k][i].task, both->kernel[k][m].task) && n < MOST_KERNELS)
				share[n++] = both->kernel[k][m].ms / alone->kernel[k][i].ms;
	if (!n) {
		printf("kernels, %-9s: no default schedule was measured in both runs\n", names[k]);
		return;
	}
	qsort(share, (size_t)n, sizeof *share, by_value);
	double mid = share[n / 2];
	printf("kernels, %-9s: beside, %d default schedules take %.3f of their times alone (%.3f to %.3f); "
	       "within 10 "
	       "%%: %s\n",
	       names[k], n, mid, share[0], share[n - 1],
	       verdict(mid <= 1 + SLOWER_MOST && mid >= 1 - SLOWER_MOST));
}

static void print_trials(const struct bench *b, const struct run alone[JOBS], const struct run *both)
{
	double apart = 0, together = 0;
	printf("trials:");
	for (int k = 0; k < JOBS; k++) {
		const struct job *one = &alone[k].job[k], *beside = &both->job[k];
		int n = b->trials;
		n = one->trials < n ? one->trials : n;
		n = beside->trials < n ? beside->trials : n;
		if (n < 1) {
			printf(" %s made none in both runs\n", names[k]);
			return;
		}
		double s = (double)beside->at_ns[n] / 1e9;
		apart += (double)one->at_ns[n] / 1e9;
		together = s > together ? s : together;
		printf(" %d of %s;", n, names[k]);
	}
	printf(" together %.1f s, one after another %.1f s: %.2f of that\n", together, apart,
	       apart > 0 ? together / apart : 0);
}

static int make_models(const struct bench *b)
{
	int rc = E_OK;
	for (int k = 0; k < JOBS && rc >= 0; k++) {
		char path[128];
		struct graph *g;
		snprintf(path, sizeof path, "%s/%s.onnx", b->dir, names[k]);
		rc = zoo_make("steering", 1, &g);
		if (rc < 0)
			break;
		rc = export_file(g, path);
		graph_free(g);
	}
	return rc;
}

static int prepare(struct bench *b)
{
	char dir[PATH_MAX - 16];
	snprintf(b->dir, sizeof b->dir, "/tmp/hone-devices-XXXXXX");
	int rc = file_self_dir(dir, sizeof dir);
	if (rc >= 0 && !mkdtemp(b->dir))
		rc = fail(E_IO, "/tmp: %s", strerror(errno));
	if (rc < 0)
		return rc;
	snprintf(b->program, sizeof b->program, "%s/..", dir);
	setenv("POCL_CACHE_DIR", b->dir, 1);
	setenv("POCL_MAX_PTHREAD_COUNT", "1", 1); /* PoCL until 4 */
	setenv("POCL_CPU_MAX_CU_COUNT", "1", 1);  /* from 5 on */
	return make_models(b);
}

static void clean(const struct bench *b)
{
	char words[96];
	snprintf(words, sizeof words, "rm -rf %s", b->dir);
	if (*b->dir && system(words) != 0)
		fprintf(stderr, "%s stays\n", b->dir);
}

static int bench(struct bench *b)
{
	static struct run alone[JOBS], both;
	int rc = prepare(b);
	for (int k = 0; k < JOBS && rc >= 0; k++) {
		rc = run(b, 1u << k, &alone[k]);
		if (rc >= 0)
			print_leases("alone", &alone[k]);
	}
	if (rc >= 0)
		rc = run(b, (1u << JOBS) - 1, &both);
	if (rc >= 0) {
		print_leases("beside", &both);
		for (int k = 0; k < JOBS; k++)
			print_kernels(k, &alone[k], &both);
		print_trials(b, alone, &both);
	}
	clean(b);
	return rc;
}

int main(int argc, char **argv)
{
	enum { TRIALS = 1, SECONDS, DEVICE };
	static const struct option options[] = {{"trials", required_argument, 0, TRIALS},
						{"seconds", required_argument, 0, SECONDS},
						{"device", required_argument, 0, DEVICE},
						{0}};
	struct bench b = {.trials = 40, .seconds = 45, .device = "opencl:0"};
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == TRIALS)
			b.trials = atoi(optarg);
		else if (c == SECONDS)
			b.seconds = atoi(optarg);
		else if (c == DEVICE)
			b.device = optarg;
		else
			return 2;
	}
	if (b.trials < 1 || b.trials > MOST_TRIALS || b.seconds < 1 || b.seconds > MOST_SECONDS ||
	    optind < argc)
		return 2;
	if (sysconf(_SC_NPROCESSORS_ONLN) < JOBS) {
		fprintf(stderr, "bench-devices: it needs two cores\n");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(178); /* honed and its jobs end with this process */
	int rc = bench(&b);
	if (rc < 0)
		fprintf(stderr, "bench-devices: %s\n", err_text());
	return rc < 0;
}
