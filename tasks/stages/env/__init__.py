"""env: resolve the environment variables of builds and programs; write manifests and scripts.

Inputs: the settings and deps.json; with strategy source also the tree and its requirements.

Outputs: env.json (source builds, with reasons), extension-env.json (extensions), cache-env.json
(compiler cache launchers of extensions), the scripts env.* to source in a shell, and the wrappers
run.* that start a program.

Reruns when: a flag, a variable, the targets, the toolkit, a compiler, the tree or a runtime
setting changed, or a script is missing.
"""
