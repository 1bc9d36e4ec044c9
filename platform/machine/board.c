/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/board.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/quantity.h"
#include "platform/machine/sysfile.h"
#include "platform/machine/target_isa.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COMPATIBLE "/sys/firmware/devicetree/base/compatible"
#define LEAST_MEMORY (INT64_C(64) << 20)
#define CACHE "/sys/devices/system/cpu/cpu0/cache/index0/level"

enum { TEXT = 4096, MOST_FILES = 256, MOST_LIKE = 8, NO_MATCH = INT_MAX, MOST_CACHE_KIB = 1 << 20 };

/* The tree's list of names; each ends with NUL. */
struct tree {
	char names[1024];
	size_t n;
};

/* A file, while it is read. */
struct reading {
	const char *path;
	int line;
	bool own; /* not a file that it is like */
	const struct tree *tree;
	const char *machine;
	struct board_file *b;
	struct board_cluster *cluster; /* of the section */
	const struct section *section;
	char like[BOARD_NAME];
	int place; /* of the best match in the tree's list; behind all: the machine */
};

static int wrong(const struct reading *r, const char *what)
{
	return fail(E_CORRUPT, "%s:%d: %s", r->path, r->line, what);
}

static void match(struct reading *r, int place, const char *word)
{
	if (place < r->place) {
		r->place = place;
		snprintf(r->b->match, BOARD_NAME, "%s", word);
	}
}

static void match_tree(struct reading *r, const char *word)
{
	int place = 0;
	for (size_t at = 0; at < r->tree->n; at += strlen(r->tree->names + at) + 1, place++)
		if (!strcmp(r->tree->names + at, word))
			match(r, place, word);
}

/* A key: reads its value into `at`, which is NULL where a file that goes before has said it. */
typedef int key_reader(struct reading *r, char *value, void *at);

static int read_cache(struct reading *r, char *value, void *at)
{
	char *end;
	long kib = strtol(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || kib < 0 || kib > MOST_CACHE_KIB)
		return wrong(r, "a cache needs its size in KiB, such as: l1 = 32");
	if (at)
		*(int64_t *)at = kib * INT64_C(1024);
	return E_OK;
}

static int read_text(struct reading *r, char *value, void *at)
{
	if (strlen(value) >= BOARD_NAME)
		return wrong(r, "the value is too long");
	if (at)
		snprintf(at, BOARD_NAME, "%s", value);
	return E_OK;
}

static int read_like(struct reading *r, char *value, void *at)
{
	(void)at;
	return read_text(r, value, r->like);
}

static int read_compatible(struct reading *r, char *value, void *at)
{
	(void)at;
	for (char *save, *w = strtok_r(value, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		if (strlen(w) >= BOARD_NAME)
			return wrong(r, "the value is too long");
		if (r->own)
			match_tree(r, w);
	}
	return E_OK;
}

static int read_machine(struct reading *r, char *value, void *at)
{
	(void)at;
	for (char *save, *w = strtok_r(value, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		if (strlen(w) >= BOARD_NAME)
			return wrong(r, "the value is too long");
		if (r->own && !strcmp(w, r->machine))
			match(r, NO_MATCH - 1, w);
	}
	return E_OK;
}

static int read_schedule(struct reading *r, char *value, void *at)
{
	if (isa_core_rank(value) < 0)
		return wrong(r, "schedule needs a core that hone knows, such as: schedule = neoverse-n1");
	if (at)
		snprintf(at, sizeof r->b->cluster->schedule, "%s", value);
	return E_OK;
}

static int read_cpus(struct reading *r, char *value, void *at)
{
	cpu_set_t cpus;
	if (!topo_list(value, &cpus))
		return wrong(r, "cpus needs numbers and ranges, such as: cpus = 0-3,6");
	if (at)
		*(cpu_set_t *)at = cpus;
	return E_OK;
}

static int read_devices(struct reading *r, char *value, void *at)
{
	static const char *const kinds[] = {"opencl:", "cuda:"};
	char list[BOARD_NAME], *save;
	if (strlen(value) >= BOARD_NAME)
		return wrong(r, "the value is too long");
	snprintf(list, sizeof list, "%s", value);
	for (char *w = strtok_r(list, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		size_t n = strcspn(w, ":") + 1;
		if ((strncmp(w, kinds[0], n) != 0 && strncmp(w, kinds[1], n) != 0) ||
		    !isdigit((unsigned char)w[n]) || w[n + 1])
			return wrong(r, "devices needs names such as: devices = cuda:0 opencl:0");
	}
	return read_text(r, value, at);
}

static int read_box(struct reading *r, char *value, void *at)
{
	int64_t ns;
	if (duration_parse(value, &ns) < 0 || ns < NS_PER_S || ns > 3600 * NS_PER_S)
		return wrong(r, "box needs a time of 1s to 1h, such as: box = 40s");
	if (at)
		*(int64_t *)at = ns;
	return E_OK;
}

static int read_memory(struct reading *r, char *value, void *at)
{
	int64_t bytes;
	if (size_parse(value, &bytes) < 0 || bytes < LEAST_MEMORY || bytes > INT64_C(1) << 40)
		return wrong(r, "memory needs a size of 64M or more, such as: memory = 256M");
	if (at)
		*(int64_t *)at = bytes;
	return E_OK;
}

/* An offset says where a value goes, in the board or in the section's cluster; NOWHERE: the reader knows. */
#define NOWHERE ((size_t)-1)
#define OF_BOARD(field) offsetof(struct board_file, field)
#define OF_CLUSTER(field) offsetof(struct board_cluster, field)

static const struct key_kind {
	const char *name;
	key_reader *read;
	size_t at;
} main_keys[] = {{"name", read_text, OF_BOARD(name)},
		 {"like", read_like, NOWHERE},
		 {"compatible", read_compatible, NOWHERE},
		 {"machine", read_machine, NOWHERE},
		 {"schedule", read_schedule, OF_BOARD(schedule)},
		 {"devices", read_devices, OF_BOARD(devices)},
		 {NULL}},
  cache_keys[] = {{"l1", read_cache, OF_BOARD(l1_bytes)},
		  {"l2", read_cache, OF_BOARD(l2_bytes)},
		  {"l3", read_cache, OF_BOARD(l3_bytes)},
		  {NULL}},
  cluster_keys[] = {{"cpus", read_cpus, OF_CLUSTER(cpus)},
		    {"schedule", read_schedule, OF_CLUSTER(schedule)},
		    {"l1", read_cache, OF_CLUSTER(l1_bytes)},
		    {"l2", read_cache, OF_CLUSTER(l2_bytes)},
		    {"l3", read_cache, OF_CLUSTER(l3_bytes)},
		    {NULL}},
  limit_keys[] = {{"box", read_box, OF_BOARD(box_ns)},
		  {"memory", read_memory, OF_BOARD(memory_bytes)},
		  {NULL}};

/* known: the keys, for an error. keys NULL: others read the section. */
static const struct section {
	const char *name;
	const struct key_kind *keys;
	unsigned shift; /* of its keys' bits in `said` */
	const char *known;
} sections[] = {
    {"", main_keys, 0,
     "unknown key; known are name, like, compatible, machine, schedule, devices; and l1, l2, l3 of [caches], "
     "cpus, schedule, l1, l2, l3 of [cluster NAME], and box, memory of [limits]"},
    {"caches", cache_keys, 8, "unknown key; known are l1, l2, l3"},
    {"limits", limit_keys, 16, "unknown key; known are box, memory"},
    {"cluster", cluster_keys, 0, "unknown key; known are cpus, schedule, l1, l2, l3"},
    {"build", NULL, 0, ""},
    {"predict", NULL, 0, ""},
};

static int read_key(struct reading *r, const char *key, char *value)
{
	const struct section *s = r->section;
	unsigned *said = r->cluster ? &r->cluster->said : &r->b->said;
	if (!s->keys)
		return E_OK;
	for (int i = 0; s->keys[i].name; i++) {
		const struct key_kind *k = &s->keys[i];
		if (strcmp(k->name, key) != 0)
			continue;
		const unsigned bit = 1u << (s->shift + (unsigned)i);
		char *to = r->cluster ? (char *)r->cluster : (char *)r->b;
		int rc = k->read(r, value, k->at == NOWHERE || *said & bit ? NULL : to + k->at);
		*said |= bit;
		return rc;
	}
	return wrong(r, s->known);
}

/* A cluster of an inherited file comes behind those of the file itself. */
static int begin_cluster(struct reading *r, const char *name)
{
	struct board_file *b = r->b;
	int i = 0;
	if (!topo_is_name(name))
		return wrong(r, "a cluster needs the name of its cores, such as: [cluster cortex-a53]");
	while (i < b->nclusters && strcmp(b->cluster[i].name, name) != 0)
		i++;
	if (i == BOARD_CLUSTERS)
		return wrong(r, "too many clusters");
	if (i == b->nclusters)
		snprintf(b->cluster[b->nclusters++].name, TOPO_NAME, "%s", name);
	r->cluster = &b->cluster[i];
	return E_OK;
}

/* Cuts blanks around it, and a comment. */
static char *trimmed(char *text)
{
	text += strspn(text, " \t");
	size_t n = strcspn(text, ";#\r\n");
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[n] = 0;
	return text;
}

static int begin_section(struct reading *r, char *name)
{
	size_t n = strcspn(name, " \t");
	char *rest = name + n + strspn(name + n, " \t");
	r->cluster = NULL;
	for (size_t i = 1; i < sizeof sections / sizeof *sections; i++) {
		r->section = &sections[i];
		bool cluster = sections[i].keys == cluster_keys;
		if (strlen(sections[i].name) == n && !strncmp(sections[i].name, name, n) &&
		    (cluster || !*rest))
			return cluster ? begin_cluster(r, rest) : E_OK;
	}
	return wrong(r, "unknown section; known are [caches], [cluster NAME], [limits], [build] and "
		     "[predict]");
}

static int read_line(struct reading *r, char *line)
{
	char *text = trimmed(line), *equals = strchr(text, '=');
	size_t n = strlen(text);
	if (!n)
		return E_OK;
	if (*text == '[') {
		if (text[n - 1] != ']' || n < 3)
			return wrong(r, "a section needs brackets, such as: [caches]");
		text[n - 1] = 0;
		return begin_section(r, trimmed(text + 1));
	}
	if (!equals)
		return wrong(r, "a line needs a key and a value, such as: name = Raspberry Pi 4");
	*equals = 0;
	return read_key(r, trimmed(text), trimmed(equals + 1));
}

static int read_file(struct reading *r, const char *dir, const char *file)
{
	char path[PATH_MAX], text[TEXT];
	if (snprintf(path, sizeof path, "%s/%s.conf", dir, file) >= (int)sizeof path)
		return fail(E_IO, "the path %.60s... is too long", dir);
	int fd = sysfile_open("", path), rc = E_OK;
	r->path = path;
	r->line = 0;
	r->like[0] = 0;
	r->cluster = NULL;
	r->section = sections;
	int n = fd < 0 ? -1 : sysfile_read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return fail(E_CORRUPT, "%s: cannot be read", path);
	if (n == TEXT - 1)
		rc = wrong(r, "the file is too long");
	for (char *at = text, *next; at && rc >= 0; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = 0;
		r->line++;
		rc = read_line(r, at);
	}
	r->path = "";
	return rc;
}

/* Reads a file and those that it is like. */
static int read_board(const char *dir, const char *file, const struct tree *tree, const char *machine,
		      struct board_file *b, int *place)
{
	struct reading r = {.own = true, .tree = tree, .machine = machine, .b = b, .place = NO_MATCH};
	char at[BOARD_NAME];
	int rc = E_OK;
	*b = (struct board_file){.l1_bytes = 0};
	snprintf(b->file, BOARD_NAME, "%s", file);
	snprintf(at, sizeof at, "%s", file);
	for (int i = 0; at[0] && rc >= 0; i++) {
		if (i == MOST_LIKE || strchr(at, '/'))
			return fail(E_CORRUPT, "%s/%s.conf: what it is like leads to no end, or to '%s'", dir,
				    file, at);
		rc = read_file(&r, dir, at);
		r.own = false;
		snprintf(at, sizeof at, "%s", r.like);
	}
	*place = r.place;
	return rc;
}

static void read_tree(const char *root, struct tree *t)
{
	int fd = sysfile_open(root, COMPATIBLE), n = fd < 0 ? 0 : sysfile_read(fd, t->names, sizeof t->names);
	t->n = n > 0 ? (size_t)n : 0;
	if (fd >= 0)
		close(fd);
}

/* Calls `each` with every file of the folder that can be read, and notes those that cannot. Returns the
 * number of the latter; *rc: the last error. */
static int read_all(const char *dir, const struct tree *tree, const char *machine, struct buf *mistakes,
		    struct board_file *best, int *rc)
{
	int place = NO_MATCH, bad = 0;
	struct dirent *e;
	DIR *d = opendir(dir);
	*rc = d ? E_OK : fail(E_NOTFOUND, "there is no folder of boards %s", dir);
	for (int i = 0; d && i < MOST_FILES && (e = readdir(d)); i++) {
		struct board_file one;
		size_t n = strlen(e->d_name);
		int its = NO_MATCH;
		if (e->d_name[0] == '.' || n < 6 || n - 5 >= BOARD_NAME ||
		    strcmp(e->d_name + n - 5, ".conf") != 0)
			continue;
		e->d_name[n - 5] = 0;
		int got = read_board(dir, e->d_name, tree, machine, &one, &its);
		if (got < 0) { /* the others are read all the same: one of them may be this board */
			*rc = got;
			bad++;
			if (mistakes)
				buf_printf(mistakes, "%s\n", err_text());
		} else if (its < place) {
			place = its;
			*best = one;
		}
	}
	if (d)
		closedir(d);
	if (place < NO_MATCH)
		*rc = E_OK;
	else if (*rc >= 0)
		*rc = fail(E_NOTFOUND, "no file in %s is of this board", dir);
	return bad;
}

int board_find(const char *dir, const char *root, const char *machine, struct board_file *b)
{
	struct utsname u;
	struct tree tree;
	int rc;
	if (!*machine)
		machine = uname(&u) == 0 ? u.machine : "";
	read_tree(root, &tree);
	(void)read_all(dir, &tree, machine, NULL, b, &rc);
	return rc;
}

int board_read(const char *dir, const char *file, struct board_file *b)
{
	const struct tree none = {.n = 0};
	int place;
	return read_board(dir, file, &none, "", b, &place);
}

int board_check(const char *dir, struct buf *mistakes)
{
	const struct tree none = {.n = 0};
	struct board_file b;
	int rc;
	return read_all(dir, &none, "", mistakes, &b, &rc);
}

int board_dir(char *out, size_t n)
{
	static const char *const beside[] = {"/../share/hone/boards", "/../configs/boards"};
	const char *given = getenv("HONE_BOARDS");
	char self[PATH_MAX];
	if (given && *given)
		return snprintf(out, n, "%s", given) < (int)n ? E_OK : fail(E_IO, "HONE_BOARDS is too long");
	int rc = file_self_dir(self, sizeof self);
	if (rc < 0)
		return rc;
	for (int i = 0; i < 2; i++)
		if (snprintf(out, n, "%s%s", self, beside[i]) < (int)n && file_is_dir(out))
			return E_OK;
	return fail(E_NOTFOUND, "there is no folder of boards near %s: set HONE_BOARDS", self);
}

const struct board_cluster *board_cluster_of(const struct board_file *b, const struct target *t)
{
	const char *name = t->cluster[0] ? t->cluster : t->cpu;
	for (int i = 0; i < b->nclusters; i++)
		if (!strcmp(b->cluster[i].name, name))
			return &b->cluster[i];
	return NULL;
}

bool board_fill(const struct board_file *b, const char *root, struct target *t)
{
	int64_t level;
	const struct board_cluster *c = board_cluster_of(b, t);
	const char *schedule = c && c->schedule[0] ? c->schedule : b->schedule;
	for (int i = 0; !c && !b->l1_bytes && i < b->nclusters; i++)
		c = b->cluster[i].l1_bytes ? &b->cluster[i] : NULL;
	c = c && !c->l1_bytes ? NULL : c;
	const int64_t l1 = c ? c->l1_bytes : b->l1_bytes, l2 = c ? c->l2_bytes : b->l2_bytes;
	if (*schedule && !strncmp(t->isa, "arm", 3))
		snprintf(t->schedule, sizeof t->schedule, "%s", schedule);
	if ((root && sysfile_number(root, CACHE, &level)) || !l1)
		return false;
	t->l1_bytes = l1;
	t->l2_bytes = l2 ? l2 : t->l2_bytes;
	t->l3_bytes = c ? c->l3_bytes : b->l3_bytes;
	return true;
}

bool board_host(struct board_file *b)
{
	char dir[PATH_MAX];
	return board_dir(dir, sizeof dir) >= 0 && board_find(dir, "", "", b) >= 0;
}

void board_fill_host(struct target *t)
{
	struct board_file b;
	if (board_host(&b))
		board_fill(&b, "", t);
}
