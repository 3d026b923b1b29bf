"""Names and pages: who is answered on a listener that only this machine reaches."""

import os
import tempfile
import unittest

from demo import Demo
from storage_server import Storage
from wire import head


class Origin(unittest.TestCase):
    def test_a_rebound_name_is_421_and_named_after_its_key_until_it_is_configured(self):
        with Storage() as storage:
            for host in ("localhost", "127.0.0.1:1", "[::1]", "a.localhost"):
                self.assertEqual(storage.ask("GET", "/o", host=host).status, 200, host)
            answer = storage.ask("GET", "/o", host="rebound.example")
            self.assertEqual((answer.status, answer.error()["code"]), (421, "misdirected"))
            self.assertIn("server.names", answer.error()["message"])
            self.assertEqual(storage.ask_openly("GET", "/healthz", host="10.0.0.1").status, 200)
            with storage.connect() as connection:
                self.assertEqual(connection.send(head("GET /o HTTP/1.0", f"Authorization: Bearer {storage.token}")).read().status, 200)
        with Storage({"server.names": "rebound.example"}) as storage:
            self.assertEqual(storage.ask("GET", "/o", host="rebound.example:80").status, 200)

    def test_names_are_reloaded(self):
        with Demo({"server.names": ""}, config='[cors]\norigins = []\n') as demo:
            self.assertEqual(demo.ask("POST", "/echo", b"x", Origin="https://app.example").status, 403)
            self.assertEqual(demo.reload('[cors]\norigins = ["https://app.example"]\n'), "applied")
            self.assertEqual(demo.ask("POST", "/echo", b"x", Origin="https://app.example").status, 200)
            self.assertEqual(demo.ask("POST", "/echo", b"x", Origin="null").status, 403)
            self.assertEqual(demo.ask("GET", "/mem/x", Origin="null").status, 200)

    def test_a_listener_that_others_reach_takes_any_name_and_a_socket_too(self):
        with Demo({"server.names": ""}, bind="0.0.0.0:0") as demo:
            demo.address = ("127.0.0.1", demo.address[1])
            self.assertEqual(demo.ask("GET", "/mem/x", host="whatever.example").status, 200)
        with tempfile.TemporaryDirectory(prefix="cairn-origin-") as directory:
            path = os.path.join(directory, "s")
            with Demo({"uds.path": path}) as demo:
                demo.address = path
                self.assertEqual(demo.ask("GET", "/mem/x", host="whatever.example").status, 200)


if __name__ == "__main__":
    unittest.main()
