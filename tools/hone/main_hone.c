/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"
#include "tools/hone/next.h"

int main(int argc, char **argv)
{
	if (argc > 0)
		next_called(argv[0]);
	return hone_main(argc, argv);
}
