# SPDX-License-Identifier: Apache-2.0
"""What the plugin's library offers to this package beside the PJRT interface: an entry in its chain of extensions."""

import ctypes
import functools

_EXTENSION = 0x466C78  # PJRT_EXTENSION_CALLBACK


class View(ctypes.Structure):
    """An array in memory, dense and row-major."""

    _fields_ = [("data", ctypes.c_void_p), ("dims", ctypes.POINTER(ctypes.c_int64)), ("dtype", ctypes.c_int32),
                ("rank", ctypes.c_int32)]


Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t, ctypes.POINTER(View), ctypes.c_size_t,
                            ctypes.POINTER(View), ctypes.c_void_p, ctypes.c_size_t)
Writer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)


class _Extension(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int32), ("next", ctypes.c_void_p),
                ("set_callback", ctypes.CFUNCTYPE(None, Callback)),
                ("show_programs", ctypes.CFUNCTYPE(None, ctypes.c_int32)),
                ("write_process", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, Writer))]


class _Api(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]


@functools.cache
def extension(path):
    library = ctypes.CDLL(str(path))
    library.GetPjrtApi.restype = ctypes.POINTER(_Api)
    address = library.GetPjrtApi().contents.extension_start
    while address:
        found = _Extension.from_address(address)
        if found.type == _EXTENSION:
            return found
        address = found.next
    raise RuntimeError("the library has no extension of its own")
