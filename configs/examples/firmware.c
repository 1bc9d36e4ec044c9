/* SPDX-License-Identifier: Apache-2.0 */
/* A network in a program without an operating system below it: nothing of hone is linked.
 *   hone zoo steering -o steering.onnx
 *   hone compile steering.onnx --c -o .
 *   cc -O3 firmware.c steering.c steering_kernels.o steering_weights.o -pthread -o firmware
 * Two cores share each kernel. The second one's loop runs in a thread here, so that the example runs on a PC;
 * on a board core1 is what the second core does after its start. Without one: steering_run(&io, arena). */
#include "steering.h"

#include <pthread.h>
#include <stdio.h>

static unsigned char arena[STEERING_ARENA_BYTES_FOR(2)] __attribute__((aligned(STEERING_ARENA_ALIGN)));
static float camera[STEERING_IN_CAMERA_ELEMS], angle[STEERING_OUT_ANGLE_ELEMS];

/* The second core's share of a kernel; `posted` and `finished` count them. */
static struct {
	steering_range *fn;
	void *ctx;
	int64_t begin, end;
	unsigned posted, finished;
} share;

static void *core1(void *unused)
{
	for (unsigned n = 1;; n++) {
		while (__atomic_load_n(&share.posted, __ATOMIC_ACQUIRE) != n)
			; /* or sleep until an event */
		if (!share.fn)
			return unused;
		share.fn(share.ctx, 1, share.begin, share.end);
		__atomic_store_n(&share.finished, n, __ATOMIC_RELEASE);
	}
}

static void post(steering_range *fn, void *ctx, int64_t begin, int64_t end)
{
	share.fn = fn;
	share.ctx = ctx;
	share.begin = begin;
	share.end = end;
	__atomic_store_n(&share.posted, share.posted + 1, __ATOMIC_RELEASE);
}

static void both_cores(void *unused, steering_range *fn, void *ctx, int64_t extent)
{
	(void)unused;
	post(fn, ctx, extent / 2, extent);
	fn(ctx, 0, 0, extent / 2);
	while (__atomic_load_n(&share.finished, __ATOMIC_ACQUIRE) != share.posted)
		;
}

static void take_picture(int frame)
{
	for (int i = 0; i < STEERING_IN_CAMERA_ELEMS; i++)
		camera[i] = (float)((i * 37 + frame * 11) % 101) / 101 - 0.5f;
}

int main(void)
{
	const struct steering_io io = {.in_camera = camera, .out_angle = angle};
	pthread_t second;
	if (pthread_create(&second, NULL, core1, NULL) != 0)
		return 1;
	steering_init(arena);
	for (int frame = 0; frame < 10; frame++) {
		take_picture(frame);
		if (steering_run_parallel(&io, arena, 2, both_cores, NULL) != 0)
			return 1;
		printf("frame %d: angle %g\n", frame, (double)angle[0]);
	}
	post(NULL, NULL, 0, 0);
	return pthread_join(second, NULL);
}
