"""Fingerprints see every import of our own files, and an edit of a user's."""

import ast

from assay import code_digests, plugins


def test_a_users_file_that_is_edited_has_another_digest(tmp_path):
    """In one process, as a notebook is: what was read of it before no longer counts."""
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    (tmp_path / "beside.py").write_text("y = 1\n")
    before = code_digests.code_digests(file)
    file.write_text("import beside\nx = 2\n")
    after = code_digests.code_digests(file)
    assert before["mine.py"] != after["mine.py"] and "beside.py" in after


def test_no_import_of_ours_is_overlooked_but_those_for_editors():
    """Our own files are not parsed whole: every import must be written so that it is seen."""
    for path in sorted(plugins.PACKAGE.rglob("*.py")):
        nodes = run_nodes(ast.parse(path.read_text()))
        wanted = {ast.unparse(n) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)}
        assert wanted <= set(map(ast.unparse, code_digests._imports(path))), path


def run_nodes(tree):
    """The nodes of a text but those that `if TYPE_CHECKING` keeps from running."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from run_nodes(node)
