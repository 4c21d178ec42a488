"""Run ccache and sccache, their remote storage, and distributed compilation."""
