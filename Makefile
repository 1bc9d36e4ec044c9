# SPDX-License-Identifier: Apache-2.0
# make            everything into $(B)          make demo       install what is missing, build, tune MobileNetV2
# make test       every test                    make t/cache    tests/test_cache.c alone
# make layers     who includes and links whom   make size       lines per folder
# make install    DESTDIR= PREFIX=              make fuzz       each parser's fuzz target, a minute each
# make torture    the cache after power cuts: 20,000 states of recorded runs, and of a block device where that can be had;
#                 1,000 kills of boot boxes; the units under a real systemd; each fuzz target
# knobs: CC=clang  B=build-x  SAN=1 or thread (as in SAN=thread t/libhone_crowd)  V=1  LLVM_CONFIG=llvm-config-14

B           ?= $(if $(SAN),$(if $(filter thread,$(SAN)),build-tsan,build-san),build)
PREFIX      ?= /usr/local
LLVM_CONFIG ?= $(firstword $(foreach v,19 18 17 16 15 14,$(shell command -v llvm-config-$(v))))
VERSION     := 0.1.0

CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror
CPPFLAGS += -D_GNU_SOURCE -DHONE_VERSION='"$(VERSION)"' -DHONE_LIBDIR='"$(PREFIX)/lib/hone"' -I. -I$(B)/gen -MMD -MP
SANS      = $(if $(filter thread,$(SAN)),thread -Wno-maybe-uninitialized -Wno-tsan,address$(,)undefined)
ALLC      = -std=c11 $(CFLAGS) $(WARN) $(if $(SAN),-fsanitize=$(SANS) -fno-sanitize-recover=undefined -fno-omit-frame-pointer) \
	    $(if $(FUZZ),-fsanitize=fuzzer-no-link$(,)address)
LDFLAGS  += $(if $(SAN),-fsanitize=$(SANS))$(if $(FUZZ),-fsanitize=address)
LDLIBS   += -Wl,--as-needed -linih -lhwloc -lprotobuf-c -lzstd -ljansson -lmbedx509 -lmbedcrypto -lpthread -lm
NETLIBS   = -luv -lcurl -lmicrohttpd -lsqlite3 -lpq
, := ,
say = @$(if $(V),,echo "  $(1)	$(patsubst $(B)/%,%,$@)";)

ORDER = platform kernels search agent tools tests
src   = $(wildcard $(1))
objs  = $(patsubst %.c,$(B)/%.o,$(1))

# A file X_name.c defines `const struct X X_name`; these tables are made from the file names, so adding a device, operator,
# emitter, strategy, cost model or command is adding one file and editing none.
KINDS  = platform/dev kernels/op kernels/emit search/strategy search/cost agent/policy tools/cmd
FLEETS = tools/db tools/publish
MAINS  = agent/main_worker.c agent/main_honed.c agent/main_sync.c tools/main_hone.c tools/main_fleet.c
LLVMC  = kernels/emit_llvm.c $(call src,kernels/llvm_*.c)
LIBS   = $(foreach d,agent search kernels platform,$(B)/$(d).a)
TESTS  = $(patsubst tests/test_%.c,%,$(call src,tests/test_*.c))
LTESTS = $(filter llvm_%,$(TESTS))
CMDS   = $(subst _,-,$(patsubst tools/cmd_%.c,%,$(call src,tools/cmd_*.c)))
BENCH  = $(patsubst tools/bench_%.c,%,$(call src,tools/bench_*.c))

# Every object, without linking.
objects: $(call objs,$(foreach d,$(ORDER),$(call src,$(d)/*.c)))

PROGRAMS = $(B)/hone $(B)/honed $(B)/hone-worker $(if $(wildcard agent/main_sync.c),$(B)/hone-sync) $(if $(wildcard tools/main_fleet.c),$(B)/hone-fleet)
all: $(PROGRAMS) $(B)/libhone.so $(B)/libhone.a

$(B)/platform.a: $(call objs,$(call src,platform/*.c))
$(B)/kernels.a:  $(call objs,$(filter-out $(LLVMC),$(call src,kernels/*.c))) $(patsubst %.proto,$(B)/gen/%.pb-c.o,$(call src,kernels/*.proto))
$(B)/search.a:   $(call objs,$(call src,search/*.c))
$(B)/agent.a:    $(call objs,$(filter-out $(MAINS),$(call src,agent/*.c)))
$(B)/tools.a:    $(call objs,$(filter-out $(MAINS) $(BENCH:%=tools/bench_%.c),$(call src,tools/*.c)))
$(B)/libhone.a:  $(B)/libhone.o
$(B)/%.a:
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^

TABLES  = $(KINDS:%=$(B)/gen/%_table.o)
GROUP   = -Wl,--start-group $(LIBS) -Wl,--end-group

$(B)/hone: $(B)/tools/main_hone.o $(B)/tools.a $(TABLES) $(LIBS) $(B)/gen/fallback.o
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $< $(TABLES) $(B)/gen/fallback.o \
		-Wl,--start-group $(B)/tools.a $(LIBS) -Wl,--end-group $(LDLIBS)

# Resident: no search, no compiler, no hwloc; see configs/layers.sh.
$(B)/honed: $(B)/agent/main_honed.o $(B)/gen/agent/policy_table.o $(LIBS)
	$(call say,LD)$(CC) $(LDFLAGS) -Wl,--gc-sections,--as-needed -o $@ $< $(B)/gen/agent/policy_table.o $(GROUP) \
		-luv -linih -ljansson -lpthread -lm

# Short-lived, on the network, without search; and the fleet's server.
$(B)/hone-sync: $(B)/agent/main_sync.o $(B)/gen/kernels/op_table.o $(B)/gen/agent/policy_table.o $(LIBS)
	$(call say,LD)$(CC) $(LDFLAGS) -Wl,--gc-sections,--as-needed -o $@ $(filter-out %.a,$^) $(GROUP) -lcurl $(LDLIBS)
FLEET = $(B)/tools/main_fleet.o $(patsubst %,$(B)/gen/%_table.o,tools/db tools/publish kernels/op)
$(B)/hone-fleet: $(FLEET) $(B)/tools.a $(LIBS)
	$(call say,LD)$(CC) $(LDFLAGS) -Wl,--gc-sections,--as-needed -o $@ $(FLEET) -Wl,--start-group $(B)/tools.a $(LIBS) -Wl,--end-group $(NETLIBS) $(LDLIBS)

LLVM_PARTS = core native
LLVM_LIBS = $(shell $(LLVM_CONFIG) --link-static --ldflags --libs $(LLVM_PARTS)) \
            $(shell $(LLVM_CONFIG) --link-static --system-libs) -lstdc++
WTABLES   = $(filter-out $(B)/gen/kernels/emit_table.o,$(TABLES)) $(B)/gen/kernels/emit_table_worker.o
WORKER    = $(B)/agent/main_worker.o $(call objs,$(LLVMC)) $(filter-out %/cmd_table.o,$(WTABLES))
$(B)/hone-worker: $(WORKER) $(LIBS)
	$(call say,LD)$(CC) $(LDFLAGS) -Wl,--gc-sections -o $@ $(WORKER) $(GROUP) $(LLVM_LIBS) $(LDLIBS) -lseccomp
$(call objs,$(LLVMC)): CPPFLAGS += -I$(shell $(LLVM_CONFIG) --includedir)

# Loops over floats: vectorised, and no errno or traps to keep.
FLOATS = agent/host_math kernels/runs search/cost_mlp search/cost_trees search/rows
$(FLOATS:%=$(B)/%.o): ALLC += -O3 -fno-math-errno -fno-trapping-math

$(B)/tools/fleet_data.o: $(call src,configs/fleet/*)
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALLC) -c -o $@ $<
$(B)/gen/%.o: $(B)/gen/%.c
	$(call say,CC)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(ALLC)) -c -o $@ $<
$(B)/gen/kernels/onnx.pb-c.c: kernels/onnx.proto
	@mkdir -p $(@D)
	$(call say,GEN)protoc-c --c_out=$(B)/gen $<
$(call objs,$(call src,kernels/import*.c kernels/export.c kernels/tensor_file.c tests/*.c)): | $(B)/gen/kernels/onnx.pb-c.c

table = { k=$(notdir $(1)); echo '\#include "$(1).h"'; for n in $(2); do echo "extern const struct $$k $${k}_$$n;"; done; \
	echo "const struct $$k *const $${k}_table[] = {"; for n in $(2); do echo "	&$${k}_$$n,"; done; echo "	0};"; }
rows  = $(patsubst $(1)_%.c,%,$(filter-out $(2),$(call src,$(1)_*.c)))
.SECONDEXPANSION:
$(patsubst %,$(B)/gen/%_table.c,$(KINDS) $(FLEETS)): $(B)/gen/%_table.c: $$(call src,$$*_*.c) Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,$*,$(call rows,$*,$(LLVMC))) > $@
$(B)/gen/kernels/emit_table_worker.c: $(call src,kernels/emit_*.c) Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,kernels/emit,$(call rows,kernels/emit)) > $@

# Fallback kernels: made by hone-worker from the same operators and IR, one archive per ISA baseline, linked as data.
BASELINES = $(if $(filter x86_64,$(shell uname -m)),x86-64-v2 x86-64-v3 x86-64-v4,armv8-a)
$(B)/gen/%.fallback: $(B)/hone-worker
	$(call say,GEN)$(B)/hone-worker --fallback $* -o $@
$(B)/gen/%.fallback.zst: $(B)/gen/%.fallback
	$(call say,ZSTD)zstd -q -f -19 -o $@ $<
$(B)/gen/fallback.s: $(BASELINES:%=$(B)/gen/%.fallback.zst) $(call src,configs/models/*.txt) configs/fallback.sh Makefile
	$(call say,GEN){ sh configs/fallback.sh $(filter %.zst,$^); sh configs/models.sh $(call src,configs/models/*.txt); } > $@
$(B)/gen/few/%.fallback: $(B)/hone-worker
	@mkdir -p $(@D)
	$(call say,GEN)$(B)/hone-worker --fallback $* --few -o $@
$(B)/gen/libhone_fallback.s: $(B)/gen/few/$(firstword $(BASELINES)).fallback.zst configs/fallback.sh
	$(call say,GEN)sh configs/fallback.sh $< > $@
$(B)/gen/fallback.o $(B)/gen/libhone_fallback.o: %.o: %.s
	$(call say,AS)$(CC) -c -o $@ $<

# libhone (agent/hone.h): its own small objects of the same sources, without search and emitters; what the API does not reach
# is left out, all other names are gone. agent/libhone.map says what is exported.
SONAME = libhone.so.0
API    = $(shell sed -n 's/^\t\t//p' agent/libhone.map | tr ';' ' ')
LIBNOT = platform/topo platform/child platform/notify platform/sysfile platform/vitals% platform/sandbox platform/evict platform/quantity platform/dev_sim platform/object kernels/emit% kernels/llvm% kernels/loops% kernels/lower% \
	 kernels/relax% kernels/tape kernels/alternatives kernels/features kernels/transfer kernels/vmath agent/bench% agent/builders \
	 agent/batch agent/cache_adopt agent/client agent/conf agent/control agent/crypto agent/exchange agent/json agent/pack% agent/signed agent/snapshot agent/sync% agent/taken agent/trust agent/doctor% agent/exercise agent/fallback_make agent/gate agent/hint agent/hire agent/history agent/honed% agent/landscape% agent/leash% agent/local% agent/main% agent/marks agent/models agent/offered agent/plan_c agent/plan_c_% agent/policy% \
	 agent/revert agent/runner% agent/seeds agent/share_kept agent/stale% agent/store agent/trials% agent/tune% agent/wire%
LIBSRC = $(filter-out $(LIBNOT:%=%.c),$(call src,platform/*.c) $(call src,kernels/*.c) $(call src,agent/*.c))
LIBOBJ = $(LIBSRC:%.c=$(B)/lib/%.o) $(patsubst %,$(B)/lib/gen/%.o,kernels/onnx.pb-c kernels/op_table lib/dev_table)
# What models spend their time in where kernels are missing stays as fast as -Os makes it.
LIBHOT = agent/halo agent/host% agent/plan agent/plan_copy kernels/prog% kernels/runs kernels/tensor kernels/walk \
	 $(addprefix kernels/op_,binary conv gather gemm norm pool reduce resize softmax unary) platform/crc platform/pool
SMALLER = $(if $(findstring clang,$(CC)),-Oz,-Oz -fno-tree-pre -fno-gcse)
SMALL  = $(if $(filter $(LIBHOT:%=$(B)/lib/%.o),$@),-Os,$(SMALLER)) $(if $(findstring clang,$(CC)),,-Wno-format-truncation) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
$(B)/lib/agent/host_math.o: FAST = -DHOST_MATH_AVX512=0 -O2 -ftree-vectorize $(if $(findstring clang,$(CC)),,--param vect-epilogues-nomask=0) -fno-math-errno -fno-trapping-math
$(B)/lib/agent/cache.o $(B)/lib/agent/cache_index.o $(B)/lib/agent/cache_layer.o: FAST = -DCACHE_WRITES=0
$(B)/lib/agent/chosen.o: FAST = -DCHOSEN_FORMER=0
$(B)/lib/%.o: %.c | $(B)/gen/kernels/onnx.pb-c.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALLC) $(SMALL) $(FAST) -c -o $@ $<
$(B)/lib/gen/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(filter-out -Wmissing-prototypes,$(ALLC)) $(SMALL) -c -o $@ $<
$(B)/gen/lib/dev_table.c: Makefile
	@mkdir -p $(@D)
	$(call say,GEN)$(call table,platform/dev,cpu) > $@
$(B)/libhone-all.a: $(LIBOBJ)
$(B)/libhone.o: $(B)/libhone-all.a $(B)/gen/libhone_fallback.o agent/libhone.map
	$(call say,LD)$(LD) -r --gc-sections $(API:%=-u %) -o $@ $(B)/gen/libhone_fallback.o $< \
		&& objcopy --localize-hidden $@
$(B)/libhone.so: $(B)/libhone.o
	$(call say,LD)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME),--version-script=agent/libhone.map$(if $(SAN),,$(,)-z$(,)defs),-z,now,-z,nodelete,-z,pack-relative-relocs,-z,noseparate-code,--gc-sections \
		-o $@ $< -lprotobuf-c -lzstd -lpthread -lm && ln -sf libhone.so $(B)/$(SONAME)

# A test links what it names; tests/test_llvm_*.c and benchmarks get LLVM too. One that runs programs finds them in $(B).
$(B)/gen/tables.a: $(TABLES) $(FLEETS:%=$(B)/gen/%_table.o)
TLIBS  = $(B)/tools.a $(LIBS) $(B)/gen/tables.a
TGROUP = -Wl,--start-group $(TLIBS) -Wl,--end-group
NO_LLVM   = $(patsubst %,$(B)/tools/bench_%,crypto fleet load polls herd idle net rss landscape model search strategies cache jobs boot yield)
WITH_LLVM = $(filter-out $(NO_LLVM),$(LTESTS:%=$(B)/tests/test_%) $(BENCH:%=$(B)/tools/bench_%))
$(filter-out $(WITH_LLVM),$(TESTS:%=$(B)/tests/test_%)) $(NO_LLVM): $(B)/%: $(B)/%.o $(TLIBS)
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $< $(TGROUP) $(NETLIBS) $(LDLIBS)
LLVMPART = $(filter-out $(B)/agent/main_worker.o,$(WORKER))
# Tests emit for other machines too.
CROSS = $(foreach t,AArch64 ARM,$(foreach i,TargetInfo Target TargetMC AsmPrinter Disassembler,-Wl,-u,LLVMInitialize$(t)$(i)))
$(WITH_LLVM): LLVM_PARTS = core native aarch64 arm
$(WITH_LLVM): $(B)/%: $(B)/%.o $(LLVMPART) $(TLIBS)
	$(call say,LD)$(CC) $(LDFLAGS) -Wl,--gc-sections $(CROSS) -o $@ $< $(LLVMPART) $(TGROUP) $(LLVM_LIBS) $(LDLIBS)
$(patsubst %.c,$(B)/%,$(call src,tests/fuzz_*.c) tests/seeds.c tests/cuts.c): $(B)/%: $(B)/%.o $(TLIBS)
	$(call say,LD)$(CC) $(LDFLAGS) $(if $(findstring fuzz_,$@),-fsanitize=fuzzer) -o $@ $< $(TGROUP) $(NETLIBS) $(LDLIBS)
# The thread sanitizer's clone() cannot share memory with the child that a worker tries kernels in.
export HONE_WORKER ?= $(abspath $(if $(filter thread,$(SAN)),build,$(B))/hone-worker)
RUNS_NETS = $(addprefix $(B)/tests/test_,plan plan_c libhone libhone_kernel libhone_crowd cli cli_attack cli_cache cli_compile cli_run cli_tune tune_leash honed_job networks onnx) $(NO_LLVM) $(B)/tools/bench_ops
$(B)/tests/test_sandbox $(B)/tests/test_llvm_runner: private LDLIBS += -lseccomp
$(RUNS_NETS): $(B)/gen/fallback.o
$(B)/tests/test_llvm_fallback: | $(BASELINES:%=$(B)/gen/%.fallback) $(B)/gen/libhone_fallback.s
$(RUNS_NETS): private LDFLAGS += $(B)/gen/fallback.o
$(patsubst %,$(B)/tests/test_honed_%,socket board gate): | $(B)/honed
$(patsubst %,$(B)/tests/test_%,sync_program sync_honed cli_attack): | $(B)/hone $(B)/honed $(B)/hone-sync
$(patsubst %,$(B)/tests/test_fleet_%,http host peers budget): | $(B)/hone-fleet
t/%: $(B)/tests/test_%
	@$(TEST_WRAPPER) $< $(CASE)
bench-search: override ARGS += $(if $(FULL),--full)
# A fleet as it is deployed: what a minute's box found pulled into one of 2 s, polls through nginx, batches through it.
bench-fleet-pull bench-fleet-polls bench-fleet-load: bench-fleet-%: all $(B)/tools/bench_load $(B)/tools/bench_polls
	@sh configs/fleet.sh $(B) --$*
bench-%: $(B)/tools/bench_% $(PROGRAMS)
	@$< $(ARGS)
# Against other libraries, which are had from PyPI into a virtual environment; see tools/peers/bench_peers.py.
bench-peers: all $(B)/tools/bench_net
	@BUILD=$(B) sh configs/peers.sh $(ARGS)
bench-tvm: all $(B)/tools/bench_net
	@BUILD=$(B) sh configs/peers.sh --tvm $(ARGS)

# From a process's start to its first answer: ARGS="--model M --cache DIR"; beside ONNX Runtime where bench-peers installed it.
bench-start: all
	@$(CC) -O2 -std=c99 -D_GNU_SOURCE -Iagent -o $(B)/start_hone tools/peers/start_hone.c -L$(B) -lhone -Wl,-rpath,$(abspath $(B))
	@$(firstword $(wildcard $(B)/peers-venv/bin/python) python3) -B tools/peers/bench_start.py --program $(B)/start_hone --hone $(B)/hone \
		--out $(B)/start $(ARGS)
wheel:
	@python3 -B tools/python/wheel.py $(B)

# What is missing is installed first; a second make then finds the compiler and LLVM.
AGAIN = @+$(MAKE) --no-print-directory
deps:
	@sh configs/deps.sh $(if $(findstring clang,$(CC)),clang libclang-rt-14-dev)
# All is built first, then tests run, as many at once as there are cores, those that take longest first. (In one go, make
# compiles whatever it can before it runs the first, and starts the longest, which is linked last, at the end.)
LONGEST = nspawn.sh fleet.sh networks kills cli_attack llvm_kernels job plan llvm_emit cli_tune choices models libhone.sh lower hostile tried ring libhone torture
SCRIPTS = attacks.sh fleet.sh layers.sh libhone.sh python.sh peers.sh units.sh man.sh nspawn.sh page.sh
RESULTS = $(addprefix $(B)/results/,$(LONGEST) $(filter-out $(LONGEST),$(TESTS) $(SCRIPTS)))
$(TESTS:%=$(B)/results/%): $(B)/results/%: $(B)/tests/test_%
	@sh configs/test.sh run $@ $<
$(SCRIPTS:%=$(B)/results/%): $(B)/results/%: configs/% all $(B)/man $(B)/man3
	@BUILD=$(B) sh configs/test.sh run $@ sh $< $(if $(findstring peers,$<),--test,$(B))
$(B)/results/fleet.sh: $(B)/tools/bench_load
test: deps
	@sh configs/deps.sh --maybe systemd-container
	@sh configs/deps.sh --maybe chromium fonts-dejavu-core
	@sh configs/deps.sh --maybe postgresql-15 nginx-light
	@rm -rf $(B)/results
	$(AGAIN) -s -k -j$(shell nproc) all $(B)/man $(B)/man3 $(TESTS:%=$(B)/tests/test_%) || true
	$(AGAIN) -s -k -j$(shell nproc) $(RESULTS) || true
	@sh configs/test.sh sum $(RESULTS)
layers: $(PROGRAMS) $(B)/libhone.so
	@sh configs/layers.sh $(B)
demo: deps
	$(AGAIN) -j$(shell nproc) all
	$(B)/hone zoo mobilenet_v2 -o $(B)/mobilenet_v2.onnx
	$(B)/hone tune $(B)/mobilenet_v2.onnx --budget 20s --cache $(B)/demo-cache
size:
	@for d in $(filter-out tests,$(ORDER)) tests; do printf '%8d lines  %3d files  %s\n' $$(cat $$d/*.[ch] | wc -l) \
		$$(ls $$d/*.[ch] | wc -l) $$d; done; wc -l Makefile configs/*.sh | sed 's/^/   /'
fuzz:
	@sh configs/deps.sh clang libclang-rt-14-dev
	@+MAKE="$(MAKE)" sh configs/fuzz.sh
torture: all $(patsubst %,$(B)/tests/%,test_torture test_scenario test_cache_faults test_cache_beside test_cache_limits test_cache_full test_kills cuts)
	@TORTURE_STATES=20000 $(B)/tests/test_torture
	@LIVES=10000 $(B)/tests/test_scenario
	@for t in faults beside limits full; do $(B)/tests/test_cache_$$t || exit 1; done
	@sh configs/torture.sh $(B)
	@KILLS=1000 $(B)/tests/test_kills
	@sh configs/nspawn.sh $(B)
	$(AGAIN) fuzz
$(B)/man: $(PROGRAMS) configs/man.sh configs/man5.awk $(wildcard configs/man/*) configs/honed.conf
	$(call say,GEN)sh configs/man.sh $(B) $(VERSION) $(CMDS)
$(B)/man3: agent/hone.h configs/man3.awk
	$(call say,GEN)rm -rf $@; mkdir -p $@; awk -v dir=$@ -v version=$(VERSION) -f configs/man3.awk $<
install: all $(B)/man $(B)/man3 $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@sh configs/install.sh $(B) "$(DESTDIR)" "$(PREFIX)" $(VERSION) $(SONAME) $(filter %.zst,$^)
clean:
	rm -rf $(B)
.PHONY: bench-fleet-pull bench-fleet-polls bench-fleet-load bench-start wheel all objects clean deps test torture layers demo size fuzz install bench-peers bench-tvm
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
