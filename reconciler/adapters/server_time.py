"""What time it is at an HTTP server, by the `Date` of any answer that it gives.

Decides nothing: how much two clocks may differ is for whoever asks. Whatever the answer says otherwise is not looked at.
Source: RFC 9110, section 6.6.1.
"""

from email.utils import parsedate_to_datetime

import requests
from urllib3.exceptions import HTTPError

from reconciler.model.clocks import ahead_seconds
from reconciler.ports import Clock, Transient

_SECONDS = 5.0


def ahead_of(url: str, clock: Clock) -> float:
    """Seconds by which the server's clock is before ours, to the second. Raises Transient where it does not answer or say."""
    before = clock.now()
    try:
        answer = requests.head(url, timeout=_SECONDS, allow_redirects=False)
    except (requests.RequestException, HTTPError, ValueError) as error:  # requests lets some of urllib3's through
        raise Transient(f"{url} does not answer: {error}") from error
    after = clock.now()
    try:
        said = parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, ValueError) as error:
        raise Transient(f"{url} does not say what time it is") from error
    return ahead_seconds(said, before, after)
