"""How long a newcomer waits from a clone to what the first job wrote: `make setup` and the first lines of README.

Run it as `python tests/benchmarks/first_job.py [SOURCE]`: it clones SOURCE (this repository unless another is named)
into a folder that it removes, types the commands one after the other in one shell, with a home of their own, and prints
a line of JSON: seconds from the first to the end of each. What pip has in its cache is not fetched again, as on a
machine where Python was used before.

Source: issue "The first hour": clone to first job's log in at most four commands.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_MOST_COMMANDS: Final = 4


def commands_of(readme: str) -> list[str]:
    """Return what README says to type until the first job runs, `make setup` before it.

    Raises:
        SystemExit: README has no such lines, or too many.
    """
    found = re.search(r"## Ten lines of use\n.*?```sh\n(.*?)```", readme, re.DOTALL)
    lines = [line.partition("  #")[0].strip() for line in found[1].splitlines()] if found else []
    ends = [at for at, line in enumerate(lines) if line.startswith("argosy run ")]
    if not ends or ends[0] + 2 > _MOST_COMMANDS:
        raise SystemExit(f"README does not run a first job within {_MOST_COMMANDS} commands")
    return ["make setup", *lines[: ends[0] + 1]]


def main(source: str) -> None:
    """Clone, type, print."""
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("ARGOSY_", "VIRTUAL_ENV", "PYTHON"))
    }
    with tempfile.TemporaryDirectory(prefix="argosy-first-job-") as directory:
        environment = {**kept, "ARGOSY_HOME": f"{directory}/home", "XDG_CONFIG_HOME": f"{directory}/config"}
        began = time.monotonic()
        subprocess.run(("git", "clone", "--quiet", source, f"{directory}/argosy"), check=True)
        figures: dict[str, float] = {"git clone": round(time.monotonic() - began, 1)}
        folder = Path(directory, "argosy")
        commands = commands_of((folder / "README.md").read_text(encoding="utf-8"))
        shell = subprocess.Popen(
            ["bash", "-e"], cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert shell.stdin is not None
        assert shell.stdout is not None
        try:
            written = []
            for number, command in enumerate(commands):
                # A machine that has a mesh already has another port.
                typed = command.replace("argosy up", "argosy up --port 0")
                shell.stdin.write(f"{{ {typed}; }} </dev/null\necho end-of-{number}\n")
                shell.stdin.flush()
                for line in shell.stdout:
                    if line == f"end-of-{number}\n":
                        break
                    written.append(line)
                else:
                    raise SystemExit(f"{command}: failed")
                figures[command] = round(time.monotonic() - began, 1)
            if not any("started" in line for line in written):
                raise SystemExit("the first job wrote nothing")
        finally:
            shell.stdin.write("argosy down --purge --yes >&2\n")
            shell.stdin.close()
            shell.stdout.read()
            shell.wait()
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(*(sys.argv[1:2] or [str(_ROOT)]))
