/* SPDX-License-Identifier: Apache-2.0 */
/* Which sanitizers are compiled in.
 *
 * SANITIZED_ADDRESS: AddressSanitizer, as with SAN=1 and in fuzz targets. It reserves terabytes of addresses,
 * so limits of memory cannot be used with it. It knows which memory may be touched. SANITIZED_THREAD:
 * ThreadSanitizer (SAN=thread). SANITIZED: one of them; times and memory then mean little.
 *
 * Builds with SANITIZED_ADDRESS also check what they make, and end at what is broken: each graph after each
 * pass (graph_check in kernels/graph/optimize.c), each division of a graph (steps_check in
 * kernels/group/group.c) and each loop nest (loops_check in kernels/loops/lower.c). Other builds check only
 * the loop nests that they compile (kernels/emit/emit_llvm.c). To add a check: write a function X_check that
 * returns E_CORRUPT and a text, and behind the code that makes an X
 *
 *	assert(!SANITIZED_ADDRESS || rc < 0 || X_check(x) >= 0); */
#ifndef PLATFORM_SANITIZED_H
#define PLATFORM_SANITIZED_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZED_ADDRESS 1
#else
#define SANITIZED_ADDRESS 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#else
#define SANITIZED_THREAD 0
#endif
#define SANITIZED (SANITIZED_ADDRESS || SANITIZED_THREAD)

#endif
