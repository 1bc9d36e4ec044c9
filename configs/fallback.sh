#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Assembler text that links archives of fallback kernels as data: sh configs/fallback.sh FILE...  (best ISA last)
echo '	.section .rodata'
echo '	.balign 8'
echo '	.globl hone_fallback_data'
echo 'hone_fallback_data:'
for f in "$@"; do
	echo "	.incbin \"$f\""
	echo '	.balign 8'
done
echo '	.globl hone_fallback_end'
echo 'hone_fallback_end:'
echo '	.section .note.GNU-stack,"",%progbits'
