/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a placement problem, which may come from anywhere, and makes the tables of its searches. */
#include "search/placement_parts.h"

#include <math.h>

/* What is needed only while a net is made. */
struct maker {
	const struct placement_problem *p;
	struct place_net *net;
	struct arena *a;
	int *in_piece, *outside, *depends; /* per operator, value, operator: stamp of the piece in work */
	int *reads_of;                     /* per value: how many operators read it */
};

static bool in_range(int x, int n)
{
	return x >= 0 && x < n;
}

static bool is_time(double ns)
{
	return ns >= 0 && ns <= PLACEMENT_MOST_NS;
}

static int check_count(const char *what, int n, int least, int most, const void *list)
{
	if (n < least || n > most)
		return fail(E_USAGE, "%d %s; there must be %d to %d", n, what, least, most);
	return n && !list ? fail(E_USAGE, "the list of %s is missing", what) : E_OK;
}

static int check_counts(const struct placement_problem *p)
{
	const struct {
		const char *what;
		int n, least, most;
		const void *list;
	} counts[] = {
	    {"operators", p->nops, 1, PLACEMENT_OPS, p->op},
	    {"values", p->nvalues, 0, PLACEMENT_VALUES, p},
	    {"pieces", p->npieces, 0, PLACEMENT_PIECES, p->piece},
	    {"formats", p->nformats, 1, PLACEMENT_FORMATS, p},
	    {"back ends", p->nbackends, 1, PLACEMENT_BACKENDS, p},
	    {"devices", p->ndevices, 1, PLACEMENT_DEVICES, p->launch_ns},
	    {"inputs", p->ninputs, 0, PLACEMENT_VALUES, p->input},
	    {"outputs", p->noutputs, 0, PLACEMENT_VALUES, p->output},
	};
	int rc = p->move_ns ? E_OK : fail(E_USAGE, "the price of moves is missing");
	for (size_t i = 0; i < sizeof counts / sizeof *counts && rc >= 0; i++)
		rc =
		    check_count(counts[i].what, counts[i].n, counts[i].least, counts[i].most, counts[i].list);
	for (int d = 0; rc >= 0 && d < p->ndevices; d++)
		if (!is_time(p->launch_ns[d]))
			rc =
			    fail(E_USAGE, "launch time %g ns of device %d is not a time", p->launch_ns[d], d);
	for (int i = 0; rc >= 0 && p->mover && i < p->nformats * p->nformats; i++)
		if (p->mover[i] != -1 && !in_range(p->mover[i], p->ndevices))
			rc = fail(E_USAGE, "there is no device %d to make moves", p->mover[i]);
	return rc;
}

static int check_port(const struct placement_problem *p, const struct placement_port *x, const char *what)
{
	if (!in_range(x->value, p->nvalues))
		return fail(E_USAGE, "%s: there is no value %d", what, x->value);
	if (!in_range(x->format, p->nformats))
		return fail(E_USAGE, "%s: there is no format %d", what, x->format);
	return E_OK;
}

static int add_inputs(struct maker *m)
{
	const struct placement_problem *p = m->p;
	for (int v = 0; v < p->nvalues; v++)
		m->net->value[v] = (struct place_value){.writer = -1, .format = PLACE_NONE};
	for (int i = 0; i < p->ninputs; i++) {
		int rc = check_port(p, &p->input[i], "network input");
		if (rc < 0)
			return rc;
		struct place_value *v = &m->net->value[p->input[i].value];
		if (v->format != PLACE_NONE)
			return fail(E_USAGE, "value %d is an input twice", p->input[i].value);
		v->format = p->input[i].format;
		v->from = 1u << v->format;
	}
	return E_OK;
}

static int add_op(struct maker *m, int op)
{
	const struct placement_problem *p = m->p;
	const struct placement_op *x = &p->op[op];
	int rc = check_count("reads of an operator", x->nreads, 0, p->nvalues, x->read);
	if (rc >= 0)
		rc = check_count("writes of an operator", x->nwrites, 0, p->nvalues, x->write);
	for (int i = 0; i < x->nreads && rc >= 0; i++) {
		if (!in_range(x->read[i], p->nvalues))
			return fail(E_USAGE, "operator %d reads value %d, which does not exist", op,
				    x->read[i]);
		const struct place_value *v = &m->net->value[x->read[i]];
		if (v->writer < 0 && v->format == PLACE_NONE)
			return fail(E_USAGE,
				    "operator %d reads value %d, which no input and no operator "
				    "before it gives; order the operators, which may have no cycle",
				    op, x->read[i]);
		m->reads_of[x->read[i]]++;
	}
	for (int i = 0; i < x->nwrites && rc >= 0; i++) {
		if (!in_range(x->write[i], p->nvalues))
			return fail(E_USAGE, "operator %d writes value %d, which does not exist", op,
				    x->write[i]);
		struct place_value *v = &m->net->value[x->write[i]];
		if (v->writer >= 0 || v->format != PLACE_NONE)
			return fail(E_USAGE, "value %d is given twice, the second time by operator %d",
				    x->write[i], op);
		v->writer = op;
	}
	return rc;
}

static int add_readers(struct maker *m)
{
	const struct placement_problem *p = m->p;
	for (int v = 0; v < p->nvalues; v++) {
		m->net->value[v].reader = arena_try(m->a, (size_t)m->reads_of[v] + 1, sizeof(int));
		if (!m->net->value[v].reader)
			return E_NOMEM;
	}
	for (int op = 0; op < p->nops; op++)
		for (int i = 0; i < p->op[op].nreads; i++) {
			struct place_value *v = &m->net->value[p->op[op].read[i]];
			int n = v->nreaders;
			if (!n || v->reader[n - 1] != op)
				((int *)v->reader)[v->nreaders++] = op;
		}
	for (int i = 0; i < p->noutputs; i++) {
		int rc = check_port(p, &p->output[i], "network output");
		if (rc < 0)
			return rc;
		struct place_value *v = &m->net->value[p->output[i].value];
		if (v->writer < 0 && v->format == PLACE_NONE)
			return fail(E_USAGE, "nothing computes output %d, value %d", i, p->output[i].value);
		v->want |= 1u << p->output[i].format;
		v->to |= 1u << p->output[i].format;
	}
	return E_OK;
}

static int check_piece(const struct placement_problem *p, int i)
{
	const struct placement_piece *x = &p->piece[i];
	int rc = check_count("operators of a piece", x->nops, 1, p->nops, x->op);
	if (rc >= 0)
		rc = check_count("reads of a piece", x->nreads, 0, p->nvalues, x->read);
	if (rc >= 0)
		rc = check_count("writes of a piece", x->nwrites, 0, p->nvalues, x->write);
	for (int k = 0; k < x->nreads && rc >= 0; k++)
		rc = check_port(p, &x->read[k], "read");
	for (int k = 0; k < x->nwrites && rc >= 0; k++)
		rc = check_port(p, &x->write[k], "write");
	for (int k = 0; k < x->nops && rc >= 0; k++)
		if (!in_range(x->op[k], p->nops))
			return fail(E_USAGE, "there is no operator %d", x->op[k]);
	if (rc < 0)
		return rc;
	if (!in_range(x->backend, p->nbackends) || !in_range(x->device, p->ndevices))
		return fail(E_USAGE, "there is no back end %d or no device %d", x->backend, x->device);
	return is_time(x->ns) ? E_OK : fail(E_USAGE, "%g ns is not a time", x->ns);
}

/* Marks its operators and the values that it must read; checks the lists of the piece against them. */
static int check_ports(struct maker *m, int i)
{
	const struct placement_piece *x = &m->p->piece[i];
	int reads = 0, stamp = 2 * i + 1, used = stamp + 1;
	for (int k = 0; k < x->nops; k++) {
		if (m->in_piece[x->op[k]] == stamp)
			return fail(E_USAGE, "it has operator %d twice", x->op[k]);
		m->in_piece[x->op[k]] = stamp;
	}
	for (int k = 0; k < x->nops; k++) {
		const struct placement_op *op = &m->p->op[x->op[k]];
		for (int r = 0; r < op->nreads; r++) {
			int writer = m->net->value[op->read[r]].writer;
			if ((writer >= 0 && m->in_piece[writer] == stamp) || m->outside[op->read[r]] == stamp)
				continue;
			m->outside[op->read[r]] = stamp;
			reads++;
		}
	}
	for (int k = 0; k < x->nreads; k++) {
		if (m->outside[x->read[k].value] != stamp)
			return fail(E_USAGE, "it reads value %d twice or needlessly", x->read[k].value);
		m->outside[x->read[k].value] = used;
		reads--;
	}
	if (reads)
		return fail(E_USAGE, "%d values that its operators read are missing in its reads", reads);
	for (int k = 0; k < x->nwrites; k++) {
		int v = x->write[k].value, writer = m->net->value[v].writer;
		if (writer < 0 || m->in_piece[writer] != stamp || m->outside[v] == used)
			return fail(E_USAGE, "it writes value %d twice or does not compute it", v);
		m->outside[v] = used;
	}
	return E_OK;
}

/* Can it run as one? Not if an operator outside of it lies on a path between two of its own. */
static int check_convex(struct maker *m, int i, int first, int last)
{
	int stamp = 2 * i + 1;
	for (int op = first; op <= last; op++) {
		bool inside = m->in_piece[op] == stamp;
		for (int r = 0; r < m->p->op[op].nreads; r++) {
			int writer = m->net->value[m->p->op[op].read[r]].writer;
			if (writer < first)
				continue;
			if (inside && m->depends[writer] == stamp)
				return fail(E_USAGE,
					    "it cannot run as one: operator %d, outside of it, reads what it "
					    "computes and comes before operator %d of it",
					    writer, op);
			if (!inside && (m->in_piece[writer] == stamp || m->depends[writer] == stamp))
				m->depends[op] = stamp;
		}
	}
	return E_OK;
}

/* Is all written that other operators need? */
static bool is_complete(const struct maker *m, int i)
{
	const struct placement_piece *x = &m->p->piece[i];
	int stamp = 2 * i + 1, used = stamp + 1;
	for (int k = 0; k < x->nops; k++)
		for (int w = 0; w < m->p->op[x->op[k]].nwrites; w++) {
			int value = m->p->op[x->op[k]].write[w];
			const struct place_value *v = &m->net->value[value];
			bool needed = v->want != 0;
			for (int r = 0; r < v->nreaders && !needed; r++)
				needed = m->in_piece[v->reader[r]] != stamp;
			if (needed && m->outside[value] != used)
				return false;
		}
	return true;
}

static int add_piece(struct maker *m, int i, bool unmeasured)
{
	const struct placement_piece *x = &m->p->piece[i];
	int rc = check_piece(m->p, i);
	if (rc >= 0)
		rc = check_ports(m, i);
	if (rc < 0)
		return rc;
	int first = x->op[0], last = x->op[0];
	for (int k = 1; k < x->nops; k++) {
		first = x->op[k] < first ? x->op[k] : first;
		last = x->op[k] > last ? x->op[k] : last;
	}
	rc = check_convex(m, i, first, last);
	if (rc < 0)
		return rc;
	if ((last - first) / 64 + 1 > m->net->words)
		m->net->words = (last - first) / 64 + 1;
	m->net->piece[i] = (struct place_piece){
	    .is = x,
	    .ns = x->ns + m->p->launch_ns[x->device],
	    .first = first,
	    .usable = (unmeasured || !x->unmeasured) && is_complete(m, i),
	};
	for (int k = 0; k < x->nreads; k++)
		m->net->value[x->read[k].value].to |= 1u << x->read[k].format;
	for (int k = 0; k < x->nwrites; k++)
		m->net->value[x->write[k].value].from |= 1u << x->write[k].format;
	return E_OK;
}

/* The masks of pieces, and the lists of them by first operator. */
static int index_pieces(struct maker *m)
{
	const struct placement_problem *p = m->p;
	struct place_net *net = m->net;
	uint64_t *mask = arena_try(m->a, (size_t)p->npieces * (size_t)net->words + 1, sizeof *mask);
	net->begins = arena_try(m->a, (size_t)p->npieces + 1, sizeof(int));
	net->begin_at = arena_try(m->a, (size_t)p->nops + 2, sizeof(int));
	bool *covered = arena_try(m->a, (size_t)p->nops, sizeof *covered);
	if (!mask || !net->begins || !net->begin_at || !covered)
		return E_NOMEM;
	for (int i = 0; i < p->npieces; i++, mask += net->words) {
		struct place_piece *x = &net->piece[i];
		x->mask = mask;
		for (int k = 0; k < x->is->nops; k++) {
			int bit = x->is->op[k] - x->first;
			mask[bit / 64] |= UINT64_C(1) << bit % 64;
			covered[x->is->op[k]] |= x->usable;
		}
		net->begin_at[x->first + 2] += x->usable;
	}
	for (int op = 0; op < p->nops; op++) {
		if (!covered[op])
			return fail(E_NOTFOUND,
				    "no measured piece that writes what is needed has operator "
				    "%d; give each operator a piece of its own on the fallback back end",
				    op);
		net->begin_at[op + 2] += net->begin_at[op + 1];
	}
	for (int i = 0; i < p->npieces; i++)
		if (net->piece[i].usable)
			net->begins[net->begin_at[net->piece[i].first + 1]++] = i;
	return E_OK;
}

static int price_moves(struct maker *m)
{
	const struct placement_problem *p = m->p;
	for (int value = 0; value < p->nvalues; value++) {
		struct place_value *v = &m->net->value[value];
		size_t rows = (size_t)__builtin_popcount(v->from), n = (size_t)__builtin_popcount(v->to);
		double *move = arena_try(m->a, rows * n + 1, sizeof *move);
		if (!move)
			return E_NOMEM;
		v->move = move;
		for (int from = 0; from < p->nformats; from++)
			for (int to = 0; to < p->nformats; to++) {
				if (!(v->from >> from & 1) || !(v->to >> to & 1))
					continue;
				double ns = from == to ? 0 : p->move_ns(p->moves, value, from, to);
				if (!is_time(ns) && !(isinf(ns) && ns > 0))
					return fail(E_USAGE,
						    "moving value %d from format %d to %d takes "
						    "%g ns, which is not a time",
						    value, from, to, ns);
				*move++ = ns;
			}
	}
	return E_OK;
}

static int make(struct maker *m, bool unmeasured)
{
	size_t nops = (size_t)m->p->nops, nvalues = (size_t)m->p->nvalues + 1;
	m->net->value = arena_try(m->a, nvalues, sizeof *m->net->value);
	m->net->piece = arena_try(m->a, (size_t)m->p->npieces + 1, sizeof *m->net->piece);
	m->in_piece = arena_try(m->a, nops, sizeof(int));
	m->depends = arena_try(m->a, nops, sizeof(int));
	m->outside = arena_try(m->a, nvalues, sizeof(int));
	m->reads_of = arena_try(m->a, nvalues, sizeof(int));
	if (!m->net->value || !m->net->piece || !m->in_piece || !m->depends || !m->outside || !m->reads_of)
		return E_NOMEM;
	int rc = add_inputs(m);
	for (int op = 0; op < m->p->nops && rc >= 0; op++)
		rc = add_op(m, op);
	if (rc >= 0)
		rc = add_readers(m);
	for (int i = 0; i < m->p->npieces && rc >= 0; i++)
		rc = fail_in(add_piece(m, i, unmeasured), "piece %d", i);
	if (rc >= 0)
		rc = index_pieces(m);
	return rc >= 0 ? price_moves(m) : rc;
}

int place_net(const struct placement_problem *p, bool unmeasured, struct arena *a, struct place_net *out)
{
	struct maker m = {.p = p, .net = out, .a = a};
	*out = (struct place_net){.p = p, .words = 1};
	int rc = check_counts(p);
	return fail_in(rc >= 0 ? make(&m, unmeasured) : rc, "placement");
}
