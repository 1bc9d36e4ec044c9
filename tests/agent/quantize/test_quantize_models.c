/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of the data folder stay about as close to fp32 as they were when this was written. */
#include "tests/lib/quantize.h"

/* The error on the network's test input, from which ranges come, too: with it as the only example. */
static const struct known {
	const char *name;
	double most; /* about 1.5 times what was measured */
} nets[] = {
    {"yunet_n_320", .19},           {"fastestdet_352", .09}, {"ultraface_rfb_320_nopost", .04},
    {"super_resolution_core", .03}, {"mnist_8", .018},
};

static double error_of(const char *folder)
{
	struct quantised q;
	struct tensor in;
	struct graph *g = NULL;
	double error = INFINITY;
	quantised_start(&q);
	q.o.scan = 0;
	CHECK_OK(import_file(arena_printf(&q.arena, "%s/model.onnx", folder), NULL, &g));
	CHECK_OK(tensor_read(&q.arena, arena_printf(&q.arena, "%s/test_data_set_0/input_0.pb", folder), &in,
			     NULL));
	q.g = g;
	q.example[0] = (struct quantize_example){"input_0.pb", &in};
	if (g && in.data && quantize_graph(g, q.example, 1, &q.o, &q.arena, &q.r, &q.out) >= 0 &&
	    q.r.nquantised == q.r.nlayers)
		error = q.r.error;
	quantised_end(&q);
	return error;
}

TEST(known_networks_stay_close)
{
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
		char folder[512];
		snprintf(folder, sizeof folder, "%s/models/%s", test_data(), nets[i].name);
		double error = error_of(folder);
		if (!(error < nets[i].most)) {
			printf("%s: error %.3g, wanted %.3g\n", nets[i].name, error, nets[i].most);
			test_bad = 1;
		}
	}
}

TEST_MAIN
