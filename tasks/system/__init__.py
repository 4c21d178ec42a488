"""The operating system: processes, files, git, Python environments, the network, the hardware."""
