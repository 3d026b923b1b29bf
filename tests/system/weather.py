"""Bad days for a server: what a disk, a clock or a network may do to it (see interpose.c)."""

import mmap
import os
import shutil
import struct
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Weather:
    """Calm until it is set. Give `environment` to the process it is for."""

    # In the order of the struct in interpose.c.
    FIELDS = ("sync_delay_ms", "clock_ms", "death", "send_buffer", "syncing",
              "cold", "read_delay_ms", "reading", "accept_hangs", "accepting",
              "index_sync_delay_ms", "index_syncing", "closed", "closed_here", "no_memory",
              "slow", "slow_ms", "read_fails", "write_fails", "write_full", "sync_fails", "seed", "faults",
              "config_delay_ms", "config_reading", "segment_syncing", "segment_syncs", "syncs_together")
    BEFORE_SYNC, AFTER_SYNC, BEFORE_WRITE, HALF_A_WRITE = 1, 2, 3, 4

    def __init__(self):
        compiler = shutil.which("clang-19") or shutil.which("cc")
        if compiler is None:
            raise AssertionError("no C compiler is installed")
        self.home = tempfile.mkdtemp(prefix="cairn-weather-")
        library, path = os.path.join(self.home, "interpose.so"), os.path.join(self.home, "weather")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, os.path.join(HERE, "interpose.c"), "-ldl"], check=True)
        with open(path, "w+b") as file:
            file.write(bytes(8 * len(self.FIELDS)))
            file.flush()
            self.memory = mmap.mmap(file.fileno(), 8 * len(self.FIELDS))
        self.environment = {"LD_PRELOAD": library, "WEATHER_FILE": path}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.memory.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def set(self, **fields):
        for name, value in fields.items():
            struct.pack_into("=q", self.memory, 8 * self.FIELDS.index(name), value)

    def get(self, name):
        return struct.unpack_from("=q", self.memory, 8 * self.FIELDS.index(name))[0]

    def clear(self):
        """Calm again; what it told is forgotten too."""
        self.set(**dict.fromkeys(self.FIELDS, 0))
