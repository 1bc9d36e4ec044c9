/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that this process runs on, from /proc/cpuinfo and sysfs: the features that the kernel makes
 * usable. (It hides AVX-512 if it does not save its registers, which cpuid alone would not show.) */
#include "platform/machine/target_isa.h"
#include "platform/machine/topo.h"

#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef __x86_64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define SOC_REVISION "/sys/devices/soc0/revision"

/* The tables hold their words, because pointers to these need relocations, which take more room.
 * level: the ISA level that needs it; 0: none does. least: the level that it needs. */
static const struct feature {
	uint8_t family, level;
	char kernel[12], llvm[12];
	uint8_t least;
} features[] = {
    {ISA_X86, 2, "pni", "sse3"},
    {ISA_X86, 2, "ssse3", "ssse3"},
    {ISA_X86, 2, "sse4_1", "sse4.1"},
    {ISA_X86, 2, "sse4_2", "sse4.2"},
    {ISA_X86, 2, "popcnt", "popcnt"},
    {ISA_X86, 2, "cx16", "cx16"},
    {ISA_X86, 3, "avx", "avx"},
    {ISA_X86, 3, "avx2", "avx2"},
    {ISA_X86, 3, "fma", "fma"},
    {ISA_X86, 3, "f16c", "f16c"},
    {ISA_X86, 3, "bmi1", "bmi"},
    {ISA_X86, 3, "bmi2", "bmi2"},
    {ISA_X86, 3, "abm", "lzcnt"},
    {ISA_X86, 3, "movbe", "movbe"},
    {ISA_X86, 4, "avx512f", "avx512f"},
    {ISA_X86, 4, "avx512bw", "avx512bw"},
    {ISA_X86, 4, "avx512cd", "avx512cd"},
    {ISA_X86, 4, "avx512dq", "avx512dq"},
    {ISA_X86, 4, "avx512vl", "avx512vl"},
    {ISA_X86, 0, "avx512_vnni", "avx512vnni", 4},
    {ISA_X86, 0, "avx512_bf16", "avx512bf16", 4},
    {ISA_X86, 0, "avx512_fp16", "avx512fp16", 4},
    {ISA_X86, 0, "avx512vbmi", "avx512vbmi", 4},
    {ISA_X86, 0, "avx_vnni", "avxvnni", 3},
    {ISA_ARM64, 1, "fp", "fp-armv8"},
    {ISA_ARM64, 1, "asimd", "neon"},
    {ISA_ARM64, 0, "asimdhp", "fullfp16", 1},
    {ISA_ARM64, 0, "asimddp", "dotprod", 1},
    {ISA_ARM64, 0, "atomics", "lse", 1},
    {ISA_ARM64, 0, "i8mm", "i8mm", 1},
    {ISA_ARM32, 1, "neon", "neon"},
    {ISA_ARM32, 0, "vfpv4", "vfp4", 1},
};
enum { FEATURES = sizeof features / sizeof features[0], AVX512_LEVEL = 4 };

/* LLVM's names. x86: vendor by its first letter, family, model range, stepping range. Arm: implementer,
 * architecture (7: 32 bits alone), part.
 */
enum { ARM32_FAMILY = 7, ARM_FAMILY };
static const struct cpu_name {
	uint8_t vendor, family;
	uint16_t model_lo, model_hi;
	uint8_t step_lo, step_hi;
	char name[16];
} cpu_names[] = {
    {'G', 6, 42, 42, 0, 99, "sandybridge"},
    {'G', 6, 45, 45, 0, 99, "sandybridge"},
    {'G', 6, 58, 58, 0, 99, "ivybridge"},
    {'G', 6, 62, 62, 0, 99, "ivybridge"},
    {'G', 6, 60, 60, 0, 99, "haswell"},
    {'G', 6, 63, 63, 0, 99, "haswell"},
    {'G', 6, 69, 70, 0, 99, "haswell"},
    {'G', 6, 61, 61, 0, 99, "broadwell"},
    {'G', 6, 71, 71, 0, 99, "broadwell"},
    {'G', 6, 79, 79, 0, 99, "broadwell"},
    {'G', 6, 86, 86, 0, 99, "broadwell"},
    {'G', 6, 78, 78, 0, 99, "skylake"},
    {'G', 6, 94, 94, 0, 99, "skylake"},
    {'G', 6, 142, 142, 0, 99, "skylake"},
    {'G', 6, 158, 158, 0, 99, "skylake"},
    {'G', 6, 85, 85, 0, 4, "skylake-avx512"},
    {'G', 6, 85, 85, 5, 7, "cascadelake"},
    {'G', 6, 85, 85, 8, 99, "cooperlake"},
    {'G', 6, 92, 92, 0, 99, "goldmont"},
    {'G', 6, 95, 95, 0, 99, "goldmont"},
    {'G', 6, 122, 122, 0, 99, "goldmont-plus"},
    {'G', 6, 134, 134, 0, 99, "tremont"},
    {'G', 6, 150, 150, 0, 99, "tremont"},
    {'G', 6, 156, 156, 0, 99, "tremont"},
    {'G', 6, 106, 106, 0, 99, "icelake-server"},
    {'G', 6, 108, 108, 0, 99, "icelake-server"},
    {'G', 6, 125, 126, 0, 99, "icelake-client"},
    {'G', 6, 140, 141, 0, 99, "tigerlake"},
    {'G', 6, 143, 143, 0, 99, "sapphirerapids"},
    {'G', 6, 151, 151, 0, 99, "alderlake"},
    {'G', 6, 154, 154, 0, 99, "alderlake"},
    {'G', 6, 183, 183, 0, 99, "alderlake"},
    {'G', 6, 186, 186, 0, 99, "alderlake"},
    {'G', 6, 190, 190, 0, 99, "alderlake"},
    {'A', 23, 0, 47, 0, 99, "znver1"},
    {'A', 23, 48, 255, 0, 99, "znver2"},
    {'A', 25, 0, 15, 0, 99, "znver3"},
    {'A', 25, 32, 95, 0, 99, "znver3"},
    {'A', 25, 16, 31, 0, 99, "znver4"},
    {'A', 25, 96, 175, 0, 99, "znver4"},
    {'A', 26, 0, 255, 0, 99, "znver5"},
    {0x41, 7, 0xc07, 0xc07, 0, 99, "cortex-a7"},
    {0x41, 7, 0xc08, 0xc08, 0, 99, "cortex-a8"},
    {0x41, 7, 0xc09, 0xc09, 0, 99, "cortex-a9"},
    {0x41, 7, 0xc0e, 0xc0e, 0, 99, "cortex-a17"},
    {0x41, 7, 0xc0f, 0xc0f, 0, 99, "cortex-a15"},
    {0x41, 8, 0xd03, 0xd03, 0, 99, "cortex-a53"},
    {0x41, 8, 0xd04, 0xd04, 0, 99, "cortex-a35"},
    {0x41, 8, 0xd05, 0xd05, 0, 99, "cortex-a55"},
    {0x41, 8, 0xd07, 0xd07, 0, 99, "cortex-a57"},
    {0x41, 8, 0xd08, 0xd08, 0, 99, "cortex-a72"},
    {0x41, 8, 0xd09, 0xd09, 0, 99, "cortex-a73"},
    {0x41, 8, 0xd0a, 0xd0a, 0, 99, "cortex-a75"},
    {0x41, 8, 0xd0b, 0xd0b, 0, 99, "cortex-a76"},
    {0x41, 8, 0xd0c, 0xd0c, 0, 99, "neoverse-n1"},
    {0x41, 8, 0xd0d, 0xd0d, 0, 99, "cortex-a77"},
    {0x41, 8, 0xd41, 0xd42, 0, 99, "cortex-a78"},
    {0x4e, 8, 0x004, 0x004, 0, 99, "carmel"},
};

/* The value of "key : value" in cpuinfo's first block, cut at the line's end; "" if absent. */
static void info_value(const char *info, const char *key, char *out, size_t room)
{
	size_t n = strlen(key);
	out[0] = 0;
	for (const char *at = info; at && *at; at = strchr(at, '\n'), at += at != NULL) {
		const char *colon = strchr(at, ':');
		if (strncmp(at, key, n) != 0 || !colon || strspn(at + n, " \t") != (size_t)(colon - at) - n)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		snprintf(out, room, "%.*s", (int)strcspn(colon, "\n"), colon);
		return;
	}
}

static long info_number(const char *info, const char *key)
{
	char v[64];
	info_value(info, key, v, sizeof v);
	return v[0] ? strtol(v, NULL, 0) : -1;
}

/* Reads once: that gives the first block, and the kernel need not render hundreds of cores. */
static size_t read_some(const char *path, char *out, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO has nothing */
	ssize_t n = fd < 0 ? 0 : read(fd, out, room - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static bool has_word(const char *words, const char *w)
{
	size_t n = strlen(w);
	for (const char *at = words; (at = strstr(at, w)); at += n)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
			return true;
	return false;
}

static void add_feature(struct target *t, char sign, const char *name)
{
	size_t n = strlen(t->features);
	snprintf(t->features + n, sizeof t->features - n, "%s%c%s", n ? "," : "", sign, name);
}

void isa_features(const struct isa *i, struct target *t)
{
	t->features[0] = 0;
	for (int f = 0; f < FEATURES; f++)
		if (features[f].family == i->family && features[f].level && features[f].level <= i->level)
			add_feature(t, '+', features[f].llvm);
}

static const struct feature *find_feature(enum isa_family family, const char *name, size_t n)
{
	for (int f = 0; f < FEATURES; f++)
		if (features[f].family == family && strlen(features[f].llvm) == n &&
		    strncmp(features[f].llvm, name, n) == 0)
			return &features[f];
	return NULL;
}

static bool is_promised(const struct feature *f, const struct isa *i)
{
	return f && f->level && f->level <= i->level;
}

void target_extras(const struct target *t, char out[sizeof t->features])
{
	const struct isa *i = isa_find(t->isa);
	size_t used = 0;
	out[0] = 0;
	for (const char *at = t->features; *at; at += *at == ',') {
		size_t n = strcspn(at, ",");
		if (*at == '+' && !(i && is_promised(find_feature(i->family, at + 1, n - 1), i)))
			used += (size_t)snprintf(out + used, sizeof t->features - used, "%s%.*s",
						 used ? "," : "", (int)n, at);
		at += n;
	}
}

static int check_features(const struct target *t, const struct isa *i)
{
	bool seen[FEATURES] = {false};
	for (const char *at = t->features; *at; at += *at == ',') {
		int n = (int)strcspn(at, ",");
		const struct feature *f =
		    *at == '+' || *at == '-' ? find_feature(i->family, at + 1, (size_t)n - 1) : NULL;
		if (!f || seen[f - features])
			return fail(E_UNSUPPORTED, "target: no feature '%.*s' of %s, or given twice", n, at,
				    i->name);
		bool needed = is_promised(f, i), possible = (f->level ? f->level : f->least) <= i->level;
		if (*at == '+' ? !possible : needed)
			return fail(E_UNSUPPORTED, "target: %s cannot have the feature '%.*s'", i->name, n,
				    at);
		seen[f - features] = *at == '+';
		at += n;
	}
	for (int f = 0; f < FEATURES; f++)
		if (features[f].family == i->family && is_promised(&features[f], i) && !seen[f])
			return fail(E_UNSUPPORTED, "target: %s without the feature '+%s'", i->name,
				    features[f].llvm);
	return E_OK;
}

/* Every name that read_cpu_name and the baselines give. */
static bool knows_cpu(const struct isa *i, const char *cpu)
{
	const struct isa *named = isa_find(cpu);
	if (strcmp(cpu, "generic") == 0 || (named && i->family == ISA_X86 && named->family == ISA_X86))
		return true;
	for (size_t c = 0; c < sizeof cpu_names / sizeof cpu_names[0]; c++)
		if (strcmp(cpu_names[c].name, cpu) == 0 &&
		    (cpu_names[c].family == ARM_FAMILY     ? i->family != ISA_X86
		     : cpu_names[c].family == ARM32_FAMILY ? i->family == ISA_ARM32
							   : i->family == ISA_X86))
			return true;
	return false;
}

void isa_cluster(const struct cluster *c, bool lowered, struct target *t)
{
	const struct isa *i = isa_find(t->isa);
	bool known = strcmp(c->core, "core") != 0;
	if (!lowered && known && i && i->family != ISA_X86 && knows_cpu(i, c->core))
		snprintf(t->cpu, sizeof t->cpu, "%s", c->core);
	if (strcmp(c->name, known ? t->cpu : c->core) != 0)
		snprintf(t->cluster, sizeof t->cluster, "%s", c->name);
	t->cores = c->cores;
}

int target_check(const struct target *t)
{
	const struct isa *i = isa_find(t->isa);
	if (strcmp(t->isa, "cuda") == 0)
		return target_check_cuda(t);
	if (!i)
		return fail(E_UNSUPPORTED, "target: unknown ISA %s", t->isa);
	if (t->lanes < 4 || t->lanes > i->lanes || (t->lanes & (t->lanes - 1)))
		return fail(E_UNSUPPORTED, "target: %s has vectors of 4 to %d lanes, not of %d", i->name,
			    i->lanes, t->lanes);
	if (!knows_cpu(i, t->cpu))
		return fail(E_UNSUPPORTED, "target: unknown processor %s of %s", t->cpu, i->name);
	if (t->schedule[0] && (i->family == ISA_X86 || !knows_cpu(i, t->schedule)))
		return fail(E_UNSUPPORTED, "target: unknown schedule %s of %s", t->schedule, i->name);
	return check_features(t, i);
}

int isa_of_flags(const char *flags, enum isa_family family, struct target *t)
{
	int level = 99;
	for (int f = 0; f < FEATURES; f++) {
		if (features[f].family != family)
			continue;
		bool here = has_word(flags, features[f].kernel);
		if (!here && features[f].level && features[f].level <= level)
			level = features[f].level - 1;
	}
	for (int f = 0; f < FEATURES; f++) {
		bool whole = level >= AVX512_LEVEL || strncmp(features[f].llvm, "avx512", 6) != 0;
		if (features[f].family == family)
			add_feature(t, whole && has_word(flags, features[f].kernel) ? '+' : '-',
				    features[f].llvm);
	}
	const struct isa *best = NULL;
	for (const struct isa *i = isa_table; i->name; i++)
		if (i->family == family && i->level <= level)
			best = i;
	if (!best)
		return fail(E_UNSUPPORTED,
			    "this processor lacks the vector instructions that kernels need (%s)",
			    family == ISA_X86 ? "SSE4.2" : "NEON");
	isa_apply(best, t);
	return E_OK;
}

int isa_core_rank(const char *core)
{
	for (size_t i = 0; i < sizeof cpu_names / sizeof cpu_names[0]; i++)
		if (cpu_names[i].family <= ARM_FAMILY && cpu_names[i].family >= ARM32_FAMILY &&
		    !strcmp(cpu_names[i].name, core))
			return (int)i;
	return -1;
}

const char *isa_core_name(uint32_t midr, int *rank)
{
	int vendor = (int)(midr >> 24), part = (int)(midr >> 4 & 0xfff);
	for (size_t i = 0; i < sizeof cpu_names / sizeof cpu_names[0]; i++) {
		const struct cpu_name *c = &cpu_names[i];
		if (c->vendor != vendor || part < c->model_lo || part > c->model_hi ||
		    (c->family != ARM_FAMILY && c->family != ARM32_FAMILY))
			continue;
		*rank = (int)i;
		return c->name;
	}
	return NULL;
}

static void read_cpu_name(int vendor, int family, int model, int step, struct target *t)
{
	const char *name = "generic";
	for (size_t i = 0; i < sizeof cpu_names / sizeof cpu_names[0]; i++) {
		const struct cpu_name *c = &cpu_names[i];
		if (c->vendor == vendor && c->family == family && model >= c->model_lo &&
		    model <= c->model_hi && step >= c->step_lo && step <= c->step_hi)
			name = c->name;
	}
	snprintf(t->cpu, sizeof t->cpu, "%s", name);
}

/* Turns a name from outside into one word of plain characters. */
static void put_word(const char *name, char *out, size_t room)
{
	size_t n = 0;
	for (; *name && n + 1 < room; name++) {
		bool plain = *name > ' ' && *name < 127 && *name != '"' && *name != '\\';
		if (plain || (n && out[n - 1] != '_'))
			out[n++] = plain ? *name : '_';
	}
	while (n && out[n - 1] == '_')
		n--;
	memset(out + n, 0, room - n);
}

static void put_soc(const char *name, struct target *t)
{
	put_word(name, t->soc, sizeof t->soc);
	if (!t->soc[0])
		snprintf(t->soc, sizeof t->soc, "unknown");
}

void isa_revision(const char *soc_path, const char *stepping, struct target *t)
{
	char v[64];
	bool known = read_some(soc_path, v, sizeof v) > 0;
	put_word(known ? v : stepping, t->rev, sizeof t->rev);
}

void isa_power_mode(const char *status_path, struct target *t)
{
	char v[256];
	read_some(status_path, v, sizeof v);
	v[strcspn(v, " \t\n")] = 0;
	put_word(v, t->mode, sizeof t->mode);
}

#if defined(__x86_64__)
enum { NEEDS_CPUINFO = true };
static int read_cpu(const char *info, const struct cluster *c, struct target *t)
{
	char v[4096];
	(void)c;
	info_value(info, "vendor_id", v, sizeof v);
	read_cpu_name(v[0], (int)info_number(info, "cpu family"), (int)info_number(info, "model"),
		      (int)info_number(info, "stepping"), t);
	info_value(info, "model name", v, sizeof v);
	put_soc(v, t);
	info_value(info, "stepping", v, sizeof v);
	isa_revision(SOC_REVISION, v, t);
	info_value(info, "flags", v, sizeof v);
	return isa_of_flags(v, ISA_X86, t);
}
#else
enum { NEEDS_CPUINFO = false };
/* The kernel's names of features as the auxiliary vector gives them: a unit may hide /proc/cpuinfo, and an
 * emulator shows that of its host. */
static void read_flags(char *out, size_t room)
{
	static const struct {
		unsigned long type, bit;
		const char *name;
	} all[] = {
#ifdef __aarch64__
	    {AT_HWCAP, HWCAP_FP, "fp"},           {AT_HWCAP, HWCAP_ASIMD, "asimd"},
	    {AT_HWCAP, HWCAP_ASIMDHP, "asimdhp"}, {AT_HWCAP, HWCAP_ASIMDDP, "asimddp"},
	    {AT_HWCAP, HWCAP_ATOMICS, "atomics"}, {AT_HWCAP2, 1UL << 13, "i8mm"},
#else
	    {AT_HWCAP, HWCAP_NEON, "neon"},
	    {AT_HWCAP, HWCAP_VFPv4, "vfpv4"},
#endif
	};
	size_t n = 0;
	out[0] = 0;
	for (size_t i = 0; i < sizeof all / sizeof *all && n < room; i++)
		if (getauxval(all[i].type) & all[i].bit)
			n += (size_t)snprintf(out + n, room - n, "%s%s", n ? " " : "", all[i].name);
}

/* The main ID register of the cores; 0: the kernel does not tell. An emulator shows its host's files, which
 * have no such register. */
static uint32_t read_midr(const struct cluster *c)
{
	uint64_t id = c->midr;
#ifdef __aarch64__
	if (!id && getauxval(AT_HWCAP) & HWCAP_CPUID)
		__asm__ volatile("mrs %0, midr_el1" : "=r"(id));
#endif
	return (uint32_t)id;
}

/* Which processor it is: the cluster's main ID register, else the first of cpuinfo. */
static void read_part(const char *info, const struct cluster *c, struct target *t, long *variant,
		      long *revision)
{
	long vendor = info_number(info, "CPU implementer"), part = info_number(info, "CPU part");
	long family = info_number(info, "CPU architecture");
	*variant = info_number(info, "CPU variant");
	*revision = info_number(info, "CPU revision");
	uint32_t id = read_midr(c);
	if (id) {
		vendor = (long)(id >> 24 & 0xff), part = (long)(id >> 4 & 0xfff), family = ARM_FAMILY;
		*variant = (long)(id >> 20 & 0xf), *revision = (long)(id & 0xf);
	}
	read_cpu_name((int)vendor, (int)family, (int)part, 0, t);
}

static int read_cpu(const char *info, const struct cluster *c, struct target *t)
{
	char v[4096];
	long variant, revision;
	read_part(info, c, t, &variant, &revision);
	if (!read_some("/sys/firmware/devicetree/base/model", v, sizeof v))
		snprintf(v, sizeof v, "%s", t->cpu);
	put_soc(v, t);
	if (variant >= 0 && revision >= 0)
		snprintf(v, sizeof v, "r%ldp%ld", variant, revision);
	else
		v[0] = 0;
	isa_revision(SOC_REVISION, v, t);
	read_flags(v, sizeof v);
	return isa_of_flags(v, sizeof(void *) == 8 ? ISA_ARM64 : ISA_ARM32, t);
}
#endif

/* A number from a cpu's sysfs file, "32K" as 32768; -1: absent. */
static long long sys_number(int cpu, const char *fmt, int index)
{
	char path[128], tail[64], v[64];
	snprintf(tail, sizeof tail, fmt, index);
	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, tail);
	if (!read_some(path, v, sizeof v))
		return -1;
	char *end;
	long long n = strtoll(v, &end, 10);
	return end == v || n < 0 || n > (1LL << 32) ? -1
	       : *end == 'K'                        ? n * 1024
	       : *end == 'M'                        ? n * 1048576
						    : n;
}

/* Boards whose device tree does not describe caches get the usual sizes of small cores. */
static void read_caches(int cpu, struct target *t)
{
	int64_t *level_bytes[4] = {NULL, &t->l1_bytes, &t->l2_bytes, &t->l3_bytes};
	for (int i = 0; i < 8; i++) {
		char path[96], type[16];
		long long level = sys_number(cpu, "cache/index%d/level", i);
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/type", cpu, i);
		if (level < 1 || level > 3 || !read_some(path, type, sizeof type) || type[0] == 'I')
			continue;
		long long bytes = sys_number(cpu, "cache/index%d/size", i);
		long long line = sys_number(cpu, "cache/index%d/coherency_line_size", i);
		if (bytes > 0)
			*level_bytes[level] = bytes;
		if (line >= 16 && line <= 4096)
			t->line_bytes = (int)line;
	}
	if (!t->l1_bytes)
		t->l1_bytes = 32768;
	if (!t->l2_bytes && !t->l3_bytes)
		t->l2_bytes = 524288;
	if (!t->line_bytes)
		t->line_bytes = 64;
}

/* Lowers the target to an older ISA level. */
static int lower_isa(const char *name, struct target *t)
{
	struct target older;
	int rc = target_baseline(name, &older);
	if (rc >= 0 && !target_runs(t, &older))
		rc = fail(E_UNSUPPORTED, "this processor is %s", t->isa);
	if (rc < 0)
		return fail_in(rc, "HONE_ISA=%.40s", name);
	isa_apply(isa_find(name), t);
	isa_features(isa_find(name), t);
	snprintf(t->cpu, sizeof t->cpu, "generic");
	return E_OK;
}

int target_host(struct target *t)
{
	char info[8192];
	struct clusters c;
	cpu_set_t may;
	int first_cpu = 0;
	*t = (struct target){0};
	if (!read_some("/proc/cpuinfo", info, sizeof info) && NEEDS_CPUINFO)
		return fail(E_IO, "cannot read /proc/cpuinfo: %s; is /proc mounted?", strerror(errno));
	const char *isa = getenv("HONE_ISA");
	topo_allowed(&may);
	topo_clusters("", &may, &c);
	int rc = read_cpu(info, &c.of[0], t);
	bool lowered = isa && *isa;
	if (rc >= 0 && lowered)
		rc = lower_isa(isa, t);
	if (rc < 0)
		return rc;
	isa_cluster(&c.of[0], lowered, t);
	isa_power_mode(POWER_MODE, t);
	(void)topo_firsts("", &c.of[0].cpus, &first_cpu, 1);
	read_caches(first_cpu, t);
	return E_OK;
}
