"""Settings from an environment, and what is said of wrong ones."""

import stat
from pathlib import Path

import pytest

from infra.settings import Rate, Settings, SettingsError


def test_an_empty_environment_gives_the_embedded_default() -> None:
    settings = Settings.from_env({})
    assert (settings.url.get_backend_name(), settings.database) == ("sqlite", "videau.db")
    assert settings.redis_url is None
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)


def test_what_is_given_comes_before_the_environment() -> None:
    env = {"VIDEAU_PORT": "9000", "VIDEAU_HOST": "::1", "VIDEAU_TOKEN_DAYS": "1"}
    settings = Settings.from_env(env, port=0, host=None)
    assert (settings.host, settings.port, settings.token_days) == ("::1", 0, 1)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("VIDEAU_PORT", "http", "VIDEAU_PORT is 'http'; it is a number from 0 to 65535"),
        ("VIDEAU_PORT", "65536", "VIDEAU_PORT is '65536'"),
        ("VIDEAU_PORT", "-1", "VIDEAU_PORT is '-1'"),
        ("VIDEAU_PORT", "²", "VIDEAU_PORT is '²'"),
        ("VIDEAU_TOKEN_DAYS", "0", "VIDEAU_TOKEN_DAYS is '0'"),
        ("VIDEAU_DICE_SECRET", "short", "VIDEAU_DICE_SECRET has 5 characters; at least 32"),
        ("VIDEAU_SIGNING_KEY", "zz" * 32, "VIDEAU_SIGNING_KEY is not 64 hexadecimal digits"),
        ("VIDEAU_SECRET", "short", "VIDEAU_SECRET has 5 characters; at least 32"),
        ("VIDEAU_DATABASE_URL", "sqlite://", "VIDEAU_DATABASE_URL is 'sqlite://'"),
        ("VIDEAU_DATABASE_URL", "sqlite:///:memory:", "VIDEAU_DATABASE_URL is"),
        ("VIDEAU_DATABASE_URL", "videau.db", "VIDEAU_DATABASE_URL is 'videau.db'"),
        ("VIDEAU_DATABASE_URL", "mysql://host/db", "VIDEAU_DATABASE_URL is 'mysql://host/db'"),
        ("VIDEAU_DATABASE_URL", "postgresql://host", "VIDEAU_DATABASE_URL is 'postgresql://host'"),
        ("VIDEAU_DATABASE_URL", "mysql://me:pass@host/db", "VIDEAU_DATABASE_URL is 'mysql://me:***@host/db'"),
        (
            "VIDEAU_REDIS_URL",
            "http://host",
            "VIDEAU_REDIS_URL is 'http://host': no URL of a Redis: that is like redis://",
        ),
        (
            "VIDEAU_REDIS_URL",
            "redis://me:pass@host?what=this",
            "VIDEAU_REDIS_URL is 'redis://me:***@host?what=this': no",
        ),
        ("VIDEAU_KEY_DAYS", "0", "VIDEAU_KEY_DAYS is '0'"),
        ("VIDEAU_RATE_PLAYER", "fast", "VIDEAU_RATE_PLAYER is 'fast'; it is units/seconds, like 1000/20"),
        ("VIDEAU_RATE_APP", "0/20", "VIDEAU_RATE_APP is '0/20'"),
        ("VIDEAU_RATE_ADDRESS", "10/0", "VIDEAU_RATE_ADDRESS is '10/0'"),
        ("VIDEAU_RATE_ADDRESS", "10", "VIDEAU_RATE_ADDRESS is '10'"),
        ("VIDEAU_RATE_REGISTRATION", "-1/1", "VIDEAU_RATE_REGISTRATION is '-1/1'"),
        ("VIDEAU_ORIGINS", "game.example", "VIDEAU_ORIGINS has 'game.example'"),
        ("VIDEAU_ORIGINS", "https://a.example,https://b.example/play", "has 'https://b.example/play'"),
        ("VIDEAU_TRUSTED_PROXIES", "proxy", "VIDEAU_TRUSTED_PROXIES has 'proxy'"),
        ("VIDEAU_TRUSTED_PROXIES", "10.0.0.1/8", "has '10.0.0.1/8'"),
        ("VIDEAU_CONNECTIONS_PER_ADDRESS", "0", "VIDEAU_CONNECTIONS_PER_ADDRESS is '0'"),
        ("VIDEAU_INTROSPECTION", "yes", "VIDEAU_INTROSPECTION is 'yes'; it is on or off"),
        ("VIDEAU_RATE_REGISTRATION", "1/²", "VIDEAU_RATE_REGISTRATION is '1/²'"),
        ("VIDEAU_DRAIN_SECONDS", "601", "VIDEAU_DRAIN_SECONDS is '601'; it is a number from 0 to 600"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_env({name: value})
    assert said in str(error.value)


def test_origins_and_proxies_are_several() -> None:
    env = {"VIDEAU_ORIGINS": "https://Game.example/, capacitor://localhost", "VIDEAU_TRUSTED_PROXIES": "10.0.0.0/8,::1"}
    settings = Settings.from_env(env)
    assert settings.origins == ("https://game.example", "capacitor://localhost")
    assert settings.trusted_proxies == ("10.0.0.0/8", "::1", "::ffff:10.0.0.0/104")
    assert Settings.from_env({"VIDEAU_ORIGINS": "*"}).origins == ("*",)
    assert Settings.from_env({"VIDEAU_CONNECTIONS_PER_ADDRESS": "off"}).connections_per_address is None
    assert Settings.from_env({"VIDEAU_INTROSPECTION": "off"}).introspection is False


def test_a_rate_is_units_and_seconds_or_off() -> None:
    settings = Settings.from_env({"VIDEAU_RATE_PLAYER": "100/7", "VIDEAU_RATE_APP": "off"})
    assert settings.rate_player == Rate(100, 7)
    assert settings.rate_app is None
    assert settings.rate_address == Rate(600, 20)


@pytest.mark.parametrize("name", ["secret", "dice_secret", "signing_key"])
def test_a_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path, name: str) -> None:
    settings = Settings.from_env({"VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path}/videau.db"})
    secret = settings.kept(name)
    assert [len(each) for each in secret] == [64]
    assert settings.kept(name) == secret
    file = tmp_path / f"videau.db.{name.replace('_', '-')}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 1


def test_a_given_secret_is_used_and_none_is_kept(tmp_path: Path) -> None:
    env = {"VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path}/videau.db", "VIDEAU_SECRET": "s" * 32}
    assert Settings.from_env(env).kept("secret") == ("s" * 32,)
    assert not (tmp_path / "videau.db.secret").exists()


@pytest.mark.parametrize("name", ["secret", "dice_secret", "signing_key"])
def test_secrets_are_several_and_the_first_is_the_newest(tmp_path: Path, name: str) -> None:
    new, old = "a" * 64, "b" * 64
    env = {"VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path}/videau.db"}
    (tmp_path / f"videau.db.{name.replace('_', '-')}").write_text(f"{new}\n\n{old}")
    assert Settings.from_env(env).kept(name) == (new, old)
    given = Settings.from_env({**env, f"VIDEAU_{name.upper()}": f"{old}, {new}"})
    assert given.kept(name) == (old, new)


@pytest.mark.parametrize("name", ["secret", "dice_secret", "signing_key"])
@pytest.mark.parametrize("second", ["", "tooshort", "a" * 64])
def test_what_is_wrong_with_one_of_several_secrets_is_said_without_telling_it(
    tmp_path: Path, name: str, second: str
) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_env({f"VIDEAU_{name.upper()}": f"{'a' * 64},{second}"})
    assert f"VIDEAU_{name.upper()}" in str(error.value)
    assert "aaaa" not in str(error.value)
    assert not second or second not in str(error.value)


def test_a_file_of_secrets_that_is_empty_or_no_text_is_named(tmp_path: Path) -> None:
    settings = Settings.from_env({"VIDEAU_DATABASE_URL": f"sqlite:///{tmp_path}/videau.db"})
    file = tmp_path / "videau.db.secret"
    for content, said in ((b"\n", "is empty"), (b"\xff" * 40, "cannot read the secret")):
        file.write_bytes(content)
        with pytest.raises(SettingsError, match=said) as error:
            settings.kept("secret")
        assert str(file) in str(error.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_postgresql_is_named_without_its_password(scheme: str) -> None:
    settings = Settings.from_env({"VIDEAU_DATABASE_URL": f"{scheme}://me:secret@host:5433/videau"})
    assert settings.url.drivername == "postgresql+psycopg"
    assert settings.database == "postgresql://me:***@host:5433/videau"


@pytest.mark.parametrize("name", ["secret", "dice_secret", "signing_key"])
def test_with_postgresql_each_secret_must_be_given(name: str) -> None:
    """Every process has the same: no file of one machine can hold it."""
    settings = Settings.from_env({"VIDEAU_DATABASE_URL": "postgresql://host/videau"})
    with pytest.raises(SettingsError, match=f"VIDEAU_{name.upper()} is not set; with PostgreSQL it must be"):
        settings.kept(name)
