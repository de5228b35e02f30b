# What one can do here. Each target installs what it needs, or says what is missing.
# Where rustup puts cargo: a shell that was there before it does not know.
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO ?= cargo
TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)
SEEDS ?= 500
SEQUENCES ?= 5000

.PHONY: help demo up test tools binaries lint sim zoo scenarios kubernetes conformance corpus faults chart crds bench

help: ## Lists the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: ## From nothing to a healthy etcd, a backup and a restore, with real etcd processes.
	@.ci/tools demo
	$(CARGO) build --locked --bins -p etcd-operator -p fake-k8s -p scenarios
	$(TARGET_DIR)/debug/scenarios demo

up: ## A Kubernetes API with the operator and an S3 server to play with, until Ctrl-C.
	@.ci/tools demo
	$(CARGO) build --locked --bins -p etcd-operator -p fake-k8s -p scenarios
	$(TARGET_DIR)/debug/scenarios up

test: tools ## Everything that CI runs, each stage with its time.
	.ci/test

tools: ## Installs what the build needs: protoc, iproute2, Go, Node.js. Says what it cannot install.
	@.ci/tools

binaries: tools ## Builds the real etcd 3.2 to 3.7, the object stores, helm and kubectl, once per machine.
	$(CARGO) run --locked -p scenarios --bin binaries -- --all

lint: tools ## Formatting, clippy, dependencies, documentation.
	.ci/test fmt clippy crates deny doc

sim: tools ## Simulated disasters: make sim SEEDS=500, or SEED=7 for one of them with all its events.
	$(CARGO) run --locked --release -p sim -- run $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

zoo: tools ## Takes guards away from the operator, one at a time, and sees whether the simulation notices (half an hour).
	.ci/zoo

scenarios: tools ## Scenarios in both lanes: make scenarios, or CASE=topic/name for one of them.
	$(CARGO) build --locked --bins -p etcd-operator -p fake-k8s -p scenarios
	$(TARGET_DIR)/debug/scenarios run --lane model $(CASE)
	$(TARGET_DIR)/debug/scenarios run --lane live $(CASE)

kubernetes: tools ## Builds the real kube-apiserver and kube-controller-manager that fake-k8s is measured against.
	$(CARGO) run --locked -p scenarios --bin scenarios -- kubernetes build

conformance: tools ## Plays generated requests against the real API server and fake-k8s: make conformance SEQUENCES=5000.
	$(CARGO) run --locked -p scenarios --bin scenarios -- conformance --sequences $(SEQUENCES) --table fake-k8s/FIDELITY.md

corpus: tools ## Records what the real API server answers, for the test that needs none.
	$(CARGO) run --locked -p scenarios --bin scenarios -- conformance --sequences 1000 --record fake-k8s/tests/corpus/v1.34.jsonl

faults: tools ## Puts faults into fake-k8s, one at a time, and sees whether the recorded answers notice (minutes).
	.ci/faults

chart: tools ## Lints and renders the chart, and checks what it renders.
	.ci/test chart

crds: tools ## Writes the CRDs of the chart from the types.
	UPDATE_CRDS=1 $(CARGO) test --locked -p etcd-operator --test api_crds

bench: tools ## Benchmarks; benches/RESULTS.md has the results on record.
	$(CARGO) bench --locked -p benches
