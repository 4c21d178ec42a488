"""Run the command `torchyard`, or `python -m torchyard`."""

import sys

from torchyard import find_code_folder, make_tasks_importable


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 a bug, 3 wrong settings or arguments."""
    code = find_code_folder()
    make_tasks_importable(code)
    from tasks.cli.startup import prepare_process  # noqa: PLC0415 - needs the module search path

    prepare_process()
    from tasks.cli.front import run_command_line  # noqa: PLC0415 - after prepare_process

    sys.exit(run_command_line(sys.argv[1:], code))


if __name__ == "__main__":
    main()
