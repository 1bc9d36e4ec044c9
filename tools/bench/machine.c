/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/machine.h"
#include "platform/base/buf.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 200000, ITERATIONS = 50 };

bool machine_is_here(void)
{
	return system("command -v llvm-mca-19 llvm-objdump-19 >/dev/null") == 0;
}

/* ---- disassembly */

/* Jumps within a function: x86 j.., Arm b, b.cond, cb(n)z, tb(n)z; not calls and returns. */
static bool is_jump(const char *text)
{
	size_t n = strcspn(text, " \t");
	static const char *const words[] = {"b", "cbz", "cbnz", "tbz", "tbnz"};
	if (text[0] == 'j' || (n > 2 && text[0] == 'b' && text[1] == '.'))
		return true;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (n == strlen(words[i]) && !strncmp(text, words[i], n))
			return true;
	/* b with a condition, of 32-bit Arm */
	return n == 3 && text[0] == 'b' && strncmp(text, "bic", 3) != 0 && strncmp(text, "bfi", 3) != 0 &&
	       strncmp(text, "bfc", 3) != 0 && strncmp(text, "blx", 3) != 0;
}

/* "  10: movaps (%rax), %xmm0  # comment" */
static bool parse_line(struct arena *a, char *text, struct machine_line *out)
{
	int n = 0;
	text[strcspn(text, "\n")] = 0;
	if (sscanf(text, " %lx: %n", &out->at, &n) != 1 || !n || !text[n])
		return false;
	char *code = text + n, *x;
	while ((x = strchr(code, '\t')))
		*x = ' ';
	code[strcspn(code, "<@")] = 0; /* the name after an address, and a comment */
	static const char *const comments[] = {" # ", "//"};
	for (int i = 0; i < 2; i++)
		if ((x = strstr(code, comments[i])))
			*x = 0;
	out->text = arena_strdup(a, code);
	for (char *at = x = strstr(code, "0x"); at; at = strstr(at + 1, "0x"))
		x = at; /* the last one: others are numbers */
	out->jumps = is_jump(code) && x && !strchr(code, '*');
	out->to = out->jumps ? strtoul(x, NULL, 16) : 0;
	return true;
}

/* "0000000000000000 <k0>:" */
static bool begins_function(const char *text, const char *name)
{
	const char *x = strchr(text, '<');
	size_t n = strlen(name);
	return x && isxdigit((unsigned char)text[0]) && !strncmp(x + 1, name, n) && x[n + 1] == '>';
}

static int index_of(const struct machine *m, unsigned long at)
{
	int lo = 0, hi = m->nlines - 1;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (m->line[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return m->nlines && m->line[lo].at == at ? lo : -1;
}

/* ---- loops: an edge back to a block that is still open in a walk through the function ends a loop of all
 * blocks from which its end is reached without the head. Their places in memory tell nothing, as LLVM moves
 * blocks. ---- */

struct flow {
	int n;                    /* blocks, in the order of their addresses */
	int *first, *last;        /* instructions [first, last) of each */
	int (*next)[2];           /* its successors; -1: none */
	int *order;               /* place in a walk that sees a block before what follows it */
	int *latch, *head, edges; /* edges that go back */
};

static bool ends(const char *text)
{
	return !strncmp(text, "ret", 3) || !strncmp(text, "bx ", 3);
}

static bool is_always(const char *text)
{
	return !strncmp(text, "jmp", 3) || !strncmp(text, "b ", 2);
}

static void make_blocks(struct arena *a, const struct machine *m, struct flow *f)
{
	bool *starts = ARENA_ARRAY(a, bool, m->nlines + 1);
	int *block = ARENA_ARRAY(a, int, m->nlines + 1);
	starts[0] = true;
	for (int i = 0; i < m->nlines; i++) {
		int to = m->line[i].jumps ? index_of(m, m->line[i].to) : -1;
		if (to >= 0)
			starts[to] = true;
		if (m->line[i].jumps || ends(m->line[i].text))
			starts[i + 1] = true;
	}
	f->first = ARENA_ARRAY(a, int, m->nlines + 1);
	f->last = ARENA_ARRAY(a, int, m->nlines + 1);
	for (int i = 0; i < m->nlines; i++) {
		if (starts[i])
			f->first[f->n++] = i;
		f->last[f->n - 1] = i + 1;
		block[i] = f->n - 1;
	}
	f->next = arena_alloc(a, sizeof *f->next * (size_t)f->n);
	for (int b = 0; b < f->n; b++) {
		const struct machine_line *l = &m->line[f->last[b] - 1];
		int to = l->jumps ? index_of(m, l->to) : -1;
		f->next[b][0] = to < 0 ? -1 : block[to];
		f->next[b][1] =
		    ends(l->text) || (l->jumps && is_always(l->text)) || b + 1 == f->n ? -1 : b + 1;
	}
}

/* A walk in depth, in which of two successors the one with the higher address comes first: reversed, it has
 * the lower one first. */
static void walk_blocks(struct arena *a, struct flow *f)
{
	int *stack = ARENA_ARRAY(a, int, f->n + 1), *step = ARENA_ARRAY(a, int, f->n + 1), n = 0, left = f->n;
	char *state = ARENA_ARRAY(a, char, f->n + 1); /* 1: open, 2: done */
	f->order = ARENA_ARRAY(a, int, f->n + 1);
	f->latch = ARENA_ARRAY(a, int, 2 * f->n + 1);
	f->head = ARENA_ARRAY(a, int, 2 * f->n + 1);
	stack[n++] = 0;
	state[0] = 1;
	while (n) {
		int b = stack[n - 1], high = f->next[b][0] < f->next[b][1];
		if (step[b] == 2) {
			state[b] = 2;
			f->order[b] = left--;
			n--;
			continue;
		}
		int to = f->next[b][step[b]++ ? !high : high];
		if (to >= 0 && state[to] == 1) {
			f->latch[f->edges] = b;
			f->head[f->edges++] = to;
		} else if (to >= 0 && !state[to]) {
			state[to] = 1;
			stack[n++] = to;
		}
	}
}

/* Adds the blocks from which `b` is reached without those that are in the loop. */
static void fill_loop(struct arena *a, const struct flow *f, int b, bool *in)
{
	int *stack = ARENA_ARRAY(a, int, f->n + 1), n = 0;
	if (!in[b])
		stack[n++] = b;
	in[b] = true;
	while (n) {
		int at = stack[--n];
		for (int from = 0; from < f->n; from++)
			if (!in[from] && f->order[from] &&
			    (f->next[from][0] == at || f->next[from][1] == at)) {
				in[from] = true;
				stack[n++] = from;
			}
	}
}

struct found {
	int head, order, blocks;
	bool *in;
};

/* Loops that hold others come first, and then those that begin earlier. */
static int by_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	return x->order != y->order ? x->order - y->order : y->blocks - x->blocks;
}

static void find_loops(struct arena *a, struct machine *m)
{
	struct flow f = {0};
	make_blocks(a, m, &f);
	walk_blocks(a, &f);
	struct found *loop = ARENA_ARRAY(a, struct found, f.edges + 1);
	int n = 0;
	for (int e = 0; e < f.edges; e++) {
		int k = 0;
		while (k < n && loop[k].head != f.head[e])
			k++;
		if (k == n) {
			loop[n++] =
			    (struct found){f.head[e], f.order[f.head[e]], 0, ARENA_ARRAY(a, bool, f.n + 1)};
			loop[k].in[f.head[e]] = true;
		}
		fill_loop(a, &f, f.latch[e], loop[k].in);
	}
	for (int k = 0; k < n; k++)
		for (int b = 0; b < f.n; b++)
			loop[k].blocks += loop[k].in[b];
	qsort(loop, (size_t)n, sizeof *loop, by_order);
	m->loop = ARENA_ARRAY(a, struct machine_loop, n + 1);
	m->owner = ARENA_ARRAY(a, int, m->nlines + 1);
	m->loop[0] = (struct machine_loop){.parent = -1};
	m->nloops = n + 1;
	for (int k = 0; k < n; k++) {
		int p = k - 1;
		while (p >= 0 && !loop[p].in[loop[k].head])
			p--;
		m->loop[k + 1] = (struct machine_loop){.parent = p + 1, .depth = m->loop[p + 1].depth + 1};
		for (int b = 0; b < f.n; b++) /* inner loops come later */
			for (int i = f.first[b]; loop[k].in[b] && i < f.last[b]; i++)
				m->owner[i] = k + 1;
	}
}

int machine_parse(struct arena *a, const char *text, const char *function, struct machine *out)
{
	char *copy = arena_strdup(a, text), *next;
	bool inside = false;
	*out = (struct machine){.line = ARENA_ARRAY(a, struct machine_line, MOST_LINES)};
	for (char *line = copy; line && out->nlines < MOST_LINES; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (isxdigit((unsigned char)line[0]))
			inside = begins_function(line, function);
		else if (inside)
			out->nlines += parse_line(a, line, &out->line[out->nlines]);
	}
	if (!out->nlines || out->nlines == MOST_LINES)
		return fail(E_NOTFOUND, "no function %s, or one of more than %d instructions", function,
			    MOST_LINES);
	find_loops(a, out);
	return E_OK;
}

static int run(const char *command, struct buf *out)
{
	char part[4096];
	FILE *f = popen(command, "r");
	for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
		buf_add(out, part, n);
	return f && pclose(f) == 0 ? E_OK : fail(E_IO, "this command fails: %s", command);
}

int machine_read(struct arena *a, const char *dir, const struct blob *object, const char *function,
		 const char *triple, const char *features, struct machine *out)
{
	char path[PATH_MAX], command[2 * PATH_MAX];
	struct buf text = {0};
	snprintf(path, sizeof path, "%s/object.o", dir);
	int rc = file_write_soon(path, object->p, object->n);
	snprintf(command, sizeof command, "llvm-objdump-19 -d --no-show-raw-insn --mattr=%s --triple=%s %s",
		 features, triple, path);
	if (rc >= 0)
		rc = run(command, &text);
	if (rc >= 0)
		rc = machine_parse(a, buf_str(&text), function, out);
	buf_free(&text);
	return rc;
}

/* ---- the model */

/* A return ends what the model reads; it and what it does not know are left out. */
static bool is_modelled(const char *text)
{
	return strncmp(text, "ret", 3) != 0 && strncmp(text, "bx lr", 5) != 0 &&
	       strncmp(text, "<unknown>", 9) != 0;
}

static void write_region(const struct machine *m, int loop, struct buf *out)
{
	buf_printf(out, "# LLVM-MCA-BEGIN %d\n", loop);
	for (int i = 0; i < m->nlines; i++)
		if (m->owner[i] == loop && is_modelled(m->line[i].text))
			buf_printf(out, "%s\n", m->line[i].text);
	buf_printf(out, "# LLVM-MCA-END %d\n", loop);
}

/* "[3] Code Region - 7" ... "Total Cycles: 123" */
static void read_cycles(struct machine *m, const char *text)
{
	int loop = -1, at;
	double cycles;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "[%*d] Code Region - %d", &at) == 1)
			loop = at;
		if (loop >= 0 && loop < m->nloops && sscanf(line, "Total Cycles: %lf", &cycles) == 1)
			m->loop[loop].cycles = cycles / ITERATIONS;
		if (!*line)
			break;
	}
}

int machine_model(const char *dir, const char *triple, const char *cpu, struct machine *m)
{
	char path[PATH_MAX], command[3 * PATH_MAX];
	struct buf code = {0}, text = {0};
	for (int k = 0; k < m->nloops; k++) {
		m->loop[k].own = 0;
		for (int i = 0; i < m->nlines; i++)
			m->loop[k].own += m->owner[i] == k && is_modelled(m->line[i].text);
		if (m->loop[k].own)
			write_region(m, k, &code);
	}
	snprintf(path, sizeof path, "%s/code.s", dir);
	int rc = file_write_soon(path, code.p, code.n);
	snprintf(command, sizeof command,
		 "llvm-mca-19 -mtriple=%s -mcpu=%s -iterations=%d -instruction-info=0 -resource-pressure=0 "
		 "-skip-unsupported-instructions=lack-sched %s 2>%s.err",
		 triple, cpu, ITERATIONS, path, path);
	if (rc >= 0)
		rc = run(command, &text);
	if (rc >= 0)
		read_cycles(m, buf_str(&text));
	for (int k = 0; k < m->nloops && rc >= 0; k++)
		if (m->loop[k].own && m->loop[k].cycles <= 0)
			rc = fail(E_IO, "llvm-mca-19 does not tell the cycles of every loop");
	buf_free(&code);
	buf_free(&text);
	return rc;
}
