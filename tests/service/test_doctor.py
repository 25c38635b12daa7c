"""`videau doctor`: what is well, what is wrong, and what to do; by real databases, servers and clocks."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from infra.migrations import migrate
from infra.settings import Settings
from service.doctor import Check, examine
from tests.client import register
from tests.faults.processes import SECRETS
from tests.postgres import PostgresServer
from tests.redis import RedisServer, redis_cluster
from tests.server import Server, free_port, run_videau

GOOD = {
    "VIDEAU_SECRET": "a secret of the doctor's tests: 1",
    "VIDEAU_DICE_SECRET": "a secret of the doctor's tests: 2",
    "VIDEAU_SIGNING_KEY": "0123456789abcdef" * 4,
}


def examined(**env: str) -> dict[str, dict[str, Any]]:
    """Every check by its name, in an environment."""

    async def run() -> list[Check]:
        return [check async for check in examine(env)]

    checks = {check["name"]: check for check in msgspec.to_builtins(asyncio.run(run()))}
    assert all((check["ok"] is False) == bool(check["mend"]) for check in checks.values())
    return checks


def examined_behind(env: dict[str, str]) -> tuple[str, dict[str, dict[str, Any]]]:
    """What it prints, and every check, in a process whose clock is five minutes behind."""
    behind = [sys.executable, "-m", "tests.faults.shifted", "-300", "doctor", "--json"]
    run = subprocess.run(behind, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    return run.stdout, {check["name"]: check for check in json.loads(run.stdout)["checks"]}


def wrong(checks: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, check in checks.items() if check["ok"] is False]


def test_before_the_first_start_all_is_well_and_nothing_is_made(tmp_path: Path) -> None:
    checks = examined(VIDEAU_DATABASE_URL=f"sqlite:///{tmp_path / 'videau.db'}")
    assert wrong(checks) == []
    assert checks["database"]["ok"] is None
    assert list(tmp_path.iterdir()) == []


async def _opened(server: Server) -> None:
    """A match is opened, with which a process has certainly begun."""
    ann = await register(server.url, "Ann")
    await ann.create("{length: 3}")
    await ann.close()


def test_a_file_that_is_served_and_what_can_be_wrong_with_its_secrets(own_server: Server) -> None:
    asyncio.run(_opened(own_server))
    url = own_server.env["VIDEAU_DATABASE_URL"]
    checks = examined(VIDEAU_DATABASE_URL=url)
    assert wrong(checks) == []
    assert "the newest match" in checks["dice of the log"]["found"]
    assert checks["writing"]["ok"]

    told = run_videau("doctor", "--database", url)
    assert told.returncode == 0
    assert told.stdout.splitlines()[-1] == "all is well"

    checks = examined(VIDEAU_DATABASE_URL=url, VIDEAU_DICE_SECRET=GOOD["VIDEAU_DICE_SECRET"])
    assert wrong(checks) == ["dice of the log"]
    told = run_videau("doctor", env={**os.environ, "VIDEAU_DATABASE_URL": url, **GOOD})
    assert told.returncode == 1
    assert "WRONG  dice of the log: the dice's secret is not the one" in told.stdout
    assert "to mend it: restore the secret" in told.stdout
    assert GOOD["VIDEAU_DICE_SECRET"] not in told.stdout

    kept = {
        name: own_server.database.with_name(f"videau.db.{name}") for name in ("secret", "dice-secret", "signing-key")
    }
    kept["secret"].chmod(0o644)
    kept["dice-secret"].rename(kept["dice-secret"].with_name("elsewhere"))
    kept["signing-key"].write_text("z" * 10 + "abcdef" * 9)
    checks = examined(VIDEAU_DATABASE_URL=url)
    assert wrong(checks) == ["secret", "dice secret", "signing key", "dice of the log"]
    assert f"chmod 600 {kept['secret']}" in checks["secret"]["mend"]
    assert "all matches under way" in checks["dice secret"]["mend"]


def test_settings_that_are_wrong_or_unknown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'videau.db'}"
    checks = examined(VIDEAU_DATABASE_URL=url, VIDEAU_REDIS_ULR="redis://x")
    assert wrong(checks) == ["settings"]
    assert "VIDEAU_REDIS_URL" in checks["settings"]["mend"]
    checks = examined(VIDEAU_PORT="many")
    assert wrong(checks) == list(checks) == ["settings"]
    same = {"VIDEAU_SECRET": "a secret that is two", "VIDEAU_DICE_SECRET": "a secret that is two"}
    checks = examined(VIDEAU_DATABASE_URL=url, **{name: value * 2 for name, value in same.items()})
    assert wrong(checks) == ["secrets together"]
    checks = examined(VIDEAU_DATABASE_URL=url, VIDEAU_SIGNING_KEY="0" * 64)
    assert wrong(checks) == ["signing key"]


def test_files_that_are_no_database_of_this_version(tmp_path: Path) -> None:
    for name in ("secret", "dice-secret", "signing-key"):
        for database in ("other.db", "noise.db"):
            path = tmp_path / f"{database}.{name}"
            path.write_text(GOOD[f"VIDEAU_{name.upper().replace('-', '_')}"])
            path.chmod(0o600)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE other (id)").connection.close()
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    checks = examined(VIDEAU_DATABASE_URL=f"sqlite:///{tmp_path / 'other.db'}")
    assert wrong(checks) == ["schema"]
    checks = examined(VIDEAU_DATABASE_URL=f"sqlite:///{tmp_path / 'noise.db'}")
    assert wrong(checks) == ["database"]
    checks = examined(VIDEAU_DATABASE_URL=f"sqlite:///{tmp_path}/nowhere/videau.db")
    assert wrong(checks) == ["disk"]


def test_postgresql_with_its_secrets_rights_and_clock(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    checks = examined(VIDEAU_DATABASE_URL=url)
    assert wrong(checks) == ["secret", "dice secret", "signing key", "schema"]
    assert checks["schema"]["mend"] == "videau migrate"
    migrate(Settings(database_url=url).url)
    checks = examined(VIDEAU_DATABASE_URL=url, **GOOD)
    assert set(wrong(checks)) <= {"durability"}, "the tests' own server may not flush"
    assert {"writing", "connections", "clock of the database", "clock of the log"} <= checks.keys()
    assert checks["redis"]["ok"] is None

    name = url.split("?")[0].rsplit("/", 1)[1]
    with postgres.connect() as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    checks = examined(VIDEAU_DATABASE_URL=url, **GOOD)
    assert "writing" in wrong(checks)
    with postgres.connect() as connection:
        connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

    _, checks = examined_behind({"VIDEAU_DATABASE_URL": url, **GOOD})
    assert "behind the database's" in checks["clock of the database"]["found"]
    assert "clock of the database" in wrong(checks)


def test_a_postgresql_that_does_not_answer_is_named_without_its_password() -> None:
    url = f"postgresql://videau:hunter2@127.0.0.1:{free_port()}/videau"
    checks = examined(VIDEAU_DATABASE_URL=url, **GOOD)
    assert wrong(checks) == ["database"]
    assert "hunter2" not in json.dumps(checks)


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    server = Server(tmp_path, **SECRETS)
    server.start()
    asyncio.run(_opened(server))
    server.kill()
    _, checks = examined_behind(server.env)
    assert "behind what was noted last" in checks["clock of the log"]["found"]
    assert checks["clock of the log"]["ok"] is False


def test_every_server_of_a_redis_cluster(tmp_path: Path) -> None:
    with redis_cluster(tmp_path / "redis") as servers:
        url = f"sqlite:///{tmp_path / 'videau.db'}"
        checks = examined(VIDEAU_DATABASE_URL=url, VIDEAU_REDIS_URL=servers[0].url)
    assert wrong(checks) == []
    assert sum(name.startswith("commands of redis 127.0.0.1:") for name in checks) == len(servers) > 1


def test_redis_with_the_rights_that_are_needed_and_without(tmp_path: Path) -> None:
    user = ("player", "pass-word")
    server = RedisServer(tmp_path / "redis", private=True, user=user)
    server.start()
    env = {"VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path / 'videau.db'}", "VIDEAU_REDIS_URL": server.url}
    try:
        checks = examined(**env)
        assert wrong(checks) == []
        assert sum(name.startswith(("commands of redis", "clock of redis")) for name in checks) == 2
        for lost, given in (("-publish", "+publish"), ("-set", "+set"), ("resetchannels", "&videau:match:*")):
            with server.admin() as admin:
                admin.execute_command("ACL", "SETUSER", user[0], lost)
            checks = examined(**env)
            assert wrong(checks) == ["commands of redis"], lost
            assert "+evalsha" in checks["commands of redis"]["mend"]
            with server.admin() as admin:
                admin.execute_command("ACL", "SETUSER", user[0], given)
        told, checks = examined_behind(env)
        assert "behind Redis's" in checks["clock of redis"]["found"]
        assert "pass-word" not in told
    finally:
        server.stop()
    checks = examined(**env)
    assert wrong(checks) == ["redis"]


def test_the_keys_of_apps(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'videau.db'}"
    migrate(Settings(database_url=url).url)
    with sqlite3.connect(tmp_path / "videau.db") as connection:
        connection.execute(
            "INSERT INTO apps (name, created_at, jwks, documents_only) VALUES ('studio', '2026-01-01', '{}', 0)"
        )
    connection.close()
    checks = examined(VIDEAU_DATABASE_URL=url, **GOOD)
    assert wrong(checks) == ["keys of apps"]
    assert "videau app key studio" in checks["keys of apps"]["mend"]
