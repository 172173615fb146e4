"""Renders mini50's objects: synthetic videos of things made from simple parts, session by session.

No photograph is used. A category is a set of parts; its objects differ in proportions, hues and patterns. A session has
its own background, light, pose, scale, occlusion and noise, and each object is seen in it as a short video. Everything
follows from the seed, the world's name and VERSION: whoever changes what is drawn raises VERSION.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

VERSION = 1
SIZE = 32
SCALE = 2  # rendered at SIZE·SCALE and averaged down
SESSIONS = 11


@dataclass(frozen=True)
class Part:
    """One piece of an object: a shape with a place, a size, a turn, two colours and a pattern."""

    kind: int  # 0 ellipse, 1 box, 2 ring, 3 triangle, 4 capsule
    centre: Floats
    size: Floats
    turn: float
    colours: Floats  # [2, 3], from 0 to 1
    pattern: int  # 0 plain, 1 stripes, 2 dots, 3 checks
    frequency: float


@dataclass(frozen=True)
class Session:
    """What is common to all videos of one session."""

    backdrop: Floats  # [3, 3] colours
    backdrop_kind: int  # 0 gradient, 1 planks, 2 blobs, 3 grid
    backdrop_frequency: float
    light: Floats  # its direction in the plane
    contrast: float  # how much the light models the shapes
    brightness: float
    cast: Floats  # colour cast, a factor for each channel
    turn: float  # the pose about which objects turn
    scale: float
    occlusion: float  # how far a hand reaches over the object
    hand: float  # from which side it comes
    noise: float
    blur: float


def draw_category(rng: np.random.Generator) -> list[Part]:
    """The parts that all objects of a category share, up to small changes."""
    parts = []
    for k in range(int(rng.integers(2, 5))):
        main = k == 0
        base = rng.uniform(0.15, 0.95, 3)
        parts.append(
            Part(
                kind=int(rng.integers(0, 5)),
                centre=np.zeros(2) if main else rng.uniform(-0.5, 0.5, 2),
                size=rng.uniform(0.45, 0.75, 2) if main else rng.uniform(0.15, 0.4, 2),
                turn=float(rng.uniform(0, 2 * np.pi)),
                colours=np.stack([base, np.clip(base + rng.uniform(-0.6, 0.6, 3), 0, 1)]),
                pattern=int(rng.integers(0, 4)),
                frequency=float(rng.uniform(5, 11)),
            )
        )
    return parts


def draw_object(category: list[Part], rng: np.random.Generator) -> list[Part]:
    """One object: the category's parts with other proportions, hues and patterns."""
    parts = []
    for part in category:
        hue = rng.uniform(-0.28, 0.28, 3)
        parts.append(
            Part(
                kind=part.kind,
                centre=part.centre + rng.uniform(-0.12, 0.12, 2),
                size=part.size * rng.uniform(0.75, 1.3, 2),
                turn=part.turn + float(rng.uniform(-0.3, 0.3)),
                colours=np.clip(part.colours + hue, 0, 1),
                pattern=int(rng.integers(0, 4)) if rng.random() < 0.35 else part.pattern,
                frequency=part.frequency * float(rng.uniform(0.75, 1.35)),
            )
        )
    return parts


def draw_session(rng: np.random.Generator) -> Session:
    """The circumstances of one session."""
    angle = rng.uniform(0, 2 * np.pi)
    return Session(
        backdrop=0.35 * rng.uniform(0, 1, (3, 3)) + 0.65 * rng.uniform(0.1, 0.9, (3, 1)),  # muted
        backdrop_kind=int(rng.integers(0, 4)),
        backdrop_frequency=float(rng.uniform(2, 7)),
        light=np.array([np.cos(angle), np.sin(angle)]),
        contrast=float(rng.uniform(0.15, 0.5)),
        brightness=float(rng.uniform(0.6, 1.25)),
        cast=rng.uniform(0.7, 1.25, 3),
        turn=float(rng.uniform(-np.pi, np.pi)),
        scale=float(rng.uniform(0.8, 1.2)),
        occlusion=float(rng.uniform(0.0, 0.5)),
        hand=float(rng.uniform(0, 2 * np.pi)),
        noise=float(rng.uniform(0.01, 0.06)),
        blur=float(rng.uniform(0.0, 0.8)),
    )


def distance(part: Part, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """The signed distance (about; negative inside) to a part, and the part's own coordinates."""
    c, s = np.cos(part.turn), np.sin(part.turn)
    dx, dy = x - part.centre[0], y - part.centre[1]
    u, v = (c * dx + s * dy) / part.size[0], (c * dy - s * dx) / part.size[1]
    if part.kind == 0:
        d = np.hypot(u, v) - 1
    elif part.kind == 1:
        d = np.maximum(np.abs(u), np.abs(v)) - 0.85
    elif part.kind == 2:
        d = np.abs(np.hypot(u, v) - 0.75) - 0.25
    elif part.kind == 3:
        d = np.maximum(np.abs(u) * 0.866 + v * 0.5, -v) - 0.55
    else:
        d = np.hypot(np.maximum(np.abs(u) - 0.6, 0), v) - 0.4
    return d * part.size.min(), u, v


def paint(part: Part, u: Floats, v: Floats) -> Floats:
    """The part's colour at its own coordinates, [..., 3]."""
    f = part.frequency
    if part.pattern == 0:
        share = np.zeros_like(u)
    elif part.pattern == 1:
        share = 0.5 + 0.5 * np.sin(f * u)
    elif part.pattern == 2:
        share = (np.sin(f * u) * np.sin(f * v) > 0.35).astype(float)
    else:
        share = (np.sin(f * u) * np.sin(f * v) > 0).astype(float)
    colour: Floats = part.colours[0] + share[..., None] * (part.colours[1] - part.colours[0])
    return colour


def backdrop(session: Session, x: Floats, y: Floats, shift: Floats) -> Floats:
    """The background behind the object, [..., 3]; it slides while the camera moves."""
    f = session.backdrop_frequency
    x, y = x + shift[:, 0, None, None], y + shift[:, 1, None, None]
    if session.backdrop_kind == 0:
        share = 0.5 + 0.5 * np.tanh(x + 0.5 * y)
    elif session.backdrop_kind == 1:
        share = 0.5 + 0.5 * np.sign(np.sin(f * x)) * (0.7 + 0.3 * np.sin(9 * y))
    elif session.backdrop_kind == 2:
        share = 0.5 + 0.5 * np.sin(f * x + 1.3 * np.sin(f * y)) * np.sin(f * y + np.sin(f * x))
    else:
        share = ((np.sin(f * x) > 0) ^ (np.sin(f * y) > 0)).astype(float)
    colours = session.backdrop
    mixed: Floats = colours[0] + share[..., None] * (colours[1] - colours[0])
    mixed += 0.25 * np.sin(2 * x + y)[..., None] * (colours[2] - 0.5)
    return mixed


def video(parts: list[Part], session: Session, frames: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A short video of one object in one session, [frames, 3, SIZE, SIZE]."""
    side = SIZE * SCALE
    line = (np.arange(side) + 0.5) / side * 2 - 1
    gx, gy = np.meshgrid(line, line)
    t = np.linspace(0, 1, frames) + rng.uniform(-0.3, 0.3) / frames
    phase = rng.uniform(0, 2 * np.pi, 4)
    turn = session.turn + 0.9 * np.sin(2 * np.pi * t * 0.7 + phase[0])
    zoom = session.scale * (1 + 0.15 * np.sin(2 * np.pi * t + phase[1]))
    squeeze = 1 - 0.35 * np.abs(np.sin(np.pi * t + phase[2]))  # turning away from the camera
    centre = 0.15 * np.stack([np.sin(2 * np.pi * t + phase[3]), np.cos(2 * np.pi * t * 0.8 + phase[0])], axis=1)
    image = backdrop(session, gx[None], gy[None], centre * 1.5 + rng.uniform(-2, 2, 2))

    dx, dy = gx[None] - centre[:, 0, None, None], gy[None] - centre[:, 1, None, None]
    c, s = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
    scale = zoom[:, None, None]
    x, y = (c * dx + s * dy) / scale, (c * dy - s * dx) / scale / squeeze[:, None, None]
    soft = 2.5 / side / session.scale
    for part in parts:
        d, u, v = distance(part, x, y)
        lit = 1 + session.contrast * np.tanh(1.5 * (dx * session.light[0] + dy * session.light[1]) / scale)
        edge = np.clip(-d / 0.08, 0, 1) ** 0.5  # darker towards the rim, as on a round body
        colour = paint(part, u, v) * (lit * (0.65 + 0.35 * edge))[..., None]
        cover = np.clip(0.5 - d / soft, 0, 1)[..., None]
        image = image + cover * (colour - image)
    image = _hand(image, session, gx, gy, t, rng)
    image = image * session.brightness * session.cast
    image = image.reshape(frames, SIZE, SCALE, SIZE, SCALE, 3).mean(axis=(2, 4))
    image = _blurred(image, session.blur)
    image = image + rng.normal(0, session.noise, image.shape)
    return np.round(np.clip(image, 0, 1) * 255).astype(np.uint8).transpose(0, 3, 1, 2)


def _hand(image: Floats, session: Session, gx: Floats, gy: Floats, t: Floats, rng: np.random.Generator) -> Floats:
    """A hand that holds the object reaches in from one side."""
    reach = session.occlusion * (0.8 + 0.2 * np.sin(2 * np.pi * t + rng.uniform(0, 6)))[:, None, None]
    c, s = np.cos(session.hand), np.sin(session.hand)
    along, across = c * gx + s * gy, c * gy - s * gx
    d = np.hypot(np.maximum(along[None] * -1 + 1 - reach - 0.25, 0), across[None] * 1.2) - 0.3
    cover = np.clip(0.5 - d / 0.06, 0, 1)[..., None]
    skin: Floats = np.array([0.78, 0.58, 0.46]) * (0.9 + 0.1 * across[None, ..., None])
    covered: Floats = image + cover * (skin - image)
    return covered


def _blurred(image: Floats, amount: float) -> Floats:
    """A light blur, amount from 0 to 1."""
    for axis in (1, 2):
        padded = np.concatenate([image.take([0], axis), image, image.take([-1], axis)], axis)
        n = image.shape[axis]
        sides = padded.take(range(n), axis) + padded.take(range(2, n + 2), axis)
        image = image + amount / 3 * (sides / 2 - image)
    return image


def render(categories: int, objects: int, frames: int, *, seed: int, world: str) -> dict[str, NDArray[Any]]:
    """All videos: x [n, 3, SIZE, SIZE] uint8, and for each pattern its object, category, session (1-based) and frame.

    world: names a universe of objects and sessions; two worlds share none of either.
    """
    root = np.random.SeedSequence([VERSION, seed, *world.encode()])
    things, places, takes = (np.random.SeedSequence(root.entropy, spawn_key=(k,)) for k in range(3))
    sessions = [draw_session(np.random.default_rng(s)) for s in places.spawn(SESSIONS)]
    shapes = []
    for rng in (np.random.default_rng(s) for s in things.spawn(categories)):
        category = draw_category(rng)
        shapes += [draw_object(category, rng) for _ in range(objects)]
    seeds = iter(takes.spawn(len(shapes) * SESSIONS))
    parts: list[NDArray[np.uint8]] = []
    index = []
    for o, shape in enumerate(shapes):
        for k, session in enumerate(sessions, start=1):
            parts.append(video(shape, session, frames, np.random.default_rng(next(seeds))))
            index += [(o, o // objects, k, f) for f in range(frames)]
    columns = np.array(index, dtype=np.int64).T
    return {"x": np.concatenate(parts), **dict(zip(("object", "category", "session", "frame"), columns, strict=True))}
