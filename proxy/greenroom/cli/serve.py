"""`greenroom serve`: the options, which are the settings' fields, and the start."""

from typing import Annotated

import typer

Text = str | None
Flag = bool | None


def serve(
    upstream: Annotated[
        list[str] | None,
        typer.Option("--upstream", metavar="URL[,URL…]", help="etcd, as http://127.0.0.1:2379, or https."),
    ] = None,
    upstream_user: Annotated[
        Text,
        typer.Option(
            "--upstream-user",
            metavar="NAME",
            help="The proxy's own user of an etcd with auth on; `greenroom etcd-role` says what it needs.",
        ),
    ] = None,
    upstream_password_file: Annotated[
        Text,
        typer.Option(
            "--upstream-password-file",
            metavar="FILE",
            help="Its password, in one line, read again at each log-in. Or GREENROOM_UPSTREAM_PASSWORD.",
        ),
    ] = None,
    listen: Annotated[
        Text, typer.Option("--listen", metavar="HOST:PORT", help="For etcd's clients. (default: 127.0.0.1:2389)")
    ] = None,
    public_listen: Annotated[
        Text,
        typer.Option(
            "--public-listen", metavar="HOST:PORT", help="For clients of etcd's that are shown what is public only."
        ),
    ] = None,
    control_listen: Annotated[
        Text, typer.Option("--control-listen", metavar="HOST:PORT", help="Control API. (default: 127.0.0.1:2390)")
    ] = None,
    http_listen: Annotated[
        Text,
        typer.Option(
            "--http-listen",
            metavar="HOST:PORT",
            help="Control API as JSON, /live, /ready, /metrics. (default: 127.0.0.1:2391)",
        ),
    ] = None,
    policy: Annotated[
        Text, typer.Option("--policy", metavar="FILE", help="YAML: which instances need which gates.")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option("--gate", metavar="NAME=TIMEOUT", help="A gate for every instance, as smoke=900s; repeatable."),
    ] = None,
    embedded_etcd: Annotated[
        Flag, typer.Option("--embedded-etcd", help="Start an etcd of its own, and stop it at the end.")
    ] = None,
    embedded_etcd_listen: Annotated[
        Text, typer.Option("--embedded-etcd-listen", metavar="HOST:PORT", help="Its address. (default: any free port)")
    ] = None,
    data_dir: Annotated[
        Text, typer.Option("--data-dir", metavar="FOLDER", help="Its data, kept. (default: a temporary one, removed)")
    ] = None,
    advertise_client_url: Annotated[
        Text, typer.Option("--advertise-client-url", metavar="URL", help="What MemberList says. (default: --listen)")
    ] = None,
    access: Annotated[
        Text,
        typer.Option("--access", metavar="FILE", help="YAML: who may use control and HTTP ports, by token and role."),
    ] = None,
    open_metrics: Annotated[
        Flag, typer.Option("--open-metrics", help="With --access: /metrics without a token.")
    ] = None,
    public_advertise_client_url: Annotated[
        Text,
        typer.Option(
            "--public-advertise-client-url", metavar="URL", help="What it says there. (default: --public-listen)"
        ),
    ] = None,
    tls_cert: Annotated[
        Text, typer.Option("--tls-cert", metavar="FILE", help="Certificate of etcd's ports: they speak TLS then.")
    ] = None,
    tls_key: Annotated[Text, typer.Option("--tls-key", metavar="FILE", help="Its key.")] = None,
    tls_client_ca: Annotated[
        Text,
        typer.Option("--tls-client-ca", metavar="FILE", help="CAs that clients there must have a certificate of."),
    ] = None,
    control_tls_cert: Annotated[
        Text, typer.Option("--control-tls-cert", metavar="FILE", help="Certificate of the control and HTTP ports.")
    ] = None,
    control_tls_key: Annotated[Text, typer.Option("--control-tls-key", metavar="FILE", help="Its key.")] = None,
    control_tls_client_ca: Annotated[
        Text,
        typer.Option(
            "--control-tls-client-ca",
            metavar="FILE",
            help="CAs that clients there must have a certificate of; /live, /ready and /metrics need none.",
        ),
    ] = None,
    upstream_ca: Annotated[
        Text, typer.Option("--upstream-ca", metavar="FILE", help="CAs that an https:// etcd is verified by.")
    ] = None,
    upstream_cert: Annotated[
        Text, typer.Option("--upstream-cert", metavar="FILE", help="The proxy's own certificate, for etcd.")
    ] = None,
    upstream_key: Annotated[Text, typer.Option("--upstream-key", metavar="FILE", help="Its key.")] = None,
    preview_host: Annotated[
        Text, typer.Option("--preview-host", metavar="HOST", help="Where previews listen. (default: 127.0.0.1)")
    ] = None,
    preview_ports: Annotated[
        Text, typer.Option("--preview-ports", metavar="A-B", help="On which ports. (default: any free one)")
    ] = None,
    preview_advertise: Annotated[
        Text,
        typer.Option("--preview-advertise", metavar="HOST", help="What its clients are told. (default: its host)"),
    ] = None,
    preview_listen: Annotated[
        Text,
        typer.Option("--preview-listen", metavar="HOST:PORT", help="A preview that is open as long as the proxy runs."),
    ] = None,
    preview_selector: Annotated[
        Text,
        typer.Option("--preview-selector", metavar="K=GLOB,…", help="Which instances it shows. (default: all held)"),
    ] = None,
    insecure_preview: Annotated[
        Flag, typer.Option("--insecure-preview", help="Let previews reach beyond this machine.")
    ] = None,
    insecure_control: Annotated[
        Flag, typer.Option("--insecure-control", help="Let control and HTTP ports reach beyond this machine.")
    ] = None,
    allow_ungated: Annotated[
        Flag, typer.Option("--allow-ungated", help="Serve although no rule holds anything.")
    ] = None,
    allow_revoke_lease: Annotated[
        Flag, typer.Option("--allow-revoke-lease", help="Let people end a worker's lease: `greenroom revoke-lease`.")
    ] = None,
    log_level: Annotated[
        Text, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error. (default: info)")
    ] = None,
    log_format: Annotated[
        Text, typer.Option("--log-format", metavar="FORMAT", help="console or json. (default: console)")
    ] = None,
) -> None:
    """Stands before etcd and holds what new instances register until their gates pass.

    Every option can be given as a variable too: --control-listen as GREENROOM_CONTROL_LISTEN, and so on.
    """
    given = dict(locals())
    # Imported when they are needed: the other commands should start fast, and so should an error.
    from greenroom.settings import load_settings

    settings = load_settings(given)
    import uvloop

    from greenroom.app import run

    uvloop.run(run(settings))
