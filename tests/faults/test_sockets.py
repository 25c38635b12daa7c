"""Promise 4 over a bad network: sockets reset, torn, stalled and half-open."""

import random
from contextlib import AsyncExitStack

from tests.faults.proof import proven
from tests.faults.proxy import FAULTS, Proxy
from tests.server import Server


async def test_sockets_that_fail_at_random_lose_nothing_and_repeat_nothing(pair: list[Server]) -> None:
    proxies = [Proxy(server.base, random.Random(n)) for n, server in enumerate(pair)]
    async with AsyncExitStack() as stack:
        through = [await stack.enter_async_context(proxy.running()) for proxy in proxies]
        async with proven(pair, 24, through=through, patience=1.5) as crowd:
            for proxy in proxies:
                proxy.faulty = True
            await crowd.until(lambda: min(proxy.met[fault] for proxy in proxies for fault in FAULTS) >= 8)
            for proxy in proxies:
                proxy.faulty = False
            await crowd.more(50)
    assert sum(watcher.cuts for watcher in crowd.watchers) > 10
    assert crowd.silences > 0
