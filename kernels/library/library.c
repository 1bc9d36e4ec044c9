/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/library/library.h"

#include "platform/base/log.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- open libraries ---- */

struct opened {
	struct library_found found;
	struct hone_backend b;
	atomic_bool failed; /* one of its pieces failed: no other one is loaded */
};

static struct opened opened[LIBRARY_MOST];
static int nopened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { BUILD_BYTES = 8 };

struct build {
	const void *base; /* of the object that is looked for */
	char id[2 * BUILD_BYTES + 1];
};

/* Reads the build id from a segment of notes. */
static bool read_note(const char *p, size_t n, char id[2 * BUILD_BYTES + 1])
{
	for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= n;) {
		const ElfW(Nhdr) *h = (const void *)(p + at);
		size_t name = at + sizeof *h, desc = name + (h->n_namesz + 3) / 4 * 4,
		       next = desc + (h->n_descsz + 3) / 4 * 4;
		if (h->n_type == NT_GNU_BUILD_ID && h->n_namesz == 4 && next <= n &&
		    !memcmp(p + name, "GNU", 4) && h->n_descsz >= BUILD_BYTES) {
			for (int i = 0; i < BUILD_BYTES; i++)
				snprintf(id + 2 * i, 3, "%02x", (unsigned char)p[desc + (size_t)i]);
			return true;
		}
		if (next <= at)
			return false;
		at = next;
	}
	return false;
}

static int look_at(struct dl_phdr_info *o, size_t size, void *ctx)
{
	struct build *b = ctx;
	(void)size;
	if ((const void *)o->dlpi_addr != b->base)
		return 0;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *s = &o->dlpi_phdr[i];
		if (s->p_type == PT_NOTE &&
		    read_note((const char *)o->dlpi_addr + s->p_vaddr, s->p_memsz, b->id))
			return 1;
	}
	return 1;
}

/* The build id of an open file. */
static int read_build(void *handle, struct build *b)
{
	struct link_map *map;
	*b = (struct build){0};
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0)
		return fail(E_UNSUPPORTED, "the loader does not say where a library lies: %s", dlerror());
	b->base = (const void *)map->l_addr;
	dl_iterate_phdr(look_at, b);
	return b->id[0] ? E_OK
			: fail(E_UNSUPPORTED,
			       "%s has no build id, by which hone would know it again; link it with "
			       "-Wl,--build-id",
			       map->l_name);
}

static bool is_word(const char *s, size_t most, const char *also)
{
	size_t n = s ? strlen(s) : 0;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr(also, s[i]))
			return false;
	return n > 0 && n <= most;
}

static int check_backend(const struct hone_backend *b, const char *file)
{
	if (b->abi != HONE_BACKEND_ABI || b->bytes < sizeof *b)
		return fail(E_UNSUPPORTED, "%s was built for another hone_backend.h (ABI %u, not %d)", file,
			    b->abi, HONE_BACKEND_ABI);
	if (!is_word(b->name, 15, "_") || !is_word(b->version, 23, ".+~-_") || !b->supports || !b->make ||
	    !b->run || !b->free)
		return fail(E_UNSUPPORTED,
			    "%s: its hone_backend lacks a name, a version or a function, or they have "
			    "other characters than letters and digits",
			    file);
	return E_OK;
}

/* The back end that a user's shared library exports. */
static int open_own(void *handle, const char *file, struct hone_backend *out)
{
	const struct hone_backend *b = dlsym(handle, "hone_backend");
	if (!b)
		return fail(E_UNSUPPORTED, "%s exports no hone_backend (hone_backend.h)", file);
	int rc = check_backend(b, file);
	*out = *b;
	return rc;
}

static const struct library *library_of(const char *name)
{
	for (const struct library *const *l = library_table; *l; l++)
		if (!strcmp((*l)->name, name))
			return *l;
	return NULL;
}

static int open_file(const char *file, const struct library *known, struct opened *o)
{
	struct build build;
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail(E_NOTFOUND, "%s", dlerror());
	int rc = read_build(handle, &build);
	if (rc >= 0)
		rc = known ? known->open(handle, &o->b) : open_own(handle, file, &o->b);
	if (rc >= 0)
		rc = check_backend(&o->b, file);
	if (rc >= 0) {
		snprintf(o->found.word, sizeof o->found.word, "%s/%s@%s", o->b.name, o->b.version, build.id);
		snprintf(o->found.file, sizeof o->found.file, "%s", file);
	}
	return rc; /* it stays open: a library that starts threads cannot be closed */
}

static int open_new(const char *name, struct opened *o)
{
	const struct library *known = library_of(name);
	if (!known && name[0] != '/')
		return fail(
		    E_USAGE,
		    "hone knows no library '%.40s'; a library of your own is named by the absolute path "
		    "of its file",
		    name);
	if (!known)
		return strlen(name) < LIBRARY_FILE ? open_file(name, NULL, o)
						   : fail(E_USAGE, "a library's path is too long");
	int rc = E_NOTFOUND;
	for (int i = 0; known->file[i] && rc == E_NOTFOUND; i++)
		rc = open_file(known->file[i], known, o);
	return rc;
}

static int library_at(const char *file)
{
	for (int i = 0; i < nopened; i++)
		if (!strcmp(opened[i].found.file, file))
			return i;
	return -1;
}

/* The library of a name or file, opened if it is not. Its index, or an error. */
static int find_open(const char *name)
{
	const struct library *known = library_of(name);
	int at = known ? -1 : library_at(name);
	for (int i = 0; known && at < 0 && known->file[i]; i++)
		at = library_at(known->file[i]);
	if (at >= 0)
		return at;
	if (nopened == LIBRARY_MOST)
		return fail(E_USAGE, "more than %d libraries are open", LIBRARY_MOST);
	int rc = open_new(name, &opened[nopened]);
	return rc < 0 ? rc : nopened++;
}

int library_open(const char *name, struct library_found *out)
{
	pthread_mutex_lock(&lock);
	int rc = find_open(name);
	if (rc >= 0)
		*out = opened[rc].found;
	pthread_mutex_unlock(&lock);
	return rc < 0 ? fail_in(rc, "library") : E_OK;
}

static struct opened *with_word(const char *word)
{
	struct opened *found = NULL;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < nopened && !found; i++)
		if (!strcmp(opened[i].found.word, word))
			found = &opened[i];
	pthread_mutex_unlock(&lock);
	return found;
}

/* ---- candidates and code ---- */

int library_cand(const struct task *t, const char *word, int threads, char cand[], size_t room)
{
	struct task_piece p;
	int rc = piece_of_task(t, &p);
	if (rc < 0)
		return rc;
	int n = snprintf(cand, room, LIBRARY_CAND "%s parts=%d", word, piece_parts(&p, threads));
	return n > 0 && (size_t)n < room ? E_OK : fail(E_USAGE, "a library's word is too long");
}

static int split_cand(const char *cand, char word[LIBRARY_WORD], int *parts)
{
	char again[LIBRARY_WORD + 32];
	if (sscanf(cand, LIBRARY_CAND "%63s parts=%d", word, parts) != 2 || *parts < 1 || *parts > 1024 ||
	    snprintf(again, sizeof again, LIBRARY_CAND "%s parts=%d", word, *parts) < 0 ||
	    strcmp(again, cand) != 0)
		return fail(E_CORRUPT, "not a library's candidate: '%.80s'", cand);
	return E_OK;
}

static enum buf_role role_of(const struct operand *o)
{
	return o->role == ROLE_OUT ? BUF_OUT : o->role == ROLE_CONST ? BUF_CONST : BUF_IN;
}

static void describe(const struct task *t, int parts, struct manifest *m)
{
	memset(m, 0, sizeof *m);
	m->nentries = 1;
	snprintf(m->entry[0], sizeof m->entry[0], FOREIGN_ENTRY);
	snprintf(m->extent_expr[0], sizeof m->extent_expr[0], "%d", parts);
	m->alias_in = m->alias_out = -1;
	for (int i = 0; i < t->noperands; i++) {
		struct code_buf *b = &m->buf[m->nbufs++];
		*b = (struct code_buf){.operand = i, .elems = operand_elems(&t->operand[i])};
		memcpy(b->name, t->operand[i].name, sizeof b->name);
		b->role = role_of(&t->operand[i]);
	}
}

int library_code(const struct task *t, const char *cand, struct arena *a, struct manifest *m,
		 struct blob *object)
{
	char word[LIBRARY_WORD];
	struct task_piece p, part;
	int parts, rc = split_cand(cand, word, &parts);
	if (rc < 0 || (rc = piece_of_task(t, &p)) < 0)
		return rc;
	const struct opened *o = with_word(word);
	if (!o)
		return fail(E_UNSUPPORTED, "library %s is not open", word);
	if (piece_parts(&p, parts) != parts)
		return fail(E_INFEASIBLE, "the layer has no %d parts", parts);
	for (int i = 0; i < parts; i++) {
		piece_part(&p, parts, i, &part);
		if (o->b.supports(&part.p) != 1)
			return fail(E_UNSUPPORTED, "library %s does not compute such a layer", word);
	}
	describe(t, parts, m);
	struct buf text = {0};
	buf_printf(&text, FOREIGN_MAGIC "word %s\nfile %s\nparts %d\npiece ", word, o->found.file, parts);
	piece_text(&p, &text);
	buf_puts(&text, "\n");
	char *copy = buf_ok(&text) ? arena_strdup(a, buf_str(&text)) : NULL;
	*object = (struct blob){copy, text.n};
	buf_free(&text);
	return copy ? E_OK : fail(E_NOMEM, "no memory for a library's code");
}

/* ---- pieces that run ---- */

struct part {
	struct task_piece t;
	void *made;
	const void *w, *bias; /* for which it was made */
};

struct loaded {
	struct opened *o;
	int n;
	atomic_bool failed; /* portable code computes it from then on */
	atomic_bool missed; /* a run since the last good() has not computed its output */
	/* of the failure */
	const char *function;
	int answer;
	struct part part[];
};

/* The rest of a line that begins with `key`, which ends at *end. */
static int take_line(const char **at, const char *key, char *out, size_t room)
{
	size_t n = strlen(key);
	const char *end = strchr(*at, '\n');
	if (strncmp(*at, key, n) != 0 || !end || (size_t)(end - *at) - n >= room)
		return fail(E_CORRUPT, "a library's code has no line '%s'", key);
	memcpy(out, *at + n, (size_t)(end - *at) - n);
	out[(size_t)(end - *at) - n] = 0;
	*at = end + 1;
	return E_OK;
}

struct words {
	char word[LIBRARY_WORD], file[LIBRARY_FILE], parts[16], piece[2048];
};

static int read_object(const void *object, size_t n, struct words *w)
{
	char *text = strndup(object, n);
	if (!text)
		return fail(E_NOMEM, "no memory for a library's code");
	const char *at = text + sizeof FOREIGN_MAGIC - 1;
	int rc = n >= sizeof FOREIGN_MAGIC && !strncmp(text, FOREIGN_MAGIC, sizeof FOREIGN_MAGIC - 1)
		     ? E_OK
		     : fail(E_CORRUPT, "not a library's code");
	if (rc >= 0)
		rc = take_line(&at, "word ", w->word, sizeof w->word);
	if (rc >= 0)
		rc = take_line(&at, "file ", w->file, sizeof w->file);
	if (rc >= 0)
		rc = take_line(&at, "parts ", w->parts, sizeof w->parts);
	if (rc >= 0)
		rc = take_line(&at, "piece ", w->piece, sizeof w->piece);
	free(text);
	return rc;
}

/* Opens the library that the code was checked with, and no other: a user's by its path, a known one by its
 * name, as its file may be found elsewhere. */
static int open_same(const struct words *w, struct opened **out)
{
	struct library_found found;
	char name[LIBRARY_WORD];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(w->word, "/"), w->word);
	*out = with_word(w->word);
	if (*out)
		return E_OK;
	int rc = library_open(w->file[0] == '/' ? w->file : name, &found);
	if (rc < 0)
		return rc;
	*out = with_word(w->word);
	return *out ? E_OK
		    : fail(E_UNSUPPORTED, "library %s is %s now: its kernels were checked with another one",
			   w->word, found.word);
}

static int load(const void *object, size_t n, void **out)
{
	struct words w;
	struct task_piece p;
	struct opened *o;
	int rc = read_object(object, n, &w), parts = atoi(w.parts);
	if (rc >= 0 && (parts < 1 || parts > 1024))
		rc = fail(E_CORRUPT, "a library's code has no number of parts");
	if (rc >= 0)
		rc = piece_parse(w.piece, &p);
	if (rc >= 0 && piece_parts(&p, parts) != parts)
		rc = fail(E_CORRUPT, "a library's piece has no %d parts", parts);
	if (rc >= 0)
		rc = open_same(&w, &o);
	if (rc >= 0 && atomic_load(&o->failed))
		rc = fail(E_UNSUPPORTED, "library %s has failed in this process", w.word);
	if (rc < 0)
		return rc;
	struct loaded *l = calloc(1, sizeof *l + (size_t)parts * sizeof l->part[0]);
	if (!l)
		return fail(E_NOMEM, "no memory for a library's piece");
	l->o = o;
	l->n = parts;
	for (int i = 0; i < parts; i++)
		piece_part(&p, parts, i, &l->part[i].t);
	*out = l;
	return E_OK;
}

static const float *at(void *const *buf, int operand, int64_t offset)
{
	return operand < 0 || !buf[operand] ? NULL : (const float *)buf[operand] + offset;
}

static void unmake(const struct loaded *l, struct part *p)
{
	if (p->made)
		l->o->b.free(p->made);
	p->made = NULL;
}

/* The first failure is kept: the library does not compute this piece any more. */
static void give_up(struct loaded *l, const char *function, int answer)
{
	if (!atomic_exchange(&l->failed, true)) {
		l->function = function;
		l->answer = answer;
	}
	atomic_store(&l->missed, true);
	atomic_store(&l->o->failed, true);
}

/* Makes a part for constants that lie elsewhere than those it was made for. */
static bool make_ready(struct loaded *l, struct part *p, void *const *buf)
{
	const struct task_piece *t = &p->t;
	struct hone_buffers b = {.bias = at(buf, t->bias, t->bias_at), .w = at(buf, t->w, t->w_at)};
	if (!t->p.constant)
		b.w = NULL;
	if (p->made && p->w == b.w && p->bias == b.bias)
		return true;
	unmake(l, p);
	p->w = b.w;
	p->bias = b.bias;
	int answer = l->o->b.make(&t->p, &b, &p->made);
	if (answer == 0 && p->made)
		return true;
	p->made = NULL;
	give_up(l, "make", answer);
	return false;
}

static void run_part(struct loaded *l, struct part *p, void *const *buf)
{
	const struct task_piece *t = &p->t;
	const struct hone_buffers b = {at(buf, t->x, t->x_at), at(buf, t->w, t->w_at),
				       at(buf, t->bias, t->bias_at), at(buf, t->add, t->add_at),
				       (float *)buf[t->y] + t->y_at};
	if (atomic_load(&l->failed)) {
		library_portable(&t->p, &b);
		return;
	}
	if (!make_ready(l, p, buf))
		return;
	int answer = l->o->b.run(p->made, &b);
	if (answer != 0)
		give_up(l, "run", answer);
}

static void run(void *piece, void *const *buf, int64_t begin, int64_t end)
{
	struct loaded *l = piece;
	for (int i = 0; begin == end && i < l->n && !atomic_load(&l->failed); i++)
		(void)make_ready(l, &l->part[i], buf);
	for (int64_t i = begin; i < end && i < l->n; i++)
		run_part(l, &l->part[i], buf);
}

static int good(void *piece, const char *name)
{
	struct loaded *l = piece;
	if (!atomic_exchange(&l->missed, false))
		return 1;
	if (name)
		log_info("%s: library %s failed (%s returned %d); from now on hone computes it without that "
			 "library",
			 name, l->o->found.word, l->function, l->answer);
	return 0;
}

static void unload(void *piece)
{
	struct loaded *l = piece;
	for (int i = 0; i < l->n; i++)
		unmake(l, &l->part[i]);
	free(l);
}

const struct foreign_code library_foreign = {load, run, good, unload};
