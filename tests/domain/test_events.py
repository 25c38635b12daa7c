"""The stored form of every event, for ever: a line here is never edited, only added to (DESIGN.md section 3)."""

import json
from typing import Any, get_args

import msgspec
import pytest

from domain.board import CheckerMove, Color, Dice
from domain.events import (
    Accepted,
    Cancelled,
    Claimed,
    Clock,
    Committed,
    Created,
    Doubled,
    Event,
    Joined,
    Moved,
    Refused,
    Resigned,
    Resumed,
    Rolled,
    Sandbox,
    Settings,
    Stake,
    TimedOut,
    Visibility,
)

WHITE, BLACK = Color.WHITE, Color.BLACK

LINES = {
    "created": (
        '{"color":"white","kind":"created","match":"m1","rematchOf":null,"rules":1,"settings":{"automaticDoubles":0,'
        '"crawford":true,"cubeLimit":64,"jacoby":false,"length":7,"sandbox":null,"visibility":"public"}}',
        Created(match="m1", settings=Settings(length=7), color=WHITE, rules=1),
    ),
    "created with everything": (
        '{"color":"black","kind":"created","match":"m2","rematchOf":"m1","rules":1,"settings":{"automaticDoubles":2,'
        '"crawford":false,"cubeLimit":1024,"jacoby":true,"length":null,"sandbox":{"dice":[[3,1],[6,6]],'
        '"start":"XGID=-b----E-C---eE---c-e----B-:0:0:1:00:0:0:1:0:10"},"visibility":"private"}}',
        Created(
            match="m2",
            settings=Settings(
                length=None,
                crawford=False,
                cube_limit=1024,
                jacoby=True,
                automatic_doubles=2,
                visibility=Visibility.PRIVATE,
                sandbox=Sandbox(
                    start="XGID=-b----E-C---eE---c-e----B-:0:0:1:00:0:0:1:0:10",
                    dice=(Dice(3, 1), Dice(6, 6)),
                ),
            ),
            color=BLACK,
            rules=1,
            rematch_of="m1",
        ),
    ),
    "created with a commitment": (
        '{"color":"white","commitment":"ab12","imported":null,"kind":"created","match":"m1","rematchOf":null,"rules":1,'
        '"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":64,"jacoby":false,"length":7,"sandbox":null,'
        '"visibility":"public"}}',
        Created(match="m1", settings=Settings(length=7), color=WHITE, rules=1, commitment="ab12"),
    ),
    "created of a file": (
        '{"color":"white","commitment":null,"imported":"mat","kind":"created","match":"m1","rematchOf":null,"rules":1,'
        '"settings":{"automaticDoubles":0,"crawford":true,"cubeLimit":64,"jacoby":false,"length":7,"sandbox":null,'
        '"visibility":"public"}}',
        Created(match="m1", settings=Settings(length=7), color=WHITE, rules=1, imported="mat"),
    ),
    "created for one opponent, with a clock, rated, in a series": (
        '{"color":"white","commitment":"ab12","imported":null,"invited":"p2","kind":"created","match":"m3",'
        '"rematchOf":"m2","rules":1,"series":"m1","settings":{"automaticDoubles":0,"clock":{"delay":12,"reserve":840},'
        '"crawford":true,"cubeLimit":64,"jacoby":false,"length":7,"rated":true,"sandbox":null,"visibility":"private"}}',
        Created(
            match="m3",
            settings=Settings(length=7, visibility=Visibility.PRIVATE, clock=Clock(reserve=840, delay=12), rated=True),
            color=WHITE,
            rules=1,
            commitment="ab12",
            rematch_of="m2",
            invited="p2",
            series="m1",
        ),
    ),
    "joined from an app": (
        '{"app":"wood","color":"black","entropy":"hm","kind":"joined","player":"p1"}',
        Joined(color=BLACK, player="p1", entropy="hm", app="wood"),
    ),
    "joined with entropy": (
        '{"color":"black","entropy":"hm","kind":"joined","player":"p1"}',
        Joined(color=BLACK, player="p1", entropy="hm"),
    ),
    "committed": ('{"commitment":"ab12","kind":"committed"}', Committed(commitment="ab12")),
    "rolled with a link": (
        '{"by":"white","dice":[3,1],"entropy":"hm","kind":"rolled","link":"cd34","opening":false}',
        Rolled(by=WHITE, dice=Dice(3, 1), link="cd34", entropy="hm"),
    ),
    "joined": (
        '{"color":"black","kind":"joined","player":"p1"}',
        Joined(color=BLACK, player="p1"),
    ),
    "rolled": (
        '{"by":"white","dice":[3,1],"kind":"rolled","opening":true}',
        Rolled(by=WHITE, dice=Dice(3, 1), opening=True),
    ),
    "rolled a tie": (
        '{"by":null,"dice":[5,5],"kind":"rolled","opening":true}',
        Rolled(by=None, dice=Dice(5, 5), opening=True),
    ),
    "moved": (
        '{"by":"white","kind":"moved","play":[[25,22],[6,0]]}',
        Moved(by=WHITE, play=(CheckerMove(25, 22), CheckerMove(6, 0))),
    ),
    "moved nothing": ('{"by":"black","kind":"moved","play":[]}', Moved(by=BLACK, play=())),
    "doubled": ('{"by":"white","kind":"doubled"}', Doubled(by=WHITE)),
    "accepted": ('{"by":"black","kind":"accepted"}', Accepted(by=BLACK)),
    "refused": ('{"by":"black","kind":"refused"}', Refused(by=BLACK)),
    "resigned": (
        '{"by":"white","kind":"resigned","stake":"gammon"}',
        Resigned(by=WHITE, stake=Stake.GAMMON),
    ),
    "resigned the match": (
        '{"by":"black","kind":"resigned","stake":"match"}',
        Resigned(by=BLACK, stake=Stake.MATCH),
    ),
    "timed out": ('{"by":"black","kind":"timed_out"}', TimedOut(by=BLACK)),
    "resumed": ('{"kind":"resumed","lost":12000000}', Resumed(lost=12_000_000)),
    "claimed": ('{"absent":900,"by":"white","kind":"claimed"}', Claimed(by=WHITE, absent=900)),
    "cancelled": ('{"absent":0,"by":"white","kind":"cancelled"}', Cancelled(by=WHITE)),
    "declined": ('{"absent":0,"by":null,"kind":"cancelled"}', Cancelled(by=None)),
}

encoder = msgspec.json.Encoder(order="sorted")
decoder = msgspec.json.Decoder(Event)


@pytest.mark.parametrize(("line", "event"), LINES.values(), ids=LINES.keys())
def test_a_stored_line_is_read_for_ever_and_all_it_says_is_written_again(line: str, event: Event) -> None:
    """Fields that an event has gained since are added with their defaults, and nothing else changes."""
    assert decoder.decode(line) == event
    assert of_these(json.loads(encoder.encode(event)), json.loads(line)) == json.loads(line)


def of_these(written: Any, read: Any) -> Any:
    """What is written, without the fields that are not in what is read."""
    if isinstance(read, dict) and isinstance(written, dict):
        return {name: of_these(written[name], read[name]) for name in read}
    return written


def test_each_kind_has_a_line_in_its_newest_form() -> None:
    for kind in get_args(Event):
        lines = [line for line, event in LINES.values() if type(event) is kind]
        assert any(encoder.encode(decoder.decode(line)).decode() == line for line in lines), kind


def test_each_kind_has_its_line() -> None:
    kinds = {json.loads(line)["kind"] for line, _ in LINES.values()}
    assert kinds == {
        "created", "joined", "committed", "rolled", "moved", "doubled", "accepted", "refused", "resigned", "timed_out",
        "resumed", "claimed", "cancelled",
    }  # fmt: skip
    assert {type(event) for _, event in LINES.values()} == set(get_args(Event))


def test_a_field_with_a_default_may_be_missing() -> None:
    """Lines stored before a field was added: all that is optional left out."""
    line = '{"color":"white","kind":"created","match":"m1","rules":1,"settings":{"length":7}}'
    assert decoder.decode(line) == Created(match="m1", settings=Settings(length=7), color=WHITE, rules=1)
    assert decoder.decode('{"by":"white","dice":[3,1],"kind":"rolled"}') == Rolled(by=WHITE, dice=Dice(3, 1))


def without(line: str, field: str) -> str:
    return json.dumps({name: value for name, value in json.loads(line).items() if name != field})


def changed(line: str, **fields: Any) -> str:
    return json.dumps({**json.loads(line), **fields})


STRANGE = {
    "no kind": without(LINES["doubled"][0], "kind"),
    "a kind of later times": changed(LINES["doubled"][0], kind="beavered"),
    "a kind in capitals": changed(LINES["doubled"][0], kind="Doubled"),
    "a field too many": changed(LINES["doubled"][0], value=2),
    "a field of later times in the settings": changed(LINES["created"][0], settings={"length": 7, "beavers": True}),
    "a field too many in the sandbox": changed(
        LINES["created"][0], settings={"length": 7, "sandbox": {"start": None, "dice": [], "cube": 2}}
    ),
    "a setting in another spelling": changed(LINES["created"][0], settings={"length": 7, "cube_limit": 64}),
    "nobody moved": without(LINES["moved"][0], "by"),
    "no length agreed": changed(LINES["created"][0], settings={}),
    "a third colour": changed(LINES["joined"][0], color="red"),
    "no such stake": changed(LINES["resigned"][0], stake="triple"),
    "a die in words": changed(LINES["rolled"][0], dice=["three", 1]),
    "three dice": changed(LINES["rolled"][0], dice=[3, 1, 1]),
    "one die": changed(LINES["rolled"][0], dice=[3]),
    "a move from nowhere": changed(LINES["moved"][0], play=[[24]]),
    "half a point": changed(LINES["moved"][0], play=[[24, 18.5]]),
    "a list": "[]",
    "half a line": LINES["created"][0][:40],
}


@pytest.mark.parametrize("line", STRANGE.values(), ids=STRANGE.keys())
def test_a_line_that_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decoder.decode(line)
