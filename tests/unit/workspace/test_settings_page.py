"""The page of settings is what the configuration classes say."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

import settings_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds."""

    wait_ms: float = 5.0
    """How long to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weigher:
    """Configuration of the weigher."""

    SERVICE: ClassVar[str] = "weigher"

    scale: str
    """Where the scale is."""
    limits: Limits = field(default_factory=Limits)
    """Its bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """Configuration of the counter."""

    SERVICE: ClassVar[str] = "counter"

    is_loud: bool = True
    """Whether it says | what it counts."""
    limits: Limits = field(default_factory=Limits)
    """Its bounds."""


def test_page_of_settings_is_fresh() -> None:
    """`make docs` writes it anew after a setting has changed."""
    assert list(settings_page.faults(settings_page.page(settings_page.config_types()))) == []


def test_every_service_is_on_the_page_and_every_setting_says_what_it_means() -> None:
    """A class with a variable SERVICE is found wherever it stands."""
    types = settings_page.config_types()
    assert {"server", "executor", "sampler"} < {kind.SERVICE for kind in types}
    silent = [
        f"{kind.SERVICE}: {one.key}" for kind in types for one in settings_page.setting_texts(kind) if not one.text
    ]
    assert silent == []


def test_row_has_key_default_unit_and_meaning() -> None:
    """What is needed says so, and what another service has in common is told once."""
    lines = settings_page.page([Weigher, Counter]).splitlines()
    assert "| `scale` | needed | text | Where the scale is. |" in lines
    assert lines.count("| `limits.wait_ms` | `5.0` | ms | How long to wait. |") == 1
    assert "Settings that are the same for others stand there: weigher." in lines
    assert "| `is_loud` | `true` | true, false | Whether it says \\| what it counts. |" in lines


def test_stale_page_is_told_with_the_command_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` fails and changes nothing."""
    stale = tmp_path / "settings.md"
    stale.write_text("old")
    monkeypatch.setattr(settings_page, "ROOT", tmp_path)
    monkeypatch.setattr(settings_page, "PAGE", stale)
    assert settings_page.main(["--check"]) == 1
    assert "settings.md is stale: make docs" in capsys.readouterr().out
    assert settings_page.main([]) == 0
    assert settings_page.main(["--check"]) == 0
