"""`cairn index` as a process of its own."""

import json
import os
import re
import subprocess

import demo
from storage_server import Storage, binary


class Index(Storage):
    """`cairn index` alone."""

    directory = property(lambda self: os.path.join(self.data, "index"))
    map = property(lambda self: os.path.join(self.directory, "index"))

    def spawn(self):
        arguments = [binary(), "index", "--data", self.data, "--bind", self.bind, *self.arguments]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        self.code = None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                                            env=demo.clean_environment(self.environment))
        return self

    def await_ready(self):
        line = self.line()
        match = re.fullmatch(r"index +http://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {line!r} {self.log()[-2000:]}")
        self.address = (match[1], int(match[2]))
        with open(os.path.join(self.data, "keys", "admin.cap")) as file:
            self.token = file.read().strip()
        return self

    def put_name(self, name, manifest, note=None, **fields):
        document = {"manifest": manifest, **({"note": note} if note else {})}
        return self.ask("PUT", f"/names/{name}", json.dumps(document).encode(), **fields)
