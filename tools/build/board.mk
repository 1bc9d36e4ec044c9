# SPDX-License-Identifier: Apache-2.0
# A build for another board than this machine: make BOARD=rpi4, into build-rpi4. configs/boards/rpi4.conf says what it is made with.
# Headers and libraries come from a folder of unpacked Debian packages (make sysroot BOARD=rpi4), and the kernels that are made
# during the build from this machine's hone-maker, which is hone-worker with LLVM's code generators for Arm.
board     = $(or $(shell sh tools/build/board.sh $(BOARD) $(1)),$(error BOARD=$(BOARD) cannot be built))
B        ?= build-$(BOARD)
ARCH     := $(call board,arch)
TRIPLE   := $(call board,triple)
SUITE    := $(call board,suite)
BASELINES := $(call board,baselines)
LIBC     := $(call board,libc)
SYSROOT  ?= build-sysroot/$(SUITE)-$(if $(filter-out $(SUITE),$(LIBC)),libc-$(LIBC)-)$(ARCH)
override CC := $(TRIPLE)-gcc
override AR := $(TRIPLE)-ar
override LD := $(TRIPLE)-ld
override OBJCOPY := $(TRIPLE)-objcopy
override STRIP := $(TRIPLE)-strip
MAKER    := build/hone-maker
ifeq ($(filter sysroot clean help,$(MAKECMDGOALS))$(wildcard $(SYSROOT)/.complete),)
$(error headers and libraries of the board are missing: make sysroot BOARD=$(BOARD))
endif
LLVM_ROOT = $(firstword $(wildcard $(SYSROOT)/usr/lib/llvm-*))
LLVM_INCLUDE = $(LLVM_ROOT)/include
# All of LLVM's archives: the linker takes what is called.
LLVM_LIBS = -Wl,--start-group $(wildcard $(LLVM_ROOT)/lib/libLLVM*.a) -Wl,--end-group -lz -lzstd -lxml2 -lrt -ldl -lstdc++ -lm
PTX_PARTS := $(if $(findstring cuda,$(call board,devices)),nvptx)
# 32-bit machines, too, see files of more than 2 GB, and the year 2038.
override CPPFLAGS += --sysroot=$(SYSROOT) $(if $(filter armhf,$(ARCH)),-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64)
# The C++ library is that of the board, too: ours may need functions of a newer C library.
# Segments are aligned to the largest pages of such boards, those of Raspberry Pi 5, instead of the linker's 64 KB.
override LDFLAGS += $(if $(filter arm64,$(ARCH)),-Wl$(,)-z$(,)max-page-size=16384) -Wl$(,)-O2
override LDFLAGS += --sysroot=$(SYSROOT) $(foreach d,usr/lib lib,$(foreach w,-B -L,$(w)$(SYSROOT)/$(d)/$(TRIPLE))) $(addprefix -L,$(wildcard $(SYSROOT)/usr/lib/gcc/$(TRIPLE)/*))
# A C library before 2.34 has threads and more in libraries of their own.
CLIBS    := -lpthread -lm -ldl -lrt
# Where the board's C library is the older one, the other libraries come from archives, which need names that it does not have.
STUBS    := $(B)/tools/build/board_udev.o
ifneq ($(LIBC),$(SUITE))
STUBS    += $(B)/tools/build/board_libc.o
override CPPFLAGS += -include tools/build/board_libc.h
$(addprefix $(B)/,hone honed hone-worker hone-sync): $(STUBS)
endif
# Static programs need nothing of the board, and open no drivers of GPUs. hone-sync stays dynamic: Debian has no archives of all that
# libcurl needs.
STATIC   := $(addprefix $(B)/static/,hone honed hone-worker)
$(STATIC): $(STUBS) $(B)/tools/build/board_static.o | $(B)/static
$(B)/static:
	@mkdir -p $@
static: $(STATIC)
# A tarball to unpack in /, for tuning on the CPU; DYNAMIC=1: with programs that open drivers and need the board's libraries.
tarball: $(if $(DYNAMIC),,static) all
	@sh tools/build/tarball.sh $(B) $(BOARD) $(VERSION) $(SONAME) $(if $(DYNAMIC),dynamic,static) $(BASELINES:%=$(B)/gen/%.fallback.zst)
.PHONY: static tarball
.DEFAULT_GOAL := all
# What runs on this machine, without the board's flags.
HERE = @+$(MAKE) --no-print-directory BOARD= B=build CC=cc AR=ar LD=ld OBJCOPY=objcopy STRIP=strip SAN= FUZZ= CPPFLAGS= LDFLAGS= CFLAGS='-O2 -g'
$(MAKER): force-maker
	$(HERE) $(MAKER)
# Programs that run on this machine write the manual pages and completions.
$(B)/man: $(MAKER) force-maker
	$(HERE) build/man && rm -rf $@ && mkdir -p $(@D) && cp -r build/man $@
force-maker:
.PHONY: force-maker
# For tests/sh: the architecture, where its libraries are, and whose C library the board has.
programs: $(B)/board
$(B)/board: Makefile
	@mkdir -p $(@D) && printf '%s\n' $(ARCH) $(abspath $(SYSROOT)) $(LIBC) > $@
