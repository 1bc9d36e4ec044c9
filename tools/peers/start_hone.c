/* SPDX-License-Identifier: Apache-2.0 */
/* One process of bench-start: loads a model with an image kept in the cache folder, or one that is compiled, runs it on
 * zeros, and prints the ns from its start to the end of the first inference, the fastest of 20 more, whether the image
 * was there, how many kernels were not tuned, whether a compiler or hwloc is mapped, and the us that loading took.
 * start_hone MODEL CACHE: the process is a child, which is told when it began; whoever starts this one costs nothing. */
#include <hone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int mapped(void)
{
	char line[512];
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof line, f))
		found |= strstr(line, "LLVM") || strstr(line, "hwloc") || strstr(line, "worker");
	if (f)
		fclose(f);
	return found;
}

static int start(char **argv)
{
	char begin[32];
	char *words[] = {argv[0], argv[1], argv[2], begin, NULL};
	int status;
	pid_t pid;
	snprintf(begin, sizeof begin, "%lld", now_ns());
	pid = vfork();
	if (!pid) {
		execv("/proc/self/exe", words);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0;
}

int main(int argc, char **argv)
{
	struct hone_options o;
	struct hone_handle *h = NULL;
	struct hone_model *m = NULL;
	struct hone_model_info s;
	long long end, steady = 0;
	const char *cache = argc > 2 ? argv[2] : "";
	if (argc == 3)
		return start(argv);
	HONE_INIT(o);
	HONE_INIT(s);
	o.caches = &cache;
	o.ncaches = 1;
	o.threads = 1;
	o.flags = HONE_KEEP_IMAGES;
	if (argc < 4 || hone_open(&o, &h) < 0 || hone_load(h, argv[1], NULL, &m) < 0 || hone_run(m) < 0) {
		fprintf(stderr, "start_hone: %s\n", hone_error());
		return 1;
	}
	end = now_ns();
	for (int i = 0; i < 20; i++) {
		long long begin = now_ns(), ns;
		(void)hone_run(m);
		ns = now_ns() - begin;
		steady = !i || ns < steady ? ns : steady;
	}
	hone_summary(m, &s);
	printf("%lld %lld %d %d %d %lld\n", end - atoll(argv[3]), steady, s.from_image,
	       s.kernels[HONE_DEFAULT] - s.at_default + s.kernels[HONE_FALLBACK] +
		   s.kernels[HONE_PORTABLE],
	       mapped(), (long long)s.load_us);
	hone_model_close(m);
	hone_close(h);
	return 0;
}
