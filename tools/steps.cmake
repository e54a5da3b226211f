# The steps of `make test`. tools/run-tests runs them with ctest, and tools/README.md says how to add a step.
include(${CMAKE_CURRENT_LIST_DIR}/BerthStep.cmake)

# Lanes (lanes.json):
# - build: compilers and unit tests, which keep all processors busy
# - kubernetes: compiles Kubernetes while the lane `build` installs packages and links
# - tidy: reads sources
# - sim: virtual time; it gives way to all whose programs have to answer in time
# - cluster: suites with a control plane each, for which they mostly wait, so two run at once
# - node: clusters with nodes, which need more of the processors: two at once starve the lane of the unit tests
#
# Suites and unit tests check that programs answer in time. So a step that only compiles gets a third of their share of the
# processors, and a step that only reads gets a tenth. With less, the run would wait for these steps at the end.
set(COMPILER GIVES_WAY 5)
set(READER GIVES_WAY 10)
# A suite on a control plane of its own.
set(CLUSTER LANE cluster MINUTES 30 NEEDS build set-up cluster-build)
# A suite on a cluster in which it installs berth as users do. Most have nodes.
set(INSTALLED MINUTES 30 NEEDS image set-up cluster-build)
set(NODES LANE node ${INSTALLED})

set(BUILD "cmake --preset $P && cmake --build --preset $P --target")
# Two tests for each processor, because many tests wait. The limits on output are high, because the count is at the end of a
# test's output.
set(UNIT_TESTS "ctest --preset $P -L unit -j $((2 * $(nproc))) --no-tests=error --output-junit \"$JUNIT\" \
--test-output-size-passed 1000000 --test-output-size-failed 1000000")
# If the kernel randomises more than 28 bits of mappings, ThreadSanitizer of GCC 12 cannot place its shadow memory.
set(FIXED_ADDRESSES "$(setarch --addr-no-randomize true 2>/dev/null && echo setarch --addr-no-randomize)")

# The lane `build` goes by AFTER: first the steps that other lanes wait for, then the unit tests, then the sanitizers.
berth_step(packages "tools/setup.sh build" LANE build MINUTES 15 LABELS quick)
berth_step(go "tools/setup.sh go" LANE build MINUTES 5 NEEDS packages)
# Builds Kubernetes and containerd unless the cache has them. Removes build/rights, because the rights that suites used in an
# earlier run say nothing about this run.
berth_step(cluster-build "rm -rf build/rights && e2e/cluster build" LANE kubernetes MINUTES 30 NEEDS go)
berth_step(set-up "tools/setup.sh cluster image curl browser lint" LANE build MINUTES 15 NEEDS packages AFTER go)
berth_step(build "P=release; ${BUILD} all" LANE build MINUTES 30 LABELS quick NEEDS packages AFTER set-up)
berth_step(image "tools/make-image && tools/image-test" LANE build MINUTES 10 NEEDS build set-up)
berth_step(image-earlier "tools/make-earlier-image" LANE build MINUTES 60 LABELS sweep NEEDS image)
berth_step(image-anew "tools/image-test --anew" LANE build MINUTES 30 LABELS sweep NEEDS image)
berth_step(unit "P=release; ${UNIT_TESTS} -LE long" LANE build MINUTES 30 LABELS quick NEEDS build AFTER image)
# The label `long` marks tests that take half a minute of CPU time: a large cluster in memory, and runs of run-tests.
berth_step(unit-long "P=release; ${UNIT_TESTS} -L long" LANE build MINUTES 30 NEEDS build AFTER unit)
berth_step(sim "tools/sim-test" LANE sim MINUTES 60 NEEDS build ${COMPILER})
berth_step(format "tools/check-format" LANE tidy MINUTES 2 NEEDS set-up)
berth_step(scripts "tools/check-scripts" LANE tidy MINUTES 5 NEEDS set-up)
berth_step(tidy "tools/check-tidy" LANE tidy MINUTES 90 NEEDS set-up build ${READER})
berth_step(tidy-alone "tools/check-tidy --alone" LANE tidy MINUTES 90 LABELS sweep NEEDS set-up build ${READER})
berth_step(asan-build "P=asan; ${BUILD} unit_tests" LANE build MINUTES 45 NEEDS packages AFTER unit-long ${COMPILER})
berth_step(asan "P=asan; ${UNIT_TESTS}" LANE build MINUTES 30 NEEDS asan-build)
berth_step(tsan-build "P=tsan; ${BUILD} unit_tests" LANE build MINUTES 45 NEEDS packages AFTER asan ${COMPILER})
berth_step(tsan "P=tsan; ${FIXED_ADDRESSES} ${UNIT_TESTS}" LANE build MINUTES 30 NEEDS tsan-build)
berth_step(system-curl "P=system-curl; ${BUILD} berth-direct" LANE build MINUTES 30 NEEDS set-up build)

# The longest steps come first, and short steps fill the gaps.
berth_step(conformance "e2e/conformance.sh" ${CLUSTER})
berth_step(conformance-agent "BERTH_MODE=agent e2e/conformance.sh" ${CLUSTER})
berth_step(agent "e2e/agent.sh" ${CLUSTER})
berth_step(controller "e2e/controller.sh" ${CLUSTER})
berth_step(k8sclient "e2e/k8sclient.sh" ${CLUSTER})
berth_step(crds "e2e/crds.sh" ${CLUSTER})
berth_step(berthctl "e2e/berthctl.sh" ${CLUSTER})
berth_step(blocks "e2e/blocks.sh" ${CLUSTER})
berth_step(install "e2e/install.sh" ${NODES})
berth_step(reclaim "e2e/reclaim.sh" ${NODES})
berth_step(counted "e2e/counted.sh" ${NODES} MINUTES 120)
berth_step(extender "e2e/extender.sh" ${NODES})
# These steps are in the lane of the control planes, which ends sooner than the lane of the suites with nodes.
berth_step(demo "e2e/demo.sh" LANE cluster ${INSTALLED})
berth_step(docs "e2e/docs.py" LANE cluster ${INSTALLED})
berth_step(scenarios "e2e/scenarios/run.py" ${NODES} LABELS sweep NEEDS build)
berth_step(scenarios-upgrade "e2e/scenarios/upgrade.py" LANE node MINUTES 45 LABELS sweep
  NEEDS image image-earlier build set-up cluster-build)
berth_step(scenarios-reclaim "e2e/scenarios/reclaim.py" ${NODES} MINUTES 120 LABELS sweep NEEDS build)
# Runs each command of docs/benchmarks.md once, so small that its figures mean nothing.
berth_step(bench "bench/run.sh --callers 1 --operations 10 --rounds 1; bench/run.sh --nodes 10 --addresses 100 --rounds 1; \
bench/run.sh --claims 20; bench/burst.sh 1" LANE cluster ${INSTALLED} LABELS sweep)
berth_step(rights "e2e/rights.sh compare" LANE cluster MINUTES 5
  NEEDS conformance conformance-agent agent controller install reclaim counted extender)
# Runs while no other cluster has nodes, because it compares the machine before and after.
berth_step(cluster "e2e/cluster_test.sh" LANE node MINUTES 15 NEEDS cluster-build
  AFTER install reclaim counted extender demo docs bench)
berth_step(scenarios-counts "e2e/scenarios/counts.py" ${CLUSTER} LANE alone LABELS sweep)
berth_step(counted-alone "BERTH_ALONE=1 BERTH_SWEEP= e2e/counted.sh build classic edits" ${NODES} LANE alone LABELS sweep)
berth_step(agent-alone "BERTH_ALONE=1 e2e/agent.sh" ${CLUSTER} LANE alone LABELS sweep)
berth_step(conformance-alone "BERTH_ALONE=1 BERTH_SWEEP= BERTH_MODE=agent e2e/conformance.sh" ${CLUSTER} LANE alone LABELS sweep)
