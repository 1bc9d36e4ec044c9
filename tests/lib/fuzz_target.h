/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated machine of the fuzz targets that read candidates. */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include "platform/machine/target.h"

static const struct target fuzz_target = {.isa = "sim",
					  .cpu = "sim",
					  .lanes = 4,
					  .regs = 16,
					  .fma = true,
					  .l1_bytes = 32 << 10,
					  .l2_bytes = 256 << 10,
					  .line_bytes = 64,
					  .cores = 1,
					  .fma_gflops = 8,
					  .bw_gbs = {16, 12, 4, 4},
					  .copy_gbs = 4};

#endif
