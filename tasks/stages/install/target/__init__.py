"""A person's own environment: which interpreter is meant, what lies there, and what an installer
would put there. Nothing here changes it.

  interpreter   the setting install.into → a path, and what shows at a glance (at load)
  environment   what the interpreter says of itself, asked by `inside`, which runs in it
  resolving     what would be installed, by uv or pip
  unpacked      that, made ready in a folder of ours as it would lie there
"""
