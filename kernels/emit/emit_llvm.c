/* SPDX-License-Identifier: Apache-2.0 */
/* Loops to objects with the LLVM C API (14 to 19). The settings, measured on x86 and analysed statically on
 * AArch64: no IR pass (the O-levels hoist and widen until vectors spill, and take three to five times
 * longer), code generation level Default, PIC, small code model, loop strength reduction off (its extra
 * pointers spill the register tile), and no passes that find nothing to do here. The rest is in llvm_*.c.
 *
 * A context lives for one emit, so memory does not grow. LLVM's own state is per process (llvm_start.c). The
 * only other state here is `kept`, which is per thread. */
#include "kernels/loops/code.h"
#include "kernels/emit/emit.h"
#include "kernels/emit/llvm_gen.h"
#include "kernels/emit/llvm_object.h"
#include "kernels/space/draft.h"
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LLVM 18 and 19 have 512-bit instructions only with this feature, which not every processor's name implies:
 * without it they end the process. */
#if LLVM_VERSION_MAJOR == 18 || LLVM_VERSION_MAJOR == 19
#define WIDE ",+evex512"
#else
#define WIDE ""
#endif

/* LLVM's settings for an ISA. */
static const struct isa_llvm {
	const char *isa, *triple;
	enum llvm_arch arch;
	bool round_libcalls; /* no instruction for floor, ceil and rint */
	bool masks;          /* mask registers */
	bool scopes;         /* its instruction scheduler uses alias information */
	const char *also;    /* features that are added */
} isa_llvm[] = {
    {"x86-64-v2", "x86_64-unknown-linux-gnu", ARCH_X86, false, false, false, ""},
    {"x86-64-v3", "x86_64-unknown-linux-gnu", ARCH_X86, false, false, false, ""},
    {"x86-64-v4", "x86_64-unknown-linux-gnu", ARCH_X86, false, true, false, WIDE},
    {"armv8-a", "aarch64-unknown-linux-gnu", ARCH_A64, false, false, true, ""},
    {"armv7-neon", "armv7-unknown-linux-gnueabihf", ARCH_A32, true, false, true, ""},
};

/* Results from the diagnostics of one emit. */
struct diag {
	unsigned frame; /* bytes of the largest stack frame */
	char error[256];
};

static const char *version(void)
{
	return "llvm-" LLVM_VERSION_STRING "/" CODE_REVISION;
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx)
{
	struct diag *d = ctx;
	char *text = LLVMGetDiagInfoDescription(info);
	const char *frame = strstr(text, "stack frame size (");
	if (frame) {
		unsigned n = (unsigned)strtoul(frame + strlen("stack frame size ("), NULL, 10);
		d->frame = n > d->frame ? n : d->frame;
	} else if (LLVMGetDiagInfoSeverity(info) == LLVMDSError) {
		snprintf(d->error, sizeof d->error, "%s", text);
	}
	LLVMDisposeMessage(text);
}

static const struct isa_llvm *find_isa(const char *isa)
{
	for (size_t i = 0; i < sizeof isa_llvm / sizeof *isa_llvm; i++)
		if (strcmp(isa_llvm[i].isa, isa) == 0)
			return &isa_llvm[i];
	return NULL;
}

/* LLVM's tables for one target, which take 0.3 ms to make. They are kept per thread for the next emit, which
 * usually has the same target. */
struct machine {
	const struct isa_llvm *isa;
	char cpu[sizeof((struct target *)0)->cpu], features[sizeof((struct target *)0)->features];
	LLVMTargetMachineRef tm;
	LLVMDisasmContextRef disassembler;
};
static _Thread_local struct machine kept;

static int make_machine(const struct isa_llvm *isa, const struct target *t, struct machine *m)
{
	LLVMTargetRef target;
	char *text = NULL, features[sizeof t->features + 16];
	if (LLVMGetTargetFromTriple(isa->triple, &target, &text)) {
		int rc = fail(E_UNSUPPORTED, "this LLVM (" LLVM_VERSION_STRING ") has no target for %s: %s",
			      t->isa, text);
		LLVMDisposeMessage(text);
		return rc;
	}
	m->isa = isa;
	snprintf(m->cpu, sizeof m->cpu, "%s", t->cpu);
	snprintf(m->features, sizeof m->features, "%s", t->features);
	snprintf(features, sizeof features, "%s%s", t->features, isa->also);
	m->tm = LLVMCreateTargetMachine(target, isa->triple, m->cpu, features, LLVMCodeGenLevelDefault,
					LLVMRelocPIC, LLVMCodeModelSmall);
	m->disassembler = LLVMCreateDisasmCPUFeatures(isa->triple, m->cpu, features, NULL, 0, NULL, NULL);
	return m->tm && m->disassembler
		   ? E_OK
		   : fail(E_UNSUPPORTED, "LLVM cannot generate code for %s (%s)", t->isa, t->cpu);
}

static void drop_machine(struct machine *m)
{
	if (m->tm)
		LLVMDisposeTargetMachine(m->tm);
	if (m->disassembler)
		LLVMDisasmDispose(m->disassembler);
	*m = (struct machine){0};
}

static int use_machine(const struct isa_llvm *isa, const struct target *t)
{
	if (kept.isa == isa && strcmp(kept.cpu, t->cpu) == 0 && strcmp(kept.features, t->features) == 0)
		return E_OK;
	drop_machine(&kept);
	int rc = make_machine(isa, t, &kept);
	if (rc < 0)
		drop_machine(&kept);
	return rc;
}

/* A frame smaller than one vector register contains none (x86 pushes six registers: 56 bytes). A larger frame
 * may contain only scalars, so the code itself is inspected. */
static int check_spills(const struct target *t, unsigned frame, const struct blob *o)
{
	if (frame < 4 * (unsigned)t->lanes)
		return E_OK;
	int n = object_vector_spills(o, kept.disassembler, kept.isa->arch == ARCH_X86);
	if (n > 0)
		return fail(E_SPILL,
			    "spill: the stack frame has %u bytes, with %d vector moves to or from it", frame,
			    n);
	return E_OK;
}

static int compile(struct gen *g, struct diag *d, struct arena *a, struct blob *object)
{
	char *text = NULL;
	LLVMMemoryBufferRef mem;
	LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(kept.tm);
	LLVMSetTarget(g->mod, kept.isa->triple);
	LLVMSetModuleDataLayout(g->mod, layout);
	LLVMDisposeTargetData(layout);
	gen_module(g);
	if (g->missing[0])
		return fail(E_UNSUPPORTED, "this LLVM (" LLVM_VERSION_STRING ") has no intrinsic %s",
			    g->missing);
	if (LLVMTargetMachineEmitToMemoryBuffer(kept.tm, g->mod, LLVMObjectFile, &text, &mem)) {
		int rc = fail(E_UNSUPPORTED, "LLVM: %s", text);
		LLVMDisposeMessage(text);
		return rc;
	}
	object->n = LLVMGetBufferSize(mem);
	object->p = arena_memdup(a, LLVMGetBufferStart(mem), object->n);
	LLVMDisposeMemoryBuffer(mem);
	if (d->error[0])
		return fail(E_UNSUPPORTED, "LLVM: %s", d->error);
	const char *wanted = object_undefined(object);
	if (wanted)
		return fail(E_UNSUPPORTED, "the kernel would call %s: %s has no instruction for it", wanted,
			    g->t->isa);
	return check_spills(g->t, d->frame, object);
}

static int emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	const struct isa_llvm *isa = find_isa(t->isa);
	struct arena tmp = {0};
	struct diag d = {0};
	if (!isa)
		return fail(E_UNSUPPORTED, "emitter llvm cannot generate code for ISA %s", t->isa);
	int rc = target_check(t);
	if (rc >= 0)
		rc = loops_check(l);
	if (rc >= 0 && loops_has_threads(l))
		rc = fail(E_UNSUPPORTED, "emitter llvm has no blocks of threads");
	if (rc >= 0 && l->f16 && !target_sums_f16(t))
		rc = fail(E_UNSUPPORTED, "%s has no arithmetic in f16", t->isa);
	if (rc >= 0 && l->blocks && !target_multiplies_blocks(t))
		rc = fail(E_UNSUPPORTED, "%s has no products of matrices of bytes", t->isa);
	if (rc < 0)
		return rc;
	llvm_start(isa->arch == ARCH_A64 || isa->arch == ARCH_A32);
	rc = use_machine(isa, t);
	if (rc < 0)
		return rc;
	struct gen g = {.l = l,
			.t = t,
			.a = &tmp,
			.arch = isa->arch,
			.round_libcalls = isa->round_libcalls,
			.masks = isa->masks,
			.scopes = isa->scopes,
			.in_order = draft_in_order(t) && llvm_assembles_a64(),
			.evenly = !strcmp(t->cpu, "cortex-a55"),
			.half = target_converts_f16(t)};
	g.ctx = LLVMContextCreate();
	g.mod = LLVMModuleCreateWithNameInContext("hone", g.ctx);
	g.b = LLVMCreateBuilderInContext(g.ctx);
	LLVMContextSetDiagnosticHandler(g.ctx, on_diagnostic, &d);
	rc = compile(&g, &d, a, object);
	LLVMDisposeBuilder(g.b);
	LLVMDisposeModule(g.mod);
	LLVMContextDispose(g.ctx);
	arena_free(&tmp);
	return rc;
}

const struct emit emit_llvm = {"llvm", version, emit};
