"""Credentials and certificates that end, as far as that can be seen."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from microagg_core.errors import ClusterError, MicroaggError, StorageError
from microagg_core.release.surroundings import END, TOKEN
from microagg_core.spec.clusters import RunningCluster
from microagg_flows.doctor import Finding, Patient, looked, strange, well, wrong

#: What ends before the next night has been made is worth a word.
_SOON = datetime.timedelta(hours=36)


def look(patient: Patient) -> Iterator[Finding]:
    yield from _keys(patient)
    yield from looked("certificate", lambda: _certificate(patient))


def _keys(patient: Patient) -> Iterator[Finding]:
    ends = [around.end_of_credentials for around in patient.around.values() if around.end_of_credentials]
    if ends:
        try:
            end = min(datetime.datetime.fromisoformat(text).astimezone(datetime.UTC) for text in ends)
        except ValueError:
            yield strange("credentials", f"{END} is no moment; set it as 2026-11-18T03:00:00Z")
            return
        yield ending("credentials", "what is in the environment", end, patient.now, StorageError)
    elif any(TOKEN in around.variables for around in patient.around.values()):
        yield strange(
            "credentials", f"{TOKEN} is set, so these keys end, and nobody says when; use a role or a profile instead"
        )
    else:
        yield well("credentials", "none that is seen to end")


def _certificate(patient: Patient) -> Iterator[Finding]:
    cluster = patient.spec.cluster
    if not isinstance(cluster, RunningCluster) or cluster.tls is None:
        return
    from cryptography.x509 import load_pem_x509_certificate

    try:
        certificate = load_pem_x509_certificate(Path(cluster.tls.cert).read_bytes())
    except (OSError, ValueError):
        raise ClusterError(f"{cluster.tls.cert} is no certificate that can be read; correct cluster.tls.cert") from None
    yield ending("certificate", "cluster.tls.cert", certificate.not_valid_after_utc, patient.now, ClusterError)


def ending(
    about: str, what: str, end: datetime.datetime, now: datetime.datetime, error: type[MicroaggError]
) -> Finding:
    """Judge whether something that ends has ended, or will soon.

    >>> now = datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC)
    >>> ending("certificate", "it", now + 9 * _SOON, now, ClusterError).line()
    'ok       certificate: it ends at 2026-12-01 12:00 UTC'
    """
    when = f"{end:%Y-%m-%d %H:%M} UTC"
    if end <= now:
        return wrong(about, error(f"{what} ended at {when}; get new ones"))
    says = f"{what} ends at {when}"
    return strange(about, f"{says}, before long; get new ones") if end - now < _SOON else well(about, says)
