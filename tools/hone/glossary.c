/* SPDX-License-Identifier: Apache-2.0 */
/* The words that hone's tables print. Those of the field have the field's meaning. */
#include "tools/hone/glossary.h"

#include <stddef.h>
#include <strings.h>

const struct term hone_terms[] = {
    {"alone", "The time of one kernel by itself, as the search measured it. In the network other kernels "
	      "change what the caches hold."},
    {"box", "One run of hone tune with its time limit (--budget). It ends in time, and keeps what it found."},
    {"candidate", "One way of computing a task: a schedule that may be tried."},
    {"CI", "95 % CI: the range in which the true value lies with 95 % certainty."},
    {"conv", "A convolution. \"conv 3x3/2 24->36 14x47\" has filters of 3x3, a stride of 2, 24 input and 36 "
	     "output channels, and outputs of 14x47. dwconv is a depthwise one."},
    {"copy", "A task that only moves or converts numbers."},
    {"default", "A kernel whose schedule follows from rules, without a search. It stays where no tuned one is "
		"faster."},
    {"disturbed", "Other programs, heat or a changed clock slowed the machine while it was measured, so that "
		  "the times are less certain."},
    {"draft", "An estimate of a kernel's time that is calculated, not measured."},
    {"F(4,3)", "A convolution by Winograd's algorithm, on tiles of 4x4 outputs with filters of 3x3; F(2,3): of "
	       "2x2 outputs. It multiplies less and rounds more; --level exact does without it."},
    {"fallback", "A kernel that is built into hone and fits any size. It runs until the cache has a better one."},
    {"fused", "Words behind a task's sizes, such as relu or exp select mul, are operators that the same kernel "
	      "computes along with it."},
    {"gain", "How many times as fast as before: 2.00x takes half the time. In brackets: it may be chance."},
    {"GFLOP/s", "10^9 additions and multiplications a second; a MFLOP is 10^6 of them."},
    {"hint", "A record of another board. This board times it before it counts."},
    {"kernel", "The machine code that computes one task."},
    {"lanes", "How many 32-bit floats one vector instruction of the processor computes."},
    {"level", "How much kernels may round: exact, fp32, w16, half, half-sum or int8 (--level)."},
    {"limited by", "What bounds the task's speed on this machine: arithmetic, or memory."},
    {"matmul", "A product of matrices. \"matmul 1x100 k1152\" gives 1x100 numbers, each a sum of 1152 products."},
    {"median", "Half of the runs took less time. p90: 90 % took less; p99: 99 %."},
    {"node", "The operator of the model's file where the task begins."},
    {"peak", "The most additions and multiplications a second that this machine reached when it was measured."},
    {"portable", "Plain C code of hone, for what no other kernel computes."},
    {"race", "The fastest candidates of a task are timed in turns, so that what disturbs one disturbs all."},
    {"recipe", "How a model was quantised for level int8: which layers, and with which scales."},
    {"record", "The best candidate of a task and its time, as the cache keeps it."},
    {"rigor", "How thorough hone tune is: cached measures nothing, estimate takes default schedules, quick ends "
	      "when gains dry up, patient uses the whole box."},
    {"roofline", "The speed that the measured peaks of arithmetic and memory allow for a task. 100 % of roofline "
		 "is as fast as the machine can."},
    {"rounds", "How often two versions of the network were timed in turns for a comparison."},
    {"schedule", "How a kernel's loops run. lane: the axis in vector lanes; tile: what is summed in registers; "
		 "unroll: steps written out; order: the loops, outermost first; par: how many of these the "
		 "threads share. The axes: n c y x of the tensor, k output channels, r s of the filter."},
    {"share", "The kernel's part of all kernels' time; of hone tasks: of all operations."},
    {"stale", "A record whose time counts no longer, as the compiler, the driver or the clock is another one. "
	      "The next box times it again."},
    {"task", "One operator of the network, or several fused ones, with its sizes. Equal tasks are tuned once."},
    {"trial", "A candidate that was built, checked and timed."},
    {"tuned", "A kernel that the search found, and that was faster than the default one."},
    {"us", "Microseconds: 1000 us are 1 ms."},
    {"uses", "How often the network computes the task in one run."},
    {NULL},
};

const struct term *term_find(const struct term *terms, const char *word)
{
	for (; terms && terms->name; terms++)
		if (!strcasecmp(terms->name, word))
			return terms;
	return NULL;
}
