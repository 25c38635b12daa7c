"""Provable dice: the right values, fair ones, and everything that a second implementation and ours must find."""

import itertools
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from domain.board import Color, Dice
from domain.commands import Command, Commit, Create, Join, Move, Roll
from domain.events import Event, Sandbox, Settings
from domain.fairness import LINKS, dice_from, follows, is_entropy
from domain.match import Match, OnRoll, ToPlay
from domain.plays import legal_plays
from domain.rules import RuleError, decide, evolve
from infra.dice import Chains
from infra.log import GENESIS, Broken, encode_line, encode_time, record, signed_head, verify
from infra.signing import Signer
from tests.node import node

SCRIPT = Path(__file__).parents[1] / "fairness.js"
START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
SIGNER = Signer("5f" * 32)


def played(match_id: str = "m1", seed: int = 1, script: tuple[Dice, ...] = ()) -> list[Event]:
    """A three-point match played at random with chained dice, from its creation to its end."""
    chance, chains = random.Random(seed), Chains("server secret")
    events: list[Event] = []
    match: Match | None = None

    def do(command: Command) -> Match:
        nonlocal match
        for event in decide(match, command):
            match = evolve(match, event)
            events.append(event)
        assert match is not None
        return match

    do(
        Create(
            match=match_id,
            settings=Settings(length=3, sandbox=Sandbox(dice=script) if script else None),
            color=Color.WHITE,
            player="ann",
            commitment=chains.commitment(match_id, 0),
            entropy="ann's own",
        )
    )
    now = do(Join(player="bob", entropy='bob "&" \\'))
    while now.winner is None:
        phase = now.phase
        if isinstance(phase, ToPlay):
            now = do(Move(by=phase.color, play=chance.choice(legal_plays(now.board, phase.color, phase.dice))))
            continue
        by = phase.color if isinstance(phase, OnRoll) else None
        if now.scripted_dice:
            now = do(Roll(by=by, dice=now.scripted_dice))
        else:
            entropy = chance.choice(["", "more"])
            dice, link = chains.throw(now, entropy)
            now = do(Roll(by=by, dice=dice, link=link, entropy=entropy))
    return events


def content(events: list[Event]) -> list[dict[str, Any]]:
    """The records of a log, to be tampered with."""
    records = record(GENESIS, 0, START, events)
    return [json.loads(encode_line(r.seq, encode_time(r.at), r.text, r.hash)) for r in records]


def linked(records: list[dict[str, Any]]) -> list[bytes]:
    """The lines of these records, numbered and hashed anew by whoever tampered with them."""
    previous, lines = GENESIS, []
    for seq, line in enumerate(records, 1):
        body = {"at": line["at"], "event": line["event"], "seq": seq}
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = sha256((previous + canonical).encode()).hexdigest()
        lines.append(json.dumps({**body, "hash": previous}).encode())
    return lines


EVENTS, OTHERS = played(), played("m2", seed=2)
ROLLS = [n for n, event in enumerate(EVENTS) if type(event).__name__ == "Rolled"]
PLAYS = [n for n, event in enumerate(EVENTS) if type(event).__name__ == "Moved"]


def whole(events: list[Event]) -> list[bytes]:
    """The log of a finished match with its signed head."""
    records = record(GENESIS, 0, START, events)
    match_id = events[0].match  # type: ignore[union-attr]
    lines = [encode_line(r.seq, encode_time(r.at), r.text, r.hash).encode() for r in records]
    return [*lines, signed_head(match_id, records[-1].seq, records[-1].hash, SIGNER).encode()]


def both_find(lines: list[bytes], why: str = "") -> bool:
    """Whether our check and the other one both say that a log is wrong."""
    with pytest.raises(Broken) as ours:
        verify(lines)
    theirs = node(str(SCRIPT), given=b"\n".join(lines))
    assert theirs.returncode == 1, theirs
    assert theirs.stdout.startswith(b"seq "), theirs
    assert why in ours.value.why, ours.value
    return True


@pytest.mark.parametrize("events", [EVENTS, OTHERS, played("m3", 3, (Dice(2, 2), Dice(6, 5), Dice(4, 4)))])
def test_a_played_log_is_found_whole_by_both(events: list[Event]) -> None:
    lines = whole(events)
    ours = verify(lines, SIGNER.public_key)
    theirs = node(str(SCRIPT), given=b"\n".join(lines))
    rolls = sum(type(event).__name__ == "Rolled" for event in events)
    assert theirs.stdout.decode() == f"whole: {ours.proven} of {rolls} rolls proven, head signed\n", theirs
    assert ours.match.winner is not None
    assert ours.match.rolls == rolls


def test_the_dice_are_those_of_the_specification() -> None:
    """The specification's formula, by another implementation of SHA-256 and HMAC: node's."""
    cases = [("%064x" % (n * 7919), f"m{n}", n, "a" * (n % 5), 'b"\\', "" if n % 2 else "e") for n in range(200)]
    text = """
    const { createHmac } = require("node:crypto");
    for (const [link, ...rest] of JSON.parse(process.argv[1])) {
      const bytes = createHmac("sha256", Buffer.from(link, "hex")).update(JSON.stringify(rest)).digest();
      console.log([...bytes].filter((b) => b < 252).slice(0, 2).map((b) => b % 6 + 1).join(""));
    }"""
    theirs = node("-e", text, json.dumps(cases)).stdout.decode().split()
    assert ["".join(map(str, dice_from(*case))) for case in cases] == theirs


TAMPERINGS: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "a changed die": (
        lambda log: log[ROLLS[3]]["event"].update(dice=[die % 6 + 1 for die in log[ROLLS[3]]["event"]["dice"]]),
        "unproven_dice",
    ),
    "two rolls swapped": (lambda log: swap(log, ROLLS[2], ROLLS[4]), "unproven_dice"),
    "a link used twice": (
        lambda log: log[ROLLS[5]]["event"].update(link=log[ROLLS[4]]["event"]["link"]),
        "unproven_dice",
    ),
    "a roll without its link": (lambda log: log[ROLLS[5]]["event"].update(link=None), "unproven_dice"),
    "a later commitment": (lambda log: log[0]["event"].update(commitment=log[ROLLS[0]]["event"]["link"]), "unproven"),
    "a player's entropy changed": (lambda log: log[1]["event"].update(entropy="mine"), "unproven_dice"),
    "a roll's entropy changed": (lambda log: log[ROLLS[2]]["event"].update(entropy="mine"), "unproven_dice"),
    "a roll and its play dropped": (lambda log: log.__delitem__(slice(ROLLS[3], ROLLS[3] + 2)), ""),
    "a roll added": (lambda log: log.insert(ROLLS[3], log[ROLLS[2]]), ""),
    "turns reordered": (lambda log: reorder(log, ROLLS[2], ROLLS[3]), ""),
    "another match's link": (
        lambda log: log[ROLLS[3]]["event"].update(link=content(OTHERS)[3]["event"]["link"]),
        "unproven_dice",
    ),
    "another match's id": (lambda log: log[0]["event"].update(match="m2"), "unproven_dice"),
    "a new commitment too early": (
        lambda log: log.insert(3, {**log[2], "event": {"kind": "committed", "commitment": "00" * 32}}),
        "unproven_dice",
    ),
}


def swap(log: list[dict[str, Any]], a: int, b: int) -> None:
    """Swap dice and links of two rolls."""
    for name in ("dice", "link", "entropy"):
        one, other = log[a]["event"], log[b]["event"]
        one[name], other[name] = other[name], one[name]


def reorder(log: list[dict[str, Any]], a: int, b: int) -> None:
    """Put the turn at `b` before the turn at `a`."""
    log[a:a] = [log.pop(b), log.pop(b)]


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_found_by_both_even_with_fresh_hashes(tampering: str) -> None:
    change, why = TAMPERINGS[tampering]
    log = content(EVENTS)
    change(log)
    assert both_find(linked(log), why)


def test_without_fresh_hashes_any_edit_is_found_by_both() -> None:
    lines = whole(EVENTS)
    for n in (0, 1, ROLLS[1], PLAYS[2], len(lines) - 2):
        edited = lines[n].replace(b"26-11-30", b"27-11-30", 1)
        assert edited != lines[n]
        assert both_find([*lines[:n], edited, *lines[n + 1 :]])
        assert both_find([*lines[:n], *lines[n + 1 :]])


def test_a_cut_tail_that_claims_to_be_whole_is_found_by_both() -> None:
    lines = whole(EVENTS)
    assert both_find([*lines[:-3], lines[-1]], "signed head is that of record")
    assert verify(lines[:-3]).signed_by is None
    with pytest.raises(Broken, match="ends here without a signed head"):
        verify(lines[:-3], SIGNER.public_key)


def test_a_log_forged_from_the_start_lacks_the_servers_signature() -> None:
    """Whoever makes a whole chain of his own must sign with another key."""
    forger = Signer("60" * 32)
    lines = whole(EVENTS)
    head = json.loads(lines[-1])["head"]
    forged = signed_head(head["match"], head["seq"], head["hash"], forger).encode()
    assert verify([*lines[:-1], forged]).signed_by == forger.public_key
    with pytest.raises(Broken, match="not signed by the key"):
        verify([*lines[:-1], forged], SIGNER.public_key)
    broken = json.loads(lines[-1])
    broken["signature"] = "00" * 64
    assert both_find([*lines[:-1], json.dumps(broken).encode()], "not signed by the key")
    assert both_find([*lines[:-1], whole(OTHERS)[-1]], "is that of match m2")


def test_each_link_is_the_hash_of_the_next_down_to_the_commitment() -> None:
    chains = Chains("secret")
    links = [chains._link(b"secret", "m", 0, number) for number in range(LINKS + 1)]
    assert links[0] == chains.commitment("m", 0)
    assert all(follows(link, before) for before, link in itertools.pairwise(links))
    assert len(set(links)) == LINKS + 1


def test_chains_differ_by_match_number_and_secret() -> None:
    """Neither the database nor the log tells the secret, and each match has chains of its own."""
    ends = {
        Chains(secret).commitment(match, number) for secret in ("a", "b") for match in ("m", "n") for number in (0, 1)
    }
    assert len(ends) == 8


def test_a_chain_goes_on_with_the_secret_that_it_came_from() -> None:
    """After a rotation, in whatever order processes have the secrets; the match's next chain is of the newest."""
    old, new = Chains("old"), Chains("new")
    match = Match(id="m", settings=Settings(length=3), last_link=old.commitment("m", 0), phase=OnRoll(Color.WHITE))
    for rotated in (Chains("new", "old"), Chains("old", "new"), Chains("newer", "new", "old")):
        assert rotated.throw(match) == old.throw(match)
    assert Chains("new", "old").commitment("m", 1) == new.commitment("m", 1)
    later = replace(match, chain=1, last_link=new.commitment("m", 1))
    assert Chains("new", "old").throw(later) == new.throw(later)


def test_no_dice_are_thrown_that_nobody_could_prove() -> None:
    match = Match(id="m", settings=Settings(length=3), last_link=Chains("lost").commitment("m", 0))
    with pytest.raises(RuleError, match="has no more the secret"):
        Chains("new", "other").throw(match)


def test_a_new_chain_is_committed_to_when_the_old_one_is_used_up_and_not_earlier() -> None:
    chains = Chains("secret")
    match: Match | None = None
    for command in (
        Create(
            match="m",
            settings=Settings(length=3),
            color=Color.WHITE,
            player="a",
            commitment=chains.commitment("m", 0),
        ),
        Join(player="b"),
    ):
        for event in decide(match, command):
            match = evolve(match, event)
    assert match is not None
    with pytest.raises(RuleError):
        decide(match, Commit(commitment="00" * 32))
    used_up = replace(match, links_used=LINKS, last_link=chains._link(b"secret", "m", 0, LINKS))
    [committed] = decide(used_up, Commit(commitment=chains.commitment("m", 1)))
    renewed = evolve(used_up, committed)
    assert (renewed.chain, renewed.links_used, renewed.last_link) == (1, 0, chains.commitment("m", 1))
    _, link = chains.throw(renewed)
    assert follows(link, chains.commitment("m", 1))


@pytest.mark.parametrize(
    ("text", "good"), [("", True), ("a" * 64, True), ("a" * 65, False), ("é", False), ("a\n", False), ("\x7f", False)]
)
def test_entropy_is_short_printable_ascii(text: str, good: bool) -> None:
    assert is_entropy(text) is good


def test_a_million_rolls_are_fair() -> None:
    """Chi-square on single dice, on the 36 pairs, and on successive rolls; the bounds are the 99.9 % quantiles.

    Degrees of freedom 5, 35 and 1,295: 20.5, 66.6 and 1,458 (NIST/SEMATECH e-Handbook, table 1.3.6.7.4, and the
    Wilson-Hilferty formula for the last). The links are a fixed chain, so the outcome is too.
    """
    count, successive = 1_000_000, [0] * 36 * 36
    link, before = sha256(b"a million rolls").digest(), 0
    for number in range(count):
        first, second = dice_from(link.hex(), "statistics", number, "", "", "")
        link = sha256(link).digest()
        pair = 6 * first + second - 7
        successive[36 * before + pair] += 1
        before = pair
    pairs = [sum(successive[pair::36]) for pair in range(36)]
    assert sum(pairs) == count
    assert chi_square([sum(pairs[6 * face : 6 * face + 6]) for face in range(6)], count) < 20.5
    assert chi_square([sum(pairs[face::6]) for face in range(6)], count) < 20.5
    assert chi_square(pairs, count) < 66.6
    assert chi_square(successive, count) < 1_458


def chi_square(counts: list[int], total: int) -> float:
    """Pearson's statistic against equal chances."""
    expected = total / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected
