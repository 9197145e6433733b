"""The data plane: an HTTP/2 frame relay between gRPC clients and etcd that can answer single calls itself.

A map of the words, in the order bytes meet them:

* `server` listens, dials, drains; `connection` joins one client socket, one upstream socket and one core.
* `core` is the sans-IO heart: bytes in, two lists of bytes and a list of effects out. `dialogue` is what both
  directions share, `streams` what is known of each call.
* `client_frames` and `upstream_frames` say what each frame does; a frame passes unless its handler cuts it out.
* `blocks` and `heads` learn the path of a request (frames and header blocks themselves: `greenroom.http2`); `messages`,
  `compressed` and `inspection` look into its messages.
* `windows` keeps flow control honest although the relay adds and takes away bytes; `settings` and `pings` do the same
  for the frames of their name.
* `turns` says which local handlers are at work, `answers` writes what they answered; `calls` is the contract with the
  rest of the program.

Its rule: upstream only hears of bytes that were decided to pass, and knows nothing of the streams answered here.
"""
