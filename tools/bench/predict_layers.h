/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of networks as tasks, in blocks of four channels: what tools/bench/bench_predict.c predicts and
 * measures. */
#ifndef TOOLS_PREDICT_LAYERS_H
#define TOOLS_PREDICT_LAYERS_H

#include <stddef.h>

enum { LAYER_TEXT = 1024 };
/* The text of layer i, and its name. Returns false behind the last one. */
_Bool predict_layer(int i, char name[64], char text[LAYER_TEXT]);

#endif
