/* SPDX-License-Identifier: Apache-2.0 */
/* What target.c and target_host.c share: the table of instruction sets and of their features. */
#ifndef PLATFORM_TARGET_ISA_H
#define PLATFORM_TARGET_ISA_H

#include "platform/machine/target.h"

enum isa_family { ISA_X86, ISA_ARM64, ISA_ARM32 };

struct isa {
	const char *name;
	enum isa_family family;
	int level; /* within the family: higher runs lower */
	int lanes, regs;
	bool fma;
};

extern const struct isa isa_table[]; /* ends with name NULL; levels ascend within a family */
const struct isa *isa_find(const char *name);
void isa_apply(const struct isa *i, struct target *t);    /* isa, lanes, regs, fma */
void isa_features(const struct isa *i, struct target *t); /* the features that the level promises */
/* Whose file says nothing: the processor's stepping. */
void isa_revision(const char *soc_path, const char *stepping, struct target *t);
/* The first word of the file; none: the board has one mode. */
void isa_power_mode(const char *status_path, struct target *t);

#endif
