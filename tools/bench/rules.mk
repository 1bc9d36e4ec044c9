# SPDX-License-Identifier: Apache-2.0
# make bench-NAME runs tools/bench/bench_NAME.c with ARGS; benchmarks with rules of their own need more.
bench-search: override ARGS += $(if $(FULL),--full)
# A fleet as it is deployed: a box of 2 s pulls the results of a box of a minute; polls and batches go
# through nginx.
bench-fleet-pull bench-fleet-polls bench-fleet-load: bench-fleet-%: all $(B)/tools/bench_load $(B)/tools/bench_polls
	@sh tests/sh/fleet.sh $(B) --$*
bench-boxes: $(B)/tools/bench_box $(PROGRAMS) # overruns of short boxes, on a free core and on a half-taken one
	@$< --overruns $(ARGS)
bench-gpu: all $(B)/tests/test_triples $(B)/tests/test_drills $(B)/tools/bench_landscape $(B)/tests/fake/libnvidia-ml.so.1 $(GPU_LIBRARIES) # tools/bench/gpu.sh; ARGS=--fake without a GPU
	@sh tools/bench/gpu.sh $(B) $(ARGS)
gpu-pack: all $(B)/tests/test_triples $(B)/tests/test_drills $(B)/tools/bench_landscape $(B)/tests/fake/libnvidia-ml.so.1 $(GPU_LIBRARIES)
	@sh tools/bench/gpu_pack.sh $(B)
# Predictions; the files of boards are those of the source tree. ARGS="--measured FILE": what others measured.
bench-boards: export HONE_BOARDS ?= configs/boards
bench-%: $(B)/tools/bench_% $(PROGRAMS)
	@$< $(ARGS)
# Comparison with other libraries, installed from PyPI in a virtual environment; see tools/peers/bench_peers.py.
bench-peers: all $(B)/tools/bench_net
	@BUILD=$(B) sh tests/sh/peers.sh $(ARGS)
bench-untuned: all
	@BUILD=$(B) sh tests/sh/peers.sh --untuned $(ARGS)
bench-quantized: all
	@BUILD=$(B) sh tests/sh/peers.sh --quantized $(ARGS)
bench-silero: all # needs the libraries of bench-untuned
	@sh tests/sh/silero.sh $(B) --time $(ARGS)
bench-tvm: all $(B)/tools/bench_net
	@BUILD=$(B) sh tests/sh/peers.sh --tvm $(ARGS)
# What NVIDIA's assembler makes of PTX: ARGS=100 candidates per architecture, and as many of large layers. It is had from
# PyPI. Fails where a limit is not met (tests/sh/ptxas.sh).
bench-ptxas: $(B)/tests/test_llvm_ptx $(B)/tests/test_llvm_ptx_layers $(B)/tests/test_llvm_ptx_fragments
	@[ -x $(B)/ptxas-venv/bin/python ] || python3 -m venv $(B)/ptxas-venv
	@$(B)/ptxas-venv/bin/pip install -q --no-deps nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-nvdisasm==13.5.37
	@sh tests/sh/ptxas.sh $(B) $(or $(ARGS),100) --bench
# Time from a process's start to its first answer: ARGS="--model M --cache DIR"; also for ONNX Runtime if
# bench-peers installed it.
bench-start: all
	@$(CC) -O2 -std=c99 -D_GNU_SOURCE -Iagent/run -o $(B)/start_hone tools/peers/start_hone.c -L$(B) -lhone -Wl,-rpath,$(abspath $(B))
	@$(firstword $(wildcard $(B)/peers-venv/bin/python) python3) -B tools/peers/bench_start.py --program $(B)/start_hone --hone $(B)/hone \
		--out $(B)/start $(ARGS)
.PHONY: bench-gpu gpu-pack bench-fleet-pull bench-fleet-polls bench-fleet-load bench-boxes bench-ptxas bench-start bench-peers bench-untuned bench-quantized bench-silero bench-tvm
