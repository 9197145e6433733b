"""A demonstration with everything real but the workers: etcd, the proxy, the control API, and a watcher on etcd."""
