"""Colours of the pictures: how far they are apart, for people who see them all and who do not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from railyard.gateway.page.theme import DARK, LIGHT, css_variables

#: What is left of linear RGB: all of it; without the cones for long, middle and short waves.
#: Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision
#: deficiency, 2009, severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
#: linear RGB to CIE XYZ (sRGB's primaries, D65)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colours, vision):
    """CIE L*a*b* of "#rrggbb" as somebody sees them: differences of about 2 can just be seen."""
    rgb = np.array([[int(one[at : at + 2], 16) / 255 for at in (1, 3, 5)] for one in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ VISIONS[vision].T, 0, 1) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = f.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def least(some, others, vision):
    """The least distance of two different colours."""
    apart = np.linalg.norm(lab(some, vision)[:, None] - lab(others, vision)[None], axis=2)
    return min(apart[i, j] for i, a in enumerate(some) for j, b in enumerate(others) if a != b)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("vision", VISIONS)
def test_everybody_can_tell_jobs_schedulers_and_places_apart(theme, vision):
    normal = vision == "normal"
    assert least(theme.colours, theme.colours, vision) > (30 if normal else 9)
    assert least(theme.jobs, theme.jobs, vision) > (30 if normal else 20)
    assert least(theme.places, theme.places, vision) > (30 if normal else 20)
    assert least(theme.jobs, theme.colours, vision) > (20 if normal else 7.5)
    assert not set(theme.jobs) & set(theme.colours)
    ground = [theme.ground]
    assert least([*theme.jobs, *theme.colours, *theme.places], ground, vision) > 15


def test_loads_go_from_the_background_to_what_differs_most_from_it():
    for theme in (LIGHT, DARK):
        lightness = lab(theme.heat, "normal")[:, 0]
        steps = np.diff(lightness)
        assert (steps < 0).all() if theme is LIGHT else (steps > 0).all()


def test_pages_have_both_themes_colours():
    light, dark = css_variables().split("@media (prefers-color-scheme: dark)")
    for theme, css in ((LIGHT, light), (DARK, dark)):
        named = dict(re.findall(r"--(\w+): (#\w{6});", css))
        assert tuple(named[f"j{n}"] for n in range(len(theme.jobs))) == theme.jobs
        assert tuple(named[f"s{n}"] for n in range(len(theme.colours))) == theme.colours
        assert (named["h0"], named["h8"]) == (theme.heat[0], theme.heat[-1])
