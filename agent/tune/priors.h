/* SPDX-License-Identifier: Apache-2.0 */
/* Priors of cost models that are part of the program: configs/priors/COST-ISA.txt, linked as data. */
#ifndef AGENT_PRIORS_H
#define AGENT_PRIORS_H

#include "platform/base/file.h"

/* What cost model `cost` begins with on machines of that ISA (struct target's); empty: nothing. */
struct blob priors_find(const char *cost, const char *isa);

#endif
