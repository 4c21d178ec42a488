"""env: one resolved environment, as a manifest for the stages and as scripts for people.

Given: the settings and deps.json; with strategy source also the tree, whose requirements it
installs.
Leaves: env.json (source builds), extension-env.json (extensions), cache-env.json (what puts a
compiler cache before the extensions' compilers), env.ps1 and, but on Windows, env.sh.
Reruns when: a flag, a variable, the targets, the toolkit, a compiler or the tree changed, or a
script is gone.
"""
