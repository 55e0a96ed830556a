#!/usr/bin/env python3
"""Set keys of Pulsar's configuration files from the environment: KEY or PULSAR_PREFIX_KEY; files are the arguments."""

import os
import sys
from pathlib import Path

PREFIX = "PULSAR_PREFIX_"
wanted = {name.removeprefix(PREFIX): value for name, value in os.environ.items() if name.startswith(PREFIX)}
for name in sys.argv[1:]:
    path, open_keys, lines = Path(name), dict(wanted), []
    for line in path.read_text(encoding="utf-8").splitlines():
        key = line.lstrip("# ").partition("=")[0].strip()
        plain = not line.startswith("#") and "=" in line
        value = open_keys.pop(key, os.environ.get(key) if plain else None) if key else None
        lines.append(f"{key}={value}" if value is not None and "=" in line else line)
    lines += [f"{key}={value}" for key, value in open_keys.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
