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
SYSROOT  ?= build-sysroot/$(SUITE)-$(ARCH)
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
CPPFLAGS += --sysroot=$(SYSROOT) $(if $(filter armhf,$(ARCH)),-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64)
# The C++ library is that of the board, too: ours may need functions of a newer C library.
LDFLAGS  += --sysroot=$(SYSROOT) $(addprefix -L,$(wildcard $(SYSROOT)/usr/lib/gcc/$(TRIPLE)/*))
.DEFAULT_GOAL := all
$(MAKER): force-maker
	$(AGAIN) BOARD= B=build CC=cc AR=ar LD=ld OBJCOPY=objcopy $(MAKER)
force-maker:
.PHONY: force-maker
# For tests/sh/board.sh: the architecture, and where its libraries are.
programs: $(B)/board
$(B)/board: Makefile
	@mkdir -p $(@D) && printf '%s\n%s\n' $(ARCH) $(abspath $(SYSROOT)) > $@
