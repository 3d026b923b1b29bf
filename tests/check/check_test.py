#!/usr/bin/env python3
"""Breaks each rule in a small tree of its own and expects the check to say so; then mends it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import compiled  # noqa: E402  pylint: disable=wrong-import-position
import generated  # noqa: E402  pylint: disable=wrong-import-position
import openapi  # noqa: E402  pylint: disable=wrong-import-position
import sources  # noqa: E402  pylint: disable=wrong-import-position
import symbols  # noqa: E402  pylint: disable=wrong-import-position
import tidied  # noqa: E402  pylint: disable=wrong-import-position
from tree import Tree, flags_of, without  # noqa: E402  pylint: disable=wrong-import-position

LAYERS = "# order\nbase\nruntime\nio\nserve\nservices\ncairn\n"


class Fixture(unittest.TestCase):
    """A tree in a temporary directory."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name).resolve()
        (self.root / "tests").mkdir()
        self.write("src/layers.txt", LAYERS)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *arguments):
        git = ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run([*git, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    def problems(self, check, whole=False):
        """What a fresh look at the tree finds, as text."""
        return [str(problem) for problem in check(Tree(self.root, "build", whole))]

    def refused(self, check, *words):
        found = self.problems(check)
        self.assertTrue(any(all(word in line for word in words) for line in found), f"{words} not in {found}")

    def accepted(self, check):
        self.assertEqual(self.problems(check), [])


class Layers(Fixture):
    def test_an_include_of_an_earlier_layer_is_fine(self):
        self.write("src/runtime/a.h", '#include "base/b.h"\n#include "runtime/c.h"\n#include <vector>\n')
        self.accepted(sources.layers)

    def test_an_include_of_a_later_layer_is_refused(self):
        self.write("src/base/a.h", '#pragma once\n  #  include "runtime/task.h"\n')
        self.refused(sources.layers, "src/base/a.h:2:", "base includes runtime")

    def test_a_sibling_service_is_refused(self):
        self.write("src/services/edge/a.cpp", '#include "services/edge/b.h"\n#include "services/storage/service.h"\n')
        self.refused(sources.layers, "a.cpp:2:", "service edge includes its sibling storage")
        self.assertEqual(len(self.problems(sources.layers)), 1)

    def test_src_never_includes_tests(self):
        self.write("tests/model/explorer.h", "")
        self.write("src/cairn/a.cpp", '#include "model/explorer.h"\n')
        self.write("src/cairn/b.cpp", '#include "../tests/model/explorer.h"\n')
        self.refused(sources.layers, "a.cpp:1:", "tests")
        self.refused(sources.layers, "b.cpp:1:", "tests")

    def test_angle_brackets_are_no_way_around(self):
        self.write("src/runtime/task.h", "")
        self.write("src/base/a.h", "#include <runtime/task.h>\n")
        self.refused(sources.layers, "src/base/a.h:1:", "is one of ours")

    def test_a_relative_include_is_refused(self):
        self.write("src/base/a.cpp", '#include "b.h"\n')
        self.refused(sources.layers, "not a path from src/")

    def test_a_directory_that_is_no_layer_is_refused(self):
        self.write("src/stuff/a.h", "")
        self.refused(sources.layers, "src/stuff is not in src/layers.txt")

    def test_tests_include_what_they_like(self):
        self.write("tests/sim/a.cpp", '#include "cairn/main.h"\n#include "services/edge/service.h"\n')
        self.accepted(sources.layers)

    def test_only_the_host_makes_the_world(self):
        self.write("src/serve/host.cpp", '#include "io/process.h"\n')
        self.accepted(sources.layers)
        self.write("src/serve/answer.cpp", '#include "io/process.h"\n')
        self.refused(sources.layers, "src/serve/answer.cpp:1:", "the real world")

    def test_an_undeclared_dependency_is_refused(self):
        self.write("src/serve/a.cpp", '#include "base/b.h"\n#include "io/file.h"\n')
        self.write("CMakeLists.txt", "layer(base)\nlayer(runtime cairn_base)\nlayer(io cairn_runtime)\nlayer(serve cairn_runtime)\n")
        self.refused(sources.layers, "a.cpp:2:", "add cairn_io to layer(serve")
        self.write("CMakeLists.txt", "layer(base)\nlayer(runtime cairn_base)\nlayer(io cairn_runtime)\nlayer(serve cairn_io)\n")
        self.accepted(sources.layers)

    def test_only_compose_knows_two_services(self):
        text = '#include "services/edge/service.h"\n#include "services/storage/service.h"\n'
        self.write("src/cairn/compose.cpp", text)
        self.accepted(sources.layers)
        self.write("src/cairn/main.cpp", text)
        self.refused(sources.layers, "main.cpp:2:", "only cairn/compose.cpp")


class Results(Fixture):
    def test_what_an_awaiter_returns_cannot_be_dropped(self):
        for right in (
            "struct A { [[nodiscard]] int await_resume(); };",
            "struct A {\n  void await_resume() const noexcept {}\n};",
            "int f(A& a) { return a.await_resume(); }",
            "int A::g() {\n  return await_resume();\n}",
        ):
            self.write("src/runtime/a.h", right + "\n")
            self.accepted(sources.results)
        for wrong in ("int await_resume();", "std::vector<int> await_resume() { return {}; }", "T& await_resume();"):
            self.write("src/runtime/a.h", "struct A {\n  " + wrong + "\n};\n")
            self.refused(sources.results, "src/runtime/a.h:2:", "[[nodiscard]]")


class Aborts(Fixture):
    def test_a_check_without_a_reason_and_a_reason_without_a_check_are_refused(self):
        self.write("src/http/a.cpp", "void f(int a) {\n  CHECK(a > (1)); // CHECK(no)\n  CHECK(a !=\n        2);\n}\n")
        self.write("src/http/a_test.cpp", "void g() { CHECK(false); }\n")
        self.write("src/base/b.cpp", "void g() { CHECK(false); }\n")
        self.refused(sources.aborts, "src/http/a.cpp:2:", "CHECK(a > (1))")
        self.refused(sources.aborts, "src/http/a.cpp:3:", "CHECK(a != 2)")
        self.assertEqual(len(self.problems(sources.aborts)), 2)
        self.write("docs/checks.md", "# Checks\n\n## http/a.cpp\n- `a > (1)`: ours\n- `a != 2`: ours\n")
        self.accepted(sources.aborts)
        self.write("src/http/a.cpp", "void f(int a) {\n  CHECK(a > (1));\n  CHECK(a > (1));\n}\n")
        self.refused(sources.aborts, "src/http/a.cpp:3:")
        self.refused(sources.aborts, "docs/checks.md:5:", "a != 2")


class Locks(Fixture):
    def test_a_mutex_outside_guarded_is_refused(self):
        self.write("src/runtime/guarded.h", "#include <mutex>\nstd::mutex m;\n")
        self.accepted(sources.locks)
        self.write("src/serve/a.cpp", "#include <mutex>\nint f() { std::scoped_lock lock(m); }\n")
        self.refused(sources.locks, "a.cpp:1:", "Guarded")
        self.refused(sources.locks, "a.cpp:2:", "std::scoped_lock")

    def test_words_in_comments_and_strings_do_not_count(self):
        self.write("src/base/a.cpp", '// std::mutex\n/* thread_local */ const char* s = "std::mutex";\nauto r = R"(thread_local)";\n')
        self.accepted(sources.locks)

    def test_thread_local_is_refused(self):
        self.write("src/serve/a.cpp", "\nthread_local int depth;\n")
        self.refused(sources.locks, "a.cpp:2:", "thread-local")

    def test_a_condition_variable_outside_runtime_is_refused(self):
        self.write("src/runtime/pool.h", "std::condition_variable changed;\n")
        self.accepted(sources.locks)
        self.write("src/io/a.cpp", "std::condition_variable changed;\n")
        self.refused(sources.locks, "src/io/a.cpp:1:")


class Waits(Fixture):
    def test_a_wait_without_a_deadline_is_refused(self):
        self.write("src/serve/a.cpp", "\nco_await wait(call.unbounded());\n")
        self.refused(sources.waits, "a.cpp:2:", "deadline")

    def test_one_that_is_bounded_at_once_is_fine(self):
        self.write("src/serve/a.cpp", "co_await wait(call.unbounded().within(patience));\nco_await wait(call\n    .unbounded()\n    .by(end));\n")
        self.accepted(sources.waits)

    def test_whoever_waits_for_its_own_memory_may(self):
        self.write("src/runtime/scope.cpp", "co_await wait(call.unbounded());\n")
        self.accepted(sources.waits)


class Labels(Fixture):
    def test_a_label_means_one_invariant(self):
        self.write("src/base/a.h", "// A.\n//   [AB-1] One.\n//   [AB-2] Two.\n")
        self.write("src/base/a.cpp", "CHECK(one);  // AB-1\n// AB-1, AB-2; SHA-256\n")
        self.accepted(sources.labels)
        self.write("src/base/b.h", "//   [AB-1] Another.\n")
        self.refused(sources.labels, "b.h:1:", "[AB-1] is defined in src/base/a.h:2 too")

    def test_a_label_that_is_defined_nowhere_is_refused(self):
        self.write("src/base/a.h", "//   [AB-1] One.\n")
        self.write("src/base/a.cpp", "\n// [AB-3]\n")
        self.refused(sources.labels, "a.cpp:2:", "AB-3 is defined nowhere")


class Names(Fixture):
    def test_file_names_that_say_nothing_are_refused(self):
        self.write("src/base/string_util.h", "")
        self.write("src/base/utility_price.h", "")
        self.refused(sources.names, "string_util.h:1:", "'util'")
        self.assertEqual(len(self.problems(sources.names)), 1)

    def test_type_names_that_say_nothing_are_refused(self):
        self.write("src/base/a.h", "class Simplify {};\nclass QueueManager {};\nclass [[nodiscard]] StoreImpl;\n")
        self.refused(sources.names, "a.h:2:", "QueueManager")
        self.refused(sources.names, "a.h:3:", "StoreImpl")
        self.assertEqual(len(self.problems(sources.names)), 2)

    def test_the_unfinished_is_refused(self):
        self.write("tests/a.py", "x = 1  # TO" "DO later\n")
        self.refused(sources.names, "tests/a.py:1:", "unfinished")

    def test_debug_prints_are_refused(self):
        code = '#include <cstdio>\nvoid f() { std::printf("here"); }\nvoid g(char* s) { snprintf(s, 1, "x"); }\n'
        self.write("src/cairn/output.cpp", code)
        self.accepted(sources.names)
        self.write("src/serve/a.cpp", code)
        self.refused(sources.names, "src/serve/a.cpp:2:", "std::printf")
        self.assertEqual(len(self.problems(sources.names)), 1)

    def test_one_file_alone_writes_to_stdout_and_stderr(self):
        for code in ('fmt::print("x");', "std::fwrite(s, 1, 1, stdout);", "std::fflush(stderr);", "::write(1, s, 1);"):
            self.write("src/cairn/a.cpp", f"void f() {{\n{code}\n}}\n")
            self.refused(sources.names, "src/cairn/a.cpp:2:", "prints with")

    def test_paths_of_one_machine_are_refused(self):
        self.write("src/base/a.h", "// see /ho" "me/me/notes\n// and base/work/x, https://a.example/root\n")
        self.refused(sources.names, "a.h:1:", "path of one machine")
        self.assertEqual(len(self.problems(sources.names)), 1)

    def test_a_nolint_names_its_check_and_reason(self):
        self.write("src/base/a.h", "int a;  // NOLINT(some-check): it is right\n")
        self.accepted(sources.names)
        self.write("src/base/a.h", "int a;  // NOLINT\nint b;  // NOLINT(some-check)\n")
        self.refused(sources.names, "a.h:1:", "NOLINT")
        self.refused(sources.names, "a.h:2:", "NOLINT")


class Format(Fixture):
    def test_a_badly_formatted_file_is_refused(self):
        shutil.copy(ROOT / ".clang-format", self.root)
        self.write("src/base/a.cpp", "int f() { return 1; }\n")
        self.accepted(sources.format)
        self.write("src/base/a.cpp", "int f() { return 1; }\nint  g( ) {return 2;}\n")
        self.refused(sources.format, "src/base/a.cpp:2:", "clang-format-19 -i src/base/a.cpp")


class Paths(Fixture):
    def program(self, *flags):
        """Compiles a program that tells the file it was made of, as both programs of the build."""
        source = self.write("src/cairn/main.cpp", "#include <cstdio>\nint main() { return std::puts(__FILE__); }\n")
        (self.root / "build").mkdir(exist_ok=True)
        for name in ("cairn", "cairn-demo"):
            subprocess.run(["clang++-19", "-g1", *flags, source, "-o", self.root / "build" / name], check=True)

    def test_a_path_of_the_building_machine_is_refused(self):
        self.program()
        self.refused(symbols.paths, "build/cairn:1:", f"carries {self.root}/src/cairn/main.cpp")

    def test_a_path_of_the_source_tree_is_fine(self):
        self.program(f"-fmacro-prefix-map={self.root}/=")
        self.accepted(symbols.paths)

    def test_a_program_that_is_not_built_is_no_proof(self):
        self.refused(symbols.paths, "build/cairn:1:", "is not built")


class Symbols(Fixture):
    def archive(self, layer, code):
        """Compiles the code as the one source of a layer's library."""
        source = self.write(f"src/{layer}/part.cpp", code)
        (self.root / "build").mkdir(exist_ok=True)
        built = self.root / "build" / "part.cpp.o"
        subprocess.run(["clang++-19", "-std=gnu++2b", "-O1", "-c", source, "-o", built], check=True)
        archive = self.root / "build" / f"libcairn_{layer}.a"
        archive.unlink(missing_ok=True)
        subprocess.run(["llvm-ar-19", "rc", archive, built], check=True)

    def test_code_that_computes_is_fine(self):
        self.archive("serve", "#include <string>\nstd::string f(std::string a) { return a + std::to_string(a.size()); }\n")
        self.accepted(symbols.symbols)

    def test_a_clock_is_refused(self):
        self.archive("serve", "#include <ctime>\n\nlong f() { timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec; }\n")
        self.refused(symbols.symbols, "src/serve/part.cpp:3:", "libcairn_serve.a references clock_gettime")

    def test_the_clock_of_the_standard_library_is_refused(self):
        self.archive("serve", "#include <chrono>\nauto f() { return std::chrono::steady_clock::now(); }\n")
        self.refused(symbols.symbols, "part.cpp:2:", "steady_clock::now")

    def test_files_sockets_threads_and_randomness_are_refused(self):
        self.archive(
            "serve",
            """#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/epoll.h>
#include <fstream>
#include <random>
#include <thread>
int a() { return open("x", 0); }
int b() { return socket(1, 2, 3); }
int c() { return epoll_create1(0); }
long d(char* p) { return getrandom(p, 1, 0); }
void e() { std::thread([] {}).join(); }
void f() { std::ofstream("x") << 1; }
unsigned g() { return std::random_device()(); }
void h() { std::this_thread::sleep_for(std::chrono::seconds(1)); }
""",
        )
        self.refused(symbols.symbols, "src/serve/part.cpp:9:", "references socket;")
        for name in ("open", "socket", "epoll_create1", "getrandom", "std::thread", "basic_ofstream", "random_device", "nanosleep"):
            self.refused(symbols.symbols, "src/serve/part.cpp", "references", name)

    def test_io_may_touch_the_world_and_runtime_may_start_threads(self):
        self.archive("io", "#include <sys/socket.h>\nint b() { return socket(1, 2, 3); }\n")
        self.archive("runtime", "#include <thread>\nvoid e() { std::thread([] {}).join(); }\n")
        self.accepted(symbols.symbols)
        self.archive("runtime", "#include <sys/socket.h>\nint b() { return socket(1, 2, 3); }\n")
        self.refused(symbols.symbols, "references socket")

    def test_state_is_refused_and_constants_are_not(self):
        self.archive("serve", 'const char* const names[] = {"a", "b"};\nconstexpr int n = 3;\nconst char* f(int i) { return names[i % n]; }\n')
        self.accepted(symbols.symbols)
        self.archive("serve", "int f() { static int calls = 0; return ++calls; }\nthread_local int depth = 0;\nint g() { return ++depth; }\n")
        self.refused(symbols.symbols, "keeps state in f()::calls")
        self.refused(symbols.symbols, "keeps state in depth")

    def test_a_missing_or_old_library_is_not_taken_for_a_clean_one(self):
        self.write("src/serve/part.cpp", "")
        self.refused(symbols.symbols, "libcairn_serve.a is not built")
        self.archive("serve", "int f() { return 1; }\n")
        self.accepted(symbols.symbols)
        self.write("src/serve/later.cpp", "")
        self.refused(symbols.symbols, "later.cpp", "is newer than libcairn_serve.a")


class Reviews(Fixture):
    def commit(self, day):
        git = ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "-q"], check=True)
        dated = {"GIT_COMMITTER_DATE": f"{day}T12:00:00Z", "PATH": os.environ["PATH"]}
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True, env=dated)

    def test_a_topology_that_nobody_looked_at_for_90_days_is_refused(self):
        self.write("docs/concurrency/demo.md", "# Demo\n\nOwner: us  \nLast reviewed: 2026-01-10\n")
        self.accepted(generated.reviews)
        self.commit("2026-04-10")
        self.accepted(generated.reviews)
        self.commit("2026-04-11")
        self.refused(generated.reviews, "docs/concurrency/demo.md:1:", "91 days")

    def test_a_topology_without_a_day_is_refused(self):
        self.write("docs/concurrency/demo.md", "# Demo\n")
        self.commit("2026-04-10")
        self.refused(generated.reviews, "when it was last reviewed")


class Docs(Fixture):
    def program(self, capacity):
        program = self.write(
            "build/cairn-demo",
            f"""#!/bin/sh
if [ "$1" = topology ]; then printf 'graph LR\\n  work[{capacity}]\\n'; exit; fi
printf 'keys\\n' >"$2/config/demo.md"
printf 'tasks\\ngraph LR\\n  work[{capacity}]\\nend\\n' >"$2/concurrency/demo.md"
""",
        )
        program.chmod(0o755)
        self.write("build/cairn", "#!/bin/sh\nexit 0\n").chmod(0o755)

    def test_a_changed_capacity_without_regenerating_is_refused(self):
        self.program(64)
        self.write("docs/config/demo.md", "keys\n")
        self.write("docs/concurrency/demo.md", "tasks\ngraph LR\n  work[64]\nend\n")
        self.accepted(generated.docs)
        self.program(65)
        self.refused(generated.docs, "docs/concurrency/demo.md:3:", "./dev docs")
        self.refused(generated.docs, "topology --mermaid")

    def test_a_missing_and_a_stray_page_are_refused(self):
        self.program(64)
        self.write("docs/concurrency/demo.md", "tasks\ngraph LR\n  work[64]\nend\n")
        self.write("docs/config/gone.md", "keys\n")
        self.refused(generated.docs, "docs/config/demo.md:1: is missing")
        self.refused(generated.docs, "docs/config/gone.md:1:", "not generated")

    def test_a_program_that_is_not_built_is_no_success(self):
        self.refused(generated.docs, "is not built")


class Openapi(Fixture):
    def setUp(self):
        super().setUp()
        self.document = {
            "openapi": "3.1.0",
            "info": {"title": "cairn demo", "version": "1", "license": {"name": "ours"}},
            "paths": {
                "/o/{id}": {
                    "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"$ref": "#/components/schemas/Id"}}],
                    "get": {
                        "operationId": "get_o_by_id",
                        "summary": "Read",
                        "parameters": [{"name": "range", "in": "query", "schema": {"type": "string"}}],
                        "responses": {
                            "200": {"description": "It", "content": {"application/json": {"schema": {"$ref": "../schemas/http-it.json"}}}},
                            "default": {"description": "An error"},
                        },
                        "security": [{}, {"capability": ["demo.read"]}],
                    },
                }
            },
            "components": {"schemas": {"Id": {"type": "string"}}, "securitySchemes": {"capability": {"type": "http", "scheme": "bearer"}}},
        }
        self.path = self.document["paths"]["/o/{id}"]
        self.operation = self.path["get"]
        self.write("docs/schemas/http-it.json", '{"type": "object"}')
        self.write("src/services/demo/get.cpp", 'Result<> f() { return query.allow_only({"range"}); }\n')

    def keep(self):
        self.write("docs/openapi/demo.json", json.dumps(self.document))

    def wrong(self, *said):
        self.keep()
        self.refused(openapi.openapi, "docs/openapi/demo.json:1:", *said)

    def test_a_whole_document_is_accepted_and_none_is_not(self):
        self.refused(openapi.openapi, "holds no document")
        self.keep()
        self.accepted(openapi.openapi)

    def test_an_operation_without_its_words_is_refused(self):
        for name, said in (("summary", "has no summary"), ("operationId", "no operationId"), ("responses", "what an error is")):
            kept = self.operation.pop(name)
            self.wrong(f"GET /o/{{id}}{':' if name == 'operationId' else ''}", said)
            self.operation[name] = kept
        del self.operation["responses"]["200"]
        self.wrong("what success is")

    def test_parameters_of_the_path_that_are_not_declared_are_refused(self):
        self.path["parameters"][0]["name"] = "other"
        self.wrong("the parameters of the path")

    def test_a_name_that_two_operations_have_is_refused(self):
        self.path["head"] = self.operation
        self.wrong("2 operations are get_o_by_id")

    def test_a_reference_to_nothing_is_refused(self):
        del self.document["components"]["schemas"]["Id"]
        self.wrong("#/components/schemas/Id, which is not there")
        (self.root / "docs/schemas/http-it.json").rename(self.root / "docs/schemas/http-other.json")
        self.wrong("../schemas/http-it.json, which is not there")
        self.refused(openapi.openapi, "docs/schemas/http-other.json:1: is referred to by no document")

    def test_an_unknown_security_scheme_is_refused(self):
        self.operation["security"] = [{"password": []}]
        self.wrong("asks for password")

    def test_a_query_that_only_one_side_knows_is_refused(self):
        self.keep()
        self.write("src/services/demo/get.cpp", 'Result<> f() { return query.allow_only({"range", "of"}); }\n')
        self.wrong("the query of, range is told 0 times and taken by 1 handlers")
        self.wrong("the query range is told 1 times and taken by 0 handlers")

    def test_what_is_no_schema_is_refused(self):
        self.document["components"]["schemas"]["Id"] = {"type": "text"}
        self.wrong("/components/schemas/Id is no schema")
        self.write("docs/schemas/http-it.json", '{"required": "all"}')
        self.refused(openapi.openapi, "docs/schemas/http-it.json:1: it is no schema")


class CompiledFixture(Fixture):
    """A tree with flags and clang-tidy's settings, which may use the real headers of the runtime."""

    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / ".clang-tidy", self.root)

    def commands(self, *names):
        flags = ["-std=gnu++2b", f"-I{self.root}/src", f"-I{ROOT}/src", "-Wall", "-Werror"]
        entries = [
            {"directory": str(self.root), "file": name, "arguments": ["clang++-19", *flags, "-o", "x.o", "-c", name]}
            for name in names
        ]
        self.write("build/compile_commands.json", json.dumps(entries))


class Compiled(CompiledFixture):
    def test_a_header_must_include_what_it_uses(self):
        self.write("src/base/a.h", "#pragma once\nconstexpr int size = 3;\nstruct Text { std::string value; };\n")
        self.refused(compiled.headers, "src/base/a.h:3:", "src/base/a.h must include what it uses")
        self.write("src/base/a.h", "#pragma once\n#include <string>\nstruct Text { std::string value; };\n")
        self.accepted(compiled.headers)

    def test_a_remembered_success_ends_when_an_included_file_changes(self):
        self.write("src/base/a.h", "#pragma once\nusing Number = int;\n")
        self.write("src/base/b.h", '#pragma once\n#include "base/a.h"\nNumber f();\n')
        self.accepted(compiled.headers)
        self.accepted(compiled.headers)
        self.write("src/base/a.h", "#pragma once\n")
        self.refused(compiled.headers, "src/base/b.h:3:")

    def test_a_header_that_the_build_compiles_first_is_left_to_it(self):
        self.write("src/base/a.h", "#pragma once\nstruct Text { std::string value; };\n")
        self.write("src/base/a.cpp", '#include "base/a.h"\n#include <string>\n')
        self.refused(compiled.headers, "src/base/a.h:2:")
        self.commands("src/base/a.cpp")
        self.accepted(compiled.headers)
        self.write("src/base/a.cpp", '#include <string>\n#include "base/a.h"\n')
        self.refused(compiled.headers, "src/base/a.h:2:")
        self.write("src/base/a_test.cpp", '#include "base/a.h"\n')
        self.commands("src/base/a_test.cpp")  # which the release build does not make
        self.refused(compiled.headers, "src/base/a.h:2:")

    def test_a_reference_into_a_coroutine_needs_a_name_or_a_reason(self):
        text = """#include "runtime/task.h"
struct Exchange {};
struct Other {};
cairn::Task<> a(Exchange& exchange) { (void)exchange; co_return; }
%s
cairn::Task<> b(Other& other) { (void)other; co_return; }
"""
        self.commands("src/serve/a.cpp", "src/serve/a_test.cpp")
        self.write("src/serve/a_test.cpp", text % "")
        self.write("src/serve/a.cpp", text % "// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): owned")
        self.accepted(compiled.tidy)
        self.write("src/serve/a.cpp", text % "")
        self.refused(compiled.tidy, "src/serve/a.cpp:6:", "avoid-reference-coroutine-parameters")
        self.assertEqual(len(self.problems(compiled.tidy)), 1)

    def test_a_header_is_judged_with_what_includes_it_and_else_alone(self):
        header = "struct Other {};\ninline cairn::Task<> b(Other& other) { (void)other; co_return; }\n"
        self.write("src/serve/a.h", '#pragma once\n#include "runtime/task.h"\n' + header)
        self.write("src/serve/a.cpp", '#include "serve/a.h"\ncairn::Task<> c() { co_return; }\n')
        self.commands("src/serve/a.cpp")
        self.refused(compiled.tidy, "src/serve/a.h:4:", "avoid-reference-coroutine-parameters")
        self.write("src/serve/a.cpp", '#include "runtime/task.h"\ncairn::Task<> c() { co_return; }\n')
        self.refused(compiled.tidy, "src/serve/a.h:4:", "avoid-reference-coroutine-parameters")

    def test_no_build_is_no_success(self):
        self.refused(compiled.tidy, "compile_commands.json")

    def test_what_must_fail_and_does_not_is_refused(self):
        name = "tests/check/must_fail/a.cpp"
        wrong = "// expect: cannot initialize\n#ifdef RIGHT\nint a = 1;\n#else\n%s\n#endif\n"
        self.write(name, wrong % "int* a = 1.5;")
        self.accepted(compiled.must_fail)
        self.write(name, wrong % "int a = 2;")
        self.refused(compiled.must_fail, "is accepted")
        self.write(name, wrong % "int a = unknown;")
        self.refused(compiled.must_fail, "for another reason", "unknown")
        self.write(name, "// expect: cannot initialize\nint* a = 1.5;\n#ifdef RIGHT\n#endif\n")
        self.refused(compiled.must_fail, "its RIGHT form is refused")
        self.write(name, "int* a = 1.5;\n")
        self.refused(compiled.must_fail, "lacks")


class Tidied(CompiledFixture):
    """A source that is not tidy, in a commit that says of itself that it is: whoever trusts the record accepts it."""

    def setUp(self):
        super().setUp()
        self.source = "#if 0\nco_await\n#endif\n%s\nunsigned long f(int* p) { return sizeof(sizeof(p)); }\n"
        self.write("src/serve/a.cpp", self.source % '#include "serve/b.h"')
        self.write("src/serve/b.h", '#pragma once\n#include "serve/c.h"\n')
        self.write("src/serve/c.h", "#pragma once\n")
        self.write("CMakeLists.txt", "add_compile_options(-Wall)\nlayer(serve)\n")
        self.write(".gitignore", "/build/\n")
        self.commands("src/serve/a.cpp")
        (self.root / "tests" / "check").mkdir()
        self.git("init", "-q")
        self.commit()
        # What a whole look would write if it found nothing.
        tree = Tree(self.root, "build", True)
        self.rules = compiled.tidy_rules(tree)
        self.assertEqual(tidied.note(tree, self.rules), "")
        self.commit()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")

    def looked_at(self):
        self.refused(compiled.tidy, "src/serve/a.cpp:5:", "sizeof")

    def test_what_cannot_have_changed_is_not_looked_at(self):
        self.accepted(compiled.tidy)
        self.write("src/serve/d.h", "#pragma once\n")
        self.write("CMakeLists.txt", "add_compile_options(-Wall)\nlayer(serve cairn_base)\n")
        self.accepted(compiled.tidy)

    def test_a_change_of_the_file_or_of_what_it_includes_is_looked_at(self):
        self.write("src/serve/a.cpp", self.source % '#include "serve/b.h"\n')
        self.refused(compiled.tidy, "src/serve/a.cpp:6:", "sizeof")
        self.git("checkout", "-q", "--", "src")
        self.accepted(compiled.tidy)
        self.write("src/serve/c.h", "#pragma once\n// more\n")
        self.looked_at()
        self.commit()
        self.looked_at()

    def test_a_file_that_git_does_not_know_yet_is_looked_at(self):
        self.write("src/serve/n.cpp", self.source % "")
        self.commands("src/serve/a.cpp", "src/serve/n.cpp")
        self.refused(compiled.tidy, "src/serve/n.cpp:5:", "sizeof")

    def test_other_rules_or_flags_are_a_look_at_everything(self):
        self.write("CMakeLists.txt", "add_compile_options(-Wall -DNEW)\nlayer(serve)\n")
        self.looked_at()
        self.git("checkout", "-q", "--", ".")
        self.accepted(compiled.tidy)
        self.write(".clang-tidy", (ROOT / ".clang-tidy").read_text() + "# more\n")
        self.looked_at()

    def test_a_record_that_is_no_proof_is_a_look_at_everything(self):
        self.accepted(compiled.tidy)
        tidy = self.git("rev-parse", "HEAD^{tree}")
        blob = self.git("rev-parse", "HEAD:CMakeLists.txt")
        for record in (f"{blob} {self.rules}\n", f"{'1' * 40} {self.rules}\n", f"{tidy} {'1' * 16}\n", f"{tidy}\n", ""):
            self.write(tidied.RECORD, record)
            self.looked_at()
        (self.root / tidied.RECORD).unlink()
        self.looked_at()
        self.write(tidied.RECORD, f"{tidy} {self.rules}\n")
        self.accepted(compiled.tidy)
        shutil.rmtree(self.root / ".git")
        self.looked_at()

    def test_a_commit_that_is_worded_anew_keeps_its_proof(self):
        self.git("commit", "-q", "--amend", "-m", "other words")
        self.accepted(compiled.tidy)

    def test_a_whole_look_notes_the_tree_when_everything_is_tidy(self):
        record = self.root / tidied.RECORD
        before = record.read_text()
        self.assertIn("sizeof", "".join(self.problems(compiled.tidy, whole=True)))
        self.assertEqual(record.read_text(), before)
        self.write("src/serve/a.cpp", "#if 0\nco_await\n#endif\n")
        self.assertIn("not committed", "".join(self.problems(compiled.tidy, whole=True)))
        self.assertEqual(record.read_text(), before)
        self.commit()
        self.assertEqual(self.problems(compiled.tidy, whole=True), [])
        self.assertEqual(record.read_text().split()[0], self.git("rev-parse", "HEAD^{tree}"))


class Reading(unittest.TestCase):
    def test_blanking_keeps_lines_and_knows_quotes(self):
        text = "int a = 1'000; // it's \"x\nchar c = '\"'; /* two\nlines */ auto s = \"// no\"; f(R\"x(\n\")x\");"
        code = without(text, "comment", "string")
        self.assertEqual(code.count("\n"), text.count("\n"))
        self.assertEqual(" ".join(code.split()), "int a = 1'000; char c = ; auto s = ; f( );")
        self.assertIn('"// no"', without(text, "comment"))

    def test_flags_leave_out_what_is_made(self):
        command = "clang++-19 -Isrc -O2 -g1 -std=gnu++2b -DX=1 -MD -MF d -o a.o -c a.cpp".split()
        self.assertEqual(flags_of(command), ["-Isrc", "-std=gnu++2b", "-DX=1"])


if __name__ == "__main__":
    unittest.main()
