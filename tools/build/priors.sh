#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Assembler text that links priors of cost models as data (agent/tune/priors.h): sh tools/build/priors.sh FILE.txt...
# Of each: its name in 64 bytes, its length in 8, its text, zeros up to a multiple of 64.
echo '	.section .rodata'
echo '	.balign 64'
echo '	.globl hone_priors_data'
echo 'hone_priors_data:'
for f in "$@"; do
	echo "	.ascii \"$(basename "$f" .txt)\""
	echo '	.balign 64'
	echo '	.quad 2f - 1f'
	echo "1:	.incbin \"$f\""
	echo '2:	.balign 64'
done
echo '	.globl hone_priors_end'
echo 'hone_priors_end:'
