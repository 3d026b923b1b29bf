"""The check of the HTTP reference: a document that a stranger's tools can read, and that says what the handlers take."""

import collections
import json
import re
import subprocess

from tree import Problem, without

MEND = "change the table in routes.cpp or serve/openapi.cpp, then ./dev docs"
METHODS = ("get", "head", "put", "post", "patch", "delete", "options")
ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
ALLOWED = re.compile(r"allow_only\(\{([^}]*)\}\)")
# Debian's own: another python that comes first in PATH has none of Debian's modules.
PYTHON = "/usr/bin/python3"
VALIDATE = """
import json, sys
from jsonschema import Draft202012Validator, SchemaError
for where, schema in json.load(sys.stdin):
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        print(json.dumps([where, error.message]))
"""


def openapi(tree):
    """docs/openapi is whole: parameters, references, names, answers and schemas are there and valid, and queries are those of the handlers."""
    pages = tree.files("docs/openapi", suffixes=(".json",))
    if not pages:
        yield Problem("docs/openapi", 1, "holds no document", "./dev docs writes them")
    schemas, used = [], set()
    for page in pages:
        document = json.loads(page.read_text())
        for what in problems(document):
            yield Problem(tree.rel(page), 1, what, MEND)
        for where, target in references(document):
            found, kept = resolve(document, page, target)
            if not found:
                yield Problem(tree.rel(page), 1, f"{where} refers to {target}, which is not there", MEND)
            used.add(kept)
        schemas += [(f"{tree.rel(page)}:{where}", schema) for where, schema in embedded(document)]
        yield from queries(tree, page, document)
    for path in tree.files("docs/schemas", suffixes=(".json",)):
        schemas.append((tree.rel(path), json.loads(path.read_text())))
        if path.name.startswith("http-") and path.resolve() not in used:
            yield Problem(tree.rel(path), 1, "is referred to by no document in docs/openapi", "delete it, or name it in routes.cpp")
    yield from invalid(schemas)


def operations(document):
    """(path, its item, method, operation), in the order of the document."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, item, method, item[method]


def problems(document):
    if not re.fullmatch(r"3\.1\.\d+", document.get("openapi", "")):
        yield "is not of OpenAPI 3.1"
    for name in ("title", "version", "license"):
        if name not in document.get("info", {}):
            yield f"does not tell its {name}"
    seen = collections.Counter()
    schemes = document.get("components", {}).get("securitySchemes", {})
    for path, item, method, operation in operations(document):
        where = f"{method.upper()} {path}"
        name = operation.get("operationId", "")
        seen[name] += 1
        if not ID.fullmatch(name):
            yield f"{where}: '{name}' is no operationId in snake_case"
        if not operation.get("summary"):
            yield f"{where} has no summary"
        responses = operation.get("responses", {})
        if "default" not in responses:
            yield f"{where} does not say what an error is"
        if not any(re.fullmatch("2..", status) for status in responses):
            yield f"{where} does not say what success is"
        for status, response in responses.items():
            if "$ref" not in response and not response.get("description"):
                yield f"{where} does not describe {status}"
        declared = [one for one in item.get("parameters", []) + operation.get("parameters", []) if one.get("in") == "path"]
        if sorted(re.findall(r"\{([^}]*)\}", path)) != sorted(one["name"] for one in declared):
            yield f"{where}: the parameters of the path are not those that are declared"
        if not all(one.get("required") for one in declared):
            yield f"{where}: a parameter of the path is not required"
        for requirement in operation.get("security", []):
            for scheme in requirement:
                if scheme not in schemes:
                    yield f"{where} asks for {scheme}, which is no security scheme"
    for name, count in seen.items():
        if count > 1:
            yield f"{count} operations are {name}"


def walk(value, where=""):
    """Every value inside, with its place."""
    yield where, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from walk(one, f"{where}/{key}")


def references(document):
    return [(where, value["$ref"]) for where, value in walk(document) if isinstance(value, dict) and "$ref" in value]


def embedded(document):
    """The schemas that stand in the document itself."""
    for where, value in walk(document):
        if re.fullmatch(r"/components/schemas/[^/]+|.*/schema", where):
            yield where, value


def resolve(document, page, target):
    """Whether it is there, and the file that it is."""
    file, _, pointer = target.partition("#")
    if file:
        path = (page.parent / file).resolve()
        return path.is_file() and not pointer, path
    value = document
    for key in pointer.strip("/").split("/"):
        if not isinstance(value, dict) or key not in value:
            return False, None
        value = value[key]
    return True, None


def queries(tree, page, document):
    """What the handlers of a service let through is what its table says, list for list."""
    told = collections.Counter()
    for _, _, method, operation in operations(document):
        names = [one["name"] for one in operation.get("parameters", []) if one.get("in") == "query"]
        if names and method != "head":
            told[", ".join(sorted(names))] += 1
    taken = collections.Counter()
    for path in tree.files(f"src/services/{page.stem}", suffixes=(".cpp",)):
        for found in ALLOWED.findall(without(tree.text(path), "comment")):
            taken[", ".join(sorted(re.findall(r'"([^"]*)"', found)))] += 1
    for names in sorted((told - taken) + (taken - told)):
        yield Problem(tree.rel(page), 1, f"the query {names} is told {told[names]} times and taken by {taken[names]} handlers", MEND)


def invalid(schemas):
    """Those that are no JSON Schema of 2020-12."""
    done = subprocess.run([PYTHON, "-c", VALIDATE], input=json.dumps(schemas), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        yield Problem("docs/schemas", 1, f"cannot be validated: {said[0]}", "./dev check installs python3-jsonschema")
    for line in done.stdout.splitlines():
        where, message = json.loads(line)
        file, _, place = where.partition(":")
        yield Problem(file, 1, f"{place or 'it'} is no schema: {message}")
