#!/usr/bin/env python3
# A test of what suites share: a suite takes its cluster down however it ends, and a suite that cannot do so fails. So
# does a scenario whose threads have ended early.
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
E2E = Path(__file__).resolve().parent.parent / "e2e"
sys.path.insert(0, str(E2E / "scenarios"))
import calls
import steps
from cluster import Failure

# A program of scenarios whose cluster is a fake.
SCENARIOS = """
import pathlib, sys, time
sys.path.insert(0, sys.argv.pop())
import steps
class Fake:
    def __init__(self, *_, **__): pass
    def up(self): pass
    def down(self):
        pathlib.Path("ending").touch()
        while not pathlib.Path("may-end").exists(): time.sleep(0.02)
        pathlib.Path("down").touch()
class Scenarios(steps.Steps):
    def install(self): pass
    def waits(self): pathlib.Path("begun").touch(); time.sleep(300)
steps.Cluster, steps.BERTHCTL, steps.IMAGE = Fake, __file__, pathlib.Path(__file__)
sys.exit(steps.main(Scenarios, (Scenarios.waits,)))
"""


class Ends(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "e2e").mkdir()

    def write(self, name, text):
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755)

    def suite(self, cluster):
        """Runs a suite with one check. `cluster` replaces e2e/cluster."""
        for name in ("checks.sh", "take_down.sh"):
            shutil.copy(E2E / name, self.root / "e2e")
        self.write("e2e/cluster", f"#!/bin/bash\n{cluster}\n")
        self.write("suite", "trap 'take_down /c; echo removed' EXIT; trap 'exit 130' INT TERM; work=.\n"
                            "source e2e/checks.sh; check one true; print_counts")
        return subprocess.run(["bash", "-u", "suite"], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True)

    def test_a_suite_whose_cluster_stays_fails(self):
        done = self.suite('[[ "$*" == "down --dir /c" ]] && echo "it is stuck"; exit 1')
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.endswith(
            "1 passed, 0 failed\nsuite: the cluster in /c could not be taken down:\nit is stuck\n"), done.stdout)

    def test_signals_do_not_interrupt_the_end_of_a_suite(self):
        done = self.suite("kill -TERM 0; kill -INT 0; sleep 0.2")  # to its process group
        self.assertEqual((done.returncode, done.stdout.splitlines()[1:]), (0, ["1 passed, 0 failed", "removed"]))

    def test_every_suite_ends_so(self):
        tells = "demo.sh", "cluster_test.sh"  # these count or report a `down` that fails themselves
        for suite in E2E.glob("*.sh"):
            if suite.name not in (*tells, "take_down.sh"):
                self.assertEqual(re.findall(r"(?m)^[^#\n]*\bdown --dir.*", suite.read_text()), [], suite.name)

    def ends_with_its_cluster(self, *command):
        """Starts the program, and ends it by two signals. The second one comes while the program takes the cluster down."""
        process = subprocess.Popen(
            command, cwd=self.root, env=os.environ | {"TMPDIR": str(self.root)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        for name in ("begun", "ending"):
            until = time.monotonic() + 60
            while not (self.root / name).exists() and time.monotonic() < until:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
        (self.root / "may-end").touch()
        output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 143, output)
        self.assertTrue((self.root / "down").exists(), output)

    def test_scenarios_end_with_their_cluster(self):
        self.write("program", SCENARIOS)
        self.ends_with_its_cluster(sys.executable, "program", str(E2E / "scenarios"))

    def test_docs_end_with_their_cluster(self):
        shutil.copy(E2E / "docs.py", self.root / "e2e")
        self.write("docs/install.md", "```sh at-the-end\ntouch ending; until [ -e may-end ]; do sleep 0.02; done; touch down\n```\n")
        self.write("README.md", "```sh\ntouch begun; exec sleep 300\n```\n")
        self.ends_with_its_cluster(sys.executable, "e2e/docs.py")


class EarlierImage(unittest.TestCase):
    """tools/make-earlier-image, in a repository with three commits and with a cmake that does nothing."""

    def test_takes_the_newest_release_also_after_it_was_killed(self):
        with tempfile.TemporaryDirectory() as text:
            root = Path(text)
            for folder in ("tools", "bin", "install/base"):
                (root / folder).mkdir(parents=True)
            shutil.copy(E2E.parent / "tools" / "make-earlier-image", root / "tools")
            (root / "install/base/controller.yaml").write_text("image: berth:1\n")
            (root / "tools/make-image").write_text("#!/bin/sh\necho $BERTH_COMMIT >>commits\n")
            (root / "bin/cmake").write_text("#!/bin/sh\n")
            for program in ("tools/make-image", "bin/cmake"):
                (root / program).chmod(0o755)

            def run(*command):
                environment = os.environ | {"PATH": f"{root}/bin:{os.environ['PATH']}"}
                return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout

            run("git", "init", "--quiet")
            for tag in ("v1", "note", "head"):
                run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", tag)
                run("git", "tag", tag)
            release = run("git", "rev-parse", "v1")
            run("tools/make-earlier-image")
            (root / ".git/worktrees/tree/index.lock").touch()  # as git leaves it if it is killed
            (root / ".git/worktrees/tree/locked").touch()
            run("tools/make-earlier-image")
            self.assertEqual((root / "commits").read_text(), release * 2)


class CutAnswer:
    """A cluster of one node. The second list of pods is cut."""

    def __init__(self, folder):
        self.nodes = [mock.Mock(home=Path(folder))]
        self.nodes[0].name = "n1"
        self.asked = 0

    def pods(self):
        self.asked += 1
        return json.loads("[]" if self.asked < 2 else "[")

    def kubectl(self, *_):
        return ""


class Threads(unittest.TestCase):
    """Errors in the threads of scenarios."""

    def test_churn_that_ended_early_fails(self):
        cluster = CutAnswer("")
        with self.assertRaisesRegex(Failure, "JSONDecodeError"), steps.Steps(cluster).churn():  # type: ignore[arg-type]
            until = time.monotonic() + 60
            while cluster.asked < 2 and time.monotonic() < until:
                time.sleep(0.02)

    def test_callers_that_ended_early_fail(self):
        answer = subprocess.CompletedProcess("berth", 1, stdout='{"code": 7, "msg": "a plu', stderr="")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "cni-conf").mkdir()
            Path(folder, "cni-conf", "a.conflist").write_text('{"cniVersion": "1.1.0", "plugins": [{"ipam": {}}]}')
            for what, said in (({"return_value": answer}, "ADD on n1: JSONDecodeError"),
                               ({"side_effect": subprocess.TimeoutExpired("berth", 120)}, "ADD on n1: TimeoutExpired"),
                               ({"side_effect": OSError("no memory")}, "OSError")):
                callers = calls.Callers(CutAnswer(folder))  # type: ignore[arg-type]
                with mock.patch("calls.subprocess.run", **what) as run, callers:
                    until = time.monotonic() + 60
                    while not run.called and time.monotonic() < until:
                        time.sleep(0.02)
                self.assertEqual(run.call_args.kwargs["timeout"], calls.GIVE_UP_SECONDS)
                with self.assertRaisesRegex(Failure, said):
                    callers.p99()


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
