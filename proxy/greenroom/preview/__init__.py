"""Previews: etcd's API once more, on ports of their own, with held keys as if they were released.

A preview is for the few who check a worker, so it is a plain grpc.aio server that knows the calls frontends make, and
no relay. What is shown is decided in `core.preview`, `core.preview_reads` and `core.preview_watch`; here are the
server (`server`), its calls (`requests`, `unary`, `watching`, `keep_alives`), and the ones that are open (`previews`).
"""
