# SPDX-License-Identifier: Apache-2.0
"""JAX on Fluxion: JAX imports this module when it looks for backends, and calls initialize().

The platform is called "fluxion". JAX_PLATFORMS=fluxion makes it the only one, JAX_PLATFORMS=fluxion,cpu keeps XLA's CPU
beside it. Options of the plugin are environment variables: FLX_PJRT_DEVICES, FLX_PJRT_THREADS, FLX_PJRT_MODE. The
library is found beside this file, or where FLX_PJRT_LIBRARY says.
"""

import logging
import os
import pathlib

PLATFORM = "fluxion"

_log = logging.getLogger(__name__)


def library_path():
    given = os.environ.get("FLX_PJRT_LIBRARY")
    return pathlib.Path(given) if given else pathlib.Path(__file__).parent / "libfluxion_pjrt.so"


def initialize():
    """Registers the plugin with JAX, then the rules that JAX lacks for a platform that it does not know."""
    from jax._src import xla_bridge

    path = library_path()
    if not path.exists():
        _log.warning("fluxion: %s does not exist; set FLX_PJRT_LIBRARY", path)
        return
    xla_bridge.register_plugin(PLATFORM, priority=500, library_path=str(path), options=None)
    _install("lowering rules", lambda: __import__(__name__ + ".rules", fromlist=["rules"]).install())
    _install("callbacks", lambda: __import__(__name__ + ".callbacks", fromlist=["callbacks"]).install(path))
    _install("foreign functions", lambda: __import__(__name__ + ".foreign", fromlist=["foreign"]).install())
    _install("texts of programs", lambda: __import__(__name__ + ".texts", fromlist=["texts"]).install(path))
    _install("rules of exported programs", lambda: __import__(__name__ + ".exports", fromlist=["exports"]).install())


def _install(what, function):
    """What a version of JAX has moved costs a feature, not the start."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-except
        _log.warning("fluxion: %s are not available with this version of JAX: %s", what, error)
