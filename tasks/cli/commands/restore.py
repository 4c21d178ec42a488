"""`doit restore`: restore what this profile replaced in the user's environment.

What to restore is read from build/PROFILE/replaced, because the settings may have changed.
"""

from pathlib import Path

from tasks.core.errors import NotOwnedError, TorchyardError
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import stage_record_io
from tasks.stages.install import install_commit_io, install_journal_io
from tasks.system import files, manifests
from tasks.system.invocation import add_profile_argument, format_profile_argument
from tasks.system.output import print_report, print_warning


def run(subject: SelectedProfile, yes: bool = False) -> None:
    """Show what would be restored; with `yes`, restore it."""
    build = subject.build
    backups = list(install_journal_io.list_stamps(build / "replaced"))
    backups = [one for one in backups if install_journal_io.read_latest_record(one)]
    if not backups:
        print_report("nothing to restore: this profile replaced nothing in your environments")
    elif not files.is_owned(build):
        raise NotOwnedError("torchyard did not create this folder", location=str(build))
    for backup in backups:
        _show_replaced(backup)
    if yes and (build / "replaced").is_dir():
        _restore_all(build, subject)
    elif backups:
        command = f"doit restore --yes{format_profile_argument(subject.name)}"
        print_report(f"nothing was changed yet; to restore these files, run: {command}")


def _restore_all(build: Path, subject: SelectedProfile) -> None:
    problems, note = [], "every file is identical to the original"
    with files.lock_folder(build):  # no other run may use the folder
        manifests.remove_manifests(build / "install.json")
        stage_record_io.note_removal(build / "install.json", "doit restore")
        for backup in install_journal_io.list_stamps(build / "replaced"):
            try:
                record = install_journal_io.read_latest_record(backup)
                install_commit_io.restore_environment(backup)
            except TorchyardError as error:
                problems.append(error)  # the other backups are restored nevertheless
            else:
                if record:
                    print_report(f"restored {record.prefix}: {note}")
    if subject.opened and subject.opened.loaded.settings.install.into:
        notice = "install.into is still set: the next doit build installs the wheels again"
        print_report(add_profile_argument(notice, subject.name))
    for problem in problems[1:]:
        print_warning(str(problem))
    for problem in problems[:1]:
        raise problem


def _show_replaced(backup: Path) -> None:
    record, change = install_journal_io.read_record(backup), install_journal_io.read_pending(backup)
    if change and change.result:
        record, change = change.result, None  # the installation was committed, but not yet recorded
    if record:
        print_report(f"in {record.prefix}:")
        for line in install_journal_io.describe_rollback(record):
            print_report(f"  {line}")
    if change:
        print_report(
            f"in {change.exchange.prefix}: an installation was interrupted; --yes undoes it"
        )
