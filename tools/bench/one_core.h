/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ONE_CORE_H
#define TOOLS_ONE_CORE_H

#include "platform/base/err.h"

/* Binds this process, and the children that it starts later, to the processor on which it runs. */
int one_core(void) MUST_CHECK;

#endif
