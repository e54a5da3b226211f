#!/usr/bin/env python3
# A test of the source text: rules of style that neither compiler nor clang-tidy knows. It runs in ctest as "tidy".
#
# Each rule gets one file (path from the root of the tree, text) and yields (line, error and remedy). EXAMPLES contains texts that
# each rule must find or must accept. MARKS tests tools/check-tidy: which changes of a clean source it checks again.
import importlib.machinery
import importlib.util
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("check_tidy", str(Path(__file__).parent / "check-tidy"))
spec = importlib.util.spec_from_loader("check_tidy", loader)
assert spec
check_tidy = importlib.util.module_from_spec(spec)
sys.modules["check_tidy"] = check_tidy
loader.exec_module(check_tidy)

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 500
CPP = (".cc", ".h")
CODE = (*CPP, ".go", ".py", ".sh")
SPDX = "SPDX-License-Identifier: Apache-2.0"

# Banned patterns: pattern, where it is banned, what to use instead, and who may use it (ends of file names, and folders).
BANNED = (
    (r"\bsystem_clock::now\b", CPP, "take the time from the clock that you are given", ("clock.cc", "clock.h", "process_runtime.cc", "model_api.cc")),
    (r"\b(sleep_for|sleep_until|usleep|sleep)\(", ("_test.cc",), "await a condition, or advance a fake clock", ("sim/api_server_test.cc", "sim/kube_scheduler_test.cc", "sim/power_cut_test.cc", "sim/scheduler_test.cc", "sim/sender_test.cc")),
    (r"(?<![\w:.>])(std::)?s?rand\(", CPP, "take random numbers from the source that you are given", ()),
    (r"(?<!\w)assert\(", CPP, "BERTH_CHECK, which is on in release builds too", ("check.h",)),
    (r"(?<!\w)(setenv|putenv|unsetenv)\(", CPP, "pass the value: getenv is safe only where nothing changes", ("_test.cc",)),
    (r"\bstd::(mutex|scoped_lock|lock_guard|unique_lock|shared_mutex|recursive_mutex)\b", CPP, "Mutex and Lock of base/mutex.h, which clang checks", ("base/mutex.h", "_test.cc", "_test_setup.h", "scripted_agent.h", "k8sclient/testing/", "sim/", "e2e/", "bench/")),
    (r"\bstd::cout\b", CPP, "std::fputs or std::fwrite, whose failure can be seen, or the log", ()),
)

Finding = tuple[int, str]


def without_comments(line: str) -> str:
    return re.sub(r"(^|[^:])//.*", r"\1", line)


def opens_with_its_purpose(path: str, text: str) -> Iterator[Finding]:
    lines = text.split("\n")
    if path.endswith(CPP):
        if lines[0] != f"// {SPDX}":
            yield 1, f"the first line is not: // {SPDX}"
        if not re.match(r"// \S", lines[1] if len(lines) > 1 else ""):
            yield 2, "no comment says what this file is for: lines 2 to 6, before anything else"
        if path.endswith(".h") and "#pragma once" not in lines:
            yield 1, "no #pragma once"
    elif lines[0].startswith("#!"):
        if not re.match(r"# \S", lines[1] if len(lines) > 1 else ""):
            yield 2, "no comment says what this script is for: right after the first line"
    elif path.endswith(CODE):
        if not re.match(r"(//|#|/\*|\"\"\") ?\S", lines[0]):
            yield 1, "no comment says what this file is for: at its top"


def leaves_nothing_for_later(path: str, text: str) -> Iterator[Finding]:
    words = "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"))
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.search(rf"\b({words})\b", line):
            yield number, f"{found[0]}: do it, or describe the limit in docs/"


def calls_nothing_banned(path: str, text: str) -> Iterator[Finding]:
    for pattern, endings, instead, allowed in BANNED:
        if not path.endswith(endings) or path.endswith(allowed) or path.startswith(allowed):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if found := re.search(pattern, without_comments(line)):
                yield number, f"{found[0].rstrip('(')}: {instead}"


def is_short_enough(path: str, text: str) -> Iterator[Finding]:
    count = text.count("\n")
    if path.endswith(CODE) and count > LINES_MAX:
        yield LINES_MAX, f"{count} lines, at most {LINES_MAX}: cut it by behaviour into two files"


def links_of(text: str) -> Iterator[tuple[int, str]]:
    """The targets of Markdown links to files, without their anchors."""
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if not re.match(r"[a-z]+:|#", target):
                yield number, target.split("#")[0]


def links_to_what_exists(path: str, text: str) -> Iterator[Finding]:
    if not path.endswith(".md"):
        return
    for number, target in links_of(text):
        if not (ROOT / path).parent.joinpath(target).exists():
            yield number, f"the link to {target} leads nowhere: correct or remove it"


RULES = (
    opens_with_its_purpose,
    leaves_nothing_for_later,
    calls_nothing_banned,
    is_short_enough,
    links_to_what_exists,
)


def every_page_is_linked(texts: dict[str, str]) -> Iterator[str]:
    """Finds pages of docs/ that neither README.md nor docs/README.md links, and decisions that docs/design.md does not link."""
    def linked_from(*pages: str) -> set[Path]:
        return {(ROOT / page).parent.joinpath(target).resolve() for page in pages for _, target in links_of(texts.get(page, ""))}

    of_readmes, of_design = linked_from("README.md", "docs/README.md"), linked_from("docs/design.md")
    for path in texts:
        if not path.startswith("docs/") or not path.endswith(".md") or path == "docs/README.md":
            continue
        is_decision = path.startswith("docs/adr/")
        if (ROOT / path).resolve() not in (of_design if is_decision else of_readmes):
            yield f"{path}: no link leads here: link it from {'docs/design.md' if is_decision else 'README.md or docs/README.md'}"


# The declaration of a type, a constant or a function at the left margin. A function's match contains its parameters, which
# distinguish overloads.
DECLARED = re.compile(r"^(?:struct|class|enum class|enum) \w+(?=.*\{)|^constexpr (?:\S+ )+(\w+)(?: =|\[|\{)|^[\w:][^;{}]*? (\w+\(.*\)) \{")


def sources_of_a_folder_share_their_names(texts: dict[str, str]) -> Iterator[str]:
    """Finds names that two sources, or two tests, of a folder declare: they are compiled together (cmake/BerthLibrary.cmake)."""
    seen: dict[tuple[str, bool, str], str] = {}
    for path, text in texts.items():
        if not path.endswith(".cc"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if not (found := DECLARED.match(line)) or line.startswith(("TEST", "INSTANTIATE", "MATCHER", "int main(")):
                continue
            name = (path.rpartition("/")[0], path.endswith("_test.cc"), found[1] or found[2] or found[0])
            if (other := seen.setdefault(name, path)) != path:
                yield f"{path}:{number}: {other} declares {name[2]} too: give one another name, or share it in a header"


TREE_RULES = (every_page_is_linked, sources_of_a_folder_share_their_names)

GOOD_HEADER = f"// {SPDX}\n// Purpose.\n"
# rule, path, text, number of findings
EXAMPLES = (
    (opens_with_its_purpose, "a/b.h", GOOD_HEADER + "#pragma once\n", 0),
    (opens_with_its_purpose, "a/b.h", GOOD_HEADER, 1),
    (opens_with_its_purpose, "a/b.cc", GOOD_HEADER, 0),
    (opens_with_its_purpose, "a/b.cc", "// Purpose.\n#include <map>\n", 2),
    (opens_with_its_purpose, "a/b.cc", f"// {SPDX}\n#include <map>\n", 1),
    (opens_with_its_purpose, "a/b.cc", f"// {SPDX}\n//\n// Purpose.\n", 1),
    (opens_with_its_purpose, "a/b.cc", "", 2),
    (opens_with_its_purpose, "a/run", "#!/bin/sh\n# Purpose.\n", 0),
    (opens_with_its_purpose, "a/run", "#!/bin/sh\nset -eu\n", 1),
    (opens_with_its_purpose, "a/b.go", "// Purpose.\npackage a\n", 0),
    (opens_with_its_purpose, "a/b.go", "package a\n", 1),
    (leaves_nothing_for_later, "a/b.md", "Later: TO" "DO(me) it.\n", 1),
    (leaves_nothing_for_later, "a/b.cc", "a();\n// FIX" "ME\n", 1),
    (leaves_nothing_for_later, "a/b.cc", "kTO" "DOs, mkt" "emp(XX" "XXXX)\n", 0),
    (calls_nothing_banned, "a/b.cc", "now = std::chrono::system_clock::now();\n", 1),
    (calls_nothing_banned, "a/fake_clock.h", "now = std::chrono::system_clock::now();\n", 0),
    (calls_nothing_banned, "a/b.cc", "// not system_clock::now(), because\n", 0),
    (calls_nothing_banned, "a/b_test.cc", "std::this_thread::sleep_for(1s);\n", 1),
    (calls_nothing_banned, "a/b.cc", "std::this_thread::sleep_for(1s);\n", 0),
    (calls_nothing_banned, "a/b.cc", "int a = rand() % 6;\nstd::srand(1);\n", 2),
    (calls_nothing_banned, "a/b.cc", "strand(1); random.rand(2); my::rand(3);\n", 0),
    (calls_nothing_banned, "a/b.cc", "assert(a == b);\n", 1),
    (calls_nothing_banned, "a/b.cc", 'setenv("A", "b", 1);\n', 1),
    (calls_nothing_banned, "a/b_test.cc", 'setenv("A", "b", 1);\n', 0),
    (calls_nothing_banned, "a/b.cc", "static_assert(a == b);\n", 0),
    (calls_nothing_banned, "a/b.cc", "const std::scoped_lock lock(mutex_);\n", 1),
    (calls_nothing_banned, "sim/b.cc", "const std::scoped_lock lock(mutex_);\n", 0),
    (calls_nothing_banned, "a/b.cc", 'std::cout << "https://example.org";\n', 1),
    (calls_nothing_banned, "a/b.cc", 'Say("https://example.org"); std::cout << a;\n', 1),
    (is_short_enough, "a/b.cc", "\n" * 500, 0),
    (is_short_enough, "a/b.cc", "\n" * 501, 1),
    (is_short_enough, "a/b.sum", "\n" * 501, 0),
    (links_to_what_exists, "README.md", "[x](README.md#top) [y](https://example.org) [z](#here)\n", 0),
    (links_to_what_exists, "README.md", "a\n[x](no/such/page.md)\n", 1),
)
# rule, texts, number of findings
TREE_EXAMPLES = (
    (every_page_is_linked, {"README.md": "[d](docs/a.md)", "docs/a.md": "", "docs/README.md": ""}, 0),
    (every_page_is_linked, {"README.md": "", "docs/a.md": "", "docs/README.md": "[a](a.md)"}, 0),
    (every_page_is_linked, {"README.md": "docs/a.md", "docs/a.md": ""}, 1),
    (sources_of_a_folder_share_their_names, {"a/b_test.cc": "constexpr int kA = 1;", "a/c_test.cc": "constexpr int kA = 2;"}, 1),
    (sources_of_a_folder_share_their_names, {"a/b_test.cc": "struct Case {", "a/c_test.cc": "struct Case {"}, 1),
    (sources_of_a_folder_share_their_names, {"a/b_test.cc": "int F(int a) {", "a/c_test.cc": "int F(int a) {"}, 1),
    (sources_of_a_folder_share_their_names, {"a/b_test.cc": "int F(int a) {", "a/c_test.cc": "int F(char a) {"}, 0),
    (sources_of_a_folder_share_their_names, {"a/b_test.cc": "struct Case {", "d/c_test.cc": "struct Case {"}, 0),
    (sources_of_a_folder_share_their_names, {"a/b_test.cc": "struct Case {", "a/c.cc": "struct Case {"}, 0),
)

LONG = "void F() {\n" + "  G();\n" * 68 + "}\n"
# text of a source, changed text, whether tools/check-tidy checks the changed text again
MARKS = (
    ("int a;\n", "int b;\n", True),
    ("// One.\nint a;  // Two.\n", "// Three.\n// Four.\nint a;  // Five.\n", False),
    ("int a;\n", "int a;  // One.\n  // Two.\n", False),
    ("  // It's \"odd.\nint a;\n", "int a;\n", False),
    ("// One. \\\nint b;\nint a;\n", "int a;\n", False),
    ("F(0);  // NOLINT\n", "F(0);  // One.\n", True),
    ("// NOLINTNEXTLINE(x)\nF(0);\n", "// NOLINTNEXTLINE(y)\nF(0);\n", True),
    ("// NOLINTNEXTLINE(x)\nF(0);\n", "// NOLINTNEXTLINE(x)\n// One.\nF(0);\n", True),
    ("F(/*base=*/1);\n", "F(/*size=*/1);\n", True),
    ("/* // */ int a;\n", "/* // */ int b;\n", True),
    ("// One.\n", "// \u202e.\n", True),
    ('F("//a");\n', 'F("//b");\n', True),
    (r'F("\"//a");', r'F("\"//b");', True),
    ("F('\"');  // One.\nG('\"');\n", "F('\"');\nG('\"');\n", False),
    ("F('\\'', \"//a\");\n", "F('\\'', \"//b\");\n", True),
    ("F(1'000);  // It's one.\n", "F(1'000);\n", False),
    ("F(1'000, '\"', \"//a\");\n", "F(1'000, '\"', \"//b\");\n", True),
    ("F(u8'\"', \"//a\");\n", "F(u8'\"', \"//b\");\n", True),
    ('F(R"(\n"//a\n)");\n', 'F(R"(\n"//b\n)");\n', True),
    ('F(R"x()"\n//a\n)x");\n', 'F(R"x()"\n//b\n)x");\n', True),
    ('F(R"(")");  // One.\n', 'F(R"(")");  // Two.\n', False),
    (LONG, LONG.replace("G", "  // One.\n  G", 1), False),
    (LONG, LONG.replace("G", "  // One.\n  // Two.\n  G", 1), True),
)


def are_checked_again(texts: tuple[str, str], name: str) -> bool:
    """Whether tools/check-tidy checks b.cc again when the file `name`, b.cc or its header, changes from one text to the other."""
    digests = set()
    with tempfile.TemporaryDirectory() as folder:
        for text in texts:
            (Path(folder) / "b.cc").write_text('#include "b.h"\n')
            (Path(folder) / "b.h").touch()
            (Path(folder) / name).write_text(text)
            for cache in (check_tidy.content, check_tidy.includes, check_tidy.checked_text):
                cache.cache_clear()
            digests.add(check_tidy.digest(check_tidy.Unit([f"{folder}/b.cc"], []), b""))
    return len(digests) == 2


def read_tree() -> dict[str, str]:
    texts = {}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if parts[0] == "build" or any(part.startswith(".") and part != ".ci" for part in parts) or not path.is_file():
            continue
        try:
            texts["/".join(parts)] = path.read_text()
        except UnicodeDecodeError:
            continue
    return texts


def main() -> int:
    results = []  # for each test: the lines with errors

    for rule, path, text, want in EXAMPLES:
        found = list(rule(path, text))
        results.append([] if len(found) == want else [f"{rule.__name__}({path!r}, {text[:80]!r}): {want} wanted, got {found}"])
    for tree_rule, texts, want in TREE_EXAMPLES:
        complaints = list(tree_rule(texts))
        results.append([] if len(complaints) == want else [f"{tree_rule.__name__}({texts}): {want} wanted, got {complaints}"])
    for name in ("b.cc", "b.h"):
        for before, after, want in MARKS:
            right = are_checked_again((before, after), name) == want
            results.append([] if right else [f"{before!r} -> {after!r} in {name}: checked again: {not want}, wanted {want}"])

    tree = read_tree()
    for rule in RULES:
        results.append([f"{path}:{line}: {what}" for path, text in tree.items() for line, what in rule(path, text)])
    for tree_rule in TREE_RULES:
        results.append(list(tree_rule(tree)))

    for complaint in (line for lines in results for line in lines):
        print(complaint)
    failed = sum(1 for lines in results if lines)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
