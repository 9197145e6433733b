"""The benchmark's own loader beside h2load, straight at etcd: whether it is light enough to be believed.

The rule: the same call, though h2load asks for the same key again and again, since it has one body for all calls.
"""

import subprocess
from pathlib import Path

from tests.bench.figures import Case, Sample, percentile
from tests.bench.http2 import HOST
from tests.bench.loader import Job, load
from tests.bench.session import Session
from tests.bench.ways import DIRECT
from tests.bench.workloads import KEYS, WORKLOADS
from tests.support.frames import framed_message

SUBJECT = "loader"
H2LOAD, OURS = "h2load", "loader"
WARM_UP_SECONDS = 1
"""h2load takes whole seconds."""


def measure(session: Session) -> None:
    """One round at each number of connections."""
    if not session.options.wants(SUBJECT):
        return
    session.say(SUBJECT)
    workload = WORKLOADS["range"]
    seconds = session.options.seconds
    session.set_up(WORKLOADS["put256"].path, WORKLOADS["put256"].template, KEYS, 0)
    for connections in session.options.connections:
        port = session.ways[DIRECT].port
        job = Job(port, workload.path, workload.template, connections, seconds, WARM_UP_SECONDS, keys=KEYS)
        ours = load(job)
        figures = {"calls_per_second": ours.calls / ours.seconds, "p50_us": ours.p50_us, "p99_us": ours.p99_us}
        session.samples.append(Sample(Case(SUBJECT, connections), OURS, 1, figures))
        theirs = _h2load(session.folder, job)
        session.samples.append(Sample(Case(SUBJECT, connections), H2LOAD, 1, theirs))


def _h2load(folder: Path, job: Job) -> dict[str, float]:
    body, log = folder / "body", folder / "h2load.log"
    log.unlink(missing_ok=True)
    body.write_bytes(framed_message(job.template.filled(0, 0)))
    seconds = max(1, round(job.seconds))
    command = ["h2load", "-D", str(seconds), "--warm-up-time", str(WARM_UP_SECONDS), "-c", str(job.connections)]
    command += ["-m", "1", "-d", str(body), "--log-file", str(log)]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{HOST}:{job.port}{job.path}"]
    subprocess.run(command, capture_output=True, text=True, check=True)
    latencies = sorted(float(line.split("\t")[2]) for line in log.read_text().splitlines())
    return {
        "calls_per_second": len(latencies) / seconds,
        "p50_us": percentile(latencies, 50),
        "p99_us": percentile(latencies, 99),
    }
