/* SPDX-License-Identifier: Apache-2.0 */
/* Finds archives of fallback kernels. They are linked as data, one for each ISA baseline, packed by zstd. A
 * file ISA.fallback.zst is used before the linked archive: in the folder hone/ beside the library (in a build
 * folder: fallback/), else in HONE_LIBDIR, where it is installed. libhone.so has the commonest kernels of the
 * lowest baseline in it, so that it runs alone.
 *
 * The linked data (tools/build/fallback.sh) reaches from hone_fallback_data to hone_fallback_end. For each
 * archive it has: the ISA in 24 bytes, the unpacked size and the packed size in 8 bytes each (little endian),
 * the zstd frame, zeros up to a multiple of 8. */
#ifndef AGENT_FALLBACK_DATA_H
#define AGENT_FALLBACK_DATA_H

#include "platform/base/file.h"

/* Returns the archive of one ISA baseline. It is unpacked at the first call and kept until the process ends.
 * E_NOTFOUND: there is none. Any thread may call it. */
int fallback_archive(const char *isa, struct blob *out) MUST_CHECK;

#endif
