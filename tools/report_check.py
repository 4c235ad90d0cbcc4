#!/usr/bin/env python3
"""Opens a report in headless Chromium, takes pictures of it and fails on any error of its scripts or load from elsewhere.

    report_check.py REPORT.html OUT_DIR

Writes OUT_DIR/{desktop,phone}-{light,dark}.png of the whole page, {hover-timeline,hover-bars,all}-{desktop,phone}.png and
print.pdf. Needs Chromium and Python, nothing else: it speaks the DevTools protocol through a pipe. $CHROMIUM names another
binary.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
]
SCREENS = {"desktop": (1280, 900, 1, False), "phone": (390, 780, 2, True)}

# Errors that the eye may miss: a page wider than the screen, and text over text.
LAYOUT = """(() => {
  const found = [];
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) found.push(`the page is ${wide} px wider than the screen`);
  for (const drawing of document.querySelectorAll('.figure svg')) {
    const boxes = [...drawing.querySelectorAll('text')].map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
    boxes.forEach((a, place) => boxes.slice(place + 1).forEach((b) => {
      const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (across > 1 && down > 4) found.push(`${a.text} is over ${b.text}`);
    }));
  }
  return found;
})()"""

# The mark of a figure that is farthest to the right, and whether the tooltip lies within the window.
MARKS = {
    "timeline": """(() => { const figure = document.getElementById('timeline').getBoundingClientRect();
        const marks = [...document.querySelectorAll('#timeline path')].map((path) => path.getBoundingClientRect());
        const last = marks.filter((box) => box.width > 0).sort((a, b) => b.right - a.right)[0];
        return last === undefined ? null : [Math.min(last.right, figure.right) - 3, last.top + last.height / 2]; })()""",
    "bars": """(() => { const bars = document.querySelectorAll('.bar .hit'); if (bars.length === 0) return null;
        const box = bars[bars.length - 1].getBoundingClientRect(); return [box.right - 4, box.bottom - 4]; })()""",
}
TOOLTIP = """(() => { const box = document.getElementById('tooltip').getBoundingClientRect();
    return box.width === 0 ? 'no tooltip' : box.left < 0 || box.top < 0 || box.right > innerWidth || box.bottom > innerHeight
        ? 'the tooltip leaves the window' : ''; })()"""

SHOW_ALL = """document.getElementById('timeline').scrollIntoView({ block: 'center' });
    document.getElementById('timeline').dispatchEvent(new KeyboardEvent('keydown', { key: '0' }))"""

# Presses each heading twice: it must say how it sorts, and turn round.
SORTS = """[...document.querySelectorAll('th')].flatMap((heading) => {
    const directions = [0, 1].map(() => { heading.firstChild.click(); return heading.getAttribute('aria-sort'); });
    return directions.toSorted().join() === 'ascending,descending' ? [] : [`${heading.textContent} sorts ${directions}`];
})"""


class Browser:
    """A Chromium and one page of it."""

    def __init__(self, profile_dir):
        read_commands, self.commands = os.pipe()
        self.replies, write_replies = os.pipe()
        binary = os.environ.get("CHROMIUM", "chromium")
        # Chromium reads commands from descriptor 3 and writes replies to 4.
        shell = f'exec "$0" "$@" 3<&{read_commands} 4>&{write_replies}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, binary, *FLAGS, f"--user-data-dir={profile_dir}", "about:blank"],
            pass_fds=[read_commands, write_replies], stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_replies)
        self.buffer, self.number, self.session, self.problems = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.replies, 1 << 16)
            if not chunk:
                raise SystemExit("Chromium has gone")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while (message := self.read()).get("id") != self.number:
            self.note(message)
        if "error" in message:
            raise SystemExit(f"{method}: {message['error']['message']}")
        return message["result"]

    def note(self, event):
        """Keeps events that should not be."""
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert", "warning"):
            self.problems.append(f"console: {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "about:")):
            self.problems.append(f"loads {params['request']['url'][:100]}")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def settle(self):
        """Waits until two frames are drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))")

    def picture(self, path, whole=False):
        """The window, or all of the page."""
        params = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        shot = self.call("Page.captureScreenshot", **params)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()


def check(report, folder):
    """All that is wrong with a report."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile_dir:
        browser = Browser(profile_dir)
        try:
            for screen, (width, height, scale, mobile) in SCREENS.items():
                metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile}
                browser.call("Emulation.setDeviceMetricsOverride", **metrics)
                browser.call("Emulation.setTouchEmulationEnabled", enabled=mobile)
                for theme in ["light", "dark"]:
                    feature = {"name": "prefers-color-scheme", "value": theme}
                    browser.call("Emulation.setEmulatedMedia", features=[feature])
                    browser.call("Page.navigate", url=report.resolve().as_uri())
                    time.sleep(0.5)
                    browser.settle()
                    browser.picture(folder / f"{screen}-{theme}.png", whole=True)
                    browser.problems += [f"{screen}: {problem}" for problem in browser.evaluate(LAYOUT)]
                hover(browser, screen, mobile, folder)
                browser.evaluate(SHOW_ALL)
                browser.settle()
                browser.picture(folder / f"all-{screen}.png")
                browser.problems += browser.evaluate(SORTS)
            width, height, _, _ = SCREENS["desktop"]
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            browser.settle()
            pdf = browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
            (folder / "print.pdf").write_bytes(base64.b64decode(pdf["data"]))
        finally:
            browser.close()
    return browser.problems


def hover(browser, screen, mobile, folder):
    """Points at the marks closest to the right edge."""
    for figure, mark in MARKS.items():
        browser.evaluate(f"document.getElementById('{figure}').scrollIntoView({{ block: 'end' }})")
        browser.settle()
        at = browser.evaluate(mark)
        if at is None or browser.evaluate(f"document.getElementById('{figure}').hidden"):
            continue
        point = {"x": at[0], "y": at[1]}
        if mobile:
            browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
            browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        else:
            browser.call("Input.dispatchMouseEvent", type="mouseMoved", **point)
        browser.settle()
        browser.picture(folder / f"hover-{figure}-{screen}.png")
        if problem := browser.evaluate(TOOLTIP):
            browser.problems.append(f"{screen}, {figure}: {problem}")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    problems = check(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    for problem in problems:
        print(problem, file=sys.stderr)
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
