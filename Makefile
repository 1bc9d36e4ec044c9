# SPDX-License-Identifier: Apache-2.0
# make            everything into $(B)          make demo       install what is missing, build, tune MobileNetV2
# make test       every test                    make t/cache    tests/.../test_cache.c alone
# make help       this list
# make layers     who includes and links whom   make size       lines per folder
# make install    DESTDIR= PREFIX=              make fuzz       each parser's fuzz target, a minute each
# make uninstall  removes what install with the same DESTDIR= PREFIX= PYTHON_SITE= wrote
# make golden     rewrites golden files: git diff shows what changed
# make torture    the cache after power cuts: 20,000 states of recorded runs, and of a block device where that can be had;
#                 1,000 kills of boot boxes; the units under a real systemd; each fuzz target
# make boot-test  an emulated arm64 board under systemd: the boot box before an application, and 50 power cuts in it
# make deb-test   Debian packages (make deb) in fresh roots: installed, upgraded, removed, purged
# make image-test images of hone image: 250 damaged ones; Debian boots in QEMU; 50 power cuts at first boots
# make bench-NAME tools/bench/bench_NAME.c; the rules are in tools/bench/rules.mk
# make BOARD=rpi4 another board's programs, in build-rpi4: tools/build/board.mk
# knobs: CASE=part of a test's name  ARGS=of a benchmark  CC=clang  B=build-x  SAN=1 or thread (as in SAN=thread t/libhone_crowd)  V=1  LLVM_CONFIG=llvm-config-14

ifneq ($(BOARD),)
include tools/build/board.mk
endif
B           ?= $(if $(SAN),$(if $(filter thread,$(SAN)),build-tsan,build-san),build)
PREFIX      ?= /usr/local
LLVM_CONFIG ?= $(firstword $(foreach v,19 18 17 16 15 14,$(shell command -v llvm-config-$(v))))
OBJCOPY     ?= objcopy
VERSION     := 0.1.0

CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror
# `override`: these are added to what the command line gives, too.
override CPPFLAGS += -D_GNU_SOURCE -DHONE_VERSION='"$(VERSION)"' -DHONE_LIBDIR='"$(PREFIX)/lib/hone"' -I. -I$(B)/gen -MMD -MP
SANS      = $(if $(filter thread,$(SAN)),thread -Wno-maybe-uninitialized -Wno-tsan,address$(,)undefined)
ALLC      = -std=c11 $(CFLAGS) $(WARN) $(if $(SAN),-fsanitize=$(SANS) -fno-sanitize-recover=undefined -fno-omit-frame-pointer) \
	    $(if $(FUZZ),-fsanitize=fuzzer-no-link$(,)address)
override LDFLAGS += $(if $(SAN),-fsanitize=$(SANS))$(if $(FUZZ),-fsanitize=address) -Wl,--as-needed
, := ,
say = @$(if $(V),,echo "  $(1)	$(patsubst $(B)/%,%,$@)";)
src   = $(wildcard $(1))
objs  = $(patsubst %.c,$(B)/%.o,$(1))
AGAIN = @+$(MAKE) --no-print-directory

all: programs

help:
	@sed -n '2,/^$$/s/^# //p' Makefile

# ---- folders: each is one archive, and a folder sees itself and those before it. A new one is added here, to the
# lists in_PROGRAM below and to tests/sh/layers.sh. ----
ROOMS = $(addprefix platform/,base machine run) $(addprefix kernels/,task space loops emit library graph qdq group onnx) search \
	$(addprefix agent/,cache control run quantize calibrate bundle sync worker tune honed) $(addprefix tools/,hone fleet bench)
# A file X_name.c defines `const struct X X_name`; these tables are made from the file names, so adding a device, operator,
# emitter, strategy, cost model, policy or command is adding one file and editing none. (libhone knows dev_cpu alone.)
KINDS  = platform/run/dev kernels/graph/op kernels/emit/emit kernels/library/library search/strategy search/cost agent/control/policy tools/hone/cmd
FLEETS = tools/fleet/db tools/fleet/publish
MAINS  = $(call src,agent/*/main_*.c tools/*/main_*.c)
LLVMC  = $(addprefix kernels/emit/,emit_llvm.c emit_ptx.c) $(call src,kernels/emit/llvm_*.c)
BENCHC = $(call src,tools/bench/bench_*.c)
APART  = $(MAINS) $(LLVMC) $(BENCHC)
$(foreach r,$(ROOMS),$(eval $(B)/$(r).a: $(call objs,$(filter-out $(APART),$(call src,$(r)/*.c)))))
$(B)/kernels/onnx.a: $(B)/gen/kernels/onnx/onnx.pb-c.o
$(B)/%.a:
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^

# ---- programs: a list of folders, and of libraries ----
in    = $(patsubst %,$(B)/%.a,$(1))
BASE  = platform/run platform/machine platform/base
MATHS = $(addprefix kernels/,onnx group qdq graph library emit loops space task)
AGENT = $(addprefix agent/,tune worker sync bundle run control cache)
in_honed  = $(addprefix agent/,honed control cache) kernels/space kernels/task $(BASE)
in_sync   = $(addprefix agent/,sync control cache) search $(filter-out kernels/onnx,$(MATHS)) $(BASE)
in_fleet  = tools/fleet tools/hone agent/sync agent/control agent/cache search $(filter-out kernels/onnx,$(MATHS)) $(BASE)
in_worker = $(AGENT) $(MATHS) search $(BASE)
in_hone   = tools/hone agent/calibrate agent/quantize $(AGENT) $(MATHS) search $(BASE)
LDLIBS  += -linih -lhwloc -lprotobuf-c -lzstd -ljansson -lmbedx509 -lmbedcrypto $(CLIBS)
CLIBS   ?= -lpthread -lm
# Pictures as inputs (tools/hone/picture.h): hone, tests and benchmarks alone.
PICLIBS  = -lpng -ljpeg -lz
NETLIBS  = -luv -lcurl -lmicrohttpd -lsqlite3 -lpq
# Objects of folders and others, as libhone has them; `own`: which libhone has with less in them.
small    = $(addprefix $(B)/,$(foreach o,$(2) $(basename $(filter-out $(APART),$(foreach r,$(1),$(call src,$(r)/*.c)))),$(if $(filter $(own),$(o)),own,lib)/$(o).o))
own      = $(addprefix agent/cache/,$(less_cache) chosen) $(addprefix kernels/space/,$(less_space)) $(addprefix kernels/task/,$(less_task))
less_cache = cache cache_index cache_layer
less_space = draft_items draft_lines draft_winograd sched_check space space_rate space_ring space_winograd winograd
less_task  = task_groups
less_onnx  = import_free import_input
table_o  = $(patsubst %,$(B)/gen/%_table.o,$(1))
TABLES   = $(call table_o,$(KINDS))
link     = $(call say,LD)$(CC) $(LDFLAGS) $(if $(filter $(B)/static/%,$@),-static) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

BASELINES ?= $(if $(filter x86_64,$(shell uname -m)),x86-64-v2 x86-64-v3 x86-64-v4,armv8-a)
PROGRAMS = $(addprefix $(B)/,hone honed hone-worker hone-sync $(if $(BOARD),,hone-fleet))
programs: $(PROGRAMS) $(B)/hone-image $(B)/libhone.so $(B)/libhone-device.so $(B)/libhone.a $(BASELINES:%=$(B)/fallback/%.fallback.zst)
$(B)/hone $(B)/static/hone: $(B)/tools/hone/main_hone.o $(TABLES) $(B)/gen/fallback.o $(call in,$(in_hone))
	$(link) $(PICLIBS) $(LDLIBS)
# What `hone image` starts.
$(B)/hone-image: tools/build/hone-image.sh
	$(call say,CP)install -m 755 $< $@
# Boards run these two all the time: they consist of small objects (below), and nothing can write to their tables of functions.
HARDENED = -Wl,--gc-sections,-z,relro,-z,now
$(B)/honed-all.a: $(call small,$(in_honed))
$(B)/honed $(B)/static/honed: $(call small,,agent/honed/main_honed gen/agent/control/policy_table) $(B)/honed-all.a
	$(link) $(HARDENED) -luv -linih -ljansson $(CLIBS)
$(B)/hone-sync-all.a: $(call small,$(in_sync))
$(B)/hone-sync: $(call small,,agent/sync/main_sync gen/kernels/graph/op_table gen/agent/control/policy_table) $(B)/hone-sync-all.a
	$(link) $(HARDENED) -lcurl $(LDLIBS)
$(B)/hone-fleet: $(B)/tools/fleet/main_fleet.o $(call table_o,$(FLEETS) kernels/graph/op) $(call in,$(in_fleet))
	$(link) $(NETLIBS) $(LDLIBS)

# Builds, checks and times candidates: it alone links LLVM. The code generator for PTX is linked where LLVM has it.
PTX_PARTS ?= $(filter nvptx,$(shell $(LLVM_CONFIG) --components))
PTX        = $(if $(PTX_PARTS),$(foreach i,TargetInfo Target TargetMC AsmPrinter,-Wl$(,)-u$(,)LLVMInitializeNVPTX$(i)))
LLVM_PARTS = core native $(PTX_PARTS)
LLVM_LIBS ?= $(shell $(LLVM_CONFIG) --link-static --ldflags --libs $(LLVM_PARTS)) \
            $(shell $(LLVM_CONFIG) --link-static --system-libs) -lstdc++
LLVM_INCLUDE ?= $(shell $(LLVM_CONFIG) --includedir)
WORKER    = $(call objs,$(LLVMC)) $(filter-out %/cmd_table.o %/emit_table.o,$(TABLES)) $(B)/gen/kernels/emit/emit_table_worker.o
$(B)/hone-worker $(B)/static/hone-worker: $(B)/agent/worker/main_worker.o $(WORKER) $(call in,$(in_worker))
	$(link) -Wl,--gc-sections $(PTX) $(LLVM_LIBS) $(LDLIBS) -lseccomp
# The worker with code generators for other machines: it makes their kernels during a build, and tests link the same (on a board, x86's too).
CROSS = $(foreach t,AArch64 ARM $(if $(BOARD),X86),$(foreach i,TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler,-Wl$(,)-u$(,)LLVMInitialize$(t)$(i)))
$(B)/hone-maker: LLVM_PARTS = core native aarch64 arm $(PTX_PARTS)
$(B)/hone-maker: $(B)/agent/worker/main_worker.o $(WORKER) $(call in,$(in_worker))
	$(link) -Wl,--gc-sections $(CROSS) $(PTX) $(LLVM_LIBS) $(LDLIBS) -lseccomp
MAKER ?= $(B)/hone-worker
$(call objs,$(LLVMC) tests/kernels/emit/test_llvm_types.c): override CPPFLAGS += -I$(LLVM_INCLUDE)

# ---- objects ----
# Loops over floats: vectorised, and no errno or traps to keep.
FLOATS = agent/run/host_math agent/run/host_tile agent/run/host_run agent/run/host_flat kernels/graph/dense8 kernels/task/runs
$(FLOATS:%=$(B)/%.o): ALLC += -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wno-psabi
# The loops of host_tile.c over less than a vector copy a few floats, which gcc would make calls of memcpy. Those take 2 to 5
# times as long where the processor has no masks (SSE), and 10 KB.
FEW_FLOATS = $(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns)
$(B)/agent/run/host_tile.o: ALLC += $(FEW_FLOATS)
# Each operation is rounded by itself.
ROUNDS = kernels/graph/add8 kernels/graph/dense8_vnni
$(ROUNDS:%=$(B)/%.o): ALLC += -ffp-contract=off
PROTO  = $(B)/gen/kernels/onnx/onnx.pb-c.c
$(B)/tools/fleet/fleet_data.o: $(call src,configs/fleet/*)
$(B)/%.o: %.c | $(PROTO)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALLC) -c -o $@ $<
$(B)/gen/%.o: $(B)/gen/%.c
	$(call say,CC)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(ALLC)) -c -o $@ $<
$(PROTO): kernels/onnx/onnx.proto
	@mkdir -p $(@D)
	$(call say,GEN)protoc-c --c_out=$(B)/gen $<
# Every object, without linking.
objects: $(call objs,$(foreach d,$(ROOMS),$(call src,$(d)/*.c)))

table = { k=$(notdir $(1)); echo '\#include "$(1).h"'; for n in $(2); do echo "extern const struct $$k $${k}_$$n;"; done; \
	echo "const struct $$k *const $${k}_table[] = {"; for n in $(2); do echo "	&$${k}_$$n,"; done; echo "	0};"; }
rows  = $(patsubst $(1)_%.c,%,$(filter-out $(2),$(call src,$(1)_*.c)))
.SECONDEXPANSION:
$(patsubst %,$(B)/gen/%_table.c,$(KINDS) $(FLEETS)): $(B)/gen/%_table.c: $$(call src,$$*_*.c) Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,$*,$(call rows,$*,$(LLVMC))) > $@
$(B)/gen/kernels/emit/emit_table_worker.c: $(call src,kernels/emit/emit_*.c) Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,kernels/emit/emit,$(call rows,kernels/emit/emit)) > $@

# Fallback kernels: made by hone-worker (another board's by the one of this machine) from the same operators and IR, one archive per ISA baseline, linked as data.
$(B)/gen/%.fallback: $(MAKER)
	@mkdir -p $(@D)
	$(call say,GEN)$(MAKER) --fallback $(*F) $(if $(findstring few/,$@),--few) -o $@
$(B)/gen/%.fallback.zst: $(B)/gen/%.fallback
	$(call say,ZSTD)zstd -q -f -19 -o $@ $<
$(B)/fallback/%.zst: $(B)/gen/%.zst # where libhone.so looks in a build folder
	@mkdir -p $(@D) && cp $< $@
$(B)/gen/fallback.s: $(BASELINES:%=$(B)/gen/%.fallback.zst) tools/build/fallback.sh Makefile
	$(call say,GEN)sh tools/build/fallback.sh $(filter %.zst,$^) > $@
$(B)/gen/libhone_fallback.s: $(B)/gen/few/$(firstword $(BASELINES)).fallback.zst tools/build/fallback.sh
	$(call say,GEN)sh tools/build/fallback.sh $< > $@
$(B)/gen/fallback.o $(B)/gen/libhone_fallback.o: %.o: %.s
	$(call say,AS)$(CC) -c -o $@ $<

# ---- libhone (agent/run/hone.h): small objects of the folders that it needs; what the API does not reach is left out ----
in_lib = $(addprefix agent/,run cache) $(addprefix kernels/,onnx group qdq graph space task) $(BASE)
LIBMAP = agent/run/libhone.map
SONAME = libhone.so.1
API    = $(shell sed -n 's/^\t\t//p' $(LIBMAP) | tr ';' ' ')
LIBSRC = $(foreach r,$(in_lib),$(call src,$(r)/*.c)) kernels/loops/code.c
LIBOBJ = $(LIBSRC:%.c=$(B)/lib/%.o) $(patsubst %,$(B)/lib/gen/%.o,kernels/onnx/onnx.pb-c kernels/graph/op_table lib/dev_table)
# What models spend their time in where kernels are missing stays as fast as -Os makes it.
LIBHOT = agent/run/halo agent/run/host% agent/run/plan agent/run/plan_copy kernels/graph/add8 kernels/graph/dense8% kernels/graph/depthwise8 kernels/graph/product8 kernels/graph/prog% $(addprefix kernels/task/,runs task tensor walk) \
	 $(addprefix kernels/graph/op_,binary gemm quant reduce softmax unary) platform/base/crc platform/run/pool
# Without these optimisations code is 3 % smaller for x86-64, and 1 % for arm64, for which the former two make it larger.
SMALLER := $(if $(findstring clang,$(CC)),-Oz,-Oz -fno-tree-pre -fno-tree-loop-im -fno-move-loop-invariants -fno-caller-saves $(if $(findstring aarch64,$(shell $(CC) -dumpmachine)),-fno-ipa-sra -fno-partial-inlining,-fno-gcse -fno-inline-functions-called-once))
# For a debugger or a sanitizer they stay as CFLAGS says, with frame pointers. A stack protector (Debian packages) would add 33 KB.
DEBUGGED = $(SAN)$(filter -O0 -Og,$(CFLAGS))
SMALL  = $(if $(DEBUGGED),,$(if $(filter $(LIBHOT:%=$(B)/lib/%.o),$@),-Os,$(SMALLER)) -fomit-frame-pointer -fno-stack-protector) $(if $(findstring clang,$(CC)),,-Wno-format-truncation -falign-jumps=1) \
	 $(in_lib:%=-fmacro-prefix-map=%/=) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables
# -O3 without copies of whole loops: libhone.so stays below 1 MB, and as fast.
LEAN = $(if $(findstring clang,$(CC)),,-fno-split-loops -fno-unswitch-loops)
$(B)/lib/agent/run/host_run.o $(B)/lib/agent/run/host_flat.o: FAST = -O3 $(LEAN)
$(B)/lib/agent/run/host_tile.o: LEANER = $(LEAN) $(FEW_FLOATS)
$(B)/lib/kernels/graph/add8.o: FAST = -ffp-contract=off
$(B)/lib/kernels/graph/dense8_vnni.o: FAST = -O2 -ffp-contract=off
$(patsubst %,$(B)/lib/%.o,agent/run/host_math agent/run/host_tile kernels/graph/dense8): FAST = -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wno-psabi
$(less_cache:%=$(B)/lib/agent/cache/%.o): FAST = -DCACHE_WRITES=0
$(B)/lib/agent/cache/chosen.o: FAST = -DCHOSEN_FORMER=0
$(less_task:%=$(B)/lib/kernels/task/%.o): FAST = -DTASK_INPUTS=0
$(less_space:%=$(B)/lib/kernels/space/%.o): FAST = -DSCHED_THREADED=0
$(less_onnx:%=$(B)/lib/kernels/onnx/%.o): FAST = -DIMPORT_FILES=0
define small_object
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALLC) $(SMALL) $(if $(DEBUGGED),$(filter-out -O%,$(FAST)),$(FAST)) $(LEANER) -c -o $@ $<
endef
$(B)/lib/%.o: %.c | $(PROTO)
	$(small_object)
$(B)/own/%.o: %.c | $(PROTO)
	$(small_object)
$(B)/lib/gen/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(ALLC)) $(SMALL) -c -o $@ $<
$(B)/gen/lib/dev_table.c: Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,platform/run/dev,cpu) > $@
$(B)/libhone-all.a: $(LIBOBJ)
$(B)/libhone.o: $(B)/libhone-all.a $(B)/gen/libhone_fallback.o $(LIBMAP)
	$(call say,LD)$(LD) -r --gc-sections $(API:%=-u %) -o $@ $(B)/gen/libhone_fallback.o $< \
		&& $(OBJCOPY) --localize-hidden $@
$(B)/libhone.a: $(B)/libhone.o
$(B)/libhone.so: $(B)/libhone.o
	$(call say,LD)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME),--version-script=$(LIBMAP)$(if $(SAN),,$(,)-z$(,)defs),-z,now,-z,nodelete$(if $(BOARD),,$(,)-z$(,)pack-relative-relocs),-z,noseparate-code,--gc-sections \
		-o $@ $< -lprotobuf-c -lzstd $(CLIBS) && ln -sf libhone.so $(B)/$(SONAME)

# What runs plans on devices with drivers (OpenCL, CUDA), which libhone.so opens when an application asks for one, and kernels of
# libraries, for which it opens the same file when a plan needs one (agent/run/device_lib.h).
# About 88 KB stripped.
DEVSRC = $(call src,kernels/library/*.c) agent/run/device_lib.c agent/run/plan_device.c agent/run/plan_graph.c platform/run/dev.c platform/run/driver_text.c \
	 $(foreach d,opencl cuda,platform/run/dev_$d.c $(call src,platform/run/$d*.c))
$(B)/gen/lib/device_table.c: Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,platform/run/dev,cuda opencl) > $@
DEVICE_LINK = $(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F)$(if $(SAN),,$(,)-z$(,)defs),-z,now,-z,nodelete,-z,noseparate-code,--gc-sections,--exclude-libs,ALL,--defsym=fail=device_fail,--defsym=fail_in=device_fail_in,--defsym=err_text=device_err_text -o $@ $(filter %.o %.a,$^) -lzstd $(CLIBS)
DEVICE_PARTS = $(DEVSRC:%.c=$(B)/lib/%.o) $(B)/lib/gen/lib/device_table.o $(B)/lib/gen/kernels/library/library_table.o $(B)/libhone-all.a
$(B)/libhone-device.so: $(DEVICE_PARTS)
	$(call say,LD)$(DEVICE_LINK)

# ---- tests: a binary for each; tests/.../test_llvm_*.c and some benchmarks get LLVM too ----
TESTSRC = $(call src,tests/*/test_*.c tests/*/*/test_*.c)
HELPERS = $(call src,tests/*/fuzz_*.c tests/*/*/fuzz_*.c) tests/lib/seeds.c tests/lib/cuts.c tests/lib/boots.c
TESTS   = $(patsubst test_%.c,%,$(notdir $(TESTSRC)))
$(foreach s,$(TESTSRC) $(HELPERS),$(eval $(B)/tests/$(basename $(notdir $(s))): $(s:%.c=$(B)/%.o)))
$(foreach s,$(BENCHC),$(eval $(B)/tools/$(basename $(notdir $(s))): $(s:%.c=$(B)/%.o)))
TLIBS   = $(call in,$(filter-out agent/honed,$(ROOMS)) agent/honed) $(B)/gen/tables.a
$(B)/gen/tables.a: $(TABLES) $(call table_o,$(FLEETS))
TEST_BIN = $(TESTS:%=$(B)/tests/test_%) $(patsubst %.c,$(B)/tools/%,$(notdir $(BENCHC)))
NO_LLVM   = $(patsubst %,$(B)/tools/bench_%,crypto fleet load polls herd idle net rss landscape model search strategies cache jobs boot yield quality row others)
WITH_LLVM = $(filter-out $(NO_LLVM),$(patsubst %.c,$(B)/tools/%,$(notdir $(BENCHC))) $(filter $(B)/tests/test_llvm_%,$(TEST_BIN)))
WITHOUT   = $(filter-out $(WITH_LLVM),$(TEST_BIN)) $(patsubst %.c,$(B)/tests/%,$(notdir $(HELPERS)))
$(WITHOUT): $(TLIBS)
	$(link) $(if $(findstring fuzz_,$@),-fsanitize=fuzzer) $(NETLIBS) $(PICLIBS) $(LDLIBS) $(if $(findstring sandbox,$@),-lseccomp)
# Tests emit for other machines too.
$(WITH_LLVM): LLVM_PARTS = core native aarch64 arm $(PTX_PARTS)
$(WITH_LLVM): $(WORKER) $(TLIBS)
	$(link) -Wl,--gc-sections $(CROSS) $(PTX) $(LLVM_LIBS) $(PICLIBS) $(LDLIBS) $(if $(findstring runner,$@),-lseccomp)
include tests/rules.mk tools/build/rules.mk tools/bench/rules.mk
.PHONY: all programs objects
.SECONDARY:
-include $(shell find $(B) -path '$(B)/deb*' -prune -o -name '*.d' -type f -print 2>/dev/null)
