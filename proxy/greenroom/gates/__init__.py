"""Gates: what runs checks of held instances, and the checks that come along.

`guard` and `guarded` start a command and see to it that nothing of it is left, `environment` is what a check is told,
`checks` are the built-in ones and the server that runs them for others.
"""
