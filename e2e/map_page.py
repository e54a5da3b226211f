#!/usr/bin/env python3
# Opens the page of "berthctl show map --html" in Chromium (tools/setup.sh browser), and checks what a person sees.
#
#   e2e/map_page.py PAGE                    last line: "N passed, N failed"
#   e2e/map_page.py PAGE --picture FILE     also writes a picture of the page
#
# The page is in a frame as wide as a phone. A script in the outer page measures the frame.
import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PHONE_WIDTH = 390  # CSS pixels
STATES = ("free", "held", "orphan", "standby", "cooling", "reserved", "none")
LIMIT_S = 60

MEASURE = """
function luminance(colour) {
  const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function measure() {
  const page = document.getElementById('phone').contentDocument;
  const of = (root, what) => Array.from(root.querySelectorAll(what));
  const view = page.defaultView;
  const states = {};
  for (const key of of(page, '.legend .key')) {
    const style = view.getComputedStyle(key);
    const [light, dark] = [luminance(style.color), luminance(style.backgroundColor)].sort((a, b) => b - a);
    states[key.className.split(' ')[1]] = {character: key.textContent, colour: style.backgroundColor,
      contrast: (light + 0.05) / (dark + 0.05)};
  }
  const links = of(page, '.map a');
  document.getElementById('result').textContent = JSON.stringify({
    width: page.documentElement.scrollWidth,
    cells: of(page, '.map > *').length,
    cellsInView: of(page, '.map > *').every(c => c.getBoundingClientRect().right <= view.innerWidth),
    smallestCell: Math.min(...of(page, '.map > *').map(c => c.getBoundingClientRect().width)),
    untitled: of(page, '.map > *').filter(c => !c.title).length,
    links: links.length,
    deadLinks: links.filter(a => !page.getElementById(a.getAttribute('href').slice(1))).length,
    rows: of(page, 'tr[id]').length,
    seen: [...new Set(of(page, '.map > *').map(c => c.className))],
    loads: view.performance.getEntriesByType('resource').length,
    states,
  });
}
"""


def chromium(*arguments: str) -> str:
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
             "--virtual-time-budget=5000", *arguments],
            capture_output=True, text=True, timeout=LIMIT_S, check=True,
        )
    return done.stdout


def measured(page: str) -> dict:
    around = (
        f"<!doctype html><meta charset=utf-8><script>{MEASURE}</script><iframe id=phone width={PHONE_WIDTH} height=844"
        f' style="border: 0" onload="measure()" srcdoc="{html.escape(page)}"></iframe><pre id=result></pre>'
    )
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(around)
        file.flush()
        text = chromium("--dump-dom", f"file://{file.name}")
    if not (result := re.search(r'<pre id="result">(.*?)</pre>', text, re.S)):
        raise ValueError(f"the browser printed no result: {text[:1000]}")
    return json.loads(html.unescape(result[1]))


def main() -> int:
    path = Path(sys.argv[1]).resolve()
    page = path.read_text()
    seen = measured(page)
    states = seen["states"]
    checks = {
        "a phone shows it without scrolling sideways": seen["width"] <= PHONE_WIDTH and seen["cellsInView"],
        "an address is large enough for a finger's width of 18 pixels": seen["smallestCell"] >= 18,
        "every address says on hover what it is": seen["cells"] > 0 and seen["untitled"] == 0,
        "every entry leads to its row": seen["links"] > 0 and seen["deadLinks"] == 0 and seen["rows"] == seen["links"],
        "the legend has every state": set(states) == set(STATES) and set(seen["seen"]) <= set(STATES),
        "each state has a character of its own": len({s["character"] for s in states.values()}) == len(STATES),
        "characters stand out from their colour (contrast 4.5)": all(
            s["contrast"] >= 4.5 for name, s in states.items() if name != "none"
        ),
        "it loads nothing": seen["loads"] == 0,
    }
    for name, holds in checks.items():
        print(f"  {'ok   ' if holds else 'FAIL '} {name}")
    if not all(checks.values()):
        print(json.dumps(seen, indent=1))
    if "--picture" in sys.argv:
        chromium("--window-size=1020,720", f"--screenshot={sys.argv[sys.argv.index('--picture') + 1]}", f"file://{path}")
    failed = list(checks.values()).count(False)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
