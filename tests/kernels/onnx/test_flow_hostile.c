/* SPDX-License-Identifier: Apache-2.0 */
/* Malicious control flow gives an error that names the node, in bounded memory, time and stack. */
#include "tests/lib/onnx_make.h"
#include "platform/base/rng.h"

static const struct import_opts capped = {.max_bytes = 1 << 30};

static int import_made(struct onnx_maker *k)
{
	struct graph *g;
	int rc = mk_import(k, NULL, &capped, &g);
	if (rc >= 0)
		graph_free(g);
	return rc;
}

static int import_raw(const void *p, size_t n)
{
	/* damaged trip counts unroll to the limit: little memory ends that sooner */
	static const struct import_opts small = {.max_bytes = 4 << 20};
	struct graph *g;
	int rc = import_bytes(p, n, NULL, &small, &g);
	if (rc >= 0)
		graph_free(g);
	return rc;
}

/* x of three floats, constants yes, no, m; output y */
static void start(struct onnx_maker *k, int64_t m)
{
	static const uint8_t bools[] = {1, 0};
	mk_start(k, 17, 64);
	mk_input(k, "x", 1, "3");
	mk_init(k, "yes", 9, "", bools, 1);
	mk_init(k, "no", 9, "", bools + 1, 1);
	mk_init(k, "m", 7, "", &m, sizeof m);
	mk_output(k, "y");
}

/* A branch of one node; out2: a second output; NULL: none. */
static void branch(struct onnx_maker *k, Onnx__NodeProto *n, const char *attr, const char *in,
		   const char *out, const char *out2)
{
	Onnx__GraphProto around = mk_sub(k, 4);
	mk_node(k, "Relu", in, out);
	mk_output(k, out);
	if (out2)
		mk_output(k, out2);
	mk_sub_end(k, &around, n, attr);
}

/* The body i, on, z -> on, Relu(z); names as given. */
static Onnx__NodeProto *loop(struct onnx_maker *k, const char *in, const char *out, const char *formals,
			     const char *from, const char *cond, const char *to)
{
	char **names;
	Onnx__NodeProto *n = mk_node(k, "Loop", in, out);
	size_t count = mk_names(k, formals, &names);
	Onnx__GraphProto around = mk_sub(k, 8);
	for (size_t i = 0; i < count; i++)
		mk_input(k, names[i], i == 0 ? 7 : i == 1 ? 9 : 1, NULL);
	mk_node(k, "Relu", from, "r");
	mk_output(k, cond);
	mk_output(k, to);
	mk_sub_end(k, &around, n, "body");
	return n;
}

TEST(nested_a_thousand_deep)
{
	enum { DEEP = 1000 };
	for (int deep = IMPORT_MAX_DEPTH; deep <= DEEP; deep += deep == IMPORT_MAX_DEPTH ? 1 : DEEP - deep) {
		struct onnx_maker k;
		start(&k, 0);
		Onnx__GraphProto around[DEEP];
		Onnx__NodeProto *n[DEEP];
		char name[32];
		for (int d = 0; d < deep; d++) {
			snprintf(name, sizeof name, d ? "y%d" : "y", d);
			n[d] = mk_node(&k, "If", "yes", arena_strdup(&k.a, name));
			around[d] = mk_sub(&k, 4);
			snprintf(name, sizeof name, "y%d", d + 1);
			mk_output(&k, arena_strdup(&k.a, name));
		}
		mk_node(&k, "Relu", "x", arena_strdup(&k.a, name));
		for (int d = deep - 1; d >= 0; d--) {
			mk_sub_end(&k, &around[d], n[d], "then_branch");
			char other[32];
			snprintf(other, sizeof other, "other%d", d);
			branch(&k, n[d], "else_branch", "x", other, NULL);
		}
		if (deep == IMPORT_MAX_DEPTH)
			CHECK_OK(import_made(&k));
		else
			CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "nested more than 64 deep");
		if (deep == DEEP)
			break;
	}
}

TEST(branches_that_disagree)
{
	struct onnx_maker k;
	start(&k, 0);
	Onnx__NodeProto *n = mk_node(&k, "If", "yes", "y");
	branch(&k, n, "then_branch", "x", "a", NULL);
	branch(&k, n, "else_branch", "x", "b", "b");
	CHECK_FAILS(import_made(&k), E_CORRUPT,
		    "node 'If_0' (If, opset 17): its branches give 1 and 2 outputs, the node has 1");
	start(&k, 0);
	n = mk_node(&k, "If", "yes", "y z");
	branch(&k, n, "then_branch", "x", "a", NULL);
	branch(&k, n, "else_branch", "x", "b", NULL);
	CHECK_FAILS(import_made(&k), E_CORRUPT, "give 1 and 1 outputs, the node has 2");
	start(&k, 0);
	n = mk_node(&k, "If", "yes", "y");
	branch(&k, n, "then_branch", "x", "a", NULL);
	Onnx__GraphProto around = mk_sub(&k, 4);
	k.g.output[k.g.n_output++] = mk_value(&k, "yes", 7, NULL);
	mk_sub_end(&k, &around, n, "else_branch");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "output 0 is float in one branch and int64 in the other");
	start(&k, 0);
	n = mk_node(&k, "If", "yes", "y");
	branch(&k, n, "else_branch", "x", "a", NULL);
	around = mk_sub(&k, 4);
	mk_input(&k, "p", 1, "3");
	mk_output(&k, "p");
	mk_sub_end(&k, &around, n, "then_branch");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "a branch has inputs");
}

TEST(trip_counts)
{
	static const struct {
		int64_t m;
		int rc;
		const char *part;
	} rows[] = {
	    {(int64_t)1 << 60, E_UNSUPPORTED,
	     "1152921504606846976 iterations of 1 nodes: unrolling takes more than the limit of 65536 nodes"},
	    {INT64_MAX, E_UNSUPPORTED, "9223372036854775807 iterations"},
	    {40000, E_UNSUPPORTED, "40000 iterations of 1 nodes"},
	    {-1, E_CORRUPT, "node 'Loop_0' (Loop, opset 17): its trip count is -1"},
	    {INT64_MIN, E_CORRUPT, "its trip count is -9223372036854775808"},
	};
	struct onnx_maker k;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		start(&k, rows[i].m);
		loop(&k, "m - x", "y", "i on z", "z", "on", "r");
		CHECK_FAILS(import_made(&k), rows[i].rc, rows[i].part);
	}
	start(&k, 30000);
	loop(&k, "m - x", "y", "i on z", "z", "on", "r");
	CHECK_OK(import_made(&k));
	start(&k, 1);
	loop(&k, "- yes x", "y", "i on z", "z", "on", "r");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "no trip count, and 32768 iterations of 1 nodes so far");
	start(&k, 1);
	loop(&k, "x yes x", "y", "i on z", "z", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "its trip count 'x' is no i64 of one element");
	start(&k, 1);
	loop(&k, "m m x", "y", "i on z", "z", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "its condition 'm' is no bool of one element");
}

/* Each level multiplies the iterations by 200; bodies without nodes count, too. */
TEST(loops_in_loops)
{
	struct onnx_maker k;
	Onnx__GraphProto around[4];
	Onnx__NodeProto *n[4];
	start(&k, 200);
	for (int d = 0; d < 4; d++) {
		n[d] = mk_node(&k, "Loop", d ? arena_printf(&k.a, "m - z%d", d - 1) : "m - x",
			       d ? arena_printf(&k.a, "y%d", d) : "y");
		around[d] = mk_sub(&k, 4);
		mk_input(&k, arena_printf(&k.a, "i%d", d), 7, "");
		mk_input(&k, arena_printf(&k.a, "on%d", d), 9, "");
		mk_input(&k, arena_printf(&k.a, "z%d", d), 1, NULL);
		mk_output(&k, arena_printf(&k.a, "on%d", d));
		mk_output(&k, arena_printf(&k.a, d < 3 ? "y%d" : "z%d", d < 3 ? d + 1 : d));
	}
	for (int d = 3; d >= 0; d--)
		mk_sub_end(&k, &around[d], n[d], "body");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "more than the limit of 65536 nodes");
}

/* The limit counts the nodes that replace a node of a body, too: this one becomes about ten. */
TEST(bodies_of_nodes_that_are_replaced)
{
	for (int trips = 1000; trips <= 20000; trips *= 20) {
		struct onnx_maker k;
		start(&k, trips);
		Onnx__NodeProto *n = mk_node(&k, "Loop", "m - x", "y");
		Onnx__GraphProto around = mk_sub(&k, 4);
		mk_input(&k, "i", 7, "");
		mk_input(&k, "on", 9, "");
		mk_input(&k, "z", 1, NULL);
		mk_attr_ints(&k, mk_node(&k, "MeanVarianceNormalization", "z", "zz"), "axes", 1,
			     (int64_t[]){0});
		mk_output(&k, "on");
		mk_output(&k, "zz");
		mk_sub_end(&k, &around, n, "body");
		if (trips == 1000)
			CHECK_OK(import_made(&k));
		else
			CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "more than the limit of 65536 nodes");
	}
}

/* The carried value doubles in each iteration. */
TEST(values_that_grow)
{
	struct onnx_maker k;
	start(&k, 60);
	Onnx__NodeProto *n = mk_node(&k, "Loop", "m - x", "y");
	Onnx__GraphProto around = mk_sub(&k, 4);
	mk_input(&k, "i", 7, "");
	mk_input(&k, "on", 9, "");
	mk_input(&k, "z", 1, NULL);
	mk_attr_int(&k, mk_node(&k, "Concat", "z z", "zz"), "axis", 0);
	mk_output(&k, "on");
	mk_output(&k, "zz");
	mk_sub_end(&k, &around, n, "body");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "more than");
}

TEST(names_that_shadow)
{
	struct onnx_maker k;
	start(&k, 2);
	Onnx__NodeProto *n = mk_node(&k, "If", "yes", "y");
	branch(&k, n, "then_branch", "x", "x", NULL);
	branch(&k, n, "else_branch", "x", "b", NULL);
	CHECK_FAILS(import_made(&k), E_CORRUPT, "the name 'x' is used twice");
	start(&k, 2);
	n = mk_node(&k, "If", "yes", "y");
	branch(&k, n, "then_branch", "x", "y", NULL);
	branch(&k, n, "else_branch", "x", "b", NULL);
	CHECK_FAILS(import_made(&k), E_CORRUPT, "the name 'y' is used twice");
	start(&k, 2);
	loop(&k, "m - x", "y", "i on x", "x", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "the name 'x' is used twice");
	start(&k, 2);
	loop(&k, "m - x", "y", "i on r", "x", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "the name 'r' is used twice");
	start(&k, 2);
	loop(&k, "m - x", "y", "i i z", "z", "i", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "the name 'i' is used twice");
	start(&k, 2); /* a name of the model that looks like a copy's */
	mk_node(&k, "Relu", "x", "r.2");
	mk_node(&k, "Relu", "x", "r.3");
	loop(&k, "m - x", "y", "i on z", "z", "on", "r");
	CHECK_OK(import_made(&k));
}

TEST(outputs_from_around)
{
	struct onnx_maker k;
	for (int kind = 0; kind < 3; kind++) {
		start(&k, 2);
		if (kind == 0) {
			Onnx__NodeProto *n = mk_node(&k, "If", "yes", "y");
			Onnx__GraphProto around = mk_sub(&k, 4);
			mk_output(&k, "x");
			mk_sub_end(&k, &around, n, "then_branch");
			branch(&k, n, "else_branch", "x", "b", NULL);
		} else
			loop(&k, "m - x", "y", "i on z", "z", kind == 1 ? "yes" : "on",
			     kind == 1 ? "r" : "x");
		CHECK_FAILS(import_made(&k), E_CORRUPT,
			    "is a value of a graph around it: an Identity is missing");
		start(&k, 2);
		loop(&k, "m - x", "y", "i on z", "z", "on", "nowhere");
		CHECK_FAILS(import_made(&k), E_CORRUPT,
			    "output 'nowhere' of the subgraph is made by no node");
	}
	start(&k, 2);
	loop(&k, "m - x", "y", "i on z", "nowhere", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "it reads 'nowhere', which no node writes");
}

TEST(cycles)
{
	struct onnx_maker k;
	start(&k, 2); /* a branch that reads what it makes */
	Onnx__NodeProto *n = mk_node(&k, "If", "yes", "y");
	branch(&k, n, "then_branch", "y", "a", NULL);
	branch(&k, n, "else_branch", "x", "b", NULL);
	CHECK_FAILS(import_made(&k), E_CORRUPT, "cycle");
	start(&k, 2); /* a condition that depends on its If */
	n = mk_node(&k, "If", "c", "y");
	mk_node(&k, "Cast", "y", "c");
	branch(&k, n, "then_branch", "x", "a", NULL);
	branch(&k, n, "else_branch", "x", "b", NULL);
	CHECK_FAILS(import_made(&k), E_CORRUPT,
		    "node 'If_0' depends on its own output: the graph has a cycle");
}

/* Functions of a model are not supported, whatever they contain. */
TEST(functions_that_call_themselves)
{
	/* functions { name: "f" node { op_type: "f" domain: "d" } domain: "d" } */
	static const uint8_t f[] = {0xca, 1,   14,   10, 1,   'f',  0x3a, 6,  0x22,
				    1,    'f', 0x3a, 1,  'd', 0x52, 1,    'd'};
	struct onnx_maker k;
	start(&k, 2);
	mk_node(&k, "f", "x", "y")->domain = mk_text("d");
	struct blob b = mk_bytes(&k);
	uint8_t *p = arena_alloc(&k.a, b.n + sizeof f);
	memcpy(p, b.p, b.n);
	memcpy(p + b.n, f, sizeof f);
	CHECK_FAILS(import_raw(p, b.n + sizeof f), E_UNSUPPORTED,
		    "node 'f_0' (f of domain d): operators of that domain are not supported");
	arena_free(&k.a);
}

/* Operators of ONNX Runtime's format QOperator name the format that is supported. */
TEST(operators_of_another_quantisation_format)
{
	static const char *const types[] = {"QGemm", "QLinearAdd", "QLinearSoftmax",
					    "QLinearGlobalAveragePool"};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct onnx_maker k;
		start(&k, 2);
		mk_node(&k, types[i], "x", "y")->domain = mk_text("com.microsoft");
		CHECK_FAILS(import_made(&k), E_UNSUPPORTED,
			    "not supported; quantise the model with quant_format=QDQ instead");
	}
	struct onnx_maker k;
	start(&k, 2);
	mk_node(&k, "FusedConv", "x", "y")->domain = mk_text("com.microsoft");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "export the model with operators of the default domain");
}

TEST(missing_and_wrong_attributes)
{
	static const struct {
		const char *type, *in, *part;
	} rows[] = {
	    {"If", "yes", "attribute else_branch is missing or no graph"},
	    {"If", "x", "its condition 'x' is no bool of one element"},
	    {"If", "-", "0 inputs; If takes 1"},
	    {"If", "yes no", "2 inputs; If takes 1"},
	    {"Loop", "m - x", "attribute body is missing or no graph"},
	    {"Scan", "x", "attribute num_scan_inputs is missing"},
	};
	struct onnx_maker k;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		start(&k, 2);
		mk_node(&k, rows[i].type, rows[i].in, "y");
		CHECK_FAILS(import_made(&k), E_CORRUPT, rows[i].part);
	}
	start(&k, 2);
	mk_attr(&k, mk_node(&k, "If", "yes", "y"), "else_branch", 2);
	CHECK_FAILS(import_made(&k), E_CORRUPT, "attribute else_branch is missing or no graph");
	start(&k, 2);
	Onnx__NodeProto *n = loop(&k, "m - x", "y", "i on z", "z", "on", "r");
	mk_attr_int(&k, n, "bod", 1);
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "attribute 'bod' is not supported");
	start(&k, 2);
	n = loop(&k, "m - x", "y", "i on z", "z", "on", "r");
	n->attribute[0]->g.len -= 3;
	CHECK_FAILS(import_made(&k), E_CORRUPT, "attribute body: ");
	start(&k, 2);
	loop(&k, "m - x x", "y", "i on z", "z", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "its body has 3 inputs and 2 outputs; 4 and at least 3 fit");
	start(&k, 2);
	loop(&k, "m - x", "y s", "i on z", "z", "on", "r");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "it has 2 outputs, but its body gives 1");
	start(&k, 2);
	mk_node(&k, "SequenceConstruct", "x x", "y");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED,
		    "(SequenceConstruct, opset 17): the operator is not supported");
}

/* Scan over `in`: state z, slices a and b. */
static Onnx__NodeProto *scan(struct onnx_maker *k, const char *in, int64_t slices, const char *type)
{
	Onnx__NodeProto *n = mk_node(k, "Scan", in, "y s");
	mk_attr_int(k, n, "num_scan_inputs", slices);
	Onnx__GraphProto around = mk_sub(k, 8);
	mk_input(k, "z", 1, NULL);
	mk_input(k, "a", 1, NULL);
	mk_input(k, "b", 1, NULL);
	mk_node(k, "Add", "a b", "ab");
	mk_node(k, type, "z ab", "r");
	mk_output(k, "r");
	mk_output(k, "ab");
	mk_sub_end(k, &around, n, "body");
	return n;
}

TEST(scans)
{
	static const float w[12] = {0};
	static const struct {
		const char *attr, *part;
		int64_t value;
		int n;
	} rows[] = {
	    {"scan_input_axes", "axis 2 of rank 2", 2, 2},
	    {"scan_input_axes", "axis -3 of rank 2", -3, 2},
	    {"scan_input_axes", "attribute scan_input_axes: -9 is outside -8..7", -9, 2},
	    {"scan_input_axes", "attribute scan_input_axes has 1 integers instead of 2", 0, 1},
	    {"scan_input_axes", "9223372036854775807 is outside", INT64_MAX, 2},
	    {"scan_input_directions", "2 is outside 0..1", 2, 2},
	    {"scan_output_axes", "attribute scan_output_axes has 2 integers instead of 1", 0, 2},
	    {"scan_output_axes", "axis", 7, 1},
	    {"scan_output_directions", "-1 is outside 0..1", -1, 1},
	};
	struct onnx_maker k;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int64_t values[2] = {rows[i].value, rows[i].value};
		start(&k, 2);
		mk_init(&k, "w", 1, "4 3", w, sizeof w);
		mk_attr_ints(&k, scan(&k, "x w w", 2, "Add"), rows[i].attr, rows[i].n, values);
		CHECK_FAILS(import_made(&k), E_CORRUPT, rows[i].part);
	}
	static const int64_t counts[] = {0, -1, 4, INT64_MAX};
	for (int i = 0; i < 4; i++) {
		start(&k, 2);
		mk_init(&k, "w", 1, "4 3", w, sizeof w);
		scan(&k, "x w w", counts[i], "Add");
		CHECK_FAILS(import_made(&k), E_CORRUPT, "scan inputs of 3 inputs");
	}
	start(&k, 2);
	mk_init(&k, "w", 1, "4 3", w, sizeof w);
	mk_init(&k, "v", 1, "3 4", w, sizeof w);
	scan(&k, "x w v", 2, "Add");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "scan inputs of 4 and 3 slices");
	start(&k, 2);
	mk_init(&k, "w", 1, "", w, 4);
	scan(&k, "x w w", 2, "Add");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "axis 0 of rank 0");
	start(&k, 2);
	k.opset.version = 8;
	mk_init(&k, "w", 1, "4 3", w, sizeof w);
	scan(&k, "x w w", 2, "Add");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "not supported at this opset");
	start(&k, 2);
	mk_init(&k, "w", 1, "4 3", w, sizeof w);
	scan(&k, "x w w", 2, "Nonesuch"); /* one line, not one for each iteration */
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "(Nonesuch, opset 17): the operator is not supported");
	CHECK(!strstr(err_text(), "cannot be used:"));
}

/* Conditions on data name the node and say what is supported. */
TEST(conditions_on_data)
{
	struct onnx_maker k;
	for (int kind = 0; kind < 3; kind++) {
		start(&k, 2);
		mk_attr_int(&k, mk_node(&k, "ReduceSum", "x", "sum"), "keepdims", 0);
		mk_node(&k, kind == 2 ? "Identity" : "Cast", kind == 2 ? "m" : "sum", "c");
		if (kind < 2)
			mk_attr_int(&k, k.g.node[1], "to", kind ? 7 : 9);
		if (kind == 0) {
			Onnx__NodeProto *n = mk_node(&k, "If", "c", "y");
			branch(&k, n, "then_branch", "x", "a", NULL);
			branch(&k, n, "else_branch", "x", "b", NULL);
		} else if (kind == 1)
			loop(&k, "c - x", "y", "i on z", "z", "on", "r");
		else { /* the body computes it */
			Onnx__NodeProto *n = mk_node(&k, "Loop", "c - x", "y");
			Onnx__GraphProto around = mk_sub(&k, 4);
			mk_input(&k, "i", 7, "");
			mk_input(&k, "on", 9, "");
			mk_input(&k, "z", 1, NULL);
			mk_attr_int(&k, mk_node(&k, "Cast", "sum", "go"), "to", 9);
			mk_output(&k, "go");
			mk_output(&k, "z");
			mk_sub_end(&k, &around, n, "body");
		}
		static const char *const parts[] = {"(If, opset 17): its condition 'c' depends on data",
						    "(Loop, opset 17): its trip count 'c' depends on data",
						    "(Loop, opset 17): its condition 'go."};
		CHECK_FAILS(import_made(&k), E_UNSUPPORTED, parts[kind]);
		CHECK(strstr(err_text(), "supported is what follows from constants and shapes"));
	}
}

/* Each If waits for the one after it in the file: time must stay linear. */
TEST(many_ifs_in_the_worst_order)
{
	enum { MANY = 20000 };
	static const uint8_t yes = 1;
	struct onnx_maker k;
	mk_start(&k, 17, MANY + 8);
	mk_input(&k, "x", 1, "3");
	mk_init(&k, "c0", 9, "", &yes, 1);
	for (int i = MANY; i > 0; i--) {
		Onnx__NodeProto *n =
		    mk_node(&k, "If", arena_printf(&k.a, "c%d", i - 1), arena_printf(&k.a, "c%d", i));
		for (int b = 0; b < 2; b++) {
			Onnx__GraphProto around = mk_sub(&k, 2);
			const char *out = arena_printf(&k.a, "o%d_%d", i, b);
			mk_node(&k, "Identity", arena_printf(&k.a, "c%d", i - 1), out);
			mk_output(&k, out);
			mk_sub_end(&k, &around, n, b ? "then_branch" : "else_branch");
		}
	}
	mk_output(&k, arena_printf(&k.a, "c%d", MANY));
	CHECK_OK(import_made(&k));
}

static struct blob damage_model(struct onnx_maker *k)
{
	static const float w[12] = {1, 2, 3};
	start(k, 3);
	k->g.output[0]->name = mk_text("s");
	mk_init(k, "w", 1, "4 3", w, sizeof w);
	scan(k, "x w w", 2, "Mul");
	Onnx__NodeProto *n = mk_node(k, "If", "yes", "q");
	Onnx__GraphProto around = mk_sub(k, 4);
	loop(k, "m - y", "l", "i on c", "c", "on", "r");
	mk_output(k, "l");
	mk_sub_end(k, &around, n, "then_branch");
	branch(k, n, "else_branch", "s", "e", NULL);
	mk_output(k, "q");
	return mk_bytes(k);
}

TEST(every_bit_flipped)
{
	struct onnx_maker k;
	struct blob b = damage_model(&k);
	uint8_t *p = arena_memdup(&k.a, b.p, b.n);
	REQUIRE_OK(import_raw(p, b.n));
	for (size_t i = 0; i < b.n * 8; i++) {
		p[i / 8] ^= (uint8_t)(1 << i % 8);
		(void)import_raw(p, b.n);
		p[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	CHECK_OK(import_raw(p, b.n));
	arena_free(&k.a);
}

TEST(random_damage)
{
	struct onnx_maker k;
	struct rng r;
	struct blob b = damage_model(&k);
	uint8_t *p = arena_alloc(&k.a, b.n);
	rng_seed(&r, 7);
	for (int round = 0; round < 3000; round++) {
		memcpy(p, b.p, b.n);
		for (uint32_t i = 0, n = 1 + rng_below(&r, 6); i < n; i++)
			p[rng_below(&r, (uint32_t)b.n)] = (uint8_t)rng_u64(&r);
		(void)import_raw(p, b.n);
	}
	CHECK_OK(import_raw(b.p, b.n));
	arena_free(&k.a);
}

TEST_MAIN
