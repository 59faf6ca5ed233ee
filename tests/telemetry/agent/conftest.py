"""The stub driver, compiled once, and machines that have it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_machine import Machine

SOURCE = Path(__file__).parent / "stub" / "nvml_stub.c"


def _compile(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build the stub of libnvidia-ml.so.1")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", *flags, "-o", folder / "libnvidia-ml.so.1", SOURCE, "-lpthread"],
        check=True,
    )
    return folder


@pytest.fixture(scope="session")
def current_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def old_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("old_driver"), "-DOLD_DRIVER")


@pytest.fixture
def machine(current_driver: Path, tmp_path: Path) -> Iterator[Machine]:
    node = Machine(current_driver, tmp_path)
    yield node
    node.end()


@pytest.fixture
def old_machine(old_driver: Path, tmp_path: Path) -> Iterator[Machine]:
    node = Machine(old_driver, tmp_path)
    yield node
    node.end()


@pytest.fixture
def bare_machine(tmp_path: Path) -> Iterator[Machine]:
    """A node without any driver."""
    (tmp_path / "nothing").mkdir()
    node = Machine(tmp_path / "nothing", tmp_path)
    yield node
    node.end()
