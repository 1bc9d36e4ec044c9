/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in application of tests/sh/boot.sh, built against the installed libhone.so as a robot's would be.
 *
 * robot run MODEL INPUT.npy WANTED.npy: runs MODEL once and prints one line: where its kernels come from, and
 *	whether the output is the wanted one. Exit status 1 if it is not.
 * robot witness: prints each generation of the cache that honed says is durable, as soon as it says so, and
 *ten numbers a second, by which a test finds a moment of the box. */
#include <hone.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET "/run/hone/honed.sock"
#define TOLERANCE 1e-3 /* of the largest value */

/* Reads the last bytes of a file: a .npy has its header before them. */
static float *read_values(const char *path, size_t bytes)
{
	FILE *f = fopen(path, "r");
	float *to = malloc(bytes);
	if (!f || !to || fseek(f, -(long)bytes, SEEK_END) < 0 || fread(to, 1, bytes, f) != bytes) {
		fprintf(stderr, "robot: cannot read %lu bytes of %s\n", (unsigned long)bytes, path);
		exit(1);
	}
	fclose(f);
	return to;
}

static double error_of(const float *is, const float *wanted, size_t n)
{
	double worst = 0, largest = 0;
	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)is[i] - wanted[i]);
		worst = d > worst || d != d ? d : worst;
		largest = fabs(wanted[i]) > largest ? fabs(wanted[i]) : largest;
	}
	return largest > 0 ? worst / largest : worst;
}

static int failed(const char *what)
{
	printf("robot: %s: %s\n", what, hone_error());
	return 1;
}

static int run(const char *model, const char *input, const char *wanted)
{
	struct hone_handle *h;
	struct hone_model *m;
	struct hone_tensor x, y;
	struct hone_model_info s;
	HONE_INIT(x);
	HONE_INIT(y);
	HONE_INIT(s);
	if (hone_open(NULL, &h) < 0 || hone_load(h, model, NULL, &m) < 0)
		return failed(model);
	if (hone_input(m, 0, &x) < 0 || hone_output(m, 0, &y) < 0)
		return failed(model);
	float *in = read_values(input, x.bytes), *want = read_values(wanted, y.bytes);
	memcpy(hone_input_buffer(m, 0), in, x.bytes);
	if (hone_run(m) < 0 || hone_summary(m, &s) < 0)
		return failed(model);
	double error = error_of(hone_output_buffer(m, 0), want, y.bytes / sizeof(float));
	printf("robot: %s: tuned %d of %d, %s (error %.1e)\n", model,
	       s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT],
	       s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] + s.kernels[HONE_FALLBACK] +
		   s.kernels[HONE_PORTABLE],
	       error <= TOLERANCE ? "right" : "WRONG", error);
	hone_model_close(m);
	hone_close(h);
	free(in);
	free(want);
	return !(error <= TOLERANCE);
}

/* Returns the number behind "generation": in honed's answer to `status`; -1: honed does not answer. */
static long generation(void)
{
	static char text[256 << 10];
	static const char ask[] = "{\"op\":\"status\"}\n";
	struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = SOCKET};
	size_t n = 0;
	ssize_t got = 1;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 || write(fd, ask, sizeof ask - 1) < 0)
		got = 0;
	while (got > 0 && n < sizeof text - 1) {
		got = read(fd, text + n, sizeof text - 1 - n);
		n += got > 0 ? (size_t)got : 0;
		if (n && text[n - 1] == '\n')
			break;
	}
	close(fd);
	text[n] = 0;
	const char *at = strstr(text, "\"generation\":");
	return at ? atol(at + 13) : -1;
}

static void witness(void)
{
	long last = 0;
	for (int tick = 0;; tick++) {
		long now = generation();
		if (now > last)
			printf("\nrobot: durable %ld\n", last = now);
		printf("robot: tick %d\n", tick);
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 5 && !strcmp(argv[1], "run"))
		return run(argv[2], argv[3], argv[4]);
	if (argc == 2 && !strcmp(argv[1], "witness"))
		witness(); /* never returns */
	fprintf(stderr, "usage: robot run MODEL INPUT WANTED, or robot witness\n");
	return 2;
}
