"""Gates: what runs checks of held instances, and the checks that come along.

`guard` and `guarded` start a command and see to it that nothing of it is left, `environment` is what a check is told,
`checks` are the built-in ones and the server that runs them for others.

The runner: `gate_config` says which gates it has, `selection` for whom, `plan` decides (pure) what is to run, `runner`
carries that out. A `gate_run` claims (`claiming`) an attempt, has a frontend (`frontends`, `frontend`) where one is
wanted, runs a command (`exec_check`) or asks a URL (`url_check`), and reports.
"""
