"""What speakers of HTTP/2 share: frames, header blocks, SETTINGS. No I/O, no clock, nothing of etcd or gRPC's calls.

The relay passes frames between a client and etcd; the proxy's own unary calls to etcd are made over connections of
their own (`store.unary`). Both speak with what is here, and know nothing of each other.
"""
