# SPDX-License-Identifier: Apache-2.0
"""Drives headless Chromium by its DevTools protocol over a pipe: page.py BROWSER URL FOLDER [SCREENSHOTS]."""
import base64, json, os, select, signal, subprocess, sys, time, urllib.error, urllib.request

browser, url, folder = sys.argv[1:4]
shots = sys.argv[4] if len(sys.argv) > 4 else ""
token = os.environ["HONE_TOKEN"]
LIMIT_S = 90
good = bad = 0


def check(what, is_so):
    global good, bad
    good, bad = good + bool(is_so), bad + (not is_so)
    if not is_so:
        print("page: not so:", what)


class Browser:
    def __init__(self):
        to, self.write = os.pipe()
        self.read, back = os.pipe()
        self.rest, self.events, self.n = b"", [], 0

        def pipes():  # Chromium reads from 3 and writes to 4
            a, z = os.dup(to), os.dup(back)
            os.dup2(a, 3)
            os.dup2(z, 4)

        self.child = subprocess.Popen(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir=" + folder + "/chromium",
             "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env=dict(os.environ, HOME=folder))
        os.close(to)
        os.close(back)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def message(self, end):
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise TimeoutError("the browser says nothing")
            more = os.read(self.read, 1 << 16)
            if not more:
                raise EOFError("the browser is gone")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def ask(self, method, **params):
        self.n += 1
        m = {"id": self.n, "method": method, "params": params}
        if getattr(self, "session", None):
            m["sessionId"] = self.session
        os.write(self.write, json.dumps(m).encode() + b"\0")
        end = time.monotonic() + LIMIT_S
        while True:
            got = self.message(end)
            if got.get("id") == self.n:
                if "error" in got:
                    raise RuntimeError(method + ": " + got["error"]["message"])
                return got["result"]
            self.events.append(got)

    def wait(self, event):
        end = time.monotonic() + LIMIT_S
        while True:
            for i, got in enumerate(self.events):
                if got.get("method") == event:
                    return self.events.pop(i)
            self.events.append(self.message(end))

    def forget(self, event):
        self.events = [e for e in self.events if e.get("method") != event]

    def go(self, path):
        self.load(url + path)

    def load(self, address):
        self.forget("Page.loadEventFired")
        self.ask("Page.navigate", url=address)
        self.wait("Page.loadEventFired")

    def js(self, text):
        got = self.ask("Runtime.evaluate", expression=text, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(text + ": " + json.dumps(got["exceptionDetails"]))
        return got["result"].get("value")

    def do(self, text):
        """A script that leads to another page."""
        self.forget("Page.loadEventFired")
        self.js(text)
        self.wait("Page.loadEventFired")

    def size(self, width, height, scheme="light"):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shot(self, name):
        if not shots:
            return
        got = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(os.path.join(shots, name + ".png"), "wb") as f:
            f.write(base64.b64decode(got["data"]))

    def close(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()


def api(path):
    with urllib.request.urlopen(url + path, timeout=LIMIT_S) as r:
        return json.load(r)


WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WHOLE = """[...document.querySelectorAll('td.n')].every(t => { const r = document.createRange();
    t.lastChild.textContent = '123,456,789'; r.selectNodeContents(t.lastChild); return r.getClientRects().length == 1; })"""
VALUED = """[...document.querySelectorAll('td')].every(t => t.textContent || !t.getClientRects().length)"""
DRAWN = """[...document.querySelectorAll('figure svg')].filter(s => { const r = s.getBoundingClientRect();
    return r.width > 100 && r.height > 50 && s.querySelectorAll('path,rect').length > 2; }).length"""


def look(b):
    boards, cls = api("/v1/api/boards"), api("/v1/api/classes")["classes"][0]["class"]
    struck = [k["id"] for k in boards["boards"] if k["state"] == "struck out"]
    check("a board that lied is struck out", len(struck) == 1)
    b.size(1280, 900)
    b.go("/")
    check("its title", "hone-fleet" in b.js("document.title"))
    check("three charts are drawn", b.js(DRAWN) == 3)
    check("its style is there", b.js("getComputedStyle(document.querySelector('.tile')).borderRadius") == "8px")
    check("tiles show the boards", str(boards["total"]) in b.js("document.querySelector('.tile b').textContent"))
    b.shot("page-1280")
    paths = ["/", "/page/class/" + cls, "/page/boards", "/page/board/" + struck[0], "/page/rejects", "/page/records",
             "/page/log", "/page/sign-in"]
    for scheme in ("light", "dark"):
        b.size(360, 740, scheme)
        for path in paths:
            b.go(path)
            check("no horizontal scroll of %s at 360 px (%s)" % (path, scheme), b.js(WIDE) <= 0)
            if path == "/page/boards":
                check("numbers of nine digits stay whole at 360 px (%s)" % scheme, b.js(WHOLE) and b.js(WIDE) <= 0)
                check("no cell without a value is shown (%s)" % scheme, b.js(VALUED))
            if scheme == "light" or path == "/":
                b.shot("page-360" + ("" if path == "/" else path.split("/")[2] and "-" + path.split("/")[2]) +
                       ("" if scheme == "light" else "-dark"))
    b.size(1280, 900, "dark")
    b.go("/page/class/" + cls)
    check("a class's charts are drawn", b.js(DRAWN) == 2)
    b.shot("page-1280-class-dark")
    b.size(1280, 900)


def report(b):
    """The page of hone report, which loads nothing."""
    page = "file://" + folder + "/report.html"
    for scheme in ("light", "dark"):
        for width in (320, 360, 400, 1280):
            b.size(width, 800, scheme)
            b.load(page)
            check("no horizontal scroll of the report at %d px (%s)" % (width, scheme), b.js(WIDE) <= 0)
            check("its charts can be read at %d px" % width, b.js(
                "[...document.querySelectorAll('svg text')].every(t => !t.getClientRects().length ||"
                " t.getBoundingClientRect().height >= 9)"))
            check("one picture of each chart is shown at %d px" % width, b.js(
                "[...document.querySelectorAll('svg')].every(s => (s.getClientRects().length > 0) =="
                " (s.classList[0] == (innerWidth > 700 ? 'wide' : 'phone')))"))
            check("nothing of a chart is cut at the right at %d px" % width, b.js(
                "[...document.querySelectorAll('svg')].every(s => [...s.querySelectorAll('text')].every(t =>"
                " t.getBoundingClientRect().right <= s.getBoundingClientRect().right + 1 &&"
                " t.getBoundingClientRect().right <= innerWidth))"))
            check("its tables and charts lie in boxes at %d px" % width, b.js(
                "[...document.querySelectorAll('svg,table')].every(e => e.parentElement.className == 'scroll'"
                " && e.parentElement.getBoundingClientRect().right <= innerWidth)"))
            check("no label of a bar is cut at %d px" % width, b.js(
                "[...document.querySelectorAll('svg')].every(s => [...s.querySelectorAll('text')].every(t =>"
                " t.getBoundingClientRect().left >= s.getBoundingClientRect().left - 1))"))
            check("the time of every kernel is in sight at %d px" % width, b.js(
                "[...document.querySelectorAll('tr td:nth-child(4)')].every(t => t.getBoundingClientRect().right <="
                " innerWidth && t.getBoundingClientRect().width > 20)"))
            if width in (360, 1280):
                b.shot("report-%d%s" % (width, "" if scheme == "light" else "-dark"))


APART = """[...document.querySelectorAll('svg')].every(s => { const r = [...s.querySelectorAll('text')].map(t =>
    t.getBoundingClientRect()).filter(r => r.width); return r.every((a, i) => r.every((z, k) => k <= i ||
    a.right <= z.left || z.right <= a.left || a.bottom - 3 <= z.top || z.bottom - 3 <= a.top)); })"""


def charts(b):
    """Rooflines whose slopes are close to each other (tests/tools/hone/test_chart.c)."""
    for width in (390, 1280):
        b.size(width, 800)
        b.load("file://" + folder + "/charts.html")
        check("there are charts", b.js("document.querySelectorAll('svg .name').length") > 100)
        check("no text of a roofline covers another one at %d px" % width, b.js(APART))
        check("no horizontal scroll of the charts at %d px" % width, b.js(WIDE) <= 0)
        b.shot("charts-%d" % width)


def order(b):
    b.go("/")
    check("the rollout goes on", not api("/v1/api/overview")["stopped"])
    b.do("document.querySelector('form[action=\"/page/do/stop\"] [name=token]').value = 'guess';"
         "document.querySelector('button.stop').click()")
    check("a guess is refused", "Refused" in b.js("document.body.textContent") and not api("/v1/api/overview")["stopped"])
    b.go("/page/sign-in")
    b.do("document.querySelector('[name=token]').value = '%s'; document.querySelector('main button').click()" % token)
    check("signed in, at the first page", "Sign out" in b.js("document.body.textContent"))
    check("no token is asked for", not b.js("!!document.querySelector('[type=password]')"))
    b.do("document.querySelector('button.stop').click()")
    check("the page says that it is stopped", "Rollout: stopped" in b.js("document.body.textContent"))
    check("so does the API", api("/v1/api/overview")["stopped"])
    b.shot("page-1280-stopped")
    log = api("/v1/api/log")["log"]
    check("the log has it, and the guess", log[0]["what"] == "stop" or "stop" in [e["what"] for e in log])
    end = time.monotonic() + LIMIT_S  # hone-fleet stores refusals every second
    while time.monotonic() < end and not any(e["outcome"] == "refused" for e in api("/v1/api/log")["log"]):
        time.sleep(0.2)
    check("the guess is in the log", any(e["outcome"] == "refused" for e in api("/v1/api/log")["log"]))
    b.go("/page/log")
    check("the log is shown", "stop" in b.js("document.querySelector('main table').textContent"))
    b.go("/")
    b.do("document.querySelector('button.go-on').click()")
    check("it goes on", not api("/v1/api/overview")["stopped"])
    board = api("/v1/api/boards?state=good")["boards"][0]["id"]
    b.go("/page/board/" + board)
    b.do("document.querySelector('[name=why]').value = 'it <b>lies</b>'; document.querySelector('button.revoke').click()")
    check("the board is revoked", api("/v1/api/boards/" + board)["state"] == "revoked")
    check("and its page says why", "it <b>lies</b>" in b.js("document.querySelector('dl').textContent"))
    b.do("document.querySelector('header button').click()")
    check("signed out", "Sign in" in b.js("document.querySelector('header').textContent"))


def console(b):
    """What the browser complained of; a refused order is answered with 403, which it calls an error."""
    said = []
    for e in b.events:
        p = e.get("params", {})
        if e.get("method") == "Runtime.exceptionThrown":
            said.append(json.dumps(p))
        elif e.get("method") == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning"):
            said.append(json.dumps(p))
        elif e.get("method") == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            if not p["entry"].get("url", "").endswith("/page/do/stop"):
                said.append(p["entry"]["text"] + " " + p["entry"].get("url", ""))
    for line in said:
        print("page: console:", line)
    check("no console error", not said)
    asked = [e["params"]["request"]["url"] for e in b.events if e.get("method") == "Network.requestWillBeSent"]
    check("nothing was asked of another server",
          asked and all(u.startswith(url) or u.startswith("data:") or u == "about:blank" or
                        u in ("file://" + folder + "/report.html", "file://" + folder + "/charts.html")
                        for u in asked))


b = None
try:
    b = Browser()
    look(b)
    report(b)
    charts(b)
    order(b)
    console(b)
except (OSError, RuntimeError, KeyError, IndexError, TypeError, EOFError, urllib.error.URLError) as e:
    check("the browser could be driven: %s: %s" % (type(e).__name__, e), False)
finally:
    if b:
        b.close()
print("%d passed, %d failed, 0 skipped" % (good, bad))
sys.exit(bad != 0)
