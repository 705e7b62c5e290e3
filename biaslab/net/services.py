"""Services that draw and are not shaped like OpenAI's, by entry points ``biaslab.images`` of installed packages.

An entry point is a function of :class:`biaslab.net.settings.EndpointSettings` and of the key, empty where none is
asked for, that returns a :class:`Service` and asks nothing of it yet. ``endpoint.service`` names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from biaslab.ground import plugins
from biaslab.ground.errors import ParameterError, loading

if TYPE_CHECKING:
    from biaslab.net.settings import EndpointSettings


@dataclass(frozen=True)
class Picture:
    """A picture as a service sends it."""

    data: bytes  # The content of a file: PNG, JPEG or WebP.
    revised_prompt: str = ""  # What it says that it drew in the place of the prompt.


class Service(Protocol):
    """A service that draws, at once or after a while; its methods are called by several threads."""

    def submit(self, prompt: str, index: int) -> str:
        """Ask for one image of a prompt, its ``index``-th from 0; return what to collect it by, now or by another run.

        Raises ServiceError: There will be no image.
        """

    def collect(self, ticket: str) -> Picture | None:
        """Return the image behind what :meth:`submit` returned, in any process; None where it is not ready.

        Raises ServiceError: There will be no image, or not yet.
        """


class ServiceError(Exception):
    """A service gives no image.

    ``outcome`` is ``refused`` (its policy stopped the prompt or the image), ``rejected`` (it does not take this
    request), ``lost`` (the image is gone) or ``unavailable`` (try again later), else a ValueError. ``detail`` is what
    it says, in a few words; ``charged`` whether it may be charged for, so that its price stays counted; ``wait`` the
    seconds after which it asks to be tried again.
    """

    OUTCOMES = ("refused", "rejected", "lost", "unavailable")

    def __init__(self, outcome: str, detail: str = "", *, charged: bool = False, wait: float | None = None) -> None:
        super().__init__(detail or outcome)
        if outcome not in self.OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; allowed are {', '.join(self.OUTCOMES)}")
        self.outcome, self.charged, self.wait = outcome, charged, wait


def opened(settings: EndpointSettings, key: str) -> Service:
    """Return the service that ``settings`` name.

    Raises UnknownNameError: No installed package brings it. ParameterError: It is none, or cannot be loaded.
    """
    point = plugins.point(plugins.IMAGES, settings.service, "service of images")
    with loading(settings.service, "service of images"):
        service = point.load()(settings, key)
    lacking = [name for name in ("submit", "collect") if not callable(getattr(service, name, None))]
    if lacking:
        raise ParameterError(f"What {point.value} makes is no service of images: it has no method {lacking[0]!r}.")
    return service
