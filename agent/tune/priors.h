/* SPDX-License-Identifier: Apache-2.0 */
/* Priors of cost models, built into the program: configs/priors/COST-ISA.txt, linked as data. */
#ifndef AGENT_PRIORS_H
#define AGENT_PRIORS_H

#include "platform/base/file.h"

/* Returns the prior of cost model `cost` for machines of that ISA (struct target's); empty: there is none. */
struct blob priors_find(const char *cost, const char *isa);

#endif
