# SPDX-License-Identifier: Apache-2.0
"""Images and sound as other programs write them, for tests/data/pictures.c and tests/data/sounds.c: each file
fixtures/data/NAME.png, .pgm, .ppm or .wav comes with NAME.npy, what it holds as [channels, height, width] or
[channels, samples]. Made with Pillow and the module wave of Python.
    python tests/oracle/images.py"""
import pathlib
import wave

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "fixtures" / "data"
RANDOM = np.random.default_rng(17)


def smooth(height, width, channels, most=255):
    """Slopes with some noise: the encoder then chooses all kinds of filters."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [most * ((k + 1) * x + (k + 2) * y) / ((k + 1) * width + (k + 2) * height) for k in range(channels)]
    noise = RANDOM.integers(-most // 20, most // 20 + 1, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, most).astype(np.uint16 if most > 255 else np.uint8)


def save(name, image, expected, **options):
    image.save(FOLDER / name, **options)
    stem = name.replace(".", "_")
    np.save(FOLDER / f"{stem}.npy", np.ascontiguousarray(np.moveaxis(np.atleast_3d(expected), -1, 0)))


def save_images():
    grey, rgb, rgba = smooth(13, 11, 1)[..., 0], smooth(12, 17, 3), smooth(9, 10, 4)
    save("grey.png", Image.fromarray(grey), grey)
    save("grey_alpha.png", Image.fromarray(rgba[..., :2], "LA"), rgba[..., :2])
    save("rgb.png", Image.fromarray(rgb), rgb, optimize=True)
    save("rgba.png", Image.fromarray(rgba), rgba)
    wide = smooth(7, 9, 1, 65535)[..., 0]
    save("grey16.png", Image.fromarray(wide), wide)
    bits = (grey > 128).astype(np.uint8)
    save("bits.png", Image.fromarray(bits * 255).convert("1"), bits * 255)
    for colours in (3, 13, 200):
        palette = Image.fromarray(rgb).quantize(colours)
        save(f"palette{colours}.png", palette, np.asarray(palette.convert("RGB")))
    holes = Image.fromarray(rgb).quantize(20)
    filled = np.asarray(holes.convert("RGBA")).copy()
    filled[np.asarray(holes) == 5, 3] = 0
    save("palette_holes.png", holes, filled, transparency=5)
    save("grey.pgm", Image.fromarray(grey), grey)
    save("rgb.ppm", Image.fromarray(rgb), rgb)


def save_sound(name, width, channels, rate):
    count = 50
    most = 2 ** (8 * width - 1)
    values = RANDOM.integers(-most, most, (count, channels))
    stored = (values + 128).astype(np.uint8) if width == 1 else values.astype("<i4")
    raw = stored.tobytes() if width in (1, 4) else b"".join(
        int(v).to_bytes(width, "little", signed=True) for v in values.reshape(-1))
    with wave.open(str(FOLDER / name), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(raw)
    np.save(FOLDER / (name.replace(".", "_") + ".npy"), (values.T / most).astype(np.float32))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_images()
    for bytes_each, tracks in ((1, 1), (2, 2), (3, 1), (4, 3)):
        save_sound(f"sound{8 * bytes_each}.wav", bytes_each, tracks, 8000 * bytes_each)
