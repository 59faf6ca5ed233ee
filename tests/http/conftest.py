from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from replay import Replay, replay_server

from sources.http import HttpWeb, Patience
from sources.http_limits import HostLimiter


@pytest.fixture
def replay() -> Iterator[Replay]:
    with replay_server() as server:
        yield server


@pytest.fixture
def naps() -> list[float]:
    """Seconds that the client asked to sleep, in order; nothing really sleeps."""
    return []


@pytest.fixture
def make_web(naps: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., HttpWeb]]:
    for name in ("ALMANAC_CONTACT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    made: list[HttpWeb] = []

    def make(**options: object) -> HttpWeb:
        defaults: dict[str, object] = {
            "contact": "ops@example.org",
            "limiter": HostLimiter({}, default_rate=10_000, sleep=lambda _: None),
            "sleep": naps.append,
            "patience": Patience(read_s=2.0, total_s=5.0),
        }
        made.append(HttpWeb(**{**defaults, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for web in made:
        web.close()


@pytest.fixture
def web(make_web: Callable[..., HttpWeb]) -> HttpWeb:
    return make_web()
