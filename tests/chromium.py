"""A page in headless Chromium, driven by DevTools' protocol: what it says, clicks, errors.

Chromium is Debian's package ``chromium``; nothing else is needed, as aiohttp speaks WebSocket.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.browser import BROWSER

_TIMEOUT_S = 60.0
_LOADED = "document.readyState === 'complete'"


class Tab:
    """A page that is open.  ``errors`` has what went wrong in it, as its console says."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One of DevTools' methods."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(timeout=_TIMEOUT_S)).data)
            self._note(message)
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    async def open(self, url: str, width: int = 1280, height: int = 1400) -> None:
        """Open a page, and wait until it is loaded."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        await self.call("Page.navigate", url=url)
        await self.until(_LOADED)

    async def value(self, script: str) -> Any:
        """The value of an expression in the page."""
        given = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in given, given["exceptionDetails"]
        return given["result"].get("value")

    async def until(self, script: str, timeout_s: float = _TIMEOUT_S) -> Any:
        """Wait until an expression is true; its value."""
        async with asyncio.timeout(timeout_s):
            while not (value := await self.value(script)):
                await asyncio.sleep(0.05)
        return value

    async def click(self, script: str) -> None:
        """Click the middle of an element, as a mouse does."""
        await self.value(f"{script}.scrollIntoView({{block: 'center'}})")
        box = "(({left, top, width, height}) => [left + width / 2, top + height / 2])"
        x, y = await self.value(f"{box}({script}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    def _note(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.errors.append(json.dumps(told["entry"]))


def in_chromium(folder: Path, act: Callable[[Tab], Awaitable[None]], *, dark: bool = False) -> None:
    """Run ``act`` with a tab of a browser, whose files are in ``folder``."""
    assert BROWSER is not None
    with subprocess.Popen(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-breakpad"),
            *("--no-first-run", f"--user-data-dir={folder / 'profile'}", "--hide-scrollbars"),
            *(
                "--remote-debugging-port=0",
                f"--blink-settings=preferredColorScheme={int(not dark)}",
            ),
            "about:blank",
        ],
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as browser:
        try:
            assert browser.stderr is not None
            address = next(line for line in browser.stderr if "DevTools listening on" in line)
            asyncio.run(_act(address.split("ws://")[1].split("/")[0], act))
        finally:
            browser.kill()


async def _act(address: str, act: Callable[[Tab], Awaitable[None]]) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{address}/json/list") as answer:
            [page] = [one for one in await answer.json() if one["type"] == "page"]
        async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            tab = Tab(socket)
            for domain in ("Runtime", "Log", "Page"):
                await tab.call(f"{domain}.enable")
            await act(tab)
            assert tab.errors == []
