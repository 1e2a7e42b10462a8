# SPDX-License-Identifier: Apache-2.0
"""compiled.as_text(): HLO of the program as it was given; on several devices the graph of each of them.

jaxlib makes HLO of the program that the plugin returns. It asks for it with every compilation too, which would take
longer than compiling: the plugin returns it only while as_text() asks.
"""

import contextlib
import ctypes
import re

from jax._src import stages

from . import PLATFORM, native

# The exchanges of Fluxion as HLO calls them.
_EXCHANGES = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)\(")

_MARK = b"flxpjrt1"


@contextlib.contextmanager
def _shown(extension):
    extension.show_programs(1)
    try:
        yield
    finally:
        extension.show_programs(-1)


def _process_text(extension, executable):
    parts = []
    writer = native.Writer(lambda text, size: parts.append(ctypes.string_at(text, size)))
    data = executable.serialize()
    data = data[max(data.find(_MARK), 0):]  # jaxlib may put metadata before the plugin's bytes
    failed = extension.write_process(data, len(data), writer)
    text = b"".join(parts).decode()
    if failed:
        raise NotImplementedError(text)
    return _EXCHANGES.sub(lambda m: m[1].replace("_", "-") + "(", text)


def install(path):
    extension = native.extension(path)
    original = stages.Executable.as_text

    def as_text(self):
        executable = self.xla_extension_executable()
        if executable.local_devices()[0].platform != PLATFORM:
            return original(self)
        if len(executable.local_devices()) > 1:
            return _process_text(extension, executable)
        with _shown(extension):
            return original(self)

    stages.Executable.as_text = as_text
