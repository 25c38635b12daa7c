"""HTTP over connections that are kept alive, with as little to it as a load of hundreds of players needs."""

import asyncio
from typing import Self
from urllib.parse import urlsplit

_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Lost(Exception):
    """There is no answer: nobody took the call, or the line was cut."""


class Silence(Lost):
    """There was no answer in time."""


class Wire:
    """All lines from here to one server; left, it hangs up."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        assert at.hostname is not None
        self.host, self.port = at.hostname, at.port
        self._idle: list[_Line] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    @property
    def idle(self) -> int:
        """Lines that wait to be used again."""
        return len(self._idle)

    async def ask(
        self, method: str, path: str, *, token: str | None = None, body: bytes = b"", patience: float
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises Lost; Silence after `patience` seconds."""
        line: _Line | None = None
        try:
            async with asyncio.timeout(patience):
                line = self._idle.pop() if self._idle else await asyncio.open_connection(self.host, self.port)
                answer = await _asked(line, self._head(method, path, token, body) + body)
        except BaseException as error:
            if line is not None:
                line[1].transport.abort()
            if isinstance(error, TimeoutError):
                raise Silence(f"{patience} seconds without an answer") from error
            if isinstance(error, OSError | EOFError):
                raise Lost(repr(error)) from error
            raise
        status, body, lasting = answer
        if lasting:
            self._idle.append(line)
        else:
            line[1].transport.abort()
        return status, body

    def _head(self, method: str, path: str, token: str | None, body: bytes) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.host}", "content-type: application/json"]
        if token:
            lines.append(f"authorization: Bearer {token}")
        return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()


async def _asked(line: _Line, request: bytes) -> tuple[int, bytes, bool]:
    reader, writer = line
    writer.write(request)
    status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(status.split()[1]), body, headers.get("connection") != "close"
