"""Hands pytest the harness's options when it is started in this repository."""

pytest_plugins = ["bench.plugin"]
