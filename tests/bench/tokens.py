"""What checking an app's token costs, beside answering a mutation over HTTP: `python -m tests.bench.tokens`."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra.bus import LocalBus
from infra.dice import Chains
from infra.log import encode_time
from infra.settings import Settings
from infra.signing import Signer
from infra.store import SqlStore
from infra.tables import AppRow
from service.apps import Apps
from service.auth import Context, Tokens
from service.table import Table
from tests.apps import StudioKey, key_set, studio_key
from tests.bench.light import print_table
from tests.bench.processes import Game, begun, cpu_seconds
from tests.server import Typed

APP = "bench.example"
KEYS = [studio_key(algorithm, algorithm) for algorithm in ("EdDSA", "ES256", "RS256")]
TOKENS = 1_000
MATCHES = 64
COMMANDS = 50
"""Of each match and round."""
ROUNDS = 5


def rows() -> list[tuple[str, ...]]:
    """A token that was seen before, as nearly all are, and one that was not, beside roll and move."""
    known, new = asyncio.run(checked())
    answering = asyncio.run(answered())
    first = ", ".join(f"{key.algorithm} {micro:.0f}" for key, micro in zip(KEYS, new, strict=True))
    beside = f"answering roll or move over HTTP {answering:.0f}"
    return [
        ("checking an app's token, µs of CPU", f"{known:.1f}", beside, f"{known / answering:.4f}"),
        (f"the same, of a token never seen before ({first})", f"{max(new):.0f}", beside, f"{max(new) / answering:.2f}"),
    ]


async def checked() -> tuple[float, list[float]]:
    """Microseconds of CPU to identify a caller by a known token, and by a new one of each algorithm."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(Settings(database_url=f"sqlite:///{folder}/videau.db").url, create=True)
        keys = key_set(KEYS).decode()
        await store.apps.add(AppRow(name=APP, created_at=encode_time(datetime.now(UTC)), jwks=keys))
        table = Table(store, LocalBus(), Chains("bench"), Signer("0" * 64))
        tokens = Tokens("s" * 32, 1, Apps(store.apps, "videau", table.player_of))

        async def identify(sent: Sequence[str]) -> float:
            begun = time.process_time()
            for authorization in sent:
                await Context(table, tokens).identify(authorization)
            return (time.process_time() - begun) / len(sent) * 1e6

        def made(key: StudioKey, number: int) -> list[str]:
            """Tokens of users who are known: a new user costs a row in the database, once."""
            return [f"Bearer {key.token(APP, f'user {n % 10}', jti=f'{number} {n}')}" for n in range(TOKENS)]

        new: list[list[float]] = []
        known = []
        for number in range(ROUNDS):
            sent = [made(key, number) for key in KEYS]
            new.append([await identify(each) for each in sent])
            known += [await identify(each) for each in sent]
        await store.close()
    return statistics.median(known), [statistics.median(each) for each in zip(*new[1:], strict=True)]


async def answered() -> float:
    """Microseconds of the server's CPU to answer a mutation, where many matches are played at once."""

    async def play(game: Game) -> None:
        for _ in range(COMMANDS):
            await game.go_on()

    with tempfile.TemporaryDirectory() as folder:
        server = Typed(Path(folder))
        server.start()
        try:
            games = [await begun(server, n) for n in range(MATCHES)]
            passes = []
            for _ in range(ROUNDS):
                before = cpu_seconds([server])
                await asyncio.gather(*(play(game) for game in games))
                passes.append((cpu_seconds([server]) - before) / MATCHES / COMMANDS * 1e6)
        finally:
            server.kill()
    return statistics.median(passes)


if __name__ == "__main__":
    print_table(rows())
