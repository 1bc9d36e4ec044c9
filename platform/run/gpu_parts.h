/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to gpu_state.c: the two sources. Both may hang. */
#ifndef PLATFORM_GPU_PARTS_H
#define PLATFORM_GPU_PARTS_H

#include "platform/run/gpu_state.h"

struct nvml;
int nvml_open(const char *library, const char *uuid, struct nvml **out) MUST_CHECK;
void nvml_read(const struct nvml *n, struct gpu_state *out); /* numbers as the library gives them */
void nvml_close(struct nvml *n);

struct jetson;
/* Whether the board has NVIDIA's Tegra, by its device tree or, where a container hides that, the GPU's files.
 */
bool jetson_is(const char *root);
int jetson_open(const char *root, struct jetson **out) MUST_CHECK;
void jetson_read(struct jetson *j, struct gpu_state *out);
void jetson_close(struct jetson *j);

#endif
