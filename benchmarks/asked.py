"""Processes that are asked by a line and answer with a line of JSON."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Asked:
    """One of them. name: for the error when it ends too soon."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def answer(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with code {self.process.wait()}.")
        return json.loads(line)

    def ask(self, word: str) -> Any:
        """Tell it what to do, and wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.answer()

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        with self.process:  # closes its pipes and waits
            pass
