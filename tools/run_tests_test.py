#!/usr/bin/env python3
# A test of tools/run-tests and tools/BerthStep.cmake: they run steps in lanes, count tests, and report every failure.
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
TOOLS = Path(__file__).resolve().parent
loader = importlib.machinery.SourceFileLoader("run_tests", str(TOOLS / "run-tests"))
spec = importlib.util.spec_from_loader("run_tests", loader)
assert spec
run_tests = importlib.util.module_from_spec(spec)
sys.modules["run_tests"] = run_tests
loader.exec_module(run_tests)

JUNIT = "<testsuite><testcase name='a' status='run'><system-out>[  PASSED  ] 7 tests.</system-out></testcase></testsuite>"
HANGING = "sleep 300 & echo $! > pids; setsid sleep 300 & echo $! >> pids; touch begun; sleep 300"


class CountOfTest(unittest.TestCase):
    """The count of one ctest test."""

    def count(self, status, output):
        case = xml.etree.ElementTree.Element("testcase", status=status)
        xml.etree.ElementTree.SubElement(case, "system-out").text = output
        return run_tests.count_of_test(case)

    def test_cases_of_googletest_count(self):
        self.assertEqual(self.count("run", "[==========] 7 tests ran.\n[  PASSED  ] 7 tests.\n"), (7, 0))
        self.assertEqual(self.count("run", "[  PASSED  ] 1 test.\n"), (1, 0))

    def test_failed_cases_of_googletest_count(self):
        self.assertEqual(self.count("fail", "[  PASSED  ] 5 tests.\n[  FAILED  ] 2 tests\n\n 2 FAILED TESTS\n"), (5, 2))
        self.assertEqual(self.count("fail", "[  PASSED  ] 5 tests.\n[  FAILED  ] 1 test\n\n 1 FAILED TEST\n"), (5, 1))

    def test_the_last_line_of_a_script_counts(self):
        self.assertEqual(self.count("run", "1 passed, 1 failed\nno, again:\n3 passed, 0 failed\n"), (3, 0))

    def test_other_programs_count_as_one(self):
        self.assertEqual(self.count("run", "fine"), (1, 0))
        self.assertEqual(self.count("fail", "bad"), (0, 1))

    def test_a_crash_after_all_passed_counts(self):
        self.assertEqual(self.count("fail", "[  PASSED  ] 7 tests.\nThreadSanitizer: data race\n"), (7, 1))


class Run(unittest.TestCase):
    """Runs of steps, with the output that a person or CI sees."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "a tree"
        (self.root / "tools").mkdir(parents=True)
        for name in ("run-tests", "BerthStep.cmake", "lanes.json"):
            shutil.copy(TOOLS / name, self.root / "tools")

    def start(self, *steps, arguments=()):
        """Starts run-tests. A step is its name, its command, and its other arguments of berth_step."""
        text = "include(${CMAKE_CURRENT_LIST_DIR}/BerthStep.cmake)\n"
        for name, command, *others in steps:
            defaults = f"{'' if 'LANE' in str((command, *others)) else 'LANE build'} {'' if 'MINUTES' in str(others) else 'MINUTES 1'}"
            text += f"berth_step({name} [==[{command}]==] {defaults} {' '.join(others)})\n"
        (self.root / "tools" / "steps.cmake").write_text(text)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
        return subprocess.Popen(
            [self.root / "tools" / "run-tests", *arguments],
            env=environment | {"TMPDIR": str(self.root)},  # where a run that is killed leaves a folder
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run_steps(self, *steps, arguments=()):
        """Returns the exit code, the last line, and the whole output."""
        process = self.start(*steps, arguments=arguments)
        output = process.communicate()[0]
        return process.returncode, output.splitlines()[-1], output

    def expect(self, code, last, *steps, arguments=()):
        """Runs the steps, and returns the whole output."""
        result = self.run_steps(*steps, arguments=arguments)
        self.assertEqual(result[:2], (code, last), result[2])
        return result[2]

    def test_counts(self):
        cases = (
            ("true", "1 passed"),
            ("echo 5 passed, 0 failed", "5 passed"),
            ("echo 5 passed, 2 failed", "5 passed, 2 failed (it says so)"),
            ("echo 5 passed, 0 failed; exit 3", "5 passed, 1 failed (exit code 3)"),
            ("false | cat\ntrue", "0 passed, 1 failed (exit code 1)"),
            (f'echo "{JUNIT}" > "$JUNIT"', "7 passed"),
            (f'echo "{JUNIT}" > "${{JUNIT%6.xml}}7.xml"', "1 passed"),
            ("false", "0 passed, 1 failed (exit code 1)"),  # not the results that the step above wrote before
            ("head -c 9000000 /dev/zero | tr '\\0' x", "1 passed"),
            ("echo 5 passed, 0 failed; echo bye", "5 passed"),
            ("echo 5 passed, 2 failed; echo bye", "5 passed, 2 failed (it says so)"),
            ("echo 1 passed, 1 failed; echo 3 passed, 0 failed", "3 passed"),
            ("echo 0 passed, 0 failed", "0 passed, 1 failed (ran no test)"),
            ("echo '<testsuite/>' >\"$JUNIT\"", "0 passed, 1 failed (ran no test)"),
            ("echo '<testsuite>' >\"$JUNIT\"", "0 passed, 1 failed (the results cannot be read: no element found: line 2, column 0)"),
            ("rm build/test-logs/s15.log", "1 passed"),
            ("exit 124", "0 passed, 1 failed (exit code 124)"),
            ("kill -9 $$", "0 passed, 1 failed (ended by SIGKILL)"),
            ("setsid sleep 300 & echo $! >pids; until [[ $(</proc/$!/comm) == sleep ]]; do sleep 0.02; done",
             "1 passed (left processes: sleep)"),
            ("echo $$ >>pids; kill -9 $PPID; exec sleep 300", "0 passed, 1 failed (ended early: build/test-logs/ctest.log says why)"),
        )
        text = self.expect(1, "40 passed, 13 failed", *((f"s{place}", command) for place, (command, _) in enumerate(cases)))
        for place, (_, count) in enumerate(cases):
            self.assertRegex(text, rf"(?m)^s{place} +(ok|FAILED) .* cpu  {re.escape(count)}$")
        self.assertFalse(self.is_running())

    def test_a_run_without_steps_fails(self):
        self.expect(1, "run-tests: no step was chosen", ("a", "true"), arguments=["--quick"])

    def test_a_failure_of_ctest_itself_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            ctest = Path(folder, "ctest")
            ctest.write_text(f'#!/bin/sh\n{shutil.which("ctest")} "$@" && echo "$*" | grep -q show-only\n')
            ctest.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                text = self.expect(1, "1 passed, 1 failed", ("a", "true"))
        self.assertIn("ctest FAILED: build/test-logs/ctest.log says why\n", text)

    def test_a_failure_is_counted_and_shown_twice(self):
        steps = ("a", "echo 'FAIL: one'; echo the reason; false"), ("b", "echo 5 passed, 0 failed", "LANE tidy")
        text = self.expect(1, "5 passed, 1 failed", *steps)
        self.assertIn("    | FAIL: one\n    | the reason\n", text)
        self.assertIn("The 2 longest of 2 steps", text)
        self.assertIn("a FAILED: exit code 1\n    FAIL: one\n    the reason\n", text)

    def test_a_step_whose_need_fails_is_a_failure_and_so_is_what_needs_that(self):
        text = self.expect(
            *(1, "2 passed, 3 failed"),
            ("a", "false"),
            ("b", "true", "NEEDS a"),
            ("c", "true", "LANE tidy", "NEEDS b"),
            ("d", "true"),
            ("e", "true", "AFTER a"),
        )
        self.assertRegex(text, r"\nb .*not tried: a failed")
        self.assertRegex(text, r"\nc .*not tried: b failed")

    def test_a_need_that_was_not_asked_for_is_taken_as_met(self):
        steps = ("a", "false"), ("b", "true", "NEEDS a"), ("c", "true", "NEEDS b")
        text = self.expect(0, "2 passed, 0 failed", *steps, arguments=["b", "c"])
        self.assertTrue(text.startswith("b: takes for granted: a\nb "), text)

    def test_two_runs_do_not_use_one_tree(self):
        step = ("a", "touch begun; until [[ -e go ]]; do sleep 0.02; done")
        first = self.start(step)
        self.await_file("begun")
        self.expect(1, "run-tests: another run uses this tree; its logs would mix with these", step)
        (self.root / "go").touch()
        self.assertTrue(first.communicate()[0].endswith("\n1 passed, 0 failed\n"))

    def test_characters_that_the_output_lacks_are_replaced(self):
        with unittest.mock.patch.dict(os.environ, PYTHONIOENCODING="latin-1"):
            self.assertIn("    | wrong ? right\n", self.expect(1, "0 passed, 1 failed", ("a", "echo 'wrong → right'; false")))

    def test_the_results_of_unit_tests_may_be_in_a_folder_with_spaces(self):
        self.assertEqual(set(re.findall(r".\$JUNIT.", (TOOLS / "steps.cmake").read_text())), {'"$JUNIT\\'})

    def test_mistakes_in_the_table_are_errors(self):
        for message, *steps in (
            ("The step a waits for b.", ("a", "true", "NEEDS b"), ("b", "true")),
            ("There are two steps a,", ("a", "false"), ("a", "true")),
            ("The step a.b needs another name", ("a.b", "true")),
            ("keyword without a value: NEED;b", ("a", "true", "NEED b")),
            ("keyword without a value: NEEDS", ("a", "true", "NEEDS")),
            ("The step a needs a LANE, MINUTES", ("a", "true", "LABELS swep")),
            ("The step a needs a LANE, MINUTES", ("a", "true", "MINUTES ten")),
            ("The step a needs a LANE, MINUTES", ("a", "true", "GIVES_WAY much")),
            ("The step a needs a LANE, MINUTES", ("a", "true # no LANE")),
        ):
            code, last, text = self.run_steps(*steps)
            self.assertEqual((code, last), (1, "run-tests: ctest cannot read tools/steps.cmake; the lines above say why"))
            self.assertIn(message, " ".join(text.split()))  # CMake breaks lines

    def test_names_and_lanes_that_do_not_exist_are_errors(self):
        code, last, _ = self.run_steps(("a", "true"), arguments=["a", "b"])
        self.assertEqual(code, 2)
        self.assertIn("there is no step b", last)
        self.expect(1, "0 passed, 1 failed", ("a", "true", "LANE none"))

    def test_order(self):
        """A lane begins its steps in order, and a step waits for what it NEEDS or comes AFTER in other lanes."""
        text = self.expect(
            *(0, "6 passed, 0 failed"),
            ("slow", "sleep 0.5; touch slow"),
            ("b", "[[ -e slow && ! -e last ]]"),
            ("last", "touch last"),
            ("d", "[[ -e slow ]]", "LANE tidy", "NEEDS slow"),
            ("e", "[[ -e slow ]]; touch e", "LANE node", "AFTER slow"),
            ("alone", "[[ -e slow && -e e && -e last ]]", "LANE alone"),
        )
        self.assertRegex(text, r"\nalone [^\n]*\nThe")

    def test_lanes_run_side_by_side_and_the_lane_of_clusters_runs_two(self):
        meet = "touch {0}; until [[ -e a && -e b && -e c ]]; do sleep 0.02; done"
        lanes = {"a": "tidy", "b": "cluster", "c": "cluster"}
        self.expect(0, "3 passed, 0 failed", *((name, meet.format(name), f"LANE {lane}") for name, lane in lanes.items()))

    def await_file(self, name):
        until = time.monotonic() + 60
        while not (self.root / name).exists():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def is_running(self):
        """Whether a process runs that HANGING started."""
        return any(Path("/proc", pid).exists() for pid in (self.root / "pids").read_text().split())

    def test_a_step_that_takes_too_long_is_ended_with_all_it_started(self):
        text = self.expect(1, "0 passed, 1 failed", ("a", HANGING, "MINUTES 0.03"))
        self.assertIn("took longer than 0.03 minutes", text)
        self.assertFalse(self.is_running())

    def test_all_steps_end_with_an_interrupted_run(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):
            process = self.start(("a", HANGING, "MINUTES 9"))
            self.await_file("begun")
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, code)
            until = time.monotonic() + 60
            while number == signal.SIGKILL and self.is_running() and time.monotonic() < until:
                time.sleep(0.02)
            self.assertFalse(self.is_running())
            (self.root / "begun").unlink()

    def test_nothing_interrupts_what_cleans_up(self):
        """A step that is to end gets one signal, also if it is no single command, and whatever signals its run gets."""
        suite = "trap 'sleep 2; touch cleaned' EXIT; trap 'exit 130' TERM; sh -c 'touch begun; sleep 300'"
        process = self.start(("a", f'bash -c "{suite}"; true', "MINUTES 9"))
        self.await_file("begun")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            process.send_signal(number)
            time.sleep(0.2)
        process.communicate(timeout=60)
        self.assertTrue((self.root / "cleaned").exists())

    def test_a_step_gives_way_as_it_says(self):
        # A kernel without autogroups has no such file.
        command = f"[[ $(nice) == {os.nice(0) + 5} ]]; ! grep -v ' nice 5$' /proc/self/autogroup"
        self.expect(0, "1 passed, 0 failed", ("a", command, "GIVES_WAY 5"))

    def test_cpu_time_of_processes_in_the_background_counts(self):
        work = 'python3 -c "import itertools, time; next(n for n in itertools.count() if time.process_time() > 1)"'
        # The process detaches itself, as the supervisor of a cluster does, and ends before the step.
        command = f"(setsid bash -c '{work}; touch done' &); until [[ -e done ]]; do sleep 1; done; sleep 1"
        self.assertRegex(self.expect(0, "1 passed, 0 failed", ("a", command)), r"a +ok +\d+ s +[1-9]\d* s cpu")

    def test_choice_of_steps(self):
        steps = ("a", "true", "LABELS quick"), ("b", "true"), ("c", "true", "LABELS sweep")
        for arguments, names in ((), "ab"), (("--all",), "abc"), (("--quick",), "a"), (("c", "a"), "ac"):
            text = self.run_steps(*steps, arguments=["--list", *arguments])[2]
            self.assertEqual("".join(re.findall(r"^\w+", text, re.MULTILINE)), names)

    def test_sweeps_are_whole_only_with_all(self):
        steps = ("a", "[[ -z ${BERTH_SWEEP-} ]]"), ("b", "[[ $BERTH_SWEEP == all ]]", "LABELS sweep")
        self.expect(0, "1 passed, 0 failed", *steps)
        self.expect(1, "1 passed, 1 failed", *steps, arguments=["--all"])

    def test_many_and_long_lines_of_failures_are_cut(self):
        with tempfile.NamedTemporaryFile("w") as log:
            log.write("FAIL lost\n" + "x" * 1_000_000 + "\n" + "FAIL one\n" * 30 + "FAIL " + "y" * 1000)
            log.flush()
            outcome = run_tests.Outcome("a", "build", failed=1, log=log.name)
            self.assertEqual(outcome.failures(), "    FAIL one\n" * 20 + "    and 11 more lines\n")
            self.assertEqual(len(outcome.lines()[-1]), 300)

    def test_the_longest_steps_are_listed(self):
        outcomes = [run_tests.Outcome(f"s{i}", "build", seconds=i % 7 + i / 100) for i in range(12)]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            run_tests.print_summary(outcomes, 60)
        lines = output.getvalue().splitlines()
        self.assertIn("The 10 longest of 12 steps", lines[0])
        self.assertEqual([line.split()[0] for line in lines[1:-2]], "s6 s5 s11 s4 s10 s3 s9 s2 s8 s1".split())


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
