# SPDX-License-Identifier: Apache-2.0
# Around the build: what it needs, the demo, manual pages, installation.

# What is missing is installed first; a second make then finds the compiler and LLVM.
deps:
	@sh tools/build/deps.sh $(if $(findstring clang,$(CC)),clang libclang-rt-14-dev)
demo: deps
	$(AGAIN) -j$(shell nproc) all
	$(B)/hone zoo mobilenet_v2 -o $(B)/mobilenet_v2.onnx
	$(B)/hone tune $(B)/mobilenet_v2.onnx --budget 20s --cache $(B)/demo-cache
size:
	@for d in $(ROOMS) $(sort $(patsubst %/,%,$(dir $(TESTSRC) $(HELPERS)))); do printf '%8d lines  %3d files  %s\n' $$(cat $$d/*.[ch] | wc -l) \
		$$(ls $$d/*.[ch] | wc -l) $$d; done; wc -l Makefile */rules.mk */*/rules.mk tests/sh/*.sh tools/build/*.sh | sed 's/^/   /'
CMDS = $(subst _,-,$(patsubst tools/hone/cmd_%.c,%,$(call src,tools/hone/cmd_*.c)))
ifeq ($(BOARD),) # those of another board's are this machine's: board.mk
$(B)/man: $(PROGRAMS) tools/build/man.sh tools/build/man5.awk $(wildcard configs/man/*) configs/honed.conf
	$(call say,GEN)sh tools/build/man.sh $(B) $(VERSION) $(CMDS)
endif
$(B)/man3: agent/run/hone.h tools/build/man3.awk
	$(call say,GEN)rm -rf $@; mkdir -p $@; awk -v dir=$@ -v version=$(VERSION) -f tools/build/man3.awk $<
# Knobs: DESTDIR PREFIX, PYTHON=python3 of the Python package, PYTHON_SITE=its folder.
install: all $(B)/man $(B)/man3 $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@STRIP=$(STRIP) RUNS=$(if $(BOARD),build,$(B)) sh tools/build/install.sh $(B) "$(DESTDIR)" "$(PREFIX)" $(VERSION) $(SONAME) $(filter %.zst,$^)
# Removes what `make install` with the same knobs wrote.
uninstall: all $(B)/man $(B)/man3 $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@STRIP=$(STRIP) RUNS=$(if $(BOARD),build,$(B)) sh tools/build/uninstall.sh $(B) "$(DESTDIR)" "$(PREFIX)" $(VERSION) $(SONAME) $(filter %.zst,$^)
# The libraries of a wheel need the C library alone.
WHEEL_LIBS = -l:libprotobuf-c.a -l:libzstd.a
$(B)/wheel/libhone.so: $(B)/libhone.o
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS) -s -shared -Wl,-soname,$(SONAME),--version-script=$(LIBMAP),-z,now,-z,nodelete,-z,noseparate-code,--gc-sections,--exclude-libs,ALL -o $@ $< $(WHEEL_LIBS) $(CLIBS)
$(B)/wheel/libhone-device.so: $(DEVICE_PARTS)
	@mkdir -p $(@D)
	$(call say,LD)$(subst -lzstd,$(WHEEL_LIBS),$(DEVICE_LINK)) -s
# A Python wheel for this machine's architecture, or that of BOARD, in $(B): it brings libhone.
wheel: $(B)/wheel/libhone.so $(B)/wheel/libhone-device.so $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@python3 -B tools/python/wheel.py $(B) $^ LICENSE $(foreach p,libprotobuf-c-dev libzstd-dev,$(if $(BOARD),$(SYSROOT))/usr/share/doc/$(p)/copyright)
clean:
	rm -rf $(B)
.PHONY: deps demo size install uninstall wheel clean
# The board's headers and libraries (tools/build/board.mk).
sysroot:
	@$(if $(BOARD),,echo "make: sysroot needs BOARD=, one of $$(sh tools/build/board.sh)" >&2; exit 1;) sh tools/build/sysroot.sh $(ARCH) $(SUITE) $(LIBC) $(SYSROOT)
.PHONY: sysroot
# Debian packages, in $(B)/deb; BOARD=generic-arm64 or generic-armhf: those of another architecture.
deb:
	@sh tools/build/deb.sh $(B) $(VERSION) $(if $(BOARD),$(ARCH) $(SYSROOT))
.PHONY: deb
# The package hone-seed-NAME of a pack: make seed-deb PACK=FILE.seg NAME=WORD [MAINTAINER='Name <name@example.org>'].
seed-deb: $(B)/hone
	@sh tools/build/seed-deb.sh $(B) $(VERSION) "$(PACK)" "$(NAME)" $(if $(MAINTAINER),"$(MAINTAINER)")
.PHONY: seed-deb
# Lists what the installed files are made of, for people who distribute them, in $(B)/hone-VERSION.spdx.json. BOARD: those of that board.
sbom: all $(B)/man $(B)/man3 $(BASELINES:%=$(B)/gen/%.fallback.zst)
	@rm -rf $(B)/sbom
	@+$(MAKE) --no-print-directory -s install DESTDIR=$(abspath $(B)/sbom) PREFIX=/usr PYTHON_SITE=/usr/lib/python3/dist-packages >/dev/null
	@python3 -B tools/build/sbom.py $(B)/sbom $(VERSION) $(LLVM_VERSION) $(if $(BOARD),$(SYSROOT)) > $(B)/sbom.json && \
		python3 -B tools/build/sbom.py --check $(B)/sbom.json $(B)/sbom && mv $(B)/sbom.json $(B)/hone-$(VERSION).spdx.json && echo $(B)/hone-$(VERSION).spdx.json
LLVM_VERSION = $(if $(BOARD),$(patsubst llvm-%,%,$(notdir $(LLVM_ROOT))),$(shell $(LLVM_CONFIG) --version))
.PHONY: sbom
