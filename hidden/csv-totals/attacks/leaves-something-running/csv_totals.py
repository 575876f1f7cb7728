"""Leaves a process behind that holds standard output open."""

import subprocess

subprocess.Popen(["sleep", "600"], start_new_session=True)
