/* SPDX-License-Identifier: Apache-2.0 */
/* LLVM's state of the process: its targets and options, set once. */
#include "kernels/emit/llvm_object.h"

#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdlib.h>

/* Other machines' code generators exist only in programs that link them by name (hone-maker and tests do).
 * That of the machine itself must not be weak: the linker would leave it out. */
#define OTHER_TARGET(t)                                                                                      \
	void LLVMInitialize##t##TargetInfo(void) __attribute__((weak));                                      \
	void LLVMInitialize##t##Target(void) __attribute__((weak));                                          \
	void LLVMInitialize##t##TargetMC(void) __attribute__((weak));                                        \
	void LLVMInitialize##t##AsmPrinter(void) __attribute__((weak));                                      \
	void LLVMInitialize##t##Disassembler(void) __attribute__((weak));                                    \
	static void init_##t(void)                                                                           \
	{                                                                                                    \
		if (!LLVMInitialize##t##Target)                                                              \
			return;                                                                              \
		LLVMInitialize##t##TargetInfo();                                                             \
		LLVMInitialize##t##Target();                                                                 \
		LLVMInitialize##t##TargetMC();                                                               \
		LLVMInitialize##t##AsmPrinter();                                                             \
		LLVMInitialize##t##Disassembler();                                                           \
	}
#ifdef __aarch64__
#define init_AArch64()
#else
OTHER_TARGET(AArch64)
#endif
#ifdef __arm__
#define init_ARM()
#else
OTHER_TARGET(ARM)
#endif
#ifdef __x86_64__
#define init_X86()
#else
OTHER_TARGET(X86)
#endif

#ifdef __aarch64__
void LLVMInitializeAArch64AsmParser(void);
#define ASSEMBLES_A64 true
#else
void LLVMInitializeAArch64AsmParser(void) __attribute__((weak));
#define ASSEMBLES_A64 (LLVMInitializeAArch64AsmParser != NULL)
#endif

bool llvm_assembles_a64(void)
{
	return ASSEMBLES_A64;
}

void LLVMInitializeNVPTXTargetInfo(void) __attribute__((weak));
void LLVMInitializeNVPTXTarget(void) __attribute__((weak));
void LLVMInitializeNVPTXTargetMC(void) __attribute__((weak));
void LLVMInitializeNVPTXAsmPrinter(void) __attribute__((weak));

bool llvm_has_ptx(void)
{
	return LLVMInitializeNVPTXTarget != NULL;
}

static void init_NVPTX(void)
{
	if (!llvm_has_ptx())
		return;
	LLVMInitializeNVPTXTargetInfo();
	LLVMInitializeNVPTXTarget();
	LLVMInitializeNVPTXTargetMC();
	LLVMInitializeNVPTXAsmPrinter();
}

/* Disables passes that find nothing in the output of gen_module(); this saves a sixth of the instructions
 * spent on a convolution. CodeGenPrepare moves addresses to their uses, where they already are; AArch64 keeps
 * it, because it splits displacements that do not fit, and also the passes that find the constants it makes
 * for them. MachineLICM stays: it keeps the constants of exp out of loops. -pre-RA-sched=linearize would save
 * 6 % more, but miscompiles (a kernel with tanh in its epilogue). LLVM 14 to 19 know all these options: an
 * unknown one would end the process. */
static const char *const options[] = {
    "hone",
    "-disable-lsr",
    "-disable-constant-hoisting",
    "-disable-mergeicmps",
    "-disable-partial-libcall-inlining",
    "-disable-postra-machine-licm",
    "-disable-expand-reductions",
    "-disable-ssc",
    "-enable-shrink-wrap=false",
};
#ifdef __x86_64__
static const char *const x86_options[] = {
    "hone",
    "-disable-cgp",
    "-disable-machine-cse",
    "-disable-machine-sink",
    "-disable-postra-machine-sink",
    "-disable-copyprop",
    "-disable-peephole",
    "-disable-early-ifcvt",
    "-disable-early-taildup",
    "-disable-tail-duplicate",
    "-disable-branch-fold",
    "-disable-x86-lea-opt",
    "-disable-x86-domain-reassignment",
};
#endif

/* Addresses of shared memory have 32 bits: those of 64 take twice the registers and additions. Nothing is
 * computed before a branch that needs it behind: constants of addresses belong into the accesses. Only
 * programs with NVPTX know these options. */
static const char *const ptx_options[] = {"hone", "-nvptx-short-ptr", "-spec-exec-max-speculation-cost=0"};

static void init_llvm(void)
{
	if (LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter() ||
	    LLVMInitializeNativeDisassembler())
		abort(); /* this LLVM lacks the machine's own target */
	init_AArch64();
	init_ARM();
	init_X86();
	if (llvm_assembles_a64())
		LLVMInitializeAArch64AsmParser();
	init_NVPTX();
	LLVMParseCommandLineOptions((int)(sizeof options / sizeof *options), options, NULL);
	if (llvm_has_ptx())
		LLVMParseCommandLineOptions((int)(sizeof ptx_options / sizeof *ptx_options), ptx_options,
					    NULL);
}

static void init_x86(void)
{
#ifdef __x86_64__
	LLVMParseCommandLineOptions((int)(sizeof x86_options / sizeof *x86_options), x86_options, NULL);
#endif
}

void llvm_start(bool arm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT, once_x86 = PTHREAD_ONCE_INIT;
	pthread_once(&once, init_llvm);
	if (!arm)
		pthread_once(&once_x86, init_x86);
}
