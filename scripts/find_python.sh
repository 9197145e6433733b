#!/bin/sh
# Prints the path of a Python that can make the project's environment: 3.11 or newer, with venv and pip's installer.
# The rule: a candidate counts only if it runs; a version manager's shim of that name may not.
for name in "$PYTHON" python3.11 python3.12 python3.13 python3.14 python3; do
    [ -n "$name" ] || continue
    "$name" -c 'import ensurepip, sys, venv
if sys.version_info < (3, 11): sys.exit(1)
print(sys.executable)' 2>/dev/null && exit 0
done
echo "set-up: no Python 3.11 or newer with venv and ensurepip on PATH (on Debian: apt-get install python3-venv);" \
    "PYTHON=/path/to/python names one" >&2
exit 1
