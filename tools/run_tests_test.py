#!/usr/bin/env python3
# A test of tools/run-tests: that it counts what was tested, and that nothing that fails gets lost on the way.
import contextlib
import importlib.machinery
import importlib.util
import io
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
    """Of one test of ctest."""

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
    """Of steps, as a person or CI sees it."""

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

    def test_steps_that_need_a_vital_one_are_failures(self):
        code, last, text = self.run_steps(
            Step("a", "false", minutes=1, vital=True), Step("b", "true", minutes=1), Step("c", "true", minutes=1)
        )
        self.assertEqual((code, last), (1, "0 passed, 3 failed"))
        self.assertIn("not tried after that: b, c", text)

    def test_a_step_that_takes_too_long_is_ended_with_all_it_started(self):
        started = time.monotonic()
        code, last, text = self.run_steps(Step("a", "sleep 300 & sleep 300", minutes=0))
        self.assertEqual((code, last), (1, "0 passed, 1 failed"))
        self.assertIn("took longer than 0 minutes", text)
        self.assertLess(time.monotonic() - started, 60)

    def test_a_step_aside_runs_beside_those_that_follow(self):
        flag = self.root / "flag"
        code, last, text = self.run_steps(
            Step("a", f"until [[ -e {flag} ]]; do sleep 0.02; done; echo 5 passed, 0 failed", minutes=1, aside=True),
            Step("b", f"touch {flag}", minutes=1),
        )
        self.assertEqual((code, last), (0, "6 passed, 0 failed"))
        self.assertLess(text.index("b  "), text.index("a  "))

    def test_a_step_aside_takes_only_what_others_leave(self):
        code, _, text = self.run_steps(Step("a", "chrt --pid $$; chrt --pid $$ | grep SCHED_IDLE", minutes=1, aside=True))
        self.assertEqual(code, 0, text)

    def test_a_failure_aside_is_counted_and_its_log_shown(self):
        code, last, text = self.run_steps(
            Step("a", "echo the reason; false", minutes=1, aside=True), Step("b", "true", minutes=1)
        )
        self.assertEqual((code, last), (1, "1 passed, 1 failed"))
        self.assertIn("    | the reason\n", text)

    def test_a_step_aside_ends_with_the_rest(self):
        started = time.monotonic()
        with self.assertRaises(SystemExit), mock.patch.object(run_tests, "count_of_step", side_effect=SystemExit(143)):
            self.run_steps(Step("a", "sleep 300 & sleep 300", minutes=9, aside=True), Step("b", "true", minutes=1))
        self.assertLess(time.monotonic() - started, 60)

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


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
