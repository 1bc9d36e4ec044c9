# SPDX-License-Identifier: Apache-2.0
# Running tests: make t/NAME, test, layers, golden, fuzz, torture. TEST_WRAPPER (as valgrind) runs before t/NAME's program.

# The thread sanitizer's clone() cannot share memory with the child that a worker tries kernels in.
export HONE_WORKER ?= $(abspath $(if $(filter thread,$(SAN)),build,$(B))/hone-worker)
# Tests and benchmarks that run models, and so need the fallback kernels.
RUNS_NETS = $(addprefix $(B)/tests/test_,plan llvm_pads plan_device cli_device cli_cuda cli_cuda_safety plan_c libhone libhone_kernel libhone_crowd cli cli_words cli_odd cli_streams cli_wait cli_attack cli_cache cli_compile cli_run cli_picture cli_gain cli_library cli_mistakes cli_submit cli_tune tune_box tune_leash honed_job networks halves onnx quantize quantize_keep quantize_models cli_quantize) $(NO_LLVM) $(B)/tools/bench_ops
$(RUNS_NETS): $(B)/gen/fallback.o
$(B)/tests/test_cli_library: | $(B)/libhone.so $(B)/libhone-device.so
# What libhone opens from beside itself, which is the program in its tests.
$(B)/tests/libhone-device.so: $(B)/libhone-device.so
	ln -sf ../libhone-device.so $@
$(patsubst %,$(B)/tests/test_libhone_%,device cuda): $(B)/gen/fallback.o | $(B)/tests/libhone-device.so
$(B)/tests/test_llvm_fallback: | $(BASELINES:%=$(B)/gen/%.fallback) $(B)/gen/libhone_fallback.s
$(patsubst %,$(B)/tests/test_honed_%,socket board gate cache): | $(B)/honed
$(patsubst %,$(B)/tests/test_%,sync_program sync_honed cli_attack cli_programs): | $(B)/hone $(B)/honed $(B)/hone-sync
$(patsubst %,$(B)/tests/test_%,fleet_http fleet_host fleet_peers fleet_budget cli_words cli_programs): | $(B)/hone-fleet
# What runs PTX on the host (tests/lib/ptx.h), and tests that use it. Rounding modes hold within its loops over lanes.
PTXC = $(call src,tests/lib/ptx_*.c)
$(call objs,$(PTXC)): ALLC += -O3 -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=off
$(B)/tests/ptx.a: $(call objs,$(PTXC))
$(patsubst %,$(B)/tests/test_%,ptx_run ptx_math ptx_cvt ptx_threads ptx_matrix): $(B)/tests/ptx.a
$(patsubst %,$(B)/tests/test_%,$(filter llvm_ptx%,$(TESTS))): $(B)/tests/ptx.a
# A driver that lies, in the place of the OpenCL loader.
$(B)/tests/fake/libOpenCL.so.1: tests/lib/fake_opencl.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS) $(ALLC) -fPIC -shared -Wl,-soname,$(@F) -o $@ $<
$(patsubst %,$(B)/tests/test_%,opencl cli_opencl cli_device cli_faults): | $(B)/tests/fake/libOpenCL.so.1
# A CUDA driver whose devices are this processor.
$(B)/tests/fake/libcuda.so.1: $(call src,tests/lib/fake_cuda*.c) $(B)/tests/ptx.a $(B)/libhone-all.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS) $(ALLC) -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $^ -lpthread -lm
# One without graphs.
$(B)/tests/fake/old/libcuda.so.1: $(call src,tests/lib/fake_cuda*.c) $(B)/tests/ptx.a $(B)/libhone-all.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS) $(ALLC) -DFAKE_CUDA_OLD -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $^ -lpthread -lm
$(patsubst %,$(B)/tests/test_%,cuda cuda_graph cuda_shared dev_cuda cli_cuda cli_cuda_safety libhone_cuda honed_job triples drills): | $(B)/tests/fake/libcuda.so.1
$(B)/tests/test_cuda_graph: | $(B)/tests/fake/old/libcuda.so.1
# A management library of NVIDIA's that lies.
$(B)/tests/fake/libnvidia-ml.so.1: tests/lib/fake_nvml.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS) $(ALLC) -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $<
$(patsubst %,$(B)/tests/test_%,gpu_state local_own cli_cuda cli_cuda_safety): | $(B)/tests/fake/libnvidia-ml.so.1
# Libraries of NVIDIA's that compute on the CPU, compiled against NVIDIA's headers where those are.
GPU_LIBRARIES = $(addprefix $(B)/tests/fake/,libcudnn.so.9 libcublas.so.13 libcublasLt.so.13)
$(B)/tests/fake/libcudnn.so.9: tests/lib/fake_cudnn.c
$(B)/tests/fake/libcublas.so.13 $(B)/tests/fake/libcublasLt.so.13: tests/lib/fake_cublas.c
$(GPU_LIBRARIES): tests/lib/fake_libraries.h
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS) $(ALLC) $(addprefix -isystem ,$(wildcard /usr/local/cuda/include)) -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) -lm
t/%: $(B)/tests/test_%
	@$(TEST_WRAPPER) $< $(CASE)

# All is built first; then as many tests run at once as there are cores, the longest first. (In one go, make
# compiles whatever it can before it runs the first, and starts the longest, which is linked last, at the end.)
LONGEST = nspawn.sh board-arm64 board-armhf fleet.sh networks opencl_kernels kills cli_attack cli_device honed_job host opencl_types llvm_kernels llvm_tasks job plan llvm_emit cli_tune choices models libhone.sh lower hostile tried ring libhone torture
SCRIPTS = attacks.sh calibrate.sh fleet.sh footprint.sh gpu_libs.sh gpu_pack.sh layers.sh libhone.sh python.sh peers.sh ptxas.sh ship.sh units.sh man.sh image.sh seeds.sh nspawn.sh page.sh silero.sh
# What other systems take of hone, and the pages for who builds them.
SCRIPTS += docs.sh integrate.sh
LONGEST := docs.sh $(LONGEST)
RESULTS = $(addprefix $(B)/results/,$(LONGEST) $(filter-out $(LONGEST),$(TESTS) $(SCRIPTS)))
$(TESTS:%=$(B)/results/%): $(B)/results/%: $(B)/tests/test_%
	@sh tests/sh/test.sh run $@ $<
$(patsubst %,$(B)/results/%,$(SCRIPTS)): $(B)/results/%: all $(B)/man $(B)/man3
	@BUILD=$(B) sh tests/sh/test.sh run $@ sh $(wildcard tests/sh/$* tools/build/$*) $(if $(findstring peers,$*),--test,$(B))
$(B)/results/docs.sh: $(if $(SAN),,wheel)
$(B)/results/fleet.sh: $(B)/tools/bench_load
$(B)/results/page.sh: $(B)/tests/test_chart
$(B)/results/gpu_libs.sh: $(GPU_LIBRARIES) $(B)/tests/fake/libcuda.so.1
$(B)/results/gpu_pack.sh: $(GPU_LIBRARIES) $(patsubst %,$(B)/tests/%,test_triples test_drills fake/libnvidia-ml.so.1) $(B)/tools/bench_landscape
$(B)/results/ship.sh: $(if $(SAN),,wheel sbom)
$(B)/results/image.sh $(B)/results/seeds.sh: $(B)/tests/boots
$(B)/results/ptxas.sh: $(B)/tests/test_llvm_ptx $(B)/tests/test_llvm_ptx_layers $(B)/tests/test_llvm_ptx_fragments
# Programs for other boards, where compiler and emulator are: the folder with a board's libraries is made for the first test. What
# board.sh runs is enough for armhf: all else is the same code.
CAN_CROSS = $(and $(if $(SAN),,yes),$(shell command -v mmdebstrap),$(shell command -v $(1)-g++),$(shell command -v qemu-$(2)-static))
CROSSED   = $(if $(call CAN_CROSS,aarch64-linux-gnu,aarch64),arm64) $(if $(call CAN_CROSS,arm-linux-gnueabihf,arm),armhf)
made_arm64 = hone honed hone-sync hone-worker libhone.so board tests/test_halves
made_armhf = hone hone-worker board
ifeq ($(BOARD),) # of BOARD's own, board.mk makes this
# One after the other: both make build/hone-maker.
build-generic-armhf/board: | $(if $(filter arm64,$(CROSSED)),build-generic-arm64/board)
build-generic-arm64/board build-generic-armhf/board: build-generic-%/board: FORCE
	@+if $(MAKE) --no-print-directory -s BOARD=generic-$* B=build-generic-$* sysroot; then \
		$(MAKE) --no-print-directory -s BOARD=generic-$* B=build-generic-$* $(made_$*:%=build-generic-$*/%); \
	else rm -f $@; fi
endif
FORCE:
cross: $(CROSSED:%=build-generic-%/board)
$(B)/results/board-arm64 $(B)/results/board-armhf: $(B)/results/board-%: cross
	@sh tests/sh/test.sh run $@ sh tests/sh/board.sh $(if $(filter $*,$(CROSSED)),build-generic-$*,none)
$(B)/results/layers.sh: $(call in,$(ROOMS))
test: deps
	@sh tools/build/deps.sh --maybe systemd-container
	@sh tools/build/deps.sh --maybe chromium fonts-dejavu-core
	@sh tools/build/deps.sh --maybe clang lld qemu-user-static
	@sh tools/build/deps.sh --maybe postgresql-15 nginx-light
	@sh tools/build/deps.sh --maybe mmdebstrap gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf
	@sh tools/build/deps.sh --maybe pocl-opencl-icd ocl-icd-libopencl1
	@rm -rf $(B)/results
	$(AGAIN) -s -k -j$(shell nproc) all $(B)/man $(B)/man3 $(TESTS:%=$(B)/tests/test_%) || true
	$(AGAIN) -s -k -j$(shell nproc) cross || true
	$(AGAIN) -s -k -j$(shell nproc) $(RESULTS) || true
	@sh tests/sh/test.sh sum $(RESULTS)
layers: $(PROGRAMS) $(B)/libhone.so $(call in,$(ROOMS))
	@sh tests/sh/layers.sh $(B)
fuzz:
	@sh tools/build/deps.sh clang libclang-rt-14-dev
	@+MAKE="$(MAKE)" sh tests/sh/fuzz.sh
torture: all $(patsubst %,$(B)/tests/%,test_torture test_scenario test_cache_faults test_cache_beside test_cache_limits test_cache_full test_kills cuts)
	@TORTURE_STATES=20000 $(B)/tests/test_torture
	@LIVES=10000 $(B)/tests/test_scenario
	@for t in faults beside limits full; do $(B)/tests/test_cache_$$t || exit 1; done
	@sh tests/sh/torture.sh $(B)
	@KILLS=1000 $(B)/tests/test_kills
	@sh tests/sh/nspawn.sh $(B)
	$(AGAIN) fuzz
# What `make BOARD=...` built, emulated: every network, and each test but those that cannot run there.
# Drivers of devices: their stand-ins are this machine's, and they run no code of the processor.
DEVICES = opencl% cuda% ptx% llvm_ptx% dev_opencl dev_cuda cli_cuda cli_opencl cli_device cli_faults plan_device libhone_cuda libhone_device \
	gpu_state local_own drills triples
# Programs and their clocks: daemons, servers, and boxes of a second.
DAEMONS = honed% fleet% sync% cli% herd% kills doctor_honed tune_% until networks lives db publish torture scenario
# A program that the emulator hosts has no filters of system calls, no limits of memory of its own and no memory shared with a child,
# and a thread of the emulator's may use all processors (topo).
HOSTED = sandbox child hire apart apart_worker runner llvm_runner topo
# They compile or link with the compiler of the machine that they run on.
COMPILES = dev_cpu object plan_c llvm_plan_c_bytes llvm_arm llvm_pipe
EMULATED = $(filter-out $(DEVICES) $(DAEMONS) $(HOSTED) $(COMPILES),$(TESTS))
board-test: all $(patsubst %,$(B)/tests/test_%,$(EMULATED))
	@sh tests/sh/board.sh $(B) --all
# An emulated board (arm64) boots with a boot box before its application, and its power is cut: about 12 minutes of a processor.
ifeq ($(BOARD),)
BOOTED = build-generic-arm64
boot-test: all $(B)/tests/boots
	@sh tools/build/deps.sh --maybe qemu-system-arm mmdebstrap cpio e2fsprogs gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
	@+if command -v mmdebstrap >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null; then \
		$(MAKE) --no-print-directory -s BOARD=generic-arm64 B=$(BOOTED) sysroot && \
		$(MAKE) --no-print-directory -s BOARD=generic-arm64 B=$(BOOTED) DYNAMIC=1 tarball; fi
	@sh tests/sh/boot.sh $(B) $(BOOTED) $(BOOTED)/hone-$(VERSION)-generic-arm64-dynamic.tar.gz
# Images that hone image makes: damaged ones, and a Debian that boots, in QEMU and in User Mode Linux, with power cuts at its first boot.
image-test: all $(B)/tests/boots $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@sh tools/build/deps.sh --maybe qemu-system-x86 user-mode-linux mmdebstrap e2fsprogs fdisk dosfstools
	@FUZZ=$${FUZZ:-250} sh tests/sh/image.sh $(B)
	@sh tools/build/tarball.sh $(B) x86 $(VERSION) $(SONAME) dynamic $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@sh tests/sh/image-boot.sh $(B) $(B)/hone-$(VERSION)-x86-dynamic.tar.gz
else
image-test boot-test:
	@echo "make: $@ chooses its board itself: make $@" >&2; exit 1
endif
# Debian packages of this machine and, where cross compilers are, of arm64 and armhf, installed, upgraded, removed and purged: some minutes
# for this machine's, half an hour for each other one's. Packages that are not there are made first (remove build*/deb to have them
# made anew). Then this machine's packages, and one other's, are each built twice. make -j2 deb-test does two of these at once.
ifeq ($(BOARD),)
DEB_TESTS   = deb-$(DEB_HERE) deb-arm64 deb-armhf deb-twice $(if $(filter arm64,$(CROSSED)),deb-twice-arm64) deb-docs
DEB_HERE   := $(shell dpkg --print-architecture 2>/dev/null || echo here)
DEB_RESULTS = $(sort $(DEB_TESTS:%=$(B)/results/%))
deb-test:
	@sh tools/build/deps.sh --maybe mmdebstrap dpkg-dev qemu-user-static gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf
	@rm -f $(DEB_RESULTS)
	$(AGAIN) -s -k $(DEB_RESULTS) || true
	@sh tests/sh/test.sh sum $(DEB_RESULTS)
# Says which packages are tested: they may be older than the sources. $(1): folder; $(2): what makes new ones.
DEB_AGE = for p in $(1)/hone_*.deb; do echo "deb-test: $(1) has $$(dpkg-deb -f $$p Version 2>/dev/null || echo ?), made on $$(date -r $$p '+%F %H:%M'); remove $(1), or run $(2), for new ones"; break; done
.PHONY: deb-made deb-made-arm64 deb-made-armhf
deb-made:
	@+[ -n "$$(ls $(B)/deb/*.deb 2>/dev/null)" ] || $(MAKE) --no-print-directory -s deb >$(B)/deb.log 2>&1 || { tail -n 5 $(B)/deb.log; exit 1; }
	@$(call DEB_AGE,$(B)/deb,make deb)
deb-made-arm64 deb-made-armhf: deb-made-%:
	@+[ -n "$$(ls build-generic-$*/deb/*.deb 2>/dev/null)" ] || { $(MAKE) --no-print-directory -s BOARD=generic-$* B=build-generic-$* sysroot && \
		$(MAKE) --no-print-directory -s BOARD=generic-$* B=build-generic-$* deb; } >$(B)/deb-$*.log 2>&1 || { tail -n 5 $(B)/deb-$*.log; exit 1; }
	@$(call DEB_AGE,build-generic-$*/deb,make deb BOARD=generic-$*)
$(B)/results/deb-$(DEB_HERE): deb-made
	@TEST_S=7200 sh tests/sh/test.sh run $@ sh tests/sh/deb.sh $(B) $(B)/deb
$(patsubst %,$(B)/results/deb-%,$(filter-out $(DEB_HERE),$(CROSSED))): $(B)/results/deb-%: deb-made-%
$(patsubst %,$(B)/results/deb-%,$(filter-out $(DEB_HERE),arm64 armhf)): $(B)/results/deb-%: deb-made $(B)/tests/boots
	@TEST_S=10800 sh tests/sh/test.sh run $@ sh tests/sh/deb.sh $(B) build-generic-$*/deb
$(B)/results/deb-twice:
	@TEST_S=7200 sh tests/sh/test.sh run $@ sh tests/sh/deb-twice.sh $(B)
$(B)/results/deb-twice-arm64: deb-made-arm64
	@TEST_S=7200 sh tests/sh/test.sh run $@ sh tests/sh/deb-twice.sh $(B) generic-arm64 build-sysroot/bookworm-arm64
$(B)/results/deb-docs: deb-made
	@sh tests/sh/test.sh run $@ sh tests/sh/docs.sh $(B) configs/doc/debian.md
else
deb-test:
	@echo "make: $@ tests the packages of every architecture: make $@" >&2; exit 1
endif
.PHONY: FORCE test cross layers fuzz torture board-test boot-test deb-test image-test
# Rewrites the golden files of tests; review what changed with git diff.
golden: $(B)/tests/test_explain_dump
	@GOLDEN=1 $<
.PHONY: golden
