#!/usr/bin/env python3
# A test of tools/mutants: the mutants of a line, the lines that it chooses from, its verdicts, and its cleanup.
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("mutants", str(Path(__file__).parent / "mutants"))
spec = importlib.util.spec_from_loader("mutants", loader)
assert spec
mutants = importlib.util.module_from_spec(spec)
sys.modules["mutants"] = mutants
loader.exec_module(mutants)

# A line, and one of its mutants.
MADE = [
    ("  if (a < b) return;", "  if (a <= b) return;"),
    ("  if (a >= b) return;", "  if (a > b) return;"),
    ("  if (a && b) {", "  if (a || b) {"),
    ("  if (a && b) {", "  if (!(a && b)) {"),
    ("  if (!IsDone(x)) return 1;", "  if (IsDone(x)) return 1;"),
    ("  return a == b;", "  return a != b;"),
    ("  return a == b;", "  return !(a == b);"),
    ("  return std::ranges::any_of(list, is_its);", "  return std::ranges::all_of(list, is_its);"),
    ("  const auto due = std::min(a, b);", "  const auto due = std::max(a, b);"),
    ("constexpr int kTriesMax = 30;", "constexpr int kTriesMax = 31;"),
    ("  Notify(a.b(), 1);", "  ;"),
    ("  slot->is_late = true;", "  ;"),
    ("  slot->is_late = true;", "  slot->is_late = false;"),
    ('  Log("a < b", c < d);', '  Log("a < b", c <= d);'),
]
# Lines without mutants.
LEFT_ALONE = [
    "// a < b",
    "  // if (a && b) return;",
    '#include "a/b.h"',
    "template <typename T>",
    "  std::vector<std::string> names;",
    '  spdlog::info("a < b", c < d);',
    "  BERTH_CHECK(a < b);",
    '  const char* text = "a < b && c";',
    "  names.reserve(others.size());",
]

DIFF = """\
diff --git a/ipam/a.cc b/ipam/a.cc
--- a/ipam/a.cc
+++ b/ipam/a.cc
@@ -3 +3,2 @@ void f() {
-old
+new
+new
@@ -9,2 +10,0 @@
-gone
-gone
"""


class Lines(unittest.TestCase):
    def test_a_line_is_broken_in_the_known_ways(self):
        for line, after in MADE:
            with self.subTest(line=line, after=after):
                self.assertIn(after, mutants.mutants_of_line(line))

    def test_nothing_is_made_of_comments_texts_types_and_logs(self):
        for line in LEFT_ALONE:
            with self.subTest(line=line):
                self.assertEqual(mutants.mutants_of_line(line), [])

    def test_no_mutant_is_made_twice_and_none_is_the_line_itself(self):
        for line, _ in MADE:
            made = mutants.mutants_of_line(line)
            self.assertEqual(len(made), len({*made} - {line}), line)

    def test_the_changed_lines_of_a_diff_are_the_new_ones(self):
        self.assertEqual(mutants.changed_lines(DIFF), {"ipam/a.cc": {3, 4}})


class Candidates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.paths = ["ipam/a.cc", "ipam/a_test.cc", "ipam/b.cc", "ipam/model_store.cc", "untested/a.cc", "ipam/sub/a.cc"]
        for path in self.paths:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text("bool a = b < c;\nbool d = e < f;\n")

    def drawn(self, *patterns, **since):
        with mock.patch.object(mutants, "ROOT", self.root), mock.patch.object(mutants, "git", return_value=DIFF):
            return {(m.path, m.line) for m in mutants.candidates(self.paths, patterns, **since)}

    def test_sources_of_tested_folders_are_drawn_from_and_their_tests_are_not(self):
        both = {1, 2}
        self.assertEqual(self.drawn("ipam"), {(p, n) for p in ("ipam/a.cc", "ipam/b.cc") for n in both})
        self.assertEqual(self.drawn("ipam/b*"), {("ipam/b.cc", n) for n in both})
        self.assertEqual(self.drawn("untested"), set())

    def test_since_a_commit_only_changed_lines_are_drawn_from(self):
        (self.root / "ipam/a.cc").write_text("\n\nbool a = b < c;\nbool d = e < f;\nbool g = h < i;\n")
        self.assertEqual(self.drawn(since="main"), {("ipam/a.cc", 3), ("ipam/a.cc", 4)})


class Judgement(unittest.TestCase):
    """Verdicts on a copy with a fake compiler and fake tests."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = mutants.Tree(Path(folder.name), jobs=1, seed=1)
        self.source = Path(folder.name) / "ipam" / "a.cc"
        self.source.parent.mkdir()
        self.source.write_text("one\ntwo\n")

    def judge(self, builds, passes):
        seen = []
        # The first build and the first run are without a mutant.
        build = mock.Mock(side_effect=[True, builds])
        test = mock.Mock(side_effect=lambda *_: seen.append(self.source.read_text()) or [True, passes][len(seen) - 1])
        with mock.patch.multiple(self.tree, build=build, test=test):
            verdict = self.tree.judge(mutants.Mutant("ipam/a.cc", 2, "two", "three"))
        self.assertEqual(self.source.read_text(), "one\ntwo\n")
        return verdict, seen

    def test_a_mutant_whose_tests_fail_is_noticed(self):
        verdict, seen = self.judge(builds=True, passes=False)
        self.assertEqual(verdict, "noticed")
        self.assertTrue(seen[1].endswith("one\nthree\n"), seen)

    def test_a_mutant_whose_tests_pass_survives(self):
        self.assertEqual(self.judge(builds=True, passes=True)[0], "survived")

    def test_a_mutant_that_does_not_compile_is_told_apart(self):
        self.assertEqual(self.judge(builds=False, passes=True)[0], "did not compile")

    def test_the_run_ends_if_the_unchanged_tests_fail(self):
        with mock.patch.multiple(self.tree, build=mock.Mock(return_value=True), test=mock.Mock(return_value=False)):
            with self.assertRaises(SystemExit):
                self.tree.judge(mutants.Mutant("ipam/a.cc", 2, "two", "three"))
        self.assertEqual(self.source.read_text(), "one\ntwo\n")

    def test_commands_succeed_only_together(self):
        self.assertTrue(self.tree.run(["true"], ["true"]))
        self.assertFalse(self.tree.run(["true"], ["false"]))

    def test_the_first_failure_and_the_time_limit_end_the_other_commands(self):
        for commands, seconds in ((["sh", "-c", "sleep 300 & sleep 300"], ["false"]), 300), ((["sleep", "300"],), 0):
            started = time.monotonic()
            self.assertFalse(self.tree.run(*commands, seconds=seconds))
            self.assertLess(time.monotonic() - started, 60)

    def test_a_signal_ends_what_runs_and_restores_the_copy(self):
        child = self.tree.folder / "child"
        command = ["sh", "-c", f"echo $$ >{child}.new; mv {child}.new {child}; exec sleep 300"]

        def interrupted(seconds, signals=[SystemExit(143)]):
            if child.exists() and signals:
                raise signals.pop()  # the handler of SIGTERM does the same

        self.tree.limits["ipam_test"] = 300
        with mock.patch.object(self.tree, "build", lambda _: self.tree.run(command)):
            with mock.patch.object(mutants.time, "sleep", interrupted), self.assertRaises(SystemExit):
                self.tree.judge(mutants.Mutant("ipam/a.cc", 2, "two", "three"))
        with self.assertRaises(ProcessLookupError):
            os.kill(int(child.read_text()), 0)
        self.assertEqual(self.source.read_text(), "one\ntwo\n")


class Copy(unittest.TestCase):
    def test_is_as_the_tree_and_keeps_the_time_of_what_is_the_same(self):
        with tempfile.TemporaryDirectory() as name:
            root, copy = Path(name) / "root", Path(name) / "copy"
            for folder in (root, copy):
                (folder / "ipam").mkdir(parents=True)
            for path, text in (("ipam/a.cc", "a"), ("ipam/b.cc", "new")):
                (root / path).write_text(text)
            for path, text in (("ipam/a.cc", "a"), ("ipam/b.cc", "old"), ("ipam/gone.cc", "gone")):
                (copy / path).write_text(text)
            os.utime(copy / "ipam/a.cc", (1, 1))
            with mock.patch.object(mutants, "ROOT", root):
                with mock.patch.object(mutants, "files_of_tree", return_value=["ipam/a.cc", "ipam/b.cc"]):
                    mutants.Tree(copy, jobs=1, seed=1).update()
            self.assertEqual((copy / "ipam/a.cc").stat().st_mtime, 1)
            self.assertEqual((copy / "ipam/b.cc").read_text(), "new")
            self.assertFalse((copy / "ipam/gone.cc").exists())


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
