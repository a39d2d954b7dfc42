# muster: two commands do everything a new machine needs: `make demo` and `make test`.
#
#   make build          the program at build/muster        (GPU=1 adds the CUDA and NCCL plugin)
#   make test           build and run every test
#   make demo           train a small model on a real book, in two processes, with a report
#   make bench          side by side with PyTorch; installs it into a folder of its own
#   make soak           the long tests: every call of a save, 200 kills, the fuzzers
#   make format         rewrite the sources in the house style
#
# TORCH_ROOT=/path/to/torch uses that LibTorch; CORPUS=/path/to/text.txt trains the demo on your text.

SHELL := /bin/bash
BUILD ?= build
JOBS ?= $(shell nproc)
GPU ?= 0
SOURCES = $(shell git ls-files --cached --others --exclude-standard 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' 'bench/*.cpp')

.PHONY: build build-tests configure setup test demo bench soak format check clean

setup:
	@TORCH_ROOT="$(TORCH_ROOT)" scripts/setup.sh

configure: setup
	@BUILD="$(BUILD)" GPU="$(GPU)" scripts/configure.sh

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target muster $(if $(filter 1,$(GPU)),muster_cuda)

build-tests: configure
	@cmake --build $(BUILD) -j $(JOBS)

check: setup
	@scripts/check_rooms.py
	@scripts/check_format.sh

test: build-tests check
	@scripts/test.sh $(BUILD)

demo: build
	@CORPUS="$(CORPUS)" scripts/demo.sh $(BUILD)

bench: build
	@bench/run.sh $(BUILD)

soak: build-tests
	@scripts/soak.sh $(BUILD)

format: setup
	@clang-format -i $(SOURCES)

clean:
	@rm -rf $(BUILD)
