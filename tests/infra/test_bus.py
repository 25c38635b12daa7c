"""The doorbell's contract: it wakes once at the start, and after every ring; rings meanwhile are one."""

import asyncio

from infra.bus import LocalBus


async def test_a_subscription_wakes_once_at_its_start() -> None:
    with LocalBus().subscribe("m") as wakes:
        await anext(wakes)


async def test_a_ring_before_or_between_is_never_missed() -> None:
    bus = LocalBus()
    with bus.subscribe("m") as wakes:
        await anext(wakes)
        await bus.publish("m", 1)
        await bus.publish("m", 2)
        async with asyncio.timeout(1):
            await anext(wakes)
        waiting = asyncio.ensure_future(anext(wakes))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done, "two rings while nobody listened are one wake"
        await bus.publish("m", 3)
        await asyncio.wait_for(waiting, 1)


async def test_every_subscriber_of_the_match_wakes_and_no_other() -> None:
    bus = LocalBus()
    with bus.subscribe("m") as one, bus.subscribe("m") as two, bus.subscribe("other") as other:
        for wakes in (one, two, other):
            await anext(wakes)
        await bus.publish("m", 1)
        await asyncio.wait_for(asyncio.gather(anext(one), anext(two)), 1)
        done, pending = await asyncio.wait([asyncio.ensure_future(anext(other))], timeout=0.05)
        assert not done
        for task in pending:
            task.cancel()


async def test_a_lost_ring_is_covered_by_a_periodic_wake() -> None:
    with LocalBus(periodic_wake=0.01).subscribe("m") as wakes:
        await anext(wakes)
        await asyncio.wait_for(anext(wakes), 1)


async def test_nothing_is_kept_of_a_subscription_that_ended() -> None:
    bus = LocalBus()
    with bus.subscribe("m"):
        assert bus._bells
    assert not bus._bells
    await bus.publish("m", 1)
