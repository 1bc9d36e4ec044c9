/* SPDX-License-Identifier: Apache-2.0 */
/* The importer's state, shared by import.c (the order of work) and its parts import_*.c only. */
#ifndef KERNELS_IMPORT_PARTS_H
#define KERNELS_IMPORT_PARTS_H

#include "kernels/onnx/import.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/names.h"
#include "kernels/onnx/onnx_pb.h"

/* A graph of the file. Subgraphs are parsed when they are needed, and once: sub[2 * node + K] is branch K of
 * an If (0: else, 1: then), or K = 0 the body of a Loop or Scan; NULL: not parsed yet. */
struct import_body {
	const Onnx__GraphProto *p;
	struct import_body **sub;
};

/* The names that a graph, or a copy of a subgraph, can read: its own and those of the scopes around it. */
struct import_scope {
	struct names names;         /* value name -> index; in `scratch` */
	struct names bound;         /* names of node outputs that are values of the graph around it */
	struct import_scope *outer; /* NULL: the model's graph */
	int depth;                  /* subgraphs around it */
	int id;                     /* part of the names of its values and nodes; 0: none */
	bool repeated;              /* its nodes count as unrolled */
	bool constants_known;       /* its constants are declared in the scope around it */
};

/* A constant that masks of Attention begin with (import_function.c). */
struct import_mask {
	int64_t s, t, before, left, right, type, value;
};

enum { IMPORT_MASKS = 8 };

struct importer {
	struct graph *g;
	const struct import_opts *o;
	struct pb_home home;              /* of external data */
	int opset;                        /* of the default domain */
	struct import_scope root, *scope; /* the model's graph; the graph that is being imported */
	struct import_flows *flows;       /* import_flow.c; NULL: the model has no node that is replaced */
	int last_id;                      /* of a scope */
	int64_t unrolled;                 /* nodes that Loop and Scan have made */
	int64_t made_bytes;               /* of constants that import_function.c has made */
	struct import_mask mask[IMPORT_MASKS]; /* the last of them; type 0: none */
	unsigned nmasks;                       /* so far */
	struct arena scratch;
	bool *bind_used;       /* per o->binds */
	bool only_input;       /* the model has one input */
	bool unknown;          /* inputs or initializers are unsupported, so no shape follows from them */
	struct names sizes;    /* of symbolic dimensions, as the given shapes of inputs say */
	struct buf lines;      /* unsupported features, one per line */
	int nlines;            /* number of lines, including those that were cut off */
	struct buf free, give; /* import_free.c: inputs with free sizes, options that would give them */
	int nfree, nbatch;     /* inputs whose sizes are missing, whose batch size is taken as 1 */
	struct buf replaced; /* import_free.c: inputs for which the caller gives other sizes than the file */
	int nreplaced;       /* their number */
};

/* 0: built for libhone, which gives no shapes of files (struct import_bind: weak). */
#ifndef IMPORT_FILES
#define IMPORT_FILES 1
#endif

/* A shape in which dimensions may be free: their size is -1. */
struct free_shape {
	struct shape s;
	const char *name[MAX_RANK]; /* of symbolic dimensions; NULL: none */
};

/* Adds a line to the final E_UNSUPPORTED error: "WHERE: <text of the last failure>; remedy". */
void import_complain(struct importer *im, const char *where, const char *remedy);
/* Adds a value to the current scope and returns its index; E_CORRUPT: the name is in use, there or around
 * it. */
int import_value(struct importer *im, const char *name) MUST_CHECK;
/* Gives an existing value a name in the current scope. */
int import_alias(struct importer *im, const char *name, int value) MUST_CHECK;
/* The value of that name in the current scope or around it; -1: none. */
int import_find(const struct importer *im, const char *name);
/* import.c: initializers */
int import_constants(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;

/* import_input.c: graph inputs with their bound shapes; outputs. */
int import_inputs(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_outputs(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;

/* import_free.c: takes a free batch size as 1, and notes inputs that have other free dimensions; those make
 * import_free_finish return E_USAGE. */
void import_free(struct importer *im, const char *input, struct free_shape *f);
/* Notes an input whose sizes in the file, some of which are numbers, are replaced by the caller's. */
void import_replace(struct importer *im, const char *input, const struct free_shape *f,
		    const struct shape *given);
/* Says in an error of the model's nodes which sizes were given or replaced, as these are its likely cause. */
int import_replace_explain(const struct importer *im, int rc) MUST_CHECK;
int import_free_finish(struct importer *im) MUST_CHECK;
const char *import_shape_option(const struct importer *im); /* goes before NAME=DIMS in texts */
/* Appends it and "NAME=" for an input, quoted where the option is one of a command line. */
void import_shape_for(const struct importer *im, const char *input, struct buf *out);

/* import_node.c: values of all nodes first (the file need not be in order), then the nodes. */
int import_declare(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_declare_constants(struct importer *im, const Onnx__GraphProto *p) MUST_CHECK;
int import_nodes(struct importer *im, struct import_body *b) MUST_CHECK;
/* Whether a word is one of `words`, which are separated by single spaces. */
bool import_word_in(const char *words, const char *w);
void import_node_name(const struct importer *im, const Onnx__NodeProto *p, size_t index, char out[256]);

/* ---- import_flow.c, import_if.c, import_loop.c, import_function.c: nodes that others replace as soon as the
 * shapes and constants that they depend on are known. Of If, Loop and Scan these are copies of their
 * subgraphs. So nodes are inferred one by one, each when its inputs have types. ---- */

/* A node that is not replaced yet. */
struct import_flow {
	const struct flow_kind *kind;
	const Onnx__NodeProto *p;
	struct import_body *around; /* the graph of the file in which it is node `index` */
	size_t index;
	struct import_scope *scope; /* of that graph */
	const char *name;
	int nin, *in, nout, *out;
	struct import_loop *loop; /* the state of a Loop */
};

enum { FLOW_DONE = 0, FLOW_WAITS = 1 };
struct flow_kind {
	const char *type;
	int since; /* opset */
	const char *attrs;
	/* Called when all inputs have types, and again after FLOW_WAITS when *wait, a value, has one. Returns
	 * FLOW_DONE when the outputs are made. */
	int (*step)(struct importer *im, struct import_flow *f, int *wait);
};
extern const struct flow_kind flow_if, flow_loop, flow_scan, flow_attention, flow_rotary, flow_normalise,
    flow_dft, flow_stft;

const struct flow_kind *import_flow_kind(const Onnx__NodeProto *p);               /* NULL: an ordinary node */
int import_flow_add(struct importer *im, const struct import_flow *f) MUST_CHECK; /* copies *f */
/* Infers the graph and replaces all flows. Returns the number of nodes without a shape, which it has added to
 * im->lines; *worst is the error code. Does nothing and returns 0 without flows. */
int import_flow_run(struct importer *im, int *worst) MUST_CHECK;
void import_flow_free(struct importer *im);

const Onnx__AttributeProto *flow_attr(const struct import_flow *f, const char *name); /* NULL: absent */
/* The subgraph in attribute `name`, at place `k` of the node's. */
int flow_body(struct importer *im, struct import_flow *f, const char *name, int k,
	      struct import_body **out) MUST_CHECK;
/* A new scope inside `outer`. */
struct import_scope *flow_scope(struct importer *im, struct import_scope *outer, int deeper);
/* Declares the body's initializers and Constants in the scope; E_UNSUPPORTED: it is too deep. */
int flow_constants(struct importer *im, const struct import_body *b, struct import_scope *s) MUST_CHECK;
/* Copies the body's nodes. `more`: nodes that the caller adds to each copy; E_UNSUPPORTED: too many are
 * unrolled. */
int flow_copy(struct importer *im, struct import_body *b, struct import_scope *s, int64_t more) MUST_CHECK;
/* Counts n nodes of the scope, if it is one of a Loop's or Scan's; E_UNSUPPORTED: too many are unrolled. */
int flow_count(struct importer *im, const struct import_scope *s, int64_t n) MUST_CHECK;
/* The value of the body's output k, which must be one of the subgraph's own. */
int flow_output(struct importer *im, const struct import_body *b, struct import_scope *s,
		size_t k) MUST_CHECK;
/* Adds a node with at most one output, and has it inferred. */
int flow_node(struct importer *im, const char *type, const char *name, int nin, const int *in, int out,
	      int nattr, const struct attr *attr) MUST_CHECK;
/* A new constant of n integers (rank 0 if n is 0) or a scalar bool; returns the value. */
int flow_ints(struct importer *im, const char *name, int n, const int64_t *data) MUST_CHECK;
int flow_bool(struct importer *im, const char *name, bool data) MUST_CHECK;
/* Reads value v, a bool or integer scalar of that type (`what` in messages), which must be a constant. */
int flow_scalar(struct importer *im, int v, enum dtype t, const char *what, int64_t *out) MUST_CHECK;

#endif
