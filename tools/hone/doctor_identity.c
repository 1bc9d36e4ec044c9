/* SPDX-License-Identifier: Apache-2.0 */
/* Which board it is: its file, what each key of that changes, and its clusters. */
#include "tools/hone/doctor_parts.h"
#include "platform/base/quantity.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CACHE "/sys/devices/system/cpu/cpu0/cache/index0/level"

/* Files that are wrong are of no use, whichever board they are of. */
static void say_mistakes(struct doctor *d, const char *dir)
{
	enum { MOST = 8 };
	struct buf mistakes = {0};
	int n = board_check(dir, &mistakes);
	const char *at = buf_str(&mistakes);
	for (int i = 0; i < n && i < MOST; i++, at += strcspn(at, "\n") + 1)
		doctor_say(d, FINDING_WARNING, "mend or remove the file", "%.*s", (int)strcspn(at, "\n"), at);
	buf_free(&mistakes);
}

static void say_caches(struct doctor *d, const char *what, const int64_t bytes[3])
{
	int64_t level;
	if (bytes[0] && sysfile_number(d->root, CACHE, &level))
		doctor_good(d, "%s.conf: the caches of %s are not used, because the kernel describes them",
			    d->board.file, what);
	else if (bytes[0])
		doctor_good(d,
			    "%s.conf: the caches of %s have %" PRId64 ", %" PRId64 " and %" PRId64
			    " KiB, which the kernel does not tell",
			    d->board.file, what, bytes[0] >> 10, bytes[1] >> 10, bytes[2] >> 10);
}

/* What the keys of the file change. */
static void say_keys(struct doctor *d)
{
	const struct board_file *b = &d->board;
	if (b->schedule[0])
		doctor_good(d, "%s.conf: instructions are ordered as for %s", b->file, b->schedule);
	say_caches(d, "a fast core", (const int64_t[]){b->l1_bytes, b->l2_bytes, b->l3_bytes});
	if (b->devices[0])
		doctor_good(d, "%s.conf: its GPU should be %s", b->file, b->devices);
	if (b->box_ns) {
		struct buf words = {0};
		duration_words((double)b->box_ns / 1e9, &words);
		doctor_good(d, "%s.conf: hone tune takes %s where no --budget is given", b->file,
			    buf_str(&words));
		buf_free(&words);
	}
	if (b->memory_bytes)
		doctor_good(d, "%s.conf: each process of hone tune may write to %" PRId64 " MiB of memory",
			    b->file, b->memory_bytes >> 20);
}

/* One of the file's clusters whose processors the kernel does not show, or shows as others. */
static void say_absent(struct doctor *d, const struct board_cluster *of, const struct clusters *c)
{
	const struct cluster *there = topo_named(c, of->name);
	struct buf cpus = {0};
	cpu_set_t both = {{0}};
	int n = CPU_COUNT(&of->cpus);
	if (there)
		CPU_AND(&both, &of->cpus, &there->cpus);
	topo_list_text(&of->cpus, &cpus);
	if (n && CPU_COUNT(&both) < n)
		doctor_say(d, FINDING_NOTE,
			   d->jetson ? "the power mode may do this (nvpmodel -q)"
				     : "if that is not intended: chcpu -e CPUS",
			   "of the cluster %s (processors %s by %s.conf), %d of %d are online", of->name,
			   buf_str(&cpus), d->board.file, CPU_COUNT(&both), n);
	buf_free(&cpus);
}

static void say_clusters(struct doctor *d, bool known)
{
	struct clusters c;
	topo_clusters(d->root, NULL, &c);
	for (int i = 0; i < c.n; i++) {
		const struct cluster *own = &c.of[i];
		struct target t = {.isa = "armv8-a"};
		struct buf cpus = {0}, how = {0};
		snprintf(t.cpu, sizeof t.cpu, "%s", own->name);
		const struct board_cluster *of = known ? board_cluster_of(&d->board, &t) : NULL;
		topo_list_text(&own->cpus, &cpus);
		if (i)
			buf_printf(&how, ": hone tune --device cpu:%s tunes for it", own->name);
		else if (c.n > 1)
			buf_puts(&how, ": hone tunes for it, and runs models on it");
		if (of && of->schedule[0])
			buf_printf(&how, "; instructions are ordered as for %s, by %s.conf", of->schedule,
				   d->board.file);
		if (c.n > 1 || (of && of->schedule[0]))
			doctor_good(d, "cluster %s: processors %s, speed %d %%%s", own->name, buf_str(&cpus),
				    own->speed, buf_str(&how));
		if (of)
			say_caches(d, own->name, (const int64_t[]){of->l1_bytes, of->l2_bytes, of->l3_bytes});
		buf_free(&cpus);
		buf_free(&how);
	}
	for (int i = 0; known && i < d->board.nclusters; i++)
		say_absent(d, &d->board.cluster[i], &c);
}

void doctor_identity(struct doctor *d)
{
	char dir[PATH_MAX];
	int rc = board_dir(dir, sizeof dir);
	if (rc >= 0)
		say_mistakes(d, dir);
	if (rc >= 0)
		rc = board_find(dir, d->root, "", &d->board);
	if (rc >= 0) {
		doctor_good(d, "the board is %s (%s/%s.conf, by %s)", d->board.name, dir, d->board.file,
			    d->board.match);
		say_keys(d);
	} else if (rc == E_NOTFOUND) {
		doctor_good(d, "no file describes the board: all is probed and measured");
	}
	if (rc < 0)
		d->board = (struct board_file){.l1_bytes = 0};
	say_clusters(d, rc >= 0);
}
