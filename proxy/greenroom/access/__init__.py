"""Who may do what by the control API and the HTTP port.

A map of the words:

* A *role* (viewer, reporter, operator) is what a *caller* may do; `roles` has the table of methods with the least role.
* A caller is named by a *token*, of which the access file has only the hash, or by the certificate that it showed.
* `entries` are the callers as the file has them, `known` finds the one that a call comes from, `reloading` keeps that
  in step with the file.
* `authorise` says whether a caller may do what a request asks for, and puts the caller's name into it.
* `admission` is the one way in for a call, whichever port it comes by: it finds the caller, makes it the *acting* one,
  and sees to it that every refusal is logged and counted.

The rule: what is not allowed is refused, and a refusal changes nothing, tells a stranger nothing, and shows no secret.
"""
