/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutional networks: He et al. 2016 (ResNet, the stride on the 3x3 as torchvision does), Howard et al.
 * 2017 and Sandler et al. 2018 (MobileNet), Iandola et al. 2016 (SqueezeNet 1.1), Tan and Le 2019
 * (EfficientNet; lite: without squeeze and excitation, ReLU6), Bojarski et al. 2016 (PilotNet). */
#include "tools/hone/zoo.h"

static void classify(struct zoo *z, struct fmap x)
{
	struct fmap m = zoo_mean(z, x);
	zoo_output(z, zoo_dense(z, m.value, m.c, 1000, 2), "logits");
}

static struct fmap basic_block(struct zoo *z, struct fmap x, int64_t k, int64_t stride, bool norm)
{
	struct fmap y = zoo_conv(z, x, (struct zoo_conv){k, 3, stride, 1, .norm = norm, .act = ACT_RELU});
	y = zoo_conv(z, y, (struct zoo_conv){k, 3, 1, 1, .norm = norm, .gain = 0.5f});
	if (stride != 1 || x.c != k)
		x = zoo_conv(z, x, (struct zoo_conv){k, 1, stride, 0, .norm = norm});
	return zoo_act(z, zoo_add(z, y, x), ACT_RELU);
}

static struct fmap bottleneck(struct zoo *z, struct fmap x, int64_t k, int64_t stride, bool norm)
{
	struct fmap y = zoo_conv(z, x, (struct zoo_conv){k, 1, 1, 0, .norm = norm, .act = ACT_RELU});
	y = zoo_conv(z, y, (struct zoo_conv){k, 3, stride, 1, .norm = norm, .act = ACT_RELU});
	y = zoo_conv(z, y, (struct zoo_conv){4 * k, 1, 1, 0, .norm = norm, .gain = 0.5f});
	if (stride != 1 || x.c != 4 * k)
		x = zoo_conv(z, x, (struct zoo_conv){4 * k, 1, stride, 0, .norm = norm});
	return zoo_act(z, zoo_add(z, y, x), ACT_RELU);
}

typedef struct fmap block_fn(struct zoo *z, struct fmap x, int64_t k, int64_t stride, bool norm);

static void resnet(struct zoo *z, block_fn *block, const int depth[4], bool norm)
{
	struct fmap x = zoo_input(z, "image", 3, 224, 224);
	x = zoo_conv(z, x, (struct zoo_conv){64, 7, 2, 3, .norm = norm, .act = ACT_RELU});
	x = zoo_max_pool(z, x, 3, 2, 1, false);
	for (int stage = 0; stage < 4; stage++)
		for (int i = 0; i < depth[stage]; i++)
			x = block(z, x, INT64_C(64) << stage, stage && !i ? 2 : 1, norm);
	classify(z, x);
}

void zoo_resnet18(struct zoo *z)
{
	resnet(z, basic_block, (const int[]){2, 2, 2, 2}, true);
}

void zoo_resnet50(struct zoo *z)
{
	resnet(z, bottleneck, (const int[]){3, 4, 6, 3}, false);
}

void zoo_mobilenet_v1(struct zoo *z)
{
	static const struct {
		int k, stride;
	} pairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
		     {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
	struct fmap x = zoo_input(z, "image", 3, 224, 224);
	x = zoo_conv(z, x, (struct zoo_conv){32, 3, 2, 1, .norm = true, .act = ACT_RELU});
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		x = zoo_conv(z, x,
			     (struct zoo_conv){x.c, 3, pairs[i].stride, 1, x.c, .norm = true, .act = ACT_RELU});
		x = zoo_conv(z, x, (struct zoo_conv){pairs[i].k, 1, 1, 0, .norm = true, .act = ACT_RELU});
	}
	classify(z, x);
}

struct stage {
	int expand, k, n, stride, r;
};

/* MobileNet v2 block: expand, filter each channel, project without activation; with a residual if the shapes
 * allow it. */
static struct fmap inverted(struct zoo *z, struct fmap x, const struct stage *s, int64_t stride, bool same)
{
	struct fmap y = x;
	if (s->expand != 1)
		y = zoo_conv(z, y, (struct zoo_conv){x.c * s->expand, 1, 1, 0, .act = ACT_RELU6});
	y = zoo_conv(z, y, (struct zoo_conv){y.c, s->r, stride, s->r / 2, y.c, .same = same, .act = ACT_RELU6});
	bool residual = stride == 1 && x.c == s->k;
	y = zoo_conv(z, y, (struct zoo_conv){s->k, 1, 1, 0, .gain = residual ? 0.5f : 1});
	return residual ? zoo_add(z, y, x) : y;
}

static void inverted_net(struct zoo *z, const struct stage *s, bool same)
{
	struct fmap x = zoo_input(z, "image", 3, 224, 224);
	x = zoo_conv(z, x, (struct zoo_conv){32, 3, 2, 1, .same = same, .act = ACT_RELU6});
	for (; s->n; s++)
		for (int i = 0; i < s->n; i++)
			x = inverted(z, x, s, i ? 1 : s->stride, same);
	classify(z, zoo_conv(z, x, (struct zoo_conv){1280, 1, 1, 0, .act = ACT_RELU6}));
}

void zoo_mobilenet_v2(struct zoo *z)
{
	static const struct stage stages[] = {
	    {1, 16, 1, 1, 3}, {6, 24, 2, 2, 3},  {6, 32, 3, 2, 3},  {6, 64, 4, 2, 3},
	    {6, 96, 3, 1, 3}, {6, 160, 3, 2, 3}, {6, 320, 1, 1, 3}, {0}};
	inverted_net(z, stages, false);
}

void zoo_efficientnet_lite0(struct zoo *z)
{
	static const struct stage stages[] = {
	    {1, 16, 1, 1, 3},  {6, 24, 2, 2, 3},  {6, 40, 2, 2, 5},  {6, 80, 3, 2, 3},
	    {6, 112, 3, 1, 5}, {6, 192, 4, 2, 5}, {6, 320, 1, 1, 3}, {0}};
	inverted_net(z, stages, true);
}

static struct fmap fire(struct zoo *z, struct fmap x, int64_t squeeze, int64_t expand)
{
	struct fmap s = zoo_conv(z, x, (struct zoo_conv){squeeze, 1, 1, 0, .act = ACT_RELU});
	struct fmap a = zoo_conv(z, s, (struct zoo_conv){expand, 1, 1, 0, .act = ACT_RELU});
	struct fmap b = zoo_conv(z, s, (struct zoo_conv){expand, 3, 1, 1, .act = ACT_RELU});
	return zoo_concat(z, a, b);
}

void zoo_squeezenet1_1(struct zoo *z)
{
	static const struct {
		int squeeze, expand;
		bool pool; /* a pooling layer comes before it */
	} fires[] = {{16, 64, true},  {16, 64},  {32, 128, true}, {32, 128},
		     {48, 192, true}, {48, 192}, {64, 256},       {64, 256}};
	struct fmap x = zoo_input(z, "image", 3, 224, 224);
	x = zoo_conv(z, x, (struct zoo_conv){64, 3, 2, 0, .act = ACT_RELU});
	for (size_t i = 0; i < sizeof fires / sizeof *fires; i++) {
		if (fires[i].pool)
			x = zoo_max_pool(z, x, 3, 2, 0, true);
		x = fire(z, x, fires[i].squeeze, fires[i].expand);
	}
	x = zoo_conv(z, x, (struct zoo_conv){1000, 1, 1, 0, .act = ACT_RELU});
	zoo_output(z, zoo_mean(z, x).value, "logits");
}

void zoo_steering(struct zoo *z)
{
	static const int k[] = {24, 36, 48, 64, 64}, dense[] = {100, 50, 10};
	struct fmap x = zoo_input(z, "camera", 3, 66, 200);
	for (int i = 0; i < 5; i++)
		x = zoo_conv(z, x, (struct zoo_conv){k[i], i < 3 ? 5 : 3, i < 3 ? 2 : 1, 0, .act = ACT_ELU});
	struct attr axis = zoo_attr_int("axis", 1);
	int v = zoo_node(z, "Flatten", 1, &x.value, 1, &axis);
	int64_t from = x.c * x.h * x.w;
	for (int i = 0; i < 3; from = dense[i++])
		v = zoo_unary(z, "Elu", zoo_dense(z, v, from, dense[i], 1.4));
	zoo_output(z, zoo_unary(z, "Tanh", zoo_dense(z, v, from, 1, 1)), "angle");
}
