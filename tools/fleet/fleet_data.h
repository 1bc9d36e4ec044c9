/* SPDX-License-Identifier: Apache-2.0 */
/* Files of configs/fleet that are built into the server. */
#ifndef TOOLS_FLEET_DATA_H
#define TOOLS_FLEET_DATA_H

#include <stddef.h>

extern const char fleet_data_openapi[], fleet_data_openapi_end[]; /* openapi.json */
extern const char fleet_data_style[], fleet_data_style_end[];     /* page.css */

#endif
