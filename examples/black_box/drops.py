"""A small simulator that is independent of Twinloop: a ball falls, bounces, and comes to rest.

    python drops.py --height 2 --gravity 9.81 --drag 0.05 --bounce 0.8

prints one JSON object: when the ball first touches the ground, how often it bounces before it
rises less than a millimetre, and when that is (s). Between two bounces it is stepped through time;
the air slows it down by drag x speed squared (per metre), the ground gives back a share of its
speed.
"""

import argparse
import json
import sys

STEP = 1e-3  # s
LOWEST = 1e-3  # m


def fall(height: float, gravity: float, drag: float, bounce: float) -> dict[str, float]:
    now, y, speed = 0.0, height, 0.0
    first, bounces = 0.0, 0
    while True:
        acceleration = -gravity - drag * speed * abs(speed)
        y += speed * STEP + acceleration * STEP * STEP / 2
        speed += acceleration * STEP
        now += STEP
        if y > 0.0 or speed >= 0.0:
            continue
        now += y / -speed  # back to the moment at which it touched the ground
        y, speed = 0.0, -bounce * speed
        first = first or now
        if speed * speed < 2 * gravity * LOWEST:
            return {"first": first, "bounces": bounces, "rest": now}
        bounces += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="how a ball falls, bounces, and comes to rest")
    for name in ("height", "gravity", "drag", "bounce"):
        parser.add_argument(f"--{name}", type=float, required=True)
    given = parser.parse_args()
    if given.height <= 0 or given.gravity <= 0 or given.drag < 0 or not 0 <= given.bounce < 1:
        sys.exit("height and gravity must be positive, the drag not negative, the bounce in [0, 1)")
    print(json.dumps(fall(given.height, given.gravity, given.drag, given.bounce)))


if __name__ == "__main__":
    main()
