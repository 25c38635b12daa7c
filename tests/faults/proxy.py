"""A network that fails: a TCP proxy before one server, whose connections end badly when it is told to be faulty."""

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

FAULTS = ("reset", "torn", "stall", "swallow")
"""Reset: both sides are told at once. Torn: half of what came last goes through, then the line ends. Stall: nothing
goes through for a while, then all of it. Swallow: what comes is taken and never arrives: half-open for each side."""

STALL = 0.5


class Proxy:
    """Connections to the server at `url`; while `faulty`, each meets one of FAULTS after some tenths of a second."""

    def __init__(self, url: str, chance: random.Random) -> None:
        at = urlsplit(url)
        self._host, self._port = at.hostname, at.port
        self._chance = chance
        self.faulty = False
        self.met: Counter[str] = Counter()
        """How often each fault has been met with bytes under way."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Take connections while the block lasts, at this URL."""
        tasks: set[asyncio.Task[None]] = set()

        def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._pass(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(taken, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        try:
            theirs, ours = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(self._chance.choice(FAULTS), asyncio.get_running_loop().time() + self._chance.uniform(0.05, 0.6))
        copies = [asyncio.create_task(self._copy(line, *ends)) for ends in ((reader, ours), (theirs, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            for end in (writer, ours):
                end.close() if line.fault == "torn" else _reset(end)
            await asyncio.gather(writer.wait_closed(), ours.wait_closed(), return_exceptions=True)

    async def _copy(self, line: "_Line", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.faulty and not line.met and asyncio.get_running_loop().time() > line.ends:
                    line.met = True
                    self.met[line.fault] += 1
                    match line.fault:
                        case "reset":
                            return
                        case "torn":
                            writer.write(data[: len(data) // 2])
                            return
                        case "stall":
                            await asyncio.sleep(STALL)
                if line.met and line.fault == "swallow":
                    continue
                writer.write(data)
                await writer.drain()
        if line.met and line.fault == "swallow":
            await asyncio.sleep(3600)  # not even that one side has gone is passed on


class _Line:
    """What is to befall one connection, when, and whether it has."""

    def __init__(self, fault: str, ends: float) -> None:
        self.fault, self.ends, self.met = fault, ends, False


def _reset(writer: asyncio.StreamWriter) -> None:
    """Away with it, and the other side is told by a RST."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
