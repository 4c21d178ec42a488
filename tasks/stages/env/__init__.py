"""env: one resolved environment, as a manifest for the stages and as scripts for people.

Given: the settings and deps.json; with strategy source also the tree, whose requirements it
installs.
Leaves: env.json (source builds, with reasons), extension-env.json (extensions), cache-env.json
(what puts a compiler cache before the extensions' compilers). For a shell to read: env.sh and
env.ps1, on Windows env.bat and env.ps1. To run a program in the environment to train and to serve
in: run.sh with the link run, and run.ps1, on Windows run.bat and run.ps1.
Reruns when: a flag, a variable, the targets, the toolkit, a compiler, the tree or the settings
runtime changed, or a script is gone. Those of runtime reach the wrappers alone, so that nothing
after it runs again.
"""
