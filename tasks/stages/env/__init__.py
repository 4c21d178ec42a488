"""env: resolve the environment of builds and programs, and write its manifests and scripts.

Inputs: the settings and deps.json; with strategy source also the tree, whose requirements are
installed.

Outputs: env.json (source builds, with reasons), extension-env.json (extensions), cache-env.json
(the compiler cache launchers of extensions). For a shell to read: env.sh and env.ps1, on Windows
env.bat and env.ps1. To run a program in the environment for training and inference: run.sh with the
link run, and run.ps1, on Windows run.bat and run.ps1.

Reruns when: a flag, a variable, the targets, the toolkit, a compiler, the tree or the settings
runtime changed, or a script is gone. The settings runtime affect only the wrappers, so that no
later stage reruns.
"""
