"""The built-in checks: what a gate can ask of a worker, through a frontend that sees it.

`place` says where to ask, `asking` asks over HTTP within bounds, `chats` writes chat requests and reads their answers.
Of the checks each has a file: `completion`, `models`, `golden` (its file: `golden_file`), `latency` (its arithmetic:
`spread`), `card`. `ending` gives each its time and turns what became of it into one line and an exit code.

The rule: a check returns what it found in one sentence, or raises CheckFailed or CheckInconclusive with one. It decides
nothing else, and believes nothing that the asked one says about lengths, ends or types.
"""
