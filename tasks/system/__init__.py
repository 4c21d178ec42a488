"""Access the operating system: processes, files, git, Python environments, network and hardware."""
