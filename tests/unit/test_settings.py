"""Settings: defaults, files, environment, flags; each knows its origin."""

from pathlib import Path

import pytest

import headgate
from headgate import BadValue
from headgate.core.known_settings import KNOWN, Known
from headgate.core.values.redaction import mask
from headgate.settings import Setting, config_files, default_client, load
from headgate.store_search import search


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "home" / ".config" / "headgate").mkdir(parents=True)
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home / "home"), **more}


def write(home: Path, where: str, text: str) -> Path:
    path = home / ("work" if where == "work" else "home/.config/headgate") / "headgate.toml"
    path.write_text(text, encoding="utf-8")
    return path


def found(home: Path, flags: dict[str, str | None] | None = None, **more: str) -> dict[str, tuple[str, str]]:
    settings = load(flags, environment(home, **more), home / "work")
    return {setting.known.name: (setting.value, setting.origin) for setting in settings.all()}


def test_without_settings_the_defaults_apply(home: Path) -> None:
    assert found(home) == {known.name: (known.default, "default") for known in KNOWN}


def test_each_source_overrides_the_one_before(home: Path) -> None:
    user = write(home, "user", 'url = "sqlite:///user.db"\nclient = "user"\nlock_delay = 5\nguards = "file"')
    assert found(home)["url"] == (f"sqlite:///{user.parent}/user.db", str(user))
    work = write(home, "work", 'url = "sqlite:///work.db"\nclient = "work"\nlock_delay = 6')
    assert found(home)["url"] == (f"sqlite:///{home}/work/work.db", str(work))
    given = found(home, {"url": "sqlite:///flag.db"}, HEADGATE_URL="sqlite:///env.db", HEADGATE_CLIENT="env")
    beside = {
        known.name: str(home / "work" / known.default) for known in KNOWN if known.kind == "path" and known.default
    }
    assert given == {
        **{known.name: (beside.get(known.name, known.default), "default") for known in KNOWN},
        "url": ("sqlite:///flag.db", "--url"),
        "client": ("env", "HEADGATE_CLIENT"),
        "lock_delay": ("6", str(work)),
        "guards": ("file", str(user)),
    }


def test_an_empty_variable_and_a_missing_flag_are_ignored(home: Path) -> None:
    assert found(home, {"url": None}, HEADGATE_URL="")["url"] == ("", "default")


def test_the_file_of_the_working_folder_overrides_other_files(home: Path) -> None:
    work = write(home, "work", "")
    files = config_files(environment(home), search(home / "work", str(home / "home")))
    assert files[0] == work
    assert files[0] == home / "work" / "headgate.toml"
    assert files[1] == home / "home" / ".config" / "headgate" / "headgate.toml"
    assert files[2] == Path("/etc/headgate/headgate.toml")
    elsewhere = config_files({"XDG_CONFIG_HOME": "/else"}, search(home / "home", str(home / "home")))
    assert elsewhere[0] == Path("/else/headgate/headgate.toml")


def test_a_misspelt_setting_is_refused_with_a_hint(home: Path) -> None:
    path = write(home, "work", 'ulr = "sqlite:///x.db"')
    with pytest.raises(BadValue, match=r"setting 'ulr' in .* is unknown; did you mean 'url'\?") as error:
        found(home)
    assert str(path) in str(error.value)


def test_an_unknown_setting_without_similar_ones_is_refused_with_the_list(home: Path) -> None:
    write(home, "work", 'zzzzzz = "1"')
    with pytest.raises(BadValue, match="known: " + ", ".join(known.name for known in KNOWN)):
        found(home)


@pytest.mark.parametrize("text", ["url = [1, 2]", "[url]\nx = 1"])
def test_a_setting_is_a_single_value(home: Path, text: str) -> None:
    write(home, "work", text)
    with pytest.raises(BadValue, match="is not a single value"):
        found(home)


def test_a_file_that_is_not_toml_is_named(home: Path) -> None:
    path = write(home, "work", "url = sqlite:///x.db")
    with pytest.raises(BadValue, match="cannot be read") as error:
        found(home)
    assert str(path.parent) in str(error.value)


def test_an_invalid_number_names_its_origin(home: Path) -> None:
    settings = load({}, environment(home, HEADGATE_LOCK_DELAY="soon"), home / "work")
    with pytest.raises(BadValue, match=r"lock_delay 'soon' is not a duration.*\(set in HEADGATE_LOCK_DELAY\)"):
        settings.seconds("lock_delay")
    with pytest.raises(BadValue, match="lock_delay"):
        settings.check()
    assert load({"lock_delay": "2.5"}, environment(home), home / "work").seconds("lock_delay") == 2.5


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("3200000000000", 3_200_000_000_000), ("10GB", 10_000_000_000), ("512 MiB", 512 * 2**20),
        ("1.5 kb", 1500), ("2PiB", 2**51), (" 7 B ", 7), ("1e+16", 10**16), ("1000000000.0", 10**9),
    ],
)  # fmt: skip
def test_a_size_is_a_number_of_bytes_or_has_a_unit(home: Path, text: str, size: int) -> None:
    settings = load({"space_threshold": text}, environment(home), home / "work")
    settings.check()
    assert settings.size("space_threshold") == size


@pytest.mark.parametrize("text", ["", "10 G B", "10 GiBs", "-1", "nan", "inf", "lots", "9 PiB PiB", "10000 PiB"])
@pytest.mark.parametrize("name", ["space_threshold", "upload_limit"])
def test_an_invalid_size_says_how_to_write_one(home: Path, name: str, text: str) -> None:
    settings = load({name: text}, environment(home), home / "work")
    with pytest.raises(BadValue, match=rf"{name} .* is (not a size; write|too large)"):
        settings.check()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("7d", 604_800.0), ("1.5h", 5400.0), ("10 m", 600.0)])
def test_a_duration_may_have_a_unit(home: Path, text: str, seconds: float) -> None:
    assert load({"retention": text}, environment(home), home / "work").seconds("retention") == seconds


@pytest.mark.parametrize(
    ("name", "text"),
    [("retention", "-1"), ("retention", "10GB"), ("round_pause", "1e12"), ("rate_limit", "-1"), ("rate_limit", "nan")],
)
def test_invalid_settings_are_reported_when_a_store_is_opened(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(BadValue, match=name):
        headgate.connect(f"sqlite:///{tmp_path}/headgate.db", **{name: text})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s:e@c/r?e#t@host/db", "postgresql://me:***@host/db"),
        ("mysql://:secret@host/db", "mysql://:***@host/db"),
        ("postgresql://host/db?password=secret&x=1", "postgresql://host/db?password=***&x=1"),
        ("postgresql://host/db?sslpassword=secret", "postgresql://host/db?sslpassword=***"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:///headgate.db", "sqlite:///headgate.db"),
        ("zookeeper://a:1,b:2/chroot", "zookeeper://a:1,b:2/chroot"),
        ("no url", "no url"),
        ("", ""),
    ],
)
def test_a_password_is_masked(url: str, shown: str) -> None:
    assert mask(url) == shown


def test_a_setting_is_shown_masked_and_a_secret_not_at_all() -> None:
    known = Known("url", "", "The store.")
    assert Setting(known, "mysql://me:secret@h/d", "default").shown == "mysql://me:***@h/d"
    secret = Known("api_token", "", "Opens the service.", secret=True)
    assert Setting(secret, "hg_123", "default").shown == "(hidden)"
    assert Setting(secret, "", "default").shown == ""
    assert secret.variable == "HEADGATE_API_TOKEN"


def test_the_default_client_name_is_the_user_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "DOMAIN/me")
    monkeypatch.setattr("socket.gethostname", lambda: "node7")
    assert default_client() == "DOMAIN_me@node7"

    def nobody() -> str:
        raise KeyError("uid")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert default_client().endswith("@node7")


def test_secret_settings_are_marked() -> None:
    given = {
        "url": "postgresql://me:p%40ss@db/x",
        "api_token": "hg_1",
        "server": "http://host:8750",
        "mail_password": "",
    }
    assert load(given, {}).secrets() == ["hg_1", "p%40ss", "p@ss"]
