/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a process may still take. */
#ifndef PLATFORM_ROOM_H
#define PLATFORM_ROOM_H

#include <stdint.h>

/* The smaller of the system's available memory and of what the limits of this process's control groups (v2)
 * leave; INT64_MAX: not known. root: of the system's files, "" for the real ones. */
int64_t room_bytes(const char *root);

#endif
