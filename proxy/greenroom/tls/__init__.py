"""TLS on the ports that listen and on the way to etcd, from files that may change while all runs.

A map of the words:

* `settings` are the options, which become `files`: a certificate, its key, and the CAs of the other side.
* `trial` has a certificate examined before anybody else sees it; `contexts` makes of the files what asyncio and gRPC
  take, or says in one line which file is wrong.
* `reloading` looks at the files again and again; `newest` lets each new connection have what was read last.
* `refusals` counts the clients that were not let in; `identity` says who one is that was.
* `sides` are the three of one proxy: the ports of etcd's clients, the ports of control, and upstream.

Its rule: a file that is wrong is refused at the start and ignored later; connections that stand are never touched.
"""
