# The ways into the tree. Everything does its own set-up on Debian 12 (tools/setup.sh); programs end up in build/bin.
.DEFAULT_GOAL := all
.PHONY: all berthctl image quick test test-all sim fuzz mutants demo format clean

all: ## set up and build: build/bin/
	@tools/setup.sh build
	@cmake --preset release
	@cmake --build --preset release

berthctl: ## build/bin/berthctl alone
	@tools/setup.sh build
	@cmake --preset release
	@cmake --build --preset release --target berthctl

# The packages come first: a fresh Debian has neither Python nor ctest, which run the tests.
quick: ## the unit tests but the longest two, in less than a minute once the tree is built
	@tools/setup.sh build
	@tools/run-tests --quick

test: ## everything that CI runs; the last line is "N passed, N failed"
	@tools/setup.sh build
	@tools/run-tests

image: ## build/image/berth.tar, for a registry or for containerd
	@tools/setup.sh build image
	@cmake --preset release
	@cmake --build --preset release --target berth berth-agent berth-direct
	@tools/make-image

sim: all ## simulated histories until one fails or it is stopped
	@tools/sim-test --for-ever

test-all: ## what `make test` runs, and every sweep whole
	@tools/setup.sh build
	@tools/run-tests --all

fuzz: ## feed changed inputs of fuzz/corpus to their readers; FUZZ_SECONDS=30 for each, TARGET=block for one
	@tools/setup.sh build
	@cmake --preset fuzz
	@cmake --build --preset fuzz --target berth-fuzz
	@cd build/fuzz && bin/berth-fuzz $(TARGET)

mutants: ## break random lines and see whether unit tests fail; FOLDER=ipam or SINCE=main, N=20, SEED=1 for the same again
	@tools/setup.sh build
	@tools/mutants $(if $(FOLDER),'$(FOLDER)') $(if $(SINCE),--since $(SINCE)) $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED))

demo: ## a one-node cluster whose pods get their addresses from berth; KEEP=1 leaves it running
	@tools/build-demo
	@KEEP=$(KEEP) e2e/demo.sh

format: ## lay out all C++ as the format check wants it
	@tools/setup.sh build
	@tools/check-format --fix

clean: ## remove everything that was built; the cache outside the tree stays
	rm -rf build
