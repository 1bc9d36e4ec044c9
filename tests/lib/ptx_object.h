/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an emitted PTX text is as its first line says (kernels/emit/emit_ptx.c). */
#ifndef TESTS_PTX_OBJECT_H
#define TESTS_PTX_OBJECT_H

#include "kernels/emit/emit.h"
#include "kernels/emit/ptx_regs.h"
#include "kernels/space/resident.h"
#include "platform/machine/target.h"
#include "tests/lib/test.h"

#include <ctype.h>

/* Whether the text has the part n times. */
static inline bool ptx_counts(const char *text, const char *part, int n)
{
	if (test_count(text, part) == n)
		return true;
	printf("%d times \"%s\", not %d\n", test_count(text, part), part, n);
	return false;
}

/* Whether each line of a body is an instruction, a label, a directive or a brace. */
static inline bool ptx_is_line(const char *s, size_t n)
{
	while (n && isspace((unsigned char)*s))
		s++, n--;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (!n || (n > 1 && s[0] == '/' && s[1] == '/') || *s == '{' || *s == '}' || *s == ')')
		return true;
	for (size_t i = 0; i + 1 < n; i++) /* a note behind it */
		if (s[i] == '/' && s[i + 1] == '/')
			n = i;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	/* Operands of a product follow on lines of their own. */
	if (n > 8 && (!memcmp(s, "wmma.mma", 8) || !memcmp(s, "mma.sync", 8)))
		return true;
	return s[n - 1] == ';' || s[n - 1] == ':' || s[n - 1] == ',' || s[n - 1] == '(' || *s == '.';
}

/* Threads of the blocks of an entry, as the first line says; 0: it does not. */
static inline int ptx_block_threads(const char *text, int entry)
{
	int group = 0, threads = 0;
	for (text += 11; entry && text; entry--)
		text = strchr(text, ';') ? strchr(text, ';') + 1 : NULL;
	return text && sscanf(text, "%*[^,],%d,%d", &group, &threads) == 2 ? group * threads : 0;
}

/* The estimate of the registers of each thread, of the entry that needs most (kernels/emit/ptx_regs.h). */
static inline int ptx_estimate(const struct loops *l, const char *text)
{
	int registers = 0;
	for (int e = 0; e < l->nentries; e++) {
		int n = ptx_registers(text, strlen(text), e).usual,
		    most = resident_registers(ptx_block_threads(text, e), l->entry[e].blocks);
		n = n < most ? n : most;
		registers = n > registers ? n : registers;
	}
	return registers;
}

/* NULL: the text is as its first line says. */
static inline const char *ptx_structure(const struct loops *l, const char *text, const struct target *tg)
{
	const char *at = text + 11, *line = strchr(text, '\n');
	char want[80];
	int open = 0;
	if (strncmp(text, "//hone-ptx ", 11) != 0 || !line)
		return "no first line";
	for (int i = 0; i < l->nentries; i++) {
		char name[16];
		int group, threads, used = 0;
		long shared;
		if (sscanf(at, "%15[^,],%d,%d,%ld%n", name, &group, &threads, &shared, &used) != 4 ||
		    at[used] != (i + 1 < l->nentries ? ';' : '\n') || strcmp(name, l->entry[i].name) != 0 ||
		    threads != l->entry[i].threads || group < 1 ||
		    (l->entry[i].group && group != l->entry[i].group) || (shared > 0 && threads == 1))
			return "the first line is wrong";
		at += used + 1;
		snprintf(want, sizeof want, ".reqntid %d, %d, 1", group, threads);
		if (!strstr(text, want))
			return "no .reqntid of the block";
		snprintf(want, sizeof want, ".minnctapersm %d\n",
			 l->entry[i].blocks > 1 ? l->entry[i].blocks : 1);
		if (!strstr(text, want) || test_count(text, ".minnctapersm") != l->nentries)
			return "no .minnctapersm";
		snprintf(want, sizeof want, ".visible .entry %s(", name);
		if (test_count(text, want) != 1)
			return "no entry of the name";
		for (int k = 0; k < loops_arguments(l) + l->nparams + 2; k++) {
			snprintf(want, sizeof want, "%s_param_%d%s\n", name, k,
				 k < loops_arguments(l) + l->nparams + 1 ? "," : "");
			if (test_count(text, want) != 1)
				return "a parameter is missing";
		}
		snprintf(want, sizeof want, "%s_param_%d", name, loops_arguments(l) + l->nparams + 2);
		if (strstr(text, want))
			return "too many parameters";
	}
	/* LLVM knows sm_87 and later ones from version 16 on. */
	bool old = atoi(emit_find("ptx")->version() + strlen("ptx-llvm-")) < 16 && atoi(tg->cpu + 3) > 86;
	snprintf(want, sizeof want, ".target %s\n", old ? "sm_86" : tg->cpu);
	if (!ptx_counts(text, want, 1) || !ptx_counts(text, ".address_size 64\n", 1) ||
	    !ptx_counts(text, ".entry", l->nentries))
		return "no module of the target";
	for (const char *s = line + 1; *s; s = line + 1) {
		line = strchr(s, '\n');
		if (!line || !ptx_is_line(s, (size_t)(line - s)))
			return "an unfinished line";
		open += (*s == '{') - (*s == '}');
		if (open < 0 || open > 1)
			return "braces";
	}
	return open ? "braces" : strstr(text, ".local") || strstr(text, "depot") ? "local memory" : NULL;
}

#endif
