"""env: resolve the environment of builds and programs, and write its manifests and scripts.

Inputs: the settings and deps.json; with strategy source also the tree and its requirements.

Outputs: env.json (source builds, with reasons), extension-env.json (extensions), cache-env.json
(compiler cache launchers of extensions), the scripts env.* for a shell to read, and the wrappers
run.* that run a program.

Reruns when: a flag, a variable, the targets, the toolkit, a compiler, the tree or the settings
runtime changed, or a script is gone.
"""
