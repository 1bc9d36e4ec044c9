/* SPDX-License-Identifier: Apache-2.0 */
/* Priors of cost models that are part of the program: configs/models/COST-ISA.txt, linked as data. */
#ifndef AGENT_MODELS_H
#define AGENT_MODELS_H

#include "platform/file.h"

/* What cost model `cost` begins with on machines of that ISA (struct target's); empty: nothing. */
struct blob models_prior(const char *cost, const char *isa);

#endif
