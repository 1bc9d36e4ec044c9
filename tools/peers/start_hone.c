/* SPDX-License-Identifier: Apache-2.0 */
/* One process of bench-start: loads a model with an image kept in the cache folder, runs it on zeros, and says when the
 * first inference ended (ns of the monotonic clock), the fastest of 20 more, whether the image was there, how many
 * kernels were not tuned, and whether a compiler or hwloc is mapped. start_hone MODEL CACHE */
#include <hone.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

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

int main(int argc, char **argv)
{
	struct hone_options o;
	struct hone_handle *h = NULL;
	struct hone_model *m = NULL;
	struct hone_model_info s;
	long long end, steady = 0;
	const char *cache = argc > 2 ? argv[2] : "";
	HONE_INIT(o);
	HONE_INIT(s);
	o.caches = &cache;
	o.ncaches = 1;
	o.threads = 1;
	o.flags = HONE_KEEP_IMAGES;
	if (argc < 3 || hone_open(&o, &h) < 0 || hone_load(h, argv[1], NULL, &m) < 0 || hone_run(m) < 0) {
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
	printf("%lld %lld %d %d %d %lld\n", end, steady, s.from_image,
	       s.kernels[HONE_DEFAULT] + s.kernels[HONE_FALLBACK] + s.kernels[HONE_PORTABLE], mapped(),
	       (long long)s.load_us);
	hone_model_close(m);
	hone_close(h);
	return 0;
}
