#!/usr/bin/env python3
# A test of docs/: troubleshooting.md contains exactly the CNI errors, conditions, events and findings of berthctl check
# that the code can show to people, and the alerts of install/alerts.yaml; simulation.md contains a table of exactly the
# plants in sim/; and the code has the log lines that documents quote. It runs in ctest as "docs".
#
#   tools/docs_test.py            runs the test; the last line is "N passed, N failed"
#   tools/docs_test.py --list     prints the messages of the code as rows of the document's table
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"
# Folders whose errors a CNI answer can contain. Errors of other folders appear in logs.
CNI_FOLDERS = ("agent", "agent_core", "cni", "cni-plugin", "ipam", "json", "k8sclient", "node")
# Files in these folders whose errors no CNI answer contains: a model for tests, installing programs, leader election, and
# retiring an agent.
NO_CNI_FILES = ("model_block_store.cc", "host_install.cc", "leader_election.cc", "agent_retiring.cc")


def code_of(path: Path) -> str:
    return re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)


def sources(folders: tuple) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.cc")) + sorted((ROOT / folder).glob("*.h")):
            if not re.search(r"_test\.cc$|test_|testing", path.name):
                yield path


def arguments(text: str, start: int) -> list[str]:
    """The arguments of a C++ call. `start` is the position after the opening parenthesis."""
    depth, current, in_string, at = 0, "", False, start
    found: list[str] = []
    while at < len(text):
        c = text[at]
        if in_string:
            if c == "\\":
                current += c
                at += 1
                c = text[at]
            elif c == '"':
                in_string = False
        elif c == '"':
            in_string = True
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                return [*found, current]
            depth -= 1
        elif c == "," and depth == 0:
            found.append(current)
            current, c = "", ""
        current += c
        at += 1
    return [*found, current]


def pattern(expression: str) -> str:
    """The literals of a C++ expression, with … for its values."""
    text = ""
    for part in re.findall(r'"(?:[^"\\]|\\.)*"|[^"]+', expression):
        if part.startswith('"'):
            text += part[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        elif re.sub(r"[\s+]|std::string\(|\)", "", part):
            text += "…"
    return re.sub("…+", "…", text)


def says_something(text: str) -> bool:
    """Whether a message has words of its own, and does not only join other messages."""
    return len(re.findall(r"[a-z]{2,}", text)) >= 2


def cni_codes() -> dict[str, str]:
    """The CNI code of each name of ErrorCode, from base/error.cc."""
    text = code_of(ROOT / "base" / "error.cc")
    constants = dict(re.findall(r"constexpr std::uint32_t (k\w+) = (\d+);", text))
    body = text[text.index("CniCode(ErrorCode code) {") : text.index("std::string_view ToString(ErrorCode")]
    codes: dict[str, str] = {}
    waiting: list[str] = []
    for name, value in re.findall(r"case ErrorCode::(k\w+):|return (\w+);", body):
        if name:
            waiting.append(name)
        else:
            codes |= {one: constants.get(value, value) for one in waiting}
            waiting = []
    return codes


def cni_messages() -> dict[str, tuple[str, str, str]]:
    """Message pattern -> (CNI code, remedy, file)."""
    codes = cni_codes()
    found = {}
    for path in sources(CNI_FOLDERS):
        if path.name in NO_CNI_FILES:
            continue
        text = code_of(path)
        for call in re.finditer(r"\bFail\(\s*(?:ipam::)?ErrorCode::(k\w+),", text):
            parts = arguments(text, call.end())
            message = pattern(parts[0])
            if says_something(message):
                found[message] = (codes[call[1]], pattern(parts[1]) if len(parts) > 1 else "", str(path.relative_to(ROOT)))
    return found


def reasons() -> set[str]:
    """The reasons of conditions and events: literals in `.reason = ...` and in arguments of helpers."""
    found = set()
    for path in sources(("reconciler",)):
        text = code_of(path)
        for assignment in re.finditer(r"\.reason = ", text):
            found |= set(re.findall(r'"([A-Z][A-Za-z]+)"', arguments(text, assignment.end())[0]))
        found |= set(re.findall(r'not_ready\(\s*"([A-Z][A-Za-z]+)"', text))
        found |= set(re.findall(r'\{"spec\.\w+", "([A-Z][A-Za-z]+)"\}', text))
    return found


def alerts() -> set[str]:
    return set(re.findall(r"^ *- alert: (\w+)$", (ROOT / "install" / "alerts.yaml").read_text(), flags=re.M))


def findings() -> set[str]:
    text = code_of(ROOT / "cli" / "check.cc") + code_of(ROOT / "cli" / "netns.cc")
    return set(re.findall(r'(?:\.kind = |\bAbout\(\s*use,\s*|\badd\()"([a-z-]+)"', text))


def condition_types() -> set[str]:
    found = set()
    for path in (ROOT / "crds" / "names.h", *sorted((ROOT / "reconciler").glob("*.h"))):
        found |= set(re.findall(r'k\w+Condition = "([A-Z][A-Za-z]+)"', code_of(path)))
    return found


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, up to the next heading of its level."""
    level = heading.split(" ")[0]
    start = page.index(f"\n{heading}\n")
    end = re.search(rf"^#{{1,{len(level)}}} ", page[start + len(heading) + 2 :], re.M)
    part = page[start : start + len(heading) + 2 + end.start() if end else len(page)]
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in part.split("\n")
        if line.startswith("|") and not re.match(r"\|[-| ]+\|$", line)
    ]


def quoted(cells: list[str]) -> set[str]:
    return {text for cell in cells for text in re.findall(r"``? ?(.+?) ?``?(?=[^`]|$)", cell)}


def plants() -> set[str]:
    return {name for source in (ROOT / "sim").glob("*plants*.cc")
            for name in re.findall(r'\.name = "([a-z0-9-]+)"', code_of(source))}


def unknown_log_lines() -> list[str]:
    """Texts that docs/ quotes after "logs" or "a log says", and that no string of the code contains. The test compares the text
    before the first number, field (name=) or "..."."""
    folders = (*CNI_FOLDERS, "base", "crds", "extender", "http", "reconciler")
    code = "".join(re.sub(r'"\s*\n\s*"', "", code_of(path)) for path in sources(folders))
    wrong = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for match in re.finditer(r"\blogs?(?: says)?((?:(?:,| and| or)?\s+`[^`]+`)+)", page.read_text()):
            for text in re.findall(r"`([^`]+)`", match[1]):
                wanted = re.split(r" (?:\w+=|\d|\.\.\.)", " ".join(text.split()))[0]
                if wanted not in code:
                    wrong.append(f"docs/{page.name} quotes the log line {text!r}, which the code does not have: correct it")
    return wrong


def compare(what: str, code: set, page: set, where: dict | None = None, file: str = PAGE.name) -> list[str]:
    lines = [f"docs/{file} has no {what} {one!r}{' of ' + where[one] if where else ''}: add a row"
             for one in sorted(code - page)]
    return lines + [f"docs/{file} has the {what} {one!r}, which the code does not know: correct or remove it"
                    for one in sorted(page - code)]


def main() -> int:
    messages = cni_messages()
    if "--list" in sys.argv:
        for message, (code, remedy, file) in sorted(messages.items(), key=lambda item: (int(item[1][0]), item[1][2], item[0])):
            print(f"| {code} | `{message}` | {remedy} | {file}")
        return 0
    page = PAGE.read_text()
    all_messages = rows(page, "## All messages of CNI errors")
    results = [
        compare("CNI code", set(cni_codes().values()), {row[0] for row in rows(page, "## CNI error codes")[1:]}),
        compare("message", set(messages), set().union(*(quoted(row[:1]) for row in all_messages[1:])),
                {message: told[2] for message, told in messages.items()}),
        compare("reason", reasons(),
                set().union(*(quoted(row[1:2]) for row in rows(page, "## Conditions of a pool")[1:]),
                            *(quoted(row[:1]) for row in rows(page, "## Events")[1:]))),
        compare("condition", condition_types(), set().union(*(quoted(row[:1]) for row in rows(page, "## Conditions of a pool")[1:]))),
        compare("alert", alerts(), set().union(*(quoted(row[:1]) for row in rows(page, "## Alerts")[1:]))),
        compare("finding", findings(), set().union(*(quoted(row[:1]) for row in rows(page, "## What berthctl check finds")[1:]))),
        [f"the row {row} has no remedy" for row in all_messages[1:] if len(row) < 2 or not row[-1]],
        compare("plant", plants(),
                set().union(*(quoted(row[:1]) for row in rows((ROOT / "docs" / "simulation.md").read_text(),
                                                              "## Would it find a defect?")[1:])),
                file="simulation.md"),
        unknown_log_lines(),
    ]
    for line in (line for lines in results for line in lines):
        print(line)
    failed = sum(1 for lines in results if lines)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
