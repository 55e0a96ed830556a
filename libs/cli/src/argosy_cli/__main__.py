"""The `argosy` command.

The bare help is printed from a table, without the command framework, because importing that alone takes most of the
100 ms that `--help` may take.

Source: design section 9, "`--help` under 100 ms".
"""

import os
import sys

from argosy_cli.catalogue import help_text

__all__ = ["main"]

_OBJECTS_BETWEEN_SEARCHES = 50_000
"""More than a short command makes; one that goes on for hours still frees its cycles."""


def main() -> int:
    """Run the command line of this process and return its exit code."""
    arguments = sys.argv[1:]
    if (not arguments or arguments in (["--help"], ["-h"])) and "_ARGOSY_COMPLETE" not in os.environ:
        sys.stdout.write(help_text())
        return 0
    import gc

    # What is imported stays, so looking for cycles in it finds none; that takes a tenth of the time of a short command.
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
    from argosy_cli.root import run

    code = run(arguments)
    gc.freeze()  # nothing looks for cycles in what ends with the process, which takes longer than many a call
    return code


if __name__ == "__main__":
    sys.exit(main())
