/* SPDX-License-Identifier: Apache-2.0 */
/* The table of instruction sets and their features, which target.c and target_host.c share. */
#ifndef PLATFORM_TARGET_ISA_H
#define PLATFORM_TARGET_ISA_H

#include "platform/machine/target.h"
#include "platform/machine/topo.h"

enum isa_family { ISA_X86, ISA_ARM64, ISA_ARM32 };

struct isa {
	const char *name;
	enum isa_family family;
	int level; /* within the family: higher levels run the code of lower ones */
	int lanes, regs;
	bool fma;
	bool f16; /* vectors are converted between f16 and f32 by instructions */
};

extern const struct isa isa_table[]; /* ends with name NULL; levels ascend within a family */
const struct isa *isa_find(const char *name);
void isa_apply(const struct isa *i, struct target *t);    /* isa, lanes, regs, fma */
void isa_features(const struct isa *i, struct target *t); /* the features that the level promises */
/* Sets all these from the kernel's names of the features that are here, the words of "flags" in cpuinfo, at
 * the highest level whose features are all here. Missing features are listed too ("-x"), because a CPU's name
 * implies more than a virtual machine may offer. Parts of AVX-512 without the others count as missing: LLVM
 * cannot compile some operations for such a processor. E_UNSUPPORTED: no level has all its features here. */
int isa_of_flags(const char *flags, enum isa_family family, struct target *t) MUST_CHECK;
/* Sets the revision: the file's, or the processor's stepping if the file is empty or absent. */
void isa_revision(const char *soc_path, const char *stepping, struct target *t);
#define POWER_MODE "/var/lib/nvpmodel/status" /* of a Jetson: "pmode:0002 fmode:fanNull" */
/* Sets the power mode to the first word of the file; without the file the board has one mode. */
void isa_power_mode(const char *status_path, struct target *t);
/* LLVM's name of the core with this main ID register of Arm; NULL: it has none. *rank: as isa_core_rank. */
const char *isa_core_name(uint32_t midr, int *rank);
/* The place of a core in the list of those that LLVM knows, newer ones behind; -1: it is not in it. */
int isa_core_rank(const char *core);
/* Sets what a target of this ISA takes from the cores that it is of: their kind (unless it was lowered to an
 * older level), their cluster, their number. */
void isa_cluster(const struct cluster *c, bool lowered, struct target *t);
/* target_check of the ISA cuda. */
int target_check_cuda(const struct target *t) MUST_CHECK;

#endif
