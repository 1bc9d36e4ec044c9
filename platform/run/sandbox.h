/* SPDX-License-Identifier: Apache-2.0 */
/* hone-worker's sandbox: a process that runs a stranger's record keeps only the rights that this takes.
 * Linked by hone-worker alone (libseccomp).
 *
 * sandbox_enter, called once everything is open, forbids all threads of the process, for good: opening files
 * in any way, sockets, other programs, other processes (signals, ptrace, their memory, their cpus), new
 * privileges, and memory that is executable and was ever writable: memory mapped for execution comes from a
 * descriptor, privately and read-only, and no protection changes to executable. Still allowed: memory, the
 * descriptors that are open, memory files (kernels are loaded from them), threads' waiting, the clock, a
 * place on a cpu, and the process that a candidate runs in.
 *
 * A forbidden call fails with EPERM (clone3 with ENOSYS, so that clone is tried): a library that tries
 * one goes on without, and the worker does not die of a newer C library. A candidate's own process has
 * no business with the system at all: after sandbox_cage_enter any system call but leaving kills it, and its
 * end is a measurement (MEAS_CRASH).
 *
 * Nothing here is a promise against a fault of the kernel. Memory files can be written while they are mapped
 * for execution, unless whoever makes one seals it, as platform/run/dev_cpu.c does.
 *
 * Not slower: no mitigation against speculation is asked for (it would change what is measured), and calls
 * that depend on no argument are answered from the kernel's own table. */
#ifndef PLATFORM_SANDBOX_H
#define PLATFORM_SANDBOX_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sandbox_limits {
	int64_t memory_bytes; /* address space; 0: the machine's memory */
	int64_t data_bytes;   /* of it, writable memory; 0: all */
	int cpu_s;            /* processor time */
	int64_t file_bytes;   /* size of a memory file */
	int files;            /* descriptors */
};

/* Keeps limits that were lower. Call it before threads are started, because a limit on memory may keep them
 * from starting. Sanitizers reserve more address space than any machine has, so memory is not limited under
 * them. */
int sandbox_limit(const struct sandbox_limits *l) MUST_CHECK;
/* E_UNSUPPORTED: the kernel has no system-call filters, and nothing has changed. */
int sandbox_enter(void) MUST_CHECK;

/* A filter, for free(). A process that shares the memory of its maker can install it. E_UNSUPPORTED: as
 * above. */
struct sandbox_cage;
int sandbox_cage_make(struct sandbox_cage **out) MUST_CHECK;
/* Makes one system call, nothing else; false: refused. */
bool sandbox_cage_enter(const void *cage);

#endif
