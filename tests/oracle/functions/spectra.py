# SPDX-License-Identifier: Apache-2.0
"""Transforms and what is made of them. Losses are quartic in the spectrum, so that second derivatives depend on the
point."""
import jax.numpy as jnp

from gradients import at, normal, uniform

Z = normal(5, dtype="c128")
NORMS = ("backward", "forward", "ortho")


def quartic(re, im):
    return jnp.sum((re * re + im * im)**2)


def block(x):
    n = x.shape[-1] // 2
    return x[..., :n] + 1j * x[..., n:]


def power(spec, bins):
    z = block(spec)[..., :bins]
    return jnp.real(z)**2 + jnp.imag(z)**2


def log_mel(spec, filt):
    e = power(spec, filt.shape[1]) @ filt.T
    low = e <= 1e-10
    return jnp.where(low, -10.0, jnp.log10(jnp.where(low, 1.0, e)))


def stft(x, w, hop):
    starts = range(0, x.shape[-1] - len(w) + 1, hop)
    y = jnp.fft.rfft(jnp.stack([x[s:s + len(w)] for s in starts]) * w)
    return jnp.concatenate([jnp.real(y), jnp.imag(y)], -1)


def add(t):
    for norm in NORMS:
        for inverse, f in ((False, jnp.fft.fft), (True, jnp.fft.ifft)):
            word = "inverse" if inverse else "forward"
            call = f"inverse={str(inverse).lower()}, norm={norm}"
            t.fn(f"fft_{word}_by_{norm}", f"reduce_sum(square(complex_norm_sq(add(fft(z, {call}), z))))",
                 lambda z, f=f, norm=norm: (lambda y: quartic(jnp.real(y), jnp.imag(y)))(f(z, norm=norm) + z),
                 "grad hvp vmapgrad", z=Z)
            t.fn(f"fft_block_{word}_by_{norm}", f"reduce_sum(mul(fft(x, {call}), square(x)))",
                 lambda x, f=f, norm=norm: (lambda y: jnp.sum(jnp.concatenate([jnp.real(y), jnp.imag(y)]) * x
                                                              * x))(f(block(x), norm=norm)),
                 "grad hvp vmapgrad", x=normal(6))
    t.fn("fft_chirp", "reduce_sum(square(complex_norm_sq(fft(z))))",
         lambda z: (lambda y: quartic(jnp.real(y), jnp.imag(y)))(jnp.fft.fft(z)), "grad", z=normal(37, dtype="c128"))
    t.fn("fft_both_axes", "reduce_sum(square(complex_norm_sq(fftn(z))))",
         lambda z: (lambda y: quartic(jnp.real(y), jnp.imag(y)))(jnp.fft.fftn(z)), "grad hvp vmap",
         z=normal(2, 3, dtype="c128"))
    t.fn("ifft_both_axes", "reduce_sum(square(complex_norm_sq(ifftn(z, axes=[0, 1], norm=ortho))))",
         lambda z: (lambda y: quartic(jnp.real(y), jnp.imag(y)))(jnp.fft.ifftn(z, norm="ortho")), "hvp",
         z=normal(2, 3, dtype="c128"))
    for n in (5, 6, 4, 8):
        t.fn(f"rfft_of_{n}", f"re, im = rfft(x, n={n}); return reduce_sum(square(add(square(re), square(im))))",
             lambda x, n=n: (lambda y: quartic(jnp.real(y), jnp.imag(y)))(jnp.fft.rfft(x, n)), "grad hvp jvp vmapgrad",
             x=normal(6))
        bins = n // 2 + 1
        t.fn(f"irfft_to_{n}", f"reduce_sum(square(square(irfft(re, im, n={n}))))",
             lambda re, im, n=n: jnp.sum(jnp.fft.irfft(re + 1j * im, n)**4), "grad hvp jvp gradone", re=normal(bins),
             im=normal(bins))
    t.fn("stft_power", "reduce_sum(square(square(stft(x, w, frame_len=4, hop=3))))",
         lambda x, w: jnp.sum(stft(x, w, 3)**4), "grad hvp vmapgrad", x=normal(11), w=normal(4))
    t.fn("psd_sum", "reduce_sum(square(psd(re, im)))", lambda re, im: jnp.sum(((re**2 + im**2) / 6)**2), "grad hvp",
         re=normal(4), im=normal(4))
    t.fn("fft_convolution", "reduce_sum(square(square(fft_conv1d(a, b))))", lambda a, b: jnp.sum(jnp.convolve(a, b)**4),
         "grad hvp gradone", a=normal(5), b=normal(3))
    t.fn("log_mel_features", "reduce_sum(square(log_mel(spec, filt)))",
         lambda spec, filt: jnp.sum(log_mel(spec, filt)**2),
         "grad hvp vmapgrad", spec=normal(2, 10), filt=uniform(0.25, 1, 2, 3))
    t.fn("log_mel_below_floor", "reduce_sum(square(log_mel(spec, filt)))",
         lambda spec, filt: jnp.sum(log_mel(spec, filt)**2),
         "grad", spec=at([[1e-6, 2e-6, 1.0, 0.0], [0.5, 0.25, -1.0, 2.0]]), filt=at([[0.5, 0.25]]))
    t.fn("log_mel_normalized", "reduce_sum(square(log_mel_normalize(y, range=1)))",
         lambda y: jnp.sum(((jnp.maximum(y, jnp.max(y) - 1) + 4) / 4)**2), "grad hvp vmapgrad", y=normal(2, 4))
    t.fn("welch_peaks_values", "v, i = welch_peaks(spec, k=2); return reduce_sum(square(v))",
         lambda spec: jnp.sum(jnp.sort(power(spec, 4).mean(0))[-2:]**2), "grad hvp vmapgrad", spec=normal(3, 8))
    for n in (5, 6, 8):
        t.fn(f"rfft_complex_of_{n}", f"reduce_sum(square(complex_norm_sq(rfft_complex(x, n={n}))))",
             lambda x, n=n: (lambda y: quartic(jnp.real(y), jnp.imag(y)))(jnp.fft.rfft(x, n)), "grad hvp jvp vmapgrad",
             x=normal(6))
        t.fn(f"irfft_complex_to_{n}", f"reduce_sum(square(square(irfft_complex(z, n={n}))))",
             lambda z, n=n: jnp.sum(jnp.fft.irfft(z, n)**4), "grad hvp vmapgrad", z=normal(n // 2 + 1, dtype="c128"))
