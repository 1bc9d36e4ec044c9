/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"

int main(int argc, char **argv)
{
	return hone_main(argc, argv);
}
