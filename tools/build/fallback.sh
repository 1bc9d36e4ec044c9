#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Assembler text that links archives of fallback kernels as data (agent/run/fallback_data.h): sh tools/build/fallback.sh FILE.zst...
# Of each: its ISA in 24 bytes, the archive's bytes and the packed ones in 8 each, the packed archive, zeros up to a multiple of 8.
echo '	.section .rodata'
echo '	.balign 8'
echo '	.globl hone_fallback_data, hone_fallback_end'
echo '	.hidden hone_fallback_data, hone_fallback_end'
echo 'hone_fallback_data:'
for f in "$@"; do
	isa=$(basename "$f" .fallback.zst)
	echo "	.ascii \"$isa\""
	echo "	.zero $((24 - ${#isa}))"
	echo "	.quad $(wc -c <"${f%.zst}")"
	echo '	.long 2f - 1f, 0' # a 32-bit assembler makes no quad of a difference
	echo "1:	.incbin \"$f\""
	echo '2:	.balign 8'
done
echo 'hone_fallback_end:'
echo '	.section .note.GNU-stack,"",%progbits'
