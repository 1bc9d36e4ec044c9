/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a target, the baselines, and which code runs on which target. target_host.c reads the host. */
#include "platform/base/mix.h"
#include "platform/machine/target.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/machine/target_isa.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

const struct isa isa_table[] = {
    {"x86-64-v2", ISA_X86, 2, 4, 16, false, false},    {"x86-64-v3", ISA_X86, 3, 8, 16, true, true},
    {"x86-64-v4", ISA_X86, 4, 16, 32, true, true},     {"armv8-a", ISA_ARM64, 1, 4, 32, true, true},
    {"armv7-neon", ISA_ARM32, 1, 4, 16, false, false}, {NULL},
};

const struct isa *isa_find(const char *name)
{
	for (const struct isa *i = isa_table; i->name; i++)
		if (strcmp(i->name, name) == 0)
			return i;
	return NULL;
}

void isa_apply(const struct isa *i, struct target *t)
{
	snprintf(t->isa, sizeof t->isa, "%s", i->name);
	t->lanes = i->lanes;
	t->regs = i->regs;
	t->fma = i->fma;
}

/* A baseline has the caches and cores of a small board, so that its kernels run well anywhere. */
int target_baseline(const char *isa, struct target *t)
{
	const struct isa *i = isa_find(isa);
	if (!i) {
		struct buf names = {0};
		for (i = isa_table; i->name; i++)
			buf_printf(&names, " %s", i->name);
		int rc = fail(E_NOTFOUND, "unknown baseline '%s'; there are:%s", isa, buf_str(&names));
		buf_free(&names);
		return rc;
	}
	*t = (struct target){.l1_bytes = 32768, .l2_bytes = 524288, .line_bytes = 64, .cores = 1};
	isa_apply(i, t);
	snprintf(t->soc, sizeof t->soc, "baseline");
	snprintf(t->cpu, sizeof t->cpu, "%s", i->family == ISA_X86 ? i->name : "generic");
	isa_features(i, t);
	return E_OK;
}

/* Checks that every "+x" of `need` is in `have`. */
static bool has_features(const char *have, const char *need)
{
	char word[64];
	for (const char *at = need; *at; at += *at == ',') {
		size_t n = strcspn(at, ",");
		if (*at == '+' && n < sizeof word - 2) {
			size_t len = (size_t)snprintf(word, sizeof word, "%.*s", (int)n, at);
			const char *f = have;
			while ((f = strstr(f, word)) && f[len] && f[len] != ',')
				f += len;
			if (!f)
				return false;
		}
		at += n;
	}
	return true;
}

bool target_has(const struct target *t, const char *features)
{
	return has_features(t->features, features);
}

bool target_converts_f16(const struct target *t)
{
	const struct isa *i = isa_find(t->isa);
	return target_runs_items(t) || (i && i->f16);
}

bool target_multiplies_bf16(const struct target *t)
{
	return target_has(t, "+avx512bf16");
}

bool target_sums_f16(const struct target *t)
{
	bool arm = !strcmp(t->isa, "armv8-a") && target_has(t, "+fullfp16");
	return arm || !strcmp(t->isa, "cuda") || (target_runs_items(t) && target_has(t, "+cl_khr_fp16"));
}

bool target_exchanges(const struct target *t)
{
	return !strcmp(t->isa, "cuda") ||
	       (target_runs_items(t) &&
		(target_has(t, "+cl_khr_subgroup_shuffle") || target_has(t, "+cl_intel_subgroups")));
}

/* Whether it is a GPU of at least this architecture and this version of PTX. */
static bool has_ptx(const struct target *t, int least_sm, int least_ptx)
{
	int sm = 0, ptx = 0;
	return !strcmp(t->isa, "cuda") && sscanf(t->cpu, "sm_%d", &sm) == 1 &&
	       sscanf(t->features, "+ptx%d", &ptx) == 1 && sm >= least_sm && ptx >= least_ptx;
}

bool target_loads_matrices(const struct target *t)
{
	return has_ptx(t, 75, 65);
}

bool target_multiplies_fragments(const struct target *t, const char *type)
{
	static const struct {
		const char *type;
		int sm, ptx;
	} rows[] = {{"f16", 70, 60}, {"i8", 72, 63}, {"u8", 72, 63}, {"bf16", 80, 70}, {"f32", 80, 70}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(rows[i].type, type))
			return has_ptx(t, rows[i].sm, rows[i].ptx);
	return false;
}

bool target_textures(const struct target *t)
{
	return target_runs_items(t) && target_has(t, "+textures");
}

bool target_in_order(const struct target *t)
{
	static const char *const cpus[] = {"cortex-a7", "cortex-a8", "cortex-a35", "cortex-a53",
					   "cortex-a55"};
	for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++)
		if (!strcmp(t->cpu, cpus[i]))
			return true;
	return false;
}

bool target_multiplies_blocks(const struct target *t)
{
	return !strcmp(t->isa, "armv8-a") && target_has(t, "+i8mm");
}

bool target_runs(const struct target *have, const struct target *need)
{
	const struct isa *h = isa_find(have->isa), *n = isa_find(need->isa);
	bool level =
	    h && n ? h->family == n->family && h->level >= n->level : strcmp(have->isa, need->isa) == 0;
	return level && have->lanes >= need->lanes && has_features(have->features, need->features);
}

enum { FRESH_S = 60 };
enum kind { WORD, OPTIONAL, INT, INT64, BOOL, REAL, FLOOR, LIMIT };

/* The text: isa first, then "key=value" in this order. Words hold no spaces; an optional word that is empty
 * is left out, and so are a limit of 0 and floors that are all 0. Reals are the peaks. */
static const struct field {
	char key[10];
	uint8_t kind, count;
	uint16_t at, bytes; /* bytes: room of a word */
	double most;
} fields[] = {
    {"soc", WORD, 1, offsetof(struct target, soc), sizeof((struct target *)0)->soc, 0},
    {"rev", OPTIONAL, 1, offsetof(struct target, rev), sizeof((struct target *)0)->rev, 0},
    {"mode", OPTIONAL, 1, offsetof(struct target, mode), sizeof((struct target *)0)->mode, 0},
    {"cpu", WORD, 1, offsetof(struct target, cpu), sizeof((struct target *)0)->cpu, 0},
    {"cluster", OPTIONAL, 1, offsetof(struct target, cluster), sizeof((struct target *)0)->cluster, 0},
    {"schedule", OPTIONAL, 1, offsetof(struct target, schedule), sizeof((struct target *)0)->schedule, 0},
    {"lanes", INT, 1, offsetof(struct target, lanes), 0, 64},
    {"regs", INT, 1, offsetof(struct target, regs), 0, 256},
    {"fused", BOOL, 1, offsetof(struct target, fma), 0, 1},
    {"l1", INT64, 1, offsetof(struct target, l1_bytes), 0, 1e12},
    {"l2", INT64, 1, offsetof(struct target, l2_bytes), 0, 1e12},
    {"l3", INT64, 1, offsetof(struct target, l3_bytes), 0, 1e12},
    {"line", INT, 1, offsetof(struct target, line_bytes), 0, 4096},
    {"cores", INT, 1, offsetof(struct target, cores), 0, 65536},
    {"group", LIMIT, 1, offsetof(struct target, group), 0, TARGET_MOST_GROUP},
    {"serial", LIMIT, 1, offsetof(struct target, serial), 0, 1},
    {"fma", REAL, 1, offsetof(struct target, fma_gflops), 0, 1e9},
    {"bw", REAL, 4, offsetof(struct target, bw_gbs), 0, 1e9},
    {"copy", REAL, 1, offsetof(struct target, copy_gbs), 0, 1e9},
    {"launch", FLOOR, 2, offsetof(struct target, launch_ns), 0, 1e9},
    {"feat", WORD, 1, offsetof(struct target, features), sizeof((struct target *)0)->features, 0},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

/* The shortest decimal that reads back the same. */
static void put_real(struct buf *out, double v)
{
	char s[40];
	for (int digits = 4; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*g", digits, v);
		if (strtod(s, NULL) == v)
			break;
	}
	buf_puts(out, s);
}

static bool any_real(const double *v, int n)
{
	for (int i = 0; i < n; i++)
		if (v[i] > 0)
			return true;
	return false;
}

static void put_field(const struct field *f, const struct target *t, struct buf *out)
{
	const char *p = (const char *)t + f->at;
	if ((f->kind == OPTIONAL && !*p) || (f->kind == LIMIT && !*(const int *)p) ||
	    (f->kind == FLOOR && !any_real((const double *)p, f->count)))
		return;
	buf_printf(out, " %s=", f->key);
	switch (f->kind) {
	case WORD:
	case OPTIONAL:
		buf_puts(out, p);
		break;
	case INT:
	case LIMIT:
		buf_printf(out, "%d", *(const int *)p);
		break;
	case INT64:
		buf_printf(out, "%lld", (long long)*(const int64_t *)p);
		break;
	case BOOL:
		buf_puts(out, *(const bool *)p ? "1" : "0");
		break;
	case REAL:
	case FLOOR:
		for (int i = 0; i < f->count; i++) {
			if (i)
				buf_puts(out, ",");
			put_real(out, ((const double *)p)[i]);
		}
		break;
	}
}

void target_text(const struct target *t, struct buf *out)
{
	buf_puts(out, t->isa);
	for (int i = 0; i < FIELDS; i++)
		put_field(&fields[i], t, out);
}

static bool good_char(char c)
{
	return c > ' ' && c < 127;
}

static bool get_word(const char **at, char *out, size_t room)
{
	size_t n = 0;
	while (good_char((*at)[n]))
		n++;
	if (n >= room)
		return false;
	memcpy(out, *at, n);
	memset(out + n, 0, room - n);
	*at += n;
	return true;
}

/* Digits only, no sign, no space. */
static bool get_int(const char **at, double most, int64_t *v)
{
	const char *start = *at;
	for (*v = 0; **at >= '0' && **at <= '9' && *at - start < 15; ++*at)
		*v = *v * 10 + (**at - '0');
	return *at > start && (double)*v <= most;
}

static bool get_real(const char **at, double most, double *v)
{
	char *end;
	if (**at < '0' || **at > '9')
		return false;
	*v = strtod(*at, &end);
	*at = end;
	return isfinite(*v) && *v >= 0 && *v <= most;
}

static bool get_field(const struct field *f, const char **at, struct target *t)
{
	char *p = (char *)t + f->at;
	int64_t v = 0;
	if (f->kind == WORD)
		return get_word(at, p, f->bytes);
	if (f->kind == OPTIONAL)
		return get_word(at, p, f->bytes) && *p;
	if (f->kind == REAL || f->kind == FLOOR) {
		for (int i = 0; i < f->count; i++)
			if ((i && *(*at)++ != ',') || !get_real(at, f->most, (double *)p + i))
				return false;
		return f->kind == REAL || any_real((const double *)p, f->count);
	}
	if (!get_int(at, f->most, &v))
		return false;
	if (f->kind == LIMIT && (v < 1 || v & (v - 1)))
		return false;
	if (f->kind == INT || f->kind == LIMIT)
		*(int *)p = (int)v;
	else if (f->kind == INT64)
		*(int64_t *)p = v;
	else
		*(bool *)p = v != 0;
	return true;
}

int target_parse(const char *text, struct target *t)
{
	const char *at = text;
	*t = (struct target){0};
	if (!get_word(&at, t->isa, sizeof t->isa) || !t->isa[0])
		return fail(E_CORRUPT, "target: it must begin with an ISA name");
	for (int i = 0; i < FIELDS; i++) {
		size_t n = strlen(fields[i].key);
		bool here = *at == ' ' && strncmp(at + 1, fields[i].key, n) == 0 && at[1 + n] == '=';
		if (!here &&
		    (fields[i].kind == OPTIONAL || fields[i].kind == LIMIT || fields[i].kind == FLOOR))
			continue;
		if (!here)
			return fail(E_CORRUPT, "target: '%s=' expected at byte %zu", fields[i].key,
				    (size_t)(at - text));
		at += n + 2;
		if (!get_field(&fields[i], &at, t))
			return fail(E_CORRUPT, "target: bad value of %s", fields[i].key);
	}
	if (*at)
		return fail(E_CORRUPT, "target: unexpected bytes after its end");
	if (t->lanes < 1 || t->regs < 4 || (t->lanes & (t->lanes - 1)))
		return fail(E_CORRUPT, "target: a vector unit cannot have %d lanes and %d registers",
			    t->lanes, t->regs);
	return E_OK;
}

struct key target_key(const struct target *t)
{
	struct buf b = {0};
	buf_printf(&b, "%s %s %s %s %s %d", t->soc, t->rev, t->mode, t->isa, t->cpu, t->lanes);
	if (t->cluster[0])
		buf_printf(&b, " %s", t->cluster);
	if (target_runs_items(t)) /* devices of one name may have more units */
		buf_printf(&b, " %d", t->cores);
	struct key k = mix_text(buf_str(&b));
	buf_free(&b);
	return k;
}

bool target_runs_items(const struct target *t)
{
	return !strcmp(t->isa, "opencl") || !strcmp(t->isa, "cuda");
}

int target_most_lanes(const struct target *t)
{
	return target_runs_items(t) ? 16 : t->lanes;
}

int target_vectors(const struct target *t, int lanes)
{
	bool narrow = lanes < t->lanes && t->serial;
	int n = target_runs_items(t) && !narrow ? t->regs * t->lanes / lanes : t->regs;
	return n > 1 ? n : 1;
}

const char *target_device(const struct target *t)
{
	return target_runs_items(t) ? t->isa : "cpu";
}

void target_label(const struct target *t, char out[160])
{
	snprintf(out, 160, "%s%s%s %s %d", t->soc, t->mode[0] ? " " : "", t->mode, t->isa, t->lanes);
}

/* Whether each cache of `t` has a measured speed among the peaks: those of a kept target may be older than
 * the board's file that names the cache. */
static bool covers_caches(const struct target *kept, const struct target *t)
{
	const int64_t bytes[] = {t->l1_bytes, t->l2_bytes, t->l3_bytes};
	for (int i = 0; i < 3; i++)
		if (bytes[i] > 0 && !(kept->bw_gbs[i] > 0))
			return false;
	return true;
}

/* Reads the next line of a file of kept targets, and moves *at behind it. */
static bool next_kept(char **at, struct target *t)
{
	char *line;
	while ((line = strsep(at, "\n")))
		if (*line && target_parse(line, t) >= 0)
			return true;
	return false;
}

/* Reads the peaks that an earlier process kept for these very cores. */
bool target_read_peaks(const char *path, struct target *t)
{
	struct arena a = {0};
	struct blob b;
	struct target kept;
	bool good = false;
	if (file_read(&a, path, 65536, &b) >= 0 && b.n > 0) {
		char *at = arena_strndup(&a, b.p, b.n);
		while (!good && next_kept(&at, &kept))
			good = key_equal(target_key(&kept), target_key(t)) &&
			       strcmp(kept.features, t->features) == 0 && kept.fma_gflops > 0 &&
			       (target_runs_items(t) || covers_caches(&kept, t));
	}
	arena_free(&a);
	if (!good)
		return false;
	t->fma_gflops = kept.fma_gflops;
	t->copy_gbs = kept.copy_gbs;
	memcpy(t->bw_gbs, kept.bw_gbs, sizeof t->bw_gbs);
	memcpy(t->launch_ns, kept.launch_ns, sizeof t->launch_ns);
	return true;
}

/* Appends what the file has of other targets, so that each cluster of a board keeps its peaks. */
static void put_others(const char *path, const struct target *t, struct buf *out)
{
	enum { MOST_OTHERS = 7 };
	struct arena a = {0};
	struct blob b;
	struct target kept;
	char *at = file_read(&a, path, 65536, &b) >= 0 && b.n > 0 ? arena_strndup(&a, b.p, b.n) : NULL;
	for (int n = 0; n < MOST_OTHERS && next_kept(&at, &kept);) {
		if (key_equal(target_key(&kept), target_key(t)))
			continue;
		target_text(&kept, out);
		buf_puts(out, "\n");
		n++;
	}
	arena_free(&a);
}

/* Does not sync: the file can be measured again. */
void target_write_peaks(const char *dir, const char *path, const struct target *t)
{
	struct buf b = {0};
	target_text(t, &b);
	buf_puts(&b, "\n");
	put_others(path, t, &b);
	if (file_mkdirs(dir, 0755) < 0 || file_write_soon(path, b.p, b.n) < 0)
		log_more("cannot keep the target's measured peaks: %s", err_text());
	buf_free(&b);
}

static int kept_path(const char *dir, char path[PATH_MAX])
{
	if (snprintf(path, PATH_MAX, "%s/target", dir) >= PATH_MAX)
		return fail(E_IO, "the path %.60s... is too long", dir);
	return E_OK;
}

bool target_recall(const char *dir, struct target *t)
{
	char path[PATH_MAX];
	return kept_path(dir, path) >= 0 && target_read_peaks(path, t);
}

int target_kept(const char *dir, struct clock *clock, struct target *t)
{
	char path[PATH_MAX];
	int rc = kept_path(dir, path);
	if (rc < 0 || target_read_peaks(path, t))
		return rc;
	rc = target_measure(t, clock);
	if (rc >= 0)
		target_write_peaks(dir, path, t);
	return rc;
}

bool target_peaks_are_fresh(const char *path)
{
	struct stat st;
	time_t now = time(NULL);
	return stat(path, &st) == 0 && st.st_mtime <= now && now - st.st_mtime < FRESH_S;
}

bool target_is_fresh(const char *dir)
{
	char path[PATH_MAX];
	return kept_path(dir, path) >= 0 && target_peaks_are_fresh(path);
}

static void raise_to(double *peak, double other)
{
	*peak = *peak < other ? other : *peak;
}

void target_raise(struct target *t, const struct target *now)
{
	raise_to(&t->fma_gflops, now->fma_gflops);
	raise_to(&t->copy_gbs, now->copy_gbs);
	for (int i = 0; i < 4; i++)
		raise_to(&t->bw_gbs[i], now->bw_gbs[i]);
	for (int i = 0; i < 2; i++)
		if (!(t->launch_ns[i] > 0) || (now->launch_ns[i] > 0 && now->launch_ns[i] < t->launch_ns[i]))
			t->launch_ns[i] = now->launch_ns[i];
}

int target_measure_again(const char *dir, struct clock *clock, struct target *t)
{
	char path[PATH_MAX];
	struct target now = *t;
	int rc = kept_path(dir, path);
	if (rc >= 0)
		rc = target_measure(&now, clock);
	if (rc < 0)
		return rc;
	target_raise(t, &now);
	target_write_peaks(dir, path, t);
	return E_OK;
}
