# SPDX-License-Identifier: Apache-2.0
"""Answers for the spectral family: NumPy's transforms and plain sums in float64, rounded once."""
import numpy as np
from oracle import DTYPES, Fixtures

REAL = {"f32": "c64", "f64": "c128"}
NORMS = ("backward", "forward", "ortho")
REL = {"rel": 16}  # transforms of at most a hundred numbers, in ulps of the largest


def block(z, dtype):
    return np.concatenate([z.real, z.imag], -1).astype(DTYPES[dtype])


def unblock(x):
    n = x.shape[-1] // 2
    return x[..., :n].astype(np.float64) + 1j * x[..., n:]


def transform(z, inverse, norm, axis=-1):
    z = z.astype(np.complex128)
    if norm == "none":
        return np.fft.ifft(z, axis=axis, norm="forward") if inverse else np.fft.fft(z, axis=axis)
    return (np.fft.ifft if inverse else np.fft.fft)(z, axis=axis, norm=norm)


def fft_cases(f):
    for d in ("f32", "f64", "c64", "c128"):
        for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 22, 30, 35, 37, 64, 94,
                  97) if d == "c128" else (1, 4, 6, 7, 20, 37):
            is_complex = d[0] == "c"
            x = f.normal(d, (2 if n < 16 else 1, n if is_complex else 2 * n))
            inverse, norm = n % 3 == 0, (NORMS + ("none",))[n % 4]
            y = transform(x if is_complex else unblock(x), inverse, norm)
            f.case(f"fft_{n}_{d}", f"fft(x, inverse={str(inverse).lower()}, norm={norm})", {"x": x},
                   [y.astype(DTYPES[d]) if is_complex else block(y, d)], **REL)
    for d in ("c64", "c128"):
        x = f.normal(d, (4, 3, 5))
        for norm in NORMS:
            f.case(f"fftn_{norm}_{d}", f"fftn(x, norm={norm})", {"x": x},
                   [np.fft.fftn(x.astype("c16"), norm=norm).astype(DTYPES[d])], **REL)
        f.case(f"fftn_axes_{d}", "fftn(x, axes=[2, 0])", {"x": x},
               [np.fft.fftn(x.astype("c16"), axes=(2, 0)).astype(DTYPES[d])], **REL)
        f.case(f"ifftn_axes_{d}", "ifftn(x, axes=[-2, -1])", {"x": x},
               [np.fft.ifftn(x.astype("c16"), axes=(-2, -1)).astype(DTYPES[d])], **REL)
        f.case(f"fft_axis_{d}", "fft_axis(x, axis=1, norm=ortho)", {"x": x},
               [transform(x, False, "ortho", 1).astype(DTYPES[d])], **REL)
    for d in REAL:
        x = f.normal(d, (6, 2))
        y = transform(x[:3].astype(float) + 1j * x[3:], True, "backward", 0)
        f.case(f"fft_axis_{d}", "fft_axis(x, axis=0, inverse=true)", {"x": x},
               [np.concatenate([y.real, y.imag]).astype(DTYPES[d])], **REL)


def real_cases(f):
    for d in REAL:
        for length, n in ((8, 8), (7, 7), (1, 1), (5, 8), (9, 4), (9, 5), (3, 11), (30, 37)):
            x = f.normal(d, (2, length))
            norm = NORMS[n % 3]
            y = np.fft.rfft(x.astype(float), n, norm=norm)
            f.case(f"rfft_{length}_to_{n}_{d}", f"rfft(x, n={n}, norm={norm})", {"x": x},
                   [y.real.astype(DTYPES[d]), y.imag.astype(DTYPES[d])], **REL)
            bins = n // 2 + 1 + (length % 3 - 1 if n > 3 else 0)
            re, im = f.normal(d, (2, bins)), f.normal(d, (2, bins))
            y = np.fft.irfft(re.astype(float) + 1j * im, n, norm=norm)
            f.case(f"irfft_{bins}_to_{n}_{d}", f"irfft(re, im, n={n}, norm={norm})", {"re": re, "im": im},
                   [y.astype(DTYPES[d])], **REL)
        re, im = f.normal(d, (5,)), f.normal(d, (5,))
        f.case(f"irfft_default_{d}", "irfft(re, im)", {"re": re, "im": im},
               [np.fft.irfft(re.astype(float) + 1j * im).astype(DTYPES[d])], **REL)
        f.case(f"psd_{d}", "psd(re, im)", {"re": re, "im": im},
               [((re.astype(float)**2 + im.astype(float)**2) / 8).astype(DTYPES[d])], ulp=2)
        for la, lb in (((7,), (4,)), ((2, 5), (3,)), ((1,), (1,)), ((2, 1, 3), (3, 6))):
            a, b = f.normal(d, la), f.normal(d, lb)
            y = np.vectorize(np.convolve, signature="(m),(n)->(k)")(a.astype(float), b.astype(float))
            f.case(f"fft_conv1d_{d}", "fft_conv1d(a, b)", {"a": a, "b": b}, [y.astype(DTYPES[d])], **REL)


def frames(x, length, hop):
    starts = range(0, x.shape[-1] - length + 1, hop)
    return np.stack([x[..., s:s + length] for s in starts])


def power(spec, bins):
    n = spec.shape[-1] // 2
    return spec[..., :bins].astype(float)**2 + spec[..., n:n + bins].astype(float)**2


def feature_cases(f):
    for d in REAL:
        for shape, length, hop in (((19,), 8, 3), ((2, 12), 5, 4), ((2, 2, 6), 6, 1)):
            x, w = f.normal(d, shape), f.normal(d, (length,))
            for tag, window in (("", np.ones(length)), ("_window", w.astype(float))):
                y = np.fft.rfft(frames(x.astype(float), length, hop) * window)
                args = {"x": x, "w": w} if tag else {"x": x}
                f.case(f"stft{tag}_{d}", f"stft({', '.join(args)}, frame_len={length}, hop={hop})", args, [block(y, d)],
                       **REL)
        spec, filt = f.normal(d, (3, 14)), np.abs(f.normal(d, (5, 4)))
        spec[1] *= 1e-7
        y = np.log10(np.maximum(power(spec, 4) @ filt.T.astype(float), 1e-10))
        f.case(f"log_mel_{d}", "log_mel(spec, filt)", {"spec": spec, "filt": filt}, [y.astype(DTYPES[d])], **REL)
        z = (np.maximum(y, y.max() - 8) + 4) / 4
        f.case(f"log_mel_normalize_{d}", "log_mel_normalize(y)", {"y": y.astype(DTYPES[d])}, [z.astype(DTYPES[d])],
               **REL)
        z = (np.maximum(y, y.max() - 2) + 1) / 3
        f.case(f"log_mel_normalize_own_{d}", "log_mel_normalize(y, range=2, shift=1, scale=3)",
               {"y": y.astype(DTYPES[d])}, [z.astype(DTYPES[d])], **REL)
        spec = f.normal(d, (4, 2, 12))
        mean = power(spec, 6).mean(0)
        idx = np.argsort(-mean, axis=-1, kind="stable")[..., :3]
        f.case(f"welch_peaks_{d}", "welch_peaks(spec, k=3)", {"spec": spec},
               [np.take_along_axis(mean, idx, -1).astype(DTYPES[d]), idx.astype(np.int32)], **REL)
    for d in ("f16", "bf16", "f32", "f64"):
        for n in (1, 2, 7, 10):
            k = np.arange(n)
            k = np.where(2 * k < n, k, k - n)
            f.case(f"fftfreq_{n}_{d}", f"fftfreq(n={n}, dtype={d})", {}, [(k / n).astype(DTYPES[d])])
            f.case(f"rfftfreq_{n}_{d}", f"rfftfreq(n={n}, dtype={d})", {},
                   [(np.arange(n // 2 + 1) / n).astype(DTYPES[d])])


def complex_bin_cases(f):
    for d, z in (("f32", "c64"), ("f64", "c128")):
        for length, n in ((8, 8), (7, 7), (5, 12), (9, 5)):
            norm = NORMS[n % 3]
            x = f.normal(d, (2, length))
            f.case(f"rfft_complex_{length}_to_{n}_{d}", f"rfft_complex(x, n={n}, norm={norm})", {"x": x},
                   [np.fft.rfft(x.astype(float), n, norm=norm).astype(DTYPES[z])], **REL)
            y = f.normal(z, (2, length))
            f.case(f"irfft_complex_{length}_to_{n}_{d}", f"irfft_complex(z, n={n}, norm={norm})", {"z": y},
                   [np.fft.irfft(y.astype("c16"), n, norm=norm).astype(DTYPES[d])], **REL)


if __name__ == "__main__":
    with Fixtures("spectral") as fixtures:
        fft_cases(fixtures)
        real_cases(fixtures)
        feature_cases(fixtures)
        complex_bin_cases(fixtures)
