"""The images of clouds that are transferred to hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from twinloop.platform import Platform
    from twinloop.platform.clouds import Image


class CloudImage(NamedTuple):
    """An image that is transferred: the number of its cloud, its description, its store."""

    cloud: int
    image: Image
    store: int


def list_images(platform: Platform) -> list[CloudImage]:
    """List the images of all clouds that are transferred, by their native numbers.

    >>> from twinloop.platform import Platform
    >>> list_images(Platform(clusters=[{"hosts": [{"cores": 1}]}], clouds=[{"name": "a"}]))
    []
    """
    names = [store.name for store in platform.stores]
    return [
        CloudImage(number, image, names.index(image.store) if image.store else 0)
        for number, cloud in enumerate(platform.clouds)
        for image in cloud.images
        if image.size > 0
    ]
