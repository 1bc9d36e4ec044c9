/* SPDX-License-Identifier: Apache-2.0 */
/* SANITIZED_ADDRESS: AddressSanitizer is compiled in. It reserves terabytes of addresses, so limits of
 * memory cannot be used with it. It knows which memory may be touched. Such builds also check each graph,
 * division and loop nest that they make. */
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

#endif
