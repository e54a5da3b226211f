#!/usr/bin/env python3
# A test of tools/run-tests: it counts tests, and reports every failure.
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run_tests", str(Path(__file__).parent / "run-tests"))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
sys.modules["run_tests"] = run_tests
loader.exec_module(run_tests)
Step = run_tests.Step

JUNIT = '<testsuite><testcase name="a" status="run"><system-out>[  PASSED  ] 7 tests.</system-out></testcase></testsuite>'


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
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def run_steps(self, *steps, arguments=()):
        output = io.StringIO()
        with (
            mock.patch.object(run_tests, "STEPS", list(steps)),
            mock.patch.object(run_tests, "ROOT", self.root),
            mock.patch.object(run_tests, "LOGS", self.root / "logs"),
            mock.patch.object(run_tests, "PASSED", self.root / "passed"),
            mock.patch.object(sys, "argv", ["run-tests", *arguments]),
            contextlib.redirect_stdout(output),
        ):
            code = run_tests.main()
        lines = output.getvalue().splitlines()
        return code, lines[-1], output.getvalue()

    def test_everything_passed(self):
        code, last, _ = self.run_steps(Step("a", "true", minutes=1), Step("b", "echo 5 passed, 0 failed", minutes=1))
        self.assertEqual((code, last), (0, "6 passed, 0 failed"))

    def test_a_failure_is_counted_and_its_log_shown(self):
        code, last, text = self.run_steps(Step("a", "echo the reason; false", minutes=1), Step("b", "true", minutes=1))
        self.assertEqual((code, last), (1, "1 passed, 1 failed"))
        self.assertIn("    | the reason\n", text)

    def test_a_script_that_exits_well_in_spite_of_failures_has_failed(self):
        code, last, _ = self.run_steps(Step("a", "echo 5 passed, 2 failed", minutes=1))
        self.assertEqual((code, last), (1, "5 passed, 2 failed"))

    def test_a_script_that_exits_badly_in_spite_of_no_failures_has_failed(self):
        code, last, _ = self.run_steps(Step("a", "echo 5 passed, 0 failed; exit 3", minutes=1))
        self.assertEqual((code, last), (1, "5 passed, 1 failed"))

    def test_a_command_in_the_middle_that_fails_is_a_failure(self):
        code, _, _ = self.run_steps(Step("a", "false | cat\ntrue", minutes=1))
        self.assertEqual(code, 1)

    def test_a_step_whose_need_fails_is_a_failure_and_so_is_what_needs_that(self):
        code, last, text = self.run_steps(
            Step("a", "false", minutes=1),
            Step("b", "true", minutes=1, needs=("a",)),
            Step("c", "true", minutes=1, lane="tidy", needs=("b",)),
            Step("d", "true", minutes=1),
        )
        self.assertEqual((code, last), (1, "1 passed, 3 failed"))
        self.assertRegex(text, r"\nb .*not tried: a failed")
        self.assertRegex(text, r"\nc .*not tried: b failed")

    def test_a_need_that_was_not_asked_for_is_taken_as_met(self):
        steps = (Step("a", "false", minutes=1), Step("b", "true", minutes=1, needs=("a",)))
        self.assertEqual(self.run_steps(*steps, arguments=["b"])[:2], (0, "1 passed, 0 failed"))

    def test_a_step_that_takes_too_long_is_ended_with_all_it_started(self):
        started = time.monotonic()
        code, last, text = self.run_steps(Step("a", "sleep 300 & sleep 300", minutes=0))
        self.assertEqual((code, last), (1, "0 passed, 1 failed"))
        self.assertIn("took longer than 0 minutes", text)
        self.assertLess(time.monotonic() - started, 60)

    def test_lanes_run_side_by_side(self):
        flag = self.root / "flag"
        code, last, _ = self.run_steps(
            Step("a", f"until [[ -e {flag} ]]; do sleep 0.02; done; echo 5 passed, 0 failed", minutes=1, lane="tidy"),
            Step("b", f"touch {flag}", minutes=1),
        )
        self.assertEqual((code, last), (0, "6 passed, 0 failed"))

    def test_a_lane_runs_as_many_at_once_as_it_may(self):
        meet = "touch {0}; until [[ -e {1} ]]; do sleep 0.02; done"
        one, other = self.root / "one", self.root / "other"
        code, _, _ = self.run_steps(
            Step("a", meet.format(one, other), minutes=1, lane="cluster"),
            Step("b", meet.format(other, one), minutes=1, lane="cluster"),
        )
        self.assertEqual(code, 0)

    def test_steps_of_one_lane_run_one_after_another(self):
        flag = self.root / "flag"
        code, _, text = self.run_steps(
            Step("a", f"sleep 0.3; [[ ! -e {flag} ]]", minutes=1), Step("b", f"touch {flag}", minutes=1)
        )
        self.assertEqual(code, 0, text)

    def test_a_step_waits_for_what_it_needs_in_another_lane(self):
        flag = self.root / "flag"
        code, _, text = self.run_steps(
            Step("a", f"sleep 0.3; touch {flag}", minutes=1),
            Step("b", f"[[ -e {flag} ]]", minutes=1, lane="tidy", needs=("a",)),
        )
        self.assertEqual(code, 0, text)

    def test_a_step_of_the_lane_alone_begins_when_all_others_have_ended(self):
        flag = self.root / "other"
        steps = [
            Step("a", f"[[ -e {flag} ]]", minutes=1, lane="alone"),
            Step("b", f"sleep 0.3; touch {flag}; false", minutes=1, lane="tidy"),
        ]
        _, last, _ = self.run_steps(*steps)
        self.assertEqual(last, "1 passed, 1 failed")

    def test_a_step_gives_way_as_it_says(self):
        code, _, text = self.run_steps(
            Step("a", f"nice; [[ $(nice) == $(({os.nice(0)} + 5)) ]]", minutes=1, gives_way=5),
            # A kernel without autogroups has no such file.
            Step("b", "! grep -v ' nice 5$' /proc/self/autogroup", minutes=1, gives_way=5),
        )
        self.assertEqual(code, 0, text)

    def test_a_failure_in_another_lane_is_counted_and_its_log_shown(self):
        code, last, text = self.run_steps(
            Step("a", "echo the reason; false", minutes=1, lane="tidy"), Step("b", "true", minutes=1)
        )
        self.assertEqual((code, last), (1, "1 passed, 1 failed"))
        self.assertIn("    | the reason\n", text)

    def test_all_lanes_end_with_the_rest(self):
        started = time.monotonic()
        with self.assertRaises(SystemExit), mock.patch.object(run_tests, "count_of_step", side_effect=SystemExit(143)):
            self.run_steps(Step("a", "sleep 300 & sleep 300", minutes=9, lane="tidy"), Step("b", "true", minutes=1))
        self.assertLess(time.monotonic() - started, 60)

    def test_cpu_time_of_processes_in_the_background_counts(self):
        work = 'python3 -c "import itertools, time; next(n for n in itertools.count() if time.process_time() > 0.5)"'
        # The process detaches itself, as the supervisor of a cluster does, and ends before the step.
        step = Step("a", f"(setsid bash -c '{work}; touch done' &); until [[ -e done ]]; do sleep 0.1; done; sleep 1", minutes=1)
        runner = run_tests.Runner([step], whole=False, repeat=False)
        with mock.patch.object(run_tests, "ROOT", self.root), mock.patch.object(run_tests, "LOGS", self.root):
            with contextlib.redirect_stdout(io.StringIO()):
                outcome = runner.run_all()[0]
        self.assertEqual(outcome.failed, 0, outcome.log_tail)
        self.assertGreater(outcome.cpu_s, 0.2)

    def test_the_longest_steps_are_listed(self):
        outcomes = [run_tests.Outcome(Step(f"s{i}", "", minutes=1), seconds=i % 7 + i / 100) for i in range(12)]
        lines = run_tests.table_of_longest(outcomes).splitlines()
        self.assertIn("The 10 longest of 12 steps", lines[0])
        self.assertEqual([line.split()[0] for line in lines[1:]], "s6 s5 s11 s4 s10 s3 s9 s2 s8 s1".split())

    def test_a_run_of_several_steps_ends_with_that_list(self):
        _, _, text = self.run_steps(Step("a", "true", minutes=1), Step("b", "true", minutes=1))
        self.assertIn("The 2 longest of 2 steps", text)

    def test_a_success_is_remembered_until_what_it_depends_on_changes(self):
        source = self.root / "folder" / "source"
        source.parent.mkdir()
        source.write_text("1")
        step = Step("a", "date >> ran; echo 5 passed, 0 failed", minutes=1, depends_only_on=("folder",))
        ran = lambda: len((self.root / "ran").read_text().splitlines())
        for content, arguments, want in (("1", (), 1), ("1", (), 1), ("2", (), 2), ("2", ("--all",), 3), ("2", ("a",), 4)):
            source.write_text(content)
            self.assertEqual(self.run_steps(step, arguments=arguments)[:2], (0, "5 passed, 0 failed"))
            self.assertEqual(ran(), want)

    def test_a_failure_is_not_remembered(self):
        (self.root / "source").write_text("1")
        step = Step("a", "echo 5 passed, 1 failed", minutes=1, depends_only_on=("source",))
        for _ in range(2):
            self.assertEqual(self.run_steps(step)[:2], (1, "5 passed, 1 failed"))

    def test_sweeps_are_whole_only_with_all(self):
        steps = (Step("a", "[[ -z ${BERTH_SWEEP-} ]]", minutes=1), Step("b", "false", minutes=1, sweep=True))
        self.assertEqual(self.run_steps(*steps)[:2], (0, "1 passed, 0 failed"))
        steps = (Step("a", "true", minutes=1), Step("b", "[[ $BERTH_SWEEP == all ]]", minutes=1, sweep=True))
        self.assertEqual(self.run_steps(*steps, arguments=["--all"])[:2], (0, "2 passed, 0 failed"))

    def test_results_of_ctest_are_counted(self):
        code, last, _ = self.run_steps(Step("a", f"echo '{JUNIT}' > $JUNIT", minutes=1, junit=True))
        self.assertEqual((code, last), (0, "7 passed, 0 failed"))

    def test_results_of_an_earlier_run_are_not(self):
        self.run_steps(Step("a", f"echo '{JUNIT}' > $JUNIT", minutes=1, junit=True))
        code, last, _ = self.run_steps(Step("a", "false", minutes=1, junit=True))
        self.assertEqual((code, last), (1, "0 passed, 1 failed"))

    def test_quick_takes_only_the_quick_ones(self):
        steps = (Step("a", "true", minutes=1, quick=True), Step("b", "false", minutes=1))
        self.assertEqual(self.run_steps(*steps, arguments=["--quick"])[:2], (0, "1 passed, 0 failed"))
        self.assertEqual(self.run_steps(*steps, arguments=["b"])[:2], (1, "0 passed, 1 failed"))


class Table(unittest.TestCase):
    """The table STEPS."""

    def test_every_need_stands_above_the_step_and_every_lane_exists(self):
        above = set()
        for step in run_tests.STEPS:
            self.assertIn(step.lane, run_tests.LANES)
            self.assertLessEqual(set(step.needs), above, step.name)
            above.add(step.name)
            for path in step.depends_only_on:
                self.assertTrue((run_tests.ROOT / path).exists(), path)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
